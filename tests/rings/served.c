/* See served.h. One thread has the rings, as the engine's does; it hands requests to workers, and their answers back to the rings. */
#include "served.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <utlist.h>

#include "protocol/ring.h"
#include "protocol/shm.h"
#include "protocol/wire.h"
#include "daemon/serve/inbox.h"
#include "daemon/serve/rings.h"

enum {
	WORKERS = 9,             /* more than a client has requests under way */
	LOOK_MS = 1000,
};

struct job {
	struct transport_request *request;
	struct wire_writer answer;
	struct job *next;
};

static struct rings *rings;
static struct transport *transport;
static struct inbox inbox;
static served_answer *answer_of;
static pthread_t thread, worker[WORKERS];
static atomic_bool stopping;
static atomic_uint requests;
/* Of the queues, and of the rings' list of sessions: the door's thread adds to it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, rings_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static struct job *asked, *answered;

static void on_request(void *user, struct transport_request *r) {
	struct job *job = calloc(1, sizeof *job);

	(void)user;
	if (!job)
		abort();
	job->request = r;
	atomic_fetch_add(&requests, 1);
	pthread_mutex_lock(&lock);
	LL_APPEND(asked, job);
	pthread_cond_signal(&more);
	pthread_mutex_unlock(&lock);
}

static struct job *next_job(void) {
	struct job *job;

	pthread_mutex_lock(&lock);
	while (!asked && !atomic_load(&stopping))
		pthread_cond_wait(&more, &lock);
	job = asked;
	if (job)
		LL_DELETE(asked, job);
	pthread_mutex_unlock(&lock);
	return job;
}

static void *work(void *unused) {
	struct job *job;

	(void)unused;
	while ((job = next_job())) {
		wire_writer_init(&job->answer);
		answer_of(job->request->bytes, job->request->size, &job->answer);
		pthread_mutex_lock(&lock);
		LL_APPEND(answered, job);
		pthread_mutex_unlock(&lock);
		inbox_ring(&inbox);
	}
	return NULL;
}

static void reply_all(void) {
	struct job *job, *next, *all;

	pthread_mutex_lock(&lock);
	all = answered;
	answered = NULL;
	pthread_mutex_unlock(&lock);
	LL_FOREACH_SAFE(all, job, next) {
		transport_reply(job->request, job->answer.buffer.data, job->answer.buffer.size);
		wire_writer_free(&job->answer);
		free(job);
	}
}

static void *own_rings(void *unused) {
	struct pollfd p[] = { { .fd = inbox.bell, .events = POLLIN }, { .fd = rings_descriptor(rings), .events = POLLIN } };
	bool sleeps;

	(void)unused;
	while (!atomic_load(&stopping)) {
		pthread_mutex_lock(&rings_lock);
		inbox_rung(&inbox);
		rings_poll(rings);
		reply_all();
		sleeps = inbox_sleep(&inbox) && rings_sleep(rings);
		pthread_mutex_unlock(&rings_lock);
		p[1].revents = 0;
		poll(p, 2, sleeps ? LOOK_MS : 0);
		inbox_wake(&inbox, true);
		pthread_mutex_lock(&rings_lock);
		if (p[1].revents)
			rings_wake(rings);
		pthread_mutex_unlock(&rings_lock);
	}
	return NULL;
}

void served_start(served_answer *answer) {
	answer_of = answer;
	atomic_store(&stopping, false);
	atomic_store(&requests, 0);
	if (inbox_open(&inbox) || rings_new(&rings, &transport) || transport_start(transport, on_request, NULL))
		abort();
	pthread_create(&thread, NULL, own_rings, NULL);
	for (int i = 0; i < WORKERS; i++)
		pthread_create(&worker[i], NULL, work, NULL);
}

int served_add(int fd[2]) {
	struct channel *channel;
	int bell, memory, r = shm_create("fake-ring", RING_BYTES, &memory);

	if (r)
		return r;
	bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (bell < 0) {
		close(memory);
		return -errno;
	}
	fd[0] = dup(memory);
	fd[1] = dup(bell);
	pthread_mutex_lock(&rings_lock);
	r = rings_add(rings, 7, memory, bell, &channel);
	pthread_mutex_unlock(&rings_lock);
	inbox_ring(&inbox);
	return r;
}

unsigned served_requests(void) {
	return atomic_load(&requests);
}

void served_stop(void) {
	struct job *job, *next;

	atomic_store(&stopping, true);
	pthread_mutex_lock(&lock);
	pthread_cond_broadcast(&more);
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(worker[i], NULL);
	inbox_ring(&inbox);
	pthread_join(thread, NULL);
	reply_all();
	LL_FOREACH_SAFE(asked, job, next)
		free(job);
	asked = NULL;
	transport = transport_close(transport);
	inbox_close(&inbox);
}
