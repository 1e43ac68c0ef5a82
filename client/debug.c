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

static int check_one(struct fusion_context *c, const struct check *k, struct fault *f) {
	int64_t element;
	uint64_t word;
	bool finite;
	int r = look(c, k->value, &element, &word, f);

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
