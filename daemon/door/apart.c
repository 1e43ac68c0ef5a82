/* Work beside the loop; see apart.h. */
#include "apart.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <utlist.h>

#include "daemon/base/loop.h"
#include "daemon/base/thread.h"

/* Not the supervisor's, which a thread may outlive. */
static struct {
	pthread_mutex_t lock;
	struct apart *ended;                 /* utlist */
	int bell;                            /* eventfd: something has ended */
	struct loop_source *source;
} all = { .lock = PTHREAD_MUTEX_INITIALIZER, .bell = -1 };

static void *apart_main(void *argument) {
	struct apart *a = argument;

	a->run(a);
	pthread_mutex_lock(&all.lock);
	LL_PREPEND(all.ended, a);
	pthread_mutex_unlock(&all.lock);
	(void)eventfd_write(all.bell, 1);
	return NULL;
}

static void on_ended(void *user, uint32_t events) {
	struct apart *a, *next;
	eventfd_t ignored;

	(void)user;
	(void)events;
	(void)eventfd_read(all.bell, &ignored);
	pthread_mutex_lock(&all.lock);
	a = all.ended;
	all.ended = NULL;
	pthread_mutex_unlock(&all.lock);
	for (; a; a = next) {
		next = a->next;
		a->done(a);
	}
}

int apart_start(struct apart *a, const char *name) {
	pthread_t thread;
	int r = thread_start(&thread, name, apart_main, a);

	if (!r)
		pthread_detach(thread);
	return r;
}

void apart_wait(void) {
	struct pollfd p = { .fd = all.bell, .events = POLLIN };

	if (poll(&p, 1, -1) > 0)
		on_ended(NULL, 0);
}

int apart_open(struct loop *loop) {
	all.bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return all.bell < 0 ? -errno : loop_add(loop, all.bell, EPOLLIN, on_ended, NULL, &all.source);
}

void apart_close(void) {
	all.source = loop_remove(all.source);
}
