/*
 * Memory of temporaries: private to the engine, one block a run.
 *
 * A block is given back when the last step of its run is launched, and may be the next run's at
 * once, because the device's queue is in order. Flat devices: pieces of private memory, mapped as
 * needed. Others: the pools hand out blocks directly.
 *
 * The system clears memory when it is first written, and where the machine is virtual its host may have to find it, too: 4 MiB of a first
 * run's temporaries took up to 10 ms. So a piece of which the first MiB are in memory stays mapped, from when the engine is ready.
 */
#include "state.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "protocol/limits.h"

#include "daemon/base/log.h"
#include "daemon/base/thread.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; the C library of Debian 12 does not name it everywhere */
#endif

enum {
	SCRATCH_PAGE = 4096,
	/* Pieces are mapped in this size or larger: mapping costs a system call and page faults. */
	SCRATCH_PIECE = 64 << 20,
	/* An empty piece is kept this long. */
	SCRATCH_KEEP_MS = 2000,
	/* In memory before anybody needs it: the temporaries of a first softmax or norm of a million floats, which generic kernels compute. */
	SCRATCH_READY = 12 << 20,
};

int64_t exec_now_ms(void) {
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void piece_free(struct exec *x, struct piece *p) {
	device_unmap(x->device, p->address, p->bytes);
	x->scratch_mapped -= p->bytes;
	range_free_all(p->range);
	free(p);
}

static bool piece_idle(const struct exec *x, const struct piece *p) {
	return range_empty(p->range) && p->sequence <= x->completed;
}

/* Its thread ends within some ten milliseconds. */
static void scratch_let_go(struct exec *x) {
	if (x->scratch_clearing)
		pthread_join(x->scratch_clearer, NULL);
	x->scratch_clearing = false;
	x->scratch_kept = NULL;
}

void scratch_trim(struct exec *x, bool all) {
	struct piece **link = &x->scratch, *p;
	int64_t now = exec_now_ms();

	while ((p = *link)) {
		if (!piece_idle(x, p) || (!all && p == x->scratch_kept) || (!all && now - p->empty_ms < SCRATCH_KEEP_MS)) {
			link = &p->next;
			continue;
		}
		*link = p->next;
		if (p == x->scratch_kept)
			scratch_let_go(x);
		piece_free(x, p);
	}
}

static int piece_map(struct exec *x, uint64_t bytes) {
	struct piece *p = calloc(1, sizeof *p);
	int r;

	if (!p)
		return -ENOMEM;
	p->bytes = bytes;
	r = range_new(bytes - LIMIT_ARENA_SLACK, &p->range);
	if (!r)
		r = device_map(x->device, -1, bytes, &p->address, &p->host);
	if (r) {
		range_free_all(p->range);
		free(p);
		return r;
	}
	p->next = x->scratch;
	x->scratch = p;
	x->scratch_mapped += bytes;
	return 0;
}

/* A piece with room for `bytes`, as large as is usual where the limit allows. -E2BIG where the limit is the reason. */
static int scratch_grow(struct exec *x, uint64_t bytes) {
	uint64_t left = UINT64_MAX, least, size;

	if (bytes > UINT64_MAX - SCRATCH_PIECE)
		return -ENOMEM;
	least = (bytes + LIMIT_ALIGNMENT + LIMIT_ARENA_SLACK + SCRATCH_PAGE - 1) &
		~(uint64_t)(SCRATCH_PAGE - 1);
	size = least > SCRATCH_PIECE ? least : SCRATCH_PIECE;
	if (x->scratch_limit)
		left = x->scratch_mapped < x->scratch_limit ? x->scratch_limit - x->scratch_mapped : 0;
	if (size > left)
		size = least;
	return size > left ? -E2BIG : piece_map(x, size);
}

/* Where it cannot be had, or Linux is older, pages come when they are written. */
static void *clear_kept(void *argument) {
	if (madvise(argument, SCRATCH_READY, MADV_POPULATE_WRITE))
		log_debug("no memory is cleared for first temporaries");
	return NULL;
}

void scratch_make_ready(struct exec *x) {
	if (x->scratch_ready)
		return;
	x->scratch_ready = true;
	if (!x->flat || (x->scratch_limit && x->scratch_limit < SCRATCH_PIECE) || (!x->scratch && piece_map(x, SCRATCH_PIECE)))
		return;
	x->scratch_kept = x->scratch;
	x->scratch_clearing = !thread_start(&x->scratch_clearer, "scratch", clear_kept, x->scratch_kept->host);
}

static int take_from_pieces(struct exec *x, uint64_t bytes, struct block *b) {
	uint64_t offset;

	for (struct piece *p = x->scratch; p; p = p->next) {
		if (range_take(p->range, bytes, &offset))
			continue;
		*b = (struct block){ p, p->address + offset, bytes };
		return 0;
	}
	return -ENOMEM;
}

/* Are there pieces that could be unmapped, or taken, once what is queued has run? */
static bool worth_waiting(const struct exec *x) {
	for (const struct piece *p = x->scratch; p; p = p->next)
		if (range_empty(p->range) && p->sequence > x->completed)
			return true;
	return false;
}

static int take_mapped(struct exec *x, uint64_t bytes, struct block *b) {
	int r;

	if (!take_from_pieces(x, bytes, b))
		return 0;
	if (scratch_grow(x, bytes)) {
		scratch_trim(x, true);
		r = scratch_grow(x, bytes);
		if (r)
			return worth_waiting(x) ? -EAGAIN : r;
	}
	return take_from_pieces(x, bytes, b);
}

static int take_block(struct exec *x, uint64_t bytes, struct block *b) {
	if (x->flat)
		return take_mapped(x, bytes, b);
	return residence_take(x, bytes, &b->address) ? -ENOMEM : 0;
}

int scratch_take(struct exec *x, uint64_t bytes, struct block *b) {
	int r;

	*b = (struct block){ .bytes = bytes };
	r = take_block(x, bytes, b);
	/* Packed factors can be made again. */
	if (r && packed_trim(x))
		r = take_block(x, bytes, b);
	if (r) {
		b->bytes = 0;
		/* A run that is launched in part gives its block back soon. */
		return (r == -ENOMEM || r == -E2BIG) && x->partial ? -EAGAIN : r;
	}
	x->counters.scratch_bytes += bytes;
	if (x->counters.scratch_bytes > x->counters.scratch_peak)
		x->counters.scratch_peak = x->counters.scratch_bytes;
	return 0;
}

void scratch_give(struct exec *x, struct block *b) {
	struct piece *p = b->piece;

	if (!b->bytes)
		return;
	x->counters.scratch_bytes -= b->bytes;
	if (!x->flat) {
		device_give(x->device, b->address, b->bytes);
	} else if (!range_give(p->range, b->address - p->address, b->bytes)) {
		p->sequence = x->sequence;
		p->empty_ms = exec_now_ms();
	}
	b->bytes = 0;
}
