/*
 * Operations that an administrator defines for all clients: files NAME.op in a folder, read by inih.
 *
 *     [swish2]
 *     operands = x, beta
 *     text = x * sigmoid(beta * x)
 *     gradient.x = g * (sigmoid(beta * x) + y * (1 - sigmoid(beta * x)) * beta)
 *
 *     [soft]
 *     operands = x, t
 *     types = real
 *     body = T m = fabs(x) - t; return m > 0 ? copysign(m, x) : 0;
 *
 *     [scaled_gate]
 *     operands = x, g
 *     pattern = x * sigmoid(g) * 0.5
 *     devices = cpu
 *
 * A pattern is an expression that is to be recognised; with a body, one that the body stands for.
 *
 * What does not read is refused by itself: each definition carries its own fault, which names file and line, and
 * the others are as they would be without it. A file that others than root and the daemon's user may write is
 * refused whole, since a body is run with the daemon's rights; so is one above 1 MiB, since the engine waits for it.
 */
#pragma once

#include <stdbool.h>

#include "protocol/definition.h"
#include "protocol/own.h"

enum {
	/* Definitions of all files: each takes a trial at every start. */
	OPERATION_FILES = 256,
	OPERATION_PATH = 512,
};

struct operation_source {
	struct operation_source *next;
	char path[OPERATION_PATH];
	unsigned line;               /* where it begins */
	char name[DEFINITION_NAME];  /* "" where a file does not read as a whole */
	char operands[DEFINITION_OPERANDS];
	char *text;                  /* an expression, or NULL */
	char *pattern;               /* what is to be recognised, or NULL */
	uint64_t devices;            /* ... and on which devices it may be one kernel: DEVICES_OF() of each */
	char *gradient[EXPR_OPERANDS];
	char *common;                /* the body of kinds that have none of their own, or NULL */
	char *body[DTYPE_KIND_REAL + 1];
	char *doc;                   /* or NULL */
	unsigned arity;
	enum op_types types;         /* of a body */
	enum op_result result;
	bool inexact, one_shape;
	struct fault fault;          /* code 0: it reads */
};

/*
 * Reads the files of a folder in the order of their names; a folder that is not there has none. One that cannot be
 * opened is a definition without a name, whose fault says why. 0 or -ENOMEM.
 */
int operation_files_read(const char *folder, struct operation_source **listp) FAULT_MUST_USE;
struct operation_source *operation_sources_free(struct operation_source *first);   /* returns NULL */
/* A hash of what it says. */
uint64_t operation_source_hash(const struct operation_source *s);
/* Does it say the same? Where it stands does not count. */
bool operation_source_equal(const struct operation_source *a, const struct operation_source *b);
