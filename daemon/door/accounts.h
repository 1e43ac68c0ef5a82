/*
 * What each user has used of the daemon, kept over restarts in one small file (door.accounts): by the hour for two days, by the day for two
 * months, and all that was before in one sum.
 *
 * The file is read once, is believed only where its size and its checksum are right, and is put aside where they are not. It is written
 * beside its place and renamed, at most once a minute and at the end. One daemon has it at a time; another one on the same folder keeps
 * its accounts to itself. There are never more than ACCOUNTS_RECORDS: then days become sums, and what is more counts for OTHERS.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/base/config.h"

enum {
	/* Of 56 bytes: at most some megabytes. */
	ACCOUNTS_RECORDS = 1 << 16,
	ACCOUNTS_PATH = 512,
};

/* Who is one too many. */
#define ACCOUNTS_OTHERS ((uid_t)-1)

struct spent {
	uint64_t device_ns;                  /* of the device, measured */
	uint64_t bytes;                      /* of shared memory, the most at a time */
	uint64_t sessions;                   /* begun */
	uint64_t refused;                    /* requests that were answered with a fault */
	uint64_t limits;                     /* of them, those that met a limit */
};

struct account_record;

struct accounts {
	struct account_record *record;       /* uthash by user and hour */
	char path[ACCOUNTS_PATH];            /* empty: they are not kept */
	int lock;                            /* -1: none */
	bool changed;
	uint32_t compacted;                  /* the hour in which days became sums to make room */
	uint64_t saved_us;
};

/* Reads what there is. What cannot be kept is told on the log, and no reason not to start. */
void accounts_open(struct accounts *a, const struct config *c);
/* Writes them, and forgets them. */
void accounts_close(struct accounts *a);
/* Adds to the current hour; of bytes the most counts. Where memory is short it is lost. */
void accounts_add(struct accounts *a, uid_t uid, const struct spent *s);
/* What a user has used since that second of 1970: whole hours, or days where it is kept by the day; 0: ever. */
struct spent accounts_sum(const struct accounts *a, uid_t uid, uint64_t since);
bool accounts_knows(const struct accounts *a, uid_t uid);
/* All users with an account, each once; to be freed. NULL with *countp 0: none, or no memory. */
uid_t *accounts_users(const struct accounts *a, unsigned *countp);
/* Writes where it is time to; when it is next, UINT64_MAX: nothing has changed. */
uint64_t accounts_tick(struct accounts *a, uint64_t now);
