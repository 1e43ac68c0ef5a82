/* The client's end of the door. See door.h for the contract. */
#include "door.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "protocol/message.h"
#include "protocol/shm.h"
#include "protocol/wire.h"

enum {
	/* What this library makes use of. */
	FEATURES_KNOWN = FEATURES_ALL | FEATURE_RING | FEATURE_RESUME | FEATURE_RETURN,
	/* Between two looks for its socket. */
	RETURN_LOOK_US = 10 * 1000,
	/* A folder that is gone for so long belongs to a service that was stopped for good: its manager keeps it during a restart. */
	RETURN_FOLDER_MS = 500,
};

static int refuse_connect(const char *path, int error, struct fault *f) {
	char why[128];

	return fault_set(f, FAULT_CONNECT,
		"no daemon answers at %s (%s): start fusiond, or set FUSION_SOCKET to the socket of a "
		"running one",
		path, strerror_r(error, why, sizeof why));
}

static int socket_connect(struct door *d, const char *path, struct fault *f) {
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	size_t size = strlen(path) + 1;

	if (size > sizeof address.sun_path)
		return fault_set(f, FAULT_ARGUMENT, "the path of the socket is longer than %zu bytes: %s",
			sizeof address.sun_path - 1, path);
	memcpy(address.sun_path, path, size);
	d->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (d->fd < 0)
		return -errno;
	if (connect(d->fd, (const struct sockaddr *)&address, sizeof address))
		return refuse_connect(path, errno, f);
	return 0;
}

static int door_connect(struct door *d, const char *path, struct fault *f) {
	if (link_is_url(path))
		return link_dial(path, &d->files, d->timeout_ms, &d->link, f);
	return socket_connect(d, path, f);
}

/* Waits until the door can be read. */
static int door_wait(const struct door *d, struct fault *f) {
	struct pollfd p = { .fd = d->fd, .events = POLLIN };
	int r;

	do
		r = poll(&p, 1, d->timeout_ms ? (int)d->timeout_ms : -1);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return -errno;
	if (!r)
		return fault_set(
			f, FAULT_CONNECT, "fusiond's door did not answer within %u ms", d->timeout_ms);
	return 0;
}

static int lost(struct fault *f, const char *why) {
	return fault_set(f, FAULT_CONNECT, "fusiond closed the session (%s)", why);
}

static int link_failed(const struct door *d, int r, struct fault *f) {
	if (r == -ETIMEDOUT)
		return fault_set(f, FAULT_CONNECT, "fusiond's door did not answer within %u ms", d->timeout_ms);
	return r == -ECONNRESET ? lost(f, "the connection is closed") : r;
}

/* The same over a connection to another machine. */
static int link_exchange(struct door *d, const struct wire_writer *w, char reply[static DOOR_PACKET_BYTES], size_t *sizep,
	struct fault *f) {
	uint64_t deadline = d->timeout_ms ? link_now_us() + UINT64_C(1000) * d->timeout_ms : 0;
	struct remote_head h = { .kind = REMOTE_DOOR, .size = (uint32_t)w->buffer.size };
	int r = wire_finish(w);

	if (!r)
		r = link_write_frame(d->link, &h, w->buffer.data, deadline, NULL);
	if (!r)
		r = link_flush(d->link, deadline, NULL);
	if (!r)
		r = link_read_head(d->link, &h, deadline, f);
	if (!r && (h.kind != REMOTE_DOOR || h.size > DOOR_PACKET_BYTES))
		return fault_set(f, FAULT_PROTOCOL, "what answers is no fusiond");
	if (!r)
		r = link_read(d->link, reply, h.size, deadline);
	*sizep = h.size;
	return link_failed(d, r, f);
}

/* Sends what the writer holds and receives the reply. */
static int door_exchange(struct door *d, const struct wire_writer *w, char reply[static DOOR_PACKET_BYTES],
	size_t *sizep, int fd[PACKET_PAIR], struct fault *f) {
	ssize_t n;
	int r;

	if (d->link)
		return link_exchange(d, w, reply, sizep, f);
	r = wire_finish(w);
	if (!r)
		r = packet_send(d->fd, w->buffer.data, w->buffer.size, -1, MSG_NOSIGNAL);
	if (r == -EPIPE || r == -ECONNRESET)
		return lost(f, "the door is closed");
	if (!r)
		r = door_wait(d, f);
	if (r)
		return r;
	n = packet_receive_pair(d->fd, reply, DOOR_PACKET_BYTES, fd, 0);
	if (n == -ECONNRESET || n == 0)
		return lost(f, "the door is closed");
	if (n < 0)
		return (int)n;
	*sizep = (size_t)n;
	return 0;
}

/* Not of a daemon that has one alone and does not say so. */
static int read_devices(struct door *d, struct wire_cursor *c, struct fault *f) {
	int r;

	d->number = 0;
	d->devices = 1;
	if (!c->left)
		return 0;
	r = wire_get_uint(c, "number", UINT32_MAX, &d->number, f);
	return r ? r : wire_get_uint(c, "devices", UINT32_MAX, &d->devices, f);
}

static int read_hello(struct wire_cursor *c, void *user, struct fault *f) {
	struct door *d = user;
	const void *secret;
	uint64_t version;
	int r = message_get_reply(c, DOOR_HELLO, f);

	if (!r)
		r = wire_get_uint(c, "version", UINT32_MAX, &version, f);
	if (!r && version != PROTOCOL_VERSION)
		return fault_set(f, FAULT_VERSION,
			"fusiond speaks version %u of the protocol, this library version %d",
			(unsigned)version, PROTOCOL_VERSION);
	if (!r)
		r = wire_get_uint(c, "features", INT64_MAX, &d->features, f);
	if (!r)
		r = wire_get_uint(c, "session", UINT64_MAX, &d->session, f);
	if (!r)
		r = wire_get_bin(c, "secret", sizeof d->secret, &secret, f);
	if (!r)
		r = wire_copy_text(c, "url", d->url, sizeof d->url, f);
	if (!r)
		r = wire_copy_text(c, "device", d->device, sizeof d->device, f);
	if (!r)
		r = read_devices(d, c, f);
	if (r)
		return r;
	memcpy(d->secret, secret, sizeof d->secret);
	d->features &= FEATURES_KNOWN;
	return 0;
}

static void write_settings(struct wire_writer *w, unsigned count, const struct door_setting *settings) {
	wire_put_map(w, count);
	for (unsigned i = 0; i < count; i++) {
		wire_put_text(w, settings[i].name);
		wire_put_text(w, settings[i].value);
	}
}

static void write_hello(
	struct wire_writer *w, const char *name, uint64_t more, unsigned count, const struct door_setting *settings) {
	char shown[DOOR_NAME_TEXT];

	snprintf(shown, sizeof shown, "%s", name);
	wire_put_array(w, 5);
	wire_put_uint(w, DOOR_HELLO);
	wire_put_uint(w, PROTOCOL_VERSION);
	wire_put_uint(w, FEATURES_ALL | more);
	wire_put_text(w, shown);
	write_settings(w, count, settings);
}

typedef int reply_reader(struct wire_cursor *c, void *user, struct fault *f);

/* Sends what the writer holds and frees it; the reader gets the cursor of the reply. */
static int door_call(
	struct door *d, struct wire_writer *w, reply_reader *read, void *user, int fd[PACKET_PAIR],
	struct fault *f) {
	char reply[DOOR_PACKET_BYTES];
	struct wire_reader reader;
	struct wire_cursor c;
	size_t size = 0;
	int r;

	fd[0] = fd[1] = -1;
	r = door_exchange(d, w, reply, &size, fd, f);
	wire_writer_free(w);
	if (!r)
		r = wire_open(&reader, reply, size, f);
	if (r)
		return r;
	c = wire_root(&reader);
	r = read(&c, user, f);
	wire_close(&reader);
	return r;
}

static void close_descriptor(int *fdp) {
	if (*fdp >= 0)
		close(*fdp);
	*fdp = -1;
}

/* A daemon that says ring and sends none has none. */
static void take_ring(struct door *d, int fd[PACKET_PAIR]) {
	bool whole = d->features & FEATURE_RING && fd[0] >= 0 && fd[1] >= 0;

	if (!whole) {
		close_descriptor(&fd[0]);
		close_descriptor(&fd[1]);
	}
	d->ring = fd[0];
	d->bell = fd[1];
}

int door_enter(struct door *d, const char *path, const char *name, uint64_t more, unsigned count,
	const struct door_setting *settings, struct fault *f) {
	struct wire_writer w;
	int fd[PACKET_PAIR] = { -1, -1 };
	int r = door_connect(d, path, f);

	if (!r) {
		wire_writer_init(&w);
		write_hello(&w, name, more, count, settings);
		r = door_call(d, &w, read_hello, d, fd, f);
	}
	take_ring(d, fd);
	if (r)
		door_leave(d);
	return r;
}

struct resume_reply {
	struct door *door;
	struct door_resumed *resumed;
};

static int read_resume(struct wire_cursor *c, void *user, struct fault *f) {
	struct resume_reply *reply = user;
	struct door *d = reply->door;
	int r = message_get_reply(c, DOOR_RESUME, f);

	if (!r)
		r = wire_get_uint(c, "features", INT64_MAX, &d->features, f);
	if (!r)
		r = wire_copy_text(c, "url", d->url, sizeof d->url, f);
	if (!r)
		r = wire_copy_text(c, "device", d->device, sizeof d->device, f);
	if (!r)
		r = wire_get_uint(c, "accepted", INT64_MAX, &reply->resumed->accepted, f);
	if (!r)
		r = wire_get_uint(c, "completed", INT64_MAX, &reply->resumed->completed, f);
	d->features &= FEATURES_KNOWN;
	return r;
}

int door_resume(struct door *d, unsigned count, const struct door_setting *settings, struct door_resumed *resumed,
	struct fault *f) {
	struct resume_reply reply = { d, resumed };
	bool ring = d->ring >= 0;
	struct wire_writer w;
	int fd[PACKET_PAIR] = { -1, -1 };
	int r;

	close_descriptor(&d->ring);
	close_descriptor(&d->bell);
	wire_writer_init(&w);
	wire_put_array(&w, 3);
	wire_put_uint(&w, DOOR_RESUME);
	wire_put_uint(&w, FEATURES_ALL | FEATURE_RESUME | (ring ? FEATURE_RING : 0));
	write_settings(&w, count, settings);
	r = door_call(d, &w, read_resume, &reply, fd, f);
	take_ring(d, fd);
	return r;
}

bool door_ended(const struct door *d) {
	struct pollfd p = { .fd = d->fd };

	return d->fd < 0 || (poll(&p, 1, 0) > 0 && p.revents & (POLLHUP | POLLERR | POLLNVAL));
}

static uint64_t now_ms(void) {
	return link_now_us() / 1000;
}

static bool has_folder(const char *path) {
	char folder[sizeof ((struct sockaddr_un *)0)->sun_path];
	char *slash;

	snprintf(folder, sizeof folder, "%s", path);
	slash = strrchr(folder, '/');
	if (!slash || slash == folder)
		return true;
	*slash = 0;
	return !access(folder, F_OK);
}

/* The socket of a daemon that starts is there before it answers, and may be there still when it has ended. */
static int await_daemon(struct door *d, const char *path, struct fault *f) {
	uint64_t start = now_ms(), limit = d->return_ms, folder = start;
	int r;

	if (d->timeout_ms && d->timeout_ms < limit)
		limit = d->timeout_ms;
	do {
		close_descriptor(&d->fd);
		r = socket_connect(d, path, f);
		if (r != FAULT_CONNECT)
			return r;
		usleep(RETURN_LOOK_US);
		if (has_folder(path))
			folder = now_ms();
	} while (now_ms() - start < limit && now_ms() - folder < RETURN_FOLDER_MS);
	close_descriptor(&d->fd);
	return fault_set(f, FAULT_CONNECT, "fusiond has ended, and was not started again within %" PRIu64 " ms", now_ms() - start);
}

static int read_return(struct wire_cursor *c, void *user, struct fault *f) {
	(void)user;
	return message_get_reply(c, DOOR_RETURN, f);
}

int door_return(struct door *d, const char *path, struct fault *f) {
	struct wire_writer w;
	int fd[PACKET_PAIR] = { -1, -1 };
	int r = await_daemon(d, path, f);

	if (r)
		return r;
	wire_writer_init(&w);
	wire_put_array(&w, 4);
	wire_put_uint(&w, DOOR_RETURN);
	wire_put_uint(&w, PROTOCOL_VERSION);
	wire_put_uint(&w, d->session);
	wire_put_bin(&w, d->secret, sizeof d->secret);
	r = door_call(d, &w, read_return, NULL, fd, f);
	close_descriptor(&fd[0]);
	close_descriptor(&fd[1]);
	return r;
}

void door_forget(struct door *d) {
	if (d->link)
		close(link_descriptor(d->link));
	close_descriptor(&d->fd);
	close_descriptor(&d->ring);
	close_descriptor(&d->bell);
}

void door_leave(struct door *d) {
	d->link = link_free(d->link);
	door_forget(d);
}

struct arena_reply {
	unsigned message;
	uint64_t arena, bytes;
};

static int read_arena(struct wire_cursor *c, void *user, struct fault *f) {
	struct arena_reply *a = user;
	int r = message_get_reply(c, a->message, f);

	if (!r)
		r = wire_get_uint(c, "arena", UINT32_MAX, &a->arena, f);
	if (!r)
		r = wire_get_uint(c, "bytes", INT64_MAX, &a->bytes, f);
	return r;
}

/* Asks for an arena, by its size or by its number, and checks the descriptor that comes. */
static int door_arena(struct door *d, struct arena_reply *a, uint64_t asked, int *fdp, struct fault *f) {
	struct wire_writer w;
	int fd[PACKET_PAIR];
	int r;

	wire_writer_init(&w);
	wire_put_array(&w, 2);
	wire_put_uint(&w, a->message);
	wire_put_uint(&w, asked);
	r = door_call(d, &w, read_arena, a, fd, f);
	close_descriptor(&fd[1]);
	*fdp = fd[0];
	if (!r && *fdp < 0)
		r = fault_set(f, FAULT_PROTOCOL, "the door answered without a descriptor");
	if (!r && shm_check(*fdp, a->bytes))
		r = fault_set(
			f, FAULT_PROTOCOL, "the door's descriptor is no sealed memory of the size it names");
	if (r)
		close_descriptor(fdp);
	return r;
}

int door_arena_new(
	struct door *d, uint64_t bytes, uint32_t *arenap, uint64_t *bytesp, int *fdp, struct fault *f) {
	struct arena_reply a = { .message = DOOR_ARENA_NEW };
	int r = door_arena(d, &a, bytes, fdp, f);

	if (r)
		return r;
	if (a.bytes < bytes || a.arena >= LIMIT_ARENA_NUMBERS) {
		close_descriptor(fdp);
		return fault_set(f, FAULT_PROTOCOL, "the door made an arena that is not what was asked for");
	}
	*arenap = (uint32_t)a.arena;
	*bytesp = a.bytes;
	return 0;
}

int door_arena_get(struct door *d, uint32_t arena, uint64_t *bytesp, int *fdp, struct fault *f) {
	struct arena_reply a = { .message = DOOR_ARENA_GET };
	int r = door_arena(d, &a, arena, fdp, f);

	if (r)
		return r;
	if (a.arena != arena) {
		close_descriptor(fdp);
		return fault_set(f, FAULT_PROTOCOL, "the door handed out arena %u instead of %u",
			(unsigned)a.arena, arena);
	}
	*bytesp = a.bytes;
	return 0;
}
