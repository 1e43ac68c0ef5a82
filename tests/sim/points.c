/*
 * Each of the calls that may fail, fails: sim --points, as SQLite's tests of no memory do.
 *
 * Of the supervisor, the engine and the client, the first of each kind, the calls of one kind are counted in a run without faults (script.c): memory,
 * descriptors, shared memory, mappings, sockets. Then each of them fails, in a run of its own: once, and with all that come after it, until
 * the client has ended. (With `--point engine_ends` the engine ends at each of its calls of the system instead.) What is checked then is what a simulation checks, and that the same program, run once more, finds nothing wrong.
 *
 * Each run is a process of its own, so that one that crashes is one point: a line "point ACTOR CALL NUMBER once|on: ..." for each that is not
 * as it should be, which `sim --point "ACTOR CALL NUMBER once" --verbose` repeats.
 */
#include "world.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/slice.h"

enum {
	/* Only ends what runs for ever without a call. */
	POINT_SECONDS = 300,
	TOLD_MOST = 60,
};

static const char *const actors[ACTOR_KINDS] = { "supervisor", "engine", "client" };
static const enum sim_fault kinds[] = { SIM_no_memory, SIM_no_descriptor, SIM_no_shared_memory, SIM_no_mapping, SIM_no_socket,
	SIM_engine_ends };
enum { KINDS = sizeof kinds / sizeof *kinds };

/* Of all runs, in memory that they share. */
static struct tally {
	uint64_t count[ACTOR_KINDS][SIM_FAULT_KINDS];
	uint64_t ends[ACTOR_KINDS];
	uint64_t refusals;
} *tally;

static void run_here(const struct point *p) {
	run_script(p);
	if (!p->number)
		memcpy(tally->count, world.counted, sizeof world.counted);
	for (unsigned i = 0; i < world.actors; i++) {
		const struct actor *a = &world.actor[i];

		tally->ends[a->kind] += a->first && a->status && a->kind != ACTOR_CLIENT;
		tally->refusals += a->kind == ACTOR_CLIENT && a->status;
	}
}

static void name_point(const struct point *p, char *text, size_t size) {
	snprintf(text, size, "%s %s %llu %s", actors[p->kind], sim_fault_name(p->what), (unsigned long long)p->number, p->from_then_on ? "on" : "once");
}

static bool run_apart(const struct point *p) {
	static unsigned told;
	char name[96];
	int status;
	pid_t pid = fork();

	if (!pid) {
		alarm(POINT_SECONDS);
		run_here(p);
		_exit(0);
	}
	if (waitpid(pid, &status, 0) != pid || !status)
		return true;
	name_point(p, name, sizeof name);
	if (told++ < TOLD_MOST)
		printf("point %s: %s %d\n", name, WIFSIGNALED(status) ? "ended by signal" : "status", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	return false;
}

static bool read_point(const char *text, struct point *p) {
	char actor[32], what[32], how[8];
	unsigned long long number;

	if (sscanf(text, "%31s %31s %llu %7s", actor, what, &number, how) != 4)
		return false;
	for (unsigned a = 0; a < ACTOR_KINDS; a++)
		for (unsigned k = 0; k < KINDS; k++)
			if (!strcmp(actor, actors[a]) && !strcmp(what, sim_fault_name(kinds[k]))) {
				*p = (struct point){ (enum actor_kind)a, kinds[k], number, !strcmp(how, "on") };
				return true;
			}
	return false;
}

static uint64_t tried[ACTOR_KINDS][SIM_FAULT_KINDS];

static void tell_counts(void) {
	for (unsigned a = 0; a < ACTOR_KINDS; a++) {
		printf("note: calls of the %s that fail, once and from then on:", actors[a]);
		for (unsigned k = 0; k < KINDS; k++)
			printf(" %s %llu of %llu", sim_fault_name(kinds[k]), (unsigned long long)tried[a][kinds[k]],
				(kinds[k] == SIM_engine_ends ? 1 : 2) * (unsigned long long)tally->count[a][kinds[k]]);
		printf("\n");
	}
	printf("note: the program was refused something in %llu runs; a supervisor ended in %llu, an engine in %llu\n", (unsigned long long)tally->refusals,
		(unsigned long long)tally->ends[ACTOR_SUPERVISOR], (unsigned long long)tally->ends[ACTOR_ENGINE]);
}

/* The points of one kind of call of one kind of actor. */
static unsigned run_kind(struct point p, unsigned *number) {
	unsigned failed = 0;

	unsigned ways = p.what == SIM_engine_ends ? 1 : 2;

	for (p.number = 1; p.number <= tally->count[p.kind][p.what]; p.number++)
		for (unsigned on = 0; on < ways; on++) {
			p.from_then_on = on;
			if (!slice_has((*number)++))
				continue;
			failed += !run_apart(&p);
			tried[p.kind][p.what]++;
		}
	return failed;
}

/* All, those of an actor, or those of a kind: ends of engines only where they are named. */
static bool asked_for(const char *only, const char *actor, enum sim_fault what) {
	if (!strcmp(only, sim_fault_name(what)))
		return true;
	return what != SIM_engine_ends && (!*only || !strcmp(only, actor));
}

static unsigned run_all(const char *only) {
	uint64_t all = 0;
	unsigned failed = 0, number = 0;

	for (unsigned a = 0; a < ACTOR_KINDS; a++)
		for (unsigned k = 0; k < KINDS; k++) {
			if (!asked_for(only, actors[a], kinds[k]))
				continue;
			failed += run_kind((struct point){ .kind = (enum actor_kind)a, .what = kinds[k] }, &number);
			all += tried[a][kinds[k]];
		}
	tell_counts();
	printf("%llu passed, %u failed\n", (unsigned long long)all - failed, failed);
	return failed;
}

int points_run(const char *only) {
	struct point p = { 0 };
	int r = 0;

	tally = mmap(NULL, sizeof *tally, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (tally == MAP_FAILED)
		return 2;
	folder_make();
	/* What libraries do once in a process has been done then. */
	run_here(&p);
	run_here(&p);
	tally->refusals = 0;
	if (read_point(only, &p))
		run_here(&p);
	else
		r = run_all(only) > 0;
	folder_remove();
	return r;
}
