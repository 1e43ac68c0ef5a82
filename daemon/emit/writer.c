/* What a kernel needs: the values and operands that its outputs are made of, and no others. */
#include "writer.h"

#include <string.h>

static unsigned lane_dim(const struct kernel *k, const struct traits *t) {
	bool runs = k->form == KERNEL_FORM_GENERAL && t->strategy == STRATEGY_CPU && k->root != KERNEL_SCAN;

	if (k->root == KERNEL_MATMUL)
		return k->rank - (k->turned ? 3u : 2u);
	if (k->root == KERNEL_ATTENTION)
		return attention_columns(k);
	if (k->root == KERNEL_CONV)
		return CONV_OW;
	if (k->root == KERNEL_MAP || k->form == KERNEL_FORM_ROW || runs)
		return k->rank ? k->rank - 1u : KERNEL_RANK;
	return k->form == KERNEL_FORM_COLUMN ? k->kept - 1u : KERNEL_RANK;
}

/* Arguments stand before uses, so one pass from the last value to the first finds all. */
static void close_needs(const struct kernel *k, struct needs *n) {
	for (unsigned v = k->values; v-- > 0;) {
		const struct kernel_value *value = &k->value[v];

		if (!n->value[v])
			continue;
		if (kernel_value_loads(value))
			n->operand[value->index] = true;
		for (unsigned i = 0; i < kernel_value_args(value); i++)
			n->value[value->arg[i]] = true;
	}
}

void writer_open(struct writer *w, const struct kernel *k, const struct traits *t, struct str *text) {
	*w = (struct writer){ .text = text, .k = k, .t = t, .lane_dim = lane_dim(k, t) };
	if (k->root == KERNEL_REDUCE || k->root == KERNEL_SCAN || k->root == KERNEL_SORT || k->root == KERNEL_ATTENTION)
		w->inner.value[k->reduced_value] = true;
	if (k->root == KERNEL_ATTENTION && k->hidden != KERNEL_NONE)
		w->inner.value[k->hidden] = true;
	if (kernel_computes_factor(k))
		w->inner.value[k->operand[0].value] = true;
	close_needs(k, &w->inner);
	for (unsigned o = 0; o < k->operands; o++)
		if (k->operand[o].output && !kernel_works_in(k, o)) {
			w->outer.operand[o] = true;
			w->outer.value[k->operand[o].value] = true;
		}
	close_needs(k, &w->outer);
}

bool writer_uses(const struct writer *w, enum dtype reg) {
	const struct kernel *k = w->k;

	if ((k->root == KERNEL_REDUCE || kernel_inner_dims(k)) && dtype_info(k->accumulator)->reg == reg)
		return true;
	for (unsigned v = 0; v < k->values; v++)
		if ((w->inner.value[v] || w->outer.value[v]) && dtype_info(k->value[v].dtype)->reg == reg)
			return true;
	for (unsigned o = 0; o < k->operands; o++)
		if (dtype_info(k->operand[o].dtype)->reg == reg)
			return true;
	return false;
}
