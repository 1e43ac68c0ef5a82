#!/bin/sh
# The job `fuzz` of make check: all inputs that are kept, of every target, and new ones of one target, by the slice's turn.
set -u
cd "$(dirname "$0")/../.." || exit 1
if ! clang=$(sh tests/fuzz/clang.sh); then
	echo "skipped fuzz targets: no clang with libFuzzer is here; apt-get install clang libclang-rt-dev"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
fi
case ${CC:-} in ccache*) clang="ccache $clang" ;; esac
make -s -j"$(nproc)" CC="$clang" SANITIZE=fuzz fuzz-programs || exit 1
exec "${PYTHON:-python3}" tests/fuzz/run.py build-fuzz check "${FUSION_SLICE:+${FUSION_SLICE%/*}}"
