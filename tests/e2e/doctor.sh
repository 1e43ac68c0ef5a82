#!/bin/sh
# fusionctl doctor: each thing that keeps fusiond from running is found, named, and given a command that mends it. What is
# wrong is played: drivers, folders, sockets, a tree of files, limits of this process.
. "$(dirname "$0")/../claims.sh"
unset FUSION_DRIVER_CACHE
# A driver's cache that the plain user may use: that of this run may lie in somebody's own folder.
POCL_CACHE_DIR=$root/pocl
export POCL_CACHE_DIR
mkdir "$POCL_CACHE_DIR" && chmod 1777 "$POCL_CACHE_DIR"
HOME=$root
export HOME

# Always as a user that may not do everything, where the test itself may.
plain=
if [ "$(id -u)" = 0 ]; then
	plain="setpriv --reuid 65534 --regid 65534 --clear-groups"
	chmod 755 "$root"
fi
python=${PYTHON:-/usr/bin/python3}
# Where everybody may run it; the build folder may be somebody's own.
mkdir "$root/bin"
cp -P "$build/fusionctl" "$build/fusiond" "$build/fusiond-engine" "$build/fusiond-gateway" "$build"/libfusion.so* "$root/bin"
chmod -R go+rX "$root/bin"
ctl=$root/bin/fusionctl

# finds CLAIM CHECK STATE WORDS [VARIABLE=VALUE...] COMMAND...: of that check there is such a finding, whose sentence has the
# words, with a command that mends it; and an error of it alone decides the exit code.
finds() {
	name=$1 check=$2 state=$3 words=$4
	shift 4
	got=0
	"$@" --json >"$root/out" 2>"$root/err" || got=$?
	if "$python" - "$root/out" "$got" "$check" "$state" "$words" <<'PYTHON'
import json, re, sys
answer, code, check, state, words = json.load(open(sys.argv[1])), int(sys.argv[2]), *sys.argv[3:]
found = [f for f in answer["findings"] if f["check"] == check and f["state"] == state and re.search(words, f["finding"])]
right = (answer["schema"] == "fusionctl.doctor/1" and len(found) > 0 and (state == "ok" or all(f["mend"] for f in found)) and
	(code == 0) == answer["healthy"] and answer["errors"] == sum(f["state"] == "error" for f in answer["findings"]))
sys.exit(not right)
PYTHON
	then
		passed=$((passed + 1))
		return
	fi
	failed=$((failed + 1))
	echo "FAIL $name: exit code $got; expected a finding of $check, $state: $words"
	sed 's/^/    /' "$root/out" "$root/err"
}

# ---- a tree without anything, and with some of it ----
tree=$root/tree
mkdir "$tree"
claim a_tree_that_is_not_there_is_refused 66 "there is no tree to look at: $root/none: No such file" "$ctl" doctor --root "$root/none"
claim nor_is_a_file_a_tree 66 "fusionctl is no folder" "$ctl" doctor --root "$ctl"
claim_json also_in_json 'j["schema"] == "fusionctl.error/1" and j["error"]["code"] == "FILE"' "$ctl" doctor --json --root "$root/none"
finds no_file_of_a_driver_is_none icd-file ok "there is no .icd file" "$ctl" doctor --root "$tree"
claim an_error_decides_the_exit_code 69 "no OpenCL loader" "$ctl" doctor --root "$tree"
finds no_loader_is_found opencl-loader error "no OpenCL loader" "$ctl" doctor --root "$tree"
finds no_driver_is_found driver error "no OpenCL driver" "$ctl" doctor --root "$tree"
mkdir -p "$tree/usr/lib/x86_64-linux-gnu" "$tree/etc/OpenCL/vendors" "$tree/dev/dri" "$tree/etc/fusiond"
touch "$tree/usr/lib/x86_64-linux-gnu/libOpenCL.so.1" "$tree/usr/lib/x86_64-linux-gnu/libnvidia-opencl.so.1"
finds a_loader_is_found opencl-loader ok "libOpenCL.so.1" "$ctl" doctor --root "$tree"
finds a_driver_without_an_icd_file_is_found icd-file error "libnvidia-opencl.so.1 is there, but no .icd file" \
	"$ctl" doctor --root "$tree"
claim the_file_is_named_that_mends_it 78 "mend: echo /usr/lib/x86_64-linux-gnu/libnvidia-opencl.so.1 >/etc/OpenCL/vendors/nvidia.icd" \
	"$ctl" doctor --root "$tree"
echo libnvidia-opencl.so.1 >"$tree/etc/OpenCL/vendors/nvidia.icd"
finds its_icd_file_is_found icd-file ok "1 .icd file, and each names a driver" "$ctl" doctor --root "$tree"
echo libgone.so.1 >"$tree/etc/OpenCL/vendors/gone.icd"
finds an_icd_file_of_nothing_is_found icd-file error "gone.icd names the driver libgone.so.1, which is not there" \
	"$ctl" doctor --root "$tree"
rm "$tree/etc/OpenCL/vendors/gone.icd"

# Regular files stand for nodes: only who may open them counts. The owner of this one may not, whoever runs the test.
touch "$tree/dev/dri/renderD128"
chmod 0060 "$tree/dev/dri/renderD128"
group=$(stat -c %G "$tree/dev/dri/renderD128")
chmod -R o+rX "$root/tree"
# shellcheck disable=SC2086
finds a_forbidden_node_is_found device-nodes error "may not use .*renderD128, which is for the group $group" \
	$plain "$ctl" doctor --root "$tree"
# shellcheck disable=SC2086
claim the_group_is_named_that_opens_it 77 "mend: usermod -aG $group" $plain "$ctl" doctor --root "$tree"
chmod 0600 "$tree/dev/dri/renderD128"
chmod 0000 "$tree/dev/dri/renderD128"
# shellcheck disable=SC2086
finds a_node_of_no_group_is_found device-nodes error "allows it to no group" $plain "$ctl" doctor --root "$tree"
chmod 0666 "$tree/dev/dri/renderD128"
# shellcheck disable=SC2086
finds an_open_node_is_no_finding device-nodes ok "may use the 1 node" $plain "$ctl" doctor --root "$tree"

# ---- drivers that are played ----
mkdir "$root/vendors"
echo "$(cd "$build" && pwd)/tests/driver.so" >"$root/vendors/played.icd"
played="env OCL_ICD_VENDORS=$root/vendors"
finds a_driver_is_found driver ok "Played device by Played" $played FUSION_DRIVER="OpenCL 1.2 new" "$ctl" doctor
finds an_old_driver_is_found driver-version error "too old: it has OpenCL 1.1" $played "$ctl" doctor
finds a_driver_that_is_new_enough_is_no_finding driver-version ok "1.2 or newer" $played FUSION_DRIVER="OpenCL 3.0 new" "$ctl" doctor
finds a_driver_that_crashes_is_found opencl-loader error "crashes" $played FUSION_DRIVER=crash "$ctl" doctor
rm "$root/vendors/played.icd"
finds no_platform_is_found driver error "OpenCL finds no device|no OpenCL driver" $played "$ctl" doctor

# ---- configuration, HOME, folders ----
finds a_wrong_setting_is_found configuration error "cache.bytes is 'much'" env FUSIOND_CACHE_BYTES=much "$ctl" doctor
# shellcheck disable=SC2086
finds no_home_is_found home error "HOME is not set" env -u HOME -u XDG_CACHE_HOME -u CACHE_DIRECTORY $plain "$ctl" doctor
mkdir "$root/closed"
chmod 0555 "$root/closed"
# shellcheck disable=SC2086
finds a_closed_cache_folder_is_found cache-folder error "$root/closed cannot be written" \
	env FUSIOND_CACHE_DIR="$root/closed" $plain "$ctl" doctor
mkdir -m 0777 "$root/open"
# shellcheck disable=SC2086
finds a_missing_cache_folder_is_made_not_what_is_above cache-folder error "$root/closed/new cannot be made" \
	env FUSIOND_CACHE_DIR="$root/closed/new" $plain "$ctl" doctor
# shellcheck disable=SC2086
finds a_cache_folder_that_others_may_write_is_found cache-folder error "could have code of their own run from it" \
	env FUSIOND_CACHE_DIR="$root/open" $plain "$ctl" doctor
# shellcheck disable=SC2086
$plain mkdir -m 0700 "$root/open/own"
# shellcheck disable=SC2086
finds a_cache_folder_of_ones_own_is_no_finding cache-folder ok "$root/open/own can be written" \
	env FUSIOND_CACHE_DIR="$root/open/own" $plain "$ctl" doctor
if unshare -rm true 2>/dev/null; then
	cat >"$root/noexec.sh" <<'SCRIPT'
mount -t tmpfs -o noexec tmpfs "$1"
shift
exec "$@"
SCRIPT
	mkdir "$root/noexec"
	finds a_folder_that_executes_nothing_is_found cache-folder error "mounted noexec" \
		env FUSIOND_CACHE_DIR="$root/noexec" unshare -rm sh "$root/noexec.sh" "$root/noexec" "$ctl" doctor
else
	skip "no file system can be mounted here" a_folder_that_executes_nothing_is_found
fi

# ---- limits ----
finds too_few_descriptors_are_found limit-files error "may have 100 descriptors" sh -c "ulimit -n 100; exec \"\$@\"" - "$ctl" doctor
finds few_descriptors_are_found limit-files warning "door.connections = 2000 takes up to 4000" \
	env FUSIOND_DOOR_CONNECTIONS=2000 sh -c "ulimit -n 1500; exec \"\$@\"" - "$ctl" doctor
finds little_locked_memory_is_found limit-memlock warning "may lock 64 KiB" sh -c "ulimit -l 64; exec \"\$@\"" - "$ctl" doctor
finds no_shared_memory_is_found memfd error "no memory can be shared" sh -c "ulimit -f 8; exec \"\$@\"" - "$ctl" doctor
mkdir -p "$tree/usr/lib/systemd/system" "$tree/etc/systemd/system/fusiond.service.d"
printf '[Service]\nPrivateNetwork=yes\nLimitNOFILE=512\nLimitMEMLOCK=4M\n' >"$tree/usr/lib/systemd/system/fusiond.service"
printf '[remote]\nlisten = tcp://127.0.0.1:7000\nplain_user = nobody\n' >"$tree/etc/fusiond/fusiond.conf"
finds limits_of_the_unit_are_found limit-files error "fusiond.service may have 512" "$ctl" doctor --root "$tree"
finds locked_memory_of_the_unit_is_found limit-memlock warning "fusiond.service may lock 4 MiB" "$ctl" doctor --root "$tree"
finds tcp_without_a_network_is_found network error "remote.listen is tcp://127.0.0.1:7000, but fusiond.service has PrivateNetwork=yes" \
	"$ctl" doctor --root "$tree"
printf '[Service]\nPrivateNetwork=no\nLimitNOFILE=1M\n' >"$tree/etc/systemd/system/fusiond.service.d/remote.conf"
finds a_drop_in_goes_over_the_unit network ok "does not take the network away" "$ctl" doctor --root "$tree"
finds a_drop_in_raises_the_limit limit-files ok "fusiond.service may have enough" "$ctl" doctor --root "$tree"

# ---- the socket ----
finds a_missing_socket_is_found socket error "door is missing" "$ctl" doctor
"$python" -c "import socket, sys; socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).bind(sys.argv[1])" "$root/door"
finds the_socket_of_a_dead_daemon_is_found socket error "of a daemon that is gone" "$ctl" doctor
if [ -n "$plain" ]; then
	chmod 0600 "$root/door"
	# shellcheck disable=SC2086
	claim a_forbidden_socket_has_its_own_code 77 "is forbidden to this user: its mode is 0600" \
		env FUSIOND_CACHE_DIR="$root/open/own" $plain "$ctl" doctor
	mkdir -m 0700 "$root/private"
	# shellcheck disable=SC2086
	finds a_folder_that_may_not_be_entered_is_found socket error "a folder on its path may not be entered" \
		env FUSION_SOCKET="$root/private/door" $plain "$ctl" doctor
else
	skip "only root can keep a user from a socket" a_forbidden_socket_has_its_own_code a_folder_that_may_not_be_entered_is_found
fi
rm "$root/door"

# A daemon of another release, played: it answers STATUS, and nothing else.
cat >"$root/other.py" <<'PYTHON'
import os, socket, struct, sys
door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
door.bind(sys.argv[1] + ".new")
door.listen(8)
os.rename(sys.argv[1] + ".new", sys.argv[1])
text = b'{"version":"9.9.9","protocol":77,"pid":%d,"engines":[{"number":0,"state":"gone","last_end":"the engine ran away"}]}' % os.getpid()
while True:
	peer = door.accept()[0]
	if peer.recv(4096):
		peer.send(b"\x92\x04\xda" + struct.pack(">H", len(text)) + text)
	peer.close()
PYTHON
"$python" "$root/other.py" "$root/door" &
daemon=$!
while [ ! -S "$root/door" ]; do sleep 0.1; done
finds another_version_is_found version error "9.9.9 and speaks version 77 of the protocol" "$ctl" doctor
finds an_engine_that_is_gone_is_found engine error "engine 0 is gone; it ended before: the engine ran away" "$ctl" doctor
stop
rm "$root/door"

# ---- a daemon that runs ----
printf 'x = input f32[2] = 1 -2\ny = neg x\noutput y\n' >"$root/graph.fz"
start_on "$root/cache"
"$ctl" run "$root/graph.fz" >/dev/null
claim a_daemon_that_runs_has_nothing_wrong 0 "nothing is to mend" "$ctl" doctor
finds it_answers socket ok "answers at" "$ctl" doctor
finds its_cache_is_of_its_driver cache-stale ok "of the drivers that are here .[1-9]" "$ctl" doctor
finds a_stale_cache_is_found cache-stale warning "of no driver that is here" $played FUSION_DRIVER="OpenCL 1.2 other" \
	sh -c "echo $(cd "$build" && pwd)/tests/driver.so >$root/vendors/played.icd; exec \"\$@\"" - "$ctl" doctor
stop

finish_claims
