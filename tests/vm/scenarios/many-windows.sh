#: about   two thousand windows, programs that come and go: memory and descriptors stay flat
#: machine ring4 mesh8
#: limit   900
autonuma 0
settings <<'SETTINGS'
[overhead]
budget_percent = 50
[sampling]
clear_budget_percent = 100
clear_pause_max_ms = 500
clear_interval_min_ms = 500
[engine]
interval = "lapt"
interval_min_ms = 50
interval_max_ms = 50
SETTINGS
start_numad
resident() { awk '/^VmRSS/{print $2}' /proc/$daemon/status; }
descriptors() { ls /proc/$daemon/fd 2>/dev/null | wc -l; }
numad-workload pairs --threads 4 --region-kib 64 --seed 3 --release-rounds 0 >/dev/null &
program=$!
numadctl attach $program --policy deloc || fail "attach"
within 60 windows_at_least 50 || fail "no fifty windows"
open=$(descriptors)
first=
round=0
while ! windows_at_least 2000; do
    round=$((round + 1))
    [ $round -lt 100 ] || fail "only $(figure windows) windows"
    numad-workload slices --threads 2 --region-kib 64 --seed $round --release-rounds 0 >/dev/null &
    guest=$!
    sleep 1
    numadctl attach $guest --policy random >/dev/null || fail "attach in round $round"
    sleep 20
    kill $guest
    wait $guest 2>/dev/null
    # What is kept of programs that have ended is full by then.
    [ -n "$first" ] || ! windows_at_least 1000 || first=$(resident)
    echo "round $round: $(figure windows) windows, $(resident) kB, $(descriptors) descriptors"
done
[ "$(resident)" -le $((first + 1024)) ] || fail "memory grew from $first to $(resident) kB"
[ "$(descriptors)" -le $((open + 2)) ] || fail "descriptors grew from $open to $(descriptors)"
stop_numad
kill $program
