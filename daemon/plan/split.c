/*
 * Cutting a step in several: because a reduction or scan is longer than a block, or because its kernel
 * does not build. Both leave values in temporaries that the next step loads; neither changes an operation or
 * the order of an accumulation, so results keep their bits.
 */
#include "planner.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Row-major over dims [0, rank) of a draft, skipping none; returns the elements. */
static uint64_t row_major(const int64_t *dims, unsigned rank, int64_t *stride) {
	uint64_t n = 1;

	for (unsigned d = rank; d-- > 0;) {
		stride[d] = (int64_t)n;
		n *= (uint64_t)dims[d];
	}
	return n;
}

int plan_add_temporary(struct plan *p, uint8_t dtype, const int64_t *dims, unsigned rank, struct plan_operand *o) {
	uint64_t n;

	memset(o, 0, sizeof *o);
	n = row_major(dims, rank, o->stride);
	return plan_add_slot(p, n * dtype_info(dtype)->bytes, false, &o->slot);
}

/* ---- blocks ---- */

static void insert_dim(struct draft *d, unsigned dim, int64_t extent) {
	struct kernel *k = &d->kernel;

	memmove(&d->dims[dim + 1], &d->dims[dim], (k->rank - dim) * sizeof *d->dims);
	d->dims[dim] = extent;
	for (unsigned i = 0; i < k->operands; i++) {
		int64_t *s = d->operand[i].stride;

		memmove(&s[dim + 1], &s[dim], (k->rank - dim) * sizeof *s);
		s[dim] = 0;
	}
	k->rank++;
	k->kept++;
}

/* The first half: partial results, one a block, into *partialp. */
static int blocks_before(struct plan *p, const struct draft *d, struct draft *half, struct plan_operand *partialp) {
	const struct kernel *k = &d->kernel;
	unsigned at = k->form == KERNEL_FORM_COLUMN ? k->kept - 1u : k->kept;
	int64_t blocks = (int64_t)((d->extent + KERNEL_BLOCK - 1) / KERNEL_BLOCK);
	struct cut c;
	int r;

	cut_begin(&c, d, half);
	half->kernel.root = KERNEL_REDUCE;
	cut_value(&c, k->root_value);
	insert_dim(half, at, blocks);
	half->kernel.block_dim = (uint8_t)at;
	r = plan_add_temporary(p, k->accumulator, half->dims, half->kernel.kept, partialp);
	draft_store(half, half->kernel.root_value, partialp);
	return r;
}

/* The second half reduces the partial results and goes on where the whole would have. */
static void blocks_after(const struct draft *d, const struct draft *half, const struct plan_operand *partial,
	struct draft *rest) {
	const struct kernel *k = &d->kernel;
	unsigned at = half->kernel.block_dim;
	struct plan_operand o = *partial;
	struct cut c;

	cut_begin(&c, d, rest);
	rest->extent = (uint64_t)half->dims[at];
	rest->kernel.rank = (uint8_t)(k->kept + 1);
	rest->dims[k->kept] = half->dims[at];
	memmove(&o.stride[at], &o.stride[at + 1], (k->kept - at) * sizeof *o.stride);
	o.stride[k->kept] = partial->stride[at];
	cut_import(&c, k->reduced_value, &o);
	cut_value(&c, k->root_value);
	for (uint16_t i = 0; i < k->operands; i++)
		if (k->operand[i].output)
			cut_output(&c, i);
}

/* A part of d in d's form, whatever form its own operands would have. */
static void finish_as(struct draft *part, const struct draft *d, const struct traits *t) {
	draft_finish(part, t);
	if (part->kernel.form == d->kernel.form)
		return;
	part->kernel.form = d->kernel.form;
	draft_access(part, t);
}

static int add_first_half(struct plan *p, const struct draft *d, const struct traits *t, const uint32_t *op,
	struct draft *half, struct plan_operand *partialp) {
	int r = blocks_before(p, d, half, partialp);

	if (r)
		return r;
	finish_as(half, d, t);
	return plan_add_step(p, half, op, 0);
}

/*
 * Blocks that groups of lanes reduce side by side, so that there is no second launch; 0 where others than them would stand
 * idle for it, having enough rows for all, and where there are more blocks than lanes.
 */
static unsigned blocks_of_group(const struct plan *p, const struct draft *d, const struct traits *t) {
	uint64_t blocks = 2, rows = 1;

	while (blocks * KERNEL_BLOCK < d->extent)
		blocks *= 2;
	for (unsigned i = 0; i < d->kernel.kept; i++)
		rows *= (uint64_t)d->dims[i];
	/* The list of generic kernels has none of these. */
	if (t->strategy != STRATEGY_GPU || d->kernel.form == KERNEL_FORM_COLUMN || p->generic)
		return 0;
	return rows <= t->units && blocks <= t->local_size / KERNEL_COLUMNS ? (unsigned)blocks : 0;
}

static int add_reduce_group(struct plan *p, const struct draft *d, unsigned blocks, const uint32_t *op, uint32_t ops) {
	struct draft *whole = malloc(sizeof *whole);
	int r;

	if (!whole)
		return -ENOMEM;
	*whole = *d;
	whole->kernel.blocks = (uint8_t)blocks;
	r = plan_add_step(p, whole, op, ops);
	free(whole);
	return r;
}

static int add_reduce_blocks(struct plan *p, const struct draft *d, const struct traits *t, const uint32_t *op,
	uint32_t ops) {
	unsigned side_by_side = blocks_of_group(p, d, t);
	struct plan_operand partial;
	struct draft *half;
	int r;

	if (side_by_side)
		return add_reduce_group(p, d, side_by_side, op, ops);
	half = calloc(2, sizeof *half);
	if (!half)
		return -ENOMEM;
	r = add_first_half(p, d, t, op, &half[0], &partial);
	if (!r) {
		blocks_after(d, &half[0], &partial, &half[1]);
		draft_finish(&half[1], t);
		r = plan_add_blocks(p, &half[1], t, op, ops);
	}
	free(half);
	return r;
}

/* A dim of an operand to its end, where the scanned one stands. */
static void dim_to_end(int64_t *dims, unsigned at, unsigned rank) {
	int64_t moved = dims[at];

	memmove(&dims[at], &dims[at + 1], (rank - at - 1u) * sizeof *dims);
	dims[rank - 1] = moved;
}

/* Scans what the blocks give, along the dim that counts them, into *scannedp: row-major as *partial is. */
static int scan_totals(struct plan *p, const struct draft *half, const struct plan_operand *partial,
	struct draft *totals, struct plan_operand *scannedp) {
	const struct kernel *k = &half->kernel;
	struct kernel_value root = { .kind = KERNEL_ROOT_VALUE, .dtype = k->accumulator };
	struct plan_operand from = *partial, to;
	int r = plan_add_temporary(p, k->accumulator, half->dims, k->kept, scannedp);

	if (r)
		return r;
	to = *scannedp;
	memset(totals, 0, sizeof *totals);
	totals->kernel = (struct kernel){ .root = KERNEL_SCAN, .rank = k->kept, .kept = (uint8_t)(k->kept - 1),
		.block_dim = 0xff, .op = k->op, .accumulator = k->accumulator, .root_value = KERNEL_NONE };
	totals->extent = (uint64_t)half->dims[k->block_dim];
	memcpy(totals->dims, half->dims, k->kept * sizeof *totals->dims);
	dim_to_end(totals->dims, k->block_dim, k->kept);
	dim_to_end(from.stride, k->block_dim, k->kept);
	dim_to_end(to.stride, k->block_dim, k->kept);
	totals->kernel.reduced_value = draft_load(totals, k->accumulator, &from);
	totals->kernel.root_value = draft_value(totals, root);
	draft_store(totals, totals->kernel.root_value, &to);
	return 0;
}

/* The whole scan again, block by block, each beginning with what the scanned totals carry to it. */
static void scan_with_carry(const struct draft *d, const struct draft *half, const struct plan_operand *scanned,
	struct draft *rest) {
	const struct kernel *k = &d->kernel;
	struct cut c;

	cut_begin(&c, d, rest);
	cut_value(&c, k->root_value);
	for (uint16_t i = 0; i < k->operands; i++)
		if (k->operand[i].output)
			cut_output(&c, i);
	insert_dim(rest, half->kernel.block_dim, half->dims[half->kernel.block_dim]);
	rest->kernel.block_dim = half->kernel.block_dim;
	rest->kernel.carry = (uint8_t)draft_operand(rest, k->accumulator, scanned);
}

static int add_scan_blocks(struct plan *p, const struct draft *d, const struct traits *t, const uint32_t *op,
	uint32_t ops) {
	struct draft *part = calloc(3, sizeof *part), *half = part, *totals = part + 1, *rest = part + 2;
	struct plan_operand partial, scanned;
	int r = part ? add_first_half(p, d, t, op, half, &partial) : -ENOMEM;

	if (!r)
		r = scan_totals(p, half, &partial, totals, &scanned);
	if (!r) {
		draft_finish(totals, t);
		r = plan_add_blocks(p, totals, t, op, 0);
	}
	if (!r) {
		scan_with_carry(d, half, &scanned, rest);
		if (rest->full)
			r = -EOVERFLOW;
	}
	if (!r) {
		finish_as(rest, d, t);
		r = plan_add_step(p, rest, op, ops);
	}
	free(part);
	return r;
}

int plan_add_blocks(struct plan *p, const struct draft *d, const struct traits *t, const uint32_t *op,
	uint32_t ops) {
	if (d->extent > KERNEL_BLOCK && d->kernel.root == KERNEL_REDUCE)
		return add_reduce_blocks(p, d, t, op, ops);
	if (d->extent > KERNEL_BLOCK && d->kernel.root == KERNEL_SCAN)
		return add_scan_blocks(p, d, t, op, ops);
	if (d->kernel.root == KERNEL_SORT)
		return plan_add_sort(p, d, t, op, ops);
	return plan_add_step(p, d, op, ops);
}

/* ---- a kernel that does not build ---- */

void draft_of_step(const struct plan_step *s, struct draft *d) {
	memset(d, 0, sizeof *d);
	d->kernel = *s->kernel;
	memcpy(d->dims, s->dims, sizeof d->dims);
	memcpy(d->operand, s->operand, s->kernel->operands * sizeof *s->operand);
	memcpy(d->scalar, s->scalar, s->kernel->scalars * sizeof *s->scalar);
	d->extent = s->extent;
}

static bool is_computed(const struct kernel_value *v) {
	return v->kind == KERNEL_OP || v->kind == KERNEL_REDUCED || kernel_value_gathers(v);
}

/* Is there a value that the root is made of, one an element? */
static bool reduces(const struct kernel *k) {
	return k->root == KERNEL_REDUCE || k->root == KERNEL_SCAN || k->root == KERNEL_SORT;
}

static unsigned count_ops(const struct kernel *k, unsigned first, unsigned end) {
	unsigned n = 0;

	for (unsigned v = first; v < end; v++)
		n += is_computed(&k->value[v]);
	return n;
}

/*
 * The first value of the second half: for a map or rows the one after half of its operations; for a root
 * with operations after it, the one after the root; for a reduction or scan with a prologue, the root.
 * 0 where the step is a single operation.
 */
static unsigned split_point(const struct kernel *k) {
	unsigned ops = count_ops(k, 0, k->values), seen = 0, v;

	if (k->root_value != KERNEL_NONE) {
		if (count_ops(k, k->root_value, k->values))
			return k->root_value + 1u;
		return count_ops(k, 0, k->root_value) && (reduces(k) || kernel_computes_factor(k)) ? k->root_value : 0;
	}
	if (ops < 2)
		return 0;
	for (v = 0; seen < ops / 2; v++)
		seen += is_computed(&k->value[v]);
	return v;
}

static bool is_argument(const struct kernel_value *v, unsigned value) {
	for (unsigned i = 0; i < kernel_value_args(v); i++)
		if (v->arg[i] == value)
			return true;
	return false;
}

static bool used_after(const struct kernel *k, unsigned value, unsigned point) {
	for (unsigned v = point; v < k->values; v++)
		if (is_argument(&k->value[v], value))
			return true;
	return point <= k->root_value && k->root_value < k->values && reduces(k) &&
		k->reduced_value == value;
}

/* Both halves of one split; `first` ends with temporaries that `second` imports. */
struct halves {
	struct draft whole, first, second;
	struct cut before, after;
};

/* What the second half iterates over: after a root, only the kept dims, as a map; after a scan all. */
static void second_space(struct halves *h, bool after_root) {
	struct kernel *k = &h->second.kernel;

	if (!after_root)
		return;
	if (k->root != KERNEL_SCAN) {
		k->rank = kernel_inner_dims(k) ? (uint8_t)(k->rank - kernel_inner_dims(k)) : k->kept;
		k->block_dim = 0xff;
	}
	k->root = kernel_keeps_rows(&h->whole.kernel) ? KERNEL_ROWS : KERNEL_MAP;
	k->kept = k->root == KERNEL_ROWS ? (uint8_t)(k->rank - 1u) : 0;
	k->inputs = 0;
	k->causal = k->packed = k->alone = false;
	k->blocks = 0;
	k->hidden = 0;
	k->op = 0;
	k->accumulator = 0;
	h->second.extent = 0;
	if (!k->rank) {
		k->rank = 1;
		h->second.dims[0] = 1;
	}
}

/* The first half of a reduction's prologue is a map over all dims. */
static void first_space(struct halves *h, bool before_root) {
	struct kernel *k = &h->first.kernel;

	if (!before_root)
		return;
	k->root = KERNEL_MAP;
	k->kept = 0;
	k->op = 0;
	k->accumulator = 0;
	k->stage = 0;
	k->blocks = 0;
	k->descending = false;
	h->first.extent = 0;
}

/* What is computed once an element, before or after a scan: the map has no dim that counts blocks. */
void draft_drop_blocks(struct draft *d) {
	struct kernel *k = &d->kernel;
	unsigned at = k->block_dim;

	if (k->root != KERNEL_MAP || at == 0xff)
		return;
	memmove(&d->dims[at], &d->dims[at + 1], (k->rank - at - 1u) * sizeof *d->dims);
	for (unsigned i = 0; i < k->operands; i++)
		memmove(&d->operand[i].stride[at], &d->operand[i].stride[at + 1],
			(k->rank - at - 1u) * sizeof *d->operand[i].stride);
	k->rank--;
	k->block_dim = 0xff;
}

/* A temporary over the dims of a draft; where one counts blocks it does not move along that. */
static int temporary_over(struct plan *p, uint8_t dtype, const struct draft *d, struct plan_operand *o) {
	unsigned at = d->kernel.block_dim;
	struct draft plain = *d;
	int r;

	if (at != 0xff)
		memmove(&plain.dims[at], &plain.dims[at + 1], (d->kernel.rank - at - 1u) * sizeof *plain.dims);
	r = plan_add_temporary(p, dtype, plain.dims, d->kernel.rank - (at != 0xff), o);
	if (at != 0xff) {
		memmove(&o->stride[at + 1], &o->stride[at], (d->kernel.rank - at - 1u) * sizeof *o->stride);
		o->stride[at] = 0;
	}
	return r;
}

/* Moves one value across: stored by the first half, loaded by the second. */
static int cross(struct plan *p, struct halves *h, uint16_t value) {
	const struct kernel *k = &h->whole.kernel;
	bool kept = k->root == KERNEL_ROWS && k->value[value].space == KERNEL_SPACE_KEPT;
	struct plan_operand o;
	int r;

	if (kept)
		r = plan_add_temporary(p, k->value[value].dtype, h->whole.dims, k->kept, &o);
	else
		r = temporary_over(p, k->value[value].dtype, &h->second, &o);
	if (r)
		return r;
	/* Of a number alone the second half makes a dim of 1; the first one's in its place is reduced, and the number does not step along that. */
	if (k->root == KERNEL_REDUCE && !k->kept && h->second.kernel.root == KERNEL_MAP)
		o.stride[0] = 0;
	draft_store(&h->first, cut_value(&h->before, value), &o);
	cut_import(&h->after, value, &o);
	return 0;
}

/* A sort's results, and the memory that it works in, which is of other types than what it stores. */
static void split_sort_outputs(struct halves *h) {
	const struct kernel *k = &h->whole.kernel;
	struct kernel *to = &h->second.kernel;

	to->carry = (uint8_t)to->operands;
	for (unsigned i = 0; i < k->operands; i++) {
		uint16_t operand;

		if (!k->operand[i].output)
			continue;
		operand = draft_operand(&h->second, k->operand[i].dtype, &h->whole.operand[i]);
		to->operand[operand].output = true;
		to->operand[operand].value = to->root_value;
		to->carry += i < k->carry;
	}
}

static int split_values(struct plan *p, struct halves *h, unsigned point) {
	const struct kernel *k = &h->whole.kernel;
	int r = 0;

	if (k->root_value != KERNEL_NONE && point > k->root_value)
		cut_value(&h->before, k->root_value);
	for (uint16_t v = 0; !r && v < point; v++)
		if ((is_computed(&k->value[v]) || k->value[v].kind == KERNEL_ROOT_VALUE) && used_after(k, v, point))
			r = cross(p, h, v);
	if (k->root_value != KERNEL_NONE && point <= k->root_value)
		cut_value(&h->after, k->root_value);
	if (!r && k->root == KERNEL_SORT) {
		split_sort_outputs(h);
		return 0;
	}
	for (uint16_t i = 0; !r && i < k->operands; i++)
		if (k->operand[i].output && !kernel_works_in(k, i))
			cut_output(k->operand[i].value < point ? &h->before : &h->after, i);
	return r;
}

/* The product that the rows before another are made of, as a kernel of its own: its rows lie in memory then. */
static int split_scores(struct plan *p, struct halves *h) {
	struct kernel *k = &h->whole.kernel, *scores = &h->first.kernel;
	unsigned m = k->rank - 3u, columns = k->inputs * (unsigned)k->width;
	struct plan_operand left = h->whole.operand[SCORES_LEFT], right = h->whole.operand[SCORES_RIGHT], o;
	int64_t depth = kernel_scores_depth(k, right.stride[m + 2]);
	int r;

	h->first.dims[m + 1] = h->whole.dims[m + 2];
	h->first.dims[m + 2] = depth;
	h->first.extent = (uint64_t)depth;
	r = plan_add_temporary(p, k->accumulator, h->first.dims, m + 2, &o);
	if (r)
		return r;
	scores->packed = true;
	scores->inputs = 0;
	left.stride[m + 2] = 1;
	right.stride[m] = right.stride[m + 2];
	right.stride[m + 1] = 1;
	right.stride[m + 2] = columns;
	draft_operand(&h->first, k->operand[SCORES_LEFT].dtype, &left);
	draft_operand(&h->first, k->operand[SCORES_RIGHT].dtype, &right);
	scores->root_value = draft_value(&h->first, (struct kernel_value){ .kind = KERNEL_ROOT_VALUE, .dtype = k->accumulator });
	draft_store(&h->first, scores->root_value, &o);
	o.stride[m + 2] = o.stride[m + 1];
	o.stride[m + 1] = 0;
	k->scored = k->operand[SCORES_WORK].output = false;
	h->whole.operand[SCORES_WORK] = o;
	h->second.kernel.inputs = 0;
	cut_value(&h->after, k->root_value);
	for (uint16_t i = 1; i < k->operands; i++)
		if (k->operand[i].output)
			cut_output(&h->after, i);
	return 0;
}

/* What computes the first factor becomes a kernel of its own, which leaves it in memory. */
static int split_before(struct plan *p, struct halves *h) {
	struct kernel *k = &h->whole.kernel, *rows = &h->first.kernel;
	unsigned n = k->rank - 2u;
	struct plan_operand o;
	int r;

	rows->root = KERNEL_ROWS;
	rows->op = 0;
	rows->packed = false;
	rows->kept = (uint8_t)(k->rank - 1u);
	h->first.dims[n] = 1;
	r = plan_add_temporary(p, k->operand[0].dtype, h->first.dims, k->rank, &o);
	if (r)
		return r;
	o.stride[n] = 0;
	draft_store(&h->first, cut_value(&h->before, k->operand[0].value), &o);
	k->operand[0].output = false;
	h->whole.operand[0] = o;
	cut_value(&h->after, k->root_value);
	for (uint16_t i = 0; i < k->operands; i++)
		if (k->operand[i].output)
			cut_output(&h->after, i);
	return 0;
}

/* Half of the work on rows may hold no reduction: then it is a map over all dims or the kept ones. */
void draft_settle_rows(struct draft *d) {
	struct kernel *k = &d->kernel;
	unsigned outputs[2] = { 0, 0 };

	if (k->root != KERNEL_ROWS)
		return;
	for (unsigned v = 0; v < k->values; v++)
		if (k->value[v].kind == KERNEL_REDUCED)
			return;
	for (unsigned i = 0; i < k->operands; i++)
		if (k->operand[i].output)
			outputs[k->value[k->operand[i].value].space]++;
	if (outputs[KERNEL_SPACE_ROW] && outputs[KERNEL_SPACE_KEPT])
		return;
	if (outputs[KERNEL_SPACE_KEPT])
		k->rank = k->kept;
	if (!k->rank)
		d->dims[k->rank++] = 1;
	for (unsigned v = 0; v < k->values; v++)
		k->value[v].space = 0;
	k->root = KERNEL_MAP;
	k->kept = k->accumulator = 0;
	k->long_rows = false;
	d->extent = 0;
}

/* The halves are of general patterns; the second tells what both saved. */
static void mark_halves(struct plan *p, const struct plan_step *whole) {
	struct plan_step *first = &p->step[p->steps - 2], *second = &p->step[p->steps - 1];

	first->pattern = (uint8_t)pattern_of_kernel(first->kernel);
	second->pattern = (uint8_t)pattern_of_kernel(second->kernel);
	second->bytes_fused = first->bytes_read + first->bytes_written + second->bytes_read + second->bytes_written;
	second->bytes_unfused = whole->bytes_unfused;
	second->buffers_eliminated = whole->buffers_eliminated ? whole->buffers_eliminated - 1 : 0;
}

/* The halves of h->whole, not finished: see planner.h. */
static int split_whole(struct plan *p, struct halves *h, unsigned point) {
	struct kernel *k = &h->whole.kernel;
	bool after = k->root_value != KERNEL_NONE && point > k->root_value;
	int r;

	cut_begin(&h->before, &h->whole, &h->first);
	cut_begin(&h->after, &h->whole, &h->second);
	if (k->scored) {
		r = split_scores(p, h);
	} else if (!after && kernel_computes_factor(k)) {
		r = split_before(p, h);
	} else {
		first_space(h, k->root_value != KERNEL_NONE && !after);
		second_space(h, after);
		r = split_values(p, h, point);
	}
	if (r)
		return r;
	draft_drop_blocks(&h->first);
	draft_drop_blocks(&h->second);
	draft_settle_rows(&h->first);
	draft_settle_rows(&h->second);
	return 0;
}

static int split_step(struct plan *p, const struct plan_step *s, const struct traits *t, struct halves *h) {
	uint32_t ops = s->ops > 1 ? s->ops / 2 : 0;
	unsigned point;
	int r;

	draft_of_step(s, &h->whole);
	point = split_point(&h->whole.kernel);
	if (!point && !h->whole.kernel.scored)
		return FAULT_BUILD;
	r = split_whole(p, h, point);
	if (r)
		return r;
	draft_finish(&h->first, t);
	draft_finish(&h->second, t);
	r = plan_add_step(p, &h->first, s->op, ops);
	if (!r)
		r = plan_add_step(p, &h->second, s->op + ops, s->ops - ops);
	if (!r)
		mark_halves(p, s);
	return r;
}

/* Where rows are cut so that a reduction stands alone: before the first one, or behind it. */
static unsigned reduction_point(const struct kernel *k) {
	unsigned v = 0;

	while (v < k->values && k->value[v].kind != KERNEL_REDUCED)
		v++;
	if (v == k->values)
		return 0;
	if (count_ops(k, 0, v))
		return v;
	return count_ops(k, v + 1u, k->values) ? v + 1u : 0;
}

int draft_split(struct plan *p, const struct draft *d, struct draft *first, struct draft *second) {
	struct traits width = { .width = d->kernel.width };
	struct halves *h = malloc(sizeof *h);
	unsigned point;
	int r;

	if (!h)
		return -ENOMEM;
	h->whole = *d;
	point = d->kernel.root == KERNEL_ROWS ? reduction_point(&d->kernel) : split_point(&d->kernel);
	/* A factor that is only copied counts as no operation. */
	if (!point && kernel_computes_factor(&d->kernel))
		point = d->kernel.root_value;
	r = point || d->kernel.scored ? split_whole(p, h, point) : FAULT_BUILD;
	if (!r) {
		*first = h->first;
		*second = h->second;
		/* Panels are as wide as the product's tiles. */
		if (first->kernel.root == KERNEL_MATMUL)
			draft_finish(first, &width);
		if (second->kernel.root == KERNEL_MATMUL)
			draft_finish(second, &width);
	}
	free(h);
	return r;
}

static void copy_facts(struct plan_step *to, const struct plan_step *from) {
	to->pattern = from->pattern;
	to->named = from->named;
	to->bytes_fused = from->bytes_fused;
	to->bytes_unfused = from->bytes_unfused;
	to->buffers_eliminated = from->buffers_eliminated;
}

int plan_copy_step(struct plan *p, const struct plan_step *s) {
	struct draft *d = malloc(sizeof *d);
	int r;

	if (!d)
		return -ENOMEM;
	draft_of_step(s, d);
	r = plan_add_step(p, d, s->op, s->ops);
	if (!r)
		copy_facts(&p->step[p->steps - 1], s);
	free(d);
	return r;
}

/* Numbers that the plan depends on, and what was found. */
static int copy_tests(const struct plan *from, struct plan *to) {
	to->patterns_cut = from->patterns_cut;
	if (from->found) {
		to->found = arena_alloc(&to->arena, from->book->patterns * sizeof *to->found);
		if (!to->found)
			return -ENOMEM;
		memcpy(to->found, from->found, from->book->patterns * sizeof *to->found);
	}
	if (!from->tests)
		return 0;
	to->test = arena_alloc(&to->arena, from->tests * sizeof *to->test);
	if (!to->test)
		return -ENOMEM;
	memcpy(to->test, from->test, from->tests * sizeof *to->test);
	to->tests = from->tests;
	return 0;
}

int plan_copy_lists(const struct plan *from, struct plan *to) {
	uint32_t slot;
	int r = 0;

	for (uint32_t i = 0; !r && i < from->slots; i++) {
		r = plan_add_slot(to, from->slot[i].bytes, from->slot[i].output, &slot);
		if (!r)
			to->slot[slot].parts = from->slot[i].parts;
		if (!r)
			to->slot[slot].packed = from->slot[i].packed;
	}
	to->output = calloc(from->outputs + 1u, sizeof *to->output);
	to->constant = calloc(from->constants + 1u, sizeof *to->constant);
	if (r || !to->output || !to->constant)
		return -ENOMEM;
	memcpy(to->output, from->output, from->outputs * sizeof *to->output);
	if (from->constants)
		memcpy(to->constant, from->constant, from->constants * sizeof *to->constant);
	to->outputs = from->outputs;
	to->constants = from->constants;
	to->scalars = from->scalars;
	to->leaves = from->leaves;
	to->ops = from->ops;
	to->unfused_steps = from->unfused_steps;
	to->compared = from->compared;
	to->buffers_eliminated = from->buffers_eliminated;
	to->bytes_not_moved = from->bytes_not_moved;
	to->patterns_off = from->patterns_off;
	to->book = book_ref(from->book);
	r = copy_tests(from, to);
	if (r)
		return r;
	return plan_copy_description(from, to);
}

/* What goes through memory between the halves is no longer kept out of it. Of a plan that saved nothing it is not known what it would be without fusion. */
static void count_cut(const struct plan *from, struct plan *to) {
	if (from->bytes_not_moved)
		plan_saved(to, from->bytes_not_moved + plan_moved(from));
}

int plan_split(const struct plan *p, uint32_t step, const struct traits *t, struct plan **planp, struct fault *f) {
	struct plan *to = calloc(1, sizeof *to);
	struct halves *h = calloc(1, sizeof *h);
	int r = to && h ? 0 : -ENOMEM;

	if (!r) {
		to->references = 1;
		r = plan_copy_lists(p, to);
	}
	for (uint32_t i = 0; !r && i < p->steps; i++)
		r = i == step ? split_step(to, &p->step[i], t, h) : plan_copy_step(to, &p->step[i]);
	free(h);
	if (r == FAULT_BUILD)
		fault_set(f, FAULT_BUILD, "a kernel of a single operation cannot be built by the device's compiler");
	if (r) {
		if (to)
			plan_unref(to);
		return r;
	}
	count_cut(p, to);
	plan_lifetimes(to);
	if (plan_is_broken(to, "the cut of a step")) {
		plan_unref(to);
		return fault_set(f, FAULT_INTERNAL, "a kernel that could not be built was cut in two, and that broke a rule of plans");
	}
	*planp = to;
	return 0;
}
