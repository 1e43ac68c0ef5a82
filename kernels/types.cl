/*
 * section:  types
 * requires:
 * provides: (register types and the macros below; every program)
 *
 * Register types for a program of W lanes, and the few macros that let one text serve scalars and
 * vectors.
 *
 * A comparison of vectors gives lanes of 0 and -1 as wide as the operands, one of scalars an int
 * of 0 and 1. Both are called a mask here and are used in the same three ways: combined with & and
 * |, inverted with !, and as the condition of ?: (which takes the top bit of vectors, and whose
 * operands must then all be vectors). Nothing else may be done with a mask.
 */
#ifdef HAS_F64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

/* Functions are overloaded on the register types; what a program does not call costs no code. */
#define OVL static inline __attribute__((overloadable, unused))

#define JOIN_TEXT(a, b) a##b
#define JOIN(a, b) JOIN_TEXT(a, b)

/* V(float) is the register type with float lanes. */
#if W == 1
#define V(element) element
#else
#define V(element) JOIN(element, W)
#endif

/* The same bits as, and the value converted to, lanes of another element type. */
#define AS(element, x) JOIN(as_, V(element))(x)
#ifndef DECLARE
#define CONVERT(element, x) JOIN(convert_, V(element))(x)
#elif W == 1
#define CONVERT(element, x) ((element)(x))
#else
#define CONVERT(element, x) __builtin_convertvector(x, V(element))
#endif

typedef V(char) i8v;
typedef V(uchar) u8v;
typedef V(short) i16v;
typedef V(ushort) u16v;
typedef V(int) i32v;
typedef V(uint) u32v;
typedef V(long) i64v;
typedef V(ulong) u64v;
typedef V(float) f32v;
#ifdef HAS_F64
typedef V(double) f64v;
#endif

typedef char i8e;
typedef uchar u8e;
typedef short i16e;
typedef ushort u16e;
typedef int i32e;
typedef uint u32e;
typedef long i64e;
typedef ulong u64e;
typedef float f32e;
#ifdef HAS_F64
typedef double f64e;
#endif

/* A lane of which a vector is made. OPAQUE_LANES: the driver's compiler takes others for it, where it sees how it was made. */
#ifdef OPAQUE_LANES
#define ALONE(element, x) ({ volatile element alone = (x); alone; })
#else
#define ALONE(element, x) (x)
#endif

/* Masks of comparisons of 8, 16, 32 and 64 bit lanes. */
#if W == 1
typedef int m8v;
typedef int m16v;
typedef int m32v;
typedef int m64v;
#define ANY(mask) (mask)
#define TRUTH(mask) ((u8v)(mask))
#define MASK8(truth) ((truth) != 0)
#define MASK16(truth) ((truth) != 0)
#define MASK32(truth) ((truth) != 0)
#define MASK64(truth) ((truth) != 0)
#define MASK64_OF_32(mask) (mask)
#define MASK32_OF_64(mask) (mask)
#else
typedef i8v m8v;
typedef i16v m16v;
typedef i32v m32v;
typedef i64v m64v;
/*
 * True where a lane of the mask is set; drivers may ask the lanes of any() one by one. An interpreter of the compiler's
 * intermediate code may know any() alone (tests/oclgrind.sh).
 */
#define ANY(mask) any(mask)
#if defined(__has_builtin) && !defined(WITHOUT_LANE_REDUCTIONS)
#if __has_builtin(__builtin_reduce_or)
#undef ANY
#define ANY(mask) (__builtin_reduce_or(mask) != 0)
#endif
#endif
/* A bool register (u8v of 0 and 1) of a mask, and back. */
#define TRUTH(mask) (CONVERT(uchar, mask) & (u8v)1)
#define MASK8(truth) ((truth) != (u8v)0)
#define MASK16(truth) (CONVERT(short, truth) != (i16v)0)
#define MASK32(truth) (CONVERT(int, truth) != 0)
#define MASK64(truth) (CONVERT(long, truth) != (i64v)0)
#define MASK64_OF_32(mask) CONVERT(long, mask)
#define MASK32_OF_64(mask) CONVERT(int, mask)
#endif
