/*
 * The answer to STATUS: what the supervisor knows by itself, so that it can be asked also while
 * the engine is starting, hung or gone.
 */
#include "client.h"

#include <unistd.h>

#include <cjson/cJSON.h>

#include "protocol/message.h"
#include "protocol/process.h"
#include "daemon/base/version.h"

enum {
	/* Sessions listed; their number is told in full. Keeps the answer within one packet. */
	STATUS_SESSIONS = 256,
	/* One that leaves a question of the supervisor's unanswered for so long is at something that it should not be at: turns are milliseconds. */
	ENGINE_SILENT_US = 2 * 1000 * 1000,
};

static const char *const state_words[] = {
	[CHILD_NONE] = "gone",
	[CHILD_STARTING] = "starting",
	[CHILD_READY] = "ready",
	[CHILD_STOPPING] = "stopping",
};

static double seconds(uint64_t from, uint64_t now) {
	return (double)(now - from) / 1e6;
}

static void add_engine(cJSON *list, const struct engine *e, uint64_t now) {
	const struct child *c = &e->child;
	cJSON *engine = cJSON_CreateObject();
	uint64_t silent = engine_silent_us(e, now);

	cJSON_AddItemToArray(list, engine);
	cJSON_AddNumberToObject(engine, "number", e->number);
	cJSON_AddStringToObject(engine, "state", silent > ENGINE_SILENT_US ? "hung" : state_words[c->state]);
	cJSON_AddNumberToObject(engine, "silent_s", (double)silent / 1e6);
	cJSON_AddNumberToObject(engine, "pid", c->pid);
	cJSON_AddNumberToObject(engine, "generation", c->generation);
	cJSON_AddNumberToObject(engine, "ended", e->ends);
	cJSON_AddStringToObject(engine, "last_end", e->last_end);
	cJSON_AddStringToObject(engine, "spare", state_words[e->spare.state]);
	cJSON_AddNumberToObject(engine, "arrays_kept", (double)e->arrays_kept);
	cJSON_AddNumberToObject(engine, "arrays_lost", (double)e->arrays_lost);
	cJSON_AddNumberToObject(engine, "uptime_s", c->state == CHILD_NONE ? 0 : seconds(c->started_us, now));
	cJSON_AddStringToObject(engine, "device", c->state == CHILD_READY ? c->device : "");
	cJSON_AddStringToObject(engine, "rates", c->state == CHILD_READY ? c->rates : "");
	cJSON_AddNumberToObject(engine, "sessions", e->sessions);
	cJSON_AddStringToObject(engine, "url", c->url);
}

/* One that is kept for a client which will not return, or whose connection some other process has, too, though it cannot use it. */
static bool is_gone(const struct client *c) {
	return !*c->peer && process_ended(c->pid);
}

static void add_session(cJSON *list, const struct client *c) {
	cJSON *one = cJSON_CreateObject();

	cJSON_AddItemToArray(list, one);
	cJSON_AddNumberToObject(one, "session", (double)c->session);
	cJSON_AddNumberToObject(one, "engine", c->engine->number);
	cJSON_AddNumberToObject(one, "uid", c->uid);
	cJSON_AddNumberToObject(one, "pid", c->pid);
	cJSON_AddStringToObject(one, "name", c->name);
	cJSON_AddBoolToObject(one, "away", c->away);
	cJSON_AddBoolToObject(one, "gone", is_gone(c));
	if (*c->peer)
		cJSON_AddStringToObject(one, "peer", c->peer);
	cJSON_AddNumberToObject(one, "arenas", c->arenas);
	cJSON_AddNumberToObject(one, "shared_arrays", c->shared);
	cJSON_AddNumberToObject(one, "bytes", (double)c->bytes);
}

/* One that asks from another machine sees all where remote.status lets it ask at all. */
static bool is_visible(const struct client *c, const struct client *asks) {
	return c->uid == asks->uid || *asks->peer || client_governs(asks);
}

static double add_sessions(cJSON *json, const struct supervisor *s, const struct client *asks) {
	cJSON *list = cJSON_AddArrayToObject(json, "sessions");
	double bytes = 0;
	unsigned listed = 0;

	for (const struct client *c = s->clients; c; c = c->next) {
		bytes += (double)c->bytes;
		if (c->hello && is_visible(c, asks) && listed++ < STATUS_SESSIONS)
			add_session(list, c);
	}
	return bytes;
}

static void fill(cJSON *json, const struct supervisor *s, const struct client *asks, uint64_t now) {
	cJSON *engines;

	cJSON_AddStringToObject(json, "version", FUSIOND_VERSION);
	cJSON_AddNumberToObject(json, "protocol", PROTOCOL_VERSION);
	cJSON_AddNumberToObject(json, "protocol_oldest", PROTOCOL_OLDEST);
	cJSON_AddNumberToObject(json, "pid", getpid());
	cJSON_AddNumberToObject(json, "uptime_s", seconds(s->started_us, now));
	cJSON_AddStringToObject(json, "socket", s->config.door_socket);
	cJSON_AddStringToObject(json, "cache_dir", s->config.cache_dir);
	cJSON_AddStringToObject(json, "reload_error", s->reload.error);
	engines = cJSON_AddArrayToObject(json, "engines");
	for (unsigned i = 0; i < s->engines; i++)
		add_engine(engines, s->engine[i], now);
	cJSON_AddStringToObject(json, "remote", gateway_text(&s->gateway));
	cJSON_AddNumberToObject(json, "connections", s->connections);
	cJSON_AddNumberToObject(json, "session_count", s->session_count);
	cJSON_AddNumberToObject(json, "sessions_total", (double)s->sessions_total);
	cJSON_AddNumberToObject(json, "shared_bytes", add_sessions(json, s, asks));
	cJSON_AddNumberToObject(json, "shared_arrays", HASH_COUNT(s->shared));
	cJSON_AddNumberToObject(json, "user_bytes_limit", (double)user_bytes_limit(&s->config));
}

char *status_json(const struct supervisor *s, const struct client *asks) {
	cJSON *json = cJSON_CreateObject();
	char *text = NULL;

	if (!json)
		return NULL;
	fill(json, s, asks, loop_now());
	text = cJSON_PrintUnformatted(json);
	cJSON_Delete(json);
	return text;
}
