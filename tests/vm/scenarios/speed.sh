#: about   a speed that answers: IPC by the model rises when pages come to their threads, and numad sees it
#: machine ring4
#: limit   200
#: expect  steady_local >= 0.9
autonuma 0
feed 50000 --speed /run/numad/counters
start_numad
workload slices --threads $cpus --region 1M --seconds 600 --seed 5
# counted NAME: the program's own number by the model
counted() { awk -v pid=$program -v name="$1" '$2 == pid { for (word = 3; word < NF; word += 2) if ($word == name) print $(word + 1) }' \
    /run/numad/counters; }
# ipc SECONDS: instructions for each thousand cycles by the model
ipc() {
    instructions=$(counted instructions) cycles=$(counted cycles)
    sleep "$1"
    awk -v i=$(($(counted instructions) - instructions)) -v c=$(($(counted cycles) - cycles)) 'BEGIN { print int(1000 * i / c) }'
}
numadctl attach $program --policy none || fail "attach"
sleep 2
far=$(ipc 5)
numadctl detach $program || fail "detach"
numadctl attach $program --policy deloc || fail "attach"
within 60 moved_pages || fail "no page was moved"
sleep 25
near=$(ipc 5)
echo "instructions for each thousand cycles: $far far, $near near"
[ "$near" -gt $((far * 11 / 10)) ] || fail "IPC does not answer"
numadctl explain $program | head -n 30
contains "status" "$(numadctl status --json)" '"ipc"'
uncount
numadctl detach $program || fail "detach"
stop_numad
kill $program $feeder
