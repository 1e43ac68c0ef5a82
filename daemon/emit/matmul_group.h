/*
 * What the two kinds of tiles of a GPU's products share: by fma (matmul_group.c), and by instructions that multiply
 * matrices (matmul_matrix.c).
 *
 * Names in the text, beside those of writer.h: `item` of the group, m0 and n0 where the tile of the result begins, c its
 * sums; of factor N sideN and footN the place of the item's first vector in a piece, across K and along it, fromN where that
 * vector of the next piece is, leftN the elements across K from there on, acrossN and downN the strides across K and
 * along it, and wholeN, whether vectors lie whole and aligned in memory.
 */
#pragma once

#include "writer.h"

/* A factor: its extent across K is that of rows (0) or columns (1) of the result. */
struct factor {
	unsigned o;
	char name;                   /* of variables: a, b */
	unsigned across;             /* elements of a tile */
	unsigned lanes;              /* elements of a vector that is copied to local memory */
	bool deep;                   /* vectors lie along K, else across it */
};

const struct kernel_tile_info *factor_tile(const struct writer *w);
struct factor factor_of(const struct writer *w, unsigned o);
/* Vectors that an item copies of a tile. */
unsigned factor_copies(const struct writer *w, const struct factor *f);
/* "for each vector i of the item {": begins at x across and k along K. */
void factor_open_vectors(struct writer *w, const struct factor *f);
/* The batch indices, m0 and n0 of the group. A group has one unit: a loop over more would hold registers. */
void factor_unit(struct writer *w);
/* The same of a function fetch: also n, how many elements of the vector are in the matrix, and p, where it lies. */
void factor_open_fetch(struct writer *w, const struct factor *f);
/* fromN, leftN, sideN, footN, acrossN, downN, wholeN. */
void factor_declare(struct writer *w, const struct factor *f);
/* c[rows][vectors], all 0. */
void factor_zero(struct writer *w, unsigned rows, unsigned vectors);

/* ---- by instructions that multiply matrices ---- */

void matrix_functions(struct writer *w);
void matrix_groups(struct writer *w);
/* What kernels/matrix.cl asks for. */
void matrix_defines(const struct writer *w, struct str *text);

/* ---- ... of four blocks of items together (matmul_wgmma.c) ---- */

/* Before an instruction that the compiler shall take for a comment: see device/hidden.c. */
#define WGMMA_HIDDEN "//HIDDEN "

void wgmma_functions(struct writer *w);
/* Asks for the products of `depth` of K, of the piece in this stage. */
void wgmma_products(struct writer *w, const char *depth, bool whole);
