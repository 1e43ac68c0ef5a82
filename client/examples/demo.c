/*
 * The demonstration: one daemon, several processes, fused kernels, real data.
 *
 * Starts a daemon of its own, trains classifiers of handwritten digits (the example `digits`) in
 * several processes at the same time, shows what fusion did, and trains them again with fusion off.
 *
 * It promises to end with status 0 only where every classifier reads at least 95 % of the held-out
 * digits and fusion changed no bit of any weight, and to leave nothing behind: no process, no
 * file, also after an error, Ctrl-C or a kill that can be caught.
 *
 * usage: demo [--clients N] [--epochs N] [--fusiond PATH] [--digits PATH]
 */
#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "demo/learner.h"
#include "demo/private_daemon.h"
#include "demo/screen.h"

enum {
	CLIENTS = 4,
	CLIENTS_MOST = 9,
	EPOCHS = 30,
	EPOCHS_MOST = 1000,
	/* Signals are looked for this often while nothing else happens. */
	TICK_MS = 100,
};

#define ACCURACY_LEAST 0.95

struct demo {
	struct screen screen;
	struct private_daemon daemon;
	struct learner learner[CLIENTS_MOST];
	struct outcome fused[CLIENTS_MOST], unfused[CLIENTS_MOST];
	char fusiond[PATH_MAX], digits[PATH_MAX];
	int clients, epochs;
};

static volatile sig_atomic_t stopped;

static void on_signal(int number) {
	stopped = number;
}

static void catch_signals(void) {
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	struct sigaction action = { .sa_handler = on_signal };

	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
		sigaction(signals[i], &action, NULL);
	signal(SIGPIPE, SIG_IGN);
}

static int fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

static int fail(const char *format, ...) {
	va_list ap;

	fputs("demo: ", stderr);
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fputc('\n', stderr);
	return -1;
}

/* ---- the learners ---- */

static int crew_start(struct demo *d, bool fusion) {
	const struct learner_options options = {
		.program = d->digits,
		.socket = d->daemon.socket,
		.epochs = d->epochs,
		.fusion = fusion,
	};

	for (int i = 0; i < d->clients; i++)
		d->learner[i] = (struct learner){ .fd = -1 };
	for (int i = 0; i < d->clients; i++) {
		int r = learner_start(&d->learner[i], i + 1, &options);

		if (r)
			return fail("no process for client %d: %s", i + 1, strerror(-r));
	}
	return 0;
}

/* Waits until a learner speaks, or a tick; the number of those that still run. */
static int crew_listen(struct demo *d) {
	struct pollfd p[CLIENTS_MOST];
	int running = 0;

	for (int i = 0; i < d->clients; i++) {
		p[i] = (struct pollfd){ .fd = d->learner[i].fd, .events = POLLIN };
		running += p[i].fd >= 0;
	}
	if (!running || poll(p, (nfds_t)d->clients, TICK_MS) < 0)
		return running;
	for (int i = 0; i < d->clients; i++)
		if (p[i].fd >= 0 && p[i].revents)
			learner_listen(&d->learner[i]);
	return running;
}

/* Ends them all; the number of the first that failed, or 0. */
static int crew_end(struct demo *d) {
	int failed = 0;

	for (int i = d->clients - 1; i >= 0; i--)
		if (!learner_end(&d->learner[i]))
			failed = i + 1;
	return failed;
}

static int crew_watch(struct demo *d) {
	char why[PRIVATE_DAEMON_TEXT];
	bool alive = true;

	screen_progress(&d->screen, d->learner, d->clients);
	while (!stopped && alive && crew_listen(d)) {
		screen_progress(&d->screen, d->learner, d->clients);
		alive = private_daemon_alive(&d->daemon, why);
	}
	screen_progress_end(&d->screen);
	if (!alive)
		return fail("%s", why);
	return stopped ? fail("interrupted") : 0;
}

static int crew_run(struct demo *d, bool fusion, struct outcome *outcome) {
	int r = crew_start(d, fusion);
	int failed;

	if (!r)
		r = crew_watch(d);
	failed = crew_end(d);
	if (!r && failed)
		r = fail("client %d failed: %s", failed, d->learner[failed - 1].words);
	for (int i = 0; !r && i < d->clients; i++)
		outcome[i] = d->learner[i].outcome;
	return r;
}

/* ---- what came out ---- */

static bool accurate(const struct demo *d, const struct outcome *o) {
	for (int i = 0; i < d->clients; i++)
		if (!(o[i].accuracy >= ACCURACY_LEAST))
			return false;
	return true;
}

static bool same_bits(const struct demo *d) {
	for (int i = 0; i < d->clients; i++)
		if (strcmp(d->fused[i].weights, d->unfused[i].weights) != 0)
			return false;
	return true;
}

static bool judge(const struct demo *d) {
	const struct screen *s = &d->screen;
	bool good = accurate(d, d->fused) && accurate(d, d->unfused);
	bool same = same_bits(d);

	if (!good)
		screen_verdict(s, false, "Not every client reads %.0f %% of the digits it was not shown.",
			100 * ACCURACY_LEAST);
	if (same)
		screen_verdict(s, true, "SAME BITS: fusion changed no bit of any weight.");
	else
		screen_verdict(s, false, "DIFFERENT BITS: fusion changed the weights.");
	return good && same;
}

/* ---- the whole ---- */

static int show(struct demo *d) {
	printf("\n%d processes learn 1,437 handwritten digits, each from another seed, and read 360\n"
	       "they were not shown. One daemon runs them all on: %s\n\n",
		d->clients, d->daemon.device);
	screen_heading(&d->screen, "Fusion on");
	if (crew_run(d, true, d->fused))
		return -1;
	screen_fused(&d->screen, d->fused, d->clients);
	screen_heading(&d->screen, "Fusion off: the same work, one kernel an operation");
	if (crew_run(d, false, d->unfused))
		return -1;
	screen_unfused(&d->screen, d->fused, d->unfused, d->clients);
	return judge(d) ? 0 : -1;
}

static int run(struct demo *d) {
	char why[PRIVATE_DAEMON_TEXT];
	int r;

	catch_signals();
	screen_open(&d->screen);
	printf("Starting a daemon of its own ...\n");
	fflush(stdout);
	if (private_daemon_start(&d->daemon, d->fusiond, &stopped, why))
		return fail("%s", why);
	r = show(d);
	private_daemon_stop(&d->daemon);
	if (!r)
		printf("The daemon is stopped and its folder removed.\n");
	return r;
}

/* ---- options ---- */

static const struct argp_option option_table[] = {
	{ "clients", 'c', "N", 0, "Processes that learn at the same time (4)", 0 },
	{ "epochs", 'e', "N", 0, "Passes over the digits (30)", 0 },
	{ "fusiond", 'f', "PATH", 0, "The daemon (beside this program)", 0 },
	{ "digits", 'd', "PATH", 0, "The example (beside this program)", 0 },
	{ 0 },
};

static int parse_number(struct argp_state *state, const char *text, int most) {
	char *end;
	long n = strtol(text, &end, 10);

	if (!*text || *end || n < 1 || n > most)
		argp_error(state, "%s is not a number from 1 to %d", text, most);
	return (int)n;
}

static error_t parse(int key, char *value, struct argp_state *state) {
	struct demo *d = state->input;

	switch (key) {
	case 'c':
		d->clients = parse_number(state, value, CLIENTS_MOST);
		return 0;
	case 'e':
		d->epochs = parse_number(state, value, EPOCHS_MOST);
		return 0;
	case 'f':
		snprintf(d->fusiond, sizeof d->fusiond, "%s", value);
		return 0;
	case 'd':
		snprintf(d->digits, sizeof d->digits, "%s", value);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int main(int argc, char **argv) {
	static const struct argp argp = {
		.options = option_table,
		.parser = parse,
		.doc = "Several processes train classifiers of handwritten digits on one fusiond, with and "
		       "without fusion.",
	};
	static struct demo demo = { .clients = CLIENTS, .epochs = EPOCHS };

	private_daemon_sibling("fusiond", sizeof demo.fusiond, demo.fusiond);
	private_daemon_sibling("digits", sizeof demo.digits, demo.digits);
	if (argp_parse(&argp, argc, argv, 0, NULL, &demo))
		return EXIT_FAILURE;
	return run(&demo) ? EXIT_FAILURE : EXIT_SUCCESS;
}
