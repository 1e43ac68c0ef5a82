/*
 * What many connected clients cost: memory of the daemon for each, and time of an operation beside them.
 *
 * A process opens as many sessions as --clients says, in turns with a probe of one small operation on a session of
 * its own: alone, then with all of them connected, each holding arrays that live: half of them uploaded, half computed. Memory is the proportional set of both
 * of the daemon's processes, so shared pages of rings and arenas count where they are; what the arrays themselves need is
 * told beside it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "bench.h"

enum {
	CLIENTS_ARRAYS = 100,
	CLIENTS_ELEMENTS = 16,
	/* One uploaded and one computed: what a session needs before it has much. */
	CLIENTS_FEW = 2,
	/* Probes; the median is told. */
	CLIENTS_PROBES = 2000,
	/* Operations of a probe before the value is read: what one costs, not what a wait costs. */
	CLIENTS_OPERATIONS = 100,
	CLIENTS_TEXT = 128,
};

struct sessions {
	fusion_context **context;
	fusion_array **array;
	int count;
};

static double daemon_bytes(const struct bench *b) {
	return threads_proportional(b->supervisor) + threads_proportional(b->engine);
}

/* Seconds an operation takes, seen from a client: recorded, sent, run, the last one read. */
static double probe(fusion_context *c, struct samples *s) {
	static const int64_t dims[] = { CLIENTS_ELEMENTS };
	float got[CLIENTS_ELEMENTS];

	for (int i = 0; i < CLIENTS_PROBES; i++) {
		double start = bench_now();
		fusion_array *a;
		int r = fusion_scope_begin(c);

		a = fusion_full(c, FUSION_F32, 1, dims, 1);
		for (int k = 0; !r && k < CLIENTS_OPERATIONS; k++)
			a = fusion_add(a, a);
		r = r || fusion_read(a, got, sizeof got) || fusion_scope_end(c);
		if (r || samples_add(s, (bench_now() - start) / CLIENTS_OPERATIONS))
			return -1;
	}
	return samples_median(s);
}

static int open_session(const struct bench *b, struct sessions *all) {
	const struct fusion_options o = { .socket = b->socket, .name = "clients" };

	if (fusion_open(&all->context[all->count], &o))
		return bench_fail("session %d: %s", all->count, fusion_error());
	all->count++;
	return 0;
}

/* Arrays [first, end) of every session. */
static int make_arrays(struct sessions *all, int first, int end) {
	static const int64_t dims[] = { CLIENTS_ELEMENTS };
	static const float data[CLIENTS_ELEMENTS];

	for (int s = 0; s < all->count; s++) {
		fusion_context *c = all->context[s];
		fusion_array **array = all->array + (size_t)s * CLIENTS_ARRAYS;

		for (int i = first; i < end; i++)
			array[i] = i % 2 ? fusion_from(c, FUSION_F32, 1, dims, data) : fusion_full(c, FUSION_F32, 1, dims, i);
		if (fusion_sync(c))
			return bench_fail("%s", fusion_error());
	}
	return 0;
}

static void close_all(struct sessions *all) {
	for (int i = 0; i < all->count; i++) {
		for (int k = 0; k < CLIENTS_ARRAYS; k++)
			fusion_release(all->array[(size_t)i * CLIENTS_ARRAYS + (size_t)k]);
		fusion_close(all->context[i]);
	}
	free(all->context);
	free(all->array);
}

/* A session of this process takes a few descriptors. */
static void raise_descriptors(void) {
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit))
		fprintf(stderr, "the limit of descriptors stays as it is\n");
}

static void tell(cJSON *report, const char *what, double value, const char *unit) {
	char text[CLIENTS_TEXT];

	snprintf(text, sizeof text, "%-48s %10.2f %s", what, value, unit);
	cJSON_AddItemToArray(cJSON_GetObjectItemCaseSensitive(report, "details"), cJSON_CreateString(text));
}

static int compare(const struct bench *b, struct sessions *all, int clients, cJSON *report) {
	struct samples alone = { 0 }, beside = { 0 };
	double before, few, after, first, second;
	int r = 0;

	first = probe(b->context, &alone);
	before = daemon_bytes(b);
	while (!r && all->count < clients)
		r = open_session(b, all);
	if (!r)
		r = make_arrays(all, 0, CLIENTS_FEW);
	few = daemon_bytes(b);
	if (!r)
		r = make_arrays(all, CLIENTS_FEW, CLIENTS_ARRAYS);
	after = daemon_bytes(b);
	second = r ? -1 : probe(b->context, &beside);
	samples_free(&alone);
	samples_free(&beside);
	if (r || first < 0 || second < 0)
		return r ? r : bench_fail("%s", fusion_error());
	figure(report, "bytes_per_client", (few - before) / clients);
	figure(report, "bytes_per_array", (after - few) / clients / (CLIENTS_ARRAYS - CLIENTS_FEW));
	figure(report, "operation_us_alone", 1e6 * first);
	figure(report, "operation_us_beside", 1e6 * second);
	tell(report, "clients connected", clients, "");
	tell(report, "arrays alive", (double)clients * CLIENTS_ARRAYS, "");
	tell(report, "memory of the daemon for each, with two arrays", (few - before) / clients / 1024, "KiB");
	tell(report, "  for each array more, its 128 bytes included", (after - few) / clients / (CLIENTS_ARRAYS - CLIENTS_FEW),
		"bytes");
	tell(report, "an operation, alone", 1e6 * first, "us");
	tell(report, "an operation, beside all of them", 1e6 * second, "us");
	return 0;
}

int measure_clients(const struct bench *b, int clients, cJSON *report) {
	struct sessions all = { .count = 0 };
	int r = -1;

	raise_descriptors();
	cJSON_AddArrayToObject(report, "details");
	all.context = calloc((size_t)clients, sizeof *all.context);
	all.array = calloc((size_t)clients * CLIENTS_ARRAYS, sizeof *all.array);
	if (all.context && all.array)
		r = compare(b, &all, clients, report);
	close_all(&all);
	return r;
}
