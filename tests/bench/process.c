/* Clients of their own: this program started again, with a pipe to it and one from it. See bench.h. */
#include "bench.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

int process_start(struct process *p, const char *option, const char *argument) {
	int in[2], out[2];

	*p = (struct process){ .pid = 0 };
	if (pipe2(in, O_CLOEXEC))
		return bench_fail("no pipe");
	if (pipe2(out, O_CLOEXEC)) {
		close(in[0]);
		close(in[1]);
		return bench_fail("no pipe");
	}
	p->started = bench_now();
	p->pid = fork();
	if (!p->pid) {
		dup2(in[0], STDIN_FILENO);
		dup2(out[1], STDOUT_FILENO);
		execl("/proc/self/exe", "fusion-bench", option, argument, (char *)NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	p->to = in[1];
	p->from = fdopen(out[0], "r");
	return p->pid > 0 && p->from ? 0 : bench_fail("no process for a client");
}

void process_end(struct process *p) {
	if (!p->pid)
		return;
	close(p->to);
	if (p->from)
		fclose(p->from);
	if (p->pid > 0)
		waitpid(p->pid, NULL, 0);
	p->pid = 0;
}

int process_get(struct process *p, void *bytes, size_t size) {
	return fread(bytes, 1, size, p->from) == size ? 0 : bench_fail("a client has failed");
}

int process_tell(struct process *p, char what) {
	return write(p->to, &what, 1) == 1 ? 0 : bench_fail("a client has ended");
}

int process_put(const void *bytes, size_t size) {
	return fwrite(bytes, 1, size, stdout) == size && !fflush(stdout) ? 0 : -1;
}
