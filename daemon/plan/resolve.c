/*
 * First pass: which nodes are live, and what each is to the rest of the planner.
 *
 * A view operation costs nothing where it can be expressed as strides over its base: the node then
 * only says where elements lie. A reshape that strides cannot express becomes a copy of its
 * operand, computed in the operand's shape: in memory, row-major, the two are the same.
 * Fills have no layout: any view of a fill is the same scalar.
 */
#include "planner.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool node_is_computed(const struct node *n) {
	return n->kind >= NODE_MAP;
}

bool node_is_product(const struct node *n) {
	return n->kind == NODE_MATMUL || n->kind == NODE_SCATTER || n->kind == NODE_ATTENTION ||
		n->kind == NODE_CONV;
}

bool space_equal(const struct tensor_type *a, const struct tensor_type *b) {
	return a->rank == b->rank && !memcmp(a->dims, b->dims, a->rank * sizeof *a->dims);
}

static int nodes_reserve(struct planner *p, uint32_t more) {
	uint32_t capacity = p->node_capacity ? p->node_capacity : 64;
	struct node *node;
	uint32_t *next;

	if (p->nodes + more <= p->node_capacity)
		return 0;
	while (capacity < p->nodes + more)
		capacity *= 2;
	node = realloc(p->node, capacity * sizeof *node);
	if (!node)
		return -ENOMEM;
	p->node = node;
	next = realloc(p->next, capacity * sizeof *next);
	if (!next)
		return -ENOMEM;
	p->next = next;
	p->node_capacity = capacity;
	return 0;
}

/* A node that nobody has looked at. */
static struct node blank(uint16_t op, const struct tensor_type *t) {
	return (struct node){ .op = op, .type = t, .space = t, .group = GROUP_NONE, .origin = GRAPH_NONE, .reduced_by = GROUP_NONE,
		.slot = PLAN_NONE, .copy = GRAPH_NONE, .whole = GRAPH_NONE, .panels = GRAPH_NONE };
}

static void compute(struct planner *p, struct node *n, uint8_t kind) {
	n->kind = kind;
	n->space = n->type;
	n->base = (uint32_t)(n - p->node);
	view_contiguous(n->type, &n->view);
}

static void resolve_leaf(struct planner *p, struct node *n) {
	n->kind = NODE_LEAF;
	n->stored = true;
	n->base = (uint32_t)(n - p->node);
	n->view = graph_leaf_at(p->g, n->index)->view;
	n->view.offset = 0;
	n->slot = n->index;
}

static void resolve_view(struct planner *p, struct node *n) {
	const struct node *in = &p->node[n->in[0]];

	n->index = in->index;
	n->attr = n->attr ? n->attr : in->attr;
	if (in->kind == NODE_FILL) {
		n->kind = NODE_FILL;
		return;
	}
	if (!view_apply(n->op, n->attr, in->type, &in->view, n->type, &n->view)) {
		compute(p, n, NODE_MAP);
		n->op = OP_copy;
		n->space = in->type;
		return;
	}
	n->kind = in->kind == NODE_IOTA ? NODE_IOTA : NODE_VIEW;
	n->base = in->base;
}

static bool reduces_nothing(const struct planner *p, const struct node *n) {
	return shape_elements(p->node[n->in[0]].type) == 0;
}

static int resolve_reduce(struct planner *p, struct node *n) {
	compute(p, n, NODE_REDUCE);
	n->space = p->node[n->in[0]].type;
	if (!reduces_nothing(p, n))
		return 0;
	n->kind = NODE_FILL;
	n->arity = 0;
	return planner_constant(p, dtype_scalar_from_double(n->type->dtype, op_of_nothing(n->op)), &n->index);
}

/* A product over no k is zero everywhere. */
static int resolve_matmul(struct planner *p, struct node *n) {
	const struct tensor_type *a = p->node[n->in[0]].type;

	compute(p, n, NODE_MATMUL);
	if (a->dims[a->rank - 1])
		return 0;
	n->kind = NODE_FILL;
	n->arity = 0;
	return planner_constant(p, dtype_scalar_from_int(n->type->dtype, 0), &n->index);
}

/* What is taken from an axis without elements is out of range; where there is nothing all goes to place 0. */
static int resolve_gather(struct planner *p, struct node *n) {
	compute(p, n, NODE_MAP);
	if (p->node[n->in[0]].type->dims[n->attr->axis])
		return 0;
	n->kind = NODE_FILL;
	n->arity = 0;
	return planner_constant(p, dtype_scalar_from_int(n->type->dtype, 0), &n->index);
}

/* Without updates it is a copy. */
static void resolve_scatter(struct planner *p, struct node *n) {
	compute(p, n, shape_elements(p->node[n->in[1]].type) ? NODE_SCATTER : NODE_MAP);
	if (n->kind == NODE_SCATTER)
		return;
	n->op = OP_copy;
	n->arity = 1;
}

static int resolve_node(struct planner *p, struct node *n) {
	switch (n->op) {
	case OP_load:
		resolve_leaf(p, n);
		return 0;
	case OP_fill:
		n->kind = NODE_FILL;
		return 0;
	case OP_arange:
		compute(p, n, NODE_IOTA);
		return 0;
	case OP_matmul:
		return resolve_matmul(p, n);
	case OP_conv:
		compute(p, n, NODE_CONV);
		return 0;
	case OP_attention:
		compute(p, n, NODE_ATTENTION);
		return 0;
	case OP_put_along:
	case OP_add_along:
		resolve_scatter(p, n);
		return 0;
	case OP_concat:
	case OP_pad:
		compute(p, n, NODE_PARTS);
		n->stored = true;
		return 0;
	case OP_take:
	case OP_take_along:
	case OP_searchsorted:
		return resolve_gather(p, n);
	default:
		break;
	}
	if (op_is_view(n->op)) {
		resolve_view(p, n);
		return 0;
	}
	if (op_info(n->op)->class == OP_CLASS_REDUCE)
		return resolve_reduce(p, n);
	if (op_sorts(n->op)) {
		compute(p, n, NODE_SORT);
		return 0;
	}
	if (op_info(n->op)->class == OP_CLASS_SCAN) {
		compute(p, n, NODE_SCAN);
		return 0;
	}
	compute(p, n, NODE_MAP);
	return 0;
}

/* Only what an output needs is planned. */
static void mark_live(struct planner *p) {
	for (uint32_t i = 0; i < graph_outputs(p->g); i++)
		p->node[graph_output_at(p->g, i)->node].output = true;
	for (uint32_t i = p->nodes; i-- > 0;) {
		struct node *n = &p->node[i];

		if (!n->output && n->kind == NODE_DEAD)
			continue;
		n->kind = NODE_MAP;
		for (unsigned k = 0; k < n->arity; k++)
			p->node[n->in[k]].kind = NODE_MAP;
	}
}

static void nodes_copy(struct planner *p) {
	p->nodes = graph_nodes(p->g);
	for (uint32_t i = 0; i < p->nodes; i++) {
		const struct graph_node *from = graph_node(p->g, i);
		struct node *n = &p->node[i];

		*n = blank(from->op, &from->type);
		n->arity = from->arity;
		n->index = from->index;
		n->attr = from->attr;
		memcpy(n->in, from->in, sizeof n->in);
	}
}

/* A result must be somewhere: computed nodes are stored, what has no memory is copied into some. */
static int store_output(struct planner *p, uint32_t node) {
	struct node *n = &p->node[node];
	uint32_t copy;
	int r;

	if (n->kind != NODE_FILL && n->kind != NODE_IOTA) {
		p->node[n->base].stored = true;
		return 0;
	}
	if (n->copy != GRAPH_NONE)
		return 0;
	r = planner_add_copy(p, node, &copy);
	if (r)
		return r;
	p->node[copy].stored = true;
	p->node[node].copy = copy;
	return 0;
}

int planner_add_copy(struct planner *p, uint32_t of, uint32_t *nodep) {
	struct node *n;
	int r = nodes_reserve(p, 1);

	if (r)
		return r;
	n = &p->node[p->nodes];
	*n = blank(OP_copy, p->node[of].type);
	n->arity = 1;
	n->in[0] = of;
	compute(p, n, NODE_MAP);
	*nodep = p->nodes++;
	return 0;
}

int planner_add_view(struct planner *p, uint32_t of, const struct tensor_type *t, const struct view *v, uint32_t *nodep) {
	struct node *n;
	int r = nodes_reserve(p, 1);

	if (r)
		return r;
	n = &p->node[p->nodes];
	*n = blank(OP_reshape, t);
	n->kind = NODE_VIEW;
	n->arity = 1;
	n->in[0] = of;
	n->base = p->node[of].base;
	n->view = *v;
	*nodep = p->nodes++;
	return 0;
}

int planner_add_twin(struct planner *p, uint32_t of, uint32_t *nodep) {
	struct node *n;
	int r = nodes_reserve(p, 1);

	if (r)
		return r;
	n = &p->node[p->nodes];
	*n = p->node[of];
	n->stored = n->output = n->row = false;
	n->group = n->reduced_by = GROUP_NONE;
	n->slot = PLAN_NONE;
	n->copy = n->panels = GRAPH_NONE;
	if (n->origin == GRAPH_NONE)
		n->origin = of;
	n->base = p->nodes++;
	*nodep = n->base;
	return 0;
}

int planner_add_fill(struct planner *p, const struct tensor_type *t, uint64_t value, uint32_t *nodep) {
	struct node *n;
	int r = nodes_reserve(p, 1);

	if (r)
		return r;
	n = &p->node[p->nodes];
	*n = blank(OP_fill, t);
	n->kind = NODE_FILL;
	*nodep = p->nodes++;
	return planner_constant(p, value, &n->index);
}

bool node_is_flat(const struct node *in, const struct node *base) {
	return shape_elements(in->type) == shape_elements(base->type) && view_is_contiguous(in->type, &in->view) && !in->view.offset;
}

struct edge planner_edge(const struct planner *p, const struct node *n, unsigned i) {
	const struct node *in = &p->node[n->in[i]], *base = &p->node[in->base];
	struct edge e = { .node = n->in[i], .base = in->base };

	if (in->kind == NODE_FILL || in->kind == NODE_IOTA)
		return (struct edge){ .node = n->in[i], .base = n->in[i] };
	if (node_is_product(n) || (op_gathers(n->op) && i == 0) || !node_is_computed(base) || base->kind == NODE_PARTS)
		return e;
	if (op_gathers(n->op) && !(space_equal(in->type, base->type) && space_equal(base->type, n->space)))
		return e;
	e.direct = space_equal(base->kind == NODE_MAP ? base->space : base->type, n->space) && node_is_flat(in, base) &&
		shape_elements(in->type) == shape_elements(n->space);
	return e;
}

/* What a reader cannot reach through a kernel it must find in memory. */
static int store_outputs(struct planner *p) {
	for (uint32_t i = 0; i < graph_outputs(p->g); i++) {
		int r = store_output(p, graph_output_at(p->g, i)->node);

		if (r)
			return r;
	}
	return 0;
}

/* What pattern.c looks for: what is computed for a product, which finds it in memory. */
static void mark_factors(struct planner *p) {
	for (uint32_t i = 0; i < p->nodes; i++)
		for (unsigned k = 0; p->node[i].kind == NODE_MATMUL && k < 2; k++) {
			uint32_t base = planner_edge(p, &p->node[i], k).base;

			while (p->node[base].op == OP_cast && node_is_computed(&p->node[base]))
				base = planner_edge(p, &p->node[base], 0).base;
			p->node[base].factor = true;
		}
}

int planner_resolve(struct planner *p) {
	int r = nodes_reserve(p, graph_nodes(p->g) + 2 * graph_outputs(p->g));

	if (r)
		return r;
	nodes_copy(p);
	r = planner_find_named(p);
	if (!r)
		r = fast_attention(p);
	if (r)
		return r;
	mark_live(p);
	for (uint32_t i = 0; i < p->nodes; i++) {
		if (p->node[i].kind == NODE_DEAD)
			continue;
		r = resolve_node(p, &p->node[i]);
		if (r)
			return r;
	}
	mark_factors(p);
	return store_outputs(p);
}
