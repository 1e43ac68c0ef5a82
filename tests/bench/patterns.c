/*
 * Patterns fused and operation by operation, as fusion_benchmark_pattern() measures them: both forms in turns, after their kernels were built, by the clock
 * of the device and by the wall's, best and median of rounds, with results compared.
 *
 * By itself what the first designs of fusion name, in the sizes that they name; with `sweep` every built-in pattern in sizes from 16 to 2048, to see where
 * fusing loses. Where two forms take the same time, half of the rounds tell that one of them loses. So a case counts as lost where best and median
 * by the device's clock say so, and it has been measured again as often as they do; one that won at last says how often it did not before.
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
	cJSON *known;                        /* what fusion_patterns() lists */
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

/* What became of a case: its last measurement, after as many that it lost. */
struct outcome {
	cJSON *json;
	int again;
	bool lost;
};

static void print_case(const char *name, const struct outcome *o) {
	const cJSON *json = o->json;
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
	if (o->lost)
		puts(" slower |");
	else if (o->again)
		printf(" slower %d of %d times |\n", o->again, o->again + 1);
	else
		puts(" |");
}

static void print_json(const char *name, const struct outcome *o) {
	char *text;

	cJSON_AddStringToObject(o->json, "case", name);
	cJSON_AddBoolToObject(o->json, "lost", o->lost);
	cJSON_AddNumberToObject(o->json, "lost_before", o->again);
	text = cJSON_PrintUnformatted(o->json);
	puts(text ? text : "{}");
	free(text);
}

static struct outcome measure_until_won(const struct patterns *p, const char *pattern, int64_t size) {
	struct outcome o = { .json = measure(p, pattern, size) };

	while (o.json && loses(o.json) && o.again < LOST_AGAIN) {
		cJSON_Delete(o.json);
		o.json = measure(p, pattern, size);
		o.again++;
	}
	o.lost = o.json && loses(o.json);
	return o;
}

/* A case that fails is told and counted; the others run. */
static void one_case(struct patterns *p, const char *name, const char *pattern, int64_t size) {
	char label[CASE_NAME];
	struct outcome o = measure_until_won(p, pattern, size);

	snprintf(label, sizeof label, "%s_%lld", name, (long long)size);
	p->cases++;
	if (!o.json || !cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o.json, "same_bits"))) {
		p->failed++;
		bench_fail("%s: %s", label, o.json ? "fusion changed the bits of the result" : fusion_error());
		cJSON_Delete(o.json);
		return;
	}
	p->lost += o.lost;
	if (p->json)
		print_json(label, &o);
	else
		print_case(label, &o);
	fflush(stdout);
	cJSON_Delete(o.json);
}

/* ---- all of them ---- */

static void all_sizes(struct patterns *p, const char *pattern) {
	for (int64_t size = FIRST_SIZE; size <= LAST_SIZE; size *= 2)
		one_case(p, pattern, pattern, size);
}

static void sweep(struct patterns *p) {
	const cJSON *one;

	cJSON_ArrayForEach(one, p->known) {
		if (!strcmp(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(one, "from")), "built in"))
			all_sizes(p, cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(one, "pattern")));
	}
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
struct part {
	char name[CASE_NAME], pattern[CASE_NAME];
	bool sized;
	int64_t size;
};

static void read_part(const char *text, struct part *part) {
	const char *digits = strrchr(text, '_');
	const struct named *n;

	part->sized = digits && digits[1] && strspn(digits + 1, "0123456789") == strlen(digits + 1);
	snprintf(part->name, sizeof part->name, "%.*s", part->sized ? (int)(digits - text) : (int)strlen(text), text);
	part->size = part->sized ? strtoll(digits + 1, NULL, 10) : 0;
	n = find(part->name);
	snprintf(part->pattern, sizeof part->pattern, "%s", part->name);
	if (n)
		pattern_of(n, part->pattern);
}

/* Before anything is measured: a name that nobody knows is not told once a size. */
static int check_part(const struct patterns *p, const char *text) {
	struct part part;
	const cJSON *one;

	if (!strcmp(text, "sweep"))
		return 0;
	read_part(text, &part);
	cJSON_ArrayForEach(one, p->known) {
		if (!strcmp(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(one, "pattern")), part.pattern))
			return 0;
	}
	return bench_fail("there is no pattern '%s'; fusionctl patterns lists them, and patterns without a name measures the designs", part.name);
}

static void one_part(struct patterns *p, const char *text) {
	struct part part;

	read_part(text, &part);
	if (!strcmp(text, "sweep"))
		sweep(p);
	else if (part.sized)
		one_case(p, part.name, part.pattern, part.size);
	else
		all_sizes(p, part.pattern);
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
	puts("\n| microseconds | kernels, fused | kernels, unfused | device, fused | device, unfused | times as fast | median | wall, fused | wall, unfused | times as fast | median | |\n"
	     "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
}

static int ask_known(struct patterns *p) {
	char *text = fusion_patterns(p->bench->context);

	p->known = text ? cJSON_Parse(text) : NULL;
	free(text);
	return p->known ? 0 : bench_fail("%s", fusion_error());
}

static void print_foot(const struct patterns *p) {
	printf("\n%d of %d are slower fused", p->lost, p->cases - p->failed);
	if (p->failed)
		printf("; %d failed", p->failed);
	puts(".");
}

static void run_parts(struct patterns *p, const char *const *part, int parts) {
	if (!p->json)
		print_head(p->bench);
	for (int i = 0; i < parts; i++)
		one_part(p, part[i]);
	if (!parts)
		all_designs(p);
	if (!p->json)
		print_foot(p);
}

int measure_patterns(struct bench *b, bool json, const char *const *part, int parts) {
	struct patterns p = { .bench = b, .json = json };
	int r = define(&p);

	if (!r)
		r = ask_known(&p);
	for (int i = 0; !r && i < parts; i++)
		r = check_part(&p, part[i]);
	if (!r)
		run_parts(&p, part, parts);
	cJSON_Delete(p.known);
	return r ? r : p.failed;
}
