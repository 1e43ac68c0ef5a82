/* An explanation as a graph; see report.h. */
#include "report.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "client/json.h"

const char *report_kernel_name(const struct report_kernel *k) {
	const char *pattern = json_text(k->json, "pattern");

	return *pattern ? pattern : json_text(k->json, "root");
}

/* ---- kernels ---- */

static int read_kernels(struct report_graph *g, const cJSON *list) {
	const cJSON *one;

	g->kernel = calloc((size_t)cJSON_GetArraySize(list) + 1, sizeof *g->kernel);
	if (!g->kernel)
		return -ENOMEM;
	cJSON_ArrayForEach(one, list) {
		struct report_kernel *k = &g->kernel[g->kernels++];
		double measured = json_number(one, "measured_us");

		k->json = one;
		k->measured = measured > 0;
		k->time_us = k->measured ? measured : json_number(one, "estimated_us");
	}
	return 0;
}

/* ---- operations ---- */

/* The ids in order, each with the place of its node. */
struct known {
	unsigned id, place;
};

static int by_id(const void *a, const void *b) {
	const struct known *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

/* One that is in [0, most]; else `other`. */
static unsigned whole_number(double number, double most, unsigned other) {
	return number >= 0 && number <= most ? (unsigned)number : other;
}

static void read_node(struct report_graph *g, const cJSON *one) {
	struct report_node *n = &g->node[g->nodes++];

	n->op = json_text(one, "op");
	n->type = json_text(one, "type");
	n->at = json_text(one, "at");
	n->id = whole_number(json_number(one, "id"), INT_MAX, 0);
	n->number = cJSON_HasObjectItem(one, "node") ? json_number(one, "node") : -1;
	n->kernel = whole_number(json_number(one, "kernel"), g->kernels, REPORT_NONE);
	n->output = cJSON_IsTrue(json_item(one, "output"));
	if (n->kernel)
		g->kernel[n->kernel - 1].nodes++;
}

static int read_inputs(struct report_graph *g, struct report_node *n, const cJSON *list, const struct known *known) {
	const cJSON *one;

	n->input = calloc((size_t)cJSON_GetArraySize(list) + 1, sizeof *n->input);
	if (!n->input)
		return -ENOMEM;
	cJSON_ArrayForEach(one, list) {
		struct known wanted = { .id = whole_number(cJSON_GetNumberValue(one), INT_MAX, INT_MAX) };
		const struct known *found = bsearch(&wanted, known, g->nodes, sizeof wanted, by_id);

		if (found && &g->node[found->place] != n)
			n->input[n->inputs++] = found->place;
	}
	return 0;
}

static int read_nodes(struct report_graph *g, const cJSON *list) {
	size_t count = (size_t)cJSON_GetArraySize(list) + 1;
	struct known *known = calloc(count, sizeof *known);
	const cJSON *one;
	unsigned i = 0;
	int r = 0;

	g->node = calloc(count, sizeof *g->node);
	if (!g->node || !known) {
		free(known);
		return -ENOMEM;
	}
	cJSON_ArrayForEach(one, list) {
		read_node(g, one);
		known[g->nodes - 1] = (struct known){ g->node[g->nodes - 1].id, g->nodes - 1 };
	}
	qsort(known, g->nodes, sizeof *known, by_id);
	cJSON_ArrayForEach(one, list) {
		r = read_inputs(g, &g->node[i++], json_item(one, "inputs"), known);
		if (r)
			break;
	}
	free(known);
	return r;
}

int report_graph_read(struct report_graph *g, const cJSON *json) {
	int r;

	*g = (struct report_graph){ .json = json, .prefix = "" };
	r = read_kernels(g, json_item(json, "kernels"));
	return r ? r : read_nodes(g, json_item(json, "nodes"));
}

void report_graph_free(struct report_graph *g) {
	for (unsigned i = 0; g->node && i < g->nodes; i++)
		free(g->node[i].input);
	free(g->node);
	free(g->kernel);
	*g = (struct report_graph){ 0 };
}
