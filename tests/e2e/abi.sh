#!/bin/sh
# What programs are linked to: the functions of libfusion, in its map, its headers and the list of its package, and their form since the last release.
. "$(dirname "$0")/../claims.sh"
. tests/releases.sh
export LC_ALL=C

soversion=$(sed -n 's/^SOVERSION := //p' Makefile)
library=$build/libfusion.so.$soversion
list=debian/libfusion$soversion.symbols
symbols="sh debian/symbols.sh"

# ---- the list, the map, the headers ----

claim the_list_of_symbols_is_what_the_library_exports 0 "" $symbols check "$library" "$list"
claim the_list_is_of_this_library 0 "" grep -qx "libfusion.so.$soversion libfusion$soversion #MINVER#" "$list"
if command -v dpkg-gensymbols >/dev/null; then
	version=$(sed -n 's/^VERSION := //p' Makefile)
	claim dpkg_reads_it_likewise 0 "" dpkg-gensymbols -c4 -q -plibfusion"$soversion" -v"$version" -I"$list" -e"$library" -O"$root/symbols"
else
	skip "dpkg-gensymbols is not here" dpkg_reads_it_likewise
fi
grep -v ' fusion_open@' "$list" >"$root/short"
claim a_new_function_is_noticed 1 "fusion_open@FUSION_0 is not in .*: run make symbols" $symbols check "$library" "$root/short"
claim and_added_with_the_version 0 "" $symbols add "$library" "$root/short" 9.9
claim where_it_belongs 0 "" sh -c 'sed "s/^ \(fusion_open@FUSION_0\) .*/ \1 9.9/" "$1" | cmp - "$2"' sh "$list" "$root/short"
{
	cat "$list"
	echo " fusion_went@FUSION_0 0.1.0"
} >"$root/long"
claim one_that_is_gone_is_noticed 1 "fusion_went@FUSION_0 is gone" $symbols check "$library" "$root/long"
claim and_not_taken_off_the_list 1 "fusion_went@FUSION_0 is gone" $symbols add "$library" "$root/long" 9.9

# What the map says is global is exported under the name of its node, and is what the headers declare: no more, no less. Named calls
# (protocol/fused.def) are functions of the header alone.
nm -D --defined-only --with-symbol-versions "$library" | sed -n 's/.* T //p' | sort >"$root/exported"
node=$(sed -n 's/^\(FUSION_[0-9]*\) {$/\1/p' client/libfusion.map)
claim the_map_has_one_node_and_ends_with_local 0 "" sh -c 'test "$(echo "$1" | wc -w)" = 1 && grep -A1 local: client/libfusion.map | grep -q "\*;"' sh "$node"
claim all_is_exported_by_that_node 0 "" sh -c '! grep -v "@@$1\$" "$2"' sh "$node" "$root/exported"
printf '#define FUSION_NO_PLACES\n#include <fusion.h>\n' >"$root/all.c"
${CC:-cc} -E -P -Iclient -I"$build/include" "$root/all.c" | grep -v '^typedef' | LC_ALL=C grep -o '\bfusion_[a-z0-9_]*(' | tr -d '(' | grep -v '^fusion_fused_' | sort -u >"$root/declared"
sed 's/@.*//' "$root/exported" | sort >"$root/names"
claim headers_declare_what_is_exported 0 "" diff "$root/names" "$root/declared"

# ---- the form of functions and structures ----

# An addition breaks nobody; anything else does, until tests/abi.supp says why not.
compare() {
	abidiff --no-added-syms --suppressions tests/abi.supp "$@"
}

# public TREE BUILD FOLDER: headers as they are installed; what others declare is no form of anything that programs know.
public() {
	mkdir "$3"
	cp "$1/client/fusion.h" "$2/include/fusion_types.h" "$2/include/fusion_ops.h" "$3"
}

# make_library FOLDER STRUCT...: a small library, to see whether the comparison sees.
make_library() {
	folder=$root/$1
	mkdir -p "$folder"
	printf 'struct options { %s };\nint fusion_one(struct options *o) { return o->a; }\n%s\n' "$2" "$3" >"$folder/x.c"
	${CC:-cc} -g -shared -fPIC "$folder/x.c" -Wl,-soname,libx.so.1 -o "$folder/libx.so"
}

if command -v abidiff >/dev/null; then
	make_library old "int a; int b;" "int fusion_two(void) { return 2; }"
	make_library same "int a; int b;" "int fusion_two(void) { return 2; } int fusion_three(void) { return 3; }"
	make_library less "int a; int b;" ""
	make_library other "long a; int b;" "int fusion_two(void) { return 2; }"
	claim the_comparison_lets_additions_through 0 "" compare "$root/old/libx.so" "$root/same/libx.so"
	# 4: there is a change; 8: of one that breaks for certain.
	claim and_sees_a_function_that_went 12 "fusion_two" compare "$root/old/libx.so" "$root/less/libx.so"
	claim and_a_member_that_changed 4 "options" compare "$root/old/libx.so" "$root/other/libx.so"
	last=$(releases 1)
	if [ -n "$last" ]; then
		claim "the_last_release_builds" 0 "" release_tree "$last"
		release_tree "$last" >/dev/null
		public "$tree" "$tree/build" "$root/before"
		public . "$build" "$root/now"
		claim "programs_linked_to_the_last_release_find_what_they_know" 0 "" compare --drop-private-types --headers-dir1 "$root/before" \
			--headers-dir2 "$root/now" "$tree/build/libfusion.so.$soversion" "$library"
	else
		skip "nothing is released yet: no tag like 0.1.0 is in the history" programs_linked_to_the_last_release_find_what_they_know
	fi
else
	skip "abidiff is not here (Debian's abigail-tools)" the_comparison_lets_additions_through and_sees_a_function_that_went \
		and_a_member_that_changed programs_linked_to_the_last_release_find_what_they_know
fi
finish_claims
