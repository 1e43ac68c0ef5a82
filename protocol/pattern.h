/* The names of fusion patterns, and sets of them; see patterns.def. */
#pragma once

#include <stdint.h>

enum pattern {
	PATTERN_NONE = 0,      /* a single operation */
#define PATTERN(id, name, doc) PATTERN_##name = id,
#include "patterns.def"
#undef PATTERN
	PATTERN_COUNT,
};

/* A set of patterns: bit i for pattern i. */
typedef uint32_t pattern_set;

static inline pattern_set pattern_bit(enum pattern p) {
	return (pattern_set)1 << p;
}

/* "linear"; "" for PATTERN_NONE. */
const char *pattern_name(enum pattern p);
const char *pattern_doc(enum pattern p);
/* PATTERN_NONE where there is no such name. */
enum pattern pattern_find(const char *name);
