/* Sending what is recorded. See flush.h for the contract. */
#include "flush.h"

#include <errno.h>
#include <string.h>

#include "protocol/codec.h"
#include "sent.h"
#include "context.h"
#include "define.h"
#include "handle.h"
#include "tape.h"
#include "undo.h"

enum {
	/* Bounds on the bytes of one operation; with its output and a share of the frame's rest. */
	VALUE_BYTES = 64,
	VALUE_ATTR_BYTES = 64,
	VALUE_AXIS_BYTES = 27,
	/* Operations of one frame; what is left of LIMIT_FRAME_BYTES is for the releases. */
	FRAME_OPS_BYTES = 3 << 20,
	/* Releases of one frame: 9 bytes each. */
	FRAME_RELEASES = 1 << 16,
	/* Uploads that wait to be sent: memory that a loop could pile up. */
	LOADS_BYTES = 32 << 20,
	/* Released arrays that the daemon does not know of yet: memory it could use. */
	RELEASED_COUNT = 4096,
	RELEASED_BYTES = 16 << 20,
};

uint64_t flush_value_bytes(const struct value *v) {
	return VALUE_BYTES + (v->attr ? VALUE_ATTR_BYTES + (uint64_t)VALUE_AXIS_BYTES * v->attr->rank : 0);
}

/* As codec.h says: operations of the same list are numbers from 0, handles are below. */
static int64_t operand_number(const struct value *v) {
	if (v->op == OP_CAPTURE_INPUT && v->state == VALUE_CAPTURED)
		return -1 - (int64_t)v->index;
	if (v->state == VALUE_PENDING || v->state == VALUE_CAPTURED)
		return v->index;
	return -1 - (int64_t)v->handle;
}

void flush_put_value(const struct fusion_context *c, struct wire_writer *w, const struct value *v) {
	struct coded_op o;

	o.op = v->op;
	o.theirs = (uint16_t)defined_number(c, v->op);
	o.arity = v->arity;
	for (unsigned i = 0; i < v->arity; i++)
		o.in[i] = operand_number(v->in[i]);
	if (v->attr)
		o.attr = *v->attr;
	codec_put_op(w, &o);
}

/* Numbers the pending operations; returns how many have an output. */
static uint32_t number_values(struct fusion_context *c) {
	uint32_t index = 0, outputs = 0;

	for (struct value *v = c->pending.first; v; v = v->next) {
		v->index = index++;
		outputs += v->holders != 0;
	}
	return outputs;
}

/* True where one of them is the administrator's, whose number is one engine's. */
static bool put_operations(struct fusion_context *c, struct wire_writer *w, struct sent_batch *b) {
	bool own = false;

	wire_put_array(w, c->pending.count);
	for (struct value *v = c->pending.first; v; v = v->next) {
		struct sent_op *o = &b->ops[v->index];

		flush_put_value(c, w, v);
		v->handle = v->holders ? slots_take(c->slots, v) : 0;
		*o = (struct sent_op){ .line = v->place.line, .file = v->place.file, .op = v->op };
		o->slot = v->handle ? (uint32_t)v->handle : SENT_NO_SLOT;
		own |= op_is_own(v->op);
	}
	return own;
}

static void put_outputs(struct fusion_context *c, struct wire_writer *w, uint32_t outputs) {
	wire_put_array(w, 2 * outputs);
	for (const struct value *v = c->pending.first; v; v = v->next) {
		if (!v->handle)
			continue;
		wire_put_uint(w, v->index);
		wire_put_uint(w, v->handle);
	}
}

/* No more than a number has room for: a program that never asks for anything. */
static uint32_t add_up(uint32_t a, uint32_t b) {
	return a + b < a ? UINT32_MAX : a + b;
}

uint32_t flush_sent_before(const struct value *v) {
	uint32_t most = 0;

	for (unsigned i = 0; i < v->arity; i++) {
		const struct value *in = v->in[i];
		uint32_t before = in->state == VALUE_SENT && in->overfull ? add_up(in->before, in->batch) : 0;

		most = before > most ? before : most;
	}
	return most;
}

/* Of all that is pending. */
static uint32_t sent_before(const struct fusion_context *c) {
	uint32_t most = 0;

	for (const struct value *v = c->pending.first; v; v = v->next) {
		uint32_t before = flush_sent_before(v);

		most = before > most ? before : most;
	}
	return most;
}

/* The operations are written: each lets go of its operands, which may add to the releases. */
static void settle_values(struct fusion_context *c, uint64_t seq, bool overfull) {
	struct value *v = c->pending.first, *next;
	uint32_t batch = c->pending.count, before = sent_before(c);

	c->pending = (struct value_list){ 0 };
	c->pending_bytes = 0;
	c->pending_loads = 0;
	memset(c->scalars, 0, sizeof c->scalars);
	for (struct value *each = v; each; each = each->next) {
		each->state = VALUE_SENT;
		each->seq = seq;
		each->overfull = overfull;
		each->batch = batch;
		each->before = before;
		if (each->op == OP_load)
			upload_sent(&c->arenas, upload_key(each->attr->arena, each->attr->offset));
		tape_count(c, each);
	}
	for (; v; v = next) {
		unsigned arity = v->arity;

		next = v->next;
		v->arity = 0;
		for (unsigned i = 0; i < arity; i++)
			value_drop(c, v->in[i]);
	}
}

static uint32_t put_releases(struct fusion_context *c, struct wire_writer *w) {
	uint32_t count = c->slots->released_count;

	if (count > FRAME_RELEASES)
		count = FRAME_RELEASES;
	wire_put_array(w, count);
	for (uint32_t i = 0; i < count; i++)
		wire_put_uint(w, c->slots->released[i]);
	return count;
}

/* What the operations load goes before them, to a daemon on another machine. */
static int upload_loads(struct fusion_context *c, struct fault *f) {
	int r = 0;

	for (const struct value *v = c->pending.first; !r && c->door.link && v; v = v->next)
		if (v->op == OP_load)
			r = stream_upload(c, v->attr->arena, v->attr->offset,
				upload_memory(&c->arenas, v->attr->arena, v->attr->offset), (uint64_t)shape_bytes(&v->type), f);
	return r;
}

/* Writes and sends a batch of everything pending, or of the releases alone. */
static int batch_send(
	struct fusion_context *c, struct request *q, bool operations, unsigned flags, struct fault *f) {
	uint32_t outputs = operations ? number_values(c) : 0;
	uint32_t count = operations ? c->pending.count : 0;
	int r = slots_reserve(c->slots, outputs, f);
	struct sent_batch *b = r ? NULL : sent_add(c->sent, c->stream.seq + 1, count, false);
	struct wire_writer *w;
	uint32_t releases;
	bool own = false;
	size_t body;

	if (!r && !b)
		r = -ENOMEM;
	if (!r && operations)
		r = upload_loads(c, f);
	if (r) {
		stream_forgo(c, q);
		return r;
	}
	w = stream_begin_next(c, q, REQUEST_SUBMIT, 5);
	body = w->buffer.size;
	wire_put_uint(w, flags);
	if (operations) {
		own = put_operations(c, w, b);
		put_outputs(c, w, outputs);
		settle_values(c, q->seq, !(flags & SUBMIT_URGENT));
	} else {
		wire_put_array(w, 0);
		wire_put_array(w, 0);
	}
	releases = put_releases(c, w);
	repeat_note(c, q, body, own, NULL);
	r = stream_send(c, q, NULL, f);
	slots_recycle(c->slots, releases);
	return r;
}

static bool nothing_to_send(const struct fusion_context *c) {
	return !c->pending.count && !c->slots->released_count;
}

int flush_send(struct fusion_context *c, unsigned flags, struct fault *f) {
	struct request *q;
	int r;

	if (nothing_to_send(c))
		return 0;
	r = undo_await(c, NULL, f);
	if (!r)
		r = stream_room(c, &q, f);
	if (r)
		return r;
	if (!nothing_to_send(c))
		return batch_send(c, q, c->pending.count != 0, flags, f);
	stream_forgo(c, q);
	return 0;
}

int flush_if_full(struct fusion_context *c, struct fault *f) {
	if (c->pending.count < c->batch_ops && c->pending_bytes < FRAME_OPS_BYTES &&
		c->pending_loads < LOADS_BYTES)
		return 0;
	return flush_send(c, 0, f);
}

uint64_t flush_release_bytes(const struct value *v) {
	return v->shared ? RELEASED_BYTES : (uint64_t)shape_bytes(&v->type);
}

static bool releases_due(const struct fusion_context *c) {
	return c->slots->released_count >= RELEASED_COUNT || c->slots->released_bytes >= RELEASED_BYTES;
}

int flush_overdue(struct fusion_context *c, struct fault *f) {
	return releases_due(c) ? flush_send(c, 0, f) : 0;
}

void flush_releases(struct fusion_context *c) {
	struct request *q;
	struct fault f;

	if (!releases_due(c))
		return;
	/* A failure loses the connection, and the next call says so. */
	if (stream_has_room(c) && !stream_room(c, &q, &f) && batch_send(c, q, false, 0, &f))
		return;
}

/* Is a request that changes the session, up to this number, still unanswered? */
static bool accepting(const struct fusion_context *c, uint64_t seq) {
	for (unsigned i = 0; i < STREAM_REQUESTS; i++) {
		const struct request *q = &c->stream.request[i];

		if (q->busy && stream_ordered(q) && q->seq <= seq)
			return true;
	}
	return false;
}

int wait_accepted(struct fusion_context *c, uint64_t seq, struct fault *f) {
	int r = 0;

	while (!r && accepting(c, seq))
		r = stream_wait_any(c, f);
	return r;
}

/* Where the engine was replaced meanwhile the next one is asked, for what is left. */
static int ask_wait(struct fusion_context *c, uint64_t seq, struct fault *f) {
	struct request *q;
	struct answer a;
	int r;

	do {
		a.again = false;
		r = stream_room_to_wait(c, &q, f);
		if (r)
			return r;
		if (seq > c->stream.seq)
			seq = c->stream.seq;
		wire_put_uint(stream_begin(c, q, REQUEST_WAIT, 1), seq);
		q->seq = seq;
		r = stream_ask(c, q, &a, f);
	} while (a.again);
	return r;
}

int wait_for(struct fusion_context *c, uint64_t seq, struct fault *f) {
	int r = c->stream.completed < seq ? ask_wait(c, seq, f) : 0;

	return r ? r : wait_accepted(c, seq, f);
}

int flush_and_wait(struct fusion_context *c, struct fault *f) {
	int r;

	stream_cork(c);
	r = flush_send(c, SUBMIT_URGENT, f);
	if (!r)
		r = wait_for(c, c->stream.seq, f);
	stream_uncork(c);
	return r;
}

int flush_and_wait_for(struct fusion_context *c, struct value *v, struct fault *f) {
	int r;

	stream_cork(c);
	r = flush_value(c, v, f);
	if (!r)
		r = wait_for(c, v->seq, f);
	stream_uncork(c);
	return r;
}

int flush_value(struct fusion_context *c, struct value *v, struct fault *f) {
	int r = v->state == VALUE_PENDING ? flush_send(c, SUBMIT_URGENT, f) : undo_await(c, v, f);

	if (!r && v->state == VALUE_FAILED) {
		*f = v->failure->fault;
		r = f->code;
	}
	return r;
}

int fusion_flush(fusion_context *context) {
	struct fusion_context *c;
	struct fault f;
	int r = context_enter(context, "flush", &c);

	if (r)
		return r;
	r = flush_send(c, SUBMIT_URGENT, &f);
	context_leave(c);
	return error_report(r, &f);
}

int fusion_sync(fusion_context *context) {
	struct fusion_context *c;
	struct fault f;
	int r = context_enter(context, "sync", &c);

	if (r)
		return r;
	r = flush_and_wait(c, &f);
	if (!r && c->deferred.code) {
		f = c->deferred;
		r = f.code;
		c->deferred.code = 0;
	}
	context_leave(c);
	return error_report(r, &f);
}
