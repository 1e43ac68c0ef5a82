/*
 * What administrators change while the daemon runs - settings of everybody, patterns of everybody - is the engine's to check and
 * to do, so an engine that has done it says so, and the supervisor tells it to the engine after that one. It lasts as long
 * as the daemon; settings also end with a reload, which puts those of the files in their place.
 */
#pragma once

#include "protocol/message.h"
#include "protocol/wire.h"

struct engine;
struct order;

/* ORDER of the engine: 0 or a fault. */
int orders_note(struct engine *e, struct wire_cursor *body, struct fault *f) FAULT_MUST_USE;
/* The supervisor's own order, told at once where the engine is ready. 0 or -ENOMEM. */
int orders_add(struct engine *e, enum order_kind kind, const char *name, const char *text) FAULT_MUST_USE;
/* To an engine that has just begun to serve, in the order in which they were given. */
void orders_tell(struct engine *e);
/* The configuration was read again. */
void orders_forget_settings(struct engine *e);
void orders_free(struct engine *e);
