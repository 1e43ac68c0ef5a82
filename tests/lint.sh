#!/bin/sh
# clang-tidy and cppcheck over our C; both must be silent. Needs the packages clang-tidy and cppcheck.
#
# usage: lint.sh BUILD_FOLDER [slice]
#
# slice: of the files those of the run's slice (FUSION_SLICE, see check.sh), those of the last commit, and those that were not
# committed yet: what a run of check looks at. Counts one claim a file.
set -u
cd "$(dirname "$0")/.."
build=$1
found=$(mktemp -d)
trap 'rm -rf "$found"' EXIT

for tool in clang-tidy cppcheck; do
	command -v "$tool" >/dev/null || {
		echo "skipped lint: $tool is missing; apt-get install $tool"
		[ "${2:-}" = slice ]
		exit
	}
done
python=$("${PYTHON:-/usr/bin/python3}" -c 'import sysconfig; print(sysconfig.get_path("include"))')
[ -e "$python/Python.h" ] || {
	echo "skipped lint: Python's headers are missing; apt-get install python3-dev"
	[ "${2:-}" = slice ]
	exit
}

all=$(find protocol client daemon -name '*.c' | sort)
wanted=$all
if [ "${2:-}" = slice ] && [ -n "${FUSION_SLICE:-}" ]; then
	changed=$({ git diff --name-only HEAD~1 && git diff --name-only HEAD; } 2>/dev/null)
	wanted=$(printf '%s\n' "$all" | awk -v slice="$FUSION_SLICE" -v changed="$changed" '
		BEGIN { split(slice, s, "/"); n = split(changed, name, "\n"); for (i = 1; i <= n; i++) fresh[name[i]] = 1 }
		(NR - 1) % s[2] == s[1] % s[2] || $0 in fresh')
fi

flags="-std=gnu11 -I. -idirafter client -I$build/include -isystem $python -DPy_LIMITED_API=0x030B0000 -D_GNU_SOURCE -DCL_TARGET_OPENCL_VERSION=120 -DFUSIOND_VERSION=\\\"0\\\" \
	-DFUSIOND_LIBEXECDIR=\\\"/\\\" -DFUSIOND_SYSCONFDIR=\\\"/\\\""
printf '%s\n' "$wanted" | xargs -P "$(nproc)" -n 4 sh -c 'clang-tidy --quiet "$@" -- '"$flags"' 2>/dev/null' tidy |
	grep -E 'warning:|error:' | sort -u >"$found/tidy"
# What it does not understand: uthash's loops, compound literals, and the rules that the linker puts side by side.
# shellcheck disable=SC2086
cppcheck --quiet --std=c11 --inline-suppr --error-exitcode=1 --enable=warning,performance,portability --library=python \
	--suppress=missingIncludeSystem --suppress=unknownMacro --suppress=internalAstError --suppress=comparePointers -j "$(nproc)" \
	-I. -I"$build/include" -D_GNU_SOURCE -D__BYTE_ORDER__=1234 -D__ORDER_LITTLE_ENDIAN__=1234 $wanted >"$found/cppcheck" 2>&1 || echo "cppcheck is not silent" >>"$found/cppcheck"
cat "$found/tidy" "$found/cppcheck"

count=$(printf '%s\n' "$wanted" | wc -l)
if [ -s "$found/tidy" ] || [ -s "$found/cppcheck" ]; then
	echo "$((count - 1)) passed, 1 failed"
	exit 1
fi
echo "$count passed, 0 failed"
