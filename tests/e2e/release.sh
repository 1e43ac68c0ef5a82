#!/bin/sh
# The scripts of make check-anywhere and make release, on a tree whose check is played: they must see what fails and what is skipped.
. "$(dirname "$0")/../claims.sh"

tree=$root/tree
mkdir -p "$tree/tests"
cp tests/anywhere.sh tests/release.sh "$tree/tests"
printf 'build/\ndocs/\n' >"$tree/.gitignore"
# Each target does what its file says, if there is one.
cat >"$tree/Makefile" <<'EOF'
check check-kill check-nng check-fuzz check-drivers check-packages:
	@sh ./$@.sh
EOF
# played NAME TEXT: commits what a target does.
played() {
	printf '%s\n' "$2" >"$tree/$1.sh"
	git -C "$tree" add -A
	git -C "$tree" -c user.name=n -c user.email=n@n commit -qm "$1"
}
git -C "$tree" init -q

anywhere() {
	PLACES="$1" bash "$tree/tests/anywhere.sh"
}
good='echo "5 passed, 0 failed, 1 skipped"; { echo "job 5 0 1"; echo "skipped job of_all: nowhere"; } >"$CHECK_RECORD"'
played check "$good"
claim what_passes_everywhere_passes 0 "^5 passed, 0 failed" anywhere "tmp blanks umask nohome"
played check "$good; "'case $PWD in *" "*) echo "skipped job of_blanks: a blank" >>"$CHECK_RECORD" ;; esac'
claim what_a_place_skips_is_seen 1 "FAIL  blanks: skipped job of_blanks: a blank; at home it runs" anywhere "tmp blanks"
played check "$good; "'[ -n "${HOME:-}" ] || echo "job 4 0 1" >"$CHECK_RECORD"'
claim what_a_place_leaves_out_is_seen 1 "FAIL  nohome: job makes 5 claims, at home 6" anywhere "nohome tmp"
played check "$good; "'[ "$(umask)" != 0077 ] || exit 1'
claim what_fails_in_a_place_is_seen 1 "^2 passed, 1 failed" anywhere "umask tmp"
claim and_nowhere_else 0 "^2 passed, 0 failed" anywhere tmp
played check 'exit 0'
claim a_run_without_a_record_fails 1 "FAIL  tmp: the run left no record" anywhere tmp
claim an_unknown_place_is_refused 2 "there is no place moon; places are: tmp home" anywhere moon

release() {
	PARTS="$1" bash "$tree/tests/release.sh"
}
written=$tree/docs/RELEASE-CHECK.md
played check 'echo "7 passed, 0 failed, 2 skipped"'
played check-kill 'echo "6 passed, 1 failed"; exit 1'
played check-nng 'echo "100%: Checks: 3, Failures: 0, Errors: 0"; echo "50%: Checks: 5, Failures: 1, Errors: 1"; echo "skipped a_case: nowhere"'
claim a_release_is_recorded 0 "check: 7 passed, 0 failed, 2 skipped" release check
claim with_its_commit 0 "$(git -C "$tree" rev-parse HEAD)" cat "$written"
claim with_its_counts 0 "^| check | 7 | 0 | 2 |" cat "$written"
claim and_what_was_left_out 0 "^| kill | not run |" cat "$written"
played check 'echo "slice $SLICE: 7 passed, 0 failed"; [ "$SLICE" = "$WANTED" ] && echo "1 passed, 0 failed"'
claim a_release_takes_all_slices 0 "check: 1 passed, 0 failed" env WANTED=all PARTS=check bash "$tree/tests/release.sh"
claim a_slice_to_try_it_is_taken 0 "check: 1 passed, 0 failed" env WANTED=2/30 RELEASE_SLICE=2/30 PARTS=check bash "$tree/tests/release.sh"
claim and_the_record_says_so 0 "^| check (slice 2/30) | 1 | 0 |" cat "$written"
played check 'echo "7 passed, 0 failed, 2 skipped"'
claim it_says_what_failed 1 "^release: FAILED: kill" release "kill check"
claim and_goes_on_after_it 0 "^| check | 7 | 0 | 2 |" cat "$written"
claim the_record_has_it 0 "^| kill | 6 | 1 | 0 |" cat "$written"
claim a_count_that_failed_fails 1 "nng: 5 passed, 2 failed, 1 skipped" release nng
played check-fuzz 'echo "plan: 7 inputs, 3 edges, 0 new, nothing found"; echo "ring: 9 inputs, 4 edges, 1 new, FOUND"; exit 1'
claim what_fuzzing_finds_is_counted 1 "fuzz: 1 passed, 1 failed" release fuzz
played check-drivers 'echo "| driver | version | graphs | oracle |"; echo "| PoCL | 3.1 | 90/0/2 | 40/1/0 |"; echo "skipped sid: no root"'
claim drivers_rows_are_counted 1 "drivers: 130 passed, 1 failed, 3 skipped" release drivers
played check-packages 'echo done'
claim what_counts_nothing_is_not_called_passed 0 "packages: - passed, 0 failed" release packages
claim an_unknown_part_is_refused 2 "there is no part moon" release moon
# Each target of the Makefile that checks something is a part, or it would be forgotten.
parts=$(sed -n "/^parts='/,/'\$/p" tests/release.sh | tr -d "'")
for target in $(LC_ALL=C grep -oE '^(check-[a-z]+|mutants|lint):' Makefile | tr -d :); do
	claim "${target}_is_a_part" 0 "" sh -c 'echo "$1" | grep -qE "make $2( |$)"' sh "$parts" "$target"
done

# What later releases are compared with (tests/releases.sh): the last two tags of the history, as numbers go.
. tests/releases.sh
last() (
	unset CHECK_RELEASES
	cd "$tree"
	releases "$1" | tr '\n' ' '
)
claim without_a_tag_nothing_is_released 0 "" sh -c 'test -z "$1"' sh "$(last 2)"
git -C "$tree" checkout -q -b aside
played check "$good"
git -C "$tree" tag 0.12.0
git -C "$tree" checkout -q -
for tag in 0.9.0 v0.10.0 0.11.0-rc1 nightly; do
	git -C "$tree" tag "$tag"
	played check "$good; : $tag"
done
claim the_last_releases_are_known_by_their_tags 0 "" test "$(last 2)" = "v0.10.0 0.9.0 "
echo >"$tree/dirt"
claim a_tree_with_changes_is_refused 2 "changes that are not committed" release check

finish_claims
