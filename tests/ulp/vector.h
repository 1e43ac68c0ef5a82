/*
 * Loops that the compiler turns into vectors, in a form for each generation of processors.
 *
 * A function with VECTOR_LEVELS is compiled several times and chosen as the program starts; a function of libm that is
 * declared with VECTOR_FORM is called on whole vectors in a loop of `omp simd`. Elsewhere than with glibc on
 * x86-64 both are nothing, and the same text runs an element at a time.
 */
#pragma once

#include <features.h>

#if defined __x86_64__ && defined __GLIBC__
#define VECTOR_FORM __attribute__((simd("notinbranch"), const))
#define VECTOR_LEVELS __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define VECTOR_FORM
#define VECTOR_LEVELS
#endif
