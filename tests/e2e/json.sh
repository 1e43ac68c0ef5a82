#!/bin/sh
# fusionctl --json: every command of the table answers with one JSON object, whatever it does, and tells errors so. A command that is new has no
# words here, and fails.
. "$(dirname "$0")/../claims.sh"
# It prunes the cache.
unset FUSION_DRIVER_CACHE
ctl=$build/fusionctl
nobody=$root/nobody/door
start_on "$root/cache"
mkdir "$root/nobody"
printf 'x = arange f32[64] 0 1\ny = mul x 3\noutput y\n' >"$root/g.fz"
commands=$("$ctl" --help | LC_ALL=C sed -n '/^Commands:/,/^$/s/^  \([a-z][a-z-]*\).*/\1/p')

# Clients that stay, one of which is to be ended: their output, longer than a pipe holds, is not read.
printf 'x = arange f32[100000] 0 1\ny = mul x 3\nz = tanh y\noutput z\n' >"$root/long.fz"
clients=
for i in 1 2; do
	mkfifo "$root/pipe$i"
	"$ctl" run --all "$root/long.fz" >"$root/pipe$i" 2>&1 &
	clients="$clients $!"
done
exec 3<"$root/pipe1" 4<"$root/pipe2"
until_does sh -c "'$ctl' clients --json | grep -q 'run --all.*run --all' && '$ctl' explain --last"

# Nobody serves, unless something is to be asked.
asks() { FUSION_SOCKET=$root/door "$ctl" --json "$@"; }
# The lines of its output as one list.
list() { awk 'BEGIN { print "[" } { print (NR > 1 ? "," : "") $0 } END { print "]" }'; }
lines() { asks "$@" | list; }
# monitor has begun to answer before it knows.
lines_of_nobody() { FUSION_SOCKET=$nobody "$ctl" --json "$@" | list; }
# uses COMMAND: each of its uses, a line: words behind it.
uses() {
	case $1 in
	status | info | clients | kernels | stats | operations | latency | doctor) echo ;;
	users) printf '%s\n' "" "--since 1h" ;;
	kill) echo "pid=${clients##* }" ;;
	monitor) echo "--seconds 0.1" ;;
	trace) printf '%s\n' "record $root/t.json --seconds 0.1" "record $root/t.pftrace --seconds 0.1" ;;
	config) printf '%s\n' "" "get fusion.weight" "set fusion.weight 7" "set limits.user_bytes 1G" "--show-origin" "get fusion.weight --show-origin" ;;
	patterns) printf '%s\n' "" "define positive_square(a) relu(a*a)" "forget positive_square" ;;
	explain | opportunities) printf '%s\n' "$root/g.fz" "--last" ;;
	graph) printf '%s\n' "$root/g.fz" "$root/g.fz --dot -" "$root/g.fz --dot $root/g.dot" ;;
	report) printf '%s\n' "$root/report.html $root/g.fz" "$root/report.html --last" ;;
	can-fuse) echo "$root/g.fz y y" ;;
	cache) printf '%s\n' stat prune "prune --size 1G" verify check "warm $root/g.fz" ;;
	quarantine) printf '%s\n' "" list clear ;;
	bench) echo "pattern linear 16" ;;
	tune) printf '%s\n' "" "$root/g.fz" ;;
	top) echo "--once" ;;
	run) echo "$root/g.fz" ;;
	esac
}
# wrong COMMAND: words that it refuses, all of which are its own to refuse, and the code.
wrong() {
	case $1 in
	users) echo "USAGE --since yesterdayish" ;;
	clients | top) echo "USAGE --sort height" ;;
	kill) echo "HANDLE 77777777" ;;
	trace) echo "FILE record $root/none/t.json --seconds 0.1" ;;
	config) printf '%s\n' "ARGUMENT get no.such" "ARGUMENT set no.such 7" "ARGUMENT set fusion.weight much" "USAGE get" ;;
	patterns) printf '%s\n' "ARGUMENT forget nothing_like_it" "SYNTAX define twice(a) a+" ;;
	explain | opportunities | graph | run) printf '%s\n' "FILE $root/none.fz" ;;
	report) printf '%s\n' "FILE $root/report.html $root/none.fz" "FILE $root/none/report.html $root/g.fz" ;;
	can-fuse) printf '%s\n' "FILE $root/none.fz y y" "ARGUMENT $root/g.fz y none" ;;
	cache) printf '%s\n' "ARGUMENT prune --size much" "USAGE polish" "FILE warm $root/none.fz" ;;
	quarantine) echo "USAGE polish" ;;
	bench) printf '%s\n' "ARGUMENT pattern none 16" "USAGE pattern linear 0" "USAGE pattern linear f32[2" "ARITY pattern linear f32[2,2]" ;;
	tune) echo "FILE $root/none.fz" ;;
	esac
}
# What needs no daemon.
alone="doctor cache"

for command in $commands; do
	uses "$command" >"$root/uses"
	claim "${command}_is_used_here" 0 "" test -s "$root/uses"
	while read -r words; do
		said="j['schema'].startswith('fusionctl.$command/') and len(j) > 1"
		# shellcheck disable=SC2086
		case $command in
		monitor) claim_json "monitor_answers" "all(isinstance(one, dict) for one in j) and j[0]['schema'].startswith('fusionctl.monitor/')" lines monitor $words ;;
		*) claim_json "${command}_answers_$words" "$said" asks "$command" $words ;;
		esac
	done <"$root/uses"
	wrong "$command" >"$root/wrong"
	while read -r code words; do
		# shellcheck disable=SC2086
		claim_json "${command}_tells_errors_$words" "j['schema'].startswith('fusionctl.error/') and j['error']['code'] == '$code' and j['error']['sentence']" asks "$command" $words
	done <"$root/wrong"
	claim_json "${command}_tells_wrong_usage" "j['error']['code'] == 'USAGE'" asks "$command" --nonsense
	case " $alone " in *" $command "*) continue ;; esac
	words=$(head -1 "$root/uses")
	# shellcheck disable=SC2086
	claim_json "${command}_tells_that_nobody_answers" "j[-1]['error']['code'] == 'CONNECT'" lines_of_nobody "$command" $words
done
claim_json what_is_wrong_with_the_cache_of_nobody_is_told "j['error']['code'] == 'INTERNAL'" \
	env FUSION_SOCKET="$nobody" FUSIOND_CACHE_BYTES=much "$ctl" --json cache stat
claim what_was_set_is_set 0 "^7$" "$ctl" config get fusion.weight
exec 3<&- 4<&-
# shellcheck disable=SC2086
wait $clients || true
stop
finish_claims
