/*
 * CLIENTS: the sessions of this engine that the caller may see, and what each has of it. KERNELS: the programs there are.
 */
#include "request.h"

#include <errno.h>

#include <cjson/cJSON.h>

#include "protocol/message.h"
#include "daemon/base/loop.h"
#include "daemon/emit/emit.h"
#include "daemon/serve/describe.h"

static void add_client(cJSON *list, const struct session *s) {
	const struct counters *c = &s->counters;
	cJSON *one = cJSON_CreateObject();

	cJSON_AddItemToArray(list, one);
	cJSON_AddNumberToObject(one, "session", (double)s->id);
	cJSON_AddNumberToObject(one, "uid", s->uid);
	cJSON_AddNumberToObject(one, "pid", s->pid);
	cJSON_AddStringToObject(one, "name", s->name);
	cJSON_AddBoolToObject(one, "remote", s->remote);
	cJSON_AddNumberToObject(one, "uptime_s", (double)(loop_now() - s->since_us) / 1e6);
	cJSON_AddNumberToObject(one, "arrays", s->handles.live);
	cJSON_AddNumberToObject(one, "memory_bytes", (double)space_used(s->space));
	cJSON_AddNumberToObject(one, "arena_bytes", (double)space_mapped(s->space));
	cJSON_AddNumberToObject(one, "operations_queued", (double)(s->queued + s->gathered));
	cJSON_AddNumberToObject(one, "device_ns", (double)lane_usage(s->lane)->device_ns);
	cJSON_AddNumberToObject(one, "device_contended_ns", (double)lane_usage(s->lane)->contended_ns);
	cJSON_AddNumberToObject(one, "runs", (double)c->runs);
	cJSON_AddNumberToObject(one, "kernels_launched", (double)c->kernels_launched);
	cJSON_AddNumberToObject(one, "kernels_unfused", (double)c->kernels_unfused);
	cJSON_AddNumberToObject(one, "messages", (double)c->messages);
}

int clients_request(struct request *r, struct fault *f) {
	const struct session *asks = r->session;
	cJSON *json, *list;
	int code = wire_get_end(&r->body, "CLIENTS", f);

	if (code)
		return code;
	json = cJSON_CreateObject();
	list = cJSON_AddArrayToObject(json, "clients");
	if (!list)
		code = -ENOMEM;
	for (const struct session *s = asks->server->sessions; s && !code; s = s->hh.next)
		if (session_may_see(asks, s->uid))
			add_client(list, s);
	if (!code)
		code = request_send_json(r, json, f);
	cJSON_Delete(json);
	return code;
}

/* ---- programs ---- */

struct listing {
	cJSON *list;
	uint64_t source;             /* KERNELS_: which text */
	size_t bytes;
	unsigned left_out;
	const struct traits *traits;
};

enum {
	/* Sources in one answer, which a frame must hold. */
	LISTING_BYTES = 3 << 20,
};

static void add_source(struct listing *l, cJSON *one, struct program *p) {
	const struct kernel *k = program_kernel(p);
	struct str own = { 0 };
	/* An interpreter calls nothing: its text is all its own. */
	bool whole = l->source == KERNELS_SOURCE || k->root == KERNEL_INTERPRETER;
	const char *source = NULL;
	size_t size;

	if (whole)
		source = program_source(p);
	else if (!emit_body(k, l->traits, &own))
		source = str_text(&own);
	size = source ? strlen(source) : 0;
	if (!source || l->bytes + size > LISTING_BYTES) {
		l->left_out++;
	} else {
		l->bytes += size;
		cJSON_AddStringToObject(one, "source", source);
	}
	str_free(&own);
}

static void add_program(void *user, struct program *p) {
	static const char *const states[] = { [PROGRAM_BUILDING] = "being built", [PROGRAM_READY] = "built", [PROGRAM_FAILED] = "failed" };
	const struct program_story s = program_story(p);
	const struct kernel *k = program_kernel(p);
	struct listing *l = user;
	cJSON *one = cJSON_CreateObject();

	cJSON_AddItemToArray(l->list, one);
	cJSON_AddStringToObject(one, "kernel", kernel_root_name(k));
	cJSON_AddNumberToObject(one, "rank", k->rank);
	cJSON_AddNumberToObject(one, "operands", k->operands);
	cJSON_AddNumberToObject(one, "values", k->values);
	cJSON_AddStringToObject(one, "state", s.state == PROGRAM_READY && s.known ? "from the cache" : states[s.state]);
	if (s.state != PROGRAM_BUILDING) {
		cJSON_AddNumberToObject(one, "emit_us", (double)s.emit_us);
		cJSON_AddNumberToObject(one, "compile_us", (double)s.compile_us);
		cJSON_AddNumberToObject(one, "first_launch_us", (double)s.first_us);
	}
	if (s.state == PROGRAM_FAILED && program_log(p))
		cJSON_AddStringToObject(one, "log", program_log(p));
	if (l->source && s.state != PROGRAM_BUILDING)
		add_source(l, one, p);
}

int kernels_request(struct request *r, struct fault *f) {
	struct listing l = { 0 };
	uint64_t flags;
	cJSON *json;
	int code = wire_get_uint(&r->body, "flags", KERNELS_OWN_SOURCE, &flags, f);

	if (!code)
		code = wire_get_end(&r->body, "KERNELS", f);
	if (!code && !session_governs(r->session))
		code = fault_set(f, FAULT_PERMISSION, "kernels tell what others compute: only an administrator may see them all; "
						      "explain --session shows those of a session");
	if (code)
		return code;
	json = cJSON_CreateObject();
	l.list = cJSON_AddArrayToObject(json, "kernels");
	l.source = flags;
	l.traits = device_traits(r->session->server->device);
	if (!l.list)
		code = -ENOMEM;
	if (!code) {
		device_each_program(r->session->server->device, add_program, &l);
		cJSON_AddNumberToObject(json, "sources_left_out", l.left_out);
		code = request_send_json(r, json, f);
	}
	cJSON_Delete(json);
	return code;
}
