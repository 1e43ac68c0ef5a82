/*
 * section:  memory
 * requires: types convert
 * provides: load_D aligned_D loadn_D uniform_D gather_D store_D storen_D scatter_D stream_D scalar_D iota_i64 AHEAD
 *           for D in bool i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64
 *
 * Between memory and registers. Addresses are byte addresses, aligned to one element.
 *
 * load_D may read W elements where fewer are wanted, and gather_D of W lanes the elements between and up to 3 beyond;
 * everything else touches only what it names.
 * Vectors are reached through types of less alignment rather than vload and vstore, which some
 * compilers take apart. The types may alias, because kernels overwrite arrays in place
 * with values of other types.
 */
#define MAY_ALIAS __attribute__((may_alias))

/* EACH_LANE(DO) is DO(index, component name) for every lane; never used at W = 1. */
#if W == 2
#define EACH_LANE(DO) DO(0, 0) DO(1, 1)
#elif W == 4
#define EACH_LANE(DO) DO(0, 0) DO(1, 1) DO(2, 2) DO(3, 3)
#elif W == 8
#define EACH_LANE(DO) DO(0, 0) DO(1, 1) DO(2, 2) DO(3, 3) DO(4, 4) DO(5, 5) DO(6, 6) DO(7, 7)
#elif W == 16
#define EACH_LANE(DO) DO(0, 0) DO(1, 1) DO(2, 2) DO(3, 3) DO(4, 4) DO(5, 5) DO(6, 6) DO(7, 7) \
	DO(8, 8) DO(9, 9) DO(10, a) DO(11, b) DO(12, c) DO(13, d) DO(14, e) DO(15, f)
#endif

/* Without the compiler's help a stream is an ordinary store. */
#define STREAM(R, p, v) *(global R *)(p) = (v)
#if defined(__has_builtin) && !defined(WITHOUT_STREAM)
#if __has_builtin(__builtin_nontemporal_store)
#undef STREAM
#define STREAM(R, p, v) __builtin_nontemporal_store(v, (global R *)(p))
#endif
#endif

/* Asks for the line at an address that is read later; it may lie anywhere. Not where a program is not yet machine code. */
#define AHEAD(p)
#if defined(__has_builtin) && !defined(WITHOUT_AHEAD) && !defined(__SPIR__)
#if __has_builtin(__builtin_prefetch)
#undef AHEAD
#define AHEAD(p) __builtin_prefetch((const void *)(ulong)(p), 0, 3)
#endif
#endif

#if W == 1
#define LOOSE_TYPE(M) typedef M JOIN(M, _loose) MAY_ALIAS; typedef M JOIN(M, _whole) MAY_ALIAS;
#define GATHER_LANES r = p[0];
#define SCATTER_LANES if (n > 0) p[0] = v;
#else
#define LOOSE_TYPE(M) \
	typedef M JOIN(M, _loose) __attribute__((ext_vector_type(W), aligned(sizeof(M)), may_alias)); \
	typedef M JOIN(M, _whole) __attribute__((ext_vector_type(W), may_alias));
#define GATHER_LANE(i, c) r.s##c = p[(i < n ? i : n - 1) * stride];
#define SCATTER_LANE(i, c) if (i < n) p[i * stride] = v.s##c;
#define GATHER_LANES EACH_LANE(GATHER_LANE)
#define SCATTER_LANES EACH_LANE(SCATTER_LANE)
#endif

/* Lanes that lie up to 4 elements apart are picked from the vectors that they lie in, others are read one by one. */
#if W == 16
#define EVERY_2(a, b) (a.even, b.even)
#define EVERY_3(a, b, c) (a.s0, a.s3, a.s6, a.s9, a.sc, a.sf, b.s2, b.s5, b.s8, b.sb, b.se, c.s1, c.s4, c.s7, c.sa, c.sd)
#define PICK_LANES(M, R) \
	if (n >= W && stride == 2) \
		return (R)EVERY_2(get_##M(from), get_##M(from + W * sizeof(M))); \
	if (n >= W && stride == 3) { \
		const R a = get_##M(from), b = get_##M(from + W * sizeof(M)), c = get_##M(from + 2 * W * sizeof(M)); \
		return (R)EVERY_3(a, b, c); \
	} \
	if (n >= W && stride == 4) \
		return (R)(get_##M(from).even.even, get_##M(from + W * sizeof(M)).even.even, \
			get_##M(from + 2 * W * sizeof(M)).even.even, get_##M(from + 3 * W * sizeof(M)).even.even);
#else
#define PICK_LANES(M, R)
#endif

/* The first n < W lanes of v to p, by halves: one store for each bit of n. */
#define HALF_TYPE(M, count) \
	typedef M JOIN(M, _loose##count) __attribute__((ext_vector_type(count), aligned(sizeof(M)), may_alias));
#define PUT_HALF(M, count, from, half) \
	JOIN(M, count) half = from.lo; \
	if (n & count) { \
		*(global JOIN(M, _loose##count) *)p = half; \
		half = from.hi; \
		p += count; \
	}
#define PUT_LAST(from) if (n & 1) *p = from.x;
#if W == 1
#define HALF_TYPES(M)
#define PUT_FIRST(M) if (n > 0) *p = v;
#elif W == 2
#define HALF_TYPES(M)
#define PUT_FIRST(M) PUT_LAST(v)
#elif W == 4
#define HALF_TYPES(M) HALF_TYPE(M, 2)
#define PUT_FIRST(M) PUT_HALF(M, 2, v, two) PUT_LAST(two)
#elif W == 8
#define HALF_TYPES(M) HALF_TYPE(M, 2) HALF_TYPE(M, 4)
#define PUT_FIRST(M) PUT_HALF(M, 4, v, four) PUT_HALF(M, 2, four, two) PUT_LAST(two)
#else
#define HALF_TYPES(M) HALF_TYPE(M, 2) HALF_TYPE(M, 4) HALF_TYPE(M, 8)
#define PUT_FIRST(M) \
	PUT_HALF(M, 8, v, eight) PUT_HALF(M, 4, eight, four) PUT_HALF(M, 2, four, two) PUT_LAST(two)
#endif

/* Elements of memory type M, in vectors R of M, without a change of form. */
#define ELEMENT(M, R) \
	typedef M JOIN(M, _element) MAY_ALIAS; \
	LOOSE_TYPE(M) \
	HALF_TYPES(M) \
	OVL R get_##M(global const uchar *p) { return *(global const JOIN(M, _loose) *)p; } \
	OVL R get_aligned_##M(global const uchar *p) { return *(global const JOIN(M, _whole) *)p; } \
	OVL R get_one_##M(global const uchar *p) { return (R)*(global const JOIN(M, _element) *)p; } \
	OVL R get_lanes_##M(global const uchar *from, long stride, int n) { \
		PICK_LANES(M, R) \
		global const JOIN(M, _element) *p = (global const JOIN(M, _element) *)from; \
		R r; \
		GATHER_LANES \
		return r; \
	} \
	OVL void put_##M(global uchar *p, R v) { *(global JOIN(M, _loose) *)p = v; } \
	OVL void put_lanes_##M(global uchar *to, R v, long stride, int n) { \
		global JOIN(M, _element) *p = (global JOIN(M, _element) *)to; \
		SCATTER_LANES \
	} \
	OVL void put_first_##M(global uchar *to, R v, int n) { \
		global JOIN(M, _element) *p = (global JOIN(M, _element) *)to; \
		PUT_FIRST(M) \
	} \
	OVL void put_stream_##M(global uchar *p, R v) { STREAM(R, p, v); }

/* The accessors of one dtype D, held in register R, through UNPACK and PACK. */
#define ACCESSORS(D, M, R, UNPACK, PACK) \
	OVL R load_##D(global const uchar *p) { return UNPACK(get_##M(p)); } \
	OVL R aligned_##D(global const uchar *p) { return UNPACK(get_aligned_##M(p)); } \
	OVL R loadn_##D(global const uchar *p, int n) { \
		return n >= W ? UNPACK(get_##M(p)) : UNPACK(get_lanes_##M(p, 1, n)); \
	} \
	OVL R uniform_##D(global const uchar *p) { return UNPACK(get_one_##M(p)); } \
	OVL R gather_##D(global const uchar *p, long stride, int n) { \
		return n >= W ? UNPACK(get_lanes_##M(p, stride, W)) : UNPACK(get_lanes_##M(p, stride, n)); \
	} \
	OVL void store_##D(global uchar *p, R v) { put_##M(p, PACK(v)); } \
	OVL void storen_##D(global uchar *p, R v, int n) { \
		if (n >= W) \
			put_##M(p, PACK(v)); \
		else \
			put_first_##M(p, PACK(v), n); \
	} \
	OVL void scatter_##D(global uchar *p, R v, long stride, int n) { \
		put_lanes_##M(p, PACK(v), stride, n); \
	} \
	OVL void stream_##D(global uchar *p, R v) { put_stream_##M(p, PACK(v)); }

#define AS_IT_IS(x) (x)
#define NOT_ZERO(x) TRUTH((x) != (u8v)0)

ELEMENT(char, i8v)
ELEMENT(uchar, u8v)
ELEMENT(short, i16v)
ELEMENT(ushort, u16v)
ELEMENT(int, i32v)
ELEMENT(uint, u32v)
ELEMENT(long, i64v)
ELEMENT(ulong, u64v)
ELEMENT(float, f32v)

ACCESSORS(bool, uchar, u8v, NOT_ZERO, AS_IT_IS)
ACCESSORS(i8, char, i8v, AS_IT_IS, AS_IT_IS)
ACCESSORS(u8, uchar, u8v, AS_IT_IS, AS_IT_IS)
ACCESSORS(i16, short, i16v, AS_IT_IS, AS_IT_IS)
ACCESSORS(u16, ushort, u16v, AS_IT_IS, AS_IT_IS)
ACCESSORS(i32, int, i32v, AS_IT_IS, AS_IT_IS)
ACCESSORS(u32, uint, u32v, AS_IT_IS, AS_IT_IS)
ACCESSORS(i64, long, i64v, AS_IT_IS, AS_IT_IS)
ACCESSORS(u64, ulong, u64v, AS_IT_IS, AS_IT_IS)
ACCESSORS(f16, ushort, f32v, unpack_f16, pack_f16)
ACCESSORS(bf16, ushort, f32v, unpack_bf16, pack_bf16)
ACCESSORS(f32, float, f32v, AS_IT_IS, AS_IT_IS)

/* Scalars as dtype_scalar_from_* encodes them: the bits of the register type in 64. */
OVL u8v scalar_bool(ulong word) { return (u8v)(uchar)(word != 0); }
OVL i8v scalar_i8(ulong word) { return (i8v)(char)word; }
OVL u8v scalar_u8(ulong word) { return (u8v)(uchar)word; }
OVL i16v scalar_i16(ulong word) { return (i16v)(short)word; }
OVL u16v scalar_u16(ulong word) { return (u16v)(ushort)word; }
OVL i32v scalar_i32(ulong word) { return (i32v)(int)word; }
OVL u32v scalar_u32(ulong word) { return (u32v)(uint)word; }
OVL i64v scalar_i64(ulong word) { return (i64v)(long)word; }
OVL u64v scalar_u64(ulong word) { return (u64v)word; }
OVL f32v scalar_f16(ulong word) { return (f32v)as_float((uint)word); }
OVL f32v scalar_bf16(ulong word) { return (f32v)as_float((uint)word); }
OVL f32v scalar_f32(ulong word) { return (f32v)as_float((uint)word); }

#ifdef HAS_F64
ELEMENT(double, f64v)
ACCESSORS(f64, double, f64v, AS_IT_IS, AS_IT_IS)
OVL f64v scalar_f64(ulong word) { return (f64v)as_double(word); }
#endif

/* Lane l is first + l * stride, wrapping. */
OVL i64v iota_i64(long first, long stride) {
#if W == 1
	return first;
#elif W == 2
	const u64v lane = (u64v)(0, 1);
#elif W == 4
	const u64v lane = (u64v)(0, 1, 2, 3);
#elif W == 8
	const u64v lane = (u64v)(0, 1, 2, 3, 4, 5, 6, 7);
#else
	const u64v lane = (u64v)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#endif
#if W > 1
	return AS(long, (u64v)(ulong)first + lane * (u64v)(ulong)stride);
#endif
}
