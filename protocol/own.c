/*
 * Rows of own operations; see own.h.
 *
 * A table by number, whose entries are set once by whoever comes first: two contexts of a client may
 * learn of the same operation at the same time.
 */
#include "own.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const struct op_info *rows[OP_OWN_COUNT];
static uint8_t states[OP_OWN_COUNT];

const struct op_info *own_info(unsigned op) {
	return op_is_own(op) ? __atomic_load_n(&rows[op - OP_OWN_FIRST], __ATOMIC_ACQUIRE) : NULL;
}

enum own_state own_state(unsigned op) {
	return op_is_own(op) ? (enum own_state)__atomic_load_n(&states[op - OP_OWN_FIRST], __ATOMIC_ACQUIRE) : OWN_WAITS;
}

void own_set_state(unsigned op, enum own_state state) {
	if (op_is_own(op))
		__atomic_store_n(&states[op - OP_OWN_FIRST], (uint8_t)state, __ATOMIC_RELEASE);
}

/* ---- one row ---- */

static void row_free(struct op_info *row) {
	free((void *)(uintptr_t)row->name);
	free((void *)(uintptr_t)row->operands);
	for (unsigned i = 0; i < OWN_OPERANDS; i++)
		free((void *)(uintptr_t)row->gradient[i]);
	for (unsigned i = 0; i <= DTYPE_KIND_REAL; i++)
		free((void *)(uintptr_t)row->body[i]);
	free(row);
}

static bool copy_text(const char **copyp, const char *text) {
	*copyp = text ? strdup(text) : NULL;
	return !text || *copyp;
}

static struct op_info *row_new(const struct own_facts *f, uint64_t identity) {
	static const enum op_class classes[] = { OP_CLASS_NONE, OP_CLASS_UNARY, OP_CLASS_BINARY, OP_CLASS_TERNARY };
	struct op_info *row = calloc(1, sizeof *row);
	bool whole;

	if (!row)
		return NULL;
	row->class = classes[f->arity];
	row->arity = row->least = (uint8_t)f->arity;
	row->types = f->types;
	row->result = f->result;
	row->inexact = f->inexact;
	row->one_shape = f->one_shape;
	row->identity = identity;
	whole = copy_text(&row->name, f->name) && copy_text(&row->operands, f->operands);
	for (unsigned i = 0; whole && i < OWN_OPERANDS; i++)
		whole = copy_text(&row->gradient[i], f->gradient[i]);
	for (unsigned i = 0; whole && i <= DTYPE_KIND_REAL; i++)
		whole = copy_text(&row->body[i], f->body[i]);
	if (whole)
		return row;
	row_free(row);
	return NULL;
}

/* ---- identities ---- */

/* FNV-1a, over the bytes and a mark of their end. */
static uint64_t hash(uint64_t h, const void *bytes, size_t size) {
	for (size_t i = 0; i < size; i++)
		h = (h ^ ((const unsigned char *)bytes)[i]) * UINT64_C(0x100000001b3);
	return (h ^ 0x1ff) * UINT64_C(0x100000001b3);
}

static uint64_t hash_text(uint64_t h, const char *text) {
	return text ? hash(h, text, strlen(text)) : hash(h, "\xff", 1);
}

static uint64_t identity_of(const struct own_facts *f) {
	const unsigned char numbers[] = { (unsigned char)f->arity, (unsigned char)f->types, (unsigned char)f->result,
		f->inexact, f->one_shape };
	uint64_t h = hash(UINT64_C(0xcbf29ce484222325), numbers, sizeof numbers);

	h = hash_text(hash_text(h, f->name), f->operands);
	for (unsigned i = 0; i < OWN_OPERANDS; i++)
		h = hash_text(h, f->gradient[i]);
	for (unsigned i = 0; i <= DTYPE_KIND_REAL; i++)
		h = hash_text(h, f->body[i]);
	return h;
}

/* ---- the table ---- */

/* Sets an entry that is empty; true where it is of this identity afterwards. */
static bool place(unsigned at, struct op_info *row, uint64_t identity) {
	const struct op_info *there = NULL;

	if (__atomic_compare_exchange_n(&rows[at], &there, row, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return true;
	if (there->identity != identity)
		return false;
	row_free(row);
	return true;
}

/* From the place that the identity says on; a process that meets the same operations finds most at the same numbers. */
static int find_place(const struct own_facts *facts, uint64_t identity, unsigned *opp, struct fault *f) {
	struct op_info *row = row_new(facts, identity);

	if (!row)
		return -ENOMEM;
	for (unsigned i = 0; i < OP_OWN_COUNT; i++) {
		unsigned at = (unsigned)((identity >> 32) + i) % OP_OWN_COUNT;

		if (place(at, row, identity)) {
			*opp = OP_OWN_FIRST + at;
			return 0;
		}
	}
	row_free(row);
	return fault_set(f, FAULT_LIMIT, "%s: this process has met %d operations with bodies already, and keeps them while it "
		"runs; it must be started again", facts->name, OP_OWN_COUNT);
}

int own_add(const struct own_facts *facts, unsigned *opp, struct fault *f) {
	return find_place(facts, identity_of(facts), opp, f);
}

int own_take(uint64_t identity, const struct own_facts *facts, unsigned *opp, struct fault *f) {
	int r = find_place(facts, identity, opp, f);

	if (!r)
		own_set_state(*opp, OWN_CALLABLE);
	return r;
}
