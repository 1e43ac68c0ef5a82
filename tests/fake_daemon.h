/*
 * A daemon for the tests of client/: a door and an op stream that answer as messages.def says,
 * and compute next to nothing. Loads and fills have their values; every other result is zero, or
 * what the test sets. Each operation is read by codec.h and checked by op_infer(), so whatever a
 * client sends must be what a real daemon would take.
 *
 * Requests come by rings, as from most clients; with FUSIOND_FUSION_TRANSPORT=nng, or where a client offers no ring, by nng.
 *
 * It runs in threads of the test: fake_start() in the test, fake_stop() at its end. What it has
 * seen is in `fake`, to be read under fake.lock or while the client is quiet.
 */
#pragma once

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>

#include "protocol/codec.h"
#include "protocol/message.h"
#include "protocol/own.h"
#include "protocol/range.h"
#include "protocol/shm.h"
#include "tests/rings/served.h"

enum {
	FAKE_WORKERS = 9,
	FAKE_SLOTS = 1 << 17,
	FAKE_ARENAS = 256,
	FAKE_ENGINE_ARENA = 1000, /* first number of the engine's arenas */
	FAKE_ENGINE_BYTES = 4 << 20,
	FAKE_FREED = 1 << 16,
	FAKE_MOST_BYTES = 1 << 30, /* of a result */
	FAKE_TOKENS = 64,
	FAKE_GRAPHS = 64,
	FAKE_REQUESTS = 64, /* more than there are kinds */
	FAKE_NONE = 0xffff,
};

struct fake_array {
	bool live;
	bool own; /* in the client's memory */
	bool mapped; /* for writing */
	uint32_t generation;
	uint32_t arena;
	uint64_t offset;
	struct tensor_type type;
	uint64_t seq; /* poisoned: by operation `node` of this request; else 0 */
	int64_t node;
};

struct fake_arena {
	int fd;
	uint64_t bytes;
	char *base;
	struct range *range; /* the engine's */
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	char folder[64], door[96], url[128];
	int listener;
	atomic_bool stopping;
	pthread_t door_thread, worker[FAKE_WORKERS];
	nng_socket socket;
	nng_ctx context[FAKE_WORKERS];
	nng_aio *aio[FAKE_WORKERS];

	/* the session */
	uint64_t next; /* number of the next request that changes it */
	struct fake_array array[FAKE_SLOTS];
	struct fake_arena
		arena[FAKE_ARENAS]; /* by number; the engine's by number - FAKE_ENGINE_ARENA + 128 */
	uint32_t arenas, engine_arenas;
	uint64_t freed[FAKE_FREED];
	uint32_t freed_count;
	struct tensor_type node[LIMIT_BATCH_OPS];
	struct fake_array loaded[LIMIT_BATCH_OPS];
	char options[256];
	uint64_t version, features;
	uint16_t lacks_op;  /* an operation that it does not have */

	/* what a test sets */
	atomic_bool paused; /* SUBMIT and READ stay unanswered */
	uint16_t refuse_op; /* a SUBMIT with it is refused */
	uint16_t fault_op;  /* the next WAIT reports a fault of it */
	uint16_t nan_op;    /* its result is NaN at element nan_at */
	int64_t nan_at;
	bool refuse_arenas;
	unsigned hold_at;   /* this one of the requests, and packets of the door, that come stays unanswered; 0: none */
	atomic_bool holding;
	atomic_bool gone;   /* it has closed all connections, and takes no other */

	/* what it has seen */
	unsigned by_nng;             /* requests that did not come by a ring */
	unsigned requests[FAKE_REQUESTS], packets, hellos, doors_open;
	unsigned asked;              /* for operations of the administrator, with success */
	unsigned unanswered, unanswered_most;
	uint64_t ops, outputs, releases, bytes, submit_bytes;
	unsigned op_count[OP_COUNT];
	unsigned own, own_count;     /* what it calls the one with a body; how often that was submitted */
	unsigned live, captures, met;
	unsigned tokens, mapped;     /* that are not revoked; that are not unmapped */
	char pattern[64];            /* the one that is defined, or "" */
	uint64_t token[FAKE_TOKENS]; /* handles of what they name, or 0 */
	uint64_t capture_ops, capture_inputs, capture_outputs;
	struct fake_graph {
		uint64_t inputs, outputs;
		struct tensor_type made[16];
	} graph[FAKE_GRAPHS]; /* by its number */
	struct tensor_type capture_type[16];
	struct coded_op last[OP_COUNT]; /* the last operation of each kind */
	uint64_t replay_inputs[16];
	uint64_t fault_seq;
	int64_t fault_node;
	char problem[256]; /* the first thing that a real daemon would refuse */
} fake;

/* ---- what goes wrong ---- */

static inline void fake_problem(const char *what, const struct fault *f) {
	if (!*fake.problem)
		snprintf(fake.problem, sizeof fake.problem, "%s: %.200s", what, f ? f->text : "");
}

#define fake_must(x)                                                                                         \
	do {                                                                                                 \
		if (!(x))                                                                                    \
			fake_problem(#x, NULL);                                                              \
	} while (0)

/* ---- memory ---- */

static inline struct fake_arena *fake_arena(uint32_t id) {
	return &fake.arena[id >= FAKE_ENGINE_ARENA ? id - FAKE_ENGINE_ARENA + FAKE_ARENAS / 2 : id];
}

static inline int fake_arena_new(uint32_t id, uint64_t bytes) {
	struct fake_arena *a = fake_arena(id);
	void *base = NULL;
	int r = shm_create("fake", bytes, &a->fd);

	if (!r)
		r = shm_map(a->fd, bytes, NULL, &base);
	a->bytes = bytes;
	a->base = base;
	return r;
}

/* A place in the engine's memory; what nobody needs any more is never used again, as a test needs little. */
static inline void fake_place(struct fake_array *a) {
	uint64_t bytes = (uint64_t)shape_bytes(&a->type);
	uint32_t id = FAKE_ENGINE_ARENA + fake.engine_arenas - 1;

	if (!fake.engine_arenas || range_take(fake_arena(id)->range, bytes, &a->offset)) {
		uint64_t size = bytes > FAKE_ENGINE_BYTES - 4096 ? bytes + 4096 : FAKE_ENGINE_BYTES;

		id = FAKE_ENGINE_ARENA + fake.engine_arenas++;
		fake_must(fake.engine_arenas < FAKE_ARENAS / 2);
		fake_must(!fake_arena_new(id, size));
		fake_must(!range_new(size - LIMIT_ARENA_SLACK, &fake_arena(id)->range));
		fake_must(!range_take(fake_arena(id)->range, bytes, &a->offset));
	}
	a->arena = id;
}

static inline void fake_array_end(struct fake_array *a) {
	if (a->own && fake.freed_count + 2 <= FAKE_FREED) {
		fake.freed[fake.freed_count++] = a->arena;
		fake.freed[fake.freed_count++] = a->offset;
	} else if (!a->own && fake_arena(a->arena)->range) {
		fake_must(
			!range_give(fake_arena(a->arena)->range, a->offset, (uint64_t)shape_bytes(&a->type)));
	}
}

/* ---- operations ---- */

static inline const struct tensor_type *fake_operand(int64_t in, uint32_t at, struct fault *f) {
	uint64_t handle = (uint64_t)(-1 - in);
	struct fake_array *a;

	if (in >= 0 && in < at)
		return &fake.node[in];
	a = &fake.array[(uint32_t)handle % FAKE_SLOTS];
	if (in < 0 && a->live && a->mapped)
		fake_problem("an operation reads what is mapped for writing", NULL);
	if (in < 0 && a->live && a->generation == handle >> 32)
		return &a->type;
	fault_set(f, FAULT_HANDLE, "operand %lld is nothing", (long long)in);
	return NULL;
}

/* Values of a result: fills have theirs, and one operation may be made to give a NaN. */
static inline void fake_compute(const struct coded_op *o, struct fake_array *a) {
	char *memory;
	int64_t n = shape_elements(&a->type);
	unsigned size = dtype_info(a->type.dtype)->bytes;

	fake_place(a);
	memory = fake_arena(a->arena)->base + a->offset;
	memset(memory, 0, (size_t)n * size);
	for (int64_t i = 0; o->op == OP_fill && i < n; i++)
		memcpy(memory + i * size, &o->attr.value[0], size);
	if (o->op == fake.nan_op && a->type.dtype == DTYPE_f32 && fake.nan_at < n)
		memcpy(memory + fake.nan_at * size, &(uint32_t){ 0x7fc00000 }, size);
}

static inline int fake_op(struct wire_cursor *ops, uint32_t at, const struct tensor_type *inputs,
	uint32_t input_count, struct coded_op *o, struct fault *f) {
	const struct tensor_type *in[LIMIT_OPERANDS];
	int r;

	memset(o, 0, sizeof *o);
	r = codec_get_op(ops, at, o, f);
	for (unsigned i = 0; !r && i < o->arity; i++) {
		if (inputs && o->in[i] < 0)
			in[i] = -1 - o->in[i] < input_count ? &inputs[-1 - o->in[i]] : NULL;
		else
			in[i] = fake_operand(o->in[i], at, f);
		if (!in[i])
			return FAULT_HANDLE;
	}
	return r ? r : op_infer(o->op, o->arity, in, &o->attr, &fake.node[at], f);
}

static inline int fake_output(uint64_t handle, struct fake_array *made) {
	struct fake_array *a = &fake.array[(uint32_t)handle % FAKE_SLOTS];

	if (a->live || handle >> 32 <= a->generation) {
		fake_problem("an output for a slot in use, or of no new generation", NULL);
		return -1;
	}
	*a = *made;
	a->live = true;
	a->generation = (uint32_t)(handle >> 32);
	fake.live++;
	return 0;
}

static inline void fake_release(struct wire_cursor *c, struct fault *f) {
	struct wire_cursor list;
	uint64_t handle;

	if (wire_get_array(c, "releases", LIMIT_HANDLES, &list, f))
		fake_problem("releases", f);
	while (list.left) {
		struct fake_array *a;

		if (wire_get_uint(&list, "release", UINT64_MAX, &handle, f)) {
			fake_problem("release", f);
			return;
		}
		a = &fake.array[(uint32_t)handle % FAKE_SLOTS];
		fake_must(a->live && a->generation == handle >> 32);
		a->live = false;
		fake.live--;
		fake.releases++;
		fake_array_end(a);
	}
}

/* ---- requests ---- */

struct fake_request {
	struct wire_cursor body;
	struct wire_writer *w;
	unsigned id;
	uint64_t seq;
	int64_t node;
};

static inline void fake_put_freed(struct wire_writer *w) {
	wire_put_array(w, fake.freed_count);
	for (uint32_t i = 0; i < fake.freed_count; i++)
		wire_put_uint(w, fake.freed[i]);
	fake.freed_count = 0;
}

static inline void fake_count(unsigned op) {
	if (op < OP_COUNT)
		fake.op_count[op]++;
	else if (op == fake.own)
		fake.own_count++;
	else
		fake_problem("an own operation by another number than it was told", NULL);
}

static inline int fake_submit(struct fake_request *q, struct fault *f) {
	static struct coded_op op[LIMIT_BATCH_OPS];
	static bool output[LIMIT_BATCH_OPS];
	struct wire_cursor ops, outputs;
	uint64_t flags, node, handle;
	uint32_t count = 0;
	int r = wire_get_uint(&q->body, "flags", SUBMIT_URGENT, &flags, f);
	int refused = 0;

	if (!r)
		r = wire_get_array(&q->body, "ops", LIMIT_BATCH_OPS, &ops, f);
	while (!r && ops.left) {
		output[count] = false;
		r = fake_op(&ops, count, NULL, 0, &op[count], f);
		fake_count(op[count].op);
		if (op[count].op < OP_COUNT)
			fake.last[op[count].op] = op[count];
		fake.ops++;
		if (op[count].op == fake.refuse_op) {
			refused = FAULT_DEVICE;
			q->node = count;
		}
		if (op[count].op == fake.fault_op) {
			fake.fault_seq = q->seq;
			fake.fault_node = count;
		}
		count++;
	}
	if (!r)
		r = wire_get_array(&q->body, "outputs", 2 * LIMIT_BATCH_OPS, &outputs, f);
	while (!r && outputs.left) {
		struct fake_array a = { 0 };

		r = wire_get_uint(&outputs, "node", count, &node, f);
		if (!r)
			r = wire_get_uint(&outputs, "handle", UINT64_MAX, &handle, f);
		if (r)
			break;
		a.type = fake.node[node];
		if (!refused && shape_bytes(&a.type) > FAKE_MOST_BYTES) {
			refused = FAULT_MEMORY;
			q->node = (int64_t)node;
		}
		a.seq = refused ? q->seq : 0;
		a.node = q->node;
		output[node] = true;
		fake.outputs++;
		if (op[node].op == OP_load) {
			a.own = true;
			a.arena = op[node].attr.arena;
			a.offset = op[node].attr.offset;
		} else {
			if (shape_bytes(&a.type) > FAKE_MOST_BYTES)
				a.type.rank = 0;
			fake_compute(&op[node], &a);
		}
		fake_output(handle, &a);
	}
	for (uint32_t i = 0; i < count; i++)
		if (op[i].op == OP_load && !output[i])
			fake_array_end(&(struct fake_array){
				.own = true, .arena = op[i].attr.arena, .offset = op[i].attr.offset });
	if (r)
		fake_problem("SUBMIT", f);
	fake_release(&q->body, f);
	if (refused)
		return fault_set(f, refused, "the fake refuses it");
	wire_put_array(q->w, 3);
	wire_put_uint(q->w, q->id);
	wire_put_uint(q->w, q->seq);
	fake_put_freed(q->w);
	return r;
}

static inline int fake_wait(struct fake_request *q, struct fault *f) {
	bool faulty = fake.fault_seq && fake.fault_seq <= q->seq;

	(void)f;
	wire_put_array(q->w, 4);
	wire_put_uint(q->w, q->id);
	wire_put_uint(q->w, q->seq);
	fake_put_freed(q->w);
	wire_put_array(q->w, faulty);
	if (faulty) {
		wire_put_array(q->w, 4);
		wire_put_uint(q->w, fake.fault_seq);
		wire_put_int(q->w, fake.fault_node);
		wire_put_uint(q->w, FAULT_DEVICE);
		wire_put_text(q->w, "the fake device failed");
		fake.fault_seq = 0;
	}
	return 0;
}

static inline int fake_find(struct fake_request *q, struct fake_array **ap, struct fault *f) {
	uint64_t handle;
	int r = wire_get_uint(&q->body, "handle", UINT64_MAX, &handle, f);

	if (r)
		return r;
	*ap = &fake.array[(uint32_t)handle % FAKE_SLOTS];
	if (!(*ap)->live || (*ap)->generation != handle >> 32) {
		fake_problem("READ of a handle that is nothing", NULL);
		return fault_set(f, FAULT_HANDLE, "stale");
	}
	if (!(*ap)->seq)
		return 0;
	q->seq = (*ap)->seq;
	q->node = (*ap)->node;
	return fault_set(f, FAULT_DEVICE, "the fake refuses it");
}

static inline int fake_read(struct fake_request *q, struct fault *f) {
	struct fake_array *a;
	int r = fake_find(q, &a, f);

	if (r)
		return r;
	if (a->mapped)
		fake_problem("READ or MAP of what is mapped for writing", NULL);
	if (q->id == REQUEST_MAP) {
		a->mapped = true;
		fake.mapped++;
	}
	wire_put_array(q->w, 5);
	wire_put_uint(q->w, q->id);
	wire_put_uint(q->w, a->arena);
	wire_put_uint(q->w, a->offset);
	wire_put_uint(q->w, (uint64_t)shape_bytes(&a->type));
	fake_put_freed(q->w);
	return 0;
}

static inline int fake_unmap(struct fake_request *q, struct fault *f) {
	struct fake_array *a;
	int r = fake_find(q, &a, f);

	if (!r && !a->mapped)
		fake_problem("UNMAP of what is not mapped", NULL);
	if (!r)
		a->mapped = false;
	fake.mapped -= !r;
	wire_put_array(q->w, 3);
	wire_put_uint(q->w, q->id);
	wire_put_uint(q->w, q->seq);
	wire_put_uint(q->w, 2);
	return r;
}

/* ---- shares ---- */

/* Another name for what lies where it lay, in memory that is never used again. */
static inline void fake_shares(uint64_t handle, const struct fake_array *a) {
	struct fake_array shared = { .type = a->type };

	fake_place(&shared);
	memcpy(fake_arena(shared.arena)->base + shared.offset, fake_arena(a->arena)->base + a->offset, (size_t)shape_bytes(&a->type));
	fake_output(handle, &shared);
}

static inline int fake_export(struct fake_request *q, struct fault *f) {
	uint8_t token[LIMIT_TOKEN_BYTES] = { 0 };
	uint64_t own;
	struct fake_array *a;
	int r = fake_find(q, &a, f);

	if (!r)
		r = wire_get_uint(&q->body, "own", UINT64_MAX, &own, f);
	if (r)
		return r;
	if (fake.tokens == FAKE_TOKENS)
		return fault_set(f, FAULT_MEMORY, "the fake has no more tokens");
	while (fake.token[token[0]])
		token[0]++;
	fake.token[token[0]] = own ? own : (uint64_t)a->generation << 32 | (uint64_t)(a - fake.array);
	fake.tokens++;
	if (own)
		fake_shares(own, a);
	wire_put_array(q->w, 3);
	wire_put_uint(q->w, q->id);
	wire_put_bin(q->w, token, sizeof token);
	wire_put_uint(q->w, FAKE_ENGINE_ARENA);
	return 0;
}

static inline int fake_token(struct wire_cursor *body, uint64_t **handlep, struct fault *f) {
	const uint8_t *token;
	int r = wire_get_bin(body, "token", LIMIT_TOKEN_BYTES, (const void **)&token, f);

	if (!r && (token[0] >= FAKE_TOKENS || !fake.token[token[0]]))
		r = fault_set(f, FAULT_TOKEN, "the token names nothing");
	if (!r)
		*handlep = &fake.token[token[0]];
	return r;
}

static inline int fake_import(struct fake_request *q, struct fault *f) {
	uint64_t *named, handle;
	struct fake_array *a;
	int r = fake_token(&q->body, &named, f);

	if (!r)
		r = wire_get_uint(&q->body, "handle", UINT64_MAX, &handle, f);
	if (r)
		return r;
	a = &fake.array[(uint32_t)*named % FAKE_SLOTS];
	fake_shares(handle, a);
	wire_put_array(q->w, 5);
	wire_put_uint(q->w, q->id);
	codec_put_type(q->w, &a->type);
	wire_put_uint(q->w, 3);
	wire_put_uint(q->w, 1);
	wire_put_uint(q->w, FAKE_ENGINE_ARENA);
	return 0;
}

static inline int fake_revoke(struct fake_request *q, struct fault *f) {
	uint64_t *named;
	int r = fake_token(&q->body, &named, f);

	if (r)
		return r;
	*named = 0;
	fake.tokens--;
	wire_put_array(q->w, 1);
	wire_put_uint(q->w, q->id);
	return 0;
}

static inline int fake_define(struct fake_request *q, struct fault *f) {
	struct wire_cursor types, ops, outputs;
	struct coded_op o;
	uint64_t id;
	uint32_t inputs = 0, count = 0;
	int r = wire_get_uint(&q->body, "capture", LIMIT_CAPTURES - 1, &id, f);

	if (!r)
		r = wire_get_array(&q->body, "types", 16, &types, f);
	while (!r && types.left)
		r = codec_get_type(&types, &fake.capture_type[inputs++], f);
	if (!r)
		r = wire_get_array(&q->body, "ops", LIMIT_BATCH_OPS, &ops, f);
	while (!r && ops.left) {
		r = fake_op(&ops, count++, fake.capture_type, inputs, &o, f);
		fake_count(o.op);
	}
	if (!r)
		r = wire_get_array(&q->body, "outputs", LIMIT_BATCH_OPS, &outputs, f);
	fake.capture_ops = count;
	fake.capture_inputs = inputs;
	fake.capture_outputs = r ? 0 : outputs.left;
	fake_must(id < FAKE_GRAPHS);
	fake.graph[id] = (struct fake_graph){ .inputs = inputs, .outputs = fake.capture_outputs };
	for (unsigned i = 0; !r && outputs.left && i < 16; i++) {
		uint64_t node;

		r = wire_get_uint(&outputs, "node", count - 1, &node, f);
		fake.graph[id].made[i] = fake.node[node];
	}
	fake.captures++;
	if (r)
		fake_problem("DEFINE", f);
	wire_put_array(q->w, 2);
	wire_put_uint(q->w, q->id);
	wire_put_uint(q->w, q->seq);
	return r;
}

static inline int fake_replay(struct fake_request *q, struct fault *f) {
	static const struct coded_op nothing = { .op = OP_copy };
	const struct fake_graph *graph = &fake.graph[0];
	struct wire_cursor list;
	uint64_t value;
	unsigned i = 0;
	int r = wire_get_uint(&q->body, "flags", 1, &value, f);

	if (!r)
		r = wire_get_uint(&q->body, "capture", FAKE_GRAPHS - 1, &value, f);
	if (!r)
		graph = &fake.graph[value];
	if (!r)
		r = wire_get_array(&q->body, "inputs", 16, &list, f);
	fake_must(list.left == graph->inputs);
	while (!r && list.left) {
		r = wire_get_uint(&list, "input", UINT64_MAX, &fake.replay_inputs[i++], f);
		fake_must(fake_operand(-1 - (int64_t)fake.replay_inputs[i - 1], 0, f));
	}
	if (!r)
		r = wire_get_array(&q->body, "outputs", 16, &list, f);
	fake_must(list.left == graph->outputs);
	for (i = 0; !r && list.left; i++) {
		struct fake_array a = { .type = graph->made[i] };

		r = wire_get_uint(&list, "output", UINT64_MAX, &value, f);
		fake_compute(&nothing, &a);
		fake_output(value, &a);
	}
	fake_release(&q->body, f);
	if (r)
		fake_problem("REPLAY", f);
	wire_put_array(q->w, 3);
	wire_put_uint(q->w, q->id);
	wire_put_uint(q->w, q->seq);
	fake_put_freed(q->w);
	return r;
}

static inline int fake_forget(struct fake_request *q, struct fault *f) {
	(void)f;
	fake.captures--;
	wire_put_array(q->w, 2);
	wire_put_uint(q->w, q->id);
	wire_put_uint(q->w, q->seq);
	return 0;
}

/* EXPLAIN answers with the number of operations, STATS with a constant. */
static inline int fake_text(struct fake_request *q, struct fault *f) {
	struct wire_cursor ops;
	struct coded_op o;
	char text[64] = "{\"fake\":true}";
	uint32_t count = 0;
	int r = 0;

	if (q->id == REQUEST_EXPLAIN) {
		r = wire_get_array(&q->body, "ops", LIMIT_BATCH_OPS, &ops, f);
		while (!r && ops.left)
			r = fake_op(&ops, count++, NULL, 0, &o, f);
		snprintf(text, sizeof text, "{\"operations\":%u}", count);
	}
	wire_put_array(q->w, 2);
	wire_put_uint(q->w, q->id);
	wire_put_text(q->w, text);
	return r;
}

/* As EXPLAIN, and of two operations: in one kernel where the second is elementwise. */
static inline int fake_can_fuse(struct fake_request *q, struct fault *f) {
	uint8_t op[LIMIT_BATCH_OPS] = { 0 };
	struct wire_cursor ops, outputs;
	struct coded_op o;
	uint32_t count = 0;
	uint64_t first, second = 0;
	int r = wire_get_array(&q->body, "ops", LIMIT_BATCH_OPS, &ops, f);

	while (!r && ops.left) {
		r = fake_op(&ops, count, NULL, 0, &o, f);
		op[count++] = (uint8_t)o.op;
	}
	if (!r)
		r = wire_get_array(&q->body, "outputs", LIMIT_BATCH_OPS, &outputs, f);
	while (!r && outputs.left)
		r = wire_get_uint(&outputs, "output", LIMIT_BATCH_OPS - 1, &first, f);
	if (!r)
		r = wire_get_uint(&q->body, "first", LIMIT_BATCH_OPS - 1, &first, f);
	if (!r)
		r = wire_get_uint(&q->body, "second", LIMIT_BATCH_OPS - 1, &second, f);
	wire_put_array(q->w, 3);
	wire_put_uint(q->w, q->id);
	wire_put_bool(q->w, !r && op_is_elementwise(op_info(op[second])));
	wire_put_text(q->w, "because the fake says so");
	return r;
}

static inline int fake_configure(struct fake_request *q, struct fault *f) {
	const char *name, *value;
	size_t ns, vs;
	int r = wire_get_text(&q->body, "name", 100, &name, &ns, f);

	if (!r)
		r = wire_get_text(&q->body, "value", 100, &value, &vs, f);
	if (!r && strncmp(name, "fusion.", 7))
		return fault_set(f, FAULT_ARGUMENT, "there is no setting %.*s", (int)ns, name);
	wire_put_array(q->w, 1);
	wire_put_uint(q->w, q->id);
	return r;
}

/* [scope, signature, text] */
static inline int fake_pattern(struct fake_request *q, struct fault *f) {
	const char *signature, *text, *end;
	size_t size, text_size;
	uint64_t scope;
	int r = wire_get_uint(&q->body, "scope", 1, &scope, f);

	if (!r)
		r = wire_get_text(&q->body, "signature", 100, &signature, &size, f);
	if (!r)
		r = wire_get_text(&q->body, "text", 100, &text, &text_size, f);
	if (r)
		return r;
	if (*fake.pattern)
		return fault_set(f, FAULT_ARGUMENT, "%s: it is defined already", fake.pattern);
	/* What comes from the wire ends with no 0. */
	end = memchr(signature, '(', size);
	snprintf(fake.pattern, sizeof fake.pattern, "%.*s", (int)(end ? (size_t)(end - signature) : size), signature);
	wire_put_array(q->w, 1);
	wire_put_uint(q->w, q->id);
	return 0;
}

/* [scope, name] */
static inline int fake_forget_pattern(struct fake_request *q, struct fault *f) {
	const char *name;
	uint64_t scope;
	size_t size;
	int r = wire_get_uint(&q->body, "scope", 1, &scope, f);

	if (!r)
		r = wire_get_text(&q->body, "name", 100, &name, &size, f);
	if (r)
		return r;
	if (size != strlen(fake.pattern) || memcmp(name, fake.pattern, size) != 0)
		return fault_set(f, FAULT_ARGUMENT, "%.*s: there is no such pattern", (int)size, name);
	*fake.pattern = 0;
	wire_put_array(q->w, 1);
	wire_put_uint(q->w, q->id);
	return 0;
}

/* The row of the one with a body, whatever it is called. */
static inline int fake_own(struct fault *f) {
	static const struct own_facts facts = { .name = "soft", .operands = "x, t", .arity = 2, .types = OP_TYPES_REAL,
		.body = { [DTYPE_KIND_REAL] = "return x;" } };
	int r = own_add(&facts, &fake.own, f);

	if (!r)
		own_set_state(fake.own, OWN_CALLABLE);
	return r;
}

/*
 * Operations of the administrator: soft(x, t) and firm(x, t) with bodies, which have one number as if each were
 * of a daemon of its own, and swish3(x), an expression.
 */
static inline int fake_operation(struct fake_request *q, struct fault *f) {
	static const struct {
		const char *name, *signature, *text;
		uint64_t identity;
	} known[] = { { "soft", "soft(x, t)", "", 1234 }, { "firm", "firm(x, t)", "", 1235 },
		{ "swish3", "swish3(x)", "x * sigmoid(3 * x)", 0 } };
	unsigned i = 0;
	const char *name;
	size_t size;
	int r = wire_get_text(&q->body, "name", 100, &name, &size, f);

	if (!r)
		r = fake_own(f);
	if (r)
		return r;
	while (i < sizeof known / sizeof *known && strncmp(name, known[i].name, size) != 0)
		i++;
	if (i == sizeof known / sizeof *known)
		return fault_set(f, FAULT_OPERATION, "%.*s: there is no such operation", (int)size, name);
	fake.asked++;
	wire_put_array(q->w, 9);
	wire_put_uint(q->w, q->id);
	wire_put_text(q->w, known[i].signature);
	wire_put_text(q->w, known[i].text);
	wire_put_array(q->w, 0);
	wire_put_uint(q->w, known[i].identity ? fake.own : 0);
	wire_put_uint(q->w, known[i].identity);
	wire_put_uint(q->w, OP_TYPES_REAL);
	wire_put_uint(q->w, OP_RESULT_SAME);
	wire_put_uint(q->w, 0);
	return 0;
}

static int (*const fake_functions[FAKE_REQUESTS])(struct fake_request *q, struct fault *f) = {
	[REQUEST_SUBMIT] = fake_submit,
	[REQUEST_WAIT] = fake_wait,
	[REQUEST_READ] = fake_read,
	[REQUEST_MAP] = fake_read,
	[REQUEST_UNMAP] = fake_unmap,
	[REQUEST_DEFINE] = fake_define,
	[REQUEST_REPLAY] = fake_replay,
	[REQUEST_FORGET] = fake_forget,
	[REQUEST_EXPLAIN] = fake_text,
	[REQUEST_STATS] = fake_text,
	[REQUEST_MADE] = fake_text,
	[REQUEST_CAN_FUSE] = fake_can_fuse,
	[REQUEST_CONFIGURE] = fake_configure,
	[REQUEST_EXPORT] = fake_export,
	[REQUEST_IMPORT] = fake_import,
	[REQUEST_REVOKE] = fake_revoke,
	[REQUEST_PATTERN] = fake_pattern,
	[REQUEST_FORGET_PATTERN] = fake_forget_pattern,
	[REQUEST_OPERATION] = fake_operation,
};

static inline bool fake_numbered(unsigned id) {
	return id == REQUEST_SUBMIT || id == REQUEST_UNMAP || id == REQUEST_DEFINE || id == REQUEST_REPLAY ||
	       id == REQUEST_FORGET;
}

/* After the batch that it names. */
static inline bool fake_follows(unsigned id) {
	return id <= REQUEST_MAP || id == REQUEST_EXPORT || id == REQUEST_IMPORT;
}

static inline bool fake_turn(const struct fake_request *q) {
	if (atomic_load(&fake.paused) && q->id != REQUEST_CONFIGURE)
		return false;
	if (fake_numbered(q->id))
		return q->seq == fake.next;
	return !fake_follows(q->id) || q->seq < fake.next;
}

/* Is this request, or packet of the door, the one that is held? */
static inline bool fake_holds(void) {
	if (!fake.hold_at || ++fake.met != fake.hold_at)
		return false;
	atomic_store(&fake.holding, true);
	return true;
}

/* Waits until it is the request's turn, then serves it. */
static inline void fake_serve(const void *bytes, size_t size, struct wire_writer *w) {
	struct fault f = { 0 };
	struct wire_reader reader;
	struct fake_request q = { .w = w, .node = -1 };
	uint64_t id = 0, session;
	const void *secret;
	bool held;
	int r;

	if (wire_open(&reader, bytes, size, &f)) {
		fake_problem("frame", &f);
		return;
	}
	q.body = wire_root(&reader);
	r = wire_get_uint(&q.body, "id", FAKE_REQUESTS - 1, &id, &f);
	q.id = (unsigned)id;
	if (!r)
		r = wire_get_uint(&q.body, "session", 7, &session, &f);
	if (!r)
		r = wire_get_bin(&q.body, "secret", LIMIT_SECRET_BYTES, &secret, &f);
	if (!r && (fake_numbered(q.id) || fake_follows(q.id)))
		r = wire_get_uint(&q.body, "seq", INT64_MAX, &q.seq, &f);
	pthread_mutex_lock(&fake.lock);
	fake.requests[q.id]++;
	fake.bytes += size;
	if (q.id == REQUEST_SUBMIT)
		fake.submit_bytes += size;
	if (++fake.unanswered > fake.unanswered_most)
		fake.unanswered_most = fake.unanswered;
	held = fake_holds();
	while (!r && !atomic_load(&fake.stopping) && !atomic_load(&fake.gone) && ((held && atomic_load(&fake.holding)) || !fake_turn(&q)))
		pthread_cond_wait(&fake.changed, &fake.lock);
	if (atomic_load(&fake.stopping) || atomic_load(&fake.gone))
		r = fault_set(&f, FAULT_CONNECT, "the fake ends");
	else if (r)
		fake_problem("head", &f);
	else
		r = fake_functions[q.id] ? fake_functions[q.id](&q, &f)
					 : fault_set(&f, FAULT_PROTOCOL, "the fake does not serve %u", q.id);
	if (r > 0) {
		wire_writer_clear(w);
		wire_put_array(w, q.node < 0 ? 3 : 5);
		wire_put_uint(w, MESSAGE_FAULT);
		wire_put_int(w, f.code);
		wire_put_text(w, f.text);
		if (q.node >= 0) {
			wire_put_uint(w, q.seq);
			wire_put_int(w, q.node);
		}
	}
	if (fake_numbered(q.id))
		fake.next++;
	fake.unanswered--;
	pthread_cond_broadcast(&fake.changed);
	pthread_mutex_unlock(&fake.lock);
	wire_close(&reader);
}

/* ---- threads ---- */

static inline void *fake_work(void *user) {
	unsigned me = (unsigned)(uintptr_t)user;
	nng_aio *aio = fake.aio[me];
	struct wire_writer w;
	nng_msg *m;

	wire_writer_init(&w);
	while (!atomic_load(&fake.stopping)) {
		nng_ctx_recv(fake.context[me], aio);
		nng_aio_wait(aio);
		if (nng_aio_result(aio))
			continue;
		m = nng_aio_get_msg(aio);
		pthread_mutex_lock(&fake.lock);
		fake.by_nng++;
		pthread_mutex_unlock(&fake.lock);
		wire_writer_clear(&w);
		fake_serve(nng_msg_body(m), nng_msg_len(m), &w);
		nng_msg_clear(m);
		nng_msg_append(m, w.buffer.data, w.buffer.size);
		nng_aio_set_msg(aio, m);
		nng_ctx_send(fake.context[me], aio);
		nng_aio_wait(aio);
		if (nng_aio_result(aio))
			nng_msg_free(m);
	}
	wire_writer_free(&w);
	return NULL;
}

static inline bool fake_has_rings(void) {
	const char *transport = getenv("FUSIOND_FUSION_TRANSPORT");

	/* ThreadSanitizer does not see one side of a ring in the other's memory, so not that a test reads `fake` after what it was answered. */
#ifdef __SANITIZE_THREAD__
	return false;
#endif
	return !transport || strcmp(transport, "nng") != 0;
}

static inline int fake_hello(struct wire_cursor *c, struct wire_writer *w, int fd[PACKET_PAIR], struct fault *f) {
	static const char secret[LIMIT_SECRET_BYTES] = "fifteen letters";
	struct wire_cursor options;
	uint8_t operations[MESSAGE_OPERATIONS];
	struct message_versions versions;
	const char *name, *text;
	uint64_t features;
	size_t size;
	int r = message_get_versions(c, &versions, f);

	if (!r)
		r = wire_get_uint(c, "features", UINT32_MAX, &features, f);
	if (!r)
		r = wire_get_text(c, "name", 128, &name, &size, f);
	if (!r)
		r = wire_get_map(c, "options", 16, &options, f);
	*fake.options = '\0';
	while (!r && options.left) {
		r = wire_get_text(&options, "option", 100, &text, &size, f);
		strncat(fake.options, text, size);
		if (!r)
			r = wire_get_text(&options, "value", 100, &text, &size, f);
		strcat(fake.options, "=");
		strncat(fake.options, text, size);
	}
	if (!r && features & FEATURE_RING && fake_has_rings())
		fake_must(!served_add(fd));
	fake.hellos++;
	fake.next = 1;
	fake.live = 0;
	memset(fake.array, 0, sizeof fake.array);
	memset(fake.token, 0, sizeof fake.token);
	fake.tokens = fake.mapped = fake.freed_count = 0;
	message_operations(operations);
	if (fake.lacks_op != FAKE_NONE)
		operations[fake.lacks_op / 8] &= (uint8_t)~(1 << fake.lacks_op % 8);
	wire_put_array(w, 11);
	wire_put_uint(w, DOOR_HELLO);
	wire_put_uint(w, fake.version);
	wire_put_uint(w, fake.features | (fd[0] >= 0 ? FEATURE_RING : 0));
	wire_put_uint(w, 7);
	wire_put_bin(w, secret, sizeof secret);
	wire_put_text(w, fake.url);
	wire_put_text(w, "fake device");
	wire_put_uint(w, 0);
	wire_put_uint(w, 1);
	wire_put_text(w, "0.0.1");
	wire_put_bin(w, operations, sizeof operations);
	return r;
}

static inline int fake_arena_request(
	unsigned id, struct wire_cursor *c, struct wire_writer *w, int *fdp, struct fault *f) {
	uint64_t number;
	struct fake_arena *a;
	int r = wire_get_uint(c, "number", INT64_MAX, &number, f);

	if (!r && id == DOOR_ARENA_NEW) {
		if (fake.refuse_arenas)
			return fault_set(f, FAULT_MEMORY, "the fake has no memory left");
		fake_must(fake.arenas < FAKE_ARENAS / 2 - 1);
		fake_must(!fake_arena_new(++fake.arenas, number));
		number = fake.arenas;
	}
	a = fake_arena((uint32_t)number);
	*fdp = a->fd;
	wire_put_array(w, 3);
	wire_put_uint(w, id);
	wire_put_uint(w, number);
	wire_put_uint(w, a->bytes);
	return r;
}

static inline void fake_door_packet(int socket, const char *bytes, size_t size) {
	struct wire_reader reader;
	struct wire_writer w;
	struct wire_cursor c;
	struct fault f = { 0 };
	uint64_t id;
	int fd[PACKET_PAIR] = { -1, -1 }, arena = -1, r = wire_open(&reader, bytes, size, &f);

	if (r) {
		fake_problem("packet", &f);
		return;
	}
	c = wire_root(&reader);
	wire_writer_init(&w);
	pthread_mutex_lock(&fake.lock);
	r = wire_get_uint(&c, "id", DOOR_STATUS, &id, &f);
	fake.packets++;
	if (fake_holds())
		while (atomic_load(&fake.holding) && !atomic_load(&fake.stopping) && !atomic_load(&fake.gone))
			pthread_cond_wait(&fake.changed, &fake.lock);
	if (!r)
		r = id == DOOR_HELLO ? fake_hello(&c, &w, fd, &f) : fake_arena_request((unsigned)id, &c, &w, &arena, &f);
	if (r) {
		wire_writer_clear(&w);
		wire_put_fault(&w, &f);
	}
	pthread_mutex_unlock(&fake.lock);
	if (fd[0] >= 0)
		r = packet_send_pair(socket, w.buffer.data, w.buffer.size, fd, MSG_NOSIGNAL);
	else
		r = packet_send(socket, w.buffer.data, w.buffer.size, arena, MSG_NOSIGNAL);
	/* Who ran out of time has gone. */
	fake_must(!r || r == -EPIPE || r == -ECONNRESET);
	for (int i = 0; i < PACKET_PAIR; i++)
		if (fd[i] >= 0)
			close(fd[i]);
	wire_writer_free(&w);
	wire_close(&reader);
}

static inline void *fake_door(void *user) {
	struct pollfd p[16] = { { .fd = fake.listener, .events = POLLIN } };
	static char bytes[8192];
	int count = 1;

	(void)user;
	while (!atomic_load(&fake.stopping)) {
		poll(p, (nfds_t)count, 20);
		for (int i = count - 1; i > 0; i--) {
			int passed = -1;
			ssize_t n;

			if (!p[i].revents && !atomic_load(&fake.gone))
				continue;
			n = atomic_load(&fake.gone) ? 0 : packet_receive(p[i].fd, bytes, sizeof bytes, &passed, 0);
			if (n > 0) {
				fake_door_packet(p[i].fd, bytes, (size_t)n);
				continue;
			}
			close(p[i].fd);
			p[i] = p[--count];
		}
		if (p[0].revents && count < 16)
			p[count++] =
				(struct pollfd){ .fd = accept(fake.listener, NULL, NULL), .events = POLLIN };
		pthread_mutex_lock(&fake.lock);
		fake.doors_open = (unsigned)count - 1;
		pthread_mutex_unlock(&fake.lock);
	}
	for (int i = 1; i < count; i++)
		close(p[i].fd);
	return NULL;
}

static inline void fake_start(void) {
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const char *tmp = getenv("TMPDIR");

	memset(&fake, 0, sizeof fake);
	pthread_mutex_init(&fake.lock, NULL);
	pthread_cond_init(&fake.changed, NULL);
	fake.next = 1;
	fake.version = PROTOCOL_VERSION;
	fake.features = FEATURES_ALL;
	fake.lacks_op = fake.refuse_op = fake.fault_op = fake.nan_op = FAKE_NONE;
	snprintf(fake.folder, sizeof fake.folder, "%.40s/fake-XXXXXX", tmp ? tmp : "/tmp");
	fake_must(mkdtemp(fake.folder));
	snprintf(fake.door, sizeof fake.door, "%s/door", fake.folder);
	snprintf(fake.url, sizeof fake.url, "ipc://%s/ops", fake.folder);
	strcpy(address.sun_path, fake.door);
	fake.listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	fake_must(!bind(fake.listener, (struct sockaddr *)&address, sizeof address));
	fake_must(!listen(fake.listener, 8));
	served_start(fake_serve);
	fake_must(!nng_rep0_open(&fake.socket));
	fake_must(!nng_listen(fake.socket, fake.url, NULL, 0));
	pthread_create(&fake.door_thread, NULL, fake_door, NULL);
	for (uintptr_t i = 0; i < FAKE_WORKERS; i++) {
		fake_must(!nng_ctx_open(&fake.context[i], fake.socket));
		fake_must(!nng_aio_alloc(&fake.aio[i], NULL, NULL));
		pthread_create(&fake.worker[i], NULL, fake_work, (void *)i);
	}
}

/* As a daemon that is killed: every connection ends, and what was asked is not answered with anything else. */
static inline void fake_goes(void) {
	pthread_mutex_lock(&fake.lock);
	atomic_store(&fake.gone, true);
	pthread_cond_broadcast(&fake.changed);
	pthread_mutex_unlock(&fake.lock);
}

/* How many requests of a kind have come, while more may come. */
static inline unsigned fake_requests(unsigned id) {
	unsigned count;

	pthread_mutex_lock(&fake.lock);
	count = fake.requests[id];
	pthread_mutex_unlock(&fake.lock);
	return count;
}

static inline void fake_pause(bool paused) {
	pthread_mutex_lock(&fake.lock);
	atomic_store(&fake.paused, paused);
	pthread_cond_broadcast(&fake.changed);
	pthread_mutex_unlock(&fake.lock);
}

/* Of the requests that come, and packets of the door, the nth is not answered, and what has to follow it not either, until fake_let_go(). */
static inline void fake_hold(unsigned nth) {
	pthread_mutex_lock(&fake.lock);
	fake.hold_at = nth;
	fake.met = 0;
	pthread_mutex_unlock(&fake.lock);
}

static inline unsigned fake_unanswered(void) {
	unsigned count;

	pthread_mutex_lock(&fake.lock);
	count = fake.unanswered;
	pthread_mutex_unlock(&fake.lock);
	return count;
}

/* Is one held? None is from now on. */
static inline bool fake_held(void) {
	bool held;

	pthread_mutex_lock(&fake.lock);
	held = atomic_load(&fake.holding);
	fake.hold_at = 0;
	pthread_mutex_unlock(&fake.lock);
	return held;
}

static inline void fake_let_go(void) {
	pthread_mutex_lock(&fake.lock);
	fake.hold_at = 0;
	atomic_store(&fake.holding, false);
	pthread_cond_broadcast(&fake.changed);
	pthread_mutex_unlock(&fake.lock);
}

static inline void fake_stop(void) {
	pthread_mutex_lock(&fake.lock);
	atomic_store(&fake.stopping, true);
	pthread_cond_broadcast(&fake.changed);
	pthread_mutex_unlock(&fake.lock);
	for (int i = 0; i < FAKE_WORKERS; i++) {
		nng_aio_stop(fake.aio[i]);
		pthread_join(fake.worker[i], NULL);
	}
	served_stop();
	nng_close(fake.socket);
	for (int i = 0; i < FAKE_WORKERS; i++)
		nng_aio_free(fake.aio[i]);
	pthread_join(fake.door_thread, NULL);
	close(fake.listener);
	for (unsigned i = 0; i < FAKE_ARENAS; i++) {
		if (!fake.arena[i].base)
			continue;
		munmap(fake.arena[i].base, fake.arena[i].bytes);
		close(fake.arena[i].fd);
		if (fake.arena[i].range)
			range_free_all(fake.arena[i].range);
	}
	unlink(fake.door);
	unlink(fake.url + strlen("ipc://"));
	rmdir(fake.folder);
}
