/*
 * EXPORT, IMPORT and REVOKE.
 *
 * The supervisor gives the memory of an exported array, and lets another session hold it. Both are asked for and answered later, in any turn: the
 * request waits for that, nobody else. What is exported is the array as it was when that was asked for; what is imported stays
 * from then on, whoever lets go of it. Of memory a session asks for one piece at a time, so that the answer, or the refusal, is the first request's;
 * whether it may hold an array is answered in the order in which it was asked.
 */
#include "share_state.h"

#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

#include "protocol/codec.h"
#include "protocol/message.h"
#include "daemon/serve/account.h"
#include "daemon/serve/wait.h"

enum {
	/* Longest lifetime told apart from none: 300 years. */
	SHARE_LIFETIME_US_BITS = 53,
};

/* ---- tokens ---- */

static int check_tokens(struct session *s, struct fault *f) {
	uint64_t limit = account_config(s->account, &s->server->config)->limits_tokens;

	if (share_tokens(s) < limit)
		return 0;
	return fault_set(f, FAULT_LIMIT, "the session has %u tokens, as many as limits.tokens allows; revoke some",
		s->tokens);
}

static int refuse_token(struct session *s, struct fault *f) {
	session_count(s, imports_refused, 1);
	return fault_set(f, FAULT_TOKEN, "the token opens nothing: it is unknown, has expired or was revoked, or its array is "
		"of a user whose arrays are closed to this one");
}

/* ---- EXPORT ---- */

static int check_shares(const struct session *s, struct fault *f) {
	uint64_t limit = account_config(s->account, &s->server->config)->limits_shared_arrays;

	if (s->held_shares < limit)
		return 0;
	return fault_set(f, FAULT_LIMIT, "the session shares %u arrays, as many as limits.shared_arrays allows", s->held_shares);
}

static void refuse_memory(const struct fault *why, struct fault *f) {
	fault_set(f, why->code, "there is no memory for the shared array: %s", why->text);
}

static int answer_token(struct session *s, struct transport_request *frame, struct hold *h, const struct export *e) {
	struct token *t = NULL;
	struct wire_writer *out;
	int r = token_new(h, e, &t);

	if (r)
		return r;
	session_count(s, exports, 1);
	out = request_answer(s->server, REQUEST_EXPORT, 2);
	wire_put_bin(out, t->bytes, sizeof t->bytes);
	wire_put_uint(out, h->share->arena);
	request_send(s->server, frame);
	return 0;
}

/* The session names its array and gets a token for it, or neither. */
static int export_end(struct session *s, struct waiter *w, struct fault *f) {
	struct array *a = w->array;
	int r = check_tokens(s, f);

	if (r)
		return r;
	r = handles_put(&s->handles, w->export.handle, array_ref(a), f);
	if (r) {
		array_unref(a);
		return r;
	}
	r = answer_token(s, w->frame, a->hold, &w->export);
	if (r && handles_release(&s->handles, w->export.handle, 0, f))
		log_error("an exported array stays with session %" PRIu64, s->id);
	return r;
}

/* The values lie in the shared memory, or could not be computed. */
static void export_published(struct waiter *w) {
	struct fault f = w->fault;
	int r = f.code ? f.code : export_end(w->session, w, &f);

	if (!waiter_failed(w, r, &f))
		waiter_free(w);
}

/* In the memory that was granted, which goes back where it cannot be had. */
static int share_new(struct session *s, const struct array *a, struct grant *g, struct share **sharep) {
	struct share *share = share_make(s->server, &a->type, s->uid, (uint64_t)shape_bytes(&a->type));
	int r = share ? share_back(share, g->arena, g->fd, g->bytes) : -ENOMEM;

	if (share)
		g->fd = -1;
	if (!r) {
		*sharep = share;
		return 0;
	}
	control_drop(s, g->arena);
	if (share)
		share_free(share);
	return r;
}

/* A share with the values of an array, and the session's own array of it. */
static int share_of(struct session *s, const struct array *a, struct grant *g, struct array **arrayp, struct fault *f) {
	struct share *share = NULL;
	struct hold *h;
	struct array *n;
	int r = share_new(s, a, g, &share);

	if (r)
		return r;
	h = hold_new(s, share, true, true);
	if (!h) {
		control_drop(s, share->arena);
		share_free(share);
		return -ENOMEM;
	}
	n = array_new(&a->type);
	if (!n) {
		hold_look_at(h);
		return -ENOMEM;
	}
	hold_attach(n, h, true);
	r = flush_copy_to(s, a, n, share->space, f);
	if (r) {
		array_unref(n);
		return r;
	}
	share->buffer = buffer_ref(n->buffer);
	share->view = n->view;
	share_noted(share);
	hold_noted(h);
	*arrayp = n;
	return 0;
}

static int ask_memory(struct waiter *w, struct fault *f) {
	struct session *s = w->session;
	int r = check_shares(s, f);

	if (!r)
		r = control_share(s, (uint64_t)shape_bytes(&w->array->type) + LIMIT_ALIGNMENT + LIMIT_ARENA_SLACK);
	s->granting = !r;
	return r;
}

/* One at a time, so that what comes is for the first. */
static void ask_next(struct session *s) {
	struct waiter *w;
	struct fault f;

	s->granting = false;
	while (!s->granting && (w = s->exporting))
		waiter_failed(w, ask_memory(w, &f), &f);
}

/* The memory is there, or will not be. */
static void export_granted(struct waiter *w) {
	struct session *s = w->session;
	struct fault f = w->fault;
	struct array *n = NULL;
	int r = f.code ? f.code : share_of(s, w->array, &w->grant, &n, &f);

	ask_next(s);
	if (!r) {
		array_unref(w->array);
		w->array = n;
		r = waiter_publish(w, export_published);
	}
	waiter_failed(w, r, &f);
}

void share_granted(struct session *s, uint32_t arena, int fd, uint64_t bytes) {
	struct waiter *w = s->granting ? s->exporting : NULL;

	if (!w) {
		close(fd);
		control_drop(s, arena);
		return;
	}
	w->grant = (struct grant){ .arena = arena, .fd = fd, .bytes = bytes };
	waiter_ready(w);
}

void share_not_granted(struct session *s, const struct fault *f) {
	struct fault why;

	if (!s->granting || !s->exporting)
		return;
	refuse_memory(f, &why);
	waiter_told(s->exporting, &why);
}

/* The array as it is now: whatever is written to it later, or becomes of its name, while the memory is on its way. */
static int export_new(struct request *r, const struct array *a, const struct export *e, struct fault *f) {
	struct session *s = r->session;
	struct array *n = array_new(&a->type);
	struct waiter *w = NULL;
	int code = n ? check_shares(s, f) : -ENOMEM;

	if (!code) {
		n->buffer = buffer_ref(a->buffer);
		n->view = a->view;
		n->run = a->run;
		code = waiter_new(r, n, export_granted, &w);
	}
	array_unref(n);
	if (code)
		return code;
	w->export = *e;
	waiter_queue(w, &s->exporting);
	code = s->granting ? 0 : ask_memory(w, f);
	if (code)
		waiter_free(w);
	return code;
}

/* One more token for what is shared. */
static int export_again(const struct request *r, const struct array *a, const struct export *e, struct fault *f) {
	if (!a->hold->own)
		return fault_set(f, FAULT_STATE, "an imported array is exported by its owner alone; export a copy of it");
	return answer_token(r->session, r->frame, a->hold, e);
}

static int read_rights(struct wire_cursor *body, struct export *e, struct fault *f) {
	uint64_t rights;
	int r = wire_get_uint(body, "rights", SHARE_READ | SHARE_WRITE, &rights, f);

	if (!r && !(rights & SHARE_READ))
		r = fault_set(f, FAULT_ARGUMENT, "a token without the right to read opens nothing");
	if (!r)
		r = wire_get_uint(body, "lifetime", (UINT64_C(1) << SHARE_LIFETIME_US_BITS) - 1, &e->lifetime_us, f);
	e->rights = r ? 0 : (unsigned)rights;
	return r;
}

int export_request(struct request *r, struct fault *f) {
	struct export e = { 0 };
	struct array *a = NULL;
	uint64_t handle;
	int code = wire_get_uint(&r->body, "handle", INT64_MAX, &handle, f);

	if (!code)
		code = wire_get_uint(&r->body, "own", INT64_MAX, &e.handle, f);
	if (!code)
		code = read_rights(&r->body, &e, f);
	if (!code)
		code = wire_get_end(&r->body, "EXPORT", f);
	if (!code)
		code = request_array(r, handle, &a, f);
	if (!code)
		code = check_tokens(r->session, f);
	if (!code && !a->hold != (e.handle != 0))
		code = fault_set(f, FAULT_ARGUMENT, a->hold ? "the array is shared already" : "the array is not shared");
	if (code)
		return code;
	return a->hold ? export_again(r, a, &e, f) : export_new(r, a, &e, f);
}

/* ---- IMPORT ---- */

static bool may_open(const struct session *s, const struct share *share) {
	return s->uid == share->uid || account_config(s->account, &s->server->config)->limits_share_between_users;
}

/* From now on the share stays; the session has it when the supervisor has said so. */
static int ask_hold(struct hold *h, bool writable) {
	int r = control_hold(h->session, h->share->arena, writable);

	h->writable = writable;
	h->asked = !r;
	h->refused = r;
	if (r)
		hold_look_at(h);
	return r;
}

/* The session's hold: the one it has, or a new one. One that was refused, and has not gone yet, is asked for again. */
static int hold_for(struct session *s, const struct token *t, struct hold **holdp, struct fault *f) {
	struct hold *h = hold_find(s, t->hold->share);
	bool writable = t->rights & SHARE_WRITE;
	int r;

	*holdp = h;
	if (h && h->refused)
		return ask_hold(h, writable);
	if (h && writable && !h->writable)
		return fault_set(f, FAULT_STATE, "the session has imported the array for reading; release that first");
	if (h)
		return 0;
	r = check_shares(s, f);
	if (r)
		return r;
	*holdp = h = hold_new(s, t->hold->share, false, writable);
	return h ? ask_hold(h, writable) : -ENOMEM;
}

/* An array of the share; a hold that was made for it goes again where that fails. */
static int name_share(struct session *s, struct hold *h, uint64_t handle, bool writable, struct fault *f) {
	const struct share *share = h->share;
	struct array *a = array_new(&share->type);
	int r;

	if (!a) {
		hold_look_at(h);
		return -ENOMEM;
	}
	hold_attach(a, h, writable);
	a->buffer = buffer_ref(share->buffer);
	a->view = share->view;
	a->version = share->version;
	r = handles_put(&s->handles, handle, a, f);
	if (r)
		array_unref(a);
	return r;
}

/* The session holds the share: it names its array of it and is told, or not. */
static int import_end(struct session *s, struct waiter *w, struct fault *f) {
	const struct share *share = w->hold->share;
	struct wire_writer *out;
	int r = name_share(s, w->hold, w->export.handle, w->export.rights & SHARE_WRITE, f);

	if (r)
		return r;
	session_count(s, imports, 1);
	out = request_answer(s->server, REQUEST_IMPORT, 4);
	codec_put_type(out, &share->type);
	wire_put_uint(out, w->export.rights);
	wire_put_uint(out, share->version);
	wire_put_uint(out, share->arena);
	request_send(s->server, w->frame);
	return 0;
}

static void import_answered(struct waiter *w) {
	struct hold *h = w->hold;
	struct fault f = w->fault;
	int r = f.code ? f.code : import_end(w->session, w, &f);

	if (!--h->importers && h->refused)
		hold_look_at(h);
	if (!waiter_failed(w, r, &f))
		waiter_free(w);
}

/* All that wait for it. */
static void tell_importers(struct session *s, const struct hold *h, const struct fault *f) {
	struct waiter *next;

	for (struct waiter *w = s->importing; w; w = next) {
		next = w->queue_next;
		if (w->hold == h)
			waiter_told(w, f);
	}
}

void share_held(struct session *s, uint32_t arena) {
	struct hold *h = s->holds;

	while (h && !(h->asked && h->share->arena == arena))
		h = h->session_next;
	if (!h)
		return;
	h->asked = false;
	hold_noted(h);
	tell_importers(s, h, NULL);
}

void share_not_held(struct session *s, const struct fault *f) {
	struct hold *h = s->importing ? s->importing->hold : NULL;
	struct fault why;

	if (!h)
		return;
	refuse_memory(f, &why);
	h->asked = false;
	h->refused = true;
	tell_importers(s, h, &why);
}

int import_request(struct request *r, struct fault *f) {
	struct session *s = r->session;
	struct token *t = NULL;
	struct waiter *w = NULL;
	const void *bytes;
	uint64_t handle;
	int code = wire_get_bin(&r->body, "token", LIMIT_TOKEN_BYTES, &bytes, f);

	if (!code)
		code = wire_get_uint(&r->body, "handle", INT64_MAX, &handle, f);
	if (!code)
		code = wire_get_end(&r->body, "IMPORT", f);
	if (code)
		return code;
	t = token_find(s->server, bytes);
	if (!t || !may_open(s, t->hold->share))
		return refuse_token(s, f);
	code = waiter_new(r, NULL, import_answered, &w);
	if (code)
		return code;
	w->export = (struct export){ .handle = handle, .rights = t->rights };
	code = hold_for(s, t, &w->hold, f);
	if (code) {
		waiter_free(w);
		return code;
	}
	w->hold->importers++;
	waiter_queue(w, w->hold->asked ? &s->importing : &s->server->ready);
	return 0;
}

/* ---- REVOKE ---- */

int revoke_request(struct request *r, struct fault *f) {
	const void *bytes;
	struct token *t;
	int code = wire_get_bin(&r->body, "token", LIMIT_TOKEN_BYTES, &bytes, f);

	if (!code)
		code = wire_get_end(&r->body, "REVOKE", f);
	if (code)
		return code;
	t = token_find(r->session->server, bytes);
	if (!t || t->hold->session != r->session)
		return refuse_token(r->session, f);
	token_free(t);
	request_answer(r->session->server, r->id, 0);
	request_send(r->session->server, r->frame);
	return 0;
}
