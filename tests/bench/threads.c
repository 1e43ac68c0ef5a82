/* CPU time and memory of other processes, from /proc. See bench.h. */
#include "bench.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	PROC_PATH = 96,
	PROC_LINE = 256,
};

/* The first line of a file of /proc; false where it is gone. */
static bool proc_line(const char *path, char line[static PROC_LINE]) {
	FILE *file = fopen(path, "r");
	bool read = file && fgets(line, PROC_LINE, file);

	if (file)
		fclose(file);
	if (read)
		line[strcspn(line, "\n")] = '\0';
	return read;
}

/* schedstat counts nanoseconds; its first number is the time on a processor. */
static double thread_seconds(pid_t pid, const char *thread) {
	char path[PROC_PATH], line[PROC_LINE];

	snprintf(path, sizeof path, "/proc/%d/task/%.20s/schedstat", pid, thread);
	return proc_line(path, line) ? strtod(line, NULL) / 1e9 : 0;
}

/* nng names its threads; the driver's carry the name of the program or one of their own. */
static double *thread_account(pid_t pid, const char *thread, struct thread_times *t) {
	char path[PROC_PATH], name[PROC_LINE];

	snprintf(path, sizeof path, "/proc/%d/task/%.20s/comm", pid, thread);
	if (atoi(thread) == pid)
		return &t->work;
	if (!proc_line(path, name))
		return &t->driver;
	if (!strncmp(name, "nng:", 4))
		return &t->work;
	return strcmp(name, "builder") ? &t->driver : &t->compiler;
}

int threads_read(pid_t pid, struct thread_times *t) {
	char path[PROC_PATH];
	struct dirent *entry;
	DIR *folder;

	*t = (struct thread_times){ .work = 0 };
	snprintf(path, sizeof path, "/proc/%d/task", pid);
	folder = opendir(path);
	if (!folder)
		return bench_fail("process %d of the daemon is gone", pid);
	while ((entry = readdir(folder)))
		if (entry->d_name[0] != '.')
			*thread_account(pid, entry->d_name, t) += thread_seconds(pid, entry->d_name);
	closedir(folder);
	return 0;
}

/* The name in parentheses and the parent, the fourth field. */
static bool is_child(const char *pid, pid_t parent, const char *name) {
	char path[PROC_PATH], line[PROC_LINE];
	char *end;

	snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
	if (!proc_line(path, line))
		return false;
	end = strrchr(line, ')');
	if (!end || !strchr(line, '(') || strlen(end) < 4)
		return false;
	*end = '\0';
	return !strcmp(strchr(line, '(') + 1, name) && atoi(end + 4) == parent;
}

pid_t threads_child(pid_t parent, const char *name) {
	DIR *folder = opendir("/proc");
	struct dirent *entry;
	pid_t found = 0;

	while (folder && !found && (entry = readdir(folder)))
		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
			is_child(entry->d_name, parent, name))
			found = atoi(entry->d_name);
	if (folder)
		closedir(folder);
	return found;
}

double threads_workers(pid_t supervisor, pid_t engine) {
	DIR *folder = opendir("/proc");
	struct dirent *entry;
	double seconds = 0;

	while (folder && (entry = readdir(folder)))
		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && atoi(entry->d_name) != engine &&
			is_child(entry->d_name, supervisor, "fusiond-engine"))
			/* The thread that compiles has the process's number. */
			seconds += thread_seconds(atoi(entry->d_name), entry->d_name);
	if (folder)
		closedir(folder);
	return seconds;
}

static double memory_line(pid_t pid, const char *table, const char *name) {
	char path[PROC_PATH], line[PROC_LINE];
	double bytes = -1;
	FILE *file;

	snprintf(path, sizeof path, "/proc/%d/%s", pid, table);
	file = fopen(path, "r");
	while (file && fgets(line, sizeof line, file))
		if (!strncmp(line, name, strlen(name)) && line[strlen(name)] == ':')
			bytes = 1024 * strtod(line + strlen(name) + 1, NULL);
	if (file)
		fclose(file);
	return bytes;
}

double threads_memory(pid_t pid, const char *name) {
	return memory_line(pid, "status", name);
}

double threads_proportional(pid_t pid) {
	return memory_line(pid, "smaps_rollup", "Pss");
}
