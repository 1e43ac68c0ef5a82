/* A context on the daemon that tests/fake_daemon.h plays, for a fixture; when it ends everything is released and answered. */
#pragma once

#include "client/fusion.h"

#include "tests/fake_daemon.h"
#include "tests/patience.h"
#include "tests/test_protocol.h"

static fusion_context *context;

static inline void open_context_with(struct fusion_options options) {
	fake_start();
	options.socket = fake.door;
	ck_assert_msg(!fusion_open(&context, &options), "%s", fusion_error());
}

static inline void open_context(void) {
	open_context_with((struct fusion_options){ 0 });
}

/*
 * Every test ends with it: the fake has met nothing wrong, and nothing is left in it. An answer that nobody waits for
 * any more may still hold its array for a moment.
 */
static inline void close_context(void) {
	for (int i = 0; i < PATIENCE_MS / 20 && (i < 2 || fake.live); i++) {
		if (i > 1)
			usleep(20000);
		ck_assert_msg(!fusion_flush(context), "%s", fusion_error());
		ck_assert_msg(!fusion_sync(context), "%s", fusion_error());
	}
	ck_assert_str_eq(fake.problem, "");
	ck_assert_uint_eq(fake.live, 0);
	/* All came by the transport that is asked for. */
	ck_assert_uint_eq(fake_has_rings() ? fake.by_nng : served_requests(), 0);
	fusion_close(context);
	fake_stop();
	ck_assert_str_eq(fake.problem, "");
}

static inline void expect_error(int code, const char *part) {
	ck_assert_msg(fusion_error_code() == code, "%s: %s", fusion_code_name(fusion_error_code()), fusion_error());
	ck_assert_msg(strstr(fusion_error(), part) != NULL, "\"%s\" lacks \"%s\"", fusion_error(), part);
	fusion_error_clear();
}

/* first, first + 1, ... */
static inline fusion_array *vector(int64_t n, float first) {
	float *data = malloc((size_t)n * sizeof *data);
	fusion_array *a;

	for (int64_t i = 0; i < n; i++)
		data[i] = first + (float)i;
	a = fusion_from(context, FUSION_F32, 1, &n, data);
	free(data);
	ck_assert_msg(a != NULL, "%s", fusion_error());
	return a;
}

static inline fusion_array *matrix(enum fusion_dtype dtype, int64_t rows, int64_t columns) {
	fusion_array *a = fusion_full(context, dtype, 2, (int64_t[]){ rows, columns }, 1);

	ck_assert_msg(a != NULL, "%s", fusion_error());
	return a;
}
