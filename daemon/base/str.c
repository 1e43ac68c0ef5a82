/* A growing text; see str.h. */
#include "str.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STR_FIRST = 256 };

static int str_reserve(struct str *s, size_t more) {
	size_t capacity = s->capacity ? s->capacity : STR_FIRST;
	char *text;

	if (s->error)
		return s->error;
	if (s->length + more < s->capacity)
		return 0;
	while (capacity <= s->length + more)
		capacity *= 2;
	text = realloc(s->text, capacity);
	if (!text)
		return s->error = -ENOMEM;
	s->text = text;
	s->capacity = capacity;
	return 0;
}

void str_append_bytes(struct str *s, const char *bytes, size_t size) {
	if (str_reserve(s, size))
		return;
	memcpy(s->text + s->length, bytes, size);
	s->length += size;
	s->text[s->length] = 0;
}

void str_append(struct str *s, const char *text) {
	str_append_bytes(s, text, strlen(text));
}

void str_printf(struct str *s, const char *format, ...) {
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(NULL, 0, format, ap);
	va_end(ap);
	if (n < 0 || str_reserve(s, (size_t)n))
		return;
	va_start(ap, format);
	vsnprintf(s->text + s->length, s->capacity - s->length, format, ap);
	va_end(ap);
	s->length += (size_t)n;
}

void str_clear(struct str *s) {
	s->length = 0;
	if (s->text)
		s->text[0] = 0;
}

void str_free(struct str *s) {
	free(s->text);
	*s = (struct str){ 0 };
}

int str_finish(const struct str *s) {
	return s->error;
}

const char *str_text(const struct str *s) {
	return s->text ? s->text : "";
}
