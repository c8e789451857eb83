#: about   a node that runs full is not filled further, and nothing is killed
#: limit   240
autonuma 0
# What the kernel keeps for itself is in proportion to a machine, not to this little one.
echo 8192 >/proc/sys/vm/min_free_kbytes
free_mib() { awk '/MemFree/{print int($4 / 1024)}' /sys/devices/system/node/node"$1"/meminfo; }
start_numad
# Other memory fills node 1 into the headroom of five per cent, which is 13 MiB.
numactl --membind=1 dd if=/dev/zero of=/dev/shm/ballast bs=1M count=$(($(free_mib 1) - 10)) 2>/dev/null
[ "$(free_mib 1)" -le 12 ] || fail "node 1 still has $(free_mib 1) MiB"
pages_on_1() { case "$(homes $program)" in *N1=*) homes $program | sed 's/.*N1=\([0-9]*\).*/\1/' ;; *) echo 0 ;; esac; }
workload slices --threads 8 --region-kib 2048 --seconds 300 --seed 4
before=$(pages_on_1)
numadctl attach $program --policy deloc || fail "attach"
within 40 moved_pages || fail "no page was moved anywhere"
sleep 12
homes $program
# By the program's pages, not by what is free: everybody else who runs on node 1 takes memory there, too.
[ "$(pages_on_1)" -le $((before + 64)) ] || fail "node 1 had $before pages of the program, now $(pages_on_1)"
numadctl explain $program --last 400 | grep -q "no room there" || fail "no veto for want of room"
dmesg | grep -i "out of memory" && fail "something was killed"
numadctl detach $program || fail "detach"
stop_numad
kill $program
