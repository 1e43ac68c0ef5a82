#!/bin/sh
# What an administrator sees of a daemon and does to it: info, clients, kill, monitor, trace, kernels, latency, config with
# origins, top on a terminal, completion; and what another user may not.
. "$(dirname "$0")/../claims.sh"
python=${PYTHON:-/usr/bin/python3}

# Where everybody may run it; the build folder may be somebody's own.
mkdir "$root/bin"
cp -P "$build/fusionctl" "$build/fusiond" "$build"/libfusion.so* "$root/bin"
chmod 755 "$root"
chmod -R go+rX "$root/bin"
ctl=$root/bin/fusionctl

cat >"$root/fusiond.conf" <<'CONF'
[door]
admins = games
[limits]
handles = 5000
CONF
FUSIOND_LIMITS_TOKENS=77 "$build/fusiond" --config "$root/fusiond.conf" --socket "$root/door" --cache-dir "$root/cache" \
	--set device.measure=no --set log.level=debug >"$root/log" 2>&1 &
daemon=$!
until_does "$ctl" status

printf 'x = arange f32[100000] 0 1\ny = mul x 3\nz = tanh y\noutput z\n' >"$root/long.fz"
printf 'x = input f32[2] = 1 2\ny = mul x 3\nz = tanh y\noutput z\n' >"$root/short.fz"
claim_json info_tells_releases_and_devices 'j["schema"] == "fusionctl.info/1" and j["daemon"]["protocol"] == j["client"]["protocol"] and
	j["devices"][0]["engine"] == 0 and j["devices"][0]["driver"]' "$ctl" info --json
claim info_is_for_people_too 0 "^driver  *[^ ]" "$ctl" info
claim_json nobody_is_no_client 'j == {"schema": "fusionctl.clients/1", "clients": []}' "$ctl" clients --json

# A client that lives on: its output, longer than a pipe holds, is not read yet.
mkfifo "$root/pipe"
"$ctl" run --all "$root/long.fz" >"$root/pipe" 2>/dev/null &
client=$!
exec 3<"$root/pipe"
until_does sh -c "'$ctl' clients --json | grep -q '\"kernels_launched\":1'"
session=$("$ctl" clients | awk 'NR == 2 { print $1 }')
claim_json clients_tell_what_each_has 'len(j["clients"]) == 1 and j["clients"][0]["pid"] == '$client' and j["clients"][0]["uid"] == '"$(id -u)"' and
	j["clients"][0]["memory_bytes"] >= 400000 and j["clients"][0]["arrays"] >= 1 and "long.fz" in j["clients"][0]["command"] and
	j["clients"][0]["device_ns"] > 0 and j["clients"][0]["operations_queued"] == 0' "$ctl" clients --json
claim clients_are_a_table 0 "run --all" "$ctl" clients --sort memory
claim_json kernels_have_sources 'j["schema"] == "fusionctl.kernels/1" and any("FP_CONTRACT OFF" in k.get("source", "") for k in j["kernels"])' \
	"$ctl" kernels --source=all --json
claim kernels_are_a_table 0 "^ *0  map" "$ctl" kernels
claim_json a_private_daemon_s_user_looks_after_his_cache 'j["folder"] == "'"$root"'/cache" and j["notes"]["count"] > 0' "$ctl" cache stat --json
claim no_such_column 64 "sort takes session, .*, not .size." "$ctl" clients --sort size

if [ "$(id -u)" = 0 ]; then
	stranger="setpriv --reuid 65534 --regid 65534 --clear-groups"
	admin="setpriv --reuid 65534 --regid 65534 --groups $(getent group games | cut -d: -f3)"
	chmod 644 "$root"/*.fz
	# shellcheck disable=SC2086
	{
		claim_json others_clients_are_not_seen 'j["clients"] == []' $stranger "$ctl" clients --json
		claim_json nor_their_sessions 'j["sessions"] == [] and j["session_count"] >= 1' $stranger "$ctl" status --json
		claim nor_kernels 77 "only an administrator" $stranger "$ctl" kernels
		claim nor_settings 77 "may see all settings" $stranger "$ctl" config --show-origin
		claim nor_graphs 65 "no other session that you may see" $stranger "$ctl" explain --last
		claim others_are_not_ended 77 "only root, the daemon's user and members of the group games may end a client" $stranger "$ctl" kill "$session"
		claim settings_are_not_changed 77 "members of the group games may change fusion.enabled for everybody" $stranger "$ctl" config set fusion.enabled no
		claim patterns_are_not_defined 77 "members of the group games may define patterns for everybody" $stranger "$ctl" patterns define 'p(a)' 'a * a'
		claim tuning_is_refused 77 "tune FILE is for administrators: .*fusion.tracker_share may be at most" $stranger "$ctl" tune "$root/short.fz"
		claim warming_is_refused 77 "members of the group games may have kernels built ahead" $stranger "$ctl" cache warm "$root/short.fz"
		claim the_quarantine_is_not_seen 77 "only root, the daemon's user and members of the group games may look at the quarantine" $stranger "$ctl" quarantine
		claim nor_cleared 77 "may look at the quarantine" $stranger "$ctl" quarantine clear
		claim the_cache_is_not_looked_at 77 "only root, the daemon's user and members of the group games may look after the cache" $stranger "$ctl" cache stat
		claim nor_verified 77 "may look after the cache" $stranger "$ctl" cache verify
		claim nor_pruned 77 "may look after the cache" $stranger "$ctl" cache prune --size 0
		claim a_member_of_the_group_clears_the_quarantine 0 "" $admin "$ctl" quarantine clear
		claim_json a_member_looks_at_a_cache_that_is_not_his_to_read 'j["notes"]["count"] > 0' $admin "$ctl" cache stat --json
		claim and_prunes_it 0 "^programs" $admin "$ctl" cache prune --size 1G
		claim_json and_verifies_it 'j["damaged"]["count"] == 0' $admin "$ctl" cache verify --json
		claim a_size_is_a_size 65 "cache.bytes" $admin "$ctl" cache prune --size much
		claim a_member_tunes 0 "" $admin "$ctl" tune "$root/short.fz"
		claim graphs_run 0 "^z f32" $stranger "$ctl" run "$root/short.fz"
		claim_json a_member_of_the_group_sees_clients 'len(j["clients"]) == 1' $admin "$ctl" clients --json
		claim_json and_all_settings 'any(s["name"] == "door.admins" for s in j["settings"])' $admin "$ctl" config --show-origin --json
		claim and_changes_them 0 "" $admin "$ctl" config set fusion.min_elements 1
		$stranger "$ctl" monitor --json --kind request >"$root/stranger" 2>&1 &
		watcher=$!
		until_does sh -c "$stranger '$ctl' run '$root/short.fz' && grep -q SUBMIT '$root/stranger'"
		"$ctl" run "$root/short.fz" >/dev/null
		kill $watcher
		wait $watcher || true
		"$ctl" status --json >"$root/status"
		claim a_stranger_watches_himself 0 "SUBMIT" cat "$root/stranger"
		claim and_nobody_else 0 "^65534$" "$python" -c "
import json, re, sys
seen = {json.loads(line)['session'] for line in open(sys.argv[1]) if '\"session\"' in line}
users = dict(re.findall(r'session (\d+) of user (\d+), process \d+: ', open(sys.argv[2]).read()))
assert seen
print(' '.join({users[str(s)] for s in seen}))" "$root/stranger" "$root/log"
		claim a_member_ends_a_client 0 "" $admin "$ctl" kill pid=$client
	}
else
	skip "only root can be another user" others_clients_are_not_seen nor_their_sessions nor_kernels nor_settings nor_graphs \
		others_are_not_ended settings_are_not_changed patterns_are_not_defined tuning_is_refused \
		warming_is_refused the_quarantine_is_not_seen nor_cleared the_cache_is_not_looked_at \
		nor_verified nor_pruned a_member_of_the_group_clears_the_quarantine \
		a_member_looks_at_a_cache_that_is_not_his_to_read and_prunes_it and_verifies_it \
		a_size_is_a_size a_member_tunes graphs_run a_member_of_the_group_sees_clients and_all_settings \
		and_changes_them a_stranger_watches_himself and_nobody_else a_member_ends_a_client
	claim a_client_is_ended 0 "" "$ctl" kill pid=$client
fi
until_does sh -c "'$ctl' clients --json | grep -q '\"clients\":\[\]'"
claim_json an_ended_client_is_gone 'j["clients"] == []' "$ctl" clients --json
exec 3<&-
wait $client || true
claim the_log_says_who_ended_it 0 "process $client, is ended by user" cat "$root/log"
claim a_client_that_is_not_there 65 "there is no session 999999" "$ctl" kill 999999
claim a_client_is_a_number 64 "the number of a session" "$ctl" kill everybody

# ---- events ----
"$ctl" monitor --json >"$root/monitor" &
watcher=$!
until_does sh -c "'$ctl' run '$root/short.fz' && grep -q '\"kind\":\"run\"' '$root/monitor'"
kill $watcher
wait $watcher && code=0 || code=$?
claim monitoring_ends_well 0 "^0$" echo "$code"
claim every_line_is_an_object_and_tells_of_a_graph 0 "^right" "$python" -c "
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
events = lines[1:]
assert lines[0] == {'schema': 'fusionctl.monitor/1'}
kinds = {e['kind'] for e in events}
assert {'request', 'window', 'plan', 'launch', 'run'} <= kinds, kinds
assert all(e['end_ns'] >= e['begin_ns'] for e in events if 'end_ns' in e)
assert any(e['kind'] == 'launch' and e['text'] == 'mul tanh' and e['operations'] == 2 for e in events)
assert any(e['kind'] == 'request' and e['name'] == 'SUBMIT' for e in events)
print('right')" "$root/monitor"
"$ctl" monitor --kind device --json >"$root/device" &
watcher=$!
until_does sh -c "'$ctl' run '$root/short.fz' && grep -q '\"kind\":\"device\"' '$root/device'"
kill $watcher
wait $watcher || true
claim_json times_on_the_device_are_told_to_who_asks_for_them 'j["operations"] == 2 and j["tasks"] == 1 and j["end_ns"] > j["begin_ns"] and
	j["session"] > 0 and j["text"].endswith(": mul tanh")' sh -c "sed -n 2p '$root/device'"
claim and_to_nobody_else 1 "" grep '"kind":"device"' "$root/monitor"
claim monitor_is_for_people_too 0 "SECONDS CLIENT" "$ctl" monitor --seconds 0.1
claim no_such_kind 64 "do you mean launch?" "$ctl" monitor --kind launches
claim seconds_are_a_number 64 "no number of seconds" "$ctl" monitor --seconds soon

"$ctl" trace record "$root/trace.json" --json >"$root/recorded" &
watcher=$!
# The first may be of a launch that was under way when the recording began.
until_does sh -c "'$ctl' run '$root/short.fz' && grep '\"cat\":\"device\"' '$root/trace.json' | tail -n +2 | grep -q ."
kill $watcher
wait $watcher || true
claim_json a_recording_is_reported 'j["schema"] == "fusionctl.trace/1" and j["events"] > 0' cat "$root/recorded"
# What Chrome's format wants: a duration of complete events, which do not overlap on their track; pairs of asynchronous ones.
claim a_timeline_is_in_the_format_of_browsers 0 "^right" "$python" -c "
import json, sys
t = json.load(open(sys.argv[1]))
events, tracks, open_pairs = t['traceEvents'], {}, {}
for e in events:
    assert isinstance(e['name'], str) and isinstance(e['pid'], int) and e['ph'] in 'MXbe', e
    if e['ph'] == 'X':
        assert e['dur'] >= 0
        tracks.setdefault((e['pid'], e['tid']), []).append((e['ts'], e['ts'] + e['dur']))
    if e['ph'] == 'b':
        open_pairs[e['cat'], e['id']] = e['ts']
    if e['ph'] == 'e':
        assert e['ts'] >= open_pairs.pop((e['cat'], e['id']))
assert not open_pairs and t['schema'] == 'fusionctl.trace/1'
for spans in tracks.values():
    spans.sort()
    assert all(a[1] <= b[0] + 1e-3 for a, b in zip(spans, spans[1:])), spans
named = {e['pid'] for e in events if e['name'] == 'process_name'}
assert {e['pid'] for e in events} == named
assert any(e.get('cat') == 'launch' and e['args']['kernel'] == 'mul tanh' for e in events)
# Each launch is on the device once, after it was handed over, and the kernel takes longer than nothing.
launches = [e for e in events if e.get('cat') == 'launch']
ran = [e for e in events if e.get('cat') == 'device' and e['pid'] in {l['pid'] for l in launches}]
assert 0 < len(ran) <= len(launches), (ran, launches)
for e in ran:
    kind, names = e['args']['kernel'].split(': ')
    assert e['name'] == kind + ': mul tanh' and kind in ('map', 'bytecode'), e
    assert (e['args']['operations'], e['args']['tasks']) == (2, 1) and e['dur'] > 0
    before = [l for l in launches if l['pid'] == e['pid'] and l['ts'] <= e['ts'] + 1e-3]
    assert before and e['args']['operations'] == before[-1]['args']['operations'], (e, launches)
print('right')" "$root/trace.json"
# The same for Perfetto, read by its description alone: packets, of which each slice has two, on tracks that belong to processes.
"$ctl" trace record "$root/trace.pftrace" >"$root/recorded" &
watcher=$!
until_does sh -c "'$ctl' run '$root/short.fz' && grep -aq 'mul tanh' '$root/trace.pftrace' && grep -aq ': mul tanh' '$root/trace.pftrace'"
kill $watcher
wait $watcher || true
claim a_timeline_is_in_the_format_of_perfetto 0 "^right" "$python" tests/perfetto.py "$root/trace.pftrace"
claim a_file_that_cannot_be_written 74 "cannot be written" "$ctl" trace record "$root/none/trace.json"
claim trace_records 64 "trace takes record FILE" "$ctl" trace play

# ---- settings and where they come from ----
claim_json origins_are_told '{s["name"]: s["origin"] for s in j["settings"] if s["name"] in ("limits.handles", "limits.tokens", "cache.dir", "cache.bytes")} ==
	{"limits.handles": "'"$root"'/fusiond.conf:4", "limits.tokens": "$FUSIOND_LIMITS_TOKENS", "cache.dir": "command line", "cache.bytes": "standard"}' \
	"$ctl" config --show-origin --json
"$ctl" config set fusion.weight 50
claim a_change_is_told_apart 0 "fusion.weight  50  config set" "$ctl" config get fusion.weight --show-origin
# What administrators changed outlives the engine that did it.
engine_of() {
	for child in $(cat "/proc/$daemon/task/$daemon/children"); do
		tr '\0' ' ' <"/proc/$child/cmdline" | grep '^fusiond-engine ' | grep -q -v -e --worker && echo "$child"
	done
	return 0
}
"$ctl" patterns define 'doubled_sum(a, b)' 'd = a + b; d + d'
"$ctl" patterns define 'gone(a, b)' 'd = a * b; d + d'
"$ctl" patterns forget gone
"$ctl" config set fusion.pattern.doubled_sum off
first=$(engine_of)
kill -9 "$first"
until_does grep -q 'engine 0 is ready again' "$root/log"
until_does "$ctl" config get fusion.weight
claim a_change_outlives_an_engine 0 "^50$" "$ctl" config get fusion.weight
claim_json and_so_do_patterns_of_everybody '[p["on"] for p in j["patterns"] if p["pattern"] == "doubled_sum"] == ["no"] and
	not [p for p in j["patterns"] if p["pattern"] == "gone"]' "$ctl" patterns --json
kill -HUP "$daemon"
until_does grep -q 'the configuration was read again' "$root/log"
claim a_reload_takes_back_settings 0 "" until_does sh -c "test \"\$('$ctl' config get fusion.weight)\" = 100"
kill -9 "$(engine_of)"
until_does sh -c "test \$(grep -c 'engine 0 is ready again' '$root/log') = 2"
until_does "$ctl" config get fusion.weight
claim also_for_the_engine_after_that 0 "^100$" "$ctl" config get fusion.weight
claim settings_of_a_start_are_told 0 "^5000$" "$ctl" config get limits.handles
claim_json one_setting_as_json 'j["limits.handles"] == "5000"' "$ctl" config get limits.handles --json
claim an_unknown_setting 65 "there is no setting limits.hand" "$ctl" config get limits.hand

# ---- latency, top, completion ----
claim_json latency_is_measured '[l["what"] for l in j["latencies"]] == ["answer", "run", "read"] and
	all(0 < l["p50_us"] <= l["p99_us"] <= l["most_us"] for l in j["latencies"])' "$ctl" latency --json
claim top_on_a_pipe_is_text 0 "^memory  *[0-9]" "$ctl" top --once --sort device
claim top_on_a_terminal_obeys_keys 0 "^right" "$python" -c "
import os, pty, select, sys
child, terminal = pty.fork()
if not child:
    os.environ['TERM'] = 'xterm'
    os.execv(sys.argv[1], [sys.argv[1], 'top'])
def wait_for(text):
    seen = b''
    while text not in seen:
        if not select.select([terminal], [], [], 60)[0]:
            sys.exit('not seen: %r in %r' % (text, seen))
        seen += os.read(terminal, 65536)
wait_for(b'keys 1 to 9')
os.write(terminal, b'5')
wait_for(b'memory')
os.write(terminal, b'q')
try:
    while os.read(terminal, 65536):
        pass
except OSError:
    pass
assert os.waitpid(child, 0)[1] == 0
print('right')" "$ctl"
if command -v bash >/dev/null; then
	cat >"$root/complete.bash" <<'BASH'
source client/fusionctl/completion.bash
complete_line() {
	COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
	_fusionctl
	echo "${COMPREPLY[*]}"
}
complete_line "$1" mon
complete_line "$1" --show-o
complete_line "$1" config get limits.hand
complete_line "$1" config get fusion.min
BASH
	claim bash_completes_commands 0 "^monitor$" bash "$root/complete.bash" "$ctl"
	claim and_options 0 "^--show-origin$" bash "$root/complete.bash" "$ctl"
	claim and_settings 0 "^fusion.min_elements$" bash "$root/complete.bash" "$ctl"
fi
claim no_colours_where_they_are_not_wanted 0 "" sh -c "! NO_COLOR=1 '$ctl' doctor | grep -q '\['"

finish_claims
