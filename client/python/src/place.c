/*
 * Whose line is it? And exceptions of libfusion's errors.
 *
 * The innermost frame outside the package is the user's. What is known of a code object - the name of its file, and
 * whether it is the package's - is kept in a small table by its address, with a reference, so that
 * noting a place costs no more than asking the interpreter for the line.
 */
#include "core.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
	CODES = 256,              /* more than the functions a program is in at a time */
	DEPTH = 16,               /* frames of the package above the user's: fewer by far */
	PLACE = 256,              /* " (at FILE:LINE)", as libfusion has room for */
};

struct known {
	PyObject *code;
	const char *file;
	bool ours;
};

static struct known known[CODES];

/* The package's files, and that of Python by which its generators are what "with" takes. */
static bool is_ours(const char *file) {
	static const char between[] = "/contextlib.py";
	size_t length = strlen(file);

	return (registry.package && !strncmp(file, registry.package, strlen(registry.package)))
		|| (length >= sizeof between && !strcmp(file + length - (sizeof between - 1), between));
}

/* Takes the reference to the code. NULL: its file cannot be told. */
static struct known *look_up(PyObject *code) {
	struct known *k = &known[((uintptr_t)code >> 5) % CODES];
	PyObject *name;

	if (k->code == code) {
		Py_DECREF(code);
		return k;
	}
	name = PyObject_GetAttrString(code, "co_filename");
	Py_XDECREF(k->code);
	k->code = code;
	k->file = name ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
	k->ours = k->file && is_ours(k->file);
	/* The code, which we hold, holds its name. */
	Py_XDECREF(name);
	PyErr_Clear();
	return k->file ? k : NULL;
}

void place_note(void) {
	PyObject *frame = (PyObject *)PyEval_GetFrame();
	unsigned depth = 0;

	values_settle();
	Py_XINCREF(frame);
	while (frame && frame != Py_None && depth++ < DEPTH) {
		struct known *k = look_up((PyObject *)PyFrame_GetCode((PyFrameObject *)frame));
		PyObject *back;

		if (k && !k->ours) {
			fusion_here(k->file, PyFrame_GetLineNumber((PyFrameObject *)frame));
			Py_DECREF(frame);
			return;
		}
		back = PyObject_GetAttrString(frame, "f_back");
		Py_DECREF(frame);
		frame = back;
	}
	Py_XDECREF(frame);
	PyErr_Clear();
	fusion_here(NULL, 0);
}

/* The name of the function of the package that the frame outside it has called; NULL: it called the extension module, or what has no name of its own. */
static PyObject *called_function(PyObject *code) {
	/* Before Python 3.11 nothing tells that a function was made in another one. */
	PyObject *whole = code ? PyObject_GetAttrString(code, "co_qualname") : NULL;
	PyObject *name = code ? PyObject_GetAttrString(code, "co_name") : NULL;
	const char *inside = whole ? PyUnicode_AsUTF8AndSize(whole, NULL) : "", *text = name ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
	bool has = inside && text && *text != '_' && *text != '<' && !strstr(inside, "<locals>");

	Py_XDECREF(whole);
	PyErr_Clear();
	if (has)
		return name;
	Py_XDECREF(name);
	return NULL;
}

static PyObject *caller_of(PyObject *frame) {
	PyObject *back = PyObject_GetAttrString(frame, "f_back");

	Py_DECREF(frame);
	return back;
}

/* NULL: there is none, or the error is of another line than the one that calls now. */
static PyObject *blamed_function(const char *error) {
	PyObject *frame = (PyObject *)PyEval_GetFrame(), *last = NULL, *name = NULL;
	struct known *k = NULL;
	char place[PLACE];
	unsigned depth = 0;

	Py_XINCREF(frame);
	while (frame && frame != Py_None && depth++ < DEPTH) {
		PyObject *code = (PyObject *)PyFrame_GetCode((PyFrameObject *)frame);

		k = look_up(Py_NewRef(code));
		if (!k || !k->ours) {
			Py_DECREF(code);
			break;
		}
		Py_XDECREF(last);
		last = code;
		frame = caller_of(frame);
	}
	if (k && !k->ours) {
		snprintf(place, sizeof place, " (at %s:%d)", k->file, PyFrame_GetLineNumber((PyFrameObject *)frame));
		if (strlen(error) >= strlen(place) && !strcmp(error + strlen(error) - strlen(place), place))
			name = called_function(last);
	}
	Py_XDECREF(frame);
	Py_XDECREF(last);
	PyErr_Clear();
	return name;
}

static bool begins(const char *text, const char *name) {
	size_t size = strlen(name);

	return !strncmp(text, name, size) && strchr(":, ", text[size]);
}

PyObject *raise_error_of(const char *what) {
	int code = fusion_error_code();
	PyObject *error = code > 0 && code < ERRORS && registry.error[code] ? registry.error[code] : registry.error[0];
	PyObject *function = PyErr_Occurred() ? NULL : blamed_function(fusion_error());
	const char *name = function ? PyUnicode_AsUTF8AndSize(function, NULL) : what, *text = fusion_error();

	/* What a signal's handler raised while somebody waited says more. */
	if (PyErr_Occurred())
		name = NULL;
	else if (name && !begins(text, name))
		PyErr_Format(error ? error : PyExc_RuntimeError, "%s: %s", name, text);
	else
		PyErr_SetString(error ? error : PyExc_RuntimeError, text);
	Py_XDECREF(function);
	fusion_error_clear();
	return NULL;
}

PyObject *raise_error(void) {
	return raise_error_of(NULL);
}

PyObject *raise_dtype(const char *what, const char *format, ...) {
	va_list list;
	char text[256];

	va_start(list, format);
	vsnprintf(text, sizeof text, format, list);
	va_end(list);
	return PyErr_Format(registry.error[FUSION_E_DTYPE], "%s: %s", what, text);
}
