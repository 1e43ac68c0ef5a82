/* What was sent and may still fail. See sent.h for the contract. */
#include "sent.h"

#include <stdlib.h>

#include "protocol/wire.h"
#include "context.h"
#include "handle.h"
#include "held.h"

enum {
	/* 256 KiB of places: the last 21 batches of the usual size. */
	SENT_OPS = (256 << 10) / sizeof(struct sent_op),
};

struct sent *sent_new(void) {
	return calloc(1, sizeof(struct sent));
}

static void sent_drop_first(struct sent *b) {
	struct sent_batch *first = b->first;

	b->first = first->next;
	if (!b->first)
		b->last = NULL;
	if (b->accepted == first)
		b->accepted = NULL;
	b->ops -= first->count;
	free(first);
}

struct sent *sent_free(struct sent *b) {
	while (b && b->first)
		sent_drop_first(b);
	free(b);
	return NULL;
}

struct sent_batch *sent_add(struct sent *b, uint64_t seq, uint32_t count, bool whole) {
	struct sent_batch *n = malloc(sizeof *n + count * sizeof *n->ops);

	if (!n)
		return NULL;
	while (b->first && b->first->accepted && b->ops + count > SENT_OPS)
		sent_drop_first(b);
	*n = (struct sent_batch){ .seq = seq, .count = count, .whole = whole };
	if (b->last)
		b->last->next = n;
	else
		b->first = n;
	b->last = n;
	b->ops += count;
	return n;
}

static struct sent_batch *sent_find(const struct sent *b, uint64_t seq) {
	struct sent_batch *n = b->accepted && b->accepted->seq <= seq ? b->accepted : b->first;

	while (n && n->seq < seq)
		n = n->next;
	return n && n->seq == seq ? n : NULL;
}

/* Replies overtake each other: a batch may be known to have run before it is known to be accepted. */
static void sent_drop_done(struct sent *b) {
	while (b->first && b->first->accepted && b->first->seq <= b->done)
		sent_drop_first(b);
}

void sent_accepted(struct sent *b, uint64_t seq) {
	struct sent_batch *n = sent_find(b, seq);

	if (n) {
		n->accepted = true;
		b->accepted = n;
	}
	sent_drop_done(b);
}

void sent_done(struct sent *b, uint64_t seq) {
	if (b->done < seq)
		b->done = seq;
	sent_drop_done(b);
}

static const struct sent_op *sent_op(const struct sent_batch *b, int64_t node) {
	if (!b || !b->count)
		return NULL;
	if (b->whole)
		return &b->ops[0];
	return node >= 0 && node < b->count ? &b->ops[node] : NULL;
}

bool sent_place(const struct sent *b, uint64_t seq, int64_t node, struct fault *f) {
	const struct sent_op *o = sent_op(sent_find(b, seq), node);

	if (o)
		place_append(f, (struct place){ .line = o->line, .file = o->file });
	return o != NULL;
}

/* Fails the array that an operation made, where somebody still holds it. */
static void op_fail(struct fusion_context *c, const struct sent_batch *b, const struct sent_op *o,
	struct failure *failure) {
	struct value *v = slots_value(c->slots, o->slot);

	if (v && v->seq == b->seq)
		value_fail(c, v, failure);
}

static void ops_fail(struct fusion_context *c, const struct sent_batch *b, const struct fault *f) {
	struct failure *failure = failure_new(c, f);

	for (uint32_t i = 0; i < b->count; i++)
		op_fail(c, b, &b->ops[i], failure);
	failure_drop(c, failure);
}

void sent_refused(struct fusion_context *c, uint64_t seq, int64_t node, struct fault *f) {
	struct sent_batch *b = sent_find(c->sent, seq);

	held_append(c, f);
	sent_place(c->sent, seq, node, f);
	if (!c->deferred.code)
		c->deferred = *f;
	if (!b)
		return;
	ops_fail(c, b, f);
	sent_accepted(c->sent, seq);
}

void sent_resumed(struct sent *s, uint64_t seq, bool (*stays)(void *user, uint64_t seq), void *user) {
	struct sent_batch **link = &s->first, *b;

	s->last = s->accepted = NULL;
	while ((b = *link)) {
		bool accepted = b->seq <= seq;

		if (accepted || stays(user, b->seq)) {
			b->accepted = accepted;
			s->last = b;
			link = &b->next;
			continue;
		}
		*link = b->next;
		s->ops -= b->count;
		free(b);
	}
}

void sent_renumber(struct sent *s, uint64_t from, uint64_t to) {
	struct sent_batch *b = s->first;

	while (b && b->seq != from)
		b = b->next;
	if (b)
		b->seq = to;
}

static void fault_found(struct fusion_context *c, uint64_t seq, int64_t node, struct fault *f) {
	struct sent_batch *b = sent_find(c->sent, seq);
	const struct sent_op *o = sent_op(b, node);
	struct failure *failure;

	held_append(c, f);
	sent_place(c->sent, seq, node, f);
	if (!c->deferred.code)
		c->deferred = *f;
	if (!o)
		return;
	if (b->whole) {
		ops_fail(c, b, f);
		return;
	}
	failure = failure_new(c, f);
	op_fail(c, b, o, failure);
	failure_drop(c, failure);
}

static int read_fault(struct fusion_context *c, struct wire_cursor *list, struct fault *f) {
	struct wire_cursor entry;
	struct fault found;
	const char *sentence;
	uint64_t seq, code;
	int64_t node;
	size_t size;
	int r = wire_get_array(list, "fault", 4, &entry, f);

	if (!r)
		r = wire_get_uint(&entry, "fault seq", INT64_MAX, &seq, f);
	if (!r)
		r = wire_get_int(&entry, "fault node", -1, LIMIT_BATCH_OPS, &node, f);
	if (!r)
		r = wire_get_uint(&entry, "fault code", INT32_MAX, &code, f);
	if (!r)
		r = wire_get_text(&entry, "fault sentence", LIMIT_SENTENCE, &sentence, &size, f);
	if (r)
		return r;
	fault_set(&found, code ? (int)code : FAULT_INTERNAL, "%.*s", (int)size, sentence);
	fault_found(c, seq, node, &found);
	return 0;
}

int sent_faults(struct fusion_context *c, struct wire_cursor *cursor, struct fault *f) {
	struct wire_cursor list;
	int r = wire_get_array(cursor, "faults", LIMIT_FRAME_BYTES, &list, f);

	while (!r && list.left)
		r = read_fault(c, &list, f);
	return r;
}
