/* Objects that a program names. See object.h for the contract. */
#include "object.h"

#include <inttypes.h>
#include <stdlib.h>


struct object_table object_tables[OBJECT_KINDS] = {
	[OBJECT_ARRAY] = { .first_bits = 8, .kind = "an array", .ended = "was released", .lock = PTHREAD_MUTEX_INITIALIZER },
	[OBJECT_CONTEXT] = { .first_bits = 3, .kind = "a context", .ended = "was closed", .lock = PTHREAD_MUTEX_INITIALIZER },
	[OBJECT_CAPTURE] = { .first_bits = 4, .kind = "a capture", .ended = "was freed", .lock = PTHREAD_MUTEX_INITIALIZER },
	[OBJECT_FUTURE] = { .first_bits = 4, .kind = "a future", .ended = "was finished", .lock = PTHREAD_MUTEX_INITIALIZER },
};

/* ---- chains ---- */

void object_chain_push(struct object_chain *chain, struct object *o) {
	o->next = chain->first;
	chain->first = o;
	if (!chain->last)
		chain->last = o;
	chain->count++;
}

void object_chain_append(struct object_chain *chain, struct object *o) {
	o->next = NULL;
	if (chain->last)
		chain->last->next = o;
	else
		chain->first = o;
	chain->last = o;
	chain->count++;
}

struct object *object_chain_pop(struct object_chain *chain) {
	struct object *o = chain->first;

	if (!o)
		return NULL;
	chain->first = o->next;
	if (!chain->first)
		chain->last = NULL;
	chain->count--;
	return o;
}

/* ---- the table ---- */

/* A slot that was never used; the chunk that it begins is made with it. */
static struct object *slot_new(struct object_table *t, size_t size) {
	uint32_t first = UINT32_C(1) << t->first_bits, slot = t->used + first;
	uint32_t bits = 31 - (uint32_t)__builtin_clz(slot);
	char *chunk = atomic_load_explicit(&t->chunk[bits - t->first_bits], memory_order_relaxed);
	struct object *o;

	if (t->used == OBJECT_SLOTS)
		return NULL;
	if (!chunk) {
		if (!t->used)
			t->size = (uint32_t)size;
		chunk = calloc(UINT32_C(1) << bits, size);
		if (!chunk)
			return NULL;
		atomic_store_explicit(&t->chunk[bits - t->first_bits], chunk, memory_order_release);
	}
	o = (struct object *)(void *)(chunk + (size_t)(slot - (UINT32_C(1) << bits)) * size);
	o->slot = t->used++;
	return o;
}

static struct object *take(struct object_table *t, size_t size) {
	struct object *o = object_chain_pop(&t->spare);

	return o ? o : slot_new(t, size);
}

/* The oldest is taken first, so that a name that was given back is known as long as may be. */
static void give(struct object_table *t, struct object *o) {
	/* An old name would hold again: its slot has done its service. */
	if (atomic_load_explicit(&o->generation, memory_order_relaxed) != UINT32_MAX - 1)
		object_chain_append(&t->spare, o);
}

void *object_take(enum object_kind kind, size_t size) {
	struct object_table *t = &object_tables[kind];
	struct object *o;

	pthread_mutex_lock(&t->lock);
	o = take(t, size);
	pthread_mutex_unlock(&t->lock);
	return o;
}

void object_give(enum object_kind kind, struct object *o) {
	struct object_table *t = &object_tables[kind];

	pthread_mutex_lock(&t->lock);
	give(t, o);
	pthread_mutex_unlock(&t->lock);
}

bool object_take_batch(enum object_kind kind, size_t size, struct object_chain *chain) {
	struct object_table *t = &object_tables[kind];
	struct object *o = NULL;

	pthread_mutex_lock(&t->lock);
	for (int i = 0; i < OBJECT_BATCH; i++) {
		o = take(t, size);
		if (!o)
			break;
		object_chain_push(chain, o);
	}
	pthread_mutex_unlock(&t->lock);
	return chain->count;
}

void object_give_batch(enum object_kind kind, struct object_chain *chain, uint32_t count) {
	struct object_table *t = &object_tables[kind];

	pthread_mutex_lock(&t->lock);
	for (; count && chain->first; count--)
		give(t, object_chain_pop(chain));
	pthread_mutex_unlock(&t->lock);
}

void object_before_fork(void) {
	for (int kind = 1; kind < OBJECT_KINDS; kind++)
		pthread_mutex_lock(&object_tables[kind].lock);
}

void object_after_fork(void) {
	for (int kind = 1; kind < OBJECT_KINDS; kind++)
		pthread_mutex_unlock(&object_tables[kind].lock);
}

/* ---- names ---- */

void *object_name_of(enum object_kind kind, const struct object *o) {
	uint64_t generation = atomic_load_explicit(&o->generation, memory_order_relaxed);
	uint64_t word = (uint64_t)kind << (32 + OBJECT_SLOT_BITS) | (uint64_t)o->slot << 32 | generation;

	return (void *)(uintptr_t)word; /* NOLINT(performance-no-int-to-ptr): nobody looks behind it */
}

void *object_name(enum object_kind kind, struct object *o) {
	uint32_t generation = atomic_load_explicit(&o->generation, memory_order_relaxed);

	atomic_store_explicit(&o->generation, generation + 1, memory_order_release);
	return object_name_of(kind, o);
}

/* A place, and the generation that ended there, as far as a word has room. */
static uint64_t ended_word(struct place p, uint32_t generation) {
	return (uint64_t)(uint16_t)generation << 48 | (uint64_t)p.file << 32 | p.line;
}

bool object_end(struct object *o, const void *name) {
	uint32_t generation = (uint32_t)(uintptr_t)name;

	if (!atomic_compare_exchange_strong_explicit(&o->generation, &generation, generation + 1, memory_order_acq_rel, memory_order_acquire))
		return false;
	atomic_store_explicit(&o->ended, ended_word(place_here(), generation), memory_order_relaxed);
	return true;
}

/* ---- refusing ---- */

/* NULL: the word is the name of nothing. */
static const char *kind_of(const void *name) {
	uint64_t kind = (uintptr_t)name >> (32 + OBJECT_SLOT_BITS);

	return kind && kind < OBJECT_KINDS && object_at((enum object_kind)kind, name) ? object_tables[kind].kind : NULL;
}

/* Was it a name once? Generations of names are odd, and the slot has come to that one. */
static bool has_ended(const struct object *o, const void *name) {
	uint32_t generation = (uint32_t)(uintptr_t)name;

	return o && generation % 2 && generation < atomic_load_explicit(&o->generation, memory_order_acquire);
}

/* Where it ended; file 0 where another one has been in its place, and has ended, since. */
static struct place ended_at(const struct object *o, const void *name) {
	uint32_t generation = (uint32_t)(uintptr_t)name;
	uint32_t since = atomic_load_explicit(&o->generation, memory_order_acquire) - generation;
	uint64_t word = atomic_load_explicit(&o->ended, memory_order_relaxed);

	if (since > UINT16_MAX || (uint16_t)(word >> 48) != (uint16_t)generation)
		return (struct place){ 0 };
	return (struct place){ .line = (uint32_t)word, .file = (uint16_t)(word >> 32) };
}

int object_refuse(enum object_kind kind, const void *name, const char *what, const char *argument, struct fault *f) {
	const struct object_table *t = &object_tables[kind];
	const struct object *o = object_at(kind, name);
	struct place place;
	char text[PLACE_TEXT];

	if (!name)
		return fault_set(f, FAULT_ARGUMENT, "%s: %s is NULL", what, argument);
	if (!o && kind_of(name))
		return fault_set(f, FAULT_ARGUMENT, "%s: %s is %s, not %s", what, argument, kind_of(name), t->kind);
	if (!has_ended(o, name))
		return fault_set(f, FAULT_ARGUMENT, "%s: %s is no handle of libfusion (0x%" PRIxPTR ")", what, argument, (uintptr_t)name);
	place = ended_at(o, name);
	if (place.file)
		return fault_set(f, FAULT_STATE, "%s: %s %s at %s", what, argument, t->ended, place_name(place, text));
	return fault_set(f, FAULT_STATE, "%s: %s %s before", what, argument, t->ended);
}

int object_report(enum object_kind kind, const void *name, const char *what, const char *argument) {
	struct fault f;

	if (!name && kind != OBJECT_CONTEXT && fusion_error_code())
		return fusion_error_code();
	return error_report(object_refuse(kind, name, what, argument, &f), &f);
}
