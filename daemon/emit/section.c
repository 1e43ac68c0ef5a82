/*
 * The sections of kernels/, embedded in the program, and which of them a kernel needs.
 *
 * Nothing here knows the files: each says in its first lines what it `requires` and `provides`. A section is
 * taken when it provides a function that the kernel uses on a type it serves, or when one that is taken
 * requires it, and stands after all it requires. Taking too much would only cost parsing time.
 *
 * The first lines are read once in a process: a program of all dialects asks for some thousand functions, before the engine is ready.
 */
#include "writer.h"

#include <limits.h>
#include <pthread.h>
#include <string.h>

enum {
	/* Files in kernels/, and words of their opening comments; embed.sh refuses more. */
	SECTIONS = 64,
	SECTION_WORDS = 4096,
};

/* Made by embed.sh. */
struct section_row {
	const char *name, *begin, *end;
};
extern const struct section_row section_table[];

struct choice {
	bool taken[SECTIONS], done[SECTIONS];
};

/* What the first lines of all sections say: functions and who provides them, and for each section which ones it requires. */
static struct {
	pthread_once_t once;
	struct provided {
		const char *name;
		size_t length;
		unsigned section;
	} function[SECTION_WORDS];
	unsigned functions;
	uint64_t requires[SECTIONS];
} heads = { .once = PTHREAD_ONCE_INIT };

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

static void note_provided(unsigned section, const char *word, size_t length) {
	if (heads.functions < SECTION_WORDS)
		heads.function[heads.functions++] = (struct provided){ word, length, section };
}

static void note_required(unsigned section, const char *word, size_t length) {
	for (unsigned i = 0; section_table[i].name; i++)
		if (strlen(section_table[i].name) == length && !memcmp(section_table[i].name, word, length))
			heads.requires[section] |= UINT64_C(1) << i;
}

static void read_list(unsigned section, const char *key, void note(unsigned section, const char *word, size_t length)) {
	static const char between[] = " *\t\n";
	const char *end, *at = find_key(&section_table[section], key, &end);

	while (at && (at += strspn(at, between)) < end) {
		size_t length = strcspn(at, between);

		note(section, at, length);
		at += length;
	}
}

static void read_heads(void) {
	for (unsigned i = 0; section_table[i].name; i++) {
		read_list(i, "requires:", note_required);
		read_list(i, "provides:", note_provided);
	}
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

static bool requires(unsigned section, unsigned other) {
	return heads.requires[section] >> other & 1;
}

static void take(struct choice *c, unsigned section) {
	if (c->taken[section])
		return;
	c->taken[section] = true;
	for (unsigned i = 0; section_table[i].name; i++)
		if (requires(section, i))
			take(c, i);
}

/* Takes the sections that provide a function and serve a type. */
static void take_provider(struct choice *c, const char *function, size_t length, unsigned types) {
	for (unsigned i = 0; i < heads.functions; i++) {
		const struct provided *p = &heads.function[i];

		if (p->length == length && !memcmp(p->name, function, length) && serves(section_table[p->section].name, types))
			take(c, p->section);
	}
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
		if (requires(section, i))
			append(c, i, text);
	str_append_bytes(text, s->begin, (size_t)(s->end - s->begin));
	str_append(text, "\n");
}

/* What every kernel calls besides its operations. */
static void take_always(struct choice *c) {
	static const char *const always[] = { "load_D", "to_f32" };

	pthread_once(&heads.once, read_heads);
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
	if (kernel_uses_matrices(w->k))
		take_provider(&c, "matrix_multiply", strlen("matrix_multiply"), UINT_MAX);
	if (w->k->root == KERNEL_MATMUL && kernel_tile_is_wgmma(w->k->tile))
		take_provider(&c, "wgmma_place", strlen("wgmma_place"), UINT_MAX);
	else if (w->k->root == KERNEL_ATTENTION)
		take_provider(&c, "weigh", strlen("weigh"), 1U << w->k->accumulator);
	append_taken(&c, list, n, text);
}
