/* Starting a learner and reading its reports. See learner.h for the contract. */
#include "learner.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cjson/cJSON.h>

/* In the child: both outputs go to the parent. Does not return. */
static void become_learner(
	const struct learner *l, const struct learner_options *o, int output, pid_t parent) {
	char seed[16], epochs[16];
	int nothing = open("/dev/null", O_RDONLY);

	snprintf(seed, sizeof seed, "%d", l->seed);
	snprintf(epochs, sizeof epochs, "%d", o->epochs);
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (nothing < 0 || getppid() != parent)
		_exit(126);
	dup2(nothing, STDIN_FILENO);
	dup2(output, STDOUT_FILENO);
	dup2(output, STDERR_FILENO);
	execl(o->program, o->program, "--json", "--seed", seed, "--epochs", epochs, "--socket", o->socket,
		"--fusion", o->fusion ? "on" : "off", (char *)NULL);
	fprintf(stderr, "%s cannot be run: %s\n", o->program, strerror(errno));
	_exit(127);
}

int learner_start(struct learner *l, int seed, const struct learner_options *o) {
	pid_t parent = getpid();
	int end[2];

	*l = (struct learner){ .fd = -1, .seed = seed, .epochs = o->epochs };
	if (pipe2(end, O_CLOEXEC))
		return -errno;
	l->pid = fork();
	if (!l->pid)
		become_learner(l, o, end[1], parent);
	close(end[1]);
	if (l->pid < 0) {
		l->pid = 0;
		close(end[0]);
		return -EAGAIN;
	}
	l->fd = end[0];
	fcntl(l->fd, F_SETFL, O_NONBLOCK);
	return 0;
}

/* A member that is missing counts as an error of the program: NaN spoils every figure made of it. */
static double number(const cJSON *object, const char *name) {
	return cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(object, name));
}

static void read_outcome(struct learner *l, const cJSON *report, const char *weights) {
	const cJSON *stats = cJSON_GetObjectItemCaseSensitive(report, "stats");

	snprintf(l->outcome.weights, sizeof l->outcome.weights, "%s", weights);
	l->outcome.accuracy = number(report, "accuracy");
	l->outcome.seconds = number(report, "seconds");
	l->outcome.epoch_ms = number(report, "epoch_ms");
	l->outcome.train_seconds = l->outcome.epoch_ms * l->epochs / 1e3;
	l->outcome.operations = number(stats, "operations_received");
	l->outcome.kernels = number(stats, "kernels_launched");
	l->outcome.kernels_unfused = number(stats, "kernels_unfused");
	l->outcome.bytes_not_moved = number(stats, "bytes_not_moved");
	l->outcome.buffers_eliminated = number(stats, "buffers_eliminated");
	l->finished = true;
}

static void read_line(struct learner *l, const char *line) {
	cJSON *report = cJSON_Parse(line);
	const char *weights = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(report, "weights"));

	if (!report) {
		snprintf(l->words, sizeof l->words, "%.250s", line);
	} else if (weights) {
		read_outcome(l, report, weights);
	} else {
		l->epoch = (int)number(report, "epoch");
		l->loss = number(report, "loss");
	}
	cJSON_Delete(report);
}

static void read_lines(struct learner *l) {
	char *start = l->line;
	char *end;

	while ((end = memchr(start, '\n', l->used - (size_t)(start - l->line)))) {
		*end = '\0';
		read_line(l, start);
		start = end + 1;
	}
	l->used -= (size_t)(start - l->line);
	memmove(l->line, start, l->used);
	if (l->used == sizeof l->line)
		l->used = 0;
}

void learner_listen(struct learner *l) {
	ssize_t n = read(l->fd, l->line + l->used, sizeof l->line - l->used);

	if (n > 0) {
		l->used += (size_t)n;
		read_lines(l);
	} else if (!n || (errno != EAGAIN && errno != EINTR)) {
		close(l->fd);
		l->fd = -1;
	}
}

bool learner_end(struct learner *l) {
	int status = -1;

	if (l->fd >= 0) {
		close(l->fd);
		l->fd = -1;
		if (l->pid)
			kill(l->pid, SIGKILL);
	}
	if (l->pid && waitpid(l->pid, &status, 0) < 0)
		status = -1;
	l->pid = 0;
	return l->finished && !status;
}
