/*
 * Does nng's own socket lose an operation where a connection ends within a frame? A program of nng alone, without fusiond.
 *
 *	cc -std=gnu11 -O2 -pthread tests/nng/lost.c -o lost -lnng && ./lost [ROUNDS]
 *
 * A peer that speaks SP by hand connects, lets a part of a frame move, and closes; a socket of nng is at the other end, as rep0 (who serves)
 * and as req0 (who asks), within a request and within an answer. Then everything must have an end: each connection that came must be
 * taken apart, each operation told of, and nng_close() must return. Where an operation is lost, the thread that takes connections apart waits for
 * it for ever, and so does nng_close().
 *
 * Each of the four cases is a process of its own, ended from outside where it hangs. Exit code: 0 nothing was lost, 1 something was, 2 it
 * could not be tried. The last line is "N passed, M failed". What it found of which version stands in protocol/sp.h.
 */
#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <nng/protocol/reqrep0/req.h>

enum {
	ROUNDS = 4000,               /* for each case: the loss is a race of two threads of nng, met in some of a thousand */
	PEERS = 4,                   /* that connect side by side */
	BIG = 1 << 20,               /* more than a Unix socket holds, so that it moves in parts */
	PARTS = 24,
	CONTEXTS = 16,
	/* Nothing here takes a second; whoever has not ended after this hangs. */
	PATIENCE_S = 30,
	LOOK_US = 10 * 1000,
	GREETING_BYTES = 8,
	HEAD_BYTES = 9,
	NUMBER_BYTES = 4,
	EXIT_UNTRIED = 2,
};

static const char *const greetings[] = { "\0SP\0\0\x30\0", "\0SP\0\0\x31\0" };
static char folder[] = "/tmp/nng_lost_XXXXXX", path[64], url[80];
static int rounds = ROUNDS;
static atomic_int begun, ended_well;          /* operations of nng, and those told of */
static atomic_int came, gone;                 /* connections of nng's socket */

static void need(int error, const char *what) {
	if (!error)
		return;
	fprintf(stderr, "%s: %s\n", what, nng_strerror(error));
	_exit(EXIT_UNTRIED);
}

static void need_system(bool fine, const char *what) {
	if (fine)
		return;
	perror(what);
	_exit(EXIT_UNTRIED);
}

/* ---- the peer: bytes of SP over a Unix socket ---- */

static struct sockaddr_un address(void) {
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
	return a;
}

static bool send_all(int fd, const void *bytes, size_t size) {
	const char *p = bytes;

	while (size) {
		ssize_t n = send(fd, p, size, MSG_NOSIGNAL);

		if (n <= 0)
			return false;
		p += n;
		size -= (size_t)n;
	}
	return true;
}

static bool receive(int fd, void *bytes, size_t size) {
	return recv(fd, bytes, size, MSG_WAITALL) == (ssize_t)size;
}

/* Sends a frame's head with the request's number, and so many bytes of the rest. */
static bool send_part(int fd, const uint8_t number[static NUMBER_BYTES], size_t announced, size_t sent) {
	static const char nothing[BIG];
	uint64_t length = htobe64(NUMBER_BYTES + announced);
	uint8_t head[HEAD_BYTES] = { 1 };

	memcpy(head + 1, &length, sizeof length);
	return send_all(fd, head, sizeof head) && send_all(fd, number, NUMBER_BYTES) && send_all(fd, nothing, sent);
}

/* Takes so many bytes, in pieces, so that the other end sends in parts. */
static void take_part(int fd, size_t size) {
	char bytes[BIG / PARTS];

	for (size_t n = 0; n < size; n += sizeof bytes)
		if (recv(fd, bytes, sizeof bytes, 0) <= 0)
			return;
}

static bool meet(int fd, bool asks) {
	char theirs[GREETING_BYTES];

	return send_all(fd, greetings[!asks], GREETING_BYTES) && receive(fd, theirs, sizeof theirs);
}

/* ---- nng as rep0: each context takes a request and answers it with much ---- */

struct server {
	nng_ctx context;
	nng_aio *aio;
	bool answering;
};

/* Ends when its socket is closed. */
static void serve(void *user) {
	struct server *s = user;
	nng_msg *m;

	atomic_fetch_add(&ended_well, 1);
	if (nng_aio_result(s->aio) == NNG_ECLOSED)
		return;
	atomic_fetch_add(&begun, 1);
	if (!s->answering && !nng_aio_result(s->aio)) {
		nng_msg_free(nng_aio_get_msg(s->aio));
		need(nng_msg_alloc(&m, BIG), "an answer");
		nng_aio_set_msg(s->aio, m);
		s->answering = true;
		nng_ctx_send(s->context, s->aio);
		return;
	}
	if (s->answering && nng_aio_result(s->aio))
		nng_msg_free(nng_aio_get_msg(s->aio));
	s->answering = false;
	nng_ctx_recv(s->context, s->aio);
}

static void on_pipe(nng_pipe pipe, nng_pipe_ev event, void *unused) {
	(void)pipe;
	(void)unused;
	if (event == NNG_PIPE_EV_ADD_POST)
		atomic_fetch_add(&came, 1);
	else
		atomic_fetch_add(&gone, 1);
}

static void watch_pipes(nng_socket socket) {
	need(nng_pipe_notify(socket, NNG_PIPE_EV_ADD_POST, on_pipe, NULL), "nng_pipe_notify");
	need(nng_pipe_notify(socket, NNG_PIPE_EV_REM_POST, on_pipe, NULL), "nng_pipe_notify");
}

static nng_socket open_rep(void) {
	nng_socket socket;

	need(nng_rep0_open(&socket), "nng_rep0_open");
	watch_pipes(socket);
	need(nng_listen(socket, url, NULL, 0), "nng_listen");
	for (int i = 0; i < CONTEXTS; i++) {
		struct server *s = calloc(1, sizeof *s);

		need_system(s, "a context");
		need(nng_ctx_open(&s->context, socket), "nng_ctx_open");
		need(nng_aio_alloc(&s->aio, serve, s), "nng_aio_alloc");
		atomic_fetch_add(&begun, 1);
		nng_ctx_recv(s->context, s->aio);
	}
	return socket;
}

/* ---- nng as req0: asks again and again, with much, of whoever listens ---- */

static void ask(void *user) {
	struct server *s = user;
	nng_msg *m;

	atomic_fetch_add(&ended_well, 1);
	if (nng_aio_result(s->aio) == NNG_ECLOSED) {
		if (!s->answering)
			nng_msg_free(nng_aio_get_msg(s->aio));
		return;
	}
	atomic_fetch_add(&begun, 1);
	if (!s->answering && !nng_aio_result(s->aio)) {
		s->answering = true;
		nng_ctx_recv(s->context, s->aio);
		return;
	}
	if (s->answering && !nng_aio_result(s->aio))
		nng_msg_free(nng_aio_get_msg(s->aio));
	if (!s->answering)
		nng_msg_free(nng_aio_get_msg(s->aio));
	s->answering = false;
	need(nng_msg_alloc(&m, BIG), "a request");
	nng_aio_set_msg(s->aio, m);
	nng_ctx_send(s->context, s->aio);
}

static nng_socket open_req(void) {
	nng_socket socket;

	need(nng_req0_open(&socket), "nng_req0_open");
	watch_pipes(socket);
	need(nng_socket_set_ms(socket, NNG_OPT_RECONNMINT, 1), "NNG_OPT_RECONNMINT");
	need(nng_socket_set_ms(socket, NNG_OPT_RECONNMAXT, 1), "NNG_OPT_RECONNMAXT");
	for (int i = 0; i < PEERS; i++)
		need(nng_dial(socket, url, NULL, NNG_FLAG_NONBLOCK), "nng_dial");
	for (int i = 0; i < CONTEXTS; i++) {
		struct server *s = calloc(1, sizeof *s);
		nng_msg *m;

		need_system(s, "a context");
		need(nng_ctx_open(&s->context, socket), "nng_ctx_open");
		need(nng_aio_alloc(&s->aio, ask, s), "nng_aio_alloc");
		need(nng_msg_alloc(&m, BIG), "a request");
		atomic_fetch_add(&begun, 1);
		nng_aio_set_msg(s->aio, m);
		nng_ctx_send(s->context, s->aio);
	}
	return socket;
}

/* ---- the four cases ---- */

static const uint8_t first_number[NUMBER_BYTES] = { 0x80, 0, 0, 1 };

/* Asks, takes a part of the answer, goes. */
static void within_an_answer(int fd, size_t part) {
	if (meet(fd, true) && send_part(fd, first_number, 0, 0))
		take_part(fd, part);
}

/* Sends a part of a request, goes. */
static void within_a_request(int fd, size_t part) {
	if (meet(fd, true))
		send_part(fd, first_number, BIG, part);
}

/* Takes a part of the request, goes. */
static void within_what_it_asks(int fd, size_t part) {
	if (meet(fd, false))
		take_part(fd, part);
}

/* Takes the request, sends a part of the answer, goes. */
static void within_what_it_hears(int fd, size_t part) {
	uint8_t head[HEAD_BYTES + NUMBER_BYTES];

	if (!meet(fd, false) || !receive(fd, head, sizeof head))
		return;
	take_part(fd, BIG);
	send_part(fd, head + HEAD_BYTES, BIG, part);
}

static const struct nng_case {
	const char *name;
	bool serves;                 /* nng is rep0 */
	void (*round)(int fd, size_t part);
} cases[] = {
	{ "rep0: the peer ends within an answer", true, within_an_answer },
	{ "rep0: the peer ends within a request", true, within_a_request },
	{ "req0: the peer ends within a request", false, within_what_it_asks },
	{ "req0: the peer ends within an answer", false, within_what_it_hears },
};

static const struct nng_case *which;
static int listening = -1;
static atomic_int turns;

/* One peer: connects to nng, or takes the connections that nng makes. */
static void *peer(void *unused) {
	const struct sockaddr_un a = address();
	struct timeval patience = { .tv_sec = 1 };
	int turn;

	(void)unused;
	while ((turn = atomic_fetch_add(&turns, 1)) < rounds) {
		int fd = which->serves ? socket(AF_UNIX, SOCK_STREAM, 0) : accept(listening, NULL, NULL);

		need_system(fd >= 0, "a connection");
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
		if (!which->serves || !connect(fd, (const struct sockaddr *)&a, sizeof a))
			which->round(fd, (size_t)(turn % PARTS) * (BIG / PARTS));
		close(fd);
	}
	return NULL;
}

static void listen_by_hand(void) {
	const struct sockaddr_un a = address();

	listening = socket(AF_UNIX, SOCK_STREAM, 0);
	need_system(!bind(listening, (const struct sockaddr *)&a, sizeof a) && !listen(listening, PEERS), "listen");
}

/* A process of its own; its exit code is 0, unless it is ended from outside. */
static int try_case(void) {
	pthread_t threads[PEERS];
	nng_socket socket;

	if (!which->serves)
		listen_by_hand();
	socket = which->serves ? open_rep() : open_req();
	for (int i = 0; i < PEERS; i++)
		need_system(!pthread_create(&threads[i], NULL, peer, NULL), "a thread");
	for (int i = 0; i < PEERS; i++)
		pthread_join(threads[i], NULL);
	if (listening >= 0)
		close(listening);
	printf("    rounds are over; closing\n");
	fflush(stdout);
	nng_close(socket);
	while (atomic_load(&begun) != atomic_load(&ended_well) || atomic_load(&came) != atomic_load(&gone))
		usleep(LOOK_US);
	return 0;
}

/* What the process was at when it hung is told by itself, since nobody else sees it. */
static void tell(int unused) {
	char text[160];
	int n = snprintf(text, sizeof text, "    hangs: of %d connections %d were taken apart, of %d operations %d were told of\n",
		atomic_load(&came), atomic_load(&gone), atomic_load(&begun), atomic_load(&ended_well));

	(void)unused;
	(void)!write(STDOUT_FILENO, text, (size_t)n);
	_exit(1);
}

static int run(const struct nng_case *c) {
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	need_system(pid >= 0, "fork");
	if (!pid) {
		which = c;
		signal(SIGALRM, tell);
		alarm(PATIENCE_S);
		_exit(try_case());
	}
	waitpid(pid, &status, 0);
	unlink(path);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int argc, char **argv) {
	int passed = 0, failed = 0;

	if (argc > 1)
		rounds = atoi(argv[1]);
	need_system(mkdtemp(folder), folder);
	snprintf(path, sizeof path, "%s/sock", folder);
	snprintf(url, sizeof url, "ipc://%s", path);
	printf("nng %s\n", nng_version());
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		int r = run(&cases[i]);

		printf("%s: %s\n", cases[i].name, r == EXIT_UNTRIED ? "could not be tried" : r ? "LOST" : "nothing lost");
		passed += !r;
		failed += !!r;
	}
	rmdir(folder);
	printf("%d passed, %d failed\n", passed, failed);
	return failed > 0;
}
