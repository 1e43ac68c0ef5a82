/*
 * What a session's ring is made of: the memory, and a pair of sockets, of which the client gets one and the
 * engine the other. The supervisor keeps the memory, to tell of the engine's end there: who sleeps at it hears of nothing else.
 *
 * The memory is not charged to the user: it is of one size, and sessions are counted.
 */
#include "client.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "protocol/message.h"
#include "protocol/ring.h"
#include "protocol/shm.h"

static void drop(int *fdp) {
	if (*fdp >= 0)
		close(*fdp);
	*fdp = -1;
}

void client_ring_drop(struct client_ring *r) {
	drop(&r->memory);
	drop(&r->client);
	drop(&r->engine);
}

void client_ring_end(const struct client_ring *r) {
	void *memory;

	if (r->memory < 0 || shm_map(r->memory, RING_BYTES, NULL, &memory))
		return;
	ring_end(memory);
	munmap(memory, RING_BYTES);
}

/* A client without one uses nng: no failure is the client's to hear of. */
bool client_ring_new(const struct client *c, uint64_t features, struct client_ring *r) {
	int pair[2], failed;

	*r = (struct client_ring){ .memory = -1, .client = -1, .engine = -1 };
	if (!(features & FEATURE_RING) || c->supervisor->config.fusion_transport != TRANSPORT_AUTO)
		return false;
	failed = shm_create("fusiond-ring", RING_BYTES, &r->memory);
	if (!failed && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair))
		failed = -errno;
	if (failed) {
		log_warning("session %" PRIu64 " has no ring: %s", c->session, strerror(-failed));
		drop(&r->memory);
		return false;
	}
	r->client = pair[0];
	r->engine = pair[1];
	return true;
}
