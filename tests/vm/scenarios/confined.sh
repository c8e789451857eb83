#: about   the rights of the unit are enough: the daemon works as a user with these capabilities alone
#: machine ring4 mesh8
#: limit   240
autonuma 0
# Debian's level 3 asks for more than CAP_PERFMON; the refusal says so, and 2 is what other kernels have.
default_settings
mkdir -p "${NUMAD_SOCKET%/*}" "$state"
chown 900:900 "${NUMAD_SOCKET%/*}" "$state"
rights=+sys_nice,+sys_ptrace,+perfmon,+dac_override
/bin/setpriv --reuid 900 --regid 900 --clear-groups --no-new-privs \
    --bounding-set -all,$rights --inh-caps -all,$rights --ambient-caps -all,$rights \
    numad --config "$config" --socket "$NUMAD_SOCKET" --state-dir "$state" 2>/out/numad.log &
daemon=$!
within 20 numadctl status || fail "the daemon does not answer"
# The program of another user, who is not root.
$(as 1000) \
    numad-workload pairs --threads $cpus --region-kib 512 --seconds 300 --seed 1 --release-rounds 0 >/out/workload &
program=$!
within 20 grep -q . /out/workload || fail "the workload says nothing"
masks $program >/out/before
numadctl attach $program --policy deloc >/out/refused 2>&1 && fail "attach at level 3"
contains "the refusal" "$(cat /out/refused)" "perf_event_paranoid=2"
echo 2 >/proc/sys/kernel/perf_event_paranoid
numadctl attach $program --policy deloc || fail "attach"
within 40 moved_threads || fail "no thread was moved"
within 40 moved_pages || fail "no page was moved"
numadctl detach $program || fail "detach"
masks $program | diff /out/before - || fail "masks differ after detach"
stop_numad
kill $program
