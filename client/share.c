/*
 * Arrays that several processes hold: giving out tokens, and opening what others exported.
 *
 * An exported array gets another value, which lies in memory that can be shared, under a handle of its own: what was
 * read or mapped of the old one stays where it is. A shared value is like any other that was sent, but for its
 * release, which goes at once, and a map for writing, which changes it for all who hold it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "capture.h"
#include "context.h"
#include "elsewhere.h"
#include "flush.h"
#include "handle.h"
#include "record.h"
#include "share.h"

enum {
	MICROSECONDS = 1000,
	/* 24 days: who wants longer ones wants none. */
	LIFETIME_MS = INT32_MAX,
};

_Static_assert(sizeof((struct fusion_token *)0)->bytes == LIMIT_TOKEN_BYTES, "a token of the library is one of the protocol");
_Static_assert(FUSION_SHARE_READ_WRITE == (SHARE_READ | SHARE_WRITE), "rights are those of the protocol");

/* A value that the daemon will have under a handle of its own: one reference. */
static int value_named(struct fusion_context *c, const struct tensor_type *t, struct value **vp, struct fault *f) {
	struct value *v;
	int r = slots_reserve(c->slots, 1, f);

	if (r)
		return r;
	v = value_new(c, OP_copy, t, NULL);
	if (!v)
		return -ENOMEM;
	v->references = 1;
	v->place = place_here();
	v->state = VALUE_SENT;
	v->seq = c->stream.seq;
	v->handle = slots_take(c->slots, v);
	*vp = v;
	return 0;
}

/* The daemon refused it, or never heard of it; where its engine was replaced meanwhile, it may have lost its handle by that. */
static void value_refused(struct fusion_context *c, struct value *v) {
	if (v->handle)
		slots_forgo(c->slots, v->handle);
	v->handle = 0;
	value_drop(c, v);
}

/* Where it did not answer, whether the handle is in use is known once it does. */
static void value_failed(struct fusion_context *c, struct value *v, struct value *of, struct request *q, const struct answer *a) {
	if (!q || a->done || !q->given_up) {
		value_refused(c, v);
		return;
	}
	q->named = v;
	q->value = of;
	if (of)
		value_hold(of);
}

static void value_is_shared(struct value *v, const struct answer *a, unsigned rights, bool exported) {
	v->shared = (uint32_t)a->arena;
	v->rights = (uint8_t)rights;
	v->exported = exported;
	/* It is there; no number of an engine says when. */
	v->seq = 0;
}

void share_answered(struct fusion_context *c, struct value *v, const struct answer *a, bool exported) {
	if (a->fault.code) {
		value_refused(c, v);
		return;
	}
	value_is_shared(v, a, (unsigned)a->rights, exported);
	value_drop(c, v);
}

/* ---- export ---- */

static int check_export(const struct fusion_array *a, struct fault *f) {
	int r = array_usable(a, "export", f);

	if (!r)
		r = capture_readable(a, "export", f);
	if (!r)
		r = capture_writable(a, "export", f);
	if (!r && a->mapping)
		r = fault_set(f, FAULT_STATE, "export: the array is mapped; call fusion_unmap first");
	if (!r && a->value->shared && !a->value->exported)
		r = fault_set(f, FAULT_STATE, "export: the array was imported; export a copy, or ask its owner for a token");
	return r;
}

/* Sends what was begun, and waits for the answer. */
static int ask(struct fusion_context *c, struct request *q, struct answer *a, struct fault *f) {
	q->seq = c->stream.seq;
	return stream_ask(c, q, a, f);
}

static int ask_export(struct fusion_context *c, const struct value *v, uint64_t own, unsigned rights, uint64_t lifetime_ms,
	struct answer *a, struct request **qp, struct fault *f) {
	struct wire_writer *w;
	struct request *q;
	int r = stream_room_to_wait(c, &q, f);

	if (r)
		return r;
	*qp = q;
	w = stream_begin(c, q, REQUEST_EXPORT, 5);
	q->handle = own;
	wire_put_uint(w, c->stream.seq);
	wire_put_uint(w, v->handle);
	wire_put_uint(w, own);
	wire_put_uint(w, rights);
	wire_put_uint(w, lifetime_ms * MICROSECONDS);
	return ask(c, q, a, f);
}

/* The array has the shared value from now on, unless another thread gave it another one meanwhile. */
static int move(struct fusion_array *a, const struct value *old, struct value *shared, struct fault *f) {
	uint64_t version = a->version;

	if (a->value != old || a->mapping)
		return fault_set(f, FAULT_STATE, "export: another thread has written or mapped the array meanwhile");
	shared->leaf = a->watched;
	array_rebind(a, shared);
	a->version = version;
	return 0;
}

static int export_first(struct recording *r, struct fusion_array *array, unsigned rights, uint64_t lifetime_ms, struct answer *a) {
	struct fusion_context *c = r->context;
	struct value *old = array->value, *shared = NULL;
	struct request *q = NULL;
	int failed = value_named(c, &array->type, &shared, &r->fault);

	if (failed)
		return failed;
	failed = ask_export(c, old, shared->handle, rights, lifetime_ms, a, &q, &r->fault);
	if (failed) {
		value_failed(c, shared, old, q, a);
		return failed;
	}
	value_is_shared(shared, a, SHARE_READ | SHARE_WRITE, true);
	failed = move(array, old, shared, &r->fault);
	value_drop(c, shared);
	return failed;
}

static int export_locked(struct recording *r, struct fusion_array *array, unsigned rights, uint64_t lifetime_ms,
	struct answer *a) {
	struct fusion_context *c = r->context;
	struct value *v = array->value;
	struct request *q;
	int failed = check_export(array, &r->fault);

	if (failed)
		return failed;
	value_hold(v);
	failed = flush_value(c, v, &r->fault);
	if (!failed && v->shared)
		failed = ask_export(c, v, 0, rights, lifetime_ms, a, &q, &r->fault);
	else if (!failed)
		failed = export_first(r, array, rights, lifetime_ms, a);
	value_unhold(c, v);
	return failed;
}

static int check_arguments(unsigned rights, uint64_t lifetime_ms, const struct fusion_token *tokenp, struct fault *f) {
	if (!tokenp)
		return fault_set(f, FAULT_ARGUMENT, "export: tokenp is NULL");
	if (rights != FUSION_SHARE_READ && rights != FUSION_SHARE_READ_WRITE)
		return fault_set(f, FAULT_ARGUMENT, "export: %u is none of enum fusion_rights", rights);
	if (lifetime_ms > LIFETIME_MS)
		return fault_set(f, FAULT_ARGUMENT, "export: a lifetime is at most %d milliseconds; 0 is without end", LIFETIME_MS);
	return 0;
}

int fusion_export(fusion_array *array, enum fusion_rights rights, uint64_t lifetime_ms, struct fusion_token *tokenp) {
	struct answer a = { 0 };
	struct recording r;
	struct fusion_array *own = record_begin_array(&r, "export", array);
	int failed;

	if (!own)
		return fusion_error_code();
	failed = check_arguments(rights, lifetime_ms, tokenp, &r.fault);
	if (!failed)
		failed = export_locked(&r, own, rights, lifetime_ms, &a);
	if (!failed)
		memcpy(tokenp->bytes, a.token, sizeof a.token);
	return record_end_code(&r, failed);
}

/* ---- import ---- */

static int ask_import(struct fusion_context *c, const struct fusion_token *token, uint64_t handle, struct answer *a,
	struct request **qp, struct fault *f) {
	struct wire_writer *w;
	struct request *q;
	int r = stream_room_to_wait(c, &q, f);

	if (r)
		return r;
	*qp = q;
	w = stream_begin(c, q, REQUEST_IMPORT, 3);
	q->handle = handle;
	wire_put_uint(w, c->stream.seq);
	wire_put_bin(w, token->bytes, sizeof token->bytes);
	wire_put_uint(w, handle);
	return ask(c, q, a, f);
}

static int import_locked(struct recording *r, const struct fusion_token *token, struct fusion_array **arrayp) {
	static const struct tensor_type not_known;
	struct fusion_context *c = r->context;
	struct answer a = { 0 };
	struct request *q = NULL;
	struct value *v = NULL;
	int failed = value_named(c, &not_known, &v, &r->fault);

	if (failed)
		return failed;
	failed = ask_import(c, token, v->handle, &a, &q, &r->fault);
	if (failed) {
		value_failed(c, v, NULL, q, &a);
		return failed;
	}
	v->type = a.type;
	value_is_shared(v, &a, (unsigned)a.rights, false);
	*arrayp = array_make(c, v, &v->type);
	if (*arrayp)
		(*arrayp)->version = a.version;
	value_drop(c, v);
	return *arrayp ? 0 : -ENOMEM;
}

/* Opens nothing, here: the caller tries elsewhere, and has the sentence. */
static fusion_array *import_here(fusion_context *context, const struct fusion_token *token, struct elsewhere *e, struct fault *unknown) {
	struct fusion_array *array = NULL;
	struct recording r;
	fusion_array *name;
	int failed;

	unknown->code = 0;
	if (!record_begin_source(&r, "import", context))
		return NULL;
	failed = token ? import_locked(&r, token, &array) : fault_set(&r.fault, FAULT_ARGUMENT, "import: the token is NULL");
	if (failed == FAULT_TOKEN) {
		*unknown = r.fault;
		/* Whom the caller asks there, no further one is asked by. */
		failed = e ? elsewhere_of(r.context, e) : 0;
		if (failed)
			unknown->code = 0;
	}
	name = array_name(array);
	record_end_code(&r, failed);
	return name;
}

/* ---- import from another device ---- */

/* An array of another context, as one of this. */
static fusion_array *copy_of(fusion_context *context, fusion_array *array) {
	size_t bytes = fusion_bytes(array);
	void *memory;
	fusion_array *copy = fusion_create(context, fusion_dtype_of(array), fusion_rank(array), fusion_dims(array), &memory);

	if (!copy)
		return NULL;
	if (!fusion_read(array, memory, bytes) && !fusion_unmap(copy))
		return copy;
	fusion_release(copy);
	return NULL;
}

/* Engines know only their own tokens, so each is asked by a session of its own, which ends here. */
static fusion_array *import_from(fusion_context *context, const struct elsewhere *e, unsigned device, const struct fusion_token *token,
	struct fault *unknown) {
	fusion_context *other;
	fusion_array *array, *copy = NULL;

	unknown->code = 0;
	if (elsewhere_open(e, device, &other))
		return NULL;
	array = import_here(other, token, NULL, unknown);
	if (array)
		copy = copy_of(context, array);
	fusion_release(array);
	fusion_close(other);
	return copy;
}

fusion_array *fusion_import(fusion_context *context, const struct fusion_token *token) {
	struct elsewhere e = { 0 };
	struct fault unknown = { 0 };
	fusion_array *array = import_here(context, token, &e, &unknown);
	struct fault here = unknown;

	for (unsigned i = 0; unknown.code && i < e.devices; i++)
		if (i != e.number)
			array = import_from(context, &e, i, token, &unknown);
	if (unknown.code)
		error_report(here.code, &here);
	elsewhere_free(&e);
	return array;
}

/* ---- revoke ---- */

int fusion_revoke(fusion_context *context, const struct fusion_token *token) {
	struct answer a = { 0 };
	struct recording r;
	struct request *q;
	int failed;

	if (!record_begin_source(&r, "revoke", context))
		return fusion_error_code();
	failed = token ? stream_room_to_wait(r.context, &q, &r.fault)
		       : fault_set(&r.fault, FAULT_ARGUMENT, "revoke: the token is NULL");
	if (!failed) {
		wire_put_bin(stream_begin(r.context, q, REQUEST_REVOKE, 1), token->bytes, sizeof token->bytes);
		failed = stream_send(r.context, q, &a, &r.fault);
	}
	if (!failed)
		failed = stream_wait(r.context, q, &a, &r.fault);
	return record_end_code(&r, failed);
}
