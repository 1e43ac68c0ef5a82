/* A thread that does something now and then; see periodic.h. */
#include "periodic.h"

#include <time.h>

#include "loop.h"
#include "thread.h"

/* Requires the lock. */
static void sleep_until(struct periodic *p, uint64_t us) {
	const struct timespec t = { (time_t)(us / 1000000), (long)(us % 1000000) * 1000 };

	while (!p->stop && !p->woken && loop_now() < us) {
		if (us == UINT64_MAX)
			pthread_cond_wait(&p->wake, &p->lock);
		else
			pthread_cond_timedwait(&p->wake, &p->lock, &t);
	}
}

static void *periodic_main(void *argument) {
	struct periodic *p = argument;

	pthread_mutex_lock(&p->lock);
	while (!p->stop) {
		uint64_t next;

		p->woken = false;
		pthread_mutex_unlock(&p->lock);
		next = p->turn(p->user);
		pthread_mutex_lock(&p->lock);
		sleep_until(p, next);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

int periodic_start(struct periodic *p, const char *name, periodic_turn *turn, void *user) {
	int r;

	*p = (struct periodic){ .turn = turn, .user = user };
	pthread_mutex_init(&p->lock, NULL);
	thread_condition_init(&p->wake);
	r = thread_start(&p->thread, name, periodic_main, p);
	p->started = !r;
	return r;
}

void periodic_wake(struct periodic *p) {
	pthread_mutex_lock(&p->lock);
	p->woken = true;
	pthread_cond_signal(&p->wake);
	pthread_mutex_unlock(&p->lock);
}

void periodic_end(struct periodic *p) {
	if (!p->started)
		return;
	pthread_mutex_lock(&p->lock);
	p->stop = true;
	pthread_cond_signal(&p->wake);
	pthread_mutex_unlock(&p->lock);
	pthread_join(p->thread, NULL);
	pthread_cond_destroy(&p->wake);
	pthread_mutex_destroy(&p->lock);
	p->started = false;
}
