/*
 * What an administrator's OpenCL C may say.
 *
 * A body computes one element from one element of each operand. Every word of it must be known: an operand, T for
 * their type, a scalar type, a variable of its own that stands above, one of a few keywords and constants, or a function of
 * builtins.def with its parenthesis. Operators are those that compute; & and * stand between values alone. So it has no
 * pointers and no types, macros and functions of the program around it, sees no memory, no place and no other element, and
 * ends: there are no loops and nothing calls itself. All this is so before a compiler sees the text; whether it compiles
 * is found out by compiling it.
 *
 * A compiler gets operands and variables by names of ours, since what counts is how it reads them: under their own, one
 * that is a word of its language, or a macro or type of its headers, would make a declaration of what was read as a
 * product. Reserved words are refused as names, too, since readers would take them for what they are in C.
 */
#pragma once

#include <stddef.h>

#include "protocol/fault.h"
#include "str.h"

enum { BODY_BYTES = 4096 };

/* Begins the name of an operand or variable where a compiler reads it; nothing else in a program begins so. */
#define BODY_PREFIX "v_"

enum builtin_types {
	BUILTIN_ANY,
	BUILTIN_REAL,
	BUILTIN_INTEGER,
	BUILTIN_NUMBER,
};

/* A row of builtins.def. */
struct builtin {
	const char *name, *operands;
	enum builtin_types types;
	char result;
};

/* 0, or FAULT_SYNTAX with what may not stand there. Operands: "x, t". */
int body_check(const char *text, const char *operands, struct fault *f) FAULT_MUST_USE;
/* As body_check(); appends what a compiler is to read. After a fault that is a part of it. */
int body_write(const char *text, const char *operands, struct str *out, struct fault *f) FAULT_MUST_USE;
/* The next function that a body calls; moves *textp behind its name. NULL: there is none. */
const struct builtin *body_next_builtin(const char **textp);
