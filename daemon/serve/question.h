/*
 * A question of plans, whose answer takes long to work out where they are large: that is done beside the engine's thread (aside.h), in steps. Between two of them
 * the engine's thread looks up what others change. Small ones take the same steps, all of them on the engine's thread.
 *
 * A user has one large one at a time, since each takes much memory; his next ones are held. It ends with the session that asked.
 */
#pragma once

#include "daemon/serve/aside.h"
#include "daemon/serve/request.h"

/* Part of what answers, from question_answer() on. */
struct question {
	struct aside_job job;
	struct server *server;
	struct account *account;             /* whose turn it is */
	struct waiter *waiter;               /* has the frame; NULL: it is answered on the engine's thread, or nobody waits any more */
	const struct graph *graph;           /* that is planned for it, or NULL */
	uint32_t note;                       /* of that, while it is: flight.h */
	/* The next step: 0, a fault or -errno each. Only the second one, on the engine's thread, may look at the session; it asks for one more step, or has answered. */
	int (*work)(struct question *q, struct fault *f);
	int (*then)(struct question *q, struct request *r, struct fault *f);
	bool goes_on;
	void (*end)(struct question *q);     /* frees it, on the engine's thread */
	int result;                          /* of the step */
	struct fault fault;
};

/* Does it take long, with so many operations to be planned or told of? */
bool question_is_long(uint64_t operations);
/* Is another long one of the user being answered? Then this one's request is to come again: -EINPROGRESS. */
bool question_waits(const struct session *s);
void question_next(struct question *q, int (*work)(struct question *q, struct fault *f), int (*then)(struct question *q, struct request *r, struct fault *f));
/* Takes its steps, as question_next() has said. 0, a fault or -errno. Takes over q; and the frame, where it is long. */
int question_answer(struct question *q, struct request *r, bool is_long, struct fault *f) FAULT_MUST_USE;
/* Its waiter goes. */
void question_forget(struct question *q);
