/* The counters of counters.def. */
#pragma once

#include <stdint.h>

struct counters {
#define COUNTER(name, doc) uint64_t name;
#include "counters.def"
#undef COUNTER
};
