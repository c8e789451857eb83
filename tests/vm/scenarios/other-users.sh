#: about   a user puts own programs under a policy, and learns nothing about those of others
#: machine ring4 mesh8
#: limit   240
autonuma 0
default_settings
# An attach takes half a second of a processor of the guest, by default ten seconds of a user's part.
printf '[limits]\nuser_share_percent = 50\n' >>"$config"
start_numad
$(as 1000) numad-workload pairs --threads 4 --region-kib 256 --seconds 300 --seed 1 --release-rounds 0 >/out/workload &
program=$!
within 20 grep -q . /out/workload || fail "the workload says nothing"
$(as 1001) numadctl attach $program --policy deloc >/out/refused 2>&1 && fail "another user may attach"
contains "the refusal" "$(cat /out/refused)" "belongs to someone else"
$(as 1000) numadctl attach $program --policy deloc || fail "the owner may not attach"
within 40 moved_threads || fail "no thread was moved"
$(as 1001) numadctl status | grep -q numad-workload && fail "another user sees the program"
$(as 1001) numadctl matrix $program >/out/matrix 2>&1 && fail "another user sees the matrix"
$(as 1001) numadctl detach $program >/out/detach 2>&1 && fail "another user may detach"
$(as 1000) numadctl matrix $program >/dev/null || fail "the owner does not see the matrix"
$(as 1000) numadctl detach $program || fail "the owner may not detach"
stop_numad
kill $program
