/*
 * The door: one Unix socket that clients connect to, beside it a folder for the sockets of engines
 * and a lock that keeps a second daemon away from the same path.
 *
 * It stays reachable when descriptors run out: one is kept in reserve, so that a connection can be
 * accepted, told, and closed.
 *
 * Where a socket unit has made the socket, the service manager passes it: then its name, mode and group are the unit's, and it is there
 * before and after this process.
 */
#include "supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <systemd/sd-daemon.h>

#include "daemon/base/descriptors.h"
#include "daemon/door/closer.h"

enum {
	/* Connections that wait to be accepted; the kernel caps it by net.core.somaxconn. */
	DOOR_BACKLOG = 4096,
	/* Accepted in one turn of the loop. */
	DOOR_BURST = 64,
	/* What is appended for the folder of engines' sockets and the name of one. */
	DOOR_BESIDE = 24,
	/* How long nobody is looked at who cannot even be told that there is no descriptor for him. */
	DOOR_REST_US = 100000,
};

static int open_spare(void) {
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* Before anything else, so that its number is below whatever the limit may become. */
void door_reserve(struct supervisor *s) {
	s->spare = open_spare();
}

/* Makes the last part of path where it is missing. */
static int make_folder(const char *path, mode_t mode, struct fault *f) {
	struct stat st;

	if ((mkdir(path, mode) < 0 || chmod(path, mode) < 0) && errno != EEXIST)
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
	if (*path == '/' && strlen(path) < sizeof a->sun_path - DOOR_BESIDE) {
		memcpy(a->sun_path, path, strlen(path) + 1);
		return 0;
	}
	return fault_set(f, FAULT_ARGUMENT, "door.socket %s must be absolute and shorter than %zu bytes",
		path, sizeof a->sun_path - DOOR_BESIDE);
}

/* 0 or -1 with errno. */
static int give_group(const char *path, const char *name) {
	const struct group *g = *name ? getgrnam(name) : NULL;

	if (!*name)
		return 0;
	if (g)
		return chown(path, (uid_t)-1, g->gr_gid);
	errno = ENOENT;
	return -1;
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
	closer_refuse_descriptors(s->listener);
	if (bind(s->listener, (const struct sockaddr *)&fresh, sizeof fresh) < 0)
		return fault_set(
			f, FAULT_ARGUMENT, "no socket can be made at %s: %s", a->sun_path, strerror(errno));
	if (give_group(fresh.sun_path, s->config.door_group))
		return fault_set(f, FAULT_ARGUMENT, "door.group %s cannot be the group of the socket: %s", s->config.door_group, strerror(errno));
	if (chmod(fresh.sun_path, (mode_t)s->config.door_mode) < 0 || listen(s->listener, DOOR_BACKLOG) < 0 ||
		rename(fresh.sun_path, a->sun_path) < 0)
		return -errno;
	return 0;
}

/* ---- a socket of the service manager's ---- */

static int refuse_passed(const char *name, const char *why, struct fault *f) {
	return fault_set(f, FAULT_ARGUMENT, "the service manager passed the socket \"%s\", %s", name, why);
}

int door_take(struct supervisor *s, int fd, const char *name, struct fault *f) {
	struct sockaddr_un a = { .sun_family = AF_UNSPEC };
	socklen_t size = sizeof a;
	int flags = fcntl(fd, F_GETFL);

	if (s->passed) {
		close(fd);
		return refuse_passed(name, "and another one before: the door is one", f);
	}
	s->passed = true;
	s->listener = fd;
	if (sd_is_socket_unix(fd, SOCK_SEQPACKET, 1, NULL, 0) <= 0)
		return refuse_passed(name, "which is not what the door is: ListenSequentialPacket= of a path, and no Accept=", f);
	/* Of a path that fills it the system tells more than there is room for. */
	if (getsockname(fd, (struct sockaddr *)&a, &size) < 0 || size > sizeof a || strncmp(a.sun_path, s->config.door_socket, sizeof a.sun_path) != 0)
		return fault_set(f, FAULT_ARGUMENT, "the service manager passed the socket \"%s\" at %.*s, but door.socket is %s: say the same", name,
			(int)sizeof a.sun_path, *a.sun_path ? a.sun_path : "no path", s->config.door_socket);
	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
}

/* Settings that say otherwise do nothing, which their administrator is to know. */
static int open_passed(const struct supervisor *s, const struct sockaddr_un *a, struct fault *f) {
	const struct group *g = *s->config.door_group ? getgrnam(s->config.door_group) : NULL;
	struct stat st;

	if (lstat(a->sun_path, &st) < 0 || !S_ISSOCK(st.st_mode))
		return fault_set(f, FAULT_ARGUMENT, "the service manager's socket is not at %s any more: restart its unit", a->sun_path);
	closer_refuse_descriptors(s->listener);
	if ((st.st_mode & 0777) != (mode_t)s->config.door_mode)
		log_warning("door.mode is %04o, but the socket is its unit's, and has %04o: SocketMode= counts", (unsigned)s->config.door_mode,
			(unsigned)st.st_mode & 0777);
	if (*s->config.door_group && (!g || g->gr_gid != st.st_gid))
		log_warning("door.group is %s, but the socket is its unit's, and has group %u: SocketGroup= counts", s->config.door_group,
			(unsigned)st.st_gid);
	return 0;
}

/* ---- accepting ---- */

static void refuse_one(struct supervisor *s, int fd) {
	struct fault f;

	descriptors_fault(&f, "a connection");
	log_warning("%s", f.text);
	if (fd >= 0)
		client_refuse(s, fd, &f);
}

/* Out of descriptors: the reserve accepts one, which is told. Where even that has no number, who waits is looked at again later. */
static void shed_one(struct supervisor *s) {
	int fd;

	if (s->spare >= 0)
		close(s->spare);
	fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC);
	refuse_one(s, fd);
	s->spare = open_spare();
	if (fd >= 0 || !s->listener_source || loop_change(s->listener_source, 0))
		return;
	s->listen_us = loop_now() + DOOR_REST_US;
}

uint64_t door_tick(struct supervisor *s, uint64_t now) {
	if (!s->listen_us || now < s->listen_us)
		return s->listen_us ? s->listen_us : UINT64_MAX;
	s->listen_us = 0;
	if (s->listener_source && loop_change(s->listener_source, EPOLLIN))
		log_error("epoll_ctl on the door's socket failed: %s", strerror(errno));
	return UINT64_MAX;
}

/* False once nobody waits. */
static bool accept_one(struct supervisor *s) {
	int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd >= 0) {
		closer_refuse_descriptors(fd);
		if (descriptors_raise(&fd))
			refuse_one(s, fd);
		else
			client_accept(s, fd);
		return true;
	}
	if (descriptors_short(-errno))
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
		r = s->passed ? open_passed(s, &address, f) : listen_at(s, &address, f);
	if (!r)
		r = loop_add(s->loop, s->listener, EPOLLIN, on_listener, s, &s->listener_source);
	return r;
}

/*
 * Libraries take the system's folder for a service that will be back. So it goes, empty as it is, where this process or one before
 * that was killed made it; a service manager looks after its own.
 */
static void remove_parent(const struct supervisor *s) {
	char path[CONFIG_TEXT];
	size_t length;

	if (s->passed)
		return;
	parent_of(s->config.door_socket, path);
	length = strlen(path);
	if (s->made_parent || (length > strlen("/fusiond") && !strcmp(path + length - strlen("/fusiond"), "/fusiond") &&
				      !getenv("RUNTIME_DIRECTORY")))
		rmdir(path);
}

void door_rest(struct supervisor *s) {
	if (s->passed)
		s->listener_source = loop_remove(s->listener_source);
}

void door_close(struct supervisor *s) {
	char path[CONFIG_TEXT + 8];

	s->listener_source = loop_remove(s->listener_source);
	if (s->listener >= 0) {
		close(s->listener);
		if (!s->passed)
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
