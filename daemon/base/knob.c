/* Names and values of knobs; see knob.h. */
#include "knob.h"

#include <stdio.h>
#include <string.h>

enum {
	PIN_TEXT = 64,
};

static const struct {
	const char *name;
	const char *values[KNOB_VALUES];
} knobs[KNOB_COUNT] = {
#define VALUES(...) { __VA_ARGS__ }
#define KNOB(name, values, doc) { #name, values },
#include "knobs.def"
#undef KNOB
#undef VALUES
};

const char *knob_name(unsigned knob) {
	return knobs[knob].name;
}

const char *knob_value(unsigned knob, unsigned value) {
	return value < KNOB_VALUES ? knobs[knob].values[value] : NULL;
}

int knob_find_value(unsigned knob, const char *name) {
	for (int i = 0; i < KNOB_VALUES; i++)
		if (knobs[knob].values[i] && !strcmp(knobs[knob].values[i], name))
			return i;
	return -1;
}

/* NULL: there is none. */
static const char *find_knob(const char *name, size_t length, unsigned *knobp) {
	for (*knobp = 0; *knobp < KNOB_COUNT; ++*knobp)
		if (strlen(knobs[*knobp].name) == length && !memcmp(knobs[*knobp].name, name, length))
			return knobs[*knobp].name;
	return NULL;
}

static int parse_pin(const char *word, struct knob_pins *pins, struct fault *f) {
	const char *mark = strchr(word, '=');
	unsigned knob;
	int value;

	if (!mark || !find_knob(word, (size_t)(mark - word), &knob))
		return fault_set(f, FAULT_ARGUMENT, "fusion.knobs: %s is not the name of a knob, =, and a value of it; see fusiond.conf(5)", word);
	value = knob_find_value(knob, mark + 1);
	if (value < 0)
		return fault_set(f, FAULT_ARGUMENT, "fusion.knobs: the knob %s has no value %s", knobs[knob].name, mark + 1);
	pins->knobs.value[knob] = (uint8_t)value;
	pins->set |= 1u << knob;
	return 0;
}

int knobs_parse(const char *text, struct knob_pins *pins, struct fault *f) {
	char word[PIN_TEXT];
	int r = 0, n;

	*pins = (struct knob_pins){ .set = 0 };
	while (!r && sscanf(text, " %63[^ ,]%n", word, &n) == 1) {
		r = parse_pin(word, pins, f);
		text += n;
		text += strspn(text, " ,");
	}
	if (r)
		*pins = (struct knob_pins){ .set = 0 };
	return r;
}

void knobs_print(const struct knob_pins *pins, char *text, size_t size) {
	size_t used = 0;

	text[0] = 0;
	for (unsigned i = 0; i < KNOB_COUNT && used < size; i++)
		if (pins->set >> i & 1)
			used += (size_t)snprintf(text + used, size - used, "%s%s=%s", used ? " " : "", knobs[i].name,
				knobs[i].values[pins->knobs.value[i]]);
}
