/*
 * A machine that runs bytecode, for tests: kernels/interp.cl in C, on one work-item after the other.
 *
 * What it computes are no numbers but where they come from: a value is a hash of the operation, its types and the values of its
 * operands, so that two programs agree exactly if they do the same to the same elements. An operation's own arithmetic is
 * looked at elsewhere. Memory is the operands' arrays: each access is compared with where its operand may be read and
 * written, an element that was never written is none, and nothing of none is ever stored.
 *
 * Written from bytecode.h and interp.cl; it shares no code with the assembler but the list of instructions.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/emit/bytecode.h"
#include "daemon/emit/instructions.h"
#include "daemon/emit/writer.h"

enum {
	MACHINE_LANES = 256,
	MACHINE_SLOT = 8 * MACHINE_LANES,
	MACHINE_REGISTERS = 32,
	MACHINE_REGIONS = KERNEL_OPERANDS,
	MACHINE_STRIP = 64,
	/* Reads of whole vectors go so far beyond an array: LIMIT_ARENA_SLACK. */
	MACHINE_SLACK = 256,
	MACHINE_ERROR = 256,
};

/* A register file is at this address, operand i's memory at (i + 1) << MACHINE_FAR. */
#define MACHINE_FILE (UINT64_C(1) << 60)
#define MACHINE_FAR 44
#define MACHINE_NEVER INT64_MAX

/* None: nothing was written there. */
#define MACHINE_NONE UINT64_C(0)

static inline uint64_t machine_mix(uint64_t h, uint64_t x) {
	h = (h ^ x) * UINT64_C(0x9e3779b97f4a7c15);
	h ^= h >> 29;
	h *= UINT64_C(0xbf58476d1ce4e5b9);
	return h ^ h >> 32 ? h ^ h >> 32 : 1;
}

/* ---- what a value is: the same for bytecode, kernels and graphs ---- */

enum machine_tag { MACHINE_OP = 1, MACHINE_CAST, MACHINE_ROUND, MACHINE_NUMBER, MACHINE_COUNT };

static inline unsigned machine_register(unsigned dtype) {
	return (unsigned)dtype_info(dtype)->reg;
}

static inline uint64_t machine_op(unsigned op, unsigned reg, unsigned arity, const uint64_t *arg) {
	uint64_t h = machine_mix(machine_mix(MACHINE_OP, op), reg);

	for (unsigned i = 0; i < arity; i++) {
		if (arg[i] == MACHINE_NONE)
			return MACHINE_NONE;
		h = machine_mix(h, arg[i]);
	}
	return h;
}

static inline uint64_t machine_of(enum machine_tag tag, unsigned a, unsigned b, uint64_t value) {
	return value == MACHINE_NONE && (tag == MACHINE_CAST || tag == MACHINE_ROUND) ? MACHINE_NONE :
		machine_mix(machine_mix(machine_mix(tag, a), b), value);
}

static inline uint64_t machine_cast(unsigned to, unsigned from, uint64_t value) {
	return machine_of(MACHINE_CAST, to, machine_register(from), value);
}

static inline uint64_t machine_number(unsigned dtype, uint64_t value) {
	return machine_of(MACHINE_NUMBER, dtype, 0, value);
}

static inline uint64_t machine_count(int64_t value) {
	return machine_of(MACHINE_COUNT, 0, 0, (uint64_t)value);
}

/* An elementwise operation whose last operand is of `from` and whose result of dtype: 16-bit floats are rounded. */
static inline uint64_t machine_elementwise(unsigned op, unsigned dtype, unsigned from, unsigned arity, const uint64_t *arg) {
	uint64_t h = op == OP_cast ? machine_cast(dtype, from, arg[0]) : machine_op(op, machine_register(from), arity, arg);

	return op != OP_cast && *value_rounding(op, dtype) ? machine_of(MACHINE_ROUND, dtype, 0, h) : h;
}

/* ---- memory ---- */

struct machine_region {
	int64_t low, high;                 /* elements from its address that may be read and written; high < low: none */
	unsigned bytes;                    /* of an element */
	bool output;
	uint64_t *value;                   /* [0] is element 0, or low where that is below */
	int64_t from;                      /* ... its element */
};

struct machine_cell {
	uint64_t value;
	uint8_t bytes;
};

struct machine {
	const struct instruction_set *set;
	struct interpreter_shape shape;
	unsigned together;                 /* vectors that a chain computes at once */
	struct machine_region region[MACHINE_REGIONS];
	unsigned regions;
	const uint64_t *record;
	const uint64_t *number;            /* hashes of the record's scalars, by word */
	struct machine_cell file[MACHINE_REGISTERS * MACHINE_SLOT];
	uint64_t base[MACHINE_REGISTERS], place[KERNEL_OPERANDS];
	int64_t step[KERNEL_OPERANDS];
	unsigned rank, operands;
	int vectors, beside;
	int64_t at, count, onward, whole;
	uint64_t written;                  /* elements stored */
	char error[MACHINE_ERROR];
};

#define machine_fail(m, ...) ((m)->error[0] ? 0 : snprintf((m)->error, MACHINE_ERROR, __VA_ARGS__))

static inline struct machine_region *machine_find(struct machine *m, uint64_t address, int64_t *elementp, const char *what) {
	/* Offsets may be below an operand's beginning: addresses are in the middle of their range. */
	uint64_t which = (address + (UINT64_C(1) << (MACHINE_FAR - 1))) >> MACHINE_FAR;
	struct machine_region *r = which >= 1 && which <= m->regions ? &m->region[which - 1] : NULL;
	int64_t offset = (int64_t)(address - (which << MACHINE_FAR));

	if (!r || offset % (int64_t)r->bytes) {
		machine_fail(m, "%s at %llx, which is no element of any operand", what, (unsigned long long)address);
		return NULL;
	}
	*elementp = offset / (int64_t)r->bytes;
	return r;
}

/* `whole`: part of a vector that is read whole, which may go beyond the last element. */
static inline uint64_t machine_load(struct machine *m, uint64_t address, unsigned bytes, bool whole) {
	int64_t element;
	const struct machine_region *r = machine_find(m, address, &element, "a load");

	if (!r)
		return MACHINE_NONE;
	if (r->bytes != bytes)
		machine_fail(m, "a load of %u bytes of elements of %u", bytes, r->bytes);
	else if (element >= r->low && element <= r->high)
		return r->value[element - r->from];
	else if (!whole || element < r->low || (element - r->high) * (int64_t)bytes > MACHINE_SLACK)
		machine_fail(m, "a load of element %lld of operand %u, which has %lld to %lld", (long long)element, (unsigned)(r - m->region),
			(long long)r->low, (long long)r->high);
	return MACHINE_NONE;
}

static inline void machine_store(struct machine *m, uint64_t address, unsigned bytes, uint64_t value) {
	int64_t element;
	struct machine_region *r = machine_find(m, address, &element, "a store");

	if (!r)
		return;
	if (r->bytes != bytes || !r->output || element < r->low || element > r->high)
		machine_fail(m, "a store of %u bytes to element %lld of operand %u, which has %lld to %lld of %u%s", bytes, (long long)element,
			(unsigned)(r - m->region), (long long)r->low, (long long)r->high, r->bytes, r->output ? "" : " and is no output");
	else if (value == MACHINE_NONE)
		machine_fail(m, "element %lld of operand %u is of nothing that was written", (long long)element, (unsigned)(r - m->region));
	else {
		r->value[element - r->from] = value;
		m->written++;
	}
}

/* ---- registers ---- */

static inline void machine_put(struct machine *m, unsigned number, uint64_t offset, unsigned bytes, uint64_t value) {
	struct machine_cell *c;

	if (number >= m->shape.registers || offset + bytes > MACHINE_SLOT) {
		machine_fail(m, "register %u is written at byte %llu", number, (unsigned long long)offset);
		return;
	}
	c = &m->file[number * MACHINE_SLOT + offset];
	/* What overlaps is nothing any more. */
	for (uint64_t b = offset < 7 ? 0 : offset - 7; b < offset; b++)
		if (m->file[number * MACHINE_SLOT + b].bytes > offset - b)
			m->file[number * MACHINE_SLOT + b].bytes = 0;
	for (unsigned b = 0; b < bytes; b++)
		c[b].bytes = 0;
	*c = (struct machine_cell){ value, (uint8_t)bytes };
}

/* Where register `number` is read: in the file, or in memory. */
static inline uint64_t machine_get(struct machine *m, unsigned number, uint64_t offset, unsigned bytes, bool spare) {
	uint64_t address = number < m->shape.registers ? m->base[number] + offset : 0;
	const struct machine_cell *c;

	if (number >= m->shape.registers) {
		machine_fail(m, "register %u is read", number);
		return MACHINE_NONE;
	}
	if (address < MACHINE_FILE)
		return machine_load(m, address, bytes, false);
	if (address - MACHINE_FILE + bytes > (uint64_t)m->shape.registers * MACHINE_SLOT) {
		/* The last vectors of a block that four are computed of may be behind the file's. */
		if (!spare)
			machine_fail(m, "register %u is read beyond the file", number);
		return MACHINE_NONE;
	}
	c = &m->file[address - MACHINE_FILE];
	return c->bytes == bytes ? c->value : MACHINE_NONE;
}

/* ---- instructions ---- */

struct machine_fields {
	unsigned to, from[3], index;
};

static inline struct machine_fields machine_decode(uint64_t i) {
	return (struct machine_fields){ i >> 16 & 0xff, { i >> 24 & 0xff, i >> 32 & 0xff, i >> 40 & 0xff }, (unsigned)(i >> 48) };
}

static inline int64_t machine_stride(const struct machine *m, unsigned operand, unsigned d) {
	return (int64_t)m->record[m->operands + operand * (1 + m->rank) + 1 + d];
}

static inline int64_t machine_lane_stride(const struct machine *m, unsigned operand, unsigned access) {
	return access == 2 ? machine_stride(m, operand, m->rank - 1) : (int64_t)access;
}

static inline int machine_lanes(const struct machine *m, int j) {
	int64_t left = m->count - m->at - (int64_t)j * m->beside;

	return left < m->shape.width ? (int)left : m->shape.width;
}

static inline unsigned machine_bytes(unsigned dtype) {
	return dtype_info(dtype)->bytes;
}

/* LOAD, LOAD_UNIFORM, LOAD_STRIDED, SCALAR, COUNT. */
static inline void machine_read(struct machine *m, const struct instruction *i, struct machine_fields f) {
	unsigned bytes = machine_bytes(i->type), to = machine_bytes(machine_register(i->type));
	int64_t lane = i->kind == INSTRUCTION_LOAD ? 1 : i->kind == INSTRUCTION_LOAD_STRIDED ? machine_stride(m, f.index, m->rank - 1) : 0;
	uint64_t here = f.index < KERNEL_OPERANDS ? m->place[f.index] + (uint64_t)(m->at * lane * (int64_t)bytes) : 0;
	bool turned = i->kind == INSTRUCTION_LOAD_STRIDED && !m->beside && m->step[f.index] == (int64_t)bytes;
	int64_t step = f.index < KERNEL_OPERANDS ? m->step[f.index] : 0;    /* a SCALAR's index is a word of the record */
	int vectors = m->vectors;

	/* Vectors down the rows are read whole. */
	for (int j = 0; turned && j < (vectors + m->shape.width - 1) / m->shape.width * m->shape.width; j++)
		for (int l = 0; j >= vectors && l < machine_lanes(m, 0); l++)
			machine_load(m, here + (uint64_t)(j * step + l * lane * (int64_t)bytes), bytes, true);
	for (int j = 0; j < vectors && !m->error[0]; j++)
		for (int l = 0; l < m->shape.width; l++) {
			uint64_t value, address = here + (uint64_t)(j * step + l * lane * (int64_t)bytes);
			bool beyond = l >= machine_lanes(m, m->beside ? j : 0);

			if (i->kind == INSTRUCTION_SCALAR)
				value = m->number[f.index];
			else if (i->kind == INSTRUCTION_COUNT)
				value = machine_count((int64_t)m->place[f.index] + m->at * machine_lane_stride(m, f.index, f.from[1]) + j * step +
					l * machine_lane_stride(m, f.index, f.from[1]));
			else if (i->kind == INSTRUCTION_LOAD_STRIDED && beyond)
				value = MACHINE_NONE;
			else
				value = machine_load(m, address, bytes, i->kind == INSTRUCTION_LOAD && beyond);
			machine_put(m, f.to, (uint64_t)(j * m->shape.width + l) * to, to, value);
		}
}

static inline void machine_write(struct machine *m, const struct instruction *i, struct machine_fields f) {
	unsigned bytes = machine_bytes(i->type), from = machine_bytes(machine_register(i->type));
	bool uniform = i->kind == INSTRUCTION_STORE_UNIFORM;
	int64_t lane = uniform ? 0 : i->kind == INSTRUCTION_STORE_STRIDED ? machine_stride(m, f.index, m->rank - 1) : 1;
	uint64_t here = m->place[f.index] + (uint64_t)(m->at * lane * (int64_t)bytes);
	int vectors = uniform && m->beside ? 1 : m->vectors;

	for (int j = 0; j < vectors && !m->error[0]; j++)
		for (int l = 0; l < (uniform ? 1 : machine_lanes(m, j)); l++)
			machine_store(m, here + (uint64_t)(j * m->step[f.index] + l * lane * (int64_t)bytes), bytes,
				machine_get(m, f.from[0], (uint64_t)(j * m->shape.width + l) * from, from, false));
}

/* A vector at a time: a result may be written where an operand is read. */
static inline void machine_compute(struct machine *m, const struct instruction *i, struct machine_fields f) {
	unsigned arity = i->kind == INSTRUCTION_OPERATION ? op_info(i->op)->arity : 1;
	unsigned to = machine_bytes(i->kind == INSTRUCTION_OPERATION ? i->result : machine_register(i->type)), bytes[3];
	bool is_short = instruction_is_short(i);
	int vectors = is_short ? (m->vectors + 3) / 4 * 4 : m->vectors;

	for (unsigned n = 0; n < arity; n++)
		bytes[n] = machine_bytes(i->kind == INSTRUCTION_OPERATION ? (i->op == OP_where && !n ? DTYPE_u8 : i->type) :
			i->kind == INSTRUCTION_CAST ? i->from : DTYPE_f32);
	for (int j = 0; j < vectors && !m->error[0]; j++) {
		uint64_t result[64];

		for (int l = 0; l < m->shape.width; l++) {
			uint64_t arg[3] = { 0 };

			for (unsigned n = 0; n < arity; n++)
				arg[n] = machine_get(m, f.from[n], (uint64_t)(j * m->shape.width + l) * bytes[n], bytes[n], j >= m->vectors);
			result[l] = i->kind == INSTRUCTION_OPERATION ? machine_op(i->op, i->type, arity, arg) :
				i->kind == INSTRUCTION_CAST ? machine_of(MACHINE_CAST, i->type, i->from, arg[0]) : machine_of(MACHINE_ROUND, i->type, 0, arg[0]);
		}
		for (int l = 0; l < m->shape.width; l++)
			machine_put(m, f.to, (uint64_t)(j * m->shape.width + l) * to, to, result[l]);
	}
}

/* ---- chains ---- */

static inline bool machine_is_whole(const struct machine *m) {
	return m->count - m->at >= m->whole;
}

static inline uint64_t machine_link(struct machine *m, const struct instruction *i, struct machine_fields f, uint64_t acc, uint64_t offset, bool spare) {
	uint64_t arg[2] = { acc, acc };

	if (i->from == LINK_BEFORE)
		arg[1] = machine_get(m, f.from[0], offset, 4, spare);
	else if (i->from == LINK_BEHIND)
		arg[0] = machine_get(m, f.from[0], offset, 4, spare);
	return machine_op(i->op, DTYPE_f32, i->from == LINK_UNARY ? 1 : 2, arg);
}

/* From vector `from` on, as many as are computed at once; where the chain ends. */
static inline const uint64_t *machine_chain_part(struct machine *m, const uint64_t *code, struct machine_fields f, int from) {
	unsigned lanes = m->together * m->shape.width;
	uint64_t acc[16 * 64], first = (uint64_t)from * m->shape.width * 4;

	for (unsigned l = 0; l < lanes; l++)
		acc[l] = machine_get(m, f.from[0], first + 4 * l, 4, from + (int)(l / m->shape.width) >= m->vectors);
	while (!m->error[0]) {
		uint64_t word = *code++;
		const struct instruction *i = &m->set->row[word & 0xffff];
		bool writes = i->kind == INSTRUCTION_WRITE || i->kind == INSTRUCTION_STREAM;

		f = machine_decode(word);
		if ((word & 0xffff) >= m->set->count || !instruction_is_link(i)) {
			machine_fail(m, "a chain holds an instruction that is no link");
			return NULL;
		}
		for (unsigned l = 0; i->kind == INSTRUCTION_LINK && l < lanes; l++)
			acc[l] = machine_link(m, i, f, acc[l], first + 4 * l, from + (int)(l / m->shape.width) >= m->vectors);
		/* Whether a stream is aligned the machine does not know: at every other block. */
		if (writes && machine_is_whole(m) && (i->kind == INSTRUCTION_WRITE || (m->at / MACHINE_LANES) % 2 == 0)) {
			for (unsigned l = 0; l < lanes; l++)
				machine_store(m, m->place[f.index] + (uint64_t)(m->at + from * m->shape.width + (int)l) * 4, 4, acc[l]);
			return code + 1;
		}
		if (i->kind == INSTRUCTION_LINK)
			continue;
		for (unsigned l = 0; l < lanes && first + 4 * l < MACHINE_SLOT; l++)
			machine_put(m, f.to, first + 4 * l, 4, acc[l]);
		if (i->kind != INSTRUCTION_KEEP)
			return code;
	}
	return NULL;
}

static inline const uint64_t *machine_chain(struct machine *m, const uint64_t *code, struct machine_fields f) {
	const uint64_t *end = code;
	int from = 0;

	do {
		end = machine_chain_part(m, code, f, from);
		from += (int)m->together;
	} while (end && m->together < m->shape.vectors && from < m->vectors);
	return end;
}

/* ---- an item ---- */

static inline int64_t machine_take(uint64_t *rest, uint64_t n) {
	int64_t at = n ? (int64_t)(*rest % n) : 0;

	*rest = n ? *rest / n : *rest;
	return at;
}

static inline int64_t machine_least(int64_t a, int64_t b) {
	return a < b ? a : b;
}

static inline void machine_item(struct machine *m, const uint64_t *code, const uint64_t *last, uint64_t item) {
	const uint64_t *r = m->record, *unit_code = NULL, *block_code = NULL;
	uint64_t first = r[KERNEL_WORD_BEGIN] + item * r[KERNEL_WORD_UNITS_PER_ITEM], unit = first, rows = 1, index[LIMIT_RANK] = { 0 };
	uint64_t end = first + r[KERNEL_WORD_UNITS_PER_ITEM] < r[KERNEL_WORD_UNITS] ? first + r[KERNEL_WORD_UNITS_PER_ITEM] : r[KERNEL_WORD_UNITS];
	int64_t length = (int64_t)r[KERNEL_WORD_EXTENT], width = length, strip = 0, left = 0;
	unsigned rank = m->rank = (unsigned)*code++;
	int vectors = m->shape.vectors;
	bool tile = false;

	m->operands = KERNEL_WORD_DIMS + rank;
	m->vectors = vectors;
	m->beside = m->shape.width;
	m->at = m->count = 0;
	m->onward = m->whole = MACHINE_LANES;
	memset(m->file, 0, sizeof m->file);
	for (unsigned n = 0; n < m->shape.registers; n++)
		m->base[n] = MACHINE_FILE + n * MACHINE_SLOT;
	if (unit >= end)
		return;
	for (uint64_t steps = 0; !m->error[0]; steps++) {
		uint64_t word = code < last ? *code++ : UINT64_MAX, rest;
		const struct instruction *i = &m->set->row[word & 0xffff];
		struct machine_fields f = machine_decode(word);
		int64_t row, piece, lane, bytes, position;

		if (word == UINT64_MAX || (word & 0xffff) >= m->set->count) {
			machine_fail(m, "no instruction is at word %lld", (long long)(code - last));
			return;
		}
		switch (i->kind) {
		case INSTRUCTION_ACROSS:
			if (llabs(machine_stride(m, f.index, rank - 2)) >= llabs(machine_stride(m, f.index, rank - 1)))
				break;
			tile = r[KERNEL_WORD_DIMS + rank - 2] >= (uint64_t)vectors / 2;
			width = tile ? length : MACHINE_STRIP;
			if (tile) {
				m->beside = 0;
				m->onward = m->shape.width;
				m->whole = MACHINE_NEVER;
			}
			break;
		case INSTRUCTION_UNIT:
			if (unit_code)
				unit += rows;
			unit_code = code - 1;
			if (unit >= end) {
				strip += width;
				unit = first;
			}
			if (strip >= length)
				return;
			rest = unit;
			row = tile ? machine_take(&rest, r[KERNEL_WORD_DIMS + rank - 2]) : 0;
			piece = rank ? machine_take(&rest, r[KERNEL_WORD_PIECES]) : 0;
			for (unsigned d = tile ? rank - 2 : rank - 1; rank && d-- > 0;)
				index[d] = (uint64_t)machine_take(&rest, r[KERNEL_WORD_DIMS + d]);
			if (tile) {
				index[rank - 2] = (uint64_t)row;
				rows = (uint64_t)machine_least(machine_least(vectors - row % vectors, (int64_t)r[KERNEL_WORD_DIMS + rank - 2] - row), (int64_t)(end - unit));
			}
			left = piece * length + strip;
			m->count = rank ? machine_least((int64_t)r[KERNEL_WORD_DIMS + rank - 1] - left, machine_least(length - strip, width)) : 1;
			m->vectors = tile ? (int)rows : vectors;
			break;
		case INSTRUCTION_PLACE:
			bytes = f.from[0] ? f.from[0] : 1;
			lane = rank ? machine_lane_stride(m, f.index, f.from[1]) : 0;
			position = left * lane;
			for (unsigned d = 0; d + 1 < rank; d++)
				position += (int64_t)index[d] * machine_stride(m, f.index, d);
			m->place[f.index] = r[m->operands + f.index * (1 + rank)] + (uint64_t)(position * bytes);
			m->step[f.index] = bytes * (tile ? machine_stride(m, f.index, rank - 2) : m->shape.width * lane);
			break;
		case INSTRUCTION_BLOCKS:
			m->at = 0;
			block_code = code;
			if (m->count <= 0)
				code = unit_code;
			if (!tile)
				m->vectors = (int)machine_least((m->count - m->at + m->shape.width - 1) / m->shape.width, vectors);
			break;
		case INSTRUCTION_NEXT:
			m->at += m->onward;
			code = m->at < m->count ? block_code : unit_code;
			if (!tile)
				m->vectors = (int)machine_least((m->count - m->at + m->shape.width - 1) / m->shape.width, vectors);
			break;
		case INSTRUCTION_REACH:
			m->base[f.to] = machine_is_whole(m) ? m->place[f.index] + (uint64_t)m->at * f.from[0] : MACHINE_FILE + f.to * MACHINE_SLOT;
			code += machine_is_whole(m);
			break;
		case INSTRUCTION_CHAIN:
			code = machine_chain(m, code, f);
			break;
		case INSTRUCTION_LOAD:
		case INSTRUCTION_LOAD_UNIFORM:
		case INSTRUCTION_LOAD_STRIDED:
		case INSTRUCTION_SCALAR:
		case INSTRUCTION_COUNT:
			machine_read(m, i, f);
			break;
		case INSTRUCTION_STORE:
		case INSTRUCTION_STORE_UNIFORM:
		case INSTRUCTION_STORE_STRIDED:
		case INSTRUCTION_STREAM_STORE:
			machine_write(m, i, f);
			break;
		case INSTRUCTION_ROUND:
		case INSTRUCTION_CAST:
		case INSTRUCTION_OPERATION:
			machine_compute(m, i, f);
			break;
		default:
			machine_fail(m, "a link stands outside a chain");
		}
		if (steps > UINT64_C(1) << 32)
			machine_fail(m, "it does not end");
	}
}

/* All items of a task: m's regions, record and numbers are the caller's. */
static inline void machine_run(struct machine *m, const struct bytecode *b) {
	for (uint64_t item = 0; item < m->record[KERNEL_WORD_ITEMS] && !m->error[0]; item++)
		machine_item(m, b->word, b->word + b->words, item);
}
