/* Who waits may be asked to stop. See waiting.h for the contract. */
#include "waiting.h"

#include <stdatomic.h>

#define FUSION_NO_PLACES
#include "fusion.h"

static _Atomic(fusion_asked *) asked;
static _Thread_local bool in_callback;

void fusion_on_wait(fusion_asked *function) {
	atomic_store(&asked, function);
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
