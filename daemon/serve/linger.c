/* Who spins before it sleeps; see linger.h. */
#include "linger.h"

#include <sched.h>

enum {
	/* Fewer have more to do than to spin: the engine, a thread of the driver, workers that compile, and clients. */
	LINGER_PROCESSORS = 8,
	/* What clients leave: the engine's thread and the driver's spin, too, and two are for all else. */
	LINGER_LEFT = 4,
};

struct linger_limits linger_limits(uint64_t us, unsigned processors, bool flat) {
	if (flat || processors < LINGER_PROCESSORS)
		return (struct linger_limits){ .us = 0 };
	return (struct linger_limits){ .us = (uint32_t)us, .clients = processors - LINGER_LEFT };
}

/* More processors than a cpu_set_t names are more than enough. */
unsigned linger_processors(void) {
	cpu_set_t set;

	return sched_getaffinity(0, sizeof set, &set) ? CPU_SETSIZE : (unsigned)CPU_COUNT(&set);
}
