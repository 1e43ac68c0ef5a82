/*
 * READ, MAP and UNMAP: values the client touches in shared memory.
 *
 * READ needs the array row-major in an arena: a strided view is copied first, and the array keeps
 * the copy, so what the client reads stays in place until it releases the array. MAP also needs the
 * memory to be the array's alone and read by nothing queued: what ran before is waited for, then a
 * shared buffer is copied.
 */
#include "wait.h"

#include <errno.h>
#include <inttypes.h>

#include "daemon/serve/share.h"

int request_array(struct request *r, uint64_t handle, struct array **arrayp, struct fault *f) {
	struct session *s = r->session;
	struct poison *poison;
	int code = handles_get(&s->handles, handle, arrayp, f);

	if (!code && (*arrayp)->mapped)
		code = fault_set(f, FAULT_STATE, "handle %" PRIu64 " is mapped for writing", handle);
	if (!code)
		code = share_check(*arrayp, f);
	if (!code && (*arrayp)->pending)
		code = flush_demanded(s);
	if (code)
		return code;
	poison = array_poisoned(*arrayp);
	if (!poison)
		return 0;
	*f = poison->fault;
	if (poison->seq) {               /* tell who is to blame */
		r->seq = poison->seq;
		r->node = poison->node;
	}
	return f->code;
}

/* A request of nothing but a handle. */
static int need_array(struct request *r, struct array **arrayp, struct fault *f) {
	uint64_t handle;
	int code = wire_get_uint(&r->body, "handle", INT64_MAX, &handle, f);

	if (!code)
		code = wire_get_end(&r->body, "the request", f);
	return code ? code : request_array(r, handle, arrayp, f);
}

static bool is_plain(const struct array *a) {
	return view_is_contiguous(&a->type, &a->view);
}

/* The waiter's own reference keeps the memory where it is until the client was told. */
static void answer_location(struct waiter *w) {
	struct session *s = w->session;
	const struct tensor_type *t = &w->array->type;
	struct wire_writer *out;
	uint32_t arena = 0;
	uint64_t offset = 0;

	if (w->fault.code) {
		waiter_refuse(w, &w->fault);
		return;
	}
	buffer_location(w->buffer, &arena, &offset);
	out = request_answer(s->server, w->id, 5);
	wire_put_uint(out, arena);
	wire_put_uint(out, offset + (uint64_t)w->offset * dtype_info(t->dtype)->bytes);
	wire_put_uint(out, (uint64_t)shape_bytes(t));
	request_put_freed(s, out);
	wire_put_uint(out, session_completed(s));
	request_send(s->server, w->frame);
	s->server->results += !s->returns;
	waiter_free(w);
}

int waiter_publish(struct waiter *w, waiter_function *then) {
	w->then = then;
	w->buffer = buffer_ref(w->array->buffer);
	w->offset = w->array->view.offset;
	return buffer_publish(w->session->lane, w->buffer, waiter_told, w);
}

/* ---- READ ---- */

int read_request(struct request *r, struct fault *f) {
	struct array *a = NULL;
	struct waiter *w;
	int code = need_array(r, &a, f);

	if (!code && !is_plain(a))
		code = flush_copy(r->session, a, f);
	if (!code)
		code = waiter_new(r, a, answer_location, &w);
	if (code)
		return code;
	session_count(r->session, reads, 1);
	code = waiter_publish(w, answer_location);
	if (code)
		waiter_free(w);
	return code;
}

/* ---- MAP and UNMAP ---- */

/* It is not to be mapped after all. */
static void map_undo(struct array *a) {
	a->mapped = ARRAY_FREE;
	if (a->hold)
		share_unfenced(a);
}

static void map_published(struct waiter *w) {
	if (w->fault.code)
		map_undo(w->array);
	else
		w->array->mapped = ARRAY_MAPPED;
	array_noted(w->array);
	answer_location(w);
}

/* Everything queued has run. */
static void map_fenced(struct waiter *w) {
	struct array *a = w->array;
	struct poison *poison = array_poisoned(a);
	struct fault f;
	int r = 0;

	if (poison) {
		f = poison->fault;
		r = f.code;
	}
	if (!r && !a->hold && (buffer_shared(a->buffer) || !is_plain(a)))
		r = flush_copy(w->session, a, &f);
	if (!r)
		r = waiter_publish(w, map_published);
	if (r)
		map_undo(a);
	waiter_failed(w, r, &f);
}

/* Everything queued that may read it: of this session, or of all that hold it. */
static int fence(struct waiter *w) {
	struct session *s = w->session;

	if (w->array->hold)
		return share_fence(w);
	return lane_fence(s->lane, waiter_ready, w);
}

/* One that had been granted when an engine ended is asked for again where the client had not heard of it. */
static int need_unmapped(struct request *r, struct array **arrayp, struct fault *f) {
	struct wire_cursor body = r->body;
	uint64_t handle;
	struct fault ignored;

	if (r->session->restored && !wire_get_uint(&body, "handle", INT64_MAX, &handle, &ignored) &&
		!handles_get(&r->session->handles, handle, arrayp, &ignored) && (*arrayp)->mapped == ARRAY_RESTORED)
		map_undo(*arrayp);
	return need_array(r, arrayp, f);
}

int map_request(struct request *r, struct fault *f) {
	struct session *s = r->session;
	struct array *a = NULL;
	struct waiter *w;
	int code = need_unmapped(r, &a, f);

	if (!code && a->hold)
		code = share_may_write(a, f);
	if (!code)
		code = a->hold ? share_flush(a) : flush_demanded(s);
	if (!code)
		code = waiter_new(r, a, map_fenced, &w);
	if (code)
		return code;
	code = fence(w);
	if (code) {
		waiter_free(w);
		return code;
	}
	session_count(s, maps, 1);
	a->mapped = ARRAY_MAPPING;
	return 0;
}

int unmap_request(struct request *r, struct fault *f) {
	struct session *s = r->session;
	struct array *a = NULL;
	struct wire_writer *w;
	uint64_t handle;
	int code = wire_get_uint(&r->body, "handle", INT64_MAX, &handle, f);

	if (!code)
		code = wire_get_end(&r->body, "UNMAP", f);
	if (!code)
		code = handles_get(&s->handles, handle, &a, f);
	/* The engine that it was mapped by may have gone; of shared arrays the catalogue told which were mapped. */
	if (!code && a->mapped != ARRAY_MAPPED && a->mapped != ARRAY_RESTORED && (!s->restored || a->hold || a->mapped || !a->buffer))
		code = fault_set(f, FAULT_STATE, "handle %" PRIu64 " is not mapped", handle);
	if (code)
		return code;
	buffer_written(a->buffer);
	a->mapped = ARRAY_FREE;
	a->version = a->hold ? share_written(a) : a->version + 1;
	/* What it holds is the program's now: no run made it. */
	a->run = 0;
	array_noted(a);
	w = request_answer(s->server, r->id, 2);
	wire_put_uint(w, r->seq);
	wire_put_uint(w, a->version);
	request_send(s->server, r->frame);
	return 0;
}
