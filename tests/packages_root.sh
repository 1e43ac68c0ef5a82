#!/bin/sh
# The packages in a fresh Debian: that they install with what they say they depend on, start as the unit says, answer a program and
# Python, and leave nothing but configuration when they are removed, and nothing at all when they are purged.
#
#	sh tests/packages_root.sh FOLDER        of *.deb, as `make deb` made them; `make check-packages` does both
#
# It wants root, debootstrap and a mirror. All happens in a root of its own and in namespaces of its own, where no service manager
# runs; what a real systemd makes of the units is tests/e2e/systemd.sh.
set -eu
debs=$(realpath "${1:-build/deb}")
skip() {
	echo "note: $1: packages were not installed"
	exit 0
}
ls "$debs"/fusiond_*.deb >/dev/null 2>&1 || skip "$debs has no packages, which make deb builds"
[ "$(id -u)" = 0 ] || skip "only root can make a root"
command -v debootstrap >/dev/null || skip "debootstrap is not here"
suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
mirror=${MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 2>/dev/null | sed 1q)}
[ "$(. /etc/os-release && echo "$ID")" = debian ] && [ -n "$mirror" ] || skip "this is no Debian with a mirror"
unshare -m -p -f true 2>/dev/null || skip "namespaces are not allowed here"

root=$(mktemp -d "${TMPDIR:-/var/tmp}/packages-root.XXXXXX")
finish() {
	rm -rf --one-file-system "$root"
}
trap finish EXIT
passed=0
failed=0

# claim NAME COMMAND...
claim() {
	name=$1
	shift
	if "$@" >"$root/out" 2>&1; then
		passed=$((passed + 1))
		return
	fi
	failed=$((failed + 1))
	echo "FAIL $name:"
	tail -20 "$root/out" | sed 's/^/    /'
}

# inside COMMAND: by a shell in the root, which sees its own processes and mounts; these end with it.
inside() {
	unshare -m -p -f --propagation private sh -c '
		set -e
		mount -t proc proc "$0/os/proc"
		mount --rbind -o ro /sys "$0/os/sys"
		mount -t tmpfs tmpfs "$0/os/tmp"
		mount -t tmpfs tmpfs "$0/os/run"
		mount -t tmpfs tmpfs "$0/os/dev"
		mkdir "$0/os/dev/shm"
		for node in null zero random urandom; do
			touch "$0/os/dev/$node"
			mount --bind "/dev/$node" "$0/os/dev/$node"
		done
		exec chroot "$0/os" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C DEBIAN_FRONTEND=noninteractive sh -ec "$1"' "$root" "$1"
}

# files NAME: every path there is, without what logs, indexes and dpkg itself write.
files() {
	(cd "$root/os" && find . -xdev -path ./packages -prune -o -path ./var/log -prune -o -path ./var/cache/apt -prune -o -path ./var/lib/apt -prune \
		-o -path ./var/cache/ldconfig -prune -o -path ./var/lib/dpkg -prune -o -print) | sort >"$root/$1"
}

debootstrap --variant=minbase "$suite" "$root/os" "$mirror" >"$root/debootstrap" 2>&1 ||
	skip "debootstrap did not get $suite from $mirror ($(tail -1 "$root/debootstrap"))"
# Nothing is started by installing it: there is no service manager.
printf '#!/bin/sh\nexit 101\n' >"$root/os/usr/sbin/policy-rc.d"
chmod 755 "$root/os/usr/sbin/policy-rc.d"
mkdir "$root/os/packages"
cp "$debs"/*.deb "$root/os/packages"
rm -f "$root"/os/packages/*-dbgsym_*
echo "$suite of $mirror: $(cat "$root"/os/packages/*.deb | wc -c) bytes of packages"
# A container's own name server.
cp /etc/resolv.conf "$root/os/etc/resolv.conf"

ours="libfusion1 libfusion-dev fusiond fusion-tools python3-fusion"
install="apt-get -qy install --no-install-recommends pocl-opencl-icd /packages/*.deb"
claim packages_install_with_their_dependencies inside "apt-get -q update && $install"
claim all_of_them_are_there inside "for p in $ours; do dpkg-query -W -f '\${Status}\n' \$p | grep -qx 'install ok installed'; done"
claim the_user_and_the_group_are_made inside "getent passwd fusiond && getent group fusion-admin && test \$(stat -c %U:%a /var/cache/fusiond) = fusiond:750"
claim the_unit_is_wanted_at_the_next_start inside "test -e /etc/systemd/system/multi-user.target.wants/fusiond.service"
inside "apt-get -qy purge $ours" >"$root/out" 2>&1 || cat "$root/out"
files before
claim they_install_again inside "$install"

# What the unit would do, without a manager: its folders, its user, its program.
cat >"$root/os/packages/serve" <<'EOF'
set -e
mkdir -m 755 /run/fusiond
chown fusiond:fusiond /run/fusiond
serve() {
	setpriv --reuid fusiond --regid fusiond --init-groups env RUNTIME_DIRECTORY=/run/fusiond CACHE_DIRECTORY=/var/cache/fusiond \
		"$(sed -n 's/^ExecStart=//p' /lib/systemd/system/fusiond.service)" >/tmp/log 2>&1 &
	daemon=$!
	tries=0
	until as_nobody fusionctl status >/dev/null 2>&1; do
		tries=$((tries + 1))
		[ $tries -lt 1200 ] || { cat /tmp/log; exit 1; }
		sleep 0.1
	done
}
as_nobody() {
	setpriv --reuid 65534 --regid 65534 --clear-groups "$@"
}
serve
test "$(stat -c %U /proc/$daemon)" = fusiond
printf 'x = arange f32[4] 0 1\ny = add x x\nz = square y\noutput z\n' >/tmp/graph.fz
as_nobody fusionctl run --all /tmp/graph.fz | grep '\[ *0  *4  *16  *36\]'
as_nobody env FUSION_AUTOSTART=0 python3 -c '
import fusion
x = fusion.arange(5, dtype=fusion.float32)
assert [float(v) for v in fusion.add(x, x)] == [0, 2, 4, 6, 8]'
test -n "$(find /var/cache/fusiond -type f)"
as_nobody fusionctl kill 1 2>&1 | grep 'only root' || true
kill -TERM $daemon
wait $daemon
EOF
claim the_daemon_starts_as_its_user_and_answers inside "sh -ex /packages/serve"
claim a_user_s_own_daemon_answers_where_no_service_is inside \
	"mkdir -m 700 /tmp/home && chown nobody /tmp/home && cd /tmp/home && printf 'x = arange f32[3] 0 1\ny = add x x\noutput y\n' >graph.fz &&
	setpriv --reuid 65534 --regid 65534 --clear-groups env HOME=/tmp/home XDG_RUNTIME_DIR=/tmp/home fusionctl run --all graph.fz | grep '\[ *0  *2  *4\]'"
echo '# a change of the administrator' >>"$root/os/etc/fusiond/fusiond.conf"

claim they_are_removed inside "apt-get -qy remove $ours"
files removed
comm -13 "$root/before" "$root/removed" >"$root/left"
# What Debian keeps of a package that may come back: its files in /etc, and whether its units are enabled.
claim removing_leaves_configuration_alone sh -c "! grep -v -x -e './etc/.*' -e './var/lib/systemd/deb-systemd-.*' '$root/left'"
claim and_keeps_what_the_administrator_changed grep -q 'change of the administrator' "$root/os/etc/fusiond/fusiond.conf"
claim they_are_purged inside "dpkg --purge $ours"
files purged
comm -13 "$root/before" "$root/purged" >"$root/left"
claim purging_leaves_nothing test ! -s "$root/left"
sed 's/^/    /' "$root/left"

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
