/*
 * fusiond --warm: the engine's program fills the cache and ends. It takes this process's place: nobody is served meanwhile, and
 * daemons may run on the folder.
 */
#include "child.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	WARM_ARGUMENTS = 8 + 2 * CONFIG_FLAGS,
};

int child_warm(const struct config_source *source) {
	const char *argument[WARM_ARGUMENTS] = { "fusiond-engine", "--warm" };
	char program[PATH_MAX];
	struct config config;
	struct fault f;
	int r = config_load(&config, source, &f);

	if (!r)
		r = child_program(&child_engine, &config, program, &f);
	if (!r) {
		child_settings(argument, 2, source);
		execv(program, (char *const *)(uintptr_t)argument);
		r = -errno;
	}
	fprintf(stderr, "fusiond: %s\n", r > 0 ? f.text : strerror(-r));
	return EXIT_FAILURE;
}
