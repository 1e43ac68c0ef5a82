/*
 * Random graphs, as programs make them, for tests in C that need no device.
 *
 * A graph is a few families of shapes whose extents are rows, tiles, vectors and multiples of 256 as well as odd ones; most
 * operations take what was computed lately, so that there are chains, towers and values that several read. Operations with
 * rules of their own are tried with attributes that often fit; graph_op() refuses the others. A seed gives the same
 * graph for ever.
 */
#pragma once

#include <string.h>

#include "daemon/graph/graph.h"

enum {
	RANDOM_RECENT = 12,
	RANDOM_BASES = 3,
	RANDOM_NODES = 1 << 14,
	/* Elements of a value, where nothing is computed; what is computed says less. */
	RANDOM_ELEMENTS = 4 << 20,
};

struct random_graph {
	struct graph *g;
	uint64_t state;
	int64_t most;                      /* elements of a value */
	bool maps;                         /* elementwise operations, views and what is put together alone */
	bool in_f64;                       /* doubles, too */
	uint32_t node[RANDOM_NODES];
	unsigned nodes;
	struct tensor_type base[RANDOM_BASES];
	char buffer[RANDOM_NODES];         /* leaves have one each */
	unsigned leaves;
	struct fault fault;
};

static inline uint64_t random_next(struct random_graph *r) {
	r->state += UINT64_C(0x9e3779b97f4a7c15);
	uint64_t x = r->state;
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

static inline unsigned random_below(struct random_graph *r, unsigned n) {
	return (unsigned)(random_next(r) % n);
}

static inline bool random_chance(struct random_graph *r, unsigned percent) {
	return random_below(r, 100) < percent;
}

static inline const struct tensor_type *random_type(const struct random_graph *r, uint32_t node) {
	return &graph_node(r->g, node)->type;
}

static inline int64_t random_extent(struct random_graph *r) {
	static const int64_t small[] = { 1, 1, 2, 3, 4, 5, 7, 8, 8, 9, 12, 16, 16, 17 };
	static const int64_t large[] = { 31, 32, 33, 48, 64, 65, 96, 100, 127, 128, 130, 200, 255, 256, 256, 257, 300, 511, 512, 512, 768, 1000,
		1024, 1280, 2048, 4096, 4097, 8192, 10000, 16384, 100000 };

	if (random_chance(r, 65))
		return small[random_below(r, sizeof small / sizeof *small)];
	return large[random_below(r, sizeof large / sizeof *large)];
}

static inline uint8_t random_dtype(struct random_graph *r) {
	static const uint8_t types[] = { DTYPE_f32, DTYPE_f32, DTYPE_f32, DTYPE_f32, DTYPE_f32, DTYPE_f32, DTYPE_f16, DTYPE_bf16, DTYPE_i64,
		DTYPE_i32, DTYPE_u8, DTYPE_i8, DTYPE_bool, DTYPE_u32, DTYPE_i16, DTYPE_u64, DTYPE_f64 };

	return types[random_below(r, sizeof types / sizeof *types - !r->in_f64)];
}

/* Fitted to `most`: the largest extents are halved. */
static inline void random_shape(struct random_graph *r, struct tensor_type *t, unsigned rank) {
	t->rank = (uint8_t)rank;
	for (unsigned d = 0; d < rank; d++)
		t->dims[d] = random_extent(r);
	while (shape_elements(t) > r->most) {
		unsigned largest = 0;

		for (unsigned d = 1; d < rank; d++)
			largest = t->dims[d] > t->dims[largest] ? d : largest;
		t->dims[largest] = (t->dims[largest] + 1) / 2;
	}
}

static inline void random_keep(struct random_graph *r, uint32_t node) {
	if (r->nodes < RANDOM_NODES)
		r->node[r->nodes++] = node;
}

/* As no operation makes a larger one; graph_leaf() believes its caller that there is such an array. */
static inline bool random_fits(const struct random_graph *r, const struct tensor_type *t) {
	int64_t elements = 1;

	for (unsigned d = 0; d < t->rank; d++)
		if (t->dims[d] && __builtin_mul_overflow(elements, t->dims[d], &elements))
			return false;
	return elements <= r->most;
}

static inline bool random_leaf(struct random_graph *r, const struct tensor_type *t, uint32_t *nodep) {
	struct view v;

	if (!random_fits(r, t))
		return false;
	view_contiguous(t, &v);
	return r->leaves < RANDOM_NODES && !graph_leaf(r->g, &r->buffer[r->leaves++], t, &v, nodep);
}

/* A value as it is made: those too large are not. */
static inline bool random_op(struct random_graph *r, unsigned op, unsigned arity, const uint32_t *in, const struct op_attr *attr,
	uint32_t *nodep) {
	const struct tensor_type *types[LIMIT_OPERANDS];
	struct tensor_type t;
	uint32_t node;

	for (unsigned i = 0; i < arity; i++)
		types[i] = random_type(r, in[i]);
	if (op_infer(op, arity, types, attr, &t, &r->fault) || shape_elements(&t) > r->most ||
		(t.dtype == DTYPE_f64 && !r->in_f64))
		return false;
	if (graph_op(r->g, op, arity, in, attr, 0, &node, &r->fault))
		return false;
	random_keep(r, node);
	if (nodep)
		*nodep = node;
	return true;
}

static inline uint32_t random_value(struct random_graph *r) {
	unsigned far = r->nodes < RANDOM_RECENT || random_chance(r, 15) ? r->nodes : RANDOM_RECENT;

	return r->node[r->nodes - 1 - random_below(r, far)];
}

static inline bool random_broadcasts(const struct tensor_type *a, const struct tensor_type *b) {
	for (unsigned d = 1; d <= a->rank && d <= b->rank; d++)
		if (a->dims[a->rank - d] != b->dims[b->rank - d] && a->dims[a->rank - d] != 1 && b->dims[b->rank - d] != 1)
			return false;
	return true;
}

static inline bool random_cast(struct random_graph *r, uint32_t *node, uint8_t dtype) {
	return random_type(r, *node)->dtype == dtype || random_op(r, OP_cast, 1, node, &(struct op_attr){ .dtype = dtype }, node);
}

/* Something that broadcasts with a: a value, a number, or an array of some of its extents. */
static inline bool random_beside(struct random_graph *r, uint32_t a, uint32_t *nodep) {
	struct tensor_type t = *random_type(r, a);

	for (unsigned i = 0; i < 12; i++) {
		*nodep = random_value(r);
		if (random_broadcasts(random_type(r, *nodep), &t) && random_chance(r, 85))
			return random_cast(r, nodep, t.dtype);
	}
	if (random_chance(r, 30)) {
		struct op_attr attr = { .dtype = t.dtype, .value = { dtype_scalar_from_int(t.dtype, t.dtype == DTYPE_bool ? 1 : 1 + random_below(r, 9)) } };

		return random_op(r, OP_fill, 0, NULL, &attr, nodep);
	}
	for (unsigned d = 0; d < t.rank; d++)
		if (random_chance(r, 30))
			t.dims[d] = 1;
	if (t.rank && random_chance(r, 20)) {
		memmove(t.dims, t.dims + 1, (t.rank - 1U) * sizeof *t.dims);
		t.rank--;
	}
	if (!random_leaf(r, &t, nodep))
		return false;
	random_keep(r, *nodep);
	return true;
}

static inline bool random_elementwise(struct random_graph *r, unsigned op) {
	uint32_t in[LIMIT_OPERANDS] = { random_value(r) };
	unsigned arity = op_info(op)->arity;

	for (unsigned i = 1; i < arity; i++)
		if (random_chance(r, 8))
			in[i] = in[0];
		else if (!random_beside(r, in[0], &in[i]))
			return false;
	if (op == OP_where && !random_cast(r, &in[0], DTYPE_bool))
		return false;
	if (op == OP_where && arity == 3 && random_type(r, in[1])->dtype != random_type(r, in[2])->dtype &&
		!random_cast(r, &in[2], random_type(r, in[1])->dtype))
		return false;
	return random_op(r, op, arity, in, NULL, NULL);
}

/* Values that are one along the rows of another, or one for all of them: made of each other first, then of it. */
static inline bool random_over_rows(struct random_graph *r) {
	static const uint16_t ops[] = { OP_mul, OP_add, OP_sub, OP_maximum, OP_div };
	uint32_t a = random_value(r), sum = a;
	struct tensor_type t = *random_type(r, a);
	struct op_attr wide = { .rank = t.rank };
	unsigned count = 1 + random_below(r, 4);

	if (t.rank < 2 || t.dtype == DTYPE_bool)
		return false;
	memcpy(wide.dims, t.dims, sizeof wide.dims);
	for (unsigned i = 0; i < count; i++) {
		struct tensor_type one = t;
		bool row = random_chance(r, 75);
		uint32_t in[2];

		for (unsigned d = 0; d < t.rank; d++)
			one.dims[d] = row == (d + 1U == t.rank) ? 1 : t.dims[d];
		if (random_chance(r, 20))
			one.dtype = random_dtype(r);
		if (!random_leaf(r, &one, &in[1]) || !random_cast(r, &in[1], t.dtype) || !random_op(r, OP_broadcast, 1, &in[1], &wide, &in[1]))
			return false;
		in[0] = sum;
		sum = in[1];
		if (i && !random_op(r, ops[random_below(r, 5)], 2, in, NULL, &sum))
			return false;
	}
	return random_op(r, ops[random_below(r, 5)], 2, (uint32_t[]){ sum, a }, NULL, NULL);
}

static inline unsigned random_axes(struct random_graph *r, unsigned rank) {
	unsigned axes = 0;

	if (rank && random_chance(r, 55))
		return 1U << (rank - 1);
	for (unsigned d = 0; d < rank; d++)
		axes |= (unsigned)random_chance(r, 40) << d;
	return axes;
}

static inline bool random_reshape(struct random_graph *r, uint32_t a) {
	const struct tensor_type *t = random_type(r, a);
	struct op_attr attr = { .rank = 0 };
	int64_t piece = 1;

	/* Extents are joined and cut anew, some by a divisor, some by an extent of 1. */
	for (unsigned d = 0; d < t->rank && attr.rank < LIMIT_RANK - 2; d++) {
		piece *= t->dims[d];
		if (random_chance(r, 45) && d + 1 < t->rank)
			continue;
		for (int64_t by = 2 + random_below(r, 15); random_chance(r, 35) && piece % by == 0 && attr.rank < LIMIT_RANK - 2;) {
			attr.dims[attr.rank++] = by;
			piece /= by;
		}
		attr.dims[attr.rank++] = piece;
		piece = 1;
	}
	if (attr.rank < LIMIT_RANK && random_chance(r, 20))
		attr.dims[attr.rank++] = 1;
	return random_op(r, OP_reshape, 1, &a, &attr, NULL);
}

static inline bool random_permute(struct random_graph *r, uint32_t a) {
	struct op_attr attr = { .rank = random_type(r, a)->rank };

	for (unsigned d = 0; d < attr.rank; d++)
		attr.perm[d] = (uint8_t)d;
	for (unsigned d = attr.rank; d > 1; d--) {
		unsigned other = random_below(r, d);
		uint8_t kept = attr.perm[d - 1];

		attr.perm[d - 1] = attr.perm[other];
		attr.perm[other] = kept;
	}
	return random_op(r, OP_permute, 1, &a, &attr, NULL);
}

static inline bool random_broadcast(struct random_graph *r, uint32_t a) {
	const struct tensor_type *t = random_type(r, a);
	struct op_attr attr = { .rank = t->rank };

	memcpy(attr.dims, t->dims, sizeof attr.dims);
	for (unsigned d = 0; d < t->rank; d++)
		if (attr.dims[d] == 1)
			attr.dims[d] = random_extent(r);
	if (t->rank < LIMIT_RANK && random_chance(r, 40)) {
		memmove(attr.dims + 1, attr.dims, t->rank * sizeof *attr.dims);
		attr.dims[0] = random_extent(r);
		attr.rank++;
	}
	return random_op(r, OP_broadcast, 1, &a, &attr, NULL);
}

static inline bool random_slice(struct random_graph *r, uint32_t a) {
	const struct tensor_type *t = random_type(r, a);
	struct op_attr attr = { .rank = t->rank };

	for (unsigned d = 0; d < t->rank; d++) {
		int64_t n = t->dims[d], first = random_chance(r, 50) ? 0 : (int64_t)random_below(r, (unsigned)n), step = 1 + random_below(r, 3);
		bool back = random_chance(r, 15);

		attr.step[d] = back ? -step : step;
		attr.start[d] = back ? n - 1 - first : first;
		attr.dims[d] = (n - first + step - 1) / step;
		if (random_chance(r, 50)) {
			attr.start[d] = 0;
			attr.step[d] = 1;
			attr.dims[d] = n;
		}
	}
	return random_op(r, OP_slice, 1, &a, &attr, NULL);
}

static inline bool random_windows(struct random_graph *r, uint32_t a) {
	const struct tensor_type *t = random_type(r, a);
	struct op_attr attr = { .axis = (uint8_t)(t->rank ? random_below(r, t->rank) : 0) };

	attr.window.size = 1 + random_below(r, 4);
	attr.window.step = 1 + random_below(r, 3);
	attr.window.dilation = 1 + random_below(r, 2);
	return random_op(r, OP_windows, 1, &a, &attr, NULL);
}

static inline bool random_view(struct random_graph *r) {
	uint32_t a = random_value(r);
	struct op_attr flip = { .axes = (uint16_t)(random_next(r) & ((1U << random_type(r, a)->rank) - 1U)) };

	switch (random_below(r, 8)) {
	case 0:
	case 1:
		return random_reshape(r, a);
	case 2:
	case 3:
		return random_permute(r, a);
	case 4:
		return random_broadcast(r, a);
	case 5:
		return random_slice(r, a);
	case 6:
		return random_op(r, OP_flip, 1, &a, &flip, NULL);
	default:
		return random_windows(r, a);
	}
}

static inline bool random_same_dims(const struct tensor_type *a, const struct tensor_type *b) {
	return a->rank == b->rank && !memcmp(a->dims, b->dims, a->rank * sizeof *a->dims);
}

static inline bool random_whole(struct random_graph *r) {
	uint32_t in[4] = { random_value(r) };
	const struct tensor_type t = *random_type(r, in[0]);
	struct op_attr attr = { .axis = (uint8_t)(t.rank ? random_below(r, t.rank) : 0) };
	unsigned arity = 1;

	if (!t.rank)
		return false;
	if (random_chance(r, 50)) {
		attr.rank = t.rank;
		for (unsigned d = 0; d < t.rank; d++) {
			attr.start[d] = random_below(r, 3);
			attr.dims[d] = t.dims[d] + attr.start[d] + random_below(r, 3);
		}
		return random_op(r, OP_pad, 1, in, &attr, NULL);
	}
	for (unsigned i = 0; i < 20 && arity < 4; i++) {
		struct tensor_type o;

		in[arity] = random_value(r);
		o = *random_type(r, in[arity]);
		o.dims[attr.axis] = t.dims[attr.axis];
		if (random_same_dims(&o, &t) && random_cast(r, &in[arity], t.dtype))
			arity++;
	}
	return arity > 1 && random_op(r, OP_concat, arity, in, &attr, NULL);
}

/* An index into an axis: places of a sort, numbers of an array, or what counts up. */
static inline bool random_index(struct random_graph *r, const struct tensor_type *t, uint32_t *nodep) {
	struct tensor_type index = *t;

	index.dtype = random_chance(r, 30) ? DTYPE_i32 : random_chance(r, 10) ? DTYPE_u64 : DTYPE_i64;
	if (!random_leaf(r, &index, nodep))
		return false;
	random_keep(r, *nodep);
	return true;
}

static inline bool random_gather(struct random_graph *r) {
	static const uint16_t ops[] = { OP_take, OP_take_along, OP_put_along, OP_add_along };
	uint32_t in[3] = { random_value(r) };
	struct tensor_type t = *random_type(r, in[0]), of;
	unsigned op = ops[random_below(r, 4)];
	struct op_attr attr = { .axis = (uint8_t)(t.rank ? random_below(r, t.rank) : 0) };

	if (!t.rank)
		return false;
	if (op == OP_take)
		random_shape(r, &of, random_below(r, 3));
	else
		of = t;
	if (op != OP_take)
		of.dims[attr.axis] = 1 + random_below(r, 40);
	if (!random_index(r, &of, &in[1]))
		return false;
	of.dtype = t.dtype;
	if ((op == OP_put_along || op == OP_add_along) && !random_leaf(r, &of, &in[2]))
		return false;
	return random_op(r, op, op_info(op)->arity, in, &attr, NULL);
}

static inline bool random_ordered(struct random_graph *r) {
	static const uint16_t ops[] = { OP_sort, OP_argsort, OP_cumsum, OP_cumprod, OP_cummax, OP_cummin };
	uint32_t a = random_value(r);
	unsigned rank = random_type(r, a)->rank, op = ops[random_below(r, 6)], axis = rank ? random_below(r, rank) : 0;
	struct op_attr attr = { .axis = (uint8_t)axis, .axes = (uint16_t)(1U << axis), .flag = random_chance(r, 40) };

	return rank && random_op(r, op, 1, &a, &attr, NULL);
}

static inline bool random_reduction(struct random_graph *r) {
	static const uint16_t ops[] = { OP_reduce_sum, OP_reduce_sum, OP_reduce_max, OP_reduce_mean, OP_reduce_min, OP_reduce_any, OP_reduce_prod };
	uint32_t a = random_value(r);
	struct op_attr attr = { .axes = (uint16_t)random_axes(r, random_type(r, a)->rank), .keepdims = random_chance(r, 65) };

	return random_op(r, ops[random_below(r, sizeof ops / sizeof *ops)], 1, &a, &attr, NULL);
}

/* By an array, by another value, by itself transposed. */
static inline bool random_product(struct random_graph *r) {
	uint32_t in[2] = { random_value(r) };
	struct tensor_type t = *random_type(r, in[0]), w;
	struct op_attr turn = { .rank = t.rank };

	if (t.rank < 2)
		return false;
	for (unsigned i = 0; i < 8; i++) {
		in[1] = random_value(r);
		if (random_type(r, in[1])->dtype == t.dtype && random_op(r, OP_matmul, 2, in, NULL, NULL))
			return true;
	}
	for (unsigned d = 0; d < t.rank; d++)
		turn.perm[d] = (uint8_t)d;
	turn.perm[t.rank - 1] = (uint8_t)(t.rank - 2);
	turn.perm[t.rank - 2] = (uint8_t)(t.rank - 1);
	if (random_chance(r, 25)) {
		in[1] = in[0];
		return random_op(r, OP_permute, 1, &in[1], &turn, &in[1]) && random_op(r, OP_matmul, 2, in, NULL, NULL);
	}
	w = t;
	w.dims[t.rank - 2] = t.dims[t.rank - 1];
	w.dims[t.rank - 1] = random_chance(r, 50) ? t.dims[t.rank - 1] : random_extent(r);
	if (random_chance(r, 50)) {
		memmove(w.dims, w.dims + t.rank - 2, 2 * sizeof *w.dims);
		w.rank = 2;
	}
	if (!random_leaf(r, &w, &in[1]))
		return false;
	random_keep(r, in[1]);
	return random_op(r, OP_matmul, 2, in, NULL, NULL);
}

static inline bool random_conv(struct random_graph *r) {
	uint32_t in[3] = { random_value(r) };
	struct tensor_type t = *random_type(r, in[0]), w = t, b = { .dtype = t.dtype, .rank = 1 };
	struct op_attr attr = { .rank = (uint8_t)(t.rank - 2) };
	static const int64_t results[] = { 1, 3, 8, 16, 24 };

	if ((t.rank != 3 && t.rank != 4) || dtype_info(t.dtype)->kind != DTYPE_KIND_REAL)
		return false;
	attr.whole = random_chance(r, 25) ? t.dims[1] : 1;
	w.dims[1] = t.dims[1] / attr.whole;
	b.dims[0] = w.dims[0] = attr.whole > 1 ? t.dims[1] : results[random_below(r, 5)];
	for (unsigned d = 0; d < attr.rank; d++) {
		w.dims[2 + d] = random_chance(r, 60) ? 3 : 1 + random_below(r, 5);
		attr.step[d] = 1 + random_chance(r, 30);
		attr.start[d] = random_below(r, 3);
		attr.dims[d] = 1 + random_chance(r, 10);
	}
	return random_leaf(r, &w, &in[1]) && random_leaf(r, &b, &in[2]) && random_op(r, OP_conv, 2 + random_chance(r, 60), in, &attr, NULL);
}

static inline bool random_attention(struct random_graph *r) {
	uint32_t in[4] = { random_value(r), random_value(r), random_value(r) };
	struct tensor_type t = *random_type(r, in[0]);
	struct op_attr attr = { .flag = random_chance(r, 40) };

	if (t.rank < 2 || dtype_info(t.dtype)->kind != DTYPE_KIND_REAL)
		return false;
	for (unsigned i = 1; i < 3; i++)
		if (!random_same_dims(random_type(r, in[i]), &t) || !random_cast(r, &in[i], t.dtype)) {
			if (!random_leaf(r, &t, &in[i]))
				return false;
			random_keep(r, in[i]);
		}
	return random_op(r, OP_attention, 3, in, &attr, NULL);
}

/* Operations that are made of others; weights are over the last axis, or the channels. */
static inline bool random_composite(struct random_graph *r) {
	static const uint16_t ops[] = { OP_softmax, OP_layer_norm, OP_std, OP_var, OP_rms_norm, OP_group_norm, OP_log_softmax, OP_logsumexp,
		OP_l2_norm, OP_argmax, OP_tril, OP_batch_norm, OP_linear, OP_max_pool, OP_avg_pool, OP_vecdot };
	static const int64_t groups[] = { 1, 1, 2, 4 };
	uint32_t in[5] = { random_value(r) };
	struct tensor_type t = *random_type(r, in[0]), w = { .dtype = t.dtype, .rank = 1 };
	unsigned op = ops[random_below(r, sizeof ops / sizeof *ops)], arity = op_least(op);
	struct op_attr attr = { .axes = (uint16_t)random_axes(r, t.rank), .keepdims = random_chance(r, 60), .number = 0 };

	if (!t.rank)
		return false;
	w.dims[0] = t.dims[t.rank - 1];
	if (op == OP_layer_norm || op == OP_rms_norm) {
		attr.axes = (uint16_t)(1U << (t.rank - 1));
		attr.number = 1e-5;
		arity = op_info(op)->arity;
	} else if (op == OP_group_norm) {
		attr.whole = groups[random_below(r, 4)];
		attr.number = 1e-5;
		w.dims[0] = t.rank > 1 ? t.dims[1] : 1;
		arity = random_chance(r, 50) ? 3 : 1;
	} else if (op == OP_batch_norm) {
		attr.axes = (uint16_t)(1U << (t.rank > 1));
		attr.number = 1e-5;
		w.dims[0] = t.dims[t.rank > 1];
		arity = 5;
	} else if (op == OP_linear) {
		w.rank = 2;
		w.dims[1] = w.dims[0];
		w.dims[0] = random_extent(r);
	} else if (op == OP_max_pool || op == OP_avg_pool) {
		attr.rank = (uint8_t)(t.rank > 2 ? t.rank - 2 : 0);
		for (unsigned d = 0; d < attr.rank; d++)
			attr.dims[d] = attr.step[d] = 1 + random_below(r, 2);
	}
	for (unsigned i = 1; i < arity; i++) {
		struct tensor_type other = w;

		if (op == OP_vecdot)
			other = t;
		if (op == OP_linear && i == 2) {
			other.rank = 1;
		}
		if (!random_leaf(r, &other, &in[i]))
			return false;
		random_keep(r, in[i]);
	}
	return random_op(r, op, arity, in, &attr, NULL);
}

static inline bool random_source(struct random_graph *r) {
	struct tensor_type t = r->base[random_below(r, RANDOM_BASES)];
	uint32_t node;

	if (random_chance(r, 25)) {
		struct op_attr attr = { .dtype = DTYPE_f32, .rank = 1, .dims = { t.rank ? t.dims[t.rank - 1] : 1 },
			.value = { 0, dtype_scalar_from_int(DTYPE_f32, 1) } };

		return random_op(r, OP_arange, 0, NULL, &attr, NULL);
	}
	if (random_chance(r, 25))
		t.dtype = random_dtype(r);
	if (!random_leaf(r, &t, &node))
		return false;
	random_keep(r, node);
	return true;
}

static inline unsigned random_elementwise_op(struct random_graph *r) {
	static const uint16_t usual[] = { OP_add, OP_mul, OP_sub, OP_relu, OP_exp, OP_tanh, OP_div, OP_maximum, OP_neg, OP_where, OP_square };

	while (random_chance(r, 40)) {
		unsigned op = random_below(r, OP_COUNT);

		if (op_info(op) && op_is_elementwise(op_info(op)) && !op_is_own(op))
			return op;
	}
	return usual[random_below(r, sizeof usual / sizeof *usual)];
}

static inline bool random_operation(struct random_graph *r) {
	unsigned kind = random_below(r, 100);
	uint32_t a;

	if (kind < 4)
		return random_over_rows(r);
	if (kind < 40)
		return random_elementwise(r, random_elementwise_op(r));
	if (kind < 55)
		return random_view(r);
	if (kind < 60) {
		a = random_value(r);
		return random_chance(r, 40) ? random_op(r, OP_copy, 1, &a, NULL, NULL) : random_cast(r, &a, random_dtype(r));
	}
	if (kind < 63)
		return random_whole(r);
	if (kind < 66)
		return random_source(r);
	if (r->maps)
		return random_elementwise(r, random_elementwise_op(r));
	if (kind < 76)
		return random_reduction(r);
	if (kind < 86)
		return random_product(r);
	if (kind < 93)
		return random_composite(r);
	if (kind < 95)
		return random_ordered(r);
	if (kind < 97)
		return random_gather(r);
	return kind < 99 ? random_conv(r) : random_attention(r);
}

/* What nobody reads is a result, and some of what is read. */
static inline bool random_outputs(struct random_graph *r) {
	static bool read[RANDOM_NODES * 8];
	uint32_t nodes = graph_nodes(r->g);

	if (nodes > sizeof read)
		return false;
	memset(read, 0, nodes);
	for (uint32_t i = 0; i < nodes; i++)
		for (unsigned k = 0; k < graph_node(r->g, i)->arity; k++)
			read[graph_node(r->g, i)->in[k]] = true;
	for (uint32_t i = 0; i < nodes; i++)
		if (graph_node(r->g, i)->op != OP_load && (!read[i] || random_chance(r, 6)) && graph_output(r->g, i, i))
			return false;
	return true;
}

/* Fills r->g, which is empty, with about so many operations. False where memory is short. */
static inline bool random_graph_make(struct random_graph *r, struct graph *g, uint64_t seed, unsigned operations) {
	unsigned tries = 0;
	uint32_t node;

	r->g = g;
	r->state = seed * UINT64_C(0x2545f4914f6cdd1d) + 88172645463325252;
	r->nodes = r->leaves = 0;
	if (!r->most)
		r->most = RANDOM_ELEMENTS;
	for (unsigned i = 0; i < RANDOM_BASES; i++) {
		random_shape(r, &r->base[i], 1 + random_below(r, i ? 4 : 5));
		r->base[i].dtype = i ? r->base[0].dtype : random_dtype(r);
		/* Rows of whole blocks of bytecode, of the groups and tiles of other kernels. */
		if (random_chance(r, 40) && r->most >= 4096)
			r->base[i].dims[r->base[i].rank - 1] = 256 * (1 + random_below(r, 4));
		/* Squares are products of themselves. */
		if (r->base[i].rank > 1 && random_chance(r, 25))
			r->base[i].dims[r->base[i].rank - 2] = r->base[i].dims[r->base[i].rank - 1];
		while (shape_elements(&r->base[i]) > r->most) {
			unsigned large = r->base[i].rank - 1U;

			for (unsigned d = 0; d + 1U < r->base[i].rank; d++)
				large = r->base[i].dims[d] > 1 ? d : large;
			r->base[i].dims[large] = (r->base[i].dims[large] + 1) / 2;
		}
		if (!random_leaf(r, &r->base[i], &node))
			return false;
		random_keep(r, node);
	}
	while (graph_received(g) < operations + RANDOM_BASES && tries++ < 4 * operations && r->nodes < RANDOM_NODES)
		random_operation(r);
	return random_outputs(r);
}

/* 1 to 3,000 operations, small graphs more often. */
static inline unsigned random_operations(uint64_t seed) {
	struct random_graph r = { .state = seed ^ UINT64_C(0x5bd1e995) };
	static const unsigned most[] = { 10, 10, 20, 20, 40, 40, 80, 160, 400, 3000 };
	unsigned of = most[random_below(&r, sizeof most / sizeof *most)];

	return 1 + of / 2 + random_below(&r, of - of / 2);
}
