/*
 * The assembler: a kernel of root MAP as bytecode; see bytecode.h.
 *
 * Values are computed in the kernel's order, each as seldom as it may be (level), so that what does not change
 * along a row is not computed again for each block of it. Elements are loaded when they are first needed, which keeps
 * few registers in use; all stores stand at the end of a block, since an output may lie where an input does.
 *
 * On CPUs an operand whose elements lie as registers hold them is read in place, as a register that nothing else
 * uses, before or after: what runs again for the next row would still be read where the operand lay. And short operations on f32 are links: one that reads what the one before it computed continues its chain. A
 * value that a chain has computed last is in no register until it is kept. Any other instruction ends the chain.
 *
 * Whatever a program could do wrong is refused here: registers beyond the file, instructions of other dialects.
 */
#include "bytecode.h"

#include <string.h>

#include "daemon/emit/instructions.h"
#include "daemon/emit/writer.h"

enum { NO_REGISTER = 0xff, NO_VALUE = 0xffff };

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
	bool used[256];                   /* at any time so far */
	uint16_t chained;                 /* the value that an open chain has, or NO_VALUE */
	bool in_place;                    /* are operands read in place? It takes more registers */
	bool reached[KERNEL_VALUES];      /* is the value read in place? */
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
		refuse(a, "it is longer than bytecode may be");
	else
		a->code->word[a->code->words++] = word;
}

static void end_chain(struct assembler *a);

static void put(struct assembler *a, const struct instruction *i, struct fields f) {
	int which = instruction_find(a->set, i);

	if (!instruction_is_link(i))
		end_chain(a);
	if (which < 0)
		refuse(a, no_instruction);
	put_word(a, (uint64_t)(which & 0xffff) | (uint64_t)f.to << 16 | (uint64_t)f.from[0] << 24 |
			    (uint64_t)f.from[1] << 32 | (uint64_t)f.from[2] << 40 | (uint64_t)f.index << 48);
}

static void put_steering(struct assembler *a, uint8_t kind, struct fields f) {
	put(a, &(struct instruction){ .kind = kind }, f);
}

/* ---- registers ---- */

/* One that is free or, where that is asked, one that nothing has ever used. */
static uint8_t find_register(struct assembler *a, bool fresh) {
	for (unsigned r = 0; r < a->registers; r++)
		if (!a->busy[r] && !(fresh && a->used[r])) {
			a->busy[r] = a->used[r] = true;
			return (uint8_t)r;
		}
	refuse(a, no_registers);
	return NO_REGISTER;
}

static uint8_t take_register(struct assembler *a) {
	return find_register(a, false);
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

/* ---- chains ---- */

static void put_link(struct assembler *a, uint8_t kind, struct fields f) {
	put(a, &(struct instruction){ .kind = kind }, f);
}

/* The value of the open chain, which is needed once more, gets a register. */
static void keep(struct assembler *a, uint8_t kind) {
	uint8_t to = a->home[a->chained] = take_register(a);

	put_link(a, kind, (struct fields){ .to = to });
}

static void end_chain(struct assembler *a) {
	if (a->chained == NO_VALUE)
		return;
	keep(a, INSTRUCTION_END);
	a->chained = NO_VALUE;
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

/* Gives a value a register, if it has none. */
static void make_readable(struct assembler *a, unsigned v, enum level level) {
	if (v == a->chained)
		end_chain(a);
	else if (a->home[v] == NO_REGISTER && a->level[v] == level)
		load(a, v);
}

/* The register of an operand that is used once more. */
static uint8_t use(struct assembler *a, unsigned v, enum level level, uint16_t *dying, unsigned *countp) {
	v = a->same[v];
	make_readable(a, v, level);
	/* What stands further out is needed again the next time. */
	if (a->level[v] == level && --a->uses[v] == 0 && !a->reached[v])
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

/* Is the value computed by a link? */
static bool is_link(const struct assembler *a, unsigned v) {
	const struct kernel_value *value = &a->k->value[v];
	struct instruction i = instruction_of(a->k, value);

	if (value->op == OP_cast)
		return false;
	i.kind = INSTRUCTION_LINK;
	i.from = kernel_value_args(value) == 1 ? LINK_UNARY : LINK_BEFORE;
	return instruction_find(a->set, &i) >= 0;
}

/* A register that is not read again is free. */
static void release(struct assembler *a, unsigned v, enum level level) {
	if (a->level[v] == level && !a->uses[v] && !a->reached[v] && a->home[v] != NO_REGISTER)
		a->busy[a->home[v]] = false;
}

/* Opens a chain that begins with the first operand, where neither is the value of the open one. */
static enum link form_of(struct assembler *a, const uint16_t *from, unsigned count) {
	if (a->chained == NO_VALUE || (from[0] != a->chained && from[count - 1] != a->chained)) {
		put_steering(a, INSTRUCTION_CHAIN, (struct fields){ .from = { a->home[from[0]] } });
		a->chained = from[0];
	}
	if (count == 1)
		return LINK_UNARY;
	if (from[0] == from[1])
		return LINK_TWICE;
	return from[0] == a->chained ? LINK_BEFORE : LINK_BEHIND;
}

/* Few operations have a link for twice the chain's value; others read it from the register in which it is kept. */
static void put_operation(struct assembler *a, unsigned op, enum link form, unsigned other) {
	struct instruction i = { .kind = INSTRUCTION_LINK, .type = DTYPE_f32, .from = (uint8_t)form, .op = (uint16_t)op };
	bool kept = a->home[a->chained] != NO_REGISTER, absent = form == LINK_TWICE && instruction_find(a->set, &i) < 0;

	if (!kept && (absent || a->uses[a->chained]))
		keep(a, INSTRUCTION_KEEP);
	if (absent)
		i.from = LINK_BEFORE;
	put(a, &i, (struct fields){ .from = { i.from == LINK_BEFORE || i.from == LINK_BEHIND ? a->home[other] : 0 } });
}

static void compute_link(struct assembler *a, unsigned v) {
	const struct kernel_value *value = &a->k->value[v];
	unsigned count = kernel_value_args(value);
	enum level level = (enum level)a->level[v];
	uint16_t from[KERNEL_ARGS] = { 0 };
	enum link form;

	for (unsigned n = 0; n < count; n++) {
		from[n] = a->same[value->arg[n]];
		a->uses[from[n]] -= a->level[from[n]] == level;
	}
	for (unsigned n = 0; n < count; n++)
		if (from[n] != a->chained)
			make_readable(a, from[n], level);
	form = form_of(a, from, count);
	put_operation(a, value->op, form, from[form == LINK_BEFORE]);
	for (unsigned n = 0; n < count; n++)
		release(a, from[n], level);
	a->chained = (uint16_t)v;
}

static void round_value(struct assembler *a, unsigned v) {
	const struct kernel_value *value = &a->k->value[v];

	if (value->op == OP_cast || !*value_rounding(value->op, value->dtype))
		return;
	end_chain(a);
	put(a, &(struct instruction){ .kind = INSTRUCTION_ROUND, .type = value->dtype },
		(struct fields){ .to = a->home[v], .from = { a->home[v] } });
}

static void compute(struct assembler *a, unsigned v) {
	const struct kernel_value *value = &a->k->value[v];
	struct instruction i = instruction_of(a->k, value);
	struct fields f = { 0 };
	uint16_t dying[KERNEL_ARGS];
	unsigned count = 0;

	/* Before a register that this one reads is free: the chain's value would go there. */
	end_chain(a);
	for (unsigned n = 0; n < kernel_value_args(value); n++)
		f.from[n] = use(a, value->arg[n], (enum level)a->level[v], dying, &count);
	f.to = a->home[v] = place_result(a, v, dying, count);
	put(a, &i, f);
}

/* Elements are loaded where they are first used, the rest at once. */
static void compute_level(struct assembler *a, enum level level) {
	for (unsigned v = 0; v < a->k->values && !a->reason; v++) {
		if (!a->needed[v] || a->level[v] != level || a->home[v] != NO_REGISTER)
			continue;
		if (a->k->value[v].kind != KERNEL_OP) {
			if (level != LEVEL_ELEMENT)
				load(a, v);
			continue;
		}
		if (is_link(a, v))
			compute_link(a, v);
		else
			compute(a, v);
		round_value(a, v);
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

/* Values of element level, before any other of it: what is read in place. */
static void put_reaches(struct assembler *a) {
	for (unsigned v = 0; v < a->k->values && a->in_place; v++) {
		const struct kernel_value *value = &a->k->value[v];
		const struct dtype_info *type = dtype_info(value->dtype);

		if (!a->needed[v] || a->level[v] != LEVEL_ELEMENT || value->kind != KERNEL_LOAD || access_of(a, value->index) != 1 ||
			type->reg != value->dtype)
			continue;
		a->reached[v] = true;
		a->home[v] = find_register(a, true);
		put_steering(a, INSTRUCTION_REACH,
			(struct fields){ .to = a->home[v], .from = { type->bytes }, .index = value->index });
		put(a, &(struct instruction){ .kind = INSTRUCTION_LOAD, .type = value->dtype },
			(struct fields){ .to = a->home[v], .index = value->index });
	}
}

static struct instruction store_of(const struct assembler *a, unsigned o) {
	static const uint8_t stores[] = { INSTRUCTION_STORE_UNIFORM, INSTRUCTION_STORE, INSTRUCTION_STORE_STRIDED };
	const struct kernel_operand *p = &a->k->operand[o];
	struct instruction i = { .kind = stores[access_of(a, o)], .type = p->dtype };

	if (i.kind == INSTRUCTION_STORE && p->stream)
		i.kind = INSTRUCTION_STREAM_STORE;
	return i;
}

static void put_store(struct assembler *a, unsigned o) {
	struct instruction i = store_of(a, o);

	put(a, &i, (struct fields){ .from = { a->home[a->same[a->k->operand[o].value]] }, .index = (uint16_t)o });
}

static unsigned outputs_of(const struct kernel *k) {
	unsigned n = 0;

	for (unsigned o = 0; o < k->operands; o++)
		n += is_output(k, o);
	return n;
}

/*
 * An output may lie where an operand that is read in place does, so of that there is a copy before another output is
 * stored.
 */
static void load_output(struct assembler *a, unsigned v, bool alone) {
	if (v == a->chained || (a->home[v] != NO_REGISTER && (alone || !a->reached[v])))
		return;
	a->reached[v] = false;
	load(a, v);
}

static void load_outputs(struct assembler *a) {
	bool alone = outputs_of(a->k) == 1;

	for (unsigned o = 0; o < a->k->operands; o++)
		if (is_output(a->k, o))
			load_output(a, a->same[a->k->operand[o].value], alone);
}

/*
 * The value that was computed last goes to memory at once where it is needed for nothing else. Returns the output, or
 * how many operands there are.
 */
static unsigned write_chained(struct assembler *a) {
	unsigned o = 0, v = a->chained;
	struct instruction store;
	uint8_t to;

	while (o < a->k->operands && !(is_output(a->k, o) && a->same[a->k->operand[o].value] == v))
		o++;
	if (v == NO_VALUE || o == a->k->operands || a->uses[v] != 1)
		return a->k->operands;
	store = store_of(a, o);
	if (store.type != DTYPE_f32 || (store.kind != INSTRUCTION_STORE && store.kind != INSTRUCTION_STREAM_STORE))
		return a->k->operands;
	to = a->home[v] = take_register(a);
	put_link(a, store.kind == INSTRUCTION_STORE ? INSTRUCTION_WRITE : INSTRUCTION_STREAM,
		(struct fields){ .to = to, .index = (uint16_t)o });
	a->chained = NO_VALUE;
	put_store(a, o);
	return o;
}

static void put_stores(struct assembler *a) {
	unsigned written;

	load_outputs(a);
	written = write_chained(a);
	end_chain(a);
	for (unsigned o = 0; o < a->k->operands; o++)
		if (is_output(a->k, o) && o != written)
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
	put_reaches(a);
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

static const char *assemble(
	const struct kernel *k, const struct traits *t, const struct instruction_set *set, bool in_place, struct bytecode *b) {
	struct assembler a = { .k = k, .t = t, .set = set, .code = b, .registers = interpreter_shape(t).registers };

	b->words = 0;
	a.chained = NO_VALUE;
	a.in_place = in_place;
	memset(a.home, NO_REGISTER, sizeof a.home);
	find_same(&a);
	for (unsigned v = 0; v < k->values; v++)
		find_level(&a, v);
	find_needed(&a);
	put_all(&a);
	return a.reason;
}

const char *bytecode_assemble(const struct kernel *k, const struct traits *t, enum dialect dialect, struct bytecode *b) {
	const struct instruction_set *set = instructions_of(dialect, t);
	const char *reason = check_kernel(k);

	*b = (struct bytecode){ .dialect = dialect };
	if (reason)
		return reason;
	reason = assemble(k, t, set, set->chains, b);
	/* What is loaded when it is needed takes fewer registers. */
	return reason == no_registers ? assemble(k, t, set, false, b) : reason;
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
