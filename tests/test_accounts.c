/* daemon/door/accounts: what users have used is kept over restarts, by hour, day and in all, and a file that is not ours is never believed. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/door/accounts.h"
#include "tests/suite.h"
#include "tests/tree.h"

enum { HOUR = 3600, DAY = 24 * HOUR, FILE_BYTES = 4096 };

static char folder[64], path[128], aside[160];
static struct config config;
static struct accounts accounts;
static time_t clock_now;

time_t __wrap_time(time_t *t);
time_t __wrap_time(time_t *t) {
	if (t)
		*t = clock_now;
	return clock_now;
}

static void setup(void) {
	log_set_level(LOG_LEVEL_ERROR);
	strcpy(folder, "/tmp/test_accounts_XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	snprintf(path, sizeof path, "%s/accounts", folder);
	snprintf(aside, sizeof aside, "%s.bad", path);
	config_standard(&config);
	snprintf(config.door_accounts, sizeof config.door_accounts, "%s", path);
	/* Noon, so that hours of the same day are at hand. */
	clock_now = (time_t)20000 * DAY + DAY / 2;
	accounts_open(&accounts, &config);
}

static void teardown(void) {
	accounts_close(&accounts);
	tree_remove(folder);
}

static void again(void) {
	accounts_close(&accounts);
	accounts_open(&accounts, &config);
}

static void use(uid_t uid, uint64_t ns) {
	accounts_add(&accounts, uid, &(struct spent){ .device_ns = ns, .bytes = ns, .sessions = 1, .refused = 2, .limits = 1 });
}

START_TEST(accounts_outlive_a_restart) {
	struct spent s;

	use(1, 10);
	use(1, 30);
	use(2, 7);
	again();
	s = accounts_sum(&accounts, 1, 0);
	ck_assert_uint_eq(s.device_ns, 40);
	ck_assert_uint_eq(s.bytes, 30);
	ck_assert_uint_eq(s.sessions, 2);
	ck_assert_uint_eq(s.refused, 4);
	ck_assert_uint_eq(s.limits, 2);
	ck_assert_uint_eq(accounts_sum(&accounts, 2, 0).device_ns, 7);
	ck_assert_uint_eq(accounts_sum(&accounts, 3, 0).device_ns, 0);
}
END_TEST

START_TEST(since_means_hours_then_days_then_all) {
	time_t begin = clock_now;

	use(1, 1);
	clock_now += 2 * HOUR;
	use(1, 10);
	ck_assert_uint_eq(accounts_sum(&accounts, 1, (uint64_t)clock_now - HOUR).device_ns, 10);
	ck_assert_uint_eq(accounts_sum(&accounts, 1, (uint64_t)begin).device_ns, 11);
	/* By the day, and no more by the hour. */
	clock_now += 4 * DAY;
	use(1, 100);
	again();
	ck_assert_uint_eq(accounts_sum(&accounts, 1, (uint64_t)begin + 2 * HOUR).device_ns, 111);
	ck_assert_uint_eq(accounts_sum(&accounts, 1, (uint64_t)begin + DAY).device_ns, 100);
	clock_now += 100 * DAY;
	again();
	ck_assert_uint_eq(accounts_sum(&accounts, 1, (uint64_t)begin).device_ns, 0);
	ck_assert_uint_eq(accounts_sum(&accounts, 1, 0).device_ns, 111);
	/* A clock that is turned back loses nothing. */
	clock_now = begin - 300 * DAY;
	use(1, 1000);
	again();
	ck_assert_uint_eq(accounts_sum(&accounts, 1, 0).device_ns, 1111);
}
END_TEST

static size_t read_file(unsigned char bytes[static FILE_BYTES]) {
	FILE *f = fopen(path, "re");
	size_t n;

	ck_assert_ptr_nonnull(f);
	n = fread(bytes, 1, FILE_BYTES, f);
	fclose(f);
	return n;
}

static void write_file(const unsigned char *bytes, size_t n) {
	FILE *f = fopen(path, "we");

	ck_assert_ptr_nonnull(f);
	ck_assert_uint_eq(fwrite(bytes, 1, n, f), n);
	fclose(f);
}

static void expect_put_aside(const char *what, size_t at) {
	accounts_open(&accounts, &config);
	ck_assert_msg(!accounts.record, "%s at %zu was believed", what, at);
	ck_assert_msg(!access(aside, F_OK) && access(path, F_OK), "%s at %zu was not put aside", what, at);
	unlink(aside);
	accounts_close(&accounts);
}

START_TEST(a_file_that_is_damaged_anywhere_is_put_aside) {
	unsigned char bytes[FILE_BYTES];
	size_t n;

	for (uid_t u = 0; u < 5; u++)
		use(u, 1000 + u);
	accounts_close(&accounts);
	n = read_file(bytes);
	for (size_t i = 0; i < n; i++) {
		bytes[i] ^= 0x41;
		write_file(bytes, n);
		expect_put_aside("a byte", i);
		bytes[i] ^= 0x41;
	}
	for (size_t i = 0; i < n; i++) {
		write_file(bytes, i);
		expect_put_aside("an end", i);
	}
	memset(bytes + n, 0, 64);
	write_file(bytes, n + 64);
	expect_put_aside("more", n);
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	expect_put_aside("a pipe", 0);
	ck_assert_int_eq(symlink("/etc/passwd", path), 0);
	expect_put_aside("a link", 0);
	accounts_open(&accounts, &config);
}
END_TEST

START_TEST(however_many_users_there_are_the_file_has_a_bound) {
	enum { USERS = ACCOUNTS_RECORDS + 5000 };
	uint64_t sum = 0;
	struct stat st;
	unsigned count;
	uid_t *uid;

	for (uid_t u = 0; u < USERS; u++) {
		use(u, 1);
		clock_now += u % 5000 ? 0 : HOUR;
	}
	again();
	uid = accounts_users(&accounts, &count);
	ck_assert_uint_le(count, ACCOUNTS_RECORDS + 1);
	ck_assert_uint_eq(accounts_sum(&accounts, ACCOUNTS_OTHERS, 0).device_ns, USERS - (count - 1));
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_int_lt(st.st_size, 4 << 20);
	sum = accounts_sum(&accounts, 0, 0).device_ns;
	ck_assert_uint_eq(sum, 1);
	free(uid);
}
END_TEST

START_TEST(one_daemon_has_the_file) {
	struct accounts other;

	use(1, 5);
	accounts_open(&other, &config);
	accounts_add(&other, 1, &(struct spent){ .device_ns = 100 });
	ck_assert_uint_eq(accounts_sum(&other, 1, 0).device_ns, 100);
	accounts_close(&other);
	again();
	ck_assert_uint_eq(accounts_sum(&accounts, 1, 0).device_ns, 5);
}
END_TEST

START_TEST(a_folder_that_comes_later_is_no_loss) {
	snprintf(config.door_accounts, sizeof config.door_accounts, "%s/later/accounts", folder);
	accounts_close(&accounts);
	accounts_open(&accounts, &config);
	use(1, 5);
	snprintf(aside, sizeof aside, "%s/later", folder);
	ck_assert_int_eq(mkdir(aside, 0700), 0);
	again();
	ck_assert_uint_eq(accounts_sum(&accounts, 1, 0).device_ns, 5);
}
END_TEST

int main(void) {
	Suite *s = suite_create("accounts");
	TCase *c = tcase_create("accounts");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, accounts_outlive_a_restart);
	tcase_add_test(c, since_means_hours_then_days_then_all);
	tcase_add_test(c, a_file_that_is_damaged_anywhere_is_put_aside);
	tcase_add_test(c, however_many_users_there_are_the_file_has_a_bound);
	tcase_add_test(c, one_daemon_has_the_file);
	tcase_add_test(c, a_folder_that_comes_later_is_no_loss);
	suite_add_tcase(s, c);
	return suite_run(s);
}
