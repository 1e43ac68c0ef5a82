/* The table of errors, and sentences written into faults. See fault.h for the contract. */
#include "fault.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const names[] = {
	[FAULT_NONE] = "NONE",
#define ERROR(id, name, doc) [id] = #name,
#include "errors.def"
#undef ERROR
};

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

void fault_rename(struct fault *f, const char *from, const char *to) {
	size_t size = strlen(from);
	char rest[LIMIT_SENTENCE];

	if (strncmp(f->text, from, size) != 0 || !strchr(": ,", f->text[size]))
		return;
	memcpy(rest, f->text + size, strlen(f->text + size) + 1);
	snprintf(f->text, sizeof f->text, "%s%s", to, rest);
}

const char *fault_name(int code) {
	if (code < 0 || (size_t)code >= sizeof names / sizeof *names || !names[code])
		return "UNLISTED";
	return names[code];
}
