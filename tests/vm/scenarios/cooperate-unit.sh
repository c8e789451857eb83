#: about   the kernel's balancing is switched on by the unit as it is shipped, with the drop-in of docs/operating.md
#: machine ring4
#: image   systemd
#: limit   200
switch() { cat /proc/sys/kernel/numa_balancing; }
settings <<'SETTINGS'
[daemon]
allow_global = true
[engine]
balancing = "cooperate"
SETTINGS
mkdir -p /etc/numad/numad.toml.d /run/systemd/system/numad.service.d
cp "$config" /etc/numad/numad.toml.d/guest.toml
autonuma 0
echo 2 >/proc/sys/kernel/perf_event_paranoid
printf '[Service]\nTimeoutStopSec=90\n' >/run/systemd/system/numad.service.d/slow.conf
systemd-sysusers || fail "no user for the daemon"
workload pairs --threads $cpus --region-kib 256 --seconds 600 --seed 1

systemctl daemon-reload
systemctl start numad || fail "the unit does not start: $(systemctl status numad)"
within 20 numadctl status || fail "the daemon does not answer"
numadctl attach $program --policy deloc || fail "attach"
expect "the switch without the right" "$(switch)" 0
contains "what is missing" "$(numadctl status)" "User=root"
systemctl stop numad || fail "stop"

cat >/run/systemd/system/numad.service.d/switch.conf <<'DROP_IN'
[Service]
User=root
ProtectKernelTunables=no
CapabilityBoundingSet=CAP_SYS_ADMIN
DROP_IN
systemctl daemon-reload
systemctl start numad || fail "the unit does not start with the drop-in: $(systemctl status numad)"
within 20 numadctl status || fail "the daemon does not answer"
numadctl attach $program --policy deloc || fail "attach with the drop-in"
expect "the switch while attached" "$(switch)" 1
systemctl stop numad || fail "stop"
expect "the switch after a stop" "$(switch)" 0
expect "the unit's result" "$(systemctl show -P Result numad)" success
kill $program
