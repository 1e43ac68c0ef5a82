/*
 * Who gets the device's time, on a clock and a device that are made up: so nothing here depends on the machine. Clients ask, think
 * and ask again; exec's own marks, lanes, slices and scheduler do the rest. The driver's functions and the building of records are wrapped by the linker.
 */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/exec/state.h"
#include "tests/suite.h"

enum {
	US = 1000,
	MS = 1000 * US,
	CLIENTS = 4,
	DEPTH = 16,
	SLICE = 500 * US,
	WARM_MS = 500,
	COUNTED_MS = 10 * 1000,
	/* Percent points of the device's time. */
	TOLERANCE = 5,
	/* A run's last slice may take so many times less than its part of the estimate says. */
	LIGHT = 1000,
};

/* ---- clients ---- */

struct client {
	uint64_t work_ns, think_ns;
	unsigned depth;                      /* requests under way */
	struct lane_share share;
	double wrong;                        /* estimates are so many times the truth */
	bool light_end;                      /* ... and of each run the last slice takes next to nothing */
	bool spiky;                          /* now and then it thinks for much longer */
	uint64_t every_ns, stall_ns;         /* each so often it is kept from its processor for so long */
	uint64_t until_ns;                   /* asks for nothing after that; 0: for ever */

	uint64_t served_ns;                  /* what the device took for it, whatever it is said to have taken */
	struct lane *lane;
	struct plan plan;
	struct plan_step step;
	struct prepared prepared;
	uint64_t due[DEPTH];                 /* when it asks; UINT64_MAX: it has asked */
	unsigned answered[DEPTH];
	uint64_t launches;
};

struct request {
	struct client *client;
	unsigned place;
};

static const struct client *of_run(const struct run *r) {
	return ((const struct request *)r->item.user)->client;
}

/* ---- the device ---- */

static struct {
	uint64_t now, free_ns, busy_ns, ended_ns;
	struct {
		uint64_t end;
		void (*done)(void *user, int error);
		void *user;
	} mark[EXEC_MARKS];
	unsigned first, marks;
	struct traits traits;
	bool joins;
	bool near;                           /* what is launched has run when the launch returns */
	uint64_t noise;
} fake;

uint64_t __wrap_loop_now_ns(void);
const struct traits *__wrap_device_traits(const struct device *d);
uint32_t __wrap_device_building(const struct device *d);
int __wrap_device_mark(struct device *d, void (*done)(void *user, int error), void *user);
int __wrap_device_flush(struct device *d);
uint64_t __wrap_device_ended_ns(const struct device *d);
bool __wrap_launch_joins(const struct exec *x, const struct run *a, const struct run *b);
int __wrap_run_ready(struct exec *x, struct run *r);
int __wrap_launch_steps(struct exec *x, struct run *r);
int __wrap_launch_together(struct exec *x, struct run *const *crew, uint32_t n);

uint64_t __wrap_loop_now_ns(void) {
	return fake.now;
}

const struct traits *__wrap_device_traits(const struct device *d) {
	(void)d;
	return &fake.traits;
}

uint32_t __wrap_device_building(const struct device *d) {
	(void)d;
	return 0;
}

int __wrap_device_mark(struct device *d, void (*done)(void *user, int error), void *user) {
	unsigned at = (fake.first + fake.marks++) % EXEC_MARKS;

	(void)d;
	fake.mark[at].end = fake.free_ns > fake.now ? fake.free_ns : fake.now;
	fake.mark[at].done = done;
	fake.mark[at].user = user;
	return 0;
}

int __wrap_device_flush(struct device *d) {
	(void)d;
	return 0;
}

uint64_t __wrap_device_ended_ns(const struct device *d) {
	(void)d;
	return fake.ended_ns;
}

bool __wrap_launch_joins(const struct exec *x, const struct run *a, const struct run *b) {
	(void)x, (void)a, (void)b;
	return fake.joins;
}

int __wrap_run_ready(struct exec *x, struct run *r) {
	(void)x, (void)r;
	return 0;
}

/* Charges it, as launch.c does, with what it is estimated to take. */
static void device_runs(struct exec *of, struct run *r, uint64_t ns, uint64_t estimate) {
	struct client *c = ((struct request *)r->item.user)->client;
	uint64_t began = fake.now;

	if (fake.free_ns < fake.now)
		fake.free_ns = fake.now;
	fake.free_ns += ns;
	fake.busy_ns += ns;
	c->served_ns += ns;
	if (fake.near)
		fake.now = fake.free_ns;
	of->ran_here |= fake.near;
	schedule_charge(of, &r->item, estimate, began);
}

/* Tells what time it takes in r->base, which nothing else uses here. */
static uint64_t true_ns(const struct run *r) {
	return *r->base;
}

/* As launch.c does: in slices, until the device has enough. */
int __wrap_launch_steps(struct exec *x, struct run *r) {
	uint64_t all = true_ns(r);

	while (r->went < all) {
		uint64_t part = all - r->went < SLICE ? all - r->went : SLICE;

		if (r->went && schedule_pauses(x))
			return -EBUSY;
		device_runs(x, r, r->went + part == all && of_run(r)->light_end ? part / LIGHT : part,
			1 + (uint64_t)((double)schedule_step_ns(r, 0) * (double)part / (double)all));
		r->went += part;
	}
	r->step = 1;
	return 0;
}

int __wrap_launch_together(struct exec *x, struct run *const *crew, uint32_t n) {
	for (uint32_t i = 0; i < n; i++) {
		device_runs(x, crew[i], true_ns(crew[i]), schedule_step_ns(crew[i], 0));
		crew[i]->step = 1;
	}
	return 0;
}

/* ---- requests ---- */

static struct exec *x;
static struct client client[CLIENTS];
static unsigned clients;
static struct request request[CLIENTS][DEPTH];

static uint64_t noise(uint64_t ns) {
	fake.noise = fake.noise * 6364136223846793005u + 1442695040888963407u;
	return ns / 2 + (fake.noise >> 33) % (ns + 1);
}

static uint64_t thought(const struct client *c) {
	uint64_t ns = noise(c->think_ns);

	return c->spiky && fake.noise >> 60 == 0 ? 10 * ns : ns;
}

/* When it asks next, if its processor is its own. */
static uint64_t due_ns(const struct client *c) {
	uint64_t due = fake.now + thought(c), into = c->every_ns ? due % c->every_ns : 0;

	return into < c->stall_ns ? due + c->stall_ns - into : due;
}

static void on_done(void *user, const struct fault *f) {
	struct request *r = user;

	ck_assert_ptr_null(f);
	r->client->due[r->place] = due_ns(r->client);
}

static void ask(struct client *c, unsigned place) {
	struct run *r = calloc(1, sizeof *r);

	ck_assert_ptr_nonnull(r);
	r->base = malloc(sizeof *r->base);
	ck_assert_ptr_nonnull(r->base);
	*r->base = c->work_ns;
	r->item = (struct item){ .kind = ITEM_RUN, .lane = c->lane, .done = on_done, .user = &request[c - client][place] };
	r->plan = &c->plan;
	r->prepared = &c->prepared;
	r->together = fake.joins;
	c->due[place] = UINT64_MAX;
	lane_append(c->lane, &r->item);
}

static struct client *add(uint64_t work_ns, uint64_t think_ns, unsigned depth, uint32_t weight, enum lane_priority priority,
	struct lane_group *group) {
	struct client *c = &client[clients];

	*c = (struct client){ .work_ns = work_ns, .think_ns = think_ns, .depth = depth, .share = { weight, priority }, .wrong = 1 };
	ck_assert_int_eq(lane_new(x, &c->lane), 0);
	if (group)
		lane_join(c->lane, group);
	lane_set_share(c->lane, &c->share);
	c->plan = (struct plan){ .references = UINT32_MAX / 2, .step = &c->step, .steps = 1, .prepared = &c->prepared };
	c->step.estimate_ns = (double)work_ns;
	c->prepared.steps = 1;
	for (unsigned i = 0; i < DEPTH; i++) {
		c->due[i] = i < depth ? fake.now + noise(think_ns) : UINT64_MAX;
		request[clients][i] = (struct request){ c, i };
	}
	clients++;
	return c;
}

static bool asks(const struct client *c) {
	return !c->until_ns || fake.now < c->until_ns;
}

/* When something happens next. */
static uint64_t next_event(uint64_t end) {
	uint64_t next = end, wait = exec_wait_us(x);

	if (wait < (end - fake.now) / US)
		next = fake.now + wait * US;
	if (fake.marks && fake.mark[fake.first].end < next)
		next = fake.mark[fake.first].end;
	for (unsigned i = 0; i < clients; i++)
		for (unsigned k = 0; k < client[i].depth; k++)
			if (client[i].due[k] < next && asks(&client[i]))
				next = client[i].due[k];
	return next > fake.now ? next : fake.now;
}

/* Has somebody asked meanwhile? */
static bool waits(void *user) {
	(void)user;
	for (unsigned i = 0; i < clients; i++)
		for (unsigned k = 0; k < client[i].depth; k++)
			if (client[i].due[k] <= fake.now && asks(&client[i]))
				return true;
	return false;
}

static void answer_marks(void) {
	while (fake.marks && fake.mark[fake.first].end <= fake.now) {
		unsigned at = fake.first;

		fake.first = (fake.first + 1) % EXEC_MARKS;
		fake.marks--;
		fake.ended_ns = fake.mark[at].end;
		fake.mark[at].done(fake.mark[at].user, 0);
	}
}

static void run_for(uint64_t ms) {
	uint64_t end = fake.now + ms * MS;

	while (fake.now < end) {
		fake.now = next_event(end);
		answer_marks();
		exec_gather(x);
		for (unsigned i = 0; i < clients; i++)
			for (unsigned k = 0; k < client[i].depth; k++)
				if (client[i].due[k] <= fake.now && asks(&client[i]))
					ask(&client[i], k);
		exec_progress(x);
	}
}

static uint64_t used(const struct client *c) {
	return lane_usage(c->lane)->device_ns;
}

/* SHARES=1 tells them all. */
static void expect_share(double share, double ideal, const char *what, int number) {
	if (getenv("SHARES"))
		printf("shares: %s %d: %.2f percent of %.2f\n", what, number, share, ideal);
	ck_assert_msg(fabs(share - ideal) <= TOLERANCE, "%s %d: %.1f percent of the device instead of %.1f", what, number, share, ideal);
}

/* Percent of what all were served with that this one was, and, within the tolerance, is said to have used; *busyp: percent of the time that the device worked. */
static double share_of(const struct client *c, double *busyp) {
	uint64_t before[CLIENTS], said[CLIENTS], all = 0, all_said = 0, busy, at = c - client;
	double share, told;

	run_for(WARM_MS);
	for (unsigned i = 0; i < clients; i++) {
		before[i] = client[i].served_ns;
		said[i] = used(&client[i]);
	}
	busy = fake.busy_ns;
	run_for(COUNTED_MS);
	for (unsigned i = 0; i < clients; i++) {
		all += client[i].served_ns - before[i];
		all_said += used(&client[i]) - said[i];
	}
	*busyp = 100.0 * (double)(fake.busy_ns - busy) / ((double)COUNTED_MS * MS);
	share = 100.0 * (double)(c->served_ns - before[at]) / (double)all;
	told = 100.0 * (double)(used(c) - said[at]) / (double)all_said;
	ck_assert_msg(fabs(share - told) <= TOLERANCE, "%.1f percent of the device are told as %.1f", share, told);
	ck_assert_msg(fabs((double)all_said / (double)all - 1) <= 0.01 * TOLERANCE, "%.3f s of the device are told as %.3f", 1e-9 * (double)all,
		1e-9 * (double)all_said);
	return share;
}

static void setup(void) {
	memset(&fake, 0, sizeof fake);
	fake.now = 1000 * MS;
	fake.noise = 1;
	fake.traits.rates.wait_ns = 20 * US;
	clients = 0;
	x = calloc(1, sizeof *x);
	ck_assert_ptr_nonnull(x);
	x->scratch_ready = true;
	exec_heeds(x, waits, NULL);
}

static void teardown(void) {
	for (unsigned i = 0; i < clients; i++)
		lane_free(client[i].lane);
	fake.now += 1000 * MS;
	answer_marks();
	exec_progress(x);
	schedule_free(x);
	free(x);
}

/* ---- weights ---- */

/* Two clients that always have work: a request is on its way whenever none is under way. */
static const struct pair {
	uint64_t work[2], think[2];
	unsigned depth[2];
	uint32_t weight[2];
	double wrong[2];
	bool spiky, together;
} pairs[] = {
	{ { MS, MS }, { 100 * US, 100 * US }, { 1, 1 }, { 100, 5 }, { 1, 1 }, false, false },
	{ { MS, MS }, { 100 * US, 100 * US }, { 1, 1 }, { 5, 100 }, { 1, 1 }, false, false },
	{ { MS, MS }, { 100 * US, 100 * US }, { 1, 1 }, { 100, 50 }, { 1, 1 }, false, false },
	{ { MS, MS }, { 100 * US, 100 * US }, { 1, 1 }, { 100, 100 }, { 1, 1 }, false, false },
	{ { MS, MS }, { 100 * US, 100 * US }, { 1, 1 }, { 300, 100 }, { 1, 1 }, false, false },
	{ { 5 * MS, MS }, { 200 * US, 100 * US }, { 1, 1 }, { 100, 5 }, { 1, 1 }, false, false },
	{ { MS, 5 * MS }, { 100 * US, 200 * US }, { 1, 1 }, { 100, 5 }, { 1, 1 }, false, false },
	{ { 300 * US, 20 * MS }, { 100 * US, MS }, { 1, 1 }, { 100, 20 }, { 1, 1 }, false, false },
	{ { MS, MS }, { 100 * US, 100 * US }, { 8, 1 }, { 100, 5 }, { 1, 1 }, false, false },
	{ { MS, MS }, { 100 * US, 100 * US }, { 1, 8 }, { 100, 5 }, { 1, 1 }, false, false },
	{ { MS, MS }, { 100 * US, 100 * US }, { 8, 8 }, { 100, 5 }, { 1, 1 }, false, false },
	{ { 50 * US, 50 * US }, { 20 * US, 20 * US }, { 1, 1 }, { 100, 5 }, { 1, 1 }, false, false },
	{ { 50 * US, 50 * US }, { 20 * US, 20 * US }, { 8, 8 }, { 100, 5 }, { 1, 1 }, false, false },
	{ { 50 * US, 50 * US }, { 100 * US, 100 * US }, { 8, 8 }, { 100, 5 }, { 1, 1 }, false, true },
	{ { MS, MS }, { 100 * US, 100 * US }, { 1, 1 }, { 100, 5 }, { 4, 0.25 }, false, false },
	{ { MS, MS }, { 100 * US, 100 * US }, { 8, 8 }, { 100, 5 }, { 0.25, 4 }, false, false },
	{ { MS, MS }, { 100 * US, 100 * US }, { 1, 1 }, { 100, 5 }, { 1, 1 }, true, false },
	{ { 2 * MS, 2 * MS }, { 500 * US, 500 * US }, { 1, 1 }, { 10000, 1 }, { 1, 1 }, false, false },
};

/* of: 0, sessions of no user; 1, of one; 2, of two. */
static void share_pair(const struct pair *p, unsigned of, bool near) {
	static const char *const of_whom[] = { "of no user, pair", "of one user, pair", "of two users, pair" };
	struct lane_group *group[2] = { of ? lane_group_new() : NULL, of > 1 ? lane_group_new() : NULL };
	double ideal = 100.0 * p->weight[0] / (p->weight[0] + p->weight[1]), busy, share;

	setup();
	fake.joins = p->together;
	fake.near = near;
	for (int i = 0; i < 2; i++) {
		struct client *c =
			add(p->work[i], p->think[i], p->depth[i], p->weight[i], LANE_NORMAL, of > 1 ? group[i] : group[0]);

		c->step.estimate_ns *= p->wrong[i];
		c->spiky = p->spiky;
	}
	share = share_of(&client[0], &busy);
	expect_share(share, ideal, of_whom[of], (int)(p - pairs));
	/* It rests only while the client is awaited who has by far the most of it. */
	ck_assert_msg(busy > 60, "pair %d, %u users: the device was busy for %.1f percent of the time", (int)(p - pairs), of, busy);
	teardown();
	lane_group_free(group[0]);
	lane_group_free(group[1]);
}

START_TEST(weights_hold_between_sessions) {
	share_pair(&pairs[_i], 0, false);
}
END_TEST

/* As small ones do on the engine's own thread. */
START_TEST(weights_hold_where_launches_have_run_when_they_return) {
	share_pair(&pairs[_i], 0, true);
}
END_TEST

START_TEST(weights_hold_between_sessions_of_one_user) {
	share_pair(&pairs[_i], 1, false);
}
END_TEST

START_TEST(weights_hold_between_users) {
	share_pair(&pairs[_i], 2, false);
}
END_TEST

/* Clients that think for longer than their work takes, so that there is none of theirs for much of the time: shares are of the rest. */
static const struct sporadic {
	uint64_t work[2], think[2];
	unsigned depth[2];
	uint32_t weight[2];
	bool near;
	uint64_t every[2], stall[2];
} sporadics[] = {
	{ { 300 * US, 300 * US }, { 5 * MS, 100 * US }, { 8, 8 }, { 100, 5 }, false, { 0, 0 }, { 0, 0 } },
	{ { 300 * US, 300 * US }, { 5 * MS, 100 * US }, { 8, 8 }, { 100, 5 }, true, { 0, 0 }, { 0, 0 } },
	{ { 300 * US, 300 * US }, { 100 * US, 5 * MS }, { 8, 8 }, { 100, 5 }, true, { 0, 0 }, { 0, 0 } },
	{ { 50 * US, 50 * US }, { 500 * US, 300 * US }, { 8, 8 }, { 100, 5 }, false, { 0, 0 }, { 0, 0 } },
	{ { 50 * US, 50 * US }, { 500 * US, 300 * US }, { 8, 8 }, { 100, 5 }, true, { 0, 0 }, { 0, 0 } },
	{ { 50 * US, 50 * US }, { 300 * US, US }, { 2, 8 }, { 100, 5 }, true, { 0, 0 }, { 0, 0 } },
	{ { 50 * US, 300 * US }, { 400 * US, 300 * US }, { 8, 8 }, { 100, 50 }, true, { 0, 0 }, { 0, 0 } },
	{ { 300 * US, 50 * US }, { 2 * MS, 300 * US }, { 8, 8 }, { 100, 100 }, false, { 0, 0 }, { 0, 0 } },
	{ { 300 * US, 300 * US }, { 20 * US, 20 * US }, { 8, 8 }, { 100, 5 }, true, { 20 * MS, 0 }, { 6 * MS, 0 } },
	{ { 300 * US, 300 * US }, { 20 * US, 20 * US }, { 8, 8 }, { 100, 5 }, false, { 20 * MS, 0 }, { 6 * MS, 0 } },
	{ { 300 * US, 300 * US }, { 100 * US, 100 * US }, { 8, 8 }, { 100, 5 }, true, { 50 * MS, 30 * MS }, { 10 * MS, 4 * MS } },
	{ { 300 * US, 300 * US }, { 100 * US, 100 * US }, { 1, 1 }, { 100, 5 }, true, { 20 * MS, 14 * MS }, { 3 * MS, 3 * MS } },
	{ { 300 * US, 300 * US }, { 500 * US, 300 * US }, { 8, 8 }, { 100, 5 }, true, { 7 * MS, 14 * MS }, { 3 * MS, 3 * MS } },
};

START_TEST(weights_hold_while_both_have_work) {
	const struct sporadic *p = &sporadics[_i];
	double ideal = 100.0 * p->weight[0] / (p->weight[0] + p->weight[1]), share, both[2];

	setup();
	fake.near = p->near;
	for (int i = 0; i < 2; i++) {
		struct client *c = add(p->work[i], p->think[i], p->depth[i], p->weight[i], LANE_NORMAL, NULL);

		c->every_ns = p->every[i];
		c->stall_ns = p->stall[i];
	}
	run_for(COUNTED_MS);
	for (int i = 0; i < 2; i++)
		both[i] = (double)lane_usage(client[i].lane)->contended_ns;
	share = 100 * both[0] / (both[0] + both[1]);
	expect_share(share, ideal, "while both have work, pair", _i);
	ck_assert_double_lt(both[0], (double)used(&client[0]) + 1);
	teardown();
}
END_TEST

START_TEST(several_sessions_of_a_user_have_together_what_one_has) {
	struct lane_group *many = lane_group_new(), *one = lane_group_new();
	double busy, share;

	setup();
	add(MS, 100 * US, 1, 100, LANE_NORMAL, one);
	for (int i = 0; i < 3; i++)
		add(MS, 100 * US, 1, 100, LANE_NORMAL, many);
	share = share_of(&client[0], &busy);
	ck_assert_msg(fabs(share - 50) <= TOLERANCE, "%.1f percent", share);
	ck_assert_double_gt(busy, 90);
	teardown();
	lane_group_free(many);
	lane_group_free(one);
}
END_TEST

/* What each part of a run took is what is charged for it: the last one says nothing of the others. */
START_TEST(a_light_end_does_not_make_a_long_run_cheap) {
	double busy, share;

	setup();
	add(5 * MS + SLICE / 10, 100 * US, 2, 100, LANE_NORMAL, NULL)->light_end = true;
	add(5 * MS, 100 * US, 2, 100, LANE_NORMAL, NULL);
	share = share_of(&client[0], &busy);
	ck_assert_msg(fabs(share - 50) <= TOLERANCE, "%.1f percent", share);
	ck_assert_double_gt(busy, 90);
	teardown();
}
END_TEST

/* ---- what it costs ---- */

START_TEST(equal_clients_leave_the_device_no_rest) {
	double busy;

	setup();
	add(MS, 100 * US, 1, 100, LANE_NORMAL, NULL);
	add(MS, 100 * US, 1, 100, LANE_NORMAL, NULL);
	share_of(&client[0], &busy);
	ck_assert_msg(busy > 98, "%.1f percent", busy);
	teardown();
}
END_TEST

/* It thinks for longer than it works: the device is not kept for it. */
START_TEST(who_asks_now_and_then_is_not_awaited) {
	double busy, share;

	setup();
	add(200 * US, 2 * MS, 1, 10000, LANE_HIGH, NULL);
	add(MS, 50 * US, 2, 1, LANE_LOW, NULL);
	share = share_of(&client[0], &busy);
	ck_assert_msg(busy > 98, "%.1f percent", busy);
	ck_assert_double_gt(share, 4);
	teardown();
}
END_TEST

/* Its request comes while a launch has the thread: nothing else is launched before it is heard. */
START_TEST(who_asks_is_heard_between_launches_that_have_run_when_they_return) {
	double busy, share;

	setup();
	fake.near = true;
	add(50 * US, 150 * US, 1, 100, LANE_NORMAL, NULL);
	add(50 * US, US, 8, 5, LANE_NORMAL, NULL);
	share = share_of(&client[0], &busy);
	/* Each time it waits for two of the other's requests at most: one that has the thread when it asks, and one when its own is done. */
	ck_assert_msg(share > 100.0 * 50 / (150 + 50 + 2 * 50), "%.1f percent", share);
	ck_assert_double_gt(busy, 98);
	teardown();
}
END_TEST

/* One that is awaited whenever it thinks, and one that would always run. */
static void begin_awaited(void) {
	setup();
	add(MS, 100 * US, 1, 10000, LANE_HIGH, NULL);
	add(MS, 50 * US, 2, 1, LANE_LOW, NULL);
	run_for(1000);
}

START_TEST(who_stops_asking_is_waited_for_once) {
	uint64_t busy;

	begin_awaited();
	client[0].until_ns = fake.now;
	run_for(50);
	busy = fake.busy_ns;
	run_for(1000);
	ck_assert_uint_gt(fake.busy_ns - busy, UINT64_C(980) * MS);
	teardown();
}
END_TEST

START_TEST(the_end_of_an_awaited_lane_lets_others_go_on) {
	uint64_t busy;

	begin_awaited();
	lane_free(client[0].lane);
	client[0] = client[1];
	for (unsigned k = 0; k < DEPTH; k++)
		request[1][k].client = &client[0];
	clients = 1;
	busy = fake.busy_ns;
	/* Its plan and what is prepared have moved with it; those of what was asked for before are where they were. */
	run_for(1000);
	ck_assert_uint_gt(fake.busy_ns - busy, UINT64_C(970) * MS);
	teardown();
}
END_TEST

/* ---- priorities ---- */

static const struct ranks {
	uint64_t work[2];
	unsigned depth[2];
	enum lane_priority priority[2];
} ranks[] = {
	{ { MS, MS }, { 1, 1 }, { LANE_NORMAL, LANE_LOW } },
	{ { MS, MS }, { 1, 8 }, { LANE_HIGH, LANE_NORMAL } },
	{ { MS, MS }, { 8, 8 }, { LANE_HIGH, LANE_LOW } },
	{ { MS, 20 * MS }, { 1, 2 }, { LANE_NORMAL, LANE_LOW } },
	{ { 100 * US, 5 * MS }, { 1, 2 }, { LANE_NORMAL, LANE_LOW } },
	{ { 20 * MS, MS }, { 1, 1 }, { LANE_NORMAL, LANE_LOW } },
};

/* A turn is what the device takes at a time: a slice beyond SCHEDULE_SLICE_NS, of 50 ms. */
START_TEST(of_a_lower_priority_only_turns_are_served) {
	const struct ranks *r = &ranks[_i];
	double busy, share;

	setup();
	for (int i = 0; i < 2; i++)
		add(r->work[i], 50 * US, r->depth[i], i ? 10000 : 1, r->priority[i], NULL);
	share = 100 - share_of(&client[0], &busy);
	if (getenv("SHARES"))
		printf("shares: of a lower priority, ranks %d: %.2f percent\n", _i, share);
	ck_assert_msg(share <= 100.0 * (MS + SLICE) / (50.0 * MS), "the lower priority had %.2f percent", share);
	ck_assert_msg(share >= 100.0 * SLICE / (100.0 * MS), "the lower priority had %.2f percent", share);
	teardown();
}
END_TEST

/* What it was given under one priority is not held against it under another one. */
START_TEST(a_changed_priority_begins_where_the_others_are) {
	const struct lane_share low = { .weight = 100, .priority = LANE_LOW };
	double busy, share;

	setup();
	add(MS, 50 * US, 2, 100, LANE_NORMAL, NULL);
	run_for(5000);
	add(MS, 50 * US, 2, 100, LANE_LOW, NULL);
	lane_set_share(client[0].lane, &low);
	share = share_of(&client[0], &busy);
	ck_assert_msg(fabs(share - 50) <= TOLERANCE, "%.1f percent", share);
	teardown();
}
END_TEST

int main(void) {
	const int pair_count = (int)(sizeof pairs / sizeof *pairs);
	Suite *s = suite_create("schedule");
	TCase *weights = tcase_create("weights"), *rest = tcase_create("rest");

	tcase_add_loop_test(weights, weights_hold_between_sessions, 0, pair_count);
	tcase_add_loop_test(weights, weights_hold_where_launches_have_run_when_they_return, 0, pair_count);
	tcase_add_loop_test(weights, weights_hold_between_sessions_of_one_user, 0, pair_count);
	tcase_add_loop_test(weights, weights_hold_between_users, 0, pair_count);
	tcase_add_loop_test(weights, weights_hold_while_both_have_work, 0, (int)(sizeof sporadics / sizeof *sporadics));
	tcase_add_test(weights, several_sessions_of_a_user_have_together_what_one_has);
	tcase_add_test(weights, a_light_end_does_not_make_a_long_run_cheap);
	tcase_add_test(rest, equal_clients_leave_the_device_no_rest);
	tcase_add_test(rest, who_asks_now_and_then_is_not_awaited);
	tcase_add_test(rest, who_asks_is_heard_between_launches_that_have_run_when_they_return);
	tcase_add_test(rest, who_stops_asking_is_waited_for_once);
	tcase_add_test(rest, the_end_of_an_awaited_lane_lets_others_go_on);
	tcase_add_loop_test(rest, of_a_lower_priority_only_turns_are_served, 0, (int)(sizeof ranks / sizeof *ranks));
	tcase_add_test(rest, a_changed_priority_begins_where_the_others_are);
	suite_add_tcase(s, weights);
	suite_add_tcase(s, rest);
	return suite_run(s);
}
