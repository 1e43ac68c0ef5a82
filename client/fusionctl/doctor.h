/*
 * fusionctl doctor: what its parts share. A check looks at one thing and adds one finding or more; it changes nothing,
 * and it works where nothing else does: without a daemon, a driver, a HOME.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include <cjson/cJSON.h>

#include "client/fusionctl/control.h"

enum doctor_state {
	DOCTOR_OK,
	DOCTOR_WARNING,              /* works, though not as well as it might */
	DOCTOR_ERROR,
	DOCTOR_STATES,
};

enum {
	/* As getgrouplist(3) may give; Linux allows more, a service has three. */
	DOCTOR_GROUPS = 256,
	DOCTOR_NAME = 64,
};

/* Who must be able to do what is checked: the daemon's user. */
struct doctor_subject {
	uid_t uid;
	gid_t group[DOCTOR_GROUPS];
	int groups;
	char name[DOCTOR_NAME];
};

struct doctor {
	const struct control *control;
	const char *root;            /* before every path of the system: "", or a tree that is looked at */
	const char *check;           /* the name of the one that looks now */
	cJSON *findings, *last;
	cJSON *status;               /* of the daemon that answers, or NULL */
	cJSON *settings;             /* name to text: what a daemon started now would have; NULL: unknown */
	cJSON *devices;              /* found through OpenCL: platform, device, version, driver */
	bool crashed;                /* OpenCL, when it was asked for them */
	struct doctor_subject subject;
	unsigned states[DOCTOR_STATES];
	int code;                    /* of sysexits.h, of the first error */
	int check_code;              /* ... of an error that the check finds that looks now */
};

/* A finding of the check that looks: one sentence. */
void doctor_find(struct doctor *d, enum doctor_state state, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* The command that mends the last finding. */
void doctor_mend(struct doctor *d, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* root and path; false where it is too long. */
bool doctor_path(const struct doctor *d, const char *path, char out[static PATH_MAX]);
/* The value of a setting, "" where it is not known. */
const char *doctor_setting(const struct doctor *d, const char *name);
/* May the subject read and write a file of this owner, group and mode? */
bool doctor_may_use(const struct doctor *d, uid_t uid, gid_t gid, mode_t mode);
/* The name of a group, else its number. */
void doctor_group(gid_t gid, char name[static DOCTOR_NAME]);

typedef void doctor_check(struct doctor *d);

/* doctor_driver.c */
doctor_check doctor_loader;
doctor_check doctor_drivers;
doctor_check doctor_icd_files;
doctor_check doctor_driver_version;
doctor_check doctor_device;
doctor_check doctor_device_nodes;
/* doctor_folder.c */
doctor_check doctor_home;
doctor_check doctor_cache_folder;
doctor_check doctor_cache_stale;
doctor_check doctor_cache_damaged;
/* doctor_daemon.c */
doctor_check doctor_configuration;
doctor_check doctor_socket;
doctor_check doctor_engine;
doctor_check doctor_version;
doctor_check doctor_network;
/* doctor_limits.c */
doctor_check doctor_files;
doctor_check doctor_memlock;
doctor_check doctor_memfd;

/*
 * The value of `name` in section [Service] of fusiond.service, with its drop-ins, as systemd reads them; false where no unit
 * or no such line is there. doctor_unit.c.
 */
bool doctor_unit_value(const struct doctor *d, const char *name, char value[static DOCTOR_NAME]);
