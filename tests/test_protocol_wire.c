/*
 * The reader of frames against bytes made by hand, by the writer, and by chance. Frames are kept
 * in blocks of exactly their size, so that the address sanitizer sees a read past the end.
 */
#include "protocol/wire.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "tests/test_protocol.h"

/* Opens a copy of the bytes in memory of its own. */
static int open_copy(const void *bytes, size_t size, struct fault *f) {
	struct wire_reader r;
	void *copy = malloc(size ? size : 1);
	int code;

	ck_assert_ptr_nonnull(copy);
	memcpy(copy, bytes, size);
	code = wire_open(&r, copy, size, f);
	if (!code)
		wire_close(&r);
	free(copy);
	return code;
}

#define REFUSED(sentence, ...)                                                                               \
	do {                                                                                                 \
		const uint8_t bytes_[] = { __VA_ARGS__ };                                                    \
		struct fault fault_ = { 0 };                                                                 \
                                                                                                             \
		ck_assert_int_eq(open_copy(bytes_, sizeof bytes_, &fault_), FAULT_PROTOCOL);                 \
		ck_assert_str_eq(fault_.text, sentence);                                                     \
	} while (0)

/* A frame with a value of every kind. */
static void write_sample(struct wire_writer *w) {
	static const uint8_t secret[LIMIT_SECRET_BYTES] = { 1, 2, 3, 0, 255 };

	wire_put_array(w, 9);
	wire_put_uint(w, UINT64_MAX);
	wire_put_int(w, INT64_MIN);
	wire_put_int(w, -5);
	wire_put_bool(w, true);
	wire_put_text(w, "device");
	wire_put_bin(w, secret, sizeof secret);
	wire_put_map(w, 2);
	wire_put_text(w, "fusion.enabled");
	wire_put_text(w, "1");
	wire_put_text(w, "a name so long that its length needs a byte of its own");
	wire_put_text(w, "");
	wire_put_array(w, 20);
	for (int i = 0; i < 20; i++)
		wire_put_int(w, i * 7000);
	wire_put_array(w, 0);
	ck_assert_int_eq(wire_finish(w), 0);
}

/* Of `count` numbers each, beside another reader; the last is longer than what stays. */
START_TEST(frames_are_read_in_memory_that_stays) {
	static const uint32_t counts[] = { 3, 100, 1000 };
	struct wire_memory memory = { .zone = NULL };
	struct wire_reader outer, inner;
	struct wire_writer w;
	struct wire_cursor c;
	struct fault f;
	uint64_t u;

	wire_writer_init(&w);
	for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
		wire_writer_clear(&w);
		wire_put_array(&w, counts[k]);
		for (uint32_t i = 0; i < counts[k]; i++)
			wire_put_uint(&w, i);
		ck_assert_int_eq(wire_open_in(&outer, &memory, w.buffer.data, w.buffer.size, &f), 0);
		ck_assert_int_eq(memory.taken, counts[k] < 1000);
		ck_assert_int_eq(wire_open_in(&inner, &memory, w.buffer.data, w.buffer.size, &f), 0);
		ck_assert_ptr_ne(inner.zone, outer.zone);
		wire_close(&inner);
		c = wire_root(&outer);
		for (uint32_t i = 0; i < counts[k]; i++)
			if (wire_get_uint(&c, "u", UINT64_MAX, &u, &f) || u != i)
				ck_abort_msg("number %u is another", i);
		wire_close(&outer);
		ck_assert(!memory.taken);
	}
	/* What does not read leaves it free. */
	ck_assert_int_eq(wire_open_in(&outer, &memory, "\x01", 1, &f), FAULT_PROTOCOL);
	ck_assert(!memory.taken);
	wire_memory_free(&memory);
	wire_writer_free(&w);
}
END_TEST

START_TEST(what_is_written_is_read_back) {
	struct wire_cursor c, in;
	struct wire_writer w;
	struct wire_reader r;
	struct fault f;
	const char *text;
	const void *bin;
	uint64_t u;
	int64_t i;
	size_t n;
	bool b;

	wire_writer_init(&w);
	write_sample(&w);
	ck_assert_int_eq(wire_open(&r, w.buffer.data, w.buffer.size, &f), 0);
	c = wire_root(&r);
	ck_assert_uint_eq(c.left, 9);
	ck_assert_int_eq(wire_get_uint(&c, "u", UINT64_MAX, &u, &f), 0);
	ck_assert_uint_eq(u, UINT64_MAX);
	ck_assert_int_eq(wire_get_int(&c, "i", INT64_MIN, -1, &i, &f), 0);
	ck_assert_int_eq(i, INT64_MIN);
	ck_assert_int_eq(wire_get_int(&c, "i", -5, 5, &i, &f), 0);
	ck_assert_int_eq(i, -5);
	ck_assert_int_eq(wire_get_bool(&c, "b", &b, &f), 0);
	ck_assert(b);
	ck_assert_int_eq(wire_get_text(&c, "t", 6, &text, &n, &f), 0);
	ck_assert_uint_eq(n, 6);
	ck_assert_mem_eq(text, "device", 6);
	ck_assert_int_eq(wire_get_bin(&c, "s", LIMIT_SECRET_BYTES, &bin, &f), 0);
	ck_assert_uint_eq(((const uint8_t *)bin)[4], 255);
	ck_assert_int_eq(wire_get_map(&c, "m", 2, &in, &f), 0);
	ck_assert_uint_eq(in.left, 4);
	ck_assert_int_eq(wire_get_text(&in, "key", 14, &text, &n, &f), 0);
	ck_assert_int_eq(wire_get_text(&in, "value", 14, &text, &n, &f), 0);
	ck_assert_int_eq(text[0], '1');
	ck_assert_int_eq(wire_get_text(&in, "key", 100, &text, &n, &f), 0);
	ck_assert_int_eq(wire_get_text(&in, "value", 14, &text, &n, &f), 0);
	ck_assert_uint_eq(n, 0);
	ck_assert_int_eq(wire_get_end(&in, "m", &f), 0);
	ck_assert_int_eq(wire_get_array(&c, "a", 20, &in, &f), 0);
	for (int k = 0; k < 20; k++) {
		ck_assert_int_eq(wire_get_int(&in, "e", 0, INT64_MAX, &i, &f), 0);
		ck_assert_int_eq(i, k * 7000);
	}
	ck_assert_int_eq(wire_get_array(&c, "a", 20, &in, &f), 0);
	ck_assert_uint_eq(in.left, 0);
	ck_assert_int_eq(wire_get_end(&c, "sample", &f), 0);
	wire_close(&r);
	wire_writer_free(&w);
}
END_TEST

START_TEST(numbers_of_every_width_keep_their_value) {
	struct wire_writer w;
	struct wire_reader r;
	struct wire_cursor c;
	struct fault f;

	wire_writer_init(&w);
	for (int shift = 0; shift < 64; shift++) {
		for (int delta = -1; delta <= 1; delta++) {
			uint64_t u = (UINT64_C(1) << shift) + (uint64_t)delta, v;
			int64_t i = (int64_t)(0 - u), j;

			wire_writer_clear(&w);
			wire_put_array(&w, 2);
			wire_put_uint(&w, u);
			wire_put_int(&w, i);
			ck_assert_int_eq(wire_open(&r, w.buffer.data, w.buffer.size, &f), 0);
			c = wire_root(&r);
			ck_assert_int_eq(wire_get_uint(&c, "u", UINT64_MAX, &v, &f), 0);
			ck_assert_int_eq(wire_get_int(&c, "i", INT64_MIN, INT64_MAX, &j, &f), 0);
			ck_assert_uint_eq(u, v);
			ck_assert_int_eq(i, j);
			wire_close(&r);
		}
	}
	wire_writer_free(&w);
}
END_TEST

START_TEST(every_prefix_of_a_frame_is_refused) {
	struct wire_writer w;
	struct fault f;

	wire_writer_init(&w);
	write_sample(&w);
	for (size_t n = 0; n < w.buffer.size; n++)
		ck_assert_int_eq(open_copy(w.buffer.data, n, &f), FAULT_PROTOCOL);
	ck_assert_int_eq(open_copy(w.buffer.data, w.buffer.size, &f), 0);
	wire_writer_free(&w);
}
END_TEST

START_TEST(bytes_after_the_end_are_refused) {
	REFUSED("the message has bytes after its end", 0x90, 0xc0);
	REFUSED("the message has bytes after its end", 0x91, 0x01, 0x01);
}
END_TEST

START_TEST(nothing_but_an_array_is_a_frame) {
	REFUSED("the message is no array", 0x01);
	REFUSED("the message is no array", 0x80);
	REFUSED("the message is no array", 0xa1, 'x');
	REFUSED("the message is no array", 0xc0);
	ck_assert_int_eq(open_copy("", 0, NULL), FAULT_PROTOCOL);
}
END_TEST

START_TEST(counts_beyond_the_bytes_are_refused_before_anything_is_allocated) {
	REFUSED("the message claims more values than it has bytes", 0xdd, 0xff, 0xff, 0xff, 0xff);
	REFUSED("the message claims more values than it has bytes", 0xdf, 0xff, 0xff, 0xff, 0xff, 0, 0);
	REFUSED("the message claims more values than it has bytes", 0xdf, 0x80, 0, 0, 0, 0, 0);
	REFUSED("the message claims more values than it has bytes", 0x93, 0xdc, 0xff, 0xff, 1, 2);
	REFUSED("the message ends in the middle of a value", 0x91, 0xdb, 0xff, 0xff, 0xff, 0xff, 'x');
	REFUSED("the message ends in the middle of a value", 0x91, 0xc6, 0x7f, 0xff, 0xff, 0xff, 'x');
	REFUSED("the message ends in the middle of a value", 0x91, 0xcf, 1, 2, 3);
	REFUSED("the message ends in the middle of a value", 0x91, 0xd9);
}
END_TEST

START_TEST(nesting_beyond_the_limit_is_refused) {
	uint8_t bytes[100000];
	struct fault f;

	memset(bytes, 0x91, sizeof bytes);
	bytes[LIMIT_WIRE_DEPTH - 1] = 0x90;
	ck_assert_int_eq(open_copy(bytes, LIMIT_WIRE_DEPTH, &f), 0);
	bytes[LIMIT_WIRE_DEPTH - 1] = 0x91;
	bytes[LIMIT_WIRE_DEPTH] = 0x90;
	ck_assert_int_eq(open_copy(bytes, LIMIT_WIRE_DEPTH + 1, &f), FAULT_PROTOCOL);
	ck_assert_str_eq(f.text, "the message nests too deeply");
	memset(bytes, 0x91, sizeof bytes);
	ck_assert_int_eq(open_copy(bytes, sizeof bytes, &f), FAULT_PROTOCOL);
	memset(bytes, 0x81, sizeof bytes);
	ck_assert_int_eq(open_copy(bytes, sizeof bytes, &f), FAULT_PROTOCOL);
}
END_TEST

START_TEST(types_the_protocol_does_not_use_are_refused) {
	static const uint8_t unused[] = { 0xc1, 0xc7, 0xc8, 0xc9, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8 };

	for (size_t i = 0; i < sizeof unused; i++)
		REFUSED("the message has a value of a type that the protocol does not use", 0x91, unused[i],
			0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
}
END_TEST

START_TEST(frames_too_long_or_with_too_many_values_are_refused) {
	size_t size = LIMIT_FRAME_BYTES + 1;
	uint8_t *bytes = calloc(1, size);
	uint32_t count = LIMIT_WIRE_VALUES + 1;
	struct fault f;

	ck_assert_ptr_nonnull(bytes);
	ck_assert_int_eq(open_copy(bytes, size, &f), FAULT_PROTOCOL);
	ck_assert_str_eq(f.text, "the message is too long");
	for (unsigned i = 0; i < 5; i++)
		bytes[i] = i ? (uint8_t)(count >> (32 - 8 * i)) : 0xdd;
	ck_assert_int_eq(open_copy(bytes, count + 5, &f), FAULT_PROTOCOL);
	ck_assert_str_eq(f.text, "the message has too many values");
	count--;
	for (unsigned i = 1; i < 5; i++)
		bytes[i] = (uint8_t)(count >> (32 - 8 * i));
	ck_assert_int_eq(open_copy(bytes, count + 5, &f), 0);
	free(bytes);
}
END_TEST

/* Reads the next value of w's frame with `call`, which must refuse with the sentence. */
#define GET_REFUSED(sentence, call)                                                                          \
	do {                                                                                                 \
		c = wire_root(&r);                                                                           \
		ck_assert_int_eq(call, FAULT_PROTOCOL);                                                      \
		ck_assert_str_eq(f.text, sentence);                                                          \
		ck_assert_uint_eq(c.left, wire_root(&r).left);                                               \
	} while (0)

START_TEST(values_of_another_type_or_range_are_refused_by_the_name_of_their_field) {
	static const uint8_t negative[] = { 0x91, 0xff },
			     large[] = { 0x91, 0xcf, 255, 255, 255, 255, 255, 255, 255, 255 };
	struct wire_cursor c, in;
	struct wire_reader r;
	struct fault f;
	const char *text;
	const void *bin;
	uint64_t u;
	int64_t i;
	size_t n;
	bool b;

	ck_assert_int_eq(wire_open(&r, negative, sizeof negative, &f), 0);
	GET_REFUSED(
		"field seq is an integer instead of an unsigned number", wire_get_uint(&c, "seq", 9, &u, &f));
	GET_REFUSED("field axis is not between 0 and 9", wire_get_int(&c, "axis", 0, 9, &i, &f));
	GET_REFUSED("field keep is an integer instead of a truth value", wire_get_bool(&c, "keep", &b, &f));
	GET_REFUSED(
		"field name is an integer instead of a text", wire_get_text(&c, "name", 9, &text, &n, &f));
	GET_REFUSED("field secret is an integer instead of bytes", wire_get_bin(&c, "secret", 9, &bin, &f));
	GET_REFUSED("field ops is an integer instead of an array", wire_get_array(&c, "ops", 9, &in, &f));
	GET_REFUSED("field options is an integer instead of a map", wire_get_map(&c, "options", 9, &in, &f));
	GET_REFUSED("the frame has 1 values too many", wire_get_end(&c, "the frame", &f));
	wire_close(&r);
	ck_assert_int_eq(wire_open(&r, large, sizeof large, &f), 0);
	GET_REFUSED("field seq is 18446744073709551615, more than 9", wire_get_uint(&c, "seq", 9, &u, &f));
	GET_REFUSED("field n is not between -9223372036854775808 and 9223372036854775807",
		wire_get_int(&c, "n", INT64_MIN, INT64_MAX, &i, &f));
	wire_close(&r);
}
END_TEST

START_TEST(a_text_of_no_bytes_has_a_place) {
	static const uint8_t empty[] = { 0x91, 0xa0 };
	char copy[4] = "abc";
	struct wire_cursor c;
	struct wire_reader r;
	struct fault f;
	const char *text = NULL;
	size_t n = 1;

	ck_assert_int_eq(wire_open(&r, empty, sizeof empty, &f), 0);
	c = wire_root(&r);
	ck_assert_int_eq(wire_get_text(&c, "name", 3, &text, &n, &f), 0);
	ck_assert_ptr_nonnull(text);
	ck_assert_uint_eq(n, 0);
	c = wire_root(&r);
	ck_assert_int_eq(wire_copy_text(&c, "name", copy, sizeof copy, &f), 0);
	ck_assert_str_eq(copy, "");
	wire_close(&r);
}
END_TEST

START_TEST(sizes_of_another_length_are_refused_by_the_name_of_their_field) {
	static const uint8_t text4[] = { 0x91, 0xa4, 'a', 'b', 0, 'd' },
			     bin4[] = { 0x91, 0xc4, 4, 1, 2, 3, 4 };
	static const uint8_t array3[] = { 0x91, 0x93, 1, 2, 3 }, map1[] = { 0x91, 0x81, 1, 2 },
			     none[] = { 0x90 };
	static const uint8_t real[] = { 0x91, 0xca, 0, 0, 0, 0 }, nil[] = { 0x91, 0xc0 };
	struct wire_cursor c, in;
	struct wire_reader r;
	struct fault f;
	const char *text;
	const void *bin;
	uint64_t u;
	size_t n;

	ck_assert_int_eq(wire_open(&r, text4, sizeof text4, &f), 0);
	GET_REFUSED("field name has 4 bytes, more than 3", wire_get_text(&c, "name", 3, &text, &n, &f));
	GET_REFUSED("field name contains a zero byte", wire_get_text(&c, "name", 4, &text, &n, &f));
	wire_close(&r);
	ck_assert_int_eq(wire_open(&r, bin4, sizeof bin4, &f), 0);
	GET_REFUSED("field secret has 4 bytes instead of 16", wire_get_bin(&c, "secret", 16, &bin, &f));
	wire_close(&r);
	ck_assert_int_eq(wire_open(&r, array3, sizeof array3, &f), 0);
	GET_REFUSED("field ops has 3 entries, more than 2", wire_get_array(&c, "ops", 2, &in, &f));
	wire_close(&r);
	ck_assert_int_eq(wire_open(&r, map1, sizeof map1, &f), 0);
	GET_REFUSED("field options has 1 entries, more than 0", wire_get_map(&c, "options", 0, &in, &f));
	wire_close(&r);
	ck_assert_int_eq(wire_open(&r, none, sizeof none, &f), 0);
	GET_REFUSED("field seq is missing", wire_get_uint(&c, "seq", 9, &u, &f));
	wire_close(&r);
	ck_assert_int_eq(wire_open(&r, real, sizeof real, &f), 0);
	GET_REFUSED("field seq is a floating-point number instead of an unsigned number",
		wire_get_uint(&c, "seq", 9, &u, &f));
	wire_close(&r);
	ck_assert_int_eq(wire_open(&r, nil, sizeof nil, &f), 0);
	GET_REFUSED(
		"field seq is nothing instead of an unsigned number", wire_get_uint(&c, "seq", 9, &u, &f));
	wire_close(&r);
}
END_TEST

START_TEST(a_fault_travels_as_zero_code_and_sentence) {
	struct fault f = { .code = FAULT_SHAPE, .text = "shapes differ" }, g;
	struct wire_writer w;
	struct wire_reader r;
	struct wire_cursor c;
	const char *text;
	uint64_t u;
	size_t n;

	wire_writer_init(&w);
	wire_put_fault(&w, &f);
	ck_assert_int_eq(wire_finish(&w), 0);
	ck_assert_int_eq(wire_open(&r, w.buffer.data, w.buffer.size, &g), 0);
	c = wire_root(&r);
	ck_assert_int_eq(wire_get_uint(&c, "id", 0, &u, &g), 0);
	ck_assert_int_eq(wire_get_uint(&c, "code", 100, &u, &g), 0);
	ck_assert_uint_eq(u, FAULT_SHAPE);
	ck_assert_int_eq(wire_get_text(&c, "sentence", LIMIT_SENTENCE, &text, &n, &g), 0);
	ck_assert_mem_eq(text, "shapes differ", n);
	ck_assert_int_eq(wire_get_end(&c, "fault", &g), 0);
	wire_close(&r);
	wire_writer_free(&w);
}
END_TEST

START_TEST(raw_bytes_join_two_writers_and_clear_keeps_memory) {
	struct wire_writer a, b;
	const char *data;

	wire_writer_init(&a);
	wire_writer_init(&b);
	wire_put_array(&a, 2);
	wire_put_uint(&b, 1);
	wire_put_uint(&b, 2);
	wire_put_raw(&a, b.buffer.data, b.buffer.size);
	wire_put_raw(&a, NULL, 0);
	ck_assert_int_eq(wire_finish(&a), 0);
	ck_assert_int_eq(open_copy(a.buffer.data, a.buffer.size, NULL), 0);
	data = b.buffer.data;
	wire_writer_clear(&b);
	wire_put_uint(&b, 1);
	ck_assert_ptr_eq(b.buffer.data, data);
	ck_assert_uint_eq(b.buffer.size, 1);
	wire_writer_free(&a);
	wire_writer_free(&b);
}
END_TEST

static int fail_to_write(void *data, const char *bytes, size_t size) {
	(void)data;
	(void)bytes;
	(void)size;
	return -1;
}

START_TEST(the_first_failure_of_a_writer_sticks) {
	struct wire_writer w;
	msgpack_packer_write write;

	wire_writer_init(&w);
	write = w.packer.callback;
	w.packer.callback = fail_to_write;
	wire_put_uint(&w, 1);
	w.packer.callback = write;
	wire_put_uint(&w, 1);
	ck_assert_int_eq(wire_finish(&w), -ENOMEM);
	wire_writer_clear(&w);
	ck_assert_int_eq(wire_finish(&w), 0);
	wire_writer_free(&w);
}
END_TEST

START_TEST(what_is_short_lies_in_the_writer_and_what_is_longer_begins_the_same) {
	unsigned char bytes[3 * WIRE_SMALL], first[WIRE_SMALL];
	struct wire_writer w;
	size_t size;

	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (unsigned char)i;
	wire_writer_init(&w);
	wire_put_bin(&w, bytes, WIRE_SMALL / 2);
	ck_assert_ptr_eq(w.buffer.data, w.buffer.small);
	size = w.buffer.size;
	memcpy(first, w.buffer.data, size);
	wire_put_bin(&w, bytes, sizeof bytes);
	ck_assert_int_eq(wire_finish(&w), 0);
	ck_assert_mem_eq(w.buffer.data, first, size);
	ck_assert_mem_eq(w.buffer.data + w.buffer.size - sizeof bytes, bytes, sizeof bytes);
	wire_writer_free(&w);
	ck_assert_ptr_eq(w.buffer.data, w.buffer.small);
}
END_TEST

/* Visits every value, so that a sanitizer sees each of them. */
static uint64_t walk(struct wire_cursor c) {
	struct wire_cursor in;
	const char *text;
	uint64_t sum = 0, u;
	size_t n;
	int64_t i;
	bool b;

	while (c.left) {
		uint32_t before = c.left;

		if (!wire_get_array(&c, "a", UINT32_MAX, &in, NULL) ||
			!wire_get_map(&c, "m", UINT32_MAX, &in, NULL))
			sum += walk(in);
		else if (!wire_get_text(&c, "t", SIZE_MAX, &text, &n, NULL))
			sum += n ? (uint8_t)text[n - 1] : 0;
		else if (!wire_get_uint(&c, "u", UINT64_MAX, &u, NULL))
			sum += u;
		else if (!wire_get_int(&c, "i", INT64_MIN, INT64_MAX, &i, NULL))
			sum += (uint64_t)i;
		else if (!wire_get_bool(&c, "b", &b, NULL))
			sum += b;
		if (c.left == before)
			c.next++, c.left--;
	}
	return sum;
}

START_TEST(mutated_and_random_frames_never_harm_the_reader) {
	struct wire_writer w;
	uint64_t state = 1, sum = 0;
	unsigned opened = 0;
	size_t size;
	uint8_t *copy;

	wire_writer_init(&w);
	write_sample(&w);
	size = w.buffer.size;
	copy = malloc(size);
	ck_assert_ptr_nonnull(copy);
	for (int i = 0; i < 100000; i++) {
		unsigned changes = 1 + random_below(&state, 4);
		struct wire_reader r;

		memcpy(copy, w.buffer.data, size);
		for (unsigned k = 0; k < (i % 4 ? changes : size); k++)
			copy[i % 4 ? random_below(&state, (unsigned)size) : k] = (uint8_t)random_word(&state);
		if (wire_open(&r, copy, size, NULL))
			continue;
		sum += walk(wire_root(&r));
		wire_close(&r);
		opened++;
	}
	ck_assert_uint_gt(opened, 1000);
	ck_assert_uint_ne(sum, 0);
	free(copy);
	wire_writer_free(&w);
}
END_TEST

RUN_TESTS("protocol_wire", what_is_written_is_read_back, frames_are_read_in_memory_that_stays, numbers_of_every_width_keep_their_value,
	every_prefix_of_a_frame_is_refused, bytes_after_the_end_are_refused, nothing_but_an_array_is_a_frame,
	counts_beyond_the_bytes_are_refused_before_anything_is_allocated, nesting_beyond_the_limit_is_refused,
	types_the_protocol_does_not_use_are_refused, frames_too_long_or_with_too_many_values_are_refused,
	values_of_another_type_or_range_are_refused_by_the_name_of_their_field,
	sizes_of_another_length_are_refused_by_the_name_of_their_field, a_text_of_no_bytes_has_a_place,
	a_fault_travels_as_zero_code_and_sentence, raw_bytes_join_two_writers_and_clear_keeps_memory,
	the_first_failure_of_a_writer_sticks, what_is_short_lies_in_the_writer_and_what_is_longer_begins_the_same,
	mutated_and_random_frames_never_harm_the_reader)
