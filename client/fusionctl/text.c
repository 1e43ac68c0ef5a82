/*
 * The parser of text graphs; see text.h for the contract and fusion-graph(5) for the language.
 *
 * One statement is one function below, and reads its line from left to right. Statements that are
 * being built live inside the struct text from their first token on, so that text_free() finds
 * whatever they own when a line is refused half way.
 */
#include "text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/fusionctl/element.h"
#include "protocol/attribute.h"

enum {
	/* A file beyond this is no graph that a person wrote. */
	FILE_BYTES = 64 << 20,
	FILE_CHUNK = 1 << 16,
};

struct parser {
	struct lex lex;
	struct text *text;
	struct fault *fault;
};

/* ---- growing ---- */

/* Room for one more element of `size` bytes, zeroed, at the end of *arrayp; capacities are powers of two. */
static void *append(void *arrayp, unsigned *countp, size_t size) {
	char **array = arrayp;
	void *element;

	if (!(*countp & (*countp + 1))) {
		char *more = realloc(*array, (2 * (size_t)*countp + 1) * size);

		if (!more)
			return NULL;
		*array = more;
	}
	element = *array + (*countp)++ * size;
	memset(element, 0, size);
	return element;
}

static struct text_statement *new_statement(struct text *t) {
	return append(&t->statement, &t->statements, sizeof *t->statement);
}

static struct text_expectation *new_expectation(struct text *t) {
	return append(&t->expectation, &t->expectations, sizeof *t->expectation);
}

/* ---- names ---- */

static bool same_word(const struct lex_token *a, const struct lex_token *b) {
	return a->length == b->length && !memcmp(a->text, b->text, a->length);
}

/* The statement that defines a name, or -1. The one being read is not complete yet, so not found. */
static int find_statement(const struct text *t, const struct lex_token *name, unsigned count) {
	for (unsigned i = 0; i < count; i++)
		if (same_word(&t->statement[i].name, name))
			return (int)i;
	return -1;
}

static int find_operation(const struct lex_token *name) {
	for (int id = 0; id < OP_COUNT; id++)
		if (op_info((unsigned)id) && id != OP_load && lex_token_is(name, op_info((unsigned)id)->name))
			return id;
	return -1;
}

/* An operation's name, as the next token. */
static int take_operation(struct parser *p, int *opp) {
	struct lex_token name = p->lex.token;
	int r = lex_take_kind(&p->lex, LEX_NAME, "the name of an operation", &name, p->fault);

	if (r)
		return r;
	*opp = find_operation(&name);
	if (*opp >= 0)
		return 0;
	return lex_refuse(p->lex.path, &name, FAULT_OPERATION, p->fault,
		"there is no operation '%.*s'; fusion-ops(7) lists them", (int)name.length, name.text);
}

static int take_defined(struct parser *p, unsigned count, int *statementp) {
	struct lex_token name;
	int r = lex_take_kind(&p->lex, LEX_NAME, "the name of an array", &name, p->fault);

	if (r)
		return r;
	*statementp = find_statement(p->text, &name, count);
	if (*statementp >= 0)
		return 0;
	return lex_refuse(p->lex.path, &name, FAULT_SYNTAX, p->fault,
		"no line before this one defines '%.*s'", (int)name.length, name.text);
}

/* ---- types and shapes ---- */

static int take_dtype(struct parser *p, enum dtype *dtypep) {
	for (enum dtype d = 0; d < DTYPE_COUNT; d++)
		if (lex_at(&p->lex, dtype_info(d)->name)) {
			*dtypep = d;
			return lex_next(&p->lex, p->fault);
		}
	return lex_expected(&p->lex, "an element type such as f32", p->fault);
}

/* [4,8] with extents of at least `least`. */
static int take_dims(struct parser *p, int64_t least, int *rankp, int64_t dims[static LIMIT_RANK]) {
	bool closed;
	int r = lex_take(&p->lex, "[", p->fault);

	*rankp = 0;
	if (r)
		return r;
	r = lex_try(&p->lex, "]", &closed, p->fault);
	while (!r && !closed) {
		if (*rankp == LIMIT_RANK)
			return lex_refuse(p->lex.path, &p->lex.token, FAULT_RANK, p->fault,
				"more than %d dimensions", LIMIT_RANK);
		r = lex_take_integer(&p->lex, "an extent", least, INT64_MAX, &dims[*rankp], p->fault);
		++*rankp;
		if (!r)
			r = lex_try(&p->lex, "]", &closed, p->fault);
		if (!r && !closed)
			r = lex_take(&p->lex, ",", p->fault);
	}
	return r;
}

/* 0,2,-1: at least one axis. */
static int take_axes(struct parser *p, struct text_statement *s) {
	bool more = true;
	int r = 0;

	while (!r && more) {
		int64_t axis;

		if (s->axes == LIMIT_RANK)
			return lex_refuse(p->lex.path, &p->lex.token, FAULT_RANK, p->fault,
				"more than %d axes", LIMIT_RANK);
		r = lex_take_integer(&p->lex, "an axis", -LIMIT_RANK, LIMIT_RANK - 1, &axis, p->fault);
		if (r)
			return r;
		s->axis[s->axes++] = (int)axis;
		r = lex_try(&p->lex, ",", &more, p->fault);
	}
	return r;
}

/* ---- attributes of operations ---- */

static int parse_typed_shape(struct parser *p, struct text_statement *s) {
	int r = take_dtype(p, &s->dtype);

	return r ? r : take_dims(p, 0, &s->rank, s->dims);
}

static int parse_input(struct parser *p, struct text_statement *s) {
	int r = parse_typed_shape(p, s);

	return r ? r : values_parse(&s->values, &p->lex, p->fault);
}

static int parse_fill(struct parser *p, struct text_statement *s) {
	int r = parse_typed_shape(p, s);

	return r ? r : lex_take_kind(&p->lex, LEX_NUMBER, "the value", &s->number[0], p->fault);
}

static int parse_arange(struct parser *p, struct text_statement *s) {
	int r = parse_typed_shape(p, s);

	if (!r)
		r = lex_take_kind(&p->lex, LEX_NUMBER, "the first value", &s->number[0], p->fault);
	return r ? r : lex_take_kind(&p->lex, LEX_NUMBER, "the step", &s->number[1], p->fault);
}

static int parse_cast(struct parser *p, struct text_statement *s) {
	return take_dtype(p, &s->dtype);
}

/* -1 stands for the extent that follows from the others. */
static int parse_reshape(struct parser *p, struct text_statement *s) {
	return take_dims(p, -1, &s->rank, s->dims);
}

static int parse_broadcast(struct parser *p, struct text_statement *s) {
	return take_dims(p, 0, &s->rank, s->dims);
}

/* An index, or nothing where the next token is no number. */
static int take_bound(struct parser *p, int64_t *boundp) {
	*boundp = INT64_MIN;
	if (p->lex.token.kind != LEX_NUMBER)
		return 0;
	return lex_take_integer(&p->lex, "an index", -INT64_MAX, INT64_MAX, boundp, p->fault);
}

/* 1:5:2, with each part left out as in Python. */
static int take_range(struct parser *p, struct text_statement *s) {
	bool stepped;
	int r = take_bound(p, &s->start[s->rank]);

	if (!r)
		r = lex_take(&p->lex, ":", p->fault);
	if (!r)
		r = take_bound(p, &s->stop[s->rank]);
	if (!r)
		r = lex_try(&p->lex, ":", &stepped, p->fault);
	s->step[s->rank] = 1;
	if (!r && stepped && p->lex.token.kind == LEX_NUMBER)
		r = take_bound(p, &s->step[s->rank]);
	s->rank++;
	return r;
}

static int parse_slice(struct parser *p, struct text_statement *s) {
	bool more = true;
	int r = lex_take(&p->lex, "[", p->fault);

	while (!r && more) {
		if (s->rank == LIMIT_RANK)
			return lex_refuse(p->lex.path, &p->lex.token, FAULT_RANK, p->fault,
				"more than %d ranges", LIMIT_RANK);
		r = take_range(p, s);
		if (!r)
			r = lex_try(&p->lex, ",", &more, p->fault);
	}
	return r ? r : lex_take(&p->lex, "]", p->fault);
}

/* axes=0,1 and keepdims, in any order; axes=none reduces nothing. */
static int parse_reduction(struct parser *p, struct text_statement *s) {
	for (;;) {
		bool axes, keepdims, none;
		int r = lex_try(&p->lex, "axes", &axes, p->fault);

		if (!r && axes && s->axes_given)
			return lex_expected(&p->lex, "axes only once", p->fault);
		if (!r && axes)
			r = lex_take(&p->lex, "=", p->fault);
		if (!r && axes)
			r = lex_try(&p->lex, "none", &none, p->fault);
		if (!r && axes && !none)
			r = take_axes(p, s);
		s->axes_given |= axes;
		if (!r)
			r = lex_try(&p->lex, "keepdims", &keepdims, p->fault);
		if (r || (!axes && !keepdims))
			return r;
		s->keepdims |= keepdims;
	}
}

/* The words of settings. */
static const char *const setting_words[TEXT_SETTINGS] = {
	[TEXT_AXIS] = "axis",
	[TEXT_SIZE] = "size",
	[TEXT_STEP] = "step",
	[TEXT_DILATION] = "dilation",
};

/* One of the settings in the set, if any follows. */
static int take_setting(struct parser *p, struct text_statement *s, unsigned *openp, bool *foundp) {
	int r = 0;

	*foundp = false;
	for (unsigned i = 0; !r && !*foundp && i < TEXT_SETTINGS; i++) {
		if (!(*openp >> i & 1))
			continue;
		r = lex_try(&p->lex, setting_words[i], foundp, p->fault);
		if (r || !*foundp)
			continue;
		*openp &= ~(1U << i);
		r = lex_take(&p->lex, "=", p->fault);
		if (!r)
			r = lex_take_integer(&p->lex, "a whole number", INT64_MIN + 1, INT64_MAX, &s->setting[i],
				p->fault);
	}
	return r;
}

/* Settings in any order: each of the set at most once, those of `needed` exactly once. */
static int take_settings(struct parser *p, struct text_statement *s, unsigned set, unsigned needed) {
	char what[LIMIT_SENTENCE];
	bool found = true;
	int r = 0;

	while (!r && found)
		r = take_setting(p, s, &set, &found);
	if (r || !(set & needed))
		return r;
	snprintf(what, sizeof what, "%s= and a number", setting_words[__builtin_ctz(set & needed)]);
	return lex_expected(&p->lex, what, p->fault);
}

static int parse_windows(struct parser *p, struct text_statement *s) {
	unsigned needed = 1 << TEXT_AXIS | 1 << TEXT_SIZE;

	s->setting[TEXT_STEP] = s->setting[TEXT_DILATION] = 1;
	return take_settings(p, s, needed | 1 << TEXT_STEP | 1 << TEXT_DILATION, needed);
}

/* The attribute that comes next, one of a set, or -1. */
static int attribute_at(const struct parser *p, uint32_t attributes) {
	int found = p->lex.token.kind == LEX_NAME ? attribute_find(p->lex.token.text, p->lex.token.length) : -1;

	return found >= 0 && attributes >> found & 1 ? found : -1;
}

/* The attributes a statement may have: what `call` calls may have any. */
static uint32_t attributes_of(const struct text_statement *s) {
	return s->op == TEXT_CALL ? UINT32_MAX : op_info((unsigned)s->op)->attributes;
}

static int take_axes_or_none(struct parser *p, struct text_statement *s) {
	bool none;
	int r = lex_try(&p->lex, "none", &none, p->fault);

	s->axes_given = true;
	return r || none ? r : take_axes(p, s);
}

/* [2,3]: all lists of an operation are of one length. */
static int take_list(struct parser *p, struct text_statement *s, enum op_attribute which) {
	int rank;
	int r = take_dims(p, INT64_MIN + 1, &rank, s->list[which]);

	if (!r && s->listed && s->rank != rank)
		return lex_expected(&p->lex, "lists of one length", p->fault);
	s->listed |= 1U << which;
	s->rank = rank;
	return r;
}

/* The number that a token of the text stands for. */
static int read_number(const struct parser *p, const struct lex_token *number, double *valuep) {
	int r = element_read(DTYPE_f64, number->text, number->length, valuep, p->fault);

	if (r)
		lex_locate(p->lex.path, number, p->fault);
	return r;
}

static int take_named(struct parser *p, struct text_statement *s, enum op_attribute which) {
	struct lex_token number;
	enum dtype dtype = DTYPE_f32;
	int r;

	if (attribute_info(which)->kind == ATTRIBUTE_KIND_AXES)
		return take_axes_or_none(p, s);
	if (attribute_info(which)->kind == ATTRIBUTE_KIND_LIST)
		return take_list(p, s, which);
	if (attribute_info(which)->kind == ATTRIBUTE_KIND_DTYPE) {
		r = take_dtype(p, &dtype);
		s->named[which] = dtype;
		return r;
	}
	r = lex_take_kind(&p->lex, LEX_NUMBER, "a number", &number, p->fault);
	return r ? r : read_number(p, &number, &s->named[which]);
}

/* axes=0,1 eps=1e-5 causal: flags by their name alone, the others with a value, in any order. */
static int parse_composite(struct parser *p, struct text_statement *s) {
	uint32_t seen = 0;
	int which, r = 0;

	while (!r && (which = attribute_at(p, attributes_of(s))) >= 0) {
		if (seen >> which & 1)
			return lex_expected(&p->lex, "each attribute only once", p->fault);
		seen |= 1U << which;
		s->named[which] = 1;
		r = lex_next(&p->lex, p->fault);
		if (r || attribute_info((enum op_attribute)which)->kind == ATTRIBUTE_KIND_FLAG)
			continue;
		r = lex_take(&p->lex, "=", p->fault);
		if (!r)
			r = take_named(p, s, (enum op_attribute)which);
	}
	return r;
}

/* axis=1: the one axis of a scan. */
static int parse_axis(struct parser *p, struct text_statement *s) {
	return take_settings(p, s, 1 << TEXT_AXIS, 1 << TEXT_AXIS);
}

/* axis=1 descending */
static int parse_sort(struct parser *p, struct text_statement *s) {
	int r = parse_axis(p, s);

	return r ? r : lex_try(&p->lex, "descending", &s->flag, p->fault);
}

static int parse_searchsorted(struct parser *p, struct text_statement *s) {
	return lex_try(&p->lex, "right", &s->flag, p->fault);
}

typedef int attribute_parser(struct parser *p, struct text_statement *s);

/* What follows the operands. Operations without a row have no attributes. */
static attribute_parser *const attribute_parsers[OP_COUNT] = {
	[OP_load] = parse_input,
	[OP_fill] = parse_fill,
	[OP_arange] = parse_arange,
	[OP_cast] = parse_cast,
	[OP_reshape] = parse_reshape,
	[OP_permute] = take_axes,
	[OP_broadcast] = parse_broadcast,
	[OP_slice] = parse_slice,
	[OP_flip] = take_axes,
	[OP_windows] = parse_windows,
	[OP_take] = parse_axis,
	[OP_concat] = parse_axis,
	[OP_pad] = parse_slice,
	[OP_take_along] = parse_axis,
	[OP_put_along] = parse_axis,
	[OP_add_along] = parse_axis,
	[OP_sort] = parse_sort,
	[OP_argsort] = parse_sort,
	[OP_searchsorted] = parse_searchsorted,
};

static int parse_attributes(struct parser *p, struct text_statement *s) {
	if (op_info((unsigned)s->op)->class == OP_CLASS_REDUCE)
		return parse_reduction(p, s);
	if (op_info((unsigned)s->op)->class == OP_CLASS_COMPOSITE)
		return parse_composite(p, s);
	if (op_info((unsigned)s->op)->class == OP_CLASS_SCAN)
		return parse_axis(p, s);
	return attribute_parsers[s->op] ? attribute_parsers[s->op](p, s) : 0;
}

/* ---- statements ---- */

static int parse_operand(struct parser *p, struct text_statement *s, unsigned i) {
	const struct op_info *info = op_info((unsigned)s->op);
	struct text_operand *o = &s->operand[i];
	char what[LIMIT_SENTENCE];

	o->token = p->lex.token;
	o->statement = -1;
	if (o->token.kind == LEX_NUMBER && op_is_elementwise(info))
		return lex_next(&p->lex, p->fault);
	if (o->token.kind == LEX_NAME)
		return take_defined(p, p->text->statements - 1, &o->statement);
	snprintf(what, sizeof what, "operand %u of %s, an array%s", i + 1, info->name,
		op_is_elementwise(info) ? " or a number" : "");
	return lex_expected(&p->lex, what, p->fault);
}

/* A literal takes its element type from an array, so one operand must be one. */
static int check_operands(struct parser *p, const struct text_statement *s) {
	const struct op_info *info = op_info((unsigned)s->op);
	unsigned first = s->op == OP_where;

	for (unsigned i = first; i < info->arity; i++)
		if (s->operand[i].statement >= 0)
			return 0;
	if (!op_is_elementwise(info))
		return 0;
	return lex_refuse(p->lex.path, &s->at, FAULT_SYNTAX, p->fault,
		"%s of numbers alone: one operand must be an array, which gives the element type",
		info->name);
}

/* Operands that may be absent end where an attribute or the line does. */
static bool more_operands(const struct parser *p, const struct text_statement *s) {
	const struct op_info *info = op_info((unsigned)s->op);

	if (s->operands == info->arity)
		return false;
	if (s->operands < op_least((unsigned)s->op))
		return true;
	return p->lex.token.kind == LEX_NAME && attribute_at(p, info->attributes) < 0 && !lex_at(&p->lex, setting_words[TEXT_AXIS]);
}

/* call NAME x y axes=1: an operation that the daemon's administrator defined; what it takes is found out there. */
static int parse_call(struct parser *p, struct text_statement *s) {
	int r = lex_take_kind(&p->lex, LEX_NAME, "the name of an operation", &s->called, p->fault);

	s->op = TEXT_CALL;
	while (!r && p->lex.token.kind == LEX_NAME && attribute_at(p, UINT32_MAX) < 0) {
		if (s->operands == LIMIT_OPERANDS)
			return lex_expected(&p->lex, "no more operands", p->fault);
		r = take_defined(p, p->text->statements - 1, &s->operand[s->operands++].statement);
	}
	return r ? r : parse_composite(p, s);
}

static int parse_operation(struct parser *p, struct text_statement *s) {
	bool input, call = false;
	int r;

	s->at = p->lex.token;
	s->op = OP_load;
	r = lex_try(&p->lex, "input", &input, p->fault);
	if (!r && !input)
		r = lex_try(&p->lex, "call", &call, p->fault);
	if (call)
		return parse_call(p, s);
	if (!r && !input)
		r = take_operation(p, &s->op);
	while (!r && more_operands(p, s))
		r = parse_operand(p, s, s->operands++);
	if (!r)
		r = check_operands(p, s);
	return r ? r : parse_attributes(p, s);
}

static int parse_definition(struct parser *p) {
	struct text_statement *s = new_statement(p->text);
	int r;

	if (!s)
		return -ENOMEM;
	r = lex_take_kind(&p->lex, LEX_NAME, "a name, output, pattern or expect", &s->name, p->fault);
	if (r)
		return r;
	if (find_statement(p->text, &s->name, p->text->statements - 1) >= 0)
		return lex_refuse(p->lex.path, &s->name, FAULT_SYNTAX, p->fault, "'%.*s' is defined twice",
			(int)s->name.length, s->name.text);
	r = lex_take(&p->lex, "=", p->fault);
	return r ? r : parse_operation(p, s);
}

static int parse_output(struct parser *p) {
	do {
		struct lex_token at = p->lex.token;
		int statement, *output;
		int r = take_defined(p, p->text->statements, &statement);

		if (r)
			return r;
		if (p->text->statement[statement].output)
			return lex_refuse(p->lex.path, &at, FAULT_SYNTAX, p->fault,
				"'%.*s' is an output already", (int)at.length, at.text);
		output = append(&p->text->output, &p->text->outputs, sizeof *output);
		if (!output)
			return -ENOMEM;
		*output = statement;
		p->text->statement[statement].output = true;
	} while (p->lex.token.kind == LEX_NAME);
	return 0;
}

static int parse_pattern_line(struct parser *p) {
	struct text_pattern *one = append(&p->text->pattern, &p->text->patterns, sizeof *one);
	int r = one ? 0 : -ENOMEM;

	if (r)
		return r;
	one->at = p->lex.token;
	r = lex_take_kind(&p->lex, LEX_TEXT, "a pattern's name and operands in quotes", &one->signature, p->fault);
	return r ? r : lex_take_kind(&p->lex, LEX_TEXT, "a pattern's expression in quotes", &one->text, p->fault);
}

/* Is it the name of a pattern that a line before defines? */
static bool is_defined_pattern(const struct text *t, const struct lex_token *name) {
	for (unsigned i = 0; i < t->patterns; i++) {
		const struct lex_token *s = &t->pattern[i].signature;

		if (s->length >= name->length && !memcmp(s->text, name->text, name->length) &&
			(s->length == name->length || s->text[name->length] == '('))
			return true;
	}
	return false;
}

/* ---- expectations ---- */

static int parse_kernels(struct parser *p, struct text_expectation *e) {
	e->kind = TEXT_KERNELS;
	return lex_take_integer(&p->lex, "a number of kernels", 0, INT32_MAX, &e->number, p->fault);
}

static int parse_kernel(struct parser *p, struct text_expectation *e) {
	int r = lex_take_integer(&p->lex, "the number of a kernel", 1, INT32_MAX, &e->number, p->fault);

	e->kind = TEXT_KERNEL;
	if (!r)
		r = lex_take(&p->lex, ":", p->fault);
	do {
		int *op = r ? NULL : append(&e->op, &e->ops, sizeof *op);

		if (!r)
			r = op ? take_operation(p, op) : -ENOMEM;
	} while (!r && p->lex.token.kind == LEX_NAME);
	return r;
}

static int parse_pattern(struct parser *p, struct text_expectation *e) {
	struct lex_token name = { 0 };
	char text[LIMIT_SENTENCE];
	int r = lex_take_integer(&p->lex, "the number of a kernel", 1, INT32_MAX, &e->number, p->fault);

	e->kind = TEXT_PATTERN;
	if (!r)
		r = lex_take(&p->lex, ":", p->fault);
	if (!r)
		r = lex_take_kind(&p->lex, LEX_NAME, "the name of a fusion pattern", &name, p->fault);
	if (r)
		return r;
	snprintf(text, sizeof text, "%.*s", (int)name.length, name.text);
	e->pattern = pattern_find(text);
	e->named = name;
	if (!e->pattern && !is_defined_pattern(p->text, &name))
		return lex_refuse(p->lex.path, &name, FAULT_SYNTAX, p->fault, "there is no fusion pattern '%s'", text);
	return 0;
}

static int parse_error(struct parser *p, struct text_expectation *e) {
	struct lex_token code = p->lex.token;
	int r = lex_take_kind(&p->lex, LEX_NAME, "the name of an error such as SHAPE", &code, p->fault);

	e->kind = TEXT_ERROR;
	if (r)
		return r;
	for (e->code = 1; !lex_token_is(&code, fault_name(e->code)); e->code++)
		if (e->code + 1 == FAULT_COUNT)
			return lex_refuse(p->lex.path, &code, FAULT_SYNTAX, p->fault,
				"there is no error '%.*s'", (int)code.length, code.text);
	if (p->lex.token.kind != LEX_TEXT)
		return 0;
	return lex_take_kind(&p->lex, LEX_TEXT, "a part of the sentence", &e->token, p->fault);
}

static int parse_tolerance(struct parser *p, struct text_expectation *e) {
	struct lex_token number;
	bool within;
	int r = lex_try(&p->lex, "within", &within, p->fault);

	if (r || !within)
		return r;
	r = lex_take_kind(&p->lex, LEX_NUMBER, "a tolerance", &number, p->fault);
	if (!r)
		r = read_number(p, &number, &e->tolerance);
	if (!r && !(e->tolerance > 0))
		return lex_refuse(p->lex.path, &number, FAULT_SYNTAX, p->fault, "a tolerance is above 0");
	return r;
}

static int parse_type(struct parser *p, struct text_expectation *e) {
	enum dtype dtype = DTYPE_f32;
	int rank = 0;
	int r = take_dtype(p, &dtype);

	e->kind = TEXT_TYPE;
	if (!r)
		r = take_dims(p, 0, &rank, e->type.dims);
	e->type.dtype = (uint8_t)dtype;
	e->type.rank = (uint8_t)rank;
	return r;
}

static int parse_array(struct parser *p, struct text_expectation *e) {
	struct lex_token name = p->lex.token;
	bool type;
	int r = take_defined(p, p->text->statements, &e->statement);

	if (r)
		return r;
	if (!p->text->statement[e->statement].output)
		return lex_refuse(p->lex.path, &name, FAULT_SYNTAX, p->fault,
			"'%.*s' is no output; name it on an output line before this one", (int)name.length,
			name.text);
	r = lex_try(&p->lex, "is", &type, p->fault);
	if (!r && type)
		return parse_type(p, e);
	e->kind = TEXT_VALUES;
	if (!r)
		r = parse_tolerance(p, e);
	return r ? r : values_parse(&e->values, &p->lex, p->fault);
}

static int parse_expectation(struct parser *p) {
	struct text_expectation *e = new_expectation(p->text);
	bool kernels = false, kernel = false, pattern = false, error = false;
	int r = e ? 0 : -ENOMEM;

	if (r)
		return r;
	e->at = p->lex.token;
	r = lex_try(&p->lex, "unfused", &e->unfused, p->fault);
	if (!r)
		r = lex_try(&p->lex, "kernels", &kernels, p->fault);
	if (!r && !kernels)
		r = lex_try(&p->lex, "kernel", &kernel, p->fault);
	if (!r && !kernels && !kernel && !e->unfused)
		r = lex_try(&p->lex, "pattern", &pattern, p->fault);
	if (!r && pattern)
		return parse_pattern(p, e);
	if (!r && !kernels && !kernel && !e->unfused)
		r = lex_try(&p->lex, "error", &error, p->fault);
	if (r)
		return r;
	if (kernels || kernel)
		return kernels ? parse_kernels(p, e) : parse_kernel(p, e);
	if (e->unfused)
		return lex_expected(&p->lex, "kernels or kernel", p->fault);
	return error ? parse_error(p, e) : parse_array(p, e);
}

/* ---- files ---- */

static const struct {
	const char *word;
	int (*parse)(struct parser *p);
} lines[] = {
	{ "output", parse_output },
	{ "expect", parse_expectation },
	{ "pattern", parse_pattern_line },
};

static int parse_line(struct parser *p) {
	int r = 0;

	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
		if (lex_at(&p->lex, lines[i].word)) {
			r = lex_next(&p->lex, p->fault);
			return r ? r : lines[i].parse(p);
		}
	return parse_definition(p);
}

static int parse_lines(struct parser *p, const char *path, const char *source) {
	int r = lex_open(&p->lex, path, source, p->fault);

	while (!r && p->lex.token.kind != LEX_EOF) {
		r = parse_line(p);
		if (!r && p->lex.token.kind == LEX_END)
			r = lex_next(&p->lex, p->fault);
		else if (!r && p->lex.token.kind != LEX_EOF)
			r = lex_expected(&p->lex, "the end of the line", p->fault);
	}
	if (!r && !p->text->outputs && !p->text->expectations)
		return lex_refuse(path, &p->lex.token, FAULT_SYNTAX, p->fault, "no line names an output");
	return r;
}

int text_parse(const char *path, const char *source, struct text **textp, struct fault *f) {
	struct parser p = { .fault = f, .text = calloc(1, sizeof *p.text) };
	int r = p.text ? 0 : -ENOMEM;

	if (!r) {
		p.text->path = strdup(path);
		p.text->source = strdup(source);
		r = p.text->path && p.text->source ? 0 : -ENOMEM;
	}
	if (!r)
		r = parse_lines(&p, p.text->path, p.text->source);
	if (r) {
		text_free(p.text);
		return r;
	}
	*textp = p.text;
	return 0;
}

/* The rest of a stream, terminated; NULL: *whyp says why it is no text. */
static char *read_stream(FILE *file, const char **whyp) {
	size_t length = 0, got = 1;
	char *source = NULL;

	errno = 0;
	while (got && length < FILE_BYTES) {
		char *more = realloc(source, length + FILE_CHUNK + 1);

		if (!more) {
			*whyp = strerror(errno);
			free(source);
			return NULL;
		}
		source = more;
		got = fread(source + length, 1, FILE_CHUNK, file);
		length += got;
	}
	source[length] = '\0';
	if (!ferror(file) && length < FILE_BYTES && strlen(source) == length)
		return source;
	free(source);
	if (ferror(file))
		*whyp = errno == EISDIR ? "it is a folder" : strerror(errno ? errno : EIO);
	else
		*whyp = length < FILE_BYTES ? "it is no text: a byte of it is 0" : "it is longer than 64 MiB, which no text graph is";
	return NULL;
}

int text_load(const char *path, struct text **textp, struct fault *f) {
	bool standard = !strcmp(path, "-");
	FILE *file = standard ? stdin : fopen(path, "re");
	const char *why = file ? "" : strerror(errno);
	char *source = file ? read_stream(file, &why) : NULL;
	int r;

	if (source)
		r = text_parse(standard ? "standard input" : path, source, textp, f);
	else
		r = fault_set(f, FAULT_FILE, "%s cannot be read: %s", path, why);
	free(source);
	if (file && !standard)
		fclose(file);
	return r;
}

struct text *text_free(struct text *t) {
	if (!t)
		return NULL;
	for (unsigned i = 0; i < t->statements; i++)
		values_free(&t->statement[i].values);
	for (unsigned i = 0; i < t->expectations; i++) {
		values_free(&t->expectation[i].values);
		free(t->expectation[i].op);
	}
	free(t->statement);
	free(t->pattern);
	free(t->expectation);
	free(t->output);
	free(t->path);
	free(t->source);
	free(t);
	return NULL;
}
