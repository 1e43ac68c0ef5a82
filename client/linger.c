/* Looking about before sleeping; see linger.h. */
#include "linger.h"

#include <time.h>

enum {
	/* Between two looks at the clock. */
	LINGER_LOOKS = 16,
	/* Whatever the engine says. */
	LINGER_MOST_US = 10 * 1000,
};

static uint64_t now_ns(void) {
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static uint64_t allowed_ns(const struct lingering *l) {
	uint32_t us = atomic_load_explicit(&l->place->linger_us, memory_order_relaxed);

	return UINT64_C(1000) * (us < LINGER_MOST_US ? us : LINGER_MOST_US);
}

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#endif
}

void linger_init(struct lingering *l, const struct ring_place *place) {
	*l = (struct lingering){ .place = place };
}

void linger_begin(struct lingering *l) {
	l->began_ns = allowed_ns(l) ? now_ns() : 0;
}

bool linger_look(struct lingering *l, const struct ring *replies) {
	uint64_t until = l->began_ns + allowed_ns(l);

	if (!l->began_ns || l->in_vain)
		return false;
	do {
		for (int i = 0; i < LINGER_LOOKS; i++) {
			if (ring_waiting(replies))
				return true;
			relax();
		}
	} while (now_ns() < until);
	return false;
}

void linger_end(struct lingering *l) {
	if (l->began_ns)
		l->in_vain = now_ns() - l->began_ns > allowed_ns(l);
}
