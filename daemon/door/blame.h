/*
 * Whose fault it was: which graphs were under way when an engine died, who is suspected, who is refused, and a report for a person.
 *
 * A graph that was being planned, or was with the device alone, is to blame. Of several that were with the device together, as those
 * of one launch, each is suspected: the next engine runs it alone, which tells. One that ended two engines so is refused to its user, on this device with this
 * driver, for engine.quarantine_us, or until somebody clears it. Suspects are in a file beside the cache, too, so that a restart of the daemon
 * makes nobody innocent.
 *
 * A graph that differs by one operation is another one, so ends count for users, too, for engine.quarantine_us each. A user whose graphs were there twice
 * has the device alone whenever he runs something, which makes the next end a certain one; one who ended engine.user_ends of them alone
 * is refused. Who was only beside him is not.
 */
#pragma once

#include "protocol/hash.h"
#include "daemon/door/engines.h"

struct user;

/* Takes what a daemon before this one knew, before the first engine starts. */
void blame_open(struct supervisor *s);
/* The engine is dead, its catalogue as it left it. Writes the report, and counts. */
void blame_ended(struct engine *e, const char *why);
/* The engine read a request of this session when it ended. */
void blame_reader(struct engine *e, uint64_t session);
/* Closes the sessions of who is refused, and tells them. */
void blame_close(struct supervisor *s);
/* 0, or FAULT_QUARANTINE: the user's graphs have ended too many engines. */
int blame_admit(const struct supervisor *s, const struct user *user, struct fault *f) FAULT_MUST_USE;
/* Tells a new engine of all suspects, before any session. */
void blame_tell(struct engine *e);
/* The engine's INNOCENT: 0, or a fault of the packet. */
int blame_innocent(struct engine *e, struct wire_cursor *body, struct fault *f) FAULT_MUST_USE;
void blame_free(struct engine *e);

/* All suspects of all engines as JSON to be freed with cJSON_free(), or NULL. */
/* How many graphs are refused. */
unsigned blame_refused(const struct supervisor *s);
char *blame_json(const struct supervisor *s);
void blame_clear(struct supervisor *s);
