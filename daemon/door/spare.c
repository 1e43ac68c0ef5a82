/*
 * A second engine for a device (engine.spare), started already: it has the device open, knows its driver, and waits. Where the first one
 * dies it takes over at once, and another spare is started behind it; what remains of the time is to tell it of sessions. The
 * programs that the first one uses it has made ready by then (stock.h).
 *
 * Until then it has no catalogue, no sessions and no workers: what it asks for of those is noted and answered once it serves, so that two
 * engines of one device do not both compile what nobody wants yet.
 */
#include "supervisor.h"

#include <errno.h>
#include <string.h>

#include "protocol/message.h"
#include "daemon/door/stock.h"

enum {
	/* After an engine has taken over: its clients are to be served first. */
	SPARE_AFTER_US = 500 * 1000,
	/* After a spare that died by itself. */
	SPARE_AGAIN_US = 10 * 1000 * 1000,
};

static void on_spare_ready(void *user) {
	struct engine *e = user;

	log_debug("engine %u has a spare", e->number);
	stock_tell(e);
}

static int on_spare_packet(void *user, uint64_t id, struct wire_cursor *body, struct fault *f) {
	struct engine *e = user;
	uint64_t idle;
	int r;

	/* Those it has of the other one. */
	if (id == CONTROL_PROGRAM)
		return 0;
	if (id != CONTROL_WORKER_WANT)
		return fault_set(f, FAULT_PROTOCOL, "a spare engine has no message %llu", (unsigned long long)id);
	r = wire_get_uint(body, "idle", 1, &idle, f);
	if (!r)
		e->spare_wants[idle]++;
	return r;
}

static void on_spare_writable(void *user) {
	(void)user;
}

void spare_init(struct engine *e) {
	struct child_callbacks callbacks = { on_spare_ready, on_spare_packet, on_spare_writable, e };

	child_init(&e->spare, &child_engine, e->supervisor->loop, e->supervisor->folder, e->number, &callbacks);
}

void spare_plan(struct engine *e) {
	if (e->supervisor->config.engine_spare && e->spare.state == CHILD_NONE && !e->supervisor->stopping)
		e->spare_us = loop_now() + SPARE_AFTER_US;
}

static void start(struct engine *e) {
	struct fault f;
	int r;

	e->spare_us = 0;
	memset(e->spare_wants, 0, sizeof e->spare_wants);
	e->spare.generation = e->generation++;
	r = child_start(&e->spare, &e->supervisor->config, &e->source, &f);
	if (!r)
		return;
	log_warning("engine %u has no spare: %s", e->number, r > 0 ? f.text : strerror(-r));
	e->spare_us = loop_now() + SPARE_AGAIN_US;
}

uint64_t spare_tick(struct engine *e, uint64_t now) {
	uint64_t due;

	child_tick(&e->spare, now);
	if (e->spare_us && now >= e->spare_us && e->child.state == CHILD_READY)
		start(e);
	due = loop_sooner(UINT64_MAX, e->spare.deadline_us);
	return e->child.state == CHILD_READY ? loop_sooner(due, e->spare_us) : due;
}

void spare_reap(struct engine *e) {
	struct str why = { 0 };

	if (child_reap(&e->spare, &why) && !e->supervisor->stopping) {
		log_warning("the spare of engine %u: %s", e->number, str_text(&why));
		e->spare_us = loop_now() + SPARE_AGAIN_US;
	}
	str_free(&why);
}

bool spare_takes_over(struct engine *e) {
	struct child_callbacks callbacks = e->child.callbacks;

	if (e->spare.state != CHILD_READY || child_move(&e->child, &e->spare))
		return false;
	e->child.callbacks = callbacks;
	spare_init(e);
	return true;
}

void spare_wants_again(struct engine *e) {
	for (unsigned idle = 0; idle < 2; idle++)
		for (; e->spare_wants[idle]; e->spare_wants[idle]--)
			if (worker_start(e, idle))
				log_warning("engine %u has a worker less", e->number);
}
