/*
 * fusion-bench: measures libfusion and fusiond on a daemon of its own.
 *
 * The process that is started is a guard: it owns the private daemon, and removes it at the end,
 * after an error, and on Ctrl-C. A worker, its child, measures.
 *
 * usage: fusion-bench [--json] [--repeat N] [--pipelined N] [--captured] [--steps] [--all] [--clients N] [--seconds S] WORKLOAD...
 */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "age.h"
#include "bench.h"
#include "coldstart.h"
#include "watched.h"
#include "client/examples/demo/private_daemon.h"

enum {
	KEY_FUSIOND = 0x100,
	KEY_ROUNDTRIP,
	KEY_MEMORY,
	KEY_SHARE,
	KEY_COLDSTART,
	KEY_CLIENTS,
	KEY_SECONDS,
	KEY_HEAVY,
	CLIENTS_MOST = 1024,
	PIPELINED_MOST = 10000,
	WORKLOADS_MOST = 256,
	/* Interrupted by whatever the worker or the user does. */
	GUARD_TICK_MS = 50,
};

#define BUDGET_SECONDS 1.2
/* Of a sweep, which has many cases. */
#define SWEEP_SECONDS 0.1
/* Of each pattern, by both clocks together. */
#define PATTERNS_SECONDS 1.0

/* What the project has set itself to reach, and the shapes of its first users. */
static const char *const everything[] = {
	"add_relu_16M",
	"mul_relu_16M",
	"affine_relu_16M",
	"chain10_16M",
	"sum_16M",
	"add_relu_16777213",
	"linear_res_relu_128",
	"linear_res_relu_256",
	"linear_res_relu_512",
	"linear_res_relu_1024",
	"gelu_linear_128",
	"gelu_linear_256",
	"gelu_linear_512",
	"gelu_linear_1024",
	"layernorm_linear_512",
	"matmul_512",
	"matmul_1024",
	"softmax_4096x1024",
	"layernorm_4096x1024",
	"attention_8x512x64",
	"latency_1K",
	"queue_10K",
	"queue_100K",
	"plan_1000",
	"memory",
};

struct command {
	const char *workload[WORKLOADS_MOST];
	int workloads;
	bool coldstart, watched, sweep, age, patterns;
	bool json;
	bool steps;
	int repeat;
	int pipelined;
	bool captured;
	int clients, heavy;
	double seconds;
	double budget;
	char fusiond[PATH_MAX];
};

/* ---- shared small parts ---- */

int bench_fail(const char *format, ...) {
	va_list ap;

	fputs("fusion-bench: ", stderr);
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fputc('\n', stderr);
	return -1;
}

double bench_now(void) {
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double bench_cpu(const struct rusage *u) {
	return (double)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) + 1e-6 * (double)(u->ru_utime.tv_usec + u->ru_stime.tv_usec);
}

int samples_add(struct samples *s, double value) {
	if (s->count == s->room) {
		int room = s->room ? 2 * s->room : 64;
		double *grown = realloc(s->value, (size_t)room * sizeof *grown);

		if (!grown)
			return bench_fail("out of memory");
		s->value = grown;
		s->room = room;
	}
	s->value[s->count++] = value;
	return 0;
}

void samples_free(struct samples *s) {
	free(s->value);
	*s = (struct samples){ .count = 0 };
}

double samples_best(const struct samples *s) {
	double best = INFINITY;

	for (int i = 0; i < s->count; i++)
		best = fmin(best, s->value[i]);
	return best;
}

static int compare_doubles(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double samples_median(struct samples *s) {
	if (!s->count)
		return NAN;
	qsort(s->value, (size_t)s->count, sizeof *s->value, compare_doubles);
	return s->value[s->count / 2];
}

int bench_fusion(struct bench *b, bool on) {
	if (fusion_configure(b->context, "fusion.enabled", on ? "1" : "0"))
		return bench_fail("%s", fusion_error());
	return 0;
}

double bench_counter(struct bench *b, const char *name) {
	char *text = fusion_stats(b->context, false);
	cJSON *stats = text ? cJSON_Parse(text) : NULL;
	double value = cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(stats, name));

	cJSON_Delete(stats);
	free(text);
	return value;
}

/* ---- the worker ---- */

/* "latency_1K" after "latency_": the number, or 0. */
static int64_t size_after(const char *name, const char *prefix) {
	const char *end;
	int64_t n;

	if (strncmp(name, prefix, strlen(prefix)) != 0)
		return 0;
	n = workload_size(name + strlen(prefix), &end);
	return *end ? 0 : n;
}

/* 10K of operations is 10,000: a count, where 1K of floats is 1,024. */
static int64_t count_after(const char *name, const char *prefix) {
	char *end;
	long long n;

	if (strncmp(name, prefix, strlen(prefix)) != 0 || name[strlen(prefix)] < '1' ||
		name[strlen(prefix)] > '9')
		return 0;
	n = strtoll(name + strlen(prefix), &end, 10);
	if (*end == 'K')
		n = n > INT_MAX / 1000 ? 0 : n * 1000;
	return *end && strcmp(end, "K") != 0 ? 0 : n;
}

static int measure(struct bench *b, const char *name, cJSON *report) {
	struct workload w;
	int64_t n;

	if (!strcmp(name, "memory"))
		return measure_memory(b, report);
	if (!strcmp(name, "train_mlp"))
		return measure_train(b, report);
	if (!strcmp(name, "clients"))
		return measure_clients(b, b->clients, report);
	if (!strcmp(name, "remote"))
		return measure_remote(b, report);
	if (!strcmp(name, "weights"))
		return measure_weights(b, b->seconds, report);
	if (!strcmp(name, "share"))
		return measure_share(b, b->clients, b->seconds, report);
	if (!strcmp(name, "shared"))
		return measure_shared(b, b->clients, b->seconds, report);
	if ((n = size_after(name, "latency_")))
		return measure_latency(b, n, report);
	if ((n = count_after(name, "plan_")))
		return measure_plan(b, n, report);
	if ((n = count_after(name, "queue_")))
		return measure_queue(b, n, false, report);
	if ((n = count_after(name, "queue_chain_")))
		return measure_queue(b, n, true, report);
	return workload_parse(name, &w) ? -1 : measure_workload(b, &w, report);
}

/* Is it a workload of the table, rather than a measurement of its own? */
static bool workload_kernels(const char *name) {
	return strcmp(name, "memory") != 0 && strcmp(name, "share") != 0 && strcmp(name, "shared") != 0 && strcmp(name, "weights") != 0 && strcmp(name, "remote") != 0 &&
	       strcmp(name, "clients") != 0 &&
	       strcmp(name, "train_mlp") != 0 && !size_after(name, "latency_") && !count_after(name, "queue_") &&
	       !count_after(name, "queue_chain_") && !count_after(name, "plan_");
}

/* Refuses before anything runs. */
static int check_name(const char *name) {
	struct workload w;

	return workload_kernels(name) ? workload_parse(name, &w) : 0;
}

static void show(cJSON *report, bool json) {
	char *text;

	if (!json) {
		report_row(report);
		return;
	}
	cJSON_DeleteItemFromObjectCaseSensitive(report, "details");
	text = cJSON_PrintUnformatted(report);
	puts(text ? text : "{}");
	fflush(stdout);
	free(text);
}

/* A workload that fails is told and counted; the others run. */
static int measure_all(struct bench *b, const struct command *c) {
	int failed = 0;

	if (!c->json)
		report_heading(b->device);
	for (int i = 0; i < c->workloads; i++) {
		cJSON *report = cJSON_CreateObject();

		cJSON_AddStringToObject(report, "workload", c->workload[i]);
		fusion_error_clear();
		if (measure(b, c->workload[i], report))
			failed++;
		if (cJSON_GetArraySize(report) > 1)
			show(report, c->json);
		cJSON_Delete(report);
	}
	return failed;
}

/* Latency, planning, queues and memory have no kernels to speak of. */
static int measure_steps(struct bench *b, const struct command *c) {
	struct steps steps = { .error = { .count = 0 } };
	struct workload w;
	int failed = steps_begin(b) ? 1 : 0;

	for (int i = 0; !failed && i < c->workloads; i++) {
		if (!strcmp(c->workload[i], "train_mlp"))
			failed = steps_train(b, &steps) ? 1 : 0;
		else if (workload_kernels(c->workload[i]))
			failed = workload_parse(c->workload[i], &w) || steps_workload(b, &w, &steps);
	}
	steps_end(&steps);
	return failed;
}

static int worker(const struct command *c, const struct private_daemon *d) {
	struct fusion_options options = { .socket = d->socket, .name = "fusion-bench" };
	struct bench b = {
		.socket = d->socket, .folder = d->folder, .repeat = c->repeat, .budget = c->budget,
		.clients = c->clients, .heavy = c->heavy, .seconds = c->seconds, .pipelined = c->pipelined,
		.captured = c->captured
	};
	char cache[PRIVATE_DAEMON_PATH];
	int failed;

	snprintf(cache, sizeof cache, "%s/plain", d->folder);
	setenv("POCL_CACHE_DIR", cache, 1);
	b.supervisor = d->pid;
	b.engine = threads_child(d->pid, "fusiond-engine");
	b.device = d->device;
	if (!b.engine)
		return bench_fail("the engine of the daemon is not to be found in /proc");
	b.supervisor_idle = threads_memory(b.supervisor, "RssAnon");
	b.engine_idle = threads_memory(b.engine, "RssAnon");
	if (fusion_open(&b.context, &options))
		return bench_fail("%s", fusion_error());
	if (c->patterns)
		failed = measure_patterns(&b, c->json, c->workload, c->workloads);
	else if (c->sweep)
		failed = measure_sweep(&b, c->json, c->workload, c->workloads);
	else
		failed = c->steps ? measure_steps(&b, c) : measure_all(&b, c);
	reference_free(b.reference);
	fusion_close(b.context);
	return failed;
}

/* ---- the guard ---- */

static volatile sig_atomic_t stopped;

static void on_signal(int number) {
	stopped = number;
}

static void catch_signals(void) {
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	struct sigaction action = { .sa_handler = on_signal };

	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
		sigaction(signals[i], &action, NULL);
}

/* Forked before the guard opens a session, as libfusion wants it; waits to be told of the daemon. */
static pid_t worker_start(const struct command *c, int *tellp) {
	struct private_daemon d;
	pid_t parent = getpid(), pid;
	int end[2];

	if (pipe2(end, O_CLOEXEC))
		return -1;
	pid = fork();
	if (pid) {
		close(end[0]);
		*tellp = end[1];
		return pid;
	}
	close(end[1]);
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent || read(end[0], &d, sizeof d) != (ssize_t)sizeof d)
		_exit(EXIT_FAILURE);
	exit(worker(c, &d) ? EXIT_FAILURE : EXIT_SUCCESS);
}

/* Waits for the worker; ends it where the user wants an end. */
static int worker_wait(pid_t pid) {
	const struct timespec tick = { .tv_nsec = GUARD_TICK_MS * 1000000L };
	int status = -1;

	while (!stopped && !waitpid(pid, &status, WNOHANG))
		nanosleep(&tick, NULL);
	if (stopped) {
		kill(-pid, SIGKILL);
		waitpid(pid, &status, 0);
		return bench_fail("interrupted");
	}
	if (WIFSIGNALED(status))
		return bench_fail("the worker was killed by signal %d", WTERMSIG(status));
	return status;
}

static int guard(const struct command *c) {
	char why[PRIVATE_DAEMON_TEXT];
	struct private_daemon d = { .pid = 0 };
	int tell = -1, r = -1;
	pid_t pid;

	catch_signals();
	/* Of kernels that are meant, not of what stands in for them while they are built. */
	if ((c->steps && setenv("FUSIOND_ENGINE_TIME_KERNELS", "yes", 1)) ||
		((c->steps || c->sweep) && setenv("FUSIOND_FUSION_INTERPRETER", "off", 1)))
		return bench_fail("out of memory");
	pid = worker_start(c, &tell);
	if (pid < 0)
		return bench_fail("no process to measure in: %s", strerror(errno));
	if (private_daemon_start(&d, c->fusiond, &stopped, why))
		bench_fail("%s", why);
	else
		r = write(tell, &d, sizeof d) == (ssize_t)sizeof d ? 0 : -1;
	close(tell);
	if (worker_wait(pid))
		r = -1;
	private_daemon_stop(&d);
	return r;
}

/* ---- options ---- */

static void list(void) {
	int count;
	const struct kind *k = workload_kinds(&count);

	for (int i = 0; i < count; i++)
		printf("%s_%-*s %s\n", k[i].name, 20 - (int)strlen(k[i].name),
			k[i].square       ? "N"
			: k[i].sizes == 1 ? "N"
			: k[i].sizes == 2 ? "RxC"
					  : "BxSxD",
			k[i].doc);
	puts("latency_N             relu of N floats, waited for, beside a bare nng round trip");
	puts("queue_N               CPU time of N independent operations on 1,024 floats; K is 1,000 here");
	puts("queue_chain_N         the same for a chain");
	puts("plan_N                planning N operations, new and known; nothing of the new ones is run");
	puts("remote                round trips and bytes a second by the URLs of $FUSIOND_REMOTE_LISTEN beside shared memory");
	puts("train_mlp             a step of training 64-256-256-10 on batches of 256, with fusion_grad and fusion_sgd");
	puts("share                 requests of --clients N processes for --seconds S: two arrays, operations, the result");
	puts("shared                rounds of --clients N threads for --seconds S on one context, and on contexts of their own");
	puts("weights               two sessions of other weights or priorities for --seconds S each: what the first got of the device");
	puts("clients               --clients N sessions with 100 arrays each: memory for each, and an operation beside them");
	puts("coldstart [PART...]   alone: first results and 200 new graphs on an empty cache, and again on a full one; of these some by");
	puts("                      name: a workload's first result, new_graphs");
	puts("sweep [WORKLOAD...]   alone: products fused, unfused and bare in turns, from 1 to 4096; which are slower fused");
	puts("patterns [PART...]    alone: fusion patterns, fused and not, by the device's clock and the wall's: those that designs name; parts are");
	puts("                      NAME_SIZE, NAME in all sizes, or sweep, every built-in pattern from 16 to 2048: which are slower fused");
	puts("watched               alone: small requests with and without somebody who follows events");
	puts("age [N...]            alone: a small request, memory and mappings after N different kernels (100, 1,000, 10,000), 1,000 of them in use");
	puts("memory                anonymous memory of a client and of the daemon");
}

static const struct argp_option option_table[] = {
	{ "json", 'j', NULL, 0, "One line of JSON a workload", 0 },
	{ "repeat", 'r', "N", 0, "Runs of each variant, instead of as many as fit the budget", 0 },
	{ "budget", 'b', "SECONDS", 0, "For the runs of each variant of a workload (1.2; of a sweep 0.1; of patterns 1)", 0 },
	{ "pipelined", 'p', "N", 0, "So many of a workload, each with a first input of its own, before one wait (1)", 0 },
	{ "captured", 'c', NULL, 0, "Operations of a workload are recorded once, and replayed", 0 },
	{ "steps", 's', NULL, 0, "What each kernel is estimated to take, and takes, instead of how long all take", 0 },
	{ "all", 'a', NULL, 0, "The workloads the project is judged by; also where none is named", 0 },
	{ "list", 'l', NULL, 0, "What workloads there are", 0 },
	{ "fusiond", KEY_FUSIOND, "PATH", 0, "The daemon (beside this program)", 0 },
	{ "serve-roundtrip", KEY_ROUNDTRIP, "URL", OPTION_HIDDEN, NULL, 0 },
	{ "clients", KEY_CLIENTS, "N", 0, "Processes of the workload share, sessions of clients (8)", 0 },
	{ "heavy", KEY_HEAVY, "N", 0, "So many of the processes of share want 16M floats a request; those of the others are told (0)", 0 },
	{ "seconds", KEY_SECONDS, "S", 0, "How long they work (3)", 0 },
	{ "memory-client", KEY_MEMORY, "SOCKET", OPTION_HIDDEN, NULL, 0 },
	{ "coldstart-client", KEY_COLDSTART, "FIRST SOCKET", OPTION_HIDDEN, NULL, 0 },
	{ "share-client", KEY_SHARE, "SECONDS SOCKET", OPTION_HIDDEN, NULL, 0 },
	{ 0 },
};

/* Of coldstart. */
static bool is_part(const char *name) {
	struct workload w;

	return !strcmp(name, COLDSTART_NEW_GRAPHS) || !workload_parse(name, &w);
}

/* Measurements that come with no other one. */
static bool stands_alone(const char *name) {
	return !strcmp(name, "coldstart") || !strcmp(name, "watched") || !strcmp(name, "sweep") || !strcmp(name, "age") ||
	       !strcmp(name, "patterns");
}

static void add_workload(struct argp_state *state, struct command *c, const char *name) {
	if (c->patterns && c->workloads < WORKLOADS_MOST) {
		c->workload[c->workloads++] = name;
		return;
	}
	if (!strcmp(name, "patterns") && !c->workloads && !c->sweep && !c->coldstart && !c->age && !c->watched) {
		c->patterns = true;
		return;
	}
	if (c->watched || (c->coldstart && !is_part(name)) || (c->age && !age_is_part(name)) ||
		((c->workloads || c->sweep || c->coldstart || c->age) && stands_alone(name)))
		argp_error(state, "coldstart, sweep, patterns, age and watched stand alone, the first two with parts: workloads, and %s of the first; age with numbers",
			COLDSTART_NEW_GRAPHS);
	if (!strcmp(name, "age")) {
		c->age = true;
		return;
	}
	if (!strcmp(name, "sweep")) {
		c->sweep = true;
		return;
	}
	if (!strcmp(name, "watched")) {
		c->watched = true;
		return;
	}
	if (!strcmp(name, "coldstart")) {
		c->coldstart = true;
		return;
	}
	if (c->workloads == WORKLOADS_MOST)
		argp_error(state, "more than %d workloads", WORKLOADS_MOST);
	if (!c->coldstart && !c->age && check_name(name))
		exit(EXIT_FAILURE);
	c->workload[c->workloads++] = name;
}

static void add_everything(struct argp_state *state, struct command *c) {
	for (size_t i = 0; i < sizeof everything / sizeof *everything; i++)
		add_workload(state, c, everything[i]);
}

static double parse_number(struct argp_state *state, const char *text, double most) {
	char *end;
	double n = strtod(text, &end);

	if (*end || !(n > 0) || n > most)
		argp_error(state, "%s is not a number above 0 and up to %.0f", text, most);
	return n;
}

static error_t parse(int key, char *value, struct argp_state *state) {
	struct command *c = state->input;

	switch (key) {
	case 'j':
		c->json = true;
		return 0;
	case 'r':
		c->repeat = (int)ceil(parse_number(state, value, RUNS_MOST));
		return 0;
	case 'b':
		c->budget = parse_number(state, value, 3600);
		return 0;
	case 'p':
		c->pipelined = (int)ceil(parse_number(state, value, PIPELINED_MOST));
		return 0;
	case 'c':
		c->captured = true;
		return 0;
	case 's':
		c->steps = true;
		return 0;
	case 'a':
		add_everything(state, c);
		return 0;
	case 'l':
		list();
		exit(EXIT_SUCCESS);
	case KEY_FUSIOND:
		snprintf(c->fusiond, sizeof c->fusiond, "%s", value);
		return 0;
	case KEY_ROUNDTRIP:
		exit(roundtrip_serve(value));
	case KEY_MEMORY:
		exit(memory_client(value));
	case KEY_COLDSTART:
		exit(coldstart_client(value));
	case KEY_SHARE:
		exit(share_client(value));
	case KEY_CLIENTS:
		c->clients = (int)ceil(parse_number(state, value, CLIENTS_MOST));
		return 0;
	case KEY_HEAVY:
		c->heavy = (int)parse_number(state, value, CLIENTS_MOST);
		return 0;
	case KEY_SECONDS:
		c->seconds = parse_number(state, value, 3600);
		return 0;
	case ARGP_KEY_ARG:
		add_workload(state, c, value);
		return 0;
	case ARGP_KEY_END:
		if (c->heavy && c->heavy >= c->clients)
			argp_error(state, "--heavy: one of --clients must be a light one");
		return 0;
	case ARGP_KEY_NO_ARGS:
		if (!c->workloads)
			add_everything(state, c);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int main(int argc, char **argv) {
	static const struct argp argp = {
		.options = option_table,
		.parser = parse,
		.args_doc = "[WORKLOAD...]",
		.doc = "Measures libfusion and fusiond on a daemon of its own.\v"
		       "Workloads carry sizes: add_relu_16M, softmax_4096x1024. K and M are powers of 1024.",
	};
	static struct command command = { .pipelined = 1, .clients = 8, .seconds = 3 };

	private_daemon_sibling("fusiond", sizeof command.fusiond, command.fusiond);
	if (argp_parse(&argp, argc, argv, 0, NULL, &command))
		return EXIT_FAILURE;
	if (!(command.budget > 0))
		command.budget = command.sweep ? SWEEP_SECONDS : command.patterns ? PATTERNS_SECONDS : BUDGET_SECONDS;
	if (command.coldstart) {
		catch_signals();
		return coldstart(command.fusiond, command.json, command.workload, command.workloads, &stopped) ? EXIT_FAILURE : EXIT_SUCCESS;
	}
	if (command.age) {
		catch_signals();
		return age(command.fusiond, command.json, command.workload, command.workloads, &stopped) ? EXIT_FAILURE : EXIT_SUCCESS;
	}
	if (command.watched) {
		catch_signals();
		return watched(command.fusiond, command.json, &stopped) ? EXIT_FAILURE : EXIT_SUCCESS;
	}
	return guard(&command) ? EXIT_FAILURE : EXIT_SUCCESS;
}
