/*
 * From a text to a program: its key, what the cache has of it, the driver's compiler, and the log of that.
 *
 * Whatever asks a driver for a program does so under a guard (guard.h), since the driver may take it from a cache of its own.
 */
#include "guard.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "daemon/base/version.h"

struct cache_key build_key_for(const struct device *d, struct target t, const char *source, const char *options) {
	const char *part[] = { source, options, d->choice.platform_name, t.name, d->choice.driver,
		FUSIOND_VERSION };
	XXH3_state_t state;
	XXH128_hash_t h;

	XXH3_128bits_reset(&state);
	for (size_t i = 0; i < sizeof part / sizeof *part; i++)
		XXH3_128bits_update(&state, part[i], strlen(part[i]) + 1);
	h = XXH3_128bits_digest(&state);
	return (struct cache_key){ h.low64, h.high64 };
}

struct cache_key build_key(const struct device *d, const char *source, const char *options) {
	return build_key_for(d, device_target(d, false), source, options);
}

static char *build_log(struct target t, cl_program program) {
	size_t size = 0;
	char *log;

	if (clGetProgramBuildInfo(program, t.device, CL_PROGRAM_BUILD_LOG, 0, NULL, &size) || !size)
		return NULL;
	log = calloc(1, size + 1);
	if (!log)
		return NULL;
	if (clGetProgramBuildInfo(program, t.device, CL_PROGRAM_BUILD_LOG, size, log, NULL))
		log[0] = 0;
	if (size > BUILD_LOG_BYTES)
		log[BUILD_LOG_BYTES] = 0;
	return log;
}

/* NULL where the cache has none that the driver takes; such an entry is removed. */
cl_program build_cached(struct device *d, struct target t, const char *options, const struct cache_key *key) {
	CLEANUP(cleanup_program) cl_program program = NULL;
	CLEANUP(cleanup_free) void *bytes = NULL;
	const unsigned char *binary;
	cl_program built;
	size_t size = 0;
	cl_int error, status;

	if (cache_load(&d->cache, key, &bytes, &size))
		return NULL;
	binary = bytes;
	program = clCreateProgramWithBinary(t.context, 1, &t.device, &size, &binary, &status, &error);
	if (!error)
		error = clBuildProgram(program, 1, &t.device, options, NULL, NULL);
	if (error) {
		cache_remove(&d->cache, key);
		return NULL;
	}
	built = program;
	program = NULL;
	return built;
}

/*
 * What a compiler warns of in a text of ours - a loop that it cannot unroll, vectors that functions of other processors take otherwise - is
 * right all the same, and no concern of who reads the log: drivers that run clang (PoCL) would write "1 warning generated." there.
 */
#define BUILD_QUIETLY " -w"

cl_int build_anew(const struct guard *g, struct target t, const char *source, const char *options, cl_program *programp, char **logp) {
	CLEANUP(cleanup_program) cl_program program = NULL;
	CLEANUP(cleanup_free) char *copy = NULL;
	CLEANUP(str_free) struct str quiet = { 0 };
	const char *text = guard_text(g, source, &copy);
	cl_int error;

	str_append(&quiet, options);
	str_append(&quiet, BUILD_QUIETLY);
	if (!text || str_finish(&quiet))
		return CL_OUT_OF_HOST_MEMORY;
	program = clCreateProgramWithSource(t.context, 1, &text, NULL, &error);
	if (error)
		return error;
	error = clBuildProgram(program, 1, &t.device, str_text(&quiet), NULL, NULL);
	if (error) {
		*logp = build_log(t, program);
		return error;
	}
	if (hidden_has(text))
		error = hidden_build(t, options, &program);
	if (error)
		return error;
	*programp = program;
	program = NULL;
	return CL_SUCCESS;
}

cl_int build_for(struct device *d, struct target t, const char *source, const char *options, struct guard *g,
	cl_program *programp, bool *cachedp, char **logp) {
	struct cache_key key = build_key_for(d, t, source, options);

	*logp = NULL;
	guard_begin(g, d, &key);
	*programp = build_cached(d, t, options, &key);
	*cachedp = *programp != NULL;
	return *programp ? CL_SUCCESS : build_anew(g, t, source, options, programp, logp);
}

cl_int build_source(struct device *d, const char *source, const char *options, struct guard *g, cl_program *programp,
	bool *cachedp, char **logp) {
	return build_for(d, device_target(d, false), source, options, g, programp, cachedp, logp);
}

void build_keep(struct device *d, cl_program program, const struct cache_key *key) {
	CLEANUP(cleanup_free) unsigned char *bytes = NULL;
	size_t size = 0;

	if (clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, NULL) || !size)
		return;
	bytes = malloc(size);
	if (!bytes || clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof bytes, &bytes, NULL))
		return;
	/* A full disk is no reason to refuse a program that is built. */
	if (cache_store(&d->cache, key, bytes, size))
		return;
}
