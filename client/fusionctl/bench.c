/*
 * fusionctl bench pattern NAME SIZE: what one pattern gains on this machine, fused against one kernel an
 * operation.
 *
 * The pattern's graph is recorded once and replayed many times between two waits, so that neither
 * uploads nor the way of a message count. Replays must not be planned together (equal ones would be one),
 * so the session has no window; and the tracker must not choose for it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "control.h"
#include "print.h"
#include "client/json.h"
#include "protocol/nearest.h"

enum {
	BENCH_LARGEST = 16384,
	BENCH_ROUNDS = 9,
	/* Replays of a round: so many that it takes about this long, within bounds. */
	BENCH_ROUND_US = 40000,
	BENCH_REPLAYS = 2000,
	/* Copies and small kernels that may share a launch. */
	BENCH_MANY = 16,
};

/* Graphs by pattern; $ stands for the size. Those of launches are written by write_many(). */
static const char *const graphs[PATTERN_COUNT] = {
	[PATTERN_elementwise_chain] = "x = input f32[$,$] random 1\na = exp x\nb = add a x\nc = sqrt b\nd = sub c x\noutput d\n",
	[PATTERN_binary_activation] =
		"x = input f32[$,$] random 1\ny = input f32[$,$] random 2\na = add x y\nb = relu a\noutput b\n",
	[PATTERN_scalar_activation] = "x = input f32[$,$] random 1\na = mul x 0.5\nb = relu a\noutput b\n",
	[PATTERN_affine_activation] = "x = input f32[$,$] random 1\nw = input f32[$] random 2\nb = input f32[$] random 3\n"
				      "m = mul x w\na = add m b\ny = relu a\noutput y\n",
	[PATTERN_linear] = "x = input f32[$,$] random 1\nw = input f32[$,$] random 2\nb = input f32[$] random 3\n"
			   "m = matmul x w\na = add m b\ny = relu a\noutput y\n",
	[PATTERN_linear_residual] =
		"x = input f32[$,$] random 1\nw = input f32[$,$] random 2\nb = input f32[$] random 3\n"
		"r = input f32[$,$] random 4\nm = matmul x w\na = add m b\nc = add a r\ny = relu c\noutput y\n",
	[PATTERN_activation_linear] =
		"x = input f32[$,$] random 1\nw = input f32[$,$] random 2\nb = input f32[$] random 3\n"
		"c = input f32[$] random 4\na = add x c\ng = gelu a\nm = matmul g w\ny = add m b\noutput y\n",
	[PATTERN_norm_activation] =
		"x = input f32[$,$] random 1\nw = input f32[$] random 2\nb = input f32[$] random 3\n"
		"n = layer_norm x w b axes=1 eps=1e-5\ny = gelu n\noutput y\n",
	[PATTERN_norm_linear] = "x = input f32[$,$] random 1\nw = input f32[$,$] random 2\n"
				"n = rms_norm x axes=1 eps=1e-5\ny = matmul n w\noutput y\n",
	[PATTERN_reduce_broadcast] = "x = input f32[$,$] random 1\ny = softmax x axes=1\noutput y\n",
	[PATTERN_reduce_prologue] = "x = input f32[$,$] random 1\na = square x\ny = sum a axes=1\noutput y\n",
	[PATTERN_reduce_epilogue] = "x = input f32[$,$] random 1\ns = sum x axes=1\ny = sqrt s\noutput y\n",
	[PATTERN_conv_bn_act] = "x = input f32[1,64,$,$] random 1\nw = input f32[64,64,3,3] random 2\nm = input f32[64] random 3\n"
				"v = input f32[64] random 4 0.5 1.5\nc = conv x w stride=[1,1] padding=[1,1]\n"
				"n = batch_norm c m v axes=1 eps=1e-5\ny = relu n\noutput y\n",
	[PATTERN_scan] = "x = input f32[$,$] random 1\na = square x\ns = cumsum a axis=1\ny = mul s 0.5\noutput y\n",
	[PATTERN_sort] = "x = input f32[$,$] random 1\na = abs x\ny = sort a axis=1\noutput y\n",
	[PATTERN_attention] = "q = input f32[8,$,64] random 1\nk = input f32[8,$,64] random 2\n"
			      "v = input f32[8,$,64] random 3\nt = permute k 0,2,1\ns = matmul q t\nd = mul s 0.125\n"
			      "p = softmax d axes=2\ny = matmul p v\noutput y\n",
};

struct bench {
	const struct control *control;
	enum pattern pattern;
	int64_t size;
	fusion_context *context;
	struct text *text;
	fusion_capture *capture;
	double fused_s, unfused_s;     /* of one replay */
	double kernels, unfused_kernels, of_pattern;
};

/* ---- the graph ---- */

static void write_graph(FILE *out, const char *graph, int64_t size) {
	for (; *graph; graph++) {
		if (*graph == '$')
			fprintf(out, "%lld", (long long)size);
		else
			fputc(*graph, out);
	}
}

/* Many small kernels that are independent: they can share a launch. */
static void write_many(FILE *out, bool copies, int64_t size) {
	for (int i = 0; i < BENCH_MANY; i++) {
		fprintf(out, "x%d = input f32[%lld,%lld] random %d\n", i, (long long)size, (long long)size, i + 1);
		fprintf(out, "y%d = %s x%d\noutput y%d\n", i, copies ? "copy" : "relu", i, i);
	}
}

static int make_text(struct bench *b, struct fault *f) {
	bool many = b->pattern == PATTERN_memory_ops || b->pattern == PATTERN_horizontal;
	char *source = NULL;
	size_t size;
	FILE *out;
	int r;

	if (!graphs[b->pattern] && !many)
		return fault_set(f, FAULT_OPERATION, "there is no operation yet that %s could be made of",
			pattern_name(b->pattern));
	out = open_memstream(&source, &size);
	if (!out)
		return -ENOMEM;
	if (many)
		write_many(out, b->pattern == PATTERN_memory_ops, b->size);
	else
		write_graph(out, graphs[b->pattern], b->size);
	r = fclose(out) ? -ENOMEM : text_parse(pattern_name(b->pattern), source, &b->text, f);
	free(source);
	return r;
}

/* ---- recording ---- */

static int configure(struct bench *b, const char *name, const char *value, struct fault *f) {
	return fusion_configure(b->context, name, value) ? text_library_fault(f) : 0;
}

static int count_kernels(struct bench *b, fusion_array *const *output, struct fault *f) {
	char *text = fusion_explain(b->context, (int)b->text->outputs, output, 0);
	cJSON *json;
	const cJSON *kernel;
	int r = control_parse(text, &json, f);

	b->kernels = json_number(json, "kernel_count");
	b->unfused_kernels = json_number(json, "unfused_kernel_count");
	cJSON_ArrayForEach(kernel, json_item(json, "kernels")) {
		b->of_pattern += !strcmp(json_text(kernel, "pattern"), pattern_name(b->pattern));
	}
	cJSON_Delete(json);
	free(text);
	return r;
}

static void release_all(fusion_array **array, unsigned count) {
	for (unsigned i = 0; i < count; i++)
		fusion_release(array[i]);
}

/* Inputs are uploaded while the graph is recorded, and stay. */
static int record(struct bench *b, fusion_array **output, struct fault *f) {
	int r = text_record(b->text, b->context, output, f);

	if (r)
		return r;
	r = count_kernels(b, output, f);
	release_all(output, b->text->outputs);
	if (r)
		return r;
	if (fusion_capture_begin(b->context, 0, NULL))
		return text_library_fault(f);
	r = text_record(b->text, b->context, output, f);
	if (r)
		return r;
	b->capture = fusion_capture_end(b->context, (int)b->text->outputs, output);
	release_all(output, b->text->outputs);
	return b->capture ? 0 : text_library_fault(f);
}

/* ---- measuring ---- */

static double now_s(void) {
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int replay(struct bench *b, fusion_array **output, unsigned times, double *secondsp, struct fault *f) {
	double start = now_s();

	for (unsigned i = 0; i < times; i++) {
		if (fusion_replay(b->capture, NULL, output))
			return text_library_fault(f);
		release_all(output, b->text->outputs);
	}
	if (fusion_sync(b->context))
		return text_library_fault(f);
	*secondsp = now_s() - start;
	return 0;
}

/* Unfused: one kernel an operation, one launch a kernel. */
static int configure_form(struct bench *b, bool fused, struct fault *f) {
	static const char *const names[] = { "fusion.enabled", "fusion.pattern.horizontal", "fusion.pattern.memory_ops" };
	int r = 0;

	for (unsigned i = 0; !r && i < sizeof names / sizeof *names; i++)
		r = configure(b, names[i], fused ? "yes" : "no", f);
	return r;
}

/* One round of a form; its time is that of one replay. */
static int run_round(struct bench *b, fusion_array **output, bool fused, unsigned times, double *bestp, struct fault *f) {
	double seconds = 0;
	int r = configure_form(b, fused, f);

	if (!r)
		r = replay(b, output, times, &seconds, f);
	if (!*bestp || seconds / times < *bestp)
		*bestp = seconds / times;
	return r;
}

/* Replays of a round. The first two of each form build its kernels and fill caches, and do not count. */
static int prepare(struct bench *b, fusion_array **output, unsigned *timesp, struct fault *f) {
	double first = 0, seconds = 0;
	int r = 0;

	for (unsigned i = 0; !r && i < 4; i++)
		r = run_round(b, output, i & 1, 1, i < 2 ? &first : &seconds, f);
	*timesp = seconds * 1e6 < BENCH_ROUND_US ? (unsigned)(BENCH_ROUND_US / (seconds * 1e6 + 1)) + 1 : 1;
	if (*timesp > BENCH_REPLAYS)
		*timesp = BENCH_REPLAYS;
	return r;
}

/*
 * The fastest of several rounds, since what disturbs them only makes them slower; the forms take turns,
 * so that a machine that is busy for a while disturbs both.
 */
static int measure(struct bench *b, fusion_array **output, struct fault *f) {
	unsigned times;
	int r = prepare(b, output, &times, f);

	for (unsigned i = 0; !r && i < BENCH_ROUNDS; i++) {
		r = run_round(b, output, false, times, &b->unfused_s, f);
		if (!r)
			r = run_round(b, output, true, times, &b->fused_s, f);
	}
	return r;
}

static int run(struct bench *b, struct fault *f) {
	fusion_array **output = calloc(b->text->outputs + 1, sizeof *output);
	int r = output ? configure(b, "fusion.window_us", "0", f) : -ENOMEM;

	if (!r)
		r = configure(b, "fusion.tracker_share", "0", f);
	/* Its parts round in another order than its kernel. */
	if (!r && b->pattern == PATTERN_attention)
		r = configure(b, "fusion.fast", "yes", f);
	if (!r)
		r = record(b, output, f);
	if (!r)
		r = measure(b, output, f);
	free(output);
	return r;
}

/* ---- the result ---- */

static void print_result(const struct bench *b) {
	bool launches = b->pattern == PATTERN_memory_ops || b->pattern == PATTERN_horizontal;
	char a[PRINT_TEXT], c[PRINT_TEXT];

	printf("%s, size %lld: %s kernel%s, unfused %s\n", pattern_name(b->pattern), (long long)b->size,
		print_count(b->kernels, a), b->kernels == 1 ? "" : "s", print_count(b->unfused_kernels, c));
	if (!launches && !b->of_pattern)
		printf("none of the kernels is of this pattern: the planner does not make it here\n");
	print_line("unfused", "%s", print_seconds(b->unfused_s, a));
	print_line("fused", "%s", print_seconds(b->fused_s, a));
	print_line("speedup", "%.2f", b->unfused_s / b->fused_s);
}

static void print_json(const struct bench *b) {
	cJSON *json = control_json("fusionctl.bench/1");

	cJSON_AddStringToObject(json, "pattern", pattern_name(b->pattern));
	cJSON_AddNumberToObject(json, "size", (double)b->size);
	cJSON_AddNumberToObject(json, "kernels", b->kernels);
	cJSON_AddNumberToObject(json, "kernels_of_pattern", b->of_pattern);
	cJSON_AddNumberToObject(json, "unfused_kernels", b->unfused_kernels);
	cJSON_AddNumberToObject(json, "unfused_us", b->unfused_s * 1e6);
	cJSON_AddNumberToObject(json, "fused_us", b->fused_s * 1e6);
	cJSON_AddNumberToObject(json, "speedup", b->unfused_s / b->fused_s);
	control_print_json(json);
}

/* ---- the command ---- */

static int refuse_pattern(const char *name, struct fault *f) {
	char hint[NEAREST_SENTENCE];
	struct nearest near;

	nearest_begin(&near, name, strlen(name));
	for (unsigned i = 1; i < PATTERN_COUNT; i++)
		nearest_try(&near, pattern_name((enum pattern)i));
	return fault_set(f, FAULT_SYNTAX, "there is no pattern %s%s; fusionctl patterns lists them", name, nearest_text(&near, "", hint));
}

static int read_words(const struct control *c, struct bench *b, struct fault *f) {
	char *end = NULL;

	b->pattern = pattern_find(c->word[1]);
	if (!b->pattern)
		return refuse_pattern(c->word[1], f);
	errno = 0;
	b->size = strtoll(c->word[2], &end, 10);
	if (errno || *end || b->size < 1 || b->size > BENCH_LARGEST)
		return fault_set(f, FAULT_SYNTAX, "the size is %s, not a number from 1 to %d", c->word[2], BENCH_LARGEST);
	return 0;
}

int bench_command(const struct control *c) {
	struct bench b = { .control = c };
	struct fault f;
	int r = read_words(c, &b, &f);

	if (r) {
		fprintf(stderr, "fusionctl: %s\n", f.text);
		return FUSIONCTL_USAGE;
	}
	r = make_text(&b, &f);
	if (!r)
		r = control_open(c, &b.context, &f);
	if (!r)
		r = run(&b, &f);
	if (!r && c->json)
		print_json(&b);
	else if (!r)
		print_result(&b);
	fusion_capture_free(b.capture);
	fusion_close(b.context);
	text_free(b.text);
	return r ? control_fail(c, r, &f) : FUSIONCTL_OK;
}
