#!/bin/sh
# fusionctl as a person meets it: each command, its JSON, its errors and its exit codes.
. "$(dirname "$0")/../claims.sh"

ctl=$build/fusionctl
cat >"$root/good.fz" <<'GRAPH'
x = input f32[2,3] = 1 -2 nan inf 0.1 -0
y = relu x
z = add y 1
output y z
GRAPH
printf 'x = input f32[2] ramp\ny = ad x 1\noutput y\n' >"$root/unknown.fz"
printf 'x = input f32[2] ramp\nw = input f32[3] ramp\ny = add x w\noutput y\n' >"$root/shapes.fz"

claim no_command_is_wrong_usage 64 "which command" "$ctl"
claim unknown_commands_are_wrong_usage 64 "there is no command 'stat'" "$ctl" stat
claim options_of_other_commands_are_wrong_usage 64 "status does not take --source" "$ctl" status --source
claim a_missing_file_name_is_wrong_usage 64 "explain wants the name of a text graph" "$ctl" explain
claim help_lists_the_commands 0 "^  explain  *which operations" "$ctl" --help
claim help_of_a_command_tells_of_it_alone 0 "^Usage: fusionctl explain .OPTION....  *.FILE.$" "$ctl" explain --help
claim and_not_of_others 1 "" sh -c "'$ctl' explain --help | grep -e --sort -e monitor -e cache"
claim a_word_asks_for_help_too 0 "^Usage: fusionctl cache .*prune" "$ctl" help cache
# Of each command: its help is no wider than a terminal, and its example is a line that the program takes.
"$ctl" --complete | sed -n 's/^word //p' >"$root/commands"
while read -r command; do
	"$ctl" "$command" --help
done <"$root/commands" >"$root/help"
"$ctl" --help >>"$root/help"
claim no_line_of_help_is_wider_than_a_terminal 1 "" grep -E '^.{81}' "$root/help"
claim no_line_of_help_ends_in_blanks 1 "" grep -n ' $' "$root/help"
claim every_command_has_an_example 0 "" sh -c "[ \$(grep -c '^  fusionctl ' '$root/help') = \$(wc -l <'$root/commands') ]"
sed -n 's/^  fusionctl //p' "$root/help" >"$root/examples"
program=$(realpath "$ctl")
while read -r example; do
	got=0
	(cd "$root" && eval "\"$program\" $example --limit 0.1" </dev/null >said 2>&1) || got=$?
	[ "$got" != 64 ] || echo "$example: $(cat "$root/said")"
done <"$root/examples" >"$root/refused"
claim examples_are_taken 0 "" cmp "$root/refused" /dev/null
# What was mistyped: the line, and what was meant.
while IFS='|' read -r line meant; do
	# shellcheck disable=SC2086
	claim "mistyped: $line" 64 "do you mean $meant?" "$ctl" $line
done <<'MISTYPED'
explian x.fz|explain
stat|stats
explain --sorce x.fz|--source
--jsno status|--json
cache prun|prune
config sett x y|set
quarantine clera|clear
patterns defin x y|define
trace recrod x|record
bench patern linear 3|pattern
monitor --kind launch,lunch|launch
top --sort memroy|memory
MISTYPED
claim an_option_names_its_values 64 "sort takes session, engine, .* or command, not 'mem'" "$ctl" clients --sort mem
claim an_option_without_its_value 64 "session wants a value: NUMBER" "$ctl" explain --session
claim a_value_that_nothing_takes 64 "json takes no value" "$ctl" status --json=yes
claim what_tells_more_is_said 64 "^fusionctl explain --help tells more" "$ctl" explain --sorce
claim version_is_told 0 "^fusionctl [0-9]" "$ctl" --version
claim status_without_a_daemon_says_so 69 "no daemon answers at $root/door" "$ctl" status
claim run_without_a_daemon_says_so 69 "no daemon answers" "$ctl" run "$root/good.fz"
echo kept >"$root/timeline.json"
claim a_timeline_of_nobody_says_so 69 "no daemon answers" "$ctl" trace record --seconds 0.1 "$root/timeline.json"
claim and_leaves_the_file 0 "^kept$" cat "$root/timeline.json"
claim_json errors_are_json_too 'j["schema"] == "fusionctl.error/1" and j["error"]["code"] == "CONNECT"' "$ctl" --json status

"$build/fusiond" --config /dev/null --socket "$root/door" --cache-dir "$root/cache" >"$root/log" 2>&1 &
daemon=$!
tries=0
until "$ctl" status >/dev/null 2>&1; do
	tries=$((tries + 1))
	if [ "$tries" -gt 1200 ] || ! kill -0 "$daemon" 2>/dev/null; then
		echo "the daemon did not start:"
		cat "$root/log"
		echo "$passed passed, $((failed + 1)) failed"
		exit 1
	fi
	sleep 0.1
done

claim status_shows_the_engine 0 "^engine  *ready, process" "$ctl" status
claim status_of_a_socket_given 0 "^device" env -u FUSION_SOCKET "$ctl" --socket "$root/door" status
claim_json status_is_json 'j["engines"][0]["state"] == "ready" and j["sessions"] == []' "$ctl" status --json
claim run_prints_rows 0 "^y f32\[2,3\]" "$ctl" run "$root/good.fz"
claim_json run_gives_every_bit 'j["outputs"][0]["values"] == [1, 0, "nan", "inf", 0.1, 0] and
	j["outputs"][1] == {"name": "z", "dtype": "f32", "dims": [2, 3], "values": [2, 1, "nan", "inf", 1.1, 1]}' \
	"$ctl" run --json "$root/good.fz"
claim run_reads_standard_input 0 "^\[2 3 4\]" sh -c "printf 'x = input i8[3] = 1 2 3\ny = add x 1\noutput y\n' | $ctl run -"
claim large_outputs_are_shown_by_their_edges 0 "0  *1  *2 \.\.\. 1997 1998 1999\]" \
	sh -c "printf 'x = arange i32[2000] 0 1\noutput x\n' | $ctl run -"
claim_json explain_tells_kernels 'j["kernel_count"] == 1 and j["unfused_kernel_count"] == 2 and
	[o["op"] for o in j["kernels"][0]["operations"]] == ["relu", "add"] and "source" not in j["kernels"][0]' \
	"$ctl" explain --json "$root/good.fz"
claim explain_begins_with_what_fusing_gains 0 "^1 kernel; without fusion 2: 50.0 % fewer, and [0-9.]* % less memory is moved" "$ctl" explain "$root/good.fz"
claim_json explain_unfused_tells_each 'len(j["kernels"]) == 2' "$ctl" explain --unfused --json "$root/good.fz"
claim explain_shows_the_source 0 "^void fused(" "$ctl" explain --source "$root/good.fz"
claim the_kernels_own_alone 1 "" sh -c "'$ctl' explain --source '$root/good.fz' | grep -e FP_CONTRACT -e '^ \* section'"
claim with_the_librarys_functions_where_all_is_wanted 0 "FP_CONTRACT OFF" "$ctl" explain --source=all "$root/good.fz"
claim_json the_same_in_json '"fused(" in j["kernels"][0]["source"] and "FP_CONTRACT" not in j["kernels"][0]["source"]' "$ctl" explain --source --json "$root/good.fz"
claim kernels_tell_their_own_text_too 1 "" sh -c "'$ctl' kernels --source | grep -e '^ \* section'"
claim and_all_of_it 0 "^ \* section" "$ctl" kernels --source=all
claim_json stats_count_what_ran 'j["runs"] >= 4 and j["kernels_launched"] <= j["kernels_unfused"]' "$ctl" stats --json
claim stats_have_units 0 "^device" "$ctl" stats
claim config_lists_the_settings 0 "^fusion.pattern.linear  *yes" "$ctl" config
claim config_sets_a_setting 0 "" "$ctl" config set fusion.pattern.elementwise_chain off
claim config_gets_a_setting 0 "^no$" "$ctl" config get fusion.pattern.elementwise_chain
claim_json patterns_that_are_off_are_not_made 'j["kernel_count"] == 2 and
	"elementwise_chain is switched off" in j["not_fused"][0]["reason"] and len(j["not_fused"]) == 1 and
	j["not_fused"][0]["producer_at"] == "'"$root"'/good.fz:2" and j["not_fused"][0]["consumer_at"] == "'"$root"'/good.fz:3"' "$ctl" explain --json "$root/good.fz"
claim the_reason_stands_beside_its_lines 0 "^ *relu at .*good.fz:2 into add at .*good.fz:3: the pattern elementwise_chain is" "$ctl" explain "$root/good.fz"
claim config_sets_it_again 0 "" "$ctl" config set fusion.pattern.elementwise_chain on
claim_json can_fuse_says_yes_with_the_kernel 'j["fused"] and j["kernel"] == 1 and [o["op"] for o in j["operations"]] == ["relu", "add"] and
	j["schema"] == "fusionctl.can-fuse/1"' "$ctl" can-fuse --json "$root/good.fz" y z
cat >"$root/two.fz" <<'EOF'
a = input f32[2,3] = 1 2 3 4 5 6
b = add a 1
c = relu b
x = input f32[1000,1000] ramp
y = mul x 2
z = relu y
output c
output z
EOF
claim_json opportunities_are_sorted_by_gain '[o["operations"][0]["op"] for o in j["opportunities"]] == ["mul", "add"] and
	all(o["estimated_gain_us"] > 0 and o["bytes_saved"] > 0 and o["operations"][0]["id"] >= 0 for o in j["opportunities"]) and
	j["opportunities"][1]["operations"][0]["at"].endswith("two.fz:2")' "$ctl" opportunities --json "$root/two.fz"
printf 'a = input f32[64] ramp\nb = input f32[64] ramp\nx = exp a\ny = exp b\noutput x\noutput y\n' >"$root/beside.fz"
claim_json explain_tells_of_kernels_that_share_a_launch_before_they_run 'j["shared_launches"][0]["pattern"] == "horizontal" and j["shared_launches"][0]["kernels"] == [1, 2] and
	1 < j["shared_launches"][0]["estimated_speedup"] < 2' "$ctl" explain --json "$root/beside.fz"
"$ctl" run "$root/beside.fz" >/dev/null
claim_json and_after_it 'j["shared_launches"][0]["kernels"] == [1, 2]' "$ctl" explain --json "$root/beside.fz"
claim in_words 0 "^kernels 1 and 2 share a launch: horizontal, estimated 1.[0-9]* times as fast" "$ctl" explain "$root/beside.fz"
claim_json statistics_have_the_estimate_too 'any(p["pattern"] == "horizontal" and p["estimated_speedup"] > 1 for p in j["patterns"]) and j["fusions"] >= 1' "$ctl" stats --json
claim opportunities_are_told_in_words 0 "^kernel [12], in place of 2 kernels: estimated .* less" "$ctl" opportunities "$root/two.fz"
claim what_is_one_operation_has_none 0 "no operations of it share a kernel" sh -c "printf 'x = input f32[2] = 1 2\ny = relu x\noutput y\n' | $ctl opportunities -"
claim can_fuse_says_yes_in_words 0 "^yes: kernel 1, elementwise_chain, computes relu, add" "$ctl" can-fuse "$root/good.fz" y z
claim can_fuse_says_no_with_the_lines 0 "^no: relu at .*good.fz:2 is not in one kernel with add at .*good.fz:3: fusion is off" "$ctl" can-fuse --unfused "$root/good.fz" y z
claim can_fuse_names_what_is_not_there 65 "has no array named 'nothing'" "$ctl" can-fuse "$root/good.fz" nothing nothing
claim can_fuse_is_asked_of_operations 65 "good.fz:1:1: x is an input, which no kernel computes; name two operations" "$ctl" can-fuse "$root/good.fz" x y
claim can_fuse_wants_two 64 "can-fuse wants FILE FIRST SECOND" "$ctl" can-fuse "$root/good.fz"
for command in status stats patterns operations config quarantine clients info kernels "top --once" "cache stat" "explain $root/good.fz" "run $root/good.fz"; do
	# shellcheck disable=SC2086
	claim_json "schema_of_${command%% *}" 'list(j)[0] == "schema" and j["schema"] == "fusionctl.'"${command%% *}"'/1"' "$ctl" $command --json
done
claim_json config_is_json 'j["fusion.pattern.elementwise_chain"] == "yes" and j["fusion.enabled"] == "yes"' "$ctl" config --json
claim config_knows_what_was_meant 65 "no setting fusion.enable; do you mean fusion.enabled?" "$ctl" config get fusion.enable
claim config_refuses_what_does_not_exist 65 "there is no setting fusion.patern.linear" "$ctl" config set fusion.patern.linear off
claim config_refuses_what_needs_a_start 65 "engine.plans cannot be changed this way" "$ctl" config set engine.plans 3
claim config_wants_a_value 64 "config set wants NAME VALUE" "$ctl" config set fusion.enabled
claim explain_names_the_pattern 0 "elementwise_chain: 24 B less to move, estimated" "$ctl" explain "$root/good.fz"
claim graph_draws_kernels_as_boxes 0 "^subgraph cluster_1" "$ctl" graph "$root/good.fz"
cp "$root/good.fz" "$root/kept.fz"
for words in "report $root/kept.fz" "report $root/kept.fz --last" "graph --dot $root/kept.fz $root/good.fz" "graph --svg $root/kept.fz $root/good.fz" "trace record --seconds 0.1 $root/kept.fz"; do
	# shellcheck disable=SC2086
	claim "no_graph_is_written_over: $words" 65 "kept.fz is the name of a text graph, which would be lost" "$ctl" $words
done
echo "not to be lost" >"$root/notes"
claim nor_what_is_no_page 65 "notes is there and is no page of HTML: it stays as it is" "$ctl" report "$root/notes" "$root/good.fz"
claim they_are_as_they_were 0 "^not to be lost$" sh -c "cmp '$root/good.fz' '$root/kept.fz' && cat '$root/notes'"
claim a_page_is_written_over_a_page 0 "" sh -c "'$ctl' report '$root/page.html' '$root/good.fz' && '$ctl' report '$root/page.html' '$root/good.fz'"
claim a_page_goes_to_standard_output 0 "^<!DOCTYPE html" "$ctl" report - "$root/good.fz"
claim but_not_among_json 65 "with --json a page does not go to standard output" "$ctl" report - "$root/good.fz" --json
for words in "report $root/none/page.html $root/good.fz" "graph --dot $root/none/graph.dot $root/good.fz" "trace record --seconds 0.1 $root/none/trace.json"; do
	# shellcheck disable=SC2086
	claim "what_cannot_be_written_has_its_code: $words" 74 "cannot be written: No such" "$ctl" $words
done
claim graph_writes_a_file 0 "" "$ctl" graph --dot "$root/good.dot" "$root/good.fz"
claim graph_joins_operations 0 "^n[0-9]* -> n[0-9]*" cat "$root/good.dot"
if command -v dot >/dev/null; then
	claim graph_draws_a_picture 0 "" "$ctl" graph --svg "$root/good.svg" "$root/good.fz"
	claim the_picture_is_svg 0 "<svg" cat "$root/good.svg"
fi
claim graph_without_graphviz_says_so 65 "dot is not installed" env PATH="$root" "$ctl" graph --svg "$root/none.svg" "$root/good.fz"
claim_json bench_measures_a_pattern 'j["kernels"] == 1 and j["unfused_kernels"] == 3 and j["kernels_of_pattern"] == 1 and
	j["same_bits"] and j["device"]["fused_us"] > 0 and j["wall"]["unfused_median_us"] > 0' \
	"$ctl" bench pattern affine_activation 64 --json --seconds 0.1
claim_json bench_waited_for_the_kernels 'sum(k["state"] == "built" for k in j["kernels"]) >= 4' "$ctl" kernels --json
claim bench_tells_what_it_measured 0 "^b  *bf16\[8\]" "$ctl" bench pattern affine_activation "bf16[4,8]" "bf16[8]" "bf16[8]" --seconds 0.1
"$ctl" patterns define 'halved_square(a, b)' '(a * b) * 0.5'
claim bench_measures_what_an_administrator_calls_a_pattern 0 "^halved_square: (a \* b) \* 0.5" "$ctl" bench pattern halved_square 16 f64 --seconds 0.1
"$ctl" patterns forget halved_square
"$ctl" config set fusion.pattern.binary_activation off
claim bench_tells_launches_a_run 0 "^launches a run  *[0-9.]*; without fusion [0-9.]*$" "$ctl" bench pattern linear 16 --seconds 0.1
claim bench_says_where_there_is_no_such_kernel 0 "does not make it here" "$ctl" bench pattern binary_activation 32 --seconds 0.1
"$ctl" config set fusion.pattern.binary_activation on
claim bench_wants_a_pattern 65 "there is no pattern 'linea'; do you mean linear?" "$ctl" bench pattern linea 32
claim bench_wants_a_size 64 "the size is 0, not a number from 1 to 16384" "$ctl" bench pattern linear 0
claim and_none_that_is_too_large 64 "the size is 16385, not a number from 1 to 16384" "$ctl" bench pattern linear 16385
claim however_large 64 "the size is 99999999999999999999, not a number from 1 to" "$ctl" bench pattern linear 99999999999999999999
claim bench_wants_one_size 64 "the size is 64 or 128, not both" "$ctl" bench pattern linear 64 128
claim and_one_type 64 "the element type is f16 or f64, not both" "$ctl" bench pattern linear f16 f64
claim bool_is_no_type_of_all_operands 64 "bool is no element type of all operands" "$ctl" bench pattern linear bool
claim nor_beside_types 64 "bool is no element type of all operands" "$ctl" bench pattern linear "f32[2]" bool
claim bench_tells_of_how_many_rounds 0 "^speedup, wall  *[0-9.]*, median [0-9.]*, of [0-9,]* rounds*$" "$ctl" bench pattern affine_activation 64 --seconds 0.1
claim bench_wants_a_type 64 "what is 'f31'?" "$ctl" bench pattern linear f31
claim bench_wants_a_whole_type 64 "what is 'f32\[2,x\]'?" "$ctl" bench pattern linear "f32[2,x]"
claim bench_wants_sizes_or_types 64 "nothing else is wanted" "$ctl" bench pattern linear 16 "f32[2]"
claim bench_wants_all_operands 65 "linear has 3 operands (x, w, b), not 1" "$ctl" bench pattern linear "f32[2,2]"
claim_json explain_tells_where_a_program_came_from 'j["kernels"][0]["program"]["state"] == "built" and
	"not built here before" in j["kernels"][0]["program"]["why"] and j["kernels"][0]["program"]["compile_us"] > 0 and j["plan_us"] > 0' \
	"$ctl" explain --json "$root/good.fz"
claim what_runs_now_is_told 0 "runs as its own program since [0-9]*:[0-9]*" "$ctl" explain "$root/good.fz"
printf 'x = input f32[70000] ramp\ny = sum x\noutput y\n' >"$root/long.fz"
claim a_kernel_without_operations_says_what_it_is 0 "first pass of a reduction, sum: its blocks" "$ctl" explain "$root/long.fz"
printf 'a = input f32[6] ramp\nx = input f32[4,4] ramp\ny = searchsorted a x\noutput y\n' >"$root/search.fz"
claim_json explain_tells_why_launches_wait 'j["kernels"][0]["waits_because"] in ("fusion.interpreter is off", "elements are read where an index says")' \
	"$ctl" explain --json "$root/search.fz"
claim explain_tells_it_in_words 0 "launches wait until it is built: [a-z]" "$ctl" explain "$root/search.fz"
printf 'x = input f32[4] ramp\ny = mul x 3\nz = sin y\noutput z\n' >"$root/warm.fz"
claim_json cache_warm_builds_what_a_graph_needs 'j == {"schema": "fusionctl.cache/1", "graphs": 1, "kernels": 1, "built": 1, "cached": 0, "failed": 0}' \
	"$ctl" cache warm --json "$root/warm.fz"
claim_json cache_warm_builds_nothing_twice 'j["built"] == 0' "$ctl" cache warm --json "$root/warm.fz"
claim_json cache_stat_counts 'j["folder"] == "'"$root/cache"'" and j["notes"]["count"] >= 2' "$ctl" cache stat --json
claim_json cache_verify_finds_no_damage 'j["damaged"]["count"] == 0' "$ctl" cache verify --json
claim cache_prune_takes_a_size 0 "^removed" "$ctl" cache prune --size 0K
claim fusiond_warms_a_cache_and_ends 0 "programs built, [0-9]* of them by workers" "$build/fusiond" --warm --config /dev/null --cache-dir "$root/other" --set device.measure=no
claim_json top_shows_one_screen 'j["tiers"]["compiled"] >= 4 and j["tiers"]["byte_code"] == 0 and j["device"]["builds"] == []' "$ctl" top --once --json
claim top_tells_the_tiers 0 "by programs of their own" "$ctl" top --once
claim tune_compares_the_forms_of_a_graph 0 "warm.fz: runs [a-z]*; fused [0-9.]* .*; [0-9]* of [0-9]* values* of knobs compared" "$ctl" tune "$root/warm.fz"
claim_json tuning_is_explained 'j["tuning"]["runs"] in ("fused", "single") and j["tuning"]["fused"]["samples"] >= 1' \
	"$ctl" explain --json "$root/warm.fz"
claim tune_tells_what_was_learned 0 "^compared  *[0-9]* graph" "$ctl" tune
claim knobs_are_set_by_hand 0 "" "$ctl" config set fusion.knobs "share=quarter, beside=two"
claim_json knobs_are_explained 'j["kernels"][0]["knobs"] == {"share": "quarter", "beside": "two"} and "tuning" not in j' "$ctl" explain --json "$root/warm.fz"
claim knobs_are_explained_in_words 0 "knob share at quarter" "$ctl" explain "$root/warm.fz"
claim what_is_no_knob_is_refused 65 "the knob share has no value half" "$ctl" config set fusion.knobs "share=half"
claim knobs_are_the_rules_again 0 "" "$ctl" config set fusion.knobs ""
claim cache_is_told_apart_from_its_graphs 64 "cache takes stat" "$ctl" cache tidy
# ---- one grammar for numbers: "1 kernel", "2 kernels", "as fast"; and nothing is the name of a field ----
cat >"$root/several.fz" <<'EOF'
x = input f32[300,300] ramp
y = matmul x x
z = relu y
w = sum z axes=1
v = sort w axis=0
u = add v 1
s = sum u
output s
output v
EOF
"$ctl" monitor --seconds 2 >"$root/happened" &
monitor=$!
until_does grep -q SECONDS "$root/happened"
"$ctl" run "$root/good.fz" >/dev/null
"$ctl" run "$root/several.fz" >/dev/null
wait "$monitor"
for words in status "top --once" "explain $root/good.fz" "explain $root/several.fz" "explain --unfused $root/several.fz" \
	"opportunities $root/several.fz" "can-fuse $root/several.fz y z" "can-fuse $root/good.fz y z" quarantine tune "cache warm $root/good.fz" doctor \
	"trace record --seconds 0.1 $root/few.json" "kernels --source"; do
	# shellcheck disable=SC2086
	"$ctl" $words || true
done >"$root/said" 2>&1
cat "$root/happened" >>"$root/said"
claim one_is_no_plural 1 "" grep -nE '(^|[^0-9.,])1 (kernel|array|operation|session|connection|graph|run|time|event|task|value|engine|error|warning|source|launche|program)s\b' "$root/said"
claim and_others_are_plurals 1 "" grep -nE '(^|[ (])(0|[0-9,.]*[02-9]) (kernel|array|operation|session|connection|graph|run|event|task|value|engine|error|warning|source|program)\b' "$root/said"
claim as_fast_is_not_one_time 1 "" grep -n '\b1 times as fast' "$root/said"
claim nothing_is_the_name_of_a_field 1 "" grep -nE '[a-z]_(us|ns|bytes|op|at|id)\b' "$root/happened"
claim what_happened_has_units 0 "SUBMIT, [0-9.]* [KM]*i*B$" cat "$root/happened"
for command in status "top --once" info cache\ stat "explain $root/good.fz" "explain --unfused $root/several.fz" "opportunities $root/several.fz" config \
	"config --show-origin" users doctor stats kernels clients patterns operations quarantine tune latency "can-fuse $root/several.fz y z"; do
	# shellcheck disable=SC2086
	COLUMNS=80 "$ctl" $command
done | sed "s|$root|.|g" >"$root/said"
claim no_line_is_wider_than_a_terminal 1 "" grep -nE '^.{81}' "$root/said"
claim size_is_for_prune 64 "cache stat does not take --size" "$ctl" cache stat --size 3
claim run_goes_on_without_a_cache 0 "^y f32" "$ctl" run "$root/good.fz"
claim explain_of_no_session_says_so 65 "there is no session 999999" "$ctl" explain --session 999999
claim a_file_and_a_session_are_wrong_usage 64 "not both" "$ctl" explain --last "$root/good.fz"
claim two_ways_to_name_a_session_are_too 64 "takes --last or --session, not both" "$ctl" graph --last --session 3
claim what_has_run_is_not_told_of_unfused 64 "explain --unfused is for a file: what has run is told of as it ran" "$ctl" explain --last --unfused
claim nor_on_a_page 64 "report --unfused is for a file" "$ctl" report "$root/page.html" --unfused

# A client that lives on: its output, longer than a pipe holds, is not read yet.
printf 'x = arange f32[100000] 0 1\ny = mul x 3\nz = tanh y\noutput z\n' >"$root/long.fz"
mkfifo "$root/pipe"
"$ctl" run --all "$root/long.fz" >"$root/pipe" &
client=$!
exec 3<"$root/pipe"
until_does sh -c "'$ctl' clients --json | grep -q '\"kernels_launched\":1'"
claim explain_tells_the_last_graphs_of_a_client 0 "scalar_activation" "$ctl" explain --last
claim_json recent_graphs_are_json 'j["name"] == "fusionctl" and j["graphs"][0]["runs"] == 1' "$ctl" explain --last --json
claim graph_draws_the_last_of_a_client 0 "scalar_activation" "$ctl" graph --last
exec 3<&-
wait "$client" 2>/dev/null || true
until_does sh -c "'$ctl' clients --json | grep -q '\"clients\":\[\]'"
claim programs_that_have_ended_are_told_of 0 "^session [0-9]*, fusionctl, process $client, ended" "$ctl" explain --last
claim_json and_when 'j["pid"] == '"$client"' and j["ended_us"] > 1e15 and j["graphs"][0]["opportunities"]' "$ctl" opportunities --last --json
session=$("$ctl" explain --last --json | sed -n 's/.*"session":\([0-9]*\).*/\1/p')
# Of a client that tells no places.
"${PYTHON:-/usr/bin/python3}" tests/protocol_client.py "$root/door" >/dev/null
claim operations_without_a_place_are_told_of 0 "^ *mul  *f32\[2,3\]$" "$ctl" explain --last
cp "$root/out" "$root/told"
claim and_no_line_ends_in_blanks 1 "" grep -n " $" "$root/told"
claim by_their_number_too 0 "^session $session, fusionctl" "$ctl" explain --session "$session"

claim syntax_errors_name_the_place 65 "unknown.fz:2:5: there is no operation 'ad'" "$ctl" run "$root/unknown.fz"
claim refused_operations_name_the_line 65 "do not broadcast.*shapes.fz:3" "$ctl" explain "$root/shapes.fz"
claim a_folder_is_no_graph 66 "fusionctl: $root cannot be read: it is a folder$" "$ctl" explain "$root"
claim nor_is_a_program 66 "/fusionctl cannot be read: it is no text: a byte of it is 0$" "$ctl" explain "$ctl"
claim a_missing_file_is_named 66 "nowhere.fz cannot be read" "$ctl" run "$root/nowhere.fz"

finish_claims
