/*
 * The text of an interpreter: kernels/interp.cl, the functions of its dialect, and a kernel with a case for
 * each instruction. See bytecode.h.
 *
 * An instruction does a block of 256 elements, so that finding out which one it is costs little beside the work. On CPUs
 * registers are private memory, which stays in the nearest cache, and short operations are links of chains, which read and write as
 * little of it as they can; on GPUs local memory, a column an item.
 */
#include "bytecode.h"

#include "daemon/emit/instructions.h"
#include "daemon/emit/writer.h"

enum {
	INTERPRETER_BLOCK = 256,
	/* Of transposed reading, where rows are too few for tiles: as many lines of each operand stay in the second level of cache. */
	INTERPRETER_STRIP = 64,
	/*
	 * On CPUs 48 KiB, of which 32-bit types use half and most programs a few registers, in the nearest cache; on GPUs 32 KiB a
	 * group.
	 */
	INTERPRETER_REGISTERS = 24,
	INTERPRETER_GROUP_REGISTERS = 16,
	INTERPRETER_GROUP = 64,
};

struct interpreter_shape interpreter_shape(const struct traits *t) {
	if (t->strategy == STRATEGY_GPU)
		return (struct interpreter_shape){ INTERPRETER_GROUP_REGISTERS, KERNEL_GPU_VECTOR, 1, INTERPRETER_GROUP };
	return (struct interpreter_shape){ INTERPRETER_REGISTERS, t->width, (uint8_t)(INTERPRETER_BLOCK / t->width), 1 };
}

static struct value_function function_of(const struct instruction *i) {
	struct value_function f = { .op = i->op, .arity = op_info(i->op)->arity, .result = i->result };

	for (unsigned n = 0; n < f.arity; n++)
		f.type[n] = i->type;
	if (i->op == OP_where)
		f.type[0] = DTYPE_u8;
	return f;
}

/* ---- what stands before the kernel ---- */

static void write_defines(const struct writer *w, enum dialect dialect, struct str *text) {
	struct interpreter_shape shape = interpreter_shape(w->t);
	/* Doubles also divide vectors of 32-bit integers. */
	bool doubles = instruction_dialect_has(dialect, DTYPE_f64) || instruction_dialect_has(dialect, DTYPE_u32);

	str_append(text, "#pragma OPENCL FP_CONTRACT OFF\n");
	str_printf(text, "#define W %u\n", shape.width);
	if (doubles && w->t->f64)
		str_append(text, "#define HAS_F64 1\n");
	str_printf(text, "#define INTERP_GROUP %u\n", (unsigned)shape.group);
	if (w->t->strategy == STRATEGY_CPU)
		str_append(text, "#define INTERP_CHAINS\n");
	str_printf(text, "#define INTERP_VECTORS %u\n", shape.vectors);
	str_printf(text, "#define INTERP_REGISTERS %u\n", shape.registers);
	str_printf(text, "#define INTERP_OPERANDS %u\n", KERNEL_OPERANDS);
	str_printf(text, "#define INTERP_STRIP %u\n", INTERPRETER_STRIP);
	str_printf(text, "#define INTERP_ITEMS %u\n", KERNEL_WORD_ITEMS);
	str_printf(text, "#define INTERP_UNITS %u\n", KERNEL_WORD_UNITS);
	str_printf(text, "#define INTERP_UNITS_PER_ITEM %u\n", KERNEL_WORD_UNITS_PER_ITEM);
	str_printf(text, "#define INTERP_PIECES %u\n", KERNEL_WORD_PIECES);
	str_printf(text, "#define INTERP_EXTENT %u\n", KERNEL_WORD_EXTENT);
	str_printf(text, "#define INTERP_FIRST %u\n", KERNEL_WORD_BEGIN);
	str_printf(text, "#define INTERP_DIMS %u\n", KERNEL_WORD_DIMS);
}

/* Of the forms of one operation. */
static bool is_first_link(const struct instruction *i) {
	return i->kind == INSTRUCTION_LINK && (i->from == LINK_UNARY || i->from == LINK_BEFORE);
}

static unsigned list_functions(const struct instruction_set *s, struct value_function list[static INSTRUCTIONS]) {
	unsigned n = 0;

	for (unsigned i = 0; i < s->count; i++)
		if (s->row[i].kind == INSTRUCTION_OPERATION || is_first_link(&s->row[i]))
			list[n++] = function_of(&s->row[i]);
	return n;
}

/* ---- the cases ---- */

/* The words of interp.cl. */
static const char *const words[] = {
	[INSTRUCTION_ACROSS] = "INTERP_ACROSS",
	[INSTRUCTION_UNIT] = "INTERP_UNIT",
	[INSTRUCTION_PLACE] = "INTERP_PLACE",
	[INSTRUCTION_BLOCKS] = "INTERP_BLOCKS",
	[INSTRUCTION_NEXT] = "INTERP_NEXT",
	[INSTRUCTION_REACH] = "INTERP_REACH",
	[INSTRUCTION_CHAIN] = "INTERP_CHAIN",
	[INSTRUCTION_KEEP] = "LINK_KEEP",
	[INSTRUCTION_END] = "LINK_END",
	[INSTRUCTION_WRITE] = "LINK_WRITE",
	[INSTRUCTION_STREAM] = "LINK_STREAM",
	[INSTRUCTION_LOAD] = "LOAD",
	[INSTRUCTION_LOAD_UNIFORM] = "LOAD_UNIFORM",
	[INSTRUCTION_LOAD_STRIDED] = "LOAD_STRIDED",
	[INSTRUCTION_SCALAR] = "SCALAR",
	[INSTRUCTION_COUNT] = "COUNT",
	[INSTRUCTION_STORE] = "STORE",
	[INSTRUCTION_STORE_UNIFORM] = "STORE_UNIFORM",
	[INSTRUCTION_STORE_STRIDED] = "STORE_STRIDED",
	[INSTRUCTION_STREAM_STORE] = "STREAM_STORE",
};

static void write_operation(struct writer *w, const struct instruction *i, unsigned number) {
	static const char *const arity[] = { "", "UNARY", "BINARY", "TERNARY" };
	struct value_function f = function_of(i);

	text_part(w, "%s%s(%u, ", instruction_is_short(i) ? "SHORT_" : "", arity[f.arity], number);
	value_function_name(w, f.op, i->type);
	text_part(w, ", %s", value_register(f.result));
	for (unsigned n = 0; n < f.arity; n++)
		text_part(w, ", %s", value_register(f.type[n]));
	text_part(w, ")");
}

/* What does not steer is a function of its own. */
static bool is_apart(const struct instruction *i) {
	return i->kind >= INSTRUCTION_LOAD;
}

static void write_apart(struct writer *w, const struct instruction *i, unsigned number) {
	const struct dtype_info *type = dtype_info(i->type);

	if (i->kind == INSTRUCTION_OPERATION)
		write_operation(w, i, number);
	else if (i->kind == INSTRUCTION_CAST)
		text_part(w, "UNARY(%u, to_%s, %s, %s)", number, type->name, value_register(i->type), value_register(i->from));
	else if (i->kind == INSTRUCTION_ROUND)
		text_part(w, "UNARY(%u, round_%s, f32v, f32v)", number, type->name);
	else
		text_part(w, "%s(%u, %s, %s, %u)", words[i->kind], number, type->name, value_register(i->type), type->bytes);
}

/* What tiles of transposed operands are turned by. */
static void write_turn(struct writer *w) {
	if (w->t->strategy != STRATEGY_CPU || w->k->width == 1)
		return;
	matmul_turn(w, DTYPE_i32);
	text_line(w, "TURN_WORDS");
	text_blank(w);
}

static void write_functions(struct writer *w, const struct instruction_set *s) {
	for (unsigned i = 0; i < s->count; i++) {
		if (!is_apart(&s->row[i]))
			continue;
		text_begin(w);
		write_apart(w, &s->row[i], i);
		text_end(w);
	}
	text_blank(w);
}

static void write_case(struct writer *w, const struct instruction *i, unsigned number) {
	if (is_apart(i))
		text_part(w, "CALL(%u)", number);
	else
		text_part(w, "%s", words[i->kind]);
}

static void write_cases(struct writer *w, const struct instruction_set *s) {
	for (unsigned i = 0; i < s->count; i++) {
		if (instruction_is_link(&s->row[i]))
			continue;
		text_begin(w);
		text_part(w, "case %u: ", i);
		write_case(w, &s->row[i], i);
		text_end(w);
	}
}

static void write_link(struct writer *w, const struct instruction *i) {
	static const char *const forms[] = {
		[LINK_UNARY] = "LINK_UNARY",
		[LINK_BEFORE] = "LINK_BEFORE",
		[LINK_BEHIND] = "LINK_BEHIND",
		[LINK_TWICE] = "LINK_TWICE",
	};

	if (i->kind != INSTRUCTION_LINK) {
		text_part(w, "%s", words[i->kind]);
		return;
	}
	text_part(w, "%s(", forms[i->from]);
	value_function_name(w, i->op, i->type);
	text_part(w, ")");
}

static void write_chain(struct writer *w, const struct instruction_set *s) {
	if (!s->chains)
		return;
	text_line(w, "CHAIN_OPEN");
	for (unsigned i = 0; i < s->count; i++) {
		if (!instruction_is_link(&s->row[i]))
			continue;
		text_begin(w);
		text_part(w, "case %u: ", i);
		write_link(w, &s->row[i]);
		text_end(w);
	}
	text_line(w, "CHAIN_CLOSE");
	text_blank(w);
}

/* ---- the kernel ---- */

static void write_kernel(struct writer *w, const struct instruction_set *s, uint32_t group) {
	frame_signature(w, group);
	if (group > 1)
		text_line(w, "local uchar file[INTERP_FILE] __attribute__((aligned(64)));");
	else
		text_line(w, "uchar file[INTERP_FILE] __attribute__((aligned(64)));");
	text_line(w, "global const ulong *const task = records + first + %s;", frame_task(w));
	text_line(w, "global const ulong *const r = records + first + (uint)*task;");
	text_line(w, "global const ulong *code = records + first + (*task >> 32);");
	text_blank(w);
	text_line(w, "if (%s >= r[INTERP_ITEMS])", group > 1 ? "get_global_id(0)" : frame_item(w));
	text_line(w, "\treturn;");
	text_line(w, "INTERP_STATE");
	text_open(w, "for (;;)");
	text_line(w, "const ulong instruction = *code++;");
	text_blank(w);
	text_line(w, "switch (CODE) {");
	write_cases(w, s);
	/* There are no others: the assembler makes none. */
	text_line(w, "default: return;");
	text_line(w, "}");
	text_close(w);
	text_close(w);
}

int interpreter_source(enum dialect dialect, const struct traits *t, struct str *source) {
	struct value_function list[INSTRUCTIONS];
	const struct instruction_set *set = instructions_of(dialect, t);
	struct kernel k;
	struct writer w;
	unsigned n;

	bytecode_interpreter(dialect, t, &k);
	writer_open(&w, &k, t, source);
	n = list_functions(set, list);
	write_defines(&w, dialect, source);
	section_append_functions(list, n, "interpreter", source);
	helpers_write(&w, source);
	value_define_functions(&w, list, n);
	write_turn(&w);
	write_functions(&w, set);
	write_chain(&w, set);
	write_kernel(&w, set, interpreter_shape(t).group);
	return str_finish(source);
}
