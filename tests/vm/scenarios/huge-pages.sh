#: about   transparent huge pages move as a whole and come back
#: machine ring4-huge mesh8
#: limit   600
autonuma 0
echo always >/sys/kernel/mm/transparent_hugepage/enabled
start_numad
workload slices --pages huge --threads $cpus --region-kib 8192 --seconds 3000 --seed 6
huge() { awk '/AnonHugePages/{print $2}' /proc/$program/smaps_rollup; }
[ "$(huge)" -gt 16384 ] || fail "only $(huge) kB in huge pages"
before=$(huge)
homes $program
page-nodes $program >/out/pages.before
numadctl attach $program --policy deloc || fail "attach"
within 60 moved_pages || fail "no page was moved"
sleep 10
homes $program
[ "$(huge)" -ge $((before * 9 / 10)) ] || fail "huge pages were split: $before kB to $(huge) kB"
keep_journal
numadctl detach $program || fail "detach"
homes $program
page-nodes $program >/out/pages.after
pages_back /out/pages.before /out/pages.after
stop_numad
kill $program
