/*
 * Which engines there are, and their lives; see engines.h.
 */
#include "supervisor.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "protocol/message.h"
#include "daemon/base/cache_folder.h"
#include "daemon/door/blame.h"
#include "daemon/door/client.h"
#include "daemon/door/orders.h"
#include "daemon/door/stock.h"
#include "daemon/door/devices.h"

enum {
	/*
	 * An engine that ended is started again at once, then after growing pauses, until one has served for some time: the
	 * graphs that end engines are refused, and pauses are for a driver that lets none live.
	 */
	RESTART_FIRST_US = 100 * 1000,
	RESTART_MOST_US = 10 * 1000 * 1000,
	RESTART_LIVED_US = 2 * 1000 * 1000,
	/* An engine is looked at so many times within the shortest of its limits. */
	WATCH_PARTS = 4,
	/* Engines that end while they read a session's request, before the session is closed. */
	READER_ENDS = 2,
};

/* ---- device.device ---- */

static int set_flags(struct engine *e, const char *name, uint64_t number) {
	const char *folder = e->supervisor->config.cache_dir;
	unsigned flags = 2;
	int r = 0;

	snprintf(e->flag[0], sizeof e->flag[0], "device.device=%s", name);
	snprintf(e->flag[1], sizeof e->flag[1], "device.number=%llu", (unsigned long long)number);
	/* Drivers write their caches in place: each process has one of its own. */
	if (e->number && (size_t)snprintf(e->flag[2], sizeof e->flag[2], "cache.dir=%s/device-%u", folder, e->number) <
				 sizeof e->flag[2])
		flags = 3;
	for (unsigned i = 0; !r && i < flags; i++)
		r = config_flag(&e->source, e->flag[i]);
	return r;
}

static int on_packet(void *user, uint64_t id, struct wire_cursor *body, struct fault *f) {
	struct engine *e = user;

	if (id == CONTROL_METRICS)
		return metrics_take(e, body, f);
	if (id == CONTROL_SPENT)
		return rights_spent(e->supervisor, body, f);
	if (id == CONTROL_INNOCENT)
		return blame_innocent(e, body, f);
	if (id == CONTROL_ORDER)
		return orders_note(e, body, f);
	if (id == CONTROL_PROGRAM)
		return stock_note(e, body, f);
	return id == CONTROL_WORKER_WANT ? workers_want(e, body, f) : clients_packet(e, id, body, f);
}

static void on_writable(void *user) {
	struct engine *e = user;

	clients_resume(e->supervisor);
}

static void on_ready(void *user);

/* Without one, sessions end with their engine. */
static void open_catalogue(struct engine *e) {
	int fd = catalogue_create(), r = fd < 0 ? fd : catalogue_open(fd, &e->catalogue);

	if (r)
		log_warning("sessions will not outlive an engine: %s", strerror(-r));
	if (r && fd >= 0)
		close(fd);
}

static void close_catalogue(struct engine *e) {
	int fd = e->catalogue ? e->catalogue->fd : -1;

	e->catalogue = catalogue_close(e->catalogue);
	if (fd >= 0)
		close(fd);
}

int engine_take_catalogue(struct engine *e, int fd) {
	struct catalogue *c = NULL;
	int r = catalogue_check(fd);

	if (!r)
		r = catalogue_open(fd, &c);
	if (r)
		return r;
	close_catalogue(e);
	e->catalogue = c;
	e->catalogue_taken = true;
	return 0;
}

static int add_engine(struct supervisor *s, const char *name, uint64_t number, struct fault *f) {
	struct child_callbacks callbacks = { on_ready, on_packet, on_writable, NULL };
	struct engine *e;

	if (s->engines == ENGINES)
		return fault_set(f, FAULT_ARGUMENT, "device.device names more than %d devices", ENGINES);
	e = calloc(1, sizeof *e);
	if (!e)
		return -ENOMEM;
	e->supervisor = s;
	e->number = s->engines;
	e->source = *s->source;
	callbacks.user = e;
	child_init(&e->child, &child_engine, s->loop, s->folder, e->number, &callbacks);
	spare_init(e);
	s->engine[s->engines++] = e;
	open_catalogue(e);
	return set_flags(e, name, number);
}

static int check_twins(const struct supervisor *s, struct fault *f) {
	for (unsigned i = 0; i < s->engines; i++)
		for (unsigned k = 0; k < i; k++)
			if (!strcmp(s->engine[i]->flag[0], s->engine[k]->flag[0]) &&
				!strcmp(s->engine[i]->flag[1], s->engine[k]->flag[1]))
				return fault_set(f, FAULT_ARGUMENT, "device.device \"%s\" names a device twice",
					s->config.device_device);
	return 0;
}

static int add_wish(void *user, const char *name, uint64_t number, struct fault *f) {
	return add_engine(user, name, number, f);
}

int engines_open(struct supervisor *s, struct fault *f) {
	int r = devices_each(&s->config, s->source, add_wish, s, f);

	if (!r)
		r = check_twins(s, f);
	if (!r)
		blame_open(s);
	return r;
}

void engines_free(struct supervisor *s) {
	for (unsigned i = 0; i < s->engines; i++) {
		close_catalogue(s->engine[i]);
		blame_free(s->engine[i]);
		orders_free(s->engine[i]);
		stock_free(s->engine[i]);
		free(s->engine[i]);
	}
	s->engines = 0;
}

/* ---- starting ---- */

void engines_text(const struct supervisor *s, struct str *text) {
	for (unsigned i = 0; i < s->engines; i++)
		str_printf(text, "%s%s", i ? ", " : "", s->engine[i]->child.device);
}

static bool all_were_ready(const struct supervisor *s) {
	for (unsigned i = 0; i < s->engines; i++)
		if (!s->engine[i]->was_ready)
			return false;
	return true;
}

/* Before any session of it. */
static void give_catalogue(struct engine *e) {
	struct wire_writer w;
	int r;

	if (!e->catalogue)
		return;
	/* What one before it was asked, this one was not. */
	atomic_store(&e->catalogue->header->pong, e->ping);
	wire_writer_init(&w);
	wire_put_array(&w, 1);
	wire_put_uint(&w, CONTROL_CATALOGUE);
	r = child_queue(&e->child, &w, e->catalogue->fd);
	wire_writer_free(&w);
	if (r && r != -EPIPE)
		log_error("engine %u has no catalogue: %s", e->number, strerror(-r));
}

static void on_ready(void *user) {
	struct engine *e = user;
	struct supervisor *s = e->supervisor;
	struct str text = { 0 };
	bool first = !e->was_ready;

	e->was_ready = true;
	e->down_us = 0;
	give_catalogue(e);
	blame_tell(e);
	orders_tell(e);
	clients_resume(s);
	spare_plan(e);
	if (!all_were_ready(s))
		return;
	engines_text(s, &text);
	if (first)
		log_info("ready at %s: %s", s->config.door_socket, str_text(&text));
	else
		log_info("engine %u is ready again: %s", e->number, e->child.device);
	notify_ready(&s->notify);
	str_free(&text);
}

static void start(struct engine *e) {
	struct supervisor *s = e->supervisor;
	struct fault f;
	int r;

	e->child.generation = e->generation++;
	r = child_start(&e->child, &s->config, &e->source, &f);
	e->restart_us = 0;
	if (!e->down_us)
		e->down_us = loop_now();
	if (!r)
		return;
	log_error("the engine cannot be started: %s", r > 0 ? f.text : strerror(-r));
	if (!e->was_ready)
		supervisor_stop(s, config_exit(r));
	else
		e->restart_us = loop_now() + RESTART_MOST_US;
}

void engines_start(struct supervisor *s) {
	for (unsigned i = 0; i < s->engines && !s->stopping; i++)
		start(s->engine[i]);
}

/* ---- ending ---- */

static bool all_ended(const struct supervisor *s) {
	for (unsigned i = 0; i < s->engines; i++)
		if (s->engine[i]->child.state != CHILD_NONE || s->engine[i]->spare.state != CHILD_NONE || workers_left(s->engine[i]))
			return false;
	return true;
}

static bool died(const struct child *c) {
	return c->failed && !c->killed_us;
}

/* Workers, and an engine that its driver held up, are killed at a stop; what a driver was loading then is not to blame. */
static void let_off(const struct supervisor *s) {
	for (unsigned i = 0; i < s->engines; i++)
		if (died(&s->engine[i]->child) || died(&s->engine[i]->spare))
			return;
	cache_folder_let_off(s->config.cache_dir);
}

/* The gateway carries answers to clients on other machines as long as there may be any. */
void engines_end(struct supervisor *s) {
	if (!s->stopping || !all_ended(s))
		return;
	if (!s->served) {
		s->served = true;
		let_off(s);
		clients_close(s, NULL);
		gateway_stop(s);
	}
	s->done = gateway_gone(&s->gateway);
}

void engines_stop(struct supervisor *s) {
	for (unsigned i = 0; i < s->engines; i++) {
		s->engine[i]->restart_us = 0;
		child_stop(&s->engine[i]->child, s->config.engine_drain_us + s->config.engine_stop_us);
		s->engine[i]->spare_us = 0;
		child_stop(&s->engine[i]->spare, s->config.engine_stop_us);
	}
	engines_end(s);
}

void engines_hurry(struct supervisor *s) {
	for (unsigned i = 0; i < s->engines; i++)
		if (s->engine[i]->child.state == CHILD_STOPPING)
			s->engine[i]->child.deadline_us = loop_now();
}

static void plan_restart(struct engine *e, uint64_t lived) {
	if (lived >= RESTART_LIVED_US)
		e->restart_delay_us = 0;
	e->restart_us = loop_now() + e->restart_delay_us;
	e->restart_delay_us = e->restart_delay_us ? 2 * e->restart_delay_us : RESTART_FIRST_US;
	if (e->restart_delay_us > RESTART_MOST_US)
		e->restart_delay_us = RESTART_MOST_US;
}

/* Nothing was planned or launched: who wrote what was being read may have ended it. */
static void end_readers(struct engine *e) {
	uint64_t session = e->catalogue ? atomic_load(&e->catalogue->header->reading) : 0;

	if (!session)
		return;
	blame_reader(e, session);
	clients_blame(e, session, READER_ENDS);
}

/* Shared arrays go with the last session that holds them. */
static bool keeps_session(void *user, uint64_t session) {
	const struct engine *e = user;

	return catalogue_is_share(session) ? shared_arena_find(e->supervisor, (uint32_t)session) != NULL : clients_adrift(e, session);
}

/* What the dead engine held of sessions that go on. */
static void settle(struct engine *e) {
	struct catalogue_count count;

	if (!e->catalogue)
		return;
	catalogue_settle(e->catalogue, keeps_session, e, &count);
	e->arrays_kept += count.kept;
	e->arrays_lost += count.lost;
}

void engines_settle(struct supervisor *s) {
	for (unsigned i = 0; i < s->engines; i++)
		if (s->engine[i]->catalogue_taken)
			settle(s->engine[i]);
}

static void ended(struct engine *e, const char *why) {
	uint64_t lived = loop_now() - e->child.started_us;
	struct supervisor *s = e->supervisor;

	e->last_pid = e->child.last_pid;
	/* While it is known whose sessions these are: some end with it. */
	if (!s->stopping) {
		blame_ended(e, why);
		end_readers(e);
	}
	clients_drift(s, e);
	workers_end(e);
	if (s->stopping) {
		if (e->child.failed)
			log_error("while the daemon stops: %s", why);
		return;
	}
	blame_close(s);
	if (!e->down_us)
		e->down_us = loop_now();
	settle(e);
	e->ends++;
	snprintf(e->last_end, sizeof e->last_end, "%s", why);
	log_error("%s", why);
	/* One that says why it cannot start will say so again; one that died may have died of a driver, which the next one looks into. */
	if (!e->was_ready && (e->child.failure.code || e->ends > 1)) {
		supervisor_stop(s, config_exit(e->child.failure.code));
		return;
	}
	if (!spare_takes_over(e)) {
		plan_restart(e, lived);
		return;
	}
	on_ready(e);
	spare_wants_again(e);
}

void engines_reap(struct supervisor *s) {
	for (unsigned i = 0; i < s->engines; i++) {
		struct str why = { 0 };

		workers_reap(s->engine[i]);
		spare_reap(s->engine[i]);
		if (child_reap(&s->engine[i]->child, &why))
			ended(s->engine[i], str_text(&why));
		str_free(&why);
	}
	engines_end(s);
}

/* What it has been at since then is over the limit: the reason is told as its failure, and it is killed. */
static bool overdue(struct engine *e, uint64_t since, uint64_t limit, uint64_t now, const char *what) {
	if (!limit || !since || now < since || now - since < limit)
		return false;
	fault_set(&e->child.failure, FAULT_DEVICE, "the engine hung: %s for %" PRIu64 " ms", what, (now - since) / 1000);
	child_kill(&e->child, now);
	return true;
}

static uint64_t sooner_limit(uint64_t a, uint64_t b) {
	return !a ? b : !b || a < b ? a : b;
}

static void ping(struct engine *e, uint64_t now) {
	struct wire_writer w;
	int r;

	wire_writer_init(&w);
	wire_put_array(&w, 2);
	wire_put_uint(&w, CONTROL_PING);
	wire_put_uint(&w, ++e->ping);
	r = child_queue(&e->child, &w, -1);
	wire_writer_free(&w);
	e->ping_us = now;
	/* One that was not sent is not waited for. */
	if (r)
		e->ping--;
}

bool engine_answers(const struct engine *e) {
	return e->child.state == CHILD_READY && !e->child.killed_us && (!e->catalogue || atomic_load(&e->catalogue->header->pong) == e->ping);
}

void engines_ask(struct supervisor *s, uint64_t now) {
	for (unsigned i = 0; i < s->engines; i++)
		if (s->engine[i]->catalogue && engine_answers(s->engine[i]))
			ping(s->engine[i], now);
}

uint64_t engine_silent_us(const struct engine *e, uint64_t now) {
	bool asked = e->catalogue && e->child.state == CHILD_READY && atomic_load(&e->catalogue->header->pong) != e->ping;

	return asked && now > e->ping_us ? now - e->ping_us : 0;
}

/* When to look again; UINT64_MAX: there is nothing to look at. */
static uint64_t watch(struct engine *e, uint64_t now) {
	const struct config *c = &e->supervisor->config;
	uint64_t least = sooner_limit(c->engine_hang_us, c->engine_launch_us);
	const struct catalogue_header *h;
	bool answered;

	if (!e->catalogue || e->child.state != CHILD_READY || !e->sessions || !least || e->child.killed_us)
		return UINT64_MAX;
	h = e->catalogue->header;
	answered = atomic_load(&h->pong) == e->ping;
	if ((!answered && overdue(e, e->ping_us, c->engine_hang_us, now, "it answered nothing")) ||
		overdue(e, atomic_load(&h->device_us), c->engine_launch_us, now, "its device answered nothing"))
		return UINT64_MAX;
	if (answered && c->engine_hang_us && now - e->ping_us >= c->engine_hang_us / WATCH_PARTS)
		ping(e, now);
	return now + least / WATCH_PARTS;
}

uint64_t engines_tick(struct supervisor *s, uint64_t now) {
	uint64_t due = UINT64_MAX;

	for (unsigned i = 0; i < s->engines; i++) {
		struct engine *e = s->engine[i];

		child_tick(&e->child, now);
		due = loop_sooner(due, watch(e, now));
		due = loop_sooner(due, spare_tick(e, now));
		if (e->restart_us && now >= e->restart_us)
			start(e);
		due = loop_sooner(due, e->restart_us);
		due = loop_sooner(due, e->child.deadline_us);
	}
	return due;
}

/* ---- telling and choosing ---- */

/* One that was told to end, or killed, and is still there has served nobody since its deadline passed. */
static uint64_t down_since(const struct engine *e) {
	return e->down_us ? e->down_us : e->child.killed_us;
}

bool engines_well(const struct supervisor *s, uint64_t now) {
	uint64_t limit = s->config.engine_start_us + RESTART_MOST_US;

	for (unsigned i = 0; i < s->engines; i++) {
		uint64_t down = down_since(s->engine[i]);

		if (down && now - down > limit)
			return false;
	}
	return true;
}

void engines_status(const struct supervisor *s, struct str *text) {
	for (unsigned i = 0; i < s->engines; i++) {
		const struct engine *e = s->engine[i];

		if (i)
			str_append(text, ", ");
		if (e->child.state == CHILD_READY)
			str_append(text, e->child.device);
		else if (!e->was_ready)
			str_printf(text, "engine %u starts", e->number);
		else
			str_printf(text, "engine %u starts again (%s)", e->number, e->last_end);
	}
}

void engines_reload(struct supervisor *s) {
	struct wire_writer w;
	int r;

	wire_writer_init(&w);
	wire_put_array(&w, 1);
	wire_put_uint(&w, CONTROL_RELOAD);
	for (unsigned i = 0; i < s->engines; i++) {
		r = child_queue(&s->engine[i]->child, &w, -1);
		if (!r && s->engine[i]->spare.state == CHILD_READY)
			r = child_queue(&s->engine[i]->spare, &w, -1);
		if (r && r != -EPIPE)
			log_error("engine %u was not told to reload: %s", i, strerror(-r));
		orders_forget_settings(s->engine[i]);
	}
	wire_writer_free(&w);
}

/* What is all digits is a number, though there are digits in names. */
static bool fits(const struct engine *e, const char *wish) {
	if (*wish && !wish[strspn(wish, "0123456789")])
		return strtoul(wish, NULL, 10) == e->number;
	return strstr(e->child.device, wish);
}

static int refuse_wish(const struct supervisor *s, const char *wish, struct fault *f) {
	struct str there = { 0 };

	engines_text(s, &there);
	fault_set(f, FAULT_ARGUMENT, "the daemon has no device \"%s\" (there are: %s)", wish, str_text(&there));
	str_free(&there);
	return f->code;
}

int engines_choose(const struct supervisor *s, const char *wish, struct engine **enginep, struct fault *f) {
	struct engine *best = NULL;
	bool known = false;

	*enginep = NULL;
	/* Else the first sessions would all be of the device that starts fastest. */
	if (!*wish && !all_were_ready(s))
		return -EAGAIN;
	for (unsigned i = 0; i < s->engines; i++) {
		struct engine *e = s->engine[i];

		/* The name of a device is told with READY. */
		known |= fits(e, wish) || !e->was_ready;
		if (e->child.state == CHILD_READY && fits(e, wish) && (!best || e->sessions < best->sessions))
			best = e;
	}
	*enginep = best;
	if (best)
		return 0;
	return known ? -EAGAIN : refuse_wish(s, wish, f);
}
