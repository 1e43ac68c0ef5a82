/* What --help prints, and what a shell's completion reads. All of it is made of the rows of commands.def and options.def. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "print.h"

enum {
	/* A terminal's, and that of a page. */
	HELP_COLUMNS = 80,
	/* Where what is said of a command or an option begins. */
	HELP_COMMAND = 17,
	HELP_OPTION = 26,
	HELP_NAME_TEXT = 64,
	HELP_DOC_TEXT = 512,
};

static const char *const exit_codes = "Exit codes are those of sysexits.h: 0 success; 64 wrong usage; 65 the daemon or a graph refused; "
	"69 no daemon answers; 75 (status) the daemon answers and its engine is not ready; 77 not allowed. See fusionctl(1).";

/* ---- commands ---- */

static void put_first_words(FILE *out, const struct command *c) {
	const struct command_word *w;

	if (!*c->words)
		putc('[', out);
	for (unsigned i = 0; (w = command_word(c, i)); i++)
		fprintf(out, "%s%s%s%s", i ? " | " : "", w->word, *w->words ? " " : "", w->words);
	if (!*c->words)
		putc(']', out);
}

/* "[get NAME | set NAME VALUE]": what stands behind its name, to be freed; NULL: no memory. */
static char *help_words(const struct command *c) {
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	if (command_word(c, 0))
		put_first_words(out, c);
	else
		fputs(c->words, out);
	if (!fclose(out))
		return text;
	free(text);
	return NULL;
}

static void print_commands(void) {
	puts("Commands:");
	for (unsigned i = 0; i < commands_count; i++)
		print_wrapped(commands[i].doc, printf("  %s", commands[i].name), HELP_COMMAND, HELP_COLUMNS);
}

/* ---- options ---- */

/* What is said of it, with the values that it may have. */
static char *option_doc(enum control_option o, char text[static HELP_DOC_TEXT]) {
	int used = snprintf(text, HELP_DOC_TEXT, "%s", option_rows[o].doc);
	const char *value;

	for (unsigned i = 0; (value = option_value(o, i)) && used < HELP_DOC_TEXT; i++)
		used += snprintf(text + used, (size_t)(HELP_DOC_TEXT - used), "%s%s", i ? ", " : ": ", value);
	return text;
}

/* "--source[=all]", "--size=BYTES", "--all". */
static char *option_name(enum control_option o, char text[static HELP_NAME_TEXT]) {
	const char *argument = option_rows[o].argument, *name = option_rows[o].name;

	if (*argument == '[')
		snprintf(text, HELP_NAME_TEXT, "--%s[=%s", name, argument + 1);
	else
		snprintf(text, HELP_NAME_TEXT, "--%s%s%s", name, *argument ? "=" : "", argument);
	return text;
}

static void print_option(enum control_option o) {
	char name[HELP_NAME_TEXT], doc[HELP_DOC_TEXT];
	int at = option_rows[o].letter ? printf("  -%c, ", option_rows[o].letter) : printf("      ");

	at += printf("%s", option_name(o, name));
	print_wrapped(option_doc(o, doc), at, HELP_OPTION, HELP_COLUMNS);
}

/* NULL: of every command. */
static void print_options(const struct command *c, const char *heading) {
	for (enum control_option o = 0; o < OPTIONS; o++) {
		if (c ? option_rows[o].every || !command_takes(c, o) : !option_rows[o].every)
			continue;
		if (heading)
			printf("\n%s\n", heading);
		heading = NULL;
		print_option(o);
	}
}

/* ---- help ---- */

static void print_one(const struct command *c) {
	const struct command_word *w;
	char *words = help_words(c), name[HELP_NAME_TEXT], *doc = NULL;

	print_wrapped(words ? words : "", printf("Usage: fusionctl %s [OPTION...]", c->name), 0, HELP_COLUMNS);
	free(words);
	if (asprintf(&doc, "%s: %s.", c->name, c->doc) >= 0)
		print_wrapped(doc, 0, 0, HELP_COLUMNS);
	free(doc);
	for (unsigned i = 0; (w = command_word(c, i)); i++) {
		printf("%s", i ? "" : "\n");
		snprintf(name, sizeof name, "  %s%s%s", w->word, *w->words ? " " : "", w->words);
		print_wrapped(w->doc, printf("%s", name), HELP_OPTION, HELP_COLUMNS);
	}
	print_options(c, "Options:");
	print_options(NULL, "Options of every command:");
	printf("\nFor example:\n  fusionctl %s\n", c->example);
}

void help_print(const struct command *c) {
	if (c) {
		print_one(c);
		return;
	}
	puts("Usage: fusionctl [OPTION...] COMMAND [WORD...]\nAsks fusiond how it is, what it did and what it would do.\n");
	print_commands();
	print_options(NULL, "Options of every command; fusionctl COMMAND --help tells its own:");
	putchar('\n');
	print_wrapped(exit_codes, 0, 0, HELP_COLUMNS);
}

/* ---- completion ---- */

static void complete_option(enum control_option o) {
	const char *argument = option_rows[o].argument, *value;

	if (option_rows[o].letter)
		printf("letter -%c %s\n", option_rows[o].letter, argument);
	printf("option --%s %s\n", option_rows[o].name, argument);
	for (unsigned i = 0; (value = option_value(o, i)); i++)
		printf("value --%s %s\n", option_rows[o].name, value);
}

void help_complete(const struct command *c) {
	const struct command_word *w;

	for (unsigned i = 0; !c && i < commands_count; i++)
		printf("word %s\n", commands[i].name);
	for (unsigned i = 0; c && (w = command_word(c, i)); i++)
		printf("word %s\n", w->word);
	for (enum control_option o = 0; o < OPTIONS; o++)
		if (!c || command_takes(c, o))
			complete_option(o);
}
