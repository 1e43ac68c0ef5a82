/*
 * Expressions over operations: the language of composites in ops.def, of gradients, and of the
 * operations that users define.
 *
 *     e = exp(a - max(a, axes)); e / sum(e, axes)
 *
 * Values are operands, numbers, lists of integers, element types and attributes, all by name; what is
 * done to them is an operation of ops.def or one of EXPR_FUNCTIONS, called or, for the commonest ones,
 * written as + - * / < <= > >= == and !=. Names are given once, before they are used; the last
 * expression is the result. There is nothing else: no pointers, loops or text of any other language,
 * so that whatever parses ends, and costs no more than its length.
 *
 *     program    = { name "=" comparison ";" } comparison [ ";" ]
 *     comparison = sum [ ("<" | "<=" | ">" | ">=" | "==" | "!=") sum ]
 *     sum        = product { ("+" | "-") product }
 *     product    = unary { ("*" | "/") unary }
 *     unary      = "-" unary | primary
 *     primary    = number | name | name "(" [ argument { "," argument } ] ")" | list | "(" comparison ")"
 *     argument   = [ attribute "=" ] comparison
 *     list       = "[" [ comparison { "," comparison } ] "]"
 *
 * expr_parse() checks names, the number of arguments and its limits; types and shapes are expand.h's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "fault.h"

enum {
	/* Longer than any composite by far; positions fit 16 bits. */
	EXPR_BYTES = 4096,
	/* Nodes of one expression: what one operation may become. An evaluation keeps 100 bytes each. */
	EXPR_NODES = 256,
	/* How deep values may stand inside each other, also through names: both walks are recursive. */
	EXPR_DEPTH = 64,
	/* Operands and attributes of one call. */
	EXPR_ARGUMENTS = 12,
	/* Names that one expression gives. */
	EXPR_NAMES = 32,
	/* Operands that an expression may have; see LIMIT_OPERANDS. */
	EXPR_OPERANDS = LIMIT_OPERANDS,
};

/*
 * What may be called besides operations: X(name, fewest arguments, most). They give views, counts of
 * elements and choices that the shapes and attributes decide; see expand.c for each.
 */
#define EXPR_FUNCTIONS(X)                                                                                    \
	X(count, 1, 2)                                                                                       \
	X(extent, 2, 2)                                                                                      \
	X(shape, 1, 1)                                                                                       \
	X(index, 2, 2)                                                                                       \
	X(iota, 1, 1)                                                                                        \
	X(transpose, 1, 1)                                                                                   \
	X(along, 3, 3)                                                                                       \
	X(insert, 2, 2)                                                                                      \
	X(drop, 2, 2)                                                                                        \
	X(given, 3, 3)                                                                                       \
	X(range, 2, 2)                                                                                       \
	X(length, 1, 1)                                                                                      \
	X(part, 2, 3)                                                                                        \
	X(unfold, 3, 4)                                                                                      \
	X(border, 3, 3)                                                                                      \
	X(spread, 6, 6)                                                                                      \
	X(reach, 3, 3)                                                                                       \
	X(is_bool, 1, 1)

enum expr_function {
#define FUNCTION(name, least, most) EXPR_##name,
	EXPR_FUNCTIONS(FUNCTION)
#undef FUNCTION
	EXPR_FUNCTION_COUNT,
};

enum expr_kind {
	EXPR_NUMBER,
	EXPR_OPERAND,      /* which: its number */
	EXPR_ATTRIBUTE,    /* which: enum op_attribute */
	EXPR_DTYPE,        /* which: enum dtype */
	EXPR_LIST,
	EXPR_OPERATION,    /* which: enum op_id */
	EXPR_FUNCTION,     /* which: enum expr_function */
};

enum { EXPR_POSITIONAL = 0xff };

struct expr_node {
	uint8_t kind;                        /* enum expr_kind */
	uint8_t arity;
	uint8_t depth;                       /* 1 without arguments */
	uint16_t which;
	uint16_t at;                         /* byte of the text, for messages */
	uint16_t in[EXPR_ARGUMENTS];         /* nodes before this one */
	uint8_t name[EXPR_ARGUMENTS];        /* the attribute an argument is named for, or EXPR_POSITIONAL */
	double number;
};

/* Arguments come before the nodes that take them; a node may have several readers. */
struct expr {
	uint16_t count;
	uint16_t result;
	uint8_t operands;                    /* one more than the last operand it names */
	struct expr_node node[EXPR_NODES];
};

/*
 * names: the operands, separated by commas or blanks; what follows a colon in a name is not part of it.
 * 0, or FAULT_SYNTAX with the column and what was expected there.
 */
int expr_parse(const char *text, const char *names, struct expr *e, struct fault *f) FAULT_MUST_USE;

const char *expr_function_name(enum expr_function function);
