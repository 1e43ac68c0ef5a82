/*
 * The kernel that measures arithmetic, one class of operations at a time: the functions of kernels/, in
 * the vectors that kernels of this device compute in, on arrays that the nearest cache holds.
 *
 * A class is applied to an element often enough to outweigh loading and storing it, and seldom enough that
 * the device can work on several elements at once, as it does in a fused kernel. A GPU stores past its nearest cache, and has many lanes to
 * work on several elements: there a class has a step that leaves values where they were, which is done many times.
 */
#include "emit.h"

#include <string.h>

#include "writer.h"

static const struct {
	const char *expression;      /* over the vector v and the constant c */
	unsigned ops;
	const char *step;            /* of a GPU: from 0 to 3, as v is */
	unsigned times, step_ops;
} classes[] = {
	[RATE_CHEAP] = { "mul_(add_(mul_(add_(mul_(add_(mul_(add_(v, c), v), c), v), c), v), c), v)", 8, "sub_(c, mul_(v, v))", 32, 2 },
	[RATE_DIVIDE] = { "div_(div_(v, c), c)", 2, "div_(v, c)", 8, 1 },
	[RATE_EXP] = { "exp_(v)", 1, "exp_(sub_(c, v))", 8, 1 },
	[RATE_TANH] = { "tanh_(v)", 1, "tanh_(v)", 8, 1 },
	[RATE_LOG] = { "log_(v)", 1, "log_(add_(v, c))", 8, 1 },
	[RATE_POW] = { "pow_(v, c)", 1, "pow_(v, c)", 8, 1 },
};

unsigned emit_rates_ops(unsigned what, enum strategy s) {
	return s == STRATEGY_GPU ? classes[what].times * classes[what].step_ops : classes[what].ops;
}

/* A kernel that uses every function, so that the sections that provide them are taken. */
static void kernel_of_all(struct kernel *k, uint8_t dtype, uint8_t width) {
	static const uint16_t op[] = { OP_add, OP_sub, OP_mul, OP_div, OP_exp, OP_tanh, OP_log, OP_pow };

	memset(k, 0, sizeof *k);
	k->width = width;
	k->rank = 1;
	k->block_dim = 0xff;
	k->root_value = KERNEL_NONE;
	k->operands = 2;
	k->operand[0] = (struct kernel_operand){ .dtype = dtype, .value = KERNEL_NONE };
	k->value[k->values++] = (struct kernel_value){ .kind = KERNEL_LOAD, .dtype = dtype };
	for (size_t i = 0; i < sizeof op / sizeof *op; i++, k->values++)
		k->value[k->values] = (struct kernel_value){ .kind = KERNEL_OP, .dtype = dtype, .op = op[i],
			.arg = { (uint16_t)(k->values - 1) } };
	k->operand[1] = (struct kernel_operand){ .dtype = dtype, .output = true,
		.value = (uint16_t)(k->values - 1) };
}

static void write_class(struct writer *w, unsigned what, const char *type, const char *name) {
	text_line(w, "case %u:", what);
	w->depth++;
	text_open(w, "for (uint j = 0; j < count; j++)");
	text_line(w, "%s v = load_%s(from + (ulong)(j ^ (r & 1)) * step);", type, name);
	if (w->t->strategy == STRATEGY_GPU) {
		text_line(w, "#pragma unroll");
		text_line(w, "for (uint i = 0; i < %u; i++)", classes[what].times);
		text_line(w, "\tv = %s;", classes[what].step);
		text_line(w, "store_%s(to + (ulong)j * step, v);", name);
	} else {
		text_line(w, "store_%s(to + (ulong)j * step, %s);", name, classes[what].expression);
	}
	text_close(w);
	text_line(w, "break;");
	w->depth--;
}

static void write_kernel(struct writer *w, uint8_t dtype) {
	const struct dtype_info *info = dtype_info(dtype);
	const char *type = value_register(dtype);
	unsigned local = frame_local(w->k, w->t), step = local * w->k->width * info->bytes;

	text_line(w, "kernel WIDE __attribute__((reqd_work_group_size(%u, 1, 1)))", local);
	text_open(w, "void rates(global const uchar *in, global uchar *out, uint what, uint count, uint repeat)");
	text_line(w, "const ulong at = get_group_id(0) * (ulong)count * %u + get_local_id(0) * %u;", step,
		w->k->width * info->bytes);
	text_line(w, "const ulong step = %u;", step);
	text_line(w, "global const uchar *const from = in + at;");
	text_line(w, "global uchar *const to = out + at;");
	text_line(w, "const %s c = (%s)(1.0009765625f);", type, type);
	text_open(w, "for (uint r = 0; r < repeat; r++)");
	text_line(w, "switch (what) {");
	for (unsigned what = 0; what < RATE_CLASSES; what++)
		write_class(w, what, type, info->name);
	text_line(w, "}");
	text_close(w);
	text_close(w);
}

int emit_rates(enum rate_float type, const struct traits *t, struct str *source) {
	uint8_t dtype = type == RATE_F64 ? DTYPE_f64 : DTYPE_f32;
	struct writer w;
	struct kernel k;

	kernel_of_all(&k, dtype, t->width);
	writer_open(&w, &k, t, source);
	prelude_write(&w, source);
	write_kernel(&w, dtype);
	return str_finish(source);
}
