/* The cache folder, for administrators; see chore.h. */
#include "chore.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "protocol/message.h"
#include "daemon/door/cache.h"
#include "daemon/door/client.h"

enum {
	CHORE_ACTION = 16,
};

/* Clients see the end of their connections when the supervisor closes them, so none may be left open here. */
static _Noreturn void be_chore(const struct config *c, const char *action, int out) {
	sigset_t none;
	int code;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (dup2(out, STDOUT_FILENO) < 0 || close_range(STDERR_FILENO + 1, UINT_MAX, 0))
		_exit(EXIT_FAILURE);
	code = cache_action(c, action);
	fflush(stdout);
	_exit(code);
}

static pid_t *free_place(struct chores *all, struct fault *f) {
	for (unsigned i = 0; i < CHORES; i++)
		if (!all->pid[i])
			return &all->pid[i];
	fault_set(f, FAULT_LIMIT, "the cache is being looked after %d times already", CHORES);
	return NULL;
}

/* *outp: where what it says is read. */
static int start(struct supervisor *s, const struct config *c, const char *action, int *outp, struct fault *f) {
	pid_t *place = free_place(&s->chores, f), pid;
	int end[2];

	if (!place)
		return FAULT_LIMIT;
	if (pipe2(end, O_CLOEXEC))
		return -errno;
	pid = fork();
	if (!pid)
		be_chore(c, action, end[1]);
	close(end[1]);
	if (pid < 0) {
		close(end[0]);
		return -ENOMEM;
	}
	*place = pid;
	*outp = end[0];
	return 0;
}

static int read_question(struct wire_cursor *body, char action[static CHORE_ACTION], char size[static CONFIG_TEXT], struct fault *f) {
	int r = wire_copy_text(body, "action", action, CHORE_ACTION, f);

	if (!r)
		r = wire_copy_text(body, "size", size, CONFIG_TEXT, f);
	if (!r)
		r = wire_get_end(body, "CACHE", f);
	if (!r && strcmp(action, "stat") != 0 && strcmp(action, "prune") != 0 && strcmp(action, "verify") != 0 && strcmp(action, "check") != 0)
		r = fault_set(f, FAULT_ARGUMENT, "cache: stat, prune, verify or check, not %s", action);
	return r;
}

static int answer(struct client *c, int out) {
	struct wire_writer w;
	int r;

	wire_writer_init(&w);
	wire_put_array(&w, 1);
	wire_put_uint(&w, DOOR_CACHE);
	r = client_answer(c, &w, out);
	wire_writer_free(&w);
	return r;
}

int client_asks_cache(struct client *c, struct wire_cursor *body, struct fault *f) {
	struct config config = c->supervisor->config;
	char action[CHORE_ACTION], size[CONFIG_TEXT];
	int out = -1;
	int r = read_question(body, action, size, f);

	if (!r)
		r = client_needs_rights(c, "look after the cache", f);
	if (!r && *size)
		r = config_set(&config, "cache.bytes", size, f);
	if (!r)
		r = start(c->supervisor, &config, action, &out, f);
	if (r)
		return r;
	r = answer(c, out);
	close(out);
	return r;
}

void chores_reap(struct supervisor *s) {
	for (unsigned i = 0; i < CHORES; i++)
		if (s->chores.pid[i] && waitpid(s->chores.pid[i], NULL, WNOHANG))
			s->chores.pid[i] = 0;
}
