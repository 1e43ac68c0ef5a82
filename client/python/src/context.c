/* The type Context: a session with the daemon, and what is made from nothing in it. */
#include "core.h"

#include <stdlib.h>
#include <string.h>

PyTypeObject *context_type;

fusion_context *context_of(PyObject *object) {
	if (!PyObject_TypeCheck(object, context_type)) {
		PyErr_Format(PyExc_TypeError, "not a session, but %R", (PyObject *)Py_TYPE(object));
		return NULL;
	}
	if (!((struct context *)object)->context) {
		place_note();
		fusion_refuse(FUSION_E_STATE, "the session is closed");
		raise_error();
	}
	return ((struct context *)object)->context;
}

static PyObject *context_new(PyTypeObject *type, PyObject *args, PyObject *named) {
	static const char *const names[] = { "socket", "name", "device", "fusion", "debug", NULL };
	struct fusion_options o = { 0 };
	struct context *self;
	fusion_context *context;
	int fusion = 0, debug = 0, code;

	if (!PyArg_ParseTupleAndKeywords(args, named, "|zzzii", (char **)names, &o.socket, &o.name, &o.device, &fusion, &debug))
		return NULL;
	o.fusion = (enum fusion_switch)fusion;
	o.debug = (enum fusion_switch)debug;
	place_note();
	WAITING(code = fusion_open(&context, &o));
	if (code)
		return raise_error();
	self = (struct context *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
	if (self)
		self->context = context;
	else
		fusion_close(context);
	return (PyObject *)self;
}

static void close_session(struct context *self) {
	fusion_context *context = self->context;

	self->context = NULL;
	if (context)
		WAITING(fusion_close(context));
}

static void context_free(PyObject *self) {
	PyTypeObject *type = Py_TYPE(self);
	freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

	close_session((struct context *)self);
	release(self);
	Py_DECREF(type);
}

static PyObject *context_close(PyObject *self, PyObject *unused) {
	(void)unused;
	close_session((struct context *)self);
	Py_RETURN_NONE;
}

static PyObject *done(int code) {
	if (code || PyErr_Occurred())
		return raise_error();
	Py_RETURN_NONE;
}

#define CALL(name) \
	static PyObject *context_##name(PyObject *self, PyObject *unused) { \
		fusion_context *c = context_of(self); \
		int code; \
		(void)unused; \
		if (!c) \
			return NULL; \
		place_note(); \
		WAITING(code = fusion_##name(c)); \
		return done(code); \
	}
CALL(flush)
CALL(sync)
CALL(cancel)

/* ---- texts ---- */

PyObject *text_taken(char *text) {
	PyObject *result = text ? PyUnicode_FromString(text) : raise_error();

	free(text);
	return result;
}

#define TEXT(name, call) \
	static PyObject *context_##name(PyObject *self, PyObject *whole) { \
		fusion_context *c = context_of(self); \
		char *text; \
		(void)whole; \
		if (!c) \
			return NULL; \
		place_note(); \
		WAITING(text = call); \
		return text_taken(text); \
	}
TEXT(stats, fusion_stats(c, whole == Py_True))
TEXT(settings, fusion_settings(c, whole == Py_True))
TEXT(patterns, fusion_patterns(c))
TEXT(operations, fusion_operations(c))
TEXT(recent, fusion_recent(c, FUSION_OWN_SESSION, 0))

/* report(explanation, title, form): what explain answered as a page, a part of one or a picture; asks nobody. */
PyObject *core_report(PyObject *self, PyObject *args) {
	const char *explanation, *title;
	int form;

	(void)self;
	if (!PyArg_ParseTuple(args, "szi", &explanation, &title, &form))
		return NULL;
	return text_taken(fusion_report(explanation, title, (enum fusion_report_form)form));
}

/* That are asked about at once; two of them. */
enum { ASKED_MOST = 64, PAIR = 2 };

/* Arrays that something is asked about, held until arrays_released(). How many, or -1 with a Python error. */
static Py_ssize_t arrays_taken(PyObject *list, const char *what, int most, fusion_array **array) {
	Py_ssize_t count = PyTuple_Size(list);

	if (count < 0)
		return -1;
	if (count > most) {
		PyErr_Format(PyExc_ValueError, "%s: up to %d arrays at once", what, most);
		return -1;
	}
	place_note();
	for (Py_ssize_t i = 0; i < count; i++)
		if (!(array[i] = array_value(PyTuple_GetItem(list, i), what)))
			return -1;
	for (Py_ssize_t i = 0; i < count; i++)
		fusion_retain(array[i]);
	return count;
}

static void arrays_released(Py_ssize_t count, fusion_array **array) {
	for (Py_ssize_t i = 0; i < count; i++)
		fusion_release(array[i]);
}

static PyObject *explain(PyObject *self, PyObject *args, bool opportunities) {
	fusion_context *c = context_of(self);
	fusion_array *array[ASKED_MOST];
	Py_ssize_t count;
	PyObject *list;
	unsigned what;
	char *text;

	if (!c || !PyArg_ParseTuple(args, "OI", &list, &what) || (count = arrays_taken(list, "explain", ASKED_MOST, array)) < 0)
		return NULL;
	WAITING(text = opportunities ? fusion_opportunities(c, (int)count, array) : fusion_explain(c, (int)count, array, what));
	arrays_released(count, array);
	return text_taken(text);
}

/* Of the last two arrays of the list, in the plan of those before them. */
static PyObject *context_can_fuse(PyObject *self, PyObject *list) {
	fusion_context *c = context_of(self);
	fusion_array *array[ASKED_MOST + PAIR];
	Py_ssize_t count;
	char *text;
	int can;

	if (!c || (count = arrays_taken(list, "can_fuse", ASKED_MOST + PAIR, array)) < 0)
		return NULL;
	if (count < PAIR) {
		arrays_released(count, array);
		return PyErr_Format(PyExc_ValueError, "can_fuse: which two arrays?");
	}
	count -= PAIR;
	WAITING(can = fusion_can_fuse(c, array[count], array[count + 1], (int)count, array, &text));
	arrays_released(count + PAIR, array);
	return text_taken(can < 0 ? NULL : text);
}

static PyObject *context_explain(PyObject *self, PyObject *args) {
	return explain(self, args, false);
}

static PyObject *context_opportunities(PyObject *self, PyObject *args) {
	return explain(self, args, true);
}

static PyObject *context_configure(PyObject *self, PyObject *args) {
	fusion_context *c = context_of(self);
	const char *name, *value;
	int whole = 0, code;

	if (!c || !PyArg_ParseTuple(args, "ss|p", &name, &value, &whole))
		return NULL;
	place_note();
	WAITING(code = whole ? fusion_configure_daemon(c, name, value) : fusion_configure(c, name, value));
	return done(code);
}

static PyObject *context_define(PyObject *self, PyObject *args) {
	fusion_context *c = context_of(self);
	const char *name, *text;
	int pattern = 0, code;

	if (!c || !PyArg_ParseTuple(args, "ss|p", &name, &text, &pattern))
		return NULL;
	place_note();
	WAITING(code = pattern ? fusion_define_pattern(c, name, text, false) : fusion_define_op(c, name, text, NULL));
	return done(code);
}

static PyObject *context_forget(PyObject *self, PyObject *args) {
	fusion_context *c = context_of(self);
	const char *name;
	int code;

	if (!c || !PyArg_ParseTuple(args, "s", &name))
		return NULL;
	place_note();
	WAITING(code = fusion_forget_pattern(c, name, false));
	return done(code);
}

static PyObject *get_device(PyObject *self, void *unused) {
	fusion_context *c = context_of(self);

	(void)unused;
	return c ? PyUnicode_FromString(fusion_device(c)) : NULL;
}

static PyObject *get_number(PyObject *self, void *unused) {
	(void)unused;
	return PyLong_FromVoidPtr(((struct context *)self)->context);
}

static PyObject *get_kept(PyObject *self, void *unused) {
	fusion_context *c = context_of(self);
	uint64_t now, peak;

	(void)unused;
	if (!c)
		return NULL;
	if (fusion_kept_bytes(c, &now, &peak))
		return raise_error();
	return Py_BuildValue("(KK)", (unsigned long long)now, (unsigned long long)peak);
}

/* ---- from nothing ---- */

/* full(dtype, dims, number) */
static PyObject *context_full(PyObject *self, PyObject *const *args, Py_ssize_t n) {
	fusion_context *c = context_of(self);
	int64_t dims[FUSION_MAX_RANK];
	int type = c && n == 3 ? dtype_of(args[0]) : -1, rank;
	uint64_t word;
	fusion_array *scalar, *value;

	if (type < 0 || !take_dims(args[1], "full", &rank, dims))
		return NULL;
	place_note();
	if (dtypes[type].kind == 'f') {
		double d = PyFloat_AsDouble(args[2]);

		return PyErr_Occurred() ? NULL : array_wrap(fusion_full(c, (enum fusion_dtype)type, rank, dims, d));
	}
	if (!element_set(type, &word, args[2]))
		return NULL;
	if (type != FUSION_U64 || !(word >> 63))
		return array_wrap(fusion_full_int(c, (enum fusion_dtype)type, rank, dims, type == FUSION_BOOL ? (int64_t)(word & 1) : PyLong_AsLongLong(args[2])));
	scalar = fusion_from(c, FUSION_U64, 0, NULL, &word);
	value = fusion_broadcast(scalar, rank, dims);
	fusion_release(scalar);
	return array_wrap(value);
}

/* arange(dtype, count, start, step) */
static PyObject *context_arange(PyObject *self, PyObject *const *args, Py_ssize_t n) {
	fusion_context *c = context_of(self);
	int type = c && n == 4 ? dtype_of(args[0]) : -1;
	int64_t count;
	double start, step;

	if (type < 0)
		return NULL;
	count = PyLong_AsLongLong(args[1]);
	start = PyFloat_AsDouble(args[2]);
	step = PyFloat_AsDouble(args[3]);
	place_note();
	return PyErr_Occurred() ? NULL : array_wrap(fusion_arange(c, (enum fusion_dtype)type, count, start, step));
}

/* random(what, dtype, dims, seed, low, high) */
static PyObject *context_random(PyObject *self, PyObject *args) {
	fusion_context *c = context_of(self);
	int64_t dims[FUSION_MAX_RANK];
	PyObject *shape, *dtype;
	unsigned long long seed;
	double low, high;
	int what, rank, type;

	if (!c || !PyArg_ParseTuple(args, "COOKdd", &what, &dtype, &shape, &seed, &low, &high))
		return NULL;
	type = dtype_of(dtype);
	if (type < 0 || !take_dims(shape, "random", &rank, dims))
		return NULL;
	place_note();
	switch (what) {
	case 'u': return array_wrap(fusion_random_uniform(c, (enum fusion_dtype)type, rank, dims, seed));
	case 'n': return array_wrap(fusion_random_normal(c, (enum fusion_dtype)type, rank, dims, seed));
	case 'b': return array_wrap(fusion_random_bernoulli(c, rank, dims, low, seed));
	default: return array_wrap(fusion_random_integers(c, (enum fusion_dtype)type, rank, dims, (int64_t)low, (int64_t)high, seed));
	}
}

/* Types of operands: (dtype, shape) each. How many, or -1 with a Python error. */
static int take_operands(PyObject *list, struct fusion_operand operand[static ASKED_MOST]) {
	Py_ssize_t count = PyTuple_Size(list);

	if (count > ASKED_MOST) {
		PyErr_SetString(PyExc_ValueError, "benchmark_pattern: more operands than any pattern has");
		return -1;
	}
	for (Py_ssize_t i = 0; i < count; i++) {
		struct fusion_operand *o = &operand[i];
		PyObject *dtype, *shape;
		int type;

		if (!PyArg_ParseTuple(PyTuple_GetItem(list, i), "OO", &dtype, &shape) || (type = dtype_of(dtype)) < 0 ||
			!take_dims(shape, "benchmark_pattern", &o->rank, o->dims))
			return -1;
		o->dtype = (enum fusion_dtype)type;
	}
	return (int)count;
}

/* benchmark(pattern, size, dtype or None, operands, seconds) */
static PyObject *context_benchmark(PyObject *self, PyObject *args) {
	fusion_context *c = context_of(self);
	struct fusion_operand operand[ASKED_MOST];
	struct fusion_benchmark_options o = { .operand = operand };
	PyObject *dtype, *operands;
	const char *pattern;
	long long size;
	int type = 0;
	char *text;

	if (!c || !PyArg_ParseTuple(args, "sLOO!d", &pattern, &size, &dtype, &PyTuple_Type, &operands, &o.seconds))
		return NULL;
	o.size = size;
	if (dtype != Py_None && (type = dtype_of(dtype)) < 0)
		return NULL;
	o.dtype = (enum fusion_dtype)type;
	o.operands = take_operands(operands, operand);
	if (o.operands < 0)
		return NULL;
	place_note();
	WAITING(text = fusion_benchmark_pattern(c, pattern, &o));
	return text_taken(text);
}

static PyGetSetDef properties[] = {
	{ "device", get_device, NULL, "The name of the device.", NULL },
	{ "number", get_number, NULL, NULL, NULL },
	{ "kept_bytes", get_kept, NULL, "Bytes kept for gradients: now, and the most so far.", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyMethodDef methods[] = {
	{ "close", context_close, METH_NOARGS, NULL },
	{ "flush", context_flush, METH_NOARGS, NULL },
	{ "sync", context_sync, METH_NOARGS, NULL },
	{ "cancel", context_cancel, METH_NOARGS, NULL },
	{ "stats", context_stats, METH_O, NULL },
	{ "settings", context_settings, METH_O, NULL },
	{ "patterns", context_patterns, METH_NOARGS, NULL },
	{ "operations", context_operations, METH_NOARGS, NULL },
	{ "recent", context_recent, METH_NOARGS, NULL },
	{ "can_fuse", context_can_fuse, METH_VARARGS, NULL },
	{ "benchmark", context_benchmark, METH_VARARGS, NULL },
	{ "explain", context_explain, METH_VARARGS, NULL },
	{ "opportunities", context_opportunities, METH_VARARGS, NULL },
	{ "configure", context_configure, METH_VARARGS, NULL },
	{ "define", context_define, METH_VARARGS, NULL },
	{ "forget", context_forget, METH_VARARGS, NULL },
	{ "full", FAST(context_full), METH_FASTCALL, NULL },
	{ "arange", FAST(context_arange), METH_FASTCALL, NULL },
	{ "random", context_random, METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot slots[] = {
	{ Py_tp_new, context_new },
	{ Py_tp_dealloc, context_free },
	{ Py_tp_getset, properties },
	{ Py_tp_methods, methods },
	{ Py_tp_doc, (char *)"A session with the daemon." },
	{ 0, NULL },
};

PyType_Spec context_spec = { "fusion._core.Context", sizeof(struct context), 0, Py_TPFLAGS_DEFAULT, slots };
