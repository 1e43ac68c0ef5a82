/* Indented lines of the text that a writer makes. */
#include "writer.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

enum {
	/* Parts are names, numbers and fixed phrases; the longest are below 200 bytes. */
	TEXT_PART = 512,
};

FAULT_PRINTF(2, 0)
static void append(struct writer *w, const char *format, va_list ap) {
	char part[TEXT_PART];
	int n = vsnprintf(part, sizeof part, format, ap);

	if (n < 0 || n >= TEXT_PART) {
		w->text->error = -EOVERFLOW;
		return;
	}
	str_append_bytes(w->text, part, (size_t)n);
}

void text_begin(struct writer *w) {
	for (unsigned i = 0; i < w->depth; i++)
		str_append(w->text, "\t");
}

void text_part(struct writer *w, const char *format, ...) {
	va_list ap;

	va_start(ap, format);
	append(w, format, ap);
	va_end(ap);
}

void text_end(struct writer *w) {
	str_append(w->text, "\n");
}

void text_line(struct writer *w, const char *format, ...) {
	va_list ap;

	text_begin(w);
	va_start(ap, format);
	append(w, format, ap);
	va_end(ap);
	text_end(w);
}

void text_open(struct writer *w, const char *format, ...) {
	va_list ap;

	text_begin(w);
	va_start(ap, format);
	append(w, format, ap);
	va_end(ap);
	str_append(w->text, " {\n");
	w->depth++;
}

void text_close(struct writer *w) {
	w->depth--;
	text_line(w, "}");
}

void text_blank(struct writer *w) {
	str_append(w->text, "\n");
}
