/* Reading arrays: now, with a callback, or with a descriptor. See read.h and fusion.h. */
#include "read.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "capture.h"
#include "context.h"
#include "flush.h"

enum {
	/* Larger copies run without the lock: other threads go on meanwhile. */
	COPY_UNLOCKED_BYTES = 64 << 10,
};

/* A read under way that nobody waits for. */
struct later {
	void *memory; /* NULL: given up, nothing is written any more */
	size_t bytes;
	bool copying;              /* memory is being written, without the lock */
	fusion_callback *callback; /* NULL: `future` */
	void *user;
	struct fusion_future *future;
};

struct fusion_future {
	struct fusion_context *context;
	int fd;
	atomic_bool done;
	bool abandoned;      /* finish gave up waiting; the reply frees it */
	struct later *later; /* until it is done */
	struct fault fault;
};

/* --- requests ---------------------------------------------------------------------------- */

/* Sends READ or MAP for a value, which the request holds until it is answered. */
static int ask_corked(struct fusion_context *c, struct value *v, enum message_request kind, struct answer *a,
	struct later *later, struct request **requestp, struct fault *f) {
	struct wire_writer *w;
	struct request *q;
	int r = flush_overdue(c, f);

	if (!r)
		r = flush_value(c, v, f);
	if (!r)
		r = a ? stream_room_to_wait(c, &q, f) : stream_room(c, &q, f);
	if (!r && v->state == VALUE_FAILED) {
		stream_forgo(c, q);
		r = flush_value(c, v, f);
	}
	if (r)
		return r;
	w = stream_begin(c, q, kind, 2);
	wire_put_uint(w, v->seq);
	wire_put_uint(w, v->handle);
	stream_expect(c, q, (uint64_t)shape_bytes(&v->type));
	r = stream_send(c, q, a, f);
	if (r)
		return r;
	value_hold(v);
	q->value = v;
	q->later = later;
	*requestp = q;
	return 0;
}

/* What computes the value and the question for it wake the daemon together. */
static int ask(struct fusion_context *c, struct value *v, enum message_request kind, struct answer *a,
	struct later *later, struct request **requestp, struct fault *f) {
	int r;

	stream_cork(c);
	r = ask_corked(c, v, kind, a, later, requestp, f);
	stream_uncork(c);
	return r;
}

/* The copy that came is the location's from then on. */
static int locate_copy(struct answer *a, struct location *l, struct fault *f) {
	l->copy = l->memory = a->result;
	a->result = NULL;
	return l->copy ? 0 : fault_set(f, FAULT_PROTOCOL, "fusiond answered without the contents of an array");
}

static int locate(struct fusion_context *c, struct answer *a, uint64_t bytes, struct location *l, struct fault *f) {
	*l = (struct location){ .id = (uint32_t)a->arena, .offset = a->offset };
	if (a->bytes != bytes)
		return fault_set(f, FAULT_PROTOCOL, "fusiond has %llu bytes for an array of %llu",
			(unsigned long long)a->bytes, (unsigned long long)bytes);
	if (!bytes)
		return 0;
	if (c->door.link)
		return locate_copy(a, l, f);
	return arena_locate(c, a->arena, a->offset, bytes, &l->arena, &l->memory, f);
}

void location_release(struct location *l) {
	free(l->copy);
	l->copy = NULL;
	if (l->arena)
		arena_unpin(l->arena);
	l->arena = NULL;
}

int read_locate(struct fusion_context *c, struct value *v, enum message_request kind,
	struct location *location, struct fault *f) {
	struct request *q;
	struct answer a = { 0 };
	int r;

	/* Where the engine was replaced meanwhile the next one is asked: it has the value, or says why not. */
	do {
		a.again = false;
		r = ask(c, v, kind, &a, NULL, &q, f);
		if (!r)
			r = stream_wait(c, q, &a, f);
	} while (a.again);
	if (!r)
		r = locate(c, &a, (uint64_t)shape_bytes(&v->type), location, f);
	free(a.result);
	return r;
}

/* Copies out of a location and releases it; gives the lock up during a long copy. */
static void copy_out(struct fusion_context *c, struct location *l, void *memory, size_t bytes) {
	if (!l->memory)
		return;
	if (bytes > COPY_UNLOCKED_BYTES)
		pthread_mutex_unlock(&c->lock);
	memcpy(memory, l->memory, bytes);
	if (bytes > COPY_UNLOCKED_BYTES)
		pthread_mutex_lock(&c->lock);
	location_release(l);
}

/* --- now --------------------------------------------------------------------------------- */

/* What every read checks; on success the context is locked. Returns a code that is reported. */
static int read_begin(fusion_array *array, const char *what, const void *memory, size_t bytes) {
	struct fault f;
	int r;

	if (!array)
		return fusion_error_code()
			       ? fusion_error_code()
			       : error_report(
					 fault_set(&f, FAULT_ARGUMENT, "%s: the array is NULL", what), &f);
	r = context_enter(array->context);
	if (r)
		return r;
	if (bytes != (size_t)shape_bytes(&array->type))
		r = fault_set(&f, FAULT_ARGUMENT, "%s: %zu bytes were given for an array of %zu", what, bytes,
			(size_t)shape_bytes(&array->type));
	else if (bytes && !memory)
		r = fault_set(&f, FAULT_ARGUMENT, "%s: the memory is NULL", what);
	else
		r = array_usable(array, what, &f);
	if (!r)
		r = capture_readable(array, what, &f);
	if (r)
		context_leave(array->context);
	return error_report(r, &f);
}

int fusion_read(fusion_array *array, void *memory, size_t bytes) {
	int r = read_begin(array, "read", memory, bytes);
	struct fusion_context *c;
	struct location l;
	struct value *v;
	struct fault f;

	if (r)
		return r;
	c = array->context;
	v = array->value;
	value_hold(v);
	r = read_locate(c, v, REQUEST_READ, &l, &f);
	if (!r)
		copy_out(c, &l, memory, bytes);
	value_unhold(c, v);
	context_leave(c);
	return error_report(r, &f);
}

/* The array's own failure is said once, not again by the next fusion_sync(). */
static int take_failure(struct fusion_context *c, const struct value *v, struct fault *f) {
	if (v->state != VALUE_FAILED)
		return 0;
	*f = v->failure->fault;
	if (!strcmp(c->deferred.text, f->text))
		c->deferred.code = 0;
	return f->code;
}

int fusion_wait(fusion_array *array) {
	int r = read_begin(array, "wait", array, fusion_bytes(array));
	struct fusion_context *c;
	struct location l = { 0 };
	struct value *v;
	struct fault f;

	if (r)
		return r;
	c = array->context;
	v = array->value;
	value_hold(v);
	r = flush_and_wait_for(c, v, &f);
	/* Something failed, perhaps without naming an operation: only the daemon knows whether this did. */
	if (!r && c->deferred.code && v->state != VALUE_FAILED)
		r = read_locate(c, v, REQUEST_READ, &l, &f);
	location_release(&l);
	if (!r)
		r = take_failure(c, v, &f);
	value_unhold(c, v);
	context_leave(c);
	return error_report(r, &f);
}

/* --- later ------------------------------------------------------------------------------- */

static void future_free(struct fusion_future *future) {
	struct fusion_context *c = future->context;

	close(future->fd);
	free(future);
	c->references--;
}

/* Tells the caller's descriptor; requires the lock. */
static void future_complete(struct fusion_future *future, const struct fault *f) {
	const uint64_t one = 1;
	ssize_t n;

	future->later = NULL;
	if (future->abandoned) {
		future_free(future);
		return;
	}
	future->fault = *f;
	atomic_store(&future->done, true);
	do
		n = write(future->fd, &one, sizeof one);
	while (n < 0 && errno == EINTR);
}

/* Copies the contents, where they came and are still wanted. */
static void later_copy(
	struct fusion_context *c, struct later *later, struct answer *answer, struct fault *f) {
	struct location l;

	*f = answer->fault;
	if (f->code || !later->memory)
		return;
	if (locate(c, answer, later->bytes, &l, f) < 0)
		fault_set(f, FAULT_MEMORY, "the shared memory of a result could not be mapped");
	if (f->code)
		return;
	later->copying = true;
	copy_out(c, &l, later->memory, later->bytes);
	later->copying = false;
	pthread_cond_broadcast(&c->stream.room); /* future_abandon() waits for it */
}

void later_finish(
	struct fusion_context *c, struct later *later, struct value *v, struct answer *answer) {
	struct fault f;

	pthread_mutex_lock(&c->lock);
	later_copy(c, later, answer, &f);
	value_unhold(c, v);
	if (later->future)
		future_complete(later->future, &f);
	context_leave(c);
	if (later->callback) {
		fusion_here(NULL, 0);
		error_report(f.code, &f);
		later->callback(later->user, f.code);
	}
	free(later);
}

/* What every such read begins with: a callback needs a thread that reads answers. */
static int later_begin(fusion_array *array, const char *what, const void *memory, size_t bytes) {
	struct fault f;
	int r = read_begin(array, what, memory, bytes);

	if (r)
		return r;
	r = stream_watch(array->context, &f);
	context_leave(array->context);
	return r ? error_report(r, &f) : read_begin(array, what, memory, bytes);
}

/* Starts a read; takes over `later`, also on failure. */
static int later_start(fusion_array *array, struct later *later) {
	struct fusion_context *c = array->context;
	struct value *v = array->value;
	struct request *q;
	struct fault f;
	int r;

	value_hold(v);
	r = ask(c, v, REQUEST_READ, NULL, later, &q, &f);
	value_unhold(c, v);
	if (r)
		free(later);
	context_leave(c);
	return error_report(r, &f);
}

int fusion_read_callback(
	fusion_array *array, void *memory, size_t bytes, fusion_callback *callback, void *user) {
	struct later *later;
	struct fault f;
	int r;

	if (!callback)
		return error_report(fault_set(&f, FAULT_ARGUMENT, "read_callback: the callback is NULL"), &f);
	r = later_begin(array, "read_callback", memory, bytes);
	if (r)
		return r;
	later = calloc(1, sizeof *later);
	if (!later) {
		context_leave(array->context);
		return error_report(-ENOMEM, NULL);
	}
	*later = (struct later){ .memory = memory, .bytes = bytes, .callback = callback, .user = user };
	return later_start(array, later);
}

static struct fusion_future *future_new(struct fusion_context *c, void *memory, size_t bytes) {
	struct fusion_future *future = calloc(1, sizeof *future);
	struct later *later = calloc(1, sizeof *later);
	int fd = eventfd(0, EFD_CLOEXEC);

	if (!future || !later || fd < 0) {
		if (fd >= 0)
			close(fd);
		free(future);
		free(later);
		return NULL;
	}
	*later = (struct later){ .memory = memory, .bytes = bytes, .future = future };
	future->context = c;
	future->fd = fd;
	future->later = later;
	c->references++;
	return future;
}

fusion_future *fusion_read_begin(fusion_array *array, void *memory, size_t bytes) {
	struct fusion_future *future;
	struct fusion_context *c;

	if (later_begin(array, "read_begin", memory, bytes))
		return NULL;
	c = array->context;
	future = future_new(c, memory, bytes);
	if (!future) {
		context_leave(c);
		error_report(-ENOMEM, NULL);
		return NULL;
	}
	if (!later_start(array, future->later))
		return future;
	pthread_mutex_lock(&c->lock);
	future_free(future);
	context_leave(c);
	return NULL;
}

int fusion_future_fd(const fusion_future *future) {
	return future ? future->fd : -1;
}

/* Waits until the descriptor says so; false where the time is up. The caller may have read it empty. */
static bool future_poll(struct fusion_future *future) {
	struct pollfd p = { .fd = future->fd, .events = POLLIN };
	uint32_t timeout = future->context->stream.timeout_ms;
	int r = 1;

	while (!atomic_load(&future->done) && r) {
		r = poll(&p, 1, timeout ? (int)timeout : -1);
		if (r < 0 && errno != EINTR)
			return false;
	}
	return atomic_load(&future->done);
}

/* Gives up: the reply will find nobody, and the caller's memory is not written any more. */
static bool future_abandon(struct fusion_future *future) {
	struct fusion_context *c = future->context;
	bool gave_up;

	pthread_mutex_lock(&c->lock);
	while (future->later && future->later->copying)
		pthread_cond_wait(&c->stream.room, &c->lock);
	gave_up = !atomic_load(&future->done);
	if (gave_up) {
		future->abandoned = true;
		future->later->memory = NULL;
	}
	context_leave(c);
	return gave_up;
}

int fusion_future_finish(fusion_future *future) {
	struct fusion_context *c;
	struct fault f;

	if (!future)
		return fusion_error_code();
	c = future->context;
	if (context_forked())
		return context_enter(c);
	if (stream_in_callback() && !atomic_load(&future->done))
		return error_report(
			fault_set(&f, FAULT_STATE, "future_finish: a callback must not wait"), &f);
	if (!future_poll(future) && future_abandon(future))
		return error_report(fault_set(&f, FAULT_CONNECT, "fusiond did not answer within %u ms",
					    c->stream.timeout_ms),
			&f);
	pthread_mutex_lock(&c->lock);
	f = future->fault;
	future_free(future);
	context_leave(c);
	return error_report(f.code, &f);
}
