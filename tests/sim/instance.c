/*
 * Copies of the shared objects. Each has static state of its own, which is put back to what it was when it was loaded each time that an
 * actor begins with it: that is a new process, at the cost of a copy of some hundred KiB.
 */
#include "world.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

enum { INSTANCES = 48, PARTS = 4 };

struct part {
	char *begin, *copy;
	size_t bytes;
};

struct instance {
	enum actor_kind kind;
	bool taken;
	void *handle;
	uintptr_t base;
	sim_entry_function *entry;
	struct part part[PARTS];
	unsigned parts;
	const char *tls;             /* what a thread begins with */
	size_t tls_file, tls_bytes;
	char *thread;                /* where it is, of the one thread that there is */
};

static struct instance instances[INSTANCES];
static unsigned count;
static const char *const names[ACTOR_KINDS] = { "supervisor.so", "engine.so", "client.so" };
static char folder[256];

int instances_open(const char *path) {
	snprintf(folder, sizeof folder, "%s", path);
	return 0;
}

static int note_parts(struct dl_phdr_info *info, size_t size, void *user) {
	struct instance *x = user;

	(void)size;
	if (info->dlpi_addr != x->base)
		return 0;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *h = &info->dlpi_phdr[i];

		if (h->p_type == PT_TLS) {
			x->tls = (const char *)(info->dlpi_addr + h->p_vaddr);
			x->tls_file = h->p_filesz;
			x->tls_bytes = h->p_memsz;
		}
		if (h->p_type == PT_LOAD && h->p_flags & PF_W && x->parts < PARTS)
			x->part[x->parts++] = (struct part){ .begin = (char *)(info->dlpi_addr + h->p_vaddr), .bytes = h->p_memsz };
	}
	return 1;
}

static void *open_copy(enum actor_kind kind) {
	char path[512];
	struct stat st;
	off_t at = 0;
	void *handle;
	int from, to;

	snprintf(path, sizeof path, "%s/%s", folder, names[kind]);
	from = open(path, O_RDONLY | O_CLOEXEC);
	to = memfd_create(names[kind], MFD_CLOEXEC);
	if (from < 0 || to < 0 || fstat(from, &st))
		return NULL;
	while (at < st.st_size)
		if (sendfile(to, from, &at, (size_t)(st.st_size - at)) <= 0)
			return NULL;
	close(from);
	/* Out of the way of the numbers that actors get. */
	from = fcntl(to, F_DUPFD_CLOEXEC, WORLD_FDS + (int)count);
	close(to);
	snprintf(path, sizeof path, "/proc/self/fd/%d", from);
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		fprintf(stderr, "%s: %s\n", names[kind], dlerror());
	return handle;
}

static struct instance *load(enum actor_kind kind) {
	struct instance *x = &instances[count];
	struct link_map *map;

	x->kind = kind;
	x->handle = open_copy(kind);
	if (!x->handle)
		exit(2);
	count++;
	dlinfo(x->handle, RTLD_DI_LINKMAP, &map);
	x->base = map->l_addr;
	*(void **)&x->entry = dlsym(x->handle, "sim_entry");
	dl_iterate_phdr(note_parts, x);
	for (unsigned i = 0; i < x->parts; i++) {
		x->part[i].copy = malloc(x->part[i].bytes);
		memcpy(x->part[i].copy, x->part[i].begin, x->part[i].bytes);
	}
	return x;
}

/* Of each object that is loaded with it: only that one has any. */
static int find_thread(struct dl_phdr_info *info, size_t size, void *user) {
	struct instance *x = user;

	(void)size;
	if (info->dlpi_addr != x->base)
		return 0;
	x->thread = info->dlpi_tls_data;
	return 1;
}

/* It is there once it was first used. */
static bool has_thread(struct instance *x) {
	if (x->tls_bytes && !x->thread)
		dl_iterate_phdr(find_thread, x);
	return x->thread;
}

static void clean_thread(const struct instance *x, char *to) {
	memcpy(to, x->tls, x->tls_file);
	memset(to + x->tls_file, 0, x->tls_bytes - x->tls_file);
}

void instance_thread_in(const struct instance *i, char **ownp) {
	struct instance *x = &instances[i - instances];

	if (!x->tls_bytes)
		return;
	if (!*ownp) {
		*ownp = malloc(x->tls_bytes);
		if (!*ownp)
			abort();
		clean_thread(x, *ownp);
	}
	if (has_thread(x))
		memcpy(x->thread, *ownp, x->tls_bytes);
}

void instance_thread_out(const struct instance *i, char *own) {
	struct instance *x = &instances[i - instances];

	if (own && has_thread(x))
		memcpy(own, x->thread, x->tls_bytes);
}

struct instance *instance_take(enum actor_kind kind) {
	struct instance *x = NULL;

	for (unsigned i = 0; i < count && !x; i++)
		if (instances[i].kind == kind && !instances[i].taken)
			x = &instances[i];
	if (!x && count == INSTANCES)
		sim_wrong("more copies of the objects than %d", INSTANCES);
	if (!x)
		x = load(kind);
	x->taken = true;
	for (unsigned i = 0; i < x->parts; i++)
		memcpy(x->part[i].begin, x->part[i].copy, x->part[i].bytes);
	return x;
}

void instance_give(struct instance *i) {
	i->taken = false;
}

sim_entry_function *instance_entry(const struct instance *i) {
	return i->entry;
}
