#!/bin/sh
# What an ordinary life leaves in the log: the daemon's own lines, of what happened, and nothing else. An empty cache, interpreters
# and generic kernels, clients whose options are nonsense, and a stop in the middle of builds.
. "$(dirname "$0")/../claims.sh"
# A driver's cache of its own: what is there already is not compiled, and says nothing.
unset FUSION_DRIVER_CACHE POCL_CACHE_DIR
FUSIOND_FUSION_INTERPRETER=auto
export FUSIOND_FUSION_INTERPRETER
ctl=$build/fusionctl

start_on "$root/cache" --set log.level=debug
printf 'x = input f32[64,64] ramp\ny = matmul x x\nz = sin y\ns = sort z axis=1\noutput s\n' >"$root/graph.fz"
claim a_graph_runs_on_an_empty_cache 0 "^s f32" "$ctl" run "$root/graph.fz"
claim options_of_control_characters_are_refused 65 "." "$ctl" config set "$(printf 'a\n<0>forged\033[2J')" 1
# Whose kernel is being built when the daemon ends.
for i in 1 2 3; do
	printf 'x = input f32[31,%s] ramp\ny = cumsum x axis=1\nz = sin y\nw = sort z axis=1\noutput w\n' "$((i + 60))" >"$root/late$i.fz"
	"$ctl" run "$root/late$i.fz" >/dev/null 2>&1 &
done
until_does sh -c "'$ctl' stats --json | grep -q '\"programs_building\":[1-9]'" || true
stop
wait
# Which lines are not a sentence of ours, begun by the program's name.
others() { grep -v -E '^fusiond(-engine|-gateway)?: [[:print:]]' "$root/log"; }
claim every_line_is_the_daemons_own 1 "" others
claim compilers_say_nothing 1 "" grep -i "warnings\{0,1\} generated" "$root/log"
claim what_a_stop_cuts_short_is_no_failure 1 "" grep -i -e "engine stops" -e "not possible to build" "$root/log"

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
