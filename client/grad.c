/*
 * Reverse-mode differentiation: from the cotangents of outputs to those of inputs.
 *
 * The values between are listed with operands before what is made of them, then walked from the end: at each the
 * rule of its operation says what goes to its operands, and what several send to one value is added up. All of it is
 * recorded as ordinary operations. Contents that were not kept are recorded again first; the daemon shares what is
 * still there.
 *
 * What is listed and not needed any more lets go of what it kept at once, unless the record stays. Between two values
 * recorded operations may be sent, so everything that is needed later is held.
 */
#include <errno.h>
#include <stdlib.h>

#include "capture.h"
#include "context.h"
#include "define.h"
#include "flush.h"
#include "rule.h"
#include "tape.h"

/* ---- a map from values to numbers ---- */

#define MAP_NONE UINT32_MAX

enum {
	MAP_LEAST = 64,
};

struct map_entry {
	const struct value *key;
	uint32_t number;
};

/* Open addressing; at most half full. */
struct map {
	struct map_entry *entry;
	uint32_t size, count;
};

static struct map_entry *map_place(const struct map *m, const struct value *key) {
	uint64_t hash = (uint64_t)(uintptr_t)key * UINT64_C(0x9e3779b97f4a7c15);
	uint32_t i = (uint32_t)(hash >> 32) & (m->size - 1);

	while (m->entry[i].key && m->entry[i].key != key)
		i = (i + 1) & (m->size - 1);
	return &m->entry[i];
}

static uint32_t map_find(const struct map *m, const struct value *key) {
	struct map_entry *e = m->size ? map_place(m, key) : NULL;

	return e && e->key ? e->number : MAP_NONE;
}

static int map_grow(struct map *m) {
	struct map grown = { .size = m->size ? 2 * m->size : MAP_LEAST, .count = m->count };

	grown.entry = calloc(grown.size, sizeof *grown.entry);
	if (!grown.entry)
		return -ENOMEM;
	for (uint32_t i = 0; i < m->size; i++)
		if (m->entry[i].key)
			*map_place(&grown, m->entry[i].key) = m->entry[i];
	free(m->entry);
	*m = grown;
	return 0;
}

static int map_put(struct map *m, const struct value *key, uint32_t number) {
	struct map_entry *e;
	int r = 2 * (m->count + 1) > m->size ? map_grow(m) : 0;

	if (r)
		return r;
	e = map_place(m, key);
	m->count += !e->key;
	*e = (struct map_entry){ key, number };
	return 0;
}

/* ---- one walk ---- */

struct step {
	struct value *value;         /* referenced */
	struct value *cotangent;     /* held, or NULL so far */
	struct value *again;         /* its contents made again, held, or NULL */
	bool input, wanted;
};

struct walk {
	struct recording *recording;
	struct fusion_context *context;
	bool keep;                   /* tapes stay */
	bool stop;                   /* nothing behind an input counts */
	struct step *step;
	uint32_t count, capacity;
	struct map map;
	struct walk *outer;          /* the walk whose composite is taken apart */
};

static void walk_end(struct walk *w) {
	for (uint32_t i = 0; i < w->count; i++) {
		struct step *s = &w->step[i];

		if (s->cotangent)
			value_unhold(w->context, s->cotangent);
		if (s->again)
			value_unhold(w->context, s->again);
		value_drop(w->context, s->value);
	}
	free(w->step);
	free(w->map.entry);
}

static int step_add(struct walk *w, struct value *v, uint32_t *numberp) {
	uint32_t capacity = w->capacity ? 2 * w->capacity : MAP_LEAST;
	struct step *grown;
	int r;

	if (w->count == w->capacity) {
		grown = realloc(w->step, capacity * sizeof *grown);
		if (!grown)
			return -ENOMEM;
		w->step = grown;
		w->capacity = capacity;
	}
	r = map_put(&w->map, v, w->count);
	if (r)
		return r;
	value_ref(v);
	*numberp = w->count;
	w->step[w->count++] = (struct step){ .value = v };
	return 0;
}

static struct step *step_of(const struct walk *w, const struct value *v) {
	uint32_t number = map_find(&w->map, v);

	return number == MAP_NONE ? NULL : &w->step[number];
}

static int hold(struct value **placep, struct value *v) {
	if (!v)
		return -ENOMEM;
	value_hold(v);
	*placep = v;
	return 0;
}

/* ---- listing ---- */

/* A value on the way down, and which operand is next. */
struct visit {
	struct value *value;
	unsigned next;
};

struct visits {
	struct visit *visit;
	uint32_t count, capacity;
};

static int push(struct visits *s, struct value *v) {
	if (s->count == s->capacity) {
		uint32_t capacity = s->capacity ? 2 * s->capacity : MAP_LEAST;
		struct visit *grown = realloc(s->visit, capacity * sizeof *grown);

		if (!grown)
			return -ENOMEM;
		s->visit = grown;
		s->capacity = capacity;
	}
	s->visit[s->count++] = (struct visit){ v, 0 };
	return 0;
}

/* Operands that gradients go to from here; none behind an input, where that is so. */
static unsigned operands_of(const struct walk *w, const struct value *v) {
	const struct step *s = w->stop ? step_of(w, v) : NULL;

	return v->tape && v->tape->tracked && !(s && s->input) ? v->tape->arity : 0;
}

/* Lists what leads to a value behind what is listed, its operands first. */
static int list(struct walk *w, struct value *from) {
	struct visits s = { 0 };
	uint32_t number;
	int r = tape_tracks(from) && !step_of(w, from) ? push(&s, from) : 0;

	while (!r && s.count) {
		struct visit *top = &s.visit[s.count - 1];
		struct value *in;

		if (top->next == operands_of(w, top->value)) {
			if (!step_of(w, top->value))
				r = step_add(w, top->value, &number);
			s.count--;
			continue;
		}
		in = top->value->tape->in[top->next++];
		if (tape_tracks(in) && !step_of(w, in))
			r = push(&s, in);
	}
	free(s.visit);
	return r;
}

static unsigned wanted_operands(const struct walk *w, const struct value *v) {
	unsigned set = 0;

	for (unsigned i = 0; i < operands_of(w, v); i++) {
		const struct step *s = step_of(w, v->tape->in[i]);

		if (s && s->wanted)
			set |= 1U << i;
	}
	return set;
}

/* What was behind it is not known any more: a cotangent that comes here is refused. */
static bool used_up(const struct step *s) {
	return !s->input && s->value->tape && s->value->tape->spent && s->value->tape->tracked;
}

static void mark_wanted(struct walk *w) {
	for (uint32_t i = 0; i < w->count; i++) {
		struct step *s = &w->step[i];

		s->wanted = s->input || used_up(s) || wanted_operands(w, s->value);
	}
}

/* ---- contents ---- */

static struct step *again_step(const struct walk *w, const struct value *v) {
	for (; w; w = w->outer) {
		struct step *s = step_of(w, v);

		if (s && s->again)
			return s;
	}
	return NULL;
}

/* The contents of a value, if they are there. */
static struct value *contents_of(const struct walk *w, struct value *v) {
	const struct step *s = tape_available(w->context, v) ? NULL : again_step(w, v);

	if (s)
		return s->again;
	return tape_available(w->context, v) ? v : NULL;
}

/* Records one operation again, whose operands are there. */
static int make_again(struct walk *w, struct value *v, struct value **vp) {
	struct value *in[LIMIT_OPERANDS];
	const struct tape *t = v->tape;
	unsigned arity = t ? t->arity : 0;

	for (unsigned i = 0; i < arity; i++)
		in[i] = contents_of(w, t->in[i]);
	if (t && t->definition)
		return defined_again(t->definition, w->recording, arity, in, t->attr, vp);
	return record_value(w->recording, v->op, arity, in, v->attr, vp);
}

static int keep_again(struct walk *w, struct value *v) {
	struct value *made = NULL;
	struct step *s = step_of(w, v);
	uint32_t number;
	int r = make_again(w, v, &made);

	if (!r && !s) {
		r = step_add(w, v, &number);
		s = r ? NULL : &w->step[number];
	}
	if (!r) {
		/* Where this is differentiated apart from the rest, it stands for the value. */
		made->leaf = !w->keep && tape_tracks(v);
		r = hold(&s->again, made);
	}
	if (made)
		value_drop(w->context, made);
	return r;
}

static bool can_make(const struct value *v) {
	return v->op == OP_fill || v->op == OP_arange || (v->tape && !v->tape->spent);
}

static int refuse_lost(struct walk *w, const struct value *v) {
	if (v->state == VALUE_FAILED) {
		w->recording->fault = v->failure->fault;
		return w->recording->fault.code;
	}
	return fault_set(&w->recording->fault, FAULT_STATE,
		"%s: the record of %s was used up by an earlier call; keep it with FUSION_GRAD_KEEP", w->recording->what,
		v->op < OP_COUNT || op_is_own(v->op) ? op_info(v->op)->name : "an input");
}

/* Makes sure that the contents of a value are there: what it is made of first. */
static int need(struct walk *w, struct value *v) {
	struct visits s = { 0 };
	int r = contents_of(w, v) ? 0 : push(&s, v);

	while (!r && s.count) {
		struct visit *top = &s.visit[s.count - 1];
		/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): values on the stack are there */
		const struct tape *t = top->value->tape;

		if (!can_make(top->value)) {
			r = refuse_lost(w, top->value);
		} else if (t && top->next < t->arity) {
			struct value *in = t->in[top->next++];

			r = contents_of(w, in) ? 0 : push(&s, in);
		} else {
			r = contents_of(w, top->value) ? 0 : keep_again(w, top->value);
			s.count--;
		}
	}
	free(s.visit);
	return r;
}

/* Contents that a rule reads; of what it does not read something of the same type. */
static int prepare(struct walk *w, struct site *site, struct value *v, bool read, struct value **vp) {
	int r = read ? need(w, v) : 0;

	if (!r)
		*vp = contents_of(w, v);
	if (!r && !*vp) {
		*vp = site_full(site, &v->type, 0);
		r = site->failed;
	}
	return r;
}

/* ---- one value ---- */

/* Adds to what has come to a value so far. */
static int give(struct walk *w, struct site *site, struct value *to, struct value *g) {
	struct step *s = step_of(w, to);
	struct value *sum, *old;

	g = site_unbroadcast(site, g, &to->type);
	old = s->cotangent;
	sum = old ? site_binary(site, OP_add, old, g) : g;
	if (site->failed)
		return site->failed;
	if (hold(&s->cotangent, sum))
		return -ENOMEM;
	if (old)
		value_unhold(w->context, old);
	return 0;
}

static int walk_back(struct walk *w);

/* From what was recorded of the operands, whose cotangent is g, down to them, by a walk of its own. */
static int through(const struct rule_call *c, struct value *made, struct value *g, struct value **gradp) {
	struct walk *w = c->walk, inside = { w->recording, w->context, w->keep, true, NULL, 0, 0, { 0 }, w };
	struct step *s;
	uint32_t number;
	int failed = 0;

	for (unsigned i = 0; !failed && i < c->arity; i++) {
		if (!(c->tracked >> i & 1) || step_of(&inside, c->in[i]))
			continue;
		failed = step_add(&inside, c->in[i], &number);
		if (!failed)
			inside.step[number].input = true;
	}
	if (!failed)
		failed = list(&inside, made);
	s = failed ? NULL : step_of(&inside, made);
	if (s)
		failed = hold(&s->cotangent, g);
	if (!failed)
		failed = walk_back(&inside);
	for (unsigned i = 0; !failed && i < c->arity; i++) {
		s = c->tracked >> i & 1 ? step_of(&inside, c->in[i]) : NULL;
		if (!s || !s->cotangent)
			continue;
		gradp[i] = s->cotangent;
		value_ref(s->cotangent);
		failed = site_keep(c->site, s->cotangent, &number);
		value_unhold(w->context, s->cotangent);
		s->cotangent = NULL;    /* an operand that stands twice gets it once */
	}
	walk_end(&inside);
	return failed;
}

/* A composite without a rule: its text is recorded, and gone back through. */
static int take_apart(const struct rule *rule, const struct rule_call *c, struct value **gradp) {
	struct recording *r = c->site->recording;
	bool tracks = r->tracks;
	struct value *made = NULL;
	int failed;

	r->tracks = true;
	failed = site_expand(c->site, op_info(c->op)->name, rule->parts, c->arity, c->in, c->attr, &c->y->type, &made);
	r->tracks = tracks;
	return failed ? failed : through(c, made, c->g, gradp);
}

static int apply(const struct rule *rule, const struct rule_call *c, struct value **gradp) {
	int r = rule->kind == RULE_PARTS ? RULE_APART : rule_apply(rule, c, gradp);

	return r == RULE_APART ? take_apart(rule, c, gradp) : r;
}

static int back_through(struct walk *w, struct site *site, struct value *v, unsigned tracked) {
	struct value *in[LIMIT_OPERANDS] = { NULL }, *grad[LIMIT_OPERANDS] = { NULL };
	const struct tape *t = v->tape;
	struct rule_call c = { site, w, through, t->op, t->arity, tracked, NULL, NULL, in, tape_attr(v) };
	const struct rule *rule;
	uint16_t needs;
	int r = rule_of(w->context, t->op, t->definition, &rule, &w->recording->fault);

	if (r)
		return r;
	needs = rule_needs(rule, tracked);
	for (unsigned i = 0; !r && i < t->arity; i++)
		r = prepare(w, site, t->in[i], needs >> (RULE_OPERANDS + i) & 1, &in[i]);
	if (!r)
		r = prepare(w, site, v, needs & RULE_RESULT, &c.y);
	if (r)
		return r;
	c.g = step_of(w, v)->cotangent;
	r = apply(rule, &c, grad);
	for (unsigned i = 0; !r && i < t->arity; i++)
		if (tracked >> i & 1 && grad[i])
			r = give(w, site, t->in[i], grad[i]);
	return r;
}

/* What goes back from here is done; nobody asks for this value's contents again. */
static void leave(struct walk *w, uint32_t number) {
	struct step *s = &w->step[number];

	if (s->cotangent && !s->input) {
		value_unhold(w->context, s->cotangent);
		s->cotangent = NULL;
	}
	if (s->again) {
		value_unhold(w->context, s->again);
		s->again = NULL;
	}
	if (!w->keep && !(w->stop && s->input))
		tape_spend(w->context, s->value);
}

static int walk_step(struct walk *w, uint32_t number) {
	struct value *v = w->step[number].value;
	unsigned tracked = w->step[number].cotangent ? wanted_operands(w, v) : 0;
	struct site site = { .recording = w->recording };
	int r = 0;

	if (w->step[number].cotangent && used_up(&w->step[number]))
		return refuse_lost(w, v);
	if (tracked)
		r = back_through(w, &site, v, tracked);
	site_end(&site);
	if (r)
		return r;
	leave(w, number);
	return w->outer ? 0 : flush_if_full(w->context, &w->recording->fault);
}

/* Requires the list and the cotangents of its outputs; leaves those of its inputs. */
static int walk_back(struct walk *w) {
	uint32_t listed = w->count;
	int r = 0;

	mark_wanted(w);
	for (uint32_t i = listed; !r && i-- > 0;)
		r = walk_step(w, i);
	return r;
}

/* ---- the call ---- */

struct gradients {
	unsigned outputs, inputs;
	fusion_array *const *y, *const *seed, *const *input;
	struct walk walk;
	struct value **in;           /* what the inputs stand for; referenced */
	bool found;                  /* an output that depends on watched arrays */
};

static int refuse_array(struct recording *r, const char *what, unsigned i, const char *why) {
	return fault_set(&r->fault, FAULT_ARGUMENT, "%s: %s %u is %s", r->what, what, i, why);
}

/* An array's value, referenced. */
static int take_value(struct recording *r, const char *what, unsigned i, fusion_array *const *list, struct value **vp) {
	struct fusion_array *a;
	int failed = array_find_in(r->context, list, i, r->what, what, &a, &r->fault);

	if (!failed)
		failed = array_usable(a, r->what, &r->fault);
	if (!failed)
		failed = capture_operand(r->context, a, r->what, vp, &r->fault);
	if (!failed)
		value_ref(*vp);
	return failed;
}

static int check_tracked(struct recording *r, const char *what, unsigned i, const struct value *v) {
	if (tape_tracks(v))
		return 0;
	if (v->lost)
		return fault_set(&r->fault, FAULT_OPERATION,
			"%s: what leads to %s %u goes through %s, which has no derivative", r->what, what, i, op_info(v->lost)->name);
	if (dtype_info(v->type.dtype)->kind != DTYPE_KIND_REAL)
		return fault_set(&r->fault, FAULT_DTYPE, "%s: %s %u is of %s; only floating-point arrays have gradients", r->what,
			what, i, dtype_info(v->type.dtype)->name);
	return fault_set(&r->fault, FAULT_ARGUMENT,
		"%s: %s %u depends on no watched array; fusion_watch() comes before the array is used", r->what, what, i);
}

static int add_input(struct gradients *g, unsigned i) {
	struct recording *r = g->walk.recording;
	struct step *s;
	uint32_t number;
	int failed = take_value(r, "input", i, g->input, &g->in[i]);

	if (!failed)
		failed = check_tracked(r, "input", i, g->in[i]);
	if (failed)
		return failed;
	failed = list(&g->walk, g->in[i]);
	s = step_of(&g->walk, g->in[i]);
	if (!failed && !s) {
		failed = step_add(&g->walk, g->in[i], &number);
		s = failed ? NULL : &g->walk.step[number];
	}
	if (!failed)
		s->input = true;
	return failed;
}

/* The cotangent of an output: given, or ones. */
static int take_seed(struct gradients *g, struct site *site, unsigned i, const struct value *y, struct value **vp) {
	struct recording *r = g->walk.recording;
	struct value *given;
	uint32_t number;
	int failed;

	if (!g->seed || !g->seed[i]) {
		*vp = site_full(site, &y->type, 1);
		return site->failed;
	}
	failed = take_value(r, "seed", i, g->seed, &given);
	if (failed)
		return failed;
	failed = site_keep(site, given, &number);
	if (failed) {
		value_drop(r->context, given);
		return failed;
	}
	if (given->type.dtype != y->type.dtype || !shape_equal(&given->type, &y->type))
		return refuse_array(r, "seed", i, "not of the type and shape of its output");
	*vp = given;
	return 0;
}

static int add_output(struct gradients *g, struct site *site, unsigned i) {
	struct recording *r = g->walk.recording;
	struct value *y = NULL, *seed = NULL;
	uint32_t number;
	int failed = take_value(r, "output", i, g->y, &y);

	if (failed)
		return failed;
	failed = site_keep(site, y, &number);
	if (failed) {
		value_drop(r->context, y);
		return failed;
	}
	/* Of several some may be constants. */
	if (g->outputs > 1 && !tape_tracks(y) && !y->lost)
		return 0;
	failed = check_tracked(r, "output", i, y);
	g->found = true;
	if (!failed)
		failed = list(&g->walk, y);
	if (!failed)
		failed = take_seed(g, site, i, y, &seed);
	return failed ? failed : give(&g->walk, site, y, seed);
}

static int add_all(struct gradients *g) {
	struct site site = { .recording = g->walk.recording };
	int failed = 0;

	for (unsigned i = 0; !failed && i < g->inputs; i++)
		failed = add_input(g, i);
	for (unsigned i = 0; !failed && i < g->outputs; i++)
		failed = add_output(g, &site, i);
	if (!failed && !g->found)
		failed = fault_set(&g->walk.recording->fault, FAULT_ARGUMENT, "%s: no output depends on a watched array",
			g->walk.recording->what);
	site_end(&site);
	return failed;
}

/* Arrays of what came to the inputs; zeros where nothing did. */
static int take_gradient(struct gradients *g, struct site *site, unsigned i, struct fusion_array **gradp) {
	struct value *v = step_of(&g->walk, g->in[i])->cotangent;

	if (!v)
		v = site_full(site, &g->in[i]->type, 0);
	if (v)
		*gradp = array_make(g->walk.context, v, &v->type);
	if (!v || !*gradp)
		return site->failed ? site->failed : -ENOMEM;
	return record_settle(g->walk.recording, (*gradp)->value);
}

static int take_gradients(struct gradients *g, fusion_array **gradp) {
	struct site site = { .recording = g->walk.recording };
	struct fusion_array **array = calloc(g->inputs, sizeof *array);
	unsigned made = 0;
	int failed = array ? 0 : -ENOMEM;

	for (; !failed && made < g->inputs; made++)
		failed = take_gradient(g, &site, made, &array[made]);
	for (unsigned i = 0; i < made; i++) {
		if (!failed)
			gradp[i] = array_name(array[i]);
		else if (array[i])
			array_drop(array[i]);
	}
	free(array);
	site_end(&site);
	return failed;
}

static int differentiate(struct gradients *g, fusion_array **gradp) {
	int failed;

	g->in = calloc(g->inputs + 1, sizeof *g->in);
	failed = g->in ? add_all(g) : -ENOMEM;
	if (!failed)
		failed = walk_back(&g->walk);
	if (!failed)
		failed = take_gradients(g, gradp);
	for (unsigned i = 0; g->in && i < g->inputs; i++)
		if (g->in[i])
			value_drop(g->walk.context, g->in[i]);
	walk_end(&g->walk);
	free(g->in);
	return failed;
}

static int gradients(const char *what, unsigned outputs, fusion_array *const *y, fusion_array *const *seed, unsigned inputs,
	fusion_array *const *input, fusion_array **gradp, unsigned flags) {
	struct gradients g = { .outputs = outputs, .inputs = inputs, .y = y, .seed = seed, .input = input };
	struct recording r;

	for (unsigned i = 0; i < inputs; i++)
		gradp[i] = NULL;
	if (!record_begin_list(&r, what, y[0], "output 0"))
		return fusion_error_code();
	r.tracks = flags & FUSION_GRAD_WATCH && r.tracks;
	g.walk.recording = &r;
	g.walk.context = r.context;
	g.walk.keep = flags & (FUSION_GRAD_KEEP | FUSION_GRAD_WATCH);
	return record_end_code(&r, differentiate(&g, gradp));
}

int fusion_grad(fusion_array *y, fusion_array *seed, fusion_array *const *input, int count, fusion_array **gradp) {
	if (count < 1 || !input || !gradp)
		return error_refuse(FAULT_ARGUMENT, "grad", count < 1 ? "count is below 1" : input ? "gradp is NULL" : "input is NULL");
	return gradients("grad", 1, &y, &seed, (unsigned)count, input, gradp, 0);
}

int fusion_vjp(int outputs, fusion_array *const *y, fusion_array *const *seed, int inputs, fusion_array *const *input,
	fusion_array **gradp, unsigned flags) {
	if (outputs < 1 || !y)
		return error_refuse(FAULT_ARGUMENT, "vjp", outputs < 1 ? "outputs is below 1" : "y is NULL");
	if (inputs < 1 || !input || !gradp)
		return error_refuse(FAULT_ARGUMENT, "vjp", inputs < 1 ? "inputs is below 1" : input ? "gradp is NULL" : "input is NULL");
	if (flags & ~(unsigned)(FUSION_GRAD_KEEP | FUSION_GRAD_WATCH))
		return error_refuse(FAULT_ARGUMENT, "vjp", "flags has one that is unknown");
	return gradients("vjp", (unsigned)outputs, y, seed, (unsigned)inputs, input, gradp, flags);
}
