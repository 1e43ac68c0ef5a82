/*
 * fusiond-engine: the process that owns the device. The supervisor starts it; see daemon/door/child.h.
 *
 * It opens the device, listens for the op stream, tells the supervisor that it is ready, and serves
 * until it is told to stop or the supervisor is gone. What keeps it from starting is told to the
 * supervisor in one sentence. With --worker it is a process that compiles for such an engine.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/loop.h"
#include "daemon/base/started.h"
#include "daemon/base/thread.h"
#include "daemon/base/version.h"
#include "daemon/serve/linger.h"
#include "daemon/serve/server.h"

__attribute__((visibility("default"))) const char *argp_program_version = "fusiond-engine " FUSIOND_VERSION;

enum {
	KEY_COUNT = 0x100,
	KEY_DEVICE,
	KEY_WARM,
	KEY_WORKER,
	/* A launch that is estimated above this part of engine.launch_us goes in slices: an estimate may be wrong by that much. */
	ENGINE_LONG = 8,
	/* The supervisor reads at once; a send that takes longer means that it is stuck. */
	ENGINE_SEND_S = 10,
	/* Between looks at how far the cache is filled: nobody waits. */
	WARM_TICK_MS = 50,
};

static const struct argp_option options[] = {
	{ "warm", KEY_WARM, NULL, 0, "Fill the cache with what every session may want, and exit", 0 },
	{ "count", KEY_COUNT, NULL, 0, "Print how many devices fit device.platform and device.device", 0 },
	{ "device", KEY_DEVICE, NULL, 0, "Print which device would be taken, or why none", 0 },
	{ "worker", KEY_WORKER, "PRIORITY", 0, "Compile for an engine on the socket of --control: ordinary or idle", 0 },
	{ 0 },
};

struct command {
	struct started by;
	uint64_t started_us;
	const char *worker;
	bool count, look, warm;
};

static error_t parse(int key, char *value, struct argp_state *state) {
	struct command *c = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &c->by;
		return 0;
	case KEY_WARM:
		c->warm = true;
		return 0;
	case KEY_COUNT:
		c->count = true;
		return 0;
	case KEY_DEVICE:
		c->look = true;
		return 0;
	case KEY_WORKER:
		c->worker = value;
		return 0;
	case ARGP_KEY_END:
		if (!c->count && !c->look && !c->warm && (c->by.control < 0 || (!c->by.url && !c->worker)))
			started_refuse(state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Everything the engine owns, in the order in which it is opened. */
struct engine {
	struct config config;
	int signals, control;
	struct reserve reserve;
	struct inbox inbox;
	struct device *device;
	struct plan_cache *plans;
	struct tracker *tracker;
	struct exec *exec;
	struct transport *transport, *ring_transport;
	struct rings *rings;
	struct server *server;
};

/* Before any thread is made, so that no thread takes them. A terminal's ^C is for the supervisor. */
static int open_signals(struct engine *e) {
	sigset_t set;

	signal(SIGPIPE, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -errno;
	e->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return e->signals < 0 ? -errno : 0;
}

static const char *text_or_null(const char *text) {
	return *text ? text : NULL;
}

/* By a builder's thread. */
static int want_worker(void *user, bool idle) {
	const struct engine *e = user;

	return control_want_worker(e->control, idle);
}

/* For a spare engine, now or later. */
static void tell_ready(void *user, const struct kernel *k) {
	const struct engine *e = user;

	control_program(e->control, k);
}

static int open_device(struct engine *e, struct fault *f) {
	const struct config *c = &e->config;
	struct device_config d = {
		.platform = text_or_null(c->device_platform),
		.device = text_or_null(c->device_device),
		.number = (unsigned)c->device_number,
		.strategy = text_or_null(c->device_strategy),
		.discrete = c->device_discrete,
		.near = c->engine_near_us > 0,
		.bind = c->device_bind,
		.reach = c->device_reach,
		.cache_dir = c->cache_dir,
		.cache_bytes = (uint64_t)c->cache_bytes,
		.memory = c->device_memory,
		.builders = (uint32_t)c->device_builders,
		.want_worker = c->device_workers && e->control >= 0 ? want_worker : NULL,
		.worker_user = e,
		.tried_again = e->control >= 0,
		.workers_early = c->fusion_interpreter == INTERPRETER_AUTO,
		.driver_programs = (uint32_t)c->device_driver_programs,
		.programs_bytes = (uint64_t)c->engine_programs_bytes,
		.worker_us = c->device_worker_us,
		.profile = c->engine_time_kernels,
		.measure = c->device_measure,
		.wake = inbox_ring,
		.user = &e->inbox,
		.ready = c->engine_spare && e->control >= 0 ? tell_ready : NULL,
		.ready_user = e,
	};

	return device_open(&d, &e->device, f);
}

static int open_exec(struct engine *e) {
	struct exec_config c = { .scratch_bytes = e->config.engine_scratch_bytes,
		.packed_bytes = e->config.engine_packed_bytes,
		.slice_ns = UINT64_C(1000) * e->config.engine_slice_us,
		.long_ns = UINT64_C(1000) * e->config.engine_launch_us / ENGINE_LONG,
		.near_ns = UINT64_C(1000) * e->config.engine_near_us,
		.interpreter = (enum config_interpreter)e->config.fusion_interpreter,
		.time_kernels = e->config.engine_time_kernels };
	int r = plan_cache_new((uint32_t)e->config.engine_plans, &e->plans);

	c.device = e->device;
	c.plans = e->plans;
	return r ? r : exec_new(&c, &e->exec);
}

/* Beside the program cache: what holds for these programs on this device. */
static int open_tracker(struct engine *e) {
	char path[CONFIG_TEXT + sizeof "/tracker"];
	struct str device = { 0 };
	int r;

	snprintf(path, sizeof path, "%s/tracker", e->config.cache_dir);
	str_printf(&device, "%s, %s, %s, %s", FUSIOND_VERSION, device_name(e->device), device_driver(e->device),
		device_traits(e->device)->strategy == STRATEGY_GPU ? "gpu" : "cpu");
	r = str_finish(&device);
	if (!r)
		r = tracker_new(path, str_text(&device), &e->tracker);
	str_free(&device);
	return r;
}

static int open_server(struct engine *e, const struct command *c, struct fault *f) {
	struct server_config s = { .config = &e->config,
		.source = &c->by.source,
		.device = e->device,
		.plans = e->plans,
		.tracker = e->tracker,
		.exec = e->exec,
		.inbox = &e->inbox,
		.control = c->by.control,
		.reserve = &e->reserve,
		.url = c->by.url,
		.started_us = c->started_us };
	struct linger_limits linger;
	const struct transport_connections most = { (uint32_t)e->config.door_connections, (uint32_t)e->config.limits_connections };
	int r = transport_nng_new(c->by.url, (unsigned)e->config.door_mode, most, &e->transport);

	if (!r)
		r = rings_new(&e->rings, &e->ring_transport);
	if (!r) {
		/* Who spins for what comes next must not do so where that is made (server.c). */
		if (e->config.engine_beside && device_flat(e->device))
			rings_follow(e->rings);
		linger = linger_limits(e->config.engine_linger_us, linger_processors(), device_flat(e->device));
		rings_linger(e->rings, linger.us, linger.clients);
		s.linger_us = linger.us;
		s.rings = e->rings;
		s.transport = e->transport;
		r = server_new(&s, &e->server);
	}
	if (!r)
		r = transport_start(e->ring_transport, inbox_push, &e->inbox);
	if (!r)
		r = transport_start(e->transport, inbox_push, &e->inbox);
	if (r && r != -ENOMEM)
		return fault_set(
			f, FAULT_CONNECT, "the engine cannot listen at %s: %s", c->by.url, strerror(-r));
	return r;
}

static int open_config(struct engine *e, const struct command *c, struct fault *f) {
	int r = config_load(&e->config, &c->by.source, f);

	if (!r)
		r = config_resolve(&e->config, f);
	if (!r)
		log_set_level((enum log_level)e->config.log_level);
	return r;
}

static int open_all(struct engine *e, const struct command *c, struct fault *f) {
	int r = open_config(e, c, f);

	if (!r)
		r = open_signals(e);
	if (!r)
		r = inbox_open(&e->inbox);
	if (!r)
		r = open_device(e, f);
	if (!r)
		r = open_exec(e);
	if (!r)
		r = open_tracker(e);
	return r ? r : open_server(e, c, f);
}

/* The server first: it answers what it holds. What the transport still brings ends in the inbox. */
static void close_service(struct engine *e) {
	e->server = server_free(e->server);
	e->transport = transport_close(e->transport);
	e->ring_transport = transport_close(e->ring_transport);
	if (e->exec)
		e->exec = exec_free(e->exec);
	e->tracker = tracker_free(e->tracker);
	if (e->plans)
		e->plans = plan_cache_free(e->plans);
}

static void close_all(struct engine *e) {
	close_service(e);
	if (e->device)
		e->device = device_close(e->device);
	inbox_close(&e->inbox);
}

static int run(const struct command *c) {
	struct timeval patience = { .tv_sec = ENGINE_SEND_S };
	struct engine e = { .signals = -1, .control = c->by.control, .reserve = RESERVE_NONE, .inbox = { .bell = -1 } };
	struct fault f = { 0 };
	int r;

	reserve_take(&e.reserve);
	setsockopt(c->by.control, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
	/* Before the driver makes threads. */
	if (!thread_be_prompt())
		log_debug("the scheduler gives no short turns");
	r = open_all(&e, c, &f);
	if (r < 0)
		fault_set(&f, FAULT_INTERNAL, "the engine cannot start: %s", strerror(-r));
	if (r && control_failed(c->by.control, &f))
		log_error("%s", f.text);
	if (!r)
		r = server_run(e.server, e.signals);
	/*
	 * Without a supervisor the kernel of the system is about to kill this process, too. What it would tell clients until then - that their
	 * requests were not answered - would only keep them from asking the next daemon.
	 */
	if (!r && server_orphaned(e.server))
		_exit(EXIT_FAILURE);
	/*
	 * Clients wait for the next daemon, which is not started before this process has ended. A driver gives its memory back at leisure, and waits for what it builds on a
	 * thread of ours; as workers are, it is left to the end of the process.
	 */
	if (!r && server_goes_on(e.server)) {
		close_service(&e);
		_exit(EXIT_SUCCESS);
	}
	close_all(&e);
	return r ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* All is asked for at once, of workers where a supervisor starts them; the device is measured when nothing is built any more. */
static void warm_all(const struct engine *e) {
	struct pollfd control = { .fd = e->control, .events = POLLIN };

	while (!exec_warm(e->exec) || device_building(e->device) || device_measuring(e->device)) {
		/* Without one the descriptor is none, and this waits. */
		if (poll(&control, 1, WARM_TICK_MS) > 0)
			control_workers(e->control, e->device);
		device_poll(e->device);
	}
}

static int warm(const struct command *c) {
	struct engine e = { .signals = -1, .control = c->by.control, .inbox = { .bell = -1 } };
	const struct device_counters *n;
	struct fault f = { 0 };
	int r = open_config(&e, c, &f);

	if (!r)
		r = inbox_open(&e.inbox);
	if (!r)
		r = open_device(&e, &f);
	if (!r)
		r = open_exec(&e);
	if (r) {
		log_error("%s", r > 0 ? f.text : strerror(-r));
	} else {
		warm_all(&e);
		n = device_counters(e.device);
		printf("%s: %" PRIu64 " programs built, %" PRIu64 " of them by workers, %" PRIu64 " were in the cache, %" PRIu64 " failed\n",
			device_name(e.device), n->builds, n->builds_apart, n->builds_cached, n->build_failures);
	}
	close_all(&e);
	return r ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* A process that compiles for an engine; see daemon/device/compile.c. */
static int work(const struct command *c) {
	struct config config;
	struct fault f = { 0 };
	struct device_config d = { .platform = NULL };
	int r = config_load(&config, &c->by.source, &f);

	if (!r)
		r = config_resolve(&config, &f);
	if (!r) {
		log_set_level((enum log_level)config.log_level);
		d.platform = text_or_null(config.device_platform);
		d.device = text_or_null(config.device_device);
		d.number = (unsigned)config.device_number;
		d.cache_dir = config.cache_dir;
		r = device_work(&d, c->by.control, !strcmp(c->worker, "idle"), config.device_worker_bytes, &f);
	}
	if (r)
		log_error("a worker ends: %s", r > 0 ? f.text : strerror(-r));
	return r ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* The settings by which a device is chosen. */
static int load_choice(const struct command *c, struct config *config, struct device_config *d, struct fault *f) {
	int r = config_load(config, &c->by.source, f);

	if (!r)
		*d = (struct device_config){ .platform = text_or_null(config->device_platform),
			.device = text_or_null(config->device_device),
			.number = (unsigned)config->device_number };
	return r;
}

/* Both on standard output: it is the answer. */
static int look(const struct command *c) {
	struct config config;
	struct device_config d;
	struct str text = { 0 };
	struct fault f = { 0 };
	int r = load_choice(c, &config, &d, &f);

	if (!r)
		r = device_look(&d, &text, &f);
	printf("%s\n", r > 0 ? f.text : r ? strerror(-r) : str_text(&text));
	str_free(&text);
	return r ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int count(const struct command *c) {
	struct config config;
	struct device_config d;
	struct fault f = { 0 };
	unsigned devices = 0;
	int r = load_choice(c, &config, &d, &f);

	d.number = 0;
	if (!r)
		r = device_count(&d, &devices, &f);
	if (r)
		log_error("%s", r > 0 ? f.text : strerror(-r));
	else
		printf("%u\n", devices);
	return r ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv) {
	static const struct argp_child children[] = { { .argp = &started_argp }, { 0 } };
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.children = children,
		.doc = "The part of fusiond that owns the device. fusiond starts it; it is of no use alone.",
	};
	static struct command command = { .by.control = -1 };

	command.started_us = loop_now();
	log_open("fusiond-engine");
	if (argp_parse(&argp, argc, argv, 0, NULL, &command))
		return EXIT_FAILURE;
	if (command.warm)
		return warm(&command);
	if (command.look)
		return look(&command);
	return command.count ? count(&command) : command.worker ? work(&command) : run(&command);
}
