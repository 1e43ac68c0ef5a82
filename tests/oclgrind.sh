#!/bin/bash
# Every kernel that the text graphs and test_emit_kernels make, in both strategies, under Oclgrind: none may
# touch memory outside of a buffer, nor may two work-items race.
#
# usage: oclgrind.sh BUILD_FOLDER [GRAPH.fz...]
#
# Oclgrind runs LLVM's code for a made-up device, thousands of times slower than a driver, so buffers are small,
# and nobody is taken to hang. Arrays lie in pools, each one buffer: what is read beyond an array but
# within its pool is not seen here (results would be wrong), what is written there test_emit_kernels compares.
# Vectors are read past the ends of rows and arrays, and what they bring from there is dropped: a race of such a
# read with a write does no harm and is passed over. Its search for unset values is not used: it takes these lanes for such,
# and dies on groups.
set -u
cd "$(dirname "$0")/.." || exit 1
build=$1
shift
runtime=/usr/lib/oclgrind/liboclgrind-rt.so
# A race is looked for in all of a pool after each launch, so pools are as small as a graph allows.
memory=$((8 << 20))
# The slowest graph takes a quarter of an hour, on a processor of its own.
seconds=14400

folder=$(mktemp -d "${TMPDIR:-/tmp}/fusion-oclgrind-XXXXXX")
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM
mkfifo "$folder/pipe"

# Without optimisation and reductions over lanes: Oclgrind lacks the intrinsics that they call. The engine's threads take turns.
under_oclgrind() {
	env FUSIOND_ENGINE_HANG_US=0 FUSIOND_ENGINE_LAUNCH_US=0 FUSIOND_DEVICE_WORKER_US=3600s OCLGRIND_DATA_RACES=1 OCLGRIND_LOG="$folder/pipe" OCLGRIND_GLOBAL_MEM_SIZE="$memory" OCLGRIND_NUM_THREADS=1 \
		OCLGRIND_BUILD_OPTIONS="-cl-opt-disable -DWITHOUT_LANE_REDUCTIONS" LD_PRELOAD="$PWD/$build/tests/serial.so:$runtime" "$@"
}

# A broken kernel must be found, or this script proves nothing.
canary() {
	cat >"$folder/canary.cl" <<-EOF
		kernel void race(global int *a) { a[0] = get_global_id(0); }
		kernel void beyond(global int *a) { a[get_global_id(0) + 1] = 1; }
	EOF
	printf '%s/canary.cl\n%s\n8 1 1\n8 1 1\n<size=32 fill=0>\n' "$folder" "$1" >"$folder/canary.sim"
	oclgrind-kernel --data-races "$folder/canary.sim" 2>&1 | grep -q "$2"
}

passed=0
failed=0
verdict() {
	if [ "$1" = 0 ]; then
		passed=$((passed + 1))
		echo "ok    $2"
	else
		failed=$((failed + 1))
		echo "FAIL  $2"
	fi
}

# Reports are separated by empty lines; a line of a tab alone is none.
without_vector_reads() {
	awk -v RS= '!/^Read-write data race/ || !/ = load <[0-9]+ x / { print $0 "\n" }'
}

# NAME COMMAND...: what the program says itself counts, and that Oclgrind said nothing.
job() {
	name=$1
	shift
	cat "$folder/pipe" >"$folder/found" &
	reader=$!
	exec 8>"$folder/pipe"
	under_oclgrind "$@" 8>&- >"$folder/log" 2>&1
	status=$?
	exec 8>&-
	wait "$reader"
	without_vector_reads <"$folder/found" >"$folder/left"
	verdict "$status" "$name: $(tail -n 1 "$folder/log")"
	[ "$status" = 0 ] || tail -n 40 "$folder/log"
	[ ! -s "$folder/left" ]
	verdict $? "$name: nothing found by Oclgrind"
	head -n 60 "$folder/left"
}

[ -e "$runtime" ] || {
	echo "oclgrind: $runtime is missing; apt-get install oclgrind" >&2
	exit 1
}
canary race "data race"
verdict $? "a data race is found"
canary beyond "Invalid write"
verdict $? "a write outside of a buffer is found"

graphs=("$@")
[ $# -gt 0 ] || graphs=(tests/graphs/*.fz)
# Kernels compiled for it are kept apart from those of other drivers by their name.
job graphs "$build/tests/run_graphs" --values --seconds=$seconds "$build/fusiond" "${graphs[@]}"
[ $# -gt 0 ] || job emit_kernels "$build/tests/test_emit_kernels"
echo "$passed passed, $failed failed"
exit $((failed > 0))
