/* The shapes of composites; see composite.h. */
#include "composite.h"

#include <inttypes.h>
#include <string.h>

struct call {
	const char *name;
	unsigned op, operands;
	const struct tensor_type *const *in;
	const struct op_attr *attr;
};

static const struct {
	const char *name;
	enum op_types types;
} operand_types[] = {
	{ "any", OP_TYPES_ANY },
	{ "int", OP_TYPES_INT },
	{ "bool", OP_TYPES_BOOL },
};

/* The end of a name of "x, target:int". */
static const char *name_end(const char *names) {
	return names + strcspn(names, ",");
}

int composite_operand_types(const struct op_info *info, unsigned operand) {
	const char *name = info->operands, *colon;
	size_t length;

	for (; operand && *name; operand--)
		name = name_end(name) + strspn(name_end(name), ", ");
	colon = memchr(name, ':', (size_t)(name_end(name) - name));
	length = colon ? (size_t)(name_end(name) - colon - 1) : 0;
	for (size_t i = 0; colon && i < sizeof operand_types / sizeof *operand_types; i++)
		if (strlen(operand_types[i].name) == length && !memcmp(operand_types[i].name, colon + 1, length))
			return operand_types[i].types;
	return -1;
}

/* --- rules ------------------------------------------------------------------------------- */

static char *operand_name(const struct call *c, unsigned i, char text[static OPERAND_TEXT]) {
	return op_operand(op_info(c->op), i, text);
}

/* The shape of the first operand, to which the others broadcast. */
static int shape_same(const struct call *c, struct tensor_type *outp, struct fault *f) {
	char a[SHAPE_TEXT], b[SHAPE_TEXT], name[OPERAND_TEXT];

	*outp = *c->in[0];
	for (unsigned i = 1; i < c->operands; i++)
		if (shape_broadcast(outp, c->in[i], NULL) || !shape_equal(outp, c->in[0]))
			return fault_set(f, FAULT_SHAPE, "%s: argument %s (%s) does not broadcast to %s", c->name,
				operand_name(c, i, name), shape_text(c->in[i], b), shape_text(c->in[0], a));
	return 0;
}

/* Without the axes, or with extent 1 there. */
static int shape_reduced(const struct call *c, struct tensor_type *outp, struct fault *f) {
	(void)f;
	shape_reduce(c->in[0], c->attr->axes, c->attr->keepdims, outp);
	return 0;
}

/* The same where nothing to choose from is an error. */
static int shape_reduced_some(const struct call *c, struct tensor_type *outp, struct fault *f) {
	int r = shape_check_some(c->in[0], c->attr->axes, c->name, f);

	return r ? r : shape_reduced(c, outp, f);
}

static int check_rank(const struct call *c, unsigned operand, unsigned least, unsigned most, struct fault *f) {
	const struct tensor_type *t = c->in[operand];
	char text[SHAPE_TEXT], name[OPERAND_TEXT];

	if (t->rank >= least && t->rank <= most)
		return 0;
	if (least == most)
		return fault_set(f, FAULT_SHAPE, "%s: argument %s (%s) must have %u dimension%s", c->name,
			operand_name(c, operand, name), shape_text(t, text), least, least == 1 ? "" : "s");
	if (most == LIMIT_RANK)
		return fault_set(f, FAULT_SHAPE, "%s: argument %s (%s) must have at least %u dimensions", c->name,
			operand_name(c, operand, name), shape_text(t, text), least);
	return fault_set(f, FAULT_SHAPE, "%s: argument %s (%s) must have %u to %u dimensions", c->name,
		operand_name(c, operand, name), shape_text(t, text), least, most);
}

/* Operands from the second on are vectors of the extent of an axis of the first. */
static int check_vectors(const struct call *c, unsigned axis, struct fault *f) {
	char a[SHAPE_TEXT], b[SHAPE_TEXT], name[OPERAND_TEXT];
	int r = 0;

	for (unsigned i = 1; !r && i < c->operands; i++) {
		r = check_rank(c, i, 1, 1, f);
		if (!r && c->in[i]->dims[0] != c->in[0]->dims[axis])
			r = fault_set(f, FAULT_SHAPE, "%s: argument %s (%s) must have the extent of axis %u of %s",
				c->name, operand_name(c, i, name), shape_text(c->in[i], b), axis, shape_text(c->in[0], a));
	}
	return r;
}

/* The single axis of the set. */
static int check_one_axis(const struct call *c, unsigned *axisp, struct fault *f) {
	if (__builtin_popcount(c->attr->axes) != 1)
		return fault_set(f, FAULT_ARGUMENT, "%s works over one axis, not %d", c->name,
			__builtin_popcount(c->attr->axes));
	*axisp = (unsigned)__builtin_ctz(c->attr->axes);
	return 0;
}

/* Channels are axis 1, in groups of equal size. */
static int shape_grouped(const struct call *c, struct tensor_type *outp, struct fault *f) {
	char text[SHAPE_TEXT];
	int r = check_rank(c, 0, 2, LIMIT_RANK, f);

	if (!r && (c->attr->whole < 1 || c->in[0]->dims[1] % c->attr->whole))
		r = fault_set(f, FAULT_ARGUMENT, "%s: the channels (axis 1) of %s do not divide into %" PRId64 " groups",
			c->name, shape_text(c->in[0], text), c->attr->whole);
	if (!r)
		r = check_vectors(c, 1, f);
	*outp = *c->in[0];
	return r;
}

/* Vectors along one axis. */
static int shape_channels(const struct call *c, struct tensor_type *outp, struct fault *f) {
	unsigned axis = 0;
	int r = check_one_axis(c, &axis, f);

	if (!r)
		r = check_vectors(c, axis, f);
	*outp = *c->in[0];
	return r;
}

/* A class for each place: the second operand is the first without the axis of classes. */
static int shape_classified(const struct call *c, struct tensor_type *outp, struct fault *f) {
	char a[SHAPE_TEXT], b[SHAPE_TEXT];
	unsigned axis = 0;
	int r = check_one_axis(c, &axis, f);

	if (!r)
		r = shape_reduced_some(c, outp, f);
	if (r)
		return r;
	if (outp->rank == c->in[1]->rank && !memcmp(outp->dims, c->in[1]->dims, outp->rank * sizeof *outp->dims))
		return 0;
	return fault_set(f, FAULT_SHAPE, "%s: argument target (%s) must be of the shape of %s without axis %u", c->name,
		shape_text(c->in[1], b), shape_text(c->in[0], a), axis);
}

/* One more axis, of all classes. */
static int shape_one_hot(const struct call *c, struct tensor_type *outp, struct fault *f) {
	*outp = *c->in[0];
	if (c->attr->whole < 0 || c->attr->whole > INT32_MAX)
		return fault_set(f, FAULT_ARGUMENT, "%s: %" PRId64 " classes are not between 0 and %" PRId32, c->name,
			c->attr->whole, INT32_MAX);
	if (outp->rank == LIMIT_RANK)
		return fault_set(f, FAULT_RANK, "%s: argument a of %u dimensions leaves no room for one more, of %d",
			c->name, outp->rank, LIMIT_RANK);
	outp->dims[outp->rank++] = c->attr->whole;
	return 0;
}

static int check_diagonal(const struct call *c, struct fault *f) {
	if (c->attr->whole >= -INT32_MAX && c->attr->whole <= INT32_MAX)
		return 0;
	return fault_set(f, FAULT_ARGUMENT, "%s: the diagonal %" PRId64 " is not between %" PRId32 " and %" PRId32,
		c->name, c->attr->whole, -INT32_MAX, INT32_MAX);
}

static int shape_eye(const struct call *c, struct tensor_type *outp, struct fault *f) {
	if (c->attr->rank != 2)
		return fault_set(f, FAULT_SHAPE, "%s: rank is %u, not 2", c->name, c->attr->rank);
	outp->rank = 2;
	memcpy(outp->dims, c->attr->dims, 2 * sizeof *outp->dims);
	return check_diagonal(c, f);
}

static int shape_matrix(const struct call *c, struct tensor_type *outp, struct fault *f) {
	int r = check_rank(c, 0, 2, LIMIT_RANK, f);

	*outp = *c->in[0];
	return r ? r : check_diagonal(c, f);
}

static int shape_outer(const struct call *c, struct tensor_type *outp, struct fault *f) {
	int r = check_rank(c, 0, 1, 1, f);

	outp->rank = 2;
	outp->dims[0] = c->in[0]->dims[0];
	outp->dims[1] = c->in[1]->dims[0];
	return r ? r : check_rank(c, 1, 1, 1, f);
}

static int shape_vecdot(const struct call *c, struct tensor_type *outp, struct fault *f) {
	struct tensor_type both = *c->in[0];
	const struct tensor_type *in[] = { &both };
	struct call reduced = *c;
	char a[SHAPE_TEXT], b[SHAPE_TEXT];
	unsigned axis;
	int r = check_one_axis(c, &axis, f);

	if (r)
		return r;
	if (c->in[1]->rank != both.rank || shape_broadcast(&both, c->in[1], NULL))
		return fault_set(f, FAULT_SHAPE, "%s: a %s and b %s do not broadcast, axis for axis", c->name,
			shape_text(c->in[0], a), shape_text(c->in[1], b));
	reduced.in = in;
	return shape_reduced(&reduced, outp, f);
}

/* A vector for the first axis of the weight, where it is there. */
static int check_bias(const struct call *c, struct fault *f) {
	char a[SHAPE_TEXT], b[SHAPE_TEXT];
	int r = c->operands > 2 ? check_rank(c, 2, 1, 1, f) : 0;

	if (r || c->operands < 3 || c->in[2]->dims[0] == c->in[1]->dims[0])
		return r;
	return fault_set(f, FAULT_SHAPE, "%s: argument bias (%s) must have the extent of the first axis of %s", c->name,
		shape_text(c->in[2], a), shape_text(c->in[1], b));
}

/* weight is [out, in]; the vectors beyond it are of the extent of its first axis. */
static int shape_linear(const struct call *c, struct tensor_type *outp, struct fault *f) {
	char a[SHAPE_TEXT], b[SHAPE_TEXT];
	const struct tensor_type *x = c->in[0], *weight = c->in[1];
	int r = check_rank(c, 0, 2, LIMIT_RANK, f);

	if (!r)
		r = check_rank(c, 1, 2, 2, f);
	if (!r && x->dims[x->rank - 1] != weight->dims[1])
		r = fault_set(f, FAULT_SHAPE, "%s of x %s and weight %s: the last axes differ", c->name, shape_text(x, a),
			shape_text(weight, b));
	if (!r)
		r = check_bias(c, f);
	*outp = *x;
	if (!r)
		outp->dims[x->rank - 1] = weight->dims[0];
	return r;
}

/* Leading axes of t alone. */
static struct tensor_type batch_of(const struct tensor_type *t) {
	struct tensor_type batch = *t;

	batch.rank = (uint8_t)(t->rank - 2);
	return batch;
}

static int refuse_attention(const struct call *c, const char *why, struct fault *f) {
	char q[SHAPE_TEXT], k[SHAPE_TEXT], v[SHAPE_TEXT];

	return fault_set(f, FAULT_SHAPE, "%s of q %s, k %s and v %s: %s", c->name, shape_text(c->in[0], q),
		shape_text(c->in[1], k), shape_text(c->in[2], v), why);
}

static int check_mask(const struct call *c, const struct tensor_type *scores, struct fault *f) {
	const struct tensor_type *mask = c->operands > 3 ? c->in[3] : NULL;
	struct tensor_type both = *scores;
	char a[SHAPE_TEXT], b[SHAPE_TEXT];

	if (!mask)
		return 0;
	if (mask->dtype != DTYPE_bool && dtype_info(mask->dtype)->kind != DTYPE_KIND_REAL)
		return fault_set(f, FAULT_DTYPE, "%s: a mask is bool or floating-point, not %s", c->name,
			shape_text(mask, a));
	if (!shape_broadcast(&both, mask, NULL) && shape_equal(&both, scores))
		return 0;
	return fault_set(f, FAULT_SHAPE, "%s: the mask (%s) does not broadcast to the scores %s", c->name,
		shape_text(mask, a), shape_text(scores, b));
}

/* q [..., m, d], k [..., n, d], v [..., n, e] give [..., m, e]; scores are [..., m, n]. */
static int shape_attention(const struct call *c, struct tensor_type *outp, struct fault *f) {
	const struct tensor_type *q = c->in[0], *k = c->in[1], *v = c->in[2];
	struct tensor_type batch, scores;
	int r = 0;

	for (unsigned i = 0; !r && i < 3; i++)
		r = check_rank(c, i, 2, LIMIT_RANK, f);
	if (r)
		return r;
	if (q->dims[q->rank - 1] != k->dims[k->rank - 1])
		return refuse_attention(c, "the last axes of queries and keys differ", f);
	if (k->dims[k->rank - 2] != v->dims[v->rank - 2])
		return refuse_attention(c, "there are not as many values as keys", f);
	if (k->dims[k->rank - 2] == 0)
		return refuse_attention(c, "there are no keys", f);
	scores = batch_of(q);
	batch = batch_of(k);
	if (shape_broadcast(&scores, &batch, NULL))
		return refuse_attention(c, "the leading axes do not broadcast", f);
	*outp = scores;
	batch = batch_of(v);
	if (shape_broadcast(outp, &batch, NULL))
		return refuse_attention(c, "the leading axes do not broadcast", f);
	scores.dims[scores.rank++] = outp->dims[outp->rank++] = q->dims[q->rank - 2];
	scores.dims[scores.rank++] = k->dims[k->rank - 2];
	outp->dims[outp->rank++] = v->dims[v->rank - 1];
	return check_mask(c, &scores, f);
}

/* --- windows ---------------------------------------------------------------------------- */

/* Lists say something of each spatial axis: those behind the first two. */
enum {
	/* Windows add an axis for each spatial one. */
	SPATIAL_RANK = 2 + (LIMIT_RANK - 2) / 2,
};

static int check_spatial(const struct call *c, struct fault *f) {
	char text[SHAPE_TEXT];
	int r = check_rank(c, 0, 3, SPATIAL_RANK, f);

	if (r || c->in[0]->rank == c->attr->rank + 2U)
		return r;
	return fault_set(f, FAULT_SHAPE, "%s: lists of %u entries for the axes behind the first two of %s", c->name,
		c->attr->rank, shape_text(c->in[0], text));
}

static int check_list(const struct call *c, const char *what, const int64_t *list, int64_t least, struct fault *f) {
	for (unsigned d = 0; d < c->attr->rank; d++)
		if (list[d] < least || list[d] > INT32_MAX)
			return fault_set(f, FAULT_ARGUMENT, "%s: the %s %" PRId64 " is not between %" PRId64 " and %" PRId32,
				c->name, what, list[d], least, INT32_MAX);
	return 0;
}

/* How many windows of so many elements, that far apart, an axis has. */
static int slide(const struct call *c, unsigned axis, int64_t size, int64_t dilation, int64_t *countp,
	struct fault *f) {
	int64_t padded = c->in[0]->dims[axis] + 2 * c->attr->start[axis - 2], span = (size - 1) * dilation + 1;
	char text[SHAPE_TEXT];

	if (span > padded)
		return fault_set(f, FAULT_SHAPE, "%s: a window of %" PRId64 " does not fit axis %u of %s with its padding",
			c->name, span, axis, shape_text(c->in[0], text));
	*countp = (padded - span) / c->attr->step[axis - 2] + 1;
	return 0;
}

/* Every window holds an element of the operand: the padding is at most half of it. */
static int shape_pooled(const struct call *c, struct tensor_type *outp, struct fault *f) {
	const struct op_attr *a = c->attr;
	int r = check_spatial(c, f);

	if (!r)
		r = check_list(c, "window", a->dims, 1, f);
	if (!r)
		r = check_list(c, "stride", a->step, 1, f);
	if (!r)
		r = check_list(c, "padding", a->start, 0, f);
	*outp = *c->in[0];
	for (unsigned d = 0; !r && d < a->rank; d++) {
		if (2 * a->start[d] > a->dims[d])
			r = fault_set(f, FAULT_ARGUMENT, "%s: the padding %" PRId64 " is more than half of the window %" PRId64,
				c->name, a->start[d], a->dims[d]);
		else
			r = slide(c, d + 2, a->dims[d], 1, &outp->dims[d + 2], f);
	}
	return r;
}

/* x [n, in, ...] and weight [out, in / groups, ...] give [n, out, ...]. */
static int check_filters(const struct call *c, int64_t groups, struct fault *f) {
	const struct tensor_type *x = c->in[0], *weight = c->in[1];
	char a[SHAPE_TEXT], b[SHAPE_TEXT];

	if (groups < 1 || groups > INT32_MAX || weight->dims[0] % groups || weight->dims[1] > INT32_MAX ||
		weight->dims[1] * groups != x->dims[1])
		return fault_set(f, FAULT_SHAPE, "%s: weight %s does not take the channels (axis 1) of x %s in %" PRId64 " groups",
			c->name, shape_text(weight, b), shape_text(x, a), groups);
	for (unsigned d = 2; d < weight->rank; d++)
		if (weight->dims[d] < 1 || weight->dims[d] > INT32_MAX)
			return fault_set(f, FAULT_SHAPE, "%s: the window of weight %s is empty or too large", c->name,
				shape_text(weight, b));
	return 0;
}

static int shape_conv(const struct call *c, struct tensor_type *outp, struct fault *f) {
	const struct op_attr *a = c->attr;
	int r = check_spatial(c, f);

	if (!r)
		r = check_rank(c, 1, c->in[0]->rank, c->in[0]->rank, f);
	if (!r)
		r = check_list(c, "stride", a->step, 1, f);
	if (!r)
		r = check_list(c, "padding", a->start, 0, f);
	if (!r)
		r = check_list(c, "dilation", a->dims, 1, f);
	if (!r)
		r = check_filters(c, a->whole ? a->whole : 1, f);
	if (!r)
		r = check_bias(c, f);
	*outp = *c->in[0];
	for (unsigned d = 0; !r && d < a->rank; d++)
		r = slide(c, d + 2, c->in[1]->dims[d + 2], a->dims[d], &outp->dims[d + 2], f);
	if (!r)
		outp->dims[1] = c->in[1]->dims[0];
	return r;
}

/* x, weight and, of the shape of their convolution, g. */
static int check_backward(const struct call *c, struct fault *f) {
	struct call forward = *c;
	struct tensor_type y;
	char want[SHAPE_TEXT], is[SHAPE_TEXT];
	int r;

	forward.operands = 2;
	r = shape_conv(&forward, &y, f);
	if (r || shape_equal(&y, c->in[2]))
		return r;
	return fault_set(f, FAULT_SHAPE, "%s: argument g (%s) must have the shape of the convolution, %s", c->name,
		shape_text(c->in[2], is), shape_text(&y, want));
}

static int shape_conv_input_grad(const struct call *c, struct tensor_type *outp, struct fault *f) {
	*outp = *c->in[0];
	return check_backward(c, f);
}

static int shape_conv_weight_grad(const struct call *c, struct tensor_type *outp, struct fault *f) {
	*outp = *c->in[1];
	return check_backward(c, f);
}

/* Rows of a table by their numbers. */
static int shape_embedding(const struct call *c, struct tensor_type *outp, struct fault *f) {
	const struct tensor_type *weight = c->in[0], *index = c->in[1];
	int r = check_rank(c, 0, 2, 2, f);

	if (!r && index->rank == LIMIT_RANK)
		return fault_set(f, FAULT_RANK, "%s: one more than %u dimensions is more than the limit of %d",
			c->name, index->rank, LIMIT_RANK);
	if (r)
		return r;
	*outp = *index;
	outp->dims[outp->rank++] = weight->dims[1];
	return 0;
}

/* --- the table --------------------------------------------------------------------------- */

typedef int shape_rule(const struct call *c, struct tensor_type *outp, struct fault *f);

static shape_rule *const rules[OP_COUNT] = {
#define COMPOSITE(id, name, types, result, shape, ...) [id] = shape_##shape,
#include "ops.def"
};

int composite_shape(unsigned op, unsigned n, const struct tensor_type *const *in, const struct op_attr *attr,
	struct tensor_type *outp, struct fault *f) {
	const struct call c = { .name = op_info(op)->name, .op = op, .operands = n, .in = in, .attr = attr };

	return rules[op](&c, outp, f);
}
