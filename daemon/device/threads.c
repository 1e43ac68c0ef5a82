/*
 * A driver's threads that compute, one to a processor.
 *
 * A driver that computes on processors has a thread for each, and wakes all of them for a launch. The system puts a thread that
 * wakes where the one that woke it runs, or where it ran last: two of them on one processor share it until the scheduler has
 * spun, some milliseconds later, when a kernel of a fraction of a millisecond has long ended in twice its time. So each is
 * bound to a processor of its own. Units of a launch go to whichever thread comes for the next, so one whose processor has other
 * work leaves the more to the others.
 *
 * Drivers do not name their threads. They are those that are there after its devices were listed and were not before; where
 * these are not as many as compute units, or where the process may use other processors than so many, all stay as they are: an
 * administrator who gave the daemon fewer processors wants what is left to be shared.
 */
#include "state.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>

/* More processors than a cpu_set_t names are left to the scheduler. */
enum { THREADS_MOST = CPU_SETSIZE };

static int by_number(const void *a, const void *b) {
	pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;

	return (x > y) - (x < y);
}

static int list(struct threads *t) {
	DIR *folder = opendir("/proc/self/task");
	struct dirent *e;

	t->count = 0;
	if (!folder)
		return -errno;
	while ((e = readdir(folder)) && t->count < THREADS_MOST) {
		long id = strtol(e->d_name, NULL, 10);

		if (id > 0)
			t->id[t->count++] = (pid_t)id;
	}
	closedir(folder);
	qsort(t->id, t->count, sizeof *t->id, by_number);
	return 0;
}

struct threads *threads_now(void) {
	struct threads *t = calloc(1, sizeof *t + THREADS_MOST * sizeof *t->id);

	if (t && list(t)) {
		free(t);
		return NULL;
	}
	return t;
}

/* Leaves those that `before` has not. */
static void leave_new(struct threads *t, const struct threads *before) {
	size_t kept = 0;

	for (size_t i = 0; i < t->count; i++)
		if (!bsearch(&t->id[i], before->id, before->count, sizeof *before->id, by_number))
			t->id[kept++] = t->id[i];
	t->count = kept;
}

static int next_processor(const cpu_set_t *allowed, int processor) {
	do
		processor++;
	while (processor < CPU_SETSIZE && !CPU_ISSET(processor, allowed));
	return processor;
}

/* In the order in which both were made. A thread that has ended meanwhile is none. */
static uint32_t bind_each(const struct threads *t, const cpu_set_t *allowed) {
	int processor = -1;
	uint32_t bound = 0;

	for (size_t i = 0; i < t->count; i++) {
		cpu_set_t one;

		processor = next_processor(allowed, processor);
		CPU_ZERO(&one);
		CPU_SET(processor, &one);
		bound += !sched_setaffinity(t->id[i], sizeof one, &one);
	}
	return bound;
}

uint32_t threads_bind(const struct threads *before, uint32_t units) {
	struct threads *t;
	cpu_set_t allowed;
	uint32_t bound = 0;

	if (!before || before->count == THREADS_MOST || sched_getaffinity(0, sizeof allowed, &allowed))
		return 0;
	if (units < 2 || (uint32_t)CPU_COUNT(&allowed) != units)
		return 0;
	t = threads_now();
	if (!t)
		return 0;
	leave_new(t, before);
	if (t->count == units)
		bound = bind_each(t, &allowed);
	free(t);
	return bound;
}
