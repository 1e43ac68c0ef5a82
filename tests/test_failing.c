/*
 * Each call of a real daemon that may fail, fails: what supervisor, engine, workers and gateway ask of the system and of OpenCL (interpose/failing.h), once and
 * from then on. (`sim --points` does so to the first three in a simulation, without a driver and without workers.)
 *
 * A client computes a little meanwhile. What it is refused is refused with an error that says why, and what it reads is right; no process crashes or hangs;
 * and when calls fail no more the daemon does all that it should, or, where it could not start or go on, says so and starts anew.
 *
 * Make check takes some, by its slice; make check-faults takes all. FAILING="engine opencl" takes those, and FAILING="engine opencl 17 on" one.
 */
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "tests/daemon.h"
#include "tests/driver_cache.h"
#include "tests/interpose/failing.h"
#include "tests/slice.h"
#include "tests/suite.h"

enum {
	TEST_SECONDS = 3 * PATIENCE_S,
	/* So many of all in a run of check: a daemon each. */
	POINTS_OF_CHECK = 6,
	/* For the client while calls fail: who waits at a door that nobody opens is told so. */
	FAILING_TIMEOUT_MS = 3000,
	N = 64,
	LOOK_US = 50000,
};

static const char *const roles[] = {
#define X(name) #name,
	FAILING_ROLES(X)
#undef X
};

static const char *const calls[] = {
#define X(name) #name,
	FAILING_CALLS(X)
#undef X
};

struct point {
	unsigned role, call;
	uint64_t number;
	bool on;
};

/* In memory that all processes of tests share. */
static struct tally {
	uint64_t counted[FAILING_ROLE_COUNT][FAILING_CALL_COUNT];
	uint64_t refused, unstarted, unmet;
} *tally;

static struct point named;
static struct failing *failing;
static char failing_path[96], log_path[96], library[256], variable[128];
static bool remote;

/* ---- the daemon ---- */

static void make_folder(void) {
	int fd;

	snprintf(folder, sizeof folder, "/tmp/fusion-failing-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	snprintf(failing_path, sizeof failing_path, "%s/failing", folder);
	snprintf(log_path, sizeof log_path, "%s/log", folder);
	snprintf(library, sizeof library, "LD_PRELOAD=%s/tests/failing.so", build_folder());
	snprintf(variable, sizeof variable, "FUSION_INTERPOSE_FAILING=%s", failing_path);
	fd = open(failing_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ck_assert_int_eq(ftruncate(fd, sizeof *failing), 0);
	failing = mmap(NULL, sizeof *failing, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert(failing != MAP_FAILED);
	close(fd);
}

/* In a line without what is no matter; NULL: in any. */
static bool log_has(const char *words, const char *but) {
	char line[1024];
	bool found = false;
	FILE *f = fopen(log_path, "re");

	while (f && !found && fgets(line, sizeof line, f))
		found = strstr(line, words) && !(but && strstr(line, but));
	if (f)
		fclose(f);
	return found;
}

static void launch(void) {
	char program[256], cache[128];

	snprintf(door, sizeof door, "%s/door", folder);
	snprintf(cache, sizeof cache, "%s/cache", folder);
	snprintf(program, sizeof program, "%s/fusiond", build_folder());
	unlink(door);
	ck_assert(driver_cache_link(cache));
	daemon_pid = fork();
	if (!daemon_pid) {
		int fd = open(log_path, O_WRONLY | O_CREAT | O_APPEND, 0600);

		/* A test that fails leaves none behind. */
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		dup2(fd, 1);
		dup2(fd, 2);
		putenv(library);
		putenv(variable);
		execl(program, program, "--socket", door, "--cache-dir", cache, "--set", "fusion.interpreter=off", "--set", "device.measure=no", (char *)NULL);
		_exit(127);
	}
	setenv("FUSION_SOCKET", door, 1);
}

/* It ended by itself; false: it lives. A crash fails the test. */
static bool has_given_up(void) {
	int status;

	if (!has_ended(daemon_pid))
		return false;
	ck_assert_int_eq(waitpid(daemon_pid, &status, 0), daemon_pid);
	ck_assert_msg(WIFEXITED(status), "the supervisor was ended by signal %d", WTERMSIG(status));
	ck_assert_msg(WEXITSTATUS(status), "the supervisor ended as if all were well");
	ck_assert_msg(log_has("fusiond", NULL), "the supervisor ended and said nothing");
	daemon_pid = 0;
	return true;
}

/* False: it gave up. */
static bool started(void) {
	launch();
	AWAIT(!access(door, F_OK) || has_given_up());
	return daemon_pid;
}

static void stop(void) {
	int status;

	if (!daemon_pid || has_given_up())
		return;
	kill(daemon_pid, SIGTERM);
	ck_assert_int_eq(waitpid(daemon_pid, &status, 0), daemon_pid);
	ck_assert_msg(WIFEXITED(status), "the daemon was ended by signal %d", WTERMSIG(status));
	daemon_pid = 0;
}

/* ---- the client ---- */

static bool wrong_code(int code) {
	return code == FUSION_E_INTERNAL || code == FUSION_E_PROTOCOL || code == FUSION_E_HANDLE || code == FUSION_E_ARGUMENT;
}

/* Was it done? A refusal says why. */
static bool done(bool ok, const char *what) {
	int code = fusion_error_code();

	if (ok)
		return true;
	ck_assert_msg(code && *fusion_error(), "%s failed without a word", what);
	ck_assert_msg(!wrong_code(code), "%s is refused: %s: %s", what, fusion_code_name(code), fusion_error());
	if (named.number && atomic_load(&failing->number))
		printf("%s: %s: %s\n", what, fusion_code_name(code), fusion_error());
	fusion_error_clear();
	return false;
}

/* Reads a vector or what is left of one, and releases it. */
static bool holds(fusion_array *a, int64_t count, float (*want)(int64_t i), const char *what) {
	float got[N];
	bool ok = done(a, what) && done(!fusion_read(a, got, (size_t)count * sizeof *got), what);

	for (int64_t i = 0; ok && i < count; i++)
		ck_assert_msg(got[i] == want(i), "%s: element %d is %g, not %g", what, (int)i, (double)got[i], (double)want(i));
	fusion_release(a);
	return ok;
}

static float value_at(int64_t i) {
	return (float)i;
}

static float formula_at(int64_t i) {
	return (float)((i + i) * i);
}

static float total(int64_t i) {
	(void)i;
	return (float)(N * (N - 1) / 2);
}

static fusion_array *formula(fusion_array *x) {
	fusion_array *sum = fusion_add(x, x), *product = sum ? fusion_mul(sum, x) : NULL;

	fusion_release(sum);
	return product;
}

/* A column of them, times a row of ones: rows of i. Their maximum is the column again. */
static fusion_array *product(fusion_array *x) {
	fusion_array *column = fusion_reshape(x, 2, (int64_t[]){ N, 1 }), *ones = fusion_full(fusion_context_of(x), FUSION_F32, 2, (int64_t[]){ 1, N }, 1);
	fusion_array *all = column && ones ? fusion_matmul(column, ones) : NULL, *most = all ? fusion_max(all, 1, &(int){ 1 }, false) : NULL;

	fusion_release(column);
	fusion_release(ones);
	fusion_release(all);
	return most;
}

static bool map_holds(fusion_array *x) {
	fusion_array *a = formula(x);
	const float *memory;
	void *place;
	bool ok = done(a, "a map") && done(!fusion_map(a, FUSION_MAP_READ, &place), "a map");

	memory = ok ? place : NULL;
	for (int64_t i = 0; ok && i < N; i++)
		ck_assert_msg(memory[i] == formula_at(i), "a map: element %d is %g", (int)i, (double)memory[i]);
	ok = ok && done(!fusion_unmap(a), "an unmap");
	fusion_release(a);
	return ok;
}

static bool replay_holds(fusion_context *c, fusion_array *x) {
	fusion_array *y = NULL;
	fusion_capture *g = NULL;
	bool ok = done(!fusion_capture_begin(c, 1, &x), "a recording");

	if (!ok)
		return false;
	y = formula(x);
	if (y)
		g = fusion_capture_end(c, 1, &y);
	else
		fusion_capture_abort(c);
	ok = done(g, "a recording");
	fusion_release(y);
	ok = ok && done(!fusion_replay(g, &x, &y), "a replay") && holds(y, N, formula_at, "a replay");
	fusion_capture_free(g);
	return ok;
}

static bool all_holds(fusion_context *c) {
	float value[N];
	fusion_array *x;
	bool ok;

	for (int64_t i = 0; i < N; i++)
		value[i] = value_at(i);
	x = fusion_from(c, FUSION_F32, 1, (int64_t[]){ N }, value);
	if (!done(x, "an upload"))
		return false;
	ok = holds(formula(x), N, formula_at, "a formula");
	ok &= holds(fusion_sum(x, 0, NULL, false), 1, total, "a sum");
	ok &= holds(product(x), N, value_at, "a product");
	ok &= map_holds(x);
	ok &= replay_holds(c, x);
	ok &= done(!fusion_sync(c), "a sync");
	fusion_release(x);
	return ok;
}

static bool read_address(char url[static 128]) {
	char text[STATUS_TEXT];
	cJSON *json = door_answer(text), *item = cJSON_GetObjectItem(json, "remote");
	bool there = cJSON_IsString(item) && *item->valuestring;

	if (there)
		snprintf(url, 128, "%s", item->valuestring);
	cJSON_Delete(json);
	return there;
}

/* Was all done, and right? */
static bool client(uint32_t timeout_ms) {
	struct fusion_options o = { .socket = door, .timeout_ms = timeout_ms };
	char url[128];
	fusion_context *c;
	bool ok;

	if (remote) {
		o.socket = url;
		if (!read_address(url))
			return false;
	}
	if (!done(!fusion_open(&c, &o), "a session"))
		return false;
	ok = all_holds(c);
	if (ok && !timeout_ms)
		expect_back(c, "sessions", 1);
	fusion_close(c);
	return ok;
}

/* ---- a point ---- */

static void arm(const struct point *p) {
	memset((void *)failing, 0, sizeof *failing);
	atomic_store(&failing->role, p->role);
	atomic_store(&failing->call, p->call);
	atomic_store(&failing->on, p->on);
	atomic_store(&failing->number, p->number);
}

static void heal(void) {
	atomic_store(&failing->number, 0);
}

/* Again until nothing is left of what failed. */
static void get_well(void) {
	bool well = false;

	for (int i = 0; i < START_TRIES && !well; i++) {
		if (!daemon_pid || has_given_up())
			ck_assert_msg(started(), "the daemon does not start any more");
		well = client(0);
		if (!well)
			usleep(LOOK_US);
	}
	ck_assert_msg(well, "the daemon does not get well");
}

static void run(const struct point *p) {
	make_folder();
	arm(p);
	if (!started())
		tally->unstarted++;
	else if (!client(FAILING_TIMEOUT_MS))
		tally->refused++;
	/* Some of it fails where clients have gone. */
	if (p->number && !atomic_load(&failing->failed))
		stop();
	heal();
	tally->unmet += p->number && !atomic_load(&failing->failed);
	get_well();
	stop();
	/* An engine that is told to end before it has begun. */
	ck_assert_msg(!log_has("was killed by signal", "signal 15"), "a process crashed; see %s", log_path);
	remove_folder();
}

static struct point point_of(uint64_t i) {
	struct point p = { .on = i % 2, .number = i / 2 };

	for (p.role = 0; p.role < FAILING_ROLE_COUNT; p.role++)
		for (p.call = 0; p.call < FAILING_CALL_COUNT; p.call++) {
			if (p.number < tally->counted[p.role][p.call]) {
				p.number++;
				return p;
			}
			p.number -= tally->counted[p.role][p.call];
		}
	abort();
}

static void take(const struct point *p) {
	/* Sessions of other machines have the gateway, and those alone. */
	remote = p->role == FAILING_gateway;
	if (remote)
		setenv("FUSIOND_REMOTE_LISTEN", "tcp://127.0.0.1:0", 1);
	printf("point %s %s %llu %s\n", roles[p->role], calls[p->call], (unsigned long long)p->number, p->on ? "on" : "once");
	fflush(stdout);
	run(p);
}

START_TEST(what_fails_is_told_and_the_daemon_gets_well) {
	const struct point p = point_of((uint64_t)_i);

	take(&p);
}
END_TEST

/* Which the driver has again: nothing is refused for ever. Calls are counted from when the daemon is there. */
START_TEST(kernels_for_which_the_driver_had_no_memory_are_built_once_it_has_some) {
	const struct point p = { .role = FAILING_engine, .call = FAILING_no_opencl, .number = 1, .on = true };

	make_folder();
	arm(&(struct point){ .number = 0 });
	ck_assert(started());
	arm(&p);
	ck_assert(!client(FAILING_TIMEOUT_MS));
	heal();
	get_well();
	stop();
	remove_folder();
}
END_TEST

START_TEST(the_one_that_is_named) {
	take(&named);
	printf("the first that failed: %s\n", failing->place);
}
END_TEST

/* ---- all points ---- */

/* How many calls there are in a run in which none fails. */
static void count_calls(bool by_gateway) {
	const struct point none = { .role = by_gateway ? FAILING_gateway : FAILING_engine };

	remote = by_gateway;
	if (remote)
		setenv("FUSIOND_REMOTE_LISTEN", "tcp://127.0.0.1:0", 1);
	make_folder();
	arm(&none);
	ck_assert_msg(started() && client(0), "the daemon does not do it when nothing fails; see %s", log_path);
	stop();
	for (unsigned r = 0; r < FAILING_ROLE_COUNT; r++)
		for (unsigned c = 0; c < FAILING_CALL_COUNT; c++)
			if ((r == FAILING_gateway) == by_gateway)
				tally->counted[r][c] = atomic_load(&failing->count[r][c]);
	remove_folder();
	unsetenv("FUSIOND_REMOTE_LISTEN");
	remote = false;
}

/* Claims are a test's, so this is one, which the others need. */
static bool counting;

START_TEST(a_run_in_which_nothing_fails) {
	count_calls(counting);
}
END_TEST

static void apart(bool by_gateway) {
	Suite *s = suite_create("failing: calls are counted");
	TCase *t = tcase_create("count");

	counting = by_gateway;
	tcase_set_timeout(t, TEST_SECONDS);
	tcase_add_test(t, a_run_in_which_nothing_fails);
	suite_add_tcase(s, t);
	if (suite_run(s))
		exit(EXIT_FAILURE);
}

static uint64_t tell_counts(void) {
	uint64_t all = 0;

	for (unsigned r = 0; r < FAILING_ROLE_COUNT; r++) {
		printf("note: calls of the %s that fail, once and from then on:", roles[r]);
		for (unsigned c = 0; c < FAILING_CALL_COUNT; c++) {
			printf(" %s %llu", calls[c], (unsigned long long)tally->counted[r][c]);
			all += 2 * tally->counted[r][c];
		}
		printf("\n");
	}
	return all;
}

/* In check a few, far from each other, others in each slice; of a kind that is named one in so many as there are slices. */
static uint64_t add_points(TCase *t, uint64_t all, bool of_kind) {
	uint64_t apart = slice_is_all() ? 1 : all / POINTS_OF_CHECK + 1, taken = 0;
	unsigned which = 0, of = 1;

	if (!slice_is_all())
		slice_read(&which, &of);
	if (of_kind)
		apart = of;
	for (uint64_t i = (uint64_t)which * apart / of; i < all; i += apart) {
		const struct point p = point_of(i);

		if (of_kind && (p.role != named.role || p.call != named.call))
			continue;
		tcase_add_loop_test(t, what_fails_is_told_and_the_daemon_gets_well, (int)i, (int)i + 1);
		taken++;
	}
	return taken;
}

/* A point, or with number 0 a kind of them. */
static bool read_point(const char *text, struct point *p) {
	char role[32], call[32], how[8] = "";
	unsigned long long number = 0;

	if (!text || sscanf(text, "%31s %31s %llu %7s", role, call, &number, how) < 2)
		return false;
	*p = (struct point){ .number = number, .on = !strcmp(how, "on") };
	while (p->role < FAILING_ROLE_COUNT && strcmp(roles[p->role], role) != 0)
		p->role++;
	while (p->call < FAILING_CALL_COUNT && strcmp(calls[p->call], call) != 0)
		p->call++;
	return p->role < FAILING_ROLE_COUNT && p->call < FAILING_CALL_COUNT;
}

int main(void) {
	Suite *s = suite_create("failing");
	TCase *points = tcase_create("points");
	char self[16];
	uint64_t all = 0, taken = 1;
	bool of_kind;
	int failed;

	snprintf(self, sizeof self, "%u", (unsigned)geteuid());
	setenv("FUSIOND_REMOTE_PLAIN_USER", self, 1);
	tally = mmap(NULL, sizeof *tally, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	tcase_set_timeout(points, TEST_SECONDS);
	suite_add_tcase(s, points);
	of_kind = read_point(getenv("FAILING"), &named);
	if (of_kind && named.number) {
		tcase_add_test(points, the_one_that_is_named);
	} else {
		apart(false);
		apart(true);
		all = tell_counts();
		taken = add_points(points, all, of_kind);
		if (!of_kind)
			tcase_add_test(points, kernels_for_which_the_driver_had_no_memory_are_built_once_it_has_some);
	}
	failed = suite_run(s);
	printf("note: %llu of %llu points; the client was refused something in %llu, the daemon did not start in %llu, %llu were not met\n",
		(unsigned long long)taken, (unsigned long long)all, (unsigned long long)tally->refused, (unsigned long long)tally->unstarted,
		(unsigned long long)tally->unmet);
	return failed;
}
