#!/bin/sh
# What people are told when something is wrong: an administrator whose engine hangs, or whose reload failed; a client that was ended; one
# whose certificate is refused.
. "$(dirname "$0")/../claims.sh"
ctl=$build/fusionctl
python=${PYTHON:-/usr/bin/python3}

# ---- a session that an administrator ends ----

cat >"$root/victim.py" <<'PYTHON'
# Says who it is, waits for a line, and says what its next request is told.
import sys, fusion
x = fusion.ones(3)
float(x[0])
print("ready", flush=True)
sys.stdin.readline()
try:
    print(float((x + 1)[0]), flush=True)
except Exception as e:
    print(type(e).__name__, e, flush=True)
PYTHON
start_on "$root/cache" --set remote.listen=tcp://127.0.0.1:0 --set remote.plain_user="$(id -u)" --set engine.hang_us=600s
url=$("$ctl" status --json | sed 's/.*"remote":"\([^"]*\)".*/\1/')
victim() {
	rm -f "$root/said"
	mkfifo "$root/in"
	env PYTHONPATH="$build/python" "$@" "$python" "$root/victim.py" <"$root/in" >"$root/said" 2>&1 &
	victim=$!
	exec 3>"$root/in"
	until_does grep -q ready "$root/said"
	"$ctl" kill "$("$ctl" status --json | "$python" -c 'import json, sys; print(json.load(sys.stdin)["sessions"][0]["session"])')"
	echo >&3
	exec 3>&-
	wait "$victim" || true
	rm "$root/in"
	cat "$root/said"
}
me=$(id -un)
claim a_victim_reads_who_ended_it 0 "an administrator, user $me (.*), ended this session" victim env
claim a_victim_without_shared_memory_too 0 "an administrator, user $me" victim env FUSION_TRANSPORT=nng
claim a_victim_on_another_machine_too 0 "an administrator, user $me" victim env FUSION_SOCKET="$url"
claim the_log_names_users 0 "of user $me (.*), process [0-9]*, is ended by user $me (" cat "$root/log"

# ---- one whose process has ended, while a child of it lives on ----

cat >"$root/parent.py" <<'PYTHON'
import os, sys, time, fusion
float(fusion.ones(3)[0])
if os.fork():
    os._exit(0)
sys.stdin.readline()
os._exit(0)
PYTHON
mkfifo "$root/in"
PYTHONPATH=$build/python "$python" "$root/parent.py" <"$root/in" >/dev/null 2>&1 &
parent=$!
exec 3>"$root/in"
wait "$parent" || true
claim a_session_goes_with_its_process 0 "" until_does sh -c "'$ctl' status --json | grep -q '\"sessions\":\[\]'"
exec 3>&-

# ---- an engine that hangs ----

engine=$("$ctl" status --json | "$python" -c 'import json, sys; print(json.load(sys.stdin)["engines"][0]["pid"])')
kill -STOP "$engine"
claim a_hung_engine_is_shown_at_once 75 "HUNG: process $engine has answered nothing" "$ctl" status
claim_json in_json_too 'j["engines"][0]["state"] == "hung" and j["engines"][0]["silent_s"] > 2' "$ctl" status --json
claim statistics_end_after_their_limit 75 "nothing was answered within 3 s" "$ctl" --limit 3 stats
claim_json with_json_too 'j["error"]["code"] == "TIMEOUT"' "$ctl" --limit 3 stats --json
claim a_variable_says_the_limit_where_no_option_does 75 "nothing was answered within 2 s" env FUSION_LIMIT_S=2 "$ctl" stats
claim the_option_goes_before_it 75 "nothing was answered within 3 s" env FUSION_LIMIT_S=600 "$ctl" --limit 3 stats
kill -CONT "$engine"
until_does "$ctl" status
claim one_that_goes_on_is_ready 0 "^engine  *ready" "$ctl" status
stop

# ---- an engine that ends in another way than the daemon told it ----

start_on "$root/cache"
pid=$("$ctl" status --json | "$python" -c 'import json, sys; print(json.load(sys.stdin)["engines"][0]["pid"])')
kill -STOP "$pid"
kill "$daemon"
until_does sh -c "'$ctl' status --json | grep -q '\"state\":\"stopping\"'"
kill -KILL "$pid"
wait "$daemon" || true
daemon=
claim what_becomes_of_it_while_the_daemon_stops_is_logged 0 "while the daemon stops: .* was killed by signal 9" tail -n 3 "$root/log"

# ---- errors of the command line ----

claim_json wrong_usage_is_json_too 'j["error"]["code"] == "USAGE" and "there is no command" in j["error"]["sentence"]' "$ctl" --json stat
claim_json an_unknown_option_too 'j["error"]["code"] == "USAGE" and "--nonsense" in j["error"]["sentence"]' "$ctl" status --json --nonsense
claim_json what_a_command_finds_wrong_too 'j["error"]["code"] == "USAGE" and "--sort takes" in j["error"]["sentence"]' "$ctl" clients --sort height --json
claim one_column_is_a_value 64 "--sort takes .*, not 'memory,pid'" "$ctl" clients --sort memory,pid
claim and_none_is_not 64 "--sort takes .*, not ''" "$ctl" clients --sort ""
claim and_on_standard_error 64 "^fusionctl: --sort takes .*, not .height" "$ctl" clients --sort height --json

# ---- a reload ----

printf '[log]\nlevel = info\n' >"$root/fusiond.conf"
"$build/fusiond" --config "$root/fusiond.conf" --socket "$root/door" --cache-dir "$root/cache" --set device.measure=no >>"$root/log" 2>&1 &
daemon=$!
until_does "$ctl" status
printf '[log]\nlevel = loud\n' >"$root/fusiond.conf"
kill -HUP "$daemon"
until_does sh -c "'$ctl' status | grep -q 'not reloaded'"
claim a_reload_that_failed_is_shown 0 "^not reloaded  *$root/fusiond.conf:2: log.level is 'loud'" "$ctl" status
claim the_old_value_stays 0 "^info$" "$ctl" config get log.level
printf '[log]\nlevel = debug\n' >"$root/fusiond.conf"
kill -HUP "$daemon"
until_does sh -c "! '$ctl' status | grep -q 'not reloaded'"
claim one_that_went_well_takes_it_away 0 "^debug$" "$ctl" config get log.level
printf 'x = input f32[2] ramp\ny = relu x\nz = add y 1\noutput z\n' >"$root/pair.fz"
printf '[log]\nlevel = debug\n[fusion]\napart = relu:add\nknobs = share=quarter\n' >"$root/fusiond.conf"
kill -HUP "$daemon"
until_does grep -q 'fusion.apart becomes "relu:add", was ""' "$root/log"
claim a_reload_changes_texts_too 0 "^relu:add$" "$ctl" config get fusion.apart
claim_json and_they_hold 'j["kernel_count"] == 2 and "fusion.apart keeps" in j["not_fused"][0]["reason"] and j["kernels"][0]["knobs"]["share"] == "quarter"' "$ctl" explain --json "$root/pair.fz"
claim their_place_is_told 0 "^fusion.apart  *relu:add  .*fusiond.conf:4$" "$ctl" config --show-origin
"$ctl" config set fusion.apart relu:mul
claim what_an_administrator_changed_says_so 0 "^fusion.apart  *relu:mul  *config set, until the daemon ends or the configuration is reloaded$" "$ctl" config --show-origin
stop

# ---- a reload whose look at remote.* takes long ----

# A daemon of its own folder, whose gateway hangs when it is to look at what remote.* says, as long as there is a file `hangs`.
mkdir "$root/bin"
cp "$build/fusiond" "$root/bin"
ln -s "$(realpath "$build")/fusiond-engine" "$root/bin/fusiond-engine"
cat >"$root/bin/fusiond-gateway" <<GATEWAY
#!/bin/sh
while [ "\$1" = --check ] && [ -e "$root/hangs" ]; do
	echo \$\$ >"$root/looks"
	sleep 0.1
done
exec "$(realpath "$build")/fusiond-gateway" "\$@"
GATEWAY
chmod +x "$root/bin/fusiond-gateway"
remote="[remote]
listen = tcp://127.0.0.1:0
plain_user = $(id -un)"
level() { printf '%s\n[log]\nlevel = %s\n' "$remote" "$1" >"$root/fusiond.conf"; }
level info
"$root/bin/fusiond" --config "$root/fusiond.conf" --socket "$root/door" --cache-dir "$root/cache" --set device.measure=no >>"$root/log" 2>&1 &
daemon=$!
until_does "$ctl" status
# The process that looks is there before and after the answer; on a busy machine its time may be over between the two.
answers_meanwhile() {
	for try in 1 2 3 4 5 6 7 8 9; do
		rm -f "$root/looks"
		kill -HUP "$daemon"
		until_does test -s "$root/looks"
		looks=$(cat "$root/looks")
		"$ctl" status >/dev/null && kill -0 "$looks" && return
	done
	return 1
}
: >"$root/hangs"
claim a_reload_that_hangs_holds_nobody_up 0 "" answers_meanwhile
until_does sh -c "'$ctl' status | grep -q 'not reloaded'"
claim one_that_hung_says_so 0 "^not reloaded  *what remote.* says could not be looked at within 10 s" "$ctl" status
rm -f "$root/looks"
level debug
kill -HUP "$daemon"
until_does test -s "$root/looks"
# While it is under way, once more.
level notice
kill -HUP "$daemon"
rm "$root/hangs"
claim a_second_one_is_done_after_the_first 0 "" until_does sh -c "'$ctl' config get log.level | grep -qx notice"
claim and_both_went_well 0 "^fusiond" sh -c "'$ctl' status; ! '$ctl' status | grep 'not reloaded'"
: >"$root/hangs"
rm -f "$root/looks"
kill -HUP "$daemon"
until_does test -s "$root/looks"
looks=$(cat "$root/looks")
stop
claim one_that_hangs_ends_with_the_daemon 0 "" until_does sh -c "! kill -0 $looks"
rm "$root/hangs"

# ---- certificates ----

command -v openssl >/dev/null || {
	skip "no openssl here" certificates
	finish_claims
	exit
}
keys=$root/keys
mkdir "$keys"
# The recipe of fusiond(8), as it stands there.
sed -n '/^# certificates: begin/,/^# certificates: end/p' man/fusiond.8 | sed 's/\\e/\\/g' >"$root/recipe"
claim the_manual_has_a_recipe 0 "" test -s "$root/recipe"
(cd "$keys" && HOST=127.0.0.1 CLIENT=$me sh -eu "$root/recipe") >"$root/out" 2>&1 || sed 's/^/    /' "$root/out"
# The one way to an end in the past is refused by openssl 3.5, the other is not known to those before 3.4.
late() {
	openssl x509 -req -in late.csr -CA authority.pem -CAkey authority.key -CAcreateserial -out late.pem "$@"
}
(cd "$keys" && openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout late.key -out late.csr -subj "/CN=$me" &&
	{ late -days -1 || late -not_before 20200101000000Z -not_after 20200102000000Z; } &&
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout foreign.key -out foreign.pem -subj "/CN=$me" -days 2) >/dev/null 2>&1
cat >"$root/fusiond.conf" <<CONF
[remote]
listen = tls+tcp://127.0.0.1:0
certificate = $keys/daemon.pem
key = $keys/daemon.key
authority = $keys/authority.pem
status = yes
CONF
check() { "$build/fusiond" --check --quiet --config "$root/fusiond.conf" --socket "$root/door" --cache-dir "$root/cache"; }
claim what_the_recipe_makes_is_right 0 "" check
: >"$root/log"
"$build/fusiond" --config "$root/fusiond.conf" --socket "$root/door" --cache-dir "$root/cache" --set device.measure=no >>"$root/log" 2>&1 &
daemon=$!
until_does "$ctl" status
until_does sh -c "'$ctl' status --json | grep -q '\"remote\":\"tls'"
url=$("$ctl" status --json | sed 's/.*"remote":"\([^"]*\)".*/\1/')
by() { FUSION_CA=$keys/authority.pem FUSION_CERT=${1:+$keys/$1.pem} FUSION_KEY=${1:+$keys/$1.key} "$ctl" --socket "$url" status; }
claim who_has_one_is_served 0 "^fusiond" by client
claim one_that_has_expired_is_told 69 "our certificate: it has expired" by late
claim one_that_is_foreign_is_told 69 "our certificate: it is foreign" by foreign
claim none_is_told 69 "wants a certificate, and we have shown none" by ""
claim an_expired_one_is_logged 0 "at 127.0.0.1:[0-9]* was refused: .*certificate has expired" cat "$root/log"
claim a_foreign_one_is_logged 0 "was refused: .*certificate is foreign" cat "$root/log"
claim none_is_logged 0 "was refused: .*showed no certificate" cat "$root/log"
# A key that is not the certificate's, an address that is none, users that there are not: found by a check, with the place.
cp "$keys/late.key" "$keys/daemon.key"
claim a_key_of_another_certificate_is_refused 78 "fusiond.conf:4: remote.key: the key .* is not that of the certificate" check
kill -HUP "$daemon"
until_does sh -c "'$ctl' status | grep -q 'not reloaded'"
claim the_old_key_stays_in_use 0 "^fusiond" by client
refuses() {
	printf "[remote]\n$2" >"$root/fusiond.conf"
	claim "$1" 78 "$3" check
}
refuses a_port_beyond_all 'listen = tcp://127.0.0.1:70000\nplain_user = root\n' "fusiond.conf:2: remote.listen: .*a port is a number of at most 65535"
refuses an_unknown_user 'listen = tcp://127.0.0.1:0\nplain_user = nobodys-name\n' 'fusiond.conf:3: remote.plain_user: this machine has no user "nobodys-name"'
printf '# names\nroot alice\nnobodys-name bob\n' >"$root/users"
refuses an_unknown_user_in_the_list "listen = tcp://127.0.0.1:0\nplain_user = root\nusers = $root/users\n" 'users:3: this machine has no user "nobodys-name"'
refuses a_missing_certificate "listen = tls+tcp://127.0.0.1:0\ncertificate = $keys/none.pem\n" "fusiond.conf:3: remote.certificate: the file"
stop

finish_claims
