/*
 * Who may do what: which rules hold for a user (base/rules.h), whether he may begin sessions, and what administrators change of it while
 * the daemon runs. Groups are those that a process had when it connected, as the kernel tells them: nobody is looked up here.
 *
 * Engines hear what holds for a user before they hear of a session of his, and whenever it changes.
 */
#include "client.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/base/str.h"
#include "daemon/base/user_name.h"
#include "daemon/door/orders.h"

/* ---- identity ---- */

static void keep_groups(struct client *c, const gid_t *group, size_t count) {
	c->group = malloc(count * sizeof *group + 1);
	if (!c->group)
		return;
	memcpy(c->group, group, count * sizeof *group);
	c->groups = count;
}

/* The first is the group of the process, which is not among the others everywhere. Where it cannot be told there are none. */
void rights_groups(struct client *c, int fd, const struct rule_subject *remote) {
	gid_t group[1 + LIMIT_GROUPS];
	socklen_t size = LIMIT_GROUPS * sizeof *group;
	struct ucred who;
	socklen_t who_size = sizeof who;
	size_t count = 1;

	if (remote) {
		keep_groups(c, remote->group, remote->groups);
		return;
	}
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &who_size))
		return;
	group[0] = who.gid;
	if (!getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, group + 1, &size))
		count += size / sizeof *group;
	keep_groups(c, group, count);
}

bool rights_member(const struct client *c, gid_t group) {
	if (group == NO_ADMINS)
		return false;
	for (size_t i = 0; i < c->groups; i++)
		if (c->group[i] == group)
			return true;
	return false;
}

/* ---- what holds ---- */

static void put_rules(struct wire_writer *w, const struct rules *rules, const struct rule_subject *who) {
	uint32_t count = 0;

	for (unsigned i = 0; i < config_settings(); i++)
		count += rules_find(rules, who, config_setting(i)) != NULL;
	wire_put_map(w, count);
	for (unsigned i = 0; i < config_settings(); i++) {
		const struct rule *r = rules_find(rules, who, config_setting(i));
		char name[CONFIG_TEXT];

		if (!r)
			continue;
		snprintf(name, sizeof name, "%s.%s", r->setting->section, r->setting->name);
		wire_put_text(w, name);
		wire_put_text(w, r->value);
	}
}

static int tell(struct engine *e, const struct user *user) {
	const struct rule_subject who = user_subject(user);
	struct wire_writer w;
	int r;

	wire_writer_init(&w);
	wire_put_array(&w, 3);
	wire_put_uint(&w, CONTROL_USER);
	wire_put_uint(&w, who.uid);
	put_rules(&w, &e->supervisor->rules, &who);
	r = child_queue(&e->child, &w, -1);
	wire_writer_free(&w);
	return r;
}

int rights_tell(struct engine *e, const struct user *user) {
	return e->supervisor->rules.count ? tell(e, user) : 0;
}

static void tell_all(struct supervisor *s, const struct user *user) {
	for (unsigned i = 0; i < s->engines; i++) {
		int r = s->engine[i]->child.state == CHILD_READY ? tell(s->engine[i], user) : 0;

		if (r && r != -EPIPE)
			log_error("engine %u was not told what holds for user %ju: %s", i, (uintmax_t)user_uid(user), strerror(-r));
	}
}

void rights_identify(struct client *c) {
	if (user_identify(&c->supervisor->users, c->user, c->group, c->groups))
		tell_all(c->supervisor, c->user);
}

void rights_changed(struct supervisor *s) {
	for (struct user *u = NULL; (u = users_next(&s->users, u));)
		if (user_refresh(&s->users, u))
			tell_all(s, u);
}

/* ---- admission ---- */

/* The groups and users that rules admit. */
static void who_may(const struct rules *rules, struct str *text) {
	const struct setting *admit = config_find("door.admit", strlen("door.admit"));
	unsigned named = 0;

	for (unsigned i = 0; i < rules->count; i++) {
		const struct rule *r = &rules->rule[i];
		struct config scratch;
		struct fault f;

		if (!r->group || r->setting != admit || config_set(&scratch, "door.admit", r->value, &f) || !scratch.door_admit)
			continue;
		str_printf(text, "%s%s", named++ ? ", " : "members of the group ", r->name);
	}
	str_append(text, named ? " may; ask an administrator to be one" : "ask an administrator");
}

int rights_admit(const struct client *c, struct fault *f) {
	struct str who = { 0 };
	int r;

	if (user_config(c->user)->door_admit || client_governs(c))
		return 0;
	who_may(&c->supervisor->rules, &who);
	r = fault_set(f, FAULT_PERMISSION, "user %ju may not use this daemon (door.admit): %s", (uintmax_t)c->uid, str_text(&who));
	str_free(&who);
	return r;
}

/* ---- changes ---- */

static int get_text(struct wire_cursor *body, const char *field, char text[static CONFIG_TEXT], struct fault *f) {
	const char *bytes;
	size_t size;
	int r = wire_get_text(body, field, CONFIG_TEXT - 1, &bytes, &size, f);

	if (!r)
		snprintf(text, CONFIG_TEXT, "%.*s", (int)size, bytes);
	return r;
}

static int change_all(struct supervisor *s, const char *name, const char *value, const char *origin, struct fault *f) {
	const struct setting *setting = config_find(name, strlen(name));
	int r;

	if (setting && setting->applies != SETTING_USER)
		return fault_set(f, FAULT_ARGUMENT, "%s cannot be changed this way; see fusiond.conf(5)", name);
	r = config_set(&s->config, name, value, f);
	if (r)
		return r;
	memcpy(s->origins.text[config_number(setting)], origin, strlen(origin) + 1);
	for (unsigned i = 0; i < s->engines && !r; i++)
		r = orders_add(s->engine[i], ORDER_SETTING, name, value);
	return r;
}

static int change(struct supervisor *s, const char *name, const char *value, const char *origin, struct fault *f) {
	int r = rules_name(name) ? rules_set(&s->rules, name, value, origin, f) : change_all(s, name, value, origin, f);

	if (!r)
		rights_changed(s);
	return r;
}

int client_asks_set(struct client *c, struct wire_cursor *body, struct fault *f) {
	char name[CONFIG_TEXT], value[CONFIG_TEXT], origin[CONFIG_ORIGIN];
	char by[USER_NAME];
	int r = get_text(body, "name", name, f);

	if (!r)
		r = get_text(body, "value", value, f);
	if (!r)
		r = wire_get_end(body, "SET", f);
	if (!r)
		r = client_needs_rights(c, "change settings", f);
	if (r)
		return r;
	snprintf(origin, sizeof origin, "config set by user %s, until the configuration is read again", user_name(c->uid, by));
	r = change(c->supervisor, name, value, origin, f);
	if (r)
		return r;
	log_notice("%s is \"%s\" now, by user %s, process %jd", name, value, user_name(c->uid, by), (intmax_t)c->pid);
	return client_answer_nothing(c, DOOR_SET);
}

/* ---- accounts ---- */

int rights_spent(struct supervisor *s, struct wire_cursor *body, struct fault *f) {
	struct spent spent = { 0 };
	uint64_t uid;
	int r = wire_get_uint(body, "uid", UINT32_MAX, &uid, f);

	if (!r)
		r = wire_get_uint(body, "device_ns", UINT64_MAX, &spent.device_ns, f);
	if (!r)
		r = wire_get_uint(body, "refused", UINT64_MAX, &spent.refused, f);
	if (!r)
		r = wire_get_uint(body, "limits", UINT64_MAX, &spent.limits, f);
	if (!r)
		accounts_add(&s->accounts, (uid_t)uid, &spent);
	return r;
}

void rights_refused(struct supervisor *s, uid_t uid, int code) {
	accounts_add(&s->accounts, uid, &(struct spent){ .refused = 1, .limits = code == FAULT_LIMIT || code == FAULT_MEMORY });
}
