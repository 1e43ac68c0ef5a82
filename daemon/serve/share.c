/* Shared arrays; see share.h. */
#include "share_state.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cjson/cJSON.h>
#include <utlist.h>

#include "protocol/codec.h"
#include "protocol/message.h"
#include "daemon/base/loop.h"
#include "daemon/serve/account.h"
#include "daemon/serve/wait.h"

int shares_begin(struct server *v) {
	ssize_t n = getrandom(&v->token_seed, sizeof v->token_seed, 0);

	return n == (ssize_t)sizeof v->token_seed ? 0 : -errno;
}

/* ---- shares ---- */

struct share *share_make(struct server *v, const struct tensor_type *type, uid_t uid, uint64_t bytes) {
	static const struct space_callbacks nothing;
	struct share *share = calloc(1, sizeof *share);

	if (!share)
		return NULL;
	*share = (struct share){ .server = v, .type = *type, .uid = uid, .bytes = bytes, .version = SHARE_FIRST, .entry = CATALOGUE_NONE };
	if (space_new(v->exec, &nothing, 0, &share->space)) {
		free(share);
		return NULL;
	}
	DL_APPEND2(v->shares, share, previous, next);
	return share;
}

void share_free(struct share *s) {
	DL_DELETE2(s->server->shares, s, previous, next);
	catalogue_give(s->server->catalogue, s->entry);
	if (s->buffer)
		buffer_unref(s->buffer);
	space_free(s->space);
	free(s);
}

int share_back(struct share *s, uint32_t arena, int fd, uint64_t bytes) {
	s->arena = arena;
	space_note(s->space, catalogue_owner(arena));
	return space_add_arena(s->space, arena, fd, bytes, true);
}

struct share *share_find(struct server *v, uint32_t arena) {
	struct share *s = v->shares;

	while (s && s->arena != arena)
		s = s->next;
	return s;
}

uint32_t share_arena(const struct array *a) {
	return a->hold->share->arena;
}

/* ---- holds ---- */

struct hold *hold_new(struct session *s, struct share *share, bool own, bool writable) {
	struct hold *h = calloc(1, sizeof *h);

	if (!h)
		return NULL;
	*h = (struct hold){ .share = share, .session = s, .own = own, .writable = writable, .entry = CATALOGUE_NONE };
	DL_APPEND2(share->holds, h, previous, next);
	DL_APPEND2(s->holds, h, session_previous, session_next);
	s->held_shares++;
	return h;
}

struct hold *hold_find(const struct session *s, const struct share *share) {
	struct hold *h = s->holds;

	while (h && h->share != share)
		h = h->session_next;
	return h;
}

void token_free(struct token *t) {
	catalogue_give(t->hold->session->server->catalogue, t->entry);
	HASH_DELETE(hh, t->hold->session->server->tokens, t);
	DL_DELETE2(t->hold->tokens, t, previous, next);
	t->hold->session->tokens--;
	explicit_bzero(t->bytes, sizeof t->bytes);
	free(t);
}

static void tokens_free(struct hold *h) {
	while (h->tokens)
		token_free(h->tokens);
}

void hold_look_at(struct hold *h) {
	struct server *v = h->session->server;

	if (!h->leaving)
		DL_APPEND2(v->leaving, h, leaving_previous, leaving_next);
	h->leaving = true;
}

void shares_look_at(struct session *s) {
	struct hold *h;

	DL_FOREACH2(s->holds, h, session_next)
		hold_look_at(h);
}

static void look_away(struct hold *h) {
	if (h->leaving)
		DL_DELETE2(h->session->server->leaving, h, leaving_previous, leaving_next);
	h->leaving = false;
}

static void fence_passed(struct share *s) {
	struct waiter *w = s->waiter;

	if (--s->fences || !w)
		return;
	s->waiter = NULL;
	waiter_ready(w);
}

void hold_free(struct hold *h) {
	struct share *share = h->share;

	look_away(h);
	tokens_free(h);
	catalogue_give(h->session->server->catalogue, h->entry);
	DL_DELETE2(share->holds, h, previous, next);
	DL_DELETE2(h->session->holds, h, session_previous, session_next);
	h->session->held_shares--;
	if (h->fenced)
		fence_passed(share);
	free(h);
	if (!share->holds)
		share_free(share);
}

void hold_attach(struct array *a, struct hold *h, bool writable) {
	a->hold = h;
	a->writable = writable;
	h->arrays++;
	h->sealed = false;
}

void share_left(struct array *a) {
	struct hold *h = a->hold;

	if (h->share->writer == a) {
		/* It was being written by a client that has died, say: what it left is what the array holds. */
		if (a->mapped == ARRAY_MAPPED || a->mapped == ARRAY_RESTORED)
			buffer_written(a->buffer);
		share_unfenced(a);
	}
	a->hold = NULL;
	if (--h->arrays)
		return;
	tokens_free(h);
	hold_look_at(h);
}

/* Called by exec, which must not be called from there. */
static void on_ended(void *user) {
	struct hold *h = user;

	h->ends--;
	hold_look_at(h);
}

/* What is queued may still read it. */
static void hold_seal(struct hold *h) {
	struct session *s = h->session;

	/* It is looked at again: shares_look_at(). */
	if (flush_demanded(s))
		return;
	if (lane_fence(s->lane, on_ended, h)) {
		log_error("session %" PRIu64 " keeps a shared array: out of memory", s->id);
		return;
	}
	h->sealed = true;
	h->ends++;
}

/* One that is in use again stays; one whose fences have not passed comes again with them. */
static void hold_turn(struct hold *h) {
	if (h->arrays || h->asked || h->importers)
		return;
	if (!h->sealed) {
		hold_seal(h);
		return;
	}
	if (h->ends || h->fenced)
		return;
	if (!h->refused)
		control_drop(h->session, h->share->arena);
	hold_free(h);
}

void shares_turn(struct server *v) {
	while (v->leaving) {
		struct hold *h = v->leaving;

		look_away(h);
		hold_turn(h);
	}
}

void shares_end(struct session *s) {
	struct hold *next;

	for (struct hold *h = s->holds; h; h = next) {
		next = h->session_next;
		hold_free(h);
	}
}

int share_check(const struct array *a, struct fault *f) {
	const struct array *writer = a->hold ? a->hold->share->writer : NULL;

	if (!writer || writer == a)
		return 0;
	return fault_set(f, FAULT_STATE, "the shared array is mapped for writing elsewhere");
}

int share_part(struct session *s, struct array *a, struct fault *f) {
	const struct hold *h = s->holds;

	while (h && buffer_space(a->buffer) != h->share->space)
		h = h->session_next;
	return h && !a->hold ? flush_copy(s, a, f) : 0;
}

/* ---- writing ---- */

int share_may_write(const struct array *a, struct fault *f) {
	const struct share *s = a->hold->share;

	if (!a->writable)
		return fault_set(f, FAULT_STATE, "the array was imported by a token that only lets it be read");
	if (s->writer || s->fences)
		return fault_set(f, FAULT_STATE, "the shared array is mapped for writing elsewhere");
	return 0;
}

/* Called by exec. */
static void on_fenced(void *user) {
	struct hold *h = user;

	h->fenced = false;
	hold_look_at(h);
	fence_passed(h->share);
}

static int fence_hold(struct hold *h) {
	struct session *s = h->session;
	int r = lane_fence(s->lane, on_fenced, h);

	if (r)
		return r;
	h->fenced = true;
	h->share->fences++;
	return 0;
}

int share_flush(const struct array *a) {
	struct hold *h;
	int r = 0;

	DL_FOREACH2(a->hold->share->holds, h, next)
		r = flush_demanded(h->session) ? -EINPROGRESS : r;
	return r;
}

int share_fence(struct waiter *w) {
	struct share *s = w->array->hold->share;
	struct hold *h;
	int r = 0;

	s->writer = w->array;
	s->fences = 1;
	DL_FOREACH2(s->holds, h, next)
		r = r ? r : fence_hold(h);
	if (r)
		share_unfenced(w->array);
	else
		s->waiter = w;
	fence_passed(s);
	return r;
}

void share_unfenced(struct array *a) {
	struct share *s = a->hold->share;

	s->writer = NULL;
	s->waiter = NULL;
}

bool share_was_written(const struct array *a) {
	return a->hold && a->hold->share->version != SHARE_FIRST;
}

uint64_t share_written(struct array *a) {
	struct share *s = a->hold->share;

	share_unfenced(a);
	s->version++;
	share_noted(s);
	return s->version;
}

/* ---- tokens ---- */

static uint64_t place_of(const struct server *v, const void *bytes) {
	return XXH3_64bits_withSeed(bytes, LIMIT_TOKEN_BYTES, v->token_seed);
}

/* Takes the same time wherever the first difference lies. */
static bool tokens_equal(const unsigned char *a, const unsigned char *b) {
	unsigned difference = 0;

	for (unsigned i = 0; i < LIMIT_TOKEN_BYTES; i++)
		difference |= a[i] ^ b[i];
	return difference == 0;
}

struct token *token_find(struct server *v, const void *bytes) {
	uint64_t place = place_of(v, bytes);
	struct token *t;

	HASH_FIND(hh, v->tokens, &place, sizeof place, t);
	if (!t || !tokens_equal(t->bytes, bytes))
		return NULL;
	if (loop_now() < t->until_us)
		return t;
	token_free(t);
	return NULL;
}

uint32_t share_tokens(const struct session *s) {
	uint64_t now = loop_now();
	struct token *t, *next;

	for (const struct hold *h = s->holds; h; h = h->session_next)
		for (t = h->tokens; t; t = next) {
			next = t->next;
			if (now >= t->until_us)
				token_free(t);
		}
	return s->tokens;
}

int token_enter(struct hold *h, struct token *t) {
	struct server *v = h->session->server;

	t->hold = h;
	t->place = place_of(v, t->bytes);
	HASH_ADD(hh, v->tokens, place, sizeof t->place, t);
	if (!HASH_ADDED(hh, t)) {
		explicit_bzero(t->bytes, sizeof t->bytes);
		free(t);
		return -ENOMEM;
	}
	DL_APPEND2(h->tokens, t, previous, next);
	h->session->tokens++;
	return 0;
}

int token_new(struct hold *h, const struct export *e, struct token **tokenp) {
	struct server *v = h->session->server;
	struct token *t = calloc(1, sizeof *t), *other;
	uint64_t place;

	if (!t)
		return -ENOMEM;
	t->entry = CATALOGUE_NONE;
	if (getrandom(t->bytes, sizeof t->bytes, 0) != (ssize_t)sizeof t->bytes) {
		free(t);
		return -EIO;
	}
	place = place_of(v, t->bytes);
	HASH_FIND(hh, v->tokens, &place, sizeof place, other);
	if (other) {                     /* once in the life of the universe */
		free(t);
		return -EIO;
	}
	t->rights = e->rights;
	t->until_us = e->lifetime_us ? loop_now() + e->lifetime_us : UINT64_MAX;
	if (token_enter(h, t))
		return -ENOMEM;
	token_noted(t);
	*tokenp = t;
	return 0;
}

/* ---- statistics ---- */

void shares_statistics(cJSON *json, const struct server *v) {
	uint64_t bytes = 0, count = 0, tokens = 0;

	for (const struct share *share = v->shares; share; share = share->next) {
		bytes += share->bytes;
		count++;
	}
	for (const struct session *s = v->sessions; s; s = s->hh.next)
		tokens += share_tokens(s);
	cJSON_AddNumberToObject(json, "shared_arrays", (double)count);
	cJSON_AddNumberToObject(json, "shared_bytes", (double)bytes);
	cJSON_AddNumberToObject(json, "tokens", (double)tokens);
}
