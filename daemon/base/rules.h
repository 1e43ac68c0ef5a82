/*
 * Settings of some users only: the sections [user:NAME] and [group:NAME] of the configuration. A line there is a setting's whole name and its
 * value; those that settings.def says apply to a USER or a SESSION may stand there.
 *
 * What holds for a user is, setting by setting, the last line of his own sections; else the last line of the sections of groups that
 * he is in; else the general one. "Last" as with all settings: later files, then flags, then what was changed while the daemon runs.
 *
 * Names are looked up when the rules are read, and never again: the supervisor must not wait for a directory of another machine.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/base/config.h"

enum {
	RULE_NAME = 64,
	/* Far above what one writes by hand. */
	RULES_MOST = 16384,
};

struct rule {
	bool group;
	uint32_t id;                         /* of the user, or the group */
	char name[RULE_NAME];
	const struct setting *setting;
	char value[CONFIG_TEXT], origin[CONFIG_ORIGIN];
};

struct rules {
	struct rule *rule;                   /* in the order in which they were read */
	unsigned count, capacity;
};

/* Who somebody is. */
struct rule_subject {
	uid_t uid;
	const gid_t *group;
	size_t groups;
};

/* Is this the name of a section of rules, or does it begin as "user:NAME.SETTING" does? */
bool rules_name(const char *name);
/*
 * section is "user:NAME" or "group:NAME"; NAME may be a number. 0, -ENOMEM, or FAULT_ARGUMENT where there is no such user, group or
 * setting, where it is none of one user, and where the value is none. `r` NULL: it is looked at, and the name is not looked up.
 */
int rules_add(struct rules *r, const char *section, const char *setting, const char *value, const char *origin, struct fault *f) FAULT_MUST_USE;
/* The same from one name, "user:NAME.SETTING". */
int rules_set(struct rules *r, const char *name, const char *value, const char *origin, struct fault *f) FAULT_MUST_USE;
void rules_clear(struct rules *r);

/* The rule that holds for a setting, or NULL. */
const struct rule *rules_find(const struct rules *r, const struct rule_subject *who, const struct setting *s);
/* Puts what holds for somebody into his configuration, which is the general one; how many settings those were. */
unsigned rules_apply(const struct rules *r, const struct rule_subject *who, struct config *c);
