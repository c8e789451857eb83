#: about   transparent huge pages move as a whole and come back
#: machine ring4-huge
#: limit   300
autonuma 0
echo always >/sys/kernel/mm/transparent_hugepage/enabled
start_numad
workload slices --huge-pages --threads 8 --region-kib 8192 --seconds 300 --seed 6
huge() { awk '/AnonHugePages/{print $2}' /proc/$program/smaps_rollup; }
[ "$(huge)" -gt 16384 ] || fail "only $(huge) kB in huge pages"
before=$(huge)
homes $program
numadctl attach $program --policy deloc || fail "attach"
within 60 moved_pages || fail "no page was moved"
sleep 10
homes $program
[ "$(huge)" -ge $((before * 9 / 10)) ] || fail "huge pages were split: $before kB to $(huge) kB"
numadctl detach $program || fail "detach"
homes $program
stop_numad
kill $program
