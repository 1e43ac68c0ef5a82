/*
 * SIGHUP: the configuration is read again. What of it the supervisor cannot judge by itself, remote.*, a process looks at, whose end the loop hears
 * of; everybody is served meanwhile. What is wrong leaves all as it was. A second SIGHUP before that is done is done after it.
 */
#pragma once

#include "daemon/base/config.h"
#include "daemon/base/rules.h"
#include "daemon/door/child.h"

struct supervisor;

/* What was read, and does not hold yet. */
struct reload_fresh {
	struct config config;
	struct config_origins origins;
	struct rules rules;
};

struct reload {
	struct reload_fresh *fresh;          /* NULL: none is under way */
	bool again;                          /* the signal has come once more */
	struct child_check check;            /* the process outlives the reload where SIGKILL does not end it */
	size_t got;                          /* bytes of what it says */
	struct loop_source *source;
	uint64_t deadline_us;                /* 0: none */
	uint64_t failures;
	char error[LIMIT_SENTENCE];          /* why the last one changed nothing; empty: it did, or there was none */
};

void reload_begin(struct supervisor *s);
/* After SIGCHLD. */
void reload_reap(struct supervisor *s);
/* When to call again; UINT64_MAX: no time. */
uint64_t reload_tick(struct supervisor *s, uint64_t now);
/* At the daemon's end. */
void reload_end(struct supervisor *s);
