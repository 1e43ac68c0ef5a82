/*
 * What plan and emit need to know of a device. device/ fills it from probes and the quirks table;
 * nothing above device/ knows a vendor.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum strategy {
	STRATEGY_CPU,    /* explicit vectors, local size 1, no barriers, no local memory */
	STRATEGY_GPU,    /* work-groups, local memory, one element a lane */
};

/*
 * How fast the device is: measured once by device/rates.c, and until then typical figures of the strategy.
 * The cost model (plan/cost.c) chooses by them, only ever among plans of equal bits.
 */
enum rate_class {
	RATE_CHEAP,      /* addition, comparison, bits */
	RATE_DIVIDE,     /* division and square root */
	RATE_EXP,
	RATE_TANH,
	RATE_LOG,
	RATE_POW,
	RATE_CLASSES,
};

enum rate_traffic { RATE_READ, RATE_WRITE, RATE_COPY, RATE_TRAFFICS };
/* One compute unit alone, and all of them. */
enum rate_units { RATE_ONE, RATE_ALL, RATE_UNITS };
enum rate_float { RATE_F32, RATE_F64, RATE_FLOATS };
/* Work-groups of a unit of a GPU where all are measured: fewer leave a part of what it could do unused. */
enum { RATE_GROUPS = 8 };
/* Footprints at which memory is measured: from what the nearest cache holds to what none does. */
enum { RATE_SIZES = 5 };

struct rates {
	bool measured;
	double launch_ns;                                          /* of many launches in a row, each */
	double wait_ns;                                            /* of one that is waited for */
	double start_ns;                                           /* on the device, of one without work: by the driver's times */
	double bytes[RATE_SIZES];                                  /* footprints, growing */
	double memory[RATE_UNITS][RATE_TRAFFICS][RATE_SIZES];      /* bytes a nanosecond; a copy's both ways together */
	double op_ns[RATE_UNITS][RATE_FLOATS][RATE_CLASSES];       /* an element */
	double product_ns[RATE_UNITS][RATE_FLOATS];                /* a multiplication and addition of a product */
	double strided_ns[RATE_UNITS];                             /* an element read across the rows, beyond its bytes */
	double row_ns[RATE_UNITS];                                 /* the end of a reduced row */
};

struct traits {
	enum strategy strategy;
	uint8_t width;                /* lanes of a vector in the CPU strategy: 16; GPU: 1 */
	bool f64;                     /* the device computes doubles */
	bool exact_division;          /* -cl-fp32-correctly-rounded-divide-sqrt builds */
	bool closing_barrier;         /* a kernel with barriers ends in one, or its last condition is a whole group's */
	bool claims;                  /* CPU strategy: several may share the items of a launch (kernel.h, Claims) */
	uint32_t own_words;           /* GPU strategy: kernels take the record of a launch's only task by value, where it has no more words; 0: none does */
	bool matrix;                  /* instructions that multiply matrices of 16-bit floats (kernels/matrix.cl) */
	bool wgmma;                   /* and those of four blocks of items together, to the same bits (kernels/wgmma.cl) */
	const char *options;          /* further ones of the driver that build; NULL: none */
	const char *without;          /* options that keep kernels from what the compiler does not take (device/trials.def); NULL: none */
	uint32_t local_size;          /* work-group size of the GPU strategy, a power of two from 64 to 256 */
	uint64_t local_bytes;         /* local memory of a work-group */
	uint32_t units;               /* compute units */
	uint32_t pools;               /* pool arguments of every kernel, 1 to 4 */
	uint32_t kernel_operands;     /* most memory operands of one kernel */
	uint32_t kernel_values;       /* most values of one kernel: registers and compile time */
	uint64_t stream_bytes;        /* outputs of at least this size are stored past the caches; 0: never */
	struct rates rates;
};

/* What each kernel costs, whatever it does. */
static inline double rates_kernel_ns(const struct rates *r) {
	return r->launch_ns + r->start_ns;
}

/* Of a device that has not been measured. */
const struct rates *rates_typical(enum strategy s);
/* Are all figures positive numbers, and the footprints growing? */
bool rates_sound(const struct rates *r);
