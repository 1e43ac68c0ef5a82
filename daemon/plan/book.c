/* Patterns that users define: reading and compiling them, and lists of them; see book.h. */
#include "book.h"

#include <errno.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "protocol/attribute.h"
#include "protocol/op.h"
#include "protocol/pattern.h"

/* ---- compiling ---- */

enum {
	NOT_MADE = 0xff,
	/* Composites inside composites; ours are two deep. */
	SCOPES = 8,
};

/* What an attribute's name stands for. */
struct bound {
	enum { BOUND_FREE, BOUND_NUMBER, BOUND_AXES } kind;
	double number;                       /* BOUND_FREE: the attribute of the user's text that it is */
	struct template_node axes;           /* its axes alone */
};

/* An expression whose operands are nodes of the template. */
struct scope {
	const struct expr *e;
	unsigned depth, operands;
	uint8_t operand[EXPR_OPERANDS];
	struct bound bound[OP_ATTRIBUTES];
	bool is_number[EXPR_NODES];          /* a part is a number by itself, as expand() would compute it */
	double number[EXPR_NODES];
	uint8_t made[EXPR_NODES];            /* the node of each part, or NOT_MADE */
};

struct compiler {
	struct template *t;
	const char *name;
	uint16_t at;                         /* in the user's text: where a composite is called */
	struct fault *fault;
};

static int compile(struct compiler *c, struct scope *s, unsigned part, uint8_t *nodep);

static int refuse(const struct compiler *c, const char *what, const char *why) {
	return fault_set(c->fault, FAULT_ARGUMENT, "%s, column %u: %s %s", c->name, c->at + 1U, what, why);
}

/* -0 is another number than 0, and NaN the same as itself. */
static bool same_number(double a, double b) {
	return dtype_scalar_from_double(DTYPE_f64, a) == dtype_scalar_from_double(DTYPE_f64, b);
}

static bool same_node(const struct template_node *a, const struct template_node *b) {
	return a->kind == b->kind && a->arity == b->arity && a->op == b->op && a->operand == b->operand && a->axes == b->axes &&
		a->listed == b->listed && !memcmp(a->in, b->in, sizeof a->in) && !memcmp(a->axis, b->axis, sizeof a->axis) &&
		same_number(a->number, b->number);
}

/* Equal ones are one, as in a graph. */
static int add(struct compiler *c, const struct template_node *n, uint8_t *nodep) {
	struct template *t = c->t;

	for (unsigned i = 0; i < t->nodes; i++)
		if (same_node(&t->node[i], n)) {
			*nodep = (uint8_t)i;
			return 0;
		}
	if (t->nodes == TEMPLATE_NODES)
		return fault_set(c->fault, FAULT_LIMIT, "%s: a pattern has at most %d operations, numbers and operands", c->name,
			TEMPLATE_NODES);
	t->operations += n->kind == TEMPLATE_OPERATION;
	t->numbers += n->kind == TEMPLATE_NUMBER;
	t->node[t->nodes] = *n;
	*nodep = t->nodes++;
	return 0;
}

static struct template_node blank(enum template_kind kind) {
	return (struct template_node){ .kind = (uint8_t)kind };
}

static int add_number(struct compiler *c, double number, uint8_t *nodep) {
	struct template_node n = blank(TEMPLATE_NUMBER);

	n.number = number;
	return add(c, &n, nodep);
}

/* ---- numbers ---- */

static bool fold(unsigned op, double a, double b, double *resultp) {
	if (op == OP_neg)
		*resultp = -a;
	else if (op == OP_add)
		*resultp = a + b;
	else if (op == OP_sub)
		*resultp = a - b;
	else if (op == OP_mul)
		*resultp = a * b;
	else if (op == OP_div)
		*resultp = a / b;
	else if (op == OP_maximum)
		*resultp = a > b ? a : b;
	else
		return false;
	return true;
}

static bool find_number(const struct scope *s, const struct expr_node *n, double *numberp) {
	unsigned last = n->arity ? n->in[n->arity - 1] : 0;

	if (n->kind == EXPR_NUMBER)
		*numberp = n->number;
	else if (n->kind == EXPR_ATTRIBUTE && s->bound[n->which].kind == BOUND_NUMBER)
		*numberp = s->bound[n->which].number;
	else
		return n->kind == EXPR_OPERATION && (n->arity == 1 || n->arity == 2) && s->is_number[n->in[0]] &&
			s->is_number[last] && fold(n->which, s->number[n->in[0]], s->number[last], numberp);
	return true;
}

/* Once attributes are bound. Arguments stand before what takes them. */
static void find_numbers(struct scope *s) {
	for (unsigned i = 0; i < s->e->count; i++)
		s->is_number[i] = find_number(s, &s->e->node[i], &s->number[i]);
}

/* ---- axes ---- */

static bool add_axis(const struct scope *s, unsigned part, struct template_node *n) {
	double axis = s->number[part];

	if (!s->is_number[part] || axis < -LIMIT_RANK || axis >= LIMIT_RANK || axis != (int)axis ||
		n->listed == LIMIT_RANK)
		return false;
	n->axis[n->listed++] = (int8_t)axis;
	return true;
}

static int take_axes(struct compiler *c, const struct scope *s, unsigned part, struct template_node *n) {
	const struct expr_node *from = &s->e->node[part];
	bool fits = true;

	n->axes = TEMPLATE_AXES_LISTED;
	if (from->kind == EXPR_ATTRIBUTE && from->which == OP_ATTRIBUTE_axes) {
		const struct bound *b = &s->bound[from->which];

		n->axes = b->kind == BOUND_FREE ? TEMPLATE_AXES_ANY : b->axes.axes;
		n->listed = b->axes.listed;
		memcpy(n->axis, b->axes.axis, sizeof n->axis);
		return 0;
	}
	if (from->kind == EXPR_LIST)
		for (unsigned i = 0; fits && i < from->arity; i++)
			fits = add_axis(s, from->in[i], n);
	else
		fits = add_axis(s, part, n);
	return fits ? 0 : refuse(c, "the axes of a reduction in a pattern", "are numbers, or the name axes for any");
}

/* ---- operations ---- */

/* What cannot be told from an expression alone is no part of a pattern. */
static bool may_be_part(const struct op_info *o, unsigned op) {
	return op_is_elementwise(o) || o->class == OP_CLASS_REDUCE || op == OP_matmul;
}

static int compile_basic(struct compiler *c, struct scope *s, const struct expr_node *from, uint8_t *nodep) {
	struct template_node n = blank(TEMPLATE_OPERATION);
	const struct op_info *o = op_info(from->which);
	int r = 0;

	if (!may_be_part(o, from->which))
		return refuse(c, o->name, "cannot be part of a pattern; elementwise operations, reductions, matmul and transpose can");
	n.op = from->which;
	n.arity = o->class == OP_CLASS_REDUCE ? 1 : from->arity;
	for (unsigned i = 0; !r && i < n.arity; i++)
		r = compile(c, s, from->in[i], &n.in[i]);
	if (!r && o->class == OP_CLASS_REDUCE && from->arity == 2)
		r = take_axes(c, s, from->in[1], &n);
	return r ? r : add(c, &n, nodep);
}

/* Attributes that a call does not give are 0, and no axes. */
static void bind_standard(struct scope *s) {
	for (unsigned i = 0; i < OP_ATTRIBUTES; i++) {
		bool axes = attribute_info((enum op_attribute)i)->kind == ATTRIBUTE_KIND_AXES;

		s->bound[i] = (struct bound){ .kind = axes ? BOUND_AXES : BOUND_NUMBER };
		s->bound[i].axes.axes = TEMPLATE_AXES_LISTED;
	}
}

static int bind_attribute(struct compiler *c, const struct scope *outer, const struct expr_node *call, unsigned argument,
	struct scope *s) {
	enum op_attribute which = (enum op_attribute)call->name[argument];
	struct bound *b = &s->bound[which];

	if (b->kind == BOUND_AXES)
		return take_axes(c, outer, call->in[argument], &b->axes);
	b->number = outer->number[call->in[argument]];
	if (outer->is_number[call->in[argument]])
		return 0;
	if (outer->e->node[call->in[argument]].kind != EXPR_ATTRIBUTE)
		return refuse(c, attribute_info(which)->name, "is to be a number in a pattern, or the name of an attribute");
	*b = outer->bound[outer->e->node[call->in[argument]].which];
	return 0;
}

/* A composite becomes the parts of its text. */
static int compile_composite(struct compiler *c, struct scope *outer, const struct expr_node *call, uint8_t *nodep) {
	const struct op_info *o = op_info(call->which);
	struct scope *s = calloc(1, sizeof *s);
	struct expr *e = malloc(sizeof *e);
	int r = s && e ? 0 : -ENOMEM;

	if (!r && outer->depth == SCOPES)
		r = fault_set(c->fault, FAULT_LIMIT, "%s: composites stand too deep inside each other", c->name);
	if (!r)
		r = expr_parse(o->expr, o->operands, e, c->fault);
	if (!r) {
		s->e = e;
		s->depth = outer->depth + 1;
		bind_standard(s);
	}
	for (unsigned i = 0; !r && i < call->arity; i++)
		r = call->name[i] == EXPR_POSITIONAL ? compile(c, outer, call->in[i], &s->operand[s->operands++])
						     : bind_attribute(c, outer, call, i, s);
	if (!r) {
		if (!outer->depth)
			c->at = call->at;
		find_numbers(s);
		memset(s->made, NOT_MADE, sizeof s->made);
		r = compile(c, s, e->result, nodep);
	}
	free(e);
	free(s);
	return r;
}

/* given(c, a, b) where it can be told which. */
static int compile_given(struct compiler *c, struct scope *s, const struct expr_node *n, uint8_t *nodep) {
	const struct expr_node *condition = &s->e->node[n->in[0]];

	if (condition->kind == EXPR_OPERAND)
		return compile(c, s, n->in[condition->which < s->operands ? 1 : 2], nodep);
	if (!s->is_number[n->in[0]])
		return refuse(c, "given()", "in a pattern asks for an operand or a number");
	return compile(c, s, n->in[s->number[n->in[0]] != 0 ? 1 : 2], nodep);
}

static int compile_function(struct compiler *c, struct scope *s, const struct expr_node *n, uint8_t *nodep) {
	struct template_node t = blank(TEMPLATE_TRANSPOSE);
	int r;

	if (n->which == EXPR_given)
		return compile_given(c, s, n, nodep);
	if (n->which != EXPR_transpose)
		return refuse(c, expr_function_name((enum expr_function)n->which), "depends on shapes, so it cannot be part of a pattern");
	t.arity = 1;
	r = compile(c, s, n->in[0], &t.in[0]);
	return r ? r : add(c, &t, nodep);
}

/* An attribute of the user's text: any number. */
static int compile_attribute(struct compiler *c, const struct scope *s, const struct expr_node *n, uint8_t *nodep) {
	enum attribute_kind kind = attribute_info((enum op_attribute)n->which)->kind;
	struct template_node t = blank(TEMPLATE_ANY_NUMBER);

	if (kind != ATTRIBUTE_KIND_REAL && kind != ATTRIBUTE_KIND_WHOLE)
		return refuse(c, attribute_info((enum op_attribute)n->which)->name, "is no value");
	t.operand = (uint8_t)s->bound[n->which].number;
	return add(c, &t, nodep);
}

static int compile_new(struct compiler *c, struct scope *s, unsigned part, uint8_t *nodep) {
	const struct expr_node *n = &s->e->node[part];
	struct template_node operand = blank(TEMPLATE_OPERAND);

	if (s->is_number[part])
		return add_number(c, s->number[part], nodep);
	switch (n->kind) {
	case EXPR_OPERAND:
		if (s->depth) {
			*nodep = s->operand[n->which];
			return n->which < s->operands ? 0 : refuse(c, "an operand", "is missing");
		}
		operand.operand = (uint8_t)n->which;
		return add(c, &operand, nodep);
	case EXPR_ATTRIBUTE:
		return compile_attribute(c, s, n, nodep);
	case EXPR_FUNCTION:
		return compile_function(c, s, n, nodep);
	case EXPR_OPERATION:
		return op_info(n->which)->class == OP_CLASS_COMPOSITE ? compile_composite(c, s, n, nodep)
								    : compile_basic(c, s, n, nodep);
	default:
		return refuse(c, "this", "is no value that a pattern could hold");
	}
}

static int compile(struct compiler *c, struct scope *s, unsigned part, uint8_t *nodep) {
	int r = 0;

	if (s->made[part] == NOT_MADE) {
		if (!s->depth)
			c->at = s->e->node[part].at;
		r = compile_new(c, s, part, &s->made[part]);
	}
	*nodep = s->made[part];
	return r;
}

static int check(const struct named *n, uint8_t result, struct fault *f) {
	const struct template *t = &n->template;

	if (t->operations < TEMPLATE_LEAST)
		return fault_set(f, FAULT_ARGUMENT, "%s: a pattern has at least %d operations, and the text has %u", n->name,
			TEMPLATE_LEAST, t->operations);
	if (result + 1U != t->nodes || t->node[result].kind != TEMPLATE_OPERATION)
		return fault_set(f, FAULT_ARGUMENT, "%s: the result of a pattern is an operation", n->name);
	return 0;
}

/* An own operation is elementwise, so nothing else can be computed in its place. */
static int check_replaced(const struct named *n, struct fault *f) {
	for (unsigned i = 0; n->op && i < n->template.nodes; i++) {
		const struct template_node *t = &n->template.node[i];

		if (t->kind == TEMPLATE_TRANSPOSE || (t->kind == TEMPLATE_OPERATION && !op_is_elementwise(op_info(t->op))))
			return fault_set(f, FAULT_ARGUMENT, "%s: a body computes one element; it cannot stand for a pattern with %s",
				n->name, t->kind == TEMPLATE_TRANSPOSE ? "transpose" : op_info(t->op)->name);
	}
	return 0;
}

static int compile_all(struct named *n, const struct definition *d, struct fault *f) {
	struct compiler c = { .t = &n->template, .name = n->name, .fault = f };
	struct scope *s = calloc(1, sizeof *s);
	uint8_t result = 0;
	int r;

	if (!s)
		return -ENOMEM;
	s->e = &d->expr;
	s->operands = d->arity;
	for (unsigned i = 0; i < OP_ATTRIBUTES; i++)
		s->bound[i] = (struct bound){ .kind = BOUND_FREE, .number = i };
	find_numbers(s);
	memset(s->made, NOT_MADE, sizeof s->made);
	r = compile(&c, s, d->expr.result, &result);
	free(s);
	if (!r)
		r = check(n, result, f);
	return r ? r : check_replaced(n, f);
}

/* ---- patterns ---- */

static uint64_t hash_text(uint64_t h, const char *text) {
	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
	return (h ^ 0x1ff) * UINT64_C(0x100000001b3);
}

static int take_texts(struct named *n, const struct definition *d) {
	memcpy(n->name, d->name, sizeof n->name);
	n->arity = d->arity;
	n->operands = strdup(d->operands);
	n->text = strdup(d->text);
	if (asprintf(&n->off, "the pattern %s is switched off", n->name) < 0)
		n->off = NULL;
	if (!n->operands || !n->text || !n->off)
		return -ENOMEM;
	n->hash = hash_text(hash_text(hash_text(UINT64_C(0xcbf29ce484222325), n->name), n->operands), n->text);
	return 0;
}

int named_new(const char *signature, const char *text, unsigned op, struct named **namedp, struct fault *f) {
	struct named *n = calloc(1, sizeof *n);
	struct definition *d = NULL;
	int r = n ? definition_new(signature, text, NULL, &d, f) : -ENOMEM;

	if (!r && pattern_find(d->name))
		r = fault_set(f, FAULT_ARGUMENT, "%s: there is a built-in pattern of this name", d->name);
	if (!r)
		r = take_texts(n, d);
	if (!r)
		n->op = op;
	if (!r)
		r = compile_all(n, d, f);
	definition_free(d);
	if (r) {
		if (n)
			n->references = 1;
		named_unref(n);
		return r;
	}
	n->references = 1;
	*namedp = n;
	return 0;
}

struct named *named_ref(struct named *n) {
	n->references++;
	return n;
}

struct named *named_unref(struct named *n) {
	if (!n || --n->references)
		return NULL;
	free(n->operands);
	free(n->text);
	free(n->off);
	free(n);
	return NULL;
}

bool named_equal(const struct named *a, const struct named *b) {
	return a->op == b->op && a->exact == b->exact && a->inexact == b->inexact && !strcmp(a->name, b->name) && !strcmp(a->operands, b->operands) && !strcmp(a->text, b->text);
}

/* ---- books ---- */

int book_new(unsigned patterns, struct named *const *pattern, struct book **bookp) {
	static uint64_t serial;
	struct book *b = calloc(1, sizeof *b);

	if (!b)
		return -ENOMEM;
	b->references = 1;
	b->serial = ++serial;
	for (; b->patterns < patterns && b->patterns < BOOK_PATTERNS; b->patterns++)
		b->pattern[b->patterns] = named_ref(pattern[b->patterns]);
	*bookp = b;
	return 0;
}

struct book *book_ref(struct book *b) {
	if (b)
		b->references++;
	return b;
}

struct book *book_unref(struct book *b) {
	if (!b || --b->references)
		return NULL;
	for (unsigned i = 0; i < b->patterns; i++)
		named_unref(b->pattern[i]);
	free(b);
	return NULL;
}

uint32_t book_hash(const struct book *b, named_set set) {
	uint64_t h = 0;

	for (unsigned i = 0; b && i < b->patterns; i++)
		if (set & named_bit(i))
			h = (h ^ b->pattern[i]->hash) * UINT64_C(0x9e3779b97f4a7c15);
	return (uint32_t)(h >> 32);
}

int book_find(const struct book *b, const struct named *n) {
	for (unsigned i = 0; b && i < b->patterns; i++)
		if (b->pattern[i] == n)
			return (int)i;
	return -1;
}
