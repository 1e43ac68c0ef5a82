/* The scheduler: fibers of actors, virtual time, and what ends an actor. See sim.h. */
#include "world.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

struct world world;
struct fiber *me;
struct actor *current;

static ucontext_t scheduler;
static char *stacks[WORLD_FIBERS];
static unsigned spare_stacks;

/* Called back later, in the order of time and then of asking. */
struct later {
	uint64_t ns, number;
	struct actor *actor;
	pid_t pid;
	void (*call)(void *user);
	void *user;
};

static struct later *laters;
static size_t later_count, later_room;
static uint64_t later_number;

enum {
	/* What a step takes of virtual time, at most. */
	STEP_NS = 4000,
	/* A call is followed by another fiber once in so many, where it need not wait. */
	PREEMPT = 4,
	FIRST_PID = 1000,
};

static const char *name_of(const struct actor *a) {
	static const char *const names[ACTOR_KINDS] = { "supervisor", "engine", "client" };

	return names[a->kind];
}

/* ---- numbers and the history ---- */

static uint64_t scramble(uint64_t x) {
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

uint64_t sim_random(uint64_t below) {
	world.random += UINT64_C(0x9e3779b97f4a7c15);
	return scramble(world.random) % below;
}

bool sim_computes(void) {
	return true;
}

uint64_t sim_now_ns(void) {
	return world.now_ns;
}

void world_mix(uint64_t x) {
	if (world.trace)
		fprintf(world.trace, "%llu %llx\n", (unsigned long long)world.steps, (unsigned long long)x);
	world.history = scramble(world.history * 31 + x + 1);
}

void world_mix_text(const char *text) {
	uint64_t h = 5381;

	if (world.trace)
		fprintf(world.trace, "%s %d %s\n", current ? "of" : "nobody", current ? (int)current->pid : 0, text);
	while (*text)
		h = h * 33 + (unsigned char)*text++;
	world_mix(h);
}

__attribute__((format(printf, 1, 0))) static void tell(const char *format, va_list list) {
	char text[512];

	vsnprintf(text, sizeof text, format, list);
	world_mix_text(text);
	if (world.verbose)
		fprintf(stderr, "%12.6f %-10s %s\n", (double)world.now_ns / 1e9, current ? name_of(current) : "world", text);
}

void sim_note(const char *format, ...) {
	va_list list;

	va_start(list, format);
	tell(format, list);
	va_end(list);
}

void sim_wrong(const char *format, ...) {
	va_list list;

	fflush(stdout);
	printf("seed %llu: WRONG: ", (unsigned long long)world.seed);
	va_start(list, format);
	vprintf(format, list);
	va_end(list);
	printf(" (at %.6f s, step %llu, by %s %u)\n", (double)world.now_ns / 1e9, (unsigned long long)world.steps,
		current ? name_of(current) : "nobody", current ? current->number : 0);
	fflush(NULL);
	if (getenv("SIM_ABORT"))
		abort();
	_exit(1);
}

const char *sim_fault_name(enum sim_fault what) {
	static const char *const names[] = {
#define X(name) #name,
		SIM_FAULTS(X)
#undef X
	};

	return names[what];
}

bool sim_happens(enum sim_fault what) {
	if (!world.rate[what] || world.quiet_end || sim_random(world.rate[what]))
		return false;
	if (what != SIM_build_late && what != SIM_completion_late && what != SIM_interrupted && what != SIM_build_fails) {
		if (!world.left)
			return false;
		world.left--;
		world.calls_failed++;
	}
	world.happened[what]++;
	return true;
}

bool sim_calls_failed(void) {
	return world.calls_failed;
}

bool sim_keeps(void) {
	return !world.discrete && !world.calls_failed;
}

uint64_t sim_troubles(void) {
	return world.ends + world.calls_failed;
}

/* ---- calls back ---- */

void world_at(uint64_t ns, void (*call)(void *user), void *user) {
	if (later_count == later_room) {
		later_room = later_room ? 2 * later_room : 256;
		laters = realloc(laters, later_room * sizeof *laters);
	}
	laters[later_count++] = (struct later){ ns, later_number++, current, current ? current->pid : 0, call, user };
}

void sim_after(uint64_t ns, void (*call)(void *user), void *user) {
	world_at(world.now_ns + ns, call, user);
}

void sim_forget(const void *user) {
	size_t kept = 0;

	for (size_t i = 0; i < later_count; i++)
		if (laters[i].actor != current || laters[i].user != user)
			laters[kept++] = laters[i];
	later_count = kept;
}

static size_t first_later(void) {
	size_t first = 0;

	for (size_t i = 1; i < later_count; i++)
		if (laters[i].ns < laters[first].ns || (laters[i].ns == laters[first].ns && laters[i].number < laters[first].number))
			first = i;
	return first;
}

static bool later_alive(const struct later *l) {
	return !l->actor || (l->actor->alive && l->actor->pid == l->pid);
}

/* A hung actor's device goes on; its calls are made nevertheless. */
static bool call_due(void) {
	struct later l;
	size_t i;

	if (!later_count)
		return false;
	i = first_later();
	if (laters[i].ns > world.now_ns)
		return false;
	l = laters[i];
	laters[i] = laters[--later_count];
	if (!later_alive(&l))
		return true;
	world_mix(l.number);
	current = l.actor;
	if (current && !memory_has(current, l.user))
		sim_wrong("call %llu is for memory that has been freed", (unsigned long long)l.number);
	l.call(l.user);
	current = NULL;
	return true;
}

/* ---- fibers ---- */

static char *stack_take(void) {
	char *s;

	if (spare_stacks)
		return stacks[--spare_stacks];
	s = mmap(NULL, FIBER_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (s == MAP_FAILED || mprotect(s, 4096, PROT_NONE))
		abort();
	return s;
}

static void fiber_main(void) {
	me->result = me->run(me->user);
	me->done = true;
	world.changes++;
	fiber_leave();
}

struct fiber *fiber_new(struct actor *a, void *(*run)(void *), void *user) {
	struct fiber *f = NULL;

	for (unsigned i = 0; i < WORLD_FIBERS && !f; i++)
		if (!world.fiber[i].actor)
			f = &world.fiber[i];
	if (!f)
		sim_wrong("more fibers than %d", WORLD_FIBERS);
	if ((unsigned)(f - world.fiber) >= world.fibers)
		world.fibers = (unsigned)(f - world.fiber) + 1;
	*f = (struct fiber){ .actor = a, .number = world.fiber_numbers++, .run = run, .user = user, .deadline_ns = NEVER };
	f->stack = stack_take();
	getcontext(&f->context);
	f->context.uc_stack.ss_sp = f->stack;
	f->context.uc_stack.ss_size = FIBER_STACK;
	f->context.uc_link = &scheduler;
	makecontext(&f->context, fiber_main, 0);
	return f;
}

static void fiber_free(struct fiber *f) {
	free(f->stack_copy);
	free(f->own);
	stacks[spare_stacks++] = f->stack;
	memset(f, 0, sizeof *f);
}

void fiber_leave(void) {
	setcontext(&scheduler);
	abort();
}

static bool has_come(struct fiber *f) {
	struct pollfd copy[64];

	switch (f->waits) {
	case WAIT_NOTHING:
		return true;
	case WAIT_POLL:
		if (f->seen == world.changes)
			return f->came;
		f->seen = world.changes;
		if (f->polls > 64)
			abort();
		memcpy(copy, f->poll, f->polls * sizeof *copy);
		f->came = poll(copy, f->polls, 0) > 0;
		return f->came;
	case WAIT_FUTEX:
		return f->woken;
	case WAIT_MUTEX:
		return !*f->word;
	case WAIT_COND:
		return *f->word != f->value;
	case WAIT_JOIN:
		return f->joined->done;
	case WAIT_CHILD:
		if (f->child > 0) {
			const struct actor *a = actor_by_pid(f->child);

			return !a || !a->alive;
		}
		return true;
	case WAIT_TIME:
		return false;
	}
	return false;
}

static void switch_away(struct fiber *f) {
	f->saved_errno = errno;
	swapcontext(&f->context, &scheduler);
	errno = f->saved_errno;
}

bool fiber_wait(struct fiber *f) {
	bool came;

	f->seen = UINT64_MAX;
	switch_away(f);
	f->seen = UINT64_MAX;
	came = has_come(f);
	f->waits = WAIT_NOTHING;
	f->deadline_ns = NEVER;
	f->woken = false;
	return came;
}

void fiber_yield(void) {
	me->waits = WAIT_NOTHING;
	switch_away(me);
}

void sim_point(const char *name, uint64_t detail) {
	struct actor *a = current;

	if (!a || !me || me->is_child)
		return;
	world_mix_text(name);
	world_mix(detail);
	a->points++;
	if (world.pointing && a->first && a->kind == ACTOR_ENGINE && !world.quiet_end)
		world.counted[ACTOR_ENGINE][SIM_engine_ends] = a->points;
	if (a->ends_at && a->points >= a->ends_at && !world.quiet_end) {
		world.happened[a->kind == ACTOR_ENGINE ? SIM_engine_ends : a->kind == ACTOR_CLIENT ? SIM_client_ends : SIM_supervisor_ends]++;
		sim_note("%s %u ends at %s, point %llu", name_of(a),
			a->number, name, (unsigned long long)a->points);
		actor_end(a, SIGKILL, 0);
		fiber_leave();
	}
	if (!sim_random(PREEMPT))
		fiber_yield();
}

/* ---- actors ---- */

struct actor *actor_by_pid(pid_t pid) {
	for (unsigned i = 0; i < world.actors; i++)
		if (world.actor[i].pid == pid && !world.actor[i].reaped)
			return &world.actor[i];
	return NULL;
}

static void *actor_main(void *user) {
	struct actor *a = user;
	int status = instance_entry(a->instance)(a->argc, a->argv);

	actor_end(a, 0, status);
	return NULL;
}

struct actor *actor_start(enum actor_kind kind, unsigned number, unsigned uid, pid_t parent, int argc, const char *const *argv, int inherited) {
	struct actor *a;

	if (world.actors == WORLD_ACTORS)
		sim_wrong("more processes than %d", WORLD_ACTORS);
	a = &world.actor[world.actors++];
	*a = (struct actor){ .kind = kind, .number = number, .uid = uid, .parent = parent, .pid = world.next_pid++, .alive = true,
		.signals = { -1, -1 }, .inherited = inherited, .argc = argc, .first = true };
	for (const struct actor *before = world.actor; before < a; before++)
		a->first &= before->kind != kind;
	for (int i = 0; i < argc; i++)
		a->argv[i] = strdup(argv[i]);
	if (a->first && world.pointing && kind == ACTOR_ENGINE && world.point.what == SIM_engine_ends)
		a->ends_at = world.point.number;
	a->instance = instance_take(kind);
	if (inherited >= 0)
		world.owner[inherited] = a;
	fiber_new(a, actor_main, a);
	sim_note("%s %u starts, process %d", name_of(a), number, (int)a->pid);
	world.changes++;
	return a;
}

void signal_send(struct actor *to, int signal) {
	struct signalfd_siginfo info = { .ssi_signo = (uint32_t)signal };

	if (!to || !to->alive || to->signals[1] < 0)
		return;
	if (write(to->signals[1], &info, sizeof info) < 0)
		return;
	world.changes++;
}

static void give_back(struct actor *a) {
	calls_close_all(a);
	for (unsigned i = 0; i < a->mappings; i++)
		munmap((void *)(uintptr_t)a->mapping[i].begin, a->mapping[i].end - a->mapping[i].begin);
	free(a->mapping);
	a->mapping = NULL;
	a->mappings = 0;
	for (size_t i = 0; i < a->memory.room; i++)
		if ((uintptr_t)a->memory.slot[i] > 1)
			free(a->memory.slot[i]);
	free(a->memory.slot);
	a->memory = (struct memory){ 0 };
	for (int i = 0; i < a->argc; i++)
		free(a->argv[i]);
	a->argc = 0;
}

/*
 * What a process leaves to its end, where nobody killed it. An engine: what it was given, where it heard of signals, its reserve, and the
 * events that somebody asked for; a supervisor: the bell of a thread that nobody waits for, and that thread's; a client: the names of
 * places, and a table for each kind of handle: of arrays, contexts, recordings and reads.
 * Of one whose calls failed a block may be lost.
 */
static const struct {
	size_t descriptors, blocks;
} leaves[ACTOR_KINDS] = { [ACTOR_SUPERVISOR] = { 1, 3 }, [ACTOR_ENGINE] = { 4, 1 }, [ACTOR_CLIENT] = { 0, 6 } };

static void check_left(const struct actor *a) {
	size_t open = calls_open(a), blocks = memory_blocks(a);

	if (open <= leaves[a->kind].descriptors && !a->mappings && (blocks <= leaves[a->kind].blocks || a->unlucky))
		return;
	calls_list(a);
	sim_wrong("%s %u ended with %zu descriptors, %u mappings and %zu blocks of memory", name_of(a), a->number, open, a->mappings, blocks);
}

void actor_end(struct actor *a, int signal, int status) {
	struct actor *was = current, *parent = actor_by_pid(a->parent);

	if (!a->alive)
		return;
	current = a;
	sim_note("process %d ends, signal %d, status %d, %zu descriptors, %u mappings, %zu blocks", (int)a->pid, signal, status, calls_open(a), a->mappings,
		memory_blocks(a));
	a->alive = false;
	a->clean = !signal;
	a->status = signal ? signal : status << 8;
	/* One whose calls failed may say that it cannot go on, and need not tidy up then. */
	if (!signal && !(status && a->unlucky))
		check_left(a);
	if (a->kind != ACTOR_CLIENT && (signal || status))
		world.ends++;
	for (unsigned i = 0; i < world.fibers; i++)
		if (world.fiber[i].actor == a && &world.fiber[i] != me)
			fiber_free(&world.fiber[i]);
	give_back(a);
	instance_give(a->instance);
	for (unsigned i = 0; i < world.actors; i++)
		if (world.actor[i].parent == a->pid && world.actor[i].alive)
			actor_end(&world.actor[i], SIGKILL, 0);
	if (parent && parent->alive && parent->kind == ACTOR_SUPERVISOR) {
		a->zombie = true;
		signal_send(parent, SIGCHLD);
	} else {
		a->reaped = true;
	}
	world.changes++;
	current = was;
	/* A fiber that ended its own actor goes back to the scheduler, which frees it. */
	if (me && me->actor == a)
		fiber_leave();
}

/* ---- the scheduler ---- */

static bool can_run(struct fiber *f) {
	if (!f->actor || f->done || !f->actor->alive || f->actor->frozen_until_ns > world.now_ns)
		return false;
	return f->deadline_ns <= world.now_ns || has_come(f);
}

/* After fork() the parent goes on where it called: with the stack that it had then. */
static void restore_stack(struct fiber *f) {
	char *low = f->stack + FIBER_STACK - f->stack_copied;

	memcpy(low, f->stack_copy, f->stack_copied);
	free(f->stack_copy);
	f->stack_copy = NULL;
	f->context = f->forked;
}

static void run(struct fiber *f) {
	world_mix(f->number);
	me = f;
	current = f->actor;
	instance_thread_in(f->actor->instance, &f->own);
	swapcontext(&scheduler, &f->context);
	instance_thread_out(f->actor->instance, f->own);
	me = NULL;
	current = NULL;
	/* At once: others may write what lies on it. */
	if (f->returns && f->stack_copy)
		restore_stack(f);
	if (f->actor && !f->actor->alive)
		fiber_free(f);
	else if (f->actor && f->done && f->detached)
		fiber_free(f);
}

static uint64_t next_time(void) {
	uint64_t next = later_count ? laters[first_later()].ns : NEVER;

	for (unsigned i = 0; i < world.fibers; i++) {
		struct fiber *f = &world.fiber[i];

		if (!f->actor || f->done || !f->actor->alive)
			continue;
		if (f->actor->frozen_until_ns > world.now_ns) {
			if (f->actor->frozen_until_ns < next)
				next = f->actor->frozen_until_ns;
		} else if (f->deadline_ns < next) {
			next = f->deadline_ns;
		}
	}
	return next;
}

bool world_step(void) {
	struct fiber *ready[WORLD_FIBERS];
	unsigned count = 0;
	uint64_t next;

	world.steps++;
	if (call_due())
		return true;
	for (unsigned i = 0; i < world.fibers; i++)
		if (can_run(&world.fiber[i]))
			ready[count++] = &world.fiber[i];
	if (count) {
		world.now_ns += 100 + sim_random(STEP_NS);
		run(ready[sim_random(count)]);
		return true;
	}
	next = next_time();
	if (next == NEVER)
		return false;
	if (next > world.now_ns)
		world.now_ns = next;
	return true;
}

/* Walks of folders by the C library that an end cut short leave descriptors that no actor is known to have. */
static void close_strays(void) {
	for (int fd = STDERR_FILENO + 1; fd < WORLD_STRAYS; fd++)
		if (!world.trace || fd != fileno(world.trace))
			close(fd);
}

void world_begin(uint64_t seed) {
	bool verbose = world.verbose;
	const char *folder = world.folder, *path = world.socket;
	FILE *trace = world.trace;
	const void *traced = world.traced;

	memset(&world, 0, sizeof world);
	world.verbose = verbose;
	world.folder = folder;
	world.trace = trace;
	world.traced = traced;
	world.socket = path;
	world.seed = seed;
	world.random = seed * UINT64_C(0x2545f4914f6cdd1d);
	world.now_ns = UINT64_C(1000000000) * 1000;
	world.wall_ns = UINT64_C(1700000000) * 1000000000;
	world.next_pid = FIRST_PID;
	later_count = 0;
	later_number = 0;
}

void world_end(void) {
	world.quiet_end = true;
	for (unsigned i = 0; i < world.actors; i++)
		if (world.actor[i].alive)
			actor_end(&world.actor[i], SIGKILL, 0);
	for (unsigned i = 0; i < world.fibers; i++)
		if (world.fiber[i].actor)
			fiber_free(&world.fiber[i]);
	close_strays();
}
