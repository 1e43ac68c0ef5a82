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
#include "link.h"
#include "undo.h"
#include "waiting.h"

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
	struct object object;
	int fd;
	atomic_bool done;
	bool abandoned;      /* finish gave up waiting; the reply frees it */
	struct later *later; /* until it is done */
	struct fault fault;
};

/* --- requests ---------------------------------------------------------------------------- */

static int ask_value(struct fusion_context *c, struct value *v, enum message_request kind, struct answer *a,
	struct later *later, struct request **requestp, struct fault *f) {
	struct wire_writer *w;
	struct request *q;
	int r = flush_value(c, v, f);

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

/* Sends READ or MAP for a value, which the request holds until it is answered. */
static int ask_corked(struct fusion_context *c, struct value *v, enum message_request kind, struct answer *a,
	struct later *later, struct request **requestp, struct fault *f) {
	int r = flush_overdue(c, f);
	bool paired = !r && a && v->state == VALUE_PENDING;

	if (paired)
		r = stream_await_pair(c, f);
	if (!r)
		r = ask_value(c, v, kind, a, later, requestp, f);
	if (paired)
		stream_end_pair(c);
	return r;
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
	/* The answer may have come just before another thread closed: where it points the daemon may have others' bytes by now. */
	if (!r && c->closed)
		r = context_refuse_closed(f);
	if (!r) {
		r = locate(c, &a, (uint64_t)shape_bytes(&v->type), location, f);
		if (r && kind == REQUEST_MAP)
			undo_map(c, v);
	}
	free(a.result);
	return r;
}

/* Copies out of a location and releases it; gives the lock up during a long copy: what was closed meanwhile was not read. */
static int copy_out(struct fusion_context *c, struct location *l, void *memory, size_t bytes, struct fault *f) {
	if (!l->memory)
		return 0;
	if (bytes > COPY_UNLOCKED_BYTES)
		pthread_mutex_unlock(&c->lock);
	memcpy(memory, l->memory, bytes);
	if (bytes > COPY_UNLOCKED_BYTES)
		pthread_mutex_lock(&c->lock);
	location_release(l);
	return c->closed ? context_refuse_closed(f) : 0;
}

/* --- now --------------------------------------------------------------------------------- */

/* What every read checks; the array, whose context is locked, or NULL, where the error is the thread's. */
static struct fusion_array *read_begin(fusion_array *array, const char *what, const void *memory, size_t bytes) {
	struct fusion_array *a = (struct fusion_array *)context_enter_of(OBJECT_ARRAY, array, what, "the array");
	struct fusion_context *c;
	struct fault f;
	int r;

	if (!a)
		return NULL;
	c = array_context(a);
	if (bytes != (size_t)shape_bytes(&a->type))
		r = fault_set(&f, FAULT_ARGUMENT, "%s: %zu bytes were given for an array of %zu", what, bytes,
			(size_t)shape_bytes(&a->type));
	else if (bytes && !memory)
		r = fault_set(&f, FAULT_ARGUMENT, "%s: the memory is NULL", what);
	else
		r = array_usable(a, what, &f);
	if (!r)
		r = capture_readable(a, what, &f);
	if (!r)
		return a;
	context_leave(c);
	error_report(r, &f);
	return NULL;
}

int fusion_read(fusion_array *array, void *memory, size_t bytes) {
	struct fusion_array *a = read_begin(array, "read", memory, bytes);
	struct fusion_context *c;
	struct location l;
	struct value *v;
	struct fault f;
	int r;

	if (!a)
		return fusion_error_code();
	c = array_context(a);
	v = a->value;
	value_hold(v);
	r = read_locate(c, v, REQUEST_READ, &l, &f);
	if (!r)
		r = copy_out(c, &l, memory, bytes, &f);
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
	struct fusion_array *a = (struct fusion_array *)context_enter_of(OBJECT_ARRAY, array, "wait", "the array");
	struct fusion_context *c;
	struct location l = { 0 };
	struct value *v;
	struct fault f;
	int r;

	if (!a)
		return fusion_error_code();
	c = array_context(a);
	r = array_usable(a, "wait", &f);
	if (!r)
		r = capture_readable(a, "wait", &f);
	if (r) {
		context_leave(c);
		return error_report(r, &f);
	}
	v = a->value;
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

static struct fusion_context *future_context(const struct fusion_future *future) {
	return atomic_load_explicit(&future->object.context, memory_order_relaxed);
}

/* Its name has ended, or was never given. */
static void future_free(struct fusion_future *future) {
	struct fusion_context *c = future_context(future);

	close(future->fd);
	object_give(OBJECT_FUTURE, &future->object);
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
	/* It may have been given up while the door was asked for the memory. */
	if (!later->memory) {
		location_release(&l);
		return;
	}
	later->copying = true;
	copy_out(c, &l, later->memory, later->bytes, f);
	later->copying = false;
	pthread_cond_broadcast(&c->stream.changed); /* future_abandon() waits for it */
}

void later_finish(
	struct fusion_context *c, struct later *later, struct value *v, struct answer *answer) {
	struct fault f;

	pthread_mutex_lock(&c->lock);
	later_copy(c, later, answer, &f);
	value_unhold(c, v);
	if (later->future)
		future_complete(later->future, &f);
	context_unlock(c);
	if (later->callback) {
		fusion_here(NULL, 0);
		error_report(f.code, &f);
		later->callback(later->user, f.code);
	}
	free(later);
}

/* What every such read begins with: a callback needs a thread that reads answers. */
static struct fusion_array *later_begin(fusion_array *array, const char *what, const void *memory, size_t bytes) {
	struct fusion_array *a = read_begin(array, what, memory, bytes);
	struct fusion_context *c;
	struct fault f;
	int r;

	if (!a)
		return NULL;
	c = array_context(a);
	r = stream_watch(c, &f);
	context_leave(c);
	error_report(r, &f);
	return r ? NULL : read_begin(array, what, memory, bytes);
}

/* Starts a read; takes over `later`, also on failure, and leaves the context. */
static int later_start(struct fusion_array *a, struct later *later) {
	struct fusion_context *c = array_context(a);
	struct value *v = a->value;
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
	struct fusion_array *a;
	struct later *later;
	struct fault f;

	if (!callback)
		return error_report(fault_set(&f, FAULT_ARGUMENT, "read_callback: the callback is NULL"), &f);
	a = later_begin(array, "read_callback", memory, bytes);
	if (!a)
		return fusion_error_code();
	later = calloc(1, sizeof *later);
	if (!later) {
		context_leave(array_context(a));
		return error_report(-ENOMEM, NULL);
	}
	*later = (struct later){ .memory = memory, .bytes = bytes, .callback = callback, .user = user };
	return later_start(a, later);
}

static struct fusion_future *future_new(struct fusion_context *c, void *memory, size_t bytes) {
	struct fusion_future *future = object_take(OBJECT_FUTURE, sizeof *future);
	struct later *later = calloc(1, sizeof *later);
	int fd = eventfd(0, EFD_CLOEXEC);

	if (!future || !later || fd < 0) {
		if (fd >= 0)
			close(fd);
		if (future)
			object_give(OBJECT_FUTURE, &future->object);
		free(later);
		return NULL;
	}
	*later = (struct later){ .memory = memory, .bytes = bytes, .future = future };
	atomic_store_explicit(&future->object.context, c, memory_order_release);
	future->fd = fd;
	future->later = later;
	future->abandoned = false;
	future->fault.code = 0;
	atomic_store(&future->done, false);
	c->references++;
	return future;
}

fusion_future *fusion_read_begin(fusion_array *array, void *memory, size_t bytes) {
	struct fusion_array *a = later_begin(array, "read_begin", memory, bytes);
	struct fusion_future *future;
	struct fusion_context *c;

	if (!a)
		return NULL;
	c = array_context(a);
	future = future_new(c, memory, bytes);
	if (!future) {
		context_leave(c);
		error_report(-ENOMEM, NULL);
		return NULL;
	}
	if (!later_start(a, future->later))
		return object_name(OBJECT_FUTURE, &future->object);
	pthread_mutex_lock(&c->lock);
	future_free(future);
	context_unlock(c);
	return NULL;
}

int fusion_future_fd(const fusion_future *future) {
	struct fusion_future *own = (struct fusion_future *)context_lock(OBJECT_FUTURE, future, "future_fd", "the future");
	int fd;

	if (!own)
		return -1;
	fd = own->fd;
	context_leave(future_context(own));
	return fd;
}

static int refuse_late(uint32_t timeout_ms, struct fault *f) {
	return fault_set(f, FAULT_CONNECT, "fusiond did not answer within %u ms", timeout_ms);
}

/* Waits until the descriptor says so, the time is up or the caller is asked to stop. It may have been read empty. */
static int future_poll(struct fusion_future *future, struct fault *f) {
	uint32_t timeout = future_context(future)->stream.timeout_ms;
	uint64_t until = timeout ? link_now_us() + UINT64_C(1000) * timeout : 0;
	bool came;
	int r = 0;

	while (!r && !atomic_load(&future->done)) {
		int ms = waiting_slice(until);

		r = ms ? waiting_look(future->fd, POLLIN, ms, &came) : -ETIMEDOUT;
	}
	if (r == -ETIMEDOUT)
		return refuse_late(timeout, f);
	return waiting_fault(r, f);
}

/* Gives up: the reply will find nobody, and the caller's memory is not written any more. */
static bool future_abandon(struct fusion_future *future) {
	struct fusion_context *c = future_context(future);
	bool gave_up;

	pthread_mutex_lock(&c->lock);
	while (future->later && future->later->copying)
		pthread_cond_wait(&c->stream.changed, &c->lock);
	gave_up = !atomic_load(&future->done);
	if (gave_up) {
		future->abandoned = true;
		future->later->memory = NULL;
	}
	context_unlock(c);
	return gave_up;
}

static int refuse_finish(const fusion_future *future, struct fault *f) {
	if (context_forked())
		return context_forked_fault(f);
	return object_refuse(OBJECT_FUTURE, future, "future_finish", "the future", f);
}

/* One that does not wait for what is not there: it leaves the future as it is. */
static bool must_not_wait(const struct fusion_future *own) {
	return own && waiting_in_callback() && !atomic_load(&own->done);
}

int fusion_future_finish(fusion_future *future) {
	struct fusion_future *own = context_forked() ? NULL : (struct fusion_future *)object_find(OBJECT_FUTURE, future);
	struct fusion_context *c;
	struct fault f;
	int r;

	if (!future && fusion_error_code())
		return fusion_error_code();
	if (must_not_wait(own))
		return error_report(
			fault_set(&f, FAULT_STATE, "future_finish: a callback must not wait"), &f);
	/* Of several threads one finishes it. */
	if (!own || !object_end(&own->object, future))
		return error_report(refuse_finish(future, &f), &f);
	c = future_context(own);
	r = future_poll(own, &f);
	if (r && future_abandon(own))
		return error_report(r, &f);
	pthread_mutex_lock(&c->lock);
	f = own->fault;
	future_free(own);
	context_unlock(c);
	return error_report(f.code, &f);
}
