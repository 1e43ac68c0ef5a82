#!/bin/bash
# One run of everything, and what came of it in a file: what is to be true of a release before it has its tag.
#
# usage: [PARTS="PART..."] [RELEASE_SLICE=K/N] [RELEASE_RECORD=FILE] release.sh
#
# A part is a row of `parts`: its name and the targets of make. Each runs whatever became of those before it; the file, docs/RELEASE-CHECK.md,
# has the commit, the date and the counts of each part, and says of parts that were left out that they were not run. A tree with changes
# that are not committed is refused: nobody could have it again. Logs are in build/release. RELEASE_SLICE takes a slice of the slow cases of check, and
# the file says so: to try the script, not for a release.
set -u
cd "$(dirname "$0")/.."
record=${RELEASE_RECORD:-docs/RELEASE-CHECK.md}
logs=build/release

# check: every slice, with all sanitized programs, whatever SLICE says.
parts='check env SLICE=all make check
long make check-long
kill make check-kill
leaks make check-leaks
faults make check-faults
cache make check-cache
sim make check-sim
ulp make check-ulp
nng make check-nng
lint make lint
aliasing make check-aliasing
fuzz make check-fuzz SECONDS=600
mutants make mutants
drivers make check-drivers
oclgrind make check-oclgrind
intel make check-intel
anywhere make check-anywhere
packages make check-packages
distros make check-distros'
names=$(echo "$parts" | awk '{ printf "%s ", $1 }')
wanted=${PARTS:-$names}
for part in $wanted; do
	case " $names " in *" $part "*) ;; *)
		echo "there is no part $part; parts are: $names" >&2
		exit 2
		;;
	esac
done
changes=$(git status --porcelain) || exit 2
[ -z "$changes" ] || {
	printf 'release: the tree has changes that are not committed:\n%s\n' "$changes" >&2
	exit 2
}
mkdir -p "$logs" "$(dirname "$record")"
slice=${RELEASE_SLICE:-all}
unset SLICE

# Of a log: passed, failed, skipped. The last line of check's form counts all; libcheck's lines and those of scripts are summed where several
# targets of a part have their own, as are targets of fuzzing and what drivers' rows have in the columns for jobs. What counts nothing has
# its exit status alone, which the record says: `-`.
counts_of() {
	awk -v status="$2" '
		/^[0-9]+ passed, [0-9]+ failed/ { p += $1; f += $3; s += /skipped/ ? $5 : 0; seen = 1 }
		/Checks: [0-9]+, Failures: [0-9]+, Errors: [0-9]+/ {
			gsub(/[^0-9 ]/, " "); n = split($0, number, " "); bad = number[n] + number[n - 1]
			p += number[n - 2] - bad; f += bad; seen = checked = 1
		}
		/^[a-z_]+: [0-9]+ inputs, / { if (/FOUND$/) f++; else p++; seen = 1 }
		/^\| / && !/^\| (driver|---) / {
			for (i = 1; i <= NF; i++) if ($i ~ /^[0-9]+\/[0-9]+\/[0-9]+$/) { split($i, n3, "/"); p += n3[1]; f += n3[2]; rows += n3[3]; seen = 1 }
		}
		/^skipped [^:]+: / { said++ }
		END {
			if (checked) p -= said
			s = (said > s ? said : s) + rows
			if (status && !f) f = 1
			print (seen || f ? p + 0 : "-"), f + 0, s + 0
		}' "$1"
}

rows=
bad=
for part in $names; do
	case " $wanted " in *" $part "*) ;; *)
		rows="$rows| $part | not run | | | |
"
		continue
		;;
	esac
	command=$(echo "$parts" | sed -n "s/^$part //p" | sed "s,SLICE=all,SLICE=$slice,")
	shown=$part
	[ "$part" != check ] || [ "$slice" = all ] || shown="$part (slice $slice)"
	echo "release: $part: $command"
	start=$(date +%s)
	# shellcheck disable=SC2086
	$command >"$logs/$part.log" 2>&1 </dev/null
	status=$?
	read -r passed failed skipped <<<"$(counts_of "$logs/$part.log" "$status")"
	minutes=$((($(date +%s) - start + 30) / 60))
	echo "release: $part: $passed passed, $failed failed, $skipped skipped, $minutes minutes"
	[ "$failed" = 0 ] || bad="$bad $part"
	rows="$rows| $shown | $passed | $failed | $skipped | $minutes |
"
done

{
	echo "# What was checked"
	echo
	echo "Made by \`make release\`: do not edit. Commit $(git rev-parse HEAD), $(date -u '+%d %B %Y'), $(uname -m), $(nproc) processors, $(. /etc/os-release && echo "$PRETTY_NAME")."
	echo
	echo "| part | passed | failed | skipped | minutes |"
	echo "| --- | --- | --- | --- | --- |"
	printf '%s' "$rows"
	echo
	[ -z "$bad" ] && echo "Nothing failed." || echo "Failed:$bad."
} >"$record"
echo "release: $record"
[ -z "$bad" ] && exit
for part in $bad; do
	echo "release: FAILED: $part; the end of $logs/$part.log:"
	tail -n 20 "$logs/$part.log" | sed "s/^/      $part: /"
done
exit 1
