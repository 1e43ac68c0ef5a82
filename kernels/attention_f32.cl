/*
 * section:  attention_f32
 * requires: attention real math_f32
 * provides: weigh
 * on:       f32v
 */

/* exp(x) for x up to 0, bit for bit, and 0 below -87, so that no weight is subnormal. */
OVL f32v weight(f32v x) {
	i32v n;
	f32v y = exp_parts(x, &n);

	y *= AS(float, (n + 127) << 23);
	return x < -87.0f ? (f32v)0.0f : y;
}

ATTENTION(f32v, float, i32v)
