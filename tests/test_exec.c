/*
 * exec over a real device (PoCL where the tests run) and real plans: values, memory, failures, order.
 *
 * Each test runs in a process of its own. OpenCL is interposed, so that builds and launches can be
 * made to fail; the test plays serve: it creates arenas and waits as the engine's loop does.
 */
#include <check.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/loop.h"
#include "daemon/exec/exec.h"
#include "daemon/plan/generic.h"
#include "protocol/shm.h"
#include "tests/driver_cache.h"
#include "tests/interpose/interpose.c"
#include "tests/descriptors.h"
#include "tests/patience.h"
#include "tests/skip.h"
#include "tests/slice.h"
#include "tests/suite.h"
#include "tests/tree.h"

enum {
	TIMEOUT = 120,               /* seconds; a first build on a busy machine takes several */
	N = 1000,                    /* elements of most arrays */
	CLIENT_ARENA = 1,            /* laid out by the test */
	CLIENT_BYTES = 32 << 20,
	ARENAS = 64,
};

/* ---- the stage ---- */

/* Everything is below one folder, which goes at the end, whatever failed. */
static char root[64], folder[96];
/* The driver's own cache is everybody's: builds take a tenth of the time. Programs are looked for in `folder`. */
static char driver_cache[96];
static int woken = -1;

static struct stage {
	struct device *device;
	struct plan_cache *plans;
	struct exec *exec;
	struct space *space;
	struct lane *lane;
	struct graph *graph;
	bool fuse;
	/* arenas as a client would map them */
	char *arena[ARENAS];
	uint64_t bytes[ARENAS];
	uint32_t arenas;
	uint64_t laid_out;           /* of the client's arena */
	int grow_error;
	bool late;                   /* arenas for results come when answer() is called */
	uint64_t asked;              /* then: for how many bytes; 0: for none */
	uint64_t held, most;         /* bytes of arenas for results: there are, there may be; most 0: no limit */
	unsigned grows, awaits, drops, freed;
	uint64_t freed_offset;
	bool timed;                  /* runs are */
	bool alone;                  /* runs share no launch */
	bool loner;                  /* ... and nothing else is with the device meanwhile */
	enum config_interpreter interpreter;
	uint64_t timeout_us;         /* of runs */
	uint64_t slice_ns, long_ns;  /* set before open_stage() */
	bool reaches;                /* kernels reach host memory; set before open_stage() */
	unsigned times;              /* told */
	double fastest_ns;
} st;

static void wake(void *user) {
	uint64_t one = 1;

	(void)user;
	if (write(woken, &one, sizeof one) != (ssize_t)sizeof one)
		abort();
}

static int add_arena(uint64_t bytes, bool engine_owned) {
	uint32_t id = ++st.arenas;
	void *base;
	int fd;

	ck_assert_uint_lt(id, ARENAS);
	ck_assert_int_eq(shm_create("test", bytes, &fd), 0);
	ck_assert_int_eq(shm_map(fd, bytes, NULL, &base), 0);
	st.arena[id] = base;
	st.bytes[id] = bytes;
	st.held += engine_owned ? bytes : 0;
	return space_add_arena(st.space, id, fd, bytes, engine_owned);
}

static bool is_refused(uint64_t bytes) {
	return st.most && st.held + bytes > st.most;
}

static int grow(void *user, uint64_t bytes) {
	(void)user;
	st.grows++;
	if (st.late) {
		ck_assert_uint_eq(st.asked, 0);
		st.asked = bytes;
		return -EAGAIN;
	}
	if (st.grow_error || is_refused(bytes))
		return st.grow_error ? st.grow_error : -ENOMEM;
	return add_arena(bytes, true);
}

/* The arena that was asked for comes; or it is refused. */
static void answer_only(int error) {
	uint64_t bytes = st.asked;

	ck_assert_uint_gt(bytes, 0);
	st.asked = 0;
	if (error)
		space_refused(st.space, error);
	else
		ck_assert_int_eq(add_arena(bytes, true), 0);
}

static void answer(int error) {
	answer_only(error);
	exec_progress(st.exec);
}

static int await(void *user) {
	(void)user;
	st.awaits++;
	answer_only(st.grow_error);
	return 0;
}

/* Room for the panels of two factors of the tests, not for three. */
enum { FACTOR_ROWS = 6, FACTOR_COLUMNS = 20, PACKED_BYTES = 2048, VECTOR = 16 };

/* Of a device with memory of its own; the small one has room for seven large arrays beside what is nobody's. */
enum { MEMORY = 1 << 30, BIG = 1 << 18, ROOM = 7, SMALL_MEMORY = (ROOM + 1) * BIG * (int)sizeof(float) };

static void freed(void *user, uint32_t arena, uint64_t offset, uint64_t bytes) {
	(void)user;
	(void)bytes;
	ck_assert_uint_eq(arena, CLIENT_ARENA);
	st.freed++;
	st.freed_offset = offset;
}

static void drop(void *user, uint32_t arena) {
	(void)user;
	munmap(st.arena[arena], st.bytes[arena]);
	st.arena[arena] = NULL;
	st.held -= st.bytes[arena];
	st.drops++;
}

static void open_space(uint64_t quota) {
	const struct space_callbacks c = { .grow = grow, .await = await, .freed = freed, .drop = drop };

	ck_assert_int_eq(space_new(st.exec, &c, quota, &st.space), 0);
}

static void open_parts(const struct device_config *c, uint64_t scratch, uint64_t quota) {
	struct exec_config e = { .scratch_bytes = scratch, .packed_bytes = PACKED_BYTES, .interpreter = st.interpreter,
		.slice_ns = st.slice_ns, .long_ns = st.long_ns };
	struct fault f = { 0 };

	ck_assert_msg(!device_open(c, &st.device, &f), "%s", f.text);
	ck_assert_int_eq(plan_cache_new(64, &st.plans), 0);
	e.device = st.device;
	e.plans = st.plans;
	ck_assert_int_eq(exec_new(&e, &st.exec), 0);
	ck_assert_int_eq(graph_new(&st.graph), 0);
	ck_assert_int_eq(lane_new(st.exec, &st.lane), 0);
	open_space(quota);
	ck_assert_int_eq(add_arena(CLIENT_BYTES, false), 0);
	st.fuse = true;
}

static void open_stage(const char *strategy, bool discrete, uint64_t scratch, uint64_t quota) {
	const struct device_config c = {
		.cache_dir = folder, .wake = wake, .strategy = strategy, .builders = 1,
		/* FUSION_TEST_DISCRETE: as on a device with memory of its own. */
		.discrete = discrete || getenv("FUSION_TEST_DISCRETE"),
		.reach = st.reaches,
		/* Others test on such a device too. */
		.memory = MEMORY
	};

	open_parts(&c, scratch, quota);
}

static void open_usual(void) {
	open_stage(NULL, false, 0, 0);
}

static void open_small(void) {
	const struct device_config c = {
		.cache_dir = folder, .wake = wake, .builders = 1, .discrete = true, .memory = SMALL_MEMORY
	};

	open_parts(&c, 0, 0);
}

/* Tests of arenas that hold results, where the device keeps them in memory of its own. */
/* Kernels of more operations do not build. A GPU's have a branch for whole vectors and one for what is left. */
static void limit_ops(uint64_t ops) {
	rules.ops = device_traits(st.device)->strategy == STRATEGY_GPU ? 2 * ops : ops;
}

static bool lacks_flat(const char *test) {
	bool lacks = !device_flat(st.device);

	if (lacks)
		skip_says(test, "the device has memory of its own");
	return lacks;
}
/* The case that asks is skipped. */
#define lacks_flat_memory() lacks_flat(__func__)

static void close_stage(void) {
	st.lane = lane_free(st.lane);
	st.space = space_free(st.space);
	st.exec = exec_free(st.exec);
	st.plans = plan_cache_free(st.plans);
	st.graph = graph_free(st.graph);
	st.device = device_close(st.device);
	for (uint32_t i = 1; i <= st.arenas; i++)
		if (st.arena[i])
			munmap(st.arena[i], st.bytes[i]);
	memset(&st, 0, sizeof st);
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

/* One turn of the engine's loop; false where nothing happened in time. */
static bool turn(int ms) {
	struct pollfd p = { .fd = woken, .events = POLLIN };
	bool some = poll(&p, 1, ms) == 1;
	uint64_t n;

	if (some)
		ck_assert_int_eq(read(woken, &n, sizeof n), sizeof n);
	device_poll(st.device);
	exec_progress(st.exec);
	return some;
}

static void wait_idle(void) {
	while (exec_busy(st.exec))
		ck_assert_msg(turn(PATIENCE_MS), "nothing woke the engine");
}

/* ---- arrays ---- */

static float *client_memory(uint64_t offset) {
	return (float *)(void *)(st.arena[CLIENT_ARENA] + offset);
}

/* n floats first, first + step, ... in the client's arena. */
static struct buffer *client_array(unsigned n, float first, float step) {
	uint64_t offset = st.laid_out;
	struct buffer *b = NULL;
	struct fault f = { 0 };
	int r;

	st.laid_out += (n * sizeof(float) + LIMIT_ALIGNMENT - 1) / LIMIT_ALIGNMENT * LIMIT_ALIGNMENT;
	for (unsigned i = 0; i < n; i++)
		client_memory(offset)[i] = first + step * (float)i;
	r = buffer_from_arena(st.space, CLIENT_ARENA, offset, n * sizeof(float), &b, &f);
	ck_assert_msg(!r, "%s", f.text);
	return b;
}

struct ending {
	unsigned times;
	int code;
	struct fault fault;
	unsigned turn;               /* when it came, counted over all endings */
};

static unsigned turns;

static void ended(void *user, const struct fault *f) {
	struct ending *e = user;

	e->times++;
	e->code = f ? f->code : 0;
	if (f)
		e->fault = *f;
	e->turn = ++turns;
}

static void passed(void *user) {
	ended(user, NULL);
}

static const float *published(struct buffer *b) {
	struct ending e = { 0 };
	uint64_t offset;
	uint32_t arena;

	ck_assert_int_eq(buffer_publish(st.lane, b, ended, &e), 0);
	while (!e.times)
		ck_assert_msg(turn(PATIENCE_MS), "nothing woke the engine");
	ck_assert_msg(!e.code, "%s", e.fault.text);
	buffer_location(b, &arena, &offset);
	ck_assert_ptr_nonnull(st.arena[arena]);
	return (const float *)(const void *)(st.arena[arena] + offset);
}

/* ---- graphs ---- */

static uint32_t leaf_at(struct buffer *b, int64_t n, int64_t offset) {
	struct tensor_type t = { .dtype = DTYPE_f32, .rank = 1, .dims = { n } };
	struct view v;
	uint32_t node;

	view_contiguous(&t, &v);
	v.offset = offset;
	ck_assert_int_eq(graph_leaf(st.graph, b, &t, &v, &node), 0);
	return node;
}

static uint32_t leaf(struct buffer *b) {
	return leaf_at(b, N, 0);
}

static uint32_t op(unsigned id, uint32_t a, uint32_t b) {
	const uint32_t in[] = { a, b };
	struct fault f = { 0 };
	uint32_t node;
	int r = graph_op(st.graph, id, op_info(id)->arity, in, NULL, 0, &node, &f);

	ck_assert_msg(!r, "%s", f.text);
	return node;
}

static uint32_t sum_of(uint32_t a) {
	const struct op_attr attr = { .axes = 1 };
	struct fault f = { 0 };
	uint32_t node;
	int r = graph_op(st.graph, OP_reduce_sum, 1, &a, &attr, 0, &node, &f);

	ck_assert_msg(!r, "%s", f.text);
	return node;
}

static uint32_t scalar(float value) {
	const struct op_attr attr = { .dtype = DTYPE_f32,
		.value = { dtype_scalar_from_double(DTYPE_f32, value) } };
	struct fault f = { 0 };
	uint32_t node;
	int r = graph_op(st.graph, OP_fill, 0, NULL, &attr, 0, &node, &f);

	ck_assert_msg(!r, "%s", f.text);
	return node;
}

static uint32_t flipped(uint32_t a) {
	const struct op_attr attr = { .axes = 1 };
	struct fault f = { 0 };
	uint32_t node;

	ck_assert_int_eq(graph_op(st.graph, OP_flip, 1, &a, &attr, 0, &node, &f), 0);
	return node;
}

static void output(uint32_t node) {
	ck_assert_int_eq(graph_output(st.graph, node, 0), 0);
}

static struct plan *plan_of_graph(void) {
	const struct plan_options o = { .fuse = st.fuse, .traits = device_traits(st.device) };
	struct fault f = { 0 };
	struct plan *p = NULL;
	bool hit;
	int r = plan_cache_get(st.plans, st.graph, &o, &p, &hit, &f);

	ck_assert_msg(!r, "%s", f.text);
	return p;
}

static void on_timed(void *user, double ns) {
	(void)user;
	ck_assert(ns > 0);
	if (!st.times++ || ns < st.fastest_ns)
		st.fastest_ns = ns;
}

/* Runs the graph as it stands, and empties it. */
static void submit_to(struct lane *l, struct buffer **out, struct ending *e) {
	struct buffer *leaves[16];
	uint64_t offsets[16];
	struct plan *p = plan_of_graph();
	struct exec_request q = { .plan = p, .leaf = leaves, .leaf_offset = offsets,
		.scalar = graph_scalar_values(st.graph), .space = st.space, .done = ended, .user = e,
		.timed = st.timed ? on_timed : NULL, .together = !st.alone, .alone = st.loner, .timeout_us = st.timeout_us };

	ck_assert_uint_le(p->leaves, 16);
	for (uint32_t i = 0; i < p->leaves; i++) {
		leaves[i] = graph_leaf_at(st.graph, i)->buffer;
		offsets[i] = (uint64_t)graph_leaf_at(st.graph, i)->view.offset;
	}
	ck_assert_int_eq(exec_submit(st.exec, l, &q, out), 0);
	plan_unref(p);
	graph_reset(st.graph);
}

static void submit(struct buffer **out, struct ending *e) {
	submit_to(st.lane, out, e);
}

static struct buffer *add_arrays(struct buffer *a, struct buffer *b, struct ending *e) {
	struct buffer *out;

	output(op(OP_add, leaf(a), leaf(b)));
	submit(&out, e);
	return out;
}

/* ((a + b) * a + b) * a ...: ops operations. */
static uint32_t chain(uint32_t a, uint32_t b, unsigned ops) {
	uint32_t v = op(OP_add, a, b);

	for (unsigned i = 1; i < ops; i++)
		v = op(i % 2 ? OP_mul : OP_sub, v, i % 4 < 2 ? a : b);
	return v;
}

static float chain_value(float a, float b, unsigned ops) {
	volatile float v = a + b;

	for (unsigned i = 1; i < ops; i++)
		v = i % 2 ? v * (i % 4 < 2 ? a : b) : v - (i % 4 < 2 ? a : b);
	return v;
}

static void check_chain(const float *got, unsigned n, unsigned ops) {
	for (unsigned i = 0; i < n; i++)
		if (got[i] != chain_value((float)i * 0.001f, 2 - (float)i * 0.001f, ops))
			ck_abort_msg("element %u of a chain of %u is %.9g, not %.9g", i, ops, (double)got[i],
				(double)chain_value((float)i * 0.001f, 2 - (float)i * 0.001f, ops));
}

/* ---- values ---- */

static void add_two_arrays(void) {
	struct buffer *a = client_array(N, 0, 1), *b = client_array(N, 0.5f, 0), *out;
	struct ending e = { 0 };
	const float *v;

	out = add_arrays(a, b, &e);
	ck_assert_uint_eq(e.times, 0); /* told later, never from within */
	v = published(out);
	ck_assert_uint_eq(e.times, 1);
	ck_assert_int_eq(e.code, 0);
	for (unsigned i = 0; i < N; i++)
		ck_assert(v[i] == (float)i + 0.5f);
	buffer_unref(a);
	buffer_unref(b);
	buffer_unref(out);
	wait_idle();
}

START_TEST(two_client_arrays_are_added) {
	open_usual();
	add_two_arrays();
	close_stage();
}
END_TEST

START_TEST(a_device_with_memory_of_its_own_gives_the_same) {
	open_stage(NULL, true, 0, 0);
	add_two_arrays();
	ck_assert_uint_eq(device_counters(st.device)->uploads, 2);
	ck_assert_uint_eq(device_counters(st.device)->downloads, 1);
	close_stage();
}
END_TEST

/* Every other run of a chain of sums is timed, so that each reads what the other queue has written. */
static void time_every_other(void) {
	struct buffer *a = client_array(N, 0, 1), *b = client_array(N, 1, 0), *sum = buffer_ref(a);
	struct ending e = { 0 };
	const float *v;

	for (unsigned i = 0; i < 40; i++) {
		struct buffer *next;

		st.timed = i & 1;
		next = add_arrays(sum, b, &e);
		buffer_unref(sum);
		sum = next;
	}
	v = published(sum);
	for (unsigned i = 0; i < N; i++)
		ck_assert(v[i] == (float)i + 40);
	ck_assert_uint_eq(e.times, 40);
	ck_assert_uint_eq(st.times, 20);
	ck_assert_double_ge(st.fastest_ns, device_traits(st.device)->rates.launch_ns);
	buffer_unref(a);
	buffer_unref(b);
	buffer_unref(sum);
	wait_idle();
}

START_TEST(timed_runs_keep_their_place_in_the_order) {
	open_usual();
	time_every_other();
	close_stage();
}
END_TEST

START_TEST(timed_runs_of_a_device_with_memory_of_its_own_keep_their_place) {
	open_stage(NULL, true, 0, 0);
	time_every_other();
	close_stage();
}
END_TEST

START_TEST(the_gpu_strategy_gives_the_same) {
	open_stage("gpu", false, 0, 0);
	add_two_arrays();
	close_stage();
}
END_TEST

/* What the rows of x sum up to, as a column. */
static uint32_t row_sums(uint32_t x) {
	const struct op_attr attr = { .axes = 1 << 1, .keepdims = true };
	struct fault f = { 0 };
	uint32_t node;
	int r = graph_op(st.graph, OP_reduce_sum, 1, &x, &attr, 0, &node, &f);

	ck_assert_msg(!r, "%s", f.text);
	return node;
}

/*
 * Both sums of a row meet in the same local memory. PoCL 7.1 loaded the first one again behind the second where it was used there,
 * although a barrier stands between its load and what is written over it.
 */
START_TEST(a_row_s_mean_is_itself_behind_its_variance) {
	enum { ROWS = 3, COLUMNS = 64 };
	const struct tensor_type t = { .dtype = DTYPE_f32, .rank = 2, .dims = { ROWS, COLUMNS } };
	struct buffer *a, *out;
	struct ending e = { 0 };
	uint32_t x, mean, apart;
	struct view v;

	open_stage("gpu", false, 0, 0);
	a = client_array(ROWS * COLUMNS, 0, 0);
	for (unsigned i = 0; i < ROWS * COLUMNS; i++)
		client_memory(0)[i] = (float)(i / COLUMNS + 5) + (i % 2 ? 2 : -2);
	view_contiguous(&t, &v);
	ck_assert_int_eq(graph_leaf(st.graph, a, &t, &v, &x), 0);
	mean = op(OP_div, row_sums(x), scalar(COLUMNS));
	apart = op(OP_sub, x, mean);
	output(op(OP_div, apart, op(OP_div, row_sums(op(OP_mul, apart, apart)), scalar(COLUMNS))));
	submit(&out, &e);
	for (unsigned i = 0; i < ROWS * COLUMNS; i++)
		ck_assert_float_eq(published(out)[i], i % 2 ? 0.5f : -0.5f);
	buffer_unref(out);
	buffer_unref(a);
	close_stage();
}
END_TEST

START_TEST(scalars_and_offsets_of_leaves_reach_the_kernel) {
	struct buffer *a, *out[2];
	struct ending e = { 0 };
	const float *v;

	open_usual();
	a = client_array(N, 0, 1);
	output(op(OP_mul, leaf_at(a, 100, 700), scalar(3)));
	submit(&out[0], &e);
	output(op(OP_mul, leaf_at(a, 100, 200), scalar(-5))); /* the same structure, so the same plan */
	submit(&out[1], &e);
	v = published(out[0]);
	ck_assert(v[0] == 2100 && v[99] == 2397);
	v = published(out[1]);
	ck_assert(v[0] == -1000 && v[99] == -1495);
	ck_assert_uint_eq(device_counters(st.device)->builds + device_counters(st.device)->builds_cached, 1);
	buffer_unref(a);
	buffer_unref(out[0]);
	buffer_unref(out[1]);
	close_stage();
}
END_TEST

static void run_chain_unfused(unsigned ops) {
	struct buffer *a = client_array(N, 0, 0.001f), *b = client_array(N, 2, -0.001f), *out;
	struct ending e = { 0 };

	st.fuse = false;
	output(chain(leaf(a), leaf(b), ops));
	submit(&out, &e);
	check_chain(published(out), N, ops);
	buffer_unref(a);
	buffer_unref(b);
	buffer_unref(out);
}

START_TEST(temporaries_of_a_chain_use_each_others_memory) {
	open_usual();
	run_chain_unfused(12);
	ck_assert_uint_eq(exec_counters(st.exec)->steps, 12);
	ck_assert_uint_eq(exec_counters(st.exec)->scratch_bytes, 0);
	/* Eleven temporaries of 4,000 bytes; two at a time would do, one where they are overwritten in place.
	 */
	ck_assert_uint_ge(exec_counters(st.exec)->scratch_peak, N * sizeof(float));
	ck_assert_uint_le(exec_counters(st.exec)->scratch_peak, 2 * 4096);
	close_stage();
}
END_TEST

/* Both sums are tasks of one launch, and the second could be written over what the first reads. */
START_TEST(a_temporary_is_not_overwritten_while_a_neighbour_reads_it) {
	enum { LARGE = 1 << 20 };
	struct buffer *a, *b, *c, *out;
	struct ending e = { 0 };
	uint32_t t, x, y;
	const float *v;

	open_usual();
	st.fuse = false;
	a = client_array(LARGE, 1, 0);
	b = client_array(LARGE, 2, 0);
	c = client_array(LARGE, 3, 0);
	for (unsigned i = 0; i < 20; i++) {
		t = op(OP_mul, leaf_at(a, LARGE, 0), leaf_at(b, LARGE, 0));
		x = op(OP_add, t, leaf_at(b, LARGE, 0));
		y = op(OP_add, t, leaf_at(c, LARGE, 0));
		output(op(OP_mul, x, y));
		submit(&out, &e);
		v = published(out);
		for (unsigned j = 0; j < LARGE; j++)
			if (v[j] != 20)
				ck_abort_msg("element %u is %g", j, (double)v[j]);
		buffer_unref(out);
	}
	buffer_unref(a);
	buffer_unref(b);
	buffer_unref(c);
	close_stage();
}
END_TEST

START_TEST(temporaries_work_on_a_device_with_memory_of_its_own) {
	open_stage(NULL, true, 0, 0);
	run_chain_unfused(12);
	ck_assert_uint_eq(exec_counters(st.exec)->scratch_bytes, 0);
	close_stage();
}
END_TEST

START_TEST(views_of_a_leaf_are_the_leafs_buffer) {
	struct buffer *a, *out[3];
	struct ending e = { 0 };
	uint32_t sum;

	open_usual();
	a = client_array(N, 0, 1);
	output(flipped(leaf(a)));
	sum = op(OP_add, leaf(a), leaf(a));
	output(sum);
	output(sum);
	submit(out, &e);
	ck_assert_ptr_eq(out[0], a);
	ck_assert_ptr_eq(out[1], out[2]);
	ck_assert(buffer_shared(a) && buffer_shared(out[1]));
	ck_assert(published(out[1])[7] == 14);
	for (unsigned i = 0; i < 3; i++)
		buffer_unref(out[i]);
	ck_assert(!buffer_shared(a));
	buffer_unref(a);
	close_stage();
}
END_TEST

START_TEST(empty_arrays_run_without_a_launch) {
	struct buffer *a, *out[2];
	struct ending e = { 0 };

	open_usual();
	a = client_array(N, 1, 1);
	output(op(OP_mul, leaf_at(a, 0, 0), leaf_at(a, 0, 0)));
	output(sum_of(leaf_at(a, 0, 5)));
	submit(out, &e);
	published(out[0]);
	ck_assert(published(out[1])[0] == 0);
	ck_assert_int_eq(e.code, 0);
	ck_assert_uint_eq(device_counters(st.device)->launches, 1);
	buffer_unref(a);
	buffer_unref(out[0]);
	buffer_unref(out[1]);
	close_stage();
}
END_TEST

START_TEST(what_a_client_writes_is_seen_by_the_next_run) {
	struct buffer *a, *b, *out;
	struct ending e = { 0 };
	uint32_t arena;
	uint64_t offset;

	open_stage(NULL, true, 0, 0);
	a = client_array(N, 0, 1);
	b = client_array(N, 0, 0);
	buffer_unref(add_arrays(a, b, &e));
	wait_idle();
	buffer_location(a, &arena, &offset);
	client_memory(offset)[3] = 77;
	buffer_written(a);
	out = add_arrays(a, b, &e);
	ck_assert(published(out)[3] == 77);
	/* An array that was a result, mapped and written. */
	buffer_location(out, &arena, &offset);
	((float *)(void *)(st.arena[arena] + offset))[4] = 55;
	buffer_written(out);
	buffer_unref(b);
	b = add_arrays(out, a, &e);
	ck_assert(published(b)[4] == 59);
	ck_assert(published(b)[3] == 154);
	buffer_unref(a);
	buffer_unref(b);
	buffer_unref(out);
	close_stage();
}
END_TEST

/* ---- factors that stay packed ---- */

/* Factors are packed for vectors: where the device has others, the stage is closed again and false. */
static bool open_packing_of(const char *test, bool discrete) {
	open_stage(NULL, discrete, 0, 0);
	if (device_traits(st.device)->width == VECTOR)
		return true;
	skip_says(test, "the device has other vectors");
	close_stage();
	return false;
}
/* The case that asks is skipped. */
#define open_packing(discrete) open_packing_of(__func__, discrete)

/* w is columns by rows, so a product with its transpose needs it packed. */
static struct buffer *product_with_transposed(struct buffer *x, struct buffer *w, struct ending *e) {
	const struct tensor_type tx = { .dtype = DTYPE_f32, .rank = 2, .dims = { 2, FACTOR_ROWS } };
	const struct tensor_type tw = { .dtype = DTYPE_f32, .rank = 2, .dims = { FACTOR_ROWS, FACTOR_COLUMNS } };
	const struct view turned = { .stride = { 1, FACTOR_ROWS } };
	struct buffer *out;
	struct view plain;
	uint32_t a, b;

	view_contiguous(&tx, &plain);
	ck_assert_int_eq(graph_leaf(st.graph, x, &tx, &plain, &a), 0);
	ck_assert_int_eq(graph_leaf(st.graph, w, &tw, &turned, &b), 0);
	output(op(OP_matmul, a, b));
	submit(&out, e);
	return out;
}

/* x is all ones: every element of the result is the sum of a row of w. */
static void check_product(struct buffer *x, struct buffer *w) {
	struct ending e = { 0 };
	struct buffer *out = product_with_transposed(x, w, &e);
	const float *got = published(out), *at;
	uint64_t offset;
	uint32_t arena;

	buffer_location(w, &arena, &offset);
	at = client_memory(offset);
	for (unsigned j = 0; j < FACTOR_COLUMNS; j++) {
		float sum = 0;

		for (unsigned i = 0; i < FACTOR_ROWS; i++)
			sum += at[j * FACTOR_ROWS + i];
		ck_assert_msg(got[j] == sum && got[FACTOR_COLUMNS + j] == sum, "column %u is %g, not %g", j,
			(double)got[j], (double)sum);
	}
	buffer_unref(out);
	wait_idle();
}

static void check_packed(uint64_t made, uint64_t used, uint64_t kept) {
	const struct exec_counters *c = exec_counters(st.exec);

	ck_assert_uint_eq(c->packed_made, made);
	ck_assert_uint_eq(c->packed_used, used);
	ck_assert_uint_eq(c->packed_bytes, kept);
}

enum {
	FACTOR_BYTES = 32 * FACTOR_ROWS * sizeof(float),
	/* A panel of one vector. */
	FILTERS = 16,
};

START_TEST(a_factor_stays_packed_until_its_array_is_written_or_goes) {
	struct buffer *x, *w;
	uint64_t offset;
	uint32_t arena;

	if (!open_packing(_i))
		return;
	x = client_array(2 * FACTOR_ROWS, 1, 0);
	w = client_array(FACTOR_COLUMNS * FACTOR_ROWS, 0, 1);
	check_product(x, w);
	check_packed(1, 0, 0);
	check_product(x, w);
	check_packed(2, 0, FACTOR_BYTES);
	check_product(x, w);
	check_packed(2, 1, FACTOR_BYTES);
	buffer_location(w, &arena, &offset);
	client_memory(offset)[FACTOR_ROWS + 1] = 1000;
	buffer_written(w);
	check_packed(2, 1, 0);
	check_product(x, w);
	check_product(x, w);
	check_product(x, w);
	check_packed(4, 2, FACTOR_BYTES);
	buffer_unref(w);
	check_packed(4, 2, 0);
	buffer_unref(x);
	ck_assert_uint_eq(exec_counters(st.exec)->scratch_bytes, 0);
	close_stage();
}
END_TEST

/* FILTERS of 2 channels by 3 places over ones: each element of a result is the sum of a filter. */
static void check_convolution(struct buffer *x, struct buffer *w) {
	const struct tensor_type tx = { .dtype = DTYPE_f32, .rank = 3, .dims = { 1, 2, 5 } };
	const struct tensor_type tw = { .dtype = DTYPE_f32, .rank = 3, .dims = { FILTERS, 2, 3 } };
	const struct op_attr attr = { .rank = 1, .step = { 1 }, .dims = { 1 } };
	struct ending e = { 0 };
	struct fault f = { 0 };
	struct buffer *out;
	const float *got;
	struct view v;
	uint32_t in[2], node;

	view_contiguous(&tx, &v);
	ck_assert_int_eq(graph_leaf(st.graph, x, &tx, &v, &in[0]), 0);
	view_contiguous(&tw, &v);
	ck_assert_int_eq(graph_leaf(st.graph, w, &tw, &v, &in[1]), 0);
	ck_assert_int_eq(graph_op(st.graph, OP_conv, 2, in, &attr, 0, &node, &f), 0);
	output(node);
	submit(&out, &e);
	got = published(out);
	for (unsigned i = 0; i < FILTERS * 3; i++)
		ck_assert_float_eq(got[i], (float)(i / 3 * 36 + 15));
	buffer_unref(out);
	wait_idle();
}

START_TEST(weights_of_a_convolution_stay_packed) {
	struct buffer *x, *w;

	if (!open_packing(false))
		return;
	x = client_array(10, 1, 0);
	w = client_array(FILTERS * 6, 0, 1);
	for (unsigned round = 0; round < 3; round++)
		check_convolution(x, w);
	check_packed(2, 1, FILTERS * 6 * sizeof(float));
	buffer_unref(w);
	check_packed(2, 1, 0);
	buffer_unref(x);
	close_stage();
}
END_TEST

START_TEST(packed_factors_take_no_more_memory_than_they_may) {
	struct buffer *x, *w[3];

	if (!open_packing(false))
		return;
	x = client_array(2 * FACTOR_ROWS, 1, 0);
	for (unsigned i = 0; i < 3; i++)
		w[i] = client_array(FACTOR_COLUMNS * FACTOR_ROWS, (float)i, 1);
	for (unsigned round = 0; round < 2; round++)
		for (unsigned i = 0; i < 3; i++)
			check_product(x, w[i]);
	check_packed(6, 0, 2 * FACTOR_BYTES);
	/* The first was used longest ago, and gave way. */
	check_product(x, w[2]);
	check_packed(6, 1, 2 * FACTOR_BYTES);
	check_product(x, w[0]);
	check_packed(7, 1, 2 * FACTOR_BYTES);
	for (unsigned i = 0; i < 3; i++)
		buffer_unref(w[i]);
	check_packed(7, 1, 0);
	buffer_unref(x);
	close_stage();
}
END_TEST

/* ---- failures ---- */

START_TEST(a_poisoned_array_fails_what_reads_it_and_nothing_else) {
	struct buffer *a, *large, *bad, *worse, *good;
	struct ending e[3] = { { 0 } };

	open_stage(NULL, false, 0, 100000);
	a = client_array(N, 1, 0);
	large = client_array(40000, 1, 0);
	output(op(OP_add, leaf_at(large, 40000, 0), leaf_at(large, 40000, 0)));
	submit(&bad, &e[0]);
	output(op(OP_mul, leaf(bad), leaf(a)));
	submit(&worse, &e[1]);
	good = add_arrays(a, a, &e[2]);
	wait_idle();
	ck_assert_int_eq(e[0].code, FAULT_MEMORY);
	ck_assert_int_eq(e[1].code, FAULT_MEMORY);
	ck_assert_str_eq(e[0].fault.text, e[1].fault.text);
	ck_assert_int_eq(e[2].code, 0);
	ck_assert_ptr_nonnull(strstr(e[0].fault.text, "160000 bytes more than the "));
	ck_assert_ptr_nonnull(strstr(e[0].fault.text, "are above limits.session_bytes=100000"));
	ck_assert_int_eq(buffer_fault(bad)->code, FAULT_MEMORY);
	ck_assert_int_eq(buffer_fault(worse)->code, FAULT_MEMORY);
	ck_assert_ptr_null(buffer_fault(good));
	ck_assert(published(good)[5] == 2);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_uint_eq(e[i].times, 1);
	ck_assert_uint_lt(e[0].turn, e[1].turn);
	ck_assert_uint_lt(e[1].turn, e[2].turn);
	buffer_unref(a);
	buffer_unref(large);
	buffer_unref(bad);
	buffer_unref(worse);
	buffer_unref(good);
	ck_assert_uint_eq(space_used(st.space), 0);
	close_stage();
}
END_TEST

START_TEST(publishing_a_poisoned_array_tells_why) {
	struct buffer *a, *out;
	struct ending e[2] = { { 0 } };

	open_usual();
	a = client_array(N, 1, 0);
	st.grow_error = -ENOMEM;
	out = add_arrays(a, a, &e[0]);
	ck_assert_int_eq(buffer_publish(st.lane, out, ended, &e[1]), 0);
	wait_idle();
	ck_assert_int_eq(e[1].code, FAULT_MEMORY);
	buffer_unref(a);
	buffer_unref(out);
	close_stage();
}
END_TEST

/* The sum and the product of an array with itself; the sum is asked for. */
struct two {
	struct buffer *out[2];
	struct ending run, publication;
};

static void two_submit(struct two *t, struct buffer *a) {
	*t = (struct two){ 0 };
	output(op(OP_add, leaf(a), leaf(a)));
	output(op(OP_mul, leaf(a), leaf(a)));
	submit(t->out, &t->run);
	ck_assert_int_eq(buffer_publish(st.lane, t->out[0], ended, &t->publication), 0);
}

static void two_free(struct two *t) {
	buffer_unref(t->out[0]);
	buffer_unref(t->out[1]);
}

/* A run of it that waits for an arena; those before it are kept. How many there were. */
static unsigned two_wait(struct two *t, unsigned most, struct buffer *a) {
	unsigned n = 0;

	for (; !st.asked; n++) {
		ck_assert_uint_lt(n, most);
		two_submit(&t[n], a);
		while (!st.asked && !t[n].publication.times)
			ck_assert_msg(turn(PATIENCE_MS), "nothing woke the engine");
	}
	return n;
}

/* What another session computes, to which memory comes at once; its lane. */
static struct lane *run_elsewhere(struct lane_group *g, uint32_t node) {
	struct space *space = st.space;
	struct ending e = { 0 };
	struct lane *other;
	struct buffer *out;

	st.late = false;
	open_space(0);
	ck_assert_int_eq(lane_new(st.exec, &other), 0);
	if (g)
		lane_join(other, g);
	output(node);
	submit_to(other, &out, &e);
	while (!e.times)
		ck_assert_msg(turn(PATIENCE_MS), "nothing woke the engine");
	ck_assert_int_eq(e.code, 0);
	buffer_unref(out);
	space_free(st.space);
	st.space = space;
	st.late = true;
	return other;
}

static void other_runs(struct buffer *a) {
	lane_free(run_elsewhere(NULL, op(OP_add, leaf(a), leaf(a))));
}

static void wait_for_memory(bool discrete) {
	enum { MOST = 100 };
	struct two t[MOST];
	unsigned n, more, grows;
	struct buffer *a;

	open_stage(NULL, discrete, 0, 0);
	st.late = true;
	a = client_array(N, 3, 0);
	n = two_wait(t, MOST, a);
	grows = st.grows;
	other_runs(a);
	/* It still waits, has asked once, and what it has found room for already is not taken twice. */
	ck_assert_uint_eq(t[n - 1].publication.times, 0);
	answer(0);
	wait_idle();
	ck_assert_int_eq(t[n - 1].publication.code, 0);
	ck_assert(published(t[n - 1].out[0])[N - 1] == 6);
	ck_assert_uint_le(st.grows, grows + 1 + !discrete);
	/* Refused: less is asked for, and then the run fails, alone. */
	more = two_wait(t + n, MOST - n, a);
	answer(-ENOMEM);
	for (unsigned i = 0; st.asked; i++) {
		ck_assert_uint_lt(i, 2);
		answer(-ENOMEM);
	}
	wait_idle();
	n += more;
	ck_assert_int_eq(t[n - 1].publication.code, FAULT_MEMORY);
	ck_assert(discrete || t[n - 1].run.code == FAULT_MEMORY);
	/* The next one asks anew. */
	two_submit(&t[n], a);
	while (!st.asked)
		ck_assert_msg(turn(PATIENCE_MS), "nothing woke the engine");
	answer(0);
	wait_idle();
	ck_assert_int_eq(t[n].publication.code, 0);
	for (unsigned i = 0; i <= n; i++)
		two_free(&t[i]);
	buffer_unref(a);
	ck_assert_uint_eq(space_used(st.space), 0);
	close_stage();
}

START_TEST(a_run_waits_for_its_memory_and_others_do_not) {
	wait_for_memory(false);
}
END_TEST

START_TEST(a_result_waits_for_memory_of_the_host_and_others_do_not) {
	wait_for_memory(true);
}
END_TEST

/* It is looked at while the device has something, and others with it; then once it has nothing, and again while the arena is on its way. */
START_TEST(others_go_on_while_memory_of_who_goes_alone_is_on_its_way) {
	struct buffer *a, *big, *mine[2], *theirs[3];
	struct ending m[2] = { { 0 } }, t[3] = { { 0 } };
	struct space *own, *others;
	struct lane *lane;

	open_usual();
	if (lacks_flat_memory()) {
		close_stage();
		return;
	}
	own = st.space;
	a = client_array(N, 3, 0);
	big = client_array(BIG, 1, 0);
	ck_assert_int_eq(lane_new(st.exec, &lane), 0);
	open_space(0);
	others = st.space;
	/* There is room from now on. */
	output(op(OP_add, leaf(a), leaf(a)));
	submit_to(lane, &theirs[0], &t[0]);
	wait_idle();
	st.space = own;
	/* The second time it is built, and launched at once. */
	for (unsigned i = 0; i < 2; i++) {
		output(chain(leaf_at(big, BIG, 0), leaf_at(big, BIG, 0), 32));
		submit(&mine[i], &m[i]);
		if (i)
			break;
		wait_idle();
		buffer_unref(mine[0]);
	}
	m[0] = (struct ending){ 0 };
	st.late = st.loner = true;
	output(op(OP_add, leaf_at(big, BIG, 0), leaf_at(big, BIG, 0)));
	submit(&mine[0], &m[0]);
	st.loner = false;
	for (unsigned i = 1; i < 3; i++) {
		st.space = others;
		output(op(OP_add, leaf(a), leaf(a)));
		submit_to(lane, &theirs[i], &t[i]);
		st.space = own;
		while (!t[i].times || !st.asked)
			ck_assert_msg(turn(PATIENCE_MS), "nothing woke the engine");
		ck_assert_int_eq(t[i].code, 0);
	}
	ck_assert_uint_eq(m[0].times, 0);
	answer(0);
	wait_idle();
	ck_assert_int_eq(m[0].code, 0);
	st.late = false;
	ck_assert(published(mine[0])[BIG - 1] == 2);
	for (unsigned i = 0; i < 3; i++)
		buffer_unref(theirs[i]);
	for (unsigned i = 0; i < 2; i++)
		buffer_unref(mine[i]);
	buffer_unref(a);
	buffer_unref(big);
	lane_free(lane);
	space_free(others);
	close_stage();
}
END_TEST

/* ---- arenas that are waited for ---- */

int64_t __real_exec_now_ms(void);
int64_t __wrap_exec_now_ms(void);

/* Time, of which much may pass. */
static int64_t later_ms;

int64_t __wrap_exec_now_ms(void) {
	return __real_exec_now_ms() + later_ms;
}

enum { MINUTE_MS = 60 * 1000 };

static void ask_for_two(struct two *t, struct buffer *a) {
	two_submit(t, a);
	while (!st.asked)
		ck_assert_msg(turn(PATIENCE_MS), "nothing woke the engine");
}

/* A user who has used more of the device than he may, by another of his sessions. */
static struct lane *use_up_share(struct lane_group *g) {
	struct buffer *a = client_array(BIG, 1, 0);
	struct lane *other = run_elsewhere(g, chain(leaf_at(a, BIG, 0), leaf_at(a, BIG, 0), 32));

	buffer_unref(a);
	return other;
}

/* A run waits for an arena; then its user owes time for a while, in which the answer comes. */
static void answer_who_owes(int error, struct two *t) {
	struct lane_group *g = lane_group_new();
	struct lane *other;
	struct buffer *a;

	ck_assert_ptr_nonnull(g);
	lane_group_limit(g, 1);
	lane_join(st.lane, g);
	st.late = true;
	a = client_array(N, 3, 0);
	ask_for_two(t, a);
	/* Less is asked for. */
	if (error)
		answer(error);
	other = use_up_share(g);
	answer(error);
	later_ms += MINUTE_MS;
	exec_progress(st.exec);
	lane_group_limit(g, 100);
	exec_progress(st.exec);
	/* It has looked, and asks for nothing any more. */
	ck_assert_uint_eq(st.asked, 0);
	wait_idle();
	ck_assert_uint_eq(t->run.times, 1);
	lane_free(other);
	buffer_unref(a);
	two_free(t);
	close_stage();
	lane_group_free(g);
}

START_TEST(an_arena_that_was_asked_for_is_kept_until_its_run_has_looked) {
	struct two t;

	open_usual();
	if (lacks_flat_memory()) {
		close_stage();
		return;
	}
	answer_who_owes(0, &t);
	ck_assert_int_eq(t.run.code, 0);
}
END_TEST

START_TEST(a_refusal_is_kept_until_its_run_has_looked) {
	struct two t;

	open_usual();
	if (lacks_flat_memory()) {
		close_stage();
		return;
	}
	answer_who_owes(-ENOMEM, &t);
	ck_assert_int_eq(t.run.code, FAULT_MEMORY);
}
END_TEST

START_TEST(a_refusal_of_who_does_not_wait_any_more_is_nobodys) {
	struct two t[2];
	struct buffer *a;

	open_usual();
	if (lacks_flat_memory()) {
		close_stage();
		return;
	}
	st.late = true;
	a = client_array(N, 3, 0);
	for (unsigned early = 0; early < 2; early++) {
		ask_for_two(&t[0], a);
		if (early)
			answer_only(-ENOMEM);
		lane_cancel(st.lane);
		if (!early)
			answer_only(-ENOMEM);
		wait_idle();
		ck_assert_int_eq(t[0].run.code, FAULT_CANCELLED);
		two_free(&t[0]);
	}
	ask_for_two(&t[1], a);
	answer(0);
	wait_idle();
	ck_assert_int_eq(t[1].run.code, 0);
	two_free(&t[1]);
	buffer_unref(a);
	close_stage();
}
END_TEST

/* What moves to the host has to go there now, also where its session waits for an arena already. */
START_TEST(memory_that_is_needed_now_waits_for_what_was_asked_for) {
	struct ending e[ROOM + 2] = { { 0 } }, publication = { 0 };
	struct buffer *a, *out[ROOM + 2];

	open_small();
	a = client_array(BIG, 1, 0);
	for (unsigned i = 0; i < ROOM - 1; i++) {
		output(op(OP_add, leaf_at(a, BIG, 0), leaf_at(a, BIG, 0)));
		submit(&out[i], &e[i]);
	}
	wait_idle();
	st.late = true;
	ck_assert_int_eq(buffer_publish(st.lane, out[0], ended, &publication), 0);
	ck_assert_uint_gt(st.asked, 0);
	for (unsigned i = ROOM - 1; i < ROOM + 2; i++) {
		struct lane *other;

		ck_assert_int_eq(lane_new(st.exec, &other), 0);
		output(op(OP_add, leaf_at(a, BIG, 0), leaf_at(a, BIG, 0)));
		submit_to(other, &out[i], &e[i]);
		while (!e[i].times)
			ck_assert_msg(turn(PATIENCE_MS), "nothing woke the engine");
		ck_assert_int_eq(e[i].code, 0);
		lane_free(other);
	}
	ck_assert_uint_gt(st.awaits, 0);
	if (st.asked)
		answer(0);
	wait_idle();
	ck_assert_int_eq(publication.code, 0);
	for (unsigned i = 0; i < ROOM + 2; i++) {
		st.late = false;
		ck_assert(published(out[i])[BIG - 1] == 2);
		buffer_unref(out[i]);
	}
	buffer_unref(a);
	close_stage();
}
END_TEST

/* ---- results near the limit ---- */

enum { UNIT = 64 << 10 };            /* elements */

/* Arrays that came one after the other and were released, then the results of one run, in units; all arenas together may have so many. */
static const struct near_limit {
	unsigned before[2], results[3], most;
} near_limits[] = {
	{ { 16 }, { 10, 20 }, 42 },      /* the first in the arena that is there, the other beside it */
	{ { 16 }, { 20, 10 }, 42 },
	{ { 16 }, { 10, 30 }, 42 },      /* not before that arena has gone */
	{ { 16 }, { 30 }, 42 },
	{ { 16 }, { 40 }, 42 },
	{ { 16, 20 }, { 10, 20 }, 42 },
	{ { 16, 20 }, { 12, 12, 15 }, 42 },
};

static uint32_t sum_of_first(struct buffer *a, unsigned units) {
	return op(OP_add, leaf_at(a, units * UNIT, 0), leaf_at(a, units * UNIT, 0));
}

static void run_before(struct buffer *a, const struct near_limit *l) {
	struct ending e[2] = { { 0 } };
	struct buffer *out[2];
	unsigned n = 0;

	for (; n < 2 && l->before[n]; n++) {
		output(sum_of_first(a, l->before[n]));
		submit(&out[n], &e[n]);
	}
	wait_idle();
	for (unsigned i = 0; i < n; i++) {
		ck_assert_int_eq(e[i].code, 0);
		buffer_unref(out[i]);
	}
}

static void run_near_limit(struct buffer *a, const struct near_limit *l, bool late) {
	struct ending e = { 0 };
	struct buffer *out[3];
	unsigned n = 0;

	for (; n < 3 && l->results[n]; n++)
		output(sum_of_first(a, l->results[n]));
	st.late = late;
	submit(out, &e);
	for (unsigned i = 0; !e.times; i++) {
		ck_assert_msg(i < 100, "it asks for ever");
		if (st.asked)
			answer(is_refused(st.asked) ? -ENOMEM : 0);
		else
			ck_assert_msg(turn(PATIENCE_MS), "nothing woke the engine");
	}
	ck_assert_msg(!e.code, "results of %u, %u and %u units after %u and %u: %s", l->results[0], l->results[1], l->results[2],
		l->before[0], l->before[1], e.fault.text);
	st.late = false;
	for (unsigned i = 0; i < n; i++) {
		ck_assert(published(out[i])[l->results[i] * UNIT - 1] == 2);
		buffer_unref(out[i]);
	}
}

START_TEST(what_fits_the_limit_alone_fits_beside_arenas_that_are_empty) {
	for (unsigned late = 0; late < 2; late++)
		for (unsigned i = 0; i < sizeof near_limits / sizeof *near_limits; i++) {
			const struct near_limit *l = &near_limits[i];
			struct buffer *a;

			open_usual();
			if (lacks_flat_memory()) {
				close_stage();
				return;
			}
			st.most = (uint64_t)l->most * UNIT * sizeof(float);
			a = client_array(40 * UNIT, 1, 0);
			run_before(a, l);
			run_near_limit(a, l, late);
			buffer_unref(a);
			close_stage();
		}
}
END_TEST

START_TEST(memory_that_runs_out_fails_that_run_alone) {
	enum { MOST = 100 };         /* the first arena for results has room for a few */
	struct buffer *a, *out[MOST];
	struct ending e;
	unsigned n = 0;

	open_usual();
	if (lacks_flat_memory()) {
		close_stage();
		return;
	}
	a = client_array(N, 1, 0);
	do {
		e = (struct ending){ 0 };
		out[n++] = add_arrays(a, a, &e);
		wait_idle();
		st.grow_error = -ENOMEM;
		ck_assert_uint_eq(e.times, 1);
	} while (!e.code && n < MOST);
	ck_assert_int_eq(e.code, FAULT_MEMORY);
	ck_assert_uint_gt(n, 2);
	ck_assert_ptr_nonnull(buffer_fault(out[n - 1]));
	ck_assert(published(out[n - 2])[0] == 2);
	/* With one array less there is room again. */
	buffer_unref(out[0]);
	out[0] = add_arrays(a, a, &e);
	ck_assert(published(out[0])[0] == 2);
	for (unsigned i = 0; i < n; i++)
		buffer_unref(out[i]);
	buffer_unref(a);
	ck_assert_uint_eq(space_used(st.space), 0);
	close_stage();
}
END_TEST

START_TEST(temporaries_beyond_their_limit_fail_that_run_alone) {
	struct buffer *a, *out[2];
	struct ending e[2] = { { 0 } };

	open_stage(NULL, false, 1 << 20, 0);
	if (lacks_flat_memory()) {
		close_stage();
		return;
	}
	a = client_array(1000000, 1, 0);
	st.fuse = false;
	output(chain(leaf_at(a, 1000000, 0), leaf_at(a, 1000000, 0), 3));
	submit(&out[0], &e[0]);
	output(chain(leaf(a), leaf(a), 3));
	submit(&out[1], &e[1]);
	wait_idle();
	ck_assert_int_eq(e[0].code, FAULT_MEMORY);
	ck_assert_msg(strstr(e[0].fault.text, "are above engine.scratch_bytes=1048576") != NULL, "%s", e[0].fault.text);
	ck_assert_int_eq(e[1].code, 0);
	buffer_unref(a);
	buffer_unref(out[0]);
	buffer_unref(out[1]);
	close_stage();
}
END_TEST

START_TEST(launches_the_driver_refuses_are_a_fault_of_the_device) {
	struct buffer *a, *out[2];
	struct ending e[2] = { { 0 } };

	open_usual();
	a = client_array(N, 1, 0);
	buffer_unref(add_arrays(a, a, &e[0]));
	wait_idle();
	rules.launches = counts->launches;
	out[0] = add_arrays(a, a, &e[0]);
	wait_idle();
	rules.launches = UINT64_MAX;
	out[1] = add_arrays(a, a, &e[1]);
	wait_idle();
	ck_assert_int_eq(e[0].code, FAULT_DEVICE);
	ck_assert_int_eq(buffer_fault(out[0])->code, FAULT_DEVICE);
	ck_assert_int_eq(e[1].code, 0);
	buffer_unref(a);
	buffer_unref(out[0]);
	buffer_unref(out[1]);
	close_stage();
}
END_TEST

START_TEST(an_operation_that_would_leave_its_array_is_refused) {
	struct buffer *a, *out;
	struct ending e = { 0 };

	open_usual();
	a = client_array(N, 1, 0);
	output(op(OP_add, leaf_at(a, N, 1), leaf_at(a, N, 1)));
	submit(&out, &e);
	wait_idle();
	ck_assert_int_eq(e.code, FAULT_INTERNAL);
	ck_assert_uint_eq(device_counters(st.device)->launches, 0);
	buffer_unref(a);
	buffer_unref(out);
	close_stage();
}
END_TEST

START_TEST(client_memory_outside_its_arena_is_refused) {
	const uint64_t usable = CLIENT_BYTES - LIMIT_ARENA_SLACK;
	const struct { uint32_t arena; uint64_t offset, bytes; } bad[] = {
		{ 1, usable - 8, 16 }, { 1, usable + 8, 0 }, { 1, UINT64_MAX - 7, 16 }, { 1, 0, UINT64_MAX },
		{ 1, 4, 16 }, { 2, 0, 16 }, { 77, 0, 16 }, { 1, CLIENT_BYTES, 8 },
	};
	struct buffer *b, *a, *out;
	struct ending e = { 0 };
	struct fault f;

	open_usual();
	a = client_array(N, 1, 0);
	out = add_arrays(a, a, &e);
	wait_idle(); /* now there is arena 2, which the engine lays out */
	for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++)
		ck_assert_int_eq(buffer_from_arena(st.space, bad[i].arena, bad[i].offset, bad[i].bytes, &b, &f),
			FAULT_ARGUMENT);
	ck_assert_int_eq(buffer_from_arena(st.space, 1, usable - 8, 8, &b, &f), 0);
	buffer_unref(b);
	buffer_unref(a);
	buffer_unref(out);
	close_stage();
}
END_TEST

/* ---- client memory is handed back ---- */

START_TEST(client_memory_is_reported_free_once_and_only_after_its_last_launch) {
	struct buffer *a, *b, *c, *out;
	struct ending e = { 0 };

	open_usual();
	a = client_array(4 << 20, 1, 0);
	b = client_array(N, 1, 0);
	rules.build_ms = 300;
	output(sum_of(chain(leaf_at(a, 4 << 20, 0), leaf_at(a, 4 << 20, 0), 20)));
	submit(&out, &e);
	buffer_unref(a);
	for (int i = 0; i < 5; i++)
		turn(20);
	ck_assert_uint_eq(st.freed, 0); /* queued behind a build */
	while (!e.times) {
		/* The run's number completes and the memory is free at the same moment, but not before. */
		ck_assert_uint_eq(st.freed, 0);
		ck_assert(turn(PATIENCE_MS));
	}
	ck_assert_uint_eq(st.freed, 1);
	ck_assert_uint_eq(st.freed_offset, 0);
	/* The same memory twice is one array, reported once. */
	ck_assert_int_eq(buffer_from_arena(st.space, CLIENT_ARENA, (4 << 20) * sizeof(float),
				 N * sizeof(float), &c, &(struct fault){ 0 }),
		0);
	ck_assert_ptr_eq(b, c);
	buffer_unref(b);
	exec_progress(st.exec);
	ck_assert_uint_eq(st.freed, 1);
	buffer_unref(c);
	exec_progress(st.exec);
	ck_assert_uint_eq(st.freed, 2);
	exec_progress(st.exec);
	ck_assert_uint_eq(st.freed, 2);
	buffer_unref(out);
	close_stage();
}
END_TEST

START_TEST(client_memory_loaded_again_before_it_was_reported_is_not) {
	struct buffer *a, *out;
	struct ending e = { 0 };

	open_usual();
	rules.build_ms = 100;
	a = client_array(N, 1, 0);
	out = add_arrays(a, a, &e);
	buffer_unref(a);
	ck_assert_int_eq(
		buffer_from_arena(st.space, CLIENT_ARENA, 0, N * sizeof(float), &a, &(struct fault){ 0 }), 0);
	wait_idle();
	exec_progress(st.exec);
	ck_assert_uint_eq(st.freed, 0);
	buffer_unref(a);
	exec_progress(st.exec);
	ck_assert_uint_eq(st.freed, 1);
	buffer_unref(out);
	close_stage();
}
END_TEST

START_TEST(an_arena_that_was_empty_for_a_while_is_dropped) {
	struct buffer *a, *out;
	struct ending e = { 0 };

	open_usual();
	if (lacks_flat_memory()) {
		close_stage();
		return;
	}
	a = client_array(N, 1, 0);
	out = add_arrays(a, a, &e);
	wait_idle();
	for (int i = 0; i < 3; i++)
		turn(1000);
	ck_assert_uint_eq(st.drops, 0); /* in use */
	buffer_unref(out);
	exec_progress(st.exec);
	ck_assert_uint_eq(st.drops, 0); /* not yet a while */
	for (int i = 0; i < 30 && !st.drops; i++)
		turn(100);
	ck_assert_uint_eq(st.drops, 1);
	/* And there is a new one when it is needed. */
	out = add_arrays(a, a, &e);
	ck_assert(published(out)[0] == 2);
	ck_assert_uint_eq(st.grows, 2);
	buffer_unref(a);
	buffer_unref(out);
	close_stage();
}
END_TEST

START_TEST(memory_of_a_released_result_is_the_next_ones) {
	struct buffer *a, *out;
	struct ending e = { 0 };

	open_usual();
	a = client_array(250000, 1, 0);
	for (unsigned i = 0; i < 100; i++) {
		output(op(OP_add, leaf_at(a, 250000, 0), leaf_at(a, 250000, 0)));
		submit(&out, &e);
		buffer_unref(out); /* at once: not even one has run, perhaps */
	}
	wait_idle();
	ck_assert_uint_eq(e.times, 100);
	ck_assert_uint_eq(e.code, 0);
	/* 100 MB of results went through arenas of far less. */
	ck_assert_uint_le(st.grows, 6);
	buffer_unref(a);
	close_stage();
}
END_TEST

START_TEST(all_results_of_a_run_are_one_request_for_memory) {
	enum { ELEMENTS = 250000, RESULTS = 8 };
	struct buffer *a, *out[RESULTS], *again[RESULTS];
	struct ending e[2] = { { 0 } };
	uint32_t t;

	open_usual();
	if (lacks_flat_memory()) {
		close_stage();
		return;
	}
	a = client_array(ELEMENTS, 1, 0);
	for (unsigned run = 0; run < 2; run++) {
		t = leaf_at(a, ELEMENTS, 0);
		for (unsigned i = 0; i < RESULTS; i++)
			output(t = op(OP_add, t, leaf_at(a, ELEMENTS, 0)));
		submit(run ? again : out, &e[run]);
		wait_idle();
		ck_assert_int_eq(e[run].code, 0);
		ck_assert_uint_eq(st.grows, run + 1);
	}
	for (unsigned i = 0; i < RESULTS; i++) {
		ck_assert(published(out[i])[ELEMENTS - 1] == (float)(i + 2));
		ck_assert(published(again[i])[0] == (float)(i + 2));
		buffer_unref(out[i]);
		buffer_unref(again[i]);
	}
	buffer_unref(a);
	close_stage();
}
END_TEST

/* ---- order ---- */

START_TEST(a_lane_overtakes_another_that_waits_for_a_build) {
	struct buffer *a, *slow, *fast;
	struct ending e[2] = { { 0 } };
	struct lane *other;

	open_usual();
	ck_assert_int_eq(lane_new(st.exec, &other), 0);
	a = client_array(N, 1, 0);
	buffer_unref(add_arrays(a, a, &e[1]));
	wait_idle();
	rules.build_ms = 500;
	output(chain(leaf(a), leaf(a), 7));
	submit(&slow, &e[0]);
	output(op(OP_add, leaf(a), leaf(a)));
	submit_to(other, &fast, &e[1]);
	wait_idle();
	ck_assert_int_eq(e[0].code, 0);
	ck_assert_int_eq(e[1].code, 0);
	ck_assert_uint_lt(e[1].turn, e[0].turn);
	buffer_unref(a);
	buffer_unref(slow);
	buffer_unref(fast);
	lane_free(other);
	close_stage();
}
END_TEST

START_TEST(a_lane_keeps_its_order_while_it_waits_for_a_build) {
	struct buffer *a, *out[3];
	struct ending e[4] = { { 0 } };

	open_usual();
	a = client_array(N, 1, 0);
	buffer_unref(add_arrays(a, a, &e[0]));
	wait_idle();
	rules.build_ms = 200;
	output(chain(leaf(a), leaf(a), 7));
	submit(&out[0], &e[0]);
	out[1] = add_arrays(a, a, &e[1]);
	ck_assert_int_eq(lane_fence(st.lane, passed, &e[2]), 0);
	out[2] = add_arrays(out[0], out[1], &e[3]);
	wait_idle();
	for (unsigned i = 1; i < 4; i++)
		ck_assert_uint_lt(e[i - 1].turn, e[i].turn);
	buffer_unref(a);
	for (unsigned i = 0; i < 3; i++)
		buffer_unref(out[i]);
	close_stage();
}
END_TEST

START_TEST(a_run_waits_for_an_array_of_another_lane) {
	struct buffer *a, *out[2];
	struct ending e[2] = { { 0 } };
	struct lane *other;

	open_usual();
	ck_assert_int_eq(lane_new(st.exec, &other), 0);
	a = client_array(N, 1, 0);
	buffer_unref(add_arrays(a, a, &e[0]));
	wait_idle();
	rules.build_ms = 200;
	output(chain(leaf(a), leaf(a), 7));
	submit_to(other, &out[0], &e[0]);
	out[1] = add_arrays(out[0], a, &e[1]);
	ck_assert(published(out[1])[0] == chain_value(1, 1, 7) + 1);
	ck_assert_uint_lt(e[0].turn, e[1].turn);
	buffer_unref(a);
	buffer_unref(out[0]);
	buffer_unref(out[1]);
	lane_free(other);
	close_stage();
}
END_TEST

/* Ten thousand launches are more than the device takes at a time. */
START_TEST(runs_go_on_where_the_ring_was_full) {
	struct buffer *a, *b, *out = NULL;
	struct ending e = { 0 };

	open_usual();
	a = client_array(N, 0, 0.001f);
	b = client_array(N, 2, -0.001f);
	st.fuse = false;
	for (unsigned i = 0; i < 500; i++) {
		buffer_unref(out);
		output(chain(leaf(a), leaf(b), 20));
		submit(&out, &e);
	}
	wait_idle();
	ck_assert_uint_eq(e.times, 500);
	ck_assert_uint_eq(exec_counters(st.exec)->steps, 10000);
	check_chain(published(out), N, 20);
	buffer_unref(a);
	buffer_unref(b);
	buffer_unref(out);
	close_stage();
}
END_TEST

/* ---- interpreters ---- */

/* The first interpreter, and the generic kernels that this device has. */
static uint64_t built_unasked(void) {
	struct kernel k;
	uint64_t n = 1;

	for (unsigned i = 0; i < plan_generic_kernels(); i++)
		n += !plan_generic_kernel(i, device_traits(st.device), &k);
	return n;
}

/* Waits until what is built unasked is there. */
static void open_interpreter(enum config_interpreter mode, const char *strategy, bool discrete) {
	st.interpreter = mode;
	open_stage(strategy, discrete, 0, 0);
	while (mode == INTERPRETER_AUTO && device_counters(st.device)->builds < built_unasked())
		turn(100);
}

/* A builder that hangs keeps nobody from a first result; nor does the next run wait for what has ended. */
START_TEST(a_first_run_does_not_wait_for_its_build) {
	struct buffer *a, *b, *out[2];
	struct ending e[2] = { { 0 } };
	uint64_t builds;

	open_interpreter(INTERPRETER_AUTO, _i == 2 ? "gpu" : NULL, _i == 1);
	builds = device_counters(st.device)->builds;
	a = client_array(N, 0, 0.001f);
	b = client_array(N, 2, -0.001f);
	rules.hold = 1;
	output(chain(leaf(a), leaf(b), 9));
	submit(&out[0], &e[0]);
	check_chain(published(out[0]), N, 9);
	ck_assert_int_eq(e[0].code, 0);
	ck_assert_uint_eq(exec_counters(st.exec)->interpreted, 1);
	ck_assert_uint_eq(device_counters(st.device)->builds, builds);
	rules.hold = 0;
	while (device_counters(st.device)->builds == builds)
		ck_assert_msg(turn(PATIENCE_MS), "nothing woke the engine");
	output(chain(leaf(a), leaf(b), 9));
	submit(&out[1], &e[1]);
	check_chain(published(out[1]), N, 9);
	ck_assert_uint_eq(exec_counters(st.exec)->interpreted, 1);
	ck_assert_uint_eq(exec_counters(st.exec)->steps, 2);
	buffer_unref(a);
	buffer_unref(b);
	buffer_unref(out[0]);
	buffer_unref(out[1]);
	close_stage();
}
END_TEST

/* Where nothing was ever built: a map, and a reduction by generic kernels. */
START_TEST(who_comes_once_all_is_prepared_waits_for_no_build) {
	struct buffer *a, *b, *out[2];
	struct ending e[2] = { { 0 } };

	st.interpreter = INTERPRETER_AUTO;
	open_stage(NULL, false, 0, 0);
	while (!exec_prepared(st.exec))
		turn(100);
	rules.hold = 1;
	a = client_array(N, 0, 0.001f);
	b = client_array(N, 2, -0.001f);
	output(chain(leaf(a), leaf(b), 9));
	submit(&out[0], &e[0]);
	check_chain(published(out[0]), N, 9);
	output(sum_of(chain(leaf(a), leaf(b), 9)));
	submit(&out[1], &e[1]);
	wait_idle();
	ck_assert_int_eq(e[0].code, 0);
	ck_assert_int_eq(e[1].code, 0);
	ck_assert_uint_ge(exec_counters(st.exec)->interpreted, 2);
	rules.hold = 0;
	buffer_unref(a);
	buffer_unref(b);
	buffer_unref(out[0]);
	buffer_unref(out[1]);
	close_stage();
}
END_TEST

START_TEST(what_is_always_interpreted_builds_nothing_else) {
	struct buffer *a, *b, *out;
	struct ending e = { 0 };

	open_interpreter(INTERPRETER_ALWAYS, NULL, false);
	a = client_array(N, 0, 0.001f);
	b = client_array(N, 2, -0.001f);
	st.fuse = false;
	for (unsigned ops = 5; ops < 9; ops++) {
		output(chain(leaf(a), leaf(b), ops));
		submit(&out, &e);
		check_chain(published(out), N, ops);
		buffer_unref(out);
	}
	ck_assert_uint_eq(device_counters(st.device)->builds, 1);
	ck_assert_uint_eq(exec_counters(st.exec)->interpreted, 5 + 6 + 7 + 8);
	buffer_unref(a);
	buffer_unref(b);
	close_stage();
}
END_TEST

/* Rows and products too: a builder that hangs keeps nobody from their first results, whose bits are those of the kernel. */
START_TEST(generic_kernels_stand_in_for_one_that_is_built) {
	struct buffer *a, *out[2];
	struct ending e[2] = { { 0 } };
	uint64_t builds;
	float first;

	open_interpreter(INTERPRETER_AUTO, NULL, _i);
	builds = device_counters(st.device)->builds;
	a = client_array(N, 1, 0.001f);
	rules.hold = 1;
	output(op(OP_tanh, sum_of(op(OP_exp, leaf(a), GRAPH_NONE)), GRAPH_NONE));
	submit(&out[0], &e[0]);
	first = published(out[0])[0];
	ck_assert_uint_eq(device_counters(st.device)->builds, builds);
	rules.hold = 0;
	while (device_counters(st.device)->builds == builds)
		ck_assert_msg(turn(PATIENCE_MS), "nothing woke the engine");
	output(op(OP_tanh, sum_of(op(OP_exp, leaf(a), GRAPH_NONE)), GRAPH_NONE));
	submit(&out[1], &e[1]);
	ck_assert(published(out[1])[0] == first);
	ck_assert_int_eq(e[0].code, 0);
	ck_assert_int_eq(e[1].code, 0);
	buffer_unref(a);
	buffer_unref(out[0]);
	buffer_unref(out[1]);
	close_stage();
}
END_TEST

static uint32_t cast(uint32_t a, unsigned dtype) {
	const struct op_attr attr = { .dtype = (uint8_t)dtype };
	struct fault f = { 0 };
	uint32_t node;

	ck_assert_int_eq(graph_op(st.graph, OP_cast, 1, &a, &attr, 0, &node, &f), 0);
	return node;
}

/* Beside the engine's thread, also for maps, where no interpreter has all their types; for those that interpreters run nothing is. */
START_TEST(what_stands_in_is_made_where_something_is_to) {
	struct plan *p;
	struct buffer *a;

	open_interpreter(INTERPRETER_AUTO, NULL, false);
	if (!device_traits(st.device)->f64) {
		close_stage();
		return;
	}
	a = client_array(N, 1, 0.5f);
	output(chain(leaf(a), leaf(a), 5));
	p = plan_of_graph();
	exec_stand_in(st.exec, device_traits(st.device), p);
	ck_assert(p->stand_in_made && !p->stand_in);
	plan_unref(p);
	graph_reset(st.graph);
	output(op(OP_exp, cast(cast(leaf(a), DTYPE_i8), DTYPE_f64), GRAPH_NONE));
	p = plan_of_graph();
	ck_assert_uint_eq(p->steps, 1);
	exec_stand_in(st.exec, device_traits(st.device), p);
	ck_assert(p->stand_in_made);
	ck_assert_ptr_nonnull(p->stand_in);
	ck_assert_uint_gt(p->stand_in->steps, 1);
	plan_unref(p);
	graph_reset(st.graph);
	buffer_unref(a);
	close_stage();
}
END_TEST

/* Steps that no interpreter runs wait as ever, in the order of their lane. */
START_TEST(interpreted_steps_and_others_are_one_run) {
	struct buffer *a, *out;
	struct ending e = { 0 };

	open_interpreter(INTERPRETER_ALWAYS, NULL, false);
	a = client_array(N, 1, 0);
	st.fuse = false;
	output(op(OP_add, sum_of(op(OP_add, leaf(a), leaf(a))), scalar(1)));
	submit(&out, &e);
	ck_assert(published(out)[0] == 2 * N + 1);
	ck_assert_uint_eq(exec_counters(st.exec)->interpreted, 2);
	ck_assert_uint_ge(exec_counters(st.exec)->steps, 3);
	buffer_unref(a);
	buffer_unref(out);
	close_stage();
}
END_TEST

START_TEST(a_kernel_that_does_not_build_is_interpreted) {
	struct buffer *a, *b, *out;
	struct ending e = { 0 };

	open_interpreter(INTERPRETER_AUTO, NULL, false);
	limit_ops(3);
	a = client_array(N, 0, 0.001f);
	b = client_array(N, 2, -0.001f);
	for (unsigned i = 0; i < 2; i++) {
		output(chain(leaf(a), leaf(b), 17));
		submit(&out, &e);
		check_chain(published(out), N, 17);
		buffer_unref(out);
		while (!device_counters(st.device)->build_failures)
			ck_assert_msg(turn(PATIENCE_MS), "nothing woke the engine");
	}
	ck_assert_int_eq(e.code, 0);
	ck_assert_uint_eq(exec_counters(st.exec)->interpreted, 2);
	ck_assert_uint_eq(exec_counters(st.exec)->kernels_split, 0);
	buffer_unref(a);
	buffer_unref(b);
	close_stage();
}
END_TEST

/* ---- kernels that do not build ---- */

START_TEST(a_kernel_that_does_not_build_is_split_unseen) {
	struct buffer *a, *b, *out[2];
	struct ending e[2] = { { 0 } };

	open_usual();
	limit_ops(3);
	a = client_array(N, 0, 0.001f);
	b = client_array(N, 2, -0.001f);
	for (unsigned i = 0; i < 2; i++) {
		output(chain(leaf(a), leaf(b), 17));
		submit(&out[i], &e[i]);
		check_chain(published(out[i]), N, 17);
		ck_assert_int_eq(e[i].code, 0);
		ck_assert_uint_gt(exec_counters(st.exec)->kernels_split, 4);
		ck_assert_uint_ge(exec_counters(st.exec)->steps, 6);
	}
	ck_assert_uint_gt(device_counters(st.device)->build_failures, 0);
	buffer_unref(a);
	buffer_unref(b);
	buffer_unref(out[0]);
	buffer_unref(out[1]);
	close_stage();
}
END_TEST

START_TEST(a_split_plan_replaces_the_one_in_the_cache) {
	struct buffer *a, *out;
	struct ending e = { 0 };
	uint64_t split;

	open_usual();
	limit_ops(1);
	a = client_array(N, 1, 0);
	output(chain(leaf(a), leaf(a), 4));
	submit(&out, &e);
	wait_idle();
	buffer_unref(out);
	split = exec_counters(st.exec)->kernels_split;
	/* Three cuts of four operations; halves that are the same kernel may be cut as one. */
	ck_assert_uint_ge(split, 2);
	ck_assert_int_eq(e.code, 0);
	output(chain(leaf(a), leaf(a), 4));
	submit(&out, &e);
	wait_idle();
	ck_assert_uint_eq(exec_counters(st.exec)->kernels_split, split);
	ck_assert_uint_eq(exec_counters(st.exec)->steps, 8);
	buffer_unref(a);
	buffer_unref(out);
	close_stage();
}
END_TEST

START_TEST(a_single_operation_that_does_not_build_is_the_clients_error) {
	struct buffer *a, *out[2];
	struct ending e[2] = { { 0 } };

	open_usual();
	a = client_array(N, 1, 0);
	limit_ops(0);
	out[0] = add_arrays(a, a, &e[0]);
	wait_idle();
	rules.ops = UINT64_MAX;
	output(op(OP_mul, leaf(a), leaf(a)));
	submit(&out[1], &e[1]);
	wait_idle();
	ck_assert_int_eq(e[0].code, FAULT_BUILD);
	ck_assert_ptr_nonnull(strstr(e[0].fault.text, "OpenCL error -11"));
	ck_assert_int_eq(e[1].code, 0);
	buffer_unref(a);
	buffer_unref(out[0]);
	buffer_unref(out[1]);
	close_stage();
}
END_TEST

/* ---- ends ---- */

START_TEST(a_lane_that_goes_takes_its_waiting_runs_along) {
	struct buffer *a, *out;
	struct ending e = { 0 };

	open_usual();
	rules.build_ms = 200;
	a = client_array(N, 1, 0);
	out = add_arrays(a, a, &e);
	ck_assert_uint_eq(exec_busy(st.exec), 1);
	st.lane = lane_free(st.lane);
	ck_assert_uint_eq(exec_busy(st.exec), 0);
	ck_assert_int_eq(buffer_fault(out)->code, FAULT_LOST);
	while (turn(1000))
		;
	ck_assert_uint_eq(e.times, 0);
	buffer_unref(a);
	buffer_unref(out);
	close_stage();
}
END_TEST

START_TEST(a_lane_that_goes_does_not_tell_of_runs_in_flight) {
	struct buffer *a, *out;
	struct ending e = { 0 };

	open_usual();
	a = client_array(4 << 20, 1, 0);
	output(chain(leaf_at(a, 4 << 20, 0), leaf_at(a, 4 << 20, 0), 3));
	submit(&out, &e);
	wait_idle();
	output(chain(leaf_at(a, 4 << 20, 0), leaf_at(a, 4 << 20, 0), 3));
	buffer_unref(out);
	submit(&out, &e);
	st.lane = lane_free(st.lane);
	wait_idle();
	ck_assert_uint_eq(e.times, 1);
	ck_assert_ptr_null(buffer_fault(out));
	buffer_unref(a);
	buffer_unref(out);
	close_stage();
}
END_TEST

START_TEST(a_space_that_goes_leaves_lost_arrays_and_no_crash) {
	struct buffer *a, *mine, *out[3];
	struct space *gone;
	struct ending e[3] = { { 0 } };

	open_usual();
	a = client_array(4 << 20, 1, 0);
	output(chain(leaf_at(a, 4 << 20, 0), leaf_at(a, 4 << 20, 0), 5));
	submit(&out[0], &e[0]);
	wait_idle();
	/* In flight when the space goes. */
	output(chain(leaf_at(out[0], 4 << 20, 0), leaf_at(a, 4 << 20, 0), 5));
	submit(&out[1], &e[1]);
	gone = st.space;
	rules.build_ms = 100;
	/* Waiting for a build when the space goes. */
	output(op(OP_sub, leaf(out[1]), leaf(a)));
	submit(&out[2], &e[2]);
	space_free(gone);
	open_space(0);
	ck_assert_int_eq(add_arena(1 << 20, false), 0);
	wait_idle();
	ck_assert_int_eq(e[2].code, FAULT_LOST);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(buffer_fault(out[i])->code, FAULT_LOST);
	ck_assert_int_eq(
		buffer_from_arena(st.space, st.arenas, 0, N * sizeof(float), &mine, &(struct fault){ 0 }), 0);
	ck_assert_ptr_null(buffer_fault(mine));
	buffer_unref(mine);
	buffer_unref(a);
	for (unsigned i = 0; i < 3; i++)
		buffer_unref(out[i]);
	ck_assert_uint_eq(st.freed, 0);
	close_stage();
}
END_TEST

/* A run stopped halfway by a full ring, when its arenas go. */
START_TEST(a_space_that_goes_under_a_run_half_launched_is_survived) {
	struct buffer *a, *out[400];
	struct ending e = { 0 };

	open_usual();
	a = client_array(N, 1, 0);
	st.fuse = false;
	for (unsigned i = 0; i < 400; i++) {
		output(chain(leaf(a), leaf(a), 15));
		submit(&out[i], &e);
	}
	st.space = space_free(st.space);
	wait_idle();
	ck_assert_uint_eq(e.times, 400);
	buffer_unref(a);
	for (unsigned i = 0; i < 400; i++)
		buffer_unref(out[i]);
	close_stage();
}
END_TEST

/* Mappings of arenas: those are what this program maps of files named test. */
static unsigned count_mappings(void) {
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	unsigned n = 0;

	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof line, f))
		n += strstr(line, "memfd:test") != NULL;
	fclose(f);
	return n;
}

/* ---- more arrays than the device has room for ---- */

/* from + by, BIG elements of each. */
static struct buffer *raised(struct buffer *from, float by) {
	struct ending e = { 0 };
	struct buffer *out;

	output(op(OP_add, leaf_at(from, BIG, 0), scalar(by)));
	submit(&out, &e);
	wait_idle();
	ck_assert_msg(!e.code, "%s", e.fault.text);
	return out;
}

static void check_large(struct buffer *b, float first) {
	const float *v = published(b);

	for (unsigned i = 0; i < BIG; i++)
		if (v[i] != first + (float)i)
			ck_abort_msg("element %u is %g, not %g", i, (double)v[i], (double)(first + (float)i));
}

static void release_all(struct buffer **b, unsigned n) {
	for (unsigned i = 0; i < n; i++)
		buffer_unref(b[i]);
	wait_idle();
}

static uint64_t uploads(void) {
	return device_counters(st.device)->uploads;
}

START_TEST(arrays_beyond_the_device_s_memory_move_to_the_host_and_come_back) {
	enum { ARRAYS = 3 * ROOM };
	struct buffer *b[ARRAYS], *again;

	open_small();
	b[0] = client_array(BIG, 0, 1);
	for (unsigned i = 1; i < ARRAYS; i++)
		b[i] = raised(b[i - 1], 1);
	ck_assert_uint_ge(exec_counters(st.exec)->moved, ARRAYS - ROOM);
	ck_assert_uint_eq(
		exec_counters(st.exec)->moved_bytes, exec_counters(st.exec)->moved * BIG * sizeof(float));
	again = raised(b[1], 100);
	check_large(again, 101);
	for (unsigned i = 0; i < ARRAYS; i++)
		check_large(b[i], (float)i);
	buffer_unref(again);
	release_all(b, ARRAYS);
	close_stage();
}
END_TEST

START_TEST(the_array_used_longest_ago_goes_first) {
	struct buffer *b[ROOM + 2], *again;
	uint64_t before;

	open_small();
	b[0] = client_array(BIG, 0, 1);
	for (unsigned i = 1; i < ROOM; i++)
		b[i] = raised(b[i - 1], 1);
	b[ROOM] = raised(b[1], 10);     /* in place of b[0] */
	b[ROOM + 1] = raised(b[1], 11); /* in place of b[2], for b[1] was used since */
	before = uploads();
	again = raised(b[1], 12);
	ck_assert_uint_eq(uploads(), before);
	buffer_unref(again);
	again = raised(b[2], 12);
	ck_assert_uint_eq(uploads(), before + 1);
	check_large(again, 14);
	buffer_unref(again);
	release_all(b, ROOM + 2);
	close_stage();
}
END_TEST

START_TEST(what_has_a_copy_on_the_host_goes_without_being_copied) {
	struct buffer *b[2 * ROOM], *out;
	uint64_t before;

	open_small();
	for (unsigned i = 0; i < 2 * ROOM; i++)
		b[i] = client_array(BIG, (float)i, 1);
	before = device_counters(st.device)->downloads;
	for (unsigned i = 0; i < 2 * ROOM; i++) {
		out = raised(b[i], 1);
		buffer_unref(out);
	}
	ck_assert_uint_gt(exec_counters(st.exec)->moved, 0);
	ck_assert_uint_eq(device_counters(st.device)->downloads, before);
	release_all(b, 2 * ROOM);
	close_stage();
}
END_TEST

/* A run that needs all the room there is: what it reads stays, all else goes. */
START_TEST(arrays_of_one_run_are_there_together) {
	struct buffer *b[2 * ROOM], *out;
	struct ending e = { 0 };
	uint32_t sum;

	open_small();
	b[0] = client_array(BIG, 0, 1);
	for (unsigned i = 1; i < 2 * ROOM; i++)
		b[i] = raised(b[0], (float)i);
	sum = leaf_at(b[1], BIG, 0);
	for (unsigned i = 2; i < ROOM; i++)
		sum = op(OP_add, sum, op(OP_sub, leaf_at(b[i], BIG, 0), leaf_at(b[1], BIG, 0)));
	output(sum);
	submit(&out, &e);
	check_large(out, 1 + (ROOM - 2) * (ROOM - 1) / 2);
	buffer_unref(out);
	release_all(b, 2 * ROOM);
	close_stage();
}
END_TEST

/* Unfused, so that each is a kernel: 2 * ROOM arrays that are read, as many that are written. */
START_TEST(a_run_whose_arrays_do_not_fit_together_goes_step_by_step) {
	struct buffer *b[2 * ROOM], *out[2 * ROOM];
	struct ending e = { 0 };

	open_small();
	st.fuse = false;
	for (unsigned i = 0; i < 2 * ROOM; i++) {
		b[i] = client_array(BIG, (float)i, 1);
		output(op(OP_add, leaf_at(b[i], BIG, 0), scalar(1)));
	}
	submit(out, &e);
	for (unsigned i = 0; i < 2 * ROOM; i++)
		check_large(out[i], (float)i + 1);
	ck_assert_int_eq(e.code, 0);
	ck_assert_uint_eq(exec_counters(st.exec)->kernels_split, 0);
	release_all(b, 2 * ROOM);
	release_all(out, 2 * ROOM);
	close_stage();
}
END_TEST

START_TEST(a_kernel_whose_arrays_do_not_fit_together_is_cut) {
	struct buffer *b[ROOM + 2], *out;
	struct ending e = { 0 };
	uint32_t sum;

	open_small();
	for (unsigned i = 0; i < ROOM + 2; i++)
		b[i] = client_array(BIG, 0, 1);
	sum = leaf_at(b[0], BIG, 0);
	for (unsigned i = 1; i < ROOM + 2; i++)
		sum = op(OP_maximum, sum, op(OP_add, leaf_at(b[i], BIG, 0), scalar((float)i)));
	output(sum);
	submit(&out, &e);
	check_large(out, ROOM + 1);
	ck_assert_int_eq(e.code, 0);
	ck_assert_uint_gt(exec_counters(st.exec)->kernels_split, 0);
	buffer_unref(out);
	release_all(b, ROOM + 2);
	close_stage();
}
END_TEST

START_TEST(an_operation_that_can_never_fit_fails_alone) {
	struct buffer *huge, *small, *out;
	struct ending e = { 0 };
	char text[LIMIT_SENTENCE];

	open_small();
	huge = client_array(ROOM * BIG / 2, 0, 1);
	small = client_array(BIG, 0, 1);
	output(op(OP_add, leaf_at(huge, ROOM * BIG / 2, 0), leaf_at(huge, ROOM * BIG / 2, 0)));
	submit(&out, &e);
	wait_idle();
	ck_assert_int_eq(e.code, 0);
	buffer_unref(out);
	buffer_unref(huge);
	huge = client_array((ROOM + 2) * BIG / 2, 0, 1);
	output(op(OP_sqrt, leaf_at(huge, (ROOM + 2) * BIG / 2, 0), 0));
	submit(&out, &e);
	wait_idle();
	ck_assert_int_eq(e.code, FAULT_MEMORY);
	snprintf(text, sizeof text, "one operation, %zu bytes, are more than the device has room for: all arrays together may take %d bytes of it (device.memory)",
		(size_t)(ROOM + 2) * BIG * sizeof(float), SMALL_MEMORY);
	ck_assert_msg(strstr(e.fault.text, text) != NULL, "%s", e.fault.text);
	buffer_unref(out);
	out = raised(small, 2);
	check_large(out, 2);
	buffer_unref(out);
	buffer_unref(huge);
	buffer_unref(small);
	wait_idle();
	close_stage();
}
END_TEST

START_TEST(where_the_host_has_no_room_either_the_run_fails_and_nothing_is_lost) {
	struct buffer *b[ROOM], *more, *out;
	struct ending e = { 0 };

	open_small();
	b[0] = client_array(BIG, 0, 1);
	for (unsigned i = 1; i < ROOM; i++)
		b[i] = raised(b[i - 1], 1);
	st.grow_error = -ENOMEM;
	more = raised(b[1], 1); /* b[0] lies on the host already */
	output(op(OP_add, leaf_at(b[1], BIG, 0), leaf_at(more, BIG, 0)));
	submit(&out, &e);
	wait_idle();
	ck_assert_int_eq(e.code, FAULT_MEMORY);
	ck_assert_msg(strstr(e.fault.text, "device.memory") != NULL, "%s", e.fault.text);
	buffer_unref(out);
	buffer_unref(more);
	st.grow_error = 0;
	for (unsigned i = 0; i < ROOM; i++)
		check_large(b[i], (float)i);
	release_all(b, ROOM);
	close_stage();
}
END_TEST

static void a_session(bool discrete) {
	struct ending e = { 0 };
	struct buffer *a, *out;

	open_stage(NULL, discrete, 0, 0);
	a = client_array(N, 0, 0.001f);
	for (unsigned i = 0; i < 20; i++) {
		st.fuse = i % 2;
		output(chain(leaf(a), leaf(a), 4 + i % 2));
		submit(&out, &e);
		if (i % 3)
			published(out);
		buffer_unref(out);
	}
	buffer_unref(a);
	wait_idle();
	ck_assert_uint_eq(space_used(st.space), 0);
	ck_assert_uint_eq(exec_counters(st.exec)->scratch_bytes, 0);
	close_stage();
}

static void nothing_is_left(bool discrete) {
	unsigned mappings;
	int descriptors;

	a_session(discrete); /* what the driver keeps for good */
	descriptors = open_descriptors(getpid());
	mappings = count_mappings();
	for (unsigned i = 0; i < 3; i++)
		a_session(discrete);
	ck_assert_int_eq(open_descriptors(getpid()), descriptors);
	ck_assert_uint_eq(count_mappings(), mappings);
	ck_assert_uint_eq(mappings, 0);
	ck_assert_uint_eq(counts->buffers, counts->buffers_released);
	ck_assert_uint_eq(counts->buffer_bytes, 0);
}

START_TEST(sessions_leave_no_descriptors_mappings_or_buffers) {
	nothing_is_left(_i);
}
END_TEST

START_TEST(counters_are_what_the_driver_saw) {
	struct buffer *a, *out;
	struct ending e = { 0 };
	uint64_t probes;

	open_usual();
	probes = counts->launches;
	a = client_array(N, 1, 0);
	st.fuse = false;
	output(chain(leaf(a), leaf(a), 9));
	submit(&out, &e);
	wait_idle();
	ck_assert_uint_eq(exec_counters(st.exec)->steps, 9);
	ck_assert_uint_eq(device_counters(st.device)->launches, 9);
	ck_assert_uint_eq(counts->launches - probes, 9 + device_counters(st.device)->warmups);
	ck_assert_uint_eq(counts->builds_failed, 0);
	buffer_unref(a);
	buffer_unref(out);
	close_stage();
}
END_TEST

/* ---- cost ---- */

static double thread_us(void) {
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* CPU of this thread for one submission, of `runs` in a row. */
static double cost_of_run(struct plan *p, struct buffer **leaves, const uint64_t *scalars, unsigned runs) {
	const uint64_t offsets[16] = { 0 };
	struct ending e = { 0 };
	struct exec_request q = { .plan = p, .leaf = leaves, .leaf_offset = offsets, .scalar = scalars,
		.space = st.space, .done = ended, .user = &e };
	struct buffer *out[64];
	double begin = thread_us(), used;

	for (unsigned i = 0; i < runs; i++) {
		if (exec_submit(st.exec, st.lane, &q, out))
			ck_abort();
		for (uint32_t k = 0; k < p->outputs; k++)
			buffer_unref(out[k]);
	}
	used = thread_us() - begin;
	wait_idle();
	ck_assert_msg(e.times == runs && !e.code, "%u of %u runs: %s", e.times, runs, e.fault.text);
	return used / runs;
}

/* ---- lanes that share the device ---- */

enum { CREW = 5, BACKLOG = 60, LIMITED_TRIES = 200 };

struct crew {
	struct lane *lane[CREW];
	struct buffer *a[CREW], *out[CREW];
	struct ending e[CREW];
};

/* The same chain for each lane, of its own array, all of them waiting; the programs are built. */
static void crew_submit(struct crew *c, unsigned ops) {
	struct buffer *b = client_array(N, 2, -0.001f);

	exec_gather(st.exec);
	for (unsigned i = 0; i < CREW; i++) {
		ck_assert_int_eq(lane_new(st.exec, &c->lane[i]), 0);
		c->a[i] = client_array(N, (float)i, 0.001f);
		output(chain(leaf(c->a[i]), leaf(b), ops));
		submit_to(c->lane[i], &c->out[i], &c->e[i]);
	}
	buffer_unref(b);
}

static void crew_end(struct crew *c) {
	wait_idle();
	for (unsigned i = 0; i < CREW; i++) {
		buffer_unref(c->a[i]);
		buffer_unref(c->out[i]);
		lane_free(c->lane[i]);
	}
}

static void build_chain(unsigned ops) {
	struct buffer *a = client_array(N, 0, 0.001f), *b = client_array(N, 2, -0.001f), *out;
	struct ending e = { 0 };

	output(chain(leaf(a), leaf(b), ops));
	submit(&out, &e);
	check_chain(published(out), N, ops);
	buffer_unref(a);
	buffer_unref(b);
	buffer_unref(out);
	wait_idle();
}

static void check_crew(struct crew *c, unsigned ops) {
	for (unsigned i = 0; i < CREW; i++) {
		const float *v = published(c->out[i]);

		ck_assert_int_eq(c->e[i].code, 0);
		for (unsigned k = 0; k < N; k++)
			if (v[k] != chain_value((float)i + (float)k * 0.001f, 2 - (float)k * 0.001f, ops))
				ck_abort_msg("lane %u has a value of another", i);
	}
}

static void wait_together(bool discrete) {
	struct crew c = { .e = { { 0 } } };
	uint64_t launches, tasks;

	open_stage(NULL, discrete, 0, 0);
	build_chain(5);
	launches = device_counters(st.device)->launches;
	tasks = device_counters(st.device)->tasks;
	crew_submit(&c, 5);
	ck_assert_uint_eq(device_counters(st.device)->launches, launches);
	exec_progress(st.exec);
	ck_assert_uint_eq(device_counters(st.device)->launches, launches + 1);
	ck_assert_uint_eq(device_counters(st.device)->tasks, tasks + CREW);
	ck_assert_uint_eq(exec_counters(st.exec)->shared_launches, 1);
	ck_assert_uint_eq(exec_counters(st.exec)->shared_runs, CREW);
	ck_assert_uint_eq(lane_usage(c.lane[1])->shared, 1);
	check_crew(&c, 5);
	crew_end(&c);
	close_stage();
}

START_TEST(runs_of_one_plan_that_wait_in_several_lanes_are_one_launch) {
	wait_together(_i);
}
END_TEST

/* A chain of a and b in one kernel, which is asked for before it is launched. */
static const float *asked_for(struct buffer *a, struct buffer *b, struct buffer **outp, struct ending *e) {
	uint64_t offset;
	uint32_t arena;

	exec_gather(st.exec);
	output(chain(leaf(a), leaf(b), 4));
	submit(outp, &e[0]);
	ck_assert_int_eq(buffer_publish(st.lane, *outp, ended, &e[1]), 0);
	exec_progress(st.exec);
	wait_idle();
	ck_assert_msg(!e[0].code && !e[1].code, "%s", e[0].fault.text);
	buffer_location(*outp, &arena, &offset);
	return (const float *)(const void *)(st.arena[arena] + offset);
}

/* Drivers that treat no buffer as address 0 do not. */
static bool reaches(void) {
	return strstr(device_notes(st.device), "where they lie in the host's memory");
}

START_TEST(a_small_array_is_touched_where_the_host_has_it) {
	const struct exec_counters *x;
	const struct device_counters *d;
	struct buffer *a, *b, *out, *again;
	struct ending e[4] = { { 0 } };

	st.reaches = true;
	open_stage(NULL, true, 0, 0);
	if (!reaches())
		SKIP("kernels do not reach the host's memory");
	x = exec_counters(st.exec);
	d = device_counters(st.device);
	a = client_array(N, 0, 0.001f);
	b = client_array(N, 2, -0.001f);
	check_chain(asked_for(a, b, &out, e), N, 4);
	ck_assert_uint_eq(x->reached, 3);
	ck_assert_uint_eq(d->uploads + d->downloads, 0);
	/* The client has its arrays back as usual, once the kernel has run. */
	a = buffer_unref(a);
	wait_idle();
	exec_progress(st.exec);
	ck_assert_uint_eq(st.freed, 1);
	/* What is read again is copied; what is computed is a leaf like any other. */
	asked_for(out, b, &again, e + 2);
	ck_assert_uint_eq(x->reached, 5);
	ck_assert_uint_eq(d->uploads, 1);
	ck_assert_uint_eq(d->downloads, 0);
	check_chain(published(out), N, 4);
	buffer_unref(b);
	buffer_unref(out);
	buffer_unref(again);
	close_stage();
}
END_TEST

START_TEST(a_result_that_nobody_asked_for_yet_stays_with_the_device) {
	struct buffer *a, *out;
	struct ending e = { 0 };

	st.reaches = true;
	open_stage(NULL, true, 0, 0);
	if (!reaches())
		SKIP("kernels do not reach the host's memory");
	a = client_array(N, 0, 0.001f);
	output(chain(leaf(a), leaf(a), 4));
	submit(&out, &e);
	wait_idle();
	ck_assert_uint_eq(exec_counters(st.exec)->reached, 1);
	published(out);
	ck_assert_uint_eq(device_counters(st.device)->downloads, 1);
	buffer_unref(a);
	buffer_unref(out);
	close_stage();
}
END_TEST

/* By its size, or since each element is touched again and again. */
START_TEST(what_would_cross_the_bus_for_long_is_copied) {
	enum { LARGE = 100000 };
	const struct tensor_type t = { .dtype = DTYPE_f32, .rank = 2, .dims = { LARGE / 4, 4 } };
	struct buffer *a, *out;
	struct ending e = { 0 };
	struct view v;
	uint32_t node;

	st.reaches = true;
	open_stage(NULL, true, 0, 0);
	a = client_array(LARGE, 0, 0.001f);
	view_contiguous(&t, &v);
	if (_i) {
		ck_assert_int_eq(graph_leaf(st.graph, a, &t, &v, &node), 0);
		output(op(OP_mul, node, leaf_at(a, 4, 0)));
	} else {
		output(op(OP_abs, leaf_at(a, LARGE, 0), 0));
	}
	submit(&out, &e);
	wait_idle();
	ck_assert_msg(!e.code, "%s", e.fault.text);
	ck_assert_uint_eq(exec_counters(st.exec)->reached, 0);
	ck_assert_uint_eq(device_counters(st.device)->uploads, 1);
	buffer_unref(a);
	buffer_unref(out);
	close_stage();
}
END_TEST

START_TEST(interpreted_runs_of_several_lanes_are_one_launch) {
	struct crew c = { .e = { { 0 } } };
	uint64_t launches;

	open_interpreter(INTERPRETER_ALWAYS, NULL, _i);
	build_chain(5);
	launches = device_counters(st.device)->launches;
	crew_submit(&c, 5);
	exec_progress(st.exec);
	ck_assert_uint_eq(device_counters(st.device)->launches, launches + 1);
	check_crew(&c, 5);
	crew_end(&c);
	close_stage();
}
END_TEST

/* Lane i runs a chain of 4 + i operations on so many elements and i times `more`. */
static void mixed_submit(struct crew *c, int64_t elements, int64_t more, bool same) {
	exec_gather(st.exec);
	for (unsigned i = 0; i < CREW; i++) {
		int64_t n = elements + i * more;
		struct buffer *b = client_array((uint64_t)n, 2, -0.001f);

		if (!c->lane[i])
			ck_assert_int_eq(lane_new(st.exec, &c->lane[i]), 0);
		c->a[i] = client_array((uint64_t)n, (float)i, 0.001f);
		output(chain(leaf_at(c->a[i], n, 0), leaf_at(b, n, 0), same ? 4 : 4 + i));
		submit_to(c->lane[i], &c->out[i], &c->e[i]);
		buffer_unref(b);
	}
}

static void mixed_check(struct crew *c, int64_t elements, int64_t more, bool same) {
	for (unsigned i = 0; i < CREW; i++) {
		const float *v = published(c->out[i]);

		ck_assert_int_eq(c->e[i].code, 0);
		for (int64_t k = 0; k < elements + i * more; k++)
			if (v[k] != chain_value((float)i + (float)k * 0.001f, 2 - (float)k * 0.001f, same ? 4 : 4 + i))
				ck_abort_msg("lane %u has a value of another", i);
		buffer_unref(c->a[i]);
		buffer_unref(c->out[i]);
	}
}

static void mixed_end(struct crew *c) {
	wait_idle();
	for (unsigned i = 0; i < CREW; i++)
		lane_free(c->lane[i]);
}

/* Each by bytecode of its own. */
START_TEST(different_graphs_that_are_interpreted_are_one_launch) {
	open_interpreter(INTERPRETER_ALWAYS, NULL, _i);
	build_chain(5);
	/* By lanes of their own: what those of the first round had may have taken long. */
	for (unsigned round = 0; round < 2; round++) {
		uint64_t launches = device_counters(st.device)->launches;
		struct crew c = { .e = { { 0 } } };

		mixed_submit(&c, N, 0, false);
		exec_progress(st.exec);
		ck_assert_uint_eq(device_counters(st.device)->launches, launches + 1);
		ck_assert_uint_eq(exec_counters(st.exec)->mixed_launches, round + 1);
		ck_assert_uint_eq(exec_counters(st.exec)->shared_runs, (round + 1) * CREW);
		mixed_check(&c, N, 0, false);
		mixed_end(&c);
	}
	close_stage();
}
END_TEST

/* A program serves all sizes, and the larger ones of a launch have more items. */
START_TEST(a_graph_in_several_sizes_is_one_launch) {
	enum { MORE = 7000 };
	struct crew c = { .e = { { 0 } } };
	uint64_t launches;

	open_stage(NULL, _i, 0, 0);
	build_chain(4);
	launches = device_counters(st.device)->launches;
	mixed_submit(&c, N, MORE, true);
	exec_progress(st.exec);
	ck_assert_uint_eq(device_counters(st.device)->launches, launches + 1);
	ck_assert_uint_eq(exec_counters(st.exec)->mixed_launches, 1);
	mixed_check(&c, N, MORE, true);
	mixed_end(&c);
	close_stage();
}
END_TEST

/* Of a small task in the launch of a large one nearly all groups would be for nothing. */
START_TEST(sizes_that_differ_much_are_launches_of_their_own) {
	enum { MUCH = 300000 };
	struct crew c = { .e = { { 0 } } };
	uint64_t launches;

	open_usual();
	build_chain(4);
	launches = device_counters(st.device)->launches;
	mixed_submit(&c, N, MUCH, true);
	exec_progress(st.exec);
	ck_assert_uint_gt(device_counters(st.device)->launches, launches + 1);
	mixed_check(&c, N, MUCH, true);
	mixed_end(&c);
	close_stage();
}
END_TEST

START_TEST(runs_that_are_to_stay_alone_share_no_launch) {
	struct crew c = { .e = { { 0 } } };

	open_usual();
	build_chain(5);
	st.alone = true;
	crew_submit(&c, 5);
	exec_progress(st.exec);
	check_crew(&c, 5);
	ck_assert_uint_eq(exec_counters(st.exec)->shared_runs, 0);
	crew_end(&c);
	close_stage();
}
END_TEST

/* Steps that are launches of their own go together, too, each with its own temporaries. */
START_TEST(every_step_of_runs_that_go_together_is_one_launch) {
	struct crew c = { .e = { { 0 } } };
	uint64_t launches;

	open_usual();
	st.fuse = false;
	build_chain(5);
	launches = device_counters(st.device)->launches;
	crew_submit(&c, 5);
	exec_progress(st.exec);
	check_crew(&c, 5);
	ck_assert_uint_eq(device_counters(st.device)->launches, launches + 5);
	crew_end(&c);
	close_stage();
}
END_TEST

START_TEST(a_failed_array_of_one_lane_is_no_trouble_of_the_others) {
	struct crew c = { .e = { { 0 } } };

	open_usual();
	build_chain(5);
	crew_submit(&c, 5);
	ck_assert_uint_eq(lane_cancel(c.lane[2]), 1);
	exec_progress(st.exec);
	wait_idle();
	for (unsigned i = 0; i < CREW; i++)
		ck_assert_int_eq(c.e[i].code, i == 2 ? FAULT_CANCELLED : 0);
	ck_assert_ptr_nonnull(buffer_fault(c.out[2]));
	ck_assert_uint_eq(exec_counters(st.exec)->cancelled, 1);
	ck_assert_uint_eq(exec_counters(st.exec)->shared_runs, CREW - 1);
	crew_end(&c);
	close_stage();
}
END_TEST

START_TEST(what_was_not_begun_in_time_fails_and_what_came_after_runs) {
	struct buffer *a, *b, *late, *then;
	struct ending e = { 0 }, after = { 0 };

	open_usual();
	build_chain(1);
	a = client_array(N, 0, 1);
	b = client_array(N, 1, 0);
	exec_gather(st.exec);
	st.timeout_us = 1000;
	late = add_arrays(a, b, &e);
	st.timeout_us = 0;
	then = add_arrays(a, b, &after);
	ck_assert_uint_lt(exec_wait_us(st.exec), 10000);
	usleep(20000);
	exec_progress(st.exec);
	wait_idle();
	ck_assert_int_eq(e.code, FAULT_TIMEOUT);
	ck_assert_int_eq(after.code, 0);
	ck_assert_uint_eq(exec_wait_us(st.exec), UINT64_MAX);
	buffer_unref(a);
	buffer_unref(b);
	buffer_unref(late);
	buffer_unref(then);
	close_stage();
}
END_TEST

/* Some lanes with runs of equal length, each run an array of its own; the order of their ends is kept. */
enum { CONTEST_LANES = 4 };

struct contest {
	struct lane *lane[CONTEST_LANES];
	struct ending e[CONTEST_LANES][BACKLOG];
	struct buffer *a;
};

static void contest_begin(struct contest *c) {
	memset(c, 0, sizeof *c);
	open_usual();
	build_chain(40);
	st.alone = true;
	turns = 0;
	c->a = client_array(N, 0, 0.001f);
	for (int i = 0; i < CONTEST_LANES; i++)
		ck_assert_int_eq(lane_new(st.exec, &c->lane[i]), 0);
	exec_gather(st.exec);
}

static void contest_add(struct contest *c, int lane, unsigned count) {
	for (unsigned i = 0; i < count; i++) {
		struct buffer *out;

		output(chain(leaf(c->a), leaf(c->a), 40));
		submit_to(c->lane[lane], &out, &c->e[lane][i]);
		buffer_unref(out);
	}
}

static void contest_end(struct contest *c) {
	wait_idle();
	buffer_unref(c->a);
	for (int i = 0; i < CONTEST_LANES; i++)
		lane_free(c->lane[i]);
	close_stage();
}

START_TEST(a_short_queue_is_not_behind_a_long_one) {
	struct contest c;

	contest_begin(&c);
	contest_add(&c, 0, BACKLOG);
	contest_add(&c, 1, 5);
	exec_progress(st.exec);
	wait_idle();
	/* Turn by turn, but for what was with the device when it came. */
	ck_assert_uint_lt(c.e[1][4].turn, 2 * 5 + 10);
	ck_assert_uint_gt(lane_usage(c.lane[0])->device_ns, lane_usage(c.lane[1])->device_ns);
	contest_end(&c);
}
END_TEST

/* Of a task of LONG elements; what it is said to take. */
enum { LONG = 1 << 18, LONG_OPS = 5, LONG_NS = 100 * 1000 * 1000, SLICE_NS = 1000 * 1000 };

static void long_submit(struct buffer *a, struct buffer **outp, struct ending *e) {
	uint32_t x = leaf_at(a, LONG, 0);
	struct plan *p;

	output(chain(x, x, LONG_OPS));
	p = plan_of_graph();
	ck_assert_uint_eq(p->steps, 1);
	plan_step_measured(&p->step[0], LONG_NS);
	plan_unref(p);
	submit(outp, e);
}

static void check_long(const float *v) {
	for (unsigned i = 0; i < LONG; i++)
		if (v[i] != chain_value((float)i * 0.001f, (float)i * 0.001f, LONG_OPS))
			ck_abort_msg("element %u is %a", i, (double)v[i]);
}

/* A long run of one lane, then a short one of another; the short one was asked for while a slice of the long one ran. */
static void overtake(struct buffer *a, struct buffer *b) {
	struct ending e[2] = { 0 };
	struct buffer *late, *soon;
	struct lane *other;

	ck_assert_int_eq(lane_new(st.exec, &other), 0);
	turns = 0;
	long_submit(a, &late, &e[0]);
	output(op(OP_add, leaf(b), leaf(b)));
	submit_to(other, &soon, &e[1]);
	check_long(published(late));
	wait_idle();
	ck_assert(!e[0].code && !e[1].code);
	ck_assert_uint_lt(e[1].turn, e[0].turn);
	ck_assert_uint_ge(exec_counters(st.exec)->slices, 4);
	buffer_unref(late);
	buffer_unref(soon);
	lane_free(other);
}

/* Then the case is over. */
static bool goes_whole(const char *test) {
	if (device_traits(st.device)->strategy == STRATEGY_CPU)
		return false;
	skip_says(test, "kernels of the GPU strategy go whole");
	close_stage();
	return true;
}

static void go_in_slices(const char *test, enum config_interpreter mode) {
	struct buffer *a, *b, *out;
	struct ending e = { 0 };

	st.slice_ns = SLICE_NS;
	st.interpreter = mode;
	open_usual();
	if (goes_whole(test))
		return;
	a = client_array(LONG, 0, 0.001f);
	b = client_array(N, 0, 0.001f);
	/* Nobody else is there. */
	long_submit(a, &out, &e);
	check_long(published(out));
	ck_assert_uint_eq(exec_counters(st.exec)->slices, 0);
	buffer_unref(out);
	output(op(OP_add, leaf(b), leaf(b)));
	submit(&out, &e);
	published(out);
	buffer_unref(out);
	wait_idle();
	overtake(a, b);
	ck_assert_uint_eq(exec_counters(st.exec)->steps, 4);
	buffer_unref(a);
	buffer_unref(b);
	close_stage();
}

START_TEST(a_long_kernel_goes_in_slices_and_a_short_one_overtakes_it) {
	go_in_slices(__func__, INTERPRETER_OFF);
}
END_TEST

START_TEST(byte_code_goes_in_slices_too) {
	go_in_slices(__func__, INTERPRETER_ALWAYS);
}
END_TEST

/* So the device is heard of meanwhile: what takes long is told from what hangs. Also what is timed. */
static void long_in_slices(const char *test, bool timed) {
	struct buffer *a, *out;
	struct ending e = { 0 };

	st.long_ns = SLICE_NS;
	st.timed = timed;
	open_usual();
	if (goes_whole(test))
		return;
	a = client_array(LONG, 0, 0.001f);
	long_submit(a, &out, &e);
	check_long(published(out));
	wait_idle();
	ck_assert(!e.code);
	ck_assert_uint_ge(exec_counters(st.exec)->slices, 4);
	buffer_unref(out);
	buffer_unref(a);
	close_stage();
}

START_TEST(a_launch_beyond_what_a_device_may_be_silent_goes_in_slices) {
	long_in_slices(__func__, _i);
}
END_TEST

/* Both are launched at once; marks are answered by exec_progress() alone. */
START_TEST(what_goes_before_long_work_is_heard_of_before_it) {
	struct ending e[2] = { 0 };
	struct buffer *a, *out[2];
	struct lane *other;

	open_usual();
	a = client_array(LONG, 0, 0.001f);
	ck_assert_int_eq(lane_new(st.exec, &other), 0);
	/* So the other lane had less of the device, and is next; programs are built. */
	long_submit(a, &out[0], &e[0]);
	published(out[0]);
	buffer_unref(out[0]);
	output(op(OP_add, leaf_at(a, N, 0), leaf_at(a, N, 0)));
	submit(&out[0], &e[0]);
	published(out[0]);
	wait_idle();
	buffer_unref(out[0]);
	exec_gather(st.exec);
	output(op(OP_add, leaf_at(a, N, 0), leaf_at(a, N, 0)));
	submit_to(other, &out[0], &e[0]);
	long_submit(a, &out[1], &e[1]);
	exec_progress(st.exec);
	ck_assert_uint_eq(device_pending(st.device), 2);
	wait_idle();
	ck_assert(!e[0].code && !e[1].code);
	buffer_unref(out[0]);
	buffer_unref(out[1]);
	lane_free(other);
	buffer_unref(a);
	close_stage();
}
END_TEST

START_TEST(a_lane_of_three_times_the_weight_has_three_times_the_runs) {
	const struct lane_share heavy = { .weight = 3 * LANE_WEIGHT, .priority = LANE_NORMAL };
	struct contest c;
	unsigned ahead;

	contest_begin(&c);
	lane_set_share(c.lane[0], &heavy);
	contest_add(&c, 0, BACKLOG);
	contest_add(&c, 1, BACKLOG);
	exec_progress(st.exec);
	wait_idle();
	/* When the heavy one is done, the other has done a third. */
	ahead = c.e[0][BACKLOG - 1].turn - BACKLOG;
	ck_assert_uint_gt(ahead, BACKLOG / 6);
	ck_assert_uint_lt(ahead, BACKLOG / 2);
	contest_end(&c);
}
END_TEST

START_TEST(lanes_of_one_group_have_together_what_one_lane_has) {
	struct lane_group *many = lane_group_new(), *one = lane_group_new();
	struct contest c;

	contest_begin(&c);
	for (int i = 0; i < CONTEST_LANES; i++)
		lane_join(c.lane[i], i < CONTEST_LANES - 1 ? many : one);
	for (int i = 0; i < CONTEST_LANES; i++)
		contest_add(&c, i, BACKLOG / 2);
	exec_progress(st.exec);
	wait_idle();
	/* When the one is done, the others have done as much together, not each. */
	ck_assert_uint_lt(c.e[CONTEST_LANES - 1][BACKLOG / 2 - 1].turn, BACKLOG + BACKLOG / 2);
	ck_assert_uint_gt(lane_group_ns(many), lane_group_ns(one));
	contest_end(&c);
	lane_group_free(many);
	lane_group_free(one);
}
END_TEST

/* A device that is fast has taken all of the first round before it tells what that cost. */
enum { LIMITED_ROUNDS = 3 };

/* Nothing wakes the engine where a group owes time and the device has nothing to do: the service looks at its clock. */
static void wait_for_share(void) {
	for (int ms = 0; exec_busy(st.exec); ms++) {
		ck_assert_msg(ms < PATIENCE_MS, "the group's share never came");
		turn(1);
	}
}

/* How many times as long it took as the device was used. */
static double time_of_limited_group(unsigned percent) {
	struct lane_group *g = lane_group_new();
	uint64_t begin, passed;
	struct contest c;
	double times;

	lane_group_limit(g, percent);
	contest_begin(&c);
	lane_join(c.lane[0], g);
	begin = loop_now_ns();
	for (unsigned round = 0; round < LIMITED_ROUNDS; round++) {
		memset(c.e[0], 0, sizeof c.e[0]);
		contest_add(&c, 0, BACKLOG / LIMITED_ROUNDS);
		exec_progress(st.exec);
		wait_for_share();
		for (unsigned i = 0; i < BACKLOG / LIMITED_ROUNDS; i++)
			ck_assert_int_eq(c.e[0][i].code, 0);
	}
	passed = loop_now_ns() - begin;
	times = (double)passed / (double)lane_group_ns(g);
	contest_end(&c);
	lane_group_free(g);
	return times;
}

/* Nobody waits for the last of them, which seems long where another program takes the processor meanwhile: one of some tries. */
START_TEST(a_group_waits_for_its_share_also_where_nobody_else_wants_it) {
	double times = 0;

	for (int i = 0; i < LIMITED_TRIES && times <= 10; i++)
		times = time_of_limited_group(5);
	ck_assert_double_gt(times, 10);
}
END_TEST

START_TEST(a_higher_priority_goes_first) {
	const struct lane_share high = { .weight = LANE_WEIGHT, .priority = LANE_HIGH };
	struct contest c;

	contest_begin(&c);
	lane_set_share(c.lane[1], &high);
	contest_add(&c, 0, BACKLOG / 2);
	contest_add(&c, 1, BACKLOG / 2);
	exec_progress(st.exec);
	wait_idle();
	ck_assert_uint_lt(c.e[1][BACKLOG / 2 - 1].turn, c.e[0][2].turn + BACKLOG / 2);
	ck_assert_uint_lt(c.e[1][BACKLOG / 2 - 1].turn, c.e[0][BACKLOG / 4].turn);
	contest_end(&c);
}
END_TEST

static void tell_cost(const char *what, unsigned ops, unsigned steps, bool fuse) {
	struct buffer *a = client_array(N, 0, 0.001f), *leaves[1];
	double best = 1e9, all = 0;
	struct plan *p;
	uint32_t v;

	st.fuse = fuse;
	for (unsigned s = 0; s < steps; s++) {
		v = op(OP_mul, leaf(a), scalar((float)s));
		output(chain(v, leaf(a), ops));
	}
	p = plan_of_graph();
	leaves[0] = a;
	cost_of_run(p, leaves, graph_scalar_values(st.graph), 3);
	for (unsigned i = 0; i < 20; i++) {
		double us = cost_of_run(p, leaves, graph_scalar_values(st.graph), 50);

		all += us / 20;
		best = us < best ? us : best;
	}
	printf("%s: %u steps, %.2f us a run (best %.2f), %.3f us an operation\n", what, p->steps, all, best,
		all / (steps * (ops + 1)));
	plan_unref(p);
	graph_reset(st.graph);
	buffer_unref(a);
}

/* Told, not judged: machines differ. */
START_TEST(the_cost_of_a_run_is_told) {
	open_usual();
	tell_cost("one operation", 1, 1, true);
	tell_cost("one kernel of 64", 63, 1, true);
	tell_cost("several outputs", 15, 16, true);
	tell_cost("unfused chain", 63, 1, false);
	close_stage();
}
END_TEST

static TCase *add_case(Suite *s, const char *name) {
	TCase *c = tcase_create(name);

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, TIMEOUT);
	suite_add_tcase(s, c);
	return c;
}

static void add_values(TCase *c) {
	tcase_add_test(c, two_client_arrays_are_added);
	tcase_add_test(c, a_device_with_memory_of_its_own_gives_the_same);
	tcase_add_test(c, timed_runs_keep_their_place_in_the_order);
	tcase_add_test(c, timed_runs_of_a_device_with_memory_of_its_own_keep_their_place);
	tcase_add_test(c, the_gpu_strategy_gives_the_same);
	tcase_add_test(c, a_row_s_mean_is_itself_behind_its_variance);
	tcase_add_test(c, scalars_and_offsets_of_leaves_reach_the_kernel);
	tcase_add_test(c, temporaries_of_a_chain_use_each_others_memory);
	tcase_add_test(c, a_temporary_is_not_overwritten_while_a_neighbour_reads_it);
	tcase_add_test(c, temporaries_work_on_a_device_with_memory_of_its_own);
	tcase_add_test(c, views_of_a_leaf_are_the_leafs_buffer);
	tcase_add_test(c, empty_arrays_run_without_a_launch);
	tcase_add_test(c, what_a_client_writes_is_seen_by_the_next_run);
	tcase_add_loop_test(c, a_factor_stays_packed_until_its_array_is_written_or_goes, 0, 2);
	tcase_add_test(c, weights_of_a_convolution_stay_packed);
	tcase_add_test(c, packed_factors_take_no_more_memory_than_they_may);
}

/* Of so many runs of a slice one builds so much. */
enum { PREPARED_OF = 5 };

static void add_interpreters(TCase *c) {
	/* The last is of GPUs, whose interpreters take a compiler longest. */
	tcase_add_loop_test(c, a_first_run_does_not_wait_for_its_build, 0, slice_part(0, PREPARED_OF) ? 3 : 2);
	/* All that there is to prepare: some 200 kernels. */
	if (slice_part(1, PREPARED_OF))
		tcase_add_test(c, who_comes_once_all_is_prepared_waits_for_no_build);
	tcase_add_test(c, what_is_always_interpreted_builds_nothing_else);
	tcase_add_loop_test(c, generic_kernels_stand_in_for_one_that_is_built, 0, 2);
	tcase_add_test(c, what_stands_in_is_made_where_something_is_to);
	tcase_add_test(c, interpreted_steps_and_others_are_one_run);
	tcase_add_test(c, a_kernel_that_does_not_build_is_interpreted);
	tcase_add_loop_test(c, interpreted_runs_of_several_lanes_are_one_launch, 0, 2);
	tcase_add_loop_test(c, different_graphs_that_are_interpreted_are_one_launch, 0, 2);
	tcase_add_loop_test(c, a_graph_in_several_sizes_is_one_launch, 0, 2);
	tcase_add_test(c, sizes_that_differ_much_are_launches_of_their_own);
}

static void add_failures(TCase *c) {
	tcase_add_test(c, a_poisoned_array_fails_what_reads_it_and_nothing_else);
	tcase_add_test(c, publishing_a_poisoned_array_tells_why);
	tcase_add_test(c, memory_that_runs_out_fails_that_run_alone);
	tcase_add_test(c, a_run_waits_for_its_memory_and_others_do_not);
	tcase_add_test(c, a_result_waits_for_memory_of_the_host_and_others_do_not);
	tcase_add_test(c, others_go_on_while_memory_of_who_goes_alone_is_on_its_way);
	tcase_add_test(c, an_arena_that_was_asked_for_is_kept_until_its_run_has_looked);
	tcase_add_test(c, a_refusal_is_kept_until_its_run_has_looked);
	tcase_add_test(c, a_refusal_of_who_does_not_wait_any_more_is_nobodys);
	tcase_add_test(c, memory_that_is_needed_now_waits_for_what_was_asked_for);
	tcase_add_test(c, what_fits_the_limit_alone_fits_beside_arenas_that_are_empty);
	tcase_add_test(c, temporaries_beyond_their_limit_fail_that_run_alone);
	tcase_add_test(c, launches_the_driver_refuses_are_a_fault_of_the_device);
	tcase_add_test(c, an_operation_that_would_leave_its_array_is_refused);
	tcase_add_test(c, client_memory_outside_its_arena_is_refused);
	tcase_add_test(c, a_kernel_that_does_not_build_is_split_unseen);
	tcase_add_test(c, a_split_plan_replaces_the_one_in_the_cache);
	tcase_add_test(c, a_single_operation_that_does_not_build_is_the_clients_error);
}

static void add_memory(TCase *c) {
	tcase_add_test(c, client_memory_is_reported_free_once_and_only_after_its_last_launch);
	tcase_add_test(c, client_memory_loaded_again_before_it_was_reported_is_not);
	tcase_add_test(c, an_arena_that_was_empty_for_a_while_is_dropped);
	tcase_add_test(c, memory_of_a_released_result_is_the_next_ones);
	tcase_add_test(c, all_results_of_a_run_are_one_request_for_memory);
	tcase_add_loop_test(c, sessions_leave_no_descriptors_mappings_or_buffers, 0, 2);
}

static void add_room(TCase *c) {
	tcase_add_test(c, arrays_beyond_the_device_s_memory_move_to_the_host_and_come_back);
	tcase_add_test(c, the_array_used_longest_ago_goes_first);
	tcase_add_test(c, what_has_a_copy_on_the_host_goes_without_being_copied);
	tcase_add_test(c, arrays_of_one_run_are_there_together);
	tcase_add_test(c, a_run_whose_arrays_do_not_fit_together_goes_step_by_step);
	tcase_add_test(c, a_kernel_whose_arrays_do_not_fit_together_is_cut);
	tcase_add_test(c, an_operation_that_can_never_fit_fails_alone);
	tcase_add_test(c, where_the_host_has_no_room_either_the_run_fails_and_nothing_is_lost);
}

static void add_sharing(TCase *c) {
	tcase_add_loop_test(c, runs_of_one_plan_that_wait_in_several_lanes_are_one_launch, 0, 2);
	tcase_add_test(c, runs_that_are_to_stay_alone_share_no_launch);
	tcase_add_test(c, a_small_array_is_touched_where_the_host_has_it);
	tcase_add_test(c, a_result_that_nobody_asked_for_yet_stays_with_the_device);
	tcase_add_loop_test(c, what_would_cross_the_bus_for_long_is_copied, 0, 2);
	tcase_add_test(c, every_step_of_runs_that_go_together_is_one_launch);
	tcase_add_test(c, a_failed_array_of_one_lane_is_no_trouble_of_the_others);
	tcase_add_test(c, what_was_not_begun_in_time_fails_and_what_came_after_runs);
	tcase_add_test(c, a_short_queue_is_not_behind_a_long_one);
	tcase_add_test(c, a_long_kernel_goes_in_slices_and_a_short_one_overtakes_it);
	tcase_add_test(c, byte_code_goes_in_slices_too);
	tcase_add_loop_test(c, a_launch_beyond_what_a_device_may_be_silent_goes_in_slices, 0, 2);
	tcase_add_test(c, what_goes_before_long_work_is_heard_of_before_it);
	tcase_add_test(c, a_lane_of_three_times_the_weight_has_three_times_the_runs);
	tcase_add_test(c, lanes_of_one_group_have_together_what_one_lane_has);
	tcase_add_test(c, a_group_waits_for_its_share_also_where_nobody_else_wants_it);
	tcase_add_test(c, a_higher_priority_goes_first);
}

static void add_order(TCase *c) {
	tcase_add_test(c, a_lane_overtakes_another_that_waits_for_a_build);
	tcase_add_test(c, a_lane_keeps_its_order_while_it_waits_for_a_build);
	tcase_add_test(c, a_run_waits_for_an_array_of_another_lane);
	tcase_add_test(c, runs_go_on_where_the_ring_was_full);
	tcase_add_test(c, a_lane_that_goes_takes_its_waiting_runs_along);
	tcase_add_test(c, a_lane_that_goes_does_not_tell_of_runs_in_flight);
	tcase_add_test(c, a_space_that_goes_leaves_lost_arrays_and_no_crash);
	tcase_add_test(c, a_space_that_goes_under_a_run_half_launched_is_survived);
	tcase_add_test(c, counters_are_what_the_driver_saw);
	tcase_add_test(c, the_cost_of_a_run_is_told);
}

int main(void) {
	Suite *s = suite_create("exec");
	int failed;

	strcpy(root, "/tmp/fusiond-test-exec-XXXXXX");
	/* Readable for nobody too, which a test becomes. */
	if (!mkdtemp(root) || chmod(root, 0755))
		return EXIT_FAILURE;
	if (!driver_cache_choose(driver_cache, sizeof driver_cache, root))
		return EXIT_FAILURE;

	add_values(add_case(s, "values"));
	add_failures(add_case(s, "failures"));
	add_interpreters(add_case(s, "interpreters"));
	add_memory(add_case(s, "memory"));
	add_room(add_case(s, "room"));
	add_order(add_case(s, "order"));
	add_sharing(add_case(s, "sharing"));
	failed = suite_run(s);
	tree_remove(root);
	return failed;
}
