/* Who may do everything besides root and the daemon's user, and what they may see; see supervisor.h. */
#include "supervisor.h"

#include <errno.h>
#include <grp.h>
#include <string.h>
#include <sys/socket.h>

#include <cjson/cJSON.h>

enum {
	/* Groups of a process that are looked through. NFS knows 16, Linux allows 65536; who is in more is no administrator here. */
	ADMIN_GROUPS = 1024,
};

void admin_resolve(struct supervisor *s) {
	const struct group *g = *s->config.door_admins ? getgrnam(s->config.door_admins) : NULL;

	s->admins = g ? g->gr_gid : NO_ADMINS;
}

/* The groups are those that the process had when it connected, as its uid is. */
bool admin_is_member(const struct supervisor *s, int fd) {
	gid_t group[ADMIN_GROUPS];
	socklen_t size = sizeof group;
	struct ucred who;
	socklen_t who_size = sizeof who;

	if (s->admins == NO_ADMINS)
		return false;
	if (!getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &who_size) && who.gid == s->admins)
		return true;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, group, &size))
		return false;
	for (size_t i = 0; i < size / sizeof *group; i++)
		if (group[i] == s->admins)
			return true;
	return false;
}

static const char *applies_word(enum setting_applies applies) {
	static const char *const words[] = { [SETTING_START] = "start", [SETTING_RELOAD] = "reload", [SETTING_SESSION] = "session" };

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

char *admin_origins_json(const struct supervisor *s) {
	cJSON *json = cJSON_CreateObject();
	cJSON *list = cJSON_AddArrayToObject(json, "settings");
	char *text;

	for (unsigned i = 0; list && i < config_settings(); i++)
		add_setting(list, s, i);
	text = list ? cJSON_PrintUnformatted(json) : NULL;
	cJSON_Delete(json);
	return text;
}
