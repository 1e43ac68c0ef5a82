/* The operations that an administrator defined; see operations.h. */
#include "operations.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "protocol/message.h"
#include "daemon/base/operation_file.h"
#include "daemon/serve/patterns.h"
#include "daemon/serve/trial.h"
#include "daemon/serve/wait.h"

enum {
	/* Trials that ended with the engine, as the file keeps them. */
	MARKS = 64,
	MARK_PATH = CONFIG_TEXT + 16,
};

enum operation_state {
	OPERATION_WAITS,
	OPERATION_READY,
	OPERATION_REFUSED,
};

struct operation {
	struct operation *next;
	struct operation_source *source;     /* in the list of sources */
	enum operation_state state;
	struct definition *definition;       /* of an expression */
	unsigned op;                         /* of one with a body */
	struct named *named;                 /* of what is to be recognised */
	uint64_t hash;
	struct fault fault;                  /* why it is refused */
};

struct operations {
	struct server *server;
	struct operation_source *sources;
	struct operation *first;             /* of those with a name, in the order of the files */
	struct operation *tried;             /* or NULL */
	struct trial *trial;
	struct waiter *asking;               /* utlist: of OPERATION, until there is a verdict */
	char marks_path[MARK_PATH];
	uint64_t mark[MARKS];                /* hashes of those that must not be tried */
	unsigned marks;
};

/* ---- marks ---- */

static void read_marks(struct operations *o) {
	FILE *stream = fopen(o->marks_path, "re");

	while (stream && o->marks < MARKS && fscanf(stream, "%" SCNx64, &o->mark[o->marks]) == 1)
		o->marks++;
	if (stream)
		fclose(stream);
}

/* Before a trial its mark stands on disk; where that cannot be, the trial goes without. */
static void write_marks(const struct operations *o, const struct operation *now) {
	FILE *stream;

	if (!o->marks && !now) {
		unlink(o->marks_path);
		return;
	}
	stream = fopen(o->marks_path, "we");
	for (unsigned i = 0; stream && i < o->marks; i++)
		fprintf(stream, "%016" PRIx64 "\n", o->mark[i]);
	if (stream && now)
		fprintf(stream, "%016" PRIx64 "\n", now->hash);
	if (!stream || fclose(stream))
		log_warning("%s cannot be written: %s", o->marks_path, strerror(errno));
}

static bool is_marked(const struct operations *o, uint64_t hash) {
	for (unsigned i = 0; i < o->marks; i++)
		if (o->mark[i] == hash)
			return true;
	return false;
}

/* ---- one operation ---- */

/* A row of op_info() stays while the process runs, for clients and recorded graphs that know its number. */
static struct operation *operation_free(struct operation *p) {
	definition_free(p->definition);
	named_unref(p->named);
	free(p);
	return NULL;
}

static void refuse(struct operation *p, const struct fault *f) {
	const struct operation_source *s = p->source;

	p->state = OPERATION_REFUSED;
	p->fault = *f;
	if (p->fault.text[0] != '/' || strncmp(p->fault.text, s->path, strlen(s->path)) != 0)
		fault_prefix(&p->fault, "%s:%u", s->path, s->line);
	p->definition = definition_free(p->definition);
	p->named = named_unref(p->named);
	log_error("an operation is refused: %s", p->fault.text);
}

static int make_body(struct operation *p, struct fault *f) {
	const struct operation_source *s = p->source;
	struct own_facts facts = { .name = s->name, .operands = s->operands, .arity = s->arity, .types = s->types,
		.result = s->result, .inexact = s->inexact, .one_shape = s->one_shape };

	for (unsigned i = 0; i < s->arity; i++)
		facts.gradient[i] = s->gradient[i];
	for (unsigned i = 0; i <= DTYPE_KIND_REAL; i++)
		facts.body[i] = s->body[i];
	return own_add(&facts, &p->op, f);
}

static void signature_of(const struct operation_source *s, struct str *text) {
	str_printf(text, *s->operands ? "%s(%s)" : "%s", s->name, s->operands);
}

static int make_text(struct operation *p, struct fault *f) {
	const struct operation_source *s = p->source;
	struct str signature = { 0 };
	int r;

	signature_of(s, &signature);
	r = str_finish(&signature);
	if (!r)
		r = definition_new(str_text(&signature), s->text, (const char *const *)s->gradient, &p->definition, f);
	str_free(&signature);
	return r;
}

static bool has_body(const struct operation_source *s) {
	bool has = false;

	for (unsigned i = 0; i <= DTYPE_KIND_REAL; i++)
		has |= s->body[i] != NULL;
	return has;
}

/* May it be called, or is it to be recognised alone? */
static bool is_called(const struct operation *p) {
	return p->source->text || p->source->fault.code || has_body(p->source);
}

static int make_pattern(struct operation *p, struct fault *f) {
	struct str signature = { 0 };
	int r;

	signature_of(p->source, &signature);
	r = str_finish(&signature);
	if (!r)
		r = named_new(str_text(&signature), p->source->pattern, p->op, &p->named, f);
	if (!r)
		p->named->inexact = p->op && p->source->inexact;
	str_free(&signature);
	return r;
}

/* Up to the trial. */
static int prepare(const struct operations *o, struct operation *p) {
	struct fault f = p->source->fault;
	int r = f.code;

	if (!r && p->source->text)
		r = make_text(p, &f);
	else if (!r && has_body(p->source))
		r = make_body(p, &f);
	if (!r && p->source->pattern)
		r = make_pattern(p, &f);
	if (!r && is_marked(o, p->hash))
		r = fault_set(&f, FAULT_STATE, "%s: the engine ended while it was being tried; change it, or reload the "
			"configuration to try it again", p->source->name);
	if (r > 0)
		refuse(p, &f);
	/* The same stood in the files before, or there is nothing to be tried. */
	else if (!r && ((own_state(p->op) == OWN_CALLABLE && !p->named) || !is_called(p)))
		p->state = OPERATION_READY;
	return r < 0 ? r : 0;
}

static struct operation *find(const struct operations *o, const char *name, size_t length) {
	struct operation *p = o->first;

	while (p && (strlen(p->source->name) != length || memcmp(p->source->name, name, length) != 0))
		p = p->next;
	return length ? p : NULL;
}

/* ---- all of them ---- */

static void free_all(struct operation *first, struct operation_source *sources) {
	while (first) {
		struct operation *next = first->next;

		operation_free(first);
		first = next;
	}
	operation_sources_free(sources);
}

/* What was found right before and says the same need not be tried again. */
static bool take_over(struct operation *p, struct operation *old) {
	if (!old || old->state != OPERATION_READY || !operation_source_equal(p->source, old->source))
		return false;
	p->state = OPERATION_READY;
	p->op = old->op;
	p->definition = old->definition;
	p->named = old->named;
	old->definition = NULL;
	old->named = NULL;
	return true;
}

static int add(struct operations *fresh, struct operation ***endp, struct operation_source *s,
	const struct operations *old) {
	struct operation *p = calloc(1, sizeof *p);

	if (!p)
		return -ENOMEM;
	p->source = s;
	p->hash = operation_source_hash(s);
	**endp = p;
	*endp = &p->next;
	return take_over(p, find(old, s->name, strlen(s->name))) ? 0 : prepare(fresh, p);
}

/* All sessions are told what there is to be recognised now. */
static void tell_patterns(const struct operations *o) {
	struct pattern_of_file file[OPERATION_FILES];
	unsigned count = 0;

	for (const struct operation *p = o->first; p; p = p->next)
		if (p->named && p->state == OPERATION_READY)
			file[count++] = (struct pattern_of_file){ p->named, p->source->devices };
	if (patterns_set_files(o->server->patterns, count, file))
		log_error("patterns that files define could not be told to all sessions: out of memory");
}

/* The folder's files in the place of what there was. */
static int load(struct operations *o) {
	struct operations fresh = *o;
	struct operation **end = &fresh.first;
	int r;

	fresh.first = NULL;
	fresh.sources = NULL;
	r = operation_files_read(o->server->config.engine_operations, &fresh.sources);
	for (struct operation_source *s = fresh.sources; !r && s; s = s->next)
		r = add(&fresh, &end, s, o);
	if (r) {
		free_all(fresh.first, fresh.sources);
		return r;
	}
	free_all(o->first, o->sources);
	o->first = fresh.first;
	o->sources = fresh.sources;
	tell_patterns(o);
	return 0;
}

int operations_new(struct server *v, struct operations **operationsp) {
	struct operations *o = calloc(1, sizeof *o);
	int r;

	if (!o)
		return -ENOMEM;
	o->server = v;
	snprintf(o->marks_path, sizeof o->marks_path, "%s/trials", v->config.cache_dir);
	read_marks(o);
	r = load(o);
	if (r)
		operations_free(o);
	else
		*operationsp = o;
	return r;
}

static void stop_trial(struct operations *o) {
	if (o->trial)
		write_marks(o, NULL);
	if (o->tried && own_state(o->tried->op) == OWN_TRIED)
		own_set_state(o->tried->op, OWN_WAITS);
	o->trial = trial_free(o->trial);
	o->tried = NULL;
}

struct operations *operations_free(struct operations *o) {
	if (!o)
		return NULL;
	stop_trial(o);
	free_all(o->first, o->sources);
	free(o);
	return NULL;
}

/* ---- OPERATION ---- */

static void put_answer(struct wire_writer *w, const struct operation *p) {
	const struct operation_source *s = p->source;
	struct str signature = { 0 };

	signature_of(s, &signature);
	wire_put_text(w, str_text(&signature));
	str_free(&signature);
	wire_put_text(w, s->text ? s->text : "");
	wire_put_array(w, s->arity);
	for (unsigned i = 0; i < s->arity; i++)
		wire_put_text(w, s->gradient[i] ? s->gradient[i] : "");
	wire_put_uint(w, p->op);
	wire_put_uint(w, p->op ? op_info(p->op)->identity : 0);
	wire_put_uint(w, s->types);
	wire_put_uint(w, s->result);
	wire_put_uint(w, s->one_shape);
}

static int find_named(struct wire_cursor *body, const struct operations *o, struct operation **pp, struct fault *f) {
	const char *name;
	size_t size;
	int r = wire_get_text(body, "name", DEFINITION_NAME, &name, &size, f);

	if (r)
		return r;
	*pp = find(o, name, size);
	if (!*pp || !is_called(*pp))
		return fault_set(f, FAULT_OPERATION, "%.*s: there is no such operation", (int)size, name);
	if ((*pp)->state != OPERATION_REFUSED)
		return 0;
	return fault_set(f, FAULT_OPERATION, "%.*s: the definition is refused: %s", (int)size, name, (*pp)->fault.text);
}

static void answer(struct server *v, struct transport_request *frame, const struct operation *p) {
	put_answer(request_answer(v, REQUEST_OPERATION, 8), p);
	request_send(v, frame);
}

/* A waiter whose operation is still being tried goes on waiting. */
static void answer_waiter(struct waiter *w) {
	struct server *v = w->session->server;
	struct operation *p = NULL;
	struct wire_reader reader;
	struct wire_cursor body;
	struct fault f = { 0 };
	int r = wire_open(&reader, w->frame->bytes, w->frame->size, &f);

	if (!r) {
		body = wire_root(&reader);
		r = request_skip_head(&body, &f);
		if (!r)
			r = find_named(&body, v->operations, &p, &f);
		wire_close(&reader);
	}
	if (waiter_failed(w, r, &f) || !p || p->state != OPERATION_READY)
		return;
	answer(v, w->frame, p);
	waiter_free(w);
}

static void answer_waiters(struct operations *o) {
	struct waiter *next;

	for (struct waiter *w = o->asking; w; w = next) {
		next = w->queue_next;
		w->then(w);
	}
}

int operation_request(struct request *r, struct fault *f) {
	struct operations *o = r->session->server->operations;
	struct operation *p = NULL;
	struct waiter *w;
	int code = find_named(&r->body, o, &p, f);

	if (!code)
		code = wire_get_end(&r->body, "OPERATION", f);
	if (code)
		return code;
	if (p->state == OPERATION_READY) {
		answer(r->session->server, r->frame, p);
		return 0;
	}
	code = waiter_new(r, NULL, answer_waiter, &w);
	if (!code)
		waiter_queue(w, &o->asking);
	return code;
}

void operations_reload(struct operations *o) {
	stop_trial(o);
	o->marks = 0;
	write_marks(o, NULL);
	if (load(o))
		log_error("the operations of %s could not be read again: out of memory",
			o->server->config.engine_operations);
	answer_waiters(o);
}

/* ---- OPERATIONS ---- */

static cJSON *operation_json(const struct operations *o, const struct operation *p) {
	static const char *const states[] = { [OPERATION_WAITS] = "waits", [OPERATION_READY] = "ready",
		[OPERATION_REFUSED] = "refused" };
	const struct operation_source *s = p->source;
	cJSON *json = cJSON_CreateObject();

	cJSON_AddStringToObject(json, "name", s->name);
	cJSON_AddStringToObject(json, "operands", s->operands);
	cJSON_AddStringToObject(json, "kind", s->text ? "text" : has_body(s) || !s->pattern ? "body" : "pattern");
	cJSON_AddStringToObject(json, "state", p == o->tried ? "is tried" : states[p->state]);
	cJSON_AddStringToObject(json, "file", s->path);
	cJSON_AddNumberToObject(json, "line", s->line);
	cJSON_AddBoolToObject(json, "exact", !s->inexact);
	if (p->named && p->op)
		cJSON_AddStringToObject(json, "stands_for", s->pattern);
	if (s->doc)
		cJSON_AddStringToObject(json, "doc", s->doc);
	if (p->state == OPERATION_REFUSED)
		cJSON_AddStringToObject(json, "reason", p->fault.text);
	return json;
}

int operations_request(struct request *r, struct fault *f) {
	const struct operations *o = r->session->server->operations;
	cJSON *json;
	int code = wire_get_end(&r->body, "OPERATIONS", f);

	if (code)
		return code;
	json = cJSON_CreateArray();
	for (const struct operation *p = o->first; p; p = p->next)
		cJSON_AddItemToArray(json, operation_json(o, p));
	code = json ? request_send_json(r, json, f) : -ENOMEM;
	cJSON_Delete(json);
	return code;
}

/* ---- trials ---- */

static struct operation *find_waiting(const struct operations *o) {
	struct operation *p = o->first;

	while (p && p->state != OPERATION_WAITS)
		p = p->next;
	return p;
}

static int begin_trial(struct operations *o, struct operation *p, struct fault *f) {
	const struct trial_config c = { .exec = o->server->exec, .traits = o->server->traits, .name = p->source->name,
		.definition = p->definition, .op = p->op, .inexact = p->source->inexact,
		.pattern = p->op && p->named ? &p->named->template : NULL };
	int r = trial_new(&c, &o->trial, f);

	/* One that clients call already is tried again for another pattern: they go on. */
	if (!r && own_state(p->op) != OWN_CALLABLE)
		own_set_state(p->op, OWN_TRIED);
	if (r < 0)
		return fault_set(f, FAULT_MEMORY, "%s could not be tried: %s", p->source->name, strerror(-r));
	if (r)
		return r;
	o->tried = p;
	write_marks(o, p);
	return 0;
}

static void conclude(struct operations *o, const struct fault *f) {
	struct operation *p = o->tried;
	uint32_t exact = trial_exact(o->trial);

	stop_trial(o);
	if (f->code) {
		refuse(p, f);
	} else {
		own_set_state(p->op, OWN_CALLABLE);
		p->state = OPERATION_READY;
		log_info("operation %s of %s:%u may be called", p->source->name, p->source->path, p->source->line);
	}
	if (p->named) {
		p->named->exact = exact;
		tell_patterns(o);
	}
	answer_waiters(o);
}

bool operations_ready(const struct operations *o) {
	return o->trial ? trial_ready(o->trial) : find_waiting(o) != NULL;
}

void operations_turn(struct operations *o) {
	struct operation *p = o->trial ? NULL : find_waiting(o);
	struct fault f = { 0 };

	if (p && begin_trial(o, p, &f)) {
		refuse(p, &f);
		answer_waiters(o);
	}
	if (o->trial && trial_turn(o->trial, &f))
		conclude(o, &f);
}
