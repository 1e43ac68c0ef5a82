/* Going to the background; see detach.h. */
#include "detach.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	/* Of the log's end, for its last line. */
	DETACH_TAIL = 4096,
};

static void print_last_line(const char *log) {
	char tail[DETACH_TAIL + 1], *line;
	FILE *f = fopen(log, "re");
	size_t n = 0;

	if (f && fseek(f, -DETACH_TAIL, SEEK_END))
		rewind(f);
	if (f)
		n = fread(tail, 1, DETACH_TAIL, f);
	if (f)
		fclose(f);
	while (n && tail[n - 1] == '\n')
		n--;
	tail[n] = 0;
	line = strrchr(tail, '\n');
	fprintf(stderr, "%s\n", n ? line ? line + 1 : tail : "fusiond ended and left no word in its log");
}

/* Until the daemon serves, or has closed its end. */
static _Noreturn void await(int said, const char *log) {
	char byte;
	ssize_t n;

	do
		n = read(said, &byte, 1);
	while (n < 0 && errno == EINTR);
	if (n == 1)
		exit(EXIT_SUCCESS);
	wait(NULL);
	print_last_line(log);
	exit(EXIT_FAILURE);
}

/* Standard input from nowhere, output to the log, and no other descriptor but `kept`, which gets the lowest number. */
static int take_descriptors(int log, int nothing, int kept) {
	if (dup2(nothing, STDIN_FILENO) < 0 || dup2(log, STDOUT_FILENO) < 0 || dup2(log, STDERR_FILENO) < 0)
		return -1;
	kept = fcntl(kept, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (kept > STDERR_FILENO + 1 && dup3(kept, STDERR_FILENO + 1, O_CLOEXEC) < 0)
		return -1;
	closefrom(STDERR_FILENO + 2);
	return kept < 0 ? -1 : STDERR_FILENO + 1;
}

static int fail(const char *what) {
	fprintf(stderr, "fusiond: %s: %s\n", what, strerror(errno));
	return -1;
}

int detach(const char *log) {
	int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC), said[2];
	pid_t pid;

	if (fd < 0 || nothing < 0)
		return fail(log);
	if (pipe2(said, O_CLOEXEC) < 0)
		return fail("no pipe");
	pid = fork();
	if (pid < 0)
		return fail("no process");
	if (pid) {
		close(said[1]);
		await(said[0], log);
	}
	setsid();
	return take_descriptors(fd, nothing, said[1]);
}
