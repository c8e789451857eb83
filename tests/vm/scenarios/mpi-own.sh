#: about   MPI programs of your own, in the folder that NUMAD_VM_PROGRAMS names: how far messages go, by who places ranks
#: machine ring4
#: image   mpi
#: limit   3600
ranks=8
. /lib/mpi.sh
[ -d /opt/programs ] || {
    echo "skipped: there are no programs; name a folder of them by NUMAD_VM_PROGRAMS"
    exit 0
}
autonuma 0
start_numad
there() { [ "$(pidof "$1" | wc -w)" = $ranks ]; }

# own HOW POLICY COMMAND...: messages of the program from the attach on, for 20 s; under a policy also a minute later
own() {
    how=$1 policy=$2
    shift 2
    launch "$@" -n "$ranks" -x LD_PRELOAD "$file"
    within 120 there "${file##*/}" || fail "there are no ranks: $(cat /out/job)"
    know_job "${file##*/}"
    others_wait "$members" numadctl attach --job "$name" --policy "$policy" || fail "attach"
    within 60 messages || fail "no messages"
    sleep 20
    echo "${file##*/}, $how: $(found) best $(best)"
    [ "$policy" = none ] || {
        sleep 60
        echo "${file##*/}, $how, later: $(found) best $(best)"
    }
}

for file in /opt/programs/*; do
    own nobody none mpirun --bind-to none
    numadctl matrix $program --window messages --csv >/out/messages.csv || fail "no matrix"
    end_job
    numadctl plan /out/messages.csv -o /out/plan || fail "no plan"
    own default none mpirun
    end_job
    own numa none mpirun --map-by numa --bind-to numa
    end_job
    own plan none numadctl run --plan /out/plan -- mpirun
    end_job
    own deloc deloc mpirun --bind-to none
    end_job
done
stop_numad
