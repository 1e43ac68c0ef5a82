/*
 * Text graphs: operations, and what is expected of them, as fusion-graph(5) describes.
 *
 *   x = input f32[4,8] random 7
 *   y = relu x
 *   z = sum y axes=1
 *   output z
 *   expect kernels 1
 *   expect kernel 1: relu sum
 *
 * text_parse() knows the operations from protocol/op.h alone, so a new elementwise operation or
 * reduction needs nothing here; operations with attributes of their own have a row in
 * attribute_parsers. It checks everything that can be checked without types and shapes; those are
 * libfusion's to check when build.h records the graph. Nothing here needs a daemon.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/fusionctl/lex.h"
#include "client/fusionctl/values.h"
#include "protocol/op.h"
#include "protocol/pattern.h"

/* Attributes of the form word=integer. */
enum text_setting {
	TEXT_AXIS,
	TEXT_SIZE,
	TEXT_STEP,
	TEXT_DILATION,
	TEXT_SETTINGS,
};

enum {
	/* In place of an operation: `call`, of one that only the daemon knows. */
	TEXT_CALL = OP_COUNT,
};

/* An array named before, or a literal of the element type of the other operands. */
struct text_operand {
	struct lex_token token;
	int statement; /* -1: a literal */
};

struct text_statement {
	struct lex_token name, at; /* at: the operation's word */
	struct lex_token called;   /* TEXT_CALL: its name */
	int op;                    /* enum op_id; OP_load for `input`; TEXT_CALL */
	struct text_operand operand[LIMIT_OPERANDS];
	bool output;

	/* Attributes; those that the operation does not have are zero. */
	enum dtype dtype; /* input, fill, arange, cast */
	int rank;         /* input, fill, arange, reshape, broadcast: of dims; slice: of the ranges */
	int64_t dims[LIMIT_RANK];
	int axes; /* permute, flip, reductions, composites: how many are named */
	int axis[LIMIT_RANK];
	bool axes_given; /* reductions, composites: false for all of them */
	bool keepdims;
	bool flag; /* sort, argsort: descending; searchsorted: right */
	int64_t start[LIMIT_RANK], stop[LIMIT_RANK], step[LIMIT_RANK]; /* slice; INT64_MIN: left out */
	int64_t setting[TEXT_SETTINGS];
	struct lex_token number[2]; /* fill: the value; arange: start and step */
	unsigned operands;          /* how many are given; composites may have absent ones */
	double named[OP_ATTRIBUTES]; /* composites; but not axes and lists */
	uint32_t listed;            /* composites: 1 << enum op_attribute of the lists that are given */
	int64_t list[OP_ATTRIBUTES][LIMIT_RANK]; /* `rank` entries each */
	struct values values;       /* input */
};

enum text_expectation_kind {
	TEXT_KERNELS, /* `number` kernels in all */
	TEXT_KERNEL,  /* kernel `number` (from 1) holds exactly the operations `op` */
	TEXT_PATTERN, /* kernel `number` is of the pattern `pattern` */
	TEXT_TYPE,    /* the output has this element type and shape */
	TEXT_VALUES,  /* the output has these values, within the tolerance */
	TEXT_ERROR,   /* an error with this code, whose sentence contains `token` */
};

/* pattern "swish(x)" "x * sigmoid(x)": what the session is to call so. Both without their quotes. */
struct text_pattern {
	struct lex_token at, signature, text;
};

struct text_expectation {
	enum text_expectation_kind kind;
	struct lex_token at;
	bool unfused; /* KERNELS, KERNEL: with fusion off */
	int64_t number;
	int *op;
	unsigned ops;
	enum pattern pattern;
	struct lex_token named;    /* PATTERN: a pattern that the text defines; pattern is PATTERN_NONE */
	int statement; /* TYPE, VALUES */
	struct tensor_type type;
	struct values values;
	double tolerance; /* 0: bit for bit; else relative, absolute below 1 */
	int code;
	struct lex_token token;
};

struct text {
	char *path;
	char *source; /* tokens point into it */
	struct text_statement *statement;
	unsigned statements;
	int *output; /* statements, in the order of the output lines */
	unsigned outputs;
	struct text_pattern *pattern;
	unsigned patterns;
	struct text_expectation *expectation;
	unsigned expectations;
};

/* source is copied. 0, FAULT_SYNTAX or FAULT_OPERATION with "PATH:LINE:COLUMN: ...", or -errno. */
int text_parse(const char *path, const char *source, struct text **textp, struct fault *f) FAULT_MUST_USE;
/* Reads a file, or standard input for "-". FAULT_ARGUMENT where it cannot be read. */
int text_load(const char *path, struct text **textp, struct fault *f) FAULT_MUST_USE;
struct text *text_free(struct text *t); /* returns NULL */
