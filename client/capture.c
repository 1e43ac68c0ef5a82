/* Graphs recorded once. See capture.h and fusion.h for the contract; replay.c runs them. */
#include "capture_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/codec.h"
#include "sent.h"
#include "context.h"
#include "debug.h"
#include "flush.h"
#include "handle.h"
#include "record.h"
#include "tape.h"

/* --- what an engine knows ----------------------------------------------------------------- */

struct capture_text *capture_text_ref(struct capture_text *t) {
	if (t)
		t->references++;
	return t;
}

void capture_text_unref(struct capture_text *t) {
	if (!t || --t->references)
		return;
	free(t->place);
	free(t);
}

/* Frees the number in the engine, where it knows another graph by it. */
static int forget_other(struct fusion_context *c, uint32_t id, uint64_t serial, struct fault *f) {
	struct request *q;
	int r;

	if (!c->capture_known[id] || c->capture_known[id] == serial)
		return 0;
	r = stream_room(c, &q, f);
	if (r)
		return r;
	/* While there was no room the engine may have been replaced, by one that knows none. */
	if (!c->capture_known[id]) {
		stream_forgo(c, q);
		return 0;
	}
	c->capture_known[id] = 0;
	wire_put_uint(stream_begin_next(c, q, REQUEST_FORGET, 2), id);
	return stream_send(c, q, NULL, f);
}

/*
 * Room to define a graph under a number that the engine knows no other by; NULL where it knows this one. While there was no room the engine may have been
 * replaced, and told of what is repeated there.
 */
static int room_to_define(struct fusion_context *c, uint32_t id, uint64_t serial, struct request **requestp, struct fault *f) {
	int r = 0;

	*requestp = NULL;
	while (!r && c->capture_known[id] != serial) {
		r = forget_other(c, id, serial, f);
		if (!r)
			r = stream_room_to_wait(c, requestp, f);
		if (r || !c->capture_known[id])
			return r;
		stream_forgo(c, *requestp);
		*requestp = NULL;
	}
	return r;
}

/* The engine that was asked may have been replaced between its answer and now, by another thread. */
static void note_known(struct fusion_context *c, uint32_t id, uint64_t serial, uint64_t engine) {
	if (c->capture_engine == engine)
		c->capture_known[id] = serial;
}

int capture_text_tell(struct fusion_context *c, const struct capture_text *t, struct fault *f) {
	struct request *q;
	struct answer a = { 0 };
	uint64_t engine;
	int r = 0;

	while (!r && c->capture_known[t->id] != t->serial) {
		a.again = false;
		r = room_to_define(c, t->id, t->serial, &q, f);
		if (r || !q)
			return r;
		engine = c->capture_engine;
		wire_put_raw(stream_begin_next(c, q, REQUEST_DEFINE, 5), t->text, t->bytes);
		r = stream_ask(c, q, &a, f);
		if (!r)
			note_known(c, t->id, t->serial, engine);
		else if (a.again && !c->stream.resuming)
			r = 0;
	}
	return r;
}

/* --- while recording --------------------------------------------------------------------- */

bool capture_text_holds(const struct fusion_context *c, const struct capture_text *t) {
	return !t->bound || c->capture_known[t->id] == t->serial;
}

int capture_lost(const char *what, struct fault *f) {
	return fault_set(f, FAULT_LOST, "%s: the recorded graph went with the engine, which was replaced; record it again", what);
}

struct capture_text *capture_again(const struct fusion_capture *p) {
	return p->definition && !p->definition->bound ? p->definition : NULL;
}

bool capture_mine(const struct fusion_context *c) {
	return c->capture && pthread_equal(c->capture->owner, pthread_self());
}

void capture_enlist(struct fusion_context *c, struct value *v) {
	v->state = VALUE_CAPTURED;
	v->capture = c->capture->serial;
	value_list_append(&c->capture->recorded, v);
}

void capture_delist(struct fusion_context *c, struct value *v) {
	if (c->capture && v->capture == c->capture->serial && v->op != OP_CAPTURE_INPUT)
		value_list_remove(&c->capture->recorded, v);
}

static int inputs_grow(struct fusion_capture *p) {
	unsigned room = p->room ? p->room * 2 : 16;
	struct capture_input *grown;

	if (p->inputs < p->room)
		return 0;
	grown = realloc(p->input, room * sizeof *grown);
	if (!grown)
		return -ENOMEM;
	p->input = grown;
	p->room = room;
	return 0;
}

/* Makes an array the next input. */
static int input_add(struct fusion_capture *p, struct fusion_array *a, bool hidden) {
	struct fusion_context *c = p->context;
	struct value *symbol;
	int r = inputs_grow(p);

	if (r)
		return r;
	symbol = value_new(c, OP_CAPTURE_INPUT, &a->type, NULL);
	if (!symbol)
		return -ENOMEM;
	symbol->state = VALUE_CAPTURED;
	symbol->capture = p->serial;
	symbol->index = p->inputs;
	symbol->leaf = a->watched;
	value_hold(symbol);
	a->capture = p->serial;
	a->input = p->inputs;
	if (hidden)
		array_use(a);
	p->input[p->inputs++] = (struct capture_input){ hidden ? a : NULL, symbol, a->type };
	return 0;
}

/* Is it what each replay gives another value? */
static bool given(const struct fusion_array *a) {
	const struct fusion_capture *p = array_context(a)->capture;

	return capture_mine(array_context(a)) && a->capture == p->serial && a->input < p->given;
}

int capture_readable(const struct fusion_array *a, const char *what, struct fault *f) {
	if (!a->value)
		return 0;
	if (given(a))
		return fault_set(f, FAULT_STATE,
			"%s: a graph is being recorded, in which this array stands for what each replay passes: choose between values "
			"with where(), or ask for this one outside of the recording",
			what);
	if (a->value->state != VALUE_CAPTURED)
		return 0;
	if (capture_mine(array_context(a)) && a->value->capture == array_context(a)->capture->serial)
		return fault_set(f, FAULT_STATE,
			"%s: a graph is being recorded, and its arrays have no values yet: choose between values with "
			"where(), or ask for this one outside of the recording",
			what);
	return fault_set(f, FAULT_STATE,
		"%s: the array stands in a recorded graph and has no contents; fusion_replay gives its "
		"results",
		what);
}

int capture_writable(const struct fusion_array *a, const char *what, struct fault *f) {
	if (!capture_mine(array_context(a)) || a->value->state == VALUE_CAPTURED)
		return 0;
	return fault_set(f, FAULT_STATE,
		"%s: an array from outside cannot be written while a graph is recorded", what);
}

int capture_operand(
	struct fusion_context *c, struct fusion_array *a, const char *what, struct value **vp, struct fault *f) {
	struct fusion_capture *p = c->capture;
	int r = 0;

	*vp = a->value;
	if (!capture_mine(c))
		return a->value->state == VALUE_CAPTURED ? capture_readable(a, what, f) : 0;
	if (a->value->state == VALUE_CAPTURED)
		return a->value->capture == p->serial ? 0 : capture_readable(a, what, f);
	if (a->capture != p->serial)
		r = input_add(p, a, true);
	if (!r)
		*vp = p->input[a->input].symbol;
	return r;
}

/* --- begin ------------------------------------------------------------------------------- */

static int id_take(struct fusion_context *c, uint32_t *idp, struct fault *f) {
	for (uint32_t i = 0; i < LIMIT_CAPTURES; i++) {
		if (c->capture_used[i])
			continue;
		c->capture_used[i] = true;
		*idp = i;
		return 0;
	}
	return fault_set(f, FAULT_LIMIT, "capture_begin: the session keeps %d recorded graphs, its limit",
		LIMIT_CAPTURES);
}

void capture_destroy(struct fusion_capture *p) {
	struct fusion_context *c = p->context;

	for (unsigned i = 0; i < p->inputs; i++) {
		if (p->input[i].symbol)
			value_unhold(c, p->input[i].symbol);
		if (p->input[i].array)
			array_unuse(p->input[i].array);
	}
	free(p->input);
	free(p->output);
	capture_text_unref(p->definition);
	object_give(OBJECT_CAPTURE, &p->object);
	c->references--;
}

/* Zeros but for what stays in its place. */
static struct fusion_capture *capture_take(struct fusion_context *c) {
	struct fusion_capture *p = object_take(OBJECT_CAPTURE, sizeof *p);

	if (!p)
		return NULL;
	memset((char *)p + sizeof p->object, 0, sizeof *p - sizeof p->object);
	atomic_store_explicit(&p->object.context, c, memory_order_release);
	p->context = c;
	p->references = 1;
	return p;
}

static int given_add(struct fusion_capture *p, unsigned i, fusion_array *const *input, struct fault *f) {
	struct fusion_array *a;
	int r = array_find_in(p->context, input, i, "capture_begin", "input", &a, f);

	if (!r)
		r = capture_readable(a, "capture_begin", f);
	if (r)
		return r;
	if (a->capture == p->serial)
		return fault_set(f, FAULT_ARGUMENT, "capture_begin: inputs %u and %u are the same array", a->input, i);
	return input_add(p, a, false);
}

static int capture_new(
	struct fusion_context *c, unsigned inputs, fusion_array *const *input, struct fault *f) {
	struct fusion_capture *p = capture_take(c);
	int r;

	if (!p)
		return -ENOMEM;
	p->owner = pthread_self();
	p->serial = ++c->captures_made;
	c->references++;
	r = id_take(c, &p->id, f);
	for (unsigned i = 0; !r && i < inputs; i++)
		r = given_add(p, i, input, f);
	if (!r) {
		p->given = inputs;
		c->capture = p;
		return 0;
	}
	if (r != FAULT_LIMIT)
		c->capture_used[p->id] = false;
	capture_destroy(p);
	return r;
}

static int check_begin(
	const struct fusion_context *c, int inputs, fusion_array *const *input, struct fault *f) {
	int r = door_need_feature(&c->door, FEATURE_REPLAY, "capture_begin", f);

	if (r)
		return r;
	if (c->capture)
		return fault_set(f, FAULT_STATE,
			"capture_begin: a graph is being recorded already; captures do not nest");
	if (inputs < 0)
		return fault_set(f, FAULT_ARGUMENT, "capture_begin: inputs is %d, below 0", inputs);
	if (inputs && !input)
		return fault_set(f, FAULT_ARGUMENT, "capture_begin: input is NULL");
	return 0;
}

int fusion_capture_begin(fusion_context *context, int inputs, fusion_array *const *input) {
	struct fusion_context *c;
	struct fault f;
	int r = context_enter(context, "capture_begin", &c);

	if (r)
		return r;
	r = check_begin(c, inputs, input, &f);
	if (!r)
		r = capture_new(c, (unsigned)inputs, input, &f);
	context_leave(c);
	return error_report(r, &f);
}

/* --- end --------------------------------------------------------------------------------- */

/* The recorded values become plain symbols: arrays may hold them, nothing can be done with them. */
static void release_recorded(struct fusion_context *c, struct fusion_capture *p) {
	struct value *v = p->recorded.first, *next;

	c->capture = NULL;
	p->recorded = (struct value_list){ 0 };
	for (; v; v = next) {
		unsigned arity = v->arity;

		next = v->next;
		v->arity = 0;
		v->previous = v->next = NULL;
		tape_spend(c, v);
		for (unsigned i = 0; i < arity; i++)
			value_drop(c, v->in[i]);
	}
	for (unsigned i = 0; i < p->inputs; i++) {
		value_unhold(c, p->input[i].symbol);
		p->input[i].symbol = NULL;
	}
}

static void capture_abort(struct fusion_context *c) {
	struct fusion_capture *p = c->capture;

	if (!p)
		return;
	release_recorded(c, p);
	c->capture_used[p->id] = false;
	capture_destroy(p);
}

void capture_close(struct fusion_context *c) {
	if (c->capture && !c->capture->ending)
		capture_abort(c);
}

/* Outputs are operations of the graph: inputs and arrays from outside are copied into it. */
static int output_value(struct recording *r, unsigned i, fusion_array *const *output, struct value **vp) {
	struct fusion_array *a;
	struct value *v;
	int failed = array_find_in(r->context, output, i, r->what, "output", &a, &r->fault);

	if (!failed)
		failed = array_usable(a, r->what, &r->fault);

	if (!failed)
		failed = capture_operand(r->context, a, r->what, &v, &r->fault);
	if (!failed && v->op == OP_CAPTURE_INPUT)
		return record_value(r, OP_copy, 1, &v, NULL, vp);
	if (failed)
		return failed;
	value_ref(v);
	*vp = v;
	return 0;
}

/* Takes hidden inputs that nothing needs out, and numbers the others. */
static void inputs_compact(struct fusion_capture *p) {
	unsigned kept = p->given;

	for (unsigned i = p->given; i < p->inputs; i++) {
		struct capture_input *in = &p->input[i];

		if (in->symbol->needed) {
			in->symbol->index = kept;
			p->input[kept++] = *in;
			continue;
		}
		value_unhold(p->context, in->symbol);
		array_unuse(in->array);
	}
	p->inputs = kept;
}

void capture_put_types(const struct fusion_capture *p, struct wire_writer *w) {
	wire_put_array(w, p->inputs);
	for (unsigned i = 0; i < p->inputs; i++)
		codec_put_type(w, &p->input[i].type);
}

void capture_put_marked(const struct fusion_capture *p, struct wire_writer *w, uint32_t operations) {
	wire_put_array(w, operations);
	for (const struct value *v = p->recorded.first; v; v = v->next)
		if (v->needed)
			flush_put_value(p->context, w, v);
}

/* at: of its operations, and where its parts begin. */
static void put_define(struct fusion_capture *p, struct wire_writer *w, struct value *const *output, struct capture_text *at) {
	wire_put_uint(w, p->id);
	at->types_at = w->buffer.size;
	capture_put_types(p, w);
	at->ops_at = w->buffer.size;
	capture_put_marked(p, w, at->operations);
	wire_put_array(w, p->outputs);
	for (unsigned i = 0; i < p->outputs; i++)
		wire_put_uint(w, output[i]->index);
}

void capture_unmark(struct fusion_capture *p) {
	for (struct value *v = p->recorded.first; v; v = v->next)
		v->needed = false;
	for (unsigned i = 0; i < p->inputs; i++)
		p->input[i].symbol->needed = false;
}

/* Numbers what the outputs need. */
static int number_recorded(
	struct fusion_capture *p, struct value *const *output, uint32_t *countp, struct fault *f) {
	capture_unmark(p);
	for (unsigned i = 0; i < p->outputs; i++) {
		/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): each is an array's value, which there is */
		output[i]->needed = true;
		p->output[i] = output[i]->type;
	}
	*countp = value_list_number(&p->recorded);
	inputs_compact(p);
	if (*countp > LIMIT_BATCH_OPS)
		return fault_set(f, FAULT_LIMIT,
			"capture_end: %u operations, the limit of a recorded graph is %d", *countp,
			LIMIT_BATCH_OPS);
	return 0;
}

/* Numbers of operations that the administrator defined are one engine's. */
static bool names_own(const struct fusion_capture *p) {
	const struct value *v = p->recorded.first;

	while (v && !(v->needed && op_is_own(v->op)))
		v = v->next;
	return v != NULL;
}

/* Where memory is short it goes with the engine. */
static void keep_definition(struct fusion_capture *p, const struct wire_writer *w, size_t begin, const struct capture_text *at) {
	size_t bytes = w->buffer.size - begin;
	struct capture_text *t = wire_finish(w) ? NULL : malloc(sizeof *t + bytes);

	if (!t)
		return;
	*t = (struct capture_text){ .references = 1, .id = p->id, .serial = p->serial, .place = value_list_places(&p->recorded, at->operations),
		.operations = at->operations, .bound = names_own(p), .types_at = at->types_at - begin, .ops_at = at->ops_at - begin, .bytes = bytes };
	memcpy(t->text, w->buffer.data + begin, bytes);
	p->definition = t;
}

static int define(struct recording *r, struct fusion_capture *p, struct value *const *output) {
	struct fusion_context *c = p->context;
	struct capture_text at = { 0 };
	struct wire_writer *w;
	struct request *q;
	struct answer a = { 0 };
	uint64_t engine;
	size_t begin;
	int failed = room_to_define(c, p->id, p->serial, &q, &r->fault);

	/* No request: the daemon knows this serial already. */
	if (failed || !q)
		return failed;
	failed = number_recorded(p, output, &at.operations, &r->fault);
	if (failed) {
		stream_forgo(c, q);
		return failed;
	}
	w = stream_begin_next(c, q, REQUEST_DEFINE, 5);
	begin = w->buffer.size;
	put_define(p, w, output, &at);
	keep_definition(p, w, begin, &at);
	engine = c->capture_engine;
	failed = stream_ask(c, q, &a, &r->fault);
	/* The engine was replaced meanwhile: the next one is told. */
	if (failed && a.again && capture_again(p))
		return capture_text_tell(c, p->definition, &r->fault);
	/* Where it was given up the daemon has it all the same: who takes the number next has it forgotten. */
	if (!failed || (!a.done && q->given_up))
		note_known(c, p->id, p->serial, engine);
	return failed;
}

/* Defines the graph that leads to the outputs. */
static int capture_define(
	struct recording *r, struct fusion_capture *p, unsigned outputs, fusion_array *const *output) {
	struct value **value = calloc(outputs, sizeof *value);
	unsigned taken = 0;
	int failed = 0;

	p->output = calloc(outputs, sizeof *p->output);
	p->outputs = outputs;
	if (!value || !p->output)
		failed = -ENOMEM;
	for (; !failed && taken < outputs; taken += !failed)
		failed = output_value(r, taken, output, &value[taken]);
	if (!failed)
		failed = define(r, p, value);
	for (unsigned i = 0; i < taken; i++)
		value_drop(r->context, value[i]);
	free(value);
	return failed;
}

fusion_capture *fusion_capture_end(fusion_context *context, int outputs, fusion_array *const *output) {
	struct recording r;
	struct fusion_capture *p;
	fusion_capture *name = NULL;
	int failed = 0;

	if (!record_begin_source(&r, "capture_end", context))
		return NULL;
	p = r.context->capture;
	if (!capture_mine(r.context)) {
		record_end_code(&r, fault_set(&r.fault, FAULT_STATE,
					    "capture_end: this thread records no graph of this context"));
		return NULL;
	}
	if (outputs < 1)
		failed = fault_set(&r.fault, FAULT_ARGUMENT, "capture_end: outputs is %d, and a graph has at least one output", outputs);
	else if (!output)
		failed = fault_set(&r.fault, FAULT_ARGUMENT, "capture_end: output is NULL");
	p->ending = true;
	if (!failed)
		failed = capture_define(&r, p, (unsigned)outputs, output);
	p->ending = false;
	if (failed) {
		capture_abort(r.context);
	} else {
		release_recorded(r.context, p);
		name = object_name(OBJECT_CAPTURE, &p->object);
	}
	record_end_code(&r, failed);
	return name;
}

int fusion_capture_abort(fusion_context *context) {
	struct fusion_context *c = (struct fusion_context *)context_lock(OBJECT_CONTEXT, context, "capture_abort", "the context");
	struct fault f;
	int r = 0;

	/* Also where the session is lost. */
	if (!c)
		return context && !context_forked() ? fusion_error_code() : context_enter(context, "capture_abort", &c);
	if (capture_mine(c))
		capture_abort(c);
	else
		r = fault_set(&f, FAULT_STATE, "capture_abort: this thread records no graph of this context");
	context_leave(c);
	return error_report(r, &f);
}
