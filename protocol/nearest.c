/* The right name for one that was mistyped; see nearest.h. */
#include "nearest.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool same(char a, char b) {
	return tolower((unsigned char)a) == tolower((unsigned char)b);
}

static unsigned least(unsigned a, unsigned b, unsigned c) {
	if (b < a)
		a = b;
	return c < a ? c : a;
}

/* The distance of Damerau and Levenshtein, by rows: of the row being made, the one before it and the one before that. */
static unsigned edits(const char *a, size_t m, const char *b, size_t n) {
	unsigned row[3][NEAREST_TEXT + 1] = { { 0 } };

	for (unsigned j = 0; j <= n; j++)
		row[0][j] = j;
	for (unsigned i = 1; i <= m; i++) {
		unsigned *now = row[i % 3], *before = row[(i + 2) % 3], *long_before = row[(i + 1) % 3];

		now[0] = i;
		for (unsigned j = 1; j <= n; j++) {
			now[j] = least(before[j] + 1, now[j - 1] + 1, before[j - 1] + !same(a[i - 1], b[j - 1]));
			if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
				now[j] = least(now[j], long_before[j - 2] + 1, now[j]);
		}
	}
	return row[m % 3][n];
}

void nearest_begin(struct nearest *n, const char *wanted, size_t length) {
	*n = (struct nearest){ .wanted = wanted, .length = length, .edits = 2 + (unsigned)(length / 4) };
}

void nearest_try(struct nearest *n, const char *name) {
	size_t length = strlen(name);
	unsigned count;

	if (length >= NEAREST_TEXT || n->length >= NEAREST_TEXT)
		return;
	count = edits(n->wanted, n->length, name, length);
	if (count >= n->edits)
		return;
	n->edits = count;
	memcpy(n->best, name, length + 1);
}

const char *nearest_text(const struct nearest *n, const char *prefix, char text[static NEAREST_SENTENCE]) {
	*text = '\0';
	if (*n->best)
		snprintf(text, NEAREST_SENTENCE, "; do you mean %.16s%s?", prefix, n->best);
	return text;
}
