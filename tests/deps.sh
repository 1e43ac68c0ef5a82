#!/bin/sh
# Installs what building and testing need on Debian, where it is missing: says what, then asks apt.
# Needs root or sudo only when something is missing. Further packages may be named: deps.sh PACKAGE...
set -eu

packages="gcc make pkg-config libc6-dev
libnng-dev libmbedtls-dev libmsgpack-dev libinih-dev libcjson-dev libxxhash-dev uthash-dev libsystemd-dev libncurses-dev
ocl-icd-opencl-dev opencl-headers pocl-opencl-icd binutils
check openssl python3-numpy python3-mpmath python3-dev python3-pytest python3-setuptools python3-wheel mandoc $*"

missing=
for package in $packages; do
	dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
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
echo "deps: installing these Debian packages:$missing"
$sudo apt-get update -qq
DEBIAN_FRONTEND=noninteractive
export DEBIAN_FRONTEND
# shellcheck disable=SC2086
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing >/dev/null
echo "deps: done"
