/*
 * Networks that read digits: of two layers, or convolutional. Parameters are watched, so a step is the network forwards, its
 * loss, fusion_grad() and fusion_sgd(). Functions return 0, or -1 and leave what fusion_error() says.
 */
#pragma once

#include <stdint.h>

#include <fusion.h>

enum {
	NETWORK_PARAMETERS = 8,
	NETWORK_SIDE = 8,            /* of an image */
	NETWORK_PIXELS = NETWORK_SIDE * NETWORK_SIDE,
	NETWORK_DIGITS = 10,
	NETWORK_LARGEST = NETWORK_PIXELS * 128,     /* elements of a parameter */
};

struct network_kind {
	const char *name;
	double rate;                 /* at the beginning */
	unsigned parameters;
	struct {
		int rank;
		int64_t dims[4];     /* biases are of rank 1; of others all but the output's axis feed one output */
		unsigned output;
	} shape[NETWORK_PARAMETERS];
	fusion_array *(*scores)(fusion_array *const *parameter, fusion_array *image);
};

struct network {
	fusion_context *context;
	const struct network_kind *kind;
	fusion_array *parameter[NETWORK_PARAMETERS];
	fusion_array *velocity[NETWORK_PARAMETERS];
	fusion_array *loss;          /* sum over the steps of this epoch */
};

/* "layers" or "conv"; NULL: there is no such. */
const struct network_kind *network_find(const char *name);

int network_new(struct network *n, const struct network_kind *kind, fusion_context *c, uint64_t *random);
void network_free(struct network *n);
/* Records one step over rows of pixels in [0, 1] and their labels, i32; nothing is computed or awaited here. */
void network_learn(struct network *n, fusion_array *image, fusion_array *label, double rate);
/* A row of ten for each image; nothing of it is kept for gradients. */
fusion_array *network_read(struct network *n, fusion_array *image);

/* splitmix64 */
uint64_t random_bits(uint64_t *state);
