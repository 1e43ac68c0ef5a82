/*
 * Variables of the environment that begin with FUSION_: variables.def. Values are words or numbers like those of settings; what
 * does not read, and a name that there is not, is refused with a sentence that names the variable.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "fault.h"

/* A word and what it stands for; a list ends with NULL. */
struct word {
	const char *text;
	uint64_t value;
};

/* yes, no, on, off, true, false, 1, 0; the words that are printed come first. */
extern const struct word words_switch[];

/* False where it is none of the words. */
bool word_value(const struct word *words, const char *text, uint64_t *valuep);
/* "" where no word stands for the value. */
const char *word_text(const struct word *words, uint64_t value);

/* All of the environment: 0, or FAULT_ARGUMENT. */
int variables_check(struct fault *f) FAULT_MUST_USE;
/* The same without the values, for who only hands them on. */
int variables_check_names(struct fault *f) FAULT_MUST_USE;
/* A switch's value: `standard` where the variable is not set, or empty, or cannot be trusted. Requires variables_check(). */
bool variable_switch(const char *name, bool standard);
uint32_t variable_number(const char *name, uint32_t standard);
