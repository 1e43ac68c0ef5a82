#!/bin/sh
# Drivers that die, are too old, are several or none: the daemon, fusionctl doctor, and a client that starts a daemon of its own say one
# sentence, which names the driver, its version and what mends it; and doctor names the device that the daemon takes.
. "$(dirname "$0")/../claims.sh"
XDG_RUNTIME_DIR=$root/run XDG_CONFIG_HOME=$root/config XDG_CACHE_HOME=$root/cache
export XDG_RUNTIME_DIR XDG_CONFIG_HOME XDG_CACHE_HOME FUSIOND_DEVICE_MEASURE=no FUSIOND_FUSION_INTERPRETER=off
mkdir -m 0700 "$root/run" "$root/config" "$root/cache" "$root/vendors"
ctl=$build/fusionctl
played=$(cd "$build" && pwd)/tests/driver.so

# Where no service of this machine can be in the way. One may have been started with the same words before.
autostart() {
	rm -rf "$root/cache/fusiond" "$root/run/fusiond"
	"$@" unshare --mount --map-root-user sh -c 'mount -t tmpfs tmpfs /run/fusiond 2>/dev/null || [ ! -e /run/fusiond ] || exit 9
		unset FUSION_SOCKET && exec "$0" config get fusion.enabled' "$(cd "$build" && pwd)/fusionctl"
}
can_autostart=yes
unshare --mount --map-root-user true 2>/dev/null || can_autostart=

# says NAME PATTERN VARIABLE=VALUE...: all three say so, and fail.
says() {
	what=$1 pattern=$2
	shift 2
	claim "the_daemon_says_$what" 1 "$pattern" env "$@" "$build/fusiond" --config /dev/null --socket "$root/door" --cache-dir "$root/cache.d"
	claim "doctor_says_$what" 69 "$pattern" env "$@" "$ctl" doctor
	if [ -n "$can_autostart" ]; then
		claim "a_client_that_starts_one_hears_$what" 69 "$pattern" autostart env "$@"
	else
		skip "no namespaces here" "a_client_that_starts_one_hears_$what"
	fi
	rm -rf "$root/cache.d"
}

# ---- the driver of this machine, which is made to die ----
own="(.*, driver [^)]*)"
for where in "context a.context" "build a.first.kernel"; do
	says "that_a_driver_died_of_${where#* }" "the driver of .* $own died (signal 6) when it was asked for ${where#* }; upgrade or reinstall " \
		LD_PRELOAD="$interpose" FUSION_INTERPOSE_DIE="${where%% *}"
done
says that_a_driver_is_too_old "the driver of .* $own is too old: it has OpenCL 1.1, and fusiond needs 1.2; upgrade " \
	LD_PRELOAD="$interpose" FUSION_INTERPOSE_VERSION="OpenCL 1.1 worn out"

# ---- lists of drivers ----
echo "$played" >"$root/vendors/00-played.icd"
says which_driver_died "the OpenCL driver driver.so died (signal 6) while it listed its devices; upgrade or reinstall .*00-played.icd" \
	OCL_ICD_VENDORS="$root/vendors" FUSION_DRIVER=crash
says that_the_only_one_is_too_old "the driver of Played device (Played, driver 0.1) is too old: it has OpenCL 1.1" OCL_ICD_VENDORS="$root/vendors"
rm "$root/vendors/00-played.icd"
says that_there_is_none "no OpenCL platform was found; install pocl-opencl-icd\|there is no OpenCL driver\|OpenCL finds no device" OCL_ICD_VENDORS="$root/vendors"

# ---- several: the daemon and doctor take the same ----
list=${OCL_ICD_VENDORS:-/etc/OpenCL/vendors}
for icd in "$list"/*.icd; do ln -s "$(realpath "$icd")" "$root/vendors/"; done
echo "$played" >"$root/vendors/00-played.icd"
OCL_ICD_VENDORS=$root/vendors
export OCL_ICD_VENDORS
taken=$("$build/fusiond" --devices | cut -f 3)
claim of_two_platforms_doctor_names_the_one_of_use 0 "^ok *device .*a daemon takes $taken by " sh -c "\"$ctl\" doctor | sed '/^error *socket/d'"
claim a_device_that_is_asked_for_is_looked_at 69 "is too old: it has OpenCL 1.1" env FUSIOND_DEVICE_PLATFORM=Played "$ctl" doctor
claim one_that_is_not_there_is_told_with_those_that_are 69 'no OpenCL platform is named "Nonesuch" (there are: "Played", ' \
	env FUSIOND_DEVICE_PLATFORM=Nonesuch "$ctl" doctor
claim a_device_that_is_not_there_is_told 69 'no usable OpenCL device is named "Nonesuch"' env FUSIOND_DEVICE_DEVICE=Nonesuch "$ctl" doctor
claim several_devices_are_told_each 1 "^error	no usable OpenCL device is named \"Nonesuch\"" env FUSIOND_DEVICE_DEVICE="*,Nonesuch" "$build/fusiond" --devices
start_on "$root/cache.d"
claim_json the_daemon_takes_what_doctor_names "'$taken' in j['engines'][0]['device']" "$ctl" --json status
stop

finish_claims
