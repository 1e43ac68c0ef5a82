/* The program fusiond run and read; see fusiond.h. */
#include "fusiond.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	ARGUMENTS = 16,
	READ_BYTES = 4096,
};

/* Beside this program, where one tree holds both; else where it is installed. */
static void fusiond_path(char path[static PATH_MAX]) {
	static const char *const places[] = { "/fusiond", "/../sbin/fusiond" };
	char self[PATH_MAX] = "";
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	char *slash;

	self[n > 0 ? n : 0] = '\0';
	slash = strrchr(self, '/');
	if (slash)
		*slash = '\0';
	for (size_t i = 0; i < sizeof places / sizeof *places; i++)
		if (snprintf(path, PATH_MAX, "%s%s", self, places[i]) < PATH_MAX && !access(path, X_OK))
			return;
	strcpy(path, "fusiond");
}

static int read_output(int fd, char **textp) {
	FILE *in = fdopen(fd, "r"), *out;
	char bytes[READ_BYTES];
	size_t n, size;

	out = in ? open_memstream(textp, &size) : NULL;
	while (out && (n = fread(bytes, 1, sizeof bytes, in)))
		fwrite(bytes, 1, n, out);
	if (in)
		fclose(in);
	return out ? fclose(out) : -1;
}

static void become(const char *const argument[], enum fusiond_output output, const int end[2]) {
	dup2(end[1], STDOUT_FILENO);
	if (output == FUSIOND_ALL)
		dup2(end[1], STDERR_FILENO);
	close(end[0]);
	close(end[1]);
	execvp(argument[0], (char *const *)(uintptr_t)argument);
	fprintf(stderr, "fusionctl: %s cannot be run\n", argument[0]);
	_exit(127);
}

int fusiond_run(const char *const argument[], enum fusiond_output output, char **textp) {
	char program[PATH_MAX];
	const char *all[ARGUMENTS] = { program };
	int end[2], status = -1;
	pid_t pid;

	*textp = NULL;
	fusiond_path(program);
	for (unsigned i = 0; i + 2 < ARGUMENTS && argument[i]; i++)
		all[i + 1] = argument[i];
	if (pipe(end))
		return -1;
	pid = fork();
	if (!pid)
		become(all, output, end);
	close(end[1]);
	if (read_output(end[0], textp))
		*textp = NULL;
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return status;
}
