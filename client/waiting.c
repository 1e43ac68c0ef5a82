/* Who waits may be asked to stop. See waiting.h for the contract. */
#include "waiting.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>

#define FUSION_NO_PLACES
#include "fusion.h"
#include "link.h"

static _Atomic(fusion_asked *) asked;
static _Atomic(fusion_sleeper *) sleeper;
static _Thread_local bool in_callback;

void fusion_on_wait(fusion_asked *function) {
	atomic_store(&asked, function);
}

void fusion_on_sleep(fusion_sleeper *function) {
	atomic_store(&sleeper, function);
}

void waiting_callback(bool begins) {
	in_callback = begins;
}

bool waiting_in_callback(void) {
	return in_callback;
}

bool waiting_is_asked(void) {
	return !in_callback && atomic_load(&asked);
}

bool waiting_stops(void) {
	fusion_asked *function = in_callback ? NULL : atomic_load(&asked);

	return function && function();
}

int waiting_refuse(struct fault *f) {
	return fault_set(f, FAULT_CANCELLED, "the wait was interrupted; what was recorded is as it was");
}

int waiting_fault(int r, struct fault *f) {
	return r == -ECANCELED ? waiting_refuse(f) : r;
}

int waiting_slice(uint64_t until_us) {
	uint64_t now = until_us ? link_now_us() : 0, left;

	if (until_us && now >= until_us)
		return 0;
	left = until_us ? (until_us - now + 999) / 1000 : INT_MAX;
	if (waiting_is_asked() && left > WAITING_ASK_MS)
		return WAITING_ASK_MS;
	return until_us ? (int)left : -1;
}

int waiting_look(int fd, short events, int ms, bool *camep) {
	struct pollfd p = { .fd = fd, .events = events };
	struct waiting_given given = waiting_sleeps();
	int r = poll(&p, events ? 1 : 0, ms);

	if (r < 0)
		r = errno == EINTR ? 0 : -errno;
	waiting_wakes(given);
	*camep = r > 0;
	if (!r && waiting_stops())
		return -ECANCELED;
	return r < 0 ? r : 0;
}

int waiting_poll(int fd, short events, uint64_t until_us) {
	bool came = false;
	int r = 0;

	while (!r && !came) {
		int ms = waiting_slice(until_us);

		r = ms ? waiting_look(fd, events, ms, &came) : -ETIMEDOUT;
	}
	return r;
}

struct waiting_given waiting_sleeps(void) {
	fusion_sleeper *function = in_callback ? NULL : atomic_load(&sleeper);

	return (struct waiting_given){ function, function ? function(NULL) : NULL };
}

void waiting_wakes(struct waiting_given given) {
	if (given.token)
		given.function(given.token);
}

void waiting_wakes_with(struct waiting_given given, pthread_mutex_t *lock) {
	if (!given.token)
		return;
	pthread_mutex_unlock(lock);
	waiting_wakes(given);
	pthread_mutex_lock(lock);
}

struct timespec waiting_until(uint32_t milliseconds) {
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += milliseconds / 1000;
	t.tv_nsec += (long)(milliseconds % 1000) * 1000000;
	if (t.tv_nsec >= 1000000000) {
		t.tv_sec++;
		t.tv_nsec -= 1000000000;
	}
	return t;
}
