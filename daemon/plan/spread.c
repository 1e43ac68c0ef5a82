/*
 * What a value that is read through a view would be, computed over the shape that reads it.
 *
 * A bias that is cast, or the root of a variance, has an element a channel, and is repeated over rows and places where it
 * is read. An elementwise operation may as well follow the view: element i of the view is then computed of what is
 * element i of its operands through the same view. Each step over the reader's shape must be one along a dim of the value's,
 * since only over its dims do operands have strides.
 */
#include "planner.h"

#include <errno.h>
#include <string.h>

/* Over the dims of what reads: steps of a value's elements, and the dim of the value along which each goes. */
struct spread {
	int64_t step[LIMIT_RANK];
	uint8_t along[LIMIT_RANK];
};

/* The dim of a row-major shape along which so many elements are whole steps; its rank where there is none. */
static unsigned dim_along(const struct tensor_type *t, int64_t elements, int64_t *stepp) {
	int64_t own = 1;

	for (unsigned d = t->rank; d-- > 0; own *= t->dims[d])
		if (elements >= own && elements < own * t->dims[d] && elements % own == 0) {
			*stepp = elements / own;
			return d;
		}
	return t->rank;
}

/* How `seen`, a view of a value of this shape, goes along it over a shape that it is broadcast to; false where a step is along no dim. */
static bool find_spread(const struct tensor_type *value, const struct node *seen, const struct tensor_type *over, struct spread *s) {
	unsigned lead = (unsigned)over->rank - seen->type->rank;
	int64_t reach[LIMIT_RANK] = { 0 };

	*s = (struct spread){ { 0 }, { 0 } };
	if (seen->view.offset || seen->type->rank > over->rank || !shape_elements(over))
		return false;
	for (unsigned d = lead; d < over->rank; d++) {
		int64_t stride = seen->type->dims[d - lead] == 1 ? 0 : seen->view.stride[d - lead], step;
		unsigned along;

		if (!stride)
			continue;
		along = dim_along(value, stride, &step);
		if (along == value->rank)
			return false;
		reach[along] += (over->dims[d] - 1) * step;
		if (reach[along] >= value->dims[along])
			return false;
		s->step[d] = step;
		s->along[d] = (uint8_t)along;
	}
	return true;
}

const struct tensor_type *spread_shape(const struct planner *p, uint32_t reader, unsigned k) {
	const struct node *n = &p->node[reader];

	if (n->kind == NODE_MAP)
		return n->over ? n->over : n->space;
	return p->node[n->in[k]].type;
}

bool spread_leads(const struct planner *p, uint32_t reader, unsigned k) {
	const struct node *n = &p->node[reader], *seen = &p->node[n->in[k]], *value = &p->node[seen->base];
	struct spread s;

	if ((n->kind != NODE_MAP && n->kind != NODE_REDUCE) || op_gathers(n->op) || value->kind != NODE_MAP)
		return false;
	return find_spread(value->space, seen, spread_shape(p, reader, k), &s);
}

bool spread_takes(const struct node *maker) {
	return !maker->over && !op_gathers(maker->op) && maker->op != OP_copy && space_equal(maker->type, maker->space);
}

double spread_times(const struct planner *p, uint32_t reader, unsigned k) {
	const struct node *seen = &p->node[p->node[reader].in[k]];
	const struct tensor_type *over = spread_shape(p, reader, k);
	unsigned lead = (unsigned)over->rank - seen->type->rank;
	double times = (double)shape_elements(over);

	/* A kernel of rows asks for it once an element; a map once for all that follow each other. */
	for (unsigned d = over->rank; p->node[reader].kind == NODE_MAP && d-- > 0;) {
		if (d >= lead && seen->type->dims[d - lead] != 1 && seen->view.stride[d - lead])
			break;
		times /= (double)over->dims[d];
	}
	return times;
}

/* An operand of a maker as the maker's result is seen. */
static int add_operand(struct planner *p, uint32_t of, const struct tensor_type *value, const struct tensor_type *over, const struct spread *s,
	uint32_t *nodep) {
	const struct node *in = &p->node[of];
	unsigned lead = (unsigned)value->rank - in->type->rank;
	struct tensor_type *t = arena_alloc(&p->arena, sizeof *t);
	struct view v = { .offset = in->view.offset };
	uint8_t kind = in->kind == NODE_FILL || in->kind == NODE_IOTA ? in->kind : NODE_VIEW;
	int r;

	if (!t)
		return -ENOMEM;
	*t = *over;
	t->dtype = in->type->dtype;
	for (unsigned d = 0; d < over->rank; d++)
		if (s->step[d] && s->along[d] >= lead && in->type->dims[s->along[d] - lead] != 1)
			v.stride[d] = s->step[d] * in->view.stride[s->along[d] - lead];
	r = planner_add_view(p, of, t, &v, nodep);
	if (r)
		return r;
	p->node[*nodep].kind = kind;
	p->node[*nodep].index = p->node[of].index;
	p->node[*nodep].attr = p->node[of].attr;
	return 0;
}

int spread_twin(struct planner *p, uint32_t twin, uint32_t reader, unsigned k) {
	const struct tensor_type *over = spread_shape(p, reader, k), *space = p->node[reader].space;
	const struct tensor_type *value = p->node[twin].space;
	bool walks = p->node[reader].kind == NODE_MAP && p->node[reader].over;
	struct tensor_type *t = arena_alloc(&p->arena, sizeof *t);
	struct spread s;
	int r = t ? 0 : -ENOMEM;

	if (r)
		return r;
	if (!find_spread(value, &p->node[p->node[reader].in[k]], over, &s))
		return FAULT_INTERNAL;
	for (unsigned i = 0; !r && i < p->node[twin].arity; i++) {
		uint32_t in;

		r = add_operand(p, p->node[twin].in[i], value, over, &s, &in);
		if (!r)
			p->node[twin].in[i] = in;
	}
	*t = *over;
	t->dtype = p->node[twin].type->dtype;
	p->node[twin].type = t;
	p->node[twin].space = walks ? space : t;
	p->node[twin].over = walks ? t : NULL;
	view_contiguous(t, &p->node[twin].view);
	return r;
}
