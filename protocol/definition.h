/*
 * A definition of an operation: a name, the names of its operands, an expression, and a gradient if it has one.
 *
 * It is made of texts that people wrote, clients by fusion_define_op() and administrators in conf.d, and refused
 * where it does not read, or where no element types of its operands let its text be computed: it is tried on types
 * alone. What depends on shapes is told when it is called, with the column of the text.
 */
#pragma once

#include "expand.h"

enum {
	/* A name, and the names of the operands. */
	DEFINITION_NAME = 64,
	DEFINITION_OPERANDS = 256,
};

struct definition {
	char name[DEFINITION_NAME];
	char operands[DEFINITION_OPERANDS];  /* "x, beta" */
	unsigned arity;
	char *text;
	char *gradient[EXPR_OPERANDS];       /* checked texts, for whoever differentiates; NULL: none */
	struct expr expr;
};

/*
 * signature is "swish2(x, beta)", or a name alone, whose operands are called a, b and c. gradient: a text for each
 * operand, which may also name g and y, or NULL. 0, -ENOMEM, or a fault that begins with the name.
 */
int definition_new(const char *signature, const char *text, const char *const *gradient, struct definition **dp,
	struct fault *f) FAULT_MUST_USE;
struct definition *definition_free(struct definition *d);    /* returns NULL */

/* The name and operands of a signature, alone. arity is 0 where it lists none. */
int definition_signature(struct definition *d, const char *signature, struct fault *f) FAULT_MUST_USE;
/* Gradients of operands that are named already. */
int definition_gradients(struct definition *d, const char *const *gradient, struct fault *f) FAULT_MUST_USE;

/* Has it gradients of its own? */
bool definition_differentiates(const struct definition *d);

/* The attributes (1 << enum op_attribute) that its text names. */
uint32_t definition_attributes(const struct definition *d);

/*
 * A trial: operands are squares of n x n, and the digits of `choice` in base DEFINITION_TRIED say of which type each
 * is. definition_try() makes of them what the text makes; attributes are of these sizes, too.
 */
enum { DEFINITION_TRIED = 3 };
int definition_try(const struct definition *d, const struct expand_target *target, unsigned n,
	const uint32_t *operand, uint32_t *valuep, struct fault *f) FAULT_MUST_USE;
enum dtype definition_tried_type(const struct definition *d, unsigned choice, unsigned operand);
/* How many choices there are. */
unsigned definition_choices(const struct definition *d);
/* The first choice that the text can be computed of. A fault where there is none: the one of f32. */
int definition_choose(const struct definition *d, unsigned *choicep, struct fault *f) FAULT_MUST_USE;
