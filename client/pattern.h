/*
 * Fusion patterns that a session defined, and the switches of patterns that it set: another engine has them, too.
 */
#pragma once

#include <stdbool.h>

#include "protocol/fault.h"

struct fusion_context;
struct pattern;

#define PATTERN_SWITCH "fusion.pattern."

/* Is the setting a switch of a pattern? Those are told once the patterns are there. */
bool pattern_is_switch(const char *setting);
/* Another engine has the session: it is told of all. */
int own_patterns_resume(struct fusion_context *c, struct fault *f) FAULT_MUST_USE;
/* Frees all of a list; returns NULL. */
struct pattern *own_patterns_free(struct pattern *first);
