#!/bin/bash
# Runs every test as a job of its own, some at a time; the last line counts all claims.
#
# usage: [SLICE=K/N|all] [TURN=N] [CHECK_RECORD=FILE] check.sh BUILD_FOLDER [JOB-NAME...]
#
# A job prints check's "Checks: N, Failures: N, Errors: N" or a line "N passed, N failed[, N skipped]"; a job that
# fails without either counts as one failure. For each case that cannot run it prints "skipped CASE: REASON" (tests/skip.h,
# tests/claims.sh, harness.py), and check counts such a case as run. Output of failed jobs is shown whole, of others what
# was skipped and the lines "note: ...". CHECK_RECORD gets a line "JOB PASSED FAILED SKIPPED" a job, and the skipped cases.
set -u
cd "$(dirname "$0")/.."
build=${1:-}
[ -d "$build/tests" ] || {
	echo "check.sh: \"$build\" is no build folder: usage: [SLICE=K/N|all] check.sh BUILD_FOLDER [JOB-NAME...]" >&2
	exit 64
}
shift
wanted=" $* "
# One more than processors: tests of processes that end, stop and start again wait for the most of their time.
parallel=${CHECK_JOBS:-$(($(nproc) + 1))}
# A job that hangs is a failure, not a wait; nothing else is decided by time. The slowest takes two minutes on a machine of its
# own, and an hour where each processor has ten others that want it.
limit=${CHECK_LIMIT:-7200}
# The same for a case: libcheck's four seconds, and what cases set themselves, are for a quiet machine.
export CK_DEFAULT_TIMEOUT=${CK_DEFAULT_TIMEOUT:-240} CK_TIMEOUT_MULTIPLIER=${CK_TIMEOUT_MULTIPLIER:-10}
python=${PYTHON:-/usr/bin/python3}
# Where there is one it looks at Python's own objects, too.
debug_python=$python
[ "$python" = /usr/bin/python3 ] && [ -x /usr/bin/python3-dbg ] && debug_python=/usr/bin/python3-dbg

# The driver's compiler keeps memory until the process ends; only our own leaks count.
# Walking the thread-local memory of a driver that unloads its libraries kills the leak checker now and then: use_tls=0.
export LSAN_OPTIONS="suppressions='$PWD/tests/lsan.supp':print_suppressions=0:use_tls=0"
export UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS="suppressions='$PWD/tests/tsan.supp':ignore_noninstrumented_modules=1"

# Interpreters take a compiler some seconds: those tests have them that say so.
export FUSIOND_FUSION_INTERPRETER=off
# A busy machine takes longer for what nobody is to be told that he waits in vain for.
export FUSION_LIMIT_S=1200

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

slice=$(sh tests/slice.sh)
turn=$(sh tests/slice.sh turn)
case $slice in
all) unset FUSION_SLICE ;;
*) export FUSION_SLICE="$slice" && echo "note: slice $slice of the slow cases, turn $turn of the jobs in turns; SLICE=$slice TURN=$turn repeats it, SLICE=all takes all" ;;
esac

# Of a job: what its processes took of the processors, which a busy machine does not change much.
TIMEFORMAT='%1U + %1S'

# Minutes each; these start first, so that none runs alone at the end.
longest="fuzz graphs test_exec python oracle_ops oracle_composites oracle_tiers test_limits test_restart test_emit_kernels test_service"

# Whatever Python warns of in the suite, or in the programs that it starts, is an error. What it claims is the same of built kernels, which
# one slice in three has, and of bytecode and generic kernels, which the others have and all runs by nng and with ASan.
python_interpreter=$FUSIOND_FUSION_INTERPRETER
[ $((${turn:-0} % 3)) = 0 ] || python_interpreter=always
python_suite='env FUSIOND_FUSION_INTERPRETER="$python_interpreter" PYTHONDEVMODE=1 PYTHONWARNINGS=error FUSION_BUILD="$build" PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$(realpath "$build")/python" "$python" -m pytest -q -p no:cacheprovider client/python/tests --ignore client/python/tests/test_numpy.py --ignore client/python/tests/test_numpy_names.py'
# What clients do is the same by nng (fusion.transport): jobs nng_NAME, once more.
by_nng="python test_client_call test_client_door test_client_given_up test_client_grad test_client_process test_client_questions test_client_record test_client_sleepers test_client_threads test_client_wait test_share
	test_service test_recover test_return test_restart"
# What a slice has one in so many of, another one in each: what is dear, and looked at in another way by each run. JOBS:N, where JOBS is a pattern; those
# of one line come in turns. Each N divides thirty.
seldom="nng_.*:3
	address_.*:3
	thread_.*:3
	(oracle_graphs|oracle_tiers):2
	(oracle_random|test_emit_kernels):2
	(oracle_composites|oracle_programs):2
	(oracle_fast|oracle_gradients|oracle_train|e2e_bench|ulp):3
	fuzz:2"

# One line a job: name, then the command, which the shell reads once more: folders may have blanks in their names.
jobs() {
	[ -x "$build/tests/run_graphs" ] && echo 'graphs "$build/tests/run_graphs" "$build/fusiond" tests/graphs'
	for script in tests/oracle/test_*.py; do
		[ -e "$script" ] || continue
		name=$(basename "$script" .py)
		echo "oracle_${name#test_} env FUSION_BUILD=\"\$build\" \"\$python\" $script"
	done
	[ -e "$build/python/fusion/_core.abi3.so" ] &&
		echo "python $python_suite"
	# Of many small kernels each once: as bytecode, which nobody has to build.
	[ -e "$build/python/fusion/_core.abi3.so" ] &&
		echo 'numpy env FUSIOND_FUSION_INTERPRETER=always PYTHONWARNINGS=error FUSION_BUILD="$build" PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$(realpath "$build")/python" "$python" -m pytest -q -p no:cacheprovider client/python/tests/test_numpy.py client/python/tests/test_numpy_names.py'
	# `make check-aliasing` runs more.
	[ -e "$build/python/fusion/_core.abi3.so" ] && echo 'aliasing env FUSION_BUILD="$build" "$python" tests/aliasing/run.py --programs 500'
	# `make check-leaks` calls each a million times.
	[ -e "$build/python/fusion/_core.abi3.so" ] && echo 'leaks env FUSION_BUILD="$build" "$python" tests/leaks.py --calls 1000'
	for script in tests/e2e/*.sh; do
		[ -e "$script" ] && echo "e2e_$(basename "$script" .sh) sh $script \"\$build\""
	done
	for program in "$build"/tests/test_*; do
		[ -x "$program" ] && echo "${program##*/} \"\$build/tests/${program##*/}\""
	done
	for name in $by_nng; do
		if [ "$name" != python ]; then
			[ -x "$build/tests/$name" ] && echo "nng_$name env FUSIOND_FUSION_TRANSPORT=nng \"\$build/tests/$name\""
		elif [ -e "$build/python/fusion/_core.abi3.so" ]; then
			echo "nng_$name $python_suite" | sed 's/ env / env FUSIOND_FUSION_TRANSPORT=nng /; s/"$python_interpreter"/always/'
		fi
	done
	# The same programs once more, and slower.
	for sanitized in ${CHECK_SANITIZED:-}; do
		for program in "$sanitized"/tests/test_*; do
			[ -x "$program" ] && echo "${sanitized#build-}_$(basename "$program") $program"
		done
	done
	# What a program's own objects and threads may do to the extension module, seen by AddressSanitizer.
	case " ${CHECK_SANITIZED:-} $wanted" in *" build-address "* | *" address_python "*) ;; *) false ;; esac &&
		[ -e build-address/python/fusion/_core.abi3.so ] &&
		echo 'address_python env FUSIOND_FUSION_INTERPRETER=always ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD="$(gcc -print-file-name=libasan.so):$(gcc -print-file-name=libubsan.so)" PYTHONMALLOC=malloc FUSION_BUILD="$build" PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$PWD/build-address/python" "$debug_python" -m pytest -q -s -p no:cacheprovider client/python/tests/test_memory.py client/python/tests/test_mistakes.py client/python/tests/test_views.py client/python/tests/test_stateful.py'
	[ -x "$build/tests/ulp" ] && echo 'ulp "$build/tests/ulp"'
	# `make check-sim` looks at other seeds.
	[ -x "$build/tests/sim/sim" ] && echo 'sim "$build/tests/sim/sim" --seeds 1000'
	# `make check-faults` takes all.
	[ -x "$build/tests/sim/sim" ] && echo 'points "$build/tests/sim/sim" --points'
	[ -x "$build/tests/sim/sim" ] && echo 'points_ends "$build/tests/sim/sim" --point engine_ends'
	echo 'fuzz env PYTHON="$python" sh tests/fuzz/check.sh'
	echo "layers sh tests/layers.sh"
	echo 'lint sh tests/lint.sh "$build" slice'
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
			passed += checks - bad; failed += bad; checked = seen = 1
		}
		/^[0-9]+ passed, [0-9]+ failed/ { passed += $1; failed += $3; seen = 1 }
		/^skipped [^:]+: / { skipped++ }
		END {
			if (checked) passed -= skipped
			if (status && !failed) failed = 1
			if (!seen && !status && !skipped) passed = 1
			print passed + 0, failed + 0, skipped + 0
		}' "$logs/$name.log" >"$logs/$name.count"
	read -r passed failed skipped <"$logs/$name.count"
	said="$passed passed"
	[ "$failed" = 0 ] || said="$said, $failed failed"
	[ "$skipped" = 0 ] || said="$said, $skipped skipped"
	if [ "$failed" = 0 ]; then
		echo "ok    $name: $said ($(($(date +%s) - start)) s, $(cat "$logs/$name.time") s of processors)"
		sed -n "s/^\(note: \|skipped \)/      $name: \1/p" "$logs/$name.log"
	else
		echo "FAIL  $name: $said, status $status"
		sed "s/^/      $name: /" "$logs/$name.log" | tail -60
	fi
}

# Those that a slice takes, of the lines of jobs(): all that are asked for by name.
taken() {
	seldom=$seldom awk -v turn="$turn" -v wanted="$wanted" '
		BEGIN {
			kinds = split(ENVIRON["seldom"], pair, " ")
			for (i = 1; i <= kinds; i++) { split(pair[i], part, ":"); kind[i] = "^" part[1] "$"; of[i] = part[2] }
		}
		{
			for (i = 1; i <= kinds && $1 !~ kind[i]; i++) ;
			if (index(wanted, " " $1 " ") || (wanted == "  " && (turn == "" || i > kinds || (turn + number[i]++) % of[i] == 0))) print
		}'
}

longest_first() {
	awk -v longest="$longest" '
		BEGIN { n = split(longest, name) }
		{ line[$1] = $0; order[NR] = $1 }
		END {
			for (i = 1; i <= n; i++) if (name[i] in line) { print line[name[i]]; delete line[name[i]] }
			for (i = 1; i <= NR; i++) if (order[i] in line) print line[order[i]]
		}'
}

running=0
jobs | taken | longest_first >"$logs/jobs"
while read -r name command; do
	eval "run $name $command" &
	running=$((running + 1))
	if [ "$running" -ge "$parallel" ]; then
		wait -n
		running=$((running - 1))
	fi
done <"$logs/jobs"
wait

if [ -n "${CHECK_RECORD:-}" ]; then
	for count in "$logs"/*.count; do
		name=${count##*/}
		name=${name%.count}
		echo "$name $(cat "$count")"
		sed -n "s/^skipped /skipped $name /p" "$logs/$name.log"
	done >"$CHECK_RECORD"
fi
cat "$logs"/*.count | awk '{ p += $1; f += $2; s += $3 }
	END { print (p + 0) " passed, " (f + 0) " failed, " (s + 0) " skipped"; exit f > 0 }'
