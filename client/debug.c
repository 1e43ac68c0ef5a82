/* fusion.debug. See debug.h for the contract. */
#include "debug.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "flush.h"
#include "read.h"

/* A value that is checked, and what it was made of: sending it drops the operands. */
struct check {
	struct value *value;
	unsigned arity;
	struct value *in[LIMIT_OPERANDS];
};

/* Words of these bits are NaN or infinite. */
static const uint64_t exponents[DTYPE_COUNT] = {
	[DTYPE_f16] = 0x7c00,
	[DTYPE_bf16] = 0x7f80,
	[DTYPE_f32] = 0x7f800000,
	[DTYPE_f64] = UINT64_C(0x7ff0000000000000),
};

/* The first element that is not finite, or -1; *wordp is its bits. */
static int64_t first_nonfinite(enum dtype dtype, const char *memory, int64_t elements, uint64_t *wordp) {
	unsigned bytes = dtype_info(dtype)->bytes;

	for (int64_t i = 0; i < elements; i++) {
		*wordp = 0;
		memcpy(wordp, memory + i * bytes,
			bytes); /* little-endian, as all of the protocol's machines */
		if ((*wordp & exponents[dtype]) == exponents[dtype])
			return i;
	}
	return -1;
}

static bool is_nan(enum dtype dtype, uint64_t word) {
	uint64_t exponent = exponents[dtype], mantissa = (exponent & -exponent) - 1;

	return (word & mantissa) != 0;
}

/* Looks at the contents, once. *elementp and *wordp are set where it is not finite. */
static int look(
	struct fusion_context *c, struct value *v, int64_t *elementp, uint64_t *wordp, struct fault *f) {
	struct location l;
	int r;

	*elementp = -1;
	if (v->finite != FINITE_UNKNOWN)
		return 0;
	v->finite = FINITE_YES;
	if (!exponents[v->type.dtype] || !shape_elements(&v->type))
		return 0;
	r = read_locate(c, v, REQUEST_READ, &l, f);
	if (r) {
		v->finite = FINITE_UNKNOWN;
		return r;
	}
	*elementp = first_nonfinite(v->type.dtype, l.memory, shape_elements(&v->type), wordp);
	if (*elementp >= 0)
		v->finite = FINITE_NO;
	location_release(&l);
	return 0;
}

static int operands_finite(struct fusion_context *c, const struct check *k, bool *finitep, struct fault *f) {
	int64_t element;
	uint64_t word;
	int r = 0;

	*finitep = true;
	for (unsigned i = 0; !r && i < k->arity; i++) {
		/* check_hold() set as many as arity says. */
		/* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage) */
		r = look(c, k->in[i], &element, &word, f);
		*finitep &= k->in[i]->finite == FINITE_YES;
	}
	return r;
}

static bool is_callers_own(const struct value *v) {
	return v->op == OP_load || v->op == OP_fill;
}

static int blame(const struct value *v, int64_t element, uint64_t word, struct fault *f) {
	const struct op_info *info = op_info(v->op);
	char where[PLACE_TEXT], type[SHAPE_TEXT];

	return fault_set(f, FAULT_NONFINITE, "%s at %s made the first %s (element %" PRId64 " of %s)",
		info ? info->name : "replay", place_name(v->place, where),
		is_nan(v->type.dtype, word) ? "NaN" : "infinity", element, shape_text(&v->type, type));
}

/* ---- indices ---- */

/* Operations whose operand 1 says where along an axis of operand 0. */
static bool has_indices(const struct value *v) {
	return v->op == OP_take || v->op == OP_take_along || v->op == OP_embedding || op_scatters(v->op);
}

static int64_t index_at(enum dtype dtype, const char *memory, int64_t i) {
	unsigned bytes = dtype_info(dtype)->bytes;
	int64_t word = 0;

	memcpy(&word, memory + i * bytes, bytes); /* little-endian, as above */
	if (dtype_info(dtype)->kind == DTYPE_KIND_SINT && bytes < sizeof word) {
		unsigned above = 64 - 8 * bytes;

		word = (int64_t)((uint64_t)word << above) >> above;
	}
	return word;
}

/* Negative ones count from the end; u64 beyond 2^63 looks negative, and is beyond any axis. */
static bool is_beyond(enum dtype dtype, int64_t index, int64_t extent) {
	return index >= extent || index < (dtype_info(dtype)->kind == DTYPE_KIND_SINT ? -extent : 0);
}

/* Of a gather or a scatter. */
static unsigned axis_of(const struct value *v) {
	return v->attr ? v->attr->axis : 0;
}

static int blame_index(const struct check *k, int64_t element, int64_t index, struct fault *f) {
	char where[PLACE_TEXT], of[SHAPE_TEXT], type[SHAPE_TEXT];

	return fault_set(f, FAULT_ARGUMENT, "%s at %s: index %" PRId64 " (element %" PRId64 " of %s) is beyond axis %u of %s",
		op_info(k->value->op)->name, place_name(k->value->place, where), index, element,
		shape_text(&k->in[1]->type, type), axis_of(k->value), shape_text(&k->in[0]->type, of));
}

static int check_indices(struct fusion_context *c, const struct check *k, struct fault *f) {
	const struct tensor_type *t;
	struct location l;
	int64_t extent;
	int r;

	/* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): as in operands_finite() */
	if (k->arity < 2 || !has_indices(k->value) || !shape_elements(&k->in[1]->type))
		return 0;
	t = &k->in[1]->type;
	extent = k->in[0]->type.dims[axis_of(k->value)];
	r = read_locate(c, k->in[1], REQUEST_READ, &l, f);
	if (r)
		return r;
	for (int64_t i = 0; !r && i < shape_elements(t); i++) {
		int64_t index = index_at(t->dtype, l.memory, i);

		if (is_beyond(t->dtype, index, extent))
			r = blame_index(k, i, index, f);
	}
	location_release(&l);
	return r;
}

/* ---- a value ---- */

static int check_one(struct fusion_context *c, const struct check *k, struct fault *f) {
	int64_t element = -1;
	uint64_t word;
	bool finite;
	int r = check_indices(c, k, f);

	if (!r)
		r = look(c, k->value, &element, &word, f);
	if (r || element < 0 || is_callers_own(k->value))
		return r;
	r = operands_finite(c, k, &finite, f);
	return r || !finite ? r : blame(k->value, element, word, f);
}

static void check_hold(struct check *k, struct value *v) {
	k->value = v;
	k->arity = v->arity;
	value_hold(v);
	for (unsigned i = 0; i < v->arity; i++) {
		k->in[i] = v->in[i];
		value_hold(v->in[i]);
	}
}

static void check_unhold(struct fusion_context *c, struct check *k) {
	for (unsigned i = 0; i < k->arity; i++)
		value_unhold(c, k->in[i]); /* NOLINT(clang-analyzer-core.CallAndMessage): as above */
	value_unhold(c, k->value);
}

/* What is pending: the operation, and the casts and scalars recorded with it. */
static int check_pending(struct fusion_context *c, struct fault *f) {
	unsigned count = 0;
	struct check *checks = malloc(c->pending.count * sizeof *checks);
	int r;

	if (!checks)
		return -ENOMEM;
	for (struct value *v = c->pending.first; v; v = v->next)
		check_hold(&checks[count++], v);
	r = flush_send(c, 0, f);
	for (unsigned i = 0; !r && i < count; i++)
		r = check_one(c, &checks[i], f);
	for (unsigned i = 0; i < count; i++)
		check_unhold(c, &checks[i]);
	free(checks);
	return r;
}

int debug_check(struct fusion_context *c, struct value *v, struct fault *f) {
	struct check alone = { .value = v };

	return v->state == VALUE_PENDING ? check_pending(c, f) : check_one(c, &alone, f);
}
