/*
 * The shared memory of a session, as the client sees it.
 *
 * Own arenas hold what the client uploads; it lays them out (protocol/range.h). The engine's
 * arenas hold results; each is mapped when a location in it is first met, and the one not used for
 * longest is unmapped when there are many. Numbers of arenas are not used again in a session.
 *
 * Uploaded memory belongs to the daemon from the moment its `load` is sent until it is listed as
 * freed in a reply; only then it is used again.
 *
 * With a daemon on another machine own arenas are memory of this process alone, of the same layout as the daemon's, and what
 * is uploaded is sent (flush.c); there are no others, because results come with their answers (read.c).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "protocol/limits.h"
#include "protocol/range.h"
#include "protocol/wire.h"

struct fusion_context;

struct arena {
	uint32_t id;
	bool own;
	uint32_t pins;               /* mapped arrays and copies under way: must stay mapped */
	uint64_t bytes;
	uint64_t used;               /* clock of the last use */
	char *base;
	struct range *range;         /* own ones */
};

/* Memory of one `load`. */
struct upload;

struct arenas {
	struct arena *list[LIMIT_ARENAS];
	unsigned count;
	uint64_t clock;
	uint64_t owned;              /* bytes of the own arenas */
	uint64_t returning;          /* bytes of uploads that no value needs and the daemon still has */
	struct upload *uploads;      /* by key */
};

/* Where an upload lies. */
struct upload_place {
	uint64_t key;                /* not 0 */
	uint32_t arena;
	uint64_t offset;
	void *memory;
};

void arenas_free(struct arenas *a);
/* The session ends, and the daemon gives its memory back: what is still mapped becomes memory of this process alone, with the same bytes. */
void arenas_keep_mapped(struct arenas *a);

/*
 * Takes memory for an upload of these bytes. May wait for the daemon to give memory back (the lock
 * is given up while it waits).
 */
int upload_take(struct fusion_context *c, uint64_t bytes, struct upload_place *placep,
	struct fault *f) FAULT_MUST_USE;
/* Gives memory back that was never sent. */
void upload_give(struct arenas *a, uint64_t key);
/* Where an upload that was taken lies. */
void *upload_memory(const struct arenas *a, uint32_t arena, uint64_t offset);
/* The arena that it lies in, which is now pinned. */
struct arena *upload_pin(struct arenas *a, uint32_t arena);
uint64_t upload_key(uint32_t arena, uint64_t offset);
/* No value needs the memory any more; the daemon will list it as freed. */
void upload_abandon(struct arenas *a, uint64_t key);
/* The memory goes to the daemon now. */
void upload_sent(struct arenas *a, uint64_t key);
/* Another engine has the session: what is in use of uploads is to be told anew, by this and by what arenas_resumed() reads. */
void arenas_unused(struct arenas *a);
void upload_used(struct arenas *a, uint32_t arena, uint64_t offset);
/* Reads [arena, offset, ...], what the engine has of uploads: other memory that was sent is free again. */
int arenas_resumed(struct arenas *a, struct wire_cursor *c, struct fault *f) FAULT_MUST_USE;
/* Reads a reply's [arena, offset, ...]. */
int arenas_freed(struct arenas *a, struct wire_cursor *c, struct fault *f) FAULT_MUST_USE;

/* The memory of a location that a reply named, in an arena that is now pinned. */
int arena_locate(struct fusion_context *c, uint64_t id, uint64_t offset, uint64_t bytes,
	struct arena **arenap, void **memoryp, struct fault *f) FAULT_MUST_USE;
void arena_unpin(struct arena *a);
/* Nothing of ours lies in it any more: unmaps it, where it is mapped and nobody is at it. */
void arena_forget(struct arenas *a, uint32_t id);
