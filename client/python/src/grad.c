/* Gradients, optimisers and recorded graphs of libfusion, for the package's grad.py and capture.py. */
#include "core.h"

#include <stdlib.h>

enum { MANY = 4096 };             /* more parameters than a model has */

struct list {
	PyObject *tuple;
	fusion_array **value;
	int count;
};

static void list_end(struct list *l) {
	for (int i = 0; l->value && i < l->count; i++)
		fusion_release(l->value[i]);
	free(l->value);
	Py_XDECREF(l->tuple);
	*l = (struct list){ 0 };
}

/* Arrays, or None where that is allowed; their values are held, whatever other threads write meanwhile. */
static bool list_take(struct list *l, PyObject *object, const char *what, bool none) {
	Py_ssize_t n;

	*l = (struct list){ .tuple = PySequence_Tuple(object) };
	n = l->tuple ? PyTuple_Size(l->tuple) : 0;
	if (n > MANY)
		PyErr_Format(PyExc_ValueError, "%s: more than %d arrays", what, MANY);
	else if (l->tuple && !(l->value = calloc((size_t)n + 1, sizeof(fusion_array *))))
		PyErr_NoMemory();
	for (; l->value && !PyErr_Occurred() && l->count < n; l->count++) {
		PyObject *o = PyTuple_GetItem(l->tuple, l->count);

		if (o != Py_None || !none)
			l->value[l->count] = fusion_retain(array_value(o, what));
	}
	if (!PyErr_Occurred())
		return true;
	list_end(l);
	return false;
}

/* Takes the references. */
static PyObject *list_wrap(fusion_array *const *value, int count) {
	PyObject *tuple = PyTuple_New(count);

	for (int i = 0; i < count; i++) {
		PyObject *array = array_wrap(value[i]);

		if (tuple && array)
			PyTuple_SetItem(tuple, i, array);
	}
	if (PyErr_Occurred())
		Py_CLEAR(tuple);
	return tuple;
}

static PyObject *mark(int (*function)(fusion_array *), const char *what, PyObject *array) {
	fusion_array *a;

	place_note();
	a = array_value(array, what);
	if (!a)
		return NULL;
	return function(a) ? raise_error() : Py_NewRef(Py_None);
}

static PyObject *core_watch(PyObject *self, PyObject *array) {
	(void)self;
	return mark(fusion_watch, "watch", array);
}

static PyObject *core_unwatch(PyObject *self, PyObject *array) {
	(void)self;
	return mark(fusion_unwatch, "unwatch", array);
}

/* vjp(outputs, seeds, inputs, flags): gradients by the inputs. */
static PyObject *core_vjp(PyObject *self, PyObject *args) {
	struct list y = { 0 }, seed = { 0 }, input = { 0 };
	PyObject *ys, *seeds, *inputs, *result = NULL;
	fusion_array **grad = NULL;
	unsigned flags;

	(void)self;
	if (!PyArg_ParseTuple(args, "OOOI", &ys, &seeds, &inputs, &flags))
		return NULL;
	if (list_take(&y, ys, "vjp", false) && list_take(&seed, seeds, "vjp", true) && list_take(&input, inputs, "vjp", false)) {
		grad = calloc((size_t)input.count + 1, sizeof *grad);
		place_note();
		if (grad && !fusion_vjp(y.count, y.value, seed.count ? seed.value : NULL, input.count, input.value, grad, flags))
			result = list_wrap(grad, input.count);
		else
			raise_error();
	}
	free(grad);
	list_end(&y);
	list_end(&seed);
	list_end(&input);
	return result;
}

static PyObject *core_no_grad(PyObject *self, PyObject *begin) {
	(void)self;
	if (begin == Py_True)
		fusion_no_grad_begin();
	else if (fusion_no_grad_end())
		return raise_error();
	Py_RETURN_NONE;
}

static PyObject *core_checkpoint(PyObject *self, PyObject *begin) {
	(void)self;
	if (begin == Py_True)
		fusion_checkpoint_begin();
	else if (fusion_checkpoint_end())
		return raise_error();
	Py_RETURN_NONE;
}

/* ---- optimisers: the next parameters, averages and step, as new arrays ---- */

static PyObject *core_sgd(PyObject *self, PyObject *args) {
	struct fusion_sgd_options o = { 0 };
	struct list p = { 0 }, g = { 0 }, v = { 0 };
	PyObject *ps, *gs, *vs, *result = NULL;
	fusion_array **next = NULL;
	int n;

	(void)self;
	if (!PyArg_ParseTuple(args, "OOOddd", &ps, &gs, &vs, &o.rate, &o.momentum, &o.decay))
		return NULL;
	if (list_take(&p, ps, "sgd", false) && list_take(&g, gs, "sgd", false) && list_take(&v, vs, "sgd", false)) {
		n = p.count + v.count;
		next = calloc((size_t)n + 1, sizeof *next);
		place_note();
		if (p.count != g.count || (v.count && v.count != p.count))
			PyErr_SetString(PyExc_ValueError, "sgd: as many gradients and velocities as parameters");
		else if (next && !fusion_sgd(p.count, p.value, g.value, v.count ? v.value : NULL, &o, next))
			result = list_wrap(next, n);
		else
			raise_error();
	}
	free(next);
	list_end(&p);
	list_end(&g);
	list_end(&v);
	return result;
}

/* adam(parameters, gradients, first, second, step, rate, beta1, beta2, eps, decay, decoupled) */
static PyObject *core_adam(PyObject *self, PyObject *args) {
	struct fusion_adam_options o = { 0 };
	struct list p = { 0 }, g = { 0 }, a = { 0 }, b = { 0 };
	PyObject *ps, *gs, *as, *bs, *step, *result = NULL;
	fusion_array **next = NULL, *count;
	int decoupled, failed;

	(void)self;
	if (!PyArg_ParseTuple(args, "OOOOOdddddp", &ps, &gs, &as, &bs, &step, &o.rate, &o.beta1, &o.beta2, &o.eps, &o.decay, &decoupled))
		return NULL;
	if (list_take(&p, ps, "adam", false) && list_take(&g, gs, "adam", false) && list_take(&a, as, "adam", false)
		&& list_take(&b, bs, "adam", false)) {
		next = calloc(3 * (size_t)p.count + 2, sizeof *next);
		place_note();
		count = array_value(step, "adam");
		if (!count) {
			result = NULL;
		} else if (p.count != g.count || a.count != p.count || b.count != p.count) {
			PyErr_SetString(PyExc_ValueError, "adam: as many gradients and averages as parameters");
		} else {
			failed = !next || (decoupled ? fusion_adamw : fusion_adam)(p.count, p.value, g.value, a.value, b.value, count, &o, next);
			result = failed ? raise_error() : list_wrap(next, 3 * p.count + 1);
		}
	}
	free(next);
	list_end(&p);
	list_end(&g);
	list_end(&a);
	list_end(&b);
	return result;
}

/* ---- recorded graphs ---- */

static void capture_drop(PyObject *capsule) {
	fusion_capture_free(PyCapsule_GetPointer(capsule, "fusion_capture"));
}

/* function(), which may write to the inputs, objects of its own, and to what it makes. */
static PyObject *call_recording(PyObject *function, PyObject *inputs) {
	static uint64_t recordings;
	uint64_t before = recording;
	PyObject *outputs;

	recording = ++recordings;
	for (Py_ssize_t i = 0; i < PyList_Size(inputs); i++)
		((struct array *)PyList_GetItem(inputs, i))->recording = recording;
	outputs = PyObject_CallNoArgs(function);
	recording = before;
	return outputs;
}

/*
 * record(context, inputs, function): the graph that function() records, which gives the arrays it ends in, in a list. Whatever is
 * raised gives the recording up and reaches the caller as it was; a signal's handler runs nowhere else but in function() and
 * while the daemon is asked, so no recording is ever left open.
 */
static PyObject *core_record(PyObject *self, PyObject *args) {
	PyObject *context, *inputs, *function, *outputs;
	fusion_capture *capture = NULL;
	struct list l;
	fusion_context *c;
	int code;

	(void)self;
	if (!PyArg_ParseTuple(args, "OO!O", &context, &PyList_Type, &inputs, &function) || !(c = context_of(context)) || !list_take(&l, inputs, "capture", false))
		return NULL;
	place_note();
	code = fusion_capture_begin(c, l.count, l.value);
	list_end(&l);
	if (code)
		return raise_error();
	outputs = call_recording(function, inputs);
	/* The function may have closed the session, or another thread. */
	c = ((struct context *)context)->context;
	if (!c && outputs)
		context_of(context);             /* raises */
	if (!c || !outputs || !list_take(&l, outputs, "capture", false)) {
		if (c)
			fusion_capture_abort(c);
		Py_XDECREF(outputs);
		return NULL;
	}
	Py_DECREF(outputs);
	place_note();
	WAITING(capture = fusion_capture_end(c, l.count, l.value));
	list_end(&l);
	if (!PyErr_Occurred() && capture)
		return PyCapsule_New(capture, "fusion_capture", capture_drop);
	fusion_capture_free(capture);
	return raise_error();
}

/* replay(capture, inputs, outputs) */
static PyObject *core_replay(PyObject *self, PyObject *args) {
	struct list l;
	PyObject *capsule, *inputs, *result = NULL;
	fusion_array **output;
	fusion_capture *capture;
	int count, code;

	(void)self;
	if (!PyArg_ParseTuple(args, "OOi", &capsule, &inputs, &count)
		|| !(capture = PyCapsule_GetPointer(capsule, "fusion_capture")) || !list_take(&l, inputs, "replay", false))
		return NULL;
	output = calloc((size_t)count + 1, sizeof *output);
	place_note();
	code = output ? fusion_replay(capture, l.value, output) : FUSION_E_MEMORY;
	result = code ? raise_error() : list_wrap(output, count);
	free(output);
	list_end(&l);
	return result;
}

/* explain_capture(capture, what) */
static PyObject *core_explain_capture(PyObject *self, PyObject *args) {
	PyObject *capsule;
	fusion_capture *capture;
	unsigned what;
	char *text;

	(void)self;
	if (!PyArg_ParseTuple(args, "OI", &capsule, &what) || !(capture = PyCapsule_GetPointer(capsule, "fusion_capture")))
		return NULL;
	place_note();
	WAITING(text = fusion_explain_capture(capture, what));
	return text_taken(text);
}

PyMethodDef grad_methods[] = {
	{ "watch", core_watch, METH_O, NULL },
	{ "unwatch", core_unwatch, METH_O, NULL },
	{ "vjp", core_vjp, METH_VARARGS, NULL },
	{ "no_grad", core_no_grad, METH_O, NULL },
	{ "checkpoint", core_checkpoint, METH_O, NULL },
	{ "sgd", core_sgd, METH_VARARGS, NULL },
	{ "adam", core_adam, METH_VARARGS, NULL },
	{ "record", core_record, METH_VARARGS, NULL },
	{ "replay", core_replay, METH_VARARGS, NULL },
	{ "explain_capture", core_explain_capture, METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL },
};
