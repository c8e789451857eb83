# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_numadctl_global_optspecs
    string join \n socket= h/help V/version
end

function __fish_numadctl_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_numadctl_global_optspecs) -- $cmd 2>/dev/null
    or return 0
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_numadctl_using_subcommand
    set -l cmd (__fish_numadctl_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c numadctl -n "__fish_numadctl_needs_command" -l socket -d 'Socket of the daemon, for commands that ask it; else the variable NUMAD_SOCKET, else /run/numad/numad.sock' -r -F
complete -c numadctl -n "__fish_numadctl_needs_command" -s h -l help -d 'Print help'
complete -c numadctl -n "__fish_numadctl_needs_command" -s V -l version -d 'Print version'
complete -c numadctl -n "__fish_numadctl_needs_command" -f -a "attach" -d 'Put a running program under a policy'
complete -c numadctl -n "__fish_numadctl_needs_command" -f -a "detach" -d 'Take a program off its policy and put everything back'
complete -c numadctl -n "__fish_numadctl_needs_command" -f -a "status" -d 'Show the daemon and the programs under a policy'
complete -c numadctl -n "__fish_numadctl_needs_command" -f -a "run" -d 'Start a program under a policy'
complete -c numadctl -n "__fish_numadctl_needs_command" -f -a "explain" -d 'Tell what was done to a program and why, and what was not done and why not'
complete -c numadctl -n "__fish_numadctl_needs_command" -f -a "matrix" -d 'Show which threads of a program share memory'
complete -c numadctl -n "__fish_numadctl_needs_command" -f -a "record" -d 'Record what a program does to memory, for a later replay'
complete -c numadctl -n "__fish_numadctl_needs_command" -f -a "profile" -d 'Show what the tasks of a program communicate, when, and what kind of mapping it gains from'
complete -c numadctl -n "__fish_numadctl_needs_command" -f -a "replay" -d 'Tell what a policy would have done to a recorded program'
complete -c numadctl -n "__fish_numadctl_needs_command" -f -a "ab" -d 'Put a running program under several policies in turn, and tell which is better'
complete -c numadctl -n "__fish_numadctl_needs_command" -f -a "compare" -d 'Run a command many times under several policies, and tell which is better'
complete -c numadctl -n "__fish_numadctl_needs_command" -f -a "report" -d 'Show an experiment again, as text or as a page'
complete -c numadctl -n "__fish_numadctl_needs_command" -f -a "topo" -d 'Show the nodes, processors, memory and distances of a machine'
complete -c numadctl -n "__fish_numadctl_needs_command" -f -a "characterize" -d 'Measure how fast every node reaches every memory, and keep it for the daemon'
complete -c numadctl -n "__fish_numadctl_needs_command" -f -a "import" -d 'Turn a file of `perf record` into a recording; works without a daemon'
complete -c numadctl -n "__fish_numadctl_needs_command" -f -a "export" -d 'Turn a placement that proved good into a line for other tools'
complete -c numadctl -n "__fish_numadctl_needs_command" -f -a "plan" -d 'Place the ranks or threads of a program\'s next run, by who says how much to whom'
complete -c numadctl -n "__fish_numadctl_needs_command" -f -a "history" -d 'List the programs whose attachment has ended, with what was done and gained'
complete -c numadctl -n "__fish_numadctl_needs_command" -f -a "policies" -d 'List the policies, or show one with its settings'
complete -c numadctl -n "__fish_numadctl_needs_command" -f -a "doctor" -d 'Tell what this machine can give and what it lacks, and what to do about it'
complete -c numadctl -n "__fish_numadctl_needs_command" -f -a "undo" -d 'Put back what was changed, for one process or for all'
complete -c numadctl -n "__fish_numadctl_needs_command" -f -a "journal" -d 'Show what is changed and not undone, by process'
complete -c numadctl -n "__fish_numadctl_needs_command" -f -a "config" -d 'Check settings files, or show the settings in force'
complete -c numadctl -n "__fish_numadctl_needs_command" -f -a "mpi" -d 'Print what makes MPI programs count who sends how much to whom'
complete -c numadctl -n "__fish_numadctl_needs_command" -f -a "reload" -d 'Let the daemon read its settings again'
complete -c numadctl -n "__fish_numadctl_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c numadctl -n "__fish_numadctl_using_subcommand attach" -l cgroup -d 'Every process in this control group and below' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand attach" -l unit -d 'Every process of this systemd unit' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand attach" -l command -d 'Every process whose command has this name' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand attach" -l job -d 'Every rank of this MPI job on this machine, and those that it spawns; `status` shows jobs' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand attach" -s p -l policy -d 'Policy; the default policy of the settings when not given' -r -f -a "none\t''
linux\t''
packed\t''
scatter\t''
random\t''
interleave\t''
fixed\t''
balance\t''
locality\t''
deloc\t''
lapt\t''
rclb\t''
data-only\t''
ptb\t''
cdsm\t''
azimi\t''
autopin\t''
auto\t''"
complete -c numadctl -n "__fish_numadctl_using_subcommand attach" -l set -d 'Setting of the policy (`numadctl policies show NAME` lists them), or of the engine for this program alone, such as `engine.hold_ms=0` (docs/config.md)' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand attach" -l for -d 'Detach by itself after this time, as in 90s, 10m or 1h, or in seconds; when the program ends or is detached, if not given' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand attach" -l socket -d 'Socket of the daemon, for commands that ask it; else the variable NUMAD_SOCKET, else /run/numad/numad.sock' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand attach" -l as-published -d 'Take the policy\'s method as its paper has it, and refuse only what is impossible, forbidden or beyond limits (`numadctl policies show NAME` says what differs); the same as `--set engine.method=published`'
complete -c numadctl -n "__fish_numadctl_using_subcommand attach" -l dry-run -d 'Decide and tell, but change nothing'
complete -c numadctl -n "__fish_numadctl_using_subcommand attach" -l json -d 'Answer in JSON'
complete -c numadctl -n "__fish_numadctl_using_subcommand attach" -s h -l help -d 'Print help'
complete -c numadctl -n "__fish_numadctl_using_subcommand detach" -l socket -d 'Socket of the daemon, for commands that ask it; else the variable NUMAD_SOCKET, else /run/numad/numad.sock' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand detach" -l json -d 'Answer in JSON'
complete -c numadctl -n "__fish_numadctl_using_subcommand detach" -s h -l help -d 'Print help'
complete -c numadctl -n "__fish_numadctl_using_subcommand status" -l every -d 'Seconds between two showings' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand status" -l count -d 'End after this many showings' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand status" -l socket -d 'Socket of the daemon, for commands that ask it; else the variable NUMAD_SOCKET, else /run/numad/numad.sock' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand status" -s w -l watch -d 'Show it again and again until interrupted'
complete -c numadctl -n "__fish_numadctl_using_subcommand status" -l json -d 'Answer in JSON'
complete -c numadctl -n "__fish_numadctl_using_subcommand status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c numadctl -n "__fish_numadctl_using_subcommand run" -s p -l policy -d 'Policy; the default policy of the settings when not given' -r -f -a "none\t''
linux\t''
packed\t''
scatter\t''
random\t''
interleave\t''
fixed\t''
balance\t''
locality\t''
deloc\t''
lapt\t''
rclb\t''
data-only\t''
ptb\t''
cdsm\t''
azimi\t''
autopin\t''
auto\t''"
complete -c numadctl -n "__fish_numadctl_using_subcommand run" -l set -d 'Setting of the policy (`numadctl policies show NAME` lists them), or of the engine for this program alone, such as `engine.hold_ms=0` (docs/config.md)' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand run" -l for -d 'Detach by itself after this time, as in 90s, 10m or 1h, or in seconds; when the program ends or is detached, if not given' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand run" -l plan -d 'Start at the places of a plan that `numadctl plan` wrote, without a policy and without the daemon, wait for the end, and tell whether the places held. Ranks need an mpirun; a program of OpenMP gets OMP_PLACES' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand run" -l socket -d 'Socket of the daemon, for commands that ask it; else the variable NUMAD_SOCKET, else /run/numad/numad.sock' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand run" -l as-published -d 'Take the policy\'s method as its paper has it, and refuse only what is impossible, forbidden or beyond limits (`numadctl policies show NAME` says what differs); the same as `--set engine.method=published`'
complete -c numadctl -n "__fish_numadctl_using_subcommand run" -l dry-run -d 'Decide and tell, but change nothing'
complete -c numadctl -n "__fish_numadctl_using_subcommand run" -l wait -d 'Wait for the program\'s end, then tell what was done and gained; in a terminal this is so without being asked. Elsewhere numadctl becomes the program'
complete -c numadctl -n "__fish_numadctl_using_subcommand run" -l no-wait -d 'Become the program, in a terminal too'
complete -c numadctl -n "__fish_numadctl_using_subcommand run" -l mpi -d 'Have MPI programs that it starts count who sends how much to whom; the command is an mpirun. See docs/mpi.md'
complete -c numadctl -n "__fish_numadctl_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c numadctl -n "__fish_numadctl_using_subcommand explain" -l last -d 'Show the last N events' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand explain" -l socket -d 'Socket of the daemon, for commands that ask it; else the variable NUMAD_SOCKET, else /run/numad/numad.sock' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand explain" -l json -d 'Answer in JSON'
complete -c numadctl -n "__fish_numadctl_using_subcommand explain" -l brief -d 'Answer in three sentences: what was seen, what was done, what was not'
complete -c numadctl -n "__fish_numadctl_using_subcommand explain" -s h -l help -d 'Print help'
complete -c numadctl -n "__fish_numadctl_using_subcommand matrix" -l window -d 'What to show: the last window, or all windows with older ones counting less; or the bytes that MPI ranks have sent each other since they began, or are taken to have sent in collective calls. Of an attachment that has ended `decayed` alone is kept' -r -f -a "live\t'Those of the last window'
decayed\t'Those of all windows, older ones counting less'
messages\t'Bytes of messages'
modelled\t'Bytes that collective calls are taken to send'"
complete -c numadctl -n "__fish_numadctl_using_subcommand matrix" -l svg -d 'Draw a heat map into FILE; `-` is standard output' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand matrix" -l width -d 'Most columns of the picture in the terminal; 0 takes the variable COLUMNS, else 80' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand matrix" -l socket -d 'Socket of the daemon, for commands that ask it; else the variable NUMAD_SOCKET, else /run/numad/numad.sock' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand matrix" -l csv -d 'Answer in comma-separated values'
complete -c numadctl -n "__fish_numadctl_using_subcommand matrix" -l json -d 'Answer in JSON'
complete -c numadctl -n "__fish_numadctl_using_subcommand matrix" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c numadctl -n "__fish_numadctl_using_subcommand record" -l cgroup -d 'Every process in this control group and below' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand record" -l unit -d 'Every process of this systemd unit' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand record" -l command -d 'Every process whose command has this name' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand record" -l job -d 'Every rank of this MPI job on this machine, and those that it spawns; `status` shows jobs' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand record" -s o -l output -d 'New file that the recording goes into' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand record" -l for -d 'How long, as in 500ms, 60s, 5m or 1h; until the program ends or Ctrl-C when not given' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand record" -l socket -d 'Socket of the daemon, for commands that ask it; else the variable NUMAD_SOCKET, else /run/numad/numad.sock' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand record" -l force -d 'Replace the recording that is there'
complete -c numadctl -n "__fish_numadctl_using_subcommand record" -l json -d 'Answer in JSON'
complete -c numadctl -n "__fish_numadctl_using_subcommand record" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c numadctl -n "__fish_numadctl_using_subcommand profile" -s o -l output -d 'Write a page with pictures into FILE; `-` is standard output' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand profile" -l comm-min -d 'Class: communication per memory access (CommR) below which it cannot matter; 0.02 when not given' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand profile" -l dram-min -d 'Class: share of accesses answered by memory (DramR) below which memory cannot matter; 0.02 when not given' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand profile" -l changes-max -d 'Class: changes of the order of tasks (CommDyn) above which a program is dynamic; 5 when not given' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand profile" -l samples-min -d 'Class: sampled accesses below which it is not told; 256 when not given' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand profile" -l events-min -d 'Class: sampled events in a second, on average, below which static is not told from dynamic; 128 when not given' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand profile" -l socket -d 'Socket of the daemon, for commands that ask it; else the variable NUMAD_SOCKET, else /run/numad/numad.sock' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand profile" -l json -d 'Answer in JSON'
complete -c numadctl -n "__fish_numadctl_using_subcommand profile" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c numadctl -n "__fish_numadctl_using_subcommand replay" -s p -l policy -d 'Policy that decides; with `+published` at its end its method as the paper has it' -r -f -a "none\t''
linux\t''
packed\t''
scatter\t''
random\t''
interleave\t''
fixed\t''
balance\t''
locality\t''
deloc\t''
lapt\t''
rclb\t''
data-only\t''
ptb\t''
cdsm\t''
azimi\t''
autopin\t''
auto\t''"
complete -c numadctl -n "__fish_numadctl_using_subcommand replay" -l set -d 'Setting of the policy; `numadctl policies show NAME` lists them' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand replay" -l machine -d 'Machine to replay on, as `numadctl topo` reads it; the recorded one when not given. On another than the recorded one threads are spread anew, as a scheduler does at first' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand replay" -l window -d 'Length of all windows in milliseconds; as the daemon does by default when not given' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand replay" -l svg -d 'Draw that matrix as a heat map into FILE; `-` is standard output' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand replay" -l socket -d 'Socket of the daemon, for commands that ask it; else the variable NUMAD_SOCKET, else /run/numad/numad.sock' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand replay" -l matrix -d 'Answer with the picture of who shared memory with whom, as `numadctl matrix` draws it'
complete -c numadctl -n "__fish_numadctl_using_subcommand replay" -l csv -d 'Answer with that matrix in comma-separated values'
complete -c numadctl -n "__fish_numadctl_using_subcommand replay" -l json -d 'Answer in JSON'
complete -c numadctl -n "__fish_numadctl_using_subcommand replay" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c numadctl -n "__fish_numadctl_using_subcommand ab; and not __fish_seen_subcommand_from list show stop help" -l cgroup -d 'Every process in this control group and below' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand ab; and not __fish_seen_subcommand_from list show stop help" -l unit -d 'Every process of this systemd unit' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand ab; and not __fish_seen_subcommand_from list show stop help" -l command -d 'Every process whose command has this name' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand ab; and not __fish_seen_subcommand_from list show stop help" -l job -d 'Every rank of this MPI job on this machine, and those that it spawns; `status` shows jobs' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand ab; and not __fish_seen_subcommand_from list show stop help" -s n -l pairs -d 'Slices under each policy' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand ab; and not __fish_seen_subcommand_from list show stop help" -l policies -d 'Policies to compare, with commas between; the first is the control. `off` is the program without numad; a policy named twice faces itself, and then nothing may be found. With `+balancing` at its end the kernel\'s own balancing is switched on under it (root, and `daemon.allow_global`); with `+published` its method is as in its paper' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand ab; and not __fish_seen_subcommand_from list show stop help" -l set -d 'Setting of one of the policies, as in `deloc.refine=false`' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand ab; and not __fish_seen_subcommand_from list show stop help" -l seed -d 'What the order follows from; drawn when not given' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand ab; and not __fish_seen_subcommand_from list show stop help" -l margin -d 'Effects below this are called the same, in percent' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand ab; and not __fish_seen_subcommand_from list show stop help" -l metric -d 'What is measured, the primary metric first: instructions, ipc, local, energy, watts, cmd:PROGRAM, which prints a number, or counter:cmd:PROGRAM, which prints one that grows, or `prom:URL QUERY`, which a Prometheus server answers; `lower:` or `higher:` before it tells which is better. May be given several times' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand ab; and not __fish_seen_subcommand_from list show stop help" -l slice -d 'Length of a slice, as in 500ms, 60s or 5m; 60s when not given, or ten time constants where that is longer' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand ab; and not __fish_seen_subcommand_from list show stop help" -l time-constant -d 'How long a switch takes to be two thirds done: threads and pages have moved, caches are warm. Slices must be five times as long; from ten times on a quarter of each is dropped, else a half. When not given, a pilot measures it before the first slice: 20s under each policy or longer, until nothing moves any more' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand ab; and not __fish_seen_subcommand_from list show stop help" -l max-harm -d 'End a slice early that is worse than usual under the first policy by this, in percent; it counts as it is' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand ab; and not __fish_seen_subcommand_from list show stop help" -s o -l output -d 'Write the experiment into FILE at its end' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand ab; and not __fish_seen_subcommand_from list show stop help" -l socket -d 'Socket of the daemon, for commands that ask it; else the variable NUMAD_SOCKET, else /run/numad/numad.sock' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand ab; and not __fish_seen_subcommand_from list show stop help" -l to-the-end -d 'Do not end early, not even when it is decided; gives slightly narrower bounds'
complete -c numadctl -n "__fish_numadctl_using_subcommand ab; and not __fish_seen_subcommand_from list show stop help" -l detach -d 'Begin it and do not wait for its end; `numadctl ab show` tells how it stands'
complete -c numadctl -n "__fish_numadctl_using_subcommand ab; and not __fish_seen_subcommand_from list show stop help" -l json -d 'Answer in JSON'
complete -c numadctl -n "__fish_numadctl_using_subcommand ab; and not __fish_seen_subcommand_from list show stop help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c numadctl -n "__fish_numadctl_using_subcommand ab; and not __fish_seen_subcommand_from list show stop help" -a "list" -d 'List the experiments that run, wait or are over'
complete -c numadctl -n "__fish_numadctl_using_subcommand ab; and not __fish_seen_subcommand_from list show stop help" -a "show" -d 'Show what there is of an experiment'
complete -c numadctl -n "__fish_numadctl_using_subcommand ab; and not __fish_seen_subcommand_from list show stop help" -a "stop" -d 'End an experiment, put everything back, and show what there is of it'
complete -c numadctl -n "__fish_numadctl_using_subcommand ab; and not __fish_seen_subcommand_from list show stop help" -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c numadctl -n "__fish_numadctl_using_subcommand ab; and __fish_seen_subcommand_from list" -l socket -d 'Socket of the daemon, for commands that ask it; else the variable NUMAD_SOCKET, else /run/numad/numad.sock' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand ab; and __fish_seen_subcommand_from list" -l json -d 'Answer in JSON'
complete -c numadctl -n "__fish_numadctl_using_subcommand ab; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c numadctl -n "__fish_numadctl_using_subcommand ab; and __fish_seen_subcommand_from show" -l socket -d 'Socket of the daemon, for commands that ask it; else the variable NUMAD_SOCKET, else /run/numad/numad.sock' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand ab; and __fish_seen_subcommand_from show" -l json -d 'Answer in JSON'
complete -c numadctl -n "__fish_numadctl_using_subcommand ab; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c numadctl -n "__fish_numadctl_using_subcommand ab; and __fish_seen_subcommand_from stop" -l socket -d 'Socket of the daemon, for commands that ask it; else the variable NUMAD_SOCKET, else /run/numad/numad.sock' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand ab; and __fish_seen_subcommand_from stop" -l json -d 'Answer in JSON'
complete -c numadctl -n "__fish_numadctl_using_subcommand ab; and __fish_seen_subcommand_from stop" -s h -l help -d 'Print help'
complete -c numadctl -n "__fish_numadctl_using_subcommand ab; and __fish_seen_subcommand_from help" -f -a "list" -d 'List the experiments that run, wait or are over'
complete -c numadctl -n "__fish_numadctl_using_subcommand ab; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show what there is of an experiment'
complete -c numadctl -n "__fish_numadctl_using_subcommand ab; and __fish_seen_subcommand_from help" -f -a "stop" -d 'End an experiment, put everything back, and show what there is of it'
complete -c numadctl -n "__fish_numadctl_using_subcommand ab; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c numadctl -n "__fish_numadctl_using_subcommand compare" -s n -l runs -d 'Runs under each policy' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand compare" -l policies -d 'Policies to compare, with commas between; the first is the control. `off` is the program without numad; a policy named twice faces itself, and then nothing may be found. With `+balancing` at its end the kernel\'s own balancing is switched on under it (root, and `daemon.allow_global`); with `+published` its method is as in its paper' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand compare" -l set -d 'Setting of one of the policies, as in `deloc.refine=false`' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand compare" -l seed -d 'What the order follows from; drawn when not given' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand compare" -l margin -d 'Effects below this are called the same, in percent' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand compare" -l metric -d 'What is measured, the primary metric first: wall, cpu, energy, cmd:PROGRAM, which runs after each run and prints a number, or `prom:URL QUERY`, which a Prometheus server answers; `lower:` or `higher:` before it tells which is better. May be given several times' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand compare" -l warm-up -d 'Runs before the first one that counts, under the first policy' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand compare" -s o -l output -d 'Keep the experiment in FILE: written after every run' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand compare" -l continue -d 'Go on with the experiment in FILE where it stopped' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand compare" -l socket -d 'Socket of the daemon, for commands that ask it; else the variable NUMAD_SOCKET, else /run/numad/numad.sock' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand compare" -l to-the-end -d 'Do not end early, not even when it is decided; gives slightly narrower bounds'
complete -c numadctl -n "__fish_numadctl_using_subcommand compare" -l same-output -d 'Fail when two runs do not print the same'
complete -c numadctl -n "__fish_numadctl_using_subcommand compare" -l ignore-failure -d 'Count runs that end with another exit code than 0'
complete -c numadctl -n "__fish_numadctl_using_subcommand compare" -l json -d 'Answer in JSON'
complete -c numadctl -n "__fish_numadctl_using_subcommand compare" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c numadctl -n "__fish_numadctl_using_subcommand report" -s o -l output -d 'Write a page of HTML into FILE; `-` is standard output. Text to the terminal when not given' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand report" -l socket -d 'Socket of the daemon, for commands that ask it; else the variable NUMAD_SOCKET, else /run/numad/numad.sock' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand report" -l json -d 'Answer in JSON, results computed anew'
complete -c numadctl -n "__fish_numadctl_using_subcommand report" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c numadctl -n "__fish_numadctl_using_subcommand topo" -l svg -d 'Draw the machine into FILE; `-` is standard output' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand topo" -l source -d 'Who reads the machine: numad\'s own reader, or the library hwloc' -r -f -a "sysfs\t'The reader that the daemon uses'
hwloc\t'The library hwloc'"
complete -c numadctl -n "__fish_numadctl_using_subcommand topo" -l socket -d 'Socket of the daemon, for commands that ask it; else the variable NUMAD_SOCKET, else /run/numad/numad.sock' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand topo" -l json -d 'Answer in JSON'
complete -c numadctl -n "__fish_numadctl_using_subcommand topo" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c numadctl -n "__fish_numadctl_using_subcommand characterize" -l directory -d 'Directory to keep the figures in, made if only its last part is missing; the state directory of the settings when not given' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand characterize" -l socket -d 'Socket of the daemon, for commands that ask it; else the variable NUMAD_SOCKET, else /run/numad/numad.sock' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand characterize" -l again -d 'Measure although this hardware has been measured'
complete -c numadctl -n "__fish_numadctl_using_subcommand characterize" -l force -d 'Measure although the machine is busy; bandwidths will be too low, latencies too high'
complete -c numadctl -n "__fish_numadctl_using_subcommand characterize" -l when-idle -d 'Wait for an idle machine as long as it takes, and make way for others at once'
complete -c numadctl -n "__fish_numadctl_using_subcommand characterize" -l json -d 'Answer in JSON'
complete -c numadctl -n "__fish_numadctl_using_subcommand characterize" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c numadctl -n "__fish_numadctl_using_subcommand import" -s o -l output -d 'Recording to write; must not exist' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand import" -l socket -d 'Socket of the daemon, for commands that ask it; else the variable NUMAD_SOCKET, else /run/numad/numad.sock' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand import" -l force -d 'Replace the recording if there is a file of that name'
complete -c numadctl -n "__fish_numadctl_using_subcommand import" -l keep-kernel -d 'Keep samples of the kernel\'s own memory, which no policy can move'
complete -c numadctl -n "__fish_numadctl_using_subcommand import" -l json -d 'Answer in JSON'
complete -c numadctl -n "__fish_numadctl_using_subcommand import" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c numadctl -n "__fish_numadctl_using_subcommand export" -l plan -d 'A plan that `numadctl plan` wrote, in place of an attachment' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand export" -l format -d 'For which tool' -r -f -a "numactl\t'A command line of numactl'
taskset\t'A command line of taskset'
systemd\t'A drop-in of a systemd unit'
omp\t'Variables of OpenMP'
rankfile\t'A rankfile of Open MPI up to 4'
openmpi5\t'A rankfile of Open MPI 5'
hydra\t'A command line of MPICH'
intel\t'Variables of Intel MPI'
slurm\t'A command line of Slurm'
slurm-hostfile\t'The machine of each rank, for Slurm\'s arbitrary distribution'"
complete -c numadctl -n "__fish_numadctl_using_subcommand export" -l socket -d 'Socket of the daemon, for commands that ask it; else the variable NUMAD_SOCKET, else /run/numad/numad.sock' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand export" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c numadctl -n "__fish_numadctl_using_subcommand plan" -l machine -d 'Machines that the run is for, separated by commas where they have none: `this`, an hwloc XML file, a directory that looks like a root, or a text as `4x16@10,21`; may be given several times' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand plan" -s p -l policy -d 'How to place: deloc, locality, balance, packed, scatter or fixed; without it deloc where it is known who communicates when, else locality' -r -f -a "none\t''
linux\t''
packed\t''
scatter\t''
random\t''
interleave\t''
fixed\t''
balance\t''
locality\t''
deloc\t''
lapt\t''
rclb\t''
data-only\t''
ptb\t''
cdsm\t''
azimi\t''
autopin\t''
auto\t''"
complete -c numadctl -n "__fish_numadctl_using_subcommand plan" -l level -d 'What is placed: ranks that send messages, or threads of one program; without it as the profile says, else ranks' -r -f -a "message\t'Ranks of an MPI job'
thread\t'Threads of one program'"
complete -c numadctl -n "__fish_numadctl_using_subcommand plan" -s o -l output -d 'File that the plan goes into; `-` is standard output' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand plan" -l socket -d 'Socket of the daemon, for commands that ask it; else the variable NUMAD_SOCKET, else /run/numad/numad.sock' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand plan" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c numadctl -n "__fish_numadctl_using_subcommand history" -l socket -d 'Socket of the daemon, for commands that ask it; else the variable NUMAD_SOCKET, else /run/numad/numad.sock' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand history" -l json -d 'Answer in JSON'
complete -c numadctl -n "__fish_numadctl_using_subcommand history" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c numadctl -n "__fish_numadctl_using_subcommand policies; and not __fish_seen_subcommand_from show help" -l socket -d 'Socket of the daemon, for commands that ask it; else the variable NUMAD_SOCKET, else /run/numad/numad.sock' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand policies; and not __fish_seen_subcommand_from show help" -l json -d 'Answer in JSON'
complete -c numadctl -n "__fish_numadctl_using_subcommand policies; and not __fish_seen_subcommand_from show help" -s h -l help -d 'Print help'
complete -c numadctl -n "__fish_numadctl_using_subcommand policies; and not __fish_seen_subcommand_from show help" -f -a "show" -d 'Show one policy with its settings'
complete -c numadctl -n "__fish_numadctl_using_subcommand policies; and not __fish_seen_subcommand_from show help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c numadctl -n "__fish_numadctl_using_subcommand policies; and __fish_seen_subcommand_from show" -l socket -d 'Socket of the daemon, for commands that ask it; else the variable NUMAD_SOCKET, else /run/numad/numad.sock' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand policies; and __fish_seen_subcommand_from show" -l json -d 'Answer in JSON'
complete -c numadctl -n "__fish_numadctl_using_subcommand policies; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c numadctl -n "__fish_numadctl_using_subcommand policies; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show one policy with its settings'
complete -c numadctl -n "__fish_numadctl_using_subcommand policies; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c numadctl -n "__fish_numadctl_using_subcommand doctor" -l for -d 'How long to look at the program' -r
complete -c numadctl -n "__fish_numadctl_using_subcommand doctor" -l socket -d 'Socket of the daemon, for commands that ask it; else the variable NUMAD_SOCKET, else /run/numad/numad.sock' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand doctor" -s v -l verbose -d 'Show also what is as it should be'
complete -c numadctl -n "__fish_numadctl_using_subcommand doctor" -l json -d 'Answer in JSON'
complete -c numadctl -n "__fish_numadctl_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c numadctl -n "__fish_numadctl_using_subcommand undo" -l socket -d 'Socket of the daemon, for commands that ask it; else the variable NUMAD_SOCKET, else /run/numad/numad.sock' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand undo" -l all -d 'Everything of everyone; for root and the admin group'
complete -c numadctl -n "__fish_numadctl_using_subcommand undo" -l json -d 'Answer in JSON'
complete -c numadctl -n "__fish_numadctl_using_subcommand undo" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c numadctl -n "__fish_numadctl_using_subcommand journal" -l state-dir -d 'Where the file is; the state directory of the settings when not given' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand journal" -l socket -d 'Socket of the daemon, for commands that ask it; else the variable NUMAD_SOCKET, else /run/numad/numad.sock' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand journal" -l offline -d 'Read the file, without a daemon'
complete -c numadctl -n "__fish_numadctl_using_subcommand journal" -l json -d 'Answer in JSON'
complete -c numadctl -n "__fish_numadctl_using_subcommand journal" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c numadctl -n "__fish_numadctl_using_subcommand config; and not __fish_seen_subcommand_from check show help" -l socket -d 'Socket of the daemon, for commands that ask it; else the variable NUMAD_SOCKET, else /run/numad/numad.sock' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand config; and not __fish_seen_subcommand_from check show help" -s h -l help -d 'Print help'
complete -c numadctl -n "__fish_numadctl_using_subcommand config; and not __fish_seen_subcommand_from check show help" -f -a "check" -d 'Check settings files; works without a daemon'
complete -c numadctl -n "__fish_numadctl_using_subcommand config; and not __fish_seen_subcommand_from check show help" -f -a "show" -d 'Show the settings in force, as a settings file'
complete -c numadctl -n "__fish_numadctl_using_subcommand config; and not __fish_seen_subcommand_from check show help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c numadctl -n "__fish_numadctl_using_subcommand config; and __fish_seen_subcommand_from check" -l socket -d 'Socket of the daemon, for commands that ask it; else the variable NUMAD_SOCKET, else /run/numad/numad.sock' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand config; and __fish_seen_subcommand_from check" -s h -l help -d 'Print help'
complete -c numadctl -n "__fish_numadctl_using_subcommand config; and __fish_seen_subcommand_from show" -l socket -d 'Socket of the daemon, for commands that ask it; else the variable NUMAD_SOCKET, else /run/numad/numad.sock' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand config; and __fish_seen_subcommand_from show" -l offline -d 'Read the files here instead of asking the daemon'
complete -c numadctl -n "__fish_numadctl_using_subcommand config; and __fish_seen_subcommand_from show" -l json -d 'Answer in JSON'
complete -c numadctl -n "__fish_numadctl_using_subcommand config; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c numadctl -n "__fish_numadctl_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "check" -d 'Check settings files; works without a daemon'
complete -c numadctl -n "__fish_numadctl_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show the settings in force, as a settings file'
complete -c numadctl -n "__fish_numadctl_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c numadctl -n "__fish_numadctl_using_subcommand mpi; and not __fish_seen_subcommand_from env help" -l socket -d 'Socket of the daemon, for commands that ask it; else the variable NUMAD_SOCKET, else /run/numad/numad.sock' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand mpi; and not __fish_seen_subcommand_from env help" -s h -l help -d 'Print help'
complete -c numadctl -n "__fish_numadctl_using_subcommand mpi; and not __fish_seen_subcommand_from env help" -f -a "env" -d 'Lines for a shell, which preload numad\'s library into what it starts from then on'
complete -c numadctl -n "__fish_numadctl_using_subcommand mpi; and not __fish_seen_subcommand_from env help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c numadctl -n "__fish_numadctl_using_subcommand mpi; and __fish_seen_subcommand_from env" -l socket -d 'Socket of the daemon, for commands that ask it; else the variable NUMAD_SOCKET, else /run/numad/numad.sock' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand mpi; and __fish_seen_subcommand_from env" -s h -l help -d 'Print help'
complete -c numadctl -n "__fish_numadctl_using_subcommand mpi; and __fish_seen_subcommand_from help" -f -a "env" -d 'Lines for a shell, which preload numad\'s library into what it starts from then on'
complete -c numadctl -n "__fish_numadctl_using_subcommand mpi; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c numadctl -n "__fish_numadctl_using_subcommand reload" -l socket -d 'Socket of the daemon, for commands that ask it; else the variable NUMAD_SOCKET, else /run/numad/numad.sock' -r -F
complete -c numadctl -n "__fish_numadctl_using_subcommand reload" -l json -d 'Answer in JSON'
complete -c numadctl -n "__fish_numadctl_using_subcommand reload" -s h -l help -d 'Print help'
complete -c numadctl -n "__fish_numadctl_using_subcommand help; and not __fish_seen_subcommand_from attach detach status run explain matrix record profile replay ab compare report topo characterize import export plan history policies doctor undo journal config mpi reload help" -f -a "attach" -d 'Put a running program under a policy'
complete -c numadctl -n "__fish_numadctl_using_subcommand help; and not __fish_seen_subcommand_from attach detach status run explain matrix record profile replay ab compare report topo characterize import export plan history policies doctor undo journal config mpi reload help" -f -a "detach" -d 'Take a program off its policy and put everything back'
complete -c numadctl -n "__fish_numadctl_using_subcommand help; and not __fish_seen_subcommand_from attach detach status run explain matrix record profile replay ab compare report topo characterize import export plan history policies doctor undo journal config mpi reload help" -f -a "status" -d 'Show the daemon and the programs under a policy'
complete -c numadctl -n "__fish_numadctl_using_subcommand help; and not __fish_seen_subcommand_from attach detach status run explain matrix record profile replay ab compare report topo characterize import export plan history policies doctor undo journal config mpi reload help" -f -a "run" -d 'Start a program under a policy'
complete -c numadctl -n "__fish_numadctl_using_subcommand help; and not __fish_seen_subcommand_from attach detach status run explain matrix record profile replay ab compare report topo characterize import export plan history policies doctor undo journal config mpi reload help" -f -a "explain" -d 'Tell what was done to a program and why, and what was not done and why not'
complete -c numadctl -n "__fish_numadctl_using_subcommand help; and not __fish_seen_subcommand_from attach detach status run explain matrix record profile replay ab compare report topo characterize import export plan history policies doctor undo journal config mpi reload help" -f -a "matrix" -d 'Show which threads of a program share memory'
complete -c numadctl -n "__fish_numadctl_using_subcommand help; and not __fish_seen_subcommand_from attach detach status run explain matrix record profile replay ab compare report topo characterize import export plan history policies doctor undo journal config mpi reload help" -f -a "record" -d 'Record what a program does to memory, for a later replay'
complete -c numadctl -n "__fish_numadctl_using_subcommand help; and not __fish_seen_subcommand_from attach detach status run explain matrix record profile replay ab compare report topo characterize import export plan history policies doctor undo journal config mpi reload help" -f -a "profile" -d 'Show what the tasks of a program communicate, when, and what kind of mapping it gains from'
complete -c numadctl -n "__fish_numadctl_using_subcommand help; and not __fish_seen_subcommand_from attach detach status run explain matrix record profile replay ab compare report topo characterize import export plan history policies doctor undo journal config mpi reload help" -f -a "replay" -d 'Tell what a policy would have done to a recorded program'
complete -c numadctl -n "__fish_numadctl_using_subcommand help; and not __fish_seen_subcommand_from attach detach status run explain matrix record profile replay ab compare report topo characterize import export plan history policies doctor undo journal config mpi reload help" -f -a "ab" -d 'Put a running program under several policies in turn, and tell which is better'
complete -c numadctl -n "__fish_numadctl_using_subcommand help; and not __fish_seen_subcommand_from attach detach status run explain matrix record profile replay ab compare report topo characterize import export plan history policies doctor undo journal config mpi reload help" -f -a "compare" -d 'Run a command many times under several policies, and tell which is better'
complete -c numadctl -n "__fish_numadctl_using_subcommand help; and not __fish_seen_subcommand_from attach detach status run explain matrix record profile replay ab compare report topo characterize import export plan history policies doctor undo journal config mpi reload help" -f -a "report" -d 'Show an experiment again, as text or as a page'
complete -c numadctl -n "__fish_numadctl_using_subcommand help; and not __fish_seen_subcommand_from attach detach status run explain matrix record profile replay ab compare report topo characterize import export plan history policies doctor undo journal config mpi reload help" -f -a "topo" -d 'Show the nodes, processors, memory and distances of a machine'
complete -c numadctl -n "__fish_numadctl_using_subcommand help; and not __fish_seen_subcommand_from attach detach status run explain matrix record profile replay ab compare report topo characterize import export plan history policies doctor undo journal config mpi reload help" -f -a "characterize" -d 'Measure how fast every node reaches every memory, and keep it for the daemon'
complete -c numadctl -n "__fish_numadctl_using_subcommand help; and not __fish_seen_subcommand_from attach detach status run explain matrix record profile replay ab compare report topo characterize import export plan history policies doctor undo journal config mpi reload help" -f -a "import" -d 'Turn a file of `perf record` into a recording; works without a daemon'
complete -c numadctl -n "__fish_numadctl_using_subcommand help; and not __fish_seen_subcommand_from attach detach status run explain matrix record profile replay ab compare report topo characterize import export plan history policies doctor undo journal config mpi reload help" -f -a "export" -d 'Turn a placement that proved good into a line for other tools'
complete -c numadctl -n "__fish_numadctl_using_subcommand help; and not __fish_seen_subcommand_from attach detach status run explain matrix record profile replay ab compare report topo characterize import export plan history policies doctor undo journal config mpi reload help" -f -a "plan" -d 'Place the ranks or threads of a program\'s next run, by who says how much to whom'
complete -c numadctl -n "__fish_numadctl_using_subcommand help; and not __fish_seen_subcommand_from attach detach status run explain matrix record profile replay ab compare report topo characterize import export plan history policies doctor undo journal config mpi reload help" -f -a "history" -d 'List the programs whose attachment has ended, with what was done and gained'
complete -c numadctl -n "__fish_numadctl_using_subcommand help; and not __fish_seen_subcommand_from attach detach status run explain matrix record profile replay ab compare report topo characterize import export plan history policies doctor undo journal config mpi reload help" -f -a "policies" -d 'List the policies, or show one with its settings'
complete -c numadctl -n "__fish_numadctl_using_subcommand help; and not __fish_seen_subcommand_from attach detach status run explain matrix record profile replay ab compare report topo characterize import export plan history policies doctor undo journal config mpi reload help" -f -a "doctor" -d 'Tell what this machine can give and what it lacks, and what to do about it'
complete -c numadctl -n "__fish_numadctl_using_subcommand help; and not __fish_seen_subcommand_from attach detach status run explain matrix record profile replay ab compare report topo characterize import export plan history policies doctor undo journal config mpi reload help" -f -a "undo" -d 'Put back what was changed, for one process or for all'
complete -c numadctl -n "__fish_numadctl_using_subcommand help; and not __fish_seen_subcommand_from attach detach status run explain matrix record profile replay ab compare report topo characterize import export plan history policies doctor undo journal config mpi reload help" -f -a "journal" -d 'Show what is changed and not undone, by process'
complete -c numadctl -n "__fish_numadctl_using_subcommand help; and not __fish_seen_subcommand_from attach detach status run explain matrix record profile replay ab compare report topo characterize import export plan history policies doctor undo journal config mpi reload help" -f -a "config" -d 'Check settings files, or show the settings in force'
complete -c numadctl -n "__fish_numadctl_using_subcommand help; and not __fish_seen_subcommand_from attach detach status run explain matrix record profile replay ab compare report topo characterize import export plan history policies doctor undo journal config mpi reload help" -f -a "mpi" -d 'Print what makes MPI programs count who sends how much to whom'
complete -c numadctl -n "__fish_numadctl_using_subcommand help; and not __fish_seen_subcommand_from attach detach status run explain matrix record profile replay ab compare report topo characterize import export plan history policies doctor undo journal config mpi reload help" -f -a "reload" -d 'Let the daemon read its settings again'
complete -c numadctl -n "__fish_numadctl_using_subcommand help; and not __fish_seen_subcommand_from attach detach status run explain matrix record profile replay ab compare report topo characterize import export plan history policies doctor undo journal config mpi reload help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c numadctl -n "__fish_numadctl_using_subcommand help; and __fish_seen_subcommand_from ab" -f -a "list" -d 'List the experiments that run, wait or are over'
complete -c numadctl -n "__fish_numadctl_using_subcommand help; and __fish_seen_subcommand_from ab" -f -a "show" -d 'Show what there is of an experiment'
complete -c numadctl -n "__fish_numadctl_using_subcommand help; and __fish_seen_subcommand_from ab" -f -a "stop" -d 'End an experiment, put everything back, and show what there is of it'
complete -c numadctl -n "__fish_numadctl_using_subcommand help; and __fish_seen_subcommand_from policies" -f -a "show" -d 'Show one policy with its settings'
complete -c numadctl -n "__fish_numadctl_using_subcommand help; and __fish_seen_subcommand_from config" -f -a "check" -d 'Check settings files; works without a daemon'
complete -c numadctl -n "__fish_numadctl_using_subcommand help; and __fish_seen_subcommand_from config" -f -a "show" -d 'Show the settings in force, as a settings file'
complete -c numadctl -n "__fish_numadctl_using_subcommand help; and __fish_seen_subcommand_from mpi" -f -a "env" -d 'Lines for a shell, which preload numad\'s library into what it starts from then on'
complete -c numadctl -n "__fish_numadctl_using_subcommand policies; and __fish_seen_subcommand_from show" -f -a "none linux packed scatter random interleave fixed balance locality deloc lapt rclb data-only ptb cdsm azimi autopin auto"
