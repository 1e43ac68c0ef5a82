#!/bin/sh
# Libraries, wheels and daemons of the last two releases beside those of this tree: what libfusion(3) promises under Compatibility. The releases are
# built from their tags, and asked by the programs that they left in tests/compat.
. "$(dirname "$0")/../claims.sh"
. tests/releases.sh
export LC_ALL=C

python=${PYTHON:-/usr/bin/python3}
well="^[0-9]* passed, 0 failed"
here=$(realpath "$build")
claim rows_that_change_are_found 0 "$well" "$python" tests/compat/rows.py --try .

# compile TREE BUILD INTO: the release's program, with the headers and the library of a tree.
compile() {
	${CC:-cc} -I"$1/client" -I"$2/include" "$tree/tests/compat/client.c" -o "$3" -L"$2" -lfusion -lm
}

# with LIBRARY PROGRAM: by the library of a build.
with() {
	env LD_LIBRARY_PATH="$1" "$2"
}

# The wheel of the release, unpacked.
wheel() {
	(cd "$tree/client/python" && "$python" setup.py -q bdist_wheel -d "$root/wheel") && "$python" -m zipfile -e "$root"/wheel/*.whl "$root/site"
}

# On this daemon, what the release left.
this_daemon() {
	start_on "$root/cache"
	claim "a program of $release, by its library" 0 "$well" with "$tree/build" "$root/old"
	claim "the same by nng" 0 "$well" env FUSION_TRANSPORT=nng LD_LIBRARY_PATH="$tree/build" "$root/old"
	claim "the same program by this library" 0 "$well" with "$here" "$root/old"
	claim "the release's source, built with these headers" 0 "$well" with "$here" "$root/new"
	claim "fusionctl of $release" 0 '"version"' "$tree/build/fusionctl" status --json
	claim "its graphs" 0 "" "$tree/build/fusionctl" explain "$tree/tests/graphs/chain.fz"
	if wheel >"$root/made" 2>&1; then
		claim "its wheel" 0 "$well" env PYTHONPATH="$root/site" "$python" "$tree/tests/compat/client.py"
	else
		skip "there are no setuptools to build it" "its wheel"
	fi
	stop
}

# On the release's daemon, what is of this tree.
that_daemon() {
	build=$tree/build
	start_on "$root/cache-of-the-release"
	build=$here
	claim "this library on a daemon of $release" 0 "$well" with "$here" "$root/new"
	claim "the same by nng there" 0 "$well" env FUSION_TRANSPORT=nng LD_LIBRARY_PATH="$here" "$root/new"
	claim "this fusionctl there" 0 '"version"' "$here/fusionctl" status --json
	if [ -e "$here/python/fusion/_core.abi3.so" ]; then
		claim "this Python package there" 0 "$well" env PYTHONPATH="$here/python" "$python" "$tree/tests/compat/client.py"
	else
		skip "it was not built, for there are no headers of Python" "this Python package there"
	fi
	stop
}

# What this tree leaves to later ones.
tree=.
claim "this tree's program builds" 0 "" compile . "$here" "$root/own"
start_on "$root/cache"
claim "and passes here" 0 "$well" with "$here" "$root/own"
if [ -e "$here/python/fusion/_core.abi3.so" ]; then
	claim "its program in Python, too" 0 "$well" env PYTHONPATH="$here/python" "$python" tests/compat/client.py
else
	skip "it was not built, for there are no headers of Python" "its program in Python, too"
fi
stop

last=$(releases 2)
[ -n "$last" ] || skip "nothing is released yet: no tag like 0.1.0 is in the history" "libraries and wheels of the last releases" \
	"daemons of the last releases" "tables of the last releases"
for release in $last; do
	claim "$release builds" 0 "" release_tree "$release"
	release_tree "$release" >/dev/null
	rm -rf "$root/wheel" "$root/site" "$root/cache-of-the-release"
	claim "its program" 0 "" compile "$tree" "$tree/build" "$root/old"
	claim "its program with these headers" 0 "" compile . "$here" "$root/new"
	this_daemon
	that_daemon
	claim "numbers and names are those of $release" 0 "$well" "$python" tests/compat/rows.py "$tree" .
done
finish_claims
