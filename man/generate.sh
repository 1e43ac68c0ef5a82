#!/bin/sh
# Writes the manual pages that come from tables.
#
#   man/generate.sh ops  > build/man/fusion-ops.7       protocol/*.def and kernels/ulp.def
#   man/generate.sh protocol > build/man/fusion-protocol.7     protocol/*.def
#   man/generate.sh fusion_arrays > build/man/fusion_arrays.3    client/fusion.h
#   man/generate.sh ctl > build/man/fusionctl.1         client/fusionctl/commands.def and options.def
#   man/generate.sh conf > build/man/fusiond.conf.5     daemon/base/settings.def and builtins.def, daemon/base/knobs.def, protocol/patterns.def
#
# A page is man/PAGE.in, in which a line @ROW@ stands for the rows of that name, one after the other.
# Needs awk alone. A line of a table that does not read is an error, never left out.
set -eu
export LC_ALL=C

here=$(dirname "$0")
root=$here/..

# The awk functions that read a table: rows as args[1..n], texts without their quotes.
reader='
function fail(why) {
	print "man/generate.sh: " FILENAME ":" FNR ": " why ": " $0 > "/dev/stderr"
	failed = 1
	exit 1
}
# "a, f(b, c), \"d, e\")" up to the closing parenthesis becomes args[1] = "a", args[2] = "f(b, c)", ...
function split_row(text,   i, c, depth, quoted, from) {
	count = 0
	depth = quoted = 0
	from = 1
	for (i = 1; i <= length(text); i++) {
		c = substr(text, i, 1)
		if (c == "\"")
			quoted = !quoted
		else if (quoted)
			continue
		else if (c == "(")
			depth++
		else if ((c == "," || c == ")") && depth == 0) {
			args[++count] = substr(text, from, i - from)
			from = i + 1
			if (c == ")")
				return
		} else if (c == ")")
			depth--
	}
	fail("the row has no end")
}
function unquoted(text) {
	gsub(/^[ \t]+|[ \t]+$/, "", text)
	if (text ~ /^".*"$/)
		text = substr(text, 2, length(text) - 2)
	return text
}
# True where the line is a row; its name is left in row.
function read_row(   i) {
	if (!match($0, /^[A-Z]+ *\(/))
		return 0
	row = substr($0, 1, RLENGTH - 1)
	gsub(/ /, "", row)
	split_row(substr($0, RLENGTH + 1))
	for (i = 1; i <= count; i++)
		args[i] = unquoted(args[i])
	return 1
}
# Text for mdoc: a sentence a line, nothing that reads as a macro.
function sentences(text) {
	gsub(/\\/, "\\e", text)
	gsub(/ \.\. /, "\003", text)
	gsub(/\. +/, ".\n", text)
	gsub(/\003/, " .. ", text)
	if (text ~ /^[.\x27]/)
		text = "\\&" text
	return text
}
function capital(text) {
	return toupper(substr(text, 1, 1)) substr(text, 2)
}
'

# PAGE FOLDER-OF-ROWS: replaces each line @NAME@ of the page by the file NAME of the folder, and breaks
# long lines of text outside of displays.
fill() {
	awk -v folder="$2" '
	function put(line,   at) {
		while (length(line) > 79 && line !~ /^\./ && !display) {
			for (at = 79; at > 1 && substr(line, at, 1) != " "; at--)
				;
			# A macro must not come to stand at the start of a line.
			if (at == 1 || substr(line, at + 1, 1) ~ /[.\x27]/)
				break
			print substr(line, 1, at - 1)
			line = substr(line, at + 1)
		}
		print line
		if (line ~ /^\.Bd/)
			display = 1
		if (line ~ /^\.Ed/)
			display = 0
	}
	/^@[A-Za-z -]+@$/ {
		name = substr($0, 2, length($0) - 2)
		lines = 0
		while ((getline line < (folder "/" name)) > 0) {
			put(line)
			lines++
		}
		if (!lines) {
			print "man/generate.sh: no rows for " $0 > "/dev/stderr"
			exit 1
		}
		next
	}
	{ put($0) }' "$1"
}

# Every row becomes an item of the list of its kind.
ops_rows() {
	awk -v out="$1" "$reader"'
	function item(name, head, text) {
		print ".It " head "\n" text > (out "/" name)
	}
	BEGIN {
		types["ANY"] = "any type"
		types["NUM"] = "numbers"
		types["REAL"] = "floating-point numbers"
		types["INT"] = "integers"
		types["BITS"] = "integers and bool"
		types["BOOL"] = "bool"
		operands["UNARY"] = operands["REDUCE"] = operands["SCAN"] = "a"
		operands["BINARY"] = "a b"
		operands["TERNARY"] = "a b c"
	}
	FILENAME ~ /ulp\.def$/ {
		if (read_row())
			error[args[1]] = "\nAt most " args[2] " units in the last place off in f32, " args[3] " in f64."
		next
	}
	FILENAME ~ /dtypes\.def$/ {
		if (read_row())
			item("DTYPE", "Sy " args[2], capital(args[count]) ".")
		next
	}
	FILENAME ~ /errors\.def$/ {
		if (read_row())
			item("ERROR", "Dv FUSION_E_" args[2], capital(args[count]) ".")
		next
	}
	!read_row() { next }
	row == "COMPOSITE" {
		many = split(args[8], operand, ", ")
		names = ""
		for (i = 1; i <= many; i++) {
			sub(/:.*/, "", operand[i])
			names = names (i > args[6] ? " Bq Ar " operand[i] : " Ar " operand[i])
		}
		attributes = args[9]
		gsub(/HAS\(|\)/, "", attributes)
		gsub(/ *\| */, " ", attributes)
		text = args[10]
		gsub(/; /, ";\n", text)
		head = "Sy " args[2] names (attributes ~ /[a-z]/ ? " Cm " attributes : "")
		item(row, head, sentences(args[count]) "\nTakes " types[args[3]] ".\n.Bd -literal -compact\n" text "\n.Ed")
		next
	}
	row == "ATTRIBUTE" {
		item(row, "Cm " args[2], sentences(args[count]))
		next
	}
	row == "FUSED" {
		gsub(/,/, "", args[2])
		item(row, "Sy fused_" args[1] " Ar " args[2], sentences(args[4]) ":\n.Ql " args[3] " .")
		next
	}
	row == "STRUCT" {
		item(row, "Sy " args[2], sentences(args[count]))
		next
	}
	!(row in operands) { fail("an unknown kind of row") }
	!(args[3] in types) { fail("unknown element types") }
	{
		takes = "Takes " types[args[3]]
		if (args[2] == "where")
			takes = "The condition is bool, the others are of any one type"
		if (args[4] == "BOOL" && args[3] != "BOOL")
			takes = takes ", gives bool"
		item(row, "Sy " args[2] " Ar " operands[row], sentences(args[count]) "\n" takes "." error[args[2]])
	}
	END { exit failed }' "$root/kernels/ulp.def" "$root/protocol/dtypes.def" "$root/protocol/errors.def" \
		"$root/protocol/attributes.def" "$root/protocol/ops.def" "$root/protocol/fused.def"
}

# SETTING(section, name, type, standard, min, max, applies, doc), and PATTERN(id, name, doc) as fusion.pattern.*
conf_rows() {
	awk -v out="$1" "$reader"'
	function patterns_items(   i) {
		for (i = 1; i <= patterns; i++) {
			print ".It Va pattern." pattern[i] " Pq " forms["DEVICES"] > (out "/SETTING")
			print "Make kernels of this pattern:\n" sentences(doc[i]) "." > (out "/SETTING")
			print "Standard:\n.Ql yes .\n" when["SESSION"] > (out "/SETTING")
		}
	}
	BEGIN {
		forms["BOOL"] = "yes or no"
		forms["COUNT"] = "a number; K, M, G and T are powers of 1024"
		forms["TIME"] = "microseconds; us, ms, s and min are understood"
		forms["MODE"] = "octal permissions"
		forms["LEVEL"] = "error, warning, notice, info or debug"
		forms["TEXT"] = "text"
		forms["DEVICES"] = "yes, no, cpu or gpu"
		forms["TRANSPORT"] = "auto or nng"
		forms["INTERPRETER"] = "auto, off or always"
		when["START"] = "Applies at the next start."
		when["RELOAD"] = "Applies at a reload, too."
		when["USER"] = "Applies at a reload, too, and may be said of a user or group."
		when["SESSION"] = "Applies at a reload, too, and may be said of a user or group; a client may change it for its own session."
	}
	!read_row() { next }
	row == "PATTERN" {
		pattern[++patterns] = args[2]
		doc[patterns] = args[3]
		next
	}
	row != "SETTING" || count != 8 { fail("not a setting") }
	!(args[3] in forms) || !(args[7] in when) { fail("an unknown type or time") }
	args[1] != section {
		if (section == "fusion")
			patterns_items()
		if (section)
			print ".El" > (out "/SETTING")
		section = args[1]
		print ".Ss Section " section "\n.Bl -tag -width Ds" > (out "/SETTING")
	}
	{
		print ".It Va " args[2] " Pq " forms[args[3]] > (out "/SETTING")
		print sentences(capital(args[8])) "." > (out "/SETTING")
		if (args[4] != "")
			print "Standard:\n.Ql " args[4] " ." > (out "/SETTING")
		print when[args[7]] > (out "/SETTING")
	}
	END {
		if (section)
			print ".El" > (out "/SETTING")
		exit failed
	}' "$root/protocol/patterns.def" "$root/daemon/base/settings.def"
}

# Messages, operations by their numbers, types and errors.
protocol_rows() {
	awk -v out="$1" "$reader"'
	BEGIN {
		operands["UNARY"] = operands["REDUCE"] = operands["SCAN"] = 1
		operands["BINARY"] = 2
		operands["TERNARY"] = 3
	}
	!read_row() { next }
	FILENAME ~ /messages\.def$/ {
		if (row != "CONTROL")
			print ".It " args[2] " Pq " args[1] "\n" sentences(capital(args[count])) "." > (out "/" row)
		next
	}
	FILENAME ~ /features\.def$/ {
		print ".It " args[1] " Ta " args[2] " Ta " args[3] > (out "/FEATURE")
		next
	}
	FILENAME ~ /dtypes\.def$/ {
		print ".It " args[1] " Ta " args[3] " Ta " args[2] > (out "/TYPE")
		next
	}
	FILENAME ~ /errors\.def$/ {
		print ".It " args[1] " Ta " args[2] " Ta " args[count] > (out "/ERROR")
		next
	}
	{
		name = row == "REDUCE" ? "reduce_" args[2] : args[2]
		many = row == "STRUCT" ? args[3] : row == "COMPOSITE" ? (args[6] == args[7] ? args[6] : args[6] " to " args[7]) : operands[row]
		if (many == "")
			fail("an unknown kind of row")
		print ".It " name " Ta " args[1] " Ta " many > (out "/OPERATION")
	}
	END { exit failed }' "$root/protocol/messages.def" "$root/protocol/features.def" "$root/protocol/dtypes.def" "$root/protocol/errors.def" "$root/protocol/ops.def"
}

# FUSION.H PAGE: the section of the header that this page of functions is made of. Words stand before a declaration there, and behind it on a page.
functions() {
	awk -v page="$2" "$reader"'
	BEGIN {
		pages["errors"] = "fusion_errors"
		pages["contexts"] = "fusion_contexts"
		pages["arrays"] = "fusion_arrays"
		pages["reading and writing"] = "fusion_reading"
		pages["arrays that several processes hold"] = "fusion_sharing"
		pages["operations with arguments of their own; the elementwise ones are in fusion_ops.h"] = "fusion_operations"
		pages["gradients"] = "fusion_gradients"
		pages["graphs recorded once"] = "fusion_capturing"
		pages["what happened"] = "fusion_watching"
	}
	function escaped(line) {
		gsub(/\\/, "\\e", line)
		if (line ~ /^[.\x27]/)
			line = "\\&" line
		return line
	}
	# What stands behind a member of a declaration goes before it, where both are too long for a line.
	function put_remark(line,   at) {
		while (length(line) > 72) {
			for (at = 72; at > 1 && substr(line, at, 1) != " "; at--)
				;
			code = code "    " escaped(substr(line, 1, at - 1)) "\n"
			line = "   " substr(line, at + 1)
		}
		code = code "    " escaped(line) "\n"
	}
	# A line of a declaration, wrapped behind a comma.
	function put_code(line,   at) {
		gsub(/FUSION_API /, "", line)
		gsub(/\t/, "    ", line)
		if (length(line) > 78 && match(line, /\/\* .* \*\/$/)) {
			put_remark(substr(line, RSTART))
			line = substr(line, 1, RSTART - 1)
			sub(/ +$/, "", line)
			if (line == "")
				return
		}
		while (length(line) > 78) {
			for (at = 78; at > 1 && substr(line, at - 1, 2) != ", "; at--)
				;
			if (at == 1)
				break
			code = code escaped(substr(line, 1, at - 1)) "\n"
			line = "    " substr(line, at + 1)
		}
		code = code escaped(line) "\n"
	}
	# What was read last: declarations, then the words that stood before them.
	function end_entry() {
		if (code != "")
			body = body ".Bd -literal\n" code ".Ed\n"
		if (words != "")
			put_words()
		code = words = ""
	}
	# The sentences, and the list that may stand behind them.
	function put_words(   many, item, i, at) {
		many = split(words, item, "\001")
		body = body (body == "" ? "" : ".Pp\n") sentences(item[1]) "\n"
		for (i = 2; i <= many; i++) {
			at = index(item[i], "\002")
			body = body (i == 2 ? ".Bl -tag -width Ds\n" : "") ".It Dv " substr(item[i], 1, at - 1) "\n" sentences(substr(item[i], at + 1)) "\n"
		}
		if (many > 1)
			body = body ".El\n"
	}
	function put_comment(text) {
		end_entry()
		gsub(/[ \t]+/, " ", text)
		gsub(/^ | $/, "", text)
		gsub(/ *\001/, "\001", text)
		words = text
	}
	/^\/\* ---- .* ---- \*\/$/ {
		end_entry()
		title = $0
		gsub(/^\/\* ---- | ---- \*\/$/, "", title)
		if (!(title in pages))
			fail("a section that no page is for")
		inside = pages[title] == page
		if (inside)
			heading = title
		next
	}
	!inside { next }
	/^#define FUSION_[A-Z_]+ [^ ]+$/ { put_code($0); next }
	/^(#|\}$|extern)/ { next }
	commenting || /^\/\*/ {
		line = $0
		commenting = line !~ /\*\//
		gsub(/^ *\/\*+|\*+\/ *$/, "", line)
		sub(/^ *\*/, "", line)
		# "   NAME  what it is" is an item of a list.
		if (match(line, /^   [A-Z_]+ +/))
			line = "\001" substr(line, 4, index(substr(line, 4), " ") - 1) "\002" substr(line, RLENGTH + 1)
		comment = comment " " line
		if (!commenting) {
			put_comment(comment)
			comment = ""
		}
		next
	}
	/^$/ { end_entry(); next }
	{
		if (match($0, /fusion_[a-z0-9_]+\(/) && /^FUSION_API/)
			names = names (names == "" ? "" : " ,\n.Nm ") substr($0, RSTART, RLENGTH - 1)
		# What is said of a member in several lines is put together.
		line = $0
		if (member != "")
			sub(/^[ \t]*\*?[ \t]*/, " ", line)
		member = member line
		if (member ~ /\/\*/ && member !~ /\*\//)
			next
		put_code(member)
		member = ""
	}
	END {
		if (failed)
			exit 1
		end_entry()
		if (names == "") {
			print "man/generate.sh: there is no section for " page > "/dev/stderr"
			exit 1
		}
		print ".\\\" Generated by man/generate.sh from client/fusion.h: edit that.\n.Dd November 22, 2026\n.Dt " toupper(page) " 3\n.Os"
		print ".Sh NAME\n.Nm " names "\n.Nd " heading "\n.Sh SYNOPSIS\n.In fusion.h\n.Sh DESCRIPTION"
		print ".Xr libfusion 3\ntells of errors, of who releases what, and of threads: that holds for all of these.\n.Pp"
		printf "%s", body
		print ".Sh SEE ALSO\n.Xr libfusion 3 ,\n.Xr fusion-ops 7"
	}' "$1"
}

# The functions that bodies may call, as one text.
builtin_rows() {
	awk -v out="$1" "$reader"'
	read_row() && row == "BUILTIN" { text = text (text == "" ? "" : ", ") args[1] }
	END {
		print text "." > (out "/BUILTIN")
		exit failed
	}' "$root/daemon/base/builtins.def"
}

# KNOB(name, VALUES("rule", "..."), "doc"), one a line.
knob_rows() {
	awk -v out="$1" '
	/^KNOB\(/ {
		name = $0; sub(/^KNOB\(/, "", name); sub(/,.*/, "", name)
		values = $0; sub(/.*VALUES\(/, "", values); sub(/\).*/, "", values); gsub(/"/, "", values)
		doc = $0; sub(/.*\), "/, "", doc); sub(/"\)$/, "", doc)
		print ".It Va " name " Pq " values "\n" toupper(substr(doc, 1, 1)) substr(doc, 2) "." > (out "/KNOB")
	}' "$root/daemon/base/knobs.def"
}

# Commands, their words and options. A line @COMMAND@ or @COMMAND WORD@ of the page becomes the head of its item and what it does; behind
# it the page may say more. Whatever has a row has such a line: of a command that does several things, its words have.
ctl_rows() {
	awk -v out="$1" "$reader"'
	# "[FILE...]", "NAME(OPERANDS) TEXT", "SESSION|pid=PROCESS" as mdoc; alternatives stand as they are.
	function arguments(words) {
		if (words == "")
			return ""
		if (words ~ /^\[/)
			return " Oo Ar " tolower(substr(words, 2, length(words) - 2)) " Oc"
		return " Ar " tolower(words)
	}
	# "--source[=all]" becomes "Fl -source Ns Oo = Ns Cm all Oc".
	function option(id) {
		if (argument[id] == "")
			return "Fl -" name[id]
		if (argument[id] ~ /^\[/)
			return "Fl -" name[id] " Ns Oo = Ns Cm " substr(argument[id], 2, length(argument[id]) - 2) " Oc"
		return "Fl -" name[id] " Ns = Ns Ar " tolower(argument[id])
	}
	# Of "TAKES(A) | TAKES(B)"; leaves their names in takes[1 .. many].
	function option_heads(taken,   heads, i) {
		gsub(/TAKES\(|\)|\|/, " ", taken)
		many = split(taken, takes, " ")
		for (i = 1; i <= many && takes[i] != "0"; i++) {
			if (!(takes[i] in name))
				fail("an option that has no row: " takes[i])
			heads = heads " Oo " option(takes[i]) " Oc"
		}
		return heads
	}
	function list(text) {
		gsub(/ /, " , ", text)
		return ".Cm " text
	}
	BEGIN { options = 0 }
	!read_row() { next }
	row == "EVERY" || row == "OPTION" {
		id[++options] = args[1]
		letter[args[1]] = row == "EVERY" && args[2] != "0" ? substr(args[2], 2, 1) : ""
		name[args[1]] = args[count - 2]
		argument[args[1]] = args[count - 1]
		said[args[1]] = args[count]
		every[args[1]] = row == "EVERY"
		next
	}
	row == "COMMAND" {
		heads = option_heads(args[5])
		for (i = 1; i <= many && takes[i] != "0"; i++)
			takers[takes[i]] = takers[takes[i]] (takers[takes[i]] == "" ? "" : " ") args[2]
		if (args[4] == "ENDLESS")
			endless = endless (endless == "" ? "" : " ") args[2]
		words = args[3] == "ACTION" ? "" : arguments(args[3])
		print ".It Cm " args[2] words heads "\n" sentences(capital(args[count])) "." > (out "/" args[2])
		print "fusionctl " args[6] > (out "/EXAMPLE")
		next
	}
	row == "WORD" {
		print ".It Cm " args[1] " " args[2] arguments(args[3]) option_heads(args[4]) "\n" sentences(capital(args[5])) "." > (out "/" args[1] " " args[2])
		next
	}
	{ fail("an unknown kind of row") }
	END {
		for (i = 1; i <= options && !failed; i++) {
			print ".It " (letter[id[i]] == "" ? "" : "Fl " letter[id[i]] " , ") option(id[i]) > (out "/OPTION")
			if (!every[id[i]])
				print "With\n" list(takers[id[i]]) " :" > (out "/OPTION")
			print sentences(every[id[i]] ? capital(said[id[i]]) : said[id[i]]) "." > (out "/OPTION")
		}
		print list(endless) "." > (out "/ENDLESS")
		exit failed
	}' "$root/client/fusionctl/options.def" "$root/client/fusionctl/commands.def"
}

rows=$(mktemp -d)
trap 'rm -rf "$rows"' EXIT
case ${1-} in
ops)
	ops_rows "$rows"
	fill "$here/fusion-ops.7.in" "$rows"
	;;
protocol)
	protocol_rows "$rows"
	fill "$here/fusion-protocol.7.in" "$rows"
	;;
ctl)
	ctl_rows "$rows"
	for row in "$rows"/*; do
		name=${row##*/}
		# Of a command that does several things its words stand there; itself it may.
		[ -z "$(find "$rows" -name "$name *")" ] || continue
		grep -q "^@$name@\$" "$here/fusionctl.1.in" || { echo "man/generate.sh: fusionctl.1.in has no line @$name@" >&2; exit 1; }
	done
	fill "$here/fusionctl.1.in" "$rows"
	;;
conf)
	conf_rows "$rows"
	builtin_rows "$rows"
	knob_rows "$rows"
	fill "$here/fusiond.conf.5.in" "$rows"
	;;
fusion_*)
	functions "$root/client/fusion.h" "$1" >"$rows/page"
	fill "$rows/page" "$rows"
	;;
*)
	echo "usage: man/generate.sh ops|protocol|ctl|conf|fusion_PAGE" >&2
	exit 2
	;;
esac
