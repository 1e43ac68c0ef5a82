/*
 * The device on whatever OpenCL platform comes first (PoCL where the tests run): opening and its
 * refusals, programs and their cache, launches, marks.
 *
 * Each test runs in a process of its own and has a cache folder of its own.
 */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "daemon/device/device.h"
#include "daemon/device/resident.h"
#include "daemon/device/state.h"
#include "daemon/emit/emit.h"
#include "tests/driver_cache.h"
#include "tests/interpose/interpose.c"
#include "tests/descriptors.h"
#include "tests/test_device_kernels.h"
#include "tests/patience.h"
#include "tests/skip.h"
#include "tests/suite.h"
#include "tests/tree.h"

enum {
	TIMEOUT = 240,              /* seconds; a first build on a busy machine takes several, measuring some tens */
	COUNT = 1000,               /* elements of the arrays */
	ARENA = 4 << 20,
	MEMORY = 1 << 30,           /* of devices with memory of their own: others test on them too */
};

/* Everything is below one folder, which goes at the end, whatever failed. */
static char root[64], folder[96];
/* The driver's own cache is everybody's: builds take a tenth of the time. Programs are looked for in `folder`. */
static char driver_cache[96];
static int woken = -1;

static void wake(void *user) {
	uint64_t one = 1;

	(void)user;
	if (write(woken, &one, sizeof one) != (ssize_t)sizeof one)
		abort();
}

static void setup(void) {
	char path[128];

	snprintf(folder, sizeof folder, "%s/XXXXXX", root);
	ck_assert_ptr_nonnull(mkdtemp(folder));
	snprintf(path, sizeof path, "%s/driver", folder);
	ck_assert_int_eq(symlink(driver_cache, path), 0);
	woken = eventfd(0, EFD_CLOEXEC);
	ck_assert_int_ge(woken, 0);
}

static void teardown(void) {
	close(woken);
	tree_remove(folder);
}

/* FUSION_TEST_DISCRETE: as on a device with memory of its own. */
static struct device_config config(void) {
	return (struct device_config){ .cache_dir = folder, .wake = wake,
		.discrete = getenv("FUSION_TEST_DISCRETE") != NULL, .memory = MEMORY };
}

/* With machine code in the cache folder, whatever the driver keeps itself. */
static struct device_config keeping(void) {
	struct device_config c = config();

	c.keep = true;
	return c;
}

static struct device *open_with(struct device_config c) {
	struct device *d = NULL;
	struct fault f = { 0 };
	int r = device_open(&c, &d, &f);

	ck_assert_msg(!r, "device_open: %d %s", r, f.text);
	return d;
}

/* A case that the device gives nothing to prove with is skipped. */
static bool case_lacks(const char *test, bool has, const char *what) {
	if (!has)
		skip_says(test, "the device %s", what);
	return !has;
}
#define lacks(has, what) case_lacks(__func__, has, what)

/* What quirks.def says of the driver here. */
static unsigned quirks_here(void) {
	struct device *d = open_with(config());
	unsigned flags = d->quirks->flags;

	device_close(d);
	return flags;
}

/* The sentence of a device that must not open. */
static const char *refusal(const struct device_config *c) {
	static struct fault f;
	struct device *d = NULL;

	ck_assert_int_eq(device_open(c, &d, &f), FAULT_DEVICE);
	ck_assert_ptr_null(d);
	return f.text;
}

static void wait_event(void) {
	struct pollfd p = { .fd = woken, .events = POLLIN };
	uint64_t n;

	ck_assert_msg(poll(&p, 1, PATIENCE_MS) == 1, "nothing woke the engine");
	ck_assert_int_eq(read(woken, &n, sizeof n), sizeof n);
}

/* Waits for a build the way the engine does. */
static struct program *program_of(struct device *d, const struct kernel *k) {
	struct program *p = NULL;

	ck_assert_int_eq(device_program(d, k, &p), 0);
	while (program_state(p) == PROGRAM_BUILDING) {
		wait_event();
		device_poll(d);
	}
	device_poll(d);
	return p;
}

static struct program *ready(struct device *d, unsigned op) {
	struct kernel k;
	struct program *p;

	kernel_binary(&k, op, device_traits(d)->width);
	p = program_of(d, &k);
	ck_assert_msg(program_state(p) == PROGRAM_READY, "%s", program_log(p));
	return p;
}

/* What was found of the device is an entry of some bytes; programs and figures are larger. */
enum { ENTRY_BYTES = 128 };

/* Of the cache, that have at least so many bytes. */
static uint32_t entries_of(char *path, size_t size, off_t least) {
	char programs[128], one[256];
	struct dirent *e;
	struct stat st;
	uint32_t n = 0;
	DIR *dir;

	snprintf(programs, sizeof programs, "%s/programs", folder);
	dir = opendir(programs);
	ck_assert_ptr_nonnull(dir);
	while ((e = readdir(dir))) {
		snprintf(one, sizeof one, "%s/%.64s", programs, e->d_name);
		if (e->d_name[0] == '.' || stat(one, &st) || st.st_size < least)
			continue;
		snprintf(path, size, "%s", one);
		n++;
	}
	closedir(dir);
	return n;
}

static uint32_t entries(char *path, size_t size) {
	return entries_of(path, size, ENTRY_BYTES);
}

/* ---- launching ---- */

struct work {
	struct device *d;
	struct program *p;
	uint64_t address;
	float *host;                /* a, b, then the result; of devices with memory of their own a copy */
	uint64_t record[64];
	struct emit_launch launch;
};

/* What the host wrote is there before the next launch. */
static void work_send(struct work *w) {
	if (!device_flat(w->d))
		ck_assert_int_eq(device_upload(w->d, w->address, w->host, 3 * COUNT * sizeof(float)), 0);
}

/* The result, once all launches have run. */
static const float *work_result(struct work *w) {
	if (!device_flat(w->d)) {
		ck_assert_int_eq(device_download(w->d, w->host, w->address, 3 * COUNT * sizeof(float)), 0);
		ck_assert_int_eq(device_finish(w->d), 0);
	}
	return w->host + 2 * COUNT;
}

static void work_open(struct work *w, struct device *d, struct program *p) {
	const struct kernel *k = program_kernel(p);
	int64_t dims[KERNEL_RANK] = { COUNT };
	void *host;

	memset(w, 0, sizeof *w);
	w->d = d;
	w->p = p;
	if (device_flat(d)) {
		ck_assert_int_eq(device_map(d, -1, ARENA, &w->address, &host), 0);
	} else {
		ck_assert_int_eq(device_take(d, 3 * COUNT * sizeof(float), &w->address), 0);
		host = calloc(3 * COUNT, sizeof(float));
	}
	w->host = host;
	for (unsigned i = 0; i < COUNT; i++) {
		w->host[i] = (float)i;
		w->host[COUNT + i] = 0.5f;
	}
	work_send(w);
	w->launch = emit_geometry(k, device_traits(d), dims, 0, w->record);
	w->record[kernel_word_dim(0)] = COUNT;
	for (unsigned i = 0; i < 3; i++) {
		w->record[kernel_word_operand(k, i)] = w->address + i * COUNT * sizeof(float);
		w->record[kernel_word_operand(k, i) + 1] = 1;
	}
}

static int work_launch(struct work *w) {
	return device_launch(w->d, w->p, w->record, 1, w->launch.items, w->launch.local);
}

static void answered(void *user, int error) {
	int *stand = user;

	ck_assert_int_eq(error, 0);
	*stand += 1;
}

static void wait_for(struct device *d, const int *stand, int least) {
	while (*stand < least) {
		wait_event();
		device_poll(d);
	}
}

START_TEST(the_device_computes_in_memory_the_host_sees) {
	struct device *d = open_with(config());
	struct work w;
	int marks = 0;

	if (lacks(device_flat(d), "has memory of its own")) {
		device_close(d);
		return;
	}
	ck_assert_msg(device_exact(d), "%s", device_notes(d));
	work_open(&w, d, ready(d, OP_add));
	ck_assert_int_eq(work_launch(&w), 0);
	ck_assert_int_eq(device_mark(d, answered, &marks), 0);
	ck_assert_uint_eq(device_pending(d), 1);
	ck_assert_int_eq(device_flush(d), 0);
	wait_for(d, &marks, 1);
	ck_assert_uint_eq(device_pending(d), 0);
	for (unsigned i = 0; i < COUNT; i++)
		ck_assert(w.host[2 * COUNT + i] == (float)i + 0.5f);
	device_unmap(d, w.address, ARENA);
	device_close(d);
}
END_TEST

START_TEST(two_arenas_are_reached_by_one_launch) {
	struct device *d = open_with(config());
	int fd = memfd_create("test", MFD_CLOEXEC), marks = 0;
	struct work w;
	uint64_t address;
	void *host;

	if (lacks(device_flat(d), "has memory of its own")) {
		device_close(d);
		close(fd);
		return;
	}
	ck_assert_int_eq(ftruncate(fd, ARENA), 0);
	work_open(&w, d, ready(d, OP_add));
	ck_assert_int_eq(device_map(d, fd, ARENA, &address, &host), 0);
	close(fd);
	w.record[kernel_word_operand(program_kernel(w.p), 2)] = address;
	ck_assert_int_eq(work_launch(&w), 0);
	ck_assert_int_eq(device_mark(d, answered, &marks), 0);
	wait_for(d, &marks, 1);
	ck_assert(((float *)host)[COUNT - 1] == COUNT - 1 + 0.5f);
	device_unmap(d, address, ARENA);
	device_close(d);
}
END_TEST

START_TEST(several_tasks_run_in_one_launch) {
	struct device *d = open_with(config());
	struct program *p = ready(d, OP_mul);
	uint32_t words = kernel_record_words(program_kernel(p));
	uint64_t records[2 * 64];
	struct work a, b;
	int marks = 0;

	work_open(&a, d, p);
	work_open(&b, d, p);
	for (unsigned i = 0; i < COUNT; i++)
		b.host[COUNT + i] = 3;
	work_send(&b);
	memcpy(records, a.record, words * sizeof *records);
	memcpy(records + words, b.record, words * sizeof *records);
	ck_assert_int_eq(device_launch(d, p, records, 2, a.launch.items, a.launch.local), 0);
	ck_assert_int_eq(device_mark(d, answered, &marks), 0);
	wait_for(d, &marks, 1);
	ck_assert(work_result(&a)[7] == 3.5f);
	ck_assert(work_result(&b)[7] == 21.0f);
	ck_assert_uint_eq(device_counters(d)->tasks, 2);
	device_close(d);
}
END_TEST

START_TEST(memory_beyond_the_reserved_range_is_refused) {
	struct device *d = open_with(config());
	uint64_t address;
	void *host;

	if (lacks(device_flat(d), "has memory of its own")) {
		device_close(d);
		return;
	}
	ck_assert_int_eq(device_map(d, -1, UINT64_C(1) << 42, &address, &host), -EINVAL);
	ck_assert_int_eq(device_map(d, -1, 0, &address, &host), -EINVAL);
	device_close(d);
}
END_TEST

/* ---- marks and the ring ---- */

static int order[3000];
static int answers;

static void note_order(void *user, int error) {
	ck_assert_int_eq(error, 0);
	order[answers++] = (int)(intptr_t)user;
}

START_TEST(many_marks_are_answered_in_order) {
	struct device *d = open_with(config());
	struct work w;
	int marks = 0;

	work_open(&w, d, ready(d, OP_add));
	for (int i = 0; i < 3000; i++) {
		int r = i % 3 ? 0 : work_launch(&w);

		while (r == -EAGAIN) {
			wait_event();
			device_poll(d);
			r = work_launch(&w);
		}
		ck_assert_int_eq(r, 0);
		ck_assert_int_eq(device_mark(d, note_order, (void *)(intptr_t)i), 0);
	}
	ck_assert_int_eq(device_mark(d, answered, &marks), 0);
	wait_for(d, &marks, 1);
	ck_assert_int_eq(answers, 3000);
	for (int i = 0; i < 3000; i++)
		ck_assert_int_eq(order[i], i);
	ck_assert_uint_eq(device_pending(d), 0);
	device_close(d);
}
END_TEST

START_TEST(a_mark_on_an_idle_device_is_answered_too) {
	struct device *d = open_with(config());
	int marks = 0;

	ck_assert_int_eq(device_mark(d, answered, &marks), 0);
	ck_assert_int_eq(marks, 0);
	wait_for(d, &marks, 1);
	device_close(d);
}
END_TEST

static struct device *again_device;
static int again_left = 5;

static void mark_again(void *user, int error) {
	answered(user, error);
	if (again_left-- > 0)
		ck_assert_int_eq(device_mark(again_device, mark_again, user), 0);
}

START_TEST(a_mark_may_be_made_while_one_is_answered) {
	int marks = 0;

	again_device = open_with(config());
	ck_assert_int_eq(device_mark(again_device, mark_again, &marks), 0);
	wait_for(again_device, &marks, 6);
	device_close(again_device);
}
END_TEST

/* 1 MiB of records of 128 bytes is 8,192 launches: the ring goes round several times. */
START_TEST(the_ring_of_records_wraps_without_marks_of_the_caller) {
	struct device *d = open_with(config());
	const struct kernel *k;
	uint64_t expected = 0;
	const float *got;
	struct work w;

	work_open(&w, d, ready(d, OP_add));
	k = program_kernel(w.p);
	/* Each launch adds b to another element of the result, so that a record read wrongly shows. */
	for (unsigned i = 0; i < COUNT; i++)
		w.host[2 * COUNT + i] = 0;
	work_send(&w);
	w.record[KERNEL_WORD_UNITS] = w.record[KERNEL_WORD_ITEMS] = 1;
	w.record[KERNEL_WORD_EXTENT] = 1;
	w.record[kernel_word_dim(0)] = 1;
	for (unsigned i = 0; i < 30000; i++) {
		uint64_t element = (2 * COUNT + i % COUNT) * sizeof(float);
		int r;

		w.record[kernel_word_operand(k, 0)] = w.record[kernel_word_operand(k, 2)] = w.address + element;
		while ((r = work_launch(&w)) == -EAGAIN) {
			wait_event();
			device_poll(d);
			expected++;
		}
		ck_assert_int_eq(r, 0);
	}
	/* Where records are arguments nothing of the ring is taken. */
	ck_assert(expected > 0 || device_traits(d)->own_words);
	ck_assert_int_eq(device_finish(d), 0);
	got = work_result(&w);
	for (unsigned i = 0; i < COUNT; i++)
		ck_assert(got[i] == 15.0f);
	ck_assert_uint_eq(device_counters(d)->launches, 30000);
	device_close(d);
}
END_TEST

/* ---- programs ---- */

START_TEST(equal_kernels_share_a_program) {
	struct device *d = open_with(config());
	struct program *p = ready(d, OP_add);

	ck_assert_ptr_eq(p, ready(d, OP_add));
	ck_assert_ptr_ne(p, ready(d, OP_mul));
	ck_assert_uint_eq(device_counters(d)->builds, 2);
	/* Each once or twice, as the driver needs, and once more where what its common cache has is not believed. */
	ck_assert_uint_ge(device_counters(d)->warmups, 2);
	ck_assert_uint_le(device_counters(d)->warmups, 8);
	ck_assert_ptr_nonnull(strstr(program_source(p), "kernel"));
	device_close(d);
}
END_TEST

START_TEST(a_program_is_asked_for_without_waiting_for_its_build) {
	struct device *d = open_with(config());
	struct program *p;
	struct kernel k;

	kernel_chain(&k, 40, 0x5555, device_traits(d)->width);
	ck_assert_int_eq(device_program(d, &k, &p), 0);
	ck_assert_int_eq(program_state(p), PROGRAM_BUILDING);
	ck_assert_ptr_null(program_source(p));
	ck_assert_int_eq(program_state(program_of(d, &k)), PROGRAM_READY);
	device_close(d);
}
END_TEST

static atomic_bool idle_called;

/* A machine that is never idle: a worker of idle priority begins and gets nowhere. Others cannot be had. */
static int start_worker_never(void *user, bool idle) {
	(void)user;
	if (!idle)
		return -ENOSYS;
	atomic_store(&idle_called, true);
	return 0;
}

START_TEST(who_begins_to_wait_does_not_wait_for_idle_priority) {
	struct device_config c = config();
	struct timespec begin, end;
	struct program *p;
	struct kernel k;
	struct device *d;

	c.want_worker = start_worker_never;
	d = open_with(c);
	kernel_binary(&k, OP_sub, device_traits(d)->width);
	ck_assert_int_eq(device_program_spare(d, &k, &p), 0);
	while (!atomic_load(&idle_called))
		usleep(1000);
	clock_gettime(CLOCK_MONOTONIC, &begin);
	ck_assert_int_eq(program_state(program_of(d, &k)), PROGRAM_READY);
	clock_gettime(CLOCK_MONOTONIC, &end);
	/* Builders of what nobody waits for have half a minute (builder.c). */
	ck_assert_int_lt(end.tv_sec - begin.tv_sec, 25);
	device_close(d);
}
END_TEST

static struct program *asked(struct device *d, unsigned op) {
	struct program *p = NULL;
	struct kernel k;

	kernel_binary(&k, op, device_traits(d)->width);
	ck_assert_int_eq(device_program(d, &k, &p), 0);
	return p;
}

START_TEST(what_most_launches_want_is_built_first) {
	const struct timespec pause = { .tv_nsec = 1000000 };
	struct device *d = open_with(config());
	struct program *first, *seldom, *often;

	rules.hold = 1;
	rules.build_ms = 100;
	first = asked(d, OP_add);
	while (!atomic_load(&first->begun))
		nanosleep(&pause, NULL);
	seldom = asked(d, OP_mul);
	often = asked(d, OP_sub);
	for (unsigned i = 0; i < 3; i++)
		device_want(d, often, true);
	rules.hold = 0;
	while (program_state(seldom) == PROGRAM_BUILDING) {
		bool begun = atomic_load(&seldom->begun);

		ck_assert(!begun || atomic_load(&often->begun));
		nanosleep(&pause, NULL);
	}
	ck_assert_int_eq(program_state(often), PROGRAM_READY);
	device_close(d);
}
END_TEST

START_TEST(several_hundred_kernels_find_their_programs) {
	struct device_config c = config();
	struct program *p[300];
	struct device *d;
	struct kernel k;

	c.discrete = true; /* programs are asked for, not waited for: any device will do */
	d = open_with(c);
	for (unsigned i = 0; i < 300; i++) {
		kernel_chain(&k, 17, i, 16);
		k.value[2].op = i < 150 ? OP_add : OP_mul;
		k.long_rows = i >= 150;
		ck_assert_int_eq(device_program(d, &k, &p[i]), 0);
	}
	for (unsigned i = 0; i < 300; i++) {
		struct program *again;

		kernel_chain(&k, 17, i, 16);
		k.value[2].op = i < 150 ? OP_add : OP_mul;
		k.long_rows = i >= 150;
		ck_assert_int_eq(device_program(d, &k, &again), 0);
		ck_assert_ptr_eq(again, p[i]);
		for (unsigned j = 0; j < i; j++)
			ck_assert_ptr_ne(p[j], p[i]);
	}
	device_close(d); /* with builds queued */
}
END_TEST

/* Programs go to disk while the device is idle; at the end of one there may be no time for all. */
static void wait_for_entries(struct device *d, char *path, size_t size, uint32_t count) {
	for (int i = 0; i < PATIENCE_S * 20 && entries(path, size) < count; i++) {
		struct timespec t = { .tv_nsec = 50000000 };

		nanosleep(&t, NULL);
		device_poll(d);
	}
}

START_TEST(a_program_is_found_on_disk_after_reopening) {
	struct device *d = open_with(keeping());
	struct work w;
	char path[256];
	int marks = 0;

	ready(d, OP_add);
	ck_assert_uint_eq(device_counters(d)->builds_cached, 0);
	wait_for_entries(d, path, sizeof path, 2); /* the probes' and ours */
	device_close(d);
	ck_assert_uint_ge(entries(path, sizeof path), 2);

	d = open_with(keeping());
	work_open(&w, d, ready(d, OP_add));
	ck_assert_uint_eq(device_counters(d)->builds_cached, 1);
	ck_assert_uint_eq(device_counters(d)->builds, 0);
	ck_assert_uint_eq(program_build_us(w.p), 0);
	ck_assert_int_eq(work_launch(&w), 0);
	ck_assert_int_eq(device_mark(d, answered, &marks), 0);
	wait_for(d, &marks, 1);
	ck_assert(work_result(&w)[1] == 1.5f);
	device_close(d);
}
END_TEST

static uint64_t launches_of_opening(bool flat, bool exact) {
	uint64_t before = counts->launches;
	struct device *d = open_with(config());

	before = counts->launches - before;
	ck_assert_int_eq(device_flat(d), flat);
	ck_assert_int_eq(device_exact(d), exact);
	device_close(d);
	return before;
}

START_TEST(what_was_found_of_a_device_is_not_looked_for_again) {
	struct device *d = open_with(config());
	bool flat = device_flat(d), exact = device_exact(d);
	char path[256];

	device_close(d);
	if (lacks(exact, "is not exact"))
		return;
	ck_assert_uint_eq(launches_of_opening(flat, exact), 0);
	while (entries_of(path, sizeof path, 0))
		ck_assert_int_eq(remove(path), 0);
	ck_assert_uint_gt(launches_of_opening(flat, exact), 0);
}
END_TEST

START_TEST(programs_go_to_disk_while_the_device_is_idle) {
	struct device *d = open_with(keeping());
	char path[256];
	uint32_t programs;
	struct work w;
	int r;

	/* The kernel's, that of the trial of arithmetic, and that of matrix instructions where the device has them. */
	programs = device_traits(d)->matrix ? 3 : 2;
	work_open(&w, d, ready(d, OP_add));
	ck_assert_uint_eq(entries(path, sizeof path), 0);
	wait_for_entries(d, path, sizeof path, programs);
	ck_assert_uint_eq(entries(path, sizeof path), programs);
	/* One that is just being written is launched a little later. */
	while ((r = work_launch(&w)) == -EAGAIN) {
		wait_event();
		device_poll(d);
	}
	ck_assert_int_eq(r, 0);
	ck_assert_int_eq(device_finish(d), 0);
	device_close(d);
}
END_TEST

START_TEST(a_driver_that_compiles_anew_for_a_binary_is_not_asked_for_one) {
	struct device *d;
	char path[256];

	if (lacks(quirks_here() & QUIRK_COSTLY_BINARY, "gives machine code as it has it"))
		return;
	d = open_with(config());
	ready(d, OP_add);
	device_close(d);
	ck_assert_uint_eq(entries(path, sizeof path), 0);
}
END_TEST

/* Entries that are so long. */
static void damage_all(off_t at, bool cut) {
	char programs[128], path[256];
	unsigned damaged = 0;
	struct dirent *e;
	DIR *dir;

	snprintf(programs, sizeof programs, "%s/programs", folder);
	dir = opendir(programs);
	ck_assert_ptr_nonnull(dir);
	while ((e = readdir(dir))) {
		unsigned char byte;
		int fd;

		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof path, "%s/%.64s", programs, e->d_name);
		fd = open(path, O_RDWR);
		ck_assert_int_ge(fd, 0);
		if (pread(fd, &byte, 1, at) != 1) {
			close(fd);
			continue;
		}
		damaged++;
		byte ^= 0x10;
		ck_assert_int_eq(pwrite(fd, &byte, 1, at), 1);
		if (cut)
			ck_assert_int_eq(ftruncate(fd, at), 0);
		close(fd);
	}
	closedir(dir);
	ck_assert_uint_gt(damaged, 0);
}

static void damaged_is_rebuilt(off_t at, bool cut) {
	struct device *d = open_with(keeping());

	ready(d, OP_add);
	device_close(d);
	damage_all(at, cut);
	d = open_with(keeping());
	ready(d, OP_add);
	ck_assert_uint_eq(device_counters(d)->builds_cached, 0);
	ck_assert_uint_eq(device_counters(d)->builds, 1);
	device_close(d);
	/* Written anew, and whole. */
	d = open_with(keeping());
	ready(d, OP_add);
	ck_assert_uint_eq(device_counters(d)->builds_cached, 1);
	device_close(d);
}

START_TEST(a_damaged_entry_of_the_cache_is_built_again) {
	damaged_is_rebuilt(1000, false);
}
END_TEST

START_TEST(a_cut_entry_of_the_cache_is_built_again) {
	damaged_is_rebuilt(30, true);
}
END_TEST

START_TEST(an_entry_with_a_foreign_key_is_built_again) {
	damaged_is_rebuilt(20, false);
}
END_TEST

/* The only note there is says now that another driver built its kernel. */
static void change_note(const char *notes, const struct cache_key *key) {
	char *note = NULL, *driver;
	size_t size;

	ck_assert_int_eq(cache_entry_read(notes, key, (void **)&note, &size), 0);
	driver = note;
	for (unsigned line = 0; line < 3; line++)
		driver = strchr(driver, '\n') + 1;
	*driver = '#';
	ck_assert_int_eq(cache_entry_write(notes, key, note, size), 0);
	free(note);
}

/* Some devices have kernels of their own beside the test's. */
static void change_notes(void) {
	struct cache_key key[16] = { 0 };
	unsigned keys = 0;
	char notes[128];
	struct dirent *e;
	DIR *dir;

	snprintf(notes, sizeof notes, "%s/notes", folder);
	dir = opendir(notes);
	ck_assert_ptr_nonnull(dir);
	while ((e = readdir(dir)) && keys < 16)
		keys += !cache_entry_key(e->d_name, &key[keys]);
	closedir(dir);
	ck_assert_uint_gt(keys, 0);
	for (unsigned i = 0; i < keys; i++)
		change_note(notes, &key[i]);
}

/* Where machine code is kept by us, it would be found: its name, unlike the note, is the driver's that runs. */
static void forget_programs(void) {
	char path[256];

	while (entries(path, sizeof path))
		ck_assert_int_eq(unlink(path), 0);
}

START_TEST(why_a_program_is_built_again_is_told) {
	struct device *d = open_with(config());
	struct program_story s = program_story(ready(d, OP_add));

	ck_assert(!s.known && s.compile_us && s.first_us);
	ck_assert_str_eq(s.why, "this kernel was not built here before");
	device_close(d);
	change_notes();
	forget_programs();
	d = open_with(config());
	s = program_story(ready(d, OP_add));
	ck_assert(!s.known);
	ck_assert_ptr_eq(strstr(s.why, "its driver is another: it was #"), s.why);
	device_close(d);
	d = open_with(config());
	ck_assert(program_story(ready(d, OP_add)).known);
	ck_assert_uint_eq(device_counters(d)->builds, 0);
	device_close(d);
}
END_TEST

/* ---- code that goes and comes again ---- */

static const uint16_t residents[] = { OP_add, OP_sub, OP_mul, OP_maximum };

enum { RESIDENTS = sizeof residents / sizeof *residents };

static struct device_config resident_config(uint64_t bytes) {
	struct device_config c = config();

	c.driver_programs = 1;
	c.programs_bytes = bytes;
	c.near = true;
	return c;
}

/* One that is built again is launched a little later. */
static void launch_and_copy(struct device *d, struct program *p, float *result) {
	struct work w;
	int r;

	work_open(&w, d, p);
	while ((r = work_launch(&w)) == -EAGAIN) {
		wait_event();
		device_poll(d);
	}
	ck_assert_int_eq(r, 0);
	ck_assert_int_eq(device_finish(d), 0);
	memcpy(result, work_result(&w), COUNT * sizeof *result);
	if (device_flat(d))
		device_unmap(d, w.address, ARENA);
}

static void expect_same(struct device *d, struct program *const *p, float (*want)[COUNT]) {
	for (unsigned i = 0; i < RESIDENTS; i++) {
		float got[COUNT];

		launch_and_copy(d, p[i], got);
		ck_assert_msg(!memcmp(got, want[i], sizeof got), "operation %u gives other bits", residents[i]);
	}
}

static void expect_nothing_loaded(struct device *d) {
	ck_assert_int_eq(device_finish(d), 0);
	device_poll(d);
	ck_assert_uint_eq(device_counters(d)->programs_loaded, 0);
	ck_assert_uint_eq(device_counters(d)->programs_bytes, 0);
}

/* All that the caches have of programs; what is loaded stays as it is. */
static void forget_everything(void) {
	char command[256];

	snprintf(command, sizeof command, "rm -rf %s/origins/* %s/programs/*", folder, folder);
	ck_assert_int_eq(system(command), 0);
}

START_TEST(code_beyond_the_limit_goes_and_comes_again_with_the_same_bits) {
	struct device *d = open_with(resident_config(0));
	struct program *p[RESIDENTS];
	float want[RESIDENTS][COUNT];
	const struct device_counters *n;

	for (unsigned i = 0; i < RESIDENTS; i++) {
		p[i] = ready(d, residents[i]);
		launch_and_copy(d, p[i], want[i]);
	}
	ck_assert_uint_eq(device_counters(d)->programs_loaded, RESIDENTS);
	ck_assert_uint_eq(device_counters(d)->programs_evicted, 0);
	device_close(d);

	/* Nothing fits: what has run is let go of. */
	d = open_with(resident_config(1));
	n = device_counters(d);
	for (unsigned i = 0; i < RESIDENTS; i++)
		p[i] = ready(d, residents[i]);
	expect_same(d, p, want);
	expect_nothing_loaded(d);
	ck_assert_uint_ge(n->programs_evicted, RESIDENTS);
	expect_same(d, p, want);
	expect_nothing_loaded(d);
	/* What the caches have no more is built again. */
	forget_everything();
	expect_same(d, p, want);
	expect_nothing_loaded(d);
	device_close(d);
}
END_TEST

START_TEST(many_programs_are_called_without_the_driver) {
	struct device *d = open_with(resident_config(0));
	struct program *p[RESIDENTS];
	float want[RESIDENTS][COUNT];
	struct work w;

	if (!d->quirks->object) {
		device_close(d);
		SKIP("this driver does well with many");
	}
	for (unsigned i = 0; i < RESIDENTS; i++)
		launch_and_copy(d, ready(d, residents[i]), want[i]);
	device_close(d);
	/* What the driver's cache has, sealed, is loaded from there. */
	d = open_with(resident_config(0));
	for (unsigned i = 0; i < RESIDENTS; i++)
		p[i] = ready(d, residents[i]);
	ck_assert_int_eq(d->direct.state, DIRECT_OPEN);
	expect_same(d, p, want);
	ck_assert_uint_eq(device_counters(d)->launches_direct, RESIDENTS - 1);
	work_open(&w, d, p[1]);
	ck_assert_int_eq(device_launch_near(d, p[1], w.record, 1, w.launch.items, w.launch.local), 0);
	ck_assert(!memcmp(work_result(&w), want[1], sizeof want[1]));
	ck_assert_uint_eq(device_counters(d)->launches_direct, RESIDENTS);
	device_close(d);
}
END_TEST

START_TEST(code_that_runs_is_not_let_go_of) {
	struct device *d = open_with(resident_config(1));
	struct program *p = ready(d, OP_add);
	struct work w;

	work_open(&w, d, p);
	while (work_launch(&w) == -EAGAIN) {
		wait_event();
		device_poll(d);
	}
	/* Nothing has been told to have ended. */
	resident_limit(d);
	ck_assert_uint_eq(device_counters(d)->programs_loaded, 1);
	expect_nothing_loaded(d);
	device_close(d);
}
END_TEST

/* Opens a device that measures itself, and lets it, as an idle engine does. */
static struct device *open_measured(void) {
	const struct timespec pause = { .tv_nsec = 10000000 };
	struct device_config c = config();
	struct device *d;

	c.measure = true;
	d = open_with(c);
	while (device_measuring(d)) {
		nanosleep(&pause, NULL);
		device_poll(d);
	}
	return d;
}

/* What no unit of a device of any kind does in a nanosecond: 128 lanes add, and read 4 bytes each, at 6 GHz. */
#define UNIT_MOST (128.0 * 6)

/* Whoever else uses the machine makes figures worse alone, so these hold at any time. */
static void check_bounds(const struct rates *r, unsigned units) {
	for (unsigned u = 0; u < RATE_UNITS; u++) {
		const double *read = r->memory[u][RATE_READ];
		double most = UNIT_MOST * (u == RATE_ALL ? units : 1);

		for (unsigned i = 0; i < RATE_SIZES; i++)
			ck_assert_double_le(read[i], 4 * most);
		for (unsigned i = 1; i < RATE_SIZES; i++)
			ck_assert_double_ge(read[i - 1], read[i]);
		for (unsigned f = 0; f < RATE_FLOATS; f++) {
			ck_assert_double_ge(r->product_ns[u][f], 1 / most);
			for (unsigned c = 0; c < RATE_CLASSES; c++)
				ck_assert_double_ge(r->op_ns[u][f][c], 1 / most);
		}
	}
}

START_TEST(an_idle_device_is_measured_once) {
	const struct rates *typical = rates_typical(STRATEGY_CPU), *r;
	struct device *d = open_measured();
	struct rates first;

	first = device_traits(d)->rates;
	r = &first;
	ck_assert(r->measured);
	ck_assert(rates_sound(r));
	ck_assert(memcmp(r, typical, sizeof *r) != 0);
	/* More than a launch of nothing, and less than what no machine has. */
	ck_assert_double_lt(r->launch_ns, r->wait_ns);
	ck_assert_double_gt(r->op_ns[RATE_ONE][RATE_F32][RATE_POW], r->op_ns[RATE_ONE][RATE_F32][RATE_CHEAP]);
	ck_assert_double_gt(r->bytes[RATE_SIZES - 1], r->bytes[0]);
	for (unsigned k = 0; k < RATE_TRAFFICS; k++)
		ck_assert_double_ge(r->memory[RATE_ALL][k][0], r->memory[RATE_ONE][k][0]);
	check_bounds(r, device_traits(d)->units);
	device_close(d);
	/* Found on disk, at once. */
	d = open_with((struct device_config){ .cache_dir = folder, .wake = wake, .measure = true });
	ck_assert(!device_measuring(d));
	ck_assert(!memcmp(&device_traits(d)->rates, &first, sizeof first));
	device_close(d);
}
END_TEST

START_TEST(figures_damaged_on_disk_are_measured_again) {
	struct device *d = open_measured();

	device_close(d);
	damage_all(200, false);
	d = open_with((struct device_config){ .cache_dir = folder, .wake = wake, .measure = true });
	ck_assert(device_measuring(d));
	ck_assert(!device_traits(d)->rates.measured);
	ck_assert(rates_sound(&device_traits(d)->rates));
	/* Not while there is something else to do. */
	ready(d, OP_add);
	ck_assert(device_measuring(d));
	device_close(d);
}
END_TEST

START_TEST(memory_the_driver_refuses_is_refused_here) {
	struct device *d;
	struct device_config c = config();
	uint64_t address;

	c.discrete = true;
	d = open_with(c);
	rules.memory = counts->buffer_bytes + (1 << 20);
	ck_assert_int_eq(device_take(d, 4 << 20, &address), -ENOSPC);
	/* Smaller pools are tried before one is given up; what one is first written with is there before an array is. */
	ck_assert_int_eq(device_take(d, 1 << 16, &address), 0);
	ck_assert_uint_gt(counts->buffers_refused, 2);
	ck_assert_uint_eq(counts->writes_left, 0);
	device_close(d);
}
END_TEST

START_TEST(a_kernel_that_does_not_build_fails_with_its_log) {
	struct device_config c = config();
	struct device *d = open_with(c);
	struct kernel k;
	struct program *p;

	kernel_binary(&k, OP_add, device_traits(d)->width);
	k.width = 3; /* no vectors of 3 in the function library */
	p = program_of(d, &k);
	ck_assert_int_eq(program_state(p), PROGRAM_FAILED);
	ck_assert_uint_gt(strlen(program_log(p)), 20);
	ck_assert_ptr_nonnull(program_source(p));
	ck_assert_uint_eq(device_counters(d)->build_failures, 1);
	device_close(d);
}
END_TEST

/* ---- refusals ---- */

START_TEST(without_a_driver_the_sentence_names_the_package) {
	struct device_config c = config();

	setenv("OCL_ICD_VENDORS", "/nonexistent", 1);
	ck_assert_ptr_nonnull(strstr(refusal(&c), "no OpenCL platform was found; install pocl-opencl-icd"));
}
END_TEST

START_TEST(a_driver_that_dies_while_it_is_listed_gives_a_sentence) {
	struct device_config c = config();

	setenv("FUSION_INTERPOSE_DIE", "platforms", 1);
	ck_assert_ptr_nonnull(strstr(refusal(&c), "died (signal 6)"));
}
END_TEST

/* In a process of its own, where nothing is up: what opens the device, and how it ended. */
static int status_of(int (*opens)(const struct device_config *c)) {
	struct device_config c = config();
	int status = 0;
	pid_t pid;

	c.tried_again = true;
	pid = fork();
	if (!pid)
		_exit(opens(&c));
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return status;
}

enum {
	OPENED = 1,
	OPENED_ALONE,                /* without a child */
	REFUSED_FOR_DEATH,
};

static int opens(const struct device_config *c) {
	struct device *d = NULL;
	struct fault f = { 0 };
	struct rusage u;

	if (device_open(c, &d, &f))
		return strstr(f.text, "died (signal 6)") ? REFUSED_FOR_DEATH : 0;
	device_close(d);
	return !getrusage(RUSAGE_CHILDREN, &u) && u.ru_maxrss ? OPENED : OPENED_ALONE;
}

static int opens_where_drivers_die(const struct device_config *c) {
	setenv("FUSION_INTERPOSE_DIE", "platforms", 1);
	return opens(c);
}

START_TEST(drivers_that_were_listed_once_are_listed_without_a_child) {
	ck_assert_int_eq(WEXITSTATUS(status_of(opens)), OPENED);
	ck_assert_int_eq(WEXITSTATUS(status_of(opens)), OPENED_ALONE);
	ck_assert_int_eq(WEXITSTATUS(status_of(opens)), OPENED_ALONE);
	/* Of another list nothing is known. */
	setenv("OCL_ICD_FILENAMES", "/nonexistent.so", 1);
	ck_assert_int_eq(WEXITSTATUS(status_of(opens)), OPENED);
}
END_TEST

START_TEST(a_driver_that_dies_without_a_child_gives_a_sentence_the_next_time) {
	int status;

	ck_assert_int_eq(WEXITSTATUS(status_of(opens)), OPENED);
	status = status_of(opens_where_drivers_die);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	ck_assert_int_eq(WEXITSTATUS(status_of(opens_where_drivers_die)), REFUSED_FOR_DEATH);
	ck_assert_int_eq(WEXITSTATUS(status_of(opens)), OPENED);
	ck_assert_int_eq(WEXITSTATUS(status_of(opens)), OPENED_ALONE);
}
END_TEST

START_TEST(a_platform_that_does_not_exist_is_named_with_those_that_do) {
	struct device_config c = config();

	c.platform = "Nonesuch";
	ck_assert_ptr_nonnull(strstr(refusal(&c), "\"Nonesuch\" (there are: \""));
	c.platform = NULL;
	c.device = "Nonesuch";
	ck_assert_ptr_nonnull(strstr(refusal(&c), "\"Nonesuch\" (there are: \""));
}
END_TEST

START_TEST(a_strategy_that_does_not_exist_is_refused) {
	struct device_config c = config();
	struct device *d;
	struct fault f;

	c.strategy = "quantum";
	ck_assert_int_eq(device_open(&c, &d, &f), FAULT_ARGUMENT);
	ck_assert_ptr_nonnull(strstr(f.text, "quantum"));
}
END_TEST

START_TEST(a_cache_folder_that_cannot_be_made_is_named) {
	struct device_config c = config();

	c.cache_dir = "/proc/nowhere/cache";
	ck_assert_ptr_nonnull(strstr(refusal(&c), "cache folder /proc/nowhere/cache cannot be made"));
	c.cache_dir = NULL;
	ck_assert_ptr_nonnull(strstr(refusal(&c), "no cache folder is set"));
}
END_TEST

START_TEST(a_cache_folder_that_cannot_be_written_to_is_named) {
	struct device_config c = config();

	/* root may write everywhere, so nobody tries */
	if (!geteuid()) {
		ck_assert_int_eq(chown(folder, 65534, 65534), 0);
		ck_assert_int_eq(setresuid(65534, 65534, 65534), 0);
	}
	ck_assert_int_eq(chmod(folder, 0555), 0);
	ck_assert_ptr_nonnull(strstr(refusal(&c), "cannot be"));
	ck_assert_ptr_nonnull(strstr(refusal(&c), folder));
	ck_assert_int_eq(chmod(folder, 0755), 0);
}
END_TEST

static bool write_text(const char *path, const char *text) {
	FILE *f = fopen(path, "we");
	bool written = f && fputs(text, f) >= 0;

	return f && !fclose(f) && written;
}

/* A mount namespace of this process alone; of a plain user, in one where it is root. */
static bool own_mounts(void) {
	char user[32], group[32];

	if (!geteuid())
		return !unshare(CLONE_NEWNS);
	snprintf(user, sizeof user, "0 %u 1\n", (unsigned)geteuid());
	snprintf(group, sizeof group, "0 %u 1\n", (unsigned)getegid());
	return !unshare(CLONE_NEWUSER | CLONE_NEWNS) && write_text("/proc/self/uid_map", user) &&
	       write_text("/proc/self/setgroups", "deny") && write_text("/proc/self/gid_map", group);
}

START_TEST(a_cache_folder_that_executes_nothing_is_named) {
	struct device_config c = config();
	/* A process may have a namespace of users only before it has threads, which drivers start. */
	bool own = own_mounts();

	if (lacks(quirks_here() & QUIRK_EXECUTES_CACHE, "executes nothing from its cache"))
		return;
	if (!own || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
		mount("none", folder, "tmpfs", MS_NOEXEC, "size=16m,mode=700"))
		SKIP("no file system can be mounted here: %s", strerror(errno));
	ck_assert_ptr_nonnull(strstr(refusal(&c), "executes nothing"));
	ck_assert_ptr_nonnull(strstr(refusal(&c), "without noexec"));
	umount2(folder, MNT_DETACH);
}
END_TEST

START_TEST(a_missing_linker_is_named_with_its_package) {
	struct device_config c = config();

	if (lacks(quirks_here() & QUIRK_NEEDS_LINKER, "runs no linker"))
		return;
	setenv("PATH", "/nonexistent:/proc", 1);
	ck_assert_ptr_nonnull(strstr(refusal(&c), "install binutils"));
}
END_TEST

/* ---- devices with memory of their own ---- */

static struct device *open_discrete(uint64_t memory) {
	struct device_config c = config();

	c.discrete = true;
	c.memory = memory;
	return open_with(c);
}

START_TEST(a_discrete_device_computes_in_its_own_memory) {
	struct device *d = open_discrete(0);
	struct program *p = ready(d, OP_add);
	const struct kernel *k = program_kernel(p);
	float a[COUNT], b[COUNT], out[COUNT];
	int64_t dims[KERNEL_RANK] = { COUNT };
	uint64_t record[64], address[3];
	struct emit_launch launch;
	int marks = 0;

	ck_assert(!device_flat(d));
	ck_assert_uint_gt(device_traits(d)->pools, 1);
	launch = emit_geometry(k, device_traits(d), dims, 0, record);
	record[kernel_word_dim(0)] = COUNT;
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_int_eq(device_take(d, sizeof a, &address[i]), 0);
		record[kernel_word_operand(k, i)] = address[i];
		record[kernel_word_operand(k, i) + 1] = 1;
	}
	for (unsigned i = 0; i < COUNT; i++) {
		a[i] = (float)i;
		b[i] = 0.25f;
	}
	ck_assert_int_eq(device_upload(d, address[0], a, sizeof a), 0);
	ck_assert_int_eq(device_upload(d, address[1], b, sizeof b), 0);
	ck_assert_int_eq(device_launch(d, p, record, 1, launch.items, launch.local), 0);
	ck_assert_int_eq(device_download(d, out, address[2], sizeof out), 0);
	ck_assert_int_eq(device_mark(d, answered, &marks), 0);
	wait_for(d, &marks, 1);
	for (unsigned i = 0; i < COUNT; i++)
		ck_assert(out[i] == (float)i + 0.25f);
	ck_assert_uint_eq(device_counters(d)->uploads, 2);
	ck_assert_uint_eq(device_counters(d)->download_bytes, sizeof out);
	device_close(d);
}
END_TEST

/* Two arrays that lie side by side here and there are sent as one, before whatever comes next. */
START_TEST(uploads_side_by_side_are_one_copy) {
	struct device *d = open_discrete(0);
	static float from[3 * COUNT], to[3 * COUNT];
	const uint64_t part = COUNT * sizeof(float);
	uint64_t address;

	for (unsigned i = 0; i < 3 * COUNT; i++)
		from[i] = (float)i;
	ck_assert_int_eq(device_take(d, sizeof from, &address), 0);
	ck_assert_int_eq(device_upload(d, address, from, part), 0);
	ck_assert_int_eq(device_upload(d, address + part, from + COUNT, part), 0);
	ck_assert_uint_eq(device_counters(d)->uploads, 0);
	/* Side by side there, but not here. */
	ck_assert_int_eq(device_upload(d, address + 2 * part, from, part), 0);
	ck_assert_uint_eq(device_counters(d)->uploads, 1);
	ck_assert_int_eq(device_download(d, to, address, sizeof to), 0);
	ck_assert_uint_eq(device_counters(d)->uploads, 2);
	ck_assert_uint_eq(device_counters(d)->upload_bytes, sizeof from);
	ck_assert_int_eq(device_finish(d), 0);
	ck_assert_int_eq(memcmp(to, from, 2 * part), 0);
	ck_assert_int_eq(memcmp(to + 2 * COUNT, from, part), 0);
	device_close(d);
}
END_TEST

START_TEST(pools_are_made_until_the_limit_and_used_again) {
	const uint64_t mib = 1 << 20;
	struct device *d = open_discrete(600 * mib);
	uint64_t address[4];

	for (unsigned i = 0; i < 2; i++)
		ck_assert_int_eq(device_take(d, 200 * mib, &address[i]), 0);
	ck_assert_uint_ne(address[0] >> KERNEL_POOL_SHIFT, address[1] >> KERNEL_POOL_SHIFT);
	ck_assert_int_eq(device_take(d, 200 * mib, &address[2]), -ENOSPC);
	ck_assert_int_eq(device_take(d, 50 * mib, &address[2]), 0);
	device_give(d, address[1], 200 * mib);
	ck_assert_int_eq(device_take(d, 201 * mib, &address[3]), 0);
	ck_assert_uint_eq(address[3] >> KERNEL_POOL_SHIFT, address[1] >> KERNEL_POOL_SHIFT);
	device_close(d);
}
END_TEST

START_TEST(the_gpu_strategy_can_be_forced) {
	struct device_config c = config();
	struct device *d;
	struct work w;
	int marks = 0;

	c.strategy = "gpu";
	d = open_with(c);
	ck_assert_int_eq(device_traits(d)->strategy, STRATEGY_GPU);
	work_open(&w, d, ready(d, OP_add));
	ck_assert_int_eq(work_launch(&w), 0);
	ck_assert_int_eq(device_mark(d, answered, &marks), 0);
	wait_for(d, &marks, 1);
	ck_assert(work_result(&w)[999] == 999.5f);
	device_close(d);
}
END_TEST

/* ---- nothing is left ---- */

START_TEST(closing_gives_back_descriptors_and_address_space) {
	int before;

	device_close(open_with(config())); /* what the driver keeps for good */
	before = open_descriptors(getpid());
	for (int i = 0; i < 5; i++) {
		struct device *d = open_with(config());

		ready(d, OP_add);
		device_close(d);
	}
	ck_assert_int_le(open_descriptors(getpid()), before);
	ck_assert_uint_eq(counts->buffers, counts->buffers_released);
}
END_TEST

/* ---- cost ---- */

static double thread_us(void) {
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* Told, not judged: machines differ. */
START_TEST(the_cost_of_a_launch_is_told) {
	struct device *d = open_with(config());
	double begin, launch = 0, mark = 0;
	struct work w;
	int marks = 0;

	work_open(&w, d, ready(d, OP_add));
	for (int round = 0; round < 5; round++) {
		begin = thread_us();
		for (int i = 0; i < 1000; i++)
			ck_assert_msg(!work_launch(&w), "launch");
		launch = (thread_us() - begin) / 1000;
		ck_assert_int_eq(device_finish(d), 0);
		begin = thread_us();
		for (int i = 0; i < 1000; i++)
			if (work_launch(&w) || device_mark(d, answered, &marks))
				ck_abort();
		mark = (thread_us() - begin) / 1000;
		ck_assert_int_eq(device_finish(d), 0);
	}
	printf("launch %.2f us, with a mark each %.2f us of the engine's CPU\n", launch, mark);
	device_close(d);
}
END_TEST

static TCase *add_case(Suite *s, const char *name) {
	TCase *c = tcase_create(name);

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, TIMEOUT);
	suite_add_tcase(s, c);
	return c;
}

/* Asks until the program is compiled for it, as many launches would. */
static void launch_near(struct work *w) {
	const struct timespec pause = { .tv_nsec = 100 * 1000 };
	int r = -EAGAIN;

	for (unsigned asked = 0; r == -EAGAIN; asked++) {
		r = device_launch_near(w->d, w->p, w->record, 1, w->launch.items, w->launch.local);
		if (r && asked > 10000)
			nanosleep(&pause, NULL);
	}
	ck_assert_int_eq(r, 0);
}

START_TEST(small_launches_run_on_the_calling_thread_to_the_same_bits) {
	struct device_config c = config();
	float expected[COUNT];
	struct device *d;
	struct work w;
	int marks = 0;

	c.near = true;
	d = open_with(c);
	if (lacks(d->near.queue, "has none that computes on the thread that asks")) {
		device_close(d);
		return;
	}
	work_open(&w, d, ready(d, OP_logaddexp));
	ck_assert_int_eq(work_launch(&w), 0);
	ck_assert_int_eq(device_launch_near(d, w.p, w.record, 1, w.launch.items, w.launch.local), -EAGAIN);
	ck_assert_int_eq(device_finish(d), 0);
	memcpy(expected, work_result(&w), sizeof expected);
	for (unsigned i = 0; i < 3; i++) {
		memset(w.host + 2 * COUNT, 0, sizeof expected);
		launch_near(&w);
		ck_assert_mem_eq(work_result(&w), expected, sizeof expected);
	}
	ck_assert_uint_eq(device_counters(d)->launches_near, 3);
	/* What is asked for next goes behind it, either way. */
	ck_assert_int_eq(device_mark(d, answered, &marks), 0);
	wait_for(d, &marks, 1);
	memset(w.host + 2 * COUNT, 0, sizeof expected);
	ck_assert_int_eq(work_launch(&w), 0);
	ck_assert_int_eq(device_mark(d, answered, &marks), 0);
	ck_assert_int_eq(device_flush(d), 0);
	wait_for(d, &marks, 2);
	ck_assert_mem_eq(work_result(&w), expected, sizeof expected);
	launch_near(&w);
	device_close(d);
}
END_TEST

/* A device some of whose threads claim, and work for it; NULL, with a note, where there are none. */
static struct device *open_claiming(struct work *w) {
	struct device_config c = config();
	struct device *d;

	c.near = true;
	d = open_with(c);
	if (lacks(d->helpers.count, "has no threads that claim")) {
		device_close(d);
		return NULL;
	}
	work_open(w, d, ready(d, OP_add));
	return d;
}

/* Until it is: the program must be compiled for it. Other programs on the machine stop nothing here. */
static int launch_claimed(struct work *w, const uint64_t *records, uint32_t tasks) {
	const struct timespec pause = { .tv_nsec = 100 * 1000 };
	int r = -EAGAIN;

	for (unsigned asked = 0; r == -EAGAIN; asked++) {
		w->d->helpers.pause_ns = 0;
		r = device_launch_claimed(w->d, w->p, records, tasks, w->launch.items);
		if (r && asked > 10000)
			nanosleep(&pause, NULL);
	}
	return r;
}

/* Tasks of one element each, so that there is something to claim. */
START_TEST(claimed_launches_do_each_item_once) {
	enum { TASKS = 40, ROUNDS = 300 };
	uint64_t records[TASKS * 64];
	struct device *d;
	struct work w;
	uint32_t words;
	int marks = 0;

	d = open_claiming(&w);
	if (!d)
		return;
	words = kernel_record_words(program_kernel(w.p));
	for (unsigned t = 0; t < TASKS; t++) {
		uint64_t *record = records + (size_t)t * words;

		memcpy(record, w.record, words * sizeof *record);
		record[kernel_word_dim(0)] = 1;
		for (unsigned o = 0; o < 3; o++)
			record[kernel_word_operand(program_kernel(w.p), o)] += t * sizeof(float);
		/* What is done twice is added twice. */
		record[kernel_word_operand(program_kernel(w.p), 2)] = record[kernel_word_operand(program_kernel(w.p), 0)];
	}
	for (unsigned i = 0; i < COUNT; i++) {
		w.host[i] = (float)i;
		w.host[COUNT + i] = 1;
	}
	for (unsigned i = 1; i <= ROUNDS; i++) {
		ck_assert_int_eq(launch_claimed(&w, records, TASKS), 0);
		for (unsigned t = 0; t < TASKS; t++)
			ck_assert_msg(w.host[t] == (float)(t + i), "round %u, task %u: %g", i, t, (double)w.host[t]);
	}
	ck_assert(w.host[TASKS] == TASKS);
	ck_assert_uint_eq(device_counters(d)->launches_claimed, ROUNDS);
	/* A mark behind it is answered, and what runs on the driver's threads is waited for. */
	ck_assert_int_eq(device_mark(d, answered, &marks), 0);
	wait_for(d, &marks, 1);
	ck_assert_int_eq(work_launch(&w), 0);
	ck_assert_int_eq(device_launch_claimed(d, w.p, records, TASKS, w.launch.items), -EAGAIN);
	ck_assert_int_eq(device_finish(d), 0);
	ck_assert_int_eq(launch_claimed(&w, records, TASKS), 0);
	device_close(d);
}
END_TEST

START_TEST(nothing_is_claimed_while_a_helper_is_late_or_for_a_while_after_it) {
	struct device *d;
	struct work w;

	d = open_claiming(&w);
	if (!d)
		return;
	ck_assert_int_eq(launch_claimed(&w, w.record, 1), 0);
	while (atomic_load(&d->helpers.busy))
		sched_yield();
	/* As if one had not come back from the launch before; then, as if it had been late. */
	atomic_store(&d->helpers.busy, 1);
	ck_assert_int_eq(device_launch_claimed(d, w.p, w.record, 1, w.launch.items), -EAGAIN);
	atomic_store(&d->helpers.busy, 0);
	d->helpers.pause_ns = 1;
	d->helpers.resume_ns = UINT64_MAX;
	ck_assert_uint_eq(device_helpers(d), 0);
	ck_assert_int_eq(device_launch_claimed(d, w.p, w.record, 1, w.launch.items), -EAGAIN);
	d->helpers.resume_ns = 0;
	ck_assert_uint_eq(device_helpers(d), d->helpers.count);
	ck_assert_int_eq(launch_claimed(&w, w.record, 1), 0);
	device_close(d);
}
END_TEST

START_TEST(records_without_room_are_not_claimed) {
	static uint64_t records[8192];
	struct device *d;
	struct work w;

	d = open_claiming(&w);
	if (!d)
		return;
	ck_assert_int_eq(launch_claimed(&w, w.record, 1), 0);
	ck_assert_int_eq(device_launch_claimed(d, w.p, records, 8192 / kernel_record_words(program_kernel(w.p)), w.launch.items), -EAGAIN);
	device_close(d);
}
END_TEST

/* Those of this process that may use one processor alone, which is added to `processors`. */
static uint32_t threads_bound(cpu_set_t *processors) {
	struct threads *t = threads_now();
	uint32_t count = 0;

	ck_assert_ptr_nonnull(t);
	CPU_ZERO(processors);
	for (size_t i = 0; i < t->count; i++) {
		cpu_set_t of;

		if (sched_getaffinity(t->id[i], sizeof of, &of) || CPU_COUNT(&of) != 1)
			continue;
		CPU_OR(processors, processors, &of);
		count++;
	}
	free(t);
	return count;
}

START_TEST(each_thread_that_computes_has_a_processor_of_its_own) {
	struct device_config c = config();
	cpu_set_t allowed, processors;
	struct device *d;

	c.bind = true;
	ck_assert_int_eq(sched_getaffinity(0, sizeof allowed, &allowed), 0);
	d = open_with(c);
	if (lacks(d->quirks->flags & QUIRK_THREADS, "has no threads here that compute") ||
		lacks(d->traits.units > 1 && d->traits.units == (uint32_t)CPU_COUNT(&allowed), "has not as many units as processors")) {
		device_close(d);
		return;
	}
	ck_assert_uint_eq(threads_bound(&processors), d->traits.units);
	ck_assert(CPU_EQUAL(&processors, &allowed));
	device_close(d);
}
END_TEST

START_TEST(threads_are_not_bound_where_the_process_may_use_fewer_processors) {
	struct device_config c = config();
	cpu_set_t allowed, fewer;
	struct device *d;

	ck_assert_int_eq(sched_getaffinity(0, sizeof allowed, &allowed), 0);
	if (lacks(CPU_COUNT(&allowed) > 1, "has one processor"))
		return;
	fewer = allowed;
	for (int i = 0; CPU_EQUAL(&fewer, &allowed); i++)
		CPU_CLR(i, &fewer);
	c.bind = true;
	ck_assert_int_eq(sched_setaffinity(0, sizeof fewer, &fewer), 0);
	d = open_with(c);
	ck_assert_uint_eq(d->bound, 0);
	device_close(d);
}
END_TEST

static void add_work(TCase *c) {
	tcase_add_test(c, each_thread_that_computes_has_a_processor_of_its_own);
	tcase_add_test(c, threads_are_not_bound_where_the_process_may_use_fewer_processors);
	tcase_add_test(c, small_launches_run_on_the_calling_thread_to_the_same_bits);
	tcase_add_test(c, claimed_launches_do_each_item_once);
	tcase_add_test(c, nothing_is_claimed_while_a_helper_is_late_or_for_a_while_after_it);
	tcase_add_test(c, records_without_room_are_not_claimed);
	tcase_add_test(c, the_device_computes_in_memory_the_host_sees);
	tcase_add_test(c, two_arenas_are_reached_by_one_launch);
	tcase_add_test(c, several_tasks_run_in_one_launch);
	tcase_add_test(c, memory_beyond_the_reserved_range_is_refused);
	tcase_add_test(c, many_marks_are_answered_in_order);
	tcase_add_test(c, a_mark_on_an_idle_device_is_answered_too);
	tcase_add_test(c, a_mark_may_be_made_while_one_is_answered);
	tcase_add_test(c, the_ring_of_records_wraps_without_marks_of_the_caller);
	tcase_add_test(c, a_discrete_device_computes_in_its_own_memory);
	tcase_add_test(c, pools_are_made_until_the_limit_and_used_again);
	tcase_add_test(c, uploads_side_by_side_are_one_copy);
	tcase_add_test(c, memory_the_driver_refuses_is_refused_here);
	tcase_add_test(c, the_gpu_strategy_can_be_forced);
	tcase_add_test(c, closing_gives_back_descriptors_and_address_space);
	tcase_add_test(c, the_cost_of_a_launch_is_told);
}

static void add_programs(TCase *c) {
	tcase_add_test(c, equal_kernels_share_a_program);
	tcase_add_test(c, a_program_is_asked_for_without_waiting_for_its_build);
	tcase_add_test(c, who_begins_to_wait_does_not_wait_for_idle_priority);
	tcase_add_test(c, what_most_launches_want_is_built_first);
	tcase_add_test(c, several_hundred_kernels_find_their_programs);
	tcase_add_test(c, a_program_is_found_on_disk_after_reopening);
	tcase_add_test(c, what_was_found_of_a_device_is_not_looked_for_again);
	tcase_add_test(c, programs_go_to_disk_while_the_device_is_idle);
	tcase_add_test(c, a_driver_that_compiles_anew_for_a_binary_is_not_asked_for_one);
	tcase_add_test(c, a_damaged_entry_of_the_cache_is_built_again);
	tcase_add_test(c, why_a_program_is_built_again_is_told);
	tcase_add_test(c, code_beyond_the_limit_goes_and_comes_again_with_the_same_bits);
	tcase_add_test(c, many_programs_are_called_without_the_driver);
	tcase_add_test(c, code_that_runs_is_not_let_go_of);
	tcase_add_test(c, a_cut_entry_of_the_cache_is_built_again);
	tcase_add_test(c, an_entry_with_a_foreign_key_is_built_again);
	tcase_add_test(c, a_kernel_that_does_not_build_fails_with_its_log);
	tcase_add_test(c, an_idle_device_is_measured_once);
	tcase_add_test(c, figures_damaged_on_disk_are_measured_again);
}

static void add_refusals(TCase *c) {
	tcase_add_test(c, without_a_driver_the_sentence_names_the_package);
	tcase_add_test(c, a_driver_that_dies_while_it_is_listed_gives_a_sentence);
	tcase_add_test(c, drivers_that_were_listed_once_are_listed_without_a_child);
	tcase_add_test(c, a_driver_that_dies_without_a_child_gives_a_sentence_the_next_time);
	tcase_add_test(c, a_platform_that_does_not_exist_is_named_with_those_that_do);
	tcase_add_test(c, a_strategy_that_does_not_exist_is_refused);
	tcase_add_test(c, a_cache_folder_that_cannot_be_made_is_named);
	tcase_add_test(c, a_cache_folder_that_cannot_be_written_to_is_named);
	tcase_add_test(c, a_cache_folder_that_executes_nothing_is_named);
	tcase_add_test(c, a_missing_linker_is_named_with_its_package);
}

int main(void) {
	Suite *s = suite_create("device");
	int failed;

	strcpy(root, "/tmp/fusiond-test-device-XXXXXX");
	/* Readable for nobody too, which a test becomes. */
	if (!mkdtemp(root) || chmod(root, 0755))
		return EXIT_FAILURE;
	if (!driver_cache_choose(driver_cache, sizeof driver_cache, root))
		return EXIT_FAILURE;

	add_work(add_case(s, "work"));
	add_programs(add_case(s, "programs"));
	add_refusals(add_case(s, "refusals"));
	failed = suite_run(s);
	tree_remove(root);
	return failed;
}
