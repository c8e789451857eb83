#: about   threads come together with whom they share with and with their pages; detach puts masks and pages back
#: machine ring4 mesh8
#: quick
#: limit   300
#: expect  steady_local >= 0.95
autonuma 0
start_numad
# Where a node has one processor, two that share cannot both have a node of their own and be together.
case $cpus_per_node in
    1) kind=slices ;;
    *) kind=pairs ;;
esac
workload $kind --threads $cpus --region-kib 1024 --seconds 600 --seed 7
masks $program >/out/before
sleep 2
page-nodes $program >/out/pages.before
numadctl attach $program --policy deloc || fail "attach"
sleep 45
numadctl status
moved_threads || fail "no thread was moved"
moved_pages || fail "no page was moved"
# Without the first thread, which only waits.
masks $program | tail -n +2 | awk -v room=$cpus_per_node '$2 != "0-7" && ++on[$2] > room { print "crowded:", $2; crowded = 1 }
    END { exit crowded }' || fail "more threads on a node than it has processors"
uncount
keep_journal
numadctl detach $program || fail "detach"
masks $program >/out/after
diff /out/before /out/after || fail "masks differ after detach"
page-nodes $program >/out/pages.after
pages_back /out/pages.before /out/pages.after
stop_numad
kill $program
