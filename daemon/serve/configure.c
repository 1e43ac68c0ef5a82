/* Settings of sessions. A scratch configuration does the parsing, so that there is one table and one parser.
 */
#include "configure.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "protocol/message.h"
#include "daemon/base/log.h"
#include "daemon/serve/account.h"
#include "daemon/serve/patterns.h"

struct fusion_settings fusion_settings_of(const struct config *c) {
	struct fusion_settings s = { .enabled = c->fusion_enabled, .fast = c->fusion_fast,
		.min_elements = c->fusion_min_elements,
		.window_us = c->fusion_window_us, .window_ops = c->fusion_window_ops,
		.window_bytes = c->fusion_window_bytes, .tracker_share = (unsigned)c->fusion_tracker_share,
		.together = c->fusion_together, .recurring = c->fusion_recurring, .explain_runs = (unsigned)c->fusion_explain_runs, .timeout_us = c->fusion_timeout_us,
		.weight = (unsigned)c->fusion_weight, .priority = (unsigned)c->fusion_priority };

	struct fault f;

	memcpy(s.pattern, c->fusion_pattern, sizeof s.pattern);
	/* What is no knob, or no pair, was refused by config_check_value(), or stands in a file; then there are none. */
	if (op_pairs_parse(c->fusion_apart, &s.apart, &f))
		log_warning("%s", f.text);
	if (knobs_parse(c->fusion_knobs, &s.pins, &f))
		log_warning("%s", f.text);
	return s;
}

bool fusion_settings_enabled(const struct fusion_settings *s, enum strategy strategy) {
	return s->enabled & DEVICES_OF(strategy);
}

pattern_set fusion_settings_off(const struct fusion_settings *s, enum strategy strategy) {
	pattern_set off = 0;

	for (unsigned i = 1; i < PATTERN_COUNT; i++)
		if (!(s->pattern[i] & DEVICES_OF(strategy)))
			off |= pattern_bit((enum pattern)i);
	return off;
}

static void settings_into(const struct fusion_settings *s, struct config *c) {
	c->fusion_enabled = s->enabled;
	c->fusion_fast = s->fast;
	op_pairs_print(&s->apart, c->fusion_apart, sizeof c->fusion_apart);
	knobs_print(&s->pins, c->fusion_knobs, sizeof c->fusion_knobs);
	c->fusion_min_elements = s->min_elements;
	c->fusion_window_us = s->window_us;
	c->fusion_window_ops = s->window_ops;
	c->fusion_window_bytes = s->window_bytes;
	c->fusion_tracker_share = s->tracker_share;
	c->fusion_together = s->together;
	c->fusion_recurring = s->recurring;
	c->fusion_explain_runs = s->explain_runs;
	c->fusion_timeout_us = s->timeout_us;
	c->fusion_weight = s->weight;
	c->fusion_priority = s->priority;
	memcpy(c->fusion_pattern, s->pattern, sizeof s->pattern);
}

int fusion_settings_change(struct fusion_settings *s, const char *name, const char *value, struct fault *f) {
	const struct setting *setting = config_find(name, strlen(name));
	struct config scratch = { 0 };
	int r;

	if (setting && setting->applies != SETTING_SESSION)
		return fault_set(f, FAULT_ARGUMENT, "%s is no setting of a session", name);
	settings_into(s, &scratch);
	r = config_check_value(name, value, f);
	if (!r)
		r = config_set(&scratch, name, value, f);
	if (!r)
		*s = fusion_settings_of(&scratch);
	return r;
}

static int get_text(
	struct wire_cursor *c, const char *field, char text[static CONFIG_TEXT], struct fault *f) {
	const char *bytes;
	size_t size;
	int r = wire_get_text(c, field, CONFIG_TEXT - 1, &bytes, &size, f);

	if (!r)
		snprintf(text, CONFIG_TEXT, "%.*s", (int)size, bytes);
	return r;
}

/* ---- CONFIGURE ---- */

/* What was gathered under the old setting runs under it. */
int configure_request(struct request *r, struct fault *f) {
	char name[CONFIG_TEXT], value[CONFIG_TEXT];
	struct session *s = r->session;
	int code = get_text(&r->body, "name", name, f);

	if (!code)
		code = get_text(&r->body, "value", value, f);
	if (!code)
		code = wire_get_end(&r->body, "CONFIGURE", f);
	if (!code)
		code = flush_demanded(s);
	if (code)
		return code;
	code = session_configure(s, name, value, f);
	if (code)
		return code;
	request_answer(s->server, r->id, 0);
	request_send(s->server, r->frame);
	return 0;
}

/* ---- SET ---- */

/* What the client has chosen itself stays. */
void session_refresh(struct session *s) {
	struct config c = *account_config(s->account, &s->server->config), chosen = c;

	settings_into(&s->settings, &chosen);
	for (unsigned i = 0; i < config_settings(); i++)
		if (s->own[i])
			memcpy((char *)&c + config_setting(i)->offset, (char *)&chosen + config_setting(i)->offset,
				setting_size(config_setting(i)));
	if (s->gathered)
		flush_session(s, FLUSH_DEMAND);
	s->settings = fusion_settings_of(&c);
	session_share(s);
}

void configure_changed(struct server *v) {
	transport_limit(v->transport, TRANSPORT_ALL, (uint32_t)v->config.limits_connections);
	for (struct account *a = v->accounts; a; a = a->hh.next) {
		account_refresh(a, &v->config);
		transport_limit(v->transport, a->uid, (uint32_t)account_config(a, &v->config)->limits_connections);
	}
	for (struct session *s = v->sessions; s; s = s->hh.next)
		session_refresh(s);
	v->progress = true;
}

int configure_all(struct server *v, const char *name, const char *value, struct fault *f) {
	const struct setting *setting = config_find(name, strlen(name));
	int r;

	if (setting && setting->applies != SETTING_SESSION && setting->applies != SETTING_USER)
		return fault_set(f, FAULT_ARGUMENT, "%s cannot be changed this way; see fusiond.conf(5)", name);
	r = config_check_value(name, value, f);
	if (r)
		return r;
	r = patterns_is_switch(name) ? patterns_set(v, name, value, f) : config_set(&v->config, name, value, f);
	if (!r && !patterns_is_switch(name))
		configure_changed(v);
	return r;
}

int set_request(struct request *r, struct fault *f) {
	char name[CONFIG_TEXT], value[CONFIG_TEXT], what[CONFIG_TEXT + 32];
	struct server *v = r->session->server;
	int code = get_text(&r->body, "name", name, f);

	if (!code)
		code = get_text(&r->body, "value", value, f);
	if (!code)
		code = wire_get_end(&r->body, "SET", f);
	if (code)
		return code;
	snprintf(what, sizeof what, "change %s for everybody", name);
	code = session_needs_rights(r->session, what, f);
	if (code)
		return code;
	if (!patterns_is_switch(name) && config_find(name, strlen(name)) && config_find(name, strlen(name))->applies != SETTING_SESSION)
		return fault_set(f, FAULT_ARGUMENT, "%s is no setting of a session", name);
	code = configure_all(v, name, value, f);
	if (code)
		return code;
	control_order(v, ORDER_SETTING, name, value);
	log_notice("%s is \"%s\" now, by session %llu", name, value, (unsigned long long)r->session->id);
	request_answer(v, r->id, 0);
	request_send(v, r->frame);
	return 0;
}

/* ---- SETTINGS ---- */

static int add_settings(cJSON *json, const struct config *c) {
	for (unsigned i = 0; i < config_settings(); i++) {
		const struct setting *s = config_setting(i);
		struct str text = { 0 };
		char name[CONFIG_TEXT];
		int r;

		if (s->applies != SETTING_SESSION)
			continue;
		config_print(c, s, &text);
		r = str_finish(&text);
		snprintf(name, sizeof name, "%s.%s", s->section, s->name);
		if (!r)
			cJSON_AddStringToObject(json, name, str_text(&text));
		str_free(&text);
		if (r)
			return r;
	}
	return 0;
}

int settings_request(struct request *r, struct fault *f) {
	struct server *v = r->session->server;
	struct config c = v->config;
	uint64_t scope;
	cJSON *json;
	int code = wire_get_uint(&r->body, "scope", 1, &scope, f);

	if (!code)
		code = wire_get_end(&r->body, "SETTINGS", f);
	if (code)
		return code;
	if (!scope)
		settings_into(&r->session->settings, &c);
	json = cJSON_CreateObject();
	code = json ? add_settings(json, &c) : -ENOMEM;
	if (!code)
		patterns_add_settings(json, v, scope ? NULL : r->session);
	if (!code)
		code = request_send_json(r, json, f);
	cJSON_Delete(json);
	return code;
}
