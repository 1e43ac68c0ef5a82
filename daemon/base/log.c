/*
 * Lines on standard error; see log.h. A line is one write, so that lines of threads do not mix.
 *
 * Much of what is told was written by a client: names, options, sentences that quote them. So whatever could end a line, forge a
 * priority or move a terminal's cursor is written as \xNN at this boundary, and nobody who logs needs to think of it.
 */
#include "log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <systemd/sd-journal.h>

#include "protocol/utf8.h"

enum {
	/* A sentence of a fault and what surrounds it. */
	LOG_LINE = 1024,
	/* "\xNN". */
	LOG_ESCAPE = 4,
	/* Of a line: its own two, and those of its subject. */
	LOG_FIELDS = 8,
	LOG_FIELD = 160,
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
	bool fields;                 /* standard error is the journal's stream, so that it takes more than lines */
	_Atomic int level;
} state = { .program = "fusiond", .level = LOG_LEVEL_INFO };

/* Somebody may have put standard error elsewhere, and left the variable. */
static bool is_journal(void) {
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat st;

	return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 && !fstat(STDERR_FILENO, &st) &&
	       st.st_dev == (dev_t)device && st.st_ino == (ino_t)inode;
}

void log_open(const char *program) {
	state.program = program;
	state.fields = is_journal();
	state.journal = getenv("JOURNAL_STREAM") != NULL && getenv("INVOCATION_ID") != NULL;
}

void log_set_level(enum log_level level) {
	atomic_store_explicit(&state.level, (int)level, memory_order_relaxed);
}

static bool is_wanted(enum log_level level) {
	return (int)level <= atomic_load_explicit(&state.level, memory_order_relaxed);
}

/* ---- text ---- */

/* Bytes of the character at `text`, where it may be shown as it is; else 0. */
static size_t shown(const char *text) {
	uint32_t code;
	size_t bytes = utf8_decode(text, &code);

	return utf8_is_shown(code) ? bytes : 0;
}

size_t log_escape(char *to, size_t size, const char *from) {
	size_t used = 0, n;

	for (const char *p = from; *p; p += n ? n : 1) {
		n = shown(p);
		if (used + (n ? n : LOG_ESCAPE) >= size)
			break;
		if (n)
			memcpy(to + used, p, n);
		else
			snprintf(to + used, LOG_ESCAPE + 1, "\\x%02x", (unsigned char)*p);
		used += n ? n : LOG_ESCAPE;
	}
	to[used] = 0;
	return used;
}

/* The sentence, escaped; as much of it as there is room for. */
FAULT_PRINTF(3, 0)
static size_t put_text(char *to, size_t size, const char *format, va_list ap) {
	char text[LOG_LINE];

	vsnprintf(text, sizeof text, format, ap);
	return log_escape(to, size, text);
}

FAULT_PRINTF(2, 0)
static void put_line(enum log_level level, const char *format, va_list ap) {
	char line[LOG_LINE];
	size_t used;
	ssize_t ignored;

	if (state.journal)
		snprintf(line, sizeof line, "%s", priorities[level]);
	else
		snprintf(line, sizeof line, "%s: ", state.program);
	used = strlen(line);
	used += put_text(line + used, sizeof line - used - 1, format, ap);
	line[used] = '\n';
	ignored = write(STDERR_FILENO, line, used + 1);
	(void)ignored;
}

void log_message(enum log_level level, const char *format, ...) {
	va_list ap;

	if (!is_wanted(level))
		return;
	va_start(ap, format);
	put_line(level, format, ap);
	va_end(ap);
}

/* ---- fields ---- */

struct fields {
	char text[LOG_FIELDS][LOG_FIELD];
	struct iovec part[LOG_FIELDS + 1];
	int count;
};

FAULT_PRINTF(2, 3)
static void add_field(struct fields *f, const char *format, ...) {
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(f->text[f->count], LOG_FIELD, format, ap);
	va_end(ap);
	f->part[f->count] = (struct iovec){ f->text[f->count], n < LOG_FIELD ? (size_t)n : LOG_FIELD - 1 };
	f->count++;
}

static void add_subject(struct fields *f, const struct log_subject *about) {
	if (about->session) {
		add_field(f, "FUSION_SESSION=%" PRIu64, about->session);
		add_field(f, "FUSION_USER=%" PRIu32, about->uid);
		add_field(f, "FUSION_PROCESS=%" PRId32, about->pid);
	}
	if (about->graph)
		add_field(f, "FUSION_GRAPH=%016" PRIx64, about->graph);
	if (about->kernel)
		add_field(f, "FUSION_KERNEL=%s", about->kernel);
	if (about->cl_error)
		add_field(f, "FUSION_CL_ERROR=%d", about->cl_error);
}

/* False where the journal does not take it. */
FAULT_PRINTF(3, 0)
static bool put_fields(enum log_level level, const struct log_subject *about, const char *format, va_list ap) {
	static const char message[] = "MESSAGE=";
	char line[LOG_LINE];
	struct fields f = { .count = 0 };

	memcpy(line, message, sizeof message);
	put_text(line + sizeof message - 1, sizeof line - sizeof message + 1, format, ap);
	add_field(&f, "PRIORITY=%c", priorities[level][1]);
	add_field(&f, "SYSLOG_IDENTIFIER=%s", state.program);
	add_subject(&f, about);
	f.part[f.count] = (struct iovec){ line, strlen(line) };
	return sd_journal_sendv(f.part, f.count + 1) >= 0;
}

void log_about(enum log_level level, const struct log_subject *about, const char *format, ...) {
	bool done = false;
	va_list ap;

	if (!is_wanted(level))
		return;
	if (state.fields) {
		va_start(ap, format);
		done = put_fields(level, about, format, ap);
		va_end(ap);
	}
	if (done)
		return;
	va_start(ap, format);
	put_line(level, format, ap);
	va_end(ap);
}
