/* Arrays and handles; see handles.h. */
#include "handles.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/serve/share.h"
#include "daemon/serve/vector.h"
#include "daemon/base/memory.h"

enum {
	/* Released arrays of a session that are noted: 13 MiB of the catalogue, and more than the batches have that may wait. */
	HANDLES_LEAVING = 1 << 16,
};

/* ---- arrays ---- */

struct array *array_new(const struct tensor_type *t) {
	struct array *a = memory_zeroed(sizeof *a);

	if (!a)
		return NULL;
	a->references = 1;
	a->type = *t;
	return a;
}

struct array *array_ref(struct array *a) {
	a->references++;
	return a;
}

struct array *array_unref(struct array *a) {
	if (!a || --a->references)
		return NULL;
	if (a->hold)
		share_left(a);
	if (a->buffer)
		buffer_unref(a->buffer);
	if (a->before)
		buffer_unref(a->before);
	poison_unref(a->poison);
	free(a);
	return NULL;
}

void array_poison(struct array *a, struct poison *p) {
	if (a->buffer)
		a->buffer = buffer_unref(a->buffer);
	poison_unref(a->poison);
	a->poison = p;
	a->pending = false;
	array_noted(a);
}

/* The buffer last: what goes before it is then right. */
void array_noted(struct array *a) {
	struct buffer *b = a->before ? a->before : a->buffer;
	struct catalogue_array *n = a->catalogue ? &a->catalogue->entry[a->entry].of_array : NULL;
	uint32_t entry = CATALOGUE_NONE;

	if (!n || a->catalogue->frozen)
		return;
	n->buffer = CATALOGUE_NONE;
	atomic_signal_fence(memory_order_seq_cst);
	n->version = a->version;
	n->made = a->made;
	n->released = 0;
	n->fault = a->poison ? (uint32_t)a->poison->fault.code : 0;
	n->share = a->hold ? share_arena(a) : 0;
	n->writable = a->writable;
	n->mapped = a->hold && (a->mapped == ARRAY_MAPPED || a->mapped == ARRAY_RESTORED);
	n->view = a->before ? a->view_before : a->view;
	n->type = a->type;
	if (b && !n->fault)
		entry = buffer_entry(b);
	n->serial = entry != CATALOGUE_NONE ? a->catalogue->entry[entry].of_buffer.serial : 0;
	atomic_thread_fence(memory_order_release);
	n->buffer = entry;
}

void array_copies(struct array *a) {
	if (a->before)
		return;
	a->before = buffer_ref(a->buffer);
	a->view_before = a->view;
}

void array_copied(struct array *a) {
	struct buffer *before = a->before;

	if (!before)
		return;
	a->before = NULL;
	array_noted(a);
	buffer_unref(before);
}

static void array_enter(struct array *a, struct catalogue *c, uint64_t session, uint64_t handle) {
	uint32_t entry = catalogue_take(c, session);

	if (entry == CATALOGUE_NONE)
		return;
	a->catalogue = c;
	a->entry = entry;
	c->entry[entry].of_array.handle = handle;
	array_noted(a);
	catalogue_put(c, entry, CATALOGUE_ARRAY);
}

/* A queue that never is empty begins anew now and then. */
static void move_leaving(struct handles *h) {
	if (!h->leaving_first || h->leavings < h->leaving_capacity)
		return;
	h->leavings -= h->leaving_first;
	memmove(h->leaving, h->leaving + h->leaving_first, h->leavings * sizeof *h->leaving);
	h->leaving_first = 0;
}

/* A shared one is the session's only while it holds it. */
static bool keep_leaving(struct handles *h, const struct array *a, uint64_t seq) {
	move_leaving(h);
	if (a->hold || h->leavings - h->leaving_first == HANDLES_LEAVING ||
		vector_reserve((void **)&h->leaving, h->leavings, &h->leaving_capacity, sizeof *h->leaving))
		return false;
	a->catalogue->entry[a->entry].of_array.released = seq;
	h->leaving[h->leavings++] = (struct leaving){ seq, a->entry };
	return true;
}

static void array_leave(struct handles *h, struct array *a, uint64_t seq) {
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): who finds no array says so before this */
	if (!a->catalogue)
		return;
	/* Nothing is noted of it from now on. */
	array_copied(a);
	if (!seq || !keep_leaving(h, a, seq)) {
		h->unkept = seq > h->unkept ? seq : h->unkept;
		catalogue_give(a->catalogue, a->entry);
	}
	a->catalogue = NULL;
}

void handles_begun(struct handles *h, uint64_t seq) {
	while (h->leaving_first < h->leavings && h->leaving[h->leaving_first].seq <= seq)
		catalogue_give(h->catalogue, h->leaving[h->leaving_first++].entry);
	if (h->leaving_first == h->leavings)
		h->leaving_first = h->leavings = 0;
}

struct poison *array_poisoned(struct array *a) {
	const struct fault *f = a->buffer ? buffer_fault(a->buffer) : NULL;

	if (!a->poison && f)
		a->poison = poison_new(f, 0, -1);
	return a->poison;
}

/* ---- handles ---- */

static uint32_t slot_of(uint64_t handle) {
	return (uint32_t)handle;
}

static uint32_t generation_of(uint64_t handle) {
	return (uint32_t)(handle >> 32);
}

void handles_init(struct handles *h, uint32_t limit) {
	*h = (struct handles){ .limit = limit };
}

void handles_account(struct handles *h, uint64_t *users, uint64_t limit) {
	h->users = users;
	h->users_limit = limit;
}

void handles_account_memory(struct handles *h, uint64_t *memory, uint64_t limit) {
	h->memory = memory;
	h->memory_limit = limit;
}

/* ---- slots ---- */

static struct handle_slot *find_slot(const struct handles *h, uint64_t slot) {
	struct handle_slot *page = slot / HANDLES_PAGE < h->pages ? h->page[slot / HANDLES_PAGE] : NULL;

	return page ? &page[slot % HANDLES_PAGE] : NULL;
}

const struct handle_slot *handles_slot(const struct handles *h, uint64_t slot) {
	return find_slot(h, slot);
}

uint64_t handles_next(const struct handles *h, uint64_t slot, uint64_t end) {
	uint64_t most = (uint64_t)h->pages * HANDLES_PAGE;
	const struct handle_slot *s;

	for (; slot < end && slot < most; slot++) {
		s = find_slot(h, slot);
		if (!s)
			slot += HANDLES_PAGE - 1 - slot % HANDLES_PAGE;
		else if (s->array)
			return slot;
	}
	return end;
}

static int charge(struct handles *h, uint64_t bytes, struct fault *f) {
	if (!h->memory)
		return 0;
	if (bytes > h->memory_limit || *h->memory > h->memory_limit - bytes)
		return fault_set(f, FAULT_LIMIT,
			"the daemon's own memory for arrays of the user is %llu bytes, as many as limits.user_memory allows; array handles side by side need least",
			(unsigned long long)*h->memory);
	*h->memory += bytes;
	return 0;
}

static void refund(struct handles *h, uint64_t bytes) {
	if (h->memory)
		*h->memory -= bytes;
}

/* The list of pages reaches as far as the highest slot used. */
static int add_pages(struct handles *h, uint32_t pages, struct fault *f) {
	struct handle_slot **list;
	int r = charge(h, (pages - h->pages) * sizeof *list, f);

	if (r)
		return r;
	list = realloc(h->page, pages * sizeof *list);
	if (!list) {
		refund(h, (pages - h->pages) * sizeof *list);
		return -ENOMEM;
	}
	memset(list + h->pages, 0, (pages - h->pages) * sizeof *list);
	h->page = list;
	h->pages = pages;
	return 0;
}

static int add_slot(struct handles *h, uint32_t slot, struct handle_slot **slotp, struct fault *f) {
	const uint64_t bytes = HANDLES_PAGE * sizeof **slotp;
	uint32_t page = slot / HANDLES_PAGE;
	int r = page < h->pages ? 0 : add_pages(h, page + 1, f);

	if (!r)
		r = charge(h, bytes, f);
	if (r)
		return r;
	h->page[page] = calloc(1, bytes);
	if (!h->page[page]) {
		refund(h, bytes);
		return -ENOMEM;
	}
	*slotp = find_slot(h, slot);
	return 0;
}

static void free_page(struct handles *h, struct handle_slot *page) {
	for (unsigned i = 0; page && i < HANDLES_PAGE; i++) {
		if (page[i].array)
			array_leave(h, page[i].array, 0);
		array_unref(page[i].array);
	}
	refund(h, page ? HANDLES_PAGE * sizeof *page : 0);
	free(page);
}

void handles_free(struct handles *h) {
	if (h->users)
		*h->users -= h->live;
	refund(h, h->live * sizeof(struct array));
	for (uint32_t i = 0; i < h->pages; i++)
		free_page(h, h->page[i]);
	refund(h, h->pages * sizeof(struct handle_slot *));
	handles_begun(h, UINT64_MAX);
	free(h->leaving);
	free(h->page);
	*h = (struct handles){ 0 };
}

/* ---- names ---- */

static int refuse(uint64_t handle, const char *why, struct fault *f) {
	return fault_set(
		f, FAULT_HANDLE, "handle %u, generation %u, %s", slot_of(handle), generation_of(handle), why);
}

static int refuse_stale(const struct handle_slot *s, uint64_t handle, struct fault *f) {
	if (generation_of(handle) > s->generation || !s->generation)
		return refuse(handle, "names no array of this session", f);
	if (generation_of(handle) == s->generation)
		return refuse(handle, "was released", f);
	return fault_set(f, FAULT_HANDLE, "handle %u, generation %u, is stale: its slot is at generation %u",
		slot_of(handle), generation_of(handle), s->generation);
}

/* Of one without a slot it is only known that its slot never was of that generation. */
static bool is_lost(const struct handles *h, const struct handle_slot *s, uint64_t handle) {
	if (s && s->lost && s->generation == generation_of(handle))
		return true;
	return h->unnamed && (!s || generation_of(handle) > s->generation);
}

static int refuse_lost(struct fault *f) {
	return fault_set(f, FAULT_MEMORY, "the daemon was out of memory when the array was to be made");
}

int handles_get(const struct handles *h, uint64_t handle, struct array **arrayp, struct fault *f) {
	const struct handle_slot *s = find_slot(h, slot_of(handle));

	if (is_lost(h, s, handle))
		return refuse_lost(f);
	if (!s)
		return refuse(handle, "names no array of this session", f);
	if (s->generation != generation_of(handle) || !s->array)
		return refuse_stale(s, handle, f);
	*arrayp = s->array;
	return 0;
}

static int put(struct handles *h, uint64_t handle, struct array *a, struct fault *f) {
	struct handle_slot *s;
	int r = 0;

	if (slot_of(handle) >= h->limit)
		return fault_set(f, FAULT_LIMIT,
			"handle %u is beyond the %u arrays that limits.handles allows", slot_of(handle),
			h->limit);
	if (h->users && *h->users >= h->users_limit)
		return fault_set(f, FAULT_LIMIT,
			"the sessions of the user hold %llu arrays, as many as limits.user_handles allows",
			(unsigned long long)*h->users);
	s = find_slot(h, slot_of(handle));
	if (!s)
		r = add_slot(h, slot_of(handle), &s, f);
	if (r)
		return r;
	if (s->array)
		return refuse(handle, "is wanted for a slot that is in use", f);
	if (generation_of(handle) <= s->generation)
		return refuse(handle, "does not grow the generation of its slot", f);
	r = charge(h, sizeof *a, f);
	if (r)
		return r;
	s->generation = generation_of(handle);
	s->lost = false;
	s->array = a;
	h->live++;
	if (h->users)
		++*h->users;
	return 0;
}

int handles_put(struct handles *h, uint64_t handle, struct array *a, struct fault *f) {
	int r = put(h, handle, a, f);

	if (!r)
		array_enter(a, h->catalogue, h->session, handle);
	return r;
}

int handles_adopt(struct handles *h, uint64_t handle, struct array *a, uint32_t entry, struct fault *f) {
	int r = put(h, handle, a, f);

	if (r)
		return r;
	a->catalogue = h->catalogue;
	a->entry = entry;
	array_noted(a);
	return 0;
}

void handles_lose(struct handles *h, uint64_t handle) {
	struct handle_slot *s = find_slot(h, slot_of(handle));

	if (!s) {
		h->unnamed++;
		return;
	}
	if (s->array || generation_of(handle) <= s->generation)
		return;
	s->generation = generation_of(handle);
	s->lost = true;
}

static bool release_lost(struct handles *h, uint64_t handle) {
	struct handle_slot *s = find_slot(h, slot_of(handle));

	if (!is_lost(h, s, handle))
		return false;
	if (s && s->lost && s->generation == generation_of(handle))
		s->lost = false;
	else
		h->unnamed--;
	return true;
}

int handles_release(struct handles *h, uint64_t handle, uint64_t seq, struct fault *f) {
	struct array *a = NULL;
	int r = release_lost(h, handle) ? 0 : handles_get(h, handle, &a, f);

	if (!r && !a)
		return 0;
	if (r)
		return r;
	array_leave(h, a, seq);
	find_slot(h, slot_of(handle))->array = NULL;
	refund(h, sizeof *a);
	h->live--;
	if (h->users)
		--*h->users;
	array_unref(a);
	return 0;
}
