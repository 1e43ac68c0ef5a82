/*
 * Buffers in the catalogue: what is said of them while they live, and those that an engine before this one left.
 *
 * A value that lies in an arena outlives the engine, one that lies on the device alone does not. Nothing that the
 * catalogue says is believed before it is held against the arenas of the session.
 */
#include "state.h"

#include <errno.h>

void exec_note(struct exec *x, struct catalogue *c) {
	x->catalogue = c;
}

void exec_left(struct exec *x, void (*left)(void *user, uint64_t number), void *user) {
	x->left = left;
	x->left_user = user;
}

void space_note(struct space *s, uint64_t session) {
	s->session = session;
}

/* ---- noting ---- */

static struct catalogue_buffer *noted(const struct buffer *b) {
	const struct catalogue *c = b->space->exec->catalogue;

	return b->entry == CATALOGUE_NONE || !c ? NULL : &c->entry[b->entry].of_buffer;
}

void buffer_writing(const struct buffer *b) {
	struct catalogue_buffer *n = noted(b);

	if (n)
		n->state = CATALOGUE_WRITING;
	atomic_signal_fence(memory_order_seq_cst);
}

static uint32_t state_of(const struct buffer *b) {
	if (b->state == BUFFER_POISONED)
		return CATALOGUE_FAILED;
	if (b->state == BUFFER_PENDING)
		return CATALOGUE_WAITING;
	return b->hosted && b->arena ? CATALOGUE_THERE : CATALOGUE_DEVICE;
}

/* Where it lies first: a state that says so is believed. */
void buffer_noted(const struct buffer *b, uint64_t sequence) {
	struct catalogue_buffer *n = noted(b);

	if (!n)
		return;
	n->state = CATALOGUE_WRITING;
	atomic_signal_fence(memory_order_seq_cst);
	n->arena = b->arena ? b->arena->id : 0;
	n->offset = b->offset;
	n->bytes = b->bytes;
	n->written = sequence;
	atomic_thread_fence(memory_order_release);
	n->state = state_of(b);
}

/* A run that is bound may have been launched in part. */
uint32_t buffer_entry(struct buffer *b) {
	struct exec *x = b->space->exec;

	if (b->entry != CATALOGUE_NONE || !b->space->session)
		return b->entry;
	b->entry = catalogue_take(x->catalogue, b->space->session);
	if (b->entry == CATALOGUE_NONE)
		return b->entry;
	x->catalogue->entry[b->entry].of_buffer.serial = ++x->catalogue->header->serials;
	buffer_noted(b, b->written);
	if (b->state == BUFFER_PENDING && (b->arena || b->taken))
		buffer_writing(b);
	catalogue_put(x->catalogue, b->entry, CATALOGUE_BUFFER);
	return b->entry;
}

/* Graphs of a session are launched in their order. */
static void progress_noted(const struct catalogue *c, const struct run *r) {
	struct catalogue_session *n = r->progress ? &c->entry[r->progress - 1].of_session : NULL;

	if (n && n->launched < r->last)
		n->launched = r->last;
	atomic_signal_fence(memory_order_seq_cst);
}

void run_noted(const struct run *r) {
	const struct catalogue *c = r->space->exec->catalogue;
	struct catalogue_run *n;

	if (!c)
		return;
	progress_noted(c, r);
	if (!r->note)
		return;
	n = &c->entry[r->note - 1].of_run;
	n->alone = r->alone;
	n->kernels = r->plan->steps;
	n->at = r->step;
	atomic_store_explicit(&n->step, CATALOGUE_LAUNCHED, memory_order_release);
}

/* ---- adopting ---- */

static int refuse(const struct catalogue_buffer *n, struct fault *f) {
	switch (n->state) {
	case CATALOGUE_WAITING:
		return fault_set(f, FAULT_REPEATABLE,
			"the engine ended before the operation was begun; what it reads is as it was: it may be asked for again");
	case CATALOGUE_WRITING:
		return fault_set(f, FAULT_UNKNOWN,
			"the operation was with the device when the engine ended, and may be what ended it; its result is lost, what it reads is as it was");
	case CATALOGUE_DEVICE:
		return fault_set(f, FAULT_LOST, "the array was in memory of the device alone when the engine ended");
	default:
		return fault_set(f, FAULT_LOST, "the array had no value when the engine ended");
	}
}

static int refuse_place(struct fault *f) {
	return fault_set(f, FAULT_LOST, "the place where the array lay is not known any more");
}

static int take_extent(struct space *s, struct space_arena *a, const struct catalogue_buffer *n, struct buffer **bufferp,
	struct fault *f) {
	return buffer_from_arena(s, a->id, n->offset, n->bytes, bufferp, f);
}

static int take_range(struct space *s, struct space_arena *a, const struct catalogue_buffer *n, struct buffer **bufferp,
	struct fault *f) {
	struct buffer *b;
	int r = space_charge(s, s->exec->flat ? n->bytes : 0);

	if (!r)
		r = range_take_at(a->range, n->offset, n->bytes);
	if (r)
		return r == -ENOMEM ? r : refuse_place(f);
	r = buffer_new(s, n->bytes, &b);
	if (r)
		return r;
	b->state = BUFFER_READY;
	b->hosted = true;
	b->resident = s->exec->flat;
	b->arena = a;
	b->offset = n->offset;
	b->address = a->address + n->offset;
	*bufferp = b;
	return 0;
}

int buffer_adopt(struct space *s, uint32_t entry, struct buffer **bufferp, struct fault *f) {
	struct catalogue *c = s->exec->catalogue;
	const struct catalogue_entry *e = catalogue_find(c, entry, CATALOGUE_BUFFER, s->session);
	const struct catalogue_buffer *n = e ? &e->of_buffer : NULL;
	struct space_arena *a;
	int r;

	if (!n)
		return fault_set(f, FAULT_REPEATABLE, "the engine ended before the operation was begun; it may be asked for again");
	if (n->state != CATALOGUE_THERE)
		return refuse(n, f);
	a = space_arena(s, n->arena);
	if (!a || n->offset > a->bytes || n->bytes > a->bytes - n->offset)
		return refuse_place(f);
	r = (a->engine_owned ? take_range : take_extent)(s, a, n, bufferp, f);
	if (r)
		return r > 0 ? refuse_place(f) : r;
	if ((*bufferp)->entry == CATALOGUE_NONE)
		(*bufferp)->entry = entry;
	return 0;
}
