/*
 * Instructions that a compiler does not know, and the one behind it does.
 *
 * A text has them as comments of its inline assembly, behind HIDDEN_MARK. What the compiler makes of such a text is text, too (PTX), with
 * the comments in it and operands filled in. There the marks go, the target becomes the device's own of that name, whose
 * instructions no later device has (sm_90 to sm_90a), and the driver builds that.
 */
#include "state.h"

#include <stdlib.h>
#include <string.h>

#define HIDDEN_MARK "//HIDDEN "
#define HIDDEN_TARGET ".target sm_90"
/* Says how many items a group has; the size of a group may be followed by how many groups a unit shall have. */
#define HIDDEN_ITEMS ".reqntid "
#define HIDDEN_TWO_GROUPS "//TWO_GROUPS"

/* The driver's text of a program, or NULL. */
static char *text_of(cl_program program) {
	CLEANUP(cleanup_free) char *bytes = NULL;
	char *text;
	size_t size = 0;

	if (clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, NULL) || !size)
		return NULL;
	bytes = calloc(1, size + 1);
	if (!bytes || clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof bytes, &bytes, NULL))
		return NULL;
	text = bytes;
	bytes = NULL;
	return text;
}

struct change {
	const char *from, *to;
};

/* The first place in a text where one of the changes applies; NULL: none. */
static const char *first_of(const char *text, const struct change *change, unsigned n, unsigned *whichp) {
	const char *first = NULL;

	for (unsigned i = 0; i < n; i++) {
		const char *at = strstr(text, change[i].from);

		if (at && (!first || at < first)) {
			first = at;
			*whichp = i;
		}
	}
	return first;
}

/* The same without marks, for the device's own target. */
static int uncover(const char *text, struct str *to) {
	static const struct change change[] = { { HIDDEN_MARK, "" }, { HIDDEN_TARGET, HIDDEN_TARGET "a" },
		{ HIDDEN_ITEMS, ".minnctapersm 2\n" HIDDEN_ITEMS } };
	unsigned n = sizeof change / sizeof *change - !strstr(text, HIDDEN_TWO_GROUPS), which = 0;

	for (const char *at; (at = first_of(text, change, n, &which)); text = at + strlen(change[which].from))
		str_printf(to, "%.*s%s", (int)(at - text), text, change[which].to);
	str_append(to, text);
	return str_finish(to);
}

bool hidden_has(const char *source) {
	return strstr(source, HIDDEN_MARK) != NULL;
}

cl_int hidden_build(struct target t, const char *options, cl_program *programp) {
	CLEANUP(cleanup_free) char *text = text_of(*programp);
	CLEANUP(str_free) struct str uncovered = { 0 };
	const unsigned char *binary;
	cl_program program;
	cl_int error, status;
	size_t size;

	if (!text || uncover(text, &uncovered))
		return CL_OUT_OF_HOST_MEMORY;
	binary = (const unsigned char *)str_text(&uncovered);
	size = uncovered.length;
	program = clCreateProgramWithBinary(t.context, 1, &t.device, &size, &binary, &status, &error);
	if (error)
		return error;
	error = clBuildProgram(program, 1, &t.device, options, NULL, NULL);
	if (error) {
		clReleaseProgram(program);
		return error;
	}
	clReleaseProgram(*programp);
	*programp = program;
	return CL_SUCCESS;
}
