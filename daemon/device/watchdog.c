/*
 * How long a driver may take for something, less the time in which the threads of its process waited for a processor: a compiler that is slow
 * because the machine is busy must not be taken for one that hangs. Found by a thread of its own, which tells who
 * must know and ends the process: a thread cannot be taken out of a driver.
 */
#include "state.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/thread.h"

enum {
	/* Looked at so often; it may take a job so much longer. */
	WATCHDOG_MS = 250,
};

static uint64_t now_ns(void) {
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static uint64_t waited_by(const char *task) {
	char path[320];
	unsigned long long waited = 0;
	FILE *f;

	snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", task);
	f = fopen(path, "re");
	if (f && fscanf(f, "%*u %llu", &waited) != 1)
		waited = 0;
	if (f)
		fclose(f);
	return waited;
}

/* Nanoseconds that the threads of this process waited for processors; 0 where the kernel does not count them. */
static uint64_t waited_ns(void) {
	DIR *d = opendir("/proc/self/task");
	const struct dirent *e;
	uint64_t sum = 0;

	while (d && (e = readdir(d)))
		if (e->d_name[0] != '.')
			sum += waited_by(e->d_name);
	if (d)
		closedir(d);
	return sum;
}

/*
 * The lock is held. A thread that has ended takes its part of the sum with it. What they had waited before is looked up here, not
 * at the beginning: most of what is watched ends before anybody looks.
 */
static bool is_late(struct watchdog *w) {
	uint64_t waited = waited_ns(), elapsed = now_ns() - w->begin_ns, lost;

	if (!w->counted)
		w->waited_ns = waited;
	w->counted = true;
	lost = waited > w->waited_ns ? waited - w->waited_ns : 0;
	return elapsed > lost && elapsed - lost > w->limit_ns;
}

static void *watch(void *argument) {
	struct watchdog *w = argument;
	struct timespec next;

	pthread_mutex_lock(&w->lock);
	for (;;) {
		while (!w->busy && !w->stop)
			pthread_cond_wait(&w->changed, &w->lock);
		if (w->stop)
			break;
		clock_gettime(CLOCK_REALTIME, &next);
		next.tv_nsec += WATCHDOG_MS * 1000000L;
		next.tv_sec += next.tv_nsec / 1000000000;
		next.tv_nsec %= 1000000000;
		pthread_cond_timedwait(&w->changed, &w->lock, &next);
		/* Nobody else says anything while it is held. */
		if (w->busy && is_late(w)) {
			w->late(w->user);
			_exit(EXIT_FAILURE);
		}
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

int watchdog_start(struct watchdog *w) {
	int r;

	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->changed, NULL);
	r = thread_start(&w->thread, "watchdog", watch, w);
	w->started = !r;
	return r;
}

void watchdog_stop(struct watchdog *w) {
	if (!w->started)
		return;
	pthread_mutex_lock(&w->lock);
	w->stop = true;
	pthread_cond_signal(&w->changed);
	pthread_mutex_unlock(&w->lock);
	pthread_join(w->thread, NULL);
	w->started = false;
}

void watchdog_begin(struct watchdog *w, uint64_t limit_us) {
	pthread_mutex_lock(&w->lock);
	w->busy = true;
	w->begin_ns = now_ns();
	w->counted = false;
	w->limit_ns = limit_us * 1000;
	pthread_cond_signal(&w->changed);
	pthread_mutex_unlock(&w->lock);
}

void watchdog_end(struct watchdog *w) {
	pthread_mutex_lock(&w->lock);
	w->busy = false;
	pthread_mutex_unlock(&w->lock);
}
