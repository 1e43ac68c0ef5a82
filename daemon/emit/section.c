/*
 * The sections of kernels/, embedded in the program, and which of them a kernel needs.
 *
 * Nothing here knows the files: each says in its first lines what it `requires` and `provides`. A section is
 * taken when it provides a function that the kernel uses on a type it serves, or when one that is taken
 * requires it, and stands after all it requires. Taking too much would only cost parsing time.
 */
#include "writer.h"

#include <ctype.h>
#include <limits.h>
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
	bool taken[SECTIONS], done[SECTIONS];
};

/* The words after a key in the opening comment, up to the next key or empty line; NULL: no such key. */
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

/* Does a section serve one of these register types? Those of few types say so by their name. */
static bool serves(const char *section, unsigned types) {
	static const struct {
		const char *part;
		unsigned types;
	} parts[] = {
		{ "_f32", 1 << DTYPE_f32 },
		{ "_f64", 1 << DTYPE_f64 },
		{ "real", 1 << DTYPE_f32 | 1 << DTYPE_f64 },
		{ "integer", 1 << DTYPE_i8 | 1 << DTYPE_u8 | 1 << DTYPE_i16 | 1 << DTYPE_u16 |
				     1 << DTYPE_i32 | 1 << DTYPE_u32 | 1 << DTYPE_i64 | 1 << DTYPE_u64 },
	};

	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		if (strstr(section, parts[i].part))
			return (parts[i].types & types) != 0;
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

/* Takes the sections that provide a function and serve a type. */
static void take_provider(struct choice *c, const char *function, size_t length, unsigned types) {
	for (unsigned i = 0; section_table[i].name; i++)
		if (has_word(&section_table[i], "provides:", function, length) &&
			serves(section_table[i].name, types))
			take(c, i);
}

/*
 * The names before an opening parenthesis. They are called on the type of the last operand; where one
 * takes the result of another, also on the type of the whole.
 */
static void take_expression(struct choice *c, const struct value_function *f) {
	const char *expression = op_info(f->op)->expr;
	unsigned types = 1u << dtype_info(f->type[f->arity - 1])->reg;

	if (!expression)
		return;              /* an own operation: its body calls none of ours */
	if (strchr(expression, '(') != strrchr(expression, '('))
		types |= 1u << dtype_info(f->result)->reg;
	for (const char *p = expression; *p;) {
		size_t length = strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");

		if (length && p[length] == '(')
			take_provider(c, p, length, types);
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

/* What every kernel calls besides its operations. */
static void take_always(struct choice *c) {
	static const char *const always[] = { "load_D", "to_f32" };

	for (size_t i = 0; i < sizeof always / sizeof *always; i++)
		take_provider(c, always[i], strlen(always[i]), UINT_MAX);
}

/* The sections of functions, and those chosen before. */
static void append_taken(struct choice *c, const struct value_function *list, unsigned n, struct str *text) {
	for (unsigned i = 0; i < n; i++)
		take_expression(c, &list[i]);
	for (unsigned i = 0; section_table[i].name; i++)
		if (c->taken[i])
			append(c, i, text);
}

void section_append_functions(const struct value_function *list, unsigned n, const char *also, struct str *text) {
	struct choice c = { .taken = { false } };

	take_always(&c);
	take_provider(&c, also, strlen(also), UINT_MAX);
	append_taken(&c, list, n, text);
}

void section_append(const struct writer *w, struct str *text) {
	struct value_function list[VALUE_FUNCTIONS];
	struct choice c = { .taken = { false } };
	unsigned n = value_functions(w, list);

	take_always(&c);
	for (unsigned v = 0; v < w->k->values; v++) {
		if (w->k->value[v].kind == KERNEL_GATHER)
			take_provider(&c, "take_D", strlen("take_D"), UINT_MAX);
		if (w->k->value[v].kind == KERNEL_SEARCH)
			take_provider(&c, "search_D", strlen("search_D"), UINT_MAX);
	}
	if (w->k->root == KERNEL_SORT)
		take_provider(&c, "sort_key", strlen("sort_key"), UINT_MAX);
	if (w->k->root == KERNEL_MATMUL && kernel_tile_is_matrix(w->k->tile))
		take_provider(&c, "matrix_multiply", strlen("matrix_multiply"), UINT_MAX);
	if (w->k->root == KERNEL_ATTENTION)
		take_provider(&c, "weigh", strlen("weigh"), 1U << w->k->accumulator);
	append_taken(&c, list, n, text);
}
