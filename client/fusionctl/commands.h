/*
 * The commands of fusionctl and the options that each takes, as commands.def and options.def have them; what a command line has to
 * be, what help tells and what a shell completes is read from here.
 */
#pragma once

#include "client/fusionctl/control.h"

enum control_option {
#define EVERY(id, letter, name, argument, doc) OPTION_##id,
#define OPTION(id, name, argument, doc) OPTION_##id,
#include "options.def"
#undef EVERY
#undef OPTION
	OPTIONS
};

struct option_row {
	const char *name, *argument, *doc;
	char letter;                 /* 0: none */
	bool every;                  /* of every command */
};
extern const struct option_row option_rows[OPTIONS];

/* What an option may have as its value, one after the other; NULL: no more, or it is free. */
const char *option_value(enum control_option o, unsigned i);

struct command {
	const char *name, *words;
	unsigned takes;              /* bits of options */
	bool endless;
	control_command *run;
	const char *example, *doc;
};
extern const struct command commands[];
extern const unsigned commands_count;

/* NULL: there is none of that name. */
const struct command *command_find(const char *name);
bool command_takes(const struct command *c, enum control_option o);

struct command_word {
	const char *command, *word, *words;
	unsigned takes;              /* of its command's options */
	const char *doc;
};
/* The words that may stand first behind it, one after the other; NULL: no more. */
const struct command_word *command_word(const struct command *c, unsigned i);

/* How many words a text as "NAME VALUE", "FILE..." or "[FILE...]" asks for, and allows. */
void words_count(const char *words, unsigned *leastp, unsigned *mostp);

/* ---- help.c ---- */

/* Of one command, or NULL: which there are. Within 80 columns. */
void help_print(const struct command *c);
/* The same for a shell's completion, a fact a line: see completion.bash. */
void help_complete(const struct command *c);
