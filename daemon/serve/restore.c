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

#include "protocol/message.h"
#include "daemon/serve/request.h"
#include "daemon/serve/share.h"

enum {
	/* Uploads told in one answer: a frame's worth. With more than these the client learns nothing, and keeps its memory. */
	RESTORE_USES = 150000,
};

/* ---- how far it was ---- */

/* Copies are of no batch, and may go before what was gathered. */
static uint64_t first_unfinished(const struct session *s) {
	const struct run *run = s->runs;

	while (run && run->copies)
		run = run->next;
	if (run)
		return run->first;
	if (s->gathered)
		return s->first;
	return s->running ? s->running : s->next;
}

static struct catalogue_session *progress_of(const struct session *s) {
	struct catalogue *c = s->server->catalogue;

	return c && s->entry != CATALOGUE_NONE ? &c->entry[s->entry].of_session : NULL;
}

uint64_t session_completed(const struct session *s) {
	return first_unfinished(s) - 1;
}

uint64_t session_begun(const struct session *s) {
	const struct catalogue_session *n = progress_of(s);
	uint64_t completed = session_completed(s);

	if (!n)
		return UINT64_MAX;
	return n->launched > completed ? n->launched : completed;
}

/* What was released by a batch goes when that is known to be begun. */
void session_noted(struct session *s) {
	struct catalogue_session *n = progress_of(s);

	if (!n)
		return;
	n->unkept = s->handles.unkept;
	n->completed = session_completed(s);
	n->accepted = s->next - 1;
	if (s->handles.leavings)
		handles_begun(&s->handles, session_begun(s));
}

void session_planning(const struct session *s, uint64_t first, uint64_t last) {
	struct catalogue_session *n = progress_of(s);

	if (!n)
		return;
	n->planning = first;
	atomic_signal_fence(memory_order_seq_cst);
	n->planned = last;
	atomic_signal_fence(memory_order_seq_cst);
}

bool session_under_way(const struct session *s) {
	const struct catalogue_session *n = progress_of(s);

	return n ? n->launched > session_completed(s) : s->queued != 0;
}

int session_enter(struct session *s) {
	struct catalogue *c = s->server->catalogue;

	s->entry = catalogue_take(c, s->id);
	if (s->entry == CATALOGUE_NONE)
		return c ? -ENOMEM : 0;
	c->entry[s->entry].of_session = (struct catalogue_session){ 0 };
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
	struct buffer **buffer;      /* references */
	uint32_t entries;
	uint64_t begun;              /* the last batch that was */
	uint32_t kept, lost;
};

static int find_buffer(struct restoring *r, const struct catalogue_array *n, struct buffer **bufferp, struct fault *f) {
	const struct catalogue_session *progress = &r->catalogue->entry[r->session->entry].of_session;
	uint32_t entry;
	int e;

	if (n->buffer == CATALOGUE_NONE && !n->fault && n->made >= progress->planning && n->made <= progress->planned)
		return fault_set(f, FAULT_UNKNOWN, "the operation was being planned when the engine ended, and may be what ended it");

	if (n->fault)
		return fault_set(f, n->fault == FAULT_LOST ? FAULT_LOST : (int)n->fault < FAULT_COUNT ? (int)n->fault : FAULT_LOST,
			"the array had no value already when the engine was replaced");
	/* Of what was released by a batch that is to come again the entry may be another's. */
	entry = catalogue_value(r->catalogue, n, r->session->id) ? n->buffer : CATALOGUE_NONE;
	if (entry != CATALOGUE_NONE && r->buffer[entry]) {
		*bufferp = buffer_ref(r->buffer[entry]);
		return 0;
	}
	e = buffer_adopt(r->session->space, entry, bufferp, f);
	if (!e)
		r->buffer[entry] = buffer_ref(*bufferp);
	return e;
}

static int take_value(struct restoring *r, struct array *a, const struct catalogue_array *n, struct fault *f) {
	struct buffer *b = NULL;
	int code;

	if (n->share && !n->fault)
		return share_restored(r->session, a, n, f);
	code = find_buffer(r, n, &b, f);
	if (code)
		return code;
	if (!view_fits(&n->type, &n->view, r->catalogue->entry[n->buffer].of_buffer.bytes)) {
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
		e = 0;
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

/* As it was after the last batch that was begun: what later ones made is not there, what they released is. */
static bool was_there(const struct restoring *r, uint32_t entry) {
	const struct catalogue_array *n = &r->catalogue->entry[entry].of_array;

	return n->made <= r->begun && (!n->released || n->released > r->begun);
}

static int restore_arrays(struct restoring *r) {
	int e = 0;

	for (uint32_t i = 0; !e && i < r->entries; i++) {
		if (!catalogue_find(r->catalogue, i, CATALOGUE_ARRAY, r->session->id))
			continue;
		if (was_there(r, i))
			e = restore_array(r, i);
		else
			catalogue_give(r->catalogue, i);
	}
	if (!e)
		sweep(r);
	return e;
}

/* ---- requests ---- */

/* Of those that the device or the planner had, it is not known what became of them. */
static bool was_at(const struct catalogue_session *n, uint64_t seq) {
	return seq <= n->launched || (seq >= n->planning && seq <= n->planned);
}

/* Those that had not run, up to the last that was begun, are told by the next WAIT. */
static void tell_unfinished(struct session *s, const struct catalogue_session *n) {
	struct fault begun, waited;

	fault_set(&begun, FAULT_UNKNOWN, "the engine was replaced while it was at this; each array that it was to compute says what became of it");
	fault_set(&waited, FAULT_REPEATABLE,
		"the engine was replaced before this was begun; each array that it was to compute says what became of it");
	for (uint64_t seq = n->completed + 1; seq < s->next && seq - n->completed <= SESSION_FAILURES; seq++)
		session_failed(s, seq, -1, was_at(n, seq) ? &begun : &waited);
}

/* Has the session of entry `a` gone further than that of entry `b`? */
static bool is_further(const struct catalogue *c, uint32_t a, uint32_t b) {
	const struct catalogue_session *x = &c->entry[a].of_session, *y = &c->entry[b].of_session;
	uint64_t begun = catalogue_begun(x), other = catalogue_begun(y);

	return begun > other || (begun == other && x->accepted > y->accepted);
}

/* What engines before this one said of the session, or NONE. One that ended before it had taken that over left an entry in which nothing has happened. */
static uint32_t find_progress(const struct session *s, const struct catalogue *c, uint32_t entries) {
	uint32_t found = CATALOGUE_NONE;

	for (uint32_t i = 0; i < entries; i++) {
		if (i == s->entry || !catalogue_find(c, i, CATALOGUE_SESSION, s->id))
			continue;
		if (found == CATALOGUE_NONE || is_further(c, i, found)) {
			catalogue_give(s->server->catalogue, found);
			found = i;
		} else {
			catalogue_give(s->server->catalogue, i);
		}
	}
	return found;
}

/*
 * The entry that says how far it was, which is this session's again. Batches behind the last that was begun count as never accepted: the client is told the
 * number, has them all, and says what is to become of them.
 */
static uint64_t take_progress(struct session *s, const struct catalogue *c, uint32_t entries) {
	uint32_t i = find_progress(s, c, entries);
	struct catalogue_session *n;
	uint64_t begun;

	if (i == CATALOGUE_NONE)
		return 0;
	catalogue_give(s->server->catalogue, s->entry);
	s->entry = i;
	n = &c->entry[i].of_session;
	begun = catalogue_begun(n);
	s->next = begun + 1;
	s->whole = n->unkept <= begun;
	n->accepted = begun;
	tell_unfinished(s, n);
	return begun;
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
	r.begun = take_progress(s, r.catalogue, r.entries);
	e = shares_restore(s, r.entries);
	if (!e)
		e = restore_arrays(&r);
	shares_restored(s);
	for (uint32_t i = 0; i < r.entries; i++)
		buffer_unref(r.buffer[i]);
	free(r.buffer);
	if (!e)
		log_info("session %" PRIu64 ": of its arrays %u are there, %u are lost", s->id, r.kept, r.lost);
	return e;
}

/* ---- what the library repeats ---- */

bool repeated_alone(struct session *s, uint64_t flags) {
	return !(flags & SUBMIT_REPEATED) || !s->gathered || flush_session(s, FLUSH_OPERATIONS);
}

int repeated_begin(struct session *s, uint64_t flags, struct fault *f) {
	s->repeating = flags & SUBMIT_REPEATED;
	if (!s->repeating) {
		s->repeat_refused = false;
		return 0;
	}
	session_count(s, batches_repeated, 1);
	if (!s->repeat_refused)
		return 0;
	return fault_set(f, FAULT_REPEATABLE,
		"the engine was replaced before this was begun, and what was asked for before it is not run by itself again; it may be asked for again");
}

void repeated_end(struct session *s) {
	s->repeating = false;
}

/* ---- RESUME ---- */

static int release_slot(struct session *s, uint32_t slot) {
	const struct handle_slot *h = handles_slot(&s->handles, slot);
	struct fault f;

	return handles_release(&s->handles, (uint64_t)h->generation << 32 | slot, 0, &f);
}

static int release_between(struct session *s, uint64_t first, uint64_t end) {
	int r = 0;

	for (uint64_t slot = handles_next(&s->handles, first, end); !r && slot < end; slot = handles_next(&s->handles, slot + 1, end))
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
	r = handles_put(&s->handles, handle, a, f);
	if (r)
		array_unref(a);
	return r;
}

static int keep_one(struct session *s, uint64_t handle, struct fault *f) {
	uint32_t slot = (uint32_t)handle;
	const struct handle_slot *h = handles_slot(&s->handles, slot);
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
	const struct handle_slot *h = handles_slot(&s->handles, slot);

	return h->array->poison ? h->array : NULL;
}

static void put_lost_ones(const struct session *s, uint64_t first, uint64_t end, struct wire_writer *w) {
	uint32_t count = 0;

	for (uint64_t slot = handles_next(&s->handles, first, end); slot < end; slot = handles_next(&s->handles, slot + 1, end))
		count += lost_at(s, slot) != NULL;
	wire_put_array(w, 2 * count);
	for (uint64_t slot = handles_next(&s->handles, first, end); slot < end; slot = handles_next(&s->handles, slot + 1, end)) {
		const struct array *a = lost_at(s, slot);

		if (!a)
			continue;
		wire_put_uint(w, (uint64_t)handles_slot(&s->handles, slot)->generation << 32 | slot);
		wire_put_int(w, a->poison->fault.code);
	}
}

/* False where they are too many, or not wanted. */
static bool put_uses(const struct session *s, bool wanted, struct wire_writer *w) {
	uint32_t count = wanted ? space_uses(s->space, ignore_use, NULL) : 0;
	bool whole = wanted && count <= RESTORE_USES;

	wire_put_bool(w, whole);
	wire_put_array(w, whole ? 2 * count : 0);
	if (whole && count)
		space_uses(s->space, put_use, w);
	return whole;
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
	/* What is not in use by now the client knows by that. */
	if (put_uses(s, end == LIMIT_HANDLES, w))
		s->freeds = 0;
	request_send(s->server, r->frame);
	return 0;
}
