/*
 * See knobs.h. A knob is a row of daemon/base/knobs.def and two functions here, found by its name:
 *
 *   bool NAME_applies(value, step, traits)   would the step be another one? Nothing is timed that is the same
 *   void NAME_turn(value, step, kernel, traits)   makes it so; a knob that is a matter of launches alone has nothing to do in the kernel
 */
#include "knobs.h"

#include <stddef.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "plan.h"

/* ---- identities ---- */

static uint64_t hash_operand(const struct plan_step *s, unsigned o, uint64_t h) {
	h = XXH3_64bits_withSeed(&s->kernel->operand[o], sizeof s->kernel->operand[o], h);
	return XXH3_64bits_withSeed(s->operand[o].stride, s->kernel->rank * sizeof *s->operand[o].stride, h);
}

/* A product by its root: what follows it, and how many operands and values that takes, is left out. */
static uint64_t hash_root(const struct kernel *k) {
	const uint8_t parts[] = { k->root, k->form, k->width, k->rank, k->accumulator, k->vectors, k->rows, k->steps, k->wide, k->packed, k->strips, k->tile,
		k->scored, k->turned, k->small, k->lined, k->minimal, k->alone, k->inputs, k->causal, kernel_computes_factor(k), kernel_keeps_rows(k) };

	return XXH3_64bits(parts, sizeof parts);
}

uint64_t knobs_kernel(const struct plan_step *s) {
	const struct kernel *k = s->kernel;
	unsigned operands = kernel_root_operands(k);
	uint64_t h = operands ? hash_root(k) : kernel_hash(k);

	h = XXH3_64bits_withSeed(s->dims, k->rank * sizeof *s->dims, h);
	h = XXH3_64bits_withSeed(&s->extent, sizeof s->extent, h);
	for (unsigned o = 0; o < (operands ? operands : k->operands); o++)
		h = hash_operand(s, o, h);
	return h ? h : 1;
}

/* ---- what a launch is cut into: the step says it to emit_geometry() ---- */

static void turn_launch(unsigned value, struct plan_step *s, struct kernel *k, const struct traits *t) {
	(void)value;
	(void)s;
	(void)k;
	(void)t;
}

/* Sorts and scatters cut their work by rules of their own, and groups of a GPU have one unit each. */
static bool share_applies(unsigned value, const struct plan_step *s, const struct traits *t) {
	(void)value;
	return t->strategy == STRATEGY_CPU && s->kernel->root != KERNEL_SORT &&
		s->kernel->root != KERNEL_SCATTER && s->kernel->root != KERNEL_INTERPRETER;
}

#define share_turn turn_launch

/* Strips and turned products have none. */
static bool tiles_applies(unsigned value, const struct plan_step *s, const struct traits *t) {
	const struct kernel *k = s->kernel;

	(void)value;
	return t->strategy == STRATEGY_CPU &&
		((k->root == KERNEL_MATMUL && !k->strips && !k->turned) || k->root == KERNEL_ATTENTION || (k->root == KERNEL_CONV && !k->alone));
}

#define tiles_turn turn_launch

/* ---- stream ---- */

enum {
	STREAM_PAST = 1,
	STREAM_NEAR,
};

/* As layout.c says which may be. */
static bool may_stream(const struct plan_step *s, unsigned o, const struct traits *t) {
	const struct kernel *k = s->kernel;
	const struct kernel_operand *p = &k->operand[o];

	return t->strategy == STRATEGY_CPU && t->stream_bytes && p->output && p->access == KERNEL_CONTIGUOUS &&
		(k->root == KERNEL_MAP || (k->root == KERNEL_ROWS && k->value[p->value].space == KERNEL_SPACE_ROW));
}

static bool stream_applies(unsigned value, const struct plan_step *s, const struct traits *t) {
	for (unsigned o = 0; o < s->kernel->operands; o++)
		if (may_stream(s, o, t) && s->kernel->operand[o].stream != (value == STREAM_PAST))
			return true;
	return false;
}

static void stream_turn(unsigned value, struct plan_step *s, struct kernel *k, const struct traits *t) {
	for (unsigned o = 0; o < k->operands; o++)
		if (may_stream(s, o, t))
			k->operand[o].stream = value == STREAM_PAST;
}

/* ---- hold ---- */

/* Is something computed once an element, and are there passes that may share it? */
static bool hold_applies(unsigned value, const struct plan_step *s, const struct traits *t) {
	const struct kernel *k = s->kernel;
	bool computes = false;

	(void)value;
	for (unsigned v = 0; v < k->values; v++)
		computes |= k->value[v].kind == KERNEL_OP && k->value[v].space == KERNEL_SPACE_ROW;
	return t->strategy == STRATEGY_CPU && k->root == KERNEL_ROWS && computes;
}

static void hold_turn(unsigned value, struct plan_step *s, struct kernel *k, const struct traits *t) {
	(void)s;
	(void)t;
	k->hold = (uint8_t)value;
}

/* ---- beside ---- */

static bool beside_applies(unsigned value, const struct plan_step *s, const struct traits *t) {
	unsigned operations = 0;

	(void)value;
	for (unsigned v = 0; v < s->kernel->values; v++)
		operations += s->kernel->value[v].kind == KERNEL_OP;
	return t->strategy == STRATEGY_CPU && t->width > 1 && s->kernel->root == KERNEL_MAP && !s->kernel->turned && operations > 1;
}

static void beside_turn(unsigned value, struct plan_step *s, struct kernel *k, const struct traits *t) {
	static const uint8_t vectors[KNOB_VALUES] = { 0, 1, 2, 4 };

	(void)s;
	(void)t;
	k->beside = vectors[value];
}

/* ---- tile ---- */

enum {
	TILE_SMALLER = 1,
	TILE_LARGER,
};

/* Those of convolutions, from the least on. */
static const uint8_t conv_tiles[] = { KERNEL_TILE_TINY, KERNEL_TILE_DEEP, KERNEL_TILE_MEDIUM, KERNEL_TILE_LARGE };

static unsigned next_conv_tile(unsigned tile, bool larger) {
	enum { COUNT = sizeof conv_tiles };

	for (unsigned i = 0; i < COUNT; i++)
		if (conv_tiles[i] == tile)
			return larger ? conv_tiles[i + 1 < COUNT ? i + 1 : i] : conv_tiles[i ? i - 1 : 0];
	return tile;
}

/* The largest that leads to this one, within the largest there may be; or itself. */
static unsigned larger_tile(const struct kernel *k, unsigned tile, const struct traits *t) {
	unsigned from = kernel_tile_largest(k, t);

	while (from != tile && kernel_tiles[from].smaller != tile && kernel_tiles[from].smaller != from)
		from = kernel_tiles[from].smaller;
	return kernel_tiles[from].smaller == tile ? from : tile;
}

static unsigned next_tile(unsigned value, const struct plan_step *s, const struct traits *t) {
	const struct kernel *k = s->kernel;
	unsigned tile = k->tile;

	if (k->root == KERNEL_CONV && !k->alone)
		tile = next_conv_tile(tile, value == TILE_LARGER);
	else if (k->root == KERNEL_MATMUL)
		tile = value == TILE_LARGER ? larger_tile(k, tile, t) : kernel_tiles[tile].smaller;
	return kernel_tile_items(tile) <= t->local_size ? tile : k->tile;
}

static bool tile_applies(unsigned value, const struct plan_step *s, const struct traits *t) {
	return t->strategy == STRATEGY_GPU && (s->kernel->root == KERNEL_MATMUL || s->kernel->root == KERNEL_CONV) &&
		next_tile(value, s, t) != s->kernel->tile;
}

static void tile_turn(unsigned value, struct plan_step *s, struct kernel *k, const struct traits *t) {
	k->tile = (uint8_t)next_tile(value, s, t);
	if (k->root == KERNEL_MATMUL)
		k->width = kernel_tiles[k->tile].lanes;
}

/* ---- all ---- */

static const struct {
	bool (*applies)(unsigned value, const struct plan_step *s, const struct traits *t);
	void (*turn)(unsigned value, struct plan_step *s, struct kernel *k, const struct traits *t);
} knobs[KNOB_COUNT] = {
#define KNOB(name, values, doc) { name##_applies, name##_turn },
#include "daemon/base/knobs.def"
#undef KNOB
};

uint64_t knobs_pins_hash(const struct knob_pins *pins) {
	uint64_t h = 0;

	for (unsigned i = 0; i < KNOB_COUNT; i++)
		h = h * (KNOB_VALUES + 1) + (pins->set >> i & 1 ? pins->knobs.value[i] + 1u : 0);
	return h;
}

bool knob_applies(unsigned knob, unsigned value, const struct plan_step *s, const struct traits *t) {
	return knobs[knob].applies(value, s, t);
}

void knobs_turn(const struct knobs *to, struct plan_step *s, struct kernel *own, const struct traits *t) {
	for (unsigned i = 0; i < KNOB_COUNT; i++) {
		unsigned value = to->value[i];

		if (!value || !knob_value(i, value) || !knob_applies(i, value, s, t))
			continue;
		knobs[i].turn(value, s, own, t);
		s->knobs.value[i] = (uint8_t)value;
	}
}
