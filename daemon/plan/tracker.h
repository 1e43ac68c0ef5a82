/*
 * Which form of a graph's plan is the fastest, learned from runs that were timed.
 *
 * A plan of several operations a kernel has three forms: as the rules say (FUSED); one kernel an
 * operation (SINGLE); and without those patterns whose kernels took longer than their operations alone
 * (MIXED). All forms give the same bits, so a wrong choice costs time alone; but a device's times are noisy, and what
 * else runs there comes and goes. So forms are compared in rounds. In a round another form and the chosen one
 * run in turns, TRACK_SAMPLES times each, and only these runs are compared: both met the same weather. The other
 * form wins a round where its median is clearly lower and three quarters of its runs were faster than three quarters
 * of the chosen one's, so that the margin grows with the spread of what was measured. It is chosen once it has won
 * TRACK_ROUNDS rounds one after the other. Later rounds ask again, in ever longer intervals; a form other than FUSED is
 * given up for FUSED as soon as it wins no more by its median.
 *
 * Then the kernels inside the chosen form, those that take most of its time: each value of their knobs (knobs.h) is a form for a
 * while, VARIANT, which is compared with the chosen one in the same way. What wins is a matter of the kernel, not of the graph (tuning.h), so
 * every graph with that kernel has it. A value other than the rules' is compared again now and then, and the rules' is taken
 * back without proof, too.
 *
 * No choice changes silently: each is logged, and the last ones are told to who asks.
 *
 * What trying costs is bounded: forms that are not the chosen one run only while the time they took stays
 * below a share of the time of all runs. What was learned is kept on disk, for one device and version.
 *
 * It calls no clock and no OpenCL: who uses it tells times.
 */
#pragma once

#include "plan.h"
#include "tuning.h"

enum track_form {
	TRACK_FUSED,
	TRACK_SINGLE,
	TRACK_MIXED,
	TRACK_FORMS,
	/* The chosen form, of which one kernel has a knob at another value. */
	TRACK_VARIANT = TRACK_FORMS,
	TRACK_KINDS,
};

enum {
	/* Runs of a form before it is judged, and of each form in a round: quartiles are the third and the seventh. */
	TRACK_SAMPLES = 9,
	/* Two equal forms pass for different in one round of 35 by quartiles alone; twice running is one in 1,200. */
	TRACK_ROUNDS = 2,
	/* Runs of a form that were to be timed before a round is given up: times of runs may get lost. */
	TRACK_TRIES = 4 * TRACK_SAMPLES,
	/* Runs of a graph between rounds; twice as many after each, up to the second. */
	TRACK_AGAIN = 4096,
	TRACK_AGAIN_MOST = 1 << 20,
	/* Runs of a graph before another form is tried: one that is seldom run is not worth the builds. */
	TRACK_RUNS = 32,
	/* Runs of a graph before knobs of its kernels are tried. */
	TRACK_VARIANT_RUNS = 64,
	/* Runs that wanted a variant which was not built, until it is given up. */
	TRACK_REFUSED = 1 << 14,
	/* The chosen form is timed once in so many runs, so that what is known stays true. */
	TRACK_EVERY = 64,
	/* Changes of a choice that are told. */
	TRACK_CHANGES = 16,
	/* Graphs remembered; the oldest is forgotten. A line of 150 bytes each on disk. */
	TRACK_GRAPHS = 4096,
};

struct tracker;
struct tracked;

/* path NULL: nothing is kept on disk. `device` names device, driver and version. A file that does not read is ignored. */
int tracker_new(const char *path, const char *device, struct tracker **trackerp) FAULT_MUST_USE;
/* Saves what was learned. */
struct tracker *tracker_free(struct tracker *t);

/*
 * What is known of a graph planned by these options; NULL where memory is short, they do not fuse, or are
 * fast. Valid until the next call.
 */
struct tracked *tracker_find(struct tracker *t, const struct graph *g, const struct plan_options *o);
/* The same for who only asks: NULL, too, where nothing is known. */
struct tracked *tracker_peek(const struct tracker *t, const struct graph *g, const struct plan_options *o);

/*
 * The form to run now: the chosen one, or while share (percent of the time) allows another one. The
 * caller may run the chosen one instead. *timedp: its time is wanted.
 */
enum track_form tracker_next(struct tracker *t, struct tracked *e, unsigned share, bool *timedp);
enum track_form tracked_chosen(const struct tracked *e);
/* Has it been compared with all others, and is there anything to choose? */
bool tracked_tuned(const struct tracked *e);
/* The options that plan a form. */
struct plan_options tracked_options(const struct tracked *e, enum track_form form, struct plan_options o);
/* Which graph a run is of, for tracker_sample(), and which of its variants is compared. */
uint64_t tracked_id(const struct tracked *e);
uint32_t tracked_variant(const struct tracked *e);
/* The time of a run on the device, where it was asked for; one whose graph was forgotten, or of an older variant, is ignored. */
void tracker_sample(struct tracker *t, uint64_t id, enum track_form form, uint32_t variant, double ns);
/* A run of this form was handed over whose time is wanted. */
void tracker_tried(struct tracker *t, struct tracked *e, enum track_form form);
/* A run that was not timed. */
void tracker_ran(struct tracker *t, struct tracked *e);
/* The chosen form ran in the place of the one that was wanted, which is not built yet. */
void tracker_refused(struct tracker *t, struct tracked *e);
/* The same, and this form will never run: it cannot be built, or needs too much memory. */
void tracker_impossible(struct tracker *t, struct tracked *e, enum track_form form);

/* Forms have been compared: should knobs be, as far as is known? */
bool tracked_wants_variants(const struct tracked *e);
/* What may be compared next: the plan of the chosen form, as it runs. */
void tracker_offer(struct tracker *t, struct tracked *e, const struct plan *chosen, const struct traits *traits);
const struct tuning *tracker_tuning(const struct tracker *t);

/* Nothing shares a kernel in FUSED: there is nothing to choose. */
void tracked_plain(struct tracked *e);

/* Both forms have been timed, and what is to be mixed has not been decided. */
bool tracked_wants_judgement(const struct tracked *e);
/* `fused` was compared with the single form (plan_compare): decides which patterns the mixed form lacks. */
void tracker_judge(struct tracker *t, struct tracked *e, const struct plan *fused);

/* Median of what was measured; 0: not known. */
double tracked_ns(const struct tracked *e, enum track_form form);

/* What is known of a graph, for who asks. */
struct track_report {
	enum track_form chosen;
	double ns[TRACK_FORMS];        /* medians; 0: not known */
	uint32_t samples[TRACK_FORMS], rounds[TRACK_FORMS];
	bool plain;                    /* there is nothing to choose */
	bool settled;                  /* nothing is being compared, and all forms and the knobs of its kernels have been */
};
struct track_report tracked_report(const struct tracked *e);
/* "fused", "single", "mixed" or "variant". */
const char *track_form_name(enum track_form form);

struct track_change {
	uint64_t graph;                /* of its hash; of a knob: the one that was run */
	enum track_form from, to;      /* of a knob: both the graph's */
	struct knob_variant knob;           /* kernel 0: a form changed; value: the new one */
	uint8_t from_value;
	double from_ns, to_ns;         /* medians of the round that decided */
};
/* The newest last; *countp of them, TRACK_CHANGES at most. */
const struct track_change *tracker_changes(const struct tracker *t, unsigned *countp);

struct tracker_counters {
	uint64_t graphs, trials;       /* known; runs of a form that was not chosen */
	uint64_t switched;             /* graphs that run in another form than FUSED */
	uint64_t kernels, turned;      /* whose knobs were compared; that run with another value than the rules' */
	uint64_t changes;              /* of a choice, ever */
	double total_ns, trial_ns;
};
struct tracker_counters tracker_counters(const struct tracker *t);
/* Writes what is new to disk. 0 or a negative errno. */
int tracker_save(struct tracker *t) FAULT_MUST_USE;
bool tracker_changed(const struct tracker *t);
