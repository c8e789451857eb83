# What scenarios share. Runs in the guest, under busybox.

export NUMAD_SOCKET=/run/numad/numad.sock
config=/run/scenario/numad.toml
state=/var/lib/numad

fail() {
    echo "FAILED: $*"
    if numadctl status >/out/status 2>&1 && [ -n "$program" ]; then
        echo "--- what was done last"
        numadctl explain "$program" --last 30 2>&1 | tail -n 30
    fi
    echo "--- the daemon's last words"
    tail -n 15 /out/numad.log 2>/dev/null
    exit 1
}

# $(as USER) COMMAND...: the command as this user; not a function, so that $! is the command's own number
as() { echo "/bin/setpriv --reuid $1 --regid $1 --clear-groups"; }

# expect WHAT ACTUAL EXPECTED
expect() { [ "$2" = "$3" ] || fail "$1: expected '$3', got '$2'"; }

# contains WHAT TEXT PART
contains() {
    case "$2" in *"$3"*) ;; *) fail "$1: '$3' is not in: $2" ;; esac
}

# within SECONDS COMMAND...: succeeds as soon as the command does
within() {
    limit=$(($1 * 5))
    shift
    while ! "$@" >/dev/null 2>&1; do
        limit=$((limit - 1))
        [ $limit -gt 0 ] || return 1
        sleep 0.2
    done
}

# The kernel's own balancing, as most distributions have it: 1 on, 0 off
autonuma() { echo "$1" >/proc/sys/kernel/numa_balancing; }

# Settings: the guest runs a hundred times slower than a machine, so what takes time may take more of it.
settings() {
    mkdir -p "${config%/*}" "${NUMAD_SOCKET%/*}" "$state"
    cat >"$config"
}
default_settings() {
    settings <<'SETTINGS'
[overhead]
budget_percent = 50
[sampling]
clear_budget_percent = 10
clear_pause_max_ms = 500
SETTINGS
}

# For services, of which it is asked what we cost: samples as rare as they can be to be enough.
sparing_settings() {
    settings <<'SETTINGS'
[overhead]
budget_percent = 5
[sampling]
clear_budget_percent = 2
clear_pause_max_ms = 500
clear_interval_min_ms = 5000
SETTINGS
}

start_numad() {
    [ -e "$config" ] || default_settings
    mkdir -p "${NUMAD_SOCKET%/*}" "$state"
    numad --config "$config" --socket "$NUMAD_SOCKET" --state-dir "$state" "$@" 2>>/out/numad.log &
    daemon=$!
    within 20 numadctl status || fail "the daemon does not answer"
}
stop_numad() {
    kill -TERM $daemon
    wait $daemon || fail "the daemon ended with $?"
}
kill_numad() {
    kill -KILL $daemon
    wait $daemon 2>/dev/null
    rm -f "$NUMAD_SOCKET"
}

# workload ARGUMENTS...: starts numad-workload, counted by the ground truth; its number is in $program
workload() {
    LD_PRELOAD=/lib/mark.so numad-workload "$@" --release-rounds 0 >/out/workload &
    program=$!
    within 20 grep -q . /out/workload || fail "the workload says nothing"
}

# The workers of a program: all threads but the first
threads() { ls /proc/"$1"/task | sort -n; }

# masks PID: one line for each thread with its mask
masks() {
    for thread in $(threads "$1"); do
        echo "$thread $(awk '/^Cpus_allowed_list/{print $2}' /proc/"$1"/task/"$thread"/status)"
    done
}

# uncount: the ground truth counts no further
uncount() { /bin/mark stop; }

# homes PID: how many pages each node has of the program's own memory
homes() {
    awk '/ anon=/ { for (field = 1; field <= NF; field++)
               if ($field ~ /^N[0-9]+=/) { split(substr($field, 2), part, "="); pages[part[1]] += part[2] } }
         END { for (node = 0; node < 64; node++) if (node in pages) printf "N%d=%d ", node, pages[node]; print "" }' \
        /proc/"$1"/numa_maps
}

# page_homes PID: one line for each mapping with the nodes of its pages
page_homes() {
    awk '{ line = $1
           for (field = 2; field <= NF; field++) if ($field ~ /^N[0-9]+=/) line = line " " $field
           print line }' /proc/"$1"/numa_maps
}

# pages_back BEFORE AFTER [LEAST]: compares lists of page-nodes. Pages that came or went in between are the program's
# own doing; of those in both lists, one in a hundred may have been given back and taken anew.
pages_back() {
    awk -v least="${3:-1000}" 'NR == FNR { node[$1 " " $2] = $3; next }
         ($1 " " $2) in node { both++; if (node[$1 " " $2] != $3) { moved++; if (moved < 6) print "not back:", $0 } }
         END { printf "%d pages in both lists, %d on another node\n", both, moved
               exit !(both >= least && moved * 100 <= both) }' "$1" "$2" || fail "pages are not back"
}

# not_slower BEFORE DURING AFTER: what a service did in a second. Nothing is gained by a better place in a guest, where
# all memory is equally fast; what is measured is what we cost, and that is too much: one processor of the host
# does the work of all of the guest's, so what the daemon does is missing elsewhere. Before and after differ by a fifth.
not_slower() {
    least=$(($1 < $3 ? $1 : $3))
    [ "$2" -ge $((least * 75 / 100)) ] || fail "the service did $2 a second, $1 before and $3 after"
}

# figure NAME: a number from `numadctl status --json` of the only attachment
figure() {
    numadctl status --json | tr ',{}' '\n\n\n' | sed -n "s/^ *\"$1\": *\([0-9.]*\).*/\1/p" | head -n 1
}

# windows_at_least N
windows_at_least() { [ "$(figure windows)" -ge "$1" ]; }
moved_pages() { [ "$(figure pages_moved)" -gt 0 ]; }
# settled: no page was moved for ten seconds
settled() {
    pages=$(figure pages_moved)
    sleep 10
    [ "$(figure pages_moved)" = "$pages" ]
}
moved_threads() { [ "$(figure thread_moves)" -gt 0 ]; }
