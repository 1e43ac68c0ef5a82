/*
 * The table of operations, and the one rule for the type and shape of a result.
 *
 * op_infer() refuses what cannot be computed, with a sentence that names the operation, the
 * argument and the shapes; what it lets pass needs no further check of types or shapes anywhere.
 * Elementwise operations and reductions are driven by their rows of ops.def alone; operations with
 * rules of their own have a function each, found through `struct_rules`.
 */
#include "op.h"

#include "composite.h"
#include "own.h"

#include <inttypes.h>
#include <stdio.h>
#include <stddef.h>
#include <string.h>

#define NONE NULL

static const struct op_info rows[OP_COUNT] = {
#define UNARY(id, name, types, result, active, expr, grad_a, oracle, doc)                                    \
	[id] = { #name, OP_CLASS_UNARY, 1, OP_TYPES_##types, OP_RESULT_##result, #expr, { grad_a }, oracle,  \
		doc, .activation = OP_ACTIVE_##active },
#define BINARY(id, name, types, result, active, expr, grad_a, grad_b, oracle, doc)                           \
	[id] = { #name, OP_CLASS_BINARY, 2, OP_TYPES_##types, OP_RESULT_##result, #expr, { grad_a, grad_b }, \
		oracle, doc, .activation = OP_ACTIVE_##active },
#define TERNARY(id, name, types, result, active, expr, grad_a, grad_b, grad_c, oracle, doc)                  \
	[id] = { #name, OP_CLASS_TERNARY, 3, OP_TYPES_##types, OP_RESULT_##result, #expr,                    \
		{ grad_a, grad_b, grad_c }, oracle, doc, .activation = OP_ACTIVE_##active },
#define REDUCE(id, name, types, result, combine, gradient, oracle, doc)                                      \
	[id] = { #name, OP_CLASS_REDUCE, 1, OP_TYPES_##types, OP_RESULT_##result, #combine, { gradient },    \
		oracle, doc },
#define SCAN(id, name, types, result, reduction, oracle, doc)                                                \
	[id] = { #name, OP_CLASS_SCAN, 1, OP_TYPES_##types, OP_RESULT_##result, #reduction, { NULL },        \
		oracle, doc },
#define STRUCT(id, name, most, operands, doc)                                                                \
	[id] = { #name, OP_CLASS_STRUCT, most, OP_TYPES_ANY, OP_RESULT_SAME, NULL, { NULL }, NULL, doc, 0, operands },
#define HAS(name) (1U << OP_ATTRIBUTE_##name)
#define PARTS { NULL }
#define GRADIENTS(...) { __VA_ARGS__ }
#define COMPOSITE(id, name, types, result, rule, least, most, operands, attributes, text, gradients, oracle, doc) \
	[id] = { #name, OP_CLASS_COMPOSITE, most, OP_TYPES_##types, OP_RESULT_##result, text, gradients,     \
		oracle, doc, least, operands, attributes },
#include "ops.def"
#undef HAS
#undef PARTS
#undef GRADIENTS
};

#undef NONE

enum {
	TAKES_BOOL = 1 << DTYPE_KIND_BOOL,
	TAKES_INT = 1 << DTYPE_KIND_SINT | 1 << DTYPE_KIND_UINT,
	TAKES_REAL = 1 << DTYPE_KIND_REAL,
};

/* The element types of each enum op_types: the kinds it takes, and how a sentence calls them. */
static const struct {
	unsigned kinds;
	const char *words;
} type_sets[] = {
	[OP_TYPES_ANY] = { TAKES_BOOL | TAKES_INT | TAKES_REAL, "any arrays" },
	[OP_TYPES_NUM] = { TAKES_INT | TAKES_REAL, "arrays of numbers" },
	[OP_TYPES_REAL] = { TAKES_REAL, "floating-point arrays" },
	[OP_TYPES_INT] = { TAKES_INT, "integer arrays" },
	[OP_TYPES_BITS] = { TAKES_BOOL | TAKES_INT, "integer or bool arrays" },
	[OP_TYPES_BOOL] = { TAKES_BOOL, "bool arrays" },
};

bool op_types_take(enum op_types types, enum dtype_kind kind) {
	return type_sets[types].kinds >> kind & 1;
}

const struct op_info *op_info(unsigned id) {
	if (id >= OP_COUNT)
		return own_info(id);
	return rows[id].name ? &rows[id] : NULL;
}

char *op_operand(const struct op_info *o, unsigned i, char text[static OPERAND_TEXT]) {
	const char *name = o->operands ? o->operands : "a, b, c";
	bool list = o->arity > 1 && !strchr(name, ',');

	for (unsigned at = 0; at < i && strchr(name, ','); at++)
		name = strchr(name, ',') + strlen(", ");
	if (list)
		snprintf(text, OPERAND_TEXT, "%s %u", name, i);
	else
		snprintf(text, OPERAND_TEXT, "%.*s", (int)strcspn(name, ":,"), name);
	return text;
}

unsigned op_least(unsigned id) {
	if (id == OP_concat || id == OP_pad)
		return 1;
	return op_info(id)->class == OP_CLASS_COMPOSITE ? rows[id].least : op_info(id)->arity;
}

int op_find(const char *name) {
	for (int id = 0; id < OP_COUNT; id++)
		if (rows[id].name && !strcmp(rows[id].name, name))
			return id;
	return -1;
}

bool op_is_view(unsigned op) {
	static const bool views[OP_COUNT] = {
		[OP_reshape] = true,
		[OP_permute] = true,
		[OP_broadcast] = true,
		[OP_slice] = true,
		[OP_flip] = true,
		[OP_windows] = true,
	};

	return op < OP_COUNT && views[op];
}

bool op_gathers(unsigned op) {
	return op == OP_take || op == OP_take_along || op == OP_searchsorted;
}

bool op_scatters(unsigned op) {
	return op == OP_put_along || op == OP_add_along;
}

bool op_sorts(unsigned op) {
	return op == OP_sort || op == OP_argsort;
}

static enum dtype widest_of_kind(enum dtype in) {
	switch (dtype_info(in)->kind) {
	case DTYPE_KIND_REAL:
		return in;
	case DTYPE_KIND_UINT:
		return DTYPE_u64;
	default:
		return DTYPE_i64;
	}
}

enum dtype op_accumulator(unsigned op, enum dtype in) {
	if (op == OP_reduce_max || op == OP_reduce_min)
		return in;
	if (rows[op].result == OP_RESULT_BOOL)
		return DTYPE_bool;
	return dtype_info(in)->kind == DTYPE_KIND_REAL ? dtype_info(in)->reg : widest_of_kind(in);
}

double op_of_nothing(unsigned op) {
	if (op == OP_reduce_mean)
		return (double)__builtin_nanf("");
	return op == OP_reduce_prod || op == OP_reduce_all;
}

unsigned op_scan_reduction(unsigned scan) {
	return (unsigned)op_find(rows[scan].expr);
}

/* What a rule sees of one call of op_infer(). */
struct call {
	const struct op_info *info;
	unsigned op, operands;
	const struct tensor_type *const *in;
	const struct op_attr *attr;
};

static int check_kind(const struct call *c, unsigned argument, enum op_types types, struct fault *f) {
	const struct tensor_type *t = c->in[argument];
	char text[SHAPE_TEXT], name[OPERAND_TEXT];

	if (op_types_take(types, dtype_info(t->dtype)->kind))
		return 0;
	return fault_set(f, FAULT_DTYPE, "%s takes %s; argument %s is %s; cast it first", c->info->name,
		type_sets[types].words, op_operand(c->info, argument, name), shape_text(t, text));
}

static int check_same_dtype(const struct call *c, unsigned first, unsigned argument, struct fault *f) {
	const struct tensor_type *a = c->in[first], *b = c->in[argument];
	char ta[SHAPE_TEXT], tb[SHAPE_TEXT], na[OPERAND_TEXT], nb[OPERAND_TEXT];

	if (a->dtype == b->dtype)
		return 0;
	return fault_set(f, FAULT_DTYPE,
		"%s: arguments %s (%s) and %s (%s) differ in element type; cast one first", c->info->name,
		op_operand(c->info, first, na), shape_text(a, ta), op_operand(c->info, argument, nb), shape_text(b, tb));
}

/* The condition of `where` is bool; all other operands are of the operation's types, and equal. */
static int check_dtypes(const struct call *c, struct fault *f) {
	unsigned first = c->op == OP_where;
	int r = first ? check_kind(c, 0, OP_TYPES_BOOL, f) : 0;

	if (!r)
		r = check_kind(c, first, c->info->types, f);
	for (unsigned i = first + 1; !r && i < c->info->arity; i++)
		r = check_same_dtype(c, first, i, f);
	return r;
}

static int broadcast_operands(const struct call *c, struct tensor_type *outp, struct fault *f) {
	char name[OPERAND_TEXT];

	for (unsigned i = 1; i < c->info->arity; i++) {
		int r = shape_broadcast(outp, c->in[i], f);

		if (r && f && c->info->arity > 2)
			fault_prefix(f, "%s, argument %s", c->info->name, op_operand(c->info, i, name));
		else if (r && f)
			fault_prefix(f, "%s", c->info->name);
		if (r)
			return r;
	}
	return 0;
}

/* Own operations may ask for operands of one shape. */
static int check_one_shape(const struct call *c, struct fault *f) {
	char ta[SHAPE_TEXT], tb[SHAPE_TEXT], name[OPERAND_TEXT];

	for (unsigned i = 1; c->info->one_shape && i < c->info->arity; i++)
		if (!shape_equal(c->in[0], c->in[i]))
			return fault_set(f, FAULT_SHAPE, "%s takes arrays of one shape; arguments a (%s) and %s (%s) differ",
				c->info->name, shape_text(c->in[0], ta), op_operand(c->info, i, name), shape_text(c->in[i], tb));
	return 0;
}

static int infer_elementwise(const struct call *c, struct tensor_type *outp, struct fault *f) {
	int r = check_dtypes(c, f);

	if (!r)
		r = check_one_shape(c, f);
	if (r)
		return r;
	/* In its own type, which the sentence tells. */
	*outp = *c->in[0];
	r = broadcast_operands(c, outp, f);
	outp->dtype = c->info->result == OP_RESULT_BOOL ? DTYPE_bool : c->in[c->info->arity - 1]->dtype;
	return r;
}

static int check_axes(const struct call *c, struct fault *f) {
	char text[SHAPE_TEXT];

	if (c->attr->axes >> c->in[0]->rank == 0)
		return 0;
	return fault_set(f, FAULT_ARGUMENT, "%s: axis %d does not exist in %s", c->info->name,
		31 - __builtin_clz(c->attr->axes), shape_text(c->in[0], text));
}

/* The largest and the smallest of nothing do not exist. */
static int check_reduced_extents(const struct call *c, struct fault *f) {
	if (c->op != OP_reduce_max && c->op != OP_reduce_min)
		return 0;
	return shape_check_some(c->in[0], c->attr->axes, c->info->name, f);
}

static enum dtype reduced_dtype(const struct call *c) {
	enum dtype in = c->in[0]->dtype;

	if (c->info->result == OP_RESULT_BOOL)
		return DTYPE_bool;
	return c->info->result == OP_RESULT_ACC ? widest_of_kind(in) : in;
}

static int infer_reduction(const struct call *c, struct tensor_type *outp, struct fault *f) {
	const struct tensor_type *in = c->in[0];
	int r = check_kind(c, 0, c->info->types, f);

	if (!r)
		r = check_axes(c, f);
	if (!r)
		r = check_reduced_extents(c, f);
	if (r)
		return r;
	outp->dtype = (uint8_t)reduced_dtype(c);
	shape_reduce(in, c->attr->axes, c->attr->keepdims, outp);
	return 0;
}

static int infer_scan(const struct call *c, struct tensor_type *outp, struct fault *f) {
	int r = check_kind(c, 0, c->info->types, f);

	if (!r)
		r = check_axes(c, f);
	if (!r && __builtin_popcount(c->attr->axes) != 1)
		r = fault_set(f, FAULT_ARGUMENT, "%s runs along one axis, not %d", c->info->name,
			__builtin_popcount(c->attr->axes));
	if (r)
		return r;
	*outp = *c->in[0];
	outp->dtype = (uint8_t)(c->info->result == OP_RESULT_ACC ? widest_of_kind(outp->dtype) : outp->dtype);
	return 0;
}

/* The result's shape as the attributes give it. shape_check() of the result follows. */
static int take_dims(const struct call *c, enum dtype dtype, struct tensor_type *outp, struct fault *f) {
	if (c->attr->rank > LIMIT_RANK)
		return fault_set(f, FAULT_RANK, "%s: %u dimensions are more than the limit of %d",
			c->info->name, c->attr->rank, LIMIT_RANK);
	outp->dtype = (uint8_t)dtype;
	outp->rank = c->attr->rank;
	memcpy(outp->dims, c->attr->dims, outp->rank * sizeof *outp->dims);
	return 0;
}

static int check_result(const struct call *c, const struct tensor_type *out, struct fault *f) {
	int r = shape_check(out, f);

	if (r && f)
		fault_prefix(f, "%s", c->info->name);
	return r;
}

static int check_scalar(const struct call *c, unsigned which, struct fault *f) {
	const char *dtype;

	if (c->attr->dtype >= DTYPE_COUNT)
		return fault_set(
			f, FAULT_DTYPE, "%s: element type %u does not exist", c->info->name, c->attr->dtype);
	if (dtype_scalar_valid(c->attr->dtype, c->attr->value[which]))
		return 0;
	dtype = dtype_info(c->attr->dtype)->name;
	return fault_set(f, FAULT_ARGUMENT, "%s: the word 0x%" PRIx64 " is no value of %s", c->info->name,
		c->attr->value[which], dtype);
}

static int infer_load(const struct call *c, struct tensor_type *outp, struct fault *f) {
	return take_dims(c, c->attr->dtype, outp, f);
}

static int infer_fill(const struct call *c, struct tensor_type *outp, struct fault *f) {
	int r = check_scalar(c, 0, f);

	return r ? r : take_dims(c, c->attr->dtype, outp, f);
}

static int infer_arange(const struct call *c, struct tensor_type *outp, struct fault *f) {
	int r = check_scalar(c, 0, f);

	if (!r)
		r = check_scalar(c, 1, f);
	if (r)
		return r;
	if (c->attr->dtype == DTYPE_bool)
		return fault_set(f, FAULT_DTYPE, "arange counts in numbers, not in bool");
	if (c->attr->rank != 1)
		return fault_set(f, FAULT_SHAPE, "arange makes 1 dimension, not %u", c->attr->rank);
	return take_dims(c, c->attr->dtype, outp, f);
}

static int infer_cast(const struct call *c, struct tensor_type *outp, struct fault *f) {
	if (c->attr->dtype >= DTYPE_COUNT)
		return fault_set(f, FAULT_DTYPE, "cast: element type %u does not exist", c->attr->dtype);
	*outp = *c->in[0];
	outp->dtype = c->attr->dtype;
	return 0;
}

static int infer_copy(const struct call *c, struct tensor_type *outp, struct fault *f) {
	(void)f;
	*outp = *c->in[0];
	return 0;
}

static int infer_reshape(const struct call *c, struct tensor_type *outp, struct fault *f) {
	char from[SHAPE_TEXT], to[SHAPE_TEXT];
	int r = take_dims(c, c->in[0]->dtype, outp, f);

	if (!r)
		r = check_result(c, outp, f);
	if (r || shape_elements(outp) == shape_elements(c->in[0]))
		return r;
	return fault_set(f, FAULT_SHAPE, "reshape: %s has %" PRId64 " elements, %s has %" PRId64,
		shape_text(c->in[0], from), shape_elements(c->in[0]), shape_text(outp, to),
		shape_elements(outp));
}

static int infer_permute(const struct call *c, struct tensor_type *outp, struct fault *f) {
	const struct tensor_type *in = c->in[0];
	char text[SHAPE_TEXT];
	unsigned seen = 0;

	if (c->attr->rank != in->rank)
		return fault_set(f, FAULT_SHAPE, "permute: %u axes named for the %u of %s", c->attr->rank,
			in->rank, shape_text(in, text));
	*outp = *in;
	for (unsigned d = 0; d < in->rank; d++) {
		unsigned axis = c->attr->perm[d];

		if (axis >= in->rank || (seen >> axis & 1))
			return fault_set(f, FAULT_ARGUMENT, "permute: axis %u of %s is %s", axis,
				shape_text(in, text), axis < in->rank ? "named twice" : "not there");
		seen |= 1U << axis;
		outp->dims[d] = in->dims[axis];
	}
	return 0;
}

static int infer_broadcast(const struct call *c, struct tensor_type *outp, struct fault *f) {
	char from[SHAPE_TEXT], to[SHAPE_TEXT];
	struct tensor_type both;
	int r = take_dims(c, c->in[0]->dtype, outp, f);

	if (r)
		return r;
	both = *outp;
	if (!shape_broadcast(&both, c->in[0], NULL) && shape_equal(&both, outp))
		return 0;
	return fault_set(f, FAULT_SHAPE, "broadcast: %s does not broadcast to %s", shape_text(c->in[0], from),
		shape_text(outp, to));
}

/* Do start, start + step, ..., start + (count - 1) * step all lie in [0, extent)? */
static bool indices_fit(int64_t start, int64_t step, int64_t count, int64_t extent) {
	int64_t last;

	if (count == 0)
		return true;
	if (count < 0 || start < 0 || start >= extent)
		return false;
	if (count == 1)
		return true;
	if (__builtin_mul_overflow(count - 1, step, &last) || __builtin_add_overflow(last, start, &last))
		return false;
	return last >= 0 && last < extent;
}

static int infer_slice(const struct call *c, struct tensor_type *outp, struct fault *f) {
	const struct tensor_type *in = c->in[0];
	const struct op_attr *a = c->attr;
	char text[SHAPE_TEXT];

	if (a->rank != in->rank)
		return fault_set(f, FAULT_SHAPE, "slice: ranges of %u axes given for the %u of %s", a->rank,
			in->rank, shape_text(in, text));
	for (unsigned d = 0; d < in->rank; d++) {
		if (a->step[d] == 0)
			return fault_set(f, FAULT_ARGUMENT, "slice: the step on axis %u of %s is 0", d,
				shape_text(in, text));
		if (!indices_fit(a->start[d], a->step[d], a->dims[d], in->dims[d]))
			return fault_set(f, FAULT_SHAPE,
				"slice: %" PRId64 " elements from index %" PRId64 " by %" PRId64
				" leave axis %u of %s",
				a->dims[d], a->start[d], a->step[d], d, shape_text(in, text));
	}
	return take_dims(c, in->dtype, outp, f);
}

static int infer_flip(const struct call *c, struct tensor_type *outp, struct fault *f) {
	*outp = *c->in[0];
	return check_axes(c, f);
}

static int check_axis(const struct call *c, struct fault *f) {
	char text[SHAPE_TEXT];

	if (c->attr->axis < c->in[0]->rank)
		return 0;
	return fault_set(f, FAULT_ARGUMENT, "%s: axis %u does not exist in %s", c->info->name, c->attr->axis,
		shape_text(c->in[0], text));
}

/* How many windows there are; a window that is longer than the axis is refused, as is one of nothing. */
static int count_windows(const struct call *c, int64_t *countp, struct fault *f) {
	int64_t size = c->attr->window.size, step = c->attr->window.step, span;
	int64_t extent = c->in[0]->dims[c->attr->axis];
	char text[SHAPE_TEXT];

	if (size < 1 || step < 1 || c->attr->window.dilation < 1)
		return fault_set(f, FAULT_ARGUMENT,
			"windows: size %" PRId64 ", step %" PRId64 " and dilation %" PRId64 " must be at least 1",
			size, step, c->attr->window.dilation);
	if (__builtin_mul_overflow(size - 1, c->attr->window.dilation, &span) || span >= extent)
		return fault_set(f, FAULT_SHAPE,
			"windows: %" PRId64 " elements, each %" PRId64 " further, do not fit axis %u of %s", size,
			c->attr->window.dilation, c->attr->axis, shape_text(c->in[0], text));
	*countp = (extent - 1 - span) / step + 1;
	return 0;
}

static int infer_windows(const struct call *c, struct tensor_type *outp, struct fault *f) {
	const struct tensor_type *in = c->in[0];
	int64_t count;
	int r = check_axis(c, f);

	if (!r)
		r = count_windows(c, &count, f);
	if (r)
		return r;
	if (in->rank == LIMIT_RANK)
		return fault_set(f, FAULT_RANK, "windows: one more than %u dimensions is more than the limit of %d",
			in->rank, LIMIT_RANK);
	*outp = *in;
	/* NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign): count_windows() set it */
	outp->dims[c->attr->axis] = count;
	outp->dims[outp->rank++] = c->attr->window.size;
	return 0;
}

static int check_gather(const struct call *c, struct fault *f) {
	int r = check_kind(c, 1, OP_TYPES_INT, f);

	return r ? r : check_axis(c, f);
}

static int infer_take(const struct call *c, struct tensor_type *outp, struct fault *f) {
	const struct tensor_type *a = c->in[0], *index = c->in[1];
	unsigned axis = c->attr->axis;
	int r = check_gather(c, f);

	if (r)
		return r;
	if (a->rank - 1U + index->rank > LIMIT_RANK)
		return fault_set(f, FAULT_RANK, "take: index and a make %u dimensions, more than the limit of %d",
			a->rank - 1U + index->rank, LIMIT_RANK);
	*outp = *a;
	outp->rank = (uint8_t)(a->rank - 1U + index->rank);
	memcpy(outp->dims + axis, index->dims, index->rank * sizeof *outp->dims);
	memcpy(outp->dims + axis + index->rank, a->dims + axis + 1, (a->rank - 1U - axis) * sizeof *outp->dims);
	return 0;
}

static int infer_take_along(const struct call *c, struct tensor_type *outp, struct fault *f) {
	const struct tensor_type *a = c->in[0], *index = c->in[1];
	char ta[SHAPE_TEXT], ti[SHAPE_TEXT];
	struct tensor_type one;
	int r = check_gather(c, f);

	if (r)
		return r;
	one = *a;
	one.dims[c->attr->axis] = 1;
	*outp = one;
	if (a->rank == index->rank && !shape_broadcast(outp, index, NULL)) {
		outp->dims[c->attr->axis] = index->dims[c->attr->axis];
		return 0;
	}
	return fault_set(f, FAULT_SHAPE, "take_along of %s by index %s: the axes but %u do not broadcast", shape_text(a, ta),
		shape_text(index, ti), c->attr->axis);
}

/* Index and updates have the shape of a, but for the axis; elements that are added are numbers. */
static int infer_scatter(const struct call *c, struct tensor_type *outp, struct fault *f) {
	const struct tensor_type *a = c->in[0], *index = c->in[1];
	char ta[SHAPE_TEXT], ti[SHAPE_TEXT], tu[SHAPE_TEXT];
	struct tensor_type want = *a;
	int r = check_kind(c, 0, c->op == OP_add_along ? OP_TYPES_NUM : OP_TYPES_ANY, f);

	if (!r)
		r = check_gather(c, f);
	if (!r)
		r = check_same_dtype(c, 0, 2, f);
	if (r)
		return r;
	*outp = *a;
	want.dims[c->attr->axis] = index->rank == a->rank ? index->dims[c->attr->axis] : -1;
	if (shape_equal(&want, c->in[2]) && index->rank == a->rank && !memcmp(want.dims, index->dims, a->rank * sizeof *want.dims))
		return 0;
	return fault_set(f, FAULT_SHAPE, "%s of %s by index %s and updates %s: only axis %u may differ, and not between the last two",
		c->info->name, shape_text(a, ta), shape_text(index, ti), shape_text(c->in[2], tu), c->attr->axis);
}

static int infer_put_along(const struct call *c, struct tensor_type *outp, struct fault *f) {
	return infer_scatter(c, outp, f);
}

static int infer_add_along(const struct call *c, struct tensor_type *outp, struct fault *f) {
	return infer_scatter(c, outp, f);
}

static int infer_sort(const struct call *c, struct tensor_type *outp, struct fault *f) {
	*outp = *c->in[0];
	return check_axis(c, f);
}

/* Places travel in 32 bits beside what is sorted. */
static int infer_argsort(const struct call *c, struct tensor_type *outp, struct fault *f) {
	char text[SHAPE_TEXT];
	int r = infer_sort(c, outp, f);

	if (r)
		return r;
	outp->dtype = DTYPE_i64;
	if (c->in[0]->dims[c->attr->axis] <= UINT32_MAX)
		return 0;
	return fault_set(f, FAULT_SHAPE, "argsort: axis %u of %s has more than %" PRIu32 " elements", c->attr->axis,
		shape_text(c->in[0], text), UINT32_MAX);
}

static int infer_searchsorted(const struct call *c, struct tensor_type *outp, struct fault *f) {
	char text[SHAPE_TEXT];
	int r = check_same_dtype(c, 0, 1, f);

	if (r)
		return r;
	*outp = *c->in[1];
	outp->dtype = DTYPE_i64;
	if (c->in[0]->rank == 1)
		return 0;
	return fault_set(f, FAULT_SHAPE, "searchsorted looks in a vector; argument sorted is %s", shape_text(c->in[0], text));
}

static int refuse_concat(const struct call *c, unsigned i, struct fault *f) {
	char ta[SHAPE_TEXT], tb[SHAPE_TEXT];

	if (c->in[0]->rank != c->in[i]->rank)
		return fault_set(f, FAULT_SHAPE, "concat along axis %u: array 0 (%s) and array %u (%s) are of %u and %u dimensions", c->attr->axis,
			shape_text(c->in[0], ta), i, shape_text(c->in[i], tb), c->in[0]->rank, c->in[i]->rank);
	return fault_set(f, FAULT_SHAPE, "concat along axis %u: array 0 (%s) and array %u (%s) differ on another axis",
		c->attr->axis, shape_text(c->in[0], ta), i, shape_text(c->in[i], tb));
}

static int infer_concat(const struct call *c, struct tensor_type *outp, struct fault *f) {
	unsigned axis = c->attr->axis;
	int r = check_axis(c, f);

	if (r)
		return r;
	*outp = *c->in[0];
	for (unsigned i = 1; i < c->operands; i++) {
		struct tensor_type like = *c->in[i];

		r = check_same_dtype(c, 0, i, f);
		if (r)
			return r;
		if (like.rank != outp->rank)
			return refuse_concat(c, i, f);
		like.dims[axis] = outp->dims[axis];
		if (!shape_equal(&like, outp))
			return refuse_concat(c, i, f);
		if (__builtin_add_overflow(outp->dims[axis], c->in[i]->dims[axis], &outp->dims[axis]))
			return fault_set(f, FAULT_OVERFLOW, "concat: the extent of axis %u does not fit 63 bits", axis);
	}
	return 0;
}

static int infer_pad(const struct call *c, struct tensor_type *outp, struct fault *f) {
	const struct tensor_type *a = c->in[0];
	char text[SHAPE_TEXT];
	int r = c->operands > 1 ? check_same_dtype(c, 0, 1, f) : 0;

	if (r)
		return r;
	if (c->operands > 1 && c->in[1]->rank)
		return fault_set(f, FAULT_SHAPE, "pad: argument value is %s, not one element of rank 0",
			shape_text(c->in[1], text));
	if (c->attr->rank != a->rank)
		return fault_set(f, FAULT_SHAPE, "pad: %u axes given for the %u of %s", c->attr->rank, a->rank,
			shape_text(a, text));
	for (unsigned d = 0; d < a->rank; d++)
		if (c->attr->start[d] < 0 || c->attr->dims[d] - a->dims[d] < c->attr->start[d])
			return fault_set(f, FAULT_ARGUMENT, "pad: axis %u of %s does not fit %" PRId64
				" elements after the first %" PRId64, d, shape_text(a, text), c->attr->dims[d],
				c->attr->start[d]);
	return take_dims(c, a->dtype, outp, f);
}

static int refuse_matmul(const struct call *c, int code, const char *why, struct fault *f) {
	char ta[SHAPE_TEXT], tb[SHAPE_TEXT];

	return fault_set(
		f, code, "matmul of %s and %s: %s", shape_text(c->in[0], ta), shape_text(c->in[1], tb), why);
}

/* The leading axes of t alone. */
static struct tensor_type batch_of(const struct tensor_type *t) {
	struct tensor_type batch = *t;

	batch.rank -= 2;
	return batch;
}

static int infer_matmul(const struct call *c, struct tensor_type *outp, struct fault *f) {
	const struct tensor_type *a = c->in[0], *b = c->in[1];
	struct tensor_type batch;
	int r = check_kind(c, 0, OP_TYPES_NUM, f);

	if (!r)
		r = check_same_dtype(c, 0, 1, f);
	if (r)
		return r;
	if (a->rank < 2 || b->rank < 2)
		return refuse_matmul(c, FAULT_SHAPE, "a and b need at least 2 dimensions", f);
	if (a->dims[a->rank - 1] != b->dims[b->rank - 2])
		return refuse_matmul(
			c, FAULT_SHAPE, "the last axis of a and the last but one of b differ", f);
	*outp = batch_of(a);
	batch = batch_of(b);
	if (shape_broadcast(outp, &batch, NULL))
		return refuse_matmul(c, FAULT_SHAPE, "the leading axes do not broadcast", f);
	outp->dims[outp->rank++] = a->dims[a->rank - 2];
	outp->dims[outp->rank++] = b->dims[b->rank - 1];
	return 0;
}

static enum dtype composite_dtype(const struct call *c) {
	if (c->info->result == OP_RESULT_INDEX)
		return DTYPE_i64;
	return c->info->result == OP_RESULT_DTYPE ? c->attr->dtype : c->in[0]->dtype;
}

/* Operands are of one type, but for those whose name in ops.def says otherwise. */
static int check_composite_dtypes(const struct call *c, struct fault *f) {
	int r = 0;

	for (unsigned i = 0; !r && i < c->operands; i++) {
		int other = composite_operand_types(c->info, i);

		r = check_kind(c, i, other < 0 ? c->info->types : (enum op_types)other, f);
		if (!r && other < 0)
			r = check_same_dtype(c, 0, i, f);
	}
	return r;
}

static int infer_composite(const struct call *c, struct tensor_type *outp, struct fault *f) {
	int r = check_composite_dtypes(c, f);

	if (!r && c->operands && c->info->attributes >> OP_ATTRIBUTE_axes & 1)
		r = check_axes(c, f);
	if (!r && c->attr->dtype >= DTYPE_COUNT)
		r = fault_set(f, FAULT_DTYPE, "%s: element type %u does not exist", c->info->name, c->attr->dtype);
	if (!r)
		r = composite_shape(c->op, c->operands, c->in, c->attr, outp, f);
	if (!r)
		outp->dtype = (uint8_t)composite_dtype(c);
	return r;
}

typedef int rule_function(const struct call *c, struct tensor_type *outp, struct fault *f);

static rule_function *const class_rules[] = {
	[OP_CLASS_UNARY] = infer_elementwise,
	[OP_CLASS_BINARY] = infer_elementwise,
	[OP_CLASS_TERNARY] = infer_elementwise,
	[OP_CLASS_REDUCE] = infer_reduction,
	[OP_CLASS_SCAN] = infer_scan,
	[OP_CLASS_STRUCT] = NULL,
	[OP_CLASS_COMPOSITE] = infer_composite,
};

static rule_function *const struct_rules[OP_COUNT] = {
#define STRUCT(id, name, ...) [id] = infer_##name,
#include "ops.def"
};

static int check_call(unsigned op, unsigned n, struct fault *f) {
	const struct op_info *info = op_info(op);

	if (!info)
		return fault_set(f, FAULT_OPERATION, "operation %u does not exist", op);
	if (n >= op_least(op) && n <= info->arity)
		return 0;
	if (op_least(op) < info->arity)
		return fault_set(f, FAULT_ARITY, "%s takes %u to %u operands, not %u", info->name, op_least(op),
			info->arity, n);
	return fault_set(f, FAULT_ARITY, "%s takes %u operand%s, not %u", info->name, info->arity,
		info->arity == 1 ? "" : "s", n);
}

int op_infer(unsigned op, unsigned n, const struct tensor_type *const *in, const struct op_attr *attr,
	struct tensor_type *outp, struct fault *f) {
	static const struct op_attr nothing;
	struct call c = { .op = op, .in = in, .attr = attr ? attr : &nothing };
	struct tensor_type out = { 0 };
	rule_function *rule;
	int r = check_call(op, n, f);

	if (!r && op_is_own(op) && own_state(op) == OWN_WAITS)
		r = fault_set(f, FAULT_OPERATION, "%s may not be called: it has not been found right", op_info(op)->name);
	if (r)
		return r;
	c.info = op_info(op);
	c.operands = n;
	rule = class_rules[c.info->class] ? class_rules[c.info->class] : struct_rules[op];
	r = rule(&c, &out, f);
	if (!r)
		r = check_result(&c, &out, f);
	if (r)
		return r;
	*outp = out;
	return 0;
}
