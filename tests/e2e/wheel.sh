#!/bin/sh
# The wheel of the Python package: it carries libfusion under the name by which the module wants it, so it works where
# nothing else of fusiond is installed for Python, beside a daemon that runs.
. "$(dirname "$0")/../claims.sh"

python=${PYTHON:-/usr/bin/python3}
if ! "$python" -c 'import setuptools, wheel' 2>/dev/null; then
	skip_all "no setuptools here"
	finish_claims
	exit
fi

# A copy, because setuptools builds beside its sources; the library of the build tree is used as it is.
mkdir "$root/tree" "$root/cache"
tar -c --exclude='./build*' --exclude=./.git --exclude=./client/python/build . | tar -x -C "$root/tree"
ln -s "$(cd "$build" && pwd)" "$root/tree/build"
(cd "$root/tree/client/python" && "$python" setup.py -q bdist_wheel -d "$root") >"$root/made" 2>&1 || cat "$root/made"
claim "a_wheel_is_made" 0 "cp311-abi3-linux\|cp39-cp39\|cp310-cp310" ls "$root"
"$python" -m zipfile -e "$root"/*.whl "$root/site"

# Away from the tree, and from its library.
start_on "$root/cache"
claim "what_it_unpacks_to_computes" 0 "^$root/site/fusion/__init__.py \[0.0, 2.0, 4.0\]" sh -c "cd / && PYTHONPATH='$root/site' '$python' -c '
import fusion
print(fusion.__file__, (fusion.arange(3) * 2.0).tolist())'"
claim "by_its_own_library" 0 "$root/site/fusion/libfusion" sh -c "PYTHONPATH='$root/site' '$python' -c '
import fusion
print(*[line for line in open(\"/proc/self/maps\") if \"libfusion\" in line])'"
claim "and_is_typed" 0 "" test -s "$root/site/fusion/_core.pyi" -a -e "$root/site/fusion/py.typed"
stop
finish_claims
