/*
 * section:  attention
 * requires: types memory
 * provides: (macros of attention_f32 and attention_f64)
 *
 * What attention does with the scores of a block of 64 keys, and how a vector meets the lanes of another.
 *
 * ATTENTION(T, I) makes, for registers T with lane numbers in I:
 *   hide(n, s)         s with the lanes before n at -infinity
 *   weigh(s, pitch, m, shrink, l)
 *                      s are the scores of a vector of queries, those of the next key `pitch` vectors further; they become
 *                      weights. The largest so far, m, takes in that of the block, and the sum of all weights, l, theirs;
 *                      shrink is what all that was summed before is to be multiplied by.
 *   transpose_lanes(x) of W vectors: lane i of vector j becomes lane j of vector i
 *
 * The keys of a query are in one lane, so no step is a tree over lanes. Eight rows at once have no need to wait for each other.
 *
 * The largest need not mind NaN: a score that is one makes a weight, and so the sum and all results, one.
 */
#define LARGER(a, b) ((a) > (b) ? (a) : (b))
/* The tree over eight: the upper half goes to the lower one. */
#define TREE(x) (((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7])))

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

#define ATTENTION(T, I) \
	OVL T hide(int n, T s) { return LANE_NUMBERS(I) < (I)(n) ? (T)(-INFINITY) : s; } \
	OVL T highest(private const T *s, int pitch) { \
		T high[8]; \
		_Pragma("unroll") \
		for (int i = 0; i < 8; i++) \
			high[i] = s[i * pitch]; \
		for (int row = 8; row < 64; row += 8) \
			_Pragma("unroll") \
			for (int i = 0; i < 8; i++) \
				high[i] = LARGER(high[i], s[(row + i) * pitch]); \
		_Pragma("unroll") \
		for (int i = 0; i < 4; i++) \
			high[i] = LARGER(high[i], high[i + 4]); \
		high[0] = LARGER(high[0], high[2]); \
		high[1] = LARGER(high[1], high[3]); \
		return LARGER(high[0], high[1]); \
	} \
	/* Keys 8 apart, then those beside each other: the tree over 64. */ \
	OVL T weigh_block(private T *s, int pitch, T base) { \
		T all[8]; \
		_Pragma("unroll 1") \
		for (int i = 0; i < 8; i++) { \
			T x[8]; \
			_Pragma("unroll") \
			for (int j = 0; j < 8; j++) \
				s[(i + 8 * j) * pitch] = x[j] = weight(s[(i + 8 * j) * pitch] - base); \
			all[i] = TREE(x); \
		} \
		return TREE(all); \
	} \
	/* The weight of 0 is 1; where nothing was seen yet there is nothing to multiply either. */ \
	OVL void weigh(private T *s, int pitch, private T *m, private T *shrink, private T *l) { \
		const T before = *m, high = highest(s, pitch), after = LARGER(high, before); \
		const T base = after == -INFINITY ? (T)(0) : after; \
		*m = after; \
		*shrink = after != before ? weight(before - base) : (T)(1); \
		*l = fma(*l, *shrink, weigh_block(s, pitch, base)); \
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
