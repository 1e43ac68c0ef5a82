/*
 * Another session with the daemon of a context, with the same engine or another one. The context may be closed meanwhile, so all that finds the
 * daemon is kept beside it.
 */
#pragma once

#include <stdint.h>

#include "error.h"

struct fusion_context;

struct elsewhere {
	uint64_t number, devices;            /* the context's engine, and how many there are */
	uint32_t timeout_ms;
	char *socket, *name, *authority, *certificate, *key;
};

/* Under the context's lock. elsewhere_free() also on failure. */
int elsewhere_of(const struct fusion_context *c, struct elsewhere *e) FAULT_MUST_USE;
void elsewhere_free(struct elsewhere *e);
/* A context with that engine: the code of the thread's error, which is fusion_open()'s. */
int elsewhere_open(const struct elsewhere *e, uint64_t engine, fusion_context **contextp) FAULT_MUST_USE;
