#: about   32 MiB a thread: 65,536 pages on one node go to where they are used, by samples as hardware takes them
#: machine ring4
#: limit   300
#: expect  steady_local >= 0.4
autonuma 0
feed 50000 --seed 3
start_numad
workload slices --threads $cpus --region 32M --seconds 600 --seed 3
numadctl attach $program --policy deloc || fail "attach"
within 60 moved_pages || fail "no page was moved"
sleep 20
homes $program
numadctl status
uncount
[ "$(figure samples)" -gt 1000 ] || fail "hardly a sample"
numadctl detach $program || fail "detach"
stop_numad
kill $program $feeder
