/*
 * The addresses of a machine's name. Asking for them may take as long as the servers of names do, and nothing ends that: so a thread asks,
 * and who wants to know sleeps at a pipe, is asked whether to stop, and leaves the thread to itself where he does. The last of both frees it.
 */
#include "link_state.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct lookup {
	atomic_uint users;
	atomic_bool known;
	struct link_url url;
	struct addrinfo *list;
	int failed;              /* EAI_ */
	int told[2];             /* a pipe that the thread closes when it knows */
};

static int look_up(const struct link_url *u, int flags, struct addrinfo **listp) {
	const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags };

	return getaddrinfo(u->host, u->port, &hints, listp);
}

static void drop(struct lookup *l) {
	if (atomic_fetch_sub(&l->users, 1) != 1)
		return;
	if (l->list)
		freeaddrinfo(l->list);
	free(l);
}

static void *ask(void *lookup) {
	struct lookup *l = lookup;
	int told = l->told[1];

	l->failed = look_up(&l->url, 0, &l->list);
	atomic_store(&l->known, true);
	close(told);
	drop(l);
	return NULL;
}

/* Detached, and deaf to the program's signals. 0 or an errno. */
static int begin(struct lookup *l) {
	pthread_attr_t attributes;
	sigset_t all, before;
	pthread_t thread;
	int e = pthread_attr_init(&attributes);

	if (e)
		return e;
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	e = pthread_create(&thread, &attributes, ask, l);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return e;
}

static struct lookup *lookup_new(const struct link_url *u) {
	struct lookup *l = calloc(1, sizeof *l);

	if (!l || pipe2(l->told, O_CLOEXEC | O_NONBLOCK)) {
		free(l);
		return NULL;
	}
	l->url = *u;
	atomic_init(&l->users, 2);
	atomic_init(&l->known, false);
	return l;
}

/* -EAGAIN: there is no thread for it. */
static int ask_aside(const struct link_url *u, uint64_t deadline_us, link_sleeps *sleeps, struct addrinfo **listp, int *failedp) {
	struct lookup *l = lookup_new(u);
	int told, r = 0;

	if (!l)
		return -EAGAIN;
	told = l->told[0];
	if (begin(l)) {
		close(told);
		close(l->told[1]);
		free(l);
		return -EAGAIN;
	}
	while (!r && !atomic_load(&l->known))
		r = link_wait_by(sleeps, told, POLLIN, deadline_us);
	close(told);
	if (!r) {
		*failedp = l->failed;
		*listp = l->list;
		l->list = NULL;
	}
	drop(l);
	return r;
}

int link_addresses(const struct link_url *u, uint64_t deadline_us, link_sleeps *sleeps, struct addrinfo **listp, int *failedp) {
	int r;

	*listp = NULL;
	*failedp = look_up(u, AI_NUMERICHOST, listp);
	if (*failedp != EAI_NONAME)
		return 0;
	r = ask_aside(u, deadline_us, sleeps, listp, failedp);
	if (r != -EAGAIN)
		return r;
	*failedp = look_up(u, 0, listp);
	return 0;
}
