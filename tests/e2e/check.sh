#!/bin/sh
# tests/check.sh itself, over programs that are played: it counts what ran and what could not, and thirty commits in a row run every case.
. "$(dirname "$0")/../claims.sh"
unset CHECK_RECORD CHECK_SANITIZED SLICE FUSION_SLICE

# A tree with blanks in its name, whose programs say what they are told to.
tree="$root/a tree"
mkdir -p "$tree/tests/e2e" "$tree/build/tests"
cp tests/check.sh tests/slice.sh tests/slice.h tests/layers.sh "$tree/tests"
# program NAME STATUS LINE...
program() {
	file=$tree/build/tests/test_$1
	code=$2
	shift 2
	{
		echo "#!/bin/sh"
		for line in "$@"; do echo "echo '$line'"; done
		echo "exit $code"
	} >"$file"
	chmod +x "$file"
}
# ran NAME...: the last line of a run of these jobs.
ran() {
	jobs=
	for job in "$@"; do jobs="$jobs test_$job"; done
	# shellcheck disable=SC2086
	CHECK_RECORD="$root/record" bash "$tree/tests/check.sh" build $jobs | tail -1
}

program good 0 "100%: Checks: 3, Failures: 0, Errors: 0"
program some 0 "skipped a_case: only root can" "100%: Checks: 3, Failures: 0, Errors: 0"
program script 0 "skipped a_claim: no namespaces here" "2 passed, 0 failed, 1 skipped"
program none 0 "skipped one: there is one processor only" "skipped another: there is one processor only"
program bad 1 "66%: Checks: 3, Failures: 1, Errors: 0"
program crash 139 "no counts"
claim what_passes_is_counted 0 "^3 passed, 0 failed, 0 skipped$" ran good
claim a_case_that_cannot_run_is_skipped_not_passed 0 "^2 passed, 0 failed, 1 skipped$" ran some
claim a_script_s_claims_too 0 "^2 passed, 0 failed, 1 skipped$" ran script
claim a_program_of_which_nothing_runs_passes_nothing 0 "^0 passed, 0 failed, 2 skipped$" ran none
claim what_fails_is_counted 0 "^2 passed, 1 failed, 0 skipped$" ran bad
claim a_program_that_crashes_fails 0 "^3 passed, 1 failed, 0 skipped$" ran good crash
claim a_failure_decides_the_exit_code 1 "" bash "$tree/tests/check.sh" build test_bad
claim the_reason_is_shown 0 "test_some: skipped a_case: only root can" bash "$tree/tests/check.sh" build test_some
ran good some none >/dev/null
claim the_record_has_each_job 0 "^test_some 2 0 1$" cat "$root/record"
claim the_record_has_what_was_skipped 0 "^skipped test_none another: there is one processor only$" cat "$root/record"

# ---- slices ----
git -C "$tree" init -q
commit() {
	git -C "$tree" -c user.name=test -c user.email=test@localhost -c commit.gpgsign=false commit -q --allow-empty -m "$1"
}
for i in $(seq 30); do
	commit "$i"
	bash "$tree/tests/check.sh" build test_good | sed -n 's/^note: slice \([0-9]*\).*/\1/p'
done >"$root/slices"
claim thirty_commits_in_a_row_have_every_slice 0 "^30$" sh -c 'sort -n "$1" | uniq | wc -l' sh "$root/slices"
claim a_slice_can_be_named 0 "slice 7/30 of" env SLICE=7/30 bash "$tree/tests/check.sh" build test_good
# Jobs that a slice has one in so many of: six slices have each of them, as often as it is said. What is asked for by name runs. Other jobs fail in this tree.
mkdir -p "$tree/build-address/tests"
for name in one two three four; do
	program "$name" 0 "1 passed, 0 failed"
	cp "$tree/build/tests/test_$name" "$tree/build-address/tests"
done
program ulp 0 "1 passed, 0 failed"
mv "$tree/build/tests/test_ulp" "$tree/build/tests/ulp"
for i in 0 1 2 3 4 5; do
	SLICE=$i/30 CHECK_SANITIZED=build-address CHECK_RECORD="$root/record" bash "$tree/tests/check.sh" build >"$root/told" || true
	cat "$root/record"
done | cut -d " " -f 1 | grep "_one$\|_two$\|_three$\|_four$\|^ulp$" | sort | uniq -c | awk '{ print $2, $1 }' >"$root/turns"
claim jobs_in_turns_come_as_often_as_is_said 0 "address_test_four 2 address_test_one 2 address_test_three 2 address_test_two 2 test_four 6 test_one 6 test_three 6 test_two 6 ulp 2 " sh -c 'tr "\n" " " <"$1"' sh "$root/turns"
SLICE=all CHECK_SANITIZED=build-address CHECK_RECORD="$root/record" bash "$tree/tests/check.sh" build >"$root/told" || true
claim all_slices_have_them_all 0 "^6$" grep -c "^address_test\|^ulp\|^test_one" "$root/record"
for i in 0 1 2; do SLICE=$i/30 bash "$tree/tests/check.sh" build ulp | tail -1; done >"$root/told"
claim a_job_that_is_asked_for_runs_in_each_slice 0 "^3$" grep -c "^1 passed, 0 failed" "$root/told"
git clone -q --depth 1 "file://$tree" "$root/shallow" && mkdir -p "$root/shallow/tests" "$root/shallow/build/tests"
cp tests/check.sh tests/slice.sh "$root/shallow/tests"
today=$(($(date +%s) / 86400 % 30))
claim a_clone_of_depth_1_counts_the_days 0 "note: slice \($today\|$(((today + 1) % 30))\)/30 of" bash "$root/shallow/tests/check.sh" build none
claim slices_of_python_take_every_case 0 "" env PYTHONPATH=tests/oracle:client/python "${PYTHON:-/usr/bin/python3}" -c '
import os, harness
for count in range(100):
	taken = []
	for slice in range(30):
		os.environ["FUSION_SLICE"] = f"{slice}/30"
		part = harness.rotated(range(count))
		assert bool(part) == bool(count) and len(part) <= count / 30 + 1
		taken += part
		assert [n for n in range(count) if harness.in_slice(n)] in ([], list(part))
	assert set(taken) == set(range(count))'
cat >"$root/slices.c" <<'SOURCE'
/* Prints the rounds that a run of so many takes. */
static void taken(int from, int to);
#define tcase_add_loop_test(tcase, test, from, to) taken(from, to)
#include "tests/slice.h"
static void taken(int from, int to) {
	for (int i = from; i < to; i++)
		printf("%d\n", i);
}
int main(int argc, char **argv) {
	int rounds = atoi(argv[1]);

	if (argc == 2)
		tcase_add_slice_test(0, 0, rounds);
	for (int i = 0; argc > 2 && i < rounds; i++)
		for (int form = 0; form < 3; form++)
			if (slice_round((unsigned)i, (unsigned)rounds, SLICES / 3) && slice_form((unsigned)form, 3))
				printf("%d %d\n", i, form);
	return 0;
}
SOURCE
# shellcheck disable=SC2086
${CC:-gcc} -I. "$root/slices.c" -o "$root/slices_of"
for count in 1 2 29 30 31 95; do
	for i in $(seq 0 29); do
		FUSION_SLICE=$i/30 "$root/slices_of" "$count"
	done | sort -n | uniq >"$root/taken"
	claim "slices_of_c_take_every_case_of_$count" 0 "^$count$" sh -c 'wc -l <"$1"' sh "$root/taken"
	for i in $(seq 0 29); do
		FUSION_SLICE=$i/30 "$root/slices_of" "$count" forms
	done | sort | uniq >"$root/taken"
	claim "slices_of_c_take_every_form_of_$count" 0 "^$((3 * count))$" sh -c 'wc -l <"$1"' sh "$root/taken"
done
finish_claims
