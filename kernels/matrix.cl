/*
 * section:  matrix
 * requires: types
 * provides: matrix_multiply
 *
 * Products of 16-bit floats by instructions of a block of 32 work-items, in the language behind the
 * compiler (PTX); only devices on which a trial found them right get programs with this section. MATRIX_TYPE is "f16" or
 * "bf16", MATRIX_ONES two of it that are 1. Registers of a vector of two f32 hold neighbours of a row of the result.
 *
 * In local memory 8 elements lie side by side, and such pieces are exchanged within 128 bytes so that the 8 that
 * an instruction reads at a time lie in different banks: rows of `depth` (32 or 64) elements along K (matrix_deep), or of
 * `across` (64 or a multiple) elements (matrix_across).
 */
OVL int matrix_deep(int depth, int x, int k) {
	return x * depth + ((k / 8 ^ x * depth / 64) & (depth / 8 - 1)) * 8 + k % 8;
}

OVL int matrix_across(int across, int x, int k) {
	return k * across + (x / 8 ^ k % 8) * 8 + x % 8;
}

/* 4 pieces of 8 rows of 8, the address of a row from each item; `turned`, their columns. */
OVL void matrix_load(uint *r, local const ushort *at) {
	__asm__ volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
		: "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"((uint)(ulong)at) : "memory");
}

OVL void matrix_load_turned(uint *r, local const ushort *at) {
	__asm__ volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
		: "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"((uint)(ulong)at) : "memory");
}

/* 16 rows, 8 of `upper` and 8 of `lower`, and 8 columns of the result take in 16 of K. */
OVL void matrix_multiply(f32v *upper, f32v *lower, const uint *a, const uint *b) {
	__asm__ volatile("mma.sync.aligned.m16n8k16.row.col.f32." MATRIX_TYPE "." MATRIX_TYPE ".f32 "
		"{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
		: "+f"((*upper).s0), "+f"((*upper).s1), "+f"((*lower).s0), "+f"((*lower).s1)
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* Sends the first n of 8 elements on their way to local memory, and zeros for the others; both addresses are whole. */
OVL void matrix_copy(local ushort *to, global const uchar *from, int n) {
	__asm__ volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
		:: "r"((uint)(ulong)to), "l"(from), "r"(2 * n) : "memory");
}

/* The same where they are whole by two alone: rows of 16-bit floats of an even extent. */
OVL void matrix_copy_pairs(local ushort *to, global const uchar *from, int n) {
	_Pragma("unroll")
	for (int j = 0; j < 8; j += 2)
		__asm__ volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
			:: "r"((uint)(ulong)(to + j)), "l"(from + (n > j ? 2 * j : 0)), "r"(clamp(2 * (n - j), 0, 4)) : "memory");
}

/* The same where they do not lie whole, but `apart` from each other: they are there with the next barrier. */
static __attribute__((noinline)) void matrix_gather(local ushort *to, global const uchar *from, int n, long apart) {
	_Pragma("unroll 1")
	for (int j = 0; j < 8; j++)
		to[j] = j < n ? *(global const ushort *)(from + 2 * j * apart) : 0;
}

/* Two elements of a row, `apart` from each other, of which so many are `left`. */
OVL uint matrix_pair(global const uchar *from, long apart, int left) {
	if (left > 1 && apart == 1 && ((ulong)from & 3) == 0)
		return *(global const uint *)from;
	return (left > 0 ? *(global const ushort *)from : 0) | (left > 1 ? (uint)*(global const ushort *)(from + 2 * apart) << 16 : 0);
}

/* Two f32 as neighbours, rounded to the type. */
OVL uint matrix_pack(f32v x) {
	uint r;

	__asm__("cvt.rn." MATRIX_TYPE "x2.f32 %0, %1, %2;" : "=r"(r) : "f"(x.s1), "f"(x.s0));
	return r;
}

/* 2^x within 2^-22 of it, 0 where that is subnormal. */
OVL float matrix_exp2(float x) {
	float y;

	__asm__("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
}

/* The larger of two, and of a NaN and another the other. */
OVL float matrix_max(float a, float b) {
	float y;

	__asm__("max.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
	return y;
}

/* x of the item whose number in the block differs in these bits. */
OVL float matrix_beside(float x, int bits) {
	float y;

	__asm__ volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;" : "=f"(y) : "f"(x), "r"(bits));
	return y;
}

/* What follows stays behind what came before: a branch that is seldom taken is no selection, what is read is read again. */
#define MATRIX_APART() __asm__ volatile("" ::: "memory")

/* Ends a group of copies, and waits until no more than so many groups are on their way. */
#define MATRIX_GROUP() __asm__ volatile("cp.async.commit_group;" ::: "memory")
#define MATRIX_WAIT(groups) __asm__ volatile("cp.async.wait_group " #groups ";" ::: "memory")
