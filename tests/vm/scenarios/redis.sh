#: about   redis, with its memory on the wrong node: it is moved, answers all the time, and gets all back
#: image   services
#: limit   400
autonuma 0
sparing_settings
start_numad
# Its allocator keeps pages that are free: given back and taken anew, they would be where the taker runs.
$(as 1000) env MALLOC_CONF=dirty_decay_ms:-1,muzzy_decay_ms:-1 \
    redis-server --port 0 --unixsocket /tmp/redis.sock --save '' --io-threads 4 >/out/redis &
redis() { redis-cli -s /tmp/redis.sock "$@"; }
within 20 redis ping || fail "redis does not answer"
program=$(pidof redis-server)
# Requests per second, by clients who write values at random: what is only read, soft-dirty bits do not tell.
requests() {
    redis-benchmark -s /tmp/redis.sock -t set -d 4000 -r 4000 -n "$1" -c 8 -P 8 -q |
        tr '\r' '\n' | sed -n 's/^SET: \([0-9]*\)\.[0-9]* requests per second.*/\1/p' | tail -n 1
}
# The middle one of three.
middle() { for _ in 1 2 3; do requests 6000; done | sort -n | sed -n 2p; }
requests 16000 >/dev/null
migratepages $program all 3
# Somebody who asks once a second must always be answered.
(while :; do timeout 10 redis-cli -s /tmp/redis.sock ping >/dev/null 2>&1 || echo "no answer at $(cut -d' ' -f1 /proc/uptime)"; sleep 1; done) \
    >/out/silence &
asking=$!
before=$(middle)
[ -z "$(masks $program | grep -v " 0-7$")" ] || fail "redis binds itself: $(masks $program)"
page-nodes $program >/out/pages.before
homes $program

numadctl attach $program --policy deloc || fail "attach"
# There must be load to be seen.
(while :; do requests 4000 >>/out/during; done) &
load=$!
within 60 moved_pages || fail "no page was moved"
within 120 settled || fail "pages are moved without end"
kill $load
sleep 2
during=$(middle)
numadctl status
homes $program

numadctl detach $program || fail "detach"
# Also threads that it made meanwhile, which took the mask of those who made them.
[ -z "$(masks $program | grep -v " 0-7$")" ] || fail "masks differ after detach: $(masks $program)"
page-nodes $program >/out/pages.after
pages_back /out/pages.before /out/pages.after
after=$(middle)
kill $asking
[ ! -s /out/silence ] || fail "redis was silent: $(cat /out/silence)"
echo "requests per second: $before before, $during attached, $after after"
not_slower "$before" "$during" "$after"
stop_numad
kill $program
