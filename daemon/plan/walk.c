/*
 * Over which shape an elementwise operation is computed, where it or what reads it is a contiguous reshape away.
 *
 * In memory, row-major, a reshape is nothing: element i of one shape is element i of the other. So operations that
 * reach each other through reshapes are computed over one shape, and to what comes later there is no view between
 * them. That shape has the dims of all of theirs, cut where any of them is: then every other operand, broadcast or
 * strided over one of the shapes, has strides over it. It exists where the cuts divide each other. Else, or where
 * the shape is not free because a product, a scan or a reduction has it, too, a single operation takes the other
 * side's shape if all its operands have strides there. Dims that all operands walk evenly are one again in the kernel.
 * Long rows are not cut into short ones for it.
 *
 * Operations that reach each other without a view come first, so that no reshape parts them.
 */
#include "planner.h"

#include <errno.h>
#include <string.h>

enum {
	/* Elements of a row from which on vectors of any width are full but for the last few; tanh of rows of 3 takes 1.9 times as long. */
	WALK_ROW = 64,
	/* Elements of an array that are computed one by one while another kernel would start. */
	WALK_SMALL = 4096,
};

/* Sets of values that are computed over one shape: of each node its own, behind them those that reductions reduce. */
struct walks {
	struct planner *p;
	uint32_t nodes;
	uint32_t *parent;                  /* union-find */
	const struct tensor_type **space;  /* of a set, at its root */
	bool *fixed;                       /* a set whose shape stays, at its root */
	bool *many;                        /* more than one value, at its root */
	bool *kept;                        /* a node whose shape stays */
};

static uint32_t find(struct walks *w, uint32_t i) {
	while (w->parent[i] != i) {
		w->parent[i] = w->parent[w->parent[i]];
		i = w->parent[i];
	}
	return i;
}

static const struct tensor_type *over_of(const struct node *n) {
	return n->over ? n->over : n->space;
}

/* An operand over another shape, by way of the one that it is broadcast to; false where no strides lead there. */
static bool seen_over(const struct node *in, const struct tensor_type *over, const struct tensor_type *space, struct tensor_type *t, struct view *v) {
	struct tensor_type all = *over;
	struct view whole;

	all.dtype = in->type->dtype;
	*t = *space;
	t->dtype = in->type->dtype;
	return view_apply(OP_broadcast, NULL, in->type, &in->view, &all, &whole) &&
		view_apply(OP_reshape, NULL, &all, &whole, t, v);
}

bool planner_seen(const struct planner *p, const struct node *n, unsigned i, struct tensor_type *t, struct view *v) {
	const struct node *in = &p->node[n->in[i]];

	if (n->over && in->kind != NODE_FILL)
		return seen_over(in, n->over, n->space, t, v);
	*t = *in->type;
	*v = in->view;
	return true;
}

/* Has every operand of a node strides over this shape? */
static bool walks_over(const struct planner *p, const struct node *n, const struct tensor_type *space) {
	struct tensor_type t;
	struct view v;

	for (unsigned i = 0; i < n->arity; i++) {
		const struct node *in = &p->node[n->in[i]];

		if (in->kind != NODE_FILL && !seen_over(in, over_of(n), space, &t, &v))
			return false;
	}
	return true;
}

/* Element i of operand k is element i of what is computed, whatever their shapes are. */
static bool is_plain(const struct planner *p, const struct node *n, unsigned k) {
	const struct node *in = &p->node[n->in[k]], *base = &p->node[in->base];

	if (in->kind == NODE_FILL || in->kind == NODE_IOTA || !node_is_computed(base) || base->kind == NODE_PARTS)
		return false;
	return node_is_flat(in, base) && shape_elements(in->type) > 1 && shape_elements(in->type) == shape_elements(n->space);
}

/* The extents of 1 aside, outermost first. */
static unsigned dims_of(const struct tensor_type *t, int64_t *dims) {
	unsigned count = 0;

	for (unsigned d = 0; d < t->rank; d++)
		if (t->dims[d] != 1)
			dims[count++] = t->dims[d];
	return count;
}

/*
 * The dims of both, innermost first: the shorter one is one of the refinement, what is left of the longer one is cut
 * further. -1 where a cut of one lies across the other, or there are too many.
 */
static int refine(const struct tensor_type *a, const struct tensor_type *b, int64_t *dims) {
	int64_t of[2][LIMIT_RANK];
	unsigned left[2] = { dims_of(a, of[0]), dims_of(b, of[1]) };
	int count = 0;

	while (left[0] && left[1]) {
		int64_t *x = &of[0][left[0] - 1], *y = &of[1][left[1] - 1], cut = *x < *y ? *x : *y;

		if (count == LIMIT_RANK || *x % cut || *y % cut)
			return -1;
		dims[count++] = cut;
		*x /= cut;
		*y /= cut;
		left[0] -= *x == 1;
		left[1] -= *y == 1;
	}
	return count;
}

/* The one of two shapes whose dims the refinement has, or a new one; NULL where there is none. *r: 0 or -ENOMEM. */
static const struct tensor_type *refined(struct walks *w, const struct tensor_type *a, const struct tensor_type *b, int *r) {
	int64_t dims[LIMIT_RANK], own[LIMIT_RANK];
	int count = refine(a, b, dims);
	struct tensor_type *t;

	*r = 0;
	if (count < 0)
		return NULL;
	if (dims_of(a, own) == (unsigned)count)
		return a;
	if (dims_of(b, own) == (unsigned)count)
		return b;
	t = arena_alloc(&w->p->arena, sizeof *t);
	*r = t ? 0 : -ENOMEM;
	if (!t)
		return NULL;
	*t = *a;
	t->rank = (uint8_t)count;
	for (int d = 0; d < count; d++)
		t->dims[d] = dims[count - 1 - d];
	return t;
}

static bool same_dims(const struct tensor_type *a, const struct tensor_type *b) {
	int64_t x[LIMIT_RANK], y[LIMIT_RANK];
	unsigned count = dims_of(a, x);

	return count == dims_of(b, y) && !memcmp(x, y, count * sizeof *x);
}

/*
 * Would rows of the one be walked as shorter rows of the other, too short for a processor's vectors? What few elements
 * take longer so is less than what a kernel takes to start.
 */
static bool shortens(const struct tensor_type *space, const struct tensor_type *own) {
	int64_t dims[LIMIT_RANK], before[LIMIT_RANK];
	unsigned count = dims_of(space, dims), old = dims_of(own, before);

	return count && old && shape_elements(space) > WALK_SMALL && dims[count - 1] < WALK_ROW && dims[count - 1] < before[old - 1];
}

/* May node i, alone in its set, be computed over this shape? */
static bool follows(struct walks *w, uint32_t i, const struct tensor_type *space) {
	return i < w->nodes && !w->fixed[i] && !w->many[i] && w->parent[i] == i && w->p->node[i].kind == NODE_MAP && walks_over(w->p, &w->p->node[i], space);
}

/* One shape for what node or rows `to` reads of `from`, where there is one. */
static int unite(struct walks *w, uint32_t from, uint32_t to) {
	uint32_t a = find(w, from), b = find(w, to);
	const struct tensor_type *space;
	int r;

	/* Extents of 1 part nothing from rows that were reduced, and nothing is gained where both shapes stay. */
	if (a == b || (w->fixed[a] && w->fixed[b]))
		return 0;
	if (w->p->node[from].kind == NODE_REDUCE && same_dims(w->space[a], w->space[b]))
		return 0;
	space = refined(w, w->space[a], w->space[b], &r);
	if (r)
		return r;
	if (w->fixed[a] && (!space || !same_dims(space, w->space[a])))
		space = NULL;
	if (w->fixed[b] && space && !same_dims(space, w->space[b]))
		space = NULL;
	if (space && w->fixed[b] && !w->fixed[a])
		space = w->space[b];
	if (space && (shortens(space, w->space[a]) || shortens(space, w->space[b])))
		space = NULL;
	if (!space && !shortens(w->space[a], w->space[b]) && follows(w, to, w->space[a]))
		space = w->space[a];
	if (!space && !shortens(w->space[b], w->space[a]) && follows(w, from, w->space[b]))
		space = w->space[b];
	if (!space)
		return 0;
	w->parent[b] = a;
	w->space[a] = space;
	w->fixed[a] |= w->fixed[b];
	w->many[a] = true;
	return 0;
}

/* Everything by itself; what is no elementwise operation, or is read by what wants its shape, stays as it is. */
static void begin(struct walks *w) {
	const struct planner *p = w->p;

	for (uint32_t i = 0; i < w->nodes; i++) {
		const struct node *n = &p->node[i];

		w->parent[i] = i;
		w->parent[w->nodes + i] = w->nodes + i;
		w->space[i] = n->kind == NODE_MAP ? n->space : n->type;
		w->space[w->nodes + i] = n->space;
		w->fixed[w->nodes + i] = true;
		w->kept[i] |= n->kind != NODE_MAP || op_gathers(n->op);
		if (node_is_computed(n) && (op_gathers(n->op) || (n->kind != NODE_MAP && n->kind != NODE_REDUCE)))
			for (unsigned k = 0; k < n->arity; k++)
				w->kept[planner_edge(p, n, k).base] = true;
	}
	for (uint32_t i = 0; i < w->nodes; i++)
		w->fixed[i] = w->kept[i];
}

/* What is read without a view, or through reshapes. */
static int unite_all(struct walks *w, bool direct) {
	const struct planner *p = w->p;
	int r = 0;

	for (uint32_t i = 0; i < w->nodes; i++) {
		const struct node *n = &p->node[i];

		if (n->kind != NODE_MAP && n->kind != NODE_REDUCE)
			continue;
		for (unsigned k = 0; !r && k < n->arity; k++)
			if (!op_gathers(n->op) && is_plain(p, n, k) && (!direct || planner_edge(p, n, k).direct))
				r = unite(w, p->node[n->in[k]].base, n->kind == NODE_MAP ? i : w->nodes + i);
	}
	return r;
}

int planner_walk(struct planner *p) {
	struct walks w = { .p = p, .nodes = p->nodes };
	size_t count = 2 * (size_t)p->nodes + 1;
	int r;

	if (!p->o->fuse)
		return 0;
	w.parent = arena_alloc(&p->arena, count * sizeof *w.parent);
	w.space = arena_alloc(&p->arena, count * sizeof *w.space);
	w.fixed = arena_alloc(&p->arena, count * sizeof *w.fixed);
	w.many = arena_alloc(&p->arena, count * sizeof *w.many);
	w.kept = arena_alloc(&p->arena, count * sizeof *w.kept);
	if (!w.parent || !w.space || !w.fixed || !w.many || !w.kept)
		return -ENOMEM;
	begin(&w);
	r = unite_all(&w, true);
	if (!r)
		r = unite_all(&w, false);
	for (uint32_t i = 0; !r && i < w.nodes; i++) {
		struct node *n = &p->node[i];
		const struct tensor_type *space = w.space[find(&w, i)];

		if (n->kind != NODE_MAP || w.kept[i] || space_equal(space, n->space))
			continue;
		n->over = n->space;
		n->space = space;
	}
	return r;
}
