/*
 * daemon/base/cache_trust and cache_room: whose folder a path leads to. The other user is played by chown(2) and seteuid(2), so most of it
 * runs as root alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <check.h>

#include "daemon/base/cache_folder.h"
#include "protocol/fault.h"

#include "tests/skip.h"
#include "tests/suite.h"
#include "tests/tree.h"

enum {
	ROOM = 256,
	/* Users of whom the machine need not know. */
	ONE = 54321,
	OTHER = 54322,
	LINKS = 50,
};

static char root[ROOM], memory[ROOM];

static const char *in_root(const char *name) {
	static char path[4][ROOM];
	static unsigned next;
	char *one = path[next++ % 4];

	snprintf(one, ROOM, "%.100s/%.100s", root, name);
	return one;
}

static void folder(const char *name, uid_t owner, mode_t mode) {
	ck_assert_int_eq(mkdir(in_root(name), 0700), 0);
	ck_assert_int_eq(chown(in_root(name), owner, (gid_t)-1), 0);
	ck_assert_int_eq(chmod(in_root(name), mode), 0);
}

static void be(uid_t uid) {
	ck_assert_int_eq(seteuid(0), 0);
	ck_assert_int_eq(seteuid(uid), 0);
}

static void setup(void) {
	strcpy(root, "/tmp/test_cache_trust_XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(root));
	ck_assert_int_eq(chmod(root, 0755), 0);
	memory[0] = 0;
}

static void teardown(void) {
	if (!getuid())
		be(0);
	tree_remove(root);
	if (memory[0])
		tree_remove(memory);
}

static void trusts(const char *name) {
	struct fault f = { 0 };
	int r = cache_folder_trust(in_root(name), &f);

	ck_assert_msg(!r, "%s: %d, %s", name, r, f.text);
}

/* The sentence names the step. */
static void refuses(const char *name, const char *step, const char *why) {
	struct fault f = { 0 };

	ck_assert_int_eq(cache_folder_trust(in_root(name), &f), FAULT_DEVICE);
	ck_assert_msg(strstr(f.text, in_root(step)) && strstr(f.text, why), "%s", f.text);
}

START_TEST(a_folder_that_others_may_write_is_refused) {
	folder("own", geteuid(), 0700);
	trusts("own");
	folder("open", geteuid(), 0777);
	refuses("open", "open", "others may write");
	folder("open/inside", geteuid(), 0700);
	refuses("open/inside", "open", "others may write");
	folder("sticky", geteuid(), 01777);
	refuses("sticky", "sticky", "others may write");
	folder("sticky/inside", geteuid(), 0700);
	trusts("sticky/inside");
	trusts("sticky/./inside/../inside");
}
END_TEST

START_TEST(links_are_walked_and_end) {
	char name[ROOM], to[ROOM];

	folder("own", geteuid(), 0700);
	folder("own/deep", geteuid(), 0700);
	folder("open", geteuid(), 0777);
	ck_assert_int_eq(symlink(in_root("own/deep"), in_root("link")), 0);
	trusts("link");
	ck_assert_int_eq(symlink("own/../own", in_root("relative")), 0);
	trusts("relative/deep");
	ck_assert_int_eq(symlink("open", in_root("opened")), 0);
	refuses("opened", "open", "others may write");
	for (unsigned i = 0; i < LINKS; i++) {
		snprintf(name, sizeof name, "%u", i);
		snprintf(to, sizeof to, "%u", (i + 1) % LINKS);
		ck_assert_int_eq(symlink(to, in_root(name)), 0);
	}
	ck_assert_int_eq(cache_folder_trust(in_root("0"), NULL), -ELOOP);
	ck_assert_int_eq(cache_folder_trust(in_root("nowhere"), NULL), -ENOENT);
}
END_TEST

START_TEST(a_path_that_begins_here_is_walked_from_the_root) {
	folder("open", geteuid(), 0777);
	folder("open/inside", geteuid(), 0700);
	ck_assert_int_eq(chdir(in_root("open")), 0);
	ck_assert_int_eq(cache_folder_trust("inside", NULL), FAULT_DEVICE);
}
END_TEST

START_TEST(a_folder_of_another_user_is_refused_and_what_lies_above_too) {
	if (getuid())
		SKIP("another user is played by root alone");
	folder("one", ONE, 0755);
	folder("one/own", OTHER, 0700);
	folder("one/roots", 0, 0755);
	be(OTHER);
	refuses("one", "one", "belongs to the user 54321");
	refuses("one/own", "one", "belongs to the user 54321");
	be(0);
	folder("own", OTHER, 0700);
	be(OTHER);
	trusts("own");
	/* What is root's may lie above, and is no cache of this user's. */
	be(ONE);
	refuses("one/roots", "one/roots", "belongs to the user 0");
	be(0);
	refuses("own", "own", "belongs to the user 54322");
}
END_TEST

START_TEST(a_group_with_others_in_it_may_not_write) {
	if (getuid())
		SKIP("another user is played by root alone");
	folder("own", OTHER, 0775);
	ck_assert_int_eq(chown(in_root("own"), OTHER, ONE), 0);
	be(OTHER);
	refuses("own", "own", "others may write");
}
END_TEST

START_TEST(a_link_of_another_user_is_refused_whatever_it_leads_to) {
	if (getuid())
		SKIP("another user is played by root alone");
	folder("sticky", 0, 01777);
	folder("own", OTHER, 0700);
	be(ONE);
	ck_assert_int_eq(symlink(in_root("own"), in_root("sticky/link")), 0);
	be(OTHER);
	refuses("sticky/link", "sticky/link", "belongs to the user 54321");
	ck_assert_int_eq(symlink(in_root("own"), in_root("sticky/mine")), 0);
	trusts("sticky/mine");
}
END_TEST

/* As after a full disk: the driver's part is a link to shared memory. */
static void cache_in_memory(uid_t owner, uid_t of_memory) {
	strcpy(memory, "/dev/shm/fusiond-cache-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(memory));
	ck_assert_int_eq(chown(memory, of_memory, (gid_t)-1), 0);
	folder("cache", owner, 0700);
	folder("cache/driver.disk", owner, 0700);
	ck_assert_int_eq(symlink(memory, in_root("cache/driver")), 0);
	ck_assert_int_eq(lchown(in_root("cache/driver"), owner, (gid_t)-1), 0);
}

static bool is_link(const char *name) {
	struct stat status;

	ck_assert_int_eq(lstat(in_root(name), &status), 0);
	return S_ISLNK(status.st_mode);
}

START_TEST(memory_whose_name_another_user_took_is_not_kept) {
	if (getuid())
		SKIP("another user is played by root alone");
	cache_in_memory(OTHER, ONE);
	be(OTHER);
	/* Also while it runs: before each build. */
	ck_assert_int_eq(cache_folder_make_room(in_root("cache"), &(struct fault){ 0 }), 0);
	ck_assert(!is_link("cache/driver"));
	be(0);
	ck_assert_int_eq(access(memory, F_OK), 0);
	ck_assert_int_eq(access(in_root("cache/driver.disk"), F_OK), -1);
}
END_TEST

START_TEST(memory_of_ones_own_is_given_back_once_there_is_room) {
	cache_in_memory(geteuid(), geteuid());
	ck_assert_int_eq(cache_folder_make_room(in_root("cache"), &(struct fault){ 0 }), 0);
	ck_assert(is_link("cache/driver"));
	cache_folder_return(in_root("cache"));
	ck_assert(!is_link("cache/driver"));
	ck_assert_int_eq(access(memory, F_OK), -1);
}
END_TEST

int main(void) {
	Suite *s = suite_create("cache_trust");
	TCase *t = tcase_create("cache_trust");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_folder_that_others_may_write_is_refused);
	tcase_add_test(t, links_are_walked_and_end);
	tcase_add_test(t, a_path_that_begins_here_is_walked_from_the_root);
	tcase_add_test(t, a_folder_of_another_user_is_refused_and_what_lies_above_too);
	tcase_add_test(t, a_group_with_others_in_it_may_not_write);
	tcase_add_test(t, a_link_of_another_user_is_refused_whatever_it_leads_to);
	tcase_add_test(t, memory_whose_name_another_user_took_is_not_kept);
	tcase_add_test(t, memory_of_ones_own_is_given_back_once_there_is_room);
	suite_add_tcase(s, t);
	return suite_run(s);
}
