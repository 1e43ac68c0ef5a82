/*
 * Learns to read handwritten digits on the daemon, through libfusion alone.
 *
 * A network of two layers, 64 pixels to 128 hidden values to 10 digits, or a small convolutional one, is trained with
 * cross entropy and momentum; the gradients are fusion_grad()'s (digits/network.c). It shows how a client
 * keeps the daemon busy and its memory bounded:
 *
 *   - a step only records operations and flushes them; the one value read back is the loss, once
 *     an epoch;
 *   - what a step makes along the way lives in a scope, and only what is kept survives it. The
 *     scope ends before the flush: what nobody can ask for any more is not even stored;
 *   - images go into memory shared with the daemon (fusion_create), never through a message.
 *
 * The same seed gives the same weights, bit for bit, whether operations are fused or not and
 * whoever else uses the daemon; the program prints a hash of the weights so that one can check.
 *
 * usage: digits [--network layers|conv] [--seed N] [--epochs N] [--fusion on|off] [--socket PATH] [--data FILE]
 *               [--curve FILE.svg] [--json]
 */
#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <fusion.h>
#include "digits/curve.h"
#include "digits/network.h"

enum {
	PIXELS = NETWORK_PIXELS,
	DIGITS = NETWORK_DIGITS,
	BATCH = 64,
	ROWS = 1797,
	HELD_OUT_EVERY = 5,
	HELD = (ROWS + HELD_OUT_EVERY - 1) / HELD_OUT_EVERY,
	TRAIN = ROWS - HELD,
	STEPS = TRAIN / BATCH, /* in an epoch; the rest of the rows waits for the next shuffle */
	EPOCHS = 30,
	EPOCHS_MOST = 100000,
	BAR = 30,
	NAME_TEXT = 32,
};

#define INK 16.0f

struct row {
	uint8_t pixel[PIXELS];
	uint8_t label;
};

struct digits {
	struct row train[TRAIN];
	struct row held[HELD];
};

struct options {
	const char *socket;
	const char *data;
	const char *curve;
	const struct network_kind *network;
	enum fusion_switch fusion;
	uint64_t seed;
	int epochs;
	bool json;
};

struct result {
	double accuracy, loss;
	uint64_t hash;
	double seconds;  /* from connecting to the end */
	double epoch_ms; /* median of all epochs */
	double *losses;  /* of each epoch */
};

static double now(void) {
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void shuffle(int *order, int n, uint64_t *state) {
	for (int i = n - 1; i > 0; i--) {
		int j = (int)(random_bits(state) % (uint64_t)(i + 1));
		int swap = order[i];

		order[i] = order[j];
		order[j] = swap;
	}
}

/* ---- the data ---- */

/* The file of the source tree this program was built in, where none is named. */
static const char *data_path(const char *named, char path[static PATH_MAX]) {
	static const char tail[] = "/../client/examples/digits/digits.bin";
	ssize_t n;
	char *slash;

	if (named)
		return named;
	n = readlink("/proc/self/exe", path, PATH_MAX - sizeof tail);
	path[n > 0 ? n : 0] = '\0';
	slash = strrchr(path, '/');
	memcpy(slash ? slash : path, tail, sizeof tail);
	return path;
}

static bool row_valid(const struct row *r) {
	for (int i = 0; i < PIXELS; i++)
		if (r->pixel[i] > INK)
			return false;
	return r->label < DIGITS;
}

/* Every fifth row is held out. */
static int digits_load(struct digits *d, const char *named) {
	char path[PATH_MAX];
	const char *name = data_path(named, path);
	FILE *file = fopen(name, "rb");
	struct row r;
	int i;

	if (!file) {
		fprintf(stderr, "digits: cannot open %s: %s\n", name, strerror(errno));
		return -1;
	}
	for (i = 0; i < ROWS && fread(&r, sizeof r, 1, file) == 1 && row_valid(&r); i++) {
		if (i % HELD_OUT_EVERY == 0)
			d->held[i / HELD_OUT_EVERY] = r;
		else
			d->train[i - i / HELD_OUT_EVERY - 1] = r;
	}
	fclose(file);
	if (i < ROWS) {
		fprintf(stderr, "digits: %s: row %d is missing or no digit\n", name, i + 1);
		return -1;
	}
	return 0;
}

/* Rows as arrays: images n x 64 in [0, 1], and their labels. */
static int digits_arrays(fusion_context *c, const struct row *row, const int *order, int n,
	fusion_array **imagesp, fusion_array **labelsp) {
	float *image = NULL;
	int32_t *label = NULL;

	*imagesp = fusion_create(c, FUSION_F32, 2, (const int64_t[]){ n, PIXELS }, (void **)&image);
	*labelsp = fusion_create(c, FUSION_I32, 1, (const int64_t[]){ n }, (void **)&label);
	if (!*imagesp || !*labelsp)
		return -1;
	for (int i = 0; i < n; i++) {
		const struct row *r = &row[order ? order[i] : i];

		for (int j = 0; j < PIXELS; j++)
			image[i * PIXELS + j] = (float)r->pixel[j] / INK;
		label[i] = r->label;
	}
	return fusion_unmap(*imagesp) || fusion_unmap(*labelsp) ? -1 : 0;
}

/* ---- learning ---- */

static fusion_array *minibatch(fusion_array *rows, int step) {
	const int64_t start[] = { (int64_t)step * BATCH, 0 };   /* rows of pixels, or labels */
	const int64_t stop[] = { (int64_t)(step + 1) * BATCH, FUSION_END };

	return fusion_slice(rows, start, stop, NULL);
}

/* One pass over the rows in a new order; *lossp is the mean over its steps. */
static int epoch(
	struct network *n, const struct digits *d, int *order, double rate, uint64_t *random, double *lossp) {
	fusion_context *c = n->context;
	fusion_array *images, *labels;
	float loss = 0;
	int r;

	shuffle(order, TRAIN, random);
	r = digits_arrays(c, d->train, order, TRAIN, &images, &labels);
	for (int step = 0; !r && step < STEPS; step++) {
		fusion_scope_begin(c);
		network_learn(n, minibatch(images, step), minibatch(labels, step), rate);
		fusion_scope_end(c);
		r = fusion_error_code() ? -1 : fusion_flush(c);
	}
	fusion_release(images);
	fusion_release(labels);
	if (!r)
		r = fusion_read(n->loss, &loss, sizeof loss);
	*lossp = (double)loss / STEPS;
	fusion_release(n->loss);
	n->loss = fusion_scalar(c, FUSION_F32, 0);
	return r || !n->loss ? -1 : 0;
}

static int best(const float *score) {
	int found = 0;

	for (int i = 1; i < DIGITS; i++)
		if (score[i] > score[found])
			found = i;
	return found;
}

/* The share of held-out digits that the network reads right. */
static int judge(struct network *n, const struct digits *d, double *accuracyp) {
	static float score[HELD][DIGITS];
	fusion_array *images, *labels;
	int right = 0;
	int r;

	fusion_scope_begin(n->context);
	r = digits_arrays(n->context, d->held, NULL, HELD, &images, &labels);
	if (!r)
		r = fusion_read(network_read(n, images), score, sizeof score);
	fusion_scope_end(n->context);
	for (int i = 0; i < HELD; i++)
		right += best(score[i]) == d->held[i].label;
	*accuracyp = (double)right / HELD;
	return r;
}

/* FNV-1a over the bits of the parameters. */
static int fingerprint(struct network *n, uint64_t *hashp) {
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	static float value[NETWORK_LARGEST];

	for (unsigned p = 0; p < n->kind->parameters; p++) {
		size_t bytes = fusion_bytes(n->parameter[p]);

		if (bytes > sizeof value || fusion_read(n->parameter[p], value, bytes))
			return -1;
		for (size_t i = 0; i < bytes; i++)
			hash = (hash ^ ((const uint8_t *)value)[i]) * UINT64_C(0x100000001b3);
	}
	*hashp = hash;
	return 0;
}

/* ---- what the user sees ---- */

static void show_epoch(const struct options *o, int done, double loss) {
	static const char full[] = "##############################";
	bool terminal = isatty(STDOUT_FILENO);
	int filled = BAR * done / o->epochs;

	if (o->json)
		printf("{\"epoch\": %d, \"epochs\": %d, \"loss\": %.6f}\n", done, o->epochs, loss);
	else if (terminal)
		printf("\r\033[K[%.*s%*s] epoch %d of %d, loss %.4f%s", filled, full, BAR - filled, "", done,
			o->epochs, loss, done == o->epochs ? "\n" : "");
	else
		printf("epoch %d of %d, loss %.4f\n", done, o->epochs, loss);
	fflush(stdout);
}

/* One line of JSON in either form: the figures, and the daemon's counters of this session. */
static int show_result(fusion_context *c, const struct options *o, const struct result *r) {
	char *stats = fusion_stats(c, false);

	if (!stats)
		return -1;
	if (!o->json)
		printf("%.2f %% of %d held-out digits are read right, loss %.4f, %.2f s, weights %016llx\n",
			100 * r->accuracy, HELD, r->loss, r->seconds, (unsigned long long)r->hash);
	printf("{\"seed\": %llu, \"accuracy\": %.6f, \"loss\": %.6f, \"weights\": \"%016llx\", ",
		(unsigned long long)o->seed, r->accuracy, r->loss, (unsigned long long)r->hash);
	printf("\"seconds\": %.4f, \"epoch_ms\": %.3f, \"epochs\": %d, \"steps\": %d, \"stats\": %s}\n",
		r->seconds, r->epoch_ms, o->epochs, STEPS * o->epochs, stats);
	free(stats);
	return 0;
}

static int compare_doubles(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *value, int n) {
	qsort(value, (size_t)n, sizeof *value, compare_doubles);
	return value[n / 2];
}

/* The rate falls along a half cosine, to 0. */
static int train(struct network *n, const struct digits *d, const struct options *o, uint64_t *random,
	struct result *result) {
	double *time = calloc((size_t)o->epochs, sizeof *time);
	static int order[TRAIN];
	int r = time ? 0 : -1;

	for (int i = 0; i < TRAIN; i++)
		order[i] = i;
	for (int e = 0; !r && e < o->epochs; e++) {
		double rate = n->kind->rate * 0.5 * (1 + cos(M_PI * e / o->epochs));
		double start = now();

		r = epoch(n, d, order, rate, random, &result->loss);
		time[e] = 1e3 * (now() - start);
		result->losses[e] = result->loss;
		if (!r)
			show_epoch(o, e + 1, result->loss);
	}
	if (!r)
		result->epoch_ms = median(time, o->epochs);
	free(time);
	return r;
}

static int run(fusion_context *c, const struct digits *d, const struct options *o, double start) {
	struct network n = { .context = c };
	struct result result = { .seconds = 0 };
	uint64_t random = o->seed;
	int r = network_new(&n, o->network, c, &random);

	result.losses = calloc((size_t)o->epochs, sizeof *result.losses);
	if (!result.losses)
		r = -1;
	if (!r)
		r = train(&n, d, o, &random, &result);
	if (!r)
		r = judge(&n, d, &result.accuracy);
	if (!r)
		r = fingerprint(&n, &result.hash);
	result.seconds = now() - start;
	if (!r)
		r = show_result(c, o, &result);
	if (!r && o->curve)
		r = curve_write(o->curve, o->network->name, result.losses, o->epochs, result.accuracy);
	free(result.losses);
	network_free(&n);
	return r;
}

/* ---- options ---- */

static const struct argp_option option_table[] = {
	{ "seed", 's', "N", 0, "Of the first weights and the order of the rows (1)", 0 },
	{ "epochs", 'e', "N", 0, "Passes over the rows (30)", 0 },
	{ "fusion", 'f', "on|off", 0, "Let the daemon fuse operations, or not (as it is configured)", 0 },
	{ "socket", 'S', "PATH", 0, "The daemon's socket", 0 },
	{ "data", 'd', "FILE", 0, "The digits (digits.bin of the source tree)", 0 },
	{ "network", 'n', "layers|conv", 0, "Two layers, or two convolutions and one (layers)", 0 },
	{ "curve", 'c', "FILE", 0, "Draw the loss of each epoch into this file, an SVG picture", 0 },
	{ "json", 'j', NULL, 0, "One line of JSON an epoch, and one at the end", 0 },
	{ 0 },
};

static uint64_t parse_number(struct argp_state *state, const char *text, uint64_t most) {
	char *end;
	unsigned long long n = strtoull(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || n > most)
		argp_error(state, "%s is not a number up to %llu", text, (unsigned long long)most);
	return n;
}

static error_t parse(int key, char *value, struct argp_state *state) {
	struct options *o = state->input;

	switch (key) {
	case 's':
		o->seed = parse_number(state, value, UINT64_MAX);
		return 0;
	case 'e':
		o->epochs = (int)parse_number(state, value, EPOCHS_MOST);
		if (!o->epochs)
			argp_error(state, "at least one epoch is needed");
		return 0;
	case 'f':
		if (strcmp(value, "on") != 0 && strcmp(value, "off") != 0)
			argp_error(state, "--fusion is on or off");
		o->fusion = strcmp(value, "on") == 0 ? FUSION_ON : FUSION_OFF;
		return 0;
	case 'n':
		o->network = network_find(value);
		if (!o->network)
			argp_error(state, "--network is layers or conv");
		return 0;
	case 'c':
		o->curve = value;
		return 0;
	case 'S':
		o->socket = value;
		return 0;
	case 'd':
		o->data = value;
		return 0;
	case 'j':
		o->json = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int main(int argc, char **argv) {
	static const struct argp argp = {
		.options = option_table,
		.parser = parse,
		.doc = "Learns to read handwritten digits on fusiond.",
	};
	static struct digits digits;
	struct options o = { .seed = 1, .epochs = EPOCHS, .network = network_find("layers") };
	struct fusion_options session = { .name = "digits" };
	fusion_context *context = NULL;
	double start;
	int r;

	if (argp_parse(&argp, argc, argv, 0, NULL, &o) || digits_load(&digits, o.data))
		return EXIT_FAILURE;
	session.socket = o.socket;
	session.fusion = o.fusion;
	start = now();
	r = fusion_open(&context, &session);
	if (!r)
		r = run(context, &digits, &o, start);
	if (r)
		fprintf(stderr, "digits: %s\n", fusion_error_code() ? fusion_error() : "out of memory");
	fusion_close(context);
	return r ? EXIT_FAILURE : EXIT_SUCCESS;
}
