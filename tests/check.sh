#!/bin/bash
# Runs every test as a job of its own, some at a time; the last line counts all claims.
#
# usage: [SLICE=K/N|all] check.sh BUILD_FOLDER [JOB-NAME...]
#
# A job prints check's "Checks: N, Failures: N, Errors: N" or a line "N passed, N failed"; a job that
# fails without either counts as one failure. Output of failed jobs is shown whole, of others the lines "note: ...".
set -u
cd "$(dirname "$0")/.."
build=$1
shift
wanted=" $* "
# One more than processors: tests of processes that end, stop and start again wait for the most of their time.
parallel=${CHECK_JOBS:-$(($(nproc) + 1))}
# A job that hangs is a failure, not a wait: the slowest takes two minutes on a machine of its own.
limit=${CHECK_LIMIT:-1500}
# The same for a case that sets no limit of its own: libcheck's four seconds are little where all processors are busy.
export CK_DEFAULT_TIMEOUT=${CK_DEFAULT_TIMEOUT:-240}
python=${PYTHON:-/usr/bin/python3}

# The driver's compiler keeps memory until the process ends; only our own leaks count.
# Walking the thread-local memory of a driver that unloads its libraries kills the leak checker now and then: use_tls=0.
export LSAN_OPTIONS="suppressions=$PWD/tests/lsan.supp:print_suppressions=0:use_tls=0"
export UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS="suppressions=$PWD/tests/tsan.supp:ignore_noninstrumented_modules=1"

# Interpreters take a compiler some seconds: those tests have them that say so.
export FUSIOND_FUSION_INTERPRETER=off

logs=$(mktemp -d)
# Kernels that one job built need not be built by the next, nor by the next run: where the driver keeps what it compiled
# (tests/driver_cache.h), less what nobody asked for in two days. The jobs' own folders begin empty.
mkdir -p "$build/kernels"
kernels=$(cd "$build/kernels" && pwd)
find "$kernels" -maxdepth 1 -name 'tempfile*' -delete
find "$kernels" -name last_accessed -mtime +1 | while read -r file; do rm -rf "${file%/*}"; done
export FUSION_CACHES="$logs/caches" FUSION_DRIVER_CACHE="$kernels" POCL_CACHE_DIR="$kernels"
trap 'rm -rf "$logs"' EXIT
trap 'exit 130' INT TERM

# Of slow cases a run takes a slice, by the commit, so that the next ones take the others: SLICE=1/30 is one, all the whole.
commit=$(git rev-parse --short=7 HEAD 2>/dev/null || echo 0)
slice=${SLICE:-$((0x$commit % 30))/30}
case $slice in
all) unset FUSION_SLICE ;;
*) export FUSION_SLICE="$slice" && echo "note: slice $slice of the slow cases; SLICE=$slice repeats it, SLICE=all takes all" ;;
esac

# Of a job: what its processes took of the processors, which a busy machine does not change much.
TIMEFORMAT='%1U + %1S'

# Minutes each; these start first, so that none runs alone at the end.
longest="oracle_ops graphs test_emit_kernels oracle_composites test_service"

# One line a job: name, then the command.
jobs() {
	[ -x "$build/tests/run_graphs" ] && echo "graphs $build/tests/run_graphs $build/fusiond tests/graphs"
	for script in tests/oracle/test_*.py; do
		[ -e "$script" ] || continue
		name=$(basename "$script" .py)
		echo "oracle_${name#test_} env FUSION_BUILD=$build $python $script"
	done
	[ -e "$build/python/fusion/_core.abi3.so" ] &&
		echo "python env FUSION_BUILD=$build PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$PWD/$build/python $python -m pytest -q -p no:cacheprovider client/python/tests"
	for script in tests/e2e/*.sh; do
		[ -e "$script" ] && echo "e2e_$(basename "$script" .sh) sh $script $build"
	done
	for program in "$build"/tests/test_*; do
		[ -x "$program" ] && echo "$(basename "$program") $program"
	done
	# The same programs once more, and slower: of a slice every second one, by the commit, so that the next ones take the others.
	turn=${FUSION_SLICE:+${FUSION_SLICE%/*}}
	for sanitized in ${CHECK_SANITIZED:-}; do
		for program in "$sanitized"/tests/test_*; do
			name=${sanitized#build-}_$(basename "$program")
			[ -n "$turn" ] && turn=$((turn + 1))
			case $wanted in *" $name "*) ;; *) [ $((${turn:-0} % 2)) = 0 ] || continue ;; esac
			[ -x "$program" ] && echo "$name $program"
		done
	done
	[ -x "$build/tests/ulp" ] && echo "ulp $build/tests/ulp"
	echo "layers sh tests/layers.sh"
}

# Runs one job; its output goes to a log, its counts to NAME.count.
run() {
	name=$1
	shift
	start=$(date +%s)
	{ time timeout -k 10 "$limit" "$@" >"$logs/$name.log" 2>&1 </dev/null; } 2>"$logs/$name.time"
	status=$?
	awk -v status=$status '
		/Checks: [0-9]+, Failures: [0-9]+, Errors: [0-9]+/ {
			match($0, /Checks: [0-9]+/); checks = substr($0, RSTART + 8, RLENGTH - 8)
			match($0, /Failures: [0-9]+/); bad = substr($0, RSTART + 10, RLENGTH - 10)
			match($0, /Errors: [0-9]+/); bad += substr($0, RSTART + 8, RLENGTH - 8)
			passed += checks - bad; failed += bad; seen = 1
		}
		/^[0-9]+ passed, [0-9]+ failed/ { passed += $1; failed += $3; seen = 1 }
		END {
			if (status && !failed) failed = 1
			if (!seen && !status) passed = 1
			print passed + 0, failed + 0
		}' "$logs/$name.log" >"$logs/$name.count"
	read -r passed failed <"$logs/$name.count"
	if [ "$failed" = 0 ]; then
		echo "ok    $name: $passed passed ($(($(date +%s) - start)) s, $(cat "$logs/$name.time") s of processors)"
		sed -n "s/^note: /      $name: /p" "$logs/$name.log"
	else
		echo "FAIL  $name: $passed passed, $failed failed, status $status"
		sed "s/^/      $name: /" "$logs/$name.log" | tail -60
	fi
}

running=0
jobs | awk -v longest="$longest" '
	BEGIN { n = split(longest, name) }
	{ line[$1] = $0; order[NR] = $1 }
	END {
		for (i = 1; i <= n; i++) if (name[i] in line) { print line[name[i]]; delete line[name[i]] }
		for (i = 1; i <= NR; i++) if (order[i] in line) print line[order[i]]
	}' >"$logs/jobs"
while read -r name command; do
	case $wanted in "  " | *" $name "*) ;; *) continue ;; esac
	# shellcheck disable=SC2086
	run "$name" $command &
	running=$((running + 1))
	if [ "$running" -ge "$parallel" ]; then
		wait -n
		running=$((running - 1))
	fi
done <"$logs/jobs"
wait

cat "$logs"/*.count | awk '{ p += $1; f += $2 } END { print (p + 0) " passed, " (f + 0) " failed"; exit f > 0 }'
