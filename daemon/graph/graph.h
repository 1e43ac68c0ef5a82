/*
 * The operations of one flush, checked: nodes in one arena, in topological order.
 *
 * serve builds a graph from what clients sent; nothing of it is believed: every node passes
 * op_infer() here. Equal operations on equal operands become one node (common subexpressions).
 * Leaves are arrays that exist already, seen through a view; a leaf's buffer is opaque here.
 * View operations stay nodes; plan turns them into index maps.
 *
 * Structure (operations, shapes, wiring, views of leaves, which nodes are outputs) is kept apart
 * from what varies between calls: the buffers and offsets of leaves and the values of scalars.
 * graph_hash() covers exactly the structure, so that a plan is found again by it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "protocol/op.h"
#include "daemon/base/str.h"

#define GRAPH_NONE UINT32_MAX

struct graph_node {
	uint16_t op;                       /* OP_load for leaves */
	uint8_t arity;
	bool output;
	bool part;                         /* of what a composite, or a product, is made of */
	uint32_t in[LIMIT_OPERANDS];
	uint32_t index;                    /* leaf number; scalar number of fill; first of two of arange */
	uint32_t note;                     /* the caller's, e.g. its position in a batch */
	const struct op_attr *attr;        /* NULL for operations without attributes */
	struct tensor_type type;
};

struct graph_leaf {
	void *buffer;                      /* the caller's; compared by address only */
	struct view view;                  /* offset is not part of the structure */
	uint32_t node;
	uint32_t base;                     /* the leaf that it is a view of; GRAPH_NONE: it is an array of its own */
};

struct graph_output {
	uint32_t node;
	uint64_t tag;                      /* the caller's */
};

struct graph;

/* 0 or -ENOMEM. */
int graph_new(struct graph **graphp) FAULT_MUST_USE;
struct graph *graph_free(struct graph *g);       /* returns NULL */
/* Empties it for the next flush; memory is kept. A kept one loses its outputs alone. */
void graph_reset(struct graph *g);

/* An existing array. The same buffer, type and view give the same node. 0 or -ENOMEM. */
int graph_leaf(struct graph *g, void *buffer, const struct tensor_type *t, const struct view *v,
	uint32_t *nodep) FAULT_MUST_USE;
/*
 * An operation on nodes of this graph; load is refused (it is a leaf). 0, -ENOMEM, or the code of
 * the fault op_infer() left. attr may be NULL where the operation has none.
 */
int graph_op(struct graph *g, unsigned op, unsigned arity, const uint32_t *in, const struct op_attr *attr,
	uint32_t note, uint32_t *nodep, struct fault *f) FAULT_MUST_USE;
/* Makes a node an output. A node may be an output several times. 0 or -ENOMEM. */
int graph_output(struct graph *g, uint32_t node, uint64_t tag) FAULT_MUST_USE;

uint32_t graph_nodes(const struct graph *g);
const struct graph_node *graph_node(const struct graph *g, uint32_t node);
uint32_t graph_leaves(const struct graph *g);
const struct graph_leaf *graph_leaf_at(const struct graph *g, uint32_t leaf);
uint32_t graph_outputs(const struct graph *g);
const struct graph_output *graph_output_at(const struct graph *g, uint32_t output);
uint32_t graph_scalars(const struct graph *g);
const uint64_t *graph_scalar_values(const struct graph *g);
/* Bytes of all nodes' results: what unfused execution would write. */
uint64_t graph_bytes(const struct graph *g);
/* Operations received, before common ones were shared. */
uint32_t graph_received(const struct graph *g);
/* Does it hold an operation that need not keep its bits? */
bool graph_inexact(const struct graph *g);

/*
 * A copy of what was added so far, without outputs, to be bound to other arrays and numbers of the same structure. It takes
 * outputs, and no more operations. NULL where memory is short, or the graph is none that can be kept: it has more than
 * GRAPH_KEPT leaves or numbers, or arrays of it overlap in such a way that others would make another graph of it.
 */
enum { GRAPH_KEPT = 1024 };
struct graph *graph_keep(const struct graph *g);
void graph_bind_leaf(struct graph *kept, uint32_t leaf, void *buffer, int64_t offset);
void graph_bind_scalar(struct graph *kept, uint32_t scalar, uint64_t value);
/*
 * After all leaves that are arrays of their own, and all numbers that came from outside: would the same operations on these have
 * made the same graph? Where two arrays or numbers are equal that were not, they would not.
 */
bool graph_bound(struct graph *kept);
/* It has no outputs again. */
void graph_outputs_clear(struct graph *kept);
/* Memory that it takes. */
uint64_t graph_kept_bytes(const struct graph *kept);

/* 128 bits over the structure, including which nodes are outputs. */
struct graph_hash {
	uint64_t low, high;
};
struct graph_hash graph_hash(const struct graph *g);
/*
 * Hashes depend on a number that no client can know: one of this process, or, set before the first
 * graph, that of an earlier one, so that what it kept by hash is found again.
 */
uint64_t graph_seed(void);
void graph_set_seed(uint64_t seed);

/* As a text graph, fusion-graph(5), with other values: operations until the text is longer than `most`, then the outputs. */
void graph_put_text(struct str *t, const struct graph *g, size_t most);
