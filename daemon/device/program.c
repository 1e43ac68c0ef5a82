/*
 * Programs by kernel, and the queue of builds.
 *
 * The table belongs to the engine's thread. A program travels table -> queue -> builder -> finished
 * list -> device_poll(); a builder writes it and then its state, and from then on only the engine
 * touches it. A kernel is asked for once: later callers find the program in whatever state it is. What most launches
 * want is built first. What nobody waits for, since bytecode does it meanwhile, has a builder of its own.
 *
 * Machine code goes to disk when the device has been idle for a while (see struct keep), one program
 * at a time, and when the device is closed, which an engine leaves out whose clients wait for the next one; not where the
 * driver keeps it and would compile anew to give it (QUIRK_COSTLY_BINARY).
 */
#include "resident.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/descriptors.h"
#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/base/thread.h"
#include "daemon/base/trace.h"
#include "daemon/emit/emit.h"

enum {
	/* How often the log repeats that there are no descriptors to build with. */
	LACKING_MS = 60000,
	/*
	 * Memory that a driver did not have comes back, as long as this after a build is soon enough for who asks again. A kernel for which there is never
	 * enough costs a build in that time, and fails as others do meanwhile.
	 */
	STARVED_MS = 5000,
	/* A hash, or a code, in words. */
	PROGRAM_NAME = 48,
	/* Who asks and goes, again and again, leaves no more than so many behind, which builders pass over. */
	PROGRAM_LEFT_MOST = 1024,
	/* Buckets at first; doubled when there are more programs than buckets. */
	PROGRAM_BUCKETS = 256,
	/* Machine code goes to disk once the device has had nothing to do for this long. */
	PROGRAM_QUIET_MS = 500,
	/* And for this long when it is closed; what is left then is built again by the next engine. */
	PROGRAM_STOP_MS = 1000,
	/* A worker is ended after this long without work: a compiler holds 200 MB. */
	PROGRAM_WORKER_MS = 30000,
	/* One more worker is started for what has waited for so long: it takes as long until it has compiled anything. */
	PROGRAM_START_MS = 500,
	/* What has something to run meanwhile is compiled at idle priority, but not where that has not begun after so long. */
	PROGRAM_LATER_MS = 300,
	/*
	 * What nobody wants yet, and other forms of what runs, take memory's and the caches' time from what runs, at whatever priority; so
	 * they are built while nothing was launched for so long, or after so long in any case: there are devices that are never idle.
	 */
	PROGRAM_STILL_MS = 100,
	PROGRAM_SPARE_MS = 30000,
	/*
	 * A form for near launches is wanted by who launches it all the time; where that leaves idle priority nothing for so long, a builder of
	 * ordinary priority makes it, one at a time, so that who waits for a compiler finds another.
	 */
	PROGRAM_NEAR_MS = 1000,
	/* A program that waits for so long goes before one that one launch more wants. */
	PROGRAM_PATIENCE_MS = 100,
	/* Builds at a time where nothing is set, of those that somebody waits for: one that hangs must not stop all others, */
	BUILDERS_LEAST = 2,
	/* and from half of the processors others still run; more than so many kernels are seldom waited for. */
	BUILDERS_MOST = 8,
};

/* ---- the builders' queue ---- */

static int64_t now_ms(void) {
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* What a builder does next: one of the three, or none at the end. */
struct task {
	struct program *build;
	struct keep *keep;
	bool measure;
};

static bool measure_wanted(const struct device *d) {
	return atomic_load(&d->measure.state) == MEASURE_WANTED;
}

/* Larger for those that more launches wait for, and for older ones. */
static int64_t urgency(const struct program *p, int64_t now) {
	return (int64_t)p->wanted + (now - p->asked_ms) / PROGRAM_PATIENCE_MS;
}

static bool is_still(const struct programs *s, int64_t now) {
	return now - atomic_load_explicit(&s->launched_ms, memory_order_relaxed) >= PROGRAM_STILL_MS;
}

/* By the builder of idle priority. To start its worker takes longer than a kernel takes one that is there. */
static bool is_for_idle(const struct builder *b, const struct program *p, int64_t now) {
	const struct programs *s = &b->device->programs;

	if (p->rank <= PROGRAM_TRIAL)
		return (is_still(s, now) && now - p->asked_ms >= PROGRAM_STILL_MS) || now - p->asked_ms >= PROGRAM_SPARE_MS;
	if (p->rank == PROGRAM_NEAR)
		return now - p->asked_ms < PROGRAM_NEAR_MS;
	return p->rank == PROGRAM_LATER && (b->manned || !s->manned || now - p->asked_ms >= PROGRAM_LATER_MS);
}

/* What somebody waits for and what nobody waits for have builders of their own where workers compile, since priorities differ. */
static bool is_for(const struct builder *b, const struct program *p, int64_t now) {
	const struct programs *s = &b->device->programs;

	if (p->rank == PROGRAM_LEFT)
		return false;
	if (!s->apart)
		return true;
	if (b->worker.idle)
		return is_for_idle(b, p, now);
	if (p->rank == PROGRAM_NEAR)
		return !s->near && (b->manned || !s->manned) && now - p->asked_ms >= PROGRAM_NEAR_MS;
	if (p->rank < PROGRAM_LATER)
		return false;
	if (p->rank == PROGRAM_LATER && now - p->asked_ms < PROGRAM_LATER_MS)
		return b->manned && !s->idle_manned;
	return b->manned || !s->manned || s->early || now - p->asked_ms >= PROGRAM_START_MS;
}

/* a comes before b; equal ones in the order in which they came. */
static bool goes_before(const struct program *a, const struct program *b, int64_t now) {
	return !b || a->rank > b->rank || (a->rank == b->rank && urgency(a, now) >= urgency(b, now));
}

/* The place of the link to the next one, or NULL. */
static struct program **choose(const struct builder *b) {
	struct program **best = NULL;
	int64_t now = now_ms();

	for (struct program **p = &b->device->programs.queue; *p; p = &(*p)->next)
		if (is_for(b, *p, now) && goes_before(*p, best ? *best : NULL, now))
			best = p;
	return best;
}

static struct program *queue_take(struct program **place) {
	struct program *p = *place;

	*place = p->next;
	return p;
}

/* Those that have a worker are counted, or are about to start one: for a task, or none. */
static void man(struct builder *b, bool manned, const struct program *task) {
	struct programs *s = &b->device->programs;

	/* One that builds what nobody wants yet may be at it for seconds: it is as good as none. */
	if (b->worker.idle)
		s->idle_manned = manned && (!task || task->rank >= PROGRAM_LATER);
	else
		s->manned += (uint32_t)manned - (uint32_t)b->manned;
	b->manned = manned;
}

/* Is there something that may become a task of this builder's by waiting? */
static bool is_coming(const struct builder *b) {
	for (const struct program *p = b->device->programs.queue; p; p = p->next)
		if (b->worker.idle ? p->rank < PROGRAM_WAITED && p->rank != PROGRAM_LEFT : p->rank >= PROGRAM_NEAR)
			return true;
	return false;
}

/* Who has a worker waits for as long as that may live; others look now and then whether those are too slow. */
static void wait_for_work(struct builder *b) {
	struct programs *s = &b->device->programs;
	bool coming = is_coming(b);
	int64_t ms = coming ? PROGRAM_LATER_MS : PROGRAM_WORKER_MS;
	struct timespec end;

	if (!b->manned && !coming) {
		pthread_cond_wait(&s->work, &s->lock);
		return;
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += (time_t)(ms / 1000);
	end.tv_nsec += (long)(ms % 1000) * 1000000;
	end.tv_sec += end.tv_nsec / 1000000000;
	end.tv_nsec %= 1000000000;
	if (!pthread_cond_timedwait(&s->work, &s->lock, &end) || !b->manned || coming)
		return;
	worker_end(&b->worker);
	man(b, false, NULL);
}

static struct task programs_take(struct builder *b) {
	struct task task = { NULL, NULL, false };
	struct device *d = b->device;
	struct programs *s = &d->programs;
	struct program **next = NULL;

	pthread_mutex_lock(&s->lock);
	man(b, b->worker.socket >= 0, NULL);
	s->near = s->near == b ? NULL : s->near;
	while (!(next = choose(b)) && !s->stop && (!s->keeping || s->taken) && !measure_wanted(d))
		wait_for_work(b);
	/* What is being kept cannot be launched meanwhile, so it goes first. */
	if (!s->stop && s->keeping && !s->taken) {
		task.keep = s->keeping;
		s->taken = true;
	} else if (!s->stop && next) {
		task.build = queue_take(next);
		man(b, true, task.build);
		if (task.build->rank == PROGRAM_NEAR && !b->worker.idle)
			s->near = b;
	} else if (!s->stop) {
		task.measure = true;
		atomic_store(&d->measure.state, MEASURE_RUNS);
	}
	pthread_mutex_unlock(&s->lock);
	return task;
}

static void queue_put(struct programs *s, struct program *p) {
	p->next = s->queue;
	s->queue = p;
	pthread_cond_broadcast(&s->work);
}

/* By a builder whose worker has ordinary priority; but what nobody wants is tried again, after all else. */
static void build_again(struct programs *s, struct program *p) {
	atomic_store(&p->begun, false);
	pthread_mutex_lock(&s->lock);
	if (p->rank < PROGRAM_NEAR)
		p->asked_ms = now_ms();
	else if (p->rank > PROGRAM_NEAR)
		p->rank = PROGRAM_WAITED;
	queue_put(s, p);
	pthread_mutex_unlock(&s->lock);
}

enum program_rank programs_rank(struct programs *s, const struct program *p) {
	enum program_rank rank;

	pthread_mutex_lock(&s->lock);
	rank = p->rank;
	pthread_mutex_unlock(&s->lock);
	return rank;
}

bool programs_apart(struct programs *s) {
	bool apart;

	pthread_mutex_lock(&s->lock);
	apart = s->apart;
	pthread_mutex_unlock(&s->lock);
	return apart;
}

static void finish_build(struct programs *s, struct program *p) {
	pthread_mutex_lock(&s->lock);
	p->next = s->finished;
	s->finished = p;
	pthread_mutex_unlock(&s->lock);
}

static void finish_keep(struct programs *s) {
	pthread_mutex_lock(&s->lock);
	s->kept = true;
	pthread_mutex_unlock(&s->lock);
}

/* False where there is nothing to do any more. */
static bool work(struct builder *b) {
	struct device *d = b->device;
	struct task task = programs_take(b);

	if (task.build) {
		atomic_store(&task.build->begun, true);
		if (!builder_build(b, task.build)) {
			build_again(&d->programs, task.build);
			return true;
		}
		/* Who launches near looks at the state alone. */
		if (!task.build->near)
			finish_build(&d->programs, task.build);
	} else if (task.keep) {
		build_keep(d, task.keep->program, &task.keep->key);
		finish_keep(&d->programs);
	} else if (task.measure) {
		d->measure.result = rates_measure(b);
		atomic_store(&d->measure.state, MEASURE_ENDED);
	} else {
		return false;
	}
	queue_signal(d);
	return true;
}

static void *builder_main(void *argument) {
	CLEANUP(cleanup_free) struct builder *b = argument;

	while (work(b))
		continue;
	builder_close(b);
	return NULL;
}

static int start_builder(struct device *d, struct builder *b) {
	struct programs *s = &d->programs;
	int r = thread_start(&s->builder[s->builders], "builder", builder_main, b);

	s->builders += !r;
	return r;
}

static int add_builder(struct device *d, bool idle) {
	struct builder *b = calloc(1, sizeof *b);
	int r;

	if (!b)
		return -ENOMEM;
	r = builder_open(b, d);
	b->worker.idle = idle;
	if (!r)
		r = watchdog_start(&b->watchdog);
	if (!r)
		r = start_builder(d, b);
	if (!r)
		return 0;
	builder_close(b);
	free(b);
	return r;
}

void programs_init(struct device *d) {
	thread_condition_init(&d->programs.work);
	thread_condition_init(&d->programs.arrived);
	d->programs.bell = -1;
	pthread_mutex_init(&d->programs.lock, NULL);
}

uint32_t programs_builders(const struct device *d) {
	long processors = sysconf(_SC_NPROCESSORS_ONLN);

	if (d->config.builders)
		return d->config.builders;
	if (!d->config.want_worker)
		return 1;
	return processors / 2 < BUILDERS_LEAST ? BUILDERS_LEAST : processors / 2 > BUILDERS_MOST ? BUILDERS_MOST : (uint32_t)processors / 2;
}

int programs_open(struct device *d) {
	struct programs *s = &d->programs;
	uint32_t builders = programs_builders(d);
	int r = 0;

	s->apart = d->config.want_worker != NULL;
	s->bucket = calloc(PROGRAM_BUCKETS, sizeof *s->bucket);
	s->builder = calloc(builders + 1, sizeof *s->builder);
	s->bell = eventfd(0, EFD_CLOEXEC);
	if (!s->bucket || !s->builder || s->bell < 0)
		return -ENOMEM;
	s->buckets = PROGRAM_BUCKETS;
	s->quiet_ms = now_ms();
	for (uint32_t i = 0; i < builders && !r; i++)
		r = add_builder(d, false);
	return r || !s->apart ? r : add_builder(d, true);
}

/* ---- keeping machine code ---- */

void programs_keep(struct device *d, struct program *owner, cl_program program, const struct cache_key *key) {
	struct programs *s = &d->programs;
	struct keep *k;

	if (d->quirks->flags & QUIRK_COSTLY_BINARY && !d->config.keep)
		return;
	k = malloc(sizeof *k);
	if (!k || clRetainProgram(program)) {
		free(k);
		return;
	}
	*k = (struct keep){ .next = s->keeps, .owner = owner, .program = program, .key = *key };
	s->keeps = k;
}

static void keep_free(struct keep *k) {
	if (k->owner)
		k->owner->keeping = false;
	clReleaseProgram(k->program);
	free(k);
}

/* What a builder has written is let go of. */
static void collect_keep(struct programs *s) {
	struct keep *k = NULL;

	pthread_mutex_lock(&s->lock);
	if (s->kept) {
		k = s->keeping;
		s->keeping = NULL;
		s->kept = s->taken = false;
	}
	pthread_mutex_unlock(&s->lock);
	if (k)
		keep_free(k);
}

void programs_launching(struct device *d) {
	atomic_store_explicit(&d->measure.stop, true, memory_order_relaxed);
	atomic_store_explicit(&d->programs.launched_ms, now_ms(), memory_order_relaxed);
}

bool programs_quiet(struct device *d, int64_t ms) {
	struct programs *s = &d->programs;

	if (d->work.sequence != s->seen || d->work.running || s->building > s->left) {
		s->seen = d->work.sequence;
		s->quiet_ms = now_ms();
		return false;
	}
	return now_ms() - s->quiet_ms >= ms;
}

bool device_quiet(struct device *d, int64_t ms) {
	return programs_quiet(d, ms);
}

uint32_t device_building(const struct device *d) {
	return d->programs.building;
}

uint32_t device_wanted(const struct device *d) {
	return d->programs.building - d->programs.left;
}

uint32_t device_spare(struct device *d) {
	struct programs *s = &d->programs;
	uint32_t n = 0;

	pthread_mutex_lock(&s->lock);
	for (uint32_t i = 0; s->building && i < s->buckets; i++)
		for (const struct program *p = s->bucket[i]; p; p = p->bucket)
			n += p->rank <= PROGRAM_TRIAL && program_state(p) == PROGRAM_BUILDING && !p->left;
	pthread_mutex_unlock(&s->lock);
	return n;
}

void device_each_build(struct device *d, void (*tell)(void *user, const struct device_build *b), void *user) {
	struct programs *s = &d->programs;

	for (uint32_t i = 0; s->building && i < s->buckets; i++)
		for (const struct program *p = s->bucket[i]; p; p = p->bucket)
			if (program_state(p) == PROGRAM_BUILDING && !p->left)
				tell(user, &(struct device_build){ p->kernel, atomic_load(&p->begun), now_ms() - p->asked_ms });
}

void device_each_program(struct device *d, void (*tell)(void *user, struct program *p), void *user) {
	struct programs *s = &d->programs;

	for (uint32_t i = 0; i < s->buckets; i++)
		for (struct program *p = s->bucket[i]; p; p = p->bucket)
			tell(user, p);
}

static void start_keep(struct device *d) {
	struct programs *s = &d->programs;
	struct keep *k = s->keeps;

	if (!k || s->keeping || !programs_quiet(d, PROGRAM_QUIET_MS))
		return;
	s->keeps = k->next;
	if (k->owner)
		k->owner->keeping = true;
	pthread_mutex_lock(&s->lock);
	s->keeping = k;
	pthread_cond_signal(&s->work);
	pthread_mutex_unlock(&s->lock);
}

/* The builders have ended and nothing runs. */
static void close_keeps(struct device *d) {
	struct programs *s = &d->programs;
	int64_t end = now_ms() + PROGRAM_STOP_MS;
	struct keep *k;

	collect_keep(s);
	if (s->keeping) {
		s->keeping->next = s->keeps;
		s->keeps = s->keeping;
		s->keeping = NULL;
	}
	while ((k = s->keeps)) {
		s->keeps = k->next;
		if (now_ms() < end)
			build_keep(d, k->program, &k->key);
		keep_free(k);
	}
}

struct builds *builds_new(void) {
	struct builds *b = calloc(1, sizeof *b);

	if (b)
		b->references = 1;
	return b;
}

struct builds *builds_unref(struct builds *b) {
	if (b && !--b->references)
		free(b);
	return NULL;
}

void device_builds_for(struct device *d, struct builds *b) {
	d->programs.builds = b;
}

static void builds_count(struct program *p, enum program_rank rank) {
	p->later = rank < PROGRAM_WAITED;
	if (!p->builds)
		return;
	p->builds->unfinished++;
	p->builds->later += p->later;
}

static void builds_refer(struct program *p, struct builds *b) {
	p->builds = b;
	if (b)
		b->references++;
}

static void builds_add(struct program *p, struct builds *b, enum program_rank rank) {
	builds_refer(p, b);
	builds_count(p, rank);
	p->users = b;
	if (b)
		b->asked++;
}

/* Somebody waits for it from now on. */
static void builds_hurry(struct program *p) {
	if (p->builds)
		p->builds->later -= p->later;
	p->later = false;
}

/* Once for what was counted: one that was left is no more. */
static void builds_uncount(struct program *p) {
	builds_hurry(p);
	if (p->builds && !p->left)
		p->builds->unfinished--;
}

static void builds_done(struct program *p) {
	builds_uncount(p);
	p->builds = builds_unref(p->builds);
}

static void program_free(struct program *p) {
	if (p->near_one)
		program_free(p->near_one);
	builds_done(p);
	resident_drop(p->device, p);
	free(p->entry);
	free(p->kernel);
	free(p->source);
	free(p->log);
	free(p->why);
	free(p);
}

struct program *program_end(struct program *p) {
	program_free(p);
	return NULL;
}

/* Once for a program: a driver that fails would fill a disk. */
void program_log_fault(struct program *p, int error, const char *what) {
	char kernel[PROGRAM_NAME];
	char code[PROGRAM_NAME] = "";

	if (p->told)
		return;
	p->told = true;
	snprintf(kernel, sizeof kernel, "%016" PRIx64, p->hash);
	if (error)
		snprintf(code, sizeof code, " (OpenCL error %d)", error);
	log_about(LOG_LEVEL_WARNING, &(struct log_subject){ .kernel = kernel, .cl_error = error }, "%s kernel %s of %u values%s%s%.*s", what,
		kernel, p->kernel->values, code, p->log ? ": " : "", p->log ? (int)strcspn(p->log, "\n") : 0, p->log ? p->log : "");
}

/* There may be many, and all for the same reason. */
static void tell_lacking(struct device *d, const struct program *p) {
	if (d->programs.lacking_ms && now_ms() - d->programs.lacking_ms < LACKING_MS)
		return;
	d->programs.lacking_ms = now_ms();
	log_warning("%s", p->log ? p->log : "kernels are not built for want of descriptors");
}

static void collect_build(struct device *d, struct program *p) {
	struct device_counters *c = &d->counters;

	p->uncollected = false;
	builds_done(p);
	d->programs.left -= p->left;
	p->left = false;
	c->warmups += p->warmups;
	c->build_us += p->build_us;
	c->builds_apart += p->apart;
	c->workers_lost += p->deaths;
	c->refused += p->refused;
	if (p->cached || p->known)
		c->builds_cached++;
	else
		c->builds++;
	c->builds_spare += !p->cached && !p->known && p->rank <= PROGRAM_TRIAL;
	/* One that the end of the engine cut short has not failed. */
	if (program_state(p) == PROGRAM_FAILED && p->lacking) {
		tell_lacking(d, p);
	} else if (program_state(p) == PROGRAM_FAILED && !p->cancelled) {
		c->build_failures++;
		program_log_fault(p, 0, "it is not possible to build");
	}
	else if (program_state(p) != PROGRAM_FAILED && !p->cached && !p->apart)
		programs_keep(d, p, p->program, &p->key);
	if (d->config.ready && program_state(p) == PROGRAM_READY && p->kernel->root != KERNEL_INTERPRETER)
		d->config.ready(d->config.ready_user, p->kernel);
	resident_add(d, p);
}

/* From when it was asked for: its turn in the queue is part of what somebody waited for. */
static void trace_build(const struct program *p) {
	uint64_t now = loop_now_ns(), asked = (uint64_t)(now_ms() - p->asked_ms) * 1000000;
	struct trace_event *e = trace_add(TRACE_BUILD, NULL, asked < now ? now - asked : 0, now);

	e->number[0] = p->build_us;
	e->number[1] = p->kernel->values;
	trace_word(e, program_state(p) == PROGRAM_FAILED ? "failed" : p->cached || p->known ? "cached" : "built");
}

static uint32_t collect_builds(struct device *d) {
	struct programs *s = &d->programs;
	struct program *p;
	uint32_t n = 0;

	pthread_mutex_lock(&s->lock);
	p = s->finished;
	s->finished = NULL;
	pthread_mutex_unlock(&s->lock);
	for (; p; p = p->next, n++) {
		if (trace_on)
			trace_build(p);
		collect_build(d, p);
	}
	s->building -= n;
	if (n)
		s->quiet_ms = now_ms();
	return n;
}

uint32_t programs_poll(struct device *d) {
	uint32_t n = d->programs.building ? collect_builds(d) : 0;

	resident_limit(d);
	if (d->programs.keeping)
		collect_keep(&d->programs);
	if (d->programs.keeps)
		start_keep(d);
	if (atomic_load(&d->measure.state) != MEASURE_NOT)
		rates_poll(d);
	return n;
}

void programs_close(struct device *d) {
	struct programs *s = &d->programs;
	struct program *p;

	atomic_store(&d->measure.stop, true);
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	pthread_cond_broadcast(&s->work);
	pthread_cond_broadcast(&s->arrived);
	pthread_mutex_unlock(&s->lock);
	if (s->bell >= 0 && eventfd_write(s->bell, 1))
		log_error("builders are not told to stop: %s", strerror(errno));
	for (uint32_t i = 0; i < s->builders; i++)
		pthread_join(s->builder[i], NULL);
	collect_builds(d);
	close_keeps(d);
	for (uint32_t i = 0; i < s->buckets; i++)
		while ((p = s->bucket[i])) {
			s->bucket[i] = p->bucket;
			program_free(p);
		}
	workers_drop(s);
	if (s->bell >= 0)
		close(s->bell);
	pthread_cond_destroy(&s->work);
	pthread_cond_destroy(&s->arrived);
	pthread_mutex_destroy(&s->lock);
	free(s->bucket);
	free(s->builder);
	s->bucket = NULL;
	s->builder = NULL;
	s->finished = s->queue = NULL;
	s->buckets = s->builders = 0;
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
	p->own_words = kernel_own_words(k, &d->traits);
	atomic_init(&p->state, PROGRAM_BUILDING);
	p->asked_ms = now_ms();
	return p;
}

static void programs_put(struct programs *s, struct program *p, enum program_rank rank) {
	atomic_store(&p->device->measure.stop, true);
	p->rank = rank;
	p->wanted = 1;
	pthread_mutex_lock(&s->lock);
	queue_put(s, p);
	pthread_mutex_unlock(&s->lock);
}

int device_lacks(struct device *d, struct fault *f) {
	unsigned building = atomic_load(&d->building);

	/* Those that build now may not have opened what they will. */
	if (!descriptors_left(DESCRIPTORS_BUILD * (building ? building : 1)))
		return descriptors_fault(f, "a kernel that is to be built");
	return d->cache.folder ? cache_make_room(&d->cache, f) : 0;
}

static bool was_starved(const struct program *p) {
	return p->starved_ms && now_ms() - p->starved_ms >= STARVED_MS;
}

int device_program_lacks(struct program *p, struct fault *f) {
	int r;

	if (program_state(p) != PROGRAM_FAILED || !(p->lacking || was_starved(p)))
		return 0;
	r = device_lacks(p->device, f);
	if (r)
		return r;
	if (!p->uncollected)
		programs_again(p->device, p);
	return -EAGAIN;
}

void programs_again(struct device *d, struct program *p) {
	if (program_state(p) == PROGRAM_BUILDING)
		return;
	atomic_store(&p->begun, false);
	p->asked_ms = now_ms();
	p->build_us = p->emit_us = p->first_us = 0;
	p->warmups = p->deaths = 0;
	p->cached = p->apart = false;
	/* What was said of the last time. */
	free(p->source);
	free(p->log);
	p->source = p->log = NULL;
	atomic_store_explicit(&p->state, PROGRAM_BUILDING, memory_order_release);
	p->uncollected = true;
	d->programs.building++;
	programs_put(&d->programs, p, PROGRAM_WAITED);
}

struct program *programs_near(struct device *d, const struct program *p) {
	struct program *near = program_new(d, p->kernel, p->hash);

	if (!near)
		return NULL;
	near->near = true;
	programs_put(&d->programs, near, PROGRAM_NEAR);
	return near;
}

/* One that was left is wanted: its user pays for it as before; whose account is gone does not, but who asks now. */
static void return_to(struct device *d, struct program *p, enum program_rank rank) {
	struct programs *s = &d->programs;

	if (!p->left)
		return;
	if (s->builds && p->builds && p->builds->references == 1) {
		builds_unref(p->builds);
		builds_refer(p, s->builds);
	}
	p->left = false;
	s->left--;
	builds_count(p, rank);
}

static void want(struct device *d, struct program *p, enum program_rank rank) {
	struct programs *s = &d->programs;

	if (program_state(p) != PROGRAM_BUILDING)
		return;
	return_to(d, p, rank);
	if (rank == PROGRAM_WAITED)
		builds_hurry(p);
	pthread_mutex_lock(&s->lock);
	p->wanted += rank >= PROGRAM_LATER;
	if (rank > p->rank) {
		pthread_cond_broadcast(&s->work);
		p->rank = rank;
	}
	pthread_mutex_unlock(&s->lock);
}

void device_want(struct device *d, struct program *p, bool waits) {
	want(d, p, waits ? PROGRAM_WAITED : PROGRAM_LATER);
}

bool device_forgo(struct device *d, struct program *p) {
	struct programs *s = &d->programs;
	bool leaves;

	if (program_state(p) != PROGRAM_BUILDING || !p->users || p->left || s->left >= PROGRAM_LEFT_MOST)
		return false;
	pthread_mutex_lock(&s->lock);
	leaves = p->rank >= PROGRAM_LATER;
	if (leaves)
		p->rank = PROGRAM_LEFT;
	pthread_mutex_unlock(&s->lock);
	if (!leaves)
		return false;
	builds_uncount(p);
	p->left = true;
	s->left++;
	return true;
}

void device_insist(struct program *p) {
	p->users = false;
}

bool device_forgone(const struct device *d, const struct program *p) {
	return d->programs.left && p->left;
}

static struct program *find(struct programs *s, const struct kernel *k, uint64_t hash) {
	struct program *p = *chain_of(s, hash);

	while (p && (p->hash != hash || !kernel_equal(p->kernel, k)))
		p = p->bucket;
	return p;
}

struct program *device_find_program(struct device *d, const struct kernel *k) {
	return find(&d->programs, k, kernel_hash(k));
}

static bool has_enough(const struct builds *b, enum program_rank rank) {
	return b && rank < PROGRAM_WAITED && b->most_later && b->later >= b->most_later;
}

static int ask(struct device *d, const struct kernel *k, enum program_rank rank, struct program **programp) {
	struct programs *s = &d->programs;
	uint64_t hash = kernel_hash(k);
	struct program *p = find(s, k, hash);

	*programp = p;
	if (p)
		want(d, p, rank);
	if (p)
		return 0;
	if (has_enough(s->builds, rank))
		return -EBUSY;
	p = program_new(d, k, hash);
	if (!p)
		return -ENOMEM;
	if (s->count++ >= s->buckets)
		table_grow(s);
	p->bucket = *chain_of(s, hash);
	*chain_of(s, hash) = p;
	builds_add(p, s->builds, rank);
	p->uncollected = true;
	programs_put(s, p, rank);
	s->building++;
	*programp = p;
	return 0;
}

int device_program(struct device *d, const struct kernel *k, struct program **programp) {
	return ask(d, k, PROGRAM_WAITED, programp);
}

int device_program_later(struct device *d, const struct kernel *k, struct program **programp) {
	return ask(d, k, PROGRAM_LATER, programp);
}

int device_program_trial(struct device *d, const struct kernel *k, struct program **programp) {
	return ask(d, k, PROGRAM_TRIAL, programp);
}

int device_program_spare(struct device *d, const struct kernel *k, struct program **programp) {
	return ask(d, k, PROGRAM_SPARE, programp);
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

struct program_story program_story(const struct program *p) {
	struct program_story s = { .state = program_state(p), .why = "" };

	if (s.state == PROGRAM_BUILDING)
		return s;
	s.why = p->why ? p->why : "";
	s.known = p->known || p->cached;
	s.emit_us = p->emit_us;
	s.first_us = p->first_us;
	s.compile_us = p->build_us > s.emit_us + s.first_us ? p->build_us - s.emit_us - s.first_us : 0;
	return s;
}

uint64_t program_build_us(const struct program *p) {
	return program_state(p) == PROGRAM_BUILDING ? 0 : p->build_us;
}
