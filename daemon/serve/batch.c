/* Operations into a session's graph; see batch.h. */
#include "batch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/serve/share.h"
#include "daemon/serve/vector.h"
#include "daemon/serve/wait.h"

/* In place of a node: the operation has no value, and poison[] says why. */
#define BATCH_POISONED GRAPH_NONE

struct batch_scratch {
	uint32_t node[LIMIT_BATCH_OPS];
	struct poison *poison[LIMIT_BATCH_OPS];      /* of poisoned ones; borrowed from an operand's array */
};

int batch_scratch_new(struct batch_scratch **scratchp) {
	*scratchp = malloc(sizeof **scratchp);
	return *scratchp ? 0 : -ENOMEM;
}

struct batch_scratch *batch_scratch_free(struct batch_scratch *s) {
	free(s);
	return NULL;
}

struct batch batch_begin(struct session *s, uint64_t seq) {
	if (!s->gathered)
		s->first = seq;
	return (struct batch){ .session = s, .scratch = s->server->scratch, .seq = seq, .node = -1,
		.first = !graph_nodes(s->graph) };
}

const uint32_t *batch_nodes(const struct batch *b) {
	return b->scratch->node;
}

void batch_take_nodes(struct batch *b, const uint32_t *node, uint32_t count) {
	memcpy(b->scratch->node, node, count * sizeof *node);
	b->count = count;
}

/* ---- leaves ---- */

static int reserve_used(struct session *s) {
	return vector_reserve((void **)&s->used, s->useds, &s->used_capacity, sizeof(struct buffer *));
}

/* Also where its handle goes before. */
int batch_keep_buffer(struct session *s, struct buffer *b) {
	int r = reserve_used(s);

	if (!r)
		s->used[s->useds++] = buffer_ref(b);
	return r;
}

static int add_leaf(struct session *s, struct buffer *b, const struct tensor_type *t, const struct view *v,
	uint32_t *nodep) {
	uint32_t leaves = graph_leaves(s->graph);
	int r = reserve_used(s);     /* first: a leaf whose buffer nobody keeps would be read when that is gone */

	if (!r)
		r = graph_leaf(s->graph, b, t, v, nodep);
	if (!r && graph_leaves(s->graph) != leaves)
		s->used[s->useds++] = buffer_ref(b);
	return r;
}

static int array_node(struct session *s, struct array *a, uint32_t *nodep) {
	int r = 0;

	if (a->epoch != s->epoch) {
		r = add_leaf(s, a->buffer, &a->type, &a->view, &a->node);
		if (!r)
			a->epoch = s->epoch;
	}
	*nodep = a->node;
	return r;
}

static int load_buffer(struct session *s, const struct op_attr *attr, uint64_t bytes, struct buffer **bufferp,
	struct fault *f) {
	int r = buffer_from_arena(s->space, attr->arena, attr->offset, bytes, bufferp, f);

	if (r <= 0)
		return r;
	control_catch_up(s->server);     /* the arena may be on its way */
	r = buffer_from_arena(s->space, attr->arena, attr->offset, bytes, bufferp, f);
	/* An arena that is not known may be on its way still, where there was no memory to hear of it. */
	if (r > 0 && s->server->starved && !space_has(s->space, attr->arena))
		return -ENOMEM;
	if (r <= 0 || !s->lost_arena || s->lost_arena != attr->arena)
		return r;
	return descriptors_short(s->lost_error) ? descriptors_fault(f, "a session's memory") : s->lost_error;
}

int batch_load(struct session *s, const struct op_attr *attr, uint64_t bytes, struct buffer **bufferp, struct fault *f) {
	int r = load_buffer(s, attr, bytes, bufferp, f);

	if (r)
		return r;
	r = batch_keep_buffer(s, *bufferp);
	buffer_unref(*bufferp);
	return r;
}

static int add_load(struct batch *b, const struct coded_op *o, uint32_t *nodep, struct fault *f) {
	struct session *s = b->session;
	struct buffer *buffer = NULL;
	struct tensor_type t;
	struct view v;
	int r = op_infer(o->op, 0, NULL, &o->attr, &t, f);

	if (!r)
		r = load_buffer(s, &o->attr, (uint64_t)shape_bytes(&t), &buffer, f);
	if (r)
		return r;
	view_contiguous(&t, &v);
	v.offset = 0;
	r = add_leaf(s, buffer, &t, &v, nodep);
	buffer_unref(buffer);
	return r;
}

/* ---- operations ---- */

static int find_array(struct batch *b, uint64_t handle, struct array **arrayp, struct fault *f) {
	if (!b->input)
		return handles_get(&b->session->handles, handle, arrayp, f);
	if (handle >= b->inputs) {
		fault_set(f, FAULT_HANDLE, "the recorded graph has no input %" PRIu64, handle);
		return FAULT_HANDLE;
	}
	*arrayp = b->input[handle];
	return 0;
}

/* The node of an array, or BATCH_POISONED and *poisonp. */
static int operand_array(
	struct batch *b, uint64_t handle, uint32_t *nodep, struct poison **poisonp, struct fault *f) {
	struct array *a = NULL;
	int r = find_array(b, handle, &a, f);

	if (!r && a->mapped)
		r = fault_set(f, FAULT_STATE, "the array is mapped for writing; unmap it first");
	if (!r)
		r = share_check(a, f);
	if (r)
		return r;
	*poisonp = array_poisoned(a);
	*nodep = BATCH_POISONED;
	return *poisonp ? 0 : array_node(b->session, a, nodep);
}

static int operand(struct batch *b, int64_t in, uint32_t *nodep, struct poison **poisonp, struct fault *f) {
	if (in < 0)
		return operand_array(b, (uint64_t)(-1 - in), nodep, poisonp, f);
	*nodep = b->scratch->node[in];
	*poisonp = b->scratch->poison[in];
	return 0;
}

/* A result in a type that the device cannot compute is refused now, so that only its batch suffers. */
static int check_device(const struct session *s, uint32_t node, struct fault *f) {
	const struct graph_node *n = graph_node(s->graph, node);

	if (n->type.dtype != DTYPE_f64 || s->server->traits->f64)
		return 0;
	return fault_set(
		f, FAULT_DEVICE, "%s: the device does not compute f64; use f32", op_info(n->op)->name);
}

static int add_operation(struct batch *b, const struct coded_op *o, uint32_t *nodep, struct poison **poisonp,
	struct fault *f) {
	uint32_t in[LIMIT_OPERANDS];
	struct poison *poison;
	int r;

	for (unsigned i = 0; i < o->arity; i++) {
		r = operand(b, o->in[i], &in[i], &poison, f);
		if (r && f->code && r > 0)
			fault_prefix(f, "%s, argument %c", op_info(o->op)->name, 'a' + (int)i);
		if (r)
			return r;
		if (in[i] == BATCH_POISONED)
			*poisonp = poison;
	}
	if (*poisonp)
		return 0;
	r = graph_op(b->session->graph, o->op, o->arity, in,
		op_is_elementwise(op_info(o->op)) ? NULL : &o->attr, b->count, nodep, f);
	return r ? r : check_device(b->session, *nodep, f);
}

int batch_add(struct batch *b, const struct coded_op *o, struct fault *f) {
	uint32_t node = BATCH_POISONED;
	struct poison *poison = NULL;
	int r = o->op == OP_load ? add_load(b, o, &node, f) : add_operation(b, o, &node, &poison, f);

	if (r)
		return r;
	b->scratch->node[b->count] = node;
	b->scratch->poison[b->count] = poison;
	b->count++;
	return 0;
}

/* ---- outputs ---- */

static int keep_pending(struct session *s, struct array *a) {
	int r = vector_reserve(
		(void **)&s->pending, s->pendings, &s->pending_capacity, sizeof(struct array *));

	if (!r)
		s->pending[s->pendings++] = array_ref(a);
	return r;
}

/* A leaf is there already; everything else will be, when the graph has run. */
static int output_array(struct session *s, uint32_t node, struct array **arrayp, struct fault *f) {
	const struct graph_node *n = graph_node(s->graph, node);
	struct array *a = array_new(&n->type);
	int r = 0;

	if (!a)
		return -ENOMEM;
	a->epoch = s->epoch;
	a->node = node;
	a->pending = n->op != OP_load;
	if (a->pending) {
		r = keep_pending(s, a);
	} else {
		const struct graph_leaf *leaf = graph_leaf_at(s->graph, n->index);

		a->buffer = buffer_ref(leaf->buffer);
		a->view = leaf->view;
		r = share_part(s, a, f);
	}
	if (r)
		array_unref(a);
	else
		*arrayp = a;
	return r;
}

static int output_poisoned(struct poison *p, struct array **arrayp) {
	static const struct tensor_type nothing;
	struct array *a = array_new(&nothing);

	if (!a)
		return -ENOMEM;
	a->poison = poison_ref(p);
	*arrayp = a;
	return 0;
}

static int output_refused(struct batch *b, struct array **arrayp) {
	if (!b->poison)
		b->poison = poison_new(&b->fault, b->seq, b->node);
	return output_poisoned(b->poison, arrayp);
}

static int name_output(struct batch *b, uint64_t node, uint64_t handle, struct fault *f) {
	struct array *a = NULL;
	int r;

	if (b->fault.code)
		r = output_refused(b, &a);
	else if (node >= b->count)
		return fault_set(f, FAULT_ARGUMENT, "output %" PRIu64 " is no operation of the batch", node);
	else if (b->scratch->node[node] == BATCH_POISONED)
		r = output_poisoned(b->scratch->poison[node], &a);
	else
		r = output_array(b->session, b->scratch->node[node], &a, f);
	if (r)
		return r;
	a->made = b->seq;
	r = handles_put(&b->session->handles, handle, a, f);
	if (r)
		array_unref(a);
	return r;
}

void batch_name(struct batch *b, uint64_t node, uint64_t handle) {
	struct fault f;
	int r = name_output(b, node, handle, &f);

	if (r == -ENOMEM)
		handles_lose(&b->session->handles, handle);
	if (r)
		batch_refuse(b, (int64_t)node, r, &f);
}

void batch_output(struct batch *b, uint64_t node, struct wire_cursor *handles) {
	struct fault f;
	uint64_t handle;
	int r = wire_get_uint(handles, "handle", INT64_MAX, &handle, &f);

	if (!r) {
		batch_name(b, node, handle);
		return;
	}
	handles->left = 0;       /* what follows cannot be told apart */
	batch_refuse(b, (int64_t)node, r, &f);
}

void batch_let_go(struct batch *b, uint64_t handle) {
	struct fault f;
	int r = handles_release(&b->session->handles, handle, b->seq, &f);

	if (r)
		batch_refuse(b, -1, r, &f);
}

void batch_release(struct batch *b, struct wire_cursor *handles) {
	struct fault f;
	uint64_t handle;

	while (handles->left) {
		int r = wire_get_uint(handles, "release", INT64_MAX, &handle, &f);

		if (!r) {
			batch_let_go(b, handle);
			continue;
		}
		handles->left = 0;
		batch_refuse(b, -1, r, &f);
	}
}

/* ---- the end ---- */

void batch_refuse(struct batch *b, int64_t node, int r, struct fault *f) {
	if (b->fault.code)
		return;
	if (r < 0)
		fault_set(f, FAULT_MEMORY, "the daemon is out of memory");
	b->node = node;
	b->fault = *f;
}

int batch_end(struct batch *b, struct request *r, bool urgent, struct fault *f) {
	struct session *s = b->session;

	s->gathered += b->count;
	s->last = b->seq;
	b->poison = poison_unref(b->poison);
	window_added(s, urgent);
	r->node = b->node;
	if (b->fault.code) {
		*f = b->fault;
		return f->code;
	}
	session_count(s, operations_received, b->count);
	return accepted_new(r);
}
