#!/bin/sh
# Runs fusion-bench and the libraries a user would pick instead, in one session on this machine, and
# prints how long they take relative to each other.
#
#   PEERS_PYTHON=VENV/bin/python PEERS_SCRIPT=.../peers.py tests/bench/compare.sh BUILD [WORKLOAD...]
#
# PEERS names the peers (numpy jax torch numexpr; also inductor and tinygrad). PEERS_SCRIPT prints
# "PEER WORKLOAD MILLISECONDS ms ..." lines for the peers it is given, of the workload that ONLY names.
# Without PEERS_PYTHON only fusion-bench runs, all of it where no workload is named. Else it runs before
# and after the peers, and the better of both counts, as the best of their runs counts for the peers.
set -eu
export LC_ALL=C

bench=${1?"usage: compare.sh BUILD-FOLDER [WORKLOAD...]"}/fusion-bench
shift
peers=${PEERS:-numpy jax torch numexpr}
if [ -z "${PEERS_PYTHON:-}" ]; then
	exec "$bench" "$@"
fi
[ $# -gt 0 ] || set -- add_relu_16M chain10_16M sum_16M linear_res_relu_128 linear_res_relu_256 \
	linear_res_relu_512 linear_res_relu_1024 gelu_linear_128 gelu_linear_256 gelu_linear_512 gelu_linear_1024 \
	softmax_4096x1024 layernorm_4096x1024 attention_8x512x64
if [ ! -r "${PEERS_SCRIPT:-}" ]; then
	echo "compare.sh: PEERS_SCRIPT does not name the script that times the peers" >&2
	exit 2
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM HUP

"$bench" --json "$@" >"$folder/fusion"
for workload; do
	echo "peers: $workload" >&2
	# A peer that lacks something prints a line of its own; only the others are compared.
	# shellcheck disable=SC2086 # the peers are words
	ONLY=$workload EXTRA=$workload "$PEERS_PYTHON" "$PEERS_SCRIPT" $peers >>"$folder/peers" 2>>"$folder/noise" ||
		tail -n 3 "$folder/noise" >&2
done
"$bench" --json "$@" >>"$folder/fusion"

awk -v peers="$peers" '
BEGIN {
	count = split(peers, peer, " ")
	printf "%-22s %9s", "workload", "fusion"
	for (i = 1; i <= count; i++) printf " %9s %6s", peer[i], "ratio"
	print ""
}
FILENAME ~ /fusion$/ {
	match($0, /"workload":"[^"]*"/)
	name = substr($0, RSTART + 12, RLENGTH - 13)
	if (!match($0, /"ms":[0-9.e+-]+/)) next
	ms = substr($0, RSTART + 5, RLENGTH - 5) + 0
	if (!(name in best)) order[++names] = name
	if (!(name in best) || ms < best[name]) best[name] = ms
	next
}
$4 == "ms" { time[$1, $2] = $3 }
END {
	for (n = 1; n <= names; n++) {
		name = order[n]
		printf "%-22s %9.4f", name, best[name]
		for (i = 1; i <= count; i++) {
			if ((peer[i], name) in time)
				printf " %9.4f %5.2fx", time[peer[i], name], time[peer[i], name] / best[name]
			else
				printf " %9s %6s", "-", "-"
		}
		print ""
	}
	print "Milliseconds, best of many runs; a ratio above 1 means that fusion is faster."
}' "$folder/fusion" "$folder/peers"
