/*
 * Frames of nng's connections (protocol/sp.h), over a stream that is played: what comes, comes in parts of any size; what is sent is taken in such; either may fail, and
 * the connection be closed at any moment.
 *
 * No message is longer than its limit, nor than what was announced; what is sent are whole frames in their order; the end is told once.
 */
#include "fuzz.h"

#include <endian.h>
#include <nng/nng.h>

#include "protocol/sp.h"

enum {
	LIMIT = 512,
	SENT = 1 << 16,
	GREETING = 8,
};

/* ---- nng, as far as it is called ---- */

struct nng_aio {
	void (*call)(void *user);
	void *user;
	uint8_t *at;
	size_t size, count;
	int result;
	bool pending, reads;
};

struct nng_stream {
	bool closed;
};

static struct nng_aio aios[2];
static unsigned made;
static struct nng_stream stream;

int nng_aio_alloc(nng_aio **aiop, void (*call)(void *), void *user) {
	claim(made < 2, "a third operation");
	aios[made] = (struct nng_aio){ .call = call, .user = user };
	*aiop = &aios[made++];
	return 0;
}

int nng_aio_set_iov(nng_aio *a, unsigned count, const nng_iov *iov) {
	claim(count == 1 && iov->iov_len, "an operation of nothing");
	claim(!a->pending, "an operation that is under way is begun");
	a->at = iov->iov_buf;
	a->size = iov->iov_len;
	return 0;
}

void nng_aio_set_timeout(nng_aio *a, nng_duration ms) {
	(void)a;
	(void)ms;
}

size_t nng_aio_count(nng_aio *a) {
	return a->count;
}

int nng_aio_result(nng_aio *a) {
	return a->result;
}

void nng_aio_reap(nng_aio *a) {
	claim(!a->pending, "an operation that is under way is freed");
}

static void start(nng_aio *a, bool reads) {
	claim(!stream.closed, "an operation is begun after the end");
	a->reads = reads;
	a->pending = true;
}

void nng_stream_recv(nng_stream *s, nng_aio *a) {
	(void)s;
	start(a, true);
}

void nng_stream_send(nng_stream *s, nng_aio *a) {
	(void)s;
	start(a, false);
}

void nng_stream_close(nng_stream *s) {
	claim(!s->closed, "it is closed twice");
	s->closed = true;
}

void nng_stream_free(nng_stream *s) {
	(void)s;
}

/* ---- what was sent, and what came ---- */

static uint8_t sent[SENT];
static size_t sent_bytes;
static unsigned queued, ended, messages;

static void end_one(struct nng_aio *a, size_t count, int result) {
	a->pending = false;
	a->count = count;
	a->result = result;
	a->call(a->user);
}

static struct nng_aio *pending(bool reads) {
	for (unsigned i = 0; i < made; i++)
		if (aios[i].pending && aios[i].reads == reads)
			return &aios[i];
	return NULL;
}

static void on_message(void *user, struct sp_message *m) {
	(void)user;
	claim(m->size <= LIMIT, "a message of %zu bytes", m->size);
	messages++;
	memset(m->bytes, 0, m->size);
	free(m);
}

static bool on_announced(void *user, size_t size) {
	(void)user;
	claim(size <= LIMIT, "%zu bytes were announced", size);
	return size != 13;
}

static void on_ended(void *user) {
	(void)user;
	ended++;
}

static void come(struct fuzz_bytes *b, struct nng_aio *a) {
	struct fuzz_bytes part = fuzz_take(b, 1 + fuzz_byte(b) % a->size);

	if (!fuzz_left(&part))
		return;
	memcpy(a->at, part.at, fuzz_left(&part));
	end_one(a, fuzz_left(&part), 0);
}

/* A head that is right, for as much as is asked for. */
static void come_head(struct fuzz_bytes *b, struct nng_aio *a) {
	static const uint8_t greeting[GREETING] = { 0, 'S', 'P', 0, 0, SP_REQ0 };
	uint8_t head[SP_HEAD_BYTES] = { 1 };

	if (a->size == GREETING) {
		memcpy(a->at, greeting, sizeof greeting);
	} else if (a->size == SP_HEAD_BYTES) {
		head[8] = fuzz_byte(b);
		head[7] = fuzz_byte(b) % 2;
		memcpy(a->at, head, sizeof head);
	} else {
		memset(a->at, 0, a->size);
	}
	end_one(a, a->size, 0);
}

static void take(struct fuzz_bytes *b, struct nng_aio *a) {
	size_t n = 1 + fuzz_byte(b) % a->size;

	claim(sent_bytes + n <= SENT, "more was sent than there was");
	memcpy(sent + sent_bytes, a->at, n);
	sent_bytes += n;
	end_one(a, n, 0);
}

static void send_one(struct fuzz_bytes *b, struct sp *s) {
	struct sp_message *m = sp_message_new(fuzz_byte(b));

	if (!m)
		abort();
	memset(m->bytes, (int)queued++, m->size);
	sp_send(s, m);
}

/* Whole frames, in their order, each of its own bytes. */
static void check_sent(void) {
	size_t at = GREETING;

	for (unsigned i = 0; at + SP_HEAD_BYTES <= sent_bytes; i++) {
		uint64_t length;

		memcpy(&length, sent + at + 1, sizeof length);
		length = be64toh(length);
		claim(sent[at] == 1 && length < 256, "a head of %u, %llu", sent[at], (unsigned long long)length);
		at += SP_HEAD_BYTES;
		for (uint64_t k = 0; k < length && at < sent_bytes; k++, at++)
			claim(sent[at] == (uint8_t)i, "message %u has a byte of another", i);
	}
}

static void act(struct fuzz_bytes *b, struct sp *s) {
	unsigned how = fuzz_below(b, 16);
	struct nng_aio *in = pending(true), *out = pending(false);

	if (how == 0)
		sp_close(s);
	else if (how < 4 && !ended && queued < 64)
		send_one(b, s);
	else if (how < 8 && in)
		come(b, in);
	else if (how < 11 && in)
		come_head(b, in);
	else if (how < 15 && out)
		take(b, out);
	else if (how == 15 && (in || out))
		end_one(in ? in : out, 0, NNG_ECLOSED);
}

void fuzz_one(struct fuzz_bytes *b) {
	const struct sp_options o = { .own = SP_REP0, .peer = SP_REQ0, .limit = LIMIT, .announced = on_announced, .message = on_message, .ended = on_ended };
	struct nng_aio *a;
	struct sp *s;

	made = queued = ended = messages = 0;
	sent_bytes = 0;
	stream.closed = false;
	s = sp_new(&stream, &o);
	claim(s != NULL, "no memory");
	sp_start(s);
	while (fuzz_left(b))
		act(b, s);
	sp_close(s);
	while ((a = pending(true)) || (a = pending(false)))
		end_one(a, 0, NNG_ECLOSED);
	claim(ended == 1, "the end was told %u times", ended);
	check_sent();
	sp_free(s);
}
