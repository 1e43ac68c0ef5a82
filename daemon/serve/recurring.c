/* Batches that come again; see recurring.h. */
#include "recurring.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <utlist.h>

#include "protocol/limits.h"
#include "protocol/message.h"
#include "protocol/packed.h"
#include "daemon/serve/batch.h"
#include "daemon/serve/share.h"

enum {
	/* Of a session. */
	RECURRING_FORMS = 16,
	RECURRING_BYTES = 512 << 10,
	/* Batches that came once are remembered by a hash: as many as there may be forms, and some that do not come again. */
	RECURRING_SEEN = 32,
	/* Larger batches are not looked at: what is saved is little beside what they do. */
	RECURRING_OPS = 1024,
	/* Twice as many as operations: most have one that is no result, few more than two. */
	RECURRING_PARAMETERS = 2048,
	RECURRING_BUCKETS = 256,
	RECURRING_FRAME_BYTES = 64 << 10,
	/* Of the frame of SUBMIT: see messages.def. */
	RECURRING_FIELDS = 8,
};

enum parameter_kind {
	PARAMETER_HANDLE,            /* an operand: a negative number */
	PARAMETER_PLACE,             /* of a load: arena and offset */
	PARAMETER_NUMBER,            /* of fill, and both of arange */
};

struct parameter {
	uint32_t literal;            /* bytes before it, since the last one */
	uint32_t target;             /* leaf or number of the graph */
	uint8_t kind, dtype;         /* dtype: of a number */
	bool first;                  /* of those with this target */
};

struct form {
	struct form *previous, *next;
	struct graph *graph;
	uint64_t bytes;
	uint32_t ops, parameters;
	uint32_t literals, tail;     /* bytes, and how many of them follow the last parameter */
	const uint32_t *node;        /* of each operation */
	const struct parameter *parameter;
	const uint8_t *literal;
};

struct recurring {
	struct form *forms;          /* utlist, the newest first */
	uint32_t count;
	uint64_t bytes;
	uint64_t seen[RECURRING_SEEN];
	uint32_t next;               /* place in it */
};

static struct form *form_free(struct form *m) {
	if (!m)
		return NULL;
	graph_free(m->graph);
	free(m);
	return NULL;
}

static void drop(struct recurring *g, struct form *m) {
	DL_DELETE2(g->forms, m, previous, next);
	g->count--;
	g->bytes -= m->bytes;
	form_free(m);
}

void recurring_free(struct session *s) {
	while (s->recurring && s->recurring->forms)
		drop(s->recurring, s->recurring->forms);
	free(s->recurring);
	s->recurring = NULL;
}

/* ---- the frame ---- */

struct head {
	uint64_t id, session, seq, flags;
	const void *secret;
};

/* Up to the operations. */
static bool read_head(struct packed *p, struct head *h) {
	uint32_t fields;

	return packed_array(p, &fields) && fields == RECURRING_FIELDS && packed_uint(p, &h->id) && h->id == REQUEST_SUBMIT &&
	       packed_uint(p, &h->session) && packed_bin(p, LIMIT_SECRET_BYTES, &h->secret) && packed_uint(p, &h->seq) &&
	       packed_uint(p, &h->flags) && h->flags <= SUBMIT_URGENT;
}

/* Outputs, releases, and nothing else. */
static bool check_rest(struct packed p) {
	uint32_t outputs, releases;
	uint64_t value;

	if (!packed_array(&p, &outputs) || outputs % 2 || outputs > 2 * LIMIT_BATCH_OPS)
		return false;
	for (uint32_t i = 0; i < outputs; i++)
		if (!packed_uint(&p, &value) || value > (i % 2 ? INT64_MAX : UINT32_MAX))
			return false;
	if (!packed_array(&p, &releases) || releases > LIMIT_HANDLES)
		return false;
	for (uint32_t i = 0; i < releases; i++)
		if (!packed_uint(&p, &value) || value > INT64_MAX)
			return false;
	return p.next == p.end;
}

/* ---- making a form ---- */

/* What is found in the operations of a frame. */
struct sketch {
	const struct batch *batch;
	const uint8_t *since;        /* where the last parameter ended */
	uint32_t ops, parameters, literals, tail;
	struct parameter parameter[RECURRING_PARAMETERS];
	/* Of each bucket of targets the last parameter, of each parameter the one before it there, both plus 1; 0: none. */
	uint16_t last[RECURRING_BUCKETS], before[RECURRING_PARAMETERS];
	uint8_t literal[RECURRING_FRAME_BYTES];
};

static void add_literal(struct sketch *k, const uint8_t *end) {
	size_t size = (size_t)(end - k->since);

	memcpy(k->literal + k->literals, k->since, size);
	k->literals += (uint32_t)size;
}

static uint16_t *bucket(struct sketch *k, uint32_t target) {
	return &k->last[target % RECURRING_BUCKETS];
}

/* Another one with the same target, or NULL. */
static const struct parameter *earlier(struct sketch *k, enum parameter_kind kind, uint32_t target) {
	for (uint32_t i = *bucket(k, target); i; i = k->before[i - 1]) {
		const struct parameter *q = &k->parameter[i - 1];

		if (q->target == target && (q->kind == PARAMETER_NUMBER) == (kind == PARAMETER_NUMBER))
			return q;
	}
	return NULL;
}

/* A parameter stands from begin to end. What an array and a place name both is rare, and bound in two steps: see bind_all(). */
static bool add_parameter(struct sketch *k, const uint8_t *begin, const uint8_t *end, enum parameter_kind kind, uint32_t target,
	uint8_t dtype) {
	const struct parameter *same = earlier(k, kind, target);

	if (k->parameters == RECURRING_PARAMETERS || (same && same->kind != kind))
		return false;
	k->parameter[k->parameters] = (struct parameter){ .literal = (uint32_t)(begin - k->since), .target = target,
		.kind = (uint8_t)kind, .dtype = dtype, .first = !same };
	add_literal(k, begin);
	k->before[k->parameters++] = *bucket(k, target);
	*bucket(k, target) = (uint16_t)k->parameters;
	k->since = end;
	return true;
}

/* An operand that is a handle is a leaf, since nothing was pending before. */
static bool sketch_operand(struct sketch *k, struct packed *p) {
	const struct session *s = k->batch->session;
	const uint8_t *begin = p->next;
	const struct graph_node *n;
	struct array *a = NULL;
	struct fault f;
	int64_t number;

	if (!packed_negative(p, &number)) {
		p->next = begin;
		return packed_skip(p);
	}
	if (handles_get(&s->handles, (uint64_t)(-1 - number), &a, &f) || a->epoch != s->epoch)
		return false;
	n = graph_node(s->graph, a->node);
	return n->op == OP_load && add_parameter(k, begin, p->next, PARAMETER_HANDLE, n->index, 0);
}

static bool sketch_numbers(struct sketch *k, struct packed *p, const struct graph_node *n, uint32_t count) {
	for (uint32_t i = 0; i < count; i++) {
		const uint8_t *begin = p->next;

		if (!packed_skip(p) || !add_parameter(k, begin, p->next, PARAMETER_NUMBER, n->index + i, n->type.dtype))
			return false;
	}
	return true;
}

static bool sketch_place(struct sketch *k, struct packed *p, const struct graph_node *n) {
	const uint8_t *begin = p->next;

	return packed_skip(p) && packed_skip(p) && add_parameter(k, begin, p->next, PARAMETER_PLACE, n->index, 0);
}

/* Attributes that vary are the last ones. */
static bool sketch_attributes(struct sketch *k, struct packed *p, unsigned op, unsigned count) {
	const struct graph_node *n = graph_node(k->batch->session->graph, batch_nodes(k->batch)[k->ops]);
	unsigned vary = op == OP_fill ? 1 : op == OP_arange || op == OP_load ? 2 : 0;

	for (unsigned i = vary; i < count; i++)
		if (!packed_skip(p))
			return false;
	if (op == OP_load)
		return sketch_place(k, p, n);
	return sketch_numbers(k, p, n, vary);
}

/* An administrator's operation may cease to be one that is called. */
static bool sketch_op(struct sketch *k, struct packed *p) {
	uint32_t values;
	unsigned attributes;
	uint64_t op;
	bool fits = batch_nodes(k->batch)[k->ops] != GRAPH_NONE && packed_array(p, &values) && packed_uint(p, &op) && op < OP_COUNT;

	attributes = fits ? codec_attributes((unsigned)op) : 0;
	for (uint32_t i = 1; fits && i + attributes < values; i++)
		fits = sketch_operand(k, p);
	return fits && sketch_attributes(k, p, (unsigned)op, attributes);
}

static bool sketch_batch(struct sketch *k, const struct transport_request *frame) {
	struct packed p = { frame->bytes, (const uint8_t *)frame->bytes + frame->size };
	struct head h;
	uint32_t ops;

	if (!read_head(&p, &h))
		return false;
	k->since = p.next;
	if (!packed_array(&p, &ops) || ops != k->batch->count)
		return false;
	for (; k->ops < ops; k->ops++)
		if (!sketch_op(k, &p))
			return false;
	k->tail = (uint32_t)(p.next - k->since);
	add_literal(k, p.next);
	return true;
}

/* Has it come before? From now on it has. */
static bool seen(struct recurring *g, const struct sketch *k) {
	const struct graph_hash h = graph_hash(k->batch->session->graph);
	uint64_t hash = XXH3_64bits_withSeed(k->literal, k->literals, h.low ^ h.high);

	for (uint32_t i = 0; i < RECURRING_SEEN; i++)
		if (g->seen[i] == hash)
			return true;
	g->seen[g->next++ % RECURRING_SEEN] = hash;
	return false;
}

static struct form *form_new(const struct sketch *k) {
	size_t nodes = k->ops * sizeof(uint32_t), parameters = k->parameters * sizeof *k->parameter;
	size_t bytes = sizeof(struct form) + parameters + nodes + k->literals;
	struct form *m = malloc(bytes);
	uint8_t *at;

	if (!m)
		return NULL;
	at = (uint8_t *)(m + 1);
	*m = (struct form){ .ops = k->ops, .parameters = k->parameters, .literals = k->literals, .tail = k->tail,
		.parameter = memcpy(at, k->parameter, parameters), .node = memcpy(at + parameters, batch_nodes(k->batch), nodes),
		.literal = memcpy(at + parameters + nodes, k->literal, k->literals) };
	m->graph = graph_keep(k->batch->session->graph);
	if (!m->graph)
		return form_free(m);
	m->bytes = bytes + graph_kept_bytes(m->graph);
	return m;
}

static void keep(struct recurring *g, struct form *m) {
	if (!m || m->bytes > RECURRING_BYTES) {
		form_free(m);
		return;
	}
	while (g->forms && (g->count == RECURRING_FORMS || g->bytes + m->bytes > RECURRING_BYTES))
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): a form leaves the list before it is freed */
		drop(g, g->forms->previous);
	DL_PREPEND2(g->forms, m, previous, next);
	g->count++;
	g->bytes += m->bytes;
}

void recurring_note(const struct batch *b, const struct request *r) {
	struct session *s = b->session;
	struct sketch k;

	if (!s->settings.recurring || !b->first || !b->count || b->count > RECURRING_OPS || r->frame->size > RECURRING_FRAME_BYTES)
		return;
	if (!s->recurring)
		s->recurring = calloc(1, sizeof *s->recurring);
	k.batch = b;
	k.ops = k.parameters = k.literals = k.tail = 0;
	memset(k.last, 0, sizeof k.last);
	if (s->recurring && sketch_batch(&k, r->frame) && seen(s->recurring, &k))
		keep(s->recurring, form_new(&k));
}

/* ---- does a frame have this form? ---- */

/* Both words of each parameter. */
typedef uint64_t parameter_values[RECURRING_PARAMETERS][2];

static bool read_parameter(struct packed *p, const struct parameter *q, uint64_t value[2]) {
	int64_t handle;

	switch (q->kind) {
	case PARAMETER_HANDLE:
		if (!packed_negative(p, &handle))
			return false;
		value[0] = (uint64_t)(-1 - handle);
		return true;
	case PARAMETER_PLACE:
		return packed_uint(p, &value[0]) && value[0] <= UINT32_MAX && packed_uint(p, &value[1]);
	default:
		return packed_uint(p, &value[0]);
	}
}

static bool read_literal(struct packed *p, const uint8_t *literal, uint32_t size) {
	if ((size_t)(p->end - p->next) < size || memcmp(p->next, literal, size) != 0)
		return false;
	p->next += size;
	return true;
}

static bool read_form(const struct form *m, struct packed *p, parameter_values values) {
	const uint8_t *literal = m->literal;

	for (uint32_t i = 0; i < m->parameters; i++) {
		const struct parameter *q = &m->parameter[i];

		if (!read_literal(p, literal, q->literal) || !read_parameter(p, q, values[i]))
			return false;
		literal += q->literal;
	}
	return read_literal(p, literal, m->tail);
}

/* ---- does it fit? ---- */

static bool bind_leaf(struct graph *g, uint32_t leaf, bool first, struct buffer *b, int64_t offset) {
	const struct graph_leaf *l = graph_leaf_at(g, leaf);

	if (first)
		graph_bind_leaf(g, leaf, b, offset);
	return l->buffer == b && l->view.offset == offset;
}

bool recurring_bind(struct session *s, struct graph *g, uint32_t leaf, bool first, struct array *a) {
	const struct graph_leaf *l = graph_leaf_at(g, leaf);
	const struct tensor_type *t = &graph_node(g, l->node)->type;
	struct fault f;

	if (a->mapped || share_check(a, &f) || array_poisoned(a) || !a->buffer)
		return false;
	if (a->type.dtype != t->dtype || !shape_equal(&a->type, t) ||
		memcmp(a->view.stride, l->view.stride, t->rank * sizeof *l->view.stride) != 0)
		return false;
	return bind_leaf(g, leaf, first, a->buffer, a->view.offset) && (!first || !batch_keep_buffer(s, a->buffer));
}

static bool bind_handle(struct session *s, struct graph *g, const struct parameter *q, uint64_t handle) {
	struct array *a = NULL;
	struct fault f;

	return !handles_get(&s->handles, handle, &a, &f) && recurring_bind(s, g, q->target, q->first, a);
}

static bool bind_number(struct graph *g, const struct parameter *q, uint64_t value) {
	if (!dtype_scalar_valid(q->dtype, value))
		return false;
	if (q->first)
		graph_bind_scalar(g, q->target, value);
	return graph_scalar_values(g)[q->target] == value;
}

static bool bind_place(struct session *s, struct graph *g, const struct parameter *q, const uint64_t place[2]) {
	const struct op_attr attr = { .arena = (uint32_t)place[0], .offset = place[1] };
	const struct tensor_type *t = &graph_node(g, graph_leaf_at(g, q->target)->node)->type;
	struct buffer *b = NULL;
	struct fault f;

	return !batch_load(s, &attr, (uint64_t)shape_bytes(t), &b, &f) && bind_leaf(g, q->target, q->first, b, 0);
}

/*
 * Places last: memory that the client fills becomes an array by being named, and is the client's again when nobody has that any
 * more. So what is taken here stays with the session until its next graph has run, or its next batch is looked at, whether it
 * fits in the end or not.
 */
static bool bind_all(struct session *s, const struct form *m, parameter_values values) {
	for (uint32_t i = 0; i < m->parameters; i++) {
		const struct parameter *q = &m->parameter[i];

		if (q->kind == PARAMETER_HANDLE && !bind_handle(s, m->graph, q, values[i][0]))
			return false;
		if (q->kind == PARAMETER_NUMBER && !bind_number(m->graph, q, values[i][0]))
			return false;
	}
	for (uint32_t i = 0; i < m->parameters; i++)
		if (m->parameter[i].kind == PARAMETER_PLACE && !bind_place(s, m->graph, &m->parameter[i], values[i]))
			return false;
	return graph_bound(m->graph);
}

/* ---- a batch of a form ---- */

static bool may_recur(const struct session *s, const struct head *h) {
	return s && s->recurring && s->recurring->forms && s->settings.recurring && h->seq == s->next && !s->gathered &&
	       !graph_nodes(s->graph) && window_at_once(s, h->flags & SUBMIT_URGENT);
}

static struct form *find(struct session *s, const struct packed *ops, struct packed *restp) {
	parameter_values values;

	/* Nothing is gathered (may_recur()), so these are of forms that did not fit a batch which was then refused. */
	session_drop_used(s);
	for (struct form *m = s->recurring->forms; m; m = m->next) {
		*restp = *ops;
		if (read_form(m, restp, values) && check_rest(*restp) && bind_all(s, m, values))
			return m;
	}
	return NULL;
}

void recurring_leave(struct session *s, const struct graph *g) {
	for (struct form *m = s->recurring ? s->recurring->forms : NULL; m; m = m->next)
		if (m->graph == g)
			m->graph = NULL;
}

bool recurring_read(struct server *v, struct request *r) {
	struct packed p = { r->frame->bytes, (const uint8_t *)r->frame->bytes + r->frame->size };
	struct head h;

	if (r->frame->size > RECURRING_FRAME_BYTES || v->drain.deadline_us || !read_head(&p, &h))
		return false;
	r->session = session_find(v, h.session, h.secret);
	if (may_recur(r->session, &h))
		r->form = find(r->session, &p, &r->rest);
	r->id = REQUEST_SUBMIT;
	r->seq = h.seq;
	r->urgent = h.flags & SUBMIT_URGENT;
	return r->form != NULL;
}

/* check_rest() has looked: all of them are there. */
static uint64_t next_number(struct packed *p) {
	uint64_t value = 0;

	return packed_uint(p, &value) ? value : 0;
}

static uint32_t next_count(struct packed *p) {
	uint32_t count = 0;

	return packed_array(p, &count) ? count : 0;
}

int recurring_submit(struct request *r, struct fault *f) {
	struct session *s = r->session;
	struct recurring *g = s->recurring;
	struct packed p = r->rest;
	struct batch b = batch_begin(s, r->seq);
	int code;

	if (g->forms != r->form) {
		DL_DELETE2(g->forms, r->form, previous, next);
		DL_PREPEND2(g->forms, r->form, previous, next);
	}
	flush_graph_take(s, r->form->graph);
	batch_take_nodes(&b, r->form->node, r->form->ops);
	for (uint32_t left = next_count(&p) / 2; left; left--) {
		uint64_t node = next_number(&p);

		batch_name(&b, node, next_number(&p));
	}
	for (uint32_t left = next_count(&p); left; left--)
		batch_let_go(&b, next_number(&p));
	session_count(s, batches_again, 1);
	code = batch_end(&b, r, r->urgent, f);
	if (s->gathered)
		flush_session(s, FLUSH_OPERATIONS);
	flush_graph_back(s);
	return code;
}
