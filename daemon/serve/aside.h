/*
 * Work beside the engine's thread: what takes long, and reads nothing that anybody changes meanwhile, since it has copies or nobody else goes on with it.
 *
 * One thread does one job at a time. The others wait with the engine, so only the job that is being done is seen by both threads. Users come
 * in turns, and of one user the oldest job: who asks for much holds up others for one job at a time. Where no thread is to be had, the engine's does it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "protocol/fault.h"

struct aside;
struct inbox;

/* Part of what is to be done; its owner keeps it until `done`, or until aside_withdraw() gave it back. */
struct aside_job {
	struct aside_job *previous, *next;
	uid_t uid;                                   /* for whom */
	void (*begin)(struct aside_job *j);          /* on the engine's thread, right before the work; NULL: nothing */
	void (*work)(struct aside_job *j);           /* on the other thread */
	void (*done)(struct aside_job *j);           /* on the engine's thread, in aside_turn(); or, with the work undone, in aside_free() */
};

/* The inbox is rung when a job was done. 0 or -ENOMEM. */
int aside_new(struct inbox *inbox, struct aside **asidep) FAULT_MUST_USE;
/* Every job has its end, those that were not begun without their work. NULL is allowed; returns NULL. */
struct aside *aside_free(struct aside *a);
void aside_ask(struct aside *a, struct aside_job *j);
/* True: it was not begun, and will not be. False: it is being done, and its end will be told. */
bool aside_withdraw(struct aside *a, struct aside_job *j);
/* Tells of the job that was done, and begins another one. */
void aside_turn(struct aside *a);
/* Is there any? */
bool aside_busy(const struct aside *a);
