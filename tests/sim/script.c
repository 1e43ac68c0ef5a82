/*
 * A program that does each kind of request once, in the same order, and draws nothing: script NUMBER SOCKET TIMEOUT_MS.
 *
 * Calls of it or of the daemon fail meanwhile (points.c). What is refused is refused with an error that says why, what is read is right, and
 * the program goes on with what does not need what it did not get. It ends with 1 where something was refused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/fusion.h"
#include "sim.h"

enum {
	ROWS = 4,
	COLUMNS = 3,
	CELLS = ROWS * COLUMNS,
	/* Of elements: more than the memory that a session begins with. */
	LARGE = 1 << 19,
	TRIES = 20,
	TRY_US = 500 * 1000,
	LOOK_US = 5 * 1000,
	REPLAYS = 3,
};

static struct {
	const char *socket;
	unsigned number;
	uint32_t timeout_ms;
	fusion_context *context, *other;
	fusion_array *x, *y;
	unsigned errors;
	uint64_t troubles;
} the;

static const int64_t dims[2] = { ROWS, COLUMNS };

/* ---- errors ---- */

/* Those that say what is wrong where calls fail; CANCELLED is what was asked for. */
static bool is_clear(int code) {
	static const int codes[] = { FUSION_E_MEMORY, FUSION_E_LIMIT, FUSION_E_CONNECT, FUSION_E_LOST, FUSION_E_REPEATABLE, FUSION_E_UNKNOWN, FUSION_E_AGAIN,
		FUSION_E_STATE, FUSION_E_DEVICE, FUSION_E_BUILD, FUSION_E_CANCELLED };

	for (unsigned i = 0; i < sizeof codes / sizeof *codes; i++)
		if (codes[i] == code)
			return true;
	return false;
}

/* Of tokens nothing is left where an engine ended. */
static bool is_known(int code) {
	return code == FUSION_E_TOKEN;
}

static void refused(const char *what) {
	int code = fusion_error_code();

	the.errors++;
	sim_note("script %u: %s: %s: %s", the.number, what, fusion_code_name(code), fusion_error());
	if (!sim_calls_failed() && sim_troubles() == the.troubles)
		sim_wrong("%s is refused, and nothing happened: %s: %s", what, fusion_code_name(code), fusion_error());
	if ((!is_clear(code) && !is_known(code)) || !*fusion_error())
		sim_wrong("%s is refused with %s: %s", what, fusion_code_name(code), fusion_error());
	fusion_error_clear();
}

static bool done(int code, const char *what) {
	if (code)
		refused(what);
	return !code;
}

static fusion_array *made(fusion_array *a, const char *what) {
	if (!a)
		refused(what);
	return a;
}

static bool told(char *text, const char *what) {
	if (!text)
		refused(what);
	free(text);
	return text;
}

static char *statistics(bool whole_daemon) {
	char *text = fusion_stats(the.context, whole_daemon);

	if (!text)
		refused("statistics");
	return text;
}

/* ---- values ---- */

static int64_t x_at(int i) {
	return 1000 + 7 * i;
}

static int64_t y_at(int i) {
	return 3 - i;
}

static void compare(const int64_t *got, int64_t (*want)(int i), int count, const char *what) {
	for (int i = 0; i < count; i++)
		if (got[i] != want(i))
			sim_wrong("%s: element %d is %lld, not %lld", what, i, (long long)got[i], (long long)want(i));
}

/* Releases it. */
static void check(fusion_array *a, int64_t (*want)(int i), int count, const char *what) {
	int64_t got[CELLS];

	if (!a)
		return;
	if (done(fusion_read(a, got, (size_t)count * sizeof *got), what))
		compare(got, want, count, what);
	fusion_release(a);
}

/* ---- steps ---- */

static bool open_one(fusion_context **contextp) {
	const struct fusion_options o = { .socket = the.socket, .name = "script", .timeout_ms = the.timeout_ms };

	for (unsigned i = 0; i < TRIES; i++) {
		if (done(fusion_open(contextp, &o), "a session"))
			return true;
		usleep(TRY_US);
	}
	return false;
}

/* The number behind "name": of an object of JSON. */
static double number_of(const char *json, const char *name) {
	char key[64];
	const char *at;

	snprintf(key, sizeof key, "\"%s\":", name);
	at = strstr(json, key);
	return at ? strtod(at + strlen(key), NULL) : -1;
}

/* What a new session has of those before; NULL: nothing, or it cannot be asked. */
static const char *left_over(const char *one, const char *all) {
	static const char *const zero[] = { "arrays", "memory_bytes", "shared_arrays", "tokens", "operations_queued", "queued_bytes", "arrays_of_user",
		"builds_of_user", "operations_queued_of_user", "recorded_graph_bytes" };

	for (unsigned i = 0; one && i < sizeof zero / sizeof *zero; i++)
		if (number_of(one, zero[i]) > 0)
			return zero[i];
	if (all && number_of(all, "sessions") > 1)
		return "sessions";
	return all && number_of(all, "runs_busy") > 0 ? "runs_busy" : NULL;
}

/* Sessions end when the daemon comes to it. */
static void step_counters(void) {
	const char *left = NULL;

	for (unsigned i = 0; i < TRIES; i++) {
		char *one = statistics(false), *all = statistics(true);

		left = left_over(one, all);
		free(one);
		free(all);
		if (!left)
			return;
		usleep(TRY_US);
	}
	sim_wrong("a new session finds %s of those that ended", left);
}

static void step_upload(void) {
	int64_t value[CELLS];

	for (int i = 0; i < CELLS; i++)
		value[i] = x_at(i);
	the.x = made(fusion_from(the.context, FUSION_I64, 2, dims, value), "an upload");
	for (int i = 0; i < CELLS; i++)
		value[i] = y_at(i);
	the.y = made(fusion_from(the.context, FUSION_I64, 2, dims, value), "an upload");
}

static int64_t is_seven(int i) {
	(void)i;
	return 7;
}

static void step_create(void) {
	fusion_array *a, *b;
	void *memory;

	a = made(fusion_create(the.context, FUSION_I64, 2, dims, &memory), "an array in memory");
	for (int i = 0; a && i < CELLS; i++)
		((int64_t *)memory)[i] = 7;
	if (a && done(fusion_unmap(a), "an unmap"))
		check(fusion_retain(a), is_seven, CELLS, "an array that was written in place");
	fusion_release(a);
	b = made(fusion_full_int(the.context, FUSION_I64, 2, dims, 7), "a fill");
	check(b, is_seven, CELLS, "a fill");
}

static int64_t formula_at(int i) {
	return -((x_at(i) + y_at(i)) * y_at(i)) + 5;
}

/* -((x + y) * y) + 5; NULL where something is refused. */
static fusion_array *formula(fusion_array *x, fusion_array *y) {
	fusion_array *sum = made(fusion_add(x, y), "a sum"), *product = NULL, *negative = NULL, *five = NULL, *r = NULL;

	if (sum)
		product = made(fusion_mul(sum, y), "a product");
	if (product)
		negative = made(fusion_neg(product), "a negative");
	if (negative)
		five = made(fusion_full_int(the.context, FUSION_I64, 0, NULL, 5), "a scalar");
	if (five)
		r = made(fusion_add(negative, five), "a sum");
	fusion_release(sum);
	fusion_release(product);
	fusion_release(negative);
	fusion_release(five);
	return r;
}

static void step_operations(void) {
	if (the.x && the.y)
		check(formula(the.x, the.y), formula_at, CELLS, "a formula");
}

static int64_t row_sum_at(int row) {
	int64_t sum = 0;

	for (int j = 0; j < COLUMNS; j++)
		sum += formula_at(row * COLUMNS + j);
	return sum;
}

static void step_reduce(void) {
	fusion_array *a = the.x && the.y ? formula(the.x, the.y) : NULL;

	if (a)
		check(made(fusion_sum(a, 1, &(int){ 1 }, false), "a sum of rows"), row_sum_at, ROWS, "a sum of rows");
	fusion_release(a);
}

static int64_t transposed_at(int i) {
	return x_at(i % ROWS * COLUMNS + i / ROWS);
}

static void step_views(void) {
	fusion_array *t = the.x ? made(fusion_transpose(the.x), "a view") : NULL;

	check(t, transposed_at, CELLS, "a view");
}

static void step_future(void) {
	fusion_array *a = the.x && the.y ? formula(the.x, the.y) : NULL;
	int64_t got[CELLS];
	fusion_future *f;

	if (!a)
		return;
	f = fusion_read_begin(a, got, sizeof got);
	if (!f)
		refused("a read");
	else if (done(fusion_future_finish(f), "a read in the background"))
		compare(got, formula_at, CELLS, "a read in the background");
	fusion_release(a);
}

static bool called;

static void callback(void *user, int code) {
	(void)code;
	*(bool *)user = true;
}

static void step_callback(void) {
	int64_t got[CELLS];

	called = false;
	if (!the.x || !done(fusion_read_callback(the.x, got, sizeof got, callback, &called), "a read with a callback"))
		return;
	while (!called)
		usleep(LOOK_US);
}

static int64_t written_at(int i) {
	return i * i;
}

static void step_map(void) {
	fusion_array *a = the.x && the.y ? formula(the.x, the.y) : NULL;
	void *memory;

	if (!a)
		return;
	if (!done(fusion_map(a, FUSION_MAP_READ, &memory), "a map")) {
		fusion_release(a);
		return;
	}
	compare(memory, formula_at, CELLS, "a map");
	if (!done(fusion_unmap(a), "an unmap") || !done(fusion_map(a, FUSION_MAP_WRITE, &memory), "a map for writing")) {
		fusion_release(a);
		return;
	}
	for (int i = 0; i < CELLS; i++)
		((int64_t *)memory)[i] = written_at(i);
	if (done(fusion_unmap(a), "an unmap of what was written"))
		check(fusion_retain(a), written_at, CELLS, "what was written");
	fusion_release(a);
}

static void step_stores(void) {
	fusion_array *a = the.x ? made(fusion_copy(the.x), "a copy") : NULL;

	if (!a)
		return;
	if (the.y && done(fusion_copy_into(a, the.y), "a store"))
		check(fusion_retain(a), y_at, CELLS, "a store");
	if (done(fusion_fill_into(a, 7), "a fill in place"))
		check(fusion_retain(a), is_seven, CELLS, "a fill in place");
	fusion_release(a);
}

static void step_large(void) {
	int64_t large = LARGE, last = LARGE - 1, end = LARGE, by = 1, *value = calloc(LARGE, sizeof *value);
	fusion_array *a = NULL, *b = NULL, *part = NULL;

	if (!value)
		return;
	value[last] = 6;
	a = made(fusion_from(the.context, FUSION_I64, 1, &large, value), "a large upload");
	free(value);
	if (a)
		b = made(fusion_sub(a, a), "a difference");
	if (b)
		part = made(fusion_slice(a, &last, &end, &by), "a part");
	if (part && done(fusion_sync(the.context), "a sync")) {
		int64_t got;

		if (done(fusion_read(part, &got, sizeof got), "a part") && got != 6)
			sim_wrong("the last element is %lld", (long long)got);
	}
	fusion_release(a);
	fusion_release(b);
	fusion_release(part);
}

static void step_capture(void) {
	fusion_array *input[2] = { the.x, the.y }, *output = NULL;
	fusion_capture *c = NULL;

	if (!the.x || !the.y || !done(fusion_capture_begin(the.context, 2, input), "a recording"))
		return;
	output = formula(the.x, the.y);
	if (!output)
		fusion_capture_abort(the.context);
	else if (!(c = fusion_capture_end(the.context, 1, &output)))
		refused("the end of a recording");
	fusion_release(output);
	for (unsigned i = 0; c && i < REPLAYS; i++)
		if (done(fusion_replay(c, input, &output), "a replay"))
			check(output, formula_at, CELLS, "a replay");
	fusion_capture_free(c);
}

static void step_share(void) {
	struct fusion_token token;
	fusion_array *a;

	if (!the.x || !the.other || !done(fusion_export(the.x, FUSION_SHARE_READ_WRITE, 0, &token), "a token"))
		return;
	a = made(fusion_import(the.other, &token), "an array of another session");
	check(a, x_at, CELLS, "an array of another session");
	done(fusion_revoke(the.context, &token), "a token's end");
}

static void step_watching(void) {
	fusion_array *a = the.x && the.y ? formula(the.x, the.y) : NULL;
	char *text;

	if (a) {
		if (fusion_can_fuse(the.context, a, a, 0, NULL, &text) < 0)
			refused("a question");
		free(text);
		told(fusion_explain(the.context, 1, &a, FUSION_EXPLAIN_NODES), "an explanation");
		told(fusion_opportunities(the.context, 1, &a), "what would be fused");
	}
	fusion_release(a);
	text = statistics(false);
	if (text)
		told(fusion_recent(the.context, (uint64_t)number_of(text, "session"), 0), "the last graphs");
	free(text);
	free(statistics(true));
	told(fusion_settings(the.context, false), "settings");
	told(fusion_inspect(the.context, FUSION_INSPECT_CLIENTS, 0, 0), "clients");
	told(fusion_inspect(the.context, FUSION_INSPECT_EVENTS, UINT64_MAX, 0), "events");
	told(fusion_operations(the.context), "operations");
	told(fusion_patterns(the.context), "patterns");
}

static int64_t negative_at(int i) {
	return x_at(i) - y_at(i) - y_at(i);
}

static void step_names(void) {
	fusion_array *operand[2] = { the.x, the.y };

	done(fusion_configure(the.context, "fusion.window_us", "100"), "a setting");
	if (done(fusion_define_pattern(the.context, "mine", "neg(a + b)", false), "a pattern"))
		done(fusion_forget_pattern(the.context, "mine", false), "a pattern's end");
	if (the.x && the.y && done(fusion_define_op(the.context, "twice_less", "a - b - b", NULL), "a definition"))
		check(made(fusion_call(the.context, "twice_less", 2, operand, NULL), "a call"), negative_at, CELLS, "a call");
}

static void step_scope(void) {
	fusion_array *a = NULL;

	if (!the.x || !the.y || !done(fusion_scope_begin(the.context), "a scope"))
		return;
	a = made(fusion_add(the.x, the.y), "a sum");
	if (a)
		a = fusion_keep(a);
	done(fusion_scope_end(the.context), "a scope's end");
	fusion_release(a);
	a = formula(the.x, the.y);
	if (a && done(fusion_flush(the.context), "a flush"))
		done(fusion_cancel(the.context), "a cancellation");
	fusion_release(a);
	/* It may tell of what was cancelled. */
	if (fusion_sync(the.context) && fusion_error_code() != FUSION_E_CANCELLED)
		refused("a sync");
	fusion_error_clear();
}

static void (*const steps[])(void) = { step_upload, step_create, step_operations, step_reduce, step_views, step_future, step_callback, step_map, step_stores,
	step_large, step_capture, step_share, step_watching, step_names, step_scope };

int script_main(int argc, char **argv) {
	(void)argc;
	memset(&the, 0, sizeof the);
	the.number = (unsigned)atoi(argv[1]);
	the.socket = argv[2];
	the.timeout_ms = (uint32_t)atoi(argv[3]);
	the.troubles = sim_troubles();
	if (!open_one(&the.context))
		return 1;
	step_counters();
	if (!open_one(&the.other))
		the.other = NULL;
	for (unsigned i = 0; i < sizeof steps / sizeof *steps; i++)
		steps[i]();
	fusion_release(the.x);
	fusion_release(the.y);
	fusion_close(the.other);
	fusion_close(the.context);
	sim_note("script %u: %u errors", the.number, the.errors);
	return the.errors > 0;
}
