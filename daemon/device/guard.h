/*
 * What is loaded from the driver's own cache is what was written there.
 *
 * Some drivers keep machine code in files that they load without a look, and abort, or compute something else, where one was cut short. So
 * each entry has a seal (base/cache_seal.h), and the cache remembers which entry a program came from: it is checked before the driver is
 * asked for the program, and put aside where it differs. Nobody but the driver knows the name of an entry before it is loaded; so what
 * no seal covers is believed only if all of it was written since the folder was opened. Else, and after a process has ended
 * over a program, its text is told apart by a number, which makes it another program to the driver: what it may have left is never met again.
 *
 * A mark says which programs a process is asking its driver for. It goes with the process only if that comes back; the next engine finds
 * it (guards_settle()). At a stop the supervisor ends workers in the middle of it: it takes their marks away (cache_folder_let_off()).
 */
#pragma once

#include "state.h"

enum {
	/* "AB/" and as many letters as a driver's hash has, with room. */
	GUARD_ENTRY = 256,
};

struct guard {
	const struct device *device;
	struct cache_key key;
	uint32_t again;                       /* how often the program was told apart */
	bool sealed;                          /* the entry is known, and as it was sealed */
	char entry[GUARD_ENTRY];              /* below the driver's folder, or "" */
	int mark;                             /* descriptor, or -1 */
	uintptr_t newest;                     /* of the objects loaded from there before: its address */
};

/* Before the driver is asked for the program of this key: checks, and marks. */
void guard_begin(struct guard *g, const struct device *d, const struct cache_key *key);
/* The text that the driver is to be given: *copyp is to be freed. NULL: memory is short. */
const char *guard_text(const struct guard *g, const char *source, char **copyp);
/* The driver has come back. Also after guard_end(), or of a guard that is all zeros: nothing. */
void guard_leave(struct guard *g);
/* It has been launched. Seals; false where what was loaded is not to be believed: the program has been told apart, and is to be built again. */
bool guard_end(struct guard *g);
/* A process has ended over the program, or it hung. */
void guard_blame(const struct device *d, const struct cache_key *key);
/* At an engine's start: what others were loading when they ended. */
void guards_settle(const struct device *d);
