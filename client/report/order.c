/* Order within ranks, and places; see layers.c. */
#include "layers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	/* Times that all ranks are ordered from above and from below; of places. More changed no picture that was looked at. */
	ORDER_SWEEPS = 6,
	PLACE_SWEEPS = 6,
	/* What a bend's wish counts against an item's: lines are to be straight. */
	BEND_WEIGHT = 4,
	/* Places along the edge of a vertex that are told apart when crossings are counted. */
	SLOTS = 8,
};

struct order {
	struct layers_work *w;
	struct layers_list up, down;      /* the segments of each vertex: those that come from above, and those that go on */
	struct layers_list rank;          /* the vertices of each, from left to right */
	unsigned *place, *best;           /* of each vertex in its rank; the vertices of the ranks with the fewest crossings */
	unsigned *tree;                   /* counts of those seen, by place (Fenwick) */
	struct wish {
		double key;
		unsigned place, vertex;
	} *wish;
	struct block {
		double sum, weight;
		unsigned count;
	} *block;
	double *apart;
};

/* ---- lists ---- */

static unsigned below_of(const void *of, unsigned s) {
	const struct layers_work *w = of;

	return w->segment[s].below;
}

static unsigned above_of(const void *of, unsigned s) {
	const struct layers_work *w = of;

	return w->segment[s].above;
}

static unsigned rank_of(const void *of, unsigned vertex) {
	const struct layers_work *w = of;

	return w->vertex[vertex].rank;
}

static int begin(struct order *o, struct layers_work *w) {
	unsigned room = w->vertices + 1u;

	*o = (struct order){ .w = w, .place = calloc(room, sizeof *o->place), .best = calloc(room, sizeof *o->best),
		.tree = calloc((size_t)room * SLOTS + 1, sizeof *o->tree), .wish = calloc((size_t)room + w->segments, sizeof *o->wish), .block = calloc(room, sizeof *o->block), .apart = calloc(room, sizeof *o->apart) };
	if (!o->place || !o->best || !o->tree || !o->wish || !o->block || !o->apart)
		return -ENOMEM;
	if (layers_list(&o->up, w->vertices, w->segments, below_of, w) || layers_list(&o->down, w->vertices, w->segments, above_of, w))
		return -ENOMEM;
	/* As the vertices are numbered: operations come in the order in which somebody wrote them. */
	return layers_list(&o->rank, w->ranks, w->vertices, rank_of, w);
}

static void end(struct order *o) {
	layers_list_free(&o->up);
	layers_list_free(&o->down);
	layers_list_free(&o->rank);
	free(o->place);
	free(o->best);
	free(o->tree);
	free(o->wish);
	free(o->block);
	free(o->apart);
}

static void note_places(struct order *o) {
	for (unsigned r = 0; r < o->w->ranks; r++)
		for (unsigned i = o->rank.start[r]; i < o->rank.start[r + 1]; i++)
			o->place[o->rank.item[i]] = i - o->rank.start[r];
}

/* ---- crossings ---- */

/* How far along the edge of a vertex a line ends: from -1/2 to 1/2. */
static double along(const struct order *o, unsigned vertex, double at) {
	return at / (o->w->vertex[vertex].width + 1);
}

/* Those of one key by their places. */
static int by_key(const void *a, const void *b) {
	const struct wish *x = a, *y = b;

	if (x->key < y->key || x->key > y->key)
		return x->key < y->key ? -1 : 1;
	return (x->place > y->place) - (x->place < y->place);
}

/* Those seen at places behind `place`; then it is seen. */
static double cross(unsigned *tree, unsigned places, unsigned place, unsigned seen) {
	double before = 0;

	for (unsigned i = place + 1; i; i -= i & -i)
		before += tree[i];
	for (unsigned i = place + 1; i <= places; i += i & -i)
		tree[i]++;
	return seen - before;
}

static double crossings_below(const struct order *o, unsigned rank) {
	unsigned places = (o->rank.start[rank + 2] - o->rank.start[rank + 1]) * SLOTS, seen = 0;
	double crossings = 0;

	memset(o->tree, 0, (places + 1u) * sizeof *o->tree);
	for (unsigned i = o->rank.start[rank]; i < o->rank.start[rank + 1]; i++) {
		unsigned first = o->down.start[o->rank.item[i]], count = o->down.start[o->rank.item[i] + 1] - first;

		for (unsigned k = 0; k < count; k++) {
			const struct layers_segment *s = &o->w->segment[o->down.item[first + k]];
			unsigned slot = (unsigned)((along(o, s->below, s->below_at) + 0.5) * (SLOTS - 1) + 0.5);

			o->wish[k] = (struct wish){ s->above_at, o->place[s->below] * SLOTS + slot, s->below };
		}
		qsort(o->wish, count, sizeof *o->wish, by_key);
		for (unsigned k = 0; k < count; k++)
			crossings += cross(o->tree, places, o->wish[k].place, seen + k);
		seen += count;
	}
	return crossings;
}

static double all_crossings(const struct order *o) {
	double crossings = 0;

	for (unsigned r = 0; r + 1 < o->w->ranks; r++)
		crossings += crossings_below(o, r);
	return crossings;
}

/* ---- order ---- */

/* The mean of its neighbours' places; without any it stays where it is. */
static double mean_place(const struct order *o, const struct layers_list *e, unsigned vertex, bool up) {
	unsigned first = e->start[vertex], last = e->start[vertex + 1];
	double sum = 0;

	for (unsigned i = first; i < last; i++) {
		const struct layers_segment *s = &o->w->segment[e->item[i]];

		sum += up ? o->place[s->above] + along(o, s->above, s->above_at) : o->place[s->below] + along(o, s->below, s->below_at);
	}
	return last > first ? sum / (last - first) : o->place[vertex];
}

static void order_rank(struct order *o, unsigned rank, bool up) {
	unsigned first = o->rank.start[rank], count = o->rank.start[rank + 1] - first;

	for (unsigned i = 0; i < count; i++) {
		unsigned vertex = o->rank.item[first + i];

		o->wish[i] = (struct wish){ mean_place(o, up ? &o->up : &o->down, vertex, up), i, vertex };
	}
	qsort(o->wish, count, sizeof *o->wish, by_key);
	for (unsigned i = 0; i < count; i++) {
		o->rank.item[first + i] = o->wish[i].vertex;
		o->place[o->wish[i].vertex] = i;
	}
}

static void order_all(struct order *o) {
	size_t bytes = o->w->vertices * sizeof *o->rank.item;
	double fewest;

	note_places(o);
	fewest = all_crossings(o);
	memcpy(o->best, o->rank.item, bytes);
	for (unsigned i = 0; i < ORDER_SWEEPS && fewest > 0; i++) {
		double crossings;

		for (unsigned r = 1; r < o->w->ranks; r++)
			order_rank(o, r, true);
		for (unsigned r = o->w->ranks - 1; r-- > 0;)
			order_rank(o, r, false);
		crossings = all_crossings(o);
		if (crossings < fewest) {
			fewest = crossings;
			memcpy(o->best, o->rank.item, bytes);
		}
	}
	memcpy(o->rank.item, o->best, bytes);
	note_places(o);
}

/* ---- places ---- */

/* Where its neighbours would have it. */
static double wanted(const struct order *o, unsigned vertex, bool up, double *weightp) {
	const struct layers_list *e = up ? &o->up : &o->down;
	const struct layers_vertex *v = &o->w->vertex[vertex];
	unsigned first = e->start[vertex], last = e->start[vertex + 1];
	double sum = 0;

	for (unsigned i = first; i < last; i++) {
		const struct layers_segment *s = &o->w->segment[e->item[i]];

		sum += up ? o->w->vertex[s->above].x + s->above_at - s->below_at : o->w->vertex[s->below].x + s->below_at - s->above_at;
	}
	*weightp = v->bend ? BEND_WEIGHT : 1;
	if (last > first)
		return sum / (last - first);
	/* Nobody asks: it gives way. */
	*weightp /= BEND_WEIGHT * BEND_WEIGHT;
	return v->x;
}

/*
 * The places nearest to those wanted (least squares) with room between: neighbours that want to be nearer than they may form blocks, each at the
 * mean of what its members want ("pool adjacent violators").
 */
static void place_rank(struct order *o, unsigned rank, bool up) {
	unsigned first = o->rank.start[rank], last = o->rank.start[rank + 1], blocks = 0;
	double apart = 0;

	for (unsigned i = first; i < last; i++) {
		const struct layers_vertex *v = &o->w->vertex[o->rank.item[i]];
		double weight, want = wanted(o, o->rank.item[i], up, &weight);
		struct block *b = &o->block[blocks++];

		if (i > first)
			apart += o->w->vertex[o->rank.item[i - 1]].width / 2 + v->width / 2 + o->w->l->across;
		o->apart[i - first] = apart;
		*b = (struct block){ (want - apart) * weight, weight, 1 };
		for (; blocks > 1 && b[-1].sum / b[-1].weight > b->sum / b->weight; b--, blocks--) {
			b[-1].sum += b->sum;
			b[-1].weight += b->weight;
			b[-1].count += b->count;
		}
	}
	for (unsigned k = 0, i = first; k < blocks; k++)
		for (unsigned n = 0; n < o->block[k].count; n++, i++)
			o->w->vertex[o->rank.item[i]].x = o->block[k].sum / o->block[k].weight + o->apart[i - first];
}

static void place_all(struct order *o) {
	unsigned ranks = o->w->ranks;

	place_rank(o, 0, true);
	for (unsigned i = 0; i < PLACE_SWEEPS; i++) {
		for (unsigned r = 1; r < ranks; r++)
			place_rank(o, r, true);
		for (unsigned r = ranks - 1; r-- > 0;)
			place_rank(o, r, false);
	}
	for (unsigned r = 1; r < ranks; r++)
		place_rank(o, r, true);
}

int layers_order(struct layers_work *w) {
	struct order o;
	int r = begin(&o, w);

	if (!r && w->ranks) {
		order_all(&o);
		place_all(&o);
	}
	end(&o);
	return r;
}
