#: about   whether it is NUMA at all: a misplaced program and one that is placed well get the right advice, and are left as they were
#: machine ring4
#: limit   300
autonuma 0
start_numad
workload slices --threads $cpus --region-kib 512 --seconds 600 --seed 5
masks $program >/out/masks.before
page-nodes $program >/out/pages.before
told=$(numadctl doctor $program --for 40s) || fail "doctor: $told"
# As one line.
told=$(echo $told)
echo "$told"
contains "the share" "$told" "of its accesses are remote ("
contains "the cost" "$told" "times as"
contains "the advice" "$told" "try \`numadctl ab $program --policies linux,"
masks $program | diff /out/masks.before - || fail "masks differ afterwards"
page-nodes $program | diff /out/pages.before - >/dev/null || fail "pages moved"
contains "status afterwards" "$(numadctl status)" "nothing is attached"
kill $program
workload slices --threads $cpus --region-kib 512 --seconds 600 --seed 5 --oracle 0-1/2-3/4-5/6-7
told=$(numadctl doctor $program --for 40s) || fail "doctor: $told"
# As one line.
told=$(echo $told)
echo "$told"
contains "the advice" "$told" "leave it as it is"
stop_numad
kill $program
