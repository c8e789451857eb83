#: about   shared memory goes back though those it was moved through have ended, at detach and after kill -9
#: machine ring4 mesh8
#: quick
#: limit   300
shared_moved() { [ "$(journal | awk '$2 == "shared" { pages += NF - 6 } END { print pages + 0 }')" -ge 100 ]; }
autonuma 0
start_numad
for undo in detach kill; do
    workload shared-processes --threads $cpus --region-kib 512 --seconds 600 --seed 3
    members=$(sed -n 's/^threads //p' /out/workload)
    sleep 1
    page-nodes $members >/out/pages.before
    numadctl attach --command numad-workload --policy deloc || fail "attach"
    within 90 shared_moved || fail "no shared pages were moved"
    [ $undo = detach ] || { kill -STOP $members && kill_numad; }
    keep_journal
    # Of each pair one ends: the older one, through which pages are moved while there are both.
    left=
    for pair in $(sed -n 's/^partners //p' /out/workload); do
        kill -KILL "${pair%+*}"
        left="$left ${pair#*+}"
    done
    if [ $undo = detach ]; then
        numadctl detach $program || fail "detach"
    else
        start_numad
        grep 'pages restored' /out/numad.log || fail "nothing was undone: $(cat /out/numad.log)"
    fi
    page-nodes $left >/out/pages.after
    pages_back /out/pages.before /out/pages.after 250
    kill -KILL $program $left
    : >/out/workload
done
stop_numad
