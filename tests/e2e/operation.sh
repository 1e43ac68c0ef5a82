#!/bin/sh
# A daemon that is looked after: it is told to read its settings again, to log what is slow, and to end, while a client works.
. "$(dirname "$0")/../claims.sh"

# started SET...: the daemon, with a compiler that waits at the kernel that work() wants, until it is let go.
started() {
	printf '[log]\nlevel = info\n' >"$root/conf"
	rm -rf "$root/cache" "$root/log"
	touch "$root/gate"
	share_driver_cache "$root/cache"
	env LD_PRELOAD="$interpose" FUSION_INTERPOSE_COMPILER="hold:op_relu_f32(v6)" FUSION_INTERPOSE_GATE="$root/gate" \
		"$build/fusiond" --config "$root/conf" --socket "$root/door" --cache-dir "$root/cache" \
		--set device.measure=no --set device.worker_us=60min --set fusion.interpreter=off "$@" >"$root/log" 2>&1 &
	daemon=$!
	until_does "$build/fusionctl" status
}
is_building() {
	"$build/fusionctl" stats --json | grep -q '"programs_building": *[1-9]'
}
# A client whose kernel is being built when this returns, and goes on being built.
work() {
	"$build/fusionctl" run tests/graphs/chain.fz >"$root/result" 2>&1 &
	client=$!
	until_does is_building
}
# The compiler goes on.
let_go() {
	rm "$root/gate"
}
# ended: the daemon's exit code.
ended() {
	code=0
	wait "$daemon" || code=$?
	daemon=
	return "$code"
}

# Below 1000, which is the most, where the daemon itself is not already there.
goes_first() {
	own=$(cat "/proc/$daemon/oom_score_adj")
	for child in $(cat "/proc/$daemon/task/$daemon/children"); do
		score=$(cat "/proc/$child/oom_score_adj")
		[ "$score" -gt "$own" ] || [ "$score" = 1000 ] || { echo "process $child has $score, the supervisor $own"; return 1; }
	done
	[ -n "$child" ]
}

started
work
claim "engine_and_workers_go_before_the_supervisor_where_memory_runs_out" 0 "" goes_first
printf 'x = input f32[4] ramp\ny = mul x 3\nz = sin y\noutput z\n' >"$root/other.fz"
claim "who_has_kernels_built_waits_for_no_others" 0 "^1 graph of 1 kernel: built 1, from the cache 0, failed 0$" timeout 1200 "$build/fusionctl" cache warm "$root/other.fz"
claim "that_are_still_built_then" 0 "" is_building
claim "and_for_none_that_are_there" 0 "built 0, from the cache 0, failed 0; the rest was there$" timeout 1200 "$build/fusionctl" cache warm - <"$root/other.fz"
printf '[log]\nlevel = debug\nslow_graph_us = 1us\n[limits]\nuser_bytes = 1G\n[engine]\nplans = 7\n' >"$root/conf"
kill -HUP "$daemon"
claim "a_reload_is_logged" 0 "" until_does grep -q 'the configuration was read again' "$root/log"
claim "the_log_says_what_a_reload_changed" 0 "" grep -q 'limits.user_bytes becomes "1073741824", was "0"' "$root/log"
claim "and_what_waits_for_the_next_start" 0 "" grep -q 'engine.plans stays "1024": it becomes "7" at the next start' "$root/log"
let_go
claim "a_client_at_work_is_not_dropped" 0 "" wait "$client"
claim "and_has_its_result" 0 "" grep -q '8.5 *8 *7.5' "$root/result"
"$build/fusionctl" run tests/graphs/chain.fz >/dev/null 2>&1 || true
claim "a_level_is_changed_by_a_reload" 0 "" until_does grep -q 'session [0-9]* of user [0-9]*, process [0-9]*: fusionctl' "$root/log"
claim "graphs_that_are_slow_are_logged" 0 "" until_does grep -q 'slow graph: session [0-9]* (fusionctl, process [0-9]* of user [0-9]*), batches [0-9]* to [0-9]*: [0-9]* operations in [0-9]* kernels took' "$root/log"
printf '[log]\nlevel = loud\n' >"$root/conf"
kill -HUP "$daemon"
claim "what_does_not_read_changes_nothing" 0 "" until_does grep -q 'the configuration stays as it was: .*loud' "$root/log"
claim "and_the_daemon_serves" 0 "" "$build/fusionctl" status
kill "$daemon"
claim "an_idle_daemon_ends_at_once" 0 "" ended

started --set engine.drain_us=5min
work
kill "$daemon"
claim "who_comes_while_it_ends_is_told" 69 'the daemon is stopping' "$build/fusionctl" run tests/graphs/chain.fz
let_go
claim "what_was_asked_for_is_finished" 0 "" wait "$client"
claim "and_is_read" 0 "" grep -q '8.5 *8 *7.5' "$root/result"
claim "then_it_ends" 0 "" ended
claim "and_leaves_no_socket" 1 "" test -e "$root/door"

started --set engine.drain_us=200ms
work
kill "$daemon"
claim "the_end_waits_no_longer_than_it_may" 0 "" ended
claim "a_client_that_was_not_served_learns_of_it" 69 "" wait "$client"

started --set engine.drain_us=10min
work
kill "$daemon"
until_does sh -c '"$1" run tests/graphs/chain.fz 2>&1 | grep -q "is stopping"' sh "$build/fusionctl"
kill "$daemon"
claim "who_says_it_twice_waits_for_nothing" 0 "" ended
wait "$client" || true
finish_claims
