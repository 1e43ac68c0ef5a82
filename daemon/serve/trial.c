/* Trials of operations that an administrator defined; see trial.h. */
#include "trial.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "protocol/own.h"
#include "protocol/shm.h"

enum {
	/* Above a vector's lanes and no multiple of any: every kernel has a whole vector and a rest. */
	TRIAL_EXTENT = 19,
	TRIAL_ELEMENTS = TRIAL_EXTENT * TRIAL_EXTENT,
	/* The result, what is made of it, and the result of transposed operands. */
	TRIAL_OUTPUTS = 3,
	/* Fused, one operation a kernel, and the pattern that a body stands for in the place of it. */
	FORM_FUSED = 0,
	FORM_SINGLE = 1,
	FORM_PATTERN = 2,
	TRIAL_FORMS = 3,
	/* An operand's place in the arena of operands. */
	TRIAL_ROOM = 8192,
	TRIAL_BYTES = EXPR_OPERANDS * TRIAL_ROOM + LIMIT_ARENA_SLACK,
	/* Of operands and of results. */
	TRIAL_ARENAS = 16,
	TRIAL_OPERANDS_ARENA = 1,
};

enum phase {
	PHASE_BEGIN,
	PHASE_RUN,
	PHASE_PUBLISH,
};

struct trial_arena {
	char *base;
	uint64_t bytes;
};

struct trial {
	struct trial_config config;
	unsigned arity, choice;              /* choice: of an expression's types */
	enum dtype dtype;                    /* that a body is tried on */
	enum phase phase;
	unsigned pending;                    /* callbacks to come */
	struct fault fault;                  /* what exec said first */
	struct lane *lane;
	struct space *space;
	struct graph *graph;
	unsigned outputs;
	struct plan *plan[TRIAL_FORMS];
	struct buffer *buffer[TRIAL_FORMS][TRIAL_OUTPUTS];
	struct buffer *operand[EXPR_OPERANDS];
	struct trial_arena arena[TRIAL_ARENAS];  /* by number */
	uint64_t random;
	uint32_t exact;                      /* types in which a body gave the bits of its pattern */
	struct fault differs;                /* the first type in which it did not */
};

/* ---- memory ---- */

static int add_arena(struct trial *t, uint32_t id, uint64_t bytes, bool engine_owned) {
	void *base;
	int fd, r = shm_create("fusiond trial", bytes, &fd);

	if (r)
		return r;
	r = shm_map(fd, bytes, NULL, &base);
	if (r) {
		close(fd);
		return r;
	}
	t->arena[id] = (struct trial_arena){ base, bytes };
	/* Takes over fd. */
	return space_add_arena(t->space, id, fd, bytes, engine_owned);
}

static int grow(void *user, uint64_t bytes) {
	struct trial *t = user;

	for (uint32_t id = TRIAL_OPERANDS_ARENA + 1; id < TRIAL_ARENAS; id++)
		if (!t->arena[id].base)
			return add_arena(t, id, bytes, true);
	return -ENOMEM;
}

static void freed(void *user, uint32_t arena, uint64_t offset, uint64_t bytes) {
	(void)user;
	(void)arena;
	(void)offset;
	(void)bytes;
}

static void drop(void *user, uint32_t arena) {
	struct trial *t = user;

	munmap(t->arena[arena].base, t->arena[arena].bytes);
	t->arena[arena].base = NULL;
}

/* ---- data ---- */

static uint64_t next_random(struct trial *t) {
	t->random ^= t->random << 13;
	t->random ^= t->random >> 7;
	t->random ^= t->random << 17;
	return t->random;
}

static double real_at(struct trial *t, unsigned i) {
	static const double special[] = { 0.0, -0.0, INFINITY, -INFINITY, NAN, 1e-40, 1.0, -1.0, 0.5, 65504, 3e38 };
	enum { SPECIALS = sizeof special / sizeof *special };
	uint64_t word = next_random(t);
	double x = (double)(word >> 11) / (double)(UINT64_C(1) << 50) - 4;

	/* At other places in each operand, so that they meet all kinds of others. */
	if (word % TRIAL_ELEMENTS < UINT64_C(2) * SPECIALS && i % 2)
		return special[word % SPECIALS];
	return word % 8 ? x : ldexp(x, (int)(word >> 3) % 60 - 30);
}

/* The integers that others are at odds with: each meets each of the other operands, as in least / -1, which traps. */
static uint64_t integer_at(struct trial *t, enum dtype dtype, unsigned operand, unsigned i) {
	const uint64_t least = UINT64_C(1) << (8 * dtype_info(dtype)->bytes - 1);
	const uint64_t special[] = { 0, 1, UINT64_MAX, least, least - 1 };
	enum { SPECIALS = sizeof special / sizeof *special };
	static const unsigned stride[EXPR_OPERANDS] = { 1, SPECIALS, SPECIALS * SPECIALS };
	uint64_t word = next_random(t);

	if (i < SPECIALS * SPECIALS * SPECIALS && operand < OWN_OPERANDS)
		return special[i / stride[operand] % SPECIALS];
	return word % 4 ? word : word >> 8 & 3;
}

static void put_element(struct trial *t, enum dtype dtype, char *at, unsigned operand, unsigned i) {
	union {
		uint64_t word;
		uint16_t half;
		float f32;
		double f64;
	} u = { 0 };
	double x = real_at(t, i);

	if (dtype == DTYPE_bool)
		u.word = next_random(t) & 1;
	else if (dtype == DTYPE_f16)
		u.half = dtype_f16_from_float((float)x);
	else if (dtype == DTYPE_bf16)
		u.half = dtype_bf16_from_float((float)x);
	else if (dtype == DTYPE_f32)
		u.f32 = (float)x;
	else if (dtype == DTYPE_f64)
		u.f64 = x;
	else
		u.word = integer_at(t, dtype, operand, i);
	memcpy(at, &u, dtype_info(dtype)->bytes);
}

static enum dtype type_of_operand(const struct trial *t, unsigned i) {
	return t->config.definition ? definition_tried_type(t->config.definition, t->choice, i) : t->dtype;
}

static void fill_operand(struct trial *t, unsigned i) {
	enum dtype dtype = type_of_operand(t, i);
	char *at = t->arena[TRIAL_OPERANDS_ARENA].base + i * (uint64_t)TRIAL_ROOM;

	for (unsigned e = 0; e < TRIAL_ELEMENTS; e++)
		put_element(t, dtype, at + e * (uint64_t)dtype_info(dtype)->bytes, i, e);
}

/* ---- the graph ---- */

static int graph_make(void *into, unsigned op, unsigned n, const uint32_t *in, const struct op_attr *attr,
	uint32_t *nodep, struct fault *f) {
	return graph_op(into, op, n, in, attr, 0, nodep, f);
}

static const struct tensor_type *graph_type(void *into, uint32_t node) {
	return &graph_node(into, node)->type;
}

static int pattern_number(struct trial *t, double number, uint32_t *nodep, struct fault *f) {
	struct op_attr attr = { .dtype = (uint8_t)t->dtype };

	if (!dtype_scalar_exact(t->dtype, number, &attr.value[0]))
		return fault_set(f, FAULT_DTYPE, "%.17g is no value of %s", number, dtype_info(t->dtype)->name);
	return graph_op(t->graph, OP_fill, 0, NULL, &attr, 0, nodep, f);
}

/* The pattern's operations in the element type that is tried; a number that may be any is 1. */
static int call_pattern(struct trial *t, const uint32_t *operand, uint32_t *nodep, struct fault *f) {
	const struct template *p = t->config.pattern;
	uint32_t node[TEMPLATE_NODES] = { 0 }, in[TEMPLATE_ARGUMENTS];
	int r = 0;

	for (unsigned i = 0; !r && i < p->nodes; i++) {
		const struct template_node *n = &p->node[i];

		for (unsigned k = 0; k < n->arity; k++)
			in[k] = node[n->in[k]];
		if (n->kind == TEMPLATE_OPERAND)
			node[i] = operand[n->operand];
		else if (n->kind == TEMPLATE_OPERATION)
			r = graph_op(t->graph, n->op, n->arity, in, NULL, 0, &node[i], f);
		else
			r = pattern_number(t, n->kind == TEMPLATE_NUMBER ? n->number : 1, &node[i], f);
	}
	*nodep = node[p->nodes - 1];
	return r;
}

/* The operation on these nodes. */
static int call(struct trial *t, unsigned form, const uint32_t *operand, uint32_t *nodep, struct fault *f) {
	const struct expand_target target = { t->graph, graph_make, graph_type };

	if (form == FORM_PATTERN)
		return call_pattern(t, operand, nodep, f);
	if (t->config.definition)
		return definition_try(t->config.definition, &target, TRIAL_EXTENT, operand, nodep, f);
	return graph_op(t->graph, t->config.op, t->arity, operand, NULL, 0, nodep, f);
}

/* Something cheap that any element type has, and that changes bits. */
static int neighbour(struct trial *t, uint32_t node, uint32_t *nodep, struct fault *f) {
	bool truth = graph_node(t->graph, node)->type.dtype == DTYPE_bool;

	return graph_op(t->graph, truth ? OP_logical_not : OP_neg, 1, &node, NULL, 0, nodep, f);
}

static int operand_nodes(struct trial *t, unsigned i, uint32_t *before, uint32_t *transposed, struct fault *f) {
	const struct tensor_type type = { .dtype = (uint8_t)type_of_operand(t, i), .rank = 2,
		.dims = { TRIAL_EXTENT, TRIAL_EXTENT } };
	const struct view rows = { .stride = { TRIAL_EXTENT, 1 } }, columns = { .stride = { 1, TRIAL_EXTENT } };
	uint32_t leaf = 0;
	int r = 0;

	if (!t->operand[i])
		r = buffer_from_arena(t->space, TRIAL_OPERANDS_ARENA, i * (uint64_t)TRIAL_ROOM,
			(uint64_t)shape_bytes(&type), &t->operand[i], f);
	if (!r)
		r = graph_leaf(t->graph, t->operand[i], &type, &rows, &leaf);
	if (!r)
		r = graph_leaf(t->graph, t->operand[i], &type, &columns, transposed);
	return r ? r : neighbour(t, leaf, before, f);
}

static int output(struct trial *t, uint32_t node) {
	return graph_output(t->graph, node, t->outputs++);
}

static int build_graph(struct trial *t, unsigned form, struct fault *f) {
	uint32_t before[EXPR_OPERANDS], transposed[EXPR_OPERANDS], result = 0, after = 0, other = 0;
	int r = 0;

	graph_reset(t->graph);
	t->outputs = 0;
	for (unsigned i = 0; !r && i < t->arity; i++) {
		if (form == FORM_FUSED)
			fill_operand(t, i);
		r = operand_nodes(t, i, &before[i], &transposed[i], f);
	}
	if (!r)
		r = call(t, form, before, &result, f);
	if (!r)
		r = call(t, form, transposed, &other, f);
	if (!r)
		r = neighbour(t, result, &after, f);
	if (!r)
		r = output(t, result);
	if (!r)
		r = output(t, after);
	return r ? r : output(t, other);
}

/* ---- running ---- */

static void on_called(void *user, const struct fault *f) {
	struct trial *t = user;

	t->pending--;
	if (f && !t->fault.code)
		t->fault = *f;
}

static int submit(struct trial *t, unsigned form, struct fault *f) {
	struct plan_options o = { .fuse = form != FORM_SINGLE, .traits = t->config.traits };
	struct buffer *leaf[2 * EXPR_OPERANDS];
	uint64_t offset[2 * EXPR_OPERANDS];
	struct exec_request q = { .leaf = leaf, .leaf_offset = offset, .space = t->space, .done = on_called, .user = t };
	int r = build_graph(t, form, f);

	if (!r)
		r = plan_make(t->graph, &o, &t->plan[form], f);
	if (r)
		return r;
	for (uint32_t i = 0; i < graph_leaves(t->graph); i++) {
		leaf[i] = graph_leaf_at(t->graph, i)->buffer;
		offset[i] = (uint64_t)graph_leaf_at(t->graph, i)->view.offset;
	}
	q.plan = t->plan[form];
	q.scalar = graph_scalar_values(t->graph);
	r = exec_submit(t->config.exec, t->lane, &q, t->buffer[form]);
	t->pending += !r;
	return r;
}

static int begin(struct trial *t, struct fault *f) {
	const struct space_callbacks c = { .grow = grow, .freed = freed, .drop = drop, .user = t };
	int r = lane_new(t->config.exec, &t->lane);

	if (!r)
		r = space_new(t->config.exec, &c, UINT64_MAX, &t->space);
	if (!r)
		r = graph_new(&t->graph);
	if (!r)
		r = add_arena(t, TRIAL_OPERANDS_ARENA, TRIAL_BYTES, false);
	for (unsigned form = 0; !r && form < FORM_PATTERN; form++)
		r = submit(t, form, f);
	if (r || !t->config.pattern)
		return r;
	/* An element type that one of its operations or numbers does not take is none of the pattern's. */
	r = submit(t, FORM_PATTERN, f);
	return r == FAULT_DTYPE ? 0 : r;
}

/* What was made for one element type. The lane first: from then on exec calls nobody back. */
static void end(struct trial *t) {
	if (t->lane)
		t->lane = lane_free(t->lane);
	for (unsigned form = 0; form < TRIAL_FORMS; form++) {
		for (unsigned i = 0; i < TRIAL_OUTPUTS; i++)
			if (t->buffer[form][i])
				t->buffer[form][i] = buffer_unref(t->buffer[form][i]);
		t->plan[form] = plan_unref(t->plan[form]);
	}
	for (unsigned i = 0; i < EXPR_OPERANDS; i++)
		if (t->operand[i])
			t->operand[i] = buffer_unref(t->operand[i]);
	t->graph = graph_free(t->graph);
	if (t->space)
		t->space = space_free(t->space);
	for (uint32_t id = 0; id < TRIAL_ARENAS; id++)
		if (t->arena[id].base)
			drop(t, id);
	t->pending = 0;
}

static int publish(struct trial *t) {
	int r = 0;

	for (unsigned form = 0; !r && form < TRIAL_FORMS; form++)
		for (unsigned i = 0; !r && t->plan[form] && i < t->outputs; i++) {
			r = buffer_publish(t->lane, t->buffer[form][i], on_called, t);
			t->pending += !r;
		}
	return r;
}

/* ---- comparing ---- */

static bool is_nan(enum dtype dtype, const char *at) {
	float f32;
	double f64;
	uint16_t half;

	memcpy(&half, at, sizeof half);
	if (dtype == DTYPE_f16)
		return (half & 0x7fff) > 0x7c00;
	if (dtype == DTYPE_bf16)
		return (half & 0x7fff) > 0x7f80;
	if (dtype == DTYPE_f32)
		return memcpy(&f32, at, sizeof f32), isnan(f32);
	return dtype == DTYPE_f64 && (memcpy(&f64, at, sizeof f64), isnan(f64));
}

/* Where element i of an output lies. */
static const char *element(const struct trial *t, unsigned form, unsigned output, int64_t i) {
	const struct plan_output *o = &t->plan[form]->output[output];
	int64_t offset = o->view.offset;
	uint32_t arena;
	uint64_t at;

	for (unsigned d = o->type.rank; d-- > 0;) {
		offset += i % o->type.dims[d] * o->view.stride[d];
		i /= o->type.dims[d];
	}
	buffer_location(t->buffer[form][output], &arena, &at);
	return t->arena[arena].base + at + (uint64_t)offset * dtype_info(o->type.dtype)->bytes;
}

static unsigned output_of_tag(const struct plan *p, uint64_t tag) {
	unsigned i = 0;

	while (p->output[i].tag != tag)
		i++;
	return i;
}

static int compare_output(const struct trial *t, unsigned form, unsigned tag, struct fault *f) {
	static const char *const words[] = { [FORM_SINGLE] = "the fused and the unfused form",
		[FORM_PATTERN] = "the body and the pattern" };
	unsigned fused = output_of_tag(t->plan[FORM_FUSED], tag), other = output_of_tag(t->plan[form], tag);
	const struct tensor_type *type = &t->plan[FORM_FUSED]->output[fused].type;
	size_t bytes = dtype_info(type->dtype)->bytes;

	if (!shape_equal(type, &t->plan[form]->output[other].type) || type->dtype != t->plan[form]->output[other].type.dtype)
		return fault_set(f, FAULT_ARGUMENT, "%s: the pattern gives another type than the body, of %s", t->config.name,
			dtype_info(t->dtype)->name);
	for (int64_t i = 0; i < shape_elements(type); i++) {
		const char *a = element(t, FORM_FUSED, fused, i), *b = element(t, form, other, i);

		if (memcmp(a, b, bytes) != 0 && !(is_nan(type->dtype, a) && is_nan(type->dtype, b)))
			return fault_set(f, FAULT_ARGUMENT, "%s: element %lld of %s differs between %s, on random data; "
				"declare it exact = no if that may be", t->config.name, (long long)i,
				dtype_info(type->dtype)->name, words[form]);
	}
	return 0;
}

static int compare_form(const struct trial *t, unsigned form, struct fault *f) {
	int r = 0;

	for (unsigned tag = 0; !r && tag < t->outputs; tag++)
		r = compare_output(t, form, tag, f);
	return r;
}

/* Only the bits: where they differ the body does not stand for the pattern in this type. */
static void compare_pattern(struct trial *t) {
	struct fault f;

	if (!t->plan[FORM_PATTERN])
		return;
	if (!compare_form(t, FORM_PATTERN, &f))
		t->exact |= 1U << t->dtype;
	else if (!t->differs.code)
		t->differs = f;
}

static int compare(struct trial *t, struct fault *f) {
	compare_pattern(t);
	return t->config.inexact ? 0 : compare_form(t, FORM_SINGLE, f);
}

/* ---- the way through ---- */

/* The next element type that a body takes, from t->dtype on; false where there is none. */
static bool find_type(struct trial *t) {
	for (; t->dtype < DTYPE_COUNT; t->dtype++)
		if (op_types_take(op_info(t->config.op)->types, dtype_info(t->dtype)->kind)
			&& (t->dtype != DTYPE_f64 || t->config.traits->f64))
			return true;
	return false;
}

int trial_new(const struct trial_config *c, struct trial **trialp, struct fault *f) {
	struct trial *t = calloc(1, sizeof *t);
	int r = 0;

	if (!t)
		return -ENOMEM;
	t->config = *c;
	t->random = UINT64_C(0x9e3779b97f4a7c15);
	t->arity = c->definition ? c->definition->arity : op_info(c->op)->arity;
	if (c->definition)
		r = definition_choose(c->definition, &t->choice, f);
	if (r)
		trial_free(t);
	else
		*trialp = t;
	return r;
}

struct trial *trial_free(struct trial *t) {
	if (t)
		end(t);
	free(t);
	return NULL;
}

static bool conclude(int r, const struct trial *t, struct fault *f) {
	if (r < 0)
		fault_set(f, FAULT_INTERNAL, "%s could not be tried: %s", t->config.name, strerror(-r));
	return true;
}

bool trial_ready(const struct trial *t) {
	return !t->pending;
}

/* One element type is done; are all? A body that stands for its pattern in none of them is wrong. */
static bool next_type(struct trial *t, struct fault *f) {
	end(t);
	t->phase = PHASE_BEGIN;
	t->dtype++;
	if (!t->config.definition && find_type(t))
		return false;
	if (t->config.pattern && !t->exact && !t->config.inexact) {
		*f = t->differs;
		if (!f->code)
			fault_set(f, FAULT_DTYPE, "%s: no element type of the body is one of the pattern", t->config.name);
	}
	return true;
}

uint32_t trial_exact(const struct trial *t) {
	return t->exact;
}

bool trial_turn(struct trial *t, struct fault *f) {
	int r = 0;

	f->code = 0;
	if (t->pending)
		return false;
	if (t->fault.code) {
		*f = t->fault;
		return true;
	}
	if (t->phase == PHASE_BEGIN)
		r = t->config.definition || find_type(t) ? begin(t, f) : 0;
	else if (t->phase == PHASE_RUN)
		r = publish(t);
	else
		r = compare(t, f);
	if (r)
		return conclude(r, t, f);
	if (t->phase == PHASE_PUBLISH)
		return next_type(t, f);
	t->phase++;
	return false;
}
