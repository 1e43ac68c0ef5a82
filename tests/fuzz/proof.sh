#!/bin/bash
# Does each target find a bug that was put in on purpose (proofs/TARGET*.patch)? In a copy of the tree; a table, and 1 where one was not found,
# or where a patch no longer applies.
#
# usage: proof.sh SECONDS [PATCH...]
set -u
cd "$(dirname "$0")/../.." || exit 1
seconds=$1
shift
[ $# -gt 0 ] || set -- tests/fuzz/proofs/*.patch
clang=$(sh tests/fuzz/clang.sh) || exit 1
case ${CC:-} in ccache*) clang="ccache $clang" ;; esac
copy=build-fuzz/proof
missed=0
rm -rf "$copy"/{client,daemon,kernels,protocol,systemd,man,debian,tests}
mkdir -p "$copy"
cp -rp Makefile client daemon kernels protocol systemd man debian tests "$copy"
for patch; do
	target=$(basename "$patch" .patch)
	target=${target%%[-0-9]*}
	if ! patch -s -p1 -d "$copy" <"$patch"; then
		echo "$patch no longer applies"
		exit 1
	fi
	start=$(date +%s)
	if ! make -s -C "$copy" -j"$(nproc)" CC="$clang" SANITIZE=fuzz "build-fuzz/fuzz/$target" build-fuzz/fuzz-seeds >"$copy/log" 2>&1; then
		cat "$copy/log"
		exit 1
	fi
	built=$(date +%s)
	if (cd "$copy" && "${PYTHON:-python3}" tests/fuzz/run.py build-fuzz fuzz "$target" "$seconds") >"$copy/log" 2>&1; then
		echo "$(basename "$patch"): NOT FOUND in $seconds s"
		missed=1
	else
		echo "$(basename "$patch"): found in $(($(date +%s) - built)) s: $(grep -m1 -E 'runtime error|ERROR: AddressSanitizer|^tests/fuzz.*: |ERROR: libFuzzer' "$copy/log" | cut -c1-120)"
	fi
	patch -s -R -p1 -d "$copy" <"$patch"
done
exit $missed
