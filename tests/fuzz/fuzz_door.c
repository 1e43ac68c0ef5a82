/*
 * The door: packets of any kind in any order, by several connections, with descriptors of every kind in them, or none; beside what an engine says of its sessions, or that it
 * ends and another one comes. The engine is a socket that this side reads.
 *
 * Whatever comes, every connection ends, what was charged to its user is given back, and as many descriptors are open as before.
 */
#include "fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/catalogue.h"
#include "daemon/door/arenas.h"
#include "daemon/door/blame.h"
#include "daemon/door/engines.h"
#include "daemon/door/orders.h"
#include "daemon/door/stock.h"
#include "daemon/door/supervisor.h"
#include "protocol/message.h"
#include "protocol/shm.h"

enum {
	CLIENTS = 4,
	ACTS = 64,
	PACKET = 16384,
	DESCRIPTORS = 3,
	/* Until memory that is given back apart from the loop is. */
	TURNS_MOST = 10000,
	TURN_US = 1000,
};

static struct supervisor s;
static struct engine *engine;
static int engine_end;
static struct peer {
	int fd;
	uint64_t session;
	unsigned char secret[LIMIT_SECRET_BYTES];
} peer[CLIENTS];

/* Programs that the door would start: none is. */
pid_t __wrap_fork(void); /* NOLINT(bugprone-reserved-identifier) */
pid_t __wrap_fork(void) {
	errno = EAGAIN;
	return -1;
}

static unsigned descriptors(void) {
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	claim(d != NULL, "no /proc");
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* ---- a supervisor of one engine ---- */

static int on_packet(void *user, uint64_t id, struct wire_cursor *body, struct fault *f) {
	(void)user;
	(void)id;
	(void)body;
	(void)f;
	return 0;
}

static void nothing(void *user) {
	(void)user;
}

static void engine_begins(void) {
	int pair[2];

	claim(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), "no sockets");
	engine->child.control = pair[0];
	engine_end = pair[1];
	claim(!loop_add(s.loop, pair[0], 0, (loop_function *)NULL, NULL, &engine->child.source), "no memory");
	engine->child.state = CHILD_READY;
	engine->was_ready = true;
	snprintf(engine->child.url, sizeof engine->child.url, "ipc://fuzz");
	clients_resume(&s);
}

static void engine_ends(void) {
	struct child_packet *p, *next;

	engine->child.source = loop_remove(engine->child.source);
	close(engine->child.control);
	close(engine_end);
	engine->child.control = engine_end = -1;
	engine->child.state = CHILD_NONE;
	for (p = engine->child.queue; p; p = next) {
		next = p->next;
		if (p->fd >= 0)
			close(p->fd);
		free(p);
	}
	engine->child.queue = NULL;
	clients_drift(&s, engine);
	leaving_engine_ended(engine);
}

static unsigned open_before;

static void open_supervisor(void) {
	static const struct child_callbacks callbacks = { .packet = on_packet, .ready = nothing, .writable = nothing };
	static const struct child_kind kind = { .name = "the engine" };
	/* One a process, as threads may outlive what they were begun for (apart.h). */
	static struct loop *loop;
	int fd = catalogue_create();

	if (!loop)
		claim(!loop_new(&loop) && !apart_open(loop), "no memory");
	memset(&s, 0, sizeof s);
	s.listener = s.lock = s.spare = s.signals = s.manager.fd = s.metrics.listener = s.accounts.lock = s.reload.check.out = -1;
	s.silent_us = UINT64_MAX;
	s.admins = NO_ADMINS;
	config_standard(&s.config);
	snprintf(s.config.cache_dir, sizeof s.config.cache_dir, "%s", fuzz_folder());
	s.users.config = &s.config;
	s.users.rules = &s.rules;
	s.users.descriptors_most = 256;
	engine = calloc(1, sizeof *engine);
	claim(engine != NULL, "no memory");
	s.loop = loop;
	engine->supervisor = &s;
	child_init(&engine->child, &kind, s.loop, "", 0, &callbacks);
	claim(fd >= 0 && !catalogue_open(fd, &engine->catalogue), "no catalogue");
	s.engine[0] = engine;
	s.engines = 1;
	open_before = descriptors();
	engine_begins();
}

static void close_supervisor(void) {
	int fd = engine->catalogue->fd;
	unsigned after, turns = 0;

	clients_close(&s, NULL);
	if (engine->child.state == CHILD_READY)
		engine_ends();
	arenas_close(&s);
	/* Sockets with descriptors in them are closed by threads. */
	while (((after = descriptors()) != open_before || s.connections) && turns++ < TURNS_MOST)
		claim(!loop_turn(s.loop, TURN_US), "the loop ends");
	claim(!loop_turn(s.loop, 0), "the loop ends");
	claim(after == open_before, "%u descriptors are open, %u were", after, open_before);
	catalogue_close(engine->catalogue);
	close(fd);
	blame_free(engine);
	orders_free(engine);
	stock_free(engine);
	free(engine);
	claim(!s.clients && !s.session_count && !s.connections, "%u connections are left", s.connections);
	for (const struct user *u = users_next(&s.users, NULL); u; u = users_next(&s.users, u))
		claim(!user_bytes(u) && !user_descriptors(u), "%llu bytes and %llu descriptors are charged to nobody", (unsigned long long)user_bytes(u),
			(unsigned long long)user_descriptors(u));
	accounts_close(&s.accounts);
	users_free(&s.users);
	rules_clear(&s.rules);
}

/* ---- clients ---- */

static void let_go(struct peer *p) {
	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
	p->session = 0;
}

static void come_in(struct peer *p) {
	int pair[2];

	claim(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), "no sockets");
	p->fd = pair[0];
	client_accept(&s, pair[1]);
}

static int some_descriptor(unsigned how) {
	int pair[2] = { -1, -1 };

	switch (how % 4) {
	case 0:
		return eventfd(0, EFD_CLOEXEC);
	case 1:
		return memfd_create("fuzz", MFD_CLOEXEC);
	case 2:
		return open("/dev/null", O_RDONLY | O_CLOEXEC);
	default:
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
			return -1;
		close(pair[1]);
		return pair[0];
	}
}

static void post(const struct peer *p, const void *bytes, size_t size, unsigned how) {
	union {
		char bytes[CMSG_SPACE(DESCRIPTORS * sizeof(int))];
		struct cmsghdr head;
	} control = { .bytes = { 0 } };
	struct iovec part = { .iov_base = (void *)(uintptr_t)bytes, .iov_len = size };
	struct msghdr m = { .msg_iov = &part, .msg_iovlen = 1 };
	unsigned count = how % (DESCRIPTORS + 1);
	int fd[DESCRIPTORS];

	for (unsigned i = 0; i < count; i++)
		fd[i] = some_descriptor(how / 4 + i);
	if (count) {
		m.msg_control = control.bytes;
		m.msg_controllen = CMSG_SPACE(count * sizeof *fd);
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(count * sizeof *fd);
		memcpy(CMSG_DATA(&control.head), fd, count * sizeof *fd);
	}
	if (sendmsg(p->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		errno = 0;
	for (unsigned i = 0; i < count; i++)
		close(fd[i]);
}

/* The answer to HELLO says who it is; what else comes is read and closed. */
static void read_answers(struct peer *p) {
	char bytes[PACKET];
	int fd[PACKET_PAIR];
	ssize_t n;

	while (p->fd >= 0 && (n = packet_receive_pair(p->fd, bytes, sizeof bytes, fd, MSG_DONTWAIT)) > 0) {
		struct wire_reader reader;
		struct wire_cursor c;
		uint64_t id, unused;
		const void *secret;

		for (unsigned i = 0; i < PACKET_PAIR; i++)
			if (fd[i] >= 0)
				close(fd[i]);
		claim(!wire_open(&reader, bytes, (size_t)n, NULL), "the door says nonsense");
		c = wire_root(&reader);
		if (!wire_get_uint(&c, "id", UINT64_MAX, &id, NULL) && id == DOOR_HELLO && !wire_get_uint(&c, "version", UINT64_MAX, &unused, NULL) &&
			!wire_get_uint(&c, "features", UINT64_MAX, &unused, NULL) && !wire_get_uint(&c, "session", UINT64_MAX, &p->session, NULL) &&
			!wire_get_bin(&c, "secret", sizeof p->secret, &secret, NULL))
			memcpy(p->secret, secret, sizeof p->secret);
		wire_close(&reader);
	}
}

static const struct {
	unsigned id;
	const char *form;
} forms[] = {
	{ DOOR_HELLO, "VFxm" }, { DOOR_HELLO, "VFxm" }, { DOOR_HELLO, "Uuxm" }, { DOOR_ARENA_NEW, "b" }, { DOOR_ARENA_NEW, "U" }, { DOOR_ARENA_GET, "u" },
	{ DOOR_RESUME, "Fm" }, { DOOR_RETURN, "Vss" }, { DOOR_SET, "xx" }, { DOOR_USERS, "" }, { DOOR_USERS, "U" }, { DOOR_STATUS, "" }, { DOOR_KILL, "u" },
	{ DOOR_ORIGINS, "" }, { DOOR_QUARANTINE, "" }, { DOOR_QUARANTINE, "u" },
};

static void put_field(struct fuzz_bytes *b, struct wire_writer *w, const struct peer *p, char letter) {
	static const char *const words[] = { "fusion.enabled", "no", "device", "0", "limits.sessions", "user:0.fusion.weight", "2", "limits.user_bytes", "1M", "fuzz" };
	unsigned char secret[LIMIT_SECRET_BYTES] = { 0 };
	uint32_t count;

	switch (letter) {
	case 'V':
		wire_put_uint(w, PROTOCOL_VERSION);
		return;
	case 'F':
		wire_put_uint(w, fuzz_byte(b));
		return;
	case 'u':
		wire_put_uint(w, fuzz_byte(b) % 8);
		return;
	case 'b':
		wire_put_uint(w, UINT64_C(4096) * fuzz_byte(b));
		return;
	case 'U':
		wire_put_uint(w, fuzz_whole(b, fuzz_byte(b) % 9));
		return;
	case 'x':
		wire_put_text(w, words[fuzz_below(b, sizeof words / sizeof *words)]);
		return;
	case 'm':
		count = fuzz_byte(b) % 4 ? 0 : fuzz_byte(b) % 3;
		wire_put_map(w, count);
		for (uint32_t i = 0; i < 2 * count; i++)
			put_field(b, w, p, 'x');
		return;
	default:
		memcpy(secret, p->secret, sizeof secret);
		if (fuzz_byte(b) & 1)
			wire_put_uint(w, p->session);
		else
			wire_put_bin(w, secret, sizeof secret);
	}
}

static void ask(struct fuzz_bytes *b, const struct peer *p) {
	unsigned which = fuzz_below(b, sizeof forms / sizeof *forms), how = fuzz_byte(b);
	struct wire_writer w;

	wire_writer_init(&w);
	wire_put_array(&w, 1 + (uint32_t)strlen(forms[which].form));
	wire_put_uint(&w, forms[which].id);
	for (const char *letter = forms[which].form; *letter; letter++)
		put_field(b, &w, p, *letter);
	claim(!wire_finish(&w), "no memory");
	post(p, w.buffer.data, w.buffer.size, how > 240 ? how : 0);
	wire_writer_free(&w);
}

/* ---- what the engine says ---- */

static void engine_says(struct fuzz_bytes *b) {
	static const struct {
		unsigned id, fields;
	} said[] = { { CONTROL_ARENA_WANT, 1 }, { CONTROL_ARENA_DROP, 1 }, { CONTROL_SESSION_BAD, 0 }, { CONTROL_RESUMED, 3 }, { CONTROL_SHARE_WANT, 1 },
		{ CONTROL_SHARE_HOLD, 2 } };
	unsigned which = fuzz_below(b, sizeof said / sizeof *said);
	struct wire_reader reader;
	struct wire_cursor c;
	struct wire_writer w;
	struct fault f = { 0 };
	uint64_t id;

	if (engine->child.state != CHILD_READY)
		return;
	wire_writer_init(&w);
	wire_put_array(&w, 2 + said[which].fields);
	wire_put_uint(&w, said[which].id);
	wire_put_uint(&w, 1 + fuzz_byte(b) % 6);
	for (unsigned i = 0; i < said[which].fields; i++)
		if (said[which].id == CONTROL_RESUMED && i == 2)
			wire_put_bool(&w, fuzz_byte(b) & 1);
		else
			wire_put_uint(&w, fuzz_byte(b) & 128 ? UINT64_C(4096) * fuzz_byte(b) : fuzz_byte(b) % 8);
	claim(!wire_finish(&w) && !wire_open(&reader, w.buffer.data, w.buffer.size, &f), "no memory");
	c = wire_root(&reader);
	claim(!wire_get_uint(&c, "id", UINT64_MAX, &id, &f), "no number");
	if (clients_packet(engine, id, &c, &f) > 0)
		claim(f.text[0], "no sentence");
	wire_close(&reader);
	wire_writer_free(&w);
}

static void engine_reads(void) {
	char bytes[PACKET];
	int fd[PACKET_PAIR];

	while (engine_end >= 0 && packet_receive_pair(engine_end, bytes, sizeof bytes, fd, MSG_DONTWAIT) > 0)
		for (unsigned i = 0; i < PACKET_PAIR; i++)
			if (fd[i] >= 0)
				close(fd[i]);
}

/* ---- one input ---- */

static void turn(int64_t us) {
	claim(!loop_turn(s.loop, us), "the loop ends");
	arenas_tick(&s);
	clients_tick(&s, loop_now());
	engine_reads();
	for (unsigned i = 0; i < CLIENTS; i++)
		read_answers(&peer[i]);
}

static void act(struct fuzz_bytes *b) {
	unsigned how = fuzz_byte(b);
	struct peer *p = &peer[how / 16 % CLIENTS];
	struct fuzz_bytes raw;

	switch (how % 16) {
	case 0:
		let_go(p);
		return;
	case 1:
		if (engine->child.state == CHILD_READY)
			engine_ends();
		else
			engine_begins();
		return;
	case 2:
	case 3:
		engine_says(b);
		return;
	case 4:
		leaving_left(engine, 1 + fuzz_byte(b) % 6);
		return;
	case 5:
	case 6:
	case 7:
		turn(0);
		return;
	default:
		break;
	}
	if (p->fd < 0)
		come_in(p);
	if (how % 16 == 8) {
		raw = fuzz_take(b, fuzz_byte(b));
		post(p, raw.at, fuzz_left(&raw), fuzz_byte(b));
	} else {
		ask(b, p);
	}
}

void fuzz_one(struct fuzz_bytes *b) {
	unsigned turns = 0;

	for (unsigned i = 0; i < CLIENTS; i++)
		peer[i] = (struct peer){ .fd = -1 };
	open_supervisor();
	for (unsigned i = 0; i < ACTS && fuzz_left(b); i++)
		act(b);
	turn(0);
	for (unsigned i = 0; i < CLIENTS; i++)
		let_go(&peer[i]);
	while ((s.makings || s.leaving) && engine->child.state == CHILD_READY && turns++ < 4)
		turn(TURN_US);
	close_supervisor();
}
