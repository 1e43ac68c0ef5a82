/* Work beside the engine's thread; see aside.h. */
#include "aside.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include <utlist.h>

#include "daemon/base/thread.h"
#include "daemon/serve/inbox.h"

struct aside {
	struct inbox *inbox;
	struct aside_job *waiting;           /* utlist, the oldest first */
	struct aside_job *current;           /* that the thread has */
	uid_t last;                          /* whose that is, or was */
	bool threaded;
	pthread_t thread;
	/* Between both threads. */
	pthread_mutex_t lock;
	pthread_cond_t wanted;
	struct aside_job *given;
	bool finished, ends;
};

/* ---- the thread ---- */

static struct aside_job *next_given(struct aside *a) {
	struct aside_job *j;

	pthread_mutex_lock(&a->lock);
	while (!a->given && !a->ends)
		pthread_cond_wait(&a->wanted, &a->lock);
	j = a->given;
	a->given = NULL;
	pthread_mutex_unlock(&a->lock);
	return j;
}

static void *run(void *user) {
	struct aside *a = user;
	struct aside_job *j;

	while ((j = next_given(a))) {
		j->work(j);
		pthread_mutex_lock(&a->lock);
		a->finished = true;
		pthread_mutex_unlock(&a->lock);
		inbox_ring(a->inbox);
	}
	return NULL;
}

static bool take_finished(struct aside *a) {
	bool finished;

	pthread_mutex_lock(&a->lock);
	finished = a->finished;
	a->finished = false;
	pthread_mutex_unlock(&a->lock);
	return finished;
}

/* ---- the engine's side ---- */

int aside_new(struct inbox *inbox, struct aside **asidep) {
	struct aside *a = calloc(1, sizeof *a);

	if (!a)
		return -ENOMEM;
	a->inbox = inbox;
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->wanted, NULL);
	*asidep = a;
	return 0;
}

/* Users in a circle, by their numbers: the next one behind the last that has a job. */
static struct aside_job *choose(const struct aside *a) {
	struct aside_job *j, *best = NULL;

	/* How far behind the last one, counted round; the last one himself comes after all others. */
	DL_FOREACH2(a->waiting, j, next)
		if (!best || (uid_t)(j->uid - a->last - 1) < (uid_t)(best->uid - a->last - 1))
			best = j;
	return best;
}

/* The first job begins the thread: most engines never have one. */
static bool has_thread(struct aside *a) {
	if (!a->threaded)
		a->threaded = !thread_start(&a->thread, "planner", run, a);
	return a->threaded;
}

static void give(struct aside *a, struct aside_job *j) {
	pthread_mutex_lock(&a->lock);
	a->given = j;
	pthread_cond_signal(&a->wanted);
	pthread_mutex_unlock(&a->lock);
}

static void begin_next(struct aside *a) {
	struct aside_job *j = choose(a);

	if (!j)
		return;
	DL_DELETE2(a->waiting, j, previous, next);
	a->current = j;
	a->last = j->uid;
	if (j->begin)
		j->begin(j);
	if (has_thread(a)) {
		give(a, j);
		return;
	}
	j->work(j);
	a->finished = true;
	inbox_ring(a->inbox);
}

void aside_ask(struct aside *a, struct aside_job *j) {
	DL_APPEND2(a->waiting, j, previous, next);
	if (!a->current)
		begin_next(a);
}

bool aside_withdraw(struct aside *a, struct aside_job *j) {
	if (a->current == j)
		return false;
	DL_DELETE2(a->waiting, j, previous, next);
	return true;
}

void aside_turn(struct aside *a) {
	struct aside_job *j = a->current;

	if (!j || !take_finished(a))
		return;
	a->current = NULL;
	j->done(j);
	if (!a->current)
		begin_next(a);
}

bool aside_busy(const struct aside *a) {
	return a->current || a->waiting;
}

static void end_thread(struct aside *a) {
	if (!a->threaded)
		return;
	pthread_mutex_lock(&a->lock);
	a->ends = true;
	pthread_cond_signal(&a->wanted);
	pthread_mutex_unlock(&a->lock);
	pthread_join(a->thread, NULL);
	a->threaded = false;
}

/* What the thread has it does before it ends; what waits is not done. */
struct aside *aside_free(struct aside *a) {
	struct aside_job *j;

	if (!a)
		return NULL;
	end_thread(a);
	j = a->current;
	a->current = NULL;
	if (j)
		j->done(j);
	while ((j = a->waiting)) {
		DL_DELETE2(a->waiting, j, previous, next);
		j->done(j);
	}
	pthread_cond_destroy(&a->wanted);
	pthread_mutex_destroy(&a->lock);
	free(a);
	return NULL;
}
