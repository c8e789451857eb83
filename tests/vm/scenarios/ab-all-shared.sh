#: about   an experiment on a program whose threads all share all memory finds nothing
#: machine ring4
#: limit   900
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
workload all-shared --threads $cpus --region-kib 512 --seconds 3000 --seed 5
experiment none,deloc -n 10 --margin 10 --slice 8s --time-constant 1600ms --seed 1
expect "the verdict" "$(verdict deloc)" same
uncount
stop_numad
kill $program $feeder
