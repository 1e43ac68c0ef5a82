/*
 * Machine code that lies in memory before it runs.
 *
 * A driver that keeps kernels as shared objects maps them, and pages come with the first access. A load by a mask (AVX-512) from a
 * page that is not there takes no fault where the mask is empty: so the page does not come, and the load takes a hundred times as
 * long, each time. The constant 1 of a comparison that is true nowhere is such a load: isnan() of 1M numbers took 9 ms instead of
 * 0.15. So all pages of a kernel's object are asked for once it has been loaded.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dl_iterate_phdr */
#endif

#include "state.h"

#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14; the C library of Debian 12 does not name it everywhere */
#endif

enum {
	/* Other builders load at the same time: so many of the newest objects are looked at. */
	TOUCH_NEWEST = 16,
	TOUCH_SEGMENTS = 4,
};

struct objects {
	const char *folder;
	size_t length;
	uint64_t count;
	struct object {
		uintptr_t from[TOUCH_SEGMENTS], to[TOUCH_SEGMENTS];
		unsigned segments;
	} newest[TOUCH_NEWEST];
};

static int note_object(struct dl_phdr_info *info, size_t size, void *user) {
	struct objects *all = user;
	struct object *o;

	(void)size;
	if (!info->dlpi_name || strncmp(info->dlpi_name, all->folder, all->length) != 0)
		return 0;
	o = &all->newest[all->count++ % TOUCH_NEWEST];
	o->segments = 0;
	for (unsigned i = 0; i < info->dlpi_phnum && o->segments < TOUCH_SEGMENTS; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type != PT_LOAD || !(p->p_flags & PF_R))
			continue;
		o->from[o->segments] = info->dlpi_addr + p->p_vaddr;
		o->to[o->segments++] = info->dlpi_addr + p->p_vaddr + p->p_memsz;
	}
	return 0;
}

/* What has been unmapped meanwhile is refused, and what cannot be had comes when it is used. */
static void touch(const struct object *o) {
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

	for (unsigned i = 0; i < o->segments; i++) {
		uintptr_t begin = o->from[i] & ~(page - 1);

		/* NOLINTNEXTLINE(performance-no-int-to-ptr): where it lies is told as a number */
		if (madvise((void *)begin, o->to[i] - begin, MADV_POPULATE_READ))
			return;
	}
}

void programs_touch(const struct device *d) {
	struct objects all = { .folder = d->cache.driver };

	if (!all.folder || !*all.folder)
		return;
	all.length = strlen(all.folder);
	dl_iterate_phdr(note_object, &all);
	for (uint64_t i = 0; i < all.count && i < TOUCH_NEWEST; i++)
		touch(&all.newest[i]);
}
