/* Threads beside the main one; see thread.h. */
#include "thread.h"

#include <linux/types.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* sched_setattr(2), for which Debian 12's C library has no header. */
struct sched_attributes {
	__u32 size, policy;
	__u64 flags;
	__s32 nice;
	__u32 priority;
	__u64 runtime, deadline, period;
};

/* The least that Linux takes. */
enum { PROMPT_SLICE_NS = 100000 };

int thread_start(pthread_t *threadp, const char *name, void *(*run)(void *), void *user) {
	sigset_t all, old;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(threadp, NULL, run, user);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!r)
		pthread_setname_np(*threadp, name);
	return -r;
}

void thread_condition_init(pthread_cond_t *condition) {
	pthread_condattr_t monotonic;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(condition, &monotonic);
	pthread_condattr_destroy(&monotonic);
}

bool thread_be_prompt(void) {
	struct sched_attributes a = { .size = sizeof a };

	if (syscall(SYS_sched_getattr, 0, &a, sizeof a, 0) || a.policy != SCHED_OTHER)
		return false;
	a.runtime = PROMPT_SLICE_NS;
	return !syscall(SYS_sched_setattr, 0, &a, 0);
}
