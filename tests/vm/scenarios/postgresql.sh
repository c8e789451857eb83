#: about   PostgreSQL, many processes with shared buffers: it is moved, answers all the time, and gets all back
#: image   services
#: limit   600
autonuma 0
sparing_settings
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

# Transactions per second, told every four seconds.
$(as 1000) "$postgresql/pgbench" -h /tmp -U guest -n -S -M prepared -c 4 -j 2 -T 600 -P 4 postgres \
    >/out/pgbench 2>&1 &
bench=$!
rates() { sed -n 's/^progress: .* \([0-9]*\)\.[0-9]* tps.*/\1/p' /out/pgbench; }
# mean_of_last N
mean_of_last() { rates | tail -n "$1" | awk '{ sum += $1 } END { print int(sum / NR) }'; }
told() { [ "$(rates | wc -l)" -ge "$1" ]; }
within 120 told 6 || fail "pgbench does not run: $(tail -n 5 /out/pgbench)"
before=$(mean_of_last 5)
all() { pidof postgres | tr ' ' '\n' | sort -n; }
all_masks() { for one in $(all); do masks "$one"; done; }
all >/out/processes
[ "$(wc -l </out/processes)" -ge 8 ] || fail "only $(wc -l </out/processes) processes"
# All memory on one node, as a start at a bad moment leaves it.
for one in $(all); do migratepages "$one" all 3; done
all_masks >/out/masks.before
page-nodes $(all) >/out/pages.before

numadctl attach --command postgres --policy deloc || fail "attach"
(while :; do timeout 10 "$postgresql/psql" -h /tmp -U guest -c "select 1" postgres >/dev/null 2>&1 || echo "no answer at $(cut -d' ' -f1 /proc/uptime)"; sleep 1; done) \
    >/out/silence &
asking=$!
within 90 moved_pages || fail "no page was moved"
within 120 settled || fail "pages are moved without end"
rounds=$(rates | wc -l)
within 60 told $((rounds + 6)) || fail "pgbench stopped"
during=$(mean_of_last 5)
numadctl status
kill $asking

numadctl detach $main || fail "detach"
all | diff /out/processes - || fail "processes came or went"
all_masks | diff /out/masks.before - || fail "masks differ after detach"
page-nodes $(all) >/out/pages.after
pages_back /out/pages.before /out/pages.after
[ ! -s /out/silence ] || fail "PostgreSQL was silent: $(cat /out/silence)"
rounds=$(rates | wc -l)
within 60 told $((rounds + 4)) || fail "pgbench stopped"
after=$(mean_of_last 3)
echo "transactions per second: $before before, $during attached, $after after"
not_slower "$before" "$during" "$after"
kill $bench
stop_numad
kill $main
