/*
 * uthash, with an error where memory is short instead of the process's end: what HASH_ADD() found no memory for is in no table then.
 *
 * Who wants another hash function defines HASH_FUNCTION before.
 */
#pragma once

#define HASH_NONFATAL_OOM 1
#define uthash_nonfatal_oom(added) ((void)0)
#include <uthash.h>

/* Is it in the table? To be asked after each HASH_ADD(). */
#define HASH_ADDED(hh, added) ((added)->hh.tbl != NULL)
