/* fusionctl can-fuse: do two operations of a text graph run in one kernel, and why not. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control.h"
#include "print.h"
#include "client/json.h"

enum { PAIR = 2 };

/* Of a name that is given twice the last, as in the text itself. */
static int find_statement(const struct text *t, const char *name, int *statementp, struct fault *f) {
	unsigned i = t->statements;

	while (i && !lex_token_is(&t->statement[i - 1].name, name))
		i--;
	if (!i)
		return fault_set(f, FAULT_ARGUMENT, "%s has no array named '%s'", t->path, name);
	if (t->statement[i - 1].op == OP_load)
		return lex_refuse(t->path, &t->statement[i - 1].name, FAULT_ARGUMENT, f, "%s is an input, which no kernel computes; name two operations", name);
	*statementp = (int)i - 1;
	return 0;
}

/* The two follow the outputs, so that they are kept while the graph is recorded. */
static int keep_pair(const struct control *c, struct text *t, struct fault *f) {
	int *output = realloc(t->output, (t->outputs + PAIR) * sizeof *output), r = 0;

	if (!output)
		return -ENOMEM;
	t->output = output;
	for (unsigned i = 0; !r && i < PAIR; i++)
		r = find_statement(t, c->word[1 + i], &t->output[t->outputs + i], f);
	if (!r)
		t->outputs += PAIR;
	return r;
}

/* "sum at forces.fz:12". */
static void print_end(const cJSON *json, const char *op, const char *at) {
	printf("%s%s%s", json_text(json, op), *json_text(json, at) ? " at " : "", json_text(json, at));
}

static void print_reason(const cJSON *json) {
	printf("no: ");
	if (json_item(json, "producer")) {
		print_end(json, "producer_op", "producer_at");
		if (json_item(json, "consumer")) {
			printf(" is not in one kernel with ");
			print_end(json, "consumer_op", "consumer_at");
		}
		printf(": ");
	}
	puts(json_text(json, "reason"));
}

static void print_answer(const cJSON *json) {
	double estimated = json_number(json, "estimated_speedup"), measured = json_number(json, "measured_speedup");
	const char *between = "";
	char text[PRINT_TEXT];
	const cJSON *one;

	if (!cJSON_IsTrue(json_item(json, "fused"))) {
		print_reason(json);
		return;
	}
	printf("yes: kernel %.0f, %s, computes ", json_number(json, "kernel"),
		*json_text(json, "pattern") ? json_text(json, "pattern") : json_text(json, "root"));
	cJSON_ArrayForEach(one, json_item(json, "operations")) {
		printf("%s%s", between, json_text(one, "op"));
		between = ", ";
	}
	printf("\n%s less to move", print_bytes(json_number(json, "bytes_saved"), text));
	if (estimated > 0)
		printf(", estimated %s", print_speed(estimated, text));
	if (measured > 0)
		printf(", measured %s", print_speed(measured, text));
	putchar('\n');
}

static int ask(const struct control_graph *g, char **textp, struct fault *f) {
	unsigned count = g->text->outputs - PAIR;
	int r = fusion_can_fuse(g->context, g->output[count], g->output[count + 1], (int)count, g->output, textp);

	return r < 0 ? text_library_fault(f) : 0;
}

int can_fuse_command(const struct control *c) {
	struct control_graph g = { 0 };
	struct text *t = NULL;
	char *text = NULL;
	struct fault f;
	int r = text_load(c->word[0], &t, &f);

	if (!r)
		r = keep_pair(c, t, &f);
	if (r)
		text_free(t);
	else
		r = control_graph_record_text(c, t, &g, &f);
	if (!r)
		r = ask(&g, &text, &f);
	if (!r)
		r = control_show(c, text, print_answer, &f);
	control_graph_close(&g);
	free(text);
	return r ? control_fail(c, r, &f) : FUSIONCTL_OK;
}
