/*
 * The answer to USERS: who there is, what holds for each, and what each holds. Somebody without rights sees himself.
 */
#include "client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "daemon/base/str.h"

enum {
	/* Listed; keeps the answer within one packet. How many there are is told in full. */
	USERS_LISTED = 256,
	USERS_TEXT = RULE_NAME + 8,
};

struct listing {
	const struct supervisor *supervisor;
	const struct client *asks;
	cJSON *list;
	unsigned count;
	uint64_t since;
};

static void add_rule(cJSON *list, const struct rule *r) {
	struct str name = { 0 };
	char section[USERS_TEXT];
	cJSON *one = cJSON_CreateObject();

	cJSON_AddItemToArray(list, one);
	str_printf(&name, "%s.%s", r->setting->section, r->setting->name);
	snprintf(section, sizeof section, "%s:%s", r->group ? "group" : "user", r->name);
	cJSON_AddStringToObject(one, "name", str_text(&name));
	cJSON_AddStringToObject(one, "value", r->value);
	cJSON_AddStringToObject(one, "section", section);
	cJSON_AddStringToObject(one, "origin", r->origin);
	str_free(&name);
}

static void add_what_holds(cJSON *one, const struct supervisor *s, const struct rule_subject *who, const struct config *c) {
	cJSON *list;

	cJSON_AddBoolToObject(one, "admitted", c->door_admit);
	cJSON_AddNumberToObject(one, "weight", (double)c->fusion_weight);
	cJSON_AddNumberToObject(one, "priority", (double)c->fusion_priority);
	cJSON_AddNumberToObject(one, "device_share", (double)c->limits_user_device_share);
	cJSON_AddNumberToObject(one, "bytes_limit", (double)user_bytes_limit(c));
	cJSON_AddNumberToObject(one, "sessions_limit", (double)c->limits_sessions_per_user);
	list = cJSON_AddArrayToObject(one, "settings");
	for (unsigned i = 0; i < config_settings(); i++) {
		const struct rule *r = rules_find(&s->rules, who, config_setting(i));

		if (r)
			add_rule(list, r);
	}
}

static void add_used(cJSON *one, const struct spent *s) {
	cJSON_AddNumberToObject(one, "device_ns", (double)s->device_ns);
	cJSON_AddNumberToObject(one, "bytes_most", (double)s->bytes);
	cJSON_AddNumberToObject(one, "sessions_begun", (double)s->sessions);
	cJSON_AddNumberToObject(one, "refused", (double)s->refused);
	cJSON_AddNumberToObject(one, "limits", (double)s->limits);
}

static bool is_seen(const struct listing *l, uid_t uid) {
	return (uid == l->asks->uid && !*l->asks->peer) || client_governs(l->asks);
}

/* user: NULL where he holds nothing now. */
static void add(struct listing *l, uid_t uid, const struct user *user) {
	const struct spent used = accounts_sum(&l->supervisor->accounts, uid, l->since);
	struct rule_subject who = { .uid = uid };
	struct config *c;
	cJSON *one;

	if (!is_seen(l, uid) || l->count++ >= USERS_LISTED)
		return;
	c = malloc(sizeof *c);
	one = cJSON_CreateObject();
	if (!c || !one) {
		free(c);
		cJSON_Delete(one);
		return;
	}
	cJSON_AddItemToArray(l->list, one);
	if (user)
		who = user_subject(user);
	*c = l->supervisor->config;
	rules_apply(&l->supervisor->rules, &who, c);
	cJSON_AddNumberToObject(one, "uid", uid);
	cJSON_AddNumberToObject(one, "sessions", user ? user_sessions(user) : 0);
	cJSON_AddNumberToObject(one, "bytes", user ? (double)user_bytes(user) : 0);
	cJSON_AddNumberToObject(one, "bytes_leaving", user ? (double)user_leaving(user, false) : 0);
	cJSON_AddNumberToObject(one, "descriptors", user ? (double)user_descriptors(user) : 0);
	add_used(one, &used);
	add_what_holds(one, l->supervisor, &who, c);
	free(c);
}

/* Users with an account who are not there. */
static void add_known(struct listing *l) {
	unsigned count;
	uid_t *uid = accounts_users(&l->supervisor->accounts, &count);

	for (unsigned i = 0; i < count; i++)
		if (!users_find(&l->supervisor->users, uid[i]))
			add(l, uid[i], NULL);
	free(uid);
}

static bool is_known(const struct supervisor *s, uid_t uid) {
	return users_find(&s->users, uid) || accounts_knows(&s->accounts, uid);
}

/* Users with a section of their own who are neither. */
static void add_named(struct listing *l) {
	const struct rules *rules = &l->supervisor->rules;

	for (unsigned i = 0; i < rules->count; i++) {
		const struct rule *r = &rules->rule[i];
		bool first = !r->group && !is_known(l->supervisor, r->id);

		for (unsigned k = 0; k < i && first; k++)
			first = rules->rule[k].group || rules->rule[k].id != r->id;
		if (first)
			add(l, r->id, NULL);
	}
}

int client_asks_users(struct client *c, struct wire_cursor *body, struct fault *f) {
	struct listing l = { .supervisor = c->supervisor, .asks = c };
	cJSON *json = cJSON_CreateObject();
	struct wire_writer w;
	char *text = NULL;
	int r = body->left ? wire_get_uint(body, "since", INT64_MAX, &l.since, f) : 0;

	if (!r)
		r = wire_get_end(body, "USERS", f);
	if (!r) {
		l.list = cJSON_AddArrayToObject(json, "users");
		for (struct user *u = NULL; (u = users_next(&c->supervisor->users, u));)
			add(&l, user_uid(u), u);
		add_known(&l);
		add_named(&l);
		cJSON_AddNumberToObject(json, "count", l.count);
		text = cJSON_PrintUnformatted(json);
		r = text ? 0 : -ENOMEM;
	}
	cJSON_Delete(json);
	if (r)
		return r;
	wire_writer_init(&w);
	wire_put_array(&w, 2);
	wire_put_uint(&w, DOOR_USERS);
	wire_put_text(&w, text);
	r = client_answer(c, &w, -1);
	wire_writer_free(&w);
	cJSON_free(text);
	return r;
}
