/* Where the daemon's socket is. See place.h. */
#include "place.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum {
	/* Longest that is appended to the folder, and what the daemon appends to the socket's name for its engines. */
	PLACE_ROOM = sizeof "/fusiond/door" + 24,
};

bool place_of_system(void) {
	struct stat st;

	return getauxval(AT_SECURE) || !lstat(PLACE_SYSTEM_FOLDER, &st) || errno != ENOENT;
}

/* A folder that is this user's, and that nobody else can write. */
static bool is_own(const char *path) {
	struct stat st;

	return !lstat(path, &st) && S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 077);
}

static bool runtime_folder(struct own_place *p) {
	const char *path = secure_getenv("XDG_RUNTIME_DIR");

	if (!path || *path != '/' || strlen(path) > sizeof p->base - PLACE_ROOM || !is_own(path))
		return false;
	snprintf(p->base, sizeof p->base, "%s", path);
	return true;
}

static int own_folder(struct own_place *p, bool make, struct fault *f) {
	snprintf(p->base, sizeof p->base, "/tmp/fusiond-%u", (unsigned)geteuid());
	if (make && mkdir(p->base, 0700) < 0 && errno != EEXIST)
		return fault_set(f, FAULT_CONNECT, "the folder %s cannot be made: %s", p->base, strerror(errno));
	if (is_own(p->base))
		return 0;
	return fault_set(f, FAULT_CONNECT, "XDG_RUNTIME_DIR names no folder of this user's alone, and %s is none either",
		p->base);
}

int place_of_user(struct own_place *p, bool make, struct fault *f) {
	int r;

	*p = (struct own_place){ .runtime = false };
	p->runtime = runtime_folder(p);
	r = p->runtime ? 0 : own_folder(p, make, f);
	if (r)
		return r;
	snprintf(p->socket, sizeof p->socket, "%.*s/fusiond/door", (int)(sizeof p->base - PLACE_ROOM), p->base);
	snprintf(p->lock, sizeof p->lock, "%.*s/fusiond.lock", (int)(sizeof p->base - PLACE_ROOM), p->base);
	snprintf(p->log, sizeof p->log, "%.*s/fusiond.log", (int)(sizeof p->base - PLACE_ROOM), p->base);
	return 0;
}

bool place_answers(const char *socket_path) {
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	bool answers;

	snprintf(address.sun_path, sizeof address.sun_path, "%s", socket_path);
	answers = fd >= 0 && !connect(fd, (const struct sockaddr *)&address, sizeof address);
	if (fd >= 0)
		close(fd);
	return answers;
}

void place_now(char socket_path[static PLACE_PATH]) {
	struct fault ignored;
	struct own_place own;

	snprintf(socket_path, PLACE_PATH, "%s", PLACE_SYSTEM);
	if (!place_of_system() && !place_of_user(&own, false, &ignored) && place_answers(own.socket))
		snprintf(socket_path, PLACE_PATH, "%s", own.socket);
}
