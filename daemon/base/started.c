/* The arguments of programs that the supervisor starts; see started.h. */
#include "started.h"

#include <stdlib.h>

enum {
	/* No letters; above those of the programs themselves. */
	KEY_CONTROL = 0x1000,
	KEY_URL,
};

static const struct argp_option options[] = {
	{ "control", KEY_CONTROL, "FD", 0, "Socket to the supervisor", 0 },
	{ "url", KEY_URL, "URL", 0, "Where to listen, or what the supervisor calls this process", 0 },
	{ "config", 'c', "FILE", 0, "Read FILE instead of the standard ones", 0 },
	{ "set", 'S', "SECTION.NAME=VALUE", 0, "Set a setting", 0 },
	{ 0 },
};

static error_t parse(int key, char *value, struct argp_state *state) {
	struct started *s = state->input;

	switch (key) {
	case KEY_CONTROL:
		s->control = atoi(value);
		return 0;
	case KEY_URL:
		s->url = value;
		return 0;
	case 'c':
		s->source.file = value;
		return 0;
	case 'S':
		if (config_flag(&s->source, value))
			argp_failure(state, EXIT_FAILURE, 0, "too many settings on the command line");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp started_argp = { .options = options, .parser = parse };

void started_refuse(const struct argp_state *state) {
	argp_failure(state, EXIT_FAILURE, 0, "fusiond starts this program; run fusiond instead");
}
