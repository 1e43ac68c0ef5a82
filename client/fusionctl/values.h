/*
 * The values of an array, as a text graph writes them:
 *
 *   = 1 2 3*4 nan         one after the other; V*N is V, N times; their number must be the array's
 *   cycle 1 2 3           these, again and again
 *   ramp [START [STEP]]   START + i * STEP in double, converted as `cast` does; 0 and 1
 *   random SEED [LOW HIGH]  repeatable: word i of splitmix64 from SEED. Without a range: floats in
 *                         [-1, 1) with all their digits, integers of any value. With one: integers
 *                         in [LOW, HIGH], floats LOW + u * (HIGH - LOW) in double, u in [0, 1)
 *   special [FIRST]       the values where mistakes are made, again and again, from number FIRST
 */
#pragma once

#include <stdint.h>

#include "client/fusionctl/lex.h"
#include "protocol/dtype.h"

enum values_kind {
	VALUES_LIST,
	VALUES_CYCLE,
	VALUES_RAMP,
	VALUES_RANDOM,
	VALUES_SPECIAL,
};

/* A literal, how often it stands there, and how many stand before it. */
struct values_item {
	struct lex_token token;
	uint64_t repeat;
	uint64_t before;
};

struct values {
	enum values_kind kind;
	struct lex_token at;
	struct values_item *item; /* the arguments, in the order of the text */
	unsigned items;
	uint64_t seed; /* RANDOM; SPECIAL: the first */
};

/* Reads from the word (or the =) that names the kind to the end of the statement. values_free() in any case.
 */
int values_parse(struct values *v, struct lex *l, struct fault *f) FAULT_MUST_USE;
void values_free(struct values *v);

/* Writes count elements: 0 or FAULT_SYNTAX. path is for sentences. */
int values_write(const struct values *v, const char *path, enum dtype dtype, int64_t count, void *memory,
	struct fault *f) FAULT_MUST_USE;

/* How many special values a type has: `special` repeats after these. */
unsigned values_specials(enum dtype dtype);
