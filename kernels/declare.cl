/*
 * section:  declare
 * requires: types
 * provides: (the functions of OpenCL C that programs use; every program)
 *
 * Some drivers have the compiler read a megabyte of declarations before every program, which takes
 * longer than the program itself. Where such a driver can be told to leave them out (`options` in
 * quirks.def), DECLARE is defined and what is used is declared here; the functions are still the driver's.
 * Declared twice is no error, so this holds with the driver's own declarations, too.
 */
#ifdef DECLARE
#define DECLARED __attribute__((overloadable, const))

DECLARED size_t get_global_id(uint);
DECLARED size_t get_local_id(uint);
DECLARED size_t get_group_id(uint);
__attribute__((overloadable, convergent)) void barrier(cl_mem_fence_flags);

#define DECLARE_INTEGER(T, U) DECLARED T min(T, T); DECLARED T max(T, T); DECLARED T clamp(T, T, T); DECLARED U abs(T);
DECLARE_INTEGER(int, uint)
DECLARE_INTEGER(uint, uint)
DECLARE_INTEGER(long, ulong)
DECLARE_INTEGER(ulong, ulong)

DECLARED int any(V(char));
DECLARED int any(V(short));
DECLARED int any(V(int));
DECLARED int any(V(long));

DECLARED u32v mul_hi(u32v, u32v);
DECLARED u64v mul_hi(u64v, u64v);

#define DECLARE_REAL(T) \
	DECLARED T fma(T, T, T); DECLARED T sqrt(T); DECLARED T fabs(T); DECLARED T floor(T); DECLARED T ceil(T); \
	DECLARED T rint(T); DECLARED T trunc(T);
DECLARE_REAL(float)
#if W > 1
DECLARE_REAL(f32v)
#endif
#ifdef HAS_F64
DECLARE_REAL(double)
#if W > 1
DECLARE_REAL(f64v)
#endif
#endif
#endif
