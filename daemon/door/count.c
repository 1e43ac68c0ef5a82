/*
 * What the supervisor cannot know, and a program of ours prints and ends: how many devices have a name and which one would be taken, since it has
 * no OpenCL; and what is wrong with remote.*, since it has no network and no certificates. Both are waited for before the daemon serves anybody; the second
 * is run at a reload, too, and then the loop hears of its end (reload.c).
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
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	COUNT_TEXT = CHECK_TEXT,
	COUNT_ARGUMENTS = 8 + 2 * CONFIG_FLAGS,
};

/* In the child, between fork and exec: only calls that are safe there. */
static void become_counter(const char *program, const char *const *argument, int out) {
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (dup2(out, STDOUT_FILENO) < 0)
		_exit(126);
	execv(program, (char *const *)(uintptr_t)argument);
	_exit(127);
}

/* flag: one more setting, or NULL. */
static pid_t spawn(const char *program, const char *action, const struct config_source *source, const char *flag, int out) {
	const char *argument[COUNT_ARGUMENTS] = { program, action };
	unsigned n = 2;
	pid_t pid;

	n = child_settings(argument, n, source);
	if (flag) {
		argument[n++] = "--set";
		argument[n++] = flag;
	}
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

static int wait_for_end(pid_t pid, bool kills) {
	int status = 0;

	if (kills)
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

static int judge(pid_t pid, int r, const char *text, const char *name, unsigned *countp, struct fault *f) {
	int status = wait_for_end(pid, r);

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
	pid = spawn(program, "--count", source, flag, out[1]);
	r = pid < 0 ? -errno : 0;
	close(out[1]);
	if (!r)
		r = judge(pid, read_all(out[0], text, config->engine_start_us), text, name, countp, f);
	close(out[0]);
	return r;
}

/* It says a line either way; a fault is its line, too. */
static int judge_look(pid_t pid, int r, char *text, struct fault *f) {
	int status = wait_for_end(pid, r);

	text[strcspn(text, "\n")] = 0;
	if (r || !WIFEXITED(status) || !*text)
		return fault_set(f, FAULT_DEVICE, "the engine that looks for a device %s", r ? "did not end within engine.start_us" : "died");
	return WEXITSTATUS(status) ? fault_set(f, FAULT_DEVICE, "%s", text) : 0;
}

int child_look(const struct config *config, const struct config_source *source, char text[static CHECK_TEXT], struct fault *f) {
	char program[PATH_MAX];
	int out[2], r = child_program(&child_engine, config, program, f);
	pid_t pid;

	if (r)
		return r;
	if (pipe2(out, O_CLOEXEC) < 0)
		return -errno;
	pid = spawn(program, "--device", source, NULL, out[1]);
	r = pid < 0 ? -errno : 0;
	close(out[1]);
	if (!r)
		r = judge_look(pid, read_all(out[0], text, config->engine_start_us), text, f);
	close(out[0]);
	return r;
}

int child_check_begin(struct child_check *k, const struct config *c, const struct config_source *source, struct fault *f) {
	char program[PATH_MAX];
	int out[2], r;

	*k = (struct child_check){ .out = -1 };
	if (!*c->remote_listen && !*c->remote_users && !*c->remote_plain_user)
		return 0;
	r = child_program(&child_gateway, c, program, f);
	if (r)
		return r;
	if (pipe2(out, O_CLOEXEC) < 0)
		return -errno;
	k->pid = spawn(program, "--check", source, NULL, out[1]);
	r = k->pid < 0 ? -errno : 0;
	close(out[1]);
	k->out = out[0];
	if (!r)
		return 0;
	close(out[0]);
	*k = (struct child_check){ .out = -1 };
	return r;
}

/* The sentence is the program's; what kept it from saying one is not the configuration's fault. */
int child_check_judge(const struct child_check *k, int status, struct fault *f) {
	int length = (int)strcspn(k->text, "\n");

	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) == CONFIG_EXIT && length)
		return fault_set(f, FAULT_ARGUMENT, "%.*s", length, k->text);
	return fault_set(f, FAULT_INTERNAL, "what remote.* says could not be looked at%s%.*s", length ? ": " : "", length, k->text);
}

int child_check_late(struct fault *f) {
	return fault_set(f, FAULT_INTERNAL, "what remote.* says could not be looked at within %d s", CHECK_US / 1000000);
}

int child_check_remote(const struct config *c, const struct config_source *source, struct fault *f) {
	struct child_check k;
	int r = child_check_begin(&k, c, source, f), status;

	if (r || !k.pid)
		return r;
	r = read_all(k.out, k.text, CHECK_US);
	status = wait_for_end(k.pid, r);
	close(k.out);
	return r ? child_check_late(f) : child_check_judge(&k, status, f);
}
