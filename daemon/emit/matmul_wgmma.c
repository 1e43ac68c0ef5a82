/*
 * Products of 16-bit floats, GPU strategy, by instructions of four blocks of 32 items together (kernels/wgmma.cl), on devices that
 * have them (traits.wgmma).
 *
 * Such an instruction takes 64 rows of the first factor and all columns of a tile's second straight from local memory, and goes on
 * while its items do something else: they ask for pieces to come. Sums lie in registers as those of 16 rows do, and are the same
 * bits: a trial has compared them (device/matrix.c).
 *
 * A stage is overwritten when every item has waited for the instructions that read it: so one barrier a piece is enough. A unit has
 * two groups at a time (device/hidden.c sees to it that their registers suffice): one multiplies while the other waits, or does what
 * follows the product.
 */
#include "matmul_group.h"

enum {
	WGMMA_ROWS = 64,
	WGMMA_DEPTH = 16,
	/* Elements of 128 bytes: rows that are exchanged within themselves. */
	WGMMA_LINE = 64,
};

/* The registers of all sums, of which the columns of an instruction's 8 are two of the upper row and two of the lower. */
static void write_sums(struct writer *w, unsigned columns) {
	for (unsigned v = 0; v < columns / 8; v++)
		text_line(w, "\t%s\"+f\"(c[0][%u].s0), \"+f\"(c[0][%u].s1), \"+f\"(c[1][%u].s0), \"+f\"(c[1][%u].s1)", v ? ", " : ": ", v, v, v, v);
}

/* "multiply": 16 of K, of which a and b say where they lie. */
void wgmma_functions(struct writer *w) {
	const struct factor a = factor_of(w, 0), b = factor_of(w, 1);
	unsigned columns = factor_tile(w)->columns, sums = columns / 2;

	text_open(w, "static inline void multiply(f32v (*c)[%u], ulong a, ulong b)", columns / 8);
	text_line(w, "__asm__ volatile(\"{\\n.reg .pred p;\\nsetp.eq.u32 p, 0, 0;\\n\"");
	text_line(w, "\t\"" WGMMA_HIDDEN "wgmma.mma_async.sync.aligned.m64n%uk16.f32.\" MATRIX_TYPE \".\" MATRIX_TYPE \" {\"", columns);
	for (unsigned r = 0; r < sums; r += 4)
		text_line(w, "\t\"%s%%%u, %%%u, %%%u, %%%u\"", r ? ", " : "", r, r + 1, r + 2, r + 3);
	text_line(w, "\t\"}, %%%u, %%%u, p, 1, 1, %u, %u;\\n}\"", sums, sums + 1, a.deep ? 0 : 1, b.deep ? 0 : 1);
	write_sums(w, columns);
	text_line(w, "\t: \"l\"(a), \"l\"(b));");
	text_close(w);
	/* What instructions compute meanwhile is read behind this point only. */
	text_open(w, "static inline void settle(f32v (*c)[%u])", columns / 8);
	text_line(w, "WGMMA_WAIT(0);");
	text_line(w, "__asm__ volatile(\"\"");
	write_sums(w, columns);
	text_line(w, "\t:: \"memory\");");
	text_close(w);
}

/* Where the rows of these four blocks, or all columns, lie in the piece of a stage, of K from the first on. */
static void write_place(struct writer *w, unsigned o) {
	const struct factor f = factor_of(w, o);
	const struct kernel_tile_info *tile = factor_tile(w);
	unsigned line = WGMMA_LINE * tile->depth;

	/* Lines along K: each row has one. Lines across: as many rows as K, then the next 64 elements. */
	text_begin(w);
	text_part(w, "const ulong at_%c = wgmma_place(tile_%c[stage]", f.name, f.name);
	if (!o)
		text_part(w, " + y / %u * %u", WGMMA_ROWS, WGMMA_ROWS * WGMMA_LINE);
	text_part(w, ", %u);", f.deep ? 16 : 2 * line);
	text_end(w);
}

void wgmma_products(struct writer *w, const char *depth, bool whole) {
	const struct factor f[2] = { factor_of(w, 0), factor_of(w, 1) };
	unsigned step[2];

	for (unsigned o = 0; o < 2; o++) {
		write_place(w, o);
		/* In units of 16 bytes: 16 elements further, or 16 lines. */
		step[o] = f[o].deep ? 2 : 128;
	}
	text_line(w, "WGMMA_BEGIN();");
	text_line(w, whole ? "#pragma unroll" : "#pragma unroll 1");
	text_line(w, "for (int k = 0; k < %s; k += %u)", depth, WGMMA_DEPTH);
	text_line(w, "\tmultiply(c, at_a + k / %u * %u, at_b + k / %u * %u);", WGMMA_DEPTH, step[0], WGMMA_DEPTH, step[1]);
	text_line(w, "WGMMA_END();");
}
