/*
 * Shapes, broadcasting and views. Views are compared with an oracle that keeps, for every logical
 * element of a tensor, the place in the buffer where it lies, and knows nothing of strides.
 */
#include "protocol/op.h"
#include "protocol/shape.h"

#include <stdlib.h>
#include <string.h>

#include "tests/test_protocol.h"

static struct tensor_type shape(enum dtype dtype, unsigned rank, const int64_t *dims) {
	struct tensor_type t = { .dtype = (uint8_t)dtype, .rank = (uint8_t)rank };

	memcpy(t.dims, dims, (rank < LIMIT_RANK ? rank : LIMIT_RANK) * sizeof *dims);
	return t;
}

#define SHAPE(dtype, ...)                                                                                    \
	shape(DTYPE_##dtype, sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t),                           \
		(const int64_t[]){ __VA_ARGS__ })
#define SCALAR(type) ((struct tensor_type){ .dtype = DTYPE_##type })

START_TEST(shapes_read_as_people_write_them) {
	struct tensor_type a = SHAPE(f32, 4, 8), b = SCALAR(i64);
	struct tensor_type wide = SHAPE(
		bf16, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MIN);
	struct tensor_type wrong = { .dtype = 200, .rank = 99 };
	char text[SHAPE_TEXT];

	ck_assert_str_eq(shape_text(&a, text), "f32[4,8]");
	ck_assert_str_eq(shape_text(&b, text), "i64[]");
	ck_assert_str_eq(shape_text(&wide, text) + strlen(text) - 2, "8]");
	ck_assert_str_eq(shape_text(&wrong, text), "unknown[0,0,0,0,0,0,0,0,...]");
}
END_TEST

START_TEST(sizes_are_products_and_an_empty_axis_makes_zero) {
	struct tensor_type a = SHAPE(f16, 3, 5, 7), b = SHAPE(f64, 3, 0, 7), c = SCALAR(f64);

	ck_assert_int_eq(shape_elements(&a), 105);
	ck_assert_int_eq(shape_bytes(&a), 210);
	ck_assert_int_eq(shape_bytes(&b), 0);
	ck_assert_int_eq(shape_bytes(&c), 8);
}
END_TEST

START_TEST(rank_above_the_limit_is_refused) {
	struct tensor_type t = { .dtype = DTYPE_f32, .rank = LIMIT_RANK + 1 };
	struct fault f;

	ck_assert_int_eq(shape_check(&t, &f), FAULT_RANK);
	ck_assert_str_eq(f.text, "9 dimensions are more than the limit of 8");
}
END_TEST

START_TEST(negative_extents_and_unknown_types_are_refused) {
	struct tensor_type t = SHAPE(f32, 4, -1), u = { .dtype = DTYPE_COUNT };
	struct fault f;

	ck_assert_int_eq(shape_check(&t, &f), FAULT_SHAPE);
	ck_assert_str_eq(f.text, "the extent of axis 1 of f32[4,-1] is negative");
	ck_assert_int_eq(shape_check(&u, &f), FAULT_DTYPE);
}
END_TEST

START_TEST(sizes_that_overflow_are_refused) {
	struct tensor_type most = SHAPE(u8, LIMIT_ARRAY_BYTES), more = SHAPE(u8, LIMIT_ARRAY_BYTES + 1);
	struct tensor_type wide = SHAPE(f64, LIMIT_ARRAY_BYTES / 4),
			   wraps = SHAPE(f32, INT64_C(1) << 31, 1, INT64_C(1) << 31);
	struct tensor_type to_zero = SHAPE(f32, INT64_C(1) << 32, INT64_C(1) << 32);
	struct fault f;

	ck_assert_int_eq(shape_check(&most, &f), 0);
	ck_assert_int_eq(shape_check(&more, &f), FAULT_OVERFLOW);
	ck_assert_int_eq(shape_check(&wide, &f), FAULT_OVERFLOW);
	ck_assert_int_eq(shape_check(&wraps, &f), FAULT_OVERFLOW);
	ck_assert_int_eq(shape_check(&to_zero, &f), FAULT_OVERFLOW);
}
END_TEST

START_TEST(empty_axes_do_not_hide_an_overflow) {
	struct tensor_type hides = SHAPE(f32, 0, INT64_C(1) << 40, INT64_C(1) << 40);
	struct tensor_type fine = SHAPE(f32, 0, INT64_C(1) << 50);
	struct fault f;

	ck_assert_int_eq(shape_check(&hides, &f), FAULT_OVERFLOW);
	ck_assert_int_eq(shape_check(&fine, &f), 0);
}
END_TEST

START_TEST(shapes_are_equal_in_type_rank_and_extents_alone) {
	struct tensor_type a = SHAPE(f32, 2, 3), b = a, c = SHAPE(i32, 2, 3), d = SHAPE(f32, 2, 3, 1),
			   e = SHAPE(f32, 3, 2);

	b.dims[5] = 77;
	ck_assert(shape_equal(&a, &b));
	ck_assert(!shape_equal(&a, &c));
	ck_assert(!shape_equal(&a, &d));
	ck_assert(!shape_equal(&a, &e));
}
END_TEST

/* The shape with number n: every rank up to 3 with extents 0 to 3. */
static bool numbered_shape(unsigned n, struct tensor_type *t) {
	t->dtype = DTYPE_f32;
	t->rank = (uint8_t)(n % 4);
	n /= 4;
	for (unsigned d = 0; d < t->rank; d++, n /= 4)
		t->dims[d] = n % 4;
	return n == 0;
}

/* NumPy's rule, axis by axis from the right; -1 where the extents contradict each other. */
static int64_t extent_from_right(const struct tensor_type *t, unsigned k) {
	return k < t->rank ? t->dims[t->rank - 1 - k] : 1;
}

static int64_t broadcast_extent(int64_t m, int64_t n) {
	if (m == n || n == 1)
		return m;
	return m == 1 ? n : -1;
}

START_TEST(broadcasting_agrees_with_the_rule_on_all_small_shapes) {
	struct tensor_type a, b;

	for (unsigned i = 0; i < 256; i++) {
		for (unsigned j = 0; j < 256; j++) {
			struct tensor_type both;
			bool possible = true;
			struct fault f;

			if (!numbered_shape(i, &a) || !numbered_shape(j, &b))
				continue;
			both = a;
			for (unsigned k = 0; k < 3; k++)
				possible &= broadcast_extent(
						    extent_from_right(&a, k), extent_from_right(&b, k)) >= 0;
			must(shape_broadcast(&both, &b, &f) == (possible ? 0 : FAULT_SHAPE));
			must(possible || shape_equal(&both, &a));
			if (!possible)
				continue;
			must(both.rank == (a.rank > b.rank ? a.rank : b.rank));
			for (unsigned k = 0; k < both.rank; k++)
				must(extent_from_right(&both, k) ==
					broadcast_extent(extent_from_right(&a, k), extent_from_right(&b, k)));
		}
	}
}
END_TEST

START_TEST(a_refused_broadcast_names_both_shapes_and_the_axis) {
	struct tensor_type a = SHAPE(f32, 3, 4), b = SHAPE(f32, 5);
	struct fault f;

	ck_assert_int_eq(shape_broadcast(&a, &b, &f), FAULT_SHAPE);
	ck_assert_str_eq(f.text, "shapes f32[3,4] and f32[5] do not broadcast (axis 1: 4 against 5)");
}
END_TEST

/* --- views ------------------------------------------------------------------------------- */

enum {
	MOST_ELEMENTS = 4096
};

/* A tensor and, in row-major order, the place of each of its elements in the buffer. */
struct placed {
	struct tensor_type type;
	int64_t *place;
};

static void first_index(int64_t index[LIMIT_RANK]) {
	memset(index, 0, LIMIT_RANK * sizeof *index);
}

static void next_index(const struct tensor_type *t, int64_t index[LIMIT_RANK]) {
	for (unsigned d = t->rank; d-- > 0;) {
		if (++index[d] < t->dims[d])
			return;
		index[d] = 0;
	}
}

static int64_t place_of(const struct placed *p, const int64_t index[LIMIT_RANK]) {
	int64_t n = 0;

	for (unsigned d = 0; d < p->type.rank; d++)
		n = n * p->type.dims[d] + index[d];
	return p->place[n];
}

/* Where element `index` of the result comes from in the operand. */
static void source_index(unsigned op, const struct op_attr *a, const struct tensor_type *in,
	const struct tensor_type *out, const int64_t *index, int64_t *source) {
	for (unsigned d = 0; d < in->rank; d++) {
		int64_t aligned = index[d + out->rank - in->rank];

		if (op == OP_permute)
			source[a->perm[d]] = index[d];
		else if (op == OP_broadcast)
			source[d] = in->dims[d] == 1 ? 0 : aligned;
		else if (op == OP_slice)
			source[d] = a->start[d] + index[d] * a->step[d];
		else if (op == OP_windows)
			source[d] = d == a->axis ? index[d] * a->window.step + index[in->rank] * a->window.dilation
						 : index[d];
		else
			source[d] = a->axes >> d & 1 ? in->dims[d] - 1 - index[d] : index[d];
	}
}

/* What op makes of p; the caller frees p->place. */
static struct placed oracle_apply(
	unsigned op, const struct op_attr *a, const struct placed *p, const struct tensor_type *out) {
	int64_t n = shape_elements(out), index[LIMIT_RANK], source[LIMIT_RANK] = { 0 };
	struct placed q = { .type = *out, .place = malloc((size_t)(n + 1) * sizeof *q.place) };

	ck_assert_ptr_nonnull(q.place);
	first_index(index);
	for (int64_t i = 0; i < n; i++, next_index(out, index)) {
		if (op == OP_reshape) {
			q.place[i] = p->place[i];
			continue;
		}
		source_index(op, a, &p->type, out, index, source);
		q.place[i] = place_of(p, source);
	}
	return q;
}

static bool view_agrees(const struct placed *p, const struct view *v) {
	int64_t n = shape_elements(&p->type), index[LIMIT_RANK];

	first_index(index);
	for (int64_t i = 0; i < n; i++, next_index(&p->type, index)) {
		int64_t at = v->offset;

		for (unsigned d = 0; d < p->type.rank; d++)
			at += index[d] * v->stride[d];
		if (at != p->place[i])
			return false;
	}
	return true;
}

/* Is there any view at all that shows these places? Its strides follow from the neighbours of element 0. */
static bool some_view_exists(const struct placed *p) {
	struct view v = { 0 };

	if (!shape_elements(&p->type))
		return true;
	v.offset = p->place[0];
	for (unsigned d = 0; d < p->type.rank; d++) {
		int64_t index[LIMIT_RANK] = { 0 };

		index[d] = p->type.dims[d] > 1;
		v.stride[d] = place_of(p, index) - v.offset;
	}
	return view_agrees(p, &v);
}

static struct tensor_type random_type(uint64_t *state) {
	struct tensor_type t = { .dtype = DTYPE_f32, .rank = (uint8_t)random_below(state, 6) };

	for (unsigned d = 0; d < t.rank; d++)
		t.dims[d] = random_below(state, 30) ? 1 + random_below(state, 4) : 0;
	return t;
}

/* Cuts n into random factors; extents of 1 are strewn in. */
static void random_reshape(uint64_t *state, int64_t n, struct op_attr *a) {
	a->rank = (uint8_t)random_below(state, 5);
	for (unsigned d = 0; d < a->rank; d++) {
		int64_t factor = 1 + random_below(state, 8);

		if (!n)
			a->dims[d] = random_below(state, 3);
		else if (n % factor == 0)
			a->dims[d] = factor;
		else
			a->dims[d] = 1;
		n = n ? n / a->dims[d] : 0;
	}
	a->dims[a->rank++] = n;
}

static void random_permutation(uint64_t *state, unsigned rank, struct op_attr *a) {
	a->rank = (uint8_t)rank;
	for (unsigned d = 0; d < rank; d++) {
		unsigned other = random_below(state, d + 1);

		a->perm[d] = a->perm[other];
		a->perm[other] = (uint8_t)d;
	}
}

static void random_broadcast(uint64_t *state, const struct tensor_type *in, struct op_attr *a) {
	unsigned added = random_below(state, LIMIT_RANK - in->rank < 2 ? LIMIT_RANK - in->rank + 1U : 3);

	a->rank = (uint8_t)(in->rank + added);
	for (unsigned d = 0; d < a->rank; d++) {
		int64_t extent = d < added ? 1 : in->dims[d - added];

		a->dims[d] = extent == 1 ? random_below(state, 4) + (random_below(state, 8) != 0) : extent;
	}
}

static void random_slice(uint64_t *state, const struct tensor_type *in, struct op_attr *a) {
	a->rank = in->rank;
	for (unsigned d = 0; d < in->rank; d++) {
		int64_t n = in->dims[d], room;

		a->step[d] = 1 + random_below(state, 3);
		if (n == 0 || random_below(state, 12) == 0) {
			a->start[d] = random_extreme(state);
			a->step[d] = INT64_MIN;
			continue;
		}
		a->start[d] = random_below(state, (unsigned)n);
		if (random_below(state, 3) == 0)
			a->step[d] = -a->step[d];
		room = a->step[d] > 0 ? n - 1 - a->start[d] : a->start[d];
		a->dims[d] = 1 + random_below(state, (unsigned)(room / llabs(a->step[d])) + 1);
		if (a->dims[d] == 1)
			a->step[d] = random_extreme(state) | 1;
	}
}

/* False where the operand has no axis of elements, or no room for one axis more. */
static bool random_windows(uint64_t *state, const struct tensor_type *in, struct op_attr *a) {
	int64_t n;

	if (!in->rank || in->rank == LIMIT_RANK)
		return false;
	a->axis = (uint8_t)random_below(state, in->rank);
	n = in->dims[a->axis];
	if (!n)
		return false;
	a->window.size = 1 + random_below(state, (unsigned)n);
	a->window.dilation = a->window.size > 1
				     ? 1 + random_below(state, (unsigned)((n - 1) / (a->window.size - 1)))
				     : 1 + (random_extreme(state) & (INT64_MAX >> 1));
	a->window.step = 1 + random_below(state, 4);
	if (random_below(state, 9) == 0)
		a->window.step = INT64_MAX - (n <= a->window.size ? 0 : 1);
	return true;
}

static unsigned random_view_op(uint64_t *state, const struct tensor_type *in, struct op_attr *a) {
	static const unsigned ops[] = { OP_reshape, OP_permute, OP_broadcast, OP_slice, OP_flip,
		OP_windows };
	unsigned op = ops[random_below(state, 6)];

	memset(a, 0, sizeof *a);
	if (op == OP_windows && random_windows(state, in, a))
		return op;
	op = op == OP_windows ? OP_flip : op;
	if (op == OP_reshape)
		random_reshape(state, shape_elements(in), a);
	else if (op == OP_permute)
		random_permutation(state, in->rank, a);
	else if (op == OP_broadcast)
		random_broadcast(state, in, a);
	else if (op == OP_slice)
		random_slice(state, in, a);
	else
		a->axes = (uint16_t)random_below(state, 1U << in->rank);
	return op;
}

/* Applies one random view operation to both; false where the chain ends. */
static bool step(
	uint64_t *state, struct placed *p, struct view *v, unsigned seen[OP_COUNT], unsigned *refusedp) {
	const struct tensor_type *operand = &p->type;
	struct tensor_type out;
	struct placed q;
	struct op_attr a;
	struct view w;
	struct fault f;
	unsigned op = random_view_op(state, &p->type, &a);
	bool fits;

	if (op_infer(op, 1, &operand, &a, &out, &f))
		ck_abort_msg("%s", f.text);
	if (shape_elements(&out) > MOST_ELEMENTS)
		return false;
	q = oracle_apply(op, &a, p, &out);
	fits = view_apply(op, &a, &p->type, v, &out, &w);
	must(fits || op == OP_reshape);
	must(fits == some_view_exists(&q));
	must(!fits || view_agrees(&q, &w));
	seen[op]++;
	*refusedp += !fits;
	free(p->place);
	*p = q;
	*v = w;
	return fits;
}

START_TEST(views_of_views_show_the_elements_an_index_oracle_finds) {
	static unsigned seen[OP_COUNT];
	unsigned refused = 0;
	uint64_t state = 1;

	for (int round = 0; round < 20000; round++) {
		struct placed p = { .type = random_type(&state) };
		int64_t n = shape_elements(&p.type);
		struct view v;

		p.place = malloc((size_t)(n + 1) * sizeof *p.place);
		ck_assert_ptr_nonnull(p.place);
		for (int64_t i = 0; i < n; i++)
			p.place[i] = i + 1000;
		view_contiguous(&p.type, &v);
		v.offset += 1000;
		must(view_is_contiguous(&p.type, &v));
		for (int depth = 0; depth < 6; depth++)
			if (!step(&state, &p, &v, seen, &refused))
				break;
		free(p.place);
	}
	ck_assert_uint_gt(seen[OP_reshape], 1000);
	ck_assert_uint_gt(seen[OP_permute], 1000);
	ck_assert_uint_gt(seen[OP_broadcast], 1000);
	ck_assert_uint_gt(seen[OP_slice], 1000);
	ck_assert_uint_gt(seen[OP_flip], 1000);
	ck_assert_uint_gt(seen[OP_windows], 1000);
	ck_assert_uint_gt(refused, 1000);
}
END_TEST

START_TEST(contiguous_means_row_major_whatever_axes_of_one_say) {
	struct tensor_type t = SHAPE(f32, 2, 1, 3), empty = SHAPE(f32, 2, 0, 3);
	struct view v = { .offset = 5, .stride = { 3, 99, 1 } };

	ck_assert(view_is_contiguous(&t, &v));
	v.stride[0] = 4;
	ck_assert(!view_is_contiguous(&t, &v));
	ck_assert(view_is_contiguous(&empty, &v));
	v = (struct view){ .stride = { 3, 3, -1 } };
	ck_assert(!view_is_contiguous(&t, &v));
}
END_TEST

START_TEST(operations_that_are_no_views_have_no_view) {
	struct tensor_type t = SHAPE(f32, 4);
	struct op_attr a = { 0 };
	struct view v, w;

	view_contiguous(&t, &v);
	ck_assert(!view_apply(OP_add, &a, &t, &v, &t, &w));
	ck_assert(!view_apply(OP_copy, &a, &t, &v, &t, &w));
	ck_assert(!view_apply(OP_COUNT, &a, &t, &v, &t, &w));
}
END_TEST

RUN_TESTS("protocol_shape", shapes_read_as_people_write_them, sizes_are_products_and_an_empty_axis_makes_zero,
	rank_above_the_limit_is_refused, negative_extents_and_unknown_types_are_refused,
	sizes_that_overflow_are_refused, empty_axes_do_not_hide_an_overflow,
	shapes_are_equal_in_type_rank_and_extents_alone,
	broadcasting_agrees_with_the_rule_on_all_small_shapes,
	a_refused_broadcast_names_both_shapes_and_the_axis,
	views_of_views_show_the_elements_an_index_oracle_finds,
	contiguous_means_row_major_whatever_axes_of_one_say, operations_that_are_no_views_have_no_view)
