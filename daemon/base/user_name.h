/*
 * A user as lines that people read name him: "alice (1000)", or "1000" where this machine's own /etc/passwd has no such user. No
 * directory of another machine is asked: who writes a line must not wait for it.
 */
#pragma once

#include <sys/types.h>

#include "protocol/fault.h"

enum {
	USER_NAME = 64,
};

/* Returns text. */
char *user_name(uid_t uid, char text[static USER_NAME]);
/* A fault: who may do that, which a user may not who is neither root nor the daemon's nor of the group of administrators; "": there is none. */
int user_refuse(const char *admins, const char *what, struct fault *f) FAULT_MUST_USE;
