/* See user_name.h. */
#include "user_name.h"

#include <pwd.h>
#include <stdint.h>
#include <stdio.h>

char *user_name(uid_t uid, char text[static USER_NAME]) {
	FILE *file = fopen("/etc/passwd", "re");
	const struct passwd *user = NULL;

	snprintf(text, USER_NAME, "%ju", (uintmax_t)uid);
	/* The supervisor and an engine's loop alone write such lines: one thread each. */
	while (file && (user = fgetpwent(file)) && user->pw_uid != uid) /* NOLINT(concurrency-mt-unsafe) */
		;
	if (user)
		snprintf(text, USER_NAME, "%.40s (%ju)", user->pw_name, (uintmax_t)uid);
	if (file)
		fclose(file);
	return text;
}

int user_refuse(const char *admins, const char *what, struct fault *f) {
	if (!*admins)
		return fault_set(f, FAULT_PERMISSION, "only root and the daemon's user may %s (the setting door.admins names no group)", what);
	return fault_set(f, FAULT_PERMISSION, "only root, the daemon's user and members of the group %s may %s", admins, what);
}
