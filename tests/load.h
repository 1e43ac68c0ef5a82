/*
 * Programs that work on a daemon for as long as they are let, each at chains of results in which every one depends on all before it: what was lost or done twice on the way
 * shows in the last. A chain that ran undisturbed for as many rounds has the same digest.
 *
 * Made before the caller has a context: they are processes.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "tests/daemon.h"
#include "tests/stopwatch.h"

enum {
	LOAD_ELEMENTS = 500,
	LOAD_THREADS = 3,
	LOAD_DEPTH = 5,          /* operations of a graph that nobody has built */
	LOAD_AGAIN = 7,          /* rounds between two recorded graphs */
	LOAD_CHAINS = 16,
	LOAD_TEXT = 400,
};

/* In memory that all have in common. */
struct load_chain {
	atomic_uint rounds;
	atomic_bool ended;
	_Atomic double last_ms, longest_ms;      /* when the last round ended, and the longest one since somebody made this 0 */
	uint64_t digest;
	char wrong[LOAD_TEXT];   /* "": nothing */
};

struct load {
	atomic_bool enough;      /* all end with the round they are at, */
	unsigned target[LOAD_CHAINS];    /* or after so many, where that is not 0 */
	struct load_chain chain[LOAD_CHAINS];
};

struct load_state {
	struct load_chain *chain;
	fusion_context *context;
	fusion_array *x;
	fusion_capture *capture;
	unsigned number;
};

typedef void load_round(struct load_state *s, unsigned round);

static inline void load_check(struct load_state *s, int code) {
	if (code && !*s->chain->wrong)
		snprintf(s->chain->wrong, LOAD_TEXT, "chain %u, round %u: %s", s->number, atomic_load(&s->chain->rounds), fusion_error());
}

static inline fusion_array *load_numbers(struct load_state *s, float first) {
	float value[LOAD_ELEMENTS];
	int64_t n = LOAD_ELEMENTS;
	fusion_array *a;

	for (int i = 0; i < LOAD_ELEMENTS; i++)
		value[i] = first + (float)i * 0.0013F;
	a = fusion_from(s->context, FUSION_F32, 1, &n, value);
	load_check(s, a ? 0 : FUSION_E_MEMORY);
	return a;
}

static inline void load_becomes(struct load_state *s, fusion_array *x) {
	load_check(s, x ? 0 : fusion_error_code());
	fusion_release(s->x);
	s->x = x;
}

/* Bits of all results, in their order. */
static inline void load_digest(struct load_state *s) {
	float value[LOAD_ELEMENTS];
	const unsigned char *byte = (const unsigned char *)value;

	load_check(s, fusion_read(s->x, value, sizeof value));
	for (size_t i = 0; i < sizeof value && !*s->chain->wrong; i++)
		s->chain->digest = (s->chain->digest ^ byte[i]) * UINT64_C(1099511628211);
}

/* Uploads, inputs that are read again and released before anything has run, several batches a result. */
static inline void load_reuses(struct load_state *s, unsigned round) {
	fusion_array *a = load_numbers(s, (float)(round % 5)), *b = fusion_mul(s->x, a), *c, *d;

	load_check(s, fusion_flush(s->context));
	c = fusion_sub(b, a);
	fusion_release(a);
	load_check(s, fusion_flush(s->context));
	d = fusion_add(c, b);
	fusion_release(b);
	load_becomes(s, fusion_tanh(d));
	fusion_release(c);
	fusion_release(d);
	if (round % 3 == 0)
		load_digest(s);
}

/* A context records one graph at a time. */
static pthread_mutex_t load_recording = PTHREAD_MUTEX_INITIALIZER;

static inline void load_record(struct load_state *s, unsigned round) {
	fusion_array *a = load_numbers(s, (float)(round % 3)), *y, *z;

	fusion_capture_free(s->capture);
	pthread_mutex_lock(&load_recording);
	load_check(s, fusion_capture_begin(s->context, 1, &s->x));
	y = fusion_mul(s->x, a);
	z = fusion_cos(y);
	s->capture = fusion_capture_end(s->context, 1, &z);
	pthread_mutex_unlock(&load_recording);
	load_check(s, s->capture ? 0 : fusion_error_code());
	fusion_release(a);
	fusion_release(y);
	fusion_release(z);
}

static inline void load_replays(struct load_state *s, unsigned round) {
	fusion_array *out = NULL;

	if (round % LOAD_AGAIN == 0)
		load_record(s, round);
	load_check(s, fusion_replay(s->capture, &s->x, &out));
	load_becomes(s, out);
	if (round % 2)
		load_digest(s);
}

typedef fusion_array *load_unary(fusion_array *a);

/* A graph that nobody has built. */
static inline void load_builds(struct load_state *s, unsigned round) {
	static load_unary *const unary[] = { fusion_neg, fusion_sin, fusion_cos, fusion_tanh, fusion_abs, fusion_square, fusion_sigmoid, fusion_relu };
	uint32_t random = 2654435761U * (round + 1000 * s->number + 1);

	for (int i = 0; i < LOAD_DEPTH; i++) {
		load_becomes(s, unary[random >> 29](s->x));
		random = random * 1664525U + 1013904223U;
	}
	load_becomes(s, fusion_sin(s->x));
	load_digest(s);
}

/* In place in the shared memory. */
static inline void load_writes(struct load_state *s, unsigned round) {
	void *memory = NULL;

	load_becomes(s, fusion_sin(s->x));
	load_check(s, fusion_map(s->x, FUSION_MAP_WRITE, &memory));
	for (int i = 0; memory && i < LOAD_ELEMENTS; i++)
		((float *)memory)[i] += (float)(round % 4);
	load_check(s, fusion_unmap(s->x));
	load_becomes(s, fusion_cos(s->x));
	load_digest(s);
}

/* ---- programs ---- */

struct load_program {
	struct load *load;
	unsigned first, threads;     /* chains */
	load_round *round;
	fusion_context *context;
	atomic_uint next;
};

static inline void load_note_round(struct load_chain *c) {
	double now = now_ms(), took = now - atomic_load(&c->last_ms);

	if (took > atomic_load(&c->longest_ms))
		atomic_store(&c->longest_ms, took);
	atomic_store(&c->last_ms, now);
	atomic_fetch_add(&c->rounds, 1);
}

static inline void *load_thread(void *user) {
	struct load_program *p = user;
	unsigned number = p->first + atomic_fetch_add(&p->next, 1), target = p->load->target[number];
	struct load_state s = { .chain = &p->load->chain[number], .context = p->context, .number = number };

	s.x = load_numbers(&s, (float)number);
	atomic_store(&s.chain->last_ms, now_ms());
	for (unsigned i = 0; !*s.chain->wrong && (target ? i < target : !atomic_load(&p->load->enough)); i++) {
		p->round(&s, i);
		load_note_round(s.chain);
	}
	load_digest(&s);
	fusion_capture_free(s.capture);
	fusion_release(s.x);
	atomic_store(&s.chain->ended, true);
	return NULL;
}

static inline _Noreturn void load_run(struct load_program *p) {
	pthread_t thread[LOAD_THREADS];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (fusion_open(&p->context, NULL)) {
		snprintf(p->load->chain[p->first].wrong, LOAD_TEXT, "no context: %s", fusion_error());
		_exit(1);
	}
	for (unsigned i = 0; i < p->threads; i++)
		if (pthread_create(&thread[i], NULL, load_thread, p))
			_exit(2);
	for (unsigned i = 0; i < p->threads; i++)
		pthread_join(thread[i], NULL);
	fusion_close(p->context);
	_exit(0);
}

static const struct {
	load_round *round;
	unsigned threads;
} load_kinds[] = { { load_reuses, 1 }, { load_replays, 1 }, { load_builds, 1 }, { load_writes, 1 }, { load_reuses, LOAD_THREADS }, { load_replays, LOAD_THREADS },
	{ load_builds, 1 } };

enum { LOAD_PROGRAMS = sizeof load_kinds / sizeof *load_kinds };

static inline struct load *load_new(void) {
	struct load *l = mmap(NULL, sizeof *l, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(l, MAP_FAILED);
	return l;
}

/* How many chains they have together. */
static inline unsigned load_start(struct load *l, pid_t pid[LOAD_PROGRAMS]) {
	unsigned chains = 0;

	for (unsigned i = 0; i < LOAD_PROGRAMS; i++) {
		struct load_program p = { .load = l, .first = chains, .threads = load_kinds[i].threads, .round = load_kinds[i].round };

		pid[i] = fork();
		ck_assert_int_ge(pid[i], 0);
		if (!pid[i])
			load_run(&p);
		chains += p.threads;
	}
	ck_assert_uint_le(chains, LOAD_CHAINS);
	return chains;
}

/* They have come to their end, and nothing has gone wrong. */
static inline void load_end(struct load *l, const pid_t pid[LOAD_PROGRAMS], unsigned chains) {
	int status[LOAD_PROGRAMS];

	for (unsigned i = 0; i < LOAD_PROGRAMS; i++)
		status[i] = child_exit(pid[i]);
	for (unsigned i = 0; i < chains; i++)
		ck_assert_msg(!*l->chain[i].wrong, "%s", l->chain[i].wrong);
	for (unsigned i = 0; i < LOAD_PROGRAMS; i++)
		ck_assert_msg(!status[i], "program %u ended with %d", i, status[i]);
}

/* Returns once each has had so many more rounds, or has failed. */
static inline void load_await(struct load *l, unsigned chains, unsigned more) {
	unsigned before[LOAD_CHAINS];

	for (unsigned i = 0; i < chains; i++)
		before[i] = atomic_load(&l->chain[i].rounds);
	for (unsigned i = 0; i < chains; i++)
		while (atomic_load(&l->chain[i].rounds) < before[i] + more && !atomic_load(&l->chain[i].ended) && !*l->chain[i].wrong)
			usleep(5000);
}
