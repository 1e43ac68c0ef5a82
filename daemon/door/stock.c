/* Programs for a spare; see stock.h. */
#include "stock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "protocol/message.h"
#include "daemon/base/log.h"
#include "daemon/door/supervisor.h"

enum {
	/* Kernels of an engine. A training loop has some ten; each takes a spare 15 ms of PoCL, and 10 KiB at most here. */
	STOCK_MOST = 64,
};

struct stocked {
	struct stocked *prev, *next;
	uint64_t build;
	size_t size;
	unsigned char kernel[];
};

static bool same(const struct stocked *a, const struct stocked *b) {
	return a->build == b->build && a->size == b->size && !memcmp(a->kernel, b->kernel, a->size);
}

/* In front of all others, once. */
static void put(struct engine *e, struct stocked *k) {
	struct stocked *old, *next;
	unsigned count = 0;

	DL_FOREACH_SAFE(e->stock, old, next) {
		if (!same(old, k) && ++count < STOCK_MOST)
			continue;
		DL_DELETE(e->stock, old);
		free(old);
	}
	DL_PREPEND(e->stock, k);
}

static void tell(struct engine *e, const struct stocked *k) {
	struct wire_writer w;
	int r;

	wire_writer_init(&w);
	wire_put_array(&w, 4);
	wire_put_uint(&w, CONTROL_PROGRAM);
	wire_put_uint(&w, k->build);
	wire_put_uint(&w, k->size);
	wire_put_bin(&w, k->kernel, k->size);
	r = child_queue(&e->spare, &w, -1);
	wire_writer_free(&w);
	/* It builds that one when it is asked for. */
	if (r && r != -EPIPE)
		log_debug("the spare of engine %u lacks a program: %s", e->number, strerror(-r));
}

int stock_note(struct engine *e, struct wire_cursor *body, struct fault *f) {
	uint64_t build, size;
	const void *kernel;
	struct stocked *k;
	int r = wire_get_uint(body, "build", UINT64_MAX, &build, f);

	if (!r)
		r = wire_get_uint(body, "size", CHILD_PACKET, &size, f);
	if (!r)
		r = wire_get_bin(body, "kernel", size, &kernel, f);
	if (r)
		return r;
	k = malloc(sizeof *k + size);
	if (!k)
		return -ENOMEM;
	*k = (struct stocked){ .build = build, .size = size };
	memcpy(k->kernel, kernel, size);
	put(e, k);
	if (e->spare.state == CHILD_READY)
		tell(e, k);
	return 0;
}

void stock_tell(struct engine *e) {
	const struct stocked *k;

	DL_FOREACH(e->stock, k)
		tell(e, k);
}

void stock_free(struct engine *e) {
	struct stocked *k, *next;

	DL_FOREACH_SAFE(e->stock, k, next)
		free(k);
	e->stock = NULL;
}
