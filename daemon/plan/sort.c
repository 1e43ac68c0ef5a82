/*
 * The steps of a sort: whole rows where there are enough of them or they are short, else blocks of rows, which are
 * then merged two by two. Every way gives the same result, because a stable sort has one.
 *
 * Between the steps elements lie in temporaries, row-major; kernel.h says what they are.
 */
#include "planner.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	/* CPU strategy: shorter rows are not worth a merge. */
	SORT_ROW = 16384,
	/* Elements of a block: larger ones take more time to scatter than the merges that they spare. */
	SORT_BLOCK = 1 << 22,
	/* Blocks or rows a compute unit, so that one that is late does not leave the others idle. */
	SORT_EACH_UNIT = 2,
};

struct sorting {
	struct plan *p;
	const struct draft *whole;
	const struct traits *t;
	const uint32_t *op;
	uint64_t rows, n;
	struct draft part;                 /* the step that is made */
};

static uint64_t ceil_divide(uint64_t a, uint64_t b) {
	return (a + b - 1) / b;
}

/* Elements of a block; n: rows are sorted whole. */
static uint64_t block_of(const struct sorting *s) {
	uint64_t units = (s->t->units ? s->t->units : 1) * (uint64_t)SORT_EACH_UNIT, blocks = 1;

	if (s->t->strategy == STRATEGY_GPU)
		return s->n < kernel_sort_tile(&s->whole->kernel, s->t) ? s->n : kernel_sort_tile(&s->whole->kernel, s->t);
	if (s->n <= SORT_ROW || (s->rows >= units && s->n <= SORT_BLOCK))
		return s->n;
	while (blocks * s->rows < units || ceil_divide(s->n, blocks) > SORT_BLOCK)
		blocks *= 2;
	return ceil_divide(s->n, blocks);
}

/* Appends an operand of elements between steps. */
static int add_elements(struct sorting *s, uint8_t dtype, const struct plan_operand *o, bool output) {
	struct kernel *k = &s->part.kernel;
	uint16_t operand = draft_operand(&s->part, dtype, o);

	if (s->part.full)
		return -EOVERFLOW;
	k->operand[operand].output = output;
	k->operand[operand].value = output ? k->root_value : KERNEL_NONE;
	return 0;
}

/* ... of memory of its own. */
static int add_memory(struct sorting *s, uint8_t dtype, struct plan_operand *o, uint64_t bytes) {
	int r = plan_add_slot(s->p, bytes, false, &o->slot);

	return r ? r : add_elements(s, dtype, o, true);
}

/* Row-major over the rows of a part. */
static void elements_operand(const struct sorting *s, struct plan_operand *o) {
	const struct kernel *k = &s->part.kernel;
	int64_t words = (int64_t)(kernel_sort_bytes(k) / dtype_info(kernel_sort_dtype(k))->bytes);

	memset(o->stride, 0, sizeof o->stride);
	o->offset = 0;
	for (unsigned d = k->rank; d-- > 0;) {
		o->stride[d] = words;
		words *= s->part.dims[d];
	}
}

/* Parts of a step that have values of their own to be put together with their places. */
static uint64_t chunks(const struct sorting *s) {
	uint64_t items = kernel_sort_items(s->t);

	if (s->part.kernel.stage == KERNEL_STAGE_BLOCKS)
		return s->rows * ceil_divide(s->n, s->part.extent);
	return items < s->rows ? items : s->rows;
}

static int add_chunks(struct sorting *s) {
	struct plan_operand o = { .slot = PLAN_NONE };
	uint8_t dtype = s->part.kernel.accumulator;

	return add_memory(s, dtype, &o, chunks(s) * KERNEL_SORT_CHUNK * dtype_info(dtype)->bytes);
}

/* What items work in: two rows each, or all blocks and as much again. The first is *firstp. */
static int add_work(struct sorting *s, struct plan_operand *firstp) {
	struct kernel *k = &s->part.kernel;
	bool cpu = s->t->strategy == STRATEGY_CPU, blocks = k->stage == KERNEL_STAGE_BLOCKS;
	uint64_t row = s->n * kernel_sort_bytes(k), bytes = row * (blocks ? s->rows : chunks(s));
	struct plan_operand second;
	int r = 0;

	k->carry = (uint8_t)k->operands;
	*firstp = (struct plan_operand){ .slot = PLAN_NONE };
	if (blocks)
		elements_operand(s, firstp);
	second = *firstp;
	if (blocks || cpu)
		r = add_memory(s, kernel_sort_dtype(k), firstp, bytes);
	if (!r && cpu)
		r = add_memory(s, kernel_sort_dtype(k), &second, bytes);
	return !r && cpu && k->op == OP_argsort ? add_chunks(s) : r;
}

static int add_step(struct sorting *s, uint32_t ops) {
	draft_finish(&s->part, s->t);
	return plan_add_step(s->p, &s->part, s->op, ops);
}

static int add_rows(struct sorting *s, uint32_t ops) {
	struct plan_operand work;
	int r;

	s->part = *s->whole;
	s->part.kernel.stage = KERNEL_STAGE_ROWS;
	s->part.extent = s->n;
	r = add_work(s, &work);
	return r ? r : add_step(s, ops);
}

static int add_blocks(struct sorting *s, uint64_t block, struct plan_operand *blocksp) {
	struct cut c;
	int r;

	cut_begin(&c, s->whole, &s->part);
	s->part.kernel.stage = KERNEL_STAGE_BLOCKS;
	s->part.extent = block;
	cut_value(&c, s->whole->kernel.root_value);
	r = add_work(s, blocksp);
	return r ? r : add_step(s, 0);
}

/* A step that reads elements from *from. */
static int begin_merge(struct sorting *s, uint8_t stage, uint64_t run, const struct plan_operand *from) {
	const struct kernel *k = &s->whole->kernel;
	struct kernel *part = &s->part.kernel;
	struct plan_operand o = *from;

	memset(&s->part, 0, sizeof s->part);
	*part = (struct kernel){ .root = KERNEL_SORT, .stage = stage, .rank = k->rank, .kept = k->kept, .block_dim = 0xff,
		.op = k->op, .accumulator = k->accumulator, .descending = k->descending };
	memcpy(s->part.dims, s->whole->dims, sizeof s->part.dims);
	s->part.extent = run;
	part->root_value = draft_value(&s->part, k->value[k->root_value]);
	part->reduced_value = part->root_value;
	elements_operand(s, &o);
	return add_elements(s, kernel_sort_dtype(k), &o, false);
}

static int add_merge(struct sorting *s, uint64_t run, const struct plan_operand *from, struct plan_operand *top) {
	struct kernel *k = &s->part.kernel;
	int r = begin_merge(s, KERNEL_STAGE_MERGE, run, from);

	elements_operand(s, top);
	if (!r)
		r = add_memory(s, kernel_sort_dtype(k), top, s->rows * s->n * kernel_sort_bytes(k));
	if (r)
		return r;
	draft_collapse(&s->part);
	return add_step(s, 0);
}

static int add_last(struct sorting *s, uint64_t run, const struct plan_operand *from, uint32_t ops) {
	const struct kernel *k = &s->whole->kernel;
	int r = begin_merge(s, KERNEL_STAGE_LAST, run, from);

	for (unsigned i = 0; !r && i < k->operands; i++)
		if (k->operand[i].output)
			draft_store(&s->part, s->part.kernel.root_value, &s->whole->operand[i]);
	return r ? r : add_step(s, ops);
}

static int add_merges(struct sorting *s, uint64_t block, uint32_t ops) {
	struct plan_operand from = { 0 }, to;
	int r = add_blocks(s, block, &from);

	for (; !r && 2 * block < s->n; block *= 2) {
		r = add_merge(s, block, &from, &to);
		from = to;
	}
	return r ? r : add_last(s, block, &from, ops);
}

int plan_add_sort_rows(struct plan *p, const struct draft *d, const struct traits *t, const uint32_t *op) {
	struct sorting *s = malloc(sizeof *s);
	int r;

	if (!s)
		return -ENOMEM;
	*s = (struct sorting){ .p = p, .whole = d, .t = t, .op = op };
	s->n = (uint64_t)d->dims[d->kernel.rank - 1];
	s->rows = draft_elements(d) / s->n;
	r = s->n > SORT_BLOCK ? -EOVERFLOW : add_rows(s, 0);
	free(s);
	return r;
}

int plan_add_sort(struct plan *p, const struct draft *d, const struct traits *t, const uint32_t *op, uint32_t ops) {
	struct sorting *s = malloc(sizeof *s);
	uint64_t block;
	int r;

	if (!s)
		return -ENOMEM;
	*s = (struct sorting){ .p = p, .whole = d, .t = t, .op = op };
	s->n = (uint64_t)d->dims[d->kernel.rank - 1];
	s->rows = draft_elements(d) / s->n;
	block = block_of(s);
	r = block == s->n ? add_rows(s, ops) : add_merges(s, block, ops);
	free(s);
	return r;
}
