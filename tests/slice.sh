#!/bin/sh
# The slice of the slow cases that a run takes, as "K/N", or "all": SLICE where that is given, else one of thirty by the count of
# commits, so that thirty in a row take all. Where there is no history to count (an archive, a clone of depth 1) the days are counted instead.
#
#	sh tests/slice.sh               prints it
#	sh tests/slice.sh turn          prints the number by which jobs come in turns (tests/check.sh): TURN where it or SLICE is given. It goes one further with each
#	                                thirty commits, so that jobs that every second or third slice has meet all slices, in sixty or ninety
#	sh tests/slice.sh sanitizers    prints the sanitizers of that run: of a slice one of the two; tests/check.sh runs one in three of its programs
set -u
cd "$(dirname "$0")/.." || exit 1
SLICES=30
if [ "$(git rev-parse --is-shallow-repository 2>/dev/null)" = false ]; then
	count=$(git rev-list --count HEAD)
else
	count=$(($(date +%s) / 86400))
fi
[ -z "${SLICE:-}" ] || count=${SLICE%/*}
slice=${SLICE:-$((count % SLICES))/$SLICES}
case ${1:-},$slice in
,*) echo "$slice" ;;
turn,all) ;;
turn,*) echo "${TURN:-$((count % SLICES + count / SLICES))}" ;;
sanitizers,all) echo address thread ;;
sanitizers,*) if [ $((${slice%/*} / 2 % 2)) = 0 ]; then echo address; else echo thread; fi ;;
*) echo "usage: [SLICE=K/N|all] [TURN=N] slice.sh [turn|sanitizers]" >&2; exit 64 ;;
esac
