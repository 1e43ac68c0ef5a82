/*
 * The instructions of a dialect, as the interpreter's text has cases for them and the assembler looks for them:
 * all is derived from the tables of operations and types, so that an operation that is new is there, too.
 */
#pragma once

#include "daemon/base/traits.h"
#include "daemon/emit/bytecode.h"

enum instruction_kind {
	/* What steers. */
	INSTRUCTION_ACROSS,            /* operand: rows are walked in tiles, or narrow strips, where it lies across them */
	INSTRUCTION_UNIT,
	INSTRUCTION_PLACE,             /* operand: where its piece begins */
	INSTRUCTION_BLOCKS,
	INSTRUCTION_NEXT,
	INSTRUCTION_REACH,             /* operand: is read in place, and the next instruction, which loads it, skipped, where a block is whole */
	INSTRUCTION_CHAIN,             /* opens a chain; there are such, and links, on CPUs alone */
	/* Links: of a chain. */
	INSTRUCTION_KEEP,
	INSTRUCTION_END,
	INSTRUCTION_WRITE,
	INSTRUCTION_STREAM,
	INSTRUCTION_LINK,              /* an operation, in one of the forms of enum link */
	/* Between memory and registers: of an element type. */
	INSTRUCTION_LOAD,
	INSTRUCTION_LOAD_UNIFORM,
	INSTRUCTION_LOAD_STRIDED,
	INSTRUCTION_SCALAR,
	INSTRUCTION_COUNT,
	INSTRUCTION_STORE,
	INSTRUCTION_STORE_UNIFORM,
	INSTRUCTION_STORE_STRIDED,
	INSTRUCTION_STREAM_STORE,
	/* Of registers. */
	INSTRUCTION_ROUND,             /* to a 16-bit type */
	INSTRUCTION_CAST,              /* to a type, from a register's */
	INSTRUCTION_OPERATION,         /* on registers of a type, which a comparison's result is not of */
};

/* What the operands of a link are, in order: the chain's value, or a register. */
enum link { LINK_UNARY, LINK_BEFORE, LINK_BEHIND, LINK_TWICE };

struct instruction {
	uint8_t kind;                  /* enum instruction_kind */
	uint8_t type;                  /* OPERATION: a register type, of the last operand */
	uint8_t from;                  /* CAST: a register type; LINK: enum link */
	uint8_t result;                /* OPERATION: a register type */
	uint16_t op;
};

enum {
	INSTRUCTIONS = 1024,
	INSTRUCTION_PLACE_BITS = 11,   /* twice as many places as instructions: a look for one ends soon */
	INSTRUCTION_PLACES = 1 << INSTRUCTION_PLACE_BITS,
};

struct instruction_set {
	bool chains;                   /* of short operations, and operands read in place */
	unsigned count;
	struct instruction row[INSTRUCTIONS];
	uint16_t place[INSTRUCTION_PLACES];    /* by what they are: a row's number and 1 */
};

/* Listed once in a process. Instructions that the device does not compute are left out. From any thread. */
const struct instruction_set *instructions_of(enum dialect dialect, const struct traits *t);
/* The number of an instruction, or -1. Members that its kind does not have are 0, the result of an operation, too. */
int instruction_find(const struct instruction_set *s, const struct instruction *i);
/* Is it part of a chain? */
static inline bool instruction_is_link(const struct instruction *i) {
	return i->kind >= INSTRUCTION_KEEP && i->kind <= INSTRUCTION_LINK;
}
/* Does an operation take no longer than the loop around it? Of floats, which matter most. */
bool instruction_is_short(const struct instruction *i);
/* Does the dialect hold this element type at all? */
bool instruction_dialect_has(enum dialect dialect, unsigned type);
/* ... with all its operations? */
bool instruction_dialect_is_whole(enum dialect dialect, unsigned type);

/* What an interpreter is made for: registers of an item, items of a group, vectors of a block. */
struct interpreter_shape {
	uint8_t registers, width, vectors;
	uint32_t group;
};
struct interpreter_shape interpreter_shape(const struct traits *t);
/* Appends the source of the interpreter. 0 or -ENOMEM. */
int interpreter_source(enum dialect dialect, const struct traits *t, struct str *source) FAULT_MUST_USE;
