/*
 * The engine's loop; see server.h.
 *
 * A turn does what can be done: packets of the supervisor, some requests, what the device finished,
 * what exec called back, windows whose time is up. The thread sleeps only when a turn leaves
 * nothing, and whoever brings something rings the bell only then.
 */
#include "server.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <time.h>

#include "protocol/ring.h"
#include "daemon/base/loop.h"
#include "daemon/serve/account.h"
#include "daemon/serve/aside.h"
#include "daemon/serve/batch.h"
#include "daemon/serve/flight.h"
#include "daemon/serve/operations.h"
#include "daemon/serve/patterns.h"
#include "daemon/serve/share.h"
#include "daemon/serve/wait.h"

enum {
	/* Requests between two looks at the device, so that it does not run dry under a flood. */
	SERVER_BURST = 16,
	/* With sessions about, memory that became idle is looked for this often. */
	SERVER_IDLE_US = 1000 * 1000,
	/* Between two looks at the clock while it spins. */
	SERVER_LOOKS = 16,
	/* With something to do, sockets are asked this often: what is on them comes a few turns later. */
	SERVER_TURNS = 8,
	/*
	 * With a device of its own the engine's thread spins for so long before it sleeps: what a client waits for is on its way
	 * often enough, and a wake costs as much. Where kernels run on the same processors, they need them more.
	 */
	SERVER_SPIN_NS = 20 * 1000,
	/* Who may have no more kernels built in this minute is looked at again this often. */
	SERVER_BUILDS_US = 500 * 1000,
	/* Before the end, whether it is time is asked this often. */
	SERVER_DRAIN_US = 5 * 1000,
	/* And where memory is short, whether there is some again. */
	SERVER_STARVED_MS = 10,
	/* Between two writes of what the tracker learned. */
	SERVER_SAVE_US = 30 * 1000 * 1000,
	/*
	 * Who comes first need not wait for a compiler, if what serves everybody is built before; but a compiler that is slow keeps nobody
	 * out for longer than this, from the start of the process.
	 */
	SERVER_READY_US = 2450 * 1000,
	/* The same where all of it comes from the cache: who is let in sooner only waits inside, and a service is to be ready in 0.1 s. */
	SERVER_KNOWN_US = 75 * 1000,
	/* Until then it is looked at this often. */
	SERVER_LOOK_US = 10 * 1000,
};

/* Are there requests, or has the device called? A turn does not sleep then, and the next one hears of them. */
static bool is_called(const struct server *v) {
	return inbox_waiting(v->inbox) || (v->rings && rings_waiting(v->rings));
}

static bool waits(void *user) {
	return is_called(user);
}

/* Is there something to do already? Costs no more than looks. */
static bool server_busy(const struct server *v) {
	return is_called(v) || v->ready || v->leaving || v->packets || operations_ready(v->operations);
}

int server_new(const struct server_config *c, struct server **serverp) {
	struct server *v = calloc(1, sizeof *v);
	int r;

	if (!v)
		return -ENOMEM;
	v->config = *c->config;
	v->source = c->source;
	v->device = c->device;
	v->traits = device_traits(c->device);
	v->plans = c->plans;
	v->tracker = c->tracker;
	v->exec = c->exec;
	v->transport = c->transport;
	v->rings = c->rings;
	v->linger_us = c->linger_us;
	v->inbox = c->inbox;
	v->control = c->control;
	v->reserve = c->reserve;
	v->url = c->url;
	v->catalogue_fd = -1;
	v->started_us = c->started_us ? c->started_us : loop_now();
	if (v->rings)
		rings_on_failure(v->rings, control_bad, v);
	wire_writer_init(&v->writer);
	r = aside_new(v->inbox, &v->aside);
	if (!r)
		r = shares_begin(v);
	if (!r)
		r = graph_new(&v->graph);
	if (!r)
		r = batch_scratch_new(&v->scratch);
	if (!r)
		r = patterns_new(v, &v->patterns);
	if (!r)
		r = operations_new(v, &v->operations);
	exec_left(v->exec, control_left, v);
	exec_heeds(v->exec, waits, v);
	if (r)
		server_free(v);
	else
		*serverp = v;
	return r;
}

struct server *server_free(struct server *v) {
	if (!v)
		return NULL;
	/* What there is of the sessions may be for another engine. */
	v->ends = true;
	catalogue_freeze(v->catalogue);
	exec_note(v->exec, NULL);
	exec_left(v->exec, NULL, NULL);
	exec_heeds(v->exec, NULL, NULL);
	while (v->sessions)
		session_free(v->sessions);
	v->aside = aside_free(v->aside);
	recent_free(v);
	accounts_free(&v->accounts, true);
	operations_free(v->operations);
	patterns_free(v->patterns);
	batch_scratch_free(v->scratch);
	flush_scratch_free(v->flush);
	graph_free(v->graph);
	wire_writer_free(&v->writer);
	wire_memory_free(&v->memory);
	flight_close(v);
	catalogue_close(v->catalogue);
	if (v->catalogue_fd >= 0)
		close(v->catalogue_fd);
	free(v);
	return NULL;
}

/* ---- a turn ---- */

static void take_requests(struct server *v) {
	for (int i = 0; i < SERVER_BURST; i++) {
		struct transport_request *r = inbox_take(v->inbox);

		if (!r)
			return;
		request_arrived(v, r);
	}
}

/* Kernels were built, or a while has passed: who is held for that may go on. */
static void heed_builds(struct server *v) {
	const struct device_counters *c = device_counters(v->device);
	uint64_t builds = c->builds + c->builds_cached, now = v->waits_for_builds ? loop_now() : 0;

	if (!v->waits_for_builds || (builds == v->builds_seen && now - v->builds_us < SERVER_BUILDS_US))
		return;
	v->builds_seen = builds;
	v->builds_us = now;
	v->waits_for_builds = false;
	v->progress = true;
}

/* Runs ended, so the queues of sessions have room again. */
static void progress_sessions(struct server *v) {
	struct session *next;

	if (!v->progress)
		return;
	v->progress = false;
	for (struct session *s = v->holding; s; s = next) {
		next = s->holding_next;
		request_progress(s);
	}
}

static bool is_ready(const struct server *v) {
	uint64_t most = exec_prepares_known(v->exec) ? SERVER_KNOWN_US : SERVER_READY_US;

	return exec_prepared(v->exec) || loop_now() >= v->started_us + most;
}

/* 0, or -errno where it cannot be told. */
static int tell_ready(struct server *v) {
	const char *url = v->url;

	if (!url || !is_ready(v))
		return 0;
	v->url = NULL;
	return control_ready(v->control, url, device_name(v->device), device_driver(v->device));
}

/* Once measured, the supervisor knows how fast the device is. */
static void tell_rates(struct server *v) {
	if (v->told_rates || !v->traits->rates.measured)
		return;
	v->told_rates = true;
	if (control_rates(v))
		log_error("the supervisor could not be told how fast the device is");
}

/* What was learned outlives an engine that is killed. */
static void save_now_and_then(struct server *v) {
	uint64_t now;
	int r;

	if (!tracker_changed(v->tracker))
		return;
	now = loop_now();
	if (now - v->saved_us < SERVER_SAVE_US)
		return;
	v->saved_us = now;
	r = tracker_save(v->tracker);
	if (r)
		log_warning("what was learned of graphs could not be kept on disk: %s", strerror(-r));
}

static void turn(struct server *v) {
	device_poll(v->device);
	exec_progress(v->exec);
	exec_gather(v->exec);
	if (v->rings)
		rings_poll(v->rings);
	take_requests(v);
	tell_rates(v);
	operations_turn(v->operations);
	aside_turn(v->aside);
	exec_progress(v->exec);
	waiters_turn(v);
	shares_turn(v);
	heed_builds(v);
	progress_sessions(v);
	window_turn(v);
	accepted_turn(v);
	events_turn(v);
	spent_turn(v);
	save_now_and_then(v);
}

void server_turn(struct server *v) {
	control_turn(v);
	turn(v);
}

/* ---- the loop ---- */

static uint64_t wait_us(const struct server *v) {
	uint64_t deadline = window_deadline(v), accepted = accepted_deadline(v), now, wait = exec_wait_us(v->exec);

	if (accepted < deadline)
		deadline = accepted;
	if (deadline != UINT64_MAX) {
		now = loop_now();
		if (deadline <= now || deadline - now < wait)
			wait = deadline > now ? deadline - now : 0;
	}
	if ((v->sessions || device_measuring(v->device)) && wait > SERVER_IDLE_US)
		wait = SERVER_IDLE_US;
	if (v->waits_for_builds && wait > SERVER_BUILDS_US)
		wait = SERVER_BUILDS_US;
	if (v->url && wait > SERVER_LOOK_US)
		wait = SERVER_LOOK_US;
	if (v->drain.deadline_us && wait > SERVER_DRAIN_US)
		wait = SERVER_DRAIN_US;
	return wait;
}

/* What the loop sleeps on. */
enum { FD_BELL, FD_CONTROL, FD_STOP, FD_RINGS, FDS };

/* ppoll() rather than epoll: four descriptors, and a window's end needs microseconds. How many descriptors are ready, or -errno. */
static int sleep_until(struct server *v, struct pollfd fds[static FDS], uint64_t us) {
	struct timespec t = { .tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000) * 1000 };

	int n = ppoll(fds, FDS, us == UINT64_MAX ? NULL : &t, NULL);

	if (n < 0 && errno != EINTR)
		return -errno;
	inbox_wake(v->inbox, fds[FD_BELL].revents & POLLIN);
	if (fds[FD_RINGS].revents)
		rings_wake(v->rings);
	return n > 0 ? n : 0;
}

/* For longer while something runs, whose end is what comes next. */
static uint64_t spin_ns(const struct server *v) {
	return v->linger_us && device_pending(v->device) ? UINT64_C(1000) * v->linger_us : SERVER_SPIN_NS;
}

/* Spins for a moment; true where something has come. */
static bool spin(struct server *v) {
	uint64_t start = loop_now_ns(), ns = spin_ns(v);

	do {
		for (int i = 0; i < SERVER_LOOKS; i++) {
			if (server_busy(v))
				return true;
			ring_relax();
		}
	} while (loop_now_ns() - start < ns);
	return false;
}

/* Once after each time that something came: an idle daemon uses no processor. */
static bool spins(struct server *v, bool *stirredp) {
	bool stirred = *stirredp;

	*stirredp = false;
	return stirred && !device_flat(v->device) && spin(v);
}

/*
 * What could not be read for lack of memory stays where it is, and keeps its descriptor readable: it is looked at again a while later, not at once. True
 * where something was so.
 */
static bool starved(struct server *v) {
	bool short_of = v->starved || (v->rings && rings_starved(v->rings));

	v->starved = false;
	return short_of;
}

bool server_orphaned(const struct server *v) {
	return v->orphaned;
}

bool server_goes_on(const struct server *v) {
	for (const struct session *s = v->sessions; s; s = s->hh.next)
		if (s->returns)
			return true;
	return false;
}

int server_run(struct server *v, int stop_fd) {
	struct pollfd fds[FDS] = { [FD_BELL] = { .fd = v->inbox->bell, .events = POLLIN },
		[FD_CONTROL] = { .fd = v->control, .events = POLLIN },
		[FD_STOP] = { .fd = stop_fd, .events = POLLIN },
		[FD_RINGS] = { .fd = v->rings ? rings_descriptor(v->rings) : -1, .events = POLLIN } };
	unsigned turns = 0;
	bool stirred = false;
	int r = 0;

	while (r >= 0 && !v->orphaned && !drain_done(v)) {
		bool rest;

		if (fds[FD_STOP].revents & POLLIN) {
			drain_begin(v);
			fds[FD_STOP].fd = -1;
			fds[FD_STOP].revents = 0;
			continue;
		}
		inbox_rung(v->inbox);
		if (v->packets || fds[FD_CONTROL].revents)
			control_turn(v);
		fds[FD_CONTROL].revents = 0;
		turn(v);
		r = tell_ready(v);
		if (r)
			return r;
		if (starved(v)) {
			poll(&fds[FD_STOP], 1, SERVER_STARVED_MS);
			fds[FD_CONTROL].revents = POLLIN;
			continue;
		}
		if ((server_busy(v) || spins(v, &stirred)) && ++turns < SERVER_TURNS) {
			stirred = true;
			continue;
		}
		turns = 0;
		rest = inbox_sleep(v->inbox) && !v->ready && !v->leaving && !v->packets && !operations_ready(v->operations) &&
		       (!v->rings || rings_sleep(v->rings));
		r = sleep_until(v, fds, rest ? wait_us(v) : 0);
		stirred = r > 0 || !rest;
	}
	if (r >= 0 && !v->orphaned)
		drain_end(v);
	return r < 0 ? r : 0;
}
