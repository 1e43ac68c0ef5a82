#!/bin/bash
# What runs on which OpenCL driver, as rows of the table in docs/drivers.md.
#
#	bash tests/drivers.sh BUILD row PLATFORM      of the driver here whose platform's name has PLATFORM: a row
#	[RELEASE=trixie] bash tests/drivers.sh BUILD  `make check-drivers`: PoCL and rusticl of each release of Debian in a fresh root of it (root.sh),
#	                                              and Intel's CPU runtime here (intel.sh gets it, or FUSION_INTEL has it)
#
# A row: version; text graphs, a slice of the oracle (passed/failed/skipped); whether the demo trains to the same bits; seconds from the start
# of a daemon to a first result, on an empty cache and on a full one; add_relu_16M beside the PyTorch of that Python, if it has one. Times are
# of a machine that may be busy: compare those of one row. What failed is shown on standard error. The exit code is 1 where something failed.
set -u
cd "$(dirname "$0")/.."
build=$1
python=${PYTHON:-/usr/bin/python3}
failed=0
work=$(mktemp -d "${TMPDIR:-/var/tmp}/drivers.XXXXXX")
finish() {
	rm -rf --one-file-system "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

head_of_table() {
	echo "| driver | version | graphs | oracle | demo | first result: empty, full cache | add_relu_16M |"
	echo "| --- | --- | --- | --- | --- | --- | --- |"
}

# ---- a row ----

# counts JOB...: "passed/failed/skipped" of jobs of the check.
counts() {
	bash tests/check.sh "$build" "$@" >"$work/jobs" 2>&1 || failed=1
	grep -A 60 '^FAIL' "$work/jobs" >&2
	tail -n 1 "$work/jobs" | sed -n 's|^\([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped$|\1/\2/\3|p'
}

demo() {
	if "$build/demo" >"$work/demo" 2>&1 && grep -q 'SAME BITS' "$work/demo"; then
		echo "same bits"
	else
		failed=1
		tail -n 20 "$work/demo" >&2
		echo "FAILED"
	fi
}

# Does it build only what nobody waits for, and which a busy machine never gets to?
builds_spare_alone() {
	FUSION_SOCKET="$work/door" "$build/fusionctl" stats --json 2>>"$work/log" | tr '{,}' '\n' | awk -F : '
		/"programs_building"/ { building = $2 }
		/"programs_spare"/ { spare = $2 }
		END { exit building == "" || building != spare }'
}

# A program that a daemon was loading when it was ended is built again by the next one, which would take that for the driver's doing.
until_all_is_built() {
	until builds_spare_alone; do
		kill -0 "$1" 2>/dev/null || return
		sleep 0.1
	done
}

# Seconds from the start of a daemon on the cache that is there until a client has its result. One that has none in ten minutes has failed.
# The daemon stays until it builds nothing any more that somebody would wait for: the cache is full then.
first_result() {
	local start daemon tries=0

	start=$(date +%s%N)
	"$build/fusiond" --config /dev/null --socket "$work/door" --cache-dir "$work/cache" --set device.measure=no >>"$work/log" 2>&1 &
	daemon=$!
	until FUSION_SOCKET="$work/door" "$build/fusionctl" run "$work/one.fz" >"$work/out" 2>&1; do
		tries=$((tries + 1))
		if [ "$tries" = 60000 ] || ! kill -0 "$daemon" 2>/dev/null; then
			tail -n 5 "$work/log" >&2
			echo FAILED
			return
		fi
		sleep 0.01
	done
	echo "$start $(date +%s%N)" | awk '{ printf "%.1f s\n", ($2 - $1) / 1e9 }'
	until_all_is_built "$daemon"
	kill "$daemon"
	wait "$daemon"
}

both_results() {
	printf 'x = input f32[2] = 1 -2\ny = exp x\nz = add x y\noutput z\n' >"$work/one.fz"
	echo "$(first_result), $(first_result)"
}

add_relu() {
	local ours theirs

	ours=$("$build/fusion-bench" --json add_relu_16M 2>>"$work/log" | sed -n 's/.*"ms":\([0-9.e+-]*\).*/\1/p' | head -n 1)
	theirs=$(PYTHONPATH=tests/bench PYTHONDONTWRITEBYTECODE=1 "$python" - 2>/dev/null <<'PYTHON'
import torch
from timing import best
a, b = torch.rand(16 << 20), torch.rand(16 << 20)
print(torch.__version__.split("+")[0], best(lambda: torch.relu(a + b)))
PYTHON
	)
	[ -n "$ours" ] || { failed=1; echo FAILED; return; }
	echo "$ours $theirs" | awk '{ printf "%.1f ms", $1; if (NF > 2) printf "; PyTorch %s %.1f ms (%.1fx)", $2, $3, $3 / $1; print "" }'
}

# row PLATFORM
row() {
	local line

	export FUSIOND_DEVICE_PLATFORM=$1 RUSTICL_ENABLE=${RUSTICL_ENABLE:-llvmpipe}
	if ! line=$("$build/fusiond" --devices 2>>"$work/log"); then
		failed=1
		echo "| $1 | FAILED: ${line#error	} | | | | | |"
		return
	fi
	echo "| $1, $(echo "$line" | cut -f 3) | $(echo "$line" | cut -f 5) | $(counts graphs) | $(counts oracle_ops oracle_programs) | $(demo) | $(both_results) | $(add_relu) |"
}

# ---- all rows ----

releases="bookworm trixie sid"
. tests/root.sh

inside() {
	root_inside "$os" "cd /root/fusiond && $1"
}

# The driver of each release that is a package of it.
rows_of() {
	os=$work/$1
	if ! root_make "$1" "$os" >&2 || ! git clone -q --no-hardlinks . "$os/root/fusiond" || ! inside 'apt-get -q update && apt-get -qy dist-upgrade &&
		apt-get -qy install --no-install-recommends make git mesa-opencl-icd python3-torch && make deps && make -j$(nproc) all tests' >"$work/log.$1" 2>&1; then
		failed=1
		tail -n 20 "$work/log.$1" >&2
		echo "| drivers of $1 | FAILED: it was not built | | | | | |"
		return
	fi
	for platform in "Portable Computing Language" rusticl; do
		inside "bash tests/drivers.sh build row '$platform'" || failed=1
	done | sed "s/^| /| Debian $1: /"
	rm -rf --one-file-system "$os"
}

intel_row() {
	PYTHON=$python bash tests/intel.sh "$build" run "bash tests/drivers.sh '$build' row 'Intel(R) OpenCL'" || failed=1
}

if [ "${2:-}" = row ]; then
	row "$3"
	exit "$failed"
fi
why=$(root_refuses)
head_of_table
for release in ${RELEASE:-$releases}; do
	if [ -n "$why" ]; then
		echo "skipped $release: $why" >&2
	else
		rows_of "$release"
	fi
done
intel_row
exit "$failed"
