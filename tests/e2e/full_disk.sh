#!/bin/sh
# A cache folder whose disk is full: nothing fails, at a start and in the middle; kernels stay on disk once there is room again.
# In a mount namespace of its own, where the machine allows one.
if [ -z "${FULL_DISK_INSIDE:-}" ]; then
	if ! unshare -rm true 2>/dev/null; then
		. "$(dirname "$0")/../claims.sh"
		skip_all "no file system can be mounted here"
		finish_claims
		exit
	fi
	FULL_DISK_INSIDE=1 exec unshare -rm sh "$0" "$@"
fi
. "$(dirname "$0")/../claims.sh"

# Its own driver's cache: it is the one that writes most.
unset FUSION_DRIVER_CACHE POCL_CACHE_DIR
ctl=$build/fusionctl
disk=$root/disk
mkdir "$disk"
mount -t tmpfs -o size=6m tmpfs "$disk"

fill() {
	dd if=/dev/zero of="$disk/fill" bs=4k 2>/dev/null || true
}

graph() {
	printf 'x = input f32[2] = 1 -2\ny = %s x\nz = add y %s\noutput z\n' "$1" "$2" >"$root/$1.fz"
}

graph neg 1
graph abs 1
graph relu 1
graph square 1
graph exp 1
fill
start_on "$disk/cache"
claim a_daemon_starts_on_a_full_disk 0 "^engine  *ready" "$ctl" status
claim a_kernel_is_built_on_a_full_disk 0 "^\[0 3\]" "$ctl" run "$root/neg.fz"
claim the_log_says_so 0 "is full; until the next start the driver's cache is in memory" cat "$root/log"
rm "$disk/fill"
stop
start_on "$disk/cache"
claim a_kernel_is_built_where_there_is_room 0 "^\[2 3\]" "$ctl" run "$root/abs.fz"
claim the_driver_is_back_on_disk 0 '"driver_in_memory":	false' "$ctl" cache stat --json
fill
claim a_kernel_is_built_when_the_disk_has_become_full 0 "^\[2 1\]" "$ctl" run "$root/relu.fz"
claim the_driver_is_in_memory 0 '"driver_in_memory":	true' "$ctl" cache stat --json
claim one_built_before_still_runs 0 "^\[2 3\]" "$ctl" run "$root/abs.fz"
stop
rm "$disk/fill"
start_on "$disk/cache"
claim the_next_start_returns 0 '"driver_in_memory":	false' "$ctl" cache stat --json
claim kernels_are_kept_again 0 "^\[2 5\]" "$ctl" run "$root/square.fz"
stop

# What it would go to is full, too, as a small /dev/shm soon is.
mount -t tmpfs -o size=6m tmpfs /dev/shm
start_on "$disk/cache" --set fusion.interpreter=off
dd if=/dev/zero of=/dev/shm/fill bs=64k 2>/dev/null || true
fill
full="full, and /dev/shm, where the driver's cache would go, has less than 4 MiB left: .*mount -o remount,size="
claim a_kernel_is_refused_where_both_are_full 66 "$full" "$ctl" run "$root/exp.fz"
rm "$disk/fill"
claim and_built_where_there_is_room_again 0 "^\[3.718" "$ctl" run "$root/exp.fz"
stop
fill
claim a_start_says_that_both_are_full 1 "$full" "$build/fusiond" --config /dev/null --socket "$root/door" --cache-dir "$disk/cache"
umount /dev/shm
umount "$disk"

finish_claims
