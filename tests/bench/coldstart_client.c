/* One of the clients of coldstart: calls graph after graph, keeps the results, and compares what comes later. */
#include "coldstart.h"

#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

struct client {
	fusion_context *context;
	struct coldstart_inputs in;
	int first;                           /* of its graphs */
	void *result[COLDSTART_EACH];        /* the bits of the first call */
	void *got;
};

static fusion_array *input(struct client *c, int rank, int64_t rows, uint64_t seed) {
	const int64_t dims[] = { rows, COLDSTART_COLUMNS };

	return workload_normal(c->context, rank, dims + 2 - rank, seed);
}

/* Resident before anything is timed. */
static int make_inputs(struct client *c) {
	c->in.x = input(c, 2, COLDSTART_ROWS, 1);
	c->in.y = input(c, 2, COLDSTART_ROWS, 2);
	c->in.w = input(c, 2, COLDSTART_COLUMNS, 3);
	c->in.b = input(c, 1, 1, 4);
	c->got = malloc(COLDSTART_BYTES);
	for (int i = 0; i < COLDSTART_EACH; i++)
		c->result[i] = malloc(COLDSTART_BYTES);
	return c->in.b && c->got ? fusion_sync(c->context) : -1;
}

static int call(struct client *c, int i, void *got, double *secondsp) {
	double start = bench_now();
	int r = fusion_scope_begin(c->context);
	fusion_array *y = r ? NULL : fusion_keep(coldstart_graph(c->first + i, &c->in));

	/* What stands between inputs and result is nobody's, as in any program. */
	r = fusion_scope_end(c->context) || !y ? -1 : fusion_read(y, got, COLDSTART_BYTES);
	*secondsp = bench_now() - start;
	fusion_release(y);
	return r;
}

static int first_pass(struct client *c) {
	struct coldstart_pass pass = { .differ = 0 };

	for (int i = 0; i < COLDSTART_EACH; i++)
		if (!c->result[i] || call(c, i, c->result[i], &pass.seconds[i]))
			return -1;
	return process_put(&pass, sizeof pass);
}

static int again(struct client *c) {
	struct coldstart_pass pass = { .differ = 0 };

	for (int i = 0; i < COLDSTART_EACH; i++) {
		if (call(c, i, c->got, &pass.seconds[i]))
			return -1;
		pass.differ += memcmp(c->got, c->result[i], COLDSTART_BYTES) != 0;
	}
	return process_put(&pass, sizeof pass);
}

/* Says that it is ready, and does as it is told. */
static int work(struct client *c) {
	int r = make_inputs(c);
	char told;

	if (!r)
		r = process_put("", 1);
	if (!r && read(STDIN_FILENO, &told, 1) == 1)
		r = first_pass(c);
	while (!r && read(STDIN_FILENO, &told, 1) == 1)
		r = again(c);
	return r;
}

/* argument: "FIRST SOCKET", FIRST the number of its first graph. */
int coldstart_client(const char *argument) {
	static struct client c;
	char *socket;
	struct fusion_options options = { .name = "coldstart" };
	int r;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	c.first = (int)strtol(argument, &socket, 10);
	options.socket = socket + 1;
	r = fusion_open(&c.context, &options);
	if (!r)
		r = work(&c);
	if (r)
		bench_fail("coldstart: %s", fusion_error());
	fusion_close(c.context);
	return r ? EXIT_FAILURE : EXIT_SUCCESS;
}
