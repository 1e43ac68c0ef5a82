#!/bin/sh
# Fields of the journal: where standard error is the journal's stream, lines about a client, a kernel, a graph or an error of OpenCL
# carry them. The journal is played, in a mount namespace of its own.
if [ -z "${JOURNAL_INSIDE:-}" ]; then
	if ! unshare -rm true 2>/dev/null; then
		. "$(dirname "$0")/../claims.sh"
		skip_all "no file system can be mounted here"
		finish_claims
		exit
	fi
	JOURNAL_INSIDE=1 exec unshare -rm sh "$0" "$@"
fi
. "$(dirname "$0")/../claims.sh"
unset FUSION_DRIVER_CACHE POCL_CACHE_DIR
python=${PYTHON:-/usr/bin/python3}
ctl=$build/fusionctl
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/journal
cat >"$root/journal.py" <<'PYTHON'
# Writes each record to a file as one line of JSON.
import json, socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind("/run/systemd/journal/socket")
out = open(sys.argv[1], "w")
while True:
    record = s.recv(65536).decode()
    print(json.dumps(dict(line.split("=", 1) for line in record.split("\n") if "=" in line)), file=out, flush=True)
PYTHON
"$python" "$root/journal.py" "$root/records" &
journal=$!
trap 'kill $journal 2>/dev/null; finish' EXIT
until [ -S /run/systemd/journal/socket ]; do sleep 0.1; done

until_grep() {
	until_does grep -q "$1" "$root/records"
}

touch "$root/log"
JOURNAL_STREAM=$(stat -c %d:%i "$root/log")
export JOURNAL_STREAM
# Every kernel fails to build.
LD_PRELOAD="$interpose" FUSION_INTERPOSE_OPS=0 start_on "$root/cache"
printf 'x = input f32[2] = 1 -2\ny = neg x\noutput y\n' >"$root/graph.fz"
claim a_kernel_that_does_not_build_fails 70 "" "$ctl" run "$root/graph.fz"
until_grep FUSION_SESSION
claim records_name_the_kernel 0 '"PRIORITY": "4", "SYSLOG_IDENTIFIER": "fusiond-engine", "FUSION_KERNEL": "[0-9a-f]\{16\}", "MESSAGE": "it is not possible to build' \
	cat "$root/records"
claim records_name_the_client 0 '"FUSION_SESSION": "[0-9]*", "FUSION_USER": "0", "FUSION_PROCESS": "[0-9]*".*"MESSAGE": "a graph of session' \
	cat "$root/records"
stop
# Standard error is another file than the journal's stream: lines alone.
JOURNAL_STREAM=1:1
: >"$root/records"
LD_PRELOAD="$interpose" FUSION_INTERPOSE_OPS=0 start_on "$root/cache2"
"$ctl" run "$root/graph.fz" >/dev/null 2>&1 || true
stop
claim elsewhere_it_is_a_line 0 "it is not possible to build kernel" cat "$root/log"
claim and_no_record 0 "^0$" sh -c 'wc -l <"$1"' sh "$root/records"

finish_claims
