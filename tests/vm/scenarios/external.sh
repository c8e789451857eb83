#: about   an external policy under the unit as it is shipped, with its drop-in: its answers are used, and it has no rights
#: machine ring4
#: image   systemd
#: limit   300
autonuma 0
settings <<'SETTINGS'
[overhead]
budget_percent = 50
[sampling]
clear_budget_percent = 100
clear_pause_max_ms = 500
[external]
programs = "/usr/libexec/numad/policies"
answer_ms = 60000
SETTINGS
mkdir -p /etc/numad/numad.toml.d /usr/libexec/numad/policies
cp "$config" /etc/numad/numad.toml.d/guest.toml
echo 2 >/proc/sys/kernel/perf_event_paranoid
# Who shares most goes to one node, a pair to each.
policy=/usr/libexec/numad/policies/neighbours
cat >$policy <<'POLICY'
#!/bin/sh
read -r greeting
echo '{"schema": 1, "name": "neighbours"}'
exec awk '{
    match($0, /"window":[0-9]+/)
    window = substr($0, RSTART + 9, RLENGTH - 9)
    answer = ""
    split("", place)
    from = index($0, "\"shares\":[[")
    shares = substr($0, from + 11)
    sub(/\]\].*/, "", shares)
    count = from ? split(shares, share, /\],\[/) : 0
    node = 0
    for (one = 1; one <= count && node < 4; one++) {
        split(share[one], pair, ",")
        if (pair[1] in place || pair[2] in place)
            continue
        place[pair[1]] = place[pair[2]] = 1
        answer = answer (answer == "" ? "" : ",") "[" pair[1] "," node "],[" pair[2] "," node "]"
        node++
    }
    print "{\"window\":" window ",\"threads\":[" answer "]}"
    fflush()
}'
POLICY
chmod 755 $policy
mkdir -p /run/systemd/system/numad.service.d
printf '[Service]\nTimeoutStopSec=90\n' >/run/systemd/system/numad.service.d/slow.conf
cp /usr/share/numad/external-policies.conf /run/systemd/system/numad.service.d/
systemctl daemon-reload
systemd-sysusers || fail "no users for the daemon and its policies"
systemctl start numad || fail "the unit does not start: $(systemctl status numad)"
within 20 numadctl status || fail "the daemon does not answer"
workload pairs --threads $cpus --region-kib 256 --seconds 600 --seed 1
masks $program >/out/masks.before
numadctl attach $program --policy exec:$policy || fail "attach"
within 60 moved_threads || fail "no thread was moved: $(numadctl explain $program)"
contains "status" "$(numadctl status --json)" "at work as neighbours"
contains "why" "$(numadctl explain $program)" "external policy"
uid=$(awk -F: '$1 == "numad-policy" { print $3 }' /etc/passwd)
[ -n "$(pidof awk)" ] || fail "the policy does not run"
for process in $(pidof awk); do
    expect "the policy's user" "$(awk '$1 == "Uid:" { print $2 }' /proc/$process/status)" "$uid"
    grep -q '^CapPrm:.0000000000000000$' /proc/$process/status || fail "the policy has rights: $(cat /proc/$process/status)"
done
numadctl detach $program || fail "detach"
masks $program | diff /out/masks.before - || fail "masks differ after detach"
systemctl stop numad || fail "stop"
expect "the unit's result" "$(systemctl show -P Result numad)" success
! pidof awk || fail "the policy is left"
kill $program
