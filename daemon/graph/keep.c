/*
 * A graph that is kept for arrays and numbers that come later; see graph.h.
 *
 * What makes a graph besides the operations themselves is which of its leaves, and which of its numbers, are equal: those become
 * one node. So a kept graph is right for others where all of the same structure that were different still are, and
 * those that were one still are, which who binds them sees. Views of leaves follow their leaves.
 */
#include "state.h"

#include <stdlib.h>
#include <string.h>

/* An odd number whose bits are well mixed: the golden ratio's. */
#define KEEP_MIX UINT64_C(0x9e3779b97f4a7c15)

/* NULL where there is nothing to copy, too. */
static void *copied(const void *from, uint32_t count, size_t size) {
	void *to = count ? malloc(count * size) : NULL;

	if (to)
		memcpy(to, from, count * size);
	return to;
}

static uint32_t attributes(const struct graph *g) {
	uint32_t count = 0;

	for (uint32_t i = 0; i < g->nodes; i++)
		count += g->node[i].attr != NULL;
	return count;
}

static int copy_attributes(struct graph *k) {
	uint32_t count = attributes(k), next = 0;

	k->attr = malloc((count + 1) * sizeof *k->attr);
	if (!k->attr)
		return -1;
	for (uint32_t i = 0; i < k->nodes; i++) {
		if (!k->node[i].attr)
			continue;
		k->attr[next] = *k->node[i].attr;
		k->node[i].attr = &k->attr[next++];
	}
	return 0;
}

static uint32_t list_valued(const struct graph *g, uint32_t *valued) {
	uint32_t count = 0;

	for (uint32_t i = 0; i < g->nodes; i++)
		if (scalars_of(g->node[i].op))
			valued[count++] = i;
	return count;
}

/* How far views lie from what they are views of. */
static void note_shifts(struct graph *k) {
	for (uint32_t i = 0; i < k->leaves; i++)
		if (k->leaf[i].base != GRAPH_NONE)
			k->shift[i] = k->leaf[i].view.offset - k->leaf[k->leaf[i].base].view.offset;
}

/* The caller frees what was copied where memory is short. */
static int copy_all(struct graph *k, const struct graph *g) {
	k->seed = g->seed;
	k->bytes = g->bytes;
	k->received = g->received;
	k->inexact = g->inexact;
	k->node = copied(g->node, g->nodes, sizeof *g->node);
	k->structure = copied(g->structure, g->nodes, sizeof *g->structure);
	k->leaf = copied(g->leaf, g->leaves, sizeof *g->leaf);
	k->scalar = copied(g->scalar, g->scalars, sizeof *g->scalar);
	k->shift = calloc(g->leaves + 1, sizeof *k->shift);
	k->valued = calloc(g->scalars + 1, sizeof *k->valued);
	for (k->places = 2; k->places < 2 * g->leaves || k->places < 2 * g->scalars;)
		k->places *= 2;
	k->place = malloc(k->places * sizeof *k->place);
	if (!k->place || !k->node || !k->structure || (g->leaves && !k->leaf) || (g->scalars && !k->scalar) || !k->shift || !k->valued)
		return -1;
	k->nodes = k->node_capacity = g->nodes;
	k->leaves = k->leaf_capacity = g->leaves;
	k->scalars = k->scalar_capacity = g->scalars;
	k->valueds = list_valued(k, k->valued);
	note_shifts(k);
	return copy_attributes(k);
}

struct graph *graph_keep(const struct graph *g) {
	struct graph *k = NULL;

	if (g->crossed || !g->nodes || g->leaves > GRAPH_KEPT || g->scalars > GRAPH_KEPT || graph_new(&k))
		return NULL;
	if (copy_all(k, g))
		return graph_free(k);
	for (uint32_t i = 0; i < k->nodes; i++)
		k->node[i].output = false;
	return k;
}

uint64_t graph_kept_bytes(const struct graph *k) {
	return sizeof *k + k->nodes * (sizeof *k->node + sizeof *k->structure) + attributes(k) * sizeof *k->attr +
	       k->leaves * (sizeof *k->leaf + sizeof *k->shift) + k->scalars * (sizeof *k->scalar + sizeof *k->valued) + k->places * sizeof *k->place;
}

void graph_bind_leaf(struct graph *k, uint32_t leaf, void *buffer, int64_t offset) {
	k->leaf[leaf].buffer = buffer;
	k->leaf[leaf].view.offset = offset;
}

void graph_bind_scalar(struct graph *k, uint32_t scalar, uint64_t value) {
	k->scalar[scalar] = value;
}

/* Each comes after what it is a view of. */
static void bind_views(struct graph *k) {
	for (uint32_t i = 0; i < k->leaves; i++) {
		const struct graph_leaf *of = k->leaf[i].base == GRAPH_NONE ? NULL : &k->leaf[k->leaf[i].base];

		if (of)
			graph_bind_leaf(k, i, of->buffer, of->view.offset + k->shift[i]);
	}
}

static bool same_leaf(const struct graph *k, uint32_t a, uint32_t b) {
	const struct graph_leaf *l = &k->leaf[a], *m = &k->leaf[b];

	return l->buffer == m->buffer && l->view.offset == m->view.offset && k->structure[l->node] == k->structure[m->node];
}

static bool same_numbers(const struct graph *k, uint32_t a, uint32_t b) {
	const struct graph_node *n = &k->node[k->valued[a]], *m = &k->node[k->valued[b]];

	return k->structure[k->valued[a]] == k->structure[k->valued[b]] &&
	       memcmp(&k->scalar[n->index], &k->scalar[m->index], scalars_of(n->op) * sizeof *k->scalar) == 0;
}

/* Of what tells two apart that may be one; structures have a seed, so no client can make many fall together. */
static uint64_t leaf_hash(const struct graph *k, uint32_t leaf) {
	const struct graph_leaf *l = &k->leaf[leaf];

	return (k->structure[l->node] ^ (uintptr_t)l->buffer ^ (uint64_t)l->view.offset << 32) * KEEP_MIX;
}

static uint64_t number_hash(const struct graph *k, uint32_t valued) {
	const struct graph_node *n = &k->node[k->valued[valued]];

	return (k->structure[k->valued[valued]] ^ k->scalar[n->index]) * KEEP_MIX;
}

typedef uint64_t hash_function(const struct graph *k, uint32_t item);
typedef bool same_function(const struct graph *k, uint32_t a, uint32_t b);

static bool all_differ(struct graph *k, uint32_t count, hash_function *hash, same_function *same) {
	uint32_t mask = k->places - 1, at;

	memset(k->place, 0, k->places * sizeof *k->place);
	for (uint32_t i = 0; i < count; i++) {
		for (at = (uint32_t)(hash(k, i) >> 32) & mask; k->place[at]; at = (at + 1) & mask)
			if (same(k, i, k->place[at] - 1))
				return false;
		k->place[at] = i + 1;
	}
	return true;
}

bool graph_bound(struct graph *k) {
	bind_views(k);
	return all_differ(k, k->leaves, leaf_hash, same_leaf) && all_differ(k, k->valueds, number_hash, same_numbers);
}

void graph_outputs_clear(struct graph *k) {
	for (uint32_t i = 0; i < k->outputs; i++)
		k->node[k->output[i].node].output = false;
	k->outputs = 0;
	k->memo->known = false;
}
