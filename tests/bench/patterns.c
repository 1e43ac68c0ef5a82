/*
 * Patterns fused and operation by operation, as fusion_benchmark_pattern() measures them: both forms in turns, after their kernels were built, by the clock
 * of the device and by the wall's, best and median of rounds, with results compared.
 *
 * By itself what the first designs of fusion name, in the sizes that they name; with `sweep` every built-in pattern in sizes from 16 to 2048, to see where
 * fusing loses. Where two forms take the same time, half of the rounds tell that one of them loses. So a case counts as lost where best and median
 * by the device's clock say so, and it has been measured again as often as they do.
 */
#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

enum {
	CASE_SIZES = 8,
	CASE_NAME = 64,
	/* Times that a case is measured again before it counts as lost. */
	LOST_AGAIN = 3,
	FIRST_SIZE = 16,
	LAST_SIZE = 2048,
};

/* What the designs name: a built-in pattern, or a text of its own that is defined as one. */
static const struct named {
	const char *name, *pattern, *signature, *text;
	int64_t size[CASE_SIZES];
} designs[] = {
	{ .name = "add_relu", .pattern = "binary_activation", .size = { 128, 256, 512, 1024, 4096 } },
	{ .name = "mul_relu", .signature = "measured_mul_relu(x, y)", .text = "relu(x * y)", .size = { 128, 256, 512, 1024, 4096 } },
	{ .name = "affine_relu", .pattern = "affine_activation", .size = { 128, 256, 512, 1024, 4096 } },
	{ .name = "linear_relu", .pattern = "linear", .size = { 32, 64, 128, 256, 512, 1024 } },
	{ .name = "linear_residual_relu", .pattern = "linear_residual", .size = { 128, 256, 512, 1024 } },
	{ .name = "gelu_linear", .pattern = "activation_linear", .size = { 128, 256, 512, 1024 } },
	{ .name = "layer_norm_linear", .signature = "measured_norm_linear(x, w, b)", .text = "matmul(layer_norm(x, axes=axes, eps=eps), w) + b",
		.size = { 128, 256, 512, 1024 } },
	{ .name = "conv_bn_relu", .pattern = "conv_bn_act", .size = { 7, 14, 28, 56 } },
	{ .name = "attention", .pattern = "attention", .size = { 128, 256, 512 } },
};

enum { DESIGNS = sizeof designs / sizeof *designs };

struct patterns {
	struct bench *bench;
	bool json;
	int cases, lost, failed;
};

static double number_of(const cJSON *json, const char *clock, const char *name) {
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(clock ? cJSON_GetObjectItemCaseSensitive(json, clock) : json, name);

	return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}

/* ---- one case ---- */

static cJSON *measure(const struct patterns *p, const char *pattern, int64_t size) {
	const struct fusion_benchmark_options o = { .size = size, .seconds = p->bench->budget };
	char *text = fusion_benchmark_pattern(p->bench->context, pattern, &o);
	cJSON *json = text ? cJSON_Parse(text) : NULL;

	free(text);
	return json;
}

/* By the clock that tells of kernels alone, where the driver keeps it. */
static bool loses(const cJSON *json) {
	const char *clock = cJSON_HasObjectItem(json, "device") ? "device" : "wall";

	return number_of(json, clock, "speedup") < 1 && number_of(json, clock, "median_speedup") < 1;
}

static void cell(double value, int decimals) {
	if (isfinite(value))
		printf(" %9.*f |", decimals, value);
	else
		printf(" %9s |", "");
}

static void print_case(const char *name, const cJSON *json, bool lost) {
	static const char *const clocks[] = { "device", "wall" };

	printf("| %-25s |", name);
	cell(number_of(json, NULL, "kernels"), 0);
	cell(number_of(json, NULL, "unfused_kernels"), 0);
	for (unsigned i = 0; i < sizeof clocks / sizeof *clocks; i++) {
		cell(number_of(json, clocks[i], "fused_us"), 1);
		cell(number_of(json, clocks[i], "unfused_us"), 1);
		cell(number_of(json, clocks[i], "speedup"), 2);
		cell(number_of(json, clocks[i], "median_speedup"), 2);
	}
	puts(lost ? " slower |" : " |");
}

static void print_json(const char *name, cJSON *json, bool lost) {
	char *text;

	cJSON_AddStringToObject(json, "case", name);
	cJSON_AddBoolToObject(json, "lost", lost);
	text = cJSON_PrintUnformatted(json);
	puts(text ? text : "{}");
	free(text);
}

/* A case that fails is told and counted; the others run. */
static void one_case(struct patterns *p, const char *name, const char *pattern, int64_t size) {
	char label[CASE_NAME];
	cJSON *json = measure(p, pattern, size);
	bool lost;

	snprintf(label, sizeof label, "%s_%lld", name, (long long)size);
	for (int i = 0; json && loses(json) && i < LOST_AGAIN; i++) {
		cJSON_Delete(json);
		json = measure(p, pattern, size);
	}
	p->cases++;
	if (!json || !cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(json, "same_bits"))) {
		p->failed++;
		bench_fail("%s: %s", label, json ? "fusion changed the bits of the result" : fusion_error());
		cJSON_Delete(json);
		return;
	}
	lost = loses(json);
	p->lost += lost;
	if (p->json)
		print_json(label, json, lost);
	else
		print_case(label, json, lost);
	fflush(stdout);
	cJSON_Delete(json);
}

/* ---- all of them ---- */

static void all_sizes(struct patterns *p, const char *pattern) {
	for (int64_t size = FIRST_SIZE; size <= LAST_SIZE; size *= 2)
		one_case(p, pattern, pattern, size);
}

static int sweep(struct patterns *p) {
	char *text = fusion_patterns(p->bench->context);
	cJSON *list = text ? cJSON_Parse(text) : NULL;
	const cJSON *one;

	free(text);
	if (!list)
		return bench_fail("%s", fusion_error());
	cJSON_ArrayForEach(one, list) {
		if (!strcmp(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(one, "from")), "built in"))
			all_sizes(p, cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(one, "pattern")));
	}
	cJSON_Delete(list);
	return 0;
}

static int define(struct patterns *p) {
	for (int i = 0; i < DESIGNS; i++)
		if (designs[i].signature && fusion_define_pattern(p->bench->context, designs[i].signature, designs[i].text, false))
			return bench_fail("%s", fusion_error());
	return 0;
}

/* What the daemon knows it by. */
static const char *pattern_of(const struct named *n, char text[static CASE_NAME]) {
	if (n->signature)
		snprintf(text, CASE_NAME, "%.*s", (int)strcspn(n->signature, "("), n->signature);
	else
		snprintf(text, CASE_NAME, "%s", n->pattern);
	return text;
}

static const struct named *find(const char *name) {
	for (int i = 0; i < DESIGNS; i++)
		if (!strcmp(designs[i].name, name))
			return &designs[i];
	return NULL;
}

/* "add_relu_128", "reduce_broadcast_64"; without a number all sizes of a sweep. */
static void one_part(struct patterns *p, const char *part) {
	char name[CASE_NAME], pattern[CASE_NAME];
	const char *digits = strrchr(part, '_');
	bool sized = digits && digits[1] && strspn(digits + 1, "0123456789") == strlen(digits + 1);
	const struct named *n;

	snprintf(name, sizeof name, "%.*s", sized ? (int)(digits - part) : (int)strlen(part), part);
	n = find(name);
	snprintf(pattern, sizeof pattern, "%s", name);
	if (n)
		pattern_of(n, pattern);
	if (sized)
		one_case(p, name, pattern, strtoll(digits + 1, NULL, 10));
	else
		all_sizes(p, pattern);
}

static void all_designs(struct patterns *p) {
	char pattern[CASE_NAME];

	for (int i = 0; i < DESIGNS; i++)
		for (int k = 0; k < CASE_SIZES && designs[i].size[k]; k++)
			one_case(p, designs[i].name, pattern_of(&designs[i], pattern), designs[i].size[k]);
}

static void print_head(const struct bench *b) {
	char date[32] = "";
	time_t now = time(NULL);
	struct tm at;

	if (localtime_r(&now, &at))
		strftime(date, sizeof date, "%d %B %Y", &at);
	printf("%s, fusiond " FUSION_VERSION ", %.3g s a case; ", date, b->budget);
	report_machine(b->device);
	puts("\n| microseconds | kernels | unfused | fused, device | unfused | times as fast | median | fused, wall | unfused | times as fast | median | |\n"
	     "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
}

int measure_patterns(struct bench *b, bool json, const char *const *part, int parts) {
	struct patterns p = { .bench = b, .json = json };
	int r = define(&p);

	if (r)
		return r;
	if (!json)
		print_head(b);
	for (int i = 0; !r && i < parts; i++)
		if (!strcmp(part[i], "sweep"))
			r = sweep(&p);
		else
			one_part(&p, part[i]);
	if (!parts)
		all_designs(&p);
	if (!json)
		printf("\n%d of %d are slower fused.\n", p.lost, p.cases);
	return r ? r : p.failed;
}
