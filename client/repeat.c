/*
 * Batches that may have to be sent twice. See repeat.h for the contract.
 *
 * What a frame reads, makes and loads is read from it when it is to go again, not when it is written: that is rare, and this is not. Until it has its new
 * number a batch that goes again has one from REPEAT_WAITING on, above all that was ever sent.
 */
#include "repeat.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "protocol/codec.h"
#include "protocol/variable.h"
#include "capture.h"
#include "context.h"
#include "handle.h"
#include "resume.h"
#include "sent.h"

enum {
	/* Some seconds of frames of 1 KiB at the rate of a training step; a session may have 256 KiB operations queued, 10 MiB of frames, of which most have a recorded graph. */
	REPEAT_BYTES = 4 << 20,
	/* Engines that may have ended while they had a batch, before it is given up: it did not end them, but something does. */
	REPEAT_TRIES = 3,
	/* The same of daemons, which an administrator starts again: a kernel may take longer to build than he takes. */
	REPEAT_RESTARTS = 16,
	/* Clients of an engine that ended do not all come at once. */
	REPEAT_PAUSE_US = 10 * 1000,
};

/* A number that no request has: they are below INT64_MAX, and counted from 1. */
#define REPEAT_WAITING (UINT64_C(1) << 62)
/* Batches that wait together are fewer: the variable is below 2^31, and each takes more than 8 bytes. */
#define REPEAT_ROUND_BITS 28

enum use_kind { USE_READ, USE_MADE, USE_LOAD };

struct use {
	enum use_kind kind;
	uint64_t handle;             /* LOAD: the offset */
	uint32_t arena;
};

struct repeat_frame {
	struct repeat_frame *next;
	uint64_t seq;
	enum message_request kind;
	bool own;
	unsigned ends, restarts;     /* of engines and daemons that had it */
	uint64_t settings;
	struct capture_text *text;
	struct use *use;             /* once it goes again */
	uint32_t uses, room;
	size_t body, size;           /* where the fields behind the number begin */
	unsigned char bytes[];
};

/* ---- keeping ---- */

void repeats_init(struct repeats *r) {
	*r = (struct repeats){ .limit = variable_number("FUSION_REPEAT_BYTES", REPEAT_BYTES) };
}

static size_t bytes_of(const struct repeat_frame *n) {
	return sizeof *n + n->size;
}

/* Takes it out; before: the one before it, or NULL. */
static void drop_after(struct repeats *r, struct repeat_frame *before) {
	struct repeat_frame *n = before ? before->next : r->first;

	if (before)
		before->next = n->next;
	else
		r->first = n->next;
	if (r->last == n)
		r->last = before;
	r->bytes -= bytes_of(n);
	capture_text_unref(n->text);
	free(n->use);
	free(n);
}

void repeats_free(struct repeats *r) {
	while (r->first)
		drop_after(r, NULL);
}

static void miss(struct repeats *r, uint64_t seq) {
	if (seq > r->missing && seq < REPEAT_WAITING)
		r->missing = seq;
}

static void drop_oldest(struct repeats *r) {
	miss(r, r->first->seq);
	drop_after(r, NULL);
}

void repeat_note(struct fusion_context *c, const struct request *q, size_t body, bool own, struct capture_text *text) {
	const struct wire_writer *w = &c->stream.writer;
	struct repeats *r = &c->repeats;
	struct repeat_frame *n;

	if (!r->limit || !(c->door.features & FEATURE_RESUME))
		return;
	while (r->first && r->bytes + sizeof *n + w->buffer.size > r->limit)
		drop_oldest(r);
	n = !wire_finish(w) && sizeof *n + w->buffer.size <= r->limit ? malloc(sizeof *n + w->buffer.size) : NULL;
	if (!n) {
		repeats_free(r);
		miss(r, q->seq);
		return;
	}
	*n = (struct repeat_frame){ .seq = q->seq, .kind = q->kind, .own = own, .settings = r->settings, .text = capture_text_ref(text), .body = body,
		.size = w->buffer.size };
	memcpy(n->bytes, w->buffer.data, n->size);
	if (r->last)
		r->last->next = n;
	else
		r->first = n;
	r->last = n;
	r->bytes += bytes_of(n);
}

void repeat_ran(struct repeats *r, uint64_t seq) {
	while (r->first && r->first->seq <= seq)
		drop_after(r, NULL);
}

void repeat_refused(struct repeats *r, uint64_t seq) {
	struct repeat_frame *before = NULL;

	for (struct repeat_frame *n = r->first; n && n->seq <= seq; before = n, n = n->next) {
		if (n->seq != seq)
			continue;
		drop_after(r, before);
		return;
	}
}

void repeat_forget(struct fusion_context *c) {
	repeats_free(&c->repeats);
	miss(&c->repeats, c->stream.seq);
}

void repeat_settings_changed(struct fusion_context *c) {
	c->repeats.settings++;
}

/* ---- what a frame names ---- */

static int add_use(struct repeat_frame *n, enum use_kind kind, uint64_t handle, uint32_t arena) {
	uint32_t room = n->room ? 2 * n->room : 16;
	struct use *use;

	if (n->uses == n->room) {
		use = realloc(n->use, room * sizeof *use);
		if (!use)
			return -ENOMEM;
		n->use = use;
		n->room = room;
	}
	n->use[n->uses++] = (struct use){ kind, handle, arena };
	return 0;
}

/* `every` fields make one entry, of which the last is the handle. */
static int read_handles(struct repeat_frame *n, struct wire_cursor *c, unsigned every, enum use_kind kind, struct fault *f) {
	struct wire_cursor list;
	uint64_t handle = 0;
	int r = wire_get_array(c, "handles", LIMIT_FRAME_BYTES, &list, f);

	while (!r && list.left) {
		for (unsigned i = 0; !r && i < every; i++)
			r = wire_get_uint(&list, "handle", INT64_MAX, &handle, f);
		if (!r)
			r = add_use(n, kind, handle, 0);
	}
	return r;
}

static int read_op(struct repeat_frame *n, struct wire_cursor *ops, uint32_t position, struct fault *f) {
	struct coded_op o;
	int r = codec_get_op(ops, position, &o, f);

	for (unsigned i = 0; !r && i < o.arity; i++)
		if (o.in[i] < 0)
			r = add_use(n, USE_READ, (uint64_t)(-1 - o.in[i]), 0);
	if (!r && o.op == OP_load)
		r = add_use(n, USE_LOAD, o.attr.offset, o.attr.arena);
	return r;
}

static int read_ops(struct repeat_frame *n, struct wire_cursor *c, struct fault *f) {
	struct wire_cursor ops;
	uint32_t position = 0;
	int r = wire_get_array(c, "ops", LIMIT_BATCH_OPS, &ops, f);

	while (!r && ops.left)
		r = read_op(n, &ops, position++, f);
	return r;
}

/* Behind the message, the session, the secret and the number: as messages.def says of SUBMIT and REPLAY. */
static int read_fields(struct repeat_frame *n, struct wire_cursor *c, struct fault *f) {
	const void *secret;
	uint64_t number;
	int r = 0;

	for (unsigned i = 0; !r && i < 2; i++)
		r = wire_get_uint(c, "head", UINT64_MAX, &number, f);
	if (!r)
		r = wire_get_bin(c, "secret", LIMIT_SECRET_BYTES, &secret, f);
	for (unsigned i = 0; !r && i < (n->kind == REQUEST_REPLAY ? 3U : 2U); i++)
		r = wire_get_uint(c, "number", UINT64_MAX, &number, f);
	if (!r)
		r = n->kind == REQUEST_REPLAY ? read_handles(n, c, 1, USE_READ, f) : read_ops(n, c, f);
	if (!r)
		r = read_handles(n, c, n->kind == REQUEST_REPLAY ? 1 : 2, USE_MADE, f);
	return r ? r : read_handles(n, c, 1, USE_READ, f);
}

static int read_uses(struct repeat_frame *n) {
	struct wire_reader reader;
	struct wire_cursor c;
	struct fault f;
	int r = n->use ? 0 : wire_open(&reader, n->bytes, n->size, &f);

	if (r || n->use)
		return r;
	c = wire_root(&reader);
	r = read_fields(n, &c, &f);
	wire_close(&reader);
	return r;
}

/* ---- which go again ---- */

static uint32_t slot_of(uint64_t handle) {
	return (uint32_t)handle;
}

/* What the session holds after the last batch that was begun. NULL: no memory. */
static uint64_t *handles_held(const struct fusion_context *c, uint64_t begun) {
	uint64_t *at = calloc(c->slots->count + 1U, sizeof *at);

	for (uint32_t i = 0; at && i < c->slots->count; i++) {
		const struct value *v = slots_value(c->slots, i);

		if (v && v->seq <= begun && !v->forgone)
			at[i] = v->handle;
	}
	return at;
}

/* A slot that something else has by now is of no use to what read it before. */
static bool add_reads(const struct repeat_frame *n, uint32_t slots, const uint64_t *made, uint64_t *at) {
	for (uint32_t i = 0; i < n->uses; i++) {
		uint64_t handle = n->use[i].handle;

		if (n->use[i].kind != USE_READ)
			continue;
		if (slot_of(handle) >= slots)
			return false;
		if (made[slot_of(handle)] == handle)
			continue;
		if (at[slot_of(handle)] && at[slot_of(handle)] != handle)
			return false;
		at[slot_of(handle)] = handle;
	}
	return true;
}

static void add_made(const struct repeat_frame *n, uint32_t slots, uint64_t *made) {
	for (uint32_t i = 0; i < n->uses; i++)
		if (n->use[i].kind == USE_MADE && slot_of(n->use[i].handle) < slots)
			made[slot_of(n->use[i].handle)] = n->use[i].handle;
}

static bool may_go(const struct fusion_context *c, struct repeat_frame *n) {
	return !n->own && n->ends < REPEAT_TRIES && n->restarts < REPEAT_RESTARTS && n->settings == c->repeats.settings && (n->kind != REQUEST_REPLAY || n->text) && !read_uses(n);
}

/* The first of those that do not go, or NULL; drops what was begun. */
static struct repeat_frame **first_to_stay(struct fusion_context *c, const struct door_resumed *resumed, uint64_t *at, uint64_t *made) {
	struct repeat_frame **link = &c->repeats.first;
	bool all = resumed->repeat && resumed->completed >= resumed->accepted && c->repeats.missing <= resumed->accepted;

	while (all && *link && may_go(c, *link) && add_reads(*link, c->slots->count, made, at)) {
		add_made(*link, c->slots->count, made);
		link = &(*link)->next;
	}
	return link;
}

static void drop_from(struct repeats *r, struct repeat_frame **link) {
	struct repeat_frame *before = NULL;

	for (struct repeat_frame *n = r->first; n && n != *link; n = n->next)
		before = n;
	while (before ? before->next : r->first)
		drop_after(r, before);
}

/* By the number that it was sent under. */
static struct repeat_frame *frame_of(const struct repeats *r, uint64_t seq) {
	struct repeat_frame *n = r->first;

	while (n && n->seq != seq)
		n = n->next;
	return n;
}

/* What was made by a batch that was not begun: it waits for its new number, or fails. */
static void settle_values(struct fusion_context *c, uint64_t begun, const struct fault *why) {
	for (uint32_t i = 0; i < c->slots->count; i++) {
		struct value *v = slots_value(c->slots, i);

		if (!v || v->seq <= begun || frame_of(&c->repeats, v->seq))
			continue;
		value_ref(v);
		if (v->state != VALUE_FAILED)
			value_lose(c, v, why);
		slots_forgo(c->slots, v->handle);
		v->handle = 0;
		value_drop(c, v);
	}
}

struct names {
	uint64_t *handle;            /* sorted */
	size_t count;
};

static int by_number(const void *a, const void *b) {
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static bool is_named(void *user, uint64_t handle) {
	const struct names *n = user;

	return n->count && bsearch(&handle, n->handle, n->count, sizeof handle, by_number);
}

/* Handles that were let go, and nobody was told: of what goes again they are said later, of all else the daemon knows by what it is not told to keep. */
static int keep_released(struct fusion_context *c) {
	struct names names = { NULL, 0 };
	size_t count = 0;

	for (const struct repeat_frame *n = c->repeats.first; n; n = n->next)
		count += n->uses;
	names.handle = malloc((count + 1) * sizeof *names.handle);
	if (!names.handle)
		return -ENOMEM;
	for (const struct repeat_frame *n = c->repeats.first; n; n = n->next)
		for (uint32_t i = 0; i < n->uses; i++)
			if (n->use[i].kind != USE_LOAD)
				names.handle[names.count++] = n->use[i].handle;
	qsort(names.handle, names.count, sizeof *names.handle, by_number);
	slots_keep_released(c->slots, is_named, &names);
	free(names.handle);
	return 0;
}

/* Renames a batch, the table of its places, and what it made. */
static void renumber(struct fusion_context *c, struct repeat_frame *n, uint64_t seq) {
	sent_renumber(c->sent, n->seq, seq);
	for (uint32_t i = 0; i < n->uses; i++) {
		struct value *v = n->use[i].kind == USE_MADE ? slots_value(c->slots, slot_of(n->use[i].handle)) : NULL;

		if (v && v->handle == n->use[i].handle)
			v->seq = seq;
	}
	n->seq = seq;
}

static bool stays(void *user, uint64_t seq) {
	return frame_of(user, seq) != NULL;
}

static void wait_for_numbers(struct fusion_context *c, bool returned) {
	/* Those of a time before, which was not the last, are below. */
	uint64_t seq = REPEAT_WAITING + (++c->repeats.rounds << REPEAT_ROUND_BITS);

	for (struct repeat_frame *n = c->repeats.first; n; n = n->next) {
		n->ends += !returned;
		n->restarts += returned;
		renumber(c, n, seq++);
	}
}

int repeat_choose(struct fusion_context *c, const struct door_resumed *resumed, const struct fault *why) {
	struct repeats *r = &c->repeats;
	uint64_t *at = handles_held(c, resumed->accepted), *made = calloc(c->slots->count + 1U, sizeof *made);

	repeat_ran(r, resumed->accepted);
	if (at && made)
		drop_from(r, first_to_stay(c, resumed, at, made));
	else
		repeats_free(r);
	free(at);
	free(made);
	r->missing = 0;
	sent_resumed(c->sent, resumed->accepted, stays, r);
	settle_values(c, resumed->accepted, why);
	wait_for_numbers(c, resumed->returned);
	return keep_released(c);
}

uint64_t *repeat_handles(const struct fusion_context *c) {
	uint64_t *at = handles_held(c, REPEAT_WAITING - 1), *made = calloc(c->slots->count + 1U, sizeof *made);

	for (const struct repeat_frame *n = c->repeats.first; at && made && n; n = n->next) {
		if (!add_reads(n, c->slots->count, made, at))
			break;
		add_made(n, c->slots->count, made);
	}
	free(made);
	return at;
}

void repeat_loads(const struct fusion_context *c, void (*loads)(void *user, uint32_t arena, uint64_t offset), void *user) {
	for (const struct repeat_frame *n = c->repeats.first; n; n = n->next)
		for (uint32_t i = 0; i < n->uses; i++)
			if (n->use[i].kind == USE_LOAD)
				loads(user, n->use[i].arena, n->use[i].handle);
}

/* ---- sending ---- */

static void pause_a_little(void) {
	uint32_t random = 0;

	if (getrandom(&random, sizeof random, GRND_NONBLOCK) < 0)
		random = (uint32_t)getpid();
	usleep(random % REPEAT_PAUSE_US);
}

static int send_one(struct fusion_context *c, struct repeat_frame *n, struct fault *f) {
	struct wire_writer *w;
	struct request *q;
	int r = n->text ? capture_text_tell(c, n->text, f) : 0;

	if (r || c->stream.adrift)
		return r;
	r = stream_room(c, &q, f);
	if (r)
		return r;
	w = stream_begin_next(c, q, n->kind, n->kind == REQUEST_REPLAY ? 6 : 5);
	renumber(c, n, q->seq);
	/* Flags are the first field of either, and a number of one byte. */
	if (c->door.features & FEATURE_REPEAT)
		n->bytes[n->body] |= SUBMIT_REPEATED;
	wire_put_raw(w, n->bytes + n->body, n->size - n->body);
	return stream_send(c, q, NULL, f);
}

/* What it was to release stays in the daemon until the session ends. */
static void give_up_from(struct fusion_context *c, struct repeat_frame *n, const struct fault *why) {
	drop_from(&c->repeats, &n);
	sent_resumed(c->sent, c->stream.seq, stays, &c->repeats);
	settle_values(c, c->stream.seq, why);
}

int repeat_send(struct fusion_context *c, const struct fault *why, struct fault *f) {
	struct repeat_frame *n = c->repeats.first, *next;
	int r = 0;

	if (n)
		pause_a_little();
	for (; n && !c->stream.adrift; n = next) {
		/* It has a number above all that may be told to have run, and stays. */
		next = n->next;
		r = send_one(c, n, f);
		if (r)
			break;
	}
	/* One that has gone, too, is followed by another, where all begins anew. */
	if (!r || c->stream.lost.code || c->stream.adrift)
		return r;
	give_up_from(c, n, why);
	return 0;
}
