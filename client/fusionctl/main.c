/*
 * fusionctl: what an administrator asks fusiond. A command is a row of commands.def and a file.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "control.h"
#include "usage.h"
#include "protocol/nearest.h"
#include "protocol/variable.h"

enum {
	/* What getopt_long() gives for an option without a letter: this and its number. */
	KEY_OPTION = 0x100,
	KEYS_TEXT = 2 * OPTIONS + 2,
};

/* What a shell's completion asks; no option that a person needs. */
#define COMPLETE "--complete"

struct line {
	struct control control;
	const struct command *command;       /* NULL: none yet */
	unsigned words;
	unsigned given;                      /* bits of options */
	const char *value[OPTIONS];
	double limit;                        /* 0: not said */
};

/* ---- what is wrong with it ---- */

static _Noreturn void wrong(const struct line *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
static _Noreturn void wrong(const struct line *l, const char *format, ...) {
	va_list ap;

	fprintf(stderr, "fusionctl: ");
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fprintf(stderr, "\nfusionctl %s%s--help tells more\n", l->command ? l->command->name : "", l->command ? " " : "");
	exit(FUSIONCTL_USAGE);
}

static _Noreturn void wrong_command(const struct line *l, const char *word) {
	char hint[NEAREST_SENTENCE];
	struct nearest near;

	nearest_begin(&near, word, strlen(word));
	for (unsigned i = 0; i < commands_count; i++)
		nearest_try(&near, commands[i].name);
	wrong(l, "there is no command '%s'%s", word, nearest_text(&near, "", hint));
}

/* ", " or " or " before the i-th, where `next` is NULL behind the last. */
static const char *between(unsigned i, const void *next) {
	if (!i)
		return "";
	return next ? ", " : " or ";
}

/* What `out` has written to *textp; the process ends with the sentence that it is for. */
static const char *listed(FILE *out, char **textp) {
	return fclose(out) ? "other words" : *textp;
}

/* "get NAME or set NAME VALUE". */
static const char *first_words(const struct command *c) {
	const struct command_word *w;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	for (unsigned i = 0; out && (w = command_word(c, i)); i++)
		fprintf(out, "%s%s%s%s", between(i, command_word(c, i + 1)), w->word, *w->words ? " " : "", w->words);
	return out ? listed(out, &text) : "other words";
}

/* "session, user or pid". */
static const char *option_values(enum control_option o) {
	const char *value;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	for (unsigned i = 0; out && (value = option_value(o, i)); i++)
		fprintf(out, "%s%s", between(i, option_value(o, i + 1)), value);
	return out ? listed(out, &text) : "other words";
}

static _Noreturn void wrong_word(const struct line *l, const char *word) {
	const struct command_word *w;
	char hint[NEAREST_SENTENCE];
	struct nearest near;

	nearest_begin(&near, word, strlen(word));
	for (unsigned i = 0; (w = command_word(l->command, i)); i++)
		nearest_try(&near, w->word);
	wrong(l, "%s takes %s, not '%s'%s", l->command->name, first_words(l->command), word, nearest_text(&near, "", hint));
}

/* ---- words ---- */

static const struct command_word *find_word(const struct command *c, const char *word) {
	const struct command_word *w;

	for (unsigned i = 0; (w = command_word(c, i)); i++)
		if (!strcmp(w->word, word))
			break;
	return w;
}

static bool is_given(const struct line *l, enum control_option o) {
	return l->given & 1U << o;
}

static void check_word_options(const struct line *l, const struct command_word *w) {
	for (enum control_option o = 0; o < OPTIONS; o++)
		if (is_given(l, o) && !option_rows[o].every && !(w->takes & 1U << o))
			wrong(l, "%s %s does not take --%s", l->command->name, w->word, option_rows[o].name);
}

/* Of a command that does several things: what stands behind the first word. */
static void check_first_word(const struct line *l) {
	const struct command_word *w;
	unsigned least, most;

	if (!l->words && *l->command->words)
		wrong(l, "%s takes %s", l->command->name, first_words(l->command));
	if (!l->words)
		return;
	w = find_word(l->command, l->control.word[0]);
	if (!w) {
		wrong_word(l, l->control.word[0]);
		return;
	}
	check_word_options(l, w);
	words_count(w->words, &least, &most);
	if (l->words - 1 < least)
		wrong(l, "%s %s wants %s", l->command->name, w->word, w->words);
	if (l->words - 1 > most)
		wrong(l, "%s %s takes %s, so what is '%s'?", l->command->name, w->word, *w->words ? w->words : "no arguments", l->control.word[most + 1]);
}

/* Of a command that tells of a file, its last word, or of what sessions ran. */
static void check_graph(const struct line *l, bool file) {
	const char *name = l->command->name;
	bool recent = control_recent(&l->control);

	if (l->control.last && l->control.session)
		wrong(l, "%s takes --last or --session, not both", name);
	if (file && recent)
		wrong(l, "%s takes a file or a session, not both", name);
	if (!file && !recent && !l->words)
		wrong(l, "%s wants the name of a text graph, - for standard input, or --last or --session for what ran", name);
	if (!file && l->control.unfused)
		wrong(l, "%s --unfused is for a file: what has run is told of as it ran", name);
}

static void check_words(const struct line *l) {
	unsigned least, most;

	words_count(l->command->words, &least, &most);
	if (l->words > most)
		wrong(l, "%s takes %s, so what is '%s'?", l->command->name, most ? l->command->words : "no arguments", l->control.word[most]);
	if (l->words < least && !strcmp(l->command->words, "FILE"))
		wrong(l, "%s wants the name of a text graph, or - for standard input", l->command->name);
	if (l->words < least)
		wrong(l, "%s wants %s", l->command->name, l->command->words);
	if (command_takes(l->command, OPTION_LAST))
		check_graph(l, l->words == most);
}

static void take_word(struct line *l, char *word) {
	if (!l->command && !strcmp(word, "help")) {
		l->given |= 1U << OPTION_HELP;
		return;
	}
	if (!l->command) {
		l->command = command_find(word);
		if (!l->command)
			wrong_command(l, word);
		return;
	}
	if (l->words + 1 == CONTROL_WORDS)
		wrong(l, "%s takes %d words at most", l->command->name, CONTROL_WORDS - 1);
	l->control.word[l->words++] = word;
}

/* ---- values ---- */

static uint64_t session_number(const struct line *l, const char *text) {
	unsigned long long number;
	char *end;

	errno = 0;
	number = strtoull(text, &end, 10);
	if (errno || *end || !number || *text < '0' || *text > '9')
		wrong(l, "'%s' is no number of a session; status lists them", text);
	return number;
}

static double seconds_number(const struct line *l, const char *text) {
	char *end;
	double seconds = strtod(text, &end);

	if (end == text || *end || !(seconds > 0))
		wrong(l, "'%s' is no number of seconds", text);
	return seconds;
}

/* One of those that the option may have, up to `length`. */
static void check_value(const struct line *l, enum control_option o, const char *text, size_t length) {
	char hint[NEAREST_SENTENCE];
	struct nearest near;
	const char *value;

	nearest_begin(&near, text, length);
	for (unsigned i = 0; (value = option_value(o, i)); i++) {
		if (strlen(value) == length && !strncmp(value, text, length))
			return;
		nearest_try(&near, value);
	}
	nearest_text(&near, "", hint);
	wrong(l, "--%s takes %s, not '%.*s'%s", option_rows[o].name, option_values(o), (int)length, text, hint);
}

/* Of "KIND,...", say. */
static bool is_list(enum control_option o) {
	return strchr(option_rows[o].argument, ',') != NULL;
}

/* Those with names of ours as values, of which commas stand between several. */
static void check_values(const struct line *l) {
	for (enum control_option o = 0; o < OPTIONS; o++) {
		const char *text = l->value[o];

		if (!option_value(o, 0) || !text)
			continue;
		if (!is_list(o))
			check_value(l, o, text, strlen(text));
		while (is_list(o) && *text) {
			size_t length = strcspn(text, ",");

			check_value(l, o, text, length);
			text += length + (text[length] == ',');
		}
	}
}

static void take_values(struct line *l) {
	struct control *c = &l->control;
	const char *source = l->value[OPTION_SOURCE];

	c->socket = l->value[OPTION_SOCKET];
	c->size = l->value[OPTION_SIZE];
	c->dot = l->value[OPTION_DOT];
	c->svg = l->value[OPTION_SVG];
	c->root = l->value[OPTION_ROOT];
	c->kind = l->value[OPTION_KIND];
	c->sort = l->value[OPTION_SORT];
	c->since = l->value[OPTION_SINCE];
	if (source && strcmp(source, "all") != 0)
		wrong(l, "--source, or --source=all, but not '%s'", source);
	c->whole_source = source != NULL;
	if (l->value[OPTION_SESSION])
		c->session = session_number(l, l->value[OPTION_SESSION]);
	if (l->value[OPTION_SECONDS])
		c->seconds = seconds_number(l, l->value[OPTION_SECONDS]);
	if (l->value[OPTION_LIMIT])
		l->limit = seconds_number(l, l->value[OPTION_LIMIT]);
}

static void take_flags(struct line *l) {
	struct control *c = &l->control;

	c->json = is_given(l, OPTION_JSON);
	c->source = is_given(l, OPTION_SOURCE);
	c->unfused = is_given(l, OPTION_UNFUSED);
	c->all = is_given(l, OPTION_ALL);
	c->last = is_given(l, OPTION_LAST);
	c->once = is_given(l, OPTION_ONCE);
	c->origin = is_given(l, OPTION_ORIGIN);
}

/* ---- the line ---- */

static int key_of(enum control_option o) {
	return option_rows[o].letter ? option_rows[o].letter : KEY_OPTION + (int)o;
}

/* NULL and "" are one thing to getopt_long(): what has an argument is told by its row. */
static int argument_of(enum control_option o) {
	if (!*option_rows[o].argument)
		return no_argument;
	return *option_rows[o].argument == '[' ? optional_argument : required_argument;
}

/* getopt's tables: what has a letter stands in `letters`, too, behind the colon that has it say nothing itself. */
static void make_tables(struct option long_options[OPTIONS + 1], char letters[static KEYS_TEXT]) {
	char *next = letters;

	*next++ = ':';
	for (enum control_option o = 0; o < OPTIONS; o++) {
		long_options[o] = (struct option){ option_rows[o].name, argument_of(o), NULL, key_of(o) };
		if (!option_rows[o].letter)
			continue;
		*next++ = option_rows[o].letter;
		if (*option_rows[o].argument)
			*next++ = ':';
	}
	*next = '\0';
	long_options[OPTIONS] = (struct option){ 0 };
}

static enum control_option option_of(int key) {
	enum control_option o = 0;

	while (o < OPTIONS && key_of(o) != key)
		o++;
	return o;
}

/* The first word that is one: options are read before words. */
static const struct command *command_among(int argc, char **argv) {
	const struct command *c = NULL;

	for (int i = 1; i < argc && !c; i++)
		c = command_find(argv[i]);
	return c;
}

/* What getopt_long() did not know, as it was written: "--sorce=all", "-x", or "--json=1". */
static _Noreturn void wrong_option(struct line *l, int argc, char **argv) {
	const char *text = argv[optind - 1], *name = text + strspn(text, "-");
	size_t length = strcspn(name, "=");
	char hint[NEAREST_SENTENCE];
	struct nearest near;

	l->command = command_among(argc, argv);
	if (strncmp(text, "--", 2) != 0)
		wrong(l, "there is no option '-%c'", optopt);
	if (optopt)
		wrong(l, "--%s takes no value", option_rows[option_of(optopt)].name);
	nearest_begin(&near, name, length);
	for (enum control_option o = 0; o < OPTIONS; o++)
		if (!l->command || command_takes(l->command, o))
			nearest_try(&near, option_rows[o].name);
	wrong(l, "there is no option '--%.*s'%s", (int)length, name, nearest_text(&near, "--", hint));
}

static void read_options(struct line *l, int argc, char **argv) {
	struct option long_options[OPTIONS + 1];
	char letters[KEYS_TEXT];
	int key;

	make_tables(long_options, letters);
	opterr = 0;
	while ((key = getopt_long(argc, argv, letters, long_options, NULL)) != -1) {
		enum control_option o = option_of(key);

		if (key == ':')
			wrong(l, "--%s wants a value: %s", option_rows[option_of(optopt)].name, option_rows[option_of(optopt)].argument);
		if (key == '?')
			wrong_option(l, argc, argv);
		l->given |= 1U << o;
		l->value[o] = optarg;
	}
	while (optind < argc)
		take_word(l, argv[optind++]);
}

static void check_line(const struct line *l) {
	for (enum control_option o = 0; o < OPTIONS; o++)
		if (is_given(l, o) && !command_takes(l->command, o))
			wrong(l, "%s does not take --%s", l->command->name, option_rows[o].name);
	check_values(l);
	if (command_word(l->command, 0))
		check_first_word(l);
	else
		check_words(l);
}

static void read_line(struct line *l, int argc, char **argv) {
	read_options(l, argc, argv);
	if (is_given(l, OPTION_VERSION)) {
		puts("fusionctl " FUSION_VERSION);
		exit(FUSIONCTL_OK);
	}
	if (is_given(l, OPTION_HELP)) {
		help_print(l->command);
		exit(FUSIONCTL_OK);
	}
	take_values(l);
	take_flags(l);
}

/* In seconds; 0: none. */
static double limit_of(const struct line *l) {
	if (l->limit > 0)
		return l->limit;
	return l->command->endless ? 0 : variable_number("FUSION_LIMIT_S", FUSIONCTL_LIMIT_S);
}

int main(int argc, char **argv) {
	struct line line = { .command = NULL };
	struct fault f;
	int code;

	signal(SIGPIPE, SIG_IGN);
	if (argc > 1 && !strcmp(argv[1], COMPLETE)) {
		help_complete(argc > 2 ? command_find(argv[2]) : NULL);
		return FUSIONCTL_OK;
	}
	usage_begin(argc, argv);
	read_line(&line, argc, argv);
	if (!line.command)
		wrong(&line, "which command? --help lists them");
	check_line(&line);
	line.control.command = line.command->name;
	code = variables_check(&f);
	if (code)
		return control_fail(&line.control, code, &f);
	limit_begin(limit_of(&line), line.control.json);
	code = line.command->run(&line.control);
	/* A reader that has seen enough, such as head(1), is no error. */
	if ((fflush(stdout) || ferror(stdout)) && errno != EPIPE) {
		perror("fusionctl: the output could not be written");
		return EX_IOERR;
	}
	return code;
}
