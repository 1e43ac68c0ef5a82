/*
 * Device memory.
 *
 * A flat device computes on the host's addresses. A large range of them is reserved without memory;
 * a small buffer object over its first bytes is what kernels get as pool 0, and arenas are mapped
 * into slots of the range behind it. One launch then reaches all of them by pool 0 and an offset.
 * That a kernel may look beyond the buffer object is not OpenCL's promise: exact.c tries it.
 *
 * Other devices have pools, buffer objects made when they are needed and kept, cut by range.h.
 */
#include "state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "protocol/limits.h"

enum {
	/* Slots begin on pages of 2 MiB, so that private memory can be of such pages. */
	MEMORY_SLOT = 2 << 20,
	/* The longest reserved range that is tried: 1 TiB, half of it next, and so on. */
	MEMORY_RESERVE_LOG2 = 40,
	MEMORY_RESERVE_LEAST_LOG2 = 33,
};

/* Pools are not made smaller than this where the device has more. */
#define MEMORY_POOL_LEAST (UINT64_C(256) << 20)
/* Of a device's memory, pools take at most this share; drivers need some for themselves. */
#define MEMORY_SHARE(bytes) ((bytes) / 10 * 9)

static uint64_t slot_bytes(uint64_t bytes) {
	return (bytes + MEMORY_SLOT - 1) & ~(uint64_t)(MEMORY_SLOT - 1);
}

static void *map_reserved(void *at, uint64_t bytes) {
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at ? MAP_FIXED : 0);

	return mmap(at, bytes, PROT_NONE, flags, -1, 0);
}

/* Cuts what lies before the first slot boundary off. */
static uint8_t *align_range(uint8_t *begin, uint64_t bytes) {
	uint8_t *base = (uint8_t *)(uintptr_t)slot_bytes((uintptr_t)begin);

	if (base != begin)
		munmap(begin, (size_t)(base - begin));
	munmap(base + bytes, (size_t)(begin + MEMORY_SLOT - base));
	return base;
}

int memory_reserve(struct device *d, uint64_t ring_bytes) {
	struct memory *m = &d->memory;
	uint8_t *begin = MAP_FAILED;
	unsigned log2;

	for (log2 = MEMORY_RESERVE_LOG2; log2 >= MEMORY_RESERVE_LEAST_LOG2 && begin == MAP_FAILED; log2--)
		begin = map_reserved(NULL, (UINT64_C(1) << log2) + MEMORY_SLOT);
	if (begin == MAP_FAILED)
		return -ENOMEM;
	m->reserved = UINT64_C(1) << (log2 + 1);
	m->base = align_range(begin, m->reserved);
	if (mmap(m->base, slot_bytes(ring_bytes), PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		return -errno;
	return 0;
}

static int open_slots(struct device *d) {
	struct memory *m = &d->memory;
	uint64_t offset;
	int r = range_new(m->reserved, &m->slots);

	/* The ring's slot is the first and never given back: address 0 is nobody's. */
	return r ? r : range_take(m->slots, slot_bytes((d->work.words + CLAIM_WORDS) * sizeof(uint64_t)), &offset);
}

static int open_pools(struct device *d) {
	struct memory *m = &d->memory;
	cl_ulong all = 0, largest = 0;

	if (clGetDeviceInfo(d->choice.device, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof all, &all, NULL) ||
		clGetDeviceInfo(d->choice.device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof largest, &largest, NULL))
		return -EIO;
	m->limit = d->config.memory ? d->config.memory : MEMORY_SHARE(all);
	m->largest = largest;
	return 0;
}

int memory_open(struct device *d) {
	d->memory.generation = 1;
	return d->flat ? open_slots(d) : open_pools(d);
}

void memory_close(struct device *d) {
	struct memory *m = &d->memory;

	for (unsigned i = 0; i < m->pools; i++) {
		clReleaseMemObject(m->pool[i]);
		range_free_all(m->range[i]);
	}
	while (m->pins)
		device_unpin(d, m->pins->host);
	range_free_all(m->slots);
	if (m->base)
		munmap(m->base, m->reserved);
	*m = (struct memory){ 0 };
}

unsigned memory_pools(const struct device *d) {
	return d->traits.pools - d->reaches;
}

uint64_t memory_host_address(const struct device *d, const void *host) {
	return (uint64_t)memory_pools(d) << KERNEL_POOL_SHIFT | (uintptr_t)host;
}

cl_int memory_set_pools(struct device *d, cl_kernel object) {
	struct memory *m = &d->memory;
	cl_int error = CL_SUCCESS;

	/* A pool that is not made yet has no address that a record could name: any buffer will do. */
	for (unsigned i = 0; i < memory_pools(d) && !error; i++)
		error = clSetKernelArg(
			object, 2 + i, sizeof(cl_mem), i < m->pools ? &m->pool[i] : &d->work.records);
	if (d->reaches && !error)
		error = clSetKernelArg(object, 2 + memory_pools(d), sizeof(cl_mem), NULL);
	return error;
}

/* ---- flat ---- */

static int map_slot(const struct memory *m, int fd, uint64_t offset, uint64_t bytes) {
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	void *p = mmap(m->base + offset, bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd, 0);

	if (p == MAP_FAILED)
		return -ENOMEM;
	/* Only advice: where large pages are off, small ones serve. */
	if (madvise(p, bytes, MADV_HUGEPAGE))
		return 0;
	return 0;
}

int device_map(struct device *d, int fd, uint64_t bytes, uint64_t *addressp, void **hostp) {
	struct memory *m = &d->memory;
	uint64_t offset;
	int r;

	if (!d->flat || !bytes || bytes > m->reserved)
		return -EINVAL;
	r = range_take(m->slots, slot_bytes(bytes), &offset);
	if (r)
		return -ENOMEM;
	r = map_slot(m, fd, offset, bytes);
	if (r) {
		if (range_give(m->slots, offset, slot_bytes(bytes)))
			return -EINVAL;
		return r;
	}
	*addressp = offset;
	*hostp = m->base + offset;
	return 0;
}

void device_unmap(struct device *d, uint64_t address, uint64_t bytes) {
	struct memory *m = &d->memory;

	/* A slot that cannot be emptied stays taken: it must not be handed out with another's memory in it. */
	if (map_reserved(m->base + address, slot_bytes(bytes)) == MAP_FAILED)
		return;
	if (range_give(m->slots, address, slot_bytes(bytes)))
		return;
}

/* ---- pools ---- */

static uint64_t pool_size(const struct device *d, uint64_t least, uint64_t left) {
	uint64_t share = d->memory.limit / memory_pools(d);
	uint64_t bytes = share > MEMORY_POOL_LEAST ? share : MEMORY_POOL_LEAST;

	if (bytes < least)
		bytes = least;
	if (bytes > d->memory.largest)
		bytes = d->memory.largest;
	if (bytes > left)
		bytes = left;
	return bytes & ~(uint64_t)(LIMIT_ALIGNMENT - 1);
}

/*
 * Drivers give a buffer its memory when it is first used, and then it is too late: where others have taken it,
 * every copy would be refused. So its first and last bytes are written now, and are there before arrays are: a write that
 * blocks only waits until its source may be used again.
 */
static bool is_backed(struct device *d, cl_mem pool, uint64_t bytes) {
	const uint64_t zero = 0;
	cl_int error;
	cl_command_queue queue = clCreateCommandQueue(d->context, d->choice.device, 0, &error);
	bool backed;

	if (error)
		return false;
	backed = !clEnqueueWriteBuffer(queue, pool, CL_TRUE, 0, sizeof zero, &zero, 0, NULL, NULL) &&
		!clEnqueueWriteBuffer(
			queue, pool, CL_TRUE, bytes - sizeof zero, sizeof zero, &zero, 0, NULL, NULL) &&
		!clFinish(queue);
	clReleaseCommandQueue(queue);
	return backed;
}

static int make_pool(struct device *d, uint64_t bytes) {
	struct memory *m = &d->memory;
	struct range *range = NULL;
	cl_int error;
	cl_mem pool;

	/* Kernels read whole vectors: the last bytes of a pool are nobody's. */
	if (bytes <= LIMIT_ARENA_SLACK || range_new(bytes - LIMIT_ARENA_SLACK, &range))
		return -ENOSPC;
	pool = clCreateBuffer(d->context, CL_MEM_READ_WRITE, bytes, NULL, &error);
	if (!error && !is_backed(d, pool, bytes)) {
		clReleaseMemObject(pool);
		error = CL_MEM_OBJECT_ALLOCATION_FAILURE;
	}
	if (error) {
		range_free_all(range);
		return -ENOSPC;
	}
	m->pool[m->pools] = pool;
	m->range[m->pools] = range;
	m->pool_bytes[m->pools++] = bytes;
	m->generation++;
	return 0;
}

static int add_pool(struct device *d, uint64_t least) {
	struct memory *m = &d->memory;
	uint64_t used = 0, bytes;

	for (unsigned i = 0; i < m->pools; i++)
		used += m->pool_bytes[i];
	if (m->pools == memory_pools(d) || used >= m->limit)
		return -ENOSPC;
	least = (least + LIMIT_ARENA_SLACK + LIMIT_ALIGNMENT - 1) & ~(uint64_t)(LIMIT_ALIGNMENT - 1);
	for (bytes = pool_size(d, least, m->limit - used); bytes >= least; bytes /= 2) {
		bytes &= ~(uint64_t)(LIMIT_ALIGNMENT - 1);
		if (!make_pool(d, bytes))
			return 0;
	}
	return -ENOSPC;
}

static int take_from(struct memory *m, unsigned pool, uint64_t bytes, uint64_t *addressp) {
	uint64_t offset;
	int r = range_take(m->range[pool], bytes, &offset);

	if (!r)
		*addressp = (uint64_t)pool << KERNEL_POOL_SHIFT | offset;
	return r;
}

int device_take(struct device *d, uint64_t bytes, uint64_t *addressp) {
	struct memory *m = &d->memory;
	int r;

	if (d->flat)
		return -EINVAL;
	for (unsigned i = 0; i < m->pools; i++)
		if (!take_from(m, i, bytes, addressp))
			return 0;
	r = add_pool(d, bytes);
	return r ? r : take_from(m, m->pools - 1, bytes, addressp);
}

void device_give(struct device *d, uint64_t address, uint64_t bytes) {
	unsigned pool = (unsigned)(address >> KERNEL_POOL_SHIFT);

	if (pool >= d->memory.pools)
		return;
	if (range_give(d->memory.range[pool], address & ((UINT64_C(1) << KERNEL_POOL_SHIFT) - 1), bytes))
		return;
}

uint64_t device_room(const struct device *d) {
	const struct memory *m = &d->memory;
	uint64_t most = m->largest > UINT64_MAX / memory_pools(d) ? UINT64_MAX : m->largest * memory_pools(d);

	return m->limit < most ? m->limit : most;
}

/* ---- host memory ---- */

void device_pin(struct device *d, void *host, uint64_t bytes, uint64_t *addressp) {
	struct pin *p;
	cl_int error;

	*addressp = 0;
	if (d->flat || !(d->quirks->flags & QUIRK_PINNED_UPLOAD))
		return;
	p = calloc(1, sizeof *p);
	if (!p)
		return;
	p->host = host;
	p->object = clCreateBuffer(d->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, bytes, host, &error);
	if (error) {
		free(p);
		return;
	}
	p->next = d->memory.pins;
	d->memory.pins = p;
	if (d->reaches)
		*addressp = memory_host_address(d, host);
}

void device_unpin(struct device *d, const void *host) {
	struct pin **link = &d->memory.pins, *p;

	while ((p = *link) && p->host != host)
		link = &p->next;
	if (!p)
		return;
	*link = p->next;
	clReleaseMemObject(p->object);
	free(p);
}
