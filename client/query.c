/* Questions to the daemon: statistics, plans, and what would fuse. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture.h"
#include "context.h"
#include "debug.h"
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

/* The settings of a session, and the one of the library itself. */
static char *with_debug(fusion_context *context, char *text) {
	struct fusion_context *c;
	char *both = NULL;
	bool on;

	if (!context_enter(context, "settings", &c)) {
		on = c->debug;
		context_leave(c);
		/* An object with members. */
		if (asprintf(&both, "%.*s,\"" DEBUG_SETTING "\":\"%s\"}", (int)strlen(text) - 1, text, on ? "yes" : "no") < 0) {
			error_report(-ENOMEM, NULL);
			both = NULL;
		}
	}
	free(text);
	return both;
}

char *fusion_settings(fusion_context *context, bool whole_daemon) {
	char *text = ask(context, "settings", REQUEST_SETTINGS, 1, (uint64_t[]){ whole_daemon });

	return text && !whole_daemon ? with_debug(context, text) : text;
}

/* what: a sum of FUSION_EXPLAIN_, of those that the question may have. */
static int check_what(const char *question, unsigned what, unsigned allowed, struct fault *f) {
	if (what & ~(unsigned)EXPLAIN_ALL)
		return fault_set(f, FAULT_ARGUMENT, "%s: what is %u, which is no sum of FUSION_EXPLAIN_", question, what);
	if (what & ~allowed)
		return fault_set(f, FAULT_ARGUMENT, "%s: what has run is told of as it ran; FUSION_EXPLAIN_UNFUSED and FUSION_EXPLAIN_BUILD are for fusion_explain()",
			question);
	return 0;
}

static uint64_t own_session(fusion_context *context) {
	struct fusion_context *c;
	uint64_t session = 0;

	if (!context_enter(context, "recent", &c)) {
		session = c->door.session;
		context_leave(c);
	}
	return session;
}

char *fusion_recent(fusion_context *context, uint64_t session, unsigned what) {
	struct fault f;
	int failed = check_what("recent", what, EXPLAIN_ALL & ~(EXPLAIN_UNFUSED | EXPLAIN_BUILD), &f);

	if (failed) {
		error_report(failed, &f);
		return NULL;
	}
	if (session == FUSION_OWN_SESSION && !(session = own_session(context)))
		return NULL;
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
		error_report(fault_set(&f, FAULT_ARGUMENT, "inspect: what is %u, which asks nothing", (unsigned)what), &f);
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

/*
 * The values of the arrays, referenced: while the daemon is waited for another thread may release these. recorded: also those of the graph that the
 * thread records.
 */
static int take_values(struct recording *r, unsigned count, fusion_array *const *array, bool recorded, struct value **value) {
	struct fusion_array *a;
	int failed = 0;

	for (unsigned i = 0; i < count; i++) {
		failed = array_find_in(r->context, array, i, r->what, "array", &a, &r->fault);
		if (!failed)
			failed = array_usable(a, r->what, &r->fault);
		if (!failed && !(recorded && capture_has(a)))
			failed = capture_readable(a, r->what, &r->fault);
		if (failed)
			return failed;
		value[i] = a->value;
		value_ref(value[i]);
	}
	return 0;
}

static int check_explain(struct recording *r, int count, fusion_array *const *array, unsigned what) {
	int failed = door_need_feature(&r->context->door, FEATURE_EXPLAIN, r->what, &r->fault);

	if (!failed)
		failed = check_what(r->what, what, EXPLAIN_ALL, &r->fault);
	if (failed)
		return failed;
	if (count < 1)
		return fault_set(&r->fault, FAULT_ARGUMENT, "%s: count is %d, below 1", r->what, count);
	if (!array)
		return fault_set(&r->fault, FAULT_ARGUMENT, "%s: array is NULL", r->what);
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

static void put_operations(struct fusion_context *c, struct wire_writer *w, uint32_t operations,
	uint32_t outputs, unsigned count, struct value *const *value) {
	wire_put_array(w, operations);
	for (const struct value *v = c->pending.first; v; v = v->next)
		if (v->needed)
			flush_put_value(c, w, v);
	wire_put_array(w, outputs);
	for (unsigned i = 0; i < count; i++)
		if (value[i]->state == VALUE_PENDING)
			wire_put_uint(w, value[i]->index);
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

/* place: of each operation; NULL: there was no memory for them. */
static int ask_at(struct recording *r, struct request *q, const struct place *place, uint32_t operations, struct answer *a) {
	int failed = send_and_wait(r, q, a);

	if (!failed)
		failed = place ? add_places(a, place, operations) : -ENOMEM;
	return failed;
}

/* Holds what the marked ones of a list name by handles; returns how many. held NULL: counts them. */
static uint32_t hold_named(const struct value_list *l, struct value **held) {
	uint32_t count = 0;

	for (const struct value *v = l->first; v; v = v->next)
		for (unsigned i = 0; v->needed && i < v->arity; i++) {
			if (!v->in[i]->handle)
				continue;
			if (held) {
				value_hold(v->in[i]);
				held[count] = v->in[i];
			}
			count++;
		}
	return count;
}

/*
 * Asked of those of a list that are marked. While the daemon is waited for, other threads may send and release them; what they name stays, since a large question
 * is read when another one of the user is answered.
 */
static int ask_with_places(struct recording *r, struct request *q, const struct value_list *l, uint32_t operations, struct answer *a) {
	struct place *place = value_list_places(l, operations);
	struct value **held = calloc(hold_named(l, NULL) + 1u, sizeof *held);
	uint32_t count = held ? hold_named(l, held) : 0;
	int failed = ask_at(r, q, held ? place : NULL, operations, a);

	while (count)
		value_unhold(r->context, held[--count]);
	free(held);
	free(place);
	return failed;
}

/*
 * Operations of which nobody has asked for anything wait until a batch is full, and are planned without those that follow. Who asks how these run is told so,
 * and where the others are told of.
 */
static int add_before(struct answer *a, uint32_t before, const char *told) {
	char *both = NULL;

	if (!before)
		return 0;
	if (asprintf(&both, "{\"operations_before\":%u,\"note\":\"%u operations that lead to these were sent before, as full batches (batch_ops), and run without "
		"them: this tells of %s; recent() tells of the last graphs that ran\",%s", before, before, told, a->text + 1) < 0)
		both = NULL;
	free(a->text);
	a->text = both;
	return both ? 0 : -ENOMEM;
}

/* Of all that are asked for: what was sent before them. */
static uint32_t most_before(unsigned count, struct value *const *value) {
	uint32_t most = 0;

	for (unsigned i = 0; i < count; i++)
		most = value[i]->before > most ? value[i]->before : most;
	return most;
}

/* Of all that lead to them and are pending. */
static uint32_t pending_before(const struct fusion_context *c) {
	uint32_t most = 0;

	for (const struct value *v = c->pending.first; v; v = v->next) {
		uint32_t before = v->needed ? flush_sent_before(v) : 0;

		most = before > most ? before : most;
	}
	return most;
}

/* Of what has run the daemon tells. */
static int ask_made(struct recording *r, struct request *q, unsigned count, struct value *const *value, unsigned flags, struct answer *a) {
	struct wire_writer *w;
	uint32_t before;
	int failed;

	if (flags & (EXPLAIN_UNFUSED | EXPLAIN_BUILD)) {
		stream_forgo(r->context, q);
		return fault_set(&r->fault, FAULT_STATE, "%s: the operations that lead to these arrays were sent already, and only before that can they be planned "
			"in another way; ask before they are read, or of a recorded graph", r->what);
	}
	w = stream_begin(r->context, q, REQUEST_MADE, 2);
	wire_put_array(w, count);
	for (unsigned i = 0; i < count; i++)
		wire_put_uint(w, value[i]->handle);
	wire_put_uint(w, flags);
	before = most_before(count, value);
	failed = send_and_wait(r, q, a);
	return failed ? failed : add_before(a, before, "the run that made the arrays");
}

/* Room for a question, behind all that was submitted: the handles of its operands are known there. While either is waited for others may submit more. */
static int room_behind(struct recording *r, struct request **requestp) {
	struct fusion_context *c = r->context;

	for (;;) {
		uint64_t seq = c->stream.seq;
		int failed = wait_accepted(c, seq, &r->fault);

		if (!failed)
			failed = stream_room_to_wait(c, requestp, &r->fault);
		if (failed || seq == c->stream.seq)
			return failed;
		stream_forgo(c, *requestp);
	}
}

static int explain(
	struct recording *r, unsigned count, struct value *const *value, unsigned flags, struct answer *a) {
	struct fusion_context *c = r->context;
	uint32_t operations, outputs, before;
	struct wire_writer *w;
	struct request *q;
	int failed = room_behind(r, &q);

	if (failed)
		return failed;
	operations = mark_pending(c, count, value, &outputs);
	if (!outputs)
		return ask_made(r, q, count, value, flags, a);
	before = pending_before(c);
	w = stream_begin(c, q, REQUEST_EXPLAIN, 3);
	put_operations(c, w, operations, outputs, count, value);
	wire_put_uint(w, flags);
	failed = ask_with_places(r, q, &c->pending, operations, a);
	return failed ? failed : add_before(a, before, "the others alone");
}

/* Of the graph that the thread records. */
static int explain_recorded(struct recording *r, unsigned count, struct value *const *value, unsigned flags, struct answer *a) {
	struct fusion_context *c = r->context;
	uint32_t operations, outputs;
	struct request *q;
	int failed = stream_room_to_wait(c, &q, &r->fault);

	if (failed)
		return failed;
	operations = capture_mark(c, count, value, &outputs);
	if (!outputs) {
		stream_forgo(c, q);
		return fault_set(&r->fault, FAULT_STATE, "%s: no operation was recorded that leads to these arrays", r->what);
	}
	capture_put_explain(c, stream_begin(c, q, REQUEST_EXPLAIN, 4), operations, outputs, count, value, flags);
	return ask_with_places(r, q, capture_recorded(c), operations, a);
}

static int explain_arrays(struct recording *r, unsigned count, fusion_array *const *array, unsigned flags, struct answer *a) {
	struct value **value = calloc(count, sizeof *value);
	int failed = value ? take_values(r, count, array, true, value) : -ENOMEM;

	if (!failed && capture_among(r->context, count, value))
		failed = explain_recorded(r, count, value, flags, a);
	else if (!failed)
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
	failed = check_explain(&r, count, array, flags);
	if (!failed)
		failed = explain_arrays(&r, (unsigned)count, array, flags, &a);
	return query_end(&r, failed, &a);
}

char *fusion_explain(fusion_context *context, int count, fusion_array *const *array, unsigned what) {
	return explain_as(context, "explain", count, array, what);
}

char *fusion_explain_capture(fusion_capture *capture, unsigned what) {
	struct recording r;
	struct request *q;
	struct answer a;
	struct capture_text *t;
	int failed = capture_definition(&r, "explain_capture", capture, &t);

	if (!r.context)
		return NULL;
	if (!failed)
		failed = check_what(r.what, what, EXPLAIN_ALL, &r.fault);
	if (!failed)
		failed = door_need_feature(&r.context->door, FEATURE_EXPLAIN, r.what, &r.fault);
	if (!failed)
		failed = stream_room_to_wait(r.context, &q, &r.fault);
	if (!failed && !capture_text_holds(r.context, t)) {
		stream_forgo(r.context, q);
		failed = capture_lost(r.what, &r.fault);
	}
	if (!failed) {
		capture_text_explain(t, stream_begin(r.context, q, REQUEST_EXPLAIN, 4), what);
		failed = ask_at(&r, q, t->place, t->operations, &a);
	}
	capture_text_unref(t);
	return query_end(&r, failed, &a);
}

char *fusion_opportunities(fusion_context *context, int count, fusion_array *const *array) {
	return explain_as(context, "opportunities", count, array, EXPLAIN_OPPORTUNITIES);
}

/* --- can_fuse ---------------------------------------------------------------------------- */

enum { PAIR = 2 };

/* The pair stands behind the results in value[0 .. count + PAIR). */
static int check_pair(struct recording *r, unsigned count, struct value *const *value) {
	for (unsigned i = 0; i < PAIR; i++) {
		const struct value *v = value[count + i];

		if (v->state != VALUE_PENDING)
			return fault_set(&r->fault, FAULT_STATE, "can_fuse: the %s operation was sent already%s", i ? "second" : "first",
				v->state == VALUE_SENT && v->overfull ? ", with a full batch (batch_ops), and runs without those that follow; ask sooner behind it"
								      : "; ask before it is read");
		if (!v->needed)
			return fault_set(&r->fault, FAULT_ARGUMENT, "can_fuse: the %s array is not among what leads to the results; where none are named, the second "
				"array is the only result: name both arrays as results", i ? "second" : "first");
	}
	return 0;
}

static int ask_pair(struct recording *r, unsigned count, struct value *const *value, struct answer *a) {
	struct fusion_context *c = r->context;
	uint32_t operations, outputs;
	struct wire_writer *w;
	struct request *q;
	int failed = room_behind(r, &q);

	if (failed)
		return failed;
	operations = mark_pending(c, count, value, &outputs);
	failed = check_pair(r, count, value);
	if (failed) {
		stream_forgo(c, q);
		return failed;
	}
	w = stream_begin(c, q, REQUEST_CAN_FUSE, 4);
	put_operations(c, w, operations, outputs, count, value);
	wire_put_uint(w, value[count]->index);
	wire_put_uint(w, value[count + 1]->index);
	return ask_with_places(r, q, &c->pending, operations, a);
}

/* Those that are asked for, then the pair; where none are, the second is. */
static int take_pair(struct recording *r, fusion_array *first, fusion_array *second, unsigned count, fusion_array *const *results, struct answer *a) {
	fusion_array **array = calloc(count + PAIR + PAIR, sizeof *array);
	struct value **value = calloc(count + PAIR + PAIR, sizeof *value);
	int failed = array && value ? 0 : -ENOMEM;

	if (!failed) {
		for (unsigned i = 0; i < count; i++)
			array[i] = results[i];
		if (!count)
			array[count++] = second;
		array[count] = first;
		array[count + 1] = second;
		failed = take_values(r, count + PAIR, array, false, value);
	}
	if (!failed)
		failed = ask_pair(r, count, value, a);
	for (unsigned i = 0; value && i < count + PAIR; i++)
		if (value[i])
			value_drop(r->context, value[i]);
	free(value);
	free(array);
	return failed;
}

int fusion_can_fuse(fusion_context *context, fusion_array *first, fusion_array *second, int count, fusion_array *const *results, char **textp) {
	struct recording r;
	struct answer a;
	int failed;

	if (textp)
		*textp = NULL;
	if (!record_begin_source(&r, "can_fuse", context))
		return -1;
	failed = door_need_feature(&r.context->door, FEATURE_EXPLAIN, r.what, &r.fault);
	if (!failed && (count < 0 || (count && !results)))
		failed = fault_set(&r.fault, FAULT_ARGUMENT, "can_fuse: count is negative, or results is NULL");
	if (!failed)
		failed = take_pair(&r, first, second, (unsigned)count, results, &a);
	query_end(&r, failed, &a);
	if (failed)
		return -1;
	if (textp)
		*textp = a.text;
	else
		free(a.text);
	return a.truth;
}
