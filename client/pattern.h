/*
 * Fusion patterns that a session defined, and the switches of patterns that it set: another engine has them, too.
 */
#pragma once

#include <stdbool.h>

#include "protocol/fault.h"

struct fusion_context;

struct own_pattern {
	struct own_pattern *next;
	char *signature, *text;
};

#define PATTERN_SWITCH "fusion.pattern."

/* Is the setting a switch of a pattern? Those are told once the patterns are there. */
bool pattern_is_switch(const char *setting);
/* Another engine has the session: it is told of all. */
int own_patterns_resume(struct fusion_context *c, struct fault *f) FAULT_MUST_USE;
/* The one of this name, or NULL. */
const struct own_pattern *own_pattern_find(const struct own_pattern *first, const char *name);
/* The same once more, in the same order. */
int own_patterns_copy(const struct own_pattern *first, struct own_pattern **copyp) FAULT_MUST_USE;
/* Frees all of a list; returns NULL. */
struct own_pattern *own_patterns_free(struct own_pattern *first);
