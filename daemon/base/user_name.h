/*
 * A user as lines that people read name him: "alice (1000)", or "1000" where this machine's own /etc/passwd has no such user. No
 * directory of another machine is asked: who writes a line must not wait for it.
 */
#pragma once

#include <sys/types.h>

enum {
	USER_NAME = 64,
};

/* Returns text. */
char *user_name(uid_t uid, char text[static USER_NAME]);
