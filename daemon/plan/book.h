/*
 * Patterns that users define: a name, and an expression over values in the language of protocol/expr.h.
 *
 * Such a pattern is a second name for what the planner does anyway. Wherever its expression arises in a graph
 * (named.c finds it), a kernel that holds all of its operations is also of this name. Switched off, it keeps such a
 * kernel from arising, as a built-in pattern does (pattern.c). Neither changes a bit of a result. A pattern of the
 * administrator may have an own operation (protocol/own.h) that is computed in the place of its expression: in the element
 * types in which a trial found the same bits, and, if it is declared inexact, in others where a graph asked for `fast`.
 *
 * The expression is compiled into a template once: a graph of operations, numbers and operands. It may hold elementwise operations,
 * reductions, products, transpose(), and the composites that are made of these alone; names of attributes stand for
 * any number, or any axes. What depends on shapes, such as count() or reshape(), is refused with its column.
 *
 * A book is the list of patterns that hold for a session. Patterns and books never change, so plans refer to them;
 * a book's serial number, which no other one ever had, is part of a plan's key.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "protocol/definition.h"

enum {
	/* Patterns of a book: a set of them has a bit for each. */
	BOOK_PATTERNS = 64,
	/* Of them, those of the administrator, and those of one client. */
	BOOK_COMMON = 32,
	BOOK_OWN = BOOK_PATTERNS - BOOK_COMMON,
	/* Nodes of a template: what one kernel of a slow device takes at most. */
	TEMPLATE_NODES = 64,
	/* Operations that a pattern has at least: one alone is a kernel anyway. */
	TEMPLATE_LEAST = 2,
	TEMPLATE_ARGUMENTS = 3,
};

enum template_kind {
	TEMPLATE_OPERAND,                    /* any value, the same wherever the operand is named */
	TEMPLATE_NUMBER,                     /* a number without memory, of this value */
	TEMPLATE_ANY_NUMBER,                 /* ... of any value, the same everywhere */
	TEMPLATE_OPERATION,
	TEMPLATE_TRANSPOSE,                  /* the last two axes change places */
};

/* The axes of a reduction. */
enum template_axes {
	TEMPLATE_AXES_ALL,
	TEMPLATE_AXES_LISTED,                /* negative ones count from the end */
	TEMPLATE_AXES_ANY,                   /* the same in all reductions that say so */
};

struct template_node {
	uint8_t kind;                        /* enum template_kind */
	uint8_t arity;
	uint16_t op;
	uint8_t in[TEMPLATE_ARGUMENTS];      /* nodes before this one */
	uint8_t operand;                     /* TEMPLATE_OPERAND, TEMPLATE_ANY_NUMBER: its number */
	uint8_t axes, listed;                /* enum template_axes; how many in axis[] */
	int8_t axis[LIMIT_RANK];
	double number;
};

/* The last node is the result. */
struct template {
	uint8_t nodes, operations, numbers;  /* numbers: of a value */
	struct template_node node[TEMPLATE_NODES];
};

struct named {
	_Atomic uint32_t references;         /* plans are made and dropped by two threads */
	char name[DEFINITION_NAME];
	char *operands, *text;
	char *off;                           /* why it was not fused where the pattern is off */
	unsigned arity;
	/* The own operation that may stand for it; 0: none. What it may is said before a book has it. */
	unsigned op;
	uint32_t exact;                      /* types (1 << enum dtype) in which it gave the bits of the expression */
	bool inexact;                        /* in other types it may stand for it where a graph asked for `fast` */
	uint64_t hash;                       /* of name, operands and text */
	struct template template;
};

struct book {
	_Atomic uint32_t references;
	uint64_t serial;
	unsigned patterns;
	struct named *pattern[BOOK_PATTERNS];
};

/* Patterns of a book: bit i for its pattern i. */
typedef uint64_t named_set;

static inline named_set named_bit(unsigned i) {
	return UINT64_C(1) << i;
}

/*
 * A definition as definition_new() takes it. 0, -ENOMEM, or a fault that begins with the name: it does not read, has a name that
 * a built-in pattern or an operation has, too few or too many operations, or what no pattern may hold.
 */
int named_new(const char *signature, const char *text, unsigned op, struct named **namedp, struct fault *f) FAULT_MUST_USE;
struct named *named_ref(struct named *n);
struct named *named_unref(struct named *n);      /* returns NULL */
/* Do both say the same? */
bool named_equal(const struct named *a, const struct named *b);

/* Takes references. 0, or -ENOMEM. At most BOOK_PATTERNS. */
int book_new(unsigned patterns, struct named *const *pattern, struct book **bookp) FAULT_MUST_USE;
struct book *book_ref(struct book *b);           /* NULL is allowed */
struct book *book_unref(struct book *b);         /* NULL is allowed; returns NULL */
/* A hash of what some of its patterns say, which is the same in another process; 0 of none. */
uint32_t book_hash(const struct book *b, named_set set);
/* The place of a pattern, or -1. */
int book_find(const struct book *b, const struct named *n);
