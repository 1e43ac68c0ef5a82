#!/bin/sh
# Calls of every function of the library with one argument that is wrong, all others in order. It reads the installed headers, and refuses a
# type that it does not know.
#
#   CALL(kind, function, argument, call)           with `bad` for an argument that is a handle or a list of them: tests/test_client_handles.c
#   WRONG(number, code, sole, function, argument, call) with a value that the argument's type and name say is wrong: tests/test_client_mistakes.c
#   NAME(function)
#
#   tests/handle_calls.sh HEADER... > build/include/handle_calls.h
set -eu
export LC_ALL=C

grep -h '^FUSION_API ' "$@" | awk '
	function fail(why) {
		print "handle_calls.sh: " why ": " $0 > "/dev/stderr"
		failed = 1
		exit 1
	}
	# The kind of a handle, or "".
	function kind_of(type) {
		if (type ~ /^(const )?fusion_array \*(const \*)?$/) return "ARRAY"
		if (type ~ /^(const )?fusion_context \*$/) return "CONTEXT"
		if (type ~ /^(const )?fusion_capture \*$/) return "CAPTURE"
		if (type ~ /^(const )?fusion_future \*$/) return "FUTURE"
		return ""
	}
	function in_order(type, name) {
		if (type == "fusion_array *const *") return "(fusion_array *[]){ good.array }"
		if (type ~ /fusion_array \*$/) return name == "step" ? "good.step" : "good.array"
		if (type ~ /fusion_context \*$/) return "good.context"
		if (type ~ /fusion_capture \*$/) return "good.capture"
		if (type ~ /fusion_future \*$/) return "NULL"
		if (type == "fusion_context **" || type == "fusion_array **") return "(void *)good.place"
		if (type == "enum fusion_dtype") return "FUSION_F32"
		if (type == "enum fusion_map_mode") return "FUSION_MAP_READ"
		if (type == "enum fusion_rights") return "FUSION_SHARE_READ"
		if (type ~ /^enum /) return "0"
		if (type == "const int64_t *") return "good.numbers"
		if (type == "const int *" || type == "const char *const *") return "NULL"
		if (type == "const char *") return "\"softmax\""
		if (type == "size_t") return "sizeof good.memory"
		if (type == "int64_t" || type == "double" || name ~ /^(count|inputs|outputs|rank)$/) return "1"
		if (type ~ /^(bool|int|unsigned|uint32_t|uint64_t)$/) return "0"
		if (type == "void **" || type == "char **" || type == "uint64_t *") return "(void *)good.place"
		if (type ~ /^(const )?void \*$/) return "good.memory"
		if (type == "fusion_callback *") return "ignore"
		if (type == "const struct fusion_sgd_options *") return "&good.sgd"
		if (type ~ /^(const )?struct fusion_[a-z_]+ \*$/) return "(void *)good.zeros"
		fail("type \"" type "\" of " name)
	}
	function good(i) { return (name, i) in ordered ? ordered[name, i] : in_order(type[i], word[i]) }
	function row(code, bad, value,    i, list) {
		for (i = 1; i <= count; i++)
			list = list (i > 1 ? ", " : "") (i == bad ? value : good(i))
		print "WRONG(" ++wrongs ", " code ", " (handles == 1 && type[1] == "fusion_array *" ? "true" : "false") ", " substr(name, 8) ", " word[bad] ", fusion_" substr(name, 8) "(" list "))"
	}
	# Unless the table says that it is none.
	function mistake(kind, code, bad, value) { if (!((name, word[bad], kind) in none)) row(code, bad, value) }
	# What is wrong with an argument, whatever the function does.
	function wrong(i,    t, w, array) {
		t = type[i]
		w = word[i]
		if (t == "int" && w == "axis") { row("ARGUMENT", i, "99"); row("ARGUMENT", i, "-99") }
		else if (t == "int" && w == "rank") { row("RANK", i, "9"); row("RANK", i, "-1") }
		else if (t == "int" && w ~ /^(axis_count|count|inputs|outputs)$/) { row("ARGUMENT", i, "-1"); if (type[i + 1] == "const int *") row("ARGUMENT", i, "99") }
		else if (t == "const int *") row("ARGUMENT", i, "(int[]){ 9, 9, 9 }")
		else if (t == "const int64_t *" && w == "dims") { row("SHAPE", i, "(int64_t[]){ -5, -5 }"); mistake("NULL", "ARGUMENT", i, "NULL") }
		else if (t == "double" && w == "probability") { row("ARGUMENT", i, "2"); row("ARGUMENT", i, "NAN") }
		else if (t == "enum fusion_dtype") row("DTYPE", i, "99")
		else if (t ~ /^enum / || w ~ /^(what|flags)$/) mistake("CHOICE", "ARGUMENT", i, "99")
		else if (t ~ /^const struct fusion_[a-z]+ \*$/) { mistake("NULL", "ARGUMENT", i, "NULL"); if (t !~ /token/) row("VERSION", i, "(void *)wrong.reserved") }
		else if (t ~ /^(const )?fusion_array \*(const \*)?$/) {
			array = t ~ /const \*$/
			if (array) mistake("NULL", "ARGUMENT", i, "NULL")
			if (handles > 1) mistake("OTHER", "ARGUMENT", i, array ? "ARRAYS(wrong.other, wrong.other)" : "wrong.other")
			mistake("CLOSED", "STATE", i, array ? "ARRAYS(wrong.closed, wrong.closed)" : "wrong.closed")
		}
		else if (t ~ /\*$/ && t !~ /^(const )?fusion_(context|capture|future) \*$/ && w !~ /^(user|window|stride|padding|dilation|low|high|textp|nextp|seed)$/) mistake("NULL", "ARGUMENT", i, "NULL")
	}
	# tests/mistakes.txt
	function table(path,    line, part, i, of, n) {
		while ((getline line < path) > 0) {
			if (line ~ /^(#.*)?$/) continue
			if (line !~ /^ /) {
				of = "fusion_" line
				sub(/ .*/, "", of)
				sub(/^[^ ]+ */, "", line)
				n = split(line, part, / \/ /)
				for (i = 1; i <= n; i++) ordered[of, i] = part[i]
				continue
			}
			split(line, part, / +/)
			if (part[3] == "none") { none[of, part[2], part[4]] = 1; continue }
			i = ++extra[of]
			extra_argument[of, i] = part[2]
			extra_code[of, i] = part[3]
			sub(/^ +[^ ]+ +[^ ]+ +/, "", line)
			extra_value[of, i] = line
		}
	}
	BEGIN { table("tests/mistakes.txt") }
	{
		line = $0
		sub(/^FUSION_API /, "", line)
		sub(/\);.*/, "", line)
		open = index(line, "(")
		match(line, /fusion_[a-z0-9_]+\(/)
		name = substr(line, RSTART, RLENGTH - 1)
		returns = substr(line, 1, RSTART - 1)
		print "NAME(" substr(name, 8) ")"
		count = split(substr(line, open + 1), part, /, /)
		for (i = 1; i <= count; i++) {
			match(part[i], /[a-z0-9_]+$/)
			word[i] = substr(part[i], RSTART)
			type[i] = substr(part[i], 1, RSTART - 1)
			sub(/ $/, "", type[i])
		}
		handles = 0
		for (i = 1; i <= count; i++) handles += kind_of(type[i]) != ""
		for (i = 1; i <= count; i++) wrong(i)
		for (k = 1; k <= extra[name]; k++) {
			for (i = 1; i <= count && word[i] != extra_argument[name, k]; i++)
				continue
			if (i > count) fail("no argument " extra_argument[name, k])
			row(extra_code[name, k], i, extra_value[name, k])
		}
		for (bad = 1; bad <= count; bad++) {
			if (kind_of(type[bad]) == "") continue
			list = ""
			for (i = 1; i <= count; i++) {
				value = i == bad ? (type[i] ~ /const \*$/ ? "(fusion_array *[]){ bad }" : "bad") : in_order(type[i], word[i])
				list = list (i > 1 ? ", " : "") value
			}
			print "CALL(" kind_of(type[bad]) ", " substr(name, 8) ", " word[bad] ", fusion_" substr(name, 8) "(" list "))"
		}
	}
	END { if (failed) exit 1 }'
