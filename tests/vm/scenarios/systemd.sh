#: about   the unit as it is shipped, under systemd: start, crash, stop; each puts back what was
#: machine ring4 mesh8
#: image   systemd
#: limit   300
autonuma 0
prepare_unit
systemctl start numad || fail "the unit does not start: $(systemctl status numad)"
expect "the daemon's user" "$(ps -o user,comm | awk '$2 == "numad" {print $1; exit}')" numad
daemon=$(systemctl show -P MainPID numad)
$(as 1000) numad-workload pairs --threads $cpus --region-kib 256 --seconds 600 --seed 1 --release-rounds 0 >/out/workload &
program=$!
within 20 grep -q . /out/workload || fail "the workload says nothing"
masks $program >/out/masks.before
page-nodes $program >/out/pages.before
# put_back WHEN
put_back() {
    masks $program | diff /out/masks.before - || fail "masks differ after $1"
    page-nodes $program >/out/pages.after
    pages_back /out/pages.before /out/pages.after 250
}

$(as 1000) numadctl attach $program --policy deloc || fail "attach"
within 40 moved_threads || fail "no thread was moved"
within 40 moved_pages || fail "no page was moved"
keep_journal
systemctl kill -s KILL numad
another() { now=$(systemctl show -P MainPID numad); [ "$now" != 0 ] && [ "$now" != "$daemon" ]; }
within 30 another || fail "not started again after kill -9: $(systemctl status numad)"
within 20 numadctl status || fail "the new daemon does not answer"
put_back "kill -9"

$(as 1000) numadctl attach $program --policy deloc || fail "attach once more"
within 40 moved_pages || fail "no page was moved the second time"
systemctl reload numad || fail "reload"
keep_journal
systemctl stop numad || fail "stop"
expect "the unit's result" "$(systemctl show -P Result numad)" success
put_back "stop"
[ ! -e "$NUMAD_SOCKET" ] || fail "the socket is left"
kill $program
