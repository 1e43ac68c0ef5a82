/*
 * The last error of each thread, and the table of source file names. See error.h.
 *
 * The table only grows: a program has as many names as source files. A thread keeps the number of
 * the file it was in last, so the lock is taken once for each change of file.
 */
#include "error.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	/* A place is 6 bytes in every table; more files than this are "an unknown place". */
	FILES_MAX = 65535,
};

struct thread_error {
	const char *file; /* as given to fusion_here() */
	int line;
	unsigned held;     /* calls of fusion_at() that have not ended: the place stays */
	const char *known; /* our copy of the last file's name, and its number */
	uint16_t number;
	bool sticky;
	int code;
	char text[LIMIT_SENTENCE + PLACE_TEXT];
};

static _Thread_local struct thread_error mine;

static pthread_mutex_t files_lock = PTHREAD_MUTEX_INITIALIZER;
static char **files; /* files[i] is file i + 1 */
static uint16_t files_count;
static uint32_t files_room;

void fusion_here(const char *file, int line) {
	if (mine.held)
		return;
	mine.file = file;
	mine.line = line;
}

void fusion_at(const char *file, int line) {
	if (file) {
		fusion_here(file, line);
		mine.held++;
	} else if (mine.held) {
		mine.held--;
	}
}

static bool files_grow(void) {
	uint32_t room = files_room ? files_room * 2 : 16;
	char **grown;

	if (files_count < files_room)
		return true;
	grown = realloc(files, room * sizeof *files);
	if (!grown)
		return false;
	files = grown;
	files_room = room;
	return true;
}

/* The number of a name, which is added where it is new; 0 where there is no room for it. */
static uint16_t file_number(const char *name) {
	char *copy;

	for (uint16_t i = 0; i < files_count; i++)
		if (!strcmp(files[i], name))
			return (uint16_t)(i + 1);
	if (files_count == FILES_MAX || !files_grow())
		return 0;
	copy = strdup(name);
	if (!copy)
		return 0;
	files[files_count++] = copy;
	return files_count;
}

struct place place_here(void) {
	struct place p = { 0 };

	if (!mine.file)
		return p;
	if (!mine.known || strcmp(mine.known, mine.file) != 0) {
		pthread_mutex_lock(&files_lock);
		mine.number = file_number(mine.file);
		mine.known = mine.number ? files[mine.number - 1] : NULL;
		pthread_mutex_unlock(&files_lock);
	}
	p.file = mine.number;
	p.line = (uint32_t)mine.line;
	return p;
}

static const char *file_name(uint16_t number) {
	const char *name = NULL;

	pthread_mutex_lock(&files_lock);
	if (number && number <= files_count)
		name = files[number - 1];
	pthread_mutex_unlock(&files_lock);
	return name;
}

char *place_name(struct place place, char text[static PLACE_TEXT]) {
	const char *name = file_name(place.file);

	if (!name)
		snprintf(text, PLACE_TEXT, "an unknown place");
	else
		snprintf(text, PLACE_TEXT, "%s:%u", name, place.line);
	return text;
}

char *place_text(struct place place, char text[static PLACE_TEXT]) {
	const char *name = file_name(place.file);

	*text = '\0';
	if (name)
		snprintf(text, PLACE_TEXT, " (at %s:%u)", name, place.line);
	return text;
}

/* Only place_text() writes this; sentences of the daemon know no places. */
static bool has_place(const struct fault *f) {
	size_t size = strlen(f->text);

	return size && f->text[size - 1] == ')' && strstr(f->text, " (at ");
}

void place_append(struct fault *f, struct place place) {
	char where[PLACE_TEXT];
	size_t used = strlen(f->text), need = strlen(place_text(place, where));

	if (!has_place(f) && used + need < sizeof f->text)
		memcpy(f->text + used, where, need + 1);
}

int error_from_errno(struct fault *f, int r, const char *doing) {
	int code = r == -ENOMEM ? FAULT_MEMORY : r == -EMFILE || r == -ENFILE ? FAULT_LIMIT : FAULT_CONNECT;
	char why[128];

	if (r == -ENOMEM)
		return fault_set(f, code, "this process is out of memory");
	return fault_set(f, code, "%s: %s", doing, strerror_r(-r, why, sizeof why));
}

int error_report(int r, const struct fault *f) {
	struct fault fatal;
	char where[PLACE_TEXT];

	if (!r || mine.sticky)
		return r ? mine.code : 0;
	if (r < 0) {
		error_from_errno(&fatal, r, "the connection to fusiond");
		f = &fatal;
	}
	place_text(place_here(), where);
	mine.code = f->code;
	mine.sticky = f->code == FAULT_NONFINITE;
	snprintf(mine.text, sizeof mine.text, "%s%s", f->text, has_place(f) || mine.sticky ? "" : where);
	return mine.code;
}

static int refuse(int code, const char *what, const char *format, va_list ap) {
	char why[LIMIT_SENTENCE];
	struct fault f;

	vsnprintf(why, sizeof why, format, ap);
	return error_report(fault_set(&f, code, "%s: %s", what, why), &f);
}

int error_refuse(int code, const char *what, const char *format, ...) {
	va_list ap;

	va_start(ap, format);
	code = refuse(code, what, format, ap);
	va_end(ap);
	return code;
}

fusion_array *error_refuse_array(int code, const char *what, const char *format, ...) {
	va_list ap;

	va_start(ap, format);
	refuse(code, what, format, ap);
	va_end(ap);
	return NULL;
}

int error_reserved(const char *what, const uint64_t reserved[static FUSION_RESERVED]) {
	struct fault f;

	for (unsigned i = 0; i < FUSION_RESERVED; i++)
		if (reserved[i])
			return error_report(fault_set(&f, FAULT_VERSION,
						    "%s: libfusion " FUSION_VERSION " does not know all of the structure: begin with zeros (= { 0 }), "
						    "or install the release that the program was built for",
						    what),
				&f);
	return 0;
}

int fusion_refuse(int code, const char *sentence) {
	struct fault f;
	bool known = code > 0 && code < FAULT_COUNT;

	return error_report(fault_set(&f, known ? code : FAULT_ARGUMENT, "%s",
		sentence && *sentence ? sentence : "refuse: no sentence says why"), &f);
}

int error_sticky(void) {
	return mine.sticky ? mine.code : 0;
}

int fusion_error_code(void) {
	return mine.code;
}

const char *fusion_error(void) {
	return mine.text;
}

void fusion_error_clear(void) {
	mine.code = 0;
	mine.sticky = false;
	*mine.text = '\0';
}

const char *fusion_code_name(int code) {
	return fault_name(code);
}

void error_before_fork(void) {
	pthread_mutex_lock(&files_lock);
}

void error_after_fork(void) {
	pthread_mutex_unlock(&files_lock);
}
