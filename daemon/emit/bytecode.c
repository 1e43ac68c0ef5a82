/*
 * The assembler: a kernel of root MAP as byte code; see bytecode.h.
 *
 * Values are computed in the kernel's order, each as seldom as it may be (level), so that what does not change
 * along a row is not computed again for each block of it. Elements are loaded when they are first needed, which keeps
 * few registers in use; all stores stand at the end of a block, since an output may lie where an input does.
 *
 * Whatever a program could do wrong is refused here: registers beyond the file, instructions of other dialects.
 */
#include "bytecode.h"

#include <string.h>

#include "daemon/emit/instructions.h"
#include "daemon/emit/writer.h"

enum { NO_REGISTER = 0xff };

struct assembler {
	const struct kernel *k;
	const struct traits *t;
	const struct instruction_set *set;
	struct bytecode *code;
	unsigned registers;
	uint16_t same[KERNEL_VALUES];     /* the value that a copy is of, or the value itself */
	bool needed[KERNEL_VALUES];
	uint8_t level[KERNEL_VALUES];     /* enum level */
	uint16_t uses[KERNEL_VALUES];     /* that are still to come, of this level alone or of any */
	uint8_t home[KERNEL_VALUES];      /* a register */
	bool busy[256];
	const char *reason;               /* why there is no code; what follows is then of no use */
};

static const char no_instruction[] = "an interpreter has no such operation";
static const char no_registers[] = "it needs more registers than an interpreter has";

static void refuse(struct assembler *a, const char *reason) {
	if (!a->reason)
		a->reason = reason;
}

static uint8_t register_type(unsigned dtype) {
	return (uint8_t)dtype_info(dtype)->reg;
}

static unsigned register_bytes(const struct assembler *a, unsigned v) {
	return dtype_info(register_type(a->k->value[v].dtype))->bytes;
}

/* ---- instructions ---- */

struct fields {
	uint8_t to, from[KERNEL_ARGS];
	uint16_t index;
};

static void put_word(struct assembler *a, uint64_t word) {
	if (a->code->words >= BYTECODE_WORDS)
		refuse(a, "it is longer than byte code may be");
	else
		a->code->word[a->code->words++] = word;
}

static void put(struct assembler *a, const struct instruction *i, struct fields f) {
	int which = instruction_find(a->set, i);

	if (which < 0)
		refuse(a, no_instruction);
	put_word(a, (uint64_t)(which & 0xffff) | (uint64_t)f.to << 16 | (uint64_t)f.from[0] << 24 |
			    (uint64_t)f.from[1] << 32 | (uint64_t)f.from[2] << 40 | (uint64_t)f.index << 48);
}

static void put_steering(struct assembler *a, uint8_t kind, struct fields f) {
	put(a, &(struct instruction){ .kind = kind }, f);
}

/* ---- registers ---- */

static uint8_t take_register(struct assembler *a) {
	for (unsigned r = 0; r < a->registers; r++)
		if (!a->busy[r]) {
			a->busy[r] = true;
			return (uint8_t)r;
		}
	refuse(a, no_registers);
	return NO_REGISTER;
}

/*
 * A register for value v, which reads others: one that is read for the last time will do where its elements are no
 * smaller, since vectors are written one after the other.
 */
static uint8_t place_result(struct assembler *a, unsigned v, const uint16_t *dying, unsigned count) {
	uint8_t to = NO_REGISTER;

	for (unsigned i = 0; i < count && to == NO_REGISTER; i++)
		if (register_bytes(a, dying[i]) >= register_bytes(a, v))
			to = a->home[dying[i]];
	if (to == NO_REGISTER)
		to = take_register(a);
	for (unsigned i = 0; i < count; i++)
		if (a->home[dying[i]] != to)
			a->busy[a->home[dying[i]]] = false;
	return to;
}

/* ---- what is needed, and how often ---- */

static bool is_copy(const struct kernel_value *v) {
	return v->kind == KERNEL_OP && v->op == OP_copy;
}

static bool is_output(const struct kernel *k, unsigned o) {
	return k->operand[o].output;
}

static void find_same(struct assembler *a) {
	for (unsigned v = 0; v < a->k->values; v++)
		a->same[v] = is_copy(&a->k->value[v]) ? a->same[a->k->value[v].arg[0]] : (uint16_t)v;
}

static uint8_t level_of_load(const struct assembler *a, const struct kernel_value *v) {
	return a->k->rank == 0 || a->k->operand[v->index].access == KERNEL_UNIFORM ? LEVEL_UNIT : LEVEL_ELEMENT;
}

static void find_level(struct assembler *a, unsigned v) {
	const struct kernel_value *value = &a->k->value[v];

	a->level[v] = LEVEL_TASK;
	if (value->kind == KERNEL_LOAD || value->kind == KERNEL_IOTA)
		a->level[v] = level_of_load(a, value);
	for (unsigned i = 0; i < kernel_value_args(value); i++)
		if (a->level[value->arg[i]] > a->level[v])
			a->level[v] = a->level[value->arg[i]];
}

static void find_needed(struct assembler *a) {
	const struct kernel *k = a->k;

	for (unsigned o = 0; o < k->operands; o++)
		if (is_output(k, o)) {
			a->needed[a->same[k->operand[o].value]] = true;
			a->uses[a->same[k->operand[o].value]]++;
		}
	for (unsigned v = k->values; v-- > 0;)
		for (unsigned i = 0; a->needed[v] && i < kernel_value_args(&k->value[v]); i++) {
			a->needed[a->same[k->value[v].arg[i]]] = true;
			a->uses[a->same[k->value[v].arg[i]]]++;
		}
}

/* ---- values ---- */

static uint8_t access_of(const struct assembler *a, unsigned o) {
	/* As interp.cl takes it: 1 contiguous, 0 uniform, 2 strided. */
	static const uint8_t number[] = { [KERNEL_CONTIGUOUS] = 1, [KERNEL_UNIFORM] = 0, [KERNEL_STRIDED] = 2 };

	return a->k->rank ? number[a->k->operand[o].access] : 0;
}

static void load(struct assembler *a, unsigned v) {
	static const uint8_t loads[] = { INSTRUCTION_LOAD_UNIFORM, INSTRUCTION_LOAD, INSTRUCTION_LOAD_STRIDED };
	const struct kernel_value *value = &a->k->value[v];
	struct fields f = { .to = take_register(a), .index = value->index };
	struct instruction i = { .kind = INSTRUCTION_SCALAR, .type = value->dtype };

	a->home[v] = f.to;
	if (value->kind == KERNEL_LOAD) {
		i.kind = loads[access_of(a, value->index)];
	} else if (value->kind == KERNEL_IOTA) {
		i.kind = INSTRUCTION_COUNT;
		f.from[1] = access_of(a, value->index);
	} else {
		f.index = (uint16_t)kernel_word_scalar(a->k, value->index);
	}
	put(a, &i, f);
}

/* The register of an operand that is used once more. */
static uint8_t use(struct assembler *a, unsigned v, enum level level, uint16_t *dying, unsigned *countp) {
	v = a->same[v];
	if (a->home[v] == NO_REGISTER && a->level[v] == level)
		load(a, v);
	/* What stands further out is needed again the next time. */
	if (a->level[v] == level && --a->uses[v] == 0)
		dying[(*countp)++] = (uint16_t)v;
	return a->home[v];
}

static struct instruction instruction_of(const struct kernel *k, const struct kernel_value *value) {
	unsigned last = value->arg[kernel_value_args(value) - 1];

	if (value->op == OP_cast)
		return (struct instruction){ .kind = INSTRUCTION_CAST, .type = value->dtype,
			.from = register_type(k->value[value->arg[0]].dtype) };
	return (struct instruction){ .kind = INSTRUCTION_OPERATION, .type = register_type(k->value[last].dtype),
		.op = value->op };
}

static void compute(struct assembler *a, unsigned v) {
	const struct kernel_value *value = &a->k->value[v];
	struct instruction i = instruction_of(a->k, value);
	struct fields f = { 0 };
	uint16_t dying[KERNEL_ARGS];
	unsigned count = 0;

	for (unsigned n = 0; n < kernel_value_args(value); n++)
		f.from[n] = use(a, value->arg[n], (enum level)a->level[v], dying, &count);
	f.to = a->home[v] = place_result(a, v, dying, count);
	put(a, &i, f);
	if (value->op != OP_cast && *value_rounding(value->op, value->dtype))
		put(a, &(struct instruction){ .kind = INSTRUCTION_ROUND, .type = value->dtype },
			(struct fields){ .to = f.to, .from = { f.to } });
}

/* Elements are loaded where they are first used, the rest at once. */
static void compute_level(struct assembler *a, enum level level) {
	for (unsigned v = 0; v < a->k->values && !a->reason; v++) {
		if (!a->needed[v] || a->level[v] != level || a->home[v] != NO_REGISTER)
			continue;
		if (a->k->value[v].kind == KERNEL_OP)
			compute(a, v);
		else if (level != LEVEL_ELEMENT)
			load(a, v);
	}
}

/* ---- parts ---- */

static bool touches(const struct assembler *a, unsigned o) {
	if (is_output(a->k, o))
		return true;
	for (unsigned v = 0; v < a->k->values; v++)
		if (a->needed[v] && kernel_value_loads(&a->k->value[v]) && a->k->value[v].index == o)
			return true;
	return false;
}

static void put_strips(struct assembler *a) {
	for (unsigned o = 0; o < a->k->operands; o++) {
		const struct kernel_operand *p = &a->k->operand[o];

		if (a->k->rank >= 2 && !p->output && !p->iota && p->access == KERNEL_STRIDED && touches(a, o))
			put_steering(a, INSTRUCTION_ACROSS, (struct fields){ .index = (uint16_t)o });
	}
}

static void put_places(struct assembler *a) {
	for (unsigned o = 0; o < a->k->operands; o++) {
		const struct kernel_operand *p = &a->k->operand[o];
		uint8_t bytes = p->iota ? 0 : dtype_info(p->dtype)->bytes;

		if (touches(a, o))
			put_steering(a, INSTRUCTION_PLACE,
				(struct fields){ .index = (uint16_t)o, .from = { bytes, access_of(a, o) } });
	}
}

static void put_store(struct assembler *a, unsigned o) {
	static const uint8_t stores[] = { INSTRUCTION_STORE_UNIFORM, INSTRUCTION_STORE, INSTRUCTION_STORE_STRIDED };
	const struct kernel_operand *p = &a->k->operand[o];
	struct instruction i = { .kind = stores[access_of(a, o)], .type = p->dtype };
	unsigned v = a->same[p->value];

	if (a->home[v] == NO_REGISTER)
		load(a, v);
	if (i.kind == INSTRUCTION_STORE && p->stream)
		i.kind = INSTRUCTION_STREAM_STORE;
	put(a, &i, (struct fields){ .from = { a->home[v] }, .index = (uint16_t)o });
}

static void load_outputs(struct assembler *a) {
	for (unsigned o = 0; o < a->k->operands; o++)
		if (is_output(a->k, o) && a->home[a->same[a->k->operand[o].value]] == NO_REGISTER)
			load(a, a->same[a->k->operand[o].value]);
}

static void put_stores(struct assembler *a) {
	load_outputs(a);
	for (unsigned o = 0; o < a->k->operands; o++)
		if (is_output(a->k, o))
			put_store(a, o);
}

static void put_all(struct assembler *a) {
	put_word(a, a->k->rank);
	put_strips(a);
	compute_level(a, LEVEL_TASK);
	put_steering(a, INSTRUCTION_UNIT, (struct fields){ 0 });
	put_places(a);
	compute_level(a, LEVEL_UNIT);
	put_steering(a, INSTRUCTION_BLOCKS, (struct fields){ 0 });
	compute_level(a, LEVEL_ELEMENT);
	put_stores(a);
	put_steering(a, INSTRUCTION_NEXT, (struct fields){ 0 });
}

/* ---- the whole ---- */

/* Why a kernel is nothing that any interpreter runs, or NULL. */
static const char *check_kernel(const struct kernel *k) {
	if (k->root != KERNEL_MAP)
		return "it is no elementwise kernel";
	for (unsigned v = 0; v < k->values; v++) {
		const struct kernel_value *value = &k->value[v];

		if (kernel_value_gathers(value))
			return "elements are read where an index says";
		if (value->kind == KERNEL_OP && op_is_own(value->op))
			return "it holds an operation of the administrator's";
	}
	return k->rank > LIMIT_RANK ? "it has too many dimensions" : NULL;
}

const char *bytecode_assemble(const struct kernel *k, const struct traits *t, enum dialect dialect, struct bytecode *b) {
	struct instruction_set set;
	struct assembler a = { .k = k, .t = t, .set = &set, .code = b, .registers = interpreter_shape(t).registers };

	*b = (struct bytecode){ .dialect = dialect };
	a.reason = check_kernel(k);
	if (a.reason)
		return a.reason;
	instructions_of(dialect, t, &set);
	memset(a.home, NO_REGISTER, sizeof a.home);
	find_same(&a);
	for (unsigned v = 0; v < k->values; v++)
		find_level(&a, v);
	find_needed(&a);
	put_all(&a);
	return a.reason;
}

static bool holds_types(const struct kernel *k, enum dialect dialect) {
	for (unsigned v = 0; v < k->values; v++)
		if (!instruction_dialect_has(dialect, k->value[v].dtype))
			return false;
	return true;
}

const char *bytecode_make(const struct kernel *k, const struct traits *t, struct bytecode *b) {
	const char *reason = "no interpreter has all its element types";

	for (enum dialect d = 0; d < DIALECTS; d++) {
		if (!bytecode_dialect_serves(d, t) || !holds_types(k, d))
			continue;
		reason = bytecode_assemble(k, t, d, b);
		if (!reason)
			return NULL;
	}
	return reason;
}

struct emit_launch bytecode_geometry(const struct kernel *k, const struct traits *t, const int64_t *dims, uint64_t *record) {
	struct interpreter_shape shape = interpreter_shape(t);
	struct traits own = *t;
	struct kernel like = *k;

	like.width = shape.width;
	/* It reads strided operands as they lie. */
	like.turned = false;
	own.local_size = shape.group;
	return emit_geometry(&like, &own, dims, 0, record);
}

void bytecode_interpreter(enum dialect dialect, const struct traits *t, struct kernel *k) {
	memset(k, 0, sizeof *k);
	k->root = KERNEL_INTERPRETER;
	k->width = interpreter_shape(t).width;
	k->op = (uint16_t)dialect;
	k->block_dim = 0xff;
	k->root_value = KERNEL_NONE;
}
