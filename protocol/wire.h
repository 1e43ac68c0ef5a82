/*
 * msgpack, written and read with suspicion.
 *
 * A writer appends to one growing buffer; the first failure sticks and wire_finish() reports it. What is small has room in the writer itself, so
 * that short packets, such as the end of a session, need no memory.
 *
 * A reader is opened on untrusted bytes. Before msgpack-c allocates anything, wire_open() scans
 * the frame and refuses it where it nests deeper than LIMIT_WIRE_DEPTH, claims more elements than
 * bytes are left, holds more than LIMIT_WIRE_VALUES, is longer than LIMIT_FRAME_BYTES or has bytes
 * after its end; extension types are refused too. Then a cursor walks the values; each get checks
 * type and range and leaves a fault that names the field.
 * Texts and bins point into the frame, which must outlive the reader; texts are not terminated and
 * contain no zero byte.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <msgpack.h>

#include "fault.h"

enum {
	/* Nearly all packets of the control socket are shorter; who writes has it on his stack. */
	WIRE_SMALL = 256,
};

struct wire_buffer {
	size_t size, room;
	char *data;              /* `small`, or allocated */
	char small[WIRE_SMALL];
};

struct wire_writer {
	struct wire_buffer buffer;
	msgpack_packer packer;
	bool failed;
};

void wire_writer_init(struct wire_writer *w);
void wire_writer_clear(struct wire_writer *w);        /* empties, keeps the memory */
void wire_writer_free(struct wire_writer *w);
void wire_put_array(struct wire_writer *w, uint32_t count);
void wire_put_map(struct wire_writer *w, uint32_t count);
void wire_put_uint(struct wire_writer *w, uint64_t value);
void wire_put_int(struct wire_writer *w, int64_t value);
void wire_put_bool(struct wire_writer *w, bool value);
void wire_put_text(struct wire_writer *w, const char *text);
void wire_put_bin(struct wire_writer *w, const void *bytes, size_t size);
/* Appends bytes that are msgpack already, such as an operation list written elsewhere. */
void wire_put_raw(struct wire_writer *w, const void *bytes, size_t size);
/* Writes [0, code, sentence]. */
void wire_put_fault(struct wire_writer *w, const struct fault *f);
/* 0, or -ENOMEM where any put failed. The bytes are w->buffer.data, .size. */
int wire_finish(const struct wire_writer *w) FAULT_MUST_USE;

/* Memory that frames are read into one after another; zero it before the first use. */
struct wire_memory {
	msgpack_zone *zone;
	bool taken;              /* by a reader */
};

void wire_memory_free(struct wire_memory *m);

struct wire_reader {
	msgpack_zone *zone;
	struct wire_memory *memory;  /* the zone is this one's; NULL: the reader's own */
	msgpack_object root;
};

/* A position inside an array (or among the pairs of a map). */
struct wire_cursor {
	const msgpack_object *next;
	uint32_t left;
};

/* 0, FAULT_PROTOCOL, or -ENOMEM. On success the reader must be closed. The root must be an array. */
int wire_open(struct wire_reader *r, const void *bytes, size_t size, struct fault *f) FAULT_MUST_USE;
/* The same in memory that stays, where no other reader has it; else in memory of its own. */
int wire_open_in(struct wire_reader *r, struct wire_memory *m, const void *bytes, size_t size, struct fault *f)
	FAULT_MUST_USE;
void wire_close(struct wire_reader *r);
struct wire_cursor wire_root(const struct wire_reader *r);

/* Each reads the next value of the cursor: 0, or FAULT_PROTOCOL with `field` in the sentence. */
int wire_get_uint(struct wire_cursor *c, const char *field, uint64_t max, uint64_t *valuep, struct fault *f) FAULT_MUST_USE;
int wire_get_int(struct wire_cursor *c, const char *field, int64_t min, int64_t max, int64_t *valuep, struct fault *f) FAULT_MUST_USE;
int wire_get_bool(struct wire_cursor *c, const char *field, bool *valuep, struct fault *f) FAULT_MUST_USE;
int wire_get_text(struct wire_cursor *c, const char *field, size_t max, const char **textp, size_t *sizep, struct fault *f) FAULT_MUST_USE;
/* The same into memory of so many bytes, with a zero byte behind it. */
int wire_copy_text(struct wire_cursor *c, const char *field, char *text, size_t room, struct fault *f) FAULT_MUST_USE;
int wire_get_bin(struct wire_cursor *c, const char *field, size_t size, const void **bytesp, struct fault *f) FAULT_MUST_USE;
/* Enters an array of at most max elements; *insidep->left is its length. */
int wire_get_array(struct wire_cursor *c, const char *field, uint32_t max, struct wire_cursor *insidep, struct fault *f) FAULT_MUST_USE;
/* Enters a map of at most max pairs: `left` counts keys and values together. */
int wire_get_map(struct wire_cursor *c, const char *field, uint32_t max, struct wire_cursor *insidep, struct fault *f) FAULT_MUST_USE;
/* Refuses what is left over. */
int wire_get_end(struct wire_cursor *c, const char *what, struct fault *f) FAULT_MUST_USE;
