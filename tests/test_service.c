/*
 * The service as people meet it: real client processes against a real daemon on PoCL. What one of
 * them does wrong is its own trouble, and nothing of it stays behind.
 *
 * Programs are looked for in $FUSION_BUILD, else in build/.
 */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cjson/cJSON.h>
#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>

#include "client/fusion.h"
#include "client/context.h"
#include "protocol/codec.h"
#include "protocol/message.h"
#include "protocol/ring.h"
#include "protocol/shm.h"
#include "tests/daemon.h"
#include "tests/skip.h"
#include "tests/interpose/interpose.h"
#include "tests/suite.h"

enum {
	CLIENTS = 4,
	KILLED = 6,
	GARBAGE = 300,
	SESSIONS = 64,
	TEST_SECONDS = 240,
};

/* sum over tanh(x * k) + x, checked against the host; 0 where all is well. */
static int compute(fusion_context *c, int seed, int64_t n) {
	float *x = malloc((size_t)n * sizeof *x), got[1] = { 0 };
	double want = 0;
	fusion_array *a, *y;
	int bad;

	for (int64_t i = 0; i < n; i++) {
		x[i] = (float)((i * 7 + seed) % 100) / 100;
		want += tanh((double)x[i] * seed) + (double)x[i];
	}
	fusion_scope_begin(c);
	a = fusion_from(c, FUSION_F32, 1, &n, x);
	y = fusion_keep(fusion_sum(fusion_add(fusion_tanh(fusion_mul_scalar(a, seed)), a), 0, NULL, false));
	fusion_scope_end(c);
	bad = fusion_read(y, got, sizeof got) || fabs(got[0] - want) > 1e-4 * want;
	fusion_release(y);
	free(x);
	return bad;
}

START_TEST(processes_share_one_daemon) {
	pid_t pid[CLIENTS];

	for (int i = 0; i < CLIENTS; i++) {
		pid[i] = fork();
		if (!pid[i]) {
			fusion_context *c = NULL;
			int bad = fusion_open(&c, NULL);

			for (int k = 0; k < 50 && !bad; k++)
				bad = compute(c, i + 1, 1000 + 37 * k);
			fusion_close(c);
			_exit(bad ? 1 : 0);
		}
	}
	for (int i = 0; i < CLIENTS; i++)
		ck_assert_int_eq(child_exit(pid[i]), 0);
}
END_TEST

/* ---- clients that are killed ---- */

/* Sends work for ever. */
static void work_for_ever(int i, int said) {
	fusion_context *c;
	int64_t n = 4096;

	(void)i;
	if (fusion_open(&c, NULL))
		_exit(1);
	for (int sent = 0;; sent++) {
		fusion_array *a;

		fusion_scope_begin(c);
		a = fusion_arange(c, FUSION_F32, n, 0, 1);
		for (int k = 0; k < 100; k++)
			a = fusion_add_scalar(a, 1);
		if (fusion_flush(c) || (sent == 3 && write(said, "m", 1) != 1))
			_exit(1);
		fusion_scope_end(c);
	}
}

START_TEST(clients_killed_in_the_middle_leave_nothing) {
	struct victim victim[KILLED];
	fusion_context *c;
	double arrays, arenas, sessions;
	int supervisor, engine;

	for (int i = 0; i < KILLED; i++)
		victim_new(&victim[i], i, work_for_ever);
	c = connect_client();
	ck_assert_int_eq(compute(c, 1, 1000), 0);
	ck_assert_int_eq(fusion_sync(c), 0);
	arrays = stat_of(c, "arrays");
	arenas = stat_of(c, "arena_bytes");
	sessions = stat_of(c, "sessions");
	supervisor = descriptors_of(daemon_pid);
	engine = descriptors_of(engine_pid());
	for (int i = 0; i < KILLED; i++) {
		victim_go(&victim[i]);
		expect_more(c, "sessions", sessions);
		usleep(7000 * (useconds_t)i);
		victim_kill(&victim[i]);
	}
	expect_back(c, "sessions", sessions);
	expect_back(c, "arrays", arrays);
	expect_back(c, "arena_bytes", arenas);
	expect_descriptors(daemon_pid, supervisor);
	expect_descriptors(engine_pid(), engine);
	ck_assert_int_eq(compute(c, 2, 1000), 0);
	fusion_close(c);
}
END_TEST

START_TEST(memory_used_up_is_that_clients_error) {
	int64_t n = 4 << 20;
	fusion_context *greedy, *modest;
	fusion_array *kept[64];
	int count = 0, code = 0;

	daemon_start("limits.session_bytes=96M", NULL);
	greedy = connect_client();
	modest = connect_client();
	while (count < 64 && !code) {
		kept[count] = fusion_copy(fusion_full(greedy, FUSION_F32, 1, &n, count));
		code = kept[count] ? fusion_wait(kept[count]) : fusion_error_code();
		count++;
	}
	ck_assert_int_eq(code, FUSION_E_MEMORY);
	ck_assert_int_lt(count, 10);
	ck_assert_int_eq(compute(modest, 3, 5000), 0);
	/* What is released can be had again. */
	for (int i = 0; i < count; i++)
		fusion_release(kept[i]);
	fusion_error_clear();
	ck_assert_msg(!compute(greedy, 3, 5000), "%s", fusion_error());
	fusion_close(greedy);
	fusion_close(modest);
	daemon_stop();
}
END_TEST

/* ---- rings ---- */

/* A client's ring, as it has it mapped; NULL where it has none. */
static struct fusion_context *inside(const fusion_context *name) {
	return (struct fusion_context *)object_find(OBJECT_CONTEXT, name);
}

static struct ring_header *ring_of(const fusion_context *name) {
	const struct fusion_context *c = inside(name);
	void *base = NULL;

	if (c->door.ring >= 0)
		ck_assert_int_eq(shm_map(c->door.ring, RING_BYTES, NULL, &base), 0);
	return base;
}

START_TEST(many_sessions_at_a_time_each_get_their_own_answers) {
	fusion_context *c[SESSIONS];
	double before;

	c[0] = connect_client();
	ck_assert_int_eq(compute(c[0], 1, 1000), 0);
	before = stat_of(c[0], "sessions");
	for (int i = 1; i < SESSIONS; i++)
		c[i] = connect_client();
	for (int round = 0; round < 5; round++)
		for (int i = 0; i < SESSIONS; i++)
			ck_assert_msg(!compute(c[i], 1 + i % 7, 500 + i), "%s", fusion_error());
	for (int i = 1; i < SESSIONS; i++)
		fusion_close(c[i]);
	expect_back(c[0], "sessions", before);
	fusion_close(c[0]);
}
END_TEST

/* The same program runs with daemons that give no rings (tests/check.sh). */
#define NEEDS_RING() \
	do { \
		const char *transport = getenv("FUSIOND_FUSION_TRANSPORT"); \
 \
		if (transport && !strcmp(transport, "nng")) \
			SKIP("it is about rings, which no session has by nng"); \
	} while (0)

START_TEST(a_client_that_writes_nonsense_into_its_ring_is_closed_alone) {
	NEEDS_RING();
	fusion_context *good = connect_client(), *bad = connect_client();
	struct ring_header *h = ring_of(bad);
	struct pollfd gone = { .fd = inside(bad)->door.fd };     /* until the supervisor has closed the session */

	ck_assert_ptr_nonnull(h);
	ck_assert_int_eq(compute(bad, 2, 1000), 0);
	atomic_fetch_add(&h->request.written, 1U << 20);
	ck_assert_int_eq(eventfd_write(inside(bad)->door.bell, 1), 0);
	ck_assert_int_eq(poll(&gone, 1, PATIENCE_MS), 1);
	ck_assert_int_ne(gone.revents & POLLHUP, 0);
	ck_assert_int_ne(compute(bad, 2, 1000), 0);
	ck_assert_int_eq(fusion_error_code(), FUSION_E_CONNECT);
	fusion_error_clear();
	munmap(h, RING_BYTES);
	fusion_close(bad);
	ck_assert_msg(!compute(good, 3, 1000), "%s", fusion_error());
	fusion_close(good);
}
END_TEST

/* Half a head, or a head and a piece of what it announces; and until the engine has taken that in. */
static void begin_a_frame(int i, int said) {
	struct ring_head head = { .slot = 0, .size = 100000 };
	struct ring_header *h;
	fusion_context *own;
	struct ring r;

	if (fusion_open(&own, NULL))
		_exit(1);
	h = ring_of(own);
	if (!h)
		_exit(1);
	r = ring_requests(h);
	r.position = r.shown = atomic_load(&h->request.written);
	ring_put(&r, &head, (uint32_t)(i % 2 ? sizeof head : 5));
	if (i % 2)
		ring_put(&r, "piece of a frame", 16);
	(void)!ring_publish(&r, RING_ANY_SLOT);
	if (eventfd_write(inside(own)->door.bell, 1))
		_exit(1);
	while (atomic_load(&h->request.read) != r.position)
		usleep(1000);
	if (write(said, "m", 1) != 1)
		_exit(1);
	pause();
}

/* A frame begins and its writer dies; the engine forgets the piece. */
START_TEST(clients_killed_in_the_middle_of_a_frame_leave_nothing) {
	NEEDS_RING();
	struct victim victim[KILLED];
	fusion_context *c;
	double sessions;
	int supervisor, engine;

	for (int i = 0; i < KILLED; i++)
		victim_new(&victim[i], i, begin_a_frame);
	c = connect_client();
	ck_assert_int_eq(compute(c, 1, 1000), 0);
	sessions = stat_of(c, "sessions");
	supervisor = descriptors_of(daemon_pid);
	engine = descriptors_of(engine_pid());
	for (int i = 0; i < KILLED; i++) {
		victim_go(&victim[i]);
		expect_more(c, "sessions", sessions);
		victim_kill(&victim[i]);
	}
	expect_back(c, "sessions", sessions);
	expect_descriptors(daemon_pid, supervisor);
	expect_descriptors(engine_pid(), engine);
	ck_assert_int_eq(compute(c, 2, 1000), 0);
	fusion_close(c);
}
END_TEST

START_TEST(a_client_that_reads_no_answers_holds_up_nobody) {
	fusion_context *deaf = connect_client(), *c = connect_client();
	int64_t n = 1000;

	for (int i = 0; i < 5; i++) {
		fusion_array *a = fusion_arange(deaf, FUSION_F32, n, 0, 1);

		ck_assert_int_eq(fusion_flush(deaf), 0);
		fusion_release(a);
	}
	for (int i = 0; i < 50; i++)
		ck_assert_msg(!compute(c, 3, 1000), "%s", fusion_error());
	ck_assert_msg(!compute(deaf, 3, 1000), "%s", fusion_error());
	fusion_close(deaf);
	fusion_close(c);
}
END_TEST

/* Until an error comes, whose code it returns. */
static void *send_for_ever(void *context) {
	int64_t n = 100;
	fusion_array *a = fusion_arange(context, FUSION_F32, n, 0, 1), *next;
	int code = 0;

	for (int i = 1; !code; i++) {
		next = fusion_add_scalar(a, 1);
		/* Batches so long that the ring is full before there are too many of them for the client to have under way. */
		if (!next || (i % 5000 == 0 && fusion_flush(context)))
			code = fusion_error_code();
		if (next) {
			fusion_release(a);
			a = next;
		}
	}
	fusion_release(a);
	return (void *)(intptr_t)code;
}

START_TEST(a_context_can_be_closed_while_it_waits_for_room) {
	NEEDS_RING();
	fusion_context *c = connect_client();
	struct ring_header *h = ring_of(c);
	pid_t engine;
	pthread_t thread;
	void *code;

	ck_assert_ptr_nonnull(h);
	ck_assert_int_eq(compute(c, 1, 1000), 0);
	engine = stop_engine();
	ck_assert_int_eq(pthread_create(&thread, NULL, send_for_ever, c), 0);
	/* It wakes now and then to look around; the case has its time limit. */
	while (!atomic_load(&h->request.writer_sleeps))
		usleep(1000);
	fusion_close(c);
	ck_assert_int_eq(pthread_join(thread, &code), 0);
	ck_assert_int_eq((int)(intptr_t)code, FUSION_E_STATE);
	kill(engine, SIGCONT);
	munmap(h, RING_BYTES);
	c = connect_client();
	ck_assert_msg(!compute(c, 3, 1000), "%s", fusion_error());
	fusion_close(c);
}
END_TEST

/* And where the library repeats what was not begun, it is not even told. */
START_TEST(the_end_of_the_engine_is_told_to_who_waits_for_it) {
	fusion_context *c;
	fusion_array *a;
	int64_t n = 1 << 20;

	setenv("FUSION_REPEAT_BYTES", _i ? "0" : "4194304", 1);
	c = connect_client();
	unsetenv("FUSION_REPEAT_BYTES");
	ck_assert_int_eq(compute(c, 1, 1000), 0);
	stop_engine();
	a = fusion_arange(c, FUSION_F32, n, 0, 1);
	ck_assert_int_eq(fusion_flush(c), 0);
	if (!fork()) {
		usleep(200000);
		kill(engine_pid(), SIGKILL);
		_exit(0);
	}
	/* It stood: nothing had begun. */
	ck_assert_int_eq(fusion_wait(a), _i ? FUSION_E_REPEATABLE : 0);
	fusion_error_clear();
	fusion_release(a);
	fusion_close(c);
	for (int i = 0; i < START_TRIES && fusion_open(&c, NULL); i++) {
		fusion_error_clear();
		usleep(100000);
	}
	ck_assert_msg(!compute(c, 2, 1000), "%s", fusion_error());
	fusion_close(c);
}
END_TEST

static atomic_int callbacks;

static atomic_int callback_code;

static void count_callback(void *user, int code) {
	(void)user;
	if (code)
		atomic_store(&callback_code, code);
	atomic_fetch_add(&callbacks, 1);
}

static void *thread_work(void *context) {
	int bad = 0;

	for (int i = 0; i < 40 && !bad; i++)
		bad = compute(context, 2, 700);
	return bad ? context : NULL;
}

/* Threads take turns at reading the ring, and leave it to the library's thread when a callback needs one. */
START_TEST(threads_of_a_client_share_its_ring_and_callbacks_come) {
	fusion_context *c = connect_client();
	pthread_t thread[4];
	fusion_array *a;
	int64_t n = 100;
	float got[100] = { 0 };
	void *bad;

	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, thread_work, c), 0);
	for (int i = 0; i < 20; i++) {
		a = fusion_arange(c, FUSION_F32, n, i, 1);
		ck_assert_int_eq(fusion_read_callback(a, got, sizeof got, count_callback, NULL), 0);
		/* Each mixture of graphs that wait together may be a kernel that is built first; the case has its time limit. */
		while (atomic_load(&callbacks) <= i)
			usleep(1000);
		ck_assert_int_eq(atomic_load(&callback_code), 0);
		ck_assert(got[99] == (float)(i + 99));
		fusion_release(a);
	}
	for (int i = 0; i < 4; i++) {
		ck_assert_int_eq(pthread_join(thread[i], &bad), 0);
		ck_assert_ptr_null(bad);
	}
	fusion_close(c);
}
END_TEST

/* Who waited for its own answer alone leaves nothing of that to the thread that reads for callbacks. */
START_TEST(the_thread_of_callbacks_sleeps_for_every_answer) {
	NEEDS_RING();
	fusion_context *c = connect_client();
	struct ring_header *h = ring_of(c);
	float got[100];
	int64_t n = 100;

	ck_assert_ptr_nonnull(h);
	ck_assert_int_eq(compute(c, 1, 1000), 0);
	atomic_store(&callbacks, 0);
	for (int i = 0; i < 20; i++) {
		fusion_array *a = fusion_arange(c, FUSION_F32, n, i, 1);

		ck_assert_int_eq(fusion_read_callback(a, got, sizeof got, count_callback, NULL), 0);
		while (atomic_load(&callbacks) <= i) {
			uint32_t slots = atomic_load(&h->reply.reader_sleeps);

			ck_assert(!slots || slots == RING_ANY_SLOT);
		}
		fusion_release(a);
	}
	munmap(h, RING_BYTES);
	fusion_close(c);
}
END_TEST

/* How often threads of this process have gone to sleep. */
static long sleeps(void) {
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *one;
	long all = 0;

	ck_assert_ptr_nonnull(tasks);
	while ((one = readdir(tasks))) {
		char path[320], line[128];
		FILE *status;
		long n;

		snprintf(path, sizeof path, "/proc/self/task/%s/status", one->d_name);
		status = fopen(path, "re");
		while (status && fgets(line, sizeof line, status))
			if (sscanf(line, "voluntary_ctxt_switches: %ld", &n) == 1)
				all += n;
		if (status)
			fclose(status);
	}
	closedir(tasks);
	return all;
}

START_TEST(a_client_that_waits_for_nothing_sleeps) {
	fusion_context *c = connect_client();
	int64_t n = 100;
	fusion_array *a = fusion_arange(c, FUSION_F32, n, 0, 1);
	float got[100];
	long before;
	int tries = 0;

	atomic_store(&callbacks, 0);
	ck_assert_int_eq(fusion_read_callback(a, got, sizeof got, count_callback, NULL), 0);
	AWAIT(atomic_load(&callbacks));
	/* Ours, once nothing is under way any more; it would be 30 of a thread that looks 20 times a second, each time. */
	do {
		before = sleeps();
		usleep(1500000);
	} while (sleeps() - before > 5 && tries++ < PATIENCE_S);
	ck_assert_int_lt(tries, PATIENCE_S);
	/* And is there again when something is asked. */
	ck_assert_int_eq(fusion_read_callback(a, got, sizeof got, count_callback, NULL), 0);
	AWAIT(atomic_load(&callbacks) == 2);
	fusion_release(a);
	fusion_close(c);
}
END_TEST

/* ---- raw frames ---- */

/* A session by hand: its number, secret and the engine's address. */
static int raw_hello(uint64_t *sessionp, char secret[LIMIT_SECRET_BYTES], char url[256]) {
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct wire_writer w;
	struct wire_reader r;
	struct wire_cursor c;
	struct fault f;
	char packet[4096];
	const char *text;
	const void *bin;
	uint64_t number;
	size_t size;
	ssize_t n;
	int fd, none, s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	strcpy(address.sun_path, door);
	ck_assert_int_eq(connect(s, (struct sockaddr *)&address, sizeof address), 0);
	wire_writer_init(&w);
	wire_put_array(&w, 5);
	wire_put_uint(&w, DOOR_HELLO);
	wire_put_uint(&w, PROTOCOL_VERSION);
	wire_put_uint(&w, FEATURES_ALL);
	wire_put_text(&w, "raw");
	wire_put_map(&w, 0);
	ck_assert_int_eq(packet_send(s, w.buffer.data, w.buffer.size, -1, 0), 0);
	wire_writer_free(&w);
	n = packet_receive(s, packet, sizeof packet, &fd, 0);
	ck_assert_int_gt((int)n, 0);
	ck_assert_int_eq(wire_open(&r, packet, (size_t)n, &f), 0);
	c = wire_root(&r);
	none = wire_get_uint(&c, "id", 99, &number, &f) | wire_get_uint(&c, "version", 99, &number, &f) |
		wire_get_uint(&c, "features", UINT64_MAX, &number, &f) |
		wire_get_uint(&c, "session", UINT64_MAX, sessionp, &f) |
		wire_get_bin(&c, "secret", LIMIT_SECRET_BYTES, &bin, &f) | wire_get_text(&c, "url", 255, &text, &size, &f);
	ck_assert_msg(!none, "%s", f.text);
	memcpy(secret, bin, LIMIT_SECRET_BYTES);
	memcpy(url, text, size);
	url[size] = 0;
	wire_close(&r);
	return s;
}

/* Sends one frame and returns the code of the fault it is answered by; 0 for another answer, -1 for none. */
static int raw_request(nng_socket s, const void *bytes, size_t size) {
	struct wire_reader r;
	struct wire_cursor c;
	struct fault f;
	uint64_t id, code = 0;
	nng_msg *m;

	ck_assert_int_eq(nng_msg_alloc(&m, 0), 0);
	ck_assert_int_eq(nng_msg_append(m, bytes, size), 0);
	ck_assert_int_eq(nng_sendmsg(s, m, 0), 0);
	if (nng_recvmsg(s, &m, 0))
		return -1;
	ck_assert_int_eq(wire_open(&r, nng_msg_body(m), nng_msg_len(m), &f), 0);
	c = wire_root(&r);
	ck_assert_int_eq(wire_get_uint(&c, "id", 99, &id, &f), 0);
	if (id == MESSAGE_FAULT)
		ck_assert_int_eq(wire_get_uint(&c, "code", 99, &code, &f), 0);
	wire_close(&r);
	nng_msg_free(m);
	return (int)code;
}

static nng_socket raw_dial(const char *url) {
	nng_socket s;

	ck_assert_int_eq(nng_req0_open(&s), 0);
	ck_assert_int_eq(nng_socket_set_ms(s, NNG_OPT_RECVTIMEO, 10000), 0);
	ck_assert_int_eq(nng_dial(s, url, NULL, 0), 0);
	return s;
}

static void put_head(struct wire_writer *w, uint32_t count, unsigned request, uint64_t session, const char *secret) {
	wire_put_array(w, count);
	wire_put_uint(w, request);
	wire_put_uint(w, session);
	wire_put_bin(w, secret, LIMIT_SECRET_BYTES);
}

START_TEST(garbage_is_refused_and_hurts_nobody) {
	fusion_context *c = connect_client();
	char secret[LIMIT_SECRET_BYTES], url[256], noise[256];
	uint64_t session;
	int hello = raw_hello(&session, secret, url);
	nng_socket s = raw_dial(url);

	srand(7);
	for (int i = 0; i < GARBAGE; i++) {
		size_t size = 1 + (size_t)rand() % sizeof noise;

		for (size_t k = 0; k < size; k++)
			noise[k] = (char)rand();
		ck_assert_int_gt(raw_request(s, noise, size), 0);
	}
	ck_assert_int_eq(compute(c, 4, 3000), 0);
	nng_close(s);
	close(hello);
	fusion_close(c);
}
END_TEST

START_TEST(another_sessions_secret_opens_nothing) {
	char secret[2][LIMIT_SECRET_BYTES], url[256];
	uint64_t session[2];
	int hello[2] = { raw_hello(&session[0], secret[0], url), raw_hello(&session[1], secret[1], url) };
	nng_socket s = raw_dial(url);
	struct wire_writer w;

	wire_writer_init(&w);
	put_head(&w, 4, REQUEST_STATS, session[0], secret[1]);
	wire_put_uint(&w, 0);
	ck_assert_int_ne(raw_request(s, w.buffer.data, w.buffer.size), 0);
	wire_writer_clear(&w);
	put_head(&w, 4, REQUEST_STATS, session[0], secret[0]);
	wire_put_uint(&w, 0);
	ck_assert_int_eq(raw_request(s, w.buffer.data, w.buffer.size), 0);
	wire_writer_free(&w);
	nng_close(s);
	close(hello[0]);
	close(hello[1]);
}
END_TEST

/* One SUBMIT with a list of operations written by the caller. */
static int raw_submit(nng_socket s, uint64_t session, const char *secret, uint64_t seq, const struct wire_writer *ops) {
	struct wire_writer w;
	int code;

	wire_writer_init(&w);
	put_head(&w, 8, REQUEST_SUBMIT, session, secret);
	wire_put_uint(&w, seq);
	wire_put_uint(&w, 0);
	wire_put_raw(&w, ops->buffer.data, ops->buffer.size);
	wire_put_array(&w, 2);
	wire_put_uint(&w, 0);
	wire_put_uint(&w, (UINT64_C(1) << 32) | seq);
	wire_put_array(&w, 0);
	code = raw_request(s, w.buffer.data, w.buffer.size);
	wire_writer_free(&w);
	return code;
}

static void put_reference(struct wire_writer *w, unsigned op, int64_t operand) {
	wire_put_array(w, 1);
	wire_put_array(w, 2);
	wire_put_uint(w, op);
	wire_put_int(w, operand);
}

START_TEST(bad_batches_are_refused_one_by_one) {
	char secret[LIMIT_SECRET_BYTES], url[256];
	uint64_t session;
	int hello = raw_hello(&session, secret, url);
	nng_socket s = raw_dial(url);
	struct wire_writer ops;

	wire_writer_init(&ops);
	put_reference(&ops, 255, -1);
	ck_assert_int_eq(raw_submit(s, session, secret, 1, &ops), FAULT_OPERATION);
	wire_writer_clear(&ops);
	put_reference(&ops, OP_neg, -1 - 12345);
	ck_assert_int_eq(raw_submit(s, session, secret, 2, &ops), FAULT_HANDLE);
	wire_writer_clear(&ops);
	put_reference(&ops, OP_add, -1);
	ck_assert_int_gt(raw_submit(s, session, secret, 3, &ops), 0);
	wire_writer_clear(&ops);
	/* Memory of an arena that this session does not have. */
	codec_put_op(&ops, &(struct coded_op){ .op = OP_load, .attr = { .dtype = DTYPE_f32, .rank = 1, .dims = { 4 }, .arena = 77 } });
	{
		struct wire_writer list;

		wire_writer_init(&list);
		wire_put_array(&list, 1);
		wire_put_raw(&list, ops.buffer.data, ops.buffer.size);
		ck_assert_int_gt(raw_submit(s, session, secret, 4, &list), 0);
		wire_writer_free(&list);
	}
	wire_writer_free(&ops);
	nng_close(s);
	close(hello);
}
END_TEST

/* ---- the driver, watched and hindered ---- */

static const char *preload(char text[static 512]) {
	snprintf(text, 512, "LD_PRELOAD=%s/tests/interpose.so", build_folder());
	return text;
}

START_TEST(a_fused_kernel_that_does_not_build_is_split_unseen) {
	char library[512];
	/* More than the steps of a sum's tree, less than those and what is fused with it. */
	const char *environment[2] = { preload(library), "FUSION_INTERPOSE_OPS=12" };
	fusion_context *c;

	daemon_start("log.level=error", environment);
	c = connect_client();
	ck_assert_msg(!compute(c, 5, 10000), "%s", fusion_error());
	ck_assert_double_gt(stat_of(c, "kernels_split"), 0);
	fusion_close(c);
	daemon_stop();
}
END_TEST

START_TEST(statistics_are_what_the_driver_counted) {
	char library[512], counts[160];
	const char *environment[2] = { preload(library), counts };
	struct interpose_counts *seen;
	fusion_context *c;
	int fd;
	uint64_t before;
	char path[128];

	snprintf(path, sizeof path, "/tmp/fusion-counts-%d", getpid());
	snprintf(counts, sizeof counts, "FUSION_INTERPOSE_COUNTS=%s", path);
	daemon_start("log.level=error", environment);
	/* The engine makes the file as it starts, and has started when a client is in. */
	c = connect_client();
	fd = open(path, O_RDONLY);
	ck_assert_int_ge(fd, 0);
	seen = mmap(NULL, sizeof *seen, PROT_READ, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(seen, MAP_FAILED);
	/* The probes at start are launches of their own; so is the warm-up of each program. */
	before = seen->launches;
	for (int i = 1; i < 20; i++)
		ck_assert_int_eq(compute(c, i, 100 * i), 0);
	ck_assert_int_eq(fusion_sync(c), 0);
	ck_assert_uint_eq(seen->launches - before, (uint64_t)(stat_of(c, "launches") + stat_of(c, "warmups")));
	ck_assert_double_ge(stat_of(c, "launches"), 19);
	ck_assert_double_eq(stat_of(c, "kernels_launched"), stat_of(c, "launches"));
	munmap(seen, sizeof *seen);
	close(fd);
	unlink(path);
	fusion_close(c);
	daemon_stop();
}
END_TEST

START_TEST(fused_and_unfused_bits_agree_across_processes) {
	int64_t n = 12345;
	float *bits[2];

	for (int i = 0; i < 2; i++) {
		struct fusion_options o = { .fusion = i ? FUSION_OFF : FUSION_ON };
		fusion_context *c;
		fusion_array *x, *y;

		bits[i] = malloc((size_t)n * sizeof **bits);
		ck_assert_int_eq(fusion_open(&c, &o), 0);
		x = fusion_arange(c, FUSION_F32, n, -3, 0.0005);
		y = fusion_div(fusion_exp(fusion_neg(fusion_square(x))), fusion_add_scalar(fusion_cosh(x), 0.1));
		ck_assert_msg(!fusion_read(y, bits[i], (size_t)n * sizeof **bits), "%s", fusion_error());
		fusion_close(c);
	}
	ck_assert_int_eq(memcmp(bits[0], bits[1], (size_t)n * sizeof **bits), 0);
	free(bits[0]);
	free(bits[1]);
}
END_TEST

/* ---- many on one device ---- */

enum {
	TOGETHER = 6,
	TOGETHER_REQUESTS = 150,
	TOGETHER_ELEMENTS = 3000,
	BACKLOG_SHORT = 6,
	BACKLOG_LONG = 600,
	BACKLOG_ELEMENTS = 1 << 18,
	BACKLOG_US = 1500 * 1000,
	BACKLOG_LOOKS = 8,
};

static int request(fusion_context *c, const float *x, float *got) {
	int64_t n = TOGETHER_ELEMENTS;
	fusion_array *a;
	int r;

	fusion_scope_begin(c);
	a = fusion_from(c, FUSION_F32, 1, &n, x);
	a = fusion_sub(fusion_tanh(fusion_mul(a, fusion_add_scalar(a, 0.25))), a);
	r = fusion_read(fusion_add(fusion_exp(a), a), got, (size_t)n * sizeof *got);
	fusion_scope_end(c);
	return r;
}

/* What this process gets for its numbers alone, it gets with all others at once. */
static int same_bits_in_company(int seed, int go, int ready) {
	float x[TOGETHER_ELEMENTS], alone[TOGETHER_ELEMENTS], got[TOGETHER_ELEMENTS];
	fusion_context *c;
	char byte;

	for (int i = 0; i < TOGETHER_ELEMENTS; i++)
		x[i] = (float)((i * 31 + seed * 1009) % 4001) / 1000 - 2;
	if (fusion_open(&c, NULL) || fusion_configure(c, "fusion.together", "no") || request(c, x, alone) ||
		fusion_configure(c, "fusion.together", "yes"))
		return 1;
	if (write(ready, "r", 1) != 1 || read(go, &byte, 1) != 1)
		return 2;
	for (int i = 0; i < TOGETHER_REQUESTS; i++)
		if (request(c, x, got) || memcmp(got, alone, sizeof got))
			return 3;
	fusion_close(c);
	return 0;
}

static void expect_bytes(int fd, int count) {
	char byte;

	for (int i = 0; i < count; i++)
		ck_assert_int_eq(read(fd, &byte, 1), 1);
}

START_TEST(requests_of_several_processes_share_launches_and_keep_their_bits) {
	int go[2], ready[2];
	pid_t pid[TOGETHER];
	fusion_context *c;

	ck_assert_int_eq(pipe(go), 0);
	ck_assert_int_eq(pipe(ready), 0);
	for (int i = 0; i < TOGETHER; i++) {
		pid[i] = fork();
		if (!pid[i])
			_exit(same_bits_in_company(i, go[0], ready[1]));
	}
	close(ready[1]);
	expect_bytes(ready[0], TOGETHER);
	c = connect_client();
	ck_assert_double_eq(stat_of(c, "runs_in_shared_launches"), 0);
	ck_assert_int_eq(write(go[1], "gggggg", TOGETHER), TOGETHER);
	for (int i = 0; i < TOGETHER; i++)
		ck_assert_int_eq(child_exit(pid[i]), 0);
	ck_assert_double_gt(stat_of(c, "runs_in_shared_launches"), TOGETHER);
	ck_assert_double_lt(stat_of(c, "launches"), stat_of(c, "tasks"));
	fusion_close(c);
}
END_TEST

static double own_stat(fusion_context *c, const char *name) {
	char *text = fusion_stats(c, false);
	cJSON *json = cJSON_Parse(text);
	const cJSON *item = cJSON_GetObjectItem(json, name);
	double value = item ? item->valuedouble : -1;

	cJSON_Delete(json);
	free(text);
	return value;
}

static fusion_array *piece_of_work(fusion_context *c, fusion_array *x, int i) {
	fusion_array *a;

	fusion_scope_begin(c);
	a = fusion_add_scalar(x, i);
	for (int k = 0; k < 8; k++)
		a = fusion_tanh(fusion_mul_scalar(a, 0.5));
	a = fusion_keep(fusion_sum(a, 0, NULL, false));
	fusion_scope_end(c);
	return fusion_flush(c) ? NULL : a;
}

static double seconds_now(void) {
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Always so many pieces of work asked for and not done; tells its part of the device's time between two bytes 'g', until a 'q'. */
static int keep_backlog(unsigned length, int go, int said) {
	fusion_array *piece[BACKLOG_LONG] = { 0 }, *x;
	int64_t n = BACKLOG_ELEMENTS;
	double before = -1, began = 0;
	fusion_context *c;
	char byte = 'w';

	fcntl(go, F_SETFL, O_NONBLOCK);
	/* Each piece is a graph of its own, and nothing is built while it counts. */
	if (fusion_open(&c, NULL) || fusion_configure(c, "fusion.window_us", "0") ||
		fusion_configure(c, "fusion.tracker_share", "0") || fusion_configure(c, "fusion.together", "no"))
		return 1;
	x = fusion_copy(fusion_full(c, FUSION_F32, 1, &n, 0.5));
	for (unsigned i = 0;; i++) {
		double now, used, got;

		if (piece[i % length] && fusion_wait(piece[i % length]))
			return 2;
		fusion_release(piece[i % length]);
		piece[i % length] = piece_of_work(c, x, (int)i);
		if (i == 2 * length && write(said, &byte, 1) != 1)
			return 3;
		if (i < 2 * length || read(go, &byte, 1) != 1)
			continue;
		if (byte == 'q')
			return 0;
		used = own_stat(c, "device_ns");
		now = seconds_now();
		got = (used - before) / (now - began);
		if (before >= 0 && write(said, &got, sizeof got) != sizeof got)
			return 4;
		before = used;
		began = now;
	}
}

static void say_to_both(const int go[2], char byte) {
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(write(go[i], &byte, 1), 1);
}

/* The part that the first has of what both got between this 'g' and the one before. */
static double share_of_first(const int go[2], const int said[2]) {
	double got[2];

	usleep(BACKLOG_US);
	say_to_both(go, 'g');
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(read(said[i], &got[i], sizeof got[i]), sizeof got[i]);
	printf("note: of the device's time the short backlog got %.1f %%, and both %.1f %%\n",
		100 * got[0] / (got[0] + got[1]), 1e-7 * (got[0] + got[1]));
	return got[0] / (got[0] + got[1]);
}

/* The two look at their clocks at different times where processors are busy, so it may take some looks to see it right. */
START_TEST(a_backlog_a_hundred_times_as_long_gets_no_more_of_the_device) {
	const unsigned length[] = { BACKLOG_SHORT, BACKLOG_LONG };
	int go[2][2], said[2][2];
	double share = 0;
	pid_t pid[2];

	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(pipe(go[i]), 0);
		ck_assert_int_eq(pipe(said[i]), 0);
		pid[i] = fork();
		if (!pid[i])
			_exit(keep_backlog(length[i], go[i][0], said[i][1]));
		close(said[i][1]);
	}
	for (int i = 0; i < 2; i++)
		expect_bytes(said[i][0], 1);
	say_to_both((int[]){ go[0][1], go[1][1] }, 'g');
	for (int look = 0; look < BACKLOG_LOOKS && (share <= 0.40 || share >= 0.60); look++)
		share = share_of_first((int[]){ go[0][1], go[1][1] }, (int[]){ said[0][0], said[1][0] });
	say_to_both((int[]){ go[0][1], go[1][1] }, 'q');
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(child_exit(pid[i]), 0);
	ck_assert_double_gt(share, 0.40);
	ck_assert_double_lt(share, 0.60);
}
END_TEST

START_TEST(after_a_fork_the_child_is_told) {
	fusion_context *c = connect_client();
	int64_t n = 4;
	fusion_array *a = fusion_full(c, FUSION_F32, 1, &n, 1);
	float out[4];
	pid_t pid;

	ck_assert_int_eq(fusion_read(a, out, sizeof out), 0);
	pid = fork();
	if (!pid) {
		int code = fusion_read(a, out, sizeof out);

		fusion_release(a);
		fusion_close(c);
		exit(code == FUSION_E_FORKED ? 0 : 1);
	}
	ck_assert_int_eq(child_exit(pid), 0);
	ck_assert_int_eq(fusion_read(a, out, sizeof out), 0);
	fusion_close(c);
}
END_TEST

/* ---- a daemon that cannot start says why ---- */

static void expect_refusal(const char *variable, const char *value, const char *cache, const char *sentence) {
	char command[1024], text[4096] = "";
	FILE *p;

	snprintf(folder, sizeof folder, "/tmp/fusion-service-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	snprintf(command, sizeof command, "%s=%s %s/fusiond --socket %s/door --cache-dir %s 2>&1; echo status $?",
		variable, value, build_folder(), folder, cache ? cache : folder);
	p = popen(command, "r");
	ck_assert_ptr_nonnull(p);
	text[fread(text, 1, sizeof text - 1, p)] = 0;
	pclose(p);
	remove_folder();
	ck_assert_msg(strstr(text, sentence) && !strstr(text, "status 0"), "%s", text);
}

START_TEST(without_a_driver_the_daemon_names_the_package) {
	expect_refusal("OCL_ICD_VENDORS", "/nonexistent/", NULL, "pocl-opencl-icd");
}
END_TEST

START_TEST(a_cache_folder_that_cannot_be_made_is_named) {
	expect_refusal("X", "1", "/proc/fusiond", "/proc/fusiond");
}
END_TEST

static Suite *suite(void) {
	Suite *s = suite_create("service");
	TCase *running = tcase_create("running"), *own = tcase_create("own daemon");
	TCase *rings = tcase_create("rings");

	tcase_add_checked_fixture(running, start, daemon_stop);
	tcase_set_timeout(running, TEST_SECONDS);
	tcase_add_test(running, processes_share_one_daemon);
	tcase_add_test(running, clients_killed_in_the_middle_leave_nothing);
	tcase_add_test(running, garbage_is_refused_and_hurts_nobody);
	tcase_add_test(running, another_sessions_secret_opens_nothing);
	tcase_add_test(running, bad_batches_are_refused_one_by_one);
	tcase_add_test(running, fused_and_unfused_bits_agree_across_processes);
	tcase_add_test(running, requests_of_several_processes_share_launches_and_keep_their_bits);
	tcase_add_test(running, a_backlog_a_hundred_times_as_long_gets_no_more_of_the_device);
	tcase_add_test(running, after_a_fork_the_child_is_told);
	suite_add_tcase(s, running);
	/* One daemon for all of them; the last kills its engine. */
	tcase_add_unchecked_fixture(rings, start, daemon_stop);
	tcase_add_checked_fixture(rings, engine_goes_on, NULL);
	tcase_set_timeout(rings, TEST_SECONDS);
	tcase_add_test(rings, many_sessions_at_a_time_each_get_their_own_answers);
	tcase_add_test(rings, a_client_that_writes_nonsense_into_its_ring_is_closed_alone);
	tcase_add_test(rings, clients_killed_in_the_middle_of_a_frame_leave_nothing);
	tcase_add_test(rings, a_client_that_reads_no_answers_holds_up_nobody);
	tcase_add_test(rings, threads_of_a_client_share_its_ring_and_callbacks_come);
	tcase_add_test(rings, the_thread_of_callbacks_sleeps_for_every_answer);
	tcase_add_test(rings, a_client_that_waits_for_nothing_sleeps);
	tcase_add_test(rings, a_context_can_be_closed_while_it_waits_for_room);
	tcase_add_loop_test(rings, the_end_of_the_engine_is_told_to_who_waits_for_it, 0, 2);
	suite_add_tcase(s, rings);
	tcase_set_timeout(own, TEST_SECONDS);
	tcase_add_test(own, memory_used_up_is_that_clients_error);
	tcase_add_test(own, a_fused_kernel_that_does_not_build_is_split_unseen);
	tcase_add_test(own, statistics_are_what_the_driver_counted);
	tcase_add_test(own, without_a_driver_the_daemon_names_the_package);
	tcase_add_test(own, a_cache_folder_that_cannot_be_made_is_named);
	suite_add_tcase(s, own);
	return s;
}

int main(void) {
	return suite_run(suite());
}
