/*
 * What a spare engine has in stock: the programs that the engine has ready and uses, so that who goes on with the spare waits for no
 * driver. An engine says which kernels it has programs of; the supervisor keeps the last of them, as bytes that it does
 * not read, and says them to each spare, which makes them ready while nobody waits.
 */
#pragma once

#include "protocol/wire.h"

struct engine;
struct stocked;

/* PROGRAM of the engine: 0 or a fault. Passed on where there is a spare. */
int stock_note(struct engine *e, struct wire_cursor *body, struct fault *f) FAULT_MUST_USE;
/* To a spare that has just become ready, what was used last first. */
void stock_tell(struct engine *e);
void stock_free(struct engine *e);
