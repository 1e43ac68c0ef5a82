/*
 * Memory lent for writing: what fusion.writable() gives.
 *
 * An object of type Lent is a new array of the same elements, mapped for writing, and the owner of every buffer of it. When the
 * block ends the array becomes the user's, where nobody has a buffer any more. Where somebody does (NumPy's arrays are
 * kept easily) the user's array gets a copy, and the memory stays with the buffers: what is written there later is seen
 * by nobody else, and is memory until the last of them goes, whatever becomes of the session.
 */
#include "core.h"

struct lent {
	PyObject_HEAD
	fusion_array *value;      /* mapped; NULL: given away */
	void *memory;
	Py_ssize_t buffers;
	Py_ssize_t shape[FUSION_MAX_RANK], strides[FUSION_MAX_RANK];
};

static PyTypeObject *lent_type;

static PyObject *lent_new(PyTypeObject *type, PyObject *args, PyObject *named) {
	(void)type;
	(void)args;
	(void)named;
	PyErr_SetString(PyExc_TypeError, "fusion.writable() lends memory");
	return NULL;
}

static void lent_free(PyObject *self) {
	PyTypeObject *type = Py_TYPE(self);
	freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

	fusion_release(((struct lent *)self)->value);
	release(self);
	Py_DECREF(type);
}

/* Types without a format of Python's are lent as bytes. */
static int lent_get_buffer(PyObject *self, Py_buffer *view, int flags) {
	struct lent *l = (struct lent *)self;
	const struct dtype_row *type = &dtypes[fusion_dtype_of(l->value)];
	bool bytes = !type->format;

	view->obj = NULL;
	if (!l->value) {
		PyErr_SetString(PyExc_BufferError, "the block of fusion.writable() has ended");
		return -1;
	}
	*view = (Py_buffer){ .obj = Py_NewRef(self), .buf = l->memory, .len = (Py_ssize_t)fusion_bytes(l->value),
		.itemsize = bytes ? 1 : type->bytes, .format = flags & PyBUF_FORMAT ? (char *)(bytes ? "B" : type->format) : NULL,
		.ndim = bytes ? 1 : fusion_rank(l->value), .shape = flags & PyBUF_ND ? l->shape : NULL,
		.strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? l->strides : NULL };
	l->buffers++;
	return 0;
}

static void lent_release_buffer(PyObject *self, Py_buffer *view) {
	(void)view;
	((struct lent *)self)->buffers--;
}

static const PyType_Slot slots[] = {
	{ Py_tp_new, lent_new },
	{ Py_tp_dealloc, lent_free },
	{ Py_bf_getbuffer, lent_get_buffer },
	{ Py_bf_releasebuffer, lent_release_buffer },
	{ 0, NULL },
};
static PyType_Spec spec = { "fusion._core.Lent", sizeof(struct lent), 0, Py_TPFLAGS_DEFAULT, (PyType_Slot *)slots };

bool lent_make_type(void) {
	if (!lent_type)
		lent_type = (PyTypeObject *)PyType_FromSpec(&spec);
	return lent_type != NULL;
}

static void lay_out(struct lent *l) {
	const struct dtype_row *type = &dtypes[fusion_dtype_of(l->value)];
	Py_ssize_t bytes = type->bytes;

	if (!type->format) {
		l->shape[0] = (Py_ssize_t)fusion_bytes(l->value);
		l->strides[0] = 1;
		return;
	}
	for (int d = fusion_rank(l->value) - 1; d >= 0; d--) {
		l->shape[d] = (Py_ssize_t)fusion_dims(l->value)[d];
		l->strides[d] = bytes;
		bytes *= l->shape[d];
	}
}

/* writable(array): a Lent of its elements. */
PyObject *core_writable(PyObject *self, PyObject *array) {
	static char nothing[8];
	struct lent *l;
	fusion_array *a;
	int code = 0;

	(void)self;
	place_note();
	a = array_value(array, "writable");
	l = a ? (struct lent *)((allocfunc)PyType_GetSlot(lent_type, Py_tp_alloc))(lent_type, 0) : NULL;
	if (!l)
		return NULL;
	l->memory = nothing;
	l->value = fusion_copy(a);
	if (fusion_bytes(l->value))
		WAITING(code = fusion_map(l->value, FUSION_MAP_WRITE, &l->memory));
	if (!l->value || code || PyErr_Occurred()) {
		Py_DECREF(l);
		return raise_error();
	}
	lay_out(l);
	return (PyObject *)l;
}

static fusion_array *copied(const struct lent *l) {
	return fusion_from(fusion_context_of(l->value), fusion_dtype_of(l->value), fusion_rank(l->value), fusion_dims(l->value), l->memory);
}

/* written(lent): the array of what was written. */
PyObject *core_written(PyObject *self, PyObject *object) {
	struct lent *l = (struct lent *)object;
	fusion_array *value;
	int code = 0;

	(void)self;
	if (!PyObject_TypeCheck(object, lent_type) || !l->value)
		return PyErr_Format(PyExc_TypeError, "written: nothing is lent");
	place_note();
	if (l->buffers)
		return array_wrap(copied(l));
	value = l->value;
	l->value = NULL;
	if (fusion_bytes(value))
		WAITING(code = fusion_unmap(value));
	if (!code)
		return array_wrap(value);
	fusion_release(value);
	return raise_error();
}
