/* What a context holds at the daemon; see held.h. Who releases what the oldest lines made has the memory back. */
#include "held.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "context.h"
#include "error.h"
#include "handle.h"
#include "value.h"

enum {
	HELD_PLACES = 3,
	/* Left of a sentence for the place of the operation itself. */
	HELD_LEAVES = 96,
};

struct held {
	uint32_t arrays, places;
	uint64_t bytes;
	const struct value *oldest[HELD_PLACES];     /* one a line, the oldest first */
};

static bool is_older(const struct value *a, const struct value *b) {
	return a->seq != b->seq ? a->seq < b->seq : a->index < b->index;
}

static bool same_line(const struct value *a, const struct value *b) {
	return a->place.file == b->place.file && a->place.line == b->place.line;
}

/* Keeps the oldest of each line, and of the lines those with the oldest. */
static void note_place(struct held *h, const struct value *v) {
	uint32_t at = 0;

	while (at < h->places && !same_line(h->oldest[at], v))
		at++;
	if (at == h->places && at < HELD_PLACES)
		h->oldest[h->places++] = v;
	else if (at == h->places && is_older(v, h->oldest[at - 1]))
		h->oldest[--at] = v;
	else if (at < h->places && is_older(v, h->oldest[at]))
		h->oldest[at] = v;
	for (; at && at < h->places && is_older(h->oldest[at], h->oldest[at - 1]); at--) {
		const struct value *swapped = h->oldest[at];

		h->oldest[at] = h->oldest[at - 1];
		h->oldest[at - 1] = swapped;
	}
}

static void look(struct held *h, const struct slots *slots) {
	for (uint32_t i = 0; i < slots->count; i++) {
		const struct value *v = slots->slot[i].value;

		if (!v || v->state != VALUE_SENT)
			continue;
		h->arrays++;
		h->bytes += (uint64_t)shape_bytes(&v->type);
		if (v->place.file)
			note_place(h, v);
	}
}

void held_append(const struct fusion_context *c, struct fault *f) {
	char text[LIMIT_SENTENCE], where[PLACE_TEXT];
	struct held h = { 0 };
	size_t used = strlen(f->text), n;

	if (f->code != FAULT_MEMORY || strstr(f->text, "; held: "))
		return;
	look(&h, c->slots);
	n = (size_t)snprintf(text, sizeof text, "; held: %" PRIu32 " arrays of %" PRIu64 " bytes", h.arrays, h.bytes);
	for (uint32_t i = 0; i < h.places; i++) {
		size_t more;

		place_name(h.oldest[i]->place, where);
		more = strlen(where) + sizeof ", the oldest from ";
		if (used + n + more + HELD_LEAVES > sizeof f->text)
			break;
		n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", i ? ", " : ", the oldest from ", where);
	}
	if (used + n + HELD_LEAVES <= sizeof f->text)
		memcpy(f->text + used, text, n + 1);
}
