/* Expressions of composites, gradients and users' operations: whatever the text is, what was read is a DAG within its limits. */
#include "fuzz.h"

#include "protocol/expr.h"

static void check(const struct expr *e, unsigned operands) {
	claim(e->count && e->count <= EXPR_NODES && e->result < e->count && e->operands <= operands, "more than there may be");
	for (unsigned i = 0; i < e->count; i++) {
		const struct expr_node *n = &e->node[i];

		claim(n->arity <= EXPR_ARGUMENTS, "an arity of %u", n->arity);
		claim(n->kind != EXPR_OPERAND || n->which < operands, "operand %u", n->which);
		for (unsigned k = 0; k < n->arity; k++)
			claim(n->in[k] < i, "node %u takes node %u", i, n->in[k]);
	}
}

void fuzz_one(struct fuzz_bytes *b) {
	static const struct {
		const char *names;
		unsigned operands;
	} forms[] = { { "a, b:int, c", 3 }, { "x", 1 }, { "", 0 }, { "a b c d e f g h", 8 } };
	unsigned form = fuzz_below(b, sizeof forms / sizeof *forms);
	char *text = fuzz_text(fuzz_take(b, fuzz_left(b)));
	static struct expr e;
	struct fault f = { 0 };
	int r = expr_parse(text, forms[form].names, &e, &f);

	claim(!r || (r > 0 && f.code == r && f.text[0]), "%d, and the sentence \"%s\" of %d", r, f.text, f.code);
	if (!r)
		check(&e, forms[form].operands);
	free(text);
}
