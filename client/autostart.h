/*
 * A daemon of the user's own, for who names no socket on a machine without fusiond. It is started by the service manager of the
 * user where there is one that knows the unit, else by its program, which goes to the background once it serves and has none of
 * this process's descriptors. It ends by itself after a while without clients.
 *
 * One lock stands between those who start one and one that ends: however many come at once, there is one daemon.
 * FUSION_AUTOSTART=0 starts none; FUSION_DAEMON names the program.
 */
#pragma once

#include "place.h"

/*
 * The socket to connect to: the system's, or the user's own, which listens when this returns. It may have ended again by the time
 * somebody connects; not so where keptp is given: that is the lock then, to be closed once one is in (-1: there is none, since
 * nothing of one's own was meant). Waits for a daemon to start, at most timeout_ms (0: as long as a start may take). 0, -errno,
 * FAULT_CANCELLED, as the caller may be asked to stop (waiting.h), or FAULT_CONNECT that says why there is none.
 */
int autostart_find(char socket[static PLACE_PATH], unsigned timeout_ms, int *keptp, struct fault *f) FAULT_MUST_USE;
