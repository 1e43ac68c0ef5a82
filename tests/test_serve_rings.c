/*
 * daemon/serve/rings with the client's own transport, and with clients that lie; an echo in the engine's
 * place.
 */
#include <check.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/transport.h"
#include "protocol/limits.h"
#include "protocol/ring.h"
#include "protocol/shm.h"
#include "tests/rings/engine.h"
#include "tests/patience.h"
#include "tests/suite.h"

enum {
	SLOTS = LIMIT_UNANSWERED - 1,
	MESSAGES = 20000,
	SCRIBBLES = 3000,
};

/* ---- a client ---- */

static struct transport_end {
	int memory, bell, door;
	struct transport *transport;
	uint8_t *expected[SLOTS];
	size_t size[SLOTS];
	atomic_uint answered;
	pthread_t owner;                 /* who opened it */
	atomic_uint on_owner;            /* answers that it was told */
	atomic_bool broken, wrong;
} end[ENDS];

static void on_reply(void *user, unsigned slot, int result, const void *bytes, size_t size) {
	struct transport_end *e = user;

	if (result || size != e->size[slot] || memcmp(bytes, e->expected[slot], size) != 0)
		atomic_store(&e->wrong, !result);
	free(e->expected[slot]);
	e->expected[slot] = NULL;
	if (pthread_equal(pthread_self(), e->owner))
		atomic_fetch_add(&e->on_owner, 1);
	atomic_fetch_add(&e->answered, 1);
}

static void on_broken(void *user) {
	struct transport_end *e = user;

	atomic_store(&e->broken, true);
}

static void open_end(struct transport_end *e, struct ends *x) {
	struct transport_events events = { on_reply, on_broken, e };
	struct transport_ends given = { .memory = x->memory, .bell = x->bell, .door = x->door };
	struct fault f;

	*e = (struct transport_end){ .memory = x->memory, .bell = x->bell, .door = x->door, .owner = pthread_self() };
	ck_assert_int_eq(transport_ring_open(&given, SLOTS, 10000, &events, &e->transport, &f), 0);
}

static void send_bytes(struct transport_end *e, unsigned slot, size_t size) {
	e->expected[slot] = malloc(size);
	e->size[slot] = size;
	for (size_t i = 0; i < size; i++)
		e->expected[slot][i] = (uint8_t)((i * 131 + size) >> 2);
	ck_assert_int_eq(e->transport->submit(e->transport, slot, e->expected[slot], size), 0);
	ck_assert_int_eq(e->transport->push(e->transport), 0);
}

static void await_answers(struct transport_end *e, unsigned count) {
	while (atomic_load(&e->answered) < count)
		ck_assert_int_eq(e->transport->wait(e->transport, NULL), 0);
	ck_assert(!atomic_load(&e->wrong));
}

static void setup(void) {
	engine_start();
	for (unsigned i = 0; i < ENDS; i++)
		open_end(&end[i], &ends[i]);
}

static void teardown(void) {
	for (unsigned i = 0; i < ENDS; i++)
		end[i].transport->free(end[i].transport);
	engine_stop();
}

START_TEST(requests_are_answered_by_slot) {
	for (unsigned i = 0; i < SLOTS; i++)
		send_bytes(&end[0], i, 10 + i);
	await_answers(&end[0], SLOTS);
}
END_TEST

START_TEST(many_messages_of_all_lengths_come_back) {
	unsigned sent = 0;

	for (int i = 0; i < MESSAGES / SLOTS; i++) {
		for (unsigned k = 0; k < SLOTS; k++, sent++)
			send_bytes(&end[0], k, 1 + sent * 7919 % 2000);
		await_answers(&end[0], sent);
	}
}
END_TEST

/* Both rings are shorter. */
START_TEST(a_frame_of_the_limit_goes_and_comes_in_pieces) {
	send_bytes(&end[0], 0, LIMIT_FRAME_BYTES);
	send_bytes(&end[0], 1, 100);
	await_answers(&end[0], 2);
	send_bytes(&end[0], 2, LIMIT_FRAME_BYTES - 1);
	await_answers(&end[0], 3);
}
END_TEST

START_TEST(a_frame_beyond_the_limit_is_not_sent) {
	static uint8_t bytes[LIMIT_FRAME_BYTES + 1];

	ck_assert_int_eq(end[0].transport->submit(end[0].transport, 0, bytes, sizeof bytes), -EMSGSIZE);
	send_bytes(&end[0], 0, 10);
	await_answers(&end[0], 1);
}
END_TEST

START_TEST(a_client_that_reads_nothing_finds_all_its_answers_later) {
	for (unsigned i = 0; i < SLOTS; i++)
		send_bytes(&end[0], i, 100000);
	for (unsigned i = 0; i < 100; i++) {
		send_bytes(&end[1], 0, 100);
		await_answers(&end[1], i + 1);
	}
	await_answers(&end[0], SLOTS);
}
END_TEST

START_TEST(a_client_that_leaves_too_much_unread_is_given_up) {
	for (unsigned i = 0; i < SLOTS; i++) {
		send_bytes(&end[0], i, 300000);
		send_bytes(&end[1], i, 100000);
	}
	AWAIT(atomic_load(&failures));
	ck_assert_uint_eq(atomic_load(&failures), 1);
	ck_assert_uint_eq(atomic_load(&failed_session), ends[0].session);
	await_answers(&end[1], SLOTS);
	ck_assert_uint_eq(atomic_load(&failures), 1);
}
END_TEST

START_TEST(a_deadline_ends_a_wait_for_nothing) {
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	ck_assert_int_eq(end[0].transport->wait(end[0].transport, &t), -ETIMEDOUT);
}
END_TEST

START_TEST(a_thread_that_watches_reads_too) {
	unsigned sent = 0;

	ck_assert_int_eq(end[0].transport->watch(end[0].transport), 0);
	for (int i = 0; i < 300; i++) {
		for (unsigned k = 0; k < SLOTS; k++, sent++)
			send_bytes(&end[0], k, 1 + sent % 3000);
		AWAIT(atomic_load(&end[0].answered) >= sent);
		ck_assert_uint_eq(atomic_load(&end[0].answered), sent);
	}
	ck_assert(!atomic_load(&end[0].wrong));
}
END_TEST

START_TEST(what_is_under_way_when_a_client_closes_is_cancelled) {
	engine_withholds(true);
	send_bytes(&end[0], 0, 10);
	send_bytes(&end[0], 3, 10);
	end[0].transport->free(end[0].transport);
	ck_assert_uint_eq(atomic_load(&end[0].answered), 2);
	engine_withholds(false);
	send_bytes(&end[1], 0, 10);
	await_answers(&end[1], 1);
	open_end(&end[0], &ends[0]); /* for the teardown */
}
END_TEST

START_TEST(where_a_thread_watches_it_tells_of_the_cancelled_too) {
	engine_withholds(true);
	ck_assert_int_eq(end[0].transport->watch(end[0].transport), 0);
	send_bytes(&end[0], 0, 10);
	send_bytes(&end[0], 3, 10);
	if (_i) { /* the connection breaks first */
		close(ends[0].far);
		ends[0].far = -1;
		AWAIT(atomic_load(&end[0].answered) >= 2);
		ck_assert(atomic_load(&end[0].broken));
	} else {
		end[0].transport->free(end[0].transport);
	}
	ck_assert_uint_eq(atomic_load(&end[0].answered), 2);
	ck_assert_uint_eq(atomic_load(&end[0].on_owner), 0);
	engine_withholds(false);
	if (!_i)
		open_end(&end[0], &ends[0]); /* for the teardown */
}
END_TEST

START_TEST(a_client_learns_that_the_door_is_closed) {
	close(ends[0].far);
	ends[0].far = -1;
	ck_assert_int_eq(end[0].transport->wait(end[0].transport, NULL), -EPIPE);
	ck_assert(atomic_load(&end[0].broken));
}
END_TEST

/* ---- clients that lie ---- */

static struct ring_header *header_of(unsigned i) {
	void *base;

	ck_assert_int_eq(shm_map(ends[i].memory, RING_BYTES, NULL, &base), 0);
	return base;
}

static void ring_the_bell(unsigned i) {
	ck_assert_int_eq(eventfd_write(ends[i].bell, 1), 0);
}

/* The first end is given up, once; the second goes on. */
static void expect_first_fails(void) {
	AWAIT(atomic_load(&failures));
	ck_assert_uint_eq(atomic_load(&failures), 1);
	ck_assert_uint_eq(atomic_load(&failed_session), ends[0].session);
	for (unsigned i = 0; i < 50; i++) {
		send_bytes(&end[1], 0, 100);
		await_answers(&end[1], i + 1);
	}
	ck_assert_uint_eq(atomic_load(&failures), 1);
}

START_TEST(a_position_beyond_the_ring_costs_its_session_alone) {
	struct ring_header *h = header_of(0);

	atomic_store(&h->request.written, RING_REQUEST_BYTES + 1);
	ring_the_bell(0);
	expect_first_fails();
	munmap(h, RING_BYTES);
}
END_TEST

START_TEST(a_position_of_answers_that_were_never_written_does_too) {
	struct ring_header *h = header_of(0);

	atomic_store(&h->reply.read, 1000);
	send_bytes(&end[0], 0, 10);
	expect_first_fails();
	munmap(h, RING_BYTES);
}
END_TEST

static const struct ring_head lies[] = {
	{ 0, 0 }, { 0, LIMIT_FRAME_BYTES + 1 }, { 0, UINT32_MAX }, { LIMIT_UNANSWERED, 10 }, { UINT32_MAX, 10 },
};

START_TEST(a_head_that_claims_nonsense_does_too) {
	struct ring_header *h = header_of(0);
	struct ring r = ring_requests(h);

	ring_put(&r, &lies[_i], sizeof lies[_i]);
	(void)!ring_publish(&r, RING_ANY_SLOT);
	ring_the_bell(0);
	expect_first_fails();
	munmap(h, RING_BYTES);
}
END_TEST

START_TEST(two_requests_in_one_slot_do_too) {
	struct ring_header *h = header_of(0);
	struct ring r = ring_requests(h);
	struct ring_head head = { .slot = 0, .size = 1 };

	engine_withholds(true);
	for (int i = 0; i < 2; i++) {
		ring_put(&r, &head, sizeof head);
		ring_put(&r, "x", 1);
	}
	(void)!ring_publish(&r, RING_ANY_SLOT);
	ring_the_bell(0);
	AWAIT(atomic_load(&failures));
	engine_withholds(false);
	expect_first_fails();
	munmap(h, RING_BYTES);
}
END_TEST

/* Everything in the memory changes at random, again and again; whatever comes of it stays in its session. */
START_TEST(random_memory_harms_nobody_else) {
	struct ring_header *h = header_of(0);
	uint32_t *word = (uint32_t *)h, state = 12345u + (uint32_t)_i;

	for (unsigned i = 0; i < SCRIBBLES && !atomic_load(&failures); i++) {
		for (unsigned k = 0; k < 8; k++) {
			state = state * 1664525 + 1013904223;
			__atomic_store_n(&word[(state >> 8) % (_i % 2 ? 64 : RING_BYTES / 4)], state >> (state & 31),
				__ATOMIC_RELAXED);
		}
		if (i % 16 == 0)
			ring_the_bell(0);
	}
	send_bytes(&end[1], 0, 100);
	await_answers(&end[1], 1);
	ck_assert_uint_le(atomic_load(&failures), 1);
	munmap(h, RING_BYTES);
}
END_TEST

START_TEST(a_full_bell_keeps_nobody_from_being_heard) {
	struct ring_header *h = header_of(0);

	engine_gate_shut();
	ck_assert_int_eq(eventfd_write(ends[0].bell, UINT64_MAX - 1), 0);
	ck_assert_int_ne(eventfd_write(ends[0].bell, 1), 0);
	ck_assert_int_eq(errno, EAGAIN);
	ck_assert_uint_eq(atomic_load(&h->request.reader_sleeps), RING_ANY_SLOT); /* so it is rung, and has no room */
	send_bytes(&end[0], 0, 10);
	ck_assert_uint_eq(atomic_load(&h->request.reader_sleeps), 0);
	send_bytes(&end[1], 0, 10);
	engine_gate_open();
	await_answers(&end[0], 1);
	await_answers(&end[1], 1);
	munmap(h, RING_BYTES);
}
END_TEST

int main(void) {
	Suite *suite = suite_create("rings");
	TCase *tests = tcase_create("rings");

	tcase_set_timeout(tests, 120);
	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_add_test(tests, requests_are_answered_by_slot);
	tcase_add_test(tests, many_messages_of_all_lengths_come_back);
	tcase_add_test(tests, a_frame_of_the_limit_goes_and_comes_in_pieces);
	tcase_add_test(tests, a_frame_beyond_the_limit_is_not_sent);
	tcase_add_test(tests, a_client_that_reads_nothing_finds_all_its_answers_later);
	tcase_add_test(tests, a_client_that_leaves_too_much_unread_is_given_up);
	tcase_add_test(tests, a_deadline_ends_a_wait_for_nothing);
	tcase_add_test(tests, a_thread_that_watches_reads_too);
	tcase_add_test(tests, what_is_under_way_when_a_client_closes_is_cancelled);
	tcase_add_loop_test(tests, where_a_thread_watches_it_tells_of_the_cancelled_too, 0, 2);
	tcase_add_test(tests, a_client_learns_that_the_door_is_closed);
	tcase_add_test(tests, a_position_beyond_the_ring_costs_its_session_alone);
	tcase_add_test(tests, a_position_of_answers_that_were_never_written_does_too);
	tcase_add_loop_test(tests, a_head_that_claims_nonsense_does_too, 0, 5);
	tcase_add_test(tests, two_requests_in_one_slot_do_too);
	tcase_add_loop_test(tests, random_memory_harms_nobody_else, 0, 6);
	tcase_add_test(tests, a_full_bell_keeps_nobody_from_being_heard);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
