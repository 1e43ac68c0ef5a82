/* What an administrator's OpenCL C may say; see body.h. */
#include "body.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

/* Words, and beginnings of words (with a * at the end), that are refused; and why. */
static const struct {
	const char *word, *why;
} refused[] = {
	{ "for", "loops may never end" },
	{ "while", "loops may never end" },
	{ "do", "loops may never end" },
	{ "goto", "loops may never end" },
	{ "asm", "assembler is not allowed" },
	{ "global", "a body sees no memory" },
	{ "local", "a body sees no memory" },
	{ "constant", "a body sees no memory" },
	{ "private", "a body sees no memory" },
	{ "generic", "a body sees no memory" },
	{ "static", "a body keeps nothing" },
	{ "extern", "a body sees no memory" },
	{ "volatile", "a body sees no memory" },
	{ "kernel", "a body is one function" },
	{ "inline", "a body is one function" },
	{ "typedef", "a body names no types" },
	{ "struct", "a body names no types" },
	{ "union", "a body names no types" },
	{ "enum", "a body names no types" },
	{ "typeof", "a body names no types" },
	{ "void", "a body returns a value" },
	{ "printf", "a body writes nothing" },
	{ "barrier", "a body sees no other element" },
	{ "mem_fence", "a body sees no other element" },
	{ "read_mem_fence", "a body sees no other element" },
	{ "write_mem_fence", "a body sees no other element" },
	{ "prefetch", "a body sees no memory" },
	{ "get_*", "a body sees no place" },
	{ "atom*", "a body sees no memory" },
	{ "async_*", "a body sees no memory" },
	{ "wait_group_*", "a body sees no other element" },
	{ "work_group_*", "a body sees no other element" },
	{ "sub_group_*", "a body sees no other element" },
	{ "vload*", "a body sees no memory" },
	{ "vstore*", "a body sees no memory" },
	{ "read_image*", "a body sees no memory" },
	{ "write_image*", "a body sees no memory" },
	{ "image*", "a body sees no memory" },
	{ "sampler*", "a body sees no memory" },
	{ "event_*", "a body sees no memory" },
	{ "_*", "words that begin with _ are the compiler's" },
};

/* Types after which a * makes a pointer. */
static const char *const types[] = { "T", "bool", "char", "uchar", "short", "ushort", "int", "uint", "long", "ulong",
	"float", "double", "half", "size_t", "ptrdiff_t", "intptr_t", "uintptr_t", "signed", "unsigned", "const" };

struct body_reader {
	const char *at;
	struct fault *fault;
	bool value;                  /* what stands before here may be multiplied */
	int round, curly;            /* parentheses and braces that are open */
};

static int refuse(const struct body_reader *b, int length, const char *why) {
	return fault_set(b->fault, FAULT_SYNTAX, "the body says '%.*s': %s", length, b->at, why);
}

static bool same_word(const char *text, size_t length, const char *word) {
	return strlen(word) == length && !memcmp(text, word, length);
}

/* "float", "float16", "f32v": what a declaration of a pointer could begin with. */
static bool is_type(const char *word, size_t length) {
	while (length && isdigit((unsigned char)word[length - 1]))
		length--;
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (same_word(word, length, types[i]))
			return true;
	return false;
}

/* Types of kernels/: f32e, u8v, m64v. */
static bool is_register(const char *word, size_t length) {
	size_t digits = length > 2 ? strspn(word + 1, "0123456789") : 0;

	return digits && digits + 2 == length && strchr("fium", *word) && strchr("ev", word[length - 1]);
}

static int take_word(struct body_reader *b) {
	size_t length = 0;

	while (isalnum((unsigned char)b->at[length]) || b->at[length] == '_')
		length++;
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
		size_t stem = strlen(refused[i].word) - 1;

		if (refused[i].word[stem] == '*' ? length >= stem && !memcmp(b->at, refused[i].word, stem)
						 : same_word(b->at, length, refused[i].word))
			return refuse(b, (int)length, refused[i].why);
	}
	if (is_register(b->at, length))
		return refuse(b, (int)length, "a body names no types but those of OpenCL C, and T");
	b->value = !same_word(b->at, length, "return") && !same_word(b->at, length, "case") && !is_type(b->at, length);
	b->at += length;
	return 0;
}

/* Digits, and what belongs to a number: 0x1p-3f, 1e+5. */
static void take_number(struct body_reader *b) {
	const char *start = b->at;

	while (isalnum((unsigned char)*b->at) || *b->at == '.' ||
		(strchr("+-", *b->at) && *b->at && b->at > start && strchr("eEpP", b->at[-1])))
		b->at++;
	b->value = true;
}

/* A * multiplies what stands before it: else it would be of a pointer. */
static int take_star(struct body_reader *b) {
	const char *next = b->at + 1 + strspn(b->at + 1, " \t\n=");

	if (!b->value || strchr("),;*]", *next))
		return refuse(b, 1, "a * that multiplies nothing is of a pointer, and a body has none");
	return 0;
}

/* A & joins what stands before it: else it would be an address. */
static int take_and(struct body_reader *b) {
	if (!b->value)
		return refuse(b, 1, "a & that joins nothing is of an address, and a body has none");
	b->at += b->at[1] == '&';
	return 0;
}

static int take_bracket(struct body_reader *b) {
	b->round += (*b->at == '(') - (*b->at == ')');
	b->curly += (*b->at == '{') - (*b->at == '}');
	if (b->round < 0 || b->curly < 0 || (*b->at == '}' && b->round))
		return refuse(b, 1, "nothing is open that this closes");
	return 0;
}

static int take_sign(struct body_reader *b) {
	int r = 0;

	if (strchr("#\\\"'[]@$`", *b->at))
		return refuse(b, 1, "this sign is not allowed");
	if (b->at[0] == '/' && (b->at[1] == '/' || b->at[1] == '*'))
		return refuse(b, 2, "comments stand on lines of their own, after # or ;");
	if (b->at[0] == '-' && b->at[1] == '>')
		return refuse(b, 2, "a body has no pointers");
	if (strchr("(){}", *b->at))
		r = take_bracket(b);
	else if (*b->at == '*')
		r = take_star(b);
	else if (*b->at == '&')
		r = take_and(b);
	b->value = *b->at == ')';
	b->at++;
	return r;
}

int body_check(const char *text, struct fault *f) {
	struct body_reader b = { .at = text, .fault = f };
	int r = 0;

	if (strlen(text) > BODY_BYTES)
		return fault_set(f, FAULT_LIMIT, "the body has %zu bytes, more than %d", strlen(text), BODY_BYTES);
	while (!r && *b.at) {
		if (isspace((unsigned char)*b.at))
			b.at++;
		else if (isalpha((unsigned char)*b.at) || *b.at == '_')
			r = take_word(&b);
		else if (isdigit((unsigned char)*b.at))
			take_number(&b);
		else if (isascii((unsigned char)*b.at))
			r = take_sign(&b);
		else
			r = refuse(&b, 1, "only ASCII is allowed");
	}
	if (!r && (b.round || b.curly))
		return fault_set(f, FAULT_SYNTAX, "the body opens more ( or { than it closes");
	if (!r && !strstr(text, "return"))
		return fault_set(f, FAULT_SYNTAX, "the body returns nothing");
	return r;
}
