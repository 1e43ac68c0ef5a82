/* Threads on one processor for a while; see binding.h. */
#include "binding.h"

#include <stdatomic.h>
#include <unistd.h>

uint32_t binding_here(void) {
	int processor = sched_getcpu();

	return processor < 0 ? 0 : (uint32_t)processor + 1;
}

/* Did nobody choose for the thread meanwhile? */
static bool is_ours(const struct binding *b) {
	cpu_set_t now;

	return !sched_getaffinity(0, sizeof now, &now) && CPU_COUNT(&now) == 1 && CPU_ISSET(b->at - 1, &now);
}

/* Asked once: the answer is read from a file. */
static int online(void) {
	static atomic_int count;
	int known = atomic_load_explicit(&count, memory_order_relaxed);

	if (!known) {
		known = (int)sysconf(_SC_NPROCESSORS_ONLN);
		atomic_store_explicit(&count, known, memory_order_relaxed);
	}
	return known;
}

bool binding_set(struct binding *b, uint32_t at) {
	cpu_set_t one;

	if (b->at == at)
		return at;
	if (b->at && !is_ours(b))
		b->at = 0;
	/* More processors than a cpu_set_t names are left to the scheduler. */
	if (!b->at && sched_getaffinity(0, sizeof b->before, &b->before))
		return false;
	CPU_ZERO(&one);
	if (at && at <= CPU_SETSIZE)
		CPU_SET(at - 1, &one);
	CPU_AND(&one, &one, &b->before);
	if (CPU_COUNT(&one) && CPU_COUNT(&b->before) > 1 && !sched_setaffinity(0, sizeof one, &one)) {
		b->at = at;
		return true;
	}
	binding_end(b);
	return false;
}

void binding_end(struct binding *b) {
	/* To name all there are would leave out those that come. */
	if (b->at && is_ours(b)) {
		if (CPU_COUNT(&b->before) == online())
			for (int i = 0; i < CPU_SETSIZE; i++)
				CPU_SET(i, &b->before);
		sched_setaffinity(0, sizeof b->before, &b->before);
	}
	b->at = 0;
}
