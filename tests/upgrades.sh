#!/bin/sh
# Upgrades by apt under load: the service's package is replaced by its next version again and again, while programs work on its daemon whose
# results are compared with an undisturbed run (tests/test_restart.c). No session may be lost, no program end, no bit change.
#
#	[UPGRADES=20] sh tests/upgrades.sh BUILD DEBS    in a root that nobody else uses, as root, with what building needs
#
# DEBS has packages as `make deb` made them; they stay installed. keeper.py stands in for the service manager, which the package's trigger asks.
set -eu
cd "$(dirname "$0")/.."
build=$1
debs=$(realpath "$2")
upgrades=${UPGRADES:-20}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export DEBIAN_FRONTEND=noninteractive

# The package once more for each upgrade, with a version that is one higher.
dpkg-deb -R "$(echo "$debs"/fusiond_*.deb)" "$work/tree"
version=$(sed -n 's/^Version: //p' "$work/tree/DEBIAN/control")
for i in $(seq "$upgrades"); do
	sed -i "s/^Version: .*/Version: $version+$i/" "$work/tree/DEBIAN/control"
	dpkg-deb -Znone -b "$work/tree" "$work/$i.deb" >/dev/null
done
apt-get -qy install --no-install-recommends --allow-downgrades "$debs"/libfusion1_*.deb "$debs"/fusiond_*.deb "$debs"/fusion-tools_*.deb >"$work/apt" 2>&1 || {
	tail -20 "$work/apt"
	exit 1
}

# A manager that hands each restart to the keeper, and one that is asked.
mkdir -p /run/systemd/system
cat >/usr/sbin/systemctl <<'EOF'
#!/bin/sh
case " $* " in
*" is-enabled "*) echo enabled ;;
*" restart "*fusiond.service*) kill -HUP "$(cat /run/keeper)" ;;
esac
EOF
chmod 755 /usr/sbin/systemctl
printf '#!/bin/sh\nexit 0\n' >/usr/sbin/policy-rc.d

cat >"$work/upgrade" <<EOF
set -e
echo "\$KEEPER" >/run/keeper
next=\$((\$(cat $work/done) + 1))
apt-get -qy install --no-install-recommends $work/\$next.deb >$work/apt 2>&1 </dev/null || { tail -20 $work/apt; exit 1; }
dpkg-query -W -f '\${Version}\n' fusiond | grep -qx ".*+\$next"
echo \$next >$work/done
EOF
echo 0 >"$work/done"
status=0
# The limit is for what hangs, however busy the machine is.
CK_TIMEOUT_MULTIPLIER=10 CK_RUN_CASE="under load" RESTARTS=$upgrades UPGRADE="sh $work/upgrade" "$build/tests/test_restart" || status=$?
[ "$status" != 0 ] || echo "note: $(cat "$work/done") upgrades by apt, to $(dpkg-query -W -f '${Version}' fusiond)"
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
rm /usr/sbin/systemctl
exit "$status"
