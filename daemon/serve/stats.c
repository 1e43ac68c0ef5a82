/* STATS: what was counted, as JSON, for one session or the daemon. */
#include "patterns.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "daemon/base/loop.h"
#include "daemon/base/version.h"
#include "daemon/serve/account.h"
#include "daemon/serve/describe.h"
#include "daemon/serve/share.h"

static double percent_fewer(uint64_t before, uint64_t after) {
	return before ? 100.0 * (1.0 - (double)after / (double)before) : 0.0;
}

static void add_counters(cJSON *json, const struct counters *c) {
#define COUNTER(name, doc) cJSON_AddNumberToObject(json, #name, (double)c->name);
#include "counters.def"
#undef COUNTER
	cJSON_AddNumberToObject(json, "reduction_percent", percent_fewer(c->kernels_unfused, c->kernels_launched));
}

/* Those that happened, by the names of errors.def. */
static void add_faults(cJSON *json, const uint64_t faults[static FAULT_COUNT]) {
	cJSON *list = cJSON_AddObjectToObject(json, "faults");

	for (int code = 1; code < FAULT_COUNT; code++)
		if (faults[code])
			cJSON_AddNumberToObject(list, fault_name(code), (double)faults[code]);
}

/* 0: not known. */
static double ratio(double unfused, double fused) {
	return fused > 0 ? unfused / fused : 0;
}

/* Of a knob, or of the form. */
static void add_change(cJSON *one, const struct track_change *c) {
	const struct knob_variant *v = &c->knob;
	char kernel[sizeof "0123456789abcdef"];

	if (!v->kernel) {
		cJSON_AddStringToObject(one, "from", track_form_name(c->from));
		cJSON_AddStringToObject(one, "to", track_form_name(c->to));
		return;
	}
	snprintf(kernel, sizeof kernel, "%016" PRIx64, v->kernel);
	cJSON_AddStringToObject(one, "kernel", kernel);
	cJSON_AddStringToObject(one, "knob", knob_name(v->knob));
	cJSON_AddStringToObject(one, "from", knob_value(v->knob, c->from_value));
	cJSON_AddStringToObject(one, "to", knob_value(v->knob, v->value));
}

/* The last changes of what was chosen for a graph or a kernel. */
static void add_changes(cJSON *json, const struct tracker *t) {
	cJSON *list = cJSON_AddArrayToObject(json, "changes");
	unsigned count;
	const struct track_change *change = tracker_changes(t, &count);

	for (unsigned i = 0; i < count; i++) {
		cJSON *one = cJSON_CreateObject();
		char graph[sizeof "0123456789abcdef"];

		snprintf(graph, sizeof graph, "%016" PRIx64, change[i].graph);
		cJSON_AddItemToArray(list, one);
		cJSON_AddStringToObject(one, "graph", graph);
		add_change(one, &change[i]);
		cJSON_AddNumberToObject(one, "from_us", change[i].from_ns / 1e3);
		cJSON_AddNumberToObject(one, "to_us", change[i].to_ns / 1e3);
	}
}

static void add_tracker(cJSON *json, const struct server *v) {
	struct tracker_counters c = tracker_counters(v->tracker);
	cJSON *one = cJSON_AddObjectToObject(json, "tracker");

	cJSON_AddNumberToObject(one, "graphs", (double)c.graphs);
	cJSON_AddNumberToObject(one, "graphs_that_run_with_less_fusion", (double)c.switched);
	cJSON_AddNumberToObject(one, "kernels", (double)c.kernels);
	cJSON_AddNumberToObject(one, "kernels_that_run_otherwise_than_planned", (double)c.turned);
	cJSON_AddNumberToObject(one, "trials", (double)c.trials);
	cJSON_AddNumberToObject(one, "choices_changed", (double)c.changes);
	add_changes(one, v->tracker);
	cJSON_AddNumberToObject(one, "trial_percent", c.total_ns > 0 ? 100 * c.trial_ns / c.total_ns : 0);
}

/* Averages over all that ran. */
static cJSON *add_pattern(cJSON *list, const char *name, const struct pattern_counters *c) {
	cJSON *one = cJSON_CreateObject();

	cJSON_AddItemToArray(list, one);
	cJSON_AddStringToObject(one, "pattern", name);
	cJSON_AddNumberToObject(one, "count", (double)c->count);
	cJSON_AddNumberToObject(one, "kernels_before", (double)c->kernels_before);
	cJSON_AddNumberToObject(one, "kernels_after", (double)c->kernels_after);
	cJSON_AddNumberToObject(one, "reduction_percent", percent_fewer(c->kernels_before, c->kernels_after));
	cJSON_AddNumberToObject(one, "saved_bytes", (double)c->bytes_saved);
	cJSON_AddNumberToObject(one, "buffers_eliminated", (double)c->buffers_eliminated);
	cJSON_AddNumberToObject(one, "estimated_speedup", ratio(c->estimated_unfused_ns, c->estimated_ns));
	cJSON_AddNumberToObject(one, "measured_speedup", ratio(c->measured_unfused_ns, c->measured_ns));
	return one;
}

/* Of all fused kernels together, whatever their pattern. */
static void add_speedups(cJSON *json, const struct pattern_counters counters[static PATTERN_COUNT]) {
	struct pattern_counters all = { 0 };

	for (unsigned i = 1; i < PATTERN_COUNT; i++)
		pattern_counters_add(&all, &counters[i]);
	cJSON_AddNumberToObject(json, "estimated_speedup", ratio(all.estimated_unfused_ns, all.estimated_ns));
	cJSON_AddNumberToObject(json, "measured_speedup", ratio(all.measured_unfused_ns, all.measured_ns));
}

/* Those of which a kernel ran, then patterns of users that were found. session NULL: of the daemon. */
static void add_patterns(cJSON *json, const struct pattern_counters counters[static PATTERN_COUNT],
	const struct server *v, const struct session *s) {
	cJSON *list;

	add_speedups(json, counters);
	list = cJSON_AddArrayToObject(json, "patterns");
	for (unsigned i = 1; i < PATTERN_COUNT; i++)
		if (counters[i].count)
			add_pattern(list, pattern_name((enum pattern)i), &counters[i]);
	patterns_add_statistics(list, v, s, add_pattern);
}

static void add_session(cJSON *json, const struct session *s) {
	cJSON_AddNumberToObject(json, "session", (double)s->id);
	cJSON_AddStringToObject(json, "name", s->name);
	cJSON_AddNumberToObject(json, "uid", s->uid);
	cJSON_AddNumberToObject(json, "pid", s->pid);
	cJSON_AddNumberToObject(json, "uptime_s", (double)(loop_now() - s->since_us) / 1e6);
	cJSON_AddNumberToObject(json, "arrays", s->handles.live);
	cJSON_AddNumberToObject(json, "memory_bytes", (double)space_used(s->space));
	cJSON_AddNumberToObject(json, "arena_bytes", (double)space_mapped(s->space));
	cJSON_AddNumberToObject(json, "shared_arrays", s->held_shares);
	cJSON_AddNumberToObject(json, "tokens", share_tokens(s));
	cJSON_AddNumberToObject(json, "operations_queued", (double)(s->queued + s->gathered));
	cJSON_AddNumberToObject(json, "queued_bytes", (double)s->queued_bytes);
	cJSON_AddNumberToObject(json, "arrays_of_user", (double)s->account->arrays);
	cJSON_AddNumberToObject(json, "memory_of_user", (double)s->account->memory);
	cJSON_AddNumberToObject(json, "builds_of_user", account_builds(s->account));
	cJSON_AddNumberToObject(json, "device_ns_of_user", (double)lane_group_ns(s->account->lanes));
	cJSON_AddNumberToObject(json, "operations_queued_of_user", (double)s->account->queued);
	cJSON_AddNumberToObject(json, "recorded_graph_bytes", (double)s->capture_bytes);
	cJSON_AddNumberToObject(json, "device_ns", (double)lane_usage(s->lane)->device_ns);
	cJSON_AddNumberToObject(json, "device_contended_ns", (double)lane_usage(s->lane)->contended_ns);
	cJSON_AddNumberToObject(json, "runs_in_shared_launches", (double)lane_usage(s->lane)->shared);
	add_counters(json, &s->counters);
	add_patterns(json, s->pattern, s->server, s);
	add_faults(json, s->faults);
}

static void add_rates(cJSON *device, const struct server *v) {
	struct str text = { 0 };

	device_rates_text(v->device, &text);
	cJSON_AddBoolToObject(device, "measured", v->traits->rates.measured);
	cJSON_AddStringToObject(device, "rates", str_text(&text));
	str_free(&text);
}

enum {
	/* As a screen has room for. */
	BUILDS_TOLD = 16,
};

static void add_build(void *user, const struct device_build *b) {
	static const char *const states[] = { [false] = "waits", [true] = "is built" };
	cJSON *list = user, *one;

	if (cJSON_GetArraySize(list) == BUILDS_TOLD)
		return;
	one = cJSON_CreateObject();
	cJSON_AddItemToArray(list, one);
	cJSON_AddStringToObject(one, "state", states[b->begun]);
	cJSON_AddStringToObject(one, "kernel", kernel_root_name(b->kernel));
	cJSON_AddNumberToObject(one, "values", b->kernel->values);
	cJSON_AddNumberToObject(one, "asked_ms", (double)b->asked_ms);
}

/* How many kernels ran in each tier. */
static void add_tiers(cJSON *json, const struct server *v, const struct counters *all) {
	const struct exec_counters *x = exec_counters(v->exec);
	cJSON *one = cJSON_AddObjectToObject(json, "tiers");

	cJSON_AddNumberToObject(one, "byte_code", (double)x->interpreted);
	cJSON_AddNumberToObject(one, "compiled", (double)(x->steps - x->interpreted));
	cJSON_AddNumberToObject(one, "tuned", (double)all->kernels_tuned);
}

static void add_device(cJSON *json, const struct server *v) {
	const struct device_counters *d = device_counters(v->device);
	cJSON *device = cJSON_AddObjectToObject(json, "device");

	cJSON_AddStringToObject(device, "name", device_name(v->device));
	cJSON_AddStringToObject(device, "driver", device_driver(v->device));
	cJSON_AddBoolToObject(device, "flat", device_flat(v->device));
	cJSON_AddBoolToObject(device, "exact", device_exact(v->device));
	cJSON_AddStringToObject(device, "notes", device_notes(v->device));
	add_rates(device, v);
	cJSON_AddNumberToObject(device, "launches", (double)d->launches);
	cJSON_AddNumberToObject(device, "launches_near", (double)d->launches_near);
	cJSON_AddNumberToObject(device, "launches_direct", (double)d->launches_direct);
	cJSON_AddNumberToObject(device, "programs_loaded", (double)d->programs_loaded);
	cJSON_AddNumberToObject(device, "programs_bytes", (double)d->programs_bytes);
	cJSON_AddNumberToObject(device, "programs_evicted", (double)d->programs_evicted);
	cJSON_AddNumberToObject(device, "programs_reloaded", (double)d->programs_reloaded);
	cJSON_AddNumberToObject(device, "launches_claimed", (double)d->launches_claimed);
	cJSON_AddNumberToObject(device, "tasks", (double)d->tasks);
	cJSON_AddNumberToObject(device, "warmups", (double)d->warmups);
	cJSON_AddNumberToObject(device, "programs_building", device_wanted(v->device));
	cJSON_AddNumberToObject(device, "programs_spare", device_spare(v->device));
	cJSON_AddNumberToObject(device, "programs_built", (double)d->builds);
	cJSON_AddNumberToObject(device, "programs_built_spare", (double)d->builds_spare);
	cJSON_AddNumberToObject(device, "programs_cached", (double)d->builds_cached);
	cJSON_AddNumberToObject(device, "programs_failed", (double)d->build_failures);
	cJSON_AddNumberToObject(device, "programs_built_by_workers", (double)d->builds_apart);
	cJSON_AddNumberToObject(device, "programs_refused", (double)d->refused);
	cJSON_AddNumberToObject(device, "workers_started", (double)d->workers_started);
	cJSON_AddNumberToObject(device, "workers_lost", (double)d->workers_lost);
	cJSON_AddNumberToObject(device, "build_us", (double)d->build_us);
	device_each_build(v->device, add_build, cJSON_AddArrayToObject(device, "builds"));
	cJSON_AddNumberToObject(device, "uploads", (double)d->uploads);
	cJSON_AddNumberToObject(device, "upload_bytes", (double)d->upload_bytes);
	cJSON_AddNumberToObject(device, "downloads", (double)d->downloads);
	cJSON_AddNumberToObject(device, "download_bytes", (double)d->download_bytes);
}

static void add_exec(cJSON *json, const struct server *v) {
	const struct exec_counters *x = exec_counters(v->exec);

	cJSON_AddNumberToObject(json, "runs_busy", exec_busy(v->exec));
	cJSON_AddNumberToObject(json, "steps_launched", (double)x->steps);
	cJSON_AddNumberToObject(json, "steps_interpreted", (double)x->interpreted);
	cJSON_AddNumberToObject(json, "shared_launches", (double)x->shared_launches);
	cJSON_AddNumberToObject(json, "runs_in_shared_launches", (double)x->shared_runs);
	cJSON_AddNumberToObject(json, "launches_of_different_graphs", (double)x->mixed_launches);
	cJSON_AddNumberToObject(json, "launches_of_slices", (double)x->slices);
	cJSON_AddNumberToObject(json, "arrays_in_host_memory", (double)x->reached);
	cJSON_AddNumberToObject(json, "runs_timed_out", (double)x->expired);
	cJSON_AddNumberToObject(json, "runs_cancelled", (double)x->cancelled);
	cJSON_AddNumberToObject(json, "kernels_split", (double)x->kernels_split);
	cJSON_AddNumberToObject(json, "scratch_bytes", (double)x->scratch_bytes);
	cJSON_AddNumberToObject(json, "scratch_peak_bytes", (double)x->scratch_peak);
	cJSON_AddNumberToObject(json, "arrays_moved_to_host", (double)x->moved);
	cJSON_AddNumberToObject(json, "bytes_moved_to_host", (double)x->moved_bytes);
	cJSON_AddNumberToObject(json, "packed_bytes", (double)x->packed_bytes);
	cJSON_AddNumberToObject(json, "factors_packed", (double)x->packed_made);
	cJSON_AddNumberToObject(json, "factors_found_packed", (double)x->packed_used);
}

/* All sessions, those that ended included. */
static void add_daemon(cJSON *json, const struct server *v) {
	struct pattern_counters pattern[PATTERN_COUNT];
	struct counters all = v->ended;
	uint64_t faults[FAULT_COUNT], memory = 0, arenas = 0, arrays = 0;

	memcpy(pattern, v->pattern, sizeof pattern);
	for (unsigned i = 0; i < FAULT_COUNT; i++)
		faults[i] = v->faults[i];
	for (const struct session *s = v->sessions; s; s = s->hh.next) {
#define COUNTER(name, doc) all.name += s->counters.name;
#include "counters.def"
#undef COUNTER
		for (unsigned i = 0; i < PATTERN_COUNT; i++)
			pattern_counters_add(&pattern[i], &s->pattern[i]);
		for (unsigned i = 0; i < FAULT_COUNT; i++)
			faults[i] += s->faults[i];
		memory += space_used(s->space);
		arenas += space_mapped(s->space);
		arrays += s->handles.live;
	}
	cJSON_AddStringToObject(json, "version", FUSIOND_VERSION);
	cJSON_AddNumberToObject(json, "uptime_s", (double)(loop_now() - v->started_us) / 1e6);
	cJSON_AddNumberToObject(json, "sessions", HASH_COUNT(v->sessions));
	cJSON_AddNumberToObject(json, "sessions_total", (double)v->sessions_total);
	cJSON_AddNumberToObject(json, "arrays", (double)arrays);
	cJSON_AddNumberToObject(json, "memory_bytes", (double)memory);
	cJSON_AddNumberToObject(json, "arena_bytes", (double)arenas);
	shares_statistics(json, v);
	add_counters(json, &all);
	add_patterns(json, pattern, v, NULL);
	add_faults(json, faults);
	add_exec(json, v);
	add_tiers(json, v, &all);
	add_tracker(json, v);
	add_device(json, v);
}

int stats_request(struct request *r, struct fault *f) {
	uint64_t scope;
	cJSON *json;
	int code = wire_get_uint(&r->body, "scope", 1, &scope, f);

	if (!code)
		code = wire_get_end(&r->body, "STATS", f);
	if (code)
		return code;
	json = cJSON_CreateObject();
	if (!json)
		return -ENOMEM;
	if (scope)
		add_daemon(json, r->session->server);
	else
		add_session(json, r->session);
	code = request_send_json(r, json, f);
	cJSON_Delete(json);
	return code;
}
