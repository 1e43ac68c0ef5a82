#!/bin/bash
# The tests that run kernels, on Intel's OpenCL for CPUs, and a slice of the random graphs on both
# drivers, whose results must have the same bits.
#
# usage: intel.sh BUILD_FOLDER [GRAPHS]
#        intel.sh BUILD_FOLDER run COMMAND       the command on that driver, and nothing else
#
# The driver comes from PyPI (intel-opencl-rt) into BUILD_FOLDER/intel, or from $FUSION_INTEL, a folder with
# lib/libintelocl.so. It needs no Intel processor.
set -u
cd "$(dirname "$0")/.." || exit 1
build=$(realpath "$1")
graphs=${2:-80}
python=${PYTHON:-/usr/bin/python3}
intel=${FUSION_INTEL:-$build/intel}
passed=0
failed=0

get_driver() {
	[ -e "$intel/lib/libintelocl.so" ] && return
	echo "intel: getting intel-opencl-rt from PyPI into $intel"
	"$python" -m venv "$intel" && "$intel/bin/pip" install -q --disable-pip-version-check intel-opencl-rt intel-cmplr-lib-rt
}

# The loader's own libOpenCL stays; of the package only what the driver itself needs is found.
prepare() {
	folder=$(mktemp -d "${TMPDIR:-/tmp}/fusion-intel-XXXXXX")
	trap 'rm -rf "$folder"' EXIT
	trap 'exit 130' INT TERM
	mkdir "$folder/vendors" "$folder/lib"
	echo "$intel/lib/libintelocl.so" >"$folder/vendors/intel.icd"
	for library in "$intel"/lib/lib*.so*; do
		case $library in */libOpenCL.so*) ;; *) ln -s "$library" "$folder/lib/" ;; esac
	done
}

on_intel() {
	env OCL_ICD_VENDORS="$folder/vendors/" LD_LIBRARY_PATH="$folder/lib" "$@"
}

# NAME COMMAND...: counts it as passed or failed, and shows what failed.
job() {
	name=$1
	shift
	if "$@" >"$folder/log" 2>&1; then
		passed=$((passed + 1))
		echo "ok    $name: $(tail -n 1 "$folder/log")"
	else
		failed=$((failed + 1))
		echo "FAIL  $name"
		tail -n 60 "$folder/log" | sed "s/^/      $name: /"
	fi
}

get_driver || {
	echo "intel: the driver cannot be had; give its folder in FUSION_INTEL" >&2
	exit 1
}
prepare
if [ "$graphs" = run ]; then
	on_intel sh -c "$3"
	exit
fi
for test in emit_kernels exec device; do
	job "$test" on_intel "$build/tests/test_$test"
done
job ulp on_intel "$build/tests/ulp"
job graphs on_intel "$build/tests/run_graphs" --values "$build/fusiond" tests/graphs
job random on_intel env FUSION_BUILD="$build" "$python" tests/oracle/test_random.py --graphs "$graphs" --hashes "$folder/intel"
job random_here env FUSION_BUILD="$build" "$python" tests/oracle/test_random.py --graphs "$graphs" --hashes "$folder/here"
job same_bits cmp "$folder/intel" "$folder/here"
echo "$passed passed, $failed failed"
exit $((failed > 0))
