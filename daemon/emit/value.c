/*
 * Values of a kernel as expressions, and the functions of the operations.
 *
 * An operation is written as a call of a function of its own, made from the `expr` column of
 * ops.def: readers meet the names they know, and an expression never changes by what stands around it.
 */
#include "writer.h"

#include <stdio.h>
#include <string.h>

#include "daemon/base/body.h"

static const char *const registers[DTYPE_COUNT] = {
#define DTYPE(id, name, bytes, kind, reg, ctype, doc) [id] = #reg "v",
#include "protocol/dtypes.def"
#undef DTYPE
};

static const char *const lanes[DTYPE_COUNT] = {
#define DTYPE(id, name, bytes, kind, reg, ctype, doc) [id] = #reg "e",
#include "protocol/dtypes.def"
#undef DTYPE
};

/* The least and the largest value of register types, where NaN is not in question. */
static const struct {
	const char *least, *largest;
} extremes[DTYPE_COUNT] = {
	[DTYPE_i8] = { "CHAR_MIN", "CHAR_MAX" },
	[DTYPE_u8] = { "0", "UCHAR_MAX" },
	[DTYPE_i16] = { "SHRT_MIN", "SHRT_MAX" },
	[DTYPE_u16] = { "0", "USHRT_MAX" },
	[DTYPE_i32] = { "INT_MIN", "INT_MAX" },
	[DTYPE_u32] = { "0", "UINT_MAX" },
	[DTYPE_i64] = { "LONG_MIN", "LONG_MAX" },
	[DTYPE_u64] = { "0", "ULONG_MAX" },
	[DTYPE_f32] = { "-INFINITY", "INFINITY" },
	[DTYPE_f64] = { "-INFINITY", "INFINITY" },
};

/* Operations whose result on 16-bit floats is one already: rounding again would change nothing. */
static const uint16_t exact[] = {
	OP_abs,
	OP_neg,
	OP_sign,
	OP_relu,
	OP_floor,
	OP_ceil,
	OP_round,
	OP_trunc,
	OP_maximum,
	OP_minimum,
	OP_copysign,
	OP_where,
	OP_clamp,
};

const char *value_register(unsigned dtype) {
	return registers[dtype];
}

const char *value_lane(unsigned dtype) {
	return lanes[dtype];
}

const char *value_lanes(const struct writer *w) {
	return value_register(w->k->accumulator);
}

static bool is_real(unsigned dtype) {
	return dtype_info(dtype)->kind == DTYPE_KIND_REAL;
}

static bool is_exact(unsigned op) {
	for (size_t i = 0; i < sizeof exact / sizeof *exact; i++)
		if (exact[i] == op)
			return true;
	return false;
}

const char *value_rounding(unsigned op, unsigned dtype) {
	if (is_exact(op))
		return "";
	return dtype == DTYPE_f16 ? "round_f16" : dtype == DTYPE_bf16 ? "round_bf16" : "";
}

/* ---- functions ---- */

/* A word in a longer text. */
struct own_name {
	const char *text;
	int length;
};

static bool same_function(const struct value_function *a, const struct value_function *b) {
	return a->op == b->op && a->type[a->arity - 1] == b->type[b->arity - 1];
}

static unsigned add_function(struct value_function *list, unsigned n, const struct value_function *f) {
	for (unsigned i = 0; i < n; i++)
		if (same_function(&list[i], f))
			return n;
	list[n] = *f;
	return n + 1;
}

static unsigned add_on_type(unsigned dtype, unsigned op, struct value_function *list, unsigned n) {
	struct value_function f = {
		.op = (uint16_t)op, .arity = op_info(op)->arity, .result = (uint8_t)dtype
	};

	memset(f.type, (int)dtype, sizeof f.type);
	return add_function(list, n, &f);
}

/* The elementwise operation that combines two accumulators of a reduction. */
static unsigned combining_op(unsigned reduction) {
	return (unsigned)op_find(op_info(reduction)->expr);
}

static unsigned add_root(const struct kernel *k, struct value_function *list, unsigned n) {
	if (k->root == KERNEL_REDUCE || k->root == KERNEL_SCAN)
		return add_on_type(k->accumulator, combining_op(k->op), list, n);
	if (k->root == KERNEL_SCATTER && k->op == OP_add_along)
		return add_on_type(k->accumulator, OP_add, list, n);
	if (!kernel_inner_dims(k))
		return n;
	if (is_real(k->accumulator))
		return add_on_type(k->accumulator, OP_fma, list, n);
	n = add_on_type(k->accumulator, OP_mul, list, n);
	return add_on_type(k->accumulator, OP_add, list, n);
}

unsigned value_functions(const struct writer *w, struct value_function list[static VALUE_FUNCTIONS]) {
	const struct kernel *k = w->k;
	unsigned n = add_root(k, list, 0);

	for (unsigned v = 0; v < k->values; v++) {
		const struct kernel_value *value = &k->value[v];
		struct value_function f = { .op = value->op, .result = value->dtype };

		if (!(w->inner.value[v] || w->outer.value[v]))
			continue;
		if (value->kind == KERNEL_REDUCED)
			n = add_on_type(value->dtype, combining_op(value->op), list, n);
		if (value->kind != KERNEL_OP)
			continue;
		if (!op_is_elementwise(op_info(value->op)))
			continue;
		f.arity = op_info(value->op)->arity;
		for (unsigned i = 0; i < f.arity; i++)
			f.type[i] = k->value[value->arg[i]].dtype;
		n = add_function(list, n, &f);
	}
	return n;
}

void value_function_name(struct writer *w, unsigned op, unsigned dtype) {
	if (op_is_own(op))
		text_part(w, "own%u_%s_%s", op, op_info(op)->name, dtype_info(dtype)->name);
	else
		text_part(w, "op_%s_%s", op_info(op)->name, dtype_info(dtype)->name);
}

/* "x" of operands "x, t". */
static struct own_name own_operand(const struct op_info *info, unsigned operand) {
	const char *at = info->operands;

	for (; operand; operand--)
		at = strchr(at, ' ') + 1;
	return (struct own_name){ at, (int)strcspn(at, ",") };
}

/* The scalar types that built-in functions are declared for. */
static const struct {
	const char *name, *size;             /* size: the unsigned integer of its size */
	enum builtin_types types;
} scalars[] = {
	{ "float", NULL, BUILTIN_REAL }, { "double", NULL, BUILTIN_REAL }, { "char", "uchar", BUILTIN_INTEGER },
	{ "uchar", "uchar", BUILTIN_INTEGER }, { "short", "ushort", BUILTIN_INTEGER },
	{ "ushort", "ushort", BUILTIN_INTEGER }, { "int", "uint", BUILTIN_INTEGER }, { "uint", "uint", BUILTIN_INTEGER },
	{ "long", "ulong", BUILTIN_INTEGER }, { "ulong", "ulong", BUILTIN_INTEGER },
};

static void declare_on(struct writer *w, const struct builtin *b, unsigned scalar) {
	const char *type = scalars[scalar].name;

	text_begin(w);
	text_part(w, "DECLARED %s %s", b->result == 'I' ? "int" : b->result == 'U' ? scalars[scalar].size : type, b->name);
	for (const char *p = b->operands; *p; p++)
		text_part(w, "%s%s", p == b->operands ? "(" : ", ", *p == 'I' ? "int" : type);
	text_part(w, ");");
	text_end(w);
}

/* Where the driver's declarations are left out (kernels/declare.cl), those of what a body calls; twice is no error. */
static void declare_builtins(struct writer *w, const char *body) {
	const struct builtin *b;

	text_line(w, "#ifdef DECLARE");
	while ((b = body_next_builtin(&body)))
		for (unsigned i = 0; i < sizeof scalars / sizeof *scalars; i++)
			if ((scalars[i].types & b->types) && (w->t->f64 || strcmp(scalars[i].name, "double") != 0))
				declare_on(w, b, i);
	text_line(w, "#endif");
}

/*
 * The body as an administrator wrote it, on one lane: nothing but its operands, and T for their type. It was checked when
 * its file was read; one that was not must not get to a compiler.
 */
static void define_lane(struct writer *w, const struct value_function *f) {
	const struct op_info *info = op_info(f->op);
	const char *body = info->body[dtype_info(f->type[0])->kind];
	struct fault fault;

	declare_builtins(w, body);
	text_line(w, "#define T %s", value_lane(f->type[0]));
	text_begin(w);
	text_part(w, "static inline %s lane_", f->result == DTYPE_bool ? "int" : value_lane(f->result));
	value_function_name(w, f->op, f->type[0]);
	for (unsigned i = 0; i < f->arity; i++) {
		struct own_name name = own_operand(info, i);

		text_part(w, "%sconst T " BODY_PREFIX "%.*s", i ? ", " : "(", name.length, name.text);
	}
	text_part(w, ") {");
	text_end(w);
	if (body_write(body, info->operands, w->text, &fault))
		text_line(w, "\n#error a body that was not checked");
	text_line(w, "\n}");
	text_line(w, "#undef T");
}

/* One lane of the operands, handed to the body. A truth becomes 0 or 1. */
static void call_lane(struct writer *w, const struct value_function *f, unsigned lane) {
	text_part(w, lane ? ", lane_" : "lane_");
	value_function_name(w, f->op, f->type[0]);
	for (unsigned i = 0; i < f->arity; i++) {
		text_part(w, "%s%c", i ? ", " : "(", "abc"[i]);
		if (w->k->width > 1)
			text_part(w, ".s%x", lane);
	}
	text_part(w, f->result == DTYPE_bool ? ") != 0" : ")");
}

/* The lanes one by one: a text that is right for a scalar need not be so for a vector. */
static void define_own(struct writer *w, const struct value_function *f) {
	define_lane(w, f);
	text_begin(w);
	text_part(w, "static inline %s ", value_register(f->result));
	value_function_name(w, f->op, f->type[0]);
	for (unsigned i = 0; i < f->arity; i++)
		text_part(w, "%s%s %c", i ? ", " : "(", value_register(f->type[i]), "abc"[i]);
	text_part(w, ") { return %s((%s)(", value_rounding(f->op, f->result), value_register(f->result));
	for (unsigned lane = 0; lane < w->k->width; lane++)
		call_lane(w, f, lane);
	text_part(w, ")); }");
	text_end(w);
}

static void define(struct writer *w, const struct value_function *f) {
	const char *round = value_rounding(f->op, f->result);

	if (op_is_own(f->op)) {
		define_own(w, f);
		return;
	}
	text_begin(w);
	text_part(w, "static inline %s ", value_register(f->result));
	value_function_name(w, f->op, f->type[f->arity - 1]);
	for (unsigned i = 0; i < f->arity; i++)
		text_part(w, "%s%s %c", i ? ", " : "(", value_register(f->type[i]), "abc"[i]);
	text_part(w, *round ? ") { return %s(%s); }" : ") { return %s%s; }", round, op_info(f->op)->expr);
	text_end(w);
}

void value_define_functions(struct writer *w, const struct value_function *list, unsigned n) {
	for (unsigned i = 0; i < n; i++)
		define(w, &list[i]);
	if (n)
		text_blank(w);
}

void value_define(struct writer *w) {
	struct value_function list[VALUE_FUNCTIONS];

	value_define_functions(w, list, value_functions(w, list));
}

/* ---- the arithmetic of reductions and products ---- */

struct reduction value_reduction(const struct writer *w, unsigned op, unsigned dtype) {
	bool extreme = op == OP_reduce_max || op == OP_reduce_min;

	return (struct reduction){ .op = (uint16_t)op,
		.dtype = (uint8_t)dtype,
		.keyed = extreme && w->t->strategy == STRATEGY_CPU && dtype_info(dtype)->reg == DTYPE_f32 };
}

static const char *extreme(const struct reduction *r) {
	return r->op == OP_reduce_max ? "max" : "min";
}

struct value_text value_key(const struct reduction *r, const char *value) {
	struct value_text t;

	snprintf(t.text, sizeof t.text, r->keyed ? "%s_key(%s)" : "%.0s%s", extreme(r), value);
	return t;
}

struct value_text value_of_key(const struct reduction *r, const char *accumulator) {
	struct value_text t;

	snprintf(t.text, sizeof t.text, r->keyed ? "of_%s_key(%s)" : "%.0s%s", extreme(r), accumulator);
	return t;
}

void value_combine(struct writer *w, const struct reduction *r, const char *x, const char *y) {
	text_begin(w);
	text_part(w, "%s = ", x);
	if (r->keyed)
		text_part(w, "key_%s", extreme(r));
	else
		value_function_name(w, combining_op(r->op), r->dtype);
	text_part(w, "(%s, %s);", x, y);
	text_end(w);
}

void value_accumulate(struct writer *w, const struct reduction *r, const char *x, const char *y) {
	value_combine(w, r, x, value_key(r, y).text);
}

const char *value_neutral(const struct reduction *r) {
	enum dtype reg = dtype_info(r->dtype)->reg;

	if (r->op == OP_reduce_max)
		return extremes[reg].least;
	if (r->op == OP_reduce_min)
		return extremes[reg].largest;
	if (r->op == OP_reduce_prod || r->op == OP_reduce_all)
		return "1";
	return is_real(reg) ? "-0.0f" : "0";
}

void value_add_product(struct writer *w, const char *to, const char *a, const char *b) {
	unsigned type = w->k->accumulator;

	text_begin(w);
	text_part(w, "%s = ", to);
	if (is_real(type)) {
		value_function_name(w, OP_fma, type);
		text_part(w, "(%s, %s, %s);", a, b, to);
	} else {
		value_function_name(w, OP_add, type);
		text_part(w, "(");
		value_function_name(w, OP_mul, type);
		text_part(w, "(%s, %s), %s);", a, b, to);
	}
	text_end(w);
}

void value_each_sum(struct writer *w) {
	text_line(w, "#pragma unroll");
	text_line(w, "for (int i = 0; i < %u; i++)", w->k->rows);
	text_line(w, "#pragma unroll");
	text_line(w, "\tfor (int v = 0; v < %u; v++)", w->k->vectors);
}

void value_tile_step(struct writer *w, unsigned o, const char *at, unsigned rows, unsigned vectors) {
	const struct kernel *k = w->k;

	text_line(w, "#pragma unroll");
	text_open(w, "for (int i = 0; i < %u; i++)", rows);
	text_line(w, "const %s a = to_%s(uniform_%s(row[i] + %s));", value_register(k->accumulator),
		dtype_info(k->accumulator)->name, dtype_info(k->operand[o].dtype)->name, at);
	text_line(w, "#pragma unroll");
	text_open(w, "for (int v = 0; v < %u; v++)", vectors);
	value_add_product(w, "c[i][v]", "a", "b[v]");
	text_close(w);
	text_close(w);
}

/* ---- values ---- */

/* Of a row's values those of the kept space are known before its elements. */
static enum level level_of_load(
	const struct writer *w, const struct scope *s, const struct kernel_value *value) {
	if (w->k->root == KERNEL_ROWS && value->space == KERNEL_SPACE_KEPT)
		return LEVEL_UNIT;
	return s->hoist && w->k->operand[value->index].access == KERNEL_UNIFORM ? LEVEL_UNIT : LEVEL_ELEMENT;
}

/* How far out each value can stand. */
static void find_levels(const struct writer *w, const struct scope *s, uint8_t *level) {
	const struct kernel *k = w->k;

	memset(level, LEVEL_ELEMENT, KERNEL_VALUES);
	for (unsigned v = 0; v < k->values; v++) {
		const struct kernel_value *value = &k->value[v];

		if (s->held && s->held[v])
			continue;
		if (value->kind == KERNEL_SCALAR)
			level[v] = LEVEL_TASK;
		if (value->kind == KERNEL_REDUCED)
			level[v] = LEVEL_UNIT;
		if (kernel_value_loads(value))
			level[v] = (uint8_t)level_of_load(w, s, value);
		if (value->kind == KERNEL_OP)
			level[v] = LEVEL_TASK;
		for (unsigned i = 0; value->kind != KERNEL_REDUCED && i < kernel_value_args(value); i++)
			if (level[value->arg[i]] > level[v])
				level[v] = level[value->arg[i]];
	}
}

struct value_text value_name(const struct writer *w, unsigned v) {
	struct value_text t;

	if (w->twin && w->twins[v])
		snprintf(t.text, sizeof t.text, "v%u_%u", v, w->twin);
	else
		snprintf(t.text, sizeof t.text, "v%u", v);
	return t;
}

static void write_op(struct writer *w, const struct kernel_value *value) {
	unsigned arity = op_info(value->op)->arity;

	if (value->op == OP_copy) {
		text_part(w, "%s", value_name(w, value->arg[0]).text);
		return;
	}
	if (value->op == OP_cast)
		text_part(w, "to_%s", dtype_info(value->dtype)->name);
	else
		value_function_name(w, value->op, w->k->value[value->arg[arity - 1]].dtype);
	for (unsigned i = 0; i < arity; i++)
		text_part(w, "%s%s", i ? ", " : "(", value_name(w, value->arg[i]).text);
	text_part(w, ")");
}

/* Does value `of` differ between the lanes, as far as can be told without running? */
static bool varies(const struct writer *w, unsigned of) {
	bool differs[KERNEL_VALUES];

	for (unsigned v = 0; v <= of; v++) {
		const struct kernel_value *value = &w->k->value[v];

		differs[v] = (value->kind == KERNEL_ROOT_VALUE && (w->k->form != KERNEL_FORM_ROW || w->k->root == KERNEL_SCAN)) ||
			     (value->kind == KERNEL_REDUCED && w->k->form == KERNEL_FORM_COLUMN);
		if (kernel_value_loads(value))
			differs[v] = w->k->operand[value->index].access != KERNEL_UNIFORM;
		/* What a row is reduced to is one for all its lanes, however its elements differ. */
		for (unsigned i = 0; value->kind != KERNEL_REDUCED && i < kernel_value_args(value); i++)
			differs[v] |= differs[value->arg[i]];
	}
	return differs[of];
}

/*
 * One place for all lanes: then they load from there as the operand lies, unless it is beyond the
 * axis. Else each lane loads for itself.
 */
static void write_gather(struct writer *w, const struct scope *s, unsigned v) {
	const struct kernel_value *value = &w->k->value[v];
	const char *first = w->k->width > 1 ? ".s0" : "";
	struct scope there = *s;

	if (s->lane && w->k->width > 1 && varies(w, value->arg[0])) {
		text_begin(w);
		text_part(w, "const %s v%u = ", value_register(value->dtype), v);
		operand_take(w, s, value);
		text_part(w, ";");
		text_end(w);
		return;
	}
	text_line(w, "const long at%u = position(v%u%s, v%u%s);", value->index, value->arg[0], first, value->arg[1],
		first);
	operand_there(w, s, value->index, value->arg[2]);
	there.pointer = "g";
	text_begin(w);
	text_part(w, "const %s v%u = at%u < 0 ? (%s)(0) : ", value_register(value->dtype), v, value->index,
		value_register(value->dtype));
	operand_load(w, &there, value->index);
	text_part(w, ";");
	text_end(w);
}

/* Every lane for itself, as take.cl and search.cl say: no lane reads outside the vector. */
static void write_search(struct writer *w, const struct scope *s, unsigned v) {
	const struct kernel_value *value = &w->k->value[v];
	const char *first = w->k->width > 1 ? ".s0" : "";

	text_line(w, "const i64v v%u = search_%s(%s%u, v%u, v%u%s, v%u%s, %d);", v,
		dtype_info(w->k->operand[value->index].dtype)->name, s->pointer, value->index, value->arg[0], value->arg[1], first,
		value->arg[2], first, value->right);
}

static void write_value(struct writer *w, const struct scope *s, unsigned v) {
	const struct kernel_value *value = &w->k->value[v];

	w->written[v] = true;
	if (value->kind == KERNEL_GATHER && !(s->held && s->held[v])) {
		write_gather(w, s, v);
		return;
	}
	if (value->kind == KERNEL_SEARCH && !(s->held && s->held[v])) {
		write_search(w, s, v);
		return;
	}
	text_begin(w);
	text_part(w, "const %s %s = ", value_register(value->dtype), value_name(w, v).text);
	if (s->held && s->held[v] && s->home && s->home[v] != KERNEL_NONE)
		operand_load(w, s, s->home[v]);
	else if (s->held && s->held[v])
		text_part(w, "held%u[%s]", v, s->held_at);
	else if (value->kind == KERNEL_SCALAR)
		text_part(w, "scalar_%s(r[%u])", dtype_info(value->dtype)->name,
			kernel_word_scalar(w->k, value->index));
	else if (value->kind == KERNEL_OP)
		write_op(w, value);
	else
		operand_load(w, s, value->index);
	text_part(w, ";");
	text_end(w);
}

/* Values that a form declares once it has accumulated them. */
static bool is_declared(const struct kernel *k, const struct scope *s, unsigned v) {
	if (s->held && s->held[v])
		return false;
	return k->value[v].kind == KERNEL_ROOT_VALUE || k->value[v].kind == KERNEL_REDUCED;
}

void value_write(struct writer *w, const struct scope *s, enum level level) {
	uint8_t levels[KERNEL_VALUES] = { 0 };

	find_levels(w, s, levels);
	for (unsigned v = 0; v < w->k->values; v++)
		if (s->needs->value[v] && !w->written[v] && levels[v] <= level && !is_declared(w->k, s, v))
			write_value(w, s, v);
}

void value_write_beside(struct writer *w, const struct scope *s, unsigned count) {
	for (unsigned v = 0; v < w->k->values; v++) {
		if (!s->needs->value[v] || w->written[v] || is_declared(w->k, s, v))
			continue;
		w->twins[v] = true;
		for (w->twin = 0; w->twin < count; w->twin++)
			write_value(w, &s[w->twin], v);
	}
	w->twin = 0;
}

bool value_may_be_beside(const struct writer *w) {
	for (unsigned v = 0; v < w->k->values; v++)
		if (w->k->value[v].kind == KERNEL_GATHER || w->k->value[v].kind == KERNEL_SEARCH)
			return false;
	return true;
}

unsigned value_registers(const struct writer *w, const struct scope *s) {
	unsigned last[KERNEL_VALUES] = { 0 }, most = 0;
	uint8_t levels[KERNEL_VALUES] = { 0 };

	find_levels(w, s, levels);
	for (unsigned v = 0; v < w->k->values; v++)
		for (unsigned i = 0; s->needs->value[v] && i < kernel_value_args(&w->k->value[v]); i++)
			last[w->k->value[v].arg[i]] = v;
	for (unsigned at = 0; at < w->k->values; at++) {
		unsigned live = 0;

		for (unsigned v = 0; v <= at; v++)
			if (s->needs->value[v] && levels[v] == LEVEL_ELEMENT && (v == at || last[v] > at))
				live++;
		most = live > most ? live : most;
	}
	return most;
}

void value_forget(struct writer *w, const struct scope *s, enum level level) {
	uint8_t levels[KERNEL_VALUES] = { 0 };

	find_levels(w, s, levels);
	for (unsigned v = 0; v < w->k->values; v++)
		if (s->needs->value[v] && levels[v] >= level)
			w->written[v] = w->twins[v] = false;
}

void value_root(struct writer *w, const char *expression) {
	text_line(w, "const %s v%u = %s;", value_register(w->k->accumulator), w->k->root_value, expression);
}

void value_remember(struct writer *w, const struct scope *s) {
	for (unsigned v = 0; s->hold && v < w->k->values; v++) {
		unsigned home = s->home ? s->home[v] : KERNEL_NONE;

		if (s->hold[v] && home == KERNEL_NONE)
			text_line(w, "held%u[%s] = v%u;", v, s->held_at, v);
		else if (s->hold[v] && w->k->operand[home].value != v)
			operand_store(w, s, home, v);
	}
}

/* An output may be needed only because it holds another value. */
void value_store(struct writer *w, const struct scope *s) {
	for (unsigned o = 0; o < w->k->operands; o++) {
		const struct kernel_operand *p = &w->k->operand[o];

		if (p->output && s->needs->operand[o] && s->needs->value[p->value])
			operand_store(w, s, o, p->value);
	}
}

void value_vector(struct writer *w, const struct scope *s, enum level from) {
	struct scope branch = *s;

	for (unsigned whole = 2; whole-- > 0;) {
		branch.aligned = whole;
		text_open(w, whole ? "if (aligned && n == W)" : "else");
		value_write(w, &branch, LEVEL_ELEMENT);
		value_store(w, &branch);
		value_forget(w, &branch, from);
		text_close(w);
	}
}
