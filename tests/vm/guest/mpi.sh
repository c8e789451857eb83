# MPI jobs in guests, for scenarios of the image `mpi`: sourced by them.

hostname guest
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 MARK_NOSTART=1
# Messages go through memory that ranks share, and who waits lets others run.
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader OMPI_MCA_btl_vader_single_copy_mechanism=none \
    OMPI_MCA_osc=^rdma OMPI_MCA_plm=isolated OMPI_MCA_mpi_yield_when_idle=1

# begin_job COMMAND...: mpirun with its flags, or what launches it, of `$ranks` ranks with `$threads` threads each, which
# play the parts that `$stride` gives them; when rounds go round, `$job` is the launcher, `$members` are the ranks,
# `$program` is one of them, `$name` is the job's
begin_job() {
    head -c 8 /dev/zero >/run/rounds
    launch "$@" -n "$ranks" -x LD_PRELOAD cg /run/rounds "$threads" "${stride:-1}"
    within 120 turning || fail "no rank works: $(cat /out/job)"
    know_job cg
}
# launch COMMAND...: in the background, with the library that counts messages
launch() {
    (
        eval "$(numadctl mpi env)"
        export LD_PRELOAD=/lib/mark.so:"$LD_PRELOAD"
        exec "$@"
    ) >/out/job 2>&1 &
    job=$!
}
# know_job NAME: its ranks are the processes of that name
know_job() {
    members=$(pidof "$1")
    program=${members%% *}
    name=$(tr '\0' '\n' </proc/"$program"/environ | sed -n 's/^PMIX_NAMESPACE=//p')
}
rounds() { od -An -t d8 /run/rounds | tr -d ' '; }
turning() { [ "$(rounds)" -gt 20 ]; }
end_job() {
    kill $job
    within 20 gone $members || fail "ranks do not end: $(ps)"
}
gone() { for one in "$@"; do [ ! -e /proc/"$one"/stat ] || return 1; done; }

# The mapping that `cg --oracle` prints for this pattern: pairs of neighbours, and rows side by side.
oracle_mapping() {
    for rank in 0 1 2 3 4 5 6 7; do echo "rank $rank=guest slot=$rank"; done >/run/ranks
    echo '--rankfile /run/ranks'
}

messages() { numadctl matrix $program --window messages --json >/out/matrix 2>/dev/null; }
# Lines of the matrix, ranks in their order, and where each of them runs.
matrix_rows() { tr -d ' \n' </out/matrix | sed 's/.*"rows":\[\[//; s/\]\].*//; s/\],\[/\n/g; s/,/ /g'; }
in_order() { tr -d ' \n' </out/matrix | sed 's/.*"tids":\[//; s/\].*//; s/,/ /g'; }
node_of() { echo $(($(sed 's/.*) //' "$1"/stat | cut -d' ' -f37) / cpus_per_node)); }
places() { for one in $(in_order); do node_of /proc/"$one"; done; }
distances=$(for node in /sys/devices/system/node/node[0-9]*; do tr ' ' ':' <"$node/distance"; done | tr '\n' '/')
# Share of bytes that stay on a node, mean distance of a byte, and the node of each rank
found() { messages && matrix_rows | cg --oracle "$distances" $(places); }
best() { matrix_rows | cg --oracle "$distances"; }
is_best() { echo "$(found) $(best)" | awk -v ranks="$ranks" '{ exit !($2 <= $(ranks + 4) * 1.001) }'; }
