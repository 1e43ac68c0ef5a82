/*
 * Spinning before sleeping: client/linger, daemon/serve/linger and what the rings tell their clients of it. Whether it pays
 * is for fusion-bench; here, that it ends, stops where it is in vain, and is not said where processors are few.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "client/linger.h"
#include "daemon/serve/linger.h"
#include "daemon/serve/rings.h"
#include "protocol/shm.h"
#include "tests/suite.h"

enum {
	/* The longest that a client believes. */
	LONG_US = 10000,
	SHORT_US = 200,
	MOST = 2,
	SESSIONS = 4,
};

static void *memory;
static struct ring_place *place;
static struct ring writer, reader;
static struct lingering client;

static void setup(void) {
	memory = aligned_alloc(RING_LINE, RING_BYTES);
	memset(memory, 0, RING_BYTES);
	place = ring_place(memory);
	writer = ring_replies(memory);
	reader = ring_replies(memory);
	linger_init(&client, place);
}

static void teardown(void) {
	free(memory);
}

static uint64_t now_us(void) {
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void answer(void) {
	ring_put(&writer, "answer", 6);
	ck_assert(!ring_publish(&writer, 1));
}

static void take(void) {
	char bytes[6];

	ring_get(&reader, bytes, sizeof bytes);
	(void)!ring_consume(&reader);
}

/* ---- the client ---- */

START_TEST(a_client_that_is_told_nothing_sleeps_at_once) {
	uint64_t before = now_us();

	linger_begin(&client);
	answer();
	ck_assert(!linger_look(&client, &reader));
	linger_end(&client);
	ck_assert(!client.in_vain);
	ck_assert_uint_lt(now_us() - before, 1000000);
}
END_TEST

START_TEST(what_has_come_is_seen) {
	atomic_store(&place->linger_us, LONG_US);
	linger_begin(&client);
	answer();
	ck_assert(linger_look(&client, &reader));
}
END_TEST

START_TEST(who_looked_in_vain_sleeps_at_once_until_an_answer_comes_in_time) {
	uint64_t before = now_us();

	atomic_store(&place->linger_us, SHORT_US);
	linger_begin(&client);
	ck_assert(!linger_look(&client, &reader));
	ck_assert_uint_ge(now_us() - before, SHORT_US);
	linger_end(&client);
	ck_assert(client.in_vain);
	/* The next one does not look, though it could see something. */
	atomic_store(&place->linger_us, LONG_US);
	linger_begin(&client);
	answer();
	ck_assert(!linger_look(&client, &reader));
	take();
	/* It came in time, on all but a machine that stood still meanwhile. */
	for (int i = 0; i < 100 && client.in_vain; i++) {
		linger_begin(&client);
		linger_end(&client);
	}
	ck_assert(!client.in_vain);
	linger_begin(&client);
	answer();
	ck_assert(linger_look(&client, &reader));
}
END_TEST

START_TEST(no_more_than_a_limit_is_believed) {
	uint64_t before = now_us();

	atomic_store(&place->linger_us, UINT32_MAX);
	linger_begin(&client);
	ck_assert(!linger_look(&client, &reader));
	ck_assert_uint_ge(now_us() - before, LONG_US);
	/* An hour was said. */
	ck_assert_uint_lt(now_us() - before, 60 * 1000000);
}
END_TEST

/* ---- the daemon ---- */

START_TEST(few_processors_and_those_that_compute_are_left_alone) {
	ck_assert_uint_eq(linger_limits(500, 64, true).us, 0);
	ck_assert_uint_eq(linger_limits(500, 7, false).us, 0);
	ck_assert_uint_eq(linger_limits(500, 8, false).us, 500);
	ck_assert_uint_eq(linger_limits(500, 8, false).clients, 4);
	ck_assert_uint_eq(linger_limits(500, 16, false).clients, 12);
	ck_assert_uint_eq(linger_limits(0, 64, false).us, 0);
	ck_assert_uint_ge(linger_processors(), 1);
}
END_TEST

struct joined {
	int memory, bell;
	void *bytes;
	struct channel *channel;
};

static struct joined join(struct rings *r, unsigned i) {
	struct joined j = { .memory = -1 };

	ck_assert_int_eq(shm_create("ring", RING_BYTES, &j.memory), 0);
	ck_assert_int_ge(j.bell = eventfd(0, EFD_NONBLOCK), 0);
	ck_assert_int_eq(shm_map(j.memory, RING_BYTES, NULL, &j.bytes), 0);
	ck_assert_int_eq(rings_add(r, 100 + i, dup(j.memory), dup(j.bell), &j.channel), 0);
	return j;
}

static void part(struct joined *j) {
	rings_remove(j->channel);
	munmap(j->bytes, RING_BYTES);
	close(j->memory);
	close(j->bell);
}

static void expect_told(const struct joined *j, unsigned from, unsigned to, uint32_t us) {
	for (unsigned i = from; i < to; i++)
		ck_assert_uint_eq(atomic_load(&ring_place(j[i].bytes)->linger_us), us);
}

START_TEST(sessions_are_told_while_they_are_few) {
	struct joined j[SESSIONS];
	struct transport *transport;
	struct rings *r;

	ck_assert_int_eq(rings_new(&r, &transport), 0);
	rings_linger(r, SHORT_US, MOST);
	for (unsigned i = 0; i < SESSIONS; i++) {
		j[i] = join(r, i);
		expect_told(j, 0, i + 1, i < MOST ? SHORT_US : 0);
	}
	for (unsigned i = 0; i < SESSIONS; i++) {
		part(&j[i]);
		expect_told(j, i + 1, SESSIONS, SESSIONS - i - 1 <= MOST ? SHORT_US : 0);
	}
	transport_close(transport);
}
END_TEST

int main(void) {
	Suite *s = suite_create("linger");
	TCase *parts = tcase_create("parts");

	tcase_set_timeout(parts, 60);
	tcase_add_checked_fixture(parts, setup, teardown);
	tcase_add_test(parts, a_client_that_is_told_nothing_sleeps_at_once);
	tcase_add_test(parts, what_has_come_is_seen);
	tcase_add_test(parts, who_looked_in_vain_sleeps_at_once_until_an_answer_comes_in_time);
	tcase_add_test(parts, no_more_than_a_limit_is_believed);
	tcase_add_test(parts, few_processors_and_those_that_compute_are_left_alone);
	tcase_add_test(parts, sessions_are_told_while_they_are_few);
	suite_add_tcase(s, parts);
	return suite_run(s);
}
