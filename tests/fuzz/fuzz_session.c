/*
 * The engine's sessions: frames of any kind in any order, as bytes say, beside what the supervisor tells. Decoder, sessions, window, planner and lanes are those
 * of the daemon; the device is that of the simulation (tests/sim/device.c), which looks at what kernels would touch and runs none.
 *
 * Whatever is sent, each operand of a launch lies within one mapping, memory of two sessions is in no task, every frame is answered once its session has ended, and
 * nothing of a session is left then.
 */
#include "fuzz.h"

#include <errno.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/graph/graph.h"
#include "daemon/serve/server.h"
#include "protocol/codec.h"
#include "protocol/message.h"
#include "protocol/shm.h"
#include "tests/fuzz/program.h"
#include "tests/sim/sim.h"
#include "tests/transport_memory.h"

enum {
	SESSIONS = 3,
	ARENAS = 48,
	ARENA_BYTES = 16 << 10,
	/* More an engine is refused. */
	ARENA_MOST = 1 << 20,
	MAPPINGS = 256,
	LATER = 4096,
	PACKET = 4096,
	ACTS = 96,
	OPS = 12,
	/* Turns until all that was asked for is over. */
	TURNS_MOST = 20000,
	SLOTS = 6,
	HANDLES_MOST = 8,
};

/* ---- the simulation, as its device sees it ---- */

struct later {
	void (*call)(void *user);
	void *user;
};

static struct later later[LATER];
static unsigned waiting;

static struct {
	uint64_t begin, end, inode;
} mapping[MAPPINGS];
static unsigned mappings;

static struct {
	uint64_t inode, session;
} owner[ARENAS];
static unsigned owners;

uint64_t sim_random(uint64_t below) {
	(void)below;
	return 0;
}

uint64_t sim_now_ns(void) {
	return loop_now_ns();
}

void sim_point(const char *name, uint64_t detail) {
	(void)name;
	(void)detail;
}

void sim_note(const char *format, ...) {
	(void)format;
}

void sim_wrong(const char *format, ...) {
	va_list list;

	va_start(list, format);
	vfprintf(stderr, format, list);
	va_end(list);
	fuzz_claim_failed(__FILE__, __LINE__, " is what the device met");
}

bool sim_happens(enum sim_fault what) {
	(void)what;
	return false;
}

bool sim_computes(void) {
	return false;
}

void sim_after(uint64_t ns, void (*call)(void *user), void *user) {
	(void)ns;
	claim(waiting < LATER, "too much is under way");
	later[waiting++] = (struct later){ call, user };
}

void sim_forget(const void *user) {
	unsigned kept = 0;

	for (unsigned i = 0; i < waiting; i++)
		if (later[i].user != user)
			later[kept++] = later[i];
	waiting = kept;
}

static void *map_noted(void *p, size_t bytes, int fd) {
	struct stat st = { .st_ino = 0 };

	if (p == MAP_FAILED || mappings == MAPPINGS)
		return p;
	if (fd >= 0)
		fstat(fd, &st);
	mapping[mappings].begin = (uintptr_t)p;
	mapping[mappings].end = (uintptr_t)p + bytes;
	mapping[mappings++].inode = st.st_ino;
	return p;
}

void *__real_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset); /* NOLINT(bugprone-reserved-identifier) */
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset); /* NOLINT(bugprone-reserved-identifier) */
int __real_munmap(void *at, size_t bytes); /* NOLINT(bugprone-reserved-identifier) */
int __wrap_munmap(void *at, size_t bytes); /* NOLINT(bugprone-reserved-identifier) */

void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset) {
	return map_noted(__real_mmap(at, bytes, protection, flags, fd, offset), bytes, fd);
}

int __wrap_munmap(void *at, size_t bytes) {
	for (unsigned i = mappings; i-- > 0;)
		if (mapping[i].begin == (uintptr_t)at) {
			mapping[i] = mapping[--mappings];
			break;
		}
	return __real_munmap(at, bytes);
}

/* What was mapped last at a place is there. */
int sim_owner(uint64_t address, uint64_t bytes) {
	for (unsigned i = mappings; i-- > 0;) {
		if (address + bytes <= mapping[i].begin || address >= mapping[i].end)
			continue;
		if (address < mapping[i].begin || address + bytes > mapping[i].end)
			return -1;
		for (unsigned k = 0; k < owners; k++)
			if (owner[k].inode == mapping[i].inode)
				return (int)owner[k].session;
		return 0;
	}
	return -1;
}

/* ---- an engine ---- */

static struct {
	struct config config;
	struct inbox inbox;
	struct device *device;
	struct plan_cache *plans;
	struct tracker *tracker;
	struct exec *exec;
	struct transport *transport;
	struct server *server;
	int control[2];
} engine;

static struct session_of {
	uint64_t id, seq;
	bool there;
} session[SESSIONS];
static uint32_t arenas;
static bool refuses;

static void open_engine(void) {
	struct device_config d = { .wake = inbox_ring, .user = &engine.inbox };
	struct exec_config x = { .interpreter = INTERPRETER_OFF };
	struct server_config c = { .config = &engine.config };
	struct fault f = { 0 };
	int r;

	config_standard(&engine.config);
	/* Nothing is held for a time that a clock would end. */
	engine.config.fusion_window_us = 0;
	r = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, engine.control);
	if (!r)
		r = inbox_open(&engine.inbox);
	if (!r)
		r = device_open(&d, &engine.device, &f);
	if (!r)
		r = plan_cache_new(64, &engine.plans);
	x.device = engine.device;
	x.plans = engine.plans;
	if (!r)
		r = exec_new(&x, &engine.exec);
	if (!r)
		r = tracker_new(NULL, "fuzz", &engine.tracker);
	if (!r)
		r = transport_memory_new(&engine.transport);
	c.device = engine.device;
	c.plans = engine.plans;
	c.tracker = engine.tracker;
	c.exec = engine.exec;
	c.transport = engine.transport;
	c.inbox = &engine.inbox;
	c.control = engine.control[0];
	if (!r)
		r = server_new(&c, &engine.server);
	if (!r)
		r = transport_start(engine.transport, inbox_push, &engine.inbox);
	claim(!r, "no engine: %d", r);
}

static void close_engine(void) {
	engine.server = server_free(engine.server);
	engine.transport = transport_close(engine.transport);
	engine.exec = exec_free(engine.exec);
	engine.tracker = tracker_free(engine.tracker);
	engine.plans = plan_cache_free(engine.plans);
	engine.device = device_close(engine.device);
	close(engine.control[0]);
	close(engine.control[1]);
	inbox_close(&engine.inbox);
	waiting = 0;
	owners = 0;
}

/* ---- the supervisor ---- */

static void say(struct wire_writer *w, int fd) {
	claim(!wire_finish(w) && !packet_send(engine.control[1], w->buffer.data, w->buffer.size, fd, MSG_NOSIGNAL), "the engine hears nothing");
	wire_writer_free(w);
}

static void begin_packet(struct wire_writer *w, unsigned count, unsigned id, uint64_t of) {
	wire_writer_init(w);
	wire_put_array(w, count);
	wire_put_uint(w, id);
	wire_put_uint(w, of);
}

static void give_arena(uint64_t of, uint64_t bytes, enum arena_owner whose) {
	struct wire_writer w;
	struct stat st;
	int fd;

	bytes = (bytes + 4095) / 4096 * 4096;
	if (shm_create("fuzz", bytes, &fd))
		abort();
	fstat(fd, &st);
	if (owners < ARENAS && whose != ARENA_SHARED) {
		owner[owners].inode = st.st_ino;
		owner[owners++].session = of;
	}
	begin_packet(&w, 5, CONTROL_ARENA, of);
	wire_put_uint(&w, ++arenas);
	wire_put_uint(&w, bytes);
	wire_put_uint(&w, whose);
	say(&w, fd);
	close(fd);
}

static void refuse(uint64_t of, enum arena_owner whose) {
	struct wire_writer w;

	begin_packet(&w, 5, CONTROL_ARENA_REFUSED, of);
	wire_put_int(&w, FAULT_MEMORY);
	wire_put_text(&w, "no");
	wire_put_uint(&w, whose);
	say(&w, -1);
}

static void answer(uint64_t id, uint64_t of, uint64_t value) {
	struct wire_writer w;
	bool no = refuses || value > ARENA_MOST || arenas >= ARENAS;

	if (id == CONTROL_ARENA_WANT || id == CONTROL_SHARE_WANT) {
		enum arena_owner whose = id == CONTROL_ARENA_WANT ? ARENA_OF_ENGINE : ARENA_SHARED;

		if (no)
			refuse(of, whose);
		else
			give_arena(of, value, whose);
		return;
	}
	if (id != CONTROL_SHARE_HOLD)
		return;
	if (refuses) {
		refuse(of, ARENA_HELD);
		return;
	}
	begin_packet(&w, 3, CONTROL_SHARE_HELD, of);
	wire_put_uint(&w, value);
	say(&w, -1);
}

static void hear(void) {
	char bytes[PACKET];
	ssize_t n;
	int fd = -1;

	while ((n = packet_receive(engine.control[1], bytes, sizeof bytes, &fd, MSG_DONTWAIT)) > 0) {
		struct wire_reader reader;
		struct wire_cursor c;
		uint64_t id = 0, of = 0, value = 0;

		claim(!wire_open(&reader, bytes, (size_t)n, NULL), "the engine says nonsense");
		c = wire_root(&reader);
		if (!wire_get_uint(&c, "id", UINT64_MAX, &id, NULL) && !wire_get_uint(&c, "of", UINT64_MAX, &of, NULL) &&
			!wire_get_uint(&c, "value", UINT64_MAX, &value, NULL))
			answer(id, of, value);
		wire_close(&reader);
	}
}

static void turn(unsigned calls) {
	inbox_rung(&engine.inbox);
	server_turn(engine.server);
	hear();
	for (; calls && waiting; calls--) {
		struct later now = later[0];

		memmove(later, later + 1, --waiting * sizeof *later);
		now.call(now.user);
	}
}

static void begin_session(struct session_of *s, uint64_t id) {
	unsigned char secret[LIMIT_SECRET_BYTES];
	struct wire_writer w;

	*s = (struct session_of){ .id = id, .there = true };
	memset(secret, (int)id, sizeof secret);
	begin_packet(&w, 12, CONTROL_SESSION_NEW, id);
	wire_put_bin(&w, secret, sizeof secret);
	wire_put_uint(&w, 1000 + id % 2);
	wire_put_uint(&w, 4711);
	wire_put_text(&w, "fuzz");
	wire_put_bool(&w, false);
	wire_put_bool(&w, false);
	wire_put_bool(&w, id == 1);
	wire_put_bool(&w, false);
	wire_put_bool(&w, false);
	wire_put_map(&w, 0);
	say(&w, -1);
	give_arena(id, ARENA_BYTES, ARENA_OF_CLIENT);
}

static void end_session(struct session_of *s) {
	struct wire_writer w;

	if (!s->there)
		return;
	begin_packet(&w, 2, CONTROL_SESSION_END, s->id);
	say(&w, -1);
	s->there = false;
}

/* ---- requests ---- */

static uint64_t handle(struct fuzz_bytes *b) {
	uint8_t n = fuzz_byte(b);

	return (uint64_t)(1 + n / 64) << 32 | n % SLOTS;
}

static void put_op(struct fuzz_bytes *b, struct wire_writer *w, uint32_t at) {
	struct coded_op o = { .op = fuzz_byte(b) };
	struct program p = { .in = b };
	const struct op_info *info = op_info(o.op);

	if (!info) {
		o.op = OP_fill;
		info = op_info(o.op);
	}
	o.arity = (uint8_t)op_least(o.op);
	if (o.arity < info->arity)
		o.arity = (uint8_t)(o.arity + fuzz_byte(b) % (info->arity - o.arity + 1));
	for (unsigned i = 0; i < o.arity; i++) {
		uint8_t n = fuzz_byte(b);

		o.in[i] = at && n % 4 ? at - 1 - n / 4 % at : -1 - (int64_t)handle(b);
	}
	program_attr(&p, o.op, &o.attr);
	if (o.op == OP_load) {
		o.attr.arena = fuzz_byte(b) % 8;
		o.attr.offset = fuzz_byte(b) % 64 * UINT64_C(64);
	}
	codec_put_op(w, &o);
}

static uint32_t put_ops(struct fuzz_bytes *b, struct wire_writer *w) {
	uint32_t count = fuzz_below(b, OPS + 1);

	wire_put_array(w, count);
	for (uint32_t i = 0; i < count; i++)
		put_op(b, w, i);
	return count;
}

/* Of one letter of a form; `nodes`: of the operations before it. */
static void put_field(struct fuzz_bytes *b, struct wire_writer *w, struct session_of *s, char letter, uint32_t *nodes) {
	static const char *const words[] = { "fusion.enabled", "no", "neg(a + b)", "mine", "mine(a, b)", "fusion.window_us", "sum:exp", "0", "fusion.apart", "" };
	struct tensor_type t = { .dtype = DTYPE_f32, .rank = 1 };
	unsigned char token[LIMIT_TOKEN_BYTES] = { 0 };
	uint32_t count;

	switch (letter) {
	case 's':
		wire_put_uint(w, fuzz_byte(b) % 16 ? ++s->seq : s->seq + fuzz_byte(b) % 4);
		return;
	case 'q':
		wire_put_uint(w, fuzz_byte(b) % 16 ? s->seq : s->seq + fuzz_byte(b) % 4);
		return;
	case 'h':
		wire_put_uint(w, handle(b));
		return;
	case 'u':
		wire_put_uint(w, fuzz_byte(b) % 8);
		return;
	case 'U':
		wire_put_uint(w, fuzz_whole(b, fuzz_byte(b) % 9));
		return;
	case 'o':
		*nodes = put_ops(b, w);
		return;
	case 'p':
	case 'n':
		count = fuzz_below(b, 4);
		wire_put_array(w, letter == 'p' ? 2 * count : count);
		for (uint32_t i = 0; i < count; i++) {
			wire_put_uint(w, *nodes ? fuzz_byte(b) % *nodes : fuzz_byte(b));
			if (letter == 'p')
				wire_put_uint(w, handle(b));
		}
		return;
	case 'r':
		count = fuzz_below(b, HANDLES_MOST);
		wire_put_array(w, count);
		for (uint32_t i = 0; i < count; i++)
			wire_put_uint(w, handle(b));
		return;
	case 't':
		count = fuzz_below(b, 4);
		wire_put_array(w, count);
		for (uint32_t i = 0; i < count; i++) {
			t.dims[0] = 1 + fuzz_byte(b) % 16;
			codec_put_type(w, &t);
		}
		return;
	case 'x':
		wire_put_text(w, words[fuzz_below(b, sizeof words / sizeof *words)]);
		return;
	default:
		for (unsigned i = 0; i < sizeof token; i++)
			token[i] = fuzz_byte(b) % 2;
		wire_put_bin(w, token, sizeof token);
	}
}

static const struct {
	unsigned id;
	const char *form;
} forms[] = {
	{ REQUEST_SUBMIT, "suopr" }, { REQUEST_SUBMIT, "suopr" }, { REQUEST_WAIT, "q" }, { REQUEST_READ, "qh" }, { REQUEST_MAP, "qh" }, { REQUEST_UNMAP, "sh" },
	{ REQUEST_DEFINE, "suton" }, { REQUEST_REPLAY, "suurrr" }, { REQUEST_FORGET, "su" }, { REQUEST_EXPLAIN, "onu" }, { REQUEST_EXPLAIN, "onut" },
	{ REQUEST_STATS, "u" }, { REQUEST_CAN_FUSE, "onuu" }, { REQUEST_CONFIGURE, "xx" }, { REQUEST_CANCEL, "" }, { REQUEST_EXPORT, "shhuU" },
	{ REQUEST_IMPORT, "sbh" }, { REQUEST_REVOKE, "b" }, { REQUEST_MADE, "ru" }, { REQUEST_SETTINGS, "u" }, { REQUEST_SET, "xx" }, { REQUEST_RECENT, "uu" },
	{ REQUEST_OPERATION, "x" }, { REQUEST_OPERATIONS, "" }, { REQUEST_PATTERN, "uxx" }, { REQUEST_FORGET_PATTERN, "ux" }, { REQUEST_PATTERNS, "" },
	{ REQUEST_RESUME, "UUr" }, { REQUEST_CLIENTS, "" }, { REQUEST_KERNELS, "u" }, { REQUEST_EVENTS, "Uu" },
};

static void ask(struct fuzz_bytes *b, struct session_of *s) {
	unsigned which = fuzz_below(b, sizeof forms / sizeof *forms);
	unsigned char secret[LIMIT_SECRET_BYTES];
	uint32_t nodes = 0;
	struct wire_writer w;

	memset(secret, (int)s->id, sizeof secret);
	wire_writer_init(&w);
	wire_put_array(&w, 3 + (uint32_t)strlen(forms[which].form));
	wire_put_uint(&w, forms[which].id);
	wire_put_uint(&w, s->id);
	wire_put_bin(&w, secret, sizeof secret);
	for (const char *letter = forms[which].form; *letter; letter++)
		put_field(b, &w, s, *letter, &nodes);
	claim(!wire_finish(&w), "no memory");
	transport_memory_send(engine.transport, w.buffer.data, w.buffer.size);
	wire_writer_free(&w);
}

/* ---- one input ---- */

static void act(struct fuzz_bytes *b) {
	unsigned how = fuzz_byte(b);
	struct session_of *s = &session[how / 16 % SESSIONS];
	struct fuzz_bytes raw;

	switch (how % 16) {
	case 0:
		end_session(s);
		return;
	case 1:
		raw = fuzz_take(b, fuzz_byte(b));
		transport_memory_send(engine.transport, raw.at, fuzz_left(&raw));
		return;
	case 2:
		refuses = fuzz_byte(b) & 1;
		return;
	case 3:
	case 4:
		turn(fuzz_byte(b) % 8);
		return;
	default:
		break;
	}
	if (!s->there)
		begin_session(s, (uint64_t)(s - session) + 1 + SESSIONS * (s->id / SESSIONS + 1));
	ask(b, s);
}

static void check_answers(void) {
	const struct memory_transport *m = (const struct memory_transport *)engine.transport;

	for (const struct memory_request *r = m->last; r; r = r->previous)
		claim(r->answer || !r->frame, "frame %u was never answered", r->number);
}

void fuzz_one(struct fuzz_bytes *b) {
	unsigned turns = 0;

	memset(session, 0, sizeof session);
	arenas = 0;
	refuses = false;
	open_engine();
	for (unsigned i = 0; i < ACTS && fuzz_left(b); i++)
		act(b);
	refuses = false;
	for (unsigned i = 0; i < SESSIONS; i++)
		end_session(&session[i]);
	do
		turn(1);
	while ((waiting || exec_busy(engine.exec)) && ++turns < TURNS_MOST);
	claim(turns < TURNS_MOST, "what was asked for does not end");
	check_answers();
	close_engine();
}
