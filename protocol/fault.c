/* The table of errors, and sentences written into faults. See fault.h for the contract. */
#include "fault.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct error_row {
	const char *name;
	const char *doc;
};

static const struct error_row rows[] = {
	[FAULT_NONE] = { "NONE", "no error" },
#define ERROR(id, name, doc) [id] = { #name, doc },
#include "errors.def"
#undef ERROR
};

static const struct error_row *row_of(int code) {
	static const struct error_row unlisted = { "UNLISTED", "a code this version does not know" };

	if (code < 0 || (size_t)code >= sizeof rows / sizeof *rows || !rows[code].name)
		return &unlisted;
	return &rows[code];
}

int fault_set(struct fault *f, int code, const char *format, ...) {
	va_list ap;

	if (!f)
		return code;
	f->code = code;
	va_start(ap, format);
	vsnprintf(f->text, sizeof f->text, format, ap);
	va_end(ap);
	return code;
}

void fault_prefix(struct fault *f, const char *format, ...) {
	char old[LIMIT_SENTENCE];
	va_list ap;
	size_t used;

	memcpy(old, f->text, sizeof old);
	va_start(ap, format);
	vsnprintf(f->text, sizeof f->text, format, ap);
	va_end(ap);
	used = strlen(f->text);
	snprintf(f->text + used, sizeof f->text - used, ": %s", old);
}

const char *fault_name(int code) {
	return row_of(code)->name;
}

const char *fault_doc(int code) {
	return row_of(code)->doc;
}
