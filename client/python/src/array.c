/*
 * The type Array: one reference to a fusion_array, which is a value that never changes.
 *
 * Writing x[...] or x += y gives the object another value; who has the old one - a buffer, an operation recorded before -
 * keeps it. Objects that share memory in NumPy's sense are a family (views.py), which write() in the registry knows.
 */
#include "core.h"

#include <stdlib.h>
#include <string.h>
#include <stddef.h>

bool array_check(PyObject *object) {
	return registry.array && PyObject_TypeCheck(object, registry.array);
}

fusion_array *array_value(PyObject *object, const char *what) {
	if (!array_check(object)) {
		PyErr_Format(PyExc_TypeError, "%s: not a fusion array, but %R", what, (PyObject *)Py_TYPE(object));
		return NULL;
	}
	if (!((struct array *)object)->value)
		PyErr_Format(PyExc_ValueError, "%s: the array has no value", what);
	return ((struct array *)object)->value;
}

_Thread_local uint64_t recording;

bool array_may_change(const PyObject *self, const char *what) {
	if (!recording || ((const struct array *)self)->recording == recording)
		return true;
	PyErr_Format(registry.error[FUSION_E_STATE], "%s: an array from outside cannot be written while a function is recorded: return what it is to become, "
		"and write it where jit's function is called", what);
	return false;
}

PyObject *array_wrap(fusion_array *value) {
	struct array *a;

	if (!value)
		return raise_error();
	a = (struct array *)registry.allocate(registry.array, 0);
	if (!a) {
		fusion_release(value);
		return NULL;
	}
	a->value = value;
	a->recording = recording;
	return (PyObject *)a;
}

/* Copied first: making a tuple may collect garbage, whose code may give the array that is asked another value. */
PyObject *array_shape(const fusion_array *value) {
	int rank = fusion_rank(value);
	int64_t dims[FUSION_MAX_RANK];
	PyObject *shape;

	memcpy(dims, fusion_dims(value), (size_t)rank * sizeof *dims);
	shape = PyTuple_New(rank);

	for (int d = 0; shape && d < rank; d++)
		PyTuple_SetItem(shape, d, PyLong_FromLongLong(dims[d]));
	return shape;
}

/* A sequence of integers, or one. */
static bool take_integers(PyObject *object, const char *what, int most, int *countp, int64_t *out) {
	PyObject *list;
	Py_ssize_t n;

	if (PyIndex_Check(object)) {
		*countp = 1;
		out[0] = PyNumber_AsSsize_t(object, PyExc_OverflowError);
		return !(out[0] == -1 && PyErr_Occurred());
	}
	list = PySequence_Tuple(object);
	n = list ? PyTuple_Size(list) : -1;
	if (n > most) {
		PyErr_Format(registry.error[FUSION_E_RANK], "%s: %zd dimensions are more than %d", what, n, most);
		Py_DECREF(list);
		return false;
	}
	for (Py_ssize_t i = 0; i < n; i++) {
		out[i] = PyNumber_AsSsize_t(PyTuple_GetItem(list, i), PyExc_OverflowError);
		if (out[i] == -1 && PyErr_Occurred())
			n = -1;
	}
	Py_XDECREF(list);
	*countp = (int)n;
	return n >= 0;
}

bool take_dims(PyObject *object, const char *what, int *rankp, int64_t *dims) {
	return take_integers(object, what, FUSION_MAX_RANK, rankp, dims);
}

bool take_axes(PyObject *object, const char *what, int *countp, int *axes) {
	int64_t wide[AXES];

	if (!take_integers(object, what, AXES, countp, wide))
		return false;
	for (int i = 0; i < *countp; i++)
		axes[i] = wide[i] > INT32_MAX || wide[i] < -INT32_MAX ? INT32_MAX : (int)wide[i];
	return true;
}

bool array_read(fusion_array *value, void *memory, size_t bytes) {
	int code;

	fusion_retain(value);
	WAITING(code = fusion_read(value, memory, bytes));
	fusion_release(value);
	if (code || PyErr_Occurred())
		raise_error();
	return !PyErr_Occurred();
}

/* ---- one element ---- */

static PyObject *item_of(PyObject *self, const char *what) {
	fusion_array *value;
	int type;
	uint64_t memory;

	place_note();
	value = ((struct array *)self)->value;
	if (fusion_rank(value)) {
		PyObject *shape = array_shape(value);

		PyErr_Format(PyExc_TypeError, "%s: only an array without dimensions is a number; this one has the shape %R%s", what,
			shape, strcmp(what, "bool") ? "" : "; use any() or all()");
		Py_XDECREF(shape);
		return NULL;
	}
	type = (int)fusion_dtype_of(value);
	return array_read(value, &memory, dtypes[type].bytes) ? element_get(type, &memory) : NULL;
}

static PyObject *array_item(PyObject *self, PyObject *unused) {
	(void)unused;
	return item_of(self, "item");
}

static int array_bool(PyObject *self) {
	PyObject *item = item_of(self, "bool");
	int truth = item ? PyObject_IsTrue(item) : -1;

	Py_XDECREF(item);
	return truth;
}

/* By a function of Python's numbers. */
static PyObject *converted(PyObject *self, const char *what, PyObject *(*convert)(PyObject *)) {
	PyObject *item = item_of(self, what), *result = item ? convert(item) : NULL;

	Py_XDECREF(item);
	return result;
}

static PyObject *array_int(PyObject *self) {
	return converted(self, "int", PyNumber_Long);
}

static PyObject *array_float(PyObject *self) {
	return converted(self, "float", PyNumber_Float);
}

static PyObject *array_index(PyObject *self) {
	char kind = (char)dtypes[fusion_dtype_of(((struct array *)self)->value)].kind;

	if (kind == 'i' || kind == 'u')
		return converted(self, "index", PyNumber_Index);
	return PyErr_Format(PyExc_TypeError, "index: only an array of integers is an index, not one of %s",
		dtypes[fusion_dtype_of(((struct array *)self)->value)].name);
}

static PyObject *array_complex(PyObject *self, PyObject *unused) {
	PyObject *real = array_float(self);
	double d = real ? PyFloat_AsDouble(real) : 0;

	(void)unused;
	if (!real)
		return NULL;
	Py_DECREF(real);
	return PyComplex_FromDoubles(d, 0);
}

/* ---- properties ---- */

static PyObject *get_dtype(PyObject *self, void *unused) {
	(void)unused;
	return Py_NewRef(registry.dtype[fusion_dtype_of(((struct array *)self)->value)]);
}

static PyObject *get_shape(PyObject *self, void *unused) {
	(void)unused;
	return array_shape(((struct array *)self)->value);
}

static PyObject *get_ndim(PyObject *self, void *unused) {
	(void)unused;
	return PyLong_FromLong(fusion_rank(((struct array *)self)->value));
}

static PyObject *get_size(PyObject *self, void *unused) {
	(void)unused;
	return PyLong_FromLongLong(fusion_elements(((struct array *)self)->value));
}

static PyObject *get_nbytes(PyObject *self, void *unused) {
	(void)unused;
	return PyLong_FromSize_t(fusion_bytes(((struct array *)self)->value));
}

static PyObject *get_itemsize(PyObject *self, void *unused) {
	(void)unused;
	return PyLong_FromLong(dtypes[fusion_dtype_of(((struct array *)self)->value)].bytes);
}

static PyObject *get_device(PyObject *self, void *unused) {
	PyObject *number = PyLong_FromVoidPtr(fusion_context_of(((struct array *)self)->value)), *device;

	(void)unused;
	device = number ? PyObject_CallFunctionObjArgs(registry.device, number, NULL) : NULL;
	Py_XDECREF(number);
	return device;
}

static PyObject *get_value(PyObject *self, void *unused) {
	(void)unused;
	return PyLong_FromVoidPtr(((struct array *)self)->value);
}

static PyObject *get_family(PyObject *self, void *unused) {
	PyObject *family = ((struct array *)self)->family;

	(void)unused;
	return Py_NewRef(family ? family : Py_None);
}

static int set_family(PyObject *self, PyObject *family, void *unused) {
	struct array *a = (struct array *)self;
	PyObject *old = a->family;

	(void)unused;
	a->family = family && family != Py_None ? Py_NewRef(family) : NULL;
	Py_XDECREF(old);
	return 0;
}

/* Under the interpreter's lock: calls that sleep, and what objects have lost meanwhile or before those calls had ended. */
static struct {
	unsigned sleepers;
	size_t count, room;
	fusion_array **value;
} lost;

void values_asleep(void) {
	lost.sleepers++;
}

void values_awake(void) {
	lost.sleepers--;
}

void values_settle(void) {
	if (!lost.count || lost.sleepers)
		return;
	while (lost.count)
		fusion_release(lost.value[--lost.count]);
	/* Of a session that was closed meanwhile. */
	fusion_error_clear();
}

/* An object has it no more. False: there is no memory to keep it for who sleeps, and has borrowed it. */
static bool value_goes(fusion_array *value) {
	fusion_array **more;

	if (!lost.sleepers) {
		fusion_release(value);
		return true;
	}
	if (lost.count == lost.room) {
		more = realloc(lost.value, (2 * lost.room + 8) * sizeof(fusion_array *));
		if (!more)
			return false;
		lost.value = more;
		lost.room = 2 * lost.room + 8;
	}
	lost.value[lost.count++] = value;
	return true;
}

/* Another value for this object alone. */
static PyObject *array_set(PyObject *self, PyObject *other) {
	fusion_array *value = array_value(other, "set"), *old = ((struct array *)self)->value;

	if (!value)
		return NULL;
	if (!value_goes(old))
		return PyErr_NoMemory();
	((struct array *)self)->value = fusion_retain(value);
	Py_RETURN_NONE;
}

/* Asked of all whose values a write changes before it changes the first one's. */
static PyObject *array_writable(PyObject *self, PyObject *unused) {
	(void)unused;
	return array_may_change(self, "write") ? Py_NewRef(Py_None) : NULL;
}

static PyObject *array_wait(PyObject *self, PyObject *unused) {
	fusion_array *value;
	int code;

	(void)unused;
	place_note();
	value = fusion_retain(((struct array *)self)->value);
	WAITING(code = fusion_wait(value));
	fusion_release(value);
	return code || PyErr_Occurred() ? raise_error() : Py_NewRef(self);
}

/* ---- life ---- */

static PyObject *array_new(PyTypeObject *type, PyObject *args, PyObject *named) {
	(void)type;
	(void)args;
	(void)named;
	PyErr_SetString(PyExc_TypeError, "arrays are made by fusion.asarray() and the other functions of fusion, not by their class");
	return NULL;
}

static void array_free(PyObject *self) {
	struct array *a = (struct array *)self;
	PyTypeObject *type = Py_TYPE(self);
	freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

	if (a->weak)
		PyObject_ClearWeakRefs(self);
	fusion_release(a->value);
	Py_XDECREF(a->family);
	release(self);
	Py_DECREF(type);
}

static Py_ssize_t array_length(PyObject *self) {
	fusion_array *value = ((struct array *)self)->value;

	if (fusion_rank(value))
		return (Py_ssize_t)fusion_dims(value)[0];
	PyErr_SetString(PyExc_TypeError, "len() of an array without dimensions");
	return -1;
}

static PyGetSetDef properties[] = {
	{ "dtype", get_dtype, NULL, "The type of the elements.", NULL },
	{ "shape", get_shape, NULL, "The extents, a tuple of integers.", NULL },
	{ "ndim", get_ndim, NULL, "The number of dimensions.", NULL },
	{ "size", get_size, NULL, "The number of elements.", NULL },
	{ "nbytes", get_nbytes, NULL, "The size of the elements in bytes.", NULL },
	{ "itemsize", get_itemsize, NULL, "The size of one element in bytes.", NULL },
	{ "device", get_device, NULL, "The device whose memory it lies in.", NULL },
	{ "_value", get_value, NULL, NULL, NULL },
	{ "_family", get_family, set_family, NULL, NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyMethodDef methods[] = {
	{ "item", array_item, METH_NOARGS, "item($self, /)\n--\n\nThe element of an array without dimensions, as a Python number. Waits." },
	{ "wait", array_wait, METH_NOARGS, "wait($self, /)\n--\n\nWaits until the array is computed; returns it." },
	{ "tolist", core_to_list, METH_NOARGS, "tolist($self, /)\n--\n\nThe elements as nested lists of Python numbers. Waits." },
	{ "__complex__", array_complex, METH_NOARGS, NULL },
	{ "_set", array_set, METH_O, NULL },
	{ "_writable", array_writable, METH_NOARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

static PyMemberDef members[] = {
	{ "__weaklistoffset__", T_PYSSIZET, offsetof(struct array, weak), READONLY, NULL },
	{ NULL, 0, 0, 0, NULL },
};

static const PyType_Slot own_slots[] = {
	{ Py_tp_new, array_new },
	{ Py_tp_dealloc, array_free },
	{ Py_tp_getset, properties },
	{ Py_tp_methods, methods },
	{ Py_tp_members, members },
	{ Py_nb_bool, array_bool },
	{ Py_nb_int, array_int },
	{ Py_nb_float, array_float },
	{ Py_nb_index, array_index },
	{ Py_mp_length, array_length },
	{ Py_bf_getbuffer, array_get_buffer },
	{ Py_bf_releasebuffer, array_release_buffer },
	{ Py_tp_doc, (char *)"An array of one element type on a device. Lazy: operations are recorded and run when values are wanted." },
};

PyType_Spec *array_type_spec(void) {
	enum { OWN = sizeof own_slots / sizeof *own_slots, ALL = 64 };
	static PyType_Slot all[ALL];
	static PyType_Spec spec = { "fusion._core.Array", sizeof(struct array), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, all };
	size_t n = OWN;

	memcpy(all, own_slots, sizeof own_slots);
	for (size_t i = 0; array_slots[i].slot && n < ALL - 1; i++)
		all[n++] = array_slots[i];
	return &spec;
}
