#: about   the date jumps, back and forth, while an experiment runs: slices keep their length, and all is undone
#: machine ring4
#: limit   900
#: expect  local >= 0
settings <<'SETTINGS'
[overhead]
budget_percent = 50
move_pause_max_ms = 500
[sampling]
clear_budget_percent = 100
clear_pause_max_ms = 500
SETTINGS
start_numad
workload pairs --threads $cpus --region-kib 256 --seconds 3000 --seed 5
masks_before=$(masks $program)
numadctl ab $program --policies linux,random -n 6 --slice 2s --time-constant 200ms --seed 1 --to-the-end --max-harm 99 \
    --metric "cmd:echo 5" -o /out/experiment.json >/out/experiment.txt 2>&1 &
client=$!
for date in "2031-01-01 00:00" "1971-01-01 00:00" "2027-06-01 12:00"; do
    sleep 5
    date -s "$date" >/out/date.txt || fail "setting the date"
done
wait $client || fail "the experiment: $(tail -n 5 /out/experiment.txt)"
numadctl report /out/experiment.json
expect "slices" "$(grep -c '"block"' /out/experiment.json)" 12
# A slice takes what it was to take, and what so slow a processor needs to ask for the metric: no years, and no negative time.
sed -n 's/^ *"length_s": *\([0-9.]*\).*/\1/p' /out/experiment.json |
    awk '$1 < 1.9 || $1 > 8 { print "a slice of " $1 " s"; wrong = 1 } END { exit wrong }' || fail "lengths of slices"
numadctl status
expect "masks" "$(masks $program)" "$masks_before"
numadctl history
uncount
stop_numad
kill $program
