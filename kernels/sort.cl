/*
 * section:  sort
 * requires: types convert memory
 * provides: sort_key
 *
 * Sorting by keys: unsigned integers whose order is that of the elements. The emitter defines
 *
 *   SORT_RAW         an unsigned integer as wide as what is sorted, of SORT_BITS bits
 *   SORT_KIND        0 unsigned, 1 signed, 2 real (then SORT_INFINITY is the infinity's bits)
 *   SORT_DESCENDING  0 or 1
 *   SORT_PLACES      1: places go with the keys, and are the result; 0: what is sorted is the result
 *   SORT_FINAL       1: results are written; 0: elements, for a later merge
 *   SORT_TILE        GPU strategy: elements of a tile in local memory, SORT_EACH of them a lane
 *
 * Everything here is stable: an element goes before an earlier one only where its key is below.
 */
/* CPU strategy: what is called once a row or piece is compiled once. */
#ifdef SORT_TILE
#define SORT_CALL OVL
#else
#define SORT_CALL static __attribute__((overloadable, unused, noinline))
#endif

#define SORT_SIGN ((SORT_RAW)((SORT_RAW)1 << (SORT_BITS - 1)))
#define SORT_ALL ((SORT_RAW)~(SORT_RAW)0)

/* Bits in the order of the elements, which keep all but which NaN it was; NaN is the highest. */
OVL SORT_RAW sort_order(SORT_RAW v) {
#if SORT_KIND == 2
	SORT_RAW bits = v & SORT_SIGN ? (SORT_RAW)~v : (SORT_RAW)(v | SORT_SIGN);

	bits = (SORT_RAW)(v & (SORT_RAW)~SORT_SIGN) > (SORT_RAW)SORT_INFINITY ? SORT_ALL : bits;
#elif SORT_KIND == 1
	const SORT_RAW bits = v ^ SORT_SIGN;
#else
	const SORT_RAW bits = v;
#endif
	return SORT_DESCENDING ? (SORT_RAW)~bits : bits;
}

/* What it was made of. */
OVL SORT_RAW sort_value(SORT_RAW bits) {
	bits = SORT_DESCENDING ? (SORT_RAW)~bits : bits;
#if SORT_KIND == 2
	return bits & SORT_SIGN ? (SORT_RAW)(bits ^ SORT_SIGN) : (SORT_RAW)~bits;
#elif SORT_KIND == 1
	return bits ^ SORT_SIGN;
#else
	return bits;
#endif
}

/* What is compared: -0, which stands beside +0 in this order, has the key of +0. */
OVL SORT_RAW sort_key(SORT_RAW bits) {
#if SORT_KIND != 2
	return bits;
#elif SORT_DESCENDING
	return bits - (bits == SORT_SIGN);
#else
	return bits + (bits == (SORT_RAW)~SORT_SIGN);
#endif
}

/* What moves: such bits, or a key and a place. */
#if !SORT_PLACES
typedef JOIN(SORT_RAW, _element) sort_element;
#define SORT_KEY(e) sort_key(e)
#define SORT_PACK(raw, place) sort_order(raw)
#define SORT_RESULT(e) sort_value(e)
/* No key is above this one's; what stands after all else stays there. */
#define SORT_LAST SORT_ALL
#elif SORT_BITS == 64
typedef ulong2 sort_element MAY_ALIAS;
#define SORT_KEY(e) ((e).x)
#define SORT_PACK(raw, place) ((ulong2)(sort_key(sort_order(raw)), (ulong)(place)))
#define SORT_RESULT(e) ((long)(e).y)
#define SORT_LAST ((ulong2)(~0ul, ~0ul))
#else
typedef ulong_element sort_element;
#define SORT_KEY(e) (e)
#define SORT_PACK(raw, place) ((ulong)sort_key(sort_order(raw)) << 32 | (ulong)(place))
#define SORT_RESULT(e) ((long)((e) & 0xffffffff))
#define SORT_LAST (~0ul)
#endif

#if SORT_FINAL && SORT_PLACES
typedef long_element sort_result;
#else
typedef sort_element sort_result;
#endif
#if SORT_FINAL
#define SORT_OUT(e) SORT_RESULT(e)
#else
#define SORT_OUT(e) (e)
#endif
/* What a merge writes: values are made of their bits once they are in place, many at a time. */
#if SORT_PLACES
#define SORT_MERGED(e) SORT_OUT(e)
#else
#define SORT_MERGED(e) (e)
#endif

/* The digit of a key, of 8 bits from `shift` on. */
#if SORT_PLACES && SORT_BITS < 64
#define SORT_DIGIT(e, shift) ((uint)((e) >> ((shift) + 32)) & 255)
#else
#define SORT_DIGIT(e, shift) ((uint)(SORT_KEY(e) >> (shift)) & 255)
#endif

/* Does `later` go before an element that stands before it? */
OVL bool sort_before(sort_element later, sort_element earlier) {
	return SORT_KEY(later) < SORT_KEY(earlier);
}

/* Without a jump, which nobody could foresee. */
#if SORT_PLACES && SORT_BITS == 64
#define SORT_EITHER(yes, a, b) ((yes) ? (a) : (b))
#else
#define SORT_EITHER(yes, a, b) ((sort_element)((b) ^ (((a) ^ (b)) & (sort_element)-(sort_element)(yes))))
#endif

/* ---- one item ---- */

enum {
	/* Counting costs 256 steps a digit, however few elements there are. */
	SORT_FEW = 48,
	SORT_DIGITS = SORT_BITS / 8,
};

SORT_CALL void sort_few(global sort_element *a, ulong n) {
	for (ulong i = 1; i < n; i++) {
		const sort_element e = a[i];
		ulong j = i;

		for (; j > 0 && sort_before(e, a[j - 1]); j--)
			a[j] = a[j - 1];
		a[j] = e;
	}
}

/* Moves a to b by one digit. A digit that all keys share moves nothing: false. */
SORT_CALL bool sort_digit(global const sort_element *a, global sort_element *b, ulong n, uint *count, uint shift) {
	uint sum = 0;

	if (count[SORT_DIGIT(a[0], shift)] == n)
		return false;
	for (int c = 0; c < 256; c++) {
		const uint here = count[c];

		count[c] = sum;
		sum += here;
	}
	for (ulong i = 0; i < n; i++) {
		const sort_element e = a[i];

		b[count[SORT_DIGIT(e, shift)]++] = e;
	}
	return true;
}

/* Sorts n elements of a, fewer than 2^32; b is as long. */
SORT_CALL void sort_elements(global sort_element *a, global sort_element *b, ulong n) {
	uint count[SORT_DIGITS][256];
	bool moved = false;

	if (n <= SORT_FEW) {
		sort_few(a, n);
		return;
	}
	for (int d = 0; d < SORT_DIGITS; d++)
		for (int c = 0; c < 256; c++)
			count[d][c] = 0;
	for (ulong i = 0; i < n; i++) {
		const sort_element e = a[i];

#pragma unroll
		for (int d = 0; d < SORT_DIGITS; d++)
			count[d][SORT_DIGIT(e, 8 * d)]++;
	}
	for (int d = 0; d < SORT_DIGITS; d++)
		moved ^= moved ? sort_digit(b, a, n, count[d], 8 * d) : sort_digit(a, b, n, count[d], 8 * d);
	for (ulong i = 0; moved && i < n; i++)
		a[i] = b[i];
}

/* ---- merging ---- */

/* How many of the first `diagonal` elements of two merged runs come from the first of them. */
#define SORT_SPLIT(SPACE, LENGTH) \
	SORT_CALL LENGTH sort_split(SPACE const sort_element *a, LENGTH na, SPACE const sort_element *b, LENGTH nb, \
		LENGTH diagonal) { \
		LENGTH low = max(diagonal - nb, (LENGTH)0), high = min(diagonal, na); \
		while (low < high) { \
			const LENGTH i = (low + high) / 2; \
			if (sort_before(b[diagonal - 1 - i], a[i])) \
				high = i; \
			else \
				low = i + 1; \
		} \
		return low; \
	}
SORT_SPLIT(global, long)
#ifdef SORT_TILE
SORT_SPLIT(local, int)
#endif

enum {
	/* Chains of a merge that one item follows side by side, since each step waits for the one before. */
	SORT_CHAINS = 4,
	/* Steps of all chains that are worth looking how many are sure. */
	SORT_SURE = 16,
	/* Elements that are merged before they are looked at again: the nearest cache holds them. */
	SORT_CHUNK = 4096,
};

/* Writes the next n elements of two merged runs to out, `stride` apart. */
SORT_CALL void sort_merge_one(global const sort_element *a, long na, global const sort_element *b, long nb, long n,
	global sort_result *out, long stride) {
	long i = 0, j = 0, at = 0;

	while (at < n && i < na && j < nb) {
		const sort_element x = a[i], y = b[j];
		const bool second = sort_before(y, x);

		out[at++ * stride] = second ? SORT_MERGED(y) : SORT_MERGED(x);
		i += !second;
		j += second;
	}
	for (; at < n && i < na; i++)
		out[at++ * stride] = SORT_MERGED(a[i]);
	for (; at < n && j < nb; j++)
		out[at++ * stride] = SORT_MERGED(b[j]);
}

/* Writes elements [from, from + n) of two merged runs. */
SORT_CALL void sort_merge(global const sort_element *a, long na, global const sort_element *b, long nb, long from, long n,
	global sort_result *out, long stride) {
	const long each = n / SORT_CHAINS;
	long i[SORT_CHAINS], done = 0, sure;

#pragma unroll
	for (int c = 0; c < SORT_CHAINS; c++)
		i[c] = sort_split(a, na, b, nb, from + c * each);
	do {
		sure = each - done;
#pragma unroll
		for (int c = 0; c < SORT_CHAINS; c++)
			sure = min(sure, min(na - i[c], nb - (from + c * each + done - i[c])));
		for (const long end = done + sure; done < end; done++) {
#pragma unroll
			for (int c = 0; c < SORT_CHAINS; c++) {
				const sort_element x = a[i[c]], y = b[from + c * each + done - i[c]];
				const bool second = sort_before(y, x);

				out[(c * each + done) * stride] = SORT_MERGED(SORT_EITHER(second, y, x));
				i[c] += !second;
			}
		}
	} while (sure >= SORT_SURE);
#pragma unroll
	for (int c = 0; c < SORT_CHAINS; c++) {
		const long at = c * each + done, j = from + at - i[c];

		sort_merge_one(a + i[c], na - i[c], b + j, nb - j, (c + 1 == SORT_CHAINS ? n - c * each : each) - done,
			out + at * stride, stride);
	}
}

/* Elements [low, high) of a row of n, of which neighbouring runs of so many elements are merged. */
SORT_CALL void sort_merge_runs(global const sort_element *row, long n, long run, long low, long high,
	global sort_result *out, long stride) {
	while (low < high) {
		const long first = low / (2 * run) * (2 * run), end = min(min(high, low + SORT_CHUNK), first + 2 * run);
		const long na = min(run, n - first), nb = min(run, n - first - na);

		sort_merge(row + first, na, row + first + na, nb, low - first, end - low, out + low * stride, stride);
#if SORT_FINAL && !SORT_PLACES
		for (long i = low; i < end; i++)
			out[i * stride] = SORT_OUT(out[i * stride]);
#endif
		low = end;
	}
}

/* ---- a work-group ---- */

#ifdef SORT_TILE
/* Merges two runs of a tile; each lane keeps SORT_EACH elements of the result from its place on. */
OVL void sort_take(local const sort_element *a, int na, local const sort_element *b, int nb, int from,
	sort_element *mine) {
	int i = sort_split(a, na, b, nb, min(from, na + nb)), j = min(from, na + nb) - i;

#pragma unroll
	for (int e = 0; e < SORT_EACH; e++) {
		const bool second = i >= na || (j < nb && sort_before(b[j], a[i]));

		mine[e] = second && j >= nb ? SORT_LAST : second ? b[j] : a[i];
		i += !second;
		j += second;
	}
}

OVL void sort_put(local sort_element *tile, int from, const sort_element *mine) {
	barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
	for (int e = 0; e < SORT_EACH; e++)
		tile[from + e] = mine[e];
	barrier(CLK_LOCAL_MEM_FENCE);
}

/* Sorts each `slot` elements of a tile; all are there. */
OVL void sort_tile(local sort_element *tile, int slot) {
	const int from = get_local_id(0) * SORT_EACH;
	sort_element mine[SORT_EACH];

#pragma unroll
	for (int e = 0; e < SORT_EACH; e++)
		mine[e] = tile[from + e];
	/* Neighbours change places, first the even pairs, then the odd ones. */
#pragma unroll
	for (int round = 0; round < SORT_EACH; round++) {
#pragma unroll
		for (int e = round & 1; e + 1 < SORT_EACH; e += 2) {
			const sort_element x = mine[e], y = mine[e + 1];
			const bool swap = sort_before(y, x);

			mine[e] = swap ? y : x;
			mine[e + 1] = swap ? x : y;
		}
	}
	sort_put(tile, from, mine);
	for (int run = SORT_EACH; run < slot; run *= 2) {
		const int first = from / (2 * run) * (2 * run);

		sort_take(tile + first, run, tile + first + run, run, from - first, mine);
		sort_put(tile, from, mine);
	}
}

/* Elements [low, low + count) of a row of n into the tile, of which neighbouring runs are merged. */
OVL int sort_merge_tile(local sort_element *tile, local long *cut, global const sort_element *row, long n, long run,
	long low) {
	const long first = low / (2 * run) * (2 * run), from = low - first;
	const long na = min(run, n - first), nb = min(run, n - first - na), end = min(from + SORT_TILE, na + nb);
	global const sort_element *a = row + first, *b = row + first + na;
	const int lane = get_local_id(0);
	sort_element mine[SORT_EACH];
	int taken, count;

	if (lane < 2)
		cut[lane] = sort_split(a, na, b, nb, lane ? end : from);
	barrier(CLK_LOCAL_MEM_FENCE);
	taken = cut[1] - cut[0];
	count = end - from;
	a += cut[0];
	b += from - cut[0];
	for (int e = lane; e < count; e += SORT_TILE / SORT_EACH)
		tile[e] = e < taken ? a[e] : b[e - taken];
	barrier(CLK_LOCAL_MEM_FENCE);
	sort_take(tile, taken, tile + taken, count - taken, lane * SORT_EACH, mine);
	sort_put(tile, lane * SORT_EACH, mine);
	return count;
}
#endif
