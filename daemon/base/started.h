/*
 * What every program that the supervisor starts is told: the socket to it, a name, and the settings. For argp, as a child whose
 * input is a struct started, which the parent hands over in ARGP_KEY_INIT.
 */
#pragma once

#include <argp.h>

#include "daemon/base/config.h"

struct started {
	struct config_source source;
	int control;                 /* -1: none */
	const char *url;             /* where to listen, or what the supervisor calls it; NULL: none */
};

extern const struct argp started_argp;

/* Ends the program: nobody but the supervisor starts it. */
void started_refuse(const struct argp_state *state);
