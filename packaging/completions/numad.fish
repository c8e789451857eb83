complete -c numad -l config -d 'Settings file to read in place of /etc/numad/numad.toml and its drop-ins' -r -F
complete -c numad -l socket -d 'Where to listen; wins over the settings' -r -F
complete -c numad -l state-dir -d 'Where the undo journal is kept; wins over the settings' -r -F
complete -c numad -s w -l where -d 'Print the nodes that a guest of so many processors and MiB should have, and end' -r
complete -c numad -l undo -d 'Put back what an earlier run left behind, and end'
complete -c numad -l check-config -d 'Check the settings, and end'
complete -c numad -s h -l help -d 'Print help (see more with \'--help\')'
complete -c numad -s V -l version -d 'Print version'
