/* References from glibc and libquadmath. See reference.h. */
#include "reference.h"

#include <math.h>
#include <quadmath.h>
#include <stddef.h>

/* Constants to 106 bits, as sums of two doubles: there is no portable literal of a quad. */
#define CONSTANT(T, pair) ((T)pair[0] + (T)pair[1])
static const double selu_alpha[] = { 0x1.ac5afad782cf1p+0, 0x1.eb7a46c21f1dfp-54 };
static const double selu_scale[] = { 0x1.0cfabd6a91132p+0, 0x1.6fc7d272f2695p-55 };
static const double sqrt_half[] = { 0x1.6a09e667f3bcdp-1, -0x1.bdd3413b26456p-55 };
static const double sqrt_2_pi[] = { 0x1.9884533d43651p-1, -0x1.cbc0d30ebfd15p-55 };
static const double gelu_cubic[] = { 0x1.6e4e26d4801f7p-5, 0x1.441355475a31ap-59 };

/* Each formula once, for T in double and quad, with the suffix of its library. */
#define FORMULAS(T, NAME, F) \
	static T NAME(sigmoid)(T a) { \
		return 1 / (1 + F(exp)(-a)); \
	} \
	static T NAME(silu)(T a) { \
		return a / (1 + F(exp)(-a)); \
	} \
	static T NAME(softplus)(T a) { \
		return (a > 0 ? a : 0) + F(log1p)(F(exp)(-F(fabs)(a))); \
	} \
	static T NAME(mish)(T a) { \
		return a * F(tanh)(NAME(softplus)(a)); \
	} \
	static T NAME(selu)(T a) { \
		const T alpha = CONSTANT(T, selu_alpha), scale = CONSTANT(T, selu_scale); \
		return a < 0 ? scale * alpha * F(expm1)(a) : scale * a; \
	} \
	static T NAME(gelu)(T a) { \
		return a * (F(erfc)(-a * CONSTANT(T, sqrt_half)) / 2); \
	} \
	static T NAME(gelu_tanh)(T a) { \
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

#define UNARY(n) { .name = #n, .expr = #n "_(a)", .f32_unary = n, .f64_unary = n##q }
#define FORMULA(n) { .name = #n, .expr = #n "_(a)", .f32_unary = n##_double, .f64_unary = n##_quad }
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
