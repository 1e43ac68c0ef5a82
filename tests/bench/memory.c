/*
 * Anonymous memory (RssAnon): of a client that has worked with arrays of 8 MB each, and of the daemon's
 * two processes, idle after their start and after this benchmark's work.
 *
 * Arrays lie in shared memory, so what is anonymous in a client is the library's and C's own. The
 * client is a process of its own that links no more than libfusion and C: this program started
 * again, which uses nothing of OpenCL there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

enum {
	CLIENT_ROWS = 2048,
	CLIENT_COLUMNS = 1024,
	CLIENT_STEPS = 200,
	CLIENT_OPERATIONS = 20,
	CLIENT_STATES = 3,
	CLIENT_LINE = 128,
};

/* ---- the client ---- */

/* Replaces *statep by what ten subtractions and ten relus make of it. */
static int client_step(fusion_context *c, fusion_array *x, fusion_array **statep) {
	fusion_array *t = *statep;

	fusion_scope_begin(c);
	for (int i = 0; i < CLIENT_OPERATIONS / 2; i++)
		t = fusion_relu(fusion_sub(x, t));
	fusion_release(*statep);
	*statep = fusion_keep(t);
	fusion_scope_end(c);
	return fusion_error_code() ? -1 : fusion_flush(c);
}

/* Sends step after step without waiting, as a training loop does. */
static int client_work(fusion_context *c, double *anonymousp, double *sharedp) {
	const int64_t dims[] = { CLIENT_ROWS, CLIENT_COLUMNS };
	fusion_array *x = workload_normal(c, 2, dims, 1);
	fusion_array *state[CLIENT_STATES] = { NULL };
	int r = 0;

	for (int i = 0; i < CLIENT_STATES; i++)
		state[i] = fusion_copy(x);
	for (int step = 0; !r && step < CLIENT_STEPS; step++)
		r = client_step(c, x, &state[step % CLIENT_STATES]);
	if (!r)
		r = fusion_sync(c);
	*anonymousp = threads_memory(getpid(), "RssAnon");
	*sharedp = threads_memory(getpid(), "RssShmem");
	for (int i = 0; i < CLIENT_STATES; i++)
		fusion_release(state[i]);
	fusion_release(x);
	return r;
}

int memory_client(const char *socket) {
	struct fusion_options options = { .socket = socket, .name = "memory" };
	double before = threads_memory(getpid(), "RssAnon"), open, working, shared;
	fusion_context *c = NULL;
	int r = fusion_open(&c, &options);

	open = threads_memory(getpid(), "RssAnon");
	if (!r)
		r = client_work(c, &working, &shared);
	if (r)
		bench_fail("%s", fusion_error());
	else
		printf("%.0f %.0f %.0f %.0f\n", before, open, working, shared);
	fusion_close(c);
	return r ? EXIT_FAILURE : EXIT_SUCCESS;
}

struct client_memory {
	double before, open, working, shared;
};

static int read_client(FILE *file, struct client_memory *m) {
	char line[CLIENT_LINE];
	char *at = line;

	if (!fgets(line, sizeof line, file))
		return bench_fail("the client of the memory workload said nothing");
	m->before = strtod(at, &at);
	m->open = strtod(at, &at);
	m->working = strtod(at, &at);
	m->shared = strtod(at, &at);
	return m->working > 0 ? 0 : bench_fail("the client of the memory workload failed");
}

static int run_client(const struct bench *b, struct client_memory *m) {
	int end[2], r = -1;
	FILE *file;
	pid_t pid;

	if (pipe(end))
		return bench_fail("no pipe");
	pid = fork();
	if (!pid) {
		dup2(end[1], STDOUT_FILENO);
		close(end[0]);
		execl("/proc/self/exe", "fusion-bench", "--memory-client", b->socket, (char *)NULL);
		_exit(127);
	}
	close(end[1]);
	file = fdopen(end[0], "r");
	if (pid > 0 && file)
		r = read_client(file, m);
	if (file)
		fclose(file);
	if (pid > 0)
		waitpid(pid, NULL, 0);
	return r;
}

/* ---- the report ---- */

static void tell(cJSON *report, const char *what, double bytes) {
	cJSON *details = cJSON_GetObjectItemCaseSensitive(report, "details");
	char text[CLIENT_LINE];

	snprintf(text, sizeof text, "%-46s %8.2f MB", what, bytes / 1e6);
	cJSON_AddItemToArray(details, cJSON_CreateString(text));
}

int measure_memory(struct bench *b, cJSON *report) {
	double supervisor = threads_memory(b->supervisor, "RssAnon"),
	       engine = threads_memory(b->engine, "RssAnon");
	struct client_memory m = { .before = 0 };

	cJSON_AddArrayToObject(report, "details");
	if (run_client(b, &m))
		return -1;
	figure(report, "client_anonymous", m.working);
	figure(report, "client_anonymous_before_open", m.before);
	figure(report, "client_anonymous_open", m.open);
	figure(report, "client_shared", m.shared);
	figure(report, "supervisor_idle_anonymous", b->supervisor_idle);
	figure(report, "engine_idle_anonymous", b->engine_idle);
	figure(report, "supervisor_anonymous", supervisor);
	figure(report, "engine_anonymous", engine);
	tell(report, "client, anonymous, after 4,000 operations", m.working);
	tell(report, "  of it before fusion_open", m.before);
	tell(report, "client, shared (its arrays)", m.shared);
	tell(report, "supervisor, anonymous, idle after its start", b->supervisor_idle);
	tell(report, "engine, anonymous, idle after its start", b->engine_idle);
	tell(report, "engine, anonymous, before this workload", engine);
	return 0;
}
