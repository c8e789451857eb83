#: about   PostgreSQL, many processes with shared buffers: it is moved, answers all the time, is hardly slower, and gets all back
#: machine ring4 mesh8
#: image   services
#: ticks
#: limit   2400
autonuma 0
start_numad
cp -r /opt/database /tmp/database
chown -R 1000:1000 /tmp/database
chmod -R go= /tmp/database
postgresql=$(echo /usr/lib/postgresql/*/bin)
$(as 1000) "$postgresql/postgres" -D /tmp/database >/out/postgresql 2>&1 &
ask() { "$postgresql/psql" -h /tmp -U guest -At -c "$1" postgres; }
within 30 ask 'select 1' || fail "PostgreSQL does not answer: $(tail -n 5 /out/postgresql)"
main=$(head -n 1 /tmp/database/postmaster.pid)
# Reads every page of the table once, so that all buffers are there.
ask 'select sum(length(filler)) from pgbench_accounts' >/dev/null

all() { pidof postgres | tr ' ' '\n' | sort -n; }
servers=$(all)

# Transactions per second, told every second.
$(as 1000) "$postgresql/pgbench" -h /tmp -U guest -n -S -M prepared -c 4 -j 2 -T 6000 -P 1 postgres \
    >/out/pgbench 2>&1 &
bench=$!
rates() { sed -n 's/^progress: .* \([0-9]*\)\.[0-9]* tps.*/\1/p' /out/pgbench; }
told() { [ "$(rates | wc -l)" -ge "$1" ]; }
speed() {
    rounds=$(rates | wc -l)
    within 60 told $((rounds + $1 + 1)) || fail "pgbench stopped"
    # Without the second in which it began.
    rates | tail -n +$((rounds + 2)) | awk '{ sum += $1 } END { print int(sum / NR) }'
}
within 120 told 10 || fail "pgbench does not run: $(tail -n 5 /out/pgbench)"
all_masks() { for one in $(all); do masks "$one"; done; }
all >/out/processes
[ "$(wc -l </out/processes)" -ge 8 ] || fail "only $(wc -l </out/processes) processes"
# All memory on one node, as a start at a bad moment leaves it.
for one in $(all); do migratepages "$one" all 3; done
list_pages() { page-nodes $(cat /out/processes) >"$1"; }
all_masks >/out/masks.before
# The postmaster makes a process for each who comes, and copies then what it writes to; so do those that it made.
trace_writes $servers
others_wait $bench list_pages /out/pages.before
# Somebody who comes anew each second must always be answered.
begin_asking() {
    (while :; do timeout 10 "$postgresql/psql" -h /tmp -U guest -c "select 1" postgres >/dev/null 2>&1 || echo "no answer at $(cut -d' ' -f1 /proc/uptime)"; sleep 1; done) \
        >>/out/silence &
    asking=$!
}
end_asking() {
    kill $asking
    [ ! -s /out/silence ] || fail "PostgreSQL was silent: $(cat /out/silence)"
}
begin_asking

members() { cat /out/processes; }
attach() { numadctl attach --command postgres --policy deloc || fail "attach"; }
# A guest may need longer to put so many processes back than a client waits for an answer; it is done all the same.
detached() { [ -z "$(figure windows)" ]; }
detach() {
    numadctl status
    keep_journal
    undo_begins
    numadctl detach $main || within 60 detached || fail "detach"
    while read -r one; do [ -d "/proc/$one" ] || fail "process $one went"; done </out/processes
    while read -r one; do masks "$one"; done </out/processes | diff /out/masks.before - || fail "masks differ after detach"
}
compare_pages() {
    list_pages /out/pages.after
    pages_back /out/pages.before /out/pages.after
}

# First what is moved, sampled as often as it takes. All stand still when it is put back, so that nobody can write to
# anything: then all must be back.
attach
within 200 moved_pages || fail "no page was moved"
within 2 settled 30 || fail "pages are moved without end"
echo "moved and settled at $(cut -d' ' -f1 /proc/uptime)"
end_asking
kill -STOP $bench $(all)
detach
others_wait $bench compare_pages
[ ! -s /out/written.late ] || fail "somebody wrote, standing still: $(head -n 3 /out/written.late)"
kill -CONT $bench $(all)
begin_asking
stop_numad

# Then what it costs, as sparingly as it is to run. What it moves meanwhile goes back too.
fill_processors
sparing_settings
start_numad
put_on() {
    attach
    within 200 windows_at_least 8 || fail "no eight windows"
    within 2 settled 30 || fail "pages are moved without end"
}
take_off() {
    moved=$(figure pages_moved)
    detach
    [ "$moved" = 0 ] || others_wait $bench compare_pages
}
not_slower
end_asking
kill $bench
stop_numad
kill $main
