/*
 * Operations on their way into a session's graph: shared by SUBMIT and REPLAY.
 *
 * A batch is checked as it is added. The first operation that cannot be is kept as the batch's
 * fault; the rest is then not looked at, and every output of the batch is poisoned with it. An
 * operand that is poisoned already poisons only what depends on it.
 */
#pragma once

#include "protocol/codec.h"
#include "daemon/serve/request.h"

/* Memory for the nodes of one batch, which is in use only while one is added. */
struct batch_scratch;

struct batch {
	struct session *session;
	struct batch_scratch *scratch;
	uint64_t seq;
	uint32_t count;              /* operations added */
	bool first;                  /* nothing was in the session's graph before it */
	int64_t node;                /* the operation to blame, or -1 */
	struct fault fault;          /* why the batch is refused; code 0: it is not */
	struct poison *poison;       /* the same for its outputs, once one needs it */
	/* REPLAY: what handles 0, 1, ... stand for; else NULL, and handles are those of the session. */
	struct array *const *input;
	uint32_t inputs;
};

int batch_scratch_new(struct batch_scratch **scratchp) FAULT_MUST_USE;
struct batch_scratch *batch_scratch_free(struct batch_scratch *s);       /* returns NULL */

/* The nodes of the operations added so far. */
const uint32_t *batch_nodes(const struct batch *b);
/* As if operations that became these nodes of the session's graph, none of them poisoned, had been added. */
void batch_take_nodes(struct batch *b, const uint32_t *node, uint32_t count);

struct batch batch_begin(struct session *s, uint64_t seq);
/* The buffer of a load, which its session keeps until the graph has run. 0, a fault, or -ENOMEM. */
int batch_load(struct session *s, const struct op_attr *attr, uint64_t bytes, struct buffer **bufferp,
	struct fault *f) FAULT_MUST_USE;
/* The same for the buffer of an array. 0 or -ENOMEM. */
int batch_keep_buffer(struct session *s, struct buffer *b) FAULT_MUST_USE;
/* Adds one operation. 0, a fault, or -ENOMEM: then the caller refuses the batch. */
int batch_add(struct batch *b, const struct coded_op *o, struct fault *f) FAULT_MUST_USE;
/* From now on outputs are poisoned with the fault r left in f (or, r being -ENOMEM, with that); the first one
 * stays. */
void batch_refuse(struct batch *b, int64_t node, int r, struct fault *f);
/* Reads a handle that names the result of operation `node`. What fails refuses the batch. */
void batch_output(struct batch *b, uint64_t node, struct wire_cursor *handles);
/* The same for a handle that was read. */
void batch_name(struct batch *b, uint64_t node, uint64_t handle);
/* Reads handles and releases them. What fails refuses the batch. */
void batch_release(struct batch *b, struct wire_cursor *handles);
/* The same for one that was read. */
void batch_let_go(struct batch *b, uint64_t handle);
/* Ends it: counts, lets the window decide, and answers; or returns the fault it was refused with. */
int batch_end(struct batch *b, struct request *r, bool urgent, struct fault *f) FAULT_MUST_USE;
