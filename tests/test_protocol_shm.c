/* Arenas and packets, against the kernel's own word: seals, sizes, modes, descriptor counts. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "protocol/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/descriptors.h"
#include "tests/test_protocol.h"

enum {
	BYTES = 3 << 20
};

static void pair(int sockets[2]) {
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
}

/* What the next message finds instead of being sent; 0: nothing. */
static int no_message;

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker's names */
ssize_t __real_sendmsg(int fd, const struct msghdr *m, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *m, int flags);

ssize_t __wrap_sendmsg(int fd, const struct msghdr *m, int flags) {
	if (!no_message)
		return __real_sendmsg(fd, m, flags);
	errno = no_message;
	return -1;
}
/* NOLINTEND(bugprone-reserved-identifier) */

START_TEST(an_arena_is_allocated_in_full_and_private) {
	struct stat st;
	int fd;

	ck_assert_int_eq(shm_create("arena", BYTES, &fd), 0);
	ck_assert_int_eq(fstat(fd, &st), 0);
	ck_assert_int_eq(st.st_size, BYTES);
	ck_assert_int_ge(st.st_blocks * 512, BYTES);
	ck_assert_uint_eq(st.st_mode & 07777, 0600);
	ck_assert_int_eq(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	close(fd);
}
END_TEST

START_TEST(an_arena_can_neither_shrink_nor_grow) {
	int fd;

	ck_assert_int_eq(shm_create("arena", BYTES, &fd), 0);
	ck_assert_int_eq(ftruncate(fd, BYTES - 1), -1);
	ck_assert_int_eq(errno, EPERM);
	ck_assert_int_eq(ftruncate(fd, BYTES + 1), -1);
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	close(fd);
}
END_TEST

START_TEST(an_arena_larger_than_one_piece_is_whole) {
	struct stat st;
	int fd;

	ck_assert_int_eq(shm_create("arena", (130 << 20) + 4096, &fd), 0);
	ck_assert_int_eq(fstat(fd, &st), 0);
	ck_assert_int_eq(st.st_size, (130 << 20) + 4096);
	ck_assert_int_ge(st.st_blocks * 512, st.st_size);
	close(fd);
}
END_TEST

START_TEST(sizes_beyond_the_machine_are_refused_at_once) {
	uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	int before = open_descriptors(getpid()), fd;

	if (memory < (uint64_t)LIMIT_ARRAY_BYTES)
		ck_assert_int_eq(shm_create("arena", memory, &fd), -ENOMEM);
	ck_assert_int_eq(shm_create("arena", 0, &fd), -EINVAL);
	ck_assert_int_eq(shm_create("arena", UINT64_MAX, &fd), -EINVAL);
	ck_assert_int_eq(shm_create("arena", (uint64_t)LIMIT_ARRAY_BYTES + 1, &fd), -EINVAL);
	ck_assert_int_eq(open_descriptors(getpid()), before);
}
END_TEST

START_TEST(what_was_prepared_becomes_an_arena_of_as_many_bytes_or_fewer) {
	static const uint64_t sizes[] = { BYTES, BYTES - 4096, (2 << 20) + 4096, 1 << 20 };

	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		struct stat st;
		int fd;

		ck_assert_int_eq(shm_prepare("arena", BYTES, &fd), 0);
		ck_assert_int_eq(shm_check(fd, BYTES), -EINVAL);
		ck_assert_int_eq(shm_finish(fd, BYTES + 1), -EINVAL);
		ck_assert_int_eq(shm_finish(fd, 0), -EINVAL);
		ck_assert_int_eq(shm_finish(fd, sizes[i]), 0);
		ck_assert_int_eq(shm_check(fd, sizes[i]), 0);
		ck_assert_int_eq(fstat(fd, &st), 0);
		ck_assert_int_ge(st.st_blocks * 512, (int64_t)sizes[i]);
		ck_assert_int_lt(st.st_blocks * 512, (int64_t)sizes[i] + (2 << 20));
		ck_assert_uint_eq(st.st_mode & 07777, 0600);
		ck_assert_int_eq(ftruncate(fd, 4096), -1);
		close(fd);
	}
}
END_TEST

START_TEST(two_maps_see_the_same_bytes) {
	void *a, *b;
	int fd;

	ck_assert_int_eq(shm_create("arena", BYTES, &fd), 0);
	ck_assert_int_eq(shm_map(fd, BYTES, NULL, &a), 0);
	b = mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	ck_assert_ptr_ne(b, MAP_FAILED);
	void *at = b;
	ck_assert_int_eq(shm_map(fd, BYTES, at, &b), 0);
	ck_assert_ptr_eq(at, b);
	memset(a, 0x5a, BYTES);
	ck_assert_int_eq(memcmp(a, b, BYTES), 0);
	munmap(a, BYTES);
	munmap(b, BYTES);
	close(fd);
}
END_TEST

START_TEST(a_descriptor_that_is_no_sealed_arena_is_refused) {
	int fd, other = memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING), pipes[2];
	void *base;

	ck_assert_int_eq(shm_create("arena", BYTES, &fd), 0);
	ck_assert_int_eq(shm_check(fd, BYTES), 0);
	ck_assert_int_eq(shm_check(fd, BYTES + 4096), -EINVAL);
	ck_assert_int_eq(ftruncate(other, BYTES), 0);
	ck_assert_int_eq(shm_check(other, BYTES), -EINVAL);
	ck_assert_int_eq(fcntl(other, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	ck_assert_int_eq(shm_check(other, BYTES), -EINVAL);
	ck_assert_int_eq(pipe(pipes), 0);
	ck_assert_int_eq(shm_check(pipes[0], 0), -EINVAL);
	ck_assert_int_eq(shm_check(-1, BYTES), -EINVAL);
	ck_assert_int_lt(shm_map(pipes[0], BYTES, NULL, &base), 0);
	close(fd);
	close(other);
	close(pipes[0]);
	close(pipes[1]);
}
END_TEST

START_TEST(a_packet_brings_its_bytes_and_its_descriptor) {
	int s[2], arena, got;
	char text[16];

	pair(s);
	ck_assert_int_eq(shm_create("arena", BYTES, &arena), 0);
	ck_assert_int_eq(packet_send(s[0], "hello", 5, arena, 0), 0);
	ck_assert_int_eq(packet_send(s[0], "again", 5, -1, 0), 0);
	ck_assert_int_eq(packet_receive(s[1], text, sizeof text, &got, 0), 5);
	ck_assert_mem_eq(text, "hello", 5);
	ck_assert_int_eq(shm_check(got, BYTES), 0);
	ck_assert_int_eq(fcntl(got, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	close(got);
	ck_assert_int_eq(packet_receive(s[1], text, sizeof text, &got, 0), 5);
	ck_assert_int_eq(got, -1);
	close(s[0]);
	ck_assert_int_eq(packet_receive(s[1], text, sizeof text, &got, 0), 0);
	close(s[1]);
	close(arena);
}
END_TEST

START_TEST(a_packet_too_long_for_the_buffer_is_refused_and_leaks_nothing) {
	int s[2], got, before;
	char text[4];

	pair(s);
	before = open_descriptors(getpid());
	ck_assert_int_eq(packet_send(s[0], "too long", 8, s[0], 0), 0);
	ck_assert_int_eq(packet_receive(s[1], text, sizeof text, &got, 0), -EMSGSIZE);
	ck_assert_int_eq(got, -1);
	ck_assert_int_eq(open_descriptors(getpid()), before);
	close(s[0]);
	close(s[1]);
}
END_TEST

/* Sends one byte with `count` copies of a descriptor, which packet_send() would never do. */
static void send_many(int socket, int fd, unsigned count) {
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(64 * sizeof(int))];
	} control;
	struct iovec part = { .iov_base = (char[]){ 'x' }, .iov_len = 1 };
	struct msghdr m = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes };
	struct cmsghdr *head;

	memset(&control, 0, sizeof control);
	m.msg_controllen = CMSG_SPACE(count * sizeof fd);
	head = CMSG_FIRSTHDR(&m);
	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(count * sizeof fd);
	for (unsigned i = 0; i < count; i++)
		memcpy(CMSG_DATA(head) + i * sizeof fd, &fd, sizeof fd);
	ck_assert_int_eq(sendmsg(socket, &m, 0), 1);
}

START_TEST(descriptors_beyond_the_first_are_closed) {
	int s[2], got, before;
	char byte;

	pair(s);
	before = open_descriptors(getpid());
	for (unsigned count = 1; count <= 64; count++) {
		send_many(s[0], s[0], count);
		ck_assert_int_eq(packet_receive(s[1], &byte, 1, &got, 0), 1);
		ck_assert_int_ge(got, 0);
		close(got);
		ck_assert_int_eq(open_descriptors(getpid()), before);
	}
	close(s[0]);
	close(s[1]);
}
END_TEST

START_TEST(errors_come_back_as_codes) {
	int s[2], got;
	char byte;

	pair(s);
	ck_assert_int_eq(packet_receive(s[1], &byte, 1, &got, MSG_DONTWAIT), -EAGAIN);
	ck_assert_int_eq(packet_send(s[0], "", 0, -1, 0), -EINVAL);
	ck_assert_int_eq(packet_send(-1, "x", 1, -1, 0), -EBADF);
	close(s[1]);
	ck_assert_int_eq(packet_send(s[0], "x", 1, -1, 0), -EPIPE);
	close(s[0]);
}
END_TEST

START_TEST(large_arenas_lie_where_large_pages_can_and_have_no_holes) {
	enum { LARGE = 2 << 20 };
	static const uint64_t sizes[] = { LARGE, LARGE + 4096, 5 * LARGE - 4096, 16 * LARGE };

	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		struct stat st;
		void *base;
		int fd;

		ck_assert_int_eq(shm_create("arena", sizes[i], &fd), 0);
		ck_assert_int_eq(fstat(fd, &st), 0);
		ck_assert_uint_ge((uint64_t)st.st_blocks * 512, sizes[i]);
		ck_assert_int_eq(shm_map(fd, sizes[i], NULL, &base), 0);
		ck_assert_uint_eq((uintptr_t)base % LARGE, 0);
		for (uint64_t at = 0; at < sizes[i]; at += 4096)
			ck_assert_uint_eq(((uint8_t *)base)[at], 0);
		munmap(base, sizes[i]);
		close(fd);
	}
}
END_TEST

/* Who sent it took ENOBUFS for the supervisor's refusal, and an engine went on without the array. */
START_TEST(a_packet_that_finds_no_memory_is_no_refusal) {
	int sockets[2];

	pair(sockets);
	no_message = ENOBUFS;
	ck_assert_int_eq(packet_send(sockets[0], "a", 1, -1, 0), -ENOMEM);
	no_message = 0;
	ck_assert_int_eq(packet_send(sockets[0], "a", 1, -1, 0), 0);
	close(sockets[0]);
	close(sockets[1]);
}
END_TEST

RUN_TESTS("protocol_shm", a_packet_that_finds_no_memory_is_no_refusal, an_arena_is_allocated_in_full_and_private, an_arena_can_neither_shrink_nor_grow,
	an_arena_larger_than_one_piece_is_whole, sizes_beyond_the_machine_are_refused_at_once,
	what_was_prepared_becomes_an_arena_of_as_many_bytes_or_fewer, two_maps_see_the_same_bytes, large_arenas_lie_where_large_pages_can_and_have_no_holes,
	a_descriptor_that_is_no_sealed_arena_is_refused,
	a_packet_brings_its_bytes_and_its_descriptor,
	a_packet_too_long_for_the_buffer_is_refused_and_leaks_nothing,
	descriptors_beyond_the_first_are_closed, errors_come_back_as_codes)
