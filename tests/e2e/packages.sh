#!/bin/sh
# The lists of debian/: every file that is installed is in exactly one package, and each list names what is there. That
# packages build is `make deb`.
. "$(dirname "$0")/../claims.sh"

make --no-print-directory install DESTDIR="$root/tree" prefix=/usr libdir=/usr/lib/any libexecdir=/usr/libexec sysconfdir=/etc \
	unitdir=/usr/lib/systemd/system >/dev/null
version=$(sed -n 's/^VERSION := //p' Makefile)
lists=$(echo debian/*.install)
python=${PYTHON:-/usr/bin/python3}
if [ -e "$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" ]; then
	make --no-print-directory install-python DESTDIR="$root/tree" prefix=/usr pythondir=/usr/lib/python3/dist-packages >/dev/null
	# What the package says of itself to Python's tools, and by what libraries find a namespace of the standard.
	claim "python_s_tools_know_the_package" 0 "^$version fusion$" env PYTHONPATH="$root/tree/usr/lib/python3/dist-packages" "$python" -c '
from importlib.metadata import distribution
d = distribution("fusion")
print(d.version, *[e.value for e in d.entry_points if e.group == "array_api"])'
else
	skip "no headers of Python here" python_s_tools_know_the_package
	lists=$(echo "$lists" | sed 's|debian/python3-fusion.install||')
fi

# place PATH: the packages whose lists have it, or a folder above it.
place() {
	for list in $lists; do
		while read -r pattern; do
			# shellcheck disable=SC2254
			case $1 in $pattern | $pattern/*) echo "$list" ;; esac
		done <"$list"
	done
}
(cd "$root/tree" && find . ! -type d | sed 's|^\./||') | sort >"$root/files"
while read -r file; do
	[ "$(place "$file" | wc -l)" = 1 ] || echo "$file: $(place "$file" | tr '\n' ' ')"
done <"$root/files" >"$root/misplaced"
claim "every_file_is_in_one_package" 0 "" test ! -s "$root/misplaced"
sed 's/^/    /' "$root/misplaced"

unmatched=
for list in $lists; do
	while read -r pattern; do
		# shellcheck disable=SC2086
		(cd "$root/tree" && ls -d $pattern >/dev/null 2>&1) || unmatched="$unmatched $list:$pattern"
	done <"$list"
done
claim "every_line_of_a_list_names_something" 0 "" test -z "$unmatched"
[ -z "$unmatched" ] || echo "   $unmatched"

claim "packages_have_the_version_of_the_source" 0 "" grep -q "^fusiond ($version" debian/changelog
claim "the_python_package_has_it_too" 0 "" grep -qx "version = \"$version\"" client/python/pyproject.toml
soversion=$(sed -n 's/^SOVERSION := //p' Makefile)
claim "the_library_s_package_has_its_number" 0 "" grep -qx "Package: libfusion$soversion" debian/control
claim "scripts_of_packages_read" 0 "" sh -c 'for s in debian/fusiond.postrm debian/fusiond.postinst debian/fusiond.prerm; do sh -n "$s" || exit; done'
finish_claims
