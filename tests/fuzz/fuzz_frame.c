/*
 * Frames as a client writes them: whatever the bytes are, reading them ends and allocates in proportion to them; an operation or a
 * type that was read is written and read again as the same. Behind a byte that begins no frame stand operations to be written, each with all its attributes.
 */
#include "fuzz.h"

#include "protocol/codec.h"
#include "tests/fuzz/program.h"

enum { NO_FRAME = 0xc1, DEPTH = 8 };

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

/* Every value as what it is; what it is not is refused with a sentence. */
static void read_any(struct wire_cursor c, unsigned depth) {
	bool more = true;

	while (more && c.left) {
		const char *text;
		const void *bytes;
		size_t size;
		struct wire_cursor inside = { .left = 0 };
		struct fault f = { 0 };
		uint64_t whole;
		int64_t number;
		bool yes;

		if (!wire_get_bool(&c, "bool", &yes, &f) || !wire_get_uint(&c, "uint", UINT64_MAX, &whole, &f) ||
			!wire_get_int(&c, "int", INT64_MIN, INT64_MAX, &number, &f) || !wire_get_text(&c, "text", 64, &text, &size, &f) ||
			!wire_get_bin(&c, "bin", 16, &bytes, &f))
			continue;
		claim(f.text[0], "no sentence");
		more = !wire_get_array(&c, "array", 1000, &inside, &f) || !wire_get_map(&c, "map", 1000, &inside, &f);
		if (more && depth)
			read_any(inside, depth - 1);
	}
}

static void write_op(struct fuzz_bytes *b) {
	struct coded_op o = { .op = fuzz_byte(b) };
	struct program p = { .in = b };
	struct wire_reader reader;
	struct wire_cursor c;
	struct wire_writer w;
	struct coded_op again = { 0 };
	struct fault f = { 0 };
	const struct op_info *info = op_info(o.op);

	if (!info || op_is_own(o.op))
		return;
	o.arity = (uint8_t)op_least(o.op);
	for (unsigned i = 0; i < o.arity; i++)
		o.in[i] = -1 - (int64_t)fuzz_whole(b, fuzz_byte(b) % 8);
	program_attr(&p, o.op, &o.attr);
	if (o.op == OP_load) {
		o.attr.arena = fuzz_byte(b);
		o.attr.offset = fuzz_whole(b, 8);
	}
	wire_writer_init(&w);
	wire_put_array(&w, 1);
	codec_put_op(&w, &o);
	claim(!wire_finish(&w) && !wire_open(&reader, w.buffer.data, w.buffer.size, &f), "%s: no frame: %s", info->name, f.text);
	c = wire_root(&reader);
	if (codec_get_op(&c, 0, &again, &f))
		claim(f.text[0], "no sentence");
	else
		check_again(&again, 0);
	wire_close(&reader);
	wire_writer_free(&w);
}

void fuzz_one(struct fuzz_bytes *b) {
	struct wire_reader reader;
	struct wire_cursor c;
	struct fault f = { 0 };

	if (fuzz_left(b) && *b->at == NO_FRAME) {
		for (b->at++; fuzz_left(b);)
			write_op(b);
		return;
	}
	if (wire_open(&reader, b->at, fuzz_left(b), &f))
		return;
	c = wire_root(&reader);
	read_ops(&c);
	read_values(&c);
	read_any(c, DEPTH);
	wire_close(&reader);
}
