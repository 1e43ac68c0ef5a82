/*
 * What a value must be beyond the form of its type: a group that there is, a folder that is there, a knob. Asked before a daemon
 * starts, before one takes a configuration that was read again or a value for a session, and by fusiond --check, so that all say
 * the same; the processes that the supervisor starts are handed what passed.
 *
 * The standard values are not asked: where the group fusion-admin or /var/cache/fusiond is missing, nobody asked for it.
 * What remote.* says is looked at by the gateway's program, which has the certificates (daemon/gateway/check.c).
 */
#include "config.h"

#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "knob.h"
#include "op_pairs.h"

/* ---- one value ---- */

typedef int check_value(const char *value, struct fault *f);

static int is_folder(const char *path, struct fault *f) {
	struct stat st;

	if (stat(path, &st) < 0)
		return fault_set(f, FAULT_ARGUMENT, "the folder %s: %s", path, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return fault_set(f, FAULT_ARGUMENT, "%s is no folder", path);
	return 0;
}

static int is_absolute(const char *path, struct fault *f) {
	if (*path == '/')
		return 0;
	return fault_set(f, FAULT_ARGUMENT, "'%s' is no absolute path; begin it with /", path);
}

/* The folder that a file lies in; false: of none. */
static bool parent(const char *path, char folder[static CONFIG_TEXT]) {
	char *slash;

	snprintf(folder, CONFIG_TEXT, "%s", path);
	slash = strrchr(folder, '/');
	if (!slash || slash == folder)
		return false;
	*slash = 0;
	return true;
}

static int check_folder(const char *path, struct fault *f) {
	int r = is_absolute(path, f);

	return r ? r : is_folder(path, f);
}

/* A place for something that the daemon makes. */
static int check_place(const char *path, struct fault *f) {
	char folder[CONFIG_TEXT];
	int r = is_absolute(path, f);

	return r || !parent(path, folder) ? r : is_folder(folder, f);
}

/* One whose folder the daemon makes, too. */
static int check_door(const char *path, struct fault *f) {
	char folder[CONFIG_TEXT];
	int r = is_absolute(path, f);

	return r || !parent(path, folder) ? r : check_place(folder, f);
}

/* A folder that the daemon makes where it is missing. */
static int check_own_folder(const char *path, struct fault *f) {
	struct stat st;
	int r = check_place(path, f);

	return r || stat(path, &st) < 0 ? r : is_folder(path, f);
}

static int check_file(const char *path, struct fault *f) {
	struct stat st;
	int r = is_absolute(path, f);

	if (!r && stat(path, &st) < 0)
		r = fault_set(f, FAULT_ARGUMENT, "the file %s: %s", path, strerror(errno));
	if (!r && S_ISDIR(st.st_mode))
		r = fault_set(f, FAULT_ARGUMENT, "%s is a folder, not a file", path);
	return r;
}

static int check_group(const char *name, struct fault *f) {
	errno = 0;
	if (getgrnam(name))
		return 0;
	return fault_set(f, FAULT_ARGUMENT, "this machine has no group \"%s\"", name);
}

static int check_strategy(const char *word, struct fault *f) {
	if (!strcmp(word, "cpu") || !strcmp(word, "gpu"))
		return 0;
	return fault_set(f, FAULT_ARGUMENT, "'%s' is neither cpu nor gpu", word);
}

static int check_knobs(const char *text, struct fault *f) {
	struct knob_pins pins;

	return knobs_parse(text, &pins, f);
}

static int check_pairs(const char *text, struct fault *f) {
	struct op_pairs pairs;

	return op_pairs_parse(text, &pairs, f);
}

static const struct {
	unsigned setting;
	check_value *check;
} checks[] = {
	{ SETTING_NUMBER_door_socket, check_door },
	{ SETTING_NUMBER_door_admins, check_group },
	{ SETTING_NUMBER_door_group, check_group },
	{ SETTING_NUMBER_cache_dir, check_own_folder },
	{ SETTING_NUMBER_device_strategy, check_strategy },
	{ SETTING_NUMBER_engine_path, check_file },
	{ SETTING_NUMBER_engine_operations, check_folder },
	{ SETTING_NUMBER_fusion_knobs, check_knobs },
	{ SETTING_NUMBER_fusion_apart, check_pairs },
	{ SETTING_NUMBER_metrics_socket, check_place },
	{ SETTING_NUMBER_metrics_file, check_place },
	{ SETTING_NUMBER_remote_certificate, check_file },
	{ SETTING_NUMBER_remote_key, check_file },
	{ SETTING_NUMBER_remote_authority, check_file },
	{ SETTING_NUMBER_remote_users, check_file },
};

/* ---- all ---- */

int config_place(const struct config_origins *o, unsigned setting, struct fault *f) {
	const struct setting *s = config_setting(setting);
	char name[CONFIG_TEXT];

	snprintf(name, sizeof name, "%s.%s", s->section, s->name);
	if (f && strncmp(f->text, name, strlen(name)) != 0)
		fault_prefix(f, "%s", name);
	if (f && *o->text[setting])
		fault_prefix(f, "%s", o->text[setting]);
	return f ? f->code : FAULT_ARGUMENT;
}

static int check_one(const struct config *c, const struct config_origins *o, unsigned i, struct fault *f) {
	const char *value = (const char *)c + config_setting(checks[i].setting)->offset;

	if (!*value || !*o->text[checks[i].setting])
		return 0;
	return checks[i].check(value, f) ? config_place(o, checks[i].setting, f) : 0;
}

int config_check(const struct config *c, const struct config_origins *o, struct fault *f) {
	int r = 0;

	for (unsigned i = 0; !r && i < sizeof checks / sizeof *checks; i++)
		r = check_one(c, o, i, f);
	return r;
}

int config_check_value(const char *name, const char *value, struct fault *f) {
	const struct setting *s = config_find(name, strlen(name));

	for (unsigned i = 0; s && *value && i < sizeof checks / sizeof *checks; i++)
		if (config_setting(checks[i].setting) == s)
			return checks[i].check(value, f);
	return 0;
}

int config_load_checked(struct config *c, struct config_origins *o, struct rules *rules, const struct config_source *s,
	struct fault *f) {
	int r = config_load_told(c, o, rules, s, f);

	if (!r)
		r = config_check(c, o, f);
	return r ? r : config_resolve(c, f);
}

int config_exit(int r) {
	return r == FAULT_ARGUMENT || r == FAULT_SYNTAX ? CONFIG_EXIT : EXIT_FAILURE;
}
