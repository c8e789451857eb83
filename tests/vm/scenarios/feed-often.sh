#: about   ten times the samples, one of 5,000 accesses: none is lost, and pages come home
#: machine ring4
#: limit   400
#: expect  steady_local >= 0.95
autonuma 0
feed 5000 --seed 7
start_numad
workload slices --threads $cpus --region-kib 1024 --seconds 600 --seed 7
numadctl attach $program --policy deloc || fail "attach"
within 120 moved_pages || fail "no page was moved"
sleep 30
numadctl status
uncount
kill -TERM $feeder
wait $feeder || fail "the feeder ended with $?"
contains "the feeder" "$(cat /out/feeder)" " 0 lost"
cat /out/feeder
numadctl detach $program || fail "detach"
stop_numad
kill $program
