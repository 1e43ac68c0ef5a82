/*
 * A daemon on another machine that is an enemy: it sends frames of any kind, size and place, as an honest one does or not, to a client that has asked for some.
 * Each question is answered once, with the bytes that it was to bring or none, and the connection ends.
 */
#include "fuzz.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/link.h"
#include "client/transport.h"
#include "protocol/limits.h"
#include "protocol/remote.h"

enum {
	SLOTS = 8,
	ASKS = 6,
	FRAMES = 24,
	/* Of an array that a question awaits. */
	AWAITED = 4096,
	/* Nobody waits for who has nothing to say. */
	PATIENCE_MS = 20,
};

static struct transport *transport;
static struct {
	uint64_t awaited;
	unsigned asked, answered;
} slot[SLOTS];

static void on_reply(void *user, unsigned which, int result, const void *bytes, size_t size) {
	uint8_t *array, sum = 0;

	(void)user;
	claim(which < SLOTS, "an answer in slot %u", which);
	slot[which].answered++;
	for (size_t i = 0; !result && i < size; i++)
		sum ^= ((const uint8_t *)bytes)[i];
	array = result ? NULL : transport->result(transport, which);
	for (uint64_t i = 0; array && i < slot[which].awaited; i++)
		sum ^= array[i];
	free(array);
	/* So that it is read. */
	if (sum == 1)
		errno = 0;
}

static void on_broken(void *user) {
	(void)user;
}

static void ask(struct fuzz_bytes *b) {
	unsigned which = fuzz_below(b, SLOTS);

	if (slot[which].asked)
		return;
	slot[which].awaited = fuzz_byte(b) & 1 ? fuzz_whole(b, 2) % AWAITED : 0;
	slot[which].asked++;
	transport->expect(transport, which, slot[which].awaited);
	claim(!(fuzz_byte(b) & 1 ? transport->ask_arena(transport, which, 1 << 20) : transport->submit(transport, which, "x", 1)), "it cannot be asked");
}

static void send_all(int fd, const void *bytes, size_t size) {
	if (size && send(fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return;
}

/* Its head is of a form that there is; 1: what follows is as long as it says. */
static void frame(struct fuzz_bytes *b, int fd) {
	struct remote_head h = { .kind = 1 + fuzz_below(b, REMOTE_KINDS), .name = fuzz_below(b, SLOTS + 2) };
	unsigned how = fuzz_byte(b);
	struct fuzz_bytes bytes;
	uint8_t head[REMOTE_HEAD_BYTES];

	h.size = (uint32_t)fuzz_whole(b, how & 2 ? 1 : 2);
	h.offset = how & 4 ? fuzz_whole(b, how & 8 ? 8 : 2) : 0;
	bytes = fuzz_take(b, how & 16 ? fuzz_byte(b) : h.size);
	if (how & 1)
		h.size = (uint32_t)fuzz_left(&bytes);
	remote_head_put(head, &h);
	send_all(fd, head, sizeof head);
	send_all(fd, bytes.at, fuzz_left(&bytes));
}

static void check_head(struct fuzz_bytes b) {
	uint8_t bytes[REMOTE_HEAD_BYTES] = { 0 }, again[REMOTE_HEAD_BYTES];
	struct remote_head h;
	struct fault f = { 0 };

	memcpy(bytes, b.at, fuzz_left(&b) < sizeof bytes ? fuzz_left(&b) : sizeof bytes);
	if (remote_head_get(bytes, &h, &f)) {
		claim(f.code && f.text[0], "no sentence");
		return;
	}
	remote_head_put(again, &h);
	claim(!memcmp(again, bytes, sizeof again), "a head is written as another");
}

void fuzz_one(struct fuzz_bytes *b) {
	static const struct transport_events events = { .reply = on_reply, .broken = on_broken };
	struct link *link = NULL;
	struct fault f = { 0 };
	int pair[2], r = 0;

	check_head(*b);
	memset(slot, 0, sizeof slot);
	claim(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) && !link_accept(pair[0], NULL, 0, &link, &f), "no connection");
	claim(!transport_remote_open(link, SLOTS, PATIENCE_MS, &events, &transport, &f), "no transport");
	for (unsigned i = 0, n = fuzz_below(b, ASKS); i < n; i++)
		ask(b);
	for (unsigned i = 0; i < FRAMES && fuzz_left(b); i++) {
		struct fuzz_bytes raw = { b->at, b->at };

		if (fuzz_byte(b) % 8)
			frame(b, pair[1]);
		else
			raw = fuzz_take(b, fuzz_byte(b));
		send_all(pair[1], raw.at, fuzz_left(&raw));
	}
	shutdown(pair[1], SHUT_WR);
	for (unsigned i = 0; !r && i < 2 * FRAMES; i++)
		r = transport->wait(transport, NULL);
	claim(r, "a connection that has ended goes on");
	transport->free(transport);
	for (unsigned i = 0; i < SLOTS; i++)
		claim(slot[i].answered == slot[i].asked, "slot %u was asked %u times, and answered %u", i, slot[i].asked, slot[i].answered);
	link_free(link);
	close(pair[1]);
}
