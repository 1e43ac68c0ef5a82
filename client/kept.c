/*
 * Gradients of operations whose own kernels keep something out of memory: attention, whose scores the backward pass
 * does not keep either, and pooling by the largest, whose places it finds again.
 *
 * Attention goes back in blocks of queries: of each the weights are computed again from q and k and, with the gradient of
 * the scores, used for the block's queries and added to what the keys and values get. So no array is larger than the
 * scores of a block, and the planner goes through block after block where that takes less memory (plan/order.c). With p the
 * weights, d(v) = p' g, d(s) = p (g v' - sum(g y)), d(q) = d(s) k scale and d(k) = d(s)' q scale. A mask that wants a
 * gradient is as large as the scores itself and takes the text's way.
 */
#include <errno.h>
#include <stdlib.h>

#include "rule.h"

enum {
	/* Scores of a block, of each matrix: 1 MiB of f32 stays in the caches of any device. */
	BLOCK_SCORES = 1 << 18,
	QUERIES_LEAST = 16,

	OPERAND_Q = 0,
	OPERAND_K,
	OPERAND_V,
	OPERAND_MASK,
};

/* Over q, k, v, g, y, mask; `diagonal` is the block's first query. */
static const char names[] = "q, k, v, g, y, mask";
#define WEIGHTS \
	"z = given(scale, scale, rsqrt(extent(q, -1))); s = matmul(q, transpose(k)) * z; " \
	"m = given(mask, given(is_bool(mask), where(mask, s, -inf), s + mask), s); " \
	"c = given(causal, where(index(s, -1) - index(s, -2) <= diagonal, m, -inf), m); p = softmax(c, axes=-1); "
#define SCORES WEIGHTS "d = p * (matmul(g, transpose(v)) - sum(g * y, -1)) * z; "

static const char *const texts[] = {
	[OPERAND_Q] = SCORES "matmul(d, k)",
	[OPERAND_K] = SCORES "matmul(transpose(d), q)",
	[OPERAND_V] = WEIGHTS "matmul(transpose(p), g)",
};

static int64_t extent(const struct value *v, unsigned from_last) {
	return v->type.dims[v->type.rank - from_last];
}

/* Rows from start on of the axis before the last; what has one row for all stays. */
static struct value *rows_of(struct site *s, struct value *a, int64_t start, int64_t count) {
	unsigned axis = a->type.rank - 2U;

	if (a->type.rank < 2 || a->type.dims[axis] == 1 || count == a->type.dims[axis])
		return a;
	return site_slice(s, a, axis, start, count, 1);
}

struct block {
	const struct rule_call *call;
	int64_t start, count;
	struct value *operand[6];
	unsigned operands;
};

static int block_take(struct block *b) {
	const struct rule_call *c = b->call;
	struct value *const all[] = { c->in[OPERAND_Q], c->in[OPERAND_K], c->in[OPERAND_V], c->g, c->y,
		c->arity > OPERAND_MASK ? c->in[OPERAND_MASK] : NULL };

	b->operands = c->arity > OPERAND_MASK ? 6 : 5;
	for (unsigned i = 0; i < b->operands; i++)
		b->operand[i] = i == OPERAND_K || i == OPERAND_V ? all[i] : rows_of(c->site, all[i], b->start, b->count);
	return c->site->failed;
}

static int block_apply(const struct block *b, unsigned which, struct value **vp) {
	const struct rule_call *c = b->call;
	struct op_attr attr = { .number = c->attr->number, .flag = c->attr->flag, .whole = b->start };
	struct expr *e = rule_text(c->site, texts[which], names);
	int failed = e ? site_expand(c->site, "attention", e, b->operands, b->operand, &attr, NULL, vp) : c->site->failed;

	free(e);
	return failed;
}

static struct value *add(struct site *s, struct value *sum, struct value *v) {
	return sum ? site_binary(s, OP_add, sum, v) : v;
}

/* One behind the other along the axis before the last, as many at a time as an operation takes. */
static struct value *join(struct site *s, unsigned count, struct value **part) {
	while (count > 1) {
		unsigned left = 0;

		for (unsigned i = 0; i < count; i += LIMIT_OPERANDS) {
			unsigned n = count - i < LIMIT_OPERANDS ? count - i : LIMIT_OPERANDS;

			part[left++] = n == 1 || !part[i] ? part[i]
							  : site_axis(s, OP_concat, part[i]->type.rank - 2U, n, part + i);
		}
		count = left;
	}
	return part[0];
}

static int back_in_blocks(const struct rule_call *c, unsigned blocks, int64_t rows, struct value **part, struct value **gradp) {
	int64_t queries = extent(c->in[OPERAND_Q], 2);
	int failed = 0;

	for (unsigned i = 0; !failed && i < blocks; i++) {
		struct block b = { .call = c, .start = i * rows };
		struct value *made = NULL;

		b.count = queries - b.start < rows ? queries - b.start : rows;
		failed = block_take(&b);
		if (!failed && c->tracked >> OPERAND_Q & 1)
			failed = block_apply(&b, OPERAND_Q, &part[i]);
		for (unsigned k = OPERAND_K; !failed && k <= OPERAND_V; k++) {
			if (!(c->tracked >> k & 1))
				continue;
			failed = block_apply(&b, k, &made);
			gradp[k] = failed ? NULL : add(c->site, gradp[k], made);
		}
	}
	if (!failed && c->tracked >> OPERAND_Q & 1)
		gradp[OPERAND_Q] = join(c->site, blocks, part);
	return failed ? failed : c->site->failed;
}

static int back_attention(const struct rule_call *c, struct value **gradp) {
	int64_t queries = extent(c->in[OPERAND_Q], 2), rows = BLOCK_SCORES / extent(c->in[OPERAND_K], 2);
	struct value **part;
	unsigned blocks;
	int failed;

	if (c->tracked >> OPERAND_MASK & 1)
		return RULE_APART;
	if (!shape_elements(&c->g->type))
		return 0;
	rows = rows < QUERIES_LEAST ? QUERIES_LEAST : rows;
	blocks = (unsigned)((queries + rows - 1) / rows);
	part = calloc(blocks, sizeof(struct value *));
	failed = part ? back_in_blocks(c, blocks, rows, part, gradp) : -ENOMEM;
	free(part);
	return failed;
}

/* ---- pooling ---- */

/* Windows of x, their places on the last axes; and how the largest element's place, the first of equal ones, meets g. */
static const char unfolded[] = "unfold(border(x, padding, -inf), window, stride)";
static const char chosen[] = "n = length(shape(w)); a = range(length(shape(g)), n); "
	"where(index(w, a) == insert(argmax(w, axes=a), a), insert(g, a), 0)";

/* The gradient by the windows; they themselves go back through their views. */
static int back_max_pool(const struct rule_call *c, struct value **gradp) {
	struct site *s = c->site;
	struct expr *e = rule_text(s, unfolded, "x"), *choose = rule_text(s, chosen, "g, w");
	struct value *w = NULL, *g = NULL;
	bool tracks = s->recording->tracks;
	int failed = e && choose ? 0 : s->failed;

	s->recording->tracks = true;
	if (!failed)
		failed = site_expand(s, "max_pool", e, 1, c->in, c->attr, NULL, &w);
	s->recording->tracks = tracks;
	if (!failed)
		failed = site_expand(s, "max_pool", choose, 2, (struct value *[]){ c->g, w }, c->attr, NULL, &g);
	if (!failed)
		failed = c->through(c, w, g, gradp);
	free(e);
	free(choose);
	return failed;
}

static const struct rule_code attention = { back_attention, { RULE_ALL, RULE_ALL, RULE_ALL, RULE_ALL } };
static const struct rule_code max_pool = { back_max_pool, { RULE_ALL } };

const struct rule_code *rule_kept(unsigned op) {
	return op == OP_attention ? &attention : op == OP_max_pool ? &max_pool : NULL;
}
