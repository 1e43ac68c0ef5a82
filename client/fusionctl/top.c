/*
 * fusionctl top: what the daemon does, again and again: its load, its clients, how its kernels run, and the queue of builds. On a
 * terminal it is a screen of ncurses, whose keys choose the order of the clients; elsewhere screens follow each other as text.
 * --once prints one, for scripts.
 *
 * A screen is made as text either way, since glibc lets standard output be any stream.
 */
#include <errno.h>
#include <ncurses.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "clients.h"
#include "control.h"
#include "print.h"
#include "client/json.h"

enum {
	TOP_SECONDS = 1,
	TOP_KEY_TEXT = 128,
};

/* Counters of the last screen; rates are against them. */
struct last {
	bool known;
	double when, runs, kernels, operations, unfused;
};

static double percent_fewer(double before, double after) {
	return before > 0 ? 100 * (1 - after / before) : 0;
}

static double now(void) {
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void print_rates(const cJSON *stats, struct last *last) {
	struct last is = { true, now(), json_number(stats, "runs"), json_number(stats, "kernels_launched"),
		json_number(stats, "operations_executed"), json_number(stats, "kernels_unfused") };
	double seconds = is.when - last->when;
	char a[PRINT_TEXT], b[PRINT_TEXT], c[PRINT_TEXT];

	if (last->known && seconds > 0)
		print_line("a second", "%s, %s, %s", print_counted((is.runs - last->runs) / seconds, "graph", a),
			print_counted((is.kernels - last->kernels) / seconds, "kernel", b),
			print_counted((is.operations - last->operations) / seconds, "operation", c));
	else
		print_line("ever", "%s, %s, %s", print_counted(is.runs, "graph", a), print_counted(is.kernels, "kernel", b),
			print_counted(is.operations, "operation", c));
	print_line("fused", "%.1f %% fewer kernels than without fusion%s", last->known && is.unfused > last->unfused
			? percent_fewer(is.unfused - last->unfused, is.kernels - last->kernels) : percent_fewer(is.unfused, is.kernels),
		last->known && is.unfused > last->unfused ? " in the last second" : ", ever");
	print_line("memory", "%s in %s", print_bytes(json_number(stats, "memory_bytes"), a),
		print_counted(json_number(stats, "arrays"), "array", b));
	*last = is;
}

static void print_tiers(const cJSON *stats) {
	const cJSON *tiers = json_item(stats, "tiers");
	char a[PRINT_TEXT], b[PRINT_TEXT], c[PRINT_TEXT];

	print_line("kernels", "%s as bytecode, %s by programs of their own, %s of them tuned",
		print_count(json_number(tiers, "byte_code"), a), print_count(json_number(tiers, "compiled"), b),
		print_count(json_number(tiers, "tuned"), c));
}

static void print_builds(const cJSON *device) {
	const cJSON *one;
	char text[PRINT_TEXT];
	struct print_table *t;

	print_line("programs", "%.0f built, %.0f from the cache, %.0f failed, %.0f in the queue",
		json_number(device, "programs_built"), json_number(device, "programs_cached"),
		json_number(device, "programs_failed"), json_number(device, "programs_building"));
	t = print_table_new(6);
	cJSON_ArrayForEach(one, json_item(device, "builds")) {
		print_table_cell(t, json_text(one, "state"), false);
		print_table_cell(t, json_text(one, "kernel"), false);
		print_table_cell(t, print_counted(json_number(one, "values"), "value", text), false);
		print_table_cell(t, "asked for", false);
		print_table_cell(t, print_seconds(json_number(one, "asked_ms") / 1e3, text), true);
		print_table_cell(t, "ago", false);
	}
	print_table_end(t, 2);
}

/* What stands above the clients: a screen of 24 lines has room for both, and for little else. */
static void print_load(const cJSON *stats, struct last *last) {
	char a[PRINT_TEXT], b[PRINT_TEXT], c[PRINT_TEXT];

	print_line("device", "%s", json_text(json_item(stats, "device"), "name"));
	print_line("up", "%s, %s, %s on the device", print_seconds(json_number(stats, "uptime_s"), a),
		print_counted(json_number(stats, "sessions"), "session", b), print_counted(json_number(stats, "runs_busy"), "graph", c));
	print_rates(stats, last);
}

static void print_details(const cJSON *stats) {
	putchar('\n');
	print_tiers(stats);
	print_builds(json_item(stats, "device"));
}

/* Those the caller may see; where they cannot be asked, the rest of the screen stands alone. */
static void print_clients(const struct control *c) {
	cJSON *clients = NULL;
	struct print_table *t;
	struct fault f;

	if (clients_ask(c, &clients, &f))
		return;
	putchar('\n');
	t = print_table_new(CLIENTS_COLUMNS);
	clients_table(t, clients);
	print_table_end(t, 0);
	cJSON_Delete(clients);
}

/* One screen; with --json the statistics themselves. */
static int show(const struct control *c, fusion_context *context, struct last *last, struct fault *f) {
	char *text = fusion_stats(context, true);
	cJSON *stats;
	int r = control_parse(text, &stats, f);

	if (!r && c->json) {
		control_print_answer(c, text);
	} else if (!r) {
		print_load(stats, last);
		print_clients(c);
		print_details(stats);
	}
	cJSON_Delete(stats);
	free(text);
	fflush(stdout);
	return r;
}

/* ---- a screen of ncurses ---- */

/* *textp, to be freed, is what show() prints. */
static int show_into(const struct control *c, fusion_context *context, struct last *last, char **textp, struct fault *f) {
	FILE *out = stdout, *memory;
	size_t size;
	int r;

	memory = open_memstream(textp, &size);
	if (!memory)
		return -ENOMEM;
	stdout = memory;
	r = show(c, context, last, f);
	stdout = out;
	fclose(memory);
	return r;
}

static void draw(const struct control *c, const char *text) {
	char keys[TOP_KEY_TEXT];
	int line = 0;

	erase();
	snprintf(keys, sizeof keys, "fusionctl top   order: %s   keys 1 to %d: the column, q: end", c->sort ? c->sort : "session",
		CLIENTS_COLUMNS);
	attron(A_BOLD);
	mvaddnstr(line++, 0, keys, COLS);
	attroff(A_BOLD);
	while (*text && line < LINES) {
		size_t length = strcspn(text, "\n");
		bool heading = !strncmp(text, "SESSION", 7);

		if (heading)
			attron(A_REVERSE);
		mvaddnstr(line++, 0, text, (int)length < COLS ? (int)length : COLS);
		if (heading)
			attroff(A_REVERSE);
		text += length + (text[length] == '\n');
	}
	refresh();
}

/* False: the person wants to leave. Waits for a key, until the next screen is due. */
static bool obey(struct control *c) {
	int key = getch();

	if (key == 'q' || key == 'Q')
		return false;
	if (key >= '1' && key < '1' + CLIENTS_COLUMNS)
		c->sort = clients_columns[key - '1'];
	return true;
}

static int watch(const struct control *given, fusion_context *context, struct fault *f) {
	struct control c = *given;
	struct last last = { .known = false };
	int r = 0;

	initscr();
	cbreak();
	noecho();
	curs_set(0);
	timeout(TOP_SECONDS * 1000);
	do {
		char *text = NULL;

		r = show_into(&c, context, &last, &text, f);
		if (!r)
			draw(&c, text);
		free(text);
	} while (!r && obey(&c));
	endwin();
	return r;
}

/* ---- lines ---- */

static int follow(const struct control *c, fusion_context *context, struct fault *f) {
	struct last last = { .known = false };
	int r = 0;

	while (!r) {
		r = show(c, context, &last, f);
		if (r || c->once || ferror(stdout))
			break;
		sleep(TOP_SECONDS);
	}
	return r;
}

static bool has_screen(const struct control *c) {
	const char *terminal = getenv("TERM");

	return !c->once && !c->json && isatty(STDOUT_FILENO) && isatty(STDIN_FILENO) && terminal && *terminal &&
	       strcmp(terminal, "dumb") != 0;
}

int top_command(const struct control *c) {
	fusion_context *context = NULL;
	struct fault f;
	int r = control_open(c, &context, &f);

	if (!r)
		r = has_screen(c) ? watch(c, context, &f) : follow(c, context, &f);
	fusion_close(context);
	return r ? control_fail(c, r, &f) : FUSIONCTL_OK;
}
