/* The instructions of each dialect; see instructions.h. */
#include "instructions.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "protocol/op.h"

#define HAS(type) (1u << DTYPE_##type)

static const struct {
	uint32_t types, light;
	bool rare;
} dialects[DIALECTS] = {
#define DIALECT(name, types, light, rare) [DIALECT_##name] = { types, light, rare },
#include "dialects.def"
#undef DIALECT
};

static const uint16_t chained[] = {
#define CHAINED(op) OP_##op,
#include "dialects.def"
#undef CHAINED
};

static const uint16_t chained_twice[] = {
#define CHAINED_TWICE(op) OP_##op,
#include "dialects.def"
#undef CHAINED_TWICE
};

static const uint16_t rare_operations[] = {
#define RARE(op) OP_##op,
#include "dialects.def"
#undef RARE
};

static const uint16_t rare_of_truth[] = {
#define RARE_TRUTH(op) OP_##op,
#include "dialects.def"
#undef RARE_TRUTH
};

static const uint16_t rare_of_floats[] = {
#define RARE_FLOAT(op) OP_##op,
#include "dialects.def"
#undef RARE_FLOAT
};

/* Operations that cost much more than an addition: of floats, of integers. */
static const uint16_t dear[] = {
#define WEIGHT(op, ...) OP_##op,
#define WEIGHT_INTEGER(op, ...)
#include "daemon/plan/weights.def"
#undef WEIGHT
#undef WEIGHT_INTEGER
};

static const uint16_t dear_integer[] = {
#define WEIGHT(op, ...)
#define WEIGHT_INTEGER(op, ...) OP_##op,
#include "daemon/plan/weights.def"
#undef WEIGHT
#undef WEIGHT_INTEGER
};

bool instruction_dialect_has(enum dialect dialect, unsigned type) {
	return (dialects[dialect].types | dialects[dialect].light) >> type & 1;
}

bool instruction_dialect_is_whole(enum dialect dialect, unsigned type) {
	return dialects[dialect].types >> type & dialects[dialect].rare;
}

bool bytecode_dialect_serves(enum dialect dialect, const struct traits *t) {
	return t->f64 || !(dialects[dialect].types & HAS(f64));
}

static bool is_among(unsigned op, const uint16_t *list, size_t count) {
	for (size_t i = 0; i < count; i++)
		if (list[i] == op)
			return true;
	return false;
}

static bool is_dear(unsigned op, enum dtype_kind kind) {
	return kind == DTYPE_KIND_REAL ? is_among(op, dear, sizeof dear / sizeof *dear)
				       : is_among(op, dear_integer, sizeof dear_integer / sizeof *dear_integer);
}

bool instruction_is_short(const struct instruction *i) {
	return i->kind == INSTRUCTION_OPERATION && i->type == DTYPE_f32 && !is_dear(i->op, DTYPE_KIND_REAL);
}

static bool same(const struct instruction *a, const struct instruction *b) {
	return a->kind == b->kind && a->type == b->type && a->from == b->from && a->op == b->op;
}

static unsigned place_of(const struct instruction *i) {
	uint32_t key = (uint32_t)i->op << 16 ^ (uint32_t)i->from << 12 ^ (uint32_t)i->type << 6 ^ i->kind;

	return (key * UINT32_C(2654435769)) >> (32 - INSTRUCTION_PLACE_BITS);
}

int instruction_find(const struct instruction_set *s, const struct instruction *i) {
	for (unsigned p = place_of(i); s->place[p]; p = (p + 1) % INSTRUCTION_PLACES)
		if (same(&s->row[s->place[p] - 1], i))
			return s->place[p] - 1;
	return -1;
}

static void add(struct instruction_set *s, struct instruction i) {
	unsigned p = place_of(&i);

	if (s->count == INSTRUCTIONS)
		return;
	while (s->place[p])
		p = (p + 1) % INSTRUCTION_PLACES;
	s->row[s->count++] = i;
	s->place[p] = (uint16_t)s->count;
}

static void add_memory(struct instruction_set *s, unsigned type) {
	for (unsigned kind = INSTRUCTION_LOAD; kind <= INSTRUCTION_STREAM_STORE; kind++)
		if (kind != INSTRUCTION_COUNT || type == DTYPE_i64)
			add(s, (struct instruction){ .kind = (uint8_t)kind, .type = (uint8_t)type });
	if (type == DTYPE_f16 || type == DTYPE_bf16)
		add(s, (struct instruction){ .kind = INSTRUCTION_ROUND, .type = (uint8_t)type });
}

/* The element types of a dialect that are held in a register type. */
static uint32_t held_in(uint32_t types, unsigned reg) {
	uint32_t held = 0;

	for (unsigned type = 0; type < DTYPE_COUNT; type++)
		if (types >> type & 1 && dtype_info(type)->reg == reg)
			held |= 1u << type;
	return held;
}

static bool takes(const struct op_info *info, unsigned op, uint32_t types, uint32_t light) {
	for (unsigned type = 0; type < DTYPE_COUNT; type++) {
		enum dtype_kind kind = dtype_info(type)->kind;

		if (!((types | light) >> type & 1) || !op_types_take(info->types, kind))
			continue;
		if (types >> type & 1 || !is_dear(op, kind))
			return true;
	}
	return false;
}

/* The element types of a dialect that are held in one register type. */
struct held {
	uint32_t types, light;
	bool rare;
};

static bool is_rare(unsigned op, unsigned reg) {
	return is_among(op, rare_operations, sizeof rare_operations / sizeof *rare_operations) ||
		(reg == DTYPE_u8 && is_among(op, rare_of_truth, sizeof rare_of_truth / sizeof *rare_of_truth)) ||
		(reg == DTYPE_f32 && is_among(op, rare_of_floats, sizeof rare_of_floats / sizeof *rare_of_floats));
}

static bool has(const struct held *h, const struct op_info *info, unsigned op, unsigned reg) {
	if (!info || !op_is_elementwise(info) || !takes(info, op, h->types, h->light))
		return false;
	return h->rare || !is_rare(op, reg);
}

static void add_link(struct instruction_set *s, unsigned op, enum link form) {
	add(s, (struct instruction){ .kind = INSTRUCTION_LINK,
		.type = DTYPE_f32,
		.from = (uint8_t)form,
		.op = (uint16_t)op,
		.result = DTYPE_f32 });
}

static void add_links(struct instruction_set *s, unsigned op) {
	if (op_info(op)->arity == 1) {
		add_link(s, op, LINK_UNARY);
		return;
	}
	add_link(s, op, LINK_BEFORE);
	add_link(s, op, LINK_BEHIND);
	if (is_among(op, chained_twice, sizeof chained_twice / sizeof *chained_twice))
		add_link(s, op, LINK_TWICE);
}

static void add_operation(struct instruction_set *s, unsigned op, unsigned reg) {
	if (s->chains && reg == DTYPE_f32 && is_among(op, chained, sizeof chained / sizeof *chained)) {
		add_links(s, op);
		return;
	}
	add(s, (struct instruction){ .kind = INSTRUCTION_OPERATION,
		.type = (uint8_t)reg,
		.op = (uint16_t)op,
		.result = (uint8_t)(op_info(op)->result == OP_RESULT_BOOL ? DTYPE_u8 : reg) });
}

static void add_operations(struct instruction_set *s, const struct held *h, unsigned reg) {
	for (unsigned op = 0; op < OP_COUNT; op++) {
		if (has(h, op_info(op), op, reg))
			add_operation(s, op, reg);
	}
}

static void list_instructions(enum dialect dialect, const struct traits *t, struct instruction_set *s) {
	uint32_t usable = t->f64 ? UINT32_MAX : ~HAS(f64);
	uint32_t types = dialects[dialect].types & usable, light = dialects[dialect].light & usable;

	s->chains = t->strategy == STRATEGY_CPU;
	for (unsigned kind = 0; kind < (s->chains ? INSTRUCTION_LINK : INSTRUCTION_REACH); kind++)
		add(s, (struct instruction){ .kind = (uint8_t)kind });
	for (unsigned type = 0; type < DTYPE_COUNT; type++)
		if ((types | light) >> type & 1)
			add_memory(s, type);
	for (unsigned reg = 0; reg < DTYPE_COUNT; reg++) {
		if (!held_in(types | light, reg))
			continue;
		for (unsigned type = 0; type < DTYPE_COUNT; type++)
			if ((types | light) >> type & 1)
				add(s, (struct instruction){
					.kind = INSTRUCTION_CAST, .type = (uint8_t)type, .from = (uint8_t)reg });
		add_operations(s, &(struct held){ held_in(types, reg), held_in(light, reg), dialects[dialect].rare }, reg);
	}
}

const struct instruction_set *instructions_of(enum dialect dialect, const struct traits *t) {
	static struct listed {
		atomic_bool is;
		struct instruction_set set;
	} listed[DIALECTS][2][2];
	static pthread_mutex_t listing = PTHREAD_MUTEX_INITIALIZER;
	struct listed *l = &listed[dialect][t->f64][t->strategy == STRATEGY_CPU];

	if (!atomic_load_explicit(&l->is, memory_order_acquire)) {
		pthread_mutex_lock(&listing);
		if (!l->is)
			list_instructions(dialect, t, &l->set);
		l->is = true;
		pthread_mutex_unlock(&listing);
	}
	return &l->set;
}
