#!/bin/bash
# `make check` in each place where people are: it must pass there as it does at home, and skip nothing that runs at home.
#
# usage: [PLACES="PLACE..."] [JOBS="JOB..."] [RECORD=FILE] anywhere.sh
#
# Each place is a fresh clone of the last commit, built and checked there: hours in all. PLACES and JOBS take some of the places, and of the
# jobs of check. The ordinary run, which the others are compared with, comes first; or RECORD is what it left (CHECK_RECORD of check.sh).
# What the driver compiled goes on from place to place. Root plays the plain user; who is not root is one. A plain user alone may skip what
# "only root can" do. Logs and records stay in build/anywhere.
set -u
cd "$(dirname "$0")/.."
source=$PWD
all="tmp home blanks user umask turkish nohome busy"
places=${PLACES:-$all}
for place in $places; do
	case " $all " in *" $place "*) ;; *)
		echo "there is no place $place; places are: $all" >&2
		exit 2
		;;
	esac
done
# Of nobody, so far.
plain_uid=42170
# On two processors: each gets a ninth of one.
busy=16
base=$(mktemp -d /var/tmp/fusiond-anywhere.XXXXXX)
chmod 755 "$base"
logs=$source/build/anywhere
mkdir -p "$logs" "$base/kernels"
[ ! -d build/kernels ] || cp -a build/kernels/. "$base/kernels"
hogs=
folder=
passed=0
failed=0
rest() {
	# shellcheck disable=SC2086
	[ -z "$hogs" ] || kill $hogs 2>/dev/null
	hogs=
}
finish() {
	rest
	rm -rf --one-file-system "$base"
	[ -z "$folder" ] || rm -rf --one-file-system "$folder"
}
trap finish EXIT
trap 'exit 130' INT TERM

# The user of that number, in lists that only the place's processes see.
sed "\$a someone:x:$plain_uid:$plain_uid:Someone:$base/home:/bin/sh" /etc/passwd >"$base/passwd"
sed "\$a someone:x:$plain_uid:" /etc/group >"$base/group"

# Does root play the plain user there?
is_played() {
	[ "$(id -u)" = 0 ] && { [ "$1" = home ] || [ "$1" = user ]; }
}
# as PLACE COMMAND...: in the place's environment, in $folder.
as() {
	local place=$1 mask=022 variables name
	shift
	[ "$place" != umask ] || mask=077
	variables=(PATH="$PATH" LANG=C.UTF-8 CHECK_RECORD="$folder/build/record")
	for name in CC CCACHE_DIR CCACHE_CONFIGPATH SLICE PYTHON CHECK_JOBS; do
		[ -z "${!name:-}" ] || variables+=("$name=${!name}")
	done
	[ "$place" = nohome ] || variables+=(HOME="$base/$place")
	# A compiler cache of root's is read, and not written.
	! is_played "$place" || variables+=(CCACHE_READONLY=1 CCACHE_TEMPDIR="$base/$place/ccache")
	[ "$place" != turkish ] || variables+=(LOCPATH="$base/locale" LC_ALL=tr_TR.UTF-8)
	# shellcheck disable=SC2016
	set -- env -i "${variables[@]}" bash -c 'umask "$0"; cd "$1" && shift && exec "$@"' "$mask" "$folder" "$@"
	if is_played "$place"; then
		# shellcheck disable=SC2016
		set -- unshare --mount --propagation private sh -c 'mount --bind "$0/passwd" /etc/passwd &&
			mount --bind "$0/group" /etc/group && exec "$@"' "$base" \
			setpriv --reuid $plain_uid --regid $plain_uid --clear-groups "$@"
	fi
	"$@"
}

# What a place needs beside its clone; false where it cannot be had.
prepare() {
	case $1 in
	tmp) folder=$(mktemp -d /tmp/fusiond-anywhere.XXXXXX) ;;
	blanks) folder="$base/$1/Größe und Maß, ığüşöç" ;;
	*) folder="$base/$1/fusiond" ;;
	esac
	mkdir -p "$base/$1"
	case $1 in
	turkish)
		mkdir -p "$base/locale"
		localedef -i tr_TR -f UTF-8 "$base/locale/tr_TR.UTF-8" >/dev/null 2>&1 || {
			echo "FAIL  $1: there is no Turkish here; apt-get install locales"
			return 1
		}
		;;
	busy)
		for _ in $(seq $busy); do
			(while :; do :; done) >/dev/null 2>&1 &
			hogs="$hogs $!"
		done
		;;
	esac
	git clone -q "$source" "$folder" && mkdir -p "$folder/build" && cp -a "$base/kernels" "$folder/build/kernels"
}

# check PLACE: its log and record are $logs/PLACE.log and .record.
check() {
	local place=$1 status
	rm -f "$logs/$place.log" "$logs/$place.record"
	prepare "$place" || return 1
	is_played "$place" && chown -R $plain_uid:$plain_uid "$base/$place"
	[ "$place" != home ] || chmod 700 "$base/$place"
	if [ -n "${JOBS:-}" ]; then
		# shellcheck disable=SC2016
		as "$place" sh -c 'make -s -j"$(nproc)" all tests && exec bash tests/check.sh build $0' "$JOBS"
	else
		as "$place" make check
	fi >"$logs/$place.log" 2>&1 </dev/null
	status=$?
	rest
	sed "s/^/      $place: /" "$logs/$place.log" | grep -E ': (FAIL| {6})|error:' | grep -v ': skipped \|: note: '
	echo "$place: $(tail -n 1 "$logs/$place.log")"
	cp "$folder/build/record" "$logs/$place.record" 2>/dev/null || {
		echo "FAIL  $place: the run left no record; its log is $logs/$place.log"
		status=1
	}
	if [ -d "$folder/build/kernels" ]; then
		rm -rf "$base/kernels"
		cp -a "$folder/build/kernels" "$base/kernels"
		chown -R "$(id -u):$(id -g)" "$base/kernels"
	fi
	rm -rf --one-file-system "$folder"
	folder=
	return $status
}

# compare PLACE RECORD: what the place skipped or left out, and the ordinary run did not. False where there is anything.
compare() {
	local plain=
	[ "$1" != home ] && [ "$1" != user ] || plain=1
	[ ! -e "$logs/$1.record" ] || awk -v place="$1" -v plain="$plain" '
		function name(line) { sub(/: .*/, "", line); return line }
		FNR == NR && $1 == "skipped" { skipped[name($0)] = 1; next }
		FNR == NR { claims[$1] = $2 + $3 + $4; next }
		$1 == "skipped" && !(name($0) in skipped) && !(plain && /: only root can/) { print "FAIL  " place ": " $0 "; at home it runs"; bad = 1 }
		$1 != "skipped" { seen[$1] = 1; if ($1 in claims && $2 + $3 + $4 < claims[$1]) { print "FAIL  " place ": " $1 " makes " $2 + $3 + $4 " claims, at home " claims[$1]; bad = 1 } }
		END {
			for (job in claims) if (!(job in seen)) { print "FAIL  " place ": " job " did not run"; bad = 1 }
			exit bad
		}' "$2" "$logs/$1.record"
}

count() {
	if [ "$1" = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}

record=${RECORD:-$logs/ordinary.record}
if [ -z "${RECORD:-}" ]; then
	check ordinary
	count $?
	[ -e "$record" ] || : >"$record"
fi
for place in $places; do
	check "$place"
	ran=$?
	compare "$place" "$record" || ran=1
	count $ran
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
