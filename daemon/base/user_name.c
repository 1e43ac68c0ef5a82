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
