#!/bin/sh
# fusionctl report: a page about a graph of 5 operations, of 2,000 and about what ran, as files and, where there is one, in a browser that says what is wrong.
. "$(dirname "$0")/../claims.sh"
ctl=$build/fusionctl
python=${PYTHON:-/usr/bin/python3}
start_on "$root/cache"

cat >"$root/small.fz" <<'TEXT'
x = input f32[64,64] random 1
w = input f32[64,64] random 2
h = matmul x w
r = relu h
s = sum r axes=0
t = tanh s
n = mul t 3
output n
TEXT
# 250 blocks of eight operations each, some of which share kernels.
large() {
	echo "w = input f32[32,32] random 1"
	echo "y0 = input f32[32,32] random 2"
	awk 'BEGIN { for (i = 1; i <= 250; i++) { p = i - 1
		printf "a%d = matmul y%d w\nb%d = add a%d y%d\nc%d = relu b%d\nd%d = tanh c%d\n", i, p, i, i, p, i, i, i, i
		printf "e%d = sum d%d axes=1\nf%d = sub d%d e%d\ng%d = mul f%d 0.5\ny%d = exp g%d\n", i, i, i, i, i, i, i, i, i } }'
	echo "output y250"
}
large >"$root/large.fz"
# A name that would be elements of a page, turn the direction of writing, and is no UTF-8.
hostile=$root/$(printf '<img src=x onerror=alert(1)>"&\342\200\256\377.fz')
cp "$root/small.fz" "$hostile"

whole() { "$python" tests/report_page.py "$@"; }
reported() { "$ctl" explain --json "$2" >"$root/$1.json" && "$ctl" report "$root/$1.html" "$2"; }
claim "five_operations_are_reported" 0 "" reported small "$root/small.fz"
claim "on_a_page_that_is_whole" 0 " pictures" whole "$root/small.html" "$root/small.json"
claim "two_thousand_operations_are_reported" 0 "" reported large "$root/large.fz"
claim "on_a_page_that_is_whole_too" 0 " pictures" whole "$root/large.html" "$root/large.json"
claim "names_are_text" 0 "" reported hostile "$hostile"
claim "whatever_stands_in_them" 0 " pictures" whole "$root/hostile.html" "$root/hostile.json"
claim "to_be_read" 0 "&lt;img src=x\|&#60;img src=x" cat "$root/hostile.html"
claim "why_two_kernels_is_told_with_places" 0 "small.fz:[0-9]" grep -o 'id="op-[0-9]*".*\|at [^<]*small.fz:[0-9]*' "$root/small.html"
claim "what_bounds_a_kernel_is_told" 0 "Bound by" grep -o "Bound by [a-z]*" "$root/small.html"
claim "sources_are_there_on_demand" 0 "void body(" grep -m1 "void body(" "$root/small.html"

claim "a_file_or_a_session" 64 "a file or a session, not both" "$ctl" report "$root/x.html" "$root/small.fz" --last
claim "where_it_is_to_be_written_is_said" 64 "report wants PAGE" "$ctl" report --last
claim "what_cannot_be_written_is_told" 74 "cannot be written" "$ctl" report "$root/none/x.html" "$root/small.fz"
claim "standard_output_is_a_place" 0 "^<!DOCTYPE html>" "$ctl" report - "$root/small.fz"

# Of a session that stays: its output, longer than a pipe holds, is not read.
printf 'x = arange f32[100000] 0 1\ny = mul x 3\nz = tanh y\noutput z\n' >"$root/long.fz"
mkfifo "$root/pipe"
"$ctl" run --all "$root/long.fz" >"$root/pipe" 2>&1 &
client=$!
exec 3<"$root/pipe"
until_does "$ctl" explain --last
claim "what_ran_last_is_reported" 0 "" "$ctl" report "$root/last.html"
claim "on_such_a_page" 0 " pictures" whole "$root/last.html"
claim "with_its_session" 0 "The last graphs of" cat "$root/last.html"
exec 3<&-
wait "$client" || true

# ---- in a browser ----

browser=
for name in chromium chromium-browser google-chrome; do
	[ -n "$browser" ] || browser=$(command -v $name || true)
done
# What its console would show. The sandbox wants rights that tests need not have; the page is ours.
opened() {
	timeout 300 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir="$root/browser" --enable-logging=stderr --window-size="$2,1000" \
		--screenshot="$root/shot.png" "file://$1" >"$root/browser.log" 2>&1 || return 1
	! grep ":CONSOLE" "$root/browser.log" && test -s "$root/shot.png"
}
if [ -n "$browser" ]; then
	printf '<meta http-equiv="Content-Security-Policy" content="default-src '"'none'"'"><script>1</script>' >"$root/bad.html"
	claim "a_browser_says_what_is_wrong" 1 "Content Security Policy" opened "$root/bad.html" 1280
	for page in small large hostile last; do
		claim "a_browser_shows_it" 0 "" opened "$root/$page.html" 1280
		claim "a_telephone_shows_it" 0 "" opened "$root/$page.html" 390
	done
else
	skip "no chromium here" a_browser_says_what_is_wrong a_browser_shows_it a_telephone_shows_it
fi
stop
finish_claims
