/*
 * section:  attention
 * requires: types memory
 * provides: (macros of attention_f32 and attention_f64)
 *
 * What attention does with a block of 64 scores, and how a vector meets the lanes of another.
 *
 * ATTENTION(T, E, I) makes, for registers T of lanes E, with lane numbers in I:
 *   hide(n, s)         s with lanes n and later at -infinity
 *   highest(s)         the largest of a block of scores, scaled and masked
 *   look(n, top, m, base, shrink) of n rows, n at least 1: the largest so far, m, takes in top, that of the new block. base is what
 *                      is taken off scores, shrink what all that was summed before is to be multiplied by. Touches W rows at a time.
 *   weigh(s, base)     leaves weight(score - base) in s, and returns their sum
 *   take_in(n, l, shrink, fresh) of n rows: the sums of weights so far, l, shrink and take in those of the new block. Touches W rows
 *                      at a time.
 *
 * These are steps of their own over all rows, because in each of them the rows do not wait for each other: one row after the
 * other is a chain of two trees over lanes and an exponential, of which a processor sees hardly more than one at a time.
 *
 *   transpose_lanes(x) of W vectors: lane i of vector j becomes lane j of vector i
 *
 * The largest need not mind NaN: a score that is one makes a weight, and so the sum and all results, one.
 */
#define LARGER(a, b) ((a) > (b) ? (a) : (b))
#define TOGETHER(a, b) ((a) + (b))
/* Vectors of a block. */
#define SCORES (64 / W)
/* Vector v takes in vector v + h, for every v below h. */
#define HALVE(x, h) \
	if (SCORES > (h)) { \
		_Pragma("unroll") \
		for (int v = 0; v < (h); v++) \
			x[v] += x[v + (h)]; \
	}

/* Column c takes in column c + h, for h = W/2 ... 1. */
#if W == 1
#define FOLD_LANES(E, x, f) return x;
#elif W == 2
#define FOLD_LANES(E, x, f) return f(x.x, x.y);
#elif W == 4
#define FOLD_LANES(E, x, f) E##2 two = f(x.lo, x.hi); return f(two.x, two.y);
#elif W == 8
#define FOLD_LANES(E, x, f) E##4 four = f(x.lo, x.hi); E##2 two = f(four.lo, four.hi); return f(two.x, two.y);
#else
#define FOLD_LANES(E, x, f) \
	E##8 eight = f(x.lo, x.hi); E##4 four = f(eight.lo, eight.hi); E##2 two = f(four.lo, four.hi); \
	return f(two.x, two.y);
#endif

/* The lanes of the lower and of the upper half of two vectors in turn; lane numbers of a register. */
#if W == 2
#define LOW_LANES(T, a, b) (T)(a.s0, b.s0)
#define HIGH_LANES(T, a, b) (T)(a.s1, b.s1)
#define LANE_NUMBERS(T) (T)(0, 1)
#elif W == 4
#define LOW_LANES(T, a, b) (T)(a.s0, b.s0, a.s1, b.s1)
#define HIGH_LANES(T, a, b) (T)(a.s2, b.s2, a.s3, b.s3)
#define LANE_NUMBERS(T) (T)(0, 1, 2, 3)
#elif W == 8
#define LOW_LANES(T, a, b) (T)(a.s0, b.s0, a.s1, b.s1, a.s2, b.s2, a.s3, b.s3)
#define HIGH_LANES(T, a, b) (T)(a.s4, b.s4, a.s5, b.s5, a.s6, b.s6, a.s7, b.s7)
#define LANE_NUMBERS(T) (T)(0, 1, 2, 3, 4, 5, 6, 7)
#elif W == 16
#define LOW_LANES(T, a, b) \
	(T)(a.s0, b.s0, a.s1, b.s1, a.s2, b.s2, a.s3, b.s3, a.s4, b.s4, a.s5, b.s5, a.s6, b.s6, a.s7, b.s7)
#define HIGH_LANES(T, a, b) \
	(T)(a.s8, b.s8, a.s9, b.s9, a.sa, b.sa, a.sb, b.sb, a.sc, b.sc, a.sd, b.sd, a.se, b.se, a.sf, b.sf)
#define LANE_NUMBERS(T) (T)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#else
#define LOW_LANES(T, a, b) (a)
#define HIGH_LANES(T, a, b) (b)
#define LANE_NUMBERS(T) (T)(0)
#endif

#define ATTENTION(T, E, I) \
	OVL T hide(int n, T s) { return LANE_NUMBERS(I) < (I)(n) ? s : (T)(-INFINITY); } \
	OVL E largest_lane(T x) { FOLD_LANES(E, x, LARGER) } \
	OVL E lanes_together(T x) { FOLD_LANES(E, x, TOGETHER) } \
	OVL T lanes_at(private const E *p) { return *(private const JOIN(E, _loose) *)p; } \
	OVL void lanes_to(private E *p, T v) { *(private JOIN(E, _loose) *)p = v; } \
	OVL E highest(private const T *s) { \
		T high = s[0]; \
		_Pragma("unroll") \
		for (int v = 1; v < SCORES; v++) \
			high = LARGER(high, s[v]); \
		return largest_lane(high); \
	} \
	/* The weight of 0 is 1; where nothing was seen yet there is nothing to multiply either. */ \
	OVL void look(int n, private const E *top, private E *m, private E *base, private E *shrink) { \
		for (int i = 0; i < n; i += W) { \
			const T before = lanes_at(m + i), high = lanes_at(top + i), after = LARGER(high, before); \
			const T off = after == -INFINITY ? (T)(0) : after; \
			lanes_to(base + i, off); \
			lanes_to(shrink + i, after != before ? weight(before - off) : (T)(1)); \
			lanes_to(m + i, after); \
		} \
	} \
	OVL E weigh(private T *s, E base) { \
		T all[SCORES]; \
		_Pragma("unroll") \
		for (int v = 0; v < SCORES; v++) \
			all[v] = s[v] = weight(s[v] - (T)base); \
		HALVE(all, 32) HALVE(all, 16) HALVE(all, 8) HALVE(all, 4) HALVE(all, 2) HALVE(all, 1) \
		return lanes_together(all[0]); \
	} \
	OVL void take_in(int n, private E *l, private const E *shrink, private const E *fresh) { \
		for (int i = 0; i < n; i += W) \
			lanes_to(l + i, fma(lanes_at(l + i), lanes_at(shrink + i), lanes_at(fresh + i))); \
	} \
	OVL void transpose_lanes(private T *x) { \
		_Pragma("unroll") \
		for (int step = 1; step < W; step *= 2) { \
			T y[W]; \
			_Pragma("unroll") \
			for (int i = 0; i < W / 2; i++) { \
				y[2 * i] = LOW_LANES(T, x[i], x[i + W / 2]); \
				y[2 * i + 1] = HIGH_LANES(T, x[i], x[i + W / 2]); \
			} \
			_Pragma("unroll") \
			for (int i = 0; i < W; i++) \
				x[i] = y[i]; \
		} \
	}
