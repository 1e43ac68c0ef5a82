/* Making arrays from data, from shared memory, and from nothing. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "record.h"

enum {
	/* Larger copies run without the lock: other threads go on meanwhile. */
	COPY_UNLOCKED_BYTES = 64 << 10,
};

/* The type and shape that a caller gives, as attributes. */
static int take_type(
	struct recording *r, enum fusion_dtype dtype, int rank, const int64_t *dims, struct op_attr *attr) {
	if ((unsigned)dtype >= DTYPE_COUNT)
		return fault_set(
			&r->fault, FAULT_DTYPE, "%s: element type %d does not exist", r->what, (int)dtype);
	if (rank < 0 || rank > LIMIT_RANK)
		return fault_set(&r->fault, FAULT_RANK, "%s: rank %d is not between 0 and %d", r->what, rank,
			LIMIT_RANK);
	if (rank && !dims)
		return fault_set(&r->fault, FAULT_ARGUMENT, "%s: dims is NULL", r->what);
	*attr = (struct op_attr){ .dtype = (uint8_t)dtype, .rank = (uint8_t)rank };
	for (int d = 0; d < rank; d++)
		attr->dims[d] = dims[d];
	return 0;
}

/* --- uploads ----------------------------------------------------------------------------- */

/* Checks the type and takes memory for an array of it. */
static int load_take(struct recording *r, enum fusion_dtype dtype, int rank, const int64_t *dims,
	struct op_attr *attr, struct tensor_type *type, struct upload_place *place) {
	int failed = take_type(r, dtype, rank, dims, attr);
	char text[SHAPE_TEXT];

	*type = (struct tensor_type){ 0 };
	if (!failed)
		failed = record_as(r, OP_load, op_infer(OP_load, 0, NULL, attr, type, &r->fault));
	if (!failed)
		failed = upload_take(r->context, (uint64_t)shape_bytes(type), place, &r->fault);
	if (failed == FAULT_MEMORY)
		fault_prefix(&r->fault, "%s: no room for %s", r->what, shape_text(type, text));
	if (failed)
		return failed;
	attr->arena = place->arena;
	attr->offset = place->offset;
	return 0;
}

static int copy_in(struct recording *r, void *memory, const void *data, size_t bytes) {
	if (!bytes)
		return 0;
	if (!data)
		return fault_set(&r->fault, FAULT_ARGUMENT, "%s: data is NULL", r->what);
	if (bytes > COPY_UNLOCKED_BYTES)
		pthread_mutex_unlock(&r->context->lock);
	memcpy(memory, data, bytes);
	if (bytes > COPY_UNLOCKED_BYTES)
		pthread_mutex_lock(&r->context->lock);
	return 0;
}

fusion_array *fusion_from(
	fusion_context *context, enum fusion_dtype dtype, int rank, const int64_t *dims, const void *data) {
	struct recording r;
	struct op_attr attr;
	struct tensor_type type;
	struct upload_place place;
	struct value *v = NULL;
	int failed;

	if (!record_begin_source(&r, "from", context))
		return NULL;
	failed = load_take(&r, dtype, rank, dims, &attr, &type, &place);
	if (failed)
		return record_end(&r, failed, v);
	failed = copy_in(&r, place.memory, data, (size_t)shape_bytes(&type));
	if (!failed)
		failed = record_value(&r, OP_load, 0, NULL, &attr, &v);
	if (failed)
		upload_give(&r.context->arenas, place.key);
	return record_end(&r, failed, v);
}

/* A new array that is mapped for writing and has no value yet. NULL: no memory. */
static struct fusion_array *array_mapped(struct fusion_context *c, const struct op_attr *attr,
	const struct tensor_type *type, const struct upload_place *place) {
	struct mapping *m = calloc(1, sizeof *m);
	struct fusion_array *a = m ? array_make(c, NULL, type) : NULL;

	if (!a) {
		free(m);
		return NULL;
	}
	*m = (struct mapping){ .mode = FUSION_MAP_WRITE, .count = 1, .upload = place->key, .load = *attr };
	m->memory = place->memory;
	m->arena = upload_pin(&c->arenas, place->arena);
	a->mapping = m;
	a->version = 0;
	return a;
}

fusion_array *fusion_create(
	fusion_context *context, enum fusion_dtype dtype, int rank, const int64_t *dims, void **memoryp) {
	struct recording r;
	struct op_attr attr;
	struct tensor_type type;
	struct upload_place place;
	struct fusion_array *a = NULL;
	fusion_array *name;
	int failed;

	if (!record_begin_source(&r, "create", context))
		return NULL;
	failed = memoryp ? load_take(&r, dtype, rank, dims, &attr, &type, &place)
			 : fault_set(&r.fault, FAULT_ARGUMENT, "create: memoryp is NULL");
	if (!failed) {
		a = array_mapped(r.context, &attr, &type, &place);
		*memoryp = place.memory;
		failed = a ? 0 : -ENOMEM;
		if (failed)
			upload_give(&r.context->arenas, place.key);
	}
	name = array_name(a);
	record_end_code(&r, failed);
	return name;
}

/* --- one value, or counting -------------------------------------------------------------- */

static fusion_array *full(
	fusion_context *context, const char *what, enum fusion_dtype dtype, int rank, const int64_t *dims, double value) {
	struct recording r;
	struct op_attr attr;
	struct value *v = NULL;
	int failed;

	if (!record_begin_source(&r, what, context))
		return NULL;
	failed = take_type(&r, dtype, rank, dims, &attr);
	if (!failed)
		failed = record_word(&r, attr.dtype, value, &attr.value[0]);
	if (!failed)
		failed = record_value(&r, OP_fill, 0, NULL, &attr, &v);
	return record_end(&r, failed, v);
}

fusion_array *fusion_full(
	fusion_context *context, enum fusion_dtype dtype, int rank, const int64_t *dims, double value) {
	return full(context, "full", dtype, rank, dims, value);
}

/* Integers that a double cannot hold, too. */
static int integer_word(struct recording *r, enum dtype dtype, int64_t value, uint64_t *wordp) {
	bool negative = value < 0 && dtype_info(dtype)->kind == DTYPE_KIND_UINT;

	*wordp = dtype_scalar_from_int(dtype, value);
	if (dtype_info(dtype)->kind == DTYPE_KIND_REAL)
		return 0;
	if (!negative && (int64_t)*wordp == value)
		return 0;
	return fault_set(&r->fault, FAULT_DTYPE, "%s: %lld is no value of %s", r->what, (long long)value,
		dtype_info(dtype)->name);
}

fusion_array *fusion_full_int(
	fusion_context *context, enum fusion_dtype dtype, int rank, const int64_t *dims, int64_t value) {
	struct recording r;
	struct op_attr attr;
	struct value *v = NULL;
	int failed;

	if (!record_begin_source(&r, "full_int", context))
		return NULL;
	failed = take_type(&r, dtype, rank, dims, &attr);
	if (!failed)
		failed = integer_word(&r, attr.dtype, value, &attr.value[0]);
	if (!failed)
		failed = record_value(&r, OP_fill, 0, NULL, &attr, &v);
	return record_end(&r, failed, v);
}

fusion_array *fusion_scalar(fusion_context *context, enum fusion_dtype dtype, double value) {
	return full(context, "scalar", dtype, 0, NULL, value);
}

fusion_array *fusion_arange(
	fusion_context *context, enum fusion_dtype dtype, int64_t n, double start, double step) {
	struct recording r;
	struct op_attr attr;
	struct value *v = NULL;
	int failed;

	if (!record_begin_source(&r, "arange", context))
		return NULL;
	failed = n < 0 ? fault_set(&r.fault, FAULT_ARGUMENT, "arange: n is %lld, below 0", (long long)n) : take_type(&r, dtype, 1, &n, &attr);
	if (!failed)
		failed = record_word(&r, attr.dtype, start, &attr.value[0]);
	if (!failed)
		failed = record_word(&r, attr.dtype, step, &attr.value[1]);
	if (!failed)
		failed = record_value(&r, OP_arange, 0, NULL, &attr, &v);
	return record_end(&r, failed, v);
}
