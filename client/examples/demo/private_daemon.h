/*
 * A daemon of one's own: fusiond on a socket and a cache folder that nobody else uses, in a new
 * folder that goes away with it. The demonstration and the benchmark run on one.
 *
 * It runs in a process group of its own, so that Ctrl-C reaches only the program that owns it,
 * which then stops it in order; it also ends when that program is killed. The caller's
 * environment, FUSIOND_* included, applies; configuration files do not.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

enum {
	/* Leaves room for names below it in the 107 bytes of a socket's path. */
	PRIVATE_DAEMON_FOLDER = 64,
	PRIVATE_DAEMON_PATH = PRIVATE_DAEMON_FOLDER + 16,
	PRIVATE_DAEMON_TEXT = 512,
	/* A first start builds kernels. */
	PRIVATE_DAEMON_START_MS = 120000,
};

struct private_daemon {
	pid_t pid;                          /* the supervisor; 0: not running */
	char folder[PRIVATE_DAEMON_FOLDER]; /* "" where there is none */
	char socket[PRIVATE_DAEMON_PATH];
	char log[PRIVATE_DAEMON_PATH];
	char device[PRIVATE_DAEMON_TEXT]; /* what it runs on */
};

/*
 * Starts PROGRAM and waits until it serves. -1 with a sentence in `why` where it does not, or
 * where *stop (which may be NULL) becomes nonzero; nothing is left behind then.
 */
int private_daemon_start(struct private_daemon *d, const char *program, const volatile sig_atomic_t *stop,
	char why[static PRIVATE_DAEMON_TEXT]);

/* Ends it and starts it again on the same folder, with what its cache holds. -1 as for a start. */
int private_daemon_restart(struct private_daemon *d, const char *program, const volatile sig_atomic_t *stop,
	char why[static PRIVATE_DAEMON_TEXT]);
/* Ends the daemon; its folder stays. */
void private_daemon_halt(struct private_daemon *d);

/* Stops the daemon and removes its folder. Safe to call again, and on a zeroed struct. */
void private_daemon_stop(struct private_daemon *d);

/* False once it has ended by itself; `why` then holds the last line of its log. */
bool private_daemon_alive(struct private_daemon *d, char why[static PRIVATE_DAEMON_TEXT]);

/* The path of a program that lies beside the running one. */
void private_daemon_sibling(const char *name, size_t room, char *path);
