#: about   the daemon keeps to the processor time that it is given, also where that is far less than it could use
#: machine ring4
#: limit   400
autonuma 0
settings <<'SETTINGS'
[overhead]
budget_percent = 2
move_pause_max_ms = 500
[sampling]
clear_budget_percent = 100
clear_pause_max_ms = 500
SETTINGS
start_numad
workload pairs --threads $cpus --region-kib 1024 --seconds 600
numadctl attach $program --policy deloc || fail "attach"
within 100 moved_threads || fail "no thread was moved"
# Until nobody is in debt any more for what was moved.
sleep 60
# Processor time of all its threads, in milliseconds, as the kernel counts it.
own() { cat /proc/$daemon/task/*/schedstat | awk '{ sum += $1 } END { print int(sum / 1000000) }'; }
for _ in 1 2 3 4; do
    used=$(own)
    at=$(milliseconds)
    sleep 30
    used=$(($(own) - used))
    allowed=$((($(milliseconds) - at) * cpus * 2 / 100))
    echo "$used ms used of $allowed, $(figure windows) windows, $(figure used_percent) % of 2 told"
    [ $((used * 5)) -le $((allowed * 6)) ] || over="$over $used of $allowed"
done
numadctl status
[ -z "$over" ] || fail "more than a fifth over the budget: $over"
stop_numad
kill $program
