/* Questions to the daemon: statistics, plans, and what would fuse. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "capture.h"
#include "context.h"
#include "explained.h"
#include "flush.h"
#include "record.h"

/* Ends a question: unlocks, and gives the text or NULL. */
static char *query_end(struct recording *r, int failed, struct answer *a) {
	if (failed)
		a->text = NULL;
	record_end_code(r, failed);
	return a->text;
}

static int send_and_wait(struct recording *r, struct request *q, struct answer *a) {
	int failed = stream_send(r->context, q, a, &r->fault);

	return failed ? failed : stream_wait(r->context, q, a, &r->fault);
}

/* A question of a few numbers, answered by a text. */
static char *ask(fusion_context *context, const char *name, enum message_request kind, uint32_t numbers,
	const uint64_t *number) {
	struct wire_writer *w;
	struct recording r;
	struct request *q;
	struct answer a;
	int failed;

	if (!record_begin_source(&r, name, context))
		return NULL;
	failed = stream_room_to_wait(r.context, &q, &r.fault);
	if (!failed) {
		w = stream_begin(r.context, q, kind, numbers);
		for (uint32_t i = 0; i < numbers; i++)
			/* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): every question has as many as it says */
			wire_put_uint(w, number[i]);
		failed = send_and_wait(&r, q, &a);
	}
	return query_end(&r, failed, &a);
}

char *fusion_stats(fusion_context *context, bool whole_daemon) {
	return ask(context, "stats", REQUEST_STATS, 1, (uint64_t[]){ whole_daemon });
}

char *fusion_settings(fusion_context *context, bool whole_daemon) {
	return ask(context, "settings", REQUEST_SETTINGS, 1, (uint64_t[]){ whole_daemon });
}

char *fusion_recent(fusion_context *context, uint64_t session, unsigned what) {
	return ask(context, "recent", REQUEST_RECENT, 2, (uint64_t[]){ session, what });
}

char *fusion_inspect(fusion_context *context, enum fusion_inspection what, uint64_t first, uint64_t second) {
	static const struct {
		enum message_request kind;
		uint32_t numbers;
	} questions[] = {
		[FUSION_INSPECT_CLIENTS] = { REQUEST_CLIENTS, 0 },
		[FUSION_INSPECT_KERNELS] = { REQUEST_KERNELS, 1 },
		[FUSION_INSPECT_EVENTS] = { REQUEST_EVENTS, 2 },
		[FUSION_INSPECT_TIMELINE] = { REQUEST_EVENTS, 3 },
	};

	struct fault f;

	if (what > FUSION_INSPECT_TIMELINE) {
		error_report(fault_set(&f, FAULT_ARGUMENT, "inspect: there is no question %u", (unsigned)what), &f);
		return NULL;
	}
	return ask(context, "inspect", questions[what].kind, questions[what].numbers, (uint64_t[]){ first, second, 1 });
}

char *fusion_operations(fusion_context *context) {
	return ask(context, "operations", REQUEST_OPERATIONS, 0, NULL);
}

char *fusion_patterns(fusion_context *context) {
	return ask(context, "patterns", REQUEST_PATTERNS, 0, NULL);
}

/* --- explain ----------------------------------------------------------------------------- */

/* The values of the arrays, referenced: while the daemon is waited for another thread may release these. */
static int take_values(struct recording *r, unsigned count, fusion_array *const *array, struct value **value) {
	struct fusion_array *a;
	int failed = 0;

	for (unsigned i = 0; i < count; i++) {
		failed = array_find_in(r->context, array, i, r->what, "array", &a, &r->fault);
		if (!failed)
			failed = array_usable(a, r->what, &r->fault);
		if (!failed)
			failed = capture_readable(a, r->what, &r->fault);
		if (failed)
			return failed;
		value[i] = a->value;
		value_ref(value[i]);
	}
	return 0;
}

static int check_explain(struct recording *r, int count, fusion_array *const *array) {
	int failed = door_need_feature(&r->context->door, FEATURE_EXPLAIN, r->what, &r->fault);

	if (failed)
		return failed;
	if (count < 1 || !array)
		return fault_set(&r->fault, FAULT_ARGUMENT, "%s: no arrays are given", r->what);
	return 0;
}

/* Marks what leads to the arrays; *outputsp is how many of them are still pending. */
static uint32_t mark_pending(
	struct fusion_context *c, unsigned count, struct value *const *value, uint32_t *outputsp) {
	*outputsp = 0;
	for (struct value *v = c->pending.first; v; v = v->next)
		v->needed = false;
	for (unsigned i = 0; i < count; i++) {
		if (value[i]->state != VALUE_PENDING)
			continue;
		value[i]->needed = true;
		++*outputsp;
	}
	return value_list_number(&c->pending);
}

static void put_explain(struct fusion_context *c, struct wire_writer *w, uint32_t operations,
	uint32_t outputs, unsigned count, struct value *const *value, unsigned flags) {
	wire_put_array(w, operations);
	for (const struct value *v = c->pending.first; v; v = v->next)
		if (v->needed)
			flush_put_value(c, w, v);
	wire_put_array(w, outputs);
	for (unsigned i = 0; i < count; i++)
		if (value[i]->state == VALUE_PENDING)
			wire_put_uint(w, value[i]->index);
	wire_put_uint(w, flags);
}

/* The answer, with the places of what was asked about. */
static int add_places(struct answer *a, const struct place *place, uint32_t operations) {
	char *text = a->text ? explained_with_places(a->text, place, operations) : NULL;

	if (!text) {
		free(a->text);
		a->text = NULL;
		return -ENOMEM;
	}
	free(a->text);
	a->text = text;
	return 0;
}

/* Asked of those that are marked. While the daemon is waited for, other threads may send and release them. */
static int ask_with_places(struct recording *r, struct request *q, uint32_t operations, struct answer *a) {
	struct place *place = calloc(operations + 1u, sizeof *place);
	uint32_t i = 0;
	int failed;

	for (const struct value *v = r->context->pending.first; place && v; v = v->next)
		if (v->needed)
			place[i++] = v->place;
	failed = send_and_wait(r, q, a);
	if (!failed)
		failed = place ? add_places(a, place, operations) : -ENOMEM;
	free(place);
	return failed;
}

static int explain(
	struct recording *r, unsigned count, struct value *const *value, unsigned flags, struct answer *a) {
	struct fusion_context *c = r->context;
	uint32_t operations, outputs;
	struct request *q;
	int failed =
		wait_accepted(c, c->stream.seq, &r->fault); /* the operands' handles must be known there */

	if (!failed)
		failed = stream_room_to_wait(c, &q, &r->fault);
	if (failed)
		return failed;
	operations = mark_pending(c, count, value, &outputs);
	if (!outputs) {
		stream_forgo(c, q);
		return fault_set(&r->fault, FAULT_STATE,
			"%s: the operations that lead to these arrays were sent already; ask before "
			"they are read", r->what);
	}
	put_explain(c, stream_begin(c, q, REQUEST_EXPLAIN, 3), operations, outputs, count, value, flags);
	return ask_with_places(r, q, operations, a);
}

static int explain_arrays(struct recording *r, unsigned count, fusion_array *const *array, unsigned flags, struct answer *a) {
	struct value **value = calloc(count, sizeof *value);
	int failed = value ? take_values(r, count, array, value) : -ENOMEM;

	if (!failed)
		failed = explain(r, count, value, flags, a);
	for (unsigned i = 0; value && i < count; i++)
		if (value[i])
			value_drop(r->context, value[i]);
	free(value);
	return failed;
}

static char *explain_as(fusion_context *context, const char *what, int count, fusion_array *const *array, unsigned flags) {
	struct recording r;
	struct answer a;
	int failed;

	if (!record_begin_source(&r, what, context))
		return NULL;
	failed = check_explain(&r, count, array);
	if (!failed)
		failed = explain_arrays(&r, (unsigned)count, array, flags, &a);
	return query_end(&r, failed, &a);
}

char *fusion_explain(fusion_context *context, int count, fusion_array *const *array, unsigned what) {
	return explain_as(context, "explain", count, array, what);
}

char *fusion_opportunities(fusion_context *context, int count, fusion_array *const *array) {
	return explain_as(context, "opportunities", count, array, EXPLAIN_OPPORTUNITIES);
}

/* --- can_fuse ---------------------------------------------------------------------------- */

static int find_op(struct recording *r, const char *name, unsigned *opp) {
	int op = name ? op_find(name) : -1;

	if (op < 0)
		return fault_set(&r->fault, FAULT_OPERATION, "can_fuse: there is no operation \"%s\"",
			name ? name : "NULL");
	*opp = (unsigned)op;
	return 0;
}

int fusion_can_fuse(fusion_context *context, const char *first, const char *second, char **reasonp) {
	unsigned op[2] = { 0 };
	struct wire_writer *w;
	struct recording r;
	struct request *q;
	struct answer a;
	int failed;

	if (!record_begin_source(&r, "can_fuse", context))
		return -1;
	failed = find_op(&r, first, &op[0]);
	if (!failed)
		failed = find_op(&r, second, &op[1]);
	if (!failed)
		failed = stream_room_to_wait(r.context, &q, &r.fault);
	if (!failed) {
		w = stream_begin(r.context, q, REQUEST_CAN_FUSE, 2);
		wire_put_uint(w, op[0]);
		wire_put_uint(w, op[1]);
		failed = send_and_wait(&r, q, &a);
	}
	query_end(&r, failed, &a);
	if (failed)
		return -1;
	if (reasonp)
		*reasonp = a.text;
	else
		free(a.text);
	return a.truth;
}
