/*
 * Shared arrays across an engine's end: what is noted of them while they live, and how the next engine has them again.
 *
 * The supervisor keeps their memory, and says with each session that goes on which of it that session holds. The first
 * one to come with a share makes it anew; whether it has its value is the question that every array is asked. Holds without
 * memory, and memory without a hold, were about to come or to go when the engine ended: they go.
 */
#include "share_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <utlist.h>

#include "protocol/message.h"
#include "daemon/base/loop.h"
#include "daemon/serve/restore.h"
#include "daemon/serve/server.h"

/* ---- noting ---- */

/* Its entry, made where it has none; NULL where there is no catalogue, or no room in it. */
static struct catalogue_entry *entry_of(struct server *v, uint32_t *entryp, uint64_t session) {
	if (*entryp == CATALOGUE_NONE)
		*entryp = catalogue_take(v->catalogue, session);
	return *entryp == CATALOGUE_NONE ? NULL : &v->catalogue->entry[*entryp];
}

void share_noted(struct share *s) {
	struct catalogue_entry *e = entry_of(s->server, &s->entry, catalogue_owner(s->arena));

	if (!e)
		return;
	e->of_share = (struct catalogue_share){ .version = s->version, .uid = (uint32_t)s->uid, .buffer = buffer_entry(s->buffer),
		.view = s->view, .type = s->type };
	catalogue_put(s->server->catalogue, s->entry, CATALOGUE_SHARE);
}

void hold_noted(struct hold *h) {
	struct catalogue_entry *e = entry_of(h->session->server, &h->entry, h->session->id);

	if (!e)
		return;
	e->of_hold = (struct catalogue_hold){ .arena = h->share->arena, .own = h->own, .writable = h->writable };
	catalogue_put(h->session->server->catalogue, h->entry, CATALOGUE_HOLD);
}

void token_noted(struct token *t) {
	struct session *s = t->hold->session;
	struct catalogue_entry *e = entry_of(s->server, &t->entry, s->id);

	if (!e)
		return;
	e->of_token = (struct catalogue_token){ .arena = t->hold->share->arena, .rights = t->rights, .until_us = t->until_us };
	memcpy(e->of_token.bytes, t->bytes, sizeof t->bytes);
	catalogue_put(s->server->catalogue, t->entry, CATALOGUE_TOKEN);
}

/* ---- memory ---- */

int share_regained(struct session *s, uint32_t arena, int fd, uint64_t bytes) {
	struct grant *more = realloc(s->regained, (s->regains + 1) * sizeof *more);

	if (!more) {
		close(fd);
		return -ENOMEM;
	}
	s->regained = more;
	s->regained[s->regains++] = (struct grant){ .arena = arena, .fd = fd, .bytes = bytes };
	return 0;
}

static struct grant *find_grant(const struct session *s, uint32_t arena) {
	for (unsigned i = 0; i < s->regains; i++)
		if (s->regained[i].arena == arena)
			return &s->regained[i];
	return NULL;
}

/* ---- shares ---- */

static const struct catalogue_share *find_entry(const struct catalogue *c, uint32_t arena, uint32_t entries, uint32_t *entryp) {
	for (*entryp = 0; *entryp < entries; ++*entryp) {
		const struct catalogue_entry *e = catalogue_find(c, *entryp, CATALOGUE_SHARE, catalogue_owner(arena));

		if (e)
			return &e->of_share;
	}
	return NULL;
}

/* As a session's array would be adopted: its buffer, where its value is there. */
static int adopt_value(struct share *share, const struct catalogue_share *n) {
	const struct catalogue_entry *e = catalogue_find(share->server->catalogue, n->buffer, CATALOGUE_BUFFER,
		catalogue_owner(share->arena));
	struct fault f;
	int r;

	if (!e || !view_fits(&n->type, &n->view, e->of_buffer.bytes))
		return FAULT_LOST;
	r = buffer_adopt(share->space, n->buffer, &share->buffer, &f);
	if (r)
		return r;
	share->view = n->view;
	share->version = n->version;
	return 0;
}

/* NULL: there is no value, or no memory. Uses up the grant's descriptor. */
static struct share *adopt(struct session *s, struct grant *g, uint32_t entries) {
	uint32_t entry;
	const struct catalogue_share *n = find_entry(s->server->catalogue, g->arena, entries, &entry);
	struct share *share = n && type_is_sound(&n->type)
				      ? share_make(s->server, &n->type, (uid_t)n->uid, (uint64_t)shape_bytes(&n->type)) : NULL;
	int r;

	if (!share)
		return NULL;
	r = share_back(share, g->arena, g->fd, g->bytes);
	g->fd = -1;
	if (!r)
		r = adopt_value(share, n);
	if (r) {
		share_free(share);
		return NULL;
	}
	share->entry = entry;
	return share;
}

/* ---- holds and tokens ---- */

/* 0, or -ENOMEM. One that cannot be had is forgotten. */
static int restore_hold(struct session *s, uint32_t entry, uint32_t entries) {
	struct catalogue_hold n = s->server->catalogue->entry[entry].of_hold;
	struct grant *g = find_grant(s, n.arena);
	struct share *share = g ? share_find(s->server, n.arena) : NULL;
	struct hold *h;

	if (g && !share)
		share = adopt(s, g, entries);
	if (!share || hold_find(s, share) || (n.own && share->uid != s->uid)) {
		catalogue_give(s->server->catalogue, entry);
		if (share && !share->holds)
			share_free(share);
		return 0;
	}
	h = hold_new(s, share, n.own, n.writable);
	if (!h) {
		if (!share->holds)
			share_free(share);
		return -ENOMEM;
	}
	h->entry = entry;
	return 0;
}

static struct hold *hold_of(const struct session *s, uint32_t arena) {
	struct hold *h = s->holds;

	while (h && h->share->arena != arena)
		h = h->session_next;
	return h;
}

static int restore_token(struct session *s, uint32_t entry) {
	const struct catalogue_token *n = &s->server->catalogue->entry[entry].of_token;
	struct hold *h = hold_of(s, n->arena);
	struct token *t;

	if (!h || !h->own || loop_now() >= n->until_us) {
		catalogue_give(s->server->catalogue, entry);
		return 0;
	}
	t = calloc(1, sizeof *t);
	if (!t)
		return -ENOMEM;
	t->rights = n->rights & (SHARE_READ | SHARE_WRITE);
	t->until_us = n->until_us;
	t->entry = entry;
	memcpy(t->bytes, n->bytes, sizeof t->bytes);
	return token_enter(h, t);
}

void shares_forgo(struct session *s) {
	for (unsigned i = 0; i < s->regains; i++)
		if (s->regained[i].fd >= 0)
			close(s->regained[i].fd);
	free(s->regained);
	s->regained = NULL;
	s->regains = 0;
}

/* What nobody holds goes back to the supervisor, which still counts it as the session's. */
static void give_back(struct session *s) {
	for (unsigned i = 0; i < s->regains; i++)
		if (!hold_of(s, s->regained[i].arena))
			control_drop(s, s->regained[i].arena);
	shares_forgo(s);
}

int shares_restore(struct session *s, uint32_t entries) {
	const struct catalogue *c = s->server->catalogue;
	int r = 0;

	for (uint32_t i = 0; !r && i < entries; i++)
		if (catalogue_find(c, i, CATALOGUE_HOLD, s->id))
			r = restore_hold(s, i, entries);
	for (uint32_t i = 0; !r && i < entries; i++)
		if (catalogue_find(c, i, CATALOGUE_TOKEN, s->id))
			r = restore_token(s, i);
	give_back(s);
	return r;
}

/* ---- arrays ---- */

int share_restored(struct session *s, struct array *a, const struct catalogue_array *n, struct fault *f) {
	struct hold *h = hold_of(s, n->share);

	if (!h)
		return fault_set(f, FAULT_LOST, "the shared array had no value in shared memory when the engine ended");
	if (!shape_equal(&a->type, &h->share->type))
		return fault_set(f, FAULT_LOST, "what was known of the shared array is lost");
	hold_attach(a, h, n->writable && h->writable);
	a->buffer = buffer_ref(h->share->buffer);
	a->view = h->share->view;
	if (!n->mapped || !a->writable || h->share->writer)
		return 0;
	a->mapped = ARRAY_RESTORED;
	h->share->writer = a;
	return 0;
}

void shares_restored(struct session *s) {
	for (struct hold *h = s->holds; h; h = h->session_next)
		if (!h->arrays)
			hold_look_at(h);
}
