/*
 * The door asked itself: STATUS, KILL, ORIGINS: one packet out, one back. It uses no session and no part of
 * libfusion, so that it works while the engine is starting, hung or gone.
 */
#include "control.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "protocol/message.h"
#include "protocol/shm.h"
#include "protocol/wire.h"
#include "client/link.h"
#include "client/place.h"

enum {
	/* The answer is one packet, and no sender's buffer holds a longer one by default. */
	ANSWER_BYTES = 1 << 18,
	ANSWER_TIMEOUT_MS = 5000,
};

static int refuse(const char *path, const char *why, struct fault *f) {
	return fault_set(f, FAULT_CONNECT,
		"no daemon answers at %s (%s); is fusiond running, and is this its socket?", path, why);
}

/* ---- on this machine ---- */

static int door_socket(const char *path, int *fdp, struct fault *f) {
	struct sockaddr_un address;
	int r = place_address(path, &address, f);

	if (r)
		return r;
	*fdp = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (*fdp < 0)
		return -errno;
	if (connect(*fdp, (const struct sockaddr *)&address, sizeof address))
		return errno == EACCES ? place_refuse(path, f) : refuse(path, strerror(errno), f);
	return 0;
}

/* A door that has closed may have said why: that is the answer then. */
static int send_question(int fd, const struct wire_writer *w) {
	int r = packet_send(fd, w->buffer.data, w->buffer.size, -1, MSG_NOSIGNAL);

	return r == -EPIPE || r == -ECONNRESET ? 0 : r;
}

/* One packet; *sizep is 0 where the door closed instead. */
static int receive_answer(int fd, const char *path, char *bytes, size_t *sizep, int *fdp, struct fault *f) {
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int passed = -1;
	ssize_t n;
	int r;

	do
		r = poll(&p, 1, ANSWER_TIMEOUT_MS);
	while (r < 0 && errno == EINTR);
	if (r <= 0)
		return r < 0 ? -errno : refuse(path, "no answer within 5 s", f);
	n = packet_receive(fd, bytes, ANSWER_BYTES, &passed, 0);
	/* Of who closed while something of ours was unread the kernel says that first. */
	if (n == -ECONNRESET)
		n = packet_receive(fd, bytes, ANSWER_BYTES, &passed, 0);
	if (fdp)
		*fdp = passed;
	else if (passed >= 0)
		close(passed);
	if (n <= 0)
		return n < 0 && n != -ECONNRESET ? (int)n : refuse(path, "it closed the connection", f);
	*sizep = (size_t)n;
	return 0;
}

static int ask_door(const char *path, const struct wire_writer *question, char *bytes, size_t *sizep, int *fdp, struct fault *f) {
	int fd = -1;
	int r = door_socket(path, &fd, f);

	if (!r)
		r = send_question(fd, question);
	if (!r)
		r = receive_answer(fd, path, bytes, sizep, fdp, f);
	if (fd >= 0)
		close(fd);
	return r;
}

/* ---- on another one ---- */

static int ask_link(const char *url, const struct wire_writer *question, char *bytes, size_t *sizep, struct fault *f) {
	const struct link_files files = { .authority = getenv("FUSION_CA"), .certificate = getenv("FUSION_CERT"),
		.key = getenv("FUSION_KEY") };
	uint64_t deadline = link_now_us() + UINT64_C(1000) * ANSWER_TIMEOUT_MS;
	struct remote_head h = { .kind = REMOTE_DOOR, .size = (uint32_t)question->buffer.size };
	struct link *l = NULL;
	int r = link_dial(url, &files, ANSWER_TIMEOUT_MS, NULL, &l, f);

	if (r)
		return r;
	r = link_write_frame(l, &h, question->buffer.data, deadline, NULL);
	if (!r)
		r = link_flush(l, deadline, NULL);
	if (!r)
		r = link_read_head(l, &h, deadline, f);
	if (!r && (h.kind != REMOTE_DOOR || h.size > ANSWER_BYTES))
		r = -EPROTO;
	if (!r)
		r = link_read(l, bytes, h.size, deadline);
	if (r == -ECONNRESET)
		r = link_ended(l, f);
	link_free(l);
	*sizep = h.size;
	return r < 0 ? refuse(url, strerror(-r), f) : r;
}

/* ---- the answer ---- */

static int read_answer(
	const char *bytes, size_t size, const struct control_question *q, char **jsonp, struct fault *f) {
	struct wire_reader reader;
	struct wire_cursor c;
	const char *json;
	size_t length;
	int r = wire_open(&reader, bytes, size, f);

	if (r)
		return r;
	c = wire_root(&reader);
	r = message_get_reply(&c, q->message, f);
	if (!r && jsonp)
		r = wire_get_text(&c, "json", ANSWER_BYTES, &json, &length, f);
	if (!r && jsonp) {
		*jsonp = strndup(json, length);
		r = *jsonp ? 0 : -ENOMEM;
	}
	wire_close(&reader);
	return r;
}

const char *control_socket_path(const char *given) {
	static char found[PLACE_PATH];
	const char *variable = getenv("FUSION_SOCKET");

	if (given)
		return given;
	if (variable && *variable)
		return variable;
	place_now(found);
	return found;
}

int control_ask_door(const char *socket, const struct control_question *q, char **jsonp, struct fault *f) {
	const char *path = control_socket_path(socket);
	char *bytes = malloc(ANSWER_BYTES);
	struct wire_writer w;
	size_t size = 0;
	int r = bytes ? 0 : -ENOMEM;

	wire_writer_init(&w);
	wire_put_array(&w, 1u + (q->about != 0) + (q->text[0] != NULL) + (q->text[1] != NULL));
	wire_put_uint(&w, q->message);
	if (q->about)
		wire_put_uint(&w, q->about);
	for (unsigned i = 0; i < 2; i++)
		if (q->text[i])
			wire_put_text(&w, q->text[i]);
	if (!r)
		r = wire_finish(&w);
	if (!r && link_is_url(path))
		r = ask_link(path, &w, bytes, &size, f);
	else if (!r)
		r = ask_door(path, &w, bytes, &size, q->fdp, f);
	if (!r)
		r = read_answer(bytes, size, q, jsonp, f);
	wire_writer_free(&w);
	free(bytes);
	return r;
}

int control_ask_status(const char *socket, char **jsonp, struct fault *f) {
	return control_ask_door(socket, &(struct control_question){ .message = DOOR_STATUS }, jsonp, f);
}

/* Until its end: who writes it reads a folder of some hundred megabytes. */
static int read_pipe(int fd, char **textp) {
	size_t size = 0, room = 4096;
	char *text = malloc(room);
	ssize_t n = 1;

	while (text && n > 0) {
		char *more = size + 1 < room ? text : realloc(text, room *= 2);

		if (!more)
			break;
		text = more;
		n = read(fd, text + size, room - size - 1);
		size += n > 0 ? (size_t)n : 0;
		if (n < 0 && errno == EINTR)
			n = 1;
	}
	if (!text || n) {
		free(text);
		return text ? -EIO : -ENOMEM;
	}
	text[size] = 0;
	*textp = text;
	return 0;
}

int control_ask_cache(const char *socket, const char *action, const char *size, char **jsonp, struct fault *f) {
	int fd = -1;
	int r = control_ask_door(socket,
		&(struct control_question){ .message = DOOR_CACHE, .text = { action, size ? size : "" }, .fdp = &fd }, NULL, f);

	if (!r && fd < 0)
		r = fault_set(f, FAULT_FILE, "no descriptor is left for what the daemon says of its cache");
	if (!r)
		r = read_pipe(fd, jsonp);
	if (fd >= 0)
		close(fd);
	if (!r && !**jsonp) {
		free(*jsonp);
		r = fault_set(f, FAULT_FILE, "the daemon cannot look after its cache folder; its log says why");
	}
	return r;
}

int control_ask_quarantine(const char *socket, bool clears, char **jsonp, struct fault *f) {
	return control_ask_door(socket, &(struct control_question){ .message = DOOR_QUARANTINE, .about = clears }, jsonp, f);
}
