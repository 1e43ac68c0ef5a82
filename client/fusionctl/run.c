/* fusionctl run: runs a text graph and prints its outputs. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "control.h"
#include "element.h"

enum {
	/* Larger arrays are shown by their edges, as NumPy does: so many elements at each end of an axis. */
	SHOWN_WHOLE = 1000,
	SHOWN_EDGE = 3,
};

/* One output, read. */
struct output {
	const struct lex_token *name;
	fusion_array *array;
	enum dtype dtype;
	int rank;
	const int64_t *dims;
	char *memory;
	bool whole;
	int width; /* of the longest element shown */
};

static const void *element_at(const struct output *o, int64_t i) {
	return o->memory + (size_t)i * dtype_info(o->dtype)->bytes;
}

/* Is index i of an axis left out? Ellipses stand at the first such index. */
static bool left_out(const struct output *o, int64_t i, int64_t extent) {
	return !o->whole && extent > INT64_C(2) * SHOWN_EDGE && i >= SHOWN_EDGE && i < extent - SHOWN_EDGE;
}

static int64_t elements_below(const struct output *o, int axis) {
	int64_t n = 1;

	for (int d = axis + 1; d < o->rank; d++)
		n *= o->dims[d];
	return n;
}

static void measure(struct output *o, int axis, int64_t first) {
	char text[ELEMENT_TEXT];
	int64_t below;

	if (axis == o->rank) {
		int width = (int)strlen(element_print(o->dtype, element_at(o, first), text));

		if (width > o->width)
			o->width = width;
		return;
	}
	below = elements_below(o, axis);
	for (int64_t i = 0; i < o->dims[axis]; i++)
		if (!left_out(o, i, o->dims[axis]))
			measure(o, axis + 1, first + i * below);
}

static void print_row(const struct output *o, int64_t first, int64_t extent) {
	char text[ELEMENT_TEXT];

	putchar('[');
	for (int64_t i = 0; i < extent; i++) {
		if (i)
			putchar(' ');
		if (left_out(o, i, extent)) {
			printf("...");
			i = extent - SHOWN_EDGE - 1;
			continue;
		}
		printf("%*s", o->width, element_print(o->dtype, element_at(o, first + i), text));
	}
	putchar(']');
}

static void print_axis(const struct output *o, int axis, int64_t first) {
	int64_t extent = o->dims[axis], below = elements_below(o, axis);

	if (axis + 1 == o->rank) {
		print_row(o, first, extent);
		return;
	}
	putchar('[');
	for (int64_t i = 0; i < extent; i++) {
		if (i)
			printf("\n%*s", axis + 1, "");
		if (left_out(o, i, extent)) {
			printf("...");
			i = extent - SHOWN_EDGE - 1;
			continue;
		}
		print_axis(o, axis + 1, first + i * below);
	}
	putchar(']');
}

static void print_output(struct output *o) {
	struct tensor_type type = { .dtype = (uint8_t)o->dtype, .rank = (uint8_t)o->rank };
	char text[SHAPE_TEXT], element[ELEMENT_TEXT];

	memcpy(type.dims, o->dims, (size_t)o->rank * sizeof *o->dims);
	printf("%.*s %s\n", (int)o->name->length, o->name->text, shape_text(&type, text));
	measure(o, 0, 0);
	if (o->rank)
		print_axis(o, 0, 0);
	else
		printf("%s", element_print(o->dtype, o->memory, element));
	putchar('\n');
}

/* JSON has no NaN and no infinity: these are texts. Numbers keep every digit. */
static void add_element(cJSON *values, const struct output *o, int64_t i) {
	char text[ELEMENT_TEXT];

	element_print(o->dtype, element_at(o, i), text);
	if (strpbrk(text, "ni") && dtype_info(o->dtype)->kind == DTYPE_KIND_REAL)
		cJSON_AddItemToArray(values, cJSON_CreateString(text));
	else
		cJSON_AddItemToArray(values, cJSON_CreateRaw(text));
}

static void add_output(cJSON *list, const struct output *o) {
	cJSON *json = cJSON_CreateObject();
	char name[SHAPE_TEXT];
	cJSON *dims, *values;

	snprintf(name, sizeof name, "%.*s", (int)o->name->length, o->name->text);
	cJSON_AddItemToArray(list, json);
	cJSON_AddStringToObject(json, "name", name);
	cJSON_AddStringToObject(json, "dtype", dtype_info(o->dtype)->name);
	dims = cJSON_AddArrayToObject(json, "dims");
	for (int d = 0; d < o->rank; d++)
		cJSON_AddItemToArray(dims, cJSON_CreateNumber((double)o->dims[d]));
	values = cJSON_AddArrayToObject(json, "values");
	for (int64_t i = 0; i < fusion_elements(o->array); i++)
		add_element(values, o, i);
}

static int read_output(struct output *o, struct fault *f) {
	size_t bytes = fusion_bytes(o->array);

	o->dtype = (enum dtype)fusion_dtype_of(o->array);
	o->rank = fusion_rank(o->array);
	o->dims = fusion_dims(o->array);
	o->memory = malloc(bytes + 1);
	o->whole |= fusion_elements(o->array) <= SHOWN_WHOLE;
	if (!o->memory)
		return fault_set(f, FAULT_MEMORY, "no memory for an output of %zu bytes", bytes);
	return fusion_read(o->array, o->memory, bytes) ? text_library_fault(f) : 0;
}

/* list is NULL for output for people. */
static int show_outputs(
	const struct control *c, const struct control_graph *g, cJSON *list, struct fault *f) {
	int r = 0;

	for (unsigned i = 0; !r && i < g->text->outputs; i++) {
		struct output o = {
			.name = &g->text->statement[g->text->output[i]].name,
			.array = g->output[i],
			.whole = c->all,
		};

		r = read_output(&o, f);
		if (!r && list)
			add_output(list, &o);
		else if (!r)
			print_output(&o);
		free(o.memory);
	}
	return r;
}

static int show(const struct control *c, const struct control_graph *g, struct fault *f) {
	cJSON *json = c->json ? cJSON_CreateObject() : NULL;
	cJSON *list = json ? cJSON_AddArrayToObject(json, "outputs") : NULL;
	char *text;
	int r = show_outputs(c, g, list, f);

	if (!r && json) {
		text = cJSON_PrintUnformatted(json);
		if (text)
			control_print_answer(c, text);
		else
			r = fault_set(f, FAULT_MEMORY, "no memory for the JSON of the outputs");
		free(text);
	}
	cJSON_Delete(json);
	return r;
}

int run_command(const struct control *c) {
	struct control_graph g;
	struct fault f;
	int r = control_graph_open(c, &g, &f);

	if (!r)
		r = show(c, &g, &f);
	control_graph_close(&g);
	return r ? control_fail(c, r, &f) : FUSIONCTL_OK;
}
