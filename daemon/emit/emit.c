/*
 * A program: pragmas and macros, the sections of kernels/ in use, and what a person reads of it, the
 * functions of the operations and the kernel.
 */
#include "emit.h"

#include "instructions.h"
#include "matmul_group.h"

#include <string.h>

/* Integer division of vectors of 32 bits goes through doubles, where there are any. */
static bool divides_words(const struct writer *w) {
	struct value_function list[VALUE_FUNCTIONS];
	unsigned n = value_functions(w, list);

	for (unsigned i = 0; i < n; i++)
		if ((list[i].op == OP_floor_divide || list[i].op == OP_remainder) &&
			(list[i].type[0] == DTYPE_i32 || list[i].type[0] == DTYPE_u32))
			return true;
	return false;
}

static void write_defines(const struct writer *w, struct str *text) {
	bool doubles = writer_uses(w, DTYPE_f64) || divides_words(w);

	str_append(text, "#pragma OPENCL FP_CONTRACT OFF\n");
	str_printf(text, "#define W %u\n", w->k->width);
	if (doubles && w->t->f64)
		str_append(text, "#define HAS_F64 1\n");
	if (w->k->root == KERNEL_SORT)
		sort_defines(w, text);
	if (kernel_uses_matrices(w->k))
		matrix_defines(w, text);
}

/* The macros and functions that kernels of this folder call. */
void helpers_write(const struct writer *w, struct str *text) {
	str_append(text, "#if defined(__has_attribute) && W > 1\n"
			 "#if __has_attribute(min_vector_width)\n"
			 "#define WIDE __attribute__((min_vector_width(512)))\n"
			 "#endif\n"
			 "#endif\n"
			 "#ifndef WIDE\n"
			 "#define WIDE\n"
			 "#endif\n");
	str_printf(text, "#define ADDRESS(word) (POOL((word) >> %u) + ((word) & 0x%llxul))\n",
		KERNEL_POOL_SHIFT, (1ull << KERNEL_POOL_SHIFT) - 1);
	str_append(text, "#define POOL(n) (");
	for (unsigned p = 1; p < w->t->pools; p++)
		str_printf(text, "(n) == %u ? pool%u : ", p, p);
	str_append(text, "pool0)\n");
	str_append(text,
		"/* The index along the last dimension of what is left; 32 bits divide faster. */\n"
		"static inline long take(ulong *rest, ulong extent) {\n"
		"\tconst ulong all = *rest;\n"
		"\tconst ulong next = (all | extent) >> 32 ? all / extent : (uint)all / (uint)extent;\n"
		"\n"
		"\t*rest = next;\n"
		"\treturn all - next * extent;\n"
		"}\n\n");
}

static void write_functions(struct writer *w) {
	bool groups = w->t->strategy == STRATEGY_GPU;

	if (w->k->root == KERNEL_MATMUL)
		groups ? matmul_group_functions(w) : matmul_functions(w);
	else if (w->k->root == KERNEL_MAP && w->k->turned)
		map_turned_functions(w);
	else if (w->k->root == KERNEL_SCAN)
		scan_functions(w);
	else if (w->k->root == KERNEL_CONV)
		groups ? conv_group_functions(w) : conv_functions(w);
	else if (w->k->root == KERNEL_ATTENTION && groups)
		w->k->steps ? attention_matrix_functions(w) : attention_group_functions(w);
	else if (w->k->root == KERNEL_ROWS)
		groups ? rows_group_functions(w) : rows_functions(w);
	else if (w->k->root == KERNEL_REDUCE && w->k->form != KERNEL_FORM_COLUMN && !groups)
		walk_functions(w, w->k->accumulator);
}

static void write_product(struct writer *w) {
	const struct kernel *k = w->k;

	if (w->t->strategy == STRATEGY_GPU)
		matmul_groups(w);
	else if (k->small)
		matmul_small(w);
	else
		k->turned ? matmul_turned(w) : matmul_tiles(w);
}

static void write_form(struct writer *w) {
	bool groups = w->t->strategy == STRATEGY_GPU, column = w->k->form == KERNEL_FORM_COLUMN;

	if (w->k->root == KERNEL_MAP)
		groups ? map_groups(w) : w->k->turned ? map_turned(w) : map_lanes(w);
	else if (w->k->root == KERNEL_SCAN && groups)
		column ? scan_column_groups(w) : scan_row_groups(w);
	else if (w->k->root == KERNEL_SCAN)
		column ? scan_column(w) : scan_row(w);
	else if (w->k->root == KERNEL_SCATTER)
		scatter(w);
	else if (w->k->root == KERNEL_SORT)
		sort(w);
	else if (w->k->root == KERNEL_MATMUL)
		write_product(w);
	else if (w->k->root == KERNEL_CONV)
		groups ? conv_groups(w) : w->k->minimal ? conv_minimal(w) : w->k->packed ? conv_channels(w) : w->k->alone ? conv_alone(w) : conv_lanes(w);
	else if (w->k->root == KERNEL_ATTENTION)
		w->k->steps ? attention_matrix(w) : groups ? attention_groups(w) : attention_lanes(w);
	else if (w->k->root == KERNEL_ROWS)
		groups ? rows_groups(w) : column ? rows_column(w) : rows_lanes(w);
	else if (groups)
		column ? reduce_column_groups(w) : reduce_groups(w);
	else
		column ? reduce_column(w) : reduce_row(w);
}

/*
 * Groups beyond the work return at once, so every barrier depends on a condition, and some drivers take the way to the end of
 * such a kernel for one more barrier: what decides whether an item goes there, as whether it stores its last result, is then decided
 * by the first item for all. A barrier that all reach before the end keeps the two apart.
 */
static void write_end(struct writer *w, size_t begin) {
	if (w->t->closing_barrier && strstr(str_text(w->text) + begin, "barrier("))
		text_line(w, "barrier(CLK_LOCAL_MEM_FENCE);");
	text_close(w);
}

static void write_body(struct writer *w) {
	size_t begin;

	value_define(w);
	begin = w->text->length;
	write_functions(w);
	frame_open(w);
	write_form(w);
	write_end(w, begin);
}

int emit_body(const struct kernel *k, const struct traits *t, struct str *body) {
	struct writer w;

	writer_open(&w, k, t, body);
	write_body(&w);
	return str_finish(body);
}

void prelude_write(const struct writer *w, struct str *text) {
	write_defines(w, text);
	section_append(w, text);
	helpers_write(w, text);
}

int emit_source(const struct kernel *k, const struct traits *t, struct str *source) {
	struct writer w;

	if (k->root == KERNEL_INTERPRETER)
		return interpreter_source((enum dialect)k->op, t, source);
	writer_open(&w, k, t, source);
	prelude_write(&w, source);
	write_body(&w);
	return str_finish(source);
}

void emit_options(const struct traits *t, struct str *options) {
	str_append(options, "-cl-std=CL1.2");
	if (t->exact_division)
		str_append(options, " -cl-fp32-correctly-rounded-divide-sqrt");
	if (t->options)
		str_printf(options, " %s", t->options);
	if (t->without)
		str_printf(options, " %s", t->without);
}
