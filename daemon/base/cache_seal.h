/*
 * Seals: checksums of ours over what a driver keeps in its own cache, which checks nothing of it and aborts on a file that was cut short.
 *
 * A seal lies in the driver's entry itself, so it is pruned, moved and shared with it. It covers what is there when it is written; a file
 * that the driver adds later is not believed, and removed where the seal is checked: whoever needs it makes it again. What a driver
 * touches for its own bookkeeping is left out.
 */
#pragma once

#include <time.h>

#include "protocol/fault.h"

/* 0: all is as it was sealed; -ENOENT: there is no seal, or no entry; -EBADMSG: something differs; or another errno. */
int cache_seal_check(const char *entry) FAULT_MUST_USE;
/* The same for who only looks: what the seal does not know stays. */
int cache_seal_look(const char *entry) FAULT_MUST_USE;
/*
 * Seals what is there, if each file is as the seal knows it or was written since then: so what an earlier process left half is not taken for
 * what this one made. 0, -EBADMSG, -ENOENT where there is no file, or another errno.
 */
int cache_seal_renew(const char *entry, const struct timespec *since) FAULT_MUST_USE;
