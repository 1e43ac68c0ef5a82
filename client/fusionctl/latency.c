/*
 * fusionctl latency: how long a client waits for the daemon, measured here and now: for an answer, for a graph of one small
 * kernel, and for a result that is read. Its own first graphs, which may wait for a compiler, do not count.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "control.h"
#include "print.h"
#include "client/json.h"

#define LATENCY_SCHEMA "fusionctl.latency/1"

enum {
	ROUNDS = 500,
	ROUNDS_BEFORE = 50,
	ELEMENTS = 256,
};

struct probe {
	fusion_context *context;
	fusion_array *x;
};

static double now_us(void) {
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* Each returns 0, or the library's error stands. */
static int ask(const struct probe *p) {
	char *text = fusion_settings(p->context, false);

	free(text);
	return text ? 0 : -1;
}

static int run(const struct probe *p) {
	fusion_array *y = fusion_add(p->x, p->x);
	int r = y ? fusion_wait(y) : -1;

	fusion_release(y);
	return r;
}

static int run_and_read(const struct probe *p) {
	fusion_array *y = fusion_add(p->x, p->x);
	float values[ELEMENTS];
	int r = y ? fusion_read(y, values, sizeof values) : -1;

	fusion_release(y);
	return r;
}

static const struct {
	const char *name, *doc;
	int (*once)(const struct probe *p);
} kinds[] = {
	{ "answer", "a question is answered", ask },
	{ "run", "a graph of one small kernel has run", run },
	{ "read", "the same, and its result is read", run_and_read },
};

static int by_size(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static int measure(const struct probe *p, size_t kind, cJSON *list, struct fault *f) {
	static const struct {
		const char *name;
		double part;
	} parts[] = { { "p50_us", 0.5 }, { "p90_us", 0.9 }, { "p99_us", 0.99 }, { "most_us", 1 } };
	double us[ROUNDS];
	cJSON *one;

	for (int i = -ROUNDS_BEFORE; i < ROUNDS; i++) {
		double start = now_us();

		if (kinds[kind].once(p))
			return text_library_fault(f);
		if (i >= 0)
			us[i] = now_us() - start;
	}
	qsort(us, ROUNDS, sizeof *us, by_size);
	one = cJSON_CreateObject();
	cJSON_AddItemToArray(list, one);
	cJSON_AddStringToObject(one, "what", kinds[kind].name);
	cJSON_AddStringToObject(one, "doc", kinds[kind].doc);
	cJSON_AddNumberToObject(one, "rounds", ROUNDS);
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		cJSON_AddNumberToObject(one, parts[i].name, us[(int)(parts[i].part * (ROUNDS - 1))]);
	return 0;
}

static void print_latency(const cJSON *list) {
	static const char *const headings[] = { "HALF WITHIN", "90 %", "99 %", "ALL", "UNTIL" };
	static const char *const fields[] = { "p50_us", "p90_us", "p99_us", "most_us" };
	struct print_table *t = print_table_new(5);
	char text[PRINT_TEXT];
	const cJSON *one;

	for (int i = 0; i < 5; i++)
		print_table_cell(t, headings[i], i < 4);
	cJSON_ArrayForEach(one, list) {
		for (int i = 0; i < 4; i++)
			print_table_cell(t, print_seconds(json_number(one, fields[i]) / 1e6, text), true);
		print_table_cell(t, json_text(one, "doc"), false);
	}
	print_table_end(t, 0);
}

int latency_command(const struct control *c) {
	cJSON *json = control_json(LATENCY_SCHEMA), *list = cJSON_AddArrayToObject(json, "latencies");
	const int64_t dims[1] = { ELEMENTS };
	struct probe p = { NULL, NULL };
	struct fault f;
	int r = control_open(c, &p.context, &f);

	if (!r) {
		p.x = fusion_full(p.context, FUSION_F32, 1, dims, 1);
		r = p.x ? 0 : text_library_fault(&f);
	}
	for (size_t i = 0; !r && i < sizeof kinds / sizeof *kinds; i++)
		r = measure(&p, i, list, &f);
	fusion_release(p.x);
	fusion_close(p.context);
	if (!r && !c->json)
		print_latency(list);
	if (!r && c->json)
		control_print_json(json);
	else
		cJSON_Delete(json);
	return r ? control_fail(c, r, &f) : FUSIONCTL_OK;
}
