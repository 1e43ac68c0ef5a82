#!/bin/sh
# The units as they are installed: systemd finds no fault with them, they give up what they can, and the user's unit works
# under a real service manager: it starts, is reloaded, tells its state, and is started again when it is killed.
. "$(dirname "$0")/../claims.sh"

# What is tried under a service manager.
managed="it_is_started_once_it_serves the_line_of_status_says_who_is_served it_answers_the_watchdog
	a_reload_keeps_the_process a_reload_of_a_wrong_file_fails_and_changes_nothing a_wrong_configuration_is_not_tried_again \
	one_that_is_right_again_starts the_end_of_an_engine_is_not_the_end_of_the_service
	one_that_was_killed_is_started_again the_manager_keeps_what_sessions_have a_restart_keeps_sessions_and_arrays
	the_end_of_the_supervisor_keeps_them_too what_is_kept_goes_with_its_session libraries_start_the_unit_of_the_user it_stops_and_leaves_nothing
	the_socket_starts_the_daemon the_socket_stays_when_the_daemon_ends_and_starts_another a_restart_leaves_the_socket the_socket_goes_when_it_is_stopped"
command -v systemd-analyze >/dev/null || {
	skip_all "no systemd-analyze here"
	# shellcheck disable=SC2086
	skip "no systemd here" $managed
	finish_claims
	exit
}

tree=$root/tree
make --no-print-directory install DESTDIR="$tree" prefix=/usr >/dev/null
units=$tree/usr/lib/systemd/system
parts=$tree/usr/share/fusiond/systemd

# ---- as files ----

# What the units run lies elsewhere here.
mkdir "$root/units" "$root/user"
for unit in fusiond.service fusiond@.service; do
	sed "s|/usr/sbin/fusiond|$tree/usr/sbin/fusiond|" "$units/$unit" >"$root/units/$unit"
done
sed "s|/usr/sbin/fusiond|$tree/usr/sbin/fusiond|" "$tree/usr/lib/systemd/user/fusiond.service" >"$root/user/fusiond.service"
cp "$units/fusiond.socket" "$root/units"
cp "$units/fusiond.socket" "$root/user/fusiond.socket"
unfilled=$(LC_ALL=C grep -l '@[a-z]*@' "$units"/* "$parts"/* "$tree/usr/lib/systemd/user"/* || true)
claim "every_part_of_a_unit_is_filled_in" 0 "" test -z "$unfilled"

# verify UNIT: says nothing, and agrees.
verify() {
	said=$(XDG_RUNTIME_DIR=$root systemd-analyze verify --man=no "$@" 2>&1) || return 1
	printf '%s' "$said"
	[ -z "$said" ]
}
# exposure MOST FILE...: a unit of these files, at most so exposed in tenths.
exposure() {
	most=$1
	shift
	mkdir -p "$root/exposed"
	cat "$@" >"$root/exposed/fusiond.service"
	systemd-analyze security --offline=yes --threshold="$most" --no-pager "$root/exposed/fusiond.service"
}
if systemd-analyze verify --man=no "$root/user/fusiond.service" >/dev/null 2>&1; then
	claim "systemd_finds_no_fault_with_the_unit" 0 "" verify "$root/units/fusiond.service"
	claim "systemd_finds_no_fault_with_the_socket" 0 "" verify "$root/units/fusiond.socket"
	claim "systemd_finds_no_fault_with_the_unit_of_a_device" 0 "" verify "$root/units/fusiond@.service"
	claim "systemd_finds_no_fault_with_the_unit_of_a_user" 0 "" verify --user "$root/user/fusiond.service"
	cat "$root/units/fusiond.service" "$parts/gpu.conf" "$parts/remote.conf" "$parts/socket.conf" >"$root/user/fusiond-all.service"
	claim "systemd_finds_no_fault_with_the_drop_ins" 0 "" verify "$root/user/fusiond-all.service"
else
	skip "systemd-analyze verify does not work here: $(systemd-analyze verify "$root/user/fusiond.service" 2>&1 | tail -1)" \
		systemd_finds_no_fault_with_the_unit systemd_finds_no_fault_with_the_socket systemd_finds_no_fault_with_the_unit_of_a_device \
		systemd_finds_no_fault_with_the_unit_of_a_user systemd_finds_no_fault_with_the_drop_ins
fi
claim "the_unit_is_exposed_by_at_most_1" 0 "" exposure 10 "$units/fusiond.service"
claim "the_unit_of_a_device_is_exposed_by_at_most_1" 0 "" exposure 10 "$units/fusiond@.service"
claim "on_a_gpu_the_unit_is_exposed_by_at_most_1" 0 "" exposure 10 "$units/fusiond.service" "$parts/gpu.conf"
claim "with_other_machines_it_is_exposed_by_at_most_1.7" 0 "" exposure 17 "$units/fusiond.service" "$parts/remote.conf"
claim "the_check_of_exposure_can_fail" 1 "" exposure 1 "$units/fusiond.service"
for unit in "$units/fusiond.service" "$units/fusiond@.service" "$tree/usr/lib/systemd/user/fusiond.service"; do
	for line in Type=notify OOMPolicy=continue RuntimeDirectoryPreserve=restart; do
		claim "${unit##*/}_says_$line" 0 "" grep -qx "$line" "$unit"
	done
done
claim "users_are_seen" 0 "" grep -qx "PrivateUsers=no" "$units/fusiond.service"
if command -v systemd-sysusers >/dev/null; then
	claim "the_user_is_made" 0 "" systemd-sysusers --dry-run "$tree/usr/lib/sysusers.d/fusiond.conf"
else
	skip "no systemd-sysusers here" the_user_is_made
fi

# ---- under a service manager ----

# A manager of one's own: with no units but ours, and folders /run and /tmp that are its own. Needs a namespace.
cat >"$root/manager.sh" <<'MANAGER'
set -eu
root=$1 tree=$2
mount -t tmpfs tmpfs /run || exit 77
mkdir -p /run/systemd/system /run/user/test
chmod 700 /run/user/test
export XDG_RUNTIME_DIR=/run/user/test XDG_CONFIG_HOME="$root/config" XDG_CACHE_HOME="$root/cache-home"
export SYSTEMD_UNIT_PATH="$root/manager" SYSTEMD_LOG_TARGET=console SYSTEMD_LOG_LEVEL=notice
unset NOTIFY_SOCKET DBUS_SESSION_BUS_ADDRESS
/lib/systemd/systemd --user --unit=basic.target >"$root/manager.log" 2>&1 &
manager=$!
# A manager that is asked to end waits for more units than it has here; with the namespace all goes that is left.
trap 'systemctl --user stop fusiond.service >/dev/null 2>&1 || true; kill -KILL "$manager" 2>/dev/null || true' EXIT
tries=0
until systemctl --user is-active basic.target >/dev/null 2>&1; do
	tries=$((tries + 1))
	[ "$tries" -lt 1200 ] && kill -0 "$manager" 2>/dev/null || { echo "no manager: $(tail -1 "$root/manager.log")"; exit 77; }
	sleep 0.1
done
systemctl --user start probe.service || { echo "a manager that cannot start anything"; exit 77; }
sh "$root/story.sh" "$tree" "$3"
MANAGER

# What is tried under it. show: a property; until_is: waits for one.
cat >"$root/story.sh" <<'STORY'
set -u
tree=$1 holder=$2
say() { echo "$1"; }
show() { systemctl --user show -p "$1" --value fusiond.service; }
until_is() {
	tries=0
	until show "$1" | grep -q -e "$2"; do
		tries=$((tries + 1))
		[ "$tries" -lt 12000 ] || { echo "$1 is $(show "$1"), not $2"; systemctl --user status fusiond.service; return 1; }
		sleep 0.1
	done
}
ctl() { LD_LIBRARY_PATH="$tree/usr/lib" FUSION_SOCKET="$XDG_RUNTIME_DIR/fusiond/door" "$tree/usr/bin/fusionctl" "$@"; }

systemctl --user start fusiond.service && [ "$(show ActiveState)" = active ] && ctl status >/dev/null &&
	say it_is_started_once_it_serves
until_is StatusText 'sessions: 0 of users: 0' && say the_line_of_status_says_who_is_served
pid=$(show MainPID)
[ "$(show WatchdogUSec)" != 0 ] && until_is WatchdogTimestampMonotonic '^[1-9]' && say it_answers_the_watchdog

systemctl --user reload fusiond.service && until_is ActiveState active && until_is SubState running &&
	[ "$(show MainPID)" = "$pid" ] && ctl status >/dev/null && say a_reload_keeps_the_process
echo "[log]
level = loud" >"$XDG_CONFIG_HOME/fusiond/fusiond.conf"
! systemctl --user reload fusiond.service 2>/dev/null && until_is StatusText 'not reloaded.*fusiond.conf:2: log.level is .loud' &&
	[ "$(show MainPID)" = "$pid" ] && [ "$(show ActiveState)" = active ] && say a_reload_of_a_wrong_file_fails_and_changes_nothing
systemctl --user stop fusiond.service
! systemctl --user start fusiond.service 2>/dev/null && [ "$(show ExecMainStatus)" = 78 ] && [ "$(show NRestarts)" = 0 ] &&
	[ "$(show ActiveState)" = failed ] && say a_wrong_configuration_is_not_tried_again
: >"$XDG_CONFIG_HOME/fusiond/fusiond.conf"
systemctl --user start fusiond.service && until_is StatusText 'users: 0$' && say one_that_is_right_again_starts
pid=$(show MainPID)
engine=$(cat "/proc/$pid/task/$pid/children" | cut -d' ' -f1)
kill -KILL "$engine" && tries=0 && until ctl status --json 2>/dev/null | grep -q '"ended": *1'; do
	tries=$((tries + 1))
	[ "$tries" -lt 12000 ] || break
	sleep 0.1
done
until_is StatusText '^[^(]*; sessions' && [ "$(show MainPID)" = "$pid" ] && [ "$(show NRestarts)" = 0 ] &&
	say the_end_of_an_engine_is_not_the_end_of_the_service
kill -KILL "$pid" && until_is NRestarts 1 && until_is ActiveState active && ctl status >/dev/null &&
	[ "$(show MainPID)" != "$pid" ] && say one_that_was_killed_is_started_again
# A client that holds an array, and is asked for it now and then. Nothing tells when it has said something but what it said.
mkfifo "$XDG_RUNTIME_DIR/ask"
FUSION_SOCKET="$XDG_RUNTIME_DIR/fusiond/door" "$holder" hold <"$XDG_RUNTIME_DIR/ask" >"$XDG_RUNTIME_DIR/said" 2>&1 &
exec 3>"$XDG_RUNTIME_DIR/ask"
has() {
	echo >&3
	tries=0
	until [ "$(wc -l <"$XDG_RUNTIME_DIR/said")" -ge "$1" ]; do
		tries=$((tries + 1))
		[ "$tries" -lt 12000 ] || break
		sleep 0.1
	done
	[ "$(grep -cx there "$XDG_RUNTIME_DIR/said")" = "$1" ] || { cat "$XDG_RUNTIME_DIR/said"; return 1; }
}
has 1 && [ "$(show NFileDescriptorStore)" -ge 3 ] && say the_manager_keeps_what_sessions_have
systemctl --user restart fusiond.service && has 2 && say a_restart_keeps_sessions_and_arrays
pid=$(show MainPID)
kill -KILL "$pid" && has 3 && [ "$(show MainPID)" != "$pid" ] && say the_end_of_the_supervisor_keeps_them_too
exec 3>&-
until_is NFileDescriptorStore '^1$' && say what_is_kept_goes_with_its_session
systemctl --user stop fusiond.service && [ ! -e /run/fusiond ] && env -u FUSION_SOCKET LD_LIBRARY_PATH="$tree/usr/lib" \
	"$tree/usr/bin/fusionctl" config get fusion.enabled && [ "$(show ActiveState)" = active ] &&
	say libraries_start_the_unit_of_the_user
systemctl --user stop fusiond.service && [ "$(show ActiveState)" = inactive ] && [ "$(show Result)" = success ] &&
	[ ! -e "$XDG_RUNTIME_DIR/fusiond" ] && say it_stops_and_leaves_nothing
# The socket of the unit, and its drop-in, as the administrator would put them to use.
cp "$tree/usr/share/fusiond/systemd/socket.conf" "$SYSTEMD_UNIT_PATH/fusiond.service.d/socket.conf" && systemctl --user daemon-reload
socket() { stat -c %i "$XDG_RUNTIME_DIR/fusiond/door"; }
systemctl --user start fusiond.socket || systemctl --user status --no-pager fusiond.socket
[ "$(show ActiveState)" = inactive ] && before=$(socket) && ctl config get fusion.enabled >/dev/null && until_is ActiveState "^active" && say the_socket_starts_the_daemon
systemctl --user stop fusiond.service 2>/dev/null
[ "$(show ActiveState)" = inactive ] && [ "$(socket)" = "$before" ] && ctl config get fusion.enabled >/dev/null && until_is ActiveState "^active" &&
	say the_socket_stays_when_the_daemon_ends_and_starts_another
systemctl --user restart fusiond.service && [ "$(socket)" = "$before" ] && ctl status >/dev/null && say a_restart_leaves_the_socket
systemctl --user stop fusiond.socket fusiond.service && [ ! -e "$XDG_RUNTIME_DIR/fusiond/door" ] && say the_socket_goes_when_it_is_stopped
STORY

mkdir -p "$root/manager/fusiond.service.d" "$root/config/fusiond" "$root/cache-home"
touch "$root/config/fusiond/fusiond.conf"
printf '[Unit]\nDescription=nothing\n' >"$root/manager/basic.target"
cp "$root/manager/basic.target" "$root/manager/shutdown.target"
printf '[Service]\nType=oneshot\nRuntimeDirectory=probe\nNoNewPrivileges=yes\nExecStart=/bin/true\n' >"$root/manager/probe.service"
# The programs of the build tree, without what costs minutes on an empty cache.
sed -e "s|^ExecStart=.*|ExecStart=$tree/usr/sbin/fusiond --engine $tree/usr/libexec/fusiond/fusiond-engine --config $root/config/fusiond/fusiond.conf --set device.measure=no --set door.mode=0600|" \
	-e "s|^ExecReload=/usr/sbin|ExecReload=$tree/usr/sbin|" -e "/^\[Service\]/a Environment=LD_LIBRARY_PATH=$tree/usr/lib POCL_CACHE_DIR=${POCL_CACHE_DIR:-$root/pocl} FUSIOND_FUSION_INTERPRETER=off" \
	"$tree/usr/lib/systemd/user/fusiond.service" >"$root/manager/fusiond.service"

# A manager of a user's gives nobody another owner.
sed -e "s|^ListenSequentialPacket=/run|ListenSequentialPacket=%t|" -e "s|^ExecStartPre=.*|DirectoryMode=0700|" -e "s|/run/fusiond$|%t/fusiond|" "$units/fusiond.socket" >"$root/manager/fusiond.socket"

own="--mount --pid --fork --kill-child --mount-proc"
[ "$(id -u)" = 0 ] || own="$own --user --map-root-user"
got=0
# shellcheck disable=SC2086
if ! unshare $own --propagation private true 2>/dev/null; then
	# shellcheck disable=SC2086
	skip "no namespaces here" $managed
	finish_claims
	exit
fi
# shellcheck disable=SC2086
timeout 3600 unshare $own --propagation private sh "$root/manager.sh" "$root" "$tree" "$(realpath "$build")/tests/test_return" >"$root/story" 2>&1 || got=$?
if [ "$got" = 77 ]; then
	# shellcheck disable=SC2086
	who=no
	[ "$(id -u)" = 0 ] || who="only root can have a"
	skip "$who service manager here ($(tail -1 "$root/story"))" $managed
	finish_claims
	exit
fi
for held in $managed; do
	claim "$held" 0 "" grep -qx "$held" "$root/story"
done
[ "$failed" = 0 ] || { sed 's/^/    /' "$root/story"; tail -20 "$root/manager.log"; }
finish_claims
