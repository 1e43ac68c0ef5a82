/*
 * section:  take
 * requires: types convert memory
 * provides: position take_D
 *           for D in bool i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64
 *
 * Elements from places along an axis that are known only when a kernel runs.
 *
 * Nothing outside the axis is read, whatever an index says: what is beyond is 0.
 */

/* The place an index names on an axis: a negative one counts from the end; -1 where there is none. */
OVL long position(long index, long extent) {
	const long at = index < 0 ? index + extent : index;

	return at < 0 || at >= extent ? -1 : at;
}

#if W > 1
OVL i64v position(i64v index, i64v extent) {
	const i64v at = index < (i64v)0 ? index + extent : index;

	return at < (i64v)0 ? (i64v)-1 : (at >= extent ? (i64v)-1 : at);
}

/*
 * Lane i from at[i] * stride + i * lane, the first n lanes; those where at is below 0 are 0. Lanes
 * from n on repeat the last one.
 */
#define TAKE_LANE(i, c) \
	r.s##c = p[max(at.s##c, 0l) * stride + (i < n ? i : n - 1) * lane]; \
	r.s##c = at.s##c < 0 ? 0 : r.s##c;

#define TAKE(M, R) \
	OVL R get_taken_##M(global const uchar *from, i64v at, long stride, long lane, int n) { \
		global const JOIN(M, _element) *p = (global const JOIN(M, _element) *)from; \
		R r; \
		EACH_LANE(TAKE_LANE) \
		return r; \
	}
#define TAKE_AS(D, M, R, UNPACK) \
	OVL R take_##D(global const uchar *p, i64v at, long stride, long lane, int n) { \
		return UNPACK(get_taken_##M(p, at, stride, lane, n)); \
	}

TAKE(char, i8v)
TAKE(uchar, u8v)
TAKE(short, i16v)
TAKE(ushort, u16v)
TAKE(int, i32v)
TAKE(uint, u32v)
TAKE(long, i64v)
TAKE(ulong, u64v)
TAKE(float, f32v)

TAKE_AS(bool, uchar, u8v, NOT_ZERO)
TAKE_AS(i8, char, i8v, AS_IT_IS)
TAKE_AS(u8, uchar, u8v, AS_IT_IS)
TAKE_AS(i16, short, i16v, AS_IT_IS)
TAKE_AS(u16, ushort, u16v, AS_IT_IS)
TAKE_AS(i32, int, i32v, AS_IT_IS)
TAKE_AS(u32, uint, u32v, AS_IT_IS)
TAKE_AS(i64, long, i64v, AS_IT_IS)
TAKE_AS(u64, ulong, u64v, AS_IT_IS)
TAKE_AS(f16, ushort, f32v, unpack_f16)
TAKE_AS(bf16, ushort, f32v, unpack_bf16)
TAKE_AS(f32, float, f32v, AS_IT_IS)
#ifdef HAS_F64
TAKE(double, f64v)
TAKE_AS(f64, double, f64v, AS_IT_IS)
#endif
#endif
