/*
 * The folder of the cache as a whole: how much it holds, what may go, what is damaged, and what is done when its disk is full.
 *
 *   programs/   built programs and other findings, an entry a file (cache_entry.h)
 *   notes/      what each kernel was last built from, a file a kernel (device/note.c)
 *   driver/     the driver's own cache, whose entries have seals of ours (cache_seal.h)
 *   origins/    which of those a program came from, an entry a program
 *   loading/    marks of what drivers are being asked for (device/guard.c)
 *   aside/      entries of the driver's cache that were damaged
 *   device-N/   the same once more, of further devices
 *
 * It calls no OpenCL, needs no daemon that runs, and harms none that does: files are removed whole, and what is missing is built
 * again.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/fault.h"

enum cache_kind {
	CACHE_PROGRAM,
	CACHE_NOTE,
	CACHE_DRIVER,                /* one entry of the driver's cache */
	CACHE_LEFTOVER,              /* what nobody will finish writing */
	CACHE_KINDS,
};

struct cache_sum {
	uint64_t count, bytes;
};

struct cache_usage {
	struct cache_sum held[CACHE_KINDS];  /* before anything was removed */
	struct cache_sum removed, damaged;
	struct cache_sum aside;      /* entries of the driver's cache that were put aside, of those that are still there */
	bool in_memory;              /* the driver's part, because the disk is full */
};

/* 0 or -errno; a folder that is not there holds nothing. */
int cache_folder_measure(const char *folder, struct cache_usage *u) FAULT_MUST_USE;
/* Removes leftovers, and what was used longest ago until no more than so many bytes are held. */
int cache_folder_prune(const char *folder, uint64_t most, struct cache_usage *u) FAULT_MUST_USE;
/* Reads everything and removes what is damaged. */
int cache_folder_verify(const char *folder, struct cache_usage *u) FAULT_MUST_USE;
/* The same without removing anything. */
int cache_folder_check(const char *folder, struct cache_usage *u) FAULT_MUST_USE;
/* Is it what the folder calls the part of one device of several? */
bool cache_folder_is_part(const char *name);
/* Moves an entry of the driver's cache, "AB/NAME", out of its way, where it is kept for a week. 0 or -errno. */
int cache_folder_put_aside(const char *folder, const char *entry) FAULT_MUST_USE;
/*
 * A mark is locked by whoever asks a driver for its program. One that is nobody's any more is taken away: true. cache_mark.c
 */
bool cache_mark_take(const char *path);
/* All such marks of the folder: those processes were ended on purpose, and no program is to be blamed for it. */
void cache_folder_let_off(const char *folder);

/*
 * May nobody but this user have other code run from that folder? It is his own, what lies above is his or root's, and others may write to none of
 * it; links count with all they lead over. 0, FAULT_DEVICE with a sentence that says which step it is, or -errno where it cannot be
 * walked. cache_trust.c
 */
int cache_folder_trust(const char *path, struct fault *f) FAULT_MUST_USE;

/*
 * Where the folder's disk has hardly any room left, the driver's part moves to memory: its place becomes a link to a folder
 * there, in which what it held is linked too. Some drivers abort where they cannot write. Several processes may do so at a
 * time. 0, -errno where the driver must make do, or FAULT_FILE where memory is full, too. One whose folder in memory is not this user's alone any more is taken back.
 */
int cache_folder_make_room(const char *folder, struct fault *f) FAULT_MUST_USE;
/* The reverse, at a start: once there is room again. Also where the machine has restarted, and what was in memory is gone. */
void cache_folder_return(const char *folder);

/* By what kernels were last built, as the notes say: each combination once. cache_made.c */
struct cache_made {
	char *device, *driver, *version;     /* "platform, device"; of the driver; of fusiond */
	uint64_t kernels;
};
struct cache_makers {
	struct cache_made *made;
	size_t count;
};
/* Notes that do not read are left out. 0 or -errno; to be freed either way. */
int cache_folder_makers(const char *folder, struct cache_makers *m) FAULT_MUST_USE;
void cache_makers_free(struct cache_makers *m);
