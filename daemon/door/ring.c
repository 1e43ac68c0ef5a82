/*
 * What a session's ring is made of: the memory, and an eventfd by which the client wakes the engine. Both ends have it: nothing
 * but a count can be sent through one, where a descriptor that lies in a socket is closed, at its own pace, by whoever reads that.
 * The supervisor keeps the memory, to tell of the engine's end there: who sleeps at it hears of nothing else.
 *
 * The memory is not charged to the user: it is of one size, and sessions are counted.
 */
#include "client.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "protocol/message.h"
#include "protocol/ring.h"
#include "protocol/shm.h"
#include "daemon/base/descriptors.h"

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

int client_ring_end(const struct client_ring *r) {
	void *memory;
	int failed = r->memory < 0 ? 0 : shm_map(r->memory, RING_BYTES, NULL, &memory);

	if (failed || r->memory < 0)
		return failed;
	ring_end(memory);
	munmap(memory, RING_BYTES);
	return 0;
}

/* A client without one uses nng, which takes descriptors, too: but for want of these no failure is the client's to hear of. */
int client_ring_new(const struct client *c, uint64_t features, struct client_ring *r) {
	int failed;

	*r = (struct client_ring){ .memory = -1, .client = -1, .engine = -1 };
	if (!(features & FEATURE_RING) || c->supervisor->config.fusion_transport != TRANSPORT_AUTO)
		return 0;
	failed = shm_create("fusiond-ring", RING_BYTES, &r->memory);
	if (!failed) {
		r->client = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		r->engine = r->client < 0 ? -1 : fcntl(r->client, F_DUPFD_CLOEXEC, 0);
		failed = r->engine < 0 ? -errno : 0;
	}
	if (!failed)
		failed = descriptors_raise(&r->memory);
	if (!failed)
		return 0;
	if (!descriptors_short(failed))
		log_warning("session %" PRIu64 " has no ring: %s", c->session, strerror(-failed));
	client_ring_drop(r);
	return descriptors_short(failed) ? failed : 0;
}
