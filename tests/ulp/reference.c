/*
 * References from glibc and libquadmath. See reference.h.
 *
 * Blocks of floats go through glibc's vector functions (libmvec), where the machine has them: they are within 4 units
 * of the last place of a double, 2^-27 of that of a float.
 */
#include "reference.h"
#include "vector.h"

#include <math.h>
#include <quadmath.h>

#define HAS_VECTOR_FORM(name) extern VECTOR_FORM __typeof(name) name;
HAS_VECTOR_FORM(exp) HAS_VECTOR_FORM(expm1) HAS_VECTOR_FORM(exp2)
HAS_VECTOR_FORM(tanh) HAS_VECTOR_FORM(sinh) HAS_VECTOR_FORM(cosh)
HAS_VECTOR_FORM(log) HAS_VECTOR_FORM(log1p) HAS_VECTOR_FORM(log2) HAS_VECTOR_FORM(log10)
HAS_VECTOR_FORM(erf) HAS_VECTOR_FORM(erfc)
HAS_VECTOR_FORM(sin) HAS_VECTOR_FORM(cos) HAS_VECTOR_FORM(tan)
HAS_VECTOR_FORM(asin) HAS_VECTOR_FORM(acos) HAS_VECTOR_FORM(atan)
HAS_VECTOR_FORM(asinh) HAS_VECTOR_FORM(acosh) HAS_VECTOR_FORM(atanh)

/* Constants to 106 bits, as sums of two doubles: there is no portable literal of a quad. */
#define CONSTANT(T, pair) ((T)pair[0] + (T)pair[1])
static const double selu_alpha[] = { 0x1.ac5afad782cf1p+0, 0x1.eb7a46c21f1dfp-54 };
static const double selu_scale[] = { 0x1.0cfabd6a91132p+0, 0x1.6fc7d272f2695p-55 };
static const double sqrt_half[] = { 0x1.6a09e667f3bcdp-1, -0x1.bdd3413b26456p-55 };
static const double sqrt_2_pi[] = { 0x1.9884533d43651p-1, -0x1.cbc0d30ebfd15p-55 };
static const double gelu_cubic[] = { 0x1.6e4e26d4801f7p-5, 0x1.441355475a31ap-59 };

/* Each formula once, for T in double and quad, with the suffix of its library. */
#define FORMULAS(T, NAME, F) \
	static inline T NAME(sigmoid)(T a) { \
		return 1 / (1 + F(exp)(-a)); \
	} \
	static inline T NAME(silu)(T a) { \
		return a / (1 + F(exp)(-a)); \
	} \
	static inline T NAME(softplus)(T a) { \
		return (a > 0 ? a : 0) + F(log1p)(F(exp)(-F(fabs)(a))); \
	} \
	static inline T NAME(mish)(T a) { \
		return a * F(tanh)(NAME(softplus)(a)); \
	} \
	static inline T NAME(selu)(T a) { \
		const T alpha = CONSTANT(T, selu_alpha), scale = CONSTANT(T, selu_scale), below = F(expm1)(a); \
		return a < 0 ? scale * alpha * below : scale * a; \
	} \
	static inline T NAME(gelu)(T a) { \
		return a * (F(erfc)(-a * CONSTANT(T, sqrt_half)) / 2); \
	} \
	static inline T NAME(gelu_tanh)(T a) { \
		T z = 2 * CONSTANT(T, sqrt_2_pi) * (a + CONSTANT(T, gelu_cubic) * a * a * a); \
		return a / (1 + F(exp)(-z)); \
	} \
	static T NAME(elu)(T a, T b) { \
		return a < 0 ? b * F(expm1)(a) : a; \
	} \
	static T NAME(logaddexp)(T a, T b) { \
		T high = a > b ? a : b, low = a > b ? b : a; \
		if (a != a || b != b) \
			return a + b; \
		return low == high ? high + F(log)(2) : high + F(log1p)(F(exp)(low - high)); \
	}

#define DOUBLE_NAME(x) x##_double
#define DOUBLE_LIBRARY(x) x
#define QUAD_NAME(x) x##_quad
#define QUAD_LIBRARY(x) x##q

FORMULAS(double, DOUBLE_NAME, DOUBLE_LIBRARY)
FORMULAS(quad, QUAD_NAME, QUAD_LIBRARY)

/* name: what a row calls it; function: of one double. */
#define BLOCK(name, function) \
	VECTOR_LEVELS static void name##_block(const float *a, double *exact, size_t n) { \
		_Pragma("omp simd") \
		for (size_t i = 0; i < n; i++) \
			exact[i] = function(a[i]); \
	}

BLOCK(exp, exp) BLOCK(expm1, expm1) BLOCK(exp2, exp2)
BLOCK(sigmoid, sigmoid_double) BLOCK(tanh, tanh) BLOCK(sinh, sinh) BLOCK(cosh, cosh)
BLOCK(log, log) BLOCK(log1p, log1p) BLOCK(log2, log2) BLOCK(log10, log10)
BLOCK(softplus, softplus_double) BLOCK(silu, silu_double) BLOCK(mish, mish_double) BLOCK(selu, selu_double)
BLOCK(erf, erf) BLOCK(gelu, gelu_double) BLOCK(gelu_tanh, gelu_tanh_double)
BLOCK(sin, sin) BLOCK(cos, cos) BLOCK(tan, tan)
BLOCK(asin, asin) BLOCK(acos, acos) BLOCK(atan, atan)
BLOCK(asinh, asinh) BLOCK(acosh, acosh) BLOCK(atanh, atanh)

#define UNARY(n) \
	{ .name = #n, .expr = #n "_(a)", .f32_unary = n, .f32_block = n##_block, .f64_unary = n##q }
#define FORMULA(n) \
	{ .name = #n, .expr = #n "_(a)", .f32_unary = n##_double, .f32_block = n##_block, .f64_unary = n##_quad }
#define BINARY(n) { .name = #n, .expr = #n "_(a, b)", .f32_binary = n, .f64_binary = n##q }
#define FORMULA2(n, ...) \
	{ .name = #n, .expr = #n "_(a, b)", .f32_binary = n##_double, .f64_binary = n##_quad, __VA_ARGS__ }

const struct reference references[] = {
	UNARY(exp), UNARY(expm1), UNARY(exp2),
	FORMULA(sigmoid), UNARY(tanh), UNARY(sinh), UNARY(cosh),
	UNARY(log), UNARY(log1p), UNARY(log2), UNARY(log10),
	FORMULA(softplus), FORMULA(silu), FORMULA(mish), FORMULA(selu),
	UNARY(erf), FORMULA(gelu), FORMULA(gelu_tanh),
	UNARY(sin), UNARY(cos), UNARY(tan),
	UNARY(asin), UNARY(acos), UNARY(atan),
	UNARY(asinh), UNARY(acosh), UNARY(atanh),
	FORMULA2(elu, .relative_to_operands = false),
	FORMULA2(logaddexp, .relative_to_operands = true),
	BINARY(pow), BINARY(atan2), BINARY(hypot),
	{ .name = NULL },
};
