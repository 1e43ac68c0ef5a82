/* Graphs under way; see flight.h. */
#include "flight.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/loop.h"
#include "daemon/base/str.h"

enum {
	/* Between two texts: they cost a microsecond an operation, and must cost nothing that is felt. */
	FLIGHT_TEXT_US = 20 * 1000,
};

struct suspect_key {
	uint64_t key[2];
	uint64_t uid;
};

struct suspect {
	struct suspect_key key;
	bool refused;
	uint64_t until_us;
	UT_hash_handle hh;
};

/* What the device still has of a session that has ended. */
struct orphan {
	struct orphan *next;
	uint64_t session;
	uint32_t note;
};

void flight_open(struct server *v) {
	uint64_t seed = atomic_load(&v->catalogue->header->seed);

	if (seed)
		graph_set_seed(seed);
	else
		atomic_store(&v->catalogue->header->seed, graph_seed());
}

static void suspect_free(struct server *v, struct suspect *s) {
	HASH_DELETE(hh, v->suspects, s);
	free(s);
}

static void orphan_free(struct server *v, struct orphan *o) {
	catalogue_give(v->catalogue, o->note - 1);
	free(o);
}

void flight_close(struct server *v) {
	struct orphan *next;

	for (struct orphan *o = v->orphans; o; o = next) {
		next = o->next;
		orphan_free(v, o);
	}
	v->orphans = NULL;
	while (v->suspects)
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): a suspect leaves the table before it is freed */
		suspect_free(v, v->suspects);
}

/* ---- suspects ---- */

static struct suspect *find(struct server *v, const uint64_t key[2], uid_t uid) {
	const struct suspect_key k = { { key[0], key[1] }, uid };
	struct suspect *s;

	/* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): all words of the key are set */
	HASH_FIND(hh, v->suspects, &k, sizeof k, s);
	return s;
}

int flight_suspect(struct server *v, const struct suspect_facts *facts) {
	struct suspect *s = find(v, facts->key, facts->uid);

	if (!facts->seconds) {
		if (s)
			suspect_free(v, s);
		return 0;
	}
	if (!s) {
		s = calloc(1, sizeof *s);
		if (!s)
			return -ENOMEM;
		s->key = (struct suspect_key){ { facts->key[0], facts->key[1] }, facts->uid };
		HASH_ADD(hh, v->suspects, key, sizeof s->key, s);
		if (!HASH_ADDED(hh, s)) {
			free(s);
			return -ENOMEM;
		}
	}
	s->refused = facts->refused;
	s->until_us = loop_now() + UINT64_C(1000000) * facts->seconds;
	return 0;
}

/* A user whose graphs were there when engines ended, whichever they were: a suspect without a hash. */
static bool is_watched(struct server *v, uid_t uid) {
	const uint64_t any[2] = { 0, 0 };
	const struct suspect *s = v->suspects ? find(v, any, uid) : NULL;

	return s && loop_now() < s->until_us;
}

static int judge(struct session *s, const uint64_t key[2], bool *alonep, struct fault *f) {
	struct server *v = s->server;
	struct suspect *found = v->suspects ? find(v, key, s->uid) : NULL;
	uint64_t now = found ? loop_now() : 0;

	if (found && now >= found->until_us) {
		suspect_free(v, found);
		found = NULL;
	}
	*alonep = found || is_watched(v, s->uid);
	if (found && s->repeating) {
		s->repeat_refused = true;
		return fault_set(f, FAULT_REPEATABLE,
			"an engine ended while it had this graph, so that it is not run by itself again; it was not begun, and may be asked for again");
	}
	if (!found || !found->refused)
		return 0;
	return fault_set(f, FAULT_QUARANTINE,
		"this graph has ended the daemon's engine twice, and is refused for %" PRIu64
		" s more, or until an administrator says fusionctl quarantine clear",
		(found->until_us - now) / 1000000 + 1);
}

/* ---- graphs as text ---- */

/* A graph that is too long is cut off; the first operations say which it is. */
static void write_text(struct catalogue_text *to, const struct graph *g, const uint64_t key[2]) {
	struct str t = { 0 };
	size_t length;

	graph_put_text(&t, g, CATALOGUE_TEXT);
	length = strlen(str_text(&t));
	if (length > CATALOGUE_TEXT)
		length = CATALOGUE_TEXT;
	to->used = 0;
	atomic_signal_fence(memory_order_seq_cst);
	to->key[0] = key[0];
	to->key[1] = key[1];
	memcpy(to->text, str_text(&t), length);
	to->length = (uint32_t)length;
	str_free(&t);
}

static void keep_text(struct catalogue *c, const struct graph *g, const uint64_t key[2]) {
	struct catalogue_text *t = catalogue_text(c, key);
	uint64_t now;

	if (!t->used || t->key[0] != key[0] || t->key[1] != key[1]) {
		now = loop_now();
		if (t->used && now - c->text_us < FLIGHT_TEXT_US)
			return;
		c->text_us = now;
		write_text(t, g, key);
	}
	t->used = ++c->header->clock;
}

/* ---- notes ---- */

static uint32_t note_graph(struct session *s, const struct graph *g, const uint64_t key[2], enum catalogue_step step) {
	struct catalogue *c = s->server->catalogue;
	uint32_t entry = catalogue_take(c, s->id);

	if (entry == CATALOGUE_NONE)
		return 0;
	c->entry[entry].of_run = (struct catalogue_run){ .key = { key[0], key[1] }, .step = step, .operations = graph_nodes(g) };
	catalogue_put(c, entry, CATALOGUE_RUN);
	keep_text(c, g, key);
	return entry + 1;
}

int flight_begin(struct session *s, const struct graph *g, uint32_t *notep, bool *alonep, struct fault *f) {
	struct graph_hash h = graph_hash(g);
	const uint64_t key[2] = { h.low, h.high };
	int r = judge(s, key, alonep, f);

	*notep = r ? 0 : note_graph(s, g, key, CATALOGUE_PLANNING);
	return r;
}

uint32_t flight_beside(struct session *s, const struct graph *g) {
	struct graph_hash h = graph_hash(g);
	const uint64_t key[2] = { h.low, h.high };

	return note_graph(s, g, key, CATALOGUE_PLANNED_BESIDE);
}

void flight_planning(struct session *s, uint32_t note) {
	if (note)
		atomic_store(&s->server->catalogue->entry[note - 1].of_run.step, CATALOGUE_PLANNED_BESIDE);
}

void flight_planned(struct session *s, uint32_t note, const struct plan *p) {
	struct catalogue_run *n = note ? &s->server->catalogue->entry[note - 1].of_run : NULL;

	if (!n)
		return;
	n->kernels = p ? p->steps : 0;
	atomic_store(&n->step, CATALOGUE_QUEUED);
}

void flight_dropped(struct session *s, uint32_t note) {
	if (note)
		catalogue_give(s->server->catalogue, note - 1);
}

void flight_orphaned(struct run *run) {
	struct server *v = run->session->server;
	const struct catalogue_run *n = run->note ? &v->catalogue->entry[run->note - 1].of_run : NULL;
	struct orphan *o = n && !v->ends && atomic_load(&n->step) == CATALOGUE_LAUNCHED ? malloc(sizeof *o) : NULL;

	if (!o)
		return;
	*o = (struct orphan){ v->orphans, run->session->id, run->note };
	v->orphans = o;
	run->note = 0;
}

void flight_left(struct server *v, uint64_t session) {
	struct orphan **link = &v->orphans, *o;

	while ((o = *link)) {
		if (o->session != session) {
			link = &o->next;
			continue;
		}
		*link = o->next;
		orphan_free(v, o);
	}
}

void flight_passed(const struct run *run) {
	struct server *v = run->session->server;
	const uint64_t key[2] = { run->key.low, run->key.high };
	struct suspect *s = run->alone ? find(v, key, run->session->uid) : NULL;

	if (!s)
		return;
	suspect_free(v, s);
	if (control_innocent(v, key, run->session->uid))
		log_warning("the supervisor could not be told that a graph is innocent");
}

void flight_ended(const struct run *run) {
	flight_dropped(run->session, run->note);
}
