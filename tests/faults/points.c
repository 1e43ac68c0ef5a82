/*
 * What stands in front of the functions of points.def: where the file $FUSION_FAULTS.STAGE is there, the next call removes it and does what it
 * says: abort, crash (a bad address), kill (as the kernel does where memory is short), or hang.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "protocol/codec.h"
#include "daemon/exec/exec.h"
#include "daemon/serve/flight.h"
#include "daemon/serve/session.h"

/* Drivers have handlers of their own for the signals of faults. */
static void end_by(int number) {
	signal(number, SIG_DFL);
	raise(number);
}

static void act(const char *what) {
	if (!strcmp(what, "abort"))
		abort();
	if (!strcmp(what, "crash"))
		end_by(SIGSEGV);
	if (!strcmp(what, "kill"))
		end_by(SIGKILL);
	while (!strcmp(what, "hang"))
		pause();
}

/* It has happened once its file is gone, which only one process can remove. */
static void reach(const char *stage) {
	const char *folder = getenv("FUSION_FAULTS");
	char path[256], what[16] = "";
	ssize_t n;
	int fd;

	if (!folder)
		return;
	snprintf(path, sizeof path, "%s.%s", folder, stage);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	n = read(fd, what, sizeof what - 1);
	close(fd);
	if (n > 0 && !unlink(path))
		act(what);
}

#define POINT(stage, result, function, parameters, arguments)                                            \
	__typeof__(function) __real_##function, __wrap_##function; /* NOLINT(bugprone-reserved-identifier): the linker's names */ \
	result __wrap_##function parameters {                                                            \
		reach(#stage);                                                                           \
		return __real_##function arguments;                                                      \
	}
#pragma GCC diagnostic ignored "-Wpedantic"
#include "points.def"
#undef POINT
