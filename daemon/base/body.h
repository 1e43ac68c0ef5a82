/*
 * What an administrator's OpenCL C may say.
 *
 * A body computes one element from one element of each operand. It may use its operands by name, T for their type,
 * variables of its own, constants, operators, if, switch, ?: and the built-in functions of OpenCL C on scalars; it ends
 * with a return. It sees no memory, no place and no other element: what could reach any of these, or never
 * end, is refused by the word, before a compiler sees it. body_check() reads words and signs alone; whether the text
 * compiles is found out by compiling it.
 */
#pragma once

#include "protocol/fault.h"

enum { BODY_BYTES = 4096 };

/* 0, or FAULT_SYNTAX with what may not stand there. */
int body_check(const char *text, struct fault *f) FAULT_MUST_USE;
