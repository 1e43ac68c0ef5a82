/*
 * Two hundred graphs of different structures, such as programs have: of five, three are chains of ten elementwise
 * operations, one goes over rows, one is a product. Values stay far from overflow, so that results say something.
 */
#include "coldstart.h"

enum {
	/* Graphs of a kind differ in the digits of their number to this base: which functions they begin with. */
	FUNCTIONS = 8,
	KINDS = 5,
	KIND_ROWS = 3,
	KIND_PRODUCT = 4,
	CHAIN_PAIRS = 5,
	ROW_FORMS = 3,
};

typedef fusion_array *unary(fusion_array *a);
typedef fusion_array *binary(fusion_array *a, fusion_array *b);

static unary *const functions[FUNCTIONS] = { fusion_tanh, fusion_sigmoid, fusion_relu, fusion_abs, fusion_sin,
	fusion_cos, fusion_silu, fusion_neg };
static binary *const joins[] = { fusion_add, fusion_mul, fusion_sub, fusion_maximum };

static fusion_array *function_of(int number, int digit, fusion_array *a) {
	for (; digit; digit--)
		number /= FUNCTIONS;
	return functions[number % FUNCTIONS](a);
}

static fusion_array *chain(int number, const struct coldstart_inputs *in) {
	fusion_array *t = in->x;

	for (int i = 0; i < CHAIN_PAIRS; i++) {
		t = joins[(number + i) % (int)(sizeof joins / sizeof *joins)](t, in->y);
		t = function_of(number + i / 3, i % 3, t);
	}
	return t;
}

static fusion_array *rows(int number, const struct coldstart_inputs *in) {
	static const int last = -1;
	fusion_array *t = function_of(number, 0, fusion_add(in->x, in->y));

	switch (number % ROW_FORMS) {
	case 0:
		t = fusion_softmax(t, 1, &last);
		break;
	case 1:
		t = fusion_layer_norm(t, in->b, in->b, 1, &last, 1e-5);
		break;
	default:
		t = fusion_sub(t, fusion_mean(t, 1, &last, true));
	}
	return function_of(number, 1, fusion_mul(t, in->x));
}

static fusion_array *product(int number, const struct coldstart_inputs *in) {
	fusion_array *t = function_of(number, 0, fusion_linear(in->x, in->w, in->b));

	return function_of(number, 1, fusion_add(t, in->y));
}

fusion_array *coldstart_graph(int number, const struct coldstart_inputs *in) {
	switch (number % KINDS) {
	case KIND_ROWS:
		return rows(number / KINDS, in);
	case KIND_PRODUCT:
		return product(number / KINDS, in);
	default:
		/* Three kinds in one: their numbers are told apart here. */
		return chain(number / KINDS * KIND_ROWS + number % KINDS, in);
	}
}
