/*
 * daemon/door: the supervisor with real sockets and a fake engine.
 *
 * The test program is its own engine: started with --control it speaks the control protocol and
 * writes what it hears into a file, which the tests read. FAKE_ENGINE says how it behaves.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "protocol/message.h"
#include "protocol/ring.h"
#include "protocol/shm.h"
#include "protocol/wire.h"
#include "daemon/base/config.h"
#include "daemon/base/loop.h"
#include "daemon/door/client.h"
#include "daemon/door/supervisor.h"
#include "tests/descriptors.h"
#include "tests/patience.h"
#include "tests/skip.h"
#include "tests/suite.h"

enum {
	PACKET = 1 << 16,
};

static char folder[64], socket_path[96], log_path[96], said_path[96], program[256];

/* The linker leads setsockopt() here, so that a test can be on a kernel which lets descriptors through. */
static bool old_kernel;

int __real_setsockopt(int fd, int level, int name, const void *value, socklen_t size);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t size);

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t size) {
	enum { PASS_RIGHTS = 83 };

	if (!old_kernel || level != SOL_SOCKET || name != PASS_RIGHTS)
		return __real_setsockopt(fd, level, name, value, size);
	errno = ENOPROTOOPT;
	return -1;
}

/* Memory takes as long to clear as that file is there; set before start(). */
static char slow_path[96];

int __real_shm_fill(int fd, uint64_t bytes, const atomic_bool *stop);
int __wrap_shm_fill(int fd, uint64_t bytes, const atomic_bool *stop);

int __wrap_shm_fill(int fd, uint64_t bytes, const atomic_bool *stop) {
	while (*slow_path && !access(slow_path, F_OK) && !atomic_load(stop))
		usleep(1000);
	return __real_shm_fill(fd, bytes, stop);
}

/* ---- the fake engine ---- */

static int engine_control;

/* Adds a line: a word and numbers. */
static void note(const char *word, unsigned count, const uint64_t *numbers) {
	FILE *file = fopen(getenv("FAKE_LOG"), "a");

	if (!file)
		exit(3);
	fputs(word, file);
	for (unsigned i = 0; i < count; i++)
		fprintf(file, " %" PRIu64, numbers[i]);
	fputc('\n', file);
	fclose(file);
}

static void engine_say(
	unsigned id, unsigned count, const uint64_t *numbers, const char *first, const char *second) {
	struct wire_writer w;

	wire_writer_init(&w);
	wire_put_array(&w, 1 + count + (first != NULL) + (second != NULL));
	wire_put_uint(&w, id);
	for (unsigned i = 0; i < count; i++)
		wire_put_uint(&w, numbers[i]);
	if (first)
		wire_put_text(&w, first);
	if (second)
		wire_put_text(&w, second);
	if (packet_send(engine_control, w.buffer.data, w.buffer.size, -1, 0))
		exit(4);
	wire_writer_free(&w);
}

static uint64_t number(struct wire_cursor *c) {
	uint64_t n = 0;
	struct fault f;

	if (wire_get_uint(c, "number", UINT64_MAX, &n, &f))
		exit(5);
	return n;
}

static bool named(struct wire_cursor c, const char *name) {
	const char *text;
	const void *secret;
	size_t size;
	struct fault f;

	if (wire_get_bin(&c, "secret", LIMIT_SECRET_BYTES, &secret, &f))
		exit(6);
	number(&c);
	number(&c);
	return !wire_get_text(&c, "name", 1000, &text, &size, &f) && size == strlen(name) &&
	       !memcmp(text, name, size);
}

/* A session called "want" makes the engine ask for an arena; "drop" gives it back; "die" kills it. */
static void engine_session(struct wire_cursor c) {
	uint64_t session = number(&c);

	note("new", 1, &session);
	if (named(c, "want") || named(c, "drop"))
		engine_say(CONTROL_ARENA_WANT, 2, (uint64_t[]){ session, 100000 }, NULL, NULL);
	if (named(c, "much"))
		engine_say(CONTROL_ARENA_WANT, 2, (uint64_t[]){ session, UINT64_C(1) << 39 }, NULL, NULL);
	if (named(c, "die"))
		abort();
	if (named(c, "nonsense"))
		engine_say(CONTROL_SESSION_BAD, 1, (uint64_t[]){ session }, NULL, NULL);
}

static void engine_arena(struct wire_cursor c, int fd) {
	uint64_t session = number(&c), arena = number(&c), bytes = number(&c), owner = number(&c);

	if (fd < 0 || shm_check(fd, bytes))
		exit(7);
	note(owner ? "made" : "arena", 3, (uint64_t[]){ session, arena, bytes });
	if (owner && getenv("FAKE_DROP"))
		engine_say(CONTROL_ARENA_DROP, 2, (uint64_t[]){ session, arena }, NULL, NULL);
}

/* With FAKE_KEEPS something runs on the session's memory until that file is gone. */
static void engine_session_end(uint64_t session) {
	note("end", 1, &session);
	while (getenv("FAKE_KEEPS") && !access(getenv("FAKE_KEEPS"), F_OK))
		usleep(1000);
	engine_say(CONTROL_SESSION_LEFT, 1, &session, NULL, NULL);
}

static void engine_packet(const void *bytes, size_t size, int fd) {
	struct wire_reader reader;
	struct wire_cursor c;
	struct fault f;
	uint64_t id;

	if (wire_open(&reader, bytes, size, &f))
		exit(8);
	c = wire_root(&reader);
	id = number(&c);
	if (id == CONTROL_SESSION_NEW)
		engine_session(c);
	else if (id == CONTROL_SESSION_END)
		engine_session_end(number(&c));
	else if (id == CONTROL_ARENA)
		engine_arena(c, fd);
	else if (id == CONTROL_ARENA_REFUSED)
		note("refused", 1, (uint64_t[]){ number(&c) });
	else if ((id == CONTROL_CATALOGUE && fd >= 0) || id == CONTROL_PING)
		;
	else if (id == CONTROL_RELOAD)
		note("reload", 0, NULL);
	else
		exit(9);
	wire_close(&reader);
}

static int engine_main(int control) {
	const char *how = getenv("FAKE_ENGINE");
	char bytes[PACKET];

	engine_control = control;
	if (!strcmp(how, "crash"))
		abort();
	/* With what the supervisor has sent unread: the end of such a socket tells of that before of what was said. */
	if (!strcmp(how, "failed unread")) {
		engine_say(CONTROL_WORKER_WANT, 1, (uint64_t[]){ 0 }, NULL, NULL);
		if (poll(&(struct pollfd){ .fd = control, .events = POLLIN }, 1, PATIENCE_MS) != 1)
			return 11;
	}
	if (!strncmp(how, "failed", 6)) {
		engine_say(CONTROL_FAILED, 1, (uint64_t[]){ FAULT_DEVICE },
			"no OpenCL driver; install pocl-opencl-icd", NULL);
		return 1;
	}
	if (!strcmp(how, "mute"))
		pause();
	if (!strcmp(how, "stubborn"))
		signal(SIGTERM, SIG_IGN);
	if (!strcmp(how, "late"))
		usleep(500 * 1000);
	engine_say(CONTROL_READY, 0, NULL, "ipc:///fake", "fake device");
	for (;;) {
		int fd;
		ssize_t n;

		if (!strcmp(how, "deaf"))
			pause();
		n = packet_receive(control, bytes, sizeof bytes, &fd, 0);
		if (n <= 0)
			return 0;
		engine_packet(bytes, (size_t)n, fd);
		if (fd >= 0)
			close(fd);
	}
}

/* ---- the supervisor under test ---- */

static pid_t supervisor;
static struct config_source source;

static void make_folder(void) {
	strcpy(folder, "/tmp/test_door_XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	snprintf(socket_path, sizeof socket_path, "%s/door", folder);
	snprintf(log_path, sizeof log_path, "%s/log", folder);
	setenv("FAKE_LOG", log_path, 1);
}

static char *flag(const char *name, const char *value) {
	static char flags[CONFIG_FLAGS][512];
	char *text = flags[source.flags];

	snprintf(text, sizeof flags[0], "%s=%s", name, value);
	ck_assert_int_eq(config_flag(&source, text), 0);
	return text;
}

/* check's own handler of SIGTERM would kill the test. */
static void become_supervisor(void) {
	signal(SIGTERM, SIG_DFL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (*said_path && !freopen(said_path, "w", stderr))
		_exit(10);
	exit(supervisor_run(&source, -1));
}

static void start(const char *how) {
	setenv("FAKE_ENGINE", how, 1);
	flag("door.socket", socket_path);
	flag("cache.dir", folder);
	flag("engine.path", program);
	flag("log.level", "error");
	flag("door.cleared_bytes", "0"); /* whose descriptors come and go */
	supervisor = fork();
	ck_assert_int_ge(supervisor, 0);
	if (!supervisor)
		become_supervisor();
}

static int wait_end(void) {
	int status;

	for (int ms = 0; ms < PATIENCE_MS; ms += 5) {
		if (waitpid(supervisor, &status, WNOHANG) == supervisor) {
			supervisor = 0;
			return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
		}
		usleep(5000);
	}
	ck_abort_msg("the supervisor does not end");
	return -1;
}

static void setup(void) {
	*said_path = *slow_path = 0;
	unsetenv("FAKE_KEEPS");
	source = (struct config_source){ .file = "/dev/null" };
	unsetenv("FAKE_DROP");
	make_folder();
}

static void reply_close(void);

static void teardown(void) {
	char command[128];

	reply_close();

	if (supervisor) {
		kill(supervisor, SIGTERM);
		wait_end();
	}
	snprintf(command, sizeof command, "rm -rf %s", folder);
	ck_assert_int_eq(system(command), 0);
}

static bool heard(const char *line) {
	char text[PACKET];
	FILE *file = fopen(log_path, "re");
	size_t n;

	if (!file)
		return false;
	n = fread(text, 1, sizeof text - 1, file);
	text[n] = 0;
	fclose(file);
	return strstr(text, line) != NULL;
}

static void wait_heard(const char *line) {
	for (int ms = 0; ms < PATIENCE_MS; ms += 5) {
		if (heard(line))
			return;
		usleep(5000);
	}
	ck_abort_msg("the engine never heard '%s'", line);
}

static unsigned descriptors(void) {
	return (unsigned)open_descriptors(supervisor);
}

/* The number once it has been the same for a while: the end of a session is told before it is over. */
static unsigned settled_descriptors(void) {
	unsigned n = descriptors();

	for (int same = 0, ms = 0; same < 20 && ms < PATIENCE_MS; ms += 5) {
		unsigned now = descriptors();

		same = now == n ? same + 1 : 0;
		n = now;
		usleep(5000);
	}
	return n;
}

static void wait_descriptors(unsigned n) {
	for (int ms = 0; ms < PATIENCE_MS && descriptors() != n; ms += 5)
		usleep(5000);
	ck_assert_uint_eq(descriptors(), n);
}

/* ---- clients ---- */

static int try_connect(void) {
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	strcpy(a.sun_path, socket_path);
	if (!connect(fd, (struct sockaddr *)&a, sizeof a))
		return fd;
	close(fd);
	return -1;
}

static int connect_door(void) {
	for (int ms = 0; ms < PATIENCE_MS; ms += 5) {
		int fd = try_connect();

		if (fd >= 0)
			return fd;
		usleep(5000);
	}
	ck_abort_msg("no door");
	return -1;
}

static struct reply {
	char bytes[PACKET];
	ssize_t size;
	int fd;
	struct wire_reader reader;
	struct wire_cursor body;
	uint64_t id;
} reply;

static void reply_close(void) {
	wire_close(&reply.reader);
}

/* Waits for a packet; false at the end of the stream. */
static bool receive(int fd) {
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct fault f;

	ck_assert_msg(poll(&p, 1, PATIENCE_MS) == 1, "no answer");
	reply_close();
	reply.size = packet_receive(fd, reply.bytes, sizeof reply.bytes, &reply.fd, 0);
	if (reply.size <= 0)
		return false;
	ck_assert_int_eq(wire_open(&reply.reader, reply.bytes, (size_t)reply.size, &f), 0);
	reply.body = wire_root(&reply.reader);
	ck_assert_int_eq(wire_get_uint(&reply.body, "id", UINT64_MAX, &reply.id, &f), 0);
	return true;
}

static uint64_t reply_number(void) {
	uint64_t n;
	struct fault f;

	ck_assert_msg(wire_get_uint(&reply.body, "number", UINT64_MAX, &n, &f) == 0, "%s", f.text);
	return n;
}

static const char *reply_text(void) {
	static char copy[PACKET];
	const char *text;
	size_t size;
	struct fault f;

	ck_assert_msg(wire_get_text(&reply.body, "text", PACKET, &text, &size, &f) == 0, "%s", f.text);
	snprintf(copy, sizeof copy, "%.*s", (int)size, text);
	return copy;
}

static const char *expect_fault(int fd, int code) {
	ck_assert(receive(fd));
	ck_assert_uint_eq(reply.id, MESSAGE_FAULT);
	ck_assert_uint_eq(reply_number(), (unsigned)code);
	return reply_text();
}

static void expect_closed(int fd) {
	ck_assert(!receive(fd));
	close(fd);
}

static void send_writer(int fd, struct wire_writer *w) {
	ck_assert_int_eq(packet_send(fd, w->buffer.data, w->buffer.size, -1, 0), 0);
	wire_writer_free(w);
}

static void send_numbers(int fd, unsigned count, const uint64_t *n) {
	struct wire_writer w;

	wire_writer_init(&w);
	wire_put_array(&w, count);
	for (unsigned i = 0; i < count; i++)
		wire_put_uint(&w, n[i]);
	send_writer(fd, &w);
}

/* What send_hello() offers: all there may ever be, but a ring. */
static uint64_t offered = UINT64_MAX & ~(uint64_t)(FEATURE_RING | FEATURE_RESUME);

static void put_hello(struct wire_writer *w, uint64_t version, const char *name, const char *option, const char *value) {
	wire_writer_init(w);
	wire_put_array(w, 5);
	wire_put_uint(w, DOOR_HELLO);
	wire_put_uint(w, version);
	wire_put_uint(w, offered);
	wire_put_text(w, name);
	wire_put_map(w, option != NULL);
	if (option) {
		wire_put_text(w, option);
		wire_put_text(w, value);
	}
}

static void send_hello(int fd, uint64_t version, const char *name, const char *option, const char *value) {
	struct wire_writer w;

	put_hello(&w, version, name, option, value);
	send_writer(fd, &w);
}

/* The connection may have been refused, and be closed. */
static void try_hello(int fd) {
	struct wire_writer w;

	put_hello(&w, PROTOCOL_VERSION, "greedy", NULL, NULL);
	(void)!packet_send(fd, w.buffer.data, w.buffer.size, -1, 0);
	wire_writer_free(&w);
}

/* Connects and greets; the session's number. */
static int greet(const char *name, uint64_t *sessionp) {
	int fd = connect_door();

	send_hello(fd, PROTOCOL_VERSION, name, NULL, NULL);
	ck_assert(receive(fd));
	ck_assert_msg(reply.id == DOOR_HELLO, "HELLO was answered by %d", (int)reply.id);
	ck_assert_uint_eq(reply_number(), PROTOCOL_VERSION);
	ck_assert_uint_eq(reply_number(), FEATURES_ALL);
	*sessionp = reply_number();
	return fd;
}

static uint64_t arena_new(int fd, uint64_t bytes) {
	uint64_t arena, got;

	send_numbers(fd, 2, (uint64_t[]){ DOOR_ARENA_NEW, bytes });
	ck_assert(receive(fd));
	ck_assert_uint_eq(reply.id, DOOR_ARENA_NEW);
	arena = reply_number();
	got = reply_number();
	ck_assert_uint_ge(got, bytes);
	ck_assert_int_ge(reply.fd, 0);
	ck_assert_int_eq(shm_check(reply.fd, got), 0);
	close(reply.fd);
	return arena;
}

/* ---- claims ---- */

START_TEST(hello_hands_out_session_secret_url_and_device) {
	const void *secret;
	uint64_t session;
	struct fault f;
	int fd;

	start("ready");
	fd = greet("test", &session);
	ck_assert_uint_ge(session, 1);
	ck_assert_int_eq(wire_get_bin(&reply.body, "secret", LIMIT_SECRET_BYTES, &secret, &f), 0);
	ck_assert_str_eq(reply_text(), "ipc:///fake");
	ck_assert_str_eq(reply_text(), "fake device");
	wait_heard("new 1\n");
	close(fd);
	wait_heard("end 1\n");
}
END_TEST

/* Greets with an offer of a ring; fd[] is what came with the answer. */
static uint64_t greet_for_ring(int door, int fd[PACKET_PAIR]) {
	static char bytes[PACKET];
	struct wire_reader reader;
	struct wire_cursor c;
	struct fault f;
	ssize_t n;
	uint64_t features;

	offered = FEATURES_ALL | FEATURE_RING;
	send_hello(door, PROTOCOL_VERSION, "ring", NULL, NULL);
	n = packet_receive_pair(door, bytes, sizeof bytes, fd, 0);
	ck_assert_int_gt((int)n, 0);
	ck_assert_int_eq(wire_open(&reader, bytes, (size_t)n, &f), 0);
	c = wire_root(&reader);
	ck_assert_uint_eq(number(&c), DOOR_HELLO);
	ck_assert_uint_eq(number(&c), PROTOCOL_VERSION);
	features = number(&c);
	wire_close(&reader);
	return features;
}

/* Through which nothing but a count can be sent: no descriptor, that whoever receives it would have to close. */
START_TEST(a_client_that_offers_a_ring_gets_sealed_memory_and_an_eventfd) {
	int fd[PACKET_PAIR], door;
	char kind[64] = "", path[64];

	start("ready");
	door = connect_door();
	ck_assert_uint_eq(greet_for_ring(door, fd), FEATURES_ALL | FEATURE_RING);
	ck_assert_int_eq(shm_check(fd[0], RING_BYTES), 0);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd[1]);
	ck_assert_int_gt(readlink(path, kind, sizeof kind - 1), 0);
	ck_assert_str_eq(kind, "anon_inode:[eventfd]");
	close(fd[0]);
	close(fd[1]);
	close(door);
}
END_TEST

START_TEST(nobody_gets_a_ring_where_the_administrator_wants_nng) {
	int fd[PACKET_PAIR], door;

	flag("fusion.transport", "nng");
	start("ready");
	door = connect_door();
	ck_assert_uint_eq(greet_for_ring(door, fd), FEATURES_ALL);
	ck_assert_int_eq(fd[0], -1);
	ck_assert_int_eq(fd[1], -1);
	close(door);
}
END_TEST

START_TEST(a_session_the_engine_calls_bad_is_closed_alone) {
	uint64_t session;
	int good, bad;

	start("ready");
	good = greet("good", &session);
	bad = greet("nonsense", &session);
	expect_closed(bad);
	wait_heard("end 2\n");
	send_numbers(good, 2, (uint64_t[]){ DOOR_ARENA_NEW, 4096 });
	ck_assert(receive(good));
	ck_assert_uint_eq(reply.id, DOOR_ARENA_NEW);
	close(reply.fd);
	close(good);
}
END_TEST

START_TEST(secrets_of_two_sessions_differ) {
	unsigned char first[LIMIT_SECRET_BYTES];
	const void *secret;
	uint64_t session;
	struct fault f;
	int a, b;

	start("ready");
	a = greet("a", &session);
	ck_assert_int_eq(wire_get_bin(&reply.body, "secret", LIMIT_SECRET_BYTES, &secret, &f), 0);
	memcpy(first, secret, sizeof first);
	b = greet("b", &session);
	ck_assert_int_eq(wire_get_bin(&reply.body, "secret", LIMIT_SECRET_BYTES, &secret, &f), 0);
	ck_assert_mem_ne(first, secret, sizeof first);
	close(a);
	close(b);
}
END_TEST

START_TEST(another_version_is_refused_with_both_named) {
	char version[16];
	const char *sentence;
	int fd;

	start("ready");
	fd = connect_door();
	send_hello(fd, PROTOCOL_VERSION + 41, "future", NULL, NULL);
	sentence = expect_fault(fd, FAULT_VERSION);
	snprintf(version, sizeof version, "version %d", PROTOCOL_VERSION + 41);
	ck_assert_msg(strstr(sentence, version) != NULL, "%s", sentence);
	snprintf(version, sizeof version, "version %d", PROTOCOL_VERSION);
	ck_assert_msg(strstr(sentence, version) != NULL, "%s", sentence);
	expect_closed(fd);
}
END_TEST

/* HELLO of a client that speaks from the oldest to the newest, with so many values of a later release behind it. */
static void send_range(int fd, uint64_t oldest, uint64_t newest, unsigned more) {
	struct wire_writer w;

	wire_writer_init(&w);
	wire_put_array(&w, 5 + more);
	wire_put_uint(&w, DOOR_HELLO);
	wire_put_array(&w, 2);
	wire_put_uint(&w, oldest);
	wire_put_uint(&w, newest);
	wire_put_uint(&w, FEATURES_ALL);
	wire_put_text(&w, "range");
	wire_put_map(&w, 0);
	for (unsigned i = 0; i < more; i++)
		wire_put_array(&w, 0);
	send_writer(fd, &w);
}

START_TEST(a_client_of_another_release_is_spoken_to_in_a_version_of_both) {
	uint8_t operations[MESSAGE_OPERATIONS];
	const void *bits;
	struct fault f;
	int fd;

	start("ready");
	fd = connect_door();
	send_range(fd, 1, PROTOCOL_VERSION + 8, 3);
	ck_assert(receive(fd));
	ck_assert_uint_eq(reply.id, DOOR_HELLO);
	ck_assert_uint_eq(reply_number(), PROTOCOL_VERSION);
	ck_assert_uint_eq(reply_number(), FEATURES_ALL);
	reply_number();
	ck_assert_int_eq(wire_get_bin(&reply.body, "secret", LIMIT_SECRET_BYTES, &bits, &f), 0);
	reply_text();
	reply_text();
	ck_assert_uint_eq(reply_number(), 0);
	ck_assert_uint_eq(reply_number(), 1);
	ck_assert_str_eq(reply_text(), FUSIOND_VERSION);
	ck_assert_int_eq(wire_get_bin(&reply.body, "operations", sizeof operations, &bits, &f), 0);
	message_operations(operations);
	ck_assert_mem_eq(bits, operations, sizeof operations);
	close(fd);
}
END_TEST

static void expect_refusal(uint64_t oldest, uint64_t newest, int code, const char *part) {
	int fd = connect_door();
	const char *sentence;

	send_range(fd, oldest, newest, 0);
	sentence = expect_fault(fd, code);
	ck_assert_msg(strstr(sentence, part) != NULL, "%s", sentence);
	expect_closed(fd);
}

START_TEST(versions_that_do_not_meet_are_refused_with_what_is_too_old) {
	start("ready");
	expect_refusal(PROTOCOL_VERSION + 1, PROTOCOL_VERSION + 3, FAULT_VERSION, "speaks versions 2 to 4 of the protocol, fusiond " FUSIOND_VERSION " version 1: install a newer fusiond");
	expect_refusal(0, PROTOCOL_OLDEST - 1, FAULT_VERSION, "install a newer libfusion");
	expect_refusal(9, 2, FAULT_PROTOCOL, "the oldest version, 9, is above the newest, 2");
}
END_TEST

START_TEST(a_version_whose_greeting_has_another_form_is_refused_by_its_version) {
	int fd;

	start("ready");
	fd = connect_door();
	send_numbers(fd, 2, (uint64_t[]){ DOOR_HELLO, 99 });
	expect_fault(fd, FAULT_VERSION);
	expect_closed(fd);
}
END_TEST

START_TEST(a_silent_connection_is_closed) {
	int fd;

	flag("door.hello_us", "50ms");
	start("ready");
	fd = connect_door();
	expect_closed(fd);
}
END_TEST

START_TEST(a_session_that_says_nothing_after_its_greeting_stays) {
	uint64_t session;
	int fd;

	flag("door.hello_us", "1s");
	start("ready");
	fd = greet("quiet", &session);
	usleep(1500 * 1000);
	arena_new(fd, 1);
	close(fd);
}
END_TEST

START_TEST(hello_waits_for_an_engine_that_starts_late) {
	uint64_t session;
	int fd;

	start("late");
	fd = greet("early", &session);
	close(fd);
}
END_TEST

START_TEST(status_needs_no_engine_and_no_hello) {
	cJSON *json;
	int fd;

	start("mute");
	fd = connect_door();
	send_numbers(fd, 1, (uint64_t[]){ DOOR_STATUS });
	ck_assert(receive(fd));
	ck_assert_uint_eq(reply.id, DOOR_STATUS);
	json = cJSON_Parse(reply_text());
	ck_assert_ptr_nonnull(json);
	ck_assert_str_eq(
		cJSON_GetObjectItem(cJSON_GetArrayItem(cJSON_GetObjectItem(json, "engines"), 0), "state")->valuestring, "starting");
	cJSON_Delete(json);
	close(fd);
	kill(supervisor, SIGKILL);
	wait_end();
}
END_TEST

START_TEST(status_lists_sessions_with_their_memory) {
	uint64_t session;
	cJSON *json, *list;
	int fd;

	start("ready");
	fd = greet("na\033me", &session);
	arena_new(fd, 8192);
	send_numbers(fd, 1, (uint64_t[]){ DOOR_STATUS });
	ck_assert(receive(fd));
	json = cJSON_Parse(reply_text());
	list = cJSON_GetObjectItem(json, "sessions");
	ck_assert_int_eq(cJSON_GetArraySize(list), 1);
	ck_assert_str_eq(cJSON_GetObjectItem(cJSON_GetArrayItem(list, 0), "name")->valuestring, "na?me");
	ck_assert_int_eq(cJSON_GetObjectItem(cJSON_GetArrayItem(list, 0), "bytes")->valueint, 8192);
	ck_assert_int_eq(cJSON_GetObjectItem(cJSON_GetArrayItem(list, 0), "pid")->valueint, getpid());
	cJSON_Delete(json);
	close(fd);
}
END_TEST

START_TEST(an_arena_goes_to_the_engine_before_the_client) {
	uint64_t session;
	int fd;

	start("ready");
	fd = greet("test", &session);
	ck_assert_uint_eq(arena_new(fd, 5000), 1);
	wait_heard("arena 1 1 8192\n");
	ck_assert_uint_eq(arena_new(fd, 1), 2);
	wait_heard("arena 1 2 4096\n");
	close(fd);
}
END_TEST

/* It would be made apart, and cannot even be begun. */
START_TEST(an_arena_that_the_machine_has_no_memory_for_is_forgotten) {
	const uint64_t large = INT64_C(1) << 39;
	uint64_t session;
	int fd;

	flag("limits.session_bytes", "2T");
	flag("limits.user_bytes", "2T");
	start("ready");
	fd = greet("test", &session);
	for (uint64_t turn = 1; turn <= 3; turn++) {
		send_numbers(fd, 2, (uint64_t[]){ DOOR_ARENA_NEW, large });
		expect_fault(fd, FAULT_MEMORY);
		ck_assert_uint_eq(arena_new(fd, 1 << 20), turn);
	}
	close(fd);
}
END_TEST

START_TEST(an_arena_the_engine_wants_can_be_fetched) {
	uint64_t session;
	int fd;

	start("ready");
	fd = greet("want", &session);
	wait_heard("made 1 1 102400\n");
	send_numbers(fd, 2, (uint64_t[]){ DOOR_ARENA_GET, 1 });
	ck_assert(receive(fd));
	ck_assert_uint_eq(reply.id, DOOR_ARENA_GET);
	ck_assert_uint_eq(reply_number(), 1);
	ck_assert_uint_eq(reply_number(), 102400);
	ck_assert_int_eq(shm_check(reply.fd, 102400), 0);
	close(reply.fd);
	send_numbers(fd, 2, (uint64_t[]){ DOOR_ARENA_GET, 2 });
	expect_fault(fd, FAULT_HANDLE);
	close(fd);
}
END_TEST

START_TEST(an_arena_of_another_session_cannot_be_fetched) {
	uint64_t session;
	int a, b;

	start("ready");
	a = greet("want", &session);
	wait_heard("made 1 1");
	b = greet("thief", &session);
	send_numbers(b, 2, (uint64_t[]){ DOOR_ARENA_GET, 1 });
	expect_fault(b, FAULT_HANDLE);
	close(a);
	close(b);
}
END_TEST

START_TEST(a_dropped_arena_is_given_back) {
	uint64_t session;
	unsigned before;
	int fd;

	setenv("FAKE_DROP", "1", 1);
	start("ready");
	fd = greet("first", &session);
	before = settled_descriptors();
	close(fd);
	fd = greet("want", &session);
	wait_heard("made 2 1");
	wait_descriptors(before);
	send_numbers(fd, 2, (uint64_t[]){ DOOR_ARENA_GET, 1 });
	expect_fault(fd, FAULT_HANDLE);
	close(fd);
}
END_TEST

START_TEST(a_wish_beyond_the_limit_is_refused_to_the_engine) {
	uint64_t session;
	int fd;

	flag("limits.session_bytes", "1M");
	start("ready");
	fd = greet("much", &session);
	wait_heard("refused 1\n");
	close(fd);
}
END_TEST

START_TEST(memory_beyond_the_limits_is_refused_and_given_back_at_the_end) {
	uint64_t session;
	int a, b;

	flag("limits.session_bytes", "64K");
	flag("limits.user_bytes", "96K");
	start("ready");
	a = greet("a", &session);
	arena_new(a, 60 << 10);
	send_numbers(a, 2, (uint64_t[]){ DOOR_ARENA_NEW, 8 << 10 });
	ck_assert_ptr_nonnull(strstr(expect_fault(a, FAULT_MEMORY), "limits.session_bytes"));
	b = greet("b", &session);
	send_numbers(b, 2, (uint64_t[]){ DOOR_ARENA_NEW, 60 << 10 });
	ck_assert_ptr_nonnull(strstr(expect_fault(b, FAULT_MEMORY), "limits.user_bytes"));
	close(a);
	wait_heard("end 1\n");
	arena_new(b, 60 << 10);
	close(b);
}
END_TEST

static void make_file(const char *path) {
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	ck_assert_int_ge(fd, 0);
	close(fd);
}

/* A number that USERS tells of the test's user. */
static uint64_t of_user(const char *name) {
	int fd = connect_door();
	cJSON *json;
	double n;

	send_numbers(fd, 1, (uint64_t[]){ DOOR_USERS });
	ck_assert(receive(fd));
	ck_assert_uint_eq(reply.id, DOOR_USERS);
	json = cJSON_Parse(reply_text());
	n = cJSON_GetNumberValue(cJSON_GetObjectItem(cJSON_GetArrayItem(cJSON_GetObjectItem(json, "users"), 0), name));
	cJSON_Delete(json);
	close(fd);
	return (uint64_t)n;
}

static void wait_of_user(const char *name, uint64_t wanted) {
	uint64_t n = of_user(name);

	for (int ms = 0; ms < PATIENCE_MS && n != wanted; ms += 5) {
		usleep(5000);
		n = of_user(name);
	}
	ck_assert_uint_eq(n, wanted);
}

static void expect_status(void);

/* Those that go meanwhile leave nothing. */
START_TEST(who_waits_for_memory_holds_up_nobody) {
	int fd[4], other;
	uint64_t session;
	unsigned at_rest;

	snprintf(slow_path, sizeof slow_path, "%s/slow", folder);
	make_file(slow_path);
	start("ready");
	other = greet("other", &session);
	at_rest = settled_descriptors();
	for (int i = 0; i < 4; i++) {
		fd[i] = greet("asks", &session);
		send_numbers(fd[i], 2, (uint64_t[]){ DOOR_ARENA_NEW, 64 << 20 });
	}
	arena_new(other, 4096);
	expect_status();
	for (int i = 1; i < 4; i++)
		close(fd[i]);
	wait_of_user("bytes", (64 << 20) + 4096);
	ck_assert_int_eq(recv(fd[0], &session, 1, MSG_DONTWAIT | MSG_PEEK), -1);
	unlink(slow_path);
	ck_assert(receive(fd[0]));
	ck_assert_uint_eq(reply.id, DOOR_ARENA_NEW);
	close(reply.fd);
	close(fd[0]);
	wait_of_user("bytes", 4096);
	/* That of the other's arena. */
	wait_descriptors(at_rest + 1);
	close(other);
}
END_TEST

/* However it goes: its pages are its user's until they are given back, also those that a process still maps. */
START_TEST(memory_of_a_session_that_ended_is_charged_until_the_engine_has_left_it) {
	char keeps[128];
	uint64_t session;
	struct stat st;
	void *memory;
	int a, b, kept;

	snprintf(keeps, sizeof keeps, "%s/keeps", folder);
	setenv("FAKE_KEEPS", keeps, 1);
	make_file(keeps);
	flag("limits.user_bytes", "96K");
	start("ready");
	a = greet("a", &session);
	b = greet("b", &session);
	send_numbers(a, 2, (uint64_t[]){ DOOR_ARENA_NEW, 60 << 10 });
	ck_assert(receive(a));
	kept = reply.fd;
	ck_assert_int_eq(shm_map(kept, 60 << 10, NULL, &memory), 0);
	close(a);
	wait_heard("end 1\n");
	wait_of_user("bytes_leaving", 60 << 10);
	send_numbers(b, 2, (uint64_t[]){ DOOR_ARENA_NEW, 60 << 10 });
	ck_assert_uint_eq(of_user("bytes"), 60 << 10);
	ck_assert_int_eq(recv(b, &session, 1, MSG_DONTWAIT | MSG_PEEK), -1);
	unlink(keeps);
	ck_assert(receive(b));
	ck_assert_uint_eq(reply.id, DOOR_ARENA_NEW);
	close(reply.fd);
	ck_assert_int_eq(fstat(kept, &st), 0);
	ck_assert_uint_eq((uint64_t)st.st_blocks, 0);
	munmap(memory, 60 << 10);
	close(kept);
	close(b);
	wait_of_user("bytes", 0);
}
END_TEST

/* It would go on to map what it is charged for no more. */
START_TEST(memory_of_a_client_that_closes_half_its_socket_is_given_back) {
	uint64_t session;
	struct stat st;
	int a, kept;

	flag("limits.user_bytes", "96K");
	start("ready");
	a = greet("a", &session);
	send_numbers(a, 2, (uint64_t[]){ DOOR_ARENA_NEW, 60 << 10 });
	ck_assert(receive(a));
	kept = reply.fd;
	ck_assert_int_eq(fstat(kept, &st), 0);
	ck_assert_uint_gt((uint64_t)st.st_blocks, 0);
	ck_assert_int_eq(shutdown(a, SHUT_WR), 0);
	wait_heard("end 1\n");
	wait_of_user("bytes", 0);
	ck_assert_int_eq(fstat(kept, &st), 0);
	ck_assert_uint_eq((uint64_t)st.st_blocks, 0);
	close(kept);
	close(a);
}
END_TEST

START_TEST(memory_of_a_session_goes_with_its_engine) {
	char keeps[128];
	uint64_t session;
	int a;

	snprintf(keeps, sizeof keeps, "%s/keeps", folder);
	setenv("FAKE_KEEPS", keeps, 1);
	make_file(keeps);
	start("ready");
	a = greet("a", &session);
	arena_new(a, 60 << 10);
	close(a);
	wait_heard("end 1\n");
	wait_of_user("bytes_leaving", 60 << 10);
	a = greet("die", &session);
	unlink(keeps);
	close(a);
	wait_of_user("bytes", 0);
}
END_TEST

/* As another user. */
static int greet_as(uid_t uid) {
	uint64_t session;
	int fd;

	ck_assert_int_eq(seteuid(uid), 0);
	fd = greet("other", &session);
	ck_assert_int_eq(seteuid(0), 0);
	return fd;
}

/* Sessions, or some and arenas: takes until it is refused. How many connections that were. */
static unsigned take_descriptors(int fd[static 256], unsigned sessions) {
	unsigned n = 0, arenas = 0;

	do {
		ck_assert_uint_lt(n, 256);
		if (n < sessions) {
			fd[n] = connect_door();
			try_hello(fd[n++]);
		} else {
			fd[255] = fd[arenas++ % sessions];
			send_numbers(fd[255], 2, (uint64_t[]){ DOOR_ARENA_NEW, 4096 });
		}
		ck_assert(receive(n < sessions || !arenas ? fd[n - 1] : fd[255]));
		if (reply.fd >= 0)
			close(reply.fd);
	} while (reply.id != MESSAGE_FAULT);
	ck_assert_uint_eq(reply_number(), FAULT_LIMIT);
	ck_assert_ptr_nonnull(strstr(reply_text(), "limits.user_descriptors"));
	return n;
}

START_TEST(descriptors_of_one_user_are_limited_and_others_find_theirs) {
	const struct rlimit limit = { 400, 400 };
	int greedy[256], other[8];
	unsigned n;

	if (geteuid())
		SKIP("only root can be several users");
	ck_assert_int_eq(chmod(folder, 0755), 0);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	start("ready");
	n = take_descriptors(greedy, _i ? 3 : 250);
	for (unsigned i = 0; i < 8; i++)
		other[i] = greet_as(12345);
	for (unsigned i = 0; i < 8; i++)
		arena_new(other[i], 4096);
	while (n--)
		close(greedy[n]);
	for (unsigned i = 0; i < 8; i++)
		close(other[i]);
	wait_of_user("descriptors", 1);
}
END_TEST

START_TEST(descriptors_beyond_the_users_limit_are_refused) {
	uint64_t session;
	int a, b;

	flag("limits.user_descriptors", "8");
	start("ready");
	a = greet("a", &session);
	b = greet("b", &session);
	arena_new(a, 4096);
	arena_new(b, 4096);
	send_numbers(a, 2, (uint64_t[]){ DOOR_ARENA_NEW, 4096 });
	ck_assert_ptr_nonnull(strstr(expect_fault(a, FAULT_LIMIT), "limits.user_descriptors"));
	close(b);
	wait_heard("end 2\n");
	wait_of_user("descriptors", 5);
	arena_new(a, 4096);
	close(a);
}
END_TEST

START_TEST(more_arenas_than_the_protocol_allows_are_refused) {
	uint64_t session;
	int fd;

	start("ready");
	fd = greet("many", &session);
	for (unsigned i = 0; i < LIMIT_ARENAS - LIMIT_SHARED; i++)
		arena_new(fd, 4096);
	send_numbers(fd, 2, (uint64_t[]){ DOOR_ARENA_NEW, 4096 });
	expect_fault(fd, FAULT_LIMIT);
	close(fd);
}
END_TEST

START_TEST(sessions_beyond_the_users_limit_are_refused) {
	uint64_t session;
	int a, b, c;

	flag("limits.sessions_per_user", "2");
	start("ready");
	a = greet("a", &session);
	b = greet("b", &session);
	c = connect_door();
	send_hello(c, PROTOCOL_VERSION, "c", NULL, NULL);
	ck_assert_ptr_nonnull(strstr(expect_fault(c, FAULT_LIMIT), "limits.sessions_per_user"));
	close(a);
	wait_heard("end 1\n");
	send_hello(c, PROTOCOL_VERSION, "c", NULL, NULL);
	ck_assert(receive(c));
	ck_assert_uint_eq(reply.id, DOOR_HELLO);
	close(b);
	close(c);
}
END_TEST

START_TEST(connections_beyond_the_limit_are_told_and_closed) {
	uint64_t session;
	int fd[32];
	unsigned n = 0;

	flag("door.connections", "4");
	start("ready");
	while (n < 4)
		fd[n++] = greet("one", &session);
	fd[n] = connect_door();
	ck_assert_ptr_nonnull(strstr(expect_fault(fd[n], FAULT_LIMIT), "door.connections"));
	expect_closed(fd[n]);
	while (n--)
		close(fd[n]);
}
END_TEST

START_TEST(at_the_limit_silent_connections_make_room) {
	uint64_t session;
	int fd[5];

	flag("door.connections", "4");
	start("ready");
	fd[0] = greet("one", &session);
	for (int i = 1; i < 4; i++)
		fd[i] = connect_door();
	fd[4] = greet("two", &session);
	expect_closed(fd[1]);
	send_hello(fd[2], PROTOCOL_VERSION, "three", NULL, NULL);
	ck_assert(receive(fd[2]));
	ck_assert_uint_eq(reply.id, DOOR_HELLO);
	close(fd[0]);
	for (int i = 2; i < 5; i++)
		close(fd[i]);
}
END_TEST

START_TEST(what_is_no_packet_of_the_protocol_is_refused_and_closed) {
	static const char *const garbage[] = { "\xc1", "hello", "\x90", "\x91\x63",
		"\x95\x01\x01\x01\x01\x01", "\xdd\xff\xff\xff\xff" };

	start("ready");
	for (unsigned i = 0; i < sizeof garbage / sizeof *garbage; i++) {
		int fd = connect_door();

		ck_assert_int_eq(packet_send(fd, garbage[i], strlen(garbage[i]), -1, 0), 0);
		expect_fault(fd, FAULT_PROTOCOL);
		expect_closed(fd);
	}
}
END_TEST

START_TEST(a_packet_that_is_too_long_is_refused) {
	static char much[60000];
	int fd;

	start("ready");
	fd = connect_door();
	ck_assert_int_eq(packet_send(fd, much, sizeof much, -1, 0), 0);
	expect_fault(fd, FAULT_PROTOCOL);
	expect_closed(fd);
}
END_TEST

/* A connection whose last close waits until the other end has taken what it never takes. */
static int lingering_socket(int *peerp) {
	static const struct linger long_time = { 1, 3600 };
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t size = sizeof a;
	static char much[1 << 16];

	ck_assert_int_eq(bind(listener, (struct sockaddr *)&a, sizeof a), 0);
	ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&a, &size), 0);
	ck_assert_int_eq(listen(listener, 1), 0);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
	*peerp = accept(listener, NULL, NULL);
	close(listener);
	while (send(fd, much, sizeof much, MSG_DONTWAIT) > 0)
		;
	ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_LINGER, &long_time, sizeof long_time), 0);
	return fd;
}

static void expect_status(void) {
	int fd = connect_door();

	send_numbers(fd, 1, (uint64_t[]){ DOOR_STATUS });
	ck_assert(receive(fd));
	ck_assert_uint_eq(reply.id, DOOR_STATUS);
	close(fd);
}

enum { BLOCKERS = 8 };

/* A process that sends it twice, says whether it could, and stays: whose close is the last must not be the test. */
static pid_t send_lingering(int door, bool *sentp) {
	int said[2], peer, fd;
	char word = 'n';
	pid_t child;

	ck_assert_int_eq(pipe(said), 0);
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fd = lingering_socket(&peer);
		if (!packet_send(door, "x", 1, fd, 0)) {
			(void)!packet_send(door, "y", 1, fd, 0);
			word = 'y';
		}
		(void)!write(said[1], &word, 1);
		close(fd);
		pause();
		_exit(0);
	}
	close(said[1]);
	ck_assert_int_eq(read(said[0], &word, 1), 1);
	close(said[0]);
	*sentp = word == 'y';
	return child;
}

/* Where the kernel refuses such packets itself, and where it does not. */
START_TEST(a_descriptor_that_cannot_be_closed_holds_up_nobody) {
	int door[BLOCKERS];
	pid_t child[BLOCKERS];
	unsigned at_rest;
	bool sent;

	old_kernel = _i;
	start("ready");
	expect_status();
	at_rest = settled_descriptors();
	for (int i = 0; i < BLOCKERS; i++) {
		door[i] = i % 2 ? greet("blocks", &(uint64_t){ 0 }) : connect_door();
		child[i] = send_lingering(door[i], &sent);
		ck_assert(sent || !_i);
		expect_status();
		/* Told, if the end of a socket with something unread in it does not come first. */
		if (sent && receive(door[i]))
			ck_assert_ptr_nonnull(strstr(reply_number() == FAULT_PROTOCOL ? reply_text() : "", "descriptors"));
	}
	for (int i = 0; i < BLOCKERS; i++) {
		close(door[i]);
		expect_status();
	}
	/* With the other ends gone all of it is given back. */
	for (int i = 0; i < BLOCKERS; i++) {
		kill(child[i], SIGKILL);
		waitpid(child[i], NULL, 0);
	}
	wait_descriptors(at_rest);
	expect_status();
}
END_TEST

START_TEST(arenas_need_a_session) {
	int fd;

	start("ready");
	fd = connect_door();
	send_numbers(fd, 2, (uint64_t[]){ DOOR_ARENA_NEW, 4096 });
	expect_fault(fd, FAULT_STATE);
	close(fd);
}
END_TEST

START_TEST(options_that_are_no_settings_of_a_session_are_refused) {
	int fd;

	start("ready");
	fd = connect_door();
	send_hello(fd, PROTOCOL_VERSION, "x", "fusion.enabled", "maybe");
	expect_fault(fd, FAULT_ARGUMENT);
	send_hello(fd, PROTOCOL_VERSION, "x", "limits.user_bytes", "1T");
	expect_fault(fd, FAULT_ARGUMENT);
	send_hello(fd, PROTOCOL_VERSION, "x", "fusion.enabled", "no");
	ck_assert(receive(fd));
	ck_assert_uint_eq(reply.id, DOOR_HELLO);
	close(fd);
}
END_TEST

START_TEST(a_killed_client_leaves_nothing) {
	uint64_t session;
	unsigned before;
	pid_t client;
	int fd;

	start("ready");
	fd = greet("first", &session);
	close(fd);
	wait_heard("end 1\n");
	before = settled_descriptors();
	client = fork();
	if (!client) {
		fd = greet("victim", &session);
		for (int i = 0; i < 10; i++)
			arena_new(fd, 1 << 20);
		raise(SIGKILL);
	}
	waitpid(client, NULL, 0);
	wait_heard("end 2\n");
	wait_descriptors(before);
}
END_TEST

START_TEST(sessions_end_with_their_engine_and_another_is_started) {
	uint64_t session;
	int a, b;

	start("ready");
	a = greet("bystander", &session);
	b = connect_door();
	send_hello(b, PROTOCOL_VERSION, "die", NULL, NULL);
	expect_closed(a);
	a = greet("next", &session);
	ck_assert_uint_ge(session, 2);
	close(a);
	close(b);
}
END_TEST

START_TEST(an_engine_that_cannot_start_ends_the_daemon) {
	start("failed");
	ck_assert_int_eq(wait_end(), EXIT_FAILURE);
	ck_assert_int_ne(access(socket_path, F_OK), 0);
}
END_TEST

/* Its engine neither answers nor ends; the deadline that he waits for next is his own alone. */
START_TEST(who_goes_on_waiting_for_an_engine_is_looked_at_again) {
	static struct supervisor s = { .stopping = true };
	static struct client c = { .supervisor = &s, .hello = true, .deadline_us = 1 };

	s.clients = &c;
	ck_assert_uint_eq(clients_tick(&s, loop_now()), c.deadline_us);
	ck_assert_uint_gt(c.deadline_us, loop_now());
	ck_assert_uint_eq(s.silent_us, c.deadline_us);
}
END_TEST

static void expect_said(const char *words) {
	char text[PACKET] = "";
	FILE *file = fopen(said_path, "re");

	ck_assert_ptr_nonnull(file);
	text[fread(text, 1, sizeof text - 1, file)] = 0;
	fclose(file);
	ck_assert_msg(strstr(text, words) != NULL, "not \"%s\" but \"%s\"", words, text);
}

START_TEST(why_an_engine_cannot_start_is_told_whatever_it_left_unread) {
	snprintf(said_path, sizeof said_path, "%s/said", folder);
	start("failed unread");
	ck_assert_int_eq(wait_end(), EXIT_FAILURE);
	expect_said("no OpenCL driver; install pocl-opencl-icd");
}
END_TEST

static void expect_limit(__rlimit_resource_t which, rlim_t most, const char *words) {
	struct rlimit limit = { most, most };

	snprintf(said_path, sizeof said_path, "%s/said", folder);
	setrlimit(which, &limit);
	start("ready");
	ck_assert_int_eq(wait_end(), EXIT_FAILURE);
	expect_said(words);
}

START_TEST(a_limit_of_files_is_named) {
	expect_limit(RLIMIT_FSIZE, 1 << 20, "memory that is shared counts as files");
}
END_TEST

START_TEST(a_limit_of_descriptors_is_named) {
	expect_limit(RLIMIT_NOFILE, 16, "16 descriptors may be open here, and 128 are the least: ulimit -n");
}
END_TEST

START_TEST(a_limit_of_addresses_is_named) {
	expect_limit(RLIMIT_AS, (rlim_t)4 << 30, "a process may have 4096 MiB of addresses here");
}
END_TEST

START_TEST(an_engine_that_crashes_at_start_ends_the_daemon) {
	start("crash");
	ck_assert_int_eq(wait_end(), EXIT_FAILURE);
}
END_TEST

START_TEST(an_engine_that_is_never_ready_ends_the_daemon) {
	flag("engine.start_us", "100ms");
	start("mute");
	ck_assert_int_eq(wait_end(), EXIT_FAILURE);
}
END_TEST

START_TEST(sigterm_stops_cleanly_and_leaves_no_file) {
	char path[128];
	uint64_t session;
	int fd;

	start("ready");
	fd = greet("test", &session);
	kill(supervisor, SIGTERM);
	expect_closed(fd);
	ck_assert_int_eq(wait_end(), EXIT_SUCCESS);
	ck_assert_int_ne(access(socket_path, F_OK), 0);
	snprintf(path, sizeof path, "%s.d", socket_path);
	ck_assert_int_ne(access(path, F_OK), 0);
}
END_TEST

START_TEST(an_engine_that_ignores_sigterm_is_killed) {
	uint64_t session;
	int fd;

	flag("engine.stop_us", "100ms");
	start("stubborn");
	fd = greet("test", &session);
	kill(supervisor, SIGTERM);
	ck_assert_int_eq(wait_end(), EXIT_SUCCESS);
	close(fd);
}
END_TEST

START_TEST(sighup_reads_the_configuration_again) {
	char path[128];
	uint64_t session;
	FILE *file;
	int fd, other;

	snprintf(path, sizeof path, "%s/conf", folder);
	source.file = path;
	file = fopen(path, "we");
	fclose(file);
	start("ready");
	fd = greet("a", &session);
	file = fopen(path, "we");
	fputs("[limits]\nsessions_per_user = 1\n", file);
	fclose(file);
	kill(supervisor, SIGHUP);
	wait_heard("reload\n");
	other = connect_door();
	send_hello(other, PROTOCOL_VERSION, "b", NULL, NULL);
	expect_fault(other, FAULT_LIMIT);
	close(fd);
	close(other);
}
END_TEST

START_TEST(a_second_daemon_at_the_same_socket_is_refused) {
	pid_t first;
	uint64_t session;
	int fd;

	start("ready");
	fd = greet("test", &session);
	first = supervisor;
	supervisor = fork();
	if (!supervisor)
		become_supervisor();
	ck_assert_int_eq(wait_end(), EXIT_FAILURE);
	supervisor = first;
	arena_new(fd, 1);
	close(fd);
}
END_TEST

START_TEST(the_socket_of_a_dead_daemon_is_taken_over) {
	uint64_t session;
	int fd;

	start("ready");
	fd = greet("test", &session);
	kill(supervisor, SIGKILL);
	wait_end();
	close(fd);
	source.flags = 0;
	start("ready");
	fd = greet("test", &session);
	close(fd);
}
END_TEST

START_TEST(the_engine_dies_with_the_supervisor) {
	uint64_t session;
	cJSON *json;
	pid_t engine;
	int fd;

	start("stubborn");
	fd = greet("test", &session);
	send_numbers(fd, 1, (uint64_t[]){ DOOR_STATUS });
	ck_assert(receive(fd));
	json = cJSON_Parse(reply_text());
	engine = cJSON_GetObjectItem(cJSON_GetArrayItem(cJSON_GetObjectItem(json, "engines"), 0), "pid")->valueint;
	cJSON_Delete(json);
	ck_assert_int_eq(kill(engine, 0), 0);
	kill(supervisor, SIGKILL);
	wait_end();
	for (int ms = 0; ms < PATIENCE_MS && !kill(engine, 0); ms += 5) {
		char path[64], state[256] = "";
		FILE *file;

		/* Where nobody reaps orphans it stays as a zombie, which is dead too. */
		snprintf(path, sizeof path, "/proc/%d/stat", (int)engine);
		file = fopen(path, "re");
		if (!file || !fgets(state, sizeof state, file) || strstr(state, ") Z")) {
			if (file)
				fclose(file);
			break;
		}
		fclose(file);
		ck_assert_int_lt(ms, PATIENCE_MS - 5);
		usleep(5000);
	}
	close(fd);
}
END_TEST

/* The engine reads nothing: the control socket fills, requests wait, nobody is refused or lost. */
START_TEST(an_engine_that_does_not_read_stalls_only_what_needs_it) {
	int fd[600], status;
	unsigned n;

	flag("limits.sessions_per_user", "1000");
	start("deaf");
	for (n = 0; n < 600; n++) {
		fd[n] = connect_door();
		send_hello(fd[n], PROTOCOL_VERSION, "crowd", NULL, NULL);
	}
	status = connect_door();
	send_numbers(status, 1, (uint64_t[]){ DOOR_STATUS });
	ck_assert(receive(status));
	ck_assert_uint_eq(reply.id, DOOR_STATUS);
	while (n--)
		close(fd[n]);
	send_numbers(status, 1, (uint64_t[]){ DOOR_STATUS });
	ck_assert(receive(status));
	ck_assert_uint_eq(reply.id, DOOR_STATUS);
	close(status);
}
END_TEST

/* What the service manager would hear: a datagram socket in its place. */
static int listen_manager(void) {
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	struct timeval patience = { .tv_sec = PATIENCE_MS / 1000 };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	snprintf(a.sun_path, sizeof a.sun_path, "%s/notify", folder);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
	ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
	setenv("NOTIFY_SOCKET", a.sun_path, 1);
	return fd;
}

static void manager_hears(int fd, const char *what) {
	char text[512] = "";

	while (!strstr(text, what)) {
		ssize_t n = recv(fd, text, sizeof text - 1, 0);

		ck_assert_msg(n > 0, "the service manager never heard %s", what);
		text[n] = 0;
	}
}

START_TEST(the_service_manager_hears_of_every_state) {
	int fd = listen_manager();

	setenv("WATCHDOG_USEC", "100000", 1);
	start("late");
	manager_hears(fd, "WATCHDOG=1");
	manager_hears(fd, "READY=1");
	manager_hears(fd, "WATCHDOG=1");
	kill(supervisor, SIGHUP);
	manager_hears(fd, "RELOADING=1");
	manager_hears(fd, "READY=1");
	kill(supervisor, SIGTERM);
	manager_hears(fd, "STOPPING=1");
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_USEC");
	close(fd);
}
END_TEST

START_TEST(the_service_manager_is_told_who_is_served) {
	int manager = listen_manager(), fd;

	start("late");
	manager_hears(manager, "STATUS=engine 0 starts; sessions: 0 of users: 0");
	manager_hears(manager, "STATUS=fake device");
	fd = connect_door();
	send_hello(fd, PROTOCOL_VERSION, "one", NULL, NULL);
	manager_hears(manager, "; sessions: 1 of users: 1");
	close(fd);
	manager_hears(manager, "; sessions: 0 of users: 0");
	kill(supervisor, SIGHUP);
	/* On the clock of the service manager, by which it knows which reload is meant. */
	manager_hears(manager, "RELOADING=1\nMONOTONIC_USEC=");
	manager_hears(manager, "READY=1");
	unsetenv("NOTIFY_SOCKET");
	close(manager);
}
END_TEST

START_TEST(the_watchdog_is_told_while_engines_are_well_or_being_replaced) {
	struct engine one = { .number = 0 }, other = { .number = 1 };
	struct supervisor s = { .engine = { &one, &other }, .engines = 2 };
	const uint64_t now = UINT64_C(1000000000000);
	uint64_t limit;

	config_standard(&s.config);
	limit = s.config.engine_start_us + 10000000;
	ck_assert(engines_well(&s, now));
	other.down_us = now - limit;
	ck_assert(engines_well(&s, now));
	ck_assert(!engines_well(&s, now + 1));
	other.down_us = 0;
	/* It was ready, did not end when it was told to, and cannot be killed either. */
	other.child.killed_us = now - limit - 1;
	ck_assert(!engines_well(&s, now));
}
END_TEST

static int oom_score(pid_t pid) {
	char path[64];
	FILE *file;
	int score;

	snprintf(path, sizeof path, "/proc/%d/oom_score_adj", (int)pid);
	file = fopen(path, "re");
	ck_assert_ptr_nonnull(file);
	ck_assert_int_eq(fscanf(file, "%d", &score), 1);
	fclose(file);
	return score;
}

START_TEST(where_memory_runs_out_the_engine_goes_before_the_supervisor) {
	pid_t engine;
	cJSON *json;
	int fd;

	start("normal");
	fd = connect_door();
	send_hello(fd, PROTOCOL_VERSION, "one", NULL, NULL);
	ck_assert(receive(fd));
	send_numbers(fd, 1, (uint64_t[]){ DOOR_STATUS });
	ck_assert(receive(fd));
	json = cJSON_Parse(reply_text());
	engine = cJSON_GetObjectItem(cJSON_GetArrayItem(cJSON_GetObjectItem(json, "engines"), 0), "pid")->valueint;
	cJSON_Delete(json);
	/* Of a supervisor that goes first anyway there is no more. */
	if (oom_score(supervisor) < 1000)
		ck_assert_int_gt(oom_score(engine), oom_score(supervisor));
	close(fd);
}
END_TEST

/* Of the program in the build tree, where there is one beside the tests. */
START_TEST(the_supervisor_links_neither_opencl_nor_nng) {
	char command[512], line[512];
	FILE *list;
	unsigned lines = 0;

	snprintf(command, sizeof command, "%.*s/../fusiond", (int)(strrchr(program, '/') - program), program);
	if (access(command, X_OK))
		SKIP("there is no %s", command);
	snprintf(command, sizeof command, "ldd '%.*s/../fusiond'", (int)(strrchr(program, '/') - program),
		program);
	list = popen(command, "re");
	while (fgets(line, sizeof line, list)) {
		ck_assert_msg(!strstr(line, "OpenCL") && !strstr(line, "nng"), "%s", line);
		lines++;
	}
	ck_assert_int_eq(pclose(list), 0);
	ck_assert_uint_gt(lines, 2);
}
END_TEST

static void add_tests(TCase *tests) {
	tcase_add_test(tests, the_service_manager_hears_of_every_state);
	tcase_add_test(tests, the_service_manager_is_told_who_is_served);
	tcase_add_test(tests, the_watchdog_is_told_while_engines_are_well_or_being_replaced);
	tcase_add_test(tests, where_memory_runs_out_the_engine_goes_before_the_supervisor);
	tcase_add_test(tests, the_supervisor_links_neither_opencl_nor_nng);
	tcase_add_test(tests, hello_hands_out_session_secret_url_and_device);
	tcase_add_test(tests, a_client_that_offers_a_ring_gets_sealed_memory_and_an_eventfd);
	tcase_add_test(tests, nobody_gets_a_ring_where_the_administrator_wants_nng);
	tcase_add_test(tests, a_session_the_engine_calls_bad_is_closed_alone);
	tcase_add_test(tests, secrets_of_two_sessions_differ);
	tcase_add_test(tests, another_version_is_refused_with_both_named);
	tcase_add_test(tests, a_client_of_another_release_is_spoken_to_in_a_version_of_both);
	tcase_add_test(tests, versions_that_do_not_meet_are_refused_with_what_is_too_old);
	tcase_add_test(tests, a_version_whose_greeting_has_another_form_is_refused_by_its_version);
	tcase_add_test(tests, a_silent_connection_is_closed);
	tcase_add_test(tests, a_session_that_says_nothing_after_its_greeting_stays);
	tcase_add_test(tests, hello_waits_for_an_engine_that_starts_late);
	tcase_add_test(tests, status_needs_no_engine_and_no_hello);
	tcase_add_test(tests, status_lists_sessions_with_their_memory);
	tcase_add_test(tests, an_arena_goes_to_the_engine_before_the_client);
	tcase_add_test(tests, an_arena_that_the_machine_has_no_memory_for_is_forgotten);
	tcase_add_test(tests, an_arena_the_engine_wants_can_be_fetched);
	tcase_add_test(tests, an_arena_of_another_session_cannot_be_fetched);
	tcase_add_test(tests, a_dropped_arena_is_given_back);
	tcase_add_test(tests, a_wish_beyond_the_limit_is_refused_to_the_engine);
	tcase_add_test(tests, memory_beyond_the_limits_is_refused_and_given_back_at_the_end);
	tcase_add_test(tests, who_waits_for_memory_holds_up_nobody);
	tcase_add_test(tests, memory_of_a_session_that_ended_is_charged_until_the_engine_has_left_it);
	tcase_add_test(tests, memory_of_a_client_that_closes_half_its_socket_is_given_back);
	tcase_add_test(tests, memory_of_a_session_goes_with_its_engine);
	tcase_add_loop_test(tests, descriptors_of_one_user_are_limited_and_others_find_theirs, 0, 2);
	tcase_add_test(tests, descriptors_beyond_the_users_limit_are_refused);
	tcase_add_test(tests, more_arenas_than_the_protocol_allows_are_refused);
	tcase_add_test(tests, sessions_beyond_the_users_limit_are_refused);
	tcase_add_test(tests, connections_beyond_the_limit_are_told_and_closed);
	tcase_add_test(tests, at_the_limit_silent_connections_make_room);
	tcase_add_test(tests, what_is_no_packet_of_the_protocol_is_refused_and_closed);
	tcase_add_test(tests, a_packet_that_is_too_long_is_refused);
	tcase_add_loop_test(tests, a_descriptor_that_cannot_be_closed_holds_up_nobody, 0, 2);
	tcase_add_test(tests, arenas_need_a_session);
	tcase_add_test(tests, options_that_are_no_settings_of_a_session_are_refused);
	tcase_add_test(tests, a_killed_client_leaves_nothing);
	tcase_add_test(tests, sessions_end_with_their_engine_and_another_is_started);
	tcase_add_test(tests, who_goes_on_waiting_for_an_engine_is_looked_at_again);
	tcase_add_test(tests, an_engine_that_cannot_start_ends_the_daemon);
	tcase_add_test(tests, why_an_engine_cannot_start_is_told_whatever_it_left_unread);
	tcase_add_test(tests, a_limit_of_files_is_named);
	tcase_add_test(tests, a_limit_of_descriptors_is_named);
	/* A sanitizer has its shadow among the addresses. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	tcase_add_test(tests, a_limit_of_addresses_is_named);
#endif
	tcase_add_test(tests, an_engine_that_crashes_at_start_ends_the_daemon);
	tcase_add_test(tests, an_engine_that_is_never_ready_ends_the_daemon);
	tcase_add_test(tests, sigterm_stops_cleanly_and_leaves_no_file);
	tcase_add_test(tests, an_engine_that_ignores_sigterm_is_killed);
	tcase_add_test(tests, sighup_reads_the_configuration_again);
	tcase_add_test(tests, a_second_daemon_at_the_same_socket_is_refused);
	tcase_add_test(tests, the_socket_of_a_dead_daemon_is_taken_over);
	tcase_add_test(tests, the_engine_dies_with_the_supervisor);
	tcase_add_test(tests, an_engine_that_does_not_read_stalls_only_what_needs_it);
}

int main(int argc, char **argv) {
	Suite *suite;
	TCase *tests;

	if (argc > 1 && !strncmp(argv[1], "--control=", 10))
		return engine_main(atoi(argv[1] + 10));
	if (readlink("/proc/self/exe", program, sizeof program - 1) < 0)
		return 2;
	signal(SIGPIPE, SIG_IGN);
	log_set_level(LOG_LEVEL_ERROR);
	suite = suite_create("door");
	tests = tcase_create("door");
	tcase_set_timeout(tests, 120);
	tcase_add_checked_fixture(tests, setup, teardown);
	add_tests(tests);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
