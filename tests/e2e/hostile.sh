#!/bin/sh
# Hostile clients, each a user of its own: tests/hostile.py.
. "$(dirname "$0")/../claims.sh"

[ "$(id -u)" = 0 ] || {
	skip "only root has processes of other users" hostile_clients_harm_nobody
	finish_claims
	exit
}
chmod 755 "$root"
# What a daemon builds for itself at first would be most of what this takes.
share_driver_cache "$root/cache"
FUSIOND_FUSION_INTERPRETER=auto FUSIOND_DOOR_CLEARED_BYTES=0 "$build/fusiond" --socket "$root/door" --cache-dir "$root/cache" --set device.measure=no --set door.mode=0666 \
	--set fusion.transport=nng >"$root/log" 2>&1 &
daemon=$!
until_does "$build/fusionctl" status
PYTHONDONTWRITEBYTECODE=1 "${PYTHON:-/usr/bin/python3}" tests/hostile.py "$root/door" "$daemon" >"$root/said" 2>&1 && good=0 || good=1
grep "^note" "$root/said" || true
claim hostile_clients_harm_nobody 0 "" test "$good" = 0
[ "$good" = 0 ] || cat "$root/said"
# What would be forged is in the names of one attack, which three slices of four do not have.
if grep -q '^note: names:' "$root/said"; then
	claim names_reach_the_log 0 "" grep -aq 'kernel: forged' "$root/log"
	claim the_log_has_lines_of_the_daemon_alone 1 "" grep -aq '^<0>\|^kernel:' "$root/log"
else
	skip "the attack with names is not of this slice" names_reach_the_log the_log_has_lines_of_the_daemon_alone
fi
finish_claims
