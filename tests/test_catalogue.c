/*
 * The catalogue's memory: an entry costs the same however many there are, what is given back is returned, also around entries that
 * stay, and nobody who looks through it gives memory to what has none. Entries are compared with a model of them.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/catalogue.h"
#include "tests/suite.h"

enum {
	MANY = 100000,
	/* Entries that share memory, and what may be kept besides what is taken: two such pieces. */
	PIECE = 512,
	PIECES_KEPT = 2,
	SESSION = 7,
	ROUNDS = 200000,
	SEED = 26,
};

static struct {
	int fd;
	struct catalogue *c;
	uint32_t *entry;                     /* that are taken */
	uint32_t count;
	uint64_t asked;                      /* bytes, of fallocate() for memory */
	bool none;                           /* there is no memory */
} t;

int __real_fallocate(int fd, int mode, off_t offset, off_t bytes);
int __wrap_fallocate(int fd, int mode, off_t offset, off_t bytes);

int __wrap_fallocate(int fd, int mode, off_t offset, off_t bytes) {
	if (!mode && t.none) {
		errno = ENOSPC;
		return -1;
	}
	t.asked += mode ? 0 : (uint64_t)bytes;
	return __real_fallocate(fd, mode, offset, bytes);
}

static void setup(void) {
	t.fd = catalogue_create();
	ck_assert_int_ge(t.fd, 0);
	ck_assert_int_eq(catalogue_open(t.fd, &t.c), 0);
	ck_assert_int_eq(catalogue_adopt(t.c), 0);
	t.entry = malloc(MANY * sizeof *t.entry);
	ck_assert_ptr_nonnull(t.entry);
	t.count = 0;
	t.asked = 0;
	t.none = false;
}

static void teardown(void) {
	t.c = catalogue_close(t.c);
	close(t.fd);
	free(t.entry);
}

static uint64_t memory(void) {
	struct stat st;

	ck_assert_int_eq(fstat(t.fd, &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

/* At most, with so many taken that lie as densely as can be. */
static uint64_t usual(uint32_t entries) {
	return sizeof(struct catalogue_header) + 4096 + (entries / PIECE + PIECES_KEPT) * (uint64_t)PIECE * sizeof(struct catalogue_entry);
}

static void take(void) {
	uint32_t e = catalogue_take(t.c, SESSION);

	ck_assert_uint_ne(e, CATALOGUE_NONE);
	t.c->entry[e].of_array.handle = e;
	catalogue_put(t.c, e, CATALOGUE_ARRAY);
	t.entry[t.count++] = e;
}

static void give(uint32_t i) {
	uint32_t e = t.entry[i];

	ck_assert_uint_eq(t.c->entry[e].of_array.handle, e);
	catalogue_give(t.c, e);
	t.entry[i] = t.entry[--t.count];
}

static void take_many(uint32_t count) {
	while (t.count < count)
		take();
}

/* As the next engine does. */
static void reopen(void) {
	t.c = catalogue_close(t.c);
	ck_assert_int_eq(catalogue_open(t.fd, &t.c), 0);
	ck_assert_int_eq(catalogue_adopt(t.c), 0);
}

static bool keeps_all(void *user, uint64_t session) {
	(void)user;
	return session == SESSION;
}

static void settle(uint32_t lost) {
	struct catalogue_count count;
	struct catalogue *c;

	ck_assert_int_eq(catalogue_open(t.fd, &c), 0);
	catalogue_settle(c, keeps_all, NULL, &count);
	/* Arrays without a buffer have no value. */
	ck_assert_uint_eq(count.lost, lost);
	catalogue_close(c);
}

START_TEST(an_entry_costs_the_same_however_many_there_are) {
	setup();
	take_many(MANY);
	ck_assert_uint_le(t.asked, (uint64_t)(MANY + PIECE) * sizeof(struct catalogue_entry));
	teardown();
}
END_TEST

START_TEST(memory_of_entries_that_are_gone_is_returned) {
	setup();
	take_many(MANY);
	ck_assert_uint_le(memory(), usual(MANY));
	while (t.count)
		give(t.count - 1);
	ck_assert_uint_le(memory(), usual(0));
	take_many(MANY);
	while (t.count)
		give(0);
	ck_assert_uint_le(memory(), usual(0));
	teardown();
}
END_TEST

/* One that stays at the very end keeps its own piece alone, and what looks through all of them gives memory to none. */
START_TEST(who_stays_keeps_no_memory_of_others) {
	setup();
	take_many(MANY);
	for (uint32_t i = MANY - 1; i-- > 1;)
		give(i);
	ck_assert_uint_le(memory(), usual(2 * PIECE));
	settle(2);
	ck_assert_uint_le(memory(), usual(2 * PIECE));
	for (uint32_t i = 0; i < MANY; i++)
		ck_assert_int_eq(catalogue_find(t.c, i, CATALOGUE_ARRAY, SESSION) != NULL, i == t.entry[0] || i == t.entry[1]);
	reopen();
	ck_assert_uint_le(memory(), usual(2 * PIECE));
	settle(2);
	/* What comes takes what is free beside them first. */
	take_many(MANY / 2);
	ck_assert_uint_le(memory(), usual(MANY / 2 + PIECE));
	teardown();
}
END_TEST

START_TEST(at_the_edge_of_a_piece_no_page_comes_and_goes) {
	setup();
	take_many(PIECE);
	t.asked = 0;
	for (int i = 0; i < PIECE; i++) {
		take();
		give(t.count - 1);
	}
	ck_assert_uint_le(t.asked, PIECE * sizeof(struct catalogue_entry));
	teardown();
}
END_TEST

START_TEST(entries_are_those_of_a_model_of_them) {
	unsigned random = SEED;
	bool *taken = calloc(2 * MANY, sizeof *taken);

	ck_assert_ptr_nonnull(taken);
	setup();
	for (int round = 0; round < ROUNDS; round++) {
		bool grows = round / (ROUNDS / 8) % 2 == 0;

		if (t.count < MANY && (!t.count || rand_r(&random) % 4 > (grows ? 0 : 2))) {
			take();
			ck_assert_uint_lt(t.entry[t.count - 1], 2 * MANY);
			ck_assert(!taken[t.entry[t.count - 1]]);
			taken[t.entry[t.count - 1]] = true;
		} else {
			uint32_t i = (uint32_t)rand_r(&random) % t.count;

			taken[t.entry[i]] = false;
			give(i);
		}
		if (round % (ROUNDS / 16) == 0) {
			reopen();
			settle(t.count);
		}
	}
	while (t.count)
		give(0);
	ck_assert_uint_le(memory(), usual(0));
	free(taken);
	teardown();
}
END_TEST

START_TEST(without_memory_there_is_no_entry_and_those_that_are_stay) {
	setup();
	take_many(2 * PIECE);
	t.none = true;
	while (catalogue_take(t.c, SESSION) != CATALOGUE_NONE)
		;
	t.none = false;
	take_many(3 * PIECE);
	reopen();
	settle(t.count);
	teardown();
}
END_TEST

int main(void) {
	Suite *s = suite_create("catalogue");
	TCase *t_case = tcase_create("memory");

	tcase_add_test(t_case, an_entry_costs_the_same_however_many_there_are);
	tcase_add_test(t_case, memory_of_entries_that_are_gone_is_returned);
	tcase_add_test(t_case, who_stays_keeps_no_memory_of_others);
	tcase_add_test(t_case, at_the_edge_of_a_piece_no_page_comes_and_goes);
	tcase_add_test(t_case, entries_are_those_of_a_model_of_them);
	tcase_add_test(t_case, without_memory_there_is_no_entry_and_those_that_are_stay);
	suite_add_tcase(s, t_case);
	return suite_run(s);
}
