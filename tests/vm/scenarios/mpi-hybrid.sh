#: about   an MPI job of four ranks with two threads each: threads of a rank are on one node, ranks where the oracle has them
#: machine ring4
#: image   mpi
#: limit   600
ranks=4 threads=2
. /lib/mpi.sh
autonuma 0
start_numad
begin_job mpirun --bind-to none
for one in $members; do masks $one; done >/out/masks.before

# Nodes of the threads of a rank that work: MPI has some that sleep.
nodes_of() {
    for task in /proc/"$1"/task/*; do
        [ "$(sed 's/.*) //' "$task"/stat | cut -d' ' -f12)" -lt 50 ] || node_of "$task"
    done
}
together() {
    for one in $members; do
        [ "$(nodes_of "$one" | sort | uniq -c | tr -s ' ')" = " 2 $(node_of /proc/"$one")" ] || return 1
    done
}
all_together() { is_best && together; }

others_wait "$members" numadctl attach --job "$name" --policy deloc || fail "attach"
attached=$(milliseconds)
within 20 messages || fail "no messages"
within 120 all_together || {
    for one in $members; do echo "rank of process $one: nodes" $(nodes_of "$one"); done
    fail "ranks are at $(found), best is $(best)"
}
echo "placed after $(($(milliseconds) - attached)) ms: $(found)"
numadctl status
uncount
keep_journal
others_wait "$members" numadctl detach $program || within 30 numadctl undo --all || fail "undo"
for one in $members; do masks $one; done >/out/masks.after
cmp /out/masks.before /out/masks.after || fail "masks differ: $(cat /out/masks.after)"
end_job
stop_numad
