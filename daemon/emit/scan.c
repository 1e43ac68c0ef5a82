/*
 * Scans: every element is what the reduction makes of the elements up to it; the rule is in kernel.h.
 *
 * A unit is a block of at most KERNEL_BLOCK elements of one row, or of a strip of columns. It is walked
 * in groups of KERNEL_GROUP. CPU strategy, ROW: a group is a vector, whose lanes take in each other
 * by shifts. COLUMN: a group is 16 vectors of columns side by side. With one lane both are 16
 * values. What follows the root is computed in the same walk; where a group is not one vector its operands are
 * loaded again.
 *
 * GPU strategy, ROW: a work-group a unit, each lane a group of its own; the carries of a tile of groups are
 * taken in order by the first lane, through local memory. COLUMN: a lane a column.
 */
#include "writer.h"

#include <stdio.h>

static bool in_blocks(const struct kernel *k) {
	return k->block_dim < k->kept;
}

/* Writes "x = op(x, y);" as a line. */
static void combine(struct writer *w, const char *x, const char *y) {
	struct reduction root = reduce_root(w);

	value_combine(w, &root, x, y);
}

static unsigned scanned_dim(const struct kernel *k) {
	return k->rank - 1u;
}

/* ---- functions ---- */

/* Lanes 0 to 15 - h of v, after h lanes of the neutral element. */
static void write_shifted(struct writer *w, unsigned h) {
	text_part(w, "(%s)(neutral.s", value_lanes(w));
	for (unsigned lane = 0; lane < h; lane++)
		text_part(w, "%x", lane);
	for (unsigned lane = 0, part = 8; lane + h < KERNEL_GROUP; lane += part) {
		while (lane + h + part > KERNEL_GROUP)
			part /= 2;
		text_part(w, ", v.s");
		for (unsigned i = 0; i < part; i++)
			text_part(w, "%x", lane + i);
	}
	text_part(w, ")");
}

static void write_lanes_function(struct writer *w) {
	const char *type = value_lanes(w);

	text_line(w, "/* Each lane takes in those before it: the rule of a group. */");
	text_open(w, "static inline %s scan_lanes(%s v, %s neutral)", type, type, type);
	text_line(w, "%s before;", type);
	for (unsigned h = 1; h < KERNEL_GROUP; h *= 2) {
		text_begin(w);
		text_part(w, "before = ");
		write_shifted(w, h);
		text_part(w, ";");
		text_end(w);
		combine(w, "v", "before");
	}
	text_line(w, "return v;");
	text_close(w);
	text_blank(w);
}

/*
 * Value by value, so that they stay in registers; vH_I is element I after the steps up to H. Not inlined in
 * the CPU strategy: LLVM 15 then takes the steps on single bytes for one reduction of all 16.
 */
static void write_values_function(struct writer *w) {
	const char *kind = w->t->strategy == STRATEGY_CPU ? "static __attribute__((noinline))" : "static inline";
	char name[16], before[16];

	text_line(w, "/* Each value takes in those before it: the rule of a group. */");
	text_open(w, "%s void scan_values(%s *v)", kind, value_lanes(w));
	for (unsigned i = 0; i < KERNEL_GROUP; i++)
		text_line(w, "const %s v0_%u = v[%u];", value_lanes(w), i, i);
	for (unsigned h = 1; h < KERNEL_GROUP; h *= 2)
		for (unsigned i = 0; i < KERNEL_GROUP; i++) {
			text_line(w, "%s v%u_%u = v%u_%u;", value_lanes(w), h, i, h / 2, i);
			snprintf(name, sizeof name, "v%u_%u", h, i);
			snprintf(before, sizeof before, "v%u_%u", h / 2, i - h);
			if (i >= h)
				combine(w, name, before);
		}
	for (unsigned i = 0; i < KERNEL_GROUP; i++)
		text_line(w, "v[%u] = v%d_%u;", i, KERNEL_GROUP / 2, i);
	text_close(w);
	text_blank(w);
}

static bool is_vector(const struct kernel *k) {
	return k->form == KERNEL_FORM_ROW && k->width == KERNEL_GROUP;
}

void scan_functions(struct writer *w) {
	if (is_vector(w->k))
		write_lanes_function(w);
	else
		write_values_function(w);
}

/* ---- parts ---- */

/* Everything that is read or written at an element. */
static struct needs all_needs(const struct writer *w) {
	struct needs all = w->inner;

	for (unsigned o = 0; o < w->k->operands; o++)
		all.operand[o] |= w->outer.operand[o];
	return all;
}

static void declare_neutral(struct writer *w) {
	struct reduction root = reduce_root(w);

	text_line(w, "const %s neutral = (%s)(%s);", value_lanes(w), value_lanes(w), value_neutral(&root));
}

/* Writes "name = ...;": what all blocks before this one make, or the neutral element. */
static void write_before(struct writer *w, const char *name, const struct scope *s, const char *const *index) {
	const struct kernel *k = w->k;
	struct frame_names at = { { NULL } };
	struct needs carry = { .operand = { false } };
	char block[16];

	text_line(w, "%s = neutral;", name);
	if (!in_blocks(k))
		return;
	for (unsigned d = 0; d < k->kept; d++)
		at.name[d] = index[d];
	snprintf(block, sizeof block, "(i%u - 1)", k->block_dim);
	at.name[k->block_dim] = block;
	carry.operand[k->carry] = true;
	text_open(w, "if (i%u > 0)", k->block_dim);
	operand_place(w, &carry, "c", at.name);
	text_begin(w);
	text_part(w, "%s = ", name);
	operand_load(w, s, k->carry);
	text_part(w, ";");
	text_end(w);
	text_close(w);
}

/* Declares `root`, of a scanned element of a group. */
static void write_root(struct writer *w, const char *element, const char *carry, const char *before) {
	text_line(w, "%s root = %s;", value_lanes(w), element);
	combine(w, "root", carry);
	if (in_blocks(w->k))
		combine(w, "root", before);
	value_root(w, "root");
}

/* The values of a group's elements into `group`, from the place `from` on; then the group is scanned. */
static void write_group(struct writer *w, struct scope *s, const char *const *index) {
	text_line(w, "%s group[%u];", value_lanes(w), KERNEL_GROUP);
	text_open(w, "for (int e = 0; e < %u; e++)", KERNEL_GROUP);
	text_line(w, "const long at = from + e;");
	text_line(w, "group[e] = neutral;");
	text_line(w, "if (e >= m)");
	text_line(w, "\tcontinue;");
	operand_place(w, &w->inner, "p", index);
	s->needs = &w->inner;
	s->pointer = "p";
	value_write(w, s, LEVEL_ELEMENT);
	text_line(w, "group[e] = v%u;", w->k->reduced_value);
	value_forget(w, s, LEVEL_ELEMENT);
	text_close(w);
	text_line(w, "scan_values(group);");
}

/* The results of a group, and what follows them. */
static void write_group_outputs(struct writer *w, struct scope *s, const char *const *index, const char *carry,
	const char *before) {
	text_open(w, "for (int e = 0; e < m; e++)");
	text_line(w, "const long at = from + e;");
	operand_place(w, &w->outer, "q", index);
	s->needs = &w->outer;
	s->pointer = "q";
	write_root(w, "group[e]", carry, before);
	value_write(w, s, LEVEL_ELEMENT);
	value_store(w, s);
	value_forget(w, s, LEVEL_ELEMENT);
	text_close(w);
}

/* A block of one lane, or of the one vector that `s` says. */
static void write_groups(struct writer *w, struct scope *s, const char *const *index) {
	text_open(w, "for (long from = start; from < stop; from += %u)", KERNEL_GROUP);
	text_line(w, "const int m = min(stop - from, (long)%u);", KERNEL_GROUP);
	write_group(w, s, index);
	write_group_outputs(w, s, index, "carry", "before");
	combine(w, "carry", "group[m - 1]");
	text_close(w);
}

static void declare_carries(struct writer *w) {
	text_line(w, "%s carry = neutral;", value_lanes(w));
	text_line(w, "%s before;", value_lanes(w));
}

/* ---- ROW ---- */

static void write_vectors(struct writer *w, const char *const *index) {
	struct scope s = { .needs = &w->inner, .pointer = "p", .lane = "l", .count = "n", .hoist = true };
	struct needs all = all_needs(w);

	text_line(w, "const long count = stop - start;");
	operand_place(w, &all, "p", index);
	value_write(w, &s, LEVEL_UNIT);
	s.needs = &w->outer;
	value_write(w, &s, LEVEL_UNIT);
	text_open(w, "for (long l = 0; l < count; l += W)");
	text_line(w, "const int n = min(count - l, (long)W);");
	s.needs = &w->inner;
	value_write(w, &s, LEVEL_ELEMENT);
	text_line(w, "%s sum = scan_lanes(v%u, neutral);", value_lanes(w), w->k->reduced_value);
	s.needs = &w->outer;
	write_root(w, "sum", "carry", "before");
	combine(w, "sum", "carry");
	text_line(w, "carry = (%s)(sum.s%x);", value_lanes(w), KERNEL_GROUP - 1);
	value_write(w, &s, LEVEL_ELEMENT);
	value_store(w, &s);
	text_close(w);
}

void scan_row(struct writer *w) {
	const struct kernel *k = w->k;
	struct frame_names index = frame_names(k->kept);
	struct scope s = { .pointer = "c" };

	frame_units(w);
	declare_neutral(w);
	text_line(w, "ulong rest = begin;");
	frame_indices(w, 0, k->kept);
	text_open(w, "for (ulong unit = begin; unit < end; unit++)");
	reduce_range(w);
	declare_carries(w);
	write_before(w, "before", &s, index.name);
	index.name[scanned_dim(k)] = is_vector(k) ? "start" : "at";
	if (is_vector(k))
		write_vectors(w, index.name);
	else
		write_groups(w, &s, index.name);
	if (k->kept)
		frame_step(w, 0, k->kept);
	text_close(w);
}

/* ---- COLUMN ---- */

/* The strip's vectors side by side: each row of a strip is read along memory, 16 rows at a time. */
static void write_strip(struct writer *w, const char *const *index) {
	struct scope s = { .pointer = "c", .lane = "l", .count = "n" };

	text_line(w, "%s carry[%u], before[%u];", value_lanes(w), SCAN_VECTORS, SCAN_VECTORS);
	text_open(w, "for (long l = 0; l < width; l += W)");
	text_line(w, "carry[l / W] = neutral;");
	write_before(w, "before[l / W]", &s, index);
	text_close(w);
	text_open(w, "for (long from = start; from < stop; from += %u)", KERNEL_GROUP);
	text_line(w, "const int m = min(stop - from, (long)%u);", KERNEL_GROUP);
	text_open(w, "for (long l = 0; l < width; l += W)");
	text_line(w, "const int n = min(width - l, (long)W);");
	write_group(w, &s, index);
	write_group_outputs(w, &s, index, "carry[l / W]", "before[l / W]");
	combine(w, "carry[l / W]", "group[m - 1]");
	text_close(w);
	text_close(w);
}

void scan_column(struct writer *w) {
	const struct kernel *k = w->k;
	struct frame_names index = frame_names(k->kept);
	unsigned lanes = k->kept - 1u;

	index.name[lanes] = "left";
	index.name[scanned_dim(k)] = "at";
	frame_units(w);
	declare_neutral(w);
	text_line(w, "const long strip = ((d%u + r[%u] - 1) / r[%u] + W - 1) / W * W;", lanes,
		KERNEL_WORD_PIECES, KERNEL_WORD_PIECES);
	text_open(w, "for (ulong unit = begin; unit < end; unit++)");
	text_line(w, "ulong rest = unit;");
	text_line(w, "const long left = take(&rest, r[%u]) * strip;", KERNEL_WORD_PIECES);
	text_line(w, "const long width = min(d%u - left, strip);", lanes);
	frame_indices(w, 0, lanes);
	reduce_range(w);
	write_strip(w, index.name);
	text_close(w);
}

/* ---- GPU strategy ---- */

void scan_column_groups(struct writer *w) {
	const struct kernel *k = w->k;
	struct frame_names index = frame_names(k->kept);
	struct scope s = { .pointer = "c" };
	unsigned lanes = k->kept - 1u;

	index.name[lanes] = "left";
	index.name[scanned_dim(k)] = "at";
	frame_units(w);
	declare_neutral(w);
	text_open(w, "for (ulong unit = begin; unit < end; unit++)");
	text_line(w, "ulong rest = unit;");
	text_line(w, "const long left = take(&rest, r[%u]) * %u + get_local_id(0);", KERNEL_WORD_PIECES,
		w->t->local_size);
	text_line(w, "if (left >= d%u)", lanes);
	text_line(w, "\tcontinue;");
	frame_indices(w, 0, lanes);
	reduce_range(w);
	declare_carries(w);
	write_before(w, "before", &s, index.name);
	write_groups(w, &s, index.name);
	text_close(w);
}

/* The place of element e of a tile in local memory: a lane's group begins one bank after the last lane's. */
static void write_place(struct writer *w) {
	text_line(w, "const int place = e + e / %u;", KERNEL_GROUP);
}

/* Elements side by side are loaded by lanes side by side; beyond the block they are neutral. */
static void write_tile_loads(struct writer *w, const char *const *index) {
	struct scope s = { .needs = &w->inner, .pointer = "p" };
	unsigned lanes = frame_local(w->k, w->t);

	text_open(w, "for (int e = lane; e < %u; e += %u)", lanes * KERNEL_GROUP, lanes);
	write_place(w);
	text_line(w, "const long at = from + e;");
	text_line(w, "tile[place] = neutral;");
	text_line(w, "if (at >= stop)");
	text_line(w, "\tcontinue;");
	operand_place(w, &w->inner, "p", index);
	value_write(w, &s, LEVEL_ELEMENT);
	text_line(w, "tile[place] = v%u;", w->k->reduced_value);
	value_forget(w, &s, LEVEL_ELEMENT);
	text_close(w);
	text_line(w, "barrier(CLK_LOCAL_MEM_FENCE);");
}

/* Each lane scans its group; then the first one hands the carries on. */
static void write_tile_scan(struct writer *w) {
	const char *type = value_lanes(w);

	text_line(w, "%s group[%u];", type, KERNEL_GROUP);
	text_line(w, "#pragma unroll");
	text_line(w, "for (int i = 0; i < %u; i++)", KERNEL_GROUP);
	text_line(w, "\tgroup[i] = tile[lane * %u + i];", KERNEL_GROUP + 1);
	text_line(w, "scan_values(group);");
	text_line(w, "#pragma unroll");
	text_line(w, "for (int i = 0; i < %u; i++)", KERNEL_GROUP);
	text_line(w, "\ttile[lane * %u + i] = group[i];", KERNEL_GROUP + 1);
	text_line(w, "last[lane] = group[%u];", KERNEL_GROUP - 1);
	text_line(w, "barrier(CLK_LOCAL_MEM_FENCE);");
	text_open(w, "if (lane == 0)");
	text_open(w, "for (int i = 0; i < %u; i++)", frame_local(w->k, w->t));
	text_line(w, "const %s next = last[i];", type);
	text_line(w, "last[i] = carry;");
	combine(w, "carry", "next");
	text_close(w);
	text_close(w);
	text_line(w, "barrier(CLK_LOCAL_MEM_FENCE);");
}

static void write_tile_stores(struct writer *w, const char *const *index) {
	struct scope s = { .needs = &w->outer, .pointer = "q" };
	unsigned lanes = frame_local(w->k, w->t);

	text_open(w, "for (int e = lane; e < %u; e += %u)", lanes * KERNEL_GROUP, lanes);
	write_place(w);
	text_line(w, "const long at = from + e;");
	text_line(w, "if (at >= stop)");
	text_line(w, "\tbreak;");
	operand_place(w, &w->outer, "q", index);
	text_line(w, "const int group = e / %u;", KERNEL_GROUP);
	write_root(w, "tile[place]", "last[group]", "before");
	value_write(w, &s, LEVEL_ELEMENT);
	value_store(w, &s);
	value_forget(w, &s, LEVEL_ELEMENT);
	text_close(w);
	text_line(w, "barrier(CLK_LOCAL_MEM_FENCE);");
}

void scan_row_groups(struct writer *w) {
	const struct kernel *k = w->k;
	struct frame_names index = frame_names(k->kept);
	struct scope s = { .pointer = "c" };
	unsigned lanes = frame_local(w->k, w->t);

	index.name[scanned_dim(k)] = "at";
	text_line(w, "local %s tile[%u], last[%u];", value_lane(k->accumulator), lanes * (KERNEL_GROUP + 1), lanes);
	text_line(w, "const int lane = get_local_id(0);");
	frame_units(w);
	declare_neutral(w);
	text_open(w, "for (ulong unit = begin; unit < end; unit++)");
	text_line(w, "ulong rest = unit;");
	frame_indices(w, 0, k->kept);
	reduce_range(w);
	declare_carries(w);
	write_before(w, "before", &s, index.name);
	text_open(w, "for (long from = start; from < stop; from += %u)", lanes * KERNEL_GROUP);
	write_tile_loads(w, index.name);
	write_tile_scan(w);
	write_tile_stores(w, index.name);
	text_close(w);
	text_close(w);
}
