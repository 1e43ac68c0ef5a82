/*
 * What interpose.c counts, and what it can be told to break.
 *
 * Preloaded into a daemon, it is told by environment variables and counts into a file that a test
 * maps: a struct interpose_counts, native byte order. Included by a test program, it stands before
 * libOpenCL for that program, and the test also sets and reads the variables below directly.
 *
 *   FUSION_INTERPOSE_COUNTS     path of the file; made if it is not there
 *   FUSION_INTERPOSE_OPS        builds of sources with more operations than this fail: lines with " = op_"
 *   FUSION_INTERPOSE_BUILD_MS   each build of a source takes this much longer
 *   FUSION_INTERPOSE_ITEM_LOOPS each work-item that has work to do counts so far first: what has many items is slow
 *   FUSION_INTERPOSE_MEMORY     buffer objects beyond this many bytes in all cannot be made
 *   FUSION_INTERPOSE_LAUNCHES   launches after this many are refused
 *   FUSION_INTERPOSE_COMPILER   WHAT:TEXT: builds of sources with TEXT in them hang, hold, abort, crash (a bad address), or eat memory
 *                               without end, as WHAT says
 *                               With launch the first launch of such a kernel hangs, on whatever thread
 *                               With exit they end the process, with refuse they fail; FUSION_INTERPOSE_SPARE is a part of the options of builds
 *                               that do neither
 *                               With hold they wait while the file of that name, FUSION_INTERPOSE_GATE, is there
 *   FUSION_INTERPOSE_FAULTS     a path: where the file PATH.launch is there, the next launch of the engine's own thread removes it and does what it says:
 *                               abort, crash, kill, hang, or endless, after which nobody hears of the end of a command; PATH.start
 *                               likewise when platforms are listed, PATH.load when any of its threads builds
 *   FUSION_INTERPOSE_DIE        platforms, context or build: that call aborts
 *   FUSION_INTERPOSE_PLATFORM   the name of every platform, so that nothing is known of it
 *   FUSION_INTERPOSE_VERSION    of OpenCL, as every device has it
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

struct interpose_counts {
	_Atomic uint64_t launches;          /* clEnqueueNDRangeKernel that the driver took */
	_Atomic uint64_t tasks;             /* the sum of their sizes in dimension 1 */
	_Atomic uint64_t items;             /* the sum of their sizes in dimension 0 */
	_Atomic uint64_t launches_refused;
	_Atomic uint64_t builds;            /* clBuildProgram of source */
	_Atomic uint64_t builds_binary;     /* of what a cache had */
	_Atomic uint64_t builds_failed;     /* by the driver or here */
	_Atomic uint64_t kernels;           /* clCreateKernel */
	_Atomic uint64_t buffers;           /* clCreateBuffer */
	_Atomic uint64_t buffers_released;  /* clReleaseMemObject */
	_Atomic uint64_t buffer_bytes;      /* of those not released */
	_Atomic uint64_t buffers_refused;
	_Atomic uint64_t copies, copy_bytes; /* clEnqueueWriteBuffer and clEnqueueReadBuffer */
	_Atomic uint64_t writes_left;       /* clEnqueueWriteBuffer on queues that were released without clFinish() behind it */
};

struct interpose_rules {
	_Atomic uint64_t ops;               /* UINT64_MAX: no limit */
	_Atomic uint64_t build_ms;
	_Atomic uint64_t item_loops;
	_Atomic uint64_t hold;              /* builds of sources do not end before this is 0 again */
	_Atomic uint64_t memory;
	_Atomic uint64_t launches;
};
