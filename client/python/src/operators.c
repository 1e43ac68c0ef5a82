/*
 * Elementwise operations: every row of ops.def as a function of the module, and the operators of Array.
 *
 * An operand is an array or a number, of Python or NumPy. A number takes the element type of the array beside it, as the standard
 * says; where its kind is above the array's (1.5 beside integers) both become the default type of the number's kind. Arrays
 * of different types meet in the type that libfusion has them meet in, so the types of the standard are as the standard
 * says. What an operation computes in floating-point numbers alone takes integers as the default floating-point type.
 */
#include "core.h"

#include <string.h>

typedef fusion_array *function1(fusion_array *);
typedef fusion_array *function2(fusion_array *, fusion_array *);
typedef fusion_array *function2s(fusion_array *, double);
typedef fusion_array *functions2(double, fusion_array *);
typedef fusion_array *function3(fusion_array *, fusion_array *, fusion_array *);

/* The column `types` of ops.def. */
enum types { ANY, NUM, REAL, INT, BITS, BOOL };

struct row {
	const char *name;
	enum types types;
	function1 *f1;
	function2 *f2;
	function2s *f2s;
	functions2 *fs2;
	function3 *f3;
	const char *doc;
};

enum number {
#define UNARY(id, name, ...) ROW_##name,
#define BINARY(id, name, ...) ROW_##name,
#define TERNARY(id, name, ...) ROW_##name,
#include "protocol/ops.def"
	ROWS,
};

static const struct row rows[ROWS] = {
#define UNARY(id, name, types, result, active, expr, grad, oracle, doc) \
	[ROW_##name] = { #name, types, fusion_##name, NULL, NULL, NULL, NULL, doc },
#define BINARY(id, name, types, result, active, expr, grad_a, grad_b, oracle, doc) \
	[ROW_##name] = { #name, types, NULL, fusion_##name, fusion_##name##_scalar, fusion_scalar_##name, NULL, doc },
#define TERNARY(id, name, types, result, active, expr, grad_a, grad_b, grad_c, oracle, doc) \
	[ROW_##name] = { #name, types, NULL, NULL, NULL, NULL, fusion_##name, doc },
#include "protocol/ops.def"
};

/* ---- operands ---- */

/*
 * Taken in two steps: take() may run a program's own code (a subclass's __float__, NumPy's item()), which may give an array
 * another value; bind() reads the values, and from there on only exact numbers of Python are asked.
 */
struct operand {
	fusion_array *array;      /* NULL: a number */
	bool owned;               /* the reference is ours */
	char kind;                /* of a number: 'b', 'i' or 'f' */
	PyObject *number;         /* exact; or the array */
	PyObject *made;           /* the number, or the array, where it had to be made */
};

enum { NOT_OURS = -2, FAILED = -1 };

static char kind_of(PyObject *object) {
	return PyBool_Check(object) ? 'b' : PyLong_Check(object) ? 'i' : PyFloat_Check(object) ? 'f' : 0;
}

/* The number as one of int, float or bool itself, whose methods are Python's own. */
static PyObject *exact(PyObject *number, char kind) {
	PyObject *type = (PyObject *)(kind == 'f' ? &PyFloat_Type : &PyLong_Type);

	return kind == 'b' || (PyObject *)Py_TYPE(number) == type ? Py_NewRef(number) : PyObject_CallFunctionObjArgs(type, number, NULL);
}

static int take_number(PyObject *number, char kind, struct operand *o) {
	PyObject *old = o->made;

	o->kind = kind;
	o->number = o->made = exact(number, kind);
	Py_XDECREF(old);
	return o->made ? 0 : FAILED;
}

/* Beside an array of ours, what NumPy calls one is copied to its session. */
static int take_copy(PyObject *object, PyObject *beside, struct operand *o) {
	if (!beside)
		return NOT_OURS;
	o->number = o->made = array_from_buffer(fusion_context_of(((struct array *)beside)->value), object);
	return o->made ? 0 : FAILED;
}

/* A list beside an array of ours is one, too, in its session. Lists of Python's own have no operators that go before. */
static int take_list(PyObject *object, PyObject *beside, struct operand *o) {
	PyObject *module = beside ? PyImport_ImportModule("fusion._creation") : NULL;
	PyObject *function = module ? PyObject_GetAttrString(module, "asarray") : NULL;
	PyObject *device = function ? PyObject_GetAttrString(beside, "device") : NULL;
	PyObject *args = device ? PyTuple_Pack(1, object) : NULL;
	PyObject *named = args ? Py_BuildValue("{sO}", "device", device) : NULL;

	if (named)
		o->number = o->made = PyObject_Call(function, args, named);
	Py_XDECREF(named);
	Py_XDECREF(args);
	Py_XDECREF(device);
	Py_XDECREF(function);
	Py_XDECREF(module);
	if (!beside)
		return NOT_OURS;
	return o->made ? 0 : FAILED;
}

/* A scalar of NumPy is a number. */
static int take_from_numpy(PyObject *object, PyObject *beside, struct operand *o) {
	PyObject *rank;
	long ndim;

	if (!PyObject_HasAttrString(object, "__array_interface__"))
		return NOT_OURS;
	rank = PyObject_GetAttrString(object, "ndim");
	ndim = rank ? PyLong_AsLong(rank) : -1;
	Py_XDECREF(rank);
	if (ndim > 0)
		return take_copy(object, beside, o);
	if (ndim || !(o->made = PyObject_CallMethod(object, "item", NULL)))
		return FAILED;
	o->kind = kind_of(o->made);
	if (!o->kind)
		return PyComplex_Check(o->made) ? FAILED : NOT_OURS;
	return take_number(o->made, o->kind, o);
}

/* What is neither an array nor a number is not ours. beside: an array among the operands, or NULL. Whatever it says, o is dropped in the end. */
static int take(PyObject *object, PyObject *beside, struct operand *o) {
	int r = 0;

	*o = (struct operand){ .number = object };
	if (array_check(object))
		return 0;
	o->kind = kind_of(object);
	if (PyList_CheckExact(object) || PyTuple_CheckExact(object))
		r = take_list(object, beside, o);
	else if (!o->kind)
		r = PyComplex_Check(object) ? FAILED : take_from_numpy(object, beside, o);
	else if (o->kind != 'b')
		r = take_number(object, o->kind, o);
	if (r == FAILED && !PyErr_Occurred())
		PyErr_SetString(registry.error[FUSION_E_DTYPE], "complex numbers are not supported: no device of fusion computes with them");
	return r;
}

/* False: an exception was raised. */
static bool bind(unsigned n, struct operand *o, const char *what) {
	place_note();
	for (unsigned i = 0; i < n; i++)
		if (!o[i].kind && !(o[i].array = array_value(o[i].number, what)))
			return false;
	return true;
}

static void drop(struct operand *o) {
	if (o->owned)
		fusion_release(o->array);
	o->owned = false;
	Py_CLEAR(o->made);
}

static int rank_of(char kind) {
	return kind == 'b' ? 0 : kind == 'f' ? 2 : 1;
}

/* The type that operands meet in; -1: there is no array among them. */
static int meet(unsigned n, const struct operand *o) {
	int type = -1, highest = 0;

	for (unsigned i = 0; i < n; i++)
		if (o[i].array)
			type = type < 0 ? (int)fusion_dtype_of(o[i].array) : dtype_meet(type, (int)fusion_dtype_of(o[i].array));
	if (type < 0)
		return -1;
	for (unsigned i = 0; i < n; i++)
		if (!o[i].array && rank_of(o[i].kind) > highest)
			highest = rank_of(o[i].kind);
	if (highest <= rank_of((char)dtypes[type].kind))
		return type;
	return highest == 2 ? registry.real : FUSION_I64;
}

static int settle(const struct row *row, int type) {
	if (row->types == REAL && dtypes[type].kind != 'f')
		return registry.real;
	return type;
}

/* A cast of an array operand, where it has another type. */
static bool convert(struct operand *o, int type) {
	fusion_array *cast;

	if (!o->array || (int)fusion_dtype_of(o->array) == type)
		return true;
	cast = fusion_cast(o->array, (enum fusion_dtype)type);
	drop(o);
	o->array = cast;
	o->owned = true;
	return cast != NULL;
}

/* A number as a double that stands for it exactly in the type, so that a kernel's argument is enough. */
static bool plain(const struct operand *o, int type, double *d) {
	int overflow;
	long long v;

	if (dtypes[type].kind == 'f' || o->kind == 'f') {
		*d = PyFloat_AsDouble(o->number);
		return !(*d == -1 && PyErr_Occurred());
	}
	v = PyLong_AsLongLongAndOverflow(o->number, &overflow);
	*d = (double)v;
	return !overflow && v <= INT64_C(1) << 53 && v >= -(INT64_C(1) << 53);
}

/* An array without dimensions of a number. */
static bool make_scalar(fusion_context *c, struct operand *o, int type) {
	uint64_t word;
	double d;

	if (dtypes[type].kind == 'f') {
		if (!plain(o, type, &d))
			return false;
		o->array = fusion_scalar(c, (enum fusion_dtype)type, d);
	} else {
		if (!element_set(type, &word, o->number))
			return false;
		o->array = type == FUSION_U64 && word >> 63 ? fusion_from(c, FUSION_U64, 0, NULL, &word)
			: fusion_full_int(c, (enum fusion_dtype)type, 0, NULL,
				PyLong_AsLongLong(o->number));
	}
	o->owned = o->array != NULL;
	return o->array || raise_error();
}

/* ---- one, two and three operands ---- */

/* Sums, products and extremes of truths are truths, as in NumPy. */
static const struct row *of_truths(const struct row *row) {
	static const struct {
		uint16_t row, truths;
	} others[] = {
		{ ROW_add, ROW_logical_or },
		{ ROW_mul, ROW_logical_and },
		{ ROW_maximum, ROW_logical_or },
		{ ROW_minimum, ROW_logical_and },
	};

	for (unsigned i = 0; i < sizeof others / sizeof *others; i++)
		if (row == &rows[others[i].row])
			return &rows[others[i].truths];
	return row;
}

/* By size: false is below true. */
static bool compares(const struct row *row) {
	return row == &rows[ROW_lt] || row == &rows[ROW_le] || row == &rows[ROW_gt] || row == &rows[ROW_ge];
}

static bool suits(const struct row *row, int type) {
	char kind = (char)dtypes[type].kind;

	if (row->types == BOOL ? kind == 'b' : row->types == NUM ? kind != 'b'
		: row->types == INT ? kind == 'i' || kind == 'u' : row->types == BITS ? kind != 'f' : true)
		return true;
	raise_dtype(row->name, "takes %s, not %s", row->types == NUM ? "numbers" : "integers", dtypes[type].name);
	return false;
}

static PyObject *finish(fusion_array *value, const char *what) {
	if (value)
		return array_wrap(value);
	return PyErr_Occurred() ? NULL : raise_error_of(what);
}

static PyObject *unary(const struct row *row, PyObject *a) {
	struct operand o;
	fusion_array *value;
	int type;

	place_note();
	value = array_value(a, row->name);
	if (!value)
		return NULL;
	o = (struct operand){ .array = value };
	type = settle(row, (int)fusion_dtype_of(value));
	if (row == &rows[ROW_bitwise_not] && type == FUSION_BOOL)
		row = &rows[ROW_logical_not];
	if (!suits(row, type))
		return NULL;
	value = convert(&o, type) ? row->f1(o.array) : NULL;
	drop(&o);
	return finish(value, row->name);
}

/* An array and a number, in this order or (reversed) the other one. */
static fusion_array *with_number(const struct row *row, struct operand *array, struct operand *number, int type, bool reversed) {
	fusion_array *value;
	uint64_t word;
	double d;

	if (dtypes[type].kind != 'f' && !element_set(type, &word, number->number))
		return NULL;
	if (!convert(array, type))
		return NULL;
	if (plain(number, type, &d))
		return reversed ? row->fs2(d, array->array) : row->f2s(array->array, d);
	if (PyErr_Occurred() || !make_scalar(fusion_context_of(array->array), number, type))
		return NULL;
	value = reversed ? row->f2(number->array, array->array) : row->f2(array->array, number->array);
	drop(number);
	return value;
}

/* NULL and no exception: the error is libfusion's. */
static fusion_array *binary_value(const struct row *row, struct operand *o) {
	int type = meet(2, o);

	if (type < 0) {
		PyErr_Format(PyExc_TypeError, "%s: one operand must be an array", row->name);
		return NULL;
	}
	type = settle(row, type);
	if (type == FUSION_BOOL && compares(row))
		type = FUSION_U8;
	if (type == FUSION_BOOL)
		row = of_truths(row);
	if (!suits(row, type))
		return NULL;
	if (!o[1].array)
		return with_number(row, &o[0], &o[1], type, false);
	if (!o[0].array)
		return with_number(row, &o[1], &o[0], type, true);
	return convert(&o[0], type) && convert(&o[1], type) ? row->f2(o[0].array, o[1].array) : NULL;
}

static void drop_two(struct operand *o) {
	drop(&o[0]);
	drop(&o[1]);
}

/* What is not 0 has dropped them. */
static int take_two(PyObject *a, PyObject *b, struct operand *o) {
	PyObject *beside = array_check(a) ? a : array_check(b) ? b : NULL;
	int x, y;

	o[1] = (struct operand){ 0 };
	x = take(a, beside, &o[0]);
	y = x == FAILED ? x : take(b, beside, &o[1]);
	if (x || y)
		drop_two(o);
	return x == FAILED || y == FAILED ? FAILED : x ? x : y;
}

static PyObject *not_taken(int why) {
	return why == FAILED ? NULL : Py_NewRef(Py_NotImplemented);
}

static PyObject *binary(const struct row *row, PyObject *a, PyObject *b) {
	struct operand o[2];
	fusion_array *value;
	int r = take_two(a, b, o);

	if (r)
		return not_taken(r);
	value = bind(2, o, row->name) ? binary_value(row, o) : NULL;
	drop_two(o);
	return finish(value, row->name);
}

static fusion_array *ternary_value(const struct row *row, struct operand *o) {
	unsigned first = row == &rows[ROW_where];
	int type = meet(3 - first, o + first);

	if (type < 0 && first && o[0].array)
		type = o[1].kind == 'f' || o[2].kind == 'f' ? registry.real : o[1].kind == 'b' && o[2].kind == 'b' ? FUSION_BOOL : FUSION_I64;
	if (type < 0 || (first && !o[0].array)) {
		PyErr_Format(PyExc_TypeError, "%s: %s must be an array", row->name, first ? "the condition" : "one operand");
		return NULL;
	}
	type = settle(row, type);
	if (!suits(row, type) || (first && !convert(&o[0], FUSION_BOOL)))
		return NULL;
	for (unsigned i = first; i < 3; i++) {
		fusion_array *beside = o[0].array ? o[0].array : o[1].array ? o[1].array : o[2].array;

		if (!convert(&o[i], type) || (!o[i].array && !make_scalar(fusion_context_of(beside), &o[i], type)))
			return NULL;
	}
	return row->f3(o[0].array, o[1].array, o[2].array);
}

static PyObject *ternary(const struct row *row, PyObject *const *args) {
	struct operand o[3] = { 0 };
	fusion_array *value = NULL;
	PyObject *beside = NULL;
	int r = 0;

	for (unsigned i = 0; !beside && i < 3; i++)
		beside = array_check(args[i]) ? args[i] : NULL;
	for (unsigned i = 0; !r && i < 3; i++) {
		r = take(args[i], beside, &o[i]);
		if (r == NOT_OURS)
			PyErr_Format(PyExc_TypeError, "%s: %c is of %R, neither a fusion array nor a number", row->name, "abc"[i], (PyObject *)Py_TYPE(args[i]));
	}
	if (!r && bind(3, o, row->name))
		value = ternary_value(row, o);
	for (unsigned i = 0; i < 3; i++)
		drop(&o[i]);
	return finish(value, row->name);
}

/* ---- functions of the module ---- */

/* The operand that a conversion could not use: it is no array. */
static unsigned which_is_wrong(PyObject *const *args, unsigned n) {
	unsigned i = 0;

	while (i + 1 < n && array_check(args[i]))
		i++;
	return i;
}

/*
 * What a mistake says begins with the name that the program called the row by; where it was made before the row's own checks, with the operand's, too.
 * Gives NULL: the mistake stays raised.
 */
static PyObject *told_as(const char *name, const struct row *row, const char *operand) {
	PyObject *class, *value, *trace, *text, *args = NULL;
	size_t length = strlen(row->name);
	const char *said;

	PyErr_Fetch(&class, &value, &trace);
	PyErr_NormalizeException(&class, &value, &trace);
	text = PyObject_Str(value);
	said = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
	if (said && !strncmp(said, row->name, length) && strchr(":( ", said[length]))
		args = strcmp(name, row->name) ? Py_BuildValue("(N)", PyUnicode_FromFormat("%s%s", name, said + length)) : NULL;
	else if (said)
		args = Py_BuildValue("(N)", PyUnicode_FromFormat("%s: %s: %s", name, operand, said));
	if (args)
		PyObject_SetAttrString(value, "args", args);
	Py_XDECREF(args);
	Py_XDECREF(text);
	PyErr_Clear();
	PyErr_Restore(class, value, trace);
	return NULL;
}

static PyObject *call1(const char *name, const struct row *row, PyObject *a) {
	PyObject *result = unary(row, a);

	return result ? result : told_as(name, row, "x");
}

/* The rows whose second operand may be left out, and what PyTorch, JAX and ONNX take then. */
static const struct {
	unsigned row;
	const char *operand, *arguments;
	double value;
} left_out[] = {
	{ ROW_leaky_relu, "slope", "x, slope=0.01, /", 0.01 },
	{ ROW_elu, "alpha", "x, alpha=1.0, /", 1 },
};

enum { LEFT_OUT = sizeof left_out / sizeof *left_out };

/* LEFT_OUT: the row is none of these. */
static unsigned find_left_out(const struct row *row) {
	unsigned i = 0;

	while (i < LEFT_OUT && row != &rows[left_out[i].row])
		i++;
	return i;
}

static const char *operand_name(const struct row *row, unsigned which) {
	unsigned i = find_left_out(row);

	if (i < LEFT_OUT)
		return which ? left_out[i].operand : "x";
	return which ? "x2" : "x1";
}

static PyObject *call2(const char *name, const struct row *row, PyObject *const *args, Py_ssize_t n);

static PyObject *call_without(const char *name, const struct row *row, PyObject *a, double value) {
	PyObject *number = PyFloat_FromDouble(value), *result;

	if (!number)
		return NULL;
	result = call2(name, row, (PyObject *[]){ a, number }, 2);
	Py_DECREF(number);
	return result;
}

static PyObject *call2(const char *name, const struct row *row, PyObject *const *args, Py_ssize_t n) {
	PyObject *result;
	unsigned wrong;

	if (n == 1 && find_left_out(row) < LEFT_OUT)
		return call_without(name, row, args[0], left_out[find_left_out(row)].value);
	if (n != 2)
		return PyErr_Format(PyExc_TypeError, "%s() takes 2 operands (%zd given)", name, n);
	result = binary(row, args[0], args[1]);
	if (!result)
		return told_as(name, row, operand_name(row, which_is_wrong(args, 2)));
	if (result != Py_NotImplemented)
		return result;
	Py_DECREF(result);
	wrong = array_check(args[0]) || kind_of(args[0]);
	return PyErr_Format(PyExc_TypeError, "%s: %s is of %R, neither a fusion array nor a number; "
		"fusion.asarray() makes arrays", name, operand_name(row, wrong), (PyObject *)Py_TYPE(args[wrong]));
}

static PyObject *call3(const struct row *row, PyObject *const *args, Py_ssize_t n) {
	PyObject *result;

	if (n != 3)
		return PyErr_Format(PyExc_TypeError, "%s() takes 3 operands (%zd given)", row->name, n);
	result = ternary(row, args);
	return result ? result : told_as(row->name, row, (const char *[]){ "a", "b", "c" }[which_is_wrong(args, 3)]);
}

#define UNARY(id, name, ...) \
	static PyObject *call_##name(PyObject *self, PyObject *a) { \
		(void)self; \
		return call1(#name, &rows[ROW_##name], a); \
	}
#define BINARY(id, name, ...) \
	static PyObject *call_##name(PyObject *self, PyObject *const *args, Py_ssize_t n) { \
		(void)self; \
		return call2(#name, &rows[ROW_##name], args, n); \
	}
#define TERNARY(id, name, ...) \
	static PyObject *call_##name(PyObject *self, PyObject *const *args, Py_ssize_t n) { \
		(void)self; \
		return call3(&rows[ROW_##name], args, n); \
	}
#include "protocol/ops.def"

static const PyMethodDef calls[ROWS] = {
#define UNARY(id, name, types, result, active, expr, grad, oracle, doc) \
	{ #name, call_##name, METH_O, #name "(x, /)\n--\n\n" doc },
#define BINARY(id, name, types, result, active, expr, grad_a, grad_b, oracle, doc) \
	{ #name, FAST(call_##name), METH_FASTCALL, #name "(x1, x2, /)\n--\n\n" doc },
#define TERNARY(id, name, types, result, active, expr, grad_a, grad_b, grad_c, oracle, doc) \
	{ #name, FAST(call_##name), METH_FASTCALL, #name "(a, b, c, /)\n--\n\n" doc },
#include "protocol/ops.def"
};

/* The names of the standard, where ops.def has others. */
#define NAME(name, row) \
	static PyObject *named1_##name(PyObject *self, PyObject *a) { \
		(void)self; \
		return call1(#name, &rows[ROW_##row], a); \
	} \
	static PyObject *named2_##name(PyObject *self, PyObject *const *args, Py_ssize_t n) { \
		(void)self; \
		return call2(#name, &rows[ROW_##row], args, n); \
	}
#include "names.def"

static const struct {
	const char *name;
	unsigned row;
	PyCFunction one, two;     /* of one operand, of two: what the row takes */
} standard[] = {
#define NAME(name, row) { #name, ROW_##row, named1_##name, FAST(named2_##name) },
#include "names.def"
};

enum { STANDARD = sizeof standard / sizeof *standard, DOC = 512 };

/* A function under another name: its text stays, the name in front of it is the other one. */
static void rename_method(PyMethodDef *m, const char *name, char text[static DOC]) {
	const char *rest = strchr(m->ml_doc, '(');

	snprintf(text, DOC, "%s%s", name, rest);
	m->ml_name = name;
	m->ml_doc = text;
}

PyMethodDef *operators_methods(void) {
	static PyMethodDef all[ROWS + STANDARD + 1];
	static char text[STANDARD][DOC], shorter[LEFT_OUT][DOC];

	memcpy(all, calls, sizeof calls);
	for (unsigned i = 0; i < LEFT_OUT; i++) {
		PyMethodDef *m = &all[left_out[i].row];

		snprintf(shorter[i], DOC, "%s(%s%s", m->ml_name, left_out[i].arguments, strchr(m->ml_doc, ')'));
		m->ml_doc = shorter[i];
	}
	for (unsigned i = 0; i < STANDARD; i++) {
		all[ROWS + i] = calls[standard[i].row];
		all[ROWS + i].ml_meth = rows[standard[i].row].f1 ? standard[i].one : standard[i].two;
		rename_method(&all[ROWS + i], standard[i].name, text[i]);
	}
	return all;
}

/* ---- operators ---- */

/* May x take this value in place? Within a kind, and never from a number with a fraction to one without. */
static bool fits(const struct row *row, fusion_array *x, fusion_array *value) {
	int to = (int)fusion_dtype_of(x), from = (int)fusion_dtype_of(value);

	if (fusion_rank(x) != fusion_rank(value)
		|| memcmp(fusion_dims(x), fusion_dims(value), (size_t)fusion_rank(x) * sizeof(int64_t)) != 0) {
		PyObject *made = array_shape(value), *wanted = array_shape(x);

		PyErr_Format(registry.error[FUSION_E_SHAPE], "in-place %s: the result's shape %S is not the array's, %S", row->name, made, wanted);
		Py_XDECREF(made);
		Py_XDECREF(wanted);
		return false;
	}
	if (dtypes[from].kind == 'i' && dtypes[to].kind == 'u')
		return raise_dtype(row->name, "in place: %s cannot take values of %s", dtypes[to].name, dtypes[from].name) != NULL;
	if (rank_of((char)dtypes[from].kind) <= rank_of((char)dtypes[to].kind))
		return true;
	raise_dtype(row->name, "in place: %s cannot take values of %s", dtypes[to].name, dtypes[from].name);
	return false;
}

/*
 * x += y where y is not ours, as Python does it: by what y has. Python itself would ask sq_inplace_concat, which classes derived
 * from ours get from nb_inplace_add, and take a NotImplemented from there for the result.
 */
static PyObject *others_sum(PyObject *self, PyObject *other) {
	PyObject *result = PyObject_HasAttrString(other, "__radd__") ? PyObject_CallMethod(other, "__radd__", "O", self) : Py_NewRef(Py_NotImplemented);

	if (result != Py_NotImplemented)
		return result;
	Py_DECREF(result);
	return PyErr_Format(PyExc_TypeError, "add: an operand is a %R: fusion.asarray() makes arrays of fusion", (PyObject *)Py_TYPE(other));
}

static PyObject *in_place(const struct row *row, PyObject *self, PyObject *other) {
	struct array *x = (struct array *)self, *made;
	PyObject *result, *done;
	fusion_array *value;

	if (!array_may_change(self, row->name))
		return NULL;
	result = binary(row, self, other);
	if (!result)
		return NULL;
	if (result == Py_NotImplemented) {
		if (row != &rows[ROW_add])
			return result;
		Py_DECREF(result);
		return others_sum(self, other);
	}
	made = (struct array *)result;
	if (!fits(row, x->value, made->value)) {
		Py_DECREF(result);
		return NULL;
	}
	if (fusion_dtype_of(made->value) != fusion_dtype_of(x->value)) {
		value = fusion_cast(made->value, fusion_dtype_of(x->value));
		fusion_release(made->value);
		made->value = value;
		if (!value) {
			Py_DECREF(result);
			return raise_error();
		}
	}
	if (!x->family) {
		value = x->value;
		x->value = made->value;
		made->value = value;
		Py_DECREF(result);
		return Py_NewRef(self);
	}
	done = PyObject_CallFunctionObjArgs(registry.write, self, result, NULL);
	Py_DECREF(result);
	if (!done)
		return NULL;
	Py_DECREF(done);
	return Py_NewRef(self);
}

#define OPERATOR(slot, row) \
	static PyObject *op_##slot(PyObject *a, PyObject *b) { \
		return binary(&rows[ROW_##row], a, b); \
	} \
	static PyObject *in_##slot(PyObject *a, PyObject *b) { \
		return in_place(&rows[ROW_##row], a, b); \
	}

OPERATOR(add, add)
OPERATOR(subtract, sub)
OPERATOR(multiply, mul)
OPERATOR(true_divide, div)
OPERATOR(floor_divide, floor_divide)
OPERATOR(remainder, remainder)
OPERATOR(lshift, shift_left)
OPERATOR(rshift, shift_right)
OPERATOR(and, bitwise_and)
OPERATOR(or, bitwise_or)
OPERATOR(xor, bitwise_xor)

static PyObject *op_power(PyObject *a, PyObject *b, PyObject *modulus) {
	return modulus == Py_None ? binary(&rows[ROW_pow], a, b) : Py_NewRef(Py_NotImplemented);
}

static PyObject *in_power(PyObject *a, PyObject *b, PyObject *modulus) {
	return modulus == Py_None ? in_place(&rows[ROW_pow], a, b) : Py_NewRef(Py_NotImplemented);
}

static PyObject *op_matmul(PyObject *a, PyObject *b) {
	struct operand o[2];
	fusion_array *value;
	int r = take_two(a, b, o);

	/* A number is no matrix. */
	if (!r && (o[0].kind || o[1].kind)) {
		drop_two(o);
		r = NOT_OURS;
	}
	if (r)
		return not_taken(r);
	value = bind(2, o, "matmul") ? fusion_matmul(o[0].array, o[1].array) : NULL;
	drop_two(o);
	return finish(value, "matmul");
}

static PyObject *op_negative(PyObject *a) {
	return unary(&rows[ROW_neg], a);
}

static PyObject *op_absolute(PyObject *a) {
	return unary(&rows[ROW_abs], a);
}

static PyObject *op_invert(PyObject *a) {
	return unary(&rows[ROW_bitwise_not], a);
}

/* A copy in name only: values never change. */
static PyObject *op_positive(PyObject *a) {
	fusion_array *value = ((struct array *)a)->value;

	if (fusion_dtype_of(value) == FUSION_BOOL)
		return raise_dtype("positive", "takes numbers, not bool");
	return array_wrap(fusion_retain(value));
}

static PyObject *compare(PyObject *a, PyObject *b, int how) {
	static const uint8_t row[] = { [Py_LT] = ROW_lt, [Py_LE] = ROW_le, [Py_EQ] = ROW_eq, [Py_NE] = ROW_ne, [Py_GT] = ROW_gt,
		[Py_GE] = ROW_ge };

	return binary(&rows[row[how]], a, b);
}

PyType_Slot array_slots[] = {
	{ Py_nb_add, op_add },
	{ Py_nb_inplace_add, in_add },
	{ Py_nb_subtract, op_subtract },
	{ Py_nb_inplace_subtract, in_subtract },
	{ Py_nb_multiply, op_multiply },
	{ Py_nb_inplace_multiply, in_multiply },
	{ Py_nb_true_divide, op_true_divide },
	{ Py_nb_inplace_true_divide, in_true_divide },
	{ Py_nb_floor_divide, op_floor_divide },
	{ Py_nb_inplace_floor_divide, in_floor_divide },
	{ Py_nb_remainder, op_remainder },
	{ Py_nb_inplace_remainder, in_remainder },
	{ Py_nb_lshift, op_lshift },
	{ Py_nb_inplace_lshift, in_lshift },
	{ Py_nb_rshift, op_rshift },
	{ Py_nb_inplace_rshift, in_rshift },
	{ Py_nb_and, op_and },
	{ Py_nb_inplace_and, in_and },
	{ Py_nb_or, op_or },
	{ Py_nb_inplace_or, in_or },
	{ Py_nb_xor, op_xor },
	{ Py_nb_inplace_xor, in_xor },
	{ Py_nb_power, op_power },
	{ Py_nb_inplace_power, in_power },
	{ Py_nb_matrix_multiply, op_matmul },
	{ Py_nb_negative, op_negative },
	{ Py_nb_absolute, op_absolute },
	{ Py_nb_invert, op_invert },
	{ Py_nb_positive, op_positive },
	{ Py_tp_richcompare, compare },
	{ Py_tp_hash, PyObject_HashNotImplemented },
	{ 0, NULL },
};
