#: about   how fast memory is: measured by the unit once the machine is idle, and gone by from the next program on
#: machine caches2
#: image   systemd
#: limit   400
autonuma 0
prepare_unit
state() { systemctl show -P "$1" numad-characterize; }
measured() { ls /var/lib/numad/bandwidth-* >/dev/null 2>&1; }
# One processor of eight is busy: that is no idle machine.
while :; do :; done &
busy=$!
systemctl start numad || fail "the unit does not start: $(systemctl status numad)"
sleep 40
expect "the unit that measures" "$(state ActiveState)" active
! measured || fail "measured beside others"
contains doctor "$(numadctl doctor)" "bandwidth of nodes: not known"
kill $busy
# Five looks a second, as `within` has them, keep a processor of this guest busy.
for _ in $(seq 40); do measured || sleep 5; done
measured || fail "not measured: $(systemctl status numad-characterize)"
ended() { [ "$(state ActiveState)" = inactive ]; }
within 20 ended || fail "it does not end"
expect "the unit's result" "$(state Result)" success
expect "pairs" "$(grep -c '^link [01] [01] alone [1-9].* loaded [1-9].* idle [1-9]' /var/lib/numad/bandwidth-*)" 4
expect "the owner" "$(stat -c %U /var/lib/numad/bandwidth-*)" numad
contains doctor "$(numadctl doctor)" "bandwidth of nodes: not known"
workload pairs --threads $cpus --region-kib 256 --seconds 600
numadctl attach $program --policy auto || fail "attach"
contains doctor "$(numadctl doctor --verbose)" "bandwidth of nodes: measured"
numadctl detach $program || fail "detach"
kill $program
systemctl stop numad || fail "stop"
# What is known is not measured again.
systemctl start numad
within 20 ended || fail "measured twice"
systemctl stop numad
