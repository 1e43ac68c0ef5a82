/*
 * Operations whose bodies an administrator wrote: rows of op_info() that are made while the process runs.
 *
 * They are elementwise, so everything that knows elementwise operations knows them. Their numbers follow from what
 * they are: a daemon that starts again, and a client that comes back to it, mean the same operation by
 * the same number. A row stays as it is until it is dropped; reading needs no lock.
 */
#pragma once

#include "op.h"

enum { OWN_OPERANDS = 3 };

/* What an operation is. */
struct own_facts {
	const char *name, *operands;         /* "soft", "x, t" */
	unsigned arity;                      /* 1 to OWN_OPERANDS */
	enum op_types types;
	enum op_result result;               /* SAME or BOOL */
	bool inexact, one_shape;
	const char *gradient[OWN_OPERANDS];
	const char *body[DTYPE_KIND_REAL + 1];   /* NULL: the daemon's secret, or none for this kind */
};

/* The row with this number, or NULL. */
const struct op_info *own_info(unsigned op);

/* The daemon: makes the row, or finds it. 0, -ENOMEM, or FAULT_LIMIT where there are OP_OWN_COUNT. */
int own_add(const struct own_facts *facts, unsigned *opp, struct fault *f) FAULT_MUST_USE;
/*
 * A client: makes the row of a daemon's operation. FAULT_STATE where another operation, of another daemon, has
 * this number in this process.
 */
int own_take(unsigned op, uint64_t identity, const struct own_facts *facts, struct fault *f) FAULT_MUST_USE;
/* The daemon: there is no such row any more, until the same is added again. */
void own_drop(unsigned op);
