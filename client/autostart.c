/* Starting a daemon of the user's own. See autostart.h. */
#include "autostart.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "link.h"
#include "waiting.h"
#include "protocol/variable.h"

#ifndef FUSIOND_SBINDIR
#define FUSIOND_SBINDIR "/usr/sbin"
#endif

enum {
	/* Between two looks at a lock or a socket. */
	LOOK_US = 5000,
	/* An engine may take engine.start_us, two minutes, to be ready; whoever holds the lock waits for that. */
	START_MS = 150000,
	/* The system's daemon, while it is restarted: as long as its unit lets a stop take, and some. */
	RESTART_MS = 40000,
	WORDS = 256,
	PATIENT_MS = 1000,
};

/* Before another look: 0, or FAULT_CANCELLED. */
static int pause_a_little(struct fault *f) {
	return waiting_poll(-1, 0, link_now_us() + LOOK_US) == -ECANCELED ? waiting_refuse(f) : 0;
}

static uint64_t deadline_in(unsigned ms, unsigned timeout_ms) {
	return link_now_us() + UINT64_C(1000) * (timeout_ms && timeout_ms < ms ? timeout_ms : ms);
}

/* ---- the program ---- */

/* The folder of this library, or of the program that it is part of. */
static bool library_folder(char folder[static PATH_MAX]) {
	Dl_info info;
	char *slash;

	if (!dladdr((void *)(uintptr_t)autostart_find, &info) || !info.dli_fname || !realpath(info.dli_fname, folder))
		return false;
	slash = strrchr(folder, '/');
	if (slash)
		*slash = 0;
	return slash != NULL;
}

/* Where it was installed, then beside the library: in a build tree, under another prefix, in a folder of an architecture. */
static bool find_program(char program[static PATH_MAX]) {
	static const char *const near[] = { "fusiond", "../sbin/fusiond", "../../sbin/fusiond" };
	const char *given = secure_getenv("FUSION_DAEMON");
	char folder[PATH_MAX];

	snprintf(program, PATH_MAX, "%s", given && *given ? given : FUSIOND_SBINDIR "/fusiond");
	if ((given && *given) || !access(program, X_OK))
		return !access(program, X_OK);
	if (!library_folder(folder))
		return false;
	for (size_t i = 0; i < sizeof near / sizeof *near; i++)
		if (snprintf(program, PATH_MAX, "%s/%s", folder, near[i]) < PATH_MAX && !access(program, X_OK))
			return true;
	snprintf(program, PATH_MAX, FUSIOND_SBINDIR "/fusiond");
	return false;
}

/* ---- running one ---- */

extern char **environ;

/* Its session, signals and descriptors are its own; what it says goes to said. */
static int spawn(pid_t *pidp, const char *program, char *const *argument, int said) {
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	sigset_t none, all;
	int r;

	sigemptyset(&none);
	sigfillset(&all);
	if (posix_spawn_file_actions_init(&files))
		return -ENOMEM;
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setsigdefault(&attributes, &all);
	posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&files, said, STDERR_FILENO);
	posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
	posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
	r = posix_spawn(pidp, program, &files, &attributes, argument, environ);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attributes);
	return -r;
}

/* A start on a full cache takes a fraction of a second; one that takes longer is told whoever sits before a terminal, once. */
static int tell_patience(int said) {
	static atomic_flag told = ATOMIC_FLAG_INIT;
	int r = isatty(STDERR_FILENO) ? waiting_poll(said, POLLIN, link_now_us() + UINT64_C(1000) * PATIENT_MS) : 0;

	if (r == -ETIMEDOUT && !atomic_flag_test_and_set(&told))
		fputs("fusion: a daemon of your own is being started; the first start on a machine tries its driver, which takes some seconds\n", stderr);
	return r == -ECANCELED ? r : 0;
}

/* The last line it said, until all that could say anything are gone: 0, or -ECANCELED. */
static int read_words(int said, char words[static WORDS]) {
	char text[4096];
	size_t used = 0;
	char *line;
	ssize_t n;
	int r;

	do {
		if (used == sizeof text - 1) {
			memmove(text, text + sizeof text / 2, used - sizeof text / 2);
			used -= sizeof text / 2;
		}
		r = waiting_poll(said, POLLIN, 0);
		if (r == -ECANCELED)
			return r;
		n = read(said, text + used, sizeof text - 1 - used);
		used += n > 0 ? (size_t)n : 0;
	} while (n > 0 || (n < 0 && errno == EINTR));
	while (used && text[used - 1] == '\n')
		used--;
	text[used] = 0;
	line = strrchr(text, '\n');
	snprintf(words, WORDS, "%.*s", WORDS - 1, line ? line + 1 : text);
	return 0;
}

/* Runs to its end: its exit code, -errno where it could not be run, -ECANCELED where that was given up, and its last words. */
static int run(const char *program, char *const *argument, char words[static WORDS]) {
	int said[2], status = 0, r, given_up = 0;
	pid_t pid;

	words[0] = 0;
	if (pipe2(said, O_CLOEXEC) < 0)
		return -errno;
	r = spawn(&pid, program, argument, said[1]);
	close(said[1]);
	if (!r)
		given_up = tell_patience(said[0]);
	if (!r && !given_up)
		given_up = read_words(said[0], words);
	close(said[0]);
	if (r)
		return r;
	/* The daemon that it has begun goes on; who asks next finds it. */
	if (given_up)
		kill(pid, SIGKILL);
	do
		r = waitpid(pid, &status, 0);
	while (r < 0 && errno == EINTR);
	if (given_up)
		return given_up;
	/* A program that ignores SIGCHLD learns of no status: whether somebody listens is asked anyway. */
	if (r < 0)
		return 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE;
}

/* 0 where the user's service manager has started its unit; else what run() says, or -ENOENT. */
static int start_unit(const struct own_place *own) {
	static char systemctl[] = "/usr/bin/systemctl", user[] = "--user", start[] = "start", unit[] = "fusiond.service";
	char *const argument[] = { systemctl, user, start, unit, NULL };
	char manager[PLACE_PATH + 16], words[WORDS];
	const char *given = secure_getenv("FUSION_DAEMON");
	int r;

	snprintf(manager, sizeof manager, "%s/systemd/private", own->base);
	if (!own->runtime || (given && *given) || access(manager, F_OK) || access(systemctl, X_OK))
		return -ENOENT;
	r = run(systemctl, argument, words);
	return r || place_answers(own->socket) ? r : -ENOENT;
}

static int start_program(const struct own_place *own, struct fault *f) {
	char program[PATH_MAX], detach[PLACE_PATH + 16], words[WORDS];
	char user[] = "--user", flag[] = "--socket";
	char *const argument[] = { program, user, detach, flag, (char *)(uintptr_t)own->socket, NULL };
	int r;

	if (!find_program(program))
		return fault_set(f, FAULT_CONNECT, "there is no program %s: install fusiond, or set FUSION_DAEMON", program);
	snprintf(detach, sizeof detach, "--detach=%s", own->log);
	r = run(program, argument, words);
	if (r == -ECANCELED)
		return waiting_refuse(f);
	if (r < 0)
		return fault_set(f, FAULT_CONNECT, "%s cannot be run: %s", program, strerror(-r));
	if (r || !place_answers(own->socket))
		return fault_set(f, FAULT_CONNECT, "%s", *words ? words : "it ended and left no word");
	return 0;
}

/* ---- under the lock ---- */

/* One that a cleaner of old files took away is no lock any more. */
static bool is_at(int fd, const char *path) {
	struct stat held, there;

	return !fstat(fd, &held) && !lstat(path, &there) && held.st_dev == there.st_dev && held.st_ino == there.st_ino;
}

/* 0 with the lock, or -EWOULDBLOCK; others are errors. */
static int try_lock(const char *path, int *lockp) {
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600), r = 0;

	if (fd < 0)
		return -errno;
	/* A umask may have taken even the user's own rights. */
	if (fchmod(fd, 0600) < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
		r = -errno;
	else if (!is_at(fd, path))
		r = -EWOULDBLOCK;
	if (r)
		close(fd);
	else
		*lockp = fd;
	return r;
}

/* 0 with the lock; 1 where a daemon answers meanwhile and that is enough. */
static int lock_or_find(const struct own_place *own, bool enough, uint64_t deadline, int *lockp, struct fault *f) {
	for (;;) {
		int r;

		if (enough && place_answers(own->socket))
			return 1;
		r = try_lock(own->lock, lockp);
		if (r != -EWOULDBLOCK && r != -EINTR)
			return r ? fault_set(f, FAULT_CONNECT, "%s cannot be locked: %s", own->lock, strerror(-r)) : 0;
		if (link_now_us() > deadline)
			return fault_set(f, FAULT_CONNECT, "another process has held %s for too long", own->lock);
		r = pause_a_little(f);
		if (r)
			return r;
	}
}

static int start_daemon(const struct own_place *own, struct fault *f) {
	int r = start_unit(own);

	if (r == -ECANCELED)
		return waiting_refuse(f);
	return r ? start_program(own, f) : 0;
}

static int start(const struct own_place *own, uint64_t deadline, int *keptp, struct fault *f) {
	int lock = -1;
	int r = lock_or_find(own, !keptp, deadline, &lock, f);

	if (r)
		return r == 1 ? 0 : r;
	if (!place_answers(own->socket))
		r = start_daemon(own, f);
	if (!r && keptp)
		*keptp = lock;
	else
		close(lock);
	return r;
}

static bool is_wanted(void) {
	return variable_switch("FUSION_AUTOSTART", true);
}

static int explain(struct fault *f) {
	struct fault why = *f;

	return fault_set(f, FAULT_CONNECT,
		"no daemon answers at " PLACE_SYSTEM ", and one of your own could not be started: %s", why.text);
}

static int find_own(char socket[static PLACE_PATH], unsigned timeout_ms, int *keptp, struct fault *f) {
	struct own_place own;
	int r = place_of_user(&own, is_wanted(), f);

	if (!is_wanted()) {
		snprintf(socket, PLACE_PATH, "%s", r || !place_answers(own.socket) ? PLACE_SYSTEM : own.socket);
		return 0;
	}
	if (!r)
		r = start(&own, deadline_in(START_MS, timeout_ms), keptp, f);
	if (r > 0 && r != FAULT_CANCELLED)
		return explain(f);
	snprintf(socket, PLACE_PATH, "%s", own.socket);
	return r;
}

/* Its folder without its socket is that of one that is being restarted. */
static int await_system(unsigned timeout_ms, struct fault *f) {
	uint64_t deadline = deadline_in(RESTART_MS, timeout_ms);
	int r = 0;

	while (!r && !access(PLACE_SYSTEM_FOLDER, F_OK) && access(PLACE_SYSTEM, F_OK) && errno == ENOENT && link_now_us() < deadline)
		r = pause_a_little(f);
	return r;
}

int autostart_find(char socket[static PLACE_PATH], unsigned timeout_ms, int *keptp, struct fault *f) {
	int r;

	if (keptp)
		*keptp = -1;
	r = place_of_system() ? await_system(timeout_ms, f) : 0;
	if (r)
		return r;
	if (!place_of_system())
		return find_own(socket, timeout_ms, keptp, f);
	snprintf(socket, PLACE_PATH, "%s", PLACE_SYSTEM);
	return 0;
}
