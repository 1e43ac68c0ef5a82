/*
 * Elements as text. Everything passes the words of protocol/dtype.h ("a scalar as 64 bits"), so the
 * rounding is the one that scalars of the library have.
 */
#include "element.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- words and memory ---- */

static float float_of_word(uint64_t word) {
	uint32_t bits = (uint32_t)word;
	float value;

	memcpy(&value, &bits, sizeof value);
	return value;
}

static uint64_t word_of_float(float value) {
	uint32_t bits;

	memcpy(&bits, &value, sizeof bits);
	return bits;
}

static void store_word(enum dtype dtype, uint64_t word, void *memory) {
	if (dtype == DTYPE_f16)
		word = dtype_f16_from_float(float_of_word(word));
	if (dtype == DTYPE_bf16)
		word = dtype_bf16_from_float(float_of_word(word));
	/* Both sides of the wire are little-endian: the low bytes come first. */
	memcpy(memory, &word, dtype_info(dtype)->bytes);
}

static uint64_t load_word(enum dtype dtype, const void *memory) {
	unsigned unused = 64 - 8 * dtype_info(dtype)->bytes;
	uint64_t word = 0;

	memcpy(&word, memory, dtype_info(dtype)->bytes);
	if (dtype == DTYPE_f16)
		return word_of_float(dtype_f16_to_float((uint16_t)word));
	if (dtype == DTYPE_bf16)
		return word_of_float(dtype_bf16_to_float((uint16_t)word));
	if (dtype_info(dtype)->kind == DTYPE_KIND_SINT)
		return (uint64_t)((int64_t)(word << unused) >> unused);
	return word;
}

void element_from_double(enum dtype dtype, double value, void *memory) {
	store_word(dtype, dtype_scalar_from_double(dtype, value), memory);
}

void element_from_int(enum dtype dtype, int64_t value, void *memory) {
	enum dtype_kind kind = dtype_info(dtype)->kind;

	if (kind == DTYPE_KIND_SINT || kind == DTYPE_KIND_UINT)
		store_word(dtype, (uint64_t)value, memory);
	else
		store_word(dtype, dtype_scalar_from_int(dtype, value), memory);
}

double element_to_double(enum dtype dtype, const void *memory) {
	return dtype_scalar_to_double(dtype, load_word(dtype, memory));
}

bool element_equal(enum dtype dtype, const void *a, const void *b) {
	if (!memcmp(a, b, dtype_info(dtype)->bytes))
		return true;
	return dtype_info(dtype)->kind == DTYPE_KIND_REAL && isnan(element_to_double(dtype, a)) &&
	       isnan(element_to_double(dtype, b));
}

/* ---- reading ---- */

static int refuse(enum dtype dtype, const char *text, struct fault *f) {
	return fault_set(f, FAULT_SYNTAX, "%s is no value of %s", text, dtype_info(dtype)->name);
}

static int read_bool(const char *text, void *memory, struct fault *f) {
	bool yes = !strcmp(text, "true") || !strcmp(text, "1");

	if (!yes && strcmp(text, "false") != 0 && strcmp(text, "0") != 0)
		return refuse(DTYPE_bool, text, f);
	store_word(DTYPE_bool, yes, memory);
	return 0;
}

static int read_integer(enum dtype dtype, const char *text, void *memory, struct fault *f) {
	bool negative = *text == '-';
	bool is_signed = dtype_info(dtype)->kind == DTYPE_KIND_SINT;
	const char *digits = text + (*text == '-' || *text == '+');
	bool hexadecimal = digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X');
	uint64_t magnitude, word;
	char *end;

	errno = 0;
	magnitude = strtoull(digits, &end, hexadecimal ? 16 : 10);
	if (errno || *end || end == digits || *digits == '-' || *digits == '+')
		return refuse(dtype, text, f);
	word = negative ? 0 - magnitude : magnitude;
	if (is_signed ? magnitude > (uint64_t)INT64_MAX + negative : negative && magnitude)
		return refuse(dtype, text, f);
	if (!dtype_scalar_valid(dtype, word))
		return refuse(dtype, text, f);
	store_word(dtype, word, memory);
	return 0;
}

static int read_real(enum dtype dtype, const char *text, void *memory, struct fault *f) {
	char *end;
	double value = strtod(text, &end);

	if (*end || end == text)
		return refuse(dtype, text, f);
	element_from_double(dtype, value, memory);
	/* Only the word inf means infinity: an overflow is a mistake of the file. */
	if (isinf(element_to_double(dtype, memory)) && !strpbrk(text, "iI"))
		return refuse(dtype, text, f);
	return 0;
}

int element_read(enum dtype dtype, const char *text, size_t length, void *memory, struct fault *f) {
	char copy[ELEMENT_TEXT];

	if (length >= sizeof copy)
		return fault_set(f, FAULT_SYNTAX, "a number of %zu characters is longer than %zu", length,
			sizeof copy - 1);
	memcpy(copy, text, length);
	copy[length] = '\0';
	switch (dtype_info(dtype)->kind) {
	case DTYPE_KIND_BOOL:
		return read_bool(copy, memory, f);
	case DTYPE_KIND_REAL:
		return read_real(dtype, copy, memory, f);
	default:
		return read_integer(dtype, copy, memory, f);
	}
}

/* ---- printing ---- */

/*
 * Whole numbers below 10 million in full; else the fewest digits that read back as the same element,
 * which 17 always do.
 */
static void print_real(enum dtype dtype, const void *memory, char text[static ELEMENT_TEXT]) {
	double value = element_to_double(dtype, memory);
	char back[ELEMENT_BYTES];

	if (isnan(value)) {
		strcpy(text, "nan");
		return;
	}
	if (value == trunc(value) && fabs(value) < 1e7) {
		snprintf(text, ELEMENT_TEXT, "%.0f", value);
		return;
	}
	for (int digits = 1; digits <= 17; digits++) {
		snprintf(text, ELEMENT_TEXT, "%.*g", digits, value);
		element_from_double(dtype, strtod(text, NULL), back);
		if (!memcmp(back, memory, dtype_info(dtype)->bytes))
			return;
	}
}

char *element_print(enum dtype dtype, const void *memory, char text[static ELEMENT_TEXT]) {
	switch (dtype_info(dtype)->kind) {
	case DTYPE_KIND_BOOL:
		strcpy(text, load_word(dtype, memory) ? "true" : "false");
		return text;
	case DTYPE_KIND_SINT:
		snprintf(text, ELEMENT_TEXT, "%" PRId64, (int64_t)load_word(dtype, memory));
		return text;
	case DTYPE_KIND_UINT:
		snprintf(text, ELEMENT_TEXT, "%" PRIu64, load_word(dtype, memory));
		return text;
	default:
		print_real(dtype, memory, text);
		return text;
	}
}
