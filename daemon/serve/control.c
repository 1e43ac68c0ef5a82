/*
 * The engine's end of the control socket; see CONTROL in messages.def.
 *
 * The supervisor is believed, being the same program; what does not read is logged. Packets are
 * handled in the order they came, but for two cases: while an array that moves to the host waits for an arena, and while a request
 * looks for a session or an arena that is on its way, only what adds is handled, and the rest
 * waits for control_turn(), where no caller holds a session.
 */
#include "server.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <utlist.h>

#include "protocol/message.h"
#include "protocol/shm.h"
#include "daemon/base/loop.h"
#include "daemon/base/str.h"
#include "daemon/serve/account.h"
#include "daemon/serve/flight.h"
#include "daemon/serve/operations.h"
#include "daemon/serve/patterns.h"
#include "daemon/serve/share.h"

enum {
	CONTROL_PACKET = 16384,
	/* Of a packet around a kernel's bytes. */
	CONTROL_HEAD = 64,
	/* The supervisor allocates a gigabyte in a third of a second; who takes longer than this for an array that moves to the host is stuck. */
	CONTROL_WAIT_US = 10 * 1000 * 1000,
	CONTROL_OPTIONS = 64,
	/* Who finds no memory for a packet looks again so much later. */
	CONTROL_STARVED_NS = 10 * 1000 * 1000,
	/* Between two tellings of what users have used. */
	CONTROL_SPENT_US = 1000 * 1000,
};

struct control_packet {
	struct control_packet *next;
	int fd[PACKET_PAIR];
	size_t size;
	unsigned char bytes[];
};

/* ---- sending ---- */

/* Small, and seldom: the supervisor always reads. */
static int send_packet(int control, struct wire_writer *w) {
	int r = wire_finish(w);

	if (!r)
		r = packet_send(control, w->buffer.data, w->buffer.size, -1, 0);
	wire_writer_free(w);
	return r;
}

int control_ready(int control, const char *url, const char *device, const char *driver) {
	struct wire_writer w;

	wire_writer_init(&w);
	wire_put_array(&w, 4);
	wire_put_uint(&w, CONTROL_READY);
	wire_put_text(&w, url);
	wire_put_text(&w, device);
	wire_put_text(&w, driver);
	return send_packet(control, &w);
}

int control_failed(int control, const struct fault *f) {
	struct wire_writer w;

	wire_writer_init(&w);
	wire_put_array(&w, 3);
	wire_put_uint(&w, CONTROL_FAILED);
	wire_put_int(&w, f->code);
	wire_put_text(&w, f->text);
	return send_packet(control, &w);
}

int control_want_worker(int control, bool idle) {
	struct wire_writer w;

	wire_writer_init(&w);
	wire_put_array(&w, 2);
	wire_put_uint(&w, CONTROL_WORKER_WANT);
	wire_put_uint(&w, idle);
	return send_packet(control, &w);
}

/* The file that this process runs: one of another file may lay its kernels out otherwise. 0: unknown. */
static uint64_t build_number(void) {
	struct stat s;

	if (stat("/proc/self/exe", &s))
		return 0;
	return ((uint64_t)s.st_dev << 32 ^ s.st_ino) * 31 + (uint64_t)s.st_mtim.tv_sec;
}

/* Bodies of administrators have numbers that are one process's. */
static bool is_own(const struct kernel *k) {
	bool own = false;

	for (unsigned i = 0; i < k->values && !own; i++)
		own = k->value[i].kind == KERNEL_OP && op_is_own(k->value[i].op);
	return own;
}

void control_program(int control, const struct kernel *k) {
	unsigned char bytes[CONTROL_PACKET - CONTROL_HEAD];
	struct wire_writer w;

	if (kernel_bytes(k) > sizeof bytes || is_own(k) || !build_number())
		return;
	kernel_pack(k, bytes);
	wire_writer_init(&w);
	wire_put_array(&w, 4);
	wire_put_uint(&w, CONTROL_PROGRAM);
	wire_put_uint(&w, build_number());
	wire_put_uint(&w, kernel_bytes(k));
	wire_put_bin(&w, bytes, kernel_bytes(k));
	/* The spare then builds it when it is asked for. */
	if (send_packet(control, &w))
		return;
}

void control_spent(const struct server *v, struct account *a) {
	uint64_t ns = lane_group_ns(a->lanes);
	struct wire_writer w;
	int r;

	if (ns == a->told_ns && a->refused == a->told_refused)
		return;
	wire_writer_init(&w);
	wire_put_array(&w, 5);
	wire_put_uint(&w, CONTROL_SPENT);
	wire_put_uint(&w, a->uid);
	wire_put_uint(&w, ns - a->told_ns);
	wire_put_uint(&w, a->refused - a->told_refused);
	wire_put_uint(&w, a->limits - a->told_limits);
	r = send_packet(v->control, &w);
	if (r)
		return;
	a->told_ns = ns;
	a->told_refused = a->refused;
	a->told_limits = a->limits;
}

/* What an engine that dies has not told is lost. */
void spent_turn(struct server *v) {
	uint64_t now;

	if (!v->accounts)
		return;
	now = loop_now();
	if (now - v->spent_us < CONTROL_SPENT_US)
		return;
	v->spent_us = now;
	for (struct account *a = v->accounts; a; a = a->hh.next)
		control_spent(v, a);
}

int control_rates(struct server *v) {
	struct str text = { 0 };
	struct wire_writer w;
	int r;

	device_rates_text(v->device, &text);
	r = str_finish(&text);
	if (r)
		return r;
	wire_writer_init(&w);
	wire_put_array(&w, 2);
	wire_put_uint(&w, CONTROL_RATES);
	wire_put_text(&w, str_text(&text));
	r = send_packet(v->control, &w);
	log_info("the device, %s", str_text(&text));
	str_free(&text);
	return r;
}

static int tell_of(const struct server *v, unsigned id, uint64_t session) {
	struct wire_writer w;

	wire_writer_init(&w);
	wire_put_array(&w, 2);
	wire_put_uint(&w, id);
	wire_put_uint(&w, session);
	return send_packet(v->control, &w);
}

void control_bad(void *user, uint64_t session) {
	int r = tell_of(user, CONTROL_SESSION_BAD, session);

	if (r)
		log_error("session %" PRIu64 " could not be closed: %s", session, strerror(-r));
}

void control_left(void *user, uint64_t session) {
	int r = catalogue_is_share(session) ? 0 : tell_of(user, CONTROL_SESSION_LEFT, session);

	flight_left(user, session);
	if (r)
		log_error("the memory of session %" PRIu64 " stays with its user: %s", session, strerror(-r));
}

static void control_unserved(struct server *v, uint64_t session, const struct fault *f) {
	struct wire_writer w;
	int r;

	wire_writer_init(&w);
	wire_put_array(&w, 4);
	wire_put_uint(&w, CONTROL_SESSION_UNSERVED);
	wire_put_uint(&w, session);
	wire_put_int(&w, f->code);
	wire_put_text(&w, f->text);
	r = send_packet(v->control, &w);
	if (r)
		log_error("session %" PRIu64 " could not be closed: %s", session, strerror(-r));
}

int control_resumed(const struct session *s) {
	const struct catalogue_session *n = &s->server->catalogue->entry[s->entry].of_session;
	struct wire_writer w;

	wire_writer_init(&w);
	wire_put_array(&w, 5);
	wire_put_uint(&w, CONTROL_RESUMED);
	wire_put_uint(&w, s->id);
	wire_put_uint(&w, n->accepted);
	wire_put_uint(&w, n->completed);
	wire_put_bool(&w, s->whole);
	return send_packet(s->server->control, &w);
}

int control_innocent(struct server *v, const uint64_t key[2], uid_t uid) {
	struct wire_writer w;

	wire_writer_init(&w);
	wire_put_array(&w, 4);
	wire_put_uint(&w, CONTROL_INNOCENT);
	wire_put_uint(&w, key[0]);
	wire_put_uint(&w, key[1]);
	wire_put_uint(&w, uid);
	return send_packet(v->control, &w);
}

void control_order(struct server *v, unsigned kind, const char *name, const char *text) {
	struct wire_writer w;
	int r;

	wire_writer_init(&w);
	wire_put_array(&w, 4);
	wire_put_uint(&w, CONTROL_ORDER);
	wire_put_uint(&w, kind);
	wire_put_text(&w, name);
	wire_put_text(&w, text);
	r = send_packet(v->control, &w);
	if (r)
		log_error("%s would not outlive this engine: %s", name, strerror(-r));
}

static int send_about(struct session *s, unsigned id, uint64_t value) {
	struct wire_writer w;

	wire_writer_init(&w);
	wire_put_array(&w, 3);
	wire_put_uint(&w, id);
	wire_put_uint(&w, s->id);
	wire_put_uint(&w, value);
	return send_packet(s->server->control, &w);
}

void control_drop(struct session *s, uint32_t arena) {
	int r = send_about(s, CONTROL_ARENA_DROP, arena);

	if (r)
		log_error("an empty arena could not be given back: %s", strerror(-r));
}

/* ---- what the supervisor says ---- */

struct control_message {
	struct server *server;
	unsigned id;
	struct wire_cursor body;
	int *fd;                     /* PACKET_PAIR; taken by who sets them to -1 */
};

static int change_option(struct session *s, struct wire_cursor *options, struct fault *f) {
	char name[CONFIG_TEXT], value[CONFIG_TEXT];
	const char *text;
	size_t size;
	int r = wire_get_text(options, "option", CONFIG_TEXT - 1, &text, &size, f);

	if (r)
		return r;
	snprintf(name, sizeof name, "%.*s", (int)size, text);
	r = wire_get_text(options, "value", CONFIG_TEXT - 1, &text, &size, f);
	if (r)
		return r;
	snprintf(value, sizeof value, "%.*s", (int)size, text);
	return session_configure(s, name, value, f);
}

/* A process without room for more descriptors gets the packet without them, or with one. */
static int take_ring(struct control_message *m, struct session *s) {
	int memory = m->fd[0], bell = m->fd[1];

	if (!m->server->rings)
		return -EOPNOTSUPP;
	if (memory < 0 || bell < 0)
		return -EMFILE;
	/* The memory's is closed once that is mapped. */
	if (descriptors_raise(&m->fd[1]))
		return -EMFILE;
	bell = m->fd[1];
	m->fd[0] = m->fd[1] = -1;
	return rings_add(m->server->rings, s->id, memory, bell, &s->channel);
}

/* A client whose ring cannot be had waits at it for ever, so its session ends at once, and is told why. */
static void add_ring(struct control_message *m, struct session *s) {
	int r = take_ring(m, s);
	struct fault f;

	if (!r)
		return;
	if (descriptors_short(r))
		descriptors_fault(&f, "a session");
	else
		fault_set(&f, FAULT_LIMIT, "the engine has no ring for the session: %s", strerror(-r));
	control_unserved(m->server, s->id, &f);
}

static int on_session_new(struct control_message *m, struct fault *f) {
	struct session_facts facts;
	struct wire_cursor options;
	struct session *s = NULL;
	uint64_t uid, pid;
	bool ring;
	int r = wire_get_uint(&m->body, "session", UINT64_MAX, &facts.id, f);

	if (!r)
		r = wire_get_bin(&m->body, "secret", LIMIT_SECRET_BYTES, &facts.secret, f);
	if (!r)
		r = wire_get_uint(&m->body, "uid", UINT32_MAX, &uid, f);
	if (!r)
		r = wire_get_uint(&m->body, "pid", INT32_MAX, &pid, f);
	if (!r)
		r = wire_get_text(&m->body, "name", SESSION_NAME - 1, &facts.name, &facts.name_size, f);
	if (!r)
		r = wire_get_bool(&m->body, "ring", &ring, f);
	if (!r)
		r = wire_get_bool(&m->body, "remote", &facts.remote, f);
	if (!r)
		r = wire_get_bool(&m->body, "admin", &facts.admin, f);
	if (!r)
		r = wire_get_bool(&m->body, "returns", &facts.returns, f);
	if (!r)
		r = wire_get_bool(&m->body, "repeats", &facts.repeats, f);
	if (!r)
		r = wire_get_map(&m->body, "options", CONTROL_OPTIONS, &options, f);
	if (r)
		return r;
	facts.uid = (uid_t)uid;
	facts.pid = (pid_t)pid;
	r = session_new(m->server, &facts, &s);
	if (!r && ring)
		add_ring(m, s);
	while (!r && options.left)
		r = change_option(s, &options, f);
	/* The client of one that is not there would wait for answers for ever. */
	if (r < 0)
		control_bad(m->server, facts.id);
	return r;
}

/* Before any session. Without it the engine works, and what it holds goes with it. */
static int on_catalogue(struct control_message *m, struct fault *f) {
	struct server *v = m->server;
	int r;

	if (m->fd[0] < 0 || v->catalogue)
		return v->catalogue ? fault_set(f, FAULT_PROTOCOL, "a catalogue came twice") : descriptors_fault(f, "its catalogue");
	r = catalogue_open(m->fd[0], &v->catalogue);
	if (!r)
		r = catalogue_adopt(v->catalogue);
	if (r) {
		v->catalogue = catalogue_close(v->catalogue);
		return r;
	}
	v->catalogue_fd = m->fd[0];
	m->fd[0] = -1;
	flight_open(v);
	exec_note(v->exec, v->catalogue);
	return 0;
}

static int on_ping(struct control_message *m, struct fault *f) {
	uint64_t number;
	int r = wire_get_uint(&m->body, "number", UINT64_MAX, &number, f);

	if (!r && m->server->catalogue)
		atomic_store(&m->server->catalogue->header->pong, number);
	return r;
}

static int on_suspect(struct control_message *m, struct fault *f) {
	struct suspect_facts facts;
	uint64_t uid;
	int r = wire_get_uint(&m->body, "low", UINT64_MAX, &facts.key[0], f);

	if (!r)
		r = wire_get_uint(&m->body, "high", UINT64_MAX, &facts.key[1], f);
	if (!r)
		r = wire_get_uint(&m->body, "uid", UINT32_MAX, &uid, f);
	if (!r)
		r = wire_get_bool(&m->body, "refused", &facts.refused, f);
	if (!r)
		r = wire_get_uint(&m->body, "seconds", UINT32_MAX, &facts.seconds, f);
	if (r)
		return r;
	facts.uid = (uid_t)uid;
	return flight_suspect(m->server, &facts);
}

static int find_session(struct control_message *m, struct session **sessionp, struct fault *f) {
	uint64_t id;
	int r = wire_get_uint(&m->body, "session", UINT64_MAX, &id, f);

	if (r)
		return r;
	HASH_FIND(hh, m->server->sessions, &id, sizeof id, *sessionp);
	return 0;
}

static int on_session_end(struct control_message *m, struct fault *f) {
	struct session *s = NULL;
	struct wire_cursor body = m->body;
	uint64_t id;
	int r = find_session(m, &s, f);

	if (!r && s)
		session_free(s);
	/* It could not be begun here, and has no memory. */
	else if (!r && !wire_get_uint(&body, "session", UINT64_MAX, &id, f))
		control_left(m->server, id);
	return r;
}

static int on_session_resume(struct control_message *m, struct fault *f) {
	struct session *s = NULL;
	int r = find_session(m, &s, f);

	if (r || !s)
		return r;
	r = session_restore(s);
	if (!r)
		r = control_resumed(s);
	/* With a part of its arrays it would be another one. */
	if (r)
		control_bad(m->server, s->id);
	return r;
}

/* The session goes on without that memory: what wants it fails, and says why. */
static void refuse_arena(struct session *s, uint64_t owner, const struct fault *why) {
	if (owner == ARENA_OF_ENGINE) {
		s->refusal = *why;
		space_refused(s->space, -ENOBUFS);
	} else if (owner == ARENA_SHARED) {
		share_not_granted(s, why);
	} else if (owner == ARENA_HELD) {
		share_not_held(s, why);
	}
}

static void fd_is_short(struct session *s, uint64_t owner) {
	struct fault f;

	descriptors_fault(&f, "a session's memory");
	/* Nobody waits for what another engine held. */
	if (owner != ARENA_HELD)
		refuse_arena(s, owner, &f);
	log_warning("session %" PRIu64 ": %s", s->id, f.text);
}

/* Memory for an exported array. */
static void take_grant(struct session *s, uint32_t arena, int fd, uint64_t bytes) {
	if (!descriptors_raise(&fd)) {
		share_granted(s, arena, fd, bytes);
		return;
	}
	fd_is_short(s, ARENA_SHARED);
	close(fd);
	control_drop(s, arena);
}

/* Without memory that the client lays out nothing of it can be loaded, so its session ends at once. */
static int add_client_arena(struct session *s, uint32_t arena, int fd, uint64_t bytes) {
	int r = space_add_arena(s->space, arena, fd, bytes, false);

	if (!r)
		return 0;
	s->lost_arena = arena;
	s->lost_error = r;
	control_bad(s->server, s->id);
	return r;
}

static int on_arena(struct control_message *m, struct fault *f) {
	struct session *s = NULL;
	uint64_t arena, bytes, owner;
	int fd = m->fd[0];
	int r = find_session(m, &s, f);

	if (!r)
		r = wire_get_uint(&m->body, "arena", UINT32_MAX, &arena, f);
	if (!r)
		r = wire_get_uint(&m->body, "bytes", UINT64_MAX, &bytes, f);
	if (!r)
		r = wire_get_uint(&m->body, "owner", ARENA_OWNERS - 1, &owner, f);
	if (r || !s)
		return r;
	if (fd < 0) {
		fd_is_short(s, owner);
		if (owner != ARENA_OF_CLIENT) {
			control_drop(s, (uint32_t)arena);
			return 0;
		}
		/* The client has its own, and would go on to use it. */
		s->lost_arena = (uint32_t)arena;
		s->lost_error = -EMFILE;
		return 0;
	}
	m->fd[0] = -1;
	if (owner == ARENA_OF_CLIENT)
		return add_client_arena(s, (uint32_t)arena, fd, bytes);
	if (owner == ARENA_SHARED) {
		take_grant(s, (uint32_t)arena, fd, bytes);
		return 0;
	}
	if (owner == ARENA_HELD)
		return share_regained(s, (uint32_t)arena, fd, bytes);
	r = space_add_arena(s->space, (uint32_t)arena, fd, bytes, true);
	if (!r)
		return 0;
	space_refused(s->space, -ENOMEM);
	control_drop(s, (uint32_t)arena);
	return r;
}

/* [session, code, sentence, owner] */
static int read_refusal(struct wire_cursor *body, struct fault *refusal, uint64_t *ownerp, struct fault *f) {
	int r = message_get_fault(body, refusal, f);

	return r ? r : wire_get_uint(body, "owner", ARENA_OWNERS - 1, ownerp, f);
}

static int on_arena_refused(struct control_message *m, struct fault *f) {
	struct session *s = NULL;
	struct fault refusal;
	uint64_t owner = 0;
	int r = find_session(m, &s, f);

	if (!r)
		r = read_refusal(&m->body, &refusal, &owner, f);
	if (!r && s)
		refuse_arena(s, owner, &refusal);
	return r;
}

static int on_share_held(struct control_message *m, struct fault *f) {
	struct session *s = NULL;
	uint64_t arena;
	int r = find_session(m, &s, f);

	if (!r)
		r = wire_get_uint(&m->body, "arena", UINT32_MAX, &arena, f);
	if (!r && s)
		share_held(s, (uint32_t)arena);
	return r;
}

static int on_reload(struct control_message *m, struct fault *f) {
	struct server *v = m->server;
	struct config fresh;
	int r = v->source ? config_load(&fresh, v->source, f) : 0;

	if (r || !v->source)
		return r;
	for (unsigned i = 0; i < config_settings(); i++) {
		const struct setting *s = config_setting(i);

		if (s->applies != SETTING_START)
			memcpy((char *)&v->config + s->offset, (char *)&fresh + s->offset, setting_size(s));
	}
	configure_changed(v);
	log_set_level((enum log_level)v->config.log_level);
	operations_reload(v->operations);
	return 0;
}

static int on_user(struct control_message *m, struct fault *f) {
	struct server *v = m->server;
	struct wire_cursor map;
	struct account *a;
	uint64_t uid;
	int r = wire_get_uint(&m->body, "uid", UINT32_MAX, &uid, f);

	if (!r)
		r = wire_get_map(&m->body, "settings", CONFIG_SETTINGS, &map, f);
	if (r)
		return r;
	a = account_find(&v->accounts, (uid_t)uid);
	r = a ? account_rules(a, &v->config, &map, f) : -ENOMEM;
	if (!r)
		transport_limit(v->transport, a->uid, (uint32_t)account_config(a, &v->config)->limits_connections);
	v->users_changed = true;
	return r;
}

/* Where nobody holds a session: what it gathered runs as it was asked for. */
static void refresh_sessions(struct server *v) {
	if (!v->users_changed)
		return;
	v->users_changed = false;
	v->progress = true;
	for (struct session *s = v->sessions; s; s = s->hh.next)
		session_refresh(s);
}

/* What was done for an administrator by an engine before this one. */
static int on_order(struct control_message *m, struct fault *f) {
	char *name = NULL, *text = NULL;
	uint64_t kind;
	int r = wire_get_uint(&m->body, "kind", ORDER_PATTERN, &kind, f);

	if (!r)
		r = patterns_get_text(&m->body, "name", CONTROL_PACKET, &name, f);
	if (!r)
		r = patterns_get_text(&m->body, "text", CONTROL_PACKET, &text, f);
	if (!r)
		r = kind == ORDER_PATTERN ? patterns_define(m->server->patterns, name, text, f) : configure_all(m->server, name, text, f);
	free(name);
	free(text);
	return r;
}

/* A process that compiles, and its descriptors: the device takes them. */
static int take_worker(struct device *d, struct wire_cursor *body, int fd[PACKET_PAIR], struct fault *f) {
	uint64_t idle, error;
	int r = wire_get_uint(body, "idle", 1, &idle, f);

	if (!r)
		r = wire_get_uint(body, "error", INT_MAX, &error, f);
	if (r)
		return r;
	/* Without room for more descriptors the packet comes without them. */
	if (!error && (fd[0] < 0 || fd[1] < 0))
		error = EMFILE;
	device_worker(d, idle, -(int)error, fd[0], fd[1]);
	fd[0] = fd[1] = -1;
	return 0;
}

static int on_worker(struct control_message *m, struct fault *f) {
	return take_worker(m->server->device, &m->body, m->fd, f);
}

/* This is a spare: what the engine that it stands in for has ready. What fails to build here says so when it is asked for. */
static int on_program(struct control_message *m, struct fault *f) {
	struct program *ignored;
	uint64_t build, size;
	const void *bytes;
	struct kernel *k;
	int r = wire_get_uint(&m->body, "build", UINT64_MAX, &build, f);

	if (!r)
		r = wire_get_uint(&m->body, "size", CONTROL_PACKET, &size, f);
	if (!r)
		r = wire_get_bin(&m->body, "kernel", size, &bytes, f);
	if (r || build != build_number())
		return r;
	k = kernel_unpack(bytes, size);
	if (!k)
		return fault_set(f, FAULT_PROTOCOL, "a kernel of %" PRIu64 " bytes is none", size);
	r = device_program_spare(m->server->device, k, &ignored);
	free(k);
	return r;
}

static int on_metrics_want(struct control_message *m, struct fault *f) {
	struct wire_writer w;

	(void)f;
	wire_writer_init(&w);
	metrics_put(m->server, &w);
	return send_packet(m->server->control, &w);
}

static const struct {
	int (*function)(struct control_message *m, struct fault *f);
	bool adds;                   /* may be handled while a caller holds a session */
} controls[] = {
	[CONTROL_SESSION_NEW] = { on_session_new, true },
	[CONTROL_SESSION_END] = { on_session_end, false },
	[CONTROL_ARENA] = { on_arena, true },
	[CONTROL_ARENA_REFUSED] = { on_arena_refused, true },
	[CONTROL_USER] = { on_user, true },
	[CONTROL_RELOAD] = { on_reload, false },
	[CONTROL_ORDER] = { on_order, false },
	[CONTROL_SHARE_HELD] = { on_share_held, true },
	[CONTROL_WORKER] = { on_worker, true },
	[CONTROL_CATALOGUE] = { on_catalogue, true },
	[CONTROL_PING] = { on_ping, true },
	[CONTROL_SUSPECT] = { on_suspect, true },
	[CONTROL_SESSION_RESUME] = { on_session_resume, true },
	[CONTROL_PROGRAM] = { on_program, true },
	[CONTROL_METRICS_WANT] = { on_metrics_want, true },
};

enum { CONTROLS = sizeof controls / sizeof *controls };

/* ---- packets ---- */

static void close_pair(const int fd[PACKET_PAIR]) {
	for (unsigned i = 0; i < PACKET_PAIR; i++)
		if (fd[i] >= 0)
			close(fd[i]);
}

static struct control_packet *packet_free(struct control_packet *p) {
	close_pair(p->fd);
	free(p);
	return NULL;
}

/* The next packet at *pp: 0, -EAGAIN where there is none, -ENOMEM, or -EPIPE: the supervisor is gone. */
static int receive_packet(int control, struct control_packet **pp) {
	struct control_packet *p = malloc(sizeof *p + CONTROL_PACKET), *fitting;
	int fd[PACKET_PAIR];
	ssize_t n;

	*pp = NULL;
	/* It stays where it is until there is memory: what it says is not said twice. */
	if (!p)
		return -ENOMEM;
	n = packet_receive_pair(control, p->bytes, CONTROL_PACKET, fd, MSG_DONTWAIT);
	if (n <= 0) {
		free(p);
		return n == -EAGAIN || n == -ENOMEM ? (int)n : -EPIPE;
	}
	p->next = NULL;
	p->fd[0] = fd[0];
	p->fd[1] = fd[1];
	p->size = (size_t)n;
	fitting = realloc(p, sizeof *p + p->size);
	if (fitting)
		p = fitting;
	*pp = p;
	return 0;
}

/* What came is dealt with. */
static void received(struct server *v) {
	if (v->reserve)
		reserve_take(v->reserve);
}

/* The next one, or NULL where there is none or the supervisor is gone. */
static struct control_packet *receive(struct server *v) {
	struct control_packet *p;
	int r;

	if (v->reserve)
		reserve_give(v->reserve);
	r = receive_packet(v->control, &p);
	v->orphaned |= r == -EPIPE;
	v->starved |= r == -ENOMEM;
	if (!p)
		received(v);
	return p;
}

static unsigned packet_id(const struct wire_reader *reader, struct wire_cursor *body) {
	uint64_t id;

	*body = wire_root(reader);
	return wire_get_uint(body, "message", CONTROLS - 1, &id, NULL) ? 0 : (unsigned)id;
}

static int take_if_worker(struct device *d, struct control_packet *p, struct fault *f) {
	struct wire_reader reader;
	struct wire_cursor body;
	int r = wire_open(&reader, p->bytes, p->size, f);

	if (r)
		return r;
	r = packet_id(&reader, &body) == CONTROL_WORKER ? take_worker(d, &body, p->fd, f)
							  : fault_set(f, FAULT_PROTOCOL, "nobody is served");
	wire_close(&reader);
	return r;
}

void control_workers(int control, struct device *d) {
	struct control_packet *p;
	struct fault f = { 0 };

	while (!receive_packet(control, &p)) {
		int r = take_if_worker(d, p, &f);

		if (r)
			log_error("a packet of the supervisor was refused: %s", r > 0 ? f.text : strerror(-r));
		packet_free(p);
	}
}

/*
 * Handles it, and returns true; or returns false where only what adds may be handled, or there is no memory to read it: it is kept then,
 * since it is not said twice.
 */
static bool handle(struct server *v, struct control_packet *p, bool adds_only) {
	struct control_message m = { .server = v, .fd = p->fd };
	struct wire_reader reader;
	struct fault f = { 0 };
	bool handled = true;
	int r = wire_open(&reader, p->bytes, p->size, &f);

	if (r == -ENOMEM) {
		v->starved = v->unread = true;
		return false;
	}
	if (!r) {
		m.id = packet_id(&reader, &m.body);
		if (adds_only && m.id && !controls[m.id].adds)
			handled = false;
		else if (!m.id || !controls[m.id].function)
			r = fault_set(&f, FAULT_PROTOCOL, "there is no such message");
		else
			r = controls[m.id].function(&m, &f);
		wire_close(&reader);
	}
	if (r)
		log_error("a packet of the supervisor was refused: %s", r > 0 ? f.text : strerror(-r));
	return handled;
}

/* Kept for control_turn(). Of a session whose end is among it the supervisor answers nothing any more. */
static void defer(struct server *v, struct control_packet *p) {
	struct control_message m = { .server = v, .fd = p->fd };
	struct session *s = NULL;
	struct wire_reader reader;
	struct fault f;

	LL_APPEND(v->packets, p);
	if (wire_open(&reader, p->bytes, p->size, &f))
		return;
	m.id = packet_id(&reader, &m.body);
	if (m.id == CONTROL_SESSION_END && !find_session(&m, &s, &f) && s)
		s->ending = true;
	wire_close(&reader);
}

void control_catch_up(struct server *v) {
	struct control_packet *p;

	while (!v->orphaned && (p = receive(v))) {
		if (!v->unread && handle(v, p, true))
			packet_free(p);
		else
			defer(v, p);
	}
}

void control_turn(struct server *v) {
	struct control_packet *p;

	while ((p = v->packets)) {
		LL_DELETE(v->packets, p);
		if (!handle(v, p, false)) {
			LL_PREPEND(v->packets, p);
			return;
		}
		packet_free(p);
	}
	v->unread = false;
	while (!v->orphaned && (p = receive(v))) {
		if (!handle(v, p, false)) {
			LL_PREPEND(v->packets, p);
			return;
		}
		packet_free(p);
	}
	refresh_sessions(v);
}

/* ---- asking for memory ---- */

static int wait_readable(const struct server *v, uint64_t deadline) {
	struct pollfd p = { .fd = v->control, .events = POLLIN };
	uint64_t now = loop_now();
	int r = now < deadline ? poll(&p, 1, (int)((deadline - now) / 1000 + 1)) : 0;

	return r < 0 && errno != EINTR ? -errno : r == 0 ? -ETIMEDOUT : 0;
}

/* Until others have given some back. */
static void wait_for_memory(struct server *v) {
	const struct timespec t = { .tv_nsec = CONTROL_STARVED_NS };

	v->starved = false;
	nanosleep(&t, NULL);
}

/* What was kept for lack of memory is tried again, and in its order: answers do not say what they are to. */
static void take_kept(struct server *v) {
	struct control_packet *kept = v->packets, *p;

	v->packets = NULL;
	v->unread = false;
	while ((p = kept)) {
		LL_DELETE(kept, p);
		if (!v->unread && handle(v, p, true))
			packet_free(p);
		else
			LL_APPEND(v->packets, p);
	}
}

int control_await_arena(struct session *s) {
	uint64_t deadline = loop_now() + CONTROL_WAIT_US;
	struct server *v = s->server;
	int r = 0;

	while (!r && space_awaits(s->space) && !v->orphaned && !s->ending) {
		control_catch_up(v);
		if (!space_awaits(s->space))
			break;
		if (!v->starved && !v->unread) {
			r = wait_readable(v, deadline);
			continue;
		}
		wait_for_memory(v);
		take_kept(v);
		r = loop_now() < deadline ? 0 : -ETIMEDOUT;
	}
	return r ? r : space_awaits(s->space) ? -EPIPE : 0;
}

int control_want(struct session *s, uint64_t bytes) {
	int r = send_about(s, CONTROL_ARENA_WANT, bytes);

	return r ? r : -EAGAIN;
}

int control_share(struct session *s, uint64_t bytes) {
	return send_about(s, CONTROL_SHARE_WANT, bytes);
}

int control_hold(struct session *s, uint32_t arena, bool writable) {
	struct wire_writer out;

	wire_writer_init(&out);
	wire_put_array(&out, 4);
	wire_put_uint(&out, CONTROL_SHARE_HOLD);
	wire_put_uint(&out, s->id);
	wire_put_uint(&out, arena);
	wire_put_uint(&out, writable);
	return send_packet(s->server->control, &out);
}
