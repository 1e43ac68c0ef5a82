/*
 * A daemon of its own for tests with real processes: started, asked, stopped. Clients that are to be killed, or
 * to live beside a parent with a context, are made before that: a context does not survive fork().
 *
 * Programs are looked for in $FUSION_BUILD, else in build/.
 */
#pragma once

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "client/fusion.h"

#include "tests/driver_cache.h"
#include "tests/patience.h"

enum {
	START_TRIES = PATIENCE_MS / 100,     /* of 100 ms at most, for whatever ends by itself */
};

static char folder[64], door[96];
static pid_t daemon_pid;
/* The daemon makes its cache folder, and the driver's in it, itself. Else what the driver compiled for one test is there for all. */
static bool own_driver_cache;

static inline const char *build_folder(void) {
	return getenv("FUSION_BUILD") ? getenv("FUSION_BUILD") : "build";
}

/* It stays a zombie for who waits for it. */
static inline bool has_ended(pid_t child) {
	siginfo_t ended = { .si_pid = 0 };

	return waitid(P_PID, (id_t)child, &ended, WEXITED | WNOHANG | WNOWAIT) || ended.si_pid;
}

/* What a daemon, in the process that becomes it, does about a cache folder that it may find already. */
static inline void share_driver_cache(const char *cache) {
	if (!own_driver_cache && !driver_cache_link(cache))
		_exit(126);
}

/* In the folder that is there, with the cache that another one left in it. */
static inline void daemon_start_again(const char *set, const char *environment[2]) {
	char program[256], cache[128], log[128];

	snprintf(door, sizeof door, "%s/door", folder);
	snprintf(cache, sizeof cache, "%s/cache", folder);
	snprintf(log, sizeof log, "%s/log", folder);
	snprintf(program, sizeof program, "%s/fusiond", build_folder());
	/* That of a test that failed, whose daemon went with it: it would look as if this one were there. */
	unlink(door);
	daemon_pid = fork();
	if (!daemon_pid) {
		int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);

		dup2(fd, 1);
		dup2(fd, 2);
		/* Descriptors are counted: memory that the supervisor clears ahead of time comes and goes. */
		setenv("FUSIOND_DOOR_CLEARED_BYTES", "0", 0);
		for (int i = 0; environment && i < 2 && environment[i]; i++)
			putenv((char *)environment[i]);
		share_driver_cache(cache);
		execl(program, program, "--socket", door, "--cache-dir", cache, "--set", set, (char *)NULL);
		_exit(127);
	}
	setenv("FUSION_SOCKET", door, 1);
	for (int i = 0; i < START_TRIES && access(door, F_OK) && !has_ended(daemon_pid); i++)
		usleep(100000);
	ck_assert_msg(!access(door, F_OK), "the daemon did not start; see %s", log);
}

/* Starts fusiond with further arguments and environment ("NAME=value" or NULL). */
static inline void daemon_start(const char *set, const char *environment[2]) {
	snprintf(folder, sizeof folder, "/tmp/fusion-service-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	daemon_start_again(set, environment);
}

static inline void remove_folder(void) {
	char command[128];

	snprintf(command, sizeof command, "rm -rf %s", folder);
	ck_assert_int_eq(system(command), 0);
}

static inline bool is_worker(pid_t pid) {
	char path[64], arguments[512] = "";
	bool found = false;
	size_t size = 0;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
	f = fopen(path, "r");
	if (f) {
		size = fread(arguments, 1, sizeof arguments - 1, f);
		fclose(f);
	}
	for (size_t i = 0; i < size && !found; i += strlen(arguments + i) + 1)
		found = !strncmp(arguments + i, "--worker", 8);
	/* One that has ended and is not collected has no arguments. */
	return found || !size;
}

/* The supervisor's children are its engine and that one's workers. The first one of either kind; 0: none. */
static inline pid_t first_child(bool worker) {
	char path[64];
	int pid = 0;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/task/%d/children", daemon_pid, daemon_pid);
	f = fopen(path, "r");
	ck_assert_ptr_nonnull(f);
	while (fscanf(f, "%d", &pid) == 1 && is_worker(pid) != worker)
		pid = 0;
	fclose(f);
	return pid;
}

static inline pid_t child_of_supervisor(void) {
	return first_child(false);
}

/* A test that failed may have left it standing. */
static inline void engine_goes_on(void) {
	pid_t pid = child_of_supervisor();

	if (pid)
		kill(pid, SIGCONT);
}

/* Its folder stays. */
static inline void daemon_end(void) {
	int status;

	engine_goes_on();
	kill(daemon_pid, SIGTERM);
	ck_assert_int_eq(waitpid(daemon_pid, &status, 0), daemon_pid);
	ck_assert_msg(WIFEXITED(status) && !WEXITSTATUS(status), "the daemon ended with %#x", status);
}

static inline void daemon_stop(void) {
	daemon_end();
	remove_folder();
}

static inline void start(void) {
	daemon_start("log.level=notice", NULL);
}

static inline fusion_context *connect_client(void) {
	fusion_context *c;

	ck_assert_msg(!fusion_open(&c, NULL), "%s", fusion_error());
	return c;
}

/* Longer than what STATUS says of some engines and all sessions of a test. */
enum { STATUS_TEXT = 65536 };

/* The door's answer to STATUS, also as it came; NULL: there was none. */
static inline cJSON *door_answer(char text[static STATUS_TEXT]) {
	char command[320];
	FILE *f;

	snprintf(command, sizeof command, "%s/fusionctl --socket %s --json status", build_folder(), door);
	f = popen(command, "r");
	ck_assert_ptr_nonnull(f);
	text[fread(text, 1, STATUS_TEXT - 1, f)] = 0;
	pclose(f);
	return cJSON_Parse(text);
}

/* The same of a daemon that must answer. */
static inline cJSON *door_status(void) {
	char text[STATUS_TEXT];
	cJSON *json = door_answer(text);

	ck_assert_msg(json != NULL, "status: %s", text);
	return json;
}

/* For who may read it at any moment: written whole before it has its name. */
static inline void file_appears(const char *path, const char *text) {
	char fresh[256];
	FILE *f;

	snprintf(fresh, sizeof fresh, "%s.new", path);
	f = fopen(fresh, "w");
	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	fclose(f);
	ck_assert_int_eq(rename(fresh, path), 0);
}

static inline double stat_of(fusion_context *c, const char *name) {
	char *text = fusion_stats(c, true);
	cJSON *json = cJSON_Parse(text), *item;
	double value;

	ck_assert_msg(json != NULL, "%s", fusion_error());
	item = cJSON_GetObjectItem(json, name);
	if (!item)
		item = cJSON_GetObjectItem(cJSON_GetObjectItem(json, "device"), name);
	ck_assert_msg(item != NULL, "no statistic %s", name);
	value = item->valuedouble;
	cJSON_Delete(json);
	free(text);
	return value;
}

/* Of a worker an engine has its process and its socket, for as long as there may be more to compile. */
static inline bool is_of_process(DIR *d, const char *name) {
	char target[64] = "";

	return readlinkat(dirfd(d), name, target, sizeof target - 1) > 0 && strstr(target, "pidfd");
}

/* Those of workers are not counted. */
static inline int descriptors_of(pid_t pid) {
	const struct dirent *e;
	char path[64];
	DIR *d;
	int n = 0;

	snprintf(path, sizeof path, "/proc/%d/fd", pid);
	d = opendir(path);
	ck_assert_ptr_nonnull(d);
	while ((e = readdir(d)))
		n += is_of_process(d, e->d_name) ? -1 : 1;
	closedir(d);
	return n;
}

static inline pid_t engine_pid(void) {
	pid_t pid = child_of_supervisor();

	ck_assert_int_gt(pid, 0);
	return pid;
}

static inline bool task_runs(pid_t pid, const char *task) {
	char path[320], state = 'R';     /* a name of a folder's entry fits */
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/task/%s/stat", pid, task);
	f = fopen(path, "r");
	if (!f)
		return false;
	ck_assert_int_eq(fscanf(f, "%*d (%*[^)]) %c", &state), 1);
	fclose(f);
	return state != 'T';
}

/* Do all its threads stand? One that waits for a processor learns of the signal last. */
static inline bool is_stopped(pid_t pid) {
	char path[64];
	const struct dirent *e;
	bool runs = false;
	DIR *d;

	snprintf(path, sizeof path, "/proc/%d/task", pid);
	d = opendir(path);
	ck_assert_ptr_nonnull(d);
	while (!runs && (e = readdir(d)))
		runs = e->d_name[0] != '.' && task_runs(pid, e->d_name);
	closedir(d);
	return !runs;
}

/* The engine, with all its threads standing when this returns. */
static inline pid_t stop_engine(void) {
	pid_t pid = engine_pid();

	ck_assert_int_eq(kill(pid, SIGSTOP), 0);
	for (int i = 0; i < 10000 && !is_stopped(pid); i++)
		usleep(1000);
	ck_assert(is_stopped(pid));
	return pid;
}

static inline int child_exit(pid_t pid) {
	int status;

	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* A process that is there before its parent has a context, which no child could go on from, and waits to be let go. */
struct victim {
	pid_t pid;
	int go, said;            /* pipes */
};

typedef void victim_work(int i, int said);

static inline void victim_new(struct victim *v, int i, victim_work *work) {
	int go[2], said[2];
	char byte;

	ck_assert_int_eq(pipe(go), 0);
	ck_assert_int_eq(pipe(said), 0);
	v->pid = fork();
	if (!v->pid) {
		close(go[1]);
		close(said[0]);
		if (read(go[0], &byte, 1) != 1)
			_exit(1);
		work(i, said[1]);
		_exit(2);
	}
	ck_assert_int_gt(v->pid, 0);
	close(go[0]);
	close(said[1]);
	v->go = go[1];
	v->said = said[0];
}

/* Returns once it says that it is in the middle; one that ends before fails the test. */
static inline void victim_go(struct victim *v) {
	char byte;

	ck_assert_int_eq(write(v->go, "g", 1), 1);
	ck_assert_msg(read(v->said, &byte, 1) == 1, "the client did not get as far as to be killed");
}

static inline void victim_kill(struct victim *v) {
	int status;

	ck_assert_int_eq(kill(v->pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(v->pid, &status, 0), v->pid);
	ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "the client ended by itself: %#x", status);
	close(v->go);
	close(v->said);
}

/* Waits until a statistic is what it was, or time is up. */
static inline void expect_back(fusion_context *c, const char *name, double value) {
	for (int i = 0; i < START_TRIES && stat_of(c, name) > value; i++)
		usleep(100000);
	ck_assert_msg(stat_of(c, name) <= value, "%s is %g, was %g", name, stat_of(c, name), value);
}

/* Waits until a statistic is more than it was: the engine may answer others before it takes in what was said to it. */
static inline void expect_more(fusion_context *c, const char *name, double value) {
	for (int i = 0; i < START_TRIES && stat_of(c, name) <= value; i++)
		usleep(100000);
	ck_assert_msg(stat_of(c, name) > value, "%s is %g, was %g", name, stat_of(c, name), value);
}

static inline void expect_descriptors(pid_t pid, int before) {
	for (int i = 0; i < START_TRIES && descriptors_of(pid) > before; i++)
		usleep(100000);
	ck_assert_int_le(descriptors_of(pid), before);
}
