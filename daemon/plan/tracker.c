/* See tracker.h. */
#include "tracker.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <uthash.h>

/* Another form must be faster by this much to be chosen: below it, noise would decide. */
#define TRACK_CLEARLY 0.95

/* A pattern is left out where its kernels took longer than their operations alone, by this much. */
#define TRACK_LOSES 0.9

enum {
	/* Runs kept of each form: the median of the newest. */
	TRACK_KEPT = 9,
	TRACK_LINE = 512,
};

struct track_key {
	struct graph_hash graph;
	uint64_t min_elements;
	uint64_t patterns_off;
};

struct form {
	double ns[TRACK_KEPT];
	uint32_t samples;              /* ever */
	uint32_t tries;                /* runs that were to be timed while it was not known */
};

struct tracked {
	struct track_key key;
	uint64_t id;
	struct form form[TRACK_FORMS];
	uint64_t runs;
	enum track_form chosen;
	bool plain, judged;
	pattern_set without;           /* the mixed form lacks these; none: there is no mixed form */
	UT_hash_handle hh;             /* by key, in the order of their making */
	UT_hash_handle by_id;
};

struct tracker {
	char *path, *device;
	struct tracked *graph, *by_id;
	uint64_t ids, trials;
	double total_ns, trial_ns;
	bool changed;
};

/* ---- times ---- */

static int compare_ns(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(const struct form *f) {
	uint32_t n = f->samples < TRACK_KEPT ? f->samples : TRACK_KEPT;
	double ns[TRACK_KEPT];

	if (!n)
		return 0;
	memcpy(ns, f->ns, n * sizeof *ns);
	qsort(ns, n, sizeof *ns, compare_ns);
	return ns[n / 2];
}

double tracked_ns(const struct tracked *e, enum track_form form) {
	return median(&e->form[form]);
}

static void add_sample(struct form *f, double ns) {
	f->ns[f->samples++ % TRACK_KEPT] = ns;
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
	HASH_ADD(hh, t->graph, key, sizeof e->key, e);
	HASH_ADD(by_id, t->by_id, id, sizeof e->id, e);
	return e;
}

/* Forms of a fast plan differ in their last bits. */
static bool is_tracked(const struct plan_options *o) {
	return o->fuse && !o->fast;
}

/* The graph's entry, or NULL, and its key. */
static struct tracked *look_up(const struct tracker *t, const struct graph *g, const struct plan_options *o,
	struct track_key *keyp) {
	struct tracked *e;

	*keyp = (struct track_key){ graph_hash(g), o->min_elements, o->patterns_off };
	HASH_FIND(hh, t->graph, keyp, sizeof *keyp, e);
	return e;
}

struct tracked *tracker_find(struct tracker *t, const struct graph *g, const struct plan_options *o) {
	struct track_key key;
	struct tracked *e;

	if (!is_tracked(o))
		return NULL;
	e = look_up(t, g, o, &key);
	if (e) {
		/* To the young end of the list. */
		HASH_DELETE(hh, t->graph, e);
		HASH_ADD(hh, t->graph, key, sizeof e->key, e);
		return e;
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
	if (form == TRACK_SINGLE)
		o.fuse = false;
	if (form == TRACK_MIXED)
		o.patterns_off |= e->without;
	return o;
}

void tracked_plain(struct tracked *e) {
	e->plain = true;
}

/* ---- choosing ---- */

/* Not known, and not given up: times of runs may get lost. */
static bool is_open(const struct tracked *e, enum track_form form) {
	return !is_known(e, form) && e->form[form].tries < TRACK_TRIES;
}

/* The form whose time is wanted most; the chosen one where none is. */
static enum track_form wanted(const struct tracked *e) {
	if (e->plain || e->runs < TRACK_RUNS || !is_known(e, TRACK_FUSED))
		return e->chosen;
	if (is_open(e, TRACK_SINGLE))
		return TRACK_SINGLE;
	return e->without && is_open(e, TRACK_MIXED) ? TRACK_MIXED : e->chosen;
}

/* What a form will take: what it took, or twice what the chosen one takes where it never ran. */
static double expected_ns(const struct tracked *e, enum track_form form) {
	double ns = median(&e->form[form]);

	return ns > 0 ? ns : 2 * median(&e->form[e->chosen]);
}

enum track_form tracker_next(struct tracker *t, struct tracked *e, unsigned share, bool *timedp) {
	enum track_form form = wanted(e);

	if (form != e->chosen && t->trial_ns + expected_ns(e, form) > t->total_ns * share / 100)
		form = e->chosen;
	*timedp = form != e->chosen || is_open(e, form) || e->runs % TRACK_EVERY == 0;
	return form;
}

/* The fastest known form, where it is clearly faster than FUSED. */
static void choose(struct tracker *t, struct tracked *e) {
	double best = median(&e->form[TRACK_FUSED]) * TRACK_CLEARLY;
	enum track_form chosen = TRACK_FUSED;

	for (enum track_form i = TRACK_SINGLE; i < TRACK_FORMS; i++) {
		if (!is_known(e, i) || median(&e->form[i]) >= best)
			continue;
		best = median(&e->form[i]);
		chosen = i;
	}
	t->changed |= chosen != e->chosen;
	e->chosen = chosen;
}

void tracker_ran(struct tracker *t, struct tracked *e) {
	e->runs++;
	t->total_ns += median(&e->form[e->chosen]);
}

/* Charged before it runs: its time may never come. */
void tracker_tried(struct tracker *t, struct tracked *e, enum track_form form) {
	e->runs++;
	e->form[form].tries += !is_known(e, form);
	if (form != e->chosen)
		t->trial_ns += expected_ns(e, form);
}

void tracker_sample(struct tracker *t, uint64_t id, enum track_form form, double ns) {
	struct tracked *e;

	HASH_FIND(by_id, t->by_id, &id, sizeof id, e);
	if (!e || !(ns > 0) || !isfinite(ns))
		return;
	t->total_ns += ns;
	if (form != e->chosen) {
		t->trial_ns += fmax(ns - expected_ns(e, form), 0);
		t->trials++;
	}
	add_sample(&e->form[form], ns);
	t->changed |= e->form[form].samples <= TRACK_SAMPLES;
	if (is_known(e, TRACK_FUSED) && is_known(e, form))
		choose(t, e);
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
	return c;
}

/* ---- on disk ---- */

/*
 * The first line names the format and the device, the second the seed of graphs' hashes. Then a line a graph: its key, what was decided, and of
 * each form how often it was timed and its median.
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
	while (ours && fgets(line, sizeof line, in))
		read_line(t, line);
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
	if ((path && !t->path) || !t->device) {
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
	if (tracker_save(t))
		t->changed = false;
	while (t->graph)
		forget(t);
	free(t->path);
	free(t->device);
	free(t);
	return NULL;
}
