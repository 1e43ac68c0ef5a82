/*
 * The words of a text graph: names, numbers, texts in quotes and marks, each with its place.
 *
 * A statement ends with its line; a line that begins with a blank continues the statement before
 * it. A # begins a comment that ends with the line. Tokens point into the source, which must
 * outlive them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/fault.h"

enum lex_kind {
	LEX_NAME,   /* letters, digits and _, beginning with a letter or _ */
	LEX_NUMBER, /* begins with a digit, a sign or a point; also nan, inf, true and false */
	LEX_TEXT,   /* "..." without the quotes; there is no way to write a quote inside */
	LEX_MARK,   /* one of = [ ] , : * */
	LEX_END,    /* of a statement */
	LEX_EOF,
};

struct lex_token {
	enum lex_kind kind;
	unsigned line, column; /* both from 1; columns count bytes */
	const char *text;
	size_t length;
};

struct lex {
	const char *path; /* for sentences */
	const char *next;
	const char *line_start;
	unsigned line;
	struct lex_token token; /* the one to be read next */
};

/* source is terminated by a zero byte. Reads the first token. */
int lex_open(struct lex *l, const char *path, const char *source, struct fault *f) FAULT_MUST_USE;
/* Reads the next token. 0, or FAULT_SYNTAX for a byte that begins nothing. */
int lex_next(struct lex *l, struct fault *f) FAULT_MUST_USE;

bool lex_token_is(const struct lex_token *t, const char *text);
/* Is the next token this name or mark? Not a text in quotes. */
bool lex_at(const struct lex *l, const char *text);

/* "FILE:LINE:COLUMN: expected X, found Y" about the next token; FAULT_SYNTAX. */
int lex_expected(const struct lex *l, const char *what, struct fault *f);
/* "FILE:LINE:COLUMN: sentence"; returns code. */
int lex_refuse(const char *path, const struct lex_token *at, int code, struct fault *f, const char *format,
	...) FAULT_PRINTF(5, 6);
/* Puts the place before a sentence that another module left. */
void lex_locate(const char *path, const struct lex_token *at, struct fault *f);

/* Each takes the next token, or leaves "expected ..." . */
int lex_take(struct lex *l, const char *text, struct fault *f) FAULT_MUST_USE;
int lex_take_kind(struct lex *l, enum lex_kind kind, const char *what, struct lex_token *tokenp,
	struct fault *f) FAULT_MUST_USE;
/* A decimal integer in [min, max]. */
int lex_take_integer(struct lex *l, const char *what, int64_t min, int64_t max, int64_t *valuep,
	struct fault *f) FAULT_MUST_USE;
/* Takes the next token where it is this one. */
int lex_try(struct lex *l, const char *text, bool *takenp, struct fault *f) FAULT_MUST_USE;
