#: about   the kernel's balancing is switched on and off while we work: it is told, and nobody's choice is undone
#: machine ring4 mesh8
#: limit   300
autonuma 0
start_numad
workload pairs --threads $cpus --region-kib 512 --seconds 300 --seed 8
masks $program >/out/before
numadctl attach $program --policy deloc || fail "attach"
within 60 moved_threads || fail "no thread was moved"
autonuma 1
tells() { numadctl doctor --verbose | grep -q "on; it and numad complement"; }
within 60 tells || fail "doctor does not tell that balancing is on: $(numadctl doctor --verbose)"
sleep 10
expect "the switch while attached" "$(cat /proc/sys/kernel/numa_balancing)" 1
# Also after kill -9 it is what somebody made it, not what it was when we came.
kill_numad
start_numad
expect "the switch after kill -9" "$(cat /proc/sys/kernel/numa_balancing)" 1
masks $program | diff /out/before - || fail "masks differ after kill -9"
numadctl attach $program --policy deloc || fail "attach once more"
within 60 moved_threads || fail "no thread was moved the second time"
autonuma 0
untold() { ! tells; }
within 60 untold || fail "doctor still tells of balancing: $(numadctl doctor --verbose)"
numadctl detach $program || fail "detach"
expect "the switch afterwards" "$(cat /proc/sys/kernel/numa_balancing)" 0
masks $program | diff /out/before - || fail "masks differ after detach"
stop_numad
kill $program
