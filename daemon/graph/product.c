/*
 * Matrix products of few elements and a long k, which arrive as one operation and become several.
 *
 * Taken in k after k such a product keeps one unit of a device busy, or one lane of it. So the order is another one, by a
 * rule on element type and shape alone (fusion-ops(7)): an inner product is the sum of the products of its elements, by
 * the tree of reductions; other small results are products over blocks of k, which are then summed by that tree. Being
 * operations like all others they fuse, and have the same bits in every form.
 *
 * Integers wrap, so for them every order is the same: they stay whole.
 */
#include "expand.h"

enum {
	/* Elements of an inner product from which on the tree fills vectors often enough. */
	PRODUCT_INNER = 1024,
	/* k of a product that goes by blocks, and of a block of it: what follows the blocks is then nothing beside them. */
	PRODUCT_LONG = 32768,
	PRODUCT_BLOCK = 8192,
	/* Elements of its result: more of them are enough tiles for a device. */
	PRODUCT_ELEMENTS = 4096,
};

/* The operations being made; the first failure stays. */
struct parts {
	struct graph *graph;
	uint32_t note;
	struct fault *fault;
	int error;
};

static const struct tensor_type *type_of(const struct parts *p, uint32_t node) {
	return &graph_node(p->graph, node)->type;
}

static uint32_t make(struct parts *p, unsigned op, unsigned arity, const uint32_t *in, const struct op_attr *attr) {
	uint32_t node = 0;

	if (!p->error)
		p->error = graph_op(p->graph, op, arity, in, attr, p->note, &node, p->fault);
	return node;
}

static uint32_t cast_to(struct parts *p, uint32_t node, uint8_t dtype) {
	const struct op_attr attr = { .dtype = dtype };

	return type_of(p, node)->dtype == dtype ? node : make(p, OP_cast, 1, &node, &attr);
}

static uint32_t sum_along(struct parts *p, uint32_t node, unsigned axis, bool keepdims) {
	const struct op_attr attr = { .axes = (uint16_t)(1U << axis), .keepdims = keepdims };

	return make(p, OP_reduce_sum, 1, &node, &attr);
}

/* Axes as they are, but two of them exchanged. */
static uint32_t exchange(struct parts *p, uint32_t node, unsigned x, unsigned y) {
	struct op_attr attr = { .rank = type_of(p, node)->rank };

	if (p->error)
		return 0;
	for (unsigned d = 0; d < attr.rank; d++)
		attr.perm[d] = (uint8_t)(d == x ? y : d == y ? x : d);
	return make(p, OP_permute, 1, &node, &attr);
}

/* Elements [from, from + extent) of an axis. */
static uint32_t slice(struct parts *p, uint32_t node, unsigned axis, int64_t from, int64_t extent) {
	const struct tensor_type *t = type_of(p, node);
	struct op_attr attr = { .rank = t->rank };

	if (p->error || t->dims[axis] == extent)
		return node;
	for (unsigned d = 0; d < t->rank; d++) {
		attr.dims[d] = t->dims[d];
		attr.step[d] = 1;
	}
	attr.start[axis] = from;
	attr.dims[axis] = extent;
	return make(p, OP_slice, 1, &node, &attr);
}

/* An axis becomes two, the second of this extent. */
static uint32_t cut(struct parts *p, uint32_t node, unsigned axis, int64_t extent) {
	const struct tensor_type *t = type_of(p, node);
	struct op_attr attr = { .rank = (uint8_t)(t->rank + 1) };

	if (p->error)
		return 0;
	for (unsigned d = 0; d < t->rank; d++)
		attr.dims[d + (d > axis)] = t->dims[d];
	attr.dims[axis] = t->dims[axis] / extent;
	attr.dims[axis + 1] = extent;
	return make(p, OP_reshape, 1, &node, &attr);
}

static uint32_t inner(struct parts *p, const uint32_t *in, const struct tensor_type *result) {
	uint8_t type = dtype_info(result->dtype)->reg;
	unsigned rank = type_of(p, in[1])->rank;
	uint32_t pair[2] = { cast_to(p, in[0], type), cast_to(p, exchange(p, in[1], rank - 2, rank - 1), type) }, all;

	all = make(p, OP_mul, 2, pair, NULL);
	return cast_to(p, sum_along(p, all, result->rank - 1U, true), result->dtype);
}

/* The products over each block of k, along an axis before the last two. */
static uint32_t blocks(struct parts *p, const uint32_t *in, int64_t k) {
	unsigned a = type_of(p, in[0])->rank, b = type_of(p, in[1])->rank;
	uint32_t pair[2] = { slice(p, in[0], a - 1, 0, k), slice(p, in[1], b - 2, 0, k) };

	pair[0] = exchange(p, cut(p, pair[0], a - 1, PRODUCT_BLOCK), a - 2, a - 1);
	pair[1] = cut(p, pair[1], b - 2, PRODUCT_BLOCK);
	return make(p, OP_matmul, 2, pair, NULL);
}

/* The product over what is left of k, as one block more. */
static uint32_t last_block(struct parts *p, const uint32_t *in, int64_t from, int64_t k) {
	unsigned a = type_of(p, in[0])->rank, b = type_of(p, in[1])->rank;
	uint32_t pair[2] = { slice(p, in[0], a - 1, from, k), slice(p, in[1], b - 2, from, k) };
	uint32_t node = make(p, OP_matmul, 2, pair, NULL);
	struct op_attr attr = { .rank = (uint8_t)(type_of(p, node)->rank + 1) };

	if (p->error)
		return 0;
	for (unsigned d = 0; d < attr.rank; d++)
		attr.dims[d] = d + 3U == attr.rank ? 1 : type_of(p, node)->dims[d - (d + 2U >= attr.rank)];
	return make(p, OP_reshape, 1, &node, &attr);
}

static uint32_t by_blocks(struct parts *p, const uint32_t *in, const struct tensor_type *result) {
	const struct tensor_type *a = type_of(p, in[0]);
	int64_t k = a->dims[a->rank - 1], rest = k % PRODUCT_BLOCK;
	const struct op_attr attr = { .axis = (uint8_t)(result->rank - 2) };
	uint32_t part[2] = { blocks(p, in, k - rest), 0 };

	if (rest) {
		part[1] = last_block(p, in, k - rest, rest);
		part[0] = make(p, OP_concat, 2, part, &attr);
	}
	return sum_along(p, part[0], attr.axis, false);
}

static bool is_inner(const struct tensor_type *a, const struct tensor_type *result) {
	unsigned rank = result->rank;

	return result->dims[rank - 1] == 1 && result->dims[rank - 2] == 1 && a->dims[a->rank - 1] >= PRODUCT_INNER;
}

static bool is_long(const struct tensor_type *a, const struct tensor_type *b, const struct tensor_type *result) {
	return dtype_info(result->dtype)->reg == result->dtype && a->dims[a->rank - 1] >= PRODUCT_LONG &&
		shape_elements(result) <= PRODUCT_ELEMENTS && a->rank < LIMIT_RANK && b->rank < LIMIT_RANK &&
		result->rank < LIMIT_RANK;
}

bool graph_divides(unsigned op, const struct tensor_type *const *in, const struct tensor_type *type) {
	if (op != OP_matmul || dtype_info(type->dtype)->kind != DTYPE_KIND_REAL || !shape_elements(type))
		return false;
	return is_inner(in[0], type) || is_long(in[0], in[1], type);
}

int graph_divide(struct graph *g, const uint32_t *in, const struct tensor_type *type, uint32_t note, uint32_t *nodep,
	struct fault *f) {
	struct parts p = { .graph = g, .note = note, .fault = f };
	const struct tensor_type result = *type;

	*nodep = is_inner(type_of(&p, in[0]), &result) ? inner(&p, in, &result) : by_blocks(&p, in, &result);
	return p.error;
}
