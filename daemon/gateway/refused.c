/*
 * Lines about connections that were refused. Each is a process of its own and anybody can be refused at will, so all of them share
 * a count: within a minute a few are told, and the next minute's first line says how many were not.
 */
#include "gateway.h"

#include <inttypes.h>
#include <sys/mman.h>

#include "client/link.h"
#include "daemon/base/log.h"

enum {
	/* Lines a minute: enough to see who it is, not enough to fill a disk. */
	REFUSED_TOLD = 20,
	REFUSED_US = 60 * 1000 * 1000,
};

struct gateway_refusals {
	atomic_uint_fast64_t minute;         /* since when what follows is counted */
	atomic_uint_fast32_t told, untold;
};

struct gateway_refusals *refusals_new(void) {
	void *p = mmap(NULL, sizeof(struct gateway_refusals), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

void refusals_tell(struct gateway_refusals *r, const char *peer, const char *why) {
	uint_fast64_t now = link_now_us(), since = atomic_load(&r->minute);

	if (now - since >= REFUSED_US && atomic_compare_exchange_strong(&r->minute, &since, now)) {
		uint_fast32_t untold = atomic_exchange(&r->untold, 0);

		atomic_store(&r->told, 0);
		if (untold)
			log_notice("%" PRIuFAST32 " more connections from other machines were refused since the last line about one", untold);
	}
	if (atomic_fetch_add(&r->told, 1) < REFUSED_TOLD)
		log_notice("a client at %s was refused: %s", peer, why);
	else
		atomic_fetch_add(&r->untold, 1);
}
