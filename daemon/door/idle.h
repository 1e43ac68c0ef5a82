/*
 * A daemon that nobody wants ends: door.idle_exit_us after its last connection closed.
 *
 * Who wants one meanwhile must find either this one or none, never one that is about to end. So it takes the lock under
 * which libraries start one (client/place.h), the name of its socket's folder with ".lock" behind, and keeps it until
 * its process is gone; it takes its socket's name away and then looks who has still come by it: where somebody has, it
 * puts the name back and stays.
 */
#pragma once

#include <stdint.h>

#include "protocol/fault.h"

struct supervisor;

struct idle {
	uint64_t since_us;           /* nobody has been connected since; 0: somebody is */
	uint64_t again_us;           /* somebody else had the lock: not before */
	int lock;                    /* once it ends; -1 */
};

void idle_init(struct idle *i);
/* Stops the daemon where it is time to. When to call again, UINT64_MAX for no time. */
uint64_t idle_tick(struct supervisor *s, uint64_t now);
