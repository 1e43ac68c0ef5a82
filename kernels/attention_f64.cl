/*
 * section:  attention_f64
 * requires: attention real math_f64
 * provides: weigh
 * on:       f64v, and only where HAS_F64 is defined
 */
#ifdef HAS_F64
/* exp(x) for x up to 0, bit for bit, and 0 below -708, so that no weight is subnormal. */
OVL f64v weight(f64v x) {
	i64v n;
	f64v y = exp_parts(x, &n);

	y *= AS(double, (n + 1023L) << 52);
	return x < -708.0 ? (f64v)0.0 : y;
}

ATTENTION(f64v, i64v)
#endif
