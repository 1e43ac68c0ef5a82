/* Element types, and single elements as Python numbers. */
#include "core.h"

#include <math.h>
#include <string.h>

/* In the order of enum fusion_dtype. */
const struct dtype_row dtypes[DTYPES] = {
	[FUSION_BOOL] = { "bool", "?", 1, 'b', 6, 8 },
	[FUSION_I8] = { "int8", "b", 1, 'i', 0, 8 },
	[FUSION_U8] = { "uint8", "B", 1, 'u', 1, 8 },
	[FUSION_I16] = { "int16", "h", 2, 'i', 0, 16 },
	[FUSION_U16] = { "uint16", "H", 2, 'u', 1, 16 },
	[FUSION_I32] = { "int32", "i", 4, 'i', 0, 32 },
	[FUSION_U32] = { "uint32", "I", 4, 'u', 1, 32 },
	[FUSION_I64] = { "int64", "l", 8, 'i', 0, 64 },
	[FUSION_U64] = { "uint64", "L", 8, 'u', 1, 64 },
	[FUSION_F16] = { "float16", "e", 2, 'f', 2, 16 },
	[FUSION_BF16] = { "bfloat16", NULL, 2, 'f', 4, 16 },
	[FUSION_F32] = { "float32", "f", 4, 'f', 2, 32 },
	[FUSION_F64] = { "float64", "d", 8, 'f', 2, 64 },
};

static int signed_of(unsigned bytes) {
	return bytes == 1 ? FUSION_I8 : bytes == 2 ? FUSION_I16 : bytes == 4 ? FUSION_I32 : FUSION_I64;
}

/* As dtype_promote() of protocol/dtype.h has it. */
int dtype_meet(int a, int b) {
	const struct dtype_row *x = &dtypes[a], *y = &dtypes[b];

	if (a == b || y->kind == 'b')
		return a;
	if (x->kind == 'b')
		return b;
	if ((x->kind == 'f') != (y->kind == 'f'))
		return x->kind == 'f' ? a : b;
	if (x->kind == y->kind)
		return x->bytes == y->bytes ? FUSION_F32 : x->bytes > y->bytes ? a : b;
	if (x->kind == 'i')
		return x->bytes > y->bytes ? a : signed_of(2U * y->bytes);
	return y->bytes > x->bytes ? b : signed_of(2U * x->bytes);
}

int dtype_of(PyObject *object) {
	for (int i = 0; i < DTYPES; i++)
		if (registry.dtype[i] == object)
			return i;
	PyErr_Format(PyExc_TypeError, "%R is not an element type of fusion", object);
	return -1;
}

/*
 * Of the struct module: native sizes, and little-endian ones where this machine is. A long is what its bytes say: ctypes calls
 * one of eight bytes "<l".
 */
int dtype_from_format(const char *format, Py_ssize_t bytes) {
	static const char native[] = "?bBhHiIlLqQnNefd";
	static const uint8_t type[] = { FUSION_BOOL, FUSION_I8, FUSION_U8, FUSION_I16, FUSION_U16, FUSION_I32, FUSION_U32,
		sizeof(long) == 8 ? FUSION_I64 : FUSION_I32, sizeof(long) == 8 ? FUSION_U64 : FUSION_U32, FUSION_I64, FUSION_U64,
		FUSION_I64, FUSION_U64, FUSION_F16, FUSION_F32, FUSION_F64 };
	const char *at;
	int found;

	if (*format == '=' || *format == '<' || *format == '@')
		format++;
	if (!*format || format[1])
		return -1;
	if (*format == 'l' && (bytes == 4 || bytes == 8))
		return bytes == 4 ? FUSION_I32 : FUSION_I64;
	if (*format == 'L' && (bytes == 4 || bytes == 8))
		return bytes == 4 ? FUSION_U32 : FUSION_U64;
	at = strchr(native, *format);
	found = at ? type[at - native] : -1;
	return found >= 0 && dtypes[found].bytes == bytes ? found : -1;
}

static float f16_to_float(uint16_t bits) {
	int exponent = bits >> 10 & 31, fraction = bits & 1023;
	float magnitude = exponent == 31 ? (fraction ? NAN : INFINITY)
		: exponent ? ldexpf((float)(fraction | 1024), exponent - 25) : ldexpf((float)fraction, -24);

	return bits & 0x8000 ? -magnitude : magnitude;
}

static float bf16_to_float(uint16_t bits) {
	uint32_t wide = (uint32_t)bits << 16;
	float f;

	memcpy(&f, &wide, sizeof f);
	return f;
}

PyObject *element_get(int dtype, const void *memory) {
	union {
		int8_t i8;
		uint8_t u8;
		int16_t i16;
		uint16_t u16;
		int32_t i32;
		uint32_t u32;
		int64_t i64;
		uint64_t u64;
		float f32;
		double f64;
	} e;

	memcpy(&e, memory, dtypes[dtype].bytes);
	switch (dtype) {
	case FUSION_BOOL: return PyBool_FromLong(e.u8);
	case FUSION_I8: return PyLong_FromLong(e.i8);
	case FUSION_U8: return PyLong_FromLong(e.u8);
	case FUSION_I16: return PyLong_FromLong(e.i16);
	case FUSION_U16: return PyLong_FromLong(e.u16);
	case FUSION_I32: return PyLong_FromLong(e.i32);
	case FUSION_U32: return PyLong_FromUnsignedLong(e.u32);
	case FUSION_I64: return PyLong_FromLongLong(e.i64);
	case FUSION_U64: return PyLong_FromUnsignedLongLong(e.u64);
	case FUSION_F16: return PyFloat_FromDouble(f16_to_float(e.u16));
	case FUSION_BF16: return PyFloat_FromDouble(bf16_to_float(e.u16));
	case FUSION_F32: return PyFloat_FromDouble(e.f32);
	default: return PyFloat_FromDouble(e.f64);
	}
}

static bool set_integer(int dtype, void *memory, PyObject *number) {
	unsigned bits = 8U * dtypes[dtype].bytes;
	bool is_signed = dtypes[dtype].kind == 'i';
	PyObject *index = PyNumber_Index(number);
	uint64_t word;
	bool fits;

	if (!index)
		return false;
	if (is_signed) {
		long long v = PyLong_AsLongLong(index);

		fits = !PyErr_Occurred() && v >= INT64_MIN >> (64 - bits) && v <= INT64_MAX >> (64 - bits);
		word = (uint64_t)v;
	} else {
		word = PyLong_AsUnsignedLongLong(index);
		fits = !PyErr_Occurred() && (bits == 64 || word < UINT64_C(1) << bits);
	}
	if (!fits) {
		PyErr_Clear();
		PyErr_Format(PyExc_OverflowError, "%S is out of the range of %s", index, dtypes[dtype].name);
	}
	Py_DECREF(index);
	memcpy(memory, &word, dtypes[dtype].bytes);
	return fits;
}

/* f16 and bf16 are made by a cast on the device: nobody asks for them here. */
bool element_set(int dtype, void *memory, PyObject *number) {
	double d;
	float f;

	if (dtype == FUSION_BOOL) {
		int truth = PyObject_IsTrue(number);

		*(uint8_t *)memory = truth > 0;
		return truth >= 0;
	}
	if (dtypes[dtype].kind != 'f')
		return set_integer(dtype, memory, number);
	d = PyFloat_AsDouble(number);
	if (d == -1 && PyErr_Occurred())
		return false;
	f = (float)d;
	if (dtype == FUSION_F64)
		memcpy(memory, &d, sizeof d);
	else
		memcpy(memory, &f, sizeof f);
	return true;
}
