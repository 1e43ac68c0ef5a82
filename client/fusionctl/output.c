/* See output.h. */
#include "client/fusionctl/output.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define GRAPH_ENDING ".fz"

static bool is_graph(const char *path) {
	size_t length = strlen(path), ending = strlen(GRAPH_ENDING);

	return length > ending && !strcmp(path + length - ending, GRAPH_ENDING);
}

/* A file with something in it that does not begin as a page does. What is no file, as /dev/stdout, is written to. */
static bool holds_something_else(const char *path) {
	static const char *const begins[] = { "<!doctype html", "<html" };
	char text[16] = "";
	struct stat st;
	FILE *in;
	bool page;

	if (stat(path, &st) || !S_ISREG(st.st_mode) || !st.st_size)
		return false;
	in = fopen(path, "re");
	/* Who may not read it may not write it, or is told so. */
	if (!in)
		return false;
	page = fread(text, 1, sizeof text - 1, in) > 0 &&
		(!strncasecmp(text, begins[0], strlen(begins[0])) || !strncasecmp(text, begins[1], strlen(begins[1])));
	fclose(in);
	return !page;
}

int output_refuse(const struct control *c, const char *path, bool page, struct fault *f) {
	if (is_graph(path))
		return fault_set(f, FAULT_ARGUMENT, "%s is the name of a text graph, which would be lost: %s writes what it is given%s", path, c->command,
			page ? "; the graph is named behind the page" : "");
	if (page && c->json && !strcmp(path, "-"))
		return fault_set(f, FAULT_ARGUMENT, "with --json a page does not go to standard output: name a file");
	if (page && holds_something_else(path))
		return fault_set(f, FAULT_ARGUMENT, "%s is there and is no page of HTML: it stays as it is", path);
	return 0;
}

int output_fail(const struct control *c, int r, bool writing, const struct fault *f) {
	int code = control_fail(c, r, f);

	return writing && (r == FAULT_FILE || r == FAULT_ARGUMENT) ? EX_IOERR : code;
}
