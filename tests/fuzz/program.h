/*
 * Operations that a client could send, as bytes, and the graph of them.
 *
 *   operation  its number, one byte for each operand: how many values ago it was made; then its attributes
 *   output     the byte OUTPUT, and one that says of which value
 *
 * A number is one byte from -16 on, an extent that matters in a table, or NUMBER_WIDE and eight bytes. What does not fit is made
 * to fit where that is easy - axes, lists of extents, element types, an operand of a shape that goes - since most bytes would be no
 * graph otherwise; what is right already stays as it is, so seeds say what their text graphs say (seeds.c). The rest is skipped.
 */
#pragma once

#include "daemon/graph/graph.h"
#include "daemon/base/str.h"
#include "protocol/attribute.h"
#include "tests/fuzz/fuzz.h"

enum {
	PROGRAM_OUTPUT = 255,
	PROGRAM_VALUES = 96,
	PROGRAM_LOOKS = 12,                /* at values before, for one whose shape goes */
	NUMBER_LEAST = 16,
	NUMBER_TABLE = 208,
	NUMBER_WIDE = 255,
};

static const int64_t program_table[] = { 255, 256, 257, 500, 511, 512, 513, 768, 1000, 1023, 1024, 1025, 1280, 1536, 2048, 3000, 4095, 4096, 4097, 8192,
	10000, 16384, 65535, 65536, 100000, 1 << 20, INT32_MAX, INT64_C(1) << 40, INT64_MAX, INT64_MIN, -100, -1000 };
static const double program_reals[] = { 0, 1, 1e-5, 0.5, -1, 2, 1e-12, 1e30, -0.0 };

struct program {
	struct graph *g;
	struct fuzz_bytes *in;             /* NULL: it is written */
	struct str *out;
	int64_t most;                      /* elements of a value */
	bool maps;                         /* it is elementwise operations, views and what is put together alone, so far */
	uint32_t value[PROGRAM_VALUES];
	unsigned values, leaves, outputs;
	struct fault fault;
};

/* ---- numbers, both ways ---- */

static inline void program_put(struct program *p, const void *bytes, size_t size) {
	str_append_bytes(p->out, bytes, size);
}

static inline void program_byte(struct program *p, uint8_t *b) {
	if (p->in)
		*b = fuzz_byte(p->in);
	else
		program_put(p, b, 1);
}

static inline int64_t program_read_number(struct program *p) {
	uint8_t b = fuzz_byte(p->in);

	if (b < NUMBER_TABLE)
		return (int64_t)b - NUMBER_LEAST;
	return b == NUMBER_WIDE ? (int64_t)fuzz_whole(p->in, 8) : program_table[(b - NUMBER_TABLE) % (sizeof program_table / sizeof *program_table)];
}

static inline void program_write_number(struct program *p, int64_t n) {
	uint8_t b = NUMBER_WIDE;

	for (unsigned i = 0; i < sizeof program_table / sizeof *program_table; i++)
		b = program_table[i] == n ? (uint8_t)(NUMBER_TABLE + i) : b;
	if (n >= -NUMBER_LEAST && n < NUMBER_TABLE - NUMBER_LEAST)
		b = (uint8_t)(n + NUMBER_LEAST);
	program_put(p, &b, 1);
	if (b == NUMBER_WIDE)
		program_put(p, &n, sizeof n);
}

static inline void program_number(struct program *p, int64_t *n) {
	if (p->in)
		*n = program_read_number(p);
	else
		program_write_number(p, *n);
}

/* A number of the table, or its bits. */
static inline void program_real(struct program *p, double *x) {
	uint8_t b = NUMBER_WIDE;

	program_byte(p, &b);
	if (b == NUMBER_WIDE && p->in) {
		uint64_t bits = fuzz_whole(p->in, 8);

		memcpy(x, &bits, sizeof bits);
	} else if (b == NUMBER_WIDE) {
		program_put(p, x, sizeof *x);
	} else {
		*x = program_reals[b % (sizeof program_reals / sizeof *program_reals)];
	}
}

/* An element: small, or its bits. */
static inline void program_element(struct program *p, unsigned dtype, uint64_t *value) {
	uint8_t b = NUMBER_WIDE;

	program_byte(p, &b);
	if (!p->in)
		program_put(p, value, sizeof *value);
	else
		*value = b == NUMBER_WIDE ? fuzz_whole(p->in, 8) : dtype_scalar_from_int(dtype, dtype == DTYPE_bool ? b & 1 : b % 32);
}

static inline void program_list(struct program *p, unsigned rank, int64_t *list) {
	for (unsigned d = 0; d < rank; d++)
		program_number(p, &list[d]);
}

/* ---- attributes, both ways ---- */

static inline void program_flag(struct program *p, bool *flag) {
	uint8_t b = *flag;

	program_byte(p, &b);
	*flag = b & 1;
}

static inline void program_axes(struct program *p, uint16_t *axes) {
	uint8_t b = (uint8_t)*axes;

	program_byte(p, &b);
	*axes = b;
}

static inline void program_dims(struct program *p, struct op_attr *a) {
	program_byte(p, &a->rank);
	a->rank %= LIMIT_RANK + 1;
	program_list(p, a->rank, a->dims);
}

static inline void program_dtype(struct program *p, struct op_attr *a) {
	program_byte(p, &a->dtype);
	a->dtype %= DTYPE_COUNT;
}

static inline void program_composite(struct program *p, uint32_t attributes, struct op_attr *a) {
	bool ranked = false;

	for (unsigned i = 0; i < OP_ATTRIBUTES; i++) {
		const struct attribute_info *info = attribute_info((enum op_attribute)i);

		if (!(attributes >> i & 1))
			continue;
		if (info->kind == ATTRIBUTE_KIND_LIST && !ranked) {
			program_byte(p, &a->rank);
			a->rank %= LIMIT_RANK + 1;
			ranked = true;
		}
		if (info->kind == ATTRIBUTE_KIND_LIST)
			program_list(p, a->rank, attribute_list(a, (enum op_attribute)i));
		else if (info->kind == ATTRIBUTE_KIND_AXES)
			program_axes(p, &a->axes);
		else if (info->kind == ATTRIBUTE_KIND_FLAG)
			program_flag(p, (bool *)((char *)a + info->offset));
		else if (info->kind == ATTRIBUTE_KIND_REAL)
			program_real(p, &a->number);
		else if (info->kind == ATTRIBUTE_KIND_WHOLE)
			program_number(p, &a->whole);
		else
			program_dtype(p, a);
	}
}

static inline void program_attr(struct program *p, unsigned op, struct op_attr *a) {
	const struct op_info *info = op_info(op);

	if (info->class == OP_CLASS_COMPOSITE) {
		program_composite(p, info->attributes, a);
		return;
	}
	if (info->class == OP_CLASS_REDUCE || info->class == OP_CLASS_SCAN || op == OP_flip)
		program_axes(p, &a->axes);
	if (info->class == OP_CLASS_REDUCE)
		program_flag(p, &a->keepdims);
	if (op == OP_load || op == OP_fill || op == OP_cast || op == OP_arange)
		program_dtype(p, a);
	if (op == OP_load || op == OP_fill || op == OP_arange || op == OP_reshape || op == OP_broadcast || op == OP_slice || op == OP_pad)
		program_dims(p, a);
	if (op == OP_slice || op == OP_pad)
		program_list(p, a->rank, a->start);
	if (op == OP_slice)
		program_list(p, a->rank, a->step);
	if (op == OP_fill || op == OP_arange)
		program_element(p, a->dtype, &a->value[0]);
	if (op == OP_arange)
		program_element(p, a->dtype, &a->value[1]);
	if (op == OP_permute) {
		program_byte(p, &a->rank);
		a->rank %= LIMIT_RANK + 1;
		for (unsigned d = 0; d < a->rank; d++)
			program_byte(p, &a->perm[d]);
	}
	if (op == OP_concat || op == OP_windows || op_gathers(op) || op_scatters(op) || op_sorts(op))
		program_byte(p, &a->axis);
	if (op == OP_windows) {
		program_number(p, &a->window.size);
		program_number(p, &a->window.step);
		program_number(p, &a->window.dilation);
	}
	if (op_sorts(op) || op == OP_searchsorted)
		program_flag(p, &a->flag);
}

/* ---- what is made to fit ---- */

static inline const struct tensor_type *program_type(const struct program *p, uint32_t node) {
	return &graph_node(p->g, node)->type;
}

/* Extents of which there are no more than `most` elements: the largest are halved. */
static inline void program_fit(const struct program *p, unsigned rank, int64_t *dims) {
	for (;;) {
		unsigned largest = 0;
		int64_t n = 1;
		bool fits = true;

		for (unsigned d = 0; d < rank; d++) {
			dims[d] = dims[d] < 0 ? 1 : dims[d];
			largest = dims[d] > dims[largest] ? d : largest;
			fits = fits && !__builtin_mul_overflow(n, dims[d] ? dims[d] : 1, &n) && n <= p->most;
		}
		if (fits)
			return;
		dims[largest] = dims[largest] / 2 + dims[largest] % 2;
	}
}

static inline int64_t program_common(int64_t a, int64_t b) {
	while (b) {
		int64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

static inline void program_fit_reshape(const struct tensor_type *t, struct op_attr *a) {
	int64_t rest = shape_elements(t), n = 1;
	bool same = true;

	for (unsigned d = 0; d < a->rank; d++)
		same = same && a->dims[d] >= 0 && !__builtin_mul_overflow(n, a->dims[d], &n);
	if (same && n == rest)
		return;
	for (unsigned d = 0; d < a->rank; d++) {
		a->dims[d] = d + 1U == a->rank || !rest ? rest : a->dims[d] > 0 ? program_common(rest, a->dims[d]) : 1;
		rest = a->dims[d] ? rest / a->dims[d] : 1;
	}
}

static inline void program_fit_broadcast(const struct tensor_type *t, struct op_attr *a) {
	if (a->rank < t->rank)
		a->rank = t->rank;
	for (unsigned d = 0; d < t->rank; d++)
		if (t->dims[d] != 1)
			a->dims[a->rank - t->rank + d] = t->dims[d];
}

static inline void program_fit_permute(const struct tensor_type *t, struct op_attr *a) {
	uint16_t left = (uint16_t)((1U << t->rank) - 1U);

	a->rank = t->rank;
	for (unsigned d = 0; d < t->rank; d++) {
		if (a->perm[d] >= t->rank || !(left >> a->perm[d] & 1))
			a->perm[d] = (uint8_t)__builtin_ctz(left);
		left = (uint16_t)(left & ~(1U << a->perm[d]));
	}
}

static inline void program_fit_slice(const struct tensor_type *t, struct op_attr *a) {
	for (unsigned d = a->rank; d < t->rank; d++) {
		a->start[d] = 0;
		a->step[d] = 1;
		a->dims[d] = t->dims[d];
	}
	a->rank = t->rank;
	for (unsigned d = 0; d < t->rank; d++) {
		int64_t n = t->dims[d], step = a->step[d] ? a->step[d] : 1, room;

		a->step[d] = step;
		if (!n || a->dims[d] <= 0) {
			a->dims[d] = a->start[d] = 0;
			continue;
		}
		a->start[d] = a->start[d] < 0 || a->start[d] >= n ? 0 : a->start[d];
		room = 1 + (step > 0 ? (n - 1 - a->start[d]) / step : step == INT64_MIN ? 0 : a->start[d] / -step);
		a->dims[d] = a->dims[d] > room ? room : a->dims[d];
	}
}

static inline void program_fit_pad(const struct program *p, const struct tensor_type *t, struct op_attr *a) {
	for (unsigned d = a->rank; d < t->rank; d++)
		a->start[d] = a->dims[d] = 0;
	a->rank = t->rank;
	for (unsigned d = 0; d < t->rank; d++) {
		a->start[d] = a->start[d] < 0 || a->start[d] > p->most ? 0 : a->start[d];
		if (a->dims[d] < a->start[d] + t->dims[d])
			a->dims[d] = a->start[d] + t->dims[d];
	}
}

static inline void program_fit_windows(const struct tensor_type *t, struct op_attr *a) {
	int64_t n = t->dims[a->axis];

	a->window.step = a->window.step < 1 ? 1 : a->window.step;
	a->window.dilation = a->window.dilation < 1 || a->window.dilation > n ? 1 : a->window.dilation;
	a->window.size = a->window.size < 1 ? 1 : a->window.size;
	if ((a->window.size - 1) >= n || (a->window.size - 1) * a->window.dilation >= n)
		a->window.size = n ? 1 + (n - 1) / a->window.dilation : 1;
}

static inline void program_fit_attr(const struct program *p, unsigned op, const struct tensor_type *t, struct op_attr *a) {
	const struct op_info *info = op_info(op);

	a->axes &= (uint16_t)((1U << t->rank) - 1U);
	if (info->class == OP_CLASS_SCAN && t->rank)
		a->axes = (uint16_t)(a->axes ? a->axes & -a->axes : 1);
	a->axis = t->rank ? (uint8_t)(a->axis % t->rank) : 0;
	if (op == OP_reshape)
		program_fit_reshape(t, a);
	else if (op == OP_broadcast)
		program_fit_broadcast(t, a);
	else if (op == OP_permute)
		program_fit_permute(t, a);
	else if (op == OP_slice)
		program_fit_slice(t, a);
	else if (op == OP_pad)
		program_fit_pad(p, t, a);
	else if (op == OP_windows && t->rank)
		program_fit_windows(t, a);
}

/* ---- operations ---- */

static inline void program_keep(struct program *p, uint32_t node) {
	if (p->values < PROGRAM_VALUES)
		p->value[p->values++] = node;
}

static inline uint32_t program_ago(const struct program *p, unsigned ago) {
	return p->value[p->values - 1 - ago % p->values];
}

/* Would it be a value, of no more elements than there may be? */
static inline bool program_goes(struct program *p, unsigned op, unsigned arity, const uint32_t *in, const struct op_attr *a) {
	const struct tensor_type *types[LIMIT_OPERANDS];
	struct tensor_type t;

	for (unsigned i = 0; i < arity; i++)
		types[i] = program_type(p, in[i]);
	return !op_infer(op, arity, types, a, &t, &p->fault) && shape_elements(&t) <= p->most;
}

static inline bool program_add(struct program *p, unsigned op, unsigned arity, const uint32_t *in, const struct op_attr *a, uint32_t *nodep) {
	return program_goes(p, op, arity, in, a) && !graph_op(p->g, op, arity, in, a, 0, nodep, &p->fault);
}

static inline bool program_is_map(unsigned op) {
	return op_is_elementwise(op_info(op)) || op_is_view(op) || op == OP_concat || op == OP_pad || op == OP_fill || op == OP_arange || op == OP_load;
}

/* Operands of one element type, as a client casts them. */
static inline void program_cast(struct program *p, unsigned op, unsigned arity, uint32_t *in) {
	bool alike = op_is_elementwise(op_info(op)) || op == OP_matmul || op == OP_concat;
	unsigned first = op == OP_where;

	for (unsigned i = 0; alike && i < arity; i++) {
		uint8_t dtype = i < first ? (uint8_t)DTYPE_bool : program_type(p, in[first])->dtype;

		if (program_type(p, in[i])->dtype != dtype)
			(void)program_add(p, OP_cast, 1, &in[i], &(struct op_attr){ .dtype = dtype }, &in[i]);
	}
}

/* The last operand is another one where this one's shape does not go. */
static inline void program_apply(struct program *p, unsigned op, unsigned arity, const unsigned *ago, struct op_attr *a) {
	uint32_t in[LIMIT_OPERANDS], node;

	for (unsigned look = 0; look < PROGRAM_LOOKS && look < p->values; look++) {
		struct op_attr fitted = *a;

		for (unsigned i = 0; i < arity; i++)
			in[i] = program_ago(p, ago[i] + (i && i + 1 == arity ? look : 0));
		if (arity)
			program_fit_attr(p, op, program_type(p, in[0]), &fitted);
		program_cast(p, op, arity, in);
		if (program_add(p, op, arity, in, &fitted, &node)) {
			p->maps = p->maps && program_is_map(op);
			program_keep(p, node);
			return;
		}
		if (arity < 2)
			return;
	}
}

static char program_buffer[PROGRAM_VALUES];

/* Of a new array, in rows, in columns, every second element, backwards, one for all: as views that clients keep are. */
static inline void program_leaf(struct program *p, const struct op_attr *a, uint8_t form) {
	struct tensor_type t = { .dtype = a->dtype, .rank = a->rank };
	struct view v;
	uint32_t node;

	memcpy(t.dims, a->dims, sizeof t.dims);
	program_fit(p, t.rank, t.dims);
	view_contiguous(&t, &v);
	if (t.rank && form % 8 == 1) {
		int64_t stride = 1;

		for (unsigned d = 0; d < t.rank; d++) {
			v.stride[d] = stride;
			stride *= t.dims[d] ? t.dims[d] : 1;
		}
	}
	for (unsigned d = 0; d < t.rank; d++)
		v.stride[d] *= form % 8 == 2 ? 2 : form % 8 == 3 ? -1 : form % 8 == 4 && d == form / 8 % t.rank ? 0 : 1;
	/* Element 0, ..., 0 lies where the others have room before it. */
	for (unsigned d = 0; d < t.rank; d++)
		v.offset -= v.stride[d] < 0 && t.dims[d] ? v.stride[d] * (t.dims[d] - 1) : 0;
	if (p->leaves < PROGRAM_VALUES && !graph_leaf(p->g, &program_buffer[p->leaves++], &t, &v, &node))
		program_keep(p, node);
}

static inline void program_operation(struct program *p, unsigned op) {
	const struct op_info *info = op_info(op);
	unsigned ago[LIMIT_OPERANDS] = { 0 }, arity, least;
	struct op_attr a = { 0 };

	if (!info)
		return;
	arity = info->arity;
	least = op_least(op);
	if (least != arity)
		arity = least + fuzz_byte(p->in) % (arity - least + 1);
	for (unsigned i = 0; i < arity; i++)
		ago[i] = fuzz_byte(p->in);
	program_attr(p, op, &a);
	if (op == OP_load) {
		program_leaf(p, &a, fuzz_byte(p->in));
		return;
	}
	if (op == OP_fill || op == OP_arange) {
		uint32_t node;

		if (op == OP_arange)
			a.rank = 1;
		program_fit(p, a.rank, a.dims);
		if (program_add(p, op, 0, NULL, &a, &node))
			program_keep(p, node);
		return;
	}
	if (p->values)
		program_apply(p, op, arity, ago, &a);
}

/* Fills g, which is empty. False where nothing comes of it. */
static inline bool program_read(struct program *p) {
	while (fuzz_left(p->in) && p->values < PROGRAM_VALUES) {
		unsigned op = fuzz_byte(p->in);

		if (op != PROGRAM_OUTPUT)
			program_operation(p, op);
		else if (p->values && !graph_output(p->g, program_ago(p, fuzz_byte(p->in)), p->outputs))
			p->outputs++;
	}
	if (!p->outputs && p->values && !graph_output(p->g, p->value[p->values - 1], 0))
		p->outputs++;
	return p->outputs > 0;
}
