/*
 * EXPLAIN and CAN_FUSE: what the planner would do, without doing it. RECENT and MADE: what it did.
 *
 * For EXPLAIN the operations become a graph of their own, of arrays known by type and view alone; nothing of the session changes. Answers are
 * JSON, see describe.h. All are questions (question.h): planning, telling and printing are steps of them, which may be done on another thread.
 */
#include "request.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>

#include "protocol/codec.h"
#include "protocol/message.h"
#include "daemon/base/loop.h"
#include "daemon/serve/capture.h"
#include "daemon/serve/describe.h"
#include "daemon/serve/question.h"

struct explain {
	struct question question;
	struct session *session;     /* for the engine's thread */
	uint64_t flags;
	/* What would be done: EXPLAIN and CAN_FUSE. */
	struct graph *graph;
	struct graph *own;           /* the same, where it is not the server's */
	uint32_t *node;              /* of each operation */
	uint32_t count;
	struct tensor_type *input;   /* of a recorded graph; NULL: operations name arrays of the session */
	uint32_t inputs;
	struct plan_options options; /* the book is a reference */
	struct traits traits;        /* a copy */
	struct plan *plan;
	uint64_t took_ns;
	uint64_t number[2];          /* CAN_FUSE: of which operations */
	cJSON *tuning;               /* to be added behind what is told, or NULL */
	/* What was done: the plans, references. */
	struct recent *run;
	uint32_t runs, at;
	/* The answer: */
	cJSON *json, *list, *into;   /* in it the graphs, or NULL; what is told of the plan comes into this */
	struct described told;
	uint64_t left;
	char *text;
};

static struct explain *explain_of(struct question *q) {
	return (struct explain *)(void *)((char *)q - offsetof(struct explain, question));
}

static void explain_end(struct question *q) {
	struct explain *x = explain_of(q);

	describe_end(&x->told);
	for (uint32_t i = 0; i < x->runs; i++)
		plan_unref(x->run[i].plan);
	plan_unref(x->plan);
	book_unref(x->options.book);
	graph_free(x->own);
	cJSON_Delete(x->json);
	cJSON_Delete(x->tuning);
	cJSON_free(x->text);
	free(x->run);
	free(x->input);
	free(x->node);
	free(x);
}

static struct explain *explain_new(const struct request *r) {
	struct explain *x = calloc(1, sizeof *x);

	if (!x)
		return NULL;
	x->question.end = explain_end;
	x->session = r->session;
	x->left = DESCRIBE_BYTES;
	return x;
}

/* What was begun of a question that is not to be answered goes with it. */
static int answer(struct explain *x, struct request *r, bool is_long, int code, struct fault *f) {
	if (!code)
		return question_answer(&x->question, r, is_long, f);
	explain_end(&x->question);
	return code;
}

/* ---- the graph ---- */

/* Two loads of the same memory are one array; its address in the arena tells. Never followed. */
static void *load_identity(const struct op_attr *a) {
	return (void *)(uintptr_t)(((uint64_t)(a->arena + 1) << 40) + a->offset);
}

static int explain_load(struct explain *x, const struct coded_op *o, uint32_t *nodep, struct fault *f) {
	struct tensor_type t;
	struct view v;
	int r = op_infer(o->op, 0, NULL, &o->attr, &t, f);

	if (r)
		return r;
	view_contiguous(&t, &v);
	return graph_leaf(x->graph, load_identity(&o->attr), &t, &v, nodep);
}

/* An array that has not been computed is taken as the row-major one it will be. */
static int explain_array(struct explain *x, uint64_t handle, uint32_t *nodep, struct fault *f) {
	struct array *a = NULL;
	struct view v;
	int r = handles_get(&x->session->handles, handle, &a, f);

	if (r)
		return r;
	if (a->poison) {
		*f = a->poison->fault;
		return f->code;
	}
	if (!a->pending)
		return graph_leaf(x->graph, a->buffer, &a->type, &a->view, nodep);
	view_contiguous(&a->type, &v);
	return graph_leaf(x->graph, a, &a->type, &v, nodep);
}

static int explain_operand(struct explain *x, uint64_t number, uint32_t *nodep, struct fault *f) {
	return x->input ? capture_input(x->input, x->inputs, number, x->graph, nodep, f) : explain_array(x, number, nodep, f);
}

static int explain_op(struct explain *x, const struct coded_op *o, struct fault *f) {
	uint32_t in[LIMIT_OPERANDS];
	int r = 0;

	if (o->op == OP_load)
		return explain_load(x, o, &x->node[x->count], f);
	for (unsigned i = 0; !r && i < o->arity; i++) {
		if (o->in[i] < 0)
			r = explain_operand(x, (uint64_t)(-1 - o->in[i]), &in[i], f);
		else
			in[i] = x->node[o->in[i]];
	}
	return r ? r : graph_op(x->graph, o->op, o->arity, in, &o->attr, x->count, &x->node[x->count], f);
}

static int build(struct explain *x, struct wire_cursor *ops, struct wire_cursor *outputs, struct fault *f) {
	struct coded_op o;
	uint64_t node;
	int r = 0;

	graph_reset(x->graph);
	while (!r && ops->left) {
		r = codec_get_op(ops, x->count, &o, f);
		if (!r)
			r = explain_op(x, &o, f);
		x->count++;
	}
	while (!r && outputs->left) {
		r = wire_get_uint(outputs, "output", UINT32_MAX, &node, f);
		if (!r && node >= x->count)
			r = fault_set(
				f, FAULT_ARGUMENT, "output %" PRIu64 " is no operation of the list", node);
		if (!r)
			r = graph_output(x->graph, x->node[node], node);
	}
	return r;
}

static struct plan_options options_of(const struct explain *x) {
	struct plan_options options = session_plan_options(x->session);
	struct tracked *e = NULL;

	options.fuse &= !(x->flags & EXPLAIN_UNFUSED);
	if (x->session->settings.tracker_share)
		e = tracker_peek(x->session->server->tracker, x->graph, &options);
	return e ? tracked_options(e, tracked_chosen(e), options) : options;
}

/* Any thread: the plan, and what fusing the operations gains over doing them one by one. */
static int make_plan(struct question *q, struct fault *f) {
	struct explain *x = explain_of(q);
	struct plan_options options = x->options;
	uint64_t start = loop_now_ns();
	int r;

	options.traits = &x->traits;
	options.tuned_later = options.tuning != NULL;
	options.tuning = NULL;
	r = plan_make(x->graph, &options, &x->plan, f);
	x->took_ns = loop_now_ns() - start;
	return r ? r : plan_compare_single(x->plan, x->graph, &options, f);
}

/* What was learned meanwhile is looked up. */
static int take_plan(struct explain *x) {
	session_count(x->session, plan_miss_ns, x->took_ns);
	x->plan->made_ns = (double)x->took_ns;
	x->question.graph = NULL;
	return plan_tune(x->plan, &x->options);
}

/* What the plan that runs this graph knows, where there is one: launches, and times where exec measures (engine.time_kernels). */
static void take_times(struct explain *x) {
	struct plan *ran = plan_cache_find(x->session->server->plans, x->graph, &x->options);

	for (uint32_t i = 0; ran && ran->steps == x->plan->steps && i < ran->steps; i++) {
		x->plan->step[i].measured_ns = ran->step[i].measured_ns;
		x->plan->step[i].compiled = ran->step[i].compiled;
		x->plan->step[i].interpreted = ran->step[i].interpreted;
		x->plan->step[i].tier = ran->step[i].tier;
		x->plan->step[i].since_us = ran->step[i].since_us;
	}
	plan_unref(ran);
}

/* What was learned of the plan's kernels: those that run otherwise than the rules say. */
static void add_turned(cJSON *tuning, const struct plan *p) {
	cJSON *list = cJSON_AddArrayToObject(tuning, "knobs");

	for (uint32_t i = 0; i < p->steps; i++)
		for (unsigned knob = 0; knob < KNOB_COUNT; knob++) {
			const struct plan_step *s = &p->step[i];
			cJSON *one;

			if (!s->knobs.value[knob])
				continue;
			one = cJSON_CreateObject();
			cJSON_AddItemToArray(list, one);
			cJSON_AddNumberToObject(one, "kernel", i + 1);
			cJSON_AddStringToObject(one, "root", kernel_root_name(s->kernel));
			cJSON_AddStringToObject(one, "knob", knob_name(knob));
			cJSON_AddStringToObject(one, "value", knob_value(knob, s->knobs.value[knob]));
		}
}

static void add_progress(cJSON *tuning, const struct explain *x) {
	const struct server *v = x->session->server;
	struct tuning_progress n = tuning_progress(tracker_tuning(v->tracker), x->plan, device_traits(v->device));

	cJSON_AddNumberToObject(tuning, "values", n.values);
	cJSON_AddNumberToObject(tuning, "values_compared", n.compared);
}

/* Which form of the graph's plan runs, and what the others were measured to take. */
static cJSON *tuning_of(const struct explain *x) {
	struct plan_options options = session_plan_options(x->session);
	const struct tracked *e = tracker_peek(x->session->server->tracker, x->graph, &options);
	struct track_report r;
	cJSON *one;

	if (!e || x->flags & EXPLAIN_UNFUSED)
		return NULL;
	r = tracked_report(e);
	one = cJSON_CreateObject();
	cJSON_AddStringToObject(one, "runs", track_form_name(r.chosen));
	cJSON_AddBoolToObject(one, "settled", r.settled);
	for (enum track_form i = TRACK_FUSED; i < TRACK_FORMS; i++) {
		cJSON *form;

		if (!r.samples[i])
			continue;
		form = cJSON_AddObjectToObject(one, track_form_name(i));
		cJSON_AddNumberToObject(form, "us", r.ns[i] / 1e3);
		cJSON_AddNumberToObject(form, "samples", r.samples[i]);
		cJSON_AddNumberToObject(form, "rounds", r.rounds[i]);
	}
	add_progress(one, x);
	add_turned(one, x->plan);
	return one;
}

/* ---- telling ---- */

static int describe(const struct explain *x, uint64_t *leftp, struct fault *f) {
	if (x->flags & EXPLAIN_OPPORTUNITIES)
		return describe_opportunities(x->into, &x->told.plan, leftp, f);
	return describe_plan(x->into, &x->told, x->flags, leftp, f);
}

static int print(struct explain *x) {
	if (x->tuning)
		cJSON_AddItemToObject(x->json, "tuning", x->tuning);
	x->tuning = NULL;
	x->text = cJSON_PrintUnformatted(x->json);
	cJSON_Delete(x->json);
	x->json = NULL;
	return x->text ? 0 : -ENOMEM;
}

/* Any thread: of one plan; behind the last one the whole is printed. */
static int tell(struct question *q, struct fault *f) {
	struct explain *x = explain_of(q);
	int r = x->into ? describe(x, &x->left, f) : 0;

	return !r && x->at >= x->runs ? print(x) : r;
}

static int told(struct question *q, struct request *r, struct fault *f);

static int tell_of(struct explain *x, struct plan *p) {
	const struct server *v = x->session->server;

	question_next(&x->question, tell, told);
	return describe_begin(&x->told, p, v->device, v->exec);
}

static int tell_of_next(struct explain *x) {
	const struct recent *one = &x->run[x->at++];

	if (x->list) {
		x->into = cJSON_CreateObject();
		cJSON_AddItemToArray(x->list, x->into);
	} else {
		x->into = x->json;
	}
	if (!x->into)
		return -ENOMEM;
	cJSON_AddNumberToObject(x->into, "runs", (double)one->runs);
	return tell_of(x, one->plan);
}

static int told(struct question *q, struct request *r, struct fault *f) {
	struct explain *x = explain_of(q);

	describe_end(&x->told);
	return x->at < x->runs ? tell_of_next(x) : request_send_text(r, x->text, f);
}

/* ---- EXPLAIN ---- */

/* As the exec would ask for them. Limits of users do not hold here, so it is not for everybody. */
static int build_kernels(const struct explain *x, struct fault *f) {
	int r = session_needs_rights(x->session, "have kernels built ahead", f);

	for (uint32_t i = 0; !r && i < x->plan->steps; i++) {
		struct program *program;

		r = device_program(x->session->server->device, x->plan->step[i].kernel, &program);
		if (!r)
			device_insist(program);
	}
	return r;
}

static int explained(struct question *q, struct request *r, struct fault *f) {
	struct explain *x = explain_of(q);
	int code = take_plan(x);

	(void)r;
	if (!code && x->flags & EXPLAIN_BUILD)
		code = build_kernels(x, f);
	if (code)
		return code;
	take_times(x);
	x->tuning = tuning_of(x);
	x->into = x->json = cJSON_CreateObject();
	return x->json ? tell_of(x, x->plan) : -ENOMEM;
}

/* The operations of a request, and which of them are asked for. */
struct listed {
	struct wire_cursor ops, outputs;
};

static int get_listed(struct request *r, struct listed *l, struct fault *f) {
	int code = wire_get_array(&r->body, "ops", LIMIT_BATCH_OPS, &l->ops, f);

	return code ? code : wire_get_array(&r->body, "outputs", LIMIT_BATCH_OPS, &l->outputs, f);
}

static bool is_long(const struct listed *l) {
	return question_is_long(l->ops.left);
}

/* Asks for their plan. */
static int explain_begin(struct explain *x, struct listed *l, int (*then)(struct question *q, struct request *r, struct fault *f), struct fault *f) {
	struct server *v = x->session->server;
	int code = is_long(l) ? graph_new(&x->own) : 0;

	if (code)
		return code;
	x->graph = x->own ? x->own : v->graph;
	x->node = malloc((l->ops.left + 1) * sizeof *x->node);
	code = x->node ? build(x, &l->ops, &l->outputs, f) : -ENOMEM;
	if (code)
		return code;
	x->options = options_of(x);
	book_ref(x->options.book);
	x->traits = *v->traits;
	x->question.graph = x->graph;
	question_next(&x->question, make_plan, then);
	return 0;
}

/* The types of a recorded graph's inputs, where they are given. */
static int get_inputs(struct request *r, struct explain *x, struct fault *f) {
	struct wire_cursor types;
	int code;

	if (!r->body.left)
		return 0;
	code = wire_get_array(&r->body, "types", CAPTURE_INPUTS, &types, f);
	if (code)
		return code;
	x->input = calloc(types.left + 1u, sizeof *x->input);
	if (!x->input)
		return -ENOMEM;
	while (!code && types.left)
		code = codec_get_type(&types, &x->input[x->inputs++], f);
	return code;
}

/* Flags are of EXPLAIN; `takes`: what these say something of. */
static int get_flags(struct wire_cursor *body, uint64_t takes, const char *why, uint64_t *flagsp, struct fault *f) {
	int code = wire_get_uint(body, "flags", UINT64_MAX, flagsp, f);

	if (code || !(*flagsp & ~takes))
		return code;
	if (*flagsp & ~(uint64_t)EXPLAIN_ALL)
		return fault_set(f, FAULT_ARGUMENT, "this daemon does not know all that is asked to be told (flags %#" PRIx64 "): it is older than the program that asks", *flagsp);
	return fault_set(f, FAULT_ARGUMENT, "%s", why);
}

static int get_explain(struct request *r, struct explain *x, struct listed *l, struct fault *f) {
	int code = get_listed(r, l, f);

	if (!code)
		code = get_flags(&r->body, EXPLAIN_ALL, "", &x->flags, f);
	if (!code)
		code = get_inputs(r, x, f);
	return code ? code : wire_get_end(&r->body, "EXPLAIN", f);
}

/* One that is long waits for another one of the user. */
static int must_wait(const struct request *r, bool is_long) {
	return is_long && question_waits(r->session) ? -EINPROGRESS : 0;
}

int explain_request(struct request *r, struct fault *f) {
	struct explain *x = explain_new(r);
	struct listed l;
	int code = x ? get_explain(r, x, &l, f) : -ENOMEM;

	if (!x)
		return code;
	if (!code)
		code = must_wait(r, is_long(&l));
	if (!code)
		code = explain_begin(x, &l, explained, f);
	return answer(x, r, x->own, code, f);
}

/* ---- RECENT and MADE ---- */

enum {
	/* Of what has run only its plan is there: it can be told of, not planned once more. */
	EXPLAIN_OF_RUNS = EXPLAIN_SOURCE | EXPLAIN_OWN_SOURCE | EXPLAIN_NODES | EXPLAIN_OPPORTUNITIES,
};

static const char of_runs[] = "what has run is told of as it ran: it cannot be planned without fusion, nor have its kernels built; ask before it is computed";

/* These plans are told of. They are references from now on, as others may run and go meanwhile. */
static int take_runs(struct explain *x, const struct recent *run, uint32_t runs) {
	x->run = calloc(runs + 1u, sizeof *x->run);
	if (!x->run)
		return -ENOMEM;
	for (; x->runs < runs; x->runs++) {
		x->run[x->runs] = run[x->runs];
		plan_ref(run[x->runs].plan);
	}
	return 0;
}

static bool are_long(const struct recent *run, uint32_t runs) {
	uint64_t operations = 0;

	for (uint32_t i = 0; i < runs; i++)
		operations += run[i].plan->nodes;
	return question_is_long(operations);
}

/* The session's name and number, and place for its graphs, the newest first. */
static int begin_recent(struct explain *x, const struct recent_session *s) {
	x->json = cJSON_CreateObject();
	x->list = cJSON_AddArrayToObject(x->json, "graphs");
	cJSON_AddNumberToObject(x->json, "session", (double)s->id);
	cJSON_AddStringToObject(x->json, "name", s->name);
	cJSON_AddNumberToObject(x->json, "pid", s->pid);
	if (s->ended_us)
		cJSON_AddNumberToObject(x->json, "ended_us", describe_time(s->ended_us));
	return x->list ? 0 : -ENOMEM;
}

/* The first of them, where there is one. */
static int tell_of_runs(struct explain *x) {
	if (x->runs)
		return tell_of_next(x);
	question_next(&x->question, tell, told);
	return 0;
}

int recent_request(struct request *r, struct fault *f) {
	struct recent_session s;
	uint64_t id, flags;
	struct explain *x;
	bool is_long;
	int code = wire_get_uint(&r->body, "session", UINT64_MAX, &id, f);

	if (!code)
		code = get_flags(&r->body, EXPLAIN_OF_RUNS, of_runs, &flags, f);
	if (!code)
		code = wire_get_end(&r->body, "RECENT", f);
	if (!code)
		code = recent_find(r->session, id, &s, f);
	if (code)
		return code;
	is_long = are_long(s.recents->graph, s.recents->count);
	code = must_wait(r, is_long);
	if (code)
		return code;
	x = explain_new(r);
	if (!x)
		return -ENOMEM;
	x->flags = flags;
	code = take_runs(x, s.recents->graph, s.recents->count);
	if (!code)
		code = begin_recent(x, &s);
	if (!code)
		code = tell_of_runs(x);
	return answer(x, r, is_long, code, f);
}

/* What the window holds is run: who asks how it ran wants to know. */
static int find_made(struct session *s, uint64_t handle, struct array **arrayp, struct fault *f) {
	struct poison *p;
	int r = handles_get(&s->handles, handle, arrayp, f);

	if (!r && (*arrayp)->pending)
		r = flush_demanded(s);
	p = r ? NULL : array_poisoned(*arrayp);
	if (!p)
		return r;
	*f = p->fault;
	return f->code;
}

static int answer_made(struct request *r, const struct recent *one, uint64_t flags, struct fault *f) {
	bool is_long = are_long(one, 1);
	int code = must_wait(r, is_long);
	struct explain *x = code ? NULL : explain_new(r);

	if (!x)
		return code ? code : -ENOMEM;
	x->flags = flags;
	code = take_runs(x, one, 1);
	x->json = code ? NULL : cJSON_CreateObject();
	if (!code)
		code = x->json ? tell_of_runs(x) : -ENOMEM;
	return answer(x, r, is_long, code, f);
}

static int made(struct request *r, struct wire_cursor *handles, uint64_t flags, struct fault *f) {
	struct array **array = calloc(handles->left + 1u, sizeof(struct array *));
	const struct recent *one = NULL;
	uint64_t handle;
	uint32_t count = 0;
	int code = array ? 0 : -ENOMEM;

	if (!handles->left)
		code = fault_set(f, FAULT_ARGUMENT, "no arrays are given");
	while (!code && handles->left) {
		code = wire_get_uint(handles, "handle", UINT64_MAX, &handle, f);
		if (!code)
			code = find_made(r->session, handle, &array[count++], f);
	}
	if (!code)
		code = recent_made(r->session, array, count, &one, f);
	if (!code)
		code = answer_made(r, one, flags, f);
	free(array);
	return code;
}

int made_request(struct request *r, struct fault *f) {
	struct wire_cursor handles;
	uint64_t flags = 0;
	int code = wire_get_array(&r->body, "handles", LIMIT_BATCH_OPS, &handles, f);

	if (!code)
		code = get_flags(&r->body, EXPLAIN_OF_RUNS, of_runs, &flags, f);
	if (!code)
		code = wire_get_end(&r->body, "MADE", f);
	return code ? code : made(r, &handles, flags, f);
}

/* ---- CAN_FUSE ---- */

/* By its number in the list. */
static int find_member(const struct explain *x, uint64_t number, struct plan_member *m, struct fault *f) {
	if (number >= x->count)
		return fault_set(f, FAULT_ARGUMENT, "%" PRIu64 " is no operation of the list", number);
	*m = (struct plan_member){ .node = x->node[number], .note = (uint32_t)number };
	return 0;
}

static int send_pair(struct request *r, const struct explain *x, const struct plan_pair *pair) {
	cJSON *json = cJSON_CreateObject();
	char *text = NULL;
	struct wire_writer *w;

	if (json) {
		describe_pair(json, x->plan, pair);
		text = cJSON_PrintUnformatted(json);
	}
	cJSON_Delete(json);
	if (!text)
		return -ENOMEM;
	w = request_answer(r->session->server, r->id, 2);
	wire_put_bool(w, pair->fused);
	wire_put_text(w, text);
	request_send(r->session->server, r->frame);
	cJSON_free(text);
	return 0;
}

static int paired(struct question *q, struct request *r, struct fault *f) {
	struct explain *x = explain_of(q);
	struct plan_member member[2] = { { 0 } };
	struct plan_pair pair;
	int code = take_plan(x);

	for (unsigned i = 0; !code && i < 2; i++)
		code = find_member(x, x->number[i], &member[i], f);
	if (!code)
		code = plan_pair(x->plan, member[0], member[1], &pair);
	return code ? code : send_pair(r, x, &pair);
}

int can_fuse_request(struct request *r, struct fault *f) {
	struct explain *x = explain_new(r);
	struct listed l;
	int code = x ? get_listed(r, &l, f) : -ENOMEM;

	if (!x)
		return code;
	for (unsigned i = 0; !code && i < 2; i++)
		code = wire_get_uint(&r->body, "operation", UINT32_MAX, &x->number[i], f);
	if (!code)
		code = wire_get_end(&r->body, "CAN_FUSE", f);
	if (!code)
		code = must_wait(r, is_long(&l));
	if (!code)
		code = explain_begin(x, &l, paired, f);
	return answer(x, r, x->own, code, f);
}
