#!/bin/bash
# What makes sense on a machine with an accelerator, from a build folder that was carried there: the tests
# that run kernels, the text graphs, and a slice of the random graphs, whose results must have the bits that other
# drivers give.
#
# usage: device.sh BUILD_FOLDER OUT_FOLDER [HASHES]
#
# OUT_FOLDER gets a log of each job, summary.txt, and random-hashes; HASHES is that file of another driver, made by
#
#     FUSION_BUILD=build tests/oracle/test_random.py --graphs N --seed S --hashes FILE
#
# with the same GRAPHS and SEED as here ($GRAPHS, $SEED). $LIMIT is how many seconds a job may take. JOBS="graphs random" runs
# these alone; GPU_ONLY=1 leaves out what the graphs do in the CPU strategy. OpenCL is the machine's own: set
# OCL_ICD_VENDORS, if the loader does not find it.
#
# All 2^32 floats of every function, some minutes on 16 cores, are run where they are asked for by name:
#
#     JOBS=ulp_all LIMIT=560 tests/device.sh build OUT_FOLDER
#
# OUT_FOLDER/ulp-record then has a line a function: its name, the worst error, where, and a digest of the results' bits. $ULP_RECORD,
# such a file of another driver (build/ulp-record of `make check-ulp`), is compared with it.
set -u
cd "$(dirname "$0")/.." || exit 1
build=$1
out=$2
hashes=${3:-}
graphs=${GRAPHS:-64}
seed=${SEED:-1}
limit=${LIMIT:-400}
wanted=" ${JOBS:-device emit_kernels exec graphs ulp random} "
python=${PYTHON:-python3}
mkdir -p "$out"
: >"$out/summary.txt"
failed=0

say() {
	echo "$*" | tee -a "$out/summary.txt"
}

job() {
	name=$1
	shift
	case $wanted in *" $name "*) ;; *) return ;; esac
	start=$(date +%s)
	if timeout -k 10 "$limit" "$@" >"$out/$name.log" 2>&1 </dev/null; then verdict="ok   "; else verdict="FAIL "; fi
	[ "$verdict" = "ok   " ] || failed=$((failed + 1))
	say "$verdict $name: $(tail -n 1 "$out/$name.log") ($(($(date +%s) - start)) s)"
}

job device "$build/tests/test_device"
job emit_kernels "$build/tests/test_emit_kernels"
job exec "$build/tests/test_exec"
job graphs "$build/tests/run_graphs" --values ${GPU_ONLY:+--gpu} "$build/fusiond" tests/graphs
job ulp "$build/tests/ulp" --digest
job ulp_all "$build/tests/ulp" --all --type f32 --unary --record "$out/ulp-record"
if [ -n "${ULP_RECORD:-}" ] && [ -e "$out/ulp-record" ]; then
	# Name, type, how many results and their digest.
	mine=$(awk '{ print $1, $2, $3, $NF }' "$out/ulp-record" | sort)
	theirs=$(awk '{ print $1, $2, $3, $NF }' "$ULP_RECORD" | sort)
	same=$(comm -12 <(echo "$mine") <(echo "$theirs") | wc -l)
	both=$(comm -12 <(echo "$mine" | cut -d' ' -f1-3) <(echo "$theirs" | cut -d' ' -f1-3) | wc -l)
	if [ "$both" -gt 0 ] && [ "$same" = "$both" ]; then verdict="ok   "; else verdict="FAIL "; fi
	[ "$verdict" = "ok   " ] || failed=$((failed + 1))
	say "$verdict same_ulp: of $both functions that both have, $same have the same bits"
fi
job random env FUSION_BUILD="$build" "$python" tests/oracle/test_random.py --graphs "$graphs" --seed "$seed" \
	--hashes "$out/random-hashes"
if [ -n "$hashes" ] && [ -e "$out/random-hashes" ]; then
	different=$(diff "$hashes" "$out/random-hashes" | grep -c '^>')
	if [ "$different" = 0 ]; then
		say "ok    same_bits: $(wc -l <"$out/random-hashes") graphs"
	else
		say "FAIL  same_bits: $different graphs differ: $(diff "$hashes" "$out/random-hashes" | sed -n 's/^> \([0-9]*\).*/\1/p' | head -n 20 | tr '\n' ' ')"
		failed=$((failed + 1))
	fi
fi
say "$failed failed"
exit $((failed > 0))
