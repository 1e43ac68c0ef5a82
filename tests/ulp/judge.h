/*
 * What one result says: its error against a reference in double, and its part of a digest. Both are written without
 * branches, so that loops over them become vectors.
 */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t bits_of_double(double x) {
	uint64_t bits;

	memcpy(&bits, &x, sizeof bits);
	return bits;
}

static inline double double_of_bits(uint64_t bits) {
	double x;

	memcpy(&x, &bits, sizeof x);
	return x;
}

/* All bits of a condition, or none: choices between numbers are made with these. */
static inline uint64_t mask_if(bool condition) {
	return -(uint64_t)condition;
}

static inline double choose(uint64_t mask, double yes, double no) {
	return double_of_bits((mask & bits_of_double(yes)) | (~mask & bits_of_double(no)));
}

/* Where results overflow, infinity stands for the next power of two. */
static inline double within_f32(double x) {
	return choose(mask_if(fabs(x) > 0x1p128), copysign(0x1p128, x), x);
}

/* The spacing of floats at x. */
static inline double spacing_f32(double x) {
	double size = fabs(x);

	size = choose(mask_if(size < 0x1p-126), 0x1p-126, choose(mask_if(size > 0x1p127), 0x1p127, size));
	return double_of_bits(bits_of_double(size) & 0x7ff0000000000000u) * 0x1p-23;
}

/*
 * Error of y in spacings of floats at unit, or a negative number where y is of the wrong kind: NaN, infinity or, if
 * signs count, a zero of the other sign.
 */
static inline double f32_error(double exact, double y, double unit, bool signs) {
	uint64_t nan_exact = mask_if(exact != exact), nan_y = mask_if(y != y);
	uint64_t other_sign = -((bits_of_double(y) ^ bits_of_double(exact)) >> 63) & mask_if(y == 0) & mask_if(signs);
	uint64_t other_infinity = mask_if(fabs(exact) == INFINITY) & mask_if(exact != y);
	uint64_t wrong = other_sign | other_infinity | (nan_exact ^ nan_y);
	double error = fabs(within_f32(y) - within_f32(exact)) / spacing_f32(unit);

	return choose(wrong, -1, choose(nan_exact, 0, error));
}

/* A digest is the sum of these over all results: every bit and its place count, in whichever order. */
static inline uint64_t digest_of(uint64_t place, uint64_t bits) {
	uint64_t z = bits + place * 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* All NaNs are one. */
static inline uint32_t canonical_f32(uint32_t bits) {
	return (bits & 0x7fffffffu) > 0x7f800000u ? UINT32_MAX : bits;
}
