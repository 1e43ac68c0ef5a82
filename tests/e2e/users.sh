#!/bin/sh
# Who may do what: settings by user and group, admission, changes while the daemon runs, and what each user sees of it.
. "$(dirname "$0")/../claims.sh"

mkdir "$root/bin"
cp -P "$build/fusionctl" "$build"/libfusion.so* "$root/bin"
# Whatever the umask: others are to run it.
chmod -R a+rX "$root/bin"
chmod 755 "$root"
ctl=$root/bin/fusionctl
me=$(id -un)
mine=$(id -gn)

# conf LINE...: writes the configuration.
conf() {
	printf '%s\n' "$@" >"$root/fusiond.conf"
}
check() {
	"$build/fusiond" --config "$root/fusiond.conf" --check
}

# ---- the file ----
conf '[user:nobody]' 'limits.user_bytes = 1M' '' '[group:games]' 'fusion.weight = 7'
claim rules_are_read 0 "^user:nobody.limits.user_bytes=1M" check
claim of_groups_too 0 "^group:games.fusion.weight=7" check
conf '' '[user:nosuchuser]' 'limits.user_bytes = 1M'
claim unknown_users_are_refused_with_the_place 78 'fusiond.conf:3: this machine has no user "nosuchuser"' check
conf '[group:nosuchgroup]' 'fusion.weight = 7'
claim unknown_groups_too 78 'fusiond.conf:2: this machine has no group "nosuchgroup"' check
conf '[user:nobody]' 'limits.nosuch = 1'
claim unknown_settings_too 78 'fusiond.conf:2: there is no setting limits.nosuch' check
conf '[user:nobody]' 'device.memory = 1'
claim settings_of_the_whole_daemon_too 78 'fusiond.conf:2: device.memory is one for the whole daemon' check
conf '[user:nobody]' 'fusion.weight = 0'
claim values_are_checked 78 'fusiond.conf:2: fusion.weight is 0; the least is 1' check
conf '[user:]' 'fusion.weight = 1'
claim a_name_is_wanted 78 'fusiond.conf:2: \[user:\] names no user' check
conf '[user:nobody]' 'fusion.weight = 1'
claim a_flag_may_have_a_name 0 '^user:nobody.limits.handles=9' "$build/fusiond" --config "$root/fusiond.conf" --set user:nobody.limits.handles=9 --check
claim nor_an_unknown_one 78 'command line: this machine has no user "x.y"' "$build/fusiond" --set user:x.y.limits.handles=9 --check

# ---- what holds ----
conf '[fusion]' 'weight = 50' '' "[user:$me]" 'limits.sessions_per_user = 3' '' "[group:$mine]" 'fusion.weight = 40' 'limits.sessions_per_user = 2' 'limits.user_bytes = 64M'
"$build/fusiond" --config "$root/fusiond.conf" --socket "$root/door" --cache-dir "$root/cache" --set device.measure=no >"$root/log" 2>&1 &
daemon=$!
until_does "$ctl" status
printf 'x = input f32[2] = 1 2\ny = mul x 3\noutput y\n' >"$root/small.fz"
printf 'x = arange f32[20971520] 0 1\ny = add x 1\noutput y\n' >"$root/large.fz"
own='[u for u in j["users"] if u["uid"] == '"$(id -u)"'][0]'
claim_json user_over_group_over_general '('"$own"')["sessions_limit"] == 3 and ('"$own"')["weight"] == 40 and ('"$own"')["bytes_limit"] == 64 << 20 and ('"$own"')["priority"] == 1' \
	"$ctl" users --json
claim_json each_with_its_place 'any(s["name"] == "fusion.weight" and s["section"] == "group:'"$mine"'" and s["origin"].endswith("fusiond.conf:8") for s in ('"$own"')["settings"])' \
	"$ctl" users --json
claim and_for_people 0 "$me: fusion.weight=40, of \[group:$mine\]" "$ctl" users
claim a_limit_of_a_group_holds 71 "above limits.user_bytes=67108864" "$ctl" run "$root/large.fz"
claim origins_have_them 0 "^group:$mine.fusion.weight  *40  .*fusiond.conf:8" "$ctl" config --show-origin
claim and_get 0 "^40$" "$ctl" config get "group:$mine.fusion.weight"

# ---- changes ----
claim a_rule_changes_while_it_runs 0 "" "$ctl" config set "user:$me.limits.user_bytes" 1G
claim and_holds 0 "" "$ctl" run "$root/large.fz"
claim a_limit_of_all_changes 0 "" "$ctl" config set limits.handles 1
claim and_holds_in_the_engine 75 "the 1 arrays that limits.handles allows" "$ctl" run "$root/small.fz"
claim unknown_users_are_refused_here_too 65 'no user "nosuchuser"' "$ctl" config set user:nosuchuser.fusion.weight 7
claim what_only_a_start_changes_is_refused 65 "cannot be changed this way" "$ctl" config set door.mode 0600
kill -HUP "$daemon"
until_does grep -q "was read again" "$root/log"
claim a_reload_takes_changes_back 71 "above limits.user_bytes=67108864" "$ctl" run "$root/large.fz"
claim of_limits_too 0 "" "$ctl" run "$root/small.fz"
conf '[fusion]' 'weight = 50'
kill -HUP "$daemon"
until_does sh -c "test \$(grep -c 'was read again' '$root/log') = 2"
claim rules_end_with_a_reload 0 "" "$ctl" run "$root/large.fz"
conf "[user:nosuchuser]" 'fusion.weight = 1'
kill -HUP "$daemon"
until_does grep -q 'stays as it was: .*fusiond.conf:2: this machine has no user' "$root/log"
claim a_bad_reload_changes_nothing 0 "^50$" "$ctl" config get fusion.weight

# ---- accounts ----
claim_json what_was_used_is_told '('"$own"')["device_ns"] > 0 and ('"$own"')["sessions_begun"] >= 5 and ('"$own"')["limits"] >= 3 and ('"$own"')["refused"] >= ('"$own"')["limits"] and
	('"$own"')["bytes_most"] >= 80 << 20' "$ctl" users --json
claim_json since_a_while_too '('"$own"')["sessions_begun"] >= 5' "$ctl" users --since 1h --json
claim but_not_since_nonsense 64 "is no time" "$ctl" users --since tomorrow
claim a_session_s_end_is_told_with_what_it_used 0 "" grep -q "session [0-9]* of user $(id -u), process [0-9]* (.*) ended after .* s of the device, .* graphs: 1, refusals: 0, of limits: 0" "$root/log"
before=$("$ctl" users --json)
stop
[ -e "$root/cache/accounts" ] || echo "no accounts"
"$build/fusiond" --config /dev/null --socket "$root/door" --cache-dir "$root/cache" --set device.measure=no --set door.admins=games \
	--set metrics.users=5 --set metrics.socket="$root/metrics" >"$root/log" 2>&1 &
daemon=$!
until_does "$ctl" status
BEFORE=$before claim_json accounts_outlive_the_daemon '(lambda o: all(('"$own"')[k] >= o[k] for k in ("device_ns", "refused", "limits", "bytes_most", "sessions_begun")))([u for u in
	json.loads(__import__("os").environ["BEFORE"])["users"] if u["uid"] == '"$(id -u)"'][0])' "$ctl" users --json
if command -v curl >/dev/null; then
	claim metrics_by_user_where_asked 0 "^fusiond_user_device_seconds_total{uid=\"$(id -u)\"}" curl -s --unix-socket "$root/metrics" http://x/metrics
fi
stop
head -c 60 "$root/cache/accounts" >"$root/cut" && cp "$root/cut" "$root/cache/accounts"
conf '[fusion]' 'weight = 50'
"$build/fusiond" --config "$root/fusiond.conf" --socket "$root/door" --cache-dir "$root/cache" --set device.measure=no >"$root/log" 2>&1 &
daemon=$!
until_does "$ctl" status
claim a_damaged_file_is_put_aside 0 "" grep -q "accounts of users in .* were damaged" "$root/log"
claim and_kept 0 "" cmp "$root/cut" "$root/cache/accounts.bad"

# ---- others ----
if [ "$(id -u)" = 0 ]; then
	games=$(getent group games | cut -d: -f3)
	stranger="setpriv --reuid 65534 --regid 65534 --clear-groups"
	member="setpriv --reuid 65534 --regid 65534 --groups $games"
	chmod 644 "$root"/*.fz
	conf '[door]' 'admit = no' '' '[group:games]' 'door.admit = yes' 'fusion.weight = 20' 'limits.tokens = 5' '' '[user:daemon]' 'fusion.weight = 3'
	kill -HUP "$daemon"
	until_does sh -c "test \$(grep -c 'was read again' '$root/log') = 1"
	# shellcheck disable=SC2086
	{
		claim who_is_not_admitted_hears_who_is 77 "user 65534 may not use this daemon (door.admit): members of the group games may" $stranger "$ctl" run "$root/small.fz"
		claim a_member_is_admitted 0 "" $member "$ctl" run "$root/small.fz"
		claim administrators_always_are 0 "" "$ctl" run "$root/small.fz"
		claim_json somebody_sees_himself 'j["count"] == 1 and j["users"][0]["uid"] == 65534 and j["users"][0]["weight"] == 20' $member "$ctl" users --json
		claim_json administrators_see_all 'any(u["user"] == "daemon" and u["weight"] == 3 for u in j["users"])' "$ctl" users --json
		claim others_change_nothing 77 "may change settings" $member "$ctl" config set user:nobody.fusion.weight 10000
	}
	stop
	"$build/fusiond" --config /dev/null --socket "$root/door" --cache-dir "$root/cache" --set device.measure=no --set door.mode=0660 --set door.group=games >"$root/log" 2>&1 &
	daemon=$!
	until_does "$ctl" status
	# shellcheck disable=SC2086
	{
		claim who_is_refused_by_the_mode_hears_which_group_is_not 77 "is for members of the group games (it has mode 0660): ask an administrator" $stranger "$ctl" run "$root/small.fz"
		claim fusionctl_alone_says_it_too 77 "is for members of the group games" $stranger "$ctl" status
		claim its_members_are_let_in 0 "" $member "$ctl" run "$root/small.fz"
		mkdir "$root/closed"
		chmod 0700 "$root/closed"
		claim a_closed_folder_is_told_too 77 "is for its own user alone ($root/closed has mode 0700)" $stranger "$ctl" --socket "$root/closed/door" status
	}
fi

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
