/*
 * A case that cannot run here: it says so, with the reason, and tests/check.sh counts it as skipped, never as passed.
 *
 * In the body of a START_TEST: SKIP("the driver has one device only"). One of which only a part cannot run is two cases.
 */
#pragma once

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* One line of one write: several processes have the same output. check calls the function of a test NAME_fn. */
__attribute__((format(printf, 2, 3))) static inline void skip_says(const char *function, const char *format, ...) {
	size_t name = strlen(function);
	char reason[512];
	va_list list;

	va_start(list, format);
	vsnprintf(reason, sizeof reason, format, list);
	va_end(list);
	if (name > 3 && !strcmp(function + name - 3, "_fn"))
		name -= 3;
	dprintf(STDOUT_FILENO, "\nskipped %.*s: %s\n", (int)name, function, reason);
}

#define SKIP(...) \
	do { \
		skip_says(__func__, __VA_ARGS__); \
		return; \
	} while (0)
