#!/bin/bash
# fusiond on releases of Debian: in a fresh root of each a clone is built and tried as a plain user with sudo and as root do it, with
# that release's compiler, libraries and OpenCL; its packages are built there, installed in another root, used, removed and purged.
#
#	[RELEASE=trixie] [PART=turn] bash tests/distros.sh      `make check-distros` does it
#
# RELEASE names some of the releases, "turn" the stable one whose turn it is by the count of commits: sid is another one each day, and
# no commit is to fail for that. PART=turn leaves out what takes longest, PART=demo all but the demo and the building of everything,
# PART=arm64 is the building for arm64 alone, and its unit tests by qemu; PART=all has it on trixie. What cannot be tried is counted as skipped, with the reason. Roots are those of tests/root.sh.
#
# To look at what failed: with KEPT=FOLDER the roots stay there, and the next run goes on in them with the last commit; JOBS="JOB..." builds
# everything and takes these jobs of the check alone. SLICE and CHECK_JOBS are those of tests/check.sh.
set -u
cd "$(dirname "$0")/.."
. tests/root.sh
stable="bookworm trixie"
releases="$stable sid"
part=${PART:-all}
passed=0
failed=0
skipped=0
work=$(mktemp -d "${TMPDIR:-/var/tmp}/distros.XXXXXX")
finish() {
	rm -rf --one-file-system "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

# Thirty commits take every slice of the slow cases (tests/check.sh); each of these comes in other turns.
release_in_turn() {
	local count=$(($(git rev-list --count HEAD) + $(date +%s) / 86400))

	# shellcheck disable=SC2086
	set -- $stable
	shift $((count % $#))
	echo "$1"
}

close() {
	echo "$passed passed, $failed failed, $skipped skipped"
	[ "$failed" = 0 ]
	exit
}

# skip NAME REASON
skip() {
	echo "skipped $1: $2"
	skipped=$((skipped + 1))
}

# count LOG: of a script that closes with "N passed, N failed[, N skipped]". False where it does not.
count() {
	local line

	line=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$1" | tail -1)
	[ -n "$line" ] || return 1
	# shellcheck disable=SC2086
	set -- ${line//,/}
	passed=$((passed + $1))
	failed=$((failed + $3))
	skipped=$((skipped + ${5:-0}))
}

# claim NAME COMMAND...
claim() {
	local name=$1 start=$SECONDS

	shift
	if "$@" >"$work/log" 2>&1; then
		passed=$((passed + 1))
		echo "ok    $release $name ($((SECONDS - start)) s)"
		return 0
	fi
	failed=$((failed + 1))
	echo "FAIL  $release $name"
	tail -40 "$work/log" | sed 's/^/      /'
	return 1
}

# counted NAME COMMAND...: claims of its own.
counted() {
	local name=$1 start=$SECONDS before=$failed

	shift
	"$@" >"$work/log" 2>&1
	if ! count "$work/log"; then
		failed=$((failed + 1))
	fi
	if [ "$failed" = "$before" ]; then
		echo "ok    $release $name ($((SECONDS - start)) s): $(tail -1 "$work/log")"
		sed -n "s/^ *\(skipped .*\)/      \1/p" "$work/log"
	else
		echo "FAIL  $release $name"
		grep -v '^ok ' "$work/log" | tail -150 | sed 's/^/      /'
	fi
}

as_root() {
	root_inside "$os" "$1"
}

as_user() {
	local name

	{
		echo "cd /home/user/fusiond"
		for name in SLICE CHECK_JOBS; do
			[ -z "${!name:-}" ] || echo "export $name='${!name}'"
		done
		echo "$1"
	} >"$os/home/user/run"
	root_inside "$os" "exec runuser -u user -- env HOME=/home/user bash -e /home/user/run"
}

# What README asks of a machine: make, and sudo for who is not root.
prepare() {
	git clone -q --no-hardlinks . "$os/home/fusiond" || return 1
	as_root 'apt-get -q update && apt-get -qy dist-upgrade && apt-get -qy install --no-install-recommends make sudo git &&
		useradd -m -s /bin/bash user && echo "user ALL=(ALL) NOPASSWD: ALL" >/etc/sudoers.d/user &&
		mv /home/fusiond /home/user/fusiond && chown -R user: /home/user'
}

# The clone of a kept root at the last commit.
go_on() {
	local clone=$os/home/user/fusiond

	git -c safe.directory='*' -C "$clone" fetch -q "$PWD" HEAD && git -c safe.directory='*' -C "$clone" reset -q --hard FETCH_HEAD &&
		as_root 'chown -R user: /home/user/fusiond/.git && find /home/user/fusiond -user root -exec chown user: {} +'
}

user_demo() {
	as_user 'make demo 2>&1' | tee "$work/demo" | tail -30
	grep -q '^SAME BITS' "$work/demo"
}

no_warnings() {
	! grep -B 2 -A 5 'warning:' "$work/demo"
}

versions() {
	as_root 'dpkg-query -W -f "\${Package} \${Version}\n" gcc clang libnng1 libnng-dev libmbedtls-dev "libmsgpack-*dev" python3 pocl-opencl-icd 2>/dev/null |
		awk "NF == 2 { printf \"%s%s %s\", n++ ? \", \" : \"\", \$1, \$2 } END { print \"\" }"'
}

# Everything by gcc, warnings as errors, and the tests.
build_tests() {
	as_user 'make deps && make -j$(nproc) all tests'
}

# A slice of each kind, and of programs those that look at what differs between releases.
turn_jobs="python oracle_grad oracle_graphs ulp test_device test_cache test_remote test_door test_exec test_emit
	test_plan test_recover test_client_call test_client_nng test_client_threads test_protocol_wire test_protocol_codec
	test_serve test_serve_transport test_text test_devices e2e_doctor e2e_fusionctl e2e_install e2e_autostart e2e_wheel e2e_packages"
# What failed on Debian 13 while the daemon took PoCL's device of one unit there, and was not looked at since: in a turn these are
# skipped there. PART=all runs them.
driver_jobs="graphs oracle_ops"
jobs() {
	local named=${JOBS:-}

	if [ -z "$named" ] && [ "$part" = turn ]; then
		named=$turn_jobs
		[ "$release" != bookworm ] || named="$named $driver_jobs"
	fi
	# shellcheck disable=SC2086
	as_user "bash tests/check.sh build $(echo $named)"
}

skip_driver_jobs() {
	[ "$part" = turn ] && [ "$release" != bookworm ] || return 0
	for job in $driver_jobs; do
		skip "$release $job" "failed there, and was not looked at since"
	done
}

# As root, in a copy of what was built.
root_demo() {
	as_root 'rm -rf /root/fusiond && cp -a /home/user/fusiond /root/fusiond && chown -R root: /root/fusiond && cd /root/fusiond && make demo' | grep '^SAME BITS'
}

clang_builds() {
	as_user 'sh tests/deps.sh clang && make -j$(nproc) B=build-clang CC=clang WERROR=1 all tests && build-clang/demo'
}

packages() {
	RELEASE=$release sh tests/packages_root.sh "$os/home/user/fusiond/build/deb"
}

# In the root where all was built, which has the packages from here on.
upgrades() {
	as_root 'cd /home/user/fusiond && sh tests/upgrades.sh build build/deb'
}

# ---- arm64 ----

# The release that has it: one is enough, since what differs there is the machine. The compiler runs on this one, which qemu would make
# ten times as slow.
arm64_release=trixie
arm64_libraries="libc6 libnng-dev libmbedtls-dev libmsgpack-c-dev libinih-dev libcjson-dev libxxhash-dev libsystemd-dev libseccomp-dev
	libncurses-dev ocl-icd-opencl-dev check libpython3-dev"
# Programs that want neither a device nor a daemon: qemu does not start the programs that these would start.
arm64_tests="test_accounts test_config test_emit test_graph_memory test_knobs test_linger test_log test_named test_operation_file
	test_protocol_codec test_protocol_dtype test_protocol_op test_text"

arm64_prepare() {
	as_root "dpkg --add-architecture arm64 && apt-get -q update && apt-get -qy install --no-install-recommends gcc-aarch64-linux-gnu \
		libc6-dev-arm64-cross qemu-user \
		pkg-config python3 opencl-headers uthash-dev $(printf '%s:arm64 ' $arm64_libraries)"
}

arm64_builds() {
	as_user 'export PKG_CONFIG_LIBDIR=/usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig
make -j$(nproc) B=build-arm64 CC=aarch64-linux-gnu-gcc all tests'
}

# What qemu runs takes many times as long: the limits of cases are for what hangs.
arm64_test() {
	as_user "CK_TIMEOUT_MULTIPLIER=30 qemu-aarch64 build-arm64/tests/$1"
}

try_arm64() {
	local name

	if ! arm64_prepare >"$work/log" 2>&1; then
		skip "$release arm64" "its packages cannot be had ($(tail -1 "$work/log"))"
		return
	fi
	claim arm64_is_built_without_a_warning arm64_builds || return
	for name in $arm64_tests; do
		claim "arm64_$name" arm64_test "$name"
	done
}

# ---- a release ----

# A root of the release as $os: a kept one, or a new one.
lay_root() {
	local why

	os=${KEPT:-$work}/$release
	mkdir -p "${os%/*}"
	if [ -e "$os/prepared" ]; then
		claim the_kept_root_has_the_last_commit go_on
		return
	fi
	why=$(root_make "$release" "$os") || { skip "$release" "there is no root of it ($why)"; return 1; }
	if ! prepare >"$work/log" 2>&1; then
		skip "$release" "its packages cannot be had ($(tail -1 "$work/log"))"
		return 1
	fi
	touch "$os/prepared"
}

try_release() {
	lay_root || return 0
	if [ -n "${JOBS:-}" ]; then
		claim tests_are_built_without_a_warning build_tests && counted tests jobs
		return
	fi
	if [ "$part" = arm64 ]; then
		try_arm64
		return
	fi
	claim make_demo_works_for_a_user_with_sudo user_demo || return
	echo "      $release: $(versions)"
	claim no_compiler_warns no_warnings
	claim tests_are_built_without_a_warning build_tests || return
	if [ "$part" = demo ]; then
		claim make_demo_works_for_root root_demo
		return
	fi
	counted tests jobs
	skip_driver_jobs
	claim make_demo_works_for_root root_demo
	[ "$part" = turn ] || claim clang_builds_it clang_builds
	claim make_deb_works_for_a_user as_user 'make deb' || return
	counted packages packages
	claim upgrades_by_apt_under_load upgrades && sed -n 's/^note:/     /p' "$work/log"
	[ "$part" != all ] || [ "$release" != "$arm64_release" ] || try_arm64
	[ -n "${KEPT:-}" ] || rm -rf --one-file-system "$os"
}

[ "$part" != arm64 ] || RELEASE=$arm64_release
wanted=${RELEASE:-$releases}
[ "$wanted" != turn ] || wanted=$(release_in_turn)
why=$(root_refuses)
for release in $wanted; do
	if [ -n "$why" ]; then
		skip "$release" "$why"
	else
		try_release
	fi
done
close
