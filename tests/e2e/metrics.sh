#!/bin/sh
# Metrics for Prometheus: over HTTP on a Unix socket, and as a file; their format, what they count, and who asks wrongly.
. "$(dirname "$0")/../claims.sh"
python=${PYTHON:-/usr/bin/python3}
ctl=$build/fusionctl

# The body of the answer to a request for this path, or its first line where that is not 200.
ask() {
	"$python" -c "
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
s.settimeout(60)
s.connect(sys.argv[1])
s.sendall(sys.argv[2].encode().replace(b'|', b'\r\n'))
data = b''
while (part := s.recv(65536)):
    data += part
head, body = data.split(b'\r\n\r\n', 1)
lines = head.decode().split('\r\n')
fields = dict(line.split(': ', 1) for line in lines[1:])
assert int(fields['Content-Length']) == len(body) and fields['Connection'] == 'close'
if lines[0] == 'HTTP/1.1 200 OK':
    assert fields['Content-Type'] == 'text/plain; version=0.0.4; charset=utf-8'
    sys.stdout.write(body.decode())
else:
    print(lines[0])" "$root/metrics" "$1"
}
get="GET /metrics HTTP/1.1|Host: x||"
value() {
	ask "$get" | sed -n "s/^$1{engine=\"0\"} //p"
}

start_on "$root/cache" --set metrics.socket="$root/metrics" --set metrics.file="$root/fusiond.prom" --set metrics.every_us=100ms
printf 'x = input f32[2] = 1 -2\ny = neg x\nz = add y 1\noutput z\n' >"$root/graph.fz"
"$ctl" run "$root/graph.fz" >/dev/null

ask "$get" >"$root/first"
claim metrics_are_in_the_format 0 "^[0-9]* samples of [4-9][0-9] metrics" "$python" tests/exposition.py <"$root/first"
if command -v promtool >/dev/null; then
	claim promtool_accepts_them 0 "" promtool check metrics <"$root/first"
else
	skip "promtool (package prometheus) is not installed" promtool_accepts_them
fi
claim an_engine_is_up 0 '^fusiond_engine_up{engine="0",device="..*"} 1$' cat "$root/first"
claim graphs_are_counted 0 '^fusiond_graphs_total{engine="0"} 1$' cat "$root/first"
claim fusion_is_counted 0 '^fusiond_kernels_unfused_total{engine="0"} 2$' cat "$root/first"
"$ctl" run "$root/graph.fz" >/dev/null
claim waits_are_in_a_histogram 0 '^fusiond_queue_wait_seconds_bucket{engine="0",le="+Inf"} [1-9]' ask "$get"
claim so_are_graphs 0 '^fusiond_graph_seconds_count{engine="0"} [1-9]' ask "$get"
claim the_device_s_time_is_told 0 '^fusiond_device_busy_seconds_total{engine="0"} 0*[.]*[0-9.e-]*[1-9]' ask "$get"
cache_is_told() {
	ask "$get" | grep -q '^fusiond_cache_bytes [0-9]'
}
claim the_cache_s_size_is_told 0 "" until_does cache_is_told
for name in sessions_lost_total quarantined_graphs reload_failed reloads_failed_total remote_refused_total; do
	claim "${name}_is_told" 0 "^fusiond_$name 0$" ask "$get"
done
claim no_user_is_told_unasked 1 "" sh -c "grep '^fusiond_user_' '$root/first'"

# What is shipped for Prometheus and Grafana.
if command -v promtool >/dev/null; then
	claim alerts_are_rules 0 "12 rules found" promtool check rules systemd/monitoring/fusiond.rules.yml
	claim alerts_fire_when_they_are_to 0 "SUCCESS" promtool test rules systemd/monitoring/fusiond.rules.test.yml
else
	skip "promtool (package prometheus) is not installed" alerts_are_rules alerts_fire_when_they_are_to
fi
claim what_is_shipped_asks_for_what_is_told 0 "^[1-9][0-9]* names" "$python" tests/monitoring.py "$root/first" systemd/monitoring/fusiond.rules.yml systemd/monitoring/fusiond.dashboard.json
claim counts_grow 0 "^2$" echo "$(value fusiond_graphs_total)"
claim other_paths_are_not_found 0 "404 Not Found" ask "GET / HTTP/1.1||"
claim other_methods_are_refused 0 "405 Method" ask "POST /metrics HTTP/1.1||"
claim long_heads_are_refused 0 "431" ask "GET /metrics HTTP/1.1|X: $(head -c 5000 /dev/zero | tr '\0' x)"
claim its_permissions_are_set 0 "^660$" stat -c %a "$root/metrics"

# Who hangs up, or asks in pieces, keeps nobody waiting.
claim many_ask_at_once 0 "^30$" "$python" -c "
import socket, sys
def connect():
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    s.settimeout(60)
    s.connect(sys.argv[1])
    return s
done = 0
for _ in range(3):
    silent = [connect() for _ in range(5)]
    asking = [connect() for _ in range(10)]
    for s in asking:
        s.sendall(b'GET /metr')
    for s in asking:
        s.sendall(b'ics HTTP/1.1\r\n\r\n')
    for s in silent:
        s.close()
    for s in asking:
        done += s.recv(15) == b'HTTP/1.1 200 OK'
        s.close()
print(done)" "$root/metrics"

until_does grep -q '^fusiond_graphs_total{engine="0"} 2$' "$root/fusiond.prom"
claim the_file_has_the_same 0 '^fusiond_graphs_total{engine="0"} 2$' cat "$root/fusiond.prom"
claim the_file_is_in_the_format_too 0 "samples" "$python" tests/exposition.py <"$root/fusiond.prom"
claim a_checker_that_accepts_all_is_none 1 "without HELP and TYPE" sh -c 'echo "fusiond_x 1" | "$1" tests/exposition.py' sh "$python"
claim nor_one_without_conventions 1 "_total is for counters" sh -c \
	'printf "# HELP fusiond_x x\n# TYPE fusiond_x counter\nfusiond_x 1\n" | "$1" tests/exposition.py' sh "$python"
stop
claim the_socket_goes_with_the_daemon 1 "" test -e "$root/metrics"
claim a_socket_that_cannot_be_made_is_named 78 "metrics.socket: the folder" "$build/fusiond" --config /dev/null \
	--socket "$root/door" --cache-dir "$root/cache" --set metrics.socket="$root/none/metrics"

finish_claims
