#: about   a processor that is off is no less a thread's own: its mask is whole again when both are back
#: machine ring4
#: limit   200
autonuma 0
start_numad
workload pairs --threads $cpus --region-kib 512 --seconds 600 --seed 7
set -- $(threads $program | tail -n 2)
taskset -cp 1-2,5-6 $1 && taskset -cp 4-7 $2 || fail "taskset"
masks $program >/out/before
bound() { ! masks $program | cmp -s - /out/before; }
switch() { echo $1 >/sys/devices/system/cpu/cpu5/online || fail "processor 5 is not switched"; }
for off in before while; do
    [ $off = while ] || switch 0
    numadctl attach $program --policy deloc || fail "attach"
    within 60 bound || fail "no thread was bound"
    [ $off = before ] || switch 0
    sleep 5
    masks $program
    numadctl detach $program || fail "detach"
    switch 1
    masks $program >/out/after
    diff /out/before /out/after || fail "masks differ, off $off"
done
stop_numad
kill $program
