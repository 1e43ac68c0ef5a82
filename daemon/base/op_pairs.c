/* Pairs of operations; see op_pairs.h. */
#include "op_pairs.h"

#include <stdio.h>
#include <string.h>

#include "protocol/op.h"

enum {
	/* Of "FIRST:SECOND", with the end. */
	PAIR_TEXT = 64,
};

/* attention and the convolutions have kernels of their own. */
static bool is_made_of_others(int op) {
	return op_info((unsigned)op)->class == OP_CLASS_COMPOSITE && op != OP_attention && op != OP_conv;
}

/* What no kernel computes: it is memory, a number, or another way to look at memory. */
static bool is_no_work(int op) {
	return op == OP_load || op == OP_fill || op == OP_arange || op_is_view((unsigned)op);
}

static int parse_name(const char *name, uint16_t *opp, struct fault *f) {
	int op = op_find(name);

	if (op < 0)
		return fault_set(f, FAULT_ARGUMENT, "fusion.apart: there is no operation %s; see fusion-ops(7)", name);
	if (is_made_of_others(op))
		return fault_set(f, FAULT_ARGUMENT, "fusion.apart: %s is made of other operations, which fusion-ops(7) tells: name two of these", name);
	if (is_no_work(op))
		return fault_set(f, FAULT_ARGUMENT, "fusion.apart: %s is computed by no kernel", name);
	*opp = (uint16_t)op;
	return 0;
}

static int parse_pair(char *word, struct op_pairs *pairs, struct fault *f) {
	char *mark = strchr(word, ':');
	struct op_pair pair;
	int r;

	if (!mark)
		return fault_set(f, FAULT_ARGUMENT, "fusion.apart: %s is not two operations with : between them, as matmul:relu", word);
	if (pairs->count == OP_PAIRS)
		return fault_set(f, FAULT_ARGUMENT, "fusion.apart: more than %d pairs", OP_PAIRS);
	*mark = 0;
	r = parse_name(word, &pair.first, f);
	if (!r)
		r = parse_name(mark + 1, &pair.second, f);
	if (!r)
		pairs->pair[pairs->count++] = pair;
	return r;
}

int op_pairs_parse(const char *text, struct op_pairs *pairs, struct fault *f) {
	char word[PAIR_TEXT];
	int r = 0, n;

	memset(pairs, 0, sizeof *pairs);
	text += strspn(text, " ,");
	while (!r && sscanf(text, " %63[^ ,]%n", word, &n) == 1) {
		r = parse_pair(word, pairs, f);
		text += n;
		text += strspn(text, " ,");
	}
	if (r)
		memset(pairs, 0, sizeof *pairs);
	return r;
}

void op_pairs_print(const struct op_pairs *pairs, char *text, size_t size) {
	size_t used = 0;

	text[0] = 0;
	for (unsigned i = 0; i < pairs->count && used < size; i++)
		used += (size_t)snprintf(text + used, size - used, "%s%s:%s", i ? " " : "", op_info(pairs->pair[i].first)->name,
			op_info(pairs->pair[i].second)->name);
}

bool op_pairs_have(const struct op_pairs *pairs, unsigned first, unsigned second) {
	for (unsigned i = 0; i < pairs->count; i++)
		if (pairs->pair[i].first == first && pairs->pair[i].second == second)
			return true;
	return false;
}

uint64_t op_pairs_hash(const struct op_pairs *pairs) {
	uint64_t hash = 0;

	/* The prime of FNV; a pair is never 0. */
	for (unsigned i = 0; i < pairs->count; i++)
		hash = (hash ^ ((uint64_t)pairs->pair[i].first << 16 | pairs->pair[i].second)) * UINT64_C(0x100000001b3);
	return hash;
}
