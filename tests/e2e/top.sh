#!/bin/sh
# fusionctl on a terminal of 80 columns and 24 lines: top shows clients there, also where builds and kernels have much to tell; and the
# words that a shell completes.
. "$(dirname "$0")/../claims.sh"
ctl=$(cd "$build" && pwd)/fusionctl
start_on "$root/cache"
printf 'x = arange f32[100000] 0 1\ny = mul x 3\nz = tanh y\noutput z\n' >"$root/long.fz"
# Clients that live on: their output, longer than a pipe holds, is not read.
clients=
for i in 1 2 3; do
	mkfifo "$root/pipe$i"
	(cd "$root" && exec "$ctl" run --all long.fz) >"$root/pipe$i" &
	clients="$clients $!"
done
exec 3<"$root/pipe1" 4<"$root/pipe2" 5<"$root/pipe3"
three() { [ "$("$ctl" clients | grep -c long.fz)" = 3 ]; }
until_does three

# ---- completion ----

# completes LINE: the words for the last one of it.
completes() {
	bash -c '. client/fusionctl/completion.bash; COMP_WORDS=('"$(printf "'%s' " "$ctl" "$@")"'); COMP_CWORD='$#'; _fusionctl; printf "%s\n" "${COMPREPLY[@]}"'
}
if command -v bash >/dev/null; then
	"$ctl" --help | LC_ALL=C sed -n '/^Commands:/,/^$/s/^  \([a-z][a-z-]*\).*/\1/p' | sort >"$root/commands"
	completes "" | sort >"$root/completed"
	claim every_command_is_completed 0 "" cmp "$root/commands" "$root/completed"
	claim there_are_some 0 "^quarantine$" cat "$root/completed"
	claim a_value_is_no_command 0 "^status$" completes --socket "$root/door" stat
	# Of each command and option: is the option completed where the program takes it, and nowhere else?
	while read -r command; do
		"$ctl" "$command" --help
	done <"$root/commands" | LC_ALL=C sed -n 's/^  *\(-., \)\{0,1\}\(--[a-z-]*\).*/\2/p' | grep -v -e --help -e --version | sort -u >"$root/options"
	while read -r command; do
		completes "$command" -- | sed "s/^/$command /"
	done <"$root/commands" | grep -v -e --help -e --version | sort >"$root/completed"
	# value OPTION: one that it may have.
	value() {
		case $1 in
		--session | --seconds | --size | --limit) echo "=1" ;;
		--sort) echo "=session" ;;
		--kind) echo "=run" ;;
		--since) echo "=1h" ;;
		--dot | --svg | --root | --socket) echo "=$root/none" ;;
		esac
	}
	# Nobody serves there, so that what takes it does nothing.
	while read -r command; do
		while read -r option; do
			for word in "" x; do
				# shellcheck disable=SC2086
				FUSION_SOCKET=$root/none "$ctl" "$command" $word "$option$(value "$option")" </dev/null 2>&1 || true
			done | grep -q "does not take $option" || echo "$command $option"
		done <"$root/options"
	done <"$root/commands" >"$root/unsorted"
	sort "$root/unsorted" >"$root/taken"
	claim options_are_completed_where_they_are_taken 0 "" diff "$root/taken" "$root/completed"
	claim options_are_completed 0 "^--limit$" completes status --li
	claim sessions_are_completed 0 "^[0-9]" completes kill ""
	claim sessions_of_an_option_too 0 "^[0-9]" completes explain --session ""
	claim settings_are_completed 0 "^fusion.enabled$" completes config set fusion.en
	claim patterns_are_completed 0 "^linear$" completes bench pattern lin
	claim words_of_a_command_are_completed 0 "^clear$" completes quarantine ""
	claim and_stand_first_alone 0 "" test -z "$(completes cache verify "" && completes config set fusion.weight "")"
	claim files_are_for_the_word_that_takes_them 0 "^HACKING.md$" completes cache warm HACK
	claim values_of_an_option_are_completed 0 "^launch$" completes monitor --kind la
	claim and_files_where_one_is_wanted 0 "^HACKING.md$" completes explain HACK
	# As bash cuts them: "=" is a word.
	claim values_are_completed_behind_an_equals_sign 0 "^launch$" completes monitor --kind = la
	claim also_where_nothing_of_it_is_there 0 "^memory$" completes top --sort =
	claim sessions_too 0 "^[0-9]" completes explain --session =
	claim and_files_there 0 "^HACKING.md$" completes graph --dot = HACK
	claim and_what_an_option_may_have 0 "^all$" completes explain --source = ""
	claim which_is_no_word_of_the_command 0 "^clear$" completes quarantine --limit = 3 cl
	# The program's folder, what is typed before a TAB, what stands there then: by a shell on a terminal.
	cat >"$root/typed.py" <<'PYTHON'
import os, pty, select, sys
folder, typed, shown = sys.argv[1:]
child, terminal = pty.fork()
if not child:
    os.environ.update(PS1="> ", TERM="dumb", PATH=folder + ":" + os.environ["PATH"])
    os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
def wait_for(text):
    seen = b""
    while text.encode() not in seen:
        if not select.select([terminal], [], [], 60)[0]:
            sys.exit("not seen: %r in %r" % (text, seen))
        seen += os.read(terminal, 65536)
wait_for("> ")
os.write(terminal, b". client/fusionctl/completion.bash; echo lo''aded\n")
wait_for("loaded")
os.write(terminal, b"fusionctl " + typed.encode() + b"\t")
wait_for(shown)
os.write(terminal, b"\x15exit\n")
try:
    while os.read(terminal, 65536):
        pass
except OSError:
    pass
os.waitpid(child, 0)
print("right")
PYTHON
	by_hand() { "${PYTHON:-/usr/bin/python3}" "$root/typed.py" "$(dirname "$ctl")" "$@"; }
	claim in_a_shell_values_are_completed_behind_an_equals_sign 0 "^right$" by_hand "monitor --kind=la" "monitor --kind=launch"
	claim and_in_a_shell_columns 0 "^right$" by_hand "clients --sort=m" "clients --sort=memory"
else
	skip "no bash here" completion
fi

# ---- top ----

if command -v tmux >/dev/null && tmux -S "$root/probe" -f /dev/null new-session -d "sleep 1000" 2>/dev/null; then
	tmux -S "$root/probe" kill-server
	tmux -S "$root/tmux" -f /dev/null new-session -d -x 80 -y 24 "env FUSION_SOCKET=$FUSION_SOCKET LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-} $ctl top; sleep 1000"
	shown() { tmux -S "$root/tmux" capture-pane -p; }
	until_does sh -c "tmux -S '$root/tmux' capture-pane -p | grep -q 'fusionctl run'"
	shown >"$root/screen"
	claim the_screen_has_24_lines 0 "" test "$(wc -l <"$root/screen")" -le 24
	claim no_line_is_longer_than_80 1 "" grep -qE '^.{81}' "$root/screen"
	claim all_clients_are_on_it 0 "" test "$(grep -c 'fusionctl run' "$root/screen")" = 3
	claim clients_stand_above_kernels 0 "" test "$(grep -n '^ *SESSION' "$root/screen" | cut -d: -f1)" -lt "$(grep -n '^kernels' "$root/screen" | cut -d: -f1)"
	claim and_in_the_upper_half 0 "" test "$(grep -n '^ *SESSION' "$root/screen" | cut -d: -f1)" -le 10
	tmux -S "$root/tmux" send-keys q
	until_does sh -c "! tmux -S '$root/tmux' capture-pane -p | grep -q SESSION"
	tmux -S "$root/tmux" kill-server
else
	skip "no tmux here" the_screen_of_top
fi
exec 3<&- 4<&- 5<&-
# shellcheck disable=SC2086
wait $clients 2>/dev/null || true
stop
finish_claims
