/*
 * What who comes first waits for.
 *
 * First results: for each of a few workloads a daemon that has just started on an empty cache, one session, inputs in
 * place, and the workload called again and again until nothing that it wants is being built; first call minus steady calls, when its own kernel
 * was there, and when the steady time was reached. A machine with other work is slow at times whoever builds what; so it is called for as
 * long once more, when nothing that it wants is built, and the same is told of that: what both have, the machine did.
 *
 * New graphs: four processes call 50 graphs each in a row, no two alike, on such a daemon; then the same graphs again
 * and again until nothing that they want is being built, comparing every result with the first one's bits. Then the daemon is started once
 * more on the same folder, and all of it is repeated: nothing is to be built.
 */
#include "coldstart.h"

#include <ftw.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/examples/demo/private_daemon.h"

enum {
	ARGUMENT_ROOM = 160,
	LINE_ROOM = 160,
	/* Calls whose median tells whether they are steady: 2 ms of most workloads, which any other program may have. */
	FEW_CALLS = 9,
	TREE_DESCRIPTORS = 16,
};

/* A workload is called for at least so long, and, as passes over the graphs are, for at most so long until nothing is built. */
#define WATCH_SECONDS 2.5
/* Who asks more often what is being built slows the calls down that he times. */
#define ASK_SECONDS 0.02
/* The median of all calls of such a time tells the same as that of a few, but what another program does seldom takes half of it. */
#define WINDOW_SECONDS 0.05
#define BUILD_SECONDS 300.0

/* Calls that take so much longer than steady ones are not steady. */
#define STEADY_MARGIN 1.25

static const char *const usual_parts[] = { "chain10_1M", "softmax_1024x1024", "layernorm_1024x1024", "linear_res_relu_256",
	COLDSTART_NEW_GRAPHS };

struct coldstart {
	const char *fusiond;
	const volatile sig_atomic_t *stop;
	struct private_daemon daemon;
	fusion_context *context;             /* of this process on the daemon */
	double ready;                        /* seconds from its start until it served */
	struct samples ready_empty;
	cJSON *report;
};

/* ---- daemons ---- */

static int open_context(struct coldstart *c, double started) {
	const struct fusion_options options = { .socket = c->daemon.socket, .name = "fusion-bench" };

	c->ready = bench_now() - started;
	return fusion_open(&c->context, &options) ? bench_fail("%s", fusion_error()) : 0;
}

static void close_context(struct coldstart *c) {
	fusion_close(c->context);
	c->context = NULL;
}

/* On an empty cache. */
static int start_cold(struct coldstart *c) {
	char why[PRIVATE_DAEMON_TEXT];
	double started = bench_now();

	if (private_daemon_start(&c->daemon, c->fusiond, c->stop, why))
		return bench_fail("%s", why);
	if (open_context(c, started))
		return -1;
	return samples_add(&c->ready_empty, c->ready);
}

static int start_warm(struct coldstart *c) {
	char why[PRIVATE_DAEMON_TEXT];
	double started;

	close_context(c);
	private_daemon_halt(&c->daemon);
	started = bench_now();
	if (private_daemon_restart(&c->daemon, c->fusiond, c->stop, why))
		return bench_fail("%s", why);
	return open_context(c, started);
}

static void stop(struct coldstart *c) {
	close_context(c);
	private_daemon_stop(&c->daemon);
}

struct builds {
	double building;                     /* asked for and not done, by somebody who wants it */
	double built;                        /* ever, that somebody wanted */
	double spare;                        /* ever, that nobody had asked for */
	double cached, failed;               /* ever */
	double interpreted;                  /* launches */
};

/* NaN where the daemon does not tell. */
static int count_builds(const struct coldstart *c, struct builds *b) {
	char *text = fusion_stats(c->context, true);
	cJSON *stats = text ? cJSON_Parse(text) : NULL, *device = cJSON_GetObjectItemCaseSensitive(stats, "device");

	b->building = cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(device, "programs_building")) -
		cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(device, "programs_spare"));
	b->spare = cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(device, "programs_built_spare"));
	b->built = cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(device, "programs_built")) - b->spare;
	b->cached = cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(device, "programs_cached"));
	b->failed = cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(device, "programs_failed"));
	b->interpreted = cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(stats, "steps_interpreted"));
	cJSON_Delete(stats);
	free(text);
	return isnan(b->building) ? bench_fail("the daemon does not tell what it builds: %s", fusion_error()) : 0;
}

/*
 * What somebody wants is built. What nobody asked for is built whenever the device is still, for minutes; that is not waited for. Nor
 * are kernels that come from the cache counted: they are there in some milliseconds.
 */
static bool is_still(const struct builds *before, const struct builds *now) {
	return !now->building && now->built == before->built;
}

/* Of the files below the cache folder: a driver that keeps its own cache does it there, too. */
static double files;

static int count_file(const char *path, const struct stat *status, int kind, struct FTW *at) {
	(void)path;
	(void)status;
	(void)at;
	files += kind == FTW_F;
	return 0;
}

static double cache_files(const struct coldstart *c) {
	char path[PRIVATE_DAEMON_PATH];

	files = 0;
	snprintf(path, sizeof path, "%s/cache", c->daemon.folder);
	nftw(path, count_file, TREE_DESCRIPTORS, FTW_PHYS);
	return files;
}

/* ---- first results ---- */

/* Of each call: its seconds, and when it ended, since the first one began. */
struct calls {
	struct samples seconds, ends;
};

struct watch {
	const struct workload *workload;
	fusion_array *in[WORKLOAD_INPUTS];
	struct calls cold, again;            /* from the first call on, and when nothing was built any more */
	double built;                        /* when all was that it wants, since its first call */
};

static int watch_inputs(struct coldstart *c, struct watch *w) {
	for (int i = 0; i < w->workload->kind->inputs; i++) {
		w->in[i] = workload_input(w->workload, c->context, i, (uint64_t)i + 1);
		if (!w->in[i])
			return -1;
	}
	return fusion_sync(c->context);
}

static int watch_call(const struct coldstart *c, const struct watch *w, struct calls *calls, double begin) {
	double start = bench_now(), end;
	int r = fusion_scope_begin(c->context);
	fusion_array *y = r ? NULL : fusion_keep(w->workload->kind->record(w->workload, w->in));

	/* What stands between inputs and result is nobody's, as in any program; held while the result is waited for, it would be one, too. */
	r = fusion_scope_end(c->context) || !y ? -1 : fusion_wait(y);
	end = bench_now();
	fusion_release(y);
	if (r)
		return bench_fail("%s: %s", w->workload->name, fusion_error());
	return samples_add(&calls->seconds, end - start) || samples_add(&calls->ends, end - begin) ? -1 : 0;
}

/* Calls for WATCH_SECONDS, and until nothing that somebody wants is built; *builtp is when the last of that was. */
static int watch_calls(const struct coldstart *c, const struct watch *w, struct calls *calls, double *builtp) {
	struct builds before = { .built = -1 }, now = { .building = 1 };
	double begin = bench_now(), asked;
	int r = 0;

	*builtp = 0;
	do {
		before = now;
		for (asked = bench_now(); !r && bench_now() < asked + ASK_SECONDS;)
			r = watch_call(c, w, calls, begin);
		if (!r)
			r = count_builds(c, &now);
		if (!is_still(&before, &now))
			*builtp = bench_now() - begin;
	} while (!r && (bench_now() < begin + WATCH_SECONDS || !is_still(&before, &now)) && bench_now() < begin + BUILD_SECONDS);
	return r;
}

static double median_from(const struct calls *c, int first, int end) {
	struct samples some = { .value = NULL };
	double median;

	for (int i = first; i < end; i++)
		if (samples_add(&some, c->seconds.value[i]))
			break;
	median = samples_median(&some);
	samples_free(&some);
	return median;
}

/* When the last few calls ended that were slower than steady ones. */
static double few_steady_after(const struct calls *c, double steady) {
	double after = 0;

	for (int i = 0; i + FEW_CALLS <= c->ends.count; i++)
		if (median_from(c, i, i + FEW_CALLS) > STEADY_MARGIN * steady)
			after = c->ends.value[i + FEW_CALLS - 1];
	return after;
}

/* When the last WINDOW_SECONDS ended in which calls were slower than steady ones. */
static double steady_after(const struct calls *c, double steady) {
	double after = 0, from = 0;
	int first = 0;

	for (int i = 0; i < c->ends.count; i++) {
		if (c->ends.value[i] < from + WINDOW_SECONDS)
			continue;
		from = c->ends.value[i];
		if (median_from(c, first, i + 1) > STEADY_MARGIN * steady)
			after = from;
		first = i + 1;
	}
	return after;
}

static void report_first(struct coldstart *c, const struct watch *w) {
	cJSON *one = cJSON_CreateObject();
	double first = w->cold.seconds.value[0], steady = median_from(&w->again, 0, w->again.seconds.count);

	cJSON_AddItemToArray(cJSON_GetObjectItemCaseSensitive(c->report, "first"), one);
	cJSON_AddStringToObject(one, "workload", w->workload->name);
	figure(one, "first_ms", 1e3 * first);
	figure(one, "steady_ms", 1e3 * steady);
	figure(one, "extra_ms", 1e3 * (first - steady));
	figure(one, "built_after_s", w->built);
	figure(one, "steady_after_s", steady_after(&w->cold, steady));
	figure(one, "again_after_s", steady_after(&w->again, steady));
	figure(one, "few_steady_after_s", few_steady_after(&w->cold, steady));
	figure(one, "few_again_after_s", few_steady_after(&w->again, steady));
}

static void calls_free(struct calls *c) {
	samples_free(&c->seconds);
	samples_free(&c->ends);
}

static int watch(struct coldstart *c, const char *name) {
	struct workload workload;
	struct watch w = { .workload = &workload };
	double again;
	int r = workload_parse(name, &workload);

	if (!r)
		r = start_cold(c);
	if (!r)
		r = watch_inputs(c, &w);
	if (!r)
		r = watch_calls(c, &w, &w.cold, &w.built);
	if (!r)
		r = watch_calls(c, &w, &w.again, &again);
	if (!r)
		report_first(c, &w);
	for (int i = 0; i < WORKLOAD_INPUTS; i++)
		fusion_release(w.in[i]);
	calls_free(&w.cold);
	calls_free(&w.again);
	stop(c);
	return r;
}

/* ---- new graphs ---- */

struct crowd {
	struct process client[COLDSTART_CLIENTS];
	struct samples first, later, steady; /* calls of the first pass, of those while kernels were built, of the last */
	double differ;
	double passes;
	struct builds builds;
};

static int crowd_start(const struct coldstart *c, struct crowd *w) {
	char argument[ARGUMENT_ROOM], ready;
	int r = 0;

	for (int i = 0; !r && i < COLDSTART_CLIENTS; i++) {
		snprintf(argument, sizeof argument, "%d %s", i * COLDSTART_EACH, c->daemon.socket);
		r = process_start(&w->client[i], "--coldstart-client", argument);
	}
	for (int i = 0; !r && i < COLDSTART_CLIENTS; i++)
		r = process_get(&w->client[i], &ready, 1);
	return r;
}

/* All at once. */
static int crowd_pass(struct crowd *w, struct samples *s) {
	struct coldstart_pass pass;
	int r = 0;

	for (int i = 0; !r && i < COLDSTART_CLIENTS; i++)
		r = process_tell(&w->client[i], COLDSTART_AGAIN);
	for (int i = 0; !r && i < COLDSTART_CLIENTS; i++) {
		r = process_get(&w->client[i], &pass, sizeof pass);
		for (int k = 0; !r && k < COLDSTART_EACH; k++)
			r = samples_add(s, pass.seconds[k]);
		w->differ += r ? 0 : pass.differ;
	}
	return r;
}

static int crowd_passes(const struct coldstart *c, struct crowd *w) {
	struct builds before, now = { .building = 1 };
	double end = bench_now() + BUILD_SECONDS;
	int r = crowd_pass(w, &w->first);

	do {
		before = now;
		if (!r)
			r = crowd_pass(w, &w->later);
		if (!r)
			r = count_builds(c, &now);
		w->passes++;
	} while (!r && !is_still(&before, &now) && bench_now() < end);
	w->builds = now;
	return r ? r : crowd_pass(w, &w->steady);
}

/* Sorted by its median. */
static double most(struct samples *s) {
	return isnan(samples_median(s)) ? NAN : s->value[s->count - 1];
}

static double quantile(struct samples *s, double share) {
	return isnan(samples_median(s)) ? NAN : s->value[(int)(share * s->count)];
}

static void report_calls(cJSON *report, const char *name, struct samples *s) {
	cJSON *one = cJSON_AddObjectToObject(report, name);

	figure(one, "calls", s->count);
	figure(one, "worst_ms", 1e3 * most(s));
	figure(one, "p99_ms", 1e3 * quantile(s, 0.99));
	figure(one, "median_ms", 1e3 * samples_median(s));
}

static void report_crowd(const struct coldstart *c, const char *name, struct crowd *w, double ready, double new_files) {
	cJSON *one = cJSON_AddObjectToObject(c->report, name);

	figure(one, "ready_ms", 1e3 * ready);
	report_calls(one, "first_calls", &w->first);
	report_calls(one, "while_building", &w->later);
	report_calls(one, "steady", &w->steady);
	figure(one, "passes_while_building", w->passes);
	figure(one, "differ", w->differ);
	figure(one, "programs_built", w->builds.built);
	figure(one, "programs_built_unasked", w->builds.spare);
	figure(one, "programs_cached", w->builds.cached);
	figure(one, "programs_failed", w->builds.failed);
	figure(one, "steps_interpreted", w->builds.interpreted);
	figure(one, "cache_files", new_files);
}

/* On the daemon that runs. */
static int crowd(const struct coldstart *c, const char *name, double *differp) {
	struct crowd w = { .passes = 0 };
	double before = cache_files(c);
	int r = crowd_start(c, &w);

	if (!r)
		r = crowd_passes(c, &w);
	for (int i = 0; i < COLDSTART_CLIENTS; i++)
		process_end(&w.client[i]);
	if (!r)
		report_crowd(c, name, &w, c->ready, cache_files(c) - before);
	*differp += w.differ;
	samples_free(&w.first);
	samples_free(&w.later);
	samples_free(&w.steady);
	return r;
}

static int new_graphs(struct coldstart *c) {
	double differ = 0;
	int r = start_cold(c);

	if (!r)
		r = crowd(c, "cold", &differ);
	if (!r)
		r = start_warm(c);
	if (!r)
		r = crowd(c, "warm", &differ);
	stop(c);
	if (!r && differ > 0)
		r = bench_fail("%.0f results differ from the first ones of their graphs", differ);
	return r;
}

/* ---- the report ---- */

static double number(const cJSON *report, const char *name) {
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(report, name);

	return cJSON_IsRaw(item) ? atof(item->valuestring) : NAN;
}

static void print_calls(const cJSON *crowd, const char *name, const char *what) {
	const cJSON *one = cJSON_GetObjectItemCaseSensitive(crowd, name);

	printf("  %-42s worst %8.2f ms, 99 %% within %8.2f ms, median %7.2f ms (%.0f calls)\n", what, number(one, "worst_ms"),
		number(one, "p99_ms"), number(one, "median_ms"), number(one, "calls"));
}

static void print_crowd(const cJSON *report, const char *name, const char *what) {
	const cJSON *one = cJSON_GetObjectItemCaseSensitive(report, name);

	printf("%d new graphs, %d processes, %s\n", COLDSTART_GRAPHS, COLDSTART_CLIENTS, what);
	printf("  start of the daemon until it serves        %.1f ms\n", number(one, "ready_ms"));
	print_calls(one, "first_calls", "each graph's first call");
	print_calls(one, "while_building", "again, until nothing is built");
	print_calls(one, "steady", "once more");
	printf("  programs built %.0f, unasked %.0f, from the cache %.0f, failed %.0f; steps as bytecode %.0f; new files in the cache %.0f; "
	       "results that differ %.0f\n",
		number(one, "programs_built"), number(one, "programs_built_unasked"), number(one, "programs_cached"), number(one, "programs_failed"),
		number(one, "steps_interpreted"), number(one, "cache_files"), number(one, "differ"));
}

static void print_first(const cJSON *report) {
	const cJSON *one;

	puts("first result on an empty cache         first      steady       extra       built   steady after (later)   nine calls after (later)");
	cJSON_ArrayForEach(one, cJSON_GetObjectItemCaseSensitive(report, "first"))
		printf("  %-30s %8.2f ms %8.2f ms %8.2f ms %8.2f s %8.2f s (%4.2f s) %14.2f s (%4.2f s)\n",
			cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(one, "workload")), number(one, "first_ms"),
			number(one, "steady_ms"), number(one, "extra_ms"), number(one, "built_after_s"), number(one, "steady_after_s"),
			number(one, "again_after_s"), number(one, "few_steady_after_s"), number(one, "few_again_after_s"));
}

static void print(const cJSON *report, bool json) {
	char *text = json ? cJSON_PrintUnformatted(report) : NULL;

	if (text) {
		puts(text);
		free(text);
		return;
	}
	if (cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(report, "first")))
		print_first(report);
	if (cJSON_HasObjectItem(report, "cold")) {
		print_crowd(report, "cold", "empty cache");
		print_crowd(report, "warm", "the same again on the cache that they filled");
	}
	printf("start until it serves, empty cache         worst %.1f ms, median %.1f ms\n", number(report, "ready_empty_worst_ms"),
		number(report, "ready_empty_ms"));
}

static int measure(struct coldstart *c, const char *part) {
	return strcmp(part, COLDSTART_NEW_GRAPHS) != 0 ? watch(c, part) : new_graphs(c);
}

int coldstart(const char *fusiond, bool json, const char *const *part, int parts, const volatile sig_atomic_t *stop_wanted) {
	struct coldstart c = { .fusiond = fusiond, .stop = stop_wanted, .report = cJSON_CreateObject() };
	const char *const *all = parts ? part : usual_parts;
	int count = parts ? parts : (int)(sizeof usual_parts / sizeof *usual_parts), r = 0;

	cJSON_AddStringToObject(c.report, "workload", "coldstart");
	cJSON_AddArrayToObject(c.report, "first");
	for (int i = 0; !r && i < count; i++)
		r = measure(&c, all[i]);
	if (!r) {
		figure(c.report, "ready_empty_ms", 1e3 * samples_median(&c.ready_empty));
		figure(c.report, "ready_empty_worst_ms", 1e3 * most(&c.ready_empty));
		print(c.report, json);
	}
	stop(&c);
	samples_free(&c.ready_empty);
	cJSON_Delete(c.report);
	return r;
}
