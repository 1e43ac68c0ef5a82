/* Lines on standard error; see log.h. A line is one write, so that lines of threads do not mix. */
#include "log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	/* A sentence of a fault and what surrounds it. */
	LOG_LINE = 1024,
};

/* The priorities of syslog(3), as sd-daemon(3) wants them. */
static const char *const priorities[] = {
	[LOG_LEVEL_ERROR] = "<3>",
	[LOG_LEVEL_WARNING] = "<4>",
	[LOG_LEVEL_NOTICE] = "<5>",
	[LOG_LEVEL_INFO] = "<6>",
	[LOG_LEVEL_DEBUG] = "<7>",
};

static struct {
	const char *program;
	bool journal;
	_Atomic int level;
} state = { .program = "fusiond", .level = LOG_LEVEL_INFO };

void log_open(const char *program) {
	state.program = program;
	state.journal = getenv("JOURNAL_STREAM") != NULL && getenv("INVOCATION_ID") != NULL;
}

void log_set_level(enum log_level level) {
	atomic_store_explicit(&state.level, (int)level, memory_order_relaxed);
}

void log_message(enum log_level level, const char *format, ...) {
	char line[LOG_LINE];
	va_list ap;
	size_t used;
	ssize_t ignored;

	if ((int)level > atomic_load_explicit(&state.level, memory_order_relaxed))
		return;
	if (state.journal)
		snprintf(line, sizeof line, "%s", priorities[level]);
	else
		snprintf(line, sizeof line, "%s: ", state.program);
	used = strlen(line);
	va_start(ap, format);
	vsnprintf(line + used, sizeof line - used - 1, format, ap);
	va_end(ap);
	used = strlen(line);
	line[used] = '\n';
	ignored = write(STDERR_FILENO, line, used + 1);
	(void)ignored;
}
