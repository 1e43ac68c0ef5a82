#!/bin/sh
# Operations that an administrator defines: conf.d/*.op, a daemon, and clients that call them.
. "$(dirname "$0")/../claims.sh"
ctl=$build/fusionctl

# eventually CLAIM STATUS PATTERN COMMAND...: a claim that comes true within a minute.
eventually() {
	for _ in $(seq 600); do
		got=0
		(shift 3 && "$@") >"$root/out" 2>&1 || got=$?
		[ "$got" = "$2" ] && grep -q -e "$3" "$root/out" && break
		sleep 0.1
	done
	claim "$@"
}

# CLAIM: without it nothing below can be so.
give_up() {
	echo "FAIL $1:"
	tail -20 "$root/log"
	exit 1
}

launch() {
	share_driver_cache "$root/cache"
	"$build/fusiond" --config "$root/fusiond.conf" --socket "$root/door" --cache-dir "$root/cache" >>"$root/log" 2>&1 &
	daemon=$!
}

# CLAIM: that the daemon answers.
answers() {
	for _ in $(seq 600); do
		[ -S "$root/door" ] && "$ctl" status >/dev/null 2>&1 && return
		sleep 0.1
	done
	give_up "$1"
}

# CLAIM: that every trial has ended.
settled() {
	for _ in $(seq 600); do
		"$ctl" operations >"$root/out" 2>&1 && ! grep -q -e "waits\|is tried" "$root/out" && return
		sleep 0.1
	done
	cat "$root/out"
	give_up "$1"
}

# COMMAND...: one that says nothing when it succeeds.
done_by() {
	"$@" && echo "done"
}

# GRAPH-LINES: a text graph over x = -2 .. 3 whose output is y.
graph() {
	printf 'x = input f32[6] = -2 -1 0 1 2 3\nt = fill f32[] 1.5\n%s\noutput y\n' "$1" >"$root/g.fz"
}

mkdir -m 755 "$root/conf.d"
umask 022
printf '[log]\nlevel = info\n' >"$root/fusiond.conf"
install -m 644 client/examples/operations.op "$root/conf.d/good.op"
cat >"$root/conf.d/bad.op" <<'FILE'
[unreadable]
text = a +

[unbuilt]
operands = x
body = return x % x;

[pointer]
operands = x
body = return *(float *)x;

[mistyped]
text = bitwise_and(a, 0.5)

[reaching]
operands = x
body = return load_f32(0);

[shaped]
pattern = sum(a) / count(a)

[untrue]
operands = x, y
types = bool
body = return x && y;
pattern = logical_and(x, logical_not(y))

[astray]
pattern = a + b * c
devices = some
FILE
mkfifo "$root/conf.d/pipe.op"
launch
answers a_daemon_starts_whatever_its_operations_are
# On a busy machine a client would give up waiting for a trial.
settled every_definition_gets_a_verdict

graph 'o = fill f32[] 0
y = call swish2 x o'
claim an_expression_is_called_by_its_name 0 "\[ *-1 *-0.5 *0 *0.5 *1 *1.5\]" "$ctl" run "$root/g.fz"
graph 's = call soft x t
y = mul s 2'
claim a_body_is_called_by_its_name 0 "\[ *-1 *0 *0 *0 *1 *3\]" "$ctl" run "$root/g.fz"
claim a_body_gives_the_same_without_fusion 0 "\[ *-1 *0 *0 *0 *1 *3\]" "$ctl" run --unfused "$root/g.fz"
claim a_body_shares_a_kernel_with_its_neighbours 0 "^1 kernel" "$ctl" explain "$root/g.fz"
claim explain_names_it_as_its_file_does 0 "soft *f32\[6\]" "$ctl" explain "$root/g.fz"
claim its_text_is_in_the_source 0 "fabs(v_x) - v_t" "$ctl" explain --source "$root/g.fz"
graph 'p = gt x 0
q = gt x t
y = call without p q'
claim a_body_may_give_truths 0 "\[false false false  true false false\]" "$ctl" run "$root/g.fz"
graph 'y = call without x x'
claim element_types_that_it_does_not_take_are_refused 65 "without takes bool arrays" "$ctl" run "$root/g.fz"
graph 'y = call soft x'
claim operands_are_counted 65 "soft takes 2 operands, not 1" "$ctl" run "$root/g.fz"
graph 'y = call nothing x'
claim unknown_names_are_refused 65 "nothing: there is no such operation" "$ctl" run "$root/g.fz"
graph 'y = call unbuilt x'
claim a_refused_definition_tells_why 65 "unbuilt: the definition is refused: .*bad.op:4: .*invalid operands" "$ctl" run "$root/g.fz"

claim unreadable_texts_are_refused_with_file_and_line 0 "unreadable *text *refused *.*bad.op:1: unreadable: column 4" "$ctl" operations
claim bodies_that_do_not_build_are_refused 0 "unbuilt *body *refused *.*bad.op:4: .*invalid operands" "$ctl" operations
claim pointers_are_refused 0 "pointer *body *refused *.*bad.op:8: .*pointer" "$ctl" operations
claim functions_that_are_not_listed_are_refused 0 "reaching *body *refused *.*bad.op:15: .*load_f32" "$ctl" operations
claim what_is_no_regular_file_is_refused_without_waiting_for_it 0 "refused: .*pipe.op: it is no regular file" cat "$root/log"
claim texts_that_no_types_fit_are_refused 0 "mistyped *text *refused *.*bad.op:12: .*bitwise_and" "$ctl" operations
claim the_others_are_ready 0 "soft *body *ready" "$ctl" operations
claim json_lists_them_too 0 '"name":"without","operands":"x, y","kind":"body","state":"ready"' "$ctl" operations --json
claim the_log_tells_it_too 0 "an operation is refused: .*bad.op:8" cat "$root/log"

claim patterns_are_listed_with_the_built_in_ones 0 "^gated *yes *a file *x \* sigmoid(y)" "$ctl" patterns
claim patterns_that_depend_on_shapes_are_refused_with_file_and_line 0 "shaped *pattern *refused *.*bad.op:19: shaped, column 10: count" "$ctl" operations
claim a_body_that_is_not_its_pattern_is_refused 0 "untrue *body *refused *.*bad.op:22: .*differs between the body and the pattern" "$ctl" operations
claim devices_are_words 0 "astray *pattern *refused *.*bad.op:30: devices: it is yes" "$ctl" operations
graph 's = sigmoid x
y = mul s x'
claim a_pattern_is_named 0 "gated: .* less to move" "$ctl" explain "$root/g.fz"
claim a_pattern_is_no_operation 65 "gated: there is no such operation" sh -c 'printf "x = input f32[] = 1\ny = call gated x x\noutput y\n" | "$1" run -' sh "$ctl"
claim a_pattern_is_switched_for_the_daemon 0 "^done" done_by "$ctl" config set fusion.pattern.gated off
claim its_kernel_falls_apart 0 "^2 kernels" "$ctl" explain "$root/g.fz"
claim it_says_why 0 "the pattern gated is switched off" "$ctl" explain "$root/g.fz"
claim a_switch_of_nobody_is_refused 65 "no pattern has this name" "$ctl" config set fusion.pattern.nobodys off
"$ctl" config set fusion.pattern.gated on
claim a_pattern_is_defined_while_the_daemon_runs 0 "^done" done_by "$ctl" patterns define 'late_gate(y, x)' 'sigmoid(x) * y'
claim both_names_hold 0 "gated, late_gate: " "$ctl" explain "$root/g.fz"
claim it_is_drawn_with_its_names 0 "gated, late_gate" "$ctl" graph "$root/g.fz"
claim a_name_is_defined_once 65 "late_gate: \(it is defined already\|the administrator\)" "$ctl" patterns define late_gate 'a + b * c'
claim what_does_not_read_is_refused 65 "broken: column 5" "$ctl" patterns define broken 'a + '
claim it_goes_again 0 "^done" done_by "$ctl" patterns forget late_gate
claim one_of_a_file_does_not 65 "gated: it is defined in a file" "$ctl" patterns forget gated
graph 'p = gt x 0
q = gt x t
n = logical_not q
y = logical_and n p'
claim a_body_stands_for_its_pattern 0 "without *bool\[6\]" "$ctl" explain "$root/g.fz"
claim it_gives_the_bits_of_the_pattern 0 "\[false false false  true false false\]" "$ctl" run "$root/g.fz"
claim without_fusion_the_pattern_is_computed 0 "\[false false false  true false false\]" "$ctl" run --unfused "$root/g.fz"
claim what_was_found_is_counted 0 "without  *[0-9]" "$ctl" stats

# A reload reads the files again.
printf '[unbuilt]\noperands = x\nbody = return x + 1;\n' >"$root/conf.d/bad.op"
printf '[late]\ntext = a * 3\n' >"$root/conf.d/late.op"
kill -HUP "$daemon"
eventually a_reload_lists_new_files 0 "late *text" "$ctl" operations
settled what_a_reload_finds_gets_a_verdict
graph 'y = call late x'
claim a_reload_finds_new_files 0 "\[ *-6 *-3 *0 *3 *6 *9\]" "$ctl" run "$root/g.fz"
graph 'y = call unbuilt x'
claim a_definition_may_be_mended 0 "\[ *-1 *0 *1 *2 *3 *4\]" "$ctl" run "$root/g.fz"

# The mark of a trial that the engine did not survive. A pipe in its place stops the trial until the mark is read: the
# daemon reads nothing from it when it starts, then writes what it is about to try, and removes it after the verdict.
stop
printf '[late]\ntext = tanh(a) * 4\n' >"$root/conf.d/late.op"
rm "$root/conf.d/good.op" "$root/conf.d/bad.op" "$root/conf.d/pipe.op"
rm -f "$root/cache/trials"
mkfifo "$root/cache/trials"
launch
# shellcheck disable=SC2016
timeout 60 sh -c ': >"$1" && cat "$1"' sh "$root/cache/trials" >"$root/mark" || give_up a_trial_is_marked_before_it_begins
claim a_mark_is_one_hash 0 "^1$" env LC_ALL=C grep -c "^[0-9a-f]\{16\}$" "$root/mark"
answers a_daemon_with_one_definition_starts
settled the_marked_definition_gets_a_verdict
claim what_was_marked_is_fine 0 "late *text *ready" "$ctl" operations
[ ! -e "$root/cache/trials" ] || give_up no_mark_stays_of_a_trial_that_ended
stop
cp "$root/mark" "$root/cache/trials"
launch
answers a_daemon_starts_after_an_engine_that_died_of_a_trial
claim what_an_engine_did_not_survive_is_not_tried_again 0 "late *text *refused *.*late.op:1: late: the engine ended" "$ctl" operations
kill -HUP "$daemon"
eventually unless_the_configuration_is_read_again 0 "late *text *ready" "$ctl" operations
stop

finish_claims
