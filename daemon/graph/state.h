/* What a graph is, for the files of this folder; see graph.h. */
#pragma once

#include "graph.h"

#include "daemon/base/arena.h"

struct graph {
	struct arena attrs;
	struct graph_node *node;
	uint64_t *structure;               /* one structural hash a node */
	uint64_t *identity;                /* one identity hash a node */
	uint32_t nodes, node_capacity;
	uint32_t *bucket;                  /* node + 1 by identity hash; 0: empty; open addressing */
	uint32_t buckets;                  /* a power of two, at least twice node_capacity */
	struct graph_leaf *leaf;
	uint32_t leaves, leaf_capacity;
	struct graph_output *output;
	uint32_t outputs, output_capacity;
	uint64_t *scalar;
	uint32_t scalars, scalar_capacity;
	uint32_t received;
	bool inexact;
	bool crossed;                      /* a view of one leaf is another one, or a number is of two origins: graph_keep() */
	bool expands;                      /* what is added is part of an operation that came */
	uint64_t bytes;
	uint64_t seed;
	struct graph_memo *memo;
	/* Of a kept one: its attributes, how far leaves lie from what they are views of, and nodes that bring numbers. */
	struct op_attr *attr;
	int64_t *shift;
	uint32_t *valued;
	uint32_t valueds;
	uint32_t *place;                   /* leaf or valued node + 1 by hash, while these are compared; open addressing */
	uint32_t places;                   /* a power of two, at least twice as many */
};

/* The hash of the whole, which is asked for by everybody who keeps something by it, until the graph changes. */
struct graph_memo {
	bool known;
	struct graph_hash hash;
};

/* Operations that bring numbers, and how many. */
static inline uint32_t scalars_of(unsigned op) {
	return op == OP_fill ? 1 : op == OP_arange ? 2 : 0;
}
