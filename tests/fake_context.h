/* A context on the daemon that tests/fake_daemon.h plays, for a fixture; when it ends everything is released and answered. */
#pragma once

#include "client/fusion.h"

#include "tests/fake_daemon.h"
#include "tests/test_protocol.h"

static fusion_context *context;

static inline void open_context(void) {
	struct fusion_options options = { 0 };

	fake_start();
	options.socket = fake.door;
	ck_assert_msg(!fusion_open(&context, &options), "%s", fusion_error());
}

static inline void close_context(void) {
	ck_assert_msg(!fusion_sync(context), "%s", fusion_error());
	ck_assert_msg(!fusion_flush(context), "%s", fusion_error());
	ck_assert_msg(!fusion_sync(context), "%s", fusion_error());
	ck_assert_uint_eq(fake.live, 0);
	fusion_close(context);
	fake_stop();
	ck_assert_str_eq(fake.problem, "");
}

static inline fusion_array *matrix(enum fusion_dtype dtype, int64_t rows, int64_t columns) {
	fusion_array *a = fusion_full(context, dtype, 2, (int64_t[]){ rows, columns }, 1);

	ck_assert_msg(a != NULL, "%s", fusion_error());
	return a;
}
