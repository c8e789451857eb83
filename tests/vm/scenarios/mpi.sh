#: about   an MPI job that communicates as NPB's CG does: ranks come where the oracle would have them, and all goes back
#: machine ring4
#: image   mpi
#: limit   600
#: expect  local >= 0.9
# Of the whole 20 s: later nearly all comes out of caches, and a share of a dozen accesses tells nothing.
# Who places the ranks: deloc; nothing; default, numa, core and oracle, which are mpirun's doing.
contestant=deloc
policy=none ranks=8 threads=1
. /lib/mpi.sh
case $contestant in
    deloc) policy=deloc mapping='--bind-to none' ;;
    nothing) mapping='--bind-to none' ;;
    default) mapping= ;;
    numa) mapping='--map-by numa --bind-to numa' ;;
    core) mapping='--map-by core --bind-to core' ;;
    oracle) mapping=$(oracle_mapping) ;;
esac
autonuma 0
start_numad
begin_job mpirun $mapping
page-nodes $members >/out/pages.before
for one in $members; do masks $one; done >/out/masks.before

# Who sends how much to whom is known of what is attached. Attaching takes the processors that ranks take, too.
others_wait "$members" numadctl attach --job "$name" --policy none || fail "attach"
within 20 messages || fail "no messages"
echo "at first: $(found)"
if [ $policy = deloc ]; then
    numadctl detach $program || fail "detach"
    others_wait "$members" numadctl attach --job "$name" --policy deloc || fail "attach"
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
for one in $(in_order); do echo "$one node $(node_of /proc/"$one") pages $(homes "$one")"; done
numadctl status
[ $policy = deloc ] || exit 0
keep_journal
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
