/* Starting, awaiting and removing a daemon of one's own. See private_daemon.h for the contract. */
#include "private_daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <fusion.h>

enum {
	/* The start is measured, too. */
	POLL_MS = 2,
	/* fusiond itself kills an engine that does not stop within 5 s. */
	STOP_MS = 15000,
	TREE_DESCRIPTORS = 16,
	LOG_TAIL = 4096,
};

static void pause_ms(long ms) {
	const struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

	nanosleep(&t, NULL);
}

void private_daemon_sibling(const char *name, size_t room, char *path) {
	ssize_t n = readlink("/proc/self/exe", path, room - 1);
	char *slash;

	path[n > 0 ? n : 0] = '\0';
	slash = strrchr(path, '/');
	if (slash)
		slash[1] = '\0';
	strncat(path, name, room - strlen(path) - 1);
}

/* ---- its folder ---- */

static int make_folder(struct private_daemon *d, char why[static PRIVATE_DAEMON_TEXT]) {
	const char *base = getenv("TMPDIR");

	if (!base || !*base || strlen(base) + sizeof "/fusion-XXXXXX" > sizeof d->folder)
		base = "/tmp";
	snprintf(d->folder, sizeof d->folder, "%.40s/fusion-XXXXXX", base);
	if (!mkdtemp(d->folder)) {
		snprintf(
			why, PRIVATE_DAEMON_TEXT, "no folder %s can be made: %s", d->folder, strerror(errno));
		d->folder[0] = '\0';
		return -1;
	}
	snprintf(d->socket, sizeof d->socket, "%s/door", d->folder);
	snprintf(d->log, sizeof d->log, "%s/log", d->folder);
	return 0;
}

static int remove_entry(const char *path, const struct stat *s, int kind, struct FTW *at) {
	(void)s;
	(void)kind;
	(void)at;
	remove(path);
	return 0;
}

static void remove_folder(struct private_daemon *d) {
	if (d->folder[0])
		nftw(d->folder, remove_entry, TREE_DESCRIPTORS, FTW_DEPTH | FTW_PHYS);
	d->folder[0] = '\0';
}

/* The last line of the log that is not empty, or "". */
static void last_words(const struct private_daemon *d, char text[static PRIVATE_DAEMON_TEXT]) {
	char tail[LOG_TAIL + 1];
	FILE *log = fopen(d->log, "r");
	size_t n = 0;
	char *line;

	text[0] = '\0';
	if (!log)
		return;
	if (fseek(log, -LOG_TAIL, SEEK_END))
		rewind(log);
	n = fread(tail, 1, LOG_TAIL, log);
	fclose(log);
	while (n && tail[n - 1] == '\n')
		n--;
	tail[n] = '\0';
	line = strrchr(tail, '\n');
	snprintf(text, PRIVATE_DAEMON_TEXT, "%.400s", line ? line + 1 : tail);
}

/* ---- its process ---- */

/* In the child: the daemon, its words in the log. Does not return. */
static void become_daemon(const struct private_daemon *d, const char *program, pid_t parent) {
	char cache[PRIVATE_DAEMON_PATH];
	sigset_t none;
	int log = open(d->log, O_WRONLY | O_CREAT | O_APPEND, 0600);
	int nothing = open("/dev/null", O_RDONLY);

	snprintf(cache, sizeof cache, "%s/cache", d->folder);
	setpgid(0, 0);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (log < 0 || nothing < 0 || getppid() != parent)
		_exit(126);
	dup2(nothing, STDIN_FILENO);
	dup2(log, STDOUT_FILENO);
	dup2(log, STDERR_FILENO);
	execl(program, program, "--config", "/dev/null", "--socket", d->socket, "--cache-dir", cache,
		(char *)NULL);
	fprintf(stderr, "%s cannot be run: %s\n", program, strerror(errno));
	_exit(127);
}

bool private_daemon_alive(struct private_daemon *d, char why[static PRIVATE_DAEMON_TEXT]) {
	char words[PRIVATE_DAEMON_TEXT];
	int status = 0;

	if (d->pid && waitpid(d->pid, &status, WNOHANG) != d->pid)
		return true;
	d->pid = 0;
	last_words(d, words);
	if (WIFSIGNALED(status))
		snprintf(why, PRIVATE_DAEMON_TEXT, "fusiond was killed by signal %d", WTERMSIG(status));
	else
		snprintf(why, PRIVATE_DAEMON_TEXT, "fusiond ended: %.450s",
			words[0] ? words : "it left no words in its log");
	return false;
}

/* 0 once it serves, 1 where it does not yet, -1 where waiting cannot help. */
static int try_open(struct private_daemon *d, char why[static PRIVATE_DAEMON_TEXT]) {
	const struct fusion_options options = { .socket = d->socket, .name = "start", .timeout_ms = 10000 };
	fusion_context *context = NULL;
	int r = fusion_open(&context, &options);

	if (!r)
		snprintf(d->device, sizeof d->device, "%s", fusion_device(context));
	else
		snprintf(why, PRIVATE_DAEMON_TEXT, "%s", fusion_error());
	fusion_close(context);
	fusion_error_clear();
	if (r == FUSION_E_VERSION || r == FUSION_E_PROTOCOL)
		return -1;
	return r ? 1 : 0;
}

static int await(
	struct private_daemon *d, const volatile sig_atomic_t *stop, char why[static PRIVATE_DAEMON_TEXT]) {
	for (int waited = 0; waited < PRIVATE_DAEMON_START_MS; waited += POLL_MS) {
		int r;

		if (stop && *stop) {
			snprintf(why, PRIVATE_DAEMON_TEXT, "interrupted");
			return -1;
		}
		if (!private_daemon_alive(d, why))
			return -1;
		r = access(d->socket, F_OK) ? 1 : try_open(d, why);
		if (r <= 0)
			return r;
		pause_ms(POLL_MS);
	}
	return -1;
}

/* Starts it in its folder, which is there. */
static int start(struct private_daemon *d, const char *program, const volatile sig_atomic_t *stop,
	char why[static PRIVATE_DAEMON_TEXT]) {
	pid_t parent = getpid();

	snprintf(why, PRIVATE_DAEMON_TEXT, "fusiond did not serve within %d s",
		PRIVATE_DAEMON_START_MS / 1000);
	d->pid = fork();
	if (!d->pid)
		become_daemon(d, program, parent);
	if (d->pid > 0)
		return await(d, stop, why);
	snprintf(why, PRIVATE_DAEMON_TEXT, "no process for fusiond: %s", strerror(errno));
	d->pid = 0;
	return -1;
}

int private_daemon_start(struct private_daemon *d, const char *program, const volatile sig_atomic_t *stop,
	char why[static PRIVATE_DAEMON_TEXT]) {
	*d = (struct private_daemon){ .pid = 0 };
	if (make_folder(d, why))
		return -1;
	if (!start(d, program, stop, why))
		return 0;
	private_daemon_stop(d);
	return -1;
}

int private_daemon_restart(struct private_daemon *d, const char *program, const volatile sig_atomic_t *stop,
	char why[static PRIVATE_DAEMON_TEXT]) {
	private_daemon_halt(d);
	if (!start(d, program, stop, why))
		return 0;
	private_daemon_stop(d);
	return -1;
}

void private_daemon_halt(struct private_daemon *d) {
	if (d->pid > 0)
		kill(d->pid, SIGTERM);
	for (int waited = 0; d->pid > 0 && waited < STOP_MS; waited += POLL_MS) {
		if (waitpid(d->pid, NULL, WNOHANG))
			d->pid = 0;
		else
			pause_ms(POLL_MS);
	}
	if (d->pid > 0) {
		kill(d->pid, SIGKILL);
		waitpid(d->pid, NULL, 0);
	}
	d->pid = 0;
}

void private_daemon_stop(struct private_daemon *d) {
	private_daemon_halt(d);
	remove_folder(d);
}
