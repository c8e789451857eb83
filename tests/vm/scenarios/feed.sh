#: about   samples that another program takes bring threads and pages together; a feed that ends changes status alone
#: machine ring4
#: quick
#: limit   200
#: expect  steady_local >= 0.9
autonuma 0
feed 50000 --seed 7
start_numad
workload slices --threads $cpus --region-kib 1024 --seconds 600 --seed 7
numadctl attach $program --policy deloc || fail "attach"
contains "status" "$(numadctl status)" "feed (another program samples)"
within 60 moved_pages || fail "no page was moved"
# Until all is where it belongs, also where the machine is busy: the last quarter is what counts.
sleep 30
contains "status" "$(numadctl status)" "fed by: numatruth, one of 50000 accesses"
uncount
kill -TERM $feeder
wait $feeder || fail "the feeder ended with $?"
contains "the feeder" "$(cat /out/feeder)" " 0 lost"
within 5 sh -c "numadctl status | grep -q 'nobody writes'" || fail "nobody is told to write"
# What a later version writes is told, and what comes after it is read again.
printf 'NUMADREC\001\0\0\0\0\0\0\0\003\0x' >/run/numad/feed
within 5 sh -c "numadctl status | grep -q 'version .3.'" || fail "a later version is not told"
feed 50000 --seed 7
within 10 sh -c "numadctl status | grep -q 'fed by: numatruth'" || fail "the feed is not read again"
numadctl detach $program || fail "detach"
stop_numad
kill $feeder
# A feed that others may write to: one line, an exit code, and nothing attached.
chmod 666 /run/numad/feed
start_numad
told=$(numadctl attach $program --policy deloc 2>&1)
expect "the exit code of an attach" $? 4
contains "the refusal" "$told" "others than its owner may write there"
stop_numad
kill $program
