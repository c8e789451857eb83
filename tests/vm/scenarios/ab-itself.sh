#: about   of twenty experiments of a policy against itself at most two find something
#: machine ring4
#: limit   1500
#: expect  local >= 0
autonuma 0
settings <<'SETTINGS'
[daemon]
allow_global = true
[overhead]
budget_percent = 50
move_pause_max_ms = 500
[sampling]
clear_budget_percent = 100
clear_pause_max_ms = 500
SETTINGS
feed 20000 --speed /run/numad/counters
start_numad
workload pairs --threads $cpus --region-kib 512 --seconds 3000 --seed 5
found=0
for seed in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    rm -f /out/experiment.json
    experiment deloc,deloc -n 8 --slice 2500ms --time-constant 250ms --seed $seed | tail -n 5
    case "$(verdict deloc-2)" in better | worse) found=$((found + 1)) ;; esac
done
echo "$found of 20 found something"
[ $found -le 2 ] || fail "too many false alarms"
uncount
stop_numad
kill $program $feeder
