#: about   after kill -9 the next start puts back every mask and every page
#: machine ring4 mesh8
#: quick
#: limit   200
autonuma 0
start_numad
workload slices --threads $cpus --region-kib 512 --seconds 60 --seed 3
taskset -p 3 $(threads $program | tail -n 1) >/dev/null || fail "taskset"
sleep 1
masks $program >/out/masks.before
page_homes $program >/out/homes.before
page-nodes $program >/out/pages.before
numadctl attach $program --policy deloc || fail "attach"
within 30 moved_pages || fail "no page was moved"
kill -STOP $program
kill_numad
keep_journal
masks $program >/out/masks.during
! diff -q /out/masks.before /out/masks.during >/dev/null || fail "nothing was bound"
start_numad
masks $program >/out/masks.after
page_homes $program >/out/homes.after
diff /out/masks.before /out/masks.after || fail "masks differ after the next start"
diff /out/homes.before /out/homes.after || fail "pages are on other nodes after the next start"
page-nodes $program >/out/pages.after
pages_back /out/pages.before /out/pages.after
kill -CONT $program
stop_numad
kill $program
