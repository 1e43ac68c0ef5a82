/* daemon/base/cache_entry and cache_folder: what is stored comes back whole or not at all; what goes first; what is damaged. */
#include <check.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/cache_entry.h"
#include "daemon/base/cache_folder.h"
#include "daemon/base/cache_seal.h"
#include "tests/suite.h"
#include "tests/tree.h"

enum {
	ROOM = 256,
	DAY_S = 86400,
};

static char root[] = "/tmp/test_cache_XXXXXX", programs[ROOM];

static const char *in_root(const char *name) {
	static char path[4][ROOM];
	static unsigned next;
	char *one = path[next++ % 4];

	snprintf(one, ROOM, "%s/%.200s", root, name);
	return one;
}

static void setup(void) {
	strcpy(root + strlen(root) - 6, "XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(root));
	snprintf(programs, sizeof programs, "%s/programs", root);
	ck_assert_int_eq(mkdir(programs, 0700), 0);
	ck_assert_int_eq(mkdir(in_root("driver"), 0700), 0);
	ck_assert_int_eq(mkdir(in_root("driver/AB"), 0700), 0);
}

static void teardown(void) {
	tree_remove(root);
}

static void write_file(const char *path, const void *bytes, size_t size) {
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, bytes, size), (ssize_t)size);
	close(fd);
}

/* Used so many seconds ago. */
static void age(const char *path, time_t seconds) {
	const struct timespec when[2] = { { .tv_sec = time(NULL) - seconds }, { .tv_sec = time(NULL) - seconds } };

	ck_assert_int_eq(utimensat(AT_FDCWD, path, when, 0), 0);
}

static void add_driver_entry(const char *name, const void *library, size_t size, time_t seconds) {
	char path[ROOM];

	snprintf(path, sizeof path, "driver/AB/%s", name);
	ck_assert_int_eq(mkdir(in_root(path), 0700), 0);
	snprintf(path, sizeof path, "driver/AB/%s/fused.so", name);
	write_file(in_root(path), library, size);
	snprintf(path, sizeof path, "driver/AB/%s/last_accessed", name);
	write_file(in_root(path), "", 0);
	age(in_root(path), seconds);
}

static struct cache_key add_program(uint64_t number, time_t seconds) {
	const struct cache_key key = { number, 7 };
	char name[ROOM];

	ck_assert_int_eq(cache_entry_write(programs, &key, "0123456789", 10), 0);
	snprintf(name, sizeof name, "programs/%016llx%016llx", 7ULL, (unsigned long long)number);
	age(in_root(name), seconds);
	return key;
}

static int load(struct cache_key key) {
	void *bytes = NULL;
	size_t size = 0;
	int r = cache_entry_read(programs, &key, &bytes, &size);

	if (!r)
		ck_assert(size == 10 && !memcmp(bytes, "0123456789", 10));
	free(bytes);
	return r;
}

static bool is_there(const char *name) {
	return !access(in_root(name), F_OK);
}

START_TEST(an_entry_comes_back_as_stored) {
	ck_assert_int_eq(load(add_program(1, 0)), 0);
	ck_assert_int_eq(load((struct cache_key){ 2, 7 }), -ENOENT);
}
END_TEST

START_TEST(an_entry_of_which_any_byte_is_damaged_is_refused) {
	struct cache_key key = add_program(1, 0);
	int fd = open(in_root("programs/00000000000000070000000000000001"), O_RDWR);
	struct stat status;
	char byte;

	ck_assert_int_eq(fstat(fd, &status), 0);
	for (off_t i = 0; i < status.st_size; i++) {
		ck_assert_int_eq(pread(fd, &byte, 1, i), 1);
		byte = (char)~byte;
		ck_assert_int_eq(pwrite(fd, &byte, 1, i), 1);
		ck_assert_int_eq(load(key), -EBADMSG);
		byte = (char)~byte;
		ck_assert_int_eq(pwrite(fd, &byte, 1, i), 1);
	}
	ck_assert_int_eq(load(key), 0);
	for (off_t i = 0; i < status.st_size; i++) {
		ck_assert_int_eq(ftruncate(fd, status.st_size - 1 - i), 0);
		ck_assert_int_eq(load(key), -EBADMSG);
	}
	close(fd);
}
END_TEST

START_TEST(what_was_used_longest_ago_goes_first) {
	struct cache_usage u;
	struct cache_key old = add_program(1, 3 * DAY_S), young = add_program(2, DAY_S);
	uint64_t one;

	add_driver_entry("MIDDLE", "x", 1, 2 * DAY_S);
	ck_assert_int_eq(cache_folder_measure(root, &u), 0);
	ck_assert_uint_eq(u.held[CACHE_PROGRAM].count, 2);
	ck_assert_uint_eq(u.held[CACHE_DRIVER].count, 1);
	ck_assert_uint_eq(u.held[CACHE_DRIVER].bytes, 1);
	one = u.held[CACHE_PROGRAM].bytes / 2;
	ck_assert_int_eq(cache_folder_prune(root, one + 1, &u), 0);
	ck_assert_uint_eq(u.removed.count, 1);
	ck_assert_int_eq(load(old), -ENOENT);
	ck_assert(is_there("driver/AB/MIDDLE"));
	ck_assert_int_eq(cache_folder_prune(root, one, &u), 0);
	ck_assert(!is_there("driver/AB/MIDDLE"));
	ck_assert_int_eq(load(young), 0);
}
END_TEST

START_TEST(what_is_read_counts_as_used) {
	struct cache_usage u;
	struct cache_key read = add_program(1, 3 * DAY_S), other = add_program(2, 2 * DAY_S);

	ck_assert_int_eq(load(read), 0);
	ck_assert_int_eq(cache_folder_measure(root, &u), 0);
	ck_assert_int_eq(cache_folder_prune(root, u.held[CACHE_PROGRAM].bytes / 2, &u), 0);
	ck_assert_int_eq(load(other), -ENOENT);
	ck_assert_int_eq(load(read), 0);
}
END_TEST

START_TEST(leftovers_go_once_nobody_can_be_writing_them) {
	struct cache_usage u;

	write_file(in_root("driver/tempfile_old.cl"), "x", 1);
	age(in_root("driver/tempfile_old.cl"), DAY_S);
	write_file(in_root("driver/tempfile_new.cl"), "x", 1);
	write_file(in_root("driver/index"), "x", 1);
	age(in_root("driver/index"), DAY_S);
	write_file(in_root("programs/00000000000000070000000000000001.Ab12Cd"), "x", 1);
	age(in_root("programs/00000000000000070000000000000001.Ab12Cd"), DAY_S);
	ck_assert_int_eq(cache_folder_prune(root, UINT64_MAX, &u), 0);
	ck_assert_uint_eq(u.removed.count, 2);
	ck_assert(is_there("driver/tempfile_new.cl") && is_there("driver/index"));
	ck_assert(!is_there("driver/tempfile_old.cl"));
}
END_TEST

START_TEST(what_the_driver_prunes_itself_stays) {
	struct cache_usage u;

	ck_assert_int_eq(mkdir(in_root("driver/AB/OWN"), 0700), 0);
	write_file(in_root("driver/AB/OWN/file"), "x", 1);
	ck_assert_int_eq(cache_folder_prune(root, 0, &u), 0);
	ck_assert(is_there("driver/AB/OWN/file"));
}
END_TEST

START_TEST(verify_removes_what_is_damaged_and_nothing_else) {
	Elf64_Ehdr library = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64 }, .e_shoff = 64, .e_shnum = 1,
		.e_shentsize = 64 };
	char bytes[128] = { 0 };
	struct cache_key whole = add_program(1, 0), cut = add_program(2, 0);
	struct cache_usage u;

	memcpy(bytes, &library, sizeof library);
	add_driver_entry("WHOLE", bytes, sizeof bytes, 0);
	add_driver_entry("CUT", bytes, sizeof bytes - 1, 0);
	add_driver_entry("EMPTY", bytes, 0, 0);
	ck_assert_int_eq(truncate(in_root("programs/00000000000000070000000000000002"), 40), 0);
	ck_assert_int_eq(cache_folder_verify(root, &u), 0);
	ck_assert_uint_eq(u.damaged.count, 3);
	ck_assert_int_eq(load(whole), 0);
	ck_assert_int_eq(load(cut), -ENOENT);
	ck_assert(is_there("driver/AB/WHOLE/fused.so"));
	ck_assert(!is_there("driver/AB/CUT") && !is_there("driver/AB/EMPTY"));
}
END_TEST

/* ---- seals ---- */

static const struct timespec long_ago = { .tv_sec = 1 };

static const char *sealed_entry(void) {
	static char entry[ROOM];

	add_driver_entry("ONE", "0123456789", 10, 0);
	snprintf(entry, sizeof entry, "%s", in_root("driver/AB/ONE"));
	write_file(in_root("driver/AB/ONE/program.bc"), "abc", 3);
	ck_assert_int_eq(cache_seal_check(entry), -ENOENT);
	ck_assert_int_eq(cache_seal_renew(entry, &long_ago), 0);
	ck_assert_int_eq(cache_seal_check(entry), 0);
	return entry;
}

START_TEST(any_byte_of_any_file_breaks_a_seal) {
	static const char *const file[] = { "driver/AB/ONE/fused.so", "driver/AB/ONE/program.bc", "driver/AB/ONE/00000000000000000000000000000001" };
	const char *entry = sealed_entry();
	struct stat status;
	char byte;

	for (size_t i = 0; i < sizeof file / sizeof *file; i++) {
		int fd = open(in_root(file[i]), O_RDWR);

		ck_assert_int_ge(fd, 0);
		ck_assert_int_eq(fstat(fd, &status), 0);
		for (off_t at = 0; at < status.st_size; at++) {
			ck_assert_int_eq(pread(fd, &byte, 1, at), 1);
			byte = (char)~byte;
			ck_assert_int_eq(pwrite(fd, &byte, 1, at), 1);
			ck_assert_int_eq(cache_seal_check(entry), -EBADMSG);
			byte = (char)~byte;
			ck_assert_int_eq(pwrite(fd, &byte, 1, at), 1);
		}
		ck_assert_int_eq(cache_seal_check(entry), 0);
		close(fd);
	}
	ck_assert_int_eq(truncate(in_root(file[0]), 5), 0);
	ck_assert_int_eq(cache_seal_check(entry), -EBADMSG);
	ck_assert_int_eq(unlink(in_root(file[0])), 0);
	ck_assert_int_eq(cache_seal_check(entry), -EBADMSG);
}
END_TEST

START_TEST(what_a_driver_touches_breaks_no_seal_and_what_it_adds_is_not_believed) {
	const char *entry = sealed_entry();

	write_file(in_root("driver/AB/ONE/last_accessed"), "x", 1);
	write_file(in_root("driver/AB/ONE/build.log"), "warning", 7);
	ck_assert_int_eq(cache_seal_check(entry), 0);
	write_file(in_root("driver/AB/ONE/wide.so"), "new", 3);
	ck_assert_int_eq(cache_seal_look(entry), 0);
	ck_assert(is_there("driver/AB/ONE/wide.so"));
	ck_assert_int_eq(cache_seal_check(entry), 0);
	ck_assert(!is_there("driver/AB/ONE/wide.so"));
	ck_assert(is_there("driver/AB/ONE/build.log"));
}
END_TEST

START_TEST(only_what_was_written_since_is_sealed) {
	const char *entry = sealed_entry();
	const struct timespec since = { .tv_sec = time(NULL) - DAY_S };

	write_file(in_root("driver/AB/ONE/wide.so"), "new", 3);
	age(in_root("driver/AB/ONE/wide.so"), 2 * DAY_S);
	ck_assert_int_eq(cache_seal_renew(entry, &since), -EBADMSG);
	age(in_root("driver/AB/ONE/wide.so"), 0);
	/* What the seal knows may be as old as it likes. */
	age(in_root("driver/AB/ONE/program.bc"), 2 * DAY_S);
	ck_assert_int_eq(cache_seal_renew(entry, &since), 0);
	ck_assert_int_eq(cache_seal_check(entry), 0);
	ck_assert(is_there("driver/AB/ONE/wide.so"));
}
END_TEST

START_TEST(verify_reads_what_is_sealed_and_check_removes_nothing) {
	struct cache_usage u;

	sealed_entry();
	write_file(in_root("driver/AB/ONE/program.bc"), "abd", 3);
	ck_assert_int_eq(cache_folder_check(root, &u), 0);
	ck_assert_uint_eq(u.damaged.count, 1);
	ck_assert(is_there("driver/AB/ONE"));
	ck_assert_int_eq(cache_folder_verify(root, &u), 0);
	ck_assert_uint_eq(u.damaged.count, 1);
	ck_assert(!is_there("driver/AB/ONE"));
}
END_TEST

START_TEST(what_is_put_aside_is_counted_and_goes_in_a_week) {
	struct cache_usage u;

	sealed_entry();
	ck_assert_int_eq(cache_folder_put_aside(root, "AB/ONE"), 0);
	ck_assert_int_eq(cache_folder_put_aside(root, "AB/ONE"), -ENOENT);
	ck_assert(!is_there("driver/AB/ONE"));
	ck_assert_int_eq(cache_folder_prune(root, UINT64_MAX, &u), 0);
	ck_assert_uint_eq(u.aside.count, 1);
	ck_assert_uint_eq(u.removed.count, 0);
}
END_TEST

START_TEST(a_folder_that_is_not_there_holds_nothing) {
	struct cache_usage u;

	ck_assert_int_eq(cache_folder_measure("/nowhere/at/all", &u), 0);
	ck_assert_uint_eq(u.held[CACHE_PROGRAM].count, 0);
}
END_TEST

int main(void) {
	Suite *s = suite_create("cache");
	TCase *t = tcase_create("cache");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, an_entry_comes_back_as_stored);
	tcase_add_test(t, an_entry_of_which_any_byte_is_damaged_is_refused);
	tcase_add_test(t, what_was_used_longest_ago_goes_first);
	tcase_add_test(t, what_is_read_counts_as_used);
	tcase_add_test(t, leftovers_go_once_nobody_can_be_writing_them);
	tcase_add_test(t, what_the_driver_prunes_itself_stays);
	tcase_add_test(t, verify_removes_what_is_damaged_and_nothing_else);
	tcase_add_test(t, any_byte_of_any_file_breaks_a_seal);
	tcase_add_test(t, what_a_driver_touches_breaks_no_seal_and_what_it_adds_is_not_believed);
	tcase_add_test(t, only_what_was_written_since_is_sealed);
	tcase_add_test(t, verify_reads_what_is_sealed_and_check_removes_nothing);
	tcase_add_test(t, what_is_put_aside_is_counted_and_goes_in_a_week);
	tcase_add_test(t, a_folder_that_is_not_there_holds_nothing);
	suite_add_tcase(s, t);
	return suite_run(s);
}
