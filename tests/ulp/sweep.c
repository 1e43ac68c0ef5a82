/* All 2^32 floats through one function. See sweep.h. */
#include "sweep.h"
#include "judge.h"
#include "vector.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
	BLOCK = 1 << 20,              /* floats a launch: large enough for any device */
	BLOCKS = 1 << 12,             /* BLOCK * BLOCKS is all of them */
	PIECE = 1 << 12,              /* floats that are judged at once: what is computed of them stays in the cache */
	PROGRESS_BLOCKS = 64,
};

/* What every thread shares. */
struct sweep {
	struct program *few, *many;
	const char *name;
	const struct reference *reference;
	atomic_uint next;             /* block that nobody has taken */
};

struct share {
	pthread_t thread;
	struct sweep *sweep;
	struct sweep_result result;
};

/* One piece, without places. */
struct tally {
	uint64_t worst;               /* bits of the error: those of positive doubles are in their order */
	uint64_t wrong, unequal, digest;
};

struct piece {
	uint32_t first;
	const uint32_t *few, *many;
	double exact[PIECE];
};

static inline float float_of_bits(uint32_t bits) {
	float x;

	memcpy(&x, &bits, sizeof x);
	return x;
}

static inline double error_of(const struct piece *p, size_t i) {
	return f32_error(p->exact[i], float_of_bits(p->many[i]), p->exact[i], true);
}

static inline bool unequal_at(const struct piece *p, size_t i) {
	return canonical_f32(p->few[i]) != canonical_f32(p->many[i]);
}

VECTOR_LEVELS static struct tally tally_of(const struct piece *p) {
	uint64_t worst = 0, wrong = 0, unequal = 0, digest = 0;

	for (size_t i = 0; i < PIECE; i++) {
		uint64_t bits = bits_of_double(error_of(p, i)), bad = bits >> 63;

		bits &= bad - 1;
		worst = bits > worst ? bits : worst;
		wrong += bad;
		unequal += unequal_at(p, i);
		digest += digest_of(p->first + i, canonical_f32(p->many[i]));
	}
	return (struct tally){ worst, wrong, unequal, digest };
}

static struct sweep_point point_of(const struct piece *p, size_t i) {
	return (struct sweep_point){ p->first + (uint32_t)i, p->few[i], p->many[i] };
}

/* Where the first of each kind is: seldom asked. */
static void find_worst(const struct piece *p, double worst, struct sweep_result *r) {
	size_t i = 0;

	while (i < PIECE - 1 && error_of(p, i) != worst)
		i++;
	r->worst = worst;
	r->worst_at = point_of(p, i);
}

static void find_wrong(const struct piece *p, struct sweep_result *r) {
	size_t i = 0;

	while (i < PIECE - 1 && error_of(p, i) >= 0)
		i++;
	r->first_wrong = point_of(p, i);
}

static void find_unequal(const struct piece *p, struct sweep_result *r) {
	size_t i = 0;

	while (i < PIECE - 1 && !unequal_at(p, i))
		i++;
	r->first_unequal = point_of(p, i);
}

static void judge_piece(const struct piece *p, struct sweep_result *r) {
	struct tally t = tally_of(p);
	double worst = double_of_bits(t.worst);

	if (worst > r->worst)
		find_worst(p, worst, r);
	if (t.wrong && !r->wrong)
		find_wrong(p, r);
	if (t.unequal && !r->unequal)
		find_unequal(p, r);
	r->wrong += t.wrong;
	r->unequal += t.unequal;
	r->digest += t.digest;
}

static void judge_block(const struct sweep *s, uint32_t first, const uint32_t *few, const uint32_t *many,
	struct sweep_result *r) {
	float operands[PIECE];
	struct piece p;

	for (size_t i = 0; i < BLOCK; i += PIECE) {
		p.first = first + (uint32_t)i;
		p.few = few + i;
		p.many = many + i;
		for (size_t j = 0; j < PIECE; j++)
			operands[j] = float_of_bits(p.first + (uint32_t)j);
		s->reference->f32_block(operands, p.exact, PIECE);
		judge_piece(&p, r);
	}
}

/* A line that is written over, for those who watch. */
static void show_progress(const struct sweep *s, unsigned block) {
	if (!isatty(STDERR_FILENO) || block % PROGRESS_BLOCKS)
		return;
	fprintf(stderr, "\r%-10s %3u %%\r", s->name, block * 100 / BLOCKS);
}

static void *run_share(void *argument) {
	struct share *share = argument;
	struct sweep *s = share->sweep;
	struct runner *runner = runner_open(s->few, s->many, s->name, BLOCK);
	unsigned block;

	while ((block = atomic_fetch_add(&s->next, 1)) < BLOCKS) {
		const uint32_t *few, *many;

		show_progress(s, block);
		runner_run(runner, block * (uint32_t)BLOCK, &few, &many);
		judge_block(s, block * (uint32_t)BLOCK, few, many, &share->result);
	}
	runner_close(runner);
	return NULL;
}

/* The one whose operand has the smaller bits, so that the division among threads cannot be seen. */
static struct sweep_point earlier(struct sweep_point a, bool has_a, struct sweep_point b, bool has_b) {
	return has_a && (!has_b || a.a < b.a) ? a : b;
}

static void result_add(struct sweep_result *sum, const struct sweep_result *r) {
	if (r->worst > sum->worst || (r->worst == sum->worst && r->worst_at.a < sum->worst_at.a)) {
		sum->worst = r->worst;
		sum->worst_at = r->worst_at;
	}
	sum->first_wrong = earlier(sum->first_wrong, sum->wrong, r->first_wrong, r->wrong);
	sum->first_unequal = earlier(sum->first_unequal, sum->unequal, r->first_unequal, r->unequal);
	sum->wrong += r->wrong;
	sum->unequal += r->unequal;
	sum->digest += r->digest;
}

struct sweep_result sweep_run(struct program *few, struct program *many, const char *name,
	const struct reference *reference, unsigned threads) {
	struct sweep s = { .few = few, .many = many, .name = name, .reference = reference };
	struct share *shares = calloc(threads, sizeof *shares);
	struct sweep_result sum = { 0 };

	for (unsigned i = 0; i < threads; i++) {
		if (!shares)
			exit(2);
		shares[i].sweep = &s;
		if (pthread_create(&shares[i].thread, NULL, run_share, &shares[i]))
			exit(2);
	}
	for (unsigned i = 0; i < threads; i++) {
		pthread_join(shares[i].thread, NULL);
		result_add(&sum, &shares[i].result);
	}
	free(shares);
	return sum;
}
