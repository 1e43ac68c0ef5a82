/*
 * Operations whose bodies an administrator wrote: rows of op_info() that are made while the process runs.
 *
 * They are elementwise, so everything that knows elementwise operations knows them. A number is one of this process, found
 * by the identity, a hash of what the operation is: two processes agree on identities, and a client keeps for each
 * of its contexts what number the daemon there has for a row of its own. A row stays as it is while the
 * process runs, since plans, programs and recorded graphs name it by its number; reading needs no lock. So there
 * may be OP_OWN_COUNT different ones in the life of a process, and no more.
 *
 * A row says nothing of whether its body was ever run: in the daemon, clients may call it once own_state() says so, which
 * codec_get_op() and op_infer() ask, and nothing else needs to.
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

enum own_state {
	OWN_WAITS,                   /* nobody may call it */
	OWN_TRIED,                   /* only its trial may: op_infer() lets it pass, codec_get_op() does not */
	OWN_CALLABLE,
};

/* The row with this number, or NULL where none was made. */
const struct op_info *own_info(unsigned op);
enum own_state own_state(unsigned op);
void own_set_state(unsigned op, enum own_state state);

/* The daemon: makes the row, that waits, or finds it as it is. 0, -ENOMEM, or FAULT_LIMIT where there are OP_OWN_COUNT. */
int own_add(const struct own_facts *facts, unsigned *opp, struct fault *f) FAULT_MUST_USE;
/* A client: makes or finds the row of an operation that a daemon says has this identity. As own_add(); it is callable. */
int own_take(uint64_t identity, const struct own_facts *facts, unsigned *opp, struct fault *f) FAULT_MUST_USE;
