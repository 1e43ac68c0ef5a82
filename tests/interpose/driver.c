/*
 * An OpenCL driver of one device that can compute nothing, for tests of what is said of drivers. FUSION_DRIVER names its
 * version ("OpenCL 1.1 worn out"); with "crash" or "hang" it does that when it is asked for its devices. It is loaded
 * through a file NAME.icd.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <CL/cl.h>
#include <CL/cl_ext.h>
#include <CL/cl_icd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The loader finds its functions in the first word of every object. */
struct _cl_platform_id {
	const cl_icd_dispatch *dispatch;
};
struct _cl_device_id {
	const cl_icd_dispatch *dispatch;
};

static cl_icd_dispatch dispatch;
static struct _cl_platform_id platform = { &dispatch };
static struct _cl_device_id device = { &dispatch };

static const char *wish(void) {
	const char *text = getenv("FUSION_DRIVER");

	return text ? text : "OpenCL 1.1 worn out";
}

static cl_int tell(const char *text, size_t size, void *value, size_t *sizep) {
	if (sizep)
		*sizep = strlen(text) + 1;
	if (!value)
		return CL_SUCCESS;
	if (size <= strlen(text))
		return CL_INVALID_VALUE;
	memcpy(value, text, strlen(text) + 1);
	return CL_SUCCESS;
}

static cl_int CL_API_CALL platform_info(cl_platform_id p, cl_platform_info what, size_t size, void *value, size_t *sizep) {
	(void)p;
	switch (what) {
	case CL_PLATFORM_NAME:
		return tell("Played", size, value, sizep);
	case CL_PLATFORM_VERSION:
		return tell(wish(), size, value, sizep);
	case CL_PLATFORM_ICD_SUFFIX_KHR:
		return tell("PLAY", size, value, sizep);
	case CL_PLATFORM_EXTENSIONS:
		return tell("cl_khr_icd", size, value, sizep);
	case CL_PLATFORM_PROFILE:
		return tell("FULL_PROFILE", size, value, sizep);
	default:
		return tell("", size, value, sizep);
	}
}

static cl_int CL_API_CALL device_ids(cl_platform_id p, cl_device_type type, cl_uint most, cl_device_id *ids, cl_uint *countp) {
	(void)p;
	(void)type;
	if (!strcmp(wish(), "crash"))
		abort();
	while (!strcmp(wish(), "hang"))
		pause();
	if (ids && most)
		ids[0] = &device;
	if (countp)
		*countp = 1;
	return CL_SUCCESS;
}

static cl_int CL_API_CALL device_info(cl_device_id d, cl_device_info what, size_t size, void *value, size_t *sizep) {
	(void)d;
	switch (what) {
	case CL_DEVICE_NAME:
		return tell("Played device", size, value, sizep);
	case CL_DEVICE_VERSION:
		return tell(wish(), size, value, sizep);
	case CL_DRIVER_VERSION:
		return tell("0.1", size, value, sizep);
	default:
		return CL_INVALID_VALUE;
	}
}

cl_int CL_API_CALL clIcdGetPlatformIDsKHR(cl_uint most, cl_platform_id *ids, cl_uint *countp) {
	dispatch.clGetPlatformInfo = platform_info;
	dispatch.clGetDeviceIDs = device_ids;
	dispatch.clGetDeviceInfo = device_info;
	if (ids && most)
		ids[0] = &platform;
	if (countp)
		*countp = 1;
	return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clGetPlatformInfo(cl_platform_id p, cl_platform_info what, size_t size, void *value,
	size_t *sizep) {
	return platform_info(p, what, size, value, sizep);
}

void *CL_API_CALL clGetExtensionFunctionAddress(const char *name) {
	cl_int (*function)(cl_uint, cl_platform_id *, cl_uint *) = clIcdGetPlatformIDsKHR;
	void *address = NULL;

	if (!strcmp(name, "clIcdGetPlatformIDsKHR"))
		memcpy(&address, &function, sizeof address);
	return address;
}
