/* Arguments that are in order, of which tests/handle_calls.sh makes its calls. */
#pragma once

#include "tests/fake_context.h"

enum {
	ELEMENTS = 6,
	BYTES = ELEMENTS * sizeof(float),
	PLACES = 64,
};

static struct {
	fusion_context *context;
	fusion_array *array, *step;
	fusion_capture *capture;
	int64_t numbers[PLACES];
	char memory[BYTES];
	char zeros[1024];
	void *place[PLACES];
	struct fusion_sgd_options sgd;
} good = { .numbers = { 1, 1, 1, 1, 1, 1, 1, 1 }, .sgd = { .rate = 1, .momentum = 1 } };

static void ignore(void *user, int code) {
	(void)user;
	(void)code;
}

static fusion_array *array_new(void) {
	fusion_array *a = fusion_from(context, FUSION_F32, 1, (int64_t[]){ ELEMENTS }, (float[ELEMENTS]){ 1 });

	ck_assert_msg(a != NULL, "%s", fusion_error());
	return a;
}

static fusion_capture *capture_new(void) {
	fusion_array *y;
	fusion_capture *capture;

	ck_assert_msg(!fusion_capture_begin(context, 1, &good.array), "%s", fusion_error());
	y = fusion_exp(good.array);
	capture = fusion_capture_end(context, 1, &y);
	ck_assert_msg(capture != NULL, "%s", fusion_error());
	fusion_release(y);
	return capture;
}

static void good_arguments(void) {
	good.context = context;
	good.array = array_new();
	good.step = fusion_scalar(context, FUSION_F32, 0);
	good.capture = capture_new();
}
