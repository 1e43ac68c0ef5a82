/*
 * Ranges of a fixed span of bytes. See range.h for the contract.
 *
 * The span is cut into blocks, each either a hole or taken, linked in the order of their offsets;
 * no two holes are neighbours. A block is also a node of one of two search trees: holes are
 * ordered by size and then offset, which makes best fit one descent; taken blocks by offset, which
 * finds what is given back. The trees are treaps: a node's priority is random, and above those of
 * its children, which keeps the expected depth logarithmic whatever the order of calls.
 */
#include "range.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

struct key {
	uint64_t major;
	uint64_t minor;
};

struct block {
	uint64_t offset;
	uint64_t bytes;
	struct block *before, *after; /* neighbours in the span */
	struct block *left, *right;   /* of the tree this block is in */
	uint32_t priority;
	bool taken;
};

struct range {
	struct block *holes;
	struct block *taken;
	uint64_t used;
	uint32_t random; /* state of the generator of priorities */
};

static struct key key_of(const struct block *b) {
	if (b->taken)
		return (struct key){ .major = b->offset };
	return (struct key){ .major = b->bytes, .minor = b->offset };
}

static bool key_below(struct key a, struct key b) {
	return a.major < b.major || (a.major == b.major && a.minor < b.minor);
}

/* Cuts a tree in two: nodes below the key, and the others. */
static void tree_split(struct block *tree, struct key key, struct block **lowp, struct block **highp) {
	while (tree) {
		if (key_below(key_of(tree), key)) {
			*lowp = tree;
			lowp = &tree->right;
			tree = tree->right;
		} else {
			*highp = tree;
			highp = &tree->left;
			tree = tree->left;
		}
	}
	*lowp = NULL;
	*highp = NULL;
}

/* Joins two trees, every node of `low` being below every node of `high`. */
static struct block *tree_join(struct block *low, struct block *high) {
	struct block *root = NULL, **link = &root;

	while (low && high) {
		if (low->priority > high->priority) {
			*link = low;
			link = &low->right;
			low = low->right;
		} else {
			*link = high;
			link = &high->left;
			high = high->left;
		}
	}
	*link = low ? low : high;
	return root;
}

static void tree_insert(struct block **rootp, struct block *b) {
	struct key key = key_of(b);

	while (*rootp && (*rootp)->priority >= b->priority)
		rootp = key_below(key_of(*rootp), key) ? &(*rootp)->right : &(*rootp)->left;
	tree_split(*rootp, key, &b->left, &b->right);
	*rootp = b;
}

/* Requires b to be in the tree, with the key it was inserted under. */
static void tree_remove(struct block **rootp, struct block *b) {
	struct key key = key_of(b);

	while (*rootp != b)
		rootp = key_below(key_of(*rootp), key) ? &(*rootp)->right : &(*rootp)->left;
	*rootp = tree_join(b->left, b->right);
}

/* The smallest node that is not below the key. */
static struct block *tree_find(struct block *tree, struct key key) {
	struct block *found = NULL;

	while (tree) {
		if (key_below(key_of(tree), key)) {
			tree = tree->right;
		} else {
			found = tree;
			tree = tree->left;
		}
	}
	return found;
}

/* xorshift32: the priorities only have to be unrelated to the order of calls. */
static uint32_t next_priority(struct range *r) {
	r->random ^= r->random << 13;
	r->random ^= r->random >> 17;
	r->random ^= r->random << 5;
	return r->random;
}

static struct block *block_new(struct range *r, uint64_t offset, uint64_t bytes) {
	struct block *b = malloc(sizeof *b);

	if (!b)
		return NULL;
	*b = (struct block){ .offset = offset, .bytes = bytes, .priority = next_priority(r) };
	return b;
}

static void link_after(struct block *b, struct block *added) {
	added->before = b;
	added->after = b->after;
	if (b->after)
		b->after->before = added;
	b->after = added;
}

static void unlink_block(struct block *b) {
	if (b->before)
		b->before->after = b->after;
	if (b->after)
		b->after->before = b->before;
}

static uint64_t round_down(uint64_t bytes) {
	return bytes - bytes % LIMIT_ALIGNMENT;
}

/* Bytes in whole units, at least one; 0 where that exceeds 64 bits. */
static uint64_t round_up(uint64_t bytes) {
	if (!bytes)
		return LIMIT_ALIGNMENT;
	return round_down(bytes + LIMIT_ALIGNMENT - 1) < bytes ? 0 : round_down(bytes + LIMIT_ALIGNMENT - 1);
}

int range_new(uint64_t bytes, struct range **rangep) {
	struct range *r = calloc(1, sizeof *r);

	if (!r)
		return -ENOMEM;
	r->random = 2463534242; /* any seed but 0 */
	bytes = round_down(bytes);
	if (bytes) {
		r->holes = block_new(r, 0, bytes);
		if (!r->holes) {
			free(r);
			return -ENOMEM;
		}
	}
	*rangep = r;
	return 0;
}

struct range *range_free_all(struct range *r) {
	struct block *b, *after;

	if (!r)
		return NULL;
	b = r->holes ? r->holes : r->taken;
	while (b && b->before)
		b = b->before;
	for (; b; b = after) {
		after = b->after;
		free(b);
	}
	free(r);
	return NULL;
}

/* The first bytes of a hole. */
static int take_block(struct range *r, struct block *b, uint64_t size) {
	struct block *rest = NULL;

	if (b->bytes > size) {
		rest = block_new(r, b->offset + size, b->bytes - size);
		if (!rest)
			return -ENOMEM;
		link_after(b, rest);
	}
	tree_remove(&r->holes, b);
	if (rest)
		tree_insert(&r->holes, rest);
	b->bytes = size;
	b->taken = true;
	tree_insert(&r->taken, b);
	r->used += size;
	return 0;
}

int range_take(struct range *r, uint64_t bytes, uint64_t *offsetp) {
	uint64_t size = round_up(bytes);
	struct block *b = size ? tree_find(r->holes, (struct key){ .major = size }) : NULL;
	int e = b ? take_block(r, b, size) : -ENOSPC;

	if (!e)
		*offsetp = b->offset;
	return e;
}

/* The last block taken at or before an offset, or NULL. */
static struct block *taken_before(struct block *tree, uint64_t offset) {
	struct block *found = NULL;

	while (tree) {
		if (tree->offset > offset) {
			tree = tree->left;
		} else {
			found = tree;
			tree = tree->right;
		}
	}
	return found;
}

/* The hole that has the offset, or NULL: no two holes are neighbours. */
static struct block *hole_at(const struct range *r, uint64_t offset) {
	struct block *b = taken_before(r->taken, offset);

	if (b)
		b = offset < b->offset + b->bytes ? NULL : b->after;
	else
		b = r->taken ? tree_find(r->taken, (struct key){ .major = 0 })->before : r->holes;
	return b && !b->taken ? b : NULL;
}

int range_take_at(struct range *r, uint64_t offset, uint64_t bytes) {
	uint64_t size = round_up(bytes);
	struct block *b = hole_at(r, offset), *low = NULL;

	if (offset % LIMIT_ALIGNMENT)
		return -EINVAL;
	if (!size || !b || offset - b->offset > b->bytes || size > b->bytes - (offset - b->offset))
		return -ENOSPC;
	if (offset > b->offset) {
		low = block_new(r, offset, b->bytes - (offset - b->offset));
		if (!low)
			return -ENOMEM;
		tree_remove(&r->holes, b);
		b->bytes = offset - b->offset;
		link_after(b, low);
		tree_insert(&r->holes, b);
		tree_insert(&r->holes, low);
		b = low;
	}
	return take_block(r, b, size);
}

/* Appends the hole `high` to its lower neighbour `low`; neither is in a tree. */
static void merge(struct block *low, struct block *high) {
	low->bytes += high->bytes;
	unlink_block(high);
	free(high);
}

int range_give(struct range *r, uint64_t offset, uint64_t bytes) {
	struct block *b = tree_find(r->taken, (struct key){ .major = offset });

	if (!b || b->offset != offset || b->bytes != round_up(bytes))
		return -EINVAL;
	tree_remove(&r->taken, b);
	r->used -= b->bytes;
	b->taken = false;
	if (b->after && !b->after->taken) {
		tree_remove(&r->holes, b->after);
		merge(b, b->after);
	}
	if (b->before && !b->before->taken) {
		b = b->before;
		tree_remove(&r->holes, b);
		merge(b, b->after);
	}
	tree_insert(&r->holes, b);
	return 0;
}

uint64_t range_used(const struct range *r) {
	return r->used;
}

bool range_empty(const struct range *r) {
	return r->used == 0;
}

uint64_t range_largest(const struct range *r) {
	const struct block *b = r->holes;

	while (b && b->right)
		b = b->right;
	return b ? b->bytes : 0;
}
