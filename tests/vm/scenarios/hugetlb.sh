#: about   explicit huge pages stay whole and come back; small pages beside them move
#: machine ring4-huge mesh8
#: limit   300
autonuma 0
echo 12 >/proc/sys/vm/nr_hugepages
pool() { awk '/HugePages_(Total|Free)/{print $2}' /proc/meminfo | tr '\n' ' '; }
expect "the pool" "$(pool)" "12 12 "
start_numad
huge-slices >/out/workload &
program=$!
within 20 grep -q ready /out/workload || fail "no huge pages: $(pool)"
expect "the pool in use" "$(pool)" "12 4 "
masks $program >/out/masks.before
page-nodes $program >/out/pages.before
numadctl attach $program --policy deloc || fail "attach"
within 60 moved_pages || fail "no page was moved"
sleep 15
numadctl status
grep huge /proc/$program/numa_maps
expect "the pool while attached" "$(pool)" "12 4 "
keep_journal
numadctl detach $program || fail "detach"
masks $program | diff /out/masks.before - || fail "masks differ after detach"
page-nodes $program >/out/pages.after
pages_back /out/pages.before /out/pages.after
expect "the pool after detach" "$(pool)" "12 4 "
stop_numad
kill $program
wait $program 2>/dev/null
expect "the pool in the end" "$(pool)" "12 12 "
