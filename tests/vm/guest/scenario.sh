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

# Whether the kernel's scheduler gathers threads that share memory in one last-level cache, where it can: 1 on, 0 off
llc_balancing=/sys/kernel/debug/sched/llc_balancing/enabled

# DAMON, the kernel's own observer of memory: one who looks at a program's addresses, with one scheme, in $damon.
damon=/sys/kernel/mm/damon/admin/kdamonds
damon_begin() {
    [ -e $damon/nr_kdamonds ] && echo 1 >$damon/nr_kdamonds || return 1
    echo 1 >$damon/0/contexts/nr_contexts && echo vaddr >$damon/0/contexts/0/operations || return 1
    echo 1 >$damon/0/contexts/0/schemes/nr_schemes
}
# Whether a scheme can send hot pages to several nodes by weight.
damon_spreads() {
    damon_begin || return 1
    grep -q vaddr $damon/0/contexts/0/avail_operations && [ -e $damon/0/contexts/0/schemes/0/dests ]
    can=$?
    echo 0 >$damon/nr_kdamonds
    return $can
}
# damon_spread PID: whatever of the program was used in the last second goes to all nodes in turn. DAMON knows how hot
# memory is and not who uses it, so this is the best that its schemes can do for threads on all nodes: even controllers.
damon_spread() {
    damon_begin || fail "DAMON"
    context=$damon/0/contexts/0
    echo 1 >$context/targets/nr_targets && echo "$1" >$context/targets/0/pid_target || fail "DAMON's target"
    # Looks less often than on a real machine, for a processor here is a hundred times slower.
    echo 50000 >$context/monitoring_attrs/intervals/sample_us
    echo 1000000 >$context/monitoring_attrs/intervals/aggr_us
    echo 100 >$context/monitoring_attrs/nr_regions/min
    scheme=$context/schemes/0
    echo migrate_hot >$scheme/action || fail "DAMON's action"
    most=9223372036854775807
    echo $most >$scheme/access_pattern/sz/max
    echo 1 >$scheme/access_pattern/nr_accesses/min
    echo 4294967295 >$scheme/access_pattern/nr_accesses/max
    echo 4294967295 >$scheme/access_pattern/age/max
    set -- /sys/devices/system/node/node[0-9]*
    echo $# >$scheme/dests/nr_dests || fail "DAMON's destinations"
    for place in $(seq 0 $(($# - 1))); do
        echo "$place" >$scheme/dests/"$place"/id
        echo 1 >$scheme/dests/"$place"/weight
    done
    # One at a time: the kernel's own statistics are another, and on from the start.
    own=/sys/module/damon_stat/parameters/enabled
    [ ! -e $own ] || echo N >$own || fail "DAMON's statistics"
    echo on >$damon/0/state || fail "DAMON does not start"
}

# A scheduler of sched_ext, where scripts/vm-scx built it: it takes the place of the kernel's own for all programs.
scx_runs() {
    [ -x /opt/scx/scx_rusty ] && [ -e /sys/kernel/sched_ext/state ] || return 1
    /opt/scx/scx_rusty >/out/scx 2>&1 &
    scx=$!
    # It ends where the kernel does not load it.
    while kill -0 $scx 2>/dev/null; do
        grep -q enabled /sys/kernel/sched_ext/state && return
        sleep 0.2
    done
    return 1
}
scx_start() { scx_runs || fail "scx_rusty does not start: $(tail -n 5 /out/scx)"; }
scx_can() { scx_runs && kill $scx; }

# Settings: a page takes the guest several hundred times as long to move or to clear as a machine (1.1 ms and 9 us for 2
# us and 25 ns), so pauses may be longer, and moves have 60 times as long to earn back what they cost.
settings() {
    mkdir -p "${config%/*}" "${NUMAD_SOCKET%/*}" "$state"
    cat >"$config"
}
default_settings() {
    settings <<'SETTINGS'
[overhead]
budget_percent = 50
move_pause_max_ms = 1000
[engine]
horizon_s = 300
[sampling]
clear_budget_percent = 100
clear_pause_max_ms = 1000
SETTINGS
}

# prepare_unit: everything that the unit needs before `systemctl start numad`
prepare_unit() {
    default_settings
    mkdir -p /etc/numad/numad.toml.d
    cp "$config" /etc/numad/numad.toml.d/guest.toml
    echo 2 >/proc/sys/kernel/perf_event_paranoid
    # What a machine has ten seconds for takes the guest longer: see the README, "The guest's clock".
    mkdir -p /run/systemd/system/numad.service.d
    printf '[Service]\nTimeoutStopSec=90\n' >/run/systemd/system/numad.service.d/slow.conf
    systemctl daemon-reload
    systemd-sysusers || fail "no user for the daemon"
}

# feed PERIOD [MORE]: numad samples as a machine with counters does: numatruth takes one of PERIOD accesses that leave
# the processors' own caches, and feeder hands them on. With `--speed /run/numad/counters`, numad also learns how fast
# programs are by the model. To be called before start_numad, in scenarios that
# expect something of the ground truth.
feed() {
    [ -e "$config" ] || default_settings
    # Below [sampling], which comes last.
    grep -q '^source = "feed"' "$config" || echo 'source = "feed"' >>"$config"
    case "$*" in
        *--speed*) grep -q '^counters = ' "$config" || echo 'counters = "feed"' >>"$config" ;;
    esac
    mkdir -p /run/numad
    feeder /run/numad/feed --period "$@" 2>/out/feeder &
    feeder=$!
    within 5 [ -p /run/numad/feed ] || fail "no feed: $(cat /out/feeder)"
}

# For services, of which it is asked what we cost. Samples are as rare as they can be to be enough: a processor that
# is a hundred times slower does in twenty seconds what a real one does in a fifth, and a page fault takes as much of
# it as of a real one.
sparing_settings() {
    settings <<'SETTINGS'
[overhead]
budget_percent = 5
move_pause_max_ms = 500
[sampling]
clear_budget_percent = 2
clear_pause_max_ms = 500
clear_interval_min_ms = 20000
SETTINGS
}

# fill_processors: something of the least urgency for each of them to do. The emulation does the work of all processors
# with one, so what the daemon does on a processor that is idle would be missing on all others; if none is ever idle,
# each is as fast as any other time.
fill_processors() {
    cpu=0 fillers=
    while [ $cpu -lt "$cpus" ]; do
        taskset $(printf %x $((1 << cpu))) chrt -i 0 sh -c 'while :; do :; done' &
        fillers="$fillers $!"
        cpu=$((cpu + 1))
    done
}

# others_wait PIDS COMMAND...: does this while these processes and what fills processors stand still, as no speed is asked
# for: the others would take most of the time.
others_wait() {
    waiting="$fillers $1"
    shift
    kill -STOP $waiting
    "$@"
    done=$?
    kill -CONT $waiting
    return $done
}

# While it is profiled, numad has copies of its libraries, because the profile knows code by files that nobody else maps,
# and is at the same addresses after each start.
profile_begins() {
    echo 0 >/proc/sys/kernel/randomize_va_space
    echo 0 >/proc/sys/kernel/kptr_restrict
    mkdir -p /run/profiled
    cp $(/lib64/ld-linux-x86-64.so.2 --list /bin/numad | awk '$3 ~ /^\// { print $3 }') /run/profiled
    profile="env LD_PRELOAD=/lib/profile.so LD_LIBRARY_PATH=/run/profiled"
}
# Where its files and the kernel's functions are.
profile_tells() { cat /proc/$daemon/maps >/out/profile.maps && cat /proc/kallsyms >/out/profile.kallsyms; }

start_numad() {
    [ -e "$config" ] || default_settings
    mkdir -p "${NUMAD_SOCKET%/*}" "$state"
    [ -z "$profiled" ] || profile_begins
    $profile numad --config "$config" --socket "$NUMAD_SOCKET" --state-dir "$state" "$@" 2>>/out/numad.log &
    daemon=$!
    within 20 numadctl status || fail "the daemon does not answer"
    [ -z "$profiled" ] || profile_tells
}
stop_numad() {
    kill -TERM $daemon
    wait $daemon || fail "the daemon ended with $?"
}
kill_numad() {
    kill -KILL $daemon
    wait $daemon 2>/dev/null
    rm -f "$NUMAD_SOCKET"
    # Its page table may be another's next.
    [ -z "$profiled" ] || mark unprofile
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

# bind_again: threads to processors, by lines of `masks`; those that are gone are left out
bind_again() { while read -r thread mask; do taskset -cp "$mask" "$thread" >/dev/null 2>&1; done; }

# uncount: the ground truth counts no further
uncount() {
    [ -z "$profiled" ] || numadctl status --json >/out/profile.status
    /bin/mark stop
}

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

# The journal with every page of its runs by itself: FIRST+MORE/STEP as so many addresses
journal() {
    awk 'function number(hex,    value, at) {
             for (at = 1; at <= length(hex); at++) value = value * 16 + index("123456789abcdef", substr(hex, at, 1))
             return value + 0 }
         # In two parts, for the numbers that this awk prints end at 32 bits.
         function hex(value,    high) {
             high = int(value / 16777216)
             return high ? sprintf("%x%06x", high, value - high * 16777216) : sprintf("%x", value) }
         $2 == "pages" || $2 == "shared" {
             line = ""
             for (word = 1; word <= NF; word++) {
                 if (split($word, part, /[+\/]/) < 3) { line = line " " $word; continue }
                 for (page = 0; page <= number(part[2]); page++)
                     line = line " " hex(number(part[1]) + page * number(part[3]))
             }
             print substr(line, 2)
             next }
         { print }' $state/journal
}

# keep_journal: what the daemon will have to put back, to be called before it does, each time; until pages_back, which
# asks for what was kept since it was called the last time
keep_journal() { journal >>/out/journal || fail "no journal"; }

# trace_writes PID...: from now on the kernel writes down where these processes fault by writing, which is what they do
# when they take a page anew, or copy one that they share since a fork; `undo_begins` tells the faults after an undo.
tracing=/sys/kernel/debug/tracing
trace_writes() {
    # For each processor: room for some ten thousand, where a server that forks each second writes five.
    echo 1024 >$tracing/buffer_size_kb
    echo "$@" >$tracing/set_event_pid
    for event in user kernel; do
        # Bit 1 of the error: a write.
        echo 'error_code & 2' >$tracing/events/exceptions/page_fault_$event/filter
        echo 1 >$tracing/events/exceptions/page_fault_$event/enable
    done
    traced=yes
}
undo_begins() { echo undo >$tracing/trace_marker; }

# What was written so since ever and since the last undo began, into /out/written and /out/written.late: one line
# `PID ADDRESS` for each page.
written() {
    : >/out/written
    : >/out/written.late
    [ -n "$traced" ] || return
    # Faults that were lost excuse nothing.
    awk '/^overrun/ && $2 > 0 { lost += $2 } END { if (lost) print lost, "faults were not written down" }' \
        $tracing/per_cpu/cpu*/stats
    awk '/tracing_mark_write: undo/ { split("", late) }
        /address=0x/ && match($0, /-[0-9]+ +\[/) {
            pid = substr($0, RSTART + 1)
            sub(/ .*/, "", pid)
            page = $0
            sub(/.*address=0x/, "", page)
            sub(/ .*/, "", page)
            page = pid " " substr(page, 1, length(page) - 3) "000"
            ever[page]
            late[page] }
        END {
            for (page in ever) print page >"/out/written"
            for (page in late) print page >"/out/written.late" }' $tracing/trace
}

# pages_back BEFORE AFTER [LEAST]: compares lists of page-nodes of two moments, between which the daemon was at work
# until keep_journal and then put everything back. Every page in its journal must be where the first list has it, or where
# the journal says that it was when it was moved first. No page may be elsewhere that was never in it. But where writes
# are traced, a page is the program's own doing that it took anew or copied: one of the journal after the undo began, and any
# other since the first list. These are told apart.
pages_back() {
    written
    awk -v least="${3:-1000}" '
        FNR == 1 { file = FILENAME }
        file == "/out/journal" { if ($2 == "pages") { owner = $3; node = $5; first = 6 }
                    else if ($2 == "shared") { owner = $4 ":" $5; node = $6; first = 7 }
                    else next
                    for (word = first; word <= NF; word++) if (!((owner " " $word) in home)) {
                        home[owner " " $word] = node; ours++ }
                    next }
        { page = $1 " " $2 }
        file == "/out/written.late" { late[page]; next }
        file == "/out/written" { ever[page]; next }
        file == list { before[page] = $3; next }
        !(page in before) { next }
        { both++ }
        before[page] == $3 || (page in home && home[page] == $3) { next }
        page in home && page in late { copied++; next }
        page in home { if (++wrong < 6) print "not back:", $0, "was", before[page], "journal", home[page]; next }
        page in ever { others++; next }
        ++unknown < 6 { print "elsewhere, and neither we nor the program did it:", $0, "was", before[page] }
        END { printf "%d pages in both lists; of %d that were moved, %d are not back", both, ours, wrong
              printf ", %d were written anew since; of those never moved, %d were written anew, %d are elsewhere\n",
                  copied, others, unknown
              exit !(both >= least && ours > 0 && wrong == 0 && unknown == 0) }' \
        list="$1" /out/journal /out/written.late /out/written "$1" "$2" || fail "pages are not back"
    # A program may write to a page anew after this, and then is it where that left it, which the next journal says.
    mv /out/journal /out/journal.past
}

milliseconds() { awk '{print int($1 * 1000)}' /proc/uptime; }

# counted_speed COUNTER SECONDS: by how much the counter grows in a second, over so many seconds
counted_speed() {
    count=$($1)
    at=$(milliseconds)
    sleep "$2"
    echo $((($($1) - count) * 1000 / ($(milliseconds) - at)))
}

masks_of_members() { for one in $(members); do masks "$one"; done; }

# not_slower: what a service does in a second while it is under a policy, beside what it does while it is not: six
# pairs. The script says how: `put_on` and `take_off`, which leave things settled, `speed SECONDS`, and `members`, its
# processes. Nothing is gained by a better place in a guest, where all memory is equally fast, but processors are not:
# so it is bound by hand, while it is under no policy, to where it was before. What shows is what our work costs, at a
# hundred times the price of page faults and moves. It fails where that is more than a tenth beyond chance, by
# Student's t with 95 %, and where chance is so large that it could hide a fifth.
not_slower() {
    with= without=
    for round in 1 2; do
        put_on
        masks_of_members >/out/masks.under
        with="$with $(speed 20; speed 20; speed 20)"
        take_off
        bind_again </out/masks.under
        without="$without $(speed 20; speed 20; speed 20)"
        # Also those that were made meanwhile.
        masks_of_members | sed "s/ .*/ 0-$((cpus - 1))/" | bind_again
    done
    # This awk has neither roots nor powers.
    echo $with $without | awk 'function root(x, r, i) { r = 1; for (i = 0; i < 60; i++) r = (r + x / r) / 2; return r }
    {
        for (pair = 1; pair <= 6; pair++) {
            print $pair, "a second while attached,", $(pair + 6), "while not"
            ratio[pair] = $pair / $(pair + 6)
            mean += ratio[pair] / 6 }
        for (pair = 1; pair <= 6; pair++) { away = ratio[pair] - mean; squares += away * away }
        margin = 2.571 * root(squares / 5 / 6)
        printf "while attached it does %.3f +- %.3f of what it does otherwise\n", mean, margin
        exit !(NF == 12 && mean + margin >= 0.9 && margin <= 0.2) }' || fail "slower while attached"
}

# experiment POLICIES [MORE]: an experiment on $program, by instructions per cycle as the model tells them. To be called
# after `feed ... --speed /run/numad/counters` and start_numad. The model follows one program in a guest.
experiment() {
    policies=$1
    shift
    numadctl ab $program --policies "$policies" --metric ipc --metric local --to-the-end --max-harm 99 "$@" \
        -o /out/experiment.json >/out/experiment.txt 2>&1 || fail "the experiment: $(tail -n 5 /out/experiment.txt)"
    numadctl report /out/experiment.json
}
# verdict POLICY: what the experiment says of it beside the first
verdict() {
    numadctl report /out/experiment.json | awk -v arm="$1" '$3 == "PAIRS" { told = 1 } told && $1 == arm && $2 == "ipc" { print $NF }'
}

# figure NAME: a number from `numadctl status --json` of the only attachment
figure() {
    numadctl status --json | tr ',{}' '\n\n\n' | sed -n "s/^ *\"$1\": *\([0-9.]*\).*/\1/p" | head -n 1
}

# windows_at_least N
windows_at_least() { [ "$(figure windows)" -ge "$1" ]; }
moved_pages() { [ "$(figure pages_moved)" -gt 0 ]; }
# settled SECONDS: hardly a page was moved for so long
settled() {
    pages=$(figure pages_moved)
    sleep "$1"
    now=$(figure pages_moved)
    # Of a daemon that does not answer there is no figure.
    [ -n "$pages" ] && [ -n "$now" ] && [ $((now - pages)) -le 16 ]
}
moved_threads() { [ "$(figure thread_moves)" -gt 0 ]; }
