/*
 * What device.device wishes for: a list of names, each with a number or a star behind it; see fusiond.conf(5).
 */
#pragma once

#include "daemon/base/config.h"

/* One device: a part of its name, and which of those that have it. 0, -errno or a fault, which ends the list. */
typedef int device_add(void *user, const char *name, uint64_t number, struct fault *f);

/* Each in turn. Where there is a star, the engine's program is asked how many there are, and waited for. */
int devices_each(const struct config *config, const struct config_source *source, device_add *add, void *user, struct fault *f)
	FAULT_MUST_USE;
/* fusiond --devices: prints a line for each, "ok" and what device_look() says, or "error" and its sentence. The exit code. */
int devices_print(const struct config_source *source);
