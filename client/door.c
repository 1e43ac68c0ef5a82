/* The client's end of the door. See door.h for the contract. */
#include "door.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define FUSION_NO_PLACES
#include "fusion.h"
#include "place.h"
#include "waiting.h"
#include "protocol/message.h"
#include "protocol/op.h"
#include "protocol/shm.h"
#include "protocol/wire.h"

enum {
	/* What this library makes use of. */
	FEATURES_KNOWN = FEATURES_ALL | FEATURE_RING | FEATURE_RESUME | FEATURE_RETURN | FEATURE_REPEAT,
	/* Between two tries where its queue is full. */
	CONNECT_LOOK_US = 20 * 1000,
	/* Between two looks for its socket. */
	RETURN_LOOK_US = 10 * 1000,
	/* A folder that is gone for so long belongs to a service that was stopped for good: its manager keeps it during a restart. */
	RETURN_FOLDER_MS = 500,
};

static void close_descriptor(int *fdp) {
	if (*fdp >= 0)
		close(*fdp);
	*fdp = -1;
}

static void close_pair(int fd[PACKET_PAIR]) {
	close_descriptor(&fd[0]);
	close_descriptor(&fd[1]);
}

static int refuse_connect(const char *path, int error, struct fault *f) {
	char why[128];

	if (error == EACCES)
		return place_refuse(path, f);
	return fault_set(f, FAULT_CONNECT,
		"no daemon answers at %s (%s): start fusiond, or set FUSION_SOCKET to the socket of a "
		"running one",
		path, strerror_r(error, why, sizeof why));
}

/* Where as many wait as may, one more has to come again. */
static int connect_waiting(struct door *d, const struct sockaddr_un *address, struct fault *f) {
	uint64_t until = door_deadline(d);

	while (connect(d->fd, (const struct sockaddr *)address, sizeof *address)) {
		int r = errno;

		if (r == EINTR)
			continue;
		if (r != EAGAIN)
			return -r;
		r = door_sleep(d, 0, link_now_us() + CONNECT_LOOK_US, f);
		if (r != -ETIMEDOUT)
			return r;
		if (until && link_now_us() >= until)
			return door_refuse_late(d, f);
	}
	return 0;
}

static int socket_connect(struct door *d, const char *path, struct fault *f) {
	struct sockaddr_un address;
	int r = place_address(path, &address, f);

	if (r)
		return r;
	d->word.code = 0;
	d->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (d->fd < 0)
		return -errno;
	r = connect_waiting(d, &address, f);
	if (r < 0)
		r = refuse_connect(path, -r, f);
	if (!r && fcntl(d->fd, F_SETFL, 0) < 0)
		r = -errno;
	if (r)
		close_descriptor(&d->fd);
	return r;
}

static int door_connect(struct door *d, const char *path, struct fault *f) {
	int r;

	if (!link_is_url(path))
		return socket_connect(d, path, f);
	r = link_dial(path, &d->files, d->timeout_ms, waiting_poll, &d->link, f);
	return waiting_fault(r, f);
}

/* Is it a fault? */
static bool read_word(const char *bytes, size_t size, struct fault *f) {
	struct wire_reader reader;
	struct wire_cursor c;
	uint64_t id = 0;
	int r;

	if (wire_open(&reader, bytes, size, NULL))
		return false;
	c = wire_root(&reader);
	r = wire_get_uint(&c, "message", UINT32_MAX, &id, NULL);
	r = !r && id == MESSAGE_FAULT ? message_get_fault(&c, f, NULL) : -ENODATA;
	wire_close(&reader);
	return !r && f->code;
}

static void receive_word(struct door *d) {
	char bytes[DOOR_PACKET_BYTES];
	int fd[PACKET_PAIR] = { -1, -1 };
	ssize_t n = packet_receive_pair(d->fd, bytes, sizeof bytes, fd, MSG_DONTWAIT);

	/* Of who closed while something of ours was unread the kernel says that first. */
	if (n == -ECONNRESET)
		n = packet_receive_pair(d->fd, bytes, sizeof bytes, fd, MSG_DONTWAIT);
	close_pair(fd);
	if (n <= 0 || !read_word(bytes, (size_t)n, &d->word))
		d->word.code = 0;
}

static bool take_word(struct door *d, struct fault *f) {
	/* It stands behind the answer that is owed. */
	if (!d->word.code && d->owed)
		receive_word(d);
	if (!d->word.code)
		receive_word(d);
	d->owed = 0;
	if (d->word.code)
		*f = d->word;
	return d->word.code;
}

/* While another thread waits for an answer what comes is for it. */
bool door_last_word(struct door *d, struct fault *f) {
	if (d->fd < 0 || d->link || d->busy)
		return false;
	return take_word(d, f);
}

static int lost(struct door *d, struct fault *f, const char *why) {
	if (d->fd >= 0 && take_word(d, f))
		return f->code;
	d->owed = 0;
	return fault_set(f, FAULT_CONNECT, "fusiond closed the session (%s)", why);
}

static int link_failed(const struct door *d, int r, struct fault *f) {
	if (r == -ETIMEDOUT)
		return door_refuse_late(d, f);
	if (r == -ECANCELED)
		return waiting_refuse(f);
	return r == -ECONNRESET ? link_ended(d->link, f) : r;
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

/* The answer to what was sent, which is owed until it has come. */
static int await_reply(struct door *d, char reply[static DOOR_PACKET_BYTES], size_t *sizep, int fd[PACKET_PAIR], struct fault *f) {
	int r = door_sleep(d, POLLIN, door_deadline(d), f);
	ssize_t n;

	if (r == -ETIMEDOUT)
		return door_refuse_late(d, f);
	if (r)
		return r;
	n = packet_receive_pair(d->fd, reply, DOOR_PACKET_BYTES, fd, 0);
	if (n == -ECONNRESET || n == 0)
		return lost(d, f, "the door is closed");
	/* Where there was no memory for it, it is still to come. */
	if (n == -ENOMEM || n == -ENOBUFS)
		return (int)n;
	d->owed = 0;
	*sizep = n < 0 ? 0 : (size_t)n;
	return n < 0 ? (int)n : 0;
}

/* Sends what the writer holds and receives the reply. */
static int door_exchange(struct door *d, unsigned message, const struct wire_writer *w, char reply[static DOOR_PACKET_BYTES],
	size_t *sizep, int fd[PACKET_PAIR], struct fault *f) {
	int r;

	if (d->link)
		return link_exchange(d, w, reply, sizep, f);
	if (d->fd < 0)
		return lost(d, f, "the door is closed");
	r = wire_finish(w);
	if (!r)
		r = packet_send(d->fd, w->buffer.data, w->buffer.size, -1, MSG_NOSIGNAL);
	if (r == -EPIPE || r == -ECONNRESET)
		return lost(d, f, "the door is closed");
	if (r)
		return r;
	d->owed = message;
	return await_reply(d, reply, sizep, fd, f);
}

/* What a daemon may leave out: it has one device alone, and is no release. */
static int read_rest(struct door *d, struct wire_cursor *c, struct fault *f) {
	const void *operations;
	int r = 0;

	d->number = 0;
	d->devices = 1;
	*d->release = 0;
	memset(d->operations, UINT8_MAX, sizeof d->operations);
	if (c->left)
		r = wire_get_uint(c, "number", UINT32_MAX, &d->number, f);
	if (!r && c->left)
		r = wire_get_uint(c, "devices", UINT32_MAX, &d->devices, f);
	if (!r && c->left)
		r = wire_copy_text(c, "release", d->release, sizeof d->release, f);
	if (r || !c->left)
		return r;
	r = wire_get_bin(c, "operations", sizeof d->operations, &operations, f);
	if (!r)
		memcpy(d->operations, operations, sizeof d->operations);
	return r;
}

static const struct message_versions own_versions = { PROTOCOL_OLDEST, PROTOCOL_VERSION };

static int read_hello(struct wire_cursor *c, void *user, struct fault *f) {
	struct door *d = user;
	const void *secret;
	char known[VERSIONS_TEXT];
	int r = message_get_reply(c, DOOR_HELLO, f);

	if (!r)
		r = wire_get_uint(c, "version", UINT32_MAX, &d->version, f);
	if (!r && !message_agree((struct message_versions){ d->version, d->version }, own_versions))
		return fault_set(f, FAULT_VERSION, "fusiond speaks version %u of the protocol, libfusion " FUSION_VERSION " %s: install a newer %s",
			(unsigned)d->version, message_versions_text(own_versions, known),
			d->version < own_versions.oldest ? "fusiond" : "libfusion");
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
		r = read_rest(d, c, f);
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
	wire_put_array(w, 2);
	wire_put_uint(w, own_versions.oldest);
	wire_put_uint(w, own_versions.newest);
	wire_put_uint(w, FEATURES_ALL | more);
	wire_put_text(w, shown);
	write_settings(w, count, settings);
}

typedef int reply_reader(struct wire_cursor *c, void *user, struct fault *f);

static int read_reply(const char *reply, size_t size, reply_reader *read, void *user, struct fault *f) {
	struct wire_reader reader;
	struct wire_cursor c;
	int r = wire_open(&reader, reply, size, f);

	if (r)
		return r;
	c = wire_root(&reader);
	r = read(&c, user, f);
	wire_close(&reader);
	return r;
}

static int read_return(struct wire_cursor *c, void *user, struct fault *f) {
	(void)user;
	return message_get_reply(c, DOOR_RETURN, f);
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

/* Who had asked was told nothing, so neither is anybody of a refusal. */
static void keep_late(struct door *d, const char *reply, size_t size, int fd[PACKET_PAIR]) {
	struct arena_reply a = { .message = DOOR_ARENA_NEW };
	struct fault ignored;

	if (d->late.fd >= 0 || fd[0] < 0 || read_reply(reply, size, read_arena, &a, &ignored))
		return;
	d->late = (struct door_late){ fd[0], a.arena, a.bytes };
	fd[0] = -1;
}

/* What the daemon that is to return said, to who does not wait for it any more: one that does not take the session is left. */
static int settle_return(struct door *d, const char *reply, size_t size, struct fault *f) {
	int r = read_reply(reply, size, read_return, NULL, f);

	if (r)
		close_descriptor(&d->fd);
	return r == FAULT_AGAIN ? fault_set(f, FAULT_CONNECT, "fusiond is stopping") : r;
}

/* Waits for the answer to what was given up, if any is owed. */
static int settle_owed(struct door *d, struct fault *f) {
	char reply[DOOR_PACKET_BYTES];
	int fd[PACKET_PAIR] = { -1, -1 };
	unsigned message = d->owed;
	size_t size = 0;
	int r;

	if (!message)
		return 0;
	/* That is for door_resume() alone. */
	if (message == DOOR_RESUME)
		return fault_set(f, FAULT_CONNECT, "the engine is being replaced");
	r = await_reply(d, reply, &size, fd, f);
	if (!r && message == DOOR_ARENA_NEW)
		keep_late(d, reply, size, fd);
	if (!r && message == DOOR_RETURN)
		r = settle_return(d, reply, size, f);
	close_pair(fd);
	return r;
}

/* Sends what the writer holds and frees it; the reader gets the cursor of the reply. */
static int door_call(struct door *d, unsigned message, struct wire_writer *w, reply_reader *read, void *user, int fd[PACKET_PAIR],
	struct fault *f) {
	char reply[DOOR_PACKET_BYTES];
	size_t size = 0;
	int r;

	fd[0] = fd[1] = -1;
	/* The question that was given up is the same. */
	if (message == DOOR_RESUME && d->owed == message)
		r = await_reply(d, reply, &size, fd, f);
	else
		r = settle_owed(d, f);
	if (!r && !size)
		r = door_exchange(d, message, w, reply, &size, fd, f);
	wire_writer_free(w);
	return r ? r : read_reply(reply, size, read, user, f);
}

/* A daemon that says ring and sends none has none. */
static void take_ring(struct door *d, int fd[PACKET_PAIR]) {
	bool whole = d->features & FEATURE_RING && fd[0] >= 0 && fd[1] >= 0;

	if (!whole)
		close_pair(fd);
	d->ring = fd[0];
	d->bell = fd[1];
}

/* ---- waiting for a daemon that is to come ---- */

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

struct patience {
	uint64_t start_ms, folder_ms, limit_ms;      /* folder_ms: when its folder was last seen */
};

static struct patience patience_begin(const struct door *d) {
	uint64_t now = now_ms(), limit = d->return_ms;

	if (d->timeout_ms && d->timeout_ms < limit)
		limit = d->timeout_ms;
	return (struct patience){ now, now, limit };
}

/* Many clients wait for one daemon: they do not all ask it at once. */
static int pause_a_little(struct door *d, struct fault *f) {
	uint32_t random = 0;
	int r;

	if (getrandom(&random, sizeof random, GRND_NONBLOCK) < 0)
		random = (uint32_t)getpid();
	r = door_sleep(d, 0, link_now_us() + RETURN_LOOK_US / 2 + random % RETURN_LOOK_US, f);
	return r == -ETIMEDOUT ? 0 : r;
}

static bool missing(int r) {
	return r == FAULT_AGAIN || r == FAULT_CONNECT;
}

/*
 * Before another look: 0, -ETIMEDOUT once it is over, or why that was given up. The socket of a daemon that starts is there before it answers, and may be
 * there still when it has ended.
 */
static int patience_wait(struct door *d, struct patience *p, const char *path, struct fault *f) {
	int r = pause_a_little(d, f);

	if (r)
		return r;
	if (has_folder(path))
		p->folder_ms = now_ms();
	return now_ms() - p->start_ms < p->limit_ms && now_ms() - p->folder_ms < RETURN_FOLDER_MS ? 0 : -ETIMEDOUT;
}

static int refuse_waiting(const struct patience *p, struct fault *f) {
	return fault_set(f, FAULT_CONNECT, "fusiond has ended, and was not started again within %" PRIu64 " ms", now_ms() - p->start_ms);
}

/* ---- HELLO ---- */

struct entry {
	const char *path, *name;
	uint64_t more;
	unsigned count;
	const struct door_setting *settings;
};

static int enter(struct door *d, const struct entry *e, struct fault *f) {
	struct wire_writer w;
	int fd[PACKET_PAIR] = { -1, -1 };
	int r = door_connect(d, e->path, f);

	d->asks_ring = e->more & FEATURE_RING;
	if (!r) {
		wire_writer_init(&w);
		write_hello(&w, e->name, e->more, e->count, e->settings);
		r = door_call(d, DOOR_HELLO, &w, read_hello, d, fd, f);
	}
	take_ring(d, fd);
	if (r)
		door_leave(d);
	return r;
}

/* One that is stopping, and is to be started again, says so: from then on the next one is waited for. */
int door_enter(struct door *d, const char *path, const char *name, uint64_t more, unsigned count,
	const struct door_setting *settings, struct fault *f) {
	const struct entry e = { path, name, more, count, settings };
	struct patience p = patience_begin(d);
	int r = enter(d, &e, f), over = 0;

	if (r != FAULT_AGAIN)
		return r;
	while (missing(r) && !over) {
		over = patience_wait(d, &p, path, f);
		if (!over)
			r = enter(d, &e, f);
	}
	if (over == -ETIMEDOUT)
		return refuse_waiting(&p, f);
	return over ? over : r;
}

int door_need_feature(const struct door *d, uint64_t feature, const char *what, struct fault *f) {
	if (d->features & feature)
		return 0;
	return fault_set(f, FAULT_VERSION, "%s: fusiond %s has no feature %s, which this libfusion, " FUSION_VERSION ", knows: install a newer fusiond",
		what, d->release, message_feature(feature));
}

int door_need_operation(const struct door *d, unsigned op, const char *what, struct fault *f) {
	if (op >= OP_COUNT || d->operations[op / 8] >> op % 8 & 1)
		return 0;
	return fault_set(f, FAULT_VERSION, "%s: fusiond %s has no operation %s, which this libfusion, " FUSION_VERSION ", knows: install a newer fusiond",
		what, d->release, op_info(op)->name);
}

/* ---- RESUME and RETURN ---- */

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
	/* One that says nothing of it tells what it has accepted. */
	reply->resumed->repeat = true;
	if (!r && c->left)
		r = wire_get_bool(c, "repeat", &reply->resumed->repeat, f);
	d->features &= FEATURES_KNOWN;
	return r;
}

int door_resume(struct door *d, unsigned count, const struct door_setting *settings, struct door_resumed *resumed,
	struct fault *f) {
	struct resume_reply reply = { d, resumed };
	uint64_t more = (d->features & FEATURE_REPEAT) | (d->asks_ring ? FEATURE_RING : 0);
	struct wire_writer w;
	int fd[PACKET_PAIR] = { -1, -1 };
	int r;

	wire_writer_init(&w);
	wire_put_array(&w, 3);
	wire_put_uint(&w, DOOR_RESUME);
	wire_put_uint(&w, FEATURES_ALL | FEATURE_RESUME | more);
	write_settings(&w, count, settings);
	r = door_call(d, DOOR_RESUME, &w, read_resume, &reply, fd, f);
	if (r) {
		close_pair(fd);
		return r;
	}
	resumed->returned = d->returned;
	d->returned = false;
	close_descriptor(&d->ring);
	close_descriptor(&d->bell);
	take_ring(d, fd);
	return r;
}

bool door_ended(const struct door *d) {
	struct pollfd p = { .fd = d->fd };

	return d->fd < 0 || (poll(&p, 1, 0) > 0 && p.revents & (POLLHUP | POLLERR | POLLNVAL));
}

static int say_return(struct door *d, struct fault *f) {
	struct wire_writer w;
	int fd[PACKET_PAIR] = { -1, -1 };
	int r;

	wire_writer_init(&w);
	wire_put_array(&w, 4);
	wire_put_uint(&w, DOOR_RETURN);
	wire_put_uint(&w, d->version);
	wire_put_uint(&w, d->session);
	wire_put_bin(&w, d->secret, sizeof d->secret);
	r = door_call(d, DOOR_RETURN, &w, read_return, NULL, fd, f);
	close_pair(fd);
	return r;
}

/* The old one may be there still: it says AGAIN, or hangs up. */
int door_return(struct door *d, const char *path, struct fault *f) {
	struct patience p = patience_begin(d);
	int r, over;

	/* It was of the daemon that has ended. */
	close_descriptor(&d->ring);
	close_descriptor(&d->bell);
	do {
		close_descriptor(&d->fd);
		d->owed = 0;
		d->returned = true;
		r = socket_connect(d, path, f);
		if (!r)
			r = say_return(d, f);
		if (!missing(r))
			return r;
		over = patience_wait(d, &p, path, f);
	} while (!over);
	close_descriptor(&d->fd);
	return over == -ETIMEDOUT ? refuse_waiting(&p, f) : over;
}

void door_forget(struct door *d) {
	close_descriptor(&d->late.fd);
	if (d->link)
		close(link_descriptor(d->link));
	close_descriptor(&d->fd);
	close_descriptor(&d->ring);
	close_descriptor(&d->bell);
}

void door_leave(struct door *d) {
	d->link = link_free(d->link);
	d->owed = 0;
	door_forget(d);
}

static int check_memory(const struct arena_reply *a, int *fdp, struct fault *f) {
	int r = 0;

	if (*fdp < 0)
		r = fault_set(f, FAULT_PROTOCOL, "the door answered without a descriptor");
	else if (shm_check(*fdp, a->bytes))
		r = fault_set(
			f, FAULT_PROTOCOL, "the door's descriptor is no sealed memory of the size it names");
	if (r)
		close_descriptor(fdp);
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
	r = door_call(d, a->message, &w, read_arena, a, fd, f);
	close_descriptor(&fd[1]);
	*fdp = fd[0];
	if (!r)
		return check_memory(a, fdp, f);
	close_descriptor(fdp);
	return r;
}

/* One that somebody else had asked for, of whatever size. */
static int take_late(struct door *d, struct arena_reply *a, int *fdp, struct fault *f) {
	a->arena = d->late.arena;
	a->bytes = d->late.bytes;
	*fdp = d->late.fd;
	d->late.fd = -1;
	return check_memory(a, fdp, f);
}

int door_arena_new(
	struct door *d, uint64_t bytes, uint32_t *arenap, uint64_t *bytesp, int *fdp, struct fault *f) {
	struct arena_reply a = { .message = DOOR_ARENA_NEW };
	int r = settle_owed(d, f);

	if (!r && d->late.fd >= 0) {
		bytes = 0;
		r = take_late(d, &a, fdp, f);
	} else if (!r) {
		r = door_arena(d, &a, bytes, fdp, f);
	}
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
