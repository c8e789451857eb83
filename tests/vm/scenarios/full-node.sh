#: about   a node that runs full is not filled further, and nothing is killed
#: machine ring4 mesh8
#: limit   240
autonuma 0
# What the kernel keeps for itself is in proportion to a machine, not to this little one.
echo 8192 >/proc/sys/vm/min_free_kbytes
mib() { awk -v what="$1:" '$3 == what {print int($4 / 1024)}' /sys/devices/system/node/node1/meminfo; }
# Within the headroom of five per cent.
room=$(($(mib MemTotal) * 4 / 100))
start_numad
# Other memory fills node 1.
numactl --membind=1 dd if=/dev/zero of=/dev/shm/ballast bs=1M count=$(($(mib MemFree) - room)) 2>/dev/null
[ "$(mib MemFree)" -le $((room + 2)) ] || fail "node 1 still has $(mib MemFree) MiB"
pages_on_1() { case "$(homes $program)" in *N1=*) homes $program | sed 's/.*N1=\([0-9]*\).*/\1/' ;; *) echo 0 ;; esac; }
workload slices --threads $cpus --region-kib 2048 --seconds 300 --seed 4
before=$(pages_on_1)
numadctl attach $program --policy deloc || fail "attach"
within 40 moved_pages || fail "no page was moved anywhere"
sleep 12
homes $program
# By the program's pages, not by what is free: everybody else who runs on node 1 takes memory there, too.
[ "$(pages_on_1)" -le $((before + 64)) ] || fail "node 1 had $before pages of the program, now $(pages_on_1)"
numadctl explain $program --last 400 | grep -q "no room there" || fail "no veto for want of room"
dmesg | grep -i "out of memory" && fail "something was killed"
# What left the full node finds no room there, and numad says so; it goes back when there is some.
if ! numadctl detach $program >/out/detach 2>&1; then
    grep -q "no free memory" /out/detach || fail "detach: $(cat /out/detach)"
    rm /dev/shm/ballast
    numadctl undo $program || fail "undo"
fi
stop_numad
kill $program
