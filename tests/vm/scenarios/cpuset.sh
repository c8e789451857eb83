#: about   threads and pages stay inside the cgroup's cpuset, also when it changes
#: machine ring4 mesh8
#: quick
#: limit   300
autonuma 0
# Some of the processors 0-3 with their nodes, and the masks that a thread may have there, in all of 0-3 and in 2-5:
# nodes or all of it.
case $machine in
    ring4) few=0,2 memory=0-1 narrow="0 2 0,2" first="0-1 2-3 0-3" second="2-3 4-5 2-5" outside="N[2-3]=" ;;
    mesh8) few=0-3 memory=0-3 narrow="0 1 2 3 0-3" first="0 1 2 3 0-3" second="2 3 4 5 2-5" outside="N[4-7]=" ;;
esac
cd /sys/fs/cgroup || fail "no cgroup v2"
echo +cpuset >cgroup.subtree_control
mkdir box
echo $few >box/cpuset.cpus
echo $memory >box/cpuset.mems
cd /out || exit 1
start_numad
# Starts inside: its memory is allocated within the limits.
sh -c 'echo $$ >/sys/fs/cgroup/box/cgroup.procs; exec env LD_PRELOAD=/lib/mark.so numad-workload pairs --threads 4 --region-kib 512 --seconds 300 --seed 9 --release-rounds 0 >/out/workload' &
program=$!
within 20 grep -q . /out/workload || fail "the workload says nothing"
all_inside() {
    for mask in $(masks $program | awk '{print $2}'); do
        case " $1 " in *" $mask "*) ;; *) return 1 ;; esac
    done
}
inside() { all_inside "$1" || fail "a thread may run on more or less than: $1"; }
numadctl attach $program --policy deloc || fail "attach"
within 40 moved_pages || fail "no page was moved"
inside "$narrow"
homes $program | grep "$outside" && fail "pages on nodes outside"
# The kernel keeps a mask that was set while there was less: what is there now numad must give.
echo 0-3 >/sys/fs/cgroup/box/cpuset.cpus
within 40 all_inside "$first" || fail "threads keep to what the cpuset was"
echo 2-5 >/sys/fs/cgroup/box/cpuset.cpus
sleep 8
inside "$second"
echo 0-7 >/sys/fs/cgroup/box/cpuset.cpus
numadctl detach $program || fail "detach"
# Nobody had asked for a mask of their own, so the wider set is theirs again.
inside "0-7"
stop_numad
kill $program
