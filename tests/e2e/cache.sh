#!/bin/sh
# The cache folder from start to start: what a crash of the machine leaves in it, files cut short, of ours and of the driver's;
# and what explain tells of programs that are built again.
. "$(dirname "$0")/../claims.sh"

# Its own driver's cache, which is damaged.
unset FUSION_DRIVER_CACHE POCL_CACHE_DIR
ctl=$build/fusionctl
cache=$root/cache
printf 'x = input f32[2] = 1 -2\ny = neg x\nz = add y 1\noutput z\n' >"$root/graph.fz"

# Of every entry, one file after the other is cut to half, or to nothing.
cut_files() {
	find "$cache/programs" "$cache/notes" "$cache/driver" -type f ! -name last_accessed | while read -r file; do
		size=$(stat -c %s "$file")
		truncate -s $(($1 * size / 2)) "$file"
	done
}

start_on "$cache"
claim a_kernel_is_built 0 "^\[0 3\]" "$ctl" run "$root/graph.fz"
stop
for halves in 0 1; do
	cut_files $halves
	# The machine has started again since.
	echo another >"$cache/boot"
	start_on "$cache"
	claim "files_cut_to_${halves}_halves_are_built_again" 0 "^\[0 3\]" "$ctl" run "$root/graph.fz"
	claim "no_engine_died_of_${halves}_halves" 0 "^engine  *ready.*generation 1," "$ctl" status
	stop
done
start_on "$cache"
claim what_was_built_before_comes_from_the_cache 0 "^\[0 3\]" "$ctl" run "$root/graph.fz"
claim explain_says_so 0 "program from the cache" "$ctl" explain "$root/graph.fz"
stop
claim the_log_tells_of_it 0 "damaged entries of the cache were removed after a restart" cat "$root/log"

# A file that was changed afterwards, whole as far as a loader sees; the machine has not started again.
library=$(find "$cache/driver" -name fused.so | head -1)
printf 'other bytes' | dd of="$library" bs=1 seek=5000 conv=notrunc 2>/dev/null
claim_json check_finds_it 'j["damaged"]["count"] == 1' "$build/fusiond" --config /dev/null --cache check --cache-dir "$cache"
claim_json and_removes_nothing 'j["damaged"]["count"] == 1' "$build/fusiond" --config /dev/null --cache check --cache-dir "$cache"
start_on "$cache"
claim doctor_names_it 0 "warning  cache-damaged .*do not read as they were written" "$ctl" doctor
claim a_changed_file_is_built_again 0 "^\[0 3\]" "$ctl" run "$root/graph.fz"
claim no_engine_died_of_it 0 "^engine  *ready.*generation 1," "$ctl" status
claim_json it_was_put_aside 'j["aside"]["count"] == 1 and j["damaged"]["count"] == 0' "$ctl" cache verify --json
claim doctor_names_what_was_put_aside 0 "warning  cache-damaged .*/aside" "$ctl" doctor
stop

# An engine that ends while its driver loads what seems whole: the next one loads nothing of that.
rm -rf "$cache/aside"
LD_PRELOAD="$interpose" FUSION_INTERPOSE_FAULTS="$root/fault" start_on "$cache"
printf abort >"$root/fault.load"
"$ctl" run "$root/graph.fz" >/dev/null 2>&1 || true
until_does sh -c "! test -e '$root/fault.load'"
until_does sh -c "'$ctl' status | grep -q '^engine  *ready.*generation 2,'"
claim what_an_engine_ended_over_is_built_again 0 "^\[0 3\]" "$ctl" run "$root/graph.fz"
claim the_log_names_what_was_blamed 0 "a process ended, or was killed, while its driver was at program [0-9a-f]*, which is built again" cat "$root/log"
claim_json what_was_blamed_is_put_aside 'j["aside"]["count"] == 1' "$ctl" cache stat --json
stop
start_on "$cache"
claim it_stays_built 0 "^\[0 3\]" "$ctl" run "$root/graph.fz"
claim from_the_cache 0 "program from the cache" "$ctl" explain "$root/graph.fz"
stop

# A stop ends what its driver is loading, in the engine and in a worker: nobody is to blame for that.
printf 'x = input f32[2] = 1 -2\ny = tanh x\nz = sum y\noutput z\n' >"$root/tanh.fz"
LD_PRELOAD="$interpose" FUSION_INTERPOSE_FAULTS="$root/fault" start_on "$cache" --set engine.stop_us=1ms --set engine.drain_us=0
printf hang >"$root/fault.load"
"$ctl" run "$root/graph.fz" >/dev/null 2>&1 &
asker=$!
until_does sh -c "! test -e '$root/fault.load'"
stop
wait "$asker" || true
LD_PRELOAD="$interpose" FUSION_INTERPOSE_COMPILER=hang:op_tanh start_on "$cache" --set engine.drain_us=0
"$ctl" run "$root/tanh.fz" >/dev/null 2>&1 &
asker=$!
until_does sh -c "ls '$cache/loading' | grep -q ."
: >"$root/log"
stop
wait "$asker" || true
start_on "$cache"
claim what_was_stopped_is_built 0 "^-0.2" "$ctl" run "$root/tanh.fz"
claim what_was_built_before_a_stop_is_right 0 "^\[0 3\]" "$ctl" run "$root/graph.fz"
claim and_comes_from_the_cache 0 "program from the cache" "$ctl" explain "$root/graph.fz"
claim a_stop_is_blamed_on_nothing 1 "" grep "while its driver was at program" "$root/log"
stop

# What a machine's crash leaves of entries that nobody had sealed yet.
for half in 0 1; do
	rm -rf "$cache/programs" "$cache/notes"
	find "$cache/driver" -name 00000000000000000000000000000001 -delete
	for library in $(find "$cache/driver" -name fused.so); do
		truncate -s $((half * 9000)) "$library"
	done
	start_on "$cache"
	claim "what_was_never_sealed_is_not_believed_$half" 0 "^\[0 3\]" "$ctl" run "$root/graph.fz"
	claim "it_costs_no_engine_$half" 0 "^engine  *ready.*generation 1," "$ctl" status
	stop
done

# A folder into which others may put machine code.
mkdir -m 0777 "$root/open"
mkdir "$root/elsewhere"
ln -s "$root/elsewhere" "$root/open/crash"
claim a_folder_that_others_may_write_is_refused 1 "others may write to $root/open .mode 777., and have code run from it" \
	timeout 120 "$build/fusiond" --config /dev/null --socket "$root/door" --cache-dir "$root/open"
claim what_leads_elsewhere_there_is_not_written_to 1 "" test -e "$root"/elsewhere/*

finish_claims
