/*
 * Arrays that several processes hold: each claim with real processes against a real daemon.
 *
 * A peer is a process with a context of its own that does what its parent tells it, one command at a time.
 */
#include <errno.h>
#include <math.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "tests/daemon.h"
#include "tests/skip.h"
#include "tests/suite.h"

enum {
	ELEMENTS = 1000,
	PEERS = 3,
	TEST_SECONDS = 120,
	NOBODY = 65534,
	NAME = 64,
};

enum what {
	MAKE,                /* an array of `value` */
	EXPORT,              /* rights and lifetime in ms; gives the token */
	IMPORT,
	REVOKE,
	READ,                /* the sum of all elements */
	COMPUTE,             /* the sum of 2x + 1 */
	VIEW,                /* keeps the first half of it */
	READ_VIEW,
	MAP,                 /* for writing */
	FILL,                /* what is mapped, with `value` */
	UNMAP,
	TRY_WRITING,         /* is the memory of a map for reading refused to be written? 1: yes */
	VERSION,
	RELEASE,             /* the array */
	QUEUE,               /* a long queue over it, not waited for */
	STATISTIC,           /* of the daemon, by name */
	END,
};

struct command {
	enum what what;
	unsigned rights;
	uint64_t lifetime;
	double value;
	struct fusion_token token;
	char name[NAME];
};

struct reply {
	int code;
	double value;
	struct fusion_token token;
	char text[512];
};

struct peer {
	pid_t pid;
	int to, from;
};

static struct peer peer[PEERS];

/* ---- in the peer ---- */

static struct {
	fusion_context *context;
	fusion_array *array, *view;
	float *memory;
} own;

static double sum_of(fusion_array *a) {
	fusion_array *s = fusion_sum(fusion_cast(a, FUSION_F64), 0, NULL, false);
	double sum = NAN;

	fusion_read(s, &sum, sizeof sum);
	fusion_release(s);
	return sum;
}

/* Read from the array's own memory, which is what zero-copy is about. */
static double sum_read(fusion_array *a) {
	float *got = malloc(fusion_bytes(a));
	double sum = 0;

	if (fusion_read(a, got, fusion_bytes(a)))
		sum = NAN;
	for (int64_t i = 0; i < fusion_elements(a); i++)
		sum += (double)got[i];
	free(got);
	return sum;
}

static double try_writing(void) {
	void *memory = NULL;
	double refused;

	if (fusion_map(own.array, FUSION_MAP_READ, &memory))
		return NAN;
	refused = mprotect((void *)((uintptr_t)memory & ~(uintptr_t)4095), 4096, PROT_READ | PROT_WRITE) && errno == EACCES;
	fusion_unmap(own.array);
	return refused;
}

static double statistic(const char *name) {
	char *text = fusion_stats(own.context, true);
	cJSON *json = cJSON_Parse(text);
	double value = cJSON_GetNumberValue(cJSON_GetObjectItem(json, name));

	cJSON_Delete(json);
	free(text);
	return value;
}

static void fill(double value) {
	for (int i = 0; i < ELEMENTS; i++)
		own.memory[i] = (float)value;
}

static void view_first_half(void) {
	own.view = fusion_slice(own.array, (int64_t[]){ 0 }, (int64_t[]){ ELEMENTS / 2 }, NULL);
	fusion_sync(own.context);
}

static void queue_much(void) {
	fusion_array *a = fusion_keep(fusion_copy(own.array));

	for (int i = 0; i < 2000; i++) {
		fusion_array *next = fusion_add(a, own.array);

		fusion_release(a);
		a = next;
		if (i % 50 == 0)
			fusion_flush(own.context);
	}
	own.view = a;
	fusion_flush(own.context);
}

static void obey(const struct command *c, struct reply *r) {
	const int64_t n = ELEMENTS;

	fusion_error_clear();
	switch (c->what) {
	case MAKE:
		own.array = fusion_full(own.context, FUSION_F32, 1, &n, c->value);
		break;
	case EXPORT:
		fusion_export(own.array, (enum fusion_rights)c->rights, c->lifetime, &r->token);
		break;
	case IMPORT:
		own.array = fusion_import(own.context, &c->token);
		break;
	case REVOKE:
		fusion_revoke(own.context, &c->token);
		break;
	case READ:
		r->value = sum_read(own.array);
		break;
	case COMPUTE:
		fusion_scope_begin(own.context);
		r->value = sum_of(fusion_add_scalar(fusion_mul_scalar(own.array, 2), 1));
		fusion_scope_end(own.context);
		break;
	case VIEW:
		view_first_half();
		break;
	case READ_VIEW:
		r->value = sum_read(own.view);
		break;
	case MAP:
		fusion_map(own.array, FUSION_MAP_WRITE, (void **)&own.memory);
		break;
	case FILL:
		fill(c->value);
		break;
	case UNMAP:
		fusion_unmap(own.array);
		break;
	case TRY_WRITING:
		r->value = try_writing();
		break;
	case VERSION:
		r->value = (double)fusion_version(own.array);
		break;
	case RELEASE:
		fusion_release(own.array);
		own.array = NULL;
		break;
	case QUEUE:
		queue_much();
		break;
	case STATISTIC:
		r->value = statistic(c->name);
		break;
	case END:
		fusion_close(own.context);
		break;
	}
	r->code = fusion_error_code();
	snprintf(r->text, sizeof r->text, "%s", fusion_error());
}

static void peer_main(int to, int from) {
	struct command c;

	if (fusion_open(&own.context, NULL)) {
		fprintf(stderr, "%s\n", fusion_error());
		_exit(1);
	}
	/* It has its session: who counts sessions or descriptors counts this one. */
	if (write(from, "", 1) != 1)
		_exit(1);
	while (read(to, &c, sizeof c) == sizeof c) {
		struct reply r = { 0 };

		obey(&c, &r);
		if (write(from, &r, sizeof r) != sizeof r || c.what == END)
			break;
	}
	_exit(0);
}

/* ---- the parent's end ---- */

static void peer_start(struct peer *p, uid_t uid) {
	int to[2], from[2];
	char byte;

	ck_assert_int_eq(pipe2(to, O_CLOEXEC), 0);
	ck_assert_int_eq(pipe2(from, O_CLOEXEC), 0);
	p->pid = fork();
	if (!p->pid) {
		if (uid && setuid(uid))
			_exit(1);
		close(to[1]);
		close(from[0]);
		peer_main(to[0], from[1]);
	}
	close(to[0]);
	close(from[1]);
	p->to = to[1];
	p->from = from[0];
	ck_assert_msg(read(p->from, &byte, 1) == 1, "a peer has no session");
}

static struct reply tell(struct peer *p, const struct command *c) {
	struct reply r = { 0 };

	ck_assert_int_eq(write(p->to, c, sizeof *c), sizeof *c);
	ck_assert_int_eq(read(p->from, &r, sizeof r), sizeof r);
	return r;
}

/* A command that has to work; its value. */
static double good(int i, enum what what, double value) {
	struct command c = { .what = what, .value = value };
	struct reply r = tell(&peer[i], &c);

	ck_assert_msg(!r.code, "%s", r.text);
	return r.value;
}

static struct reply bad(int i, enum what what, int code) {
	struct command c = { .what = what };
	struct reply r = tell(&peer[i], &c);

	ck_assert_msg(r.code == code, "code %d: %s", r.code, r.text);
	return r;
}

static struct fusion_token exported(int i, unsigned rights, uint64_t lifetime) {
	struct command c = { .what = EXPORT, .rights = rights, .lifetime = lifetime };
	struct reply r = tell(&peer[i], &c);

	ck_assert_msg(!r.code, "%s", r.text);
	return r.token;
}

static struct reply import(int i, struct fusion_token token) {
	struct command c = { .what = IMPORT, .token = token };

	return tell(&peer[i], &c);
}

static void imported(int i, struct fusion_token token) {
	struct reply r = import(i, token);

	ck_assert_msg(!r.code, "%s", r.text);
}

static double statistic_of(int i, const char *name) {
	struct command c = { .what = STATISTIC };
	struct reply r;

	snprintf(c.name, sizeof c.name, "%s", name);
	r = tell(&peer[i], &c);
	return r.value;
}

/* Releases travel by themselves. */
static void expect_statistic(int i, const char *name, double value) {
	double is = statistic_of(i, name);

	for (int n = 0; n < START_TRIES && is != value; n++) {
		usleep(20000);
		is = statistic_of(i, name);
	}
	ck_assert_msg(is == value, "%s is %g, not %g", name, is, value);
}

static void killed(int i) {
	kill(peer[i].pid, SIGKILL);
	ck_assert_int_eq(child_exit(peer[i].pid), 128 + SIGKILL);
	close(peer[i].to);
	close(peer[i].from);
	peer[i].pid = 0;
}

static void setup(void) {
	for (int i = 0; i < PEERS; i++)
		peer_start(&peer[i], 0);
}

static void teardown(void) {
	for (int i = 0; i < PEERS; i++) {
		if (!peer[i].pid)
			continue;
		good(i, END, 0);
		ck_assert_int_eq(child_exit(peer[i].pid), 0);
		close(peer[i].to);
		close(peer[i].from);
	}
}

static void start_discrete(void) {
	daemon_start("device.discrete=yes", NULL);
}

static void start_for_all_users(void) {
	daemon_start("limits.share_between_users=yes", NULL);
	ck_assert_int_eq(chmod(folder, 0755), 0);
}

static void start_for_own_user(void) {
	daemon_start("limits.shared_arrays=2", NULL);
	ck_assert_int_eq(chmod(folder, 0755), 0);
}

/* ---- what is promised ---- */

START_TEST(an_exported_array_opens_in_another_process) {
	struct fusion_token token;

	good(0, MAKE, 3);
	token = exported(0, FUSION_SHARE_READ, 0);
	imported(1, token);
	ck_assert_double_eq(good(1, READ, 0), 3 * ELEMENTS);
	ck_assert_double_eq(good(1, COMPUTE, 0), 7 * ELEMENTS);
	ck_assert_double_eq(good(0, COMPUTE, 0), 7 * ELEMENTS);
	ck_assert_double_eq(statistic_of(2, "shared_arrays"), 1);
	good(0, RELEASE, 0);
	ck_assert_double_eq(good(1, READ, 0), 3 * ELEMENTS);
	good(1, RELEASE, 0);
	expect_statistic(2, "shared_arrays", 0);
	expect_statistic(2, "tokens", 0);
}
END_TEST

START_TEST(a_token_for_reading_lets_nothing_be_written) {
	struct fusion_token token;
	struct reply r;

	good(0, MAKE, 3);
	token = exported(0, FUSION_SHARE_READ, 0);
	imported(1, token);
	r = bad(1, MAP, FUSION_E_STATE);
	ck_assert_ptr_nonnull(strstr(r.text, "only lets it be read"));
	ck_assert_double_eq(good(1, TRY_WRITING, 0), 1);
	ck_assert_double_eq(good(1, READ, 0), 3 * ELEMENTS);
	r = bad(1, EXPORT, FUSION_E_ARGUMENT);
	good(1, RELEASE, 0);
	good(0, RELEASE, 0);
}
END_TEST

START_TEST(a_write_is_a_new_version_for_all_who_hold_it) {
	struct fusion_token token;

	good(0, MAKE, 1);
	token = exported(0, FUSION_SHARE_READ_WRITE, 0);
	imported(1, token);
	imported(2, token);
	good(2, VIEW, 0);
	good(1, MAP, 0);
	good(1, FILL, 5);
	bad(0, READ, FUSION_E_STATE);
	bad(2, MAP, FUSION_E_STATE);
	good(1, UNMAP, 0);
	ck_assert_double_eq(good(0, READ, 0), 5 * ELEMENTS);
	ck_assert_double_eq(good(2, COMPUTE, 0), 11 * ELEMENTS);
	/* A view that was made before keeps what it saw. */
	ck_assert_double_eq(good(2, READ_VIEW, 0), ELEMENTS / 2);
	good(0, MAP, 0);
	good(0, FILL, 6);
	good(0, UNMAP, 0);
	ck_assert_double_eq(good(1, COMPUTE, 0), 13 * ELEMENTS);
	imported(2, token);
	ck_assert_double_eq(good(2, VERSION, 0), 3);
}
END_TEST

START_TEST(what_was_queued_before_a_write_sees_the_old_values) {
	struct fusion_token token;

	good(0, MAKE, 1);
	token = exported(0, FUSION_SHARE_READ_WRITE, 0);
	imported(1, token);
	good(1, QUEUE, 0);
	good(0, MAP, 0);
	good(0, FILL, 1000);
	good(0, UNMAP, 0);
	ck_assert_double_eq(good(1, READ_VIEW, 0), 2001 * ELEMENTS);
	ck_assert_double_eq(good(1, READ, 0), 1000 * ELEMENTS);
}
END_TEST

START_TEST(a_token_that_opens_nothing_does_not_tell_why) {
	struct fusion_token token, revoked, wrong = { { 1, 2, 3 } };
	double refused = statistic_of(2, "imports_refused");
	struct command c = { .what = REVOKE };
	struct reply a, b, d;

	good(0, MAKE, 1);
	token = exported(0, FUSION_SHARE_READ, 50);
	revoked = exported(0, FUSION_SHARE_READ, 0);
	c.token = revoked;
	ck_assert_int_eq(tell(&peer[1], &c).code, FUSION_E_TOKEN);
	ck_assert_int_eq(tell(&peer[0], &c).code, 0);
	usleep(80000);
	a = import(1, token);
	b = import(1, revoked);
	d = import(1, wrong);
	ck_assert_int_eq(a.code, FUSION_E_TOKEN);
	ck_assert_str_eq(a.text, b.text);
	ck_assert_str_eq(a.text, d.text);
	token = exported(0, FUSION_SHARE_READ, 0);
	good(0, RELEASE, 0);
	expect_statistic(2, "shared_arrays", 0);
	a = import(1, token);
	ck_assert_str_eq(a.text, d.text);
	ck_assert_double_eq(statistic_of(2, "imports_refused"), refused + 5);
}
END_TEST

START_TEST(a_holder_that_dies_takes_nothing_from_the_others) {
	double arenas = statistic_of(2, "arena_bytes");
	struct fusion_token token;
	int supervisor, engine;

	/* The door answers before the engine has taken a session in: it is counted once it was heard. */
	for (int i = 0; i < 2; i++)
		statistic_of(i, "sessions");
	supervisor = descriptors_of(daemon_pid);
	engine = descriptors_of(engine_pid());
	good(0, MAKE, 4);
	token = exported(0, FUSION_SHARE_READ_WRITE, 0);
	imported(1, token);
	killed(0);
	ck_assert_double_eq(good(1, COMPUTE, 0), 9 * ELEMENTS);
	ck_assert_int_eq(import(2, token).code, FUSION_E_TOKEN);
	killed(1);
	expect_statistic(2, "sessions", 1);
	expect_statistic(2, "shared_arrays", 0);
	expect_statistic(2, "arena_bytes", arenas);
	/* Each of the two held its connection, and its ring. */
	expect_descriptors(daemon_pid, supervisor - 2);
	expect_descriptors(engine_pid(), engine - 2);
}
END_TEST

/* What another one computed from it may not be quite over when its result is there: until then it is refused. */
static void map_when_free(int i) {
	struct command c = { .what = MAP };
	struct reply r = tell(&peer[i], &c);

	while (r.code == FUSION_E_STATE) {
		usleep(1000);
		r = tell(&peer[i], &c);
	}
	ck_assert_msg(!r.code, "%s", r.text);
}

START_TEST(a_writer_that_dies_leaves_what_it_wrote) {
	struct fusion_token token;

	good(0, MAKE, 4);
	token = exported(0, FUSION_SHARE_READ_WRITE, 0);
	imported(1, token);
	imported(2, token);
	good(1, MAP, 0);
	good(1, FILL, 2);
	killed(1);
	expect_statistic(2, "sessions", 2);
	ck_assert_double_eq(good(0, COMPUTE, 0), 5 * ELEMENTS);
	map_when_free(2);
	good(2, FILL, 1);
	good(2, UNMAP, 0);
	ck_assert_double_eq(good(0, READ, 0), ELEMENTS);
}
END_TEST

START_TEST(a_queue_over_a_shared_array_outlives_its_release) {
	struct fusion_token token;

	good(0, MAKE, 1);
	token = exported(0, FUSION_SHARE_READ, 0);
	imported(1, token);
	good(1, QUEUE, 0);
	good(1, RELEASE, 0);
	good(0, RELEASE, 0);
	killed(0);
	ck_assert_double_eq(good(1, READ_VIEW, 0), 2001 * ELEMENTS);
	expect_statistic(2, "shared_arrays", 0);
}
END_TEST

START_TEST(another_user_opens_nothing) {
	struct fusion_token token;
	struct reply r, none;

	if (getuid())
		SKIP("only root can be another user");
	peer_start(&peer[2], NOBODY);
	good(0, MAKE, 1);
	token = exported(0, FUSION_SHARE_READ, 0);
	r = import(2, token);
	ck_assert_int_eq(r.code, FUSION_E_TOKEN);
	none = import(1, (struct fusion_token){ { 7 } });
	ck_assert_str_eq(r.text, none.text);
	imported(1, token);
}
END_TEST

START_TEST(another_user_opens_an_array_where_the_administrator_lets_him) {
	struct fusion_token token;

	if (getuid())
		SKIP("only root can be another user");
	peer_start(&peer[2], NOBODY);
	good(0, MAKE, 1);
	token = exported(0, FUSION_SHARE_READ, 0);
	imported(2, token);
	ck_assert_double_eq(good(2, COMPUTE, 0), 3 * ELEMENTS);
	bad(2, MAP, FUSION_E_STATE);
	ck_assert_double_eq(good(2, TRY_WRITING, 0), 1);
}
END_TEST

static void setup_two(void) {
	peer_start(&peer[0], 0);
	peer_start(&peer[1], 0);
	peer[2].pid = 0;
}

START_TEST(more_shared_arrays_than_the_limit_are_refused) {
	struct reply r;
	struct command c = { .what = EXPORT, .rights = FUSION_SHARE_READ };

	for (int i = 0; i < 2; i++) {
		good(0, MAKE, i);
		exported(0, FUSION_SHARE_READ, 0);
	}
	good(0, MAKE, 2);
	r = tell(&peer[0], &c);
	ck_assert_int_eq(r.code, FUSION_E_LIMIT);
	ck_assert_ptr_nonnull(strstr(r.text, "limits.shared_arrays"));
	ck_assert_double_eq(good(0, COMPUTE, 0), 5 * ELEMENTS);
}
END_TEST

static void add_promises(TCase *c) {
	tcase_set_timeout(c, TEST_SECONDS);
	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, an_exported_array_opens_in_another_process);
	tcase_add_test(c, a_token_for_reading_lets_nothing_be_written);
	tcase_add_test(c, a_write_is_a_new_version_for_all_who_hold_it);
	tcase_add_test(c, what_was_queued_before_a_write_sees_the_old_values);
	tcase_add_test(c, a_holder_that_dies_takes_nothing_from_the_others);
	tcase_add_test(c, a_writer_that_dies_leaves_what_it_wrote);
	tcase_add_test(c, a_queue_over_a_shared_array_outlives_its_release);
}

static Suite *suite(void) {
	Suite *s = suite_create("share");
	TCase *host = tcase_create("on the host's addresses"), *discrete = tcase_create("with memory of its own");
	TCase *users = tcase_create("between users"), *own_user = tcase_create("limits");

	tcase_add_unchecked_fixture(host, start, daemon_stop);
	add_promises(host);
	tcase_add_test(host, a_token_that_opens_nothing_does_not_tell_why);
	suite_add_tcase(s, host);
	tcase_add_unchecked_fixture(discrete, start_discrete, daemon_stop);
	add_promises(discrete);
	suite_add_tcase(s, discrete);
	tcase_add_unchecked_fixture(users, start_for_all_users, daemon_stop);
	tcase_set_timeout(users, TEST_SECONDS);
	tcase_add_checked_fixture(users, setup_two, teardown);
	tcase_add_test(users, another_user_opens_an_array_where_the_administrator_lets_him);
	suite_add_tcase(s, users);
	tcase_add_unchecked_fixture(own_user, start_for_own_user, daemon_stop);
	tcase_set_timeout(own_user, TEST_SECONDS);
	tcase_add_checked_fixture(own_user, setup_two, teardown);
	tcase_add_test(own_user, another_user_opens_nothing);
	tcase_add_test(own_user, more_shared_arrays_than_the_limit_are_refused);
	suite_add_tcase(s, own_user);
	return s;
}

int main(void) {
	signal(SIGPIPE, SIG_IGN);
	return suite_run(suite());
}
