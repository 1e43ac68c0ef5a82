/* The right name for a mistyped one: each edit of each name of two tables is taken back, and what is far from all has no hint. */
#include "protocol/nearest.h"

#include <stdio.h>
#include <string.h>

#include "tests/test_protocol.h"

static const char *const names[] = {
#define VARIABLE(name, type, wants) #name,
#define OTHER(prefix)
#include "protocol/variables.def"
#undef VARIABLE
#undef OTHER
	"door.mode", "fusion.enabled", "fusion.window_us", "fusion.pattern.linear",
};

enum { NAMES = sizeof names / sizeof *names };

static const char *hint_of(const char *wanted, char text[static NEAREST_SENTENCE]) {
	struct nearest n;

	nearest_begin(&n, wanted, strlen(wanted));
	for (unsigned i = 0; i < NAMES; i++)
		nearest_try(&n, names[i]);
	return nearest_text(&n, "", text);
}

static void expect(const char *wanted, const char *name) {
	char text[NEAREST_SENTENCE], right[NEAREST_SENTENCE];

	snprintf(right, sizeof right, "; do you mean %s?", name);
	ck_assert_str_eq(hint_of(wanted, text), right);
}

START_TEST(one_edit_of_a_name_is_taken_back) {
	char wrong[NEAREST_TEXT];

	for (unsigned i = 0; i < NAMES; i++) {
		const char *name = names[i];
		int length = (int)strlen(name);

		for (int at = 0; at < length; at++) {
			/* CA, CERT and KEY have too little left of them for each wrong letter to be told from another name. */
			snprintf(wrong, sizeof wrong, "%.*s%s", at, name, name + at + 1);
			if (length > 4)
				expect(wrong, name);
			snprintf(wrong, sizeof wrong, "%.*sX%s", at, name, name + at + 1);
			if (length > 2)
				expect(wrong, name);
			snprintf(wrong, sizeof wrong, "%.*sX%s", at, name, name + at);
			expect(wrong, name);
			if (at + 1 == length)
				break;
			snprintf(wrong, sizeof wrong, "%.*s%c%c%s", at, name, name[at + 1], name[at], name + at + 2);
			expect(wrong, name);
		}
	}
}
END_TEST

START_TEST(capital_letters_are_no_other_ones) {
	expect("socket", "SOCKET");
	expect("Fusion.Enabled", "fusion.enabled");
}
END_TEST

START_TEST(what_is_far_from_all_has_no_hint) {
	static const char *const far[] = { "", "X", "COLOUR", "TIMEOUT_MS", "VERBOSE", "limits.handles", "nothing.here" };
	char text[NEAREST_SENTENCE], longest[3 * NEAREST_TEXT];

	for (unsigned i = 0; i < sizeof far / sizeof *far; i++)
		ck_assert_msg(!*hint_of(far[i], text), "%s: %s", far[i], text);
	memset(longest, 'S', sizeof longest - 1);
	for (unsigned n = NEAREST_TEXT - 2; n < sizeof longest; n++) {
		longest[n] = 0;
		ck_assert_str_eq(hint_of(longest, text), "");
		longest[n] = 'S';
	}
}
END_TEST

START_TEST(the_nearest_of_two_is_told_and_the_first_of_equal_ones) {
	struct nearest n;
	char text[NEAREST_SENTENCE];

	nearest_begin(&n, "door.modf", 9);
	nearest_try(&n, "door.mods");
	nearest_try(&n, "door.mode");
	nearest_try(&n, "door.more");
	ck_assert_str_eq(nearest_text(&n, "the setting ", text), "; do you mean the setting door.mods?");
	nearest_try(&n, "door.modf");
	ck_assert_str_eq(nearest_text(&n, "", text), "; do you mean door.modf?");
}
END_TEST

RUN_TESTS("protocol_nearest", one_edit_of_a_name_is_taken_back, capital_letters_are_no_other_ones, what_is_far_from_all_has_no_hint,
	the_nearest_of_two_is_told_and_the_first_of_equal_ones)
