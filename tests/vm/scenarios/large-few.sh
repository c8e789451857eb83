#: about   four threads of 32 MiB each: all their pages come home by samples as hardware takes them, and go back
#: machine ring4
#: quick
#: limit   240
#: expect  steady_local >= 0.95
autonuma 0
feed 50000 --seed 3
start_numad
workload slices --threads 4 --region 32M --seconds 3000 --seed 3
masks $program >/out/masks.before
before=$(homes $program)
numadctl attach $program --policy deloc || fail "attach"
# A window in which hardly anything was seen says nothing.
all_local() { [ "$(figure samples)" -gt 2000 ] && figure local_share | awk '{ exit !($1 >= 0.95) }'; }
within 200 all_local || fail "$(figure local_share) of accesses are local"
sleep 20
echo "before $before, now $(homes $program)"
numadctl status
uncount
# Those of one thread may lie where they belong.
moved=$(figure pages_moved)
[ "$moved" -ge 8192 ] || fail "only $moved pages were moved"
numadctl detach $program >/out/detach.txt 2>&1 || fail "$(cat /out/detach.txt)"
masks $program >/out/masks.after
diff /out/masks.before /out/masks.after || fail "masks differ after detach"
# By counts, for lists of 32,768 pages take this guest minutes to compare. Stacks and the like may grow by a few.
after=$(homes $program)
printf '%s\n' "$before" "$after" | awk -v nodes="$nodes" '
    { for (word = 1; word <= NF; word++) { split(substr($word, 2), part, "="); pages[NR, part[1]] = part[2] } }
    END { for (node = 0; node < nodes; node++) {
              more = pages[2, node] - pages[1, node]
              if (more > 16 || more < -16) exit 1 } }' || fail "pages are not back: before $before, after $after"
echo "after detach $after"
stop_numad
kill $program $feeder
