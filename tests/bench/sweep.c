/*
 * Is fusing ever slower? Products with what surrounds them, fused and not, from 1 to 4096, square and not.
 *
 * Each workload runs fused, operation by operation, and, where all that surrounds its product comes after it, as the bare
 * product on the same factors, whose kernel is the best that there is: what the other takes longer is the epilogue. Blocks of
 * these forms take turns, each round in another order, and each run is waited for. A round tells a ratio of medians
 * of its blocks; ratios of the best runs stand beside their median.
 *
 * Where two forms take the same time, half of the rounds tell that one of them loses. So a case counts as lost where the
 * best runs say so and three rounds of four do, and it has been measured again, with more rounds, as long as they do.
 */
#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum form { FUSED, UNFUSED, BARE, FORMS };

enum {
	SWEEP_RUNS_LEAST = 3,                /* of a block */
	SWEEP_RUNS_MOST = 500,
	SWEEP_ROUNDS_LEAST = 4,              /* or there are no quartiles */
	SWEEP_ROUNDS_MOST = 400,
	SWEEP_AGAIN = 3,                     /* times that a case is measured again before it counts */
};

/* What takes longer is a block by itself: a first run costs it little, and there would be too few rounds. */
#define LONG_SECONDS 0.03
/* Each form, at least. */
#define WARM_SECONDS 0.1
/* ... and what takes no longer than this, until the driver's device for small launches has its program (device/near.c), or so long. */
#define SMALL_SECONDS 1e-4
#define WARM_SECONDS_SMALL 1.0
/* What an epilogue may cost over the bare product. */
#define EPILOGUE_MOST 1.05

static const struct {
	const char *name;
	bool bare;                           /* all that surrounds the product comes after it */
} kinds[] = { { "linear_res_relu", true }, { "gelu_linear", false }, { "layernorm_linear", false }, { "linear_gelu", true } };

/* MxKxN: squares, odd ones, then vectors, few rows, few columns, short and long sums. */
static const char *const shapes[] = {
	"1", "2", "4", "8", "16", "32", "64", "128", "256", "512", "1024", "2048", "4096",
	"3", "7", "17", "33", "65", "100", "129", "200", "255", "300", "509", "700", "1023", "1025",
	"1x1x4096", "1x4096x1", "4096x1x1", "4096x1x4096", "1x512x512", "1x4096x4096", "512x512x1", "4096x4096x1",
	"2x300x700", "4x1024x1024", "8x4096x4096", "16x64x4096", "13x777x1001", "32x1024x1024", "64x4096x64",
	"4096x16x16", "1000x10x1000", "4096x64x64", "1000x777x3", "2048x64x2048", "777x1001x13", "2048x2048x64",
	"300x700x500", "128x1024x512", "512x128x2048", "10000x64x10", "64x10000x64", "5x3x40000",
	"65536x1x1", "65536x2x2", "65536x4x1", "65536x8x8", "65536x17x4", "65536x64x1",
};

struct sweep_case {
	struct bench *bench;
	struct workload workload, product;
	bool bare;                           /* is the bare product measured? */
	fusion_array *in[WORKLOAD_INPUTS];
	struct samples all[FORMS];
	struct samples gain, epilogue;       /* a round each: unfused / fused, fused / bare */
	int runs;                            /* of a block */
};

static double samples_quartile(struct samples *s, int quarter) {
	samples_median(s); /* sorts */
	return s->count ? s->value[(s->count - 1) * quarter / 4] : NAN;
}

/* ---- runs ---- */

static int run(const struct sweep_case *c, enum form form, double *secondsp) {
	const struct workload *w = form == BARE ? &c->product : &c->workload;
	fusion_context *context = c->bench->context;
	double start = bench_now();
	fusion_array *result;
	int r;

	fusion_scope_begin(context);
	result = fusion_keep(w->kind->record(w, c->in));
	fusion_scope_end(context);
	r = result ? fusion_sync(context) : -1;
	*secondsp = bench_now() - start;
	fusion_release(result);
	return r ? bench_fail("%s: %s", w->name, fusion_error()) : 0;
}

/* The first run after a switch finds nothing where it was, and does not count. */
static int block(struct sweep_case *c, enum form form, double *medianp) {
	struct samples s = { .count = 0 };
	double seconds;
	int r = bench_fusion(c->bench, form != UNFUSED);

	if (!r && c->runs > 1)
		r = run(c, form, &seconds);
	for (int i = 0; !r && i < c->runs; i++) {
		r = run(c, form, &seconds);
		if (!r)
			r = samples_add(&s, seconds) || samples_add(&c->all[form], seconds) ? -1 : 0;
	}
	*medianp = samples_median(&s);
	samples_free(&s);
	return r;
}

static int one_round(struct sweep_case *c, int number) {
	double median[FORMS] = { 0 };
	int forms = c->bare ? FORMS : BARE, r = 0;

	for (int i = 0; !r && i < forms; i++) {
		enum form form = (enum form)((i + number) % forms);

		r = block(c, form, &median[form]);
	}
	if (!r)
		r = samples_add(&c->gain, median[UNFUSED] / median[FUSED]);
	if (!r && c->bare)
		r = samples_add(&c->epilogue, median[FUSED] / median[BARE]);
	return r;
}

static int rounds(struct sweep_case *c, double budget) {
	double end = bench_now() + budget * (c->bare ? FORMS : BARE);
	int r = 0;

	for (int i = 0; !r && i < SWEEP_ROUNDS_MOST && (i < SWEEP_ROUNDS_LEAST || bench_now() < end); i++)
		r = one_round(c, i);
	return r;
}

static int runs_for(const struct sweep_case *c, enum form form, double budget, double *secondsp) {
	double start = bench_now();
	int r = 0;

	for (int i = 0; !r && (i < 2 || bench_now() - start < budget); i++)
		r = run(c, form, secondsp);
	return r;
}

/* How many of the launches the engine's own thread had no part in, so far. NaN: not told. */
static double launched_far(const struct sweep_case *c) {
	char *text = fusion_stats(c->bench->context, true);
	cJSON *stats = text ? cJSON_Parse(text) : NULL;
	const cJSON *device = cJSON_GetObjectItemCaseSensitive(stats, "device");
	double far = cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(device, "launches")) -
		cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(device, "launches_near")) -
		cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(device, "launches_claimed"));

	cJSON_Delete(stats);
	free(text);
	return far;
}

static int warm_form(struct sweep_case *c, enum form form) {
	double start = bench_now(), seconds = 0, far = -1, before = -1;
	int r = bench_fusion(c->bench, form != UNFUSED);

	if (!r)
		r = runs_for(c, form, WARM_SECONDS, &seconds);
	while (!r && seconds < SMALL_SECONDS && bench_now() - start < WARM_SECONDS_SMALL && !(far == before && far >= 0)) {
		before = launched_far(c);
		r = runs_for(c, form, SMALL_SECONDS * 50, &seconds);
		far = launched_far(c);
	}
	if (!r && form == FUSED)
		c->runs = seconds > LONG_SECONDS ? 1 : (int)fmin(fmax(BLOCK_SECONDS / seconds, SWEEP_RUNS_LEAST), SWEEP_RUNS_MOST);
	return r;
}

static int warm(struct sweep_case *c) {
	int r = 0;

	for (int f = 0; !r && f < (c->bare ? FORMS : BARE); f++)
		r = warm_form(c, (enum form)f);
	return r;
}

/* ---- cases ---- */

static bool loses(struct sweep_case *c) {
	return samples_best(&c->all[UNFUSED]) < samples_best(&c->all[FUSED]) && samples_quartile(&c->gain, 3) < 1;
}

static bool dear(struct sweep_case *c) {
	return c->bare && samples_best(&c->all[FUSED]) > EPILOGUE_MOST * samples_best(&c->all[BARE]) &&
		samples_quartile(&c->epilogue, 1) > EPILOGUE_MOST;
}

static int measure_case(struct sweep_case *c) {
	int r = warm(c);

	if (!r)
		r = rounds(c, c->bench->budget);
	for (int i = 0; !r && i < SWEEP_AGAIN && (loses(c) || dear(c)); i++)
		r = rounds(c, c->bench->budget);
	return r;
}

static int case_inputs(struct sweep_case *c) {
	for (int i = 0; i < c->workload.kind->inputs; i++) {
		c->in[i] = workload_input(&c->workload, c->bench->context, i, 7 + (uint64_t)i);
		if (!c->in[i])
			return -1;
	}
	return 0;
}

static void case_free(struct sweep_case *c) {
	for (int i = 0; i < WORKLOAD_INPUTS; i++)
		fusion_release(c->in[i]);
	for (int f = 0; f < FORMS; f++)
		samples_free(&c->all[f]);
	samples_free(&c->gain);
	samples_free(&c->epilogue);
}

static void case_report(struct sweep_case *c, cJSON *report) {
	cJSON_AddStringToObject(report, "workload", c->workload.name);
	figure(report, "us", 1e6 * samples_best(&c->all[FUSED]));
	figure(report, "median_us", 1e6 * samples_median(&c->all[FUSED]));
	figure(report, "unfused_us", 1e6 * samples_best(&c->all[UNFUSED]));
	figure(report, "unfused_median_us", 1e6 * samples_median(&c->all[UNFUSED]));
	figure(report, "best", samples_best(&c->all[UNFUSED]) / samples_best(&c->all[FUSED]));
	figure(report, "median", samples_median(&c->gain));
	cJSON_AddBoolToObject(report, "lost", loses(c));
	figure(report, "rounds", c->gain.count);
	if (!c->bare)
		return;
	figure(report, "product_us", 1e6 * samples_best(&c->all[BARE]));
	figure(report, "epilogue_best", samples_best(&c->all[FUSED]) / samples_best(&c->all[BARE]));
	figure(report, "epilogue_median", samples_median(&c->epilogue));
	cJSON_AddBoolToObject(report, "dear", dear(c));
}

static void case_print(struct sweep_case *c) {
	printf("%-34s %10.1f %10.1f %10.1f %10.1f %6.2f %6.2f", c->workload.name, 1e6 * samples_best(&c->all[FUSED]),
		1e6 * samples_median(&c->all[FUSED]), 1e6 * samples_best(&c->all[UNFUSED]),
		1e6 * samples_median(&c->all[UNFUSED]), samples_best(&c->all[UNFUSED]) / samples_best(&c->all[FUSED]),
		samples_median(&c->gain));
	if (c->bare)
		printf(" %10.1f %6.2f %6.2f", 1e6 * samples_best(&c->all[BARE]),
			samples_best(&c->all[FUSED]) / samples_best(&c->all[BARE]), samples_median(&c->epilogue));
	printf("%s%s\n", loses(c) ? "  SLOWER" : "", dear(c) ? "  DEAR" : "");
}

/* What all cases came to. */
struct sweep {
	struct bench *bench;
	bool json;
	int cases, bare, lost, dear, failed;
};

static void case_show(struct sweep *s, struct sweep_case *c) {
	cJSON *report = s->json ? cJSON_CreateObject() : NULL;
	char *text;

	s->cases++;
	s->bare += c->bare;
	s->lost += loses(c);
	s->dear += dear(c);
	if (!s->json) {
		case_print(c);
	} else {
		case_report(c, report);
		text = cJSON_PrintUnformatted(report);
		puts(text ? text : "{}");
		free(text);
	}
	fflush(stdout);
	cJSON_Delete(report);
}

/* A case that fails is told and counted; the others run. */
static void sweep_workload(struct sweep *s, const char *name) {
	struct sweep_case c = { .bench = s->bench };
	char product[WORKLOAD_NAME];
	int r = workload_parse(name, &c.workload);

	for (size_t k = 0; !r && k < sizeof kinds / sizeof *kinds; k++)
		c.bare |= kinds[k].bare && !strcmp(c.workload.kind->name, kinds[k].name);
	snprintf(product, sizeof product, "matmul_%lldx%lldx%lld", (long long)c.workload.size[0],
		(long long)c.workload.size[1], (long long)c.workload.size[2]);
	if (!r && c.bare)
		r = workload_parse(product, &c.product);
	if (!r)
		r = case_inputs(&c);
	if (!r)
		r = measure_case(&c);
	if (r)
		s->failed++;
	else
		case_show(s, &c);
	case_free(&c);
}

static void sweep_shapes(struct sweep *s) {
	char name[WORKLOAD_NAME];

	for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
		for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
			snprintf(name, sizeof name, "%s_%s", kinds[k].name, shapes[i]);
			sweep_workload(s, name);
		}
}

int measure_sweep(struct bench *b, bool json, const char *const *part, int parts) {
	struct sweep s = { .bench = b, .json = json };

	if (!json) {
		report_machine(b->device);
		printf("%-34s %10s %10s %10s %10s %6s %6s %10s %6s %6s\n", "microseconds", "fused", "median", "unfused", "median",
			"ratio", "median", "product", "ratio", "median");
	}
	for (int i = 0; i < parts; i++)
		sweep_workload(&s, part[i]);
	if (!parts)
		sweep_shapes(&s);
	if (!json)
		printf("%d of %d are slower fused than unfused; %d of %d cost more than %.0f %% over the bare product.\n", s.lost,
			s.cases, s.dear, s.bare, 100 * (EPILOGUE_MOST - 1));
	return s.failed;
}
