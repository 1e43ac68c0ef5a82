/*
 * Kernels of every form on a real device, against a plain reading of kernel.h in C.
 *
 * A kernel and its tasks are built by hand or drawn from a seed, then run by `reference` below, one
 * element at a time, and by the emitted programs: CPU strategy with 16 lanes and with one, GPU strategy. All
 * must leave the same bytes in the pool, also where nothing was to be written. NaNs count as equal.
 * Loops take the rounds of a slice (tests/slice.h), and their kernels one of the three forms: of ten slices in a row each has the same form, and they take
 * every round.
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/device/state.h"
#include "daemon/emit/bytecode.h"
#include "daemon/emit/emit.h"
#include "daemon/emit/instructions.h"
#include "tests/slice.h"
#include "tests/skip.h"
#include "tests/suite.h"

enum {
	TASKS = 8,
	POOL_BYTES = 8 << 20,
	RECORD_WORDS = 2048,
	GUARD = 256,
	OWN_WORDS = 112,
	GATHER_EXTENT = 70, /* half of what an i8 says is beyond */
	RING_OFFSET = 5, /* words of the record buffer before the first record */
	HELPERS = 3,
};

static struct variant {
	const char *name;
	struct traits traits;
} variants[] = {
	{ "vectors", { .strategy = STRATEGY_CPU,
			     .width = 16,
			     .f64 = true,
			     .local_size = 64,
			     .units = 2,
			     .pools = 1 } },
	{ "lanes", { .strategy = STRATEGY_CPU,
			   .width = 1,
			   .f64 = true,
			   .local_size = 64,
			   .units = 2,
			   .pools = 1 } },
	{ "groups", { .strategy = STRATEGY_GPU,
			    .width = 1,
			    .f64 = true,
			    .local_size = 128,
			    .units = 2,
			    .pools = 1,
			    .own_words = OWN_WORDS } },
};
enum {
	VARIANTS = sizeof variants / sizeof *variants,
	ROUNDS_OF = SLICES / VARIANTS
};

static cl_device_id device;
static cl_context context;
static cl_command_queue queue;
static bool device_is_gpu;

/* Work-items of many lanes are for processors; a GPU's compiler takes minutes over them, for nobody. */
static bool suits(const struct traits *t) {
	return t->strategy == STRATEGY_GPU || !device_is_gpu;
}

/* A GPU has one form, which every slice takes. */
static bool is_taken(unsigned variant) {
	return suits(&variants[variant].traits) && (device_is_gpu || slice_form(variant, VARIANTS));
}

static void must(cl_int error) {
	ck_assert_int_eq(error, CL_SUCCESS);
}

static void open_device(void) {
	cl_platform_id platform;
	cl_device_fp_config floats;
	cl_device_type type;
	char name[256];
	cl_int error;

	must(clGetPlatformIDs(1, &platform, NULL));
	must(clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof name, name, NULL));
	must(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
	must(clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof type, &type, NULL));
	device_is_gpu = (type & CL_DEVICE_TYPE_GPU) != 0;
	must(clGetDeviceInfo(device, CL_DEVICE_SINGLE_FP_CONFIG, sizeof floats, &floats, NULL));
	for (size_t i = 0; i < VARIANTS; i++) {
		variants[i].traits.options = quirks_of(name, "")->options;
		variants[i].traits.claims = quirks_of(name, "")->near && variants[i].traits.strategy == STRATEGY_CPU;
		variants[i].traits.closing_barrier = quirks_of(name, "")->flags & QUIRK_CLOSING_BARRIER;
		variants[i].traits.exact_division = (floats & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
	}
	context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
	must(error);
	queue = clCreateCommandQueue(context, device, 0, &error);
	must(error);
}

static void close_device(void) {
	clReleaseCommandQueue(queue);
	clReleaseContext(context);
}

/* ---- random numbers: the same on every machine ---- */

static uint64_t seed;

static uint64_t draw(void) {
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return seed >> 33 ^ seed >> 12;
}

static unsigned pick(unsigned n) {
	return (unsigned)(draw() % n);
}

/* ---- one number of any type ---- */

struct number {
	uint8_t dtype;
	union {
		float f;
		double d;
		int64_t i; /* of all integers and bool; u64 as its bits */
	};
};

static bool is_real(unsigned dtype) {
	return dtype_info(dtype)->kind == DTYPE_KIND_REAL;
}

static int64_t wrap(unsigned dtype, uint64_t bits) {
	unsigned shift = 64 - 8u * dtype_info(dtype)->bytes;

	if (dtype_info(dtype)->kind == DTYPE_KIND_SINT)
		return (int64_t)(bits << shift) >> shift;
	return (int64_t)(bits << shift >> shift);
}

static float round_to(unsigned dtype, float f) {
	if (dtype == DTYPE_f16)
		return dtype_f16_to_float(dtype_f16_from_float(f));
	return dtype == DTYPE_bf16 ? dtype_bf16_to_float(dtype_bf16_from_float(f)) : f;
}

/* The float toward zero, its last bit set where something was cut off: rounding that again is rounding once.
 */
static float to_odd(double value) {
	float f = (float)value;
	uint32_t bits;

	if (isnan(value) || (double)f == value)
		return f;
	if (fabs((double)f) > fabs(value))
		f = nextafterf(f, 0);
	memcpy(&bits, &f, 4);
	bits |= 1;
	memcpy(&f, &bits, 4);
	return f;
}

static struct number from_double(unsigned dtype, double value) {
	struct number n = { .dtype = (uint8_t)dtype };

	if (dtype == DTYPE_f64)
		n.d = value;
	else if (dtype == DTYPE_f16 || dtype == DTYPE_bf16)
		n.f = round_to(dtype, to_odd(value));
	else if (is_real(dtype))
		n.f = round_to(dtype, (float)value);
	else
		n.i = (int64_t)dtype_scalar_from_double(dtype, value);
	return n;
}

static double to_double(struct number n) {
	if (n.dtype == DTYPE_f64)
		return n.d;
	if (is_real(n.dtype))
		return n.f;
	return n.dtype == DTYPE_u64 ? (double)(uint64_t)n.i : (double)n.i;
}

static struct number load(unsigned dtype, const uint8_t *p) {
	struct number n = { .dtype = (uint8_t)dtype };
	uint64_t bits = 0;

	memcpy(&bits, p, dtype_info(dtype)->bytes);
	if (dtype == DTYPE_f64)
		memcpy(&n.d, p, 8);
	else if (dtype == DTYPE_f32)
		memcpy(&n.f, p, 4);
	else if (dtype == DTYPE_f16)
		n.f = dtype_f16_to_float((uint16_t)bits);
	else if (dtype == DTYPE_bf16)
		n.f = dtype_bf16_to_float((uint16_t)bits);
	else
		n.i = dtype == DTYPE_bool ? bits != 0 : wrap(dtype, bits);
	return n;
}

static void store(unsigned dtype, uint8_t *p, struct number n) {
	uint16_t half;

	if (dtype == DTYPE_f16 || dtype == DTYPE_bf16) {
		half = dtype == DTYPE_f16 ? dtype_f16_from_float(n.f) : dtype_bf16_from_float(n.f);
		memcpy(p, &half, 2);
	} else {
		memcpy(p, &n.d, dtype_info(dtype)->bytes);
	}
}

static int compare(struct number a, struct number b) {
	if (is_real(a.dtype))
		return to_double(a) < to_double(b) ? -1 : to_double(a) > to_double(b);
	if (a.dtype == DTYPE_u64)
		return (uint64_t)a.i < (uint64_t)b.i ? -1 : a.i != b.i;
	return a.i < b.i ? -1 : a.i > b.i;
}

static bool is_nan(struct number n) {
	return is_real(n.dtype) && isnan(to_double(n));
}

static bool negative(struct number n) {
	return is_real(n.dtype) && signbit(to_double(n));
}

/* NaN wins, -0 is below +0. */
static struct number extreme(struct number a, struct number b, int sign) {
	if (is_nan(a) || is_nan(b))
		return is_nan(a) ? a : b;
	if (compare(a, b) == 0)
		return (negative(a) ? -1 : 1) * sign > 0 ? a : b;
	return compare(a, b) * sign > 0 ? a : b;
}

static struct number arithmetic(unsigned op, struct number a, struct number b) {
	struct number y = { .dtype = a.dtype };

	if (a.dtype == DTYPE_f64)
		y.d = op == OP_add ? a.d + b.d : op == OP_sub ? a.d - b.d : a.d * b.d;
	else if (is_real(a.dtype))
		y.f = round_to(a.dtype, op == OP_add ? a.f + b.f : op == OP_sub ? a.f - b.f : a.f * b.f);
	else if (op == OP_mul)
		y.i = wrap(a.dtype, (uint64_t)a.i * (uint64_t)b.i);
	else
		y.i = wrap(a.dtype,
			op == OP_add ? (uint64_t)a.i + (uint64_t)b.i : (uint64_t)a.i - (uint64_t)b.i);
	return y;
}

static struct number quotient(struct number a, struct number b) {
	struct number y = { .dtype = a.dtype };

	if (a.dtype == DTYPE_f64)
		y.d = a.d / b.d;
	else
		y.f = round_to(a.dtype, a.f / b.f);
	return y;
}

/* As to_odd: cuts off what a double cannot hold of a large integer, and marks it. */
static double integer_to_odd(struct number a) {
	uint64_t magnitude = a.dtype != DTYPE_u64 && a.i < 0 ? 0 - (uint64_t)a.i : (uint64_t)a.i;
	double value;

	for (unsigned bit = 0; magnitude >> 53 && bit < 11; bit++)
		if (magnitude >> bit & 1 && magnitude >> (bit + 53))
			magnitude = (magnitude ^ (1ull << bit)) | 1ull << (bit + 1);
	value = (double)magnitude;
	return a.dtype != DTYPE_u64 && a.i < 0 ? -value : value;
}

static struct number cast(unsigned dtype, struct number a) {
	struct number y = { .dtype = (uint8_t)dtype };

	if (is_real(a.dtype) && dtype == DTYPE_bool)
		y.i = to_double(a) != 0;
	else if (is_real(a.dtype))
		return from_double(dtype, to_double(a));
	else if (dtype == DTYPE_f32)
		y.f = a.dtype == DTYPE_u64 ? (float)(uint64_t)a.i : (float)a.i;
	else if (is_real(dtype))
		return from_double(dtype, dtype == DTYPE_f64 ? to_double(a) : integer_to_odd(a));
	else
		y.i = dtype == DTYPE_bool ? a.i != 0 : wrap(dtype, (uint64_t)a.i);
	return y;
}

static struct number truth(bool value) {
	return (struct number){ .dtype = DTYPE_bool, .i = value };
}

static struct number apply(unsigned op, unsigned dtype, const struct number *a) {
	switch (op) {
	case OP_add:
	case OP_sub:
	case OP_mul:
		return arithmetic(op, a[0], a[1]);
	case OP_square:
		return arithmetic(OP_mul, a[0], a[0]);
	case OP_div:
		return quotient(a[0], a[1]);
	case OP_maximum:
		return extreme(a[0], a[1], 1);
	case OP_minimum:
		return extreme(a[0], a[1], -1);
	case OP_logical_or:
		return truth(a[0].i || a[1].i);
	case OP_logical_and:
		return truth(a[0].i && a[1].i);
	case OP_lt:
		return truth(!is_nan(a[0]) && !is_nan(a[1]) && compare(a[0], a[1]) < 0);
	case OP_where:
		return a[0].i ? a[1] : a[2];
	case OP_cast:
		return cast(dtype, a[0]);
	default:
		ck_abort_msg("the reference lacks operation %u", op);
	}
}

/* ---- the reference ---- */

struct run {
	const struct kernel *k;
	const uint64_t *record;
	uint8_t *pool;
	int64_t index[KERNEL_RANK];
	struct number root;
	struct number reduced[KERNEL_VALUES]; /* ROWS */
	struct number group[KERNEL_GROUP], carry; /* SCAN */
};

static int64_t position(const struct run *r, unsigned operand) {
	const uint64_t *word = r->record + kernel_word_operand(r->k, operand);
	int64_t sum = 0;

	for (unsigned d = 0; d < r->k->rank; d++)
		sum += r->index[d] * (int64_t)word[1 + d];
	return sum;
}

static uint8_t *address(const struct run *r, unsigned operand) {
	return r->pool + r->record[kernel_word_operand(r->k, operand)] +
	       position(r, operand) * dtype_info(r->k->operand[operand].dtype)->bytes;
}

static struct number evaluate(const struct run *r, unsigned v);

/* A load at the index's place along an axis, or 0. */
static struct number gather(const struct run *r, const struct kernel_value *value) {
	int64_t at = evaluate(r, value->arg[0]).i, extent = evaluate(r, value->arg[1]).i;
	int64_t step = evaluate(r, value->arg[2]).i * dtype_info(value->dtype)->bytes;

	at += at < 0 ? extent : 0;
	if (at < 0 || at >= extent)
		return from_double(value->dtype, 0);
	return load(value->dtype, address(r, value->index) + at * step);
}

static struct number evaluate(const struct run *r, unsigned v) {
	const struct kernel_value *value = &r->k->value[v];
	struct number arg[KERNEL_ARGS], y = { .dtype = value->dtype };
	uint64_t word;

	switch (value->kind) {
	case KERNEL_LOAD:
		return load(value->dtype, address(r, value->index));
	case KERNEL_GATHER:
		return gather(r, value);
	case KERNEL_SCALAR:
		word = r->record[kernel_word_scalar(r->k, value->index)];
		memcpy(&y.d, &word, 8);
		return y;
	case KERNEL_IOTA:
		y.i = (int64_t)r->record[kernel_word_operand(r->k, value->index)] + position(r, value->index);
		return y;
	case KERNEL_ROOT_VALUE:
		return r->root;
	case KERNEL_REDUCED:
		return r->reduced[v];
	default:
		for (unsigned i = 0; i < op_info(value->op)->arity; i++)
			arg[i] = evaluate(r, value->arg[i]);
		return apply(value->op, value->dtype, arg);
	}
}

/* The outputs of one space; all are of space 0 but for those of ROWS. */
static void write_outputs(struct run *r, unsigned space) {
	for (unsigned o = 0; o < r->k->operands; o++)
		if (r->k->operand[o].output && r->k->value[r->k->operand[o].value].space == space)
			store(r->k->operand[o].dtype, address(r, o), evaluate(r, r->k->operand[o].value));
}

static struct number neutral(unsigned op, unsigned dtype, uint64_t extent) {
	static const int64_t least[] = { [DTYPE_i8] = INT8_MIN,
		[DTYPE_i16] = INT16_MIN,
		[DTYPE_i32] = INT32_MIN,
		[DTYPE_i64] = INT64_MIN,
		[DTYPE_u64] = 0 };
	struct number n = { .dtype = (uint8_t)dtype };

	if (op == OP_reduce_prod || op == OP_reduce_all)
		return from_double(dtype, 1);
	if (is_real(dtype))
		return from_double(dtype, op == OP_reduce_sum	? (extent ? -0.0 : 0.0)
					  : op == OP_reduce_max ? -INFINITY
								: INFINITY);
	if (op == OP_reduce_max)
		n.i = least[dtype];
	if (op == OP_reduce_min)
		n.i = wrap(dtype, ~(uint64_t)least[dtype]);
	return n;
}

static struct number combine(unsigned op, unsigned dtype, struct number a, struct number b) {
	struct number arg[] = { a, b };

	return apply((unsigned)op_find(op_info(op)->expr), dtype, arg);
}

/* The columns of a block, halved until one is left. */
static struct number halve(unsigned op, unsigned dtype, struct number *column) {
	for (unsigned h = KERNEL_COLUMNS / 2; h; h /= 2)
		for (unsigned c = 0; c < h; c++)
			column[c] = combine(op, dtype, column[c], column[c + h]);
	return column[0];
}

/* Sets the indices of the reduced dims to those of element j. */
static void go_to(struct run *r, int64_t j) {
	for (unsigned d = r->k->rank; d-- > r->k->kept;) {
		int64_t extent = (int64_t)r->record[kernel_word_dim(d)];

		r->index[d] = j % extent;
		j /= extent;
	}
}

static void reduce_at(struct run *r) {
	const struct kernel *k = r->k;
	int64_t extent = (int64_t)r->record[KERNEL_WORD_EXTENT], start = 0, stop = extent;
	struct number column[KERNEL_COLUMNS];

	if (k->block_dim < k->kept) {
		start = r->index[k->block_dim] * KERNEL_BLOCK;
		stop = start + KERNEL_BLOCK < extent ? start + KERNEL_BLOCK : extent;
	}
	for (unsigned c = 0; c < KERNEL_COLUMNS; c++)
		column[c] = neutral(k->op, k->accumulator, (uint64_t)extent);
	for (int64_t j = start; j < stop; j++) {
		struct number *c = &column[(j - start) % KERNEL_COLUMNS];

		go_to(r, j);
		*c = combine(k->op, k->accumulator, *c, evaluate(r, k->reduced_value));
	}
	memset(r->index + k->kept, 0, (k->rank - k->kept) * sizeof *r->index);
	r->root = halve(k->op, k->accumulator, column);
}

/* Reduces n numbers, or the values `arg` of a row where there are none, to one a block, in place. */
static int64_t reduce_blocks(struct run *r, const struct kernel_value *value, struct number *numbers, int64_t n,
	bool row) {
	int64_t extent = (int64_t)r->record[KERNEL_WORD_EXTENT], blocks = (n + KERNEL_BLOCK - 1) / KERNEL_BLOCK;

	for (int64_t b = 0; b < (blocks ? blocks : 1); b++) {
		struct number column[KERNEL_COLUMNS];

		for (unsigned c = 0; c < KERNEL_COLUMNS; c++)
			column[c] = neutral(value->op, value->dtype, (uint64_t)extent);
		for (int64_t j = b * KERNEL_BLOCK; j < n && j < (b + 1) * KERNEL_BLOCK; j++) {
			struct number *c = &column[j % KERNEL_COLUMNS];

			if (row)
				go_to(r, j);
			*c = combine(value->op, value->dtype, *c, row ? evaluate(r, value->arg[0]) : numbers[j]);
		}
		numbers[b] = halve(value->op, value->dtype, column);
	}
	return blocks;
}

static void write_row(struct run *r) {
	static struct number numbers[KERNEL_BLOCK];
	int64_t extent = (int64_t)r->record[KERNEL_WORD_EXTENT];
	const struct kernel *k = r->k;

	for (unsigned v = 0; v < k->values; v++) {
		if (k->value[v].kind != KERNEL_REDUCED)
			continue;
		for (int64_t n = reduce_blocks(r, &k->value[v], numbers, extent, true); n > 1;)
			n = reduce_blocks(r, &k->value[v], numbers, n, false);
		r->reduced[v] = numbers[0];
	}
	for (int64_t j = 0; j < extent; j++) {
		go_to(r, j);
		write_outputs(r, KERNEL_SPACE_ROW);
	}
	memset(r->index + k->kept, 0, (k->rank - k->kept) * sizeof *r->index);
	write_outputs(r, KERNEL_SPACE_KEPT);
}

/* The values of the group that begins at an element, and what the rule makes of them. */
static void scan_group(struct run *r, int64_t from, int64_t stop) {
	unsigned scanned = r->k->rank - 1u;
	int64_t here = r->index[scanned], n = stop - from < KERNEL_GROUP ? stop - from : KERNEL_GROUP;

	for (int64_t i = 0; i < n; i++) {
		r->index[scanned] = from + i;
		r->group[i] = evaluate(r, r->k->reduced_value);
	}
	for (int64_t h = 1; h < KERNEL_GROUP; h *= 2)
		for (int64_t i = n - 1; i >= h; i--)
			r->group[i] = combine(r->k->op, r->k->accumulator, r->group[i - h], r->group[i]);
	r->index[scanned] = here;
}

/* Visits the elements of a row in order; those of other blocks than this one's are none of this unit's. */
static bool scan_at(struct run *r) {
	const struct kernel *k = r->k;
	int64_t at = r->index[k->rank - 1], block = k->block_dim < k->kept ? r->index[k->block_dim] : 0;
	int64_t start = block * KERNEL_BLOCK, stop = (int64_t)r->record[KERNEL_WORD_EXTENT], i = (at - start) % KERNEL_GROUP;

	if (at / KERNEL_BLOCK != block)
		return k->block_dim >= k->kept;
	stop = stop < start + KERNEL_BLOCK ? stop : start + KERNEL_BLOCK;
	if (i == 0)
		scan_group(r, at, stop);
	r->root = at - i > start ? combine(k->op, k->accumulator, r->carry, r->group[i]) : r->group[i];
	if (i == KERNEL_GROUP - 1)
		r->carry = r->root;
	if (block > 0) {
		struct number before;

		r->index[k->block_dim]--;
		before = load(k->accumulator, address(r, k->carry));
		r->index[k->block_dim]++;
		r->root = combine(k->op, k->accumulator, before, r->root);
	}
	return true;
}

static void multiply_at(struct run *r) {
	const struct kernel *k = r->k;
	struct number sum = from_double(k->accumulator, 0);

	for (int64_t i = 0; i < (int64_t)r->record[KERNEL_WORD_EXTENT]; i++) {
		struct number a, b;

		r->index[k->rank - 1] = i;
		a = cast(k->accumulator, load(k->operand[0].dtype, address(r, 0)));
		b = cast(k->accumulator, load(k->operand[1].dtype, address(r, 1)));
		if (k->accumulator == DTYPE_f64)
			sum.d = fma(a.d, b.d, sum.d);
		else if (is_real(k->accumulator))
			sum.f = fmaf(a.f, b.f, sum.f);
		else
			sum = arithmetic(OP_add, arithmetic(OP_mul, a, b), sum);
	}
	r->index[k->rank - 1] = 0;
	r->root = sum;
}

/* Runs one task on the pool. */
static void reference(const struct kernel *k, const uint64_t *record, uint8_t *pool) {
	struct run r = { .k = k, .record = record, .pool = pool };
	unsigned outer = k->root == KERNEL_MAP || k->root == KERNEL_SCAN ? k->rank
			 : k->root == KERNEL_MATMUL			 ? k->rank - 1u
									 : k->kept;

	for (unsigned d = 0; d < outer; d++)
		if (!record[kernel_word_dim(d)])
			return;
	for (;;) {
		unsigned d = outer;

		if (k->root == KERNEL_REDUCE)
			reduce_at(&r);
		if (k->root == KERNEL_MATMUL)
			multiply_at(&r);
		if (k->root == KERNEL_ROWS)
			write_row(&r);
		else if (k->root != KERNEL_SCAN || scan_at(&r))
			write_outputs(&r, 0);
		while (d > 0 && ++r.index[d - 1] == (int64_t)record[kernel_word_dim(d - 1)])
			r.index[--d] = 0;
		if (d == 0)
			return;
	}
}

/* ---- building kernels ---- */

static uint16_t add_value(struct kernel *k, struct kernel_value value) {
	k->value[k->values] = value;
	return k->values++;
}

static uint16_t add_operand(struct kernel *k, unsigned dtype, unsigned access) {
	k->operand[k->operands] = (struct kernel_operand){
		.dtype = (uint8_t)dtype,
		.access = (uint8_t)access,
		.value = KERNEL_NONE,
	};
	return k->operands++;
}

static uint16_t add_load(struct kernel *k, unsigned dtype, unsigned access) {
	uint16_t operand = add_operand(k, dtype, access);
	struct kernel_value load = { .kind = KERNEL_LOAD, .dtype = (uint8_t)dtype, .index = operand };

	return add_value(k, load);
}

static uint16_t add_iota(struct kernel *k, unsigned access) {
	uint16_t operand = add_operand(k, DTYPE_i64, access);
	struct kernel_value iota = { .kind = KERNEL_IOTA, .dtype = DTYPE_i64, .index = operand };

	k->operand[operand].iota = 1;
	return add_value(k, iota);
}

static uint16_t add_scalar(struct kernel *k, unsigned dtype) {
	struct kernel_value scalar = { .kind = KERNEL_SCALAR, .dtype = (uint8_t)dtype, .index = k->scalars++ };

	return add_value(k, scalar);
}

static uint16_t add_op(struct kernel *k, unsigned op, unsigned dtype, unsigned a, unsigned b, unsigned c) {
	struct kernel_value value = { .kind = KERNEL_OP, .dtype = (uint8_t)dtype, .op = (uint16_t)op,
		.arg = { (uint16_t)a, (uint16_t)b, (uint16_t)c } };

	return add_value(k, value);
}

/* From an axis of GATHER_EXTENT elements, where an i8 says that is read as `access` says. */
static uint16_t add_gather(struct kernel *k, unsigned dtype, unsigned access, unsigned index) {
	struct kernel_value value = { .kind = KERNEL_GATHER, .dtype = (uint8_t)dtype };

	value.arg[0] = add_op(k, OP_cast, DTYPE_i64, add_load(k, DTYPE_i8, index), 0, 0);
	value.arg[1] = add_scalar(k, DTYPE_i64);
	value.arg[2] = add_scalar(k, DTYPE_i64);
	value.index = add_operand(k, dtype, access);
	k->operand[value.index].gathered = 1;
	return add_value(k, value);
}

static uint16_t add_output(struct kernel *k, unsigned value, unsigned access, bool stream) {
	uint16_t operand = add_operand(k, k->value[value].dtype, access);

	k->operand[operand].output = true;
	k->operand[operand].stream = stream;
	k->operand[operand].value = (uint16_t)value;
	return operand;
}

static uint16_t add_root(struct kernel *k, unsigned accumulator) {
	struct kernel_value root = { .kind = KERNEL_ROOT_VALUE, .dtype = (uint8_t)accumulator };

	k->accumulator = (uint8_t)accumulator;
	k->root_value = add_value(k, root);
	return k->root_value;
}

/* ---- tasks ---- */

struct job {
	struct kernel k;
	bool crossed;                    /* strided operands may lie side by side down the rows */
	unsigned tasks;
	int64_t dims[TASKS][KERNEL_RANK];
	uint64_t extent[TASKS];
	uint64_t record[TASKS][RECORD_WORDS];
	uint8_t *pool; /* as it is before */
	uint64_t used;
	bool after[KERNEL_OPERANDS]; /* read after the root only; ROWS: of the kept space */
	bool zeros;                  /* launch with records of zeros */
};

static unsigned lane_dim(const struct kernel *k) {
	if (k->root == KERNEL_MATMUL)
		return k->rank - 2u;
	if (k->root == KERNEL_MAP || k->form != KERNEL_FORM_COLUMN)
		return k->rank ? k->rank - 1u : KERNEL_RANK;
	return k->kept - 1u;
}

/* The i-th closest dimension in memory: the lanes first, as CONTIGUOUS says, then from the last to the first.
 */
static unsigned inner_dim(const struct kernel *k, unsigned i) {
	unsigned lanes = lane_dim(k), d = k->rank - i;

	if (lanes >= k->rank)
		return d - 1;
	return i == 0 ? lanes : d <= lanes ? d - 1 : d;
}

/* May the operand vary along a dimension at all? */
static bool varies(const struct job *j, unsigned o, unsigned d) {
	const struct kernel *k = &j->k;

	if (k->root == KERNEL_MATMUL && o < 2)
		return d < k->rank - 3u || d == k->rank - 1u || d == (o == 0 ? k->rank - 3u : k->rank - 2u);
	if (k->root == KERNEL_MATMUL)
		return d < k->rank - 1u;
	if (k->root == KERNEL_ROWS)
		return d < k->kept || !j->after[o];
	if (k->root == KERNEL_REDUCE && d >= k->kept)
		return !k->operand[o].output && !j->after[o];
	if (k->root == KERNEL_SCAN && k->block_dim < k->kept && o == k->carry)
		return d < k->kept;
	if (k->root == KERNEL_SCAN && d == k->block_dim)
		return false;
	if (k->root == KERNEL_REDUCE && d == k->block_dim)
		return k->operand[o].output;
	return true;
}

static void fill(struct job *j, unsigned dtype, uint64_t offset, uint64_t elements) {
	static const double special[] = { NAN, INFINITY, -INFINITY, -0.0, 1e-40 };
	unsigned bytes = dtype_info(dtype)->bytes;

	for (uint64_t e = 0; e < elements; e++) {
		double value = ((double)draw() / (double)(1ull << 52) - 0.25) * 8;
		struct number n = from_double(dtype, value);

		if (is_real(dtype) && j->k.root == KERNEL_MAP && pick(16) == 0)
			n = from_double(dtype, special[pick(5)]);
		if (!is_real(dtype))
			n.i = dtype == DTYPE_bool ? pick(2) : wrap(dtype, draw() << 11 ^ draw());
		store(dtype, j->pool + offset + e * bytes, n);
	}
}

/* The words of a gather's extent and stride: its axis lies around, or against, `span` elements; returns where it begins. */
static int64_t lay_out_axis(struct job *j, unsigned t, unsigned o, int64_t span) {
	int64_t stride = pick(2) ? span : -span;

	for (unsigned v = 0; v < j->k.values; v++) {
		const struct kernel_value *value = &j->k.value[v];

		if (value->kind != KERNEL_GATHER || value->index != o)
			continue;
		j->record[t][kernel_word_scalar(&j->k, j->k.value[value->arg[1]].index)] = GATHER_EXTENT;
		j->record[t][kernel_word_scalar(&j->k, j->k.value[value->arg[2]].index)] = (uint64_t)stride;
	}
	return stride < 0 ? span * (GATHER_EXTENT - 1) : 0;
}

/* Strides of a task's operand, its memory, and what is in it. */
static void lay_out(struct job *j, unsigned t, unsigned o) {
	const struct kernel_operand *p = &j->k.operand[o];
	uint64_t *word = j->record[t] + kernel_word_operand(&j->k, o);
	int64_t pitch = 1, low = 0, high = 0;
	unsigned lanes = lane_dim(&j->k);
	bool crossed = j->crossed && j->k.rank >= 2 && p->access == KERNEL_STRIDED && pick(2);

	for (unsigned i = 0; i < j->k.rank; i++) {
		unsigned d = inner_dim(&j->k, crossed && i < 2 ? 1 - i : i);
		int64_t extent = j->dims[t][d], stride = pitch;

		if (!varies(j, o, d) || (d == lanes && p->access == KERNEL_UNIFORM))
			stride = 0;
		else if (!p->output && d != lanes && pick(4) == 0)
			stride = 0;
		if (stride && !p->output && (d == lanes ? p->access == KERNEL_STRIDED : pick(4) == 0))
			stride *= pick(2) ? 2 : -3;
		word[1 + d] = (uint64_t)stride;
		if (extent > 0) {
			low += stride < 0 ? stride * (extent - 1) : 0;
			high += stride > 0 ? stride * (extent - 1) : 0;
		}
		if (stride)
			pitch = high - low + 1 + (p->output ? 0 : 3 * (int64_t)pick(2));
	}
	if (p->iota) {
		word[0] = draw();
		return;
	}
	if (p->gathered) {
		int64_t span = high - low + 1;

		low -= lay_out_axis(j, t, o, span);
		high = low + span * GATHER_EXTENT - 1;
	}
	ck_assert_uint_le(j->used + (uint64_t)(high - low + 1) * dtype_info(p->dtype)->bytes, POOL_BYTES - GUARD);
	word[0] = j->used + (uint64_t)(-low) * dtype_info(p->dtype)->bytes;
	fill(j, p->dtype, j->used, (uint64_t)(high - low + 1));
	j->used += (uint64_t)(high - low + 1) * dtype_info(p->dtype)->bytes + GUARD;
	j->used = (j->used + 127) / 128 * 128;
	ck_assert_uint_le(j->used, POOL_BYTES - GUARD);
}

static void add_task(struct job *j, const int64_t *dims) {
	struct kernel *k = &j->k;
	unsigned t = j->tasks++;

	ck_assert_uint_le(kernel_record_words(k), RECORD_WORDS);
	memcpy(j->dims[t], dims, k->rank * sizeof *dims);
	j->extent[t] = k->root == KERNEL_MAP ? 0 : 1;
	for (unsigned d = k->root == KERNEL_MATMUL || k->root == KERNEL_SCAN ? k->rank - 1u : k->kept; d < k->rank; d++)
		if (k->root != KERNEL_MAP)
			j->extent[t] *= (uint64_t)dims[d];
	for (unsigned d = 0; d < k->rank; d++)
		j->record[t][kernel_word_dim(d)] = (uint64_t)dims[d];
	for (unsigned v = 0; v < k->values; v++)
		if (k->value[v].kind == KERNEL_SCALAR) {
			struct number n = from_double(k->value[v].dtype, (double)pick(1000) / 64 - 5);
			uint64_t word = 0;

			memcpy(&word, &n.d, is_real(n.dtype) && n.dtype != DTYPE_f64 ? 4 : 8);
			j->record[t][kernel_word_scalar(k, k->value[v].index)] = word;
		}
	for (unsigned o = 0; o < k->operands; o++)
		lay_out(j, t, o);
}

static struct job *job_new(unsigned root, unsigned rank, unsigned kept) {
	struct job *j = calloc(1, sizeof *j);

	ck_assert_ptr_nonnull(j);
	j->pool = malloc(POOL_BYTES);
	ck_assert_ptr_nonnull(j->pool);
	memset(j->pool, 0x5a, POOL_BYTES);
	j->used = GUARD;
	j->k = (struct kernel){ .root = (uint8_t)root,
		.rank = (uint8_t)rank,
		.kept = (uint8_t)kept,
		.block_dim = 0xff,
		.root_value = KERNEL_NONE,
		.width = 16 };
	return j;
}

static void job_free(struct job *j) {
	free(j->pool);
	free(j);
}

/* ---- running ---- */

static cl_program build(const struct kernel *k, const struct traits *t) {
	struct str source = { 0 }, options = { 0 };
	char log[4096];
	cl_program program;
	const char *text;
	cl_int error;

	ck_assert_int_eq(emit_source(k, t, &source), 0);
	emit_options(t, &options);
	text = str_text(&source);
	program = clCreateProgramWithSource(context, 1, &text, NULL, &error);
	must(error);
	error = clBuildProgram(program, 1, &device, str_text(&options), NULL, NULL);
	if (error) {
		clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL);
		fprintf(stderr, "%s\n", log);
		ck_abort_msg("the program does not build");
	}
	str_free(&source);
	str_free(&options);
	return program;
}

/* The records of all tasks, behind `before` words, and the size of the launch. */
static uint64_t *make_table(struct job *j, const struct kernel *k, const struct traits *t, size_t before, size_t *bytesp, size_t *items, size_t *local) {
	size_t words = kernel_record_words(k), bytes = (before + j->tasks * words) * sizeof(uint64_t);
	uint64_t *table = calloc(1, bytes);

	ck_assert_ptr_nonnull(table);
	*items = 0;
	for (unsigned i = 0; i < j->tasks; i++) {
		uint64_t *record = table + before + i * words;
		struct emit_launch size;

		memcpy(record, j->record[i], words * sizeof *record);
		size = emit_geometry(k, t, j->dims[i], j->extent[i], record);
		*items = size.items > *items ? size.items : *items;
		*local = size.local;
	}
	if (j->zeros)
		memset(table, 0, bytes);
	*bytesp = bytes;
	return table;
}

static cl_mem make_buffer(const void *bytes, size_t size) {
	cl_int error;
	cl_mem buffer = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, size, (void *)(uintptr_t)bytes, &error);

	must(error);
	return buffer;
}

/* What the device gets: nothing behind the last guard, so that a driver that checks bounds sees more. */
static uint64_t pool_bytes(const struct job *j) {
	return j->used + GUARD;
}

static void run(struct job *j, cl_kernel kernel, const struct traits *t, cl_mem records, cl_ulong first, const size_t *global, const size_t *local,
	uint8_t *pool) {
	cl_mem memory = make_buffer(j->pool, pool_bytes(j));

	must(clSetKernelArg(kernel, 0, sizeof records, &records));
	must(clSetKernelArg(kernel, 1, sizeof first, &first));
	for (unsigned p = 0; p < t->pools; p++)
		must(clSetKernelArg(kernel, 2 + p, sizeof memory, &memory));
	must(clEnqueueNDRangeKernel(queue, kernel, 2, NULL, global, local, 0, NULL, NULL));
	memcpy(pool, j->pool, POOL_BYTES);
	must(clEnqueueReadBuffer(queue, memory, CL_TRUE, 0, pool_bytes(j), pool, 0, NULL, NULL));
	clReleaseMemObject(memory);
}

/* Some items claim what those of a plain launch do, each once, to the same bytes. */
static void run_claimed(struct job *j, const struct kernel *k, cl_kernel kernel, const struct traits *t, const uint8_t *plain) {
	enum { BEFORE = RING_OFFSET + KERNEL_CLAIM_WORDS };
	const size_t global[2] = { HELPERS, 1 }, one[2] = { 1, 1 };
	uint8_t *pool = malloc(POOL_BYTES);
	size_t bytes, items, local;
	uint64_t *table = make_table(j, k, t, BEFORE, &bytes, &items, &local);
	cl_mem records;

	ck_assert_ptr_nonnull(pool);
	table[RING_OFFSET + KERNEL_CLAIM_ITEMS] = items;
	table[RING_OFFSET + KERNEL_CLAIM_ALL] = items * j->tasks;
	records = make_buffer(table, bytes);
	run(j, kernel, t, records, RING_OFFSET | KERNEL_CLAIMED, global, one, pool);
	ck_assert_mem_eq(pool, plain, POOL_BYTES);
	must(clEnqueueReadBuffer(queue, records, CL_TRUE, 0, bytes, table, 0, NULL, NULL));
	ck_assert_uint_eq(table[RING_OFFSET + KERNEL_CLAIM_NEXT], items * j->tasks + HELPERS);
	ck_assert_uint_eq(table[RING_OFFSET + KERNEL_CLAIM_DONE], items * j->tasks);
	clReleaseMemObject(records);
	free(table);
	free(pool);
}

/* The first task's record is an argument, those of all others lie in the buffer. */
static void run_own(struct job *j, const struct kernel *k, cl_kernel kernel, const struct traits *t, cl_mem records, const uint64_t *own,
	const size_t *global, const size_t *local, uint8_t *pool) {
	size_t one[2] = { global[0], 1 }, others[2] = { global[0], global[1] - 1 };
	cl_ulong first = KERNEL_OWN;
	cl_mem memory = make_buffer(j->pool, pool_bytes(j));

	must(clSetKernelArg(kernel, 0, sizeof records, &records));
	must(clSetKernelArg(kernel, 1, sizeof first, &first));
	for (unsigned p = 0; p < t->pools; p++)
		must(clSetKernelArg(kernel, 2 + p, sizeof memory, &memory));
	must(clSetKernelArg(kernel, 2 + t->pools, kernel_own_words(k, t) * sizeof *own, own));
	must(clEnqueueNDRangeKernel(queue, kernel, 2, NULL, one, local, 0, NULL, NULL));
	first = RING_OFFSET + kernel_record_words(k);
	must(clSetKernelArg(kernel, 1, sizeof first, &first));
	if (others[1])
		must(clEnqueueNDRangeKernel(queue, kernel, 2, NULL, others, local, 0, NULL, NULL));
	memcpy(pool, j->pool, POOL_BYTES);
	must(clEnqueueReadBuffer(queue, memory, CL_TRUE, 0, pool_bytes(j), pool, 0, NULL, NULL));
	clReleaseMemObject(memory);
}

static void launch(struct job *j, const struct kernel *k, const struct traits *t, uint8_t *pool) {
	size_t global[2] = { 0, j->tasks }, local[2] = { 0, 1 }, bytes;
	uint64_t *table = make_table(j, k, t, RING_OFFSET, &bytes, global, local);
	cl_mem records = make_buffer(table, bytes);
	cl_program program = build(k, t);
	cl_kernel kernel;
	cl_int error;

	kernel = clCreateKernel(program, "fused", &error);
	must(error);
	if (kernel_own_words(k, t))
		run_own(j, k, kernel, t, records, table + RING_OFFSET, global, local, pool);
	else
		run(j, kernel, t, records, RING_OFFSET, global, local, pool);
	if (t->claims)
		run_claimed(j, k, kernel, t, pool);
	clReleaseKernel(kernel);
	clReleaseMemObject(records);
	clReleaseProgram(program);
	free(table);
}

/* NaN of an output's type for every NaN, so that bytes can be compared. */
static void unify_nans(struct job *j, uint8_t *pool) {
	for (unsigned t = 0; t < j->tasks; t++)
		for (unsigned o = 0; o < j->k.operands; o++) {
			const struct kernel_operand *p = &j->k.operand[o];
			uint64_t offset = j->record[t][kernel_word_operand(&j->k, o)], n = 1;

			for (unsigned d = 0; d < j->k.rank; d++)
				n *= varies(j, o, d) && !(p->access == KERNEL_UNIFORM && d == lane_dim(&j->k))
					     ? (uint64_t)j->dims[t][d]
					     : 1;
			for (uint64_t e = 0; p->output && is_real(p->dtype) && e < n; e++) {
				uint8_t *at = pool + offset + e * dtype_info(p->dtype)->bytes;

				if (is_nan(load(p->dtype, at)))
					store(p->dtype, at, from_double(p->dtype, NAN));
			}
		}
}

/* Which task and operand a byte of the pool belongs to, for the message. */
static void locate(const struct job *j, uint64_t at, unsigned *taskp, unsigned *operandp) {
	uint64_t best = 0;

	for (unsigned t = 0; t < j->tasks; t++)
		for (unsigned o = 0; o < j->k.operands; o++) {
			uint64_t offset = j->record[t][kernel_word_operand(&j->k, o)];

			if (j->k.operand[o].iota || offset > at || offset < best)
				continue;
			best = offset;
			*taskp = t;
			*operandp = o;
		}
}

static void compare_pools(struct job *j, const uint8_t *expected, const uint8_t *got, const char *variant,
	const struct kernel *k, const struct traits *t) {
	struct str body = { 0 };
	unsigned task = 0, operand = 0;

	for (uint64_t i = 0; i < pool_bytes(j); i++) {
		if (expected[i] == got[i])
			continue;
		ck_assert_int_eq(emit_body(k, t, &body), 0);
		fprintf(stderr, "%s\n", str_text(&body));
		locate(j, i, &task, &operand);
		ck_abort_msg("%s: task %u, byte %llu of operand %u is %02x, should be %02x", variant, task,
			(unsigned long long)(i - j->record[task][kernel_word_operand(k, operand)]), operand,
			got[i], expected[i]);
	}
}

/* As the planner would. */
static void set_width(struct kernel *k, const struct traits *t) {
	k->width = k->form == KERNEL_FORM_GENERAL && t->strategy == STRATEGY_GPU ? 1 : t->width;
	if (k->root != KERNEL_MATMUL)
		return;
	/* How the first factor is read is a hint: it may lie in any way. */
	if (t->strategy == STRATEGY_GPU) {
		k->width = kernel_tiles[k->tile].lanes;
		k->operand[0].access = k->tile % 2 ? KERNEL_CONTIGUOUS : KERNEL_UNIFORM;
		return;
	}
	k->vectors = (uint8_t)kernel_most_vectors(k->width, k->accumulator);
	k->rows = (uint8_t)kernel_most_rows(k->width, k->accumulator, k->vectors);
}

/* Every variant leaves what the reference leaves. */
static void prove(struct job *j) {
	uint8_t *expected = malloc(POOL_BYTES), *got = malloc(POOL_BYTES);

	ck_assert_ptr_nonnull(expected);
	ck_assert_ptr_nonnull(got);
	memcpy(expected, j->pool, POOL_BYTES);
	for (unsigned t = 0; t < j->tasks; t++) {
		j->record[t][KERNEL_WORD_EXTENT] = j->extent[t];
		reference(&j->k, j->record[t], expected);
	}
	unify_nans(j, expected);
	for (unsigned i = 0; i < VARIANTS; i++) {
		struct kernel k = j->k;

		if (!is_taken(i))
			continue;
		set_width(&k, &variants[i].traits);
		launch(j, &k, &variants[i].traits, got);
		unify_nans(j, got);
		compare_pools(j, expected, got, variants[i].name, &k, &variants[i].traits);
	}
	free(expected);
	free(got);
	job_free(j);
}

/* ---- elementwise ---- */

static const unsigned numbers[] = {
	DTYPE_i8,
	DTYPE_u8,
	DTYPE_i16,
	DTYPE_u16,
	DTYPE_i32,
	DTYPE_u32,
	DTYPE_i64,
	DTYPE_u64,
	DTYPE_f16,
	DTYPE_bf16,
	DTYPE_f32,
	DTYPE_f64,
};
enum {
	NUMBERS = sizeof numbers / sizeof *numbers
};

/* One load and one store of each type, of one access. */
static struct job *each_type(unsigned access) {
	struct job *j = job_new(KERNEL_MAP, 2, 0);

	for (unsigned i = 0; i < NUMBERS; i++) {
		unsigned a = add_load(&j->k, numbers[i], access),
			 b = add_load(&j->k, numbers[i], KERNEL_CONTIGUOUS);

		add_output(&j->k, add_op(&j->k, OP_add, numbers[i], a, b, 0), KERNEL_CONTIGUOUS, i % 2);
	}
	add_output(&j->k, add_load(&j->k, DTYPE_bool, access), KERNEL_CONTIGUOUS, false);
	return j;
}

START_TEST(every_type_loads_and_stores_with_every_access) {
	struct job *j = each_type((unsigned)_i);

	add_task(j, (const int64_t[]){ 3, 37 });
	add_task(j, (const int64_t[]){ 1, 128 });
	add_task(j, (const int64_t[]){ 40, 5 });
	prove(j);
}
END_TEST

/* The types whose conversions differ in kind; tests/oracle takes all pairs. */
static const unsigned convertible[] = { DTYPE_bool, DTYPE_i8, DTYPE_i64, DTYPE_u64, DTYPE_f16, DTYPE_f32,
	DTYPE_f64 };
enum {
	CONVERTIBLE = sizeof convertible / sizeof *convertible
};

START_TEST(types_convert_to_every_other) {
	struct job *j = job_new(KERNEL_MAP, 1, 0);
	unsigned a = add_load(&j->k, convertible[_i], KERNEL_CONTIGUOUS);

	for (unsigned to = 0; to < DTYPE_COUNT; to++)
		add_output(&j->k, add_op(&j->k, OP_cast, to, a, 0, 0), KERNEL_CONTIGUOUS, false);
	add_task(j, (const int64_t[]){ 333 });
	prove(j);
}
END_TEST

/* relu(x * w + b) and its square with a scalar, broadcast along both dimensions. */
static struct job *broadcasts(void) {
	struct job *j = job_new(KERNEL_MAP, 3, 0);
	struct kernel *k = &j->k;
	unsigned x = add_load(k, DTYPE_f32, KERNEL_CONTIGUOUS), w = add_load(k, DTYPE_f32, KERNEL_UNIFORM);
	unsigned b = add_load(k, DTYPE_f32, KERNEL_STRIDED), s = add_scalar(k, DTYPE_f32);
	unsigned unused = add_op(k, OP_mul, DTYPE_f32, w, w, 0);
	unsigned y = add_op(k, OP_add, DTYPE_f32, add_op(k, OP_mul, DTYPE_f32, x, w, 0), b, 0);
	unsigned z = add_op(k, OP_maximum, DTYPE_f32, y, add_op(k, OP_mul, DTYPE_f32, s, s, 0), 0);

	(void)unused;
	add_output(k, z, KERNEL_CONTIGUOUS, true);
	add_output(k, add_op(k, OP_square, DTYPE_f32, z, 0, 0), KERNEL_CONTIGUOUS, false);
	return j;
}

START_TEST(broadcast_operands_meet_whole_ones) {
	struct job *j = broadcasts();

	add_task(j, (const int64_t[]){ 5, 7, 50 });
	prove(j);
}
END_TEST

START_TEST(one_launch_runs_tasks_of_different_sizes) {
	struct job *j = broadcasts();

	add_task(j, (const int64_t[]){ 2, 3, 17 });
	add_task(j, (const int64_t[]){ 0, 3, 4 });
	add_task(j, (const int64_t[]){ 1, 2, 9001 });
	add_task(j, (const int64_t[]){ 3, 5, 0 });
	add_task(j, (const int64_t[]){ 1, 1, 1 });
	add_task(j, (const int64_t[]){ 60, 60, 3 });
	prove(j);
}
END_TEST

START_TEST(a_task_without_elements_writes_nothing) {
	struct job *j = broadcasts();

	add_task(j, (const int64_t[]){ 4, 0, 4 });
	prove(j);
}
END_TEST

START_TEST(rank_0_is_one_element) {
	static const int64_t none[1];
	struct job *j = job_new(KERNEL_MAP, 0, 0);
	unsigned a = add_load(&j->k, DTYPE_f64, KERNEL_UNIFORM), b = add_scalar(&j->k, DTYPE_f64);

	add_output(&j->k, add_op(&j->k, OP_sub, DTYPE_f64, a, b, 0), KERNEL_UNIFORM, false);
	add_output(&j->k, add_op(&j->k, OP_cast, DTYPE_i64, a, 0, 0), KERNEL_UNIFORM, false);
	add_task(j, none);
	add_task(j, none);
	prove(j);
}
END_TEST

START_TEST(an_iota_counts_along_every_dimension) {
	struct job *j = job_new(KERNEL_MAP, 3, 0);
	unsigned a = add_iota(&j->k, (unsigned)_i), b = add_load(&j->k, DTYPE_i64, KERNEL_CONTIGUOUS);

	add_output(&j->k, add_op(&j->k, OP_mul, DTYPE_i64, a, b, 0), KERNEL_CONTIGUOUS, false);
	add_task(j, (const int64_t[]){ 3, 4, 33 });
	prove(j);
}
END_TEST

START_TEST(every_rank_finds_its_elements) {
	static const int64_t dims[KERNEL_RANK] = { 2, 1, 3, 2, 1, 2, 3, 2, 1, 19 };
	static const unsigned ranks[] = { 1, 2, 3, 5, 8, KERNEL_RANK };
	unsigned rank = ranks[_i];
	struct job *j = job_new(KERNEL_MAP, rank, 0);
	unsigned a = add_load(&j->k, DTYPE_i32, KERNEL_CONTIGUOUS),
		 b = add_load(&j->k, DTYPE_i32, KERNEL_UNIFORM);
	unsigned c = add_load(&j->k, DTYPE_i32, KERNEL_STRIDED),
		 ab = add_op(&j->k, OP_add, DTYPE_i32, a, b, 0);

	add_output(&j->k, add_op(&j->k, OP_mul, DTYPE_i32, ab, c, 0), KERNEL_CONTIGUOUS, true);
	add_task(j, dims + KERNEL_RANK - rank);
	prove(j);
}
END_TEST

/* The index along the lanes, or one for all of them; the gathered operand likewise. */
START_TEST(gathers_read_where_their_index_says_and_nowhere_else) {
	struct job *j = job_new(KERNEL_MAP, 2, 0);
	static const unsigned types[] = { DTYPE_f32, DTYPE_i8, DTYPE_bf16, DTYPE_f64, DTYPE_bool, DTYPE_u16 };

	for (unsigned i = 0; i < sizeof types / sizeof *types; i++) {
		unsigned g = add_gather(&j->k, types[i], (i + (unsigned)_i) % 3, (unsigned)_i / 3);

		if (types[i] != DTYPE_bool)
			g = add_op(&j->k, OP_add, types[i], g, add_load(&j->k, types[i], KERNEL_CONTIGUOUS), 0);
		add_output(&j->k, g, KERNEL_CONTIGUOUS, i % 2);
	}
	add_task(j, (const int64_t[]){ 3, 37 });
	add_task(j, (const int64_t[]){ 40, 5 });
	prove(j);
}
END_TEST

START_TEST(gathers_stand_before_and_after_a_reduction) {
	static const unsigned forms[] = { KERNEL_FORM_ROW, KERNEL_FORM_COLUMN, KERNEL_FORM_GENERAL };
	unsigned form = forms[_i], rank = form == KERNEL_FORM_ROW ? 2 : 3, x;
	struct job *j = job_new(KERNEL_REDUCE, rank, 1);

	j->k.form = (uint8_t)form;
	j->k.op = OP_reduce_sum;
	x = add_gather(&j->k, DTYPE_f32, KERNEL_CONTIGUOUS, KERNEL_CONTIGUOUS);
	x = add_op(&j->k, OP_mul, DTYPE_f32, x, add_gather(&j->k, DTYPE_f32, KERNEL_STRIDED, KERNEL_UNIFORM), 0);
	j->k.reduced_value = (uint16_t)x;
	x = add_root(&j->k, DTYPE_f32);
	x = add_op(&j->k, OP_add, DTYPE_f32, x,
		add_gather(&j->k, DTYPE_f32, form == KERNEL_FORM_COLUMN ? KERNEL_CONTIGUOUS : KERNEL_UNIFORM,
			KERNEL_UNIFORM), 0);
	for (unsigned o = 4; o < j->k.operands; o++)
		j->after[o] = true;
	add_output(&j->k, x, form == KERNEL_FORM_COLUMN ? KERNEL_CONTIGUOUS : KERNEL_UNIFORM, false);
	add_task(j, form == KERNEL_FORM_ROW ? (const int64_t[]){ 5, 133 } : (const int64_t[]){ 19, 3, 50 });
	prove(j);
}
END_TEST

/* The vectors that are published with the generator (Random123, tests/kat_vectors, philox4x32 10). */
static const uint32_t philox_vectors[][10] = {
	{ 0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 },
	{ UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, 0x408f276d, 0x41c83b0e,
		0xa20bc7c6, 0x6d5451fd },
	{ 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09, 0x94fdcceb,
		0x5001e420, 0x24126ea1 },
};

/* A kernel of a program that has philox_word(), in every lane count. */
static cl_kernel philox_kernel(unsigned width) {
	static const char own[] = "kernel void known(global const uint *in, global uint *out) {\n"
				  "\tfor (uint i = 0; i < 4; i++) {\n"
				  "\t\tu32v word = philox_word((u32v)in[0], (u32v)in[1], (u32v)in[2], (u32v)in[3],"
				  " (u32v)in[4], (u32v)in[5], (u32v)i);\n"
				  "\t\tfor (int l = 0; l < W; l++)\n"
				  "\t\t\tout[i * W + l] = ((const u32e *)&word)[l];\n"
				  "\t}\n}\n";
	struct traits t = variants[0].traits;
	struct str source = { 0 };
	struct kernel *k = calloc(1, sizeof *k);
	cl_program program;
	const char *text;
	cl_kernel kernel;
	cl_int error;

	*k = (struct kernel){ .root = KERNEL_MAP, .rank = 1, .block_dim = 0xff, .root_value = KERNEL_NONE };
	k->width = (uint8_t)width;
	add_output(k, add_op(k, OP_philox, DTYPE_u64, add_scalar(k, DTYPE_u64), add_scalar(k, DTYPE_u64), 0),
		KERNEL_CONTIGUOUS, false);
	ck_assert_int_eq(emit_source(k, &t, &source), 0);
	str_append(&source, own);
	text = str_text(&source);
	program = clCreateProgramWithSource(context, 1, &text, NULL, &error);
	must(error);
	must(clBuildProgram(program, 1, &device, t.options ? t.options : "", NULL, NULL));
	kernel = clCreateKernel(program, "known", &error);
	must(error);
	clReleaseProgram(program);
	str_free(&source);
	free(k);
	return kernel;
}

START_TEST(random_bits_are_those_of_the_published_vectors) {
	static const unsigned widths[] = { 1, 2, 4, 8, 16 };
	unsigned width = widths[_i];
	cl_kernel kernel = philox_kernel(width);

	for (size_t i = 0; i < sizeof philox_vectors / sizeof *philox_vectors; i++) {
		const size_t one = 1;
		uint32_t in[6], got[4 * 16];
		cl_mem from, to;
		cl_int error;

		memcpy(in, philox_vectors[i], sizeof in);
		from = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, sizeof in, in, &error);
		must(error);
		to = clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof got, NULL, &error);
		must(error);
		must(clSetKernelArg(kernel, 0, sizeof from, &from));
		must(clSetKernelArg(kernel, 1, sizeof to, &to));
		must(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, &one, 0, NULL, NULL));
		must(clEnqueueReadBuffer(queue, to, CL_TRUE, 0, 4 * width * sizeof *got, got, 0, NULL, NULL));
		for (unsigned w = 0; w < 4 * width; w++)
			ck_assert_uint_eq(got[w], philox_vectors[i][6 + w / width]);
		clReleaseMemObject(from);
		clReleaseMemObject(to);
	}
	clReleaseKernel(kernel);
}
END_TEST

/* ---- drawn kernels ---- */

static unsigned draw_dtype(void) {
	return numbers[pick(NUMBERS)];
}

/* Values of one type and bools over loads, drawn until there are `n`; returns the last of the type. */
static unsigned draw_values(struct job *j, unsigned dtype, unsigned n, unsigned last) {
	static const unsigned binary[] = { OP_add, OP_sub, OP_mul, OP_maximum, OP_minimum };
	struct kernel *k = &j->k;
	unsigned known[KERNEL_VALUES], count = 0;

	known[count++] = last;
	for (unsigned i = 0; i < n; i++) {
		unsigned a = known[pick(count)], b = known[pick(count)], d = known[pick(count)];
		unsigned c, from = draw_dtype();

		switch (pick(6)) {
		case 0:
			known[count++] = add_load(k, dtype, pick(3));
			j->after[k->operands - 1] = k->root_value != KERNEL_NONE;
			break;
		case 1:
			known[count++] = add_scalar(k, dtype);
			break;
		case 2:
			c = add_load(k, from, pick(3));
			j->after[k->operands - 1] = k->root_value != KERNEL_NONE;
			known[count++] = add_op(k, OP_cast, dtype, c, 0, 0);
			break;
		case 3:
			c = add_op(k, OP_lt, DTYPE_bool, a, b, 0);
			known[count++] = add_op(k, OP_where, dtype, c, b, d);
			break;
		default:
			known[count++] = add_op(k, binary[pick(5)], dtype, a, b, 0);
		}
	}
	return add_op(k, OP_sub, dtype, known[count - 1], last, 0);
}

static int64_t draw_extent(void) {
	static const int64_t extents[] = { 1, 2, 3, 5, 15, 16, 17, 31, 64, 65, 100 };

	return extents[pick(sizeof extents / sizeof *extents)];
}

static void draw_dims(int64_t *dims, unsigned rank, int64_t most) {
	int64_t n = 1;

	for (unsigned d = rank; d-- > 0; n *= dims[d]) {
		dims[d] = draw_extent();
		while (n * dims[d] > most)
			dims[d] = (dims[d] + 1) / 2;
	}
}

START_TEST(drawn_elementwise_kernels_agree) {
	int64_t dims[KERNEL_RANK];
	unsigned rank, dtype;
	struct job *j;

	seed = (uint64_t)_i + 1;
	rank = pick(5);
	dtype = draw_dtype();
	j = job_new(KERNEL_MAP, rank, 0);
	add_output(&j->k, draw_values(j, dtype, 8, add_load(&j->k, dtype, KERNEL_CONTIGUOUS)),
		KERNEL_CONTIGUOUS, pick(2));
	add_output(&j->k, j->k.values / 2, KERNEL_CONTIGUOUS, pick(2));
	for (unsigned t = 0; t < 3; t++) {
		draw_dims(dims, rank, 3000);
		add_task(j, dims);
	}
	prove(j);
}
END_TEST

/* ---- interpreters ---- */

static const struct {
	enum dialect dialect;
	unsigned variant;
} interpreters[] = {
	{ DIALECT_common, 0 }, { DIALECT_floats, 0 }, { DIALECT_mixed, VARIANTS - 1 },
	{ DIALECT_mixed, 0 }, { DIALECT_words, 0 }, { DIALECT_bytes, 0 }, { DIALECT_doubles, 0 },
};
enum {
	INTERPRETERS = sizeof interpreters / sizeof *interpreters,
	INTERPRETED = 40, /* kernels in each */
};

/* The launch's table, records, and the code of all tasks. */
static cl_mem make_program(struct job *j, const struct traits *t, const struct bytecode *code, size_t *items, size_t *local) {
	size_t words = kernel_record_words(&j->k), all = j->tasks * (1 + words) + code->words;
	uint64_t *ring = calloc(RING_OFFSET + all, sizeof *ring), *table = ring + RING_OFFSET;
	cl_mem records;
	cl_int error;

	ck_assert_ptr_nonnull(ring);
	*items = 0;
	for (unsigned i = 0; i < j->tasks; i++) {
		uint64_t at = j->tasks + i * words;
		struct emit_launch size;

		memcpy(table + at, j->record[i], words * sizeof *table);
		size = bytecode_geometry(&j->k, t, j->dims[i], table + at);
		*items = size.items > *items ? size.items : *items;
		*local = size.local;
		table[i] = bytecode_task(at, all - code->words);
	}
	memcpy(table + all - code->words, code->word, code->words * sizeof *table);
	records = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, (RING_OFFSET + all) * sizeof *ring, ring, &error);
	must(error);
	free(ring);
	return records;
}

static void interpret(struct job *j, cl_kernel kernel, const struct traits *t, const struct bytecode *code, uint8_t *pool) {
	size_t global[2] = { 0, j->tasks }, local[2] = { 0, 1 };
	cl_mem memory, records = make_program(j, t, code, global, local);
	cl_ulong first = RING_OFFSET;
	cl_int error;

	memory = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, pool_bytes(j), j->pool, &error);
	must(error);
	must(clSetKernelArg(kernel, 0, sizeof records, &records));
	must(clSetKernelArg(kernel, 1, sizeof first, &first));
	must(clSetKernelArg(kernel, 2, sizeof memory, &memory));
	must(clEnqueueNDRangeKernel(queue, kernel, 2, NULL, global, local, 0, NULL, NULL));
	memcpy(pool, j->pool, POOL_BYTES);
	must(clEnqueueReadBuffer(queue, memory, CL_TRUE, 0, pool_bytes(j), pool, 0, NULL, NULL));
	clReleaseMemObject(memory);
	clReleaseMemObject(records);
}

static unsigned draw_type(enum dialect dialect) {
	unsigned type = pick(DTYPE_COUNT);

	while (!instruction_dialect_has(dialect, type))
		type = pick(DTYPE_COUNT);
	return type;
}

/* A value of the type: a load, a number, or an operation on others. */
static unsigned draw_value(struct job *j, enum dialect dialect, unsigned type, unsigned depth) {
	static const unsigned binary[] = { OP_add, OP_sub, OP_mul, OP_maximum, OP_minimum };
	struct kernel *k = &j->k;
	unsigned a, b;

	if (depth == 0 || k->operands > KERNEL_OPERANDS - 8)
		return pick(4) ? add_load(k, type, pick(3)) : add_scalar(k, type);
	if (pick(4) == 0)
		return add_op(k, OP_cast, type, draw_value(j, dialect, draw_type(dialect), depth - 1), 0, 0);
	if (pick(8) == 0 && type == DTYPE_i64)
		return add_iota(k, pick(3));
	if (pick(8) == 0 && k->values)
		return add_op(k, OP_cast, type, pick(k->values), 0, 0);
	a = draw_value(j, dialect, type, depth - 1);
	b = draw_value(j, dialect, type, depth - 1);
	/* Who lacks the rare operations does not compare booleans. */
	if (type == DTYPE_bool && !instruction_dialect_is_whole(dialect, DTYPE_bool))
		return add_op(k, OP_where, type, a, b, a);
	if (type == DTYPE_bool || pick(4) == 0)
		return add_op(k, OP_where, type, add_op(k, OP_lt, DTYPE_bool, a, b, 0), b, a);
	return add_op(k, binary[pick(5)], type, a, b, 0);
}

static struct job *draw_job(enum dialect dialect) {
	int64_t dims[KERNEL_RANK];
	unsigned rank = pick(5), outputs = 1 + pick(3);
	struct job *j = job_new(KERNEL_MAP, rank, 0);

	for (unsigned o = 0; o < outputs; o++)
		add_output(&j->k, draw_value(j, dialect, draw_type(dialect), pick(5)),
			pick(4) ? KERNEL_CONTIGUOUS : KERNEL_STRIDED, pick(2));
	for (unsigned o = 0; rank == 0 && o < j->k.operands; o++)
		j->k.operand[o].access = KERNEL_UNIFORM;
	for (unsigned t = 0; t < 3; t++) {
		/* Of rows that are shorter than an interpreter's block, or not. */
		j->crossed = rank >= 2 && pick(2);
		if (j->crossed) {
			/* Parts of tiles, and several. */
			draw_dims(dims, rank - 2, 2);
			dims[rank - 2] = 5 + pick(30);
			dims[rank - 1] = 1 + pick(40);
		} else if (rank && pick(2)) {
			draw_dims(dims, rank - 1, 4);
			dims[rank - 1] = 200 + pick(500);
		} else {
			draw_dims(dims, rank, 3000);
		}
		if (rank && t == 1 && pick(8) == 0)
			dims[pick(rank)] = 0;
		add_task(j, dims);
	}
	return j;
}

static void prove_interpreted(struct job *j, unsigned i, cl_kernel interpreter) {
	const struct traits *t = &variants[interpreters[i].variant].traits;
	uint8_t *expected = malloc(POOL_BYTES), *got = malloc(POOL_BYTES);
	const char *reason;
	struct bytecode code;

	ck_assert_ptr_nonnull(expected);
	ck_assert_ptr_nonnull(got);
	set_width(&j->k, t);
	reason = bytecode_assemble(&j->k, t, interpreters[i].dialect, &code);
	/* The deepest ones need more registers than there are. */
	ck_assert_msg(!reason || strstr(reason, "registers"), "%s", reason);
	memcpy(expected, j->pool, POOL_BYTES);
	for (unsigned n = 0; n < j->tasks; n++)
		reference(&j->k, j->record[n], expected);
	unify_nans(j, expected);
	if (!reason) {
		interpret(j, interpreter, t, &code, got);
		unify_nans(j, got);
		compare_pools(j, expected, got, "interpreter", &j->k, t);
	}
	free(expected);
	free(got);
	job_free(j);
}

static cl_kernel open_interpreter(unsigned i, cl_program *programp) {
	const struct traits *t = &variants[interpreters[i].variant].traits;
	cl_kernel interpreter;
	struct kernel k;
	cl_int error;

	bytecode_interpreter(interpreters[i].dialect, t, &k);
	*programp = build(&k, t);
	interpreter = clCreateKernel(*programp, "fused", &error);
	must(error);
	return interpreter;
}

START_TEST(interpreted_kernels_agree) {
	cl_program program;
	cl_kernel interpreter;

	if (!suits(&variants[interpreters[_i].variant].traits))
		return;
	interpreter = open_interpreter((unsigned)_i, &program);
	for (unsigned n = 0; n < INTERPRETED; n++) {
		seed = n + 1;
		prove_interpreted(draw_job(interpreters[_i].dialect), (unsigned)_i, interpreter);
	}
	clReleaseKernel(interpreter);
	clReleaseProgram(program);
}
END_TEST

/* Every operation of a type, some a kernel, as bytecode and as a program of one lane, which other tests prove right. */
struct all_ops {
	unsigned interpreter, type;
	cl_kernel kernel;
	struct job *j;
	uint16_t in[3], truth;
	unsigned outputs;
};

enum { OPS_TOGETHER = 12 };

static void begin_ops(struct all_ops *a) {
	a->j = job_new(KERNEL_MAP, 1, 0);
	for (unsigned i = 0; i < 3; i++)
		a->in[i] = add_load(&a->j->k, a->type, i == 2 ? KERNEL_STRIDED : KERNEL_CONTIGUOUS);
	a->truth = add_load(&a->j->k, DTYPE_bool, KERNEL_CONTIGUOUS);
	a->outputs = 0;
}

static void end_ops(struct all_ops *a) {
	const struct traits *t = &variants[interpreters[a->interpreter].variant].traits;
	uint8_t *expected = malloc(POOL_BYTES), *got = malloc(POOL_BYTES);
	struct bytecode code;
	const char *reason;

	ck_assert_ptr_nonnull(expected);
	ck_assert_ptr_nonnull(got);
	add_task(a->j, (const int64_t[]){ 3001 });
	set_width(&a->j->k, t);
	reason = bytecode_assemble(&a->j->k, t, interpreters[a->interpreter].dialect, &code);
	ck_assert_msg(!reason, "%s", reason);
	interpret(a->j, a->kernel, t, &code, got);
	set_width(&a->j->k, &variants[1].traits);
	launch(a->j, &a->j->k, &variants[1].traits, expected);
	unify_nans(a->j, expected);
	unify_nans(a->j, got);
	compare_pools(a->j, expected, got, dtype_info(a->type)->name, &a->j->k, &variants[1].traits);
	free(expected);
	free(got);
	job_free(a->j);
}

static void add_one_op(struct all_ops *a, unsigned op) {
	const struct op_info *info = op_info(op);
	unsigned result = info->result == OP_RESULT_BOOL ? DTYPE_bool : a->type;
	unsigned first = op == OP_where ? a->truth : a->in[0];

	add_output(&a->j->k, add_op(&a->j->k, op, result, first, a->in[1], a->in[2]), KERNEL_CONTIGUOUS, false);
	if (++a->outputs < OPS_TOGETHER)
		return;
	end_ops(a);
	begin_ops(a);
}

static void prove_ops(struct all_ops *a) {
	begin_ops(a);
	for (unsigned op = 0; op < OP_COUNT; op++)
		if (op_info(op) && op_is_elementwise(op_info(op)) && op_types_take(op_info(op)->types, dtype_info(a->type)->kind))
			add_one_op(a, op);
	end_ops(a);
}

/* In the first dialect that has all operations of the type. */
START_TEST(interpreted_operations_have_the_bits_of_programs) {
	struct all_ops a = { .type = (unsigned)_i };
	cl_program program;

	if (device_is_gpu)
		SKIP("a GPU takes minutes over work-items of many lanes");
	while (!instruction_dialect_is_whole(interpreters[a.interpreter].dialect, a.type))
		a.interpreter++;
	a.kernel = open_interpreter(a.interpreter, &program);
	prove_ops(&a);
	clReleaseKernel(a.kernel);
	clReleaseProgram(program);
}
END_TEST

/* ---- reductions ---- */

/* reduce(a * b) over what the form says, then minus a scalar, and its square. */
static struct job *reduction(unsigned form, unsigned op, unsigned accumulator, unsigned rank, unsigned kept) {
	struct job *j = job_new(KERNEL_REDUCE, rank, kept);
	struct kernel *k = &j->k;
	unsigned a = add_load(k, accumulator, KERNEL_CONTIGUOUS);
	unsigned b = add_load(k, accumulator, form == KERNEL_FORM_COLUMN ? KERNEL_UNIFORM : KERNEL_STRIDED);
	unsigned access = form == KERNEL_FORM_COLUMN ? KERNEL_CONTIGUOUS : KERNEL_UNIFORM, root, y;

	k->form = (uint8_t)form;
	k->op = (uint16_t)op;
	k->reduced_value = add_op(k, OP_mul, accumulator, a, b, 0);
	root = add_root(k, accumulator);
	y = add_op(k, OP_sub, accumulator, root, add_scalar(k, accumulator), 0);
	add_output(k, root, access, false);
	add_output(k, add_op(k, OP_square, accumulator, y, 0, 0), access, false);
	return j;
}

static const unsigned reduce_ops[] = { OP_reduce_sum, OP_reduce_max, OP_reduce_min, OP_reduce_prod };
static const struct {
	unsigned op, type;
} reductions[] = {
	{ OP_reduce_sum, DTYPE_f32 },
	{ OP_reduce_sum, DTYPE_f64 },
	{ OP_reduce_sum, DTYPE_i64 },
	{ OP_reduce_prod, DTYPE_f32 },
	{ OP_reduce_prod, DTYPE_u64 },
	{ OP_reduce_any, DTYPE_bool },
	{ OP_reduce_all, DTYPE_bool },
	{ OP_reduce_max, DTYPE_f32 },
	{ OP_reduce_min, DTYPE_f16 },
	{ OP_reduce_max, DTYPE_bf16 },
	{ OP_reduce_min, DTYPE_i64 },
	{ OP_reduce_max, DTYPE_u64 },
};
enum {
	REDUCTIONS = sizeof reductions / sizeof *reductions,
	SUMS = 3
};

START_TEST(rows_reduce_in_the_documented_tree) {
	struct job *j = reduction(KERNEL_FORM_ROW, reductions[_i].op, reductions[_i].type, 2, 1);
	static const int64_t extents[] = { 1, 15, 16, 17, 64, 65, 1000, 8192 };

	for (unsigned t = 0; t < TASKS; t++)
		add_task(j, (const int64_t[]){ 3, extents[t] });
	prove(j);
}
END_TEST

START_TEST(nothing_reduced_gives_zero_or_the_neutral_element) {
	static const unsigned forms[] = { KERNEL_FORM_ROW, KERNEL_FORM_ROW, KERNEL_FORM_ROW,
		KERNEL_FORM_COLUMN, KERNEL_FORM_GENERAL };
	struct job *j = reduction(forms[_i], reduce_ops[_i % 4], DTYPE_f32, 2, 1);

	add_task(j, (const int64_t[]){ 20, 0 });
	add_task(j, (const int64_t[]){ 0, 20 });
	prove(j);
}
END_TEST

START_TEST(columns_reduce_in_the_documented_tree) {
	struct job *j = reduction(KERNEL_FORM_COLUMN, reductions[_i].op, reductions[_i].type, 3, 2);

	add_task(j, (const int64_t[]){ 2, 1, 3 });
	add_task(j, (const int64_t[]){ 1, 10, 1797 });
	add_task(j, (const int64_t[]){ 3, 77, 65 });
	add_task(j, (const int64_t[]){ 1, 130, 64 });
	add_task(j, (const int64_t[]){ 2, 16, 500 });
	prove(j);
}
END_TEST

START_TEST(reductions_over_several_dimensions_count_in_row_major_order) {
	struct job *j = reduction(KERNEL_FORM_GENERAL, OP_reduce_sum, reductions[_i].type, 5, 2);

	add_task(j, (const int64_t[]){ 2, 3, 4, 5, 6 });
	add_task(j, (const int64_t[]){ 1, 1, 3, 1, 700 });
	add_task(j, (const int64_t[]){ 2, 1, 2, 3, 127 });
	add_task(j, (const int64_t[]){ 1, 2, 1, 5, 64 });
	add_task(j, (const int64_t[]){ 5, 1, 1, 1, 1 });
	prove(j);
}
END_TEST

START_TEST(columns_reduce_over_several_dimensions) {
	struct job *j = reduction(KERNEL_FORM_COLUMN, OP_reduce_sum, reductions[_i].type, 4, 1);

	add_task(j, (const int64_t[]){ 70, 4, 5, 6 });
	add_task(j, (const int64_t[]){ 3, 3, 1, 70 });
	prove(j);
}
END_TEST

START_TEST(everything_reduces_to_one_element) {
	struct job *j = reduction(KERNEL_FORM_ROW, OP_reduce_sum, DTYPE_f32, 1, 0);

	add_task(j, (const int64_t[]){ 1001 });
	prove(j);
}
END_TEST

START_TEST(blocks_of_a_long_extent_are_partial_results) {
	static const unsigned forms[] = { KERNEL_FORM_ROW, KERNEL_FORM_GENERAL, KERNEL_FORM_COLUMN };
	struct job *j =
		reduction(forms[_i], OP_reduce_sum, DTYPE_f32, forms[_i] == KERNEL_FORM_ROW ? 3 : 4, 2);

	j->k.block_dim = _i == 0 ? 1 : 0;
	if (_i == 0)
		add_task(j, (const int64_t[]){ 2, 3, 20000 });
	else
		add_task(j, (const int64_t[]){ 3, 2, 100, 200 });
	prove(j);
}
END_TEST

START_TEST(drawn_reductions_agree) {
	int64_t dims[KERNEL_RANK];
	unsigned rank, kept, form, dtype, x;
	struct job *j;

	seed = (uint64_t)_i + 77;
	form = KERNEL_FORM_ROW + pick(3);
	kept = form == KERNEL_FORM_COLUMN ? 1 + pick(2) : pick(3);
	rank = kept + (form == KERNEL_FORM_ROW ? 1 : 1 + pick(2));
	dtype = draw_dtype();
	j = job_new(KERNEL_REDUCE, rank, kept);
	j->k.form = (uint8_t)form;
	j->k.op = (uint16_t)
		reduce_ops[pick(dtype == DTYPE_f64 || dtype == DTYPE_i64 || dtype == DTYPE_f32 ? 4 : 1)];
	x = draw_values(j, dtype, 5, add_load(&j->k, dtype, KERNEL_CONTIGUOUS));
	j->k.reduced_value = (uint16_t)x;
	x = draw_values(j, dtype, 4, add_root(&j->k, dtype));
	for (unsigned o = 0; o < j->k.operands; o++)
		if (j->after[o] && form != KERNEL_FORM_COLUMN)
			j->k.operand[o].access = KERNEL_UNIFORM;
	add_output(&j->k, x, form == KERNEL_FORM_COLUMN ? KERNEL_CONTIGUOUS : KERNEL_UNIFORM, pick(2));
	for (unsigned t = 0; t < 3; t++) {
		draw_dims(dims, rank, 5000);
		add_task(j, dims);
	}
	prove(j);
}
END_TEST

/* ---- rows ---- */

static unsigned add_reduced(struct kernel *k, unsigned op, unsigned dtype, unsigned arg) {
	struct kernel_value reduced = { .kind = KERNEL_REDUCED, .dtype = (uint8_t)dtype, .op = (uint16_t)op,
		.arg = { (uint16_t)arg } };

	return add_value(k, reduced);
}

/* Finds the spaces of all values, from that of the loads. Requires all values and no outputs. */
static void find_spaces(struct job *j) {
	struct kernel *k = &j->k;

	for (unsigned v = 0; v < k->values; v++) {
		struct kernel_value *value = &k->value[v];

		value->space = KERNEL_SPACE_KEPT;
		if ((value->kind == KERNEL_LOAD || value->kind == KERNEL_IOTA) && !j->after[value->index])
			value->space = KERNEL_SPACE_ROW;
		for (unsigned i = 0; value->kind == KERNEL_OP && i < op_info(value->op)->arity; i++)
			if (k->value[value->arg[i]].space == KERNEL_SPACE_ROW)
				value->space = KERNEL_SPACE_ROW;
	}
	for (unsigned o = 0; o < k->operands; o++)
		if (k->form != KERNEL_FORM_COLUMN && j->after[o])
			k->operand[o].access = KERNEL_UNIFORM;
}

static void add_row_output(struct job *j, unsigned value, bool stream) {
	bool kept = j->k.value[value].space == KERNEL_SPACE_KEPT;
	unsigned access = kept && j->k.form != KERNEL_FORM_COLUMN ? KERNEL_UNIFORM : KERNEL_CONTIGUOUS;

	j->after[add_output(&j->k, value, access, stream)] = kept;
}

static struct job *rows(unsigned form, unsigned rank, unsigned kept, bool long_rows) {
	struct job *j = job_new(KERNEL_ROWS, rank, kept);

	j->k.form = (uint8_t)form;
	j->k.long_rows = long_rows;
	return j;
}

/* (x / w - max) / sum(x / w - max), the sum itself, and the square of the first. */
static struct job *softened(unsigned form, unsigned dtype, unsigned rank, unsigned kept, bool long_rows) {
	struct job *j = rows(form, rank, kept, long_rows);
	struct kernel *k = &j->k;
	unsigned x = add_load(k, dtype, KERNEL_CONTIGUOUS), w = add_load(k, dtype, KERNEL_STRIDED), y, sum;

	x = add_op(k, OP_div, dtype, x, w, 0);
	x = add_op(k, OP_sub, dtype, x, add_reduced(k, OP_reduce_max, dtype, x), 0);
	sum = add_reduced(k, OP_reduce_sum, dtype, x);
	y = add_op(k, OP_div, dtype, x, sum, 0);
	w = add_op(k, OP_square, dtype, x, 0, 0);
	find_spaces(j);
	add_row_output(j, y, true);
	add_row_output(j, sum, false);
	add_row_output(j, w, false);
	return j;
}

static const unsigned row_types[] = { DTYPE_f32, DTYPE_f64, DTYPE_f16, DTYPE_bf16 };

START_TEST(rows_are_reduced_and_mapped_in_one_kernel) {
	struct job *j = softened(KERNEL_FORM_ROW, row_types[_i], 2, 1, false);
	static const int64_t extents[] = { 1, 15, 16, 64, 65, 1000, 4095, 8192 };

	for (unsigned t = 0; t < TASKS; t++)
		add_task(j, (const int64_t[]){ 3, extents[t] });
	prove(j);
}
END_TEST

START_TEST(long_rows_are_reduced_block_by_block) {
	struct job *j = softened(KERNEL_FORM_ROW, DTYPE_f32, 2, 1, true);
	static const int64_t extents[] = { 0, 1, 8191, 8192, 8193, 20000 };

	for (unsigned t = 0; t < sizeof extents / sizeof *extents; t++)
		add_task(j, (const int64_t[]){ 2, extents[t] });
	prove(j);
}
END_TEST

START_TEST(rows_across_the_lanes_are_reduced_and_mapped_in_one_kernel) {
	struct job *j = softened(KERNEL_FORM_COLUMN, row_types[_i], 3, 2, false);

	j->k.far = _i % 2;
	add_task(j, (const int64_t[]){ 2, 1, 3 });
	add_task(j, (const int64_t[]){ 1, 10, 1797 });
	add_task(j, (const int64_t[]){ 3, 77, 65 });
	add_task(j, (const int64_t[]){ 1, 130, 64 });
	add_task(j, (const int64_t[]){ 2, 16, 0 });
	prove(j);
}
END_TEST

START_TEST(rows_of_several_dimensions_count_in_row_major_order) {
	struct job *j = softened(_i % 2 ? KERNEL_FORM_COLUMN : KERNEL_FORM_GENERAL, DTYPE_f32, 4, 1, _i / 2);

	add_task(j, (const int64_t[]){ 33, 4, 5, 6 });
	add_task(j, (const int64_t[]){ 2, 3, 1, 700 });
	add_task(j, (const int64_t[]){ 5, 1, 1, 1 });
	if (_i / 2)
		add_task(j, (const int64_t[]){ 3, 5, 50, 71 });
	prove(j);
}
END_TEST

START_TEST(more_blocks_than_columns_are_reduced_in_the_same_tree) {
	struct job *j = rows(KERNEL_FORM_ROW + (unsigned)_i, 2, 1, true);
	unsigned x = add_load(&j->k, DTYPE_f16, KERNEL_CONTIGUOUS);
	unsigned sum = add_reduced(&j->k, OP_reduce_sum, DTYPE_f16, x);

	find_spaces(j);
	add_row_output(j, sum, false);
	add_task(j, (const int64_t[]){ 1, (KERNEL_COLUMNS + 3) * KERNEL_BLOCK + 5 });
	prove(j);
}
END_TEST

START_TEST(empty_rows_have_results_of_their_own) {
	struct job *j = softened(KERNEL_FORM_ROW, DTYPE_f32, 2, 1, _i);

	add_task(j, (const int64_t[]){ 20, 0 });
	add_task(j, (const int64_t[]){ 0, 20 });
	prove(j);
}
END_TEST

/* One more value over those known: an operand, a reduction or an operation. */
static unsigned draw_row_value(struct job *j, unsigned dtype, const unsigned *known, unsigned count) {
	static const unsigned binary[] = { OP_add, OP_sub, OP_mul, OP_maximum, OP_minimum, OP_div };
	bool extremes = dtype == DTYPE_f32 || dtype == DTYPE_f64 || dtype == DTYPE_i64;
	unsigned a = known[pick(count)], b = known[pick(count)], from = draw_dtype();
	struct kernel *k = &j->k;

	switch (pick(9)) {
	case 0:
		a = add_load(k, dtype, pick(3));
		j->after[k->operands - 1] = pick(3) == 0;
		return a;
	case 1:
		a = add_load(k, from, pick(3));
		j->after[k->operands - 1] = pick(3) == 0;
		return add_op(k, OP_cast, dtype, a, 0, 0);
	case 2:
		a = add_iota(k, pick(3));
		j->after[k->operands - 1] = pick(3) == 0;
		return add_op(k, OP_cast, dtype, a, 0, 0);
	case 3:
		return add_scalar(k, dtype);
	case 4:
		return add_op(k, OP_where, dtype, add_op(k, OP_lt, DTYPE_bool, a, b, 0), b, a);
	case 5:
	case 6:
		return add_reduced(k, reduce_ops[extremes ? pick(3) : 0], dtype, a);
	default:
		return add_op(k, binary[pick(is_real(dtype) ? 6 : 5)], dtype, a, b, 0);
	}
}

/* Operations over rows of any number of reductions, one upon the other or side by side. */
static void draw_rows(struct job *j, unsigned dtype, unsigned n) {
	unsigned known[KERNEL_VALUES], count = 0;

	known[count++] = add_load(&j->k, dtype, KERNEL_CONTIGUOUS);
	for (unsigned i = 0; i < n; i++, count++)
		known[count] = draw_row_value(j, dtype, known, count);
	known[count] = add_reduced(&j->k, OP_reduce_sum, dtype, known[count - 1]);
	known[count] = add_op(&j->k, OP_sub, dtype, known[count], known[pick(count)], 0);
	find_spaces(j);
	add_row_output(j, known[count], pick(2));
	add_row_output(j, known[count / 2], pick(2));
	add_row_output(j, known[count - 1], pick(2));
}

START_TEST(drawn_rows_agree) {
	int64_t dims[KERNEL_RANK];
	unsigned form, kept, rank;
	struct job *j;

	seed = (uint64_t)_i + 500;
	form = KERNEL_FORM_ROW + (unsigned)_i % 3;
	kept = form == KERNEL_FORM_COLUMN ? 1 + pick(3) : pick(4);
	rank = kept + (form == KERNEL_FORM_ROW ? 1 : 1 + pick(2));
	j = rows(form, rank, kept, pick(4) == 0);
	j->k.far = _i / 3 % 2;
	draw_rows(j, draw_dtype(), 4 + pick(8));
	for (unsigned t = 0; t < 3; t++) {
		draw_dims(dims, rank, 3000);
		add_task(j, dims);
	}
	prove(j);
}
END_TEST

/* ---- scans ---- */

static const struct {
	unsigned op, type;
} scanned[] = {
	{ OP_reduce_sum, DTYPE_f32 },
	{ OP_reduce_sum, DTYPE_f64 },
	{ OP_reduce_sum, DTYPE_i64 },
	{ OP_reduce_prod, DTYPE_f32 },
	{ OP_reduce_prod, DTYPE_u64 },
	{ OP_reduce_max, DTYPE_f32 },
	{ OP_reduce_min, DTYPE_f16 },
	{ OP_reduce_max, DTYPE_i8 },
};
enum {
	SCANNED = sizeof scanned / sizeof *scanned
};

/* scan(a * b) along what the form says, then minus a load, and its product with a. */
static struct job *scan(unsigned form, unsigned op, unsigned type, unsigned rank) {
	struct job *j = job_new(KERNEL_SCAN, rank, rank - 1);
	struct kernel *k = &j->k;
	unsigned a = add_load(k, type, KERNEL_CONTIGUOUS), b = add_load(k, type, KERNEL_UNIFORM), root, y;

	k->form = (uint8_t)form;
	k->op = (uint16_t)op;
	k->reduced_value = add_op(k, OP_mul, type, a, b, 0);
	root = add_root(k, type);
	y = add_op(k, OP_sub, type, root, add_load(k, type, KERNEL_STRIDED), 0);
	add_output(k, root, KERNEL_CONTIGUOUS, false);
	add_output(k, add_op(k, OP_maximum, type, y, a, 0), KERNEL_CONTIGUOUS, false);
	return j;
}

START_TEST(rows_scan_in_the_documented_order) {
	struct job *j = scan(KERNEL_FORM_ROW, scanned[_i].op, scanned[_i].type, 2);
	static const int64_t extents[] = { 1, 15, 16, 17, 0, 65, 2100, 8192 };

	for (unsigned t = 0; t < TASKS; t++)
		add_task(j, (const int64_t[]){ 3, extents[t] });
	prove(j);
}
END_TEST

START_TEST(columns_scan_in_the_documented_order) {
	struct job *j = scan(KERNEL_FORM_COLUMN, scanned[_i].op, scanned[_i].type, 3);

	add_task(j, (const int64_t[]){ 2, 1, 3 });
	add_task(j, (const int64_t[]){ 1, 10, 997 });
	add_task(j, (const int64_t[]){ 2, 77, 65 });
	add_task(j, (const int64_t[]){ 1, 130, 16 });
	add_task(j, (const int64_t[]){ 2, 16, 0 });
	prove(j);
}
END_TEST

START_TEST(a_scan_of_everything_has_no_kept_dims) {
	struct job *j = scan(KERNEL_FORM_ROW, OP_reduce_sum, DTYPE_f32, 1);

	add_task(j, (const int64_t[]){ 1001 });
	prove(j);
}
END_TEST

START_TEST(blocks_of_a_long_scan_begin_with_their_carry) {
	bool column = _i;
	struct job *j = job_new(KERNEL_SCAN, 3, 2);
	struct kernel *k = &j->k;
	unsigned x = add_load(k, DTYPE_f32, KERNEL_CONTIGUOUS);

	k->form = column ? KERNEL_FORM_COLUMN : KERNEL_FORM_ROW;
	k->op = OP_reduce_sum;
	k->block_dim = column ? 0 : 1;
	k->reduced_value = (uint16_t)x;
	add_output(k, add_root(k, DTYPE_f32), KERNEL_CONTIGUOUS, false);
	k->carry = (uint8_t)add_operand(k, DTYPE_f32, column ? KERNEL_CONTIGUOUS : KERNEL_UNIFORM);
	if (column)
		add_task(j, (const int64_t[]){ 2, 9, 9000 });
	else
		add_task(j, (const int64_t[]){ 2, 3, 20000 });
	prove(j);
}
END_TEST

START_TEST(drawn_scans_agree) {
	int64_t dims[KERNEL_RANK];
	unsigned rank, dtype, x;
	struct job *j;

	seed = (uint64_t)_i + 177;
	rank = 2 + pick(3);
	dtype = draw_dtype();
	j = job_new(KERNEL_SCAN, rank, rank - 1);
	j->k.form = (uint8_t)(KERNEL_FORM_ROW + pick(2));
	j->k.op = (uint16_t)
		reduce_ops[pick(dtype == DTYPE_f64 || dtype == DTYPE_i64 || dtype == DTYPE_f32 ? 4 : 1)];
	x = draw_values(j, dtype, 5, add_load(&j->k, dtype, KERNEL_CONTIGUOUS));
	j->k.reduced_value = (uint16_t)x;
	x = draw_values(j, dtype, 4, add_root(&j->k, dtype));
	add_output(&j->k, x, KERNEL_CONTIGUOUS, false);
	add_output(&j->k, j->k.reduced_value, KERNEL_CONTIGUOUS, false);
	for (unsigned t = 0; t < 3; t++) {
		draw_dims(dims, rank, 5000);
		add_task(j, dims);
	}
	prove(j);
}
END_TEST

/* ---- matrix products ---- */

/* max(a @ b + bias, scalar), converted to the type of a. */
static struct job *product(unsigned type, unsigned accumulator, unsigned batch, unsigned access, unsigned tile) {
	struct job *j = job_new(KERNEL_MATMUL, batch + 3, 0);
	struct kernel *k = &j->k;
	unsigned root, y;

	k->op = OP_matmul;
	k->tile = (uint8_t)tile;
	add_operand(k, type, KERNEL_UNIFORM);
	add_operand(k, type, access);
	root = add_root(k, accumulator);
	y = add_op(k, OP_add, accumulator, root, add_load(k, accumulator, KERNEL_CONTIGUOUS), 0);
	y = add_op(k, OP_sub, accumulator, y, add_load(k, accumulator, KERNEL_UNIFORM), 0);
	y = add_op(k, OP_maximum, accumulator, y, add_scalar(k, accumulator), 0);
	add_output(k, add_op(k, OP_cast, type, y, 0, 0), KERNEL_CONTIGUOUS, false);
	add_output(k, root, KERNEL_CONTIGUOUS, false);
	return j;
}

START_TEST(products_of_any_size_sum_in_order) {
	struct job *j = product(DTYPE_f32, DTYPE_f32, 0, (unsigned)_i % 3, (unsigned)_i % 3);
	static const int64_t dims[TASKS][3] = {
		{ 1, 1, 1 },
		{ 8, 32, 128 },
		{ 9, 33, 129 },
		{ 70, 10, 64 },
		{ 3, 17, 300 },
		{ 5, 6, 0 },
		{ 0, 6, 5 },
		{ 135, 131, 18 },
	};

	j->k.small = _i >= 3;
	for (unsigned t = 0; t < TASKS; t++)
		add_task(j, dims[t]);
	prove(j);
}
END_TEST

START_TEST(products_of_every_type_agree) {
	static const unsigned types[][2] = {
		{ DTYPE_f16, DTYPE_f32 },
		{ DTYPE_bf16, DTYPE_f32 },
		{ DTYPE_f64, DTYPE_f64 },
		{ DTYPE_i8, DTYPE_i32 },
		{ DTYPE_i64, DTYPE_i64 },
		{ DTYPE_u16, DTYPE_u16 },
	};
	struct job *j = product(types[_i][0], types[_i][1], 1, _i % 2 ? KERNEL_STRIDED : KERNEL_CONTIGUOUS, (unsigned)_i / 2);

	j->k.small = _i / 2 % 2;
	add_task(j, (const int64_t[]){ 3, 13, 21, 40 });
	add_task(j, (const int64_t[]){ 1, 64, 64, 150 });
	prove(j);
}
END_TEST

START_TEST(batches_of_products_broadcast) {
	struct job *j = product(DTYPE_f32, DTYPE_f32, 7, KERNEL_CONTIGUOUS, KERNEL_TILE_SMALL);

	add_task(j, (const int64_t[]){ 2, 1, 2, 1, 3, 1, 2, 9, 10, 11 });
	prove(j);
}
END_TEST

/* ---- what the daemon does with programs ---- */

START_TEST(a_record_of_zeros_is_no_work) {
	struct job *j = _i == 0   ? broadcasts()
			: _i == 1 ? reduction(KERNEL_FORM_ROW, OP_reduce_sum, DTYPE_f32, 2, 1)
				  : product(DTYPE_f32, DTYPE_f32, 0, KERNEL_CONTIGUOUS, KERNEL_TILE_MEDIUM);
	uint8_t *got = malloc(POOL_BYTES);

	ck_assert_ptr_nonnull(got);
	/* As programs are warmed up. */
	j->zeros = true;
	j->tasks = 1;
	for (unsigned i = 0; i < VARIANTS; i++) {
		if (!is_taken(i))
			continue;
		set_width(&j->k, &variants[i].traits);
		launch(j, &j->k, &variants[i].traits, got);
		ck_assert_mem_eq(got, j->pool, POOL_BYTES);
	}
	free(got);
	job_free(j);
}
END_TEST

START_TEST(operands_may_lie_in_any_pool) {
	struct traits t = variants[_i].traits;
	struct job *j = broadcasts();
	uint8_t *expected = malloc(POOL_BYTES), *got = malloc(POOL_BYTES);

	t.pools = 4;
	add_task(j, (const int64_t[]){ 2, 3, 40 });
	memcpy(expected, j->pool, POOL_BYTES);
	reference(&j->k, j->record[0], expected);
	set_width(&j->k, &t);
	for (unsigned o = 0; o < j->k.operands; o++)
		j->record[0][kernel_word_operand(&j->k, o)] |= (uint64_t)(o % 4) << KERNEL_POOL_SHIFT;
	/* The same memory stands behind every pool. */
	launch(j, &j->k, &t, got);
	for (unsigned o = 0; o < j->k.operands; o++)
		j->record[0][kernel_word_operand(&j->k, o)] &= ((uint64_t)1 << KERNEL_POOL_SHIFT) - 1;
	unify_nans(j, expected);
	unify_nans(j, got);
	ck_assert_mem_eq(expected, got, POOL_BYTES);
	free(expected);
	free(got);
	job_free(j);
}
END_TEST

#define add_rounds(tcase, test, rounds) tcase_add_part_test(tcase, test, rounds, ROUNDS_OF)

static Suite *suite(void) {
	Suite *s = suite_create("emit_kernels");
	TCase *map = tcase_create("map"), *reduce = tcase_create("reduce"), *matmul = tcase_create("matmul");
	TCase *rows = tcase_create("rows"), *scans = tcase_create("scan");
	TCase *interpreted = tcase_create("interpreters");
	TCase *cases[] = { map, interpreted, reduce, matmul, rows, scans };

	add_rounds(map, every_type_loads_and_stores_with_every_access, 3);
	add_rounds(map, types_convert_to_every_other, CONVERTIBLE);
	tcase_add_test(map, broadcast_operands_meet_whole_ones);
	tcase_add_test(map, one_launch_runs_tasks_of_different_sizes);
	tcase_add_test(map, a_task_without_elements_writes_nothing);
	tcase_add_test(map, rank_0_is_one_element);
	add_rounds(map, an_iota_counts_along_every_dimension, 3);
	add_rounds(map, every_rank_finds_its_elements, 6);
	tcase_add_slice_test(map, random_bits_are_those_of_the_published_vectors, 5);
	add_rounds(map, gathers_read_where_their_index_says_and_nowhere_else, 9);
	add_rounds(reduce, gathers_stand_before_and_after_a_reduction, 3);
	add_rounds(map, drawn_elementwise_kernels_agree, 8);
	tcase_add_slice_test(interpreted, interpreted_kernels_agree, INTERPRETERS);
	tcase_add_slice_test(interpreted, interpreted_operations_have_the_bits_of_programs, DTYPE_COUNT);
	tcase_add_slice_test(map, operands_may_lie_in_any_pool, VARIANTS);
	add_rounds(map, a_record_of_zeros_is_no_work, 3);
	add_rounds(reduce, rows_reduce_in_the_documented_tree, REDUCTIONS);
	add_rounds(reduce, nothing_reduced_gives_zero_or_the_neutral_element, 5);
	add_rounds(reduce, columns_reduce_in_the_documented_tree, REDUCTIONS);
	add_rounds(reduce, reductions_over_several_dimensions_count_in_row_major_order, SUMS);
	add_rounds(reduce, columns_reduce_over_several_dimensions, SUMS);
	add_rounds(reduce, blocks_of_a_long_extent_are_partial_results, 3);
	tcase_add_test(reduce, everything_reduces_to_one_element);
	add_rounds(reduce, drawn_reductions_agree, 8);
	add_rounds(scans, rows_scan_in_the_documented_order, SCANNED);
	add_rounds(scans, columns_scan_in_the_documented_order, SCANNED);
	tcase_add_test(scans, a_scan_of_everything_has_no_kept_dims);
	add_rounds(scans, blocks_of_a_long_scan_begin_with_their_carry, 2);
	add_rounds(scans, drawn_scans_agree, 8);
	add_rounds(matmul, products_of_any_size_sum_in_order, 4);
	add_rounds(matmul, products_of_every_type_agree, 6);
	tcase_add_test(matmul, batches_of_products_broadcast);
	add_rounds(rows, rows_are_reduced_and_mapped_in_one_kernel, 4);
	tcase_add_test(rows, long_rows_are_reduced_block_by_block);
	add_rounds(rows, rows_across_the_lanes_are_reduced_and_mapped_in_one_kernel, 4);
	add_rounds(rows, rows_of_several_dimensions_count_in_row_major_order, 4);
	add_rounds(rows, more_blocks_than_columns_are_reduced_in_the_same_tree, 3);
	add_rounds(rows, empty_rows_have_results_of_their_own, 2);
	add_rounds(rows, drawn_rows_agree, 18);
	for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
		tcase_add_unchecked_fixture(cases[i], open_device, close_device);
		tcase_set_timeout(cases[i], 600);
		suite_add_tcase(s, cases[i]);
	}
	return s;
}

int main(void) {
	/* The driver's threads do not survive a fork. */
	return suite_run_as(suite(), CK_NOFORK);
}
