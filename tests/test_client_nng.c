/* client/transport_nng against an engine that this test plays, byte by byte: answers, and ends of every kind. */
#include <check.h>
#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "protocol/limits.h"
#include "protocol/sp.h"
#include "client/transport.h"
#include "tests/patience.h"
#include "tests/suite.h"

enum {
	BIG = 1 << 20,               /* more than a socket holds */
	ROUNDS = 24,                 /* of ends at different places */
};

static const char rep[8] = "\0SP\0\0\x31\0", req[8] = "\0SP\0\0\x30\0";
static char folder[64], url[128];
static int listening;

/* What came back for each slot; 1: nothing yet. */
static struct {
	atomic_int result[LIMIT_UNANSWERED];
	atomic_size_t size[LIMIT_UNANSWERED];
	atomic_uint broken;
} got;

static void on_reply(void *user, unsigned slot, int result, const void *bytes, size_t size) {
	(void)user;
	(void)bytes;
	atomic_store(&got.size[slot], size);
	atomic_store(&got.result[slot], result);
}

static void on_broken(void *user) {
	(void)user;
	atomic_fetch_add(&got.broken, 1);
}

static void forget(void) {
	for (int i = 0; i < LIMIT_UNANSWERED; i++)
		atomic_store(&got.result[i], 1);
	atomic_store(&got.broken, 0);
}

static bool comes(unsigned slot) {
	for (int ms = 0; ms < PATIENCE_MS && atomic_load(&got.result[slot]) == 1; ms++)
		usleep(1000);
	return atomic_load(&got.result[slot]) != 1;
}

static bool breaks(void) {
	for (int ms = 0; ms < PATIENCE_MS && !atomic_load(&got.broken); ms++)
		usleep(1000);
	return atomic_load(&got.broken);
}

/* ---- the engine ---- */

/* What the engine greets with; NULL: it closes instead. The connection it took, -1 until then. */
static const char *_Atomic greeting;
static atomic_int taken;

static void greet(int fd) {
	struct timeval patience = { .tv_sec = PATIENCE_MS / 1000 };
	const char *own = atomic_load(&greeting);
	char theirs[8];

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	if (own)
		send(fd, own, 8, MSG_NOSIGNAL);
	if (recv(fd, theirs, sizeof theirs, MSG_WAITALL) == sizeof theirs)
		ck_assert_mem_eq(theirs, req, sizeof req);
	if (!own)
		close(fd);
	atomic_store(&taken, fd);
}

/* Takes connections as long as the process lives: the leak checker stumbles over threads that have just ended. */
static void *take_all(void *unused) {
	(void)unused;
	for (;;) {
		int fd = accept(listening, NULL, NULL);

		if (fd >= 0)
			greet(fd);
	}
	return NULL;
}

static void setup(void) {
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	pthread_t thread;

	strcpy(folder, "/tmp/test_client_nng_XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	snprintf(a.sun_path, sizeof a.sun_path, "%s/sock", folder);
	snprintf(url, sizeof url, "ipc://%s", a.sun_path);
	listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(listening, (struct sockaddr *)&a, sizeof a), 0);
	ck_assert_int_eq(listen(listening, 8), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, take_all, NULL), 0);
	ck_assert_int_eq(pthread_detach(thread), 0);
	forget();
}

static void teardown(void) {
	char path[96];

	snprintf(path, sizeof path, "%s/sock", folder);
	unlink(path);
	ck_assert_int_eq(rmdir(folder), 0);
}

/* The client's end, or NULL with the fault; fd: the engine's end. */
static struct transport *dial(const char *by, int *fd, struct fault *f) {
	const struct transport_events events = { .reply = on_reply, .broken = on_broken };
	struct transport *t = NULL;

	atomic_store(&greeting, by);
	atomic_store(&taken, -1);
	if (transport_dial(url, LIMIT_UNANSWERED, &events, &t, f))
		t = NULL;
	for (int ms = 0; ms < PATIENCE_MS && atomic_load(&taken) < 0; ms++)
		usleep(1000);
	*fd = atomic_load(&taken);
	return t;
}

static struct transport *met(int *fd) {
	struct fault f = { 0 };
	struct transport *t = dial(rep, fd, &f);

	ck_assert_msg(t != NULL, "%s", f.text);
	return t;
}

/* The number of the request that comes next, which has so many bytes. */
static uint32_t hear(int fd, size_t size) {
	uint8_t head[SP_HEAD_BYTES + SP_NUMBER_BYTES], byte;
	uint64_t length;
	uint32_t number;

	ck_assert_int_eq(recv(fd, head, sizeof head, MSG_WAITALL), sizeof head);
	memcpy(&length, head + 1, sizeof length);
	memcpy(&number, head + SP_HEAD_BYTES, sizeof number);
	ck_assert_uint_eq(be64toh(length), size + SP_NUMBER_BYTES);
	for (size_t i = 0; i < size; i++)
		ck_assert_int_eq(recv(fd, &byte, 1, MSG_WAITALL), 1);
	return be32toh(number);
}

/* Announces an answer of so many bytes, and sends so many of them. */
static void answer(int fd, uint32_t number, size_t announced, size_t sent) {
	struct sp_message *m = sp_message_new(SP_NUMBER_BYTES + announced);
	uint32_t n = htobe32(number);
	const uint8_t *p = m->head;
	size_t left = SP_HEAD_BYTES + SP_NUMBER_BYTES + sent;

	memset(m->bytes, 7, m->size);
	memcpy(m->bytes, &n, sizeof n);
	while (left) {
		ssize_t r = send(fd, p, left, MSG_NOSIGNAL);

		if (r <= 0)
			break;
		p += r;
		left -= (size_t)r;
	}
	free(m);
}

/* ---- claims ---- */

START_TEST(answers_reach_their_slots_in_any_order) {
	int fd;
	struct transport *t = met(&fd);
	uint32_t number[3];

	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(t->submit(t, i, "abc", i), 0);
	for (unsigned i = 0; i < 3; i++)
		number[i] = hear(fd, i);
	for (unsigned i = 3; i-- > 0;) {
		answer(fd, number[i], 10 * i, 10 * i);
		ck_assert(comes(i));
		ck_assert_int_eq(got.result[i], 0);
		ck_assert_uint_eq(got.size[i], 10 * i);
	}
	t->free(t);
	ck_assert_uint_eq(got.broken, 0);
	close(fd);
}
END_TEST

START_TEST(a_big_answer_arrives_whole) {
	int fd;
	struct transport *t = met(&fd);

	ck_assert_int_eq(t->submit(t, 1, "abc", 3), 0);
	answer(fd, hear(fd, 3), BIG, BIG);
	ck_assert(comes(1));
	ck_assert_uint_eq(got.size[1], BIG);
	t->free(t);
	close(fd);
}
END_TEST

START_TEST(closing_tells_of_what_was_not_answered) {
	int fd;
	struct transport *t = met(&fd);

	ck_assert_int_eq(t->submit(t, 5, "abc", 3), 0);
	answer(fd, hear(fd, 3), BIG, 1000);
	t->free(t);
	ck_assert_int_eq(got.result[5], -ECANCELED);
	ck_assert_uint_eq(got.broken, 0);
	close(fd);
}
END_TEST

START_TEST(an_end_tells_of_what_was_not_answered_and_once_of_itself) {
	int fd;
	struct transport *t = met(&fd);

	ck_assert_int_eq(t->submit(t, 0, "abc", 3), 0);
	ck_assert_int_eq(t->submit(t, 7, "abc", 3), 0);
	close(fd);
	ck_assert(breaks());
	ck_assert_int_eq(got.result[0], -ECONNRESET);
	ck_assert_int_eq(got.result[7], -ECONNRESET);
	ck_assert_int_eq(t->submit(t, 0, "abc", 3), -ECONNRESET);
	t->free(t);
	ck_assert_uint_eq(got.broken, 1);
}
END_TEST

/* The engine's end first, or the client's: what slot 2 asked for is told of. */
static void end_between(struct transport *t, int fd, bool engine_first) {
	if (engine_first)
		close(fd);
	t->free(t);
	ck_assert_int_ne(got.result[2], 1);
	if (!engine_first)
		close(fd);
}

/* Where nng's own sockets lose what is under way, and hang. */
START_TEST(ends_within_an_answer_lose_nothing) {
	for (int i = 0; i < ROUNDS; i++) {
		int fd;
		struct transport *t = met(&fd);

		forget();
		ck_assert_int_eq(t->submit(t, 2, "abc", 3), 0);
		answer(fd, hear(fd, 3), BIG, (size_t)i * (BIG / ROUNDS));
		end_between(t, fd, i % 2);
	}
}
END_TEST

START_TEST(ends_within_a_request_lose_nothing) {
	char *much = calloc(1, BIG);

	for (int i = 0; i < ROUNDS; i++) {
		int fd;
		struct transport *t = met(&fd);

		forget();
		ck_assert_int_eq(t->submit(t, 2, much, BIG), 0);
		for (int k = 0; k < i; k++)
			ck_assert_int_gt(recv(fd, much, BIG / ROUNDS, 0), 0);
		end_between(t, fd, i % 2);
	}
	free(much);
}
END_TEST

START_TEST(an_answer_that_nobody_awaits_ends_the_connection) {
	const uint32_t wrong[] = { 0, 1, 0x80000000, 0x8000000f };

	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		int fd;
		struct transport *t = met(&fd);

		forget();
		answer(fd, wrong[i], 3, 3);
		ck_assert(breaks());
		t->free(t);
		close(fd);
	}
}
END_TEST

START_TEST(an_answer_beyond_the_limit_ends_the_connection) {
	int fd;
	struct transport *t = met(&fd);

	ck_assert_int_eq(t->submit(t, 0, "abc", 3), 0);
	answer(fd, hear(fd, 3), LIMIT_FRAME_BYTES, 0);
	ck_assert(breaks());
	ck_assert_int_eq(got.result[0], -ECONNRESET);
	t->free(t);
	close(fd);
}
END_TEST

START_TEST(who_speaks_another_protocol_is_refused) {
	struct fault f = { 0 };
	int fd;

	ck_assert_ptr_null(dial(req, &fd, &f));
	ck_assert_int_eq(f.code, FAULT_CONNECT);
	ck_assert_ptr_nonnull(strstr(f.text, url));
	close(fd);
}
END_TEST

START_TEST(an_engine_that_takes_no_connection_is_said_at_once) {
	struct fault f = { 0 };
	int fd;

	ck_assert_ptr_null(dial(NULL, &fd, &f));
	ck_assert_int_eq(f.code, FAULT_CONNECT);
	ck_assert_uint_eq(got.broken, 0);
	unlink(url + strlen("ipc://"));
	ck_assert_int_eq(transport_dial(url, 1, &(struct transport_events){ .reply = on_reply, .broken = on_broken },
				 &(struct transport *){ NULL }, &f), FAULT_CONNECT);
}
END_TEST

START_TEST(a_request_beyond_the_limit_is_refused_alone) {
	char *much = calloc(1, LIMIT_FRAME_BYTES);
	int fd;
	struct transport *t = met(&fd);

	ck_assert_int_eq(t->submit(t, 0, much, LIMIT_FRAME_BYTES), -EMSGSIZE);
	ck_assert_int_eq(t->submit(t, 0, much, 3), 0);
	answer(fd, hear(fd, 3), 1, 1);
	ck_assert(comes(0));
	t->free(t);
	close(fd);
	free(much);
}
END_TEST

int main(void) {
	Suite *suite = suite_create("client over nng");
	TCase *tests = tcase_create("client over nng");

	tcase_set_timeout(tests, 60);
	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_add_test(tests, answers_reach_their_slots_in_any_order);
	tcase_add_test(tests, a_big_answer_arrives_whole);
	tcase_add_test(tests, closing_tells_of_what_was_not_answered);
	tcase_add_test(tests, an_end_tells_of_what_was_not_answered_and_once_of_itself);
	tcase_add_test(tests, ends_within_an_answer_lose_nothing);
	tcase_add_test(tests, ends_within_a_request_lose_nothing);
	tcase_add_test(tests, an_answer_that_nobody_awaits_ends_the_connection);
	tcase_add_test(tests, an_answer_beyond_the_limit_ends_the_connection);
	tcase_add_test(tests, who_speaks_another_protocol_is_refused);
	tcase_add_test(tests, an_engine_that_takes_no_connection_is_said_at_once);
	tcase_add_test(tests, a_request_beyond_the_limit_is_refused_alone);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
