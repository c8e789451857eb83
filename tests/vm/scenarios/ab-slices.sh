#: about   an experiment on private slices tells deloc from nothing and from the kernel's own balancing
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
workload slices --threads $cpus --region-kib 512 --seconds 3000 --seed 5
experiment deloc,none,linux+balancing -n 10 --slice 24s --time-constant 4800ms --seed 1
expect "the verdict on none" "$(verdict none)" worse
expect "the verdict on the kernel's balancing" "$(verdict linux+balancing)" worse
expect "the kernel's balancing afterwards" "$(cat /proc/sys/kernel/numa_balancing)" 0
uncount
stop_numad
kill $program $feeder
