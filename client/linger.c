/* Spinning before sleeping; see linger.h. */
#include "linger.h"

#include "link.h"

enum {
	/* Between two looks at the clock. */
	LINGER_LOOKS = 16,
	/* Whatever the engine says. */
	LINGER_MOST_US = 10 * 1000,
};

static uint64_t allowed_us(const struct lingering *l) {
	uint32_t us = atomic_load_explicit(&l->place->linger_us, memory_order_relaxed);

	return us < LINGER_MOST_US ? us : LINGER_MOST_US;
}

void linger_init(struct lingering *l, const struct ring_place *place) {
	*l = (struct lingering){ .place = place };
}

void linger_begin(struct lingering *l) {
	l->began_us = allowed_us(l) ? link_now_us() : 0;
}

bool linger_look(struct lingering *l, const struct ring *replies) {
	uint64_t until = l->began_us + allowed_us(l);

	if (!l->began_us || l->in_vain)
		return false;
	do {
		for (int i = 0; i < LINGER_LOOKS; i++) {
			if (ring_waiting(replies))
				return true;
			ring_relax();
		}
	} while (link_now_us() < until);
	return false;
}

void linger_end(struct lingering *l) {
	if (l->began_us)
		l->in_vain = link_now_us() - l->began_us > allowed_us(l);
}
