/*
 * Arrays: where they lie, who uses them, why they have no value.
 *
 * On flat devices a buffer is a place in an arena, and the device sees what the client sees. On
 * others it has memory of a pool, and a place in an arena only where it came from one or has been
 * published; `resident` and `hosted` say which of the two has the value.
 */
#include "state.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/limits.h"

#include "daemon/base/memory.h"

enum {
	/* No element is wider: a buffer that starts on a multiple is aligned to its element. */
	BUFFER_ALIGNMENT = 8,
	/* References of the constant sorrow, which is never freed. */
	SORROW_FOREVER = UINT32_MAX / 2,
};

static struct sorrow out_of_memory = {
	.references = SORROW_FOREVER,
	.fault = { FAULT_MEMORY, "the daemon's memory is used up" },
};

/* ---- sorrows ---- */

struct sorrow *sorrow_new(const struct fault *f) {
	struct sorrow *s = malloc(sizeof *s);

	if (!s)
		return sorrow_ref(&out_of_memory);
	*s = (struct sorrow){ 1, *f };
	return s;
}

struct sorrow *sorrow_set(int code, const char *format, ...) {
	struct fault f = { .code = code };
	va_list ap;

	va_start(ap, format);
	vsnprintf(f.text, sizeof f.text, format, ap);
	va_end(ap);
	return sorrow_new(&f);
}

struct sorrow *sorrow_of_error(const struct space *s, int error, uint64_t bytes) {
	const struct exec *x = s->exec;

	if (error == -ENOBUFS && s->callbacks.why)
		return sorrow_new(s->callbacks.why(s->callbacks.user));
	if (error == -EIO)
		return sorrow_set(FAULT_DEVICE, "the device's driver refused the work");
	if (error == -EDQUOT)
		return sorrow_set(FAULT_MEMORY, "%" PRIu64 " bytes more than the %" PRIu64 " of the session's arrays are above limits.session_bytes=%" PRIu64,
			bytes, s->used, s->quota);
	if (error == -E2BIG)
		return sorrow_set(FAULT_MEMORY, "temporaries of %" PRIu64 " bytes, beside %" PRIu64 " of others, are above engine.scratch_bytes=%" PRIu64,
			bytes, x->counters.scratch_bytes, x->scratch_limit);
	if (!bytes)
		return sorrow_set(FAULT_MEMORY, "the daemon's memory is used up");
	if (!x->flat)
		return sorrow_set(FAULT_MEMORY, "the device has no room for %" PRIu64 " bytes more: " DEVICE_MEMORY_LIMIT, bytes, device_room(x->device));
	return sorrow_set(FAULT_MEMORY, "the machine has no memory for %" PRIu64 " bytes more", bytes);
}

struct sorrow *sorrow_ref(struct sorrow *s) {
	s->references++;
	return s;
}

struct sorrow *sorrow_unref(struct sorrow *s) {
	if (s && !--s->references)
		free(s);
	return NULL;
}

/* ---- life ---- */

int buffer_new(struct space *s, uint64_t bytes, struct buffer **bufferp) {
	struct buffer *b = memory_zeroed(sizeof *b);

	if (!b)
		return -ENOMEM;
	b->references = 1;
	b->entry = CATALOGUE_NONE;
	b->bytes = bytes;
	b->space = space_ref(s);
	b->next = s->buffers;
	if (b->next)
		b->next->previous = b;
	s->buffers = b;
	*bufferp = b;
	return 0;
}

static int check_place(
	const struct space_arena *a, uint32_t arena, uint64_t offset, uint64_t bytes, struct fault *f) {
	if (!a || a->engine_owned)
		return fault_set(f, FAULT_ARGUMENT, "arena %u is not one the client lays out", arena);
	if (offset % BUFFER_ALIGNMENT)
		return fault_set(f, FAULT_ARGUMENT, "offset %llu in arena %u is not a multiple of %d",
			(unsigned long long)offset, arena, BUFFER_ALIGNMENT);
	if (a->bytes < LIMIT_ARENA_SLACK || offset > a->bytes - LIMIT_ARENA_SLACK ||
		bytes > a->bytes - LIMIT_ARENA_SLACK - offset)
		return fault_set(f, FAULT_ARGUMENT, "%llu bytes at offset %llu leave arena %u, which has %llu",
			(unsigned long long)bytes, (unsigned long long)offset, arena,
			(unsigned long long)(a->bytes - LIMIT_ARENA_SLACK));
	return 0;
}

static int buffer_on_extent(struct space *s, struct extent *e, struct buffer **bufferp) {
	struct buffer *b;
	int r = buffer_new(s, e->key.bytes, &b);

	if (r)
		return r;
	b->state = BUFFER_READY;
	b->hosted = true;
	b->resident = s->exec->flat;
	b->arena = e->arena;
	b->offset = e->key.offset;
	b->address = e->arena->address + e->key.offset;
	b->extent = e;
	e->buffer = b;
	*bufferp = b;
	return 0;
}

int buffer_from_arena(struct space *s, uint32_t arena, uint64_t offset, uint64_t bytes, struct buffer **bufferp,
	struct fault *f) {
	struct space_arena *a = space_arena(s, arena);
	struct extent *e;
	int r = check_place(a, arena, offset, bytes, f);

	if (!r)
		r = extent_get(a, offset, bytes, &e);
	if (r)
		return r;
	/* The same memory twice is the same array: writing to one changes the other. */
	if (e->buffer) {
		*bufferp = buffer_ref(e->buffer);
		return 0;
	}
	r = buffer_on_extent(s, e, bufferp);
	if (r)
		extent_release(e);
	return r;
}

struct buffer *buffer_ref(struct buffer *b) {
	b->references++;
	return b;
}

void buffer_leave_device(struct buffer *b) {
	if (!b->taken)
		return;
	residence_end(b);
	device_give(b->space->exec->device, b->address, b->bytes);
	space_discharge(b->space, b->bytes);
	b->taken = b->resident = false;
}

static void give_host_memory(struct buffer *b) {
	if (!b->arena)
		return;
	if (b->extent) {
		b->extent->buffer = NULL;
		extent_release(b->extent);
	} else {
		space_give(b->arena, b->offset, b->bytes);
		if (b->space->exec->flat)
			space_discharge(b->space, b->bytes);
	}
	b->extent = NULL;
	b->arena = NULL;
	b->hosted = false;
}

struct buffer *buffer_unref(struct buffer *b) {
	if (!b || --b->references)
		return NULL;
	catalogue_give(b->space->exec->catalogue, b->entry);
	packed_forget(b);
	buffer_leave_device(b);
	give_host_memory(b);
	if (b->next)
		b->next->previous = b->previous;
	if (b->previous)
		b->previous->next = b->next;
	else
		b->space->buffers = b->next;
	sorrow_unref(b->sorrow);
	space_unref(b->space);
	free(b);
	return NULL;
}

void buffer_poison(struct buffer *b, struct sorrow *s) {
	if (b->state == BUFFER_POISONED)
		return;
	packed_forget(b);
	b->state = BUFFER_POISONED;
	b->sorrow = sorrow_ref(s);
	buffer_noted(b, 0);
	buffer_leave_device(b);
	give_host_memory(b);
}

/* ---- memory ---- */

static int take_device_memory(struct buffer *b) {
	int r = space_charge(b->space, b->bytes);

	if (r)
		return r;
	r = residence_take(b->space->exec, b->bytes, &b->address);
	if (r) {
		space_discharge(b->space, b->bytes);
		return r;
	}
	b->taken = true;
	residence_begin(b);
	return 0;
}

static int take_arena_memory(struct buffer *b) {
	int r = space_charge(b->space, b->bytes);

	if (r)
		return r;
	r = space_take(b->space, b->bytes, &b->arena, &b->offset);
	if (r) {
		space_discharge(b->space, b->bytes);
		return r;
	}
	b->address = b->arena->address + b->offset;
	b->hosted = true;
	return 0;
}

int buffer_take(struct buffer *b) {
	int r = b->space->exec->flat ? take_arena_memory(b) : take_device_memory(b);

	if (!r)
		b->resident = true;
	return r;
}

bool buffer_reach(struct buffer *b, uint64_t *addressp) {
	if (b->resident || b->taken || b->reached || !b->arena || !b->arena->address)
		return false;
	b->reached = true;
	b->space->exec->counters.reached++;
	*addressp = b->arena->address + b->offset;
	return true;
}

bool buffer_take_reached(struct buffer *b, uint64_t *addressp) {
	struct space_arena *a;
	uint64_t offset;

	if (space_take(b->space, b->bytes, &a, &offset) &&
		(space_ask(b->space, NULL, b->bytes, b->bytes) || space_take(b->space, b->bytes, &a, &offset)))
		return false;
	if (!a->address) {
		space_give(a, offset, b->bytes);
		return false;
	}
	b->arena = a;
	b->offset = offset;
	b->hosted = true;
	b->space->exec->counters.reached++;
	*addressp = a->address + offset;
	return true;
}

void buffer_untake(struct buffer *b) {
	buffer_leave_device(b);
	give_host_memory(b);
	b->resident = false;
}

int buffer_settle(struct buffer *b) {
	int r;

	residence_touch(b);
	if (b->resident)
		return 0;
	if (!b->taken) {
		r = take_device_memory(b);
		if (r)
			return r;
	}
	r = device_upload(b->space->exec->device, b->address, b->arena->host + b->offset, b->bytes);
	if (!r)
		b->resident = true;
	return r;
}

static int take_host(struct buffer *b, struct item *who, struct space_arena **arenap, uint64_t *offsetp) {
	int r = who ? space_take(b->space, b->bytes, arenap, offsetp) : space_take_now(b->space, b->bytes, arenap, offsetp);

	if (r != -ENOSPC)
		return r;
	r = space_ask(b->space, who, b->bytes, b->bytes);
	return r ? r : space_take(b->space, b->bytes, arenap, offsetp);
}

int buffer_host(struct buffer *b, struct item *who) {
	struct space_arena *a = b->arena;
	uint64_t offset = b->offset;
	int r;

	if (b->hosted)
		return 0;
	if (!a) {
		r = take_host(b, who, &a, &offset);
		if (r)
			return r;
	}
	b->arena = a;
	b->offset = offset;
	r = device_download(b->space->exec->device, a->host + offset, b->address, b->bytes);
	if (r)
		return r;
	b->hosted = true;
	/* Whatever is next on the device comes after the copy. */
	if (b->state == BUFFER_READY)
		buffer_noted(b, b->space->exec->sequence + 1);
	return 0;
}

void buffer_used(struct buffer *b, uint64_t sequence) {
	if (b->extent)
		b->extent->sequence = sequence;
}

/* ---- what serve asks ---- */

struct space *buffer_space(const struct buffer *b) {
	return b->space;
}

bool buffer_shared(const struct buffer *b) {
	return b->references > 1;
}

const struct fault *buffer_fault(const struct buffer *b) {
	return b->sorrow ? &b->sorrow->fault : NULL;
}

void buffer_location(const struct buffer *b, uint32_t *arenap, uint64_t *offsetp) {
	*arenap = b->arena ? b->arena->id : 0;
	*offsetp = b->offset;
}

void buffer_written(struct buffer *b) {
	packed_forget(b);
	packed_forget_overlapping(b);
	if (b->space->exec->flat || b->state != BUFFER_READY || !b->arena)
		return;
	b->resident = b->reached = false;
	b->hosted = true;
	buffer_noted(b, 0);
}
