/*
 * Files of operations; see operation_file.h.
 *
 * inih hands over lines; keys are rows of `keys`. A definition is checked as far as text alone allows when
 * its section ends.
 */
#include "operation_file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ini.h>

#include "body.h"
#include "config.h"

enum {
	/* inih keeps no more of a line, a section's name and a key than this, and does not say so. */
	LINE_BYTES = 198,
	SECTION_BYTES = 48,
	/* The engine reads a file between two launches: as many definitions as there may be, of 4 KiB each. */
	FILE_BYTES = 1 << 20,
	/* Of one value: no expression and no body is longer. */
	TEXT_BYTES = (int)BODY_BYTES > (int)EXPR_BYTES ? (int)BODY_BYTES : (int)EXPR_BYTES,
};

static const char too_large[] = "it has more than 1 MiB";

struct operation_reader {
	FILE *stream;
	const char *path;
	unsigned line;
	bool continued;                      /* the line goes on with the value before it */
	struct operation_source **end;       /* where the next one goes */
	struct operation_source *now;        /* the one being read */
	unsigned count;
	bool grew;                           /* past FILE_BYTES, while it was read */
	int error;
};

/* ---- one definition ---- */

static struct operation_source *source_free(struct operation_source *s) {
	for (unsigned i = 0; i < EXPR_OPERANDS; i++)
		free(s->gradient[i]);
	for (unsigned i = 0; i <= DTYPE_KIND_REAL; i++)
		free(s->body[i]);
	free(s->common);
	free(s->text);
	free(s->pattern);
	free(s->doc);
	free(s);
	return NULL;
}

struct operation_source *operation_sources_free(struct operation_source *first) {
	while (first) {
		struct operation_source *next = first->next;

		source_free(first);
		first = next;
	}
	return NULL;
}

static bool same_text(const char *a, const char *b) {
	return a == b || (a && b && !strcmp(a, b));
}

bool operation_source_equal(const struct operation_source *a, const struct operation_source *b) {
	bool same = !strcmp(a->name, b->name) && !strcmp(a->operands, b->operands) && same_text(a->text, b->text) &&
		same_text(a->doc, b->doc) && same_text(a->pattern, b->pattern) && a->devices == b->devices && a->types == b->types && a->result == b->result && a->inexact == b->inexact &&
		a->one_shape == b->one_shape && a->fault.code == b->fault.code && !strcmp(a->fault.text, b->fault.text);

	for (unsigned i = 0; i < EXPR_OPERANDS; i++)
		same = same && same_text(a->gradient[i], b->gradient[i]);
	for (unsigned i = 0; i <= DTYPE_KIND_REAL; i++)
		same = same && same_text(a->body[i], b->body[i]);
	return same;
}

static uint64_t hash_text(uint64_t h, const char *text) {
	for (; text && *text; text++)
		h = (h ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
	return (h ^ (text ? 0x1ff : 0x2ff)) * UINT64_C(0x100000001b3);
}

uint64_t operation_source_hash(const struct operation_source *s) {
	uint64_t h = UINT64_C(0xcbf29ce484222325) ^ (uint64_t)s->types << 8 ^ (uint64_t)s->result << 16 ^
		(uint64_t)s->inexact << 24 ^ (uint64_t)s->one_shape << 25;

	h = hash_text(hash_text(hash_text(hash_text(h, s->name), s->operands), s->text), s->pattern);
	for (unsigned i = 0; i <= DTYPE_KIND_REAL; i++)
		h = hash_text(h, s->body[i]);
	return h;
}

/* The first thing that is wrong with a definition is what is told of it. */
static void refuse(struct operation_reader *r, const char *why, const char *what) {
	if (r->now && !r->now->fault.code)
		fault_set(&r->now->fault, FAULT_SYNTAX, "%s:%u: %s%s%s", r->path, r->line, what ? what : "", what ? ": " : "",
			why);
}

static struct operation_source *source_begin(struct operation_reader *r, const char *name) {
	struct operation_source *s = r->count < OPERATION_FILES ? calloc(1, sizeof *s) : NULL;

	r->now = s;
	if (!s) {
		r->error = r->count < OPERATION_FILES ? -ENOMEM : -E2BIG;
		return NULL;
	}
	snprintf(s->path, sizeof s->path, "%s", r->path);
	snprintf(s->name, sizeof s->name, "%s", name);
	s->line = r->line;
	s->types = OP_TYPES_REAL;
	s->devices = UINT64_MAX;
	*r->end = s;
	r->end = &s->next;
	r->count++;
	return s;
}

/* ---- keys ---- */

struct word {
	const char *text;
	int value;
};

static const struct word type_words[] = {
	{ "any", OP_TYPES_ANY }, { "number", OP_TYPES_NUM }, { "real", OP_TYPES_REAL }, { "integer", OP_TYPES_INT },
	{ "bits", OP_TYPES_BITS }, { "bool", OP_TYPES_BOOL }, { NULL, 0 },
};
static const struct word result_words[] = { { "same", OP_RESULT_SAME }, { "bool", OP_RESULT_BOOL }, { NULL, 0 } };
static const struct word yes_words[] = { { "yes", 1 }, { "no", 0 }, { NULL, 0 } };
static const struct word shape_words[] = { { "broadcast", 0 }, { "same", 1 }, { NULL, 0 } };

static int find_word(struct operation_reader *r, const char *key, const struct word *words, const char *text) {
	const struct word *w = words;

	while (w->text && strcmp(w->text, text) != 0)
		w++;
	if (!w->text)
		refuse(r, "its value is none of those that fusiond.conf(5) lists", key);
	return w->value;
}

/* A value, or more of one: lines are joined as they stand. */
static void take_text(struct operation_reader *r, const char *key, char **textp, const char *value) {
	char *joined;

	if (*textp && !r->continued) {
		refuse(r, "it is said twice", key);
		return;
	}
	if ((*textp ? strlen(*textp) + 1 : 0) + strlen(value) > TEXT_BYTES) {
		refuse(r, "it has more than 4096 bytes", key);
		return;
	}
	if (asprintf(&joined, "%s%s%s", *textp ? *textp : "", *textp ? "\n" : "", value) < 0) {
		r->error = -ENOMEM;
		return;
	}
	free(*textp);
	*textp = joined;
}

/* The number of the operand with this name, or -1. */
static int operand_number(const struct operation_source *s, const char *name) {
	const char *at = s->operands;

	for (int i = 0; *at; i++) {
		size_t length = strcspn(at, ",");

		if (strlen(name) == length && !memcmp(at, name, length))
			return i;
		at += length + strspn(at + length, ", ");
	}
	return -1;
}

static void take_gradient(struct operation_reader *r, const char *key, const char *operand, const char *value) {
	int i = operand_number(r->now, operand);

	if (i < 0 || i >= EXPR_OPERANDS)
		refuse(r, "there is no such operand; `operands` must stand before", key);
	else
		take_text(r, key, &r->now->gradient[i], value);
}

/* "x, beta" with blanks as they come. */
static void take_operands(struct operation_reader *r, const char *value) {
	char *out = r->now->operands;

	if (*out || strlen(value) >= DEFINITION_OPERANDS / 2) {
		refuse(r, "it is said twice, or too long", "operands");
		return;
	}
	for (; *value; value++) {
		if (!isspace((unsigned char)*value))
			*out++ = *value;
		if (*value == ',')
			*out++ = ' ';
	}
}

static void take_body(struct operation_reader *r, const char *key, const char *kind, const char *value) {
	static const struct word kinds[] = { { "bool", DTYPE_KIND_BOOL }, { "integer", DTYPE_KIND_SINT },
		{ "unsigned", DTYPE_KIND_UINT }, { "real", DTYPE_KIND_REAL }, { NULL, 0 } };

	take_text(r, key, &r->now->body[find_word(r, key, kinds, kind)], value);
}

static void take_devices(struct operation_reader *r, const char *value) {
	if (!config_devices(value, &r->now->devices))
		refuse(r, "it is yes, no, cpu or gpu", "devices");
}

static void take_key(struct operation_reader *r, const char *key, const char *value) {
	struct operation_source *s = r->now;

	if (!strcmp(key, "operands"))
		take_operands(r, value);
	else if (!strcmp(key, "text"))
		take_text(r, key, &s->text, value);
	else if (!strcmp(key, "pattern"))
		take_text(r, key, &s->pattern, value);
	else if (!strcmp(key, "devices"))
		take_devices(r, value);
	else if (!strncmp(key, "gradient.", 9))
		take_gradient(r, key, key + 9, value);
	else if (!strcmp(key, "body"))
		take_text(r, key, &s->common, value);
	else if (!strncmp(key, "body.", 5))
		take_body(r, key, key + 5, value);
	else if (!strcmp(key, "doc"))
		take_text(r, key, &s->doc, value);
	else if (!strcmp(key, "types"))
		s->types = (enum op_types)find_word(r, key, type_words, value);
	else if (!strcmp(key, "result"))
		s->result = (enum op_result)find_word(r, key, result_words, value);
	else if (!strcmp(key, "shape"))
		s->one_shape = find_word(r, key, shape_words, value);
	else if (!strcmp(key, "exact"))
		s->inexact = !find_word(r, key, yes_words, value);
	else
		refuse(r, "there is no such key", key);
}

/* ---- lines ---- */

static bool comment_follows(const char *text) {
	for (const char *p = text; (p = strchr(p, ';')); p++)
		if (p > text && isspace((unsigned char)p[-1]) && p > text + strspn(text, " \t"))
			return true;
	return false;
}

/* Sections are seen here, since inih names them only with their first key. */
static void look_at_line(struct operation_reader *r, const char *text) {
	size_t blanks = strspn(text, " \t"), length;
	const char *end;

	r->continued = blanks > 0;
	if (text[blanks] == '#' || text[blanks] == ';')
		return;
	if (!blanks && *text == '[') {
		char name[SECTION_BYTES + 1] = "";

		end = strchr(text, ']');
		length = end ? (size_t)(end - text - 1) : 0;
		snprintf(name, sizeof name, "%.*s", (int)length, text + 1);
		if (source_begin(r, name) && (!length || length > SECTION_BYTES))
			refuse(r, "a name in brackets has 1 to 48 letters, digits and _", NULL);
	}
	if (strlen(text) >= LINE_BYTES)
		refuse(r, "the line has more than 197 bytes; go on in the next, after a blank", NULL);
	if (comment_follows(text))
		refuse(r, "a ; after a blank would begin a comment; write it without the blank", NULL);
}

static char *read_line(char *text, int size, void *user) {
	struct operation_reader *r = user;

	r->line++;
	if (!fgets(text, size, r->stream))
		return NULL;
	r->grew = ftello(r->stream) > FILE_BYTES;
	if (r->grew)
		return NULL;
	look_at_line(r, text);
	return text;
}

/* Keys before any section are of no definition: one without a name is made for them. */
static int read_key(void *user, const char *section, const char *key, const char *value) {
	struct operation_reader *r = user;

	(void)section;
	if (!r->now && source_begin(r, ""))
		refuse(r, "a key before the first [name]", NULL);
	if (!r->error && !r->now->fault.code)
		take_key(r, key, value);
	return 1;
}

/* ---- whole definitions ---- */

static bool has_body(const struct operation_source *s) {
	bool has = s->common != NULL;

	for (unsigned i = 0; i <= DTYPE_KIND_REAL; i++)
		has = has || s->body[i];
	return has;
}

/* Each kind that it takes gets a body: its own, unsigned integers that of all integers, or the common one. */
static int share_bodies(struct operation_source *s, struct fault *f) {
	static const char *const words[] = { [DTYPE_KIND_BOOL] = "bool", [DTYPE_KIND_SINT] = "integers",
		[DTYPE_KIND_UINT] = "unsigned integers", [DTYPE_KIND_REAL] = "floating-point numbers" };

	for (unsigned i = 0; i <= DTYPE_KIND_REAL; i++) {
		const char *from = i == DTYPE_KIND_UINT && s->body[DTYPE_KIND_SINT] ? s->body[DTYPE_KIND_SINT] : s->common;

		if (s->body[i] || !op_types_take(s->types, (enum dtype_kind)i))
			continue;
		if (!from)
			return fault_set(f, FAULT_SYNTAX, "there is no body for %s, which `types` lets it take", words[i]);
		s->body[i] = strdup(from);
		if (!s->body[i])
			return -ENOMEM;
	}
	return 0;
}

static int check_bodies(struct operation_source *s, struct fault *f) {
	int r = share_bodies(s, f);

	if (!r && !*s->operands)
		r = fault_set(f, FAULT_SYNTAX, "an operation with a body names its operands");
	if (!r && s->arity > OWN_OPERANDS)
		r = fault_set(f, FAULT_ARITY, "an operation with a body has at most %d operands", OWN_OPERANDS);
	for (unsigned i = 0; !r && i <= DTYPE_KIND_REAL; i++)
		if (s->body[i])
			r = body_check(s->body[i], s->operands, f);
	return r;
}

static int check_source(struct operation_source *s, struct fault *f) {
	char signature[DEFINITION_NAME + DEFINITION_OPERANDS + 2];
	struct definition *d = calloc(1, sizeof *d);
	int r = d ? 0 : -ENOMEM;

	snprintf(signature, sizeof signature, *s->operands ? "%s(%s)" : "%s", s->name, s->operands);
	if (!r)
		r = definition_signature(d, signature, f);
	if (!r && s->text && has_body(s))
		r = fault_set(f, FAULT_SYNTAX, "it has a text and a body; one of them is wanted");
	if (!r && !s->text && !has_body(s) && !s->pattern)
		r = fault_set(f, FAULT_SYNTAX, "it has neither a text, nor a body, nor a pattern");
	s->arity = r ? 0 : d->arity;
	if (!r && has_body(s))
		r = check_bodies(s, f);
	if (!r && has_body(s))
		r = definition_gradients(d, (const char *const *)s->gradient, f);
	definition_free(d);
	return r;
}

static int check_all(struct operation_source *first) {
	for (struct operation_source *s = first; s; s = s->next) {
		int r = s->fault.code || !*s->name ? 0 : check_source(s, &s->fault);

		if (r < 0)
			return r;
		if (r)
			fault_prefix(&s->fault, "%s:%u", s->path, s->line);
		for (const struct operation_source *other = first; !s->fault.code && other != s; other = other->next)
			if (!strcmp(other->name, s->name))
				fault_set(&s->fault, FAULT_SYNTAX, "%s:%u: %s is defined already at %s:%u", s->path, s->line,
					s->name, other->path, other->line);
	}
	return 0;
}

/* ---- files ---- */

/* Who may write it may run code with the rights of the daemon. Nobody waits for one that has no end. */
static const char *file_fault(FILE *stream) {
	struct stat s;

	if (fstat(fileno(stream), &s))
		return strerror(errno);
	if (!S_ISREG(s.st_mode))
		return "it is no regular file";
	if (s.st_size > FILE_BYTES)
		return too_large;
	if (s.st_uid != 0 && s.st_uid != geteuid())
		return "it belongs neither to root nor to the user of the daemon";
	return s.st_mode & (S_IWGRP | S_IWOTH) ? "others than its owner may write it" : NULL;
}

static void refuse_file(struct operation_reader *r, unsigned line, const char *why) {
	struct operation_source *s;

	r->line = line;
	s = source_begin(r, "");
	if (!s)
		return;
	fault_set(&s->fault, FAULT_SYNTAX, "%s", why);
	fault_prefix(&s->fault, line ? "%s:%u" : "%s", r->path, line);
}

/* Whatever lies there, nobody waits for it: a pipe without a writer opens, too, and is refused then. */
static FILE *open_file(const char *path) {
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	FILE *stream = fd < 0 ? NULL : fdopen(fd, "r");

	if (!stream && fd >= 0)
		close(fd);
	return stream;
}

static void read_file(struct operation_reader *r, const char *path) {
	const char *why;
	int line = 0;

	r->path = path;
	r->line = 0;
	r->grew = false;
	r->now = NULL;
	r->stream = open_file(path);
	why = r->stream ? file_fault(r->stream) : strerror(errno);
	if (why)
		refuse_file(r, 0, why);
	else
		line = ini_parse_stream(read_line, r, read_key, r);
	if (line > 0)
		refuse_file(r, (unsigned)line, "the line is neither [name] nor key = value");
	else if (line < 0)
		r->error = -ENOMEM;
	if (r->grew)
		refuse_file(r, 0, too_large);
	if (r->stream)
		fclose(r->stream);
}

/* One that is there and does not open would seem to be empty; what is wrong is told like what is wrong with a file. */
static void check_folder(struct operation_reader *r, const char *folder) {
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	r->path = folder;
	if (fd >= 0)
		close(fd);
	else if (errno != ENOENT)
		refuse_file(r, 0, strerror(errno));
}

int operation_files_read(const char *folder, struct operation_source **listp) {
	struct operation_source *first = NULL;
	struct operation_reader r = { .end = &first };
	char pattern[OPERATION_PATH];
	glob_t found = { 0 };

	check_folder(&r, folder);
	snprintf(pattern, sizeof pattern, "%s/*.op", folder);
	if (glob(pattern, 0, NULL, &found) == GLOB_NOSPACE)
		r.error = -ENOMEM;
	for (size_t i = 0; !r.error && i < found.gl_pathc; i++)
		read_file(&r, found.gl_pathv[i]);
	globfree(&found);
	/* What is beyond the limit is not read; the last definition says so. */
	if (r.error == -E2BIG) {
		for (r.now = first; r.now->next;)
			r.now = r.now->next;
		refuse(&r, "there are more than 256 definitions; this one and those after it are not read", NULL);
		r.error = 0;
	}
	if (!r.error)
		r.error = check_all(first);
	if (r.error)
		operation_sources_free(first);
	else
		*listp = first;
	return r.error;
}
