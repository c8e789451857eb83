#: about   pairs under deloc come together with their pages, and detach puts masks and pages back
#: machine ring4 mesh8
#: quick
#: limit   300
#: expect  steady_local >= 0.95
autonuma 0
start_numad
workload pairs --threads $cpus --region-kib 1024 --seconds 600 --seed 7
masks $program >/out/before
sleep 2
page-nodes $program >/out/pages.before
numadctl attach $program --policy deloc || fail "attach"
sleep 45
numadctl status
moved_threads || fail "no thread was moved"
moved_pages || fail "no page was moved"
uncount
keep_journal
numadctl detach $program || fail "detach"
masks $program >/out/after
diff /out/before /out/after || fail "masks differ after detach"
page-nodes $program >/out/pages.after
pages_back /out/pages.before /out/pages.after
stop_numad
kill $program
