/*
 * A plan computed without a device: its memory, its maps as bytecode on tests/bytecode_machine.h, and what the graph says that each
 * element is.
 *
 * The first thing that is wrong is a sentence in `problem`. What is no map gives values of which only their places are known. A
 * graph of elementwise operations, views and what is put together can be compared as a whole (evaluate()).
 */
#pragma once

#include "daemon/plan/plan.h"
#include "tests/bytecode_machine.h"

enum {
	/* Elements of a step that is a map. */
	MOST_STEP = 1 << 18,
};

static struct graph *g;
static char problem[2 * MACHINE_ERROR];

#define problem_is(...) (problem[0] ? 0 : snprintf(problem, sizeof problem, __VA_ARGS__))

/* Tests have what memory they need. */
static inline void *machine_allocate(size_t count, size_t size) {
	void *p = calloc(count, size);

	if (!p)
		abort();
	return p;
}

/* ---- the memory of a plan ---- */

struct memory {
	uint64_t *value;
	int64_t low, elements;
};

static struct memory *slots;

/* Of a leaf, from its lowest element on. */
static inline void leaf_memory(const struct graph *of, uint32_t i, struct memory *m) {
	const struct graph_leaf *l = graph_leaf_at(of, i);
	const struct tensor_type *t = &graph_node(of, l->node)->type;
	int64_t high = 0;

	*m = (struct memory){ .elements = 0 };
	if (!shape_elements(t))
		return;
	for (unsigned d = 0; d < t->rank; d++)
		*(l->view.stride[d] < 0 ? &m->low : &high) += l->view.stride[d] * (t->dims[d] - 1);
	m->elements = high - m->low + 1;
}

static inline uint64_t first_value(uint32_t slot, int64_t element) {
	return machine_mix(machine_mix(77, slot), (uint64_t)element);
}

static inline void memory_make(const struct plan *p) {
	slots = machine_allocate(p->slots + 1, sizeof *slots);
	for (uint32_t i = 0; i < p->slots; i++) {
		if (i < p->leaves)
			leaf_memory(g, i, &slots[i]);
		else
			slots[i].elements = (int64_t)p->slot[i].bytes;
		if (p->slot[i].reuse != PLAN_NONE)
			continue;
		slots[i].value = machine_allocate((size_t)slots[i].elements + 1, sizeof *slots[i].value);
		for (int64_t e = 0; i < p->leaves && e < slots[i].elements; e++)
			slots[i].value[e] = first_value(i, e + slots[i].low);
	}
}

/* A slot's memory is where that of the one is that it takes over. */
static inline uint64_t *memory_of(const struct plan *p, uint32_t slot) {
	while (p->slot[slot].reuse != PLAN_NONE)
		slot = p->slot[slot].reuse;
	return slots[slot].value;
}

static inline void memory_free(const struct plan *p) {
	for (uint32_t i = 0; i < p->slots; i++)
		free(slots[i].value);
	free(slots);
}

/* ---- a step ---- */

struct step {
	const struct plan *p;
	const struct plan_step *s;
	uint64_t record[KERNEL_WORD_DIMS + KERNEL_RANK + KERNEL_OPERANDS * (1 + KERNEL_RANK) + KERNEL_SCALARS], number[KERNEL_WORD_DIMS + KERNEL_RANK +
		KERNEL_OPERANDS * (1 + KERNEL_RANK) + KERNEL_SCALARS];
};

static inline uint64_t scalar_of(const struct step *x, unsigned scalar, unsigned dtype) {
	uint32_t n = x->s->scalar[scalar];

	return machine_number(dtype, n < x->p->scalars ? graph_scalar_values(g)[n] : x->p->constant[n - x->p->scalars]);
}

/* Once an element: its index, and the values of the kernel there. */
static inline int64_t operand_at(const struct step *x, unsigned operand, const int64_t *index) {
	const struct plan_operand *o = &x->s->operand[operand];
	int64_t at = o->offset;

	for (unsigned d = 0; d < x->s->kernel->rank; d++)
		at += index[d] * o->stride[d];
	return at;
}

static inline void kernel_values_at(const struct step *x, const int64_t *index, uint64_t *value) {
	const struct kernel *k = x->s->kernel;

	for (unsigned v = 0; v < k->values; v++) {
		const struct kernel_value *n = &k->value[v];
		uint32_t slot = kernel_value_loads(n) ? x->s->operand[n->index].slot : 0;
		uint64_t arg[KERNEL_ARGS];

		for (unsigned i = 0; i < kernel_value_args(n); i++)
			arg[i] = value[n->arg[i]];
		if (n->kind == KERNEL_LOAD)
			value[v] = memory_of(x->p, slot)[operand_at(x, n->index, index) - slots[slot].low];
		else if (n->kind == KERNEL_IOTA)
			value[v] = machine_count(operand_at(x, n->index, index));
		else if (n->kind == KERNEL_SCALAR)
			value[v] = scalar_of(x, n->index, n->dtype);
		else if (n->op == OP_copy)
			value[v] = arg[0];
		else
			value[v] = machine_elementwise(n->op, n->dtype, k->value[n->arg[kernel_value_args(n) - 1]].dtype, kernel_value_args(n), arg);
	}
}

static inline bool next_index(const int64_t *dims, unsigned rank, int64_t *index) {
	for (unsigned d = rank; d-- > 0;) {
		if (++index[d] < dims[d])
			return true;
		index[d] = 0;
	}
	return false;
}

/* What each output holds afterwards, in the order of the iteration. */
static inline uint64_t *expect(const struct step *x, unsigned *outputsp) {
	const struct kernel *k = x->s->kernel;
	int64_t index[KERNEL_RANK] = { 0 };
	uint64_t value[KERNEL_VALUES], *want, n = 0;
	unsigned outputs = 0;

	for (unsigned o = 0; o < k->operands; o++)
		outputs += k->operand[o].output;
	want = machine_allocate(1, (x->s->elements + 1) * (outputs + 1) * sizeof *want);
	do {
		kernel_values_at(x, index, value);
		for (unsigned o = 0; o < k->operands; o++)
			if (k->operand[o].output)
				want[n++] = value[k->operand[o].value];
	} while (next_index(x->s->dims, k->rank, index));
	*outputsp = outputs;
	return want;
}

static inline void compare(const struct step *x, const uint64_t *want) {
	const struct kernel *k = x->s->kernel;
	int64_t index[KERNEL_RANK] = { 0 };
	uint64_t n = 0;

	do {
		for (unsigned o = 0; o < k->operands; o++) {
			uint32_t slot = x->s->operand[o].slot;

			if (k->operand[o].output && memory_of(x->p, slot)[operand_at(x, o, index) - slots[slot].low] != want[n++])
				problem_is("element %lld of output operand %u is another", (long long)operand_at(x, o, index), o);
		}
	} while (next_index(x->s->dims, k->rank, index) && !problem[0]);
}

/* Where the kernel says the value is, without any code. */
static inline void store_wanted(const struct step *x, const uint64_t *want) {
	const struct kernel *k = x->s->kernel;
	int64_t index[KERNEL_RANK] = { 0 };
	uint64_t n = 0;

	do {
		for (unsigned o = 0; o < k->operands; o++)
			if (k->operand[o].output)
				memory_of(x->p, x->s->operand[o].slot)[operand_at(x, o, index)] = want[n++];
	} while (next_index(x->s->dims, k->rank, index));
}

static inline void make_region(const struct step *x, unsigned o, struct machine_region *r) {
	const struct kernel_operand *k = &x->s->kernel->operand[o];
	const struct plan_operand *p = &x->s->operand[o];

	*r = (struct machine_region){ .bytes = dtype_info(k->dtype)->bytes, .output = k->output, .high = -1 };
	if (k->iota)
		return;
	r->high = 0;
	for (unsigned d = 0; d < x->s->kernel->rank; d++)
		*(p->stride[d] < 0 ? &r->low : &r->high) += p->stride[d] * (x->s->dims[d] - 1);
	r->value = memory_of(x->p, p->slot);
	r->from = slots[p->slot].low - p->offset;
}

static inline void make_record(struct step *x, const struct traits *t) {
	const struct kernel *k = x->s->kernel;

	memset(x->record, 0, sizeof x->record);
	bytecode_geometry(k, t, x->s->dims, x->record);
	for (unsigned d = 0; d < k->rank; d++)
		x->record[kernel_word_dim(d)] = (uint64_t)x->s->dims[d];
	for (unsigned o = 0; o < k->operands; o++) {
		uint64_t *word = &x->record[kernel_word_operand(k, o)];

		word[0] = k->operand[o].iota ? (uint64_t)x->s->operand[o].offset : (o + UINT64_C(1)) << MACHINE_FAR;
		for (unsigned d = 0; d < k->rank; d++)
			word[1 + d] = (uint64_t)x->s->operand[o].stride[d];
	}
	for (unsigned v = 0; v < k->values; v++)
		if (k->value[v].kind == KERNEL_SCALAR)
			x->number[kernel_word_scalar(k, k->value[v].index)] = scalar_of(x, k->value[v].index, k->value[v].dtype);
}

static uint64_t ran, refused, other_steps, large_steps, elements, in_place;

static struct machine *machine;

static inline void count_reaches(const struct bytecode *b, const struct instruction_set *set) {
	for (uint32_t i = 1; i < b->words; i++)
		if (set->row[b->word[i] & 0xffff].kind == INSTRUCTION_REACH) {
			in_place++;
			return;
		}
}

static inline void run_code(struct step *x, const struct traits *t, const struct bytecode *b, unsigned together) {
	machine->set = instructions_of(b->dialect, t);
	machine->shape = interpreter_shape(t);
	machine->together = together < machine->shape.vectors ? together : machine->shape.vectors;
	machine->regions = x->s->kernel->operands;
	machine->written = 0;
	machine->error[0] = '\0';
	for (unsigned o = 0; o < x->s->kernel->operands; o++)
		make_region(x, o, &machine->region[o]);
	make_record(x, t);
	machine->record = x->record;
	machine->number = x->number;
	count_reaches(b, machine->set);
	machine_run(machine, b);
	ran++;
	elements += machine->written;
	if (machine->error[0])
		problem_is("%s", machine->error);
}

/* What is no map gives values of which only their places are known. */
static inline void run_other(const struct step *x) {
	for (unsigned o = 0; o < x->s->kernel->operands; o++) {
		uint32_t slot = x->s->operand[o].slot;
		int64_t n = x->s->kernel->operand[o].output ? (int64_t)x->p->slot[slot].bytes : 0;

		for (int64_t e = 0; e < n; e++)
			memory_of(x->p, slot)[e] = first_value(slot, e);
	}
	other_steps++;
}

static inline bool gathers(const struct kernel *k) {
	for (unsigned v = 0; v < k->values; v++)
		if (kernel_value_gathers(&k->value[v]))
			return true;
	return false;
}

static inline void run_step(const struct plan *p, uint32_t number, const struct traits *t, unsigned together) {
	static struct bytecode b;
	static struct step x;
	unsigned outputs;
	uint64_t *want;

	x.p = p;
	x.s = &p->step[number];
	if (x.s->kernel->root != KERNEL_MAP || gathers(x.s->kernel)) {
		run_other(&x);
		return;
	}
	want = expect(&x, &outputs);
	if (bytecode_make(x.s->kernel, t, &b)) {
		refused++;
		store_wanted(&x, want);
	} else {
		run_code(&x, t, &b, together);
		compare(&x, want);
	}
	free(want);
}

static inline bool is_large(const struct plan *p) {
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < p->steps; i++)
		if (p->step[i].elements > MOST_STEP && p->step[i].kernel->root == KERNEL_MAP)
			return true;
	for (uint32_t i = 0; i < p->slots; i++)
		bytes += p->slot[i].bytes;
	return bytes > UINT64_C(1) << 25;
}

/* ---- what a graph says ---- */

static uint64_t **node_value;

static inline int64_t flat(const struct tensor_type *t, const int64_t *index) {
	int64_t at = 0;

	for (unsigned d = 0; d < t->rank; d++)
		at = at * t->dims[d] + index[d];
	return at;
}

/* An operand that is broadcast, at an index of the result. */
static inline uint64_t broadcast_at(const struct graph_node *n, unsigned i, const int64_t *index) {
	const struct tensor_type *t = &graph_node(g, n->in[i])->type;
	int64_t own[LIMIT_RANK];

	for (unsigned d = 0; d < t->rank; d++)
		own[d] = t->dims[d] == 1 ? 0 : index[n->type.rank - t->rank + d];
	return node_value[n->in[i]][flat(t, own)];
}

static inline uint64_t view_at(const struct graph_node *n, const int64_t *index) {
	const struct tensor_type *t = &graph_node(g, n->in[0])->type;
	const struct op_attr *a = n->attr;
	int64_t own[LIMIT_RANK + 1];

	switch (n->op) {
	case OP_reshape:
		return node_value[n->in[0]][flat(&n->type, index)];
	case OP_broadcast:
		return broadcast_at(n, 0, index);
	case OP_permute:
		for (unsigned d = 0; d < t->rank; d++)
			own[a->perm[d]] = index[d];
		break;
	case OP_slice:
		for (unsigned d = 0; d < t->rank; d++)
			own[d] = a->start[d] + index[d] * a->step[d];
		break;
	case OP_flip:
		for (unsigned d = 0; d < t->rank; d++)
			own[d] = a->axes >> d & 1 ? t->dims[d] - 1 - index[d] : index[d];
		break;
	default:
		memcpy(own, index, t->rank * sizeof *own);
		own[a->axis] = index[a->axis] * a->window.step + index[t->rank] * a->window.dilation;
	}
	return node_value[n->in[0]][flat(t, own)];
}

static inline uint64_t concat_at(const struct graph_node *n, const int64_t *index) {
	int64_t own[LIMIT_RANK];
	unsigned i = 0;

	memcpy(own, index, sizeof own);
	while (own[n->attr->axis] >= graph_node(g, n->in[i])->type.dims[n->attr->axis])
		own[n->attr->axis] -= graph_node(g, n->in[i++])->type.dims[n->attr->axis];
	return node_value[n->in[i]][flat(&graph_node(g, n->in[i])->type, own)];
}

static inline uint64_t pad_at(const struct graph_node *n, const int64_t *index) {
	const struct tensor_type *t = &graph_node(g, n->in[0])->type;
	int64_t own[LIMIT_RANK];

	for (unsigned d = 0; d < t->rank; d++) {
		own[d] = index[d] - n->attr->start[d];
		if (own[d] < 0 || own[d] >= t->dims[d])
			return n->arity > 1 ? node_value[n->in[1]][0] : machine_number(n->type.dtype, 0);
	}
	return node_value[n->in[0]][flat(t, own)];
}

/* start + i * step, in the register type of 16-bit floats. */
static inline uint64_t arange_at(const struct graph_node *n, const int64_t *index) {
	unsigned type = n->type.dtype, reg = dtype_info(type)->kind == DTYPE_KIND_REAL ? machine_register(type) : type;
	const uint64_t *number = &graph_scalar_values(g)[n->index];
	uint64_t x = machine_count(index[0]), product[2], sum[2];

	product[0] = machine_cast(reg, DTYPE_i64, x);
	product[1] = machine_number(reg, number[1]);
	sum[0] = machine_number(reg, number[0]);
	sum[1] = machine_elementwise(OP_mul, reg, reg, 2, product);
	x = machine_elementwise(OP_add, reg, reg, 2, sum);
	return reg == type ? x : machine_cast(type, reg, x);
}

static inline uint64_t node_at(const struct graph_node *n, const int64_t *index) {
	const struct tensor_type *from = n->arity ? &graph_node(g, n->in[n->arity - 1])->type : NULL;
	uint64_t arg[LIMIT_OPERANDS];

	if (n->op == OP_fill)
		return machine_number(n->type.dtype, graph_scalar_values(g)[n->index]);
	if (n->op == OP_arange)
		return arange_at(n, index);
	if (n->op == OP_concat)
		return concat_at(n, index);
	if (n->op == OP_pad)
		return pad_at(n, index);
	if (op_is_view(n->op))
		return view_at(n, index);
	for (unsigned i = 0; i < n->arity; i++)
		arg[i] = broadcast_at(n, i, index);
	if (n->op == OP_copy || (n->op == OP_cast && from->dtype == n->type.dtype))
		return arg[0];
	return machine_elementwise(n->op, n->type.dtype, from->dtype, n->arity, arg);
}

/* Views of arrays are leaves, too. */
static inline uint64_t leaf_at(const struct graph_node *n, const int64_t *index) {
	const struct graph_leaf *l = graph_leaf_at(g, n->index);
	int64_t at = 0;

	for (unsigned d = 0; d < n->type.rank; d++)
		at += index[d] * l->view.stride[d];
	return first_value(n->index, at);
}

static inline void evaluate(void) {
	node_value = machine_allocate(graph_nodes(g), sizeof *node_value);
	for (uint32_t i = 0; i < graph_nodes(g); i++) {
		const struct graph_node *n = graph_node(g, i);
		int64_t index[LIMIT_RANK] = { 0 }, count = shape_elements(&n->type), e = 0;

		node_value[i] = machine_allocate(1, ((size_t)count + 1) * sizeof **node_value);
			for (; e < count; e++, next_index(n->type.dims, n->type.rank, index))
			node_value[i][e] = n->op == OP_load ? leaf_at(n, index) : node_at(n, index);
	}
}

static inline void check_outputs(const struct plan *p) {
	for (uint32_t i = 0; i < p->outputs; i++) {
		const struct plan_output *o = &p->output[i];
		const uint64_t *want = node_value[graph_output_at(g, i)->node], *got = memory_of(p, o->slot);
		int64_t index[LIMIT_RANK] = { 0 }, count = shape_elements(&o->type);

		for (int64_t e = 0; e < count && !problem[0]; e++, next_index(o->type.dims, o->type.rank, index)) {
			int64_t at = o->view.offset - slots[o->slot].low;

			for (unsigned d = 0; d < o->type.rank; d++)
				at += index[d] * o->view.stride[d];
			if (got[at] != want[e])
				problem_is("element %lld of result %u, a %s, is another than the graph says", (long long)e, i,
					op_info(graph_node(g, graph_output_at(g, i)->node)->op)->name);
		}
	}
}

static inline void evaluate_free(void) {
	for (uint32_t i = 0; i < graph_nodes(g); i++)
		free(node_value[i]);
	free(node_value);
}

/* ---- the whole ---- */

static inline void run_plan(const struct plan *p, const struct traits *t, unsigned together, bool whole) {
	memory_make(p);
	for (uint32_t i = 0; i < p->steps && !problem[0]; i++) {
		run_step(p, i, t, together);
		if (problem[0])
			snprintf(problem + strlen(problem), sizeof problem - strlen(problem), " (step %u of %u%s)", i, p->steps,
				p->generic ? " of generic kernels" : "");
	}
	if (whole && !problem[0])
		check_outputs(p);
	memory_free(p);
}

/* Generic kernels may cast through a third type, which has the same result but is another operation. */
static inline bool casts(void) {
	for (uint32_t i = 0; i < graph_nodes(g); i++)
		if (graph_node(g, i)->op == OP_cast || graph_node(g, i)->op == OP_arange)
			return true;
	return false;
}
