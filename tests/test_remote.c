/*
 * Clients on other machines, by tcp and tls: the same results, certificates that are asked for, and connections of which each
 * is its own trouble. Ports are the kernel's choice, certificates are made here.
 */
#include "tests/daemon.h"

#include <errno.h>
#include <stdatomic.h>

#include <mbedtls/ssl.h>

#include "client/link.h"
#include "protocol/message.h"
#include "protocol/wire.h"
#include "tests/remote_keys.h"
#include "tests/suite.h"

enum {
	TEST_SECONDS = 240,
	URL = 128,
	/* More than a chunk, and no multiple of one. */
	LARGE = (5 << 20) / 4 + 3,
	N = 1000,
	VICTIMS = 4,
	SILENT = 12,
};

static char tcp[URL], tls[URL];

/* ---- the daemon ---- */

/* What the door's answer to STATUS says, or -1; a text is copied. */
static double status_of(const char *name, char text[static URL]) {
	cJSON *json = door_status();
	const cJSON *item = cJSON_GetObjectItem(json, name);
	double value = cJSON_IsNumber(item) ? item->valuedouble : -1;

	if (cJSON_IsString(item))
		snprintf(text, URL, "%s", item->valuestring);
	cJSON_Delete(json);
	return value;
}

static double sessions(void) {
	char unused[URL];

	return status_of("session_count", unused);
}

static void expect_sessions(double wanted) {
	for (int i = 0; i < START_TRIES && sessions() != wanted; i++)
		usleep(50000);
	ck_assert_double_eq(sessions(), wanted);
}

static void read_addresses(void) {
	char text[URL] = "";
	char *comma;

	for (int i = 0; i < START_TRIES && !*text; i++) {
		usleep(50000);
		status_of("remote", text);
	}
	comma = strstr(text, ", ");
	ck_assert_msg(comma != NULL, "the gateway listens at \"%s\"", text);
	*comma = 0;
	snprintf(tcp, sizeof tcp, "%s", text);
	snprintf(tls, sizeof tls, "%s", comma + 2);
}

static void start_remote(void) {
	char self[16];

	/* Who may open what is shared between this side and the other: the same user. */
	snprintf(self, sizeof self, "%u", (unsigned)geteuid());
	setenv("FUSIOND_REMOTE_LISTEN", "tcp://127.0.0.1:0,tls+tcp://127.0.0.1:0", 1);
	setenv("FUSIOND_REMOTE_PLAIN_USER", self, 1);
	setenv("FUSIOND_REMOTE_CERTIFICATE", key_file("127.0.0.1", "pem"), 1);
	setenv("FUSIOND_REMOTE_KEY", key_file("127.0.0.1", "key"), 1);
	setenv("FUSIOND_REMOTE_AUTHORITY", key_file("authority", "pem"), 1);
	setenv("FUSIOND_REMOTE_USERS", key_file("users", "conf"), 1);
	start();
	read_addresses();
}

static struct fusion_options by(const char *url, const char *who) {
	return (struct fusion_options){ .socket = url, .authority = key_file("authority", "pem"),
		.certificate = who ? key_file(who, "pem") : NULL, .key = who ? key_file(who, "key") : NULL };
}

static fusion_context *connect_to(const char *url) {
	const struct fusion_options o = by(url, "alice");
	fusion_context *c;

	ck_assert_msg(!fusion_open(&c, &o), "%s", fusion_error());
	return c;
}

/* _i: 0 tcp, 1 tls. */
static const char *url_of(int i) {
	return i ? tls : tcp;
}

/* ---- the same results ---- */

static void must(int code) {
	ck_assert_msg(!code, "%s", fusion_error());
}

static float *counting(int64_t n) {
	float *x = malloc((size_t)n * sizeof *x);

	for (int64_t i = 0; i < n; i++)
		x[i] = (float)(i % 1000) / 37 - 11;
	return x;
}

/* Softmax of rows, read into memory that the caller frees. */
static float *softmax_by(fusion_context *c, const float *x, int64_t rows, int64_t columns) {
	size_t bytes = (size_t)(rows * columns) * sizeof *x;
	const int64_t dims[] = { rows, columns };
	const int axis = 1;
	fusion_array *a = fusion_from(c, FUSION_F32, 2, dims, x), *s = fusion_softmax(a, 1, &axis);
	float *got = malloc(bytes);

	must(fusion_read(s, got, bytes));
	fusion_release(a);
	fusion_release(s);
	return got;
}

START_TEST(results_are_those_of_a_client_of_this_machine) {
	fusion_context *here = connect_client(), *there = connect_to(url_of(_i));
	float *x = counting(300 * 77), *a = softmax_by(here, x, 300, 77), *b = softmax_by(there, x, 300, 77);

	ck_assert_int_eq(memcmp(a, b, 300 * 77 * sizeof *a), 0);
	ck_assert_str_eq(fusion_device(here), fusion_device(there));
	fusion_close(here);
	fusion_close(there);
	free(x);
	free(a);
	free(b);
}
END_TEST

START_TEST(large_arrays_go_and_come_in_pieces) {
	fusion_context *c = connect_to(url_of(_i));
	const int64_t n = LARGE;
	float *x = counting(n), *y = malloc(LARGE * sizeof *y);
	fusion_array *a = fusion_from(c, FUSION_F32, 1, &n, x), *b = fusion_add(a, a);

	must(fusion_read(b, y, LARGE * sizeof *y));
	for (int64_t i = 0; i < n; i++)
		ck_assert_msg(y[i] == x[i] + x[i], "element %d", (int)i);
	must(fusion_read(a, y, LARGE * sizeof *y));
	ck_assert_int_eq(memcmp(x, y, LARGE * sizeof *y), 0);
	fusion_release(a);
	fusion_release(b);
	fusion_close(c);
	free(x);
	free(y);
}
END_TEST

START_TEST(arrays_are_made_in_place_and_mapped) {
	fusion_context *c = connect_to(url_of(_i));
	const int64_t n = N;
	void *memory;
	float *f, got[N];
	fusion_array *a = fusion_create(c, FUSION_F32, 1, &n, &memory), *before, *after;

	ck_assert_ptr_nonnull(a);
	for (int i = 0; i < N; i++)
		((float *)memory)[i] = (float)i;
	must(fusion_unmap(a));
	before = fusion_mul_scalar(a, 2);
	must(fusion_map(a, FUSION_MAP_WRITE, &memory));
	f = memory;
	for (int i = 0; i < N; i++) {
		ck_assert(f[i] == (float)i);
		f[i] = (float)-i;
	}
	must(fusion_unmap(a));
	after = fusion_mul_scalar(a, 2);
	must(fusion_read(before, got, sizeof got));
	for (int i = 0; i < N; i++)
		ck_assert(got[i] == (float)(2 * i));
	must(fusion_map(after, FUSION_MAP_READ, &memory));
	f = memory;
	for (int i = 0; i < N; i++)
		ck_assert(f[i] == (float)(-2 * i));
	must(fusion_unmap(after));
	fusion_release(a);
	fusion_release(before);
	fusion_release(after);
	fusion_close(c);
}
END_TEST

static atomic_int called;

static void on_done(void *user, int code) {
	(void)user;
	atomic_fetch_add(&called, code ? 1000 : 1);
}

START_TEST(reads_that_nobody_waits_for_come) {
	fusion_context *c = connect_to(url_of(_i));
	const int64_t n = N, none = 0;
	float x[N], y[N], z[N];
	fusion_array *a = fusion_arange(c, FUSION_F32, n, 0, 1), *b = fusion_add_scalar(a, 1);
	fusion_array *e = fusion_from(c, FUSION_F32, 1, &none, NULL);
	fusion_future *future;

	must(fusion_read(e, NULL, 0));
	atomic_store(&called, 0);
	must(fusion_read_callback(a, x, sizeof x, on_done, NULL));
	future = fusion_read_begin(b, y, sizeof y);
	ck_assert_ptr_nonnull(future);
	must(fusion_future_finish(future));
	must(fusion_read(b, z, sizeof z));
	for (int i = 0; i < START_TRIES && !atomic_load(&called); i++)
		usleep(50000);
	ck_assert_int_eq(atomic_load(&called), 1);
	for (int i = 0; i < N; i++)
		ck_assert(x[i] == (float)i && y[i] == (float)(i + 1) && z[i] == y[i]);
	fusion_release(a);
	fusion_release(b);
	fusion_release(e);
	fusion_close(c);
}
END_TEST

START_TEST(errors_are_told_as_they_are_here) {
	fusion_context *c = connect_to(url_of(_i));
	const int64_t n = N;
	fusion_array *a = fusion_full(c, FUSION_F32, 1, &n, 1);
	float x;

	ck_assert_int_eq(fusion_configure(c, "fusion.nonsense", "1"), FUSION_E_ARGUMENT);
	fusion_error_clear();
	ck_assert_int_eq(fusion_read(a, &x, sizeof x), FUSION_E_ARGUMENT);
	fusion_error_clear();
	must(fusion_sync(c));
	fusion_release(a);
	fusion_close(c);
}
END_TEST

START_TEST(shared_arrays_are_copied_to_and_from_other_machines) {
	fusion_context *here = connect_client(), *there = connect_to(url_of(_i));
	const int64_t n = N;
	struct fusion_token token;
	float x[N], *memory;
	fusion_array *a = fusion_arange(there, FUSION_F32, n, 0, 1), *b;

	must(fusion_export(a, FUSION_SHARE_READ_WRITE, 0, &token));
	b = fusion_import(here, &token);
	ck_assert_msg(b != NULL, "%s", fusion_error());
	must(fusion_read(b, x, sizeof x));
	ck_assert(x[N - 1] == N - 1);
	must(fusion_map(a, FUSION_MAP_WRITE, (void **)&memory));
	memory[0] = 42;
	must(fusion_unmap(a));
	must(fusion_sync(there));
	must(fusion_read(b, x, sizeof x));
	ck_assert(x[0] == 42 && x[1] == 1);
	fusion_release(a);
	fusion_release(b);
	fusion_close(there);
	fusion_close(here);
}
END_TEST

START_TEST(administration_is_for_this_machine_alone) {
	fusion_context *c = connect_to(url_of(_i));
	char command[512], answer[512];
	FILE *f;

	ck_assert_int_ne(fusion_configure_daemon(c, "fusion.enabled", "1"), 0);
	fusion_error_clear();
	must(fusion_configure(c, "fusion.enabled", "1"));
	fusion_close(c);
	snprintf(command, sizeof command, "%s/fusionctl --socket %s status 2>&1", build_folder(), tcp);
	f = popen(command, "r");
	ck_assert_ptr_nonnull(f);
	answer[fread(answer, 1, sizeof answer - 1, f)] = 0;
	ck_assert_int_ne(pclose(f), 0);
	ck_assert_msg(strstr(answer, "remote.status") != NULL, "%s", answer);
}
END_TEST

/* ---- who may connect ---- */

static void expect_refusal(struct fusion_options o, const char *why) {
	fusion_context *c;

	ck_assert_int_ne(fusion_open(&c, &o), 0);
	ck_assert_msg(!why || strstr(fusion_error(), why), "%s", fusion_error());
	fusion_error_clear();
}

START_TEST(certificates_that_are_not_known_are_refused) {
	struct fusion_options other = by(tls, "alice"), name = by(tls, "alice");
	char url[URL];

	expect_refusal(by(tls, "stranger"), "our certificate: it is foreign");
	expect_refusal(by(tls, NULL), "wants a certificate, and we have shown none");
	expect_refusal(by(tls, "late"), "our certificate: it has expired");
	expect_refusal(by(tls, "mallory"), "no line for the certificate \"mallory\"");
	other.authority = key_file("other", "pem");
	expect_refusal(other, "certificate is foreign");
	snprintf(url, sizeof url, "tls+tcp://localhost:%s", strrchr(tls, ':') + 1);
	name.socket = url;
	expect_refusal(name, "of another name");
	fusion_close(connect_to(tls));
}
END_TEST

/* What a connection of openssl's has of these lines, as the shell's `filter` shows it. */
static void ask_openssl(const char *options, const char *filter, char text[static 256]) {
	char command[2048];
	FILE *f;

	snprintf(command, sizeof command,
		"openssl s_client -connect %s -CAfile %s -cert %s -key %s %s </dev/null 2>&1 | %s", tls + strlen("tls+tcp://"),
		key_file("authority", "pem"), key_file("alice", "pem"), key_file("alice", "key"), options, filter);
	f = popen(command, "r");
	ck_assert_ptr_nonnull(f);
	text[fread(text, 1, 255, f)] = 0;
	pclose(f);
}

START_TEST(the_versions_are_1_3_where_mbedtls_has_it_and_1_2) {
	static const char agreed[] = "grep -o 'New, TLSv1.[0-9]*, Cipher is [A-Z]'";
	char text[256];

	ask_openssl("-tls1_2", agreed, text);
	ck_assert_str_eq(text, "New, TLSv1.2, Cipher is E\n");
	ask_openssl("-tls1_3", agreed, text);
#ifdef MBEDTLS_SSL_PROTO_TLS1_3
	ck_assert_str_eq(text, "New, TLSv1.3, Cipher is T\n");
#else
	ck_assert_str_eq(text, "");
#endif
	ask_openssl("-tls1_1 -cipher DEFAULT@SECLEVEL=0", agreed, text);
	ck_assert_str_eq(text, "");
}
END_TEST

#ifdef MBEDTLS_SSL_PROTO_TLS1_3
/* Each connection has a process, a fork of one that has a generator of random numbers, too. */
START_TEST(no_two_connections_have_a_secret_in_common) {
	/* The end of the server's greeting is its public half of it. */
	static const char half[] = "awk '/^<<<.*ServerHello/ { on = 1; next } /^(<<<|>>>)/ { on = 0 } on' | tr -d ' \n' | tail -c 64";
	char one[256], other[256];

	ask_openssl("-tls1_3 -msg", half, one);
	ask_openssl("-tls1_3 -msg", half, other);
	ck_assert_uint_eq(strlen(one), 64);
	ck_assert_uint_eq(strlen(other), 64);
	ck_assert_str_ne(one, other);
}
END_TEST
#endif

START_TEST(tcp_does_not_speak_with_tls) {
	struct fusion_options o = by(tls, NULL);
	char url[URL];

	snprintf(url, sizeof url, "tcp://%s", tls + strlen("tls+tcp://"));
	o.socket = url;
	expect_refusal(o, NULL);
	fusion_close(connect_to(tls));
}
END_TEST

/* ---- what clients do wrong ---- */

static struct link *raw_link(void) {
	const struct link_files none = { .authority = NULL };
	struct link *l;
	struct fault f;

	ck_assert_msg(!link_dial(tcp, &none, 0, NULL, &l, &f), "%s", f.text);
	return l;
}

static void put(struct link *l, const struct remote_head *h, const void *bytes) {
	ck_assert_int_eq(link_write_frame(l, h, bytes, 0, NULL), 0);
	ck_assert_int_eq(link_flush(l, 0, NULL), 0);
}

static void greet(struct link *l) {
	struct remote_head h = { .kind = REMOTE_DOOR };
	struct wire_writer w;
	struct fault f;
	char reply[8192];

	wire_writer_init(&w);
	wire_put_array(&w, 5);
	wire_put_uint(&w, DOOR_HELLO);
	wire_put_uint(&w, PROTOCOL_VERSION);
	wire_put_uint(&w, FEATURES_ALL | FEATURE_RING);
	wire_put_text(&w, "raw");
	wire_put_map(&w, 0);
	ck_assert_int_eq(wire_finish(&w), 0);
	h.size = (uint32_t)w.buffer.size;
	put(l, &h, w.buffer.data);
	wire_writer_free(&w);
	ck_assert_int_eq(link_read_head(l, &h, 0, &f), 0);
	ck_assert_int_eq(h.kind, REMOTE_DOOR);
	ck_assert_int_eq(link_read(l, reply, h.size, 0), 0);
}

/* The gateway says nothing more; for a greeting that is nonsense, first why. */
static void expect_end(struct link *l) {
	char byte;
	int r;

	do
		r = link_read(l, &byte, 1, link_now_us() + 60 * 1000000);
	while (!r);
	ck_assert_int_eq(r, -ECONNRESET);
	link_free(l);
}

static const struct remote_head nonsense[] = {
	{ .kind = 0 },
	{ .kind = REMOTE_KINDS, .size = 4 },
	{ .kind = UINT32_MAX, .size = UINT32_MAX, .name = UINT32_MAX, .offset = UINT64_MAX },
	{ .kind = REMOTE_REQUEST, .size = LIMIT_FRAME_BYTES + 1 },
	{ .kind = REMOTE_REQUEST, .size = 0 },
	{ .kind = REMOTE_REQUEST, .size = 4, .name = LIMIT_UNANSWERED },
	{ .kind = REMOTE_REQUEST, .size = 4, .name = LIMIT_UNANSWERED - 1 },
	{ .kind = REMOTE_UPLOAD, .size = 4, .name = 4711 },
	{ .kind = REMOTE_UPLOAD, .size = REMOTE_CHUNK_BYTES + 1 },
	{ .kind = REMOTE_REPLY, .size = 4 },
	{ .kind = REMOTE_RESULT, .size = 4 },
	{ .kind = REMOTE_DOOR, .size = 4 },
};

START_TEST(nonsense_closes_the_connection_that_sent_it) {
	fusion_context *c = connect_to(tcp);
	uint8_t head[REMOTE_HEAD_BYTES], body[8] = { 0xc1 };

	expect_sessions(1);
	for (unsigned i = 0; i < sizeof nonsense / sizeof *nonsense; i++) {
		for (int greeted = 0; greeted < 2; greeted++) {
			struct link *l = raw_link();

			if (greeted)
				greet(l);
			remote_head_put(head, &nonsense[i]);
			ck_assert_int_eq(link_write(l, head, sizeof head, 0, NULL), 0);
			ck_assert_int_eq(link_write(l, body, sizeof body, 0, NULL), 0);
			ck_assert_int_eq(link_flush(l, 0, NULL), 0);
			expect_end(l);
		}
	}
	expect_sessions(1);
	free(softmax_by(c, (float[4]){ 1, 2, 3, 4 }, 2, 2));
	fusion_close(c);
}
END_TEST

START_TEST(memory_beyond_an_arena_is_not_reached) {
	fusion_context *c = connect_to(tcp);

	expect_sessions(1);
	for (int where = 0; where < 3; where++) {
		static const uint64_t offset[] = { 1 << 20, (1 << 20) - 4, UINT64_C(1) << 39 };
		struct remote_head h = { .kind = REMOTE_ARENA, .offset = 1 << 20 };
		struct link *l = raw_link();
		char reply[64];
		struct fault f;

		greet(l);
		put(l, &h, NULL);
		ck_assert_int_eq(link_read_head(l, &h, 0, &f), 0);
		ck_assert_int_eq(h.kind, REMOTE_REPLY);
		ck_assert_int_eq(link_read(l, reply, h.size, 0), 0);
		h = (struct remote_head){ .kind = REMOTE_UPLOAD, .size = 8, .name = 1, .offset = offset[where] };
		put(l, &h, "12345678");
		expect_end(l);
	}
	expect_sessions(1);
	free(softmax_by(c, (float[4]){ 1, 2, 3, 4 }, 2, 2));
	fusion_close(c);
}
END_TEST

START_TEST(a_frame_that_breaks_off_ends_its_session) {
	uint8_t head[REMOTE_HEAD_BYTES];
	struct link *l;

	expect_sessions(0);
	l = raw_link();
	greet(l);
	expect_sessions(1);
	remote_head_put(head, &(struct remote_head){ .kind = REMOTE_REQUEST, .size = 1000 });
	ck_assert_int_eq(link_write(l, head, sizeof head, 0, NULL), 0);
	ck_assert_int_eq(link_flush(l, 0, NULL), 0);
	link_free(l);
	expect_sessions(0);
}
END_TEST

/* Fills an array of more than sockets hold and asks for it in every slot, by a child that then stands still. */
static void ask_and_stand_still(int i, int said) {
	const int64_t n = 16 * LARGE;
	const struct fusion_options o = by(url_of(i), "alice");
	fusion_array *a;
	fusion_context *c;
	float *large = malloc(16 * LARGE * sizeof *large);

	if (!large || fusion_open(&c, &o))
		_exit(1);
	a = fusion_full(c, FUSION_F32, 1, &n, 1);
	if (fusion_sync(c) || !fusion_read_begin(a, large, 16 * LARGE * sizeof *large))
		_exit(1);
	if (write(said, "m", 1) != 1)
		_exit(1);
	raise(SIGSTOP);
}

START_TEST(a_client_that_takes_no_answers_holds_up_nobody) {
	struct victim still;
	fusion_context *c;
	int status;

	victim_new(&still, _i, ask_and_stand_still);
	c = connect_to(url_of(_i));
	victim_go(&still);
	ck_assert_int_eq(waitpid(still.pid, &status, WUNTRACED), still.pid);
	ck_assert_msg(WIFSTOPPED(status), "the client ended: %#x", status);
	for (int i = 0; i < 20; i++)
		free(softmax_by(c, (float[4]){ 1, 2, 3, 4 }, 2, 2));
	victim_kill(&still);
	fusion_close(c);
}
END_TEST

/* ---- clients that are killed ---- */

static void work_for_ever(int i, int said) {
	static float x[LARGE / 8];
	const int64_t n = LARGE / 8;
	const struct fusion_options o = by(url_of(i % 2), "alice");
	fusion_context *c;

	if (fusion_open(&c, &o))
		_exit(1);
	for (int sent = 0;; sent++) {
		fusion_array *a = fusion_from(c, FUSION_F32, 1, &n, x), *b = fusion_add(a, a);

		if (!b || (sent % 2 ? fusion_read(b, x, sizeof x) : fusion_flush(c)) || (sent == 3 && write(said, "m", 1) != 1))
			_exit(1);
		fusion_release(a);
		fusion_release(b);
	}
}

START_TEST(clients_killed_in_the_middle_leave_nothing) {
	struct victim victim[VICTIMS];
	fusion_context *c;
	double arrays, arenas, live;
	int supervisor, engine;

	for (int i = 0; i < VICTIMS; i++)
		victim_new(&victim[i], i, work_for_ever);
	c = connect_client();
	free(softmax_by(c, (float[4]){ 1, 2, 3, 4 }, 2, 2));
	must(fusion_sync(c));
	arrays = stat_of(c, "arrays");
	arenas = stat_of(c, "arena_bytes");
	live = stat_of(c, "sessions");
	supervisor = descriptors_of(daemon_pid);
	engine = descriptors_of(engine_pid());
	for (int i = 0; i < VICTIMS; i++) {
		victim_go(&victim[i]);
		victim_kill(&victim[i]);
	}
	expect_back(c, "sessions", live);
	expect_back(c, "arrays", arrays);
	expect_back(c, "arena_bytes", arenas);
	expect_descriptors(daemon_pid, supervisor);
	expect_descriptors(engine_pid(), engine);
	fusion_close(c);
}
END_TEST

/* ---- the gateway ---- */

static pid_t gateway_pid(void) {
	char command[128], text[32] = "";
	FILE *f;

	/* Names in /proc have 15 letters. */
	snprintf(command, sizeof command, "for p in $(cat /proc/%d/task/%d/children); do grep -q fusiond-gateway /proc/$p/cmdline "
		"&& echo $p; done", daemon_pid, daemon_pid);
	f = popen(command, "r");
	ck_assert_ptr_nonnull(f);
	if (!fgets(text, sizeof text, f))
		text[0] = 0;
	pclose(f);
	return atoi(text);
}

/* Where it listens, once it is another one than `before`. */
static void await_gateway(pid_t before) {
	char text[URL] = "";

	for (int i = 0; i < START_TRIES && (!*text || gateway_pid() == before || !gateway_pid()); i++) {
		usleep(50000);
		text[0] = 0;
		status_of("remote", text);
	}
	ck_assert_msg(strchr(text, ',') != NULL, "the gateway listens at \"%s\"", text);
	*strchr(text, ',') = 0;
	snprintf(tcp, sizeof tcp, "%s", text);
}

START_TEST(the_end_of_the_gateway_is_that_of_its_sessions_alone) {
	fusion_context *here = connect_client(), *there = connect_to(tcp);
	pid_t before = gateway_pid();
	char socket[URL];

	free(softmax_by(there, (float[4]){ 1, 2, 3, 4 }, 2, 2));
	ck_assert_int_gt(before, 0);
	ck_assert_int_eq(kill(before, SIGKILL), 0);
	expect_sessions(1);
	ck_assert_int_ne(fusion_sync(there) || fusion_wait(fusion_scalar(there, FUSION_F32, 1)), 0);
	fusion_error_clear();
	fusion_close(there);
	free(softmax_by(here, (float[4]){ 1, 2, 3, 4 }, 2, 2));
	await_gateway(before);
	snprintf(socket, sizeof socket, "%s.d/engine-0.1.sock", door);
	ck_assert_int_eq(access(socket, F_OK), 0);
	there = connect_to(tcp);
	free(softmax_by(there, (float[4]){ 1, 2, 3, 4 }, 2, 2));
	fusion_close(there);
	fusion_close(here);
}
END_TEST

/* Nobody keeps the memory of a session of another machine but its connection, so it ends, and its client is told what it had. */
static void expect_session_gone(fusion_context *c, fusion_array *kept) {
	float x[4];

	for (int i = 0; i < 2; i++) {
		ck_assert_int_ne(i ? fusion_read(kept, x, sizeof x) : fusion_wait(fusion_scalar(c, FUSION_F32, 1)), 0);
		ck_assert_int_eq(fusion_error_code(), FUSION_E_CONNECT);
		ck_assert_msg(strstr(fusion_error(), "its arrays are lost") != NULL, "%s", fusion_error());
		fusion_error_clear();
	}
	fusion_release(kept);
	fusion_close(c);
}

/* What was sent while the engine ended is REPEATABLE. */
static bool reads_a_number(fusion_context *c) {
	fusion_array *a = fusion_scalar(c, FUSION_F32, 2);
	float x = 0;
	int r = fusion_read(a, &x, sizeof x);

	fusion_release(a);
	return !r;
}

START_TEST(an_engine_s_end_ends_sessions_of_other_machines_and_they_begin_again) {
	fusion_context *plain, *secret, *here = connect_client();
	const float numbers[4] = { 1, 2, 3, 4 };
	const int64_t n = 4;
	fusion_array *a, *b;
	pid_t gateway = gateway_pid(), before = engine_pid();

	/* They are others since the test before. */
	read_addresses();
	plain = connect_to(tcp);
	secret = connect_to(tls);
	a = fusion_square(fusion_from(plain, FUSION_F32, 1, &n, numbers));
	b = fusion_square(fusion_from(secret, FUSION_F32, 1, &n, numbers));
	ck_assert_int_eq(fusion_wait(a), 0);
	ck_assert_int_eq(fusion_wait(b), 0);
	ck_assert_int_eq(kill(before, SIGKILL), 0);
	expect_session_gone(plain, a);
	expect_session_gone(secret, b);
	/* By the same gateway; who is on this machine goes on. */
	for (int i = 0; i < START_TRIES && (!reads_a_number(here) || engine_pid() == before); i++)
		usleep(50000);
	free(softmax_by(here, (float[4]){ 1, 2, 3, 4 }, 2, 2));
	ck_assert_int_ne(engine_pid(), before);
	plain = connect_to(tcp);
	secret = connect_to(tls);
	free(softmax_by(plain, (float[4]){ 1, 2, 3, 4 }, 2, 2));
	free(softmax_by(secret, (float[4]){ 1, 2, 3, 4 }, 2, 2));
	ck_assert_int_eq(gateway_pid(), gateway);
	expect_sessions(3);
	fusion_close(plain);
	fusion_close(secret);
	fusion_close(here);
}
END_TEST

/* ---- with other settings ---- */

static void start_few(void) {
	setenv("FUSIOND_REMOTE_CONNECTIONS", "4", 1);
	setenv("FUSIOND_REMOTE_HELLO_US", "600s", 1);
	setenv("FUSIOND_REMOTE_STATUS", "yes", 1);
	start_remote();
}

START_TEST(silent_connections_keep_nobody_out) {
	struct link *silent[SILENT];
	fusion_context *c;

	for (int i = 0; i < SILENT; i++)
		silent[i] = raw_link();
	for (int i = 0; i < 2; i++) {
		c = connect_to(url_of(i));
		free(softmax_by(c, (float[4]){ 1, 2, 3, 4 }, 2, 2));
		fusion_close(c);
	}
	for (int i = 0; i < SILENT; i++)
		link_free(silent[i]);
}
END_TEST

static void start_hasty(void) {
	setenv("FUSIOND_REMOTE_STALL_US", "100ms", 1);
	start_remote();
}

START_TEST(who_stops_within_a_frame_is_closed) {
	uint8_t head[REMOTE_HEAD_BYTES];
	struct link *l = raw_link();

	greet(l);
	remote_head_put(head, &(struct remote_head){ .kind = REMOTE_REQUEST, .size = 1000 });
	ck_assert_int_eq(link_write(l, head, sizeof head, 0, NULL), 0);
	ck_assert_int_eq(link_flush(l, 0, NULL), 0);
	expect_end(l);
	expect_sessions(0);
}
END_TEST

START_TEST(the_status_is_told_where_that_is_allowed) {
	char command[512];

	snprintf(command, sizeof command, "%s/fusionctl --socket %s status >/dev/null", build_folder(), tcp);
	ck_assert_int_eq(system(command), 0);
	setenv("FUSION_CA", key_file("authority", "pem"), 1);
	setenv("FUSION_CERT", key_file("alice", "pem"), 1);
	setenv("FUSION_KEY", key_file("alice", "key"), 1);
	snprintf(command, sizeof command, "%s/fusionctl --socket %s status >/dev/null", build_folder(), tls);
	ck_assert_int_eq(system(command), 0);
}
END_TEST

static void expect_no_start(const char *listen, const char *user, const char *why) {
	char command[1024], log[4096];
	FILE *f;

	snprintf(command, sizeof command,
		"%s/fusiond --socket %s/none --cache-dir %s/cache --set remote.listen=%s --set remote.plain_user=%s --set "
		"remote.users= --set remote.authority= --set remote.key= --set remote.certificate= 2>&1",
		build_folder(), keys, keys, listen, user);
	f = popen(command, "r");
	ck_assert_ptr_nonnull(f);
	log[fread(log, 1, sizeof log - 1, f)] = 0;
	ck_assert_int_ne(pclose(f), 0);
	ck_assert_msg(strstr(log, why) != NULL, "%s", log);
}

START_TEST(what_would_not_be_safe_is_not_begun) {
	expect_no_start("tcp://127.0.0.1:0", "", "remote.plain_user");
	expect_no_start("tcp://0.0.0.0:0", "0", "remote.plain_anywhere");
	expect_no_start("tls+tcp://127.0.0.1:0", "", "authority");
	expect_no_start("udp://127.0.0.1:0", "", "tls+tcp://HOST:PORT");
}
END_TEST

static Suite *suite(void) {
	Suite *s = suite_create("remote");
	TCase *both = tcase_create("both"), *few = tcase_create("few"), *none = tcase_create("none");
	TCase *hasty = tcase_create("hasty"), *killed = tcase_create("killed");

	tcase_set_timeout(both, TEST_SECONDS);
	tcase_add_unchecked_fixture(both, start_remote, daemon_stop);
	tcase_add_loop_test(both, results_are_those_of_a_client_of_this_machine, 0, 2);
	tcase_add_loop_test(both, large_arrays_go_and_come_in_pieces, 0, 2);
	tcase_add_loop_test(both, arrays_are_made_in_place_and_mapped, 0, 2);
	tcase_add_loop_test(both, reads_that_nobody_waits_for_come, 0, 2);
	tcase_add_loop_test(both, errors_are_told_as_they_are_here, 0, 2);
	tcase_add_loop_test(both, shared_arrays_are_copied_to_and_from_other_machines, 0, 2);
	tcase_add_loop_test(both, administration_is_for_this_machine_alone, 0, 2);
	tcase_add_test(both, certificates_that_are_not_known_are_refused);
	tcase_add_test(both, the_versions_are_1_3_where_mbedtls_has_it_and_1_2);
#ifdef MBEDTLS_SSL_PROTO_TLS1_3
	tcase_add_test(both, no_two_connections_have_a_secret_in_common);
#endif
	tcase_add_test(both, tcp_does_not_speak_with_tls);
	tcase_add_test(both, nonsense_closes_the_connection_that_sent_it);
	tcase_add_test(both, memory_beyond_an_arena_is_not_reached);
	tcase_add_test(both, a_frame_that_breaks_off_ends_its_session);
	tcase_add_loop_test(both, a_client_that_takes_no_answers_holds_up_nobody, 0, 2);
	tcase_add_test(both, clients_killed_in_the_middle_leave_nothing);
	suite_add_tcase(s, both);

	tcase_set_timeout(few, TEST_SECONDS);
	tcase_add_unchecked_fixture(few, start_few, daemon_stop);
	tcase_add_test(few, silent_connections_keep_nobody_out);
	tcase_add_test(few, the_status_is_told_where_that_is_allowed);
	suite_add_tcase(s, few);

	tcase_set_timeout(hasty, TEST_SECONDS);
	tcase_add_unchecked_fixture(hasty, start_hasty, daemon_stop);
	tcase_add_test(hasty, who_stops_within_a_frame_is_closed);
	suite_add_tcase(s, hasty);

	tcase_set_timeout(killed, TEST_SECONDS);
	tcase_add_unchecked_fixture(killed, start_remote, daemon_stop);
	tcase_add_test(killed, the_end_of_the_gateway_is_that_of_its_sessions_alone);
	tcase_add_test(killed, an_engine_s_end_ends_sessions_of_other_machines_and_they_begin_again);
	suite_add_tcase(s, killed);

	tcase_set_timeout(none, TEST_SECONDS);
	tcase_add_test(none, what_would_not_be_safe_is_not_begun);
	suite_add_tcase(s, none);
	return s;
}

int main(void) {
	bool made = make_keys();
	int r = EXIT_FAILURE;

	if (made)
		r = suite_run(suite());
	else
		fprintf(stderr, "openssl made no certificates\n");
	return keys_remove() ? EXIT_FAILURE : r;
}
