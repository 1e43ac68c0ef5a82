/*
 * From a frame to the function that serves it; see request.h.
 *
 * A frame is believed in steps: it must scan, name a session and prove its secret; then its number
 * decides when it runs. A numbered request uses its number up also when it is refused, or later
 * ones would wait for ever.
 */
#include "request.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <utlist.h>

#include "protocol/message.h"
#include "daemon/base/loop.h"
#include "daemon/base/trace.h"
#include "daemon/serve/account.h"
#include "daemon/serve/question.h"
#include "daemon/serve/recurring.h"

enum {
	/* Of a frame, for what surrounds a text. */
	REQUEST_FRAME_SPARE = 64,
};

enum order {
	ORDER_NONE,                  /* runs on arrival */
	ORDER_NUMBERED,              /* runs when all lower numbers have */
	ORDER_AFTER,                 /* runs when the number it names and all lower ones have */
};

static const struct {
	request_function *function;
	enum order order;
	bool queues;                 /* adds operations: held while too many are queued */
	bool again;                  /* request_asked_again(); others may have had an effect that a second one would have, too */
	bool asks;                   /* a question: question.h */
} requests[] = {
	[REQUEST_SUBMIT] = { submit_request, ORDER_NUMBERED, true, true },
	[REQUEST_WAIT] = { wait_request, ORDER_AFTER, false, true },
	[REQUEST_READ] = { read_request, ORDER_AFTER, false, true },
	[REQUEST_MAP] = { map_request, ORDER_AFTER, false, true },
	[REQUEST_UNMAP] = { unmap_request, ORDER_NUMBERED, false, true },
	[REQUEST_DEFINE] = { define_request, ORDER_NUMBERED, false, true },
	[REQUEST_REPLAY] = { replay_request, ORDER_NUMBERED, true, true },
	[REQUEST_FORGET] = { forget_request, ORDER_NUMBERED, false, true },
	[REQUEST_EXPLAIN] = { explain_request, ORDER_NONE, false, .asks = true },
	[REQUEST_MADE] = { made_request, ORDER_NONE, false, .asks = true },
	[REQUEST_STATS] = { stats_request, ORDER_NONE, false },
	[REQUEST_CAN_FUSE] = { can_fuse_request, ORDER_NONE, false, .asks = true },
	[REQUEST_CONFIGURE] = { configure_request, ORDER_NONE, false },
	[REQUEST_EXPORT] = { export_request, ORDER_AFTER, false },
	[REQUEST_IMPORT] = { import_request, ORDER_AFTER, false },
	[REQUEST_REVOKE] = { revoke_request, ORDER_NONE, false },
	[REQUEST_SETTINGS] = { settings_request, ORDER_NONE, false },
	[REQUEST_SET] = { set_request, ORDER_NONE, false },
	[REQUEST_RECENT] = { recent_request, ORDER_NONE, false, .asks = true },
	[REQUEST_OPERATION] = { operation_request, ORDER_NONE, false },
	[REQUEST_OPERATIONS] = { operations_request, ORDER_NONE, false },
	[REQUEST_PATTERN] = { pattern_request, ORDER_NONE, false },
	[REQUEST_FORGET_PATTERN] = { forget_pattern_request, ORDER_NONE, false },
	[REQUEST_PATTERNS] = { patterns_request, ORDER_NONE, false },
	[REQUEST_RESUME] = { resume_request, ORDER_NONE, false },
	[REQUEST_CANCEL] = { cancel_request, ORDER_NONE, false },
	[REQUEST_CLIENTS] = { clients_request, ORDER_NONE, false },
	[REQUEST_KERNELS] = { kernels_request, ORDER_NONE, false },
	[REQUEST_EVENTS] = { events_request, ORDER_NONE, false },
};

enum { REQUESTS = sizeof requests / sizeof *requests };

bool request_asked_again(unsigned id) {
	return requests[id].again;
}

/* ---- answers ---- */

struct wire_writer *request_answer(struct server *v, unsigned id, uint32_t fields) {
	wire_writer_clear(&v->writer);
	wire_put_array(&v->writer, 1 + fields);
	wire_put_uint(&v->writer, id);
	return &v->writer;
}

/* The rest goes with the next answer. */
void request_put_freed(struct session *s, struct wire_writer *w) {
	uint64_t begun = s->freeds ? session_begun(s) : 0;
	uint32_t count = 0;

	while (count < s->freeds && count < SESSION_FREED && s->freed[count].seq <= begun)
		count++;
	wire_put_array(w, 2 * count);
	for (uint32_t i = 0; i < count; i++) {
		wire_put_uint(w, s->freed[i].arena);
		wire_put_uint(w, s->freed[i].offset);
	}
	s->freeds -= count;
	if (count)
		memmove(s->freed, s->freed + count, s->freeds * sizeof *s->freed);
}

static void note_reading(struct server *v, uint64_t session) {
	if (v->catalogue)
		atomic_store_explicit(&v->catalogue->header->reading, session, memory_order_relaxed);
}

/*
 * An answer that could not be written for lack of memory becomes one that always can. Once a client has it, its request is none that is being read: the
 * engine's end is not put down to that.
 */
void request_send(struct server *v, struct transport_request *frame) {
	static const char no_memory[] = "\x93\x00\x06\xb0" "out of memory...";

	note_reading(v, 0);
	if (wire_finish(&v->writer))
		transport_reply(frame, no_memory, sizeof no_memory - 1);
	else
		transport_reply(frame, v->writer.buffer.data, v->writer.buffer.size);
}

int request_send_text(struct request *r, const char *text, struct fault *f) {
	struct server *v = r->session->server;
	size_t size = strlen(text);

	if (size > LIMIT_FRAME_BYTES - REQUEST_FRAME_SPARE)
		return fault_set(f, FAULT_LIMIT,
			"the answer has %zu bytes, more than a message holds; ask without sources", size);
	wire_put_text(request_answer(v, r->id, 1), text);
	request_send(v, r->frame);
	return 0;
}

int request_send_json(struct request *r, const cJSON *json, struct fault *f) {
	char *text = cJSON_PrintUnformatted(json);
	int code = text ? request_send_text(r, text, f) : -ENOMEM;

	cJSON_free(text);
	return code;
}

static void count_fault(struct server *v, struct session *s, int code) {
	if (code < 0 || code >= FAULT_COUNT)
		code = FAULT_INTERNAL;
	if (!s) {
		v->faults[code]++;
		return;
	}
	s->faults[code]++;
	session_count(s, refused, 1);
	if (!s->account)
		return;
	s->account->refused++;
	s->account->limits += code == FAULT_LIMIT || code == FAULT_MEMORY;
}

void request_refuse(struct server *v, struct session *s, struct transport_request *frame,
	const struct fault *f, uint64_t seq, int64_t node) {
	count_fault(v, s, f->code);
	wire_writer_clear(&v->writer);
	wire_put_array(&v->writer, seq ? 5 : 3);
	wire_put_uint(&v->writer, MESSAGE_FAULT);
	wire_put_int(&v->writer, f->code);
	wire_put_text(&v->writer, f->text);
	if (seq) {
		wire_put_uint(&v->writer, seq);
		wire_put_int(&v->writer, node);
	}
	request_send(v, frame);
}

void fault_of_errno(struct fault *f, int error) {
	if (error == -ENOMEM)
		fault_set(f, FAULT_MEMORY, "the daemon is out of memory");
	else
		fault_set(f, FAULT_INTERNAL, "the daemon failed: %s", strerror(-error));
}

/* ---- running ---- */

/* The frame is gone with its answer. */
static void trace_request(const struct session *s, unsigned id, size_t bytes, uint64_t begin_ns) {
	const struct trace_source who = { s->id, s->uid };
	struct trace_event *e;

	/* Who watches does not want to see that he watches. */
	if (id == REQUEST_EVENTS)
		return;
	e = trace_add(TRACE_REQUEST, &who, begin_ns, loop_now_ns());
	e->number[0] = id;
	e->number[1] = bytes;
}

/* False: it has done nothing, and comes again. */
static bool run(struct request *r) {
	uint64_t begin_ns = trace_on ? loop_now_ns() : 0;
	size_t bytes = r->frame->size;
	struct fault f = { 0 };
	int code;

	r->node = -1;
	code = requests[r->id].function(r, &f);
	if (code == -EINPROGRESS)
		return false;
	if (begin_ns)
		trace_request(r->session, r->id, bytes, begin_ns);
	if (code < 0)
		fault_of_errno(&f, code);
	if (code)
		request_refuse(
			r->session->server, r->session, r->frame, &f, r->node < 0 ? 0 : r->seq, r->node);
	return true;
}

/* What waits for builders is looked at again as they end, see server.c. */
static bool may_build(const struct session *s) {
	struct server *v = s->server;

	if (account_may_build(s->account, account_config(s->account, &v->config), loop_now()))
		return true;
	v->waits_for_builds = true;
	return false;
}

static bool has_room(const struct session *s) {
	const struct config *c = account_config(s->account, &s->server->config);

	return may_build(s) && s->queued < c->limits_queued_ops && s->queued_bytes < c->limits_queued_bytes &&
		s->account->queued < c->limits_user_queued_ops;
}

/* Nothing is added to what is being planned, nor changed about it; and of one user one large question is answered at a time. */
static bool waits_for_plan(const struct session *s, unsigned id, bool later) {
	if (later && requests[id].asks && question_waits(s))
		return true;
	return s->planning && (later || requests[id].order == ORDER_NUMBERED);
}

static bool may_run(const struct session *s, unsigned id, uint64_t seq, bool later) {
	if (waits_for_plan(s, id, later))
		return false;
	switch (requests[id].order) {
	case ORDER_NUMBERED:
		if (seq != s->next || (requests[id].queues && drain_leaves(s)))
			return false;
		return !requests[id].queues || has_room(s);
	case ORDER_AFTER:
		return seq < s->next;
	default:
		return true;
	}
}

/* ---- holding ---- */

static int check_number(const struct session *s, const struct request *r, struct fault *f) {
	bool numbered = requests[r->id].order == ORDER_NUMBERED;

	if (numbered && r->seq < s->next)
		return fault_set(f, FAULT_STATE,
			"request %" PRIu64 " was accepted before; the next is %" PRIu64, r->seq, s->next);
	if (r->seq > s->next + SESSION_HELD)
		return fault_set(f, FAULT_PROTOCOL,
			"request %" PRIu64 " is too far ahead; the next is %" PRIu64, r->seq, s->next);
	return 0;
}

static bool is_held(const struct session *s, const struct request *r) {
	const struct held *h;

	if (requests[r->id].order != ORDER_NUMBERED)
		return false;
	DL_FOREACH2(s->held, h, next)
		if (h->seq == r->seq && requests[h->id].order == ORDER_NUMBERED)
			return true;
	return false;
}

static int hold(struct session *s, const struct request *r, struct fault *f) {
	struct held *h;

	if (s->held_count == SESSION_HELD || s->held_bytes + r->frame->size > SESSION_HELD_BYTES)
		return fault_set(f, FAULT_LIMIT, "%u requests of %zu bytes wait for request %" PRIu64
			" already, as many as may", s->held_count, s->held_bytes, s->next);
	h = malloc(sizeof *h);
	if (!h)
		return -ENOMEM;
	*h = (struct held){ .frame = r->frame, .bytes = r->frame->size, .id = r->id, .seq = r->seq, .later = r->later };
	if (!s->held)
		DL_APPEND2(s->server->holding, s, holding_previous, holding_next);
	DL_APPEND2(s->held, h, previous, next);
	s->held_count++;
	s->held_bytes += h->bytes;
	return 0;
}

void request_unhold(struct session *s, struct held *h) {
	DL_DELETE2(s->held, h, previous, next);
	if (!s->held)
		DL_DELETE2(s->server->holding, s, holding_previous, holding_next);
	s->held_count--;
	s->held_bytes -= h->bytes;
	free(h);
}

/* ---- reading ---- */

static struct session *find_session(struct server *v, uint64_t id, const void *secret) {
	struct session *s = session_find(v, id, secret);

	if (s)
		return s;
	control_catch_up(v);
	return session_find(v, id, secret);
}

int request_skip_head(struct wire_cursor *body, struct fault *f) {
	const void *secret;
	uint64_t number;
	int code = wire_get_uint(body, "message", UINT64_MAX, &number, f);

	if (!code)
		code = wire_get_uint(body, "session", UINT64_MAX, &number, f);
	return code ? code : wire_get_bin(body, "secret", LIMIT_SECRET_BYTES, &secret, f);
}

static int read_head(struct server *v, struct request *r, struct fault *f) {
	const void *secret;
	uint64_t id, session;
	int code = wire_get_uint(&r->body, "message", UINT64_MAX, &id, f);

	if (!code && (id >= REQUESTS || !requests[id].function))
		code = fault_set(f, FAULT_PROTOCOL, "there is no message %" PRIu64, id);
	if (!code)
		code = wire_get_uint(&r->body, "session", UINT64_MAX, &session, f);
	if (!code)
		code = wire_get_bin(&r->body, "secret", LIMIT_SECRET_BYTES, &secret, f);
	if (code)
		return code;
	r->id = (unsigned)id;
	r->session = find_session(v, session, secret);
	if (!r->session)
		return fault_set(f, FAULT_CONNECT,
			"there is no session %" PRIu64 " with this secret; it has ended", session);
	transport_known(r->frame, session);
	session_count(r->session, messages, 1);
	if (requests[id].order == ORDER_NONE)
		return 0;
	return wire_get_uint(&r->body, "seq", INT64_MAX, &r->seq, f);
}

/* It has used up no number. */
static void comes_again(struct request *r) {
	struct session *s = r->session;

	r->later = true;
	if (requests[r->id].order == ORDER_NUMBERED)
		s->next = s->running;
	s->running = 0;
}

/* Runs it if its turn has come. True where it was run or refused, false where it must be held. */
static bool try_run(struct request *r) {
	struct session *s = r->session;
	bool done;

	if (!may_run(s, r->id, r->seq, r->later))
		return false;
	if (requests[r->id].order == ORDER_NUMBERED)
		s->running = s->next++;
	note_reading(s->server, s->id);
	done = run(r);
	note_reading(s->server, 0);
	if (!done) {
		comes_again(r);
		return false;
	}
	if (requests[r->id].order != ORDER_NUMBERED)
		return true;
	s->running = 0;
	session_noted(s);
	return true;
}

static int run_or_hold(struct request *r, struct fault *f) {
	struct session *s = r->session;
	int code;

	if (try_run(r)) {
		request_progress(s);
		return 0;
	}
	code = check_number(s, r, f);
	if (!code && is_held(s, r))
		code = fault_set(f, FAULT_STATE, "request %" PRIu64 " came twice", r->seq);
	if (!code)
		code = hold(s, r, f);
	/* One that is not to be answered anyway needs no place. */
	if (code == FAULT_LIMIT && drain_leaves(s) && requests[r->id].again) {
		transport_drop(r->frame);
		return 0;
	}
	/* What waits for room in the queue makes room by running what was gathered. */
	if (!code && r->seq == s->next && s->gathered)
		flush_session(s, FLUSH_OPERATIONS);
	return code;
}

/* A batch that has come before. False: it is to be read as any other. */
static bool run_again(struct server *v, struct transport_request *frame) {
	struct request r = { .frame = frame };

	if (!recurring_read(v, &r))
		return false;
	/* Once it has run, the frame is the transport's. */
	transport_known(frame, r.session->id);
	if (!try_run(&r))
		return false;
	session_count(r.session, messages, 1);
	request_progress(r.session);
	return true;
}

void request_arrived(struct server *v, struct transport_request *frame) {
	struct request r = { .frame = frame };
	struct wire_reader reader;
	struct fault f = { 0 };
	int code;

	if (run_again(v, frame))
		return;
	code = wire_open_in(&reader, &v->memory, frame->bytes, frame->size, &f);

	if (!code) {
		r.body = wire_root(&reader);
		code = read_head(v, &r, &f);
		if (!code)
			code = run_or_hold(&r, &f);
		wire_close(&reader);
	}
	if (code < 0)
		fault_of_errno(&f, code);
	if (code)
		request_refuse(v, r.session, frame, &f, 0, -1);
}

/*
 * A held frame was read before, so it reads again; where memory is short, at the next event. What is to come again keeps its place, so that who walks
 * over all who hold something meets it once.
 */
static bool run_held(struct session *s, struct held *h) {
	struct request r = { .frame = h->frame };
	struct wire_reader reader;
	struct fault f;
	int code = wire_open(&reader, h->frame->bytes, h->frame->size, &f);
	bool ran = false;

	if (code)
		return false;
	r.body = wire_root(&reader);
	code = read_head(s->server, &r, &f);
	s->counters.messages--;          /* counted when it arrived */
	if (!code) {
		r.later = h->later;
		ran = try_run(&r);
		h->later = r.later;
	}
	if (ran)
		request_unhold(s, h);
	wire_close(&reader);
	return ran;
}

static struct held *find_runnable(const struct session *s) {
	struct held *h = s->held;

	while (h && !may_run(s, h->id, h->seq, h->later))
		h = h->next;
	return h;
}

void request_progress(struct session *s) {
	struct held *h = find_runnable(s);

	while (h && run_held(s, h))
		h = find_runnable(s);
}
