/*
 * The one device of these tests, and programs made of the text of kernels/.
 *
 * Everything here ends the process with a sentence when OpenCL refuses: a test that cannot run
 * its kernels has nothing else to say.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct device;
struct program;

enum { DEVICE_MAX_INPUTS = 3 };

/* Opens the first device of a platform; kernels is the folder with the library. */
struct device *device_open(unsigned platform, const char *kernels);
void device_close(struct device *d);
const char *device_name(const struct device *d);
bool device_has_f64(const struct device *d);

/* Builds "#define W lanes" + the library + text; f64 defines HAS_F64 and adds math_f64. */
struct program *program_build(struct device *d, int lanes, bool f64, const char *text);
void program_free(struct program *p);
double program_build_ms(const struct program *p);

/*
 * Runs kernel name(in0, in1, in2, out, count a work-item): input i has bytes[i] an element. n is
 * a multiple of PROGRAM_CHUNK.
 */
enum { PROGRAM_CHUNK = 64 };
void program_run(struct program *p, const char *name, size_t n, const void *const in[DEVICE_MAX_INPUTS],
	const size_t bytes[DEVICE_MAX_INPUTS], void *out, size_t out_bytes);

/*
 * Runs kernel `name` of two programs over consecutive bits of n floats: a thread's own, with a queue of its own. Both programs
 * contain RUNNER_TEXT, which makes the operands on the device. What a run gives stays until the next one.
 */
#define RUNNER_TEXT \
	"kernel void consecutive(global uint *o, uint first) { o[get_global_id(0)] = first + (uint)get_global_id(0); }\n"
struct runner;
struct runner *runner_open(struct program *few, struct program *many, const char *name, size_t n);
void runner_run(struct runner *r, uint32_t first, const uint32_t **fewp, const uint32_t **manyp);
void runner_close(struct runner *r);
