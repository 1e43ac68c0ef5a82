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

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
