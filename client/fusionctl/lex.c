/* Tokens of a text graph. See lex.h for the contract. */
#include "lex.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	/* Of a token quoted in a sentence. */
	SHOWN = 40,
	/* Of a decimal integer: 19 digits and a sign. */
	INTEGER_TEXT = 24,
};

/* Words that are values, not names. */
static const char *const values[] = { "nan", "inf", "true", "false", NULL };

bool lex_token_is(const struct lex_token *t, const char *text) {
	return strlen(text) == t->length && !memcmp(t->text, text, t->length);
}

bool lex_at(const struct lex *l, const char *text) {
	return l->token.kind != LEX_TEXT && lex_token_is(&l->token, text);
}

/* ---- sentences ---- */

int lex_refuse(
	const char *path, const struct lex_token *at, int code, struct fault *f, const char *format, ...) {
	char sentence[LIMIT_SENTENCE];
	va_list ap;

	va_start(ap, format);
	vsnprintf(sentence, sizeof sentence, format, ap);
	va_end(ap);
	return fault_set(f, code, "%s:%u:%u: %s", path, at->line, at->column, sentence);
}

void lex_locate(const char *path, const struct lex_token *at, struct fault *f) {
	if (f)
		fault_prefix(f, "%s:%u:%u", path, at->line, at->column);
}

int lex_expected(const struct lex *l, const char *what, struct fault *f) {
	const struct lex_token *t = &l->token;
	int shown = t->length < SHOWN ? (int)t->length : SHOWN;

	if (t->kind == LEX_END || t->kind == LEX_EOF)
		return lex_refuse(l->path, t, FAULT_SYNTAX, f, "expected %s, found the end of the %s", what,
			t->kind == LEX_END ? "line" : "file");
	return lex_refuse(l->path, t, FAULT_SYNTAX, f, "expected %s, found '%.*s'", what, shown, t->text);
}

/* ---- reading ---- */

static bool is_name_start(char c) {
	return isalpha((unsigned char)c) || c == '_';
}

static bool is_name_part(char c) {
	return isalnum((unsigned char)c) || c == '_';
}

static void skip_blanks(struct lex *l) {
	while (*l->next == ' ' || *l->next == '\t' || *l->next == '\r')
		l->next++;
	if (*l->next == '#')
		l->next += strcspn(l->next, "\n");
}

/* Passes line ends and empty lines; true where the statement goes on. */
static bool skip_lines(struct lex *l) {
	while (*l->next == '\n') {
		l->next++;
		l->line++;
		l->line_start = l->next;
		skip_blanks(l);
	}
	return *l->next && l->next != l->line_start;
}

static void begin_token(struct lex *l, enum lex_kind kind) {
	l->token = (struct lex_token){
		.kind = kind,
		.line = l->line,
		.column = (unsigned)(l->next - l->line_start) + 1,
		.text = l->next,
	};
}

static void end_token(struct lex *l, size_t length) {
	l->token.length = length;
	l->next += length;
}

static size_t name_length(const char *text) {
	size_t n = 0;

	while (is_name_part(text[n]))
		n++;
	return n;
}

/* A sign belongs to the number at its start and after the letter of an exponent. */
static size_t number_length(const char *text) {
	size_t n = *text == '-' || *text == '+';
	bool hexadecimal = text[n] == '0' && (text[n + 1] == 'x' || text[n + 1] == 'X');
	const char *exponent = hexadecimal ? "pP" : "eE";

	while (is_name_part(text[n]) || text[n] == '.' ||
		((text[n] == '-' || text[n] == '+') && n > 0 && isalnum((unsigned char)text[n - 1]) &&
			strchr(exponent, text[n - 1])))
		n++;
	return n;
}

static bool begins_number(const char *text) {
	if (*text == '-' || *text == '+')
		text++;
	if (*text == '.')
		text++;
	return isdigit((unsigned char)*text) || !strncmp(text, "inf", 3) || !strncmp(text, "nan", 3);
}

static int read_text(struct lex *l, struct fault *f) {
	size_t length;

	begin_token(l, LEX_TEXT);
	l->next++;
	length = strcspn(l->next, "\"\n");
	if (l->next[length] != '"')
		return lex_refuse(
			l->path, &l->token, FAULT_SYNTAX, f, "the text that begins here has no end");
	l->token.text = l->next;
	end_token(l, length);
	l->next++;
	return 0;
}

static void read_name(struct lex *l) {
	begin_token(l, LEX_NAME);
	end_token(l, name_length(l->next));
	for (const char *const *v = values; *v; v++)
		if (lex_token_is(&l->token, *v))
			l->token.kind = LEX_NUMBER;
}

int lex_next(struct lex *l, struct fault *f) {
	skip_blanks(l);
	if (*l->next == '\n') {
		begin_token(l, LEX_END);
		if (!skip_lines(l))
			return 0;
	}
	if (!*l->next) {
		begin_token(l, LEX_EOF);
		return 0;
	}
	if (*l->next == '"')
		return read_text(l, f);
	if (is_name_start(*l->next)) {
		read_name(l);
		return 0;
	}
	if (begins_number(l->next)) {
		begin_token(l, LEX_NUMBER);
		end_token(l, number_length(l->next));
		return 0;
	}
	begin_token(l, LEX_MARK);
	if (!strchr("=[],:*", *l->next))
		return lex_refuse(l->path, &l->token, FAULT_SYNTAX, f, "the byte 0x%02x begins nothing here",
			(unsigned char)*l->next);
	end_token(l, 1);
	return 0;
}

int lex_open(struct lex *l, const char *path, const char *source, struct fault *f) {
	*l = (struct lex){ .path = path, .next = source, .line_start = source, .line = 1 };
	skip_blanks(l);
	/* Lines before the first statement end nothing; the first may even be indented. */
	skip_lines(l);
	return lex_next(l, f);
}

/* ---- taking ---- */

int lex_take(struct lex *l, const char *text, struct fault *f) {
	char what[SHOWN];

	if (lex_at(l, text))
		return lex_next(l, f);
	snprintf(what, sizeof what, "'%s'", text);
	return lex_expected(l, what, f);
}

int lex_try(struct lex *l, const char *text, bool *takenp, struct fault *f) {
	*takenp = lex_at(l, text);
	return *takenp ? lex_next(l, f) : 0;
}

int lex_take_kind(
	struct lex *l, enum lex_kind kind, const char *what, struct lex_token *tokenp, struct fault *f) {
	if (l->token.kind != kind)
		return lex_expected(l, what, f);
	*tokenp = l->token;
	return lex_next(l, f);
}

static bool parse_integer(const struct lex_token *t, int64_t *valuep) {
	char copy[INTEGER_TEXT];
	char *end;

	if (t->length >= sizeof copy)
		return false;
	memcpy(copy, t->text, t->length);
	copy[t->length] = '\0';
	errno = 0;
	*valuep = strtoll(copy, &end, 10);
	return !errno && end != copy && !*end;
}

int lex_take_integer(
	struct lex *l, const char *what, int64_t min, int64_t max, int64_t *valuep, struct fault *f) {
	if (l->token.kind != LEX_NUMBER || !parse_integer(&l->token, valuep))
		return lex_expected(l, what, f);
	if (*valuep < min || *valuep > max)
		return lex_refuse(l->path, &l->token, FAULT_SYNTAX, f,
			"%s is %" PRId64 ", outside %" PRId64 " to %" PRId64, what, *valuep, min, max);
	return lex_next(l, f);
}
