/*
 * Where the dims of a shape lie among those of a kernel.
 *
 * A kernel of reductions iterates over the dims it keeps, then over those it reduces: a row. What is
 * computed once an element has the whole shape, what is computed once a row the kept one, with or
 * without extents of 1 where axes were reduced. Both reach each other inside the kernel when, over
 * the kernel's dims, the strides of what is read are those of what was computed: so a mean that is
 * broadcast back over its row, or reshaped before, is the value itself and needs no memory.
 */
#include "planner.h"

#include <string.h>

/* The kernel dim of a dim of the frame's shape, or FRAME_NONE: no frame, however it was made, leads beyond a list of strides. */
static unsigned frame_dim(const struct frame *f, unsigned d) {
	return d < f->space->rank && f->dim[d] < KERNEL_RANK ? f->dim[d] : FRAME_NONE;
}

/* Nothing of the shape is anywhere yet. */
static void frame_begin(struct frame *f, const struct tensor_type *space) {
	f->space = space;
	memset(f->dim, FRAME_NONE, sizeof f->dim);
}

struct plan_operand frame_operand(const struct frame *f, const struct tensor_type *t, const struct view *v,
	uint32_t slot) {
	struct plan_operand o = { .slot = slot, .offset = v->offset };
	unsigned lead = (unsigned)f->space->rank - t->rank;

	for (unsigned d = 0; d < t->rank; d++) {
		unsigned dim = frame_dim(f, lead + d);

		if (dim != FRAME_NONE && t->dims[d] != 1)
			o.stride[dim] = v->stride[d];
	}
	return o;
}

void frame_plain(struct frame *f, const struct tensor_type *space) {
	frame_begin(f, space);
	for (unsigned d = 0; d < LIMIT_RANK; d++)
		f->dim[d] = (uint8_t)d;
}

struct rows rows_of(const struct planner *p, const struct node *reduction) {
	struct rows r = { .type = p->node[reduction->in[0]].type, .axes = reduction->attr->axes };

	for (unsigned d = 0; d < r.type->rank; d++)
		r.kept += !(r.axes >> d & 1);
	return r;
}

uint64_t rows_extent(const struct rows *r) {
	uint64_t n = 1;

	for (unsigned d = 0; d < r->type->rank; d++)
		if (r->axes >> d & 1)
			n *= (uint64_t)r->type->dims[d];
	return n;
}

void frame_row(struct frame *f, const struct rows *r) {
	uint8_t next[2] = { 0, r->kept };

	frame_begin(f, r->type);
	for (unsigned d = 0; d < r->type->rank; d++)
		f->dim[d] = next[r->axes >> d & 1]++;
}

/* Requires a space that rows_classes() found to be of the kept kind. */
void frame_kept(struct frame *f, const struct rows *r, const struct tensor_type *space) {
	uint8_t kept = 0, out = 0;

	frame_begin(f, space);
	for (unsigned d = 0; d < r->type->rank; d++) {
		bool reduced = r->axes >> d & 1;

		if (!reduced)
			f->dim[out++] = kept++;
		else if (space->rank == r->type->rank)
			f->dim[out++] = FRAME_NONE;
	}
}

static bool is_kept_space(const struct rows *r, const struct tensor_type *space) {
	bool all = space->rank == r->type->rank;
	unsigned at = 0;

	if (!all && space->rank != r->kept)
		return false;
	for (unsigned d = 0; d < r->type->rank; d++) {
		bool reduced = r->axes >> d & 1;

		if ((all || !reduced) && space->dims[at++] != (reduced ? 1 : r->type->dims[d]))
			return false;
	}
	return true;
}

unsigned rows_classes(const struct rows *r, const struct tensor_type *space) {
	return (space_equal(space, r->type) ? ROWS_CLASS_ROW : 0) | (is_kept_space(r, space) ? ROWS_CLASS_KEPT : 0);
}

/* Strides of a value computed over the row or the kept dims, row-major over its shape. */
static void own_strides(const struct frame *f, int64_t *stride) {
	int64_t step = 1;

	memset(stride, 0, KERNEL_RANK * sizeof *stride);
	for (unsigned d = f->space->rank; d-- > 0;) {
		unsigned dim = frame_dim(f, d);

		if (dim != FRAME_NONE && f->space->dims[d] != 1)
			stride[dim] = step;
		step *= f->space->dims[d];
	}
}

static void frame_of_class(struct frame *f, const struct rows *r, unsigned class, const struct tensor_type *space) {
	if (class == ROWS_CLASS_ROW)
		frame_row(f, r);
	else
		frame_kept(f, r, space);
}

bool rows_reach(const struct planner *p, const struct rows *r, const struct node *n, unsigned class, unsigned i) {
	const struct node *in = &p->node[n->in[i]], *base = &p->node[in->base];
	const struct tensor_type *from = base->kind == NODE_REDUCE ? base->type : base->space;
	unsigned have = base->row ? ROWS_CLASS_ROW : ROWS_CLASS_KEPT;
	struct frame reads, owns;
	struct tensor_type seen;
	struct plan_operand o;
	struct view view;
	int64_t stride[KERNEL_RANK];

	if (in->kind == NODE_FILL || in->kind == NODE_IOTA || base->kind == NODE_PARTS || (have == ROWS_CLASS_ROW && class != have))
		return false;
	/* What the base is computed over need not be of these rows, though another member's space is: a view lies between. */
	if (!(rows_classes(r, n->space) & class) || !(rows_classes(r, from) & have))
		return false;
	/* What is gathered lies in memory; the axes of take's index stand among others in the result. */
	if (op_gathers(n->op) && (i == 0 || !space_equal(in->type, n->space)))
		return false;
	if (n->kind == NODE_REDUCE && have != ROWS_CLASS_ROW)
		return false;
	frame_of_class(&reads, r, class, n->space);
	frame_of_class(&owns, r, have, from);
	if (!planner_seen(p, n, i, &seen, &view))
		return false;
	o = frame_operand(&reads, &seen, &view, PLAN_NONE);
	own_strides(&owns, stride);
	return !o.offset && !memcmp(o.stride, stride, sizeof stride);
}

bool rows_same(const struct rows *a, const struct rows *b) {
	return a->axes == b->axes && space_equal(a->type, b->type);
}

/* Rows of several passes: long ones only where there are enough of them to keep the device busy. */
bool rows_pay(const struct planner *p, const struct rows *r) {
	uint64_t extent = rows_extent(r), rows = 1;

	for (unsigned d = 0; d < r->type->rank; d++)
		if (!(r->axes >> d & 1))
			rows *= (uint64_t)r->type->dims[d];
	if (extent > (uint64_t)KERNEL_BLOCK * KERNEL_BLOCK)
		return false;
	return extent <= KERNEL_BLOCK || rows >= ROWS_EACH_UNIT * (uint64_t)p->o->traits->units;
}

/* Do the reduced axes, extents of 1 aside, lie side by side? */
bool rows_adjacent(const struct rows *r) {
	bool inside = false, left = false;

	for (unsigned d = 0; d < r->type->rank; d++) {
		bool reduced = r->axes >> d & 1;

		if (r->type->dims[d] == 1)
			continue;
		if (reduced && left)
			return false;
		inside |= reduced;
		left |= inside && !reduced;
	}
	return true;
}
