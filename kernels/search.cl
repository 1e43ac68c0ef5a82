/*
 * section:  search
 * requires: types convert memory
 * provides: search_D
 *           for D in bool i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64
 *
 * Places in a sorted vector, by bisection: all lanes take steps of the same length, side by side. Whatever the vector
 * holds, nothing outside it is read.
 */
#define SEARCH_LESS(a, b) ((a) < (b))
/* NaN is above everything else. */
#define SEARCH_LESS_REAL(a, b) (((a) < (b)) | (((b) != (b)) & ((a) == (a))))

#if W == 1
#define SEARCH_LANES r = p[at * stride];
#define SEARCH_LONG(mask) ((long)TRUTH(mask))
#else
#define SEARCH_LANE(i, c) r.s##c = p[at.s##c * stride];
#define SEARCH_LANES EACH_LANE(SEARCH_LANE)
#define SEARCH_LONG(mask) CONVERT(long, TRUTH(mask))
#endif

/* How many elements are below the needle; from the right: not above it. */
#define SEARCH(D, M, MR, R, UNPACK, LESS) \
	OVL MR search_get_##D(global const JOIN(M, _element) *p, i64v at, long stride) { \
		MR r; \
		SEARCH_LANES \
		return r; \
	} \
	OVL i64v search_##D(global const uchar *from, R needle, long extent, long stride, int right) { \
		global const JOIN(M, _element) *p = (global const JOIN(M, _element) *)from; \
		i64v at = 0; \
		for (long n = extent, step; n > 0; n -= step) { \
			step = n - n / 2; \
			const R v = UNPACK(search_get_##D(p, at + (i64v)(step - 1), stride)); \
			at += (right ? (i64v)1 - SEARCH_LONG(LESS(needle, v)) : SEARCH_LONG(LESS(v, needle))) * (i64v)step; \
		} \
		return at; \
	}

SEARCH(bool, uchar, u8v, u8v, NOT_ZERO, SEARCH_LESS)
SEARCH(i8, char, i8v, i8v, AS_IT_IS, SEARCH_LESS)
SEARCH(u8, uchar, u8v, u8v, AS_IT_IS, SEARCH_LESS)
SEARCH(i16, short, i16v, i16v, AS_IT_IS, SEARCH_LESS)
SEARCH(u16, ushort, u16v, u16v, AS_IT_IS, SEARCH_LESS)
SEARCH(i32, int, i32v, i32v, AS_IT_IS, SEARCH_LESS)
SEARCH(u32, uint, u32v, u32v, AS_IT_IS, SEARCH_LESS)
SEARCH(i64, long, i64v, i64v, AS_IT_IS, SEARCH_LESS)
SEARCH(u64, ulong, u64v, u64v, AS_IT_IS, SEARCH_LESS)
SEARCH(f16, ushort, u16v, f32v, unpack_f16, SEARCH_LESS_REAL)
SEARCH(bf16, ushort, u16v, f32v, unpack_bf16, SEARCH_LESS_REAL)
SEARCH(f32, float, f32v, f32v, AS_IT_IS, SEARCH_LESS_REAL)
#ifdef HAS_F64
SEARCH(f64, double, f64v, f64v, AS_IT_IS, SEARCH_LESS_REAL)
#endif
