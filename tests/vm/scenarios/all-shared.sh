#: about   where all share all, nothing can be gained, and nothing is moved for long
#: limit   200
autonuma 0
start_numad
workload all-shared --threads 8 --region-kib 1024 --seconds 60 --seed 7
numadctl attach $program --policy deloc || fail "attach"
sleep 35
numadctl status
[ "$(figure thread_moves)" -le 16 ] || fail "$(figure thread_moves) threads were moved"
numadctl detach $program || fail "detach"
wait $program
stop_numad
