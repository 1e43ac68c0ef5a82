/*
 * Names of other machines: who waits for their addresses may be interrupted, runs out of time, and gives up what he may give up, as long as it takes.
 * getaddrinfo() is this program's: it answers when a test lets it.
 */
#include "client/fusion.h"

#include <dlfcn.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "tests/patience.h"
#include "tests/test_protocol.h"

enum {
	TIMEOUT_MS = 50,
	ASKED_BEFORE = 3,
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned begun, ended;
static bool let;
static atomic_uint asked, slept, woke;

typedef int lookup(const char *, const char *, const struct addrinfo *, struct addrinfo **);

int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **listp) {
	lookup *real;
	void *found = dlsym(RTLD_NEXT, "getaddrinfo");

	memcpy(&real, &found, sizeof real);
	if (hints->ai_flags & AI_NUMERICHOST)
		return real(host, port, hints, listp);
	pthread_mutex_lock(&lock);
	begun++;
	while (!let)
		pthread_cond_wait(&changed, &lock);
	ended++;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	return strcmp(host, "nowhere.test") ? real("127.0.0.1", port, hints, listp) : EAI_AGAIN;
}

static void let_go(bool on) {
	pthread_mutex_lock(&lock);
	let = on;
	pthread_cond_broadcast(&changed);
	while (on && ended < begun)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

static int open_at(const char *socket, uint32_t timeout_ms) {
	fusion_context *c = NULL;
	int code = fusion_open(&c, &(struct fusion_options){ .socket = socket, .timeout_ms = timeout_ms });

	ck_assert_ptr_null(c);
	return code;
}

static void expect(int code, const char *part) {
	ck_assert_msg(fusion_error_code() == code && strstr(fusion_error(), part), "%s: %s", fusion_code_name(fusion_error_code()), fusion_error());
	fusion_error_clear();
}

static bool stops_in_the_end(void) {
	return atomic_fetch_add(&asked, 1) == ASKED_BEFORE;
}

static void *give_up(void *token) {
	static char given;

	atomic_fetch_add(token ? &woke : &slept, 1);
	return token ? NULL : &given;
}

START_TEST(who_waits_for_a_name_may_be_interrupted) {
	fusion_on_wait(stops_in_the_end);
	fusion_on_sleep(give_up);
	ck_assert_int_eq(open_at("tcp://slow.test:1", 0), FUSION_E_CANCELLED);
	expect(FUSION_E_CANCELLED, "interrupted");
	ck_assert_uint_eq(atomic_load(&asked), ASKED_BEFORE + 1);
	ck_assert_uint_gt(atomic_load(&slept), 0);
	ck_assert_uint_eq(atomic_load(&slept), atomic_load(&woke));
	/* The answer comes to nobody. */
	let_go(true);
	ck_assert_uint_eq(begun, 1);
}
END_TEST

START_TEST(a_name_has_as_much_time_as_all_of_it) {
	ck_assert_int_eq(open_at("tcp://slow.test:1", TIMEOUT_MS), FUSION_E_CONNECT);
	expect(FUSION_E_CONNECT, "no daemon answers at tcp://slow.test:1 (Connection timed out)");
	let_go(true);
}
END_TEST

START_TEST(a_name_that_nobody_knows_is_told) {
	let_go(true);
	ck_assert_int_eq(open_at("tcp://nowhere.test:1", 0), FUSION_E_CONNECT);
	expect(FUSION_E_CONNECT, gai_strerror(EAI_AGAIN));
}
END_TEST

START_TEST(a_name_leads_to_its_address) {
	let_go(true);
	/* Where nobody listens: it was asked. */
	ck_assert_int_eq(open_at("tcp://slow.test:1", 0), FUSION_E_CONNECT);
	expect(FUSION_E_CONNECT, "(Connection refused)");
}
END_TEST

START_TEST(an_address_is_not_asked_for) {
	ck_assert_int_eq(open_at("tcp://127.0.0.1:1", 0), FUSION_E_CONNECT);
	expect(FUSION_E_CONNECT, "(Connection refused)");
	ck_assert_uint_eq(begun, 0);
}
END_TEST

RUN_TESTS("client_names", who_waits_for_a_name_may_be_interrupted, a_name_has_as_much_time_as_all_of_it, a_name_that_nobody_knows_is_told,
	a_name_leads_to_its_address, an_address_is_not_asked_for)
