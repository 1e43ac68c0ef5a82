/* Arenas on their way; see arenas.h. */
#include "arenas.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utlist.h>

#include "daemon/base/descriptors.h"
#include "daemon/door/limits.h"

enum {
	/* Made by the loop: to clear so much takes 0.6 ms where it takes longest. */
	MAKING_AT_ONCE = 256 << 10,
	MAKING_BLOCK = 512,          /* of st_blocks */
};

/* ---- failing ---- */

static int explain(int r, uint64_t bytes, struct fault *f) {
	if (r == -ENOMEM || r == -ENOSPC)
		return fault_set(f, FAULT_MEMORY, "the machine has no %" PRIu64 " bytes of memory left", bytes);
	if (r == -EFBIG)
		return limits_file_fault(f, bytes);
	if (descriptors_short(r))
		return descriptors_fault(f, "an arena");
	return r;
}

/* What arenas on their way have not taken yet of what the machine has. */
static uint64_t promised(const struct supervisor *s) {
	uint64_t bytes = 0;

	for (const struct making *m = s->makings; m; m = m->next) {
		struct stat st = { .st_blocks = 0 };
		uint64_t has = !m->running || fstat(m->fd, &st) ? 0 : (uint64_t)st.st_blocks * MAKING_BLOCK;

		bytes += m->running && has < m->bytes ? m->bytes - has : 0;
	}
	return bytes;
}

static int check_memory(const struct supervisor *s, uint64_t bytes) {
	uint64_t taken = promised(s), there = shm_available();

	return taken > there || bytes > there - taken ? -ENOMEM : 0;
}

static void name_arena(const struct client *c, char name[static 32]) {
	snprintf(name, 32, "fusiond-%" PRIu64, c->session);
}

/* ---- the life of one ---- */

static void drop(struct making *m) {
	DL_DELETE2(m->supervisor->makings, m, previous, next);
	if (m->fd >= 0)
		close(m->fd);
	free(m);
}

static void refund(struct making *m) {
	if (m->charged)
		user_refund_arena(m->user, m->bytes);
	m->charged = false;
}

/* Nobody wants it. */
static void forget(struct making *m) {
	struct supervisor *s = m->supervisor;
	struct user *user = m->user;

	refund(m);
	drop(m);
	users_put(&s->users, user);
}

/* Who waits for it goes on. */
static void tell(struct making *m) {
	m->ended = true;
	if (m->owner != ARENA_OF_CLIENT)
		client_want_made(m);
	else if (m->client->stalled)
		client_go_on(m->client);
}

static void fail(struct making *m, int r) {
	if (explain(r, m->bytes, &m->fault) < 0)
		fault_set(&m->fault, FAULT_MEMORY, "no shared memory: %s", strerror(-r));
	tell(m);
}

static void run(struct apart *a) {
	struct making *m = (struct making *)a;
	int r = shm_fill(m->fd, m->bytes, &m->stop);

	if (!r)
		r = shm_finish(m->fd, m->bytes);
	if (r)
		explain(r, m->bytes, &m->fault);
	if (r < 0 && !m->fault.code)
		fault_set(&m->fault, FAULT_MEMORY, "no shared memory: %s", strerror(-r));
}

static void done(struct apart *a) {
	struct making *m = (struct making *)a;
	struct supervisor *s = m->supervisor;

	m->running = false;
	user_apart_end(m->user);
	s->arenas_due = true;
	if (m->client)
		tell(m);
	else
		forget(m);
}

static int start(struct making *m) {
	char name[32];
	int r = check_memory(m->supervisor, m->bytes);

	name_arena(m->client, name);
	if (!r)
		r = shm_empty(name, &m->fd);
	if (!r)
		r = apart_start(&m->apart, "making");
	m->running = !r;
	return r;
}

/* With one of its user's threads. Each may end the connection that waits for it, and others with it: so the list is looked at anew. */
static struct making *take_waiting(const struct supervisor *s) {
	struct making *m = s->makings;

	while (m && (!m->charged || m->running || m->ended || !user_apart_begin(m->user)))
		m = m->next;
	return m;
}

static void start_next(struct supervisor *s) {
	struct making *m;
	int r;

	while ((m = take_waiting(s))) {
		r = start(m);
		if (r) {
			user_apart_end(m->user);
			fail(m, r);
		}
	}
}

/* ---- beginning ---- */

static int make_at_once(struct client *c, uint64_t bytes, int *fdp, struct fault *f) {
	char name[32];

	name_arena(c, name);
	return explain(shm_create(name, bytes, fdp), bytes, f);
}

static struct making *making_new(struct client *c, uint64_t bytes, enum arena_owner owner, bool charged) {
	struct making *m = calloc(1, sizeof *m);

	if (!m)
		return NULL;
	m->apart = (struct apart){ .run = run, .done = done };
	m->client = c;
	m->user = c->user;
	m->supervisor = c->supervisor;
	m->owner = owner;
	m->bytes = bytes;
	m->charged = charged;
	m->fd = -1;
	DL_APPEND2(c->supervisor->makings, m, previous, next);
	return m;
}

/* Is something of the user's given back that is worth waiting for? An engine, which may be what it waits for, waits for no engine. */
static bool may_wait(const struct making *m) {
	return user_leaving(m->user, m->owner != ARENA_OF_CLIENT) > 0;
}

int making_begin(struct client *c, uint64_t bytes, enum arena_owner owner, int *fdp, struct making **makingp, struct fault *f) {
	int r = user_charge_arena(c->user, bytes, f);
	bool charged = !r;
	struct making *m;

	if (r > 0 && !user_leaving(c->user, owner != ARENA_OF_CLIENT))
		return r;
	if (charged && cleared_take(&c->supervisor->cleared, bytes, fdp))
		return 0;
	if (charged && bytes <= MAKING_AT_ONCE) {
		r = make_at_once(c, bytes, fdp, f);
		if (r)
			user_refund_arena(c->user, bytes);
		return r;
	}
	m = making_new(c, bytes, owner, charged);
	if (!m) {
		if (charged)
			user_refund_arena(c->user, bytes);
		return -ENOMEM;
	}
	r = charged && user_apart_begin(c->user) ? start(m) : 0;
	if (!r) {
		*makingp = m;
		return -EAGAIN;
	}
	user_apart_end(c->user);
	refund(m);
	drop(m);
	return explain(r, bytes, f);
}

/* Charges it where it waits for that. False where it is refused, and nothing is left to wait for. */
static bool is_charged_or_waits(struct making *m) {
	if (m->charged || m->ended)
		return true;
	if (user_charge_arena(m->user, m->bytes, &m->fault))
		return may_wait(m);
	m->fault.code = 0;
	return m->charged = true;
}

/* One that fails may end others that wait: so the list is looked at anew. */
void makings_retry(struct supervisor *s) {
	struct making *m = s->makings;

	while (m) {
		if (is_charged_or_waits(m)) {
			m = m->next;
			continue;
		}
		tell(m);
		m = s->makings;
	}
	start_next(s);
}

int making_take(struct making *m, int *fdp, struct fault *f) {
	int r = m->fault.code;

	*f = m->fault;
	*fdp = m->fd;
	m->fd = -1;
	if (r && *fdp >= 0)
		close(*fdp);
	if (r)
		refund(m);
	drop(m);
	return r;
}

void makings_cancel(struct client *c, bool engines) {
	struct making *m, *next;

	for (m = c->supervisor->makings; m; m = next) {
		next = m->next;
		if (m->client != c || (engines && m->owner == ARENA_OF_CLIENT))
			continue;
		m->client = NULL;
		atomic_store(&m->stop, true);
		if (!m->running)
			forget(m);
	}
	if (!engines)
		c->making = NULL;
}
