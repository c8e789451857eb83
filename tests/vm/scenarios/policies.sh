#: about   every policy acts on a program, stays within what is allowed, and is undone
#: machine ring4 mesh8
#: limit   900
autonuma 0
start_numad
workload groups:2 --threads $cpus --region-kib 256 --seconds 2000 --seed 5
masks $program >/out/before
page-nodes $program >/out/pages.before
numadctl policies | awk 'NR > 1 && /^[a-z]/ {print $1}' >/out/policies
[ "$(wc -l </out/policies)" -ge 16 ] || fail "too few policies: $(cat /out/policies)"
while read -r policy; do
    numadctl attach $program --policy "$policy" || fail "attach under $policy"
    case $policy in
        # azimi acts only where samples tell what answered an access, which page faults do not.
        none | linux | azimi)
            within 30 windows_at_least 3 || fail "$policy: no three windows"
            masks $program | diff /out/before - || fail "$policy changed masks"
            [ "$(figure pages_moved)" = 0 ] || fail "$policy moved pages"
            ;;
        data-only | interleave)
            within 60 moved_pages || fail "$policy moved no page"
            masks $program | diff /out/before - || fail "$policy changed masks"
            ;;
        *)
            within 60 moved_threads || fail "$policy moved no thread"
            within 10 windows_at_least 3 || fail "$policy: no three windows"
            ;;
    esac
    echo "$policy: $(figure thread_moves) threads moved, $(figure pages_moved) pages, local $(figure local_share)"
    keep_journal
    numadctl detach $program || fail "detach from $policy"
    masks $program | diff /out/before - || fail "masks differ after $policy"
done </out/policies
page-nodes $program >/out/pages.after
pages_back /out/pages.before /out/pages.after 250
stop_numad
kill $program
