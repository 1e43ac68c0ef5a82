/*
 * Where the operations of an explanation were recorded. The daemon knows them by their numbers in the question alone; so the library puts
 * each one's place behind its number when the answer is there.
 */
#pragma once

#include "error.h"

/*
 * A new text: "at" behind "node", "producer_at" and "consumer_at" behind "producer" and "consumer", where the place is known. `place` has
 * `count` entries, by number. NULL: no memory.
 */
char *explained_with_places(const char *json, const struct place *place, uint32_t count);
