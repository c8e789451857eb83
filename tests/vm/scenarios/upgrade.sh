#: about   the daemon is replaced under load, five times, and nothing stays behind
#: machine ring4 mesh8
#: limit   300
autonuma 0
start_numad
workload slices --threads $cpus --region-kib 512 --seconds 600 --seed 3
masks $program >/out/before
page-nodes $program >/out/pages.before
for round in 1 2 3 4 5; do
    numadctl attach $program --policy deloc || fail "attach in round $round"
    within 40 moved_threads || fail "round $round: no thread was moved"
    within 40 moved_pages || fail "round $round: no page was moved"
    keep_journal
    stop_numad
    masks $program | diff /out/before - || fail "round $round: masks differ after the stop"
    page-nodes $program >/out/pages.after
    pages_back /out/pages.before /out/pages.after
    cp /bin/numad /bin/numad.new && mv /bin/numad.new /bin/numad || fail "replace"
    start_numad
done
expect "attachments" "$(numadctl status --json | grep -c '"policy"')" 0
stop_numad
kill $program
