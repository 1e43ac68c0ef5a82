/*
 * One element of an array as text, and back.
 *
 * Text is what C reads: 12, -3, 0xff, 1.5, 0x1.8p-3, 1e-6; also inf, -inf, nan, true and false.
 * Numbers are read as doubles (integers exactly) and rounded once to the element type, to nearest
 * even. What is no value of the type is refused, never clamped: 300 for u8, 1.5 for i32, 1e39 for
 * f32. Printing gives a short decimal that reads back as the same element.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/dtype.h"
#include "protocol/fault.h"

enum {
	/* The longest literal: a hexadecimal double with a long exponent stays well below. */
	ELEMENT_TEXT = 64,
	/* Memory of the largest element. */
	ELEMENT_BYTES = 8,
};

/* Writes dtype's bytes to memory: 0 or FAULT_SYNTAX. */
int element_read(
	enum dtype dtype, const char *text, size_t length, void *memory, struct fault *f) FAULT_MUST_USE;
/* Returns text. */
char *element_print(enum dtype dtype, const void *memory, char text[static ELEMENT_TEXT]);

/* The nearest element: rounded, and saturated for integers, as `cast` does. */
void element_from_double(enum dtype dtype, double value, void *memory);
/* The integer, wrapped; floats are rounded. */
void element_from_int(enum dtype dtype, int64_t value, void *memory);
double element_to_double(enum dtype dtype, const void *memory);

/* The same bits; two NaNs are equal whatever their bits. */
bool element_equal(enum dtype dtype, const void *a, const void *b);
