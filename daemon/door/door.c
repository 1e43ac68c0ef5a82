/*
 * The door: one Unix socket that clients connect to, beside it a folder for the sockets of engines
 * and a lock that keeps a second daemon away from the same path.
 *
 * It stays reachable when descriptors run out: one is kept in reserve, so that a connection can be
 * accepted, told, and closed.
 */
#include "supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum {
	/* Connections that wait to be accepted; the kernel caps it by net.core.somaxconn. */
	DOOR_BACKLOG = 4096,
	/* Accepted in one turn of the loop. */
	DOOR_BURST = 64,
};

static int open_spare(void) {
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* Makes the last part of path where it is missing. */
static int make_folder(const char *path, mode_t mode, struct fault *f) {
	struct stat st;

	if (mkdir(path, mode) < 0 && errno != EEXIST)
		return fault_set(
			f, FAULT_ARGUMENT, "the folder %s cannot be made: %s", path, strerror(errno));
	if (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode))
		return fault_set(f, FAULT_ARGUMENT, "%s is no folder", path);
	return 0;
}

/* "" where the socket lies in the root. */
static void parent_of(const char *socket_path, char path[static CONFIG_TEXT]) {
	char *slash;

	snprintf(path, CONFIG_TEXT, "%s", socket_path);
	slash = strrchr(path, '/');
	path[slash ? slash - path : 0] = 0;
}

static int make_parent(struct supervisor *s, struct fault *f) {
	char path[CONFIG_TEXT];

	parent_of(s->config.door_socket, path);
	if (!*path)
		return 0;
	s->made_parent = access(path, F_OK) && errno == ENOENT;
	return make_folder(path, 0755, f);
}

/* The folder of the engines' sockets must be ours: who can write it could put a socket there. */
static int make_own_folder(struct supervisor *s, struct fault *f) {
	struct stat st;
	int r;

	if ((size_t)snprintf(s->folder, sizeof s->folder, "%s.d", s->config.door_socket) >= sizeof s->folder)
		return -ENAMETOOLONG;
	r = make_folder(s->folder, 0711, f);
	if (r)
		return r;
	if (lstat(s->folder, &st) < 0 || st.st_uid != geteuid() || chmod(s->folder, 0711) < 0)
		return fault_set(f, FAULT_ARGUMENT, "%s belongs to another user; remove it", s->folder);
	return 0;
}

static int take_lock(struct supervisor *s, struct fault *f) {
	char path[CONFIG_TEXT + 8];

	snprintf(path, sizeof path, "%s/lock", s->folder);
	s->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (s->lock < 0)
		return fault_set(f, FAULT_ARGUMENT, "%s cannot be opened: %s", path, strerror(errno));
	if (!flock(s->lock, LOCK_EX | LOCK_NB))
		return 0;
	close(s->lock);
	s->lock = -1;
	return fault_set(f, FAULT_STATE, "another fusiond serves %s; stop it or say --socket PATH",
		s->config.door_socket);
}

static int set_address(struct sockaddr_un *a, const char *path, struct fault *f) {
	*a = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (!*path)
		return fault_set(f, FAULT_ARGUMENT, "no place for the socket: XDG_RUNTIME_DIR is not set; say --socket PATH");
	if (*path == '/' && strlen(path) < sizeof a->sun_path - 24) {
		memcpy(a->sun_path, path, strlen(path) + 1);
		return 0;
	}
	return fault_set(f, FAULT_ARGUMENT, "door.socket %s must be absolute and shorter than %zu bytes",
		path, sizeof a->sun_path - 24);
}

/*
 * The lock is ours, so a socket that lies there is a dead daemon's. It gets its name once it listens: who finds it is
 * never refused.
 */
static int listen_at(struct supervisor *s, const struct sockaddr_un *a, struct fault *f) {
	struct sockaddr_un fresh = *a;
	struct stat st;

	memcpy(fresh.sun_path + strlen(fresh.sun_path), ".new", sizeof ".new");
	if (!lstat(a->sun_path, &st) && !S_ISSOCK(st.st_mode))
		return fault_set(f, FAULT_ARGUMENT, "%s exists and is no socket", a->sun_path);
	unlink(fresh.sun_path);
	s->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s->listener < 0)
		return -errno;
	if (bind(s->listener, (const struct sockaddr *)&fresh, sizeof fresh) < 0)
		return fault_set(
			f, FAULT_ARGUMENT, "no socket can be made at %s: %s", a->sun_path, strerror(errno));
	if (chmod(fresh.sun_path, (mode_t)s->config.door_mode) < 0 || listen(s->listener, DOOR_BACKLOG) < 0 ||
		rename(fresh.sun_path, a->sun_path) < 0)
		return -errno;
	return 0;
}

/* Out of descriptors: the reserve accepts one, which is told by closing it. */
static void shed_one(struct supervisor *s) {
	int fd;

	close(s->spare);
	fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC);
	if (fd >= 0)
		close(fd);
	s->spare = open_spare();
	log_warning("no descriptor left for a connection; raise LimitNOFILE= or lower door.connections");
}

/* False once nobody waits. */
static bool accept_one(struct supervisor *s) {
	int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd >= 0) {
		client_accept(s, fd);
		return true;
	}
	if (errno == EMFILE || errno == ENFILE)
		shed_one(s);
	return false;
}

static void on_listener(void *user, uint32_t events) {
	struct supervisor *s = user;

	(void)events;
	for (int i = 0; i < DOOR_BURST && accept_one(s); i++)
		;
}

void door_accept(struct supervisor *s) {
	while (accept_one(s))
		;
}

int door_open(struct supervisor *s, struct fault *f) {
	struct sockaddr_un address;
	int r = set_address(&address, s->config.door_socket, f);

	if (!r)
		r = make_parent(s, f);
	if (!r)
		r = make_own_folder(s, f);
	if (!r)
		r = take_lock(s, f);
	if (!r)
		r = listen_at(s, &address, f);
	if (!r)
		r = loop_add(s->loop, s->listener, EPOLLIN, on_listener, s, &s->listener_source);
	s->spare = open_spare();
	return r;
}

/*
 * Libraries take the system's folder for a service that will be back. So it goes, empty as it is, where this process or one before
 * that was killed made it; a service manager looks after its own.
 */
static void remove_parent(const struct supervisor *s) {
	char path[CONFIG_TEXT];
	size_t length;

	parent_of(s->config.door_socket, path);
	length = strlen(path);
	if (s->made_parent || (length > strlen("/fusiond") && !strcmp(path + length - strlen("/fusiond"), "/fusiond") &&
				      !getenv("RUNTIME_DIRECTORY")))
		rmdir(path);
}

void door_close(struct supervisor *s) {
	char path[CONFIG_TEXT + 8];

	s->listener_source = loop_remove(s->listener_source);
	if (s->listener >= 0) {
		close(s->listener);
		unlink(s->config.door_socket);
	}
	s->listener = -1;
	if (s->lock >= 0) {
		snprintf(path, sizeof path, "%s/lock", s->folder);
		unlink(path);
		rmdir(s->folder);
		remove_parent(s);
		close(s->lock);
	}
	s->lock = -1;
	if (s->spare >= 0)
		close(s->spare);
	s->spare = -1;
}
