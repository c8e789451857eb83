#: about   a node without processors gets no threads, and pages there come to those who use them
#: machine tier4 tier8
#: limit   240
#: expect  steady_local >= 0.9
autonuma 0
start_numad
case $machine in
    tier4) allowed=" 0-1 2-3 4-5 0-5 " ;;
    tier8) allowed=" 0 1 2 3 4 5 6 0-6 " ;;
esac
numadctl topo | grep -q "^$nodes .*none" || fail "topo does not say that node $nodes has no processors"
# More than a processor's cache holds: else what is counted of memory is only what nobody uses much.
workload slices --threads $cpus --region-kib 1024 --seconds 600 --seed 2
migratepages $program all $nodes 2>/dev/null
homes $program
numadctl attach $program --policy deloc || fail "attach"
within 40 moved_pages || fail "no page was moved"
sleep 20
for mask in $(masks $program | awk '{print $2}'); do
    case "$allowed" in *" $mask "*) ;; *) fail "a thread may run on $mask" ;; esac
done
homes $program
uncount
numadctl detach $program
stop_numad
kill $program
