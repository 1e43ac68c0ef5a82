/* Graphs under way; see flight.h. */
#include "flight.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/loop.h"
#include "daemon/base/str.h"

enum {
	/* Between two texts: they cost a microsecond an operation, and must cost nothing that is felt. */
	FLIGHT_TEXT_US = 20 * 1000,
};

struct suspect_key {
	uint64_t key[2];
	uint64_t uid;
};

struct suspect {
	struct suspect_key key;
	bool refused;
	uint64_t until_us;
	UT_hash_handle hh;
};

void flight_open(struct server *v) {
	uint64_t seed = atomic_load(&v->catalogue->header->seed);

	if (seed)
		graph_set_seed(seed);
	else
		atomic_store(&v->catalogue->header->seed, graph_seed());
}

static void suspect_free(struct server *v, struct suspect *s) {
	HASH_DELETE(hh, v->suspects, s);
	free(s);
}

void flight_close(struct server *v) {
	while (v->suspects)
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): a suspect leaves the table before it is freed */
		suspect_free(v, v->suspects);
}

/* ---- suspects ---- */

static struct suspect *find(struct server *v, const uint64_t key[2], uid_t uid) {
	const struct suspect_key k = { { key[0], key[1] }, uid };
	struct suspect *s;

	/* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): all words of the key are set */
	HASH_FIND(hh, v->suspects, &k, sizeof k, s);
	return s;
}

int flight_suspect(struct server *v, const struct suspect_facts *facts) {
	struct suspect *s = find(v, facts->key, facts->uid);

	if (!facts->seconds) {
		if (s)
			suspect_free(v, s);
		return 0;
	}
	if (!s) {
		s = calloc(1, sizeof *s);
		if (!s)
			return -ENOMEM;
		s->key = (struct suspect_key){ { facts->key[0], facts->key[1] }, facts->uid };
		HASH_ADD(hh, v->suspects, key, sizeof s->key, s);
	}
	s->refused = facts->refused;
	s->until_us = loop_now() + UINT64_C(1000000) * facts->seconds;
	return 0;
}

static int judge(struct session *s, const uint64_t key[2], bool *alonep, struct fault *f) {
	struct server *v = s->server;
	struct suspect *found = v->suspects ? find(v, key, s->uid) : NULL;
	uint64_t now = found ? loop_now() : 0;

	if (found && now >= found->until_us) {
		suspect_free(v, found);
		found = NULL;
	}
	*alonep = found != NULL;
	if (!found || !found->refused)
		return 0;
	return fault_set(f, FAULT_QUARANTINE,
		"this graph has ended the daemon's engine twice, and is refused for %" PRIu64
		" s more, or until an administrator says fusionctl quarantine clear",
		(found->until_us - now) / 1000000 + 1);
}

/* ---- graphs as text ---- */

static void put_axes(struct str *t, unsigned axes) {
	const char *separator = " axes=";

	for (unsigned d = 0; d < LIMIT_RANK; d++)
		if (axes & 1U << d) {
			str_printf(t, "%s%u", separator, d);
			separator = ",";
		}
}

static void put_dims(struct str *t, const struct tensor_type *type) {
	str_append(t, " [");
	for (unsigned d = 0; d < type->rank; d++)
		str_printf(t, "%s%" PRId64, d ? "," : "", type->dims[d]);
	str_append(t, "]");
}

/* Those of operations that most graphs are made of; of others a comment says where their results differ. */
static void put_attributes(struct str *t, const struct graph_node *n) {
	char type[SHAPE_TEXT];

	if (n->op == OP_cast)
		str_printf(t, " %s", dtype_info(n->type.dtype)->name);
	else if (n->op == OP_reshape || n->op == OP_broadcast)
		put_dims(t, &n->type);
	else if (n->op == OP_permute && n->attr)
		for (unsigned d = 0; d < n->type.rank; d++)
			str_printf(t, "%s%u", d ? "," : " ", n->attr->perm[d]);
	else if (n->attr && n->attr->axes)
		put_axes(t, n->attr->axes);
	if (n->attr && n->attr->keepdims)
		str_append(t, " keepdims");
	str_printf(t, "   # %s", shape_text(&n->type, type));
}

static void put_node(struct str *t, const struct graph *g, uint32_t node) {
	const struct graph_node *n = graph_node(g, node);
	char type[SHAPE_TEXT];

	if (n->op == OP_load) {
		str_printf(t, "n%u = input %s random %u\n", node, shape_text(&n->type, type), node + 1);
		return;
	}
	str_printf(t, "n%u = %s", node, op_info(n->op)->name);
	if (n->op == OP_fill)
		str_printf(t, " %s 1", shape_text(&n->type, type));
	else if (n->op == OP_arange)
		str_printf(t, " %s 0 1", shape_text(&n->type, type));
	for (unsigned i = 0; i < n->arity; i++)
		str_printf(t, " n%u", n->in[i]);
	put_attributes(t, n);
	str_append(t, "\n");
}

static void put_outputs(struct str *t, const struct graph *g) {
	str_append(t, "output");
	for (uint32_t i = 0; i < graph_outputs(g); i++)
		str_printf(t, " n%u", graph_output_at(g, i)->node);
	str_append(t, "\n");
}

/* A graph that is too long is cut off; the first operations say which it is. */
static void write_text(struct catalogue_text *to, const struct graph *g, const uint64_t key[2]) {
	struct str t = { 0 };
	size_t length;

	for (uint32_t i = 0; i < graph_nodes(g) && t.length < CATALOGUE_TEXT; i++)
		put_node(&t, g, i);
	put_outputs(&t, g);
	length = strlen(str_text(&t));
	if (length > CATALOGUE_TEXT)
		length = CATALOGUE_TEXT;
	to->used = 0;
	atomic_signal_fence(memory_order_seq_cst);
	to->key[0] = key[0];
	to->key[1] = key[1];
	memcpy(to->text, str_text(&t), length);
	to->length = (uint32_t)length;
	str_free(&t);
}

static void keep_text(struct catalogue *c, const struct graph *g, const uint64_t key[2]) {
	struct catalogue_text *t = catalogue_text(c, key);
	uint64_t now;

	if (!t->used || t->key[0] != key[0] || t->key[1] != key[1]) {
		now = loop_now();
		if (t->used && now - c->text_us < FLIGHT_TEXT_US)
			return;
		c->text_us = now;
		write_text(t, g, key);
	}
	t->used = ++c->header->clock;
}

/* ---- notes ---- */

int flight_begin(struct session *s, const struct graph *g, uint32_t *notep, bool *alonep, struct fault *f) {
	struct catalogue *c = s->server->catalogue;
	struct graph_hash h = graph_hash(g);
	const uint64_t key[2] = { h.low, h.high };
	uint32_t entry;
	int r = judge(s, key, alonep, f);

	*notep = 0;
	entry = r ? CATALOGUE_NONE : catalogue_take(c, s->id);
	if (entry == CATALOGUE_NONE)
		return r;
	c->entry[entry].of_run = (struct catalogue_run){ .key = { key[0], key[1] }, .step = CATALOGUE_PLANNING,
		.operations = graph_nodes(g) };
	catalogue_put(c, entry, CATALOGUE_RUN);
	keep_text(c, g, key);
	*notep = entry + 1;
	return 0;
}

void flight_planned(struct session *s, uint32_t note, const struct plan *p) {
	struct catalogue_run *n = note ? &s->server->catalogue->entry[note - 1].of_run : NULL;

	if (!n)
		return;
	n->kernels = p ? p->steps : 0;
	atomic_store(&n->step, CATALOGUE_QUEUED);
}

void flight_dropped(struct session *s, uint32_t note) {
	if (note)
		catalogue_give(s->server->catalogue, note - 1);
}

void flight_passed(const struct run *run) {
	struct server *v = run->session->server;
	const uint64_t key[2] = { run->key.low, run->key.high };
	struct suspect *s = run->alone ? find(v, key, run->session->uid) : NULL;

	if (!s)
		return;
	suspect_free(v, s);
	if (control_innocent(v, key, run->session->uid))
		log_warning("the supervisor could not be told that a graph is innocent");
}

void flight_ended(const struct run *run) {
	flight_dropped(run->session, run->note);
}
