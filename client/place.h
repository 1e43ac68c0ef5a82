/*
 * Where the daemon's socket is, for who names none: the system's, or, where the machine has no fusiond, the user's own.
 *
 * The system's counts as there while its folder is: a service that is being restarted keeps the folder and must not get
 * rivals. A user's own daemon has its socket, its log and the lock under which it is started and ends in a folder that
 * only that user can write: $XDG_RUNTIME_DIR, or /tmp/fusiond-UID. A program that runs with another user's rights
 * believes no variable, and has the system's daemon alone.
 */
#pragma once

#include <stdbool.h>
#include <sys/un.h>

#include "protocol/fault.h"

#define PLACE_SYSTEM_FOLDER "/run/fusiond"
#define PLACE_SYSTEM PLACE_SYSTEM_FOLDER "/door"

enum {
	/* Of a socket's address. */
	PLACE_PATH = 108,
};

struct own_place {
	char base[PLACE_PATH];       /* the folder */
	char socket[PLACE_PATH];     /* BASE/fusiond/door */
	char lock[PLACE_PATH];       /* BASE/fusiond.lock: of the folder of the socket, as the daemon derives it, too */
	char log[PLACE_PATH];
	bool runtime;                /* the folder is $XDG_RUNTIME_DIR */
};

/* Is there a system's fusiond, or one that is being restarted, or must it be taken for there? */
bool place_of_system(void);
/* The user's own; `make` makes the folder where it is missing. 0, or FAULT_CONNECT that says why it cannot be trusted. */
int place_of_user(struct own_place *p, bool make, struct fault *f) FAULT_MUST_USE;
/* The address of a socket: 0, or FAULT_ARGUMENT where the path is longer than one may be. */
int place_address(const char *path, struct sockaddr_un *address, struct fault *f) FAULT_MUST_USE;
/* Does somebody listen at this socket? */
bool place_answers(const char *socket);
/* What to connect to where nothing is to be started: the user's own where one answers and the machine has none, else the system's. */
void place_now(char socket[static PLACE_PATH]);

/* connect() said EACCES for this socket: FAULT_PERMISSION, with the group whose members are let in. */
int place_refuse(const char *path, struct fault *f);
