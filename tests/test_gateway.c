/* daemon/gateway: what a connection's process maps, and who its user is. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/link.h"
#include "daemon/base/log.h"
#include "daemon/gateway/arenas.h"
#include "daemon/gateway/gateway.h"
#include "protocol/message.h"
#include "protocol/shm.h"
#include "protocol/wire.h"
#include "tests/remote_keys.h"
#include "tests/skip.h"
#include "tests/suite.h"

enum {
	ARENA = 7,
	ARENA_BYTES = 1 << 16,
};

static int door[2], memory;
static struct gateway_arenas arenas;

static void setup(void) {
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, door), 0);
	ck_assert_int_eq(shm_create("test", ARENA_BYTES, &memory), 0);
	ck_assert_int_eq(shm_share(memory), 0);
	arenas_open(&arenas, door[0]);
}

static void teardown(void) {
	close(door[0]);
	close(door[1]);
	close(memory);
}

/* What the door will say to the next question. */
static void door_answers(int fd) {
	struct wire_writer w;

	wire_writer_init(&w);
	wire_put_array(&w, 3);
	wire_put_uint(&w, DOOR_ARENA_GET);
	wire_put_uint(&w, ARENA);
	wire_put_uint(&w, ARENA_BYTES);
	ck_assert_int_eq(wire_finish(&w), 0);
	ck_assert_int_eq(packet_send(door[1], w.buffer.data, w.buffer.size, fd, 0), 0);
	wire_writer_free(&w);
}

static struct gateway_arena *reached(bool write, uint8_t **bytesp) {
	struct gateway_arena *a = NULL;
	struct fault f = { 0 };
	int r = arenas_reach(&arenas, ARENA, 0, 1, write, &a, bytesp, &f);

	ck_assert_msg(!r, "%d: %s", r, f.text);
	return a;
}

/* An import for reading, whose bytes are on their way, and then one for writing. */
START_TEST(a_pinned_arena_is_mapped_again_for_writing) {
	int reader = shm_reader(memory);
	struct gateway_arena *read, *write;
	uint8_t *old, *new;

	ck_assert_int_ge(reader, 0);
	door_answers(reader);
	read = reached(false, &old);
	door_answers(memory);
	write = reached(true, &new);
	*new = 42;
	ck_assert_uint_eq(*old, 42);
	ck_assert_ptr_ne(read, write);
	arenas_leave(&arenas, read);
	arenas_leave(&arenas, write);
	/* Nobody is asked again. */
	arenas_leave(&arenas, reached(true, &new));
	arenas_leave(&arenas, reached(false, &old));
	close(reader);
}
END_TEST

START_TEST(an_arena_nobody_uses_is_mapped_anew_for_writing) {
	int reader = shm_reader(memory);
	uint8_t *old, *new;
	unsigned mapped = 0;

	door_answers(reader);
	arenas_leave(&arenas, reached(false, &old));
	door_answers(memory);
	arenas_leave(&arenas, reached(true, &new));
	for (unsigned i = 0; i < GATEWAY_ARENAS; i++)
		mapped += arenas.one[i].id == ARENA;
	ck_assert_uint_eq(mapped, 1);
	close(reader);
}
END_TEST

static int user_of(const char *name, uid_t *uidp) {
	struct config c = { 0 };
	struct fault f;

	snprintf(c.remote_plain_user, sizeof c.remote_plain_user, "%s", name);
	return remote_user(&c, NULL, false, uidp, &f);
}

START_TEST(numbers_beyond_a_uid_are_no_users) {
	static const char *const none[] = { "4294967296", "18446744073709551616", "4294967295", "-1", "+1", " 1", "0x10", "1a", "" };
	uid_t uid = 4711;

	for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
		ck_assert_msg(user_of(none[i], &uid) == FAULT_ARGUMENT, "\"%s\"", none[i]);
		ck_assert_uint_eq(uid, 4711);
	}
	ck_assert_int_eq(user_of("4294967294", &uid), 0);
	ck_assert_uint_eq(uid, 4294967294U);
	ck_assert_int_eq(user_of("root", &uid), 0);
	ck_assert_uint_eq(uid, 0);
}
END_TEST

/* ---- whose a connection is ---- */

enum { UNREACHED = 4711 };

static int control[2];

/* What a clerk answers to this claim, and to the next one nothing; *uidp: as whom the supervisor hears of it. */
static int claim_by(bool tls, const void *chain, size_t size, uid_t *uidp, struct fault *f) {
	const struct link_files files = { key_file("authority", "pem"), key_file("127.0.0.1", "pem"), key_file("127.0.0.1", "key") };
	struct gateway_clerk clerk = { .tls = tls, .peer = "somewhere", .refusals = refusals_new() };
	unsigned char packet[GATEWAY_PACKET];
	struct config c = { 0 };
	struct wire_reader reader;
	struct wire_cursor body;
	int pair[2], given = -1, fd, r;
	uint64_t id = 0, uid = UNREACHED;
	ssize_t n;
	pid_t pid;

	snprintf(c.remote_plain_user, sizeof c.remote_plain_user, "%u", 12);
	snprintf(c.remote_users, sizeof c.remote_users, "%s", key_file("users", "conf"));
	ck_assert_int_eq(link_keys_new(&files, true, &clerk.keys, f), 0);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control), 0);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	clerk.config = &c;
	clerk.control = control[1];
	clerk.session = pair[1];
	pid = fork();
	if (!pid)
		clerk_serve(&clerk);
	close(pair[1]);
	close(control[1]);
	r = clerk_enter(pair[0], chain, size, &given, f);
	ck_assert_int_eq(r == 0, given >= 0);
	ck_assert_int_ne(clerk_enter(pair[0], chain, size, &(int){ 0 }, &(struct fault){ 0 }), 0);
	while ((n = packet_receive(control[0], packet, sizeof packet, &fd, 0)) > 0) {
		ck_assert_int_eq(wire_open(&reader, packet, (size_t)n, f), 0);
		body = wire_root(&reader);
		ck_assert_int_eq(wire_get_uint(&body, "id", UINT64_MAX, &id, f), 0);
		if (id == CONTROL_REMOTE)
			ck_assert_int_eq(wire_get_uint(&body, "uid", UINT64_MAX, &uid, f), 0);
		ck_assert_int_eq(id == CONTROL_REMOTE, fd >= 0);
		wire_close(&reader);
		if (fd >= 0)
			close(fd);
	}
	waitpid(pid, NULL, 0);
	close(control[0]);
	close(pair[0]);
	if (given >= 0)
		close(given);
	link_keys_free(clerk.keys);
	*uidp = (uid_t)uid;
	return r;
}

/* DER of a certificate; how much. */
static size_t certificate(const char *name, unsigned char der[static CLERK_CHAIN]) {
	char command[512];
	FILE *f;
	size_t n;

	snprintf(command, sizeof command, "openssl x509 -in %s -outform DER", key_file(name, "pem"));
	f = popen(command, "r");
	n = fread(der, 1, CLERK_CHAIN, f);
	ck_assert_int_eq(pclose(f), 0);
	return n;
}

/* A connection's process that somebody has taken over shows what it likes. */
START_TEST(a_connection_is_whose_certificate_it_has_and_nobody_elses) {
	static const char *const wrong[] = { "stranger", "late", "mallory", "authority" };
	unsigned char der[2 * CLERK_CHAIN];
	struct fault f;
	uid_t uid;
	size_t n;

	if (!make_keys())
		SKIP("openssl cannot make certificates");
	n = certificate("alice", der);
	ck_assert_int_eq(claim_by(true, der, n, &uid, &f), 0);
	ck_assert_uint_eq(uid, geteuid());
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		n = certificate(wrong[i], der);
		ck_assert_msg(claim_by(true, der, n, &uid, &f) > 0, "%s", wrong[i]);
		ck_assert_uint_eq(uid, UNREACHED);
		/* Behind it one that would be right. */
		n += certificate("alice", der + n);
		ck_assert_msg(claim_by(true, der, n, &uid, &f) > 0, "%s", wrong[i]);
	}
	n = certificate("alice", der);
	for (size_t at = 0; at < n; at += 7) {
		der[at] ^= 0x55;
		ck_assert_msg(claim_by(true, der, n, &uid, &f) > 0, "byte %zu", at);
		der[at] ^= 0x55;
		ck_assert_int_gt(claim_by(true, der, at, &uid, &f), 0);
	}
	ck_assert_int_gt(claim_by(true, "", 0, &uid, &f), 0);
	ck_assert_uint_eq(uid, UNREACHED);
	/* By tcp there is one user, whatever is shown. */
	ck_assert_int_eq(claim_by(false, der, n, &uid, &f), 0);
	ck_assert_uint_eq(uid, 12);
	ck_assert_int_eq(claim_by(false, "", 0, &uid, &f), 0);
	ck_assert_int_eq(keys_remove(), 0);
}
END_TEST

/* ---- what it may ---- */

static void *nothing(void *user) {
	return user;
}

/* What needs no argument that is right: a filter answers before the kernel looks at them. 0, or 1000 and the first that was let through. */
static int refused_calls(void) {
	static const long call[] = { SYS_mkdirat, SYS_mknodat, SYS_unlinkat, SYS_linkat, SYS_symlinkat, SYS_fchmodat, SYS_fchownat, SYS_utimensat, SYS_truncate,
		SYS_setxattr, SYS_lsetxattr, SYS_removexattr, SYS_open_by_handle_at, SYS_chdir, SYS_chroot, SYS_mount, SYS_umount2, SYS_execveat, SYS_ptrace,
		SYS_process_vm_readv, SYS_process_vm_writev, SYS_pidfd_open, SYS_pidfd_getfd, SYS_pidfd_send_signal, SYS_kill, SYS_tkill, SYS_tgkill,
		SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo, SYS_prlimit64, SYS_setpriority, SYS_sched_setaffinity, SYS_bind, SYS_listen, SYS_accept, SYS_accept4,
		SYS_socketpair, SYS_memfd_create, SYS_shmget, SYS_shmat, SYS_semget, SYS_msgget, SYS_mq_open, SYS_unshare, SYS_setns, SYS_bpf,
		SYS_io_uring_setup, SYS_io_setup, SYS_userfaultfd, SYS_perf_event_open, SYS_keyctl, SYS_add_key, SYS_personality, SYS_finit_module };

	for (size_t i = 0; i < sizeof call / sizeof *call; i++)
		if (syscall(call[i], -1, -1, -1, -1, -1, -1) != -1 || errno != EPERM)
			return 1000 + (int)call[i];
	return 0;
}

/* 0, or which of these it could do. */
static int try_all(bool nng) {
	struct sockaddr_un a = { .sun_family = AF_UNIX, .sun_path = "/nowhere" };
	int pair[2], s = socket(AF_UNIX, SOCK_SEQPACKET, 0), r;
	char *const arguments[] = { (char *)"true", NULL };
	pthread_t thread;

	if (nng ? s < 0 : s >= 0)
		return 1;
	if (s >= 0 && (!bind(s, (struct sockaddr *)&a, sizeof a) || errno != EPERM))
		return 2;
	r = connect(s, (struct sockaddr *)&a, sizeof a);
	if (!r || (errno == EPERM) == nng)
		return 3;
	if (open("/dev/null", O_RDONLY) >= 0 || openat(AT_FDCWD, "/dev/null", O_RDONLY) >= 0)
		return 4;
	if (!syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0))
		_exit(0);
	if (errno != EPERM || fork() >= 0)
		return 8;
	if (!kill(getppid(), 0) || !execv("/bin/true", arguments) || syscall(SYS_pidfd_open, getppid(), 0) >= 0)
		return 5;
	r = refused_calls();
	if (r)
		return r;
	/* What it needs. */
	if (pthread_create(&thread, NULL, nothing, NULL) || pthread_join(thread, NULL) || !malloc(8 << 20))
		return 6;
	return pipe(pair) || write(pair[1], "x", 1) != 1 ? 7 : 0;
}

START_TEST(a_connections_process_opens_connects_to_and_runs_nothing) {
	int status;
	pid_t pid = fork();

	if (!pid) {
		if (confine(_i))
			_exit(100);
		if (!prctl(PR_GET_SECCOMP))
			_exit(101);
		status = try_all(_i);
		if (status)
			fprintf(stderr, "let through: %d\n", status);
		_exit(status ? 1 : 0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(WIFEXITED(status), 1);
	if (WEXITSTATUS(status) == 101)
		SKIP("this kernel has no filters of system calls");
	ck_assert_int_eq(WEXITSTATUS(status), 0);
}
END_TEST

int main(void) {
	Suite *suite = suite_create("gateway");
	TCase *t = tcase_create("gateway");

	log_set_level(LOG_LEVEL_ERROR);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_pinned_arena_is_mapped_again_for_writing);
	tcase_add_test(t, an_arena_nobody_uses_is_mapped_anew_for_writing);
	tcase_add_test(t, numbers_beyond_a_uid_are_no_users);
	tcase_add_test(t, a_connection_is_whose_certificate_it_has_and_nobody_elses);
	tcase_add_loop_test(t, a_connections_process_opens_connects_to_and_runs_nothing, 0, 2);
	tcase_set_timeout(t, 120);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
