#: about   eight nodes in an asymmetric mesh: pairs come together with their pages
#: machine mesh8
#: limit   300
#: expect  steady_local >= 0.9
autonuma 0
start_numad
workload slices --threads 8 --region-kib 512 --seconds 600 --seed 7
numadctl attach $program --policy deloc || fail "attach"
sleep 40
numadctl status
moved_pages || fail "no page was moved"
uncount
numadctl detach $program || fail "detach"
stop_numad
kill $program
