#!/bin/sh
# Measures on this machine what a table of docs/PERFORMANCE.md says, and writes it there: `make figures`.
#
#   tests/bench/figures.sh BUILD [BLOCK [FILE]]
#
# The table stands between the lines "<!-- figures BLOCK -->" and "<!-- end of figures -->"; BLOCK is cpu where none is named. FILE: what fusion-bench
# patterns printed elsewhere, on a GPU, say; nothing is measured then.
set -eu
build=${1?"usage: figures.sh BUILD [BLOCK [FILE]]"}
block=${2:-cpu}
page=$(dirname "$0")/../../docs/PERFORMANCE.md
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM HUP

grep -q "^<!-- figures $block -->\$" "$page" || {
	echo "figures.sh: $page has no block $block" >&2
	exit 2
}
if [ -n "${3:-}" ]; then
	cp "$3" "$folder/table"
else
	"$build/fusion-bench" patterns >"$folder/table"
fi
sed -i 's/  *|/ |/g' "$folder/table"
awk -v begin="<!-- figures $block -->" -v table="$folder/table" '
$0 == begin { print; print ""; while ((getline line <table) > 0) print line; print ""; skipping = 1; next }
$0 == "<!-- end of figures -->" { skipping = 0 }
!skipping' "$page" >"$folder/page"
cat "$folder/page" >"$page"
