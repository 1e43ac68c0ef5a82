/* Recorded graphs run again. See capture.h and fusion.h for the contract. */
#include "capture_state.h"

#include <errno.h>
#include <stdlib.h>

#include "sent.h"
#include "context.h"
#include "debug.h"
#include "flush.h"
#include "handle.h"

static int check_replay(const struct fusion_capture *p, fusion_array *const *input,
	fusion_array *const *outputp, struct fault *f) {
	char want[SHAPE_TEXT], have[SHAPE_TEXT];
	struct fusion_array *a;
	int r;

	if (capture_mine(p->context))
		return fault_set(f, FAULT_STATE, "replay: not while a graph is recorded");
	if ((p->given && !input) || !outputp)
		return fault_set(
			f, FAULT_ARGUMENT, "replay: %s is NULL", outputp ? "input" : "outputp");
	for (unsigned i = 0; i < p->given; i++) {
		r = array_find_in(p->context, input, i, "replay", "input", &a, f);
		if (r)
			return r;
		if (a->type.dtype != p->input[i].type.dtype || !shape_equal(&a->type, &p->input[i].type))
			return fault_set(f, FAULT_SHAPE, "replay: input %u was recorded as %s and is %s", i,
				shape_text(&p->input[i].type, want), shape_text(&a->type, have));
	}
	return 0;
}

/* Holds the present values of all inputs. */
static int inputs_hold(
	struct fusion_capture *p, fusion_array *const *input, struct value **value, struct fault *f) {
	int r = 0;

	for (unsigned i = 0; !r && i < p->inputs; i++) {
		struct fusion_array *a = p->input[i].array;

		r = i < p->given ? array_find_in(p->context, input, i, "replay", "input", &a, f) : 0;
		if (!r)
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

/* That no array has; NULL is allowed. */
static void output_drop(struct fusion_context *c, struct value *v) {
	if (!v)
		return;
	slots_forgo(c->slots, v->handle);
	v->handle = 0;
	value_ref(v);
	value_drop(c, v);
}

static void put_handles(struct wire_writer *w, unsigned count, struct value *const *value) {
	wire_put_array(w, count);
	for (unsigned i = 0; i < count; i++)
		wire_put_uint(w, value[i]->handle);
}

/* Arrays for the outputs, before anything is sent: all or none. */
static int outputs_new(struct fusion_capture *p, uint64_t seq, struct sent_batch *b, struct fusion_array **made) {
	struct fusion_context *c = p->context;

	for (unsigned i = 0; i < p->outputs; i++) {
		struct value *v = output_new(c, &p->output[i], seq);

		made[i] = v ? array_make(c, v, &v->type) : NULL;
		if (!made[i]) {
			output_drop(c, v);
			return -ENOMEM;
		}
		b->ops[i] = (struct sent_op){ v->place.line, v->place.file, OP_CAPTURE_INPUT,
			(uint32_t)v->handle };
	}
	return 0;
}

static int send_replay(struct fusion_capture *p, struct request *q, struct value *const *in,
	struct fusion_array *const *output, struct fault *f) {
	struct wire_writer *w = stream_begin_next(p->context, q, REQUEST_REPLAY, 6);
	size_t body = w->buffer.size;

	wire_put_uint(w, 0);
	wire_put_uint(w, p->id);
	put_handles(w, p->inputs, in);
	wire_put_array(w, p->outputs);
	for (unsigned i = 0; i < p->outputs; i++)
		wire_put_uint(w, output[i]->value->handle);
	wire_put_array(w, 0);
	repeat_note(p->context, q, body, false, capture_again(p));
	return stream_send(p->context, q, NULL, f);
}

/* Another engine knows the graph too. */
static int define_again(struct fusion_capture *p, struct fault *f) {
	if (p->context->capture_known[p->id] == p->serial)
		return 0;
	return capture_again(p) ? capture_text_tell(p->context, p->definition, f) : capture_lost("replay", f);
}

static int flush_inputs(const struct fusion_capture *p, struct value *const *in, struct fault *f) {
	int r = 0;

	for (unsigned i = 0; !r && i < p->inputs; i++)
		r = flush_value(p->context, in[i], f);
	return r;
}

/*
 * A request to replay by, once the engine knows the graph and what it reads. Whatever is sent before may wait, and find that the engine was
 * replaced, by one that is to be told first.
 */
static int room_to_replay(struct fusion_capture *p, struct value *const *in, struct request **qp, struct fault *f) {
	struct fusion_context *c = p->context;

	for (;;) {
		int r = define_again(p, f);

		if (!r)
			r = flush_send(c, 0, f);
		if (!r)
			r = flush_inputs(p, in, f);
		if (!r)
			r = stream_room(c, qp, f);
		if (r)
			return r;
		r = flush_inputs(p, in, f);
		if (!r && c->capture_known[p->id] == p->serial)
			return 0;
		stream_forgo(c, *qp);
		if (r)
			return r;
	}
}

static int replay(
	struct fusion_capture *p, struct value *const *in, struct fusion_array **made, struct fault *f) {
	struct fusion_context *c = p->context;
	struct sent_batch *b;
	struct request *q;
	int r = room_to_replay(p, in, &q, f);

	if (r)
		return r;
	r = slots_reserve(c->slots, p->outputs, f);
	if (!r) {
		b = sent_add(c->sent, c->stream.seq + 1, p->outputs, true);
		r = b ? outputs_new(p, c->stream.seq + 1, b, made) : -ENOMEM;
	}
	if (r) {
		stream_forgo(c, q);
		return r;
	}
	return send_replay(p, q, in, made, f);
}

/* The daemon may not know them: their handles are given up, not released. */
static void outputs_drop(struct fusion_context *c, unsigned count, struct fusion_array **made, bool sent) {
	for (unsigned i = 0; i < count; i++) {
		if (made[i] && !sent)
			slots_give_up(c->slots, &made[i]->value->handle);
		if (made[i])
			array_drop(made[i]);
	}
}

static int replay_held(
	struct fusion_capture *p, fusion_array *const *input, fusion_array **outputp, struct fault *f) {
	struct fusion_context *c = p->context;
	struct value **in = calloc(p->inputs + 1, sizeof *in);
	struct fusion_array **made = calloc(p->outputs, sizeof *made);
	int r = in && made ? inputs_hold(p, input, in, f) : -ENOMEM;
	bool sent;

	for (unsigned i = 0; i < p->outputs; i++)
		outputp[i] = NULL;
	if (!r)
		r = replay(p, in, made, f);
	sent = !r;
	for (unsigned i = 0; !r && c->debug && i < p->outputs; i++)
		r = debug_check(c, made[i]->value, f);
	for (unsigned i = 0; !r && i < p->outputs; i++)
		outputp[i] = array_name(made[i]);
	if (r && made)
		outputs_drop(c, p->outputs, made, sent);
	free(made);
	for (unsigned i = 0; in && i < p->inputs; i++)
		if (in[i])
			value_unhold(c, in[i]);
	free(in);
	return r;
}

/*
 * Nobody needs it any more. Where the message cannot be sent now the daemon keeps the graph until its number is taken again.
 */
static void forget(struct fusion_capture *p) {
	struct fusion_context *c = p->context;
	struct request *q;
	struct fault f;

	if (c->stream.lost.code || stream_room(c, &q, &f)) {
		c->capture_used[p->id] = false;
	} else if (c->capture_known[p->id] != p->serial) {
		/* This engine never heard of it. */
		stream_forgo(c, q);
		c->capture_used[p->id] = false;
	} else {
		c->capture_known[p->id] = 0;
		wire_put_uint(stream_begin_next(c, q, REQUEST_FORGET, 2), p->id);
		c->capture_used[p->id] = stream_send(c, q, NULL, &f) != 0;
	}
	capture_destroy(p);
}

/* Another thread may free it while one replays. */
static void capture_drop(struct fusion_capture *p) {
	if (!--p->references)
		forget(p);
}

int fusion_replay(fusion_capture *capture, fusion_array *const *input, fusion_array **outputp) {
	struct fusion_capture *p = (struct fusion_capture *)context_enter_of(OBJECT_CAPTURE, capture, "replay", "the capture");
	struct fusion_context *c;
	struct fault f;
	int r;

	if (!p)
		return fusion_error_code();
	c = p->context;
	p->references++;
	r = check_replay(p, input, outputp, &f);
	if (!r)
		r = replay_held(p, input, outputp, &f);
	capture_drop(p);
	context_leave(c);
	return error_report(r, &f);
}

void fusion_capture_free(fusion_capture *capture) {
	struct fusion_capture *p = (struct fusion_capture *)context_lock(OBJECT_CAPTURE, capture, "capture_free", "the capture");
	struct fusion_context *c;

	if (!p)
		return;
	c = p->context;
	if (object_end(&p->object, capture))
		capture_drop(p);
	context_leave(c);
}
