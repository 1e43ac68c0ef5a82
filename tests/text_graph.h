/*
 * Text graphs as graphs of the daemon, for tests that need no daemon.
 *
 * What libfusion does for a client is done here for the least that graphs want: casts to a common type, literals, axes that
 * count from the end. What it is not told of - own operations, patterns - makes no graph.
 */
#pragma once

#include <string.h>

#include "client/fusionctl/element.h"
#include "client/fusionctl/text.h"
#include "daemon/graph/graph.h"
#include "protocol/attribute.h"

enum { TEXT_GRAPH_LEAVES = 4096 };

struct text_graph {
	const struct text *t;
	struct graph *g;
	uint32_t *node;                    /* of each statement */
	unsigned leaves;
	struct fault f;
};

static char text_graph_buffer[TEXT_GRAPH_LEAVES];

static inline const struct tensor_type *text_graph_type(const struct text_graph *x, uint32_t node) {
	return &graph_node(x->g, node)->type;
}

static inline int text_graph_op(struct text_graph *x, unsigned op, unsigned arity, const uint32_t *in, const struct op_attr *attr, uint32_t *nodep) {
	return graph_op(x->g, op, arity, in, attr, 0, nodep, &x->f);
}

static inline int text_graph_cast(struct text_graph *x, uint32_t *node, uint8_t dtype) {
	return text_graph_type(x, *node)->dtype == dtype ? 0 : text_graph_op(x, OP_cast, 1, node, &(struct op_attr){ .dtype = dtype }, node);
}

static inline int text_graph_fill(struct text_graph *x, const struct lex_token *token, uint8_t dtype, unsigned rank, const int64_t *dims, uint32_t *nodep) {
	struct op_attr attr = { .dtype = dtype, .rank = (uint8_t)rank };
	int r = element_read(dtype, token->text, token->length, &attr.value[0], &x->f);

	if (rank)
		memcpy(attr.dims, dims, rank * sizeof *dims);
	attr.value[0] = dtype_info(dtype)->kind == DTYPE_KIND_REAL ? dtype_scalar_from_double(dtype, element_to_double(dtype, &attr.value[0]))
								    : dtype_scalar_from_int(dtype, (int64_t)element_to_double(dtype, &attr.value[0]));
	return r ? r : text_graph_op(x, OP_fill, 0, NULL, &attr, nodep);
}

static inline uint16_t text_graph_axes(const struct text_statement *s, unsigned rank) {
	uint16_t axes = 0;

	for (int i = 0; i < s->axes; i++)
		axes |= (uint16_t)(1U << (s->axis[i] < 0 ? s->axis[i] + (int)rank : s->axis[i]));
	return s->axes_given || s->axes ? axes : (uint16_t)((1U << rank) - 1U);
}

/* False where a step is 0. */
static inline bool text_graph_slice(const struct text_statement *s, const struct tensor_type *t, struct op_attr *attr) {
	attr->rank = t->rank;
	for (unsigned d = 0; d < t->rank; d++) {
		int64_t n = t->dims[d], step = (int)d < s->rank ? s->step[d] : 1, low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
		int64_t start = step > 0 ? low : high, stop = step > 0 ? high : low;

		if (!step)
			return false;
		if ((int)d < s->rank && s->start[d] != INT64_MIN)
			start = s->start[d] + (s->start[d] < 0 ? n : 0);
		if ((int)d < s->rank && s->stop[d] != INT64_MIN)
			stop = s->stop[d] + (s->stop[d] < 0 ? n : 0);
		start = start < low ? low : start > high ? high : start;
		stop = stop < low ? low : stop > high ? high : stop;
		attr->step[d] = step;
		attr->dims[d] = step > 0 ? (stop - start + step - 1) / step : (start - stop - step - 1) / -step;
		attr->dims[d] = attr->dims[d] < 0 ? 0 : attr->dims[d];
		attr->start[d] = attr->dims[d] ? start : 0;
	}
	return true;
}

static inline void text_graph_pad(const struct text_statement *s, const struct tensor_type *t, struct op_attr *attr) {
	attr->rank = t->rank;
	for (unsigned d = 0; d < t->rank; d++) {
		int64_t low = (int)d < s->rank && s->start[d] != INT64_MIN ? s->start[d] : 0;
		int64_t high = (int)d < s->rank && s->stop[d] != INT64_MIN ? s->stop[d] : 0;

		attr->start[d] = low;
		attr->dims[d] = t->dims[d] + low + high;
	}
}

static inline void text_graph_reshape(const struct text_statement *s, const struct tensor_type *t, struct op_attr *attr) {
	int64_t rest = shape_elements(t);

	attr->rank = (uint8_t)s->rank;
	memcpy(attr->dims, s->dims, sizeof attr->dims);
	for (int d = 0; d < s->rank; d++)
		rest = s->dims[d] > 0 ? rest / s->dims[d] : rest;
	for (int d = 0; d < s->rank; d++)
		if (s->dims[d] == -1)
			attr->dims[d] = rest;
}

/* Lists that are left out have a length all the same: that of the spatial axes. */
static inline int text_graph_composite(struct text_graph *x, const struct text_statement *s, const struct op_info *o, const struct tensor_type *t, struct op_attr *attr) {
	int r = 0;

	attr->rank = (uint8_t)(s->rank ? s->rank : t && t->rank > 2 ? t->rank - 2 : 0);
	for (unsigned i = 0; !r && i < OP_ATTRIBUTES; i++) {
		const struct attribute_info *a = attribute_info((enum op_attribute)i);

		if (!(o->attributes >> i & 1))
			continue;
		if (a->kind == ATTRIBUTE_KIND_AXES)
			attr->axes = text_graph_axes(s, t ? t->rank : 0);
		else if (a->kind != ATTRIBUTE_KIND_LIST)
			r = attribute_set(attr, (enum op_attribute)i, s->named[i], &x->f);
		for (unsigned d = 0; a->kind == ATTRIBUTE_KIND_LIST && d < attr->rank; d++)
			attribute_list(attr, (enum op_attribute)i)[d] = s->listed >> i & 1 ? s->list[i][d] : a->standard;
	}
	attr->keepdims |= s->keepdims;
	return r;
}

static inline int text_graph_source(struct text_graph *x, const struct text_statement *s, uint32_t *nodep) {
	struct tensor_type t = { .dtype = (uint8_t)s->dtype, .rank = (uint8_t)s->rank };
	struct op_attr attr = { .dtype = t.dtype, .rank = t.rank };
	struct view v;

	memcpy(t.dims, s->dims, sizeof t.dims);
	memcpy(attr.dims, s->dims, sizeof attr.dims);
	if (s->op == OP_fill)
		return text_graph_fill(x, &s->number[0], t.dtype, t.rank, t.dims, nodep);
	if (s->op == OP_arange) {
		attr.value[1] = dtype_scalar_from_int(t.dtype, 1);
		return text_graph_op(x, OP_arange, 0, NULL, &attr, nodep);
	}
	view_contiguous(&t, &v);
	return x->leaves < TEXT_GRAPH_LEAVES ? graph_leaf(x->g, &text_graph_buffer[x->leaves++], &t, &v, nodep) : FAULT_LIMIT;
}

/* Operands, of one element type; literals become numbers of it. */
static inline int text_graph_operands(struct text_graph *x, const struct text_statement *s, unsigned arity, uint32_t *in) {
	bool alike = op_is_elementwise(op_info((unsigned)s->op)) || s->op == OP_matmul || s->op == OP_concat;
	unsigned first = s->op == OP_where;
	int dtype = -1, r = 0;

	for (unsigned i = 0; i < arity; i++)
		if (s->operand[i].statement >= 0) {
			in[i] = x->node[s->operand[i].statement];
			if (i >= first)
				dtype = dtype < 0 ? text_graph_type(x, in[i])->dtype : (int)dtype_promote((enum dtype)dtype, text_graph_type(x, in[i])->dtype);
		}
	for (unsigned i = 0; i < arity && !r; i++) {
		if (s->operand[i].statement < 0)
			r = text_graph_fill(x, &s->operand[i].token, i < first ? DTYPE_bool : (uint8_t)dtype, 0, NULL, &in[i]);
		else if (alike && i >= first && arity > 1)
			r = text_graph_cast(x, &in[i], (uint8_t)dtype);
	}
	return r;
}

static inline int text_graph_statement(struct text_graph *x, const struct text_statement *s, uint32_t *nodep) {
	const struct op_info *o = s->op < OP_COUNT ? op_info((unsigned)s->op) : NULL;
	uint32_t in[LIMIT_OPERANDS];
	struct op_attr attr = { .dtype = (uint8_t)s->dtype, .flag = s->flag, .keepdims = s->keepdims };
	const struct tensor_type *t = NULL;
	unsigned arity;
	int r;

	if (!o)
		return FAULT_OPERATION;
	if (s->op == OP_load || s->op == OP_fill || s->op == OP_arange)
		return text_graph_source(x, s, nodep);
	arity = s->operands ? s->operands : o->arity;
	r = text_graph_operands(x, s, arity, in);
	if (r)
		return r;
	if (arity)
		t = text_graph_type(x, in[0]);
	attr.axis = (uint8_t)(s->setting[TEXT_AXIS] < 0 && t ? s->setting[TEXT_AXIS] + t->rank : s->setting[TEXT_AXIS]);
	if (o->class == OP_CLASS_COMPOSITE)
		r = text_graph_composite(x, s, o, t, &attr);
	else if (o->class == OP_CLASS_REDUCE)
		attr.axes = text_graph_axes(s, t->rank);
	else if (o->class == OP_CLASS_SCAN)
		attr.axes = (uint16_t)(1U << attr.axis);
	else if (s->op == OP_flip)
		attr.axes = text_graph_axes(s, t->rank);
	else if (s->op == OP_reshape)
		text_graph_reshape(s, t, &attr);
	else if (s->op == OP_slice)
		r = text_graph_slice(s, t, &attr) ? 0 : FAULT_ARGUMENT;
	else if (s->op == OP_pad)
		text_graph_pad(s, t, &attr);
	else if (s->op == OP_broadcast) {
		attr.rank = (uint8_t)s->rank;
		memcpy(attr.dims, s->dims, sizeof attr.dims);
	} else if (s->op == OP_permute) {
		attr.rank = (uint8_t)s->axes;
		for (int d = 0; d < s->axes; d++)
			attr.perm[d] = (uint8_t)(s->axis[d] < 0 ? s->axis[d] + s->axes : s->axis[d]);
	} else if (s->op == OP_windows) {
		attr.window.size = s->setting[TEXT_SIZE];
		attr.window.step = s->setting[TEXT_STEP];
		attr.window.dilation = s->setting[TEXT_DILATION];
	}
	return r ? r : text_graph_op(x, (unsigned)s->op, arity, in, &attr, nodep);
}

/* Fills g, which is empty. 0, or why it is no graph. */
static inline int text_graph_make(const struct text *t, struct graph *g, struct fault *f) {
	struct text_graph x = { .t = t, .g = g, .node = calloc(t->statements + 1, sizeof *x.node) };
	int r = x.node ? 0 : -1;

	for (unsigned i = 0; !r && i < t->statements; i++)
		r = text_graph_statement(&x, &t->statement[i], &x.node[i]);
	for (unsigned i = 0; !r && i < t->outputs; i++)
		r = graph_output(g, x.node[t->output[i]], i);
	*f = x.f;
	free(x.node);
	return r;
}
