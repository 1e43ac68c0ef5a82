/* What a benchmark of a pattern is of, and what it answers: see benchmark.h. */
#include "benchmark.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/dtype.h"
#include "protocol/nearest.h"
#include "protocol/pattern.h"
#include "protocol/shape.h"
#include "context.h"
#include "json.h"

/* ---- what built-in patterns are measured on ---- */

static fusion_array *record_scan(fusion_array *x) {
	fusion_array *square = fusion_square(x), *sums = fusion_cumsum(square, -1), *y = fusion_mul_scalar(sums, 0.5);

	fusion_release(square);
	fusion_release(sums);
	return y;
}

static fusion_array *record_sort(fusion_array *x) {
	fusion_array *size = fusion_abs(x), *y = fusion_sort(size, -1, false);

	fusion_release(size);
	return y;
}

static const struct measured {
	unsigned copies;
	const char *operands, *text;
	fusion_array *(*record)(fusion_array *x);
} measured[PATTERN_COUNT] = {
#define MEASURED(pattern, copies, operands, text) [PATTERN_##pattern] = { copies, operands, text, NULL },
#define OTHER(pattern, copies, operands, text, record) [PATTERN_##pattern] = { copies, operands, text, record },
#include "benchmark.def"
#undef MEASURED
#undef OTHER
};

/* "w[64,64,n,n]" of the table, from its bracket on; the end of it. */
static const char *read_extents(const char *at, int64_t n, struct fusion_operand *o) {
	while (*at != ']') {
		char *end = (char *)at + 2;

		at++;
		o->dims[o->rank++] = *at == 'n' ? n : strtoll(at, &end, 10);
		at = end;
	}
	return at + 1;
}

/* A row's operands, and their names as a definition has them. */
static int read_row(struct benchmark *b, const struct measured *row, enum fusion_dtype dtype) {
	size_t names = 0;

	b->copies = row->copies;
	b->record = row->record;
	b->text = strdup(row->text);
	/* A comma and a blank for each bracket, at most. */
	b->names = calloc(1, 2 * strlen(row->operands) + 1);
	if (!b->text || !b->names)
		return -ENOMEM;
	for (const char *at = row->operands; *at; at += *at == ' ') {
		size_t length = strcspn(at, "[");

		names += (size_t)sprintf(b->names + names, "%s%.*s", b->operands ? ", " : "", (int)length, at);
		b->operand[b->operands].dtype = dtype;
		at = read_extents(at + length, b->size, &b->operand[b->operands++]);
	}
	return 0;
}

/* ---- what users call a pattern ---- */

/* All of one square: any elementwise expression, product or norm takes that. */
static int take_named(struct benchmark *b, const char *names, size_t length, const char *text, enum fusion_dtype dtype) {
	b->names = strndup(names, length);
	b->text = strdup(text);
	if (!b->names || !b->text)
		return -ENOMEM;
	b->copies = 1;
	for (const char *at = b->names; at && b->operands < BENCHMARK_OPERANDS; at = strchr(at, ',')) {
		at += *at == ',';
		b->operand[b->operands++] = (struct fusion_operand){ .dtype = dtype, .rank = 2, .dims = { b->size, b->size } };
	}
	return 0;
}

static int refuse_name(struct benchmark *b, const cJSON *patterns) {
	char hint[NEAREST_SENTENCE];
	struct nearest near;
	const cJSON *one;

	nearest_begin(&near, b->name, strlen(b->name));
	cJSON_ArrayForEach(one, patterns) {
		nearest_try(&near, json_text(one, "pattern"));
	}
	return fault_set(&b->fault, FAULT_ARGUMENT, "benchmark_pattern: there is no pattern '%.64s'%s", b->name, nearest_text(&near, "", hint));
}

/* Of the administrator: the daemon tells. */
static int take_common(struct benchmark *b, fusion_context *context, enum fusion_dtype dtype) {
	const cJSON *one, *found = NULL;
	const char *names;
	cJSON *patterns;
	int r = benchmark_parse(b, fusion_patterns(context), &patterns);

	if (r)
		return r;
	cJSON_ArrayForEach(one, patterns) {
		if (!strcmp(json_text(one, "pattern"), b->name))
			found = one;
	}
	names = json_text(found, "operands");
	r = found ? take_named(b, names, strlen(names), json_text(found, "doc"), dtype) : refuse_name(b, patterns);
	cJSON_Delete(patterns);
	return r;
}

static int take_pattern(struct benchmark *b, fusion_context *context, enum fusion_dtype dtype) {
	const enum pattern built_in = pattern_find(b->name);
	const struct own_pattern *own = own_pattern_find(b->patterns, b->name);
	const char *names;

	if (built_in)
		return read_row(b, &measured[built_in], dtype);
	if (!own)
		return take_common(b, context, dtype);
	names = own->signature + strcspn(own->signature, "(") + 1;
	return take_named(b, names, strcspn(names, ")"), own->text, dtype);
}

/* ---- what the caller says of it ---- */

static int check_numbers(struct benchmark *b, const struct fusion_benchmark_options *o) {
	if (o->size < 0 || o->size > BENCHMARK_SIZE_MOST)
		return fault_set(&b->fault, FAULT_ARGUMENT, "benchmark_pattern: the size is %" PRId64 ", not a number from 1 to %d", o->size, BENCHMARK_SIZE_MOST);
	if (o->dtype > FUSION_F64)
		return fault_set(&b->fault, FAULT_DTYPE, "benchmark_pattern: %d is no element type", (int)o->dtype);
	if (!(o->seconds >= 0) || o->seconds > BENCHMARK_SECONDS_MOST)
		return fault_set(&b->fault, FAULT_ARGUMENT, "benchmark_pattern: seconds is %g, not a number up to %g", o->seconds, BENCHMARK_SECONDS_MOST);
	if (o->operands < 0 || (o->operands && !o->operand))
		return fault_set(&b->fault, FAULT_ARGUMENT, "benchmark_pattern: operands is %d, and operand %s", o->operands, o->operand ? "a list" : "NULL");
	b->size = o->operands ? 0 : o->size ? o->size : BENCHMARK_SIZE;
	b->seconds = o->seconds > 0 ? o->seconds : BENCHMARK_SECONDS;
	return 0;
}

static int check_operand(struct benchmark *b, const struct fusion_operand *o, unsigned number, int64_t *bytesp) {
	if (o->dtype > FUSION_F64)
		return fault_set(&b->fault, FAULT_DTYPE, "benchmark_pattern: operand %u: %d is no element type", number, (int)o->dtype);
	if (o->rank < 0 || o->rank > LIMIT_RANK)
		return fault_set(&b->fault, FAULT_RANK, "benchmark_pattern: operand %u: rank %d is not between 0 and %d", number, o->rank, LIMIT_RANK);
	*bytesp = dtype_info((enum dtype)o->dtype)->bytes;
	for (int d = 0; d < o->rank; d++) {
		if (o->dims[d] < 1)
			return fault_set(&b->fault, FAULT_SHAPE, "benchmark_pattern: operand %u: extent %" PRId64 " leaves nothing to measure", number, o->dims[d]);
		if (__builtin_mul_overflow(*bytesp, o->dims[d], bytesp))
			*bytesp = INT64_MAX;
	}
	return 0;
}

static int check_operands(struct benchmark *b) {
	int64_t bytes = 0, all = 0;
	int r;

	for (unsigned i = 0; i < b->operands; i++) {
		r = check_operand(b, &b->operand[i], i, &bytes);
		if (r)
			return r;
		if (bytes > BENCHMARK_BYTES || (all += bytes * b->copies) > BENCHMARK_BYTES)
			return fault_set(&b->fault, FAULT_LIMIT, "benchmark_pattern: its operands are more than the %d GiB that one benchmark may be of; ask for smaller ones",
				(int)(BENCHMARK_BYTES >> 30));
	}
	return 0;
}

static int take_operands(struct benchmark *b, const struct fusion_benchmark_options *o) {
	if (o->operands && (unsigned)o->operands != b->operands)
		return fault_set(&b->fault, FAULT_ARITY, "benchmark_pattern: %s has %u operand%s (%s), not %d", b->name, b->operands,
			b->operands == 1 ? "" : "s", b->names, o->operands);
	for (int i = 0; i < o->operands; i++)
		b->operand[i] = o->operand[i];
	return check_operands(b);
}

static int copy_settings(struct benchmark *b, const struct fusion_context *c) {
	b->setting = calloc(c->settings + 1U, sizeof *b->setting);
	if (!b->setting)
		return -ENOMEM;
	for (; b->settings < c->settings; b->settings++) {
		const char *setting = c->setting[b->settings];
		size_t bytes = strlen(setting) + 1;

		bytes += strlen(setting + bytes) + 1;
		b->setting[b->settings] = malloc(bytes);
		if (!b->setting[b->settings])
			return -ENOMEM;
		memcpy(b->setting[b->settings], setting, bytes);
	}
	return 0;
}

/* What another session needs of the context, which another thread may close meanwhile. */
static int copy_context(struct benchmark *b, fusion_context *context) {
	struct fusion_context *c;
	int r = context_enter(context, "benchmark_pattern", &c);

	if (r)
		return benchmark_refused(b);
	r = elsewhere_of(c, &b->where);
	if (!r)
		r = own_patterns_copy(c->patterns, &b->patterns);
	if (!r)
		r = copy_settings(b, c);
	context_leave(c);
	return r;
}

static int take(struct benchmark *b, fusion_context *context, const char *pattern, const struct fusion_benchmark_options *o) {
	enum fusion_dtype dtype = o->dtype == FUSION_BOOL ? FUSION_F32 : o->dtype;
	int r = copy_context(b, context);

	if (r)
		return r;
	if (!pattern)
		return fault_set(&b->fault, FAULT_ARGUMENT, "benchmark_pattern: pattern is NULL");
	b->name = pattern;
	r = check_numbers(b, o);
	if (!r)
		r = take_pattern(b, context, dtype);
	return r ? r : take_operands(b, o);
}

/* ---- the answer ---- */

static bool is_of(const cJSON *kernel, const char *pattern) {
	const cJSON *one;

	cJSON_ArrayForEach(one, json_item(kernel, "named")) {
		if (!strcmp(cJSON_GetStringValue(one), pattern))
			return true;
	}
	return !strcmp(json_text(kernel, "pattern"), pattern);
}

/* Kernels, or launches that kernels share. */
static unsigned count_of_pattern(const cJSON *plan, const char *pattern) {
	static const char *const lists[] = { "kernels", "shared_launches" };
	unsigned count = 0;
	const cJSON *one;

	for (unsigned i = 0; i < sizeof lists / sizeof *lists; i++)
		cJSON_ArrayForEach(one, json_item(plan, lists[i])) {
			count += is_of(one, pattern);
		}
	return count;
}

static void add_operands(cJSON *json, const struct benchmark *b) {
	cJSON *list = cJSON_AddArrayToObject(json, "operands");
	const char *at = b->names;

	for (unsigned i = 0; i < b->operands; i++) {
		const struct fusion_operand *o = &b->operand[i];
		struct tensor_type t = { .dtype = (uint8_t)o->dtype, .rank = (uint8_t)o->rank };
		char text[SHAPE_TEXT], name[LIMIT_SENTENCE];
		cJSON *one = cJSON_CreateObject();

		for (int d = 0; d < o->rank; d++)
			t.dims[d] = o->dims[d];
		at += strspn(at, ", ");
		snprintf(name, sizeof name, "%.*s", (int)strcspn(at, ", "), at);
		at += strcspn(at, ", ");
		cJSON_AddItemToArray(list, one);
		cJSON_AddStringToObject(one, "name", name);
		cJSON_AddStringToObject(one, "type", shape_text(&t, text));
	}
}

static void add_microseconds(cJSON *json, const char *name, double seconds) {
	if (isfinite(seconds))
		cJSON_AddNumberToObject(json, name, seconds * 1e6);
}

static void add_ratio(cJSON *json, const char *name, double unfused, double fused) {
	if (fused > 0 && isfinite(unfused / fused))
		cJSON_AddNumberToObject(json, name, unfused / fused);
}

/* What the forms took by a clock; nothing where a driver keeps no times. */
static void add_times(cJSON *json, const char *name, struct benchmark_times *t) {
	double best[BENCHMARK_FORMS], median[BENCHMARK_FORMS];
	cJSON *clock;

	if (!t[BENCHMARK_FUSED].count || !t[BENCHMARK_UNFUSED].count)
		return;
	for (int f = 0; f < BENCHMARK_FORMS; f++) {
		best[f] = benchmark_best(&t[f]);
		median[f] = benchmark_median(&t[f]);
	}
	clock = cJSON_AddObjectToObject(json, name);
	cJSON_AddNumberToObject(clock, "rounds", t[BENCHMARK_FUSED].count);
	add_microseconds(clock, "fused_us", best[BENCHMARK_FUSED]);
	add_microseconds(clock, "fused_median_us", median[BENCHMARK_FUSED]);
	add_microseconds(clock, "unfused_us", best[BENCHMARK_UNFUSED]);
	add_microseconds(clock, "unfused_median_us", median[BENCHMARK_UNFUSED]);
	add_ratio(clock, "speedup", best[BENCHMARK_UNFUSED], best[BENCHMARK_FUSED]);
	add_ratio(clock, "median_speedup", median[BENCHMARK_UNFUSED], median[BENCHMARK_FUSED]);
}

static cJSON *tell(struct benchmark *b) {
	const cJSON *plan = b->plan[BENCHMARK_FUSED];
	cJSON *json = cJSON_CreateObject();

	cJSON_AddStringToObject(json, "pattern", b->name);
	cJSON_AddStringToObject(json, "text", b->text);
	if (b->size)
		cJSON_AddNumberToObject(json, "size", (double)b->size);
	add_operands(json, b);
	cJSON_AddNumberToObject(json, "copies", b->copies);
	cJSON_AddNumberToObject(json, "kernels", json_number(plan, "kernel_count"));
	cJSON_AddNumberToObject(json, "kernels_of_pattern", count_of_pattern(plan, b->name));
	cJSON_AddNumberToObject(json, "unfused_kernels", json_number(plan, "unfused_kernel_count"));
	cJSON_AddNumberToObject(json, "bytes_saved", json_number(plan, "bytes_not_moved"));
	if (b->launches[BENCHMARK_FUSED] > 0) {
		cJSON_AddNumberToObject(json, "launches", b->launches[BENCHMARK_FUSED]);
		cJSON_AddNumberToObject(json, "unfused_launches", b->launches[BENCHMARK_UNFUSED]);
	}
	cJSON_AddBoolToObject(json, "same_bits", b->same_bits);
	add_times(json, "device", b->times[BENCHMARK_DEVICE]);
	add_times(json, "wall", b->times[BENCHMARK_WALL]);
	return json;
}

static int answer(struct benchmark *b, char **textp) {
	cJSON *json = tell(b);

	*textp = json ? cJSON_PrintUnformatted(json) : NULL;
	cJSON_Delete(json);
	return *textp ? 0 : -ENOMEM;
}

/* ---- the call ---- */

static void forget(struct benchmark *b) {
	benchmark_close(b);
	elsewhere_free(&b->where);
	b->patterns = own_patterns_free(b->patterns);
	for (unsigned i = 0; i < b->settings; i++)
		free(b->setting[i]);
	free(b->setting);
	free(b->names);
	free(b->text);
	for (int f = 0; f < BENCHMARK_FORMS; f++)
		cJSON_Delete(b->plan[f]);
}

/* With the name that the caller knows. */
int benchmark_refused(struct benchmark *b) {
	static const char prefix[] = "benchmark_pattern: ", own[] = BENCHMARK_OPERATION;
	const char *text = fusion_error(), *at;
	char words[sizeof b->fault.text] = "";
	size_t used = 0;

	if (strncmp(text, prefix, sizeof prefix - 1) != 0)
		used = (size_t)snprintf(words, sizeof words, "%s", prefix);
	for (; used < sizeof words && (at = strstr(text, own)); text = at + sizeof own - 1)
		used += (size_t)snprintf(words + used, sizeof words - used, "%.*s%s", (int)(at - text), text, b->name);
	return fault_set(&b->fault, fusion_error_code(), "%s%s", words, text);
}

int benchmark_parse(struct benchmark *b, char *text, cJSON **jsonp) {
	*jsonp = text ? cJSON_Parse(text) : NULL;
	if (!text)
		return benchmark_refused(b);
	free(text);
	return *jsonp ? 0 : -ENOMEM;
}

char *fusion_benchmark_pattern(fusion_context *context, const char *pattern, const struct fusion_benchmark_options *options) {
	static const struct fusion_benchmark_options defaults;
	const struct fusion_benchmark_options *o = options ? options : &defaults;
	struct benchmark *b;
	char *text = NULL;
	int r;

	if (error_reserved("benchmark_pattern", o->reserved))
		return NULL;
	b = calloc(1, sizeof *b);
	if (!b) {
		error_report(-ENOMEM, NULL);
		return NULL;
	}
	r = take(b, context, pattern, o);
	if (!r)
		r = benchmark_open(b);
	if (!r)
		r = benchmark_measure(b);
	if (!r)
		r = answer(b, &text);
	if (r)
		error_report(r, &b->fault);
	forget(b);
	free(b);
	return text;
}
