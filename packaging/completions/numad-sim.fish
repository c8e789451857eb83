# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_numad_sim_global_optspecs
    string join \n scenario= topology= workload= policy= set= seed= threads= seconds= memory= huge touch= sparse staggered wander source= samples= bandwidth= fault= cpus= counters balancing json show list h/help V/version
end

function __fish_numad_sim_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_numad_sim_global_optspecs) -- $cmd 2>/dev/null
    or return 0
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_numad_sim_using_subcommand
    set -l cmd (__fish_numad_sim_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c numad-sim -n "__fish_numad_sim_needs_command" -l scenario -d 'Begin with a named scenario; other flags change parts of it' -r
complete -c numad-sim -n "__fish_numad_sim_needs_command" -l topology -d 'The machine: a short text such as 4x16@10,21, an hwloc XML file, a directory, or `this`' -r
complete -c numad-sim -n "__fish_numad_sim_needs_command" -l workload -d 'What runs, such as pairs or groups:4; `--list` names all' -r
complete -c numad-sim -n "__fish_numad_sim_needs_command" -l policy -d 'Who decides; with `+published` at its end the method as its paper has it' -r -f -a "none\t''
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
complete -c numad-sim -n "__fish_numad_sim_needs_command" -l set -d 'A setting of the policy, or of the engine as in `engine.hold_ms=0`; may be given several times' -r
complete -c numad-sim -n "__fish_numad_sim_needs_command" -l seed -d 'Where all randomness comes from' -r
complete -c numad-sim -n "__fish_numad_sim_needs_command" -l threads -d 'How many threads [default: one per usable cpu]' -r
complete -c numad-sim -n "__fish_numad_sim_needs_command" -l seconds -d 'How long, in simulated seconds' -r
complete -c numad-sim -n "__fish_numad_sim_needs_command" -l memory -d 'Memory that a thread has for itself, such as 8M, 1G or 64G; what it shares, and what nodes have, grows with it [default: 512K]' -r
complete -c numad-sim -n "__fish_numad_sim_needs_command" -l touch -d 'Who touches memory first: own (as the workload is described), one (a thread all of it) or all (its users, in equal parts)' -r
complete -c numad-sim -n "__fish_numad_sim_needs_command" -l source -d 'What a sample is taken of: period (every so-manieth access) or faults (the first write to a page since it was write-protected)' -r
complete -c numad-sim -n "__fish_numad_sim_needs_command" -l samples -d 'Samples a second of the whole machine when nothing slows it down [default: 700 of a thread]' -r
complete -c numad-sim -n "__fish_numad_sim_needs_command" -l bandwidth -d 'What is known of the machine\'s bandwidth: measured (as after `numadctl characterize`) or unknown' -r
complete -c numad-sim -n "__fish_numad_sim_needs_command" -l fault -d 'What goes wrong: vanish, refuse, offline, clock, loss, rival, joined by commas, or all' -r
complete -c numad-sim -n "__fish_numad_sim_needs_command" -l cpus -d 'Cpus that the programs\' cgroup allows, as in 0-3,8' -r
complete -c numad-sim -n "__fish_numad_sim_needs_command" -l huge -d 'Memory is in pages of 2 MiB, which move as one'
complete -c numad-sim -n "__fish_numad_sim_needs_command" -l sparse -d 'Pieces of memory are strewn over the whole address space'
complete -c numad-sim -n "__fish_numad_sim_needs_command" -l staggered -d 'Threads start one after the other, within two seconds'
complete -c numad-sim -n "__fish_numad_sim_needs_command" -l wander -d 'Threads that nobody has bound change places, as at barriers'
complete -c numad-sim -n "__fish_numad_sim_needs_command" -l counters -d 'The machine counts instructions, cycles and the bandwidth of memory'
complete -c numad-sim -n "__fish_numad_sim_needs_command" -l balancing -d 'The kernel\'s own balancing is on beside the policy'
complete -c numad-sim -n "__fish_numad_sim_needs_command" -l json -d 'Print JSON'
complete -c numad-sim -n "__fish_numad_sim_needs_command" -l show -d 'Print also what was seen, and what was done and why'
complete -c numad-sim -n "__fish_numad_sim_needs_command" -l list -d 'List workloads, policies and scenarios'
complete -c numad-sim -n "__fish_numad_sim_needs_command" -s h -l help -d 'Print help'
complete -c numad-sim -n "__fish_numad_sim_needs_command" -s V -l version -d 'Print version'
complete -c numad-sim -n "__fish_numad_sim_needs_command" -f -a "matrix" -d 'Every policy on every workload on every machine, in one table'
complete -c numad-sim -n "__fish_numad_sim_needs_command" -f -a "drawn" -d 'A policy in scenarios that are drawn, and where it did worst'
complete -c numad-sim -n "__fish_numad_sim_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c numad-sim -n "__fish_numad_sim_using_subcommand matrix" -l policies -d 'Which policies, joined by commas [default: all]' -r
complete -c numad-sim -n "__fish_numad_sim_using_subcommand matrix" -l workloads -d 'Which workloads, joined by commas; `made:1-40` are programs that are drawn by number [default: all]' -r
complete -c numad-sim -n "__fish_numad_sim_using_subcommand matrix" -l machines -d 'Which machines, joined by commas [default: all]' -r
complete -c numad-sim -n "__fish_numad_sim_using_subcommand matrix" -l memory -d 'Memory of a thread, sizes such as 8M,1G,64G joined by commas [default: 512K]' -r
complete -c numad-sim -n "__fish_numad_sim_using_subcommand matrix" -l touch -d 'Who touches memory first: own (as the workload is described), one (a thread all of it) or all (its users, in equal parts)' -r
complete -c numad-sim -n "__fish_numad_sim_using_subcommand matrix" -l source -d 'What a sample is taken of: period (every so-manieth access) or faults (the first write to a page since it was write-protected)' -r
complete -c numad-sim -n "__fish_numad_sim_using_subcommand matrix" -l samples -d 'Samples a second of the whole machine when nothing slows it down [default: 700 of a thread]' -r
complete -c numad-sim -n "__fish_numad_sim_using_subcommand matrix" -l bandwidth -d 'What is known of the machine\'s bandwidth: measured (as after `numadctl characterize`) or unknown' -r
complete -c numad-sim -n "__fish_numad_sim_using_subcommand matrix" -l seeds -d 'Seeds of each cell, whose figures are means [default: 1]' -r
complete -c numad-sim -n "__fish_numad_sim_using_subcommand matrix" -l windows -d 'How many windows a program that stands still goes through, from 6 [default: 12, quick 8]' -r
complete -c numad-sim -n "__fish_numad_sim_using_subcommand matrix" -l threads -d 'How many threads run it [default: one per cpu]' -r
complete -c numad-sim -n "__fish_numad_sim_using_subcommand matrix" -s o -l output -d 'Directory to write into; made if it is not there' -r -F
complete -c numad-sim -n "__fish_numad_sim_using_subcommand matrix" -l huge -d 'Memory is in pages of 2 MiB, which move as one'
complete -c numad-sim -n "__fish_numad_sim_using_subcommand matrix" -l sparse -d 'Pieces of memory are strewn over the whole address space'
complete -c numad-sim -n "__fish_numad_sim_using_subcommand matrix" -l staggered -d 'Threads start one after the other, within two seconds'
complete -c numad-sim -n "__fish_numad_sim_using_subcommand matrix" -l wander -d 'Threads that nobody has bound change places, as at barriers'
complete -c numad-sim -n "__fish_numad_sim_using_subcommand matrix" -l calm -d 'Windows as programs get them by default, from 125 ms on, instead of the papers\' from 0.5 to 2 s: closer to what a machine shows, in some five times the time'
complete -c numad-sim -n "__fish_numad_sim_using_subcommand matrix" -l quick -d 'Two machines and fewer windows: less than a minute'
complete -c numad-sim -n "__fish_numad_sim_using_subcommand matrix" -l quiet -d 'Say nothing of progress'
complete -c numad-sim -n "__fish_numad_sim_using_subcommand matrix" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c numad-sim -n "__fish_numad_sim_using_subcommand drawn" -l count -d 'How many scenarios' -r
complete -c numad-sim -n "__fish_numad_sim_using_subcommand drawn" -l seed -d 'Which' -r
complete -c numad-sim -n "__fish_numad_sim_using_subcommand drawn" -l policy -d 'Who decides' -r -f -a "none\t''
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
complete -c numad-sim -n "__fish_numad_sim_using_subcommand drawn" -l seconds -d 'How long each, in simulated seconds' -r
complete -c numad-sim -n "__fish_numad_sim_using_subcommand drawn" -l worst -d 'How many of the worst are named, by either measure' -r
complete -c numad-sim -n "__fish_numad_sim_using_subcommand drawn" -l threads -d 'How many threads run it [default: one per cpu]' -r
complete -c numad-sim -n "__fish_numad_sim_using_subcommand drawn" -l quiet -d 'Say nothing of progress'
complete -c numad-sim -n "__fish_numad_sim_using_subcommand drawn" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c numad-sim -n "__fish_numad_sim_using_subcommand help; and not __fish_seen_subcommand_from matrix drawn help" -f -a "matrix" -d 'Every policy on every workload on every machine, in one table'
complete -c numad-sim -n "__fish_numad_sim_using_subcommand help; and not __fish_seen_subcommand_from matrix drawn help" -f -a "drawn" -d 'A policy in scenarios that are drawn, and where it did worst'
complete -c numad-sim -n "__fish_numad_sim_using_subcommand help; and not __fish_seen_subcommand_from matrix drawn help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
