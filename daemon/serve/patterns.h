/*
 * Patterns that users define (daemon/plan/book.h), as sessions have them.
 *
 * Common patterns are the administrator's: those of the files (operations.h), and those that somebody who governs the
 * daemon defined while it runs, which last until the daemon ends: the supervisor tells them to the next engine. All sessions have them. A client's own
 * ones are its session's alone: no other one's plans, statistics or results know of them. Each has a switch,
 * fusion.pattern.<name>, which begins as the administrator says and which a client may choose for its session.
 *
 * A definition or a change of a switch holds from then on: what was gathered before runs under what held before.
 * Plans hold what they were made by, so a pattern may go while its graphs are queued or run; nothing is counted
 * for it any more then.
 */
#pragma once

#include "daemon/serve/request.h"

struct patterns;

/* A pattern in a session: of the same place as in the session's book. */
struct pattern_use {
	uint64_t devices;            /* on which it may be one kernel */
	uint64_t found;              /* how often it was found in graphs that ran, fused or not */
	bool own;                    /* the client's */
	bool chosen;                 /* the client has chosen the devices */
	struct pattern_counters counters;
};

/* 0 or -ENOMEM. */
int patterns_new(struct server *v, struct patterns **patternsp) FAULT_MUST_USE;
struct patterns *patterns_free(struct patterns *p);          /* returns NULL */

/* A pattern of the files. */
struct pattern_of_file {
	struct named *named;
	uint64_t devices;
};
/* These are all patterns of files; references are taken. Sessions have them at once. 0 or -ENOMEM. */
int patterns_set_files(struct patterns *p, unsigned count, const struct pattern_of_file *file) FAULT_MUST_USE;

/* A common one, as those of PATTERN. 0 or a fault. */
int patterns_define(struct patterns *p, const char *signature, const char *text, struct fault *f) FAULT_MUST_USE;
/* A text of a message, to be freed. */
int patterns_get_text(struct wire_cursor *c, const char *field, size_t most, char **textp, struct fault *f) FAULT_MUST_USE;

/* A session begins with the common ones. 0 or -ENOMEM. */
int patterns_begin(struct session *s) FAULT_MUST_USE;
void patterns_end(struct session *s);

/* fusion.pattern.<name> of a session, or for the daemon. FAULT_ARGUMENT where nobody has such a pattern. */
int patterns_configure(struct session *s, const char *name, const char *value, struct fault *f) FAULT_MUST_USE;
int patterns_set(struct server *v, const char *name, const char *value, struct fault *f) FAULT_MUST_USE;
/* Is it the name of a switch that no built-in pattern has? */
bool patterns_is_switch(const char *setting);

/* Counts a step of a plan that ran as one of a pattern. */
void pattern_counters_count(struct pattern_counters *c, const struct plan *p, uint32_t step);
/* Counts it for the patterns of users that it is of; and what was found. */
void patterns_count_step(struct session *s, const struct plan *p, uint32_t step);
void patterns_count_found(struct session *s, const struct plan *p);

/* ---- for those who tell of them: stats.c, configure.c ---- */

struct cJSON;
void patterns_add_settings(struct cJSON *json, const struct server *v, const struct session *s);
/* session NULL: of the daemon. */
void patterns_add_statistics(struct cJSON *list, const struct server *v, const struct session *s,
	struct cJSON *(*add)(struct cJSON *list, const char *name, const struct pattern_counters *c));
