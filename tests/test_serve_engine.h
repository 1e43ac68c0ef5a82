/*
 * An engine for the tests of serve: the real device, exec and planner, requests through the
 * transport in memory, and a thread that plays the supervisor.
 */
#pragma once

#include <check.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "protocol/codec.h"
#include "protocol/message.h"
#include "protocol/shm.h"
#include "daemon/base/loop.h"
#include "daemon/serve/aside.h"
#include "daemon/serve/request.h"
#include "tests/patience.h"
#include "tests/transport_memory.h"

enum {
	ENGINE_ARENAS = 64,
	ENGINE_ARENA_BYTES = 1 << 20,
	ENGINE_PACKET = 4096,
	ENGINE_ASKS = 16,
};

static char engine_cache[64];
/* What the next engine runs kernels by that are not built. */
static enum config_interpreter engine_interpreter;

struct test_arena {
	uint64_t session;
	uint32_t id;
	uint64_t bytes;
	char *base;
};

/* What an engine asks for shared arrays: SHARE_WANT of `value` bytes, or SHARE_HOLD of the arena `value`. */
struct test_ask {
	uint64_t id, session, value;
};

static struct {
	struct config config;
	struct inbox inbox;
	struct device *device;
	struct plan_cache *plans;
	struct tracker *tracker;
	struct exec *exec;
	struct transport *transport;
	struct server *server;
	int control[2];              /* the engine's end, the supervisor's */

	pthread_t supervisor;
	pthread_mutex_t lock;
	struct test_arena arena[ENGINE_ARENAS];
	unsigned arenas, wanted, dropped;
	bool refuse_arenas;
	bool late;                   /* memory of exported arrays, and what sessions may hold, is told when supervisor_answer() is called */
	struct test_ask ask[ENGINE_ASKS];
	atomic_uint asks;
	atomic_ullong bad;           /* the session that was last told to be */
	_Atomic unsigned left;       /* sessions whose memory is not used any more */
} engine;

/* ---- the supervisor ---- */

static void supervisor_say(struct wire_writer *w, int fd) {
	int r = wire_finish(w);

	if (!r)
		r = packet_send(engine.control[1], w->buffer.data, w->buffer.size, fd, MSG_NOSIGNAL);
	/* The engine may have ended since it asked. */
	ck_assert(r == 0 || r == -EPIPE);
	wire_writer_free(w);
}

/* Makes an arena, maps it for the test and tells the engine. */
static struct test_arena *supervisor_arena(uint64_t session, uint64_t bytes, enum arena_owner owner) {
	struct test_arena *a;
	struct wire_writer w;
	void *base;
	int fd;

	pthread_mutex_lock(&engine.lock);
	ck_assert_uint_lt(engine.arenas, ENGINE_ARENAS);
	a = &engine.arena[engine.arenas++];
	pthread_mutex_unlock(&engine.lock);
	bytes = (bytes + 4095) / 4096 * 4096;
	ck_assert_int_eq(shm_create("test", bytes, &fd), 0);
	ck_assert_int_eq(shm_map(fd, bytes, NULL, &base), 0);
	*a = (struct test_arena){ .session = session, .id = engine.arenas, .bytes = bytes, .base = base };
	wire_writer_init(&w);
	wire_put_array(&w, 5);
	wire_put_uint(&w, CONTROL_ARENA);
	wire_put_uint(&w, session);
	wire_put_uint(&w, a->id);
	wire_put_uint(&w, bytes);
	wire_put_uint(&w, owner);
	supervisor_say(&w, fd);
	close(fd);
	return a;
}

static void supervisor_refuse(uint64_t session, enum arena_owner owner) {
	struct wire_writer w;

	wire_writer_init(&w);
	wire_put_array(&w, 5);
	wire_put_uint(&w, CONTROL_ARENA_REFUSED);
	wire_put_uint(&w, session);
	wire_put_int(&w, FAULT_MEMORY);
	wire_put_text(&w, "no");
	wire_put_uint(&w, owner);
	supervisor_say(&w, -1);
}

static void supervisor_held(uint64_t session, uint64_t arena) {
	struct wire_writer w;

	wire_writer_init(&w);
	wire_put_array(&w, 3);
	wire_put_uint(&w, CONTROL_SHARE_HELD);
	wire_put_uint(&w, session);
	wire_put_uint(&w, arena);
	supervisor_say(&w, -1);
}

/* The supervisor's answer to ask `number`, counted from 0: it is there, or refused. */
static inline void supervisor_answer(unsigned number, bool refuse) {
	const struct test_ask *a = &engine.ask[number];
	enum arena_owner owner = a->id == CONTROL_SHARE_WANT ? ARENA_SHARED : ARENA_HELD;

	if (refuse)
		supervisor_refuse(a->session, owner);
	else if (owner == ARENA_SHARED)
		supervisor_arena(a->session, a->value, owner);
	else
		supervisor_held(a->session, a->value);
}

static void supervisor_asked(uint64_t id, uint64_t session, uint64_t value) {
	unsigned n = atomic_load(&engine.asks);

	ck_assert_uint_lt(n, ENGINE_ASKS);
	engine.ask[n] = (struct test_ask){ id, session, value };
	atomic_store(&engine.asks, n + 1);
	if (!engine.late)
		supervisor_answer(n, false);
}

static void supervisor_hear(const void *bytes, size_t size) {
	struct wire_reader reader;
	struct wire_cursor c;
	uint64_t id, session, value;
	struct fault f;

	ck_assert_int_eq(wire_open(&reader, bytes, size, &f), 0);
	c = wire_root(&reader);
	ck_assert_int_eq(wire_get_uint(&c, "id", UINT64_MAX, &id, &f), 0);
	ck_assert_int_eq(wire_get_uint(&c, "session", UINT64_MAX, &session, &f), 0);
	if (id == CONTROL_SESSION_BAD || id == CONTROL_SESSION_UNSERVED)
		atomic_store(&engine.bad, session);
	/* An order is for the engine after this one, and what users have spent for their accounts. */
	if (id == CONTROL_SESSION_BAD || id == CONTROL_SESSION_UNSERVED || id == CONTROL_ORDER || id == CONTROL_SPENT || id == CONTROL_SESSION_LEFT ||
		id == CONTROL_RESUMED) {
		atomic_fetch_add(&engine.left, id == CONTROL_SESSION_LEFT);
		wire_close(&reader);
		return;
	}
	ck_assert_int_eq(wire_get_uint(&c, "value", UINT64_MAX, &value, &f), 0);
	wire_close(&reader);
	if (id == CONTROL_ARENA_DROP) {
		engine.dropped++;
		return;
	}
	if (id == CONTROL_SHARE_WANT || id == CONTROL_SHARE_HOLD) {
		supervisor_asked(id, session, value);
		return;
	}
	ck_assert_uint_eq(id, CONTROL_ARENA_WANT);
	engine.wanted++;
	if (engine.refuse_arenas)
		supervisor_refuse(session, ARENA_OF_ENGINE);
	else
		supervisor_arena(session, value, ARENA_OF_ENGINE);
}

static void *supervisor_thread(void *unused) {
	char bytes[ENGINE_PACKET];
	int fd;

	(void)unused;
	for (;;) {
		ssize_t n = packet_receive(engine.control[1], bytes, sizeof bytes, &fd, 0);

		if (n <= 0)
			return NULL;
		supervisor_hear(bytes, (size_t)n);
	}
}

/* ---- opening and closing ---- */

static void engine_fail(int r, const struct fault *f) {
	ck_assert_msg(r == 0, "%s", r > 0 ? f->text : strerror(-r));
}

static void engine_open_device(void) {
	struct device_config d = {
		.cache_dir = engine_cache, .builders = 1, .wake = inbox_ring, .user = &engine.inbox
	};
	struct exec_config x = { .interpreter = engine_interpreter };
	struct fault f = { 0 };

	engine_fail(device_open(&d, &engine.device, &f), &f);
	engine_fail(plan_cache_new(256, &engine.plans), &f);
	x.device = engine.device;
	x.plans = engine.plans;
	engine_fail(exec_new(&x, &engine.exec), &f);
	engine_fail(tracker_new(NULL, device_name(engine.device), &engine.tracker), &f);
}

static void engine_open(void) {
	struct server_config c = { .config = &engine.config };

	config_standard(&engine.config);
	pthread_mutex_init(&engine.lock, NULL);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, engine.control), 0);
	ck_assert_int_eq(inbox_open(&engine.inbox), 0);
	engine_open_device();
	ck_assert_int_eq(transport_memory_new(&engine.transport), 0);
	c.device = engine.device;
	c.plans = engine.plans;
	c.tracker = engine.tracker;
	c.exec = engine.exec;
	c.transport = engine.transport;
	c.inbox = &engine.inbox;
	c.control = engine.control[0];
	ck_assert_int_eq(server_new(&c, &engine.server), 0);
	ck_assert_int_eq(transport_start(engine.transport, inbox_push, &engine.inbox), 0);
	ck_assert_int_eq(pthread_create(&engine.supervisor, NULL, supervisor_thread, NULL), 0);
}

static void engine_close(void) {
	engine.server = server_free(engine.server);
	engine.transport = transport_close(engine.transport);
	engine.exec = exec_free(engine.exec);
	engine.tracker = tracker_free(engine.tracker);
	engine.plans = plan_cache_free(engine.plans);
	engine.device = device_close(engine.device);
	shutdown(engine.control[0], SHUT_RDWR);
	pthread_join(engine.supervisor, NULL);
	close(engine.control[0]);
	close(engine.control[1]);
	inbox_close(&engine.inbox);
	for (unsigned i = 0; i < engine.arenas; i++)
		munmap(engine.arena[i].base, engine.arena[i].bytes);
	engine.arenas = 0;
}

/* Turns the server until `done` says so. */
static void engine_turn_until(bool (*done)(uint64_t), uint64_t what) {
	uint64_t end = loop_now() + UINT64_C(1000) * PATIENCE_MS;

	while (!done(what)) {
		struct pollfd p = { .fd = engine.inbox.bell, .events = POLLIN };

		ck_assert_msg(loop_now() < end, "waited too long");
		inbox_rung(&engine.inbox);
		server_turn(engine.server);
		if (inbox_sleep(&engine.inbox))
			poll(&p, 1, 1);
		inbox_wake(&engine.inbox, true);
	}
}

static inline bool engine_is_idle(uint64_t unused) {
	(void)unused;
	return !exec_busy(engine.exec) && !aside_busy(engine.server->aside);
}

/* ---- sessions ---- */

struct client {
	uint64_t session;
	unsigned char secret[LIMIT_SECRET_BYTES];
	uint64_t seq;
	struct test_arena *arena;
	uint64_t used;               /* of the arena */
};

/* Whose sessions they are. */
static uint64_t client_uid = 1000;

/* ring: says that it has one; there is none in the packet. */
static void client_announce(struct client *c, uint64_t session, bool ring) {
	struct wire_writer w;

	memset(c, 0, sizeof *c);
	c->session = session;
	memset(c->secret, (int)session, sizeof c->secret);
	wire_writer_init(&w);
	wire_put_array(&w, 12);
	wire_put_uint(&w, CONTROL_SESSION_NEW);
	wire_put_uint(&w, session);
	wire_put_bin(&w, c->secret, sizeof c->secret);
	wire_put_uint(&w, client_uid);
	wire_put_uint(&w, 4711);
	wire_put_text(&w, "test");
	wire_put_bool(&w, ring);
	wire_put_bool(&w, false);
	wire_put_bool(&w, false);
	wire_put_bool(&w, false);
	wire_put_bool(&w, false);
	wire_put_map(&w, 0);
	supervisor_say(&w, -1);
}

static void client_begin(struct client *c, uint64_t session) {
	client_announce(c, session, false);
	c->arena = supervisor_arena(session, ENGINE_ARENA_BYTES, ARENA_OF_CLIENT);
}

static inline void client_end(const struct client *c) {
	struct wire_writer w;

	wire_writer_init(&w);
	wire_put_array(&w, 2);
	wire_put_uint(&w, CONTROL_SESSION_END);
	wire_put_uint(&w, c->session);
	supervisor_say(&w, -1);
	server_turn(engine.server);
}

/* ---- requests ---- */

static struct wire_writer engine_writer;

/* Starts a request of `fields` values after the secret. */
static struct wire_writer *request_begin(const struct client *c, unsigned id, uint32_t fields) {
	wire_writer_init(&engine_writer);
	wire_put_array(&engine_writer, 3 + fields);
	wire_put_uint(&engine_writer, id);
	wire_put_uint(&engine_writer, c->session);
	wire_put_bin(&engine_writer, c->secret, sizeof c->secret);
	return &engine_writer;
}

static uint32_t request_finish(void) {
	uint32_t number;

	ck_assert_int_eq(wire_finish(&engine_writer), 0);
	number =
		transport_memory_send(engine.transport, engine_writer.buffer.data, engine_writer.buffer.size);
	wire_writer_free(&engine_writer);
	return number;
}

static uint32_t request_numbers(const struct client *c, unsigned id, unsigned count, const uint64_t *n) {
	struct wire_writer *w = request_begin(c, id, count);

	for (unsigned i = 0; i < count; i++)
		wire_put_uint(w, n[i]);
	return request_finish();
}

/* Lists for a batch. */
enum { BATCH_TEXT_OPS = 1000 };

struct batch_text {
	struct coded_op op[BATCH_TEXT_OPS];
	unsigned ops;
	uint64_t output[128];        /* node, handle, ... */
	unsigned outputs;
	uint64_t release[64];
	unsigned releases;
};

static void put_batch_ops(struct wire_writer *w, const struct batch_text *b) {
	wire_put_array(w, b->ops);
	for (unsigned i = 0; i < b->ops; i++)
		codec_put_op(w, &b->op[i]);
}

static void put_list(struct wire_writer *w, unsigned count, const uint64_t *n) {
	wire_put_array(w, count);
	for (unsigned i = 0; i < count; i++)
		wire_put_uint(w, n[i]);
}

static uint32_t submit_as(const struct client *c, uint64_t seq, unsigned flags, const struct batch_text *b) {
	struct wire_writer *w = request_begin(c, REQUEST_SUBMIT, 5);

	wire_put_uint(w, seq);
	wire_put_uint(w, flags);
	put_batch_ops(w, b);
	put_list(w, b->outputs, b->output);
	put_list(w, b->releases, b->release);
	return request_finish();
}

static inline uint32_t submit(struct client *c, const struct batch_text *b) {
	return submit_as(c, ++c->seq, 0, b);
}

/* ---- operations ---- */

static uint64_t handle_of(uint32_t slot, uint32_t generation) {
	return (uint64_t)generation << 32 | slot;
}

static inline int64_t on_handle(uint64_t handle) {
	return -1 - (int64_t)handle;
}

static int64_t batch_op(struct batch_text *b, unsigned op, int64_t x, int64_t y) {
	struct coded_op *o = &b->op[b->ops];

	*o = (struct coded_op){ .op = (uint16_t)op, .arity = op_info(op)->arity, .in = { x, y } };
	return b->ops++;
}

/* f32[n] of one value. */
static inline int64_t batch_fill(struct batch_text *b, int64_t n, double value) {
	int64_t node = batch_op(b, OP_fill, 0, 0);
	struct op_attr *a = &b->op[node].attr;

	a->dtype = DTYPE_f32;
	a->rank = 1;
	a->dims[0] = n;
	a->value[0] = dtype_scalar_from_double(DTYPE_f32, value);
	return node;
}

/* f32 of the given dims from the client's arena, filled with 0, 1, 2, ... */
static inline int64_t batch_load(struct client *c, struct batch_text *b, unsigned rank, const int64_t *dims) {
	int64_t node = batch_op(b, OP_load, 0, 0);
	struct op_attr *a = &b->op[node].attr;
	float *memory = (float *)(c->arena->base + c->used);
	int64_t n = 1;

	a->dtype = DTYPE_f32;
	a->rank = (uint8_t)rank;
	for (unsigned d = 0; d < rank; d++)
		n *= a->dims[d] = dims[d];
	a->arena = c->arena->id;
	a->offset = c->used;
	for (int64_t i = 0; i < n; i++)
		memory[i] = (float)i;
	c->used += ((uint64_t)n * 4 + LIMIT_ALIGNMENT - 1) / LIMIT_ALIGNMENT * LIMIT_ALIGNMENT;
	return node;
}

static inline void batch_name(struct batch_text *b, int64_t node, uint64_t handle) {
	b->output[b->outputs++] = (uint64_t)node;
	b->output[b->outputs++] = handle;
}

/* ---- answers ---- */

static struct {
	struct wire_reader reader;
	bool open;
	struct wire_cursor body;
	uint64_t id;
} answer;

static void answer_close(void) {
	if (answer.open)
		wire_close(&answer.reader);
	answer.open = false;
}

static bool answered(uint64_t number) {
	size_t size;

	return transport_memory_answer(engine.transport, (uint32_t)number, &size) != NULL;
}

static uint64_t answer_number(void) {
	uint64_t n;
	struct fault f;

	ck_assert_msg(wire_get_uint(&answer.body, "number", UINT64_MAX, &n, &f) == 0, "%s", f.text);
	return n;
}

static const char *answer_text(void) {
	static char text[1 << 20];
	const char *bytes;
	size_t size;
	struct fault f;

	ck_assert_msg(
		wire_get_text(&answer.body, "text", sizeof text - 1, &bytes, &size, &f) == 0, "%s", f.text);
	memcpy(text, bytes, size);
	text[size] = 0;
	return text;
}

/* Waits for the answer to a request and opens it. */
static void answer_wait(uint32_t number) {
	const void *bytes;
	struct fault f;
	size_t size = 0;

	engine_turn_until(answered, number);
	bytes = transport_memory_answer(engine.transport, number, &size);
	answer_close();
	ck_assert_msg(wire_open(&answer.reader, bytes, size, &f) == 0, "%s", f.text);
	answer.open = true;
	answer.body = wire_root(&answer.reader);
	answer.id = answer_number();
}

static void expect(uint32_t number, unsigned id) {
	answer_wait(number);
	if (answer.id == MESSAGE_FAULT) {
		uint64_t code = answer_number();

		ck_abort_msg("fault %s: %s", fault_name((int)code), answer_text());
	}
	ck_assert_uint_eq(answer.id, id);
}

/* The sentence of the fault that a request is answered with. */
static inline const char *expect_fault(uint32_t number, int code) {
	uint64_t got;

	answer_wait(number);
	ck_assert_msg(answer.id == MESSAGE_FAULT, "answered with %d instead of a fault", (int)answer.id);
	got = answer_number();
	ck_assert_msg(got == (unsigned)code, "%s: %s", fault_name((int)got), answer_text());
	return answer_text();
}

static uint32_t ask_read(const struct client *c, uint64_t handle) {
	return request_numbers(c, REQUEST_READ, 2, (uint64_t[]){ c->seq, handle });
}

static const float *arena_floats(const struct client *c, uint64_t arena, uint64_t offset) {
	ck_assert_uint_ge(arena, 1);
	ck_assert_uint_le(arena, engine.arenas);
	ck_assert_uint_eq(engine.arena[arena - 1].session, c->session);
	return (const float *)(engine.arena[arena - 1].base + offset);
}

/* Reads `count` floats; they stay in place. */
static inline float *read_floats(const struct client *c, uint64_t handle, unsigned count) {
	uint64_t arena, offset;

	expect(ask_read(c, handle), REQUEST_READ);
	arena = answer_number();
	offset = answer_number();
	ck_assert_uint_eq(answer_number(), count * sizeof(float));
	return (float *)(uintptr_t)arena_floats(c, arena, offset);
}

/* A number of the statistics of a session, or of the daemon (scope 1). */
static inline double statistic(const struct client *c, uint64_t scope, const char *name) {
	cJSON *json, *item;
	double value;

	expect(request_numbers(c, REQUEST_STATS, 1, &scope), REQUEST_STATS);
	json = cJSON_Parse(answer_text());
	ck_assert_ptr_nonnull(json);
	item = cJSON_GetObjectItem(json, name);
	ck_assert_msg(item != NULL, "no statistic %s", name);
	value = item->valuedouble;
	cJSON_Delete(json);
	return value;
}

static uint32_t ask_texts(const struct client *c, unsigned id, const char *name, const char *value) {
	struct wire_writer *w = request_begin(c, id, 2);

	wire_put_text(w, name);
	wire_put_text(w, value);
	return request_finish();
}

static uint32_t ask_configure(const struct client *c, const char *name, const char *value) {
	return ask_texts(c, REQUEST_CONFIGURE, name, value);
}

static inline void configure(const struct client *c, const char *name, const char *value) {
	expect(ask_configure(c, name, value), REQUEST_CONFIGURE);
}
