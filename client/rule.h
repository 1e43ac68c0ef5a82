/*
 * The rule by which a gradient goes back through an operation: from g, what comes from behind, to the operands.
 *
 * Most rules are texts of protocol/ops.def or of a definition over g, y (the result) and the operands; those of
 * views, gathers, scans, products and whatever no text can say are functions (moves.c). A composite without a
 * text of its own is differentiated through its parts.
 *
 * Rules are found once a context and operation, and kept.
 */
#pragma once

#include "protocol/expr.h"
#include "site.h"

struct definition;
struct fusion_context;

/* Operands of gradient texts: g, y, then those of the operation. */
enum {
	RULE_G,
	RULE_Y,
	RULE_OPERANDS,
	RULE_RESULT = 1 << RULE_Y,
	/* The result and all operands. */
	RULE_ALL = ((1 << LIMIT_OPERANDS) - 1) << RULE_OPERANDS | RULE_RESULT,
	/* What a function returns in place of gradients: the text of the operation is to be taken apart. */
	RULE_APART = -1000000,
};

struct walk;

/* What a rule is told. Contents that it does not need may be those of a stand-in. */
struct rule_call {
	struct site *site;
	struct walk *walk;                   /* for through() */
	/* Goes back from what was recorded of the operands (tracked), whose cotangent is g, to them. */
	int (*through)(const struct rule_call *c, struct value *made, struct value *g, struct value **gradp);
	unsigned op, arity;
	unsigned tracked;                    /* operands that want a gradient */
	struct value *g, *y;
	struct value *const *in;
	const struct op_attr *attr;
};

/* Sets gradp[i] (borrowed from the site) of tracked operands; one that stays NULL is zero. Shapes may still have to be
 * summed to the operand's. */
typedef int rule_function(const struct rule_call *c, struct value **gradp);

enum rule_kind {
	RULE_TEXTS,
	RULE_FUNCTION,
	RULE_PARTS,                          /* differentiated through the text of the operation */
};

struct rule {
	struct rule *next;
	uint16_t op;
	const struct definition *definition;
	enum rule_kind kind;
	uint16_t zero;                       /* operands whose derivative is zero everywhere */
	uint16_t none;                       /* those that have none */
	uint16_t needs[LIMIT_OPERANDS];      /* what the gradient of each reads: bits in the order of texts' operands */
	struct expr *text[LIMIT_OPERANDS];
	struct expr *parts;                  /* the operation's own text, of a composite without gradients in texts */
	rule_function *function;
};

/* The rule of an operation or, where there is one, of a definition. */
int rule_of(struct fusion_context *c, unsigned op, const struct definition *d, const struct rule **rulep,
	struct fault *f) FAULT_MUST_USE;
/* What the gradients of these operands read. */
uint16_t rule_needs(const struct rule *rule, unsigned operands);
/* Evaluates texts or calls the function; not for RULE_PARTS. */
int rule_apply(const struct rule *rule, const struct rule_call *c, struct value **gradp) FAULT_MUST_USE;
struct rule *rules_free(struct rule *first);     /* returns NULL */

/* Rules that are functions, and what they read; moves.c. function NULL: there is none. */
struct rule_code {
	rule_function *function;
	uint16_t needs[LIMIT_OPERANDS];
};
const struct rule_code *rule_code(unsigned op);
/* Those of kept.c, or NULL. */
const struct rule_code *rule_kept(unsigned op);
/* A text parsed, to be freed; NULL: site->failed says why. */
struct expr *rule_text(struct site *s, const char *text, const char *names);
