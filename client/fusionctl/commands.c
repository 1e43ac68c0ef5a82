/* See commands.h. */
#include "commands.h"

#include <string.h>

#include "clients.h"
#include "events.h"

const struct option_row option_rows[OPTIONS] = {
#define EVERY(id, letter, name, argument, doc) [OPTION_##id] = { name, argument, doc, letter, true },
#define OPTION(id, name, argument, doc) [OPTION_##id] = { name, argument, doc, 0, false },
#include "options.def"
#undef EVERY
#undef OPTION
};

_Static_assert(OPTIONS <= 8 * sizeof(unsigned), "a command's options are bits of one word");

#define TAKES(id) (1U << OPTION_##id)
#define LIMITED false
#define ENDLESS true

const struct command commands[] = {
#define COMMAND(function, name, words, time, options, example, doc) { name, words, options, time, function##_command, example, doc },
#define WORD(command, word, words, options, doc)
#include "commands.def"
#undef COMMAND
#undef WORD
};
const unsigned commands_count = sizeof commands / sizeof *commands;

static const struct command_word first_words[] = {
#define COMMAND(function, name, words, time, options, example, doc)
#define WORD(command, word, words, options, doc) { #command, word, words, options, doc },
#include "commands.def"
#undef COMMAND
#undef WORD
};

const char *option_value(enum control_option o, unsigned i) {
	if (o == OPTION_SORT)
		return i < CLIENTS_COLUMNS ? clients_columns[i] : NULL;
	return o == OPTION_KIND ? event_kind_name(i) : NULL;
}

const struct command *command_find(const char *name) {
	for (unsigned i = 0; i < commands_count; i++)
		if (!strcmp(commands[i].name, name))
			return &commands[i];
	return NULL;
}

bool command_takes(const struct command *c, enum control_option o) {
	return option_rows[o].every || c->takes & 1U << o;
}

const struct command_word *command_word(const struct command *c, unsigned i) {
	for (size_t k = 0; k < sizeof first_words / sizeof *first_words; k++)
		if (!strcmp(first_words[k].command, c->name) && !i--)
			return &first_words[k];
	return NULL;
}

void words_count(const char *words, unsigned *leastp, unsigned *mostp) {
	const char *at = words;

	*leastp = *mostp = 0;
	while (*at) {
		*leastp += *at != '[';
		++*mostp;
		at += strcspn(at, " ");
		at += strspn(at, " ");
	}
	if (strstr(words, "..."))
		*mostp = CONTROL_WORDS - 1;
}
