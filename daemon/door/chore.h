/*
 * What takes long and needs nothing of the supervisor's but its rights - looking after the cache folder - is done by a process of its own, whose
 * output goes to the client by a pipe: the supervisor waits for neither.
 */
#pragma once

#include <sys/types.h>

#include "protocol/wire.h"

enum {
	/* At a time. Each reads a folder of some hundred megabytes. */
	CHORES = 4,
};

struct client;
struct supervisor;

struct chores {
	pid_t pid[CHORES];           /* 0: none */
};

/* DOOR_CACHE: 0, a fault or -errno. */
int client_asks_cache(struct client *c, struct wire_cursor *body, struct fault *f) FAULT_MUST_USE;
/* After SIGCHLD. */
void chores_reap(struct supervisor *s);
