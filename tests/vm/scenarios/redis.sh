#: about   redis, with its memory on the wrong node: it is moved, answers all the time, is hardly slower, and gets all back
#: machine ring4 mesh8
#: image   services
#: ticks
#: limit   1500
autonuma 0
sparing_settings
fill_processors
start_numad
# Its allocator keeps pages that are free: given back and taken anew, they would be where the taker runs.
$(as 1000) env MALLOC_CONF=dirty_decay_ms:-1,muzzy_decay_ms:-1 \
    redis-server --port 0 --unixsocket /tmp/redis.sock --save '' --io-threads 4 >/out/redis &
redis() { redis-cli -s /tmp/redis.sock "$@"; }
within 20 redis ping || fail "redis does not answer"
program=$(pidof redis-server)
# Clients who write values at random: what is only read, soft-dirty bits do not tell.
load() { redis-benchmark -s /tmp/redis.sock -t set -d 4000 -r 4000 -n "$1" -c 8 -P 8 -q >/dev/null; }
# Once all there is to write, that its memory is whole.
load 16000
load 100000000 &
load=$!
# Somebody who asks once a second must always be answered.
(while :; do timeout 10 redis-cli -s /tmp/redis.sock ping >/dev/null 2>&1 || echo "no answer at $(cut -d' ' -f1 /proc/uptime)"; sleep 1; done) \
    >/out/silence &
asking=$!
[ -z "$(masks $program | grep -v " 0-7$")" ] || fail "redis binds itself: $(masks $program)"

answered() { redis info stats | tr -d '\r' | sed -n 's/^total_commands_processed://p'; }
speed() { counted_speed answered "$1"; }

# bound: the thread that does most is kept on a node, of which $main_cpu is the first processor
bound() {
    main_cpu=$(masks $program | sed -n "s/^$program \([0-9]*\).*/\1/p")
    [ "$(masks $program | grep "^$program ")" != "$program 0-7" ]
}
members() { echo $program; }
put_on() {
    numadctl attach $program --policy deloc || fail "attach"
    within 200 bound || fail "its thread was not placed"
    # Away from there. Were it elsewhere before, the thread might be placed beside it, and no page moved.
    migratepages $program all $(((main_cpu / cpus_per_node + 1) % nodes))
    page-nodes $program >/out/pages.before
    homes $program
    within 200 moved_pages || fail "no page was moved"
    within 2 settled 30 || fail "pages are moved without end"
}
take_off() {
    homes $program
    masks $program | grep -v " 0-7$"
    numadctl status
    keep_journal
    numadctl detach $program || fail "detach"
    # Also threads that it made meanwhile, which took the mask of those who made them.
    [ -z "$(masks $program | grep -v " 0-7$")" ] || fail "masks differ after detach: $(masks $program)"
    page-nodes $program >/out/pages.after
    pages_back /out/pages.before /out/pages.after
}
not_slower
kill $asking
[ ! -s /out/silence ] || fail "redis was silent: $(cat /out/silence)"
kill $load
stop_numad
kill $program
