/*
 * What actors call of the system: the linker puts these in front (--wrap, see CALLS in the Makefile). None waits in the kernel: where a
 * call would, its fiber gives way until it would not. Each is a point at which others may come in, and may fail as the
 * kernel's does (sim_happens()).
 */
#include "world.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#pragma GCC visibility push(default)
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

enum {
	/* What a look at the clock takes. */
	LOOK_NS = 60,
};

static bool is_child(void) {
	return me && me->is_child;
}

static int fail(int error) {
	errno = error;
	return -1;
}

/* Where the call is made. */
static void calls_trace(void) {
	void *frame[24];
	int depth = backtrace(frame, 24);

	for (int i = 0; i < depth; i++) {
		Dl_info of;

		if (dladdr(frame[i], &of) && of.dli_fname)
			fprintf(stderr, "        at %s+0x%lx\n", of.dli_fname, (unsigned long)((char *)frame[i] - (char *)of.dli_fbase));
	}
}

/* Is it the call of world.point, or one behind it? */
static bool is_point(enum sim_fault what) {
	const struct point *p = &world.point;
	uint64_t number;

	if (!current->first || what == SIM_interrupted)
		return false;
	number = ++world.counted[current->kind][what];
	if (!p->number || world.healed || p->kind != current->kind || p->what != what || number < p->number || (number > p->number && !p->from_then_on))
		return false;
	world.calls_failed++;
	world.happened[what]++;
	if (number == p->number && world.verbose)
		calls_trace();
	return true;
}

static bool happens(enum sim_fault what) {
	if (world.pointing && current && !is_child()) {
		if (!is_point(what))
			return false;
	} else if (!current || is_child() || !(world.victims >> current->kind & 1) || world.now_ns < world.calls_from_ns || !sim_happens(what)) {
		return false;
	}
	if (what == SIM_interrupted)
		return true;
	current->unlucky++;
	sim_note("%s in a call of process %d, the %lluth", sim_fault_name(what), (int)current->pid, (unsigned long long)current->unlucky);
	return true;
}

/* ---- descriptors ---- */

static int own(int fd) {
	world.changes++;
	if (fd >= 0 && fd < WORLD_FDS)
		world.owner[fd] = current;
	else if (fd >= 0)
		sim_wrong("descriptor %d is beyond %d", fd, WORLD_FDS);
	return fd;
}

void calls_close_all(struct actor *a) {
	for (int fd = 0; fd < WORLD_FDS; fd++)
		if (world.owner[fd] == a) {
			world.owner[fd] = NULL;
			close(fd);
		}
	if (a->signals[1] >= 0)
		close(a->signals[1]);
	a->signals[0] = a->signals[1] = -1;
	world.changes++;
}

size_t calls_open(const struct actor *a) {
	size_t n = 0;

	for (int fd = 0; fd < WORLD_FDS; fd++)
		n += world.owner[fd] == a;
	return n;
}

static bool none_left(void) {
	return happens(SIM_no_descriptor);
}

int __wrap_close(int fd) {
	if (is_child())
		return 0;
	sim_point("close", (uint64_t)fd);
	if (fd >= 0 && fd < WORLD_FDS && world.owner[fd] != current && current)
		sim_wrong("process %d closes descriptor %d, which is not its own", (int)current->pid, fd);
	if (fd >= 0 && fd < WORLD_FDS)
		world.owner[fd] = NULL;
	world.changes++;
	return close(fd);
}

int __wrap_socket(int domain, int type, int protocol) {
	return none_left() ? fail(EMFILE) : own(socket(domain, type, protocol));
}

int __wrap_socketpair(int domain, int type, int protocol, int pair[2]) {
	int r = none_left() ? fail(EMFILE) : socketpair(domain, type, protocol, pair);

	if (!r) {
		own(pair[0]);
		own(pair[1]);
	}
	return r;
}

int __wrap_pipe2(int pair[2], int flags) {
	int r = none_left() ? fail(EMFILE) : pipe2(pair, flags);

	if (!r) {
		own(pair[0]);
		own(pair[1]);
	}
	return r;
}

int __wrap_eventfd(unsigned value, int flags) {
	return none_left() ? fail(EMFILE) : own(eventfd(value, flags));
}

int __wrap_epoll_create1(int flags) {
	return none_left() ? fail(EMFILE) : own(epoll_create1(flags));
}

int __wrap_memfd_create(const char *name, unsigned flags) {
	return none_left() ? fail(EMFILE) : own(memfd_create(name, flags));
}

int __wrap_dup(int fd) {
	return none_left() ? fail(EMFILE) : own(dup(fd));
}

int __wrap_dup2(int from, int to) {
	(void)from;
	return is_child() ? to : fail(ENOSYS);
}

int __wrap_dup3(int from, int to, int flags) {
	(void)from;
	(void)to;
	(void)flags;
	return fail(ENOSYS);
}

int __wrap_close_range(unsigned first, unsigned last, int flags) {
	(void)first;
	(void)last;
	(void)flags;
	return is_child() ? 0 : fail(ENOSYS);
}

int __wrap_fcntl(int fd, int command, ...) {
	va_list list;
	long argument;
	int r;

	va_start(list, command);
	argument = va_arg(list, long);
	va_end(list);
	if (is_child() && command == F_SETFD) {
		me->actor->inherited = fd;
		return 0;
	}
	if ((command == F_DUPFD || command == F_DUPFD_CLOEXEC) && none_left())
		return fail(EMFILE);
	r = fcntl(fd, command, argument);
	return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? own(r) : r;
}

int __wrap_open(const char *path, int flags, ...) {
	va_list list;
	unsigned mode;

	va_start(list, flags);
	mode = va_arg(list, unsigned);
	va_end(list);
	if (is_child())
		return fail(ENOENT);
	return none_left() ? fail(EMFILE) : own(open(path, flags, mode));
}

int __wrap_openat(int folder, const char *path, int flags, ...) {
	va_list list;
	unsigned mode;

	va_start(list, flags);
	mode = va_arg(list, unsigned);
	va_end(list);
	return none_left() ? fail(EMFILE) : own(openat(folder, path, flags, mode));
}

/* Streams and folders that are read: their descriptors are the C library's. */
FILE *__wrap_fopen(const char *path, const char *mode) {
	if (!none_left())
		return fopen(path, mode);
	errno = EMFILE;
	return NULL;
}

DIR *__wrap_opendir(const char *path) {
	if (!none_left())
		return opendir(path);
	errno = EMFILE;
	return NULL;
}

/* A stream closes its descriptor itself. */
FILE *__wrap_fdopen(int fd, const char *mode) {
	FILE *f = happens(SIM_no_memory) ? NULL : fdopen(fd, mode);

	if (f && fd < WORLD_FDS)
		world.owner[fd] = NULL;
	return f;
}

/* ---- waiting for descriptors ---- */

static bool wait_poll(struct pollfd *fds, unsigned count, uint64_t deadline) {
	me->waits = WAIT_POLL;
	me->poll = fds;
	me->polls = count;
	me->deadline_ns = deadline;
	return fiber_wait(me);
}

static uint64_t after_ms(int ms) {
	return ms < 0 ? NEVER : world.now_ns + (uint64_t)ms * 1000000;
}

static int poll_until(struct pollfd *fds, nfds_t count, uint64_t deadline) {
	int r;

	sim_point("poll", count);
	if (happens(SIM_interrupted))
		return fail(EINTR);
	r = poll(fds, count, 0);
	if (r || deadline <= world.now_ns)
		return r;
	wait_poll(fds, (unsigned)count, deadline);
	return poll(fds, count, 0);
}

int __wrap_poll(struct pollfd *fds, nfds_t count, int ms) {
	if (!ms) {
		/* A loop that looks without waiting lets others come in. */
		sim_point("look", count);
		return poll(fds, count, 0);
	}
	return poll_until(fds, count, after_ms(ms));
}

int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *t, const sigset_t *mask) {
	(void)mask;
	return poll_until(fds, count, t ? world.now_ns + (uint64_t)t->tv_sec * 1000000000 + (uint64_t)t->tv_nsec : NEVER);
}

int __wrap_epoll_wait(int epoll, struct epoll_event *event, int most, int ms) {
	struct pollfd p = { .fd = epoll, .events = POLLIN };
	uint64_t deadline = after_ms(ms);
	int r;

	sim_point("epoll_wait", (uint64_t)ms);
	if (ms && happens(SIM_interrupted))
		return fail(EINTR);
	r = epoll_wait(epoll, event, most, 0);
	if (r || deadline <= world.now_ns)
		return r;
	wait_poll(&p, 1, deadline);
	r = epoll_wait(epoll, event, most, 0);
	world_mix((uint64_t)r);
	return r;
}

int __wrap_epoll_ctl(int epoll, int what, int fd, struct epoll_event *event) {
	world.changes++;
	if (what == EPOLL_CTL_ADD && happens(SIM_no_descriptor))
		return fail(ENOSPC);
	return epoll_ctl(epoll, what, fd, event);
}

static bool waits(int fd, int flags) {
	int of = fcntl(fd, F_GETFL);

	return !(flags & MSG_DONTWAIT) && of >= 0 && !(of & O_NONBLOCK);
}

static void until(int fd, short events) {
	struct pollfd p = { .fd = fd, .events = events };

	wait_poll(&p, 1, NEVER);
}

ssize_t __wrap_recvmsg(int fd, struct msghdr *m, int flags) {
	bool wait = waits(fd, flags);
	size_t control = m->msg_controllen;
	ssize_t n;

	sim_point("recvmsg", 0);
	if (happens(SIM_no_socket))
		return fail(ENOMEM);
	for (;;) {
		m->msg_controllen = control;
		n = recvmsg(fd, m, flags | MSG_DONTWAIT);
		if (n >= 0 || errno != EAGAIN || !wait)
			break;
		until(fd, POLLIN);
	}
	world_mix((uint64_t)n);
	world.changes++;
	for (struct cmsghdr *h = n >= 0 && !(flags & MSG_PEEK) ? CMSG_FIRSTHDR(m) : NULL; h; h = CMSG_NXTHDR(m, h))
		if (h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS)
			for (size_t i = 0; i < (h->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
				int got;

				memcpy(&got, CMSG_DATA(h) + i * sizeof got, sizeof got);
				own(got);
			}
	return n;
}

ssize_t __wrap_recv(int fd, void *bytes, size_t size, int flags) {
	struct iovec part = { bytes, size };
	struct msghdr m = { .msg_iov = &part, .msg_iovlen = 1 };

	return __wrap_recvmsg(fd, &m, flags);
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *m, int flags) {
	bool wait = waits(fd, flags);
	ssize_t n;

	sim_point("sendmsg", 0);
	if (!wait && happens(SIM_interrupted))
		return fail(EINTR);
	if (happens(SIM_no_socket))
		return fail(ENOBUFS);
	while ((n = sendmsg(fd, m, flags | MSG_DONTWAIT | MSG_NOSIGNAL)) < 0 && errno == EAGAIN && wait)
		until(fd, POLLOUT);
	world_mix((uint64_t)n);
	world.changes++;
	return n;
}

ssize_t __wrap_send(int fd, const void *bytes, size_t size, int flags) {
	struct iovec part = { (void *)(uintptr_t)bytes, size };
	struct msghdr m = { .msg_iov = &part, .msg_iovlen = 1 };

	return __wrap_sendmsg(fd, &m, flags);
}

ssize_t __wrap_read(int fd, void *bytes, size_t size) {
	struct pollfd p = { .fd = fd, .events = POLLIN };
	ssize_t n;

	sim_point("read", 0);
	if (current && waits(fd, 0) && poll(&p, 1, 0) == 0)
		until(fd, POLLIN);
	n = read(fd, bytes, size);
	world_mix((uint64_t)n);
	world.changes++;
	return n;
}

ssize_t __wrap_write(int fd, const void *bytes, size_t size) {
	ssize_t n;

	if (is_child())
		return (ssize_t)size;
	if (fd == STDERR_FILENO) {
		if (world.verbose)
			fprintf(stderr, "%12.6f        | %.*s", (double)world.now_ns / 1e9, (int)size, (const char *)bytes);
		return (ssize_t)size;
	}
	sim_point("write", 0);
	n = write(fd, bytes, size);
	world.changes++;
	return n;
}

int __wrap_eventfd_write(int fd, eventfd_t value) {
	return __wrap_write(fd, &value, sizeof value) == sizeof value ? 0 : -1;
}

int __wrap_eventfd_read(int fd, eventfd_t *value) {
	return __wrap_read(fd, value, sizeof *value) == sizeof *value ? 0 : -1;
}

int __wrap_shutdown(int fd, int how) {
	world.changes++;
	return shutdown(fd, how);
}

/* Who connects waits in the listener's queue until he is accepted, in this order. */
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t size) {
	int r;

	sim_point("connect", 0);
	if (happens(SIM_no_socket))
		return fail(ENOMEM);
	r = connect(fd, address, size);
	world.changes++;
	if (!r && world.connects < 64) {
		world.connecting[world.connects].pid = current->pid;
		world.connecting[world.connects++].uid = current->uid;
	}
	return r;
}

int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *size, int flags) {
	int got;

	sim_point("accept", 0);
	if (happens(SIM_no_descriptor))
		return fail(EMFILE);
	got = accept4(fd, address, size, flags | SOCK_NONBLOCK);
	if (got >= 0 && world.connects) {
		world.peer[got].pid = world.connecting[0].pid;
		world.peer[got].uid = world.connecting[0].uid;
		memmove(world.connecting, world.connecting + 1, --world.connects * sizeof *world.connecting);
	}
	if (got >= 0 && !(flags & SOCK_NONBLOCK))
		fcntl(got, F_SETFL, fcntl(got, F_GETFL) & ~O_NONBLOCK);
	return own(got);
}

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *size) {
	int r = happens(SIM_no_socket) ? fail(ENOBUFS) : getsockopt(fd, level, name, value, size);

	if (!r && level == SOL_SOCKET && name == SO_PEERCRED) {
		struct ucred *who = value;

		who->pid = world.peer[fd].pid;
		who->uid = world.peer[fd].uid;
		who->gid = world.peer[fd].uid;
	}
	return r;
}

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t size) {
	return happens(SIM_no_socket) ? fail(ENOBUFS) : setsockopt(fd, level, name, value, size);
}

int __wrap_bind(int fd, const struct sockaddr *address, socklen_t size) {
	return happens(SIM_no_socket) ? fail(ENOMEM) : bind(fd, address, size);
}

int __wrap_listen(int fd, int most) {
	return happens(SIM_no_socket) ? fail(EADDRINUSE) : listen(fd, most);
}

/* ---- time ---- */

int __wrap_clock_gettime(clockid_t clock, struct timespec *t) {
	uint64_t now;

	world.now_ns += LOOK_NS;
	now = world.now_ns + (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE ? world.wall_ns : 0);
	t->tv_sec = (time_t)(now / 1000000000);
	t->tv_nsec = (long)(now % 1000000000);
	return 0;
}

time_t __wrap_time(time_t *t) {
	time_t now = (time_t)((world.now_ns + world.wall_ns) / 1000000000);

	if (t)
		*t = now;
	return now;
}

int __wrap_nanosleep(const struct timespec *t, struct timespec *left) {
	(void)left;
	me->waits = WAIT_TIME;
	me->deadline_ns = world.now_ns + (uint64_t)t->tv_sec * 1000000000 + (uint64_t)t->tv_nsec;
	fiber_wait(me);
	return 0;
}

int __wrap_usleep(unsigned us) {
	struct timespec t = { us / 1000000, (long)(us % 1000000) * 1000 };

	return __wrap_nanosleep(&t, NULL);
}

/* ---- memory ---- */

static size_t slot_of(const struct memory *m, const void *p) {
	return (size_t)(((uintptr_t)p >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (m->room - 1);
}

static void put(struct memory *m, void *p) {
	size_t i = slot_of(m, p);

	while ((uintptr_t)m->slot[i] > 1)
		i = (i + 1) & (m->room - 1);
	m->slot[i] = p;
}

static void grow(struct memory *m) {
	void **old = m->slot;
	size_t room = m->room;
	size_t live = 0;

	for (size_t i = 0; i < room; i++)
		live += (uintptr_t)old[i] > 1;
	m->room = room && live < room / 4 ? room : room ? 2 * room : 1024;
	m->slot = calloc(m->room, sizeof *m->slot);
	if (!m->slot)
		abort();
	for (size_t i = 0; i < room; i++)
		if ((uintptr_t)old[i] > 1)
			put(m, old[i]);
	m->used = live;
	free(old);
}

static void *remember(void *p) {
	struct memory *m = &current->memory;

	if (!p)
		return NULL;
	if (world.traced && p == world.traced)
		calls_trace();
	if (2 * (m->used + 1) > m->room)
		grow(m);
	put(m, p);
	m->used++;
	return p;
}

static void **slot_with(const struct memory *m, const void *p) {
	if (!p || !m->room)
		return NULL;
	for (size_t i = slot_of(m, p); m->slot[i]; i = (i + 1) & (m->room - 1))
		if (m->slot[i] == p)
			return &m->slot[i];
	return NULL;
}

/* Libraries that no wrapper sees allocate, too. */
static void forget(void *p) {
	void **slot = current ? slot_with(&current->memory, p) : NULL;

	if (slot)
		*slot = (void *)1;
}

bool memory_has(const struct actor *a, const void *p) {
	return slot_with(&a->memory, p);
}

void calls_list(const struct actor *a) {
	char path[64], what[128];

	for (int fd = 0; fd < WORLD_FDS; fd++)
		if (world.owner[fd] == a) {
			ssize_t n;

			snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
			n = readlink(path, what, sizeof what - 1);
			what[n > 0 ? n : 0] = 0;
			printf("descriptor %d of process %d: %s\n", fd, (int)a->pid, what);
		}
	for (size_t i = 0; i < a->memory.room; i++)
		if ((uintptr_t)a->memory.slot[i] > 1)
			printf("block of process %d: %p\n", (int)a->pid, a->memory.slot[i]);
}

size_t memory_blocks(const struct actor *a) {
	size_t n = 0;

	for (size_t i = 0; i < a->memory.room; i++)
		n += (uintptr_t)a->memory.slot[i] > 1;
	return n;
}

void *__wrap_malloc(size_t size) {
	if (happens(SIM_no_memory)) {
		errno = ENOMEM;
		return NULL;
	}
	return current ? remember(malloc(size)) : malloc(size);
}

void *__wrap_calloc(size_t count, size_t size) {
	if (happens(SIM_no_memory)) {
		errno = ENOMEM;
		return NULL;
	}
	return current ? remember(calloc(count, size)) : calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size) {
	void *p;

	if (happens(SIM_no_memory)) {
		errno = ENOMEM;
		return NULL;
	}
	forget(old);
	p = realloc(old, size);
	return current ? remember(p) : p;
}

void __wrap_free(void *p) {
	forget(p);
	free(p);
}

char *__wrap_strdup(const char *text) {
	size_t size = strlen(text) + 1;
	char *p = __wrap_malloc(size);

	return p ? memcpy(p, text, size) : NULL;
}

char *__wrap_strndup(const char *text, size_t most) {
	size_t size = strnlen(text, most);
	char *p = __wrap_malloc(size + 1);

	if (!p)
		return NULL;
	p[size] = 0;
	return memcpy(p, text, size);
}

int __wrap_asprintf(char **textp, const char *format, ...) {
	va_list list;
	int n;

	if (happens(SIM_no_memory))
		return fail(ENOMEM);
	va_start(list, format);
	n = vasprintf(textp, format, list);
	va_end(list);
	if (n >= 0 && current)
		remember(*textp);
	return n;
}

static void unmapped(uint64_t begin, uint64_t end) {
	struct actor *a = current;

	for (unsigned i = 0; i < a->mappings; i++) {
		struct mapping *x = &a->mapping[i], was = *x;

		if (was.end <= begin || was.begin >= end)
			continue;
		if (was.begin < begin && was.end > end) {
			x->end = begin;
			if (a->mappings == a->mapping_room)
				a->mapping = realloc(a->mapping, (a->mapping_room = 2 * a->mapping_room) * sizeof *x);
			a->mapping[a->mappings++] = (struct mapping){ end, was.end, was.inode, was.offset + (end - was.begin) };
			return;
		}
		if (was.begin < begin) {
			x->end = begin;
		} else if (was.end > end) {
			x->begin = end;
			x->offset += end - was.begin;
		} else {
			*x = a->mapping[--a->mappings];
			i--;
		}
	}
}

void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset) {
	struct actor *a = current;
	uint64_t whole = (bytes + 4095) & ~UINT64_C(4095);
	struct stat st = { 0 };
	void *p;

	if (!a)
		return mmap(at, bytes, protection, flags, fd, offset);
	if (happens(SIM_no_mapping)) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	p = mmap(at, bytes, protection, flags, fd, offset);
	if (p == MAP_FAILED)
		return p;
	if (fd >= 0)
		fstat(fd, &st);
	if (flags & MAP_FIXED)
		unmapped((uintptr_t)p, (uintptr_t)p + whole);
	if (a->mappings == a->mapping_room)
		a->mapping = realloc(a->mapping, (a->mapping_room = a->mapping_room ? 2 * a->mapping_room : 16) * sizeof *a->mapping);
	a->mapping[a->mappings++] = (struct mapping){ (uintptr_t)p, (uintptr_t)p + whole, fd >= 0 ? st.st_ino : 0, (uint64_t)offset };
	return p;
}

int __wrap_munmap(void *at, size_t bytes) {
	if (current)
		unmapped((uintptr_t)at, (uintptr_t)at + ((bytes + 4095) & ~UINT64_C(4095)));
	return munmap(at, bytes);
}

static const struct mapping *mapping_of(const struct actor *a, uint64_t address) {
	for (unsigned i = 0; i < a->mappings; i++)
		if (address >= a->mapping[i].begin && address < a->mapping[i].end)
			return &a->mapping[i];
	return NULL;
}

int sim_owner(uint64_t address, uint64_t bytes) {
	const struct mapping *m = mapping_of(current, address);
	int owner = 0;

	if (!m || address + bytes > m->end)
		return -1;
	if (!m->inode)
		return 0;
	for (unsigned i = 0; i < world.actors; i++) {
		const struct actor *a = &world.actor[i];

		if (a->kind != ACTOR_CLIENT || !a->alive)
			continue;
		for (unsigned k = 0; k < a->mappings; k++)
			if (a->mapping[k].inode == m->inode)
				owner = (int)a->number;
	}
	return owner;
}

int __wrap_posix_fallocate(int fd, off_t at, off_t bytes) {
	return happens(SIM_no_shared_memory) ? ENOSPC : posix_fallocate(fd, at, bytes);
}

int __wrap_fallocate(int fd, int mode, off_t at, off_t bytes) {
	if (!mode && happens(SIM_no_shared_memory))
		return fail(ENOSPC);
	return fallocate(fd, mode, at, bytes);
}

int __wrap_madvise(void *at, size_t bytes, int advice) {
	/* A large page costs milliseconds here, and MADV_DONTFORK concerns nobody. */
	(void)at;
	(void)bytes;
	(void)advice;
	return 0;
}

/* ---- processes ---- */

pid_t __wrap_getpid(void) {
	return current ? current->pid : getpid();
}

pid_t __wrap_getppid(void) {
	return is_child() ? current->pid : current->parent;
}

__attribute__((noinline, returns_twice)) pid_t __wrap_fork(void) {
	struct fiber *f = me;
	char *low = (char *)__builtin_frame_address(0) - 2048;

	sim_point("fork", 0);
	if (happens(SIM_no_memory))
		return fail(ENOMEM);
	f->returns = false;
	f->stack_copied = (size_t)(f->stack + FIBER_STACK - low);
	f->stack_copy = malloc(f->stack_copied);
	getcontext(&f->forked);
	if (me->returns) {
		me->returns = false;
		me->is_child = false;
		return me->made;
	}
	memcpy(f->stack_copy, low, f->stack_copied);
	f->is_child = true;
	return 0;
}

/* The parent goes on. */
__attribute__((noreturn)) static void child_gone(pid_t pid) {
	me->made = pid;
	me->returns = true;
	me->waits = WAIT_NOTHING;
	me->deadline_ns = NEVER;
	fiber_leave();
}

int __wrap_execv(const char *path, char *const *argument) {
	enum actor_kind kind = strstr(path, "engine") ? ACTOR_ENGINE : ACTOR_KINDS;
	const char *copy[WORLD_ARGUMENTS];
	char control[32];
	int count = 0, fd = fcntl(me->actor->inherited, F_DUPFD_CLOEXEC, 3);

	if (kind == ACTOR_KINDS)
		sim_wrong("%s is started, which is not simulated", path);
	for (; argument[count] && count < WORLD_ARGUMENTS - 1; count++) {
		copy[count] = argument[count];
		if (!strncmp(argument[count], "--control=", 10)) {
			snprintf(control, sizeof control, "--control=%d", fd);
			copy[count] = control;
		}
	}
	child_gone(actor_start(kind, 0, me->actor->uid, me->actor->pid, count, copy, fd)->pid);
}

void __wrap__exit(int status) {
	if (is_child())
		sim_wrong("a forked process ends before it runs a program");
	actor_end(current, 0, status);
	abort();
}

void __wrap_exit(int status) {
	__wrap__exit(status);
}

pid_t __wrap_waitpid(pid_t pid, int *status, int flags) {
	struct actor *a = actor_by_pid(pid);

	if (!a || a->parent != current->pid)
		return fail(ECHILD);
	if (a->alive && flags & WNOHANG)
		return 0;
	if (a->alive) {
		me->waits = WAIT_CHILD;
		me->child = pid;
		fiber_wait(me);
	}
	if (status)
		*status = a->status;
	a->reaped = true;
	return pid;
}

int __wrap_kill(pid_t pid, int signal) {
	struct actor *a = actor_by_pid(pid);

	if (!a)
		return fail(ESRCH);
	if (!signal)
		return 0;
	sim_note("signal %d to process %d", signal, (int)pid);
	if (signal == SIGKILL)
		actor_end(a, SIGKILL, 0);
	else
		signal_send(a, signal);
	return 0;
}

int __wrap_prctl(int option, ...) {
	(void)option;
	return 0;
}

int __wrap_pidfd_open(pid_t pid, unsigned flags) {
	(void)pid;
	(void)flags;
	return fail(ENOSYS);
}

void (*__wrap_signal(int number, void (*handler)(int)))(int) {
	(void)number;
	return handler;
}

int __wrap_sigprocmask(int how, const sigset_t *set, sigset_t *old) {
	(void)how;
	(void)set;
	if (old)
		sigemptyset(old);
	return 0;
}

int __wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *old) {
	return __wrap_sigprocmask(how, set, old);
}

int __wrap_signalfd(int fd, const sigset_t *set, int flags) {
	(void)fd;
	(void)set;
	(void)flags;
	if (none_left())
		return fail(EMFILE);
	if (pipe2(current->signals, O_CLOEXEC | O_NONBLOCK))
		return -1;
	fcntl(current->signals[1], F_SETFD, FD_CLOEXEC);
	return own(current->signals[0]);
}

int __wrap_getrlimit(__rlimit_resource_t which, struct rlimit *limit) {
	(void)which;
	limit->rlim_cur = limit->rlim_max = which == RLIMIT_NOFILE ? 1 << 16 : RLIM_INFINITY;
	return 0;
}

int __wrap_setrlimit(__rlimit_resource_t which, const struct rlimit *limit) {
	(void)which;
	(void)limit;
	return 0;
}

ssize_t __wrap_getrandom(void *bytes, size_t size, unsigned flags) {
	(void)flags;
	for (size_t i = 0; i < size; i++)
		((unsigned char *)bytes)[i] = (unsigned char)sim_random(256);
	return (ssize_t)size;
}

/* ---- processors ---- */

int __wrap_sched_getcpu(void) {
	return 0;
}

int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set) {
	(void)pid;
	memset(set, 0, size);
	CPU_SET(0, set);
	CPU_SET(1, set);
	return 0;
}

int __wrap_sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *set) {
	(void)pid;
	(void)size;
	(void)set;
	return 0;
}

/* ---- threads ---- */

/* See thread.c. */
int sim_thread(pthread_t *thread, void *(*run)(void *), void *user) {
	struct fiber *f;

	if (happens(SIM_no_memory))
		return EAGAIN;
	f = fiber_new(current, run, user);
	*thread = (pthread_t)f;
	return 0;
}

int __wrap_pthread_join(pthread_t thread, void **result) {
	struct fiber *f = (struct fiber *)thread;

	while (!f->done) {
		me->waits = WAIT_JOIN;
		me->joined = f;
		fiber_wait(me);
	}
	if (result)
		*result = f->result;
	f->detached = true;
	return 0;
}

int __wrap_pthread_detach(pthread_t thread) {
	((struct fiber *)thread)->detached = true;
	return 0;
}

pthread_t __wrap_pthread_self(void) {
	return (pthread_t)me;
}

int __wrap_pthread_setname_np(pthread_t thread, const char *name) {
	(void)thread;
	(void)name;
	return 0;
}

int __wrap_pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void)) {
	(void)prepare;
	(void)parent;
	(void)child;
	return 0;
}

/* The first word of a mutex says whether somebody has it; that of a condition counts its signals. */
int __wrap_pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *attributes) {
	(void)attributes;
	memset(m, 0, sizeof *m);
	return 0;
}

int __wrap_pthread_mutex_destroy(pthread_mutex_t *m) {
	if (*(unsigned *)m)
		sim_wrong("a mutex is destroyed that somebody has");
	return 0;
}

int __wrap_pthread_mutex_trylock(pthread_mutex_t *m) {
	unsigned *word = (unsigned *)m;

	if (*word)
		return EBUSY;
	*word = 1;
	return 0;
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *m) {
	unsigned *word = (unsigned *)m;

	sim_point("lock", 0);
	while (*word) {
		me->waits = WAIT_MUTEX;
		me->word = word;
		fiber_wait(me);
	}
	*word = 1;
	return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *m) {
	unsigned *word = (unsigned *)m;

	if (!*word)
		sim_wrong("a mutex is unlocked that nobody has");
	*word = 0;
	sim_point("unlock", 0);
	return 0;
}

int __wrap_pthread_cond_init(pthread_cond_t *c, const pthread_condattr_t *attributes) {
	(void)attributes;
	memset(c, 0, sizeof *c);
	return 0;
}

int __wrap_pthread_cond_destroy(pthread_cond_t *c) {
	(void)c;
	return 0;
}

int __wrap_pthread_cond_signal(pthread_cond_t *c) {
	++*(unsigned *)c;
	return 0;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *c) {
	++*(unsigned *)c;
	return 0;
}

/* Conditions of the monotonic clock alone are waited for with a time. */
int __wrap_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *t) {
	bool came;

	me->waits = WAIT_COND;
	me->word = (unsigned *)c;
	me->value = *(unsigned *)c;
	me->deadline_ns = t ? (uint64_t)t->tv_sec * 1000000000 + (uint64_t)t->tv_nsec : NEVER;
	*(unsigned *)m = 0;
	came = fiber_wait(me);
	__wrap_pthread_mutex_lock(m);
	return came ? 0 : ETIMEDOUT;
}

int __wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m) {
	return __wrap_pthread_cond_timedwait(c, m, NULL);
}

/* ---- futexes ---- */

static bool same_place(const struct fiber *f, uint64_t inode, uint64_t offset) {
	return f->actor && f->actor->alive && f->waits == WAIT_FUTEX && f->inode == inode && f->offset == offset;
}

static long futex(const unsigned *word, int what, unsigned value, const struct timespec *t) {
	const struct mapping *m = mapping_of(current, (uintptr_t)word);
	uint64_t inode, offset;
	long woken = 0;

	if (!m || !m->inode)
		sim_wrong("a futex is in memory that is not shared");
	inode = m->inode;
	offset = m->offset + (uintptr_t)word - m->begin;
	sim_point("futex", (uint64_t)what);
	if (what == FUTEX_WAKE) {
		for (unsigned i = 0; i < world.fibers && woken < (long)value; i++)
			if (same_place(&world.fiber[i], inode, offset) && !world.fiber[i].woken) {
				world.fiber[i].woken = true;
				woken++;
			}
		return woken;
	}
	if (*(const volatile unsigned *)word != value)
		return fail(EAGAIN);
	me->waits = WAIT_FUTEX;
	me->inode = inode;
	me->offset = offset;
	me->woken = false;
	me->deadline_ns = t ? world.now_ns + (uint64_t)t->tv_sec * 1000000000 + (uint64_t)t->tv_nsec : NEVER;
	return fiber_wait(me) ? 0 : fail(ETIMEDOUT);
}

/*
 * Of threads of one process. Who wakes has changed the word before, which is what a fiber waits for; the one that is waked may be gone by
 * then. Times are those of the clock.
 */
static long private_futex(const unsigned *word, int what, unsigned value, const struct timespec *t) {
	sim_point("futex", (uint64_t)what);
	if (what == FUTEX_WAKE_PRIVATE)
		return 0;
	if (what != FUTEX_WAIT_BITSET_PRIVATE)
		return fail(ENOSYS);
	if (*(const volatile unsigned *)word != value)
		return fail(EAGAIN);
	me->waits = WAIT_COND;
	me->word = word;
	me->value = value;
	me->deadline_ns = t ? (uint64_t)t->tv_sec * 1000000000 + (uint64_t)t->tv_nsec : NEVER;
	return fiber_wait(me) ? 0 : fail(ETIMEDOUT);
}

long __wrap_syscall(long number, ...) {
	va_list list;
	const unsigned *word;
	int what;
	unsigned value;
	const struct timespec *t;

	if (number != SYS_futex)
		return fail(ENOSYS);
	va_start(list, number);
	word = va_arg(list, const unsigned *);
	what = va_arg(list, int);
	value = va_arg(list, unsigned);
	t = va_arg(list, const struct timespec *);
	va_end(list);
	return what & FUTEX_PRIVATE_FLAG ? private_futex(word, what, value, t) : futex(word, what, value, t);
}

void __wrap_argp_failure(const void *state, int status, int error, const char *format, ...) {
	(void)state;
	(void)error;
	sim_note("the command line is refused: %s", format);
	if (status)
		__wrap__exit(status);
}
