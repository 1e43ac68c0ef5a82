/* Threads beside the main one; see thread.h. */
#include "thread.h"

#include <signal.h>

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
