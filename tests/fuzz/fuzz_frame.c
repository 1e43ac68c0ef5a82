/*
 * Frames as a client writes them: whatever the bytes are, reading them ends and allocates in proportion to them; an operation or a
 * type that was read is written and read again as the same.
 */
#include "fuzz.h"

#include "protocol/codec.h"

static void check_again(const struct coded_op *op, uint32_t position) {
	struct wire_reader reader;
	struct wire_cursor c;
	struct wire_writer w;
	struct coded_op again = { 0 };
	struct fault f = { 0 };

	wire_writer_init(&w);
	wire_put_array(&w, 1);
	codec_put_op(&w, op);
	claim(!wire_finish(&w), "no memory");
	claim(!wire_open(&reader, w.buffer.data, w.buffer.size, &f), "%s: no frame: %s", op_info(op->op)->name, f.text);
	c = wire_root(&reader);
	claim(!codec_get_op(&c, position, &again, &f), "%s: not read again: %s", op_info(op->op)->name, f.text);
	claim(!memcmp(&again, op, sizeof again), "%s: read again as another", op_info(op->op)->name);
	wire_close(&reader);
	wire_writer_free(&w);
}

static void read_ops(struct wire_cursor *c) {
	struct wire_cursor ops = *c;
	struct fault f = { 0 };
	int r = 0;

	for (uint32_t at = 0; !r && ops.left && at < LIMIT_BATCH_OPS; at++) {
		struct coded_op op = { 0 };

		r = codec_get_op(&ops, at, &op, &f);
		claim(!r || f.text[0], "no sentence");
		claim(r || op.arity <= LIMIT_OPERANDS, "an arity of %u", op.arity);
		if (!r)
			check_again(&op, at);
	}
}

static void read_values(struct wire_cursor *c) {
	struct tensor_type t = { 0 };
	struct wire_cursor types = *c, lists = *c, inside;
	struct fault f = { 0 };

	if (!codec_get_type(&types, &t, &f))
		claim(t.rank <= LIMIT_RANK && t.dtype < DTYPE_COUNT, "a type that there is not");
	while (lists.left && !wire_get_array(&lists, "list", LIMIT_FRAME_BYTES, &inside, &f))
		read_ops(&inside);
}

void fuzz_one(struct fuzz_bytes *b) {
	struct wire_reader reader;
	struct wire_cursor c;
	struct fault f = { 0 };

	if (wire_open(&reader, b->at, fuzz_left(b), &f))
		return;
	c = wire_root(&reader);
	read_ops(&c);
	read_values(&c);
	wire_close(&reader);
}
