/* Where the daemon's socket is. See place.h. */
#include "place.h"

#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <sys/stat.h>
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
	/* A umask may take even the user's own rights. */
	if (make && (mkdir(p->base, 0700) < 0 || chmod(p->base, 0700) < 0) && errno != EEXIST)
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

int place_address(const char *path, struct sockaddr_un *address, struct fault *f) {
	size_t length = strlen(path);

	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (length >= sizeof address->sun_path)
		return fault_set(f, FAULT_ARGUMENT, "the path of the socket has %zu bytes, and Linux allows %zu: %s", length,
			sizeof address->sun_path - 1, path);
	memcpy(address->sun_path, path, length);
	return 0;
}

bool place_answers(const char *socket_path) {
	struct sockaddr_un address;
	struct fault f;
	bool answers;
	int fd;

	if (place_address(socket_path, &address, &f))
		return false;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
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

/* ---- a socket that is forbidden ---- */

enum {
	/* Of a group and its members, as the system has it. One that is larger is told by its number. */
	PLACE_GROUP_TEXT = 16384,
};

/* The first folder on the way that may not be entered; false where there is none. */
static bool closed_folder(const char *path, char folder[static PATH_MAX]) {
	for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		snprintf(folder, PATH_MAX, "%.*s", (int)(slash - path), path);
		if (access(folder, X_OK) && errno == EACCES)
			return true;
	}
	return false;
}

/* Who is refused by a mode is told which group would not be. */
int place_refuse(const char *path, struct fault *f) {
	char folder[PATH_MAX], text[PLACE_GROUP_TEXT], name[32];
	bool of_folder = closed_folder(path, folder);
	struct group *found = NULL, group;
	mode_t needs = of_folder ? S_IXGRP : S_IWGRP;
	struct stat st;

	if (stat(of_folder ? folder : path, &st))
		return fault_set(f, FAULT_PERMISSION, "the daemon's socket %s is forbidden to this user", path);
	snprintf(name, sizeof name, "%ju", (uintmax_t)st.st_gid);
	if (getgrgid_r(st.st_gid, &group, text, sizeof text, &found))
		found = NULL;
	if (!(st.st_mode & needs))
		return fault_set(f, FAULT_PERMISSION, "the daemon's socket %s is for its own user alone (%s has mode %04o): ask its administrator for "
			"another door.mode, or start a daemon of your own with fusiond --user", path, of_folder ? folder : "it", st.st_mode & 07777);
	return fault_set(f, FAULT_PERMISSION, "the daemon's socket %s is for members of the group %s (%s has mode %04o): ask an administrator to be made one, "
		"and log in again", path, found ? found->gr_name : name, of_folder ? folder : "it", st.st_mode & 07777);
}
