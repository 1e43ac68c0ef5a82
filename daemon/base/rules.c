/* Settings of some users only; see rules.h. */
#include "rules.h"

#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define USER "user:"
#define GROUP "group:"

static bool begins(const char *text, const char *with) {
	return !strncmp(text, with, strlen(with));
}

bool rules_name(const char *name) {
	return begins(name, USER) || begins(name, GROUP);
}

/* The last number means "nobody" to the kernel. */
static bool read_number(const char *name, uint32_t *idp) {
	unsigned long long number;
	char *end;

	errno = 0;
	number = strtoull(name, &end, 10);
	if (!isdigit((unsigned char)*name) || *end || errno || number >= UINT32_MAX)
		return false;
	*idp = (uint32_t)number;
	return true;
}

static int look_up(struct rule *r, struct fault *f) {
	const struct passwd *user = r->group ? NULL : getpwnam(r->name);
	const struct group *group = r->group ? getgrnam(r->name) : NULL;

	if (user)
		r->id = user->pw_uid;
	else if (group)
		r->id = group->gr_gid;
	else if (!read_number(r->name, &r->id))
		return fault_set(f, FAULT_ARGUMENT, "this machine has no %s \"%s\"", r->group ? "group" : "user", r->name);
	return 0;
}

static int check_value(const struct rule *r, const char *setting, struct fault *f) {
	struct config *scratch;
	int code;

	if (!r->setting)
		return config_refuse_name(setting, f);
	if (r->setting->applies != SETTING_USER && r->setting->applies != SETTING_SESSION)
		return fault_set(f, FAULT_ARGUMENT, "%s is one for the whole daemon, and has no value of a user or group", setting);
	scratch = calloc(1, sizeof *scratch);
	if (!scratch)
		return -ENOMEM;
	code = config_set(scratch, setting, r->value, f);
	free(scratch);
	return code;
}

static int take_name(struct rule *r, const char *section, struct fault *f) {
	const char *name = section + strlen(begins(section, GROUP) ? GROUP : USER);

	r->group = begins(section, GROUP);
	if (!*name || strlen(name) >= sizeof r->name)
		return fault_set(f, FAULT_ARGUMENT, "[%s] names no %s", section, r->group ? "group" : "user");
	strcpy(r->name, name);
	return 0;
}

/* What the same section said before holds no more. */
static void forget(struct rules *r, const struct rule *rule) {
	unsigned kept = 0;

	for (unsigned i = 0; i < r->count; i++) {
		const struct rule *old = &r->rule[i];

		if (old->group != rule->group || old->id != rule->id || old->setting != rule->setting)
			r->rule[kept++] = *old;
	}
	r->count = kept;
}

static int append(struct rules *r, const struct rule *rule, struct fault *f) {
	forget(r, rule);
	if (r->count == RULES_MOST)
		return fault_set(f, FAULT_LIMIT, "more than %d settings of users and groups", RULES_MOST);
	if (r->count == r->capacity) {
		unsigned capacity = r->capacity ? 2 * r->capacity : 16;
		struct rule *grown = realloc(r->rule, capacity * sizeof *grown);

		if (!grown)
			return -ENOMEM;
		r->rule = grown;
		r->capacity = capacity;
	}
	r->rule[r->count++] = *rule;
	return 0;
}

int rules_add(struct rules *r, const char *section, const char *setting, const char *value, const char *origin, struct fault *f) {
	struct rule rule = { .setting = config_find(setting, strlen(setting)) };
	int code = take_name(&rule, section, f);

	if (!code && strlen(value) >= sizeof rule.value)
		code = fault_set(f, FAULT_ARGUMENT, "the value of %s has %zu bytes, at most %zu are allowed", setting, strlen(value), sizeof rule.value - 1);
	if (code)
		return code;
	strcpy(rule.value, value);
	snprintf(rule.origin, sizeof rule.origin, "%s", origin);
	code = check_value(&rule, setting, f);
	if (!code && r)
		code = look_up(&rule, f);
	return code || !r ? code : append(r, &rule, f);
}

/* A name may have dots in it, and a setting has one or two. */
int rules_set(struct rules *r, const char *name, const char *value, const char *origin, struct fault *f) {
	const char *dot = strchr(name, '.');
	char section[sizeof GROUP + RULE_NAME];

	while (dot && !config_find(dot + 1, strlen(dot + 1)))
		dot = strchr(dot + 1, '.');
	if (!dot || (size_t)(dot - name) >= sizeof section)
		return fault_set(f, FAULT_ARGUMENT, "'%s' is not of the form user:NAME.section.setting or group:NAME.section.setting", name);
	snprintf(section, sizeof section, "%.*s", (int)(dot - name), name);
	return rules_add(r, section, dot + 1, value, origin, f);
}

void rules_clear(struct rules *r) {
	free(r->rule);
	*r = (struct rules){ 0 };
}

/* ---- what holds ---- */

static bool is_of(const struct rule *r, const struct rule_subject *who) {
	if (!r->group)
		return r->id == who->uid;
	for (size_t i = 0; i < who->groups; i++)
		if (r->id == who->group[i])
			return true;
	return false;
}

const struct rule *rules_find(const struct rules *r, const struct rule_subject *who, const struct setting *s) {
	const struct rule *found = NULL;

	for (unsigned i = 0; i < r->count; i++)
		if (r->rule[i].setting == s && is_of(&r->rule[i], who) && (!found || found->group || !r->rule[i].group))
			found = &r->rule[i];
	return found;
}

unsigned rules_apply(const struct rules *r, const struct rule_subject *who, struct config *c) {
	unsigned count = 0;

	for (unsigned i = 0; i < config_settings() && r->count; i++) {
		const struct setting *s = config_setting(i);
		const struct rule *rule = rules_find(r, who, s);
		char name[CONFIG_TEXT];
		struct fault f;

		if (!rule)
			continue;
		snprintf(name, sizeof name, "%s.%s", s->section, s->name);
		/* It was taken once. */
		if (!config_set(c, name, rule->value, &f))
			count++;
	}
	return count;
}
