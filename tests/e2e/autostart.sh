#!/bin/sh
# Without a service: who names no socket gets a daemon of its own, one however many ask at once, which has nothing of who
# started it, is not started beside a service that is being restarted, ends by itself, and takes nobody with it.
. "$(dirname "$0")/../claims.sh"
unset FUSION_SOCKET

claims="a_start_that_takes_a_while_is_told_once_on_a_terminal where_it_is_switched_off_nobody_starts_one a_missing_program_is_named why_it_could_not_start_is_told
	twenty_at_once_start_one it_has_a_session_and_descriptors_of_its_own nobody_else_is_let_in fusionctl_finds_it
	one_that_runs_serves_also_where_none_is_started its_kernels_are_in_the_cache_of_the_user
	after_one_that_was_killed_another_is_started it_leaves_no_folder it_ends_once_nobody_was_connected_for_a_while
	one_that_ends_takes_nobody_with_it a_program_with_lent_rights_starts_none a_service_that_is_being_restarted_gets_no_rival
	without_a_runtime_folder_one_is_made a_folder_that_others_can_write_is_not_trusted"
own="--mount --pid --fork --kill-child --mount-proc"
[ "$(id -u)" = 0 ] || own="$own --user --map-root-user"
# shellcheck disable=SC2086
if ! unshare $own --propagation private sh -c 'mount -t tmpfs tmpfs /run && mount -t tmpfs tmpfs /mnt' 2>/dev/null; then
	# shellcheck disable=SC2086
	skip "no namespaces here" $claims
	finish_claims
	exit
fi

# In a namespace with folders /run and /tmp of its own; everything in it ends with it. A line for each claim that holds.
cat >"$root/story.sh" <<'STORY'
set -u
# The build may lie below one of the folders that are replaced here.
mkdir "$2/build"
mount --bind "$1" "$2/build"
mount --rbind "$2" /mnt
build=/mnt/build
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /tmp
chmod 1777 /tmp
mkdir -p /run/user/test /mnt/config/fusiond /mnt/cache
chmod 700 /run/user/test
export XDG_RUNTIME_DIR=/run/user/test XDG_CONFIG_HOME=/mnt/config XDG_CACHE_HOME=/mnt/cache HOME=/mnt
export FUSIOND_DEVICE_MEASURE=no FUSIOND_FUSION_INTERPRETER=off
own=$XDG_RUNTIME_DIR/fusiond
say() { echo "$1"; }
client() { "$build/fusionctl" config get fusion.enabled >/mnt/said 2>&1; }
# Supervisors in this namespace.
daemons() {
	for exe in /proc/[0-9]*/exe; do
		[ "$(readlink "$exe")" != "$build/fusiond" ] || echo "$exe" | cut -d/ -f3
	done
}
until_none() {
	tries=0
	while [ -n "$(daemons)" ]; do
		tries=$((tries + 1))
		[ "$tries" -lt 12000 ] || { echo "still there: $(daemons)"; return 1; }
		sleep 0.1
	done
}
# at_once COUNT: so many clients; 0 where all were served.
at_once() {
	pids=
	bad=0
	for i in $(seq "$1"); do
		"$build/fusionctl" config get fusion.enabled >>/mnt/said 2>&1 &
		pids="$pids $!"
	done
	for pid in $pids; do wait "$pid" || bad=$((bad + 1)); done
	[ "$bad" = 0 ]
}

FUSION_AUTOSTART=0 client && echo served
grep -q 'no daemon answers at /run/fusiond/door' /mnt/said && [ -z "$(daemons)" ] && say where_it_is_switched_off_nobody_starts_one
FUSION_DAEMON=/nonexistent client && echo served
grep -q 'one of your own could not be started: there is no program /nonexistent' /mnt/said && say a_missing_program_is_named
FUSIOND_ENGINE_PATH=/nonexistent client && echo served
grep -q 'could not be started:.*engine.path: the file /nonexistent: No such' /mnt/said && [ -z "$(daemons)" ] &&
	say why_it_could_not_start_is_told

# It starts once somebody has read of it.
printf '#!/bin/sh\nwhile [ ! -e /mnt/told ]; do sleep 0.1; done\nexec %s/fusiond "$@"\n' "$build" >/mnt/slow
chmod 755 /mnt/slow
FUSION_DAEMON=/mnt/slow "${PYTHON:-/usr/bin/python3}" - "$build/fusionctl" <<'TERMINAL' && ! grep -q 'is being started' /mnt/said && say a_start_that_takes_a_while_is_told_once_on_a_terminal
import os, pty, sys
pid, terminal = pty.fork()
if not pid:
    os.execv(sys.argv[1], ["fusionctl", "config", "get", "fusion.enabled"])
text = b""
while True:
    try:
        more = os.read(terminal, 4096)
    except OSError:
        break
    text += more
    if b"is being started" in text:
        open("/mnt/told", "w").close()
    if not more:
        break
sys.exit(os.waitpid(pid, 0)[1] or text.count(b"is being started") != 1)
TERMINAL
for pid in $(daemons); do kill "$pid"; done
until_none

# A descriptor that only the client may have.
exec 9>/mnt/marker
at_once 20 && [ "$(daemons | wc -l)" = 1 ] && say twenty_at_once_start_one
daemon=$(daemons)
! ls -l "/proc/$daemon/fd" | grep -q marker && [ "$(cut -d' ' -f6 "/proc/$daemon/stat")" = "$daemon" ] &&
	say it_has_a_session_and_descriptors_of_its_own
exec 9>&-
[ "$(stat -c %a "$own/door")" = 600 ] && say nobody_else_is_let_in
"$build/fusionctl" status | grep -q "$own/door" && say fusionctl_finds_it
FUSION_AUTOSTART=0 client && say one_that_runs_serves_also_where_none_is_started
"$build/fusionctl" status | grep -q /mnt/cache/fusiond && say its_kernels_are_in_the_cache_of_the_user
kill -KILL "$daemon" && until_none && client && [ "$(daemons | wc -l)" = 1 ] && say after_one_that_was_killed_another_is_started
kill $(daemons) && until_none && [ ! -e "$own" ] && say it_leaves_no_folder

printf '[door]\nidle_exit_us = 100ms\n' >/mnt/config/fusiond/fusiond.conf
client && until_none && [ ! -e "$own" ] && grep -q 'nobody was connected' "$XDG_RUNTIME_DIR/fusiond.log" &&
	say it_ends_once_nobody_was_connected_for_a_while
# It ends as soon as it may, while others come.
printf '[door]\nidle_exit_us = 1us\n' >/mnt/config/fusiond/fusiond.conf
( for i in 1 2 3 4 5; do client || echo refused; done >/mnt/other; ) &
at_once 8 && at_once 8 && at_once 8 && wait && [ ! -s /mnt/other ] && say one_that_ends_takes_nobody_with_it
until_none && rm /mnt/config/fusiond/fusiond.conf

# A program that runs with another user's rights starts nothing in that one's name, and believes no variable. The loader believes no folder either
# then, but its cache. Only the system's root is several users.
cp "$build/fusionctl" /tmp/lent && chmod 4755 /tmp/lent
echo "$build" | cat - /etc/ld.so.conf >/tmp/ld.conf
if setpriv --reuid 65534 true 2>/dev/null && ldconfig -X -f /tmp/ld.conf -C /tmp/ld.cache 2>/dev/null && mount --bind /tmp/ld.cache /etc/ld.so.cache; then
	FUSION_SOCKET=/tmp/else FUSION_DAEMON="$build/fusiond" setpriv --reuid 65534 --clear-groups /tmp/lent config get fusion.enabled >/mnt/said 2>&1 && echo served
	umount /etc/ld.so.cache
	grep -q 'no daemon answers at /run/fusiond/door' /mnt/said && [ -z "$(daemons)" ] && [ ! -e /tmp/fusiond-0/fusiond ] &&
		say a_program_with_lent_rights_starts_none || cat /mnt/said
else
	say skipped_a_program_with_lent_rights_starts_none
fi

# A service that is being restarted: its folder is there, its socket is not yet.
mkdir /run/fusiond
"$build/fusionctl" config get fusion.enabled >/mnt/said 2>&1 &
waits=$!
"$build/fusiond" --config /dev/null --socket /run/fusiond/door --cache-dir /mnt/cache/system >/mnt/log 2>&1 &
service=$!
wait "$waits" && [ "$(daemons)" = "$service" ] && [ ! -e "$own" ] && say a_service_that_is_being_restarted_gets_no_rival
kill "$service"
until_none
rmdir /run/fusiond

chmod 755 /run/user/test
client && [ -S /tmp/fusiond-0/fusiond/door ] && [ "$(stat -c %a /tmp/fusiond-0)" = 700 ] && say without_a_runtime_folder_one_is_made
kill $(daemons) && until_none
chmod 777 /tmp/fusiond-0
client || grep -q 'could not be started: .*/tmp/fusiond-0' /mnt/said && [ -z "$(daemons)" ] && say a_folder_that_others_can_write_is_not_trusted
STORY

# shellcheck disable=SC2086
timeout 3600 unshare $own --propagation private sh "$root/story.sh" "$PWD/$build" "$root" >"$root/story" 2>&1 || true
for held in $claims; do
	if grep -qx "skipped_$held" "$root/story"; then
		skip "only root can be other users" "$held"
	else
		claim "$held" 0 "" grep -qx "$held" "$root/story"
	fi
done
[ "$failed" = 0 ] || sed 's/^/    /' "$root/story"
finish_claims
