/* protocol/message: what HELLO agrees on. */
#include "protocol/message.h"

#include "protocol/op.h"
#include "protocol/wire.h"
#include "tests/test_protocol.h"

START_TEST(both_use_the_newest_version_that_both_speak) {
	static const struct {
		struct message_versions a, b;
		uint64_t agreed;
	} cases[] = {
		{ { 1, 1 }, { 1, 1 }, 1 },
		{ { 1, 3 }, { 2, 5 }, 3 },
		{ { 2, 4 }, { 3, 3 }, 3 },
		{ { 1, 2 }, { 3, 4 }, 0 },
		{ { 4, 9 }, { 1, 3 }, 0 },
		{ { 1, UINT64_MAX }, { 7, UINT64_MAX }, UINT64_MAX },
		{ { 0, 0 }, { 1, 2 }, 0 },
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		ck_assert_uint_eq(message_agree(cases[i].a, cases[i].b), cases[i].agreed);
		ck_assert_uint_eq(message_agree(cases[i].b, cases[i].a), cases[i].agreed);
	}
}
END_TEST

START_TEST(versions_are_told_by_their_range) {
	char text[VERSIONS_TEXT];

	ck_assert_str_eq(message_versions_text((struct message_versions){ 3, 3 }, text), "version 3");
	ck_assert_str_eq(message_versions_text((struct message_versions){ 3, UINT64_MAX }, text), "versions 3 to 18446744073709551615");
}
END_TEST

/* A list of so many numbers; count 0: the number alone. */
static int get(unsigned count, const uint64_t n[], struct message_versions *v, struct fault *f) {
	struct wire_reader reader;
	struct wire_writer w;
	struct wire_cursor c;
	int r;

	wire_writer_init(&w);
	wire_put_array(&w, 1);
	if (count)
		wire_put_array(&w, count);
	for (unsigned i = 0; i < (count ? count : 1); i++)
		wire_put_uint(&w, n[i]);
	ck_assert_int_eq(wire_open(&reader, w.buffer.data, w.buffer.size, f), 0);
	c = wire_root(&reader);
	r = message_get_versions(&c, v, f);
	wire_close(&reader);
	wire_writer_free(&w);
	return r;
}

START_TEST(a_version_may_be_a_number_or_a_range) {
	struct message_versions v;
	struct fault f;

	ck_assert_int_eq(get(0, (uint64_t[]){ 7 }, &v, &f), 0);
	ck_assert_uint_eq(v.oldest, 7);
	ck_assert_uint_eq(v.newest, 7);
	ck_assert_int_eq(get(2, (uint64_t[]){ 2, 9 }, &v, &f), 0);
	ck_assert_uint_eq(v.oldest, 2);
	ck_assert_uint_eq(v.newest, 9);
	ck_assert_int_eq(get(2, (uint64_t[]){ 9, 2 }, &v, &f), FAULT_PROTOCOL);
	ck_assert_str_eq(f.text, "the oldest version, 9, is above the newest, 2");
	ck_assert_int_eq(get(1, (uint64_t[]){ 9 }, &v, &f), FAULT_PROTOCOL);
	ck_assert_int_eq(get(3, (uint64_t[]){ 1, 2, 3 }, &v, &f), FAULT_PROTOCOL);
}
END_TEST

START_TEST(each_feature_has_a_name_of_its_own) {
	ck_assert_str_eq(message_feature(FEATURE_PATTERNS), "PATTERNS (fusion patterns of programs)");
	ck_assert_str_eq(message_feature(FEATURE_REPLAY), "REPLAY (recorded graphs)");
	ck_assert_str_eq(message_feature(UINT64_C(1) << 63), "unknown");
}
END_TEST

START_TEST(operations_are_told_by_their_bits) {
	uint8_t bits[MESSAGE_OPERATIONS];
	unsigned count = 0;

	message_operations(bits);
	for (unsigned op = 0; op < OP_COUNT; op++) {
		ck_assert_int_eq(bits[op / 8] >> op % 8 & 1, op_info(op) != NULL);
		count += op_info(op) != NULL;
	}
	ck_assert_uint_gt(count, 100);
}
END_TEST

RUN_TESTS("protocol_message", both_use_the_newest_version_that_both_speak, versions_are_told_by_their_range,
	a_version_may_be_a_number_or_a_range, each_feature_has_a_name_of_its_own, operations_are_told_by_their_bits)
