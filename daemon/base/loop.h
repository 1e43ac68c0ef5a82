/*
 * An epoll loop: descriptors with a function each, one thread.
 *
 * A source may be removed at any time, also from inside its own function or another's of the same
 * turn: it is not called again, and its memory goes at the end of the turn. The descriptor stays
 * the caller's.
 */
#pragma once

#include <stdint.h>

#include "protocol/fault.h"

struct loop;
struct loop_source;
typedef void loop_function(void *user, uint32_t events);

int loop_new(struct loop **loopp) FAULT_MUST_USE;
struct loop *loop_free(struct loop *l);          /* returns NULL; sources go with it */
/* events as for epoll_ctl(2), level-triggered. */
int loop_add(struct loop *l, int fd, uint32_t events, loop_function *function, void *user,
	struct loop_source **sourcep) FAULT_MUST_USE;
int loop_change(struct loop_source *s, uint32_t events) FAULT_MUST_USE;
/* Must come before the descriptor is closed. NULL is allowed; returns NULL. */
struct loop_source *loop_remove(struct loop_source *s);
/* One turn: waits until something happens or for timeout_us (negative: forever), and calls. 0 or -errno. */
int loop_turn(struct loop *l, int64_t timeout_us) FAULT_MUST_USE;

/* Microseconds of the monotonic clock. */
uint64_t loop_now(void);
uint64_t loop_now_ns(void);
/* Of two times, of which b is 0 where there is none. */
static inline uint64_t loop_sooner(uint64_t a, uint64_t b) {
	return b && b < a ? b : a;
}
