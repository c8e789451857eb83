#: about   nodes of two last-level caches: partners come to one node, and to one cache of it; all is put back
#: machine caches2
#: limit   300
#: expect  steady_local >= 0.9
expect "caches of the kernel" "$(cat /sys/devices/system/cpu/cpu*/cache/index3/shared_cpu_list | sort -u | tr '\n' ' ')" "0-1 2-3 4-5 6-7 "
start_numad
workload pairs --threads $cpus --region-kib 512 --seconds 3000 --seed 3
masks_before=$(masks $program)
numadctl topo | head -n 40
numadctl attach $program --policy deloc || fail "attach"
# Two threads in each cache.
two_in_each() {
    for cache in 0-1 2-3 4-5 6-7; do
        [ "$(masks $program | grep -c "[^0-9]$cache\$")" = 2 ] || return 1
    done
}
within 90 two_in_each || fail "masks: $(masks $program | tr '\n' ';')"
masks $program
sleep 20
numadctl explain $program | tail -n 30
two_in_each || fail "they did not stay: $(masks $program | tr '\n' ';')"
uncount
numadctl detach $program || fail "detach"
expect "masks" "$(masks $program)" "$masks_before"
stop_numad
kill $program
