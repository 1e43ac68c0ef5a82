/* Graphs recorded once. See capture.h and fusion.h for the contract. */
#include "capture.h"

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

struct capture_input {
	struct fusion_array *array; /* hidden inputs: one reference; NULL for those replay is given */
	struct value *symbol;       /* while recording */
	struct tensor_type type;
};

struct fusion_capture {
	struct fusion_context *context;
	pthread_t owner;
	uint64_t serial; /* which marks its values and arrays */
	uint32_t id;     /* number in the daemon */
	unsigned given;  /* inputs that replay is given; the first ones */
	unsigned inputs, room;
	struct capture_input *input;
	struct value_list recorded;
	unsigned outputs;
	struct tensor_type *output;
	/* What DEFINE said of it, for another engine; NULL: it cannot be said again. */
	void *definition;
	size_t definition_bytes;
	uint64_t resumes; /* of the stream, when the daemon's engine was told */
};

/* --- while recording --------------------------------------------------------------------- */

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
static int input_add(struct fusion_capture *p, fusion_array *a, bool hidden) {
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
		a->references++;
	p->input[p->inputs++] = (struct capture_input){ hidden ? a : NULL, symbol, a->type };
	return 0;
}

int capture_readable(const fusion_array *a, const char *what, struct fault *f) {
	if (!a->value || a->value->state != VALUE_CAPTURED)
		return 0;
	return fault_set(f, FAULT_STATE,
		"%s: the array stands in a recorded graph and has no contents; fusion_replay gives its "
		"results",
		what);
}

int capture_writable(const fusion_array *a, const char *what, struct fault *f) {
	if (!capture_mine(a->context) || a->value->state == VALUE_CAPTURED)
		return 0;
	return fault_set(f, FAULT_STATE,
		"%s: an array from outside cannot be written while a graph is recorded", what);
}

int capture_operand(
	struct fusion_context *c, fusion_array *a, const char *what, struct value **vp, struct fault *f) {
	struct fusion_capture *p = c->capture;
	int r = 0;

	*vp = a->value;
	if (!capture_mine(c))
		return capture_readable(a, what, f);
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

/* Releases what a capture refers to; the daemon's side is the caller's business. */
static void capture_destroy(struct fusion_capture *p) {
	struct fusion_context *c = p->context;

	for (unsigned i = 0; i < p->inputs; i++) {
		if (p->input[i].symbol)
			value_unhold(c, p->input[i].symbol);
		if (p->input[i].array)
			array_drop(p->input[i].array);
	}
	free(p->input);
	free(p->output);
	free(p->definition);
	free(p);
	c->references--;
}

static int capture_new(
	struct fusion_context *c, unsigned inputs, fusion_array *const *input, struct fault *f) {
	struct fusion_capture *p = calloc(1, sizeof *p);
	int r;

	if (!p)
		return -ENOMEM;
	p->context = c;
	p->owner = pthread_self();
	p->serial = ++c->captures_made;
	c->references++;
	r = id_take(c, &p->id, f);
	for (unsigned i = 0; !r && i < inputs; i++) {
		if (input[i]->capture == p->serial)
			r = fault_set(f, FAULT_ARGUMENT, "capture_begin: inputs %u and %u are the same array",
				input[i]->input, i);
		else
			r = input_add(p, input[i], false);
	}
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
	int r = 0;

	if (!(c->door.features & FEATURE_REPLAY))
		return fault_set(f, FAULT_VERSION, "capture_begin: this fusiond does not record graphs");
	if (c->capture)
		return fault_set(f, FAULT_STATE,
			"capture_begin: a graph is being recorded already; captures do not nest");
	if (inputs < 0 || (inputs && !input))
		return fault_set(f, FAULT_ARGUMENT, "capture_begin: %d inputs, and where they stand is %s",
			inputs, input ? "known" : "NULL");
	for (int i = 0; !r && i < inputs; i++) {
		if (!input[i] || input[i]->context != c)
			return fault_set(f, FAULT_ARGUMENT, "capture_begin: input %d is %s", i,
				input[i] ? "of another context" : "NULL");
		r = capture_readable(input[i], "capture_begin", f);
	}
	return r;
}

int fusion_capture_begin(fusion_context *context, int inputs, fusion_array *const *input) {
	struct fault f;
	int r = context_enter(context);

	if (r)
		return r;
	r = check_begin(context, inputs, input, &f);
	if (!r)
		r = capture_new(context, (unsigned)inputs, input, &f);
	context_leave(context);
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

void capture_abort(struct fusion_context *c) {
	struct fusion_capture *p = c->capture;

	if (!p)
		return;
	release_recorded(c, p);
	c->capture_used[p->id] = false;
	capture_destroy(p);
}

/* Outputs are operations of the graph: inputs and arrays from outside are copied into it. */
static int output_value(struct recording *r, fusion_array *a, struct value **vp) {
	struct value *v;
	int failed = array_usable(a, r->what, &r->fault);

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
		array_drop(in->array);
	}
	p->inputs = kept;
}

static void put_define(
	struct fusion_capture *p, struct wire_writer *w, uint32_t operations, struct value *const *output) {
	wire_put_uint(w, p->id);
	wire_put_array(w, p->inputs);
	for (unsigned i = 0; i < p->inputs; i++)
		codec_put_type(w, &p->input[i].type);
	wire_put_array(w, operations);
	for (const struct value *v = p->recorded.first; v; v = v->next)
		if (v->needed)
			flush_put_value(p->context, w, v);
	wire_put_array(w, p->outputs);
	for (unsigned i = 0; i < p->outputs; i++)
		wire_put_uint(w, output[i]->index);
}

/* Numbers what the outputs need. */
static int number_recorded(
	struct fusion_capture *p, struct value *const *output, uint32_t *countp, struct fault *f) {
	for (unsigned i = 0; i < p->outputs; i++) {
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
static void keep_definition(struct fusion_capture *p, const struct wire_writer *w, size_t begin) {
	p->resumes = p->context->stream.resumes;
	p->definition_bytes = w->buffer.size - begin;
	p->definition = names_own(p) ? NULL : malloc(p->definition_bytes);
	if (p->definition)
		memcpy(p->definition, w->buffer.data + begin, p->definition_bytes);
}

static int define(struct recording *r, struct fusion_capture *p, struct value *const *output) {
	struct fusion_context *c = p->context;
	uint32_t operations;
	struct wire_writer *w;
	struct request *q;
	struct answer a;
	size_t begin;
	int failed = stream_room_to_wait(c, &q, &r->fault);

	if (failed)
		return failed;
	failed = number_recorded(p, output, &operations, &r->fault);
	if (failed) {
		stream_forgo(c, q);
		return failed;
	}
	w = stream_begin_next(c, q, REQUEST_DEFINE, 5);
	begin = w->buffer.size;
	put_define(p, w, operations, output);
	keep_definition(p, w, begin);
	return stream_ask(c, q, &a, &r->fault);
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
		failed = output_value(r, output[taken], &value[taken]);
	if (!failed)
		failed = define(r, p, value);
	for (unsigned i = 0; i < taken; i++)
		value_drop(r->context, value[i]);
	free(value);
	return failed;
}

static int check_end(
	const struct fusion_context *c, int outputs, fusion_array *const *output, struct fault *f) {
	if (outputs < 1 || !output)
		return fault_set(f, FAULT_ARGUMENT, "capture_end: a graph needs at least one output");
	for (int i = 0; i < outputs; i++)
		if (!output[i] || output[i]->context != c)
			return fault_set(f, FAULT_ARGUMENT, "capture_end: output %d is %s", i,
				output[i] ? "of another context" : "NULL");
	return 0;
}

fusion_capture *fusion_capture_end(fusion_context *context, int outputs, fusion_array *const *output) {
	struct recording r;
	struct fusion_capture *p;
	int failed;

	if (!record_begin_source(&r, "capture_end", context))
		return NULL;
	p = context->capture;
	if (!capture_mine(context)) {
		record_end_code(&r, fault_set(&r.fault, FAULT_STATE,
					    "capture_end: this thread records no graph of this context"));
		return NULL;
	}
	failed = check_end(context, outputs, output, &r.fault);
	if (!failed)
		failed = capture_define(&r, p, (unsigned)outputs, output);
	if (failed)
		capture_abort(context);
	else
		release_recorded(context, p);
	return record_end_code(&r, failed) ? NULL : p;
}

/* --- replay ------------------------------------------------------------------------------ */

static int check_replay(const struct fusion_capture *p, fusion_array *const *input,
	fusion_array *const *outputp, struct fault *f) {
	char want[SHAPE_TEXT], have[SHAPE_TEXT];

	if (capture_mine(p->context))
		return fault_set(f, FAULT_STATE, "replay: not while a graph is recorded");
	if ((p->given && !input) || !outputp)
		return fault_set(
			f, FAULT_ARGUMENT, "replay: the %s are NULL", outputp ? "inputs" : "outputs");
	for (unsigned i = 0; i < p->given; i++) {
		if (!input[i] || input[i]->context != p->context)
			return fault_set(f, FAULT_ARGUMENT, "replay: input %u is %s", i,
				input[i] ? "of another context" : "NULL");
		if (input[i]->type.dtype != p->input[i].type.dtype ||
			!shape_equal(&input[i]->type, &p->input[i].type))
			return fault_set(f, FAULT_SHAPE, "replay: input %u was recorded as %s and is %s", i,
				shape_text(&p->input[i].type, want), shape_text(&input[i]->type, have));
	}
	return 0;
}

/* Holds the present values of all inputs. */
static int inputs_hold(
	struct fusion_capture *p, fusion_array *const *input, struct value **value, struct fault *f) {
	int r = 0;

	for (unsigned i = 0; !r && i < p->inputs; i++) {
		const fusion_array *a = i < p->given ? input[i] : p->input[i].array;

		r = array_usable(a, "replay", f);
		if (!r)
			r = capture_readable(a, "replay", f);
		if (r)
			break;
		value[i] = a->value;
		value_hold(value[i]);
	}
	return r;
}

/* A value that a replay makes, named by a handle from the start. */
static struct value *output_new(struct fusion_context *c, const struct tensor_type *type, uint64_t seq) {
	struct value *v = value_new(c, OP_CAPTURE_INPUT, type, NULL);

	if (!v)
		return NULL;
	v->state = VALUE_SENT;
	v->seq = seq;
	v->place = place_here();
	v->handle = slots_take(c->slots, v);
	return v;
}

static void put_handles(struct wire_writer *w, unsigned count, struct value *const *value) {
	wire_put_array(w, count);
	for (unsigned i = 0; i < count; i++)
		wire_put_uint(w, value[i]->handle);
}

/* Arrays for the outputs, before anything is sent: all or none. */
static int outputs_new(struct fusion_capture *p, uint64_t seq, struct sent_batch *b, fusion_array **outputp) {
	struct fusion_context *c = p->context;

	for (unsigned i = 0; i < p->outputs; i++) {
		struct value *v = output_new(c, &p->output[i], seq);

		outputp[i] = v ? array_make(c, v, &v->type) : NULL;
		if (!outputp[i])
			return -ENOMEM;
		b->ops[i] = (struct sent_op){ v->place.line, v->place.file, OP_CAPTURE_INPUT,
			(uint32_t)v->handle };
	}
	return 0;
}

static int send_replay(struct fusion_capture *p, struct request *q, struct value *const *in,
	fusion_array *const *output, struct fault *f) {
	struct wire_writer *w = stream_begin_next(p->context, q, REQUEST_REPLAY, 6);

	wire_put_uint(w, 0);
	wire_put_uint(w, p->id);
	put_handles(w, p->inputs, in);
	wire_put_array(w, p->outputs);
	for (unsigned i = 0; i < p->outputs; i++)
		wire_put_uint(w, output[i]->value->handle);
	wire_put_array(w, 0);
	return stream_send(p->context, q, NULL, f);
}

/* Another engine knows the graph too. */
static int define_again(struct fusion_capture *p, struct fault *f) {
	struct fusion_context *c = p->context;
	uint64_t resumes = c->stream.resumes;
	struct wire_writer *w;
	struct request *q;
	struct answer a;
	int r;

	if (p->resumes == resumes)
		return 0;
	if (!p->definition)
		return fault_set(f, FAULT_LOST, "replay: the recorded graph went with the engine, which was replaced; record it again");
	r = stream_room_to_wait(c, &q, f);
	if (r)
		return r;
	w = stream_begin_next(c, q, REQUEST_DEFINE, 5);
	wire_put_raw(w, p->definition, p->definition_bytes);
	r = stream_ask(c, q, &a, f);
	if (!r)
		p->resumes = resumes;
	return r;
}

static int replay(
	struct fusion_capture *p, struct value *const *in, fusion_array **outputp, struct fault *f) {
	struct fusion_context *c = p->context;
	struct sent_batch *b;
	struct request *q;
	int r = define_again(p, f);

	if (!r)
		r = flush_send(c, 0, f);
	for (unsigned i = 0; !r && i < p->inputs; i++)
		r = flush_value(c, in[i], f);
	if (!r)
		r = stream_room(c, &q, f);
	if (r)
		return r;
	/* While there was no room the engine may have been replaced. */
	r = p->resumes == c->stream.resumes ? 0 : fault_set(f, FAULT_REPEATABLE, "replay: the engine was replaced; replay it again");
	for (unsigned i = 0; !r && i < p->inputs; i++)
		r = flush_value(c, in[i], f);
	if (r) {
		stream_forgo(c, q);
		return r;
	}
	r = slots_reserve(c->slots, p->outputs, f);
	if (!r) {
		b = sent_add(c->sent, c->stream.seq + 1, p->outputs, true);
		r = b ? outputs_new(p, c->stream.seq + 1, b, outputp) : -ENOMEM;
	}
	if (r) {
		stream_forgo(c, q);
		return r;
	}
	return send_replay(p, q, in, outputp, f);
}

/* The daemon may not know them: their handles are given up, not released. */
static void outputs_drop(unsigned count, fusion_array **outputp, bool sent) {
	for (unsigned i = 0; i < count; i++) {
		if (outputp[i] && !sent)
			outputp[i]->value->handle = 0;
		if (outputp[i])
			array_drop(outputp[i]);
		outputp[i] = NULL;
	}
}

static int replay_held(
	struct fusion_capture *p, fusion_array *const *input, fusion_array **outputp, struct fault *f) {
	struct fusion_context *c = p->context;
	struct value **in = calloc(p->inputs + 1, sizeof *in);
	int r = in ? inputs_hold(p, input, in, f) : -ENOMEM;
	bool sent;

	for (unsigned i = 0; i < p->outputs; i++)
		outputp[i] = NULL;
	if (!r)
		r = replay(p, in, outputp, f);
	sent = !r;
	for (unsigned i = 0; !r && c->debug && i < p->outputs; i++)
		r = debug_check(c, outputp[i]->value, f);
	if (r)
		outputs_drop(p->outputs, outputp, sent);
	for (unsigned i = 0; in && i < p->inputs; i++)
		if (in[i])
			value_unhold(c, in[i]);
	free(in);
	return r;
}

int fusion_replay(fusion_capture *capture, fusion_array *const *input, fusion_array **outputp) {
	struct fault f;
	int r;

	if (!capture)
		return fusion_error_code()
			       ? fusion_error_code()
			       : error_report(
					 fault_set(&f, FAULT_ARGUMENT, "replay: the capture is NULL"), &f);
	r = context_enter(capture->context);
	if (r)
		return r;
	r = check_replay(capture, input, outputp, &f);
	if (!r)
		r = replay_held(capture, input, outputp, &f);
	context_leave(capture->context);
	return error_report(r, &f);
}

/* Where the message cannot be sent the daemon keeps the graph, and its number stays taken. */
void fusion_capture_free(fusion_capture *capture) {
	struct fusion_context *c = capture ? capture->context : NULL;
	struct request *q;
	struct fault f;

	if (!capture || !context_enter_release(c))
		return;
	if (c->stream.lost.code || stream_room(c, &q, &f)) {
		capture_destroy(capture);
		context_leave(c);
		return;
	}
	if (capture->resumes != c->stream.resumes) {
		/* This engine never heard of it. */
		stream_forgo(c, q);
		c->capture_used[capture->id] = false;
	} else {
		wire_put_uint(stream_begin_next(c, q, REQUEST_FORGET, 2), capture->id);
		c->capture_used[capture->id] = stream_send(c, q, NULL, &f) != 0;
	}
	capture_destroy(capture);
	context_leave(c);
}
