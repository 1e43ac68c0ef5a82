/* Following a client; see follow.h. */
#include "follow.h"

#include <stddef.h>

enum {
	/* Requests of one client alone; a batch and the question for its result are two. */
	FOLLOW_RUN = 64,
	/* To another processor costs some dozen microseconds: not more often than this. */
	FOLLOW_STAYS = 16,
};

static void leave(struct follow *w) {
	if (w->binding.at && w->place)
		atomic_store_explicit(&w->place->follows, 0, memory_order_relaxed);
	binding_end(&w->binding);
	w->run = 0;
}

void follow_heard(struct follow *w, struct ring_place *place) {
	uint32_t at;

	if (!w->on)
		return;
	at = atomic_load_explicit(&place->client, memory_order_relaxed);
	if (place != w->place || !at) {
		leave(w);
		w->place = place;
		return;
	}
	w->run++;
	if (at == w->binding.at || w->run < (w->binding.at ? FOLLOW_STAYS : FOLLOW_RUN))
		return;
	if (binding_set(&w->binding, at))
		w->run = 0;
	else
		leave(w);
	atomic_store_explicit(&place->follows, w->binding.at != 0, memory_order_relaxed);
}

void follow_forget(struct follow *w, const struct ring_place *place) {
	if (place != w->place)
		return;
	leave(w);
	w->place = NULL;
}
