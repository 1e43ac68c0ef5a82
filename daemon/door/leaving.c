/* Memory that is given back; see arenas.h. */
#include "arenas.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <utlist.h>

enum {
	/* Given back by the loop: to free so much takes a millisecond. */
	LEAVING_AT_ONCE = 16 << 20,
};

struct part {
	int fd;
	uint64_t bytes;
};

/* Of one session, or one arena. */
struct leaving {
	struct apart apart;
	struct leaving *previous, *next;     /* utlist, of the supervisor */
	struct supervisor *supervisor;
	struct user *user;
	const struct engine *engine;         /* that may still run on it; NULL: none does */
	uint64_t session, bytes;
	bool running;
	bool mapped;                         /* the client is still there, and may be reading it */
	unsigned count;
	struct part part[];
};

/* ---- giving back ---- */

/*
 * What still maps it (a child of the client's, say) costs nothing without its pages. But pages that go while somebody reads them read as zeros: where the
 * client is there they go with its mapping.
 */
static void give(const struct part *p, bool mapped) {
	if (!mapped && fallocate(p->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)p->bytes) < 0)
		log_warning("memory of a session stays: %s", strerror(errno));
	close(p->fd);
}

static void run(struct apart *a) {
	const struct leaving *l = (const struct leaving *)a;

	for (unsigned i = 0; i < l->count; i++)
		give(&l->part[i], l->mapped);
}

/* All of it is given back. */
static void end(struct leaving *l) {
	struct supervisor *s = l->supervisor;

	user_gave(l->user, l->bytes);
	user_lingers(l->user, false);
	for (unsigned i = 0; i < l->count; i++)
		user_refund_arena(l->user, l->part[i].bytes);
	users_put(&s->users, l->user);
	DL_DELETE2(s->leaving, l, previous, next);
	free(l);
	s->arenas_due = true;
}

/* With one of its user's threads; NULL: none waits, or those that do have no thread left. */
static struct leaving *take_waiting(const struct supervisor *s) {
	struct leaving *l = s->leaving;

	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what has ended has left the list */
	while (l && (l->engine || l->running || !user_apart_begin(l->user)))
		l = l->next;
	return l;
}

static void done(struct apart *a) {
	struct leaving *l = (struct leaving *)a;

	user_apart_end(l->user);
	end(l);
}

/* Where there is no thread, the loop does it. */
static void start_waiting(struct supervisor *s) {
	struct leaving *l;

	while ((l = take_waiting(s))) {
		l->running = true;
		if (!apart_start(&l->apart, "leaving"))
			continue;
		run(&l->apart);
		user_apart_end(l->user);
		end(l);
	}
}

/* No engine runs on it. */
static void leave(struct leaving *l) {
	struct supervisor *s = l->supervisor;

	l->engine = NULL;
	user_gives(l->user, l->bytes);
	s->arenas_due = true;
	if (l->bytes > LEAVING_AT_ONCE)
		return;
	run(&l->apart);
	end(l);
}

/* ---- beginning ---- */

static struct leaving *leaving_new(struct supervisor *s, struct user *user, unsigned count) {
	struct leaving *l = calloc(1, sizeof *l + count * sizeof *l->part);

	if (!l)
		return NULL;
	l->apart = (struct apart){ .run = run, .done = done };
	l->supervisor = s;
	l->user = user;
	user_lingers(user, true);
	DL_APPEND2(s->leaving, l, previous, next);
	return l;
}

static void add(struct leaving *l, int fd, uint64_t bytes) {
	l->part[l->count++] = (struct part){ fd, bytes };
	l->bytes += bytes;
	user_leaves(l->user, bytes);
}

static void give_now(struct user *user, int fd, uint64_t bytes, bool mapped) {
	give(&(struct part){ fd, bytes }, mapped);
	user_refund_arena(user, bytes);
}

void leaving_give(struct supervisor *s, struct user *user, int fd, uint64_t bytes) {
	struct leaving *l = leaving_new(s, user, 1);

	if (!l) {
		give_now(user, fd, bytes, false);
		return;
	}
	add(l, fd, bytes);
	leave(l);
}

/* Has it closed its socket, or half of it, as it does when it has nothing mapped any more, or ended? */
static bool has_gone(const struct client *c) {
	struct pollfd p = { .fd = c->fd, .events = POLLRDHUP };

	return !c->away && poll(&p, 1, 0) == 1 && p.revents & (POLLHUP | POLLRDHUP | POLLERR);
}

void leaving_begin(struct client *c) {
	struct leaving *l = leaving_new(c->supervisor, c->user, c->arenas);
	bool gone = has_gone(c);
	int fd;

	for (unsigned i = 0; i < LIMIT_ARENAS; i++) {
		uint64_t bytes = c->arena[i].bytes;

		if (!c->arena[i].id)
			continue;
		fd = client_arena_take(c, &c->arena[i]);
		if (fd >= 0 && l)
			add(l, fd, bytes);
		else if (fd >= 0)
			give_now(c->user, fd, bytes, !gone);
	}
	if (!l)
		return;
	l->mapped = !gone;
	l->session = c->session;
	l->engine = c->engine;
	if (c->attachment == CLIENT_ADRIFT || c->engine->child.state == CHILD_NONE)
		leave(l);
}

static struct leaving *find(const struct engine *e, uint64_t session) {
	struct leaving *l = e->supervisor->leaving;

	while (l && (l->engine != e || l->session != session))
		l = l->next;
	return l;
}

struct user *leaving_user(const struct engine *e, uint64_t session) {
	const struct leaving *l = find(e, session);

	return l ? l->user : NULL;
}

void leaving_left(const struct engine *e, uint64_t session) {
	struct leaving *l = find(e, session);

	if (l)
		leave(l);
}

void leaving_engine_ended(const struct engine *e) {
	struct leaving *l = e->supervisor->leaving;

	while (l) {
		if (l->engine != e) {
			l = l->next;
			continue;
		}
		leave(l);
		l = e->supervisor->leaving;
	}
}

void arenas_tick(struct supervisor *s) {
	while (s->arenas_due) {
		s->arenas_due = false;
		start_waiting(s);
		makings_retry(s);
	}
}

void arenas_close(struct supervisor *s) {
	struct leaving *l, *next;

	for (l = s->leaving; l; l = next) {
		next = l->next;
		if (l->running)
			continue;
		/* The process ends, and with it what holds the pages. */
		for (unsigned i = 0; i < l->count; i++)
			close(l->part[i].fd);
		DL_DELETE2(s->leaving, l, previous, next);
		free(l);
	}
	while (s->makings || s->leaving)
		apart_wait();
}
