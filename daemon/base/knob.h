/*
 * The words of knobs: knobs.def, and the text of fusion.knobs. What a knob does is daemon/plan/knobs.h; here is what the
 * configuration must know, to refuse what is none.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "protocol/fault.h"

enum knob {
#define VALUES(...)
#define KNOB(name, values, doc) KNOB_##name,
#include "knobs.def"
#undef KNOB
#undef VALUES
	KNOB_COUNT,
};

enum {
	/* Values of a knob at most. */
	KNOB_VALUES = 4,
	/* The first of them: as rules say. */
	KNOB_RULE = 0,
};

/* A value of each knob; all 0: as rules say. */
struct knobs {
	uint8_t value[KNOB_COUNT];
};

/* Values that hold whatever rules say and whatever was learned: of knobs whose bit is set. */
struct knob_pins {
	struct knobs knobs;
	uint32_t set;
};

const char *knob_name(unsigned knob);
/* The word for a value, or NULL where there are not so many. */
const char *knob_value(unsigned knob, unsigned value);
/* The value of this name, or -1. */
int knob_find_value(unsigned knob, const char *name);
/* "share=quarter, hold=least": 0, or a fault that names the word; then none is set. */
int knobs_parse(const char *text, struct knob_pins *pins, struct fault *f) FAULT_MUST_USE;
/* A text that reads as they do, of no more bytes than that which they were read from. */
void knobs_print(const struct knob_pins *pins, char *text, size_t size);
