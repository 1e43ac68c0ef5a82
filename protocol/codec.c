/*
 * Operations on the wire.
 *
 * Which attributes an operation has stands in one table, `attributes_of`; how each attribute is
 * written and read in another, `attribute_rows`, in the order in which they travel. Both
 * directions read the same two tables, so that they cannot disagree.
 */
#include "codec.h"

#include "attribute.h"
#include "own.h"

#include <inttypes.h>
#include <string.h>

/* Bits of attributes_of[], in the order of the wire. */
enum attribute {
	ATTRIBUTE_DTYPE,
	ATTRIBUTE_START,
	ATTRIBUTE_STEP,
	ATTRIBUTE_DIMS,
	ATTRIBUTE_COUNT, /* arange: its one extent, bare */
	ATTRIBUTE_ARENA,
	ATTRIBUTE_OFFSET,
	ATTRIBUTE_VALUE,
	ATTRIBUTE_INCREMENT,
	ATTRIBUTE_PERM,
	ATTRIBUTE_AXES,
	ATTRIBUTE_KEEPDIMS,
	ATTRIBUTE_AXIS,
	ATTRIBUTE_WINDOW, /* size, step, dilation */
	ATTRIBUTE_FLAG,
	ATTRIBUTES,
};

static const uint32_t attributes_of[OP_COUNT] = {
#define REDUCE(id, ...) [id] = 1 << ATTRIBUTE_AXES | 1 << ATTRIBUTE_KEEPDIMS,
#define SCAN(id, ...) [id] = 1 << ATTRIBUTE_AXES,
#include "ops.def"
	[OP_load] = 1 << ATTRIBUTE_DTYPE | 1 << ATTRIBUTE_DIMS | 1 << ATTRIBUTE_ARENA | 1 << ATTRIBUTE_OFFSET,
	[OP_fill] = 1 << ATTRIBUTE_DTYPE | 1 << ATTRIBUTE_DIMS | 1 << ATTRIBUTE_VALUE,
	[OP_arange] =
		1 << ATTRIBUTE_DTYPE | 1 << ATTRIBUTE_COUNT | 1 << ATTRIBUTE_VALUE | 1 << ATTRIBUTE_INCREMENT,
	[OP_cast] = 1 << ATTRIBUTE_DTYPE,
	[OP_reshape] = 1 << ATTRIBUTE_DIMS,
	[OP_broadcast] = 1 << ATTRIBUTE_DIMS,
	[OP_permute] = 1 << ATTRIBUTE_PERM,
	[OP_slice] = 1 << ATTRIBUTE_START | 1 << ATTRIBUTE_STEP | 1 << ATTRIBUTE_DIMS,
	[OP_flip] = 1 << ATTRIBUTE_AXES,
	[OP_concat] = 1 << ATTRIBUTE_AXIS,
	[OP_pad] = 1 << ATTRIBUTE_START | 1 << ATTRIBUTE_DIMS,
	[OP_take] = 1 << ATTRIBUTE_AXIS,
	[OP_take_along] = 1 << ATTRIBUTE_AXIS,
	[OP_put_along] = 1 << ATTRIBUTE_AXIS,
	[OP_add_along] = 1 << ATTRIBUTE_AXIS,
	[OP_windows] = 1 << ATTRIBUTE_AXIS | 1 << ATTRIBUTE_WINDOW,
	[OP_sort] = 1 << ATTRIBUTE_AXIS | 1 << ATTRIBUTE_FLAG,
	[OP_argsort] = 1 << ATTRIBUTE_AXIS | 1 << ATTRIBUTE_FLAG,
	[OP_searchsorted] = 1 << ATTRIBUTE_FLAG,
};

/* Own operations have operands alone. */
static uint32_t attributes_in(unsigned op) {
	return op < OP_COUNT ? attributes_of[op] : 0;
}

unsigned codec_attributes(unsigned op) {
	const struct op_info *info = op_info(op);

	return (unsigned)__builtin_popcount(info->class == OP_CLASS_COMPOSITE ? info->attributes : attributes_in(op));
}

static void put_ints(struct wire_writer *w, unsigned count, const int64_t *values) {
	wire_put_array(w, count);
	for (unsigned i = 0; i < count; i++)
		wire_put_int(w, values[i]);
}

/* The first of an operation's lists decides *rankp, the others must agree with it. */
static int get_list(struct wire_cursor *c, const char *field, bool first, uint8_t *rankp,
	struct wire_cursor *insidep, struct fault *f) {
	int r = wire_get_array(c, field, UINT32_MAX, insidep, f);

	if (r)
		return r;
	if (insidep->left > LIMIT_RANK)
		return fault_set(f, FAULT_RANK, "field %s has %u dimensions, more than the limit of %d",
			field, insidep->left, LIMIT_RANK);
	if (!first && insidep->left != *rankp)
		return fault_set(f, FAULT_PROTOCOL, "field %s has %u entries instead of %u", field,
			insidep->left, *rankp);
	*rankp = (uint8_t)insidep->left;
	return 0;
}

static int get_ints(struct wire_cursor *c, const char *field, bool first, uint8_t *rankp, int64_t min,
	int64_t *values, struct fault *f) {
	struct wire_cursor inside;
	int r = get_list(c, field, first, rankp, &inside, f);

	while (!r && inside.left)
		r = wire_get_int(&inside, field, min, INT64_MAX, values++, f);
	return r;
}

static int get_dtype(struct wire_cursor *c, uint8_t *dtypep, struct fault *f) {
	uint64_t value;
	int r = wire_get_uint(c, "dtype", UINT8_MAX, &value, f);

	if (r)
		return r;
	if (value >= DTYPE_COUNT)
		return fault_set(f, FAULT_DTYPE, "element type %u does not exist", (unsigned)value);
	*dtypep = (uint8_t)value;
	return 0;
}

static void attribute_put_dtype(struct wire_writer *w, const struct coded_op *o) {
	wire_put_uint(w, o->attr.dtype);
}

static int attribute_get_dtype(struct wire_cursor *c, struct coded_op *o, struct fault *f) {
	return get_dtype(c, &o->attr.dtype, f);
}

static void attribute_put_start(struct wire_writer *w, const struct coded_op *o) {
	put_ints(w, o->attr.rank, o->attr.start);
}

static int attribute_get_start(struct wire_cursor *c, struct coded_op *o, struct fault *f) {
	return get_ints(c, "start", true, &o->attr.rank, INT64_MIN, o->attr.start, f);
}

static void attribute_put_step(struct wire_writer *w, const struct coded_op *o) {
	put_ints(w, o->attr.rank, o->attr.step);
}

static int attribute_get_step(struct wire_cursor *c, struct coded_op *o, struct fault *f) {
	return get_ints(c, "step", false, &o->attr.rank, INT64_MIN, o->attr.step, f);
}

static void attribute_put_dims(struct wire_writer *w, const struct coded_op *o) {
	put_ints(w, o->attr.rank, o->attr.dims);
}

static int attribute_get_dims(struct wire_cursor *c, struct coded_op *o, struct fault *f) {
	bool first = !(attributes_of[o->op] & 1 << ATTRIBUTE_START);

	return get_ints(c, "dims", first, &o->attr.rank, 0, o->attr.dims, f);
}

static void attribute_put_count(struct wire_writer *w, const struct coded_op *o) {
	wire_put_int(w, o->attr.dims[0]);
}

static int attribute_get_count(struct wire_cursor *c, struct coded_op *o, struct fault *f) {
	o->attr.rank = 1;
	return wire_get_int(c, "n", 0, INT64_MAX, &o->attr.dims[0], f);
}

static void attribute_put_arena(struct wire_writer *w, const struct coded_op *o) {
	wire_put_uint(w, o->attr.arena);
}

static int attribute_get_arena(struct wire_cursor *c, struct coded_op *o, struct fault *f) {
	uint64_t value;
	int r = wire_get_uint(c, "arena", UINT32_MAX, &value, f);

	if (r)
		return r;
	o->attr.arena = (uint32_t)value;
	return 0;
}

static void attribute_put_offset(struct wire_writer *w, const struct coded_op *o) {
	wire_put_uint(w, o->attr.offset);
}

static int attribute_get_offset(struct wire_cursor *c, struct coded_op *o, struct fault *f) {
	return wire_get_uint(c, "offset", UINT64_MAX, &o->attr.offset, f);
}

static void attribute_put_value(struct wire_writer *w, const struct coded_op *o) {
	wire_put_uint(w, o->attr.value[0]);
}

static int attribute_get_value(struct wire_cursor *c, struct coded_op *o, struct fault *f) {
	return wire_get_uint(c, "value", UINT64_MAX, &o->attr.value[0], f);
}

static void attribute_put_increment(struct wire_writer *w, const struct coded_op *o) {
	wire_put_uint(w, o->attr.value[1]);
}

static int attribute_get_increment(struct wire_cursor *c, struct coded_op *o, struct fault *f) {
	return wire_get_uint(c, "step", UINT64_MAX, &o->attr.value[1], f);
}

static void attribute_put_perm(struct wire_writer *w, const struct coded_op *o) {
	wire_put_array(w, o->attr.rank);
	for (unsigned d = 0; d < o->attr.rank; d++)
		wire_put_uint(w, o->attr.perm[d]);
}

static int attribute_get_perm(struct wire_cursor *c, struct coded_op *o, struct fault *f) {
	struct wire_cursor inside;
	uint64_t axis;
	int r = get_list(c, "perm", true, &o->attr.rank, &inside, f);

	for (unsigned d = 0; !r && inside.left; d++) {
		r = wire_get_uint(&inside, "perm", LIMIT_RANK - 1, &axis, f);
		if (!r)
			o->attr.perm[d] = (uint8_t)axis;
	}
	return r;
}

static void attribute_put_axes(struct wire_writer *w, const struct coded_op *o) {
	wire_put_uint(w, o->attr.axes);
}

static int attribute_get_axes(struct wire_cursor *c, struct coded_op *o, struct fault *f) {
	uint64_t value;
	int r = wire_get_uint(c, "axes", (1 << LIMIT_RANK) - 1, &value, f);

	if (r)
		return r;
	o->attr.axes = (uint16_t)value;
	return 0;
}

static void attribute_put_keepdims(struct wire_writer *w, const struct coded_op *o) {
	wire_put_bool(w, o->attr.keepdims);
}

static int attribute_get_keepdims(struct wire_cursor *c, struct coded_op *o, struct fault *f) {
	return wire_get_bool(c, "keepdims", &o->attr.keepdims, f);
}

static void attribute_put_axis(struct wire_writer *w, const struct coded_op *o) {
	wire_put_uint(w, o->attr.axis);
}

static int attribute_get_axis(struct wire_cursor *c, struct coded_op *o, struct fault *f) {
	uint64_t value;
	int r = wire_get_uint(c, "axis", LIMIT_RANK - 1, &value, f);

	if (r)
		return r;
	o->attr.axis = (uint8_t)value;
	return 0;
}

static void attribute_put_window(struct wire_writer *w, const struct coded_op *o) {
	put_ints(w, 3, (const int64_t[]){ o->attr.window.size, o->attr.window.step, o->attr.window.dilation });
}

static int attribute_get_window(struct wire_cursor *c, struct coded_op *o, struct fault *f) {
	int64_t *const part[] = { &o->attr.window.size, &o->attr.window.step, &o->attr.window.dilation };
	struct wire_cursor inside;
	int r = wire_get_array(c, "window", 3, &inside, f);

	for (unsigned i = 0; !r && i < 3; i++)
		r = wire_get_int(&inside, "window", INT64_MIN, INT64_MAX, part[i], f);
	return r ? r : wire_get_end(&inside, "window", f);
}

static void attribute_put_flag(struct wire_writer *w, const struct coded_op *o) {
	wire_put_bool(w, o->attr.flag);
}

static int attribute_get_flag(struct wire_cursor *c, struct coded_op *o, struct fault *f) {
	return wire_get_bool(c, "flag", &o->attr.flag, f);
}

static const struct {
	void (*put)(struct wire_writer *w, const struct coded_op *o);
	int (*get)(struct wire_cursor *c, struct coded_op *o, struct fault *f);
} attribute_rows[ATTRIBUTES] = {
	[ATTRIBUTE_DTYPE] = { attribute_put_dtype, attribute_get_dtype },
	[ATTRIBUTE_START] = { attribute_put_start, attribute_get_start },
	[ATTRIBUTE_STEP] = { attribute_put_step, attribute_get_step },
	[ATTRIBUTE_DIMS] = { attribute_put_dims, attribute_get_dims },
	[ATTRIBUTE_COUNT] = { attribute_put_count, attribute_get_count },
	[ATTRIBUTE_ARENA] = { attribute_put_arena, attribute_get_arena },
	[ATTRIBUTE_OFFSET] = { attribute_put_offset, attribute_get_offset },
	[ATTRIBUTE_VALUE] = { attribute_put_value, attribute_get_value },
	[ATTRIBUTE_INCREMENT] = { attribute_put_increment, attribute_get_increment },
	[ATTRIBUTE_PERM] = { attribute_put_perm, attribute_get_perm },
	[ATTRIBUTE_AXES] = { attribute_put_axes, attribute_get_axes },
	[ATTRIBUTE_KEEPDIMS] = { attribute_put_keepdims, attribute_get_keepdims },
	[ATTRIBUTE_AXIS] = { attribute_put_axis, attribute_get_axis },
	[ATTRIBUTE_WINDOW] = { attribute_put_window, attribute_get_window },
	[ATTRIBUTE_FLAG] = { attribute_put_flag, attribute_get_flag },
};

static void put_composite(struct wire_writer *w, const struct coded_op *o, uint32_t attributes) {
	wire_put_array(w, 1U + o->arity + (unsigned)__builtin_popcount(attributes));
	wire_put_uint(w, o->op);
	for (unsigned i = 0; i < o->arity; i++)
		wire_put_int(w, o->in[i]);
	attributes_put(w, attributes, &o->attr);
}

void codec_put_op(struct wire_writer *w, const struct coded_op *o) {
	unsigned attributes = attributes_in(o->op);

	if (op_info(o->op)->class == OP_CLASS_COMPOSITE) {
		put_composite(w, o, op_info(o->op)->attributes);
		return;
	}
	wire_put_array(w, 1U + o->arity + (unsigned)__builtin_popcount(attributes));
	wire_put_uint(w, o->theirs ? o->theirs : o->op);
	for (unsigned i = 0; i < o->arity; i++)
		wire_put_int(w, o->in[i]);
	for (; attributes; attributes &= attributes - 1)
		attribute_rows[__builtin_ctz(attributes)].put(w, o);
}

/* Operands and attributes are all of the rest, so their number tells the arity, or a wrong one. */
static int check_values(const struct wire_cursor *c, const struct op_info *info, unsigned attributes,
	struct coded_op *op, struct fault *f) {
	unsigned wanted = (unsigned)__builtin_popcount(attributes);

	if (c->left >= op_least(op->op) + wanted && c->left <= info->arity + wanted) {
		op->arity = (uint8_t)(c->left - wanted);
		return 0;
	}
	if (!wanted)
		return fault_set(f, FAULT_ARITY, "%s takes %u operand%s, not %u", info->name, info->arity,
			info->arity == 1 ? "" : "s", c->left);
	return fault_set(f, FAULT_ARITY, "%s takes %u operand%s and %u attribute%s, not %u values",
		info->name, info->arity, info->arity == 1 ? "" : "s", wanted, wanted == 1 ? "" : "s",
		c->left);
}

static int get_attributes(struct wire_cursor *c, unsigned attributes, const struct op_info *info,
	struct coded_op *op, struct fault *f) {
	for (; attributes; attributes &= attributes - 1) {
		int r = attribute_rows[__builtin_ctz(attributes)].get(c, op, f);

		if (r && f)
			fault_prefix(f, "%s", info->name);
		if (r)
			return r;
	}
	return 0;
}

static int get_operands(struct wire_cursor *c, uint32_t position, struct coded_op *op, struct fault *f) {
	int r = 0;

	for (unsigned i = 0; !r && i < op->arity; i++)
		r = wire_get_int(c, "operand", INT64_MIN, (int64_t)position - 1, &op->in[i], f);
	return r;
}

/* A composite has a fixed number of attributes; what is there besides them are its operands. */
static int get_composite(struct wire_cursor *c, const struct op_info *info, uint32_t position,
	struct coded_op *op, struct fault *f) {
	unsigned wanted = (unsigned)__builtin_popcount(info->attributes);
	int r;

	if (c->left < wanted + op_least(op->op) || c->left > wanted + info->arity)
		return fault_set(f, FAULT_ARITY, "%s takes %u to %u operands and %u attribute%s, not %u values",
			info->name, op_least(op->op), info->arity, wanted, wanted == 1 ? "" : "s", c->left);
	op->arity = (uint8_t)(c->left - wanted);
	r = get_operands(c, position, op, f);
	if (!r)
		r = attributes_get(c, info->attributes, &op->attr, f);
	return r;
}

static int get_values(struct wire_cursor *c, const struct op_info *info, uint32_t position,
	struct coded_op *op, struct fault *f) {
	unsigned attributes = attributes_in(op->op);
	int r;

	if (info->class == OP_CLASS_COMPOSITE)
		return get_composite(c, info, position, op, f);
	r = check_values(c, info, attributes, op, f);
	if (!r)
		r = get_operands(c, position, op, f);
	return r ? r : get_attributes(c, attributes, info, op, f);
}

int codec_get_op(struct wire_cursor *c, uint32_t position, struct coded_op *op, struct fault *f) {
	const struct op_info *info;
	struct wire_cursor inside;
	uint64_t id;
	int r = wire_get_array(c, "operation", UINT32_MAX, &inside, f);

	if (!r)
		r = wire_get_uint(&inside, "operation", UINT64_MAX, &id, f);
	if (r)
		return r;
	info = id <= UINT16_MAX ? op_info((unsigned)id) : NULL;
	if (!info)
		return fault_set(f, FAULT_OPERATION, "operation %" PRIu64 " does not exist", id);
	if (op_is_own((unsigned)id) && own_state((unsigned)id) != OWN_CALLABLE)
		return fault_set(f, FAULT_OPERATION, "%s may not be called: it has not been found right", info->name);
	memset(op, 0, sizeof *op);
	op->op = (uint16_t)id;
	op->arity = info->arity;
	return get_values(&inside, info, position, op, f);
}

void codec_put_type(struct wire_writer *w, const struct tensor_type *t) {
	wire_put_array(w, 2);
	wire_put_uint(w, t->dtype);
	put_ints(w, t->rank, t->dims);
}

int codec_get_type(struct wire_cursor *c, struct tensor_type *t, struct fault *f) {
	struct wire_cursor inside;
	int r = wire_get_array(c, "type", 2, &inside, f);

	memset(t, 0, sizeof *t);
	if (!r)
		r = get_dtype(&inside, &t->dtype, f);
	if (!r)
		r = get_ints(&inside, "dims", true, &t->rank, 0, t->dims, f);
	if (!r)
		r = wire_get_end(&inside, "type", f);
	return r ? r : shape_check(t, f);
}
