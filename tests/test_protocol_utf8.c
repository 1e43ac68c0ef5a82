/* Text of any bytes: each code has one form, and what turns, ends or hides text is told apart from what people read. */
#include "protocol/utf8.h"

#include <string.h>

#include "tests/test_protocol.h"

enum { CODES = 0x110000 };

static bool is_surrogate(uint32_t code) {
	return code >= 0xd800 && code < 0xe000;
}

/* A code in so many bytes, whether or not it is to have them. */
static void encode(uint32_t code, size_t bytes, char text[static 5]) {
	static const unsigned char mark[] = { 0, 0x00, 0xc0, 0xe0, 0xf0 };

	memset(text, 0, 5);
	for (size_t i = bytes; i-- > 1; code >>= 6)
		text[i] = (char)(0x80 | (code & 0x3f));
	text[0] = (char)(mark[bytes] | code);
}

static size_t bytes_of(uint32_t code) {
	return code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
}

START_TEST(each_code_is_read_from_its_bytes) {
	char text[5];
	uint32_t code;

	for (uint32_t wanted = 1; wanted < CODES; wanted++) {
		size_t bytes = is_surrogate(wanted) ? 0 : bytes_of(wanted);

		encode(wanted, bytes_of(wanted), text);
		if (utf8_decode(text, &code) != bytes || code != (bytes ? wanted : 0))
			ck_abort_msg("U+%04x", wanted);
	}
}
END_TEST

/* Else "/" had three forms more, by which it passed those who look for it. */
START_TEST(a_form_longer_than_it_need_be_is_none) {
	char text[5];
	uint32_t code;

	for (uint32_t wanted = 0; wanted < 0x10000; wanted++)
		for (size_t bytes = bytes_of(wanted) + 1; bytes <= 4; bytes++) {
			encode(wanted, bytes, text);
			if (utf8_decode(text, &code))
				ck_abort_msg("U+%04x in %zu bytes", wanted, bytes);
		}
}
END_TEST

START_TEST(what_is_no_text_is_none) {
	static const char *const texts[] = { "", "\x80", "\xbf", "\xfe", "\xff", "\xf8\x88\x80\x80\x80", "\xf4\x90\x80\x80", "\xf7\xbf\xbf\xbf", "\xc3", "\xe2\x80",
		"\xf0\x9f\x99", "\xc3(", "\xe2(\xa1", "\xe2\x82(", "\xf0\x9f\x99(" };
	uint32_t code;

	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		ck_assert_msg(utf8_decode(texts[i], &code) == 0, "text %zu", i);
}
END_TEST

/* Unicode's Bidi_Control; separators of lines and paragraphs; no width; controls; no characters. */
START_TEST(what_turns_ends_or_hides_text_is_not_shown) {
	static const uint32_t codes[] = {
		0x61c, 0x200e, 0x200f, 0x202a, 0x202b, 0x202c, 0x202d, 0x202e, 0x2066, 0x2067, 0x2068, 0x2069,
		0x0b, 0x0c, 0x85, 0x2028, 0x2029,
		0xad, 0x180e, 0x200b, 0x200c, 0x200d, 0x2060, 0x2061, 0x2064, 0xfeff,
		0x00, 0x07, 0x08, '\n', '\r', '\t', 0x1b, 0x1f, 0x7f, 0x80, 0x9b, 0x9f,
		0x34f, 0x115f, 0x1160, 0x17b4, 0x17b5, 0x3164, 0xffa0, 0xfff0, 0xe0080, 0xe01f0, 0xe0fff,
		0x206a, 0x206f, 0xfff9, 0xfffb, 0xe0001, 0xe0020, 0xe007f,
		0xd800, 0xdbff, 0xdc00, 0xdfff, 0xfdd0, 0xfdef, 0xfffe, 0xffff, 0x1fffe, 0x10ffff, 0x110000, 0xffffffff,
	};

	for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
		ck_assert_msg(!utf8_is_shown(codes[i]), "U+%04x", codes[i]);
}
END_TEST

START_TEST(what_people_write_is_shown) {
	static const char text[] = " ~!Grün, ελληνικά, ру́сский, עברית, العربية, हिन्दी, ไทย, 日本語、한국어 → ∑ “”… 🙂 ♥️";
	uint32_t code;
	size_t bytes;

	for (const char *at = text; *at; at += bytes) {
		bytes = utf8_decode(at, &code);
		ck_assert_msg(bytes && utf8_is_shown(code), "U+%04x", code);
	}
}
END_TEST

RUN_TESTS("protocol_utf8", each_code_is_read_from_its_bytes, a_form_longer_than_it_need_be_is_none, what_is_no_text_is_none,
	what_turns_ends_or_hides_text_is_not_shown, what_people_write_is_shown)
