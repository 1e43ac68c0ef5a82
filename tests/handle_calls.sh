#!/bin/sh
# Calls of every function of the library with a handle that is none, for tests/test_client_handles.c: one for each argument that is a
# handle or a list of them. All other arguments are in order. It reads the installed headers, and refuses a type that it does not know.
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
