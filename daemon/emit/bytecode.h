/*
 * Bytecode: elementwise kernels as data, for interpreters that are built once.
 *
 * An interpreter (interpreter.c) is one program that runs any kernel of root MAP made of the instructions of its
 * dialect, with the functions that the kernel's own program would call, and so to the same bits. plan
 * knows nothing of it: bytecode is made from the same struct kernel as OpenCL C, and reads the same task record.
 *
 * As a kernel, an interpreter is `struct kernel` of root KERNEL_INTERPRETER, whose op is the dialect. Its
 * launch has, where records would begin, a word a task: where the task's record is, in words from there on, and
 * << 32 where its code is. Several tasks may name one piece of code, and tasks of one launch different ones.
 *
 * The record is that of the kernel (kernel.h) with the words of bytecode_geometry(). The code is a word with
 * the kernel's rank, then instructions of a word each:
 *
 *   bits 0-15 which (a number in struct instruction_set), 16-23 the register it writes, 24-31, 32-39, 40-47
 *   the registers it reads, 48-63 an operand or a word of the record
 *
 * (of what a chain is, interp.cl tells) in three parts, each run more often than the one before: once a task, once a
 * piece of a row (from UNIT on), once a block of it (from BLOCKS on, up to NEXT). Where an operand lies across the rows, a
 * piece is of several rows and a block a tile of them; the code is the same, since that is found when it runs.
 */
#pragma once

#include "daemon/base/traits.h"
#include "daemon/emit/emit.h"
#include "daemon/plan/kernel.h"

enum dialect {
#define DIALECT(name, ...) DIALECT_##name,
#include "dialects.def"
#undef DIALECT
	DIALECTS,
};

enum {
	/* Up to four a value, which may be a chain of its own or have to be rounded; up to five an operand; and what steers. */
	BYTECODE_WORDS = 4 * KERNEL_VALUES + 5 * KERNEL_OPERANDS + 8,
};

struct bytecode {
	enum dialect dialect;
	uint32_t words;
	uint64_t word[BYTECODE_WORDS];
};

/* The kernel in one dialect: NULL, or why there is no such code, a constant text. */
const char *bytecode_assemble(const struct kernel *k, const struct traits *t, enum dialect dialect, struct bytecode *b)
	FAULT_MUST_USE;
/* The same in the first dialect that has it. */
const char *bytecode_make(const struct kernel *k, const struct traits *t, struct bytecode *b) FAULT_MUST_USE;

/* How an interpreter cuts a task of this kernel: writes the words before KERNEL_WORD_DIMS. */
struct emit_launch bytecode_geometry(const struct kernel *k, const struct traits *t, const int64_t *dims, uint64_t *record);

/* The word of a task in a launch. */
static inline uint64_t bytecode_task(uint64_t record, uint64_t code) {
	return record | code << 32;
}

/* Is a dialect one for this device: does it have its types? */
bool bytecode_dialect_serves(enum dialect dialect, const struct traits *t);
/* The interpreter of a dialect. */
void bytecode_interpreter(enum dialect dialect, const struct traits *t, struct kernel *k);
