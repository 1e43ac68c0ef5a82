/*
 * Arrays that are made of parts: concat and pad.
 *
 * Nothing computes such an array as a whole. Each part is a copy of what stands there, and is stored
 * in a window of the whole's memory: so it joins the kernel that computes what it copies, which then
 * stores directly into its place. Parts never overlap, and together they are the whole.
 *
 * The node of the whole has a group of its own, of the highest rank of its parts' groups, which holds
 * nothing that runs: whoever reads the whole ranks above all of them.
 */
#include "planner.h"

#include <errno.h>
#include <string.h>

/* A part at `start` of the whole, a copy of node `of` broadcast to these extents. */
static int add_part(struct planner *p, uint32_t whole, uint32_t of, const int64_t *start, const int64_t *dims) {
	struct tensor_type *t = arena_alloc(&p->arena, sizeof *t);
	struct node *n;
	uint32_t node;
	int r = t ? planner_add_copy(p, of, &node) : -ENOMEM;

	if (r)
		return r;
	n = &p->node[node];
	*t = *p->node[whole].type;
	memcpy(t->dims, dims, t->rank * sizeof *dims);
	n->type = n->space = t;
	n->stored = true;
	n->whole = whole;
	view_contiguous(t, &n->view);
	view_contiguous(p->node[whole].type, &n->place);
	for (unsigned d = 0; d < t->rank; d++)
		n->place.offset += start[d] * n->place.stride[d];
	return 0;
}

static int add_concat(struct planner *p, uint32_t whole) {
	unsigned axis = p->node[whole].attr->axis;
	int64_t start[LIMIT_RANK] = { 0 };
	int r = 0;

	for (unsigned i = 0; !r && i < p->node[whole].arity; i++) {
		uint32_t of = p->node[whole].in[i];
		const struct tensor_type *t = p->node[of].type;

		r = add_part(p, whole, of, start, t->dims);
		start[axis] += t->dims[axis];
	}
	return r;
}

/*
 * What stands around on axis d: before and after the operand, as far as the operand goes on the axes
 * before d, and all of the whole on those after.
 */
static int add_margins(struct planner *p, uint32_t whole, uint32_t of, const struct tensor_type *inner, unsigned d) {
	const int64_t *from = p->node[whole].attr->start, *all = p->node[whole].type->dims;
	int64_t start[LIMIT_RANK] = { 0 }, dims[LIMIT_RANK];
	int r = 0;

	memcpy(dims, all, sizeof dims);
	memcpy(dims, inner->dims, d * sizeof *dims);
	memcpy(start, from, d * sizeof *start);
	dims[d] = from[d];
	if (dims[d])
		r = add_part(p, whole, of, start, dims);
	start[d] = from[d] + inner->dims[d];
	dims[d] = all[d] - start[d];
	return !r && dims[d] ? add_part(p, whole, of, start, dims) : r;
}

static int add_pad(struct planner *p, uint32_t whole) {
	const struct tensor_type *inner = p->node[p->node[whole].in[0]].type;
	struct tensor_type *one = arena_alloc(&p->arena, sizeof *one);
	uint32_t of = p->node[whole].in[1];
	int r = one ? 0 : -ENOMEM;

	if (!r && p->node[whole].arity < 2) {
		*one = (struct tensor_type){ .dtype = inner->dtype };
		r = planner_add_fill(p, one, 0, &of);
	}
	for (unsigned d = 0; !r && d < inner->rank; d++)
		r = add_margins(p, whole, of, inner, d);
	return r ? r : add_part(p, whole, p->node[whole].in[0], p->node[whole].attr->start, inner->dims);
}

int planner_add_parts(struct planner *p, uint32_t node, uint32_t *firstp, uint32_t *countp) {
	int r;

	*firstp = p->nodes;
	r = p->node[node].op == OP_concat ? add_concat(p, node) : add_pad(p, node);
	*countp = p->nodes - *firstp;
	return r;
}
