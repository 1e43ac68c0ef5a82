#!/bin/sh
# Installs what building and testing need on Debian, where it is missing: says what, then asks apt.
# Needs root or sudo only when something is missing. Further packages may be named: deps.sh PACKAGE...
# A|B: the package that this release has; they are one under two names.
set -eu

packages="gcc make pkg-config libc6-dev
libnng-dev libmbedtls-dev libmsgpack-c-dev|libmsgpack-dev libinih-dev libcjson-dev libxxhash-dev uthash-dev libsystemd-dev libseccomp-dev
libncurses-dev ocl-icd-opencl-dev opencl-headers pocl-opencl-icd binutils
check openssl python3-numpy python3-mpmath python3-dev python3-pytest python3-hypothesis python3-setuptools python3-wheel mandoc $*"

is_installed() {
	dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'ok installed'
}
# names A|B: one a line
names() {
	echo "$1" | tr '|' '\n'
}

missing=
for package in $packages; do
	for name in $(names "$package"); do
		is_installed "$name" && continue 2
	done
	missing="$missing $package"
done
if [ -z "$missing" ]; then
	echo "deps: everything is installed"
	exit 0
fi

sudo=
if [ "$(id -u)" != 0 ]; then
	command -v sudo >/dev/null || {
		echo "deps: these packages are missing and only root can install them:$missing" >&2
		exit 1
	}
	sudo=sudo
fi
$sudo apt-get update -qq
chosen=
for package in $missing; do
	for name in $(names "$package"); do
		[ -n "$(apt-cache madison "$name")" ] && break
	done
	chosen="$chosen $name"
done
echo "deps: installing these Debian packages:$chosen"
# shellcheck disable=SC2086
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $chosen >/dev/null
echo "deps: done"
