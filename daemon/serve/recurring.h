/*
 * Batches that come again.
 *
 * Most clients ask for the same operations on other arrays, again and again. A batch whose structure has come before is kept as a
 * form: the bytes of its operations, where in them handles, places and numbers stand, and the graph that they became. A frame that
 * has these very bytes, and whose arrays fit the graph's leaves, needs no decoding, no checks of types and no hashes: the graph is bound to its
 * arrays and goes the way of any other, through window, plan and exec. What does not fit in any respect goes by
 * submit.c, which also says what is wrong with it; so nothing here can fail, and no client need know of it.
 *
 * What fits a recorded graph is known from its number (capture.c), so its replays need the graph alone.
 *
 * Forms are a session's. They are bounded; who was used longest ago goes.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct array;
struct batch;
struct fault;
struct form;
struct graph;
struct recurring;
struct request;
struct server;
struct session;

/*
 * Reads the frame of r. True where it is a batch of a form, to be run at once: then session, id and number are set, and r->form,
 * which is bound. False: nothing has changed.
 */
bool recurring_read(struct server *v, struct request *r);
/* Runs it. As request_function. */
int recurring_submit(struct request *r, struct fault *f);
/* All operations of a frame were added, none was refused: keeps their form if they came before. */
void recurring_note(const struct batch *b, const struct request *r);
/*
 * Binds a leaf of a kept graph to an array, which the session keeps until its next graph has run; or, where it is not the first
 * for this leaf, looks whether it is the same. False: it does not fit.
 */
bool recurring_bind(struct session *s, struct graph *g, uint32_t leaf, bool first, struct array *a);
void recurring_free(struct session *s);
/* A kept graph of theirs is somebody else's now. */
void recurring_leave(struct session *s, const struct graph *g);
