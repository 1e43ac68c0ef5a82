/* Operations with arguments of their own: thin, one function of fusion.h each. The package's Python files check and name. */
#include "core.h"

#include <stdlib.h>
#include <string.h>

static bool counted(const char *what, Py_ssize_t n, Py_ssize_t wanted) {
	if (n == wanted)
		return true;
	PyErr_Format(PyExc_TypeError, "_core.%s() takes %zd arguments (%zd given)", what, wanted, n);
	return false;
}

/*
 * The value of an array that is an argument. Read last: what makes numbers of other arguments may be a program's own __index__,
 * which may give the array another value. False: an exception was raised.
 */
static bool begin(const char *what, PyObject *array, fusion_array **ap) {
	place_note();
	*ap = array_value(array, what);
	return *ap != NULL;
}

/* The same of several. */
static bool begin_all(const char *what, PyObject *const *args, Py_ssize_t n, fusion_array **ap) {
	place_note();
	for (Py_ssize_t i = 0; i < n; i++)
		if (!(ap[i] = array_value(args[i], what)))
			return false;
	return true;
}

static bool take_int(PyObject *object, int *out) {
	Py_ssize_t v = PyNumber_AsSsize_t(object, PyExc_OverflowError);

	*out = v > INT32_MAX || v < -INT32_MAX ? INT32_MAX : (int)v;
	return !(v == -1 && PyErr_Occurred());
}

static bool take_wide(PyObject *object, int64_t *out) {
	*out = PyNumber_AsSsize_t(object, PyExc_OverflowError);
	return !(*out == -1 && PyErr_Occurred());
}

#define FUNCTION(name) static PyObject *core_##name(PyObject *self, PyObject *const *args, Py_ssize_t n)

FUNCTION(cast) {
	fusion_array *a;
	int type;

	(void)self;
	type = counted("cast", n, 2) ? dtype_of(args[1]) : -1;
	return type < 0 || !begin("cast", args[0], &a) ? NULL : array_wrap(fusion_cast(a, (enum fusion_dtype)type));
}

FUNCTION(copy) {
	fusion_array *a;

	(void)self;
	return counted("copy", n, 1) && begin("copy", args[0], &a) ? array_wrap(fusion_copy(a)) : NULL;
}

/* Another object of the same value. */
FUNCTION(same) {
	fusion_array *a;

	(void)self;
	return counted("same", n, 1) && begin("same", args[0], &a) ? array_wrap(fusion_retain(a)) : NULL;
}

FUNCTION(reshape) {
	int64_t dims[FUSION_MAX_RANK];
	fusion_array *a;
	int rank;

	(void)self;
	if (!counted("reshape", n, 2) || !take_dims(args[1], "reshape", &rank, dims) || !begin("reshape", args[0], &a))
		return NULL;
	return array_wrap(fusion_reshape(a, rank, dims));
}

FUNCTION(broadcast) {
	int64_t dims[FUSION_MAX_RANK];
	fusion_array *a;
	int rank;

	(void)self;
	if (!counted("broadcast_to", n, 2) || !take_dims(args[1], "broadcast_to", &rank, dims) || !begin("broadcast_to", args[0], &a))
		return NULL;
	return array_wrap(fusion_broadcast(a, rank, dims));
}

FUNCTION(permute) {
	fusion_array *a;
	int axes[AXES], count;

	(void)self;
	if (!counted("permute_dims", n, 2) || !take_axes(args[1], "permute_dims", &count, axes) || !begin("permute_dims", args[0], &a))
		return NULL;
	if (count != fusion_rank(a))
		return PyErr_Format(registry.error[FUSION_E_SHAPE], "permute_dims: %d axes for an array of %d", count, fusion_rank(a));
	return array_wrap(fusion_permute(a, axes));
}

/* One bound of each axis; None is a bound that is left out. -1: an exception was raised. */
static int take_bounds(PyObject *list, int64_t *out) {
	Py_ssize_t rank = PyTuple_Size(list);

	if (rank > FUSION_MAX_RANK)
		PyErr_SetString(PyExc_ValueError, "slice: one bound an axis is needed");
	for (int d = 0; d < rank && rank <= FUSION_MAX_RANK; d++) {
		PyObject *bound = PyTuple_GetItem(list, d);

		if (bound == Py_None)
			out[d] = FUSION_END;
		else if (!take_wide(bound, &out[d]))
			return -1;
	}
	return PyErr_Occurred() ? -1 : (int)rank;
}

FUNCTION(slice) {
	int64_t start[FUSION_MAX_RANK], stop[FUSION_MAX_RANK], step[FUSION_MAX_RANK];
	int starts, stops, steps;
	fusion_array *a;

	(void)self;
	if (!counted("slice", n, 4) || (starts = take_bounds(args[1], start)) < 0 || (stops = take_bounds(args[2], stop)) < 0
		|| (steps = take_bounds(args[3], step)) < 0 || !begin("slice", args[0], &a))
		return NULL;
	if (starts != fusion_rank(a) || stops != starts || steps != starts)
		return PyErr_Format(PyExc_ValueError, "slice: one bound an axis is needed");
	return array_wrap(fusion_slice(a, start, stop, step));
}

FUNCTION(windows) {
	int64_t size, step, dilation;
	fusion_array *a;
	int axis;

	(void)self;
	if (!counted("windows", n, 5) || !take_int(args[1], &axis) || !take_wide(args[2], &size) || !take_wide(args[3], &step)
		|| !take_wide(args[4], &dilation) || !begin("windows", args[0], &a))
		return NULL;
	return array_wrap(fusion_windows(a, axis, size, step, dilation));
}

FUNCTION(flip) {
	fusion_array *a;
	int axes[AXES], count;

	(void)self;
	if (!counted("flip", n, 2) || !take_axes(args[1], "flip", &count, axes) || !begin("flip", args[0], &a))
		return NULL;
	return array_wrap(count ? fusion_flip(a, count, axes) : fusion_retain(a));
}

FUNCTION(take) {
	fusion_array *a[2];
	int axis;

	(void)self;
	if (!counted("take", n, 3) || !take_int(args[2], &axis) || !begin_all("take", args, 2, a))
		return NULL;
	return array_wrap(fusion_take(a[0], a[1], axis));
}

FUNCTION(take_along) {
	fusion_array *a[2];
	int axis;

	(void)self;
	if (!counted("take_along_axis", n, 3) || !take_int(args[2], &axis) || !begin_all("take_along_axis", args, 2, a))
		return NULL;
	return array_wrap(fusion_take_along(a[0], a[1], axis));
}

typedef fusion_array *scatter(fusion_array *, fusion_array *, fusion_array *, int);

static PyObject *scatter_by(scatter *function, const char *what, PyObject *const *args, Py_ssize_t n) {
	fusion_array *a[3];
	int axis;

	if (!counted(what, n, 4) || !take_int(args[3], &axis) || !begin_all(what, args, 3, a))
		return NULL;
	return array_wrap(function(a[0], a[1], a[2], axis));
}

FUNCTION(put_along) {
	(void)self;
	return scatter_by(fusion_put_along, "put_along_axis", args, n);
}

FUNCTION(add_along) {
	(void)self;
	return scatter_by(fusion_add_along, "add_along_axis", args, n);
}

typedef fusion_array *sorter(fusion_array *, int, bool);

static PyObject *sort_by(sorter *function, const char *what, PyObject *const *args, Py_ssize_t n) {
	fusion_array *a;
	int axis;

	if (!counted(what, n, 3) || !take_int(args[1], &axis) || !begin(what, args[0], &a))
		return NULL;
	return array_wrap(function(a, axis, args[2] == Py_True));
}

FUNCTION(sort) {
	(void)self;
	return sort_by(fusion_sort, "sort", args, n);
}

FUNCTION(argsort) {
	(void)self;
	return sort_by(fusion_argsort, "argsort", args, n);
}

FUNCTION(topk) {
	fusion_array *a, *values, *places;
	int64_t k;
	int axis;

	(void)self;
	if (!counted("topk", n, 4) || !take_wide(args[1], &k) || !take_int(args[2], &axis) || !begin("topk", args[0], &a))
		return NULL;
	if (fusion_topk(a, k, axis, args[3] == Py_True, &values, &places))
		return raise_error();
	return Py_BuildValue("(NN)", array_wrap(values), array_wrap(places));
}

FUNCTION(searchsorted) {
	fusion_array *a[2];

	(void)self;
	if (!counted("searchsorted", n, 3) || !begin_all("searchsorted", args, 2, a))
		return NULL;
	return array_wrap(fusion_searchsorted(a[0], a[1], args[2] == Py_True));
}

typedef fusion_array *joiner(int, fusion_array *const *, int);

static PyObject *join_by(joiner *function, const char *what, PyObject *const *args, Py_ssize_t n) {
	PyObject *list = counted(what, n, 2) ? PySequence_Tuple(args[0]) : NULL, *result = NULL;
	Py_ssize_t count = list ? PyTuple_Size(list) : 0;
	fusion_array **value = list ? calloc((size_t)count + 1, sizeof(fusion_array *)) : NULL;
	int axis;
	bool right = value && take_int(args[1], &axis);

	place_note();
	for (Py_ssize_t i = 0; right && i < count; i++)
		right = (value[i] = array_value(PyTuple_GetItem(list, i), what)) != NULL;
	if (right)
		result = array_wrap(function((int)count, value, axis));
	free(value);
	Py_XDECREF(list);
	return result;
}

FUNCTION(concat) {
	(void)self;
	return join_by(fusion_concat, "concat", args, n);
}

FUNCTION(stack) {
	(void)self;
	return join_by(fusion_stack, "stack", args, n);
}

FUNCTION(pad) {
	int64_t low[FUSION_MAX_RANK], high[FUSION_MAX_RANK];
	fusion_array *a, *value = NULL;
	int lows, highs;

	(void)self;
	if (!counted("pad", n, 4) || !take_dims(args[1], "pad", &lows, low) || !take_dims(args[2], "pad", &highs, high)
		|| !begin("pad", args[0], &a))
		return NULL;
	if (lows != fusion_rank(a) || highs != fusion_rank(a))
		return PyErr_Format(registry.error[FUSION_E_SHAPE], "pad: %d and %d widths for an array of %d axes", lows, highs, fusion_rank(a));
	if (args[3] != Py_None && !(value = array_value(args[3], "pad")))
		return NULL;
	return array_wrap(fusion_pad(a, low, high, value));
}

FUNCTION(tile) {
	int64_t times[FUSION_MAX_RANK];
	fusion_array *a;
	int rank;

	(void)self;
	if (!counted("tile", n, 2) || !take_dims(args[1], "tile", &rank, times) || !begin("tile", args[0], &a))
		return NULL;
	if (rank != fusion_rank(a))
		return PyErr_Format(registry.error[FUSION_E_SHAPE], "tile: %d repetitions for an array of %d axes", rank, fusion_rank(a));
	return array_wrap(fusion_tile(a, times));
}

typedef fusion_array *turner(fusion_array *, int64_t, int);

static PyObject *turn_by(turner *function, const char *what, PyObject *const *args, Py_ssize_t n) {
	fusion_array *a;
	int64_t by;
	int axis;

	if (!counted(what, n, 3) || !take_wide(args[1], &by) || !take_int(args[2], &axis) || !begin(what, args[0], &a))
		return NULL;
	return array_wrap(function(a, by, axis));
}

FUNCTION(repeat) {
	(void)self;
	return turn_by(fusion_repeat, "repeat", args, n);
}

FUNCTION(roll) {
	(void)self;
	return turn_by(fusion_roll, "roll", args, n);
}

FUNCTION(matmul) {
	fusion_array *a[2];

	(void)self;
	return counted("matmul", n, 2) && begin_all("matmul", args, 2, a) ? array_wrap(fusion_matmul(a[0], a[1])) : NULL;
}

/* ---- reductions and scans: every row of ops.def ---- */

typedef fusion_array *reducer(fusion_array *, int, const int *, bool);
typedef fusion_array *scanner(fusion_array *, int);

/* Axes are a tuple, or None for all of them. */
static PyObject *reduce_by(reducer *function, const char *what, PyObject *const *args, Py_ssize_t n) {
	fusion_array *a;
	int axes[AXES], count = 0;

	if (!counted(what, n, 3) || (args[1] != Py_None && !take_axes(args[1], what, &count, axes)) || !begin(what, args[0], &a))
		return NULL;
	return array_wrap(function(a, count, count ? axes : NULL, args[2] == Py_True));
}

static PyObject *scan_by(scanner *function, const char *what, PyObject *const *args, Py_ssize_t n) {
	fusion_array *a;
	int axis;

	if (!counted(what, n, 2) || !take_int(args[1], &axis) || !begin(what, args[0], &a))
		return NULL;
	return array_wrap(function(a, axis));
}

#define REDUCE(id, name, ...) \
	FUNCTION(reduce_##name) { \
		(void)self; \
		return reduce_by(fusion_##name, #name, args, n); \
	}
#define SCAN(id, name, ...) \
	FUNCTION(scan_##name) { \
		(void)self; \
		return scan_by(fusion_##name, #name, args, n); \
	}
#include "protocol/ops.def"

/* ---- composites and others by their names ---- */

struct lists {
	int axes[AXES];
	unsigned taken;
	int64_t list[16][FUSION_MAX_RANK];    /* by the number of the attribute */
};

/* Lists of an operation are of one length, which is `rank`. */
static bool put_list(PyObject *o, const char *what, struct fusion_attributes *at, unsigned which, struct lists *room, const int64_t **list) {
	int rank;

	*list = room->list[which];
	if (!take_dims(o, what, &rank, room->list[which]))
		return false;
	if (room->taken++ && rank != at->rank) {
		PyErr_Format(registry.error[FUSION_E_SHAPE], "%s: a list of %d entries beside one of %d", what, rank, at->rank);
		return false;
	}
	at->rank = rank;
	return true;
}

static bool put_attribute(const char *name, PyObject *o, struct fusion_attributes *at, struct lists *room) {
	unsigned next = 0;

#define PUT_AXES(member) return take_axes(o, name, &at->axis_count, room->axes) && (at->member = room->axes) != NULL
#define PUT_FLAG(member) at->member = PyObject_IsTrue(o) > 0; return !PyErr_Occurred()
#define PUT_REAL(member) at->member = PyFloat_AsDouble(o); return !PyErr_Occurred()
#define PUT_WHOLE(member) at->member = PyLong_AsLongLong(o); return !PyErr_Occurred()
#define PUT_DTYPE(member) at->member = (enum fusion_dtype)dtype_of(o); return !PyErr_Occurred()
#define PUT_LIST(member) return put_list(o, name, at, next, room, &at->member)
#define ATTRIBUTE(id, attribute, kind, member, standard, doc) \
	if (!strcmp(name, #attribute)) { \
		PUT_##kind(attribute); \
	} \
	next++;
#include "protocol/attributes.def"
#undef ATTRIBUTE
	PyErr_Format(PyExc_TypeError, "there is no attribute %s", name);
	return false;
}

/* What a conversion says names neither. */
static bool refuse_attribute(const char *what, const char *name, PyObject *value) {
	if (PyErr_ExceptionMatches(PyExc_TypeError) && strcmp(name, "dtype") != 0)
		PyErr_Format(PyExc_TypeError, "%s: %s is of %R, which it does not take", what, name, (PyObject *)Py_TYPE(value));
	return false;
}

static bool put_attributes(const char *what, PyObject *named, struct fusion_attributes *at, struct lists *room) {
	PyObject *key, *value;
	Py_ssize_t at_pair = 0;

	while (PyDict_Next(named, &at_pair, &key, &value)) {
		const char *name = PyUnicode_AsUTF8AndSize(key, NULL);

		if (!name)
			return false;
		if (value != Py_None && !put_attribute(name, value, at, room))
			return refuse_attribute(what, name, value);
	}
	return true;
}

/* call(context, name, operands, attributes): operands are arrays or None. Waits where the daemon has to be asked. */
FUNCTION(call) {
	struct fusion_attributes at = { 0 };
	struct lists room = { .taken = 0 };
	fusion_array *operand[16] = { NULL }, *value;
	fusion_context *context = n == 4 && args[0] != Py_None ? context_of(args[0]) : NULL;
	const char *name = n == 4 ? PyUnicode_AsUTF8AndSize(args[1], NULL) : NULL;
	Py_ssize_t count = name ? PyTuple_Size(args[2]) : -1;

	(void)self;
	if (count < 0 || count > 16 || (args[0] != Py_None && !context))
		return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "_core.call(context, name, operands, attributes)");
	if (!put_attributes(name, args[3], &at, &room))
		return NULL;
	place_note();
	for (Py_ssize_t i = 0; i < count; i++) {
		PyObject *o = PyTuple_GetItem(args[2], i);

		if (o != Py_None && !(operand[i] = array_value(o, name)))
			return NULL;
		if (o != Py_None && !context)
			context = fusion_context_of(operand[i]);
	}
	while (count && !operand[count - 1])
		count--;
	if (!context)
		return PyErr_Format(PyExc_TypeError, "%s: not a fusion array, but None", name);
	for (Py_ssize_t i = 0; i < count; i++)
		fusion_retain(operand[i]);
	WAITING(value = fusion_call(context, name, (int)count, operand, &at));
	for (Py_ssize_t i = 0; i < count; i++)
		fusion_release(operand[i]);
	return array_wrap(value);
}

/* ---- sizes that depend on values: these wait ---- */

FUNCTION(flatnonzero) {
	fusion_array *a, *value;

	(void)self;
	if (!counted("nonzero", n, 1) || !begin("nonzero", args[0], &a))
		return NULL;
	fusion_retain(a);
	WAITING(value = fusion_flatnonzero(a));
	fusion_release(a);
	return array_wrap(value);
}

FUNCTION(unique) {
	fusion_array *a, *part[4] = { NULL };
	PyObject *result;
	int code;

	(void)self;
	if (!counted("unique", n, 1) || !begin("unique", args[0], &a))
		return NULL;
	fusion_retain(a);
	WAITING(code = fusion_unique(a, &part[0], &part[1], &part[2], &part[3]));
	fusion_release(a);
	if (code)
		return raise_error();
	result = PyTuple_New(4);
	for (int i = 0; i < 4; i++)
		PyTuple_SetItem(result, i, array_wrap(part[i]));
	return result;
}

FUNCTION(stop_gradient) {
	fusion_array *a;

	(void)self;
	return counted("stop_gradient", n, 1) && begin("stop_gradient", args[0], &a) ? array_wrap(fusion_stop_gradient(a)) : NULL;
}

#define ENTRY(name) { #name, FAST(core_##name), METH_FASTCALL, NULL }
PyMethodDef moves_methods[] = {
	ENTRY(cast), ENTRY(copy), ENTRY(same), ENTRY(reshape), ENTRY(broadcast), ENTRY(permute), ENTRY(slice), ENTRY(windows),
	ENTRY(flip), ENTRY(take), ENTRY(take_along), ENTRY(put_along), ENTRY(add_along), ENTRY(sort), ENTRY(argsort), ENTRY(topk),
	ENTRY(searchsorted), ENTRY(concat), ENTRY(stack), ENTRY(pad), ENTRY(tile), ENTRY(repeat), ENTRY(roll), ENTRY(matmul),
	ENTRY(call), ENTRY(flatnonzero), ENTRY(unique), ENTRY(stop_gradient),
#define REDUCE(id, name, ...) ENTRY(reduce_##name),
#define SCAN(id, name, ...) ENTRY(scan_##name),
#include "protocol/ops.def"
	{ NULL, NULL, 0, NULL },
};
