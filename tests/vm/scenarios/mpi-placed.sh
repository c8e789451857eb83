#: about   an MPI job as mpirun places it by itself, and by a plan made from the messages of its first run
#: machine ring4
#: image   mpi
#: limit   600
ranks=8 threads=1
. /lib/mpi.sh
autonuma 0
start_numad

# placed NAME COMMAND...: how far messages go when the job is started like this
placed() {
    how=$1
    shift
    begin_job "$@"
    others_wait "$members" numadctl attach --job "$name" --policy none || fail "attach"
    within 20 messages || fail "no messages"
    # Until each pair has talked often enough for the matrix to be the pattern's.
    begun=$(rounds)
    within 60 further 100 || fail "rounds do not go on"
    echo "$how: $(found) best $(best)"
}
further() { [ $(($(rounds) - begun)) -gt "$1" ]; }

# Core by core is best where neighbours have neighbouring numbers, as in CG; not where they have others.
for stride in 1 3; do
    placed "stride $stride, nothing" mpirun --bind-to none
    numadctl matrix $program --window messages --csv >/out/messages.csv || fail "no matrix"
    end_job
    numadctl plan /out/messages.csv -o /out/plan || fail "no plan"
    placed "stride $stride, default" mpirun
    end_job
    placed "stride $stride, numa" mpirun --map-by numa --bind-to numa
    end_job
    placed "stride $stride, core" mpirun --map-by core --bind-to core
    end_job
    placed "stride $stride, plan" numadctl run --plan /out/plan -- mpirun
    is_best || fail "ranks are at $(found), best is $(best)"
    end_job
    cat /out/job
    contains "the launch" "$(cat /out/job)" "8 of 8"
done
stop_numad
