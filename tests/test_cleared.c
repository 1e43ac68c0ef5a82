/* Memory that is cleared before anybody asks for it (daemon/door/cleared.h). */
#include "daemon/door/cleared.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <check.h>

#include "protocol/shm.h"

#include "tests/descriptors.h"
#include "tests/suite.h"

enum {
	PIECE = 1 << 20,
	TICK_US = 1000,
};

/* However long its thread takes; check ends a test that waits for ever. */
static int await(struct cleared *c, uint64_t bytes) {
	int fd = -1;

	while (!cleared_take(c, bytes, &fd))
		usleep(TICK_US);
	return fd;
}

/* Each assertion is a write to check's file. */
static bool is_zero(const uint64_t *word, uint64_t bytes) {
	uint64_t any = 0;

	for (uint64_t i = 0; i < bytes / sizeof *word; i++)
		any |= word[i];
	return !any;
}

START_TEST(pieces_are_cut_to_what_is_asked_for_and_made_again) {
	int before = open_descriptors(getpid());
	struct cleared c;

	ck_assert_int_eq(cleared_open(&c, CLEARED_PIECES * PIECE), 0);
	for (unsigned i = 0; i < 2 * CLEARED_PIECES; i++) {
		uint64_t bytes = PIECE - i * 4096u;
		int fd = await(&c, bytes);
		void *base;

		ck_assert_int_eq(shm_check(fd, bytes), 0);
		ck_assert_int_eq(shm_map(fd, bytes, NULL, &base), 0);
		ck_assert(is_zero(base, bytes));
		memset(base, 0x5a, bytes);
		munmap(base, bytes);
		close(fd);
	}
	cleared_close(&c);
	ck_assert_int_eq(open_descriptors(getpid()), before);
}
END_TEST

START_TEST(what_is_larger_or_very_small_takes_none) {
	struct cleared c;
	int fd = -1;

	ck_assert_int_eq(cleared_open(&c, CLEARED_PIECES * PIECE), 0);
	close(await(&c, PIECE));
	ck_assert(!cleared_take(&c, PIECE + 4096, &fd));
	ck_assert(!cleared_take(&c, 4096, &fd));
	ck_assert_int_eq(fd, -1);
	close(await(&c, PIECE));
	cleared_close(&c);
}
END_TEST

START_TEST(without_bytes_there_is_nothing) {
	struct cleared c;
	int fd = -1;

	ck_assert_int_eq(cleared_open(&c, 0), 0);
	ck_assert(!cleared_take(&c, 4096, &fd));
	cleared_close(&c);
	cleared_close(&c);
}
END_TEST

int main(void) {
	Suite *suite = suite_create("cleared");
	TCase *tc = tcase_create("cleared");

	tcase_add_test(tc, pieces_are_cut_to_what_is_asked_for_and_made_again);
	tcase_add_test(tc, what_is_larger_or_very_small_takes_none);
	tcase_add_test(tc, without_bytes_there_is_nothing);
	suite_add_tcase(suite, tc);
	return suite_run(suite);
}
