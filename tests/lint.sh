#!/bin/sh
# clang-tidy and cppcheck over our C; both must be silent. Needs the packages clang-tidy and cppcheck.
set -u
cd "$(dirname "$0")/.."
build=$1
failed=0

for tool in clang-tidy cppcheck; do
	command -v "$tool" >/dev/null || {
		echo "lint: $tool is missing; apt-get install $tool"
		exit 1
	}
done

sources=$(find protocol client daemon -name '*.c')
python=$("${PYTHON:-/usr/bin/python3}" -c 'import sysconfig; print(sysconfig.get_path("include"))')
[ -e "$python/Python.h" ] || {
	echo "lint: Python's headers are missing; apt-get install python3-dev"
	exit 1
}
flags="-std=gnu11 -I. -I$build/include -isystem $python -DPy_LIMITED_API=0x030B0000 -D_GNU_SOURCE -DCL_TARGET_OPENCL_VERSION=120 -DFUSIOND_VERSION=\\\"0\\\" \
	-DFUSIOND_LIBEXECDIR=\\\"/\\\" -DFUSIOND_SYSCONFDIR=\\\"/\\\""
# shellcheck disable=SC2086
found=$(echo "$sources" | xargs -P "$(nproc)" -n 8 sh -c 'clang-tidy --quiet "$@" -- '"$flags"' 2>/dev/null' tidy |
	grep -E 'warning:|error:' | sort -u)
[ -z "$found" ] || {
	echo "$found"
	failed=1
}
# What it does not understand: uthash's loops, compound literals, and the rules that the linker puts side by side.
# shellcheck disable=SC2086
cppcheck --quiet --std=c11 --inline-suppr --error-exitcode=1 --enable=warning,performance,portability --library=python \
	--suppress=missingIncludeSystem --suppress=unknownMacro --suppress=internalAstError --suppress=comparePointers -j "$(nproc)" -I. -I"$build/include" -D_GNU_SOURCE protocol client daemon || failed=1

[ "$failed" = 0 ] && echo "1 passed, 0 failed" || echo "0 passed, 1 failed"
exit "$failed"
