# Sourced: roots of Debian releases, in which scripts of theirs try things as on a fresh machine, in namespaces of their own.
#
#	root_refuses                why there can be no root here, in words; nothing where there can
#	root_make RELEASE FOLDER    a minimal root of it in a folder that is not there yet; what was made once is copied
#	root_inside FOLDER COMMAND  by a shell in it that sees its own processes and mounts, which end with it
#
# Minimal roots are kept in ROOTS (build/roots), packages that they fetched beside them. The mirror is that of the machine's own apt,
# or MIRROR; the settings of apt without which it does not answer go with it.
roots=${ROOTS:-build/roots}

# The first archive of Debian that apt has, of another's machine none.
root_mirror() {
	[ -z "${MIRROR:-}" ] || { echo "$MIRROR"; return; }
	[ "$(. /etc/os-release && echo "$ID")" = debian ] || return 0
	apt-get indextargets --format '$(REPO_URI)' 'Label: Debian' 2>/dev/null | sed 1q | grep . ||
		apt-get indextargets --format '$(REPO_URI)' 2>/dev/null | sed 1q
}

root_refuses() {
	if [ "$(id -u)" != 0 ]; then
		echo "only root can make a root"
	elif ! command -v mmdebstrap >/dev/null && ! command -v debootstrap >/dev/null; then
		echo "neither mmdebstrap nor debootstrap is here"
	elif [ -z "$(root_mirror)" ]; then
		echo "no mirror of Debian is known: set MIRROR"
	elif ! unshare -m -p -f true 2>/dev/null; then
		echo "namespaces are not allowed here"
	fi
}

# Settings without which a machine does not reach its mirror, or takes what that has for too old.
root_apt_settings() {
	apt-config dump 2>/dev/null | grep -E '^Acquire::(Check-Valid-Until|https?::Proxy) ' || true
}

# root_bootstrap RELEASE FOLDER
root_bootstrap() {
	if command -v mmdebstrap >/dev/null; then
		root_apt_settings >"$2.apt"
		mmdebstrap --variant=minbase --aptopt="$2.apt" "$1" "$2" "$(root_mirror)"
	else
		debootstrap --variant=minbase "$1" "$2" "$(root_mirror)"
	fi
}

root_make() {
	mkdir -p "$roots"
	if [ ! -e "$roots/$1" ]; then
		rm -rf --one-file-system "$roots/$1.new"
		root_bootstrap "$1" "$roots/$1.new" >"$roots/$1.log" 2>&1 || { tail -1 "$roots/$1.log"; return 1; }
		mv "$roots/$1.new" "$roots/$1"
	fi
	mkdir -p "$roots/archives-$1/partial"
	cp -a "$roots/$1" "$2"
	mkdir -p "$2/var/cache/apt/archives"
	echo "$(realpath "$roots/archives-$1")" >"$2/.archives"
	root_apt_settings >"$2/etc/apt/apt.conf.d/99machine"
	echo 'APT::Keep-Downloaded-Packages "true";' >>"$2/etc/apt/apt.conf.d/99machine"
	# Nothing is started by installing it: there is no service manager.
	printf '#!/bin/sh\nexit 101\n' >"$2/usr/sbin/policy-rc.d"
	chmod 755 "$2/usr/sbin/policy-rc.d"
	# A container's own name server.
	cp -L /etc/resolv.conf "$2/etc/resolv.conf"
	# And its name, which sudo asks for.
	echo "127.0.0.1 localhost $(uname -n)" >"$2/etc/hosts"
}

root_inside() {
	unshare -m -p -f --propagation private sh -c '
		set -e
		mount --rbind -o ro /sys "$0/sys"
		mount -t proc proc "$0/proc"
		mount -t tmpfs tmpfs "$0/tmp"
		mount -t tmpfs tmpfs "$0/run"
		mount -t tmpfs tmpfs "$0/dev"
		mount --bind "$(cat "$0/.archives")" "$0/var/cache/apt/archives"
		mkdir "$0/dev/shm" "$0/dev/pts"
		chmod 1777 "$0/dev/shm" "$0/tmp"
		mount -t tmpfs -o mode=1777 tmpfs "$0/dev/shm"
		mount -t devpts -o newinstance,ptmxmode=666 devpts "$0/dev/pts"
		ln -s pts/ptmx "$0/dev/ptmx"
		ln -s /proc/self/fd "$0/dev/fd"
		for node in null zero full random urandom tty; do
			touch "$0/dev/$node"
			mount --bind "/dev/$node" "$0/dev/$node"
		done
		exec chroot "$0" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive sh -ec "$1"' \
		"$(realpath "$1")" "$2"
}
