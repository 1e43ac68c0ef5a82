/*
 * Waiting at the door: one thread at a time, without the context's lock, until it is asked to stop. See door.h for the contract.
 */
#include <errno.h>
#include <sys/socket.h>

#include "door.h"
#include "waiting.h"

static void lock(struct door *d) {
	if (d->lock)
		pthread_mutex_lock(d->lock);
}

static void unlock(struct door *d) {
	if (d->lock)
		pthread_mutex_unlock(d->lock);
}

static int refuse_stopped(struct fault *f) {
	return fault_set(f, FAULT_STATE, "the context was closed");
}

uint64_t door_deadline(const struct door *d) {
	return d->timeout_ms ? link_now_us() + UINT64_C(1000) * d->timeout_ms : 0;
}

int door_refuse_late(const struct door *d, struct fault *f) {
	return fault_set(f, FAULT_CONNECT, "fusiond's door did not answer within %u ms", d->timeout_ms);
}

/* One look: did something come? The descriptor is the caller's as long as it is between door_begin() and door_end(). */
static int look(struct door *d, short events, int ms, bool *camep, struct fault *f) {
	bool came;
	int r;

	unlock(d);
	r = waiting_look(d->fd, events, ms, &came);
	lock(d);
	if (d->stopped)
		return refuse_stopped(f);
	*camep = came;
	return waiting_fault(r, f);
}

int door_sleep(struct door *d, short events, uint64_t until_us, struct fault *f) {
	int r = d->stopped ? refuse_stopped(f) : 0;
	bool came = false;

	while (!r && !came) {
		int ms = waiting_slice(until_us);

		r = ms ? look(d, events, ms, &came, f) : -ETIMEDOUT;
	}
	return r;
}

/* Another thread is at the door. */
static int await_end(struct door *d, uint64_t until_us, struct fault *f) {
	int ms = waiting_slice(until_us);
	struct timespec end = waiting_until(ms > 0 ? (uint32_t)ms : 0);
	bool stops = false;
	struct waiting_given given;
	int r = 0;

	if (!ms)
		return door_refuse_late(d, f);
	given = waiting_sleeps();
	if (ms > 0)
		r = pthread_cond_timedwait(d->left, d->lock, &end);
	else
		pthread_cond_wait(d->left, d->lock);
	waiting_wakes_with(given, d->lock);
	if (r == ETIMEDOUT) {
		unlock(d);
		stops = waiting_stops();
		lock(d);
	}
	return stops ? waiting_refuse(f) : 0;
}

int door_begin(struct door *d, struct fault *f) {
	uint64_t until = door_deadline(d);
	int r = 0;

	while (!r && d->busy && !d->stopped)
		r = await_end(d, until, f);
	if (!r && d->stopped)
		r = refuse_stopped(f);
	if (!r)
		d->busy = true;
	return r;
}

void door_end(struct door *d) {
	d->busy = false;
	if (d->left)
		pthread_cond_broadcast(d->left);
}

/* What it waits for does not come any more: the end of what can be read wakes it. */
void door_stop(struct door *d) {
	d->stopped = true;
	if (d->busy && d->fd >= 0)
		shutdown(d->fd, SHUT_RD);
	if (d->left)
		pthread_cond_broadcast(d->left);
}

void door_await(struct door *d) {
	while (d->busy)
		pthread_cond_wait(d->left, d->lock);
}
