/* See tracker.h. */
#include "tracker.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "protocol/hash.h"
#include "daemon/base/log.h"

/* Another form's median must be lower by this much for it to win a round, whatever the spread. */
#define TRACK_CLEARLY 0.95

/* A form in the place of FUSED stays while its median is lower by this much: less than it took, or it would alternate. */
#define TRACK_STAYS 0.98

/* A pattern is left out where its kernels took longer than their operations alone, by this much. */
#define TRACK_LOSES 0.9

enum {
	/* The newest of a form, and its quartiles in order. */
	TRACK_KEPT = TRACK_SAMPLES,
	TRACK_QUARTER = TRACK_KEPT / 4,
	TRACK_LINE = 512,
};

struct track_key {
	struct graph_hash graph;
	uint64_t min_elements;
	uint64_t patterns_off;
};

struct form {
	double ns[TRACK_KEPT];
	double median_ns;              /* of these: every run asks for it */
	uint32_t samples;              /* ever */
	uint32_t tries;                /* of the chosen form, before it is known: runs that were to be timed */
	uint32_t rounds;               /* that it was the other form of */
	bool lost;                     /* a round with it was given up */
};

/* The chosen form and another one run in turns. */
struct round {
	enum track_form other;         /* the chosen one: no round is under way */
	unsigned tries[2], samples[2]; /* runs handed over and timed: of the chosen one, of the other one */
	unsigned won;                  /* rounds that `other` won, one after the other */
	uint64_t next, interval;       /* the next begins at this run */
};

struct tracked {
	struct track_key key;
	uint64_t id;
	struct form form[TRACK_KINDS];
	uint64_t runs;
	enum track_form chosen;
	struct round round;
	bool plain, judged;
	const struct tuning *tuning;   /* the tracker's */
	struct knob_variant variant;        /* of the round, while `other` is VARIANT, or of the last one */
	uint32_t variants;             /* rounds of them, so that times that come late are known */
	uint64_t variant_next, variant_interval; /* all knobs were compared once; again at this run */
	unsigned refused;
	pattern_set without;           /* the mixed form lacks these; none: there is no mixed form */
	UT_hash_handle hh;             /* by key, in the order of their making */
	UT_hash_handle by_id;
};

struct tracker {
	char *path, *device;
	struct tracked *graph, *by_id;
	struct tuning *tuning;
	uint64_t ids, trials, changes;
	struct track_change change[TRACK_CHANGES];
	double total_ns, trial_ns;
	bool changed;
};

/* ---- times ---- */

static int compare_ns(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* The newest times in order; how many there are. */
static uint32_t in_order(const struct form *f, double ns[static TRACK_KEPT]) {
	uint32_t n = f->samples < TRACK_KEPT ? f->samples : TRACK_KEPT;

	memcpy(ns, f->ns, n * sizeof *ns);
	qsort(ns, n, sizeof *ns, compare_ns);
	return n;
}

static double median(const struct form *f) {
	return f->median_ns;
}

/* Requires both known. */
static bool is_clearly_faster(const struct form *a, const struct form *b) {
	double x[TRACK_KEPT], y[TRACK_KEPT];

	in_order(a, x);
	in_order(b, y);
	return median(a) < median(b) * TRACK_CLEARLY && x[TRACK_KEPT - 1 - TRACK_QUARTER] < y[TRACK_QUARTER];
}

double tracked_ns(const struct tracked *e, enum track_form form) {
	return median(&e->form[form]);
}

static void add_sample(struct form *f, double ns) {
	double sorted[TRACK_KEPT];
	uint32_t n;

	f->ns[f->samples++ % TRACK_KEPT] = ns;
	n = in_order(f, sorted);
	f->median_ns = sorted[n / 2];
}

static bool is_known(const struct tracked *e, enum track_form form) {
	return e->form[form].samples >= TRACK_SAMPLES;
}

/* ---- graphs ---- */

/* The oldest. */
static void forget(struct tracker *t) {
	struct tracked *e = t->graph;

	HASH_DELETE(by_id, t->by_id, e);
	HASH_DELETE(hh, t->graph, e);
	free(e);
}

static struct tracked *add(struct tracker *t, const struct track_key *key) {
	struct tracked *e = calloc(1, sizeof *e);

	if (!e)
		return NULL;
	e->key = *key;
	e->id = ++t->ids;
	e->tuning = t->tuning;
	HASH_ADD(hh, t->graph, key, sizeof e->key, e);
	if (HASH_ADDED(hh, e))
		HASH_ADD(by_id, t->by_id, id, sizeof e->id, e);
	if (HASH_ADDED(by_id, e))
		return e;
	if (HASH_ADDED(hh, e))
		HASH_DELETE(hh, t->graph, e);
	free(e);
	return NULL;
}

/* Forms of a fast plan differ in their last bits; who says how kernels are made, or what they hold, learns nothing for others. */
static bool is_tracked(const struct plan_options *o) {
	return o->fuse && !o->fast && !o->pins.set && !o->apart.count;
}

/* The graph's entry, or NULL, and its key. */
static struct tracked *look_up(const struct tracker *t, const struct graph *g, const struct plan_options *o,
	struct track_key *keyp) {
	struct tracked *e;

	*keyp = (struct track_key){ graph_hash(g), o->min_elements,
		o->patterns_off | (uint64_t)book_hash(o->book, o->named_off) << 32 };
	HASH_FIND(hh, t->graph, keyp, sizeof *keyp, e);
	return e;
}

struct tracked *tracker_find(struct tracker *t, const struct graph *g, const struct plan_options *o) {
	struct track_key key;
	struct tracked *e;

	if (!is_tracked(o))
		return NULL;
	e = look_up(t, g, o, &key);
	/* The youngest stays where it is. */
	if (e && !e->hh.next)
		return e;
	if (e) {
		/* To the young end of the list. */
		HASH_DELETE(hh, t->graph, e);
		HASH_ADD(hh, t->graph, key, sizeof e->key, e);
		if (HASH_ADDED(hh, e))
			return e;
		HASH_DELETE(by_id, t->by_id, e);
		free(e);
		return NULL;
	}
	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): forget() takes it out of both tables first */
	while (HASH_COUNT(t->graph) >= TRACK_GRAPHS)
		forget(t);
	return add(t, &key);
}

struct tracked *tracker_peek(const struct tracker *t, const struct graph *g, const struct plan_options *o) {
	struct track_key key;

	return is_tracked(o) ? look_up(t, g, o, &key) : NULL;
}

uint64_t tracked_id(const struct tracked *e) {
	return e->id;
}

enum track_form tracked_chosen(const struct tracked *e) {
	return e->chosen;
}

struct plan_options tracked_options(const struct tracked *e, enum track_form form, struct plan_options o) {
	const enum track_form of = form == TRACK_VARIANT ? e->chosen : form;

	if (of == TRACK_SINGLE)
		o.fuse = false;
	if (of == TRACK_MIXED)
		o.patterns_off |= e->without;
	o.tuning = e->tuning;
	if (form == TRACK_VARIANT)
		o.variant = e->variant;
	return o;
}

void tracked_plain(struct tracked *e) {
	e->plain = true;
}

/* ---- rounds ---- */

static bool round_runs(const struct tracked *e) {
	return e->round.other != e->chosen;
}

static void round_begin(struct tracked *e, enum track_form other) {
	e->round.other = other;
	memset(e->round.tries, 0, sizeof e->round.tries);
	memset(e->round.samples, 0, sizeof e->round.samples);
}

/* No other round before the interval is over. */
static void round_end(struct tracked *e) {
	e->round.other = e->chosen;
	e->round.won = 0;
	e->round.interval = e->round.interval ? e->round.interval * 2 : TRACK_AGAIN;
	if (e->round.interval > TRACK_AGAIN_MOST)
		e->round.interval = TRACK_AGAIN_MOST;
	e->round.next = e->runs + e->round.interval;
}

static bool may_run(const struct tracked *e, enum track_form form) {
	const bool may[TRACK_FORMS] = { [TRACK_FUSED] = true, [TRACK_SINGLE] = !e->form[TRACK_SINGLE].lost,
		[TRACK_MIXED] = e->without && !e->form[TRACK_MIXED].lost };

	return may[form];
}

/*
 * What is to be compared with the chosen form: one that is not known, or once it is time the one that was
 * compared least often. The chosen one: nothing is.
 */
static enum track_form rival(const struct tracked *e) {
	enum track_form found = e->chosen;

	for (enum track_form i = TRACK_FUSED; i < TRACK_FORMS; i++) {
		if (i == e->chosen || !may_run(e, i))
			continue;
		if (!is_known(e, i))
			return i;
		if (e->runs >= e->round.next && (found == e->chosen || e->form[i].rounds < e->form[found].rounds))
			found = i;
	}
	return found;
}

static void round_look(struct tracked *e) {
	enum track_form other;

	if (round_runs(e) || e->plain || e->runs < TRACK_RUNS || !is_known(e, e->chosen))
		return;
	other = rival(e);
	if (other == e->chosen)
		return;
	e->form[other].rounds++;
	round_begin(e, other);
}

const char *track_form_name(enum track_form form) {
	static const char *const names[TRACK_KINDS] = { [TRACK_FUSED] = "fused", [TRACK_SINGLE] = "single", [TRACK_MIXED] = "mixed",
		[TRACK_VARIANT] = "variant" };

	return names[form];
}

/* Old ones make room at the front. */
static void keep_change(struct tracker *t, const struct track_change *c) {
	if (t->changes >= TRACK_CHANGES)
		memmove(t->change, t->change + 1, sizeof t->change - sizeof *t->change);
	t->change[t->changes < TRACK_CHANGES ? t->changes : TRACK_CHANGES - 1] = *c;
	t->changes++;
	t->changed = true;
}

static void tell_change(struct tracker *t, const struct tracked *e, enum track_form to) {
	const struct track_change c = { .graph = e->key.graph.high, .from = e->chosen, .to = to,
		.from_ns = median(&e->form[e->chosen]), .to_ns = median(&e->form[to]) };

	keep_change(t, &c);
	log_notice("the graph %016" PRIx64 " runs %s from now on, in %.3g us, not %s, in %.3g us", c.graph,
		track_form_name(to), c.to_ns / 1e3, track_form_name(c.from), c.from_ns / 1e3);
}

const struct track_change *tracker_changes(const struct tracker *t, unsigned *countp) {
	*countp = t->changes < TRACK_CHANGES ? (unsigned)t->changes : TRACK_CHANGES;
	return t->change;
}

static void take(struct tracker *t, struct tracked *e, enum track_form form) {
	tell_change(t, e, form);
	e->chosen = form;
	/* It has just been found out: soon enough it is asked again. */
	e->round.interval = 0;
}

/* ---- knobs ---- */

static void tell_turn(struct tracker *t, const struct tracked *e) {
	const struct knob_variant *v = &e->variant;
	const struct track_change c = { .graph = e->key.graph.high, .from = e->chosen, .to = e->chosen, .knob = *v,
		.from_value = tuning_choice(t->tuning, v->kernel).value[v->knob], .from_ns = median(&e->form[e->chosen]),
		.to_ns = median(&e->form[TRACK_VARIANT]) };

	keep_change(t, &c);
	log_notice("the kernel %016" PRIx64 " runs with the knob %s at %s from now on, not at %s: the graph %016" PRIx64
		" takes %.3g us, not %.3g us", v->kernel, knob_name(v->knob), knob_value(v->knob, v->value),
		knob_value(v->knob, c.from_value), c.graph, c.to_ns / 1e3, c.from_ns / 1e3);
}

/* What was timed of the variant is what the chosen form takes now. */
static void turn(struct tracker *t, struct tracked *e) {
	struct form *f = &e->form[e->chosen];

	tell_turn(t, e);
	/* Where memory is short it is found out again. */
	if (tuning_choose(t->tuning, &e->variant))
		return;
	memcpy(f->ns, e->form[TRACK_VARIANT].ns, sizeof f->ns);
	f->median_ns = median(&e->form[TRACK_VARIANT]);
}

/* The next variant may begin at once. */
static void variant_end(struct tracker *t, struct tracked *e) {
	tuning_compared(t->tuning, &e->variant);
	t->changed = true;
	e->round.other = e->chosen;
	e->round.won = 0;
}

/* As forms: what is not the rules' is left without proof, and taken on proof alone. */
static void variant_judge(struct tracker *t, struct tracked *e) {
	const struct form *a = &e->form[TRACK_VARIANT], *b = &e->form[e->chosen];

	if (e->variant.value == KNOB_RULE) {
		if (!(median(b) < median(a) * TRACK_STAYS))
			turn(t, e);
	} else if (is_clearly_faster(a, b)) {
		if (++e->round.won < TRACK_ROUNDS) {
			round_begin(e, TRACK_VARIANT);
			return;
		}
		turn(t, e);
	}
	variant_end(t, e);
}

static void variant_begin(struct tracked *e, const struct knob_variant *v) {
	e->variant = *v;
	e->variants++;
	e->refused = 0;
	e->form[TRACK_VARIANT] = (struct form){ .samples = 0 };
	round_begin(e, TRACK_VARIANT);
}

/* All that could be compared was. */
static void variants_end(struct tracked *e) {
	e->variant_interval = e->variant_interval ? e->variant_interval * 2 : TRACK_AGAIN;
	if (e->variant_interval > TRACK_AGAIN_MOST)
		e->variant_interval = TRACK_AGAIN_MOST;
	e->variant_next = e->runs + e->variant_interval;
}

/* Both forms were timed in turns. FUSED is left on proof alone, and taken back without. */
static void round_judge(struct tracker *t, struct tracked *e) {
	enum track_form other = e->round.other;
	const struct form *a = &e->form[other], *b = &e->form[e->chosen];

	if (other == TRACK_VARIANT) {
		variant_judge(t, e);
		return;
	}
	if (other == TRACK_FUSED) {
		if (!(median(b) < median(a) * TRACK_STAYS))
			take(t, e, TRACK_FUSED);
	} else if (is_clearly_faster(a, b)) {
		if (++e->round.won < TRACK_ROUNDS) {
			round_begin(e, other);
			return;
		}
		take(t, e, other);
	}
	round_end(e);
}

/* ---- choosing ---- */

/* The form whose time is wanted. In a round they take turns, by what was handed over; `other` begins. */
static enum track_form wanted(const struct tracked *e) {
	return round_runs(e) && e->round.tries[1] <= e->round.tries[0] ? e->round.other : e->chosen;
}

/* What a form will take: what it took, or twice what the chosen one takes where it never ran. */
static double expected_ns(const struct tracked *e, enum track_form form) {
	double ns = median(&e->form[form]);

	return ns > 0 ? ns : 2 * median(&e->form[e->chosen]);
}

/* Is the time of a run of the chosen form wanted? */
static bool is_timed(const struct tracked *e, enum track_form wanted) {
	const struct form *f = &e->form[e->chosen];

	if (round_runs(e))
		return wanted == e->chosen;
	return (f->samples < TRACK_SAMPLES && f->tries < TRACK_TRIES) || e->runs % TRACK_EVERY == 0;
}

enum track_form tracker_next(struct tracker *t, struct tracked *e, unsigned share, bool *timedp) {
	enum track_form form;

	round_look(e);
	form = wanted(e);
	*timedp = form != e->chosen || is_timed(e, form);
	if (form == e->chosen || t->trial_ns + expected_ns(e, form) <= t->total_ns * share / 100)
		return form;
	*timedp = false;
	return e->chosen;
}

void tracker_ran(struct tracker *t, struct tracked *e) {
	e->runs++;
	t->total_ns += median(&e->form[e->chosen]);
}

/* The round ends without a verdict, and its other form is not tried again. */
static void round_give_up(struct tracker *t, struct tracked *e) {
	e->form[e->round.other].lost = true;
	if (e->round.other == TRACK_VARIANT)
		variant_end(t, e);
	else
		round_end(e);
}

static void round_tried(struct tracker *t, struct tracked *e, enum track_form form) {
	struct round *r = &e->round;

	r->tries[form == r->other]++;
	if (r->tries[0] >= TRACK_TRIES && r->tries[1] >= TRACK_TRIES)
		round_give_up(t, e);
}

void tracker_refused(struct tracker *t, struct tracked *e) {
	tracker_ran(t, e);
	if (e->round.other == TRACK_VARIANT && ++e->refused >= TRACK_REFUSED)
		variant_end(t, e);
}

void tracker_impossible(struct tracker *t, struct tracked *e, enum track_form form) {
	tracker_ran(t, e);
	if (round_runs(e) && form == e->round.other)
		round_give_up(t, e);
}

/* Charged before it runs: its time may never come. */
void tracker_tried(struct tracker *t, struct tracked *e, enum track_form form) {
	e->runs++;
	e->form[form].tries += form == e->chosen;
	if (form != e->chosen)
		t->trial_ns += expected_ns(e, form);
	if (round_runs(e) && (form == e->chosen || form == e->round.other))
		round_tried(t, e, form);
}

void tracker_sample(struct tracker *t, uint64_t id, enum track_form form, uint32_t variant, double ns) {
	struct tracked *e;

	HASH_FIND(by_id, t->by_id, &id, sizeof id, e);
	if (!e || !(ns > 0) || !isfinite(ns) || (form == TRACK_VARIANT && variant != e->variants))
		return;
	t->total_ns += ns;
	if (form != e->chosen) {
		t->trial_ns += fmax(ns - expected_ns(e, form), 0);
		t->trials++;
	}
	add_sample(&e->form[form], ns);
	t->changed |= e->form[form].samples <= TRACK_SAMPLES;
	if (!round_runs(e) || (form != e->chosen && form != e->round.other))
		return;
	e->round.samples[form == e->round.other]++;
	if (e->round.samples[0] >= TRACK_SAMPLES && e->round.samples[1] >= TRACK_SAMPLES)
		round_judge(t, e);
}

/* Are all known, and is nothing being compared now? */
static bool is_settled(const struct tracked *e) {
	bool settled = !round_runs(e) && !tracked_wants_judgement(e);

	for (enum track_form i = TRACK_FUSED; i < TRACK_FORMS; i++)
		settled = settled && (is_known(e, i) || !may_run(e, i));
	return settled;
}

/* Has it run often, in a form that was not just taken? */
static bool may_vary(const struct tracked *e) {
	return !round_runs(e) && (e->plain || is_settled(e)) && e->runs >= TRACK_VARIANT_RUNS && is_known(e, e->chosen);
}

bool tracked_wants_variants(const struct tracked *e) {
	return may_vary(e) && (!e->variant_next || e->runs >= e->variant_next);
}

void tracker_offer(struct tracker *t, struct tracked *e, const struct plan *chosen, const struct traits *traits) {
	struct knob_variant v;

	if (!tracked_wants_variants(e))
		return;
	if (tuning_next(t->tuning, chosen, traits, false, &v))
		variant_begin(e, &v);
	else if (!e->variant_next)
		variants_end(e);
	else {
		variants_end(e);
		if (tuning_next(t->tuning, chosen, traits, true, &v))
			variant_begin(e, &v);
	}
}

uint32_t tracked_variant(const struct tracked *e) {
	return e->variants;
}

const struct tuning *tracker_tuning(const struct tracker *t) {
	return t->tuning;
}

bool tracked_tuned(const struct tracked *e) {
	return !e->plain && is_settled(e);
}

struct track_report tracked_report(const struct tracked *e) {
	struct track_report r = { .chosen = e->chosen, .plain = e->plain, .settled = may_vary(e) && e->variant_next && e->runs < e->variant_next };

	for (enum track_form i = TRACK_FUSED; i < TRACK_FORMS; i++) {
		r.ns[i] = median(&e->form[i]);
		r.samples[i] = e->form[i].samples;
		r.rounds[i] = e->form[i].rounds;
	}
	return r;
}

/* ---- judging ---- */

bool tracked_wants_judgement(const struct tracked *e) {
	return !e->judged && is_known(e, TRACK_FUSED) && is_known(e, TRACK_SINGLE);
}

void tracker_judge(struct tracker *t, struct tracked *e, const struct plan *fused) {
	double together[PATTERN_COUNT] = { 0 }, alone[PATTERN_COUNT] = { 0 };

	for (uint32_t i = 0; i < fused->steps; i++) {
		const struct plan_step *s = &fused->step[i];
		double ns = plan_measured_of(fused, i);

		if (s->ops < 2 || !(ns > 0) || !(s->measured_unfused_ns > 0))
			continue;
		together[s->pattern] += ns;
		alone[s->pattern] += s->measured_unfused_ns;
	}
	for (unsigned i = 1; i < PATTERN_COUNT; i++)
		if (alone[i] > 0 && alone[i] < together[i] * TRACK_LOSES)
			e->without |= pattern_bit((enum pattern)i);
	e->judged = true;
	t->changed = true;
}

struct tracker_counters tracker_counters(const struct tracker *t) {
	struct tracker_counters c = { .graphs = HASH_COUNT(t->graph), .trials = t->trials, .total_ns = t->total_ns,
		.trial_ns = t->trial_ns };

	for (const struct tracked *e = t->graph; e; e = e->hh.next)
		c.switched += e->chosen != TRACK_FUSED;
	c.changes = t->changes;
	c.kernels = tuning_kernels(t->tuning);
	c.turned = tuning_turned(t->tuning);
	return c;
}

/* ---- on disk ---- */

/*
 * The first line names the format and the device, the second the seed of graphs' hashes. Then a line a graph: its key, what was decided, and of
 * each form how often it was timed and its median. Then lines of kernels (tuning.c).
 */
#define TRACK_HEAD "fusiond tracker 2 "

static void read_line(struct tracker *t, const char *line) {
	struct track_key key;
	struct tracked *e;
	unsigned chosen, judged, without, samples[TRACK_FORMS];
	double ns[TRACK_FORMS];

	memset(&key, 0, sizeof key);
	if (sscanf(line, "%" SCNx64 " %" SCNx64 " %" SCNu64 " %" SCNx64 " %u %u %x %u %lf %u %lf %u %lf",
		    &key.graph.high, &key.graph.low, &key.min_elements, &key.patterns_off, &chosen, &judged,
		    &without, &samples[0], &ns[0], &samples[1], &ns[1], &samples[2], &ns[2]) != 13 ||
		chosen >= TRACK_FORMS)
		return;
	HASH_FIND(hh, t->graph, &key, sizeof key, e);
	e = e || HASH_COUNT(t->graph) >= TRACK_GRAPHS ? NULL : add(t, &key);
	if (!e)
		return;
	for (unsigned i = 0; i < TRACK_FORMS; i++)
		for (unsigned k = 0; ns[i] > 0 && isfinite(ns[i]) && k < samples[i] && k < TRACK_SAMPLES; k++)
			add_sample(&e->form[i], ns[i]);
	e->chosen = is_known(e, (enum track_form)chosen) ? (enum track_form)chosen : TRACK_FUSED;
	e->round.other = e->chosen;
	e->judged = judged;
	e->without = without;
	e->runs = TRACK_RUNS;
}

static void load(struct tracker *t) {
	char line[TRACK_LINE];
	uint64_t seed = 0;
	FILE *in = fopen(t->path, "re");
	bool ours = in && fgets(line, sizeof line, in) && !strncmp(line, TRACK_HEAD, strlen(TRACK_HEAD));

	if (ours) {
		line[strcspn(line, "\n")] = 0;
		ours = !strcmp(line + strlen(TRACK_HEAD), t->device);
	}
	ours = ours && fgets(line, sizeof line, in) && sscanf(line, "%" SCNx64, &seed) == 1 && seed;
	if (ours)
		graph_set_seed(seed);
	while (ours && fgets(line, sizeof line, in)) {
		tuning_read(t->tuning, line);
		read_line(t, line);
	}
	if (in)
		fclose(in);
}

static void write_line(FILE *out, const struct tracked *e) {
	fprintf(out, "%016" PRIx64 " %016" PRIx64 " %" PRIu64 " %" PRIx64 " %u %u %x", e->key.graph.high,
		e->key.graph.low, e->key.min_elements, e->key.patterns_off, (unsigned)e->chosen,
		(unsigned)e->judged, (unsigned)e->without);
	for (unsigned i = 0; i < TRACK_FORMS; i++)
		fprintf(out, " %u %.6g", e->form[i].samples, median(&e->form[i]));
	fputc('\n', out);
}

static int write_all(const struct tracker *t, const char *path) {
	FILE *out = fopen(path, "we");
	int r;

	if (!out)
		return -errno;
	fprintf(out, TRACK_HEAD "%s\n%016" PRIx64 "\n", t->device, graph_seed());
	for (const struct tracked *e = t->graph; e; e = e->hh.next)
		if (is_known(e, TRACK_FUSED))
			write_line(out, e);
	tuning_write(t->tuning, out);
	r = ferror(out) ? -EIO : 0;
	return fclose(out) && !r ? -errno : r;
}

bool tracker_changed(const struct tracker *t) {
	return t->changed;
}

/* Written beside and renamed: a reader finds the whole or none. */
int tracker_save(struct tracker *t) {
	char *beside = NULL;
	int r;

	if (!t->path || !t->changed)
		return 0;
	if (asprintf(&beside, "%s.%ld", t->path, (long)getpid()) < 0)
		return -ENOMEM;
	r = write_all(t, beside);
	if (!r && rename(beside, t->path) < 0)
		r = -errno;
	if (r)
		unlink(beside);
	free(beside);
	t->changed = false;
	return r;
}

int tracker_new(const char *path, const char *device, struct tracker **trackerp) {
	struct tracker *t = calloc(1, sizeof *t);

	if (!t)
		return -ENOMEM;
	t->path = path ? strdup(path) : NULL;
	t->device = strdup(device);
	t->tuning = tuning_new();
	if ((path && !t->path) || !t->device || !t->tuning) {
		tracker_free(t);
		return -ENOMEM;
	}
	/* The name stands in a line. */
	for (char *p = t->device; *p; p++)
		if (*p == '\n' || *p == '\r')
			*p = ' ';
	if (strlen(t->device) > TRACK_LINE / 2)
		t->device[TRACK_LINE / 2] = 0;
	if (path)
		load(t);
	t->changed = false;
	*trackerp = t;
	return 0;
}

struct tracker *tracker_free(struct tracker *t) {
	if (!t)
		return NULL;
	/* What cannot be written is learned again. */
	if (t->tuning && tracker_save(t))
		t->changed = false;
	while (t->graph)
		forget(t);
	tuning_free(t->tuning);
	free(t->path);
	free(t->device);
	free(t);
	return NULL;
}
