/*
 * How many devices have a name, which the supervisor cannot know: it has no OpenCL. The engine's program is run once
 * and prints it. Only before the daemon serves anybody, for it is waited for.
 */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	/* Digits, and the end of the line. */
	COUNT_TEXT = 32,
	COUNT_ARGUMENTS = 8 + 2 * CONFIG_FLAGS,
};

/* In the child, between fork and exec: only calls that are safe there. */
static void become_counter(const char *program, const char *const *argument, int out) {
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (dup2(out, STDOUT_FILENO) < 0)
		_exit(126);
	execv(program, (char *const *)(uintptr_t)argument);
	_exit(127);
}

static pid_t spawn(const char *program, const struct config_source *source, const char *flag, int out) {
	const char *argument[COUNT_ARGUMENTS] = { "fusiond-engine", "--count" };
	unsigned n = 2;
	pid_t pid;

	n = child_settings(argument, n, source);
	argument[n++] = "--set";
	argument[n++] = flag;
	pid = fork();
	if (!pid)
		become_counter(program, argument, out);
	return pid;
}

/* What it prints until it ends. 0, or -ETIMEDOUT. */
static int read_all(int fd, char text[static COUNT_TEXT], uint64_t limit_us) {
	uint64_t end = loop_now() + limit_us;
	size_t got = 0;

	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		uint64_t now = loop_now();
		ssize_t n;

		if (now >= end)
			return -ETIMEDOUT;
		if (poll(&p, 1, (int)((end - now) / 1000 + 1)) <= 0)
			continue;
		n = read(fd, text + got, COUNT_TEXT - 1 - got);
		if (n <= 0)
			break;
		got += (size_t)n;
	}
	text[got] = 0;
	return 0;
}

static int judge(pid_t pid, int r, const char *text, const char *name, unsigned *countp, struct fault *f) {
	int status = 0;

	if (r)
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (r)
		return fault_set(f, FAULT_DEVICE, "the devices could not be counted within engine.start_us");
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		return fault_set(f, FAULT_DEVICE, "the devices of device.device could not be counted; what the engine said is on the log");
	*countp = (unsigned)strtoul(text, NULL, 10);
	if (!*countp)
		return fault_set(f, FAULT_DEVICE, "no usable device has \"%s\" in its name; correct device.device", name);
	return 0;
}

int child_count(const struct config *config, const struct config_source *source, const char *name, unsigned *countp,
	struct fault *f) {
	char program[PATH_MAX], text[COUNT_TEXT] = "", flag[2 * CONFIG_TEXT];
	int out[2], r = child_program(&child_engine, config, program, f);
	pid_t pid;

	if (r)
		return r;
	if (source->flags == CONFIG_FLAGS)
		return -E2BIG;
	if (pipe2(out, O_CLOEXEC) < 0)
		return -errno;
	snprintf(flag, sizeof flag, "device.device=%s", name);
	pid = spawn(program, source, flag, out[1]);
	r = pid < 0 ? -errno : 0;
	close(out[1]);
	if (!r)
		r = judge(pid, read_all(out[0], text, config->engine_start_us), text, name, countp, f);
	close(out[0]);
	return r;
}
