/*
 * Values between Python and arrays: buffers (NumPy), nested lists, and the array's own memory as a buffer.
 *
 * A buffer of an array is a map for reading of the value that the array has then: its shared memory, nothing is copied. The
 * value is held until the last buffer goes, and never changes: x += 1 gives the array another one. What
 * comes in is copied once, into shared memory.
 */
#include "core.h"

#include <stdlib.h>
#include <string.h>

/* ---- out: the buffer protocol ---- */

struct lent {
	fusion_array *value;
	Py_ssize_t shape[FUSION_MAX_RANK], strides[FUSION_MAX_RANK];
};

static void lay_out(struct lent *l, Py_ssize_t bytes) {
	for (int d = fusion_rank(l->value) - 1; d >= 0; d--) {
		l->shape[d] = (Py_ssize_t)fusion_dims(l->value)[d];
		l->strides[d] = bytes;
		bytes *= l->shape[d];
	}
}

int array_get_buffer(PyObject *self, Py_buffer *view, int flags) {
	static char nothing[8];
	fusion_array *value;
	const struct dtype_row *type;
	struct lent *l;
	void *memory = nothing;
	int code = 0;

	view->obj = NULL;
	if (flags & PyBUF_WRITABLE) {
		PyErr_SetString(PyExc_BufferError, "the memory of an array is lent for reading alone; fusion.writable(x) lends it for writing");
		return -1;
	}
	place_note();
	value = ((struct array *)self)->value;
	type = &dtypes[fusion_dtype_of(value)];
	if (!type->format) {
		PyErr_Format(PyExc_BufferError, "buffers have no format for %s", type->name);
		return -1;
	}
	l = calloc(1, sizeof *l);
	if (!l) {
		PyErr_NoMemory();
		return -1;
	}
	fusion_retain(value);
	if (fusion_bytes(value))
		WAITING(code = fusion_map(value, FUSION_MAP_READ, &memory));
	if (code || PyErr_Occurred()) {
		fusion_release(value);
		free(l);
		raise_error();
		return -1;
	}
	l->value = value;
	lay_out(l, type->bytes);
	*view = (Py_buffer){ .obj = Py_NewRef(self), .buf = memory, .len = (Py_ssize_t)fusion_bytes(value), .readonly = 1,
		.itemsize = type->bytes, .format = flags & PyBUF_FORMAT ? (char *)type->format : NULL, .ndim = fusion_rank(value),
		.shape = flags & PyBUF_ND ? l->shape : NULL, .strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? l->strides : NULL,
		.internal = l };
	return 0;
}

void array_release_buffer(PyObject *self, Py_buffer *view) {
	struct lent *l = view->internal;

	(void)self;
	if (fusion_bytes(l->value))
		fusion_unmap(l->value);
	fusion_release(l->value);
	free(l);
}

/* ---- out: lists ---- */

static PyObject *list_from(int type, int rank, const int64_t *dims, const uint8_t **memory) {
	PyObject *list;

	if (!rank) {
		PyObject *element = element_get(type, *memory);

		*memory += dtypes[type].bytes;
		return element;
	}
	list = PyList_New((Py_ssize_t)*dims);
	for (int64_t i = 0; list && i < *dims; i++) {
		PyObject *entry = list_from(type, rank - 1, dims + 1, memory);

		if (!entry)
			Py_CLEAR(list);
		else
			PyList_SetItem(list, (Py_ssize_t)i, entry);
	}
	return list;
}

PyObject *core_to_list(PyObject *self, PyObject *unused) {
	fusion_array *value;
	uint8_t *memory;
	const uint8_t *at;
	PyObject *list = NULL;
	size_t bytes;

	(void)unused;
	place_note();
	value = fusion_retain(((struct array *)self)->value);
	bytes = fusion_bytes(value);
	at = memory = malloc(bytes + 1);
	if (!memory)
		PyErr_NoMemory();
	else if (!bytes || array_read(value, memory, bytes))
		list = list_from((int)fusion_dtype_of(value), fusion_rank(value), fusion_dims(value), &at);
	free(memory);
	fusion_release(value);
	return list;
}

/* ---- in: buffers ---- */

static PyObject *upload(fusion_context *c, int type, Py_buffer *view) {
	int64_t dims[FUSION_MAX_RANK], bytes = dtypes[type].bytes;
	fusion_array *value;
	void *memory;
	int code = 0;

	if (view->ndim > FUSION_MAX_RANK)
		return PyErr_Format(registry.error[FUSION_E_RANK], "asarray: %d dimensions are more than %d", view->ndim, FUSION_MAX_RANK);
	for (int d = 0; d < view->ndim; d++)
		if ((dims[d] = view->shape[d]) < 0 || __builtin_mul_overflow(bytes, dims[d], &bytes))
			bytes = INT64_MIN;
	/* Whoever made the buffer may be wrong about it. */
	if (view->itemsize != dtypes[type].bytes || view->len != bytes)
		return PyErr_Format(PyExc_BufferError, "asarray: a buffer of %zd bytes with elements of %zd does not hold what its format \"%s\" "
			"and its shape say", view->len, view->itemsize, view->format ? view->format : "B");
	value = fusion_create(c, (enum fusion_dtype)type, view->ndim, dims, &memory);
	if (!value)
		return raise_error();
	if (view->len && PyBuffer_ToContiguous(memory, view, view->len, 'C')) {
		fusion_release(value);
		return NULL;
	}
	WAITING(code = fusion_unmap(value));
	if (!code)
		return array_wrap(value);
	fusion_release(value);
	return raise_error();
}

PyObject *array_from_buffer(fusion_context *c, PyObject *object) {
	const char *format;
	PyObject *result;
	Py_buffer view;
	int type;

	if (PyObject_GetBuffer(object, &view, PyBUF_FULL_RO))
		return NULL;
	place_note();
	format = view.format ? view.format : "B";
	type = dtype_from_format(format, view.itemsize);
	if (type < 0)
		result = raise_dtype("asarray", "no element type of fusion is laid out as \"%s\" in %zd bytes%s", format, view.itemsize,
			strchr(format, 'Z') ? ": complex numbers are not supported" : *format == '>' ? ": not in this machine's order of bytes" : "");
	else
		result = upload(c, type, &view);
	PyBuffer_Release(&view);
	return result;
}

/* from_buffer(context, object) */
PyObject *core_from_buffer(PyObject *self, PyObject *const *args, Py_ssize_t n) {
	fusion_context *c = n == 2 ? context_of(args[0]) : NULL;

	(void)self;
	return c ? array_from_buffer(c, args[1]) : NULL;
}

/* from_bytes(context, dtype, dims, buffer): elements as they lie in memory, of any type. */
PyObject *core_from_bytes(PyObject *self, PyObject *const *args, Py_ssize_t n) {
	fusion_context *c = n == 4 ? context_of(args[0]) : NULL;
	int type = c ? dtype_of(args[1]) : -1, rank, code;
	int64_t dims[FUSION_MAX_RANK];
	fusion_array *value;
	Py_buffer view;
	void *memory;

	(void)self;
	if (type < 0 || !take_dims(args[2], "from_bytes", &rank, dims) || PyObject_GetBuffer(args[3], &view, PyBUF_SIMPLE))
		return NULL;
	place_note();
	value = fusion_create(c, (enum fusion_dtype)type, rank, dims, &memory);
	if (!value || (Py_ssize_t)fusion_bytes(value) != view.len) {
		if (value)
			PyErr_Format(PyExc_ValueError, "from_bytes: %zd bytes for an array of %zu", view.len, fusion_bytes(value));
		fusion_release(value);
		PyBuffer_Release(&view);
		return PyErr_Occurred() ? NULL : raise_error();
	}
	WAITING(memcpy(memory, view.buf, (size_t)view.len); code = fusion_unmap(value));
	PyBuffer_Release(&view);
	if (!code)
		return array_wrap(value);
	fusion_release(value);
	return raise_error();
}

/* to_bytes(array) */
PyObject *core_to_bytes(PyObject *self, PyObject *array) {
	fusion_array *value;
	PyObject *bytes;

	(void)self;
	place_note();
	value = array_value(array, "to_bytes");
	bytes = value ? PyBytes_FromStringAndSize(NULL, (Py_ssize_t)fusion_bytes(value)) : NULL;
	if (bytes && fusion_bytes(value) && !array_read(value, PyBytes_AsString(bytes), (size_t)PyBytes_Size(bytes)))
		Py_CLEAR(bytes);
	return bytes;
}

/* ---- in: lists ---- */

struct found {
	int rank;
	int64_t dims[FUSION_MAX_RANK];
	int kind;                 /* 0 bool, 1 integers, 2 reals */
	bool unsigned_;           /* an integer above the largest of int64 */
};

static bool is_list(PyObject *o) {
	return PyList_Check(o) || PyTuple_Check(o);
}

/* Ours; NULL and IndexError where an element's own code has shortened the list. */
static PyObject *list_item(PyObject *list, Py_ssize_t i) {
	return Py_XNewRef(PyList_Check(list) ? PyList_GetItem(list, i) : PyTuple_GetItem(list, i));
}

static Py_ssize_t list_size(PyObject *list) {
	return PyList_Check(list) ? PyList_Size(list) : PyTuple_Size(list);
}

/* The extents that the first elements have. */
static bool find_shape(PyObject *o, struct found *f) {
	PyObject *first;
	bool found;

	if (!is_list(o))
		return true;
	if (f->rank == FUSION_MAX_RANK) {
		PyErr_Format(registry.error[FUSION_E_RANK], "asarray: lists are nested deeper than %d", FUSION_MAX_RANK);
		return false;
	}
	f->dims[f->rank++] = list_size(o);
	if (!list_size(o))
		return true;
	first = list_item(o, 0);
	found = first && find_shape(first, f);
	Py_XDECREF(first);
	return found;
}

/* 3: not a number. */
static int kind_of(PyObject *o, struct found *f) {
	int overflow;

	if (PyBool_Check(o))
		return 0;
	if (PyFloat_Check(o))
		return 2;
	if (!PyLong_Check(o))
		return PyIndex_Check(o) ? 1 : !PyComplex_Check(o) && PyNumber_Check(o) ? 2 : 3;
	PyLong_AsLongLongAndOverflow(o, &overflow);
	f->unsigned_ |= overflow > 0;
	return 1;
}

static bool find_kind(PyObject *o, int depth, struct found *f) {
	if (depth == f->rank) {
		int kind = is_list(o) ? 4 : kind_of(o, f);

		if (kind == 4)
			PyErr_SetString(registry.error[FUSION_E_SHAPE], "asarray: some lists are nested deeper than others");
		if (kind == 3)
			PyErr_Format(registry.error[FUSION_E_DTYPE], "asarray: %R is %s", o,
				PyComplex_Check(o) ? "complex: complex numbers are not supported" : "not a number");
		if (kind > f->kind)
			f->kind = kind;
		return kind < 3;
	}
	if (!is_list(o) || list_size(o) != f->dims[depth]) {
		PyErr_Format(registry.error[FUSION_E_SHAPE], "asarray: obj has lists of different lengths at depth %d", depth);
		return false;
	}
	for (Py_ssize_t i = 0; i < f->dims[depth]; i++) {
		PyObject *item = list_item(o, i);
		bool right = item && find_kind(item, depth + 1, f);

		Py_XDECREF(item);
		if (!right)
			return false;
	}
	return true;
}

/* Elements may run code of their own, which may change the lists that they stand in. */
static bool fill(PyObject *o, int depth, const struct found *f, int type, uint8_t **memory) {
	if (depth == f->rank) {
		bool right = element_set(type, *memory, o);

		*memory += dtypes[type].bytes;
		return right;
	}
	for (Py_ssize_t i = 0; i < f->dims[depth]; i++) {
		PyObject *item = is_list(o) && list_size(o) == f->dims[depth] ? list_item(o, i) : NULL;
		bool right = item && fill(item, depth + 1, f, type, memory);

		Py_XDECREF(item);
		if (!item && !PyErr_Occurred())
			PyErr_SetString(PyExc_RuntimeError, "asarray: a list changed while it was read");
		if (!right)
			return false;
	}
	return true;
}

static int default_type(const struct found *f) {
	bool empty = false;

	for (int d = 0; d < f->rank; d++)
		empty |= !f->dims[d];
	return empty || f->kind == 2 ? registry.real : f->kind == 0 ? FUSION_BOOL : f->unsigned_ ? FUSION_U64 : FUSION_I64;
}

/* from_sequence(context, object, dtype or None): nested lists and tuples of numbers, or a number. */
PyObject *core_from_sequence(PyObject *self, PyObject *const *args, Py_ssize_t n) {
	fusion_context *c = n == 3 ? context_of(args[0]) : NULL;
	struct found f = { 0 };
	fusion_array *value, *cast;
	int type, held;
	void *memory;
	uint8_t *at;

	(void)self;
	if (!c || !find_shape(args[1], &f) || !find_kind(args[1], 0, &f))
		return NULL;
	type = args[2] == Py_None ? default_type(&f) : dtype_of(args[2]);
	if (type < 0)
		return NULL;
	if (f.kind == 2 && dtypes[type].kind != 'f' && dtypes[type].kind != 'b')
		return raise_dtype("asarray", "numbers with fractions are no values of %s", dtypes[type].name);
	place_note();
	held = type == FUSION_F16 || type == FUSION_BF16 ? FUSION_F32 : type;
	value = fusion_create(c, (enum fusion_dtype)held, f.rank, f.dims, &memory);
	if (!value)
		return raise_error();
	at = memory;
	if (!fill(args[1], 0, &f, held, &at) || fusion_unmap(value)) {
		fusion_release(value);
		return PyErr_Occurred() ? NULL : raise_error();
	}
	if (held == type)
		return array_wrap(value);
	cast = fusion_cast(value, (enum fusion_dtype)type);
	fusion_release(value);
	return array_wrap(cast);
}
