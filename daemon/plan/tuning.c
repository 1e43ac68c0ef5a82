/* See tuning.h. */
#include "tuning.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/hash.h"
#include "plan.h"

enum {
	/* A kernel that takes less than one part of so many of its plan's time is left alone. */
	TUNING_PART = 5,
	TUNING_WORD = 64,
};

/* A kernel that takes less is a matter of launching it, not of what it does. */
#define TUNING_LEAST_NS 2e4

struct tuned {
	uint64_t kernel;
	struct knobs chosen;
	uint8_t rounds[KNOB_COUNT][KNOB_VALUES]; /* that a value was compared with the chosen one */
	UT_hash_handle hh;                       /* in the order of their making */
};

struct tuning {
	struct tuned *kernel;
	uint64_t serial;
};

struct tuning *tuning_new(void) {
	return calloc(1, sizeof(struct tuning));
}

/* The oldest. */
static void forget(struct tuning *t) {
	struct tuned *e = t->kernel;

	HASH_DELETE(hh, t->kernel, e);
	free(e);
}

struct tuning *tuning_free(struct tuning *t) {
	while (t && t->kernel)
		forget(t);
	free(t);
	return NULL;
}

static struct tuned *find(const struct tuning *t, uint64_t kernel) {
	struct tuned *e;

	HASH_FIND(hh, t->kernel, &kernel, sizeof kernel, e);
	return e;
}

/* NULL: out of memory. */
static struct tuned *find_or_add(struct tuning *t, uint64_t kernel) {
	struct tuned *e = find(t, kernel);

	if (e)
		return e;
	e = calloc(1, sizeof *e);
	if (!e)
		return NULL;
	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): forget() takes it out of the table first */
	while (HASH_COUNT(t->kernel) >= TUNING_KERNELS)
		forget(t);
	e->kernel = kernel;
	HASH_ADD(hh, t->kernel, kernel, sizeof e->kernel, e);
	if (HASH_ADDED(hh, e))
		return e;
	free(e);
	return NULL;
}

struct knobs tuning_choice(const struct tuning *t, uint64_t kernel) {
	const struct tuned *e = find(t, kernel);

	return e ? e->chosen : (struct knobs){ { 0 } };
}

uint64_t tuning_serial(const struct tuning *t) {
	return t->serial;
}

unsigned tuning_kernels(const struct tuning *t) {
	return HASH_COUNT(t->kernel);
}

unsigned tuning_turned(const struct tuning *t) {
	unsigned n = 0;

	for (const struct tuned *e = t->kernel; e; e = e->hh.next)
		for (unsigned k = 0; k < KNOB_COUNT; k++)
			if (e->chosen.value[k]) {
				n++;
				break;
			}
	return n;
}

/* ---- what is compared ---- */

static double step_ns(const struct plan_step *s) {
	return s->measured_ns > 0 ? s->measured_ns : s->estimate_ns;
}

/* What all steps of this one's kernel take together. */
static double kernel_ns(const struct plan *p, const struct plan_step *s) {
	double ns = 0;

	for (uint32_t i = 0; i < p->steps; i++)
		ns += p->step[i].identity == s->identity ? step_ns(&p->step[i]) : 0;
	return ns;
}

static unsigned rounds_of(const struct tuned *e, unsigned knob, unsigned value) {
	return e ? e->rounds[knob][value] : 0;
}

/* Does a kernel that takes so long in all, of all the plan takes, do so long enough for a difference to be seen? */
static bool matters(const struct plan_step *step, double ns, double all) {
	return step->identity && ns >= TUNING_LEAST_NS && ns * TUNING_PART >= all;
}

static double plan_ns(const struct plan *p) {
	double all = 0;

	for (uint32_t i = 0; i < p->steps; i++)
		all += p->step[i].identity ? step_ns(&p->step[i]) : 0;
	return all;
}

/* What a search looks for, and has found. */
struct search {
	const struct tuning *t;
	const struct traits *traits;
	bool again;
	unsigned rounds;               /* of what was found */
	double ns;
	struct knob_variant *v;
};

static void look_at_value(struct search *s, const struct plan_step *step, const struct tuned *e, unsigned knob, unsigned value, double ns) {
	unsigned rounds = rounds_of(e, knob, value), chosen = e ? e->chosen.value[knob] : KNOB_RULE;

	if (value == chosen || (value == KNOB_RULE && !s->again) || (!s->again && rounds) || !knob_value(knob, value))
		return;
	if (!knob_applies(knob, value ? value : chosen, step, s->traits))
		return;
	if (s->v->kernel && (rounds > s->rounds || (rounds == s->rounds && ns <= s->ns)))
		return;
	*s->v = (struct knob_variant){ step->identity, (uint8_t)knob, (uint8_t)value };
	s->rounds = rounds;
	s->ns = ns;
}

bool tuning_next(const struct tuning *t, const struct plan *p, const struct traits *traits, bool again, struct knob_variant *v) {
	struct search s = { .t = t, .traits = traits, .again = again, .v = v };
	double all = plan_ns(p);

	*v = (struct knob_variant){ 0 };
	for (uint32_t i = 0; i < p->steps; i++) {
		const struct plan_step *step = &p->step[i];
		double ns = kernel_ns(p, step);

		for (unsigned knob = 0; matters(step, ns, all) && knob < KNOB_COUNT; knob++)
			for (unsigned value = 0; value < KNOB_VALUES; value++)
				look_at_value(&s, step, find(t, step->identity), knob, value, ns);
	}
	return v->kernel;
}

/* Is an earlier step of the same kernel? */
static bool is_counted(const struct plan *p, uint32_t step) {
	for (uint32_t i = 0; i < step; i++)
		if (p->step[i].identity == p->step[step].identity)
			return true;
	return false;
}

struct tuning_progress tuning_progress(const struct tuning *t, const struct plan *p, const struct traits *traits) {
	struct tuning_progress n = { 0 };
	double all = plan_ns(p);

	for (uint32_t i = 0; i < p->steps; i++) {
		const struct plan_step *step = &p->step[i];
		bool counts = matters(step, kernel_ns(p, step), all) && !is_counted(p, i);

		for (unsigned knob = 0; counts && knob < KNOB_COUNT; knob++)
			for (unsigned value = KNOB_RULE + 1; value < KNOB_VALUES; value++) {
				unsigned rounds = rounds_of(find(t, step->identity), knob, value);
				bool other = knob_value(knob, value) && knob_applies(knob, value, step, traits);

				n.values += rounds || other;
				n.compared += rounds > 0;
			}
	}
	return n;
}

void tuning_compared(struct tuning *t, const struct knob_variant *v) {
	struct tuned *e = find_or_add(t, v->kernel);

	if (e && e->rounds[v->knob][v->value] < TUNING_ROUNDS)
		e->rounds[v->knob][v->value]++;
}

int tuning_choose(struct tuning *t, const struct knob_variant *v) {
	struct tuned *e = find_or_add(t, v->kernel);

	if (!e)
		return -ENOMEM;
	e->chosen.value[v->knob] = v->value;
	t->serial++;
	return 0;
}

/* ---- on disk ---- */

/*
 * "kernel", its name, and of each knob that was compared NAME=VALUE, which is chosen, and VALUE:ROUNDS of those compared. Words, not numbers: a
 * version that knows other knobs reads what it knows.
 */
#define TUNING_LINE "kernel "

static void write_knob(const struct tuned *e, unsigned knob, FILE *out) {
	bool known = e->chosen.value[knob];

	for (unsigned value = 0; value < KNOB_VALUES; value++)
		known |= e->rounds[knob][value];
	if (!known)
		return;
	fprintf(out, " %s=%s", knob_name(knob), knob_value(knob, e->chosen.value[knob]));
	for (unsigned value = 0; value < KNOB_VALUES; value++)
		if (e->rounds[knob][value])
			fprintf(out, " %s:%u", knob_value(knob, value), (unsigned)e->rounds[knob][value]);
}

void tuning_write(const struct tuning *t, FILE *out) {
	for (const struct tuned *e = t->kernel; e; e = e->hh.next) {
		fprintf(out, TUNING_LINE "%016" PRIx64, e->kernel);
		for (unsigned knob = 0; knob < KNOB_COUNT; knob++)
			write_knob(e, knob, out);
		fputc('\n', out);
	}
}

/* The knob of this name, or KNOB_COUNT. */
static unsigned find_knob(const char *name) {
	unsigned knob = 0;

	while (knob < KNOB_COUNT && strcmp(knob_name(knob), name) != 0)
		knob++;
	return knob;
}

/* One word of a line; *knobp is the knob that the words after NAME=VALUE are of. */
static void read_word(struct tuned *e, char *word, unsigned *knobp) {
	char *mark = strpbrk(word, "=:");
	bool names = mark && *mark == '=';
	int value;

	if (!mark)
		return;
	*mark++ = 0;
	if (names)
		*knobp = find_knob(word);
	if (*knobp == KNOB_COUNT)
		return;
	value = knob_find_value(*knobp, names ? mark : word);
	if (value < 0)
		return;
	if (names)
		e->chosen.value[*knobp] = (uint8_t)value;
	else
		e->rounds[*knobp][value] = (uint8_t)strtoul(mark, NULL, 10);
}

void tuning_read(struct tuning *t, const char *line) {
	unsigned knob = KNOB_COUNT;
	uint64_t kernel;
	char word[TUNING_WORD];
	int at, n;
	struct tuned *e;

	if (sscanf(line, TUNING_LINE "%16" SCNx64 "%n", &kernel, &at) != 1 || !kernel || find(t, kernel))
		return;
	e = find_or_add(t, kernel);
	while (e && sscanf(line + at, "%63s%n", word, &n) == 1) {
		read_word(e, word, &knob);
		at += n;
	}
}
