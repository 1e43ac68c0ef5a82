/*
 * Programs by kernel, and the queue of builds.
 *
 * The table belongs to the engine's thread. A program travels table -> queue -> builder -> finished
 * list -> device_poll(); a builder writes it and then its state, and from then on only the engine
 * touches it. A kernel is asked for once: later callers find the program in whatever state it is.
 */
#include "state.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/emit/emit.h"

enum {
	/* Buckets at first; doubled when there are more programs than buckets. */
	PROGRAM_BUCKETS = 256,
};

/* ---- the builders' queue ---- */

/* The next program to build, or NULL when the builders shall end. */
static struct program *programs_take(struct programs *s) {
	struct program *p;

	pthread_mutex_lock(&s->lock);
	while (!s->first && !s->stop)
		pthread_cond_wait(&s->work, &s->lock);
	p = s->stop ? NULL : s->first;
	if (p) {
		s->first = p->next;
		if (!s->first)
			s->last = NULL;
	}
	pthread_mutex_unlock(&s->lock);
	return p;
}

static void programs_finish(struct programs *s, struct program *p) {
	pthread_mutex_lock(&s->lock);
	p->next = s->finished;
	s->finished = p;
	pthread_mutex_unlock(&s->lock);
}

static void *builder_main(void *argument) {
	CLEANUP(cleanup_free) struct builder *b = argument;
	struct device *d = b->device;
	struct program *p;

	while ((p = programs_take(&d->programs))) {
		builder_build(b, p);
		programs_finish(&d->programs, p);
		queue_signal(d);
	}
	builder_close(b);
	return NULL;
}

/* Builders take no signals: those are the main thread's. */
static int start_builder(struct device *d, struct builder *b) {
	struct programs *s = &d->programs;
	sigset_t all, old;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&s->builder[s->builders], NULL, builder_main, b);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (r)
		return -r;
	pthread_setname_np(s->builder[s->builders], "builder");
	s->builders++;
	return 0;
}

static int add_builder(struct device *d) {
	struct builder *b = calloc(1, sizeof *b);
	int r;

	if (!b)
		return -ENOMEM;
	r = builder_open(b, d);
	if (!r)
		r = start_builder(d, b);
	if (!r)
		return 0;
	builder_close(b);
	free(b);
	return r;
}

int programs_open(struct device *d) {
	struct programs *s = &d->programs;
	uint32_t builders = d->config.builders ? d->config.builders : 1;
	int r = 0;

	s->bucket = calloc(PROGRAM_BUCKETS, sizeof *s->bucket);
	s->builder = calloc(builders, sizeof *s->builder);
	if (!s->bucket || !s->builder)
		return -ENOMEM;
	s->buckets = PROGRAM_BUCKETS;
	for (uint32_t i = 0; i < builders && !r; i++)
		r = add_builder(d);
	return r;
}

static void program_free(struct program *p) {
	if (p->object)
		clReleaseKernel(p->object);
	if (p->program)
		clReleaseProgram(p->program);
	free(p->kernel);
	free(p->source);
	free(p->log);
	free(p);
}

void programs_close(struct device *d) {
	struct programs *s = &d->programs;
	struct program *p;

	pthread_mutex_lock(&s->lock);
	s->stop = true;
	pthread_cond_broadcast(&s->work);
	pthread_mutex_unlock(&s->lock);
	for (uint32_t i = 0; i < s->builders; i++)
		pthread_join(s->builder[i], NULL);
	for (uint32_t i = 0; i < s->buckets; i++)
		while ((p = s->bucket[i])) {
			s->bucket[i] = p->bucket;
			program_free(p);
		}
	free(s->bucket);
	free(s->builder);
	s->bucket = NULL;
	s->builder = NULL;
	s->finished = s->first = s->last = NULL;
	s->buckets = s->builders = 0;
}

static void count_build(struct device_counters *c, const struct program *p) {
	c->warmups += p->warmups;
	c->build_us += p->build_us;
	if (p->cached)
		c->builds_cached++;
	else
		c->builds++;
	if (atomic_load_explicit(&p->state, memory_order_acquire) == PROGRAM_FAILED)
		c->build_failures++;
}

uint32_t programs_poll(struct device *d) {
	struct programs *s = &d->programs;
	struct program *p;
	uint32_t n = 0;

	pthread_mutex_lock(&s->lock);
	p = s->finished;
	s->finished = NULL;
	pthread_mutex_unlock(&s->lock);
	for (; p; p = p->next, n++)
		count_build(&d->counters, p);
	return n;
}

/* ---- the table ---- */

static struct program **chain_of(struct programs *s, uint64_t hash) {
	return &s->bucket[hash & (s->buckets - 1)];
}

/* Failure leaves the table as it is: only slower. */
static void table_grow(struct programs *s) {
	struct programs larger = { .buckets = s->buckets * 2 };
	struct program *p, **chain;

	larger.bucket = calloc(larger.buckets, sizeof *larger.bucket);
	if (!larger.bucket)
		return;
	for (uint32_t i = 0; i < s->buckets; i++)
		while ((p = s->bucket[i])) {
			s->bucket[i] = p->bucket;
			chain = chain_of(&larger, p->hash);
			p->bucket = *chain;
			*chain = p;
		}
	free(s->bucket);
	s->bucket = larger.bucket;
	s->buckets = larger.buckets;
}

static struct program *program_new(struct device *d, const struct kernel *k, uint64_t hash) {
	struct program *p = calloc(1, sizeof *p);

	if (!p)
		return NULL;
	p->kernel = kernel_dup(k);
	if (!p->kernel) {
		free(p);
		return NULL;
	}
	p->device = d;
	p->hash = hash;
	p->words = kernel_record_words(k);
	atomic_init(&p->state, PROGRAM_BUILDING);
	return p;
}

static void programs_put(struct programs *s, struct program *p) {
	pthread_mutex_lock(&s->lock);
	p->next = NULL;
	if (s->last)
		s->last->next = p;
	else
		s->first = p;
	s->last = p;
	pthread_cond_signal(&s->work);
	pthread_mutex_unlock(&s->lock);
}

int device_program(struct device *d, const struct kernel *k, struct program **programp) {
	struct programs *s = &d->programs;
	uint64_t hash = kernel_hash(k);
	struct program *p;

	for (p = *chain_of(s, hash); p; p = p->bucket)
		if (p->hash == hash && kernel_equal(p->kernel, k))
			break;
	*programp = p;
	if (p)
		return 0;
	p = program_new(d, k, hash);
	if (!p)
		return -ENOMEM;
	if (s->count++ >= s->buckets)
		table_grow(s);
	p->bucket = *chain_of(s, hash);
	*chain_of(s, hash) = p;
	programs_put(s, p);
	*programp = p;
	return 0;
}

/* ---- what others may know ---- */

enum program_state program_state(const struct program *p) {
	return (enum program_state)atomic_load_explicit(&p->state, memory_order_acquire);
}

const char *program_log(const struct program *p) {
	return program_state(p) == PROGRAM_FAILED && p->log ? p->log : "";
}

const char *program_source(struct program *p) {
	CLEANUP(str_free) struct str source = { 0 };

	if (program_state(p) == PROGRAM_BUILDING)
		return NULL;
	if (!p->source && !emit_source(p->kernel, &p->device->traits, &source))
		p->source = strdup(str_text(&source));
	return p->source;
}

const struct kernel *program_kernel(const struct program *p) {
	return p->kernel;
}

uint64_t program_build_us(const struct program *p) {
	return program_state(p) == PROGRAM_BUILDING ? 0 : p->build_us;
}
