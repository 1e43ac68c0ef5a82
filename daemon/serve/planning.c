/* Planning beside the engine's thread; see planning.h. */
#include "planning.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "daemon/base/loop.h"
#include "daemon/serve/flight.h"
#include "daemon/serve/server.h"

static struct planning *planning_of(struct aside_job *j) {
	return (struct planning *)(void *)((char *)j - offsetof(struct planning, job));
}

/* ---- the thread ---- */

static void work(struct aside_job *j) {
	struct planning *p = planning_of(j);
	uint64_t start = loop_now_ns();

	p->result = plan_make(p->graph, &p->options, &p->plan, &p->fault);
	if (!p->result && p->stand_in)
		exec_stand_in(p->server->exec, &p->traits, p->plan);
	p->took_ns = loop_now_ns() - start;
}

/* ---- the engine ---- */

/* The batches that it is of are noted, and that this is done beside whatever the device does: either may end the engine. */
static void begin(struct aside_job *j) {
	struct planning *p = planning_of(j);

	if (!p->session)
		return;
	session_planning(p->session, p->session->first, p->session->last);
	flight_planning(p->session, p->note);
}

static void done(struct aside_job *j) {
	struct planning *p = planning_of(j);

	if (p->then)
		p->then(p);
	planning_free(p);
}

struct planning *planning_new(struct server *v, uid_t uid, const struct graph *g, const struct plan_options *o) {
	struct planning *p = calloc(1, sizeof *p);

	if (!p)
		return NULL;
	*p = (struct planning){ .job = { .uid = uid, .begin = begin, .work = work, .done = done }, .server = v, .graph = g, .options = *o, .traits = *v->traits,
		.result = -ECANCELED };
	book_ref(p->options.book);
	p->options.traits = &p->traits;
	p->options.tuned_later = o->tuning != NULL;
	p->options.tuning = NULL;
	return p;
}

void planning_ask(struct planning *p, void (*then)(struct planning *p)) {
	p->then = then;
	aside_ask(p->server->aside, &p->job);
}

struct planning *planning_free(struct planning *p) {
	if (!p)
		return NULL;
	plan_unref(p->plan);
	plan_unref(p->of);
	book_unref(p->options.book);
	graph_free(p->own);
	free(p);
	return NULL;
}

/* Those that its plan is kept under. */
static struct plan_options options_of(const struct planning *p) {
	struct plan_options options = p->options;

	options.traits = p->server->traits;
	options.tuning = p->options.tuned_later ? tracker_tuning(p->server->tracker) : NULL;
	options.tuned_later = false;
	return options;
}

/* What tuning has learned meanwhile is looked up first. */
int planning_put(struct planning *p) {
	struct plan_options options = options_of(p);
	int r = plan_tune(p->plan, &options);

	return r ? r : plan_cache_put(p->server->plans, p->graph, &options, p->plan);
}

void planning_forsake(struct planning *p, struct graph *own) {
	p->own = own;
	p->session = NULL;
	p->then = NULL;
	if (aside_withdraw(p->server->aside, &p->job))
		planning_free(p);
}

/* ---- what fusion gains ---- */

static void compared(struct planning *p) {
	/* Where memory is short the gain stays unknown. */
	if (!p->result && plan_compare(p->of, p->plan))
		log_debug("a plan's gain is not known: out of memory");
}

void planning_compare(struct session *s, struct graph *g, struct plan *plan, const struct plan_options *o) {
	struct plan_options options = *o;
	struct planning *p;

	options.fuse = options.notes = false;
	p = planning_new(s->server, s->uid, g, &options);
	if (!p) {
		graph_free(g);
		return;
	}
	p->own = g;
	p->of = plan_ref(plan);
	planning_ask(p, compared);
}

/* ---- other plans of graphs that run ---- */

static struct graph *copy_of(const struct graph *g) {
	struct graph *copy = graph_keep(g);
	int r = 0;

	for (uint32_t i = 0; copy && !r && i < graph_outputs(g); i++)
		r = graph_output(copy, graph_output_at(g, i)->node, graph_output_at(g, i)->tag);
	return r ? graph_free(copy) : copy;
}

static void replace(struct planning *p) {
	struct server *v = p->server;
	struct plan_options options = options_of(p);

	if (!plan_tune(p->plan, &options) && !exec_ready(v->exec, p->plan, false))
		plan_cache_replace(v->plans, p->of, p->plan);
}

/* Where memory is short, it is asked for again. */
static void keep(struct planning *p) {
	if (p->improves)
		p->improves->improving = NULL;
	if (!p->result && p->of)
		replace(p);
	else if (!p->result)
		p->result = planning_put(p);
}

void planning_keep(struct session *s, const struct graph *g, struct plan *old, const struct plan_options *o) {
	struct graph *copy = s->improving ? NULL : copy_of(g);
	struct planning *p = copy ? planning_new(s->server, s->uid, copy, o) : NULL;

	if (!p) {
		graph_free(copy);
		return;
	}
	p->own = copy;
	p->of = old ? plan_ref(old) : NULL;
	s->improving = p;
	p->improves = s;
	planning_ask(p, keep);
}
