/*
 * Sessions that an engine before this one began: their arrays, as the catalogue has them, and the requests that it had accepted.
 *
 * An array whose value lies in shared memory is there again, bit for bit. Any other keeps its handle and says, to whoever reads it, what became of
 * it. Nothing is run again. The client then tells which handles it still holds (RESUME): a batch that was lost may have released some,
 * and others were named by a batch that it counts as never accepted.
 *
 * What the catalogue says was written by a process that died of something, so each entry must make sense for the
 * memory it names, or the array is lost.
 */
#include "restore.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/serve/request.h"
#include "daemon/serve/share.h"

enum {
	/* Uploads told in one answer: a frame's worth. With more than these the client learns nothing, and keeps its memory. */
	RESTORE_USES = 150000,
};

/* ---- how far it was ---- */

static uint64_t first_unfinished(const struct session *s) {
	if (s->runs)
		return s->runs->first;
	return s->gathered ? s->first : s->next;
}

void session_noted(const struct session *s) {
	struct catalogue *c = s->server->catalogue;
	struct catalogue_session *n;

	if (!c || s->entry == CATALOGUE_NONE)
		return;
	n = &c->entry[s->entry].of_session;
	n->completed = first_unfinished(s) - 1;
	n->accepted = s->next - 1;
}

int session_enter(struct session *s) {
	struct catalogue *c = s->server->catalogue;

	s->entry = catalogue_take(c, s->id);
	if (s->entry == CATALOGUE_NONE)
		return c ? -ENOMEM : 0;
	session_noted(s);
	catalogue_put(c, s->entry, CATALOGUE_SESSION);
	return 0;
}

/* ---- arrays ---- */

bool view_fits(const struct tensor_type *t, const struct view *v, uint64_t bytes) {
	uint64_t elements = bytes / dtype_info(t->dtype)->bytes;
	int64_t low = v->offset, high = v->offset;

	if (!shape_elements(t))
		return true;
	for (unsigned d = 0; d < t->rank; d++) {
		int64_t reach;

		if (__builtin_mul_overflow(v->stride[d], t->dims[d] - 1, &reach) ||
			__builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high))
			return false;
	}
	return low >= 0 && (uint64_t)high < elements;
}

/* Buffers by their entries, while a session is restored: arrays may have one in common. */
struct restoring {
	struct session *session;
	struct catalogue *catalogue;
	struct buffer **buffer;
	uint32_t entries;
	uint32_t kept, lost;
};

static int find_buffer(struct restoring *r, const struct catalogue_array *n, struct buffer **bufferp, struct fault *f) {
	int e;

	if (n->fault)
		return fault_set(f, n->fault == FAULT_LOST ? FAULT_LOST : (int)n->fault < FAULT_COUNT ? (int)n->fault : FAULT_LOST,
			"the array had no value already when the engine was replaced");
	if (n->buffer < r->entries && r->buffer[n->buffer]) {
		*bufferp = buffer_ref(r->buffer[n->buffer]);
		return 0;
	}
	e = buffer_adopt(r->session->space, n->buffer, bufferp, f);
	if (!e)
		r->buffer[n->buffer] = *bufferp;
	return e;
}

static int take_value(struct restoring *r, struct array *a, const struct catalogue_array *n, struct fault *f) {
	struct buffer *b = NULL;
	const struct catalogue_entry *e;
	int code;

	if (n->share && !n->fault)
		return share_restored(r->session, a, n, f);
	code = find_buffer(r, n, &b, f);
	if (code)
		return code;
	e = catalogue_find(r->catalogue, n->buffer, CATALOGUE_BUFFER, r->session->id);
	if (!e || !view_fits(&n->type, &n->view, e->of_buffer.bytes)) {
		buffer_unref(b);
		return fault_set(f, FAULT_LOST, "the array does not fit the memory that it lay in");
	}
	a->buffer = b;
	a->view = n->view;
	return 0;
}

bool type_is_sound(const struct tensor_type *t) {
	struct fault f;

	return t->dtype < DTYPE_COUNT && t->rank <= LIMIT_RANK && !shape_check(t, &f);
}

/* 0, or -ENOMEM. What cannot be had is poisoned. */
static int restore_array(struct restoring *r, uint32_t entry) {
	static const struct tensor_type nothing;
	struct catalogue_array n = r->catalogue->entry[entry].of_array;
	bool sound = type_is_sound(&n.type);
	struct array *a = array_new(sound ? &n.type : &nothing);
	struct fault f = { 0 };
	int e;

	if (!a)
		return -ENOMEM;
	a->version = n.version;
	e = sound ? take_value(r, a, &n, &f) : fault_set(&f, FAULT_LOST, "what was known of the array is lost");
	if (e > 0) {
		a->poison = poison_new(&f, 0, -1);
		e = a->poison ? 0 : -ENOMEM;
		r->lost++;
	} else {
		r->kept += !e;
	}
	if (!e)
		e = handles_adopt(&r->session->handles, n.handle, a, entry, &f);
	if (!e)
		return 0;
	array_unref(a);
	catalogue_give(r->catalogue, entry);
	return e < 0 ? e : 0;
}

/* A buffer that no array has is nobody's. */
static void sweep(struct restoring *r) {
	for (uint32_t i = 0; i < r->entries; i++)
		if (!r->buffer[i] && catalogue_find(r->catalogue, i, CATALOGUE_BUFFER, r->session->id))
			catalogue_give(r->catalogue, i);
}

static int restore_arrays(struct restoring *r) {
	int e = 0;

	for (uint32_t i = 0; !e && i < r->entries; i++)
		if (catalogue_find(r->catalogue, i, CATALOGUE_ARRAY, r->session->id))
			e = restore_array(r, i);
	if (!e)
		sweep(r);
	return e;
}

/* ---- requests ---- */

/* Those that were accepted and had not run are told by the next WAIT. */
static void tell_unfinished(struct session *s, uint64_t completed) {
	struct fault f;

	fault_set(&f, FAULT_REPEATABLE,
		"the engine was replaced before this had run to its end; each array that it was to compute says what became of it");
	for (uint64_t seq = completed + 1; seq < s->next && seq - completed <= SESSION_FAILURES; seq++)
		session_failed(s, seq, -1, &f);
}

/* The entry that says how far it was, which is this session's again. */
static void take_progress(struct session *s, const struct catalogue *c, uint32_t entries) {
	for (uint32_t i = 0; i < entries; i++) {
		const struct catalogue_entry *e = catalogue_find(c, i, CATALOGUE_SESSION, s->id);

		if (!e || i == s->entry)
			continue;
		catalogue_give(s->server->catalogue, s->entry);
		s->entry = i;
		s->next = e->of_session.accepted + 1;
		tell_unfinished(s, e->of_session.completed);
		return;
	}
}

int session_restore(struct session *s) {
	struct restoring r = { .session = s, .catalogue = s->server->catalogue };
	int e;

	if (!r.catalogue)
		return -ENODEV;
	r.entries = atomic_load(&r.catalogue->header->used);
	r.buffer = calloc(r.entries + 1u, sizeof(struct buffer *));
	if (!r.buffer)
		return -ENOMEM;
	s->restored = true;
	take_progress(s, r.catalogue, r.entries);
	e = shares_restore(s, r.entries);
	if (!e)
		e = restore_arrays(&r);
	shares_restored(s);
	free(r.buffer);
	if (!e)
		log_info("session %" PRIu64 ": of its arrays %u are there, %u are lost", s->id, r.kept, r.lost);
	return e;
}

/* ---- RESUME ---- */

static int release_slot(struct session *s, uint32_t slot) {
	const struct handle_slot *h = &s->handles.slot[slot];
	struct fault f;

	return handles_release(&s->handles, (uint64_t)h->generation << 32 | slot, &f);
}

static int release_between(struct session *s, uint64_t first, uint64_t end) {
	int r = 0;

	for (uint64_t slot = first; !r && slot < end && slot < s->handles.capacity; slot++)
		if (s->handles.slot[slot].array)
			r = release_slot(s, (uint32_t)slot);
	return r;
}

/* It names an array of which nothing was noted. */
static int put_lost(struct session *s, uint64_t handle, struct fault *f) {
	static const struct tensor_type nothing;
	struct array *a = array_new(&nothing);
	struct fault why;
	int r = 0;

	if (!a)
		return -ENOMEM;
	fault_set(&why, FAULT_LOST, "nothing is known of the array since the engine was replaced");
	a->poison = poison_new(&why, 0, -1);
	r = a->poison ? handles_put(&s->handles, handle, a, f) : -ENOMEM;
	if (r)
		array_unref(a);
	return r;
}

static int keep_one(struct session *s, uint64_t handle, struct fault *f) {
	uint32_t slot = (uint32_t)handle;
	const struct handle_slot *h = slot < s->handles.capacity ? &s->handles.slot[slot] : NULL;
	int r = 0;

	if (h && h->array && h->generation == handle >> 32)
		return 0;
	if (h && h->array)
		r = release_slot(s, slot);
	return r ? r : put_lost(s, handle, f);
}

/* What the client does not name, from slot `first` to below `end`, goes. Handles come in the order of their slots. */
static int keep_named(struct session *s, uint64_t first, uint64_t end, struct wire_cursor *list, struct fault *f) {
	uint64_t slot = first, handle;
	int r = 0;

	while (!r && list->left) {
		r = wire_get_uint(list, "handle", INT64_MAX, &handle, f);
		if (!r && ((uint32_t)handle < slot || (uint32_t)handle >= end))
			r = fault_set(f, FAULT_PROTOCOL, "RESUME: handles are not in the order of their slots");
		if (!r)
			r = release_between(s, slot, (uint32_t)handle);
		if (!r)
			r = keep_one(s, handle, f);
		if (!r)
			slot = (uint32_t)handle + 1;
	}
	return r ? r : release_between(s, slot, end);
}

/* ---- uploads ---- */

static void put_use(void *user, uint32_t arena, uint64_t offset) {
	struct wire_writer *w = user;

	wire_put_uint(w, arena);
	wire_put_uint(w, offset);
}

static void ignore_use(void *user, uint32_t arena, uint64_t offset) {
	(void)user;
	(void)arena;
	(void)offset;
}

static const struct array *lost_at(const struct session *s, uint64_t slot) {
	const struct array *a = s->handles.slot[slot].array;

	return a && a->poison ? a : NULL;
}

static void put_lost_ones(const struct session *s, uint64_t first, uint64_t end, struct wire_writer *w) {
	uint32_t count = 0;

	if (end > s->handles.capacity)
		end = s->handles.capacity;
	for (uint64_t slot = first; slot < end; slot++)
		count += lost_at(s, slot) != NULL;
	wire_put_array(w, 2 * count);
	for (uint64_t slot = first; slot < end; slot++) {
		const struct array *a = lost_at(s, slot);

		if (!a)
			continue;
		wire_put_uint(w, (uint64_t)s->handles.slot[slot].generation << 32 | slot);
		wire_put_int(w, a->poison->fault.code);
	}
}

static void put_uses(const struct session *s, bool wanted, struct wire_writer *w) {
	uint32_t count = wanted ? space_uses(s->space, ignore_use, NULL) : RESTORE_USES + 1;

	if (count > RESTORE_USES) {
		wire_put_bool(w, false);
		count = 0;
	} else {
		wire_put_bool(w, true);
	}
	wire_put_array(w, 2 * count);
	if (count)
		space_uses(s->space, put_use, w);
}

int resume_request(struct request *r, struct fault *f) {
	struct session *s = r->session;
	struct wire_cursor list;
	struct wire_writer *w;
	uint64_t first, end;
	int code = wire_get_uint(&r->body, "first", LIMIT_HANDLES, &first, f);

	if (!code)
		code = wire_get_uint(&r->body, "end", LIMIT_HANDLES, &end, f);
	if (!code)
		code = wire_get_array(&r->body, "handles", LIMIT_HANDLES, &list, f);
	if (!code)
		code = wire_get_end(&r->body, "RESUME", f);
	if (!code && !s->restored)
		code = fault_set(f, FAULT_STATE, "the session was begun by this engine: there is nothing to resume");
	if (!code)
		code = keep_named(s, first, end, &list, f);
	if (code)
		return code;
	w = request_answer(s->server, r->id, 3);
	put_lost_ones(s, first, end, w);
	put_uses(s, end == LIMIT_HANDLES, w);
	request_send(s->server, r->frame);
	return 0;
}
