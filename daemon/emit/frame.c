/*
 * What all kernels begin with: the task's record, and the loop over units of work.
 *
 * A unit is what a form does at once: a piece of a row (MAP), an output or a strip of outputs
 * (REDUCE), a block of tiles (MATMUL). A work-item (CPU) or work-group (GPU) does several in a row.
 *
 * In the CPU strategy a kernel only calls a function that is not inlined. PoCL makes machine code of a kernel three times, of its own
 * and of two forms of a work-group, whatever is inlined in it each time; of the function it makes one.
 */
#include "instructions.h"
#include "writer.h"

uint32_t frame_local(const struct kernel *k, const struct traits *t) {
	if (t->strategy == STRATEGY_CPU)
		return 1;
	if (k->root == KERNEL_INTERPRETER)
		return interpreter_shape(t).group;
	if (k->root == KERNEL_MATMUL || (k->root == KERNEL_CONV && !k->alone))
		return kernel_tile_items(k->tile);
	if (k->root == KERNEL_ATTENTION)
		return k->steps ? kernel_attention_items(k) : k->rows / GROUP_ROWS * GROUP_LANES;
	if (k->root == KERNEL_ROWS)
		return KERNEL_COLUMNS;
	/* A tile is in local memory, of which some devices have 32 KiB. */
	if (k->root == KERNEL_SCAN && k->form != KERNEL_FORM_COLUMN && dtype_info(k->accumulator)->bytes > 4)
		return t->local_size / 2;
	if (k->root == KERNEL_REDUCE && k->form != KERNEL_FORM_COLUMN)
		return KERNEL_COLUMNS * (k->blocks ? k->blocks : 1u);
	return t->local_size;
}

struct frame_names frame_names(unsigned count) {
	static const char *const names[KERNEL_RANK] = { "i0", "i1", "i2", "i3", "i4", "i5", "i6", "i7", "i8",
		"i9" };
	struct frame_names n = { { NULL } };

	for (unsigned d = 0; d < count; d++)
		n.name[d] = names[d];
	return n;
}

static void declare_scalars(struct writer *w) {
	struct scope s = { .needs = &w->inner };

	value_write(w, &s, LEVEL_TASK);
	s.needs = &w->outer;
	value_write(w, &s, LEVEL_TASK);
}

static unsigned own_words(const struct writer *w) {
	return kernel_own_words(w->k, w->t);
}

static void write_parameters(struct writer *w, const char *more, const char *end) {
	text_part(w, "(global const ulong *records, ulong first%s", more);
	for (unsigned p = 0; p < w->t->pools; p++)
		text_part(w, ", global uchar *pool%u", p);
	if (own_words(w))
		text_part(w, ", const own_record own");
	text_part(w, ")%s", end);
	text_end(w);
}

/* Interpreters are launched by words of their own. */
static bool claims(const struct writer *w) {
	return w->t->claims && w->t->strategy == STRATEGY_CPU && w->k->root != KERNEL_INTERPRETER;
}

static void write_body(struct writer *w, const char *end) {
	text_begin(w);
	text_part(w, "static __attribute__((noinline)) WIDE void body");
	write_parameters(w, ", ulong own_item, ulong own_task", end);
}

static void write_call(struct writer *w, const char *function, const char *arguments) {
	text_begin(w);
	text_part(w, "%s(records, first%s", function, arguments);
	for (unsigned p = 0; p < w->t->pools; p++)
		text_part(w, ", pool%u", p);
	text_part(w, ");");
	text_end(w);
}

/* The builtin is a whole barrier, which atomic_inc() of OpenCL 1.2 is not: results are there before they are counted. */
static void write_claims(struct writer *w) {
	text_begin(w);
	text_part(w, "static __attribute__((noinline)) void claimed");
	write_parameters(w, "", " {");
	w->depth++;
	text_line(w, "first &= ~0x%llxul;", KERNEL_CLAIMED);
	text_line(w, "global uint *const claim = (global uint *)(records + first);");
	text_line(w, "const uint items = records[first + %u], all = records[first + %u];", KERNEL_CLAIM_ITEMS, KERNEL_CLAIM_ALL);
	text_line(w, "uint item;");
	text_blank(w);
	text_line(w, "first += %u;", KERNEL_CLAIM_WORDS);
	text_open(w, "while ((item = __sync_fetch_and_add(claim + %u, 1)) < all)", 2 * KERNEL_CLAIM_NEXT);
	write_call(w, "body", ", item % items, item / items");
	text_line(w, "__sync_fetch_and_add(claim + %u, 1);", 2 * KERNEL_CLAIM_DONE);
	text_close(w);
	text_close(w);
	text_blank(w);
}

static void write_entry(struct writer *w) {
	w->depth++;
	if (claims(w)) {
		text_line(w, "if (first & 0x%llxul)", KERNEL_CLAIMED);
		w->depth++;
		write_call(w, "claimed", "");
		w->depth--;
		text_line(w, "else");
		w->depth++;
	}
	write_call(w, "body", ", get_group_id(0), get_global_id(1)");
	w->depth -= claims(w);
	text_close(w);
	text_blank(w);
}

void frame_signature(struct writer *w, uint32_t local) {
	bool apart = w->t->strategy == STRATEGY_CPU;

	if (own_words(w))
		text_line(w, "typedef struct { ulong word[%u]; } own_record;", own_words(w));
	if (apart)
		write_body(w, ";");
	if (claims(w))
		write_claims(w);
	text_line(w, "kernel WIDE __attribute__((reqd_work_group_size(%u, 1, 1)))", (unsigned)local);
	text_begin(w);
	text_part(w, "void fused");
	write_parameters(w, "", " {");
	if (apart) {
		write_entry(w);
		write_body(w, " {");
	}
	w->depth++;
}

const char *frame_item(const struct writer *w) {
	return w->t->strategy == STRATEGY_CPU ? "own_item" : "get_group_id(0)";
}

const char *frame_task(const struct writer *w) {
	return w->t->strategy == STRATEGY_CPU ? "own_task" : "get_global_id(1)";
}

void frame_record(struct writer *w) {
	if (!own_words(w)) {
		text_line(w, "global const ulong *const r = records + first + %s * %u;", frame_task(w), kernel_record_words(w->k));
		return;
	}
	/* All places are known, so these are registers. */
	text_line(w, "ulong r[%u];", own_words(w));
	text_line(w, "#pragma unroll");
	text_line(w, "for (int i = 0; i < %u; i++)", own_words(w));
	text_line(w, "\tr[i] = first == 0x%llxul ? own.word[i] : records[first + %s * %u + i];", (unsigned long long)KERNEL_OWN, frame_task(w),
		own_words(w));
}

void frame_open(struct writer *w) {
	frame_signature(w, frame_local(w->k, w->t));
	frame_record(w);
	text_blank(w);
	text_line(w, "if (%s >= r[%u])", w->t->strategy == STRATEGY_CPU ? "own_item" : "get_global_id(0)", KERNEL_WORD_ITEMS);
	text_line(w, "\treturn;");
	operand_declare(w);
	declare_scalars(w);
}

void frame_units(struct writer *w) {
	text_line(w, "const ulong begin = r[%u] + %s * r[%u];", KERNEL_WORD_BEGIN, frame_item(w), KERNEL_WORD_UNITS_PER_ITEM);
	text_line(w, "const ulong end = min(begin + r[%u], r[%u]);", KERNEL_WORD_UNITS_PER_ITEM,
		KERNEL_WORD_UNITS);
}

void frame_indices(struct writer *w, unsigned first, unsigned end) {
	for (unsigned d = end; d-- > first;)
		text_line(w, d == first ? "long i%u = rest;" : "long i%u = take(&rest, d%u);", d, d);
}

void frame_step(struct writer *w, unsigned first, unsigned end) {
	for (unsigned d = end; d-- > first;) {
		if (d == first) {
			text_line(w, "i%u++;", d);
			return;
		}
		text_line(w, "if (++i%u < d%u)", d, d);
		text_line(w, "\tcontinue;");
		text_line(w, "i%u = 0;", d);
	}
}
