/*
 * section:  convert
 * requires: types declare
 * provides: to_bool to_i8 to_u8 to_i16 to_u16 to_i32 to_u32 to_i64 to_u64 to_f16 to_bf16 to_f32 to_f64
 *           round_f16 round_bf16
 *
 * Conversions between register types, and the 16-bit formats.
 *
 * Floats to integers truncate and saturate, NaN gives 0; integers wrap among each other; everything
 * to a float rounds once, to nearest even. The 16-bit formats are computed with integer and exact float
 * arithmetic that meets no subnormal float, so the bits do not depend on the driver.
 */

/* A quiet NaN, and infinity, as bits. */
#define F32_NAN 0x7fc00000u
#define F32_INFINITY 0x7f800000u

/* Rounds to binary16. Adding 2^(e+13) to a value of exponent e leaves 10 bits of fraction. */
OVL f32v round_f16(f32v x) {
	u32v bits = AS(uint, x);
	u32v magnitude = bits & 0x7fffffffu;
	u32v exponent = magnitude & 0x7f800000u;
	f32v shift, y;

	exponent = exponent < 0x38800000u ? (u32v)0x38800000u : exponent;     /* subnormals: e = -14 */
	exponent = exponent > 0x48000000u ? (u32v)0x48000000u : exponent;     /* these overflow anyway */
	shift = AS(float, exponent + (13u << 23));
	y = (AS(float, magnitude) + shift) - shift;
	y = y > 65504.0f ? (f32v)INFINITY : y;
	return AS(float, AS(uint, y) | (bits & 0x80000000u));
}

/* Rounds to bfloat16: the upper 16 bits of a float. */
OVL f32v round_bf16(f32v x) {
	u32v bits = AS(uint, x);
	u32v y = (bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u;

	return AS(float, x != x ? (u32v)F32_NAN : y);
}

/* The bits of a binary16 that holds x, which must be rounded. */
OVL u16v pack_f16(f32v x) {
	u32v bits = AS(uint, x);
	u32v magnitude = bits & 0x7fffffffu;
	u32v h = (magnitude >> 13) - (112u << 10);

	h = magnitude < 0x38800000u ? AS(uint, AS(float, magnitude) + 0.5f) - 0x3f000000u : h;
	h = magnitude >= F32_INFINITY ? (u32v)0x7c00u : h;
	h = magnitude > F32_INFINITY ? (u32v)0x7e00u : h;
	return CONVERT(ushort, h | ((bits >> 16) & 0x8000u));
}

/* The value of a binary16. A subnormal is 2^-14 (1 + m 2^-10) less 2^-14. */
OVL f32v unpack_f16(u16v h) {
	u32v bits = CONVERT(uint, h);
	u32v magnitude = (bits & 0x7fffu) << 13;
	u32v y = magnitude + (112u << 23);
	f32v small = AS(float, magnitude + (113u << 23)) - 0x1p-14f;

	y = magnitude < (1u << 23) ? AS(uint, small) : y;
	y = magnitude >= (31u << 23) ? magnitude + (224u << 23) : y;
	return AS(float, y | ((bits & 0x8000u) << 16));
}

/* The bits of a bfloat16 that holds x, which must be rounded. */
OVL u16v pack_bf16(f32v x) {
	return CONVERT(ushort, AS(uint, x) >> 16);
}

OVL f32v unpack_bf16(u16v h) {
	return AS(float, CONVERT(uint, h) << 16);
}

/* Integers and bool to integers: wrap. At W = 1 the narrowing of a signed value is a plain cast. */
#define CONVERT_FROM(S) \
	OVL i8v to_i8(S x) { return CONVERT(char, x); } \
	OVL u8v to_u8(S x) { return CONVERT(uchar, x); } \
	OVL i16v to_i16(S x) { return CONVERT(short, x); } \
	OVL u16v to_u16(S x) { return CONVERT(ushort, x); } \
	OVL i32v to_i32(S x) { return CONVERT(int, x); } \
	OVL u32v to_u32(S x) { return CONVERT(uint, x); } \
	OVL i64v to_i64(S x) { return CONVERT(long, x); } \
	OVL u64v to_u64(S x) { return CONVERT(ulong, x); } \
	OVL f32v to_f32(S x) { return CONVERT(float, x); } \
	OVL u8v to_bool(S x) { return TRUTH(x != (S)0); }
CONVERT_FROM(i8v)
CONVERT_FROM(u8v)
CONVERT_FROM(i16v)
CONVERT_FROM(u16v)
CONVERT_FROM(i32v)
CONVERT_FROM(u32v)
CONVERT_FROM(i64v)
CONVERT_FROM(u64v)
#undef CONVERT_FROM

/*
 * To the 16-bit floats with one rounding. Up to 24 bits a float holds the integer exactly. What
 * binary16 can tell apart ends at 2^17; for bfloat16 the bits far below its last one are folded
 * into one sticky bit that stays below the rounding position.
 */
OVL f32v to_f16(i8v x) { return round_f16(CONVERT(float, x)); }
OVL f32v to_f16(u8v x) { return round_f16(CONVERT(float, x)); }
OVL f32v to_f16(i16v x) { return round_f16(CONVERT(float, x)); }
OVL f32v to_f16(u16v x) { return round_f16(CONVERT(float, x)); }
OVL f32v to_bf16(i8v x) { return round_bf16(CONVERT(float, x)); }
OVL f32v to_bf16(u8v x) { return round_bf16(CONVERT(float, x)); }
OVL f32v to_bf16(i16v x) { return round_bf16(CONVERT(float, x)); }
OVL f32v to_bf16(u16v x) { return round_bf16(CONVERT(float, x)); }

OVL f32v to_f16(u32v x) {
	return round_f16(CONVERT(float, x > 0x20000u ? (u32v)0x20000u : x));
}

OVL f32v to_f16(u64v x) {
	return round_f16(CONVERT(float, x > (u64v)0x20000u ? (u64v)0x20000u : x));
}

OVL f32v to_f16(i32v x) {
	x = x > 0x20000 ? (i32v)0x20000 : x;
	return round_f16(CONVERT(float, x < -0x20000 ? (i32v)-0x20000 : x));
}

OVL f32v to_f16(i64v x) {
	x = x > (i64v)0x20000 ? (i64v)0x20000 : x;
	return round_f16(CONVERT(float, x < (i64v)-0x20000 ? (i64v)-0x20000 : x));
}

OVL f32v to_bf16(u32v x) {
	u32v folded = (x >> 8) | ((x & 0xffu) != 0 ? (u32v)1u : (u32v)0u);
	f32v large = CONVERT(float, folded) * 0x1p8f;

	return round_bf16(x < 0x1000000u ? CONVERT(float, x) : large);
}

OVL u64v fold_16_bits(u64v x) {
	u64v folded = (x >> 16) | ((x & (u64v)0xffff) != (u64v)0 ? (u64v)1 : (u64v)0);

	return x >> 32 != (u64v)0 ? folded : x;
}

OVL f32v to_bf16(u64v x) {
	u64v once = fold_16_bits(x), twice = fold_16_bits(once);
	f32v y = to_bf16(CONVERT(uint, twice));

	y = CONVERT(int, CONVERT(uint, x >> 32)) != 0 ? y * 0x1p16f : y;
	return CONVERT(int, CONVERT(uint, once >> 32)) != 0 ? y * 0x1p16f : y;
}

OVL f32v to_bf16(i32v x) {
	u32v bits = AS(uint, x);
	f32v y = to_bf16(x < 0 ? 0u - bits : bits);

	return x < 0 ? -y : y;
}

OVL f32v to_bf16(i64v x) {
	u64v bits = AS(ulong, x);
	f32v y = to_bf16(x < (i64v)0 ? (u64v)0 - bits : bits);

	return CONVERT(int, x >> 63) != 0 ? -y : y;
}

/* Limits that both types hold exactly: clamp, then truncate. */
#define TO_NARROW(name, R, element, through, S, low, high) \
	OVL R name(S x) { \
		S y = x == x ? x : (S)0; \
		y = y < (S)low ? (S)low : y; \
		y = y > (S)high ? (S)high : y; \
		return CONVERT(element, CONVERT(through, y)); \
	}
/* The largest integer is no float: what reaches `above` is replaced after the conversion. */
#define TO_WIDE(name, R, element, S, low, above, highest, mask_of) \
	OVL R name(S x) { \
		S y = x >= (S)low ? x : (S)low; \
		y = x == x ? y : (S)0; \
		y = x >= (S)above ? (S)0 : y; \
		return mask_of(x >= (S)above) ? (R)highest : CONVERT(element, y); \
	}
#define SAME_MASK(mask) (mask)

TO_NARROW(to_i8, i8v, char, int, f32v, -128.0f, 127.0f)
TO_NARROW(to_u8, u8v, uchar, int, f32v, 0.0f, 255.0f)
TO_NARROW(to_i16, i16v, short, int, f32v, -32768.0f, 32767.0f)
TO_NARROW(to_u16, u16v, ushort, int, f32v, 0.0f, 65535.0f)
TO_WIDE(to_i32, i32v, int, f32v, -0x1p31f, 0x1p31f, 0x7fffffff, SAME_MASK)
TO_WIDE(to_u32, u32v, uint, f32v, 0.0f, 0x1p32f, 0xffffffffu, SAME_MASK)
TO_WIDE(to_i64, i64v, long, f32v, -0x1p63f, 0x1p63f, 0x7fffffffffffffffL, MASK64_OF_32)
TO_WIDE(to_u64, u64v, ulong, f32v, 0.0f, 0x1p64f, 0xffffffffffffffffUL, MASK64_OF_32)
OVL f32v to_f32(f32v x) { return x; }
OVL f32v to_f16(f32v x) { return round_f16(x); }
OVL f32v to_bf16(f32v x) { return round_bf16(x); }
OVL u8v to_bool(f32v x) { return TRUTH(x != 0.0f); }

#ifdef HAS_F64
#define DOUBLE_FROM(S) OVL f64v to_f64(S x) { return CONVERT(double, x); }
DOUBLE_FROM(i8v)
DOUBLE_FROM(u8v)
DOUBLE_FROM(i16v)
DOUBLE_FROM(u16v)
DOUBLE_FROM(i32v)
DOUBLE_FROM(u32v)
DOUBLE_FROM(i64v)
DOUBLE_FROM(u64v)
DOUBLE_FROM(f32v)
#undef DOUBLE_FROM

TO_NARROW(to_i8, i8v, char, int, f64v, -128.0, 127.0)
TO_NARROW(to_u8, u8v, uchar, int, f64v, 0.0, 255.0)
TO_NARROW(to_i16, i16v, short, int, f64v, -32768.0, 32767.0)
TO_NARROW(to_u16, u16v, ushort, int, f64v, 0.0, 65535.0)
TO_NARROW(to_i32, i32v, int, int, f64v, -2147483648.0, 2147483647.0)
TO_NARROW(to_u32, u32v, uint, uint, f64v, 0.0, 4294967295.0)
TO_WIDE(to_i64, i64v, long, f64v, -0x1p63, 0x1p63, 0x7fffffffffffffffL, SAME_MASK)
TO_WIDE(to_u64, u64v, ulong, f64v, 0.0, 0x1p64, 0xffffffffffffffffUL, SAME_MASK)
OVL f64v to_f64(f64v x) { return x; }
OVL f32v to_f32(f64v x) { return CONVERT(float, x); }
OVL u8v to_bool(f64v x) { return TRUTH(x != (f64v)0.0); }

/*
 * The float towards which x was rounded, or where that is inexact the odd one of its two
 * neighbours: a second rounding to fewer bits is then right (Boldo, Melquiond 2008).
 */
OVL f32v round_to_odd_f32(f64v x) {
	f32v y = CONVERT(float, x);
	f64v back = CONVERT(double, y);
	u32v bits = AS(uint, y);
	m32v even = (bits & 1u) == 0u;
	m32v inexact = MASK32_OF_64((back < x) | (back > x));
	m32v outward = MASK32_OF_64(fabs(back) < fabs(x));
	u32v other = outward ? bits + 1u : bits - 1u;

	return AS(float, even & inexact ? other : bits);
}

OVL f32v round_f16(f64v x) { return round_f16(round_to_odd_f32(x)); }
OVL f32v round_bf16(f64v x) { return round_bf16(round_to_odd_f32(x)); }
OVL f32v to_f16(f64v x) { return round_f16(x); }
OVL f32v to_bf16(f64v x) { return round_bf16(x); }
#endif

#undef TO_NARROW
#undef TO_WIDE
#undef SAME_MASK
