#!/bin/sh
# A unit of systemd/ as it is installed: a line @NAME@ becomes the file NAME beside this one, @FOLDER@ in a line the folder.
#
# usage: fill.sh UNIT sbindir=... datadir=... sysconfdir=...
set -eu
export LC_ALL=C
cd "$(dirname "$0")"
unit=$1
shift
awk -v folders="$*" '
	BEGIN { n = split(folders, folder, " ") }
	function put(line, i, at) {
		for (i = 1; i <= n; i++) {
			at = index(folder[i], "=")
			gsub("@" substr(folder[i], 1, at - 1) "@", substr(folder[i], at + 1), line)
		}
		print line
	}
	/^@[a-z]+@$/ { file = substr($0, 2, length($0) - 2); while ((got = (getline line < file)) > 0) put(line)
		if (got < 0) { print "no part " file > "/dev/stderr"; exit 1 } close(file); next }
	{ put($0) }
' "$unit"
