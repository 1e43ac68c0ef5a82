/* Who may do everything besides root and the daemon's user, and what they may see; see supervisor.h. */
#include "supervisor.h"

#include <errno.h>
#include <grp.h>
#include <string.h>

#include <cjson/cJSON.h>

void admin_resolve(struct supervisor *s) {
	const struct group *g = *s->config.door_admins ? getgrnam(s->config.door_admins) : NULL;

	s->admins = g ? g->gr_gid : NO_ADMINS;
}

static const char *applies_word(enum setting_applies applies) {
	static const char *const words[] = { [SETTING_START] = "start", [SETTING_RELOAD] = "reload", [SETTING_USER] = "user", [SETTING_SESSION] = "session" };

	return words[applies];
}

static void add_setting(cJSON *list, const struct supervisor *s, unsigned i) {
	const struct setting *setting = config_setting(i);
	struct str name = { 0 }, value = { 0 };
	cJSON *one = cJSON_CreateObject();

	cJSON_AddItemToArray(list, one);
	str_printf(&name, "%s.%s", setting->section, setting->name);
	config_print(&s->config, setting, &value);
	cJSON_AddStringToObject(one, "name", str_text(&name));
	cJSON_AddStringToObject(one, "value", str_text(&value));
	cJSON_AddStringToObject(one, "origin", *s->origins.text[i] ? s->origins.text[i] : "standard");
	cJSON_AddStringToObject(one, "applies", applies_word(setting->applies));
	str_free(&name);
	str_free(&value);
}

static void add_rule(cJSON *list, const struct rule *r) {
	struct str name = { 0 };
	cJSON *one = cJSON_CreateObject();

	cJSON_AddItemToArray(list, one);
	str_printf(&name, "%s:%s.%s.%s", r->group ? "group" : "user", r->name, r->setting->section, r->setting->name);
	cJSON_AddStringToObject(one, "name", str_text(&name));
	cJSON_AddStringToObject(one, "value", r->value);
	cJSON_AddStringToObject(one, "origin", r->origin);
	cJSON_AddStringToObject(one, "applies", applies_word(r->setting->applies));
	str_free(&name);
}

char *admin_origins_json(const struct supervisor *s) {
	cJSON *json = cJSON_CreateObject();
	cJSON *list = cJSON_AddArrayToObject(json, "settings");
	char *text;

	for (unsigned i = 0; list && i < config_settings(); i++)
		add_setting(list, s, i);
	for (unsigned i = 0; list && i < s->rules.count; i++)
		add_rule(list, &s->rules.rule[i]);
	text = list ? cJSON_PrintUnformatted(json) : NULL;
	cJSON_Delete(json);
	return text;
}
