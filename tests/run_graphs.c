/*
 * Runs the text graphs of tests/graphs/ on private daemons of its own.
 *
 *   run_graphs [--values] [--gpu] [--interpreted] [--seconds=N] FUSIOND FILE.fz|FOLDER...
 *
 * Every graph runs fused, unfused, fused with the kernels of GPUs (device.strategy=gpu; those of the
 * slice, see tests/slice.h), and fused with each pattern off that its plan has, of which no kernel may
 * then be. Of one graph in six, another sixth with each commit, the kernels of the fused plan are built, and of one in five of
 * these all the others, too; else they are bytecode and generic kernels. All results must be the same bits,
 * and what the file expects must hold: values, kernels, errors. The
 * daemon must also have launched as many kernels as EXPLAIN told, and no more than are told and counted without fusion; and tell the same
 * of it before and after, and of the same graph recorded. One line a graph; the last line
 * counts passed and failed ones. With --values how many kernels there are is not compared: on an unknown
 * device the cost model may rightly decide otherwise.
 *
 * Graphs whose name begins with fast_ run with fusion.fast, and with built kernels of CPUs alone: others may then round otherwise.
 *
 * The daemons' sockets lie in a temporary folder that is removed at the end. Their compiled kernels are
 * kept beside FUSIOND, in tests/graphs-cache, so that a second run takes seconds; in a run of
 * tests/check.sh where all tests keep theirs (tests/driver_cache.h).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <libgen.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "client/fusionctl/element.h"
#include "client/fusionctl/text_record.h"
#include "tests/driver_cache.h"
#include "tests/explained_again.h"
#include "tests/slice.h"
#include "tests/tree.h"

enum {
	PATH_TEXT = 512,
	/* A first start probes the device and builds; sanitizers make it slow. */
	START_SECONDS = 120,
	STOP_SECONDS = 20,
	POLL_US = 20000,
	/* One graph; a build on a loaded machine takes seconds. --seconds changes it, for devices that are made up. */
	GRAPH_SECONDS = 180,
	GRAPH_SECONDS_MOST = 24 * 3600,
	LINE_TEXT = 1024,
};

/* ---- daemons ---- */

struct daemon {
	const char *name, *strategy, *interpreter;
	pid_t pid;
	char folder[PATH_TEXT / 4], socket[PATH_TEXT / 2];
	double refused;        /* kernels that it could not build so far */
};

enum {
	CPU,
	GPU,
	/* Bytecode and generic kernels alone: what is not in the slice. */
	INTERPRETED,
	DAEMONS
};

static struct daemon daemons[DAEMONS] = {
	[CPU] = { .name = "cpu", .strategy = "cpu", .interpreter = "off" },
	[GPU] = { .name = "gpu", .strategy = "gpu", .interpreter = "off" },
	[INTERPRETED] = { .name = "interpreted", .strategy = "cpu", .interpreter = "always" },
};

/* Of so many graphs a run of a slice builds the kernels of one, fused and in every way; both divide a slice's thirty. */
enum {
	FUSED_OF = 6,
	BUILT_OF = FUSED_OF * 5
};

/* --gpu: the GPU strategy alone, on devices whose compiler takes minutes over vectors of 16 lanes. */
static unsigned main_daemon = CPU;

/* The graph that runs is one of those that allow other rounding. */
static bool fast;

static char folder[PATH_TEXT / 8];

static void run_daemon(const struct daemon *d, const char *program) {
	char setting[PATH_TEXT], interpreted[PATH_TEXT], cache[2 * PATH_TEXT], log[PATH_TEXT], copy[PATH_TEXT];
	int fd;

	snprintf(setting, sizeof setting, "device.strategy=%s", d->strategy);
	snprintf(interpreted, sizeof interpreted, "fusion.interpreter=%s", d->interpreter);
	/* A folder of caches is an absolute path. */
	if (!realpath(dirname(strcpy(copy, program)), log))
		_exit(127);
	snprintf(cache, sizeof cache, "%s/tests/graphs-cache", log);
	if (mkdir(cache, 0755) && errno != EEXIST)
		_exit(127);
	snprintf(cache, sizeof cache, "%s/tests/graphs-cache/%s", log, d->name);
	if (getenv("FUSION_DRIVER_CACHE"))
		snprintf(cache, sizeof cache, "%s/cache", d->folder);
	if (!driver_cache_link(cache))
		_exit(127);
	snprintf(log, sizeof log, "%s/log", d->folder);
	fd = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0)
		_exit(127);
	/* A setting of the developer's environment must not decide a test. */
	unsetenv("FUSIOND_DEVICE_STRATEGY");
	/* Under Oclgrind a launch takes minutes; a test that hangs is ended by who runs it. */
	execl(program, program, "--config", "/dev/null", "--socket", d->socket, "--cache-dir", cache, "--set",
		setting, "--set", "device.builders=2", "--set", "device.memory=2G", "--set", "device.measure=no",
		"--set", "engine.hang_us=0", "--set", "engine.launch_us=0", "--set", interpreted, (char *)NULL);
	perror(program);
	_exit(127);
}

static bool daemon_start(struct daemon *d, const char *program) {
	const int length = sizeof d->folder / 2;

	snprintf(d->folder, sizeof d->folder, "%.*s/%s", length, folder, d->name);
	snprintf(d->socket, sizeof d->socket, "%.*s/%s/door", length, folder, d->name);
	if (mkdir(d->folder, 0700))
		return false;
	d->pid = fork();
	if (!d->pid)
		run_daemon(d, program);
	return d->pid > 0;
}

static void show_log(const struct daemon *d) {
	char path[PATH_TEXT], line[LINE_TEXT];
	FILE *log;

	snprintf(path, sizeof path, "%s/log", d->folder);
	log = fopen(path, "re");
	while (log && fgets(line, sizeof line, log))
		fprintf(stderr, "fusiond (%s): %s", d->name, line);
	if (log)
		fclose(log);
}

static unsigned graph_seconds = GRAPH_SECONDS;

static fusion_context *daemon_open(const struct daemon *d, enum fusion_switch fusion) {
	struct fusion_options options = {
		.socket = d->socket,
		.name = "run_graphs",
		.fusion = fusion,
		.timeout_ms = 1000 * graph_seconds,
	};
	fusion_context *context;

	return fusion_open(&context, &options) ? NULL : context;
}

/* Waits until the daemon takes a session. */
static bool daemon_wait(struct daemon *d) {
	time_t end = time(NULL) + START_SECONDS;

	while (time(NULL) < end && waitpid(d->pid, NULL, WNOHANG) == 0) {
		fusion_context *context = daemon_open(d, FUSION_DEFAULT);

		if (context) {
			fusion_close(context);
			return true;
		}
		usleep(POLL_US);
	}
	fprintf(stderr, "run_graphs: the daemon %s did not start: %s\n", d->name,
		fusion_error());
	show_log(d);
	return false;
}

/* Did it end by itself, and well? */
static bool daemon_stop(struct daemon *d) {
	time_t end = time(NULL) + STOP_SECONDS;
	int status = 0;
	pid_t gone;

	if (d->pid <= 0)
		return true;
	kill(d->pid, SIGTERM);
	do {
		gone = waitpid(d->pid, &status, WNOHANG);
		if (!gone)
			usleep(POLL_US);
	} while (!gone && time(NULL) < end);
	if (!gone) {
		kill(d->pid, SIGKILL);
		waitpid(d->pid, &status, 0);
	}
	d->pid = 0;
	return gone > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool folder_make(void) {
	const char *base = getenv("TMPDIR");

	/* The path of a socket is short, so a long TMPDIR is passed over. */
	snprintf(folder, sizeof folder, "%s/fusion-graphs-XXXXXX", base && strlen(base) < 30 ? base : "/tmp");
	return mkdtemp(folder) != NULL;
}

/* ---- what failed ---- */

struct report {
	const struct text *text;
	unsigned failures;
	char line[LINE_TEXT]; /* the first failure */
};

static void fail(struct report *r, const char *format, ...) FAULT_PRINTF(2, 3);

static void fail(struct report *r, const char *format, ...) {
	va_list ap;

	if (r->failures++)
		return;
	va_start(ap, format);
	vsnprintf(r->line, sizeof r->line, format, ap);
	va_end(ap);
}

/* ---- one graph, run one way ---- */

struct result {
	enum dtype dtype;
	int64_t elements;
	struct tensor_type type;
	char *memory;
};

/* A way to run a graph, and what came of it. */
struct variant {
	const char *name;
	struct daemon *daemon;
	enum fusion_switch fusion;
	const char *off;       /* the name of a pattern */
	const char *knobs;     /* fusion.knobs, or NULL */
	struct fault fault;    /* code 0: it ran */
	struct result *result; /* of each output */
	cJSON *plan;           /* EXPLAIN's answer */
	double launched;       /* kernels */
	double counted;        /* those that it would have needed without fusion, as statistics have it */
	double operations, reductions; /* that it computed, as these have it */
};

static int read_result(struct result *r, fusion_array *a, struct fault *f) {
	size_t bytes = fusion_bytes(a);

	r->dtype = (enum dtype)fusion_dtype_of(a);
	r->elements = fusion_elements(a);
	r->type = (struct tensor_type){ .dtype = (uint8_t)r->dtype, .rank = (uint8_t)fusion_rank(a) };
	memcpy(r->type.dims, fusion_dims(a), r->type.rank * sizeof *r->type.dims);
	r->memory = malloc(bytes + 1);
	if (!r->memory)
		return fault_set(f, FAULT_MEMORY, "no memory for %zu bytes", bytes);
	return fusion_read(a, r->memory, bytes) ? text_library_fault(f) : 0;
}

static int ask_plan(struct variant *v, fusion_context *c, const struct text *t, fusion_array **output) {
	char *json = fusion_explain(c, (int)t->outputs, output, false);

	if (!json)
		return text_library_fault(&v->fault);
	v->plan = cJSON_Parse(json);
	free(json);
	return v->plan ? 0 : fault_set(&v->fault, FAULT_PROTOCOL, "EXPLAIN's answer is no JSON");
}

static int ask_launched(struct variant *v, fusion_context *c) {
	char *json = fusion_stats(c, false);
	cJSON *stats = json ? cJSON_Parse(json) : NULL;
	const cJSON *launched = cJSON_GetObjectItemCaseSensitive(stats, "kernels_launched");
	const cJSON *unfused = cJSON_GetObjectItemCaseSensitive(stats, "kernels_unfused");
	int r = 0;

	if (!json)
		r = text_library_fault(&v->fault);
	else if (!cJSON_IsNumber(launched) || !cJSON_IsNumber(unfused))
		r = fault_set(&v->fault, FAULT_PROTOCOL, "STATS tells no kernels_launched, or no kernels_unfused");
	else
		v->launched = launched->valuedouble;
	v->counted = cJSON_GetNumberValue(unfused);
	v->operations = cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(stats, "operations_executed"));
	v->reductions = cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(stats, "reductions"));
	cJSON_Delete(stats);
	free(json);
	return r;
}

/*
 * A kernel that no compiler takes is cut in two, and nobody else would see it. Of the main daemon alone: it builds kernels as they are
 * for each graph.
 */
static int check_built(struct variant *v, fusion_context *c) {
	char *json = fusion_stats(c, true);
	cJSON *stats = json ? cJSON_Parse(json) : NULL;
	const cJSON *device = cJSON_GetObjectItemCaseSensitive(stats, "device");
	double count = cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(device, "programs_failed"));
	int r = 0;

	if (!json)
		r = text_library_fault(&v->fault);
	else if (!(count >= 0))
		r = fault_set(&v->fault, FAULT_PROTOCOL, "STATS tells no programs_failed");
	else if (count > v->daemon->refused && v->daemon == &daemons[main_daemon])
		r = fault_set(&v->fault, FAULT_BUILD, "%.0f of its kernels could not be built", count - v->daemon->refused);
	if (count >= 0)
		v->daemon->refused = count;
	cJSON_Delete(stats);
	free(json);
	return r;
}

/* What is told of it now, when it has run, is what was told before. */
static int check_told(struct variant *v, const struct explained *before, fusion_context *c, const struct text *t, fusion_array **output) {
	int r;

	if (!t->outputs)
		return 0;
	r = explained_again(before, c, t, output, "after it ran", &v->fault);
	return r ? r : explained_recorded(before, c, t, &v->fault);
}

static int run_told(struct variant *v, struct explained *before, fusion_context *c, const struct text *t, fusion_array **output) {
	int r = t->outputs ? ask_plan(v, c, t, output) : 0;

	/* Counted before the reads, which copy results that are views. */
	if (!r && t->outputs && fusion_wait(output[0]))
		r = text_library_fault(&v->fault);
	if (!r)
		r = ask_launched(v, c);
	for (unsigned i = 0; !r && i < t->outputs; i++)
		r = read_result(&v->result[i], output[i], &v->fault);
	if (!r)
		r = check_told(v, before, c, t, output);
	return r ? r : check_built(v, c);
}

static int run_outputs(struct variant *v, fusion_context *c, const struct text *t, fusion_array **output) {
	struct explained before = { 0 };
	int r = t->outputs ? explained_arrays(&before, c, t, output, &v->fault) : 0;

	if (!r)
		r = run_told(v, &before, c, t, output);
	explained_free(&before);
	return r;
}

static void allow_rounding(fusion_context *c) {
	if (fusion_configure(c, "fusion.fast", "yes"))
		fprintf(stderr, "run_graphs: %s\n", fusion_error());
}

static void turn_knobs(fusion_context *c, const char *knobs) {
	if (fusion_configure(c, "fusion.knobs", knobs))
		fprintf(stderr, "run_graphs: %s\n", fusion_error());
}

/* Where it fails, the plan shows it. */
static void switch_off(fusion_context *c, const char *pattern) {
	char name[LINE_TEXT];

	snprintf(name, sizeof name, "fusion.pattern.%s", pattern);
	if (fusion_configure(c, name, "off"))
		fprintf(stderr, "run_graphs: %s\n", fusion_error());
}

/* Leaves what happened in v; a fault is a result too. */
static void variant_run(struct variant *v, const struct text *t) {
	fusion_array **output = calloc(t->outputs + 1, sizeof *output);
	fusion_context *c = daemon_open(v->daemon, v->fusion);
	int r;

	v->result = calloc(t->outputs + 1, sizeof *v->result);
	if (!c || !output || !v->result)
		r = c ? fault_set(&v->fault, FAULT_MEMORY, "no memory") : text_library_fault(&v->fault);
	else
		r = text_record(t, c, output, &v->fault);
	/* Patterns of the graph's own are there from then on, and nothing of it has run. */
	if (!r && fast)
		allow_rounding(c);
	if (!r && v->off)
		switch_off(c, v->off);
	if (!r && v->knobs)
		turn_knobs(c, v->knobs);
	if (!r)
		r = run_outputs(v, c, t, output);
	if (r < 0)
		fault_set(&v->fault, FAULT_MEMORY, "%s", strerror(-r));
	for (unsigned i = 0; output && i < t->outputs; i++)
		fusion_release(output[i]);
	fusion_close(c);
	free(output);
}

static void variant_free(struct variant *v, const struct text *t) {
	for (unsigned i = 0; v->result && i < t->outputs; i++)
		free(v->result[i].memory);
	free(v->result);
	cJSON_Delete(v->plan);
}

/* ---- comparing ---- */

/* Element i of an array of r's type that lies at memory. */
static const char *element_at(const struct result *r, const char *memory, int64_t i) {
	return memory + (size_t)i * dtype_info(r->dtype)->bytes;
}

static bool near(const struct result *r, const void *got, const void *want, double tolerance) {
	double g = element_to_double(r->dtype, got), w = element_to_double(r->dtype, want);

	return isfinite(g) && isfinite(w) && fabs(g - w) <= tolerance * fmax(1, fabs(w));
}

/* want holds as many elements; says which element differs first. */
static void compare(struct report *report, const char *what, const struct lex_token *name,
	const struct result *r, const char *want, double tolerance) {
	char a[ELEMENT_TEXT], b[ELEMENT_TEXT];
	int64_t differ = 0, first = 0;

	for (int64_t i = 0; i < r->elements; i++) {
		const char *g = element_at(r, r->memory, i), *w = element_at(r, want, i);

		if (element_equal(r->dtype, g, w) || (tolerance > 0 && near(r, g, w, tolerance)))
			continue;
		first = differ ? first : i;
		differ++;
	}
	if (differ)
		fail(report, "%s: %lld of %lld elements of %.*s differ; element %lld is %s, not %s", what,
			(long long)differ, (long long)r->elements, (int)name->length, name->text,
			(long long)first, element_print(r->dtype, element_at(r, r->memory, first), a),
			element_print(r->dtype, element_at(r, want, first), b));
}

static void compare_variants(struct report *report, const struct variant *a, const struct variant *b) {
	const struct text *t = report->text;
	char what[LINE_TEXT];

	if (a->fault.code != b->fault.code) {
		fail(report, "%s: %s, but %s: %s", a->name, a->fault.code ? a->fault.text : "it ran", b->name,
			b->fault.code ? b->fault.text : "it ran");
		return;
	}
	snprintf(what, sizeof what, "%s, compared with %s", b->name, a->name);
	for (unsigned i = 0; !a->fault.code && i < t->outputs; i++)
		compare(report, what, &t->statement[t->output[i]].name, &b->result[i], a->result[i].memory,
			0);
}

/* ---- expectations ---- */

static const struct result *result_of(const struct text *t, const struct variant *v, int statement) {
	unsigned i = 0;

	while (t->output[i] != statement)
		i++;
	return &v->result[i];
}

static void expect_values(struct report *report, const struct text_expectation *e, const struct variant *v) {
	const struct text *t = report->text;
	const struct result *r = result_of(t, v, e->statement);
	char *want = malloc((size_t)shape_bytes(&r->type) + 1);
	struct fault f;

	if (!want)
		fail(report, "no memory");
	else if (values_write(&e->values, t->path, r->dtype, r->elements, want, &f))
		fail(report, "%s", f.text);
	else
		compare(report, v->name, &t->statement[e->statement].name, r, want, e->tolerance);
	free(want);
}

static void expect_type(struct report *report, const struct text_expectation *e, const struct variant *v) {
	const struct result *r = result_of(report->text, v, e->statement);
	char a[SHAPE_TEXT], b[SHAPE_TEXT];

	if (!shape_equal(&r->type, &e->type))
		fail(report, "%s: %.*s is %s, not %s", v->name,
			(int)report->text->statement[e->statement].name.length,
			report->text->statement[e->statement].name.text, shape_text(&r->type, a),
			shape_text(&e->type, b));
}

static bool values_only; /* --values */

static int kernel_count(const struct variant *v) {
	return cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(v->plan, "kernels"));
}

static void expect_kernels(struct report *report, const struct text_expectation *e, const struct variant *v) {
	if (kernel_count(v) != e->number)
		fail(report, "%s: %d kernels, not %lld", v->name, kernel_count(v), (long long)e->number);
}

/* The operations of a kernel, as "add relu"; returns text. */
static char *kernel_operations(const struct variant *v, int number, char text[static LINE_TEXT]) {
	const cJSON *kernels = cJSON_GetObjectItemCaseSensitive(v->plan, "kernels"), *one;
	size_t used = 0;

	*text = '\0';
	cJSON_ArrayForEach(
		one, cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(kernels, number), "operations")) {
		const char *op = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(one, "op"));

		if (used < LINE_TEXT)
			used += (size_t)snprintf(
				text + used, LINE_TEXT - used, "%s%s", used ? " " : "", op ? op : "?");
	}
	return text;
}

static int compare_words(const void *a, const void *b) {
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The words of a text in the order of the alphabet; the planner may order independent operations as it likes.
 */
static void sort_words(char text[static LINE_TEXT]) {
	char copy[LINE_TEXT], *word[LINE_TEXT / 2], *rest = copy;
	size_t words = 0, used = 0;

	strcpy(copy, text);
	while ((word[words] = strtok_r(words ? NULL : copy, " ", &rest)))
		words++;
	qsort(word, words, sizeof *word, compare_words);
	for (size_t i = 0; i < words; i++)
		used += (size_t)sprintf(text + used, "%s%s", i ? " " : "", word[i]);
}

static void expect_kernel(struct report *report, const struct text_expectation *e, const struct variant *v) {
	char want[LINE_TEXT] = "", got[LINE_TEXT];
	size_t used = 0;

	if (e->number > kernel_count(v)) {
		fail(report, "%s: kernel %lld is expected of %d", v->name, (long long)e->number,
			kernel_count(v));
		return;
	}
	for (unsigned i = 0; i < e->ops && used < sizeof want; i++)
		used += (size_t)snprintf(want + used, sizeof want - used, "%s%s", i ? " " : "",
			op_info((unsigned)e->op[i])->name);
	kernel_operations(v, (int)e->number - 1, got);
	sort_words(want);
	sort_words(got);
	if (strcmp(want, got) != 0)
		fail(report, "%s: kernel %lld computes: %s; expected: %s", v->name, (long long)e->number, got,
			want);
}

static const cJSON *kernel_item(const struct variant *v, int number, const char *name) {
	const cJSON *kernels = cJSON_GetObjectItemCaseSensitive(v->plan, "kernels");

	return cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(kernels, number), name);
}

/* The built-in pattern; "" for a single operation, and beyond the last kernel. */
static const char *kernel_pattern(const struct variant *v, int number) {
	const char *name = cJSON_GetStringValue(kernel_item(v, number, "pattern"));

	return name ? name : "";
}

/* Is a kernel of a pattern, built in or of the graph's own? */
static bool kernel_is_of(const struct variant *v, int number, const char *pattern, size_t length) {
	const cJSON *one;

	if (strlen(kernel_pattern(v, number)) == length && !memcmp(kernel_pattern(v, number), pattern, length))
		return true;
	cJSON_ArrayForEach(one, kernel_item(v, number, "named")) {
		const char *name = cJSON_GetStringValue(one);

		if (name && strlen(name) == length && !memcmp(name, pattern, length))
			return true;
	}
	return false;
}

static void expect_pattern(struct report *report, const struct text_expectation *e, const struct variant *v) {
	if (!kernel_is_of(v, (int)e->number - 1, e->named.text, e->named.length))
		fail(report, "%s: kernel %lld is of the pattern '%s', not %.*s", v->name, (long long)e->number,
			kernel_pattern(v, (int)e->number - 1), (int)e->named.length, e->named.text);
}

static const struct text_expectation *expected_error(const struct text *t) {
	for (unsigned i = 0; i < t->expectations; i++)
		if (t->expectation[i].kind == TEXT_ERROR)
			return &t->expectation[i];
	return NULL;
}

static void check_error(struct report *report, const struct variant *v) {
	const struct text_expectation *e = expected_error(report->text);
	char part[LIMIT_SENTENCE];

	if (!e && v->fault.code) {
		fail(report, "%s: %s: %s", v->name, fault_name(v->fault.code), v->fault.text);
		return;
	}
	if (!e)
		return;
	snprintf(part, sizeof part, "%.*s", (int)e->token.length, e->token.text ? e->token.text : "");
	if (v->fault.code != e->code)
		fail(report, "%s: the error is %s (%s), not %s", v->name, fault_name(v->fault.code),
			v->fault.code ? v->fault.text : "it ran", fault_name(e->code));
	else if (!strstr(v->fault.text, part))
		fail(report, "%s: the sentence lacks \"%s\": %s", v->name, part, v->fault.text);
}

static void check_launches(struct report *report, const struct variant *v) {
	if (!v->fault.code && v->plan && v->launched != kernel_count(v))
		fail(report, "%s: %d kernels are explained, %.0f were launched", v->name, kernel_count(v),
			v->launched);
}

/* "Without fusion" is what explain and statistics say, never fewer kernels than with it, and what EXPLAIN's plan without fusion has. */
static void check_unfused(struct report *report, const struct variant *v, const struct variant *unfused) {
	int told = (int)cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(v->plan, "unfused_kernel_count"));

	if (v->fault.code || !v->plan)
		return;
	if (told < kernel_count(v))
		fail(report, "%s: %d kernels, only %d without fusion", v->name, kernel_count(v), told);
	if (v->counted != told)
		fail(report, "%s: %d kernels without fusion are explained, %.0f were counted", v->name, told, v->counted);
	if (unfused && (v->operations != unfused->operations || v->reductions != unfused->reductions))
		fail(report, "%s: %.0f operations and %.0f reductions were counted, %.0f and %.0f without fusion", v->name, v->operations, v->reductions,
			unfused->operations, unfused->reductions);
	if (unfused && told != kernel_count(unfused))
		fail(report, "%s: %d kernels without fusion are explained, %d are there", v->name, told, kernel_count(unfused));
}

/* Plans are expected of the CPU's kernels; values of every way to run. */
static void check_expectations(struct report *report, const struct variant *v) {
	bool cpu = v->daemon != &daemons[GPU] && !values_only, unfused = v->fusion == FUSION_OFF;

	check_error(report, v);
	for (unsigned i = 0; !v->fault.code && i < report->text->expectations; i++) {
		const struct text_expectation *e = &report->text->expectation[i];

		if (e->kind == TEXT_VALUES)
			expect_values(report, e, v);
		else if (e->kind == TEXT_TYPE)
			expect_type(report, e, v);
		else if (e->kind == TEXT_KERNELS && cpu && e->unfused == unfused)
			expect_kernels(report, e, v);
		else if (e->kind == TEXT_KERNEL && cpu && e->unfused == unfused)
			expect_kernel(report, e, v);
		else if (e->kind == TEXT_PATTERN && cpu && !unfused)
			expect_pattern(report, e, v);
	}
	check_launches(report, v);
}

/* ---- files ---- */

static unsigned passed, failed, on_gpu, fused_built, all_built;

static const char *base_name(const char *path) {
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static void print_report(const char *path, const struct report *r, const struct variant *v) {
	const char *name = base_name(path);

	if (r->failures)
		printf("FAIL  %s: %s%s\n", name, r->line, r->failures > 1 ? " (and more)" : "");
	else if (v && v[0].plan)
		printf("ok    %s: %d kernels, unfused %d\n", name, kernel_count(&v[0]), kernel_count(&v[1]));
	else
		printf("ok    %s\n", name);
	fflush(stdout);
	if (r->failures)
		failed++;
	else
		passed++;
}

/* Who runs the graph: kernels of CPUs are built only where it is in that part of the slice. */
static struct daemon *daemon_of(unsigned parts) {
	unsigned i = !main_daemon && !fast && !slice_part(passed + failed, parts) ? INTERPRETED : main_daemon;

	return &daemons[i];
}

static struct daemon *fused_daemon(void) {
	return daemon_of(FUSED_OF);
}

/* In other ways than fused. */
static struct daemon *other_daemon(void) {
	return daemon_of(BUILT_OF);
}

/* The same bits without the pattern, and no kernel of it. */
static void run_without(struct report *report, const struct variant *fused, const char *pattern) {
	char name[LINE_TEXT];
	struct variant v = { .name = name, .daemon = other_daemon(), .fusion = FUSION_ON, .off = pattern };

	snprintf(name, sizeof name, "without %s", pattern);
	variant_run(&v, report->text);
	check_error(report, &v);
	check_launches(report, &v);
	for (int i = 0; !v.fault.code && i < kernel_count(&v); i++)
		if (kernel_is_of(&v, i, pattern, strlen(pattern)))
			fail(report, "%s: kernel %d is of it", name, i + 1);
	compare_variants(report, fused, &v);
	variant_free(&v, report->text);
}

static void run_without_each(struct report *report, const struct variant *fused) {
	pattern_set tried = pattern_bit(PATTERN_NONE);

	for (int i = 0; !fused->fault.code && i < kernel_count(fused); i++) {
		enum pattern pattern = pattern_find(kernel_pattern(fused, i));

		if (tried & pattern_bit(pattern))
			continue;
		tried |= pattern_bit(pattern);
		run_without(report, fused, pattern_name(pattern));
	}
	for (unsigned i = 0; !fused->fault.code && i < report->text->patterns; i++) {
		const struct lex_token *s = &report->text->pattern[i].signature;
		char name[LINE_TEXT];

		snprintf(name, sizeof name, "%.*s", (int)s->length, s->text);
		name[strcspn(name, "(")] = '\0';
		run_without(report, fused, name);
	}
}

/* ---- knobs: no value of any changes a bit ---- */

static const struct turned {
	const char *knobs;
	bool gpu;
	bool builds;           /* other kernels: in the slice alone */
} turned[] = {
	{ "share=quarter tiles=quarter", false, false },
	{ "share=fourfold tiles=half stream=past hold=least beside=two", false, true },
	{ "stream=near hold=most beside=four", false, true },
	{ "beside=one", false, true },
	{ "tile=smaller", true, true },
	{ "tile=larger", true, true },
};

static void run_turned(struct report *report, const struct variant *fused, const struct turned *t) {
	char name[LINE_TEXT];
	struct variant v = { .name = name, .daemon = &daemons[t->gpu ? GPU : CPU], .fusion = FUSION_ON, .knobs = t->knobs };

	snprintf(name, sizeof name, "with %s", t->knobs);
	variant_run(&v, report->text);
	check_error(report, &v);
	compare_variants(report, fused, &v);
	variant_free(&v, report->text);
}

/* `gpu`: the graph runs with the kernels of GPUs, too. The slice of what is built moves on from knob to knob. */
static void run_turned_each(struct report *report, const struct variant *fused, bool gpu) {
	for (unsigned i = 0; !report->failures && i < sizeof turned / sizeof *turned; i++)
		if (turned[i].gpu ? gpu : !main_daemon && (!turned[i].builds || slice_has(passed + failed + i)))
			run_turned(report, fused, &turned[i]);
}

/* How many of the variants the next graph runs in: the last, of the kernels of GPUs, where it is in the slice. */
static size_t ways(size_t variants) {
	bool all = main_daemon || (!fast && slice_has(passed + failed));

	on_gpu += all;
	return all ? variants : variants - 1;
}

/* A device without doubles refuses them, and that is all there is to see. */
static bool is_beyond(const struct variant *v, const struct text *t) {
	return !expected_error(t) && v->fault.code == FAULT_DEVICE && strstr(v->fault.text, "the device does not compute in double precision");
}

static void run_text(const char *path, const struct text *t) {
	struct variant variants[] = {
		{ .name = "fused", .daemon = fused_daemon(), .fusion = FUSION_ON },
		{ .name = "unfused", .daemon = other_daemon(), .fusion = FUSION_OFF },
		{ .name = "fused for a GPU", .daemon = &daemons[GPU], .fusion = FUSION_ON },
	};
	struct report report = { .text = t };
	size_t count = ways(sizeof variants / sizeof *variants);

	fused_built += fused_daemon() == &daemons[main_daemon];
	all_built += other_daemon() == &daemons[main_daemon];
	for (size_t i = 0; i < count; i++)
		variant_run(&variants[i], t);
	if (is_beyond(&variants[0], t)) {
		printf("skipped %s: the device has no 64-bit floats\n", base_name(path));
		for (size_t i = 0; i < count; i++)
			variant_free(&variants[i], t);
		return;
	}
	for (size_t i = 0; i < count; i++)
		check_expectations(&report, &variants[i]);
	for (size_t i = 0; i < count; i++)
		check_unfused(&report, &variants[i], !strcmp(variants[i].daemon->strategy, variants[1].daemon->strategy) ? &variants[1] : NULL);
	for (size_t i = 1; !report.failures && i < count; i++)
		compare_variants(&report, &variants[0], &variants[i]);
	if (!report.failures)
		run_without_each(&report, &variants[0]);
	if (!report.failures && !variants[0].fault.code)
		run_turned_each(&report, &variants[0], count == sizeof variants / sizeof *variants);
	print_report(path, &report, variants);
	for (size_t i = 0; i < count; i++)
		variant_free(&variants[i], t);
}

static void run_file(const char *path) {
	struct report report = { 0 };
	struct text *t = NULL;
	struct fault f;
	const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	int r = text_load(path, &t, &f);

	fast = !strncmp(name, "fast_", 5);
	if (!r) {
		run_text(path, t);
	} else {
		fail(&report, "%s", r > 0 ? f.text : strerror(-r));
		print_report(path, &report, NULL);
	}
	text_free(t);
}

static int is_graph(const struct dirent *entry) {
	size_t length = strlen(entry->d_name);

	return length > 3 && !strcmp(entry->d_name + length - 3, ".fz");
}

static void run_folder(const char *path) {
	struct dirent **entry;
	int count = scandir(path, &entry, is_graph, alphasort);

	/* A folder without graphs is a mistake of the caller, not a success. */
	if (count <= 0) {
		printf("FAIL  %s: no graphs are here\n", path);
		failed++;
	}
	for (int i = 0; i < count; i++) {
		char file[PATH_TEXT];

		snprintf(file, sizeof file, "%s/%s", path, entry[i]->d_name);
		run_file(file);
		free(entry[i]);
	}
	if (count >= 0)
		free(entry);
}

static void run_arguments(char **argument) {
	for (; *argument; argument++) {
		struct stat s;

		if (!stat(*argument, &s) && S_ISDIR(s.st_mode))
			run_folder(*argument);
		else
			run_file(*argument);
	}
}

static bool read_seconds(const char *text) {
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	graph_seconds = (unsigned)n;
	return !*end && n > 0 && n <= GRAPH_SECONDS_MOST;
}

/* False where there is something else. */
static bool read_options(int argc, char **argv) {
	static const struct option options[] = { { "values", no_argument, NULL, 'v' }, { "gpu", no_argument, NULL, 'g' },
		{ "interpreted", no_argument, NULL, 'i' }, { "seconds", required_argument, NULL, 's' }, { NULL, 0, NULL, 0 } };
	bool known = true;
	int o;

	while (known && (o = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (o == 'v')
			values_only = true;
		else if (o == 'g')
			main_daemon = GPU;
		else if (o == 'i')
			daemons[CPU].interpreter = daemons[GPU].interpreter = "always";
		else
			known = o == 's' && read_seconds(optarg);
	}
	return known && argc - optind >= 2;
}

static bool is_needed(unsigned i) {
	return main_daemon ? i == main_daemon : i != INTERPRETED || !slice_is_all();
}

int main(int argc, char **argv) {
	bool ready = true;

	if (!read_options(argc, argv)) {
		fprintf(stderr, "usage: run_graphs [--values] [--gpu] [--interpreted] [--seconds=N] FUSIOND FILE.fz|FOLDER...\n");
		return 2;
	}
	argv += optind - 1;
	if (strlen(argv[1]) >= PATH_TEXT / 2) {
		fprintf(stderr, "run_graphs: the path of the daemon is too long\n");
		return 2;
	}
	if (!folder_make()) {
		perror("run_graphs: no temporary folder");
		return 1;
	}
	for (unsigned i = 0; ready && i < DAEMONS; i++)
		ready = !is_needed(i) || daemon_start(&daemons[i], argv[1]);
	for (unsigned i = 0; ready && i < DAEMONS; i++)
		ready = !is_needed(i) || daemon_wait(&daemons[i]);
	if (ready)
		run_arguments(argv + 2);
	failed += !ready;
	for (unsigned i = 0; i < DAEMONS; i++)
		if (!daemon_stop(&daemons[i])) {
			printf("FAIL  the daemon %s did not end well\n", daemons[i].name);
			show_log(&daemons[i]);
			failed++;
		}
	tree_remove(folder);
	printf("note: %u of them with the kernels of GPUs, %u with built kernels where they are fused, %u everywhere\n", on_gpu, fused_built,
		all_built);
	printf("%u passed, %u failed\n", passed, failed);
	return failed ? 1 : 0;
}
