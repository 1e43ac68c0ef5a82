/*
 * A group becomes a kernel and a step.
 *
 * While a draft is built its dims are the full ones: a map's space; a reduction's kept dims, then
 * its reduced ones; a product's batch dims, M, N, K. A frame says where the dims of a shape lie
 * among them, so that every operand's strides are written in the kernel's own order; then the
 * draft is collapsed and finished.
 */
#include "planner.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct lowering {
	struct planner *p;
	struct draft *d;
	struct frame frame;
	uint32_t group;                    /* members of this group have values */
};

int planner_constant(struct planner *p, uint64_t value, uint32_t *scalarp) {
	struct plan *plan = p->plan;

	if (plan->constants == p->constant_capacity) {
		uint32_t capacity = p->constant_capacity ? p->constant_capacity * 2 : 8;
		uint64_t *constant = realloc(plan->constant, capacity * sizeof *constant);

		if (!constant)
			return -ENOMEM;
		plan->constant = constant;
		p->constant_capacity = capacity;
	}
	*scalarp = plan->scalars + plan->constants;
	plan->constant[plan->constants++] = value;
	return 0;
}

/* start + i * step, in the register type of f16 and bf16, rounded once at the end. */
static uint16_t lower_iota(
	struct lowering *l, const struct node *n, const struct tensor_type *as, const struct view *v) {
	struct draft *d = l->d;
	uint8_t type = n->type->dtype, reg = dtype_info(type)->kind == DTYPE_KIND_REAL ? dtype_info(type)->reg : type;
	struct plan_operand o = frame_operand(&l->frame, as, v, PLAN_NONE);
	uint32_t scalar = l->p->node[n->base].index;
	uint16_t x = draft_iota(d, &o), scaled;

	x = draft_op(d, OP_cast, reg, 1, &x);
	scaled = draft_op(d, OP_mul, reg, 2, (uint16_t[]){ x, draft_scalar(d, reg, scalar + 1) });
	x = draft_op(d, OP_add, reg, 2, (uint16_t[]){ draft_scalar(d, reg, scalar), scaled });
	return reg == type ? x : draft_op(d, OP_cast, type, 1, &x);
}

/* What a node holds, seen as another shape through another view. */
static uint16_t lower_source_as(
	struct lowering *l, const struct node *n, const struct tensor_type *as, const struct view *v) {
	struct plan_operand o;

	if (n->kind == NODE_FILL)
		return draft_scalar(l->d, n->type->dtype, n->index);
	if (n->kind == NODE_IOTA)
		return lower_iota(l, n, as, v);
	o = frame_operand(&l->frame, as, v, l->p->node[n->base].slot);
	return draft_load(l->d, n->type->dtype, &o);
}


static uint16_t lower_argument(struct lowering *l, const struct node *n, unsigned i) {
	struct edge e = planner_edge(l->p, n, i);
	struct tensor_type t;
	struct view v;

	if (group_inside(l->p, l->group, n, i))
		return l->p->node[e.base].value;
	(void)planner_seen(l->p, n, i, &t, &v);
	return lower_source_as(l, &l->p->node[e.node], &t, &v);
}

static uint16_t lower_cast(struct draft *d, uint16_t value, uint8_t dtype) {
	return d->kernel.value[value].dtype == dtype ? value : draft_op(d, OP_cast, dtype, 1, &value);
}

/* ---- gathers ---- */

/* Axes [from, from + count) of a shape as axes [to, ...) of another, which has extents of 1 until then. */
static void axes_place(struct tensor_type *t, struct view *v, unsigned to, const struct node *n, unsigned from,
	unsigned count) {
	memcpy(t->dims + to, n->type->dims + from, count * sizeof *t->dims);
	memcpy(v->stride + to, n->view.stride + from, count * sizeof *v->stride);
}

/*
 * Operand i of a gather over the result's axes: those of the index stand where axis `axis` of operand 0 was. What is
 * searched lies along none of them.
 */
static void gather_view(const struct lowering *l, const struct node *n, unsigned i, struct tensor_type *t,
	struct view *v) {
	const struct node *in = &l->p->node[n->in[i]];
	unsigned axis = n->attr->axis, after = axis + 1;
	unsigned width = n->op == OP_take ? l->p->node[n->in[1]].type->rank : 1;

	*t = *n->type;
	*v = (struct view){ .offset = in->view.offset };
	for (unsigned d = 0; d < t->rank; d++)
		t->dims[d] = 1;
	if (n->op == OP_searchsorted)
		return;
	if (i == 1 && n->op == OP_take) {
		axes_place(t, v, axis, in, 0, width);
	} else if (i == 1) {
		axes_place(t, v, 0, in, 0, t->rank);
	} else {
		axes_place(t, v, 0, in, 0, axis);
		axes_place(t, v, axis + width, in, after, in->type->rank - after);
	}
}

/* The index as i64; values of u64 that this has not are beyond every axis. */
static int lower_index(struct lowering *l, const struct node *n, uint16_t *valuep) {
	struct tensor_type t;
	struct view v;
	uint32_t number;
	uint16_t x;
	int r = 0;

	gather_view(l, n, 1, &t, &v);
	if (group_inside(l->p, l->group, n, 1))
		x = lower_argument(l, n, 1);
	else
		x = lower_source_as(l, &l->p->node[n->in[1]], &t, &v);
	if (l->d->kernel.value[x].dtype == DTYPE_u64) {
		r = planner_constant(l->p, INT64_MAX, &number);
		x = draft_op(l->d, OP_minimum, DTYPE_u64, 2, (uint16_t[]){ x, draft_scalar(l->d, DTYPE_u64, number) });
	}
	*valuep = lower_cast(l->d, x, DTYPE_i64);
	return r;
}

static int lower_constant(struct lowering *l, int64_t value, uint16_t *valuep) {
	uint32_t number;
	int r = planner_constant(l->p, (uint64_t)value, &number);

	if (!r)
		*valuep = draft_scalar(l->d, DTYPE_i64, number);
	return r;
}

static int lower_gather(struct lowering *l, struct node *n) {
	const struct node *a = &l->p->node[n->in[0]];
	bool search = n->op == OP_searchsorted;
	struct plan_operand o;
	struct tensor_type t;
	struct view v;
	uint16_t arg[3] = { 0 };
	int r = 0;

	if (search)
		arg[0] = lower_argument(l, n, 1);
	else
		r = lower_index(l, n, &arg[0]);
	if (!r)
		r = lower_constant(l, a->type->dims[n->attr->axis], &arg[1]);
	if (!r)
		r = lower_constant(l, a->view.stride[n->attr->axis], &arg[2]);
	if (r)
		return r;
	gather_view(l, n, 0, &t, &v);
	o = frame_operand(&l->frame, &t, &v, l->p->node[a->base].slot);
	n->value = search ? draft_search(l->d, a->type->dtype, &o, arg, n->attr->flag) :
		draft_gather(l->d, n->type->dtype, &o, arg);
	return 0;
}

/* ---- members ---- */

static int lower_member(struct lowering *l, struct node *n) {
	uint16_t arg[KERNEL_ARGS] = { 0 };

	if (op_gathers(n->op))
		return lower_gather(l, n);
	/* What it loads is what it stores. */
	if (n->minimal)
		return 0;
	for (unsigned i = 0; i < n->arity; i++)
		arg[i] = lower_argument(l, n, i);
	if (n->op == OP_copy)
		n->value = arg[0];
	else if (n->op == OP_cast)
		n->value = lower_cast(l->d, arg[0], n->type->dtype);
	else if (l->p->o->fast)
		n->value = fast_op(l->p, l->d, n->op, n->type->dtype, n->arity, arg);
	else
		n->value = draft_op(l->d, n->op, n->type->dtype, n->arity, arg);
	return 0;
}

/* A part goes to its place in the whole's memory. */
static int lower_part(struct lowering *l, struct node *n) {
	struct node *whole = &l->p->node[n->whole];
	struct plan_operand o;
	int r = 0;

	if (whole->slot == PLAN_NONE)
		r = plan_add_slot(l->p->plan, (uint64_t)shape_bytes(whole->type), false, &whole->slot);
	if (r)
		return r;
	l->p->plan->slot[whole->slot].parts = true;
	o = frame_operand(&l->frame, n->type, &n->place, whole->slot);
	draft_store(l->d, lower_cast(l->d, n->value, n->type->dtype), &o);
	return 0;
}

static int lower_panels(struct lowering *l, struct node *n) {
	struct plan_operand o = { 0 };
	int r = 0;

	if (n->slot == PLAN_NONE)
		r = plan_add_slot(l->p->plan, panels_bytes(n), false, &n->slot);
	if (r)
		return r;
	l->p->plan->slot[n->slot].packed = true;
	o.slot = n->slot;
	panels_strides(n, o.stride);
	if (n->minimal) {
		const struct node *in = &l->p->node[n->in[0]];

		return minimal_filters(l->p, l->d, n, frame_operand(&l->frame, in->type, &in->view, l->p->node[in->base].slot), o);
	}
	draft_store(l->d, lower_cast(l->d, n->value, n->type->dtype), &o);
	return 0;
}

/* Members are stored row-major over the frame's space. */
static int lower_store(struct lowering *l, struct node *n) {
	const struct tensor_type *t = n->kind == NODE_MAP ? n->space : n->type;
	struct tensor_type whole = *t;
	struct plan_operand o;
	struct view v;
	int r = 0;

	if (!n->stored)
		return 0;
	if (n->whole != GRAPH_NONE)
		return lower_part(l, n);
	if (n->columns)
		return lower_panels(l, n);
	if (n->slot == PLAN_NONE)
		r = plan_add_slot(l->p->plan, (uint64_t)shape_bytes(n->type), false, &n->slot);
	if (r)
		return r;
	view_contiguous(&whole, &v);
	o = frame_operand(&l->frame, &whole, &v, n->slot);
	draft_store(l->d, lower_cast(l->d, n->value, n->type->dtype), &o);
	return 0;
}

static int lower_members(struct lowering *l, const struct group *g) {
	int r = 0;

	for (uint32_t m = g->first; !r && m != GRAPH_NONE; m = l->p->next[m])
		if ((g->kind == NODE_MAP || m != g->root) && !l->p->node[m].before)
			r = lower_member(l, &l->p->node[m]);
	return r;
}

static int lower_stores(struct lowering *l, const struct group *g) {
	int r = 0;

	for (uint32_t m = g->first; !r && m != GRAPH_NONE; m = l->p->next[m])
		r = lower_store(l, &l->p->node[m]);
	return r;
}

static int lower_map(struct lowering *l, const struct group *g) {
	struct kernel *k = &l->d->kernel;
	int r;

	k->root = KERNEL_MAP;
	k->rank = g->space->rank;
	memcpy(l->d->dims, g->space->dims, sizeof g->space->dims);
	frame_plain(&l->frame, g->space);
	if (g->columns) {
		panels_frame(&l->frame, g->space, g->row_dims);
		panels_dims(l->d, g);
	}
	r = lower_members(l, g);
	return r ? r : lower_stores(l, g);
}

/* ---- reductions ---- */

/* Kept dims, then those of a row. */
static void rows_begin(struct lowering *l, const struct rows *rows, uint8_t root) {
	struct kernel *k = &l->d->kernel;

	frame_row(&l->frame, rows);
	for (unsigned d = 0; d < rows->type->rank; d++)
		l->d->dims[l->frame.dim[d]] = rows->type->dims[d];
	k->root = root;
	k->rank = rows->type->rank;
	k->kept = rows->kept;
	l->d->extent = rows_extent(rows);
}

static int lower_mean(struct lowering *l, uint16_t *valuep) {
	struct draft *d = l->d;
	uint8_t type = d->kernel.value[*valuep].dtype;
	uint32_t number;
	int r = planner_constant(l->p, dtype_scalar_from_double(type, (double)d->extent), &number);

	if (r)
		return r;
	*valuep = draft_op(d, OP_div, type, 2, (uint16_t[]){ *valuep, draft_scalar(d, type, number) });
	return 0;
}

static int lower_reduction(struct lowering *l, struct node *root) {
	struct draft *d = l->d;
	struct kernel *k = &d->kernel;
	uint16_t v = lower_argument(l, root, 0);
	int r = 0;

	k->op = root->op == OP_reduce_mean ? OP_reduce_sum : root->op;
	k->accumulator = op_accumulator(root->op, l->p->node[root->in[0]].type->dtype);
	k->reduced_value = v = lower_cast(d, v, k->accumulator);
	k->root_value = k->values;
	v = draft_value(d, (struct kernel_value){ .kind = KERNEL_ROOT_VALUE, .dtype = k->accumulator });
	if (root->op == OP_reduce_mean)
		r = lower_mean(l, &v);
	root->value = lower_cast(d, v, fast_dtype(l->p, root->type->dtype));
	return r;
}

/* A value computed once an element, whatever it is made of. */
static uint16_t row_value(struct draft *d, uint16_t value) {
	return d->kernel.value[value].space == KERNEL_SPACE_ROW ? value :
		draft_op(d, OP_copy, d->kernel.value[value].dtype, 1, &value);
}

static int lower_reduced(struct lowering *l, struct node *n) {
	struct draft *d = l->d;
	uint8_t type = op_accumulator(n->op, l->p->node[n->in[0]].type->dtype);
	uint16_t v = row_value(d, lower_cast(d, lower_argument(l, n, 0), type));
	int r = 0;

	v = draft_value(d, (struct kernel_value){ .kind = KERNEL_REDUCED, .dtype = type, .arg = { v },
		.space = KERNEL_SPACE_KEPT, .op = n->op == OP_reduce_mean ? OP_reduce_sum : n->op });
	d->kernel.accumulator = type;
	if (n->op == OP_reduce_mean)
		r = lower_mean(l, &v);
	n->value = lower_cast(d, v, fast_dtype(l->p, n->type->dtype));
	return r;
}

/* The frame of what a member reads, and that of what it is. */
static void frame_reads(struct lowering *l, const struct rows *rows, const struct node *n) {
	if (n->row || n->kind == NODE_REDUCE)
		frame_row(&l->frame, rows);
	else
		frame_kept(&l->frame, rows, n->space);
}

static void frame_stores(struct lowering *l, const struct rows *rows, const struct node *n) {
	if (n->row)
		frame_row(&l->frame, rows);
	else
		frame_kept(&l->frame, rows, n->kind == NODE_REDUCE ? n->type : n->space);
}

/* The members that are computed once an element, or those that are computed once a row. */
static int lower_class(struct lowering *l, const struct group *g, const struct rows *rows, bool row) {
	int r = 0;

	for (uint32_t m = g->first; !r && m != GRAPH_NONE; m = l->p->next[m]) {
		struct node *n = &l->p->node[m];

		if (m == g->root || n->row != row)
			continue;
		frame_reads(l, rows, n);
		r = lower_member(l, n);
	}
	return r;
}

static int lower_row_stores(struct lowering *l, const struct group *g, const struct rows *rows) {
	int r = 0;

	for (uint32_t m = g->first; !r && m != GRAPH_NONE; m = l->p->next[m]) {
		struct node *n = &l->p->node[m];

		frame_stores(l, rows, n);
		if (n->row && n->stored)
			n->value = row_value(l->d, n->value);
		r = lower_store(l, n);
	}
	return r;
}

/* One reduction: a prologue, the root, an epilogue; what is computed once an element is not stored. */
static int lower_reduce(struct lowering *l, const struct group *g) {
	struct node *root = &l->p->node[g->root];
	struct rows rows = rows_of(l->p, root);
	int r;

	rows_begin(l, &rows, KERNEL_REDUCE);
	r = lower_class(l, g, &rows, true);
	if (r)
		return r;
	frame_reads(l, &rows, root);
	r = lower_reduction(l, root);
	if (!r)
		r = lower_class(l, g, &rows, false);
	return r ? r : lower_row_stores(l, g, &rows);
}

/* Any number of reductions: members in their order, each over the row or over what is kept. */
static int lower_rows(struct lowering *l, const struct group *g) {
	struct planner *p = l->p;
	struct rows rows = rows_of(p, &p->node[g->root]);
	int r = 0;

	rows_begin(l, &rows, KERNEL_ROWS);
	l->d->kernel.long_rows = l->d->extent > KERNEL_BLOCK;
	for (uint32_t m = g->first; !r && m != GRAPH_NONE; m = p->next[m]) {
		frame_reads(l, &rows, &p->node[m]);
		if (p->node[m].kind == NODE_REDUCE)
			r = lower_reduced(l, &p->node[m]);
		else
			r = lower_member(l, &p->node[m]);
	}
	return r ? r : lower_row_stores(l, g, &rows);
}

static int lower_reductions(struct lowering *l, const struct group *g) {
	return group_needs_rows(l->p, l->group) ? lower_rows(l, g) : lower_reduce(l, g);
}

/* ---- scans ---- */

static void lower_scanned(struct lowering *l, struct node *n) {
	struct draft *d = l->d;
	struct kernel *k = &d->kernel;
	uint16_t v = lower_argument(l, n, 0);

	k->op = (uint16_t)op_scan_reduction(n->op);
	k->accumulator = op_accumulator(k->op, l->p->node[n->in[0]].type->dtype);
	k->reduced_value = lower_cast(d, v, k->accumulator);
	k->root_value = k->values;
	v = draft_value(d, (struct kernel_value){ .kind = KERNEL_ROOT_VALUE, .dtype = k->accumulator });
	n->value = lower_cast(d, v, n->type->dtype);
}

/* All members are computed over the same dims, whether they stand before the root or after it. */
static int lower_scan(struct lowering *l, const struct group *g) {
	struct rows rows = rows_of(l->p, &l->p->node[g->root]);
	int r = 0;

	rows_begin(l, &rows, KERNEL_SCAN);
	for (uint32_t m = g->first; !r && m != GRAPH_NONE; m = l->p->next[m]) {
		if (m == g->root)
			lower_scanned(l, &l->p->node[m]);
		else
			r = lower_member(l, &l->p->node[m]);
	}
	if (!r)
		r = lower_stores(l, g);
	/* A long scan needs one more operand, for the carry. */
	l->d->full |= l->d->kernel.operands == KERNEL_OPERANDS;
	return r;
}

/* ---- scatters ---- */

/* Base, index and updates over the result's dims, the axis last; the index and updates have one of their own there. */
static int lower_scatter(struct lowering *l, const struct group *g) {
	struct node *root = &l->p->node[g->root];
	struct rows rows = { .type = root->type, .axes = (uint16_t)(1U << root->attr->axis),
		.kept = (uint8_t)(root->type->rank - 1) };
	struct kernel *k = &l->d->kernel;

	rows_begin(l, &rows, KERNEL_SCATTER);
	l->d->extent = (uint64_t)l->p->node[root->in[1]].type->dims[root->attr->axis];
	k->op = root->op;
	k->accumulator = root->type->dtype;
	for (unsigned i = 0; i < root->arity; i++) {
		const struct node *n = &l->p->node[root->in[i]];
		struct plan_operand o = frame_operand(&l->frame, n->type, &n->view, l->p->node[n->base].slot);

		draft_operand(l->d, n->type->dtype, &o);
	}
	k->root_value = 0;
	root->value = draft_value(l->d, (struct kernel_value){ .kind = KERNEL_ROOT_VALUE, .dtype = k->accumulator });
	return lower_stores(l, g);
}

/* ---- sorts ---- */

/* One sort of whole rows; plan_add_sort() makes of it the steps that it takes. */
static int lower_sort(struct lowering *l, const struct group *g) {
	struct node *root = &l->p->node[g->root];
	struct rows rows = { .type = root->type, .axes = (uint16_t)(1U << root->attr->axis),
		.kept = (uint8_t)(root->type->rank - 1) };
	struct kernel *k = &l->d->kernel;
	int r;

	rows_begin(l, &rows, KERNEL_SORT);
	r = lower_members(l, g);
	if (r)
		return r;
	k->op = root->op;
	k->accumulator = l->p->node[root->in[0]].type->dtype;
	k->descending = root->attr->flag;
	k->reduced_value = lower_argument(l, root, 0);
	k->root_value = k->values;
	root->value = draft_value(l->d, (struct kernel_value){ .kind = KERNEL_ROOT_VALUE, .dtype = root->type->dtype });
	r = lower_store(l, root);
	/* Steps need up to three operands more. */
	l->d->full |= k->operands + 3 > KERNEL_OPERANDS;
	return r;
}

/* ---- products ---- */

/* A factor's strides over batch, M, N, K; `lane` is where its last dim goes, `row` its second last. */
static void lower_factor(struct lowering *l, const struct node *root, unsigned i, unsigned row, unsigned lane) {
	const struct node *n = &l->p->node[root->in[i]];
	unsigned batch = root->type->rank - 2u, lead = batch - (n->type->rank - 2u);
	struct plan_operand o = { .slot = l->p->node[n->base].slot, .offset = n->view.offset };

	if (n->columns) {
		int64_t stride[KERNEL_RANK];

		panels_strides(n, stride);
		memcpy(&o.stride[lead], stride, (batch - lead) * sizeof *stride);
		o.stride[batch] = stride[batch - lead];
		o.stride[row] = stride[batch - lead + 1];
		o.stride[lane] = stride[batch - lead + 2];
		draft_operand(l->d, n->type->dtype, &o);
		l->d->kernel.packed = true;
		return;
	}
	for (unsigned d = 0; d + 2 < n->type->rank; d++)
		if (n->type->dims[d] != 1)
			o.stride[lead + d] = n->view.stride[d];
	o.stride[row] = n->view.stride[n->type->rank - 2];
	o.stride[lane] = n->view.stride[n->type->rank - 1];
	draft_operand(l->d, n->type->dtype, &o);
}

/* The frame of a member before the product: a row lies along K, behind N. */
static void frame_before(struct lowering *l, const struct group *g, const struct node *n) {
	unsigned last = l->p->node[g->root].type->rank - 1u;
	struct rows rows;

	if (g->before == GRAPH_NONE) {
		frame_plain(&l->frame, n->space);
		l->frame.dim[last] = (uint8_t)(last + 1u);
		return;
	}
	rows = rows_of(l->p, &l->p->node[g->before]);
	frame_reads(l, &rows, n);
	if (n->row || n->kind == NODE_REDUCE)
		l->frame.dim[last] = (uint8_t)(last + 1u);
}

/* Memory to work in, row by row; how much is known when all else is. */
static int lower_work(struct lowering *l, uint8_t dtype) {
	struct plan_operand o = { 0 };
	int r = plan_add_slot(l->p->plan, 0, false, &o.slot);

	o.stride[l->d->kernel.rank - 1u] = 1;
	draft_operand(l->d, dtype, &o);
	return r;
}

/* The factors of the product that the rows are made of, its rows, and the value that these are. */
static int lower_scores(struct lowering *l, struct node *product) {
	const struct node *a = &l->p->node[product->in[0]], *b = &l->p->node[product->in[1]];
	struct kernel *k = &l->d->kernel;
	unsigned batch = product->type->rank - 2u, lead[2] = { product->type->rank - a->type->rank, product->type->rank - b->type->rank };
	struct plan_operand left = { .slot = l->p->node[a->base].slot, .offset = a->view.offset };
	struct plan_operand right = { .slot = l->p->node[b->base].slot };
	int64_t stride[KERNEL_RANK];
	int r;

	for (unsigned d = 0; d + 2 < a->type->rank; d++)
		left.stride[lead[0] + d] = a->type->dims[d] == 1 ? 0 : a->view.stride[d];
	left.stride[batch] = a->view.stride[a->type->rank - 2u];
	draft_operand(l->d, a->type->dtype, &left);
	panels_strides(b, stride);
	memcpy(&right.stride[lead[1]], stride, (batch - lead[1]) * sizeof *stride);
	right.stride[batch + 2] = stride[batch - lead[1]];
	draft_operand(l->d, b->type->dtype, &right);
	k->accumulator = planner_accumulator(product->type);
	r = lower_work(l, k->accumulator);
	k->operand[SCORES_WORK].output = true;
	k->scored = true;
	k->inputs = b->columns / l->p->o->traits->width;
	k->operand[SCORES_WORK].value = draft_value(l->d, (struct kernel_value){ .kind = KERNEL_LOAD, .dtype = k->accumulator,
		.index = SCORES_WORK });
	product->value = lower_cast(l->d, k->operand[SCORES_WORK].value, fast_dtype(l->p, product->type->dtype));
	return r;
}

/* What computes the first factor: the draft is one of ROWS so far, all dims but K being kept. */
static int lower_before(struct lowering *l, const struct group *g, const struct node *factor) {
	struct kernel *k = &l->d->kernel;
	int r = 0;

	k->root = KERNEL_ROWS;
	k->kept = (uint8_t)(k->rank - 1u);
	k->long_rows = l->d->extent > KERNEL_BLOCK;
	if (g->scores != GRAPH_NONE)
		r = lower_scores(l, &l->p->node[g->scores]);
	for (uint32_t m = g->first; !r && m != GRAPH_NONE; m = l->p->next[m]) {
		struct node *n = &l->p->node[m];

		if (!n->before || m == g->scores)
			continue;
		frame_before(l, g, n);
		r = n->kind == NODE_REDUCE ? lower_reduced(l, n) : lower_member(l, n);
	}
	k->operand[0].value = row_value(l->d, lower_cast(l->d, factor->value, factor->type->dtype));
	k->operand[0].output = true;
	k->root = KERNEL_MATMUL;
	k->kept = 0;
	return r;
}

/* What reduces the product's rows: the draft is one of ROWS without K meanwhile. */
static int lower_after(struct lowering *l, const struct group *g) {
	struct planner *p = l->p;
	struct rows rows = rows_of(p, &p->node[g->after]);
	struct kernel *k = &l->d->kernel;
	uint8_t accumulator = k->accumulator;
	uint64_t depth = l->d->extent;
	int r = 0;

	k->root = KERNEL_ROWS;
	k->rank--;
	k->kept = (uint8_t)(k->rank - 1u);
	l->d->extent = rows_extent(&rows);
	for (uint32_t m = g->first; !r && m != GRAPH_NONE; m = p->next[m]) {
		struct node *n = &p->node[m];

		if (!n->after)
			continue;
		frame_reads(l, &rows, n);
		r = n->kind == NODE_REDUCE ? lower_reduced(l, n) : lower_member(l, n);
	}
	if (!r)
		r = lower_row_stores(l, g, &rows);
	if (!r)
		r = lower_work(l, accumulator);
	if (l->d->full)
		return r;
	k->carry = (uint8_t)(k->operands - 1u);
	k->operand[k->carry].output = true;
	k->operand[k->carry].value = k->root_value;
	k->root = KERNEL_MATMUL;
	k->rank++;
	k->kept = 0;
	k->accumulator = accumulator;
	l->d->extent = depth;
	return r;
}

static int lower_matmul(struct lowering *l, const struct group *g) {
	struct node *root = &l->p->node[g->root];
	const struct tensor_type *a = l->p->node[root->in[0]].type;
	struct kernel *k = &l->d->kernel;
	unsigned m = root->type->rank - 2u;
	const struct node *factor = &l->p->node[planner_edge(l->p, root, 0).base];
	uint16_t v;
	int r = 0;

	k->root = KERNEL_MATMUL;
	k->op = OP_matmul;
	k->rank = (uint8_t)(m + 3);
	memcpy(l->d->dims, root->type->dims, sizeof root->type->dims);
	l->d->extent = (uint64_t)a->dims[a->rank - 1];
	l->d->dims[m + 2] = (int64_t)l->d->extent;
	if (factor->before)
		r = lower_work(l, factor->type->dtype);
	else
		lower_factor(l, root, 0, m, m + 2);
	lower_factor(l, root, 1, m + 2, m + 1);
	if (!r && factor->before)
		r = lower_before(l, g, factor);
	if (r)
		return r;
	k->accumulator = planner_accumulator(root->type);
	k->root_value = k->values;
	v = draft_value(l->d, (struct kernel_value){ .kind = KERNEL_ROOT_VALUE, .dtype = k->accumulator });
	root->value = lower_cast(l->d, v, fast_dtype(l->p, root->type->dtype));
	if (g->after != GRAPH_NONE)
		return lower_after(l, g);
	frame_plain(&l->frame, root->type);
	r = lower_members(l, g);
	return r ? r : lower_stores(l, g);
}

/* ---- attention ---- */

/* An operand's strides over batch, M, N, S, D: its last two dims go to `row` and `column`; it is broadcast. */
static void lower_attended(struct lowering *l, const struct node *root, unsigned i, unsigned row, unsigned column) {
	const struct node *n = &l->p->node[root->in[i]];
	struct plan_operand o = { .slot = l->p->node[n->base].slot, .offset = n->view.offset };

	for (unsigned d = n->type->rank, at = root->type->rank; d-- > 0;) {
		at--;
		if (n->type->dims[d] != 1)
			o.stride[d + 1 == n->type->rank ? column : d + 2 == n->type->rank ? row : at] = n->view.stride[d];
	}
	draft_operand(l->d, n->type->dtype, &o);
}

/* Extents and operands of the root; the dims after the batch's are M, N, S and D. */
static void lower_attention_root(struct lowering *l, const struct node *root) {
	const struct tensor_type *q = l->p->node[root->in[ATTENTION_Q]].type, *k = l->p->node[root->in[ATTENTION_K]].type;
	unsigned m = root->type->rank - 2u;
	bool across = root->attended && root->attended->across;

	memcpy(l->d->dims, root->type->dims, sizeof root->type->dims);
	l->d->dims[m + 2] = k->dims[k->rank - (across ? 1 : 2)];
	l->d->extent = (uint64_t)l->d->dims[m + 2];
	l->d->dims[m + 3] = q->dims[q->rank - 1];
	lower_attended(l, root, ATTENTION_Q, m, m + 3);
	lower_attended(l, root, ATTENTION_K, across ? m + 3 : m + 2, across ? m + 2 : m + 3);
	lower_attended(l, root, ATTENTION_V, m + 2, m + 1);
	if (root->arity > ATTENTION_MASK)
		lower_attended(l, root, ATTENTION_MASK, m, m + 2);
}

static uint16_t lower_number(struct lowering *l, uint32_t fill) {
	const struct node *n = &l->p->node[fill];

	return lower_cast(l->d, draft_scalar(l->d, n->type->dtype, n->index), l->d->kernel.accumulator);
}

/* The numbers that the parts of an attention multiply and divide by, as one. */
static void lower_scales(struct lowering *l, const struct attended *a) {
	struct draft *d = l->d;
	uint8_t type = d->kernel.accumulator;

	for (unsigned i = 0; i < a->scales; i++) {
		uint16_t pair[2] = { d->kernel.reduced_value, lower_number(l, a->scale[i]) };

		d->kernel.reduced_value = draft_op(d, a->divides[i] ? OP_div : OP_mul, type, 2, pair);
	}
	if (a->hidden != GRAPH_NONE)
		d->kernel.hidden = lower_number(l, a->hidden);
}

static double attention_scale(const struct lowering *l, const struct node *root) {
	double depth = (double)l->d->dims[l->d->kernel.rank - 1];

	if (root->attended)
		return 1;
	return root->attr->number != 0 ? root->attr->number : 1 / sqrt(depth);
}

static int lower_attention(struct lowering *l, const struct group *g) {
	struct node *root = &l->p->node[g->root];
	struct kernel *k = &l->d->kernel;
	uint32_t number;
	uint16_t v;
	int r;

	k->root = KERNEL_ATTENTION;
	k->op = OP_attention;
	k->accumulator = dtype_info(root->type->dtype)->reg;
	k->rank = (uint8_t)(root->type->rank + kernel_inner_dims(k));
	k->inputs = root->arity;
	k->causal = root->attr->flag;
	lower_attention_root(l, root);
	r = planner_constant(l->p, dtype_scalar_from_double(k->accumulator, attention_scale(l, root)), &number);
	if (r)
		return r;
	k->reduced_value = draft_scalar(l->d, k->accumulator, number);
	k->hidden = KERNEL_NONE;
	if (root->attended)
		lower_scales(l, root->attended);
	k->root_value = k->values;
	v = draft_value(l->d, (struct kernel_value){ .kind = KERNEL_ROOT_VALUE, .dtype = k->accumulator });
	root->value = lower_cast(l->d, v, fast_dtype(l->p, root->type->dtype));
	frame_plain(&l->frame, root->type);
	r = lower_members(l, g);
	return r ? r : lower_stores(l, g);
}

/* ---- convolutions ---- */

/* Extents in the order of kernel.h; an input with one spatial axis has rows of its own. */
static void lower_conv_dims(struct lowering *l, const struct node *root, const struct tensor_type *x,
	const struct node *w) {
	int64_t *dims = l->d->dims;
	bool rows = x->rank == 4;
	unsigned last = w->type->rank - (w->columns ? 2u : 1u);

	dims[CONV_N] = x->dims[0];
	dims[CONV_CO] = root->type->dims[1];
	dims[CONV_OH] = rows ? root->type->dims[2] : 1;
	dims[CONV_OW] = root->type->dims[x->rank - 1];
	dims[CONV_GROUP] = root->attr->whole ? root->attr->whole : 1;
	dims[CONV_CI] = w->type->dims[1];
	dims[CONV_KH] = w->minimal ? 3 : rows ? w->type->dims[2] : 1;
	dims[CONV_KW] = w->minimal ? 3 : w->type->dims[last];
	dims[CONV_IH] = rows ? x->dims[2] : 1;
	dims[CONV_IW] = x->dims[x->rank - 1];
}

/* Steps, distances and borders as scalars 0 to 5. */
static int lower_conv_scalars(struct lowering *l, const struct node *root) {
	const struct op_attr *a = root->attr;
	bool rows = a->rank == 2;
	unsigned x = a->rank - 1u;
	const int64_t value[CONV_SCALARS] = { rows ? a->step[0] : 1, a->step[x], rows ? a->dims[0] : 1, a->dims[x],
		rows ? a->start[0] : 0, a->start[x] };
	uint32_t number;
	int r = 0;

	for (unsigned i = 0; !r && i < CONV_SCALARS; i++) {
		r = planner_constant(l->p, (uint64_t)value[i], &number);
		if (!r)
			draft_scalar(l->d, DTYPE_i64, number);
	}
	return r;
}

/* Lines and columns that are computed at once: as many as fit, all alike. */
static uint64_t conv_block(const int64_t *dims, const struct op_attr *a) {
	int64_t over = (dims[CONV_KW] - 1) * a->dims[a->rank - 1] / a->step[a->rank - 1];
	int64_t columns = even_piece(dims[CONV_OW], CONV_PLACES - over);
	int64_t lines = even_piece(dims[CONV_OH], (CONV_PLACES + over) / (columns + over));

	return (uint64_t)lines << 16 | (uint64_t)columns;
}

/* Blocks a compute unit that a convolution with one channel of the input a group should have. */
enum { ALONE_BLOCKS = 4 };

/* Lines first, then columns. */
static void halve_block(int64_t *lines, int64_t *columns) {
	if (*lines > 1)
		*lines = (*lines + 1) / 2;
	else
		*columns = (*columns + 1) / 2;
}

/* Elements of the input along an axis that so many places need. */
static int64_t conv_reach(const struct op_attr *a, unsigned axis, int64_t places, int64_t taps) {
	return (places - 1) * a->step[axis] + (taps - 1) * a->dims[axis] + 1;
}

/* The same of packed weights: no place stands between the lines, and the input of a channel fits. */
static uint64_t conv_packed_block(const int64_t *dims, const struct op_attr *a) {
	int64_t columns = even_piece(dims[CONV_OW], CONV_PLACES), lines = even_piece(dims[CONV_OH], CONV_PLACES / columns);
	bool rows = a->rank == 2;

	while (conv_reach(a, a->rank - 1u, columns, dims[CONV_KW]) *
		(rows ? conv_reach(a, 0, lines, dims[CONV_KH]) : 1) > CONV_REGION) {
		if (lines == 1 && columns == 1)
			break;
		halve_block(&lines, &columns);
	}
	return (uint64_t)lines << 16 | (uint64_t)columns;
}

/* The same with one channel of the input a group: all that fits, but enough blocks for everybody where groups are few. */
static uint64_t conv_alone_block(const int64_t *dims, const struct op_attr *a, const struct traits *t) {
	unsigned x = a->rank - 1u;
	int64_t step_y = x ? a->step[0] : 1, planes = step_y * a->step[x];
	int64_t over_y = x ? (dims[CONV_KH] - 1) * a->dims[0] / step_y : 0, over_x = (dims[CONV_KW] - 1) * a->dims[x] / a->step[x];
	int64_t few = ALONE_BLOCKS * (int64_t)t->units / (dims[CONV_N] * dims[CONV_GROUP]);
	int64_t columns = even_piece(dims[CONV_OW], CONV_COLUMNS);
	int64_t lines = few > 1 ? even_piece(dims[CONV_OH], (dims[CONV_OH] + few - 1) / few) : dims[CONV_OH];

	while (planes * (lines + over_y) * (columns + over_x) > CONV_REGION && (lines > 1 || columns > 1))
		halve_block(&lines, &columns);
	return (uint64_t)lines << 16 | (uint64_t)columns;
}

enum {
	/* GPU strategy: channels of a group that half fill a tile, and extents and steps that fit 32 bits together. */
	CONV_TILED = 8,
	CONV_FAR = 1 << 29,
};

static bool conv_tiles(const int64_t *dims, const struct op_attr *a) {
	double depth = (double)dims[CONV_CI] * (double)dims[CONV_KH] * (double)dims[CONV_KW];

	for (unsigned i = 0; i < a->rank; i++)
		if (dims[CONV_DIMS - a->rank + i] >= CONV_FAR || a->start[i] >= CONV_FAR / 4)
			return false;
	return dims[CONV_CO] / dims[CONV_GROUP] >= CONV_TILED && depth < CONV_FAR;
}

/* Of a filter all of whose rows lie one behind the other; 0 where they do not, or are too many. */
static uint8_t conv_known_rows(const int64_t *dims, const struct op_attr *a) {
	bool near = a->rank < 2 || (a->step[0] == 1 && a->dims[0] == 1);

	return near && dims[CONV_KH] <= CONV_KNOWN_ROWS ? (uint8_t)dims[CONV_KH] : 0;
}

/* [group][panel][channel][row][column][channel of the result] */
static void lower_conv_panels(const struct node *w, struct plan_operand *o) {
	static const uint8_t plain[] = { CONV_GROUP, CONV_CO, CONV_CI, CONV_KH, CONV_KW, CONV_OW };
	static const uint8_t transformed[] = { CONV_GROUP, CONV_CO, CONV_CI, CONV_OW };
	const uint8_t *dim = w->minimal ? transformed : plain;
	int64_t stride[KERNEL_RANK];

	panels_strides(w, stride);
	for (unsigned i = 0; i <= w->type->rank; i++)
		o->stride[dim[i]] = stride[i];
	if (w->minimal) {
		o->stride[CONV_KW] = panels_inner(w);
		o->stride[CONV_KH] = (w->minimal + 2) * panels_inner(w);
	}
}

static void lower_conv_operands(struct lowering *l, const struct node *x, const struct node *w) {
	struct plan_operand in = { .slot = l->p->node[x->base].slot, .offset = x->view.offset };
	struct plan_operand by = { .slot = l->p->node[w->base].slot, .offset = w->view.offset };
	const int64_t *dims = l->d->dims;

	in.stride[CONV_N] = x->view.stride[0];
	in.stride[CONV_GROUP] = x->view.stride[1] * dims[CONV_CI];
	in.stride[CONV_CI] = x->view.stride[1];
	in.stride[CONV_IH] = x->type->rank == 4 ? x->view.stride[2] : 0;
	in.stride[CONV_IW] = x->view.stride[x->type->rank - 1];
	draft_operand(l->d, x->type->dtype, &in);
	if (w->columns) {
		lower_conv_panels(w, &by);
		draft_operand(l->d, w->type->dtype, &by);
		return;
	}
	by.stride[CONV_KW] = 1;
	by.stride[CONV_KH] = dims[CONV_KW];
	by.stride[CONV_CI] = dims[CONV_KH] * dims[CONV_KW];
	by.stride[CONV_CO] = dims[CONV_CI] * by.stride[CONV_CI];
	draft_operand(l->d, w->type->dtype, &by);
}

/* The bias, one a channel, in the accumulator's type. */
static uint16_t lower_conv_bias(struct lowering *l, const struct node *root, uint16_t v) {
	const struct node *b = &l->p->node[root->in[2]];
	struct plan_operand o = { .slot = l->p->node[b->base].slot, .offset = b->view.offset };
	uint8_t type = l->d->kernel.accumulator;

	o.stride[CONV_CO] = b->view.stride[0];
	return draft_op(l->d, OP_add, type, 2, (uint16_t[]){ v, lower_cast(l->d, draft_load(l->d, b->type->dtype, &o), type) });
}

static int lower_conv(struct lowering *l, const struct group *g) {
	struct node *root = &l->p->node[g->root];
	const struct node *x = &l->p->node[root->in[CONV_INPUT]], *w = &l->p->node[root->in[CONV_WEIGHT]];
	struct kernel *k = &l->d->kernel;
	bool groups = l->p->o->traits->strategy == STRATEGY_GPU;
	int64_t each;
	uint16_t v;
	int r;

	k->root = KERNEL_CONV;
	k->op = OP_conv;
	k->accumulator = dtype_info(root->type->dtype)->reg;
	k->rank = CONV_DIMS;
	lower_conv_dims(l, root, x->type, w);
	k->packed = w->columns;
	k->minimal = w->minimal;
	k->alone = groups ? !conv_tiles(l->d->dims, root->attr) : !k->packed && l->d->dims[CONV_CI] == 1;
	l->d->extent = groups ? 0 : k->minimal ? minimal_block(l->d->dims, k->minimal) : k->packed ? conv_packed_block(l->d->dims, root->attr) :
		k->alone ? conv_alone_block(l->d->dims, root->attr, l->p->o->traits) : conv_block(l->d->dims, root->attr);
	each = l->d->dims[CONV_CO] / l->d->dims[CONV_GROUP];
	k->inputs = (uint8_t)(each < CONV_ROWS ? each : CONV_ROWS);
	if (k->alone && !groups)
		k->inputs = conv_known_rows(l->d->dims, root->attr);
	lower_conv_operands(l, x, w);
	r = lower_conv_scalars(l, root);
	if (r)
		return r;
	k->root_value = k->values;
	v = draft_value(l->d, (struct kernel_value){ .kind = KERNEL_ROOT_VALUE, .dtype = k->accumulator });
	if (root->arity > 2)
		v = lower_conv_bias(l, root, v);
	root->value = lower_cast(l->d, v, fast_dtype(l->p, root->type->dtype));
	frame_plain(&l->frame, root->type);
	l->frame.dim[root->type->rank - 1] = CONV_OW;
	r = lower_members(l, g);
	return r ? r : lower_stores(l, g);
}

/* ---- steps ---- */

/* What a member stands for in the graph: a copy made to be computed again, or a part, for another node. */
static uint32_t shown_as(const struct planner *p, uint32_t member) {
	const struct node *n = &p->node[member];

	if (n->whole != GRAPH_NONE)
		return n->whole;
	return n->origin == GRAPH_NONE ? member : n->origin;
}

static int step_ops(struct planner *p, const struct group *g, uint32_t **opp) {
	uint32_t n = 0;

	*opp = arena_alloc(&p->arena, g->ops * sizeof **opp);
	if (!*opp)
		return -ENOMEM;
	for (uint32_t m = g->first; m != GRAPH_NONE; m = p->next[m])
		(*opp)[n++] = shown_as(p, m);
	return 0;
}

static void draft_begin(struct draft *d) {
	memset(&d->kernel, 0, offsetof(struct kernel, value));
	d->kernel.block_dim = 0xff;
	d->kernel.root_value = KERNEL_NONE;
	d->extent = 0;
	d->full = false;
	memset(d->dims, 0, sizeof d->dims);
}

static int lower_group(struct planner *p, uint32_t group, struct draft *d) {
	static int (*const lower[])(struct lowering *, const struct group *) = {
		[NODE_MAP] = lower_map, [NODE_REDUCE] = lower_reductions, [NODE_MATMUL] = lower_matmul,
		[NODE_SCAN] = lower_scan, [NODE_SCATTER] = lower_scatter,
		[NODE_SORT] = lower_sort,
		[NODE_ATTENTION] = lower_attention,
		[NODE_CONV] = lower_conv,
	};
	const struct group *g = &p->group[group];
	struct lowering l = { .p = p, .d = d, .group = group };
	uint32_t first = p->plan->steps, *op;
	int r;

	draft_begin(d);
	r = lower[g->kind](&l, g);
	if (r)
		return r;
	if (d->full)
		return g->ops <= 1 ? -EOVERFLOW : planner_shed(p, group);
	if (!draft_elements(d))
		return 0;
	r = step_ops(p, g, &op);
	if (r)
		return r;
	if (g->columns) {
		r = planner_add_panels(p, d, g->row_dims, op, g->ops);
	} else {
		draft_collapse(d);
		draft_finish(d, p->o->traits);
		for (unsigned o = 0; o < d->kernel.operands; o++)
			if (kernel_works_in(&d->kernel, o))
				p->plan->slot[d->operand[o].slot].bytes = kernel_work_bytes(&d->kernel, o, p->o->traits, d->dims);
		r = plan_add_blocks(p->plan, d, p->o->traits, op, g->ops);
	}
	if (!r)
		pattern_mark(p, g, first);
	return r;
}

/* In order of rank, which order.c may change; groups shed by one are lowered in its place, in the order of its members. */
static int lower_in_order(struct planner *p, struct ranked *order, uint32_t count, struct draft *d) {
	int r = 0;

	for (uint32_t i = 0; !r && i < count; i++) {
		uint32_t shed = p->groups;

		r = lower_group(p, order[i].group, d);
		for (; !r && shed < p->groups; shed++)
			r = lower_group(p, shed, d);
	}
	return r;
}

int planner_lower(struct planner *p) {
	struct ranked *order = arena_alloc(&p->arena, (p->groups + 1) * sizeof *order);
	struct draft *d = malloc(sizeof *d);
	uint32_t count = 0;
	int r = order && d ? 0 : -ENOMEM;

	for (uint32_t i = 0; !r && i < p->groups; i++)
		if (p->group[i].parent == i && p->group[i].ops && p->group[i].kind != NODE_PARTS)
			order[count++] = (struct ranked){ p->group[i].rank, i };
	if (!r) {
		ranked_sort(order, count);
		r = lower_in_order(p, order, count, d);
	}
	free(d);
	return r;
}
