/*
 * Merges that only measurements can decide, in the order of the time they save.
 *
 * group.c joins what reads each other: that always saves memory. What is left is a trade:
 *
 *   side by side   two elementwise groups of one shape and rank that read a common array: together they
 *                  read it once, in one launch. Where both would be one program anyway, exec runs them in
 *                  one launch already, and only the array counts.
 *   again          an elementwise value that other groups read from memory, and that a few operations
 *                  make: each of them computes it again instead, where that is cheaper than storing and loading
 *                  it. What only it needed then goes. A reader whose rules refuse it reads it from memory.
 *
 * Every candidate is in a queue, by the nanoseconds that the cost model says it saves. The best is looked
 * at again when it is taken, for its neighbours may have merged meanwhile: where it is no longer the best, it
 * goes back. A candidate that saves nothing is refused, with a note.
 *
 * Requires groups in which what can join has joined, with readers; leaves groups of the same kind. Candidates
 * are bounded by a few for each source of a group, so the pass is nearly linear.
 */
#include "planner.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	/* Groups further on in the list of an array's readers that one is compared with. */
	MERGE_NEAR = 4,
	/* Operations that may be computed again, and groups that may do so. */
	MERGE_AGAIN_OPS = 6,
	MERGE_AGAIN_READERS = 4,
};

/* A merge must save this share of the time of what it merges: estimates are no better. */
#define MERGE_LEAST 0.05

struct worth {
	double read, written, arithmetic, elements;
	uint64_t signature;            /* equal for groups that will be one program */
};

struct candidate {
	double saved;
	uint32_t a, b;                 /* groups; or a node and GROUP_NONE */
};

struct merging {
	struct planner *p;
	struct traits traits;          /* with figures, the device's or typical ones */
	uint32_t nodes, groups;        /* without those that this pass adds */
	struct worth *worth;           /* of each MAP group */
	uint32_t *user_start, *user;   /* MAP groups that read a node: user[start[i] .. start[i + 1]) */
	bool *kept;                    /* nodes that copies read: they stay where they are */
	struct candidate *heap;
	uint32_t count, capacity;
};

/* ---- the queue: a heap, the best first ---- */

static int heap_push(struct merging *m, struct candidate c) {
	uint32_t at = m->count, up;

	if (m->count == m->capacity) {
		uint32_t capacity = m->capacity ? m->capacity * 2 : 64;
		struct candidate *heap = realloc(m->heap, capacity * sizeof *heap);

		if (!heap)
			return -ENOMEM;
		m->heap = heap;
		m->capacity = capacity;
	}
	m->count++;
	for (; at && m->heap[up = (at - 1) / 2].saved < c.saved; at = up)
		m->heap[at] = m->heap[up];
	m->heap[at] = c;
	return 0;
}

static struct candidate heap_pop(struct merging *m) {
	struct candidate best = m->heap[0], last = m->heap[--m->count];
	uint32_t at = 0, down;

	while ((down = 2 * at + 1) < m->count) {
		down += down + 1 < m->count && m->heap[down + 1].saved > m->heap[down].saved;
		if (m->heap[down].saved <= last.saved)
			break;
		m->heap[at] = m->heap[down];
		at = down;
	}
	m->heap[at] = last;
	return best;
}

/* ---- what groups are worth ---- */

/* Bytes that reading a node moves: nothing for what is computed in place, once for what is repeated. */
static double node_bytes(const struct node *n) {
	double bytes = dtype_info(n->type->dtype)->bytes;

	if (n->kind == NODE_FILL || n->kind == NODE_IOTA)
		return 0;
	for (unsigned d = 0; d < n->type->rank; d++)
		if (n->view.stride[d])
			bytes *= (double)n->type->dims[d];
	return bytes;
}

static double elements_of(const struct tensor_type *t) {
	return (double)shape_elements(t);
}

static double op_ns(const struct merging *m, const struct node *n, double elements) {
	const struct planner *p = m->p;
	uint8_t from = n->arity ? p->node[n->in[n->arity - 1u]].type->dtype : n->type->dtype;

	return n->op == OP_copy ? 0 : cost_op(&m->traits, n->op, from, n->type->dtype, elements);
}

static bool group_is_map(const struct planner *p, uint32_t group) {
	return p->group[group].parent == group && p->group[group].kind == NODE_MAP && p->group[group].ops;
}

static bool reads(const struct planner *p, uint32_t reader, uint32_t node) {
	const struct node *n = &p->node[reader];

	for (unsigned k = 0; n->kind != NODE_DEAD && k < n->arity; k++)
		if (planner_edge(p, n, k).base == node)
			return true;
	return false;
}

/* Copies are read in their own group alone; readers that were given one read the original no more. */
static bool read_elsewhere(const struct merging *m, uint32_t node, uint32_t group) {
	struct planner *p = m->p;

	for (uint32_t i = 0; node < m->nodes && i < p->reader_start[node + 1] - p->reader_start[node]; i++) {
		uint32_t reader = p->reader[p->reader_start[node] + i];

		if (group_find(p, p->node[reader].group) != group && reads(p, reader, node))
			return true;
	}
	return node < m->nodes && m->kept[node];
}

static uint64_t mix(uint64_t hash, uint64_t value) {
	hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}

static void find_worth(struct merging *m, uint32_t group) {
	struct planner *p = m->p;
	const struct group *g = &p->group[group];
	struct worth *w = &m->worth[group];

	*w = (struct worth){ .elements = elements_of(g->space), .signature = mix(g->sources, g->outputs) };
	for (uint32_t i = 0; i < g->sources; i++)
		w->read += node_bytes(&p->node[g->source[i]]);
	for (uint32_t n = g->first; n != GRAPH_NONE; n = p->next[n]) {
		const struct node *node = &p->node[n];

		w->signature = mix(w->signature, (uint64_t)node->op << 8 | node->type->dtype);
		w->arithmetic += op_ns(m, node, w->elements);
		if (node->stored || read_elsewhere(m, n, group))
			w->written += elements_of(node->type) * dtype_info(node->type->dtype)->bytes;
	}
}

/* Among kernels that use so many bytes together: which cache they meet does not change with a merge. */
static double worth_ns(const struct merging *m, const struct worth *w, double footprint) {
	return cost_map(&m->traits, w->elements, w->read, w->written, footprint, w->arithmetic);
}

static double shared_bytes(const struct planner *p, const struct group *a, const struct group *b) {
	double bytes = 0;

	for (uint32_t i = 0; i < a->sources; i++)
		for (uint32_t k = 0; k < b->sources; k++)
			if (a->source[i] == b->source[k])
				bytes += node_bytes(&p->node[a->source[i]]);
	return bytes;
}

/* ---- side by side ---- */

static double saved_side_by_side(const struct merging *m, uint32_t a, uint32_t b) {
	const struct planner *p = m->p;
	const struct worth *x = &m->worth[a], *y = &m->worth[b];
	struct worth both = { .elements = x->elements, .arithmetic = x->arithmetic + y->arithmetic,
		.read = x->read + y->read - shared_bytes(p, &p->group[a], &p->group[b]),
		.written = x->written + y->written };
	double footprint = both.read + both.written;
	double apart = worth_ns(m, x, footprint) + worth_ns(m, y, footprint);

	if (x->signature == y->signature)
		apart -= rates_kernel_ns(&m->traits.rates);
	return apart - worth_ns(m, &both, footprint) - MERGE_LEAST * apart;
}

static bool may_stand_together(const struct planner *p, uint32_t a, uint32_t b) {
	const struct group *x = &p->group[a], *y = &p->group[b];

	return a != b && group_is_map(p, a) && group_is_map(p, b) && x->rank == y->rank &&
		space_equal(x->space, y->space) && (uint64_t)shape_elements(x->space) >= p->o->min_elements;
}

static int offer_pair(struct merging *m, uint32_t a, uint32_t b) {
	double saved;

	if (!may_stand_together(m->p, a, b))
		return 0;
	saved = saved_side_by_side(m, a, b);
	if (saved > 0)
		return heap_push(m, (struct candidate){ saved, a, b });
	return planner_note_beside(m->p, m->p->group[a].last, m->p->group[b].last,
		"side by side in one kernel they would not be faster");
}

/* A group with those that read the same arrays, as far as they are near in their lists. Views that this pass adds have one reader. */
static int offer_near(struct merging *m, uint32_t group) {
	int r = 0;

	for (uint32_t s = 0; !r && s < m->p->group[group].sources; s++) {
		uint32_t source = m->p->group[group].source[s], near = 0;
		uint32_t at = source < m->nodes ? m->user_start[source] : 0, end = source < m->nodes ? m->user_start[source + 1] : 0;

		while (at < end && m->user[at] <= group)
			at++;
		for (; !r && at < end && near < MERGE_NEAR; at++) {
			uint32_t other = group_find(m->p, m->user[at]);

			near += other != group;
			r = offer_pair(m, group, other);
		}
	}
	return r;
}

static int take_pair(struct merging *m, uint32_t a, uint32_t b) {
	struct planner *p = m->p;
	const char *reason = pattern_refuses(p, &p->group[b], &p->group[a], GRAPH_NONE);

	if (!reason && !group_merge(p, &p->group[a], &p->group[b]))
		reason = "side by side they would read or compute too much for one kernel";
	if (reason)
		return planner_note_beside(p, p->group[a].last, p->group[b].last, reason);
	find_worth(m, a);
	return offer_near(m, a);
}

/* ---- again ---- */

/* How a group reads a value: a member, and its operand; through a view, or as it is. */
struct seen {
	uint32_t reader, node;
	unsigned k;
	bool view;
};

/* A value and the operations that make it, inside its group; and the groups that read it from memory. */
struct again {
	uint32_t op[MERGE_AGAIN_OPS], source[GROUP_SOURCES], into[MERGE_AGAIN_READERS];
	struct seen seen[MERGE_AGAIN_READERS];
	uint32_t ops, sources, readers;
	bool alone;                    /* its group makes nothing else */
	bool spread;                   /* a reader reads it through a view */
};

static bool listed(const uint32_t *list, uint32_t count, uint32_t what) {
	for (uint32_t i = 0; i < count; i++)
		if (list[i] == what)
			return true;
	return false;
}

/* Operations in topological order, arguments first; false where they are too many, or one is to be a copy. */
static bool add_maker(struct planner *p, struct again *x, uint32_t node, uint32_t group) {
	const struct node *n = &p->node[node];

	if (listed(x->op, x->ops, node))
		return true;
	if (n->op == OP_copy)
		return false;
	for (unsigned i = 0; i < n->arity; i++) {
		struct edge e = planner_edge(p, n, i);

		if (group_inside(p, group, n, i)) {
			if (!add_maker(p, x, e.base, group))
				return false;
		} else if (!listed(x->source, x->sources, e.node)) {
			if (x->sources == GROUP_SOURCES)
				return false;
			x->source[x->sources++] = e.node;
		}
	}
	if (x->ops == MERGE_AGAIN_OPS)
		return false;
	x->op[x->ops++] = node;
	return true;
}

/* Do two operands see the same of a value, over one shape? */
static bool seen_alike(const struct planner *p, const struct seen *a, const struct seen *b) {
	const struct node *x = &p->node[a->node], *y = &p->node[b->node], *m = &p->node[a->reader], *n = &p->node[b->reader];

	if (a->view != b->view)
		return false;
	if (!a->view)
		return true;
	return space_equal(spread_shape(p, a->reader, a->k), spread_shape(p, b->reader, b->k)) && space_equal(m->space, n->space) &&
		space_equal(x->type, y->type) && !memcmp(x->view.stride, y->view.stride, x->type->rank * sizeof *x->view.stride);
}

/* One more operand of a group that reads the value: all of a group's see the same of it. */
static bool add_seen(const struct planner *p, struct again *x, uint32_t into, const struct seen *s) {
	if (s->view && !spread_leads(p, s->reader, s->k))
		return false;
	for (uint32_t i = 0; i < x->readers; i++)
		if (x->into[i] == into)
			return seen_alike(p, &x->seen[i], s);
	if (x->readers == MERGE_AGAIN_READERS)
		return false;
	x->spread |= s->view;
	x->seen[x->readers] = *s;
	x->into[x->readers++] = into;
	return true;
}

/* Each reader elsewhere must read it element by element: what strides of it no operation could follow, or a factor of a product, lies in memory. */
static bool add_readers(struct planner *p, struct again *x, uint32_t node, uint32_t group) {
	for (uint32_t i = p->reader_start[node]; i < p->reader_start[node + 1]; i++) {
		const struct node *n = &p->node[p->reader[i]];
		uint32_t other = group_find(p, n->group);

		if (other == group || !reads(p, p->reader[i], node))
			continue;
		if (node_is_product(n))
			return false;
		for (unsigned k = 0; k < n->arity; k++) {
			struct edge e = planner_edge(p, n, k);
			struct seen s = { p->reader[i], e.node, k, !e.direct };

			if (e.base == node && !add_seen(p, x, other, &s))
				return false;
		}
	}
	return x->readers > 0;
}

/* Operations that follow a view must be able to. */
static bool all_spread(const struct planner *p, const struct again *x) {
	for (uint32_t i = 0; i < x->ops; i++)
		if (!spread_takes(&p->node[x->op[i]]))
			return false;
	return true;
}

/* Does a kernel go once its readers compute the value? Its group makes nothing else, and of what makes it only the value is read elsewhere. */
static bool goes(const struct merging *m, uint32_t group, const struct again *x) {
	for (uint32_t i = 0; i + 1 < x->ops; i++)
		if (read_elsewhere(m, x->op[i], group))
			return false;
	return x->alone;
}

/* May it be computed again where it is read? If not, *reasonp is why, where that is worth telling; else NULL. */
static bool find_again(const struct merging *m, uint32_t node, struct again *x, const char **reasonp) {
	struct planner *p = m->p;
	uint32_t group = group_find(p, p->node[node].group);
	const struct group *g = &p->group[group];

	memset(x, 0, sizeof *x);
	*reasonp = NULL;
	if (g->kind != NODE_MAP || !read_elsewhere(m, node, group))
		return false;
	if (!add_readers(p, x, node, group)) {
		if (x->readers == MERGE_AGAIN_READERS)
			*reasonp = "more kernels read it than may compute it again";
		return false;
	}
	if (p->node[node].stored) {
		if (x->readers > 1)
			*reasonp = "it is a result, which is stored anyway";
		return false;
	}
	if (!add_maker(p, x, node, group)) {
		*reasonp = "it takes too many operations for each kernel that reads it to compute it again";
		return false;
	}
	if (p->node[node].kind != NODE_MAP || m->kept[node] || (uint64_t)shape_elements(g->space) < p->o->min_elements)
		return false;
	if (x->spread && !all_spread(p, x))
		return false;
	/* Through views only where a kernel goes for it. One reader and nothing else to do: sink has looked at that, but for views. */
	x->alone = g->ops == x->ops && !g->outputs;
	return x->spread ? goes(m, group, x) : !(x->alone && x->readers == 1);
}

/* Storing it, and each reader's loading it, against each reader's loading what it is made of and making it. */
static double saved_again(const struct merging *m, uint32_t node, const struct again *x) {
	const struct planner *p = m->p;
	const struct traits *t = &m->traits;
	double bytes = node_bytes(&p->node[node]);
	double saved = cost_bytes(t, bytes, bytes);

	for (uint32_t i = 0; i < x->readers; i++) {
		const struct group *into = &p->group[x->into[i]];
		const struct seen *seen = &x->seen[i];
		double times = seen->view ? spread_times(p, seen->reader, seen->k) : elements_of(p->node[node].type), more = 0, made = 0;

		for (uint32_t o = 0; o < x->ops; o++)
			made += op_ns(m, &p->node[x->op[o]], times);

		for (uint32_t s = 0; s < x->sources; s++)
			if (!listed(into->source, into->sources, x->source[s]))
				more += node_bytes(&p->node[x->source[s]]);
		saved += cost_bytes(t, bytes, bytes) - cost_bytes(t, more, bytes) - made;
	}
	if (x->alone) {
		for (uint32_t s = 0; s < x->sources; s++)
			saved += cost_bytes(t, node_bytes(&p->node[x->source[s]]), bytes);
		saved += rates_kernel_ns(&t->rates);
	}
	return saved - MERGE_LEAST * cost_bytes(t, bytes, bytes) * (1 + x->readers);
}

static int refuse_again(struct merging *m, uint32_t node, const struct again *x, const char *reason) {
	int r = 0;

	/* The last note is what people read: a setting that keeps them apart says more than what else does. */
	for (uint32_t i = 0; !r && reason && m->p->o->notes && i < x->readers; i++) {
		const struct group *into = &m->p->group[x->into[i]];
		const char *kept = pattern_refuses(m->p, into, NULL, node);

		r = planner_note(m->p, node, into->root, kept ? kept : reason);
	}
	return r;
}

/* Nanoseconds that are saved; where it may not be, or saves none, *reasonp is why. */
static double weigh_again(const struct merging *m, uint32_t node, struct again *x, const char **reasonp) {
	if (!find_again(m, node, x, reasonp))
		return 0;
	*reasonp = "storing it costs less than computing it again";
	return saved_again(m, node, x);
}

static int offer_again(struct merging *m, uint32_t node) {
	const char *reason;
	struct again x;
	double saved = weigh_again(m, node, &x, &reason);

	return saved > 0 ? heap_push(m, (struct candidate){ saved, node, GROUP_NONE }) : refuse_again(m, node, &x, reason);
}

/* Has operand k of a node, all of a value, be all of another one, which may be of another shape. */
static int reread_operand(struct planner *p, uint32_t node, unsigned k, uint32_t to) {
	const struct tensor_type *seen = p->node[p->node[node].in[k]].type;
	struct view v;
	int r = 0;

	if (!space_equal(seen, p->node[to].type)) {
		view_contiguous(seen, &v);
		r = planner_add_view(p, to, seen, &v, &to);
	}
	if (!r)
		p->node[node].in[k] = to;
	return r;
}

/* Has the members of a group read `to` where they read `from`. */
static int reread(struct planner *p, uint32_t group, uint32_t from, uint32_t to) {
	int r = 0;

	for (uint32_t n = p->group[group].first; !r && n != GRAPH_NONE; n = p->next[n])
		for (unsigned k = 0; !r && k < p->node[n].arity; k++)
			if (planner_edge(p, &p->node[n], k).base == from)
				r = reread_operand(p, n, k, to);
	return r;
}

/* ... through views that the copy itself stands for. */
static void reread_spread(struct planner *p, uint32_t group, uint32_t from, uint32_t to) {
	for (uint32_t n = p->group[group].first; n != GRAPH_NONE; n = p->next[n])
		for (unsigned k = 0; k < p->node[n].arity; k++)
			if (planner_edge(p, &p->node[n], k).base == from)
				p->node[n].in[k] = to;
}

/* What a group reads, after members have gone or read something else: never more than before. */
static void find_sources(struct planner *p, uint32_t group) {
	struct group *g = &p->group[group];

	g->sources = 0;
	for (uint32_t n = g->first; n != GRAPH_NONE; n = p->next[n])
		if (!group_add_sources(p, g, &p->node[n]))
			return;
}

/* A group of copies of what makes a value, the last of p->group, over the shape that this reader sees it in; *copyp is the value's. */
static int copy_makers(struct planner *p, const struct again *x, const struct seen *seen, uint32_t rank, uint32_t *copyp) {
	uint32_t copy[MERGE_AGAIN_OPS] = { 0 };
	int r = 0;

	for (uint32_t i = 0; !r && i < x->ops; i++) {
		r = planner_add_twin(p, x->op[i], &copy[i]);
		if (!r && seen->view)
			r = spread_twin(p, copy[i], seen->reader, seen->k);
		for (unsigned k = 0; !r && k < p->node[copy[i]].arity; k++)
			for (uint32_t j = 0; !r && j < i; j++)
				if (planner_edge(p, &p->node[copy[i]], k).base == x->op[j])
					r = reread_operand(p, copy[i], k, copy[j]);
		if (!r && !i)
			r = group_new(p, copy[i], rank);
		else if (!r)
			group_add(p, &p->group[p->groups - 1], copy[i]);
	}
	if (!r)
		find_sources(p, p->groups - 1);
	*copyp = copy[x->ops - 1];
	return r;
}

/* The members of a group read the value, through the view that they had, where they read the copy that it would not take. */
static int reread_back(struct planner *p, const struct seen *seen, uint32_t group, uint32_t copy, uint32_t value) {
	if (!seen->view)
		return reread(p, group, copy, value);
	for (uint32_t n = p->group[group].first; n != GRAPH_NONE; n = p->next[n])
		for (unsigned k = 0; k < p->node[n].arity; k++)
			if (p->node[n].in[k] == copy)
				p->node[n].in[k] = seen->node;
	return 0;
}

/* One reader computes the value for itself. NULL, or why not. */
static int take_into(struct merging *m, const struct again *x, uint32_t reader, uint32_t rank, const char **reasonp) {
	struct planner *p = m->p;
	const struct seen *seen = &x->seen[reader];
	uint32_t value = x->op[x->ops - 1], into = x->into[reader], copy, group = p->groups;
	int r = copy_makers(p, x, seen, rank, &copy);

	if (!r && seen->view)
		reread_spread(p, into, value, copy);
	else if (!r)
		r = reread(p, into, value, copy);
	if (r)
		return r;
	*reasonp = group_sink(p, group, into);
	if (!*reasonp) {
		find_sources(p, into);
		if (group_is_map(p, into))
			find_worth(m, into);
		return 0;
	}
	r = reread_back(p, seen, into, copy, value);
	/* Who read a view that is all of the value reads the value itself now. */
	find_sources(p, into);
	for (uint32_t n = p->group[group].first; n != GRAPH_NONE; n = p->next[n])
		p->node[n].kind = NODE_DEAD;
	p->group[group].ops = 0;
	return r;
}

static bool is_read(const struct merging *m, uint32_t node, uint32_t group) {
	const struct planner *p = m->p;

	if (p->node[node].stored || read_elsewhere(m, node, group))
		return true;
	for (uint32_t n = p->group[group].first; n != GRAPH_NONE; n = p->next[n])
		if (reads(p, n, node))
			return true;
	return false;
}

static void remove_member(struct planner *p, struct group *g, uint32_t node) {
	uint32_t before = GRAPH_NONE, n = g->first;

	for (; n != node; n = p->next[n])
		before = n;
	if (before == GRAPH_NONE)
		g->first = p->next[node];
	else
		p->next[before] = p->next[node];
	if (g->last == node)
		g->last = before;
	g->root = g->first;
	g->ops--;
	p->node[node].kind = NODE_DEAD;
}

/* Readers have copies: what nobody reads any more goes, and the group with its last member. */
static void prune(struct merging *m, const struct again *x, uint32_t group) {
	struct planner *p = m->p;

	for (uint32_t i = x->ops; i-- > 0;)
		if (!is_read(m, x->op[i], group))
			remove_member(p, &p->group[group], x->op[i]);
	find_sources(p, group);
	if (group_is_map(p, group))
		find_worth(m, group);
}

static void keep_sources(struct merging *m, const struct again *x) {
	for (uint32_t s = 0; s < x->sources; s++)
		m->kept[m->p->node[x->source[s]].base] = true;
}

static int take_again(struct merging *m, uint32_t node) {
	struct planner *p = m->p;
	uint32_t group = group_find(p, p->node[node].group);
	const char *reason;
	struct again x;
	int r = 0;

	if (!find_again(m, node, &x, &reason))
		return 0;
	keep_sources(m, &x);
	for (uint32_t i = 0; !r && i < x.readers; i++) {
		reason = NULL;
		r = take_into(m, &x, i, p->group[group].rank, &reason);
		if (!r && reason && *reason)
			r = planner_note(p, node, p->group[x.into[i]].root, reason);
	}
	if (!r)
		prune(m, &x, group);
	return r;
}

/* ---- the pass ---- */

/* Which MAP groups read each node, in order of their numbers. */
static int find_users(struct merging *m) {
	struct planner *p = m->p;
	uint32_t total = 0, *count;

	m->nodes = p->nodes;
	m->groups = p->groups;
	for (uint32_t i = 0; i < p->groups; i++)
		total += p->group[i].sources;
	m->kept = arena_alloc(&p->arena, p->nodes + 1);
	m->user_start = arena_alloc(&p->arena, (p->nodes + 2) * sizeof *m->user_start);
	m->user = arena_alloc(&p->arena, (total + 1) * sizeof *m->user);
	m->worth = arena_alloc(&p->arena, (p->groups + 1) * sizeof *m->worth);
	if (!m->kept || !m->user_start || !m->user || !m->worth)
		return -ENOMEM;
	count = m->user_start + 2;
	for (uint32_t i = 0; i < p->groups; i++)
		for (uint32_t s = 0; group_is_map(p, i) && s < p->group[i].sources; s++)
			count[p->group[i].source[s]]++;
	for (uint32_t i = 1; i < p->nodes; i++)
		count[i] += count[i - 1];
	for (uint32_t i = 0; i < p->groups; i++)
		for (uint32_t s = 0; group_is_map(p, i) && s < p->group[i].sources; s++)
			m->user[m->user_start[p->group[i].source[s] + 1]++] = i;
	return 0;
}

static int offer_all(struct merging *m) {
	struct planner *p = m->p;
	bool pairs = !(p->o->patterns_off & pattern_bit(PATTERN_horizontal));
	int r = 0;

	for (uint32_t i = 0; i < m->groups; i++)
		if (group_is_map(p, i))
			find_worth(m, i);
	for (uint32_t i = 0; !r && pairs && i < m->groups; i++)
		if (group_is_map(p, i))
			r = offer_near(m, i);
	for (uint32_t i = 0; !r && i < m->nodes; i++)
		if (p->node[i].kind == NODE_MAP && p->reader_start[i] < p->reader_start[i + 1])
			r = offer_again(m, i);
	return r;
}

/* The candidate as things stand now; 0 where it is none any more, and *x and *reasonp are what refuse_again() wants. */
static double look_again(struct merging *m, struct candidate *c, struct again *x, const char **reasonp) {
	if (c->b == GROUP_NONE)
		return weigh_again(m, c->a, x, reasonp);
	c->a = group_find(m->p, c->a);
	c->b = group_find(m->p, c->b);
	return may_stand_together(m->p, c->a, c->b) ? saved_side_by_side(m, c->a, c->b) : 0;
}

static int take_all(struct merging *m) {
	int r = 0;

	while (!r && m->count) {
		struct candidate c = heap_pop(m);
		const char *reason = NULL;
		struct again x;
		double saved = look_again(m, &c, &x, &reason);

		if (saved <= 0) {
			r = c.b == GROUP_NONE ? refuse_again(m, c.a, &x, reason) : 0;
		} else if (m->count && saved < m->heap[0].saved) {
			c.saved = saved;
			r = heap_push(m, c);
		} else {
			r = c.b == GROUP_NONE ? take_again(m, c.a) : take_pair(m, c.a, c.b);
		}
	}
	return r;
}

int planner_merge(struct planner *p) {
	struct merging m = { .p = p, .traits = *p->o->traits };
	int r;

	if (!p->o->fuse)
		return 0;
	if (!(m.traits.rates.launch_ns > 0))
		m.traits.rates = *rates_typical(m.traits.strategy);
	r = find_users(&m);
	if (!r)
		r = offer_all(&m);
	if (!r)
		r = take_all(&m);
	free(m.heap);
	return r;
}
