/* See network.h. */
#include "network.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#define MOMENTUM 0.9
#define DECAY 1e-4

enum { HIDDEN = 128, CHANNELS1 = 16, CHANNELS2 = 32, POOLED = CHANNELS2 * NETWORK_PIXELS / 4 };

/* ---- random numbers ---- */

uint64_t random_bits(uint64_t *state) {
	uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/* Uniform in [-limit, limit). */
static float random_float(uint64_t *state, float limit) {
	return ((float)(random_bits(state) >> 40) * 0x1p-23f - 1.0f) * limit;
}

/* ---- the networks ---- */

static fusion_array *layers(fusion_array *const *w, fusion_array *image) {
	fusion_array *hidden = fusion_relu(fusion_add(fusion_matmul(image, w[0]), w[1]));

	return fusion_add(fusion_matmul(hidden, w[2]), w[3]);
}

static fusion_array *convolution(fusion_array *image, fusion_array *weight, fusion_array *bias) {
	static const int64_t one[] = { 1, 1 };

	return fusion_relu(fusion_conv(image, weight, bias, 2, one, one, one, 1));
}

static fusion_array *convolutional(fusion_array *const *w, fusion_array *image) {
	static const int64_t two[] = { 2, 2 }, none[] = { 0, 0 };
	fusion_array *x = fusion_reshape(image, 4, (const int64_t[]){ -1, 1, NETWORK_SIDE, NETWORK_SIDE });

	x = convolution(x, w[0], w[1]);
	x = convolution(x, w[2], w[3]);
	x = fusion_max_pool(x, 2, two, two, none);
	return fusion_linear(fusion_reshape(x, 2, (const int64_t[]){ -1, POOLED }), w[4], w[5]);
}

/*
 * Rates, found by trying: of held-out digits layers gets 97.5 % or more right with seeds 1 to 4 after 30 epochs (make
 * demo), conv 98.6 % with seed 1 after 15.
 */
static const struct network_kind kinds[] = {
	{ "layers", 0.1, 4,
		{ { 2, { NETWORK_PIXELS, HIDDEN }, 1 }, { 1, { HIDDEN }, 0 }, { 2, { HIDDEN, NETWORK_DIGITS }, 1 },
			{ 1, { NETWORK_DIGITS }, 0 } },
		layers },
	{ "conv", 0.05, 6,
		{ { 4, { CHANNELS1, 1, 3, 3 }, 0 }, { 1, { CHANNELS1 }, 0 }, { 4, { CHANNELS2, CHANNELS1, 3, 3 }, 0 },
			{ 1, { CHANNELS2 }, 0 }, { 2, { NETWORK_DIGITS, POOLED }, 0 }, { 1, { NETWORK_DIGITS }, 0 } },
		convolutional },
};

const struct network_kind *network_find(const char *name) {
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (!strcmp(kinds[i].name, name))
			return &kinds[i];
	return NULL;
}

/* Weights are uniform with the spread He et al. derive for relu; biases start at 0. */
static fusion_array *parameter_new(const struct network *n, unsigned p, uint64_t *random) {
	int rank = n->kind->shape[p].rank;
	const int64_t *dims = n->kind->shape[p].dims;
	int64_t elements = 1;
	float *value = NULL, spread;
	fusion_array *a;

	if (rank == 1)
		return fusion_full(n->context, FUSION_F32, rank, dims, 0);
	for (int d = 0; d < rank; d++)
		elements *= dims[d];
	spread = sqrtf(6.0f * (float)dims[n->kind->shape[p].output] / (float)elements);
	a = fusion_create(n->context, FUSION_F32, rank, dims, (void **)&value);
	for (int64_t i = 0; a && i < elements; i++)
		value[i] = random_float(random, spread);
	fusion_unmap(a);
	return a;
}

int network_new(struct network *n, const struct network_kind *kind, fusion_context *c, uint64_t *random) {
	n->context = c;
	n->kind = kind;
	for (unsigned p = 0; p < kind->parameters; p++) {
		n->parameter[p] = parameter_new(n, p, random);
		n->velocity[p] = fusion_full(c, FUSION_F32, kind->shape[p].rank, kind->shape[p].dims, 0);
		fusion_watch(n->parameter[p]);
	}
	n->loss = fusion_scalar(c, FUSION_F32, 0);
	return fusion_error_code() ? -1 : 0;
}

void network_free(struct network *n) {
	for (unsigned p = 0; p < NETWORK_PARAMETERS; p++) {
		fusion_release(n->parameter[p]);
		fusion_release(n->velocity[p]);
	}
	fusion_release(n->loss);
}

/* ---- learning ---- */

void network_learn(struct network *n, fusion_array *image, fusion_array *label, double rate) {
	const struct fusion_sgd_options options = { .rate = rate, .momentum = MOMENTUM, .decay = DECAY };
	fusion_array *slope[NETWORK_PARAMETERS];
	int count = (int)n->kind->parameters;
	fusion_array *score = n->kind->scores(n->parameter, image);
	fusion_array *loss = fusion_mean(fusion_cross_entropy(score, label, 1, (const int[]){ -1 }), 0, NULL, false);

	if (fusion_grad(loss, NULL, n->parameter, count, slope))
		return;
	fusion_sgd(count, n->parameter, slope, n->velocity, &options, NULL);
	fusion_copy_into(n->loss, fusion_add(n->loss, fusion_stop_gradient(loss)));
}

fusion_array *network_read(struct network *n, fusion_array *image) {
	fusion_array *score;

	fusion_no_grad_begin();
	score = n->kind->scores(n->parameter, image);
	fusion_no_grad_end();
	return score;
}
