/*
 * A program of libfusion that a release leaves to later ones: they run it against their daemon, and against their library (tests/e2e/compat.sh).
 *
 * So it uses the installed header alone, and asks for results that no release may change: every kind of call, element types, transport of
 * values and errors. What is new is added as it comes; what stands here stays.
 */
#include <fusion.h>

#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 6, COLUMNS = 4, ELEMENTS = ROWS * COLUMNS };

static fusion_context *context;
static int passed, failed;

static void claim(const char *name, bool holds) {
	if (holds) {
		passed++;
		return;
	}
	failed++;
	printf("FAIL %s: %s\n", name, fusion_error());
}

/* Lets go of the array; were its elements these, as exactly as asked? */
static bool is(fusion_array *a, int64_t n, const float expected[], double off) {
	float *got = calloc((size_t)n, sizeof *got);
	bool same = a && got && fusion_elements(a) == n && !fusion_read(a, got, (size_t)n * sizeof *got);

	for (int64_t i = 0; same && i < n; i++)
		same = fabs((double)got[i] - (double)expected[i]) <= off;
	free(got);
	fusion_release(a);
	return same;
}

/* 0, 1, 2, ... in rows. */
static fusion_array *numbers(void) {
	static const int64_t dims[] = { ROWS, COLUMNS };
	float data[ELEMENTS];

	for (int i = 0; i < ELEMENTS; i++)
		data[i] = (float)i;
	return fusion_from(context, FUSION_F32, 2, dims, data);
}

static void arithmetic(void) {
	fusion_array *x = numbers(), *y, *z;
	float expected[ELEMENTS];

	for (int i = 0; i < ELEMENTS; i++)
		expected[i] = (float)(2 * i + 1) / 2;
	y = fusion_mul_scalar(x, 2);
	z = fusion_add_scalar(y, 1);
	claim("elementwise", is(fusion_div_scalar(z, 2), ELEMENTS, expected, 0));
	fusion_release(y);
	fusion_release(z);
	claim("sum", is(fusion_sum(x, 0, NULL, false), 1, (float[]){ 276 }, 0));
	claim("max of rows", is(fusion_max(x, 1, (int[]){ 1 }, false), ROWS, (float[]){ 3, 7, 11, 15, 19, 23 }, 0));
	claim("cumsum", is(fusion_slice(y = fusion_cumsum(x, 1), (int64_t[]){ 0, 0 }, (int64_t[]){ 1, COLUMNS }, NULL), COLUMNS, (float[]){ 0, 1, 3, 6 }, 0));
	fusion_release(y);
	y = fusion_transpose(x);
	z = fusion_matmul(y, x);
	claim("matmul", is(fusion_slice(z, (int64_t[]){ 0, 0 }, (int64_t[]){ 1, COLUMNS }, NULL), COLUMNS, (float[]){ 880, 940, 1000, 1060 }, 0));
	fusion_release(y);
	fusion_release(z);
	y = fusion_softmax(x, 1, (int[]){ 1 });
	claim("a composite", is(fusion_sum(y, 1, (int[]){ 1 }, false), ROWS, (float[]){ 1, 1, 1, 1, 1, 1 }, 1e-6));
	fusion_release(y);
	y = fusion_call(context, "rms_norm", 1, &x, &(struct fusion_attributes){ .axis_count = 1, .axes = (int[]){ 1 }, .eps = 1e-5 });
	claim("a call by name", y != NULL && !fusion_wait(y));
	fusion_release(y);
	y = fusion_sort(x, 1, true);
	z = fusion_flip(x, 1, (int[]){ 1 });
	claim("sort and flip", is(fusion_sub(y, z), ELEMENTS, (float[ELEMENTS]){ 0 }, 0));
	fusion_release(y);
	fusion_release(z);
	fusion_release(x);
}

static void element_types(void) {
	for (int type = FUSION_I8; type <= FUSION_F32; type++) {
		fusion_array *a = fusion_arange(context, (enum fusion_dtype)type, 5, 1, 2);
		fusion_array *b = fusion_cast(a, FUSION_F32);
		char name[40];

		snprintf(name, sizeof name, "element type %d", type);
		claim(name, is(b, 5, (float[]){ 1, 3, 5, 7, 9 }, 0));
		fusion_release(a);
	}
}

static void memory(void) {
	fusion_array *x, *view;
	float *at, got[ELEMENTS] = { 0 };
	const void *seen;
	fusion_future *future;
	bool well;

	x = fusion_create(context, FUSION_F32, 2, (int64_t[]){ ROWS, COLUMNS }, (void **)&at);
	for (int i = 0; x && i < ELEMENTS; i++)
		at[i] = (float)i;
	claim("create", x && !fusion_unmap(x));
	view = fusion_slice(x, (int64_t[]){ 1, 0 }, (int64_t[]){ 2, FUSION_END }, NULL);
	claim("a view", is(view, COLUMNS, (float[]){ 4, 5, 6, 7 }, 0));
	claim("map to write", !fusion_map(x, FUSION_MAP_WRITE, (void **)&at));
	at[0] = 100;
	claim("unmap", !fusion_unmap(x) && fusion_version(x) >= 1);
	claim("map to read", !fusion_map(x, FUSION_MAP_READ, (void **)&seen) && *(const float *)seen == 100.0f && !fusion_unmap(x));
	future = fusion_read_begin(x, got, sizeof got);
	well = future && poll(&(struct pollfd){ .fd = fusion_future_fd(future), .events = POLLIN }, 1, -1) == 1;
	claim("a read that does not wait", !(future ? fusion_future_finish(future) : 1) && well && got[ELEMENTS - 1] == 23.0f);
	claim("fill", !fusion_fill_into(x, 3) && !fusion_read(x, got, sizeof got) && got[7] == 3.0f);
	fusion_release(x);
}

static void graphs(void) {
	fusion_array *x = numbers(), *y, *w, *g = NULL;
	fusion_capture *capture;

	claim("capture", !fusion_capture_begin(context, 1, &x));
	y = fusion_add_scalar(x, 5);
	capture = fusion_capture_end(context, 1, &y);
	fusion_release(y);
	y = NULL;
	claim("replay", capture && !fusion_replay(capture, &x, &y));
	claim("what it gives", is(fusion_min(y, 0, NULL, false), 1, (float[]){ 5 }, 0));
	fusion_release(y);
	fusion_capture_free(capture);
	w = fusion_full(context, FUSION_F32, 1, (int64_t[]){ COLUMNS }, 2);
	claim("watch", !fusion_watch(w));
	y = fusion_sum(g = fusion_square(w), 0, NULL, false);
	fusion_release(g);
	claim("grad", !fusion_grad(y, NULL, &w, 1, &g));
	claim("a step", !fusion_sgd(1, &w, &g, NULL, &(struct fusion_sgd_options){ .rate = 0.5 }, NULL));
	fusion_release(y);
	fusion_release(g);
	claim("what it made", is(w, COLUMNS, (float[]){ 0, 0, 0, 0 }, 0));
	fusion_release(x);
}

static void names(void) {
	fusion_array *x = numbers(), *y;

	claim("an operation of one's own", !fusion_define_op(context, "twice(x)", "x + x", NULL));
	y = fusion_call(context, "twice", 1, &x, NULL);
	claim("its result", is(fusion_max(y, 0, NULL, false), 1, (float[]){ 46 }, 0));
	fusion_release(y);
	claim("a pattern of one's own", !fusion_define_pattern(context, "swish2(x)", "x * sigmoid(x)", false));
	claim("which is forgotten", !fusion_forget_pattern(context, "swish2", false));
	claim("a setting", !fusion_configure(context, "fusion.enabled", "no") && !fusion_configure(context, "fusion.enabled", "yes"));
	fusion_release(x);
}

static bool is_json(char *text) {
	bool well = text && (*text == '{' || *text == '[');

	free(text);
	return well;
}

static void questions(void) {
	fusion_array *x = numbers(), *y = fusion_exp(x);

	claim("explain", is_json(fusion_explain(context, 1, &y, FUSION_EXPLAIN_SOURCE)));
	claim("stats", is_json(fusion_stats(context, true)));
	claim("settings", is_json(fusion_settings(context, false)));
	claim("patterns", is_json(fusion_patterns(context)));
	claim("operations", is_json(fusion_operations(context)));
	fusion_release(x);
	fusion_release(y);
}

static void errors(void) {
	fusion_array *x = numbers(), *y = fusion_full(context, FUSION_F32, 1, (int64_t[]){ 5 }, 1), *z = fusion_add(x, y);

	claim("a shape that does not fit", !z && fusion_error_code() == FUSION_E_SHAPE && strstr(fusion_error(), "client.c:"));
	fusion_error_clear();
	claim("a setting that is none", fusion_configure(context, "fusion.nothing", "1") != FUSION_OK);
	fusion_error_clear();
	claim("the session goes on", !fusion_sync(context));
	fusion_release(x);
	fusion_release(y);
}

/* Another session opens what this one exports. */
static void shared(void) {
	struct fusion_token token;
	fusion_context *other;
	fusion_array *x = numbers(), *y;

	claim("export", !fusion_export(x, FUSION_SHARE_READ, 0, &token));
	claim("a second session", !fusion_open(&other, &(struct fusion_options){ .name = "second", .timeout_ms = 0 }));
	y = fusion_import(other, &token);
	claim("import", is(fusion_max(y, 0, NULL, false), 1, (float[]){ 23 }, 0));
	fusion_release(y);
	fusion_close(other);
	claim("revoke", !fusion_revoke(context, &token));
	fusion_release(x);
}

int main(void) {
	if (fusion_open(&context, NULL)) {
		printf("%s\n", fusion_error());
		return 1;
	}
	claim("device", fusion_device(context) != NULL);
	arithmetic();
	element_types();
	memory();
	graphs();
	names();
	questions();
	errors();
	shared();
	fusion_close(context);
	printf("%d passed, %d failed\n", passed, failed);
	return failed != 0;
}
