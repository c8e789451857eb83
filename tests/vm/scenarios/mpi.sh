#: about   an MPI job that communicates as NPB's CG does: ranks come where the oracle would have them, and all goes back
#: machine ring4
#: image   mpi
#: limit   600
#: expect  steady_local >= 0.95
# Who places the ranks: deloc; nothing; default, numa, core and oracle, which are mpirun's doing.
contestant=deloc
policy=none
case $contestant in
    deloc) policy=deloc mapping='--bind-to none' ;;
    nothing) mapping='--bind-to none' ;;
    default) mapping= ;;
    numa) mapping='--map-by numa --bind-to numa' ;;
    core) mapping='--map-by core --bind-to core' ;;
    oracle)
        # What `cg --oracle` prints for this pattern: pairs of neighbours, and rows side by side.
        for rank in 0 1 2 3 4 5 6 7; do echo "rank $rank=guest slot=$rank"; done >/run/ranks
        mapping='--rankfile /run/ranks'
        ;;
esac
autonuma 0
hostname guest
start_numad
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 MARK_NOSTART=1
# Messages go through memory that ranks share, and who waits lets others run.
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader OMPI_MCA_btl_vader_single_copy_mechanism=none \
    OMPI_MCA_osc=^rdma OMPI_MCA_plm=isolated OMPI_MCA_mpi_yield_when_idle=1
head -c 8 /dev/zero >/run/rounds
(
    eval "$(numadctl mpi env)"
    exec mpirun $mapping -n 8 -x LD_PRELOAD=/lib/mark.so:"$LD_PRELOAD" cg /run/rounds
) >/out/job 2>&1 &
job=$!
rounds() { od -An -t d8 /run/rounds | tr -d ' '; }
turning() { [ "$(rounds)" -gt 20 ]; }
within 120 turning || fail "no rank works: $(cat /out/job)"
members=$(pidof cg)
name=$(tr '\0' '\n' </proc/"${members%% *}"/environ | sed -n 's/^PMIX_NAMESPACE=//p')
page-nodes $members >/out/pages.before
for one in $members; do masks $one; done >/out/masks.before
program=${members%% *}

messages() { numadctl matrix $program --window messages --json >/out/matrix 2>/dev/null; }
# Lines of the matrix, ranks in their order, and where each of them runs.
matrix_rows() { tr -d ' \n' </out/matrix | sed 's/.*"rows":\[\[//; s/\]\].*//; s/\],\[/\n/g; s/,/ /g'; }
ranks() { tr -d ' \n' </out/matrix | sed 's/.*"tids":\[//; s/\].*//; s/,/ /g'; }
node_of() { echo $(($(sed 's/.*) //' /proc/"$1"/stat | cut -d' ' -f37) / cpus_per_node)); }
places() { for one in $(ranks); do node_of "$one"; done; }
distances=$(for node in /sys/devices/system/node/node[0-9]*; do tr ' ' ':' <"$node/distance"; done | tr '\n' '/')
# Share of bytes that stay on a node, mean distance of a byte, and the node of each rank
found() { messages && matrix_rows | cg --oracle "$distances" $(places); }
best() { matrix_rows | cg --oracle "$distances"; }
is_best() { echo "$(found) $(best)" | awk '{ exit !($2 <= $12 * 1.001) }'; }

# Who sends how much to whom is known of what is attached.
numadctl attach --job "$name" --policy none || fail "attach"
within 20 messages || fail "no messages"
echo "at first: $(found)"
if [ $policy = deloc ]; then
    numadctl detach $program || fail "detach"
    numadctl attach --job "$name" --policy deloc || fail "attach"
    attached=$(milliseconds)
    within 20 messages || fail "no messages"
    within 60 is_best || fail "ranks are at $(found), best is $(best)"
    echo "placed after $(($(milliseconds) - attached)) ms"
    within 5 settled 5 || fail "pages are moved without end"
fi
first=$(rounds)
/bin/mark start
sleep 20
/bin/mark stop
messages
echo "contestant $contestant rounds $(($(rounds) - first)) placed $(found) best $(best)"
for one in $(ranks); do echo "$one node $(node_of "$one") pages $(homes "$one")"; done
numadctl status
[ $policy = deloc ] || exit 0
keep_journal
# Putting back takes the processors that ranks take, too.
others_wait "$members" numadctl detach $program || {
    # A page that was busy just then is asked for again.
    within 30 numadctl undo --all || fail "undo"
}
for one in $members; do masks $one; done >/out/masks.after
cmp /out/masks.before /out/masks.after || fail "masks differ: $(cat /out/masks.after)"
page-nodes $members >/out/pages.after
pages_back /out/pages.before /out/pages.after
kill $job
stop_numad
