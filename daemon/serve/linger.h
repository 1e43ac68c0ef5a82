/*
 * For how long the engine's thread, and the clients that wait for it, spin before they sleep. Why: client/linger.h.
 *
 * Not where kernels run on the same processors, nor on a machine that has too few of them: a thread of the driver spins, too,
 * for as long as a kernel runs, so that with the engine's thread and one client three are busy.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct linger_limits {
	uint32_t us;             /* 0: all sleep */
	uint32_t clients;        /* with more of them connected, they sleep */
};

/* `us` as configured. `processors`: that the daemon may use. `flat`: kernels run on them. */
struct linger_limits linger_limits(uint64_t us, unsigned processors, bool flat);
unsigned linger_processors(void);
