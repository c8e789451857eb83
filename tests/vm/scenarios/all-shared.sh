#: about   where all share all, nothing can be gained, and nothing is moved for long
#: machine ring4 mesh8
#: limit   300
autonuma 0
start_numad
workload all-shared --threads $cpus --region-kib 1024 --seconds 150 --seed 7
numadctl attach $program --policy deloc || fail "attach"
sleep 40
early=$(figure thread_moves)
sleep 40
late=$(($(figure thread_moves) - early))
numadctl status
echo "$early threads were moved in 40 seconds, $late in the next 40"
[ $early -le 16 ] || fail "$early threads were moved at first"
[ $late -le 8 ] || fail "$late threads were moved when all had been seen"
numadctl detach $program || fail "detach"
kill $program
stop_numad
