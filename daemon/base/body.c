/*
 * What an administrator's OpenCL C may say; see body.h.
 *
 * A reader of words and signs. What stood before decides what a sign means and what may follow: a name after a type is
 * declared, parentheses after a value would call it, a * after anything but a value would be of a pointer.
 */
#include "body.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

enum {
	/* Operands and variables that can be seen at one place. */
	BODY_NAMES = 64,
	/* Parentheses in one another. */
	BODY_DEPTH = 64,
};

/* What stood before. */
enum before {
	BEFORE_STATEMENT,            /* nothing, or what ends a statement */
	BEFORE_VALUE,
	BEFORE_OPERATOR,             /* a value must follow */
	BEFORE_OPEN,                 /* ( */
	BEFORE_CONST,                /* a type must follow */
	BEFORE_TYPE,                 /* a new name, or ) */
	BEFORE_FUNCTION,             /* ( must follow */
	BEFORE_CONDITION,            /* if and switch: ( must follow */
	BEFORE_LABEL,                /* default and break: : or ; must follow */
};

/* What parentheses are for. */
enum round {
	ROUND_GROUP,
	ROUND_CALL,
	ROUND_CAST,
	ROUND_CONDITION,
};

struct body_name {
	const char *text;
	size_t length;
	int curly;                   /* it goes with the braces it stands in */
};

struct body_reader {
	const char *at;
	struct fault *fault;
	enum before before;
	bool declares;               /* a declaration, until its ; */
	bool returns;
	bool named;                  /* the word just taken is an operand or a variable */
	int curly;
	unsigned round;
	enum round open[BODY_DEPTH];
	unsigned names;
	struct body_name name[BODY_NAMES];
};

/* ---- what there is ---- */

static const struct builtin builtins[] = {
#define BUILTIN(name, operands, types, result) { #name, operands, BUILTIN_##types, result },
#include "builtins.def"
#undef BUILTIN
};

static const char *const types[] = { "T", "bool", "char", "uchar", "short", "ushort", "int", "uint", "long", "ulong",
	"float", "double", NULL };

static const char *const constants[] = { "true", "false", "INFINITY", "NAN", NULL };

/* Of C and OpenCL C, beside those that stand here otherwise and those that begin with _: they name nothing. */
static const char *const reserved[] = { "asm", "auto", "complex", "constant", "continue", "do", "enum", "extern", "for",
	"generic", "global", "goto", "half", "imaginary", "inline", "kernel", "local", "pipe", "private", "quad", "read_only",
	"read_write", "register", "restrict", "signed", "sizeof", "static", "struct", "typedef", "typeof", "uniform", "union",
	"unsigned", "void", "volatile", "while", "write_only", "vec_step", "size_t", "ptrdiff_t", "intptr_t", "uintptr_t",
	"event_t", "clk_event_t", "sampler_t", "queue_t", "ndrange_t", "reserve_id_t", "cl_mem_fence_flags", "image1d_t",
	"image1d_array_t", "image1d_buffer_t", "image2d_t", "image2d_array_t", "image2d_depth_t", "image2d_array_depth_t",
	"image2d_msaa_t", "image2d_array_msaa_t", "image2d_msaa_depth_t", "image2d_array_msaa_depth_t", "image3d_t", NULL };

static const struct {
	const char *word;
	enum before before;
} keywords[] = {
	{ "if", BEFORE_CONDITION }, { "switch", BEFORE_CONDITION }, { "else", BEFORE_STATEMENT },
	{ "case", BEFORE_OPERATOR }, { "return", BEFORE_OPERATOR }, { "default", BEFORE_LABEL },
	{ "break", BEFORE_LABEL }, { "const", BEFORE_CONST },
};

/* Nowhere in a body: signs that have no use in it, and other spellings of such. */
static const struct {
	const char *text, *why;
} refused[] = {
	{ "//", "comments stand on lines of their own, after # or ;" },
	{ "/*", "comments stand on lines of their own, after # or ;" },
	{ "->", "a body has no pointers" },
	{ "[", "a body has no arrays" },
	{ "]", "a body has no arrays" },
	{ "<:", "a body has no arrays" },
	{ ":>", "a body has no arrays" },
	{ "<%", "braces are written { and }" },
	{ "%>", "braces are written { and }" },
	{ "%:", "a body has no lines for the preprocessor" },
	{ "#", "a body has no lines for the preprocessor" },
	{ "\?\?", "it might stand for another sign" },
	{ "\\", "this sign is not allowed" },
};

static bool same_word(const char *text, size_t length, const char *word) {
	return strlen(word) == length && !memcmp(text, word, length);
}

static bool in_list(const char *const *list, const char *text, size_t length) {
	while (*list && !same_word(text, length, *list))
		list++;
	return *list != NULL;
}

/* float4, half16, float4x4: those of the language, and those that it keeps for itself. */
static bool is_vector(const char *text, size_t length) {
	size_t tail = length;

	while (tail && (isdigit((unsigned char)text[tail - 1]) || text[tail - 1] == 'x'))
		tail--;
	return tail < length && isdigit((unsigned char)text[tail]) &&
		(in_list(types, text, tail) || in_list(reserved, text, tail));
}

static const struct builtin *find_builtin(const char *text, size_t length) {
	for (size_t i = 0; i < sizeof builtins / sizeof *builtins; i++)
		if (same_word(text, length, builtins[i].name))
			return &builtins[i];
	return NULL;
}

static int find_keyword(const char *text, size_t length) {
	for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
		if (same_word(text, length, keywords[i].word))
			return (int)i;
	return -1;
}

static size_t word_length(const char *text) {
	size_t length = 0;

	while (isalnum((unsigned char)text[length]) || text[length] == '_')
		length++;
	return length;
}

const struct builtin *body_next_builtin(const char **textp) {
	const struct builtin *b = NULL;

	while (!b && **textp) {
		size_t length = word_length(*textp);

		b = find_builtin(*textp, length);
		*textp += length ? length : 1;
	}
	return b;
}

/* ---- names ---- */

static int refuse(const struct body_reader *b, size_t length, const char *why) {
	return fault_set(b->fault, FAULT_SYNTAX, "the body says '%.*s': %s", (int)length, b->at, why);
}

static bool knows(const struct body_reader *b, const char *text, size_t length) {
	for (unsigned i = 0; i < b->names; i++)
		if (b->name[i].length == length && !memcmp(b->name[i].text, text, length))
			return true;
	return false;
}

/* Capitals are those of the macros of programs; _ begins what is the compiler's. */
static int add_name(struct body_reader *b, size_t length) {
	for (size_t i = 0; i < length; i++)
		if (isupper((unsigned char)b->at[i]) || b->at[0] == '_')
			return refuse(b, length, "names of operands and variables are of small letters, digits and _");
	if (in_list(types, b->at, length) || in_list(constants, b->at, length) || find_builtin(b->at, length) ||
		find_keyword(b->at, length) >= 0 || in_list(reserved, b->at, length) || is_vector(b->at, length))
		return refuse(b, length, "this word has a meaning already");
	if (b->names == BODY_NAMES)
		return fault_set(b->fault, FAULT_LIMIT, "the body has more than %d operands and variables", BODY_NAMES);
	b->name[b->names++] = (struct body_name){ b->at, length, b->curly };
	b->at += length;
	b->before = BEFORE_VALUE;
	b->named = true;
	return 0;
}

static int add_operands(struct body_reader *b, const char *operands) {
	int r = 0;

	for (b->at = operands; !r && *b->at; b->at += strspn(b->at, ", "))
		r = add_name(b, strcspn(b->at, ", "));
	return r;
}

/* ---- words ---- */

static int take_type(struct body_reader *b, size_t length) {
	bool cast = b->before == BEFORE_OPEN && b->open[b->round - 1] == ROUND_GROUP;

	if (!cast && (b->round || (b->before != BEFORE_STATEMENT && b->before != BEFORE_CONST)))
		return refuse(b, length, "a type begins a declaration, or stands in parentheses");
	if (cast)
		b->open[b->round - 1] = ROUND_CAST;
	else
		b->declares = true;
	b->before = BEFORE_TYPE;
	b->at += length;
	return 0;
}

static int take_keyword(struct body_reader *b, size_t length, int keyword) {
	if (b->before != BEFORE_STATEMENT)
		return refuse(b, length, "it does not begin a statement");
	b->returns = b->returns || same_word(b->at, length, "return");
	b->before = keywords[keyword].before;
	b->at += length;
	return 0;
}

/* Something that has, or gives, a value. */
static int take_value(struct body_reader *b, size_t length, enum before before) {
	if (b->before != BEFORE_STATEMENT && b->before != BEFORE_OPERATOR && b->before != BEFORE_OPEN)
		return refuse(b, length, "something else must stand here");
	b->before = before;
	b->at += length;
	return 0;
}

static int take_word(struct body_reader *b) {
	size_t length = word_length(b->at);
	int keyword = find_keyword(b->at, length);

	if (b->before == BEFORE_TYPE && !(b->round && b->open[b->round - 1] == ROUND_CAST))
		return add_name(b, length);
	if (keyword >= 0)
		return take_keyword(b, length, keyword);
	if (in_list(types, b->at, length))
		return take_type(b, length);
	if (find_builtin(b->at, length))
		return take_value(b, length, BEFORE_FUNCTION);
	b->named = knows(b, b->at, length);
	if (b->named || in_list(constants, b->at, length))
		return take_value(b, length, BEFORE_VALUE);
	return refuse(b, length, "it is no operand, no variable, and no word or function that fusiond.conf(5) lists");
}

/* 12, 0x1fu, 1.5e-3f: nothing else may hang on to it. */
static int take_number(struct body_reader *b) {
	bool hex = b->at[0] == '0' && (b->at[1] == 'x' || b->at[1] == 'X');
	const char *digits = hex ? "0123456789abcdefABCDEF" : "0123456789", *p = b->at + (hex ? 2 : 0);

	p += strspn(p, digits);
	p += *p == '.';
	p += strspn(p, digits);
	if (*p && strchr(hex ? "pP" : "eE", *p)) {
		p += 1 + (p[1] == '+' || p[1] == '-');
		p += strspn(p, "0123456789");
	}
	p += strspn(p, "fFuUlL");
	if (word_length(p) || *p == '.')
		return refuse(b, (size_t)(p - b->at) + 1, "it is no number");
	return take_value(b, (size_t)(p - b->at), BEFORE_VALUE);
}

/* ---- signs ---- */

/* What a sign asks of what stands before it. */
enum sign {
	SIGN_JOINS,                  /* a value */
	SIGN_LEADS,                  /* no value: it is before one */
	SIGN_EITHER,
	SIGN_STEPS,                  /* ++ and --, on either side */
};

/* The longer before its beginning. */
static const struct {
	const char *text;
	enum sign sign;
} signs[] = {
	{ "<<=", SIGN_JOINS }, { ">>=", SIGN_JOINS }, { "<<", SIGN_JOINS }, { ">>", SIGN_JOINS }, { "<=", SIGN_JOINS },
	{ ">=", SIGN_JOINS }, { "==", SIGN_JOINS }, { "!=", SIGN_JOINS }, { "&&", SIGN_JOINS }, { "||", SIGN_JOINS },
	{ "+=", SIGN_JOINS }, { "-=", SIGN_JOINS }, { "*=", SIGN_JOINS }, { "/=", SIGN_JOINS }, { "%=", SIGN_JOINS },
	{ "&=", SIGN_JOINS }, { "|=", SIGN_JOINS }, { "^=", SIGN_JOINS }, { "++", SIGN_STEPS }, { "--", SIGN_STEPS },
	{ "+", SIGN_EITHER }, { "-", SIGN_EITHER }, { "*", SIGN_JOINS }, { "/", SIGN_JOINS }, { "%", SIGN_JOINS },
	{ "&", SIGN_JOINS }, { "|", SIGN_JOINS }, { "^", SIGN_JOINS }, { "!", SIGN_LEADS }, { "~", SIGN_LEADS },
	{ "<", SIGN_JOINS }, { ">", SIGN_JOINS }, { "=", SIGN_JOINS }, { "?", SIGN_JOINS },
};

static bool wants_value(const struct body_reader *b) {
	return b->before == BEFORE_STATEMENT || b->before == BEFORE_OPERATOR || b->before == BEFORE_OPEN;
}

static int take_operator(struct body_reader *b) {
	size_t i = 0, length;
	bool value = b->before == BEFORE_VALUE;

	while (i < sizeof signs / sizeof *signs && strncmp(b->at, signs[i].text, strlen(signs[i].text)) != 0)
		i++;
	if (i == sizeof signs / sizeof *signs)
		return refuse(b, 1, "this sign is not allowed");
	length = strlen(signs[i].text);
	if (signs[i].sign == SIGN_JOINS && !value)
		return refuse(b, length, strchr("*&", b->at[0])
			? "before it stands no value: it would be of a pointer, and a body has none" : "before it stands no value");
	if (signs[i].sign == SIGN_LEADS ? !wants_value(b) : !value && !wants_value(b))
		return refuse(b, length, "something else must stand here");
	if (signs[i].sign != SIGN_STEPS || !value)
		b->before = BEFORE_OPERATOR;
	b->at += length;
	return 0;
}

static int open_round(struct body_reader *b) {
	enum round kind = b->before == BEFORE_FUNCTION ? ROUND_CALL : b->before == BEFORE_CONDITION ? ROUND_CONDITION
		: ROUND_GROUP;

	if (kind == ROUND_GROUP && !wants_value(b))
		return refuse(b, 1, "a body calls the functions alone that fusiond.conf(5) lists");
	if (b->round == BODY_DEPTH)
		return fault_set(b->fault, FAULT_LIMIT, "the body opens more than %d parentheses in one another", BODY_DEPTH);
	b->open[b->round++] = kind;
	b->before = BEFORE_OPEN;
	return 0;
}

static int close_round(struct body_reader *b) {
	static const enum before after[] = { [ROUND_GROUP] = BEFORE_VALUE, [ROUND_CALL] = BEFORE_VALUE,
		[ROUND_CAST] = BEFORE_OPERATOR, [ROUND_CONDITION] = BEFORE_STATEMENT };
	enum round kind;

	if (!b->round)
		return refuse(b, 1, "nothing is open that this closes");
	kind = b->open[--b->round];
	if (b->before != (kind == ROUND_CAST ? BEFORE_TYPE : BEFORE_VALUE))
		return refuse(b, 1, "before it stands no value");
	b->before = after[kind];
	return 0;
}

static int take_brace(struct body_reader *b) {
	if (b->round || b->before != BEFORE_STATEMENT)
		return refuse(b, 1, "no statement begins or ends here");
	b->curly += *b->at == '{' ? 1 : -1;
	if (b->curly < 0)
		return refuse(b, 1, "nothing is open that this closes");
	while (b->names && b->name[b->names - 1].curly > b->curly)
		b->names--;
	return 0;
}

static int take_comma(struct body_reader *b) {
	if (b->before != BEFORE_VALUE)
		return refuse(b, 1, "before it stands no value");
	b->before = b->declares && !b->round ? BEFORE_TYPE : BEFORE_OPERATOR;
	return 0;
}

/* Of ?:, of a label: what follows is a value, and may be a statement after a label. */
static int take_colon(struct body_reader *b) {
	if (b->before != BEFORE_VALUE && b->before != BEFORE_LABEL)
		return refuse(b, 1, "before it stands no value");
	b->before = b->declares || b->round ? BEFORE_OPERATOR : BEFORE_STATEMENT;
	return 0;
}

static int take_end(struct body_reader *b) {
	if (b->round || (b->before != BEFORE_VALUE && b->before != BEFORE_LABEL && b->before != BEFORE_STATEMENT))
		return refuse(b, 1, "no statement ends here");
	b->declares = false;
	b->before = BEFORE_STATEMENT;
	return 0;
}

static int take_sign(struct body_reader *b) {
	static const struct {
		char sign;
		int (*take)(struct body_reader *b);
	} takers[] = { { '(', open_round }, { ')', close_round }, { '{', take_brace }, { '}', take_brace },
		{ ',', take_comma }, { ':', take_colon }, { ';', take_end } };

	for (size_t i = 0; i < sizeof takers / sizeof *takers; i++)
		if (*b->at == takers[i].sign) {
			int r = takers[i].take(b);

			b->at++;
			return r;
		}
	return take_operator(b);
}

/* ---- all of it ---- */

static int check_signs(const char *text, struct fault *f) {
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
		if (strstr(text, refused[i].text))
			return fault_set(f, FAULT_SYNTAX, "the body says '%s': %s", refused[i].text, refused[i].why);
	for (; *text; text++)
		if ((unsigned char)*text >= 0x7f || (*text < ' ' && *text != '\t' && *text != '\n'))
			return fault_set(f, FAULT_SYNTAX, "the body is not of printable ASCII");
	return 0;
}

static int take(struct body_reader *b) {
	if (isalpha((unsigned char)*b->at) || *b->at == '_')
		return take_word(b);
	if (isdigit((unsigned char)*b->at) || (*b->at == '.' && isdigit((unsigned char)b->at[1])))
		return take_number(b);
	return take_sign(b);
}

/* Whatever the reader passes over is written as it stands, and names behind their prefix. */
static int take_all(struct body_reader *b, struct str *out) {
	int r = 0;

	while (!r && *b->at) {
		const char *from = b->at;

		b->named = false;
		b->at += strspn(b->at, " \t\n");
		if (b->at == from)
			r = take(b);
		if (out && !r && b->named)
			str_append(out, BODY_PREFIX);
		if (out && !r)
			str_append_bytes(out, from, (size_t)(b->at - from));
	}
	return r;
}

static int read_body(const char *text, const char *operands, struct str *out, struct fault *f) {
	struct body_reader b = { .fault = f };
	int r;

	if (strlen(text) > BODY_BYTES)
		return fault_set(f, FAULT_LIMIT, "the body has %zu bytes, more than %d", strlen(text), BODY_BYTES);
	r = check_signs(text, f);
	if (!r)
		r = add_operands(&b, operands);
	b.before = BEFORE_STATEMENT;
	b.at = text;
	if (!r)
		r = take_all(&b, out);
	if (!r && (b.round || b.curly || b.before != BEFORE_STATEMENT))
		return fault_set(f, FAULT_SYNTAX, "the body ends in the middle of a statement");
	if (!r && !b.returns)
		return fault_set(f, FAULT_SYNTAX, "the body returns nothing");
	return r;
}

int body_check(const char *text, const char *operands, struct fault *f) {
	return read_body(text, operands, NULL, f);
}

int body_write(const char *text, const char *operands, struct str *out, struct fault *f) {
	return read_body(text, operands, out, f);
}
