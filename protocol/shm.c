/*
 * Shared memory and packets with descriptors. See shm.h for the contract.
 *
 * The kernel gives a memfd pages until the machine has none left and then kills a process, so a
 * request beyond what /proc/meminfo calls available is refused before it starts. That is a
 * backstop, blind to the limits of a control group: what a user may have is the caller's to decide.
 *
 * Arenas get large pages where the kernel can (Linux 6.1, MADV_COLLAPSE, whatever the settings of
 * sysfs): one small page of each large one is allocated and the rest collapsed around it. That is
 * faster than allocating small pages, and reading through large ones is 1.5 to 2 times faster.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memfd_create, seals */
#endif

#include "shm.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1; the C library of Debian 12 does not name it */
#endif

enum {
	/* Where the system has no memory to receive a packet, and how often who can wait tries. */
	PACKET_STARVED_NS = 10 * 1000 * 1000,
	PACKET_TRIES = 10,
	SHM_SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
	/*
	 * A signal makes fallocate() undo what it had done, so a large allocation under a periodic
	 * signal would start over for ever. In pieces it makes progress.
	 */
	SHM_PIECE = 64 << 20,
	/* A large page of the machines we know; on others large pages are not asked for, or refused. */
	SHM_LARGE_PAGE = 2 << 20,
	SHM_PAGE = 4096,
	/* Room for more descriptors than a packet may bring, so that the excess is seen and closed. */
	PACKET_DESCRIPTORS = 4,
};

uint64_t shm_available(void) {
	FILE *file = fopen("/proc/meminfo", "re");
	uint64_t kib = UINT64_MAX / 1024;
	char line[128];

	if (!file)
		return UINT64_MAX;
	while (fgets(line, sizeof line, file))
		if (sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1)
			break;
	fclose(file);
	return kib * 1024;
}

static int allocate_piece(int fd, uint64_t offset, uint64_t bytes) {
	int r;

	do {
		r = posix_fallocate(fd, (off_t)offset, (off_t)bytes);
	} while (r == EINTR);
	return -r;
}

static bool is_stopped(const atomic_bool *stop) {
	return stop && atomic_load(stop);
}

static int allocate(int fd, uint64_t bytes, const atomic_bool *stop) {
	for (uint64_t done = 0; done < bytes; done += SHM_PIECE) {
		uint64_t left = bytes - done;
		int r = is_stopped(stop) ? -ECANCELED : allocate_piece(fd, done, left < SHM_PIECE ? left : SHM_PIECE);

		if (r)
			return r;
	}
	return 0;
}

/* An address range of its own for a mapping of these bytes that begins on a large page. */
static void *reserve(uint64_t bytes) {
	uint64_t more = bytes + SHM_LARGE_PAGE;
	uint8_t *begin = mmap(NULL, more, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint64_t skip = -(uintptr_t)begin % SHM_LARGE_PAGE, whole = (bytes + SHM_PAGE - 1) & ~(uint64_t)(SHM_PAGE - 1);

	if (begin == MAP_FAILED)
		return MAP_FAILED;
	if (skip)
		munmap(begin, skip);
	if (more > skip + whole)
		munmap(begin + skip + whole, more - skip - whole);
	return begin + skip;
}

/* Many in one call, each of which waits until every processor has come round. */
static int allocate_large_piece(int fd, uint8_t *base, uint64_t at, uint64_t whole) {
	uint64_t end = whole - at < SHM_PIECE ? whole : at + SHM_PIECE;
	int r = 0;

	for (uint64_t i = at; !r && i < end; i += SHM_LARGE_PAGE)
		r = allocate_piece(fd, i, SHM_PAGE);
	return r ? r : madvise(base + at, end - at, MADV_COLLAPSE);
}

/* Only ever makes memory faster: whatever fails here leaves holes that allocate() fills. */
static void allocate_large(int fd, uint64_t bytes, const atomic_bool *stop) {
	uint64_t whole = bytes / SHM_LARGE_PAGE * SHM_LARGE_PAGE;
	uint8_t *base;

	if (!whole || ftruncate(fd, (off_t)bytes))
		return;
	base = reserve(whole);
	if (base == MAP_FAILED)
		return;
	if (mmap(base, whole, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED)
		for (uint64_t at = 0; at < whole && !is_stopped(stop) && !allocate_large_piece(fd, base, at, whole); at += SHM_PIECE)
			continue;
	munmap(base, whole);
}

int shm_empty(const char *name, int *fdp) {
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING), r;

	if (fd < 0)
		return -errno;
	if (!fchmod(fd, 0600)) {
		*fdp = fd;
		return 0;
	}
	r = -errno;
	close(fd);
	return r;
}

int shm_fill(int fd, uint64_t bytes, const atomic_bool *stop) {
	if (!bytes || bytes > (uint64_t)LIMIT_ARRAY_BYTES)
		return -EINVAL;
	if (bytes > shm_available())
		return -ENOMEM;
	allocate_large(fd, bytes, stop);
	return allocate(fd, bytes, stop);
}

int shm_prepare(const char *name, uint64_t bytes, int *fdp) {
	int fd = -1, r = shm_empty(name, &fd);

	if (r)
		return r;
	r = shm_fill(fd, bytes, NULL);
	if (r) {
		close(fd);
		return r;
	}
	*fdp = fd;
	return 0;
}

int shm_finish(int fd, uint64_t bytes) {
	struct stat st;

	if (!bytes || fstat(fd, &st) || (uint64_t)st.st_size < bytes)
		return -EINVAL;
	if ((uint64_t)st.st_size > bytes && ftruncate(fd, (off_t)bytes))
		return -errno;
	return fcntl(fd, F_ADD_SEALS, SHM_SEALS) ? -errno : 0;
}

int shm_create(const char *name, uint64_t bytes, int *fdp) {
	int r = shm_prepare(name, bytes, fdp);

	if (r)
		return r;
	r = shm_finish(*fdp, bytes);
	if (r)
		close(*fdp);
	return r;
}

int shm_check(int fd, uint64_t bytes) {
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	if (seals < 0 || (seals & SHM_SEALS) != SHM_SEALS)
		return -EINVAL;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size < 0 || (uint64_t)st.st_size != bytes)
		return -EINVAL;
	return 0;
}

int shm_share(int fd) {
	return fchmod(fd, 0400) ? -errno : 0;
}

int shm_reader(int fd) {
	char path[32];
	int reader;

	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	reader = open(path, O_RDONLY | O_CLOEXEC);
	return reader < 0 ? -errno : reader;
}

static bool is_writable(int fd) {
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && (flags & O_ACCMODE) == O_RDWR;
}

int shm_map(int fd, uint64_t bytes, void *address, void **basep) {
	void *at = !address && bytes >= SHM_LARGE_PAGE ? reserve(bytes) : address, *base;
	int flags = MAP_SHARED | (at ? MAP_FIXED : 0);

	if (at == MAP_FAILED)
		return -errno;
	base = mmap(at, bytes, is_writable(fd) ? PROT_READ | PROT_WRITE : PROT_READ, flags, fd, 0);
	if (base != MAP_FAILED) {
		*basep = base;
		return 0;
	}
	flags = -errno;
	if (at && !address)
		munmap(at, bytes);
	return flags;
}

/* Memory for control messages, aligned as their headers need. */
union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(PACKET_DESCRIPTORS * sizeof(int))];
};

static void attach(struct msghdr *m, union control *control, const int *fd, size_t count) {
	struct cmsghdr *head;

	memset(control, 0, sizeof *control);
	m->msg_control = control->bytes;
	m->msg_controllen = CMSG_SPACE(count * sizeof *fd);
	head = CMSG_FIRSTHDR(m);
	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(count * sizeof *fd);
	memcpy(CMSG_DATA(head), fd, count * sizeof *fd);
}

int packet_send_pair(int socket, const void *bytes, size_t size, const int fd[PACKET_PAIR], int flags) {
	struct iovec part = { .iov_base = (void *)bytes, .iov_len = size };
	struct msghdr m = { .msg_iov = &part, .msg_iovlen = 1 };
	union control control;
	size_t count = 0;
	ssize_t sent;

	if (!size) /* would read as the end of the stream */
		return -EINVAL;
	while (count < PACKET_PAIR && fd[count] >= 0)
		count++;
	if (count)
		attach(&m, &control, fd, count);
	do {
		sent = sendmsg(socket, &m, flags | MSG_NOSIGNAL);
	} while (sent < 0 && errno == EINTR);
	/* The system's word for a socket that finds no memory; here -ENOBUFS is the supervisor's refusal, with a sentence of its own. */
	if (sent < 0)
		return errno == ENOBUFS ? -ENOMEM : -errno;
	return (size_t)sent == size ? 0 : -EMSGSIZE;
}

int packet_send(int socket, const void *bytes, size_t size, int fd, int flags) {
	const int pair[PACKET_PAIR] = { fd, -1 };

	return packet_send_pair(socket, bytes, size, pair, flags);
}

/* Keeps the first descriptors of a control message and closes the others. */
static void take_descriptors(const struct cmsghdr *head, int kept[PACKET_PAIR]) {
	size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	unsigned at = 0;
	int fd;

	for (size_t i = 0; i < count; i++) {
		memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
		while (at < PACKET_PAIR && kept[at] >= 0)
			at++;
		if (at < PACKET_PAIR)
			kept[at] = fd;
		else
			close(fd);
	}
}

static void detach(struct msghdr *m, int kept[PACKET_PAIR]) {
	for (struct cmsghdr *head = CMSG_FIRSTHDR(m); head; head = CMSG_NXTHDR(m, head))
		if (head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS)
			take_descriptors(head, kept);
}

static void drop(int *fdp) {
	if (*fdp >= 0)
		close(*fdp);
	*fdp = -1;
}

/* The system may find no memory to receive, and what came stays readable: who asks again at once would do nothing else. */
static void starve(void) {
	const struct timespec t = { .tv_nsec = PACKET_STARVED_NS };

	nanosleep(&t, NULL);
}

/* Is it worth another try? */
static bool try_again(int flags, unsigned *tries) {
	bool again = !(flags & MSG_DONTWAIT) && ++*tries < PACKET_TRIES;

	if (again)
		starve();
	errno = ENOMEM;
	return again;
}

ssize_t packet_receive_pair(int socket, void *bytes, size_t size, int fd[PACKET_PAIR], int flags) {
	struct iovec part = { .iov_base = bytes, .iov_len = size };
	union control control;
	struct msghdr m = { .msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof control.bytes };
	unsigned tries = 0;
	ssize_t got;

	fd[0] = fd[1] = -1;
	do {
		got = recvmsg(socket, &m, flags | MSG_CMSG_CLOEXEC);
	} while (got < 0 && (errno == EINTR || ((errno == ENOMEM || errno == ENOBUFS) && try_again(flags, &tries))));
	if (got < 0)
		return -errno;
	detach(&m, fd);
	if (!(m.msg_flags & MSG_TRUNC) && got)
		return got;
	drop(&fd[0]);
	drop(&fd[1]);
	return got ? -EMSGSIZE : 0;
}

ssize_t packet_receive(int socket, void *bytes, size_t size, int *fdp, int flags) {
	int pair[PACKET_PAIR];
	ssize_t got = packet_receive_pair(socket, bytes, size, pair, flags);

	drop(&pair[1]);
	*fdp = pair[0];
	if (got != -ENOMEM || !(flags & MSG_DONTWAIT))
		return got;
	starve();
	return -EAGAIN;
}
