#: about   32 MiB a thread: 65,536 pages on one node go to where they are used, by samples as hardware takes them
#: machine ring4
#: limit   900
#: expect  steady_local >= 0.95
autonuma 0
feed 50000 --seed 3
start_numad
workload slices --threads $cpus --region 32M --seconds 3000 --seed 3
numadctl attach $program --policy deloc || fail "attach"
# How many pages go depends on where threads go first: those of a thread that stays on node 0 stay there too.
# A window in which hardly anything was seen says nothing.
all_local() { [ "$(figure samples)" -gt 5000 ] && figure local_share | awk '{ exit !($1 >= 0.95) }'; }
within 400 all_local || fail "$(figure local_share) of accesses are local"
sleep 15
homes $program
numadctl status
uncount
# They fill node 0, on which something else may have grown since: then a few have no room there, and detach says so.
numadctl detach $program >/out/detach.txt 2>&1 || grep -q "no free memory" /out/detach.txt || fail "$(cat /out/detach.txt)"
back=$(sed -n 's/^put back .* and \([0-9]*\) pages$/\1/p' /out/detach.txt)
[ "${back:-0}" -gt 32768 ] || fail "$(cat /out/detach.txt)"
stop_numad
kill $program $feeder
