/*
 * DLPack (dmlc/dlpack, versions 0.8 and 1.x) both ways, in host memory.
 *
 * Out: a consumer that knows version 1 gets the array's own shared memory, marked as read-only, because values never
 * change; one that does not cannot be told, and gets a copy that is its own. In: the tensor is copied into
 * shared memory, whatever its strides are.
 */
#include "core.h"

#include <stdlib.h>
#include <string.h>

enum { CPU = 1, CUDA_HOST = 3, READ_ONLY = 1, COPIED = 2 };

struct tensor {
	void *data;
	struct { int32_t type, id; } device;
	int32_t ndim;
	struct { uint8_t code, bits; uint16_t lanes; } dtype;
	int64_t *shape, *strides;
	uint64_t byte_offset;
};

struct managed {
	struct tensor tensor;
	void *context;
	void (*deleter)(struct managed *);
};

struct versioned {
	struct { uint32_t major, minor; } version;
	void *context;
	void (*deleter)(struct versioned *);
	uint64_t flags;
	struct tensor tensor;
};

/* ---- out ---- */

struct lent {
	union {
		struct managed managed;
		struct versioned versioned;
	};
	fusion_array *value;      /* mapped, or NULL where memory is a copy */
	void *memory;
	int64_t shape[FUSION_MAX_RANK], strides[FUSION_MAX_RANK];
};

static void lent_free(struct lent *l) {
	if (l->value) {
		fusion_unmap(l->value);
		fusion_release(l->value);
	} else {
		free(l->memory);
	}
	free(l);
}

static void delete_managed(struct managed *m) {
	lent_free(m->context);
}

static void delete_versioned(struct versioned *v) {
	lent_free(v->context);
}

/* Whoever takes a capsule renames it. */
static void capsule_free(PyObject *capsule) {
	struct managed *m;
	struct versioned *v;

	if (PyCapsule_IsValid(capsule, "dltensor") && (m = PyCapsule_GetPointer(capsule, "dltensor")))
		m->deleter(m);
	if (PyCapsule_IsValid(capsule, "dltensor_versioned") && (v = PyCapsule_GetPointer(capsule, "dltensor_versioned")))
		v->deleter(v);
}

static void describe(struct lent *l, fusion_array *value, struct tensor *t) {
	const struct dtype_row *type = &dtypes[fusion_dtype_of(value)];
	int64_t step = 1;

	*t = (struct tensor){ .data = l->memory, .device = { CPU, 0 }, .ndim = fusion_rank(value), .dtype = { type->code, type->bits, 1 },
		.shape = l->shape, .strides = l->strides };
	for (int d = t->ndim - 1; d >= 0; d--) {
		l->shape[d] = fusion_dims(value)[d];
		l->strides[d] = step;
		step *= l->shape[d];
	}
}

/* Maps or copies; without the interpreter's lock while it waits. */
static bool lend(struct lent *l, fusion_array *value, bool copy) {
	size_t bytes = fusion_bytes(value);
	int code = 0;

	if (copy || !bytes) {
		l->memory = malloc(bytes + 1);
		return l->memory && (!bytes || array_read(value, l->memory, bytes));
	}
	WAITING(code = fusion_map(value, FUSION_MAP_READ, &l->memory));
	if (code || PyErr_Occurred())
		return raise_error() != NULL;
	l->value = fusion_retain(value);
	return true;
}

static PyObject *capsule_of(fusion_array *value, bool versioned, bool copy) {
	struct lent *l = calloc(1, sizeof *l);

	if (!l)
		return PyErr_NoMemory();
	if (!lend(l, value, copy || !versioned)) {
		if (!l->value)
			free(l->memory);
		free(l);
		return PyErr_Occurred() ? NULL : PyErr_NoMemory();
	}
	if (!versioned) {
		describe(l, value, &l->managed.tensor);
		l->managed.context = l;
		l->managed.deleter = delete_managed;
		return PyCapsule_New(&l->managed, "dltensor", capsule_free);
	}
	describe(l, value, &l->versioned.tensor);
	l->versioned.version.major = 1;
	l->versioned.context = l;
	l->versioned.deleter = delete_versioned;
	l->versioned.flags = l->value ? READ_ONLY : COPIED;
	return PyCapsule_New(&l->versioned, "dltensor_versioned", capsule_free);
}

/* to_dlpack(array, versioned, copy) */
PyObject *core_to_dlpack(PyObject *self, PyObject *const *args, Py_ssize_t n) {
	fusion_array *value;
	PyObject *capsule;

	(void)self;
	if (n != 3)
		return PyErr_Format(PyExc_TypeError, "_core.to_dlpack(array, versioned, copy)");
	place_note();
	value = fusion_retain(array_value(args[0], "__dlpack__"));
	capsule = value ? capsule_of(value, args[1] == Py_True, args[2] == Py_True) : NULL;
	fusion_release(value);
	return capsule;
}

/* ---- in ---- */

static int type_of(const struct tensor *t) {
	for (int i = 0; i < DTYPES; i++)
		if (dtypes[i].code == t->dtype.code && dtypes[i].bits == t->dtype.bits && t->dtype.lanes == 1)
			return i;
	return -1;
}

/* A copy of strided elements, row-major. */
static void gather(const struct tensor *t, int d, size_t bytes, const uint8_t *from, uint8_t **to) {
	if (d == t->ndim) {
		memcpy(*to, from, bytes);
		*to += bytes;
		return;
	}
	for (int64_t i = 0; i < t->shape[d]; i++)
		gather(t, d + 1, bytes, from + i * t->strides[d] * (int64_t)bytes, to);
}

static bool contiguous(const struct tensor *t) {
	int64_t step = 1;

	for (int d = t->ndim - 1; t->strides && d >= 0; d--) {
		if (t->shape[d] != 1 && t->strides[d] != step)
			return false;
		step *= t->shape[d];
	}
	return true;
}

static PyObject *copy_of(fusion_context *c, const struct tensor *t) {
	int type = type_of(t);
	fusion_array *value;
	void *memory;
	uint8_t *to;

	if (t->device.type != CPU && t->device.type != CUDA_HOST)
		return PyErr_Format(PyExc_BufferError, "from_dlpack: the tensor is in the memory of another device (kind %d): copy it to the host first",
			(int)t->device.type);
	if (type < 0)
		return raise_dtype("from_dlpack", "no element type of fusion has the kind %u and %u bits%s", t->dtype.code, t->dtype.bits,
			t->dtype.code == 5 ? ": complex numbers are not supported" : "");
	if (t->ndim > FUSION_MAX_RANK)
		return PyErr_Format(registry.error[FUSION_E_RANK], "from_dlpack: %d dimensions are more than %d", (int)t->ndim, FUSION_MAX_RANK);
	value = fusion_create(c, (enum fusion_dtype)type, t->ndim, t->shape, &memory);
	if (!value)
		return raise_error();
	to = memory;
	if (fusion_bytes(value) && contiguous(t))
		memcpy(to, (const uint8_t *)t->data + t->byte_offset, fusion_bytes(value));
	else if (fusion_bytes(value))
		gather(t, 0, dtypes[type].bytes, (const uint8_t *)t->data + t->byte_offset, &to);
	if (!fusion_unmap(value))
		return array_wrap(value);
	fusion_release(value);
	return raise_error();
}

/* from_dlpack(context, capsule) */
PyObject *core_from_dlpack(PyObject *self, PyObject *const *args, Py_ssize_t n) {
	fusion_context *c = n == 2 ? context_of(args[0]) : NULL;
	struct versioned *v;
	struct managed *m;
	PyObject *result;

	(void)self;
	if (!c)
		return NULL;
	place_note();
	if (PyCapsule_IsValid(args[1], "dltensor_versioned")) {
		v = PyCapsule_GetPointer(args[1], "dltensor_versioned");
		if (v->version.major > 1)
			return PyErr_Format(PyExc_BufferError, "from_dlpack: DLPack version %u is not known", v->version.major);
		result = copy_of(c, &v->tensor);
		PyCapsule_SetName(args[1], "used_dltensor_versioned");
		if (v->deleter)
			v->deleter(v);
		return result;
	}
	m = PyCapsule_GetPointer(args[1], "dltensor");
	if (!m)
		return NULL;
	result = copy_of(c, &m->tensor);
	PyCapsule_SetName(args[1], "used_dltensor");
	if (m->deleter)
		m->deleter(m);
	return result;
}
