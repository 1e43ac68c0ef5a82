/*
 * Learns to write: a small transformer on text that the program makes itself.
 *
 * Sentences of a little grammar are cut into windows of characters; a network of an embedding, one block of causal
 * attention and a two-layer perceptron, with norms and residuals, learns to say the next character of each. Gradients are
 * fusion_grad()'s, steps fusion_adamw()'s. With --dump the first weights and all windows are written to a file, from which
 * transformer/peer.py trains the same in PyTorch, so that one can compare the losses.
 *
 * usage: transformer [--steps N] [--seed N] [--socket PATH] [--dump FILE]
 * Prints the loss of each step.
 */
#include <argp.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fusion.h>

enum {
	BATCH = 8,
	LENGTH = 32,                 /* of a window */
	WIDTH = 32,
	HEADS = 4,
	HEAD = WIDTH / HEADS,
	INNER = 4 * WIDTH,
	LETTERS = 32,                /* a to z, blank, full stop; the rest is unused */
	TEXT = 1 << 14,
	PARAMETERS = 14,
	STEPS = 100,
	STEPS_MOST = 1000000,
};

#define EPS 1e-5

enum parameter {
	TOKEN, PLACE, NORM1, BIAS1, QUERY, KEY, VALUE, OUT, NORM2, BIAS2, UP, DOWN, NORM3, HEADWEIGHT,
};

/* Weights are [out, in], as fusion_linear() takes them; spread 0: all ones, below: zeros. */
static const struct {
	int rank;
	int64_t dims[2];
	float spread;
} shape[PARAMETERS] = {
	[TOKEN] = { 2, { LETTERS, WIDTH }, 0.5f },
	[PLACE] = { 2, { LENGTH, WIDTH }, 0.5f },
	[NORM1] = { 1, { WIDTH }, 0 },
	[BIAS1] = { 1, { WIDTH }, -1 },
	[QUERY] = { 2, { WIDTH, WIDTH }, 0.2f },
	[KEY] = { 2, { WIDTH, WIDTH }, 0.2f },
	[VALUE] = { 2, { WIDTH, WIDTH }, 0.2f },
	[OUT] = { 2, { WIDTH, WIDTH }, 0.2f },
	[NORM2] = { 1, { WIDTH }, 0 },
	[BIAS2] = { 1, { WIDTH }, -1 },
	[UP] = { 2, { INNER, WIDTH }, 0.2f },
	[DOWN] = { 2, { WIDTH, INNER }, 0.1f },
	[NORM3] = { 1, { WIDTH }, 0 },
	[HEADWEIGHT] = { 2, { LETTERS, WIDTH }, 0.2f },
};

struct options {
	const char *socket, *dump;
	uint64_t seed;
	int steps;
};

struct learner {
	fusion_context *context;
	fusion_array *weight[PARAMETERS], *first[PARAMETERS], *second[PARAMETERS], *step;
	uint64_t random;
	char text[TEXT];
	FILE *dump;
};

/* ---- random numbers: splitmix64 ---- */

static uint64_t random_bits(uint64_t *state) {
	uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static float random_float(uint64_t *state, float limit) {
	return ((float)(random_bits(state) >> 40) * 0x1p-23f - 1.0f) * limit;
}

static const char *choose(uint64_t *state, const char *const *word, size_t count) {
	return word[random_bits(state) % count];
}

/* ---- the text ---- */

static size_t put(char *text, size_t at, const char *word, const char *after) {
	int n = at < TEXT ? snprintf(text + at, TEXT - at, "%s%s", word, after) : 0;

	return at + (size_t)n;
}

/* "the old cat sees a small bird. " */
static void write_text(char text[static TEXT], uint64_t *random) {
	static const char *const article[] = { "the", "a", "my", "no" };
	static const char *const kind[] = { "old", "small", "red", "quiet", "good" };
	static const char *const who[] = { "cat", "bird", "child", "river", "tree", "king" };
	static const char *const does[] = { "sees", "likes", "finds", "hears", "leaves" };
	size_t at = 0;

#define CHOOSE(list) choose(random, list, sizeof list / sizeof *(list))
	while (at < TEXT) {
		at = put(text, at, CHOOSE(article), " ");
		at = put(text, at, CHOOSE(kind), " ");
		at = put(text, at, CHOOSE(who), " ");
		at = put(text, at, CHOOSE(does), " ");
		at = put(text, at, CHOOSE(article), " ");
		at = put(text, at, CHOOSE(who), ". ");
	}
#undef CHOOSE
}

static int32_t letter(char c) {
	return c == ' ' ? 26 : c == '.' ? 27 : c - 'a';
}

/* Windows of the text, and the letters that follow each place. */
static int windows(struct learner *l, fusion_array **seenp, fusion_array **nextp) {
	static const int64_t dims[] = { BATCH, LENGTH };
	static int32_t seen[BATCH][LENGTH], next[BATCH][LENGTH];

	for (int b = 0; b < BATCH; b++) {
		const char *at = l->text + random_bits(&l->random) % (TEXT - LENGTH - 2);

		for (int i = 0; i < LENGTH; i++) {
			seen[b][i] = letter(at[i]);
			next[b][i] = letter(at[i + 1]);
		}
	}
	if (l->dump && (fwrite(seen, sizeof seen, 1, l->dump) != 1 || fwrite(next, sizeof next, 1, l->dump) != 1))
		return -1;
	*seenp = fusion_from(l->context, FUSION_I32, 2, dims, seen);
	*nextp = fusion_from(l->context, FUSION_I32, 2, dims, next);
	return *seenp && *nextp ? 0 : -1;
}

/* ---- the network ---- */

static fusion_array *norm(fusion_array *x, fusion_array *weight, fusion_array *bias) {
	return fusion_layer_norm(x, weight, bias, 1, (const int[]){ -1 }, EPS);
}

/* [batch, length, width] to [batch, heads, length, head] */
static fusion_array *heads(fusion_array *x, fusion_array *weight) {
	fusion_array *all = fusion_linear(x, weight, NULL);

	all = fusion_reshape(all, 4, (const int64_t[]){ BATCH, LENGTH, HEADS, HEAD });
	return fusion_permute(all, (const int[]){ 0, 2, 1, 3 });
}

static fusion_array *attend(fusion_array *const *w, fusion_array *x) {
	fusion_array *y = fusion_attention(heads(x, w[QUERY]), heads(x, w[KEY]), heads(x, w[VALUE]), NULL, 0, true);

	y = fusion_permute(y, (const int[]){ 0, 2, 1, 3 });
	return fusion_linear(fusion_reshape(y, 3, (const int64_t[]){ BATCH, LENGTH, WIDTH }), w[OUT], NULL);
}

/* The mean over all places of minus the logarithm of the right letter's share. */
static fusion_array *loss_of(fusion_array *const *w, fusion_array *seen, fusion_array *next) {
	fusion_array *x = fusion_add(fusion_embedding(w[TOKEN], seen), w[PLACE]), *score;

	x = fusion_add(x, attend(w, norm(x, w[NORM1], w[BIAS1])));
	x = fusion_add(x, fusion_linear(fusion_gelu(fusion_linear(norm(x, w[NORM2], w[BIAS2]), w[UP], NULL)), w[DOWN], NULL));
	score = fusion_linear(norm(x, w[NORM3], NULL), w[HEADWEIGHT], NULL);
	return fusion_mean(fusion_cross_entropy(score, next, 1, (const int[]){ -1 }), 0, NULL, false);
}

static int learner_new(struct learner *l) {
	static float value[LETTERS * INNER];

	for (int p = 0; p < PARAMETERS; p++) {
		int64_t n = shape[p].dims[0] * (shape[p].rank == 2 ? shape[p].dims[1] : 1);

		for (int64_t i = 0; i < n; i++)
			value[i] = shape[p].spread > 0 ? random_float(&l->random, shape[p].spread) : shape[p].spread < 0 ? 0.0f : 1.0f;
		if (l->dump && fwrite(value, sizeof *value, (size_t)n, l->dump) != (size_t)n)
			return -1;
		l->weight[p] = fusion_from(l->context, FUSION_F32, shape[p].rank, shape[p].dims, value);
		l->first[p] = fusion_full(l->context, FUSION_F32, shape[p].rank, shape[p].dims, 0);
		l->second[p] = fusion_full(l->context, FUSION_F32, shape[p].rank, shape[p].dims, 0);
		fusion_watch(l->weight[p]);
	}
	l->step = fusion_scalar(l->context, FUSION_F32, 0);
	return fusion_error_code() ? -1 : 0;
}

static void learner_free(struct learner *l) {
	for (int p = 0; p < PARAMETERS; p++) {
		fusion_release(l->weight[p]);
		fusion_release(l->first[p]);
		fusion_release(l->second[p]);
	}
	fusion_release(l->step);
}

static int learn(struct learner *l, float *valuep) {
	const struct fusion_adam_options options = { .rate = 1e-3, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .decay = 0.01 };
	fusion_array *seen, *next, *loss, *slope[PARAMETERS];
	int r;

	fusion_scope_begin(l->context);
	r = windows(l, &seen, &next);
	loss = r ? NULL : loss_of(l->weight, seen, next);
	if (!r)
		r = fusion_grad(loss, NULL, l->weight, PARAMETERS, slope);
	if (!r)
		r = fusion_adamw(PARAMETERS, l->weight, slope, l->first, l->second, l->step, &options, NULL);
	if (!r)
		r = fusion_read(loss, valuep, sizeof *valuep);
	fusion_scope_end(l->context);
	return r ? -1 : 0;
}

static int run(struct learner *l, const struct options *o) {
	int r;

	write_text(l->text, &l->random);
	r = learner_new(l);
	for (int i = 0; !r && i < o->steps; i++) {
		float loss;

		r = learn(l, &loss);
		if (!r)
			printf("%.9g\n", (double)loss);
	}
	learner_free(l);
	return r;
}

/* ---- options ---- */

static const struct argp_option option_table[] = {
	{ "steps", 'n', "N", 0, "Steps (100)", 0 },
	{ "seed", 's', "N", 0, "Of the text and the first weights (1)", 0 },
	{ "socket", 'S', "PATH", 0, "The daemon's socket", 0 },
	{ "dump", 'd', "FILE", 0, "Write the first weights and all windows, for transformer/peer.py", 0 },
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
	case 'n':
		o->steps = (int)parse_number(state, value, STEPS_MOST);
		return 0;
	case 's':
		o->seed = parse_number(state, value, UINT64_MAX);
		return 0;
	case 'S':
		o->socket = value;
		return 0;
	case 'd':
		o->dump = value;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int main(int argc, char **argv) {
	static const struct argp argp = {
		.options = option_table,
		.parser = parse,
		.doc = "Learns to write on fusiond.",
	};
	static struct learner l;
	struct options o = { .seed = 1, .steps = STEPS };
	struct fusion_options session = { .name = "transformer" };
	int r;

	if (argp_parse(&argp, argc, argv, 0, NULL, &o))
		return EXIT_FAILURE;
	l.random = o.seed;
	l.dump = o.dump ? fopen(o.dump, "wb") : NULL;
	if (o.dump && !l.dump) {
		perror(o.dump);
		return EXIT_FAILURE;
	}
	session.socket = o.socket;
	r = fusion_open(&l.context, &session);
	if (!r)
		r = run(&l, &o);
	if (r)
		fprintf(stderr, "transformer: %s\n", fusion_error_code() ? fusion_error() : "cannot write");
	if (l.dump && fclose(l.dump))
		r = -1;
	fusion_close(l.context);
	return r ? EXIT_FAILURE : EXIT_SUCCESS;
}
