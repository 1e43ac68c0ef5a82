/*
 * A daemon that is flooded with connections that say nothing: at the engine's socket, which knows no users before they speak,
 * and at the door, where a user's own limit holds. Others get in meanwhile, and get their results.
 */
#include "tests/daemon.h"

#include <errno.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "protocol/limits.h"
#include "daemon/base/config.h"
#include "tests/suite.h"

enum {
	TEST_SECONDS = 240,
	/* More than a process may have open where nobody has raised that. */
	SILENT = 1500,
	LEFT = 64,
	CLIENTS = 10,
	N = 1000,
};

/* As many as this process may have open. */
static int room(void) {
	struct rlimit limit;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = limit.rlim_max;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	return limit.rlim_cur < SILENT + LEFT ? (int)limit.rlim_cur - LEFT : SILENT;
}

static int connect_silently(const char *path, int type) {
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	ck_assert_int_ge(fd, 0);
	snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
	ck_assert_msg(!connect(fd, (const struct sockaddr *)&a, sizeof a), "%s: %s", path, strerror(errno));
	return fd;
}

static void compute(fusion_context *c) {
	const int64_t n = N;
	fusion_array *a = fusion_full(c, FUSION_F32, 1, &n, 2), *b = fusion_mul(a, a);
	float got[N];

	ck_assert_msg(!fusion_read(b, got, sizeof got), "%s", fusion_error());
	ck_assert(got[0] == 4 && got[N - 1] == 4);
	fusion_release(a);
	fusion_release(b);
}

static void new_clients_compute(void) {
	for (int i = 0; i < CLIENTS; i++) {
		fusion_context *c = connect_client();

		compute(c);
		fusion_close(c);
	}
}

START_TEST(a_flood_of_the_engines_socket_keeps_nobody_out) {
	int count = room(), *fd = calloc((size_t)count, sizeof *fd);
	fusion_context *c = connect_client();
	double sessions = stat_of(c, "sessions");
	char path[128];

	compute(c);
	snprintf(path, sizeof path, "%s.d/engine-0.1.sock", door);
	for (int i = 0; i < count; i++)
		fd[i] = connect_silently(path, SOCK_STREAM);
	new_clients_compute();
	compute(c);
	for (int i = 0; i < count; i++)
		close(fd[i]);
	expect_back(c, "sessions", sessions);
	fusion_close(c);
	free(fd);
}
END_TEST

/* limits.sessions_per_user and a few; the daemon refuses one more and says why. */
static bool refused(int fd) {
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

START_TEST(a_flood_of_the_door_ends_at_its_users_limit) {
	fusion_context *c = connect_client();
	int fd[200], closed = 0;

	compute(c);
	for (int i = 0; i < 200; i++)
		fd[i] = connect_silently(door, SOCK_SEQPACKET);
	/* Who has a session goes on, and the user's new ones get in: silent ones make room, the oldest first. */
	compute(c);
	new_clients_compute();
	for (int i = 0; i < 200; i++) {
		closed += refused(fd[i]);
		close(fd[i]);
	}
	ck_assert_int_gt(closed, 100);
	fusion_close(c);
}
END_TEST

/* LimitNOFILE=NUMBER */
static unsigned long unit_descriptors(void) {
	unsigned long value = 0;
	char line[256];
	FILE *f = fopen("systemd/service", "r");

	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof line, f))
		if (!strncmp(line, "LimitNOFILE=", strlen("LimitNOFILE=")))
			value = strtoul(line + strlen("LimitNOFILE="), NULL, 10);
	fclose(f);
	return value;
}

START_TEST(the_service_may_open_what_its_limits_allow) {
	struct config c;
	unsigned long most;

	config_standard(&c);
	most = c.door_connections * (1 + LIMIT_ARENAS) + LEFT;
	ck_assert_msg(unit_descriptors() >= most, "LimitNOFILE=%lu, but %lu may be needed", unit_descriptors(), most);
	/* More than what the kernel allows by default (fs.nr_open) would keep the service from starting. */
	ck_assert_uint_le(unit_descriptors(), 1 << 20);
}
END_TEST

static void start_flood(void) {
	setenv("FUSIOND_LIMITS_SESSIONS_PER_USER", "32", 1);
	start();
}

int main(void) {
	Suite *s = suite_create("flood");
	TCase *running = tcase_create("running"), *none = tcase_create("none");

	tcase_set_timeout(running, TEST_SECONDS);
	tcase_add_unchecked_fixture(running, start_flood, daemon_stop);
	tcase_add_test(running, a_flood_of_the_engines_socket_keeps_nobody_out);
	tcase_add_test(running, a_flood_of_the_door_ends_at_its_users_limit);
	suite_add_tcase(s, running);
	tcase_add_test(none, the_service_may_open_what_its_limits_allow);
	suite_add_tcase(s, none);
	return suite_run(s);
}
