/*
 * What it costs to be a client of another machine: round trips and bytes a second by the door, beside those by each URL of
 * $FUSIOND_REMOTE_LISTEN, which the private daemon takes as its own setting. Ports must be said there; for example
 *
 *	FUSIOND_REMOTE_LISTEN=tcp://127.0.0.1:4711 FUSIOND_REMOTE_PLAIN_USER=$USER fusion-bench remote
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

enum {
	REMOTE_TRIPS = 2000,
	/* Small enough to stay in a cache, as in the share benchmark; and as large as uploads may wait together. */
	REMOTE_SMALL = 16 << 10,
	REMOTE_LARGE = 8 << 20,
	REMOTE_TIMES = 10,
	REMOTE_TEXT = 256,
};

static int fail(void) {
	return bench_fail("%s", fusion_error());
}

/* One value, computed and read. */
static int trip(fusion_context *c, int i) {
	fusion_array *a = fusion_scalar(c, FUSION_F32, i), *b = fusion_add(a, a);
	float got;
	int r = fusion_read(b, &got, sizeof got) || got != (float)(2 * i);

	fusion_release(a);
	fusion_release(b);
	return r ? fail() : 0;
}

/* There and back; *upp and *downp are added to, in seconds. */
static int carry(fusion_context *c, float *data, int64_t n, struct samples *up, struct samples *down) {
	double start = bench_now(), sent;
	fusion_array *a = fusion_from(c, FUSION_F32, 1, &n, data);
	int r = fusion_sync(c);

	sent = bench_now();
	if (!r)
		r = fusion_read(a, data, (size_t)n * sizeof *data);
	fusion_release(a);
	if (r)
		return fail();
	r = samples_add(up, sent - start);
	return r ? r : samples_add(down, bench_now() - sent);
}

static void tell(cJSON *report, const char *where, const char *what, double value, const char *unit) {
	char text[REMOTE_TEXT];

	snprintf(text, sizeof text, "%-28.100s %-40s %9.2f %s", where, what, value, unit);
	cJSON_AddItemToArray(cJSON_GetObjectItemCaseSensitive(report, "details"), cJSON_CreateString(text));
	snprintf(text, sizeof text, "%.100s %s %s", where, what, unit);
	cJSON_AddNumberToObject(report, text, value);
}

static int carry_all(fusion_context *c, const char *where, float *data, int64_t n, const char *size, cJSON *report) {
	struct samples up = { 0 }, down = { 0 };
	double bytes = (double)n * sizeof *data / 1e9;
	char what[REMOTE_TEXT];
	int r = 0;

	for (int i = 0; !r && i < REMOTE_TIMES; i++)
		r = carry(c, data, n, &up, &down);
	if (!r) {
		snprintf(what, sizeof what, "%s, sent", size);
		tell(report, where, what, bytes / samples_best(&up), "GB/s");
		snprintf(what, sizeof what, "%s, read", size);
		tell(report, where, what, bytes / samples_best(&down), "GB/s");
	}
	samples_free(&up);
	samples_free(&down);
	return r;
}

static int trips(fusion_context *c, const char *where, cJSON *report) {
	struct samples s = { 0 };
	int r = 0;

	for (int i = 0; !r && i < REMOTE_TRIPS; i++) {
		double start = bench_now();

		r = trip(c, i);
		if (!r)
			r = samples_add(&s, bench_now() - start);
	}
	if (!r)
		tell(report, where, "a value, computed and read (median)", 1e6 * samples_median(&s), "us");
	samples_free(&s);
	return r;
}

static int one(const char *where, const char *socket, cJSON *report) {
	const struct fusion_options o = { .socket = socket, .name = "remote" };
	float *data = calloc(REMOTE_LARGE, sizeof *data);
	fusion_context *c;
	int r;

	if (!data || fusion_open(&c, &o)) {
		free(data);
		return data ? fail() : bench_fail("out of memory");
	}
	r = trips(c, where, report);
	if (!r)
		r = carry_all(c, where, data, REMOTE_SMALL, "64 KiB", report);
	if (!r)
		r = carry_all(c, where, data, REMOTE_LARGE, "32 MiB", report);
	fusion_close(c);
	free(data);
	return r;
}

int measure_remote(const struct bench *b, cJSON *report) {
	const char *listen = getenv("FUSIOND_REMOTE_LISTEN");
	char text[REMOTE_TEXT], *rest = text, *url;
	int r;

	cJSON_AddArrayToObject(report, "details");
	snprintf(text, sizeof text, "%s", listen ? listen : "");
	r = one("shared memory", b->socket, report);
	while (!r && (url = strtok_r(rest, ", ", &rest)))
		r = one(url, url, report);
	return r;
}
