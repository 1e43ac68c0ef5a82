/*
 * The workloads. Each is one row of the table `kinds` at the end; a name is a kind and its sizes.
 *
 * They are written as a user of another library writes them, from single operations: 0.5 * x *
 * (1 + tanh(...)) and not gelu_tanh(x), so that fusion has the same work to do. The host
 * references compute the same formulas in double.
 */
#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	AFFINE_COLUMNS = 1024,
	/* Result elements the host computes at a time. */
	CHECK_BLOCK = 4096,
};

/* Host operations spent on checking one workload: about a second. */
#define CHECK_OPERATIONS 4e8

/* ---- shapes ---- */

/* Every input and the result are n floats. */
static int shape_flat(const int64_t *size, int i, int64_t *dims) {
	(void)i;
	dims[0] = size[0];
	return 1;
}

static int shape_sum(const int64_t *size, int i, int64_t *dims) {
	dims[0] = size[0];
	return i < 0 ? 0 : 1;
}

/* n viewed as rows of 1,024; the last row is filled up. */
static int shape_affine(const int64_t *size, int i, int64_t *dims) {
	dims[0] = i > 0 ? AFFINE_COLUMNS : (size[0] + AFFINE_COLUMNS - 1) / AFFINE_COLUMNS;
	dims[1] = AFFINE_COLUMNS;
	return i > 0 ? 1 : 2;
}

/* x of M x K, w of K x N, b of N, r of M x N. */
static int shape_linear(const int64_t *size, int i, int64_t *dims) {
	dims[0] = i == 1 ? size[1] : i == 2 ? size[2] : size[0];
	dims[1] = i == 0 ? size[1] : size[2];
	return i == 2 ? 1 : 2;
}

/* x of M x K, the norm's weight and bias of K, w of K x N, b of N. */
static int shape_norm_linear(const int64_t *size, int i, int64_t *dims) {
	dims[0] = i == 1 || i == 2 || i == 3 ? size[1] : i == 4 ? size[2] : size[0];
	dims[1] = i == 0 ? size[1] : size[2];
	return i == 1 || i == 2 || i == 4 ? 1 : 2;
}

/* Two stacks of B matrices of N x N. */
static int shape_batched(const int64_t *size, int i, int64_t *dims) {
	(void)i;
	dims[0] = size[0];
	dims[1] = dims[2] = size[1];
	return 3;
}

/* x of R x C, then vectors of C. */
static int shape_rows(const int64_t *size, int i, int64_t *dims) {
	dims[0] = i > 0 ? size[1] : size[0];
	dims[1] = size[1];
	return i > 0 ? 1 : 2;
}

static int shape_attention(const int64_t *size, int i, int64_t *dims) {
	(void)i;
	memcpy(dims, size, 3 * sizeof *dims);
	return 3;
}

/* A convolution of CxHW: filters of `taps` by `taps`, as many as there are channels, or STEM_FILTERS. */
struct conv {
	int64_t taps, step, groups, filters;
};

enum { STEM_FILTERS = 64 };

/* x of 1 x C x HW x HW, the filters, then weight, bias, mean and variance of the filters. */
static int shape_of_conv(const struct conv *c, const int64_t *size, int i, int64_t *dims) {
	if (i > 1) {
		dims[0] = c->filters;
		return 1;
	}
	dims[0] = i == 1 ? c->filters : 1;
	dims[1] = i < 0 ? c->filters : i == 1 ? size[0] / c->groups : size[0];
	dims[2] = dims[3] = i == 1 ? c->taps : i == 0 ? size[1] : (size[1] - 1) / c->step + 1;
	return 4;
}

static struct conv conv_3x3(const int64_t *size) {
	return (struct conv){ .taps = 3, .step = 1, .groups = 1, .filters = size[0] };
}

static struct conv conv_stem(const int64_t *size) {
	(void)size;
	return (struct conv){ .taps = 7, .step = 2, .groups = 1, .filters = STEM_FILTERS };
}

static struct conv conv_depthwise(const int64_t *size) {
	return (struct conv){ .taps = 3, .step = 1, .groups = size[0], .filters = size[0] };
}

static int shape_conv_3x3(const int64_t *size, int i, int64_t *dims) {
	struct conv c = conv_3x3(size);

	return shape_of_conv(&c, size, i, dims);
}

static int shape_conv_stem(const int64_t *size, int i, int64_t *dims) {
	struct conv c = conv_stem(size);

	return shape_of_conv(&c, size, i, dims);
}

static int shape_conv_depthwise(const int64_t *size, int i, int64_t *dims) {
	struct conv c = conv_depthwise(size);

	return shape_of_conv(&c, size, i, dims);
}

/* The gradients of a convolution of 3x3 filters: x, the filters, and the gradient by the result. */
static int shape_input_grad(const int64_t *size, int i, int64_t *dims) {
	struct conv c = conv_3x3(size);

	return shape_of_conv(&c, size, i == 1 ? 1 : 0, dims);
}

static int shape_weight_grad(const int64_t *size, int i, int64_t *dims) {
	struct conv c = conv_3x3(size);

	return shape_of_conv(&c, size, i == 1 || i < 0 ? 1 : 0, dims);
}

/* ---- maps ---- */

static fusion_array *record_add_relu(const struct workload *w, fusion_array *const *in) {
	(void)w;
	return fusion_relu(fusion_add(in[0], in[1]));
}

/*
 * An operation's result as an array of the workload's type has it: to the bits of its significand, ties to even. Of f32
 * references keep all bits, since its errors are what is measured.
 */
static double rounded(const struct workload *w, double value) {
	int bits = w->dtype == FUSION_F16 ? 11 : w->dtype == FUSION_BF16 ? 8 : 0, exponent;

	if (!bits)
		return value;
	frexp(value, &exponent);
	return ldexp(rint(ldexp(value, bits - exponent)), exponent - bits);
}

static void host_add_relu(
	const struct workload *w, const float *const *in, int64_t first, int64_t count, double *out) {
	for (int64_t i = 0; i < count; i++)
		out[i] = fmax(rounded(w, (double)in[0][first + i] + (double)in[1][first + i]), 0);
}

static fusion_array *record_mul_relu(const struct workload *w, fusion_array *const *in) {
	(void)w;
	return fusion_relu(fusion_mul(in[0], in[1]));
}

static void host_mul_relu(
	const struct workload *w, const float *const *in, int64_t first, int64_t count, double *out) {
	for (int64_t i = 0; i < count; i++)
		out[i] = fmax(rounded(w, (double)in[0][first + i] * (double)in[1][first + i]), 0);
}

static fusion_array *record_affine_relu(const struct workload *w, fusion_array *const *in) {
	(void)w;
	return fusion_relu(fusion_add(fusion_mul(in[0], in[1]), in[2]));
}

static void host_affine_relu(
	const struct workload *w, const float *const *in, int64_t first, int64_t count, double *out) {
	for (int64_t i = 0; i < count; i++) {
		int64_t column = (first + i) % AFFINE_COLUMNS;
		double product = rounded(w, (double)in[0][first + i] * (double)in[1][column]);

		out[i] = fmax(rounded(w, product + (double)in[2][column]), 0);
	}
}

static fusion_array *record_chain10(const struct workload *w, fusion_array *const *in) {
	fusion_array *t = fusion_add(fusion_mul(in[0], in[1]), in[2]);

	(void)w;
	t = fusion_mul(fusion_tanh(t), in[0]);
	t = fusion_add(fusion_exp(fusion_neg(fusion_abs(t))), in[1]);
	return fusion_maximum_scalar(fusion_sub(fusion_mul(t, t), in[2]), 0);
}

static void host_chain10(
	const struct workload *w, const float *const *in, int64_t first, int64_t count, double *out) {
	for (int64_t i = 0; i < count; i++) {
		double a = (double)in[0][first + i], b = (double)in[1][first + i],
		       c = (double)in[2][first + i];
		double t = rounded(w, rounded(w, a * b) + c);

		t = rounded(w, rounded(w, tanh(t)) * a);
		t = rounded(w, rounded(w, exp(-fabs(t))) + b);
		out[i] = fmax(rounded(w, rounded(w, t * t) - c), 0);
	}
}

static fusion_array *record_sum(const struct workload *w, fusion_array *const *in) {
	(void)w;
	return fusion_sum(in[0], 0, NULL, false);
}

static void host_sum(
	const struct workload *w, const float *const *in, int64_t first, int64_t count, double *out) {
	(void)first;
	(void)count;
	out[0] = 0;
	for (int64_t i = 0; i < w->size[0]; i++)
		out[0] += (double)in[0][i];
}

/* ---- matrix products ---- */

/* Columns [column, column + count) of a row of x times w, of inner x columns. */
static void host_sums(
	const float *x, const float *w, const int64_t *size, int64_t column, int64_t count, double *out) {
	int64_t inner = size[1], columns = size[2];

	memset(out, 0, (size_t)count * sizeof *out);
	for (int64_t k = 0; k < inner; k++)
		for (int64_t i = 0; i < count; i++)
			out[i] += (double)x[k] * (double)w[k * columns + column + i];
}

/* The row of x that result element `first` comes from. */
static const float *row_of(const struct workload *w, const float *x, int64_t first) {
	return x + first / w->size[2] * w->size[1];
}

/* `count` elements of the result from `first` on: of a row of x, or of what became of it, times m. */
static void host_product(const struct workload *w, const float *row, const float *m, int64_t first, int64_t count, double *out) {
	host_sums(row, m, w->size, first % w->size[2], count, out);
	for (int64_t i = 0; i < count; i++)
		out[i] = rounded(w, out[i]);
}

/* ... plus the bias of its column. */
static double biased(const struct workload *w, double product, const float *bias, int64_t at) {
	return rounded(w, product + (double)bias[at % w->size[2]]);
}

static fusion_array *record_matmul(const struct workload *w, fusion_array *const *in) {
	(void)w;
	return fusion_matmul(in[0], in[1]);
}

static void host_matmul(
	const struct workload *w, const float *const *in, int64_t first, int64_t count, double *out) {
	host_product(w, row_of(w, in[0], first), in[1], first, count, out);
}

static fusion_array *record_linear_res_relu(const struct workload *w, fusion_array *const *in) {
	(void)w;
	return fusion_relu(fusion_add(fusion_add(fusion_matmul(in[0], in[1]), in[2]), in[3]));
}

static void host_linear_res_relu(
	const struct workload *w, const float *const *in, int64_t first, int64_t count, double *out) {
	host_product(w, row_of(w, in[0], first), in[1], first, count, out);
	for (int64_t i = 0; i < count; i++)
		out[i] = fmax(rounded(w, biased(w, out[i], in[2], first + i) + (double)in[3][first + i]), 0);
}

static fusion_array *record_matmul_bias_relu(const struct workload *w, fusion_array *const *in) {
	(void)w;
	return fusion_relu(fusion_add(fusion_matmul(in[0], in[1]), in[2]));
}

static void host_matmul_bias_relu(
	const struct workload *w, const float *const *in, int64_t first, int64_t count, double *out) {
	host_product(w, row_of(w, in[0], first), in[1], first, count, out);
	for (int64_t i = 0; i < count; i++)
		out[i] = fmax(biased(w, out[i], in[2], first + i), 0);
}

/* A row of the result, or a part of one, of one product of the batch. */
static void host_batched(
	const struct workload *w, const float *const *in, int64_t first, int64_t count, double *out) {
	const int64_t n = w->size[1], size[] = { n, n, n };

	host_sums(in[0] + first / n * n, in[1] + first / (n * n) * n * n, size, first % n, count, out);
}

#define GELU_SLOPE 0.7978845608
#define GELU_CUBE 0.044715

static fusion_array *gelu(fusion_array *x) {
	fusion_array *cube = fusion_mul(fusion_mul(fusion_mul_scalar(x, GELU_CUBE), x), x);
	fusion_array *t = fusion_tanh(fusion_mul_scalar(fusion_add(x, cube), GELU_SLOPE));

	return fusion_mul(fusion_mul_scalar(x, 0.5), fusion_add_scalar(t, 1));
}

/* In 16 bits the factors are rounded, too. */
static double host_gelu(const struct workload *w, double x) {
	double cube = rounded(w, rounded(w, rounded(w, rounded(w, GELU_CUBE) * x) * x) * x);
	double t = rounded(w, tanh(rounded(w, rounded(w, GELU_SLOPE) * rounded(w, x + cube))));

	return rounded(w, 0.5 * x * rounded(w, t + 1));
}

static fusion_array *record_gelu_linear(const struct workload *w, fusion_array *const *in) {
	(void)w;
	return fusion_add(fusion_matmul(gelu(in[0]), in[1]), in[2]);
}

static void host_gelu_linear(
	const struct workload *w, const float *const *in, int64_t first, int64_t count, double *out) {
	float *x = malloc((size_t)w->size[1] * sizeof *x);

	for (int64_t k = 0; x && k < w->size[1]; k++)
		x[k] = (float)host_gelu(w, (double)row_of(w, in[0], first)[k]);
	if (x)
		host_product(w, x, in[1], first, count, out);
	for (int64_t i = 0; i < count; i++)
		out[i] = x ? biased(w, out[i], in[2], first + i) : (double)NAN;
	free(x);
}

static fusion_array *record_linear_gelu(const struct workload *w, fusion_array *const *in) {
	(void)w;
	return gelu(fusion_add(fusion_matmul(in[0], in[1]), in[2]));
}

static void host_linear_gelu(
	const struct workload *w, const float *const *in, int64_t first, int64_t count, double *out) {
	host_product(w, row_of(w, in[0], first), in[1], first, count, out);
	for (int64_t i = 0; i < count; i++)
		out[i] = host_gelu(w, biased(w, out[i], in[2], first + i));
}

/* ---- rows ---- */

/* x of R x C, then a vector along the axis. */
static int shape_columns(const int64_t *size, int i, int64_t *dims) {
	dims[0] = size[0];
	dims[1] = i > 0 ? 1 : size[1];
	return 2;
}

/* x of R x C, and an element of the result for each of its rows, or of its columns. */
static int shape_row_result(const int64_t *size, int i, int64_t *dims) {
	dims[0] = size[0];
	dims[1] = size[1];
	return i < 0 ? 1 : 2;
}

static int shape_column_result(const int64_t *size, int i, int64_t *dims) {
	dims[0] = i < 0 ? size[1] : size[0];
	dims[1] = size[1];
	return i < 0 ? 1 : 2;
}

static const int *axis_of(const struct workload *w) {
	static const int first = 0, last = -1;

	return w->kind->leading ? &first : &last;
}

/* Elements along the axis. */
static int64_t line_length(const struct workload *w) {
	return w->kind->leading ? w->size[0] : w->size[1];
}

/* The row or column that an element of x lies in, as doubles; the caller's to free. */
static double *host_line(const struct workload *w, const float *in, int64_t element) {
	int64_t n = line_length(w), columns = w->size[1];
	int64_t stride = w->kind->leading ? columns : 1;
	const float *start = in + (w->kind->leading ? element % columns : element - element % columns);
	double *line = malloc((size_t)n * sizeof *line);

	for (int64_t i = 0; line && i < n; i++)
		line[i] = (double)start[i * stride];
	return line;
}

/* Where an element of x is in its line. */
static int64_t host_index(const struct workload *w, int64_t element) {
	return w->kind->leading ? element / w->size[1] : element % w->size[1];
}

/* Each element of out from its line, which `map` changes in place; elements of a row share one. */
static void host_lines(const struct workload *w, const float *in, int64_t first, int64_t count,
	void (*map)(const struct workload *w, double *line, int64_t n), double *out) {
	double *line = NULL;

	for (int64_t i = 0; i < count; i++) {
		if (w->kind->leading || !line) {
			free(line);
			line = host_line(w, in, first + i);
			if (line)
				map(w, line, line_length(w));
		}
		out[i] = line ? line[host_index(w, first + i)] : (double)NAN;
	}
	free(line);
}

static fusion_array *softmax(fusion_array *x, const int *axis) {
	fusion_array *e = fusion_exp(fusion_sub(x, fusion_max(x, 1, axis, true)));

	return fusion_div(e, fusion_sum(e, 1, axis, true));
}

static fusion_array *record_softmax(const struct workload *w, fusion_array *const *in) {
	return softmax(in[0], axis_of(w));
}

/* In place; the sum of the powers is what it divides by. No roundings: attention has none here, and results of at most 1 show little of them. */
static void host_softmax_line(const struct workload *w, double *line, int64_t n) {
	double top = -INFINITY, total = 0;

	(void)w;
	for (int64_t i = 0; i < n; i++)
		top = fmax(top, line[i]);
	for (int64_t i = 0; i < n; i++)
		total += line[i] = exp(line[i] - top);
	for (int64_t i = 0; i < n; i++)
		line[i] /= total;
}

static void host_softmax(
	const struct workload *w, const float *const *in, int64_t first, int64_t count, double *out) {
	host_lines(w, in[0], first, count, host_softmax_line, out);
}

#define NORM_EPSILON 1e-5

static fusion_array *record_layernorm(const struct workload *w, fusion_array *const *in) {
	const int *axis = axis_of(w);
	fusion_array *d = fusion_sub(in[0], fusion_mean(in[0], 1, axis, true));
	fusion_array *variance = fusion_mean(fusion_mul(d, d), 1, axis, true);
	fusion_array *scale = fusion_sqrt(fusion_add_scalar(variance, NORM_EPSILON));

	return fusion_add(fusion_mul(fusion_div(d, scale), in[1]), in[2]);
}

/* Of a line, which becomes the distances from its mean. */
static double host_variance(const struct workload *w, double *line, int64_t n) {
	double mean = 0, variance = 0;

	for (int64_t i = 0; i < n; i++)
		mean += line[i] / (double)n;
	mean = rounded(w, mean);
	for (int64_t i = 0; i < n; i++)
		line[i] = rounded(w, line[i] - mean);
	for (int64_t i = 0; i < n; i++)
		variance += rounded(w, line[i] * line[i]) / (double)n;
	return rounded(w, variance);
}

static void host_norm_line(const struct workload *w, double *line, int64_t n) {
	double variance = host_variance(w, line, n);
	double scale = rounded(w, sqrt(rounded(w, variance + rounded(w, NORM_EPSILON))));

	for (int64_t i = 0; i < n; i++)
		line[i] = rounded(w, line[i] / scale);
}

static double host_affine(const struct workload *w, double value, float factor, float term) {
	return rounded(w, rounded(w, value * (double)factor) + (double)term);
}

static void host_layernorm(
	const struct workload *w, const float *const *in, int64_t first, int64_t count, double *out) {
	host_lines(w, in[0], first, count, host_norm_line, out);
	for (int64_t i = 0; i < count; i++) {
		int64_t at = host_index(w, first + i);

		out[i] = host_affine(w, out[i], in[1][at], in[2][at]);
	}
}

static fusion_array *record_layernorm_linear(const struct workload *w, fusion_array *const *in) {
	return fusion_add(fusion_matmul(record_layernorm(w, in), in[3]), in[4]);
}

static void host_layernorm_linear(
	const struct workload *w, const float *const *in, int64_t first, int64_t count, double *out) {
	int64_t n = w->size[1];
	float *x = malloc((size_t)n * sizeof *x);
	const float *row = row_of(w, in[0], first);
	double *line = malloc((size_t)n * sizeof *line);

	for (int64_t k = 0; line && k < n; k++)
		line[k] = (double)row[k];
	if (line)
		host_norm_line(w, line, n);
	for (int64_t k = 0; line && x && k < n; k++)
		x[k] = (float)host_affine(w, line[k], in[1][k], in[2][k]);
	if (line && x)
		host_product(w, x, in[3], first, count, out);
	for (int64_t i = 0; i < count; i++)
		out[i] = line && x ? biased(w, out[i], in[4], first + i) : (double)NAN;
	free(line);
	free(x);
}

static fusion_array *record_var(const struct workload *w, fusion_array *const *in) {
	const int *axis = axis_of(w);
	fusion_array *d = fusion_sub(in[0], fusion_mean(in[0], 1, axis, true));

	return fusion_mean(fusion_mul(d, d), 1, axis, false);
}

static fusion_array *record_logsumexp(const struct workload *w, fusion_array *const *in) {
	const int *axis = axis_of(w);
	fusion_array *e = fusion_exp(fusion_sub(in[0], fusion_max(in[0], 1, axis, true)));

	return fusion_add(fusion_log(fusion_sum(e, 1, axis, false)), fusion_max(in[0], 1, axis, false));
}

/* One element of out for each row, or column, of x. */
static void host_each_line(const struct workload *w, const float *in, int64_t first, int64_t count,
	double (*reduce)(const struct workload *w, double *line, int64_t n), double *out) {
	for (int64_t i = 0; i < count; i++) {
		double *line = host_line(w, in, w->kind->leading ? first + i : (first + i) * w->size[1]);

		out[i] = line ? reduce(w, line, line_length(w)) : (double)NAN;
		free(line);
	}
}

static void host_var(const struct workload *w, const float *const *in, int64_t first, int64_t count, double *out) {
	host_each_line(w, in[0], first, count, host_variance, out);
}

static double host_logsumexp_line(const struct workload *w, double *line, int64_t n) {
	double top = -INFINITY, total = 0;

	for (int64_t i = 0; i < n; i++)
		top = fmax(top, line[i]);
	for (int64_t i = 0; i < n; i++)
		total += rounded(w, exp(rounded(w, line[i] - top)));
	return rounded(w, rounded(w, log(rounded(w, total))) + top);
}

static void host_logsumexp(
	const struct workload *w, const float *const *in, int64_t first, int64_t count, double *out) {
	host_each_line(w, in[0], first, count, host_logsumexp_line, out);
}

#define ATTENTION_SCALE 0.125

static fusion_array *record_attention(const struct workload *w, fusion_array *const *in) {
	(void)w;
	return fusion_attention(in[0], in[1], in[2], NULL, ATTENTION_SCALE, false);
}

static fusion_array *record_attention_causal(const struct workload *w, fusion_array *const *in) {
	(void)w;
	return fusion_attention(in[0], in[1], in[2], NULL, ATTENTION_SCALE, true);
}

static fusion_array *record_attention_parts(const struct workload *w, fusion_array *const *in) {
	fusion_array *score =
		fusion_mul_scalar(fusion_matmul(in[0], fusion_transpose(in[1])), ATTENTION_SCALE);

	(void)w;
	return fusion_matmul(softmax(score, axis_of(w)), in[2]);
}

static double host_dot(const float *a, const float *b, int64_t n) {
	double sum = 0;

	for (int64_t i = 0; i < n; i++)
		sum += (double)a[i] * (double)b[i];
	return sum;
}

static void host_attention(
	const struct workload *w, const float *const *in, int64_t first, int64_t count, double *out) {
	int64_t length = w->size[1], width = w->size[2];
	int64_t head = first / (length * width) * length * width, column = first % width;
	double *weight = malloc((size_t)length * sizeof *weight);

	for (int64_t i = 0; i < count; i++)
		out[i] = weight ? 0 : (double)NAN;
	if (!weight)
		return;
	if (w->kind->record == record_attention_causal)
		length = first / width % length + 1;
	for (int64_t k = 0; k < length; k++)
		weight[k] =
			ATTENTION_SCALE * host_dot(in[0] + first - column, in[1] + head + k * width, width);
	host_softmax_line(w, weight, length);
	for (int64_t k = 0; k < length; k++)
		for (int64_t i = 0; i < count; i++)
			out[i] += weight[k] * (double)in[2][head + k * width + column + i];
	free(weight);
}

/* ---- convolutions, batch norm, relu ---- */

#define CONV_EPS 1e-5

static struct conv conv_of(const struct workload *w) {
	return w->kind->shape == shape_conv_stem ? conv_stem(w->size) :
		w->kind->shape == shape_conv_depthwise ? conv_depthwise(w->size) : conv_3x3(w->size);
}

static fusion_array *record_conv(const struct workload *w, fusion_array *const *in) {
	struct conv c = conv_of(w);
	int64_t step[2] = { c.step, c.step }, border[2] = { c.taps / 2, c.taps / 2 }, apart[2] = { 1, 1 };
	fusion_array *y = fusion_conv(in[0], in[1], NULL, 2, step, border, apart, c.groups);

	y = fusion_batch_norm(y, in[4], fusion_add_scalar(fusion_abs(in[5]), 1), in[2], in[3], 1, (int[]){ 1 }, CONV_EPS);
	return fusion_relu(y);
}

static double host_place(const struct conv *c, const float *x, const float *k, int64_t n, int64_t line, int64_t column,
	int64_t channels) {
	double sum = 0;

	for (int64_t i = 0; i < channels; i++)
		for (int64_t a = 0; a < c->taps; a++)
			for (int64_t b = 0; b < c->taps; b++) {
				int64_t y = line * c->step + a - c->taps / 2, at = column * c->step + b - c->taps / 2;

				if (y >= 0 && y < n && at >= 0 && at < n)
					sum += (double)x[(i * n + y) * n + at] * (double)k[(i * c->taps + a) * c->taps + b];
			}
	return sum;
}

static void host_conv(const struct workload *w, const float *const *in, int64_t first, int64_t count, double *out) {
	struct conv c = conv_of(w);
	int64_t n = w->size[1], wide = (n - 1) / c.step + 1, channels = w->size[0] / c.groups;

	for (int64_t i = 0; i < count; i++) {
		int64_t at = first + i, filter = at / (wide * wide), group = filter / (c.filters / c.groups);
		double y = host_place(&c, in[0] + group * channels * n * n, in[1] + filter * channels * c.taps * c.taps, n,
			at / wide % wide, at % wide, channels);

		y = (y - (double)in[4][filter]) / sqrt(fabs((double)in[5][filter]) + 1 + CONV_EPS);
		out[i] = fmax(y * (double)in[2][filter] + (double)in[3][filter], 0);
	}
}

static fusion_array *record_input_grad(const struct workload *w, fusion_array *const *in) {
	static const int64_t one[2] = { 1, 1 };

	(void)w;
	return fusion_conv_input_grad(in[0], in[1], in[2], 2, one, one, one, 1);
}

static fusion_array *record_weight_grad(const struct workload *w, fusion_array *const *in) {
	static const int64_t one[2] = { 1, 1 };

	(void)w;
	return fusion_conv_weight_grad(in[0], in[1], in[2], 2, one, one, one, 1);
}

/* A place of a channel of n by n, or 0 beyond it. */
static double inside(const float *channel, int64_t n, int64_t y, int64_t x) {
	return y >= 0 && y < n && x >= 0 && x < n ? (double)channel[y * n + x] : 0;
}

static void host_input_grad(const struct workload *w, const float *const *in, int64_t first, int64_t count, double *out) {
	int64_t channels = w->size[0], n = w->size[1];

	for (int64_t i = 0; i < count; i++) {
		int64_t channel = (first + i) / (n * n), y = (first + i) / n % n, x = (first + i) % n;

		out[i] = 0;
		for (int64_t f = 0; f < channels; f++)
			for (int64_t t = 0; t < 9; t++)
				out[i] += inside(in[2] + f * n * n, n, y + 1 - t / 3, x + 1 - t % 3) *
					(double)in[1][(f * channels + channel) * 9 + t];
	}
}

static void host_weight_grad(const struct workload *w, const float *const *in, int64_t first, int64_t count, double *out) {
	int64_t channels = w->size[0], n = w->size[1];

	for (int64_t i = 0; i < count; i++) {
		int64_t t = (first + i) % 9, channel = (first + i) / 9 % channels, filter = (first + i) / 9 / channels;

		out[i] = 0;
		for (int64_t at = 0; at < n * n; at++)
			out[i] += inside(in[0] + channel * n * n, n, at / n + t / 3 - 1, at % n + t % 3 - 1) *
				(double)in[2][filter * n * n + at];
	}
}

/* ---- the table ---- */

/* clang-format off: one row a workload */
static const struct kind kinds[] = {
	{ .name = "add_relu",
		.sizes = 1,
		.inputs = 2,
		.shape = shape_flat,
		.record = record_add_relu,
		.reference = host_add_relu,
		.cost = 4,
		.adds = 1,
		.copies = 1,
		.doc = "relu(a + b)" },
	{ .name = "mul_relu",
		.sizes = 1,
		.inputs = 2,
		.shape = shape_flat,
		.record = record_mul_relu,
		.reference = host_mul_relu,
		.cost = 4,
		.adds = 1,
		.copies = 1,
		.doc = "relu(a * b)" },
	{ .name = "affine_relu",
		.sizes = 1,
		.inputs = 3,
		.shape = shape_affine,
		.record = record_affine_relu,
		.reference = host_affine_relu,
		.cost = 4,
		.copies = 3,
		.doc = "relu(x * w + b), x of n in rows of 1,024, w and b of 1,024" },
	{ .name = "chain10",
		.sizes = 1,
		.inputs = 3,
		.shape = shape_flat,
		.record = record_chain10,
		.reference = host_chain10,
		.cost = 50,
		.adds = 5,
		.copies = 6,
		.doc = "t = tanh(a * b + c) * a; t = exp(-abs(t)) + b; max(t * t - c, 0)" },
	{ .name = "sum",
		.sizes = 1,
		.inputs = 1,
		.shape = shape_sum,
		.record = record_sum,
		.reference = host_sum,
		.cost = 1,
		.reads = 1,
		.doc = "the sum of all elements" },
	{ .name = "matmul",
		.sizes = 3,
		.square = true,
		.inputs = 2,
		.shape = shape_linear,
		.record = record_matmul,
		.reference = host_matmul,
		.cost = 1,
		.doc = "x @ w, of N x N, or MxKxN" },
	{ .name = "linear_res_relu",
		.sizes = 3,
		.square = true,
		.inputs = 4,
		.shape = shape_linear,
		.record = record_linear_res_relu,
		.reference = host_linear_res_relu,
		.cost = 1,
		.doc = "relu(x @ w + b + r)" },
	{ .name = "matmul_bias_relu",
		.sizes = 3,
		.square = true,
		.inputs = 3,
		.shape = shape_linear,
		.record = record_matmul_bias_relu,
		.reference = host_matmul_bias_relu,
		.cost = 1,
		.doc = "relu(x @ w + b)" },
	{ .name = "batched",
		.sizes = 2,
		.inputs = 2,
		.shape = shape_batched,
		.record = record_matmul,
		.reference = host_batched,
		.cost = 64,
		.doc = "B products of N x N, as in batched_10000x16" },
	{ .name = "gelu_linear",
		.sizes = 3,
		.square = true,
		.inputs = 3,
		.shape = shape_linear,
		.record = record_gelu_linear,
		.reference = host_gelu_linear,
		.cost = 2,
		.doc = "gelu(x) @ w + b, gelu by tanh and written out" },
	{ .name = "linear_gelu",
		.sizes = 3,
		.square = true,
		.inputs = 3,
		.shape = shape_linear,
		.record = record_linear_gelu,
		.reference = host_linear_gelu,
		.cost = 2,
		.doc = "gelu(x @ w + b), gelu by tanh and written out" },
	{ .name = "layernorm_linear",
		.sizes = 3,
		.square = true,
		.inputs = 5,
		.shape = shape_norm_linear,
		.record = record_layernorm_linear,
		.reference = host_layernorm_linear,
		.cost = 2,
		.doc = "layer norm of the rows of x, written out, @ w + b" },
	{ .name = "softmax",
		.sizes = 2,
		.inputs = 1,
		.shape = shape_rows,
		.record = record_softmax,
		.reference = host_softmax,
		.cost = 20,
		.doc = "softmax of R rows of C, written out" },
	{ .name = "softmax0",
		.sizes = 2,
		.inputs = 1,
		.shape = shape_columns,
		.record = record_softmax,
		.reference = host_softmax,
		.leading = true,
		.cost = 20,
		.doc = "softmax of the columns of R rows of C, written out" },
	{ .name = "layernorm",
		.sizes = 2,
		.inputs = 3,
		.shape = shape_rows,
		.record = record_layernorm,
		.reference = host_layernorm,
		.cost = 10,
		.doc = "layer norm of R rows of C, written out" },
	{ .name = "layernorm0",
		.sizes = 2,
		.inputs = 3,
		.shape = shape_columns,
		.record = record_layernorm,
		.reference = host_layernorm,
		.leading = true,
		.cost = 10,
		.doc = "layer norm of the columns of R rows of C, written out" },
	{ .name = "var",
		.sizes = 2,
		.inputs = 1,
		.shape = shape_row_result,
		.record = record_var,
		.reference = host_var,
		.cost = 10,
		.doc = "variance of R rows of C, written out" },
	{ .name = "var0",
		.sizes = 2,
		.inputs = 1,
		.shape = shape_column_result,
		.record = record_var,
		.reference = host_var,
		.leading = true,
		.cost = 10,
		.doc = "variance of the columns of R rows of C, written out" },
	{ .name = "logsumexp",
		.sizes = 2,
		.inputs = 1,
		.shape = shape_row_result,
		.record = record_logsumexp,
		.reference = host_logsumexp,
		.cost = 20,
		.doc = "log of the sum of exp of R rows of C, written out" },
	{ .name = "logsumexp0",
		.sizes = 2,
		.inputs = 1,
		.shape = shape_column_result,
		.record = record_logsumexp,
		.reference = host_logsumexp,
		.leading = true,
		.cost = 20,
		.doc = "log of the sum of exp of the columns of R rows of C, written out" },
	{ .name = "conv_bn_relu",
		.sizes = 2,
		.inputs = 6,
		.shape = shape_conv_3x3,
		.record = record_conv,
		.reference = host_conv,
		.cost = 4,
		.doc = "relu(batch_norm(conv(x, w))), 3x3, as many filters as channels, of CHANNELSxSIZE" },
	{ .name = "conv_stem",
		.sizes = 2,
		.inputs = 6,
		.shape = shape_conv_stem,
		.record = record_conv,
		.reference = host_conv,
		.cost = 4,
		.doc = "relu(batch_norm(conv(x, w))), 64 filters of 7x7 two apart, of CHANNELSxSIZE" },
	{ .name = "conv_depthwise",
		.sizes = 2,
		.inputs = 6,
		.shape = shape_conv_depthwise,
		.record = record_conv,
		.reference = host_conv,
		.cost = 4,
		.doc = "relu(batch_norm(conv(x, w))), 3x3, each channel by itself, of CHANNELSxSIZE" },
	{ .name = "conv_input_grad",
		.sizes = 2,
		.inputs = 3,
		.shape = shape_input_grad,
		.record = record_input_grad,
		.reference = host_input_grad,
		.cost = 4,
		.doc = "the gradient of conv(x, w), 3x3, by x, of CHANNELSxSIZE" },
	{ .name = "conv_weight_grad",
		.sizes = 2,
		.inputs = 3,
		.shape = shape_weight_grad,
		.record = record_weight_grad,
		.reference = host_weight_grad,
		.cost = 4,
		.doc = "the gradient of conv(x, w), 3x3, by w, of CHANNELSxSIZE" },
	{ .name = "attention",
		.sizes = 3,
		.inputs = 3,
		.shape = shape_attention,
		.record = record_attention,
		.reference = host_attention,
		.cost = 4,
		.doc = "attention(q, k, v, scale=0.125), of HEADSxLENGTHxWIDTH" },
	{ .name = "attention_causal",
		.sizes = 3,
		.inputs = 3,
		.shape = shape_attention,
		.record = record_attention_causal,
		.reference = host_attention,
		.cost = 4,
		.doc = "attention(q, k, v, scale=0.125, causal), of HEADSxLENGTHxWIDTH" },
	{ .name = "attention_parts",
		.sizes = 3,
		.inputs = 3,
		.shape = shape_attention,
		.record = record_attention_parts,
		.reference = host_attention,
		.cost = 4,
		.doc = "softmax(q @ k^T * 0.125) @ v, written out, of HEADSxLENGTHxWIDTH" },
};
/* clang-format on */

const struct kind *workload_kinds(int *countp) {
	*countp = (int)(sizeof kinds / sizeof *kinds);
	return kinds;
}

/* ---- names ---- */

int64_t workload_size(const char *text, const char **endp) {
	char *end;
	long long n;

	*endp = text;
	if (*text < '1' || *text > '9')
		return 0;
	n = strtoll(text, &end, 10);
	if (*end == 'K' || *end == 'M') {
		int shift = *end++ == 'K' ? 10 : 20;

		n = n > INT64_MAX >> shift ? 0 : n << shift;
	}
	*endp = end;
	return n < INT64_C(1) << 40 ? n : 0;
}

/* What may stand behind the sizes. */
static bool parse_dtype(const char *text, enum fusion_dtype *dtype) {
	*dtype = !strcmp(text, "_f16") ? FUSION_F16 : !strcmp(text, "_bf16") ? FUSION_BF16 : FUSION_F32;
	return !*text || *dtype != FUSION_F32;
}

/* "16M", or "4096x1024_f16"; the number of sizes read, 0 where it does not read. */
static int parse_sizes(const char *text, int64_t *size, enum fusion_dtype *dtype) {
	int count = 0;

	while (count < WORKLOAD_SIZES && (size[count] = workload_size(text, &text))) {
		count++;
		if (*text != 'x')
			return parse_dtype(text, dtype) ? count : 0;
		text++;
	}
	return 0;
}

/* The kind whose name and an underscore `name` starts with. */
static const struct kind *find_kind(const char *name) {
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		size_t length = strlen(kinds[i].name);

		if (!strncmp(name, kinds[i].name, length) && name[length] == '_' && name[length + 1] >= '1' &&
			name[length + 1] <= '9')
			return &kinds[i];
	}
	return NULL;
}

int workload_parse(const char *name, struct workload *w) {
	const struct kind *k = find_kind(name);
	int count;

	if (!k || strlen(name) >= sizeof w->name)
		return bench_fail("%s is no workload; --list names them", name);
	w->kind = k;
	snprintf(w->name, sizeof w->name, "%s", name);
	count = parse_sizes(name + strlen(k->name) + 1, w->size, &w->dtype);
	if (count == 1 && k->square)
		count = (int)(w->size[2] = w->size[1] = w->size[0], k->sizes);
	if (count != k->sizes)
		return bench_fail("%s: %s takes %d sizes, as in %s", name, k->name, k->sizes, k->doc);
	return 0;
}

int64_t workload_elements(const struct workload *w, int i) {
	int64_t dims[FUSION_MAX_RANK], n = 1;
	int rank = w->kind->shape(w->size, i, dims);

	for (int d = 0; d < rank; d++)
		n *= dims[d];
	return n;
}

/* ---- data ---- */

/* Sum of four uniform numbers, scaled to variance 1: close to normal, and quick. */
static float random_normal(uint64_t *state) {
	uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
	uint32_t sum;

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	z ^= z >> 31;
	sum = (uint32_t)(z & 0xffff) + (uint32_t)(z >> 16 & 0xffff) + (uint32_t)(z >> 32 & 0xffff) +
	      (uint32_t)(z >> 48);
	return ((float)sum / 65536.0f - 2.0f) * 1.7320508f;
}

fusion_array *workload_normal(fusion_context *c, int rank, const int64_t *dims, uint64_t seed) {
	float *value = NULL;
	fusion_array *a = fusion_create(c, FUSION_F32, rank, dims, (void **)&value);
	int64_t n = a ? fusion_elements(a) : 0;

	for (int64_t i = 0; i < n; i++)
		value[i] = random_normal(&seed);
	if (a && fusion_unmap(a)) {
		fusion_release(a);
		return NULL;
	}
	return a;
}

fusion_array *workload_input(const struct workload *w, fusion_context *c, int i, uint64_t seed) {
	int64_t dims[FUSION_MAX_RANK];
	int rank = w->kind->shape(w->size, i, dims);
	fusion_array *a = workload_normal(c, rank, dims, seed), *narrow;

	if (a && w->dtype != FUSION_F32) {
		narrow = fusion_cast(a, w->dtype);
		fusion_release(a);
		a = narrow;
	}
	if (!a)
		bench_fail("%s: %s", w->name, fusion_error());
	return a;
}

/* ---- checking ---- */

/* The length of what the host computes in one call: a row of the result, in pieces. */
static int64_t check_row(const struct workload *w) {
	int64_t dims[FUSION_MAX_RANK];
	int rank = w->kind->shape(w->size, -1, dims);

	if (!rank)
		return 1;
	return rank == 1 ? CHECK_BLOCK : dims[rank - 1];
}

/* Host operations of one row. */
static double check_cost(const struct workload *w, int64_t row) {
	const struct kind *k = w->kind;
	double cost = k->cost * (double)row;

	if (k->shape == shape_linear || k->shape == shape_norm_linear)
		return cost * (double)w->size[1];
	if (k->shape == shape_attention)
		return cost * (double)w->size[1];
	if (k->record == record_conv)
		return cost * (double)(w->size[0] / conv_of(w).groups * conv_of(w).taps * conv_of(w).taps);
	if (k->record == record_input_grad)
		return cost * (double)(w->size[0] * 9);
	if (k->record == record_weight_grad)
		return cost * (double)(w->size[1] * w->size[1]);
	if (k->leading || k->shape == shape_row_result)
		return cost * (double)line_length(w);
	return k->shape == shape_sum ? (double)w->size[0] : cost;
}

static double worst(const double *want, const float *got, int64_t n) {
	double most = 0;

	for (int64_t i = 0; i < n; i++) {
		double error = fabs((double)got[i] - want[i]) / fmax(1, fabs(want[i]));

		if (!(error <= most))
			most = isnan(error) ? INFINITY : error;
	}
	return most;
}

double workload_error(const struct workload *w, const float *const *in, const float *got, int64_t *checkedp) {
	int64_t total = workload_elements(w, -1), row = check_row(w);
	int64_t rows = (total + row - 1) / row;
	int64_t stride = (int64_t)ceil((double)rows * check_cost(w, row) / CHECK_OPERATIONS);
	double *want = malloc((size_t)row * sizeof *want);
	double most = want ? 0 : (double)INFINITY;

	*checkedp = 0;
	/* The last row, where kernels have their tails, is always one of them. */
	for (int64_t r = rows - 1; want && r >= 0; r -= stride) {
		int64_t first = r * row;
		int64_t count = total - first < row ? total - first : row;

		w->kind->reference(w, in, first, count, want);
		most = fmax(most, worst(want, got + first, count));
		*checkedp += count;
	}
	free(want);
	return most;
}
