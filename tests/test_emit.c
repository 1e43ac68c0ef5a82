/* The text of programs and the cut of tasks; tests/test_emit_kernels.c runs them. */
#include <check.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/emit/bytecode.h"
#include "daemon/emit/emit.h"
#include "daemon/emit/instructions.h"
#include "tests/suite.h"

static const struct traits vectors = {
	.strategy = STRATEGY_CPU,
	.width = 16,
	.f64 = true,
	.exact_division = true,
	.local_size = 64,
	.units = 2,
	.pools = 1,
};
static const struct traits groups = {
	.strategy = STRATEGY_GPU,
	.width = 1,
	.f64 = true,
	.local_size = 256,
	.units = 64,
	.pools = 2,
};

/* relu(a + b), b of one row. */
static void make_add_relu(struct kernel *k) {
	*k = (struct kernel){
		.root = KERNEL_MAP, .width = 16, .rank = 2, .block_dim = 0xff, .root_value = KERNEL_NONE,
		.values = 4, .operands = 3,
		.value = {
			{ .kind = KERNEL_LOAD, .dtype = DTYPE_f32, .index = 0 },
			{ .kind = KERNEL_LOAD, .dtype = DTYPE_f32, .index = 1 },
			{ .kind = KERNEL_OP, .dtype = DTYPE_f32, .op = OP_add, .arg = { 0, 1 } },
			{ .kind = KERNEL_OP, .dtype = DTYPE_f32, .op = OP_relu, .arg = { 2 } },
		},
		.operand = {
			{ .dtype = DTYPE_f32, .access = KERNEL_CONTIGUOUS, .value = KERNEL_NONE },
			{ .dtype = DTYPE_f32, .access = KERNEL_UNIFORM, .value = KERNEL_NONE },
			{ .dtype = DTYPE_f32, .access = KERNEL_CONTIGUOUS, .output = true, .stream = true, .value = 3 },
		},
	};
}

/* One operation on operands of one type; `where` takes a bool first. */
static void make_op(struct kernel *k, unsigned op, unsigned dtype) {
	const struct op_info *info = op_info(op);

	*k = (struct kernel){
		.root = KERNEL_MAP, .width = 16, .rank = 1, .block_dim = 0xff, .root_value = KERNEL_NONE
	};
	for (unsigned i = 0; i < info->arity; i++) {
		uint8_t type = (uint8_t)(op == OP_where && i == 0 ? DTYPE_bool : dtype);

		k->value[k->values++] =
			(struct kernel_value){ .kind = KERNEL_LOAD, .dtype = type, .index = k->operands };
		k->operand[k->operands++] = (struct kernel_operand){ .dtype = type, .value = KERNEL_NONE };
	}
	k->value[k->values++] = (struct kernel_value){ .kind = KERNEL_OP,
		.op = (uint16_t)op,
		.arg = { 0, 1, 2 },
		.dtype = (uint8_t)(info->result == OP_RESULT_BOOL ? DTYPE_bool : dtype) };
	k->operand[k->operands++] = (struct kernel_operand){
		.dtype = k->value[k->values - 1].dtype, .output = true, .value = (uint16_t)(k->values - 1)
	};
}

static char *source_of(const struct kernel *k, const struct traits *t) {
	struct str s = { 0 };

	ck_assert_int_eq(emit_source(k, t, &s), 0);
	return s.text;
}

static char *body_of(const struct kernel *k, const struct traits *t) {
	struct str s = { 0 };

	ck_assert_int_eq(emit_body(k, t, &s), 0);
	return s.text;
}

/* bf16 products of f32 sums, as the planner would have tile `tile` compute them. */
static void make_product(struct kernel *k, unsigned tile) {
	*k = (struct kernel){
		.root = KERNEL_MATMUL, .op = OP_matmul, .rank = 3, .block_dim = 0xff, .accumulator = DTYPE_f32, .tile = (uint8_t)tile,
		.width = kernel_tiles[tile].lanes, .values = 1, .operands = 3,
		.value = { { .kind = KERNEL_ROOT_VALUE, .dtype = DTYPE_f32 } },
		.operand = {
			{ .dtype = DTYPE_bf16, .access = KERNEL_CONTIGUOUS, .value = KERNEL_NONE },
			{ .dtype = DTYPE_bf16, .access = KERNEL_CONTIGUOUS, .value = KERNEL_NONE },
			{ .dtype = DTYPE_f32, .access = KERNEL_CONTIGUOUS, .output = true },
		},
	};
}

START_TEST(only_matrix_tiles_name_instructions) {
	struct kernel k;
	char *source;
	bool matrix = kernel_tile_is_matrix((unsigned)_i), wgmma = kernel_tile_is_wgmma((unsigned)_i);

	make_product(&k, (unsigned)_i);
	source = source_of(&k, &groups);
	ck_assert(matrix == (strstr(source, "mma.sync") != NULL));
	ck_assert(wgmma == (strstr(source, "//HIDDEN wgmma.mma_async") != NULL));
	ck_assert(matrix == (strstr(source, "#define MATRIX_TYPE \"bf16\"") != NULL));
	free(source);
}
END_TEST

/*
 * Every item copies as many whole vectors of each factor as any other, and the pieces fit into 48 KiB; of those that only a trial
 * finds, into the 227 KiB that were seen to be there.
 */
START_TEST(tiles_are_cut_evenly) {
	const struct kernel_tile_info *i = &kernel_tiles[_i];
	bool matrix = kernel_tile_is_matrix((unsigned)_i);
	unsigned items = kernel_tile_items((unsigned)_i), lanes = matrix ? 8 : 4, pad = matrix ? 0 : 2 * lanes;
	unsigned bytes = matrix ? 2 : _i == KERNEL_TILE_HUGE ? 4 : 8;

	ck_assert_uint_le(items, 256);
	ck_assert_uint_eq(i->rows * i->depth / lanes % items, 0);
	ck_assert_uint_eq(i->columns * i->depth / lanes % items, 0);
	ck_assert_uint_le((i->rows + i->columns + pad) * i->depth * i->stages * bytes,
		kernel_tile_is_wgmma((unsigned)_i) ? 227 << 10 : 48 << 10);
}
END_TEST

/* Attention of f16, as the planner would have instructions on matrices compute it, or fma where `steps` is 0. */
static void make_attention(struct kernel *k, unsigned steps, unsigned wide, unsigned rows) {
	*k = (struct kernel){
		.root = KERNEL_ATTENTION, .op = OP_attention, .rank = 5, .block_dim = 0xff, .accumulator = DTYPE_f32, .inputs = 3,
		.width = steps ? 2 : 1, .vectors = 1, .rows = (uint8_t)rows, .steps = (uint8_t)steps, .wide = (uint8_t)wide,
		.hidden = KERNEL_NONE, .root_value = 1, .values = 2, .scalars = 1, .operands = 4,
		.value = { { .kind = KERNEL_SCALAR, .dtype = DTYPE_f32 }, { .kind = KERNEL_ROOT_VALUE, .dtype = DTYPE_f32 } },
		.operand = {
			{ .dtype = DTYPE_f16, .access = KERNEL_UNIFORM, .value = KERNEL_NONE },
			{ .dtype = DTYPE_f16, .access = KERNEL_UNIFORM, .value = KERNEL_NONE },
			{ .dtype = DTYPE_f16, .access = KERNEL_CONTIGUOUS, .value = KERNEL_NONE },
			{ .dtype = DTYPE_f32, .access = KERNEL_CONTIGUOUS, .output = true, .value = 1 },
		},
	};
}

/* Elements of "local ushort tile_k[4096]". */
static unsigned elements_of(const char *source, const char *array) {
	const char *at = strstr(source, array);

	ck_assert_ptr_nonnull(at);
	return (unsigned)strtoul(at + strlen(array), NULL, 10);
}

/* Of keys with any number of places and results of any number of columns, in all sizes of a group. */
START_TEST(attention_by_instructions_keeps_within_48_kib) {
	unsigned steps = (unsigned)_i % KERNEL_ATTENTION_STEPS + 1;

	for (unsigned wide = 1; wide <= KERNEL_ATTENTION_WIDE / 16; wide++)
		for (unsigned rows = KERNEL_ATTENTION_MOST / 2; rows <= KERNEL_ATTENTION_MOST; rows *= 2) {
			struct kernel k;
			unsigned bytes;
			char *source;

			make_attention(&k, steps, wide, rows);
			source = source_of(&k, &groups);
			bytes = 2 * (elements_of(source, "local ushort tile_k[") + elements_of(source, "local ushort tile_v["));
			ck_assert_uint_le(bytes, 48 << 10);
			ck_assert_uint_ge(bytes, 2 * KERNEL_ATTENTION_BLOCK * 16 * (steps + wide));
			ck_assert_uint_le(kernel_attention_items(&k), groups.local_size);
			ck_assert_ptr_nonnull(strstr(source, "mma.sync"));
			free(source);
		}
}
END_TEST

START_TEST(attention_by_fma_names_no_instructions) {
	struct kernel k;
	char *source;

	make_attention(&k, 0, 0, KERNEL_ATTENTION_BLOCK);
	source = source_of(&k, &groups);
	ck_assert_ptr_null(strstr(source, "mma.sync"));
	free(source);
}
END_TEST

START_TEST(the_text_of_a_kernel_is_known) {
	static const char expected[] =
		"static inline f32v op_add_f32(f32v a, f32v b) { return add_(a, b); }\n"
		"static inline f32v op_relu_f32(f32v a) { return relu_(a); }\n"
		"\n"
		"static __attribute__((noinline)) WIDE void body(global const ulong *records, ulong first, ulong own_item, "
		"ulong own_task, global uchar *pool0);\n"
		"kernel WIDE __attribute__((reqd_work_group_size(1, 1, 1)))\n"
		"void fused(global const ulong *records, ulong first, global uchar *pool0) {\n"
		"\tbody(records, first, get_group_id(0), get_global_id(1), pool0);\n"
		"}\n"
		"\n"
		"static __attribute__((noinline)) WIDE void body(global const ulong *records, ulong first, ulong own_item, "
		"ulong own_task, global uchar *pool0) {\n"
		"\tglobal const ulong *const r = records + first + own_task * 17;\n"
		"\n"
		"\tif (own_item >= r[0])\n"
		"\t\treturn;\n"
		"\tconst long d0 = r[6];\n"
		"\tconst long d1 = r[7];\n"
		"\t/* operand 0: input, f32, contiguous */\n"
		"\tglobal uchar *const a0 = ADDRESS(r[8]);\n"
		"\tconst long s0_0 = r[9];\n"
		"\t/* operand 1: input, f32, uniform */\n"
		"\tglobal uchar *const a1 = ADDRESS(r[11]);\n"
		"\tconst long s1_0 = r[12];\n"
		"\t/* operand 2: output, f32, contiguous */\n"
		"\tglobal uchar *const a2 = ADDRESS(r[14]);\n"
		"\tconst long s2_0 = r[15];\n"
		"\tconst ulong begin = r[5] + own_item * r[2];\n"
		"\tconst ulong end = min(begin + r[2], r[1]);\n"
		"\tconst long length = r[4];\n"
		"\tulong rest = begin;\n"
		"\tlong piece = take(&rest, r[3]);\n"
		"\tlong i0 = rest;\n"
		"\tfor (ulong unit = begin; unit < end; unit++) {\n"
		"\t\tconst long left = piece * length;\n"
		"\t\tconst long count = min(d1 - left, length);\n"
		"\t\tglobal uchar *const p0 = a0 + 4 * (i0 * s0_0 + left);\n"
		"\t\tglobal uchar *const p1 = a1 + 4 * (i0 * s1_0);\n"
		"\t\tglobal uchar *const p2 = a2 + 4 * (i0 * s2_0 + left);\n"
		"\t\tconst int aligned2 = ((ulong)p2 & (W * 4 - 1)) == 0;\n"
		"\t\tconst f32v v1 = uniform_f32(p1);\n"
		"\t\tfor (long j = 0; j < count; j += W) {\n"
		"\t\t\tconst int n = min(count - j, (long)W);\n"
		"\t\t\tconst f32v v0 = load_f32(p0 + 4 * j);\n"
		"\t\t\tconst f32v v2 = op_add_f32(v0, v1);\n"
		"\t\t\tconst f32v v3 = op_relu_f32(v2);\n"
		"\t\t\tif (aligned2 && n == W)\n"
		"\t\t\t\tstream_f32(p2 + 4 * j, v3);\n"
		"\t\t\telse\n"
		"\t\t\t\tstoren_f32(p2 + 4 * j, v3, n);\n"
		"\t\t}\n"
		"\t\tif (++piece < (long)r[3])\n"
		"\t\t\tcontinue;\n"
		"\t\tpiece = 0;\n"
		"\t\ti0++;\n"
		"\t}\n"
		"}\n";
	struct kernel k;
	char *text;

	make_add_relu(&k);
	text = body_of(&k, &vectors);
	ck_assert_str_eq(text, expected);
	free(text);
}
END_TEST

START_TEST(the_source_ends_with_the_body) {
	const struct traits *t = _i ? &groups : &vectors;
	char *source, *body;
	struct kernel k;

	make_add_relu(&k);
	k.width = t->width;
	source = source_of(&k, t);
	body = body_of(&k, t);
	ck_assert_uint_gt(strlen(source), strlen(body));
	ck_assert_str_eq(source + strlen(source) - strlen(body), body);
	ck_assert_int_eq(strncmp(source, "#pragma OPENCL FP_CONTRACT OFF\n", 31), 0);
	free(source);
	free(body);
}
END_TEST

static bool ends_in_a_barrier(const struct kernel *k, const struct traits *t) {
	static const char end[] = "\tbarrier(CLK_LOCAL_MEM_FENCE);\n}\n";
	char *body = body_of(k, t);
	bool found = strcmp(body + strlen(body) - strlen(end), end) == 0;

	free(body);
	return found;
}

START_TEST(a_kernel_with_barriers_ends_in_one_where_the_driver_needs_it) {
	struct traits closing = groups;
	struct kernel product, map;

	closing.closing_barrier = true;
	make_product(&product, KERNEL_TILE_MEDIUM);
	make_add_relu(&map);
	map.width = 1;
	ck_assert(ends_in_a_barrier(&product, &closing));
	ck_assert(!ends_in_a_barrier(&product, &groups));
	ck_assert(!ends_in_a_barrier(&map, &closing));
}
END_TEST

START_TEST(parts_that_are_not_in_use_do_not_show) {
	struct kernel a, b;
	char *first, *second;

	make_add_relu(&a);
	make_add_relu(&b);
	memset(&b.value[b.values], 0x33, sizeof b.value - b.values * sizeof *b.value);
	memset(&b.operand[b.operands], 0x33, sizeof b.operand - b.operands * sizeof *b.operand);
	first = source_of(&a, &vectors);
	second = source_of(&b, &vectors);
	ck_assert_str_eq(first, second);
	free(first);
	free(second);
}
END_TEST

START_TEST(values_that_no_output_needs_are_left_out) {
	struct kernel k;
	char *text;

	make_add_relu(&k);
	k.value[k.values++] =
		(struct kernel_value){ .kind = KERNEL_OP, .dtype = DTYPE_f32, .op = OP_tanh, .arg = { 3 } };
	text = source_of(&k, &vectors);
	ck_assert_ptr_null(strstr(text, "op_tanh"));
	ck_assert_ptr_null(strstr(text, "section:  math_f32"));
	free(text);
}
END_TEST

/* exp(exp(... x)), so many of them, then relu. */
static void make_chain(struct kernel *k, unsigned dear, uint8_t dtype) {
	*k = (struct kernel){ .root = KERNEL_MAP, .width = 16, .rank = 1, .block_dim = 0xff, .root_value = KERNEL_NONE,
		.values = 1, .operands = 2, .value = { { .kind = KERNEL_LOAD, .dtype = dtype, .index = 0 } },
		.operand = { { .dtype = dtype, .value = KERNEL_NONE }, { .dtype = dtype, .output = true } } };
	for (unsigned i = 0; i <= dear; i++, k->values++)
		k->value[k->values] = (struct kernel_value){ .kind = KERNEL_OP, .dtype = dtype,
			.op = i < dear ? OP_exp : OP_relu, .arg = { (uint16_t)(k->values - 1) } };
	k->operand[1].value = (uint16_t)(k->values - 1);
}

/* The sum of all values of a chain, from its end: all of them are kept. */
static void make_keeping(struct kernel *k, unsigned dear, uint8_t dtype) {
	make_chain(k, dear, dtype);
	for (unsigned v = k->values - 1; v > 1; v--, k->values++)
		k->value[k->values] = (struct kernel_value){ .kind = KERNEL_OP, .dtype = dtype, .op = OP_add,
			.arg = { (uint16_t)(k->values - 1), (uint16_t)(v - 1) } };
	k->operand[1].value = (uint16_t)(k->values - 1);
}

/* Vectors side by side: the first one has no number. */
static unsigned vectors_of(const struct kernel *k) {
	char *text = body_of(k, &vectors), name[16];
	unsigned n = 0;

	do
		snprintf(name, sizeof name, "v0_%u", ++n);
	while (strstr(text, name));
	free(text);
	return n;
}

START_TEST(a_chain_of_dear_operations_is_written_for_several_vectors) {
	struct kernel k;
	char *chain;

	make_chain(&k, 1, DTYPE_f32);
	ck_assert_uint_eq(vectors_of(&k), 1);
	make_chain(&k, 2, DTYPE_f32);
	ck_assert_uint_eq(vectors_of(&k), 8);
	chain = body_of(&k, &vectors);
	ck_assert_ptr_nonnull(strstr(chain, "v0_7 = load_f32(p0 + 4 * (j + 7 * W))"));
	ck_assert_ptr_nonnull(strstr(chain, "v3_7, W)"));
	/* What is left of a piece. */
	ck_assert_ptr_nonnull(strstr(chain, "v3, n)"));
	free(chain);
}
END_TEST

START_TEST(vectors_of_64_bits_a_lane_are_half_as_many) {
	struct kernel k;

	make_keeping(&k, 4, DTYPE_f32);
	ck_assert_uint_eq(vectors_of(&k), 4);
	make_keeping(&k, 4, DTYPE_f64);
	ck_assert_uint_eq(vectors_of(&k), 2);
}
END_TEST

/* Each vector would need all of them in registers. */
START_TEST(a_chain_that_keeps_many_values_is_written_for_one_vector) {
	struct kernel k;

	make_keeping(&k, 12, DTYPE_f32);
	ck_assert_uint_eq(vectors_of(&k), 1);
}
END_TEST

static bool has_section(const char *source, const char *name) {
	char line[64];

	snprintf(line, sizeof line, "section:  %s\n", name);
	return strstr(source, line) != NULL;
}

START_TEST(a_program_holds_the_sections_it_needs_and_no_others) {
	static const struct {
		unsigned op, dtype;
		bool real, integer, math32, math64, doubles;
	} rows[] = {
		{ OP_add, DTYPE_f32, true, false, false, false, false },
		{ OP_add, DTYPE_i32, false, true, false, false, false },
		{ OP_lt, DTYPE_f32, true, false, false, false, false },
		{ OP_logical_and, DTYPE_f32, true, true, false, false, false },
		{ OP_tanh, DTYPE_f16, true, false, true, false, false },
		{ OP_tanh, DTYPE_f64, true, false, false, true, true },
		{ OP_add, DTYPE_f64, true, false, false, false, true },
		{ OP_floor_divide, DTYPE_u32, false, true, false, false, true },
	};
	struct kernel k;
	char *text;

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		make_op(&k, rows[i].op, rows[i].dtype);
		text = source_of(&k, &vectors);
		ck_assert(has_section(text, "types") && has_section(text, "convert") &&
			  has_section(text, "memory"));
		ck_assert_int_eq(has_section(text, "real"), rows[i].real);
		ck_assert_int_eq(has_section(text, "integer"), rows[i].integer);
		ck_assert_int_eq(has_section(text, "math_f32"), rows[i].math32);
		ck_assert_int_eq(has_section(text, "math_f64"), rows[i].math64);
		ck_assert_int_eq(strstr(text, "#define HAS_F64 1") != NULL, rows[i].doubles);
		ck_assert(strstr(text, "section:  types") < strstr(text, "section:  memory"));
		free(text);
	}
}
END_TEST

/* Is a word defined or called in the text before `end`? */
static bool is_known(const char *text, const char *end, const char *word, size_t length) {
	for (const char *p = text; (p = memmem(p, (size_t)(end - p), word, length)); p++)
		if (p > text && !isalnum((unsigned char)p[-1]) && p[-1] != '_' && p[length] == '(')
			return true;
	return false;
}

static bool takes(const struct op_info *info, unsigned dtype) {
	static const unsigned kinds[] = {
		[OP_TYPES_ANY] = 0xf,
		[OP_TYPES_NUM] = 1 << DTYPE_KIND_SINT | 1 << DTYPE_KIND_UINT | 1 << DTYPE_KIND_REAL,
		[OP_TYPES_REAL] = 1 << DTYPE_KIND_REAL,
		[OP_TYPES_INT] = 1 << DTYPE_KIND_SINT | 1 << DTYPE_KIND_UINT,
		[OP_TYPES_BITS] = 1 << DTYPE_KIND_SINT | 1 << DTYPE_KIND_UINT | 1 << DTYPE_KIND_BOOL,
		[OP_TYPES_BOOL] = 1 << DTYPE_KIND_BOOL,
	};

	return kinds[info->types] >> dtype_info(dtype)->kind & 1;
}

/* Every function that the expression calls stands in the sections before the body. */
static void check_functions(unsigned op, unsigned dtype) {
	struct kernel k;
	char *text, *body;

	make_op(&k, op, dtype);
	text = source_of(&k, &vectors);
	body = strstr(text, "static inline long take(");
	ck_assert_ptr_nonnull(body);
	for (const char *p = op_info(op)->expr; *p;) {
		size_t length = strspn(p, "abcdefghijklmnopqrstuvwxyz0123456789_");

		if (length && p[length] == '(' && !is_known(text, body, p, length))
			ck_abort_msg("%s on %s: no section in the program provides %.*s", op_info(op)->name,
				dtype_info(dtype)->name, (int)length, p);
		p += length ? length : 1;
	}
	free(text);
}

START_TEST(every_operation_finds_its_functions) {
	for (unsigned op = 0; op < OP_COUNT; op++)
		for (unsigned dtype = 0; op_info(op) && op_is_elementwise(op_info(op)) && dtype < DTYPE_COUNT;
			dtype++)
			if (takes(op_info(op), dtype))
				check_functions(op, dtype);
}
END_TEST

START_TEST(sixteen_bit_floats_are_rounded_where_a_result_may_not_be_one) {
	struct kernel k;
	char *text;

	make_op(&k, OP_mul, DTYPE_f16);
	text = body_of(&k, &vectors);
	ck_assert_ptr_nonnull(strstr(text, "return round_f16(mul_(a, b));"));
	free(text);
	make_op(&k, OP_maximum, DTYPE_bf16);
	text = body_of(&k, &vectors);
	ck_assert_ptr_nonnull(strstr(text, "return max_(a, b);"));
	free(text);
}
END_TEST

/* ---- geometry ---- */

static const int64_t shapes[][2] = {
	{ 1, 1 },
	{ 1, 16 },
	{ 3, 17 },
	{ 1, 8192 },
	{ 1, 8193 },
	{ 1, 16 << 20 },
	{ 1797, 10 },
	{ 1797, 64 },
	{ 16384, 1000 },
	{ 5, 20000 },
	{ 2, 1 << 28 },
};
enum {
	SHAPES = sizeof shapes / sizeof *shapes
};

START_TEST(pieces_and_items_cover_every_element) {
	uint64_t record[64], pieces, length;
	struct emit_launch l;
	struct kernel k;

	make_add_relu(&k);
	l = emit_geometry(&k, &vectors, shapes[_i], 0, record);
	pieces = record[KERNEL_WORD_PIECES];
	length = record[KERNEL_WORD_EXTENT];
	ck_assert_uint_eq(record[KERNEL_WORD_UNITS], (uint64_t)shapes[_i][0] * pieces);
	ck_assert_uint_ge(pieces * length, (uint64_t)shapes[_i][1]);
	ck_assert_uint_lt((pieces - 1) * length, (uint64_t)shapes[_i][1]);
	ck_assert_uint_eq(length % 64, 0);
	ck_assert_uint_ge(record[KERNEL_WORD_ITEMS] * record[KERNEL_WORD_UNITS_PER_ITEM],
		record[KERNEL_WORD_UNITS]);
	ck_assert_uint_eq(l.items, record[KERNEL_WORD_ITEMS]);
	ck_assert_uint_eq(l.local, 1);
}
END_TEST

START_TEST(groups_are_whole_and_cover_every_element) {
	uint64_t record[64], elements = (uint64_t)(shapes[_i][0] * shapes[_i][1]);
	struct emit_launch l;
	struct kernel k;

	make_add_relu(&k);
	k.width = 1;
	l = emit_geometry(&k, &groups, shapes[_i], 0, record);
	ck_assert_uint_eq(l.items % l.local, 0);
	ck_assert_uint_eq(record[KERNEL_WORD_UNITS], elements);
	ck_assert_uint_ge(record[KERNEL_WORD_ITEMS] * record[KERNEL_WORD_UNITS_PER_ITEM], elements);
}
END_TEST

START_TEST(a_small_task_is_one_item) {
	uint64_t record[64];
	struct kernel k;

	make_add_relu(&k);
	ck_assert_uint_eq(emit_geometry(&k, &vectors, (const int64_t[]){ 4, 256 }, 0, record).items, 1);
}
END_TEST

START_TEST(a_large_task_keeps_every_compute_unit_busy) {
	uint64_t record[64];
	struct kernel k;

	make_add_relu(&k);
	ck_assert_uint_ge(emit_geometry(&k, &vectors, (const int64_t[]){ 1, 100000 }, 0, record).items, 8);
	k.root = KERNEL_REDUCE;
	k.form = KERNEL_FORM_COLUMN;
	k.kept = 1;
	ck_assert_uint_ge(emit_geometry(&k, &vectors, (const int64_t[]){ 128, 8000 }, 8000, record).items, 2);
}
END_TEST

START_TEST(strips_of_rows_keep_all_units_busy_until_the_end) {
	static const struct { int64_t columns; uint64_t strips; } wanted[] = { { 777, 10 }, { 1024, 8 }, { 16, 1 }, { 100000, 782 } };
	uint64_t record[64];
	struct kernel k;

	make_add_relu(&k);
	k.root = KERNEL_ROWS;
	k.form = KERNEL_FORM_COLUMN;
	k.kept = 1;
	for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
		emit_geometry(&k, &vectors, (const int64_t[]){ wanted[i].columns, 1000 }, 1000, record);
		ck_assert_uint_eq(record[KERNEL_WORD_PIECES], wanted[i].strips);
	}
}
END_TEST

START_TEST(an_empty_task_has_no_items_and_can_be_launched) {
	const struct traits *t = _i % 2 ? &groups : &vectors;
	uint64_t record[64];
	struct emit_launch l;
	struct kernel k;

	make_add_relu(&k);
	k.width = t->width;
	k.rank = 3;
	k.root = (uint8_t)(_i / 2);
	k.accumulator = DTYPE_f32;
	k.vectors = 2;
	k.rows = 6;
	k.form = k.root == KERNEL_REDUCE ? KERNEL_FORM_COLUMN : KERNEL_FORM_PLAIN;
	k.kept = 2;
	for (unsigned empty = 0; empty < 2; empty++) {
		int64_t dims[] = { 5, 7, 9 };

		dims[empty] = 0;
		l = emit_geometry(&k, t, dims, 9, record);
		ck_assert_uint_eq(record[KERNEL_WORD_ITEMS], 0);
		ck_assert_uint_gt(l.items, 0);
		ck_assert_uint_eq(l.items % l.local, 0);
	}
}
END_TEST

/* ---- bytecode ---- */

static unsigned count_instructions(const struct bytecode *b, enum instruction_kind kind) {
	const struct instruction_set *set = instructions_of(b->dialect, &vectors);
	unsigned n = 0;

	for (uint32_t i = 1; i < b->words; i++)
		n += set->row[b->word[i] & 0xffff].kind == kind;
	return n;
}

START_TEST(an_instruction_is_found_by_what_it_is) {
	for (enum dialect d = 0; d < DIALECTS; d++) {
		const struct instruction_set *set = instructions_of(d, &vectors);

		ck_assert_ptr_eq(instructions_of(d, &vectors), set);
		ck_assert_uint_lt(set->count, INSTRUCTIONS);
		for (unsigned n = 0; n < set->count; n++)
			ck_assert_int_eq(instruction_find(set, &set->row[n]), (int)n);
		ck_assert_int_eq(instruction_find(set, &(struct instruction){ .kind = INSTRUCTION_OPERATION, .op = OP_COUNT }), -1);
	}
}
END_TEST

START_TEST(every_operation_is_an_instruction_of_some_dialect) {
	struct bytecode b;
	struct kernel k;

	for (unsigned op = 0; op < OP_COUNT; op++)
		for (unsigned type = 0; type < DTYPE_COUNT; type++) {
			const char *reason;

			if (!op_info(op) || !op_is_elementwise(op_info(op)) ||
				!op_types_take(op_info(op)->types, dtype_info(type)->kind))
				continue;
			make_op(&k, op, type);
			reason = bytecode_make(&k, &vectors, &b);
			ck_assert_msg(!reason, "%s of %s: %s", op_info(op)->name, dtype_info(type)->name, reason);
		}
}
END_TEST

/* sum of products of all pairs: every load is in use until the last one was read. */
static void make_pairs(struct kernel *k, unsigned loads) {
	unsigned sum = 0;

	make_op(k, OP_relu, DTYPE_f32);
	k->values = k->operands = 0;
	for (unsigned i = 0; i < loads; i++) {
		k->value[k->values++] = (struct kernel_value){ .kind = KERNEL_LOAD, .dtype = DTYPE_f32, .index = (uint16_t)i };
		k->operand[k->operands++] = (struct kernel_operand){ .dtype = DTYPE_f32, .value = KERNEL_NONE };
	}
	for (unsigned pass = 0; pass < 2; pass++)
		for (unsigned i = 0; i < loads; i++, sum = k->values - 1u)
			k->value[k->values++] = (struct kernel_value){ .kind = KERNEL_OP, .dtype = DTYPE_f32,
				.op = OP_add, .arg = { (uint16_t)sum, (uint16_t)i } };
	k->operand[k->operands++] = (struct kernel_operand){ .dtype = DTYPE_f32, .output = true, .value = (uint16_t)sum };
}

START_TEST(registers_are_used_again_and_too_many_are_refused) {
	struct bytecode b;
	struct kernel k;

	make_pairs(&k, 20);
	ck_assert_ptr_null(bytecode_make(&k, &vectors, &b));
	ck_assert_uint_eq(count_instructions(&b, INSTRUCTION_LOAD), 20);
	for (uint32_t i = 1; i < b.words; i++)
		ck_assert_uint_lt(b.word[i] >> 16 & 0xff, interpreter_shape(&vectors).registers);
	make_pairs(&k, 30);
	ck_assert_str_eq(bytecode_make(&k, &vectors, &b), "it needs more registers than an interpreter has");
}
END_TEST

START_TEST(short_operations_one_upon_the_other_are_a_chain) {
	struct bytecode b;
	struct kernel k;

	make_pairs(&k, 3);
	ck_assert_ptr_null(bytecode_make(&k, &vectors, &b));
	ck_assert_uint_eq(count_instructions(&b, INSTRUCTION_REACH), 3);
	ck_assert_uint_eq(count_instructions(&b, INSTRUCTION_CHAIN), 1);
	ck_assert_uint_eq(count_instructions(&b, INSTRUCTION_LINK), 6);
	ck_assert_uint_eq(count_instructions(&b, INSTRUCTION_KEEP), 0);
	/* Its value goes to memory; where the block is not whole, by way of a register. */
	ck_assert_uint_eq(count_instructions(&b, INSTRUCTION_END), 0);
	ck_assert_uint_eq(count_instructions(&b, INSTRUCTION_WRITE), 1);
	ck_assert_uint_eq(count_instructions(&b, INSTRUCTION_STORE), 1);
}
END_TEST

START_TEST(another_instruction_or_reader_keeps_a_chains_value) {
	struct bytecode b;
	struct kernel k;

	make_pairs(&k, 3);
	/* The second sum is read again by the third, beside the one before it, and an exponential stands in between. */
	k.value[5].arg[1] = 4;
	k.value[7].op = OP_exp;
	ck_assert_ptr_null(bytecode_make(&k, &vectors, &b));
	ck_assert_uint_eq(count_instructions(&b, INSTRUCTION_KEEP), 1);
	ck_assert_uint_eq(count_instructions(&b, INSTRUCTION_CHAIN), 2);
	ck_assert_uint_eq(count_instructions(&b, INSTRUCTION_END), 1);
}
END_TEST

static uint64_t first_of(const struct bytecode *b, enum instruction_kind kind) {
	const struct instruction_set *set = instructions_of(b->dialect, &vectors);
	uint32_t i = 1;

	while (i < b->words && set->row[b->word[i] & 0xffff].kind != kind)
		i++;
	ck_assert_uint_lt(i, b->words);
	return b->word[i];
}

/* (a + b) * (a < b): the sum is in a chain when the comparison is read for the last time. */
START_TEST(the_end_of_a_chain_takes_no_register_that_the_next_instruction_reads) {
	struct bytecode b;
	struct kernel k;

	make_op(&k, OP_lt, DTYPE_f32);
	k.value[k.values++] = (struct kernel_value){ .kind = KERNEL_OP, .dtype = DTYPE_f32, .op = OP_add, .arg = { 0, 1 } };
	k.value[k.values++] = (struct kernel_value){ .kind = KERNEL_OP, .dtype = DTYPE_f32, .op = OP_cast, .arg = { 2 } };
	k.value[k.values++] = (struct kernel_value){ .kind = KERNEL_OP, .dtype = DTYPE_f32, .op = OP_mul, .arg = { 3, 4 } };
	k.operand[k.operands - 1] = (struct kernel_operand){ .dtype = DTYPE_f32, .output = true, .value = 5 };
	ck_assert_ptr_null(bytecode_make(&k, &vectors, &b));
	ck_assert_uint_eq(count_instructions(&b, INSTRUCTION_END), 1);
	ck_assert_uint_ne(first_of(&b, INSTRUCTION_END) >> 16 & 0xff, first_of(&b, INSTRUCTION_CAST) >> 24 & 0xff);
}
END_TEST

START_TEST(what_is_read_in_place_and_stored_is_copied_before_another_output_is) {
	struct bytecode b;
	struct kernel k;

	make_pairs(&k, 2);
	ck_assert_ptr_null(bytecode_make(&k, &vectors, &b));
	ck_assert_uint_eq(count_instructions(&b, INSTRUCTION_LOAD), 2);
	k.operand[k.operands++] = (struct kernel_operand){ .dtype = DTYPE_f32, .output = true, .value = 0 };
	ck_assert_ptr_null(bytecode_make(&k, &vectors, &b));
	ck_assert_uint_eq(count_instructions(&b, INSTRUCTION_REACH), 2);
	ck_assert_uint_eq(count_instructions(&b, INSTRUCTION_LOAD), 3);
}
END_TEST

START_TEST(what_is_the_same_along_a_row_is_loaded_once_a_row) {
	const struct instruction_set *set;
	struct bytecode b;
	struct kernel k;
	uint32_t i = 1;

	make_add_relu(&k);
	ck_assert_ptr_null(bytecode_make(&k, &vectors, &b));
	ck_assert_int_eq(b.dialect, DIALECT_common);
	ck_assert_uint_eq(b.word[0], 2);
	set = instructions_of(b.dialect, &vectors);
	while (set->row[b.word[i] & 0xffff].kind != INSTRUCTION_BLOCKS)
		ck_assert_int_ne(set->row[b.word[i++] & 0xffff].kind, INSTRUCTION_LOAD);
	ck_assert_int_eq(set->row[b.word[i - 1] & 0xffff].kind, INSTRUCTION_LOAD_UNIFORM);
	ck_assert_uint_eq(count_instructions(&b, INSTRUCTION_LOAD_UNIFORM), 1);
	ck_assert_uint_eq(count_instructions(&b, INSTRUCTION_STREAM_STORE), 1);
}
END_TEST

START_TEST(kernels_that_no_interpreter_runs_are_refused) {
	struct traits floats_alone = vectors;
	struct bytecode b;
	struct kernel k;

	make_add_relu(&k);
	k.root = KERNEL_SCATTER;
	ck_assert_ptr_nonnull(bytecode_make(&k, &vectors, &b));
	make_op(&k, OP_add, DTYPE_f64);
	ck_assert_ptr_null(bytecode_make(&k, &vectors, &b));
	floats_alone.f64 = false;
	ck_assert_ptr_nonnull(bytecode_make(&k, &floats_alone, &b));
	/* Two element types that no dialect holds together. */
	make_op(&k, OP_add, DTYPE_f64);
	k.value[1].dtype = k.operand[1].dtype = DTYPE_i8;
	ck_assert_str_eq(bytecode_make(&k, &vectors, &b), "no interpreter has all its element types");
	make_op(&k, OP_add, DTYPE_f32);
	k.value[2].op = OP_OWN_FIRST;
	ck_assert_ptr_nonnull(bytecode_make(&k, &vectors, &b));
}
END_TEST

static Suite *suite(void) {
	Suite *s = suite_create("emit");
	TCase *text = tcase_create("text"), *geometry = tcase_create("geometry");

	tcase_add_test(text, the_text_of_a_kernel_is_known);
	tcase_add_loop_test(text, the_source_ends_with_the_body, 0, 2);
	tcase_add_test(text, parts_that_are_not_in_use_do_not_show);
	tcase_add_test(text, a_kernel_with_barriers_ends_in_one_where_the_driver_needs_it);
	tcase_add_test(text, values_that_no_output_needs_are_left_out);
	tcase_add_test(text, a_chain_of_dear_operations_is_written_for_several_vectors);
	tcase_add_test(text, vectors_of_64_bits_a_lane_are_half_as_many);
	tcase_add_test(text, a_chain_that_keeps_many_values_is_written_for_one_vector);
	tcase_add_test(text, a_program_holds_the_sections_it_needs_and_no_others);
	tcase_add_test(text, every_operation_finds_its_functions);
	tcase_add_test(text, an_instruction_is_found_by_what_it_is);
	tcase_add_test(text, every_operation_is_an_instruction_of_some_dialect);
	tcase_add_test(text, registers_are_used_again_and_too_many_are_refused);
	tcase_add_test(text, short_operations_one_upon_the_other_are_a_chain);
	tcase_add_test(text, the_end_of_a_chain_takes_no_register_that_the_next_instruction_reads);
	tcase_add_test(text, another_instruction_or_reader_keeps_a_chains_value);
	tcase_add_test(text, what_is_read_in_place_and_stored_is_copied_before_another_output_is);
	tcase_add_test(text, what_is_the_same_along_a_row_is_loaded_once_a_row);
	tcase_add_test(text, kernels_that_no_interpreter_runs_are_refused);
	tcase_add_test(text, sixteen_bit_floats_are_rounded_where_a_result_may_not_be_one);
	tcase_add_loop_test(geometry, pieces_and_items_cover_every_element, 0, SHAPES);
	tcase_add_loop_test(geometry, groups_are_whole_and_cover_every_element, 0, SHAPES);
	tcase_add_test(geometry, a_small_task_is_one_item);
	tcase_add_loop_test(geometry, tiles_are_cut_evenly, 0, KERNEL_TILES);
	tcase_add_loop_test(geometry, only_matrix_tiles_name_instructions, 0, KERNEL_TILES);
	tcase_add_loop_test(geometry, attention_by_instructions_keeps_within_48_kib, 0, KERNEL_ATTENTION_STEPS);
	tcase_add_test(geometry, attention_by_fma_names_no_instructions);
	tcase_add_test(geometry, a_large_task_keeps_every_compute_unit_busy);
	tcase_add_test(geometry, strips_of_rows_keep_all_units_busy_until_the_end);
	tcase_add_loop_test(geometry, an_empty_task_has_no_items_and_can_be_launched, 0, 6);
	suite_add_tcase(s, text);
	suite_add_tcase(s, geometry);
	return s;
}

int main(void) {
	return suite_run(suite());
}
