/*
 * What keeps the engine's answers prompt whatever else the machine does: machine code whose pages are there before it runs
 * (daemon/device/touch.c), and short turns on a processor (daemon/base/thread.h). Both are read back from the system.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <math.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <check.h>

#include "daemon/base/thread.h"
#include "daemon/device/state.h"

#include "tests/skip.h"
#include "tests/suite.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

/* ---- pages of kernels' objects ---- */

/* A driver's folder, with one object in it that was loaded. */
struct loaded {
	char folder[64], path[80];
	void *handle;
};

/* A shared object of some hundred pages that every machine has: the mathematical library, by a function that no sanitizer has, too. */
static void load_copy(struct loaded *l) {
	struct stat status;
	Dl_info info;
	int from, to;

	ck_assert_int_ne(dladdr(dlsym(RTLD_DEFAULT, "cbrt"), &info), 0);
	snprintf(l->folder, sizeof l->folder, "%s/fusion-prompt-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(l->folder));
	snprintf(l->path, sizeof l->path, "%s/k.so", l->folder);
	from = open(info.dli_fname, O_RDONLY | O_CLOEXEC);
	to = open(l->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
	ck_assert_int_eq(fstat(from, &status), 0);
	ck_assert_int_eq(sendfile(to, from, NULL, (size_t)status.st_size), status.st_size);
	close(from);
	close(to);
	l->handle = dlopen(l->path, RTLD_NOW | RTLD_LOCAL);
}

static void unload(struct loaded *l) {
	if (l->handle)
		dlclose(l->handle);
	unlink(l->path);
	rmdir(l->folder);
}

struct pages {
	const char *path;
	int pagemap;
	unsigned there, absent;
};

static int count_pages(struct dl_phdr_info *info, size_t size, void *user) {
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	struct pages *p = user;

	(void)size;
	for (unsigned i = 0; i < info->dlpi_phnum && !strcmp(info->dlpi_name, p->path); i++) {
		uintptr_t at = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr, end = at + info->dlpi_phdr[i].p_memsz;

		if (info->dlpi_phdr[i].p_type != PT_LOAD)
			continue;
		for (at &= ~(page - 1); at < end; at += page) {
			uint64_t entry = 0;

			ck_assert_int_eq(pread(p->pagemap, &entry, sizeof entry, (off_t)(at / page * sizeof entry)), sizeof entry);
			/* proc_pid_pagemap(5): present in memory, of this process. */
			*(entry >> 63 ? &p->there : &p->absent) += 1;
		}
	}
	return 0;
}

static struct pages pages_of(const struct loaded *l) {
	struct pages p = { .path = l->path, .pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC) };

	dl_iterate_phdr(count_pages, &p);
	close(p.pagemap);
	return p;
}

static bool system_tells_of_pages(void) {
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)&count_pages & ~(page - 1);
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t entry = 0;
	bool told = fd >= 0 && pread(fd, &entry, sizeof entry, (off_t)(at / page * sizeof entry)) == sizeof entry && entry >> 63;

	if (fd >= 0)
		close(fd);
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): the page of a function */
	if (told && !madvise((void *)at, page, MADV_POPULATE_READ))
		return true;
	return false;
}

static void prove_touched(struct loaded *own, struct loaded *other) {
	const struct device d = { .cache.driver = own->folder };
	struct pages before = pages_of(own), elsewhere = pages_of(other), after;

	ck_assert_uint_gt(before.there, 0);
	ck_assert_uint_gt(before.absent, 0);
	programs_touch(&d);
	after = pages_of(own);
	ck_assert_uint_eq(after.absent, 0);
	ck_assert_uint_eq(after.there, before.there + before.absent);
	/* Of what the driver did not load nothing is asked for. */
	ck_assert_uint_eq(pages_of(other).there, elsewhere.there);
	ck_assert_uint_gt(elsewhere.absent, 0);
}

START_TEST(pages_of_the_drivers_objects_are_there_before_they_run) {
	struct loaded own, other;

	if (!system_tells_of_pages())
		SKIP("the system does not tell which pages are there, or brings none that are asked for (Linux 5.14 does)");
	load_copy(&own);
	load_copy(&other);
	if (own.handle && other.handle)
		prove_touched(&own, &other);
	else
		skip_says(__func__, "%s executes nothing: %s", own.folder, dlerror());
	unload(&own);
	unload(&other);
}
END_TEST

START_TEST(a_driver_that_keeps_no_objects_has_none_touched) {
	const struct device none = { .cache.driver = NULL };
	char empty[] = "";
	const struct device nowhere = { .cache.driver = empty };
	struct loaded l;

	if (!system_tells_of_pages())
		SKIP("the system does not tell which pages are there, or brings none that are asked for (Linux 5.14 does)");
	load_copy(&l);
	programs_touch(&none);
	programs_touch(&nowhere);
	if (l.handle)
		ck_assert_uint_gt(pages_of(&l).absent, 0);
	else
		skip_says(__func__, "%s executes nothing: %s", l.folder, dlerror());
	unload(&l);
}
END_TEST

/* ---- turns ---- */

/* sched_setattr(2), as the kernel has it. */
struct attributes {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

enum { TURN_NS = 100000, NICE = 3 };

static struct attributes attributes(void) {
	struct attributes a = { .size = sizeof a };

	ck_assert_int_eq(syscall(SYS_sched_getattr, 0, &a, sizeof a, 0), 0);
	return a;
}

/* Linux 6.12 and later keep the length of a thread's turns. */
static bool turns_are_kept(void) {
	struct utsname system;
	int major = 0, minor = 0;

	ck_assert_int_eq(uname(&system), 0);
	ck_assert_int_eq(sscanf(system.release, "%d.%d", &major, &minor), 2);
	return major > 6 || (major == 6 && minor >= 12);
}

static void *look(void *user) {
	*(struct attributes *)user = attributes();
	return NULL;
}

/* What is taken back is no reason to fail: some containers let nobody set anything. */
static bool may_schedule(void) {
	struct attributes a = attributes();

	if (a.policy == SCHED_OTHER && !syscall(SYS_sched_setattr, 0, &a, 0))
		return true;
	return false;
}

/* What a thread has that is made prompt, and one that it starts. */
struct turned {
	struct attributes before, after, inherited;
};

static struct turned turn(void) {
	struct turned t = { .before = attributes() };
	pthread_t thread;

	ck_assert(thread_be_prompt());
	t.after = attributes();
	ck_assert_int_eq(thread_start(&thread, "look", look, &t.inherited), 0);
	pthread_join(thread, NULL);
	return t;
}

START_TEST(shorter_turns_change_nothing_else) {
	struct turned t;

	if (!may_schedule() || setpriority(PRIO_PROCESS, 0, NICE))
		SKIP("scheduling cannot be set here: %s", strerror(errno));
	t = turn();
	ck_assert_int_eq(t.after.nice, NICE);
	ck_assert_uint_eq(t.after.policy, SCHED_OTHER);
	ck_assert_uint_eq(t.after.flags, t.before.flags);
	ck_assert_int_eq(t.inherited.nice, NICE);
}
END_TEST

START_TEST(turns_are_short) {
	struct turned t;

	if (!may_schedule())
		SKIP("scheduling cannot be set here: %s", strerror(errno));
	if (!turns_are_kept())
		SKIP("this system keeps no length of turns: Linux 6.12 does");
	t = turn();
	ck_assert_uint_ne(t.before.runtime, TURN_NS);
	ck_assert_uint_eq(t.after.runtime, TURN_NS);
	ck_assert_uint_eq(t.inherited.runtime, TURN_NS);
}
END_TEST

START_TEST(a_thread_of_another_policy_keeps_it) {
	const struct sched_param none = { 0 };
	struct attributes before;

	if (sched_setscheduler(0, SCHED_BATCH, &none))
		SKIP("scheduling cannot be set here: %s", strerror(errno));
	before = attributes();
	ck_assert(!thread_be_prompt());
	ck_assert_uint_eq(attributes().policy, SCHED_BATCH);
	ck_assert_uint_eq(attributes().runtime, before.runtime);
}
END_TEST

int main(void) {
	Suite *suite = suite_create("prompt");
	TCase *pages = tcase_create("pages");
	TCase *turns = tcase_create("turns");

	tcase_add_test(pages, pages_of_the_drivers_objects_are_there_before_they_run);
	tcase_add_test(pages, a_driver_that_keeps_no_objects_has_none_touched);
	tcase_add_test(turns, shorter_turns_change_nothing_else);
	tcase_add_test(turns, turns_are_short);
	tcase_add_test(turns, a_thread_of_another_policy_keeps_it);
	suite_add_tcase(suite, pages);
	suite_add_tcase(suite, turns);
	return suite_run(suite);
}
