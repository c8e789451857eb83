#: about   memory of which numactl said where it is to be stays there, and threads are placed all the same
#: machine ring4 mesh8
#: limit   240
autonuma 0
start_numad
LD_PRELOAD=/lib/mark.so numactl --membind=1 numad-workload pairs --threads $cpus --region-kib 512 --seconds 300 --seed 9 \
    --release-rounds 0 >/out/workload &
program=$!
within 20 grep -q . /out/workload || fail "the workload says nothing"
homes $program | grep -q 'N[^1]=' && fail "pages elsewhere: $(homes $program)"
# Pages are wanted elsewhere, whatever threads do.
numadctl attach $program --policy interleave || fail "attach"
refused() { numadctl explain $program --last 400 | grep -q "not allowed by the target's cpuset or memory policy"; }
within 60 refused || fail "nobody said why pages stay"
homes $program | grep -q 'N[^1]=' && fail "pages were moved: $(homes $program)"
numadctl detach $program || fail "detach"
numadctl attach $program --policy deloc || fail "attach anew"
bound() { masks $program | awk '{print $2}' | sort -u | grep -qv '^0-7$'; }
within 60 bound || fail "no thread was placed"
homes $program | grep -q 'N[^1]=' && fail "pages were moved: $(homes $program)"
numadctl detach $program || fail "detach"
stop_numad
kill $program
