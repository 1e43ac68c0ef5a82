/*
 * How a test waits for what must come: it looks again until it is there. No claim hangs on how long that takes; the one bound is for what hangs,
 * and is longer than any machine needs, however busy it is.
 */
#pragma once

#include <check.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

enum {
	PATIENCE_S = 1200,
	PATIENCE_MS = PATIENCE_S * 1000,
	PATIENCE_LOOK_US = 1000,
};

/* Waits until the condition holds; the test fails where it never does. */
#define AWAIT(condition)                                                                                                        \
	do {                                                                                                                    \
		bool await_holds = (condition);                                                                                 \
                                                                                                                                \
		for (uint64_t us = 0; !await_holds && us < UINT64_C(1000000) * PATIENCE_S; us += PATIENCE_LOOK_US) {            \
			usleep(PATIENCE_LOOK_US);                                                                               \
			await_holds = (condition);                                                                              \
		}                                                                                                               \
		ck_assert_msg(await_holds, "waited in vain for: %s", #condition);                                               \
	} while (0)
