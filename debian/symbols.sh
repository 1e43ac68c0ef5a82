#!/bin/sh
# The list of what a library exports, debian/PACKAGE.symbols: since which version each function is there.
#
#	sh debian/symbols.sh check LIBRARY FILE             says what the list lacks and what the library lacks; fails where either does
#	sh debian/symbols.sh add LIBRARY FILE VERSION       adds what is new, with this version; refuses where something is gone
#
# A program that was linked to a function wants it for ever, so nothing goes but with another soname. dpkg-gensymbols, which makes
# packages depend on the version that has all they use, takes something of the current version that is gone for a change of no harm.
set -eu
export LC_ALL=C
what=$1 library=$2 file=$3 version=${4:-}
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT

nm -D --defined-only --with-symbol-versions "$library" | awk '{ sub(/@@/, "@", $3); print $3 (index($3, "@") ? "" : "@" $3) }' | sort >"$temporary/has"
sed -n 's/^ \([^ ]*\) .*/\1/p' "$file" | sort >"$temporary/listed"
[ -s "$temporary/has" ] || { echo "symbols: $library exports nothing" >&2; exit 1; }
comm -23 "$temporary/has" "$temporary/listed" >"$temporary/new"
comm -13 "$temporary/has" "$temporary/listed" | sed 's/$/ is gone from the library: programs that use it do not start any more/' >"$temporary/gone"
cat "$temporary/gone"
[ ! -s "$temporary/gone" ] || exit 1
if [ "$what" = check ]; then
	sed "s|\$| is not in $file: run make symbols|" "$temporary/new"
	[ ! -s "$temporary/new" ]
	exit
fi
{
	sed -n '/^ /!p' "$file"
	{
		sed -n '/^ /p' "$file"
		sed "s/.*/ & $version/" "$temporary/new"
	} | sort
} >"$temporary/file"
cat "$temporary/file" >"$file"
