/* Waiting on the engine's processor; see beside.h. */
#include "beside.h"

#include "link.h"

enum {
	/* What small requests stay well below where nothing else is on the processor; of longer ones two wakes are a small part. */
	BESIDE_ROUND_US = 500,
	/* So much waiting is looked at together; some hundred rounds, or a few slices of the scheduler. */
	BESIDE_LOOK_US = 20 * 1000,
	/* The share of it in long rounds from which the system chooses again, and for how long. */
	BESIDE_LATE = 8,
	BESIDE_APART_US = 500 * 1000,
	/* Wakes of the engine before a wait: a request, and releases that were due before it. */
	BESIDE_ASKS = 2,
};

static bool is_apart(struct beside *b) {
	uint64_t until = atomic_load_explicit(&b->apart_us, memory_order_relaxed);

	if (!until)
		return false;
	if (link_now_us() < until)
		return true;
	atomic_store_explicit(&b->apart_us, 0, memory_order_relaxed);
	return false;
}

void beside_init(struct beside *b, struct ring_place *place) {
	b->place = place;
	b->waited_us = b->late_us = 0;
	atomic_init(&b->asked, 0);
	atomic_init(&b->asked_us, 0);
	atomic_init(&b->apart_us, 0);
}

void beside_asks(struct beside *b) {
	bool many = atomic_fetch_add_explicit(&b->asked, 1, memory_order_relaxed) >= BESIDE_ASKS;
	uint32_t here = many || is_apart(b) ? 0 : binding_here();
	bool counts = here && atomic_load_explicit(&b->place->follows, memory_order_relaxed);

	atomic_store_explicit(&b->place->client, here, memory_order_relaxed);
	atomic_store_explicit(&b->asked_us, counts ? link_now_us() : 0, memory_order_relaxed);
}

/* Where the engine was awake, nobody knows when this round began; that of the last wake is another one's time. */
void beside_waits(struct beside *b) {
	if (!atomic_exchange_explicit(&b->asked, 0, memory_order_relaxed))
		atomic_store_explicit(&b->asked_us, 0, memory_order_relaxed);
}

/* It may have moved since it asked; the engine comes after it. */
void beside_sleeps(struct beside *b, struct binding *binding) {
	uint32_t here = binding_here();

	if (!atomic_load_explicit(&b->place->client, memory_order_relaxed) ||
		!atomic_load_explicit(&b->place->follows, memory_order_relaxed))
		return;
	if (binding_set(binding, here))
		atomic_store_explicit(&b->place->client, here, memory_order_relaxed);
}

void beside_counts(struct beside *b, uint64_t round_us, uint64_t now) {
	b->waited_us += round_us;
	if (round_us > BESIDE_ROUND_US)
		b->late_us += round_us;
	if (b->waited_us < BESIDE_LOOK_US)
		return;
	if (b->late_us > b->waited_us / BESIDE_LATE) {
		atomic_store_explicit(&b->apart_us, now + BESIDE_APART_US, memory_order_relaxed);
		atomic_store_explicit(&b->place->client, 0, memory_order_relaxed);
	}
	b->waited_us = b->late_us = 0;
}

void beside_woke(struct beside *b, struct binding *binding) {
	uint64_t asked, now;

	if (!binding->at)
		return;
	binding_end(binding);
	asked = atomic_load_explicit(&b->asked_us, memory_order_relaxed);
	now = link_now_us();
	if (asked)
		beside_counts(b, now - asked, now);
}
