/*
 * A thread that waits for events, for drivers whose callbacks come late.
 *
 * One driver runs event callbacks up to milliseconds after the command has completed. Its waiting
 * function returns within microseconds, so a thread of the engine waits for one event after another,
 * in the order in which they were handed over (that of the queue), and tells of each. It sleeps while there
 * is none. What is told runs on this thread.
 */
#include "state.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/base/thread.h"

struct watched {
	struct watched *next;
	cl_event event;
	watch_done *done;
	void *user;
};

struct watcher {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct watched *first, **last;
	bool stop;
};

static struct watched *take(struct watcher *w) {
	struct watched *e;

	pthread_mutex_lock(&w->lock);
	while (!w->first && !w->stop)
		pthread_cond_wait(&w->more, &w->lock);
	e = w->first;
	if (e) {
		w->first = e->next;
		if (!w->first)
			w->last = &w->first;
	}
	pthread_mutex_unlock(&w->lock);
	return e;
}

static void *watcher_main(void *argument) {
	struct watcher *w = argument;
	struct watched *e;

	while ((e = take(w))) {
		cl_int error = clWaitForEvents(1, &e->event);

		clReleaseEvent(e->event);
		e->done(NULL, error ? error : CL_COMPLETE, e->user);
		free(e);
	}
	return NULL;
}

/* The thread takes no signals: those are the main thread's. */
int watcher_new(struct watcher **watcherp) {
	struct watcher *w = calloc(1, sizeof *w);
	int r;

	if (!w)
		return -ENOMEM;
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->more, NULL);
	w->last = &w->first;
	r = thread_start(&w->thread, "watcher", watcher_main, w);
	if (r)
		free(w);
	else
		*watcherp = w;
	return r;
}

struct watcher *watcher_free(struct watcher *w) {
	if (!w)
		return NULL;
	pthread_mutex_lock(&w->lock);
	w->stop = true;
	pthread_cond_signal(&w->more);
	pthread_mutex_unlock(&w->lock);
	pthread_join(w->thread, NULL);
	pthread_cond_destroy(&w->more);
	pthread_mutex_destroy(&w->lock);
	free(w);
	return NULL;
}

int watcher_add(struct watcher *w, cl_event event, watch_done *done, void *user) {
	struct watched *e = malloc(sizeof *e);

	if (!e)
		return -ENOMEM;
	*e = (struct watched){ .event = event, .done = done, .user = user };
	if (clRetainEvent(event)) {
		free(e);
		return -EIO;
	}
	pthread_mutex_lock(&w->lock);
	*w->last = e;
	w->last = &e->next;
	pthread_cond_signal(&w->more);
	pthread_mutex_unlock(&w->lock);
	return 0;
}
