/*
 * EXPLAIN and CAN_FUSE: what the planner would do, without doing it.
 *
 * The operations are planned in the server's own graph, against arrays known by type and view
 * alone; nothing of the session changes. The answer is JSON: the kernels with their operations, why
 * neighbours were not fused, and the sources where they are wanted.
 */
#include "request.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "protocol/codec.h"
#include "protocol/message.h"
#include "daemon/emit/emit.h"

enum {
	/* Of a frame, for what surrounds the text. */
	EXPLAIN_FRAME_SPARE = 64,
};

struct explain {
	struct session *session;
	struct graph *graph;
	uint32_t *node;              /* of each operation */
	uint32_t count;
	uint64_t flags;
	struct plan *plan;
};

/* ---- the graph ---- */

/* Two loads of the same memory are one array; its address in the arena tells. Never followed. */
static void *load_identity(const struct op_attr *a) {
	return (void *)(uintptr_t)(((uint64_t)(a->arena + 1) << 40) + a->offset);
}

static int explain_load(struct explain *x, const struct coded_op *o, uint32_t *nodep, struct fault *f) {
	struct tensor_type t;
	struct view v;
	int r = op_infer(o->op, 0, NULL, &o->attr, &t, f);

	if (r)
		return r;
	view_contiguous(&t, &v);
	return graph_leaf(x->graph, load_identity(&o->attr), &t, &v, nodep);
}

/* An array that has not been computed is taken as the row-major one it will be. */
static int explain_array(struct explain *x, uint64_t handle, uint32_t *nodep, struct fault *f) {
	struct array *a = NULL;
	struct view v;
	int r = handles_get(&x->session->handles, handle, &a, f);

	if (r)
		return r;
	if (a->poison) {
		*f = a->poison->fault;
		return f->code;
	}
	if (!a->pending)
		return graph_leaf(x->graph, a->buffer, &a->type, &a->view, nodep);
	view_contiguous(&a->type, &v);
	return graph_leaf(x->graph, a, &a->type, &v, nodep);
}

static int explain_op(struct explain *x, const struct coded_op *o, struct fault *f) {
	uint32_t in[LIMIT_OPERANDS];
	int r = 0;

	if (o->op == OP_load)
		return explain_load(x, o, &x->node[x->count], f);
	for (unsigned i = 0; !r && i < o->arity; i++) {
		if (o->in[i] < 0)
			r = explain_array(x, (uint64_t)(-1 - o->in[i]), &in[i], f);
		else
			in[i] = x->node[o->in[i]];
	}
	return r ? r : graph_op(x->graph, o->op, o->arity, in, &o->attr, x->count, &x->node[x->count], f);
}

static int build(struct explain *x, struct wire_cursor *ops, struct wire_cursor *outputs, struct fault *f) {
	struct coded_op o;
	uint64_t node;
	int r = 0;

	graph_reset(x->graph);
	while (!r && ops->left) {
		r = codec_get_op(ops, x->count, &o, f);
		if (!r)
			r = explain_op(x, &o, f);
		x->count++;
	}
	while (!r && outputs->left) {
		r = wire_get_uint(outputs, "output", UINT32_MAX, &node, f);
		if (!r && node >= x->count)
			r = fault_set(
				f, FAULT_ARGUMENT, "output %" PRIu64 " is no operation of the list", node);
		if (!r)
			r = graph_output(x->graph, x->node[node], node);
	}
	return r;
}

static struct plan_options options_of(const struct explain *x) {
	struct plan_options options = session_plan_options(x->session);

	options.fuse &= !(x->flags & EXPLAIN_UNFUSED);
	return options;
}

static int make_plan(struct explain *x, struct fault *f) {
	struct plan_options options = options_of(x);

	return plan_make(x->graph, &options, &x->plan, f);
}

/* Times of the plan that runs this graph, where there is one and exec measures (engine.time_kernels). */
static void take_times(struct explain *x) {
	struct plan_options options = options_of(x);
	struct plan *ran = plan_cache_find(x->session->server->plans, x->graph, &options);

	for (uint32_t i = 0; ran && ran->steps == x->plan->steps && i < ran->steps; i++)
		x->plan->step[i].measured_ns = ran->step[i].measured_ns;
	plan_unref(ran);
}

/* ---- the text ---- */

static const char *root_word(const struct kernel *k) {
	static const char *const words[] = {
		[KERNEL_MAP] = "map", [KERNEL_REDUCE] = "reduce", [KERNEL_MATMUL] = "matmul",
		[KERNEL_ROWS] = "rows"
	};

	return words[k->root];
}

static const char *form_word(const struct kernel *k) {
	static const char *const words[] = { [KERNEL_FORM_PLAIN] = "plain", [KERNEL_FORM_ROW] = "row",
		[KERNEL_FORM_COLUMN] = "column", [KERNEL_FORM_GENERAL] = "general" };

	return words[k->form];
}

/* Nodes beyond the graph's are copies that the planner added. */
static const char *operation_name(const struct graph *g, uint32_t node) {
	return node < graph_nodes(g) ? op_info(graph_node(g, node)->op)->name : op_info(OP_copy)->name;
}

static double operation_number(const struct graph *g, uint32_t node) {
	return node < graph_nodes(g) ? graph_node(g, node)->note : -1.0;
}

static void add_operation(cJSON *list, const struct graph *g, uint32_t node) {
	char type[SHAPE_TEXT];
	cJSON *one = cJSON_CreateObject();

	cJSON_AddItemToArray(list, one);
	cJSON_AddNumberToObject(one, "node", operation_number(g, node));
	cJSON_AddStringToObject(one, "op", operation_name(g, node));
	if (node < graph_nodes(g))
		cJSON_AddStringToObject(one, "type", shape_text(&graph_node(g, node)->type, type));
}

static int add_source(cJSON *kernel, const struct explain *x, const struct plan_step *s) {
	struct str source = { 0 };
	int r = emit_source(s->kernel, x->session->server->traits, &source);

	if (!r)
		r = str_finish(&source);
	if (!r)
		cJSON_AddStringToObject(kernel, "source", str_text(&source));
	str_free(&source);
	return r;
}

static int add_kernel(cJSON *list, const struct explain *x, const struct plan_step *s) {
	cJSON *kernel = cJSON_CreateObject(), *dims, *operations;

	cJSON_AddItemToArray(list, kernel);
	cJSON_AddStringToObject(kernel, "root", root_word(s->kernel));
	cJSON_AddStringToObject(kernel, "form", form_word(s->kernel));
	dims = cJSON_AddArrayToObject(kernel, "dims");
	for (unsigned d = 0; d < s->kernel->rank; d++)
		cJSON_AddItemToArray(dims, cJSON_CreateNumber((double)s->dims[d]));
	operations = cJSON_AddArrayToObject(kernel, "operations");
	for (uint32_t i = 0; i < s->ops; i++)
		add_operation(operations, x->graph, s->op[i]);
	if (s->pattern)
		cJSON_AddStringToObject(kernel, "pattern", pattern_name(s->pattern));
	cJSON_AddNumberToObject(kernel, "elements", (double)s->elements);
	cJSON_AddNumberToObject(kernel, "bytes_read", (double)s->bytes_read);
	cJSON_AddNumberToObject(kernel, "bytes_written", (double)s->bytes_written);
	cJSON_AddNumberToObject(kernel, "bytes_saved", (double)plan_step_saved(s));
	cJSON_AddNumberToObject(kernel, "buffers_eliminated", s->buffers_eliminated);
	cJSON_AddNumberToObject(kernel, "estimated_us", s->estimate_ns / 1e3);
	if (s->measured_ns > 0)
		cJSON_AddNumberToObject(kernel, "measured_us", s->measured_ns / 1e3);
	return x->flags & EXPLAIN_SOURCE ? add_source(kernel, x, s) : 0;
}

static void add_note(cJSON *list, const struct graph *g, const struct plan_note *n) {
	cJSON *one = cJSON_CreateObject();

	cJSON_AddItemToArray(list, one);
	cJSON_AddNumberToObject(one, "producer", operation_number(g, n->producer));
	cJSON_AddStringToObject(one, "producer_op", operation_name(g, n->producer));
	cJSON_AddNumberToObject(one, "consumer", operation_number(g, n->consumer));
	cJSON_AddStringToObject(one, "consumer_op", operation_name(g, n->consumer));
	cJSON_AddStringToObject(one, "reason", n->reason);
}

static int describe(const struct explain *x, cJSON *json) {
	const struct plan *p = x->plan;
	cJSON *list = cJSON_AddArrayToObject(json, "kernels");
	int r = 0;

	for (uint32_t i = 0; !r && i < p->steps; i++)
		r = add_kernel(list, x, &p->step[i]);
	list = cJSON_AddArrayToObject(json, "not_fused");
	for (uint32_t i = 0; !r && i < p->notes; i++)
		add_note(list, x->graph, &p->note[i]);
	cJSON_AddNumberToObject(json, "kernel_count", p->steps);
	cJSON_AddNumberToObject(json, "unfused_kernel_count", p->ops);
	cJSON_AddNumberToObject(json, "bytes_not_moved", (double)p->bytes_not_moved);
	cJSON_AddNumberToObject(json, "buffers_eliminated", p->buffers_eliminated);
	return r;
}

static int print(const struct explain *x, char **textp) {
	cJSON *json = cJSON_CreateObject();
	int r = json ? describe(x, json) : -ENOMEM;

	*textp = r ? NULL : cJSON_PrintUnformatted(json);
	cJSON_Delete(json);
	return r ? r : *textp ? 0 : -ENOMEM;
}

/* ---- EXPLAIN ---- */

static int answer_text(struct request *r, char *text, struct fault *f) {
	struct server *v = r->session->server;
	size_t size = strlen(text);

	if (size > LIMIT_FRAME_BYTES - EXPLAIN_FRAME_SPARE) {
		cJSON_free(text);
		return fault_set(f, FAULT_LIMIT,
			"the explanation has %zu bytes, more than a message holds; ask without sources",
			size);
	}
	wire_put_text(request_answer(v, r->id, 1), text);
	cJSON_free(text);
	request_send(v, r->frame);
	return 0;
}

static int explain(struct explain *x, struct wire_cursor *ops, struct wire_cursor *outputs, char **textp,
	struct fault *f) {
	int r;

	x->node = malloc((ops->left + 1) * sizeof *x->node);
	r = x->node ? build(x, ops, outputs, f) : -ENOMEM;
	if (!r)
		r = make_plan(x, f);
	if (!r) {
		take_times(x);
		r = print(x, textp);
	}
	if (x->plan)
		plan_unref(x->plan);
	free(x->node);
	return r;
}

int explain_request(struct request *r, struct fault *f) {
	struct explain x = { .session = r->session, .graph = r->session->server->graph };
	struct wire_cursor ops, outputs;
	char *text = NULL;
	int code = wire_get_array(&r->body, "ops", LIMIT_BATCH_OPS, &ops, f);

	if (!code)
		code = wire_get_array(&r->body, "outputs", LIMIT_BATCH_OPS, &outputs, f);
	if (!code)
		code = wire_get_uint(&r->body, "flags", EXPLAIN_SOURCE | EXPLAIN_UNFUSED, &x.flags, f);
	if (!code)
		code = wire_get_end(&r->body, "EXPLAIN", f);
	if (!code)
		code = explain(&x, &ops, &outputs, &text, f);
	return code ? code : answer_text(r, text, f);
}

/* ---- CAN_FUSE ---- */

static int get_operation(struct request *r, uint64_t *idp, struct fault *f) {
	int code = wire_get_uint(&r->body, "operation", UINT64_MAX, idp, f);

	if (!code && (*idp >= OP_COUNT || !op_info((unsigned)*idp)))
		code = fault_set(f, FAULT_OPERATION, "operation %" PRIu64 " does not exist", *idp);
	return code;
}

int can_fuse_request(struct request *r, struct fault *f) {
	struct server *v = r->session->server;
	const char *reason = "";
	struct wire_writer *w;
	uint64_t first, second;
	bool can;
	int code = get_operation(r, &first, f);

	if (!code)
		code = get_operation(r, &second, f);
	if (!code)
		code = wire_get_end(&r->body, "CAN_FUSE", f);
	if (code)
		return code;
	can = plan_can_fuse((unsigned)first, (unsigned)second, &reason);
	w = request_answer(v, r->id, 2);
	wire_put_bool(w, can);
	wire_put_text(w, reason);
	request_send(v, r->frame);
	return 0;
}
