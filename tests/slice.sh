#!/bin/sh
# The slice of the slow cases that a run takes, as "K/N", or "all": SLICE where that is given, else one of thirty by the count of
# commits, so that thirty in a row take all. Where there is no history to count (an archive, a clone of depth 1) the days are counted instead.
#
#	sh tests/slice.sh               prints it
#	sh tests/slice.sh sanitizers    prints the sanitizers of that run: of a slice one of the two; tests/check.sh runs one in three of its programs
set -u
cd "$(dirname "$0")/.." || exit 1
SLICES=30
choose() {
	if [ "$(git rev-parse --is-shallow-repository 2>/dev/null)" = false ]; then
		count=$(git rev-list --count HEAD)
	else
		count=$(($(date +%s) / 86400))
	fi
	echo "$((count % SLICES))/$SLICES"
}
slice=${SLICE:-$(choose)}
case ${1:-},$slice in
,*) echo "$slice" ;;
sanitizers,all) echo address thread ;;
sanitizers,*) if [ $((${slice%/*} / 2 % 2)) = 0 ]; then echo address; else echo thread; fi ;;
*) echo "usage: [SLICE=K/N|all] slice.sh [sanitizers]" >&2; exit 64 ;;
esac
