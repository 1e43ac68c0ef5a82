/* The module: its functions, and what Python tells it. */
#include "core.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct registry registry;

static void keep(PyObject **place, PyObject *object) {
	PyObject *old = *place;

	*place = Py_NewRef(object);
	Py_XDECREF(old);
}

/*
 * What the package registers is kept for the process, so one interpreter has it: the first, since a thread that waits asks with
 * PyGILState_Ensure() for signals, which in others asks for a lock that the thread has already.
 */
static bool main_interpreter(void) {
	if (!PyInterpreterState_GetID(PyInterpreterState_Get()))
		return true;
	PyErr_SetString(PyExc_ImportError, "fusion works in the main interpreter of a process alone, not in subinterpreters: use threads or processes");
	return false;
}

/* register(array, dtypes, errors, write, device, package) */
static PyObject *core_register(PyObject *self, PyObject *args) {
	PyObject *array, *types, *errors, *write, *device, *key, *value;
	const char *package;
	Py_ssize_t at = 0;

	(void)self;
	if (!main_interpreter() || !PyArg_ParseTuple(args, "OO!O!OOs", &array, &PyTuple_Type, &types, &PyDict_Type, &errors, &write, &device, &package))
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
	bool raised;
	PyObject *told;

	/* What runs here runs in the middle of the call that waits. */
	values_asleep();
	raised = PyErr_Occurred() || PyErr_CheckSignals();
	told = raised || !registry.waiting ? NULL : PyObject_CallNoArgs(registry.waiting);
	/* A signal's handler may have run in there. */
	raised = PyErr_Occurred();
	Py_XDECREF(told);
	values_awake();
	PyGILState_Release(state);
	return raised;
}

_Thread_local bool without_lock;

/* Not of the limited API; where it cannot be asked nothing is given up. */
static PyThreadState *(*running)(void);

static void find_running(void) {
	void *function = dlsym(RTLD_DEFAULT, "PyThreadState_GetUnchecked");

	/* As it was called before 3.13. */
	running = (PyThreadState *(*)(void))(uintptr_t)(function ? function : dlsym(RTLD_DEFAULT, "_PyThreadState_UncheckedGet"));
}

/* Does this thread have the interpreter's lock? PyGILState_Check() says so of all threads, once the process had a second interpreter. */
static bool has_lock(void) {
	PyThreadState *own = PyGILState_GetThisThreadState();

	return own && running && running() == own;
}

/* Others run while a call sleeps that did not give the lock up, and may close the session. */
static void *sleeper(void *given_up) {
	if (given_up) {
		PyEval_RestoreThread(given_up);
		values_awake();
	} else if (!without_lock && has_lock()) {
		values_asleep();
		return PyEval_SaveThread();
	}
	return NULL;
}

static PyObject *core_listen(PyObject *self, PyObject *on) {
	(void)self;
	fusion_on_wait(on == Py_True ? interrupted : NULL);
	Py_RETURN_NONE;
}

/* What is called, some times a second, by threads that wait; None: nothing. */
static PyObject *core_waiting(PyObject *self, PyObject *function) {
	PyObject *old = registry.waiting;

	(void)self;
	registry.waiting = function == Py_None ? NULL : Py_NewRef(function);
	Py_XDECREF(old);
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

static PyObject *next_of(fusion_array *x, fusion_array *y) {
	int type = (int)fusion_dtype_of(x);
	size_t bytes = fusion_bytes(x);
	char *a = malloc(bytes + 1), *b = malloc(bytes + 1);
	PyObject *result = NULL;

	if (!a || !b)
		PyErr_NoMemory();
	else if ((int)fusion_dtype_of(y) != type || fusion_bytes(y) != bytes || dtypes[type].kind != 'f')
		PyErr_SetString(PyExc_ValueError, "nextafter: the arrays are not of one shape and type");
	else if (!bytes || (array_read(x, a, bytes) && array_read(y, b, bytes))) {
		next_all(type, bytes / dtypes[type].bytes, a, b);
		result = array_wrap(fusion_from(fusion_context_of(x), (enum fusion_dtype)type, fusion_rank(x), fusion_dims(x), a));
	}
	free(a);
	free(b);
	return result;
}

/* nextafter(x1, x2): of one shape and type, float32 or float64. Waits. */
PyObject *core_nextafter(PyObject *self, PyObject *const *args, Py_ssize_t n) {
	fusion_array *x, *y;
	PyObject *result;

	(void)self;
	if (n != 2)
		return PyErr_Format(PyExc_TypeError, "_core.nextafter(x1, x2)");
	place_note();
	x = fusion_retain(array_value(args[0], "nextafter"));
	y = x ? fusion_retain(array_value(args[1], "nextafter")) : NULL;
	result = y ? next_of(x, y) : NULL;
	fusion_release(x);
	fusion_release(y);
	return result;
}

static PyMethodDef own_methods[] = {
	{ "register", core_register, METH_VARARGS, NULL },
	{ "listen", core_listen, METH_O, NULL },
	{ "waiting", core_waiting, METH_O, NULL },
	{ "default_real", core_default_real, METH_O, NULL },
	{ "meet", FAST(core_meet), METH_FASTCALL, NULL },
	{ "from_buffer", FAST(core_from_buffer), METH_FASTCALL, NULL },
	{ "from_bytes", FAST(core_from_bytes), METH_FASTCALL, NULL },
	{ "to_bytes", core_to_bytes, METH_O, NULL },
	{ "from_sequence", FAST(core_from_sequence), METH_FASTCALL, NULL },
	{ "to_dlpack", FAST(core_to_dlpack), METH_FASTCALL, NULL },
	{ "from_dlpack", FAST(core_from_dlpack), METH_FASTCALL, NULL },
	{ "report", core_report, METH_VARARGS, NULL },
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
	find_running();
	fusion_on_sleep(sleeper);
	context_type = (PyTypeObject *)PyType_FromSpec(&context_spec);
	if (!lent_make_type() || PyModule_AddFunctions(module, own_methods) || PyModule_AddFunctions(module, operators_methods())
		|| PyModule_AddFunctions(module, moves_methods) || PyModule_AddFunctions(module, grad_methods)
		|| put(module, "Array", PyType_FromSpec(array_type_spec())) || put(module, "Context", Py_XNewRef((PyObject *)context_type))
		|| put(module, "DTYPES", dtype_table())
		|| put(module, "VERSION", PyUnicode_FromString(FUSION_VERSION))) {
		Py_DECREF(module);
		return NULL;
	}
	return module;
}
