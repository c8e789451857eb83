#: about   a node that runs full is not filled further, and nothing is killed
#: limit   240
autonuma 0
# What the kernel keeps for itself is in proportion to a machine, not to this little one.
echo 8192 >/proc/sys/vm/min_free_kbytes
free_mib() { awk '/MemFree/{print int($4 / 1024)}' /sys/devices/system/node/node"$1"/meminfo; }
workload slices --threads 8 --region-kib 2048 --seconds 300 --seed 4
# Other memory fills node 1 almost to the headroom of five per cent, which is 13 MiB.
numactl --membind=1 dd if=/dev/zero of=/dev/shm/ballast bs=1M count=$(($(free_mib 1) - 14)) 2>/dev/null
[ "$(free_mib 1)" -le 24 ] || fail "node 1 still has $(free_mib 1) MiB"
start_numad
on_node_1() { homes $program | sed -n 's/.*N1=\([0-9]*\).*/\1/p' | grep . || echo 0; }
before=$(on_node_1)
numadctl attach $program --policy deloc || fail "attach"
within 40 moved_pages || fail "no page was moved anywhere"
sleep 10
homes $program
# Some fit above the headroom; the slices of two threads would be a thousand pages.
[ "$(on_node_1)" -le $((before + 400)) ] || fail "node 1 went from $before to $(on_node_1) pages"
[ "$(free_mib 1)" -ge 4 ] || fail "node 1 has $(free_mib 1) MiB left"
numadctl explain $program --last 400 | grep -q "no room there" || fail "no veto for want of room"
dmesg | grep -i "out of memory" && fail "something was killed"
numadctl detach $program || fail "detach"
stop_numad
kill $program
