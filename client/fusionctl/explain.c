/* fusionctl explain and opportunities: which operations of a text graph go into which kernel, why not fewer, and what that gains. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "control.h"
#include "print.h"
#include "client/json.h"

enum {
	INDENT = 4,
};

/* "3 kernels; without fusion 9: 66.7 % fewer, and 50.0 % less memory is moved". */
static void print_gain_of_all(const cJSON *json) {
	double kernels = json_number(json, "kernel_count"), unfused = json_number(json, "unfused_kernel_count");
	double moved = json_number(json, "bytes_moved"), saved = json_number(json, "bytes_not_moved");
	char a[PRINT_TEXT], b[PRINT_TEXT];

	printf("%s; without fusion %s", print_counted(kernels, "kernel", a), print_count(unfused, b));
	if (unfused > kernels)
		printf(": %.1f %% fewer, and %.1f %% less memory is moved", 100 * (1 - kernels / unfused), saved > 0 ? 100 * saved / (moved + saved) : 0);
	putchar('\n');
	if (*json_text(json, "note"))
		print_wrapped(json_text(json, "note"), 0, 0, print_width());
}

static void print_summary(const cJSON *json) {
	char a[PRINT_TEXT], b[PRINT_TEXT];

	print_gain_of_all(json);
	if (json_number(json, "buffers_eliminated") > 0)
		printf("%s to store, %s less to move\n", print_counted(json_number(json, "buffers_eliminated"), "fewer array", a),
			print_bytes(json_number(json, "bytes_not_moved"), b));
	if (json_number(json, "plan_us") > 0)
		printf("planned in %s\n", print_seconds(json_number(json, "plan_us") / 1e6, a));
	if (json_number(json, "peak_bytes") > 0)
		printf("temporaries and results take at most %s at once\n",
			print_bytes(json_number(json, "peak_bytes"), a));
}

static void print_dims(const cJSON *dims) {
	const cJSON *extent;
	const char *between = " over ";

	cJSON_ArrayForEach(extent, dims) {
		printf("%s%.0f", between, extent->valuedouble);
		between = " x ";
	}
}

static void print_operations(const cJSON *operations) {
	struct print_table *t = print_table_new(3);
	const cJSON *one;

	cJSON_ArrayForEach(one, operations) {
		print_table_cell(t, json_text(one, "op"), false);
		print_table_cell(t, json_text(one, "type"), false);
		print_table_cell(t, json_text(one, "at"), false);
	}
	print_table_end(t, INDENT);
}

static void print_times(const cJSON *kernel) {
	char text[PRINT_TEXT];

	if (json_number(kernel, "estimated_us") > 0)
		printf("; estimated %s", print_seconds(json_number(kernel, "estimated_us") / 1e6, text));
	if (json_number(kernel, "measured_us") > 0)
		printf("; measured %s", print_seconds(json_number(kernel, "measured_us") / 1e6, text));
}

static void print_speedup(const cJSON *kernel, const char *name, const char *word) {
	char text[PRINT_TEXT];

	if (json_number(kernel, name) > 0)
		printf(", %s %s", word, print_speed(json_number(kernel, name), text));
}

/* The built-in pattern, then those of users. */
static void print_names(const cJSON *kernel) {
	const char *between = *json_text(kernel, "pattern") ? ", " : "";
	const cJSON *one;

	printf("  %s", json_text(kernel, "pattern"));
	cJSON_ArrayForEach(one, json_item(kernel, "named")) {
		printf("%s%s", between, cJSON_IsString(one) ? one->valuestring : "?");
		between = ", ";
	}
}

/* What fusing its operations gains. */
static void print_gain(const cJSON *kernel) {
	char a[PRINT_TEXT], b[PRINT_TEXT];
	struct print_held line;

	if (!*json_text(kernel, "pattern") && !json_item(kernel, "named"))
		return;
	print_hold(&line);
	print_names(kernel);
	printf(": %s less to move", print_bytes(json_number(kernel, "bytes_saved"), a));
	if (json_number(kernel, "buffers_eliminated") > 0)
		printf(", %s to store", print_counted(json_number(kernel, "buffers_eliminated"), "fewer array", b));
	print_speedup(kernel, "estimated_speedup", "estimated");
	print_speedup(kernel, "measured_speedup", "measured");
	print_let_go(&line);
}

/* In the time of whoever reads it: "14:03:59", of another day with that. */
static char *print_since(double us, char text[PRINT_TEXT]) {
	time_t at = (time_t)(us / 1e6), now = time(NULL);
	struct tm tm, today;

	localtime_r(&now, &today);
	localtime_r(&at, &tm);
	strftime(text, PRINT_TEXT, tm.tm_yday == today.tm_yday && tm.tm_year == today.tm_year ? "%H:%M:%S" : "%Y-%m-%d %H:%M:%S", &tm);
	return text;
}

static void print_tiers(const cJSON *kernel) {
	double interpreted = json_number(kernel, "launches_interpreted");
	const char *as = json_text(kernel, "runs_as");
	char a[PRINT_TEXT], b[PRINT_TEXT], since[PRINT_TEXT];
	struct print_held line;

	if (!*as)
		return;
	print_hold(&line);
	printf("  runs as %s%s since %s; ran %s as bytecode or generic kernels, %s by its own program", !strcmp(as, "own program") ? "its " : "", as,
		print_since(json_number(kernel, "runs_since_us"), since), print_counted(interpreted, "time", a),
		print_counted(json_number(kernel, "launches_compiled"), "time", b));
	print_let_go(&line);
}

/* A step, where it took any time. */
static void print_part(const char *what, double us) {
	char text[PRINT_TEXT];

	if (us > 0)
		printf(", %s %s", what, print_seconds(us / 1e6, text));
}

static void print_program(const cJSON *program) {
	struct print_held line;

	if (!program)
		return;
	print_hold(&line);
	printf("  program %s", json_text(program, "state"));
	if (*json_text(program, "why"))
		printf(" because %s", json_text(program, "why"));
	print_part("text", json_number(program, "emit_us"));
	print_part("compiler", json_number(program, "compile_us"));
	print_part("first launches", json_number(program, "first_launch_us"));
	print_let_go(&line);
}

static void print_wait(const cJSON *kernel) {
	const char *reason = json_text(kernel, "waits_because");

	if (*reason)
		printf("  launches wait until it is built: %s\n", reason);
}

static void print_knobs(const cJSON *kernel) {
	const cJSON *one;

	cJSON_ArrayForEach(one, json_item(kernel, "knobs"))
		printf("  knob %s at %s\n", one->string, cJSON_GetStringValue(one));
}

static void print_kernel(const cJSON *kernel, unsigned number) {
	const char *form = json_text(kernel, "form");
	char a[PRINT_TEXT], b[PRINT_TEXT];
	struct print_held line;

	putchar('\n');
	print_hold(&line);
	printf("kernel %u: %s%s%s", number, json_text(kernel, "root"), !strcmp(form, "plain") ? "" : " by ",
		!strcmp(form, "plain") ? "" : form);
	print_dims(json_item(kernel, "dims"));
	printf("; reads %s, writes %s", print_bytes(json_number(kernel, "bytes_read"), a),
		print_bytes(json_number(kernel, "bytes_written"), b));
	print_times(kernel);
	print_let_go(&line);
	if (*json_text(kernel, "purpose"))
		printf("  %s\n", json_text(kernel, "purpose"));
	print_gain(kernel);
	print_tiers(kernel);
	print_program(json_item(kernel, "program"));
	print_knobs(kernel);
	print_wait(kernel);
	print_operations(json_item(kernel, "operations"));
	if (*json_text(kernel, "source"))
		printf("\n%s", json_text(kernel, "source"));
}

/* "sum at forces.fz:12". */
static void print_end(const cJSON *note, const char *op, const char *at) {
	printf("%s%s%s", json_text(note, op), *json_text(note, at) ? " at " : "", json_text(note, at));
}

/* "relu at forces.fz:11 into sum at forces.fz:12: REASON". */
static void print_reason(const cJSON *note) {
	struct print_held line;

	print_hold(&line);
	printf("%*s", INDENT, "");
	print_end(note, "producer_op", "producer_at");
	printf(" into ");
	print_end(note, "consumer_op", "consumer_at");
	printf(": %s", json_text(note, "reason"));
	print_let_go(&line);
}

static void print_reasons(const cJSON *notes) {
	const cJSON *one;

	if (cJSON_GetArraySize(notes))
		printf("\nnot fused:\n");
	cJSON_ArrayForEach(one, notes) {
		print_reason(one);
	}
}

/* Patterns of users, whether or not they are kernels. */
static void print_found(const cJSON *plan) {
	const cJSON *one;
	char a[PRINT_TEXT], b[PRINT_TEXT];

	cJSON_ArrayForEach(one, json_item(plan, "found")) {
		printf("the pattern %s is found %s, whole in %s\n", json_text(one, "pattern"), print_counted(json_number(one, "found"), "time", a),
			print_counted(json_number(one, "kernels"), "kernel", b));
	}
	if (cJSON_IsTrue(json_item(plan, "patterns_not_looked_for_everywhere")))
		puts("patterns that users defined were not looked for everywhere: it would take too long");
}

/* "kernels 1 to 4 share a launch: horizontal, estimated 3 times as fast"; they follow each other. */
static void print_launches(const cJSON *launches) {
	const cJSON *one;

	cJSON_ArrayForEach(one, launches) {
		const cJSON *kernels = json_item(one, "kernels"), *last = cJSON_GetArrayItem(kernels, cJSON_GetArraySize(kernels) - 1);

		printf("kernels %.0f %s %.0f share a launch: %s", cJSON_GetNumberValue(cJSON_GetArrayItem(kernels, 0)),
			cJSON_GetArraySize(kernels) > 2 ? "to" : "and", cJSON_GetNumberValue(last), json_text(one, "pattern"));
		print_speedup(one, "estimated_speedup", "estimated");
		putchar('\n');
	}
}

static void print_plan(const cJSON *plan) {
	const cJSON *kernel;
	unsigned number = 0;

	print_summary(plan);
	print_found(plan);
	print_launches(json_item(plan, "shared_launches"));
	cJSON_ArrayForEach(kernel, json_item(plan, "kernels")) {
		print_kernel(kernel, ++number);
	}
	print_reasons(json_item(plan, "not_fused"));
}

static void print_opportunity(const cJSON *one) {
	double gain = json_number(one, "estimated_gain_us");
	char a[PRINT_TEXT], b[PRINT_TEXT];

	printf("\nkernel %.0f, in place of %s", json_number(one, "kernel"), print_counted(json_number(one, "kernels_before"), "kernel", a));
	if (gain > 0)
		printf(": estimated %s less", print_seconds(gain / 1e6, b));
	putchar('\n');
	print_gain(one);
	print_operations(json_item(one, "operations"));
}

static void print_opportunities(const cJSON *plan) {
	const cJSON *one, *list = json_item(plan, "opportunities");

	print_gain_of_all(plan);
	if (!cJSON_GetArraySize(list))
		puts("no operations of it share a kernel");
	cJSON_ArrayForEach(one, list) {
		print_opportunity(one);
	}
}

/* The last graphs of a session. */
static void print_recent(const cJSON *json, void (*print)(const cJSON *plan)) {
	const cJSON *graph;
	char text[PRINT_TEXT];

	printf("session %.0f, %s, process %.0f", json_number(json, "session"), json_text(json, "name"),
		json_number(json, "pid"));
	if (json_number(json, "ended_us") > 0)
		printf(", ended at %s", print_since(json_number(json, "ended_us"), text));
	putchar('\n');
	if (!cJSON_GetArraySize(json_item(json, "graphs")))
		puts("it has run nothing");
	cJSON_ArrayForEach(graph, json_item(json, "graphs")) {
		printf("\ngraph that ran %s: ", print_counted(json_number(graph, "runs"), "time", text));
		print(graph);
	}
}

static void print_recent_plans(const cJSON *json) {
	print_recent(json, print_plan);
}

static void print_recent_opportunities(const cJSON *json) {
	print_recent(json, print_opportunities);
}

static int show(const struct control *c, unsigned what, void (*print)(const cJSON *json)) {
	char *text = NULL;
	struct fault f;
	int r = control_explain(c, what, &text, &f);

	if (!r)
		r = control_show(c, text, print, &f);
	free(text);
	return r ? control_fail(c, r, &f) : FUSIONCTL_OK;
}

static unsigned source_wanted(const struct control *c) {
	if (!c->source)
		return 0;
	return c->whole_source ? FUSION_EXPLAIN_SOURCE : FUSION_EXPLAIN_OWN_SOURCE;
}

int explain_command(const struct control *c) {
	return show(c, source_wanted(c), control_recent(c) ? print_recent_plans : print_plan);
}

int opportunities_command(const struct control *c) {
	return show(c, FUSION_EXPLAIN_OPPORTUNITIES, control_recent(c) ? print_recent_opportunities : print_opportunities);
}
