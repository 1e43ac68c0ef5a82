/* The settings that a session may change for itself. */
#pragma once

#include "daemon/base/config.h"

struct fusion_settings {
	bool enabled;
	uint64_t min_elements, window_us, window_ops, window_bytes;
};

/* The part of the configuration that sessions begin with. */
struct fusion_settings fusion_settings_of(const struct config *c);
/* Changes "section.name": 0, or FAULT_ARGUMENT with a sentence that names the setting. */
int fusion_settings_change(struct fusion_settings *s, const char *name, const char *value, struct fault *f)
	FAULT_MUST_USE;
