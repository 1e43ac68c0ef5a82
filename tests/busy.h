/*
 * Clients that are busy while something happens to their engine or their daemon: each has an array that it keeps, whose bits must never change, and
 * computes others, which may fail with the engine and with nothing else.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/fusion.h"
#include "tests/daemon.h"

enum {
	BUSY_ELEMENTS = 1000,
	BUSY_MOST = 8,
	/* An engine that ends answers so for some milliseconds. */
	BUSY_TRIES = 1000,
};

struct busy;
/* One result, and whatever else: kept is the square of a. */
typedef void busy_round(struct busy *b, fusion_context *c, fusion_array *a, fusion_array *kept);

struct busy {
	pthread_t thread;
	int number;
	busy_round *round;
	atomic_uint rounds;          /* results that it has had; the first one is what it keeps */
	float bits[BUSY_ELEMENTS];   /* of what it keeps */
	float expected[BUSY_ELEMENTS];
	bool known;                  /* expected is */
	atomic_bool ended;
	char *wrong;                 /* what went wrong, or NULL */
};

static struct busy busy[BUSY_MOST];
static unsigned busy_count;
static atomic_bool busy_enough;

static inline fusion_array *busy_numbers(fusion_context *c, float first) {
	float value[BUSY_ELEMENTS];
	int64_t n = BUSY_ELEMENTS;

	for (int i = 0; i < BUSY_ELEMENTS; i++)
		value[i] = first + (float)i * 0.37F;
	return fusion_from(c, FUSION_F32, 1, &n, value);
}

/* What may become of what was under way when an engine ended. */
static inline bool lost_with_an_engine(int code) {
	return code == FUSION_E_REPEATABLE || code == FUSION_E_UNKNOWN || code == FUSION_E_LOST;
}

/* Is it none, or one that there may be? */
static inline bool busy_may(struct busy *b, int code) {
	if (code && !lost_with_an_engine(code) && !b->wrong)
		b->wrong = strdup(fusion_error());
	return !b->wrong;
}

/* The square of a, and its bits; an engine may end before it is there. NULL: something else went wrong. */
static inline fusion_array *busy_keep(struct busy *b, fusion_array *a, float *bits) {
	while (!b->wrong) {
		fusion_array *kept = fusion_mul(a, a);
		int code = fusion_read(kept, bits, BUSY_ELEMENTS * sizeof *bits);

		if (!code)
			return kept;
		fusion_release(kept);
		busy_may(b, code);
	}
	return NULL;
}

/* What is kept is there still; a question that the engine's end met half way is asked again. */
static inline int busy_read_again(fusion_array *kept, float *value) {
	int code = FUSION_E_REPEATABLE;

	for (int i = 0; i < BUSY_TRIES && code == FUSION_E_REPEATABLE; i++) {
		usleep(i ? 10000 : 0);
		code = fusion_read(kept, value, BUSY_ELEMENTS * sizeof *value);
	}
	return code;
}

/* Is what is kept still there? */
static inline void busy_end_round(struct busy *b, fusion_context *c, fusion_array *kept) {
	float value[BUSY_ELEMENTS];

	if (!b->wrong && busy_read_again(kept, value))
		b->wrong = strdup(fusion_error());
	if (!b->wrong && memcmp(value, b->bits, sizeof value) != 0)
		b->wrong = strdup("an array that was kept has other bits than before");
	/* A fault of what was under way is told once more by the next call that waits for all. */
	if (!b->wrong)
		busy_may(b, fusion_sync(c));
}

/* A result, which is the same each time. */
static inline void busy_same_again(struct busy *b, fusion_context *c, fusion_array *a, fusion_array *kept) {
	float value[BUSY_ELEMENTS];
	fusion_array *fresh = busy_numbers(c, 2), *d = fusion_add(fresh, kept), *product = fusion_mul(d, kept), *e = fusion_sub(product, a);
	int code = fusion_read(e, value, sizeof value);

	if (busy_may(b, code) && !code && b->known && memcmp(value, b->expected, sizeof value) != 0)
		b->wrong = strdup("a result has other bits than before");
	if (!code && !b->known)
		memcpy(b->expected, value, sizeof value);
	b->known |= !code;
	fusion_release(fresh);
	fusion_release(d);
	fusion_release(product);
	fusion_release(e);
	busy_end_round(b, c, kept);
	if (!code)
		atomic_fetch_add(&b->rounds, 1);
}

static inline void *busy_work(void *user) {
	struct busy *b = user;
	fusion_context *c = NULL;
	fusion_array *a, *kept;

	if (fusion_open(&c, NULL)) {
		b->wrong = strdup(fusion_error());
	} else {
		a = busy_numbers(c, (float)b->number);
		kept = busy_keep(b, a, b->bits);
		atomic_fetch_add(&b->rounds, 1);
		while (!b->wrong && !(atomic_load(&busy_enough) && atomic_load(&b->rounds) > 1))
			b->round(b, c, a, kept);
		fusion_release(a);
		fusion_release(kept);
		fusion_close(c);
	}
	atomic_store(&b->ended, true);
	return NULL;
}

/* Returns once each has had so many more results, or has failed. */
static inline void busy_await(unsigned more) {
	unsigned before[BUSY_MOST];

	for (unsigned i = 0; i < busy_count; i++)
		before[i] = atomic_load(&busy[i].rounds);
	for (unsigned i = 0; i < busy_count; i++)
		while (atomic_load(&busy[i].rounds) < before[i] + more && !atomic_load(&busy[i].ended))
			usleep(5000);
}

/* Threads that do this in each round. Returns once each has what it keeps. */
static inline void busy_begin_with(unsigned count, busy_round *round) {
	atomic_store(&busy_enough, false);
	busy_count = count;
	for (unsigned i = 0; i < count; i++) {
		busy[i] = (struct busy){ .number = (int)i + 1, .round = round };
		ck_assert_int_eq(pthread_create(&busy[i].thread, NULL, busy_work, &busy[i]), 0);
	}
	busy_await(1);
}

static inline void busy_begin(unsigned count) {
	busy_begin_with(count, busy_same_again);
}

static inline void busy_end(void) {
	atomic_store(&busy_enough, true);
	for (unsigned i = 0; i < busy_count; i++) {
		ck_assert_int_eq(pthread_join(busy[i].thread, NULL), 0);
		ck_assert_msg(!busy[i].wrong, "client %d: %s", busy[i].number, busy[i].wrong);
	}
}
