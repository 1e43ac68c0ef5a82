/*
 * The right name for one that was mistyped: of those that there are, the one with the fewest edits (a letter too many, too few,
 * another one, two that changed places; capital letters are no other ones), where these are few for its length.
 */
#pragma once

#include <stddef.h>

enum {
	/* Longer names are nobody's mistyped ones; no name of ours has half of it. */
	NEAREST_TEXT = 96,
	NEAREST_SENTENCE = NEAREST_TEXT + 32,
};

struct nearest {
	const char *wanted;
	size_t length;
	unsigned edits;              /* of the best so far: one more than are allowed, at first */
	char best[NEAREST_TEXT];
};

/* Refers to `wanted`, of this length. */
void nearest_begin(struct nearest *n, const char *wanted, size_t length);
void nearest_try(struct nearest *n, const char *name);
/* "; do you mean NAME?", with `prefix` before the name, or "" where no name is near; returns text. */
const char *nearest_text(const struct nearest *n, const char *prefix, char text[static NEAREST_SENTENCE]);
