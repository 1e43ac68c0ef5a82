#!/bin/sh
# Refuses an include that goes against the direction of data:
#   serve -> graph -> plan -> emit -> exec -> device
# and OpenCL, nng outside the folders that may use them, see ARCHITECTURE.md; and a mutant (tests/mutants) that does not apply any more.
set -eu
cd "$(dirname "$0")/.."

failed=0
checked=0

# may FOLDER ALLOWED...: files below FOLDER include only these folders (and their own).
may() {
	folder=$1
	shift
	for file in $(find "$folder" -path client/examples -prune -o \( -name '*.c' -o -name '*.h' -o -name '*.def' \) -print | sort); do
		checked=$((checked + 1))
		for include in $(sed -n 's/^#include "\([^"]*\/[^"]*\)".*/\1/p' "$file"); do
			ok=
			for allowed in "$folder" "$@"; do
				case $include in "$allowed" | "$allowed"/*) ok=1 ;; esac
			done
			[ -n "$ok" ] || {
				echo "$file includes $include: $folder may include only: $*"
				failed=$((failed + 1))
			}
		done
	done
}

# only HEADER FOLDER...: no file elsewhere includes <HEADER...>.
only() {
	header=$1
	shift
	for file in $(grep -rlE "^#include <$header" protocol client daemon --include='*.[ch]' || true); do
		checked=$((checked + 1))
		ok=
		for folder in "$@"; do
			case $file in "$folder"*) ok=1 ;; esac
		done
		[ -n "$ok" ] || {
			echo "$file includes <$header>: only $* may"
			failed=$((failed + 1))
		}
	done
}

may protocol
may client protocol
may daemon/base protocol
may daemon/graph protocol daemon/base
may daemon/plan protocol daemon/base daemon/graph
may daemon/emit protocol daemon/base daemon/plan daemon/graph
may daemon/device protocol daemon/base daemon/plan/kernel.h daemon/plan daemon/emit
may daemon/exec protocol daemon/base daemon/graph daemon/plan daemon/emit daemon/device
may daemon/serve protocol daemon/base daemon/graph daemon/plan daemon/emit daemon/exec daemon/device
may daemon/door protocol daemon/base
may daemon/gateway protocol daemon/base client/link.h client/transport.h
only 'CL/' daemon/device client/fusionctl/doctor_driver
only 'nng/' protocol/sp daemon/serve/transport_nng client/transport_nng
only 'systemd/' daemon/door daemon/base/log
only 'mbedtls/' client/link

# A bug put in on purpose that does not apply any more would be found by nothing.
for patch in tests/mutants/*.patch; do
	patch -s -p1 -F0 --dry-run <"$patch" >/dev/null || {
		echo "$patch does not apply any more"
		failed=$((failed + 1))
	}
done

echo "layers: $checked files checked"
[ "$failed" = 0 ] && echo "1 passed, 0 failed" || echo "0 passed, 1 failed"
[ "$failed" = 0 ]
