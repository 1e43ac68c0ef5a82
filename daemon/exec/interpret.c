/*
 * What runs for as long as the programs of a plan's steps are not built: elementwise steps as bytecode (daemon/emit/bytecode.h),
 * others by generic kernels.
 *
 * A step that bytecode can express has two variants of the same bits: its own program, and an interpreter's. A launch
 * takes the first where it is ready, else the second, so who has a graph that was never seen waits for neither. Other steps have
 * generic kernels: while a plan's own are built, a plan of maps and generic kernels (daemon/plan/generic.h) stands in for it,
 * as soon as all of it can be launched.
 *
 * The first interpreter and the first generic kernels are built before the engine says that it is ready, by as many workers as
 * there are; other generic kernels follow when nobody wants anything. Other interpreters take a compiler some seconds: they are
 * asked for one by one when the device is quiet, first those in which a step would have run. Those that were built before are asked for at the start:
 * the cache has them.
 *
 * Where a step's own program failed to build, it stays with the interpreter.
 */
#include "state.h"

#include <errno.h>
#include <string.h>

#include "daemon/plan/generic.h"

enum {
	/* A plan of generic kernels may take so much memory more than the one it stands for; else runs wait for that one. */
	STAND_IN_BYTES = 256 << 20,
	/* Nothing was launched or built for so long: nobody is about to want the compiler, as it seems. */
	INTERPRET_QUIET_MS = 1000,
	/* The same for what nobody has wanted yet: a daemon that a script or a test starts for itself has ended before. */
	INTERPRET_UNASKED_MS = 10000,
	/* How often an engine that sleeps looks whether it is time. */
	INTERPRET_LOOK_US = 1000 * 1000,
};

typedef int asking(struct device *d, const struct kernel *k, struct program **programp);

static int ask(struct exec *x, enum dialect dialect, asking *how) {
	struct kernel k;

	if (x->interpreter[dialect])
		return 0;
	bytecode_interpreter(dialect, device_traits(x->device), &k);
	return how(x->device, &k, &x->interpreter[dialect]);
}

/* Of the list of generic kernels, up to `end`. 0 or -ENOMEM. */
static int ask_generics(struct exec *x, unsigned end, asking *how) {
	struct program *p;
	struct kernel k;

	for (; x->generics < end; x->generics++) {
		int r = plan_generic_kernel(x->generics, device_traits(x->device), &k);

		if (!r)
			r = how(x->device, &k, &p);
		if (r < 0)
			return r;
		if (!r && x->generics < plan_generic_first() && x->firsts < EXEC_FIRST)
			x->first[x->firsts++] = p;
	}
	return 0;
}

static bool is_known(const struct exec *x, enum dialect dialect) {
	struct kernel k;

	bytecode_interpreter(dialect, device_traits(x->device), &k);
	return device_program_known(x->device, &k);
}

/* What whoever comes first is served by: see exec_prepared(). */
static int ask_first(struct exec *x) {
	int r;

	x->firsts_known = is_known(x, DIALECT_common);
	r = ask(x, DIALECT_common, device_program);
	if (r)
		return r;
	x->first[x->firsts++] = x->interpreter[DIALECT_common];
	return ask_generics(x, plan_generic_first(), device_program);
}

static bool is_building(struct program *const *p, unsigned count) {
	for (unsigned i = 0; i < count; i++)
		if (program_state(p[i]) == PROGRAM_BUILDING)
			return true;
	return false;
}

bool exec_prepared(const struct exec *x) {
	return !is_building(x->first, x->firsts);
}

bool exec_prepares_known(const struct exec *x) {
	return x->firsts_known;
}

/* The next dialect to build: of those that a kernel would have run in, then of the others; DIALECTS: none is left. */
static enum dialect next_dialect(const struct exec *x) {
	enum dialect next = DIALECTS;

	for (enum dialect d = DIALECTS; d-- > 0;)
		if (!x->interpreter[d] && bytecode_dialect_serves(d, device_traits(x->device)) &&
			(next == DIALECTS || x->interpreters_wanted >> d & 1 || !(x->interpreters_wanted >> next & 1)))
			next = d;
	return next;
}

/* Once nobody seems to want the compiler. */
static void build_next(struct exec *x) {
	enum dialect d = next_dialect(x);
	bool wanted = x->interpreters_wanted >> d & 1;

	/* Measuring is disturbed by builds. */
	if (d == DIALECTS || device_measuring(x->device) || !device_quiet(x->device, wanted ? INTERPRET_QUIET_MS : INTERPRET_UNASKED_MS))
		return;
	/* Where memory is short, the next look tries again. */
	if (ask(x, d, device_program_spare))
		return;
}

uint64_t interpret_wait_us(const struct exec *x) {
	return x->interpreter_mode == INTERPRETER_AUTO && next_dialect(x) < DIALECTS ? INTERPRET_LOOK_US : UINT64_MAX;
}

void interpret_poll(struct exec *x) {
	/* Where memory is short, the next poll tries again. */
	if (x->interpreter_mode == INTERPRETER_AUTO && exec_prepared(x) && !ask_generics(x, plan_generic_kernels(), device_program_spare))
		build_next(x);
}

static bool runs_as_code(const struct kernel *k, const struct traits *t) {
	struct bytecode b;

	return !bytecode_make(k, t, &b);
}

static struct plan *stand_in(struct plan *p, const struct traits *t) {
	struct plan *made;

	if (p->stand_in_made || p->generic)
		return p->stand_in;
	/* Where memory is short, the next look tries again. */
	if (plan_generic(p, t, runs_as_code, &made))
		return NULL;
	p->stand_in_made = true;
	if (made && made->peak_bytes <= p->peak_bytes + STAND_IN_BYTES)
		p->stand_in = plan_ref(made);
	plan_unref(made);
	return p->stand_in;
}

struct plan *interpret_stand_in(struct exec *x, struct plan *p) {
	return stand_in(p, device_traits(x->device));
}

bool interpret_all_maps(const struct plan *plan) {
	for (uint32_t i = 0; i < plan->steps; i++)
		if (plan->step[i].kernel->root != KERNEL_MAP)
			return false;
	return true;
}

void exec_stand_in(const struct exec *x, const struct traits *t, struct plan *p) {
	if (x->interpreter_mode == INTERPRETER_ALWAYS || x->interpreter_mode == INTERPRETER_AUTO)
		stand_in(p, t);
}

const char *exec_waits_because(const struct exec *x, const struct traits *t, const struct plan_step *s) {
	const char *reason;
	struct bytecode b;

	if (x->interpreter_mode == INTERPRETER_OFF)
		return "fusion.interpreter is off";
	reason = plan_generic_reason(s->kernel, t, runs_as_code);
	/* Of a map an interpreter knows better why. */
	return reason && s->kernel->root == KERNEL_MAP ? bytecode_make(s->kernel, t, &b) : reason;
}

bool exec_warm(struct exec *x) {
	if (x->interpreter_mode != INTERPRETER_AUTO)
		return true;
	/* Where memory is short, the next look tries again. */
	for (enum dialect d = 0; d < DIALECTS; d++)
		if (bytecode_dialect_serves(d, device_traits(x->device)) && ask(x, d, device_program))
			return false;
	return !ask_generics(x, plan_generic_kernels(), device_program);
}

int interpret_open(struct exec *x, enum config_interpreter mode) {
	int r = 0;

	x->interpreter_mode = mode;
	if (mode != INTERPRETER_AUTO)
		return 0;
	x->interpreters_wanted = 1u << DIALECT_common | 1u << DIALECT_counts;
	r = ask_first(x);
	for (enum dialect d = 0; d < DIALECTS && !r; d++)
		if (bytecode_dialect_serves(d, device_traits(x->device)) && is_known(x, d))
			r = ask(x, d, device_program);
	return r;
}

int interpret_prepare(struct exec *x, struct arena *arena, const struct plan_step *s, struct prepared_step *to) {
	const struct traits *t = device_traits(x->device);
	struct bytecode b;
	struct interpreted *code;

	if (x->interpreter_mode == INTERPRETER_OFF || bytecode_make(s->kernel, t, &b))
		return 0;
	code = arena_alloc(arena, sizeof *code + b.words * sizeof *b.word);
	if (!code)
		return -ENOMEM;
	code->dialect = b.dialect;
	code->words = b.words;
	memcpy(code->word, b.word, b.words * sizeof *b.word);
	code->launch = bytecode_geometry(s->kernel, t, s->dims, code->cut);
	to->code = code;
	x->interpreters_wanted |= 1u << b.dialect;
	return x->interpreter_mode == INTERPRETER_ALWAYS || x->interpreter_mode == INTERPRETER_SWAP ? ask(x, b.dialect, device_program) : 0;
}

static enum program_state interpreter_state(const struct exec *x, const struct prepared_step *s) {
	const struct program *p = x->interpreter[s->code->dialect];

	return p ? program_state(p) : PROGRAM_BUILDING;
}

bool interpret_ready(const struct exec *x, const struct prepared_step *s) {
	return s->code && interpreter_state(x, s) == PROGRAM_READY;
}

bool interpret_failed(const struct exec *x, const struct prepared_step *s) {
	return !s->code || interpreter_state(x, s) == PROGRAM_FAILED;
}

void interpret_retry(const struct exec *x, const struct prepared_step *s) {
	struct program *p = s->code ? x->interpreter[s->code->dialect] : NULL;
	struct fault f;

	/* Either way there are other kernels. */
	if (p && device_program_lacks(p, &f))
		return;
}

bool interpret_chosen(const struct exec *x, const struct prepared_step *s) {
	if (x->interpreter_mode == INTERPRETER_SWAP && s->by_code)
		return interpret_ready(x, s);
	return interpret_ready(x, s) && (!s->program || program_state(s->program) != PROGRAM_READY);
}

void interpret_cut(const struct prepared_step *s, uint64_t *record) {
	memcpy(record, s->code->cut, sizeof s->code->cut);
}

/* Steps of one launch are of one program, but interpreters may cut them otherwise. */
uint64_t interpret_items(const struct prepared_step *s, uint32_t steps) {
	uint64_t items = 0;

	for (uint32_t i = 0; i < steps; i++)
		items = s[i].code->launch.items > items ? s[i].code->launch.items : items;
	return items;
}

/* The table, then the records, then the code: a task's own, where it is not that of the task before. */
int interpret_launch(struct exec *x, uint32_t tasks, uint32_t words, const struct slice *p) {
	const struct interpreted *code = x->task[0]->code, *last = NULL;
	uint32_t record = tasks, at = 0, end = tasks + words;

	memcpy(x->image + tasks, x->record, words * sizeof *x->image);
	for (uint32_t i = 0; i < tasks; i++) {
		const struct interpreted *own = x->task[i]->code;

		if (!i || own != last) {
			memcpy(x->image + end, own->word, own->words * sizeof *x->image);
			at = end;
			end += own->words;
			last = own;
		}
		x->image[i] = bytecode_task(record, at);
		record += x->task[i]->words;
	}
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): a launch has a task */
	return device_launch_words(x->device, x->interpreter[code->dialect], x->image, end, tasks, p->items, code->launch.local);
}
