/*
 * A timeline in Perfetto's own format, for ui.perfetto.dev and trace_processor, which asks it by SQL.
 *
 * A file is a stream of packets: those that say what a track is called, and the two ends of each slice. Slices of one track
 * may only nest, so what overlaps goes to tracks side by side, which Perfetto draws as one where they have one name.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include <cjson/cJSON.h>

#include "protocol/fault.h"

struct perfetto;

/* Writes to `out`, which stays the caller's. 0 or -ENOMEM. */
int perfetto_new(FILE *out, struct perfetto **perfettop) FAULT_MUST_USE;
/* Returns NULL. */
struct perfetto *perfetto_free(struct perfetto *p);

/* The name of a process; it may be told at any time, and counts for the whole trace. */
void perfetto_process(struct perfetto *p, uint64_t process, const char *name);

struct perfetto_slice {
	uint64_t process;
	const char *track, *name;
	uint64_t begin_ns, end_ns;
	const cJSON *arguments;      /* numbers and texts by their names; NULL: none */
};
/* Those of one track come in the order of their ends. 0 or -ENOMEM. */
int perfetto_slice(struct perfetto *p, const struct perfetto_slice *s) FAULT_MUST_USE;
