# What the scripts of tests/e2e/ begin with; sourced, with the build folder as the script's first argument. A private
# folder and socket, a daemon that goes with the script, and claims that are counted.
set -eu
cd "$(dirname "$0")/../.."
build=$1
root=$(mktemp -d)
daemon=
finish() {
	[ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true
	[ -z "$daemon" ] || wait "$daemon" 2>/dev/null || true
	rm -rf "$root"
}
trap finish EXIT
# What stands before the driver, at a path without blanks: the loader cuts LD_PRELOAD there.
interpose=$root/interpose.so
ln -s "$(realpath "$build")/tests/interpose.so" "$interpose"
FUSION_SOCKET=$root/door
export FUSION_SOCKET
# As in check: a script that wants bytecode says so.
FUSIOND_FUSION_INTERPRETER=${FUSIOND_FUSION_INTERPRETER:-off}
export FUSIOND_FUSION_INTERPRETER
passed=0
failed=0
skipped=0

# skip REASON CLAIM...: claims that cannot be tried here, each counted as skipped.
skip() {
	reason=$1
	shift
	for name in "$@"; do
		echo "skipped $name: $reason"
		skipped=$((skipped + 1))
	done
}

# skip_all REASON: all claims that the script has by name.
skip_all() {
	# shellcheck disable=SC2046
	skip "$1" $(LC_ALL=C sed -n 's/^[[:blank:]]*\(claim\|claim_json\|finds\) "\{0,1\}\([a-z0-9_]*\)"\{0,1\} .*/\2/p' "$0")
}

# The end of a script: the line that tests/check.sh counts by.
finish_claims() {
	echo "$passed passed, $failed failed, $skipped skipped"
	[ "$failed" = 0 ]
}

# claim CLAIM STATUS PATTERN COMMAND...: the exit code, and a pattern that standard output or error contains ("": any). Its
# ranges are of ASCII: in Turkish i does not lie between a and z.
claim() {
	name=$1 status=$2 pattern=$3
	shift 3
	got=0
	"$@" >"$root/out" 2>&1 || got=$?
	if [ "$got" = "$status" ] && { [ -z "$pattern" ] || LC_ALL=C grep -q -e "$pattern" "$root/out"; }; then
		passed=$((passed + 1))
		return
	fi
	failed=$((failed + 1))
	echo "FAIL $name: exit code $got (expected $status), output (expected: $pattern):"
	sed 's/^/    /' "$root/out"
	[ ! -e "$root/log" ] || tail -5 "$root/log"
}

# claim_json CLAIM EXPRESSION COMMAND...: is standard output one JSON text, in which this Python expression over `j` is true?
claim_json() {
	name=$1 expression=$2
	shift 2
	"$@" >"$root/out" 2>"$root/err" || true
	if "${PYTHON:-/usr/bin/python3}" -c "import json, sys
j = json.load(open(sys.argv[1]))
sys.exit(not ($expression))" "$root/out"; then
		passed=$((passed + 1))
		return
	fi
	failed=$((failed + 1))
	echo "FAIL $name: not true of the JSON: $expression"
	sed 's/^/    /' "$root/out" "$root/err"
}

# until_does COMMAND...: waits until it succeeds; what does not in twenty minutes hangs, and ends the script.
until_does() {
	tries=0
	until "$@" >/dev/null 2>&1; do
		tries=$((tries + 1))
		[ "$tries" -lt 12000 ] || {
			echo "waited in vain: $*"
			"$@" 2>&1 | sed 's/^/    it says: /'
			tail -n 20 "$root/log" 2>/dev/null | sed 's/^/    the log: /'
			return 1
		}
		sleep 0.1
	done
}

# share_driver_cache FOLDER: a daemon on that cache folder finds there what the driver compiled for other tests of this run (tests/driver_cache.h). A
# script that asks what a driver leaves, or wants it to compile, unsets FUSION_DRIVER_CACHE.
share_driver_cache() {
	[ -n "${FUSION_DRIVER_CACHE:-}" ] || return 0
	mkdir -p -m 700 "$1"
	[ -e "$1/driver" ] || ln -s "$FUSION_DRIVER_CACHE" "$1/driver"
}

# start_on FOLDER OPTION...: the daemon with its cache in that folder, once it answers. Its log is $root/log.
start_on() {
	cache_folder=$1
	shift
	share_driver_cache "$cache_folder"
	"$build/fusiond" --config /dev/null --socket "$root/door" --cache-dir "$cache_folder" --set device.measure=no "$@" >>"$root/log" 2>&1 &
	daemon=$!
	until_does "$build/fusionctl" status
}

stop() {
	kill "$daemon"
	wait "$daemon" || true
	daemon=
}
