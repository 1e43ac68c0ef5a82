/*
 * Optimisers: one step of descent for many parameters.
 *
 * An update is a few elementwise operations on each parameter, computed in f32 (f64 for f64) and rounded once to the
 * type of what is updated. Those of all parameters are recorded together and read nothing of each other, so the daemon
 * runs them in one launch. The arithmetic and its order are PyTorch's. Nothing of it is recorded for gradients.
 */
#include <errno.h>
#include <stdlib.h>

#include "capture.h"
#include "context.h"
#include "site.h"
#include "tape.h"

enum {
	/* What a step updates of each parameter: itself, and averages. */
	PARTS = 3,
	PARAMETER = 0,
	FIRST,
	SECOND,
};

struct update {
	struct recording recording;
	struct site site;
	unsigned count, parts;
	fusion_array *const *gradient;
	fusion_array *const *array[PARTS];
	fusion_array *counter;               /* adam's number of steps, or NULL */
	fusion_array **nextp;
	struct value **made;                 /* new values, part after part, then the counter; borrowed from the site */
};

/* What one parameter is updated from, in the type it is computed in. */
struct one {
	struct site *s;
	struct value *gradient, *part[PARTS];
};

/* ---- operations ---- */

static struct value *times(struct site *s, struct value *a, double number) {
	return site_binary(s, OP_mul, a, site_number(s, a, number));
}

static struct value *plus_number(struct site *s, struct value *a, double number) {
	return site_binary(s, OP_add, a, site_number(s, a, number));
}

static struct value *plus(struct site *s, struct value *a, struct value *b) {
	return site_binary(s, OP_add, a, b);
}

/* The analyzer does not see that update_begin() lets nothing through without options and room for what is made. */
/* NOLINTBEGIN(clang-analyzer-core.NullDereference,clang-analyzer-core.CallAndMessage) */

/* ---- taking ---- */

static int take(struct update *u, const char *what, unsigned i, fusion_array *const *list, struct value **vp) {
	struct recording *r = &u->recording;
	struct fusion_array *a;
	uint32_t number;
	int failed = array_find_in(r->context, list, i, r->what, what, &a, &r->fault);

	if (failed)
		return failed;
	if (dtype_info(a->type.dtype)->kind != DTYPE_KIND_REAL)
		return fault_set(&r->fault, FAULT_DTYPE, "%s: %s %u is of %s, not of a floating-point type", r->what, what, i,
			dtype_info(a->type.dtype)->name);
	failed = array_usable(a, r->what, &r->fault);
	if (!failed)
		failed = capture_operand(r->context, a, r->what, vp, &r->fault);
	if (failed)
		return failed;
	value_ref(*vp);
	failed = site_keep(&u->site, *vp, &number);
	if (failed)
		value_drop(r->context, *vp);
	return failed;
}

static const char *part_name(const struct update *u, unsigned part) {
	if (part == PARAMETER)
		return "parameter";
	if (u->parts < PARTS)
		return "velocity";
	return part == 1 ? "first average" : "second average";
}

static int take_one(struct update *u, unsigned i, struct one *o) {
	struct recording *r = &u->recording;
	enum dtype wide;
	int failed = take(u, "gradient", i, u->gradient, &o->gradient);

	for (unsigned p = 0; !failed && p < u->parts; p++) {
		const char *word = part_name(u, p);

		failed = take(u, word, i, u->array[p], &o->part[p]);
		if (!failed && !shape_equal(&o->part[p]->type, &o->gradient->type))
			failed = fault_set(&r->fault, FAULT_SHAPE, "%s: %s %u has not the shape of its gradient", r->what, word, i);
	}
	if (failed)
		return failed;
	wide = dtype_info(o->part[PARAMETER]->type.dtype)->reg;
	o->gradient = site_cast(&u->site, o->gradient, wide);
	for (unsigned p = 0; p < u->parts; p++)
		o->part[p] = site_cast(&u->site, o->part[p], wide);
	return u->site.failed;
}

/* ---- rules ---- */

static void descend(struct one *o, const struct fusion_sgd_options *options) {
	struct value *g = o->gradient, *p = o->part[PARAMETER];

	if (options->decay != 0)
		g = plus(o->s, g, times(o->s, p, options->decay));
	if (options->momentum != 0) {
		g = plus(o->s, times(o->s, o->part[FIRST], options->momentum), g);
		o->part[FIRST] = g;
	}
	o->part[PARAMETER] = site_binary(o->s, OP_sub, p, times(o->s, g, options->rate));
}

/* 1 - beta^t */
static struct value *correction(struct one *o, struct value *counter, double beta) {
	struct value *power = site_binary(o->s, OP_pow, site_number(o->s, counter, beta), counter);

	return site_binary(o->s, OP_sub, site_number(o->s, counter, 1), power);
}

static void adapt(struct one *o, struct value *counter, const struct fusion_adam_options *options, bool decoupled) {
	struct site *s = o->s;
	struct value *g = o->gradient, *p = o->part[PARAMETER], *root, *rate;

	counter = site_cast(s, counter, p ? (enum dtype)p->type.dtype : DTYPE_f32);
	if (options->decay != 0 && decoupled)
		p = times(s, p, 1 - options->rate * options->decay);
	else if (options->decay != 0)
		g = plus(s, g, times(s, p, options->decay));
	o->part[FIRST] = plus(s, times(s, o->part[FIRST], options->beta1), times(s, g, 1 - options->beta1));
	o->part[SECOND] = plus(s, times(s, o->part[SECOND], options->beta2),
		times(s, site_binary(s, OP_mul, g, g), 1 - options->beta2));
	root = site_binary(s, OP_div, site_unary(s, OP_sqrt, o->part[SECOND]),
		site_unary(s, OP_sqrt, correction(o, counter, options->beta2)));
	rate = site_number(s, counter, options->rate);
	rate = site_binary(s, OP_div, rate, correction(o, counter, options->beta1));
	root = plus_number(s, root, options->eps);
	o->part[PARAMETER] = site_binary(s, OP_sub, p, site_binary(s, OP_mul, rate, site_binary(s, OP_div, o->part[FIRST], root)));
}

/* ---- giving ---- */

/* One of those that were taken; the lock has not been given up since. */
static struct fusion_array *target(const struct update *u, unsigned i) {
	fusion_array *name = i < u->parts * u->count ? u->array[i / u->count][i % u->count] : u->counter;

	return (struct fusion_array *)object_at(OBJECT_ARRAY, name);
}

static unsigned targets(const struct update *u) {
	return u->parts * u->count + (u->counter != NULL);
}

/* Gradients end at what is updated. */
static void write_one(struct fusion_array *a, struct value *v) {
	if (a->watched)
		v->leaf = true;
	array_rebind(a, v);
}

static int hand_over(struct update *u, unsigned i) {
	struct recording *r = &u->recording;
	struct fusion_array *a = target(u, i);

	if (!u->nextp) {
		write_one(a, u->made[i]);
		return 0;
	}
	u->nextp[i] = array_name(array_make(r->context, u->made[i], &u->made[i]->type));
	return u->nextp[i] ? 0 : -ENOMEM;
}

static int check_writable(struct update *u) {
	int failed = 0;

	for (unsigned i = 0; !failed && !u->nextp && i < targets(u); i++)
		failed = capture_writable(target(u, i), u->recording.what, &u->recording.fault);
	return failed;
}

static int hand_over_all(struct update *u) {
	unsigned i, n = targets(u);
	int failed = 0;

	for (i = 0; !failed && i < n; i++)
		failed = hand_over(u, i);
	for (unsigned k = 0; failed && u->nextp && k < i; k++) {
		if (u->nextp[k])
			array_drop((struct fusion_array *)object_at(OBJECT_ARRAY, u->nextp[k]));
		u->nextp[k] = NULL;
	}
	if (!failed)
		failed = record_settle(&u->recording, u->made[0]);
	return failed;
}

/* ---- the calls ---- */

/* What the rule made of parameter i, in the types of what it updates. */
static void keep_made(struct update *u, unsigned i, const struct one *o) {
	for (unsigned p = 0; p < u->parts; p++)
		u->made[p * u->count + i] =
			site_cast(&u->site, o->part[p], (enum dtype)target(u, p * u->count + i)->type.dtype);
}

/* An argument that may not be NULL. */
struct given {
	const char *name;
	const void *at;
};

/* NULL ends the list. */
static int check_call(const char *what, int count, const struct given *g) {
	if (count < 1)
		return error_refuse(FAULT_ARGUMENT, what, "count is %d, below 1", count);
	while (g->name && g->at)
		g++;
	return g->name ? error_refuse(FAULT_ARGUMENT, what, "%s is NULL", g->name) : 0;
}

static bool update_begin(struct update *u, const char *what, int count, const struct given *g) {
	u->recording.what = what;
	if (check_call(what, count, g))
		return false;
	u->count = (unsigned)count;
	if (!record_begin_list(&u->recording, what, u->array[PARAMETER][0], "parameter 0"))
		return false;
	u->recording.tracks = false;
	u->site.recording = &u->recording;
	u->made = calloc(targets(u), sizeof *u->made);
	if (!u->made)
		u->site.failed = -ENOMEM;
	return true;
}

static int update_end(struct update *u, int failed) {
	if (!failed)
		failed = u->site.failed;
	if (!failed)
		failed = check_writable(u);
	if (!failed)
		failed = hand_over_all(u);
	site_end(&u->site);
	free(u->made);
	return record_end_code(&u->recording, failed);
}

int fusion_sgd(int count, fusion_array *const *parameter, fusion_array *const *gradient, fusion_array *const *velocity,
	const struct fusion_sgd_options *options, fusion_array **nextp) {
	struct update u = { .gradient = gradient, .array = { parameter, velocity }, .nextp = nextp };
	bool moves = options && options->momentum != 0;
	const struct given given[] = {
		{ "parameter", parameter }, { "gradient", gradient }, { "options", options }, { moves ? "velocity" : NULL, velocity }, { 0 },
	};
	int failed = 0;

	if (options && error_reserved("sgd", options->reserved))
		return fusion_error_code();
	u.parts = moves ? 2 : 1;
	if (!update_begin(&u, "sgd", count, given))
		return fusion_error_code();
	for (unsigned i = 0; !failed && !u.site.failed && i < u.count; i++) {
		struct one o = { .s = &u.site };

		failed = take_one(&u, i, &o);
		if (failed)
			break;
		descend(&o, options);
		keep_made(&u, i, &o);
	}
	return update_end(&u, failed);
}

static int adam(const char *what, bool decoupled, int count, fusion_array *const *parameter, fusion_array *const *gradient,
	fusion_array *const *first, fusion_array *const *second, fusion_array *step, const struct fusion_adam_options *options,
	fusion_array **nextp) {
	struct update u = { .parts = PARTS, .gradient = gradient, .array = { parameter, first, second }, .counter = step, .nextp = nextp };
	const struct given given[] = {
		{ "parameter", parameter }, { "gradient", gradient }, { "first", first }, { "second", second }, { "step", step }, { "options", options }, { 0 },
	};
	struct value *counter = NULL;
	int failed;

	if (options && error_reserved(what, options->reserved))
		return fusion_error_code();
	if (!update_begin(&u, what, count, given))
		return fusion_error_code();
	failed = take(&u, "step", 0, &step, &counter);
	if (!failed && counter->type.rank)
		failed = fault_set(&u.recording.fault, FAULT_SHAPE, "%s: the number of steps is not of rank 0", what);
	if (!failed)
		counter = plus_number(&u.site, counter, 1);
	for (unsigned i = 0; !failed && !u.site.failed && i < u.count; i++) {
		struct one o = { .s = &u.site };

		failed = take_one(&u, i, &o);
		if (failed)
			break;
		adapt(&o, counter, options, decoupled);
		keep_made(&u, i, &o);
	}
	if (u.made)
		u.made[(size_t)u.parts * u.count] = counter;
	return update_end(&u, failed);
}

int fusion_adam(int count, fusion_array *const *parameter, fusion_array *const *gradient, fusion_array *const *first,
	fusion_array *const *second, fusion_array *step, const struct fusion_adam_options *options, fusion_array **nextp) {
	return adam("adam", false, count, parameter, gradient, first, second, step, options, nextp);
}

int fusion_adamw(int count, fusion_array *const *parameter, fusion_array *const *gradient, fusion_array *const *first,
	fusion_array *const *second, fusion_array *step, const struct fusion_adam_options *options, fusion_array **nextp) {
	return adam("adamw", true, count, parameter, gradient, first, second, step, options, nextp);
}

/* NOLINTEND(clang-analyzer-core.NullDereference,clang-analyzer-core.CallAndMessage) */
