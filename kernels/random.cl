/*
 * section:  random
 * requires: types convert
 * provides: philox_
 *
 * Philox 4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw, "Parallel random
 * numbers: as easy as 1, 2, 3" (2011). Every element computes its block for itself, so its bits depend
 * on its counter and the key alone: on no device, order or fusion.
 */
#define PHILOX_ROUNDS 10
#define PHILOX_M0 0xd2511f53u
#define PHILOX_M1 0xcd9e8d57u
#define PHILOX_W0 0x9e3779b9u
#define PHILOX_W1 0xbb67ae85u

/* Word `which` (below 4) of the block of a counter of four words, under a key of two. */
OVL u32v philox_word(u32v c0, u32v c1, u32v c2, u32v c3, u32v k0, u32v k1, u32v which) {
	for (int i = 0; i < PHILOX_ROUNDS; i++) {
		const u32v high0 = mul_hi(c0, (u32v)PHILOX_M0), low0 = c0 * PHILOX_M0;
		const u32v high1 = mul_hi(c2, (u32v)PHILOX_M1), low1 = c2 * PHILOX_M1;

		c0 = high1 ^ c1 ^ k0;
		c2 = high0 ^ c3 ^ k1;
		c1 = low1;
		c3 = low0;
		k0 += PHILOX_W0;
		k1 += PHILOX_W1;
	}
	c0 = (which & 1u) == 0u ? c0 : c1;
	c2 = (which & 1u) == 0u ? c2 : c3;
	return which < 2u ? c0 : c2;
}

OVL u32v philox_bits(u64v counter, u64v key) {
	const u64v block = counter >> (u64v)2;

	return philox_word(CONVERT(uint, block), CONVERT(uint, block >> (u64v)32), (u32v)0u, (u32v)0u,
		CONVERT(uint, key), CONVERT(uint, key >> (u64v)32), CONVERT(uint, counter) & 3u);
}

OVL i8v philox_(i8v a, i8v b) { return to_i8(philox_bits(to_u64(a), to_u64(b))); }
OVL u8v philox_(u8v a, u8v b) { return to_u8(philox_bits(to_u64(a), to_u64(b))); }
OVL i16v philox_(i16v a, i16v b) { return to_i16(philox_bits(to_u64(a), to_u64(b))); }
OVL u16v philox_(u16v a, u16v b) { return to_u16(philox_bits(to_u64(a), to_u64(b))); }
OVL i32v philox_(i32v a, i32v b) { return to_i32(philox_bits(to_u64(a), to_u64(b))); }
OVL u32v philox_(u32v a, u32v b) { return philox_bits(to_u64(a), to_u64(b)); }
OVL i64v philox_(i64v a, i64v b) { return to_i64(philox_bits(to_u64(a), to_u64(b))); }
OVL u64v philox_(u64v a, u64v b) { return to_u64(philox_bits(a, b)); }
