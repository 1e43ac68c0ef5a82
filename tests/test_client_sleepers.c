/*
 * Threads that wait on one context: each is woken for what it waits for, one of them reads for all, and somebody always does. How often a thread slept
 * is counted by what is told of it (fusion_on_sleep).
 */
#include "client/fusion.h"

#include "client/context.h"
#include "tests/fake_context.h"

enum {
	ELEMENTS = 3,
	FEW = 5,                     /* whose requests have room */
	MANY = 12,
	FULL = LIMIT_UNANSWERED - 1,
};

static fusion_array *x;
static atomic_uint sleeps;

static void *count_sleep(void *given_up) {
	(void)given_up;
	atomic_fetch_add(&sleeps, 1);
	return NULL;
}

/* x is at the daemon, and its memory known: what is read of it is one request. Nothing is answered from here on. */
static void begin(void) {
	float back[ELEMENTS];

	open_context();
	x = vector(ELEMENTS, 0);
	ck_assert(!fusion_read(x, back, sizeof back));
	AWAIT(!fake_unanswered());
	fake_pause(true);
	atomic_store(&sleeps, 0);
	fusion_on_sleep(count_sleep);
}

static void end(void) {
	fusion_on_sleep(NULL);
	fusion_release(x);
	close_context();
}

static void *read_x(void *unused) {
	float back[ELEMENTS];

	(void)unused;
	return fusion_read(x, back, sizeof back) || back[2] != 2 ? x : NULL;
}

static void *read_what_was_not_sent(void *unused) {
	float back[ELEMENTS];
	fusion_array *y = fusion_exp(x);
	int code = fusion_read(y, back, sizeof back);

	(void)unused;
	fusion_release(y);
	return code ? x : NULL;
}

static void finish(pthread_t thread) {
	void *failed;

	pthread_join(thread, &failed);
	ck_assert(!failed);
}

/* One after the other, each asleep before the next begins. */
static void begin_all(pthread_t thread[], unsigned first, unsigned count) {
	for (unsigned i = first; i < first + count; i++) {
		pthread_create(&thread[i], NULL, read_x, NULL);
		AWAIT(atomic_load(&sleeps) == i + 1 && fake_unanswered() == (i < FULL ? i + 1 : FULL));
	}
}

START_TEST(each_thread_is_woken_for_its_own_answer) {
	pthread_t thread[FEW];

	begin();
	begin_all(thread, 0, FEW);
	fake_pause(false);
	for (unsigned i = 0; i < FEW; i++)
		finish(thread[i]);
	ck_assert_uint_eq(sleeps, FEW);
	end();
}
END_TEST

START_TEST(who_waits_for_room_is_woken_when_it_is_there) {
	pthread_t thread[MANY];

	begin();
	begin_all(thread, 0, MANY);
	fake_pause(false);
	for (unsigned i = 0; i < MANY; i++)
		finish(thread[i]);
	/* Some twice: for room, then for the answer. */
	ck_assert_uint_eq(sleeps, MANY + (MANY - FULL));
	end();
}
END_TEST

/* The first one reads. It has its answer, and the others nobody who would read theirs. */
START_TEST(who_reads_and_leaves_is_followed) {
	pthread_t thread[FEW];

	begin();
	begin_all(thread, 0, 1);
	fake_hold(1);
	begin_all(thread, 1, 1);
	fake_pause(false);
	finish(thread[0]);
	AWAIT(atomic_load(&fake.holding));
	fake_let_go();
	finish(thread[1]);
	ck_assert_uint_eq(sleeps, 2);
	end();
}
END_TEST

static void set_timeout(uint32_t ms) {
	struct fusion_context *c = (struct fusion_context *)object_find(OBJECT_CONTEXT, context);

	pthread_mutex_lock(&c->lock);
	c->stream.timeout_ms = ms;
	pthread_mutex_unlock(&c->lock);
}

/* By whichever of those that wait for answers and for room. */
START_TEST(who_reads_and_gives_up_is_followed) {
	pthread_t thread[MANY];
	void *failed;

	begin();
	set_timeout(700);
	pthread_create(&thread[0], NULL, read_x, NULL);
	AWAIT(atomic_load(&sleeps));
	set_timeout(0);
	for (unsigned i = 1; i < MANY; i++)
		pthread_create(&thread[i], NULL, read_x, NULL);
	pthread_join(thread[0], &failed);
	ck_assert(failed);
	AWAIT(atomic_load(&sleeps) >= MANY && fake_unanswered() == FULL);
	fake_pause(false);
	for (unsigned i = 1; i < MANY; i++)
		finish(thread[i]);
	end();
}
END_TEST

/* A batch and what is asked of it go together, but one does not wait for room that may be long in coming. */
START_TEST(a_batch_takes_the_last_room_where_no_more_comes_soon) {
	pthread_t thread[FULL];
	unsigned batches;

	begin();
	begin_all(thread, 0, FULL - 1);
	batches = fake_requests(REQUEST_SUBMIT);
	pthread_create(&thread[FULL - 1], NULL, read_what_was_not_sent, NULL);
	AWAIT(fake_requests(REQUEST_SUBMIT) > batches);
	fake_pause(false);
	for (unsigned i = 0; i < FULL; i++)
		finish(thread[i]);
	end();
}
END_TEST

RUN_TESTS("client_sleepers", each_thread_is_woken_for_its_own_answer, who_waits_for_room_is_woken_when_it_is_there,
	who_reads_and_leaves_is_followed, who_reads_and_gives_up_is_followed,
	a_batch_takes_the_last_room_where_no_more_comes_soon)
