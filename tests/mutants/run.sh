#!/bin/bash
# Bugs put in on purpose: are they found? Each NN_NAME.patch of this folder says on its first line what is wrong then, on its second which
# tests should find it (`sim` is the simulation), and is applied to a copy of the tree, built and tested. A table; exit status 1 where a
# patch does not apply any more, does not build, or more than MISSED are not found. Those that nobody is known to find count as skipped.
#
# usage: run.sh BUILD_FOLDER [PATCH...]
set -u
cd "$(dirname "$0")/../.."
tree=$(realpath "$1")/mutants
shift
missed=${MISSED:-2}
seeds=${SEEDS:-3000}
export FUSIOND_FUSION_INTERPRETER=off FUSION_CACHES="$tree/caches" FUSION_DRIVER_CACHE="$tree/kernels"
# A test that a bug makes wait is a bug found.
limit=${LIMIT:-120}

mkdir -p "$tree/src" "$tree/kernels" "$tree/caches"
git ls-files -z | rsync -a --from0 --files-from=- ./ "$tree/src/" 2>/dev/null || git ls-files -z | xargs -0 cp --parents -pt "$tree/src"
build() {
	make -s -C "$tree/src" "$@" >"$tree/log" 2>&1
}

# The first of the tests that fails, or nothing.
found_by() {
	for test in "$@"; do
		case $test in
		sim) command="build/tests/sim/sim --seeds $seeds --jobs $(nproc)" ;;
		*) command=build/tests/$test ;;
		esac
		(cd "$tree/src" && timeout -k 5 "$limit" $command >"$tree/$test.log" 2>&1 </dev/null) || { echo "$test" && return; }
	done
}

targets() {
	for test in "$@"; do
		[ "$test" = sim ] && printf 'build/tests/sim/%s ' sim supervisor.so engine.so client.so || printf 'build/tests/%s ' "$test"
	done
	echo all
}

tried=0 found=0 broken=0
[ $# -gt 0 ] || set -- tests/mutants/*.patch
for patch in "$@"; do
	name=$(basename "$patch" .patch)
	tests=$(sed -n '2s/^tests: //p' "$patch")
	tried=$((tried + 1))
	if ! patch -s -p1 -F0 -d "$tree/src" <"$patch" >"$tree/log" 2>&1; then
		by="- it does not apply any more" broken=$((broken + 1))
		git ls-files -z | xargs -0 cp --parents -pt "$tree/src"
	elif ! build -j"$(nproc)" $(targets $tests); then
		by="- it does not build" broken=$((broken + 1))
	else
		by=$(found_by $tests)
		[ -n "$by" ] && found=$((found + 1)) || by="- nobody"
	fi
	case $by in *apply*) ;; *) patch -s -R -p1 -F0 -d "$tree/src" <"$patch" ;; esac
	printf '%-28s %-22s %s\n' "$name" "$by" "$(head -1 "$patch")"
done
echo "note: of $tried bugs put in on purpose $found were found, $broken could not be tried"
over=$((tried - found - missed))
[ "$over" -gt 0 ] || over=0
[ "$broken" -le "$over" ] || over=$broken
echo "$found passed, $over failed, $((tried - found - over)) skipped"
[ "$over" = 0 ]
