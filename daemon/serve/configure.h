/* The settings that a session may change for itself. */
#pragma once

#include "daemon/base/config.h"
#include "daemon/base/op_pairs.h"
#include "daemon/base/traits.h"
#include "daemon/plan/knobs.h"

struct fusion_settings {
	uint64_t enabled;                    /* the devices on which fusion is on */
	bool fast;
	uint64_t min_elements, window_us, window_ops, window_bytes;
	unsigned tracker_share;
	bool together;
	bool recurring;
	unsigned explain_runs;
	uint64_t timeout_us;
	unsigned weight, priority;
	struct knob_pins pins;
	struct op_pairs apart;
	uint64_t pattern[PATTERN_COUNT];     /* fusion.pattern.*: the devices on which it is on */
};

/* The part of the configuration that sessions begin with. */
struct fusion_settings fusion_settings_of(const struct config *c);
bool fusion_settings_enabled(const struct fusion_settings *s, enum strategy strategy);
/* The patterns that are off on a device of this strategy. */
pattern_set fusion_settings_off(const struct fusion_settings *s, enum strategy strategy);
/* Changes "section.name": 0, or FAULT_ARGUMENT with a sentence that names the setting. */
int fusion_settings_change(struct fusion_settings *s, const char *name, const char *value, struct fault *f)
	FAULT_MUST_USE;
