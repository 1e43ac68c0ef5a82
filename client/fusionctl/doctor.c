/*
 * fusionctl doctor: why fusiond does not run here, or not well, and the command that mends it. A check is a row of `checks`.
 *
 * It judges for the user that the daemon runs as: of the one that answers, else `fusiond` where root asks and there is such a
 * user, else the caller. With --root the tree of an image or another machine is looked at; nothing of it is run.
 */
#include "doctor.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "print.h"
#include "client/json.h"

#define DOCTOR_SCHEMA "fusionctl.doctor/1"

/* In the order in which things must be right. The code is that of the program where this check finds the first error. */
static const struct {
	const char *name;
	int code;
	doctor_check *look;
} checks[] = {
	{ "configuration", EX_CONFIG, doctor_configuration },
	{ "opencl-loader", EX_UNAVAILABLE, doctor_loader },
	{ "driver", EX_UNAVAILABLE, doctor_drivers },
	{ "icd-file", EX_CONFIG, doctor_icd_files },
	{ "driver-version", EX_UNAVAILABLE, doctor_driver_version },
	{ "device", EX_UNAVAILABLE, doctor_device },
	{ "device-nodes", EX_NOPERM, doctor_device_nodes },
	{ "home", EX_CONFIG, doctor_home },
	{ "cache-folder", EX_CANTCREAT, doctor_cache_folder },
	{ "cache-stale", EX_CONFIG, doctor_cache_stale },
	{ "cache-damaged", EX_DATAERR, doctor_cache_damaged },
	{ "socket", EX_UNAVAILABLE, doctor_socket },
	{ "version", EX_PROTOCOL, doctor_version },
	{ "engine", EX_TEMPFAIL, doctor_engine },
	{ "network", EX_CONFIG, doctor_network },
	{ "limit-files", EX_OSERR, doctor_files },
	{ "limit-memlock", EX_OSERR, doctor_memlock },
	{ "memfd", EX_OSERR, doctor_memfd },
};

static const char *const state_words[] = { [DOCTOR_OK] = "ok", [DOCTOR_WARNING] = "warning", [DOCTOR_ERROR] = "error" };

/* ---- findings ---- */

__attribute__((format(printf, 3, 0))) static void add_text(cJSON *object, const char *name, const char *format, va_list ap) {
	char *text = NULL;

	if (vasprintf(&text, format, ap) < 0)
		return;
	cJSON_AddStringToObject(object, name, text);
	free(text);
}

void doctor_find(struct doctor *d, enum doctor_state state, const char *format, ...) {
	va_list ap;

	d->last = cJSON_CreateObject();
	cJSON_AddItemToArray(d->findings, d->last);
	cJSON_AddStringToObject(d->last, "check", d->check);
	cJSON_AddStringToObject(d->last, "state", state_words[state]);
	va_start(ap, format);
	add_text(d->last, "finding", format, ap);
	va_end(ap);
	d->states[state]++;
	if (state == DOCTOR_ERROR && !d->code)
		d->code = d->check_code;
}

void doctor_mend(struct doctor *d, const char *format, ...) {
	va_list ap;

	va_start(ap, format);
	add_text(d->last, "mend", format, ap);
	va_end(ap);
}

/* ---- what checks ask ---- */

bool doctor_path(const struct doctor *d, const char *path, char out[static PATH_MAX]) {
	return snprintf(out, PATH_MAX, "%s%s", d->root, path) < PATH_MAX;
}

const char *doctor_setting(const struct doctor *d, const char *name) {
	return json_text(d->settings, name);
}

static bool in_group(const struct doctor_subject *s, gid_t gid) {
	for (int i = 0; i < s->groups; i++)
		if (s->group[i] == gid)
			return true;
	return false;
}

bool doctor_may_use(const struct doctor *d, uid_t uid, gid_t gid, mode_t mode) {
	const mode_t both = S_IROTH | S_IWOTH;

	if (!d->subject.uid)
		return true;
	if (uid == d->subject.uid)
		return (mode >> 6 & both) == both;
	if (in_group(&d->subject, gid))
		return (mode >> 3 & both) == both;
	return (mode & both) == both;
}

void doctor_group(gid_t gid, char name[static DOCTOR_NAME]) {
	const struct group *g = getgrgid(gid);

	if (g)
		snprintf(name, DOCTOR_NAME, "%s", g->gr_name);
	else
		snprintf(name, DOCTOR_NAME, "%u", (unsigned)gid);
}

/* ---- whose rights count ---- */

static void take_user(struct doctor_subject *s, const struct passwd *user) {
	s->uid = user->pw_uid;
	snprintf(s->name, sizeof s->name, "%s", user->pw_name);
	s->groups = DOCTOR_GROUPS;
	if (getgrouplist(user->pw_name, user->pw_gid, s->group, &s->groups) < 0)
		s->groups = DOCTOR_GROUPS;
}

/* The caller has the groups of his process, which a name's may not be yet: usermod acts at the next login. */
static void take_caller(struct doctor_subject *s) {
	const struct passwd *user = getpwuid(geteuid());

	s->uid = geteuid();
	if (user)
		snprintf(s->name, sizeof s->name, "%s", user->pw_name);
	else
		snprintf(s->name, sizeof s->name, "%u", (unsigned)s->uid);
	s->groups = getgroups(DOCTOR_GROUPS - 1, s->group);
	s->groups = s->groups < 0 ? 0 : s->groups;
	s->group[s->groups++] = getegid();
}

static void find_subject(struct doctor *d) {
	const struct passwd *user = NULL;
	char process[DOCTOR_NAME];
	struct stat st;

	snprintf(process, sizeof process, "/proc/%.0f", json_number(d->status, "pid"));
	if (d->status && !stat(process, &st))
		user = getpwuid(st.st_uid);
	else if (!geteuid())
		user = getpwnam("fusiond");
	if (user && user->pw_uid != geteuid())
		take_user(&d->subject, user);
	else
		take_caller(&d->subject);
}

/* ---- telling ---- */

enum {
	/* Where what is found begins, and the command that mends it. */
	FINDING_COLUMN = 25,
	MEND_COLUMN = 9,
};

/* What stands behind a command, and is none. */
#define REMARK "    # "

/* A command is to be copied, so it is one line; the remark behind it goes to the next where both are too long for one. */
static void print_mend(const char *mend) {
	const char *remark = strstr(mend, REMARK);
	int width = print_width(), at = printf("%*smend: ", MEND_COLUMN, "");

	if (!remark || !width || at + (int)strlen(mend) <= width) {
		puts(mend);
		return;
	}
	printf("%.*s\n", (int)(remark - mend), mend);
	print_wrapped(remark + strspn(remark, " "), 0, at, width);
}

static void print_finding(const cJSON *one, bool colour) {
	static const char *const colours[] = { "\033[32m", "\033[33m", "\033[31m" };
	const char *state = json_text(one, "state"), *mend = json_text(one, "mend");
	const char *begin = !strcmp(state, "ok") ? colours[0] : !strcmp(state, "warning") ? colours[1] : colours[2];

	printf("%s%-8s%s %-15s", colour ? begin : "", state, colour ? "\033[0m" : "", json_text(one, "check"));
	print_wrapped(json_text(one, "finding"), FINDING_COLUMN - 1, FINDING_COLUMN, print_width());
	if (*mend)
		print_mend(mend);
}

static void print_findings(const struct doctor *d) {
	bool colour = print_colours();
	char a[PRINT_TEXT], b[PRINT_TEXT];
	const cJSON *one;

	cJSON_ArrayForEach(one, d->findings) {
		print_finding(one, colour);
	}
	if (d->states[DOCTOR_ERROR] || d->states[DOCTOR_WARNING])
		printf("\n%s, %s, judged for the user %s\n", print_counted(d->states[DOCTOR_ERROR], "error", a),
			print_counted(d->states[DOCTOR_WARNING], "warning", b), d->subject.name);
	else
		printf("\nnothing is to mend, judged for the user %s\n", d->subject.name);
}

/* Findings and devices become the answer's. */
static void print_json(struct doctor *d) {
	cJSON *json = control_json(DOCTOR_SCHEMA);

	cJSON_AddBoolToObject(json, "healthy", !d->states[DOCTOR_ERROR]);
	cJSON_AddStringToObject(json, "user", d->subject.name);
	cJSON_AddNumberToObject(json, "errors", d->states[DOCTOR_ERROR]);
	cJSON_AddNumberToObject(json, "warnings", d->states[DOCTOR_WARNING]);
	cJSON_AddItemReferenceToObject(json, "findings", d->findings);
	cJSON_AddItemReferenceToObject(json, "devices", d->devices);
	control_print_json(json);
}

static cJSON *ask_status(const struct control *c) {
	cJSON *json = NULL;
	char *text = NULL;
	struct fault f;

	if (!control_ask_status(c->socket, &text, &f))
		json = cJSON_Parse(text);
	free(text);
	return json;
}

/* A tree that is not there would be one that nothing is wrong with. */
static int check_root(const char *root, struct fault *f) {
	struct stat st;

	if (stat(root, &st))
		return fault_set(f, FAULT_FILE, "there is no tree to look at: %s: %s", root, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return fault_set(f, FAULT_FILE, "there is no tree to look at: %s is no folder", root);
	return 0;
}

int doctor_command(const struct control *c) {
	struct doctor d = { .control = c, .root = c->root ? c->root : "", .findings = cJSON_CreateArray(),
		.devices = cJSON_CreateArray() };
	struct fault f;
	int r = c->root ? check_root(c->root, &f) : 0;

	if (r) {
		cJSON_Delete(d.findings);
		cJSON_Delete(d.devices);
		return control_fail(c, r, &f);
	}
	d.status = *d.root ? NULL : ask_status(c);
	find_subject(&d);
	for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
		d.check = checks[i].name;
		d.check_code = checks[i].code;
		checks[i].look(&d);
	}
	if (c->json)
		print_json(&d);
	else
		print_findings(&d);
	cJSON_Delete(d.findings);
	cJSON_Delete(d.devices);
	cJSON_Delete(d.settings);
	cJSON_Delete(d.status);
	return d.code;
}
