#: about   numad -w answers as the distribution's numad does, which libvirt asks, with nodes that have what is needed
#: machine ring4 mesh8 tier4 tier8 ring4-huge
#: limit   200
autonuma 0
packaged=/opt/distribution/numad
mkdir -p /var/log

# numbers LIST: each node of a list such as 0-1,3 on a line of its own; fails on any other form
numbers() {
    echo "$1" | tr , '\n' | awk -F- '
        !/^[0-9]+(-[0-9]+)?$/ { exit 1 }
        { for (node = $1; node <= $NF; node++) print node }'
}

# has LIST CPUS MIB: whether these nodes have so many processors and so much free memory
has() {
    cpus_there=0 mib_there=0
    for node in $(numbers "$1"); do
        [ "$node" -ge "$nodes" ] || cpus_there=$((cpus_there + cpus_per_node))
        mib_there=$((mib_there + $(awk '/MemFree/{print int($4 / 1024)}' /sys/devices/system/node/node"$node"/meminfo)))
    done
    [ $cpus_there -ge "$2" ] && [ $mib_there -ge "$3" ]
}

all=$(cat /sys/devices/system/node/has_memory)
for need in 1 1:32 2:64 $cpus_per_node:200 $((cpus_per_node + 1)):64 $cpus:64 1:400; do
    ours=$(numad -w $need) || fail "numad -w $need ended with $?"
    theirs=$($packaged -w $need) || fail "the packaged numad -w $need ended with $?"
    echo "-w $need: $ours (packaged: $theirs)"
    for answer in "$ours" "$theirs"; do
        numbers "$answer" >/dev/null || fail "-w $need: '$answer' is no list of nodes"
    done
    case $need in *:*) mib=${need#*:} ;; *) mib=0 ;; esac
    has "$ours" "${need%:*}" $mib || fail "-w $need: nodes $ours have less than that"
done
# More than there is: everything there is.
expect "-w for more than the machine has" "$(numad -w 64:100000)" "$all"

# Where processors are busy nobody is sent while others are idle, with a daemon or without.
cpu=0 busy=
while [ $cpu -lt "$cpus_per_node" ]; do
    taskset $(printf %x $((1 << cpu))) sh -c 'while :; do :; done' &
    busy="$busy $!"
    cpu=$((cpu + 1))
done
sleep 1
for round in without with; do
    ours=$(numad -w $cpus_per_node) || fail "numad -w ended with $?"
    echo "node 0 busy, $round a daemon: $ours (packaged: $($packaged -w $cpus_per_node))"
    case $ours in 0 | 0-*) fail "node 0 is busy, and the answer is $ours" ;; esac
    [ $round = with ] || start_numad
done
stop_numad
kill $busy

for wrong in 0 x 4: 4:x 1:2:3; do
    numad -w $wrong 2>/out/wrong && fail "-w $wrong was taken"
    expect "exit code of -w $wrong" $? 2
    expect "lines for -w $wrong" "$(wc -l </out/wrong)" 1
done
