/* The table of patterns.def. */
#include "pattern.h"

#include <string.h>

static const struct {
	const char *name, *doc;
} patterns[PATTERN_COUNT] = {
	[PATTERN_NONE] = { "", "a single operation" },
#define PATTERN(id, name, doc) [id] = { #name, doc },
#include "patterns.def"
#undef PATTERN
};

_Static_assert(PATTERN_COUNT <= 8 * sizeof(pattern_set), "a set has a bit for every pattern");

const char *pattern_name(enum pattern p) {
	return patterns[p].name;
}

const char *pattern_doc(enum pattern p) {
	return patterns[p].doc;
}

enum pattern pattern_find(const char *name) {
	for (unsigned i = 1; i < PATTERN_COUNT; i++)
		if (!strcmp(patterns[i].name, name))
			return (enum pattern)i;
	return PATTERN_NONE;
}
