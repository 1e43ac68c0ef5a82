/*
 * Plans by the structure of their graph and the options; the least recently used is dropped.
 *
 * A plan that depends on numbers (plan_test) is one of several of its structure, of which at most one serves a graph, since the
 * planner decides the same for the same outcomes. They are told apart by a number in their keys, from 0 on.
 */
#include "plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/hash.h"

struct cache_key {
	struct graph_hash graph;
	uint64_t min_elements;
	uint32_t patterns_off, fuse;
	uint32_t fast, variant;
	uint64_t book, named_off;
	uint64_t tried;                    /* the kernel of the options' variant */
	uint32_t tuned, knob;              /* is there a tuning; the variant's knob and value */
	uint64_t pins, apart;              /* hashes of them */
};

/* Plans of one structure that different numbers call for. */
enum { CACHE_VARIANTS = 16 };

static struct cache_key key_of(const struct graph *g, const struct plan_options *o) {
	return (struct cache_key){ graph_hash(g), o->min_elements, o->patterns_off, o->fuse, o->fast, 0,
		o->book ? o->book->serial : 0, o->book ? o->named_off : 0, o->variant.kernel, o->tuning != NULL,
		(uint32_t)o->variant.knob << 8 | o->variant.value, knobs_pins_hash(&o->pins), op_pairs_hash(&o->apart) };
}

struct cache_entry {
	struct cache_key key;
	struct plan *plan;
	UT_hash_handle hh;                 /* uthash keeps insertion order: the head is the oldest */
};

/* Steps of all plans together: about a KiB each, with what exec hangs on them. */
enum { CACHE_STEPS = 128 << 10 };

struct plan_cache {
	struct cache_entry *entry;
	uint32_t capacity;
	uint64_t steps;
};

int plan_cache_new(uint32_t capacity, struct plan_cache **cachep) {
	struct plan_cache *c = calloc(1, sizeof *c);

	if (!c)
		return -ENOMEM;
	c->capacity = capacity ? capacity : 1;
	*cachep = c;
	return 0;
}

static void entry_free(struct plan_cache *c, struct cache_entry *e) {
	c->steps -= e->plan->steps;
	plan_unref(e->plan);
	free(e);
}

static void entry_drop(struct plan_cache *c, struct cache_entry *e) {
	HASH_DELETE(hh, c->entry, e);
	entry_free(c, e);
}

struct plan_cache *plan_cache_free(struct plan_cache *c) {
	struct cache_entry *e, *next;

	if (!c)
		return NULL;
	HASH_ITER(hh, c->entry, e, next)
		entry_drop(c, e);
	free(c);
	return NULL;
}

static int entry_add(struct plan_cache *c, const struct cache_key *key, struct plan *plan) {
	struct cache_entry *e = calloc(1, sizeof *e);

	if (!e)
		return -ENOMEM;
	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): an entry leaves the table before it is freed */
	while (c->entry && (HASH_COUNT(c->entry) >= c->capacity || c->steps + plan->steps > CACHE_STEPS))
		entry_drop(c, c->entry);
	e->key = *key;
	e->plan = plan_ref(plan);
	c->steps += plan->steps;
	HASH_ADD(hh, c->entry, key, sizeof e->key, e);
	if (HASH_ADDED(hh, e))
		return 0;
	entry_free(c, e);
	return -ENOMEM;
}

/*
 * The entry whose plan serves the graph, or NULL; then the key's variant is free, or if all are taken it is the first,
 * whose plan is to be replaced.
 */
static struct cache_entry *look_up(const struct plan_cache *c, struct cache_key *key, const struct graph *g) {
	struct cache_entry *e;

	for (; key->variant < CACHE_VARIANTS; key->variant++) {
		HASH_FIND(hh, c->entry, key, sizeof *key, e);
		if (!e)
			return NULL;
		if (plan_tests_hold(e->plan, g))
			return e;
	}
	key->variant = 0;
	return NULL;
}

/* Where that of the key is taken, its plan gives way. */
static int put(struct plan_cache *c, const struct cache_key *key, struct plan *p) {
	struct cache_entry *old;

	HASH_FIND(hh, c->entry, key, sizeof *key, old);
	if (old)
		entry_drop(c, old);
	return entry_add(c, key, p);
}

int plan_cache_get(struct plan_cache *c, const struct graph *g, const struct plan_options *o,
	struct plan **planp, bool *hitp, struct fault *f) {
	struct cache_key key = key_of(g, o);
	struct cache_entry *e = look_up(c, &key, g);
	int r;

	*hitp = e != NULL;
	if (e) {
		*planp = plan_ref(e->plan);
		/* To the young end of the list, where it is not there. */
		if (!e->hh.next)
			return 0;
		HASH_DELETE(hh, c->entry, e);
		HASH_ADD(hh, c->entry, key, sizeof e->key, e);
		if (!HASH_ADDED(hh, e))
			entry_free(c, e);
		return 0;
	}
	r = plan_make(g, o, planp, f);
	if (r)
		return r;
	r = put(c, &key, *planp);
	if (r)
		*planp = plan_unref(*planp);
	return r;
}

int plan_cache_put(struct plan_cache *c, const struct graph *g, const struct plan_options *o, struct plan *p) {
	struct cache_key key = key_of(g, o);

	look_up(c, &key, g);
	return put(c, &key, p);
}

struct plan *plan_cache_find(const struct plan_cache *c, const struct graph *g, const struct plan_options *o) {
	struct cache_key key = key_of(g, o);
	const struct cache_entry *e = look_up(c, &key, g);

	return e ? plan_ref(e->plan) : NULL;
}

void plan_cache_replace(struct plan_cache *c, struct plan *old, struct plan *new) {
	struct cache_entry *e, *next;

	HASH_ITER(hh, c->entry, e, next) {
		if (e->plan != old)
			continue;
		c->steps += new->steps - old->steps;
		e->plan = plan_ref(new);
		plan_unref(old);
		return;
	}
}
