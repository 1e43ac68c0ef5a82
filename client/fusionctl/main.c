/*
 * fusionctl: what an administrator asks fusiond. A command is a row of `commands` and a file.
 */
#include <argp.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control.h"
#include "usage.h"
#include "protocol/variable.h"

/* Programs are built with hidden symbols; libc finds this one only if it is not. */
FUSION_API const char *argp_program_version = "fusionctl " FUSION_VERSION;

enum {
	KEY_JSON = 0x100,
	KEY_SOURCE,
	KEY_UNFUSED,
	KEY_ALL,
	KEY_LAST,
	KEY_SESSION,
	KEY_DOT,
	KEY_SVG,
	KEY_SIZE,
	KEY_ONCE,
	KEY_ROOT,
	KEY_KIND,
	KEY_SORT,
	KEY_SECONDS,
	KEY_ORIGIN,
	KEY_SINCE,
	KEY_LIMIT,
};

static const struct argp_option options[] = {
	{ "socket", 's', "PATH", 0, "The daemon's socket; else $FUSION_SOCKET, then the system's, then one's own", 0 },
	{ "json", KEY_JSON, NULL, 0, "Print JSON, errors too", 0 },
	{ "limit", KEY_LIMIT, "SECONDS", 0, "Give up when nothing was answered for so long; else after 60 s, and never where a command takes as long as its work", 0 },
	{ "source", KEY_SOURCE, NULL, 0, "explain, kernels: print the source of each kernel too", 1 },
	{ "unfused", KEY_UNFUSED, NULL, 0, "can-fuse, explain, graph, run: with fusion off", 1 },
	{ "all", KEY_ALL, NULL, 0, "run: print every element of large arrays", 1 },
	{ "session", KEY_SESSION, "NUMBER", 0, "explain, graph, opportunities: the last graphs of this session; monitor, trace: only what it does", 1 },
	{ "last", KEY_LAST, NULL, 0, "explain, graph, opportunities: the last graphs of the session that ran last", 1 },
	{ "dot", KEY_DOT, "FILE", 0, "graph: write the language of Graphviz, - for standard output", 1 },
	{ "once", KEY_ONCE, NULL, 0, "top: one screen, and no more", 1 },
	{ "size", KEY_SIZE, "BYTES", 0, "cache prune: to so many, else to cache.bytes; K, M and G are powers of 1024", 1 },
	{ "root", KEY_ROOT, "FOLDER", 0, "doctor: look at the tree that is there, of an image or another machine", 1 },
	{ "show-origin", KEY_ORIGIN, NULL, 0, "config: with where each value comes from", 1 },
	{ "kind", KEY_KIND, "KIND,...", 0, "monitor, trace: only request, window, plan, build, launch, run or copy", 1 },
	{ "seconds", KEY_SECONDS, "NUMBER", 0, "monitor, trace: end after so long; else with Ctrl-C", 1 },
	{ "since", KEY_SINCE, "TIME", 0, "users: what was used since a day as 2026-11-24, or in the last 12h or 7d", 1 },
	{ "sort", KEY_SORT, "COLUMN", 0, "clients, top: by session, engine, user, pid, memory, queued, device, kernels or command", 1 },
	{ "svg", KEY_SVG, "FILE", 0, "graph: write a picture, by Graphviz's program dot", 1 },
	{ 0 },
};

/* Options that only some commands take, as bits. */
enum {
	TAKES_SOURCE = 1 << 0,
	TAKES_UNFUSED = 1 << 1,
	TAKES_ALL = 1 << 2,
	TAKES_LAST = 1 << 3,
	TAKES_SESSION = 1 << 4,
	TAKES_DOT = 1 << 5,
	TAKES_SVG = 1 << 6,
	TAKES_SIZE = 1 << 7,
	TAKES_ONCE = 1 << 8,
	TAKES_ROOT = 1 << 9,
	TAKES_KIND = 1 << 10,
	TAKES_SORT = 1 << 11,
	TAKES_SECONDS = 1 << 12,
	TAKES_ORIGIN = 1 << 13,
	TAKES_SINCE = 1 << 14,
	/* The time is the work's, or the user's: without --limit there is none. */
	TAKES_TIME = 1 << 30,
	TAKES_EVENTS = TAKES_SESSION | TAKES_KIND | TAKES_SECONDS,
	TAKES_RECENT = TAKES_LAST | TAKES_SESSION,
};

static const struct {
	int key;
	unsigned bit;
	const char *name;
} particular[] = {
	{ KEY_SOURCE, TAKES_SOURCE, "--source" },
	{ KEY_UNFUSED, TAKES_UNFUSED, "--unfused" },
	{ KEY_ALL, TAKES_ALL, "--all" },
	{ KEY_LAST, TAKES_LAST, "--last" },
	{ KEY_SESSION, TAKES_SESSION, "--session" },
	{ KEY_DOT, TAKES_DOT, "--dot" },
	{ KEY_SVG, TAKES_SVG, "--svg" },
	{ KEY_SIZE, TAKES_SIZE, "--size" },
	{ KEY_ONCE, TAKES_ONCE, "--once" },
	{ KEY_ROOT, TAKES_ROOT, "--root" },
	{ KEY_KIND, TAKES_KIND, "--kind" },
	{ KEY_SORT, TAKES_SORT, "--sort" },
	{ KEY_SECONDS, TAKES_SECONDS, "--seconds" },
	{ KEY_ORIGIN, TAKES_ORIGIN, "--show-origin" },
	{ KEY_SINCE, TAKES_SINCE, "--since" },
};

enum {
	PARTICULAR = sizeof particular / sizeof *particular
};

static const struct {
	const char *name;
	const char *words;             /* as help shows them */
	unsigned least, most;          /* words */
	unsigned takes;
	control_command *run;
	const char *doc;
} commands[] = {
	{ "status", "", 0, 0, 0, status_command, "how the daemon is; works also while its engine is down" },
	{ "doctor", "", 0, 0, TAKES_ROOT | TAKES_TIME, doctor_command,
		"what keeps fusiond from running here, or from running well, and the commands that mend it; needs no daemon" },
	{ "info", "", 0, 0, 0, info_command, "releases, devices, drivers and their speed" },
	{ "clients", "", 0, 0, TAKES_SORT, clients_command, "who uses the daemon: memory, queue, time of the device" },
	{ "users", "", 0, 0, TAKES_SINCE, users_command, "what each user has used and holds, what holds for him, and where that comes from" },
	{ "kill", "SESSION|pid=PROCESS", 1, 1, 0, kill_command, "end a client" },
	{ "monitor", "", 0, 0, TAKES_EVENTS | TAKES_TIME, monitor_command, "what the daemon does, as it happens: requests, windows, plans, builds, launches" },
	{ "trace", "record FILE", 1, 2, TAKES_EVENTS | TAKES_TIME, trace_command, "the same as a timeline that Perfetto and browsers open" },
	{ "kernels", "", 0, 0, TAKES_SOURCE, kernels_command, "the kernels that there are" },
	{ "latency", "", 0, 0, TAKES_TIME, latency_command, "how long a client waits for the daemon, measured now" },
	{ "stats", "", 0, 0, 0, stats_command, "what the daemon has counted since its engine started" },
	{ "config", "[get NAME | set NAME VALUE]", 0, 3, TAKES_ORIGIN, config_command,
		"the settings that change while the daemon runs; with --show-origin all, and where each comes from" },
	{ "operations", "", 0, 0, 0, operations_command,
		"the operations that the daemon's administrator defined, and why what is refused is" },
	{ "patterns", "[define SIGNATURE TEXT | forget NAME]", 0, 3, 0, patterns_command,
		"the fusion patterns, built in and defined, and where each is on" },
	{ "explain", "FILE", 1, 1, TAKES_SOURCE | TAKES_UNFUSED | TAKES_RECENT, explain_command,
		"which operations of a text graph go into which kernel, and why not fewer; runs nothing" },
	{ "graph", "FILE", 1, 1, TAKES_UNFUSED | TAKES_RECENT | TAKES_DOT | TAKES_SVG, graph_command,
		"draw what explain tells" },
	{ "opportunities", "FILE", 1, 1, TAKES_RECENT, opportunities_command, "what fusing gains in a text graph, the most first; runs nothing" },
	{ "can-fuse", "FILE FIRST SECOND", 3, 3, TAKES_UNFUSED, can_fuse_command,
		"do two operations of a text graph run in one kernel, and why not; runs nothing" },
	{ "cache", "stat | prune | verify | check | warm FILE...", 1, CONTROL_WORDS, TAKES_SIZE | TAKES_TIME, cache_command,
		"what is kept of compiled kernels; remove what was used longest ago, or is damaged; build the kernels of text graphs" },
	{ "quarantine", "[list | clear]", 0, 1, 0, quarantine_command,
		"the graphs that were under way when an engine ended: which run alone, which are refused; clear: none is any more" },
	{ "bench", "pattern NAME SIZE", 0, 3, TAKES_TIME, bench_command,
		"measure what a fusion pattern gains, on arrays of SIZE x SIZE" },
	{ "tune", "[FILE...]", 0, CONTROL_WORDS, TAKES_TIME, tune_command,
		"which form of a graph runs faster, as measured: what the daemon chose, or try text graphs now" },
	{ "top", "", 0, 0, TAKES_ONCE | TAKES_SORT | TAKES_TIME, top_command, "what the daemon does, its kernels and its queue of builds, every second" },
	{ "run", "FILE", 1, 1, TAKES_UNFUSED | TAKES_ALL | TAKES_TIME, run_command, "run a text graph and print its outputs" },
};

enum {
	COMMANDS = sizeof commands / sizeof *commands
};

struct line {
	struct control control;
	int command;    /* row of commands; -1: none yet */
	unsigned words;
	unsigned given; /* bits of the particular options */
	double limit;   /* 0: not said */
};

static void take_word(struct line *l, char *word, struct argp_state *state) {
	if (l->command < 0) {
		for (int i = 0; i < COMMANDS; i++)
			if (!strcmp(commands[i].name, word))
				l->command = i;
		if (l->command < 0)
			argp_error(state, "there is no command '%s'", word);
		return;
	}
	if (l->words == commands[l->command].most)
		argp_error(state, "%s takes %s, so what is '%s'?", commands[l->command].name,
			*commands[l->command].words ? commands[l->command].words : "no arguments", word);
	l->control.word[l->words++] = word;
}

static void check_line(const struct line *l, struct argp_state *state) {
	if (l->command < 0)
		argp_error(state, "which command? --help lists them");
	for (unsigned i = 0; i < PARTICULAR; i++)
		if (l->given & ~commands[l->command].takes & particular[i].bit)
			argp_error(
				state, "%s does not take %s", commands[l->command].name, particular[i].name);
	if (commands[l->command].takes & TAKES_LAST && control_recent(&l->control)) {
		if (l->words)
			argp_error(state, "%s takes a file or a session, not both", commands[l->command].name);
	} else if (l->words < commands[l->command].least) {
		if (strcmp(commands[l->command].words, "FILE") != 0)
			argp_error(state, "%s wants %s", commands[l->command].name, commands[l->command].words);
		argp_error(state, "%s wants the name of a text graph, or - for standard input",
			commands[l->command].name);
	}
}

static void take_particular(struct line *l, int key) {
	for (unsigned i = 0; i < PARTICULAR; i++)
		if (particular[i].key == key)
			l->given |= particular[i].bit;
	l->control.source = l->given & TAKES_SOURCE;
	l->control.unfused = l->given & TAKES_UNFUSED;
	l->control.all = l->given & TAKES_ALL;
	l->control.last = l->given & TAKES_LAST;
	l->control.once = l->given & TAKES_ONCE;
	l->control.origin = l->given & TAKES_ORIGIN;
}

static uint64_t session_number(const char *text, struct argp_state *state) {
	unsigned long long number;
	char *end;

	errno = 0;
	number = strtoull(text, &end, 10);
	if (errno || *end || !number || *text < '0' || *text > '9')
		argp_error(state, "'%s' is no number of a session; status lists them", text);
	return number;
}

static double seconds_number(const char *text, struct argp_state *state) {
	char *end;
	double seconds = strtod(text, &end);

	if (end == text || *end || !(seconds > 0))
		argp_error(state, "'%s' is no number of seconds", text);
	return seconds;
}

/* Options with a value; those of some commands only are checked at the end. */
static void take_value(struct line *l, int key, char *value, struct argp_state *state) {
	if (key == KEY_SESSION)
		l->control.session = session_number(value, state);
	else if (key == KEY_SIZE)
		l->control.size = value;
	else if (key == KEY_DOT)
		l->control.dot = value;
	else if (key == KEY_ROOT)
		l->control.root = value;
	else if (key == KEY_KIND)
		l->control.kind = value;
	else if (key == KEY_SORT)
		l->control.sort = value;
	else if (key == KEY_SINCE)
		l->control.since = value;
	else if (key == KEY_SECONDS)
		l->control.seconds = seconds_number(value, state);
	else
		l->control.svg = value;
	take_particular(l, key);
}

static error_t parse(int key, char *value, struct argp_state *state) {
	struct line *l = state->input;

	switch (key) {
	case 's':
		l->control.socket = value;
		return 0;
	case KEY_JSON:
		l->control.json = true;
		return 0;
	case KEY_LIMIT:
		l->limit = seconds_number(value, state);
		return 0;
	case KEY_SOURCE:
	case KEY_UNFUSED:
	case KEY_ALL:
	case KEY_LAST:
	case KEY_ONCE:
	case KEY_ORIGIN:
		take_particular(l, key);
		return 0;
	case KEY_SESSION:
	case KEY_DOT:
	case KEY_SVG:
	case KEY_SIZE:
	case KEY_ROOT:
	case KEY_KIND:
	case KEY_SORT:
	case KEY_SINCE:
	case KEY_SECONDS:
		take_value(l, key, value, state);
		return 0;
	case ARGP_KEY_ARG:
		take_word(l, value, state);
		return 0;
	case ARGP_KEY_END:
		check_line(l, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* The help lists the commands of the table before the options. */
static char *add_commands(int key, const char *text, void *input) {
	char *help = NULL;
	size_t size;
	FILE *out;

	(void)input;
	if (key != ARGP_KEY_HELP_PRE_DOC)
		return (char *)(uintptr_t)text;
	out = open_memstream(&help, &size);
	if (!out)
		return (char *)(uintptr_t)text;
	fprintf(out, "%s\n\nCommands:", text);
	for (unsigned i = 0; i < COMMANDS; i++)
		fprintf(out, "\n  %s %s\n      %s", commands[i].name, commands[i].words, commands[i].doc);
	return fclose(out) ? (char *)(uintptr_t)text : help;
}

/* In seconds; 0: none. */
static double limit_of(const struct line *l) {
	if (l->limit > 0)
		return l->limit;
	if (commands[l->command].takes & TAKES_TIME)
		return 0;
	return variable_number("FUSION_LIMIT_S", FUSIONCTL_LIMIT_S);
}

int main(int argc, char **argv) {
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "COMMAND [WORD...]",
		.doc = "Asks fusiond how it is, what it did and what it would do.\v"
		       "Exit codes are those of sysexits.h: 0 success; 64 wrong usage; 65 the daemon or a graph refused; 69 no "
		       "daemon answers; 75 (status) the daemon answers and its engine is not ready; 77 not allowed. See fusionctl(1).",
		.help_filter = add_commands,
	};
	struct line line = { .command = -1 };
	struct fault f;
	int code;

	argp_err_exit_status = FUSIONCTL_USAGE;
	signal(SIGPIPE, SIG_IGN);
	usage_begin(argc, argv);
	argp_parse(&argp, argc, argv, 0, NULL, &line);
	line.control.command = commands[line.command].name;
	code = variables_check(&f);
	if (code)
		return control_fail(&line.control, code, &f);
	limit_begin(limit_of(&line), line.control.json);
	code = commands[line.command].run(&line.control);
	/* A reader that has seen enough, such as head(1), is no error. */
	if ((fflush(stdout) || ferror(stdout)) && errno != EPIPE) {
		perror("fusionctl: the output could not be written");
		return EX_IOERR;
	}
	return code;
}
