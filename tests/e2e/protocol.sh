#!/bin/sh
# A client in Python without libraries, written from fusion-protocol(7) alone, against a daemon.
. "$(dirname "$0")/../claims.sh"
start_on "$root/cache"
claim a_client_written_from_the_page_works 0 "^[0-9]* passed, 0 failed" "${PYTHON:-/usr/bin/python3}" tests/protocol_client.py "$root/door"
grep -q "passed" "$root/out" && sed -n "s/ passed, .*/ claims of its own held/p" "$root/out"
# What the page is for must be in it: every message, operation, type and error, by its number.
"${PYTHON:-/usr/bin/python3}" - "$build/man/fusion-protocol.7" >"$root/missing" <<'PYTHON'
import re, sys
page = open(sys.argv[1]).read()
for file, form in (("messages", ".It {1} Pq {0}\n"), ("dtypes", ".It {0} Ta {2} Ta {1}\n"), ("errors", ".It {0} Ta {1} Ta ")):
    for row in re.findall(r"^(?!CONTROL)[A-Z]+\( *([^\n]*)", open(f"protocol/{file}.def").read(), re.M):
        fields = [field.strip() for field in row.split(",")[:3]]
        if form.format(*fields) not in page:
            print(file, fields)
for number, name in re.findall(r"^[A-Z]+ *\( *(\d+), *(\w+)", open("protocol/ops.def").read(), re.M):
    if not re.search(rf"^\.It (reduce_)?{name} Ta {number} Ta ", page, re.M):
        print("ops", number, name)
PYTHON
claim the_page_has_every_number 0 "^0$" sh -c 'wc -l <"$1"' sh "$root/missing"
cat "$root/missing"
stop
finish_claims
