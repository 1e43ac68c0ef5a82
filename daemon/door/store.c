/* What the service manager keeps; see store.h. */
#include "store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <systemd/sd-daemon.h>

#include "protocol/shm.h"
#include "daemon/base/log.h"
#include "daemon/door/client.h"

enum {
	STORE_NAME = 64,
	/* Of the record: another release that changes it takes none of this one's sessions. */
	STORE_FORMAT = 1,
};

struct stored {
	int fd;
	bool taken;
	char name[STORE_NAME];
};

/* What the supervisor knows of a session. */
struct record_arena {
	uint64_t bytes;
	uint32_t id;                 /* 0: there is none */
	uint8_t engine, writable, shared;
};

struct record {
	uint32_t format, size;
	uint64_t session;
	uint32_t engine, uid;
	int32_t pid;
	uint32_t last_arena;
	unsigned char secret[LIMIT_SECRET_BYTES];
	char name[CLIENT_NAME];
	struct record_arena arena[LIMIT_ARENAS];
};

/* ---- handing over ---- */

/* One that is not kept is missing at the next start, and what depends on it is not taken then. */
static void put(struct supervisor *s, int fd, const char *name) {
	if (s->store.on && fd >= 0)
		manager_tell(&s->manager, fd, "FDSTORE=1\nFDNAME=%s", name);
}

static void drop(struct supervisor *s, const char *name) {
	if (s->store.on)
		manager_tell(&s->manager, -1, "FDSTOREREMOVE=1\nFDNAME=%s", name);
}

static void arena_name(char name[static STORE_NAME], uint64_t session, uint32_t arena) {
	snprintf(name, STORE_NAME, "arena-%" PRIu64 ".%" PRIu32, session, arena);
}

static void shared_name(char name[static STORE_NAME], uint32_t arena) {
	snprintf(name, STORE_NAME, "shared-%" PRIu32, arena);
}

static void session_name(char name[static STORE_NAME], uint64_t session) {
	snprintf(name, STORE_NAME, "session-%" PRIu64, session);
}

static void catalogue_name(char name[static STORE_NAME], unsigned engine) {
	snprintf(name, STORE_NAME, "catalogue-%u", engine);
}

void store_catalogue(struct engine *e) {
	char name[STORE_NAME];

	catalogue_name(name, e->number);
	if (e->catalogue)
		put(e->supervisor, e->catalogue->fd, name);
}

void store_arena(const struct client *c, const struct client_arena *a) {
	char name[STORE_NAME];

	arena_name(name, c->session, a->id);
	if (c->resumes && !a->shared)
		put(c->supervisor, a->fd, name);
}

void store_arena_end(const struct client *c, uint32_t arena) {
	char name[STORE_NAME];

	arena_name(name, c->session, arena);
	if (c->resumes)
		drop(c->supervisor, name);
}

void store_shared(struct supervisor *s, const struct shared_arena *a) {
	char name[STORE_NAME];

	shared_name(name, a->id);
	put(s, a->fd, name);
}

void store_shared_end(struct supervisor *s, uint32_t arena) {
	char name[STORE_NAME];

	shared_name(name, arena);
	drop(s, name);
}

static void fill(struct record *r, const struct client *c) {
	*r = (struct record){ .format = STORE_FORMAT, .size = sizeof *r, .session = c->session, .engine = c->engine->number,
		.uid = (uint32_t)c->uid, .pid = c->pid, .last_arena = c->last_arena };
	memcpy(r->secret, c->secret, sizeof r->secret);
	memcpy(r->name, c->name, sizeof r->name);
	for (unsigned i = 0; i < LIMIT_ARENAS; i++) {
		const struct client_arena *a = &c->arena[i];

		if (a->id)
			r->arena[i] = (struct record_arena){ .bytes = a->bytes, .id = a->id, .engine = a->engine, .writable = a->writable,
				.shared = a->shared != NULL };
	}
}

void store_session(struct client *c) {
	bool fresh = c->record < 0;
	char name[STORE_NAME];
	struct record r;

	if (!c->supervisor->store.on || !c->resumes || !c->hello)
		return;
	if (fresh)
		c->record = memfd_create("fusiond-session", MFD_CLOEXEC);
	fill(&r, c);
	if (c->record < 0 || pwrite(c->record, &r, sizeof r, 0) != (ssize_t)sizeof r)
		log_warning("session %" PRIu64 " would not outlive the daemon: %s", c->session, strerror(errno));
	explicit_bzero(&r, sizeof r);
	session_name(name, c->session);
	if (fresh)
		put(c->supervisor, c->record, name);
}

void store_session_end(struct client *c) {
	char name[STORE_NAME];

	if (c->record < 0)
		return;
	session_name(name, c->session);
	if (!c->returns)
		drop(c->supervisor, name);
	close(c->record);
	c->record = -1;
}

/* ---- what came ---- */

/* 0, or a reason not to start; the descriptor is the supervisor's in either case. */
static int take_passed(struct supervisor *s, int fd, const char *name, struct fault *f) {
	struct stored *x;

	/* What is kept is memory. */
	if (sd_is_socket(fd, AF_UNSPEC, 0, -1) > 0)
		return door_take(s, fd, name, f);
	if (!s->store.stored) {
		close(fd);
		return 0;
	}
	x = &s->store.stored[s->store.count++];
	x->fd = fd;
	snprintf(x->name, sizeof x->name, "%s", name);
	return 0;
}

/* The service manager keeps things only where it is told how many, which the unit says with this setting. */
int store_open(struct supervisor *s, struct fault *f) {
	char **names = NULL;
	int n = sd_listen_fds_with_names(true, &names), r = 0;

	s->store.on = s->config.door_return_us && manager_listens(&s->manager);
	s->store.stored = n > 0 ? calloc((size_t)n, sizeof *s->store.stored) : NULL;
	for (int i = 0; i < n; i++) {
		if (!r)
			r = take_passed(s, SD_LISTEN_FDS_START + i, names[i], f);
		free(names[i]);
	}
	free(names);
	return r;
}

static struct stored *find(const struct supervisor *s, const char *name) {
	for (unsigned i = 0; i < s->store.count; i++)
		if (!s->store.stored[i].taken && !strcmp(s->store.stored[i].name, name))
			return &s->store.stored[i];
	return NULL;
}

static int take(struct stored *x) {
	x->taken = true;
	return x->fd;
}

static void take_catalogue(struct engine *e) {
	char name[STORE_NAME];
	struct stored *x;

	catalogue_name(name, e->number);
	x = find(e->supervisor, name);
	if (x && !engine_take_catalogue(e, x->fd))
		take(x);
	else
		store_catalogue(e);
}

/* ---- sessions ---- */

static int read_record(int fd, struct record *r) {
	if (pread(fd, r, sizeof *r, 0) != (ssize_t)sizeof *r || r->format != STORE_FORMAT || r->size != sizeof *r)
		return -EBADMSG;
	r->name[CLIENT_NAME - 1] = 0;
	return 0;
}

/* What holds the arena's memory; NULL: it was not kept, or is another size. */
static struct stored *find_arena(const struct supervisor *s, uint64_t session, const struct record_arena *a) {
	char name[STORE_NAME];
	struct stored *x;

	arena_name(name, session, a->id);
	x = find(s, name);
	return x && !shm_check(x->fd, a->bytes) ? x : NULL;
}

/* Memory that several sessions hold is taken by the first of them. */
static struct shared_arena *take_shared(struct supervisor *s, const struct record_arena *a) {
	struct shared_arena *shared = shared_arena_find(s, a->id);
	char name[STORE_NAME];
	struct stored *x;

	if (shared) {
		shared->holders++;
		return shared->bytes == a->bytes ? shared : NULL;
	}
	shared_name(name, a->id);
	x = find(s, name);
	if (!x || shm_check(x->fd, a->bytes))
		return NULL;
	shared = shared_arena_again(s, a->id, x->fd, a->bytes);
	if (shared)
		take(x);
	return shared;
}

/* A session is there whole, or not at all: a client knows of no arena that is gone. */
static bool is_whole(struct supervisor *s, const struct record *r) {
	char name[STORE_NAME];

	for (unsigned i = 0; i < LIMIT_ARENAS; i++) {
		const struct record_arena *a = &r->arena[i];

		shared_name(name, a->id);
		if (a->id && (a->shared ? !shared_arena_find(s, a->id) && !find(s, name) : !find_arena(s, r->session, a)))
			return false;
	}
	return r->engine < s->engines && s->engine[r->engine]->catalogue_taken;
}

static int take_arena(struct client *c, unsigned i, const struct record_arena *a, struct fault *f) {
	struct shared_arena *shared = a->shared ? take_shared(c->supervisor, a) : NULL;
	int fd;

	if (a->shared && !shared)
		return -ENOENT;
	fd = shared ? shared->fd : take(find_arena(c->supervisor, c->session, a));
	return client_arena_again(c, i,
		&(struct client_arena){ .id = a->id, .engine = a->engine, .writable = a->writable, .bytes = a->bytes, .fd = fd,
			.shared = shared }, f);
}

static int take_session(struct supervisor *s, struct stored *x) {
	struct client *c = NULL;
	struct fault f = { 0 };
	struct record record;
	int r = read_record(x->fd, &record);

	if (!r && !is_whole(s, &record))
		r = -ENOENT;
	if (!r)
		r = client_again(s, record.session, (uid_t)record.uid, record.pid, s->engine[record.engine], &c, &f);
	if (r)
		return r;
	c->last_arena = record.last_arena;
	memcpy(c->secret, record.secret, sizeof c->secret);
	memcpy(c->name, record.name, sizeof c->name);
	c->record = take(x);
	explicit_bzero(&record.secret, sizeof record.secret);
	client_again_enter(c);
	for (unsigned i = 0; !r && i < LIMIT_ARENAS; i++)
		if (record.arena[i].id)
			r = take_arena(c, i, &record.arena[i], &f);
	if (r)
		client_close(c);
	return r;
}

static void drop_rest(struct supervisor *s) {
	for (unsigned i = 0; i < s->store.count; i++) {
		struct stored *x = &s->store.stored[i];

		if (x->taken)
			continue;
		manager_tell(&s->manager, -1, "FDSTOREREMOVE=1\nFDNAME=%s", x->name);
		close(x->fd);
	}
	free(s->store.stored);
	s->store.stored = NULL;
	s->store.count = 0;
}

void store_take(struct supervisor *s) {
	unsigned kept = 0, lost = 0;

	for (unsigned i = 0; s->store.on && i < s->engines; i++)
		take_catalogue(s->engine[i]);
	for (unsigned i = 0; s->store.on && i < s->store.count; i++) {
		struct stored *x = &s->store.stored[i];

		if (strncmp(x->name, "session-", strlen("session-")) != 0)
			continue;
		if (take_session(s, x))
			lost++;
		else
			kept++;
	}
	if (kept || lost)
		log_info("of the sessions of a daemon before this one %u wait for their clients, %u are lost", kept, lost);
	drop_rest(s);
	engines_settle(s);
}

void store_close(struct supervisor *s) {
	for (unsigned i = 0; i < s->store.count; i++)
		if (!s->store.stored[i].taken)
			close(s->store.stored[i].fd);
	free(s->store.stored);
}
