/* daemon/base/log: a line is a line, whatever bytes a client put into it. */
#include <check.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "tests/suite.h"

enum { TEXT = 4096 };

/* What standard error holds after this message, as under a service manager or not. */
static void say(const char *message, bool journal, char written[static TEXT]) {
	int saved = dup(STDERR_FILENO), fd = memfd_create("log", 0);
	ssize_t n;

	if (journal) {
		setenv("JOURNAL_STREAM", "1:1", 1);
		setenv("INVOCATION_ID", "1", 1);
	} else {
		unsetenv("JOURNAL_STREAM");
	}
	log_open("fusiond");
	dup2(fd, STDERR_FILENO);
	log_message(LOG_LEVEL_WARNING, "a client says %s", message);
	dup2(saved, STDERR_FILENO);
	n = pread(fd, written, TEXT - 1, 0);
	written[n > 0 ? n : 0] = 0;
	close(fd);
	close(saved);
}

START_TEST(a_client_cannot_begin_a_line_or_forge_a_priority) {
	char text[TEXT];

	say("x\n<0>the machine is on fire", true, text);
	ck_assert_str_eq(text, "<4>a client says x\\x0a<0>the machine is on fire\n");
	say("x\r\nfusiond: ready", false, text);
	ck_assert_str_eq(text, "fusiond: a client says x\\x0d\\x0afusiond: ready\n");
}
END_TEST

START_TEST(no_byte_but_printable_ones_reaches_the_log) {
	for (unsigned byte = 1; byte < 256; byte++) {
		char message[] = { 'a', (char)byte, 'b', 0 }, text[TEXT];

		say(message, false, text);
		ck_assert_uint_eq(strcspn(text, "\n"), strlen(text) - 1);
		for (const char *p = text; p[1]; p++)
			ck_assert_msg(*p >= 0x20 && *p < 0x7f, "byte %#x", byte);
	}
}
END_TEST

START_TEST(letters_of_all_languages_stay_as_they_are) {
	char text[TEXT];

	say("Grün, ελληνικά, 日本, 🙂", false, text);
	ck_assert_str_eq(text, "fusiond: a client says Grün, ελληνικά, 日本, 🙂\n");
}
END_TEST

START_TEST(what_turns_or_hides_text_is_written_out) {
	static const char *const bad[] = { "\xc2\x9b" "2J", "\xe2\x80\xae" "x", "\xe2\x80\xa8", "\xd8\x9c", "\xe2\x80\x8e", "\xc2\xad", "\xed\xa0\x80", "\xc0\x8a", "\xf4\x90\x80\x80", "\xef\xbb\xbf",
		"\xe2\x80", "\xff" };
	char text[TEXT];

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		log_escape(text, sizeof text, bad[i]);
		ck_assert_msg(!strncmp(text, "\\x", 2), "%s", text);
	}
}
END_TEST

START_TEST(a_long_line_is_cut_between_characters_and_ends) {
	char message[TEXT], text[TEXT];

	memset(message, 1, sizeof message - 1);
	message[sizeof message - 1] = 0;
	say(message, false, text);
	ck_assert_uint_lt(strlen(text), 1025);
	ck_assert_str_eq(text + strlen(text) - 5, "\\x01\n");
	ck_assert_uint_eq(log_escape(text, 6, "ab\xc3\xbc\xc3\xbc"), 4);
}
END_TEST

int main(void) {
	Suite *suite = suite_create("log");
	TCase *tests = tcase_create("log");

	tcase_add_test(tests, a_client_cannot_begin_a_line_or_forge_a_priority);
	tcase_add_test(tests, no_byte_but_printable_ones_reaches_the_log);
	tcase_add_test(tests, letters_of_all_languages_stay_as_they_are);
	tcase_add_test(tests, what_turns_or_hides_text_is_written_out);
	tcase_add_test(tests, a_long_line_is_cut_between_characters_and_ends);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
