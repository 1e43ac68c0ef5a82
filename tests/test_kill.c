/*
 * Clients that are killed, at random points and many at a time, while another one works on: of a client that is gone
 * nothing stays, and who is there notices nothing.
 *
 * Nothing is fused: a handful of kernels serves all of it, so that time goes into dying and not into compilers.
 *
 * A short slice by itself; $KILLS and $SEED for more (make check-kill). What a victim was at is in a page that it
 * shares with its parent: it counts a batch before it is sent, and again when it has run.
 */
#include <poll.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>

#include "client/context.h"
#include "protocol/ring.h"
#include "protocol/shm.h"
#include "tests/daemon.h"
#include "tests/suite.h"

enum {
	KILLS = 60,
	VICTIMS = 4,             /* at a time */
	ELEMENTS = 4096,
	CHAIN = 20,              /* operations of a batch */
	LONG_CHAIN = 3000,       /* of one whose frame goes through the ring in pieces */
	WAIT_US = 15 * 1000,     /* a victim lives at most so long once it works */
	TEST_SECONDS = 3600,
};

/* What a victim does. */
enum work { WORK, FRAMES, HALF_FRAME, EXPORTS, IMPORTS, WORKS };

struct page {
	atomic_uint works, sent, done;
	struct fusion_token read, write;      /* of the survivor's arrays */
};

struct slot {
	pid_t pid;
	enum work work;
	struct page *page;
};

static struct slot slots[VICTIMS];
static struct page *page_of_all;
static unsigned kills[WORKS], unfinished;

static unsigned setting(const char *name, unsigned standard) {
	const char *text = getenv(name);

	return text && *text ? (unsigned)strtoul(text, NULL, 10) : standard;
}

/* ---- victims ---- */

static fusion_array *chain_of(fusion_array *a, unsigned operations) {
	for (unsigned i = 0; a && i < operations; i++)
		a = i % 2 ? fusion_add_scalar(a, 1) : fusion_mul_scalar(a, 0.5);
	return a;
}

static void count_sent(struct page *p) {
	atomic_fetch_add(&p->sent, 1);
	atomic_store(&p->works, 1);
}

static void send_chain(fusion_context *c, struct page *p, fusion_array *from, unsigned operations) {
	int64_t n = ELEMENTS;

	fusion_scope_begin(c);
	fusion_keep(chain_of(from ? from : fusion_arange(c, FUSION_F32, n, 0, 1), operations));
	count_sent(p);
	if (fusion_flush(c))
		_exit(1);
	fusion_scope_end(c);
}

static void finish(fusion_context *c, struct page *p) {
	if (fusion_sync(c))
		_exit(1);
	atomic_store(&p->done, atomic_load(&p->sent));
}

/* A head that promises more than follows. */
static void leave_half_a_frame(const fusion_context *context) {
	struct fusion_context *c = (struct fusion_context *)object_find(OBJECT_CONTEXT, context);
	struct ring_head head = { .slot = 7, .size = 3000 };
	static char part[1000];
	struct ring ring;
	void *memory;

	if (c->door.ring < 0 || shm_map(c->door.ring, RING_BYTES, NULL, &memory))
		_exit(1);
	ring = c->stream.transport ? ring_requests(memory) : (struct ring){ 0 };
	ring.position = ring.shown = atomic_load(&ring.shared->written);
	ring_put(&ring, &head, sizeof head);
	ring_put(&ring, part, sizeof part);
	if (ring_publish(&ring, RING_ANY_SLOT))
		(void)eventfd_write(c->door.bell, 1);
	pause();
}

static void share_for_ever(fusion_context *c, struct page *p) {
	struct fusion_token token;
	int64_t n = ELEMENTS;

	for (;;) {
		fusion_array *a = fusion_arange(c, FUSION_F32, n, 0, 1);

		count_sent(p);
		if (fusion_export(a, FUSION_SHARE_READ_WRITE, 0, &token))
			_exit(1);
		for (int i = 0; i < 4; i++)
			send_chain(c, p, a, CHAIN);
		fusion_release(a);
	}
}

/* Reads what all read, and writes where only victims write: another one may be at that. */
static void open_for_ever(fusion_context *c, struct page *p) {
	float *memory;

	for (;;) {
		fusion_array *a = fusion_import(c, &p->read), *b = fusion_import(c, &p->write);

		if (!a || !b)
			_exit(1);
		for (int i = 0; i < 4; i++)
			send_chain(c, p, a, CHAIN);
		if (!fusion_map(b, FUSION_MAP_WRITE, (void **)&memory)) {
			memset(memory, 1, fusion_bytes(b));
			fusion_unmap(b);
		}
		fusion_release(a);
		fusion_release(b);
	}
}

static void victim_main(enum work work, struct page *p) {
	struct fusion_options o = { .batch_ops = 2 * LONG_CHAIN, .fusion = FUSION_OFF };
	fusion_context *c;

	if (fusion_open(&c, &o))
		_exit(1);
	if (work == EXPORTS)
		share_for_ever(c, p);
	if (work == IMPORTS)
		open_for_ever(c, p);
	for (unsigned i = 0;; i++) {
		send_chain(c, p, NULL, work == FRAMES ? LONG_CHAIN : CHAIN);
		if (work == HALF_FRAME && i == 20)
			leave_half_a_frame(c);
		if (work == WORK && i % 64 == 63)
			finish(c, p);
	}
}

static void victim_start(struct slot *s, enum work work) {
	atomic_store(&s->page->works, 0);
	atomic_store(&s->page->sent, 0);
	atomic_store(&s->page->done, 0);
	s->page->read = page_of_all->read;
	s->page->write = page_of_all->write;
	s->work = work;
	s->pid = fork();
	ck_assert_int_ge(s->pid, 0);
	if (!s->pid)
		victim_main(work, s->page);
}

/* Some die while they connect, most at their work. */
static void victim_kill_somewhere(struct slot *s, bool at_work) {
	int status;

	for (int ms = 0; at_work && ms < PATIENCE_MS && !atomic_load(&s->page->works); ms++)
		usleep(1000);
	usleep((useconds_t)(random() % WAIT_US));
	ck_assert_int_eq(kill(s->pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(s->pid, &status, 0), s->pid);
	ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "a client of kind %d ended by itself: %#x", (int)s->work,
		status);
	kills[s->work]++;
	unfinished += atomic_load(&s->page->sent) != atomic_load(&s->page->done);
}

/* ---- the survivor ---- */

static struct {
	pid_t pid;
	int to, from;
} survivor;

struct question {
	char name[64];           /* of a statistic; empty: how many results were wrong so far */
};

static double ask_daemon(fusion_context *c, const char *name) {
	char *text = fusion_stats(c, true);
	cJSON *json = cJSON_Parse(text);
	double value = cJSON_GetNumberValue(cJSON_GetObjectItem(json, name));

	cJSON_Delete(json);
	free(text);
	return value;
}

/* The same operations every time, one over what was exported: 0, or what came was not the first bits. */
static int same_bits(fusion_context *c, fusion_array *shared) {
	static float first[2];
	static bool known;
	float got[2] = { 0 };
	fusion_array *s, *t;
	int bad;

	fusion_scope_begin(c);
	s = fusion_keep(fusion_sum(chain_of(fusion_mul_scalar(shared, 0.001), CHAIN), 0, NULL, false));
	t = fusion_keep(fusion_sum(fusion_sqrt(shared), 0, NULL, false));
	fusion_scope_end(c);
	bad = fusion_read(s, &got[0], sizeof got[0]) || fusion_read(t, &got[1], sizeof got[1]);
	if (!known)
		memcpy(first, got, sizeof got);
	known = true;
	fusion_release(s);
	fusion_release(t);
	return bad || memcmp(first, got, sizeof got) != 0;
}

static void survivor_main(int to, int from) {
	struct fusion_options o = { .fusion = FUSION_OFF };
	int64_t n = ELEMENTS, results = 0, wrong = 0;
	fusion_array *shared, *scratch;
	fusion_context *c;

	if (fusion_open(&c, &o))
		_exit(1);
	shared = fusion_arange(c, FUSION_F32, n, 0, 1);
	scratch = fusion_arange(c, FUSION_F32, n, 0, 1);
	if (fusion_export(shared, FUSION_SHARE_READ, 0, &page_of_all->read) ||
		fusion_export(scratch, FUSION_SHARE_READ_WRITE, 0, &page_of_all->write))
		_exit(1);
	for (;; results++) {
		struct pollfd p = { .fd = to, .events = POLLIN };
		struct question q;
		double answer;

		wrong += same_bits(c, shared);
		if (poll(&p, 1, 0) <= 0)
			continue;
		/* Whoever asks is answered by one that does nothing else, until the pipe is quiet again. */
		do {
			if (read(to, &q, sizeof q) != sizeof q)
				_exit(0);
			answer = q.name[0] ? ask_daemon(c, q.name) : (double)(wrong ? -wrong : results);
			if (write(from, &answer, sizeof answer) != sizeof answer)
				_exit(1);
		} while (q.name[0]);
	}
}

static void survivor_start(void) {
	int to[2], from[2];

	ck_assert_int_eq(pipe2(to, O_CLOEXEC), 0);
	ck_assert_int_eq(pipe2(from, O_CLOEXEC), 0);
	survivor.pid = fork();
	if (!survivor.pid) {
		close(to[1]);
		close(from[0]);
		survivor_main(to[0], from[1]);
	}
	close(to[0]);
	close(from[1]);
	survivor.to = to[1];
	survivor.from = from[0];
}

static double ask(const char *name) {
	struct question q = { { 0 } };
	double answer;

	snprintf(q.name, sizeof q.name, "%s", name);
	ck_assert_int_eq(write(survivor.to, &q, sizeof q), sizeof q);
	ck_assert_int_eq(read(survivor.from, &answer, sizeof answer), sizeof answer);
	return answer;
}

/* ---- what must be as it was ---- */

static const char *const counted[] = { "sessions", "arrays", "memory_bytes", "arena_bytes", "shared_arrays", "shared_bytes",
	"tokens", "runs_busy", "scratch_bytes" };

enum { SESSIONS = 0, RUNS = 7, COUNTED = sizeof counted / sizeof *counted };

struct state {
	double of[COUNTED];
	int supervisor, engine;  /* descriptors */
};

/* Descriptors last: what the engine was told before it answers has been received then. */
static struct state state_now(void) {
	struct state s;

	for (unsigned i = 0; i < COUNTED; i++)
		s.of[i] = ask(counted[i]);
	ask("");
	s.supervisor = descriptors_of(daemon_pid);
	s.engine = descriptors_of(engine_pid());
	return s;
}

static bool same_descriptors(const struct state *a, const struct state *b) {
	return a->supervisor == b->supervisor && a->engine == b->engine;
}

/* With the survivor alone, and nothing running. A descriptor that is just given to the engine is neither's, or both have it: so two looks agree. */
static struct state state_at_rest(void) {
	struct state s = state_now(), before = { 0 };

	for (int i = 0; i < START_TRIES && (s.of[SESSIONS] > 1 || s.of[RUNS] > 0 || !same_descriptors(&s, &before)); i++) {
		usleep(20000);
		before = s;
		s = state_now();
	}
	ck_assert_double_eq(s.of[SESSIONS], 1);
	return s;
}

/* The first that is more than it was, or NULL. */
static const char *grown(const struct state *was, const struct state *is) {
	for (unsigned i = 0; i < COUNTED; i++)
		if (is->of[i] > was->of[i])
			return counted[i];
	if (is->supervisor > was->supervisor)
		return "descriptors of the supervisor";
	return is->engine > was->engine ? "descriptors of the engine" : NULL;
}

static void tell_descriptors(const char *whose, pid_t pid) {
	char path[64], target[96];
	const struct dirent *e;
	DIR *d;

	snprintf(path, sizeof path, "/proc/%d/fd", pid);
	d = opendir(path);
	while (d && (e = readdir(d))) {
		ssize_t n = readlinkat(dirfd(d), e->d_name, target, sizeof target - 1);

		if (n > 0)
			printf("note: %s has %s: %.*s\n", whose, e->d_name, (int)n, target);
	}
	if (d)
		closedir(d);
}

static void expect_state(const struct state *was) {
	struct state is = state_now();

	for (int i = 0; i < START_TRIES && grown(was, &is); i++) {
		usleep(50000);
		is = state_now();
	}
	if (is.supervisor > was->supervisor || is.engine > was->engine) {
		tell_descriptors("the supervisor", daemon_pid);
		tell_descriptors("the engine", engine_pid());
	}
	for (unsigned i = 0; i < COUNTED; i++)
		ck_assert_msg(is.of[i] <= was->of[i], "%s: %g, was %g", counted[i], is.of[i], was->of[i]);
	ck_assert_msg(!grown(was, &is), "%s: %d and %d, were %d and %d", grown(was, &is), is.supervisor, is.engine,
		was->supervisor, was->engine);
}

static void pages_new(void) {
	struct page *p = mmap(NULL, (VICTIMS + 1) * sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(p, MAP_FAILED);
	page_of_all = &p[VICTIMS];
	for (int i = 0; i < VICTIMS; i++)
		slots[i].page = &p[i];
}

START_TEST(of_clients_killed_anywhere_nothing_stays_and_nobody_notices) {
	unsigned count = setting("KILLS", KILLS), seed = setting("SEED", (unsigned)time(NULL));
	struct state before;

	srandom(seed);
	pages_new();
	survivor_start();
	ck_assert_double_ge(ask("sessions"), 1);
	ask("");
	/* Whatever is made once is made now. */
	for (int w = 0; w < WORKS; w++) {
		victim_start(&slots[0], (enum work)w);
		victim_kill_somewhere(&slots[0], true);
	}
	before = state_at_rest();
	unfinished = 0;
	memset(kills, 0, sizeof kills);
	for (int i = 0; i < VICTIMS; i++)
		victim_start(&slots[i], (enum work)(i % WORKS));
	for (unsigned i = 0; i < count; i++) {
		struct slot *s = &slots[random() % VICTIMS];

		victim_kill_somewhere(s, random() % 20 != 0);
		victim_start(s, (enum work)(random() % WORKS));
		if (i % 100 == 99)
			ck_assert_double_gt(ask(""), 0);
	}
	for (int i = 0; i < VICTIMS; i++)
		victim_kill_somewhere(&slots[i], true);
	expect_state(&before);
	ck_assert_msg(ask("") > 0, "results of the survivor changed (seed %u)", seed);
	printf("note: %u clients killed, %u with a batch unfinished (seed %u): at work %u, with long frames %u, in half a frame %u, "
	       "exporting %u, importing %u\n", count + VICTIMS, unfinished, seed, kills[WORK], kills[FRAMES], kills[HALF_FRAME],
		kills[EXPORTS], kills[IMPORTS]);
	ck_assert_uint_ge(unfinished, count * 8 / 10);
	close(survivor.to);
	ck_assert_int_eq(child_exit(survivor.pid), 0);
	munmap(slots[0].page, (VICTIMS + 1) * sizeof(struct page));
}
END_TEST

int main(void) {
	Suite *s = suite_create("kill");
	TCase *c = tcase_create("kill");

	tcase_add_unchecked_fixture(c, start, daemon_stop);
	tcase_set_timeout(c, TEST_SECONDS);
	tcase_add_test(c, of_clients_killed_anywhere_nothing_stays_and_nobody_notices);
	suite_add_tcase(s, c);
	return suite_run(s);
}
