/*
 * section:  integer
 * requires: types declare
 * provides: zero_ one_ abs_ neg_ sign_ relu_ floor_ ceil_ round_ trunc_ isnan_ isinf_ isfinite_
 *           not_ and_ or_ xor_ add_ sub_ mul_ max_ min_ shl_ shr_ pow_ floor_divide_ remainder_
 *           eq_ ne_ lt_ le_ where_
 *
 * The operations on the eight integer registers; bool lives in u8v.
 *
 * Everything wraps. Signed arithmetic goes through the unsigned type, and at W = 1 narrow operands
 * through uint, since the promotion to int would overflow (65535 * 65535). Division is guarded
 * before it happens: x / 0 is 0, the smallest integer by -1 is itself.
 */

/* The type in which unsigned lanes of 8, 16, 32 and 64 bits are computed. */
#if W == 1
#define WIDE_uchar uint
#define WIDE_ushort uint
#else
#define WIDE_uchar u8v
#define WIDE_ushort u16v
#endif
#define WIDE_uint u32v
#define WIDE_ulong u64v

/* T an integer register of elements E, U the unsigned one of UE, Z the computing type, B its width. */
#define INTEGER(T, E, U, UE, Z, B, MASK) \
	OVL T zero_(T a) { return (T)0; } \
	OVL T one_(T a) { return (T)1; } \
	OVL T neg_(T a) { return AS(E, (U)((Z)0 - (Z)AS(UE, a))); } \
	OVL T floor_(T a) { return a; } \
	OVL T ceil_(T a) { return a; } \
	OVL T round_(T a) { return a; } \
	OVL T trunc_(T a) { return a; } \
	OVL u8v isnan_(T a) { return (u8v)0; } \
	OVL u8v isinf_(T a) { return (u8v)0; } \
	OVL u8v isfinite_(T a) { return (u8v)1; } \
	OVL T not_(T a) { return (T)~a; } \
	OVL T and_(T a, T b) { return (T)(a & b); } \
	OVL T or_(T a, T b) { return (T)(a | b); } \
	OVL T xor_(T a, T b) { return (T)(a ^ b); } \
	OVL T add_(T a, T b) { return AS(E, (U)((Z)AS(UE, a) + (Z)AS(UE, b))); } \
	OVL T sub_(T a, T b) { return AS(E, (U)((Z)AS(UE, a) - (Z)AS(UE, b))); } \
	OVL T mul_(T a, T b) { return AS(E, (U)((Z)AS(UE, a) * (Z)AS(UE, b))); } \
	OVL T max_(T a, T b) { return a > b ? a : b; } \
	OVL T min_(T a, T b) { return a < b ? a : b; } \
	OVL u8v eq_(T a, T b) { return TRUTH(a == b); } \
	OVL u8v ne_(T a, T b) { return TRUTH(a != b); } \
	OVL u8v lt_(T a, T b) { return TRUTH(a < b); } \
	OVL u8v le_(T a, T b) { return TRUTH(a <= b); } \
	OVL T where_(u8v c, T a, T b) { return MASK(c) ? a : b; } \
	OVL T shl_(T a, T b) { \
		U by = AS(UE, b); \
		U y = (U)((Z)AS(UE, a) << (Z)(U)(by & (U)(B - 1))); \
		y = by < (U)B ? y : (U)0; \
		return AS(E, y); \
	}

#define UNSIGNED(T, B) \
	OVL T abs_(T a) { return a; } \
	OVL T sign_(T a) { return a != (T)0 ? (T)1 : (T)0; } \
	OVL T relu_(T a) { return a; } \
	OVL T shr_(T a, T b) { return b < (T)B ? (T)(a >> (T)(b & (T)(B - 1))) : (T)0; }

#define SIGNED(T, U, UE, B) \
	OVL T abs_(T a) { return a < (T)0 ? neg_(a) : a; } \
	OVL T sign_(T a) { return a < (T)0 ? (T)-1 : (a > (T)0 ? (T)1 : (T)0); } \
	OVL T relu_(T a) { return a < (T)0 ? (T)0 : a; } \
	OVL T shr_(T a, T b) { \
		U by = AS(UE, b); \
		by = by < (U)B ? by : (U)(B - 1); \
		return (T)(a >> by); \
	}

INTEGER(i8v, char, u8v, uchar, WIDE_uchar, 8, MASK8)
INTEGER(u8v, uchar, u8v, uchar, WIDE_uchar, 8, MASK8)
INTEGER(i16v, short, u16v, ushort, WIDE_ushort, 16, MASK16)
INTEGER(u16v, ushort, u16v, ushort, WIDE_ushort, 16, MASK16)
INTEGER(i32v, int, u32v, uint, WIDE_uint, 32, MASK32)
INTEGER(u32v, uint, u32v, uint, WIDE_uint, 32, MASK32)
INTEGER(i64v, long, u64v, ulong, WIDE_ulong, 64, MASK64)
INTEGER(u64v, ulong, u64v, ulong, WIDE_ulong, 64, MASK64)
UNSIGNED(u8v, 8)
UNSIGNED(u16v, 16)
UNSIGNED(u32v, 32)
UNSIGNED(u64v, 64)
SIGNED(i8v, u8v, uchar, 8)
SIGNED(i16v, u16v, ushort, 16)
SIGNED(i32v, u32v, uint, 32)
SIGNED(i64v, u64v, ulong, 64)

/*
 * Division of 8 and 16 bits through float: a quotient that is no integer differs from one by more
 * than 2^-16 of itself, so its rounding never reaches it, and floor is exact.
 */
#define DIVIDE_BY_FLOAT(T, E) \
	OVL T floor_divide_(T a, T b) { \
		i32v divisor = CONVERT(int, b); \
		f32v y = CONVERT(float, divisor == 0 ? (i32v)1 : divisor); \
		i32v q = CONVERT(int, floor(CONVERT(float, a) / y)); \
		return CONVERT(E, divisor == 0 ? (i32v)0 : q); \
	}
DIVIDE_BY_FLOAT(i8v, char)
DIVIDE_BY_FLOAT(u8v, uchar)
DIVIDE_BY_FLOAT(i16v, short)
DIVIDE_BY_FLOAT(u16v, ushort)

/*
 * 32 bits: vectors, which have no integer division, go through double by the same argument (2^-32
 * against 2^-53); scalars divide. Magnitudes are divided unsigned, where nothing can trap.
 */
OVL u32v floor_divide_(u32v a, u32v b) {
	u32v divisor = b == 0u ? (u32v)1u : b;
#if W > 1 && defined(HAS_F64)
	u32v q = CONVERT(uint, CONVERT(double, a) / CONVERT(double, divisor));
#else
	u32v q = a / divisor;
#endif
	return b == 0u ? (u32v)0u : q;
}

OVL u64v floor_divide_(u64v a, u64v b) {
	u64v q = a / (b == (u64v)0 ? (u64v)1 : b);

	return b == (u64v)0 ? (u64v)0 : q;
}

/* Rounds down: one less where the signs differ and something is left over. */
#define DIVIDE_MAGNITUDES(T, E, U, UE) \
	OVL T floor_divide_(T a, T b) { \
		U x = AS(UE, abs_(a)), y = AS(UE, abs_(b)); \
		U q = floor_divide_(x, y); \
		U down = (U)0 - q - (q * y != x ? (U)1 : (U)0); \
		T r = AS(E, (a ^ b) < (T)0 ? down : q); \
		return b == (T)0 ? (T)0 : r; \
	}
DIVIDE_MAGNITUDES(i32v, int, u32v, uint)
DIVIDE_MAGNITUDES(i64v, long, u64v, ulong)

/* a - b floor(a / b), so with the sign of b; and powers by squaring, at most once a bit of b. */
#define DIVISION_AND_POWER(T, E, U, UE, Z, B) \
	OVL T remainder_(T a, T b) { \
		T r = sub_(a, mul_(floor_divide_(a, b), b)); \
		return b == (T)0 ? (T)0 : r; \
	} \
	OVL T power_of_bits(T a, U b) { \
		T r = (T)1; \
		for (int i = 0; i < B && ANY(b != (U)0); i++) { \
			r = (U)(b & (U)1) != (U)0 ? mul_(r, a) : r; \
			a = mul_(a, a); \
			b = (U)(b >> (U)1); \
		} \
		return r; \
	}
#define UNSIGNED_POWER(T) OVL T pow_(T a, T b) { return power_of_bits(a, b); }
#define SIGNED_POWER(T, UE) \
	OVL T pow_(T a, T b) { \
		T r = power_of_bits(a, AS(UE, b)); \
		T below = a == (T)1 ? (T)1 : (a == (T)-1 ? ((b & (T)1) != (T)0 ? (T)-1 : (T)1) : (T)0); \
		return b < (T)0 ? below : r; \
	}
DIVISION_AND_POWER(i8v, char, u8v, uchar, WIDE_uchar, 8)
DIVISION_AND_POWER(u8v, uchar, u8v, uchar, WIDE_uchar, 8)
DIVISION_AND_POWER(i16v, short, u16v, ushort, WIDE_ushort, 16)
DIVISION_AND_POWER(u16v, ushort, u16v, ushort, WIDE_ushort, 16)
DIVISION_AND_POWER(i32v, int, u32v, uint, WIDE_uint, 32)
DIVISION_AND_POWER(u32v, uint, u32v, uint, WIDE_uint, 32)
DIVISION_AND_POWER(i64v, long, u64v, ulong, WIDE_ulong, 64)
DIVISION_AND_POWER(u64v, ulong, u64v, ulong, WIDE_ulong, 64)
UNSIGNED_POWER(u8v)
UNSIGNED_POWER(u16v)
UNSIGNED_POWER(u32v)
UNSIGNED_POWER(u64v)
SIGNED_POWER(i8v, uchar)
SIGNED_POWER(i16v, ushort)
SIGNED_POWER(i32v, uint)
SIGNED_POWER(i64v, ulong)

#undef INTEGER
#undef UNSIGNED
#undef SIGNED
#undef DIVIDE_BY_FLOAT
#undef DIVIDE_MAGNITUDES
#undef DIVISION_AND_POWER
#undef UNSIGNED_POWER
#undef SIGNED_POWER
