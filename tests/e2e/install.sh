#!/bin/sh
# make install into an empty root, the README's program against it, make uninstall leaves nothing.
. "$(dirname "$0")/../claims.sh"

# What was just tried held; set -e ends the script where something does not.
held() {
	passed=$((passed + 1))
	echo "ok: $1"
}

make --no-print-directory install DESTDIR="$root" prefix=/usr >/dev/null
for file in usr/sbin/fusiond usr/bin/fusionctl usr/libexec/fusiond/fusiond-engine usr/include/fusion.h \
	usr/lib/pkgconfig/fusion.pc usr/share/man/man8/fusiond.8 usr/share/man/man1/fusionctl.1 \
	usr/share/man/man3/libfusion.3 usr/share/man/man3/fusion_reading.3 usr/share/man/man7/fusion-ops.7 \
	usr/share/man/man7/fusion-protocol.7 usr/share/bash-completion/completions/fusionctl; do
	[ -e "$root/$file" ] || {
		echo "missing after install: $file"
		exit 1
	}
done
held "install_puts_everything_in_its_place"

soname=$(objdump -p "$root/usr/lib/libfusion.so" | awk '$1 == "SONAME" { print $2 }')
[ "$soname" = libfusion.so.1 ]
held "the_library_has_a_soname"
others=$(nm -D --defined-only "$root/usr/lib/libfusion.so" | awk '$2 != "A" && $3 !~ /^fusion_/ { print $3 }')
[ -z "$others" ] || {
	echo "exported besides fusion_*: $others"
	exit 1
}
held "only_fusion_symbols_are_exported"

! ldd "$root/usr/sbin/fusiond" | grep -E 'libOpenCL|libnng'
held "the_supervisor_contains_neither_opencl_nor_nng"

# The program between ```c and ``` in README.md that has a main.
awk '/^```c$/ { text = ""; inside = 1; next } /^```$/ { if (inside && text ~ /int main/) { printf "%s", text; exit } inside = 0 }
	inside { text = text $0 "\n" }' README.md >"$root/x.c"
# shellcheck disable=SC2046
cc "$root/x.c" -o "$root/x" $(PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_PATH=$root/usr/lib/pkgconfig pkg-config --cflags --libs fusion)
held "the_program_of_the_readme_compiles"

mkdir "$root/run" "$root/cache"
"$root/usr/sbin/fusiond" --engine "$root/usr/libexec/fusiond/fusiond-engine" --socket "$root/run/door" \
	--cache-dir "$root/cache" >"$root/log" 2>&1 &
daemon=$!
until_does test -S "$root/run/door"
FUSION_SOCKET=$root/run/door LD_LIBRARY_PATH=$root/usr/lib "$root/x"
held "the_program_of_the_readme_runs"
python=${PYTHON:-/usr/bin/python3}
if make --no-print-directory install-python DESTDIR="$root" prefix=/usr >"$root/python" 2>&1; then
	place=$(dirname "$(find "$root/usr/lib" -path '*/fusion/__init__.py')")
	FUSION_SOCKET=$root/run/door PYTHONPATH=${place%/fusion} "$python" -c 'import fusion; assert (fusion.arange(3) + 1).tolist() == [1, 2, 3]'
	held "the_python_package_finds_the_library_that_was_installed"
else
	grep -q 'install python3-dev' "$root/python"
	skip "no headers of Python here" the_python_package_finds_the_library_that_was_installed
fi
kill "$daemon"
wait "$daemon" || true
daemon=

make --no-print-directory uninstall DESTDIR="$root" prefix=/usr >/dev/null
left=$(find "$root/usr" -type f -o -type l)
[ -z "$left" ] || {
	echo "left after uninstall: $left"
	exit 1
}
held "uninstall_leaves_nothing"
finish_claims
