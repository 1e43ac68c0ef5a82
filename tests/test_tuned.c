/*
 * A knob whose default is really slow is learned by a daemon that works, with its driver's own times: each work-item of this one's kernels is
 * made to count for a while before it works (interpose.h), so that a kernel of fewer items is faster. What was learned serves other graphs
 * of that kernel, is on disk, and holds after a restart; no bit changes. How items are counted: by what stands before the driver.
 */
#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "tests/daemon.h"
#include "tests/interpose/interpose.h"
#include "tests/skip.h"
#include "tests/suite.h"

enum {
	TEST_SECONDS = 300,
	ELEMENTS = 1000 * 1000,
	FEW = 5000,
	/* Runs between two looks at what was learned: it takes some hundred runs, and a kernel that is built at idle priority. */
	RUNS = 32,
	/* At a run without a build beside it. */
	LOOKS = 200,
};

/* That an item counts to: a tenth of a millisecond, and the kernel does its work in one. */
#define ITEM_LOOPS "50000"

static char library[320], loops[64], counts_path[96];
static float x[ELEMENTS];

/* ---- the daemon ---- */

static void start_slow(void) {
	const char *environment[2] = { library, loops };

	daemon_start_again("log.level=notice", environment);
}

static void start_first(void) {
	snprintf(folder, sizeof folder, "/tmp/fusion-tuned-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	snprintf(counts_path, sizeof counts_path, "%s/counts", folder);
	snprintf(library, sizeof library, "LD_PRELOAD=%s/tests/interpose.so", build_folder());
	snprintf(loops, sizeof loops, "FUSION_INTERPOSE_ITEM_LOOPS=" ITEM_LOOPS);
	setenv("FUSION_INTERPOSE_COUNTS", counts_path, 1);
	setenv("FUSIOND_FUSION_INTERPRETER", "off", 1);
	setenv("FUSIOND_DEVICE_MEASURE", "no", 1);
	/* A launch is a kernel. */
	setenv("FUSIOND_ENGINE_SLICE_US", "0", 1);
	start_slow();
}

static const struct interpose_counts *counts_of_driver(void) {
	int fd = open(counts_path, O_RDONLY | O_CLOEXEC);
	void *p = mmap(NULL, sizeof(struct interpose_counts), PROT_READ, MAP_SHARED, fd, 0);

	ck_assert_ptr_ne(p, MAP_FAILED);
	close(fd);
	return p;
}

/* Who lets few runs be trials has the time of the others' used up, and runs what they have learned. */
static fusion_context *connect_with(const char *share) {
	fusion_context *c = connect_client();

	ck_assert_int_eq(fusion_configure(c, "fusion.tracker_share", share), 0);
	return c;
}

/* ---- what it says ---- */

static double tracker_number(fusion_context *c, const char *name) {
	char *text = fusion_stats(c, true);
	cJSON *json = cJSON_Parse(text), *item = cJSON_GetObjectItem(cJSON_GetObjectItem(json, "tracker"), name);
	double value;

	ck_assert_msg(item != NULL, "no statistic %s", name);
	value = item->valuedouble;
	cJSON_Delete(json);
	free(text);
	return value;
}

static bool stats_say(fusion_context *c, const char *what) {
	char *text = fusion_stats(c, true);
	bool said = strstr(text, what) != NULL;

	free(text);
	return said;
}

static bool file_says(const char *what) {
	char path[128], line[1024];
	bool found = false;
	FILE *f;

	snprintf(path, sizeof path, "%s/cache/tracker", folder);
	f = fopen(path, "r");
	ck_assert_ptr_nonnull(f);
	while (!found && fgets(line, sizeof line, f))
		found = strstr(line, what) != NULL;
	fclose(f);
	return found;
}

/* ---- graphs ---- */

struct arrays {
	fusion_context *c;
	fusion_array *many, *few;
};

static struct arrays upload(fusion_context *c) {
	int64_t n = ELEMENTS, few = FEW;

	return (struct arrays){ c, fusion_from(c, FUSION_F32, 1, &n, x), fusion_from(c, FUSION_F32, 1, &few, x) };
}

static void release(struct arrays *a) {
	fusion_release(a->many);
	fusion_release(a->few);
	fusion_close(a->c);
}

/* One kernel. */
static void run_one(const struct arrays *a) {
	fusion_array *y = fusion_exp(a->many);

	ck_assert_msg(!fusion_wait(y), "%s", fusion_error());
	fusion_release(y);
}

/* The same kernel, and another one, in one graph. */
static void run_two(const struct arrays *a) {
	fusion_array *y = fusion_exp(a->many), *z = fusion_square(a->few);

	ck_assert_msg(!fusion_wait(y) && !fusion_wait(z), "%s", fusion_error());
	fusion_release(y);
	fusion_release(z);
}

/* As the driver counts while it runs, alone: a program that is to be tried may be built meanwhile, which is launches, too. */
static uint64_t items_of(const struct interpose_counts *n, void (*run)(const struct arrays *a), const struct arrays *a, unsigned kernels) {
	uint64_t items = 0, launches = 0;

	for (int i = 0; i < LOOKS && launches != kernels; i++) {
		items = n->items;
		launches = n->launches;
		run(a);
		items = n->items - items;
		launches = n->launches - launches;
	}
	ck_assert_uint_eq(launches, kernels);
	return items;
}

static float *bits_of(const struct arrays *a) {
	float *bits = malloc(sizeof x);
	fusion_array *y = fusion_exp(a->many);

	ck_assert_msg(!fusion_read(y, bits, sizeof x), "%s", fusion_error());
	fusion_release(y);
	return bits;
}

static time_t seconds(void) {
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

static void learn(const struct arrays *a) {
	time_t until = seconds() + PATIENCE_S;

	while (!tracker_number(a->c, "kernels_that_run_otherwise_than_planned") && seconds() < until)
		for (int k = 0; k < RUNS; k++)
			run_one(a);
	ck_assert_double_eq(tracker_number(a->c, "kernels_that_run_otherwise_than_planned"), 1);
	ck_assert(stats_say(a->c, "fourfold"));
}

/* A plan that was made before is made again, some time: then it has other items. */
static uint64_t renewed_items(const struct interpose_counts *n, void (*run)(const struct arrays *a), const struct arrays *a, unsigned kernels,
	uint64_t before) {
	time_t until = seconds() + PATIENCE_S;
	uint64_t now = before;

	while (now == before && seconds() < until)
		now = items_of(n, run, a, kernels);
	ck_assert_uint_lt(now, before);
	return now;
}

static void expect_kept(const float *bits, uint64_t items) {
	const struct interpose_counts *n;
	struct arrays a;
	float *again;

	start_slow();
	a = upload(connect_with("1"));
	n = counts_of_driver();
	again = bits_of(&a);
	ck_assert_mem_eq(again, bits, sizeof x);
	ck_assert_uint_eq(items_of(n, run_one, &a, 1), items);
	ck_assert_double_eq(tracker_number(a.c, "trials"), 0);
	free(again);
	release(&a);
}

START_TEST(a_default_that_is_slow_is_replaced_and_stays_so) {
	const struct interpose_counts *n;
	uint64_t one, two, learned;
	struct arrays a, b;
	float *bits, *again;

	start_first();
	a = upload(connect_with("100"));
	b = upload(connect_with("1"));
	if (!stats_say(a.c, "strategy cpu")) {
		skip_says(__func__, "a GPU's work-items are not a matter of a knob");
		release(&a);
		release(&b);
		daemon_stop();
		return;
	}
	n = counts_of_driver();
	bits = bits_of(&a);
	one = items_of(n, run_one, &b, 1);
	two = items_of(n, run_two, &b, 2);
	learn(&a);
	learned = renewed_items(n, run_one, &b, 1, one);
	ck_assert_uint_eq(renewed_items(n, run_two, &b, 2, two), two - one + learned);
	again = bits_of(&a);
	ck_assert_mem_eq(again, bits, sizeof x);
	release(&a);
	release(&b);
	daemon_end();
	ck_assert(file_says("share=fourfold"));
	expect_kept(bits, learned);
	daemon_stop();
	free(again);
	free(bits);
}
END_TEST

int main(void) {
	Suite *suite = suite_create("tuned");
	TCase *t = tcase_create("knobs");

	for (int i = 0; i < ELEMENTS; i++)
		x[i] = (float)(i % 1000) / 500 - 1;
	tcase_set_timeout(t, TEST_SECONDS);
	tcase_add_test(t, a_default_that_is_slow_is_replaced_and_stays_so);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
