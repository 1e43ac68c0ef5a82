/*
 * Graphs under way, as the catalogue has them: what was being planned and what was with the device when an engine died is
 * known to the supervisor, and so are the graphs of the last runs, as text.
 *
 * The supervisor tells of suspects: graphs of a user that were with the device when an engine before this one ended. Such a one
 * goes alone, so that an engine that dies again died of it, and one that runs to its end is suspected no more; one that ended two engines
 * is refused.
 */
#pragma once

#include "daemon/serve/server.h"

/* What the supervisor says of one. */
struct suspect_facts {
	uint64_t key[2];             /* graph_hash(); 0: of any graph of the user */
	uid_t uid;
	bool refused;
	uint64_t seconds;            /* how long that holds; 0: not any more */
};

/* The catalogue is there: hashes of graphs mean the same as in engines before. */
void flight_open(struct server *v);
void flight_close(struct server *v);
/* 0 or -ENOMEM. */
int flight_suspect(struct server *v, const struct suspect_facts *facts) FAULT_MUST_USE;

/*
 * The graph is to be planned: it is noted (*notep, 0 where there is no place), and *alonep says whether it is to go alone. 0, or
 * FAULT_QUARANTINE.
 */
int flight_begin(struct session *s, const struct graph *g, uint32_t *notep, bool *alonep, struct fault *f) FAULT_MUST_USE;
/* Another thread begins to plan it. */
void flight_planning(struct session *s, uint32_t note);
/* Another thread begins to plan a graph that will not run: the note, or 0. */
uint32_t flight_beside(struct session *s, const struct graph *g);
/* It has a plan, or none. */
void flight_planned(struct session *s, uint32_t note, const struct plan *p);
/* It will not run. */
void flight_dropped(struct session *s, uint32_t note);
/* Its session ends: what the device has of it stays noted until nothing of the session runs any more. */
void flight_orphaned(struct run *run);
void flight_left(struct server *v, uint64_t session);
/* The run has passed the device, without a fault; it is over, however. */
void flight_passed(const struct run *run);
void flight_ended(const struct run *run);
