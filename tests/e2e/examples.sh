#!/bin/sh
# What is installed for programmers: examples, built against the installed header and library as their pages say, learn nothing wrong and hold no array at
# their end; so do the examples of libfusion(3).
# Nothing is built for one graph alone.
FUSIOND_FUSION_INTERPRETER=always
. "$(dirname "$0")/../claims.sh"

make --no-print-directory install DESTDIR="$root" prefix=/usr >/dev/null
examples=$root/usr/share/doc/libfusion-dev/examples
PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_PATH=$root/usr/lib/pkgconfig
export PKG_CONFIG_SYSROOT_DIR PKG_CONFIG_PATH
flags=$(pkg-config --cflags --libs fusion)
rpath=-Wl,-rpath,$root/usr/lib
start_on "$root/cache"

# shellcheck disable=SC2086
claim what_counts_is_built 0 "" cc -Wall -Wextra -Werror -shared -fPIC tests/e2e/arrays_left.c -o "$root/arrays_left.so" $flags
# holds_none COMMAND...: it succeeds, and each context that it closed held no array.
holds_none() {
	rm -f "$root/left"
	ARRAYS_LEFT=$root/left LD_PRELOAD=$root/arrays_left.so "$@" || return
	echo "arrays left: $(tr '\n' ' ' <"$root/left")"
	[ -s "$root/left" ] && ! grep -qvx 0 "$root/left"
}

# With folders of their own where they have some; whatever else they want of the system is in these two libraries.
for example in share digits transformer demo; do
	# shellcheck disable=SC2046,SC2086
	claim "${example}_builds_against_what_is_installed" 0 "" sh -c "cd '$examples' && cc -std=gnu11 -Wall -Wextra -Werror -D_GNU_SOURCE -I. $example.c \
		\$(ls $example/*.c 2>/dev/null) -o '$root/$example' $flags $rpath -lcjson -lm"
done
claim sharing_holds_nothing 0 "the mean of 0 to" holds_none "$root/share"
claim a_transformer_holds_nothing 0 "arrays left: 0" holds_none "$root/transformer" --steps 2
claim a_network_holds_nothing 0 "arrays left: 0" holds_none "$root/digits" --epochs 1 --data "$examples/digits/digits.bin"

# page_example SECTION: what stands between .Bd -literal and .Ed there.
page_example() {
	awk -v section="$1" '/^\.S[sh] / { inside = $0 == section } inside && /^\.Bd -literal/ { code = 1; next } /^\.Ed/ { code = 0 } code' man/libfusion.3 |
		sed 's/\\e/\\/g'
}
cat >"$root/page.c" <<'PAGE'
#include <fusion.h>
#include <stdio.h>

int main(void) {
	float data[640] = { 1 }, sums[64], rate = 0.1f;
	fusion_context *c;
	fusion_array *w, *g, *loss;

	if (fusion_open(&c, NULL))
		return 1;
	w = fusion_full(c, FUSION_F32, 2, (int64_t[]){ 10, 1 }, 1);
	{
		fusion_array *x = fusion_from(c, FUSION_F32, 2, (int64_t[]){ 64, 10 }, data), *y = fusion_full(c, FUSION_F32, 2, (int64_t[]){ 64, 1 }, 1);
PAGE
page_example ".Ss Gradients" >>"$root/page.c"
printf '\t\tfusion_release(x);\n\t\tfusion_release(y);\n\t\tfusion_release(w);\n\t}\n' >>"$root/page.c"
page_example ".Sh EXAMPLES" >>"$root/page.c"
printf '\tfusion_close(c);\n\treturn !(sums[1] == 10);\n}\n' >>"$root/page.c"
# shellcheck disable=SC2086
claim the_examples_of_the_page_build 0 "" cc -std=gnu11 -Wall -Wextra -Werror "$root/page.c" -o "$root/page" $flags $rpath
claim the_examples_of_the_page_hold_nothing 0 "arrays left: 0" holds_none "$root/page"
sed 's/^fusion_release(y);$//' "$root/page.c" >"$root/leak.c"
# shellcheck disable=SC2086
cc -std=gnu11 "$root/leak.c" -o "$root/leak" $flags $rpath
claim a_reference_that_is_not_released_is_found 1 "arrays left: 1" holds_none "$root/leak"

# On pages made of the header, where words stand first.
claim a_prototype_stands_before_its_words 0 ".Pp .Bd -literal fusion_array .fusion_from([^;]*); .Ed .Pp Copies row-major" \
	awk '{ printf "%s ", $0 }' "$root/usr/share/man/man3/fusion_arrays.3"

# ---- C++ ----

for compiler in g++ clang++; do
	command -v "$compiler" >/dev/null || {
		skip "no $compiler here" "${compiler}_takes_the_header"
		continue
	}
	for standard in 17 20; do
		# shellcheck disable=SC2086
		claim "${compiler}_takes_the_header_as_c++$standard" 0 "" "$compiler" -std=c++$standard -Wall -Wextra -Werror tests/e2e/cplusplus.cpp -o "$root/cplusplus" $flags $rpath
		claim "what_${compiler}_makes_of_it_as_c++$standard" 0 "arrays left: 0" holds_none "$root/cplusplus"
		# shellcheck disable=SC2086
		claim "${compiler}_takes_the_example_as_c++$standard" 0 "" "$compiler" -std=c++$standard -Wall -Wextra -Werror "$examples/heat.cpp" -o "$root/heat" $flags $rpath
	done
	# shellcheck disable=SC2046
	"$compiler" -std=c++17 -DOTHER -Wall -Wextra -Werror -c tests/e2e/places.cpp -o "$root/places.o" $(pkg-config --cflags fusion)
	# shellcheck disable=SC2086
	claim "${compiler}_links_units_of_c++17_and_c++20" 0 "" "$compiler" -std=c++20 -Wall -Wextra -Werror tests/e2e/places.cpp "$root/places.o" -o "$root/places" $flags $rpath
	claim "what_${compiler}_makes_of_both" 0 "arrays left: 0" holds_none "$root/places"
	# shellcheck disable=SC2086
	claim "${compiler}_takes_it_without_exceptions" 0 "" "$compiler" -std=c++17 -fno-exceptions -Wall -Wextra -Werror tests/e2e/cplusplus.cpp -o "$root/codes" $flags $rpath
	claim "what_${compiler}_makes_of_it_without_exceptions" 0 "arrays left: 0" holds_none "$root/codes"
	# shellcheck disable=SC2046
	"$compiler" -std=c++17 -fno-exceptions -DOTHER -Wall -Wextra -Werror -c tests/e2e/errors.cpp -o "$root/errors.o" $(pkg-config --cflags fusion)
	# shellcheck disable=SC2086
	claim "${compiler}_links_units_with_and_without_exceptions" 0 "" "$compiler" -std=c++17 -Wall -Wextra -Werror "$root/errors.o" tests/e2e/errors.cpp -o "$root/errors" $flags $rpath
	claim "by_${compiler}_each_has_its_own_errors" 0 "" "$root/errors"
	claim "heat_spreads_by_$compiler" 0 "column  0: 100.0" holds_none "$root/heat"
done
finish_claims
