/*
 * A file of the cache of programs: a header (magic, key, size, checksum) and bytes. It is written beside its place and
 * renamed, so a reader meets a whole file or none, also where several daemons share the folder or one is killed.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "protocol/fault.h"

struct cache_key {
	uint64_t low, high;
};

enum {
	/* A program of 256 values is 200 KiB on PoCL; anything near this is not a program. */
	CACHE_ENTRY_BYTES = 64 << 20,
	/* Digits of a key as the name of a file, and the suffix of one being written: a dot and mkstemp's six. */
	CACHE_NAME_DIGITS = 32,
};

/* *bytesp of malloc. 0, -ENOENT, -EBADMSG where it is not what was stored, or another errno. A reader's time is kept. */
int cache_entry_read(const char *folder, const struct cache_key *key, void **bytesp, size_t *sizep) FAULT_MUST_USE;
/* The same for who only looks: it counts as no use. */
int cache_entry_peek(const char *folder, const struct cache_key *key, void **bytesp, size_t *sizep) FAULT_MUST_USE;
int cache_entry_write(const char *folder, const struct cache_key *key, const void *bytes, size_t size) FAULT_MUST_USE;
void cache_entry_remove(const char *folder, const struct cache_key *key);
/* The key that a file's name says; -EINVAL where it is none. */
int cache_entry_key(const char *name, struct cache_key *key) FAULT_MUST_USE;
