/*
 * Places for the items of a graph, in layers (Sugiyama's way); see report.h.
 *
 * Circles are cut, each item gets a rank below those that lines come from, and a line over several ranks passes one bend in each. Within
 * a rank vertices - items and bends - are put in the order of the mean of their neighbours' places, up and down some times, and the order with the
 * fewest crossings stays. Last each rank gets the places nearest to what its neighbours want that leave room between (order.c).
 */
#include "layers.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	/* Bends beyond which lines go straight from end to end: nobody follows so many, and they take the time. */
	BENDS_MOST = 60000,
	BEND_WIDTH = 6,
};

/* ---- lists ---- */

int layers_list(struct layers_list *l, unsigned keys, unsigned items, unsigned (*key)(const void *of, unsigned item), const void *of) {
	l->start = calloc(keys + 2u, sizeof *l->start);
	l->item = calloc(items + 1u, sizeof *l->item);
	if (!l->start || !l->item)
		return -ENOMEM;
	for (unsigned i = 0; i < items; i++)
		l->start[key(of, i) + 1]++;
	for (unsigned k = 0; k < keys; k++)
		l->start[k + 1] += l->start[k];
	/* Filled from behind: what is counted down ends where the list begins. */
	for (unsigned i = items; i-- > 0;)
		l->item[--l->start[key(of, i) + 1]] = i;
	memmove(l->start, l->start + 1, keys * sizeof *l->start);
	l->start[keys] = items;
	return 0;
}

void layers_list_free(struct layers_list *l) {
	free(l->start);
	free(l->item);
	*l = (struct layers_list){ 0 };
}

/* ---- circles ---- */

enum { UNSEEN, UNDER_WAY, DONE };

struct walk {
	struct layers_list leaving;       /* of each item, the edges that leave it */
	unsigned *done, *stack;           /* of each item: how many of them were followed */
	unsigned char *state;
};

static unsigned from_of(const void *of, unsigned e) {
	const struct layers *l = of;

	return l->edge[e].from;
}

/* What leads to an item that is under way closes a circle: it is turned. */
static void walk_from(struct layers_work *work, struct walk *w, unsigned item) {
	const struct layers *l = work->l;
	unsigned depth = 0;

	w->stack[depth++] = item;
	w->state[item] = UNDER_WAY;
	while (depth) {
		unsigned at = w->stack[depth - 1], next = w->leaving.start[at] + w->done[at], e, to;

		if (next == w->leaving.start[at + 1]) {
			w->state[at] = DONE;
			depth--;
			continue;
		}
		w->done[at]++;
		e = w->leaving.item[next];
		to = l->edge[e].to;
		work->turned[e] = w->state[to] == UNDER_WAY;
		if (w->state[to] != UNSEEN)
			continue;
		w->state[to] = UNDER_WAY;
		w->stack[depth++] = to;
	}
}

static int cut_circles(struct layers_work *work) {
	const struct layers *l = work->l;
	struct walk w = { .done = calloc(l->items + 1u, sizeof *w.done), .stack = calloc(l->items + 1u, sizeof *w.stack), .state = calloc(l->items + 1u, 1) };
	int r = w.done && w.stack && w.state ? layers_list(&w.leaving, l->items, l->edges, from_of, l) : -ENOMEM;

	for (unsigned i = 0; !r && i < l->items; i++)
		if (w.state[i] == UNSEEN)
			walk_from(work, &w, i);
	layers_list_free(&w.leaving);
	free(w.done);
	free(w.stack);
	free(w.state);
	return r;
}

/* ---- ranks ---- */

static unsigned upper(const struct layers_work *w, unsigned e) {
	return w->turned[e] ? w->l->edge[e].to : w->l->edge[e].from;
}

static unsigned lower(const struct layers_work *w, unsigned e) {
	return w->turned[e] ? w->l->edge[e].from : w->l->edge[e].to;
}

static unsigned upper_of(const void *of, unsigned e) {
	return upper(of, e);
}

/* The longest way to each item: items in an order in which each comes behind all that lines to it come from. */
static int rank_items(struct layers_work *w) {
	const struct layers *l = w->l;
	unsigned *waits = calloc(l->items + 1u, sizeof *waits), *queue = calloc(l->items + 1u, sizeof *queue), count = 0;
	struct layers_list leaving = { 0 };
	int r = waits && queue ? layers_list(&leaving, l->items, l->edges, upper_of, w) : -ENOMEM;

	for (unsigned e = 0; !r && e < l->edges; e++)
		waits[lower(w, e)]++;
	for (unsigned i = 0; !r && i < l->items; i++)
		if (!waits[i])
			queue[count++] = i;
	for (unsigned i = 0; !r && i < count; i++)
		for (unsigned k = leaving.start[queue[i]]; k < leaving.start[queue[i] + 1]; k++) {
			unsigned below = lower(w, leaving.item[k]), rank = w->vertex[queue[i]].rank + 1;

			if (w->vertex[below].rank < rank)
				w->vertex[below].rank = rank;
			if (!--waits[below])
				queue[count++] = below;
		}
	free(waits);
	free(queue);
	layers_list_free(&leaving);
	return r;
}

/* What no line comes to stands right above the first that reads it, but for what is to stand at the top. */
static int lower_sources(struct layers_work *w) {
	const struct layers *l = w->l;
	unsigned *first = malloc((l->items + 1u) * sizeof *first);

	if (!first)
		return -ENOMEM;
	for (unsigned i = 0; i < l->items; i++)
		first[i] = LAYERS_NONE;
	for (unsigned e = 0; e < l->edges; e++) {
		unsigned rank = w->vertex[lower(w, e)].rank;

		if (rank < first[upper(w, e)])
			first[upper(w, e)] = rank;
	}
	for (unsigned i = 0; i < l->items; i++)
		if (!w->vertex[i].rank && !l->item[i].first && first[i] != LAYERS_NONE && first[i])
			w->vertex[i].rank = first[i] - 1;
	free(first);
	for (unsigned i = 0; i < l->items; i++)
		if (w->vertex[i].rank + 1 > w->ranks)
			w->ranks = w->vertex[i].rank + 1;
	for (unsigned i = 0; i < l->items; i++)
		if (l->item[i].last)
			w->vertex[i].rank = w->ranks - 1;
	return 0;
}

/* ---- bends ---- */

/* Edges of one line share its bends; one that was turned has its own. */
static unsigned line_of(const struct layers_work *w, unsigned e) {
	return w->turned[e] ? w->l->lines + e : w->l->edge[e].line;
}

static unsigned span(const struct layers_work *w, unsigned e) {
	return w->vertex[lower(w, e)].rank - w->vertex[upper(w, e)].rank;
}

/* Of those that an edge passes. */
static unsigned bends_of(const struct layers_work *w, unsigned e) {
	return w->straight ? 0 : span(w, e) - 1;
}

/* Where it leaves its upper item and enters its lower one, from the middle of each. */
static double leaves_at(const struct layers_work *w, unsigned e) {
	return w->turned[e] ? w->l->edge[e].to_at : w->l->edge[e].from_at;
}

static double enters_at(const struct layers_work *w, unsigned e) {
	return w->turned[e] ? w->l->edge[e].from_at : w->l->edge[e].to_at;
}

/* How many bends each line has; their number. */
static unsigned measure_lines(struct layers_work *w) {
	double bends = 0;

	for (unsigned e = 0; e < w->l->edges; e++) {
		unsigned *length = &w->line[line_of(w, e)].bends, needed = span(w, e) - 1;

		if (needed > *length) {
			bends += needed - *length;
			*length = needed;
		}
	}
	return bends > BENDS_MOST ? LAYERS_NONE : (unsigned)bends;
}

static void add_segment(struct layers_work *w, unsigned above, unsigned below, double above_at, double below_at) {
	w->segment[w->segments++] = (struct layers_segment){ above, below, above_at, below_at };
}

static unsigned new_bend(struct layers_work *w, unsigned rank) {
	w->vertex[w->vertices] = (struct layers_vertex){ .rank = rank, .width = BEND_WIDTH, .bend = true };
	return w->vertices++;
}

/* The bends of an edge's line are made with the first edge of the line that is met. */
static void bend_line(struct layers_work *w, unsigned e) {
	struct layers_line *line = &w->line[line_of(w, e)];
	unsigned above = upper(w, e);

	if (line->made)
		return;
	line->made = true;
	line->first = w->vertices;
	for (unsigned i = 0; i < line->bends; i++) {
		unsigned bend = new_bend(w, w->vertex[upper(w, e)].rank + 1 + i);

		add_segment(w, above, bend, i ? 0 : leaves_at(w, e), 0);
		above = bend;
	}
}

static void bend_edge(struct layers_work *w, unsigned e) {
	unsigned bends = bends_of(w, e);

	if (w->straight && span(w, e) > 1)
		return;
	bend_line(w, e);
	if (bends)
		add_segment(w, w->line[line_of(w, e)].first + bends - 1, lower(w, e), 0, enters_at(w, e));
	else
		add_segment(w, upper(w, e), lower(w, e), leaves_at(w, e), enters_at(w, e));
}

static int make_bends(struct layers_work *w) {
	const struct layers *l = w->l;
	struct layers_vertex *vertex;
	unsigned bends;

	w->line = calloc((size_t)l->lines + l->edges + 1, sizeof *w->line);
	if (!w->line)
		return -ENOMEM;
	bends = measure_lines(w);
	w->straight = bends == LAYERS_NONE;
	if (w->straight)
		bends = 0;
	for (unsigned i = 0; w->straight && i < l->lines + l->edges; i++)
		w->line[i].bends = 0;
	vertex = realloc(w->vertex, ((size_t)l->items + bends + 1) * sizeof *vertex);
	w->segment = calloc((size_t)l->edges + bends + 1, sizeof *w->segment);
	if (vertex)
		w->vertex = vertex;
	if (!vertex || !w->segment)
		return -ENOMEM;
	for (unsigned e = 0; e < l->edges; e++)
		bend_edge(w, e);
	return 0;
}

/* ---- heights and columns ---- */

struct band {
	double y, height;
	unsigned column;
};

struct column {
	double left, right, shift;
};

static void measure_bands(const struct layers_work *w, struct band *band) {
	for (unsigned i = 0; i < w->l->items; i++)
		if (w->l->item[i].height > band[w->vertex[i].rank].height)
			band[w->vertex[i].rank].height = w->l->item[i].height;
}

static unsigned stack_bands(struct layers_work *w, struct band *band) {
	struct layers *l = w->l;
	unsigned column = 0;
	double y = 0;

	for (unsigned r = 0; r < w->ranks; r++) {
		if (l->tall > 0 && y > 0 && y + band[r].height > l->tall) {
			column++;
			y = 0;
		}
		band[r].y = y;
		band[r].column = column;
		y += band[r].height;
		l->height = fmax(l->height, y);
		y += l->down;
	}
	return column + 1;
}

static void place_columns(struct layers_work *w, const struct band *band, struct column *column, unsigned columns) {
	double x = 0;

	for (unsigned i = 0; i < columns; i++)
		column[i] = (struct column){ .left = INFINITY, .right = -INFINITY };
	for (unsigned i = 0; i < w->vertices; i++) {
		struct column *c = &column[band[w->vertex[i].rank].column];

		c->left = fmin(c->left, w->vertex[i].x - w->vertex[i].width / 2);
		c->right = fmax(c->right, w->vertex[i].x + w->vertex[i].width / 2);
	}
	for (unsigned i = 0; i < columns; i++) {
		column[i].shift = x - column[i].left;
		x += column[i].right - column[i].left + 2 * w->l->across;
	}
	w->l->width = fmax(x - 2 * w->l->across, 0);
	for (unsigned i = 0; i < w->vertices; i++)
		w->vertex[i].x += column[band[w->vertex[i].rank].column].shift;
}

/* ---- routes ---- */

struct route {
	struct layers_point *point;
	unsigned points;
};

static void put_point(struct route *r, double x, double y) {
	r->point[r->points++] = (struct layers_point){ x, y };
}

/* From one band to the next, which may be at the top of the next column: between the columns, then. */
static void go_on(struct route *r, const struct layers_work *w, const struct band *from, const struct band *to, const struct column *column, double x) {
	const struct layers_point *last = &r->point[r->points - 1];
	const struct column *c = &column[from->column];
	double between = c->right + c->shift + w->l->across, half = w->l->down / 2;

	if (from->column == to->column)
		return;
	put_point(r, last->x, from->y + from->height + half);
	put_point(r, between, from->y + from->height + half);
	put_point(r, between, to->y - half);
	put_point(r, x, to->y - half);
}

static void turn_round(struct route *r) {
	for (unsigned i = 0; i < r->points / 2; i++) {
		struct layers_point p = r->point[i];

		r->point[i] = r->point[r->points - 1 - i];
		r->point[r->points - 1 - i] = p;
	}
}

enum {
	/* Of an end, and of a bend: its own, and those about a column's end. */
	POINTS_ENDS = 7,
	POINTS_BEND = 6,
};

static int route_edge(struct layers_work *w, unsigned e, const struct band *band, const struct column *column) {
	struct layers_edge *edge = &w->l->edge[e];
	const struct layers_item *above = &w->l->item[upper(w, e)];
	unsigned bends = bends_of(w, e), rank = w->vertex[upper(w, e)].rank;
	double start = w->vertex[upper(w, e)].x + leaves_at(w, e), end = w->vertex[lower(w, e)].x + enters_at(w, e);
	struct route r = { .point = calloc((size_t)bends * POINTS_BEND + POINTS_ENDS, sizeof *r.point) };

	if (!r.point)
		return -ENOMEM;
	put_point(&r, start, above->y + above->height);
	put_point(&r, start, band[rank].y + band[rank].height);
	for (unsigned i = 0; i < bends; i++, rank++) {
		double x = w->vertex[w->line[line_of(w, e)].first + i].x;

		go_on(&r, w, &band[rank], &band[rank + 1], column, x);
		put_point(&r, x, band[rank + 1].y);
		put_point(&r, x, band[rank + 1].y + band[rank + 1].height);
	}
	go_on(&r, w, &band[rank], &band[w->vertex[lower(w, e)].rank], column, end);
	put_point(&r, end, w->l->item[lower(w, e)].y);
	if (w->turned[e])
		turn_round(&r);
	edge->point = r.point;
	edge->points = r.points;
	return 0;
}

static int give_places(struct layers_work *w) {
	struct layers *l = w->l;
	struct band *band = calloc(w->ranks + 1u, sizeof *band);
	struct column *column = calloc(w->ranks + 1u, sizeof *column);
	int r = band && column ? 0 : -ENOMEM;

	if (!r) {
		measure_bands(w, band);
		place_columns(w, band, column, stack_bands(w, band));
	}
	for (unsigned i = 0; !r && i < l->items; i++) {
		const struct band *b = &band[w->vertex[i].rank];

		/* What no line comes to is near what reads it. */
		l->item[i].x = w->vertex[i].x - l->item[i].width / 2;
		l->item[i].y = b->y + (w->source[i] ? b->height - l->item[i].height : 0);
	}
	for (unsigned e = 0; !r && e < l->edges; e++)
		r = route_edge(w, e, band, column);
	free(band);
	free(column);
	return r;
}

/* ---- all of it ---- */

static int begin(struct layers_work *w) {
	const struct layers *l = w->l;

	w->source = calloc(l->items + 1u, sizeof *w->source);
	w->turned = calloc(l->edges + 1u, sizeof *w->turned);
	w->vertex = calloc(l->items + 1u, sizeof *w->vertex);
	if (!w->source || !w->turned || !w->vertex)
		return -ENOMEM;
	for (unsigned i = 0; i < l->items; i++) {
		w->vertex[i].width = l->item[i].width;
		w->source[i] = true;
	}
	for (unsigned e = 0; e < l->edges; e++)
		w->source[l->edge[e].to] = false;
	w->vertices = l->items;
	return 0;
}

int layers_place(struct layers *l) {
	struct layers_work w = { .l = l };
	int r = begin(&w);

	l->width = l->height = 0;
	if (!r)
		r = cut_circles(&w);
	if (!r)
		r = rank_items(&w);
	if (!r)
		r = lower_sources(&w);
	if (!r)
		r = make_bends(&w);
	if (!r)
		r = layers_order(&w);
	if (!r)
		r = give_places(&w);
	free(w.source);
	free(w.turned);
	free(w.vertex);
	free(w.line);
	free(w.segment);
	return r;
}
