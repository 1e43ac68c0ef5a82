/* Threads that sleep for something of their context. See sleepers.h for the contract. */
#include "sleepers.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "context.h"
#include "waiting.h"

enum {
	AWAKE,
	ASLEEP,
	TOLD,
};

/* ---- futexes ---- */

/* The deadline is of the monotonic clock. */
static int futex_sleep(atomic_uint *state, const struct timespec *deadline) {
	long r = 0;

	while (atomic_load(state) == ASLEEP && (!r || errno != ETIMEDOUT))
		r = syscall(SYS_futex, state, FUTEX_WAIT_BITSET_PRIVATE, ASLEEP, deadline, NULL, FUTEX_BITSET_MATCH_ANY);
	return atomic_load(state) == ASLEEP ? ETIMEDOUT : 0;
}

static void futex_wake(const atomic_uint *state) {
	syscall(SYS_futex, state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* ---- waking ---- */

void sleepers_wake(struct sleepers_woken *woken) {
	for (unsigned i = 0; i < woken->count; i++)
		futex_wake(woken->state[i]);
	woken->count = 0;
}

static void tell(struct sleeper *w, struct sleepers_woken *woken) {
	if (atomic_load(&w->state) != ASLEEP)
		return;
	atomic_store(&w->state, TOLD);
	if (woken->count == SLEEPERS_AFTERWARDS)
		sleepers_wake(woken);
	woken->state[woken->count++] = &w->state;
}

static void let_look(struct sleeper *w, struct sleepers_woken *woken) {
	w->looks = true;
	tell(w, woken);
}

/* Room that nobody is on the way to. */
static unsigned room_left(const struct stream *s) {
	unsigned left = STREAM_REQUESTS - s->busy;

	for (const struct sleeper *w = s->sleepers; w; w = w->next)
		if (w->wish.reason == SLEEPER_ROOM && w->looks)
			left -= w->wish.room < left ? w->wish.room : left;
	return left;
}

void sleepers_room(struct stream *s, struct sleepers_woken *woken) {
	unsigned left = room_left(s), needs;

	for (struct sleeper *w = s->sleepers; left && w; w = w->next) {
		if (w->wish.reason != SLEEPER_ROOM || w->looks)
			continue;
		needs = w->wish.room > 1 && !stream_frees(s) ? 1 : w->wish.room;
		/* Passed over once: who takes one at a time beside it would get all there is, for ever. */
		if (needs > left) {
			w->wish.room = 1;
			continue;
		}
		w->wish.room = needs;
		let_look(w, woken);
		left -= needs;
	}
}

void sleepers_ended(struct stream *s, const struct request *q, struct sleepers_woken *woken) {
	for (struct sleeper *w = s->sleepers; w; w = w->next)
		if (w->wish.reason == SLEEPER_ANYTHING || (w->wish.reason == SLEEPER_ANSWER && w->wish.request == q))
			let_look(w, woken);
	sleepers_room(s, woken);
}

void sleepers_all(struct stream *s, struct sleepers_woken *woken) {
	for (struct sleeper *w = s->sleepers; w; w = w->next)
		let_look(w, woken);
}

/* ---- reading for all ---- */

/* Do those who wait for answers read them? */
static bool is_read_here(const struct stream *s) {
	return s->transport && !stream_has_reader(s, s->transport);
}

/* While a thread tells the next engine what there is no other one reads. */
static bool may_read(const struct stream *s) {
	return is_read_here(s) && !s->reading && !stream_resumed_elsewhere(s);
}

/* Where nobody reads one of those who sleep is told to; but who is awake reads before it sleeps again, or hands on when it leaves. */
static void hand_on(struct stream *s) {
	struct sleepers_woken woken = { .count = 0 };

	if (!s->sleepers || !is_read_here(s) || s->reading || s->resuming)
		return;
	for (const struct sleeper *w = s->sleepers; w; w = w->next)
		if (atomic_load(&w->state) != ASLEEP)
			return;
	tell(s->sleepers, &woken);
	sleepers_wake(&woken);
}

static void await(struct transport *t, uint32_t slots) {
	if (t && t->await)
		t->await(t, slots);
}

/*
 * Of the requests whose answers somebody waits for, or is about to: that a batch was taken, and the like, is
 * read with them. Who waits for room or anything wants all.
 */
static uint32_t awaited_slots(const struct stream *s) {
	uint32_t slots = 0;

	for (const struct sleeper *w = s->sleepers; w; w = w->next)
		if (w->wish.reason != SLEEPER_ANSWER)
			return TRANSPORT_ANY_SLOT;
	for (unsigned i = 0; i < STREAM_REQUESTS; i++)
		slots |= (uint32_t)(s->request[i].answer != NULL) << i;
	return slots;
}

static int read_answers(struct fusion_context *c, struct sleeper *own, const struct timespec *deadline) {
	struct stream *s = &c->stream;
	struct transport *t = s->transport;
	int r;

	await(t, awaited_slots(s));
	s->reading = true;
	pthread_mutex_unlock(&c->lock);
	r = t->wait(t, deadline);
	pthread_mutex_lock(&c->lock);
	/* Who reads next may wait for others, or be the library's thread. */
	await(t, TRANSPORT_ANY_SLOT);
	s->reading = false;
	pthread_cond_broadcast(&s->changed);
	/* Whatever else ended it is seen by who looks. */
	own->looks |= r && r != -ETIMEDOUT;
	return r == -ETIMEDOUT ? ETIMEDOUT : 0;
}

static int doze(struct fusion_context *c, struct sleeper *own, const struct timespec *deadline) {
	int r;

	/* An answer to a request wakes who reads by itself: see transport.h, heed(). */
	if (own->wish.reason != SLEEPER_ANSWER)
		await(c->stream.transport, TRANSPORT_ANY_SLOT);
	atomic_store(&own->state, ASLEEP);
	pthread_mutex_unlock(&c->lock);
	r = futex_sleep(&own->state, deadline);
	pthread_mutex_lock(&c->lock);
	if (atomic_exchange(&own->state, AWAKE) == TOLD)
		r = 0;
	return r;
}

/* ---- sleeping ---- */

static void join(struct stream *s, struct sleeper *own) {
	struct sleeper **end = &s->sleepers;

	while (*end)
		end = &(*end)->next;
	*end = own;
}

static void part(struct stream *s, struct sleeper *own) {
	struct sleeper **at = &s->sleepers;

	while (*at != own)
		at = &(*at)->next;
	*at = own->next;
	hand_on(s);
}

int sleepers_sleep(struct fusion_context *c, const struct sleeper_wish *wish, const struct timespec *deadline) {
	struct sleeper own = { .wish = *wish };
	struct waiting_given given = waiting_sleeps();
	int r = 0;

	join(&c->stream, &own);
	while (!r && !own.looks)
		r = may_read(&c->stream) ? read_answers(c, &own, deadline) : doze(c, &own, deadline);
	part(&c->stream, &own);
	/* What that waits for may be long: another thread reads meanwhile. */
	waiting_wakes_with(given, &c->lock);
	return r;
}
