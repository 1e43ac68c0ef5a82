/*
 * Runs seeds: sim [--seeds N] [--seed FIRST] [--again EVERY] [--jobs N] [--seconds N] [--verbose] [--trace FILE], or fails calls in order: sim --points
 *
 * A seed says how many clients there are, whose, when they come and what they do, how the daemon is configured, and what goes wrong. The last
 * lines count seeds, steps and faults; exit status 1 and a line "seed N: WRONG: ..." where something was not as it should be.
 */
#include "world.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	CLIENTS = 6,
	STEPS_MOST = 20 * 1000 * 1000,
	SCRIPT_STEPS_MOST = 500 * 1000,
	VIRTUAL_HOURS = 4,
	JOBS_MOST = 256,
};

static char folder[64], socket_path[96], cache_path[96], engine_path[96], config_path[96];
static struct {
	unsigned clients, started;
	unsigned engine_ends, client_ends, supervisor_ends, hangs, freezes;
	bool stopping;
	const struct point *point;      /* NULL: a seed says what happens */
	unsigned settings;
	char setting[16][64];
} plan;

static struct actor *supervisor(void) {
	for (unsigned i = world.actors; i-- > 0;)
		if (world.actor[i].kind == ACTOR_SUPERVISOR && world.actor[i].alive)
			return &world.actor[i];
	return NULL;
}

/* ---- what a seed says ---- */

__attribute__((format(printf, 1, 2))) static void set(const char *format, ...) {
	va_list list;

	va_start(list, format);
	vsnprintf(plan.setting[plan.settings++], sizeof plan.setting[0], format, list);
	va_end(list);
}

static uint64_t one_of(unsigned count, const uint64_t *of) {
	return of[sim_random(count)];
}

static void choose_settings(void) {
	static const uint64_t windows[] = { 0, 200, 5000 }, cleared[] = { 0, 1 << 20 };

	set("fusion.interpreter=off");
	set("device.workers=no");
	set("log.level=debug");
	set("engine.slice_us=0");
	set("fusion.window_us=%d", (int)one_of(3, windows));
	set("door.cleared_bytes=%d", (int)one_of(2, cleared));
	set("engine.near_us=%d", sim_random(2) ? 0 : 500);
	set("engine.spare=%d", sim_random(3) == 0);
	world.discrete = !sim_random(3);
	set("device.discrete=%s", world.discrete ? "yes" : "no");
	set("fusion.together=%s", sim_random(4) ? "yes" : "no");
	set("fusion.recurring=%s", sim_random(4) ? "yes" : "no");
}

/* Calls that fail, of the supervisor, of engines, of clients or of all: a few, or from a moment on one in so many. */
static void choose_call_faults(void) {
	static const enum sim_fault kinds[] = { SIM_no_memory, SIM_no_descriptor, SIM_no_shared_memory, SIM_no_mapping };
	unsigned kind = (unsigned)sim_random(5);

	for (unsigned k = 0; k < 4; k++)
		if (kind == 4 || k == kind)
			world.rate[kinds[k]] = kinds[k] == SIM_no_memory ? 20 + sim_random(3000) : 1 + sim_random(60);
	world.rate[SIM_interrupted] = sim_random(2) ? 20 : 0;
	world.left = 1 + sim_random(sim_random(2) ? 3 : 100);
	world.victims = sim_random(2) ? 1U << sim_random(ACTOR_KINDS) : (1U << ACTOR_KINDS) - 1;
	world.calls_from_ns = sim_random(3) ? world.now_ns + sim_random(100 * 1000000) : 0;
}

static void choose_faults(void) {
	if (!sim_random(4))
		return;
	/* Now and then in one that follows the other. */
	plan.engine_ends = sim_random(2) ? (unsigned)sim_random(sim_random(4) ? 4 : 20) : 0;
	plan.client_ends = sim_random(3) ? 0 : (unsigned)sim_random(3);
	plan.supervisor_ends = sim_random(5) ? 0 : 1;
	plan.hangs = sim_random(6) ? 0 : 1;
	plan.freezes = sim_random(4) ? 0 : 1 + (unsigned)sim_random(2);
	if (sim_random(2))
		world.rate[SIM_build_late] = 3;
	if (sim_random(2))
		world.rate[SIM_build_fails] = 3;
	if (sim_random(2))
		world.rate[SIM_completion_late] = 10;
	if (!sim_random(2))
		choose_call_faults();
}

/* ---- what happens when ---- */

static void start_supervisor(void *user) {
	const char *argv[64] = { "fusiond", "--config", config_path, "--socket", socket_path, "--cache-dir", cache_path, "--engine", engine_path };
	int argc = 9;

	(void)user;
	if (plan.stopping)
		return;
	for (unsigned i = 0; i < plan.settings; i++) {
		argv[argc++] = "--set";
		argv[argc++] = plan.setting[i];
	}
	actor_start(ACTOR_SUPERVISOR, 0, 0, 0, argc, argv, -1);
}

static void start_client(void *user) {
	unsigned number = (unsigned)(uintptr_t)user;
	char text[16], steps[16];
	const char *argv[] = { "client", text, socket_path, steps };
	struct actor *a;

	snprintf(text, sizeof text, "%u", number);
	snprintf(steps, sizeof steps, "%u", 5 + (unsigned)sim_random(60));
	a = actor_start(ACTOR_CLIENT, number, 1000 + number % 3, 0, 4, argv, -1);
	plan.started++;
	if (plan.client_ends && !sim_random(2)) {
		plan.client_ends--;
		a->ends_at = 1 + sim_random(2000);
	}
}

/* A signal that an engine ends by, at a moment in which it does something. */
static void hurt(void *user) {
	struct actor *a = NULL;
	unsigned count = 0;
	enum actor_kind kind = (enum actor_kind)(uintptr_t)user;

	for (unsigned i = 0; i < world.actors; i++)
		if (world.actor[i].alive && world.actor[i].kind == kind && !sim_random(++count))
			a = &world.actor[i];
	if (a && !plan.stopping)
		a->ends_at = a->points + 1 + sim_random(400);
}

static void freeze(void *user) {
	enum actor_kind kind = (enum actor_kind)(uintptr_t)user;
	struct actor *a = NULL;
	unsigned count = 0;

	for (unsigned i = 0; i < world.actors; i++)
		if (world.actor[i].alive && world.actor[i].kind == kind && !sim_random(++count))
			a = &world.actor[i];
	if (!a || plan.stopping)
		return;
	/* An engine hangs for longer than it may. */
	a->frozen_until_ns = world.now_ns + (kind == ACTOR_ENGINE ? UINT64_C(100) * 1000000000 : sim_random(UINT64_C(10) * 1000000000));
	world.happened[kind == ACTOR_ENGINE ? SIM_engine_hangs : SIM_client_freezes]++;
	sim_note("process %d stands still", (int)a->pid);
	if (kind == ACTOR_ENGINE)
		world.ends++;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at) {
	(void)st;
	(void)kind;
	(void)at;
	return remove(path);
}

static void remove_tree(const char *path) {
	nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* What daemons before left on disk is not this seed's. */
static void empty_folder(void) {
	char run_path[96];

	snprintf(run_path, sizeof run_path, "%s/run", folder);
	remove_tree(run_path);
	remove_tree(cache_path);
	mkdir(cache_path, 0700);
}

static uint64_t soon(uint64_t ms) {
	return world.now_ns + sim_random(ms * 1000000);
}

static void begin(uint64_t seed) {
	memset(&plan, 0, sizeof plan);
	empty_folder();
	world_begin(seed);
	choose_settings();
	choose_faults();
	start_supervisor(NULL);
	plan.clients = 1 + (unsigned)sim_random(CLIENTS);
	for (unsigned i = 1; i <= plan.clients; i++)
		world_at(soon(sim_random(2) ? 5 : 300), start_client, (void *)(uintptr_t)i);
	for (unsigned i = 0; i < plan.engine_ends; i++)
		world_at(soon(200), hurt, (void *)(uintptr_t)ACTOR_ENGINE);
	for (unsigned i = 0; i < plan.supervisor_ends; i++)
		world_at(soon(200), hurt, (void *)(uintptr_t)ACTOR_SUPERVISOR);
	for (unsigned i = 0; i < plan.hangs; i++)
		world_at(soon(100), freeze, (void *)(uintptr_t)ACTOR_ENGINE);
	for (unsigned i = 0; i < plan.freezes; i++)
		world_at(soon(100), freeze, (void *)(uintptr_t)ACTOR_CLIENT);
}

/* ---- a program that is always the same ---- */

enum {
	/*
	 * Of virtual time. A call that fails once makes nobody wait for ever; where all fail, who waits at the door may not be heard. Longer than the
	 * daemon takes to replace an engine.
	 */
	SCRIPT_TIMEOUT_MS = 120 * 1000,
	SCRIPTS = 5,
};

static void start_script(void *user) {
	char text[16], timeout[16];
	const char *argv[] = { "script", text, socket_path, timeout };

	(void)user;
	plan.started++;
	snprintf(text, sizeof text, "%u", plan.started);
	snprintf(timeout, sizeof timeout, "%d", plan.point->from_then_on && plan.started == 1 ? SCRIPT_TIMEOUT_MS : 0);
	actor_start(ACTOR_CLIENT, plan.started, 1000, 0, 4, argv, -1);
}

static void begin_script(const struct point *p) {
	memset(&plan, 0, sizeof plan);
	plan.point = p;
	plan.clients = 2;
	empty_folder();
	world_begin(0);
	world.pointing = true;
	world.point = *p;
	set("fusion.interpreter=off");
	set("device.workers=no");
	set("log.level=debug");
	set("engine.slice_us=0");
	start_supervisor(NULL);
	world_at(world.now_ns + 5000000, start_script, NULL);
}

static bool client_alive(void) {
	for (unsigned i = 0; i < world.actors; i++)
		if (world.actor[i].kind == ACTOR_CLIENT && world.actor[i].alive)
			return true;
	return false;
}

static bool clients_done(void) {
	return plan.started == plan.clients && !client_alive();
}

static bool all_ended(void) {
	for (unsigned i = 0; i < world.actors; i++)
		if (world.actor[i].alive)
			return false;
	return true;
}

/* Who looks after services starts the daemon again. */
static void look_after(void) {
	static uint64_t asked;
	struct actor *s = supervisor();

	if (s || plan.stopping) {
		asked = 0;
		return;
	}
	if (asked)
		return;
	asked = 1;
	world_at(world.now_ns + 1000000 + sim_random(100000000), start_supervisor, NULL);
}

static void stop(void) {
	plan.stopping = true;
	world.quiet_end = true;
	sim_note("all clients are done");
	if (supervisor())
		signal_send(supervisor(), SIGTERM);
}

static void check_clients(void) {
	for (unsigned i = 0; i < world.actors; i++) {
		const struct actor *a = &world.actor[i];

		if (a->clean && a->status && !world.calls_failed && !plan.point)
			sim_wrong("%s %u ended with status %d", a->kind == ACTOR_CLIENT ? "client" : a->kind == ACTOR_ENGINE ? "engine" : "supervisor",
				a->number, a->status >> 8);
	}
}

static bool last_client_well(void) {
	bool well = false;

	for (unsigned i = 0; i < world.actors; i++)
		if (world.actor[i].kind == ACTOR_CLIENT)
			well = !world.actor[i].status;
	return well;
}

/* The program runs once more, and again where an engine ended by what had happened before, until it finds a daemon that is well. */
static void go_on(void) {
	if (!plan.point || !plan.started || !supervisor() || client_alive() || (plan.started > 1 && last_client_well()))
		return;
	if (plan.started == SCRIPTS)
		sim_wrong("the daemon does not get well");
	world.healed = true;
	world.calls_failed = 0;
	plan.clients = plan.started + 1;
	start_script(NULL);
}

static void run_to_the_end(void) {
	for (;;) {
		go_on();
		if (!plan.stopping && clients_done())
			stop();
		if (plan.stopping && all_ended())
			break;
		look_after();
		if (!world_step())
			sim_wrong("nothing can happen any more, and %s", plan.stopping ? "the daemon has not ended" : "clients wait");
		if (world.steps > (plan.point ? SCRIPT_STEPS_MOST : STEPS_MOST) || world.now_ns > UINT64_C(3600) * 1000000000 * VIRTUAL_HOURS)
			sim_wrong("%s after %llu steps and %.0f s", plan.stopping ? "the daemon has not ended" : "clients wait",
				(unsigned long long)world.steps, (double)world.now_ns / 1e9);
	}
	check_clients();
}

static uint64_t run(uint64_t seed, uint64_t *steps) {
	uint64_t history;

	begin(seed);
	run_to_the_end();
	history = world.history;
	*steps += world.steps;
	world_end();
	return history;
}

void run_script(const struct point *p) {
	begin_script(p);
	run_to_the_end();
	world_end();
}

/* ---- the program ---- */

void folder_make(void) {
	FILE *f;

	snprintf(folder, sizeof folder, "/tmp/fusion-sim.%d", (int)getpid());
	snprintf(socket_path, sizeof socket_path, "%s/run/socket", folder);
	snprintf(cache_path, sizeof cache_path, "%s/cache", folder);
	snprintf(engine_path, sizeof engine_path, "%s/engine", folder);
	snprintf(config_path, sizeof config_path, "%s/config", folder);
	mkdir(folder, 0700);
	mkdir(cache_path, 0700);
	f = fopen(engine_path, "w");
	if (f)
		fclose(f);
	chmod(engine_path, 0700);
	f = fopen(config_path, "w");
	if (f)
		fclose(f);
	world.folder = folder;
	world.socket = socket_path;
}

void folder_remove(void) {
	remove_tree(folder);
}

static double seconds(void) {
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Addresses are the same in every run. */
static void stay_put(char **argv) {
	int now = personality(0xffffffff);

	if (now < 0 || now & ADDR_NO_RANDOMIZE || personality((unsigned long)now | ADDR_NO_RANDOMIZE) < 0)
		return;
	execv("/proc/self/exe", argv);
}

/* ---- several processes ---- */

struct tally {
	uint64_t seeds, at, steps, happened[SIM_FAULT_KINDS];
	bool wrong;
};

static struct {
	uint64_t first, count, jobs, again;
	double seconds;
	const char *points;
} options = { .first = 1, .count = 1, .jobs = 1, .again = 50 };

/* Every so many seeds are run twice: their histories are the same. */
static void run_seeds(uint64_t job, struct tally *t) {
	double began = seconds();

	for (uint64_t i = job; i < options.count && (!options.seconds || seconds() - began < options.seconds); i += options.jobs) {
		uint64_t seed = options.first + i, history;

		t->at = seed;
		history = run(seed, &t->steps);

		for (unsigned k = 0; k < SIM_FAULT_KINDS; k++)
			t->happened[k] += world.happened[k];
		if (options.again && !(i % options.again)) {
			if (world.trace)
				fprintf(world.trace, "again\n");
			if (run(seed, &t->steps) != history)
				sim_wrong("another history the second time");
		}
		if (options.count < 20)
			printf("seed %llu: history %016llx\n", (unsigned long long)seed, (unsigned long long)history);
		t->seeds++;
	}
}

static void run_job(uint64_t job, struct tally *t) {
	t->wrong = true;
	folder_make();
	/* What libraries do once in a process has been done then. */
	run(0, &(uint64_t){ 0 });
	run_seeds(job, t);
	folder_remove();
	t->wrong = false;
}

static int finish(struct tally *t, double began) {
	struct tally all = { 0 };

	for (uint64_t j = 0; j < options.jobs; j++) {
		all.seeds += t[j].seeds;
		all.steps += t[j].steps;
		all.wrong |= t[j].wrong;
		for (unsigned k = 0; k < SIM_FAULT_KINDS; k++)
			all.happened[k] += t[j].happened[k];
	}
	printf("note: seeds from %llu on: %llu, steps: %llu, in %.0f s; what went wrong:", (unsigned long long)options.first, (unsigned long long)all.seeds,
		(unsigned long long)all.steps, seconds() - began);
	for (unsigned k = 0; k < SIM_FAULT_KINDS; k++)
		if (all.happened[k])
			printf(" %s %llu", sim_fault_name((enum sim_fault)k), (unsigned long long)all.happened[k]);
	printf("\n%llu passed, %d failed\n", (unsigned long long)all.seeds, all.wrong);
	return all.wrong;
}

static int run_jobs(void) {
	struct tally *t = mmap(NULL, options.jobs * sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	double began = seconds();
	pid_t pid[JOBS_MOST];
	bool crashed = false;
	int status;

	if (t == MAP_FAILED)
		return 2;
	if (options.jobs == 1) {
		run_job(0, t);
		return finish(t, began);
	}
	for (uint64_t j = 0; j < options.jobs; j++) {
		pid[j] = fork();
		if (!pid[j]) {
			run_job(j, &t[j]);
			_exit(0);
		}
	}
	/* The first that finds something ends all. */
	while (wait(&status) > 0)
		if (status) {
			crashed |= WIFSIGNALED(status) && WTERMSIG(status) != SIGTERM;
			for (uint64_t j = 0; j < options.jobs; j++)
				kill(pid[j], SIGTERM);
		}
	for (uint64_t j = 0; crashed && j < options.jobs; j++)
		if (t[j].wrong)
			printf("a job ended or was ended at seed %llu\n", (unsigned long long)t[j].at);
	return finish(t, began);
}

static int usage(void) {
	fprintf(stderr, "sim [--seed FIRST] [--seeds N] [--seconds N] [--jobs N] [--again EVERY] [--points] [--point POINT] [--verbose] [--block ADDRESS] [--trace FILE]\n");
	return 2;
}

static bool read_option(const char *name, const char *value) {
	if (!strcmp(name, "--seed"))
		options.first = strtoull(value, NULL, 10);
	else if (!strcmp(name, "--seeds"))
		options.count = strtoull(value, NULL, 10);
	else if (!strcmp(name, "--seconds"))
		options.seconds = strtod(value, NULL);
	else if (!strcmp(name, "--jobs"))
		options.jobs = strtoull(value, NULL, 10);
	else if (!strcmp(name, "--again"))
		options.again = strtoull(value, NULL, 10);
	else if (!strcmp(name, "--point"))
		options.points = value;
	else if (!strcmp(name, "--block"))
		world.traced = (const void *)(uintptr_t)strtoull(value, NULL, 16); /* NOLINT(performance-no-int-to-ptr): as it was printed */
	else if (!strcmp(name, "--trace"))
		world.trace = fopen(value, "we");
	else
		return false;
	return true;
}

/* Nothing of where it is run is heard. */
static void clean(const char *program) {
	const char *slice = getenv("FUSION_SLICE");
	char objects[512];

	if (slice)
		slice = strdup(slice);
	signal(SIGPIPE, SIG_IGN);
	setvbuf(stdout, NULL, _IOLBF, 0);
	snprintf(objects, sizeof objects, "%s", program);
	*strrchr(objects, '/') = 0;
	clearenv();
	setenv("PATH", "/usr/bin:/bin", 1);
	setenv("FUSION_AUTOSTART", "no", 1);
	if (slice)
		setenv("FUSION_SLICE", slice, 1);
	instances_open(objects);
}

int main(int argc, char **argv) {
	stay_put(argv);
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--verbose"))
			world.verbose = true;
		else if (!strcmp(argv[i], "--points"))
			options.points = "";
		else if (i + 1 == argc || !read_option(argv[i], argv[i + 1]))
			return usage();
		else
			i++;
	}
	if (!options.jobs || options.jobs > JOBS_MOST)
		return usage();
	clean(argv[0]);
	return options.points ? points_run(options.points) : run_jobs();
}
