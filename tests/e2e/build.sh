#!/bin/sh
# How the tree is built: what a compiler warns of stops our checks, whatever was built before them, and nobody else; a machine on
# which it would be wrong is refused.
. "$(dirname "$0")/../claims.sh"
unset MAKEFLAGS MFLAGS MAKELEVEL WERROR CFLAGS SANITIZE

: "${CC:=gcc}"
# This tree, with a file more and a folder of objects of its own.
tree=$root/tree
mkdir "$tree"
for entry in *; do
	case $entry in build*) ;; *) ln -s "$PWD/$entry" "$tree/" ;; esac
done
planted=$tree/made/obj/planted.o
printf '#include <stddef.h>\n\nint planted(void);\nint planted(void) {\n\tint unused;\n\n\treturn 0;\n}\n' >"$tree/planted.c"
compile() {
	make -s -C "$tree" B=made CC="$CC" "$@" made/obj/planted.o
}
claim a_warning_stops_no_user 0 "unused" compile WERROR=
claim it_stops_a_check_although_the_object_is_there 2 "unused" compile WERROR=1
claim and_each_check_until_it_is_mended 2 "unused" compile WERROR=1
claim but_no_user 0 "" compile WERROR=
sed -i 's/int unused;/;/' "$tree/planted.c"
claim what_is_mended_is_built 0 "" compile WERROR=1
stamp=$(stat -c %y "$planted")
not_built_again() {
	compile WERROR=1 && [ "$stamp" = "$(stat -c %y "$planted")" ]
}
claim what_warns_of_nothing_is_not_built_again 0 "" not_built_again

# goal GOAL: the first command by which that goal compiles.
goal() {
	make -n V=1 B="$root/none" CC="$CC" "$1" | grep -m 1 -e "-c .* -o"
}
claim tests_are_built_with_warnings_as_errors 0 "-Werror" goal tests

# A compiler without quadmath.h, as clang is, has the references of tests/ulp built by gcc.
cat >"$root/bare" <<'COMPILER'
#!/bin/sh
case " $* " in *quadmath.h*) exit 1 ;; esac
exec gcc "$@"
COMPILER
chmod 755 "$root/bare"
compiler_of() {
	make -n V=1 B="$root/none" CC="$root/bare" "$root/none/tests/ulp" | grep -m 1 -e "-c tests/$1 -o" | cut -d ' ' -f 1
}
if gcc -include quadmath.h -E -xc /dev/null >/dev/null 2>&1; then
	claim references_of_113_bits_are_built_by_a_compiler_that_has_them 0 "^gcc$" compiler_of ulp/reference.c
else
	skip references_of_113_bits_are_built_by_a_compiler_that_has_them "no gcc here has quadmath.h"
fi

# The preprocessor is told of another machine.
big_endian() {
	$CC -E -I. -I"$build/include" -D_GNU_SOURCE -U__BYTE_ORDER__ -D__BYTE_ORDER__=__ORDER_BIG_ENDIAN__ "$1" -o "$root/out.i"
}
for source in daemon/main.c daemon/engine.c client/context.c client/fusionctl/main.c; do
	claim "big_endian_is_refused_in_$(echo "$source" | tr /. __)" 1 "fusiond keeps numbers in little-endian order" big_endian "$source"
done
finish_claims
