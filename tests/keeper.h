/*
 * A daemon under keeper.py, which stands in for a service manager that keeps descriptors: started, ended or killed and started again, asked what is kept.
 */
#pragma once

#include <signal.h>

#include "tests/daemon.h"

static pid_t keeper;
static char state_file[128];
/* The socket is the keeper's, as that of a socket unit; the daemon is started by who connects. */
static bool keeper_listens;
/* One more setting of the daemon, "NAME=VALUE", or NULL. */
static const char *keeper_setting;

static inline void keeper_folder(const char *name) {
	snprintf(folder, sizeof folder, "/tmp/fusion-%s-XXXXXX", name);
	ck_assert_ptr_nonnull(mkdtemp(folder));
	snprintf(door, sizeof door, "%s/door", folder);
	setenv("FUSION_SOCKET", door, 1);
}

/* `program`, whose operations are fused or not; environment: of the daemon alone, "NAME=VALUE" or NULL. */
static inline void keeper_begin(const char *program, bool fused, const char *return_us, const char *environment[2]) {
	char socket[128], log[128], cache[128], set[64];
	const char *python = getenv("PYTHON") ? getenv("PYTHON") : "/usr/bin/python3";

	snprintf(socket, sizeof socket, "%s/notify", folder);
	snprintf(state_file, sizeof state_file, "%s/state", folder);
	snprintf(cache, sizeof cache, "%s/cache", folder);
	snprintf(log, sizeof log, "%s/log", folder);
	snprintf(set, sizeof set, "door.return_us=%s", return_us);
	keeper = fork();
	if (!keeper) {
		static const char nothing[] = "NOTHING=";
		const char *first = environment && environment[0] ? environment[0] : nothing;
		const char *second = environment && environment[0] && environment[1] ? environment[1] : nothing;
		int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);

		if (keeper_listens)
			setenv("KEEPER_LISTEN", door, 1);
		dup2(fd, 1);
		dup2(fd, 2);
		share_driver_cache(cache);
		execl(python, python, "tests/keeper.py", socket, state_file, "/usr/bin/env", first, second, program, "--config", "/dev/null", "--socket",
			door, "--cache-dir", cache, "--set", set, "--set", keeper_setting ? keeper_setting : set, "--set",
			fused ? "fusion.enabled=yes" : "fusion.enabled=no", (char *)NULL);
		_exit(127);
	}
}

/* Why the daemon did not start: the end of its log. */
static inline const char *keeper_log(void) {
	static char text[1024];
	char path[128];
	FILE *f;

	snprintf(path, sizeof path, "%s/log", folder);
	f = fopen(path, "re");
	ck_assert_ptr_nonnull(f);
	if (!fseek(f, 0, SEEK_END) && ftell(f) > (long)sizeof text - 1)
		fseek(f, 1 - (long)sizeof text, SEEK_END);
	else
		rewind(f);
	text[fread(text, 1, sizeof text - 1, f)] = 0;
	fclose(f);
	return text;
}

/* Has the daemon, or one before it, said so? */
static inline bool keeper_said(const char *text) {
	char path[128], line[1024];
	bool said = false;
	FILE *f;

	snprintf(path, sizeof path, "%s/log", folder);
	f = fopen(path, "re");
	ck_assert_ptr_nonnull(f);
	while (!said && fgets(line, sizeof line, f))
		said = strstr(line, text) != NULL;
	fclose(f);
	return said;
}

static inline void keeper_await(void) {
	for (int i = 0; i < START_TRIES && access(door, F_OK) && !has_ended(keeper); i++)
		usleep(100000);
	ck_assert_msg(!access(door, F_OK), "the daemon did not start; it said: %s", keeper_log());
}

static inline void keeper_start_program(const char *program, bool fused, const char *return_us, const char *environment[2]) {
	keeper_begin(program, fused, return_us, environment);
	keeper_await();
}

static inline void keeper_start(const char *return_us, const char *environment[2]) {
	char program[256];

	snprintf(program, sizeof program, "%s/fusiond", build_folder());
	keeper_start_program(program, false, return_us, environment);
}

static inline void keeper_end(void) {
	int status;

	kill(keeper, SIGTERM);
	ck_assert_int_eq(waitpid(keeper, &status, 0), keeper);
	ck_assert_msg(WIFEXITED(status) && !WEXITSTATUS(status), "the daemon ended with %#x", status);
	remove_folder();
}

static inline double status_number(const char *name) {
	char text[STATUS_TEXT];
	cJSON *json = door_answer(text);
	const cJSON *item = cJSON_GetObjectItem(json, name);
	double value = item ? item->valuedouble : -1;

	cJSON_Delete(json);
	return value;
}

/* ---- what keeper.py noted ---- */

struct keeper_event {
	double ms, processor_ms;
};

/* The last one of that name, and how many there were. */
static inline int keeper_event(const char *name, struct keeper_event *last) {
	char path[160], word[16];
	struct keeper_event e;
	int count = 0;
	FILE *f;

	snprintf(path, sizeof path, "%s.times", state_file);
	f = fopen(path, "r");
	while (f && fscanf(f, "%15s %lf %lf", word, &e.ms, &e.processor_ms) == 3)
		if (!strcmp(word, name)) {
			*last = e;
			count++;
		}
	if (f)
		fclose(f);
	return count;
}

/* How many daemons were ready so far; the first one says so after its socket is there. */
static inline int keeper_count_ready(void) {
	struct keeper_event e;

	for (int i = 0; i < START_TRIES && !keeper_event("ready", &e); i++)
		usleep(20000);
	return keeper_event("ready", &e);
}

static inline void keeper_await_another(int before) {
	struct keeper_event e;

	for (int i = 0; i < START_TRIES && keeper_event("ready", &e) == before; i++)
		usleep(20000);
	ck_assert_msg(keeper_event("ready", &e) > before, "no other daemon came");
}

/* Returns once another daemon is ready. */
static inline void keeper_restart(int signal) {
	int before = keeper_count_ready();

	ck_assert_int_eq(kill(keeper, signal), 0);
	keeper_await_another(before);
}

/* The same by a command, which finds the number of this process in $KEEPER and sends it SIGHUP. */
static inline void keeper_restart_by(const char *command) {
	int before = keeper_count_ready();
	char number[16];

	snprintf(number, sizeof number, "%d", (int)keeper);
	setenv("KEEPER", number, 1);
	ck_assert_msg(!system(command), "%s failed", command);
	keeper_await_another(before);
}

/* How many of what is kept have a name that begins so. */
static inline int count_kept(const char *begin) {
	char line[128];
	int count = 0;
	FILE *f = fopen(state_file, "r");

	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof line, f))
		count += !strncmp(line, begin, strlen(begin));
	fclose(f);
	return count;
}

/* What is kept comes one by one: the number that was waited for is the one that is judged, not what comes after it. */
static inline void expect_kept(const char *begin, int count) {
	int kept = count_kept(begin);

	for (int i = 0; i < START_TRIES && kept != count; i++) {
		usleep(20000);
		kept = count_kept(begin);
	}
	ck_assert_int_eq(kept, count);
}
