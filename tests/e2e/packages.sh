#!/bin/sh
# The lists of debian/: every file that is installed is in exactly one package, and each list names what is there. That
# packages build is `make deb`.
. "$(dirname "$0")/../claims.sh"

make --no-print-directory install DESTDIR="$root/tree" prefix=/usr libdir=/usr/lib/any libexecdir=/usr/libexec sysconfdir=/etc \
	unitdir=/lib/systemd/system >/dev/null

# place PATH: the packages whose lists have it, or a folder above it.
place() {
	for list in debian/*.install; do
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
for list in debian/*.install; do
	while read -r pattern; do
		# shellcheck disable=SC2086
		(cd "$root/tree" && ls -d $pattern >/dev/null 2>&1) || unmatched="$unmatched $list:$pattern"
	done <"$list"
done
claim "every_line_of_a_list_names_something" 0 "" test -z "$unmatched"
[ -z "$unmatched" ] || echo "   $unmatched"

version=$(sed -n 's/^VERSION := //p' Makefile)
claim "packages_have_the_version_of_the_source" 0 "" grep -q "^fusiond ($version" debian/changelog
soversion=$(sed -n 's/^SOVERSION := //p' Makefile)
claim "the_library_s_package_has_its_number" 0 "" grep -qx "Package: libfusion$soversion" debian/control
claim "scripts_of_packages_read" 0 "" sh -n debian/fusiond.postrm
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
