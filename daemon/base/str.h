/*
 * A text that grows. The first failure to allocate sticks; str_finish() reports it.
 */
#pragma once

#include <stddef.h>

#include "protocol/fault.h"

struct str {
	char *text;        /* terminated; NULL while empty */
	size_t length;
	size_t capacity;
	int error;         /* 0 or -ENOMEM */
};

void str_printf(struct str *s, const char *format, ...) FAULT_PRINTF(2, 3);
void str_append(struct str *s, const char *text);
void str_append_bytes(struct str *s, const char *bytes, size_t size);
void str_clear(struct str *s);               /* empties, keeps the memory */
void str_free(struct str *s);
int str_finish(const struct str *s) FAULT_MUST_USE;
/* The text, "" while empty. */
const char *str_text(const struct str *s);
