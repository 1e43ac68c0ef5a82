/*
 * What the functions of kernels/ should give, from libraries that are not ours: glibc's double
 * functions for f32, libquadmath's 113-bit functions for f64. Formulas that no library has are
 * composed of those in a form that does not cancel.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef __float128 quad;

struct reference {
	const char *name;
	const char *expr;                 /* over a and b, as in protocol/ops.def */
	double (*f32_unary)(double a);
	/* The same of n floats at once, within 2^-16 units of the last place of a float. */
	void (*f32_block)(const float *a, double *exact, size_t n);
	quad (*f64_unary)(quad a);
	double (*f32_binary)(double a, double b);
	quad (*f64_binary)(quad a, quad b);
	/* Errors count in units of the largest operand too, where the result comes from a cancellation. */
	bool relative_to_operands;
};

/* Ends with a row without a name. */
extern const struct reference references[];
