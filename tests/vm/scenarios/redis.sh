#: about   redis, with its memory on the wrong node: it is moved, answers all the time, and gets all back
#: image   services
#: limit   400
autonuma 0
start_numad
$(as 1000) redis-server --port 0 --unixsocket /tmp/redis.sock --save '' --io-threads 4 \
    --enable-debug-command yes >/out/redis &
redis() { redis-cli -s /tmp/redis.sock "$@"; }
within 20 redis ping || fail "redis does not answer"
program=$(pidof redis-server)
redis debug populate 10000 key 2048 >/dev/null
migratepages $program all 3
masks $program >/out/masks.before
page-nodes $program >/out/pages.before
homes $program

# Requests per second, by two clients who read keys at random.
requests() {
    redis-benchmark -s /tmp/redis.sock -t get -r 10000 -n "$1" -c 8 -P 8 -q |
        tr '\r' '\n' | sed -n 's/^GET: \([0-9]*\)\.[0-9]* requests per second.*/\1/p' | tail -n 1
}
requests 2000 >/dev/null
before=$(requests 8000)

numadctl attach $program --policy deloc || fail "attach"
# Somebody who asks once a second must always be answered.
(while :; do redis -t 10 ping >/dev/null 2>&1 || echo "no answer at $(cut -d' ' -f1 /proc/uptime)"; sleep 1; done) \
    >/out/silence &
asking=$!
# There must be load to be seen.
(while :; do requests 4000 >>/out/during; done) &
load=$!
within 60 moved_pages || fail "no page was moved"
sleep 15
kill $load
sleep 2
during=$(requests 8000)
numadctl status
homes $program

numadctl detach $program || fail "detach"
kill $asking
masks $program | diff /out/masks.before - || fail "masks differ after detach"
page-nodes $program >/out/pages.after
pages_back /out/pages.before /out/pages.after
[ ! -s /out/silence ] || fail "redis was silent: $(cat /out/silence)"
after=$(requests 8000)
echo "requests per second: $before before, $during attached, $after after"
not_slower "$before" "$during"
stop_numad
kill $program
