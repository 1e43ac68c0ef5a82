/*
 * fusionctl graph: draws a plan in the language of Graphviz, and by its program `dot` as a picture.
 *
 * Operations of one kernel stand in one box of one colour, under the kernel's pattern and time; what
 * costs no kernel (arrays in memory, scalars, views) stands outside. Bold arrows are arrays that pass
 * through memory, with the reason why their ends are two kernels where the planner gave one.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control.h"
#include "output.h"
#include "print.h"
#include "client/json.h"

#define GRAPH_SCHEMA "fusionctl.graph/1"

/* Background and border of a kernel; neighbours differ. */
static const struct colour {
	const char *fill, *line;
} colours[] = {
	{ "#d9e8fb", "#5b8fd0" }, { "#fde2c8", "#d98b3a" }, { "#d8f0d4", "#5ca854" }, { "#f6d5e4", "#c45f92" },
	{ "#e6dcf5", "#8a6bc0" }, { "#fbf3c6", "#b9a02c" }, { "#d3f0ee", "#3f9d97" }, { "#ecdfd3", "#9a7750" },
};

enum {
	COLOURS = sizeof colours / sizeof *colours
};

static const struct colour *colour_of(unsigned kernel) {
	return &colours[(kernel - 1) % COLOURS];
}

/* ---- operations ---- */

static bool is_leaf(const char *op) {
	return !strcmp(op, "load") || !strcmp(op, "fill") || !strcmp(op, "arange");
}

/* Operations and types are words of ours: nothing in them needs escaping. */
static void draw_node(FILE *out, const cJSON *node, const char *fill) {
	const char *op = json_text(node, "op");
	const char *shape = is_leaf(op) ? "ellipse" : "box";
	bool output = cJSON_IsTrue(json_item(node, "output"));

	fprintf(out, "n%.0f [label=\"%s\\n%s\", shape=%s, style=\"%s\", fillcolor=\"%s\"%s];\n",
		json_number(node, "id"), op, json_text(node, "type"), shape,
		fill            ? "filled,rounded"
		: is_leaf(op) ? "filled"
			      : "dashed,rounded",
		fill ? fill : "#f4f4f4", output ? ", penwidth=2.5" : "");
}

static const cJSON *find_node(const cJSON *nodes, double id) {
	const cJSON *node;

	cJSON_ArrayForEach(node, nodes) {
		if (json_number(node, "id") == id)
			return node;
	}
	return NULL;
}

/* ---- kernels ---- */

static void draw_time(FILE *out, const cJSON *kernel) {
	char text[PRINT_TEXT];

	if (json_number(kernel, "estimated_us") > 0)
		fprintf(out, "\\nestimated %s", print_seconds(json_number(kernel, "estimated_us") / 1e6, text));
	if (json_number(kernel, "measured_us") > 0)
		fprintf(out, "\\nmeasured %s", print_seconds(json_number(kernel, "measured_us") / 1e6, text));
}

static void draw_kernel(FILE *out, const cJSON *nodes, const cJSON *kernel, unsigned number) {
	const struct colour *colour = colour_of(number);
	const cJSON *node, *named;
	char read[PRINT_TEXT], written[PRINT_TEXT];

	fprintf(out, "subgraph cluster_%u {\nlabel=\"kernel %u: %s", number, number,
		*json_text(kernel, "pattern") ? json_text(kernel, "pattern") : json_text(kernel, "root"));
	cJSON_ArrayForEach(named, json_item(kernel, "named")) {
		fprintf(out, ", %s", cJSON_IsString(named) ? named->valuestring : "?");
	}
	fprintf(out, "\\nreads %s, writes %s",
		print_bytes(json_number(kernel, "bytes_read"), read),
		print_bytes(json_number(kernel, "bytes_written"), written));
	draw_time(out, kernel);
	fprintf(out, "\";\nlabeljust=l; style=\"filled,rounded\"; fillcolor=\"%s\"; color=\"%s\";\n", colour->fill, colour->line);
	cJSON_ArrayForEach(node, nodes) {
		if (json_number(node, "kernel") == number)
			draw_node(out, node, "white");
	}
	fprintf(out, "}\n");
}

/* ---- arrows ---- */

static const char *reason_of(const cJSON *notes, double producer, double consumer) {
	const cJSON *note;

	cJSON_ArrayForEach(note, notes) {
		if (json_number(note, "producer_id") == producer && json_number(note, "consumer_id") == consumer)
			return json_text(note, "reason");
	}
	return "";
}

static void draw_arrow(FILE *out, const cJSON *plan, const cJSON *from, const cJSON *to) {
	double a = json_number(from, "kernel"), b = json_number(to, "kernel");
	bool memory = a > 0 && b > 0 && a != b;
	const char *reason = memory ? reason_of(json_item(plan, "not_fused"), json_number(from, "id"),
					      json_number(to, "id"))
				    : "";

	fprintf(out, "n%.0f -> n%.0f [penwidth=%s, color=\"%s\"", json_number(from, "id"), json_number(to, "id"),
		memory ? "2" : "1", memory ? "#333333" : "#888888");
	if (*reason)
		fprintf(out, ", label=\" %s\", fontsize=9, fontcolor=\"#a03030\"", reason);
	fprintf(out, "];\n");
}

static void draw_arrows(FILE *out, const cJSON *plan, const cJSON *node) {
	const cJSON *input;

	cJSON_ArrayForEach(input, json_item(node, "inputs")) {
		const cJSON *from = find_node(json_item(plan, "nodes"), input->valuedouble);

		if (from)
			draw_arrow(out, plan, from, node);
	}
}

static void draw_plan(FILE *out, const cJSON *plan) {
	const cJSON *nodes = json_item(plan, "nodes"), *kernel, *node;
	unsigned number = 0;

	fprintf(out, "digraph plan {\nfontname=\"Helvetica\"; fontsize=11; ranksep=0.35; nodesep=0.3;\n"
		     "node [fontname=\"Helvetica\", fontsize=10, height=0.3, margin=\"0.1,0.05\"];\n"
		     "edge [fontname=\"Helvetica\", arrowsize=0.7];\n");
	cJSON_ArrayForEach(kernel, json_item(plan, "kernels")) {
		draw_kernel(out, nodes, kernel, ++number);
	}
	cJSON_ArrayForEach(node, nodes) {
		if (json_number(node, "kernel") == 0)
			draw_node(out, node, NULL);
	}
	cJSON_ArrayForEach(node, nodes) {
		draw_arrows(out, plan, node);
	}
	fprintf(out, "}\n");
}

/* ---- files ---- */

static int write_all(int fd, const char *text) {
	size_t left = strlen(text);

	while (left) {
		ssize_t n = write(fd, text, left);

		if (n < 0 && errno != EINTR)
			return -errno;
		text += n > 0 ? n : 0;
		left -= n > 0 ? (size_t)n : 0;
	}
	return 0;
}

/* The child: dot reads the pipe and writes the file. */
static void run_dot(int in, const char *path) {
	if (dup2(in, STDIN_FILENO) >= 0)
		execlp("dot", "dot", "-Tsvg", "-o", path, (char *)NULL);
	_exit(errno == ENOENT ? 127 : 126);
}

static int dot_result(int status, const char *path, struct fault *f) {
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		return fault_set(f, FAULT_STATE, "Graphviz's program dot is not installed; --dot writes its language");
	return fault_set(f, FAULT_STATE, "Graphviz's program dot could not write %s", path);
}

static int write_picture(const char *path, const char *text, struct fault *f) {
	int ends[2], status = 0, r;
	pid_t child;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	child = fork();
	if (child < 0) {
		r = -errno;
		close(ends[0]);
		close(ends[1]);
		return r;
	}
	if (!child)
		run_dot(ends[0], path);
	close(ends[0]);
	/* Where dot ends early, its status says more than the broken pipe. */
	r = write_all(ends[1], text);
	close(ends[1]);
	if (waitpid(child, &status, 0) < 0)
		return -errno;
	return r && r != -EPIPE ? r : dot_result(status, path, f);
}

/* Of a session: the newest graph. */
static const cJSON *plan_of(const struct control *c, const cJSON *json) {
	return control_recent(c) ? cJSON_GetArrayItem(json_item(json, "graphs"), 0) : json;
}

static int draw(const struct control *c, const cJSON *plan, char **textp, struct fault *f) {
	size_t size;
	FILE *out;

	if (!plan)
		return fault_set(f, FAULT_STATE, "session %llu has run nothing", (unsigned long long)c->session);
	out = open_memstream(textp, &size);
	if (!out)
		return -ENOMEM;
	draw_plan(out, plan);
	return fclose(out) ? -ENOMEM : 0;
}

static void print_drawing(const char *text, const char *dot, const char *svg) {
	cJSON *json = control_json(GRAPH_SCHEMA), *files = cJSON_AddArrayToObject(json, "files");

	if (dot)
		cJSON_AddItemToArray(files, cJSON_CreateString(dot));
	if (svg)
		cJSON_AddItemToArray(files, cJSON_CreateString(svg));
	if (text)
		cJSON_AddStringToObject(json, "dot", text);
	control_print_json(json);
}

static int write_drawing(const struct control *c, const char *text, struct fault *f) {
	bool shown = c->dot ? !strcmp(c->dot, "-") : !c->svg;
	const char *dot = shown ? NULL : c->dot;
	int r = 0;

	if (dot || (shown && !c->json))
		r = control_write(dot ? dot : "-", text, FAULT_ARGUMENT, f);
	if (!r && c->svg)
		r = write_picture(c->svg, text, f);
	if (!r && c->json)
		print_drawing(shown ? text : NULL, dot, c->svg);
	return r;
}

static int refuse_files(const struct control *c, struct fault *f) {
	int r = c->dot ? output_refuse(c, c->dot, false, f) : 0;

	return r || !c->svg ? r : output_refuse(c, c->svg, false, f);
}

int graph_command(const struct control *c) {
	char *text = NULL, *drawing = NULL;
	cJSON *json = NULL;
	struct fault f;
	bool writing;
	int r = refuse_files(c, &f);

	if (!r)
		r = control_explain(c, FUSION_EXPLAIN_NODES, &text, &f);
	if (!r)
		r = control_parse(text, &json, &f);
	if (!r)
		r = draw(c, plan_of(c, json), &drawing, &f);
	if (!r && drawing)
		r = write_drawing(c, drawing, &f);
	writing = drawing != NULL;
	cJSON_Delete(json);
	free(drawing);
	free(text);
	return r ? output_fail(c, r, writing, &f) : FUSIONCTL_OK;
}
