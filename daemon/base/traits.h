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

struct traits {
	enum strategy strategy;
	uint8_t width;                /* lanes of a vector in the CPU strategy: 16; GPU: 1 */
	bool f64;                     /* the device computes doubles */
	bool exact_division;          /* -cl-fp32-correctly-rounded-divide-sqrt builds */
	bool rows;                    /* emit writes kernels over rows (KERNEL_ROWS) for the device */
	uint32_t local_size;          /* work-group size of the GPU strategy, a power of two from 64 to 256 */
	uint32_t units;               /* compute units */
	uint32_t pools;               /* pool arguments of every kernel, 1 to 4 */
	uint32_t kernel_operands;     /* most memory operands of one kernel */
	uint32_t kernel_values;       /* most values of one kernel: registers and compile time */
	uint64_t stream_bytes;        /* outputs of at least this size are stored past the caches; 0: never */
};
