/*
 * Small texts of the supervisor's that outlive it, in files beside the cache: whole or not there, and nobody else's.
 */
#pragma once

#include "daemon/base/str.h"

/* The whole file is another one from now on, of mode 0600; text NULL: there is none. 0 or -errno. */
int kept_write(const char *folder, const char *name, const struct str *text) FAULT_MUST_USE;
/*
 * What kept_write() wrote, to be freed: 0, -ENOENT, -EPERM where it is not this user's alone to write, -EBADMSG where it is not
 * whole, or another -errno.
 */
int kept_read(const char *folder, const char *name, char **textp) FAULT_MUST_USE;
