/* Definitions of operations: reading them, and trying them on types; see definition.h. */
#include "definition.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	/* What a trial makes: an expression's nodes, with the casts of each. */
	TRIAL_VALUES = EXPR_NODES * (EXPR_OPERANDS + 1),
	/* Types are tried in all combinations for so many operands, else all the same. */
	TRIAL_OPERANDS = 4,
	/* Extents of what is tried on types alone. */
	TRIAL_EXTENT = 2,
};

/* Operands of a name without a list of them, as in ops.def. */
static const char standard_operands[] = "a, b, c";

struct definition *definition_free(struct definition *d) {
	if (!d)
		return NULL;
	for (unsigned i = 0; i < EXPR_OPERANDS; i++)
		free(d->gradient[i]);
	free(d->text);
	free(d);
	return NULL;
}

bool definition_differentiates(const struct definition *d) {
	for (unsigned i = 0; i < d->arity; i++)
		if (d->gradient[i])
			return true;
	return false;
}

uint32_t definition_attributes(const struct definition *d) {
	uint32_t attributes = 0;

	for (unsigned i = 0; i < d->expr.count; i++)
		if (d->expr.node[i].kind == EXPR_ATTRIBUTE)
			attributes |= 1U << d->expr.node[i].which;
	return attributes;
}

/* ---- reading ---- */

static int refuse(struct fault *f, const char *name, const char *why) {
	return fault_set(f, FAULT_ARGUMENT, "%.*s: %s", DEFINITION_NAME, name, why);
}

static size_t word_length(const char *text) {
	size_t length = 0;

	if (isdigit((unsigned char)*text))
		return 0;
	while (isalnum((unsigned char)text[length]) || text[length] == '_')
		length++;
	return length;
}

/* "x, beta": names, each once. */
static int check_operands(struct definition *d, struct fault *f) {
	const char *at = d->operands;

	d->arity = 0;
	while (*at) {
		size_t length = word_length(at);

		if (!length || (at[length] && strncmp(at + length, ", ", 2) != 0))
			return refuse(f, d->name, "operands are names with a comma and a blank between them");
		if (d->arity++ == EXPR_OPERANDS)
			return fault_set(f, FAULT_ARITY, "%s has more than %d operands", d->name, EXPR_OPERANDS);
		at += length + (at[length] ? 2 : 0);
	}
	return 0;
}

int definition_signature(struct definition *d, const char *signature, struct fault *f) {
	size_t length = word_length(signature), rest = strlen(signature + length);

	if (!length || length >= DEFINITION_NAME)
		return refuse(f, signature, "a name is of letters, digits and _, and does not begin with a digit");
	memcpy(d->name, signature, length);
	d->name[length] = '\0';
	if (op_find(d->name) >= 0)
		return refuse(f, d->name, "there is an operation of this name");
	if (!rest) {
		memcpy(d->operands, standard_operands, sizeof standard_operands);
		return 0;
	}
	if (rest >= DEFINITION_OPERANDS || signature[length] != '(' || signature[length + rest - 1] != ')')
		return refuse(f, signature, "expected a name, or a name and its operands in parentheses");
	memcpy(d->operands, signature + length + 1, rest - 2);
	d->operands[rest - 2] = '\0';
	return check_operands(d, f);
}

static int parse_text(struct definition *d, const char *text, struct fault *f) {
	int r = expr_parse(text, d->operands, &d->expr, f);

	if (r > 0)
		fault_prefix(f, "%s", d->name);
	if (!d->arity)
		d->arity = d->expr.operands;
	if (r)
		return r;
	d->text = strdup(text);
	return d->text ? 0 : -ENOMEM;
}

/* A gradient may also name g, what comes from behind, and y, the result. */
static int take_gradient(struct definition *d, unsigned operand, const char *text, struct fault *f) {
	struct expr *e = malloc(sizeof *e);
	char names[DEFINITION_OPERANDS + 8];
	int r = e ? 0 : -ENOMEM;

	if (!r) {
		snprintf(names, sizeof names, "%s%sg, y", d->operands, *d->operands ? ", " : "");
		r = expr_parse(text, names, e, f);
	}
	if (r > 0)
		fault_prefix(f, "%s, gradient of operand %u", d->name, operand + 1);
	free(e);
	if (r)
		return r;
	d->gradient[operand] = strdup(text);
	return d->gradient[operand] ? 0 : -ENOMEM;
}

int definition_gradients(struct definition *d, const char *const *gradient, struct fault *f) {
	int r = 0;

	for (unsigned i = 0; !r && gradient && i < d->arity; i++)
		if (gradient[i])
			r = take_gradient(d, i, gradient[i], f);
	return r;
}

/* ---- a trial on types alone ---- */

unsigned definition_choices(const struct definition *d) {
	unsigned choices = DEFINITION_TRIED;

	for (unsigned i = 1; i < d->arity && d->arity <= TRIAL_OPERANDS; i++)
		choices *= DEFINITION_TRIED;
	return choices;
}

enum dtype definition_tried_type(const struct definition *d, unsigned choice, unsigned operand) {
	static const uint8_t dtypes[DEFINITION_TRIED] = { DTYPE_f32, DTYPE_i32, DTYPE_bool };

	for (unsigned i = 0; i < operand && d->arity <= TRIAL_OPERANDS; i++)
		choice /= DEFINITION_TRIED;
	return dtypes[choice % DEFINITION_TRIED];
}

int definition_try(const struct definition *d, const struct expand_target *target, unsigned n,
	const uint32_t *operand, uint32_t *valuep, struct fault *f) {
	const struct op_attr attr = { .dtype = DTYPE_f32, .rank = 2, .axes = 2, .dims = { n, n }, .whole = 1 };
	const struct expand_call call = { d->name, &d->expr, d->arity, operand, &attr, NULL };

	return expand(&call, target, valuep, f);
}

struct trial {
	uint32_t count;
	struct tensor_type type[TRIAL_VALUES];
};

static int trial_op(void *into, unsigned op, unsigned n, const uint32_t *in, const struct op_attr *attr,
	uint32_t *valuep, struct fault *f) {
	const struct tensor_type *type[LIMIT_OPERANDS];
	struct trial *t = into;

	for (unsigned i = 0; i < n; i++)
		type[i] = &t->type[in[i]];
	if (t->count == TRIAL_VALUES)
		return fault_set(f, FAULT_LIMIT, "the expression makes more than %d values", TRIAL_VALUES);
	*valuep = t->count;
	return op_infer(op, n, type, attr, &t->type[t->count++], f);
}

static const struct tensor_type *trial_type(void *into, uint32_t value) {
	return &((struct trial *)into)->type[value];
}

static int try_types(const struct definition *d, struct trial *t, unsigned choice, struct fault *f) {
	const struct expand_target target = { t, trial_op, trial_type };
	uint32_t operand[EXPR_OPERANDS], value;

	t->count = d->arity;
	for (unsigned i = 0; i < d->arity; i++) {
		operand[i] = i;
		t->type[i] = (struct tensor_type){ .dtype = (uint8_t)definition_tried_type(d, choice, i), .rank = 2,
			.dims = { TRIAL_EXTENT, TRIAL_EXTENT } };
	}
	return definition_try(d, &target, TRIAL_EXTENT, operand, &value, f);
}

/* Some types must be fit; what only a shape could decide is left to the call. The sentence is that of f32. */
int definition_choose(const struct definition *d, unsigned *choicep, struct fault *f) {
	struct trial *t = malloc(sizeof *t);
	struct fault other;
	int each;

	if (!t)
		return -ENOMEM;
	*choicep = 0;
	each = try_types(d, t, 0, f);
	while (each == FAULT_DTYPE && *choicep + 1 < definition_choices(d))
		each = try_types(d, t, ++*choicep, &other);
	free(t);
	return each < 0 || each == FAULT_DTYPE ? each : 0;
}

int definition_new(const char *signature, const char *text, const char *const *gradient, struct definition **dp,
	struct fault *f) {
	struct definition *d;
	unsigned choice;
	int r;

	if (!signature || !text)
		return fault_set(f, FAULT_ARGUMENT, "the %s is NULL", signature ? "text" : "name");
	d = calloc(1, sizeof *d);
	r = d ? definition_signature(d, signature, f) : -ENOMEM;
	if (!r)
		r = parse_text(d, text, f);
	if (!r)
		r = definition_choose(d, &choice, f);
	if (!r)
		r = definition_gradients(d, gradient, f);
	if (r)
		definition_free(d);
	else
		*dp = d;
	return r;
}
