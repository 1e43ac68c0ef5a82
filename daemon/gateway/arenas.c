/* The memory of a session; see arenas.h. */
#include "arenas.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "protocol/message.h"
#include "protocol/shm.h"
#include "protocol/wire.h"

void arenas_open(struct gateway_arenas *a, int door) {
	memset(a, 0, sizeof *a);
	pthread_mutex_init(&a->lock, NULL);
	a->door = door;
}

/* ---- asking the door ---- */

struct arena_answer {
	uint64_t arena, bytes;
	int fd;
};

static int read_answer(const void *bytes, size_t size, unsigned message, struct arena_answer *a, struct fault *f) {
	struct wire_reader reader;
	struct wire_cursor c;
	int r = wire_open(&reader, bytes, size, f);

	if (r)
		return r;
	c = wire_root(&reader);
	r = message_get_reply(&c, message, f);
	if (!r)
		r = wire_get_uint(&c, "arena", UINT32_MAX, &a->arena, f);
	if (!r)
		r = wire_get_uint(&c, "bytes", INT64_MAX, &a->bytes, f);
	wire_close(&reader);
	return r;
}

/* Requires the lock. The caller owns answer->fd. */
static int ask(struct gateway_arenas *a, unsigned message, uint64_t what, struct arena_answer *answer, struct fault *f) {
	unsigned char reply[GATEWAY_PACKET];
	struct wire_writer w;
	ssize_t n = 0;
	int r;

	answer->fd = -1;
	wire_writer_init(&w);
	wire_put_array(&w, 2);
	wire_put_uint(&w, message);
	wire_put_uint(&w, what);
	r = wire_finish(&w);
	if (!r)
		r = packet_send(a->door, w.buffer.data, w.buffer.size, -1, MSG_NOSIGNAL);
	wire_writer_free(&w);
	if (!r)
		n = packet_receive(a->door, reply, sizeof reply, &answer->fd, 0);
	if (!r && n <= 0)
		r = n < 0 ? (int)n : -EPIPE;
	if (!r)
		r = read_answer(reply, (size_t)n, message, answer, f);
	if (!r && (answer->fd < 0 || shm_check(answer->fd, answer->bytes)))
		r = -EPROTO;
	return r;
}

/* ---- mapping ---- */

/* An arena has a second mapping where the first one only reads, and was pinned when the right to write came. */
static struct gateway_arena *find(struct gateway_arenas *a, uint64_t id, bool write) {
	for (unsigned i = 0; i < GATEWAY_ARENAS; i++)
		if (id && a->one[i].id == id && (!write || a->one[i].writable))
			return &a->one[i];
	return NULL;
}

/* A free place, or that of what was not used for longest. At most two threads pin one each. */
static struct gateway_arena *take_place(struct gateway_arenas *a) {
	struct gateway_arena *oldest = NULL;

	for (unsigned i = 0; i < GATEWAY_ARENAS; i++) {
		struct gateway_arena *n = &a->one[i];

		if (!n->pins && (!oldest || n->used < oldest->used))
			oldest = n;
	}
	if (oldest->id)
		munmap(oldest->base, oldest->bytes);
	memset(oldest, 0, sizeof *oldest);
	return oldest;
}

static int map(struct gateway_arenas *a, const struct arena_answer *answer, struct gateway_arena **arenap) {
	struct gateway_arena *n = take_place(a);
	int mode = fcntl(answer->fd, F_GETFL);
	void *base;
	int r = mode < 0 ? -errno : shm_map(answer->fd, answer->bytes, NULL, &base);

	if (r)
		return r;
	*n = (struct gateway_arena){ .id = (uint32_t)answer->arena, .writable = (mode & O_ACCMODE) == O_RDWR,
		.bytes = answer->bytes, .base = base, .used = ++a->clock };
	*arenap = n;
	return 0;
}

/* Asks and maps. */
static int fetch(struct gateway_arenas *a, unsigned message, uint64_t what, struct gateway_arena **arenap, struct fault *f) {
	struct arena_answer answer;
	int r = ask(a, message, what, &answer, f);

	if (!r)
		r = map(a, &answer, arenap);
	if (answer.fd >= 0)
		close(answer.fd);
	return r;
}

int arenas_make(struct gateway_arenas *a, uint64_t bytes, uint32_t *idp, uint64_t *bytesp, struct fault *f) {
	struct gateway_arena *n = NULL;
	int r;

	pthread_mutex_lock(&a->lock);
	r = fetch(a, DOOR_ARENA_NEW, bytes, &n, f);
	if (!r) {
		*idp = n->id;
		*bytesp = n->bytes;
	}
	pthread_mutex_unlock(&a->lock);
	return r;
}

static void unmap(struct gateway_arena *n) {
	munmap(n->base, n->bytes);
	memset(n, 0, sizeof *n);
}

static int reach(struct gateway_arenas *a, uint64_t id, bool write, struct gateway_arena **arenap, struct fault *f) {
	struct gateway_arena *n;

	*arenap = find(a, id, write);
	if (*arenap)
		return 0;
	/* What an array exported for reading alone was mapped as before its right to be written came. */
	n = find(a, id, false);
	if (n && !n->pins)
		unmap(n);
	return fetch(a, DOOR_ARENA_GET, id, arenap, f);
}

int arenas_reach(struct gateway_arenas *a, uint64_t id, uint64_t offset, uint64_t bytes, bool write,
	struct gateway_arena **arenap, uint8_t **memoryp, struct fault *f) {
	struct gateway_arena *n = NULL;
	int r;

	pthread_mutex_lock(&a->lock);
	r = reach(a, id, write, &n, f);
	if (!r && (offset > n->bytes || bytes > n->bytes - offset))
		r = fault_set(f, FAULT_HANDLE, "arena %llu ends before that", (unsigned long long)id);
	if (!r && write && !n->writable)
		r = fault_set(f, FAULT_HANDLE, "arena %llu may only be read", (unsigned long long)id);
	if (!r) {
		n->pins++;
		n->used = ++a->clock;
		*arenap = n;
		*memoryp = n->base + offset;
	}
	pthread_mutex_unlock(&a->lock);
	return r;
}

void arenas_leave(struct gateway_arenas *a, struct gateway_arena *arena) {
	pthread_mutex_lock(&a->lock);
	arena->pins--;
	pthread_mutex_unlock(&a->lock);
}
