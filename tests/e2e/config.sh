#!/bin/sh
# A configuration that is wrong is refused before anything starts: by --check and by a start, in the same words, with the place, and
# exit code 78; and so is an environment of variables that there are not, by the daemon, the library and its programs.
. "$(dirname "$0")/../claims.sh"
daemon_of="$build/fusiond --socket $root/door --cache-dir $root/cache"

# refused CLAIM PATTERN COMMAND...: by a check and by a start.
refused() {
	what=$1 says=$2
	shift 2
	claim "$what" 78 "^fusiond: $says" timeout 60 "$@" --check
	claim "${what}_at_a_start" 78 "^fusiond: $says" timeout 60 "$@"
}

# in_file CLAIM PATTERN TEXT: the same of a file, whose place is told.
in_file() {
	printf "$3" >"$root/fusiond.conf"
	# shellcheck disable=SC2086
	refused "$1" "$root/fusiond.conf:$2" $daemon_of --config "$root/fusiond.conf"
}

touch "$root/a-file"
in_file an_unknown_setting '2: there is no setting door.mod; do you mean door.mode?$' '[door]\nmod = 0600\n'
in_file an_unknown_section '2: there is no setting dor.mode; do you mean door.mode?$' '[dor]\nmode = 0600\n'
in_file a_wrong_value "2: door.mode is '0999'" '[door]\nmode = 0999\n'
in_file an_unknown_group '3: door.admins: this machine has no group "nobodys-group"' '[door]\n# who\nadmins = nobodys-group\n'
in_file an_unknown_knob '2: fusion.knobs: .*speed' '[fusion]\nknobs = speed=most\n'
in_file an_unknown_value_of_a_knob '2: fusion.knobs: the knob share has no value half' '[fusion]\nknobs = share=half\n'
in_file an_unknown_operation_of_a_pair '2: fusion.apart: there is no operation reluu' '[fusion]\napart = matmul:reluu\n'
in_file an_unknown_strategy "2: device.strategy: 'fpga'" '[device]\nstrategy = fpga\n'
in_file a_relative_folder "2: engine.operations: 'conf.d' is no absolute path" '[engine]\noperations = conf.d\n'
in_file a_missing_folder "2: engine.operations: the folder $root/none: No such" "[engine]\noperations = $root/none\n"
in_file a_file_for_a_folder "2: engine.operations: $root/a-file is no folder" "[engine]\noperations = $root/a-file\n"
in_file metrics_in_a_missing_folder "2: metrics.file: the folder $root/none" "[metrics]\nfile = $root/none/text.prom\n"
in_file a_socket_in_a_missing_folder "2: metrics.socket: the folder $root/none" "[metrics]\nsocket = $root/none/metrics\n"
in_file a_missing_engine "2: engine.path: the file $root/none: No such" "[engine]\npath = $root/none\n"
# shellcheck disable=SC2086
refused a_relative_cache "command line: cache.dir: 'cache' is no absolute path" $daemon_of --config /dev/null --cache-dir cache
# shellcheck disable=SC2086
refused a_cache_in_a_missing_folder "command line: cache.dir: the folder $root/none" $daemon_of --config /dev/null --cache-dir "$root/none/cache"
# shellcheck disable=SC2086
refused a_relative_socket "command line: door.socket: 'door'" $daemon_of --config /dev/null --socket door
# shellcheck disable=SC2086
refused a_flag_of_no_setting "command line: there is no setting door.mod; do you mean door.mode?$" $daemon_of --config /dev/null --set door.mod=0600
# shellcheck disable=SC2086
refused a_group_in_the_environment '\$FUSIOND_DOOR_ADMINS: door.admins: this machine has no group' \
	env FUSIOND_DOOR_ADMINS=nobodys-group $daemon_of --config /dev/null
# shellcheck disable=SC2086
refused a_mistyped_variable 'environment variable FUSIOND_DOOR_MOD: there is no setting of that name; do you mean FUSIOND_DOOR_MODE?$' env FUSIOND_DOOR_MOD=0600 $daemon_of --config /dev/null
# shellcheck disable=SC2086
refused a_mistyped_variable_of_the_library 'environment variable FUSION_SOKET: there is no such variable; do you mean FUSION_SOCKET?' env FUSION_SOKET=/x $daemon_of --config /dev/null
# shellcheck disable=SC2086
refused a_variable_of_neither 'environment variable FUSION_DOOR_MODE: there is no such variable' env FUSION_DOOR_MODE=0600 $daemon_of --config /dev/null
# shellcheck disable=SC2086
claim a_good_one_is_printed 0 "^door.mode=0600" $daemon_of --config /dev/null --set door.mode=0600 --check
# shellcheck disable=SC2086
claim quietly_where_asked 0 "" $daemon_of --config /dev/null --check --quiet
claim it_says_nothing_then 0 "" test ! -s "$root/out"

# ---- the library, as programs meet it ----

start_on "$root/cache"
printf 'x = input f32[4] ramp\ny = mul x 3\nz = sin y\noutput z\n' >"$root/graph.fz"
ctl=$build/fusionctl
claim a_switch_that_is_none_is_refused 65 "environment variable FUSION_ENABLED is 'maybe', but wants yes or no" env FUSION_ENABLED=maybe "$ctl" run "$root/graph.fz"
for word in off no 0 false; do
	claim_json "fusion_is_$word" 'len(j["kernels"]) == 2' env FUSION_ENABLED=$word "$ctl" explain --json "$root/graph.fz"
done
for word in on yes 1 true ""; do
	claim_json "fusion_is_${word:-empty}" 'len(j["kernels"]) == 1' env FUSION_ENABLED=$word "$ctl" explain --json "$root/graph.fz"
done
claim a_number_that_is_none_is_refused 65 "FUSION_RETURN_MS is 'soon', but wants milliseconds" env FUSION_RETURN_MS=soon "$ctl" run "$root/graph.fz"
claim a_number_beyond_its_limit_is_refused 65 "FUSION_RETURN_MS is '99999999999'" env FUSION_RETURN_MS=99999999999 "$ctl" run "$root/graph.fz"
claim a_transport_that_is_none_is_refused 65 "FUSION_TRANSPORT is 'carrier', but wants auto or nng" env FUSION_TRANSPORT=carrier "$ctl" run "$root/graph.fz"
claim debug_that_is_none_is_refused 65 "FUSION_DEBUG is '2'" env FUSION_DEBUG=2 "$ctl" run "$root/graph.fz"
claim a_name_that_is_none_is_refused 65 "FUSION_ENABLE: there is no such variable; do you mean FUSION_ENABLED? (" env FUSION_ENABLE=0 "$ctl" run "$root/graph.fz"
claim a_name_that_is_none_near_is_refused 65 "FUSION_COLOUR: there is no such variable (" env FUSION_COLOUR=red "$ctl" run "$root/graph.fz"
claim a_setting_that_is_none_is_refused 65 "there is no setting fusion.enbaled; do you mean fusion.enabled?" "$ctl" config set fusion.enbaled no
claim what_asks_the_door_alone_refuses_it_too 65 "FUSION_SOKET: there is no such variable" env FUSION_SOKET=/x "$ctl" status
claim_json as_json_too 'j["error"]["code"] == "ARGUMENT" and "FUSION_SOKET" in j["error"]["sentence"]' env FUSION_SOKET=/x "$ctl" status --json
for port in 65536 99999 12x -1; do
	claim "port_$port" 65 "a port is a number of at most 65535" "$ctl" --socket tcp://127.0.0.1:$port status
done
for url in tls://127.0.0.1:7000 unix:///run/fusiond/door tcp+tls://x a://; do
	claim "$(printf url_%s "$url" | tr -c 'a-z0-9_\n' _)_is_none" 65 "\"$url\" is neither tcp://HOST:PORT nor tls+tcp://HOST:PORT" "$ctl" --socket "$url" status
done

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
