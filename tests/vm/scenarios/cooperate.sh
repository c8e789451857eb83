#: about   the kernel's balancing is switched on while a program is attached, and put back by detach, stop and crash
#: machine ring4
#: limit   200
switch() { cat /proc/sys/kernel/numa_balancing; }
settings <<'SETTINGS'
[daemon]
allow_global = true
[engine]
balancing = "cooperate"
interval_min_ms = 1000
SETTINGS
autonuma 0
start_numad
workload slices --threads $cpus --region-kib 512 --seconds 300 --seed 5
expect "the switch before attach" "$(switch)" 0
numadctl attach $program --policy none || fail "attach under none"
expect "the switch under a policy that only looks" "$(switch)" 0
numadctl detach $program || fail "detach"
numadctl attach $program --policy deloc || fail "attach"
expect "the switch while attached" "$(switch)" 1
contains "status" "$(numadctl status)" "switched on by numad"
contains "journal" "$(numadctl journal)" "kernel.numa_balancing: 0 before, 1 by numad"
numadctl detach $program || fail "detach"
expect "the switch after detach" "$(switch)" 0

numadctl attach $program --policy deloc || fail "attach again"
kill_numad
expect "the switch while the daemon is dead" "$(switch)" 1
start_numad
expect "the switch after the next start" "$(switch)" 0

numadctl attach $program --policy deloc || fail "attach a third time"
kill_numad
numad --undo || fail "undo without a daemon"
expect "the switch after --undo" "$(switch)" 0

start_numad
numadctl attach $program --policy deloc || fail "attach a fourth time"
stop_numad
expect "the switch after a stop" "$(switch)" 0

autonuma 1
start_numad
numadctl attach $program --policy deloc || fail "attach where it is on"
numadctl detach $program || fail "detach where it was on"
expect "a switch that was on" "$(switch)" 1
kill $program
