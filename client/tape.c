/* What is remembered for gradients. See tape.h for the contract. */
#include "tape.h"

#include <errno.h>
#include <stdlib.h>

#include "capture.h"
#include "context.h"
#include "rule.h"

enum {
	/* Elementwise operations that are computed again rather than kept: beyond, memory is the cheaper. */
	AGAIN_DEPTH = 12,
};

/* Of the calling thread; a thread rarely works with several contexts at a time. */
static _Thread_local unsigned paused, checkpoints;

static const struct op_attr no_attr;

bool tape_paused(void) {
	return paused != 0;
}

bool tape_tracks(const struct value *v) {
	return v->leaf || (v->tape && v->tape->tracked);
}

bool tape_available(const struct fusion_context *c, const struct value *v) {
	if (v->state == VALUE_CAPTURED)
		return capture_mine(c);
	return v->state == VALUE_PENDING || (v->state == VALUE_SENT && v->handle);
}

const struct op_attr *tape_attr(const struct value *v) {
	if (v->tape && v->tape->definition)
		return v->tape->attr;
	return v->attr ? v->attr : &no_attr;
}

/* ---- what is kept ---- */

static bool is_constant(const struct value *v) {
	return v->op == OP_fill || v->op == OP_arange;
}

/* How many operations make it again of what is kept, at most; 0: it is not made again. */
static unsigned again_depth(const struct value *v) {
	if (is_constant(v))
		return 1;
	if (!v->tape)
		return 0;
	return v->tape->again ? 1 : v->tape->depth;
}

/* Its operands are kept by its own tape, or made again themselves. */
static unsigned depth_of(const struct tape *t) {
	unsigned depth = 0;

	if (t->definition || !op_is_elementwise(op_info(t->op)))
		return 0;
	for (unsigned i = 0; i < t->arity; i++) {
		unsigned d = t->kept >> i & 1 ? 0 : again_depth(t->in[i]);

		if (!(t->kept >> i & 1) && !d)
			return 0;
		depth = d > depth ? d : depth;
	}
	return depth < AGAIN_DEPTH ? depth + 1 : 0;
}

void tape_count(struct fusion_context *c, struct value *v) {
	uint64_t bytes = (uint64_t)shape_bytes(&v->type);
	bool count = v->kept && v->state == VALUE_SENT && v->handle;

	if (count == v->counted)
		return;
	v->counted = count;
	c->kept_bytes += count ? bytes : -bytes;
	if (c->kept_bytes > c->kept_peak)
		c->kept_peak = c->kept_bytes;
}

/* Is the contents of operand i needed behind this tape, and not to be had otherwise? */
static bool keeps(const struct tape *t, unsigned i, uint16_t needs) {
	const struct value *in = t->in[i];
	bool read = needs >> (RULE_OPERANDS + i) & 1;

	if (t->again)
		return !in->tape || !in->tape->again;
	return (read || (in->tape && in->tape->self)) && !again_depth(in);
}

static void take_operands(struct fusion_context *c, struct tape *t, unsigned count, struct value *const *in, uint16_t needs) {
	t->arity = (uint8_t)count;
	for (unsigned i = 0; i < count; i++) {
		t->in[i] = in[i];
		if (!keeps(t, i, needs)) {
			value_tape(in[i]);
			continue;
		}
		t->kept |= (uint8_t)(1U << i);
		value_keep(in[i]);
		tape_count(c, in[i]);
	}
	t->depth = (uint8_t)depth_of(t);
}

void tape_forget(struct fusion_context *c, struct tape *t, unsigned i) {
	struct value *v = t->in[i];

	if (!(t->kept >> i & 1)) {
		v->taped--;
		return;
	}
	v->kept--;
	v->holders--;
	tape_count(c, v);
}

void tape_free(struct fusion_context *c, struct tape *t) {
	if (t->attr)
		slab_give(&c->attrs, t->attr);
	slab_give(&c->tapes, t);
}

void tape_spend(struct fusion_context *c, struct value *v) {
	struct tape *t = v->tape;
	unsigned arity = t ? t->arity : 0;

	if (!t)
		return;
	t->arity = 0;
	t->spent = true;
	t->again = t->self = false;
	t->depth = 0;
	for (unsigned i = 0; i < arity; i++) {
		tape_forget(c, t, i);
		value_drop(c, t->in[i]);
	}
}

/* ---- noting ---- */

static unsigned tracked_operands(unsigned count, struct value *const *in) {
	unsigned set = 0;

	for (unsigned i = 0; i < count; i++)
		set |= (unsigned)tape_tracks(in[i]) << i;
	return set;
}

/* The first operation without a derivative on the way here. */
static uint16_t lost_operation(const struct value *v, unsigned count, struct value *const *in, unsigned tracked) {
	for (unsigned i = 0; !tracked && i < count; i++)
		if (in[i]->lost)
			return in[i]->lost;
	return tracked ? v->op : 0;
}

static bool is_real(const struct value *v) {
	return dtype_info(v->type.dtype)->kind == DTYPE_KIND_REAL;
}

static struct tape *tape_new(struct fusion_context *c, unsigned op) {
	struct tape *t = slab_take(&c->tapes);

	if (t)
		*t = (struct tape){ .op = (uint16_t)op };
	return t;
}

static int attach(struct recording *r, struct value *v, unsigned tracked) {
	struct tape *t = tape_new(r->context, v->op);
	const struct rule *rule = NULL;
	int failed = t ? rule_of(r->context, v->op, NULL, &rule, &r->fault) : -ENOMEM;

	if (failed) {
		if (t)
			tape_free(r->context, t);
		return failed;
	}
	t->tracked = tracked != 0;
	t->again = checkpoints != 0;
	t->self = tracked && rule_needs(rule, tracked) & RULE_RESULT;
	take_operands(r->context, t, v->arity, v->in, tracked ? rule_needs(rule, tracked) : 0);
	v->tape = t;
	return 0;
}

int tape_note(struct recording *r, struct value *v) {
	unsigned tracked = r->tracks ? tracked_operands(v->arity, v->in) : 0;

	if (v->op == OP_load)
		return 0;
	if (!tracked || !is_real(v)) {
		v->lost = r->tracks ? lost_operation(v, v->arity, v->in, tracked) : 0;
		tracked = 0;
	}
	return tracked || (checkpoints && v->arity) ? attach(r, v, tracked) : 0;
}

/* A definition whose result is an operand has nothing to say. */
static bool is_operand(const struct value *v, unsigned count, struct value *const *in) {
	for (unsigned i = 0; i < count; i++)
		if (in[i] == v)
			return true;
	return false;
}

int tape_define(struct recording *r, const struct definition *d, unsigned count, struct value *const *in,
	const struct op_attr *attr, struct value *v) {
	struct fusion_context *c = r->context;
	unsigned tracked = r->tracks ? tracked_operands(count, in) : 0;
	const struct rule *rule = NULL;
	struct tape *t;
	int failed;

	if (!tracked || !is_real(v) || is_operand(v, count, in))
		return 0;
	failed = rule_of(c, 0, d, &rule, &r->fault);
	t = failed ? NULL : tape_new(c, 0);
	if (t)
		t->attr = slab_take(&c->attrs);
	if (!t || !t->attr) {
		if (t)
			tape_free(c, t);
		return failed ? failed : -ENOMEM;
	}
	*t->attr = attr ? *attr : no_attr;
	t->definition = d;
	t->tracked = true;
	t->again = checkpoints != 0;
	t->self = rule_needs(rule, tracked) & RULE_RESULT;
	take_operands(c, t, count, in, rule_needs(rule, tracked));
	if (v->tape) {
		tape_spend(c, v);
		tape_free(c, v->tape);
	}
	v->tape = t;
	return 0;
}

/* The same elements under a name of their own, which gradients do not pass. */
static int untracked_view(struct recording *r, struct value *v, struct value **vp) {
	struct op_attr attr = { .rank = v->type.rank };
	bool tracks = r->tracks;
	int failed;

	for (unsigned d = 0; d < v->type.rank; d++)
		attr.dims[d] = v->type.dims[d];
	r->tracks = false;
	failed = record_value(r, OP_reshape, 1, &v, &attr, vp);
	r->tracks = tracks;
	return failed;
}

int tape_leaf(struct recording *r, struct value **vp) {
	struct value *view;
	int failed;

	if (!(*vp)->tape) {
		(*vp)->leaf = true;
		return 0;
	}
	failed = untracked_view(r, *vp, &view);
	if (failed)
		return failed;
	view->leaf = true;
	value_drop(r->context, *vp);
	*vp = view;
	return 0;
}

/* ---- what users say ---- */

int fusion_watch(fusion_array *array) {
	struct recording r;
	struct value *v;
	int failed = 0;

	if (!record_begin(&r, "watch", 1, &array))
		return fusion_error_code();
	v = r.in[0];
	if (!is_real(v))
		failed = fault_set(&r.fault, FAULT_DTYPE, "watch: the array is of %s; only floating-point arrays have gradients",
			dtype_info(v->type.dtype)->name);
	if (!failed && !tape_tracks(v)) {
		v->leaf = true;
		r.array->watched = true;
		if (r.array->value != v)
			r.array->value->leaf = true;   /* v is its symbol in a capture */
	}
	return record_end_code(&r, failed);
}

int fusion_unwatch(fusion_array *array) {
	struct recording r;

	if (!record_begin(&r, "unwatch", 1, &array))
		return fusion_error_code();
	r.array->watched = false;
	r.array->value->leaf = false;
	r.in[0]->leaf = false;
	return record_end_code(&r, 0);
}

fusion_array *fusion_stop_gradient(fusion_array *a) {
	struct recording r;
	struct value *v = NULL;
	int failed;

	if (!record_begin(&r, "stop_gradient", 1, &a))
		return NULL;
	failed = untracked_view(&r, r.in[0], &v);
	return record_end(&r, failed, v);
}

static int refuse_end(const char *what) {
	struct fault f;

	return error_report(fault_set(&f, FAULT_STATE, "%s_end: there was no %s_begin in this thread", what, what), &f);
}

void fusion_no_grad_begin(void) {
	paused++;
}

int fusion_no_grad_end(void) {
	if (!paused)
		return refuse_end("no_grad");
	paused--;
	return 0;
}

void fusion_checkpoint_begin(void) {
	checkpoints++;
}

int fusion_checkpoint_end(void) {
	if (!checkpoints)
		return refuse_end("checkpoint");
	checkpoints--;
	return 0;
}

int fusion_kept_bytes(fusion_context *context, uint64_t *nowp, uint64_t *peakp) {
	struct fusion_context *c;
	int r = context_enter(context, "kept_bytes", &c);

	if (r)
		return r;
	if (nowp)
		*nowp = c->kept_bytes;
	if (peakp)
		*peakp = c->kept_peak;
	context_leave(c);
	return 0;
}
