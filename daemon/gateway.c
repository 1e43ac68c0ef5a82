/*
 * fusiond-gateway: accepts clients of other machines, each into a process of its own; see daemon/gateway/gateway.h. The
 * supervisor starts it, and it ends with the supervisor, as its processes end with it.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "protocol/message.h"
#include "protocol/shm.h"
#include "protocol/wire.h"
#include "client/link.h"
#include "daemon/base/started.h"
#include "daemon/base/version.h"
#include "daemon/gateway/gateway.h"

__attribute__((visibility("default"))) const char *argp_program_version = "fusiond-gateway " FUSIOND_VERSION;

enum {
	/* As many as remote.connections may allow. */
	GATEWAY_CONNECTIONS = 4096,
	KEY_CHECK = 0x100,
};

static const struct argp_option options[] = {
	{ "check", KEY_CHECK, NULL, 0, "Look at what remote.* says, print what is wrong with it, and exit", 0 },
	{ 0 },
};

/* A process of a connection. */
struct place {
	pid_t pid;                           /* 0: none */
	uint64_t order;
};

struct gateway {
	struct started by;
	bool check;
	struct config config;
	struct link_keys *keys;
	struct gateway_refusals *refusals;
	int signals;
	struct gateway_listeners listeners;
	struct place place[GATEWAY_CONNECTIONS];
	atomic_bool *entered;                /* of each place; shared with the processes */
	uint64_t accepted;
	uint64_t certificate_until;          /* the second of 1970 in which it ends; 0: there is none */
};

static error_t parse(int key, char *value, struct argp_state *state) {
	struct gateway *g = state->input;

	(void)value;
	switch (key) {
	case KEY_CHECK:
		g->check = true;
		return 0;
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &g->by;
		return 0;
	case ARGP_KEY_END:
		if (!g->check && (g->by.control < 0 || !g->by.url))
			started_refuse(state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* ---- the supervisor ---- */

static int tell(const struct gateway *g, struct wire_writer *w) {
	int r = wire_finish(w);

	if (!r)
		r = packet_send(g->by.control, w->buffer.data, w->buffer.size, -1, 0);
	wire_writer_free(w);
	return r;
}

static int tell_ready(const struct gateway *g) {
	struct str text = { 0 };
	struct wire_writer w;
	int r;

	listeners_text(&g->listeners, &text);
	r = str_finish(&text);
	if (!r) {
		wire_writer_init(&w);
		wire_put_array(&w, 3);
		wire_put_uint(&w, CONTROL_READY);
		wire_put_text(&w, g->by.url);
		wire_put_text(&w, str_text(&text));
		r = tell(g, &w);
	}
	str_free(&text);
	return r;
}

/* For metrics: who looks after it is to be told before it ends. */
static void tell_certificate(const struct gateway *g) {
	struct wire_writer w;

	wire_writer_init(&w);
	wire_put_array(&w, 2);
	wire_put_uint(&w, CONTROL_CERTIFICATE);
	wire_put_uint(&w, g->certificate_until);
	if (tell(g, &w))
		log_debug("the end of the certificate could not be told");
}

static void tell_failed(const struct gateway *g, int r, struct fault *f) {
	struct wire_writer w;

	if (r < 0)
		fault_set(f, FAULT_INTERNAL, "the gateway cannot start: %s", strerror(-r));
	wire_writer_init(&w);
	wire_put_array(&w, 3);
	wire_put_uint(&w, CONTROL_FAILED);
	wire_put_int(&w, f->code);
	wire_put_text(&w, f->text);
	if (tell(g, &w))
		log_error("%s", f->text);
}

/* ---- opening ---- */

/* Keys are read once, not by each connection: who replaces a file has it used when he says so, and only if it is right. */
static int load(struct config *c, const struct config_source *source, const char *listens, struct link_keys **keysp, struct fault *f) {
	struct config_origins origins;
	int r = config_load_checked(c, &origins, NULL, source, f);

	*keysp = NULL;
	/* What is listened for changes at a start alone. */
	if (listens)
		memcpy(c->remote_listen, listens, sizeof c->remote_listen);
	return r ? r : gateway_check(c, &origins, keysp, f);
}

static int check(const struct config_source *source) {
	struct link_keys *keys;
	struct config c;
	struct fault f = { 0 };
	int r = load(&c, source, NULL, &keys, &f);

	link_keys_free(keys);
	if (!r)
		return EXIT_SUCCESS;
	puts(r > 0 ? f.text : strerror(-r));
	return config_exit(r);
}

static int open_signals(struct gateway *g) {
	sigset_t set;

	signal(SIGPIPE, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGCHLD);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -errno;
	g->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return g->signals < 0 ? -errno : 0;
}

static int open_all(struct gateway *g, struct fault *f) {
	int r = load(&g->config, &g->by.source, NULL, &g->keys, f);

	if (r)
		return r;
	g->certificate_until = g->keys ? link_keys_until(g->keys) : 0;
	log_set_level((enum log_level)g->config.log_level);
	g->entered = mmap(NULL, GATEWAY_CONNECTIONS * sizeof *g->entered, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		-1, 0);
	if (g->entered == MAP_FAILED)
		return -errno;
	g->refusals = refusals_new();
	r = g->refusals ? open_signals(g) : -ENOMEM;
	return r ? r : listeners_open(&g->listeners, &g->config, f);
}

/* ---- connections ---- */

static struct place *free_place(struct gateway *g) {
	for (unsigned i = 0; i < g->config.remote_connections && i < GATEWAY_CONNECTIONS; i++)
		if (!g->place[i].pid)
			return &g->place[i];
	return NULL;
}

/* The oldest that has not said who it is makes room, so that silent ones keep nobody out. */
static void make_room(struct gateway *g) {
	struct place *oldest = NULL;

	for (unsigned i = 0; i < g->config.remote_connections && i < GATEWAY_CONNECTIONS; i++) {
		struct place *p = &g->place[i];

		if (p->pid && !atomic_load(&g->entered[i]) && (!oldest || p->order < oldest->order))
			oldest = p;
	}
	if (!oldest)
		return;
	kill(oldest->pid, SIGKILL);
	waitpid(oldest->pid, NULL, 0);
	oldest->pid = 0;
}

/* A connection, before it has a process. */
struct arrival {
	const struct gateway_listener *listener;
	int fd;
	char peer[GATEWAY_PEER];
	int clerk[2];                        /* the connection's process has the first one, its clerk the other */
	pid_t parent;
};

/* In a new process. */
static void leave_parent(struct gateway *g, const struct arrival *a) {
	sigset_t none;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != a->parent)
		_exit(EXIT_FAILURE);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	listeners_close(&g->listeners);
	close(g->signals);
}

static _Noreturn void become_session(struct gateway *g, unsigned place, const struct arrival *a) {
	struct gateway_session s = { .config = &g->config, .clerk = a->clerk[0], .fd = a->fd, .tls = a->listener->tls,
		.entered = &g->entered[place], .keys = g->keys };

	leave_parent(g, a);
	close(g->by.control);
	close(a->clerk[1]);
	memcpy(s.peer, a->peer, sizeof s.peer);
	session_serve(&s);
}

static _Noreturn void become_clerk(struct gateway *g, const struct arrival *a) {
	struct gateway_clerk c = { .config = &g->config, .control = g->by.control, .session = a->clerk[1], .tls = a->listener->tls,
		.peer = a->peer, .keys = g->keys, .refusals = g->refusals };

	leave_parent(g, a);
	close(a->fd);
	close(a->clerk[0]);
	clerk_serve(&c);
}

/* The connection's process, and beside it its clerk, which ends when it has answered, or that one has ended. */
static pid_t start_processes(struct gateway *g, unsigned place, const struct arrival *a) {
	pid_t clerk, pid = fork();

	if (!pid)
		become_session(g, place, a);
	clerk = pid < 0 ? -1 : fork();
	if (!clerk)
		become_clerk(g, a);
	if (clerk < 0)
		log_error("no process for a connection: %s", strerror(errno));
	return pid;
}

static void start_session(struct gateway *g, const struct gateway_listener *l, int fd,
	const struct sockaddr_storage *address) {
	struct arrival a = { .listener = l, .fd = fd, .parent = getpid() };
	struct place *p = free_place(g);
	unsigned i;

	if (!p) {
		make_room(g);
		p = free_place(g);
	}
	if (!p) {
		log_warning("a connection was refused: there are as many as remote.connections allows");
		return;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, a.clerk) < 0) {
		log_error("no socket for a connection: %s", strerror(errno));
		return;
	}
	i = (unsigned)(p - g->place);
	address_text(address, a.peer);
	atomic_store(&g->entered[i], false);
	p->order = ++g->accepted;
	p->pid = start_processes(g, i, &a);
	if (p->pid < 0)
		p->pid = 0;
	close(a.clerk[0]);
	close(a.clerk[1]);
}

static void accept_one(struct gateway *g, const struct gateway_listener *l) {
	struct sockaddr_storage address = { .ss_family = AF_UNSPEC };
	socklen_t size = sizeof address;
	int fd = accept4(l->fd, (struct sockaddr *)&address, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return;
	start_session(g, l, fd, &address);
	close(fd);
}

static void reap(struct gateway *g) {
	pid_t pid;

	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
		for (unsigned i = 0; i < GATEWAY_CONNECTIONS; i++)
			if (g->place[i].pid == pid)
				g->place[i].pid = 0;
}

/* False once it is to end. */
static bool hear_signal(struct gateway *g) {
	struct signalfd_siginfo info;

	while (read(g->signals, &info, sizeof info) == (ssize_t)sizeof info)
		if (info.ssi_signo == SIGTERM)
			return false;
	reap(g);
	return true;
}

static void read_again(struct gateway *g) {
	struct link_keys *keys;
	struct config fresh;
	struct fault f;
	int r = load(&fresh, &g->by.source, g->config.remote_listen, &keys, &f);

	if (r) {
		link_keys_free(keys);
		log_error("the gateway keeps its configuration: %s", r > 0 ? f.text : strerror(-r));
		return;
	}
	link_keys_free(g->keys);
	g->keys = keys;
	g->config = fresh;
	g->certificate_until = keys ? link_keys_until(keys) : 0;
	tell_certificate(g);
}

/* All that the supervisor says is that the configuration is to be read again. False once it is gone. */
static bool hear_supervisor(struct gateway *g) {
	unsigned char bytes[256];
	int fd;
	ssize_t n = packet_receive(g->by.control, bytes, sizeof bytes, &fd, MSG_DONTWAIT);

	if (fd >= 0)
		close(fd);
	if (n > 0)
		read_again(g);
	return n > 0 || n == -EAGAIN;
}

enum { FD_CONTROL, FD_SIGNALS, FD_LISTENERS, FDS = FD_LISTENERS + GATEWAY_LISTENERS };

static void serve(struct gateway *g) {
	struct pollfd p[FDS] = { [FD_CONTROL] = { .fd = g->by.control, .events = POLLIN },
		[FD_SIGNALS] = { .fd = g->signals, .events = POLLIN } };
	bool on = true;

	for (unsigned i = 0; i < g->listeners.count; i++)
		p[FD_LISTENERS + i] = (struct pollfd){ .fd = g->listeners.one[i].fd, .events = POLLIN };
	while (on) {
		if (poll(p, FD_LISTENERS + g->listeners.count, -1) < 0)
			continue;
		if (p[FD_SIGNALS].revents)
			on = hear_signal(g);
		if (on && p[FD_CONTROL].revents)
			on = hear_supervisor(g);
		for (unsigned i = 0; on && i < g->listeners.count; i++)
			if (p[FD_LISTENERS + i].revents)
				accept_one(g, &g->listeners.one[i]);
	}
}

int main(int argc, char **argv) {
	static const struct argp_child children[] = { { .argp = &started_argp }, { 0 } };
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.children = children,
		.doc = "The part of fusiond that serves clients of other machines. fusiond starts it; it is of no use alone.",
	};
	static struct gateway g = { .by.control = -1 };
	struct fault f = { 0 };
	int r;

	log_open("fusiond-gateway");
	if (argp_parse(&argp, argc, argv, 0, NULL, &g))
		return EXIT_FAILURE;
	if (g.check)
		return check(&g.by.source);
	r = open_all(&g, &f);
	if (r)
		tell_failed(&g, r, &f);
	else
		r = tell_ready(&g);
	if (!r)
		tell_certificate(&g);
	if (!r)
		serve(&g);
	listeners_close(&g.listeners);
	return r ? EXIT_FAILURE : EXIT_SUCCESS;
}
