#: about   a node without processors gets no threads, and pages there come to those who use them
#: machine tier4
#: limit   240
#: expect  steady_local >= 0.9
autonuma 0
start_numad
numadctl topo | grep -q "^3 .*none" || fail "topo does not say that node 3 has no processors"
LD_PRELOAD=/lib/mark.so numad-workload slices --threads 6 --region-kib 512 --seconds 600 --seed 2 --release-rounds 0 >/out/workload &
program=$!
within 20 grep -q . /out/workload || fail "the workload says nothing"
migratepages $program all 3 2>/dev/null
homes $program
numadctl attach $program --policy deloc || fail "attach"
within 40 moved_pages || fail "no page was moved"
sleep 20
for mask in $(masks $program | awk '{print $2}'); do
    case $mask in 0-1 | 2-3 | 4-5 | 0-5) ;; *) fail "a thread may run on $mask" ;; esac
done
homes $program
uncount
numadctl detach $program
stop_numad
kill $program
