/*
 * From a session's graph to a run: plan (found or made), bind, hand to exec, and give the arrays
 * the buffers that will hold their values.
 *
 * Nothing waits here. A graph that cannot be planned or handed over poisons the arrays it would
 * have computed; WAIT tells of it.
 */
#include "server.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "daemon/base/loop.h"
#include "daemon/base/trace.h"
#include "daemon/serve/account.h"
#include "daemon/serve/capture.h"
#include "daemon/serve/flight.h"
#include "daemon/serve/patterns.h"
#include "daemon/serve/planning.h"
#include "daemon/serve/recurring.h"
#include "daemon/serve/share.h"
#include "daemon/serve/vector.h"

/* Memory to bind leaves and outputs, kept between runs. */
struct flush_scratch {
	struct buffer **leaf;
	uint64_t *offset;
	struct buffer **output;
	uint32_t leaves, outputs;    /* room */
};

void flush_scratch_free(struct flush_scratch *x) {
	if (!x)
		return;
	free(x->leaf);
	free(x->offset);
	free(x->output);
	free(x);
}

/* A graph to run and the arrays that its outputs become, by their tags. */
struct flush {
	struct session *session;
	struct graph *graph;
	struct space *space;         /* of the outputs; NULL: the session's */
	struct array **array;
	uint64_t first, last;        /* numbers of the batches */
	bool copies;                 /* as struct run */
	uint64_t operations;
	struct plan *plan;
	uint64_t tracked;            /* tracked_id(); 0: not tracked */
	enum track_form form;
	uint32_t variant;            /* tracked_variant() */
	bool tuned;                  /* it won the comparison of all forms */
	bool timed;
	uint32_t note;               /* flight.h */
	bool alone;
	uint64_t aside_ns;           /* what planning took beside this thread; 0: it is to be planned here */
};

/* ---- binding ---- */

static int reserve(void **itemsp, uint32_t count, size_t size) {
	void *items = realloc(*itemsp, count * size);

	if (!items)
		return -ENOMEM;
	*itemsp = items;
	return 0;
}

static int scratch_fit(struct server *v, uint32_t leaves, uint32_t outputs) {
	struct flush_scratch *x = v->flush ? v->flush : calloc(1, sizeof *x);
	int r = x ? 0 : -ENOMEM;

	v->flush = x;
	if (!r && leaves > x->leaves) {
		r = reserve((void **)&x->leaf, leaves, sizeof(struct buffer *));
		if (!r)
			r = reserve((void **)&x->offset, leaves, sizeof *x->offset);
		x->leaves = r ? 0 : leaves;
	}
	if (!r && outputs > x->outputs) {
		r = reserve((void **)&x->output, outputs, sizeof(struct buffer *));
		x->outputs = r ? 0 : outputs;
	}
	return r;
}

static void bind_leaves(const struct graph *g, struct flush_scratch *x, uint32_t leaves) {
	for (uint32_t i = 0; i < leaves; i++) {
		const struct graph_leaf *leaf = graph_leaf_at(g, i);

		x->leaf[i] = leaf->buffer;
		x->offset[i] = (uint64_t)leaf->view.offset;
	}
}

/* An output that is a view of a leaf counts its offset from the leaf's own. */
static void take_output(const struct flush *f, const struct plan_output *o, struct buffer *b) {
	const struct graph_output *wanted = graph_output_at(f->graph, (uint32_t)o->tag);
	struct array *a = f->array[wanted->tag];

	if (a->buffer)
		buffer_unref(a->buffer);
	a->buffer = b;
	a->view = o->view;
	if (o->slot < f->plan->leaves)
		a->view.offset += graph_leaf_at(f->graph, o->slot)->view.offset;
	a->pending = false;
	array_noted(a);
}

/* ---- running ---- */

void run_free(struct run *run) {
	flight_ended(run);
	array_unref(run->copied);
	plan_unref(run->plan);
	free(run);
}

static void count_queued(const struct run *run, bool more) {
	struct session *s = run->session;
	uint64_t operations = more ? run->operations : -run->operations;

	s->queued += operations;
	s->account->queued += operations;
	s->queued_bytes += more ? run->bytes : -run->bytes;
}

static void trace_run(const struct run *run, const struct fault *f) {
	const struct trace_source who = { run->session->id, run->session->uid };
	struct trace_event *e = trace_add(TRACE_RUN, &who, run->submitted_ns, loop_now_ns());

	e->number[0] = run->operations;
	e->number[1] = run->plan->steps;
	trace_word(e, f ? fault_name(f->code) : "done");
}

/* A client may cause others at will, with numbers that fit no memory and the like. */
static void log_failed_run(const struct run *run, const struct fault *f) {
	const struct session *s = run->session;
	const struct log_subject about = { .session = s->id, .uid = s->uid, .pid = s->pid, .graph = run->tracked };
	bool ours = f->code == FAULT_DEVICE || f->code == FAULT_BUILD || f->code == FAULT_INTERNAL;

	log_about(ours ? LOG_LEVEL_WARNING : LOG_LEVEL_DEBUG, &about, "a graph of session %" PRIu64 " failed: %s", s->id, f->text);
}

/* Called by exec. A run that failed is told for each of its batches, for any of their arrays may be lost. */
static void on_done(void *user, const struct fault *f) {
	struct run *run = user;
	struct session *s = run->session;

	if (trace_on)
		trace_run(run, f);
	histogram_add(&s->server->took, loop_now_ns() - run->submitted_ns);
	slow_end(run);
	count_queued(run, false);
	s->server->progress = true;
	if (f) {
		session_count(s, runs_failed, 1);
		log_failed_run(run, f);
		for (uint64_t seq = run->first; seq <= run->last; seq++)
			session_failed(s, seq, -1, f);
	} else {
		flight_passed(run);
		session_count_plan(s, run->plan);
		session_count(s, kernels_tuned, run->tuned ? run->plan->steps : 0);
	}
	if (run->copied)
		array_copied(run->copied);
	DL_DELETE2(s->runs, run, previous, next);
	run_free(run);
	session_noted(s);
}

/* Called by exec, before on_done. */
static void on_timed(void *user, double ns) {
	const struct run *run = user;

	tracker_sample(run->session->server->tracker, run->tracked, run->form, run->variant, ns);
}

static struct run *run_new(const struct flush *f) {
	struct session *s = f->session;
	struct run *run = malloc(sizeof *run);

	if (!run)
		return NULL;
	*run = (struct run){ .session = s, .first = f->first, .last = f->last, .copies = f->copies, .operations = f->operations,
		.plan = plan_ref(f->plan), .note = f->note, .alone = f->alone, .key = graph_hash(f->graph), .tracked = f->tracked, .form = f->form,
		.variant = f->variant, .tuned = f->tuned };
	run->bytes = f->plan->peak_bytes;
	run->copied = f->copies && f->array[0]->before ? array_ref(f->array[0]) : NULL;
	run->submitted_ns = loop_now_ns();
	slow_begin(run);
	DL_APPEND2(s->runs, run, previous, next);
	count_queued(run, true);
	return run;
}

static void run_undo(struct run *run) {
	count_queued(run, false);
	DL_DELETE2(run->session->runs, run, previous, next);
	run_free(run);
}

static int submit(const struct flush *f) {
	struct session *s = f->session;
	struct server *v = s->server;
	struct exec_request q = { .plan = f->plan, .space = f->space ? f->space : s->space, .done = on_done,
		.source = { s->id, s->uid }, .together = s->settings.together, .timeout_us = s->settings.timeout_us,
		.timed = f->timed && !f->alone ? on_timed : NULL, .note = f->note, .alone = f->alone,
		.progress = f->copies ? 0 : s->entry + 1, .last = f->last };
	uint32_t leaves = graph_leaves(f->graph), outputs = f->plan->outputs;
	struct run *run;
	int r = scratch_fit(v, leaves, outputs);

	if (r)
		return r;
	run = run_new(f);
	if (!run)
		return -ENOMEM;
	bind_leaves(f->graph, v->flush, leaves);
	q.leaf = v->flush->leaf;
	q.leaf_offset = v->flush->offset;
	q.scalar = graph_scalar_values(f->graph);
	q.user = run;
	device_builds_for(v->device, account_builds_for(s->account, account_config(s->account, &v->config)));
	r = exec_submit(v->exec, s->lane, &q, v->flush->output);
	device_builds_for(v->device, NULL);
	if (r) {
		run->note = 0;
		run_undo(run);
		return r;
	}
	for (uint32_t i = 0; i < outputs; i++)
		take_output(f, &f->plan->output[i], v->flush->output[i]);
	return 0;
}

/* ---- planning ---- */

static int plan_form(struct flush *f, const struct tracked *e, enum track_form form, bool *hitp,
	struct fault *fault) {
	struct plan_options options = tracked_options(e, form, session_plan_options(f->session));

	f->form = form;
	return plan_cache_get(f->session->server->plans, f->graph, &options, &f->plan, hitp, fault);
}

/* Once two forms have been timed: which patterns lose here. Where a plan is gone, it is tried again later. */
static void judge(struct flush *f, struct tracked *e) {
	struct server *v = f->session->server;
	struct plan_options options = session_plan_options(f->session), single = tracked_options(e, TRACK_SINGLE, options);
	struct plan *a, *b;

	options = tracked_options(e, TRACK_FUSED, options);
	if (!tracked_wants_judgement(e))
		return;
	a = plan_cache_find(v->plans, f->graph, &options);
	b = plan_cache_find(v->plans, f->graph, &single);
	if (a && b && !plan_compare(a, b))
		tracker_judge(v->tracker, e, a);
	plan_unref(a);
	plan_unref(b);
}

enum {
	/* A form that is only tried may take so much memory more than the chosen one. */
	FORM_EXTRA_BYTES = 64 << 20,
	/* Of fusion.tracker_share. */
	ALL_OF_THE_TIME = 100,
};

/* Who has all of the time spent on trials has come to learn, and waits for what is to be tried. */
static bool is_learning(const struct flush *f) {
	return f->session->settings.tracker_share == ALL_OF_THE_TIME;
}

static bool is_planned(const struct flush *f, const struct plan_options *o) {
	struct plan *p = plan_cache_find(f->session->server->plans, f->graph, o);

	plan_unref(p);
	return p;
}

/* 0, -EAGAIN, or a positive number: never. */
static int may_try(struct flush *f, const struct tracked *e, enum track_form form, const struct plan *chosen) {
	struct fault fault;
	struct plan_options options = tracked_options(e, form, session_plan_options(f->session));
	bool hit;

	if (planning_is_long(f->graph) && !is_planned(f, &options)) {
		planning_keep(f->session, f->graph, NULL, &options);
		return -EAGAIN;
	}
	if (plan_form(f, e, form, &hit, &fault))
		return -EAGAIN;
	if (f->plan->peak_bytes > chosen->peak_bytes + FORM_EXTRA_BYTES)
		return FAULT_MEMORY;
	return exec_ready(f->session->server->exec, f->plan, is_learning(f));
}

/* Takes the form to be tried in the place of the chosen one, if nobody has to wait for it or make room. As may_try(). */
static int take_trial(struct flush *f, struct tracked *e, enum track_form form) {
	struct plan *chosen = f->plan;
	int r;

	f->plan = NULL;
	r = may_try(f, e, form, chosen);
	if (!r) {
		plan_unref(chosen);
		return 0;
	}
	plan_unref(f->plan);
	f->plan = chosen;
	f->form = tracked_chosen(e);
	f->timed = false;
	return r;
}

enum {
	/* Runs between two looks whether kernels that were chosen since are built. */
	RENEW_RUNS = 64,
};

/*
 * Something was learned of kernels since the plan was made: it is made again, and runs once all of its programs are built.
 * Those of the graph that they were learned of are.
 */
static void renew(struct flush *f, const struct tracked *e) {
	struct server *v = f->session->server;
	const struct tuning *tuning = tracker_tuning(v->tracker);
	struct plan_options options = tracked_options(e, f->form, session_plan_options(f->session));
	struct plan *old = f->plan, *new;
	struct fault fault;

	if (old->tuning_serial == tuning_serial(tuning) || old->asked++ % RENEW_RUNS)
		return;
	if (plan_is_tuned(old, tuning)) {
		old->tuning_serial = tuning_serial(tuning);
		return;
	}
	if (planning_is_long(f->graph)) {
		planning_keep(f->session, f->graph, old, &options);
		return;
	}
	/* Where it fails, the one that is there serves as well. */
	if (plan_make(f->graph, &options, &new, &fault))
		return;
	if (!exec_ready(v->exec, new, is_learning(f))) {
		f->plan = plan_ref(new);
		plan_cache_replace(v->plans, old, new);
		plan_unref(old);
	}
	plan_unref(new);
}

static int plan_tracked(struct flush *f, struct tracked *e, bool *hitp, struct fault *fault) {
	struct server *v = f->session->server;
	enum track_form form;
	int r, tried = 0;

	f->tracked = tracked_id(e);
	judge(f, e);
	form = tracker_next(v->tracker, e, f->session->settings.tracker_share, &f->timed);
	r = plan_form(f, e, tracked_chosen(e), hitp, fault);
	if (!r)
		renew(f, e);
	if (!r && form != tracked_chosen(e))
		tried = take_trial(f, e, form);
	f->variant = tracked_variant(e);
	if (!r && f->form == TRACK_FUSED && f->plan->steps >= f->plan->ops)
		tracked_plain(e);
	f->tuned = !r && f->form == tracked_chosen(e) && tracked_tuned(e);
	if (!r && f->timed)
		tracker_tried(v->tracker, e, f->form);
	else if (!r && tried > 0)
		tracker_impossible(v->tracker, e, form);
	else if (!r && tried)
		tracker_refused(v->tracker, e);
	else if (!r)
		tracker_ran(v->tracker, e);
	if (!r && f->form == tracked_chosen(e))
		tracker_offer(v->tracker, e, f->plan, device_traits(v->device));
	return r;
}

/* The graph's forms, one of which is chosen; NULL: it has one. Those of an operation that is not exact may differ in their bits: it keeps to one. */
static struct tracked *find_tracked(const struct flush *f, const struct plan_options *o) {
	if (!f->session->settings.tracker_share || graph_inexact(f->graph))
		return NULL;
	return tracker_find(f->session->server->tracker, f->graph, o);
}

static int plan_graph(struct flush *f, bool *hitp, struct fault *fault) {
	struct plan_options options = session_plan_options(f->session);
	struct tracked *e = find_tracked(f, &options);

	if (e)
		return plan_tracked(f, e, hitp, fault);
	return plan_cache_get(f->session->server->plans, f->graph, &options, &f->plan, hitp, fault);
}

static void compare_aside(const struct flush *f, const struct plan_options *options) {
	struct session *s = f->session;
	struct graph *next = NULL;

	if (f->graph != s->graph || s->own_graph || graph_new(&next))
		return;
	planning_compare(s, s->graph, f->plan, options);
	s->graph = next;
}

/* What a new plan gains over that without fusion, for the statistics; it runs already. */
static void estimate_gain(struct flush *f) {
	struct plan_options options;
	struct fault fault;

	if (f->plan->compared || f->plan->compare_tried)
		return;
	options = session_plan_options(f->session);
	f->plan->compare_tried = true;
	/* The graph is not needed any more. One that is kept was compared the first time. */
	if (planning_is_long(f->graph)) {
		compare_aside(f, &options);
		return;
	}
	/* Where there is no memory, or the graph cannot be planned without fusion, the gain stays unknown. */
	if (plan_compare_single(f->plan, f->graph, &options, &fault))
		log_debug("a plan's gain is not known");
}

/* So that people can ask how these arrays were made. A copy was made as what it is of. */
static void note_run(const struct flush *f) {
	uint32_t number = f->copies ? 0 : recent_ran(f->session, f->plan);

	for (uint32_t i = 0; number && i < f->plan->outputs; i++)
		f->array[graph_output_at(f->graph, (uint32_t)f->plan->output[i].tag)->tag]->run = number;
}

static void trace_plan(const struct flush *f, bool hit, uint64_t begin_ns) {
	const struct trace_source who = { f->session->id, f->session->uid };
	struct trace_event *e = trace_add(TRACE_PLAN, &who, begin_ns, loop_now_ns());

	e->number[0] = f->plan->operations;
	e->number[1] = f->plan->steps;
	trace_word(e, hit ? "found" : "made");
}

/* Its flight has begun, and ends here where r says that it is not to run. */
static int run_graph(struct flush *f, int r, struct fault *fault) {
	struct session *s = f->session;
	uint64_t start = loop_now_ns();
	bool hit = false;

	if (!r && !f->copies)
		session_planning(s, f->first, f->last);
	if (!r)
		r = plan_graph(f, &hit, fault);
	session_planning(s, 0, 0);
	flight_planned(s, f->note, f->plan);
	if (trace_on && !r)
		trace_plan(f, hit, start);
	start = loop_now_ns() - start + f->aside_ns;
	hit &= !f->aside_ns;
	session_count(s, plan_hit_ns, hit ? start : 0);
	session_count(s, plan_miss_ns, hit ? 0 : start);
	if (!r && !hit)
		f->plan->made_ns = (double)start;
	if (!r)
		r = submit(f);
	if (r)
		flight_dropped(s, f->note);
	if (!r)
		note_run(f);
	if (!r)
		estimate_gain(f);
	session_count(s, runs, !r);
	session_count(s, plan_hits, !r && hit);
	session_count(s, plan_misses, !r && !hit);
	if (f->plan)
		f->plan = plan_unref(f->plan);
	return r;
}

static int fault_of_memory(struct fault *f, int r) {
	return r < 0 ? fault_set(f, FAULT_MEMORY, "the daemon is out of memory") : r;
}

/* ---- a session's window ---- */

static void count_reason(struct session *s, enum flush_reason reason) {
	uint64_t *const by_reason[] = {
		[FLUSH_IDLE] = &s->counters.flush_idle,
		[FLUSH_TIME] = &s->counters.flush_time,
		[FLUSH_OPERATIONS] = &s->counters.flush_operations,
		[FLUSH_BYTES] = &s->counters.flush_bytes,
		[FLUSH_DEMAND] = &s->counters.flush_demand,
		[FLUSH_URGENT] = &s->counters.flush_urgent,
	};

	++*by_reason[reason];
}

/* Arrays that were released meanwhile are no outputs: what only they need is not computed. */
static int mark_outputs(struct session *s) {
	int r = 0;

	for (uint32_t i = 0; !r && i < s->pendings; i++)
		if (s->pending[i]->references > 1)
			r = graph_output(s->graph, s->pending[i]->node, i);
	return r;
}

static void poison_pending(struct session *s, const struct fault *f) {
	struct poison *p = poison_new(f, 0, -1);

	for (uint32_t i = 0; i < s->pendings; i++)
		array_poison(s->pending[i], poison_ref(p));
	poison_unref(p);
	for (uint64_t seq = s->first; seq <= s->last; seq++)
		session_failed(s, seq, -1, f);
}

/* The graph is empty again, and a new epoch begins. */
static void forget_gathered(struct session *s) {
	for (uint32_t i = 0; i < s->pendings; i++)
		array_unref(s->pending[i]);
	s->pendings = 0;
	session_drop_used(s);
	s->gathered = 0;
	graph_reset(s->graph);
	s->epoch++;
}

/* Views of a shared array keep its values of now, whatever others write later: those that stay get a copy. */
static void part_from_shared(struct session *s) {
	struct poison *p;
	struct fault f;
	int r;

	for (uint32_t i = 0; i < s->pendings; i++) {
		r = s->pending[i]->buffer ? share_part(s, s->pending[i], &f) : 0;
		if (!fault_of_memory(&f, r))
			continue;
		p = poison_new(&f, 0, -1);
		array_poison(s->pending[i], p);
	}
}

/* What no window was opened for was handed on at once. */
static void trace_window(const struct session *s, enum flush_reason reason) {
	static const char *const reasons[] = { [FLUSH_IDLE] = "idle", [FLUSH_TIME] = "time", [FLUSH_OPERATIONS] = "operations",
		[FLUSH_BYTES] = "bytes", [FLUSH_DEMAND] = "demand", [FLUSH_URGENT] = "urgent" };
	const struct trace_source who = { s->id, s->uid };
	uint64_t now = loop_now_ns(), begin = now;
	struct trace_event *e;

	if (s->windowed)
		begin = 1000 * (s->deadline_us - s->settings.window_us);
	e = trace_add(TRACE_WINDOW, &who, begin < now ? begin : now, now);
	e->number[0] = s->gathered;
	trace_word(e, reasons[reason]);
}

static struct flush flush_of(struct session *s) {
	return (struct flush){ .session = s, .graph = s->graph, .array = s->pending, .first = s->first, .last = s->last, .operations = s->gathered };
}

static void end_flush(struct session *s, int r, struct fault *fault) {
	if (fault_of_memory(fault, r))
		poison_pending(s, fault);
	else
		part_from_shared(s);
	forget_gathered(s);
	/* Where nothing was to be computed it has run by now, which the client may be told. */
	session_noted(s);
}

/* ---- planned beside this thread ---- */

enum {
	/* Its settings may have changed while it was planned, which an administrator alone does at will. */
	PLANNING_TRIES = 2,
};

static void planned(struct planning *p);

/* False: it is to be planned here, as it is small, or has a plan, or memory is short. */
static bool plan_aside(const struct flush *f, unsigned tries) {
	struct session *s = f->session;
	struct plan_options options;
	struct planning *p;
	struct tracked *e;

	if (!planning_is_long(f->graph) || tries == PLANNING_TRIES)
		return false;
	options = session_plan_options(s);
	e = find_tracked(f, &options);
	if (e)
		options = tracked_options(e, tracked_chosen(e), options);
	p = is_planned(f, &options) ? NULL : planning_new(s->server, s->uid, f->graph, &options);
	if (!p)
		return false;
	flight_planned(s, f->note, NULL);
	p->session = s;
	p->stand_in = true;
	p->note = f->note;
	p->alone = f->alone;
	p->tries = tries + 1;
	s->planning = p;
	planning_ask(p, planned);
	return true;
}

static void planned(struct planning *p) {
	struct session *s = p->session;
	struct flush f = flush_of(s);
	struct fault fault = p->fault;
	int r = p->result;

	f.note = p->note;
	f.alone = p->alone;
	f.aside_ns = p->took_ns;
	session_planning(s, 0, 0);
	s->planning = NULL;
	if (p->cancelled)
		r = fault_set(&fault, FAULT_CANCELLED, "the operations were cancelled before they were begun");
	if (!r)
		r = planning_put(p);
	if (!r && plan_aside(&f, p->tries))
		return;
	end_flush(s, run_graph(&f, r, &fault), &fault);
	flush_graph_back(s);
	s->server->progress = true;
	shares_look_at(s);
}

bool flush_cancel(struct session *s) {
	if (s->planning)
		s->planning->cancelled = true;
	return s->planning;
}

/* The thread may be reading the graph, which goes when it has. */
void flush_forget(struct session *s) {
	struct planning *p = s->planning;

	if (s->improving)
		s->improving->improves = NULL;
	if (!p)
		return;
	flight_dropped(s, p->note);
	if (s->own_graph) {
		captures_leave(s, s->graph);
		recurring_leave(s, s->graph);
	}
	planning_forsake(p, s->graph);
	s->planning = NULL;
	s->graph = s->own_graph;
	s->own_graph = NULL;
}

void flush_graph_take(struct session *s, struct graph *kept) {
	s->own_graph = s->graph;
	s->graph = kept;
}

void flush_graph_back(struct session *s) {
	if (!s->own_graph || s->planning)
		return;
	s->graph = s->own_graph;
	s->own_graph = NULL;
}

bool flush_session(struct session *s, enum flush_reason reason) {
	struct flush f = flush_of(s);
	struct fault fault;
	int r;

	if (s->planning)
		return false;
	if (trace_on)
		trace_window(s, reason);
	if (s->windowed)
		DL_DELETE2(s->server->gathering, s, window_previous, window_next);
	s->windowed = false;
	count_reason(s, reason);
	r = mark_outputs(s);
	if (!r && graph_outputs(s->graph)) {
		r = flight_begin(s, f.graph, &f.note, &f.alone, &fault);
		if (!r && plan_aside(&f, 0))
			return false;
		r = run_graph(&f, r, &fault);
	}
	end_flush(s, r, &fault);
	return true;
}

int flush_demanded(struct session *s) {
	return !s->gathered || flush_session(s, FLUSH_DEMAND) ? 0 : -EINPROGRESS;
}

/* ---- a copy ---- */

static int copy_graph(struct graph *g, const struct array *a, struct fault *f) {
	uint32_t leaf, copy;
	int r;

	graph_reset(g);
	r = graph_leaf(g, a->buffer, &a->type, &a->view, &leaf);
	if (!r)
		r = graph_op(g, OP_copy, 1, &leaf, NULL, 0, &copy, f);
	return r ? r : graph_output(g, copy, 0);
}

static int copy_to(struct session *s, const struct array *a, struct array *to, struct space *space, struct fault *f) {
	struct flush x = { .session = s, .graph = s->server->graph, .array = &to, .space = space, .first = s->next - 1,
		.last = s->next - 1, .copies = true, .operations = 1 };
	int r = copy_graph(x.graph, a, f);

	if (!r) {
		r = flight_begin(s, x.graph, &x.note, &x.alone, f);
		r = run_graph(&x, r, f);
	}
	if (!r)
		session_count(s, copies, 1);
	return r;
}

/* Of what another session has, too, there is nothing for the next engine until the copy is there. */
int flush_copy(struct session *s, struct array *a, struct fault *f) {
	int r;

	if (buffer_space(a->buffer) == s->space)
		array_copies(a);
	r = copy_to(s, a, a, NULL, f);
	if (r)
		array_copied(a);
	return r;
}

int flush_copy_to(struct session *s, const struct array *a, struct array *to, struct space *space, struct fault *f) {
	to->run = a->run;
	return copy_to(s, a, to, space, f);
}
