#: about   the kernel's own balancing is told of, works beside us, and is left as it was
#: machine ring4 mesh8
#: limit   240
autonuma 1
start_numad
contains "doctor" "$(numadctl doctor --verbose)" "on; it and numad complement"
workload pairs --threads $cpus --region-kib 512 --seconds 300 --seed 8
numadctl attach $program --policy deloc || fail "attach"
within 60 moved_threads || fail "no thread was moved"
expect "the switch while attached" "$(cat /proc/sys/kernel/numa_balancing)" 1
numadctl detach $program || fail "detach"
stop_numad
expect "the switch afterwards" "$(cat /proc/sys/kernel/numa_balancing)" 1
kill $program
