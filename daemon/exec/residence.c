/*
 * Which arrays have memory of the device, on devices with memory of their own.
 *
 * There may be more arrays than fit. Where memory is wanted and none is left, the arrays used longest ago move to
 * the host's memory, into the arena where a read would have put them, and come back with the next run that reads
 * them. A run's arrays stay from the moment its memory is taken until its last step is launched, or, where they do
 * not fit together, while each step is launched that names them (bind.c). The device's
 * queue is in order, so nobody waits: the copy to the host is queued behind whatever still writes the array, and
 * the memory is the next launch's at once.
 *
 * What has a copy on the host already, as all that was uploaded and never changed, goes without being copied.
 * Packed factors go before arrays do: they can be made again.
 */
#include "state.h"

#include <errno.h>

#include <utlist.h>

void residence_begin(struct buffer *b) {
	DL_APPEND2(b->space->exec->oldest, b, older, newer);
}

void residence_end(struct buffer *b) {
	DL_DELETE2(b->space->exec->oldest, b, older, newer);
}

void residence_touch(struct buffer *b) {
	if (!b->taken || !b->newer)
		return;
	residence_end(b);
	residence_begin(b);
}

void residence_hold(const struct run *r) {
	for (uint32_t i = 0; i < r->leaves; i++)
		r->leaf[i]->held++;
	for (uint32_t i = 0; i < r->outputs; i++)
		r->output[i]->held++;
}

void residence_release(const struct run *r) {
	for (uint32_t i = 0; i < r->leaves; i++)
		r->leaf[i]->held--;
	for (uint32_t i = 0; i < r->outputs; i++)
		r->output[i]->held--;
}

/* One that is still being written is of a run that goes step by step, and between two of them. */
static bool may_move(const struct buffer *b) {
	return !b->held && b->state != BUFFER_POISONED;
}

/* Not exact, for what is left may lie in pieces; but where this says no, nothing need be moved. */
static bool could_fit(const struct exec *x, uint64_t bytes) {
	uint64_t movable = 0;

	for (const struct buffer *b = x->oldest; b && movable < bytes; b = b->newer)
		if (may_move(b))
			movable += b->bytes;
	return movable >= bytes;
}

/* 0, or why it has no place on the host. */
static int move_to_host(struct exec *x, struct buffer *b) {
	bool copies = !b->hosted;
	int r = buffer_host(b, NULL);

	if (r)
		return r;
	/* A number of its own: the host's memory may not be unmapped before the copy has run. */
	if (copies)
		x->sequence++;
	x->counters.moved++;
	x->counters.moved_bytes += b->bytes;
	buffer_leave_device(b);
	return 0;
}

/* What was free before may be joined by a neighbour's: so it is tried after each. */
static int take_by_moving(struct exec *x, uint64_t bytes, uint64_t *addressp) {
	struct buffer *b = x->oldest, *newer;
	int r = -ENOSPC;

	for (; b && r == -ENOSPC; b = newer) {
		newer = b->newer;
		if (may_move(b) && !move_to_host(x, b))
			r = device_take(x->device, bytes, addressp);
	}
	return r;
}

int residence_take(struct exec *x, uint64_t bytes, uint64_t *addressp) {
	int r = device_take(x->device, bytes, addressp);

	if (r == -ENOSPC && packed_trim(x))
		r = device_take(x->device, bytes, addressp);
	if (r == -ENOSPC && could_fit(x, bytes))
		r = take_by_moving(x, bytes, addressp);
	return r;
}
