/*
 * Text graphs become arrays. Every operation of ops.def has its function of fusion.h in `calls`, by
 * its line alone; those with attributes have a recorder of their own in `recorders`.
 */
#include "text_record.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "client/fusionctl/element.h"
#include "protocol/attribute.h"

/* Functions of fusion.h, by class. */
struct call {
	fusion_array *(*unary)(fusion_array *a);
	fusion_array *(*binary)(fusion_array *a, fusion_array *b);
	fusion_array *(*ternary)(fusion_array *a, fusion_array *b, fusion_array *c);
	fusion_array *(*reduction)(fusion_array *a, int count, const int *axes, bool keepdims);
	fusion_array *(*scan)(fusion_array *a, int axis);
};

static const struct call calls[OP_COUNT] = {
#define UNARY(id, name, ...) [id] = { .unary = fusion_##name },
#define BINARY(id, name, ...) [id] = { .binary = fusion_##name },
#define TERNARY(id, name, ...) [id] = { .ternary = fusion_##name },
#define REDUCE(id, name, ...) [id] = { .reduction = fusion_##name },
#define SCAN(id, name, ...) [id] = { .scan = fusion_##name },
#define STRUCT(id, name, ...) [id] = { 0 },
#include "protocol/ops.def"
};

struct recorder {
	const struct text *text;
	fusion_context *context;
	fusion_array **array; /* of each statement; NULL where not recorded or released */
	struct fault *fault;
};

int text_library_fault(struct fault *f) {
	int code = fusion_error_code();

	return fault_set(
		f, code ? code : FAULT_INTERNAL, "%s", code ? fusion_error() : "libfusion gave no reason");
}

/* ---- literals ---- */

/* An array of one value. Integers that neither double nor int64_t holds are sent as data. */
static fusion_array *array_of_value(
	struct recorder *r, enum dtype dtype, int rank, const int64_t *dims, const void *element) {
	enum fusion_dtype type = (enum fusion_dtype)dtype;
	uint64_t word = 0;

	if (dtype_info(dtype)->kind == DTYPE_KIND_REAL || dtype_info(dtype)->bytes < sizeof word)
		return fusion_full(r->context, type, rank, dims, element_to_double(dtype, element));
	memcpy(&word, element, sizeof word);
	if (dtype != DTYPE_u64 || word <= INT64_MAX)
		return fusion_full_int(r->context, type, rank, dims, (int64_t)word);
	return fusion_from(r->context, type, 0, NULL, element);
}

static int read_literal(struct recorder *r, enum dtype dtype, const struct lex_token *token, void *element) {
	int failed = element_read(dtype, token->text, token->length, element, r->fault);

	if (failed)
		lex_locate(r->text->path, token, r->fault);
	return failed;
}

/* ---- operations with attributes ---- */

typedef int record_function(
	struct recorder *r, const struct text_statement *s, fusion_array *a, fusion_array **arrayp);

static int record_input(
	struct recorder *r, const struct text_statement *s, fusion_array *a, fusion_array **arrayp) {
	void *memory;
	int failed;

	(void)a;
	*arrayp = fusion_create(r->context, (enum fusion_dtype)s->dtype, s->rank, s->dims, &memory);
	if (!*arrayp)
		return 0;
	failed =
		values_write(&s->values, r->text->path, s->dtype, fusion_elements(*arrayp), memory, r->fault);
	if (!failed && fusion_unmap(*arrayp)) {
		fusion_release(*arrayp);
		*arrayp = NULL;
	}
	return failed;
}

static int record_fill(
	struct recorder *r, const struct text_statement *s, fusion_array *a, fusion_array **arrayp) {
	char element[ELEMENT_BYTES];
	int failed = read_literal(r, s->dtype, &s->number[0], element);
	fusion_array *scalar;

	(void)a;
	if (failed)
		return failed;
	scalar = array_of_value(r, s->dtype, s->rank, s->dims, element);
	if (!scalar || fusion_rank(scalar) == s->rank) {
		*arrayp = scalar;
		return 0;
	}
	*arrayp = fusion_broadcast(scalar, s->rank, s->dims);
	fusion_release(scalar);
	return 0;
}

static int record_arange(
	struct recorder *r, const struct text_statement *s, fusion_array *a, fusion_array **arrayp) {
	double start, step;
	int failed = read_literal(r, DTYPE_f64, &s->number[0], &start);

	(void)a;
	if (!failed)
		failed = read_literal(r, DTYPE_f64, &s->number[1], &step);
	if (failed)
		return failed;
	if (s->rank != 1)
		return lex_refuse(r->text->path, &s->at, FAULT_SHAPE, r->fault,
			"arange makes 1 dimension, not %d", s->rank);
	*arrayp = fusion_arange(r->context, (enum fusion_dtype)s->dtype, s->dims[0], start, step);
	return 0;
}

static int record_cast(
	struct recorder *r, const struct text_statement *s, fusion_array *a, fusion_array **arrayp) {
	(void)r;
	*arrayp = fusion_cast(a, (enum fusion_dtype)s->dtype);
	return 0;
}

static int record_copy(
	struct recorder *r, const struct text_statement *s, fusion_array *a, fusion_array **arrayp) {
	(void)r;
	(void)s;
	*arrayp = fusion_copy(a);
	return 0;
}

static int record_reshape(
	struct recorder *r, const struct text_statement *s, fusion_array *a, fusion_array **arrayp) {
	(void)r;
	*arrayp = fusion_reshape(a, s->rank, s->dims);
	return 0;
}

static int record_permute(
	struct recorder *r, const struct text_statement *s, fusion_array *a, fusion_array **arrayp) {
	if (s->axes != fusion_rank(a))
		return lex_refuse(r->text->path, &s->at, FAULT_SHAPE, r->fault,
			"permute names %d axes, the array has %d", s->axes, fusion_rank(a));
	*arrayp = fusion_permute(a, s->axis);
	return 0;
}

static int record_broadcast(
	struct recorder *r, const struct text_statement *s, fusion_array *a, fusion_array **arrayp) {
	(void)r;
	*arrayp = fusion_broadcast(a, s->rank, s->dims);
	return 0;
}

/* Axes without a range are taken whole. */
static int record_slice(
	struct recorder *r, const struct text_statement *s, fusion_array *a, fusion_array **arrayp) {
	int64_t start[LIMIT_RANK], stop[LIMIT_RANK], step[LIMIT_RANK];

	if (s->rank > fusion_rank(a))
		return lex_refuse(r->text->path, &s->at, FAULT_SHAPE, r->fault,
			"slice has ranges for %d axes, the array has %d", s->rank, fusion_rank(a));
	for (int d = 0; d < LIMIT_RANK; d++) {
		start[d] = d < s->rank && s->start[d] != INT64_MIN ? s->start[d] : FUSION_END;
		stop[d] = d < s->rank && s->stop[d] != INT64_MIN ? s->stop[d] : FUSION_END;
		step[d] = d < s->rank ? s->step[d] : 1;
	}
	*arrayp = fusion_slice(a, start, stop, step);
	return 0;
}

static int record_flip(
	struct recorder *r, const struct text_statement *s, fusion_array *a, fusion_array **arrayp) {
	(void)r;
	*arrayp = fusion_flip(a, s->axes, s->axis);
	return 0;
}

/* An axis that int does not hold is none: it stays one where it is cut off. */
static int axis_of(const struct text_statement *s) {
	int64_t axis = s->setting[TEXT_AXIS];

	return axis < -LIMIT_RANK || axis > LIMIT_RANK ? LIMIT_RANK : (int)axis;
}

static int record_windows(
	struct recorder *r, const struct text_statement *s, fusion_array *a, fusion_array **arrayp) {
	(void)r;
	*arrayp = fusion_windows(a, axis_of(s), s->setting[TEXT_SIZE], s->setting[TEXT_STEP],
		s->setting[TEXT_DILATION]);
	return 0;
}

static int record_take(
	struct recorder *r, const struct text_statement *s, fusion_array *a, fusion_array **arrayp) {
	*arrayp = fusion_take(a, r->array[s->operand[1].statement], axis_of(s));
	return 0;
}

static int record_take_along(
	struct recorder *r, const struct text_statement *s, fusion_array *a, fusion_array **arrayp) {
	*arrayp = fusion_take_along(a, r->array[s->operand[1].statement], axis_of(s));
	return 0;
}

static int record_put_along(
	struct recorder *r, const struct text_statement *s, fusion_array *a, fusion_array **arrayp) {
	*arrayp = fusion_put_along(a, r->array[s->operand[1].statement], r->array[s->operand[2].statement], axis_of(s));
	return 0;
}

static int record_add_along(
	struct recorder *r, const struct text_statement *s, fusion_array *a, fusion_array **arrayp) {
	*arrayp = fusion_add_along(a, r->array[s->operand[1].statement], r->array[s->operand[2].statement], axis_of(s));
	return 0;
}

static int record_sort(
	struct recorder *r, const struct text_statement *s, fusion_array *a, fusion_array **arrayp) {
	(void)r;
	*arrayp = fusion_sort(a, axis_of(s), s->flag);
	return 0;
}

static int record_argsort(
	struct recorder *r, const struct text_statement *s, fusion_array *a, fusion_array **arrayp) {
	(void)r;
	*arrayp = fusion_argsort(a, axis_of(s), s->flag);
	return 0;
}

static int record_searchsorted(
	struct recorder *r, const struct text_statement *s, fusion_array *a, fusion_array **arrayp) {
	*arrayp = fusion_searchsorted(a, r->array[s->operand[1].statement], s->flag);
	return 0;
}

static int record_concat(
	struct recorder *r, const struct text_statement *s, fusion_array *a, fusion_array **arrayp) {
	fusion_array *in[LIMIT_OPERANDS];

	(void)a;
	for (unsigned i = 0; i < s->operands; i++)
		in[i] = r->array[s->operand[i].statement];
	*arrayp = fusion_concat((int)s->operands, in, axis_of(s));
	return 0;
}

/* [before:after] on each axis; what is left out is 0. */
static int record_pad(
	struct recorder *r, const struct text_statement *s, fusion_array *a, fusion_array **arrayp) {
	fusion_array *value = s->operands > 1 ? r->array[s->operand[1].statement] : NULL;
	int64_t low[LIMIT_RANK] = { 0 }, high[LIMIT_RANK] = { 0 };

	if (s->rank > fusion_rank(a))
		return lex_refuse(r->text->path, &s->at, FAULT_SHAPE, r->fault,
			"pad has margins for %d axes, the array has %d", s->rank, fusion_rank(a));
	for (int d = 0; d < s->rank; d++) {
		low[d] = s->start[d] == INT64_MIN ? 0 : s->start[d];
		high[d] = s->stop[d] == INT64_MIN ? 0 : s->stop[d];
	}
	*arrayp = fusion_pad(a, low, high, value);
	return 0;
}

static int record_matmul(
	struct recorder *r, const struct text_statement *s, fusion_array *a, fusion_array **arrayp) {
	*arrayp = fusion_matmul(a, r->array[s->operand[1].statement]);
	return 0;
}

static record_function *const recorders[OP_COUNT] = {
	[OP_load] = record_input,
	[OP_fill] = record_fill,
	[OP_arange] = record_arange,
	[OP_cast] = record_cast,
	[OP_copy] = record_copy,
	[OP_reshape] = record_reshape,
	[OP_permute] = record_permute,
	[OP_broadcast] = record_broadcast,
	[OP_slice] = record_slice,
	[OP_flip] = record_flip,
	[OP_windows] = record_windows,
	[OP_take] = record_take,
	[OP_concat] = record_concat,
	[OP_pad] = record_pad,
	[OP_take_along] = record_take_along,
	[OP_put_along] = record_put_along,
	[OP_add_along] = record_add_along,
	[OP_sort] = record_sort,
	[OP_argsort] = record_argsort,
	[OP_searchsorted] = record_searchsorted,
	[OP_matmul] = record_matmul,
};

/* ---- elementwise operations ---- */

/* Literals take the element type of the first array; the condition of `where` is bool. */
static enum dtype literal_dtype(const struct recorder *r, const struct text_statement *s, unsigned operand) {
	unsigned first = s->op == OP_where;

	if (operand < first)
		return DTYPE_bool;
	while (s->operand[first].statement < 0)
		first++;
	return (enum dtype)fusion_dtype_of(r->array[s->operand[first].statement]);
}

/* An operand with a reference of its own. */
static int take_operand(
	struct recorder *r, const struct text_statement *s, unsigned i, fusion_array **arrayp) {
	const struct text_operand *o = &s->operand[i];
	char element[ELEMENT_BYTES];
	enum dtype dtype;
	int failed;

	if (o->statement >= 0) {
		*arrayp = fusion_retain(r->array[o->statement]);
		return 0;
	}
	dtype = literal_dtype(r, s, i);
	failed = read_literal(r, dtype, &o->token, element);
	if (!failed)
		*arrayp = array_of_value(r, dtype, 0, NULL, element);
	return failed;
}

static fusion_array *call(const struct call *c, fusion_array *const *in) {
	if (c->unary)
		return c->unary(in[0]);
	return c->binary ? c->binary(in[0], in[1]) : c->ternary(in[0], in[1], in[2]);
}

static int record_elementwise(struct recorder *r, const struct text_statement *s, fusion_array **arrayp) {
	unsigned arity = op_info((unsigned)s->op)->arity;
	fusion_array *in[LIMIT_OPERANDS] = { NULL };
	int failed = 0;

	for (unsigned i = 0; !failed && i < arity; i++)
		failed = take_operand(r, s, i, &in[i]);
	if (!failed)
		*arrayp = call(&calls[s->op], in);
	for (unsigned i = 0; i < arity; i++)
		fusion_release(in[i]);
	return failed;
}

/* ---- graphs ---- */

static void set_member(void *member, enum attribute_kind kind, double value) {
	switch (kind) {
	case ATTRIBUTE_KIND_AXES:
	case ATTRIBUTE_KIND_LIST:
		break;      /* taken as they are */
	case ATTRIBUTE_KIND_FLAG:
		*(bool *)member = value != 0;
		break;
	case ATTRIBUTE_KIND_REAL:
		*(double *)member = value;
		break;
	case ATTRIBUTE_KIND_WHOLE:
		*(int64_t *)member = (int64_t)value;
		break;
	case ATTRIBUTE_KIND_DTYPE:
		*(enum fusion_dtype *)member = (enum fusion_dtype)value;
		break;
	}
}

/* What a composite's attributes are called in fusion.h. */
static void take_attributes(const struct text_statement *s, struct fusion_attributes *a) {
	static const size_t places[OP_ATTRIBUTES] = {
#define ATTRIBUTE(id, name, ...) [id] = offsetof(struct fusion_attributes, name),
#include "protocol/attributes.def"
#undef ATTRIBUTE
	};

	*a = (struct fusion_attributes){ .axis_count = s->axes, .axes = s->axes_given ? s->axis : NULL, .rank = s->rank };
	for (unsigned i = 0; i < OP_ATTRIBUTES; i++)
		if (s->listed >> i & 1)
			*(const int64_t **)(void *)((char *)a + places[i]) = s->list[i];
	for (unsigned i = 0; i < OP_ATTRIBUTES; i++)
		set_member((char *)a + places[i], attribute_info((enum op_attribute)i)->kind, s->named[i]);
}

static int record_composite(struct recorder *r, const struct text_statement *s, fusion_array **arrayp) {
	fusion_array *in[LIMIT_OPERANDS] = { NULL };
	struct fusion_attributes attributes;
	char name[LIMIT_SENTENCE];

	if (s->op == TEXT_CALL)
		snprintf(name, sizeof name, "%.*s", (int)s->called.length, s->called.text);
	else
		snprintf(name, sizeof name, "%s", op_info((unsigned)s->op)->name);
	for (unsigned i = 0; i < s->operands; i++)
		in[i] = r->array[s->operand[i].statement];
	take_attributes(s, &attributes);
	*arrayp = fusion_call(r->context, name, (int)s->operands, in, &attributes);
	return 0;
}

static int record_by_class(struct recorder *r, const struct text_statement *s, fusion_array **arrayp) {
	const struct op_info *info = s->op == TEXT_CALL ? NULL : op_info((unsigned)s->op);
	fusion_array *a =
		info && info->arity && s->operand[0].statement >= 0 ? r->array[s->operand[0].statement] : NULL;

	if (!info || info->class == OP_CLASS_COMPOSITE)
		return record_composite(r, s, arrayp);
	if (op_is_elementwise(info))
		return record_elementwise(r, s, arrayp);
	if (info->class == OP_CLASS_REDUCE) {
		*arrayp = calls[s->op].reduction(a, s->axes, s->axes_given ? s->axis : NULL, s->keepdims);
		return 0;
	}
	if (info->class == OP_CLASS_SCAN) {
		*arrayp = calls[s->op].scan(a, (int)s->setting[TEXT_AXIS]);
		return 0;
	}
	if (recorders[s->op])
		return recorders[s->op](r, s, a, arrayp);
	return lex_refuse(r->text->path, &s->at, FAULT_OPERATION, r->fault, "text graphs do not know %s yet",
		info->name);
}

static int record_statement(struct recorder *r, unsigned i) {
	const struct text_statement *s = &r->text->statement[i];
	int failed;

	fusion_here(r->text->path, (int)s->name.line);
	failed = record_by_class(r, s, &r->array[i]);
	if (!failed && !r->array[i])
		failed = text_library_fault(r->fault);
	return failed;
}

static int define_pattern(struct recorder *r, const struct text_pattern *p) {
	char signature[LIMIT_SENTENCE], *text = strndup(p->text.text, p->text.length);
	int failed = text ? 0 : -ENOMEM;

	snprintf(signature, sizeof signature, "%.*s", (int)p->signature.length, p->signature.text);
	fusion_here(r->text->path, (int)p->at.line);
	if (!failed && fusion_define_pattern(r->context, signature, text, false))
		failed = text_library_fault(r->fault);
	free(text);
	return failed;
}

/* Hands the outputs over and releases the rest. */
static void keep_outputs(struct recorder *r, fusion_array **output) {
	for (unsigned i = 0; i < r->text->outputs; i++)
		output[i] = fusion_retain(r->array[r->text->output[i]]);
}

/* One that was made before is taken; one that is made is kept. */
static int record_or_take(struct recorder *r, unsigned i, fusion_array **input) {
	bool is_input = input && r->text->statement[i].op == OP_load;
	int failed;

	if (is_input && input[i]) {
		r->array[i] = fusion_retain(input[i]);
		return 0;
	}
	failed = record_statement(r, i);
	if (is_input && !failed)
		input[i] = fusion_retain(r->array[i]);
	return failed;
}

int text_record(const struct text *t, fusion_context *c, fusion_array **output, struct fault *f) {
	return text_record_again(t, c, NULL, output, f);
}

int text_record_again(const struct text *t, fusion_context *c, fusion_array **input, fusion_array **output, struct fault *f) {
	struct recorder r = { t, c, calloc(t->statements + 1, sizeof *r.array), f };
	int failed = r.array ? 0 : -ENOMEM;

	fusion_error_clear();
	for (unsigned i = 0; !failed && i < t->patterns; i++)
		failed = define_pattern(&r, &t->pattern[i]);
	for (unsigned i = 0; !failed && i < t->statements; i++)
		failed = record_or_take(&r, i, input);
	if (!failed)
		keep_outputs(&r, output);
	for (unsigned i = 0; r.array && i < t->statements; i++)
		fusion_release(r.array[i]);
	free(r.array);
	fusion_here(NULL, 0);
	return failed;
}
