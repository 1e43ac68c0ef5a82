/*
 * Recorded graphs; see capture.h.
 *
 * A graph is checked when it is defined, against arrays of the types it names, so that a replay
 * can only fail by its inputs. It reads nothing but its inputs: memory that the client fills may be
 * used for something else by the time of a replay, so `load` is refused.
 */
#include "capture.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "protocol/message.h"
#include "daemon/serve/batch.h"
#include "daemon/serve/recurring.h"
#include "daemon/serve/request.h"
#include "daemon/serve/vector.h"

enum {
	CAPTURE_NO_ATTR = UINT16_MAX,
	/* Replays that try to keep what the graph became: some have inputs that are one array, or of odd strides, only at first. */
	CAPTURE_TRIES = 4,
};

/* An operation without its attributes, which most have none of. */
struct capture_op {
	uint16_t op;
	uint8_t arity;
	uint16_t attr;               /* index, or CAPTURE_NO_ATTR */
	int32_t in[LIMIT_OPERANDS];
};

struct capture {
	struct tensor_type *input;
	uint32_t inputs, input_capacity;
	struct capture_op *op;
	uint32_t ops, op_capacity;
	struct op_attr *attr;
	uint32_t attrs, attr_capacity;
	uint32_t *output;
	uint32_t outputs, output_capacity;
	uint64_t bytes;
	/* What the operations became, and which leaf each input; NULL: not known. */
	struct graph *kept;
	uint32_t *node, *leaf;
	unsigned tries;
};

static struct capture *capture_free(struct capture *c) {
	if (!c)
		return NULL;
	free(c->input);
	free(c->op);
	free(c->attr);
	free(c->output);
	graph_free(c->kept);
	free(c->node);
	free(c->leaf);
	free(c);
	return NULL;
}

void captures_free(struct session *s) {
	for (unsigned i = 0; i < LIMIT_CAPTURES; i++)
		s->capture[i] = capture_free(s->capture[i]);
}

void captures_leave(struct session *s, const struct graph *g) {
	for (unsigned i = 0; i < LIMIT_CAPTURES; i++)
		if (s->capture[i] && s->capture[i]->kept == g)
			s->capture[i]->kept = NULL;
}

/* ---- DEFINE ---- */

static int read_inputs(struct capture *c, struct wire_cursor *types, struct fault *f) {
	int r = 0;

	while (!r && types->left) {
		r = vector_reserve((void **)&c->input, c->inputs, &c->input_capacity, sizeof *c->input);
		if (!r)
			r = codec_get_type(types, &c->input[c->inputs], f);
		if (!r)
			c->inputs++;
	}
	return r;
}

int capture_input(struct tensor_type *input, uint32_t inputs, uint64_t number, struct graph *g, uint32_t *nodep, struct fault *f) {
	struct view v;

	if (number >= inputs)
		return fault_set(f, FAULT_HANDLE, "the recorded graph has no input %" PRIu64, number);
	view_contiguous(&input[number], &v);
	return graph_leaf(g, &input[number], &input[number], &v, nodep);
}

static int check_op(const struct capture *c, struct graph *g, uint32_t *nodes, const struct coded_op *o,
	struct fault *f) {
	uint32_t in[LIMIT_OPERANDS];
	int r = 0;

	if (o->op == OP_load)
		return fault_set(f, FAULT_ARGUMENT,
			"a recorded graph loads nothing; make the array one of its inputs");
	for (unsigned i = 0; !r && i < o->arity; i++) {
		in[i] = o->in[i] < 0 ? 0 : nodes[o->in[i]];
		if (o->in[i] < 0)
			r = capture_input(c->input, c->inputs, (uint64_t)(-1 - o->in[i]), g, &in[i], f);
	}
	return r ? r : graph_op(g, o->op, o->arity, in, &o->attr, c->ops, &nodes[c->ops], f);
}

/* A load has no attributes here, since it was refused. */
static bool has_attr(const struct coded_op *o) {
	const struct op_info *info = op_info(o->op);

	return info->class == OP_CLASS_REDUCE || info->class == OP_CLASS_SCAN || info->class == OP_CLASS_COMPOSITE ||
	       (info->class == OP_CLASS_STRUCT && o->op != OP_matmul && o->op != OP_copy);
}

static int keep_attr(struct capture *c, const struct coded_op *o, uint16_t *indexp) {
	int r = 0;

	*indexp = CAPTURE_NO_ATTR;
	if (!has_attr(o))
		return 0;
	r = vector_reserve((void **)&c->attr, c->attrs, &c->attr_capacity, sizeof *c->attr);
	if (r)
		return r;
	*indexp = (uint16_t)c->attrs;
	c->attr[c->attrs++] = o->attr;
	return 0;
}

static int keep_op(struct capture *c, const struct coded_op *o) {
	struct capture_op *kept;
	uint16_t attr;
	int r = vector_reserve((void **)&c->op, c->ops, &c->op_capacity, sizeof *c->op);

	if (!r)
		r = keep_attr(c, o, &attr);
	if (r)
		return r;
	kept = &c->op[c->ops++];
	*kept = (struct capture_op){ .op = o->op, .arity = o->arity, .attr = attr };
	for (unsigned i = 0; i < o->arity; i++)
		kept->in[i] = (int32_t)o->in[i];
	return 0;
}

static int read_ops(
	struct request *q, struct capture *c, uint32_t *nodes, struct wire_cursor *ops, struct fault *f) {
	struct graph *g = q->session->server->graph;
	struct coded_op o;
	int r = 0;

	graph_reset(g);
	while (!r && ops->left) {
		r = codec_get_op(ops, c->ops, &o, f);
		if (!r)
			r = check_op(c, g, nodes, &o, f);
		if (r > 0)
			q->node = c->ops;
		if (!r)
			r = keep_op(c, &o);
	}
	return r;
}

static int read_outputs(struct capture *c, struct wire_cursor *outputs, struct fault *f) {
	uint64_t node;
	int r = 0;

	while (!r && outputs->left) {
		r = wire_get_uint(outputs, "node", UINT32_MAX, &node, f);
		if (!r && node >= c->ops)
			r = fault_set(
				f, FAULT_ARGUMENT, "output %" PRIu64 " is no operation of the graph", node);
		if (!r)
			r = vector_reserve(
				(void **)&c->output, c->outputs, &c->output_capacity, sizeof *c->output);
		if (!r)
			c->output[c->outputs++] = (uint32_t)node;
	}
	return r;
}

struct defined_graph {
	uint64_t capture;
	struct wire_cursor types, ops, outputs;
};

static int read_definition(struct wire_cursor *body, struct defined_graph *d, struct fault *f) {
	int r = wire_get_uint(body, "capture", LIMIT_CAPTURES - 1, &d->capture, f);

	if (!r)
		r = wire_get_array(body, "types", CAPTURE_INPUTS, &d->types, f);
	if (!r)
		r = wire_get_array(body, "ops", LIMIT_BATCH_OPS, &d->ops, f);
	if (!r)
		r = wire_get_array(body, "outputs", LIMIT_BATCH_OPS, &d->outputs, f);
	return r ? r : wire_get_end(body, "DEFINE", f);
}

static int build(struct request *q, struct capture *c, struct defined_graph *d, struct fault *f) {
	uint32_t *nodes = malloc((d->ops.left + 1) * sizeof *nodes);
	int r = nodes ? read_inputs(c, &d->types, f) : -ENOMEM;

	if (!r)
		r = read_ops(q, c, nodes, &d->ops, f);
	if (!r)
		r = read_outputs(c, &d->outputs, f);
	free(nodes);
	c->bytes = sizeof *c + c->input_capacity * sizeof *c->input + c->op_capacity * sizeof *c->op
		+ c->attr_capacity * sizeof *c->attr + c->output_capacity * sizeof *c->output;
	if (!r && q->session->capture_bytes + c->bytes > SESSION_CAPTURE_BYTES)
		r = fault_set(f, FAULT_LIMIT,
			"the session's recorded graphs would take more than %d bytes; forget some",
			SESSION_CAPTURE_BYTES);
	return r;
}

static void answer_seq(struct request *r) {
	wire_put_uint(request_answer(r->session->server, r->id, 1), r->seq);
	request_send(r->session->server, r->frame);
}

int define_request(struct request *r, struct fault *f) {
	struct session *s = r->session;
	struct defined_graph d;
	struct capture *c;
	int code = read_definition(&r->body, &d, f);

	if (!code && s->capture[d.capture])
		code = fault_set(
			f, FAULT_STATE, "recorded graph %" PRIu64 " exists; forget it first", d.capture);
	if (code)
		return code;
	c = calloc(1, sizeof *c);
	code = c ? build(r, c, &d, f) : -ENOMEM;
	if (code) {
		capture_free(c);
		return code;
	}
	s->capture[d.capture] = c;
	s->capture_bytes += c->bytes;
	answer_seq(r);
	return 0;
}

/* ---- FORGET ---- */

static int get_capture(struct request *r, uint64_t *idp, struct fault *f) {
	int code = wire_get_uint(&r->body, "capture", LIMIT_CAPTURES - 1, idp, f);

	if (!code && !r->session->capture[*idp])
		code = fault_set(f, FAULT_HANDLE, "there is no recorded graph %" PRIu64, *idp);
	return code;
}

int forget_request(struct request *r, struct fault *f) {
	struct session *s = r->session;
	uint64_t id;
	int code = get_capture(r, &id, f);

	if (!code)
		code = wire_get_end(&r->body, "FORGET", f);
	if (code)
		return code;
	s->capture_bytes -= s->capture[id]->bytes;
	s->capture[id] = capture_free(s->capture[id]);
	answer_seq(r);
	return 0;
}

/* ---- REPLAY ---- */

struct replay {
	struct capture *capture;
	struct array **input;
	struct wire_cursor inputs, outputs, releases;
	uint64_t flags;
};

static int check_input(const struct capture *c, uint32_t i, const struct array *a, struct fault *f) {
	char is[SHAPE_TEXT], wanted[SHAPE_TEXT];

	if (a->poison || (a->type.dtype == c->input[i].dtype && shape_equal(&a->type, &c->input[i])))
		return 0;
	return fault_set(f, FAULT_SHAPE, "input %u of the recorded graph is %s, not %s", i,
		shape_text(&c->input[i], wanted), shape_text(&a->type, is));
}

static int find_inputs(struct session *s, struct replay *p, struct fault *f) {
	uint64_t handle;
	int r = 0;

	if (p->inputs.left != p->capture->inputs)
		return fault_set(f, FAULT_ARGUMENT, "the recorded graph has %u inputs, not %u",
			p->capture->inputs, p->inputs.left);
	for (uint32_t i = 0; !r && p->inputs.left; i++) {
		r = wire_get_uint(&p->inputs, "input", INT64_MAX, &handle, f);
		if (!r)
			r = handles_get(&s->handles, handle, &p->input[i], f);
		if (!r)
			r = check_input(p->capture, i, p->input[i], f);
	}
	return r;
}

static int add_ops(struct batch *b, const struct capture *c, struct fault *f) {
	static const struct op_attr nothing;
	int r = 0;

	for (uint32_t i = 0; !r && i < c->ops; i++) {
		const struct capture_op *kept = &c->op[i];
		struct coded_op o = { .op = kept->op, .arity = kept->arity };

		for (unsigned k = 0; k < kept->arity; k++)
			o.in[k] = kept->in[k];
		o.attr = kept->attr == CAPTURE_NO_ATTR ? nothing : c->attr[kept->attr];
		r = batch_add(b, &o, f);
	}
	return r;
}

/* ---- what it became ---- */

static void drop_kept(struct capture *c) {
	c->kept = graph_free(c->kept);
	free(c->node);
	free(c->leaf);
	c->node = c->leaf = NULL;
}

/* False where two inputs are one leaf now: they may differ the next time. An input that nothing reads is none. */
static bool note_leaves(struct capture *c, const struct session *s, struct array *const *input) {
	for (uint32_t i = 0; i < c->inputs; i++) {
		const struct array *a = input[i];

		c->leaf[i] = a->epoch == s->epoch ? graph_node(s->graph, a->node)->index : GRAPH_NONE;
		for (uint32_t k = 0; k < i; k++)
			if (c->leaf[k] == c->leaf[i] && c->leaf[i] != GRAPH_NONE)
				return false;
	}
	return true;
}

static bool note_nodes(const struct capture *c, const struct batch *b) {
	for (uint32_t i = 0; i < c->ops; i++) {
		c->node[i] = batch_nodes(b)[i];
		/* An administrator's operation may cease to be one that is called. */
		if (c->node[i] == GRAPH_NONE || op_is_own(c->op[i].op))
			return false;
	}
	return true;
}

/* All operations of the graph were added, to nothing. Where memory is short nothing is kept. */
static void keep_graph(struct capture *c, const struct batch *b) {
	struct session *s = b->session;
	uint64_t bytes;

	if (c->kept || !b->first || c->inputs > GRAPH_KEPT || c->tries == CAPTURE_TRIES || !s->settings.recurring)
		return;
	c->tries++;
	c->node = calloc(c->ops + 1, sizeof *c->node);
	c->leaf = calloc(c->inputs + 1, sizeof *c->leaf);
	if (c->node && c->leaf && note_leaves(c, s, b->input) && note_nodes(c, b))
		c->kept = graph_keep(s->graph);
	bytes = c->kept ? graph_kept_bytes(c->kept) + (c->ops + c->inputs) * sizeof *c->node : 0;
	if (!c->kept || s->capture_bytes + bytes > SESSION_CAPTURE_BYTES) {
		drop_kept(c);
		return;
	}
	c->bytes += bytes;
	s->capture_bytes += bytes;
}

static bool bind_kept(struct session *s, const struct capture *c, struct array *const *input) {
	for (uint32_t i = 0; i < c->inputs; i++)
		if (c->leaf[i] != GRAPH_NONE && !recurring_bind(s, c->kept, c->leaf[i], true, input[i]))
			return false;
	return graph_bound(c->kept);
}

/* From here on the session's graph is the kept one, which is to be run at once. False: the operations are to be added. */
static bool take_kept(struct batch *b, const struct capture *c) {
	struct session *s = b->session;

	if (!c->kept || !b->first || s->gathered || !s->settings.recurring || !bind_kept(s, c, b->input))
		return false;
	flush_graph_take(s, c->kept);
	batch_take_nodes(b, c->node, c->ops);
	session_count(s, batches_again, 1);
	return true;
}

static int add_graph(struct batch *b, struct capture *c, bool at_once, struct fault *f) {
	int r = at_once && take_kept(b, c) ? 0 : add_ops(b, c, f);

	if (!r && !c->kept)
		keep_graph(c, b);
	return r;
}

static int read_replay(struct request *r, struct replay *p, struct fault *f) {
	uint64_t id;
	int code = wire_get_uint(&r->body, "flags", SUBMIT_ALL, &p->flags, f);

	if (!code)
		code = get_capture(r, &id, f);
	if (!code)
		code = wire_get_array(&r->body, "inputs", CAPTURE_INPUTS, &p->inputs, f);
	if (!code)
		code = wire_get_array(&r->body, "outputs", LIMIT_BATCH_OPS, &p->outputs, f);
	if (!code)
		code = wire_get_array(&r->body, "releases", LIMIT_HANDLES, &p->releases, f);
	if (!code)
		code = wire_get_end(&r->body, "REPLAY", f);
	if (!code)
		p->capture = r->session->capture[id];
	return code;
}

/* The i-th handle names the graph's i-th output. */
static void add_outputs(struct batch *b, const struct capture *c, struct wire_cursor *outputs) {
	struct fault f;

	if (outputs->left != c->outputs) {
		fault_set(&f, FAULT_ARGUMENT, "the recorded graph has %u outputs, not %u", c->outputs,
			outputs->left);
		batch_refuse(b, -1, f.code, &f);
	}
	for (uint32_t i = 0; outputs->left; i++)
		batch_output(b, i < c->outputs ? c->output[i] : UINT32_MAX, outputs);
}

/*
 * Operations of a recorded graph from which on it runs by itself. Joined with others it would save a launch or two, and be
 * another graph whenever another number of them has come: with a plan, and some kernels, that are new.
 */
enum { CAPTURE_WHOLE = 32 };

int replay_request(struct request *r, struct fault *f) {
	struct session *s = r->session;
	struct replay p = { 0 };
	struct batch b;
	int code = read_replay(r, &p, f);
	bool whole;

	if (code)
		return code;
	whole = p.capture->ops >= CAPTURE_WHOLE;
	if (!repeated_alone(s, p.flags))
		return -EINPROGRESS;
	if (whole && s->gathered && !flush_session(s, FLUSH_OPERATIONS))
		return -EINPROGRESS;
	b = batch_begin(s, r->seq);
	p.input = calloc(p.capture->inputs + 1, sizeof(struct array *));
	b.input = p.input;
	b.inputs = p.capture->inputs;
	code = p.input ? drain_refuse(s->server, f) : -ENOMEM;
	if (!code)
		code = repeated_begin(s, p.flags, f);
	if (!code)
		code = find_inputs(s, &p, f);
	if (!code)
		code = add_graph(&b, p.capture, whole || window_at_once(s, p.flags & SUBMIT_ALL), f);
	if (code)
		batch_refuse(&b, b.count, code, f);
	add_outputs(&b, p.capture, &p.outputs);
	batch_release(&b, &p.releases);
	session_count(s, replays, 1);
	free(p.input);
	code = batch_end(&b, r, p.flags & SUBMIT_ALL, f);
	if ((whole || s->own_graph) && s->gathered)
		flush_session(s, FLUSH_OPERATIONS);
	repeated_end(s);
	flush_graph_back(s);
	return code;
}
