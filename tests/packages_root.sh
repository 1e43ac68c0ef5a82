#!/bin/sh
# The packages in a fresh Debian: that they install with what they say they depend on, start as the unit says, answer a program and
# Python, and leave nothing but configuration when they are removed, and nothing at all when they are purged.
#
#	[RELEASE=trixie] sh tests/packages_root.sh FOLDER    of *.deb, as `make deb` made them there; `make check-packages` does both
#
# All happens in a root of its own (tests/root.sh), where no service manager runs; what a real systemd makes of the units is
# tests/e2e/systemd.sh.
set -eu
debs=$(realpath "${1:-build/deb}")
cd "$(dirname "$0")/.."
. tests/root.sh
skip() {
	echo "skipped packages: $1"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
}
ls "$debs"/fusiond_*.deb >/dev/null 2>&1 || skip "$debs has no packages, which make deb builds"
why=$(root_refuses)
[ -z "$why" ] || skip "$why"
suite=${RELEASE:-$(. /etc/os-release && echo "${VERSION_CODENAME:-}")}

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

inside() {
	root_inside "$root/os" "$1"
}

# files NAME: every path there is, without what logs, indexes and dpkg itself write.
files() {
	(cd "$root/os" && find . -xdev -path ./packages -prune -o -path ./.archives -prune -o -path ./var/log -prune -o -path ./var/cache/apt -prune -o -path ./var/lib/apt -prune \
		-o -path ./var/cache/ldconfig -prune -o -path ./var/lib/dpkg -prune -o -print) | sort >"$root/$1"
}

why=$(root_make "$suite" "$root/os") || skip "there is no root of $suite ($why)"
mkdir "$root/os/packages"
cp "$debs"/*.deb "$root/os/packages"
rm -f "$root"/os/packages/*-dbgsym_*
echo "$suite: $(cat "$root"/os/packages/*.deb | wc -c) bytes of packages"

ours="libfusion1 libfusion-dev fusiond fusion-tools python3-fusion"
install="apt-get -qy install --no-install-recommends pocl-opencl-icd /packages/*.deb"
# A service manager that only notes what it is asked for, and how far the driver's package is then: before the one that may come with a package.
recorder=usr/sbin/systemctl
cat >"$root/os/$recorder" <<'EOF'
#!/bin/sh
echo "$(dpkg-query -W -f '${db:Status-Status}' pocl-opencl-icd 2>/dev/null) $*" >>/asked
case " $* " in
*" is-enabled "*) echo enabled ;;
*" preset "*) exec /usr/bin/systemctl "$@" ;;
esac
EOF
chmod 755 "$root/os/$recorder"
rm "$root/os/usr/sbin/policy-rc.d"
managed="mkdir -p /run/systemd/system && : >/asked"
# starts LINE...: what of fusiond was started or stopped, all of it.
starts() {
	grep -E ' (start|restart|try-restart|stop) .*fusiond' "$root/os/asked" | sed 's/--[a-z-]* //g' >"$root/asked" || true
	cat "$root/asked"
	printf '%s\n' "$@" | cmp -s - "$root/asked"
}
claim packages_install_with_their_dependencies inside "$managed && apt-get -q update && $install"
claim the_service_starts_once_and_after_the_driver starts "installed restart fusiond.service"
claim the_unit_is_wanted_at_the_next_start inside "test -e /etc/systemd/system/multi-user.target.wants/fusiond.service"
claim the_socket_is_not inside "! test -e /etc/systemd/system/sockets.target.wants/fusiond.socket"
claim an_upgrade_restarts_it_once inside "$managed && apt-get -qy install --reinstall /packages/fusiond_*.deb"
claim and_only_it starts "installed restart fusiond.service"
# The driver comes later: the service, which had failed, is tried again.
claim a_driver_that_comes_later inside "dpkg --purge --force-depends pocl-opencl-icd && $managed && apt-get -qy install --no-install-recommends pocl-opencl-icd"
claim starts_the_service starts "installed start fusiond.service"
claim its_removal inside "$managed && apt-get -qy remove fusiond"
claim stops_socket_and_service starts "installed stop fusiond.socket fusiond.service"
claim and_it_comes_back inside "$install"
rm "$root/os/$recorder" "$root/os/asked"
printf '#!/bin/sh\nexit 101\n' >"$root/os/usr/sbin/policy-rc.d"
chmod 755 "$root/os/usr/sbin/policy-rc.d"
claim all_of_them_are_there inside "for p in $ours; do dpkg-query -W -f '\${Status}\n' \$p | grep -qx 'install ok installed'; done"
claim the_user_and_the_group_are_made inside "getent passwd fusiond && getent group fusion-admin && test \$(stat -c %U:%a /var/cache/fusiond) = fusiond:750"
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
		"$(sed -n 's/^ExecStart=//p' /usr/lib/systemd/system/fusiond.service)" >/tmp/log 2>&1 &
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

echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
