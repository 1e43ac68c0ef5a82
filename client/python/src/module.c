/* The module: its functions, and what Python tells it. */
#include "core.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct registry registry;

static void keep(PyObject **place, PyObject *object) {
	PyObject *old = *place;

	*place = Py_NewRef(object);
	Py_XDECREF(old);
}

/* register(array, dtypes, errors, write, device, package) */
static PyObject *core_register(PyObject *self, PyObject *args) {
	PyObject *array, *types, *errors, *write, *device, *key, *value;
	const char *package;
	Py_ssize_t at = 0;

	(void)self;
	if (!PyArg_ParseTuple(args, "OO!O!OOs", &array, &PyTuple_Type, &types, &PyDict_Type, &errors, &write, &device, &package))
		return NULL;
	keep((PyObject **)&registry.array, array);
	registry.allocate = (allocfunc)PyType_GetSlot(registry.array, Py_tp_alloc);
	for (int i = 0; i < DTYPES; i++)
		keep(&registry.dtype[i], PyTuple_GetItem(types, i));
	while (PyDict_Next(errors, &at, &key, &value))
		keep(&registry.error[PyLong_AsLong(key) % ERRORS], value);
	keep(&registry.write, write);
	keep(&registry.device, device);
	free(registry.package);
	registry.package = strdup(package);
	registry.real = FUSION_F64;
	Py_RETURN_NONE;
}

/*
 * Signals come to whoever waits: a handler that raises ends the wait, and what it raised is what raise_error() leaves. Without the
 * interpreter's lock, in a thread that the interpreter knows or does not know.
 */
static bool interrupted(void) {
	PyGILState_STATE state = PyGILState_Ensure();
	bool raised = PyErr_Occurred() || PyErr_CheckSignals();

	PyGILState_Release(state);
	return raised;
}

static PyObject *core_listen(PyObject *self, PyObject *on) {
	(void)self;
	fusion_on_wait(on == Py_True ? interrupted : NULL);
	Py_RETURN_NONE;
}

static PyObject *core_default_real(PyObject *self, PyObject *dtype) {
	int type = dtype_of(dtype);

	(void)self;
	if (type < 0)
		return NULL;
	registry.real = type;
	Py_RETURN_NONE;
}

static PyObject *core_meet(PyObject *self, PyObject *const *args, Py_ssize_t n) {
	int a = n == 2 ? dtype_of(args[0]) : -1, b = a < 0 ? -1 : dtype_of(args[1]);

	(void)self;
	return b < 0 ? NULL : Py_NewRef(registry.dtype[dtype_meet(a, b)]);
}

/* ---- memory of one's own to write in ---- */

struct written {
	fusion_array *value;
};

static void written_free(PyObject *capsule) {
	struct written *w = PyCapsule_GetPointer(capsule, "fusion_writable");

	fusion_release(w->value);
	free(w);
}

/* writable(array) -> (capsule, address): a new array of the same elements, mapped for writing. */
PyObject *core_writable(PyObject *self, PyObject *array) {
	fusion_array *a = array_value(array, "writable");
	struct written *w = a ? calloc(1, sizeof *w) : NULL;
	void *memory;
	int code;

	(void)self;
	if (!w)
		return PyErr_Occurred() ? NULL : PyErr_NoMemory();
	place_note();
	w->value = fusion_copy(a);
	WAITING(code = fusion_map(w->value, FUSION_MAP_WRITE, &memory));
	if (code) {
		fusion_release(w->value);
		free(w);
		return raise_error();
	}
	return Py_BuildValue("(NNn)", PyCapsule_New(w, "fusion_writable", written_free),
		PyMemoryView_FromMemory(memory, (Py_ssize_t)fusion_bytes(w->value), PyBUF_WRITE), (Py_ssize_t)fusion_bytes(w->value));
}

static PyObject *core_written(PyObject *self, PyObject *capsule) {
	struct written *w = PyCapsule_GetPointer(capsule, "fusion_writable");
	int code;

	(void)self;
	if (!w)
		return NULL;
	WAITING(code = fusion_unmap(w->value));
	return code ? raise_error() : array_wrap(fusion_retain(w->value));
}

/* ---- the number after a number: made here, since no device has it ---- */

static double next64(double a, double b) {
	return nextafter(a, b);
}

static bool next_all(int type, size_t count, void *a, const void *b) {
	for (size_t i = 0; i < count; i++) {
		if (type == FUSION_F32)
			((float *)a)[i] = nextafterf(((float *)a)[i], ((const float *)b)[i]);
		else
			((double *)a)[i] = next64(((double *)a)[i], ((const double *)b)[i]);
	}
	return true;
}

/* nextafter(x1, x2): of one shape and type, float32 or float64. Waits. */
PyObject *core_nextafter(PyObject *self, PyObject *const *args, Py_ssize_t n) {
	fusion_array *x = n == 2 ? array_value(args[0], "nextafter") : NULL, *y = x ? array_value(args[1], "nextafter") : NULL;
	size_t bytes = y ? fusion_bytes(y) : 0;
	char *a = malloc(bytes + 1), *b = malloc(bytes + 1);
	PyObject *result = NULL;
	int type;

	(void)self;
	place_note();
	if (y && a && b && (!bytes || (array_read(x, a, bytes) && array_read(y, b, bytes)))) {
		type = (int)fusion_dtype_of(x);
		next_all(type, bytes / dtypes[type].bytes, a, b);
		result = array_wrap(fusion_from(fusion_context_of(x), (enum fusion_dtype)type, fusion_rank(x), fusion_dims(x), a));
	}
	free(a);
	free(b);
	return result;
}

static PyMethodDef own_methods[] = {
	{ "register", core_register, METH_VARARGS, NULL },
	{ "listen", core_listen, METH_O, NULL },
	{ "default_real", core_default_real, METH_O, NULL },
	{ "meet", FAST(core_meet), METH_FASTCALL, NULL },
	{ "from_buffer", FAST(core_from_buffer), METH_FASTCALL, NULL },
	{ "from_bytes", FAST(core_from_bytes), METH_FASTCALL, NULL },
	{ "to_bytes", core_to_bytes, METH_O, NULL },
	{ "from_sequence", FAST(core_from_sequence), METH_FASTCALL, NULL },
	{ "to_dlpack", FAST(core_to_dlpack), METH_FASTCALL, NULL },
	{ "from_dlpack", FAST(core_from_dlpack), METH_FASTCALL, NULL },
	{ "writable", core_writable, METH_O, NULL },
	{ "written", core_written, METH_O, NULL },
	{ "nextafter", FAST(core_nextafter), METH_FASTCALL, NULL },
	{ NULL, NULL, 0, NULL },
};

/* ---- the table of types, as Python sees it ---- */

static PyObject *dtype_table(void) {
	PyObject *table = PyTuple_New(DTYPES);

	for (int i = 0; table && i < DTYPES; i++)
		PyTuple_SetItem(table, i, Py_BuildValue("(sCi)", dtypes[i].name, dtypes[i].kind, 8 * dtypes[i].bytes));
	return table;
}

static int put(PyObject *module, const char *name, PyObject *object) {
	int r = object ? PyModule_AddObjectRef(module, name, object) : -1;

	Py_XDECREF(object);
	return r;
}

static struct PyModuleDef definition = { PyModuleDef_HEAD_INIT, "fusion._core", "libfusion as Python objects.", -1, NULL, NULL, NULL, NULL, NULL };

PyMODINIT_FUNC PyInit__core(void);
PyMODINIT_FUNC PyInit__core(void) {
	PyObject *module = PyModule_Create(&definition);

	if (!module)
		return NULL;
	context_type = (PyTypeObject *)PyType_FromSpec(&context_spec);
	if (PyModule_AddFunctions(module, own_methods) || PyModule_AddFunctions(module, operators_methods())
		|| PyModule_AddFunctions(module, moves_methods) || PyModule_AddFunctions(module, grad_methods)
		|| put(module, "Array", PyType_FromSpec(array_type_spec())) || put(module, "Context", Py_XNewRef((PyObject *)context_type))
		|| put(module, "DTYPES", dtype_table())
		|| put(module, "VERSION", PyUnicode_FromString(FUSION_VERSION))) {
		Py_DECREF(module);
		return NULL;
	}
	return module;
}
