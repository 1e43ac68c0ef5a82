/*
 * The extension module fusion._core: libfusion as Python objects, and nothing that Python can do as well.
 *
 * What is called often is here: the type Array with its operators, every elementwise operation of ops.def, reading
 * values, buffers, lists and DLPack. Names, shapes of results and all that the standard says of
 * arguments stands in the package's Python files.
 *
 * Every function that records or waits first calls place_note(), so that errors can name the user's own line, and
 * turns a failure into an exception by raise_error(). The interpreter's lock is given up by WAITING() where something is expected to wait for the
 * daemon, not where an operation is recorded: that takes less time than giving it up. What has to wait all the same, as for memory from
 * the door or for another engine, gives it up while it sleeps (module.c).
 *
 * From Python 3.11 on only the limited API is used, so one module serves all later versions; before, the buffer
 * protocol was not part of it.
 */
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#if PY_VERSION_HEX < 0x030a0000
static inline PyObject *Py_NewRef(PyObject *o) {
	Py_INCREF(o);
	return o;
}
static inline PyObject *Py_XNewRef(PyObject *o) {
	Py_XINCREF(o);
	return o;
}
static inline int PyModule_AddObjectRef(PyObject *module, const char *name, PyObject *o) {
	Py_INCREF(o);
	return PyModule_AddObject(module, name, o);
}
#endif

/* Places are noted by place_note(): the macros would name these files. */
#define FUSION_NO_PLACES
#include "client/fusion.h"

enum {
	DTYPES = FUSION_F64 + 1,
	ERRORS = 64,              /* more codes than errors.def has */
	AXES = FUSION_MAX_RANK,
};

struct array {
	PyObject_HEAD
	fusion_array *value;      /* NULL: closed, or not made yet */
	PyObject *family;         /* what shares memory with it, as Python has it (views.py), or NULL */
	uint64_t recording;       /* the one in which it was made, or 0 */
	PyObject *weak;
};

/* What Python tells the module by register(). */
struct registry {
	PyTypeObject *array;      /* the class of results: a subclass of _core.Array */
	allocfunc allocate;
	PyObject *dtype[DTYPES];
	PyObject *error[ERRORS];  /* by code; 0 stands for all others */
	PyObject *write;          /* write(array, value): new contents for an array and what shares its memory */
	PyObject *device;         /* device(context): the object of a context's number */
	PyObject *waiting;        /* waiting(): called by threads that wait, or NULL */
	char *package;            /* the folder of the package, with a slash */
	int real;                 /* the default floating-point type */
};
extern struct registry registry;

/* ---- places and errors ---- */

/* Tells libfusion the line of the innermost frame outside the package. */
void place_note(void);
/*
 * Raises the thread's last error; returns NULL. What is wrong with a call is said of the function that the program called, whatever that is
 * made of: "expand_dims: reshape: ...".
 */
PyObject *raise_error(void);
/* The same of what an operation of this name does, a cast of its operands too. */
PyObject *raise_error_of(const char *what);
/* A text of libfusion's, freed; NULL: its error is raised. */
PyObject *text_taken(char *text);
PyObject *raise_dtype(const char *what, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- element types ---- */

struct dtype_row {
	const char *name, *format;
	uint8_t bytes, kind;      /* one of "buif" */
	uint8_t code, bits;       /* of DLPack */
};
extern const struct dtype_row dtypes[DTYPES];

/* The type two meet in. */
int dtype_meet(int a, int b);
/* The number of a dtype object; -1 and an exception where it is none. */
int dtype_of(PyObject *object);
/* That of a buffer's elements, of so many bytes; -1: none of ours. */
int dtype_from_format(const char *format, Py_ssize_t bytes);
/* One element as a Python number. */
PyObject *element_get(int dtype, const void *memory);
/* false: an exception was raised. */
bool element_set(int dtype, void *memory, PyObject *number);

/* ---- arrays ---- */

bool array_check(PyObject *object);
/*
 * The value of an array object, borrowed by the call that asks after place_note(); NULL and an exception where it is none. It stays for that
 * call, also where it sleeps and another thread gives the object another value meanwhile: see values_asleep().
 */
fusion_array *array_value(PyObject *object, const char *what);
/* A call sleeps without the interpreter's lock, and has borrowed what it was given; and it has the lock again. */
void values_asleep(void);
void values_awake(void);
/* By place_note(), as a call begins that has borrowed nothing yet: values that objects have lost while others slept go, once nobody sleeps. */
void values_settle(void);
/* Takes the reference; raises the last error where it is NULL. */
PyObject *array_wrap(fusion_array *value);
/* What the thread records, or 0. */
extern _Thread_local uint64_t recording;
/* May the array be given another value? One from outside of what the thread records would lose its own: false, and an exception. */
bool array_may_change(const PyObject *self, const char *what);
PyObject *array_shape(const fusion_array *value);
/* Up to AXES extents of a sequence or a single integer; false: an exception was raised. */
bool take_dims(PyObject *object, const char *what, int *rankp, int64_t *dims);
bool take_axes(PyObject *object, const char *what, int *countp, int *axes);
/* Reads without the interpreter's lock. */
bool array_read(fusion_array *value, void *memory, size_t bytes);

/* The specification is complete only when it was asked for. */
PyType_Spec *array_type_spec(void);
extern PyType_Spec context_spec;

/* operators.c */
extern PyType_Slot array_slots[];
PyMethodDef *operators_methods(void);

/* buffer.c */
int array_get_buffer(PyObject *self, Py_buffer *view, int flags);
void array_release_buffer(PyObject *self, Py_buffer *view);

/* context.c */
struct context {
	PyObject_HEAD
	fusion_context *context;
};
extern PyTypeObject *context_type;
fusion_context *context_of(PyObject *object);

/* Functions of the module, by the file they stand in. */
/* The elements of whatever has the buffer protocol, copied. */
PyObject *array_from_buffer(fusion_context *c, PyObject *object);
PyObject *core_from_buffer(PyObject *self, PyObject *const *args, Py_ssize_t n);
PyObject *core_from_sequence(PyObject *self, PyObject *const *args, Py_ssize_t n);
PyObject *core_from_bytes(PyObject *self, PyObject *const *args, Py_ssize_t n);
PyObject *core_to_bytes(PyObject *self, PyObject *array);
PyObject *core_to_list(PyObject *self, PyObject *array);
PyObject *core_to_dlpack(PyObject *self, PyObject *const *args, Py_ssize_t n);
PyObject *core_from_dlpack(PyObject *self, PyObject *const *args, Py_ssize_t n);
PyObject *core_nextafter(PyObject *self, PyObject *const *args, Py_ssize_t n);
PyObject *core_writable(PyObject *self, PyObject *array);
PyObject *core_report(PyObject *self, PyObject *args);
PyObject *core_written(PyObject *self, PyObject *object);
bool lent_make_type(void);
extern PyMethodDef moves_methods[], grad_methods[];

/* Casts for tables of methods. */
#define FAST(function) ((PyCFunction)(void (*)(void))(function))
/* Without the interpreter's lock. */
#define WAITING(statement) \
	do { \
		PyThreadState *saved_ = PyEval_SaveThread(); \
		bool inside_ = without_lock; \
		without_lock = true; \
		statement; \
		without_lock = inside_; \
		PyEval_RestoreThread(saved_); \
	} while (0)
/* The thread is inside one. */
extern _Thread_local bool without_lock;
