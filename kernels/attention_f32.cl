/*
 * section:  attention_f32
 * requires: attention real math_f32
 * provides: weigh
 * on:       f32v
 */

/* exp(x) for x up to 0, within two last places near 0; and 0 below -87, so that no weight is subnormal. NaN stays NaN. */
OVL f32v weight(f32v x) {
	f32v t = STEP(x, (f32v)LOG2_E, ROUNDER);
	f32v r = fma(x, (f32v)LOG2_E, ROUNDER - t);
	f32v y = (f32v)0x1.5bb9e4p-10f;

	y = STEP(y, r, 0x1.3ceaa8p-7f);
	y = STEP(y, r, 0x1.c6b71p-5f);
	y = STEP(y, r, 0x1.ebf9bep-3f);
	y = STEP(y, r, 0x1.62e42ap-1f);
	y = STEP(y, r, 1.0f);
	/* What rounds to an integer has it in the lowest bits. */
	y *= AS(float, (AS(int, t) + 127) << 23);
	return x < -87.0f ? (f32v)0.0f : y;
}

ATTENTION(f32v, i32v)
