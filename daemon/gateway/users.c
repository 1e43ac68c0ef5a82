/*
 * The local user as whom a client of another machine counts: by its certificate, which an authority of the administrator's
 * has signed; or the one that stands for all who come by tcp. See remote.users in fusiond.conf(5).
 */
#include "gateway.h"

#include <ctype.h>
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "client/link.h"

enum {
	/* A user, a name and what stands between them. */
	LINE_BYTES = 512,
};

static const char fingerprint_prefix[] = "sha256:";

int remote_user_find(const char *name, uid_t *uidp, struct fault *f) {
	const struct passwd *p = getpwnam(name);
	unsigned long number;
	char *end;

	number = p ? p->pw_uid : strtoul(name, &end, 10);
	/* The last one is no user's, as in chown(2). */
	if (!p && (!isdigit((unsigned char)*name) || *end || number >= (uid_t)-1))
		return fault_set(f, FAULT_ARGUMENT, "this machine has no user \"%s\"", name);
	if (uidp)
		*uidp = (uid_t)number;
	return 0;
}

static bool fits(const char *wanted, const struct link_peer *p) {
	size_t prefix = sizeof fingerprint_prefix - 1;

	if (!strncmp(wanted, fingerprint_prefix, prefix))
		return !strcasecmp(wanted + prefix, p->fingerprint);
	return *p->name && !strcmp(wanted, p->name);
}

/* Cuts a line into a user and a name. False where there is none. */
static bool read_line(char *line, const char **userp, const char **namep) {
	char *name, *end;

	line += strspn(line, " \t");
	end = line + strcspn(line, "#\r\n");
	while (end > line && isspace((unsigned char)end[-1]))
		end--;
	*end = 0;
	name = line + strcspn(line, " \t");
	*userp = line;
	if (!*name)
		return false;
	*name++ = 0;
	*namep = name + strspn(name, " \t");
	return true;
}

/* The first line that fits. *namep is a part of `line`. */
static int search(const char *path, const struct link_peer *p, char line[static LINE_BYTES], const char **userp, struct fault *f) {
	FILE *file = fopen(path, "re");
	const char *name;
	bool found = false;

	if (!file)
		return fault_set(f, FAULT_ARGUMENT, "remote.users %s cannot be read: %s", path, strerror(errno));
	while (!found && fgets(line, LINE_BYTES, file))
		found = read_line(line, userp, &name) && fits(name, p);
	fclose(file);
	if (found)
		return 0;
	return fault_set(f, FAULT_ARGUMENT, "%s has no line for the certificate \"%s\", sha256:%s", path, p->name, p->fingerprint);
}

/* A line that is neither empty, a remark, nor a user and a name is a mistake. */
static int check_line(char *line, struct fault *f) {
	const char *user, *name;

	if (!read_line(line, &user, &name))
		return *user ? fault_set(f, FAULT_ARGUMENT, "\"%s\" is not of the form USER NAME", user) : 0;
	return remote_user_find(user, NULL, f);
}

int users_check(const char *path, struct fault *f) {
	FILE *file = fopen(path, "re");
	char line[LINE_BYTES];
	unsigned number = 0;
	int r = 0;

	if (!file)
		return fault_set(f, FAULT_ARGUMENT, "remote.users %s cannot be read: %s", path, strerror(errno));
	while (!r && fgets(line, sizeof line, file)) {
		number++;
		r = check_line(line, f);
	}
	fclose(file);
	if (r)
		fault_prefix(f, "%s:%u", path, number);
	return r;
}

int remote_user(const struct config *c, const struct link_peer *p, bool tls, uid_t *uidp, struct fault *f) {
	const char *user = tls ? p->name : c->remote_plain_user;
	char line[LINE_BYTES];
	int r = 0;

	if (tls && *c->remote_users)
		r = search(c->remote_users, p, line, &user, f);
	if (!r && !*user)
		r = fault_set(f, FAULT_ARGUMENT, tls ? "its certificate has no common name" : "remote.plain_user is empty");
	return r ? r : remote_user_find(user, uidp, f);
}
