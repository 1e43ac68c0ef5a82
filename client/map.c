/*
 * Writing arrays: in their own memory, and by giving them new values.
 *
 * fusion_copy_into() and fusion_fill_into() change nothing that exists: the array gets another
 * value, and views of the old one keep it. Only a map for writing changes memory in place, and the
 * daemon grants it when nothing reads it and nothing else shares it; where the client itself knows
 * of others that hold the value, the array is given a copy first.
 */
#include <errno.h>
#include <stdlib.h>

#include "sent.h"
#include "capture.h"
#include "context.h"
#include "flush.h"
#include "handle.h"
#include "read.h"
#include "record.h"
#include "tape.h"
#include "undo.h"

/* --- map --------------------------------------------------------------------------------- */

static void mapping_end(struct fusion_context *c, struct fusion_array *a) {
	struct mapping *m = a->mapping;

	a->mapping = NULL;
	mapping_free(c, m);
}

static int refuse_mapped(struct fault *f) {
	return fault_set(f, FAULT_STATE, "map: the array is mapped already; call fusion_unmap first");
}

/*
 * The daemon grants a map for writing when nothing it knows of reads the memory, so it must know of
 * every operation recorded before; and it may meet requests out of order.
 */
static int announce_readers(struct fusion_context *c, struct fault *f) {
	int r = flush_send(c, SUBMIT_URGENT, f);

	return r ? r : wait_accepted(c, c->stream.seq, f);
}

static struct mapping *mapping_new(const struct fusion_array *a, enum fusion_map_mode mode) {
	struct mapping *m = calloc(1, sizeof *m);

	if (!m)
		return NULL;
	*m = (struct mapping){ .mode = mode, .count = 1, .value = a->value };
	value_hold(m->value);
	return m;
}

/* Asks where the value lies; gives the lock up. */
static int mapping_locate(struct recording *r, struct mapping *m) {
	struct location l;
	int failed = read_locate(
		r->context, m->value, m->mode == FUSION_MAP_WRITE ? REQUEST_MAP : REQUEST_READ, &l, &r->fault);

	if (failed)
		return failed;
	m->arena = l.arena;
	m->memory = l.memory;
	m->copy = l.copy;
	m->id = l.id;
	m->offset = l.offset;
	return 0;
}

/* The mapping is in place while it is asked for, so that other threads keep off. */
static int map_for_writing(struct recording *r, struct fusion_array *a) {
	struct fusion_context *c = r->context;
	struct mapping *m = mapping_new(a, FUSION_MAP_WRITE);
	int failed;

	if (!m)
		return -ENOMEM;
	m->asked = true;
	a->mapping = m;
	failed = announce_readers(c, &r->fault);
	if (!failed)
		failed = mapping_locate(r, m);
	m->asked = false;
	if (failed)
		mapping_end(c, a);
	return failed;
}

/* Gives the array a value that nobody else holds. */
static int make_private(struct recording *r, struct fusion_array *a) {
	struct value *copy;
	uint64_t version = a->version;
	int failed;

	if (a->value->holders == 1 && !a->value->taped)
		return 0;
	if (a->value->shared)
		return fault_set(&r->fault, FAULT_STATE, "map: the array is shared with other processes, and other arrays "
			"of this one are the same: give those a copy first");
	failed = record_value(r, OP_copy, 1, &a->value, NULL, &copy);
	if (failed)
		return failed;
	copy->leaf = a->watched;
	array_rebind(a, copy);
	a->version = version;
	value_drop(r->context, copy);
	return 0;
}

/* A second map for reading of the same contents; *donep: there is nothing else to do. */
static int map_again(struct fusion_array *a, enum fusion_map_mode mode, bool *donep, struct fault *f) {
	struct mapping *m = a->mapping;

	*donep = m != NULL;
	if (!m)
		return 0;
	if (mode != FUSION_MAP_READ || m->mode != FUSION_MAP_READ || m->value != a->value)
		return refuse_mapped(f);
	m->count++;
	return 0;
}

/* Several threads may ask at once; the first that has the answer puts the mapping in place for all. */
static int map_for_reading(struct recording *r, struct fusion_array *a) {
	struct mapping *m = mapping_new(a, FUSION_MAP_READ);
	int failed = m ? mapping_locate(r, m) : -ENOMEM;
	bool done = false;

	if (!failed)
		failed = map_again(a, FUSION_MAP_READ, &done, &r->fault);
	if (failed || done)
		mapping_free(r->context, m);
	else
		a->mapping = m;
	return failed;
}

/* What was asked of the value before, and is not answered yet, holds it, too. */
static int await_answers(struct recording *r, const struct fusion_array *a) {
	struct fusion_context *c = r->context;
	int failed = 0;

	undo_now(c);
	while (!failed && a->value->holders > 1 && a->value->holders - stream_holds(&c->stream, a->value) == 1) {
		failed = stream_wait_any(c, &r->fault);
		undo_now(c);
	}
	return failed;
}

static int map_locked(struct recording *r, struct fusion_array *a, enum fusion_map_mode mode) {
	bool done = false;
	int failed = array_usable(a, "map", &r->fault);

	if (!failed)
		failed = capture_readable(a, "map", &r->fault);
	if (!failed && mode == FUSION_MAP_WRITE)
		failed = capture_writable(a, "map", &r->fault);
	if (!failed && mode == FUSION_MAP_WRITE && !a->mapping)
		failed = await_answers(r, a);
	if (!failed)
		failed = map_again(a, mode, &done, &r->fault);
	if (failed || done)
		return failed;
	if (mode == FUSION_MAP_READ)
		return map_for_reading(r, a);
	failed = make_private(r, a);
	return failed ? failed : map_for_writing(r, a);
}

static int check_map(
	enum fusion_map_mode mode, void *const *memoryp, struct fault *f) {
	if (!memoryp)
		return fault_set(f, FAULT_ARGUMENT, "map: memoryp is NULL");
	if (mode != FUSION_MAP_READ && mode != FUSION_MAP_WRITE)
		return fault_set(f, FAULT_ARGUMENT, "map: %d is no mode", (int)mode);
	return 0;
}

int fusion_map(fusion_array *array, enum fusion_map_mode mode, void **memoryp) {
	struct recording r;
	struct fusion_array *a = record_begin_array(&r, "map", array);
	int failed;

	if (!a)
		return fusion_error_code();
	failed = check_map(mode, memoryp, &r.fault);
	if (!failed)
		failed = map_locked(&r, a, mode);
	if (!failed)
		*memoryp = a->mapping->memory;
	return record_end_code(&r, failed);
}

/* --- unmap ------------------------------------------------------------------------------- */

/* fusion_create's array gets its first value. */
static int unmap_created(struct recording *r, struct fusion_array *a) {
	struct mapping *m = a->mapping;
	struct value *v;
	int failed = record_value(r, OP_load, 0, NULL, &m->load, &v);

	if (failed)
		return failed;
	m->upload = 0;                   /* it goes to the daemon */
	mapping_end(r->context, a);
	v->leaf = a->watched;
	array_rebind(a, v);
	value_drop(r->context, v);
	return record_settle(r, a->value);
}

/*
 * Who is told by this process that it has written asks through a connection of his own, which the daemon may hear first. Where an engine ended that may not
 * have heard of it, the next one is told (resume.c).
 */
static int await_seen(struct fusion_context *c, struct request *q, struct value *v, struct answer *answer, struct fault *f) {
	int failed;

	value_ref(v);
	failed = stream_wait(c, q, answer, f);
	if (failed == FAULT_REPEATABLE)
		failed = undo_await_unmap(c, v, f);
	value_drop(c, v);
	return failed;
}

/* Tells the daemon that the memory has new contents, and of what others hold, too, waits until they see them. */
static int unmap_written(struct recording *r, struct fusion_array *a) {
	struct fusion_context *c = r->context;
	struct value *v = a->value;
	const bool shared = v->shared != 0;
	struct answer answer;
	struct request *q;
	struct sent_batch *b;
	int failed = stream_room(c, &q, &r->fault);

	if (failed)
		return failed;
	b = sent_add(c->sent, c->stream.seq + 1, 1, true);
	failed = b ? 0 : -ENOMEM;
	if (!failed && a->mapping->copy)
		failed = stream_upload(c, a->mapping->id, a->mapping->offset, a->mapping->copy,
			(uint64_t)shape_bytes(&v->type), &r->fault);
	if (failed) {
		stream_forgo(c, q);
		return failed;
	}
	v->place = place_here();
	b->ops[0] = (struct sent_op){ v->place.line, v->place.file, OP_load, (uint32_t)v->handle };
	wire_put_uint(stream_begin_next(c, q, REQUEST_UNMAP, 2), v->handle);
	v->seq = q->seq;
	v->finite = FINITE_UNKNOWN;
	a->version++;
	failed = stream_send(c, q, shared ? &answer : NULL, &r->fault);
	if (!failed) {
		value_hold(v);
		q->value = v;
	}
	mapping_end(c, a);
	return failed || !shared ? failed : await_seen(c, q, v, &answer, &r->fault);
}

static int unmap_locked(struct recording *r, struct fusion_array *a) {
	struct mapping *m = a->mapping;

	if (!m || m->asked)
		return fault_set(&r->fault, FAULT_STATE, "unmap: the array is not mapped");
	if (m->upload)
		return unmap_created(r, a);
	if (--m->count)
		return 0;
	if (m->mode == FUSION_MAP_WRITE)
		return unmap_written(r, a);
	mapping_end(r->context, a);
	return 0;
}

int fusion_unmap(fusion_array *array) {
	struct recording r;
	struct fusion_array *a = record_begin_array(&r, "unmap", array);

	return a ? record_end_code(&r, unmap_locked(&r, a)) : fusion_error_code();
}

/* --- new values -------------------------------------------------------------------------- */

/* Gives an array the value, whose reference is taken. */
static int rebind(struct recording *r, struct fusion_array *a, struct value *v) {
	int failed = a->watched ? tape_leaf(r, &v) : 0;

	if (!failed)
		array_rebind(a, v);
	value_drop(r->context, v);
	return failed ? failed : record_settle(r, a->value);
}

/* r->in[1], converted and broadcast to the type of the array. */
static int fit(struct recording *r, const struct fusion_array *a, struct value **vp) {
	struct op_attr attr = { .rank = a->type.rank };
	int failed = record_cast(r, 1, a->type.dtype);

	if (failed)
		return failed;
	if (shape_equal(&r->in[1]->type, &a->type)) {
		*vp = r->in[1];
		value_ref(*vp);
		return 0;
	}
	for (unsigned d = 0; d < a->type.rank; d++)
		attr.dims[d] = a->type.dims[d];
	return record_value(r, OP_broadcast, 1, &r->in[1], &attr, vp);
}

int fusion_copy_into(fusion_array *array, fusion_array *source) {
	fusion_array *operand[] = { array, source };
	struct recording r;
	struct value *v;
	int failed;

	if (!record_begin(&r, "copy_into", 2, operand))
		return fusion_error_code();
	failed = capture_writable(r.array, "copy_into", &r.fault);
	if (!failed)
		failed = fit(&r, r.array, &v);
	if (!failed)
		failed = rebind(&r, r.array, v);
	return record_end_code(&r, failed);
}

int fusion_fill_into(fusion_array *array, double value) {
	struct op_attr attr = { 0 };
	struct recording r;
	struct value *v;
	int failed;

	if (!record_begin(&r, "fill_into", 1, &array))
		return fusion_error_code();
	attr.dtype = r.array->type.dtype;
	attr.rank = r.array->type.rank;
	for (unsigned d = 0; d < r.array->type.rank; d++)
		attr.dims[d] = r.array->type.dims[d];
	failed = capture_writable(r.array, "fill_into", &r.fault);
	if (!failed)
		failed = record_word(&r, attr.dtype, value, &attr.value[0]);
	if (!failed)
		failed = record_value(&r, OP_fill, 0, NULL, &attr, &v);
	if (!failed)
		failed = rebind(&r, r.array, v);
	return record_end_code(&r, failed);
}
