/*
 * The graph of one flush; see graph.h.
 *
 * Two hashes are kept a node. The structural one covers what a plan depends on; the identity one
 * adds what tells equal operations apart (scalar values, the buffers of leaves) and drives the
 * sharing of common subexpressions. Both are seeded from the kernel's random source once a graph,
 * so that a client cannot make nodes collide.
 */
#include "graph.h"

#include "expand.h"
#include "state.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { GRAPH_FIRST = 64 };

/* What the structure of an operation is besides its operands' numbers; hashed as bytes. */
struct graph_key {
	uint16_t op;
	uint8_t dtype, rank, arity, keepdims;
	uint16_t axes;
	uint32_t in[LIMIT_OPERANDS];
	uint32_t axis, flag;               /* no padding: the key is hashed as bytes */
	int64_t dims[LIMIT_RANK];
	int64_t stride[LIMIT_RANK];        /* leaves: strides; slice: steps */
	int64_t start[LIMIT_RANK];
	int64_t window[3];
	double number;
	uint8_t perm[LIMIT_RANK];
};

static uint64_t hash_seed;

uint64_t graph_seed(void) {
	while (!hash_seed)
		if (getrandom(&hash_seed, sizeof hash_seed, 0) != sizeof hash_seed)
			hash_seed = 0x9e3779b97f4a7c15;
	return hash_seed;
}

void graph_set_seed(uint64_t seed) {
	hash_seed = seed;
}

int graph_new(struct graph **graphp) {
	struct graph *g = calloc(1, sizeof *g);

	if (g)
		g->memo = calloc(1, sizeof *g->memo);
	if (!g || !g->memo) {
		free(g);
		return -ENOMEM;
	}
	g->seed = graph_seed();
	*graphp = g;
	return 0;
}

struct graph *graph_free(struct graph *g) {
	if (!g)
		return NULL;
	arena_free(&g->attrs);
	free(g->node);
	free(g->structure);
	free(g->identity);
	free(g->bucket);
	free(g->leaf);
	free(g->output);
	free(g->scalar);
	free(g->attr);
	free(g->shift);
	free(g->valued);
	free(g->place);
	free(g->memo);
	free(g);
	return NULL;
}

/* A table that was large once is not cleared whole for the few nodes that came after. */
static void buckets_clear(struct graph *g) {
	uint32_t mask = g->buckets - 1;

	if (g->nodes > g->buckets / 16) {
		memset(g->bucket, 0, g->buckets * sizeof *g->bucket);
		return;
	}
	for (uint32_t n = 0; n < g->nodes; n++) {
		uint32_t i = (uint32_t)g->identity[n] & mask;

		while (g->bucket[i] != n + 1)
			i = (i + 1) & mask;
		g->bucket[i] = 0;
	}
}

void graph_reset(struct graph *g) {
	if (g->valued) {
		graph_outputs_clear(g);
		return;
	}
	arena_reset(&g->attrs);
	buckets_clear(g);
	g->nodes = g->leaves = g->outputs = g->scalars = g->received = 0;
	g->bytes = 0;
	g->inexact = g->crossed = false;
	g->memo->known = false;
}

/* Makes room for one more element of size bytes in *arrayp; capacities double. */
static int reserve(void **arrayp, uint32_t used, uint32_t *capacityp, size_t size) {
	uint32_t capacity = *capacityp ? *capacityp * 2 : GRAPH_FIRST;
	void *array;

	if (used < *capacityp)
		return 0;
	array = realloc(*arrayp, capacity * size);
	if (!array)
		return -ENOMEM;
	*arrayp = array;
	*capacityp = capacity;
	return 0;
}

static void bucket_put(struct graph *g, uint32_t node) {
	uint32_t mask = g->buckets - 1, i = (uint32_t)g->identity[node] & mask;

	while (g->bucket[i])
		i = (i + 1) & mask;
	g->bucket[i] = node + 1;
}

static int buckets_grow(struct graph *g, uint32_t buckets) {
	uint32_t *bucket = calloc(buckets, sizeof *bucket);

	if (!bucket)
		return -ENOMEM;
	free(g->bucket);
	g->bucket = bucket;
	g->buckets = buckets;
	for (uint32_t i = 0; i < g->nodes; i++)
		bucket_put(g, i);
	return 0;
}

static int nodes_reserve(struct graph *g) {
	uint32_t capacity = g->node_capacity, structures = capacity, identities = capacity;
	int r;

	if (g->nodes < capacity)
		return 0;
	r = reserve((void **)&g->structure, g->nodes, &structures, sizeof *g->structure);
	if (!r)
		r = reserve((void **)&g->identity, g->nodes, &identities, sizeof *g->identity);
	if (!r)
		r = buckets_grow(g, capacity ? capacity * 4 : GRAPH_FIRST * 2);
	if (!r)
		r = reserve((void **)&g->node, g->nodes, &g->node_capacity, sizeof *g->node);
	return r;
}

/* The node with this identity that `same` accepts, or GRAPH_NONE. */
static uint32_t bucket_find(const struct graph *g, uint64_t identity, const struct graph_node *n) {
	uint32_t mask = g->buckets - 1;

	if (!g->buckets)
		return GRAPH_NONE;
	for (uint32_t i = (uint32_t)identity & mask; g->bucket[i]; i = (i + 1) & mask) {
		uint32_t candidate = g->bucket[i] - 1;
		const struct graph_node *c = &g->node[candidate];

		if (g->identity[candidate] == identity && c->op == n->op && c->arity == n->arity &&
			!memcmp(c->in, n->in, sizeof c->in) && shape_equal(&c->type, &n->type))
			return candidate;
	}
	return GRAPH_NONE;
}

/* Adds a node, or finds the one that is equal. *freshp tells which. */
static int node_add(struct graph *g, const struct graph_node *n, uint64_t structure, uint64_t identity,
	uint32_t *nodep, bool *freshp) {
	uint32_t found = bucket_find(g, identity, n);
	int r;

	*freshp = found == GRAPH_NONE;
	*nodep = found;
	if (!*freshp)
		return 0;
	r = nodes_reserve(g);
	if (r)
		return r;
	g->memo->known = false;
	g->node[g->nodes] = *n;
	g->structure[g->nodes] = structure;
	g->identity[g->nodes] = identity;
	bucket_put(g, g->nodes);
	*nodep = g->nodes++;
	return 0;
}

/* Takes the node that was added last back, where something that it needs was not kept: it must not be found. Returns r. */
static int node_undo(struct graph *g, int r) {
	uint32_t mask = g->buckets - 1, i;

	if (!r)
		return 0;
	i = (uint32_t)g->identity[--g->nodes] & mask;
	while (g->bucket[i] != g->nodes + 1)
		i = (i + 1) & mask;
	g->bucket[i] = 0;
	return r;
}

static uint64_t key_hash(const struct graph *g, const struct graph_key *k) {
	return XXH3_64bits_withSeed(k, sizeof *k, g->seed);
}

/*
 * The key of an operation that says nothing beyond its shape is hashed up to there: hashing costs most of what adding one
 * does. By what the key holds: a part of a composite brings attributes, all of them zero, where a client's has none.
 */
static uint64_t op_hash(const struct graph *g, const struct graph_key *k) {
	static const struct graph_key nothing;
	const size_t shape = offsetof(struct graph_key, stride);

	if (memcmp((const char *)k + shape, (const char *)&nothing + shape, sizeof *k - shape) == 0)
		return XXH3_64bits_withSeed(k, shape, g->seed);
	return key_hash(g, k);
}

static uint64_t with_identity(const struct graph *g, uint64_t structure, const void *bytes, size_t size) {
	return XXH3_64bits_withSeed(bytes, size, structure ^ g->seed);
}


/* base: the leaf that it is a view of, GRAPH_NONE for an array of its own. */
static int leaf_add(struct graph *g, void *buffer, const struct tensor_type *t, const struct view *v, uint32_t base,
	uint32_t *nodep) {
	struct graph_node n = { .op = OP_load, .type = *t, .index = g->leaves };
	struct graph_key k = { .op = OP_load, .dtype = t->dtype, .rank = t->rank };
	struct {
		void *buffer;
		int64_t offset;
	} who = { buffer, v->offset };
	uint64_t structure;
	bool fresh;
	int r;

	memcpy(k.dims, t->dims, t->rank * sizeof *k.dims);
	memcpy(k.stride, v->stride, t->rank * sizeof *k.stride);
	structure = key_hash(g, &k);
	r = node_add(g, &n, structure, with_identity(g, structure, &who, sizeof who), nodep, &fresh);
	if (r)
		return r;
	if (!fresh) {
		n.index = g->node[*nodep].index;
		g->crossed |= n.index != base && g->leaf[n.index].base != base;
		return 0;
	}
	r = reserve((void **)&g->leaf, g->leaves, &g->leaf_capacity, sizeof *g->leaf);
	if (r)
		return node_undo(g, r);
	g->leaf[g->leaves++] = (struct graph_leaf){ .buffer = buffer, .view = *v, .node = *nodep, .base = base };
	return 0;
}

int graph_leaf(struct graph *g, void *buffer, const struct tensor_type *t, const struct view *v,
	uint32_t *nodep) {
	return leaf_add(g, buffer, t, v, GRAPH_NONE, nodep);
}

static int scalars_add(struct graph *g, const uint64_t *value, uint32_t count) {
	for (uint32_t i = 0; i < count; i++) {
		int r = reserve((void **)&g->scalar, g->scalars, &g->scalar_capacity, sizeof *g->scalar);

		if (r)
			return r;
		g->scalar[g->scalars++] = value[i];
	}
	return 0;
}

static struct graph_key key_of(const struct graph_node *n, const struct op_attr *attr) {
	struct graph_key k = { .op = n->op, .dtype = n->type.dtype, .rank = n->type.rank, .arity = n->arity };

	memcpy(k.in, n->in, sizeof k.in);
	memcpy(k.dims, n->type.dims, n->type.rank * sizeof *k.dims);
	if (!attr)
		return k;
	k.keepdims = attr->keepdims;
	k.axes = attr->axes;
	k.axis = attr->axis;
	k.flag = attr->flag;
	k.window[0] = attr->window.size;
	k.window[1] = attr->window.step;
	k.window[2] = attr->window.dilation;
	k.number = attr->number;
	k.flag = attr->flag;
	memcpy(k.perm, attr->perm, sizeof k.perm);
	if (n->op == OP_conv) {
		k.axis = (uint32_t)attr->whole;
		memcpy(k.start, attr->start, attr->rank * sizeof *k.start);
		memcpy(k.stride, attr->step, attr->rank * sizeof *k.stride);
		memcpy(k.window, attr->dims, attr->rank * sizeof *k.window);
	}
	if (n->op == OP_pad)
		memcpy(k.start, attr->start, n->type.rank * sizeof *k.start);
	if (n->op == OP_slice) {
		memcpy(k.start, attr->start, n->type.rank * sizeof *k.start);
		memcpy(k.stride, attr->step, n->type.rank * sizeof *k.stride);
	}
	return k;
}

static int attr_keep(struct graph *g, const struct op_attr *attr, const struct op_attr **keptp) {
	struct op_attr *kept = arena_alloc(&g->attrs, sizeof *kept);

	if (!kept)
		return -ENOMEM;
	*kept = *attr;
	*keptp = kept;
	return 0;
}

static int op_check(const struct graph *g, unsigned op, unsigned arity, const uint32_t *in,
	const struct op_attr *attr, struct tensor_type *typep, struct fault *f) {
	const struct tensor_type *type[LIMIT_OPERANDS];

	if (op == OP_load)
		return fault_set(f, FAULT_OPERATION, "load is not an operation on nodes");
	if (arity > LIMIT_OPERANDS)
		return fault_set(f, FAULT_ARITY, "an operation has at most %d operands; got %u", LIMIT_OPERANDS, arity);
	for (unsigned i = 0; i < arity; i++) {
		if (in[i] >= g->nodes)
			return fault_set(f, FAULT_PROTOCOL, "operand %u names node %u of %u", i, in[i], g->nodes);
		type[i] = &g->node[in[i]].type;
	}
	return op_infer(op, arity, type, attr, typep, f);
}

/*
 * A view of an array in memory is that array seen otherwise: a leaf of its own, whose offset is no
 * part of the structure. So the slices of a training loop's batches share one plan. False where the
 * operand is no leaf, or strides cannot say it.
 */
static bool view_of_leaf(const struct graph *g, unsigned op, const uint32_t *in, const struct op_attr *attr,
	const struct tensor_type *type, struct view *v) {
	const struct graph_node *n;

	if (!op_is_view(op))
		return false;
	n = &g->node[in[0]];
	return n->op == OP_load && view_apply(op, attr, &n->type, &g->leaf[n->index].view, type, v);
}

static bool divides(const struct graph *g, unsigned op, unsigned arity, const uint32_t *in,
	const struct tensor_type *result) {
	const struct tensor_type *type[LIMIT_OPERANDS];

	for (unsigned i = 0; i < arity; i++)
		type[i] = &g->node[in[i]].type;
	return graph_divides(op, type, result);
}

static bool keeps_whole(const struct graph *g, unsigned op, const uint32_t *in, const struct op_attr *attr,
	const struct tensor_type *result) {
	const struct tensor_type *type[LIMIT_OPERANDS];

	for (unsigned i = 0; i < op_least(op); i++)
		type[i] = &g->node[in[i]].type;
	return graph_keeps_whole(op, type, attr, result);
}

/* A composite, or a product that is made of parts. */
static int expand(struct graph *g, unsigned op, unsigned arity, const uint32_t *in, const struct op_attr *attr,
	const struct tensor_type *type, uint32_t note, uint32_t *nodep, struct fault *f) {
	bool expands = g->expands;
	int r;

	g->expands = true;
	r = op == OP_matmul ? graph_divide(g, in, type, note, nodep, f)
			    : graph_expand(g, op, arity, in, attr, type, note, nodep, f);
	g->expands = expands;
	return r;
}

static int op_add(struct graph *g, unsigned op, unsigned arity, const uint32_t *in, const struct op_attr *attr,
	uint32_t note, uint32_t *nodep, struct fault *f) {
	static const struct op_attr none;
	struct graph_node n = { .op = (uint16_t)op, .arity = (uint8_t)arity, .part = g->expands, .note = note };
	uint64_t structure, identity;
	struct graph_key k;
	struct view v;
	bool fresh;
	int r;

	r = op_check(g, op, arity, in, attr ? attr : &none, &n.type, f);
	if (r)
		return r;
	if (op_info(op)->class == OP_CLASS_COMPOSITE && !keeps_whole(g, op, in, attr ? attr : &none, &n.type))
		return expand(g, op, arity, in, attr ? attr : &none, &n.type, note, nodep, f);
	if (op == OP_matmul && divides(g, op, arity, in, &n.type))
		return expand(g, op, arity, in, NULL, &n.type, note, nodep, f);
	if (view_of_leaf(g, op, in, attr, &n.type, &v))
		return leaf_add(g, g->leaf[g->node[in[0]].index].buffer, &n.type, &v, g->node[in[0]].index, nodep);
	for (unsigned i = 0; i < arity; i++)
		n.in[i] = in[i];
	k = key_of(&n, attr);
	identity = structure = op_hash(g, &k);
	if (scalars_of(op))
		identity = with_identity(g, structure, attr->value, scalars_of(op) * sizeof *attr->value);
	n.index = g->scalars;
	r = node_add(g, &n, structure, identity, nodep, &fresh);
	if (!r && !fresh && scalars_of(op))
		g->crossed |= g->node[*nodep].part != n.part;
	if (r || !fresh)
		return r;
	r = scalars_add(g, attr ? attr->value : NULL, scalars_of(op));
	if (!r && attr)
		r = attr_keep(g, attr, &g->node[*nodep].attr);
	if (r) {
		g->scalars = n.index;
		return node_undo(g, r);
	}
	g->bytes += (uint64_t)shape_bytes(&n.type);
	g->inexact |= op_info(op)->inexact;
	return 0;
}

int graph_op(struct graph *g, unsigned op, unsigned arity, const uint32_t *in, const struct op_attr *attr,
	uint32_t note, uint32_t *nodep, struct fault *f) {
	uint32_t received = g->received;
	int r = op_add(g, op, arity, in, attr, note, nodep, f);

	/* The operations of a composite come through here, too; it counts as one. */
	g->received = received + !r;
	return r;
}

int graph_output(struct graph *g, uint32_t node, uint64_t tag) {
	int r = reserve((void **)&g->output, g->outputs, &g->output_capacity, sizeof *g->output);

	if (r)
		return r;
	g->memo->known = false;
	g->output[g->outputs++] = (struct graph_output){ .node = node, .tag = tag };
	g->node[node].output = true;
	return 0;
}

uint32_t graph_nodes(const struct graph *g) {
	return g->nodes;
}

const struct graph_node *graph_node(const struct graph *g, uint32_t node) {
	return &g->node[node];
}

uint32_t graph_leaves(const struct graph *g) {
	return g->leaves;
}

const struct graph_leaf *graph_leaf_at(const struct graph *g, uint32_t leaf) {
	return &g->leaf[leaf];
}

uint32_t graph_outputs(const struct graph *g) {
	return g->outputs;
}

const struct graph_output *graph_output_at(const struct graph *g, uint32_t output) {
	return &g->output[output];
}

uint32_t graph_scalars(const struct graph *g) {
	return g->scalars;
}

const uint64_t *graph_scalar_values(const struct graph *g) {
	return g->scalar;
}

uint64_t graph_bytes(const struct graph *g) {
	return g->bytes;
}

bool graph_inexact(const struct graph *g) {
	return g->inexact;
}

uint32_t graph_received(const struct graph *g) {
	return g->received;
}

static struct graph_hash hash_of(const struct graph *g) {
	XXH128_hash_t nodes = XXH3_128bits_withSeed(g->structure, g->nodes * sizeof *g->structure, g->seed);
	struct graph_hash h = { nodes.low64 + g->nodes, nodes.high64 };

	for (uint32_t i = 0; i < g->outputs; i++) {
		uint64_t v[3] = { g->output[i].node, h.low, h.high };
		XXH128_hash_t next = XXH3_128bits_withSeed(v, sizeof v, g->seed);

		h = (struct graph_hash){ next.low64, next.high64 };
	}
	return h;
}

struct graph_hash graph_hash(const struct graph *g) {
	if (!g->memo->known)
		*g->memo = (struct graph_memo){ true, hash_of(g) };
	return g->memo->hash;
}
