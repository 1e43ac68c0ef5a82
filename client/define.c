/*
 * Operations that users define; see define.h.
 *
 * A definition is refused when it is made where it does not read, and where no element types of its
 * operands let its text be computed: it is tried on types alone. What depends on shapes is told when it
 * is called, with the column of the text.
 */
#include "define.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/expand.h"
#include "context.h"

enum {
	/* A name, and one with the names of its operands. */
	NAME_BYTES = 64,
	SIGNATURE_BYTES = 256,
	/* Definitions of a context: a text of many nodes takes 12 KiB. */
	DEFINITIONS = 256,
	/* What a trial makes: an expression's nodes, with the casts of each. */
	TRIAL_VALUES = EXPR_NODES * (EXPR_OPERANDS + 1),
	/* Types are tried in all combinations for so many operands, else all the same. */
	TRIAL_OPERANDS = 4,
};

/* Operands of a name without a list of them, as in ops.def. */
static const char standard_operands[] = "a, b, c";

struct definition {
	struct definition *next;
	char name[NAME_BYTES];
	char operands[SIGNATURE_BYTES];
	unsigned arity;
	char *gradient[EXPR_OPERANDS];       /* checked texts, for whoever differentiates; NULL: none */
	struct expr expr;
};

static struct definition *definition_free(struct definition *d) {
	if (!d)
		return NULL;
	for (unsigned i = 0; i < EXPR_OPERANDS; i++)
		free(d->gradient[i]);
	free(d);
	return NULL;
}

struct definition *definitions_free(struct definition *first) {
	while (first) {
		struct definition *next = first->next;

		definition_free(first);
		first = next;
	}
	return NULL;
}

const struct definition *definition_find(const struct fusion_context *c, const char *name) {
	for (const struct definition *d = c->definitions; d; d = d->next)
		if (!strcmp(d->name, name))
			return d;
	return NULL;
}

uint32_t definition_attributes(const struct definition *d) {
	uint32_t attributes = 0;

	for (unsigned i = 0; i < d->expr.count; i++)
		if (d->expr.node[i].kind == EXPR_ATTRIBUTE)
			attributes |= 1U << d->expr.node[i].which;
	return attributes;
}

/* ---- making one ---- */

static int refuse(struct fault *f, const char *name, const char *why) {
	return fault_set(f, FAULT_ARGUMENT, "define_op: %.*s: %s", NAME_BYTES, name, why);
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
			return fault_set(f, FAULT_ARITY, "define_op: %s has more than %d operands", d->name,
				EXPR_OPERANDS);
		at += length + (at[length] ? 2 : 0);
	}
	return 0;
}

/* "swish2(x, beta)", or a name alone. */
static int take_signature(struct definition *d, const char *signature, struct fault *f) {
	size_t length = word_length(signature), rest = strlen(signature + length);

	if (!length || length >= NAME_BYTES)
		return refuse(f, signature, "a name is of letters, digits and _, and does not begin with a digit");
	memcpy(d->name, signature, length);
	if (!rest) {
		memcpy(d->operands, standard_operands, sizeof standard_operands);
		return 0;
	}
	if (rest >= SIGNATURE_BYTES || signature[length] != '(' || signature[length + rest - 1] != ')')
		return refuse(f, signature, "expected a name, or a name and its operands in parentheses");
	memcpy(d->operands, signature + length + 1, rest - 2);
	return check_operands(d, f);
}

static int check_name(const struct fusion_context *c, const struct definition *d, struct fault *f) {
	unsigned count = 0;

	if (op_find(d->name) >= 0)
		return refuse(f, d->name, "there is an operation of this name");
	if (definition_find(c, d->name))
		return refuse(f, d->name, "it is defined already");
	for (const struct definition *each = c->definitions; each; each = each->next)
		count++;
	if (count < DEFINITIONS)
		return 0;
	return fault_set(f, FAULT_LIMIT, "define_op: %s: a context has at most %d definitions", d->name, DEFINITIONS);
}

static int parse_text(struct definition *d, const char *text, struct fault *f) {
	int r = expr_parse(text, d->operands, &d->expr, f);

	if (r > 0)
		fault_prefix(f, "define_op: %s", d->name);
	if (!d->arity)
		d->arity = d->expr.operands;
	return r;
}

/* A gradient may also name g, what comes from behind, and y, the result. */
static int take_gradient(struct definition *d, unsigned operand, const char *text, struct fault *f) {
	struct expr *e = malloc(sizeof *e);
	char names[SIGNATURE_BYTES + 8];
	int r = e ? 0 : -ENOMEM;

	if (!r) {
		snprintf(names, sizeof names, "%s%sg, y", d->operands, *d->operands ? ", " : "");
		r = expr_parse(text, names, e, f);
	}
	if (r > 0)
		fault_prefix(f, "define_op: %s, gradient of operand %u", d->name, operand + 1);
	free(e);
	if (r)
		return r;
	d->gradient[operand] = strdup(text);
	return d->gradient[operand] ? 0 : -ENOMEM;
}

/* ---- a trial on types alone ---- */

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

/* Squares of 2 x 2, of f32, i32 or bool: the digits of `choice` say which. */
static int try_types(const struct definition *d, struct trial *t, unsigned choice, struct fault *f) {
	static const uint8_t dtypes[] = { DTYPE_f32, DTYPE_i32, DTYPE_bool };
	static const struct op_attr attr = { .dtype = DTYPE_f32, .rank = 2, .axes = 2, .dims = { 2, 2 }, .whole = 1 };
	const struct expand_target target = { t, trial_op, trial_type };
	uint32_t operand[EXPR_OPERANDS], value;
	const struct expand_call call = { d->name, &d->expr, d->arity, operand, &attr, NULL };

	t->count = d->arity;
	for (unsigned i = 0; i < d->arity; i++) {
		operand[i] = i;
		t->type[i] = (struct tensor_type){ .dtype = dtypes[choice % 3], .rank = 2, .dims = { 2, 2 } };
		if (d->arity <= TRIAL_OPERANDS)
			choice /= 3;
	}
	return expand(&call, &target, &value, f);
}

/* Some types must be fit; what only a shape could decide is left to the call. The sentence is that of f32. */
static int check_types(const struct definition *d, struct fault *f) {
	struct trial *t = malloc(sizeof *t);
	unsigned choices = 3;
	struct fault other;
	int r, each;

	if (!t)
		return -ENOMEM;
	for (unsigned i = 1; i < d->arity && d->arity <= TRIAL_OPERANDS; i++)
		choices *= 3;
	r = each = try_types(d, t, 0, f);
	for (unsigned choice = 1; each == FAULT_DTYPE && choice < choices; choice++)
		each = try_types(d, t, choice, &other);
	free(t);
	if (r > 0 && each == FAULT_DTYPE)
		fault_prefix(f, "define_op");
	return each < 0 || each == FAULT_DTYPE ? each : 0;
}

static int definition_make(struct fusion_context *c, const char *signature, const char *text,
	const char *const *gradient, struct definition *d, struct fault *f) {
	int r = signature && text ? take_signature(d, signature, f)
				  : fault_set(f, FAULT_ARGUMENT, "define_op: the %s is NULL", signature ? "text" : "name");

	if (!r)
		r = check_name(c, d, f);
	if (!r)
		r = parse_text(d, text, f);
	if (!r)
		r = check_types(d, f);
	for (unsigned i = 0; !r && gradient && i < d->arity; i++)
		if (gradient[i])
			r = take_gradient(d, i, gradient[i], f);
	return r;
}

int fusion_define_op(
	fusion_context *context, const char *name, const char *text, const char *const *gradient) {
	struct definition *d;
	struct fault f;
	int r = context_enter(context);

	if (r)
		return r;
	d = calloc(1, sizeof *d);
	r = d ? definition_make(context, name, text, gradient, d, &f) : -ENOMEM;
	if (r) {
		definition_free(d);
	} else {
		d->next = context->definitions;
		context->definitions = d;
	}
	context_leave(context);
	return error_report(r, &f);
}

/* ---- a call ---- */

/* Values by their numbers; each is held once until the end. */
struct site {
	struct recording *recording;
	struct value **value;
	uint32_t count, capacity;
};

static int site_keep(struct site *s, struct value *v, uint32_t *numberp) {
	if (s->count == s->capacity) {
		uint32_t capacity = s->capacity ? 2 * s->capacity : 32;
		struct value **value = realloc(s->value, capacity * sizeof(struct value *));

		if (!value)
			return -ENOMEM;
		s->value = value;
		s->capacity = capacity;
	}
	*numberp = s->count;
	s->value[s->count++] = v;
	return 0;
}

static int site_op(void *into, unsigned op, unsigned n, const uint32_t *in, const struct op_attr *attr,
	uint32_t *numberp, struct fault *f) {
	struct site *s = into;
	struct value *operand[LIMIT_OPERANDS], *v;
	int r;

	for (unsigned i = 0; i < n; i++)
		operand[i] = s->value[in[i]];
	r = record_value(s->recording, op, n, operand, attr, &v);
	if (r) {
		if (r > 0)
			*f = s->recording->fault;
		return r;
	}
	r = site_keep(s, v, numberp);
	if (r)
		value_drop(s->recording->context, v);
	return r;
}

static const struct tensor_type *site_type(void *into, uint32_t number) {
	return &((struct site *)into)->value[number]->type;
}

int definition_record(
	const struct definition *d, struct recording *r, const struct op_attr *attr, struct value **vp) {
	struct site s = { .recording = r };
	const struct expand_target target = { &s, site_op, site_type };
	uint32_t operand[EXPR_OPERANDS], result;
	const struct expand_call call = { d->name, &d->expr, r->count, operand, attr, NULL };
	struct fault f;
	int failed = 0;

	if (r->count > d->arity)
		return fault_set(&r->fault, FAULT_ARITY, "%s takes %u operand%s, not %u", d->name, d->arity,
			d->arity == 1 ? "" : "s", r->count);
	for (unsigned i = 0; !failed && i < r->count; i++) {
		failed = site_keep(&s, r->in[i], &operand[i]);
		if (!failed)
			value_ref(r->in[i]);
	}
	if (!failed)
		failed = expand(&call, &target, &result, &f);
	if (failed > 0)
		r->fault = f;
	if (!failed) {
		*vp = s.value[result];
		value_ref(*vp);
	}
	for (uint32_t i = 0; i < s.count; i++)
		value_drop(r->context, s.value[i]);
	free(s.value);
	return failed;
}
