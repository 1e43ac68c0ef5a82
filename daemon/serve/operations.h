/*
 * The operations that an administrator defined for all clients: what the files of the folder engine.operations hold,
 * tried one after the other, and handed to clients by name.
 *
 * A definition that is refused says why, in the log and to whoever asks, and costs nothing else. Who asks for one that
 * is still being tried waits for the verdict. A reload reads the files again: what says the same stays as it is,
 * the rest is tried; clients keep what they were told before.
 *
 * A trial may bring a driver down, and the engine with it. So what is being tried is noted in the file `trials` beside
 * the programs, and an engine that finds it there refuses it until a reload or a change of its text.
 */
#pragma once

#include "daemon/serve/request.h"

struct operations;

/* Reads the files; a folder that is not there has none. 0 or -ENOMEM. */
int operations_new(struct server *v, struct operations **operationsp) FAULT_MUST_USE;
struct operations *operations_free(struct operations *o);    /* returns NULL */
/* Reads the files again. */
void operations_reload(struct operations *o);
/* Is there something to go on with? */
bool operations_ready(const struct operations *o);
/* Goes on with trials. */
void operations_turn(struct operations *o);
