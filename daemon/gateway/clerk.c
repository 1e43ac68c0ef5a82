/*
 * Whose a connection is: said by a process that has no connection itself. See gateway.h.
 *
 * It is forked beside the connection's process, and hears one packet of it: the certificates that the other side has shown. Whether an authority has signed
 * them, and whose they are, it finds out itself, so that a connection's process cannot be anybody of whom it has no certificate; by tcp there is one
 * user alone. Then it hands the supervisor a connection of the door, which the process has the other end of, and ends.
 */
#include "gateway.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "protocol/limits.h"
#include "protocol/message.h"
#include "protocol/shm.h"
#include "protocol/wire.h"
#include "client/link.h"

enum claim { CLAIM_ENTER, CLAIM_REFUSED };

/* That is no MESSAGE_FAULT. */
enum { ANSWER_ENTERED = 1 };

static int send_writer(int fd, struct wire_writer *w, int passed) {
	int r = wire_finish(w);

	if (!r)
		r = packet_send(fd, w->buffer.data, w->buffer.size, passed, MSG_NOSIGNAL);
	wire_writer_free(w);
	return r;
}

/* ---- of the connection's process ---- */

/* [ANSWER_ENTERED] or a fault. */
static int read_answer(const void *bytes, size_t size, struct fault *f) {
	struct fault told = { .code = 0 };
	struct wire_reader reader;
	struct wire_cursor c;
	uint64_t id;
	int r = wire_open(&reader, bytes, size, f);

	if (r)
		return r;
	c = wire_root(&reader);
	r = wire_get_uint(&c, "answer", UINT64_MAX, &id, f);
	if (!r && id == MESSAGE_FAULT)
		r = message_get_fault(&c, &told, f);
	if (!r && told.code) {
		*f = told;
		r = told.code;
	}
	wire_close(&reader);
	return r;
}

int clerk_enter(int clerk, const void *chain, size_t size, int *doorp, struct fault *f) {
	unsigned char answer[CLERK_ANSWER];
	struct wire_writer w;
	ssize_t n;
	int r;

	wire_writer_init(&w);
	wire_put_array(&w, 3);
	wire_put_uint(&w, CLAIM_ENTER);
	wire_put_uint(&w, size);
	wire_put_bin(&w, chain, size);
	r = send_writer(clerk, &w, -1);
	if (r)
		return r;
	n = packet_receive(clerk, answer, sizeof answer, doorp, 0);
	if (n <= 0)
		return fault_set(f, FAULT_CONNECT, "the gateway is ending");
	r = read_answer(answer, (size_t)n, f);
	if (!r && *doorp < 0)
		r = fault_set(f, FAULT_CONNECT, "the gateway has no descriptor left");
	return r;
}

void clerk_refused(int clerk, const char *why) {
	struct wire_writer w;

	wire_writer_init(&w);
	wire_put_array(&w, 2);
	wire_put_uint(&w, CLAIM_REFUSED);
	wire_put_text(&w, why);
	(void)send_writer(clerk, &w, -1);
}

/* ---- of the clerk ---- */

/* Those that the system knows the user in; this process may wait for a directory of another machine. */
static void put_groups(struct wire_writer *w, uid_t uid) {
	const struct passwd *user = getpwuid(uid);
	gid_t group[LIMIT_GROUPS];
	int count = LIMIT_GROUPS;

	if (!user || getgrouplist(user->pw_name, user->pw_gid, group, &count) < 0)
		count = 0;
	wire_put_array(w, (uint32_t)count);
	for (int i = 0; i < count; i++)
		wire_put_uint(w, group[i]);
}

/* The supervisor gets one end of a connection of the door, the process the other one. */
static int hand_over(const struct gateway_clerk *c, uid_t uid, const struct link_peer *p, int *doorp) {
	char peer[LINK_NAME + GATEWAY_PEER + 8];
	struct wire_writer w;
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	snprintf(peer, sizeof peer, "%s%s%s", p->name, *p->name ? " at " : "", c->peer);
	wire_writer_init(&w);
	wire_put_array(&w, 4);
	wire_put_uint(&w, CONTROL_REMOTE);
	wire_put_uint(&w, uid);
	wire_put_text(&w, peer);
	put_groups(&w, uid);
	r = send_writer(c->control, &w, pair[1]);
	close(pair[1]);
	if (r)
		close(pair[0]);
	else
		*doorp = pair[0];
	return r;
}

static int enter(const struct gateway_clerk *c, struct wire_cursor *claim, int *doorp, struct fault *f) {
	struct link_peer peer = { "", "" };
	const void *chain;
	uint64_t size;
	uid_t uid;
	int r = wire_get_uint(claim, "size", CLERK_CHAIN, &size, f);

	if (!r)
		r = wire_get_bin(claim, "chain", size, &chain, f);
	if (!r && c->tls)
		r = link_keys_verify(c->keys, chain, size, &peer, f);
	if (!r)
		r = remote_user(c->config, &peer, c->tls, &uid, f);
	if (!r)
		r = hand_over(c, uid, &peer, doorp);
	if (r < 0)
		r = fault_set(f, FAULT_CONNECT, "the supervisor cannot be reached: %s", strerror(-r));
	return r;
}

static void answer(const struct gateway_clerk *c, int r, int door, const struct fault *f) {
	struct wire_writer w;

	wire_writer_init(&w);
	if (r) {
		wire_put_fault(&w, f);
	} else {
		wire_put_array(&w, 1);
		wire_put_uint(&w, ANSWER_ENTERED);
	}
	(void)send_writer(c->session, &w, door);
}

/* The supervisor counts them, the administrator reads a line. */
static void tell_refused(const struct gateway_clerk *c, const char *why) {
	struct wire_writer w;
	int r;

	refusals_tell(c->refusals, c->peer, why);
	wire_writer_init(&w);
	wire_put_array(&w, 1);
	wire_put_uint(&w, CONTROL_REMOTE_REFUSED);
	r = send_writer(c->control, &w, -1);
	if (r)
		log_debug("a refusal could not be counted: %s", strerror(-r));
}

static void hear(const struct gateway_clerk *c, const void *bytes, size_t size) {
	struct wire_reader reader;
	struct wire_cursor claim;
	struct fault f = { 0 };
	int door = -1;
	uint64_t kind;
	int r = wire_open(&reader, bytes, size, &f);

	if (r)
		return;
	claim = wire_root(&reader);
	r = wire_get_uint(&claim, "claim", CLAIM_REFUSED, &kind, &f);
	if (!r && kind == CLAIM_REFUSED)
		r = wire_copy_text(&claim, "why", f.text, sizeof f.text, &f);
	else if (!r)
		r = enter(c, &claim, &door, &f);
	if (r || kind == CLAIM_REFUSED)
		tell_refused(c, f.text);
	if (kind == CLAIM_ENTER)
		answer(c, r, door, &f);
	wire_close(&reader);
}

void clerk_serve(struct gateway_clerk *c) {
	unsigned char *bytes = malloc(CLERK_PACKET);
	int fd = -1;
	ssize_t n = bytes ? packet_receive(c->session, bytes, CLERK_PACKET, &fd, 0) : -ENOMEM;

	if (n > 0)
		hear(c, bytes, (size_t)n);
	_exit(EXIT_SUCCESS);
}
