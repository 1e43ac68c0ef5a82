/* Recording operations. See record.h for the contract. */
#include "record.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "capture.h"
#include "context.h"
#include "debug.h"
#include "flush.h"
#include "held.h"
#include "tape.h"

static const struct op_attr no_attr;

/* --- begin and end ----------------------------------------------------------------------- */

const char record_operands[RECORD_OPERANDS] = { 0 };

/* The operands of functions that are no operations themselves, where they are not a, b and c. */
static const struct {
	const char *what;
	struct op_info info;
} others[] = {
	{ "copy_into", { .arity = 2, .operands = "array, source" } },
	{ "fill_into", { .arity = 1, .operands = "array" } },
	{ "watch", { .arity = 1, .operands = "array" } },
	{ "unwatch", { .arity = 1, .operands = "array" } },
	{ "stack", { .arity = LIMIT_OPERANDS, .operands = "array" } },
};

/* How an operand is called: "argument index", "array 2". */
static char *operand_text(const char *what, unsigned i, char text[static ARGUMENT_TEXT]) {
	static const struct op_info plain = { .arity = 1 };
	const struct op_info *info = &plain;
	int op = op_find(what);
	char name[OPERAND_TEXT];

	for (unsigned k = 0; k < sizeof others / sizeof *others; k++)
		if (!strcmp(others[k].what, what))
			info = &others[k].info;
	if (op >= 0)
		info = op_info((unsigned)op);
	op_operand(info, i, name);
	snprintf(text, ARGUMENT_TEXT, "%s%s", strchr(name, ' ') ? "" : "argument ", name);
	return text;
}

const char *record_argument(const char *what, const char *argument, char text[static ARGUMENT_TEXT]) {
	for (unsigned i = 0; i < RECORD_OPERANDS; i++)
		if (argument == &record_operands[i])
			return operand_text(what, i, text);
	return argument;
}

/* An operand is NULL where an earlier call failed; that error says more than we could. */
static bool operands_given(const char *what, unsigned first, unsigned count, fusion_array *const *operand) {
	char text[ARGUMENT_TEXT];

	for (unsigned i = 0; i < count; i++) {
		if (operand[i])
			continue;
		object_report(OBJECT_ARRAY, NULL, what, operand_text(what, first + i, text));
		return false;
	}
	return true;
}

/* The array of operand i, which is of the first one's context. */
static int operand_find(struct recording *r, unsigned i, fusion_array *name, struct fusion_array **ap) {
	char text[ARGUMENT_TEXT];
	struct fusion_array *a = (struct fusion_array *)object_find(OBJECT_ARRAY, name);

	if (!a)
		return object_refuse(OBJECT_ARRAY, name, r->what, operand_text(r->what, r->first + i, text), &r->fault);
	if (array_context(a) != r->context)
		return array_refuse_other(a, r->what, operand_text(r->what, r->first + i, text), &r->fault);
	*ap = a;
	return 0;
}

static void operands_drop(struct recording *r) {
	for (unsigned i = 0; i < r->count; i++)
		value_drop(r->context, r->in[i]);
	r->count = 0;
}

static int operand_take(struct recording *r, unsigned i, fusion_array *name) {
	struct fusion_array *a = r->array;
	struct value *v;
	int failed = i ? operand_find(r, i, name, &a) : 0;

	if (!failed)
		failed = array_usable(a, r->what, &r->fault);
	if (!failed)
		failed = capture_operand(r->context, a, r->what, &v, &r->fault);
	if (failed)
		return failed;
	value_ref(v);
	r->in[r->count++] = v;
	return 0;
}

static void recording_init(struct recording *r, const char *what) {
	r->what = what;
	r->count = r->first = 0;
	r->array = NULL;
	r->tracks = !tape_paused();
}

bool record_begin_source(struct recording *r, const char *what, fusion_context *context) {
	recording_init(r, what);
	return !context_enter(context, what, &r->context);
}

struct fusion_array *record_begin_list(struct recording *r, const char *what, fusion_array *array, const char *argument) {
	recording_init(r, what);
	r->array = (struct fusion_array *)context_enter_of(OBJECT_ARRAY, array, what, argument);
	if (!r->array)
		return NULL;
	r->context = array_context(r->array);
	/* Another thread may release it while this one waits. */
	array_use(r->array);
	return r->array;
}

struct fusion_array *record_begin_array(struct recording *r, const char *what, fusion_array *array) {
	return record_begin_list(r, what, array, "the array");
}

static bool record_begin_from(struct recording *r, const char *what, unsigned first, unsigned count, fusion_array *const *operand) {
	int failed = 0;

	if (!operands_given(what, first, count, operand) || !record_begin_list(r, what, operand[0], &record_operands[first]))
		return false;
	r->first = first;
	for (unsigned i = 0; !failed && i < count; i++)
		failed = operand_take(r, i, operand[i]);
	if (!failed)
		return true;
	record_end_code(r, failed);
	return false;
}

bool record_begin(struct recording *r, const char *what, unsigned count, fusion_array *const *operand) {
	return record_begin_from(r, what, 0, count, operand);
}

int record_end_code(struct recording *r, int failed) {
	operands_drop(r);
	if (r->array)
		array_unuse(r->array);
	if (failed == FAULT_MEMORY)
		held_append(r->context, &r->fault);
	context_leave(r->context);
	return error_report(failed, &r->fault);
}

int record_settle(struct recording *r, struct value *v) {
	if (r->context->debug && v->state == VALUE_PENDING)
		return debug_check(r->context, v, &r->fault);
	return flush_if_full(r->context, &r->fault);
}

fusion_array *record_end(struct recording *r, int failed, struct value *v) {
	struct fusion_context *c = r->context;
	struct fusion_array *a = NULL;
	fusion_array *name;

	if (!failed) {
		a = array_make(c, v, &v->type);
		value_drop(c, v);
		failed = a ? record_settle(r, a->value) : -ENOMEM;
	}
	if (failed && a) {
		array_drop(a);
		a = NULL;
	}
	name = array_name(a);
	record_end_code(r, failed);
	return name;
}

/* --- values ------------------------------------------------------------------------------ */

static void enlist(struct fusion_context *c, struct value *v) {
	v->place = place_here();
	if (capture_mine(c) && v->op != OP_load) {
		capture_enlist(c, v);
		return;
	}
	v->state = VALUE_PENDING;
	value_list_append(&c->pending, v);
	c->pending_bytes += flush_value_bytes(v);
	if (v->op == OP_load)
		c->pending_loads += (uint64_t)shape_bytes(&v->type);
}

/* What the table says of an operation that the call makes, said of the call: "full: the extent ...", not "fill: the extent ...". */
static int name_call(struct recording *r, unsigned op, int failed) {
	const char *name;

	if (failed <= 0)
		return failed;
	name = op_info(op)->name;
	/* "add takes arrays of numbers" stays: in the text of an operation that somebody defined it says which one. */
	if (r->fault.text[strlen(name)] == ':')
		fault_rename(&r->fault, name, r->what);
	return failed;
}

int record_value(struct recording *r, unsigned op, unsigned count, struct value *const *in,
	const struct op_attr *attr, struct value **vp) {
	const struct tensor_type *types[LIMIT_OPERANDS];
	struct tensor_type type = { 0 };
	struct value *v;
	int failed;

	for (unsigned i = 0; i < count; i++)
		types[i] = &in[i]->type;
	failed = name_call(r, op, op_infer(op, count, types, attr ? attr : &no_attr, &type, &r->fault));
	if (!failed)
		failed = door_need_operation(&r->context->door, op, r->what, &r->fault);
	if (failed)
		return failed;
	v = value_new(r->context, op, &type, attr);
	if (!v)
		return -ENOMEM;
	v->references = 1;
	v->arity = (uint8_t)count;
	for (unsigned i = 0; i < count; i++) {
		v->in[i] = in[i];
		value_ref(in[i]);
	}
	enlist(r->context, v);
	failed = tape_note(r, v);
	if (failed) {
		value_drop(r->context, v);
		return failed;
	}
	*vp = v;
	return 0;
}

int record_as(struct recording *r, unsigned op, int failed) {
	if (failed > 0)
		fault_rename(&r->fault, op_info(op)->name, r->what);
	return failed;
}

int record_cast(struct recording *r, unsigned i, enum dtype dtype) {
	struct op_attr attr = { .dtype = (uint8_t)dtype };
	struct value *cast;
	int failed;

	if (r->in[i]->type.dtype == dtype)
		return 0;
	failed = record_value(r, OP_cast, 1, &r->in[i], &attr, &cast);
	if (failed)
		return failed;
	value_drop(r->context, r->in[i]);
	r->in[i] = cast;
	return 0;
}

/* The condition of `where` keeps its own type. */
int record_promoted(struct recording *r, unsigned op, const struct op_attr *attr, struct value **vp) {
	unsigned first = op == OP_where;
	enum dtype dtype = r->in[first]->type.dtype;
	int failed = 0;

	for (unsigned i = first + 1; i < r->count; i++)
		if (r->in[i]->type.dtype != dtype)
			dtype = dtype_promote(dtype, r->in[i]->type.dtype);
	for (unsigned i = first; !failed && i < r->count; i++)
		failed = record_cast(r, i, dtype);
	return failed ? failed : record_value(r, op, r->count, r->in, attr, vp);
}

/* --- scalars ----------------------------------------------------------------------------- */

int record_word(struct recording *r, enum dtype dtype, double value, uint64_t *wordp) {
	if (dtype_scalar_exact(dtype, value, wordp))
		return 0;
	return fault_set(&r->fault, FAULT_DTYPE,
		"%s: %.17g is no value of %s; cast the array first, or change the scalar", r->what, value,
		dtype_info(dtype)->name);
}

static bool same_scalar(const struct value *v, enum dtype dtype, uint64_t word) {
	return v && v->type.dtype == dtype && v->attr->value[0] == word;
}

/* Scalars are as common as arrays: those that are pending already are used again. */
static struct value **scalar_entry(struct fusion_context *c, enum dtype dtype, uint64_t word) {
	uint64_t hash = (word ^ ((uint64_t)dtype << 56)) * UINT64_C(0x9e3779b97f4a7c15);

	return &c->scalars[hash >> 60];
}

int record_scalar(struct recording *r, enum dtype dtype, double value, struct value **vp) {
	struct op_attr attr = { .dtype = (uint8_t)dtype };
	struct value **entry;
	int failed = record_word(r, dtype, value, &attr.value[0]);

	if (failed)
		return failed;
	if (capture_mine(r->context))
		return record_value(r, OP_fill, 0, NULL, &attr, vp);
	entry = scalar_entry(r->context, dtype, attr.value[0]);
	if (same_scalar(*entry, dtype, attr.value[0])) {
		value_ref(*entry);
		*vp = *entry;
		return 0;
	}
	failed = record_value(r, OP_fill, 0, NULL, &attr, vp);
	if (!failed)
		*entry = *vp;
	return failed;
}

/* --- elementwise operations -------------------------------------------------------------- */

static fusion_array *record_elementwise(unsigned op, unsigned count, fusion_array *const *operand) {
	struct recording r;
	struct value *v = NULL;
	int failed;

	if (!record_begin(&r, op_info(op)->name, count, operand))
		return NULL;
	failed = record_promoted(&r, op, NULL, &v);
	return record_end(&r, failed, v);
}

fusion_array *record_unary(unsigned op, fusion_array *a) {
	return record_elementwise(op, 1, &a);
}

fusion_array *record_binary(unsigned op, fusion_array *a, fusion_array *b) {
	fusion_array *operand[] = { a, b };

	return record_elementwise(op, 2, operand);
}

fusion_array *record_ternary(unsigned op, fusion_array *a, fusion_array *b, fusion_array *c) {
	fusion_array *operand[] = { a, b, c };

	return record_elementwise(op, 3, operand);
}

/* The scalar becomes operand 0 or 1, in the element type of the array. */
static fusion_array *record_with_scalar(unsigned op, fusion_array *array, double scalar, unsigned where) {
	struct recording r;
	struct value *v = NULL, *s;
	int failed;

	if (!record_begin_from(&r, op_info(op)->name, 1 - where, 1, &array))
		return NULL;
	failed = record_scalar(&r, r.in[0]->type.dtype, scalar, &s);
	if (!failed) {
		r.in[1 - where] = r.in[0];
		r.in[where] = s;
		r.count = 2;
		failed = record_value(&r, op, 2, r.in, NULL, &v);
	}
	return record_end(&r, failed, v);
}

fusion_array *record_binary_scalar(unsigned op, fusion_array *a, double b) {
	return record_with_scalar(op, a, b, 1);
}

fusion_array *record_scalar_binary(unsigned op, double a, fusion_array *b) {
	return record_with_scalar(op, b, a, 0);
}
