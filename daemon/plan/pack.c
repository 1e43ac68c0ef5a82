/*
 * How the factors of a product lie in memory when it is computed.
 *
 * CPU strategy: a tile reads a few rows of the first factor, an element at a time, and whole vectors of the
 * second. Where the second is large and read often it is copied into panels first (kernel.h), so that what
 * a tile reads is one run of memory; and where its rows do not lie side by side, or its type is not the accumulator's,
 * that copy is also where it is transposed and converted. The first factor is copied only for those two reasons.
 * Such a copy is an elementwise kernel like any other: what computes the factor is fused into it, once an element.
 *
 * GPU strategy: factors are copied into local memory tile by tile, however they lie.
 *
 * Nothing here changes a bit of a result.
 */
#include "planner.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	/* Rows of the result that read a row of the second factor, from which on a copy of it pays. */
	PACK_ROWS = 48,
	/* ... which stays in the second level of cache, and reaches the first as fast, up to about this size. */
	PACK_BYTES = 512 << 10,
	/*
	 * Columns of the result that read a column of the first factor, from which on a copy of it pays. One that lies side by
	 * side down its rows needs none: a tile reads a line of it, and a kernel puts lines that are in each other's way side by side.
	 */
	PACK_COLUMNS = 65,
	/*
	 * Between a panel's transformed elements, a line of memory: what is stored to each of them at the same time would else share
	 * the sets of a cache where channels are a power of two.
	 */
	PACK_APART = 16,
};

struct factor {
	const struct node *node;
	const struct tensor_type *result;
	uint8_t accumulator;
	int64_t rows, columns;             /* of the factor */
	uint64_t readers;                  /* rows (first factor: columns) of results that read each of its elements */
	int64_t step, down;                /* between columns, between rows */
	bool nowhere;                      /* not in memory */
};

uint8_t planner_accumulator(const struct tensor_type *result) {
	const struct dtype_info *info = dtype_info(result->dtype);

	return info->kind == DTYPE_KIND_REAL ? info->reg : result->dtype;
}

/* Is it the same matrix all along a dim? A copy of one then serves all. */
static bool repeats(const struct node *factor, unsigned d) {
	return factor->kind == NODE_FILL || (factor->kind != NODE_IOTA && factor->view.stride[d] == 0);
}

static struct factor factor_of(const struct planner *p, uint32_t product, unsigned i) {
	const struct node *n = &p->node[product], *in = &p->node[n->in[i]];
	unsigned last = in->type->rank - 1u, rank = n->type->rank;
	struct factor f = { .node = in, .result = n->type, .accumulator = planner_accumulator(n->type) };
	uint64_t own = 1, all = 1;

	f.rows = in->type->dims[last - 1];
	f.columns = in->type->dims[last];
	f.nowhere = in->kind == NODE_FILL || in->kind == NODE_IOTA;
	f.step = f.nowhere ? 0 : in->view.stride[last];
	f.down = f.nowhere ? 0 : in->view.stride[last - 1];
	for (unsigned d = 0; d + 1 < last; d++)
		own *= repeats(in, d) ? 1 : (uint64_t)in->type->dims[d];
	for (unsigned d = 0; d + 2 < rank; d++)
		all *= (uint64_t)n->type->dims[d];
	f.readers = (uint64_t)n->type->dims[rank - 1u - i] * (own ? all / own : 1);
	return f;
}

static uint64_t factor_bytes(const struct factor *f) {
	return (uint64_t)f->rows * (uint64_t)f->columns * dtype_info(f->node->type->dtype)->bytes;
}

static bool second_needs_panels(const struct factor *f) {
	if (f->nowhere || (f->step != 1 && f->columns > 1))
		return true;
	return f->readers >= PACK_ROWS && (f->node->type->dtype != f->accumulator || factor_bytes(f) > PACK_BYTES);
}

static bool first_needs_copy(const struct factor *f) {
	if (f->nowhere)
		return true;
	return f->readers >= PACK_COLUMNS && f->rows > 1 &&
		(f->node->type->dtype != f->accumulator || (f->step != 1 && f->columns > 1 && f->down != 1));
}

/* Few columns: both factors are read as they lie. */
static bool turns(const struct planner *p, uint32_t product) {
	const struct node *a = &p->node[p->node[product].in[0]];
	const struct tensor_type *t = p->node[product].type;
	unsigned last = a->type->rank - 1u;
	bool nowhere = a->kind == NODE_FILL || a->kind == NODE_IOTA;

	return tile_turns(p->o->traits->width, t->dims[t->rank - 2u], t->dims[t->rank - 1u],
		nowhere ? 0 : a->view.stride[last - 1], nowhere ? 1 : a->view.stride[last]);
}

/* A copy in the accumulator's type, of each different matrix one: they lie along the dims before `batch`. */
static int add_copy(struct planner *p, uint32_t of, unsigned batch, uint8_t dtype, uint32_t *copyp) {
	struct tensor_type *t = arena_alloc(&p->arena, sizeof *t);
	int r = t ? planner_add_copy(p, of, copyp) : -ENOMEM;
	struct node *copy;

	if (r)
		return r;
	*t = *p->node[of].type;
	for (unsigned d = 0; d < batch; d++)
		t->dims[d] = repeats(&p->node[of], d) ? 1 : t->dims[d];
	copy = &p->node[*copyp];
	copy->op = t->dtype == dtype ? OP_copy : OP_cast;
	t->dtype = dtype;
	copy->type = copy->space = t;
	view_contiguous(t, &copy->view);
	return 0;
}

int planner_add_factor(struct planner *p, uint32_t product, unsigned i, uint32_t *copyp) {
	struct factor f = factor_of(p, product, i);
	bool groups = p->o->traits->strategy == STRATEGY_GPU;
	uint8_t width = p->o->traits->width, columns = (uint8_t)(tile_vectors(width, f.accumulator, f.columns) * width);
	uint32_t of = p->node[product].in[i];
	unsigned batch = f.node->type->rank - 2u;
	int r;

	if (!groups && turns(p, product)) {
		*copyp = GRAPH_NONE;
		return f.nowhere ? add_copy(p, of, batch, p->node[of].type->dtype, copyp) : 0;
	}
	*copyp = f.node->panels;
	if (i && *copyp != GRAPH_NONE && p->node[*copyp].columns == columns && p->node[*copyp].type->dtype == f.accumulator)
		return 0;
	*copyp = GRAPH_NONE;
	if (groups ? !f.nowhere : !(i ? second_needs_panels(&f) : first_needs_copy(&f)))
		return 0;
	r = add_copy(p, of, batch, groups ? p->node[of].type->dtype : f.accumulator, copyp);
	if (r || !i || groups)
		return r;
	p->node[*copyp].columns = columns;
	p->node[*copyp].row_dims = 1;
	p->node[of].panels = *copyp;
	return 0;
}

/* ---- convolutions ---- */

/* Are vectors of a result's channels full enough? Else they lie along its lines (emit/conv.c). */
static bool channels_fill(const struct traits *t, int64_t each) {
	int64_t lanes = (each + t->width - 1) / t->width * t->width;

	return t->strategy == STRATEGY_CPU && t->width > 1 && each >= t->width && each * 4 >= lanes * 3;
}

/* Weights as [group][channel][row][column][channel of the result]; where they are to be transformed, the first element of each filter. */
static void filters_view(const struct node *w, int64_t groups, bool first, struct tensor_type *t, struct view *v) {
	unsigned last = w->type->rank - 1u;
	bool rows = last > 2;
	int64_t each = w->type->dims[0] / groups;

	if (first) {
		*t = (struct tensor_type){ .dtype = w->type->dtype, .rank = 3, .dims = { groups, w->type->dims[1], each } };
		*v = (struct view){ .offset = w->view.offset, .stride = { each * w->view.stride[0], w->view.stride[1], w->view.stride[0] } };
		return;
	}
	*t = (struct tensor_type){ .dtype = w->type->dtype, .rank = 5,
		.dims = { groups, w->type->dims[1], rows ? w->type->dims[2] : 1, w->type->dims[last], each } };
	*v = (struct view){ .offset = w->view.offset, .stride = { each * w->view.stride[0], w->view.stride[1],
		rows ? w->view.stride[2] : 0, w->view.stride[last], w->view.stride[0] } };
}

int planner_add_filters(struct planner *p, uint32_t conv, uint32_t *copyp) {
	const struct node *n = &p->node[conv], *w = &p->node[n->in[CONV_WEIGHT]];
	int64_t groups = n->attr->whole ? n->attr->whole : 1, each = w->type->dims[0] / groups;
	uint8_t accumulator = dtype_info(n->type->dtype)->reg, width = p->o->traits->width;
	uint8_t minimal;
	struct tensor_type *t;
	struct view v;
	uint32_t seen;
	int r;

	*copyp = GRAPH_NONE;
	if (w->kind == NODE_FILL || w->kind == NODE_IOTA || !channels_fill(p->o->traits, each))
		return 0;
	t = arena_alloc(&p->arena, sizeof *t);
	if (!t)
		return -ENOMEM;
	minimal = minimal_side(p, n);
	filters_view(w, groups, minimal, t, &v);
	r = planner_add_view(p, n->in[CONV_WEIGHT], t, &v, &seen);
	if (!r)
		r = add_copy(p, seen, 1, accumulator, copyp);
	if (r)
		return r;
	p->node[*copyp].columns = (uint8_t)(tile_vectors(width, accumulator, each) * width);
	p->node[*copyp].row_dims = minimal ? 1 : 3;
	p->node[*copyp].minimal = minimal;
	return 0;
}

/* ---- lowering ---- */

static int64_t panels_of(const struct node *n) {
	return (n->type->dims[n->type->rank - 1u] + n->columns - 1) / n->columns;
}

/* Transformed elements of a filter. */
static int64_t panel_copies(const struct node *n) {
	int64_t points = n->minimal + 2;

	return points * points;
}

int64_t panels_inner(const struct node *n) {
	unsigned rank = n->type->rank;
	int64_t elements = n->columns;

	for (unsigned d = rank - 1u - n->row_dims; d + 1u < rank; d++)
		elements *= n->type->dims[d];
	return elements + PACK_APART;
}

uint64_t panels_bytes(const struct node *n) {
	uint64_t elements = (uint64_t)panels_of(n) * n->columns;

	if (n->minimal)
		return (uint64_t)(n->type->dims[0] * panels_of(n) * panel_copies(n) * panels_inner(n)) * dtype_info(n->type->dtype)->bytes;
	for (unsigned d = 0; d + 1u < n->type->rank; d++)
		elements *= (uint64_t)n->type->dims[d];
	return elements * dtype_info(n->type->dtype)->bytes;
}

void panels_strides(const struct node *n, int64_t *stride) {
	const int64_t *dims = n->type->dims;
	unsigned rank = n->type->rank, batch = rank - 1u - n->row_dims;
	int64_t step = n->columns;

	stride[rank] = 1;
	for (unsigned d = rank - 1u; d-- > batch; step *= dims[d])
		stride[d + 1] = step;
	if (n->minimal)
		step = panel_copies(n) * panels_inner(n);
	stride[batch] = step;
	step *= panels_of(n);
	for (unsigned d = batch; d-- > 0; step *= dims[d])
		stride[d] = dims[d] == 1 ? 0 : step;
}

void panels_frame(struct frame *f, const struct tensor_type *space, unsigned row_dims) {
	frame_plain(f, space);
	for (unsigned d = space->rank - 1u - row_dims; d < space->rank; d++)
		f->dim[d]++;
}

void panels_dims(struct draft *d, const struct group *g) {
	const int64_t *dims = g->space->dims;
	unsigned rank = g->space->rank, panel = rank - 1u - g->row_dims;

	memmove(&d->dims[panel + 1u], &dims[panel], g->row_dims * sizeof *dims);
	d->dims[panel] = dims[rank - 1u];
	d->dims[rank] = g->columns;
	d->kernel.rank = (uint8_t)(rank + 1u);
}

static void swap(int64_t *a, int64_t *b) {
	int64_t t = *a;

	*a = *b;
	*b = t;
}

/* Rows first where what is read has rows side by side, else panels: then its lines are in the cache for the next row. */
static void order_dims(struct draft *d, unsigned panel) {
	bool rows = false;

	for (unsigned o = 0; panel + 3u == d->kernel.rank && o < d->kernel.operands; o++)
		rows |= !d->kernel.operand[o].output && !d->kernel.operand[o].iota && d->operand[o].stride[panel + 2u] == 1;
	if (!rows)
		return;
	swap(&d->dims[panel], &d->dims[panel + 1u]);
	for (unsigned o = 0; o < d->kernel.operands; o++)
		swap(&d->operand[o].stride[panel], &d->operand[o].stride[panel + 1u]);
}

/* The dim of panels, and those of them that a step takes on, of so many columns each. */
struct piece {
	unsigned panel;
	int64_t first, panels, lanes;
};

/* Operands that were laid out over the lanes alone step evenly. */
static int add_panels(struct planner *p, const struct draft *whole, const struct piece *piece, const uint32_t *op,
	uint32_t ops) {
	struct draft *d = malloc(sizeof *d);
	unsigned lane = whole->kernel.rank - 1u, panel = piece->panel;
	int r;

	if (!d)
		return -ENOMEM;
	*d = *whole;
	for (unsigned o = 0; o < d->kernel.operands; o++) {
		int64_t *stride = d->operand[o].stride;

		stride[panel] = stride[panel] ? stride[panel] : stride[lane] * d->dims[lane];
		d->operand[o].offset += stride[panel] * piece->first;
	}
	d->dims[panel] = piece->panels;
	d->dims[lane] = piece->lanes;
	order_dims(d, panel);
	draft_collapse(d);
	draft_finish(d, p->o->traits);
	r = plan_add_step(p->plan, d, op, ops);
	free(d);
	return r;
}

int planner_add_panels(struct planner *p, const struct draft *d, unsigned row_dims, const uint32_t *op, uint32_t ops) {
	unsigned lane = d->kernel.rank - 1u, panel = lane - 1u - row_dims;
	int64_t columns = d->dims[lane], panels = d->dims[panel] / columns, rest = d->dims[panel] % columns;
	struct piece whole = { panel, 0, panels, columns }, last = { panel, panels, 1, rest };
	int r = 0;

	if (panels)
		r = add_panels(p, d, &whole, op, rest ? 0 : ops);
	if (!r && rest)
		r = add_panels(p, d, &last, op, ops);
	return r;
}
