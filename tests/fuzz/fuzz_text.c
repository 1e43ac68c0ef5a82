/*
 * Text graphs: whatever the text is, it is read or refused with a sentence that names its place; what was read refers to what stands before it, and the
 * values of its inputs fill their arrays and no more.
 */
#include "fuzz.h"

#include "client/fusionctl/text.h"
#include "protocol/dtype.h"

/* Of an input whose values are written. */
enum { ELEMENTS = 4096 };

static void check_operands(const struct text *t, int at) {
	const struct text_statement *s = &t->statement[at];

	claim(s->rank >= 0 && s->rank <= LIMIT_RANK && s->axes >= 0 && s->axes <= LIMIT_RANK, "rank %d, %d axes", s->rank, s->axes);
	claim(s->op == TEXT_CALL || (s->op >= 0 && op_info((unsigned)s->op)), "operation %d", s->op);
	claim(s->operands <= LIMIT_OPERANDS, "%u operands", s->operands);
	for (unsigned i = 0; i < s->operands; i++)
		claim(s->operand[i].statement < at, "statement %d reads %d", at, s->operand[i].statement);
}

static int64_t elements(const struct text_statement *s) {
	int64_t n = 1;

	for (int i = 0; i < s->rank; i++) {
		if (s->dims[i] < 0 || s->dims[i] > ELEMENTS)
			return -1;
		n *= s->dims[i];
		if (n > ELEMENTS)
			return -1;
	}
	return n;
}

static void check_values(const struct values *v, enum dtype dtype, int64_t count) {
	size_t bytes = (size_t)count * dtype_info(dtype)->bytes;
	/* Of its own size, so that what is beyond it is seen. */
	void *memory = malloc(bytes ? bytes : 1);
	struct fault f = { 0 };
	int r;

	if (!memory)
		abort();
	r = values_write(v, "g.fz", dtype, count, memory, &f);
	claim(!r || (r == f.code && f.text[0]), "values are refused without a sentence: %d", r);
	free(memory);
}

static void check(const struct text *t) {
	for (unsigned i = 0; i < t->statements; i++) {
		const struct text_statement *s = &t->statement[i];
		int64_t n = elements(s);

		check_operands(t, (int)i);
		if (s->op == OP_load && n >= 0)
			check_values(&s->values, s->dtype, n);
	}
}

void fuzz_one(struct fuzz_bytes *b) {
	char *source = fuzz_text(*b);
	struct text *t = NULL;
	struct fault f = { 0 };
	int r = text_parse("g.fz", source, &t, &f);

	claim(!r || (r > 0 && f.code == r && strstr(f.text, "g.fz:")), "%d, and the sentence \"%s\"", r, f.text);
	claim(!r == (t != NULL), "a graph that was refused");
	if (!r)
		check(t);
	text_free(t);
	free(source);
}
