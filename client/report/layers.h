/* What layers.c and order.c share of a layout that is being made, and lists by a key, which scene.c has, too. */
#pragma once

#include "report.h"

#define LAYERS_NONE (~0U)

/* An item, by its number, or behind them a bend of a line. */
struct layers_vertex {
	unsigned rank;
	double width;
	double x;                         /* of its middle; order.c finds it */
	bool bend;
};

/* Between neighbouring ranks; where it leaves and enters, from the middle of the vertex. */
struct layers_segment {
	unsigned above, below;
	double above_at, below_at;
};

struct layers_line {
	unsigned bends, first;
	bool made;
};

struct layers_work {
	struct layers *l;
	bool *source;                     /* of each item: no line comes to it */
	bool *turned;                     /* of each edge: to make a circle one line goes up */
	bool straight;                    /* too many bends: lines over several ranks have none */
	struct layers_vertex *vertex;
	struct layers_segment *segment;
	struct layers_line *line;
	unsigned vertices, segments, ranks;
};

/* Numbers by their key: those of key k, in order, from item[start[k]] to before item[start[k + 1]]. */
struct layers_list {
	unsigned *start, *item;
};

/* Of the numbers below `items`; keys are below `keys`. 0 or -ENOMEM; layers_list_free() also on failure. */
int layers_list(struct layers_list *l, unsigned keys, unsigned items, unsigned (*key)(const void *of, unsigned item), const void *of);
void layers_list_free(struct layers_list *l);

/* Finds x of each vertex. 0 or -ENOMEM. */
int layers_order(struct layers_work *w);
