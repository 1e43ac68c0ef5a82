/* The engine's side of test_serve_rings.c: an echo, as in test_serve_transport.c. */
#include "engine.h"

#include <check.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "protocol/limits.h"
#include "protocol/ring.h"
#include "protocol/shm.h"
#include "daemon/serve/inbox.h"
#include "daemon/serve/rings.h"

struct ends ends[ENDS];
atomic_uint failures;
atomic_ullong failed_session;

static struct rings *rings;
static struct transport *transport;
static struct inbox inbox;
static struct channel *channel[ENDS];
static pthread_t thread;
static atomic_bool stopping, withhold;

static struct {
	pthread_mutex_t lock;
	pthread_cond_t moved;
	bool shut, reached;
} gate = { .lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER };

static void on_failure(void *user, uint64_t session) {
	(void)user;
	atomic_store(&failed_session, session);
	atomic_fetch_add(&failures, 1);
}

static void answer(struct transport_request *r) {
	transport_reply(r, r->bytes, r->size);
}

static void pass_gate(void) {
	pthread_mutex_lock(&gate.lock);
	gate.reached = gate.shut;
	pthread_cond_broadcast(&gate.moved);
	while (gate.shut)
		pthread_cond_wait(&gate.moved, &gate.lock);
	gate.reached = false;
	pthread_mutex_unlock(&gate.lock);
}

static void *engine_thread(void *unused) {
	struct pollfd p[] = { { .fd = inbox.bell, .events = POLLIN }, { .fd = rings_descriptor(rings), .events = POLLIN } };
	struct transport_request *kept[ENDS * LIMIT_UNANSWERED], *r;
	unsigned count = 0;

	(void)unused;
	while (!atomic_load(&stopping)) {
		rings_poll(rings);
		while ((r = inbox_take(&inbox)))
			kept[count++] = r;
		while (count && !atomic_load(&withhold))
			answer(kept[--count]);
		inbox_rung(&inbox);
		p[1].revents = 0;
		if (inbox_sleep(&inbox) && rings_sleep(rings)) {
			poll(p, 2, 1000);
			pass_gate();
		} else {
			poll(&p[1], 1, 0);
		}
		inbox_wake(&inbox, true);
		if (p[1].revents)
			rings_wake(rings);
	}
	return NULL;
}

static void make_ends(struct ends *e, unsigned i) {
	int doors[2];

	ck_assert_int_eq(shm_create("ring", RING_BYTES, &e->memory), 0);
	ck_assert_int_ge(e->bell = eventfd(0, EFD_NONBLOCK), 0);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, doors), 0);
	e->session = 100 + i;
	e->door = doors[0];
	e->far = doors[1];
	ck_assert_int_eq(rings_add(rings, e->session, dup(e->memory), dup(e->bell), &channel[i]), 0);
}

void engine_start(void) {
	ck_assert_int_eq(inbox_open(&inbox), 0);
	ck_assert_int_eq(rings_new(&rings, &transport), 0);
	rings_on_failure(rings, on_failure, NULL);
	ck_assert_int_eq(transport_start(transport, inbox_push, &inbox), 0);
	for (unsigned i = 0; i < ENDS; i++)
		make_ends(&ends[i], i);
	ck_assert_int_eq(pthread_create(&thread, NULL, engine_thread, NULL), 0);
}

void engine_withholds(bool on) {
	atomic_store(&withhold, on);
	inbox_ring(&inbox);
}

void engine_gate_shut(void) {
	pthread_mutex_lock(&gate.lock);
	gate.shut = true;
	while (!gate.reached) {
		inbox_ring(&inbox);
		pthread_cond_wait(&gate.moved, &gate.lock);
	}
	pthread_mutex_unlock(&gate.lock);
}

void engine_gate_open(void) {
	pthread_mutex_lock(&gate.lock);
	gate.shut = false;
	pthread_cond_broadcast(&gate.moved);
	pthread_mutex_unlock(&gate.lock);
}

/* One session ends before its transport, the other with it. */
void engine_stop(void) {
	atomic_store(&stopping, true);
	inbox_ring(&inbox);
	pthread_join(thread, NULL);
	rings_remove(channel[0]);
	transport = transport_close(transport);
	inbox_close(&inbox);
	for (unsigned i = 0; i < ENDS; i++) {
		close(ends[i].memory);
		close(ends[i].bell);
		close(ends[i].door);
		if (ends[i].far >= 0)
			close(ends[i].far);
	}
}
