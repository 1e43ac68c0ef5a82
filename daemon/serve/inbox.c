/*
 * A stack that many push to and one takes whole; see inbox.h.
 *
 * Sleeping: the engine sets `asleep` and then looks once more; a pusher pushes and then clears
 * `asleep`, writing the bell if it was set. All of it is sequentially consistent, so one of the
 * two sees the other.
 */
#include "inbox.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

int inbox_open(struct inbox *b) {
	*b = (struct inbox){ .bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
	return b->bell < 0 ? -errno : 0;
}

void inbox_close(struct inbox *b) {
	if (b->bell >= 0)
		close(b->bell);
	b->bell = -1;
}

static void write_bell(struct inbox *b) {
	const uint64_t one = 1;
	ssize_t ignored;

	if (!atomic_exchange(&b->asleep, false))
		return;
	ignored = write(b->bell, &one, sizeof one);      /* can only fail where it is readable anyway */
	(void)ignored;
}

void inbox_push(void *user, struct transport_request *r) {
	struct inbox *b = user;

	r->next = atomic_load_explicit(&b->pushed, memory_order_relaxed);
	while (!atomic_compare_exchange_weak(&b->pushed, &r->next, r))
		;
	write_bell(b);
}

void inbox_ring(void *user) {
	struct inbox *b = user;

	atomic_store(&b->rung, true);
	write_bell(b);
}

/* Turns what was pushed into the order of arrival. */
static void take_all(struct inbox *b) {
	struct transport_request *r = atomic_exchange(&b->pushed, NULL);

	while (r) {
		struct transport_request *next = r->next;

		r->next = b->taken;
		b->taken = r;
		r = next;
	}
}

struct transport_request *inbox_take(struct inbox *b) {
	struct transport_request *r;

	if (!b->taken)
		take_all(b);
	r = b->taken;
	if (r)
		b->taken = r->next;
	return r;
}

bool inbox_waiting(struct inbox *b) {
	return b->taken || atomic_load_explicit(&b->pushed, memory_order_relaxed)
		|| atomic_load_explicit(&b->rung, memory_order_relaxed);
}

bool inbox_rung(struct inbox *b) {
	return atomic_exchange(&b->rung, false);
}

bool inbox_sleep(struct inbox *b) {
	atomic_store(&b->asleep, true);
	return !b->taken && !atomic_load(&b->pushed) && !atomic_load(&b->rung);
}

void inbox_wake(struct inbox *b, bool bell_readable) {
	uint64_t count;
	ssize_t ignored;

	atomic_store(&b->asleep, false);
	if (!bell_readable)
		return;
	ignored = read(b->bell, &count, sizeof count);
	(void)ignored;
}
