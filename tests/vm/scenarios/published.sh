#: about   PTB and LAPT as published move pages that one thread touched for all; detach puts masks and pages back
#: machine ring4
#: limit   600
#: expect  local >= 0
autonuma 0
settings <<'SETTINGS'
[overhead]
budget_percent = 50
[sampling]
clear_budget_percent = 100
SETTINGS
feed 20000
start_numad
workload slices --threads $cpus --region-kib 256 --seconds 900 --seed 7
masks $program >/out/before
sleep 2
page-nodes $program >/out/pages.before
# At this rate of samples hardly a page has the 16 in a second that the paper asks for.
for policy in 'ptb --set min_acc=2' lapt; do
    numadctl attach $program --policy $policy --as-published || fail "attach"
    sleep 20
    numadctl status
    moved_pages || fail "no page was moved by $policy"
    numadctl explain $program --brief
    rm -f /out/journal
    keep_journal
    numadctl detach $program || fail "detach"
    masks $program >/out/after
    diff /out/before /out/after || fail "masks differ after $policy"
    page-nodes $program >/out/pages.after
    pages_back /out/pages.before /out/pages.after 100
done
uncount
stop_numad
kill $program $feeder
