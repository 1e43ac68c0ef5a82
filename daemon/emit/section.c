/*
 * The sections of kernels/, embedded in the program, and which of them a kernel needs.
 *
 * Nothing here knows the files: each says in its first lines what it `requires` and `provides`. A section is
 * taken when it provides a function that the kernel uses on a type it serves, or when one that is taken requires it,
 * and stands after all it requires. Taking too much would only cost parsing time.
 */
#include "writer.h"

#include <ctype.h>
#include <string.h>

enum {
	/* Files in kernels/; embed.sh refuses more. */
	SECTIONS = 64,
};

/* Made by embed.sh. */
struct section_row {
	const char *name, *begin, *end;
};
extern const struct section_row section_table[];

struct choice {
	const struct writer *w;
	bool taken[SECTIONS], done[SECTIONS];
};

/* The words after "key:" in the opening comment, up to the next key or empty line; NULL where there are none. */
static const char *find_key(const struct section_row *s, const char *key, const char **endp) {
	const char *comment = memmem(s->begin, (size_t)(s->end - s->begin), "*/", 2);
	const char *at = comment ? memmem(s->begin, (size_t)(comment - s->begin), key, strlen(key)) : NULL;

	if (!at)
		return NULL;
	*endp = comment;
	for (const char *line = at; (line = memchr(line, '\n', (size_t)(comment - line)));) {
		const char *word = line + 1 + strspn(line + 1, " *\t");

		line++;
		if (*word == '\n' || *word == '/' || word[strcspn(word, " :\n")] == ':') {
			*endp = line;
			break;
		}
	}
	return at + strlen(key);
}

/* Does the list after a key hold this word? */
static bool has_word(const struct section_row *s, const char *key, const char *word, size_t length) {
	const char *end, *at = find_key(s, key, &end);

	while (at && at < end) {
		const char *hit = memmem(at, (size_t)(end - at), word, length);

		if (!hit)
			return false;
		if (isspace((unsigned char)hit[-1]) && isspace((unsigned char)hit[length]))
			return true;
		at = hit + 1;
	}
	return false;
}

/* Sections of one type say so by their name; the rest serves all. */
static bool serves(const struct writer *w, const char *section) {
	static const struct {
		const char *part;
		uint16_t types;
	} parts[] = {
		{ "_f32", 1 << DTYPE_f32 },
		{ "_f64", 1 << DTYPE_f64 },
		{ "real", 1 << DTYPE_f32 | 1 << DTYPE_f64 },
		{ "integer", (1 << DTYPE_i64) * 4 - 1 - (1 << DTYPE_bool) },
	};

	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		if (!strstr(section, parts[i].part))
			continue;
		for (unsigned type = 0; type < DTYPE_COUNT; type++)
			if (parts[i].types >> type & 1 && writer_uses(w, type))
				return true;
		return false;
	}
	return true;
}

static void take(struct choice *c, unsigned section) {
	const struct section_row *s = &section_table[section];

	if (c->taken[section])
		return;
	c->taken[section] = true;
	for (unsigned i = 0; section_table[i].name; i++)
		if (has_word(s, "requires:", section_table[i].name, strlen(section_table[i].name)))
			take(c, i);
}

/* Takes the sections that provide a function, where they serve a type in use. */
static void take_provider(struct choice *c, const char *function, size_t length) {
	for (unsigned i = 0; section_table[i].name; i++)
		if (has_word(&section_table[i], "provides:", function, length) && serves(c->w, section_table[i].name))
			take(c, i);
}

/* The names before an opening parenthesis. */
static void take_expression(struct choice *c, const char *expression) {
	for (const char *p = expression; *p;) {
		size_t length = strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");

		if (length && p[length] == '(')
			take_provider(c, p, length);
		p += length ? length : 1;
	}
}

static void append(struct choice *c, unsigned section, struct str *text) {
	const struct section_row *s = &section_table[section];

	if (c->done[section])
		return;
	c->done[section] = true;
	for (unsigned i = 0; section_table[i].name; i++)
		if (has_word(s, "requires:", section_table[i].name, strlen(section_table[i].name)))
			append(c, i, text);
	str_append_bytes(text, s->begin, (size_t)(s->end - s->begin));
	str_append(text, "\n");
}

void section_append(const struct writer *w, struct str *text) {
	/* What every kernel calls besides its operations. */
	static const char *const always[] = { "load_D", "to_f32" };
	struct value_function list[VALUE_FUNCTIONS];
	struct choice c = { .w = w };
	unsigned n = value_functions(w, list);

	for (size_t i = 0; i < sizeof always / sizeof *always; i++)
		take_provider(&c, always[i], strlen(always[i]));
	for (unsigned i = 0; i < n; i++)
		take_expression(&c, op_info(list[i].op)->expr);
	for (unsigned i = 0; section_table[i].name; i++)
		if (c.taken[i])
			append(&c, i, text);
}
