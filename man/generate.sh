#!/bin/sh
# Writes the manual pages that come from tables.
#
#   man/generate.sh ops  > build/man/fusion-ops.7      from protocol/ops.def and kernels/ulp.def
#   man/generate.sh conf > build/man/fusiond.conf.5    from daemon/base/settings.def
set -eu
export LC_ALL=C
cd "$(dirname "$0")/.."

date=$(date -u -d "@${SOURCE_DATE_EPOCH:-$(date +%s)}" '+%B %-d, %Y')

# Rows of a table as name|...: fields split at commas outside quotes and parentheses.
split_rows() {
	awk -v want="$2" '
	match($0, "^(" want ")\\(") {
		kind = substr($0, 1, RLENGTH - 1)
		rest = substr($0, RLENGTH + 1)
		sub(/\)[ \t]*$/, "", rest)
		line = kind; field = ""; depth = 0; quoted = 0
		for (i = 1; i <= length(rest); i++) {
			c = substr(rest, i, 1)
			if (c == "\"") { quoted = !quoted; continue }
			if (!quoted && c == "(") depth++
			if (!quoted && c == ")") depth--
			if (!quoted && !depth && c == ",") { sub(/^ */, "", field); sub(/ *$/, "", field); line = line "\t" field; field = ""; continue }
			field = field c
		}
		sub(/^ */, "", field)
		print line "\t" field
	}' "$1"
}

escape='function esc(s) { gsub(/\\/, "\\e", s); gsub(/-/, "\\-", s); return s }'

ops() {
	cat <<PAGE
.Dd $date
.Dt FUSION-OPS 7
.Os
.Sh NAME
.Nm fusion-ops
.Nd the operations of fusiond, and their arithmetic
.Sh DESCRIPTION
Every elementwise operation
.Ar NAME
is the function
.Fn fusion_NAME
of
.Xr libfusion 3
and a word of
.Xr fusion-graph 5 .
Operations on two operands also exist with a C number in either place:
.Fn fusion_NAME_scalar a number
and
.Fn fusion_scalar_NAME number b .
Operands broadcast by NumPy's rules.
Element types are
.Ql any ,
.Ql num
(all but bool),
.Ql real
(f16, bf16, f32, f64),
.Ql int ,
.Ql bits
(integers and bool).
.Pp
An error in units of the last place (ulp) is the worst one measured, for f32 and f64; f16 and bf16 are computed in f32 and rounded.
Without a number the result is exact or correctly rounded, or rounded as often as the text says.
PAGE
	split_rows protocol/ops.def 'UNARY|BINARY|TERNARY|REDUCE|STRUCT' | awk -F '\t' -v table=kernels/ulp.def "$escape"'
	function section(title) { if (open) print ".El"; print ".Sh " title; print ".Bl -tag -width Ds"; open = 1 }
	BEGIN {
		while ((getline row < table) > 0)
			if (match(row, /^ULP\([a-z0-9_]+, *[0-9.]+, *[0-9.]+\)/)) {
				row = substr(row, 5, RLENGTH - 5); gsub(/ /, "", row); split(row, u, ",")
				ulp[u[1]] = u[2] " ulp in f32, " u[3] " in f64."
			}
		title["UNARY"] = "OPERATIONS ON ONE OPERAND"; title["BINARY"] = "OPERATIONS ON TWO OPERANDS"
		title["TERNARY"] = "OPERATIONS ON THREE OPERANDS"; title["REDUCE"] = "REDUCTIONS"; title["STRUCT"] = "OTHER OPERATIONS"
		args["UNARY"] = "a"; args["BINARY"] = "a b"; args["TERNARY"] = "a b c"; args["REDUCE"] = "a axes keepdims"
	}
	$1 != last { section(title[$1]); last = $1 }
	{
		types = $1 == "STRUCT" ? "" : " Pq " tolower($4) ($5 == "BOOL" ? ", gives bool" : "")
		print ".It Cm " $3 " " (args[$1] ? "Ar " args[$1] : "") types
		text = esc($NF)
		if (text ~ /^[.\x27]/) text = "\\&" text
		print text
		if ($3 in ulp) print ulp[$3]
	}
	END { print ".El" }'
	cat <<'PAGE'
.Sh ARITHMETIC
A result is a function of the device, the element type and the logical shape alone.
What is fused with an operation, how it is tiled or cut, other clients and load never change a bit of it.
Comparing bits treats all NaNs as one.
.Bl -bullet
.It
Nothing is contracted: a * b + c rounds twice, unless
.Cm fma
is asked for.
Division and square root round correctly where the device can; fusionctl status says where it cannot.
.It
f16 and bf16 are computed in f32 and rounded to nearest even after each operation.
Sums and means of them accumulate in f32 and round once.
.It
In
.Cm maximum , minimum
and the reductions
.Cm max , min
NaN wins, and \-0 is below +0.
.It
Casts from floats to integers truncate and saturate; NaN gives 0.
Casts between integers wrap.
Casts to bool give whether the value differs from 0.
.It
Integers wrap.
A division by 0 gives 0; the smallest integer divided by \-1 gives itself.
Shifts by a negative number or by the width or more give 0, or \-1 for a negative number shifted to the right.
.It
A reduction takes its elements in row-major order of the reduced axes.
In each block of 8,192 elements, element j is accumulated in order into column j mod 64, each column starting from the neutral element (\-0 for a
float sum); then column c takes column c + 32, then c + 16, c + 8, c + 4, c + 2 and c + 1.
More than 8,192 elements give one result a block, and these are reduced in the same way.
The sum of no elements is +0.
.It
A mean is that sum, divided by the number of elements in the accumulator's type, then rounded.
.It
Each element of a product is fma(a, b, c) over k in order, from 0; integers multiply and add, wrapping.
f16 and bf16 accumulate in f32 and round once.
.It
arange computes start + i * step with i converted to the element type (f32 for f16 and bf16), rounding the product and the sum.
.El
.Sh SEE ALSO
.Xr fusionctl 1 ,
.Xr libfusion 3 ,
.Xr fusion-graph 5 ,
.Xr fusiond 8
PAGE
}

conf() {
	cat <<PAGE
.Dd $date
.Dt FUSIOND.CONF 5
.Os
.Sh NAME
.Nm fusiond.conf
.Nd settings of fusiond
.Sh DESCRIPTION
.Pa /etc/fusiond/fusiond.conf
and then, in order of their names,
.Pa /etc/fusiond/conf.d/*.conf
are read; later wins.
The environment
.Pq Ev FUSIOND_SECTION_NAME
and options of
.Xr fusiond 8
win over files.
A file has sections in brackets and lines
.Ql name = value ;
comments begin with
.Ql \&;
or
.Ql # .
Sizes understand K, M and G (powers of 1024), times us, ms, s and min.
A setting that is unknown or out of its range is an error that names file and line.
PAGE
	split_rows daemon/base/settings.def 'SETTING' | awk -F '\t' "$escape"'
	BEGIN {
		applies["START"] = "At the next start."; applies["RELOAD"] = "Also at a reload."
		applies["SESSION"] = "Also at a reload, and for one session by its own options."
	}
	$2 != last { if (last) print ".El"; print ".Sh [" $2 "]"; print ".Bl -tag -width Ds"; last = $2 }
	{
		print ".It Va " $3 " No = " ($5 == "" ? "Pq empty" : esc($5))
		text = esc($NF)
		print toupper(substr(text, 1, 1)) substr(text, 2) "."
		print applies[$8]
	}
	END { print ".El" }'
	cat <<'PAGE'
.Sh EXAMPLES
.Bd -literal -offset indent
[fusion]
window_us = 100us

[limits]
user_bytes = 4G
.Ed
.Sh SEE ALSO
.Xr fusiond 8
PAGE
}

case ${1:-} in
ops) ops ;;
conf) conf ;;
*)
	echo "usage: $0 ops|conf" >&2
	exit 2
	;;
esac
