/*
 * A fault is an error that a person reads: a code of errors.def and one full sentence that names
 * the operation, the argument and the shapes.
 *
 * Functions that can refuse user input take a `struct fault *` as their last argument and return
 * 0, or the positive code they left in it. A negative return is a fatal errno of this process
 * (out of memory, a broken descriptor); it is passed on and leaves the fault untouched.
 */
#pragma once

#include "limits.h"

#define FAULT_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define FAULT_MUST_USE __attribute__((warn_unused_result))

enum fault_code {
	FAULT_NONE = 0,
#define ERROR(id, name, doc) FAULT_##name = id,
#include "errors.def"
#undef ERROR
	FAULT_COUNT,             /* one above the highest: the table grows at its end */
};

struct fault {
	int code;                    /* enum fault_code */
	char text[LIMIT_SENTENCE];   /* one sentence, no full stop, no newline */
};

/* Leaves code and sentence in f (which may be NULL) and returns code. */
int fault_set(struct fault *f, int code, const char *format, ...) FAULT_PRINTF(3, 4);

/* Puts "prefix: " before the sentence of f. */
void fault_prefix(struct fault *f, const char *format, ...) FAULT_PRINTF(2, 3);

/* Where the sentence begins with this name, it begins with another one. */
void fault_rename(struct fault *f, const char *from, const char *to);

/* "SHAPE" for FAULT_SHAPE; "UNLISTED" for what is no code. */
const char *fault_name(int code);
