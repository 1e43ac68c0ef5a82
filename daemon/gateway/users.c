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

/* By name or number. */
static int find_user(const char *name, uid_t *uidp, struct fault *f) {
	const struct passwd *p = getpwnam(name);
	char *end;

	if (p) {
		*uidp = p->pw_uid;
		return 0;
	}
	*uidp = (uid_t)strtoul(name, &end, 10);
	if (isdigit((unsigned char)*name) && !*end)
		return 0;
	return fault_set(f, FAULT_ARGUMENT, "this machine has no user \"%s\"", name);
}

static bool fits(const char *wanted, const struct link *l) {
	size_t prefix = sizeof fingerprint_prefix - 1;

	if (!strncmp(wanted, fingerprint_prefix, prefix))
		return !strcasecmp(wanted + prefix, link_peer_fingerprint(l));
	return *link_peer_name(l) && !strcmp(wanted, link_peer_name(l));
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
static int search(const char *path, const struct link *l, char line[static LINE_BYTES], const char **userp, struct fault *f) {
	FILE *file = fopen(path, "re");
	const char *name;
	bool found = false;

	if (!file)
		return fault_set(f, FAULT_ARGUMENT, "remote.users %s cannot be read: %s", path, strerror(errno));
	while (!found && fgets(line, LINE_BYTES, file))
		found = read_line(line, userp, &name) && fits(name, l);
	fclose(file);
	if (found)
		return 0;
	return fault_set(f, FAULT_ARGUMENT, "%s has no line for the certificate \"%s\", sha256:%s", path, link_peer_name(l),
		link_peer_fingerprint(l));
}

int remote_user(const struct config *c, const struct link *l, bool tls, uid_t *uidp, struct fault *f) {
	const char *user = tls ? link_peer_name(l) : c->remote_plain_user;
	char line[LINE_BYTES];
	int r = 0;

	if (tls && *c->remote_users)
		r = search(c->remote_users, l, line, &user, f);
	if (!r && !*user)
		r = fault_set(f, FAULT_ARGUMENT, tls ? "its certificate has no common name" : "remote.plain_user is empty");
	return r ? r : find_user(user, uidp, f);
}
